"""Answers are token for token those of a plain loop in transformers, however the questions are batched and kept."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from benchmarks.random_vlms import Shape, write_checkpoint
from taxtune.models import Answer, ModelSettings, Request, ask
from taxtune.models.vision import LocalVLM
from tests.tiny_models import EACH_FAMILY

Checkpoints = Callable[[str], Path]

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
    parent, made = tmp_path_factory.mktemp("words"), dict[str, Path]()

    def get(family):
        if family not in made:
            folder = made[family] = write_checkpoint(
                family, parent / family, Shape(vocabulary=4000)
            )
            file = folder / "generation_config.json"
            config = json.loads(file.read_text())
            # Any of many tokens ends an answer: rows of a batch are done at different times.
            config["eos_token_id"] = [config["eos_token_id"], *range(300, 800)]
            file.write_text(json.dumps(config))
        return made[family]

    return get


def plain_loop(folder, pairs):
    """Returns text, tokens read and tokens written of each question, asked alone as a model card shows it."""
    import torch
    from transformers import AutoModelForImageTextToText, AutoProcessor

    network = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    processor = AutoProcessor.from_pretrained(folder)
    answers = []
    for prompt, image in pairs:
        messages = [
            {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": prompt}]}
        ]
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
    assert all(isinstance(reply, Answer) for reply in replies), replies
    return [
        (r.text, r.prompt_tokens, r.completion_tokens) for r in replies if isinstance(r, Answer)
    ]


@pytest.mark.parametrize("family", EACH_FAMILY)
def test_answers_are_those_of_a_plain_loop(family, checkpoints, pictures):
    folder = checkpoints(family)
    pairs = [(prompt, image) for prompt in PROMPTS for image in pictures]
    expected = plain_loop(folder, pairs)
    texts = {text for text, _, _ in expected}
    assert len(texts) > len(pairs) // 2, "answers that are all alike show nothing"
    assert len({written for _, _, written in expected}) > 1, "answers should end at different times"
    for memory, batch_sizes in ((0, (3, len(pairs))), (None, (1, 3, len(pairs)))):
        for batch_size in batch_sizes:
            vlm = local(folder, image_memory_gib=memory, batch_size=batch_size)
            # Prompt by prompt, as tuning asks; then all mixed, so that a batch holds short and long questions.
            per_prompt = len(pictures)
            for start in range(0, len(pairs), per_prompt):
                part = slice(start, start + per_prompt)
                assert said(vlm, pairs[part]) == expected[part], (memory, batch_size)
            order = random.Random(batch_size).sample(range(len(pairs)), len(pairs))
            assert said(vlm, [pairs[i] for i in order]) == [expected[i] for i in order], (
                memory,
                batch_size,
            )
            assert vlm.not_cached is None


def test_a_sliding_window_that_is_shorter_than_a_question(tmp_path, pictures):
    """What is kept would fill the window up with padding: the plain way is taken, with the same answers."""
    narrow = Shape(vocabulary=4000, text={"sliding_window": 16})
    folder = write_checkpoint("gemma3", tmp_path / "gemma3", narrow)
    pairs = [(prompt, image) for prompt in PROMPTS[1:3] for image in pictures]
    expected = plain_loop(folder, pairs)
    assert said(local(folder, batch_size=3), pairs) == expected
