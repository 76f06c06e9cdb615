from __future__ import annotations

import io
import json
import shutil
from dataclasses import replace

import pytest
from PIL import Image

from taxtune.data.boxes import Box
from taxtune.report import gallery
from taxtune.report.gallery import draw_path
from taxtune.report.html import render_report
from taxtune.tuning.records import Provenance
from tests.report import samples
from tests.report.test_html import check, text
from tests.rows import sample_row


def shown(result):
    found = gallery.all_images(result)
    assert found is not None
    return found


def pictures(folder, result):
    """A noisy picture for each held-out image."""
    files = {}
    Image.effect_noise((160, 110), 80).convert("RGB").save(folder / "noise.png")
    for row in result.heldout[0].rows:
        files[row.example] = str(shutil.copy(folder / "noise.png", folder / row.image))
    return files


def row(truth, placed, **facts):
    return sample_row(truth=truth, answer=placed, node=2, placement=placed, **facts)


OWL = "bird/owls/tawny owl"


@pytest.mark.parametrize(
    ("truth", "placed", "shared", "wrong", "missing"),
    [
        (OWL, OWL, ["bird", "owls", "tawny owl"], [], []),
        (OWL, "bird/owls", ["bird", "owls"], [], ["tawny owl"]),
        (OWL, "bird/crows/jay", ["bird"], ["crows", "jay"], ["owls", "tawny owl"]),
        ("bird/owls", OWL, ["bird", "owls"], ["tawny owl"], []),
    ],
)
def test_an_answers_path_beside_the_truths(truth, placed, shared, wrong, missing):
    assert draw_path(row(truth, placed)) == (shared, wrong, missing)


def test_an_answer_off_the_tree_has_something_below_the_root():
    parts = draw_path(row("bird/owls", "bird", off_tree=True))
    assert parts == (["bird"], ["something that the tree lacks"], ["owls"])


def test_every_held_out_image_is_there_with_every_answer():
    result = samples.comparison(2)
    page = render_report(result)
    check(page)
    assert page.count("<li data-facts=") == 200
    said = text(page)
    assert all(row.image in said for row in result.heldout[0].rows)
    cards = gallery.all_images(result)["cards"]
    assert {len(card["answers"]) for card in cards} == {3}
    # What got worse comes first, what did not change last; of the one without an answer the reason is told.
    directions = [[answer["direction"] for answer in card["answers"][1:]] for card in cards]
    assert "worse" in directions[0]
    assert set(directions[-1]) == {"unchanged"}
    assert "timed out after 60 s" in said


def test_what_the_filters_know_of_an_image():
    found = shown(samples.tune(n=1))
    facts = []
    for card in found["cards"]:
        (of_winner,) = json.loads(card["facts"])
        facts.append(of_winner)
    assert list(facts[0]) == ["change", "error", "placement", "confused"]
    assert facts[0]["placement"] == ["sure"]
    for choice in found["filters"]:
        offered = {value for group in choice["groups"].values() for value in group}
        known = {value for image in facts for value in image[choice["name"]]}
        assert known - {""} == offered
    assert [choice["name"] for choice in found["filters"]] == list(facts[0])
    stages = {answer["stage"] for card in found["cards"] for answer in card["answers"]}
    assert stages == {"verbatim, confidence 0.875", "verbatim, confidence 0.625: doubtful", None}


def test_pictures_are_small_copies_that_say_what_is_seen(tmp_path):
    result = samples.tune(n=1)
    files = pictures(tmp_path, result)
    del files["bird-005"]
    (tmp_path / "bird_006.png").unlink()
    page = render_report(replace(result, provenance=Provenance(images=files)))
    # The first is the example's.
    _, *images = [found for tag, found in check(page).elements if tag == "img"]
    assert len(images) == 198
    for found in images:
        assert str(found["src"]).startswith("data:image/jpeg;base64,")
        assert str(found["alt"]).startswith("common blackbird. baseline: ")
        assert ".png" not in str(found["alt"])
    assert "2 have no picture: the file is not where it was" in text(page)
    assert page.count(">no picture<") == 2
    assert len(page) < 4_000_000


def test_pictures_that_there_is_no_room_for_are_left_out_with_a_word(tmp_path, monkeypatch):
    monkeypatch.setattr("taxtune.report.gallery._MOST_BYTES", 200_000)
    result = samples.tune(n=1)
    provenance = Provenance(images=pictures(tmp_path, result))
    found = shown(replace(result, provenance=provenance))
    there = [card["picture"] is not None for card in found["cards"]]
    assert 0 < sum(there) < 200
    assert there == sorted(there, reverse=True)  # those whose answers changed have theirs first
    assert found["without_picture"] == 200 - sum(there)
    assert sum(len(card["picture"] or "") for card in found["cards"]) <= 200_000


TRUTHS = ["life/birds/owl"] * 4 + ["life/birds/jay"] * 2 + ["life/fish/cod"] * 2
NAMED = [
    *["life/birds/jay"] * 3,
    *["life/birds/owl"] * 2,
    "life/birds",
    "life/birds/jay",
    "life",
]
RUN = samples.answered(TRUTHS, baseline=NAMED, winner=["life/birds/jay", *TRUTHS[1:]])


def test_the_two_directions_of_a_confusion_are_counted_apart_and_the_stronger_leads():
    found = gallery.confused_pairs(RUN)
    assert found is not None
    (owl, jay, owls), (fish, birds, fishes) = found["pairs"]
    assert (owl[-1], jay[-1], fish[-1], birds[-1]) == ("owl", "jay", "fish", "birds")
    assert found["templates"] == ["baseline", "winner"]
    assert [(way["images"], way["counts"]) for way in owls] == [(4, [3, 1]), (2, [1, 0])]
    assert [(way["images"], way["counts"]) for way in fishes] == [(2, [1, 0]), (6, [0, 0])]
    page = text(render_report(RUN))
    assert "owl → jay in birds 4 3 1 1, 0 of 2" in page
    assert "fish → birds in life 2 1 0 0, 0 of 6" in page
    right = samples.answered(TRUTHS, winner=TRUTHS)
    assert gallery.confused_pairs(right) is None


def test_each_confusion_is_a_filter_of_the_images_that_any_template_confuses_so():
    found = shown(RUN)
    (confused,) = (choice for choice in found["filters"] if choice["name"] == "confused")
    names = confused["groups"][""]
    assert list(names.values()) == ["owl → jay", "jay → owl", "fish → birds"]
    images = {name: set() for name in names.values()}
    for card in found["cards"]:
        (facts,) = json.loads(card["facts"])
        for address in facts["confused"]:
            images[names[address]].add(card["image"])
    assert images == {
        "owl → jay": {"i0.png", "i1.png", "i2.png"},
        "jay → owl": {"i4.png"},
        "fish → birds": {"i6.png"},
    }


def test_a_box_is_drawn_on_its_photo(tmp_path):
    file = tmp_path / "grey.png"
    Image.new("RGB", (400, 200), "grey").save(file)
    data = gallery.small_jpeg(file, 100, Box(0.2, 0.2, 0.5, 0.6))
    drawn = Image.open(io.BytesIO(data))
    assert drawn.size == (100, 50)
    red, green, blue = drawn.getpixel((45, 10))
    assert min(red, blue) > green + 60
    inside = drawn.getpixel((45, 25))
    assert inside == pytest.approx((128, 128, 128), abs=12)
