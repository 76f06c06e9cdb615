"""Checkpoints of vision-language models with random weights, in any size, made from configurations alone.

    folder = write_checkpoint("mllama", parent)                      # tiny, as the tests want it
    folder = write_checkpoint("mllama", parent, REAL["mllama"])      # the shape of Llama-3.2-11B-Vision

Each is what `save_pretrained` writes for the real model: same classes, a processor with a chat template of the family's
form, and a tokenizer with one token a byte, filled up with words that no text is split into where the vocabulary is to
be larger. Nothing is downloaded. Weights that start at zero and would hide the image (Mllama's gates) are set to other
values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

__all__ = [
    "FAMILIES",
    "REAL",
    "TINY",
    "TINY_TEXT",
    "Shape",
    "byte_tokenizer",
    "make_model",
    "scaled",
    "write_checkpoint",
]


@dataclass(frozen=True)
class Shape:
    """What sets a model apart from the tiny one of its family.

    Attributes:
        vision: Keys of the vision encoder's configuration.
        text: Keys of the language model's configuration.
        vocabulary: Tokens that the model can write; 0 for the bytes and the control tokens alone.
        tiles: Tiles a side into which large images are split (SmolVLM, Idefics3).
        shuffle: Patches a side that become one image token (SmolVLM, Idefics3).
        image_side: Side in pixels of images that make the number of image tokens that is typical.
    """

    vision: Mapping[str, Any] = field(default_factory=dict)
    text: Mapping[str, Any] = field(default_factory=dict)
    vocabulary: int = 0
    tiles: int = 2
    shuffle: int = 2
    image_side: int = 56


TINY = Shape()

#: Shapes of released checkpoints, from their configurations.
REAL: dict[str, Shape] = {
    # meta-llama/Llama-3.2-11B-Vision-Instruct: 1,601 patches a tile, four tiles
    "mllama": Shape(
        vision={
            "hidden_size": 1280,
            "intermediate_size": 5120,
            "num_hidden_layers": 32,
            "num_global_layers": 8,
            "attention_heads": 16,
            "image_size": 560,
            "patch_size": 14,
            "intermediate_layers_indices": [3, 7, 15, 23, 30],
            "vision_output_dim": 7680,
        },
        text={
            "hidden_size": 4096,
            "intermediate_size": 14_336,
            "num_hidden_layers": 40,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "max_position_embeddings": 131_072,
            "cross_attention_layers": [3, 8, 13, 18, 23, 28, 33, 38],
            "rope_scaling": {
                "rope_type": "llama3",
                "rope_theta": 500_000.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192,
            },
        },
        vocabulary=128_256,
        image_side=1120,
    ),
    # llava-hf/llava-1.5-7b-hf: 576 image tokens
    "llava": Shape(
        vision={
            "hidden_size": 1024,
            "intermediate_size": 4096,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "image_size": 336,
            "patch_size": 14,
            "projection_dim": 768,
        },
        text={
            "hidden_size": 4096,
            "intermediate_size": 11_008,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 32,
        },
        vocabulary=32_064,
        image_side=480,
    ),
    # Qwen/Qwen2.5-VL-7B-Instruct: 256 image tokens at 448 x 448
    "qwen2_5_vl": Shape(
        vision={
            "depth": 32,
            "hidden_size": 1280,
            "intermediate_size": 3420,
            "num_heads": 16,
            "patch_size": 14,
            "window_size": 112,
            "out_hidden_size": 3584,
            "fullatt_block_indexes": [7, 15, 23, 31],
        },
        text={
            "hidden_size": 3584,
            "intermediate_size": 18_944,
            "num_hidden_layers": 28,
            "num_attention_heads": 28,
            "num_key_value_heads": 4,
            "max_position_embeddings": 128_000,
            "rope_scaling": {
                "rope_type": "default",
                "rope_theta": 1_000_000.0,
                "mrope_section": [16, 24, 24],
            },
        },
        vocabulary=152_064,
        image_side=448,
    ),
    # HuggingFaceTB/SmolVLM-Instruct: 81 tokens a tile; here 2 x 2 tiles and the whole image
    "smolvlm": Shape(
        vision={
            "hidden_size": 1152,
            "intermediate_size": 4304,
            "num_hidden_layers": 27,
            "num_attention_heads": 16,
            "image_size": 378,
            "patch_size": 14,
        },
        text={
            "hidden_size": 2048,
            "intermediate_size": 8192,
            "num_hidden_layers": 24,
            "num_attention_heads": 32,
            "num_key_value_heads": 32,
            "max_position_embeddings": 16_384,
        },
        vocabulary=49_280,
        shuffle=3,
        image_side=756,
    ),
    # HuggingFaceM4/Idefics3-8B-Llama3: 169 tokens a tile; here 2 x 2 tiles and the whole image
    "idefics3": Shape(
        vision={
            "hidden_size": 1152,
            "intermediate_size": 4304,
            "num_hidden_layers": 27,
            "num_attention_heads": 16,
            "image_size": 364,
            "patch_size": 14,
        },
        text={
            "hidden_size": 4096,
            "intermediate_size": 14_336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "max_position_embeddings": 131_072,
        },
        vocabulary=128_259,
        image_side=728,
    ),
}


def scaled(shape: Shape, *, width: int, depth: int, tile: int | None = None) -> Shape:
    """Returns a shape with the same pattern of layers and the same sizes of attention heads, narrower and shallower.

    Args:
        shape: The shape to begin with.
        width: What the number of heads, and with it every width and the vocabulary, is divided by.
        depth: What the number of layers is divided by.
        tile: Side in pixels of a tile, a multiple of the patch; by default as it is.
    """
    vision = dict(shape.vision)
    text = dict(shape.text)
    heads = next(
        name for name in ("attention_heads", "num_attention_heads", "num_heads") if name in vision
    )
    for part, head_key in ((vision, heads), (text, "num_attention_heads")):
        before = part[head_key]
        size = part["hidden_size"]
        part[head_key] = max(1, round(before / width))
        part["hidden_size"] = part[head_key] * (size // before)
        part["intermediate_size"] = 16 * max(
            1, round(part["intermediate_size"] * part[head_key] / before / 16)
        )
    groups = shape.text["num_attention_heads"] // shape.text["num_key_value_heads"]
    text["num_key_value_heads"] = max(1, text["num_attention_heads"] // groups)
    for part in (vision, text):
        for name in ("depth", "num_hidden_layers", "num_global_layers"):
            if name in part:
                part[name] = max(1, round(part[name] / depth))
    if "cross_attention_layers" in text:  # every fifth
        layers = text["num_hidden_layers"] = max(2, text["num_hidden_layers"])
        text["cross_attention_layers"] = list(range(3, layers, 5)) or [layers - 1]
    for name in ("intermediate_layers_indices", "fullatt_block_indexes"):
        if name in vision:
            vision[name] = sorted({i // depth for i in vision[name]})
    if "vision_output_dim" in vision:
        vision["vision_output_dim"] = vision["hidden_size"] * (
            1 + len(vision["intermediate_layers_indices"])
        )
    if "out_hidden_size" in vision:
        vision["out_hidden_size"] = text["hidden_size"]
    side = shape.image_side
    if tile is not None:
        side = round(side * tile / vision["image_size"])
        vision["image_size"] = tile
    vocabulary = max(512, shape.vocabulary // width)
    return replace(shape, vision=vision, text=text, vocabulary=vocabulary, image_side=side)


TINY_TEXT = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
}

_TINY_VISION = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 7,
}

_LLAMA3 = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if m.role == 'system' and messages | selectattr('role', 'equalto', 'user') | list %}"
    "{{ raise_exception('no system turn beside an image') }}{% endif %}"
    "<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
    "{% for c in m.content %}{% if c.type == 'image' %}<|image|>{% else %}{{ c.text }}{% endif %}{% endfor %}<|eot_id|>"
    "{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
_GEMMA = (
    "{{ bos_token }}{% for m in messages %}<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n"
    "{% for c in m.content %}{% if c.type == 'image' %}<start_of_image>{% else %}{{ c.text }}{% endif %}{% endfor %}"
    "<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
_LLAVA = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ m.content[0].text }} {% else %}USER: "
    "{% for c in m.content %}{% if c.type == 'image' %}<image>\n{% else %}{{ c.text }}{% endif %}{% endfor %} "
    "{% endif %}{% endfor %}{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)


def _chatml(image: str) -> str:
    return (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n"
        "{% for c in m.content %}{% if c.type == 'image' %}"
        + image
        + "{% else %}{{ c.text }}{% endif %}{% endfor %}"
        "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )


_SMOL = (
    "<|im_start|>{% for m in messages %}{{ m.role | capitalize }}"
    "{% if m.content[0].type == 'image' %}:{% else %}: {% endif %}"
    "{% for c in m.content %}{% if c.type == 'image' %}<image>{% else %}{{ c.text }}{% endif %}{% endfor %}"
    "<end_of_utterance>\n{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}"
)


def _vocabulary(size: int) -> dict[str, int]:
    """Returns the bytes, and words up to `size` tokens.

    Without merges no text is ever split into the words.
    """
    from tokenizers import pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [f"Ġw{i}" for i in range(size - len(alphabet))]
    return {token: i for i, token in enumerate([*alphabet, *words])}


def byte_tokenizer(
    special: list[str],
    *,
    bos: str | None,
    eos: str,
    pad: str | None,
    writes_bos: bool = False,
    extra: dict[str, str] | None = None,
    size: int = 0,
) -> Any:
    """Returns a tokenizer with a token a byte, the control tokens last, and words between them up to `size` tokens."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE(vocab=_vocabulary(size - len(special)), merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in special]
    )
    if writes_bos and bos is not None:
        core.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, core.token_to_id(bos))]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        bos_token=bos,
        eos_token=eos,
        pad_token=pad,
        extra_special_tokens=extra or {},
        model_input_names=["input_ids", "attention_mask"],
    )


