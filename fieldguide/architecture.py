"""The tiny Mllama: the architecture of Llama 3.2 Vision with 1.5 million parameters instead of 11 billion."""

from __future__ import annotations

from typing import Any

__all__ = ["IMAGE_SIZE", "PATCH_SIZE", "build_model"]

#: Width and height of the images that the model sees, in pixels.
IMAGE_SIZE = 64
#: Width and height of a patch, in pixels.
PATCH_SIZE = 8

_WIDTH = 128
_HEADS = 4
_VISION_LAYERS = 2
_GLOBAL_LAYERS = 1
_TEXT_LAYERS = 5
_CROSS_ATTENTION_LAYERS = [2, 4]
#: Llama 3.2 Vision starts its gates at 0, since its language model can write already; ours learns
#: both at once.
_GATE_AT_START = 0.5


def build_model(vocabulary: int, *, bos: int, eos: int, pad: int) -> Any:
    """Builds the untrained model.

    Args:
        vocabulary: How many tokens it can write. The image token has the next number and cannot be
            written.
        bos: The token that begins a text.
        eos: The token that ends an answer.
        pad: The token that fills up shorter texts of a batch.

    Returns:
        A `transformers.MllamaForConditionalGeneration` in float32, with every gate open.
    """
    import torch
    from transformers import MllamaConfig, MllamaForConditionalGeneration
    from transformers.models.mllama.configuration_mllama import MllamaTextConfig, MllamaVisionConfig

    vision = MllamaVisionConfig(
        hidden_size=_WIDTH,
        num_hidden_layers=_VISION_LAYERS,
        num_global_layers=_GLOBAL_LAYERS,
        attention_heads=_HEADS,
        intermediate_size=2 * _WIDTH,
        # What the encoder saw before its last layer is passed on beside what it made of it in the
        # end.
        intermediate_layers_indices=[_VISION_LAYERS - 1],
        vision_output_dim=2 * _WIDTH,
        image_size=IMAGE_SIZE,
        patch_size=PATCH_SIZE,
        max_num_tiles=1,
        supported_aspect_ratios=[[1, 1]],
    )
    text = MllamaTextConfig(
        vocab_size=vocabulary,
        hidden_size=_WIDTH,
        num_hidden_layers=_TEXT_LAYERS,
        num_attention_heads=_HEADS,
        num_key_value_heads=_HEADS // 2,
        intermediate_size=2 * _WIDTH,
        cross_attention_layers=_CROSS_ATTENTION_LAYERS,
        max_position_embeddings=2048,
        rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
        bos_token_id=bos,
        eos_token_id=eos,
        pad_token_id=pad,
    )
    config = MllamaConfig(vision_config=vision, text_config=text, image_token_index=vocabulary)
    model = MllamaForConditionalGeneration(config).float()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(
                ("cross_attn_attn_gate", "cross_attn_mlp_gate", "gate_attn", "gate_ffn")
            ):
                parameter.fill_(_GATE_AT_START)
    return model
