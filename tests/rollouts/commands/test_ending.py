"""The last words of a command that left something undone."""

from __future__ import annotations

import signal

import pytest

from rollouts.commands.ending import Ending, State, last_words


def ended(state: State, owed: int, gradings_left: int, number: int | None = None) -> str:
    """The last line of a command that could write no evidence."""
    ending = Ending(state, owed, None, "the disk is full", number, gradings_left=gradings_left)
    return last_words(ending, "say it again")[-1]


@pytest.mark.parametrize(
    ("owed", "gradings_left", "told"),
    [
        (0, 20, "interrupted with 20 gradings owed; to go on, say it again"),
        (1, 0, "interrupted with 1 episode owed; to go on, say it again"),
        (3, 1, "interrupted with 3 episodes and 1 grading owed; to go on, say it again"),
        (0, 0, "interrupted; to go on, say it again"),
    ],
)
def test_an_interrupted_command_says_what_is_owed(owed: int, gradings_left: int, told: str) -> None:
    assert ended("interrupted", owed, gradings_left, signal.SIGINT) == told


def test_a_stopped_command_says_what_is_owed_and_why() -> None:
    assert ended("stopped", 2, 1) == "stopped with 2 episodes and 1 grading owed: the disk is full"
    assert ended("stopped", 0, 0) == "stopped with work owed: the disk is full"
