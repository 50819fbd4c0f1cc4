"""The chat policy against a scripted endpoint over real HTTP: what is sent, how replies are read, what is not asked."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from PIL import Image

from rollouts.calls.call_failures import PICTURE_LIMIT
from rollouts.calls.fake_endpoint import FakeEndpoint, in_turn
from rollouts.calls.fake_replies import (
    FakeReply,
    FakeRequest,
    Script,
    broken,
    completion,
    failing,
    lettered,
    quota_exhausted,
    rate_limited,
    unsupported,
)
from rollouts.calls.limits import Budget, Limits
from rollouts.errors import BudgetSpent, RunStopped, TryVoid, UsageError
from rollouts.frames import encode
from rollouts.policies.base import PolicyContext
from rollouts.policies.chat import ChatPolicy
from rollouts.policies.chat_prompt import chat_prompt
from rollouts.policies.model_settings import ModelSettings
from rollouts.records import Answer
from rollouts.scenarios.registry import SCENARIOS
from tests.model_calls import KEY, OPTIONS, SWIFT, Calls, picture, requiring, seen

SCENARIO = SCENARIOS["defend_the_center"]
Play = Callable[..., "Player"]


class Player:
    """A policy in an episode; `say` is what the endpoint does."""

    def __init__(self, fake: FakeEndpoint, calls: Calls, settings: ModelSettings) -> None:
        self.fake, self.calls = fake, calls
        self.policy = ChatPolicy(PolicyContext(SCENARIO, "m", settings=settings, calls=calls))
        self.tick = 0
        self.begin()

    def begin(self, seed: int = 1) -> None:
        self.policy.reset(KEY, np.random.default_rng(seed))
        self.tick = 0

    def decide(self, text: str = "A monster is near.") -> Answer:
        self.policy.at(self.tick)
        answer = self.policy.act(seen(self.tick), text, OPTIONS, "Shoot the monsters.")
        self.tick += 1
        return answer

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [dict(request.body) for request in self.fake.requests]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Iterator[Play]:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with ExitStack() as stack:

        def start(script: Script | None = None, calls: dict[str, Any] | None = None, **settings: Any) -> Player:
            fake = stack.enter_context(FakeEndpoint(script))
            player = Player(fake, Calls(fake.base_url, **(calls or {})), ModelSettings(**settings))
            stack.callback(player.policy.close)
            return player

        yield start


def always(reply: FakeReply) -> Script:
    return lambda _request: reply


def texts(body: dict[str, Any]) -> list[str]:
    """What the messages say, pictures left out."""
    said = [message["content"] for message in body["messages"]]
    return [one if isinstance(one, str) else one[0]["text"] for one in said]


def pictures(body: dict[str, Any]) -> list[str]:
    contents = [m["content"] for m in body["messages"] if isinstance(m["content"], list)]
    return [part["image_url"]["url"] for parts in contents for part in parts if part["type"] == "image_url"]


def pixels(url: str) -> Any:
    with Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))) as image:
        assert image.mode == "RGB"
        return np.array(image)


def test_letters_become_probabilities_in_the_scenarios_order(play: Play) -> None:
    player = play(always(lettered("B", {"B": 0.5, " B": 0.125, "A": 0.25, "x": 0.0625})))
    answer = player.decide()
    assert answer.choice == "turn left"
    assert answer.probabilities == pytest.approx({"attack": 0.25, "turn left": 0.625})
    assert (answer.option_mass, answer.probability_bound) == (pytest.approx(0.875), pytest.approx(0.0625))
    assert (answer.confidence, answer.parse_rule, answer.raw_reply) == (pytest.approx(0.625), "exact", "B")
    assert answer.reply_tokens == ("B",)
    assert answer.reply_logprobs == (pytest.approx(np.log(0.5)),)
    (body,) = player.bodies
    assert (body["logprobs"], body["top_logprobs"], body["max_tokens"], body["temperature"]) == (True, 20, 4, 0.0)
    assert "A: attack\nB: turn left\nC: turn right\n" in texts(body)[-1]


def test_the_text_arm_reads_the_state_byte_for_byte_and_no_picture(play: Play) -> None:
    player = play()
    player.decide("The  state, as it is.\u3000")
    (body,) = player.bodies
    assert texts(body)[1].startswith("The  state, as it is.\u3000\n\nOptions:\n")
    assert "Shoot the monsters." in texts(body)[0]
    assert pictures(body) == []


@pytest.mark.parametrize("observe", ["frame", "both"])
@pytest.mark.parametrize("frames", ["png", "png-rgb"])
def test_the_very_pixels_of_the_row_are_sent(play: Play, observe: str, frames: str) -> None:
    player = play(observe=observe, frames=frames)
    for _ in range(2):
        player.decide()
    for tick, body in enumerate(player.bodies):
        (url,) = pictures(body)
        assert np.array_equal(pixels(url), picture(tick).rgb())


def test_beside_a_picture_alone_stands_the_status_and_not_a_word_more(play: Play) -> None:
    player = play(observe="frame")
    answer = player.decide("A demon stands far left.")
    (body,) = player.bodies
    options = "\n\nOptions:\nA: attack\nB: turn left\nC: turn right\n\nYour letter:"
    assert texts(body)[1] == "Health is 100. Ammo is 26. Kills so far: 0." + options
    assert "demon" not in json.dumps(body)
    assert answer.policy_text == texts(body)[1]


def test_the_row_keeps_the_messages_with_paths_for_pictures(play: Play) -> None:
    player = play(observe="both", history=1, history_frames=1)
    player.decide()
    answer = player.decide()
    assert answer.messages is not None
    assert "base64" not in answer.messages
    kept, sent = json.loads(answer.messages), player.bodies[1]
    urls = [m["content"][1]["image_url"]["url"] for m in kept if isinstance(m["content"], list)]
    assert urls == [f"frames/{KEY.episode_id}_000{tick}.png" for tick in (0, 1)]
    assert texts({"messages": kept}) == texts(sent)
    assert [m["role"] for m in kept] == [m["role"] for m in sent["messages"]]


def test_shuffled_options_are_seeded_and_read_back(play: Play) -> None:
    def first_letter(request: FakeRequest) -> FakeReply:
        return lettered("A", {"A": 0.75, "B": 0.125, "C": 0.0625})

    player = play(first_letter, shuffle_options=True)
    answers = [player.decide() for _ in range(12)]
    shown = [answer.options_shown for answer in answers]
    assert len(set(shown)) > 2
    for answer, body in zip(answers, player.bodies, strict=True):
        assert answer.options_shown is not None
        assert answer.choice == answer.options_shown[0]
        assert list(answer.probabilities) == list(OPTIONS)
        assert answer.probabilities[answer.choice] == pytest.approx(0.75)
        listed = "\n".join(f"{code}: {o}" for code, o in zip("ABC", answer.options_shown, strict=True))
        assert listed in texts(body)[-1]
    player.begin()
    assert [player.decide().options_shown for _ in range(12)] == shown
    player.begin(seed=2)
    assert [player.decide().options_shown for _ in range(12)] != shown


@pytest.mark.parametrize(
    ("answer", "reply", "choice", "rule"),
    [
        ("json", '{"action": "turn left"}', "turn left", "exact"),
        ("json", '```json\n{"action": "turn left"}\n```', "turn left", "json+fence"),
        ("plain", "turn left", "turn left", "exact"),
        ("plain", "Action: TURN_LEFT", "turn left", "labelled"),
    ],
)
def test_replies_are_read_by_rule(play: Play, answer: str, reply: str, choice: str, rule: str) -> None:
    player = play(always(completion(reply)), answer=answer)
    found = player.decide()
    assert (found.choice, found.parse_rule, found.raw_reply) == (choice, rule, reply)
    assert (found.probabilities, found.option_mass, found.confidence) == ({}, None, None)
    (body,) = player.bodies
    assert (body["logprobs"], body.get("top_logprobs")) == (True, None)
    if answer == "json":
        action = body["response_format"]["json_schema"]["schema"]["properties"]["action"]
        assert action["enum"] == list(OPTIONS)


def silent(kind: str) -> FakeReply:
    return completion(None, finish_reason=kind)


@pytest.mark.parametrize(
    ("answer", "reply", "cause"),
    [
        ("plain", completion(""), "empty"),
        ("plain", completion(None, message={"refusal": "I will not shoot."}), "refused"),
        ("plain", silent("content_filter"), "refused"),
        ("plain", failing(400, "The prompt was filtered.", code="content_filter"), "refused"),
        ("plain", completion("I can't help with that."), "refused"),
        ("plain", completion("turn", finish_reason="length"), "cut_off"),
        ("plain", completion("jump"), "not_an_option"),
        ("plain", completion("attack, then turn left"), "several"),
        ("plain", completion("<think>attack"), "thinking_leaked"),
        ("plain", broken("silence"), "timeout"),
        ("plain", FakeReply(body=b"<html>"), "endpoint"),
        ("plain", failing(400, "something odd"), "endpoint"),
        ("json", completion('{"action": "jump"}'), "not_an_option"),
        ("letters", silent("length"), "cut_off"),
        ("letters", completion(""), "empty"),
        ("letters", lettered("The", {"The": 0.75}), "not_an_option"),
        ("letters", lettered("<think>", {"<think>": 0.75}), "thinking_leaked"),
        ("letters", completion(None, message={"refusal": "No."}), "refused"),
    ],
)
def test_each_way_out_of_schema_has_one_code(play: Play, answer: str, reply: FakeReply, cause: str) -> None:
    swift = {"settings": requiring(), "limits": Limits(stop_after=99)}
    if cause == "timeout":
        swift["settings"] = SWIFT.__class__(time_limit_s=0.2, tries=1)
    player = play(always(reply), answer=answer, calls=swift)
    found = player.decide()
    assert (found.choice, found.cause) == (None, cause)
    assert found.detail or cause == "empty"
    assert (found.latency_ms is None) is (cause in ("timeout", "endpoint") or reply.status == 400)


@pytest.mark.parametrize(
    ("script", "kind", "words"),
    [
        (failing(401, "bad key"), RunStopped, "bad key"),
        (failing(404, "The model `m` does not exist"), RunStopped, "does not exist"),
        (quota_exhausted(), RunStopped, "quota"),
        (failing(503, "overloaded"), TryVoid, "overloaded"),
        (rate_limited(), TryVoid, "Rate limit"),
        (broken("drop"), TryVoid, "http://127.0.0.1"),
    ],
)
def test_what_is_not_the_models_answer_is_no_row(
    play: Play, script: FakeReply, kind: type[Exception], words: str
) -> None:
    player = play(always(script), answer="plain")
    with pytest.raises(kind, match=words):
        player.decide()


def test_a_spent_budget_is_no_answer(play: Play) -> None:
    player = play(answer="plain", calls={"limits": Limits(budget=Budget(calls=1))})
    player.decide()
    with pytest.raises(BudgetSpent):
        player.decide()


@pytest.mark.parametrize("answer", ["letters"])
def test_refused_log_probabilities_end_the_run(play: Play, answer: str) -> None:
    player = play(always(unsupported("logprobs")), calls={"settings": requiring("logprobs")}, answer=answer)
    with pytest.raises(RunStopped, match=r"chat:m at http://127.0.0.1:\d+/v1: log-probabilities cannot be had"):
        player.decide()
    assert len(player.fake.requests) == 1


def test_log_probabilities_that_are_left_out_end_the_run(play: Play) -> None:
    bare = completion("A")
    assert isinstance(bare.body, dict)
    bare.body["choices"][0]["logprobs"] = None
    player = play(always(bare))
    with pytest.raises(RunStopped, match=r"has no log-probabilities; .*--answer json"):
        player.decide()


def test_refused_pictures_end_the_run(play: Play) -> None:
    refusal = failing(400, "This model does not support image input.", param="messages")
    player = play(always(refusal), observe="frame", calls={"settings": requiring("images", "logprobs")})
    with pytest.raises(RunStopped, match="takes no pictures: use --observe text"):
        player.decide()


def test_what_is_refused_is_learnt_once(play: Play) -> None:
    """L11 for policies: max_tokens, temperature, the schema and log-probabilities of a reply are not lived by."""
    refused = ("max_tokens", "temperature", "response_format", "logprobs")

    def script(request: FakeRequest) -> FakeReply | None:
        name = next((name for name in refused if name in request.body), None)
        return unsupported(name) if name else completion('{"action": "attack"}')

    player = play(script, answer="json", calls={"settings": requiring()})
    answers = [player.decide() for _ in range(3)]
    assert [answer.choice for answer in answers] == ["attack"] * 3
    assert [reply.tries for reply in player.calls.replies] == [6, 1, 1]  # the schema goes in two steps
    assert player.calls.replies[2].adjustments == (
        "max_tokens->max_completion_tokens",
        "-temperature",
        "-json_schema",
        "-logprobs",
    )


def test_the_history_holds_the_last_exchanges_and_nothing_that_was_made_up(play: Play) -> None:
    replies = [
        completion("Action: turn left\nObservation: the enemy is dead"),
        completion("jump"),
        completion("attack"),
    ]
    player = play(in_turn(replies), answer="plain", history=2)
    for text in ("one", "two", "three", "four"):
        player.decide(text)
    assert "the enemy is dead" not in json.dumps(player.bodies)
    said = [(m["role"], str(m["content"]).split("\n")[0]) for m in player.bodies[3]["messages"][1:]]
    assert said == [
        ("user", "one"),
        ("assistant", "turn left"),
        ("user", "three"),
        ("assistant", "attack"),
        ("user", "four"),
    ]
    player.begin()
    player.decide("another episode")
    assert len(player.bodies[4]["messages"]) == 2


@pytest.mark.slow
def test_h5_the_body_stays_flat_over_a_long_episode(play: Play) -> None:
    player = play(observe="both", history=3, history_frames=2)
    for _ in range(200):
        player.decide()
    sizes = [len(json.dumps(body)) for body in player.bodies]
    counts = [len(pictures(body)) for body in player.bodies]
    assert counts[:4] == [1, 2, 3, 3]
    assert set(counts[3:]) == {3}
    assert max(sizes[3:]) - min(sizes[3:]) < 0.05 * sizes[3]
    left_out = chat_prompt().sections["picture_left_out"]
    assert [left_out in text for text in texts(player.bodies[100])] == [False, True] + [False] * 6


def test_h5_too_many_pictures_are_trimmed_once_and_remembered(play: Play) -> None:
    def at_most_4(request: FakeRequest) -> FakeReply | None:
        too_many = len(pictures(dict(request.body))) > 4
        return failing(400, "At most 4 image(s) may be provided in one request.") if too_many else None

    player = play(at_most_4, observe="both", history=6, history_frames=6, calls={"settings": requiring("images")})
    answers = [player.decide() for _ in range(20)]
    assert all(answer.choice for answer in answers)
    assert len(player.bodies) == 21
    refused = [body for body in player.bodies if len(pictures(body)) > 4]
    assert [len(pictures(body)) for body in refused] == [5]
    assert len(pictures(player.bodies[-1])) == 4
    assert len(player.bodies[-1]["messages"]) == 2 + 2 * 6


def test_h5_an_overlong_context_is_trimmed_never_sent_again_as_it_was(play: Play) -> None:
    def short_memory(request: FakeRequest) -> FakeReply | None:
        if len(request.body["messages"]) <= 8:
            return None
        return failing(400, "This model's maximum context length is 4096 tokens.", code="context_length_exceeded")

    player = play(short_memory, history=6)
    for tick in range(20):
        player.decide(f"Moment {tick}.")
    assert len(player.bodies) == 21
    assert [len(body["messages"]) for body in player.bodies if len(body["messages"]) > 8] == [10]
    assert len({json.dumps(body) for body in player.bodies}) == 21
    assert {texts(body)[0] for body in player.bodies} == {texts(player.bodies[0])[0]}


def test_a_context_that_is_too_short_for_one_moment_ends_the_run(play: Play) -> None:
    refusal = failing(400, "maximum context length is 10 tokens", code="context_length_exceeded")
    player = play(always(refusal), history=3)
    with pytest.raises(RunStopped, match="maximum context length is 10 tokens"):
        player.decide()
    assert len(player.bodies) == 1


def test_h6_latency_is_the_answered_request_alone(play: Play) -> None:
    replies = [rate_limited(retry_after_ms="500"), lettered("A", {"A": 0.9})]
    settings = SWIFT.__class__(tries=2, pause_s=0.0, retry_after_cap_s=5.0)

    def script(request: FakeRequest) -> FakeReply:
        return FakeReply(**{**_fields(replies[request.number - 1]), "delay_s": 0.2})

    player = play(script, calls={"settings": settings})
    answer = player.decide()
    (reply,) = player.calls.replies
    assert answer.latency_ms == reply.answer_ms
    assert answer.latency_ms is not None
    assert reply.pause_ms is not None
    assert reply.total_ms is not None
    assert [ms >= 200 for ms in reply.tries_ms] == [True, True]
    assert reply.tries_ms[1] == answer.latency_ms
    assert reply.pause_ms >= 500
    assert sum(reply.tries_ms) + reply.pause_ms + (reply.queue_ms or 0) <= reply.total_ms + 1


def _fields(reply: FakeReply) -> dict[str, Any]:
    return {name: getattr(reply, name) for name in ("status", "body", "headers", "fault")}


def test_a_body_that_is_too_large_is_trimmed_like_a_context(play: Play) -> None:
    def small_bodies(request: FakeRequest) -> FakeReply | None:
        return failing(413, "Payload too large") if len(pictures(dict(request.body))) > 2 else None

    player = play(small_bodies, observe="both", history=2, history_frames=2, calls={"settings": requiring("images")})
    assert all(player.decide().choice for _ in range(6))
    assert len(player.bodies) == 7


def test_the_very_jpeg_of_the_row_is_sent(play: Play) -> None:
    player = play(observe="frame", frames="jpeg")
    player.decide()
    (url,) = pictures(player.bodies[0])
    assert base64.b64decode(url.partition(",")[2]) == encode(picture(0), "jpeg")
    assert url.startswith("data:image/jpeg;base64,")


def test_an_endpoint_that_draws_gets_a_seed_of_the_episode(play: Play) -> None:
    player = play(answer="plain", temperature=0.7)
    for _ in range(2):
        for _ in range(3):
            player.decide()
        player.begin()
    seeds = [body["seed"] for body in player.bodies]
    assert seeds[:3] == seeds[3:]
    assert len(set(seeds)) == 3
    assert {body["temperature"] for body in player.bodies} == {0.7}
    cool = play(answer="plain")
    cool.decide()
    assert "seed" not in cool.bodies[0]


def test_tokens_and_the_model_that_answered_are_kept(play: Play) -> None:
    said = completion("attack", usage={"prompt_tokens": 90, "completion_tokens": 2})
    assert isinstance(said.body, dict)
    said.body["model"] = "m-2026-01"
    answer = play(always(said), answer="plain").decide()
    assert (answer.tokens_in, answer.tokens_out, answer.model_version) == (90, 2, "m-2026-01")
    assert answer.finish_reason == "stop"


def test_a_description_says_all_that_the_answers_depend_on_and_no_place(play: Play) -> None:
    player = play(observe="both", history=2, shuffle_options=True)
    who = player.policy.describe()
    assert (who.name, who.kind, who.model, who.provider) == ("chat:m", "model", "m", "openai-compatible")
    assert who.settings["prompt"]["sha256"] == chat_prompt().ref.sha256
    names = ("observe", "answer", "shuffle_options", "history", "history_frames", "temperature", "max_tokens")
    assert [who.settings[name] for name in names] == ["both", "letters", True, 2, 0, 0.0, 4]
    assert "127.0.0.1" not in json.dumps(dict(who.settings))


def test_a_model_must_be_named() -> None:
    with pytest.raises(UsageError, match="chat:MODEL"):
        ChatPolicy(PolicyContext(SCENARIO))


@pytest.mark.parametrize(
    ("message", "is_one"),
    [
        ("At most 4 image(s) may be provided in one request.", True),
        ("Too many images in request", True),
        ("The maximum number of images is 10", True),
        ("This model supports up to 20 images per request", True),
        ("number of images (7) exceeds the limit of 4", True),
        ("This model does not support image input", False),
        ("Invalid image: exceeds the maximum dimensions", False),
    ],
)
def test_a_limit_on_pictures_is_told_from_a_model_that_sees_none(message: str, is_one: bool) -> None:
    assert bool(PICTURE_LIMIT.search(message)) is is_one
