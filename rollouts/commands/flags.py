"""The flags of `rollouts run` and `rollouts grade`. Values stay text here: rollouts/config.py reads all three layers by
one set of rules."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter

_WHAT = Group.create_ordered("What to play")
_WHERE = Group.create_ordered("Where and with how much")
_PLAYERS = Group.create_ordered("Policies that are models")
_GRADING = Group.create_ordered("How to grade it")
_MODELS = Group.create_ordered("Calls to models")
_JOB = Group.create_ordered("The job")
_TROUBLE = Group.create_ordered("When things break")

Texts = list[str] | None
Text = str | None
Switch = bool | None


def _flag(group: Group, text: str, name: str | None = None, hyphen: bool = False) -> Parameter:
    return Parameter(name=name, group=group, help=text, allow_leading_hyphen=hyphen, negative=(), show_default=False)


MetricsPort = Annotated[
    Text, _flag(_WHERE, "Port where a Ray that is started here tells Prometheus its metrics; 0: any.", hyphen=True)
]


@Parameter(name="*")
@dataclass(frozen=True)
class RunFlags:
    """One field a setting of RunConfig, under the same name; None where the flag was not given."""

    scenarios: Annotated[
        Texts,
        _flag(
            _WHAT,
            "Scenario by name, 'published' (the default: the two with published results), 'all', or your own as "
            "FILE.toml or module:ATTRIBUTE; repeat for more.",
            "--scenario",
        ),
    ] = None
    rubrics: Annotated[Texts, _flag(_WHAT, "What the policy is told: rule (default), bare or both.", "--rubric")] = None
    rubric_files: Annotated[
        Texts,
        _flag(
            _WHAT,
            "What the policy is told, from a file: MODE=PATH or SCENARIO:MODE=PATH; repeat for more.",
            "--rubric-file",
        ),
    ] = None
    policies: Annotated[
        Texts,
        _flag(
            _WHAT,
            "Who plays: oracle (default), random, chat:MODEL, choice, mixture:BETA:POLICY, torch:PATH, onnx:PATH, "
            "transformers:FOLDER, or your own as module:Class; repeat for more.",
            "--policy",
        ),
    ] = None
    seeds: Annotated[
        Text, _flag(_WHAT, "published (default), a range like 0:8, or a list like 1,5,9.", hyphen=True)
    ] = None
    episodes_per_seed: Annotated[Text, _flag(_WHAT, "Episodes of each seed (1).", hyphen=True)] = None
    tics: Annotated[Text, _flag(_WHAT, "Engine tics a decision (the scenario's own: 4).", hyphen=True)] = None
    step_cap: Annotated[Text, _flag(_WHAT, "Most decisions an episode (the scenario's own: 300).", hyphen=True)] = None
    frames: Annotated[Text, _flag(_WHAT, "png (palette, lossless, default), png-rgb, jpeg or none.")] = None
    realtime: Annotated[
        Text,
        _flag(
            _WHAT,
            "The game goes on while the policy thinks, at 35 tics a second: hold keeps the last action pressed, idle "
            "presses nothing.",
        ),
    ] = None
    latency_ms: Annotated[Text, _flag(_WHAT, "In real time: how long each thought takes (measured).", hyphen=True)] = (
        None
    )
    variables: Annotated[
        Texts, _flag(_WHAT, "A further engine variable to record, such as POSITION_X; repeat for more.", "--variable")
    ] = None
    seed: Annotated[
        Text, _flag(_WHAT, "The run's own seed: the random policy and its like draw from it (0).", hyphen=True)
    ] = None
    out: Annotated[Text, _flag(_WHERE, "Folder or URI (s3://…, gs://…) that holds runs (runs).")] = None
    run_id: Annotated[Text, _flag(_WHERE, "Name of the run's folder (made from what is played).")] = None
    pool: Annotated[Text, _flag(_WHERE, "ray (default), or local: one process, no Ray.")] = None
    address: Annotated[
        Text,
        _flag(
            _WHERE,
            "Ray cluster to join, HOST:PORT (none: start one on this machine); for submit the URL of its dashboard.",
        ),
    ] = None
    metrics_port: MetricsPort = None
    actors: Annotated[Text, _flag(_WHERE, "Rollout actors (one a CPU).", hyphen=True)] = None
    cpus_per_actor: Annotated[
        Text,
        _flag(
            _WHERE, "CPUs an actor, fractions allowed (1; 0.125 where all policies wait for endpoints).", hyphen=True
        ),
    ] = None
    gpus_per_actor: Annotated[Text, _flag(_WHERE, "GPUs an actor, fractions allowed (0).", hyphen=True)] = None
    node_labels: Annotated[
        Texts,
        _flag(_WHERE, "KEY=VALUE that nodes must have to play, of a cluster to join; repeat for more.", "--node-label"),
    ] = None
    placement_timeout_s: Annotated[
        Text,
        _flag(_WHERE, "Seconds to wait for a node with room for an actor (600).", "--placement-timeout", hyphen=True),
    ] = None
    episodes_per_unit: Annotated[Text, _flag(_WHERE, "Episodes a shard (by size and number).", hyphen=True)] = None
    retry_failed: Annotated[Switch, _flag(_TROUBLE, "Play the failed episodes of this run again.")] = None
    unit_timeout_s: Annotated[Text, _flag(_TROUBLE, "Seconds until a unit counts as hung.", hyphen=True)] = None
    recycle_after: Annotated[
        Text, _flag(_TROUBLE, "Episodes until an actor's process is replaced (1000).", hyphen=True)
    ] = None
    recycle_above_mb: Annotated[
        Text, _flag(_TROUBLE, "MiB of memory above which it is replaced (2000).", hyphen=True)
    ] = None

    policy_server: Annotated[
        Text, _flag(_WHERE, "Actors that hold the networks and answer the others in batches (0).", hyphen=True)
    ] = None
    policy_server_gpus: Annotated[Text, _flag(_WHERE, "GPUs each of them has, fractions allowed (0).", hyphen=True)] = (
        None
    )
    policy_server_batch: Annotated[Text, _flag(_WHERE, "Most decisions in one batch (64).", hyphen=True)] = None
    policy_server_wait_ms: Annotated[
        Text, _flag(_WHERE, "Milliseconds that a decision may wait for others (2).", hyphen=True)
    ] = None
    observe: Annotated[
        Text, _flag(_PLAYERS, "What a model is shown: text (default), frame (and a status line), or both.")
    ] = None
    answer: Annotated[
        Text,
        _flag(_PLAYERS, "How it answers: letters (by log-probabilities, default), json, or plain (an option's name)."),
    ] = None
    shuffle_options: Annotated[Switch, _flag(_PLAYERS, "Show the options in another order at each decision.")] = None
    history: Annotated[Text, _flag(_PLAYERS, "Earlier exchanges that are sent along (0).", hyphen=True)] = None
    history_frames: Annotated[
        Text, _flag(_PLAYERS, "How many of the last of them keep their picture (0).", hyphen=True)
    ] = None
    policy_temperature: Annotated[Text, _flag(_PLAYERS, "Sampling temperature (0).", hyphen=True)] = None
    policy_max_tokens: Annotated[
        Text, _flag(_PLAYERS, "Most tokens of a reply (4 for letters, else 256).", hyphen=True)
    ] = None
    policy_base_url: Annotated[
        Text,
        _flag(_PLAYERS, "Their endpoint, where it is another than --base-url; its key is POLICY_API_KEY where set."),
    ] = None

    def given(self) -> dict[str, object]:
        """The flags that were given, by the names of RunConfig."""
        return _given(self)


@Parameter(name="*")
@dataclass(frozen=True)
class GradingFlags:
    """One field a setting of GradingConfig, under the same name; None where the flag was not given."""

    grade: Annotated[
        Text,
        _flag(_GRADING, "Who grades: heuristic (default, no model), llm, none; explicit (people) after the run."),
    ] = None
    grader_model: Annotated[Text, _flag(_GRADING, "The grader's model, as the endpoint calls it.")] = None
    grade_from: Annotated[Text, _flag(_GRADING, "What the grader reads: transcript (default) or summaries.")] = None
    summarize: Annotated[Text, _flag(_GRADING, "Offload entries of each episode: none (default) or llm.")] = None
    summarizer_model: Annotated[Text, _flag(_GRADING, "The summarizer's model (the grader's).")] = None
    credit: Annotated[Text, _flag(_GRADING, "Credit rule: events (default), summary, constant:x or none.")] = None
    weights: Annotated[
        Text, _flag(_GRADING, "R's weights as goal,process,satisfaction (0.45,0.30,0.25).", hyphen=True)
    ] = None
    gamma: Annotated[Text, _flag(_GRADING, "Discount of credit, 0 to 1 (0.9).", hyphen=True)] = None
    repeat: Annotated[Text, _flag(_GRADING, "Times each episode is graded by a model (1).", hyphen=True)] = None
    grader_temperature: Annotated[Text, _flag(_GRADING, "The grader's temperature (0).", hyphen=True)] = None
    language: Annotated[Text, _flag(_GRADING, "Language of the prompts: en (default) or zh.")] = None
    grader_prompt: Annotated[
        Text, _flag(_GRADING, "File with a prompt of your own for the grader, in the form of grading/prompts/.")
    ] = None
    summarizer_prompt: Annotated[Text, _flag(_GRADING, "The same for the summarizer.")] = None
    presentation: Annotated[
        Text, _flag(_GRADING, "Order and length of what the grader is shown: forward (default), reversed or padded.")
    ] = None
    grader_chars: Annotated[
        Text, _flag(_GRADING, "Most characters of one episode that a grader reads (24000).", hyphen=True)
    ] = None
    grader_context: Annotated[
        Text, _flag(_GRADING, "Or the tokens that the grader's model takes, to read no more than fits.", hyphen=True)
    ] = None
    base_url: Annotated[
        Text, _flag(_MODELS, "OpenAI-compatible endpoint, with /v1 (OPENAI_BASE_URL; the key is OPENAI_API_KEY).")
    ] = None
    key_file: Annotated[
        Text,
        _flag(
            _MODELS,
            "File of lines OPENAI_API_KEY=… and POLICY_API_KEY=…, in the place of variables: an absolute path, on "
            "every machine that calls.",
        ),
    ] = None
    graders: Annotated[Text, _flag(_MODELS, "Grader actors (1).", hyphen=True)] = None
    summarizers: Annotated[Text, _flag(_MODELS, "Summarizer actors (1).", hyphen=True)] = None
    lanes: Annotated[
        Text, _flag(_MODELS, "Units that each of them has under way (as many as in flight).", hyphen=True)
    ] = None
    in_flight: Annotated[Text, _flag(_MODELS, "Requests at once, of the whole run (16).", hyphen=True)] = None
    requests_per_minute: Annotated[Text, _flag(_MODELS, "Requests a minute, of the whole run.", hyphen=True)] = None
    tokens_per_minute: Annotated[Text, _flag(_MODELS, "Tokens a minute, of the whole run.", hyphen=True)] = None
    budget_calls: Annotated[Text, _flag(_MODELS, "Most requests of the run, over all its starts.", hyphen=True)] = None
    budget_tokens: Annotated[Text, _flag(_MODELS, "Most tokens of the run, in and out.", hyphen=True)] = None
    budget_usd: Annotated[Text, _flag(_MODELS, "Most money of the run, in US dollars.", hyphen=True)] = None
    prices: Annotated[Text, _flag(_MODELS, "TOML file of prices, USD for a million tokens, a table a model.")] = None
    request_timeout_s: Annotated[
        Text, _flag(_MODELS, "Seconds that one request may take in all (60).", hyphen=True)
    ] = None
    request_tries: Annotated[Text, _flag(_MODELS, "Requests that may fail before a call does (6).", hyphen=True)] = None
    retry_after_cap_s: Annotated[
        Text, _flag(_MODELS, "Longest Retry-After that is waited for, in seconds (60).", hyphen=True)
    ] = None

    def given(self) -> dict[str, object]:
        """The flags that were given, by the names of GradingConfig."""
        return _given(self)


@Parameter(name="*")
@dataclass(frozen=True)
class LateFlags:
    """What `rollouts grade` takes beside the settings of grading."""

    feedback: Annotated[
        Path | None,
        _flag(
            _GRADING,
            "JSON lines of what people said: episode_id, channel, polarity, magnitude, text, time. Stored in the run; "
            "those episodes are graded again, beside the old grades.",
        ),
    ] = None
    retry_ungraded: Annotated[bool, _flag(_TROUBLE, "Ask once more for the gradings that have no score.")] = False
    retry_degraded: Annotated[
        bool,
        _flag(
            _TROUBLE,
            "Ask once more for the summary entries that have no score. Grades that read the old ones are given anew "
            "beside the old grades, and credit by summaries that could not be given is.",
        ),
    ] = False
    credit_only: Annotated[
        bool,
        _flag(
            _GRADING,
            "Compute credit from the stored grades of the grader that the flags name; no model is asked.",
        ),
    ] = False
    judge_card: Annotated[
        bool,
        _flag(
            _GRADING,
            "Grade nothing: show how far the judges of the run are to be believed (repeats, each other, the outcome, "
            "order and length of what they were shown). Needs the extra report.",
        ),
    ] = False
    pool: Annotated[Text, _flag(_WHERE, "Where models are called: ray (default), or local: this process.")] = None
    address: Annotated[Text, _flag(_WHERE, "Ray cluster to join (none: start one on this machine).")] = None
    metrics_port: MetricsPort = None


@Parameter(name="*")
@dataclass(frozen=True)
class JobFlags:
    """What `rollouts submit` takes beside the flags of a run."""

    working_dir: Annotated[
        Path | None,
        _flag(
            _JOB,
            "Folder that goes along, and in which the job works (the current one): what git tracks or would track, or "
            "all where there is no git; never .git, .venv, caches, data/, runs/, .env and key files.",
        ),
    ] = None
    include: Annotated[
        Texts,
        _flag(_JOB, "File or folder in it that goes along in any case. What the check of the flags reads does anyway."),
    ] = None
    exclude: Annotated[Texts, _flag(_JOB, "Pattern of what stays here; repeat for more.")] = None
    on_nodes: Annotated[
        list[Path] | None,
        _flag(
            _JOB,
            "File or folder that every node has: a policy's network in it is neither sent nor looked at here; repeat "
            "for more.",
        ),
    ] = None
    detach: Annotated[bool, _flag(_JOB, "Print the job's id and leave, instead of showing its log.")] = False


def _given(flags: RunFlags | GradingFlags) -> dict[str, object]:
    values = {field.name: getattr(flags, field.name) for field in dataclasses.fields(flags)}
    return {name: value for name, value in values.items() if value is not None}
