"""What a chat model is told: the system part, and a turn for the present moment. The words are in a file."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rollouts.observation import STATUS
from rollouts.policies.model_settings import ModelSettings
from rollouts.policies.option_codes import codes_of
from rollouts.policies.reply_rules import ACTION, Wanted
from rollouts.prompt_files import Prompt, shipped_prompt
from rollouts.records import Snapshot


def chat_prompt() -> Prompt:
    """The file; its hash is part of who the policy is."""
    return shipped_prompt("rollouts.policies", "chat", "en")


def system_text(settings: ModelSettings, instructions: str | None) -> str:
    """The part that is never left out, the same at every decision."""
    prompt = chat_prompt()
    return prompt.fill(
        "system",
        instructions=instructions or prompt.sections["no_instructions"],
        shown=prompt.sections[f"shown_{settings.observe}"],
        answer=prompt.sections[f"answer_{settings.answer}"],
    )


def turn_text(settings: ModelSettings, snapshot: Snapshot, text: str, shown: Sequence[str]) -> str:
    """The present moment. Beside a picture alone stands only the player's status, not a word on what it shows."""
    prompt = chat_prompt()
    if settings.observe == "frame":
        text = STATUS(snapshot, None) or prompt.sections["no_status"]
    named = codes_of(shown).items() if settings.answer == "letters" else [("-", option) for option in shown]
    options = "\n".join(f"{code} {option}" if code == "-" else f"{code}: {option}" for code, option in named)
    return prompt.fill("turn", text=text, options=options, ask=prompt.sections[f"ask_{settings.answer}"])


def answer_text(wanted: Wanted, choice: str, shown: Sequence[str]) -> str:
    """An option in the form that is asked for; `shown` are the options in the order of their letters."""
    if wanted == "json":
        return json.dumps({ACTION: choice}, ensure_ascii=False)
    if wanted == "plain":
        return choice
    return next(code for code, option in codes_of(shown).items() if option == choice)
