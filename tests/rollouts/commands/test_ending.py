"""The last words of a command that left something undone."""

from __future__ import annotations

import signal

import pytest

from rollouts.commands.ending import Ending, Left, State, last_words


def ended(state: State, owed: int, left: Left, number: int | None = None) -> str:
    """The last line of a command that could write no evidence."""
    ending = Ending(state, owed, None, "the disk is full", number, left=left)
    return last_words(ending, "say it again")[-1]


@pytest.mark.parametrize(
    ("owed", "left", "told"),
    [
        (0, Left(20), "interrupted with 20 gradings owed; to go on, say it again"),
        (1, Left(), "interrupted with 1 episode owed; to go on, say it again"),
        (3, Left(1), "interrupted with 3 episodes and 1 grading owed; to go on, say it again"),
        (0, Left(summaries=1), "interrupted with the summaries of 1 episode owed; to go on, say it again"),
        (
            1,
            Left(2, 3),
            "interrupted with 1 episode, 2 gradings and the summaries of 3 episodes owed; to go on, say it again",
        ),
        (0, Left(), "interrupted; to go on, say it again"),
    ],
)
def test_an_interrupted_command_says_what_is_owed(owed: int, left: Left, told: str) -> None:
    assert ended("interrupted", owed, left, signal.SIGINT) == told


def test_a_stopped_command_says_what_is_owed_and_why() -> None:
    assert ended("stopped", 2, Left(1)) == "stopped with 2 episodes and 1 grading owed: the disk is full"
    assert ended("stopped", 0, Left()) == "stopped with work owed: the disk is full"
