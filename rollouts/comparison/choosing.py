"""What `RUN` and `RUN:policy` mean, and who is compared with whom. Pure but for looking whether a run is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rollouts.comparison.contest import Contest, contest
from rollouts.comparison.leaderboard import Leaderboard, leaderboard
from rollouts.comparison.played import PlayedGroup
from rollouts.errors import UsageError


@dataclass(frozen=True)
class Side:
    """What one argument named: a run, or one policy of it. `groups` are those of all its policies, or of that one."""

    given: str
    policy: str | None
    groups: tuple[PlayedGroup, ...]

    @property
    def policies(self) -> list[str]:
        return list(dict.fromkeys(group.facts.policy for group in self.groups))

    def of(self, policy: str) -> list[PlayedGroup]:
        return [group for group in self.groups if group.facts.policy == policy]


def split(given: str, is_run: Callable[[str], bool]) -> tuple[str, str | None]:
    """The run, and the policy where one is named. Paths, URIs and policies may have colons of their own: the longest
    beginning that is a run is the run, and what does not begin with one is a run that is not there."""
    places = [place for place, letter in enumerate(given) if letter == ":"]
    cuts = [len(given), *reversed(places)]
    for cut in cuts:
        if is_run(given[:cut]):
            return given[:cut], given[cut + 1 :] or None
    return given, None


def contests(first: Side, second: Side) -> tuple[list[Contest], list[str]]:
    """Two sides against each other; and, in words, what of them has no opponent.

    Without a policy named, policies of one name meet; where each side has one alone, these two do.
    Errors: `UsageError` where nobody meets.
    """
    pairs = _opponents(first, second)
    found, alone = [], []
    for a, b in pairs:
        met, left = _by_scenario(first.of(a), second.of(b))
        found += met
        alone += left
    for side, met_policies in ((first, [a for a, _ in pairs]), (second, [b for _, b in pairs])):
        alone += [f"{side.given}: policy {name} has no opponent" for name in side.policies if name not in met_policies]
    if not found:
        raise UsageError(f"{first.given} and {second.given} have no scenario and rubric in common")
    return found, alone


def _opponents(first: Side, second: Side) -> list[tuple[str, str]]:
    if len(first.policies) == 1 == len(second.policies):
        return [(first.policies[0], second.policies[0])]
    common = [policy for policy in first.policies if policy in second.policies]
    if common:
        return [(policy, policy) for policy in common]
    has = "; ".join(f"{side.given} has {', '.join(side.policies)}" for side in (first, second))
    raise UsageError(f"which policies are to be compared? Name them as RUN:policy: {has}")


def _by_scenario(first: Sequence[PlayedGroup], second: Sequence[PlayedGroup]) -> tuple[list[Contest], list[str]]:
    """Same scenario and rubric; where each side has one rubric of a scenario alone, these two."""
    theirs = {_name(group): group for group in second}
    found, alone, met = [], [], set()
    for group in first:
        other = theirs.get(_name(group)) or _only_rubric(group, first, second)
        if other is None:
            alone.append(f"{group.name}: {'/'.join(_name(group))} has no opponent")
        else:
            found.append(contest(group, other))
            met.add(_name(other))
    alone += [f"{group.name}: {'/'.join(name)} has no opponent" for name, group in theirs.items() if name not in met]
    return found, alone


def _only_rubric(group: PlayedGroup, first: Sequence[PlayedGroup], second: Sequence[PlayedGroup]) -> PlayedGroup | None:
    scenario = group.facts.scenario
    ours, theirs = ([g for g in side if g.facts.scenario == scenario] for side in (first, second))
    return theirs[0] if len(ours) == 1 == len(theirs) else None


def _name(group: PlayedGroup) -> tuple[str, str]:
    return group.facts.scenario, group.facts.rubric


def leaderboards(sides: Sequence[Side]) -> tuple[list[Leaderboard], list[str]]:
    """Every scenario and rubric that two or more have, all policies in it; and, in words, what nobody else has."""
    together: dict[tuple[str, str], list[PlayedGroup]] = {}
    for side in sides:
        for group in side.groups:
            together.setdefault(_name(group), []).append(group)
    alone = [f"{of[0].name}: {'/'.join(name)} has no opponent" for name, of in together.items() if len(of) == 1]
    return [leaderboard(of) for of in together.values() if len(of) > 1], alone
