"""The page in a real browser: nothing red in the console, it plays, jumps and filters, wide and on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rollouts.report.embedding import embed
from rollouts.report.page import render_page
from rollouts.report.report import make_report
from tests.browser import PHONE, WIDE, Browser, find_browser
from tests.console import rollouts
from tests.reported_runs import reported
from tests.rollouts.report.test_page import HOSTILE, hostile_judge, hostile_run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_browser() is None, reason="no Chromium here (Debian: apt-get install chromium)"),
]
DEMO = ("--scenario", "published", "--policy", "oracle", "--policy", "random", "--rubric", "rule")
TEXTS = (
    "h1",
    "td",
    "th",
    ".facts",
    ".notes li",
    "nav a",
    "#list small",
    "#list button",
    "#decision dt",
    "#decision .bad",
)
TEXTS += ("#state", ".verdict p", "kbd", "figcaption", "select", "#play")
SIZES = [pytest.param(WIDE, id="1280"), pytest.param(PHONE, id="390")]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of what `make demo` plays; smaller than it may be, which takes less time."""
    folder = tmp_path_factory.mktemp("demo")
    rollouts(folder, "run", *DEMO, "--seeds", "published", "--frames", "png", "--pool", "local", "--run-id", "demo")
    rollouts(folder, "report", "demo", "--max-mb", "6")
    return folder / "runs" / "demo" / "report.html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


@pytest.fixture(params=SIZES)
def page(browser: Browser, demo: Path, request: pytest.FixtureRequest) -> Browser:
    browser.said.clear()
    browser.asked_for.clear()
    browser.look(request.param)
    browser.open(demo)
    return browser


def tick(page: Browser) -> int:
    return int(page.ask("Number(document.getElementById('scrubber').value)"))


def shown(page: Browser) -> int:
    return int(page.ask("document.getElementById('list').children.length"))


def test_it_opens_on_a_disagreement_with_its_picture(page: Browser) -> None:
    assert "(disagrees)" in page.text("decision")
    assert page.wait_for("document.getElementById('picture').naturalWidth") == 320
    assert "What the policy saw" in page.ask("document.getElementById('picture').alt")
    assert page.text("state").startswith("The nearest")
    assert "share of R" in page.text("verdicts")
    assert page.text("charts").startswith("health")
    assert page.complaints() == []


def test_nothing_is_wider_than_the_screen(page: Browser) -> None:
    assert page.ask("document.documentElement.scrollWidth") <= page.ask("window.innerWidth")


def test_it_plays_and_pauses(page: Browser) -> None:
    page.choose("speed", "4")
    page.ask("document.getElementById('speed').dispatchEvent(new Event('change'))")
    before, picture = tick(page), page.ask("document.getElementById('picture').src")
    page.click("play")
    page.wait_for(f"Number(document.getElementById('scrubber').value) >= {before + 3}")
    assert page.ask("document.getElementById('picture').src") != picture
    page.press(" ")
    assert page.ask("document.getElementById('play').getAttribute('aria-label')") == "Play"
    paused = tick(page)
    page.press("ArrowRight")
    assert tick(page) == paused + 1
    page.press("ArrowLeft")
    assert tick(page) == paused
    assert page.complaints() == []


def test_it_jumps_to_the_next_disagreement(page: Browser) -> None:
    """Whatever lies between two of them agrees; after the last of an episode comes another episode's first."""
    before = tick(page)
    page.press("n")
    after = tick(page)
    assert after > before
    assert "(disagrees)" in page.text("decision")
    for _ in range(after - before - 1):
        page.press("ArrowLeft")
        assert "(agrees)" in page.text("decision")
    title = page.text("stage-title")
    page.ask(
        "const end = document.getElementById('scrubber'); end.value = end.max; end.dispatchEvent(new Event('input'))"
    )
    page.press("n")
    page.wait_for(f"document.getElementById('stage-title').innerText !== {title!r}")
    assert "(disagrees)" in page.text("decision")
    page.click("previous-trouble")
    page.wait_for(f"document.getElementById('stage-title').innerText === {title!r}")
    assert page.complaints() == []


