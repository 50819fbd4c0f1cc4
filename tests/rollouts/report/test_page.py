"""The page as a file: honest about what went wrong, escaped, self-contained, and no larger than it may be."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from rollouts.errors import UsageError
from rollouts.evidence.committed_run import CommittedRun
from rollouts.frames import encode
from rollouts.records import Frame
from rollouts.report.embedding import embed
from rollouts.report.judgements import Axis, Judgements, Summary, Verdict
from rollouts.report.page import render_page, script_json
from rollouts.report.report import make_report
from rollouts.report.reported_run import ReportedRun
from rollouts.report.writing import Place, write_report
from tests.made_runs import HALF_RIGHT, SILENT, Played, Turn
from tests.reported_runs import histories_run, reported

HOSTILE = "</script><script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'><!--"
ROOM = 5_000_000


class Reader(HTMLParser):
    """Elements, and what references something."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def scripts(self) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == "script"]


def picture(shade: int) -> bytes:
    palette = np.zeros((256, 3), np.uint8)
    palette[1] = (shade, 0, 0)
    return encode(Frame(np.ones((24, 32), np.uint8), palette), "png")


def hostile_judge(run: CommittedRun) -> Judgements:
    axes = (Axis("goal", 0.5, 0.45, 0.225),)
    verdict = Verdict("j", "llm", HOSTILE, 0, "graded", None, None, "partial", HOSTILE, 0.2, axes, (HOSTILE,))
    ungraded = Verdict("k", "llm", "m", 0, "ungraded", "not_json", HOSTILE, None, None, None)
    summary = Summary(0, 1, HOSTILE, HOSTILE, None, "degraded", "cut_off")
    return Judgements(dict.fromkeys(run.latest, (verdict, ungraded)), "s", lambda ids: dict.fromkeys(ids, (summary,)))


def hostile_run(root: Path) -> CommittedRun:
    """Every text that a model or a failure can bring along is HTML."""
    turns = (Turn(HOSTILE, {"down": 0.9}, schema_error="not_an_option", picture=picture(200)), Turn("down", {}))
    histories = {HOSTILE: [Played(turns, 2.0), Played(failure=("policy", HOSTILE)), None]}
    return histories_run(root, histories)


def parts_of(page: str) -> dict[str, str]:
    return dict(re.findall(r'<script type="text/plain" id="([\w-]+)">([A-Za-z0-9+/=]*)</script>', page))


def opened(text: str) -> Mapping[str, Any]:
    found: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(text)))
    return found


