from __future__ import annotations

import shutil
from dataclasses import replace
from functools import cache

import pytest
from PIL import Image

from taxtune.errors import ModelError
from taxtune.models import Answer, ModelSettings, Request
from taxtune.models.vision import LocalVLM
from tests.models.replies import texts


def local(folder, **settings):
    return LocalVLM(str(folder), ModelSettings(**settings))


@pytest.fixture(scope="module")
def models(checkpoints):
    @cache
    def get(family):
        return local(checkpoints(family), batch_size=8, max_tokens=10, device="cpu")

    return get


def test_tokens_are_counted_and_only_the_answer_is_decoded(models, pictures, request_for):
    questions = [request_for(prompt, pictures[0]) for prompt in ("Bird?", "Bird? " * 20)]
    short, long = models("llava").answer(questions)
    # One token a byte: 5 bytes against 120, whatever the padding.
    assert long.prompt_tokens - short.prompt_tokens == 115
    assert 1 <= short.completion_tokens <= 10
    assert "Bird?" not in short.text


def test_greedy_answers_repeat_and_sampling_follows_its_seed(checkpoints, pictures, request_for):
    import torch

    questions = [request_for("Bird?", image) for image in pictures]

    def made(**settings):
        return local(checkpoints("llava"), max_tokens=10, **settings)

    def answers(vlm):
        return texts(vlm.answer(questions))

    assert answers(made()) == answers(made())
    drawing = made(temperature=1.0, seed=1)
    first = answers(drawing)
    state = torch.random.get_rng_state()
    assert answers(drawing) == first
    # Sampling must not touch the caller's random numbers.
    assert torch.equal(torch.random.get_rng_state(), state)
    assert answers(made(temperature=1.0, seed=1)) == first
    assert answers(made(temperature=1.0, seed=2)) != first
    again = [replace(question, sample=1) for question in questions]
    assert texts(drawing.answer(again)) != first


def test_a_template_that_prints_the_date_prints_the_same_one_every_day(checkpoints, tmp_path):
    folder = tmp_path / "dated"
    shutil.copytree(checkpoints("mllama"), folder)
    template = folder / "chat_template.jinja"
    body = template.read_text()
    today = (
        "{% if date_string is not defined %}{% set date_string = strftime_now('%d') %}{% endif %}"
    )
    template.write_text(f"{today}Today: {{{{ date_string }}}}\n{body}")
    assert local(folder)._chat("Bird?").startswith("Today: 26 Jul 2024\n")


# -- what can go wrong -------------------------------------------------------------------------------------------------


def test_a_changed_or_lost_image_fails_alone(checkpoints, pictures, request_for, tmp_path):
    vlm = local(checkpoints("llava"), max_tokens=10)
    changed = shutil.copy(pictures[0], tmp_path / "changed.png")
    stale = request_for("Bird?", changed)
    shutil.copy(pictures[1], changed)
    lost = Request("Bird?", tmp_path / "lost.png", "0" * 64)
    first, second = (request_for("Bird?", picture) for picture in pictures[1:3])
    of_stale, of_first, of_lost, of_second = vlm.answer([stale, first, lost, second])
    assert "changed.png: The image has changed" in of_stale.reason
    assert "lost.png: The image file does not exist" in of_lost.reason
    assert texts(vlm.answer([first])) == texts([of_first])
    # The features of an image that was lost since are cached, and so it can still be asked about.
    assert texts(vlm.answer([replace(second, image=lost.image)])) == texts([of_second])


def test_a_control_token_in_the_prompt_fails_alone(models, pictures, request_for):
    prompts = ["Bird?", "Bird? <image>", "Bird?</s>", "What?"]
    replies = models("llava").answer([request_for(p, pictures[0]) for p in prompts])
    assert [isinstance(r, Answer) for r in replies] == [True, False, False, True]
    assert "control token '<image>'" in replies[1].reason
    assert not replies[1].retryable


@pytest.mark.parametrize(
    ("family", "token"),
    [
        ("mllama", "<|start_header_id|>"),
        ("smolvlm", "<row_1_col_2>"),
        ("qwen2_5_vl", "<|im_start|>"),
    ],
)
def test_control_tokens_beyond_the_named_ones_are_known(family, token, models, pictures):
    [reply] = models(family).answer([Request(f"Bird? {token} yes", pictures[0])])
    assert f"control token {token!r}" in reply.reason


def test_what_only_resembles_a_control_token_is_text(models):
    assert "a < b > c" in models("mllama")._chat("a < b > c")


def test_an_image_that_the_processor_refuses_fails_alone(models, pictures, request_for, tmp_path):
    strip = tmp_path / "strip.png"
    # Qwen's processor takes no sides of more than 200 to 1.
    Image.new("RGB", (8 * 250, 8)).save(strip)
    questions = [request_for("Bird?", image) for image in (pictures[0], strip, pictures[1])]
    replies = models("qwen2_5_vl").answer(questions)
    assert [isinstance(r, Answer) for r in replies] == [True, False, True]
    assert "strip.png" in replies[1].reason


def test_a_checkpoint_without_a_chat_template_is_refused(
    checkpoints, pictures, request_for, tmp_path
):
    folder = tmp_path / "base"
    shutil.copytree(checkpoints("mllama"), folder)
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(ModelError, match="has no chat template"):
        local(folder).answer([request_for("Bird?", pictures[0])])