def test_it_filters(page: Browser) -> None:
    assert shown(page) == 32
    page.choose("filter-policy", "oracle")
    assert (shown(page), page.text("count")) == (16, "16 of 32 episodes")
    page.wait_for("document.getElementById('stage-title').innerText.includes('oracle')")
    page.choose("shown", "disagreements")
    assert (shown(page), page.text("count")) == (0, "0 of 32 episodes")
    page.choose("filter-policy", "random")
    page.choose("search", "42106077")
    page.wait_for("document.getElementById('stage-title').innerText.includes('42106077')")
    assert shown(page) == 1
    assert page.complaints() == []


def test_the_next_episode_comes_by_a_key_and_by_a_click(page: Browser) -> None:
    titles = [page.text("stage-title")]
    page.press("j")
    page.wait_for(f"document.getElementById('stage-title').innerText !== {titles[0]!r}")
    page.ask("document.querySelectorAll('#list button')[0].click()")
    page.wait_for(f"document.getElementById('stage-title').innerText === {titles[0]!r}")
    assert page.ask("document.querySelector('#list [aria-current=true]').dataset.id").startswith("0 ")


def test_it_asks_for_nothing_outside_itself(page: Browser) -> None:
    page.press("n")
    others = [url for url in page.asked_for if not url.startswith(("blob:", "data:"))]
    assert [url.rpartition("/")[2] for url in others] == ["report.html"]


def test_every_control_and_picture_has_a_name(page: Browser) -> None:
    """As a screen reader is told them."""
    nodes = page.send("Accessibility.getFullAXTree")["nodes"]
    wanted = ("button", "combobox", "searchbox", "slider", "image", "link", "meter")
    controls = [node for node in nodes if not node["ignored"] and node["role"]["value"] in wanted]
    assert len(controls) > 30
    assert [node["role"]["value"] for node in controls if not node.get("name", {}).get("value")] == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_texts_stand_out_from_their_ground(page: Browser, dark: bool) -> None:
    """4.5 to 1, as WCAG 2.2 asks of texts (1.4.3)."""
    page.look(dark=dark)
    ratios = page.contrasts(TEXTS)
    assert len(ratios) == len(TEXTS)
    assert {name: ratio for name, ratio in ratios.items() if ratio < 4.5} == {}


def test_a_script_that_is_not_the_pages_own_is_refused(browser: Browser, demo: Path, tmp_path: Path) -> None:
    """And the console is listened to."""
    file = tmp_path / "changed.html"
    file.write_text(demo.read_text().replace("</body>", "<script>window.pwned = 1</script></body>"))
    browser.said.clear()
    browser.open(file)
    assert browser.ask("window.pwned === undefined")
    assert "Content Security Policy" in browser.complaints()[0]


def test_hostile_texts_stay_texts(browser: Browser, tmp_path: Path) -> None:
    run = [reported(hostile_run(tmp_path), hostile_judge)]
    file = tmp_path / "hostile.html"
    file.write_text(render_page(make_report(run), embed(run, 5_000_000)))
    browser.said.clear()
    browser.look()
    browser.open(file)
    assert "not_an_option" in browser.text("decision")
    assert HOSTILE in browser.text("stage-title")
    assert HOSTILE in browser.text("verdicts")
    assert HOSTILE in browser.text("summaries")
    assert HOSTILE in browser.ask("document.querySelector('#list .bad').textContent")
    browser.ask("document.querySelector('#list button').click()")
    browser.wait_for("document.getElementById('stage-facts').innerText.startsWith('Failed at stage policy')")
    assert browser.ask("window.pwned === undefined && document.querySelectorAll('img').length === 1")
    assert browser.complaints() == []
