"""Frozen records that walk through a rollout. Knows nothing of Doom, Ray, Parquet or the command line.

Units are part of the names: `_s` seconds, `_ms` milliseconds, `_tics` engine tics (35 a second).
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rollouts.naming import slug

ThingKind = Literal["monster", "item", "projectile"]
EndReason = Literal["death", "goal", "timeout", "step_cap"]
ActedBy = Literal["policy", "teacher", "fallback"]


@dataclass(frozen=True, slots=True)
class EpisodeKey:
    """Names one episode of one run. `policy` is the exact name; ids carry its slug.

    `index` counts the episodes of a seed from 0. The random streams leave rubric and policy out.
    """

    scenario: str
    rubric: str
    policy: str
    seed: int
    index: int

    @property
    def episode_id(self) -> str:
        """`{scenario}.{rubric}.{policy slug}.{seed}.{index}`; unique within a run."""
        return f"{slug(self.scenario)}.{self.rubric}.{slug(self.policy)}.{self.seed}.{self.index}"


@dataclass(frozen=True, slots=True)
class Frame:
    """One picture. `pixels` is uint8, C-contiguous and read-only: (H, W) palette indices when `palette`
    (uint8, (256, 3)) is given, else (H, W, 3) RGB."""

    pixels: NDArray[np.uint8]
    palette: NDArray[np.uint8] | None = None

    def rgb(self) -> NDArray[np.uint8]:
        """A fresh, writable (H, W, 3) RGB array."""
        return self.pixels.copy() if self.palette is None else np.take(self.palette, self.pixels, axis=0)


@dataclass(frozen=True, slots=True)
class Thing:
    """One visible object. `cx` is its centre in [0, 1] from the left; `size` its height over the frame's."""

    name: str
    kind: ThingKind
    cx: float
    size: float


@dataclass(frozen=True, slots=True)
class DepthBands:
    """Median depth (0-255) over the middle third of the rows: left, centre and right fifth of the columns."""

    left: float
    centre: float
    right: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What there is to see before an action. A variable that the scenario does not have is None.

    `game_tic` is the episode's engine time; `things` are sorted by size, largest first; `variables` are the further
    engine variables that the scenario records.
    """

    game_tic: int
    health: int | None = None
    ammo: int | None = None
    kills: int | None = None
    things: tuple[Thing, ...] = ()
    depth: DepthBands | None = None
    frame: Frame | None = None
    variables: Mapping[str, float] = field(default_factory=dict)

    def value(self, name: str) -> float | None:
        """A variable by name: `health`, `ammo`, `kills`, or one of `variables`; None where there is none."""
        own = {"health": self.health, "ammo": self.ammo, "kills": self.kills}
        return own[name] if name in own else self.variables.get(name)


@dataclass(frozen=True, slots=True)
class Transition:
    """What one action led to. The `*_after` counters are read also when the engine gives no more state.

    `snapshot` is None exactly when the engine has no state to show (mostly: the episode is over).
    `terminated`: died or reached the goal; `truncated`: the engine's own time limit. `tics`: how many passed, where
    the environment knows (an end cuts an action short); None means all that were asked for.
    """

    reward: float
    snapshot: Snapshot | None
    terminated: bool = False
    truncated: bool = False
    end_reason: EndReason | None = None
    health_after: int | None = None
    ammo_after: int | None = None
    kills_after: int | None = None
    events: tuple[str, ...] = ()
    variables: Mapping[str, float] = field(default_factory=dict)
    tics: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What a policy replied. `choice` is its own answer, word for word, or None when it had none.

    `probabilities` maps options to numbers as the policy gave them (may be empty or partial); none of those that it
    leaves out is more probable than `probability_bound`. `latency_ms` is the time of the request that was answered,
    without queue, failed tries and pauses. Where there is no choice, `cause` is a short code that says why and
    `detail` one scrubbed line. `parse_rule` names the rule by which a model's reply was read: `exact` where the reply
    was, character for character, what was asked for.
    `asked` is False where a mixture let the teacher act; `acted_by` then says so, and `choice` is the teacher's.
    """

    choice: str | None
    probabilities: Mapping[str, float] = field(default_factory=dict)
    confidence: float | None = None
    latency_ms: float | None = None
    asked: bool = True
    acted_by: ActedBy = "policy"
    cause: str | None = None
    detail: str | None = None
    parse_rule: str | None = None
    options_shown: tuple[str, ...] | None = None
    option_mass: float | None = None
    probability_bound: float | None = None
    policy_text: str | None = None
    messages: str | None = None
    raw_reply: str | None = None
    finish_reason: str | None = None
    reply_tokens: tuple[str, ...] | None = None
    reply_logprobs: tuple[float, ...] | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    model_version: str | None = None

    @property
    def own(self) -> str | None:
        """What the policy itself said; None where it was not asked."""
        return self.choice if self.asked else None


@dataclass(frozen=True, slots=True)
class Decision:
    """One row of the steps table: what was seen, answered and done, and what came of it.

    `tick` counts decisions from 0. `effective_action` is what was sent to the game: the answer, or the first
    option where the answer was out of schema (`schema_error` then names the cause, `error` the scrubbed text).
    In real time `waited_tics` passed before it was sent; it and `acted_by` are None where the episode was over by then.
    """

    tick: int
    state: str
    snapshot: Snapshot
    teacher_action: str | None
    answer: Answer
    effective_action: str | None
    acted_by: ActedBy | None
    transition: Transition
    terminated: bool
    truncated: bool
    decided_at: datetime
    schema_error: str | None = None
    error: str | None = None
    waited_tics: int | None = None

    @property
    def out_of_schema(self) -> bool:
        return self.schema_error is not None


