"""Tiny checkpoints with random weights of families of generative models, made from configurations alone.

    folder = make_checkpoint("mllama", tmp_path)

Each is what `save_pretrained` writes for the real model, shrunk: same classes, a processor with a chat template of the
family's form, and a tokenizer with one token a byte. Nothing is downloaded. Weights that start at zero and would hide
the image (Mllama's gates) are set to other values.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["FAMILIES", "TEXT_FAMILIES", "make_checkpoint"]

_TEXT = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
}

_LLAMA3 = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if m.role == 'system' and messages | selectattr('role', 'equalto', 'user') | list %}"
    "{{ raise_exception('no system turn beside an image') }}{% endif %}"
    "<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
    "{% for c in m.content %}{% if c.type == 'image' %}<|image|>{% else %}{{ c.text }}{% endif %}{% endfor %}<|eot_id|>"
    "{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
_LLAVA = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ m.content[0].text }} {% else %}USER: "
    "{% for c in m.content %}{% if c.type == 'image' %}<image>\n{% else %}{{ c.text }}{% endif %}{% endfor %} "
    "{% endif %}{% endfor %}{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)


def _chatml(image: str) -> str:
    return (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n"
        "{% for c in m.content %}{% if c.type == 'image' %}" + image + "{% else %}{{ c.text }}{% endif %}{% endfor %}"
        "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )


_SMOL = (
    "<|im_start|>{% for m in messages %}{{ m.role | capitalize }}"
    "{% if m.content[0].type == 'image' %}:{% else %}: {% endif %}"
    "{% for c in m.content %}{% if c.type == 'image' %}<image>{% else %}{{ c.text }}{% endif %}{% endfor %}"
    "<end_of_utterance>\n{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}"
)


def _tokenizer(
    special: list[str],
    *,
    bos: str | None,
    eos: str,
    pad: str | None,
    writes_bos: bool = False,
    extra: dict[str, str] | None = None,
) -> Any:
    """A tokenizer with a token a byte and the family's control tokens."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE(vocab={character: i for i, character in enumerate(alphabet)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
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


def _mllama() -> tuple[Any, Any]:
    import torch
    from transformers import MllamaConfig, MllamaForConditionalGeneration, MllamaImageProcessor, MllamaProcessor

    special = [
        "<|begin_of_text|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|eot_id|>",
        "<|finetune_right_pad_id|>",
    ]
    special += ["<|python_tag|>", "<|image|>"]
    tokenizer = _tokenizer(special, bos=special[0], eos="<|eot_id|>", pad="<|finetune_right_pad_id|>", writes_bos=True)
    ids = {token: tokenizer.convert_tokens_to_ids(token) for token in special}
    # As in the real checkpoint, the image token has a row in the embeddings and none among the outputs.
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
        },
        text_config={
            **_TEXT,
            "vocab_size": vocabulary,
            "cross_attention_layers": [1],
            "rope_scaling": {"rope_type": "default"},
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
    images = MllamaImageProcessor(size={"height": 28, "width": 28}, max_image_tiles=4)
    return model, MllamaProcessor(images, tokenizer, chat_template=_LLAMA3)


def _llava() -> tuple[Any, Any]:
    from transformers import (
        CLIPImageProcessor,
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
    )

    tokenizer = _tokenizer(["<s>", "</s>", "<pad>", "<image>"], bos="<s>", eos="</s>", pad="<pad>", writes_bos=True)
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            image_size=28,
            patch_size=7,
        ),
        text_config=LlamaConfig(
            **_TEXT, vocab_size=len(tokenizer), bos_token_id=256, eos_token_id=257, pad_token_id=258
        ),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        image_seq_length=16,
    )
    images = CLIPImageProcessor(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28})
    processor = LlavaProcessor(
        images,
        tokenizer,
        patch_size=7,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=_LLAVA,
    )
    return LlavaForConditionalGeneration(config), processor


def _qwen2_5_vl() -> tuple[Any, Any]:
    from tokenizers import pre_tokenizers
    from transformers import (
        Qwen2_5_VLConfig,
        Qwen2_5_VLForConditionalGeneration,
        Qwen2_5_VLProcessor,
        Qwen2Tokenizer,
        Qwen2VLImageProcessor,
        Qwen2VLVideoProcessor,
    )

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>"]
    special += ["<|image_pad|>", "<|video_pad|>"]
    vocabulary = {token: i for i, token in enumerate([*alphabet, *special])}
    ends = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    try:
        tokenizer = Qwen2Tokenizer(vocab=vocabulary, merges=[], **ends)
    except TypeError:  # before transformers 5 the class read files, and its fast twin took the core
        from transformers import Qwen2TokenizerFast

        core = _tokenizer(special, bos=None, eos="<|im_end|>", pad="<|endoftext|>").backend_tokenizer
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
        },
        text_config={
            **_TEXT,
            "vocab_size": len(vocabulary),
            "rope_scaling": {"rope_type": "default", "mrope_section": [1, 1, 2]},
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
        Qwen2VLImageProcessor(min_pixels=56 * 56, max_pixels=112 * 112),
        tokenizer,
        Qwen2VLVideoProcessor(),
        chat_template=_chatml("<|vision_start|><|image_pad|><|vision_end|>"),
    )
    return Qwen2_5_VLForConditionalGeneration(config), processor


