import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
import vizdoom
from numpy.typing import NDArray

from rollouts.doom.engine import Engine
from rollouts.doom.environment import DoomEnvironment, make_environment
from rollouts.errors import EngineLost
from rollouts.records import Snapshot, Transition
from rollouts.scenarios.registry import PUBLISHED_SCENARIOS, SCENARIOS
from rollouts.scenarios.scenario import Action, Capture, Environment, Outcome, Scenario

pytestmark = pytest.mark.slow

DEFEND, GATHER = SCENARIOS["defend_the_center"], SCENARIOS["health_gathering"]
KILLS = (11, 10, 7, 10, 12, 13, 14, 12)
SURVIVAL_DECISIONS = (120, 300, 120, 112, 200, 184, 128, 216)
EVERY = [
    pytest.param(scenario, id=name, marks=() if name in PUBLISHED_SCENARIOS else pytest.mark.slow)
    for name, scenario in SCENARIOS.items()
]
CAP_DAC_OVERRIDE, PR_CAPBSET_DROP = 1, 24


def waiting(timeout_tics: int | None) -> Scenario:
    """health_gathering with a no-op, and a time limit of its own. Standing still, the acid kills after 385 tics."""
    engine = replace(GATHER.engine, timeout_tics=timeout_tics)  # type: ignore[type-var]
    return replace(GATHER, name="waiting", actions=(Action("wait"), *GATHER.actions), engine=engine)


@pytest.fixture(scope="module")
def doom() -> Iterator[Callable[[Scenario, Capture], DoomEnvironment]]:
    """Engines shared by the tests of this module: that is what they are made for."""
    made: dict[tuple[str, int | None, Capture], DoomEnvironment] = {}

    def get(scenario: Scenario, capture: Capture = None) -> DoomEnvironment:
        assert scenario.engine is not None
        key = (scenario.name, scenario.engine.timeout_tics, capture)
        if key not in made:
            made[key] = DoomEnvironment(scenario, capture)
        return made[key]

    yield get
    for environment in made.values():
        environment.close()


Doom = Callable[..., DoomEnvironment]


def play(
    environment: Environment, scenario: Scenario, seed: int, index: int, decisions: int = 300
) -> tuple[list[Snapshot], list[Transition]]:
    """The teacher plays, or without one each action in turn: what was seen before each, and what came of it."""
    seen, happened = [environment.reset(seed, index)], list[Transition]()
    while not environment.finished and len(happened) < decisions:
        in_turn = scenario.options[len(happened) % len(scenario.options)]
        transition = environment.step(scenario.teacher(seen[-1]) if scenario.teacher else in_turn, scenario.tics)
        happened.append(transition)
        if transition.snapshot is not None:
            seen.append(transition.snapshot)
    return seen, happened


def pixels(snapshots: list[Snapshot]) -> list[NDArray[np.uint8]]:
    return [snapshot.frame.rgb() for snapshot in snapshots if snapshot.frame is not None]


def without_frames(snapshots: list[Snapshot]) -> list[Snapshot]:
    return [replace(snapshot, frame=None) for snapshot in snapshots]


def test_the_oracle_reproduces_a_published_episode(doom: Doom) -> None:
    seen, happened = play(doom(DEFEND), DEFEND, DEFEND.seeds[2], 0)
    assert seen[-1].kills == 7
    assert (happened[-1].terminated, happened[-1].truncated, happened[-1].end_reason) == (True, False, "death")
    assert sum("kill" in transition.events for transition in happened) == 7
    assert "death" in happened[-1].events
    assert "hit" in happened[-1].events


