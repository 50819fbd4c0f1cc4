"""Every error this project raises on purpose: a flat tree, so that a caller can name what it handles."""

from __future__ import annotations


class RolloutsError(Exception):
    """Base of all: the message names the thing, the value and what would be right."""


class UsageError(RolloutsError):
    """The user asked for something impossible. The command line prints the message and exits with 2."""


class ScenarioError(RolloutsError):
    """A scenario contradicts itself or its engine (buttons, options, a wad that is none)."""


class TryVoid(RolloutsError):
    """This try at an episode says nothing about the policy (engine or endpoint lost): play it again."""


class EngineLost(TryVoid):
    """The game engine died or stopped answering in the middle of an episode."""


class PolicyError(RolloutsError):
    """What a policy raised in another process, in words; data like any exception of a policy."""


class BudgetSpent(RolloutsError):
    """The run's budget for model calls is used up: the episode stays owed."""


class StorageError(RolloutsError):
    """The run folder cannot be read or written (disk full, permission lost, object store failing)."""


class LeaseError(RolloutsError):
    """Another driver holds, or has taken over, the run folder."""


class RunStopped(RolloutsError):
    """The run cannot go on (systemic failure); the message carries the first cause."""
