"""Small scenarios and policies for tests, importable by workers as `tests.doubles:NAME`. None of them is Doom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rollouts.records import Answer, Decision, PolicyDescription, Snapshot, Transition
from rollouts.scenarios.scenario import Action, Metric, Scenario

LENGTH = 5


class CountingEnvironment:
    """Counts down from 5 + index to 0; `down` is a step down, `stay` is none. Ends at 0 (goal).

    Checks its contract: reset first, known actions only, no step after the end.
    """

    def __init__(self) -> None:
        self.left: int | None = None
        self.tic = 0
        self.restarts = 0

    @property
    def finished(self) -> bool:
        return self.left is None or self.left <= 0

    def reset(self, seed: int, index: int) -> Snapshot:
        self.left = LENGTH + index if seed else 0
        self.tic = 0
        return Snapshot(self.tic, health=self.left)

    def step(self, action: str, tics: int) -> Transition:
        assert self.left is not None, "step before reset"
        assert not self.finished, "step after the end"
        assert action in ("stay", "down"), action
        self.tic += tics
        self.left -= action == "down"
        over = self.finished
        return Transition(
            reward=float(action == "down"),
            snapshot=None if over else Snapshot(self.tic, health=self.left),
            terminated=over,
            end_reason="goal" if over else None,
            health_after=self.left,
        )

    def close(self) -> None:
        self.left = None


def _describe(snapshot: Snapshot, previous: str | None) -> str:
    return f"{snapshot.health} left." + (f" You chose {previous}." if previous else "")


def counting_scenario(**changes: object) -> Scenario:
    """The counting game; seed 0 is over right after its reset."""
    fields: dict[str, object] = {
        "name": "counting",
        "seeds": (1, 2, 3),
        "metric": Metric("left", "count", lambda last, decisions, tics: float(last.health or 0)),
        "actions": (Action("stay", ()), Action("down", ())),
        "describe": _describe,
        "teacher": lambda snapshot: "down",
        "instructions": {"rule": "Go down.", "bare": "Reach 0."},
        "engine": None,
        "environment": lambda scenario, tics, capture: CountingEnvironment(),
        "baselines": None,
    }
    return Scenario(**{**fields, **changes})  # type: ignore[arg-type]


COUNTING = counting_scenario()


class BrokenResetEnvironment(CountingEnvironment):
    def reset(self, seed: int, index: int) -> Snapshot:
        raise OSError("no such level")


BROKEN_RESET = counting_scenario(
    name="broken_reset", environment=lambda scenario, tics, capture: BrokenResetEnvironment()
)


@dataclass
class ScriptedPolicy:
    """Answers what it is given, in turn; an exception in the script is raised."""

    script: Sequence[Answer | BaseException | object]
    asked: list[str] = field(default_factory=list)

    def act(self, snapshot: Snapshot, text: str, options: tuple[str, ...], instructions: str | None) -> Answer:
        answer = self.script[len(self.asked) % len(self.script)]
        self.asked.append(text)
        if isinstance(answer, BaseException):
            raise answer
        return answer  # type: ignore[return-value]

    def describe(self) -> PolicyDescription:
        return PolicyDescription("scripted", "rule")


class BadWeightsPolicy(ScriptedPolicy):
    def __init__(self) -> None:
        raise ValueError("bad weights path X")


class EchoBackend:
    """Text-only: always the last option."""

    def predict_choice(self, text: str, options: tuple[str, ...], instructions: str | None) -> Answer:
        return Answer(options[-1], raw_reply=f"{text}|{instructions}")

    def describe(self) -> PolicyDescription:
        return PolicyDescription("org/echo:8b", "model", model="echo")


@dataclass
class Recording:
    """A recorder that keeps everything."""

    decisions: list[Decision] = field(default_factory=list)

    def record(self, decision: Decision) -> None:
        self.decisions.append(decision)