def test_where_nothing_is_pressed_time_passes_and_an_end_cuts_it_short(doom: Doom) -> None:
    """Standing still in the acid kills at tic 385; the episode's clock begins at 1."""
    environment = doom(GATHER)
    assert environment.reset(7, 0).game_tic == 1
    waited = environment.step(None, 100)
    assert (waited.tics, waited.snapshot.game_tic if waited.snapshot else None) == (100, 101)
    over = environment.step(None, 1_000)
    assert (over.tics, over.end_reason, over.snapshot) == (385 - 101, "death", None)
    turned = environment.reset(7, 0), environment.step("turn left", 100)
    assert turned[1].snapshot is not None
    assert waited.snapshot is not None
    assert turned[1].snapshot.things != waited.snapshot.things


def test_the_oracle_reproduces_the_published_results(doom: Doom) -> None:
    kills, decisions = list[float](), list[int]()
    for seed in DEFEND.seeds:
        seen, happened = play(doom(DEFEND), DEFEND, seed, 0)
        kills.append(DEFEND.metric.value(seen[-1], len(happened), 4, Outcome(0.0, None)))
        decisions.append(len(happened))
    assert tuple(kills) == KILLS
    assert sum(decisions) == 1501
    assert float(np.mean(kills)) == 11.125
    assert round(float(np.std(kills)), 2) == 2.03
    lengths = [len(play(doom(GATHER), GATHER, seed, 0)[1]) for seed in GATHER.seeds]
    assert tuple(lengths) == SURVIVAL_DECISIONS
    assert sum(lengths) == 1380


@pytest.mark.parametrize("scenario", EVERY)
def test_a_reused_engine_plays_what_a_fresh_one_plays(scenario: Scenario) -> None:
    with closing(DoomEnvironment(scenario, None)) as reused:
        play(reused, scenario, 5, 1, decisions=3)
        later = [play(reused, scenario, 9, index, decisions=25) for index in (2, 0, 1)]
    with closing(DoomEnvironment(scenario, None)) as fresh:
        in_order = [play(fresh, scenario, 9, index, decisions=25) for index in (0, 1, 2)]
    assert later == [in_order[2], in_order[0], in_order[1]]
    assert in_order[0] != in_order[1]


def test_the_seed_decides_not_what_came_before_in_a_plain_game(doom: Doom) -> None:
    """Against the engine library alone: set_seed, init, and index + 1 new episodes."""
    assert DEFEND.engine is not None
    plain = Engine(DEFEND.engine, ("ATTACK", "TURN_LEFT", "TURN_RIGHT"), "indexed")
    plain.game.close()
    plain.game.set_seed(77)
    plain.game.init()
    for _ in range(2):
        plain.game.new_episode()
    frames = []
    for _ in range(30):
        state = plain.game.get_state()
        assert state is not None
        frames.append(state.screen_buffer)
        plain.game.make_action([0.0, 1.0, 0.0], 4)
    plain.close()
    ours = doom(DEFEND, "indexed")
    snapshots = [ours.reset(77, 1)]
    for _ in range(29):
        snapshot = ours.step("turn left", 4).snapshot
        assert snapshot is not None
        snapshots.append(snapshot)
    for theirs, snapshot in zip(frames, snapshots, strict=True):
        assert snapshot.frame is not None
        assert np.array_equal(theirs, snapshot.frame.pixels)


@pytest.mark.parametrize("scenario", EVERY)
def test_indexed_frames_hold_the_pixels_of_rgb(scenario: Scenario) -> None:
    def seen(capture: Capture) -> list[Snapshot]:
        with closing(DoomEnvironment(scenario, capture)) as environment:
            return play(environment, scenario, scenario.seeds[0], 0, decisions=60)[0]

    indexed, rgb, bare = seen("indexed"), seen("rgb"), seen(None)
    assert indexed[0].frame is not None
    assert indexed[0].frame.palette is not None
    assert indexed[0].frame.pixels.shape == (240, 320)
    assert len(pixels(indexed)) == len(indexed) > 1
    assert all(np.array_equal(a, b) for a, b in zip(pixels(indexed), pixels(rgb), strict=True))
    assert without_frames(indexed) == without_frames(rgb) == bare
    assert all(snapshot.frame is None for snapshot in bare)


