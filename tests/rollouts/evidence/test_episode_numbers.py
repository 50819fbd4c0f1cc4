"""Episode by episode, the numbers add up to those of the manifest."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollouts.evidence.episode_numbers import measure
from rollouts.evidence.manifest import tally_run
from tests.made_runs import made_run


def test_episodes_add_up_to_the_manifests_numbers(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    blocks = {(b["rubric"], b["policy"]): b for b in tally_run(run).as_dict()["results"]}
    for group in measure(run):
        block = blocks[group.facts.rubric, group.facts.policy]
        agreements = [episode.agreement for episode in group.episodes]
        assert sum(a.n for a in agreements) == block["rubric_agreement"]["n"]
        n = block["rubric_agreement"]["n"]
        assert sum(a.agreed for a in agreements) == round((block["rubric_agreement"]["agreement"] or 0) * n)
        assert group.calibration.ece == block["rubric_agreement"]["ece"]
        assert [e.row.metric for e in group.completed] == [e["value"] for e in block["left_by_episode"]]


def test_each_episode_has_its_own(tmp_path: Path) -> None:
    """Of HALF_RIGHT 1 of 3 agrees; SILENT agrees; in TEACHERS nobody was asked, in the try that counts."""
    (half, _) = measure(made_run(tmp_path))
    assert [(e.row.seed, e.agreement.agreed, e.agreement.n, e.disagreements) for e in half.completed] == [
        *[(1, 1, 3, 2), (2, 1, 1, 0), (3, 0, 0, 0)]
    ]
    assert half.completed[0].agreement.brier == pytest.approx((0.32 + 0.98 + 0.01) / 3)


def test_other_policies_are_not_read(tmp_path: Path) -> None:
    run = made_run(tmp_path)
    names = {group.facts.policy for group in measure(run)}
    assert {group.facts.policy for group in measure(run, names)} == names
    assert measure(run, ["nobody"]) == ()
