"""A teacher as an ordered list of rules: the first that fits says what to do. Looks at one snapshot only."""

from __future__ import annotations

from dataclasses import dataclass

from rollouts.errors import ScenarioError
from rollouts.observation import Clearance, Position, Range, clearance, distance, nearest, position
from rollouts.records import DepthBands, Snapshot

LEFT: tuple[Position, ...] = ("far left", "left")
CENTRE: tuple[Position, ...] = ("centre",)
RIGHT: tuple[Position, ...] = ("right", "far right")


@dataclass(frozen=True, slots=True)
class Rule:
    """Do `do` if all that is given holds; an empty tuple or None is not given.

    `see`: the nearest thing of that kind or class name is in view, at one of `where` and within one of `near`.
    `unseen`: nothing of that kind or class name is in view. `left`, `ahead`, `right`: how much room there is.
    `variable` (health, ammo, kills or one of the engine's that the scenario records) is `below` or `at_least` that.
    """

    do: str
    see: str | None = None
    where: tuple[Position, ...] = ()
    near: tuple[Range, ...] = ()
    unseen: str | None = None
    left: tuple[Clearance, ...] = ()
    ahead: tuple[Clearance, ...] = ()
    right: tuple[Clearance, ...] = ()
    variable: str | None = None
    below: float | None = None
    at_least: float | None = None

    @property
    def always(self) -> bool:
        """Does it fit whatever there is?"""
        return self == Rule(self.do)

    @property
    def reads_depth(self) -> bool:
        return bool(self.left or self.ahead or self.right)

    def fits(self, snapshot: Snapshot) -> bool:
        return (
            (self.see is None or self._sees(snapshot, self.see))
            and (self.unseen is None or nearest(snapshot, self.unseen) is None)
            and (not self.reads_depth or self._has_room(snapshot.depth))
            and (self.variable is None or self._counts(snapshot.value(self.variable)))
        )

    def _sees(self, snapshot: Snapshot, what: str) -> bool:
        thing = nearest(snapshot, what)
        if thing is None or (self.where and position(thing.cx) not in self.where):
            return False
        return not self.near or distance(thing.size) in self.near

    def _has_room(self, depth: DepthBands | None) -> bool:
        if depth is None:
            return False
        bands = ((self.left, depth.left), (self.ahead, depth.centre), (self.right, depth.right))
        return all(not wanted or clearance(median) in wanted for wanted, median in bands)

    def _counts(self, value: float | None) -> bool:
        if value is None:
            return False
        return (self.below is None or value < self.below) and (self.at_least is None or value >= self.at_least)


@dataclass(frozen=True, slots=True)
class Rules:
    """A teacher. Errors: `ScenarioError` where the last rule leaves anything open, or an earlier one nothing."""

    rules: tuple[Rule, ...]

    def __post_init__(self) -> None:
        if not self.rules or not self.rules[-1].always:
            raise ScenarioError("a teacher's last rule must fit always: nothing but what to do")
        first = next(number for number, rule in enumerate(self.rules, 1) if rule.always)
        if first < len(self.rules):
            raise ScenarioError(f"a teacher's rule {first} fits always: none of those after it is ever reached")

    def __call__(self, snapshot: Snapshot) -> str:
        return next(rule.do for rule in self.rules if rule.fits(snapshot))


def towards(what: str, arrived: str, left: str = "turn left", right: str = "turn right") -> tuple[Rule, ...]:
    """Bring the nearest `what` to the centre with `left` and `right`; there, do `arrived`."""
    return (Rule(arrived, what, CENTRE), Rule(left, what, LEFT), Rule(right, what, RIGHT))