def _idefics(*, smol: bool) -> tuple[Any, Any]:
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
    tokenizer = _tokenizer([*special, *rows], bos="<|im_start|>", eos="<end_of_utterance>", pad="<|im_end|>")
    ids = {token: tokenizer.convert_tokens_to_ids(token) for token in special}
    sizes: dict[str, Any] = {
        "vision_config": {
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": 28,
            "patch_size": 7,
        },
        "text_config": {
            "model_type": "llama",
            **_TEXT,
            "vocab_size": len(tokenizer),
            "bos_token_id": ids["<|im_start|>"],
            "eos_token_id": ids["<end_of_utterance>"],
            "pad_token_id": ids["<|im_end|>"],
        },
        "image_token_id": ids["<image>"],
        "scale_factor": 2,
    }
    # Larger images are split: 56 pixels on the longest edge make 2 x 2 tiles of 28 and the whole image besides.
    image_sizes: dict[str, Any] = {"size": {"longest_edge": 56}, "max_image_size": {"longest_edge": 28}}
    if smol:
        config = transformers.SmolVLMConfig(**sizes)
        model = transformers.SmolVLMForConditionalGeneration(config)
        processor = transformers.SmolVLMProcessor(
            transformers.SmolVLMImageProcessor(**image_sizes),
            tokenizer,
            transformers.SmolVLMVideoProcessor(
                size={"longest_edge": 28},
                max_image_size={"longest_edge": 28},
                fps=1,
                num_frames=4,
                video_sampling={"fps": 1, "max_frames": 4, "video_size": {"longest_edge": 28}},
            ),
            image_seq_len=4,
            chat_template=_SMOL,
        )
        return model, processor
    config = transformers.Idefics3Config(**sizes)
    processor = transformers.Idefics3Processor(
        transformers.Idefics3ImageProcessor(**image_sizes), tokenizer, image_seq_len=4, chat_template=_SMOL
    )
    return transformers.Idefics3ForConditionalGeneration(config), processor


def _internvl() -> tuple[Any, Any]:
    from transformers import (
        GotOcr2ImageProcessor,
        InternVLConfig,
        InternVLForConditionalGeneration,
        InternVLProcessor,
        InternVLVideoProcessor,
    )

    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<img>", "</img>", "<IMG_CONTEXT>", "<video>"]
    tokenizer = _tokenizer(
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
    )
    config = InternVLConfig(
        vision_config={
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": [28, 28],
            "patch_size": [7, 7],
        },
        text_config={
            "model_type": "qwen2",
            **_TEXT,
            "vocab_size": len(tokenizer),
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
        },
        image_token_id=tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>"),
        image_seq_length=4,
    )
    processor = InternVLProcessor(
        GotOcr2ImageProcessor(size={"height": 28, "width": 28}, crop_to_patches=True, min_patches=1, max_patches=4),
        tokenizer,
        InternVLVideoProcessor(size={"height": 28, "width": 28}),
        image_seq_length=4,
        chat_template=_chatml("<IMG_CONTEXT>\n"),
    )
    return InternVLForConditionalGeneration(config), processor


def _llama() -> tuple[Any, Any]:
    from transformers import LlamaConfig, LlamaForCausalLM

    special = ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|pad|>"]
    tokenizer = _tokenizer(special, bos=special[0], eos="<|eot_id|>", pad="<|pad|>", writes_bos=True)
    tokenizer.chat_template = (
        "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
        "{{ m.content }}<|eot_id|>{% endfor %}"
        "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
    )
    ids = {token: tokenizer.convert_tokens_to_ids(token) for token in special}
    config = LlamaConfig(
        **{**_TEXT, "max_position_embeddings": 2048},
        vocab_size=len(tokenizer),
        bos_token_id=ids["<|begin_of_text|>"],
        eos_token_id=ids["<|eot_id|>"],
        pad_token_id=ids["<|pad|>"],
    )
    return LlamaForCausalLM(config), tokenizer


def _t5() -> tuple[Any, Any]:
    from transformers import T5Config, T5ForConditionalGeneration

    tokenizer = _tokenizer(["<pad>", "</s>"], bos=None, eos="</s>", pad="<pad>")
    pad, end = tokenizer.convert_tokens_to_ids(["<pad>", "</s>"])
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    config = T5Config(
        vocab_size=len(tokenizer), **sizes, pad_token_id=pad, eos_token_id=end, decoder_start_token_id=pad
    )
    return T5ForConditionalGeneration(config), tokenizer


#: Makers of the families' tiny model and processor.
FAMILIES: dict[str, Callable[[], tuple[Any, Any]]] = {
    "mllama": _mllama,
    "llava": _llava,
    "qwen2_5_vl": _qwen2_5_vl,
    "smolvlm": lambda: _idefics(smol=True),
    "idefics3": lambda: _idefics(smol=False),
    "internvl": _internvl,
}
#: The same of language models: one with a chat template, one without.
TEXT_FAMILIES: dict[str, Callable[[], tuple[Any, Any]]] = {"llama": _llama, "t5": _t5}


def make_checkpoint(family: str, parent: Path, *, seed: int = 0) -> Path:
    """Writes a tiny checkpoint of a family and returns its folder."""
    import torch

    folder = parent / f"tiny-{family}-{seed}"
    torch.manual_seed(seed)
    model, processor = (FAMILIES | TEXT_FAMILIES)[family]()
    # How many numbers are drawn while the model is made differs between versions of torch; the weights must not.
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "gate" not in name.rsplit(".", 1)[-1] and parameter.dim() > 1:
                # Larger than at the start of a training, so that prompt and image move the answer visibly.
                parameter.normal_(0.0, 0.25)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
