from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from taxtune.errors import DataError
from taxtune.metrics.chunks import make_chunker
from taxtune.studies.specificity.captions import CaptionData, CaptionedImage, read_caption_data
from taxtune.studies.specificity.object_words import read_object_words
from taxtune.studies.specificity.texts import altered_captions, make_texts, sampled
from tests.studies.coco import write_coco

TEMPLATE = "a photograph showing {label}"


@pytest.fixture
def data(tmp_path: Path) -> CaptionData:
    return read_caption_data(*write_coco(tmp_path))


def test_altered_captions_name_what_is_not_there(data: CaptionData) -> None:
    words, _ = read_object_words(data.categories)
    # In the first image: dog and couch. Not there, by label or caption: person, cat, umbrella, hot dog, skis.
    assert altered_captions(data.images[0], data.categories, words) == [
        f"{name} sits on an orange couch."
        for name in ("A person", "A cat", "An umbrella", "A hot dog", "A pair of skis")
    ] + [f"A dog sits on an orange {name}." for name in ("person", "cat", "umbrella", "hot dog", "pair of skis")] + [
        f"An old {name} resting indoors" for name in ("person", "cat", "umbrella", "hot dog", "pair of skis")
    ]


def test_what_a_caption_mentions_is_there_though_no_label_says_so(data: CaptionData) -> None:
    words, _ = read_object_words(data.categories)
    texts = altered_captions(data.images[1], data.categories, words)
    # The second image has no label "hot dog", but a caption with one.
    assert not any(" hot dog and" in text or "hot dogs and" in text for text in texts)
    assert "Two couches and a cat near a hot dog stand" in texts
    assert "Two dogs and an umbrella near a hot dog stand" in texts


def test_the_texts_of_an_image(data: CaptionData) -> None:
    words, _ = read_object_words(data.categories)
    made = make_texts(data, words, TEMPLATE, negatives=3, seed=4)
    first, second, third = (item.texts for item in made)
    assert first["caption"] == data.images[0].captions
    assert first["multi"] == ("a photograph showing dog, couch",)
    assert first["single"][0] in ("a photograph showing dog", "a photograph showing couch")
    assert first["narrative"] == data.images[0].narratives
    # Only the second image shares a label, the dog, with the first; none does with the third.
    assert set(first["related"]) == set(data.images[1].captions)
    assert third["related"] == ()
    others = {caption for image in data.images[1:] for caption in image.captions}
    assert len(first["random"]) == 3
    assert set(first["random"]) <= others
    assert len(first["altered"]) == 3
    assert second["narrative"] == ()


def test_the_draws_follow_the_seed_and_the_image(data: CaptionData) -> None:
    words, _ = read_object_words(data.categories)
    made = make_texts(data, words, TEMPLATE, negatives=4, seed=1)
    assert made == make_texts(data, words, TEMPLATE, negatives=4, seed=1)
    assert made != make_texts(data, words, TEMPLATE, negatives=4, seed=2)
    backwards = CaptionData(data.images[::-1], data.categories, ())
    again = {item.image: item.texts["altered"] for item in make_texts(backwards, words, TEMPLATE, negatives=4, seed=1)}
    assert again == {item.image: item.texts["altered"] for item in made}


def test_drawn_alterations_are_some_of_all(data: CaptionData) -> None:
    words, _ = read_object_words(data.categories)
    for image in data.images:
        everything = altered_captions(image, data.categories, words)
        drawn = altered_captions(image, data.categories, words, wanted=4, rng=np.random.default_rng(1))
        assert len(drawn) == len(set(drawn)) == min(4, len(everything))
        assert set(drawn) <= set(everything)
        many = altered_captions(image, data.categories, words, wanted=10**6, rng=np.random.default_rng(1))
        assert sorted(many) == sorted(everything)


def test_every_alteration_is_as_likely(data: CaptionData) -> None:
    words, _ = read_object_words(data.categories)
    drawn = Counter(
        altered_captions(data.images[0], data.categories, words, wanted=1, rng=np.random.default_rng(seed))[0]
        for seed in range(1500)
    )
    assert len(drawn) == 15
    assert min(drawn.values()) > 60  # 100 is expected, give or take 10


@pytest.mark.parametrize("chunker", [None, "rules"])
def test_a_caption_of_a_megabyte_is_altered_a_few_times(chunker: str | None) -> None:
    long = "a dog and a cat and " * 50_000
    images = tuple(CaptionedImage(str(i), f"{i}.jpg", (f"{long} {i}",), ("dog",)) for i in range(2))
    data = CaptionData(images, ("dog", "cat", "couch", "skis"), ())
    words, _ = read_object_words(data.categories)
    made = make_texts(data, words, TEMPLATE, negatives=3, chunker=None if chunker is None else make_chunker(chunker))
    for item in made:
        assert len(item.texts["altered"]) == 3
        assert all(text.count("couch") + text.count("skis") == 1 for text in item.texts["altered"])


def test_no_wrong_caption_is_one_of_its_own() -> None:
    same = tuple(CaptionedImage(str(i), f"{i}.jpg", ("A dog", f"Image {i}"), ("dog",)) for i in range(10))
    data = CaptionData(same, ("dog", "cat"), ())
    made = make_texts(data, read_object_words(data.categories)[0], TEMPLATE, negatives=20)
    for i, item in enumerate(made):
        for kind in ("random", "related"):
            assert sorted(item.texts[kind]) == sorted(f"Image {j}" for j in range(10) if j != i)


def test_captions_without_a_mention_alter_nothing() -> None:
    image = CaptionedImage("1", "1.jpg", ("A quiet street", "شارع هادئ 🏙️"), ("car",))
    assert altered_captions(image, ("car", "dog"), read_object_words(("car", "dog"))[0]) == []


def test_noun_phrases_of_a_chunker_can_be_swapped_instead(data: CaptionData) -> None:
    words, _ = read_object_words(data.categories)
    made = make_texts(data, words, TEMPLATE, negatives=100, chunker=make_chunker("rules"))
    # "rain" and "stand" are no categories: only a chunker finds them.
    assert any(text.endswith("in the couch") for text in made[2].texts["altered"])


def test_a_sample_of_the_images(data: CaptionData) -> None:
    part = sampled(data, 2, seed=3)
    assert len(part.images) == 2
    assert part.notes[-1] == "2 of 3 images drawn at random."
    assert part == sampled(data, 2, seed=3)
    assert sampled(data, 50, seed=3) is data
    with pytest.raises(DataError, match="At least two"):
        sampled(data, 1, seed=3)


def test_one_image_has_no_wrong_captions(data: CaptionData) -> None:
    one = CaptionData(data.images[:1], data.categories, ())
    with pytest.raises(DataError, match="At least two images"):
        make_texts(one, read_object_words(data.categories)[0], TEMPLATE)
