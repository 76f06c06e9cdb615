from __future__ import annotations

import pytest
from PIL import Image

from tests.studies.coco import write_coco

STUDY = "specificity"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_coco(tmp_path)
    (tmp_path / "images").mkdir()
    for i in (1, 2, 3):
        picture = Image.effect_noise((40, 39 + i), 50).convert("RGB")
        picture.save(tmp_path / "images" / f"00000000000{i}.jpg")
    return tmp_path


COCO = "--captions captions.json --instances instances.json --narratives narratives.jsonl"


def test_a_model_and_then_its_pairs(study, folder, tiny_clip):
    options = "--images images --pairs p.jsonl --negatives 5 --resamples 20 --out out --device cpu"
    record = study.json(*f"{COCO} {options}".split(), "--model", tiny_clip)
    rows = {row["right texts"]: row for row in record["tables"]["specificity"]}
    assert 0 < rows["captions"]["vs random images'"] <= 100
    assert rows["narrative"]["vs altered captions"] is not None
    lacking = '1 of 3 images have no text of the kind "related images\'"'
    assert any(lacking in note for note in record["notes"])
    assert sorted(path.name for path in (folder / "out").iterdir()) == [
        "distributions.csv",
        "distributions.md",
        "intervals.csv",
        "intervals.md",
        "report.html",
        "specificity-scores.png",
        "specificity-scores.svg",
        "specificity.csv",
        "specificity.md",
        "study.json",
    ]
    scored = study.json("--scored", "p.jsonl", "--resamples", 20)
    again = {row["right texts"]: row for row in scored["tables"]["specificity"]}
    for kind, row in rows.items():
        for column in row.keys() - {"scores", "right texts"}:
            assert again[kind][column] == pytest.approx(row[column])


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("", "Nothing to study"),
        ("--captions captions.json", "must be given together"),
        (COCO, "Nothing to score the texts with"),
        (f"{COCO} --pairs p.jsonl --model x --model y --images images", "with one --model only"),
        (f"{COCO} --pairs p.csv", "must end in .jsonl"),
        (f"{COCO} --pairs narratives.jsonl", "names a file that is also an input"),
        ("--scored p.jsonl --scored p.jsonl", "same value twice"),
        (
            "--captions instances.json --instances captions.json --pairs p.jsonl",
            "images: Field",
        ),
    ],
)
def test_errors(study, folder, command, said):
    def contents():
        return {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}

    before = contents()
    assert said in study.refused(*command.split())
    assert contents() == before