@pytest.mark.parametrize("scenario", [DEFEND, GATHER], ids=lambda s: s.name)
def test_indexed_frames_hold_to_the_end_of_an_episode(doom: Doom, scenario: Scenario) -> None:
    seed = scenario.seeds[1]
    indexed, _ = play(doom(scenario, "indexed"), scenario, seed, 0)
    rgb, _ = play(doom(scenario, "rgb"), scenario, seed, 0)
    assert all(np.array_equal(a, b) for a, b in zip(pixels(indexed), pixels(rgb), strict=True))


def test_flashes_are_off_also_where_a_cfg_has_them_on(tmp_path: Path) -> None:
    cfg = tmp_path / "flashing.cfg"
    cfg.write_text((_stock() / "health_gathering.cfg").read_text().replace("flashes = false", "flashes = true"))
    engine = replace(GATHER.engine, cfg=str(cfg), wad=str(_stock() / "health_gathering.wad"))  # type: ignore[type-var]
    with closing(DoomEnvironment(replace(GATHER, engine=engine), "indexed")) as environment:
        frame = environment.reset(1, 0).frame
        assert frame is not None
        assert frame.palette is not None


def _stock() -> Path:
    return Path(vizdoom.scenarios_path)


def test_frames_are_read_only_and_outlive_the_next_step(doom: Doom) -> None:
    environment = doom(DEFEND, "indexed")
    frame = environment.reset(3, 0).frame
    assert frame is not None
    before = frame.pixels.copy()
    for _ in range(3):
        environment.step("turn left", 4)
    assert np.array_equal(frame.pixels, before)
    with pytest.raises(ValueError, match="read-only"):
        frame.pixels[0, 0] = 0


@pytest.mark.parametrize(("tics", "decisions"), [(4, 75), (7, 43)])
def test_a_timeout_counts_game_tics_and_is_a_truncation(doom: Doom, tics: int, decisions: int) -> None:
    environment = doom(waiting(300))
    for index in range(3):
        snapshot, times, last = environment.reset(7, index), list[int](), None
        while not environment.finished:
            times.append(snapshot.game_tic)
            last = environment.step("wait", tics)
            snapshot = last.snapshot or snapshot
        assert times == [1 + tics * i for i in range(decisions)]
        assert last is not None
        assert (last.terminated, last.truncated, last.end_reason) == (False, True, "timeout")
        assert "death" not in last.events


def test_an_episode_of_one_decision_has_no_state_after_it_but_counters(doom: Doom) -> None:
    environment = doom(waiting(3))
    first = environment.reset(7, 0)
    last = environment.step("wait", 4)
    assert environment.finished
    assert first.things
    assert (last.snapshot, last.end_reason, last.health_after) == (None, "timeout", 92)
    with pytest.raises(EngineLost, match="reset"):
        environment.step("wait", 4)


def test_a_death_inside_the_skipped_frames_is_whole(doom: Doom) -> None:
    """100 health, 8 taken at tics 1 + 32 i: the thirteenth time, at tic 385, kills."""
    environment = doom(waiting(None))
    environment.reset(7, 0)
    for _ in range(3):
        assert environment.step("wait", 100).end_reason is None
    last = environment.step("wait", 100)
    assert (last.snapshot, last.terminated, last.truncated, last.end_reason) == (None, True, False, "death")
    assert last.health_after == 100 - 13 * 8
    assert last.events == ("death",)


def test_the_acid_floor_is_no_hit_and_a_medikit_is_a_pickup(doom: Doom) -> None:
    _, happened = play(doom(GATHER), GATHER, GATHER.seeds[1], 0, decisions=150)
    events = [event for transition in happened for event in transition.events]
    assert set(events) == {"pickup"}
    gained = [a for a, b in zip(happened[1:], happened, strict=False) if (a.health_after or 0) > (b.health_after or 0)]
    assert gained
    assert all("pickup" in transition.events for transition in gained)


