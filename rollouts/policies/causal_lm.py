"""`transformers:FOLDER`: a local causal language model, read by its scores for the next token being an option's letter.

The options get the letters A, B, C … in the scenario's order. A letter's score is that of its tokens with and without a
space before it, taken together; probabilities are over the letters alone, and `option_mass` is what all tokens' shares
they have. Nothing is generated. Weights come from safetensors only, code from the installed package only.
"""

from __future__ import annotations

import json
import string
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rollouts.errors import UsageError
from rollouts.policies.base import PolicyContext, Question
from rollouts.policies.checkpoints import check_folder, hash_of, need
from rollouts.policies.gpu import torch_device
from rollouts.policies.network import answer, softmax
from rollouts.records import Answer, PolicyDescription, Snapshot
from rollouts.scenarios.scenario import Scenario
from rollouts.scrub import describe_error

LETTERS = string.ascii_uppercase
_PARTS = ("*.safetensors", "*.json", "*.txt", "*.model", "*.jinja")
_STRICTLY: Mapping[str, bool] = {"local_files_only": True, "trust_remote_code": False}
LOOKED_AT_BYTES = 2**30
RULE = "next-token scores of the option letters"


@dataclass(frozen=True)
class _Model:
    """A tokenizer and a module; `tokens` are those of each letter, in the order of LETTERS as far as there are any."""

    torch: Any
    tokenizer: Any
    module: Any
    tokens: tuple[tuple[int, ...], ...]
    device: str


class CausalLMPolicy:
    """Chooses the option whose letter is the likeliest next token. Reads the text; looks at no frames."""

    needs_frames = False

    def __init__(self, context: PolicyContext) -> None:
        """Errors: UsageError for a missing package, a folder without a model that is nothing but data."""
        if context.argument is None:
            raise UsageError("policy 'transformers' needs the folder of a model: transformers:FOLDER")
        folder, self._spec = Path(context.argument), f"transformers:{context.argument}"
        for package in ("torch", "safetensors", "transformers"):
            need(package, self._spec, "transformers")
        _check_is_data(folder, self._spec)
        self._who = _describe(folder)
        self._model = _open(folder, context.gpus, self._spec)
        self.check_scenario(context.scenario)

    def act(self, snapshot: Snapshot, text: str, options: tuple[str, ...], instructions: str | None) -> Answer:
        return self.act_batch([Question(snapshot, text, options, instructions)])[0]

    def act_batch(self, questions: Sequence[Question]) -> list[Answer]:
        begun_s = time.perf_counter()
        prompts = [self._prompt(question) for question in questions]
        shares, n_tokens = self._read(prompts)
        latency_ms = (time.perf_counter() - begun_s) * 1000
        return [
            _answer(row, question, prompt, n, latency_ms)
            for row, question, prompt, n in zip(shares, questions, prompts, n_tokens, strict=True)
        ]

    def describe(self) -> PolicyDescription:
        return self._who

    def check_scenario(self, scenario: Scenario) -> None:
        """Errors: UsageError where there are more options than letters that the tokenizer knows."""
        if len(scenario.options) > len(self._model.tokens):
            raise UsageError(
                f"policy {self._spec!r} has tokens of its own for {len(self._model.tokens)} letters; "
                f"scenario {scenario.name!r} has {len(scenario.options)} options"
            )

    def _prompt(self, question: Question) -> str:
        """The model's own chat form where it has one."""
        asked = prompt_of(question)
        tokenizer = self._model.tokenizer
        if not getattr(tokenizer, "chat_template", None):
            return f"{asked}\nAnswer:"
        said = [{"role": "user", "content": asked}]
        prompt: str = tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True)
        return prompt

    def _read(self, prompts: list[str]) -> tuple[NDArray[np.float64], list[int]]:
        """Shares (n, letters) of all tokens, and the length of each prompt in tokens."""
        model = self._model
        assert model.module is not None, "made only to be described"
        given = model.tokenizer(prompts, return_tensors="pt", padding=True).to(model.device)
        mask = given["attention_mask"]
        positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
        with model.torch.inference_mode():
            scores = model.module(input_ids=given["input_ids"], attention_mask=mask, position_ids=positions).logits
        shares = softmax(scores[:, -1].float().cpu().numpy().astype(np.float64))
        of_letters = np.stack([shares[:, list(tokens)].sum(axis=1) for tokens in model.tokens], axis=1)
        return of_letters, mask.sum(dim=1).tolist()


