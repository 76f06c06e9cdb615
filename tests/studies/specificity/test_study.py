"""Average precision of right texts among wrong ones, from scored pairs or a CLIP model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from taxtune.encoders.clip import ClipEncoder
from taxtune.errors import DataError
from taxtune.report.output import StudyReport
from taxtune.studies.specificity import SpecificitySettings
from taxtune.studies.specificity.coco import read_coco
from taxtune.studies.specificity.mentions import read_words
from taxtune.studies.specificity.study import precisions, read_pairs, report, score
from taxtune.studies.specificity.texts import make_texts
from tests.displays import Recorder
from tests.studies.coco import write_coco
from tests.tiny_text_models import make_clip

#: Two images. The first: two captions above and below its only random caption; the second has no related captions.
SCORES = {
    "1": {"caption": [0.9, 0.3], "single": [0.2], "random": [0.5], "related": [0.1, 0.4]},
    "2": {"caption": [0.6], "single": [0.6], "random": [0.6]},
}


def frame(scores: dict[str, dict[str, list[float]]]) -> pd.DataFrame:
    rows = [
        (image, kind, f"{kind} {i}", value)
        for image, kinds in scores.items()
        for kind, values in kinds.items()
        for i, value in enumerate(values)
    ]
    return pd.DataFrame(rows, columns=["image", "kind", "text", "score"])


def study(pairs: pd.DataFrame, resamples: int = 10) -> StudyReport:
    return report(
        [("made", pairs)], SpecificitySettings(scored=(Path("made.csv"),), resamples=resamples), []
    )


def test_tables_by_hand() -> None:
    values = precisions(frame(SCORES))
    # Image 1: + − + is (1/1 + 2/3) / 2. Image 2: its caption ties with the wrong one: precision 1/2.
    assert values["caption", "random"].tolist() == pytest.approx([5 / 6, 1 / 2])
    # 0.4 stands above 0.2, 0.1 below: the prompt is second of three. Image 2 has no related captions.
    assert values["single", "related"].tolist() == pytest.approx([1 / 2, np.nan], nan_ok=True)
    made = study(frame(SCORES))
    table, intervals, distributions = made.tables
    rows = {row["right texts"]: row for row in table.records()}
    assert rows["captions"]["vs random images'"] == pytest.approx(100 * (5 / 6 + 1 / 2) / 2)
    assert rows["one label"]["vs related images'"] == pytest.approx(50)
    assert rows["narrative"]["vs altered captions"] is None
    assert [row["images"] for row in intervals.records()[:3]] == [2, 1, 0]
    wrong = {row["texts"]: row for row in distributions.records()}
    # The prompt has 0.2 in image 1, below 0.5; in image 2 it ties with 0.6.
    assert wrong["random images'"]["above one label"] == 50
    assert wrong["captions"]["above one label"] is None
    assert wrong["captions"]["n"] == 3
    assert any(
        '1 of 2 images have no text of the kind "related images\'"' in note for note in made.notes
    )
    assert any(
        "1 of 2 images have the same score for all their texts" in note for note in made.notes
    )


def test_two_sources_of_one_name_stay_apart() -> None:
    settings = SpecificitySettings(scored=(Path("a.csv"),), resamples=0)
    table = report([("a/b", frame(SCORES)), ("a/b", frame(SCORES))], settings, []).tables[0]
    assert {row["scores"] for row in table.records()} == {"a/b", "a/b (2)"}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> ClipEncoder:
    pytest.importorskip("open_clip")
    return ClipEncoder(
        make_clip(tmp_path_factory.mktemp("clip"), context_length=12), device="cpu", batch_size=2
    )


def test_scores_of_a_model_are_rounded_cosines(
    tmp_path: Path, encoder: ClipEncoder, recorder: Recorder
) -> None:
    images, categories, _ = read_coco(*write_coco(tmp_path))
    pictures = {
        image.id: Image.effect_noise((40, 40 + i), 50).convert("RGB")
        for i, image in enumerate(images)
    }
    for image in images:
        pictures[image.id].save(tmp_path / image.file, format="PNG")
    scored = score(
        encoder,
        make_texts(images, read_words(categories), "a photo of {label}", negatives=3),
        tmp_path,
    )
    assert recorder.of("images") == [(0, 3), (2, 3), (3, 3)]
    vectors = {key: encoder.images([picture])[0] for key, picture in pictures.items()}
    expected = [
        float(encoder.texts([row.text])[0] @ vectors[row.image]) for row in scored.itertuples()
    ]
    assert scored["score"].tolist() == pytest.approx(expected, abs=1e-5)
    assert (scored["score"] == scored["score"].round(5)).all()  # no rank rests on float noise
    scored.to_json(tmp_path / "pairs.jsonl", orient="records", lines=True)
    back = precisions(read_pairs(tmp_path / "pairs.jsonl"))
    for key, values in precisions(scored).items():
        assert back[key].tolist() == pytest.approx(values.tolist(), nan_ok=True)


PAIRS = """image,kind,text,score
1,caption,A dog,0.9
1,random,"A cat, asleep",0.2
"""


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("p.csv", PAIRS.replace("0.9", ""), "p.csv:2: .*missing, not finite"),
        ("p.csv", PAIRS.replace("random", "rnd"), "p.csv:3: .*unknown kind of text"),
        ("p.csv", PAIRS.replace("score", "value"), "no column score"),
        ("p.csv", PAIRS.replace("1,caption", ",caption"), "p.csv:2: .*no image or no text"),
        ("p.csv", PAIRS + "1,caption,A dog,0.7\n", "p.csv:4: .*repeats a pair"),
        (
            "p.jsonl",
            '{"image": [1], "kind": "caption", "text": "x", "score": 1}\n',
            r"p.jsonl:1: .*\[1\]",
        ),
        ("p.jsonl", '{"image": 1, "kind": "caption", "score": 1}\n', "no column text"),
        ("p.jsonl", "[1]\n", "p.jsonl"),
        (
            "p.jsonl",
            '{"image": 1, "kind": "caption", "text": "x", "score": true}\n',
            "missing, not finite",
        ),
    ],
)
def test_bad_pairs(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message):
        read_pairs(tmp_path / name)


def test_half_a_surrogate_pair_in_a_text_is_readable(tmp_path: Path) -> None:
    row = '{"image": 1, "kind": "%s", "text": "a \\ud83d %s", "score": 0.5}\n'
    (tmp_path / "p.jsonl").write_text(row % ("caption", "dog") + row % ("random", "cat"))
    assert read_pairs(tmp_path / "p.jsonl")["text"].tolist() == ["a ? dog", "a ? cat"]
