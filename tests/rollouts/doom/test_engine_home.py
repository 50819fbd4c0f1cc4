import mmap
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollouts.doom.engine_home import EngineHome, check_program, sweep_shared_memory
from rollouts.errors import EngineLost
from rollouts.scratch import sweep_scratch


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def home(temporary: Path) -> Iterator[EngineHome]:
    home = EngineHome(Path("/bin/sh"))
    yield home
    home.remove()


def run_as_engine(home: EngineHome, script: str) -> subprocess.Popen[bytes]:
    """Start the launcher as the engine library would, with a shell in the engine's place."""
    return subprocess.Popen([home.launcher, "-c", script])


def wait_for(condition: object, seconds: float = 5.0) -> bool:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return False


def test_the_engine_runs_inside_its_home_and_its_noise_stays_there(
    home: EngineHome, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_as_engine(home, 'pwd; echo "$HOME"; echo ALSA lib: no card >&2').wait() == 0
    assert (home.path / "engine.log").read_text().split("\n")[:2] == [str(home.path)] * 2
    assert home.last_words() == "ALSA lib: no card"
    assert capfd.readouterr() == ("", "")


def test_kill_ends_even_a_stopped_engine_and_its_pid_is_known_only_while_it_lives(home: EngineHome) -> None:
    assert home.pid() is None
    engine = run_as_engine(home, "kill -STOP $$")
    assert wait_for(lambda: home.pid() == engine.pid)
    home.kill()
    assert engine.wait(timeout=5) == -signal.SIGKILL
    assert home.pid() is None
    home.kill()


def test_an_engine_dies_with_its_parent(temporary: Path) -> None:
    script = (
        "import subprocess, sys, time\nfrom pathlib import Path\nfrom rollouts.doom.engine_home import EngineHome\n"
        "home = EngineHome(Path('/bin/sh'))\n"
        "engine = subprocess.Popen([home.launcher, '-c', 'sleep 60; :'])\n"
        "while home.pid() is None: time.sleep(0.01)\n"
        "print(engine.pid, flush=True)\ntime.sleep(60)\n"
    )
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment) as parent:
        assert parent.stdout is not None
        engine_pid = int(parent.stdout.readline())
        parent.kill()
    assert wait_for(lambda: not is_alive(engine_pid))
    assert sweep_scratch(min_age_s=3600) == []
    assert len(sweep_scratch(min_age_s=0)) == 1
    assert list(temporary.iterdir()) == []


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_home_goes_with_its_owner(temporary: Path) -> None:
    home = EngineHome(Path("/bin/sh"))
    assert sweep_scratch(min_age_s=0) == []
    del home
    assert list(temporary.iterdir()) == []


def test_no_temporary_folder_is_one_clear_line(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "missing"))
    with pytest.raises(EngineLost, match="set TMPDIR"):
        EngineHome(Path("/bin/sh"))


def test_a_program_that_cannot_start_is_one_clear_line(tmp_path: Path) -> None:
    check_program(Path("/bin/true"))
    with pytest.raises(EngineLost, match="install vizdoom again"):
        check_program(tmp_path / "missing")
    broken = tmp_path / "broken"
    broken.write_bytes(Path("/bin/true").read_bytes().replace(b"libc.so.6", b"libq.so.6"))
    broken.chmod(0o700)
    with pytest.raises(EngineLost, match=r"needs libq\.so\.6, which"):
        check_program(broken)


def test_only_old_unmapped_engine_segments_are_swept(tmp_path: Path) -> None:
    young, orphan, mapped, other = (
        tmp_path / name for name in ("ViZDoomSMyoung", "ViZDoomMQCtrorphan", "ViZDoomSMmapped", "psm_other")
    )
    for path in (young, orphan, mapped, other):
        path.write_bytes(b"x" * 4096)
    for path in (orphan, mapped, other):
        os.utime(path, (1, 1))
    with mapped.open("r+b") as file, mmap.mmap(file.fileno(), 4096):
        assert sweep_shared_memory(folder=tmp_path) == [orphan]
        assert sorted(tmp_path.iterdir()) == sorted([young, mapped, other])
    assert sweep_shared_memory(folder=tmp_path) == [mapped]


def test_without_shared_memory_there_is_nothing_to_sweep(tmp_path: Path) -> None:
    assert sweep_shared_memory(folder=tmp_path / "missing") == []