def _mllama(shape: Shape) -> tuple[Any, Any]:
    import torch
    from transformers import (
        MllamaConfig,
        MllamaForConditionalGeneration,
        MllamaImageProcessor,
        MllamaProcessor,
    )

    special = [
        "<|begin_of_text|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|eot_id|>",
        "<|finetune_right_pad_id|>",
    ]
    special += ["<|python_tag|>", "<|image|>"]
    # As in the real checkpoint, the image token has a row in the embeddings and none among the
    # outputs.
    tokenizer = byte_tokenizer(
        special,
        bos=special[0],
        eos="<|eot_id|>",
        pad="<|finetune_right_pad_id|>",
        writes_bos=True,
        size=shape.vocabulary + 1,
    )
    ids = {token: tokenizer.convert_tokens_to_ids(token) for token in special}
    vocabulary = len(tokenizer) - 1
    assert ids["<|image|>"] == vocabulary
    config = MllamaConfig(
        vision_config={
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_global_layers": 1,
            "attention_heads": 2,
            "image_size": 28,
            "patch_size": 7,
            "max_num_tiles": 4,
            "intermediate_layers_indices": [0],
            "vision_output_dim": 64,
            **shape.vision,
        },
        text_config={
            **TINY_TEXT,
            "cross_attention_layers": [1],
            "rope_scaling": {"rope_type": "default"},
            **shape.text,
            "vocab_size": vocabulary,
            "bos_token_id": ids["<|begin_of_text|>"],
            "eos_token_id": ids["<|eot_id|>"],
            "pad_token_id": ids["<|finetune_right_pad_id|>"],
        },
        image_token_index=ids["<|image|>"],
    )
    model = MllamaForConditionalGeneration(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "gate" in name.rsplit(".", 1)[-1]:
                parameter.fill_(0.7)  # a gate at its start, zero, shuts the image out
    side = config.vision_config.image_size
    images = MllamaImageProcessor(size={"height": side, "width": side}, max_image_tiles=4)
    return model, MllamaProcessor(images, tokenizer, chat_template=_LLAMA3)


def _llava(shape: Shape) -> tuple[Any, Any]:
    from transformers import (
        CLIPImageProcessor,
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
    )

    special = ["<s>", "</s>", "<pad>", "<image>"]
    tokenizer = byte_tokenizer(
        special, bos="<s>", eos="</s>", pad="<pad>", writes_bos=True, size=shape.vocabulary
    )
    bos, eos, pad, image = tokenizer.convert_tokens_to_ids(special)
    vision = CLIPVisionConfig(**{**_TINY_VISION, **shape.vision})
    side = vision.image_size
    patch = vision.patch_size
    text = {**TINY_TEXT, **shape.text, "vocab_size": len(tokenizer)}
    config = LlavaConfig(
        vision_config=vision,
        text_config=LlamaConfig(**text, bos_token_id=bos, eos_token_id=eos, pad_token_id=pad),
        image_token_index=image,
        image_seq_length=(side // patch) ** 2,
    )
    images = CLIPImageProcessor(
        size={"shortest_edge": side}, crop_size={"height": side, "width": side}
    )
    processor = LlavaProcessor(
        images,
        tokenizer,
        patch_size=patch,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=_LLAVA,
    )
    return LlavaForConditionalGeneration(config), processor


def _qwen2_5_vl(shape: Shape) -> tuple[Any, Any]:
    from transformers import (
        Qwen2_5_VLConfig,
        Qwen2_5_VLForConditionalGeneration,
        Qwen2_5_VLProcessor,
        Qwen2Tokenizer,
        Qwen2VLImageProcessor,
        Qwen2VLVideoProcessor,
    )

    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>"]
    special += ["<|image_pad|>", "<|video_pad|>"]
    vocabulary = _vocabulary(shape.vocabulary - len(special))
    vocabulary |= {token: len(vocabulary) + i for i, token in enumerate(special)}
    ends = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    try:
        tokenizer = Qwen2Tokenizer(vocab=vocabulary, merges=[], **ends)
    except TypeError:  # before transformers 5 the class read files, and its fast twin took the core
        from transformers import Qwen2TokenizerFast

        core = byte_tokenizer(
            special, bos=None, eos="<|im_end|>", pad="<|endoftext|>", size=shape.vocabulary
        ).backend_tokenizer
        tokenizer = Qwen2TokenizerFast(tokenizer_object=core, **ends)
    tokenizer.add_special_tokens({"additional_special_tokens": special[1:]})
    config = Qwen2_5_VLConfig(
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 2,
            "patch_size": 14,
            "window_size": 56,
            "out_hidden_size": 32,
            "fullatt_block_indexes": [1],
            **shape.vision,
        },
        text_config={
            **TINY_TEXT,
            "rope_scaling": {"rope_type": "default", "mrope_section": [1, 1, 2]},
            **shape.text,
            "vocab_size": len(vocabulary),
            "bos_token_id": vocabulary["<|endoftext|>"],
            "eos_token_id": vocabulary["<|im_end|>"],
            "pad_token_id": vocabulary["<|endoftext|>"],
        },
        image_token_id=vocabulary["<|image_pad|>"],
        video_token_id=vocabulary["<|video_pad|>"],
        vision_start_token_id=vocabulary["<|vision_start|>"],
        vision_end_token_id=vocabulary["<|vision_end|>"],
    )
    processor = Qwen2_5_VLProcessor(
        Qwen2VLImageProcessor(min_pixels=56 * 56, max_pixels=max(112, shape.image_side) ** 2),
        tokenizer,
        Qwen2VLVideoProcessor(),
        chat_template=_chatml("<|vision_start|><|image_pad|><|vision_end|>"),
    )
    return Qwen2_5_VLForConditionalGeneration(config), processor


def _idefics(shape: Shape, *, smol: bool) -> tuple[Any, Any]:
    import transformers

    rows = [f"<row_{r}_col_{c}>" for r in range(1, 5) for c in range(1, 5)]
    special = [
        "<|im_start|>",
        "<|im_end|>",
        "<end_of_utterance>",
        "<fake_token_around_image>",
        "<image>",
        "<global-img>",
    ]
    tokenizer = byte_tokenizer(
        [*special, *rows],
        bos="<|im_start|>",
        eos="<end_of_utterance>",
        pad="<|im_end|>",
        size=shape.vocabulary,
    )
    vision = {**_TINY_VISION, **shape.vision}
    side = vision["image_size"]
    tokens = (side // vision["patch_size"] // shape.shuffle) ** 2
    ids = {token: tokenizer.convert_tokens_to_ids(token) for token in special}
    sizes: dict[str, Any] = {
        "vision_config": vision,
        "text_config": {
            "model_type": "llama",
            **TINY_TEXT,
            **shape.text,
            "vocab_size": len(tokenizer),
            "bos_token_id": ids["<|im_start|>"],
            "eos_token_id": ids["<end_of_utterance>"],
            "pad_token_id": ids["<|im_end|>"],
        },
        "image_token_id": ids["<image>"],
        "scale_factor": shape.shuffle,
    }
    # Larger images are split: 56 pixels on the longest edge make 2 x 2 tiles of 28 and the whole
    # image besides.
    image_sizes: dict[str, Any] = {
        "size": {"longest_edge": shape.tiles * side},
        "max_image_size": {"longest_edge": side},
    }
    if smol:
        config = transformers.SmolVLMConfig(**sizes)
        model = transformers.SmolVLMForConditionalGeneration(config)
        processor = transformers.SmolVLMProcessor(
            transformers.SmolVLMImageProcessor(**image_sizes),
            tokenizer,
            transformers.SmolVLMVideoProcessor(
                size={"longest_edge": side},
                max_image_size={"longest_edge": side},
                fps=1,
                num_frames=4,
                video_sampling={"fps": 1, "max_frames": 4, "video_size": {"longest_edge": side}},
            ),
            image_seq_len=tokens,
            chat_template=_SMOL,
        )
        return model, processor
    config = transformers.Idefics3Config(**sizes)
    processor = transformers.Idefics3Processor(
        transformers.Idefics3ImageProcessor(**image_sizes),
        tokenizer,
        image_seq_len=tokens,
        chat_template=_SMOL,
    )
    return transformers.Idefics3ForConditionalGeneration(config), processor


def _internvl(shape: Shape) -> tuple[Any, Any]:
    from transformers import (
        GotOcr2ImageProcessor,
        InternVLConfig,
        InternVLForConditionalGeneration,
        InternVLProcessor,
        InternVLVideoProcessor,
    )

    special = [
        "<|endoftext|>",
        "<|im_start|>",
        "<|im_end|>",
        "<img>",
        "</img>",
        "<IMG_CONTEXT>",
        "<video>",
    ]
    tokenizer = byte_tokenizer(
        special,
        bos=None,
        eos="<|im_end|>",
        pad="<|endoftext|>",
        extra={
            "start_image_token": "<img>",
            "end_image_token": "</img>",
            "context_image_token": "<IMG_CONTEXT>",
            "video_token": "<video>",
        },
        size=shape.vocabulary,
    )
    vision = {**_TINY_VISION, **shape.vision}
    side = vision["image_size"]
    tokens = (side // vision["patch_size"] // 2) ** 2
    config = InternVLConfig(
        vision_config={
            **vision,
            "image_size": [side, side],
            "patch_size": [vision["patch_size"]] * 2,
        },
        text_config={
            "model_type": "qwen2",
            **TINY_TEXT,
            **shape.text,
            "vocab_size": len(tokenizer),
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
        },
        image_token_id=tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>"),
        image_seq_length=tokens,
    )
    processor = InternVLProcessor(
        GotOcr2ImageProcessor(
            size={"height": side, "width": side}, crop_to_patches=True, min_patches=1, max_patches=4
        ),
        tokenizer,
        InternVLVideoProcessor(size={"height": side, "width": side}),
        image_seq_length=tokens,
        chat_template=_chatml("<IMG_CONTEXT>\n"),
    )
    return InternVLForConditionalGeneration(config), processor


def _gemma3(shape: Shape) -> tuple[Any, Any]:
    import torch
    from transformers import (
        Gemma3Config,
        Gemma3ForConditionalGeneration,
        Gemma3ImageProcessor,
        Gemma3Processor,
    )

    special = [
        "<pad>",
        "<eos>",
        "<bos>",
        "<start_of_turn>",
        "<end_of_turn>",
        "<start_of_image>",
        "<end_of_image>",
    ]
    special += ["<image_soft_token>"]
    named = {
        "boi_token": "<start_of_image>",
        "eoi_token": "<end_of_image>",
        "image_token": "<image_soft_token>",
    }
    tokenizer = byte_tokenizer(
        special,
        bos="<bos>",
        eos="<end_of_turn>",
        pad="<pad>",
        writes_bos=True,
        extra=named,
        size=shape.vocabulary,
    )
    ids = {token: tokenizer.convert_tokens_to_ids(token) for token in special}
    vision = {**_TINY_VISION, **shape.vision}
    side = vision["image_size"]
    tokens = (side // vision["patch_size"] // 2) ** 2
    config = Gemma3Config(
        vision_config={"model_type": "siglip_vision_model", **vision, "vision_use_head": False},
        text_config={
            **TINY_TEXT,
            "head_dim": 8,
            "query_pre_attn_scalar": 8,
            "sliding_window": 512,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            **shape.text,
            "vocab_size": len(tokenizer),
            "bos_token_id": ids["<bos>"],
            "eos_token_id": ids["<end_of_turn>"],
            "pad_token_id": ids["<pad>"],
        },
        mm_tokens_per_image=tokens,
        boi_token_index=ids["<start_of_image>"],
        eoi_token_index=ids["<end_of_image>"],
        image_token_index=ids["<image_soft_token>"],
    )
    processor = Gemma3Processor(
        Gemma3ImageProcessor(size={"height": side, "width": side}),
        tokenizer,
        chat_template=_GEMMA,
        image_seq_length=tokens,
    )
    model = Gemma3ForConditionalGeneration(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(
                ("post_attention_layernorm.weight", "post_feedforward_layernorm.weight")
            ):
                parameter.fill_(
                    3.0
                )  # at their start the layers add little to a token's own embedding
    return model, processor


#: Makers of a family's model and processor.
FAMILIES: dict[str, Callable[[Shape], tuple[Any, Any]]] = {
    "mllama": _mllama,
    "llava": _llava,
    "qwen2_5_vl": _qwen2_5_vl,
    "smolvlm": lambda shape: _idefics(shape, smol=True),
    "idefics3": lambda shape: _idefics(shape, smol=False),
    "internvl": _internvl,
    "gemma3": _gemma3,
}


def make_model(
    family: str | Callable[[Shape], tuple[Any, Any]],
    shape: Shape = TINY,
    *,
    seed: int = 0,
    dtype: str = "float32",
    device: str = "cpu",
    only_words: bool = False,
) -> tuple[Any, Any]:
    """Makes a network on a device, and its processor or tokenizer.

    Args:
        family: One of `FAMILIES`, or a maker of a model and its processor or tokenizer.
        shape: The sizes; by default tiny ones.
        seed: Seed of the weights.
        dtype: The weights' number format.
        device: Where the weights are drawn; the same seed draws others on another kind of device.
        only_words: Whether the model never writes a control token, so that no answer ends before
            the limit.
    """
    import torch

    torch.manual_seed(seed)
    torch.set_default_dtype(getattr(torch, dtype))
    try:
        with torch.device(device):
            model, processor = (FAMILIES[family] if isinstance(family, str) else family)(shape)
    finally:
        torch.set_default_dtype(torch.float32)
    # How many numbers are drawn while the model is made differs between versions of torch; the
    # weights must not.
    torch.manual_seed(seed)
    # Larger than at the start of a training, so that prompt and image move the answer visibly.
    spread = 0.25 * (32 / shape.text.get("hidden_size", 32)) ** 0.5
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "gate" not in name.rsplit(".", 1)[-1] and parameter.dim() > 1:
                parameter.normal_(0.0, spread)
    if only_words:
        control = [
            i for i, token in processor.tokenizer.added_tokens_decoder.items() if token.special
        ]
        model.generation_config.suppress_tokens = sorted(control)
    return model.eval(), processor


def write_checkpoint(
    family: str | Callable[[Shape], tuple[Any, Any]],
    folder: Path,
    shape: Shape = TINY,
    **settings: Any,
) -> Path:
    """Writes the checkpoint of a model with random weights and returns its folder, made if missing.

    Args:
        family: One of `FAMILIES`, or a maker of a model and its processor or tokenizer.
        folder: The folder to write.
        shape: The sizes; by default tiny ones.
        settings: As `make_model` takes them.
    """
    model, processor = make_model(family, shape, **settings)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