def prompt_of(question: Question) -> str:
    """What is asked, in words: instructions, state, lettered options."""
    lettered = [f"{letter}. {option}" for letter, option in zip(LETTERS, question.options, strict=False)]
    parts = (question.instructions, question.text, "Options:\n" + "\n".join(lettered), "Reply with one letter.")
    return "\n\n".join(part for part in parts if part)


def _answer(row: NDArray[np.float64], question: Question, prompt: str, n_tokens: int, latency_ms: float) -> Answer:
    shares = row[: len(question.options)]
    mass = float(shares.sum())
    if not mass:
        raise ValueError("the model gives no share to any option's letter")
    chosen = answer(shares / mass, question.options, latency_ms)
    return replace(chosen, option_mass=mass, policy_text=prompt, tokens_in=n_tokens, tokens_out=1, parse_rule=RULE)


def _describe(folder: Path) -> PolicyDescription:
    files = [path for pattern in _PARTS for path in folder.glob(pattern)]
    return PolicyDescription(
        name=f"transformers:{folder.resolve().name}",
        kind="model",
        model=folder.resolve().name,
        checkpoint_hash=hash_of(files),
        settings={"read_by": RULE},
    )


def _check_is_data(folder: Path, spec: str) -> None:
    """Errors: UsageError where the folder has no weights as safetensors, or wants code of its own to be run."""
    check_folder(folder, spec)
    if not any(folder.glob("*.safetensors")):
        pickles = sorted(path.name for path in folder.glob("*.bin"))
        found = f"only {pickles[0]}, a pickle, which can run code when it is read" if pickles else "no weights"
        raise UsageError(f'policy {spec!r}: "{folder.absolute()}" has {found}: save the model as safetensors')
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f'policy {spec!r}: "{folder.absolute()}/config.json": {error}') from error
    if isinstance(config, Mapping) and "auto_map" in config:
        raise UsageError(f"policy {spec!r}: the model wants code of its own to be run (auto_map in config.json)")


def _open(folder: Path, gpus: float | None, spec: str) -> _Model:
    """Without the module where it will not play and is too big just to be looked at."""
    import torch  # noqa: PLC0415  an extra
    from transformers import AutoTokenizer, logging  # noqa: PLC0415  an extra

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    device = torch_device(torch, gpus, spec)
    weights_bytes = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left", **_STRICTLY)
        module = None if gpus is None and weights_bytes > LOOKED_AT_BYTES else _module(folder, spec).to(device)
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"policy {spec!r}: the model cannot be loaded: {describe_error(error)}") from error
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    return _Model(torch, tokenizer, module, _tokens_of_letters(tokenizer), device)


def _module(folder: Path, spec: str) -> Any:
    """Errors: UsageError where weights are missing, which transformers would make up."""
    from transformers import AutoModelForCausalLM  # noqa: PLC0415  an extra

    module, told = AutoModelForCausalLM.from_pretrained(
        folder, use_safetensors=True, dtype="auto", output_loading_info=True, **_STRICTLY
    )
    missing = sorted(told["missing_keys"])
    if missing:
        raise UsageError(f"policy {spec!r}: the model lacks {', '.join(missing[:3])} ({len(missing)} weights in all)")
    return module.eval()


def _tokens_of_letters(tokenizer: Any) -> tuple[tuple[int, ...], ...]:
    """For each letter, as long as there is one: the tokens that are it, alone or after a space."""
    found: list[tuple[int, ...]] = []
    taken: set[int] = set()
    for letter in LETTERS:
        encoded = [tokenizer.encode(text, add_special_tokens=False) for text in (letter, f" {letter}")]
        tokens = {ids[0] for ids in encoded if len(ids) == 1} - {tokenizer.unk_token_id}
        if not tokens or tokens & taken:
            break
        taken |= tokens
        found.append(tuple(sorted(tokens)))
    return tuple(found)
