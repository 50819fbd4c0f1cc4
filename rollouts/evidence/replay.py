"""Plays committed episodes again, here and now, and compares their trajectory hashes with the recorded ones.

In real time with a measured latency no episode can be repeated: a machine never takes the same time twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

from rollouts.config import RunConfig
from rollouts.doom.environment import make_environment
from rollouts.episode import EpisodeRules, run_episode
from rollouts.errors import UsageError
from rollouts.evidence.committed_run import EPISODES, CommittedRun
from rollouts.evidence.results import COMPLETED
from rollouts.policies.base import closing_policy
from rollouts.policies.registry import make_policy
from rollouts.records import Decision, EpisodeKey
from rollouts.shards.reading import read_table
from rollouts.shards.writing import shard_name
from rollouts.worker import CAPTURES

_COLUMNS = ("episode_id", "status", "trajectory_hash")


@dataclass(frozen=True)
class Recorded:
    """A committed episode and the hash that its row carries."""

    key: EpisodeKey
    trajectory_hash: str


class _Nothing:
    def record(self, decision: Decision) -> None:
        """Only the hash is wanted."""


def recorded_episodes(run: CommittedRun) -> list[Recorded]:
    """The completed episodes that count, in the plan's order; a model behind an endpoint is not asked again."""
    asked = {who["name"] for who in run.record.get("policies", {}).values() if who["provider"] is not None}
    found = []
    for unit in (unit for unit in run.units() if unit.policy not in asked):
        rows = read_table(run.storage, run.path(EPISODES, shard_name(unit.part)), _COLUMNS).to_pylist()
        hashes = {row["episode_id"]: row["trajectory_hash"] for row in rows if row["status"] == COMPLETED}
        keys = unit.keys()
        for key in keys:
            if key.episode_id in hashes and run.latest[key.episode_id] == unit.number:
                found.append(Recorded(key, hashes[key.episode_id]))
    return found


def spread(episodes: Sequence[Recorded], count: int) -> list[Recorded]:
    """`count` of them, evenly spread over the plan, so that every group has its turn."""
    count = min(count, len(episodes))
    return [episodes[i * len(episodes) // count] for i in range(count)]


def why_no_replay(run: CommittedRun, episodes: Sequence[Recorded]) -> str | None:
    """Why none of the run's recorded `episodes` can be played again alike; None where each can."""
    config = RunConfig.from_dict(run.record["configuration"])
    realtime = config.real_time()
    if realtime is not None and realtime.latency_ms is None:
        return "the latency was measured while the game went on, and no measurement repeats itself"
    if not episodes:
        return "no episode was completed by a policy that can be asked again (a model behind an endpoint is not)"
    return _what_is_gone(run, config)


def _what_is_gone(run: CommittedRun, config: RunConfig) -> str | None:
    """A scenario, a text for one or a checkpoint that cannot be had any more or is another by now."""
    try:
        scenarios = config.resolved()
    except UsageError as error:
        return str(error)
    recorded = {name: told["provenance"].get("file_sha256") for name, told in run.record["scenarios"].items()}
    for scenario in scenarios:
        if scenario.source is not None and scenario.source.sha256 != recorded.get(scenario.name):
            return f'scenario file "{scenario.source.name}" is no longer the one that was played'
    return _other_checkpoint(run, config)


def _other_checkpoint(run: CommittedRun, config: RunConfig) -> str | None:
    """A network whose file is gone or is another by now."""
    for spec, who in run.record["policies"].items():
        if (wanted := who.get("checkpoint_hash")) is None:
            continue
        try:
            with closing_policy(make_policy(spec, config.resolved()[0], gpus=None)) as policy:
                found = policy.describe().checkpoint_hash
        except UsageError as error:
            return str(error)
        if found != wanted:
            return f"the checkpoint of policy {spec!r} is no longer the one that played"
    return None


def replay(run: CommittedRun, episodes: Sequence[Recorded]) -> Iterator[str]:
    """Play them again; one sentence for each that comes out another way."""
    for episode in episodes:
        anew = _play(run, episode.key)
        if anew != episode.trajectory_hash:
            told = f"trajectory_hash is {episode.trajectory_hash} there, {anew} when played again here"
            yield f"episode {episode.key.episode_id}: {told}"


def _play(run: CommittedRun, key: EpisodeKey) -> str:
    config = RunConfig.from_dict(run.record["configuration"])
    scenario = config.scenario(key.scenario)
    asked_for = {who["name"]: spec for spec, who in run.record["policies"].items()}[key.policy]
    tics, step_cap = config.tics_of(scenario), config.step_cap_of(scenario)
    rules = EpisodeRules(scenario, tics, step_cap, config.seed, config.real_time())
    with closing_policy(make_policy(asked_for, scenario, settings=config.model_settings)) as policy:
        sees = CAPTURES[config.frames]  # as in the run: the policy may look at them
        with closing(make_environment(scenario, sees, rules.tics, config.variables)) as environment:
            return run_episode(key, rules, environment, policy, _Nothing()).trajectory_hash
