"""TRL's trainers, and transformers' chat templates, on exports as they are: one step of each on a model made here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.rollouts.exports.conftest import Exported

pytest.importorskip("trl", reason="trl is an extra")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # theirs
]
MARKS = ("<pad>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>")
TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>"
    "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] }}<|end|>{% endgeneration %}"
    "{% else %}{{ message['content'] }}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""`generation` marks what is to be learnt."""


def tokenizer() -> Any:
    """Bytes as tokens, and a chat template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = [*MARKS, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    bytewise = Tokenizer(models.BPE(vocab={word: n for n, word in enumerate(words)}, merges=[]))
    bytewise.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytewise.decoder = decoders.ByteLevel()
    bytewise.add_special_tokens(list(MARKS))
    return PreTrainedTokenizerFast(
        tokenizer_object=bytewise, pad_token="<pad>", eos_token="<|end|>", chat_template=TEMPLATE
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of one layer of Llama with random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    shape: dict[str, Any] = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    heads: dict[str, Any] = {"num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 4096}
    folder = tmp_path_factory.mktemp("model")
    LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer()), **shape, **heads)).save_pretrained(folder)
    return str(folder)


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def loaded(out: Path, tmp_path: Path) -> Any:
    import datasets

    return datasets.load_dataset(str(out), split="train", cache_dir=str(tmp_path / "cache"))


def settings(tmp_path: Path) -> dict[str, Any]:
    limits: dict[str, Any] = {"max_steps": 1, "per_device_train_batch_size": 2, "max_length": None, "bf16": False}
    quiet: dict[str, Any] = {"report_to": [], "disable_tqdm": True, "save_strategy": "no", "use_cpu": True}
    return {"output_dir": str(tmp_path / "trained"), **limits, **quiet}


def test_a_chat_template_takes_the_messages(exported: Exported, tmp_path: Path) -> None:
    out, _ = exported("sft")
    said = tokenizer().apply_chat_template(loaded(out, tmp_path)[0]["messages"], tokenize=False)
    assert said.startswith("<|system|>You are the player")
    assert said.endswith("A: stay\nB: down\n\nYour letter:<|end|><|assistant|>B<|end|>")


def test_sft_trains_on_the_answer_alone(exported: Exported, tmp_path: Path, model: str) -> None:
    from trl import SFTConfig, SFTTrainer

    rows = loaded(exported("sft")[0], tmp_path)
    config = SFTConfig(assistant_only_loss=True, **settings(tmp_path))
    trainer = SFTTrainer(model, args=config, train_dataset=rows, processing_class=tokenizer())
    learnt = [token for token in trainer.train_dataset[0]["labels"] if token != -100]
    assert tokenizer().decode(learnt) == "B<|end|>"
    assert trainer.train().training_loss > 0


def test_dpo_trains_on_the_pairs(exported: Exported, tmp_path: Path, model: str) -> None:
    """Before its first step the policy is the reference: the loss is ln 2."""
    from trl import DPOConfig, DPOTrainer

    rows = loaded(exported("preference")[0], tmp_path)
    trainer = DPOTrainer(model, args=DPOConfig(**settings(tmp_path)), train_dataset=rows, processing_class=tokenizer())
    first = trainer.train_dataset[0]
    assert tokenizer().decode(first["chosen_ids"]).startswith("B")
    assert tokenizer().decode(first["rejected_ids"]).startswith("A")
    assert trainer.train().training_loss == pytest.approx(0.6931, abs=1e-3)


def test_pictures_take_their_places_in_the_messages(exported: Exported, tmp_path: Path) -> None:
    from trl.data_utils import is_conversational, prepare_multimodal_messages

    row = loaded(exported("sft", "--observe", "both")[0], tmp_path)[0]
    assert is_conversational(row)
    _, user, _ = prepare_multimodal_messages(row["messages"], images=row["images"])
    words, picture = user["content"]
    assert (words["type"], picture["type"], picture["image"].size) == ("text", "image", (32, 24))
