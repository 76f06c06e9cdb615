"""The tokenizer and the processor of the embedded model.

Byte-level BPE over lower-cased text, so that no prompt is out of reach; names of birds are whole
tokens that keep their capitals, so that an answer takes a handful of steps.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fieldguide.architecture import IMAGE_SIZE
from fieldguide.species import all_species, families, orders, root_names

__all__ = ["BOS", "CHAT_TEMPLATE", "EOS", "IMAGE", "PAD", "build_processor", "build_tokenizer"]

BOS = "<|begin_of_text|>"
EOS = "<|eot_id|>"
PAD = "<|finetune_right_pad_id|>"
IMAGE = "<|image|>"
_SYSTEM = "<|system|>"
_USER = "<|user|>"
_ASSISTANT = "<|assistant|>"
_PYTHON = "<|python_tag|>"

#: Renders turns as Llama's own template does: system text, then the user's image and text, then the
#: assistant's turn.
CHAT_TEMPLATE = (
    "{{- bos_token }}"
    "{%- for message in messages %}"
    "{{- '<|' + message['role'] + '|>' }}"
    "{%- if message['content'] is string %}{{- message['content'] }}"
    "{%- else %}{%- for part in message['content'] %}"
    "{%- if part['type'] == 'image' or part['type'] == 'image_url' %}{{- '<|image|>' }}"
    "{%- elif part['type'] == 'text' %}{{- part['text'] }}{%- endif %}"
    "{%- endfor %}{%- endif %}"
    "{%- if message['role'] == 'assistant' %}{{- '<|eot_id|>' }}{%- endif %}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}"
)


def _whole_names() -> list[str]:
    names = [root_names()[0], *orders(), *families()]
    for bird in all_species():
        names += [bird.label, bird.names[0]]
    return list(dict.fromkeys(names))


def build_tokenizer(texts: Iterable[str], *, size: int, pieces: int = 0) -> Any:
    """Learns the tokenizer.

    Args:
        texts: Prompts and answers to learn the pieces from.
        size: How many tokens the model can write; the image token comes on top.
        pieces: The longest piece, in characters, of a tokenizer that keeps capitals and has no name
            as a whole token, as those of released models do; 0 for one of whole names.

    Returns:
        A `transformers.PreTrainedTokenizerFast` of `size` + 1 tokens, padding on the left.
    """
    from tokenizers import (
        AddedToken,
        Tokenizer,
        decoders,
        models,
        normalizers,
        pre_tokenizers,
        trainers,
    )
    from transformers import PreTrainedTokenizerFast

    special = [BOS, EOS, PAD, _SYSTEM, _USER, _ASSISTANT, _PYTHON]
    # "A:", "Answer:" and "This is" keep their capitals too.
    names = [] if pieces else ["A:", "Answer:", "This is", *_whole_names()]
    whole = [AddedToken(text, normalized=False, single_word=True) for text in names]
    tokenizer = Tokenizer(models.BPE())
    lower = [] if pieces else [normalizers.Lowercase()]
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), *lower])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    learnt = size - len(special) - len(whole)
    trainer = trainers.BpeTrainer(
        vocab_size=learnt,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        max_token_length=pieces or None,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    if tokenizer.get_vocab_size() != learnt:
        raise ValueError(f"too little text for {size} tokens")
    tokenizer.add_special_tokens(
        [AddedToken(text, normalized=False, special=True) for text in special]
    )
    tokenizer.add_tokens(whole)
    tokenizer.add_special_tokens([AddedToken(IMAGE, normalized=False, special=True)])
    if tokenizer.token_to_id(IMAGE) != size:
        raise ValueError("two tokens have the same text")
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BOS,
        eos_token=EOS,
        pad_token=PAD,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=2048,
        model_input_names=["input_ids", "attention_mask"],
    )


def build_processor(tokenizer: Any) -> Any:
    """Puts the tokenizer together with the image processor of Llama 3.2 Vision, set to one small tile.

    Returns:
        A `transformers.MllamaProcessor`.
    """
    from transformers import MllamaImageProcessor, MllamaProcessor

    side = {"height": IMAGE_SIZE, "width": IMAGE_SIZE}
    half = [0.5, 0.5, 0.5]
    images = MllamaImageProcessor(size=side, max_image_tiles=1, image_mean=half, image_std=half)
    return MllamaProcessor(image_processor=images, tokenizer=tokenizer, chat_template=CHAT_TEMPLATE)
