from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.metrics import average_precision_score

from taxtune.encoders.clip import ClipEncoder
from taxtune.errors import DataError, ImageError
from taxtune.studies.specificity.captions import read_caption_data
from taxtune.studies.specificity.object_words import read_object_words
from taxtune.studies.specificity.scores import ScoredTexts, check_files, read_pairs, score_with_clip, write_pairs
from taxtune.studies.specificity.study import retrieval, specificity_report
from taxtune.studies.specificity.texts import make_texts
from tests.displays import Recorder
from tests.studies.coco import write_coco
from tests.tiny_text_models import make_clip

#: Two images. The first: two captions above and below its only random caption; the second has no related captions.
SCORED = ScoredTexts(
    "made",
    ("1", "2"),
    (
        {
            "caption": np.array([0.9, 0.3]),
            "single": np.array([0.2]),
            "random": np.array([0.5]),
            "related": np.array([0.1, 0.4]),
        },
        {"caption": np.array([0.6]), "single": np.array([0.6]), "random": np.array([0.6]), "related": np.array([])},
    ),
)


def test_table_3_by_hand() -> None:
    result = retrieval(SCORED, resamples=0)
    # Image 1: + − + is (1/1 + 2/3) / 2. Image 2: its caption ties with the wrong one: precision 1/2.
    assert result.precision["caption", "random"].tolist() == pytest.approx([5 / 6, 1 / 2])
    assert result.means["caption", "random"].estimate == pytest.approx((5 / 6 + 1 / 2) / 2)
    # 0.4 stands above 0.2, 0.1 below: the prompt is second of three. Image 2 has no related captions.
    assert result.precision["single", "related"].tolist() == pytest.approx([1 / 2, np.nan], nan_ok=True)
    assert result.means["single", "related"].estimate == pytest.approx(1 / 2)
    assert np.isnan(result.means["caption", "altered"].estimate)
    assert '1 of 2 images have no text of the kind "related images\'" and are left out of its cells.' in result.notes
    assert "2 of 2 images have no text of the kind 'narrative' and are left out of its cells." in result.notes


def test_fewer_wrong_texts_than_asked_for_are_counted() -> None:
    result = retrieval(SCORED, negatives=2, resamples=0)
    assert any(
        '2 of 2 images have fewer than 2 texts of the kind "random images\'" (mean 1.0)' in n for n in result.notes
    )


def test_against_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    kinds = {"caption": 5, "multi": 1, "single": 1, "narrative": 2, "random": 20, "related": 15, "altered": 10}
    scores = tuple({k: np.round(rng.normal(size=n), 1) for k, n in kinds.items()} for _ in range(30))
    result = retrieval(ScoredTexts("r", tuple(map(str, range(30))), scores), resamples=50, seed=1)
    for (right, wrong), values in result.precision.items():
        for i, texts in enumerate(scores):
            truth = [1] * len(texts[right]) + [0] * len(texts[wrong])
            assert values[i] == pytest.approx(average_precision_score(truth, [*texts[right], *texts[wrong]]))
        mean = result.means[right, wrong]
        assert mean.estimate == pytest.approx(values.mean())
        assert mean.low < mean.estimate < mean.high


def test_images_with_one_score_for_all_texts_are_told() -> None:
    flat = {"caption": np.array([0.5]), "random": np.array([0.5, 0.5])}
    other = {"caption": np.array([0.5]), "random": np.array([0.5, 0.4])}
    result = retrieval(ScoredTexts("flat", ("1", "2"), (flat, other)), resamples=0)
    assert any(note.startswith("1 of 2 images have the same score for all their texts") for note in result.notes)
    # One right text among three with one score: its average precision is their share.
    assert result.precision["caption", "random"].tolist() == pytest.approx([1 / 3, 1 / 2])


