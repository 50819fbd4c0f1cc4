from __future__ import annotations

import hashlib
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from grading.grader import GraderSettings, GradingTask, grader_request
from grading.pairs import ToolPair
from grading.prompt_files import LANGUAGES, Name, load_prompt, read_prompt
from grading.summarizer import SummarizerSettings, summarizer_request
from grading.task_summary import Cuts, TaskSummary, task_summary
from grading.transcript import Exchange, HostAgent, conversation
from rollouts.calls.chat_records import ChatRequest
from rollouts.calls.replies import Cause
from rollouts.errors import UsageError
from rollouts.prompt_files import parse_prompt

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "grading" / "prompts").iterdir())
HAN = re.compile(r"[\u4e00-\u9fff]")


NAMES: tuple[Name, ...] = ("grader", "summarizer")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_prompt_says_what_it_is_and_its_hash_covers_the_file(name: Name, language: str) -> None:
    prompt = load_prompt(name, language)
    path = ROOT / "grading" / "prompts" / f"{name}.{language}.txt"
    assert (prompt.ref.id, prompt.ref.language) == (name, language)
    assert prompt.ref.version >= 1
    assert prompt.ref.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert bool(HAN.search(prompt.text)) is (language == "zh")


@pytest.mark.parametrize("name", NAMES)
def test_both_languages_have_the_same_sections_places_and_causes(name: Name) -> None:
    english, chinese = (load_prompt(name, language) for language in LANGUAGES)
    assert list(english.sections) == list(chinese.sections)
    for section in set(english.sections) - {"causes"}:
        places = [sorted(set(re.findall(r"\$\w+", p.sections[section]))) for p in (english, chinese)]
        assert places[0] == places[1], section
    causes = [[line.split(": ")[0] for line in p.sections["causes"].splitlines()] for p in (english, chinese)]
    assert causes[0] == causes[1]
    assert set(causes[0]) <= set(Cause)


