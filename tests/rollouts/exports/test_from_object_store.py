"""A run in an S3 bucket on loopback is exported as the same run on a disk is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rollouts.cli import main
from rollouts.store.storage import open_storage
from tests.exported_runs import judge, make, provenance
from tests.s3_servers import new_bucket, object_store, uri_in

pytestmark = pytest.mark.slow
FORMS = {"sft": "data/*.parquet", "webdataset": "*.tar", "lerobot": "data/*/*.parquet", "merge": "*/*.parquet"}


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with object_store() as place:
        bucket = new_bucket(place)
        judge(make(open_storage(uri_in(place, bucket, "runs"))))
        yield uri_in(place, bucket, "runs/known")


@pytest.mark.parametrize("form", FORMS)
def test_the_same_samples_come_out(uri: str, known: Path, tmp_path: Path, form: str) -> None:
    for run, out in ((uri, "from-s3"), (str(known), "from-disk")):
        assert main(["export", run, "--format", form, "--out", str(tmp_path / out), "--graded"]) == 0
    there, here = (sorted((tmp_path / out).glob(FORMS[form])) for out in ("from-s3", "from-disk"))
    assert [path.name for path in there] == [path.name for path in here] != []
    for one, other in zip(there, here, strict=True):
        if form == "webdataset":
            assert one.read_bytes() == other.read_bytes()
        else:
            assert same_but_for_hashes(one, other)
    assert provenance(tmp_path / "from-s3")["runs"][0]["location"] == uri.partition("?")[0]


def same_but_for_hashes(one: Path, other: Path) -> bool:
    tables = [pq.read_table(path) for path in (one, other)]
    names = [name for name in tables[0].column_names if not name.endswith("sha256")]
    return bool(tables[0].select(names).equals(tables[1].select(names)))
