"""What models that run here have in common, be they asked about images or not."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import replace

import pytest
from pydantic import ValidationError

from taxtune.errors import ModelError, TaxtuneError
from taxtune.models import ModelSettings, Request, checkpoint, local, make_model
from taxtune.models.local import LocalModel
from tests.models.replies import texts
from tests.tiny_models import TEXT_FAMILIES, Shape, make_checkpoint

Make = Callable[..., LocalModel]


@pytest.fixture(params=["llava", "llama"])
def family(request):
    return str(request.param)


@pytest.fixture
def requests(family, pictures):
    images = [None] if family in TEXT_FAMILIES else pictures
    return [Request(f"Bird {i}?", images[i % len(images)]) for i in range(7)]


@pytest.fixture
def task(family):
    return "text-generation" if family in TEXT_FAMILIES else "image-text-to-text"


@pytest.fixture
def make(family, task, checkpoints):
    """Makes a model of the family, or of a folder, with settings."""

    def made(folder=None, **settings):
        defaults = {"task": task, "max_tokens": 6, "device": "cpu"}
        name = f"local:{folder or checkpoints(family)}"
        return make_model(name, ModelSettings(**{**defaults, **settings}))

    return made


def test_the_identity_pins_weights_and_decoding(make, family, checkpoints, tmp_path):
    folder = tmp_path / checkpoints(family).name
    shutil.copytree(checkpoints(family), folder)
    base = make(folder).identity
    assert base == make().identity, "the place of a folder is no part of the model"
    assert str(base["revision"]).startswith("sha256:")
    assert (base["dtype"], base["device"]) == ("float32", "cpu")
    for settings in ({"max_tokens": 5}, {"temperature": 0.7}, {"dtype": "bfloat16"}):
        assert make(folder, **settings).identity != base
    assert make(folder, temperature=0.7, seed=1).identity != make(folder, temperature=0.7).identity
    assert make(folder, seed=1, batch_size=2).identity == base
    weights = folder / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    assert make(folder).identity["revision"] != base["revision"]


@pytest.mark.heavy
def test_out_of_memory_halves_the_batch(make, requests, monkeypatch):
    import torch
    from transformers import GenerationMixin

    model = make(batch_size=8)
    expected = texts(model.answer(requests))
    real = GenerationMixin.generate
    sizes = []

    def tight(network, **inputs):
        sizes.append(len(inputs["input_ids"]))
        if sizes[-1] > 2:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory.")
        return real(network, **inputs)

    monkeypatch.setattr(GenerationMixin, "generate", tight)
    assert texts(model.answer(requests)) == expected
    assert sizes == [7, 3, 1, 1, 1, 1, 1, 1, 1]
    assert model.batch_size == 1


def of_lengths(requests, lengths):
    """Requests with prompts of so many characters, one token each, and no two alike."""
    made = []
    for i, length in enumerate(lengths):
        prompt = f"{i:02}".ljust(length, "?")
        made.append(replace(requests[i % len(requests)], prompt=prompt))
    return made


@pytest.fixture
def batches(monkeypatch):
    """The tokens read of each row, batch by batch, as the network is given them."""
    real = LocalModel._generate
    seen = []

    def noted(model, inputs, requests):
        seen.append(inputs["attention_mask"].sum(dim=1).tolist())
        return real(model, inputs, requests)

    monkeypatch.setattr(LocalModel, "_generate", noted)
    return seen


@pytest.mark.parametrize("family", ["llava", "llama", "t5"], indirect=True)
@pytest.mark.parametrize(("temperature", "batch_size"), [(0.0, 1), (0.0, 4), (0.8, 3), (0.8, 32)])
def test_an_answer_depends_neither_on_its_batch_nor_on_the_order(
    make, requests, temperature, batch_size
):
    asked = of_lengths(requests, [5, 90, 17, 40, 2, 61, 5, 33, 90, 12])
    asked += [replace(request, sample=1) for request in asked[:3]]
    expected = dict(zip(asked, texts(make(temperature=temperature).answer(asked)), strict=True))
    assert len(set(expected.values())) > 5
    for seed in range(2):
        shuffled = random.Random(seed).sample(asked, len(asked))
        model = make(temperature=temperature, batch_size=batch_size)
        assert texts(model.answer(shuffled)) == [expected[request] for request in shuffled]


def test_a_batch_ends_where_it_would_be_mostly_padding(make, requests, batches):
    model = make(batch_size=8, max_tokens=1)
    model.answer(of_lengths(requests, [10, 900, 800, 20, 10, 850]))
    assert [len(batch) for batch in batches] == [3, 3]


def test_three_batches_at_most_are_in_memory_and_a_closed_stream_prepares_no_more(
    make, requests, monkeypatch
):
    model = make(batch_size=3)
    asked = of_lengths(requests, [20] * 40)
    real = model._prepare
    prepared = []

    def noted(request):
        prepared.append(request)
        return real(request)

    monkeypatch.setattr(model, "_prepare", noted)
    stream = model.stream(asked)
    for answered in range(1, 20):
        next(stream)
        assert len(prepared) - answered <= 3 * 3
    stream.close()
    done = len(prepared)
    assert done <= 19 + 3 * 3
    assert texts(model.answer(asked[:2]))
    assert len(prepared) == done + 2


def test_accelerate_may_place_the_layers(make, requests):
    pytest.importorskip("accelerate")
    plain = make()
    spread = make(device="auto", device_map="auto")
    if spread.device != "cpu":
        pytest.skip("answers of a CPU and a GPU may differ")
    assert texts(spread.answer(requests)) == texts(plain.answer(requests))
    assert spread.identity == plain.identity


@pytest.mark.parametrize("quantization", ["4bit", "8bit"])
def test_weights_in_fewer_bits(make, family, requests, quantization, tmp_path):
    from torch.nn import Parameter

    pytest.importorskip("bitsandbytes")
    if quantization == "4bit" and family != "llama":
        pytest.skip(
            "bitsandbytes takes layers on a CPU whose width 64 divides, which the tiny vision tower's does not"
        )
    shape = Shape(text={"hidden_size": 64, "intermediate_size": 64})
    folder = make_checkpoint(family, tmp_path, shape)
    small = make(folder, quantization=quantization, max_tokens=4)
    assert small.check() == []
    assert small.identity == {**make(folder, max_tokens=4).identity, "quantization": quantization}
    texts(small.answer(requests))
    assert {type(weights) for weights in small._network.parameters()} > {Parameter}


@pytest.mark.parametrize(
    ("settings", "missing", "message"),
    [
        ({"quantization": "4bit"}, "bitsandbytes", r"4bit needs the package .*\.\[quantized\]"),
        ({"device_map": "auto"}, "accelerate", r"device_map: auto needs .*\.\[sharded\]"),
    ],
)
def test_what_the_weights_need_is_missed_before_they_are_loaded(
    make,
    monkeypatch,
    settings,
    missing,
    message,
):
    def find_spec(package):
        return None if package == missing else object()

    monkeypatch.setattr(local, "find_spec", find_spec)
    monkeypatch.setattr(checkpoint, "find_spec", find_spec)
    with pytest.raises(TaxtuneError, match=message):
        make(**{"device": "auto", **settings}).check()


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (
            "MPS backend out of memory",
            "does not fit into the memory of the device 'cpu' with a single prompt",
        ),
        ("device-side assert triggered", "failed while generating: device-side assert"),
    ],
)
def test_what_the_network_cannot_do_ends_the_work(make, requests, monkeypatch, fault, message):
    from transformers import GenerationMixin

    model = make()

    def fail(*_, **__):
        raise RuntimeError(fault)

    monkeypatch.setattr(GenerationMixin, "generate", fail)
    with pytest.raises(ModelError, match=message):
        model.answer(requests[:1])


OUT_OF_RANGE = {
    "dtype": "int8",
    "batch_size": 0,
    "concurrency": "all",
    "max_tokens": 0,
    "quantization": "2bit",
    "device_map": "cuda",
    "temperature": -1.0,
    "image_memory_gib": float("nan"),
}


@pytest.mark.parametrize(("key", "value"), OUT_OF_RANGE.items())
def test_settings_out_of_range_are_refused(key, value):
    with pytest.raises(ValidationError, match=key):
        ModelSettings(**{key: value})


def test_a_model_is_not_asked_what_it_cannot_read(make, family, pictures):
    is_text = family in TEXT_FAMILIES
    [reply] = make().answer([Request("Bird?", pictures[0] if is_text else None)])
    assert ("takes only text" if is_text else "the request has no image") in reply.reason
