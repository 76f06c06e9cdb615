"""Answers are token for token those of a plain loop in transformers, however the questions are batched and kept."""

from __future__ import annotations

import json
import random
from functools import cache

import pytest
from PIL import Image

from benchmarks.random_vlms import Shape, write_checkpoint
from taxtune.models import ModelSettings, Request, ask
from taxtune.models.vision import LocalVLM
from tests.tiny_models import EACH_FAMILY

NEW_TOKENS = 8
PROMPTS = [
    "?",
    "What is this?",
    "Wie heißt der Vogel 🐦 auf dem Bild?",
    "Name the bird, or its family. " * 5,
]


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """Gives the folder of a family's checkpoint that writes words, so that a text tells its tokens, of many lengths."""
    parent = tmp_path_factory.mktemp("words")

    @cache
    def get(family):
        folder = write_checkpoint(family, parent / family, Shape(vocabulary=4000))
        file = folder / "generation_config.json"
        config = json.loads(file.read_text())
        # Any of many tokens ends an answer: rows of a batch are done at different times.
        config["eos_token_id"] = [config["eos_token_id"], *range(300, 800)]
        file.write_text(json.dumps(config))
        return folder

    return get


def plain_loop(folder, pairs):
    """Returns text, tokens read and tokens written of each question, asked alone as a model card shows it."""
    import torch
    from transformers import AutoModelForImageTextToText, AutoProcessor

    network = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    processor = AutoProcessor.from_pretrained(folder)
    answers = []
    for prompt, image in pairs:
        content = [{"type": "image"}, {"type": "text", "text": prompt}]
        messages = [{"role": "user", "content": content}]
        text = processor.apply_chat_template(messages, add_generation_prompt=True)
        starts = text.startswith(processor.tokenizer.bos_token or "\0")
        inputs = processor(
            images=[[Image.open(image).convert("RGB")]],
            text=[text],
            add_special_tokens=not starts,
            return_tensors="pt",
        )
        read = inputs["input_ids"].shape[1]
        new = network.generate(**inputs, max_new_tokens=NEW_TOKENS, do_sample=False)[0, read:]
        answers.append((processor.decode(new, skip_special_tokens=True).strip(), read, len(new)))
    return answers


def local(folder, **settings):
    return LocalVLM(str(folder), ModelSettings(max_tokens=NEW_TOKENS, device="cpu", **settings))


def said(vlm, pairs):
    replies = ask(vlm, [Request(prompt, image) for prompt, image in pairs], None)
    return [(reply.text, reply.prompt_tokens, reply.completion_tokens) for reply in replies]


@pytest.mark.parametrize("family", EACH_FAMILY)
def test_answers_are_those_of_a_plain_loop(family, checkpoints, pictures):
    folder = checkpoints(family)
    pairs = [(prompt, image) for prompt in PROMPTS for image in pictures]
    expected = plain_loop(folder, pairs)
    texts = {text for text, _, _ in expected}
    assert len(texts) > len(pairs) // 2, "answers that are all alike show nothing"
    assert len({written for _, _, written in expected}) > 1, "answers should end at different times"
    settings = [(0, 3), (0, len(pairs)), (None, 1), (None, 3), (None, len(pairs))]
    for memory, batch_size in settings:
        vlm = local(folder, image_memory_gib=memory, batch_size=batch_size)
        # Prompt by prompt, as tuning asks; then all mixed, so that a batch holds short and long
        # questions.
        for start in range(0, len(pairs), len(pictures)):
            part = slice(start, start + len(pictures))
            assert said(vlm, pairs[part]) == expected[part], (memory, batch_size)
        order = random.Random(batch_size).sample(range(len(pairs)), len(pairs))
        replies = said(vlm, [pairs[i] for i in order])
        assert replies == [expected[i] for i in order], (memory, batch_size)
        assert vlm.not_cached is None


def test_a_sliding_window_that_is_shorter_than_a_question(tmp_path, pictures):
    """What is kept would fill the window up with padding: the plain way is taken, with the same answers."""
    narrow = Shape(vocabulary=4000, text={"sliding_window": 16})
    folder = write_checkpoint("gemma3", tmp_path / "gemma3", narrow)
    pairs = [(prompt, image) for prompt in PROMPTS[1:3] for image in pictures]
    expected = plain_loop(folder, pairs)
    assert said(local(folder, batch_size=3), pairs) == expected
