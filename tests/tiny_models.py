"""Tiny checkpoints with random weights of families of generative models, made from configurations alone.

    folder = make_checkpoint("mllama", tmp_path)

Those of vision-language models are made by the benchmarks' `random_vlms.py`. Nothing is downloaded.
"""

from __future__ import annotations

import pytest

from benchmarks.random_vlms import (
    FAMILIES,
    TINY,
    TINY_TEXT,
    Shape,
    byte_tokenizer,
    write_checkpoint,
)

__all__ = ["EACH_FAMILY", "FAMILIES", "TEXT_FAMILIES", "Shape", "make_checkpoint"]

#: For tests that take seconds per family: two stay quick, which differ most in how they see an image.
QUICK = ("mllama", "smolvlm")
SLOW = [pytest.param(name, marks=pytest.mark.heavy) for name in FAMILIES if name not in QUICK]
EACH_FAMILY = [*QUICK, *SLOW]


def _llama(shape):
    from transformers import LlamaConfig, LlamaForCausalLM

    special = [
        "<|begin_of_text|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|eot_id|>",
        "<|pad|>",
    ]
    tokenizer = byte_tokenizer(
        special, bos=special[0], eos="<|eot_id|>", pad="<|pad|>", writes_bos=True
    )
    tokenizer.chat_template = (
        "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
        "{{ m.content }}<|eot_id|>{% endfor %}"
        "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
    )
    ids = {token: tokenizer.convert_tokens_to_ids(token) for token in special}
    sizes = TINY_TEXT | {"max_position_embeddings": 2048} | shape.text
    config = LlamaConfig(
        **sizes,
        vocab_size=len(tokenizer),
        bos_token_id=ids["<|begin_of_text|>"],
        eos_token_id=ids["<|eot_id|>"],
        pad_token_id=ids["<|pad|>"],
    )
    return LlamaForCausalLM(config), tokenizer


def _t5(shape):
    from transformers import T5Config, T5ForConditionalGeneration

    tokenizer = byte_tokenizer(["<pad>", "</s>"], bos=None, eos="</s>", pad="<pad>")
    pad, end = tokenizer.convert_tokens_to_ids(["<pad>", "</s>"])
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    sizes |= shape.text
    config = T5Config(
        vocab_size=len(tokenizer),
        **sizes,
        pad_token_id=pad,
        eos_token_id=end,
        decoder_start_token_id=pad,
    )
    return T5ForConditionalGeneration(config), tokenizer


#: Makers of tiny language models: one with a chat template, one without.
TEXT_FAMILIES = {"llama": _llama, "t5": _t5}


def make_checkpoint(family, parent, shape=TINY, *, seed=0):
    """Writes a tiny checkpoint of a family and returns its folder."""
    folder = parent / f"tiny-{family}-{seed}"
    return write_checkpoint(TEXT_FAMILIES.get(family, family), folder, shape, seed=seed)
