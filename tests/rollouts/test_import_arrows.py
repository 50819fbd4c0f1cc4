"""Walks the imports of every module: the arrows of the layout, and who alone may import what."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("rollouts", "grading", "actors")
LAYERS: tuple[frozenset[str], ...] = tuple(
    frozenset(names.split())
    for names in (
        "records errors naming importing prompt_files streams hashing scrub settings seeds signals provenance scratch",
        "calls",
        "scenarios rubrics observation frames metrics calibration meters statistics",
        "doom policies store",
        "scenario_files read_files",
        "episode realtime plan config config_checks grading_config identity shards",
        "run",
        "loading readers",
        "policy_calls",
        "worker worker_log",
        "pools",
        "evidence commits driver",
        "comparison",
        "exports report",
        "progress doctor commands cli entry",
    )
)
ONLY_IN = {
    "ray": ("actors/",),
    "vizdoom": ("rollouts/doom/",),
    "openai": ("rollouts/calls/chat.py",),
    "torch": ("rollouts/policies/torch_", "rollouts/policies/causal_lm.py", "rollouts/loading/torch_"),
    "datasets": ("rollouts/loading/hugging_face.py",),
    "safetensors": ("rollouts/policies/torch_",),
    "onnxruntime": ("rollouts/policies/onnx_",),
    "transformers": ("rollouts/policies/causal_lm.py",),
    "scipy": (),
    "matplotlib": ("rollouts/report/plots/",),
    "jinja2": ("rollouts/report/page.py",),
    "msgpack": ("rollouts/policies/server_messages.py",),
    "pyarrow": (
        "rollouts/shards/",
        "rollouts/store/",
        "rollouts/loading/",
        "rollouts/exports/",
        "rollouts/readers.py",
        "actors/datasets.py",
    ),
}
RUNS_WHAT_IT_READS = ("pickle", "cloudpickle", "dill", "marshal", "shelve", "multiprocessing")
"""Ray pickles by itself what goes to its actors; nothing of ours reads pickles (a `Connection` does, in `recv`)."""
READS_NOTHING = ("multiprocessing.process.current_process", "multiprocessing.process.parent_process")
"""They tell which child of its parent a process is."""
COMPOSITION = ("rollouts/cli.py", "rollouts/commands/")


@dataclass(frozen=True)
class Import:
    """`module` is imported by the file `path` (relative to the root), anywhere in it, lazily too."""

    path: str
    module: str

    @property
    def composes(self) -> bool:
        return self.path.startswith(COMPOSITION)


def imports_of(path: Path) -> Iterator[Import]:
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            yield Import(path.relative_to(ROOT).as_posix(), name)


ALL = [found for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")) for found in imports_of(path)]


def layer_of(module: str) -> int | None:
    name = module.removeprefix("rollouts.").removesuffix(".py").partition(".")[0]
    return next((number for number, names in enumerate(LAYERS) if name in names), None)


def test_there_is_something_to_walk() -> None:
    assert {found.path.partition("/")[0] for found in ALL} >= {"rollouts"}


def test_every_module_has_a_layer() -> None:
    modules = [path.name for path in (ROOT / "rollouts").glob("*.py")]
    packages = [path.parent.name for path in (ROOT / "rollouts").glob("*/__init__.py")]
    assert {name for name in {*modules, *packages} - {"__init__.py"} if layer_of(name) is None} == set()


@pytest.mark.parametrize("owned", ONLY_IN)
def test_a_heavy_library_has_its_only_importers(owned: str) -> None:
    strays = {found.path for found in ALL if found.module.partition(".")[0] == owned}
    assert {path for path in strays if not path.startswith(ONLY_IN[owned])} == set()


def test_nothing_reads_what_can_be_code() -> None:
    reads = [found for found in ALL if found.module not in READS_NOTHING]
    assert [found for found in reads if found.module.partition(".")[0] in RUNS_WHAT_IT_READS] == []


def test_optional_packages_are_imported_late() -> None:
    """Every command imports the registry, every trainer the readers; only who needs the extras may pay for them."""
    loaded = "import sys, rollouts.cli, rollouts.readers; sys.exit({*sys.argv[1:]} & {*sys.modules} or 0)"
    extras = ("torch", "safetensors", "onnxruntime", "transformers", "datasets", "scipy", "matplotlib", "jinja2")
    done = subprocess.run([sys.executable, "-c", loaded, *extras], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_rollouts_never_imports_what_stands_on_it() -> None:
    strays = [f for f in ALL if f.path.startswith("rollouts/") and f.module.partition(".")[0] in ("grading", "actors")]
    assert [f for f in strays if not f.composes] == []


def test_grading_knows_no_actors() -> None:
    assert [f for f in ALL if f.path.startswith("grading/") and f.module.startswith("actors")] == []


def test_modules_import_their_own_layer_or_a_lower_one() -> None:
    def upward(found: Import) -> bool:
        source, target = layer_of(found.path.removeprefix("rollouts/").partition("/")[0]), layer_of(found.module)
        return source is not None and target is not None and target > source

    inner = [f for f in ALL if f.path.startswith("rollouts/") and f.module.startswith("rollouts.")]
    assert inner
    assert [f for f in inner if upward(f)] == []


def test_package_inits_stay_empty() -> None:
    inits = [path for package in PACKAGES for path in (ROOT / package).rglob("__init__.py")]
    assert [path for path in inits if path.read_text().strip()] == []
