"""A tiny GGUF file that holds what a tiny Llama of `tiny_models.py` does, as llama.cpp's converter writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["make_gguf"]

_NORMAL, _CONTROL = 1, 3
_PARTS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def make_gguf(folder: Path, file: Path) -> Path:
    """Writes a Llama checkpoint whose tokenizer has a token a byte as a GGUF file, without rounding its weights."""
    from gguf import GGUFWriter
    from transformers import AutoModelForCausalLM, AutoTokenizer

    network, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    config = network.config
    writer = GGUFWriter(file, "llama")
    writer.add_name("tiny")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_vocab_size(config.vocab_size)
    tokens = tokenizer.convert_ids_to_tokens(range(config.vocab_size))
    control = {token.content for token in tokenizer.added_tokens_decoder.values()}
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    # Without merges there must be scores, of which none are made: every token is a byte.
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([_CONTROL if token in control else _NORMAL for token in tokens])
    writer.add_bos_token_id(config.bos_token_id)
    writer.add_eos_token_id(config.eos_token_id)
    writer.add_pad_token_id(config.pad_token_id)
    writer.add_chat_template(tokenizer.chat_template)
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    for name, weights in network.state_dict().items():
        called = _name(name)
        writer.add_tensor(called, _as_llama_cpp(weights, heads.get(called.split(".")[-2])).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def _name(name: str) -> str:
    whole = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    stem, _, kind = name.rpartition(".")
    if stem in whole:
        return f"{whole[stem]}.{kind}"
    _, _, layer, part = stem.split(".", 3)
    return f"blk.{layer}.{_PARTS[part]}.{kind}"


def _as_llama_cpp(weights: Any, heads: int | None) -> Any:
    """Returns weights with the halves of each rotary head interleaved, as llama.cpp rotates neighbours."""
    if heads is None:
        return weights
    rows = weights.shape[0] // heads
    return weights.reshape(heads, 2, rows // 2, -1).transpose(1, 2).reshape(weights.shape).contiguous()
