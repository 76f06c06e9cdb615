"""Rows of labels, with models that fail, stop and are interrupted."""

from __future__ import annotations

from typing import ClassVar

import pytest
from PIL import Image

from taxtune.classifier import Classifier
from taxtune.classifier.labels import label_images, list_images
from taxtune.errors import ImageError, ModelError
from taxtune.images import load_image
from taxtune.mapping import Mapper, MapperConfig
from taxtune.models import Answer, AnswerStore, Failure
from taxtune.policies import SelfConsistency, Single
from taxtune.taxonomy import Taxonomy
from tests.unsure import Unsure

TREE = Taxonomy.from_paths(["colour/dark/black", "colour/dark/navy", "colour/light/white"])


class Grey:
    """Says how bright an image is, or what it is told to say instead by the image's name."""

    batch_size = 2

    def __init__(self, **instead):
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
def photos(tmp_path):
    (tmp_path / "photos").mkdir()
    for i in range(8):
        Image.new("L", (16, 16), 30 * i).save(tmp_path / "photos" / f"p{i}.png")
    return tmp_path / "photos"


def labelled(
    photos,
    model,
    *,
    store=None,
    policy=None,
    mapper=None,
):
    classifier = Classifier("What?", TREE, model, mapper or Mapper(TREE), policy or Single())
    images = list_images([str(photos)], lambda file, columns: ("image", file.parent))
    return label_images(classifier, images, review_below=0.8, store=store)


def names(labels):
    return [image[-6:-4] for image in labels["image"]]


def reviewed(labels):
    """Returns why labels are to be reviewed, by the name of the image."""
    review = labels[labels["why"].notna()]
    return dict(zip(names(review), review["why"], strict=True))


class Voting(Grey):
    """Gives other answers to some images, each time another one."""

    votes: ClassVar[dict[str, list[str]]] = {}

    def answer(self, questions):
        replies = super().answer(questions)
        for i, question in enumerate(questions):
            if question.image.stem in self.votes:
                replies[i] = Answer(self.votes[question.image.stem][question.sample])
        return replies


def test_what_should_be_reviewed_says_why(photos):
    refused = Failure("the content filter", retryable=False)
    labels = labelled(
        photos, Grey(p1="a bicycle", p3="I cannot tell.", p5=refused, p7="There is no colour here.")
    )
    assert names(labels) == [f"p{i}" for i in range(8)]
    assert reviewed(labels) == {
        "p1": "off the tree",
        "p3": "no label",
        "p5": "failed",
        "p7": "not the subject",
    }
    last = labels.iloc[7][["placement", "confidence", "off_tree", "not_subject"]]
    assert last.tolist() == ["colour", None, False, True]
    assert labels["off_tree"][1]
    assert labels["failure"][5] == "the content filter"


@pytest.mark.parametrize("preset", ["default", "paper-listing"])
def test_a_doubtful_placement_is_reviewed(photos, preset):
    mapper = Unsure(TREE, config=MapperConfig(preset=preset))
    labels = labelled(photos, Grey(p1="navy?", p3="?"), mapper=mapper)
    sure = labels["placement_confidence"]
    if preset == "default":
        assert reviewed(labels) == {"p1": "doubtful", "p3": "no label"}
        assert sure.tolist() == [0.9, 0.4, 0.9, 0.4, 0.9, 0.9, 0.9, 0.9]
    else:  # whose confidence is a similarity
        assert reviewed(labels).keys() == {"p3"}
        assert set(sure) == {None}


def test_a_vote_is_doubtful_where_it_hangs_on_doubtful_answers(photos):
    class Wavering(Voting):
        votes: ClassVar[dict[str, list[str]]] = {
            "p0": ["navy?", "navy", "black"],
            "p1": ["navy", "navy", "navy?"],
            "p2": ["navy?", "black?", "?"],
        }

    labels = labelled(photos, Wavering(), policy=SelfConsistency(3, 0.6), mapper=Unsure(TREE))
    navy = "colour/dark/navy"
    assert labels["placement"].tolist()[:3] == [navy, navy, "colour/dark"]
    assert labels["why"].tolist()[:3] == ["doubtful", None, "doubtful"]
    assert labels["placement_confidence"].isna().all()


def test_votes_are_unsure_where_they_are_split(photos):
    class Split(Voting):
        votes: ClassVar[dict[str, list[str]]] = {"p0": ["black", "navy", "navy"]}

    labels = labelled(photos, Split(), policy=SelfConsistency(3, 0.6))
    assert reviewed(labels) == {"p0": "unsure"}
    assert labels["placement"][0] == "colour/dark/navy"
    assert labels["confidence"][0] == 0.6667


def test_a_model_that_stops_answering_ends_it_and_it_goes_on(photos, monkeypatch):
    monkeypatch.setattr("taxtune.classifier.labels._BATCH", 3)
    monkeypatch.setattr("taxtune.classifier.labels._STOPPED", 3)
    down = Failure("rate limit", retryable=True)
    with AnswerStore(photos.parent / "answers.db") as store:
        model = Grey(**dict.fromkeys((f"p{i}" for i in range(3, 8)), down))
        message = r"stopped answering: rate limit.*answers so far are saved"
        with pytest.raises(ModelError, match=message):
            labelled(photos, model, store=store)
        model = Grey()
        labels = labelled(photos, model, store=store)
    assert model.asked == 5
    assert len(labels) == 8


def test_a_model_that_answers_nothing_ends_it(photos):
    down = Failure("server down", retryable=True)
    model = Grey(**dict.fromkeys((f"p{i}" for i in range(8)), down))
    with pytest.raises(ModelError, match="stopped answering: "):
        labelled(photos, model)


def test_a_few_that_never_answer_do_not_keep_the_others_back(photos, monkeypatch):
    monkeypatch.setattr("taxtune.classifier.labels._BATCH", 6)
    down = Failure("time-out", retryable=True)
    labels = labelled(photos, Grey(p6=down, p7=down))
    assert (len(labels), labels["again"].sum()) == (8, 2)
    assert labels["failure"][6] == "time-out"
