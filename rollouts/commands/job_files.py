"""What of a working dir goes along with a job: small, nothing of `.git`, data and runs, and all that the command reads.

A job gets the files that git tracks or would track, or all where there is no git. What `.gitignore` drops, or what lies
in a folder that is left out, goes along nevertheless where the command was seen to read it, or `--include` names it.
"""

from __future__ import annotations

import fnmatch
import os
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rollouts.errors import UsageError
from rollouts.importing import OUR_PACKAGES, OUR_ROOT
from rollouts.naming import counted

MOST_MB = 100
MOST_FILES = 20_000
_NEVER = (".git", ".venv", "__pycache__", "node_modules", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis")
_SECRETS = (".env", ".env.*", "*.pem", "*.key")
_AT_THE_TOP = ("data", "runs")
LEFT_OUT = (*_NEVER, *_SECRETS, *(f"/{name}" for name in _AT_THE_TOP))
"""As Ray's own `excludes` has it."""
_FIRST_TIME = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class JobFiles:
    """Files below `root`, by their paths from there, in order, with their bytes."""

    root: Path
    sizes: Mapping[str, int]

    @property
    def bytes(self) -> int:
        return sum(self.sizes.values())

    def __str__(self) -> str:
        return f"{counted(len(self.sizes), 'file')}, {_mb(self.bytes)} of {self.root}"

    def write_zip(self, path: Path) -> None:
        """The same files make the same bytes, so that a cluster that has them gets them once. Errors: `UsageError`."""
        try:
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as package:
                for name in self.sizes:
                    entry = zipfile.ZipInfo(name, _FIRST_TIME)
                    entry.external_attr = ((self.root / name).stat().st_mode & 0o777) << 16
                    package.writestr(entry, (self.root / name).read_bytes(), zipfile.ZIP_DEFLATED, 1)
        except OSError as error:
            raise UsageError(f"{error.filename} cannot go along with the job: {error.strerror}") from error


@dataclass(frozen=True)
class Choice:
    """`include`: files and folders below the root, in any case; `exclude`: patterns of paths, or of parts of them."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


def choose_files(root: Path, choice: Choice, read: Iterable[Path]) -> JobFiles:
    """What goes along, `read` in any case. Errors: `UsageError`: too much, or an `--include` that is not there."""
    patterns = (*_NEVER, *_SECRETS, *choice.exclude)
    found = {name for name in _listed(root, patterns) if name.partition("/")[0] not in _AT_THE_TOP}
    found = {name for name in found if not _matches(name, patterns)}
    found |= {path.relative_to(root).as_posix() for path in (*read, *_included(root, choice.include))}
    sizes = {name: (root / name).stat().st_size for name in sorted(found) if (root / name).is_file()}
    _check(files := JobFiles(root, sizes))
    return files


def place_in(root: Path, path: str | Path) -> Path | None:
    """`path` from `root` on, also where a link leads there; None where it is not below."""
    for whole, of in ((os.path.abspath(path), root), (os.path.realpath(path), os.path.realpath(root))):
        if Path(whole).is_relative_to(of):
            return Path(whole).relative_to(of)
    return None


class Reading:
    """Notes what this process reads below `root` while it is entered, and which modules it has from there."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._seen: set[str] = set()
        self._looks = False

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Python cannot take a hook off again: it is told when to look away."""
        self._looks = True
        sys.addaudithook(self._hear)
        try:
            yield
        finally:
            self._looks = False

    def files(self) -> list[Path]:
        """Those that a job needs too: not Python's own, ours, or what was only looked up in `.git`."""
        modules = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
        places = {place_in(self._root, name) for name in (*self._seen, *filter(None, modules))}
        return sorted(self._root / place for place in places if place is not None and self._is_wanted(place))

    def _hear(self, event: str, told: tuple[object, ...]) -> None:
        if self._looks and event == "open" and isinstance(told[0], str | os.PathLike) and _only_reads(told[1]):
            self._seen.add(os.fspath(told[0]))

    def _is_wanted(self, place: Path) -> bool:
        path = self._root / place
        others = (Path(sys.prefix), *(OUR_ROOT / package for package in OUR_PACKAGES))
        if not path.is_file() or any(path.is_relative_to(other) for other in others):
            return False
        return not _matches(place.as_posix(), (*_NEVER, *_SECRETS, "site-packages"))


def _only_reads(mode: object) -> bool:
    return mode is None or (isinstance(mode, str) and not set(mode) & set("wax+"))


def _listed(root: Path, patterns: tuple[str, ...]) -> Iterator[str]:
    """By git where it knows the folder, else every file; links to folders are not followed."""
    git = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(git, capture_output=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        done = None
    if done is not None and done.returncode == 0:
        yield from filter(None, os.fsdecode(done.stdout).split("\0"))
        return
    n_files = 0
    for folder, folders, names in os.walk(root):
        here = PurePosixPath(Path(folder).relative_to(root).as_posix())
        folders[:] = [name for name in folders if not _matches((here / name).as_posix(), patterns)]
        if here == PurePosixPath("."):
            folders[:] = [name for name in folders if name not in _AT_THE_TOP]
        n_files += len(names)
        if n_files > MOST_FILES:
            raise UsageError(
                f"{root} has more than {MOST_FILES:,} files: choose a smaller --working-dir, or --exclude some"
            )
        yield from ((here / name).as_posix() for name in names)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern fits the path, a folder that it lies in, or a part of it."""
    path = PurePosixPath(name)
    whole = [str(path), *map(str, path.parents)]
    return any(fnmatch.fnmatch(one, pattern.rstrip("/")) for pattern in patterns for one in (*whole, *path.parts))


def _included(root: Path, names: Iterable[str]) -> Iterator[Path]:
    for name in names:
        place = place_in(root, root / name)
        if place is None:
            raise UsageError(f'--include "{name}" is not in {root}: choose another --working-dir')
        if not (path := root / place).exists():
            raise UsageError(f'--include "{name}": there is no such file or folder in {root}')
        yield from files_of(path)


def files_of(path: Path) -> Iterator[Path]:
    """A file itself, or all that a folder holds."""
    yield from (file for file in path.rglob("*") if file.is_file()) if path.is_dir() else (path,)


def _check(files: JobFiles) -> None:
    if files.bytes > MOST_MB * 1_000_000 or len(files.sizes) > MOST_FILES:
        weights = Counter[str]()
        for name, size in files.sizes.items():
            weights[name.partition("/")[0]] += size
        biggest = ", ".join(f"{name} ({_mb(size)})" for name, size in weights.most_common(3))
        raise UsageError(
            f"the job's files are {files}, more than {MOST_MB} MB or {MOST_FILES:,} files: leave out what it does not "
            f"need with --exclude; the most is in {biggest}. Large models can lie on the nodes: --on-nodes"
        )


def _mb(size: int) -> str:
    return f"{size / 1_000_000:,.1f} MB"