def test_an_episode_that_is_over_at_once_has_a_snapshot_and_is_finished(tmp_path: Path) -> None:
    cfg = tmp_path / "late.cfg"
    cfg.write_text((_stock() / "health_gathering.cfg").read_text() + "\nepisode_start_time = 500\n")
    engine = replace(GATHER.engine, cfg=str(cfg), wad=str(_stock() / "health_gathering.wad"))  # type: ignore[type-var]
    with closing(DoomEnvironment(replace(GATHER, engine=engine), None)) as environment:
        snapshot = environment.reset(7, 0)
        assert environment.finished
        assert (snapshot.things, snapshot.frame, snapshot.kills) == ((), None, 0)
        assert snapshot.health is not None
        assert snapshot.health <= 0


@pytest.mark.parametrize("capture", ["indexed", None])
def test_a_killed_engine_voids_the_try_and_the_next_reset_plays_the_same_episode(capture: Capture) -> None:
    with closing(DoomEnvironment(DEFEND, capture)) as environment:
        undisturbed = play(environment, DEFEND, 4, 0, decisions=20)[1]
        for restarts in (1, 2):
            environment.reset(4, 0)
            environment.step("turn left", 4)
            assert environment.engine_pid is not None
            os.kill(environment.engine_pid, signal.SIGKILL)
            with pytest.raises(EngineLost):
                [environment.step("turn left", 4) for _ in range(3)]
            assert environment.finished
            again = play(environment, DEFEND, 4, 0, decisions=20)[1]
            assert environment.restarts == restarts
            for a, b in zip(again, undisturbed, strict=True):
                assert (a.reward, a.events, a.health_after) == (b.reward, b.events, b.health_after)
                assert a.snapshot is not None
                assert b.snapshot is not None
                assert without_frames([a.snapshot]) == without_frames([b.snapshot])


def test_an_engine_killed_between_two_episodes_voids_one_try() -> None:
    with closing(DoomEnvironment(DEFEND, None)) as environment:
        environment.reset(3, 0)
        assert environment.engine_pid is not None
        os.kill(environment.engine_pid, signal.SIGKILL)
        with pytest.raises(EngineLost):
            [environment.reset(3, index) for index in (1, 1)]
        assert environment.reset(3, 1).health == 100
        assert environment.restarts == 1


def test_an_interrupt_from_the_terminal_leaves_the_engine_to_us(doom: Doom) -> None:
    environment = doom(DEFEND)
    environment.reset(4, 0)
    assert environment.engine_pid is not None
    os.kill(environment.engine_pid, signal.SIGINT)
    time.sleep(0.05)
    assert [environment.step("turn left", 4).health_after for _ in range(3)] == [100] * 3


def test_memory_stays_flat_over_many_short_episodes(doom: Doom) -> None:
    environment = doom(waiting(8), "indexed")
    pids = (os.getpid(), environment.engine_pid)

    def play_on(first: int, count: int) -> list[int]:
        for index in range(first, first + count):
            environment.reset(11, index)
            while not environment.finished:
                environment.step("wait", 4)
        return [psutil.Process(pid).memory_info().rss for pid in pids]

    before = play_on(0, 100)
    after = play_on(100, 500)
    assert all(b - a < 8 * 2**20 for a, b in zip(before, after, strict=True)), (before, after)


def test_a_close_is_final_and_may_be_repeated() -> None:
    environment = DoomEnvironment(DEFEND, None)
    environment.reset(1, 0)
    environment.close()
    environment.close()
    assert environment.finished
    assert environment.engine_pid is None


def test_further_variables_are_recorded_on_request() -> None:
    environment = make_environment(DEFEND, None, variables=("ANGLE", "HITS_TAKEN"))
    with closing(environment):
        environment.reset(1, 0)
        transition = environment.step("turn left", 4)
    assert set(transition.variables) == {"ANGLE", "HITS_TAKEN"}
    assert 0 < transition.variables["ANGLE"] < 360


