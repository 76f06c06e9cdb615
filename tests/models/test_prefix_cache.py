from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from taxtune.models import ModelSettings
from taxtune.models.prefix_cache import ImageFeatureCache, KeyValueCache, Uncacheable
from taxtune.models.vision import LocalVLM
from taxtune.progress import showing
from tests.displays import Recorder
from tests.tiny_models import EACH_FAMILY

# What the installed transformers has given another name is called by that.
pytestmark = pytest.mark.filterwarnings("error:.*(past_key_values|cache_params)")

PROMPTS = [
    "Bird?",
    "Name the bird in the picture, or only its family where you are unsure.",
    "What is it? " * 6,
]


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Pictures of several sizes: one tile and several, tall and wide."""
    folder = tmp_path_factory.mktemp("shapes")
    files = []
    for number, shape in enumerate([(28, 28), (112, 40), (40, 112), (90, 90), (60, 30)]):
        picture = Image.new("RGB", shape, (40 * number, 200 - 30 * number, 90))
        ImageDraw.Draw(picture).ellipse((5, 5, 20 + 3 * number, 20), fill=(250, 20 * number, 10))
        files.append(folder / f"{number}.png")
        picture.save(files[-1])
    return files


def local(folder, **settings):
    return LocalVLM(str(folder), ModelSettings(device="cpu", **{"max_tokens": 10, **settings}))


def said(vlm, questions):
    """Text, tokens read and tokens written of each answer."""
    replies = vlm.answer(questions)
    return [(reply.text, reply.prompt_tokens, reply.completion_tokens) for reply in replies]


def count_encodings(vlm, monkeypatch):
    """Returns a list that grows by one at each image that the network reads to keep it."""
    read = []
    encode = vlm._prefix_cache.encode

    def counted(inputs):
        read.append(len(inputs["input_ids"]))
        return encode(inputs)

    monkeypatch.setattr(vlm._prefix_cache, "encode", counted)
    return read


@pytest.fixture
def questions(images, request_for):
    return [request_for(prompt, image) for prompt in PROMPTS for image in images]


@pytest.mark.parametrize("family", EACH_FAMILY)
def test_answers_are_those_from_pixels(family, checkpoints, images, questions):
    plain = said(local(checkpoints(family), image_memory_gib=0, batch_size=1), questions)
    distinct = {text for text, _, _ in plain}
    assert len(distinct) > len(questions) // 2, "answers that are all alike show nothing"
    for batch_size in (1, 4, 15):
        vlm = local(checkpoints(family), batch_size=batch_size)
        assert said(vlm, questions) == plain
        assert said(vlm, questions[::-1]) == plain[::-1], "now all from the cache"
        assert vlm.not_cached is None
        assert len(vlm._cache) == len(images)


@pytest.mark.parametrize("family", ["mllama", "qwen2_5_vl"])
def test_an_image_is_read_once_whatever_is_asked(
    family, checkpoints, images, questions, monkeypatch
):
    vlm = local(checkpoints(family), batch_size=4)
    read = count_encodings(vlm, monkeypatch)
    for start in range(0, len(questions), len(images)):
        said(vlm, questions[start : start + len(images)])
    assert len(read) == len(images)


def test_an_image_is_prepared_once_for_all_prompts_that_are_asked_together(
    checkpoints, images, questions, monkeypatch
):
    vlm = local(checkpoints("mllama"), batch_size=4)
    shown = []
    process = vlm._process

    def counted(texts, pictures):
        shown.extend(str(picture.size) for picture in pictures if picture.size != (64, 64))
        return process(texts, pictures)

    monkeypatch.setattr(vlm, "_process", counted)
    vlm._parity_checked = True  # the comparison with the plain way reads two images more
    first = said(vlm, questions)
    assert len(shown) == len(images)
    assert first == said(vlm, questions)
    assert len(shown) == len(images)


def wrong(features):
    return {**features, "keys": features["keys"] * 2}


def refused(features):
    raise Uncacheable("its layers are of another kind")


def lost(features):
    return {}


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (wrong, "would not be those of the plain way"),
        (refused, "of another kind"),
        (lost, "KeyError|ValueError"),
    ],
)
def test_where_features_cannot_be_cached_pixels_are_read_and_a_note_says_so(
    fault, reason, checkpoints, questions, monkeypatch
):
    plain = said(local(checkpoints("llava"), image_memory_gib=0), questions)
    vlm = local(checkpoints("llava"), batch_size=4)
    encode = vlm._prefix_cache.encode
    monkeypatch.setattr(vlm._prefix_cache, "encode", lambda inputs: fault(encode(inputs)))
    with showing(Recorder()) as display:
        assert said(vlm, questions) == plain
    assert vlm.not_cached is not None
    [note] = display.notes
    assert "encodes every image again" in note
    assert re.search(reason, note)


def test_a_want_of_memory_halves_the_batch_and_loses_nothing(checkpoints, questions, monkeypatch):
    vlm = local(checkpoints("mllama"), batch_size=8)
    expected = said(vlm, questions)
    inputs = vlm._prefix_cache.inputs

    def tight(texts, features, more):
        if len(texts) > 2:
            raise RuntimeError("CUDA out of memory. Tried to allocate")
        return inputs(texts, features, more)

    monkeypatch.setattr(vlm._prefix_cache, "inputs", tight)
    assert said(vlm, questions) == expected
    assert vlm.batch_size == 2
    assert vlm.not_cached is None


# -- what is kept ------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 9), max_size=80), st.integers(1, 6))
def test_images_are_kept_as_far_as_the_limit_goes(wanted, room):
    import torch

    cache = ImageFeatureCache(room * torch.zeros(100).nbytes)
    for number in wanted:
        found = cache.get(str(number))
        assert found is None or float(found["states"][0]) == number
        if found is None:
            cache.put(str(number), {"states": torch.full((100,), float(number))})
    first = list(dict.fromkeys(wanted))[:room]
    assert len(cache) == len(first)
    assert all(str(number) in cache for number in first)


@pytest.mark.parametrize(
    ("forward", "name"),
    [
        (lambda input_ids, past_key_values=None: None, "past_key_values"),
        (lambda input_ids, cache=None: None, "cache"),
        (lambda **rest: None, "cache"),
    ],
    ids=["before 5.2x", "since", "passed on"],
)
def test_the_cache_has_the_name_that_the_network_knows(forward, name):
    network = SimpleNamespace(forward=forward, config=SimpleNamespace(is_encoder_decoder=False))
    made = KeyValueCache(network=network, image_token=1, pad_token=0, room=8, ids=list)
    assert made.cache_name == name
