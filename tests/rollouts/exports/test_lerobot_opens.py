"""LeRobot itself opens the export and loads batches of it.

Its pins differ from ours and it is several GB, so it lives in a virtual environment of its own, and only who asks for
it pays: `make lerobot-check` makes that environment and sets LEROBOT_PYTHON, without which this is skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.exported_runs import pixels
from tests.rollouts.exports.conftest import Exported

PYTHON = os.environ.get("LEROBOT_PYTHON")
OPENS = """
import json, sys
import torch
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.datasets.utils import dataset_to_policy_features

rows = LeRobotDataset("local/doom", root=sys.argv[1], delta_timestamps={"action": [0.0, 1 / 8.75]})
batches = list(torch.utils.data.DataLoader(rows, batch_size=4))
third = LeRobotDataset("local/doom", root=sys.argv[1], episodes=[2])
print(json.dumps({
    "frames": len(rows),
    "episodes": rows.num_episodes,
    "fps": rows.fps,
    "batches": [list(batch["observation.image"].shape) for batch in batches],
    "actions": [rows[n]["action"].tolist() for n in range(3)],
    "padded": [rows[n]["action_is_pad"].tolist() for n in range(3)],
    "third": [third[n]["index"].item() for n in range(len(third))],
    "task": rows[0]["task"],
    "picture": (rows[4]["observation.image"] * 255).round().int().permute(1, 2, 0).tolist(),
    "mean": rows.meta.stats["observation.image"]["mean"].shape,
    "features": {name: feature.type.name for name, feature in dataset_to_policy_features(rows.features).items()},
}))
"""


@pytest.mark.slow
@pytest.mark.skipif(PYTHON is None, reason="LEROBOT_PYTHON names no Python that has lerobot: make lerobot-check")
def test_lerobot_opens_it(exported: Exported) -> None:
    out, _ = exported("lerobot")
    told = opened(str(out))
    assert (told["frames"], told["episodes"], told["fps"]) == (6, 3, 8.75)
    assert told["batches"] == [[4, 3, 24, 32], [2, 3, 24, 32]]
    assert told["actions"] == [[[0, 1], [1, 0]], [[1, 0], [1, 0]], [[1, 0], [1, 0]]]
    assert told["padded"] == [[False, False], [False, False], [False, True]]
    assert told["third"] == [4, 5]
    assert told["task"] == "Go down."
    assert told["picture"] == pixels(2, 0).tolist()
    assert told["mean"] == [3, 1, 1]
    assert told["features"] == {"observation.image": "VISUAL", "observation.state": "STATE", "action": "ACTION"}


def opened(folder: str) -> dict[str, Any]:
    """What LeRobot says of a dataset; nothing of ours is on its path."""
    variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    variables |= {"HF_HUB_OFFLINE": "1", "HF_HOME": f"{folder}/../hf"}
    done = subprocess.run(
        [PYTHON or sys.executable, "-c", OPENS, folder],
        env=variables,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told
