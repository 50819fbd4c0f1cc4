from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.endpoint_bound import arrived, endpoint, generated


def test_what_arrived_in_between_is_counted(tmp_path: Path) -> None:
    lines = [json.dumps({"at_s": at_s, "number": n}) for n, at_s in enumerate((1.0, 2.0, 2.5, 3.0, 6.0))]
    (tmp_path / "log").write_text("\n".join(lines))
    rate = arrived(tmp_path / "log", 2.0, 4.0)
    assert (rate.seconds, rate.decisions_per_s) == (2.0, 1.5)


@pytest.mark.slow
def test_a_load_generator_keeps_as_many_requests_in_flight_as_it_is_told_and_no_more(tmp_path: Path) -> None:
    """Five at a time that take 0.2 s each are 25 a second at most."""
    with endpoint(0.2, tmp_path / "log") as url:
        rate = arrived(tmp_path / "log", *generated(5, url, 4.0))
    assert 2 < rate.decisions_per_s <= 25 + 5 / rate.seconds
