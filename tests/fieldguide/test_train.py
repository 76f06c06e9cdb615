from __future__ import annotations

from dataclasses import replace

import pytest

from fieldguide.phrasing import BASELINE
from fieldguide.train import Settings, main, train
from taxtune.errors import TaxtuneError

_TINY = Settings(
    see=64, epochs=1, listen=64, steps=2, prompts=600, vocabulary=400, workers=1, threads=1
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("train")
    said = []
    return (
        train(folder / "model", _TINY, work=folder / "work", say=said.append),
        folder / "work",
        said,
    )


@pytest.mark.heavy
def test_a_few_steps_make_a_model_that_loads_and_answers(trained, tmp_path):
    from fieldguide.draw import make_dataset
    from taxtune.models import Answer, ModelSettings, Request, make_model

    out, _, said = trained
    assert any("listening: step 2/2" in line for line in said)
    images = sorted((make_dataset(tmp_path / "birds", n=2, seed=1, size=64) / "images").iterdir())
    replies = make_model(f"local:{out}", ModelSettings(max_tokens=3)).answer(
        [Request(BASELINE, image) for image in images]
    )
    assert all(isinstance(reply, Answer) for reply in replies)


@pytest.mark.heavy
def test_training_is_a_function_of_the_seed(trained, tmp_path):
    out, work, _ = trained
    notes = []
    again = train(tmp_path / "again", _TINY, say=notes.append)
    assert (again / "tokenizer.json").read_bytes() == (out / "tokenizer.json").read_bytes()
    assert (again / "model.safetensors").read_bytes() == (out / "model.safetensors").read_bytes()
    # What the work folder keeps changes nothing but the time.
    kept = train(tmp_path / "kept", _TINY, work=work, say=notes.append)
    assert any("taking the image side" in note for note in notes)
    assert (kept / "model.safetensors").read_bytes() == (out / "model.safetensors").read_bytes()


@pytest.mark.heavy
def test_another_model_may_see_alike_and_write_names_in_pieces(trained, tmp_path):
    from safetensors.numpy import load_file
    from transformers import AutoTokenizer

    out, _, _ = trained
    settings = replace(_TINY, pieces=6, vocabulary=600)
    other = train(tmp_path / "other", settings, seen_by=out, say=lambda _: None)
    before, after = (load_file(folder / "model.safetensors") for folder in (out, other))
    seeing = [name for name in before if "vision_model" in name or "projector" in name]
    assert seeing
    assert all((before[name] == after[name]).all() for name in seeing)
    whole, pieces = (AutoTokenizer.from_pretrained(folder) for folder in (out, other))
    written = pieces.tokenize(" Black-capped Chickadee")
    assert "".join(written) == "ĠBlack-cappedĠChickadee"
    assert len(written) > len(whole.tokenize(" Black-capped Chickadee"))


def test_a_folder_that_exists_is_left_alone(tmp_path, capsys):
    with pytest.raises(TaxtuneError, match="exists"):
        train(tmp_path, _TINY)
    assert main(["--out", str(tmp_path), "--steps", "1"]) == 2
    assert "exists" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
