from dataclasses import dataclass

import numpy as np
import pytest

from rollouts.doom.perception import DepthReader, Kinds, see_things
from rollouts.records import DepthBands, Thing


@dataclass(frozen=True)
class FakeLabel:
    object_name: str
    x: int = 0
    width: int = 10
    height: int = 24


@pytest.mark.parametrize(
    ("raw", "judged"),
    [
        ("Demon", ("Demon", "monster")),
        ("MarineChainsawVzd", ("MarineChainsaw", "monster")),
        ("Medikit", ("Medikit", "item")),
        ("Clip", ("Clip", "item")),
        ("DoomPlayer", ("DoomPlayer", None)),
        ("DeadZombieman", ("DeadZombieman", None)),
        ("DeadMarineVzd", ("DeadMarine", None)),
        ("BulletPuff", ("BulletPuff", None)),
        ("MarineChainsaw", ("MarineChainsaw", None)),
    ],
)
def test_names_are_judged(raw: str, judged: tuple[str, str | None]) -> None:
    assert Kinds()[raw] == judged


def test_a_scenario_can_name_monsters_of_its_own() -> None:
    assert Kinds(["MarineChainsaw"])["MarineChainsaw"] == ("MarineChainsaw", "monster")


def test_a_scenario_can_name_items_and_what_flies() -> None:
    kinds = Kinds((), ["CustomMedikit"], ["DoomImpBall"])
    assert kinds["CustomMedikit"] == ("CustomMedikit", "item")
    assert kinds["DoomImpBall"] == ("DoomImpBall", "projectile")
    assert Kinds()["DoomImpBall"] == ("DoomImpBall", None)


def test_things_are_relative_to_the_frame_and_largest_first() -> None:
    labels = [
        FakeLabel("Medikit", x=0, width=32, height=24),
        FakeLabel("Demon", x=144, width=32, height=120),
        FakeLabel("DoomPlayer", height=240),
    ]
    assert see_things(labels, Kinds(), 320, 240) == (
        Thing("Demon", "monster", cx=0.5, size=0.5),
        Thing("Medikit", "item", cx=0.05, size=0.1),
    )


def test_labels_without_width_or_height_are_skipped() -> None:
    labels = [FakeLabel("Demon", width=0), FakeLabel("Demon", height=0)]
    assert see_things(labels, Kinds(), 320, 240) == ()


def test_equal_sizes_keep_the_engines_order() -> None:
    labels = [FakeLabel("Demon", x=200), FakeLabel("Demon", x=100)]
    assert [thing.cx for thing in see_things(labels, Kinds(), 320, 240)] == [205 / 320, 105 / 320]


def test_depth_bands_look_at_the_middle_rows_and_three_fifths() -> None:
    depth = np.full((240, 320), 200, np.uint8)
    depth[80:160, :64], depth[80:160, 128:192], depth[80:160, 256:] = 10, 20, 30
    assert DepthReader(320, 240).read(depth) == DepthBands(10, 20, 30)


def test_an_even_count_takes_the_mean_of_the_two_middle_values() -> None:
    depth = np.zeros((240, 320), np.uint8)
    depth[80:120], depth[120:160] = 7, 8
    assert DepthReader(320, 240).read(depth) == DepthBands(7.5, 7.5, 7.5)


@pytest.mark.parametrize(("width", "height"), [(320, 240), (160, 121), (33, 10)])
def test_bands_are_exact_medians_frame_after_frame(width: int, height: int) -> None:
    reader, rng, fifth = DepthReader(width, height), np.random.default_rng(3), width // 5
    for _ in range(5):
        depth = rng.integers(0, 256, (height, width), dtype=np.uint8)
        middle = depth[height // 3 : height - height // 3]
        start = (width - fifth) // 2
        bands = middle[:, :fifth], middle[:, start : start + fifth], middle[:, width - fifth :]
        assert reader.read(depth) == DepthBands(*(float(np.median(band)) for band in bands))
