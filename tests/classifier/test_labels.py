"""Rows of labels, with models that fail, stop and are interrupted."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from taxtune.classifier import Classifier
from taxtune.classifier.images import Images
from taxtune.classifier.labels import Labelled, Review, label_images
from taxtune.data.images import load_image
from taxtune.errors import ImageError, ModelError
from taxtune.mapping import Mapper
from taxtune.models import Answer, AnswerStore, Failure
from taxtune.policies import DIRECT, Vote
from taxtune.progress import Display, Task, showing
from taxtune.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["colour/dark/black", "colour/dark/navy", "colour/light/white"])


class Grey:
    """Says how bright an image is, or what it is told to say instead by the image's name."""

    batch_size = 2

    def __init__(self, **instead: Any) -> None:
        self.identity = {"kind": "grey", "model": "grey"}
        self.instead = instead
        self.asked = 0

    def answer(self, questions):
        replies = []
        for question in questions:
            self.asked += 1
            try:
                value = load_image(question.image).convert("L").getpixel((0, 0))
            except ImageError as error:
                replies.append(Failure(str(error), retryable=False))
                continue
            said = self.instead.get(question.image.stem, "black" if value < 60 else "white")
            if isinstance(said, BaseException):
                raise said
            replies.append(Answer(said) if isinstance(said, str) else said)
        return replies


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    (tmp_path / "photos").mkdir()
    for i in range(8):
        Image.new("L", (16, 16), 30 * i).save(tmp_path / "photos" / f"p{i}.png")
    return tmp_path / "photos"


def labelled(photos: Path, model: Grey, *, store: AnswerStore | None = None, **how: Any) -> tuple[Labelled, list, list]:
    classifier = Classifier(("What?",), TREE, model, Mapper(TREE), how.pop("policy", DIRECT))
    out, review = photos.parent / "labels.csv", photos.parent / "review.csv"
    images = Images([str(photos)])
    done = label_images(classifier, images, out=out, review=Review(0.8), review_out=review, store=store)
    return done, *(list(csv.DictReader(file.open())) for file in (out, review))


def test_what_should_be_looked_at_says_why(photos: Path) -> None:
    refused = Failure("the content filter", retryable=False)
    model = Grey(p1="a bicycle", p3="I cannot tell.", p5=refused, p7="There is no colour here.")
    done, rows, review = labelled(photos, model)
    assert [row["image"][-6:-4] for row in rows] == [f"p{i}" for i in range(8)]
    assert [(row["image"][-6:-4], row["why"]) for row in review] == [
        ("p1", "off the tree"),
        ("p3", "no label"),
        ("p5", "failed"),
        ("p7", "not the subject"),
    ]
    assert (done.images, done.reasons.total(), done.again, done.unknown) == (8, 4, 0, 4)
    assert [row["not_subject"] for row in rows] == ["false"] * 7 + ["true"]
    assert (rows[7]["placement"], rows[7]["confidence"], rows[7]["off_tree"]) == ("colour", "", "false")
    assert rows[1]["off_tree"] == "true"
    assert rows[5]["failure"] == "the content filter"


def test_votes_are_unsure_where_they_are_split(photos: Path) -> None:
    class Split(Grey):
        def answer(self, questions):
            replies = super().answer(questions)
            return [
                Answer("navy") if q.image.stem == "p0" and q.sample else reply
                for q, reply in zip(questions, replies, strict=True)
            ]

    _, rows, review = labelled(photos, Split(), policy=Vote(3, 0.6))
    assert rows[0]["placement"] == "colour/dark/navy"
    assert [(row["why"], row["confidence"], row["image"][-6:]) for row in review] == [("unsure", "0.6667", "p0.png")]


def test_a_model_that_stops_answering_ends_it_and_it_goes_on(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taxtune.classifier.labels._BATCH", 3)
    monkeypatch.setattr("taxtune.classifier.labels._STOPPED", 3)
    down = Failure("rate limit", retryable=True)
    with AnswerStore(photos.parent / "answers.db") as store:
        model = Grey(**dict.fromkeys((f"p{i}" for i in range(3, 8)), down))
        with pytest.raises(ModelError, match=r"stopped answering: rate limit.*answers so far are saved"):
            labelled(photos, model, store=store)
        assert not (photos.parent / "labels.csv").exists()
        model = Grey()
        done, rows, _ = labelled(photos, model, store=store)
    assert model.asked == 5
    assert (done.images, len(rows)) == (8, 8)


def test_a_model_that_answers_nothing_ends_it(photos: Path) -> None:
    model = Grey(**dict.fromkeys((f"p{i}" for i in range(8)), Failure("server down", retryable=True)))
    with pytest.raises(ModelError, match="stopped answering: "):
        labelled(photos, model)
    assert not (photos.parent / "labels.csv").exists()


def test_a_few_that_never_answer_do_not_keep_the_others_back(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taxtune.classifier.labels._BATCH", 6)
    down = Failure("time-out", retryable=True)
    done, rows, _ = labelled(photos, Grey(p6=down, p7=down))
    assert (done.images, done.again, len(rows)) == (8, 2, 8)


def test_what_may_pass_is_counted(photos: Path) -> None:
    done, rows, review = labelled(photos, Grey(p4=Failure("time-out", retryable=True)))
    assert done.again == 1
    assert [row["why"] for row in review] == ["failed"]
    assert rows[4]["failure"] == "time-out"


def test_an_interrupt_leaves_no_half_file_and_keeps_the_answers(photos: Path) -> None:
    with AnswerStore(photos.parent / "answers.db") as store:
        with pytest.raises(KeyboardInterrupt):
            labelled(photos, Grey(p6=KeyboardInterrupt()), store=store)
        assert sorted(file.name for file in photos.parent.glob("*.csv")) == []
        model = Grey()
        labelled(photos, model, store=store)
    assert model.asked == 2


def test_progress_counts_images_once(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taxtune.classifier.labels._BATCH", 3)
    (photos / "broken.png").write_bytes(b"x")
    seen: list[tuple[str, int, int]] = []

    class Watching(Display):
        def update(self, task: Task) -> None:
            seen.append((task.what, task.done, task.total))

    with showing(Watching()):
        labelled(photos, Grey(), policy=Vote(2))
    assert {what for what, _, _ in seen} == {"classifying"}
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    assert seen[-1] == ("classifying", 9, 9)