def index_of(page: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(page.partition('id="index">')[2].partition("</script>")[0])
    return found


def rendered(run: CommittedRun, room: int = ROOM) -> str:
    read = [reported(run, hostile_judge)]
    return render_page(make_report(read), embed(read, room))


def test_no_text_of_a_run_becomes_markup(tmp_path: Path) -> None:
    page = rendered(hostile_run(tmp_path))
    reader = Reader(page)
    types = [attributes.get("type") for attributes in reader.scripts()]
    assert types == ["application/json", "text/plain", "text/plain", None]
    assert not any(tag == "img" and attributes.get("src") == "x" for tag, attributes in reader.tags)
    assert HOSTILE in " ".join(reader.texts)
    assert index_of(page)["groups"][0]["policy"] == HOSTILE


def test_the_policy_lets_only_the_pages_own_script_run(tmp_path: Path) -> None:
    page = rendered(hostile_run(tmp_path))
    script = page.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = [a["content"] for tag, a in Reader(page).tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert f"script-src 'sha256-{digest}';" in policy
    assert "default-src 'none'" in policy


def test_the_page_refers_to_nothing_outside(tmp_path: Path) -> None:
    reader = Reader(rendered(hostile_run(tmp_path)))
    named = [a[key] or "" for _, a in reader.tags for key in ("src", "href", "action", "data") if key in a]
    assert [name for name in named if not name.startswith(("#", "data:"))] == []


def test_script_json_has_no_character_that_html_reads() -> None:
    text = script_json({"a": f"{HOSTILE} \u2028 \ud800 & 名"})
    assert re.search(r"[<>&\u0080-\U0010ffff]", text) is None
    assert json.loads(text)["a"].startswith("</script>")


def test_a_damaged_shard_is_a_warning(tmp_path: Path) -> None:
    run = hostile_run(tmp_path)
    (shard, *_) = sorted(Path(run.folder.storage.full(run.path("steps"))).glob("part-*.parquet"))
    shard.write_bytes(shard.read_bytes()[:-9])
    with pytest.warns(UserWarning, match="1 damaged unit left out"):
        told = " ".join(Reader(rendered(CommittedRun.open(run.folder))).texts)
    assert f"its steps shard {shard.name} has " in told


def test_failed_owed_ungraded_and_out_of_schema_are_said(tmp_path: Path) -> None:
    page = rendered(hostile_run(tmp_path))
    told = " ".join(Reader(page).texts)
    assert "1 of 3 episodes completed, 1 failed, 1 owed" in told
    assert "1 of 3 episodes owed" in told
    assert "Failed episodes" in told
    assert "1 of 2" in told
    failed, played = index_of(page)["episodes"]
    assert (failed["status"], failed["stage"], failed["cause"], failed["text"]) == ("failed", "policy", HOSTILE, None)
    assert (played["outOfSchema"], played["ungraded"]) == (1, True)
    assert played["verdicts"][1]["r"] is None


def test_what_is_embedded_of_an_episode(tmp_path: Path) -> None:
    page = rendered(hostile_run(tmp_path))
    (played,) = [entry for entry in index_of(page)["episodes"] if entry["text"]]
    told = opened(parts_of(page)[played["text"]])
    assert told["columns"]["model_action"] == [HOSTILE, "down"]
    assert told["columns"]["probabilities"] == [[None, 0.9], None]
    assert told["disagrees"] == [1, 0]
    assert told["summaries"][0]["status"] == "degraded"
    blob = base64.b64decode(parts_of(page)[played["pictures"]])
    sizes = np.frombuffer(blob[:12], "<u4").tolist()
    assert sizes[0] == 2
    assert sizes[2] == 0
    shown = np.asarray(Image.open(io.BytesIO(blob[12 : 12 + sizes[1]])).convert("RGB"))
    assert shown.shape == (24, 32, 3)
    assert abs(int(shown[5, 5, 0]) - 200) < 30


@pytest.mark.parametrize("part", [0.05, 0.3, 0.6, 0.9, 2.0])
def test_what_finds_no_place_is_counted(crowded: ReportedRun, part: float) -> None:
    """Whatever the room, it is kept to, and what is missing is told."""
    everything = embed([crowded], ROOM)
    base = len(json.dumps(everything.index))
    whole = sum(len(one.text) for one in everything.parts)
    room = base + int(part * whole)
    found = embed([crowded], room)
    assert base + sum(len(one.text) for one in found.parts) <= room
    entries = found.index["episodes"]
    for what, told in (("text", "their decisions"), ("pictures", "pictures")):
        missing = sum(entry[what] is None for entry in entries)
        line = f"{missing} of 6 episodes are here without {told}"
        assert (line in found.left_out) == (missing > 0)
    assert any("without pictures" in line for line in found.left_out) == (part < 1)


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> ReportedRun:
    """Six episodes of 40 pictures."""
    turns = [Turn("stay", {"stay": 0.6, "down": 0.4}, picture=picture(n)) for n in range(40)]
    return reported(histories_run(tmp_path_factory.mktemp("crowded"), {"a": [Played(turns, 1.0)] * 6}))


def test_long_texts_are_cut_with_a_mark(tmp_path: Path) -> None:
    long = "x" * 5_000
    turn = Turn(long, {}, schema_error="not_an_option")
    page = rendered(histories_run(tmp_path, {"a": [Played((turn,), 1.0)]}))
    (text,) = [text for id, text in parts_of(page).items() if id.startswith("text")]
    (shown,) = opened(text)["columns"]["model_action"]
    assert shown == f"{'x' * 4_000} … (1,000 characters more)"


def test_a_report_has_its_files_side_by_side(tmp_path: Path) -> None:
    run = reported(histories_run(tmp_path / "runs", {"a": [Played(HALF_RIGHT, 2.0), Played(SILENT, 4.0)]}))
    written = write_report([run], Place.at(tmp_path / "out" / "mine.html"), ROOM)
    there = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert there == ["mine.html", "mine.md", "mine_files"]
    markdown = (tmp_path / "out" / "mine.md").read_text()
    named = re.findall(r"\]\((mine_files/[\w.-]+\.png)\)", markdown)
    assert named
    assert all((tmp_path / "out" / name).is_file() for name in named)
    assert len(written.plots) == 2 * len(named)
    assert written.page_bytes == (tmp_path / "out" / "mine.html").stat().st_size


def test_a_page_that_cannot_be_so_small_is_refused(tmp_path: Path) -> None:
    run = reported(histories_run(tmp_path / "runs", {"a": [Played(SILENT, 4.0)]}))
    with pytest.raises(UsageError, match="plots and tables alone"):
        write_report([run], Place.at(tmp_path / "mine.html"), 10_000)


def test_several_runs_are_told_apart(tmp_path: Path) -> None:
    histories = {"a": [Played(SILENT, 4.0), Played(HALF_RIGHT, 2.0)]}
    runs = [reported(histories_run(tmp_path, histories, run_id=run_id)) for run_id in ("one", "two")]
    page = render_page(make_report(runs), embed(runs, ROOM))
    index = index_of(page)
    assert [group["run"] for group in index["groups"]] == [0, 1]
    assert len({entry["text"] for entry in index["episodes"]}) == 4
    assert '<th scope="col">run</th>' in page