@dataclass(frozen=True, slots=True)
class Episode:
    """A completed episode: one row of the episodes table with status `completed`.

    `metric` follows the scenario; latencies are linear-interpolation percentiles, None when nothing was timed.
    `final_state` and `final_frame` are kept for bootstrapping after a truncation, None where there is none.
    `waited_tics` is the sum over its decisions, None outside real time.
    """

    key: EpisodeKey
    metric_name: str
    metric: float
    steps: int
    total_reward: float
    end_reason: EndReason | None
    terminated: bool
    truncated: bool
    out_of_schema_by_cause: Mapping[str, int]
    latency_ms_p50: float | None
    latency_ms_p95: float | None
    trajectory_hash: str
    frames_hash: str | None
    final_state: str | None
    final_frame: Frame | None
    started_at: datetime
    ended_at: datetime
    waited_tics: int | None = None

    @property
    def n_out_of_schema(self) -> int:
        return sum(self.out_of_schema_by_cause.values())


@dataclass(frozen=True, slots=True)
class EpisodeFailure:
    """An episode that could not be played: a row with status `failed`, never a made-up number.

    `stage`: environment, policy, engine, worker or scenario; `cause`: one scrubbed line.
    """

    key: EpisodeKey
    stage: str
    cause: str
    started_at: datetime
    ended_at: datetime


@dataclass(frozen=True, slots=True)
class PolicyDescription:
    """Who plays. Goes to the manifest and to graders; settings hold no secrets.

    `inner` is who a policy that holds another (a mixture) asks.
    """

    name: str
    kind: Literal["rule", "model"]
    model: str | None = None
    provider: str | None = None
    checkpoint_hash: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    note: str | None = None
    inner: PolicyDescription | None = None


@dataclass(frozen=True, slots=True)
class PlannedEpisode:
    """A seed and the index of its episode, with the number of earlier tries that failed (0 at first)."""

    seed: int
    index: int
    tries: int = 0


@dataclass(frozen=True, slots=True)
class Unit:
    """The smallest piece of work that is committed: a few episodes of one (scenario, rubric, policy) group."""

    number: int
    scenario: str
    rubric: str
    policy: str
    episodes: tuple[PlannedEpisode, ...]

    @property
    def part(self) -> str:
        """Name of the unit's shard in every table."""
        return f"part-{self.number:07d}"

    def keys(self) -> tuple[EpisodeKey, ...]:
        return tuple(EpisodeKey(self.scenario, self.rubric, self.policy, e.seed, e.index) for e in self.episodes)


@dataclass(frozen=True, slots=True)
class ShardFile:
    """A finished shard as its writer saw it. `name` is the file's name in its table's folder."""

    name: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class UnitReport:
    """What a worker tells the driver about a unit it has staged: counts and names, never data.

    `steps` is None when no episode of the unit had a decision to record.
    `failures` holds one (stage, cause) for each failed episode, in episode order, None for a completed one.
    `side`: what was judged where the unit was played, to be promoted right after it.
    """

    unit: int
    attempt: str
    steps: ShardFile | None
    episodes: ShardFile
    n_decisions: int
    n_out_of_schema: int
    failures: tuple[tuple[str, str] | None, ...]
    engine_restarts: int = 0
    side: SideReport | None = None


@dataclass(frozen=True, slots=True)
class SideCounts:
    """What a grading, summarizing or credit task has made. `ungraded` and `degraded` are pairs (cause, how many);
    `summarized` counts the episodes that the `entries` are of.

    `requests` counts HTTP requests, failed tries included; `reused` answers came from the stored calls. `cost_usd`
    covers the calls with a known price; `unpriced` counts those with tokens and no price.
    """

    graded: int = 0
    ungraded: tuple[tuple[str, int], ...] = ()
    entries: int = 0
    summarized: int = 0
    degraded: tuple[tuple[str, int], ...] = ()
    credited: int = 0
    calls: int = 0
    requests: int = 0
    reused: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0

    @property
    def gradings(self) -> int:
        """Grades given, with a score or without."""
        return self.graded + sum(n for _, n in self.ungraded)

    def __add__(self, other: SideCounts) -> SideCounts:
        mine = dataclasses.asdict(self)
        return SideCounts(**{name: _added(value, getattr(other, name)) for name, value in mine.items()})


def _added(mine: Any, other: Any) -> Any:
    """Numbers are added; of pairs (cause, how many) those of one cause."""
    if not isinstance(mine, tuple):
        return mine + other
    total = Counter(dict(mine))
    total.update(dict(other))
    return tuple(sorted(total.items()))


@dataclass(frozen=True, slots=True)
class SideShard:
    """A staged shard of a side table: `grades`, `summaries`, `credit` or `calls` of who is named by `id`.

    `file.name` (`part-<unit>-<k>.parquet`) says for which k it was made: it can be committed only as the unit's next
    part, so that nothing is judged twice. A shard of `calls` takes whatever k is free.
    """

    table: str
    id: str
    file: ShardFile


@dataclass(frozen=True, slots=True)
class SideReport:
    """What a grading, summarizing or credit task tells the driver about a unit: counts and names, never data.

    `shards` stand in the order in which they are promoted (calls first); () where there was nothing to add.
    `failures` holds None or (stage, cause) for each episode of the unit, in its order: stage `grading` for an episode
    whose newest grade is without score, `summaries` for one with degraded entries.
    `complete` is False where work of the unit is still owed; `stop` then says why: ("budget" | "stopped", cause).
    """

    unit: int
    attempt: str
    shards: tuple[SideShard, ...]
    failures: tuple[tuple[str, str] | None, ...]
    counts: SideCounts = SideCounts()
    complete: bool = True
    stop: tuple[Literal["budget", "stopped"], str] | None = None
