from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from tests.cli.commands import run_command
from tests.studies.coco import write_coco
from tests.tiny_text_models import make_clip


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    return run_command(monkeypatch, "study", "specificity", *arguments)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_coco(tmp_path)
    (tmp_path / "images").mkdir()
    for i in (1, 2, 3):
        Image.effect_noise((40, 39 + i), 50).convert("RGB").save(tmp_path / "images" / f"00000000000{i}.jpg")
    return tmp_path


COCO = ("--captions", "captions.json", "--instances", "instances.json", "--narratives", "narratives.jsonl")


def test_a_model_and_then_its_pairs(
    monkeypatch: pytest.MonkeyPatch, folder: Path, tiny_clip: str, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    options = ("--images", "images", "--model", tiny_clip, "--pairs", "p.jsonl", "--negatives", 5, "--resamples", 20)
    assert run(monkeypatch, *COCO, *options, "--json", "--out", "out", "--device", "cpu") == 0
    said = capsys.readouterr()
    record = json.loads(said.out)
    rows = {row["right texts"]: row for row in record["tables"]["specificity"]}
    assert 0 < rows["captions"]["vs random images'"] <= 100
    assert rows["narrative"]["vs altered captions"] is not None
    assert any('1 of 3 images have no text of the kind "related images\'"' in note for note in record["notes"])
    assert {p.name for p in (folder / "out").iterdir()} == {
        *(f"{n}.{kind}" for n in ("specificity", "intervals", "distributions") for kind in ("csv", "md")),
        "specificity-scores.png",
        "specificity-scores.svg",
        "study.json",
    }
    assert run(monkeypatch, "--scored", "p.jsonl", "--json", "--resamples", 20) == 0
    again = {row["right texts"]: row for row in json.loads(capsys.readouterr().out)["tables"]["specificity"]}
    for kind, row in rows.items():
        for column in row.keys() - {"scores"}:
            assert again[kind][column] == (row[column] if column == "right texts" else pytest.approx(row[column]))


def test_the_texts_without_a_model(
    monkeypatch: pytest.MonkeyPatch, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    written = []
    for seed in (1, 1, 2):
        assert run(monkeypatch, *COCO, "--pairs", "p.jsonl", "--negatives", 4, "--seed", seed) == 0
        written.append(Path("p.jsonl").read_bytes())
    assert written[0] == written[1] != written[2]
    lines = [json.loads(line) for line in written[0].splitlines()]
    assert all("score" not in line for line in lines)
    assert {line["kind"] for line in lines} == {
        "caption",
        "multi",
        "single",
        "narrative",
        "random",
        "related",
        "altered",
    }
    assert "nothing is scored yet" in capsys.readouterr().out
    # Unscored pairs are no zeros.
    assert run(monkeypatch, "--scored", "p.jsonl") == 2
    assert "missing, no finite number" in capsys.readouterr().err


def test_a_second_run_encodes_nothing(
    monkeypatch: pytest.MonkeyPatch, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    open_clip = pytest.importorskip("open_clip")
    monkeypatch.chdir(folder)
    model = make_clip(folder)
    calls = {"encode_image": 0, "encode_text": 0}
    for name in calls:
        counted(monkeypatch, open_clip.CLIP, name, calls)
    options = ("--images", "images", "--model", model, "--negatives", 5, "--resamples", 0, "--batch-size", 2)
    options = (*COCO, *options, "--cache-dir", "kept", "--device", "cpu", "--json")

    def study() -> tuple[dict[str, object], dict[str, int]]:
        calls.update(dict.fromkeys(calls, 0))
        assert run(monkeypatch, *options) == 0
        return json.loads(capsys.readouterr().out)["tables"], dict(calls)

    first, made = study()
    assert made["encode_image"] == 2
    texts = made["encode_text"]
    again, made = study()
    assert made == {"encode_image": 0, "encode_text": 0}
    assert again == first
    # An image that has changed, and with it only its pairs.
    Image.new("RGB", (50, 50), "navy").save(folder / "images" / "000000000002.jpg")
    other, made = study()
    assert made["encode_image"] == 1
    assert 0 < made["encode_text"] < texts
    assert other != first
    image = folder / "images" / "000000000002.jpg"
    image.write_bytes(image.read_bytes()[:300])
    (folder / "images" / "000000000003.jpg").write_text("no image")
    calls.update(dict.fromkeys(calls, 0))
    assert run(monkeypatch, *options) == 2
    said = capsys.readouterr().err
    assert "2 of 2 images cannot be used" in said
    assert "000000000002.jpg: The image is corrupt" in said
    assert "000000000003.jpg: This is no image" in said
    assert calls == {"encode_image": 0, "encode_text": 0}


def counted(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, calls: dict[str, int]) -> None:
    real = getattr(owner, name)

    def call(*arguments: object, **options: object) -> object:
        calls[name] += 1
        return real(*arguments, **options)

    monkeypatch.setattr(owner, name, call)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "nothing to study"),
        (("--captions", "captions.json"), "belong together"),
        (("--model", "x"), "There are no texts"),
        (COCO, "nothing that scores them"),
        ((*COCO, "--model", "x"), "needs the images"),
        ((*COCO, "--pairs", "p.jsonl", "--negatives", "0"), "greater than or equal to 1"),
        ((*COCO, "--pairs", "p.jsonl", "--sample", "1"), "At least two images"),
        ((*COCO, "--pairs", "p.jsonl", "--templates", "photos"), "give one prompt template"),
        ((*COCO, "--pairs", "p.jsonl", "--nouns", "verbs"), "no such chunker"),
        ((*COCO, "--pairs", "p.jsonl", "--model", "x", "--model", "y", "--images", "images"), "of one --model"),
        ((*COCO, "--model", "no-such-model", "--images", "images"), "cannot be loaded"),
        ((*COCO, "--model", "sentence:x", "--images", "images"), "reads no images"),
        ((*COCO, "--model", "", "--images", "images"), "names no model"),
        ((*COCO, "--model", "x", "--model", "x", "--images", "images"), "same twice"),
        ((*COCO, "--pairs", "p.jsonl", "--images", "images"), "needs a --model"),
        # What is not there is said before a model is loaded, and no input is written over.
        ((*COCO, "--model", "x", "--images", "none"), "none: There is no such folder"),
        ((*COCO, "--model", "x", "--images", "."), "3 of 3 images are not in the folder"),
        ((*COCO, "--pairs", "p.csv"), "must end in .jsonl"),
        ((*COCO, "--pairs", "narratives.jsonl"), "would overwrite a file that is read"),
        ((*COCO, "--pairs", "captions.json/p.jsonl"), "nothing was written"),
        ((*COCO, "--pairs", "p.jsonl", "--nouns", "spacy:no-such-pipeline"), "--nouns words or rules"),
        (("--scored", "p.jsonl", "--scored", "p.jsonl"), "same twice"),
        (("--scored", "p.jsonl", "--sample", "5"), "There are no texts"),
        (("--captions", "instances.json", "--instances", "captions.json", "--pairs", "p.jsonl"), "no list `images`"),
    ],
)
def test_errors(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(folder)
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert run(monkeypatch, *options) == 2
    output = capsys.readouterr()
    assert said in output.err
    assert output.out == ""
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_only_wrong_texts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.csv").write_text("image,kind,text,score\n1,random,x,0.1\n")
    assert run(monkeypatch, "--scored", tmp_path / "p.csv") == 2
    assert "no right texts" in capsys.readouterr().err
