"""A tiny causal language model and its tokenizer, made on the spot; needs torch and transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

WORDS = ("monster", "left", "right", "near", "far", "attack", "turn", "options", "reply", "with", "one", "letter")


def make(folder: Path, letters: str = "ABCDEFGH", seed: int = 0, bias: dict[str, float] | None = None) -> Path:
    """One layer of Llama with random weights over whole words. With `bias` (token → score) it says the same whatever it
    reads: the scores of all other tokens are then 0."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    vocabulary = {word: n for n, word in enumerate(("<unk>", "<pad>", *letters, *WORDS, ".", ":"))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<pad>")
    torch.manual_seed(seed)
    shape: dict[str, Any] = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    heads: dict[str, Any] = {"num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 512}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(vocabulary), tie_word_embeddings=False, **shape, **heads))
    if bias is not None:
        _say_always(model, {vocabulary[token]: score for token, score in bias.items()})
    folder.mkdir(exist_ok=True)
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


def _say_always(model: Any, scores: dict[int, float]) -> None:
    """Every position's hidden state becomes (4, 0, …, 0): the embeddings point there, and nothing else adds to them.
    After the norm (root of the mean square over 16) that is 4 again, so the head is the score over 4."""
    import torch

    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.model.embed_tokens.weight[:, 0] = 4.0
        model.model.norm.weight.fill_(1.0)
        for token, score in scores.items():
            model.lm_head.weight[token, 0] = score / 4.0
