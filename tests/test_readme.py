"""What the README says works: its snippets run, and its layout lists the files that there are."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rollouts.cli import main

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
SNIPPET = re.compile(r"<!-- readme-test: (\w+) -->\n```python\n(.*?)```", re.DOTALL)
SNIPPETS = dict(SNIPPET.findall(README))
LAYOUT = README.partition("## Layout")[2].partition("```\n")[2].partition("```")[0]


def listed() -> set[str]:
    """The modules of the layout, each indented below its folder."""
    found: set[str] = set()
    folders: list[tuple[int, str]] = []
    for line in LAYOUT.splitlines():
        name, depth = line.split()[0], len(line) - len(line.lstrip())
        folders = [folder for folder in folders if folder[0] < depth]
        if name.endswith("/"):
            folders.append((depth, name))
        elif name.endswith(".py"):
            found.add("".join(folder for _, folder in folders) + name)
    return found


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The steps table of a small run with frames."""
    out = tmp_path_factory.mktemp("readme")
    small = ("--scenario", "defend_the_center", "--seeds", "0:2", "--step-cap", "3", "--pool", "local")
    assert main(["run", *small, "--out", str(out), "--run-id", "r"]) == 0
    return str(out / "r/steps")


def run(snippet: str, steps: str) -> dict[str, Any]:
    names: dict[str, Any] = {"STEPS": steps, "RUN": str(Path(steps).parent)}
    exec(compile(SNIPPETS[snippet], f"README.md: {snippet}", "exec"), names)
    return names


@pytest.mark.parametrize("reader", ["pandas", "datasets", "ray", "torch"])
def test_each_reader_takes_four_lines(reader: str) -> None:
    lines = [line for line in SNIPPETS[reader].splitlines() if line.strip() and not line.startswith("import")]
    assert len(lines) <= 4


def test_pandas(steps: str) -> None:
    names = run("pandas", steps)
    assert len(names["steps"]) == 6
    assert np.asarray(names["first"]).shape == (240, 320, 3)


@pytest.mark.slow
def test_datasets(steps: str) -> None:
    first = run("datasets", steps)["first"]
    assert (first["frame"].mode, first["frame"].size) == ("RGB", (320, 240))


@pytest.mark.slow
def test_torch(steps: str) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is an extra (train)")
    (batch,) = run("torch", steps)["loader"]
    assert tuple(batch.shape) == (6, 240, 320, 3)


@pytest.mark.slow
def test_tables_and_batches_of_the_readers(steps: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Without baselines for a step cap of 3 the episodes are ungraded: their columns are null."""
    names = run("table", steps)
    assert (names["table"].num_rows, names["table"]["credit_value"].null_count) == (6, 6)
    assert capsys.readouterr().out == "3 ['episode_id', 'tick', 'frame']\n" * 2


@pytest.mark.slow
def test_the_readers_for_torch_and_datasets(steps: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="torch is an extra (train)")
    run("loader", steps)
    shape, _, rest = capsys.readouterr().out.partition(") ")
    assert (shape, rest.split()[0]) == ("torch.Size([3, 3, 240, 320]", "torch.uint8")
    run("hugging_face", steps)
    assert capsys.readouterr().out == "RGB\n"


@pytest.mark.slow
def test_the_network_of_the_readme_plays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="torch is an extra")
    monkeypatch.chdir(tmp_path)
    exec(compile(SNIPPETS["network"], "README.md: network", "exec"), {})
    words = ("--scenario", "defend_the_center", "--seeds", "0:1", "--step-cap", "3", "--pool", "local")
    assert main(["run", "--policy", "torch:small.safetensors", *words]) == 0


def test_the_layout_lists_every_module_and_no_other() -> None:
    packages = ("rollouts", "grading", "actors", "benchmarks", "examples")
    modules = {str(path.relative_to(ROOT)) for package in packages for path in (ROOT / package).rglob("*.py")}
    there = {name for name in modules if not name.endswith("__init__.py")}
    assert (there - listed(), listed() - there) == (set(), set())


def test_the_flags_of_the_readme_exist(capsys: pytest.CaptureFixture[str]) -> None:
    told = ""
    commands = ("run", "grade", "compare", "report", "verify", "export", "bench", "fake-endpoint", "submit", "stop")
    for command in commands:
        assert main([command, "--help"]) == 0
        told += capsys.readouterr().out
    others = r"^((python -m (benchmarks|examples)\.|docker |kubectl |ray ).*$|RAY_AUTH_MODE=.* -- )"
    ours = re.sub(others, "", README, flags=re.MULTILINE)
    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", ours)) - {"--help"}
    assert len(flags) > 20
    assert [flag for flag in sorted(flags) if flag not in told] == []


@pytest.mark.slow
def test_the_policy_and_the_scenario_of_the_readme_go_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("shy.py", "arena.py"):
        (code,) = re.findall(rf"```python\n(# {re.escape(name)}\n.*?)```", README, re.DOTALL)
        (tmp_path / name).write_text(code)
    monkeypatch.chdir(tmp_path)
    words = ("--scenario", "arena:LINE", "--policy", "oracle", "--policy", "shy:Shy", "--step-cap", "3")
    assert main(["run", *words, "--pool", "local", "--frames", "none", "--run-id", "r"]) == 0
    manifest = json.loads((tmp_path / "runs/r/manifest.json").read_text())
    played = [(block["policy"], block["n_decisions"], block["n_out_of_schema"]) for block in manifest["results"]]
    assert played == [("oracle", 9, 0), ("shy", 9, 0)]


@pytest.mark.slow
def test_the_scenario_file_of_the_readme_plays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = re.findall(r"```toml\n(# line\.toml\n.*?)```", README, re.DOTALL)
    (tmp_path / "line.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--scenario", "line.toml", "--step-cap", "3", "--pool", "local", "--frames", "none"]) == 0