def test_a_variable_that_the_scenario_lacks_is_none() -> None:
    engine = replace(GATHER.engine, game_variables=("HEALTH",))  # type: ignore[type-var]
    with closing(DoomEnvironment(replace(GATHER, engine=engine), None)) as environment:
        snapshot = environment.reset(1, 0)
        transition = environment.step("turn left", 4)
    assert snapshot.health == 92  # the acid floor acts at tic 1
    assert (snapshot.ammo, snapshot.kills, transition.ammo_after, transition.kills_after) == (None,) * 4


class Counting:
    """A world that is no Doom: counts to three."""

    restarts = 0

    def __init__(self, scenario: Scenario, tics: int, capture: Capture) -> None:
        self.made_for = (scenario.name, tics, capture)
        self._left = 0

    @property
    def finished(self) -> bool:
        return self._left == 0

    def reset(self, seed: int, index: int) -> Snapshot:
        self._left = 3
        return Snapshot(0)

    def step(self, action: str, tics: int) -> Transition:
        self._left -= 1
        return Transition(1.0, Snapshot(3 - self._left), terminated=self._left == 0)

    def close(self) -> None: ...


def test_a_users_own_environment_takes_dooms_place() -> None:
    counting = replace(DEFEND, name="counting", engine=None, environment=Counting)
    environment = make_environment(counting, "rgb", tics=7)
    assert isinstance(environment, Counting)
    assert environment.made_for == ("counting", 7, "rgb")


def _lose_root_rights() -> None:
    """Without this capability folder permissions hold for root too (after exec)."""
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE)


def test_a_headless_box_with_read_only_home_and_folder_is_enough(tmp_path: Path) -> None:
    script = (
        "import os\nfrom rollouts.doom.environment import make_environment\n"
        "from rollouts.scenarios.registry import SCENARIOS\n"
        "try:\n    open('mine', 'w')\nexcept PermissionError:\n    print('read-only')\n"
        "environment = make_environment(SCENARIOS['defend_the_center'], 'indexed')\n"
        "environment.reset(42106076, 0)\nprint(environment.step('attack', 4).health_after)\nenvironment.close()\n"
    )
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    environment = {k: v for k, v in os.environ.items() if k not in {"DISPLAY", "WAYLAND_DISPLAY"}}
    environment |= {"HOME": str(locked), "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=locked,
        env=environment,
        preexec_fn=_lose_root_rights,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("read-only\n100\n", "", 0)
    assert list(locked.iterdir()) == []


def test_after_a_kill_the_engine_dies_too_and_leaves_no_shared_memory(tmp_path: Path) -> None:
    """Its segments have no names any more once both sides have them, so there is nothing to be left."""
    script = (
        "import time\nfrom rollouts.doom.environment import DoomEnvironment\n"
        "from rollouts.scenarios.registry import SCENARIOS\n"
        "environment = DoomEnvironment(SCENARIOS['defend_the_center'], None)\n"
        "environment.reset(42106076, 0)\nenvironment.step('attack', 4)\n"
        "print(environment.engine_pid, flush=True)\ntime.sleep(60)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment) as parent:
        assert parent.stdout is not None
        engine_pid = int(parent.stdout.readline())
        assert "/dev/shm/ViZDoomSM" in Path(f"/proc/{engine_pid}/maps").read_text()
        assert _segments_of(engine_pid) == []
        parent.kill()
    assert _gone(engine_pid)


def _segments_of(engine_pid: int) -> list[str]:
    """The names of a running engine's shared memory, by the instance id on its command line."""
    arguments = Path(f"/proc/{engine_pid}/cmdline").read_text().split("\0")
    instance = arguments[arguments.index("+viz_instance_id") + 1]
    return [path.name for path in Path("/dev/shm").iterdir() if path.name.endswith(instance)]


def _gone(pid: int, seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.01)
    return False