def test_the_report() -> None:
    report = specificity_report([retrieval(SCORED, resamples=10)], {"seed": 0, "resamples": 10})
    table, intervals, distributions = report.tables
    rows = {row["right texts"]: row for row in table.records()}
    assert rows["captions"]["vs random images'"] == pytest.approx(100 * (5 / 6 + 1 / 2) / 2)
    assert rows["narrative"]["vs altered captions"] is None
    assert [r["images"] for r in intervals.records()[:3]] == [2, 1, 0]
    wrong = {row["texts"]: row for row in distributions.records()}
    # The prompt has 0.2 in image 1, below 0.5; in image 2 it ties with 0.6.
    assert wrong["random images'"]["above one label"] == 50
    assert wrong["captions"]["above one label"] is None
    assert wrong["captions"]["n"] == 3


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> ClipEncoder:
    pytest.importorskip("open_clip")
    model = make_clip(tmp_path_factory.mktemp("clip"), context_length=12)
    return ClipEncoder(model, device="cpu", batch_size=2)


def test_scores_of_a_model_are_cosines(tmp_path: Path, encoder: ClipEncoder, recorder: Recorder) -> None:
    data = read_caption_data(*write_coco(tmp_path))
    words, _ = read_object_words(data.categories)
    made = make_texts(data, words, "a photograph showing {label}", negatives=3)
    names = [item.file_name for item in made]
    with pytest.raises(ImageError, match="3 of 3 images are not in the folder"):
        check_files(names, tmp_path)
    with pytest.raises(ImageError, match="folder of images does not exist"):
        check_files(names, tmp_path / "none")
    pictures = [Image.effect_noise((40, 40 + i), 50).convert("RGB") for i in range(3)]
    for item, picture in zip(made, pictures, strict=True):
        picture.save(tmp_path / item.file_name, format="PNG")
    check_files(names, tmp_path)
    scored = score_with_clip(encoder, "tiny", made, tmp_path)
    assert recorder.of("images") == [(0, 3), (2, 3), (3, 3)]
    done, total = recorder.of("embedding texts")[-1]
    assert done == total > 0
    vectors = encoder.images(pictures)
    for i, item in enumerate(made):
        for kind, texts in item.texts.items():
            expected = [float(encoder.texts([text])[0] @ vectors[i]) for text in texts]
            assert scored.scores[i][kind].tolist() == pytest.approx(expected, abs=1e-5)
            # No rank rests on float noise.
            assert (scored.scores[i][kind] == np.round(scored.scores[i][kind], 5)).all()
    assert any("narrative" in note and "12 tokens" in note for note in scored.notes)
    # Written with their scores and read back they give the same study.
    back = read_pairs(write_pairs(tmp_path / "pairs.jsonl", made, scored))
    ours, theirs = retrieval(scored, resamples=0), retrieval(back, resamples=0)
    for key, values in ours.precision.items():
        assert theirs.precision[key] == pytest.approx(values, nan_ok=True)


PAIRS = """image,kind,text,score
1,caption,A dog,0.9
1,random,"A cat, asleep",0.2
"""


def test_pairs_as_csv(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text(PAIRS)
    scored = read_pairs(path)
    assert scored.images == ("1",)
    assert scored.scores[0]["random"].tolist() == [0.2]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("p.csv", PAIRS.replace("0.9", ""), r"(?s)Scores that are missing.*row 2: image 1, caption, 'A dog'"),
        ("p.csv", PAIRS.replace("0.9", "nan"), "image 1, caption"),
        ("p.csv", PAIRS.replace("random", "rnd"), r"p.csv:3: Unknown kind of text"),
        ("p.csv", PAIRS.replace("score", "value"), "no column score"),
        ("p.csv", PAIRS.replace("1,caption", ",caption"), r"p.csv:2: A pair needs .* there is no image"),
        ("p.csv", PAIRS.replace("A dog", " "), r"p.csv:2: .*there is no text"),
        ("p.csv", PAIRS + "1,caption,A dog,0.7\n", r"p.csv:4: The pair is already in row 2: image 1, caption.*A dog"),
        ("p.jsonl", '{"image": [1], "kind": "caption", "text": "x", "score": 1}\n', r"no image. \(got \[1\]\)"),
        ("p.jsonl", '{"image": 1, "kind": "caption", "score": 1}\n', "there is no text"),
        ("p.txt", PAIRS, "must end in .jsonl or .csv"),
        ("p.jsonl", "[1]\n", "not a JSON object"),
        ("p.jsonl", "{\n", "not a JSON object"),
        ("p.jsonl", '{"image": 1, "kind": "caption", "text": "x", "score": null}\n', "Scores that are missing"),
    ],
)
def test_bad_pairs(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=said):
        read_pairs(tmp_path / name)
