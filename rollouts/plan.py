"""The plan: an ordered list of units, made from the configuration alone, never from who will do the work.

So resuming is "which units are owed?", and the data does not depend on how many actors there were. A plan is only
ever appended to: added and retried episodes are new units, and the later `episodes` row of an episode supersedes.
Knows nothing about files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from rollouts.errors import UsageError
from rollouts.records import PlannedEpisode, Unit

SHARD_BYTES = 50_000_000
MIN_UNITS = 64
_FRAME_BYTES: Mapping[str, int] = {"none": 0, "png": 26_000, "png-rgb": 50_000, "jpeg": 50_000}
_TEXT_BYTES = 500
GroupName = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class PlanGroup:
    """What is wanted of one (scenario, rubric, policy): `episodes_per_seed` episodes of each seed.

    `frames` is a frame format; `costs_a_call` says that each decision is a call to a model.
    """

    scenario: str
    rubric: str
    policy: str
    seeds: tuple[int, ...]
    episodes_per_seed: int = 1
    step_cap: int = 300
    frames: str = "png"
    costs_a_call: bool = False

    @property
    def name(self) -> GroupName:
        return (self.scenario, self.rubric, self.policy)

    @property
    def episode_bytes(self) -> int:
        """What an episode of full length takes in its shard, about."""
        return self.step_cap * (_FRAME_BYTES[self.frames] + _TEXT_BYTES)

    def episodes(self) -> Iterator[PlannedEpisode]:
        """Seed by seed: the next episode of a seed is cheaper to reach than another seed's."""
        return (PlannedEpisode(seed, index) for seed in self.seeds for index in range(self.episodes_per_seed))


def make_plan(groups: Sequence[PlanGroup], episodes_per_unit: int | None = None) -> tuple[Unit, ...]:
    """The units of a new run, numbered from 0, group by group, seed by seed.

    A unit holds at most what fills a shard of some 50 MB, at most ceil(n / 64) of all n episodes, and one episode
    where each decision costs a call; `episodes_per_unit` overrides that. Errors: `UsageError` where two episodes
    would share an id, or there is nothing to play.
    """
    units = extend_plan((), groups, episodes_per_unit)
    if not units:
        raise UsageError("the plan is empty: give at least one scenario, rubric, policy, seed and episode")
    return units


def extend_plan(
    plan: Sequence[Unit],
    groups: Sequence[PlanGroup],
    episodes_per_unit: int | None = None,
    retry: Mapping[str, int] | None = None,
) -> tuple[Unit, ...]:
    """The units to append to `plan` so that it holds all that `groups` want; () when it does.

    `retry` maps the ids of failed episodes to the units that recorded the failures (`failed_episodes`). Each gets a
    further try, unless a later unit plans one already: doing this again after a crash adds nothing twice.
    """
    _check_distinct(groups)
    wanted = _retries(plan, retry or {})
    planned = {(name, e.seed, e.index) for unit in plan for name in [_group(unit)] for e in unit.episodes}
    for group in groups:
        new = [e for e in group.episodes() if (group.name, e.seed, e.index) not in planned]
        wanted.setdefault(group.name, []).extend(new)
    sizes = _unit_sizes(groups, episodes_per_unit)
    first = max((unit.number for unit in plan), default=-1) + 1
    chunks = [(name, chunk) for name, episodes in wanted.items() for chunk in _chunks(episodes, sizes.get(name, 1))]
    return tuple(Unit(first + k, *name, episodes=chunk) for k, (name, chunk) in enumerate(chunks))


def owed(plan: Iterable[Unit], committed: Collection[int]) -> list[Unit]:
    """The units that are not committed, in the plan's order."""
    return [unit for unit in plan if unit.number not in committed]


def superseding(plan: Iterable[Unit], committed: Collection[int]) -> dict[str, int]:
    """Episode id → the committed unit whose row of that episode counts (the last one)."""
    units = sorted((u for u in plan if u.number in committed), key=lambda u: u.number)
    return {episode_id: unit.number for unit in units for episode_id in episode_ids(unit)}


def episode_ids(unit: Unit) -> tuple[str, ...]:
    """The ids of a unit's episodes, in its order."""
    keys = unit.keys()
    return tuple(key.episode_id for key in keys)


def _group(unit: Unit) -> GroupName:
    return (unit.scenario, unit.rubric, unit.policy)


def _chunks(episodes: Sequence[PlannedEpisode], size: int) -> Iterator[tuple[PlannedEpisode, ...]]:
    return (tuple(episodes[start : start + size]) for start in range(0, len(episodes), size))


def _unit_sizes(groups: Sequence[PlanGroup], episodes_per_unit: int | None) -> dict[GroupName, int]:
    total = sum(len(group.seeds) * group.episodes_per_seed for group in groups)
    return {group.name: episodes_per_unit or _unit_size(group, total) for group in groups}


def _unit_size(group: PlanGroup, total: int) -> int:
    if group.costs_a_call:
        return 1
    return max(1, min(SHARD_BYTES // group.episode_bytes, ceil(total / MIN_UNITS)))


def _retries(plan: Sequence[Unit], failed: Mapping[str, int]) -> dict[GroupName, list[PlannedEpisode]]:
    latest = superseding(plan, {unit.number for unit in plan})
    retries: dict[GroupName, list[PlannedEpisode]] = {}
    for unit in plan:
        for episode_id, episode in zip(episode_ids(unit), unit.episodes, strict=True):
            if failed.get(episode_id) == unit.number == latest[episode_id]:
                again = PlannedEpisode(episode.seed, episode.index, episode.tries + 1)
                retries.setdefault(_group(unit), []).append(again)
    return retries


def _check_distinct(groups: Sequence[PlanGroup]) -> None:
    """Ids are made of slugs: what shares an id is said in the user's own names."""
    seen: dict[str, str] = {}
    for group in groups:
        exact = f"scenario {group.scenario!r}, rubric {group.rubric!r}, policy {group.policy!r}"
        first_of_each_seed = Unit(0, *group.name, episodes=tuple(PlannedEpisode(seed, 0) for seed in group.seeds))
        for episode_id in episode_ids(first_of_each_seed):
            if other := seen.get(episode_id):
                raise UsageError(f"episode {episode_id} is planned twice: by {other} and by {exact}")
            seen[episode_id] = exact