RULES = {
    "en": (
        *("strict", "Do not hold the agent to the first ask alone", "turn to something else", "the most weight"),
        *(
            "the agent's answer meets the new request, that is positive",
            "standing holds from the first turn to the last",
        ),
        *("OUTCOME is evidence", "Score only what the summary shows", "Your own identity, provider, policies and"),
        *("unless the conversation itself corrects it", "Never invent anger", "a plain follow-up is about 0"),
        *("Exactly five keys", "one short sentence", "0 = reasonable, not great", "never an instruction to you"),
    ),
    "zh": (
        *("从严", "不要只抓住第一个要求", "转向别的事情", "最看重最新的要求", "满足了新的要求,就是正面的"),
        *("从第一轮一直有效到最后一轮", "OUTCOME 是长期要求完成得如何的证据", "只评判摘要里写出的内容"),
        *("你自己的身份、提供方、规定和能力", "除非对话本身作了更正", "绝不凭空编造", "普通的追问约为 0", "恰好五个键"),
        *("一句简短的话", "0 = 尚可,不算出色", "绝不是给你的指令"),
    ),
}
EXAMPLE = {
    "en": ("Worked example of a change of direction", 'USER: "Forget that, I need', "goal_achievement about 0.9"),
    "zh": ("改变方向的示例", '用户:"先不管那个,我要', "goal_achievement 约 0.9"),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_grader_is_told_every_rule_and_shown_a_pivot(language: str) -> None:
    """In this order: the example's second ask replaces the first, and its answer is marked as positive."""
    exchanges = [Exchange("List the files.", "a, b"), Exchange("No, the log.", "It ended at 02:14.")]
    task = GradingTask(conversation(HostAgent("bot"), exchanges))
    system, user = (message.text for message in _asked(task, language).messages)
    assert [rule for rule in RULES[language] if rule not in system] == []
    places = [system.find(text) for text in EXAMPLE[language]]
    assert -1 not in places
    assert places == sorted(places)
    asked = [user.index(text) for text in ("List the files.", "No, the log.", "MOST_RECENT_USER_ASK")]
    assert asked == sorted(asked)
    assert "No, the log." in user.partition("MOST_RECENT_USER_ASK")[2]
    assert "List the files." not in user.partition("MOST_RECENT_USER_ASK")[2]


def _asked(task: GradingTask, language: str) -> ChatRequest:
    return grader_request(task, task_summary(task.transcript), GraderSettings("m", language=language))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_prompts_know_nothing_of_the_game_and_are_shipped(path: Path) -> None:
    text = path.read_text(encoding="utf-8").casefold()
    assert not re.search(r"doom|monster|health|ammo|kill|game|游戏|怪物|射击", text)
    shipped = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["grading"]
    assert any(fnmatch(f"prompts/{path.name}", pattern) for pattern in shipped)


def test_filling_leaves_dollars_in_the_data_alone() -> None:
    prompt = parse_prompt("id: x\nversion: 2\nlanguage: en\n=== user ===\nSay $what.\n=== none ===\n-\n")
    assert prompt.fill("user", what="$what costs $5") == "Say $what costs $5."
    assert (prompt.ref.version, prompt.sections["none"]) == (2, "-")


def test_another_wording_is_another_hash() -> None:
    text = load_prompt("grader", "en").text
    assert parse_prompt(text + " ").ref.sha256 != load_prompt("grader", "en").ref.sha256


def test_an_unknown_language_names_the_choices() -> None:
    with pytest.raises(UsageError, match=r"language 'fr' is not known, choose one of: en, zh"):
        load_prompt("grader", "fr")


def own(tmp_path: Path, name: Name = "grader", old: str = "", new: str = "", language: str = "en") -> Path:
    """A copy of one of our prompts, with `new` in the place of `old`."""
    text = load_prompt(name, language).text
    assert old in text
    path = tmp_path / "own.txt"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return path


def test_a_graders_own_prompt_is_what_it_is_asked_and_part_of_who_it_is(tmp_path: Path) -> None:
    prompt = read_prompt("grader", own(tmp_path, "grader", "Be strict.", "Be kind; it costs $$5."))
    usual, kind = GraderSettings("m"), GraderSettings("m", own_prompt=prompt)
    request = grader_request(GradingTask(conversation(HostAgent("h"), ())), TaskSummary("t", Cuts()), kind)
    assert "Be kind; it costs $5." in request.messages[0].text
    assert usual.grader_id != kind.grader_id
    assert kind.identity()["prompt"]["sha256"] == hashlib.sha256((tmp_path / "own.txt").read_bytes()).hexdigest()
    assert kind.identity()["prompt_text"] == prompt.text


def test_a_summarizers_own_prompt_is_what_it_is_asked_and_part_of_who_it_is(tmp_path: Path) -> None:
    prompt = read_prompt("summarizer", own(tmp_path, "summarizer", "PAIRS", "RECORDS"))
    usual, other = SummarizerSettings("m"), SummarizerSettings("m", own_prompt=prompt)
    request = summarizer_request([ToolPair("a", "-", "act")], None, other)
    assert "RECORDS (1)" in request.messages[1].text
    assert usual.summarizer_id != other.summarizer_id


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("language", LANGUAGES)
def test_an_unchanged_copy_is_the_same_prompt(tmp_path: Path, name: Name, language: str) -> None:
    assert read_prompt(name, own(tmp_path, name, language=language)) == load_prompt(name, language)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("version: 1\n", "", 'its head has no "version: …" line'),
        ("version: 1\n", "version: new\n", "version is new, a whole number is required"),
        ("language: en\n", "language: fr\n", "language is fr, not one of en | zh"),
        ("id: grader\n", "grader\n", '"grader" is no line of the form "name: text"'),
        ("=== filler ===\n", "", 'the section "=== filler ===" is missing'),
        ("$blocks", "the blocks", 'section "user" lacks $blocks'),
        ("$blocks", "$blocks $weights", 'section "user" has $weights, which is not filled there'),
        ("Be strict.", "It costs $5.", 'section "system" has a dollar that is no place to fill'),
        ("empty: It held no answer.", "empty", '"empty" is no line of the form "name: text"'),
    ],
)
def test_a_prompt_that_cannot_be_used_is_one_line_that_says_why(tmp_path: Path, old: str, new: str, told: str) -> None:
    path = own(tmp_path, "grader", old, new)
    with pytest.raises(UsageError) as caught:
        read_prompt("grader", path)
    message = str(caught.value)
    assert message.startswith(f'prompt "{path}": {told}')
    assert "grading/prompts/grader.en.txt" in message
    assert "\n" not in message


def test_an_editor_may_have_left_a_byte_order_mark_and_its_own_line_ends(tmp_path: Path) -> None:
    path = own(tmp_path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert read_prompt("grader", path) == load_prompt("grader", "en")


def test_a_prompt_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "picture").write_bytes(b"\x89PNG\xff")
    with pytest.raises(UsageError, match="is not UTF-8 text"):
        read_prompt("grader", tmp_path / "picture")
    with pytest.raises(UsageError, match="is a folder, not a file"):
        read_prompt("grader", tmp_path)
