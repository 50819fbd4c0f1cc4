"""Scenario files for tests: one that works, and the stock files that one can be made of."""

from __future__ import annotations

from pathlib import Path

import vizdoom

STOCK = Path(vizdoom.scenarios_path)

LINE = """
name = "my_line"
cfg = "mine.cfg"
wad = "mine.wad"
seeds = "0:4"
step_cap = 40
metric = "kills"
monsters = ["MarineChainsaw"]
variables = ["HITCOUNT"]

[actions]
attack = "ATTACK"
"turn left" = "TURN_LEFT"
"turn right" = "TURN_RIGHT"
"run and gun" = ["ATTACK", "MOVE_FORWARD", "SPEED"]
wait = []

[text]
monsters = 3
variables = ["health", "ammo", "ARMOR"]
names = { DoomImp = "imp" }
words = { health = "Hit points:", ARMOR = "Armour:" }

[rubrics]
rule = "Shoot the nearest monster; turn towards it first."
bare_file = "bare.txt"

[[teacher]]
do = "run and gun"
see = "monster"
where = "centre"
near = ["close", "point blank"]

[[teacher]]
do = "attack"
see = "monster"
where = "centre"

[[teacher]]
do = "turn right"
variable = "HITCOUNT"
at_least = 1
ahead = ["open", "some room"]

[[teacher]]
do = "turn left"

[baselines]
random = 2.5
oracle = 9
"""


def write_line(folder: Path, change: tuple[str, str] = ("", "")) -> Path:
    """The file above, with one part of it changed, and the files that it names."""
    assert change[0] in LINE
    (folder / "mine.cfg").write_text((STOCK / "defend_the_line.cfg").read_text())
    (folder / "mine.wad").write_bytes((STOCK / "defend_the_line.wad").read_bytes())
    (folder / "bare.txt").write_text("Shoot monsters.\n")
    path = folder / "line.toml"
    path.write_text(LINE.replace(*change, 1) if change[0] else LINE)
    return path
