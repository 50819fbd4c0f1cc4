from __future__ import annotations

import pytest

from rollouts.errors import UsageError
from rollouts.seeds import parse_seeds


@pytest.mark.parametrize(
    ("given", "seeds"),
    [
        ("published", None),
        ("0:8", (0, 1, 2, 3, 4, 5, 6, 7)),
        ("1,5,9", (1, 5, 9)),
        ("9, 1", (9, 1)),
        ("7", (7,)),
        ("0:2,10:12", (0, 1, 10, 11)),
        ("4294967295", (4294967295,)),
        ("4294967294:4294967296", (4294967294, 4294967295)),
        (7, (7,)),
        ([3, 1], (3, 1)),
        (["0:2", 5], (0, 1, 5)),
    ],
)
def test_the_forms_of_seeds(given: object, seeds: tuple[int, ...] | None) -> None:
    assert parse_seeds(given) == seeds


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("", '""'),
        ("abc", '"abc"'),
        ("1,,2", '"1,,2"'),
        ("1.5", '"1.5"'),
        ("0:8:2", '"0:8:2"'),
        ("8:0", "8:0"),
        ("3:3", "3:3"),
        ("-1", "seed -1"),
        ("-2:2", "seed -2"),
        ("4294967296", "seed 4294967296"),
        ("0:99999999999", "seed 99999999998"),
        ("1,2,1", "seed 1 is given twice"),
        ("0:4,3", "seed 3 is given twice"),
        ("0:4294967296", "1,000,000"),
        ("١", '"١"'),
        ("9" * 5_000, "999"),
        (1.0, '"1.0"'),
        (True, '"True"'),
        ([], '"[]"'),
        ([1.5], '"[1.5]"'),
        ("1\n2", '"1 2"'),
    ],
)
def test_bad_seeds_are_one_line_that_names_the_value(given: object, named: str) -> None:
    with pytest.raises(UsageError, match="--seeds") as caught:
        parse_seeds(given, "--seeds")
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
