"""Grades that need no model, by the name of their source."""

from __future__ import annotations

from collections.abc import Sequence

from grading.feedback import FeedbackRow, explicit_grade
from grading.grade import Grade, Source
from grading.heuristic import heuristic_grade
from grading.played import PlayedEpisode


def grade_without_model(source: Source | None, episode: PlayedEpisode, said: Sequence[FeedbackRow]) -> Grade:
    """The heuristic grade of an episode, or the one that people's feedback alone gives (`explicit`)."""
    if source == "explicit":
        return explicit_grade(said)
    if source == "heuristic":
        return heuristic_grade(episode.facts.metric, episode.steps, episode.baseline, said)
    raise ValueError(f"{source!r} grades are not made without a model")
