"""Average precision of right texts among wrong ones, from scored pairs or a CLIP model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from taxtune.encoders.clip import ClipEncoder
from taxtune.errors import DataError
from taxtune.studies.specificity import SpecificitySettings
from taxtune.studies.specificity.coco import read_coco
from taxtune.studies.specificity.mentions import read_words
from taxtune.studies.specificity.study import precisions, read_pairs, report, score
from taxtune.studies.specificity.texts import make_texts
from tests.studies.coco import write_coco
from tests.studies.reports import cells, records, rows_by
from tests.tiny_text_models import make_clip

#: Two images. The first: two captions above and below its only random caption; the second has no related captions.
SCORES = {
    "1": {"caption": [0.9, 0.3], "single": [0.2], "random": [0.5], "related": [0.1, 0.4]},
    "2": {"caption": [0.6], "single": [0.6], "random": [0.6]},
}


def frame(scores):
    rows = pd.DataFrame(scores).stack().dropna().explode()
    pairs = rows.rename_axis(["kind", "image"]).rename("score").reset_index()
    pairs = pairs.sort_values("image", kind="stable", ignore_index=True)
    return pairs.assign(text=pairs.index.map(str)).astype({"score": float})


PAIRS_BY_HAND = frame(SCORES)


def study(*names, **settings):
    scored = [(name, PAIRS_BY_HAND) for name in names]
    return report(scored, SpecificitySettings(scored=(Path("made.csv"),), **settings), [])


def test_precisions_by_hand():
    values = precisions(PAIRS_BY_HAND)
    # Image 1: + − + is (1/1 + 2/3) / 2. Image 2: its caption ties with the wrong one: precision 1/2.
    assert values["caption", "random"].tolist() == pytest.approx([5 / 6, 1 / 2])
    # 0.4 stands above 0.2, 0.1 below: the prompt is second of three. Image 2 has no related captions.
    assert values["single", "related"].tolist() == pytest.approx([1 / 2, np.nan], nan_ok=True)


def test_tables_by_hand():
    made = study("made", resamples=10)
    rows = rows_by(made, "specificity", "right texts")
    assert rows["captions"]["vs random images'"] == pytest.approx(100 * (5 / 6 + 1 / 2) / 2)
    assert rows["one label"]["vs related images'"] == pytest.approx(50)
    assert rows["narrative"]["vs altered captions"] is None
    assert [row["images"] for row in records(made, "intervals")[:3]] == [2, 1, 0]
    kinds = rows_by(made, "distributions", "texts")
    # The prompt has 0.2 in image 1, below 0.5; in image 2 it ties with 0.6.
    assert kinds["random images'"]["above one label"] == 50
    assert cells(kinds["captions"], "above one label", "n") == (None, 3)
    notes = "\n".join(made.notes)
    assert '1 of 2 images have no text of the kind "related images\'"' in notes
    assert "1 of 2 images have the same score for all their texts" in notes


def test_two_sources_of_one_name_stay_apart():
    rows = records(study("a/b", "a/b", resamples=0), "specificity")
    assert {row["scores"] for row in rows} == {"a/b", "a/b (2)"}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    pytest.importorskip("open_clip")
    model = make_clip(tmp_path_factory.mktemp("clip"), context_length=12)
    return ClipEncoder(model, device="cpu", batch_size=2)


def test_scores_of_a_model_are_rounded_cosines(tmp_path, encoder, recorder):
    images, categories, _ = read_coco(*write_coco(tmp_path))
    vectors = {}
    for i, image in enumerate(images):
        picture = Image.effect_noise((40, 40 + i), 50).convert("RGB")
        picture.save(tmp_path / image.file, format="PNG")
        vectors[image.id] = encoder.images([picture])[0]
    texts = make_texts(images, read_words(categories), "a photo of {label}", negatives=3)
    scored = score(encoder, texts, tmp_path)
    assert recorder.of("images") == [(0, 3), (2, 3), (3, 3)]
    pairs = zip(encoder.texts(scored["text"].tolist()), scored["image"], strict=True)
    expected = [float(text @ vectors[image]) for text, image in pairs]
    assert scored["score"].tolist() == pytest.approx(expected, abs=1e-5)
    assert (scored["score"] == scored["score"].round(5)).all()  # no rank rests on float noise
    scored.to_json(tmp_path / "pairs.jsonl", orient="records", lines=True)
    back = precisions(read_pairs(tmp_path / "pairs.jsonl"))
    for key, values in precisions(scored).items():
        assert back[key].tolist() == pytest.approx(values.tolist(), nan_ok=True)


CSV = """image,kind,text,score
1,caption,A dog,0.9
1,random,"A cat, asleep",0.2
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0.9", "", "p.csv:2: .*missing, not finite"),
        ("random", "rnd", "p.csv:3: .*unknown kind of text"),
        ("score", "value", "no column score"),
        ("1,caption", ",caption", "p.csv:2: .*no image or no text"),
        ("0.2\n", "0.2\n1,caption,A dog,0.7\n", "p.csv:4: .*repeats a pair"),
    ],
)
def test_bad_csv(tmp_path, old, new, message):
    path = tmp_path / "p.csv"
    path.write_text(CSV.replace(old, new))
    with pytest.raises(DataError, match=message):
        read_pairs(path)


GOOD = {"image": 1, "kind": "caption", "text": "x", "score": 1}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (GOOD | {"image": [1]}, r"p.jsonl:1: .*\[1\]"),
        ({"image": 1, "kind": "caption", "score": 1}, "no column text"),
        ([1], "p.jsonl"),
        (GOOD | {"score": True}, "missing, not finite"),
    ],
)
def test_bad_json_lines(tmp_path, record, message):
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps(record))
    with pytest.raises(DataError, match=message):
        read_pairs(path)


def test_half_a_surrogate_pair_in_a_text_is_readable(tmp_path):
    row = '{"image": 1, "kind": "%s", "text": "a \\ud83d %s", "score": 0.5}\n'
    (tmp_path / "p.jsonl").write_text(row % ("caption", "dog") + row % ("random", "cat"))
    assert read_pairs(tmp_path / "p.jsonl")["text"].tolist() == ["a ? dog", "a ? cat"]
