"""`taxtune calibrate SCORES --then RUN`: a classifier's scores, then a model behind a local server."""

from __future__ import annotations

import csv
import json
import shutil

import pandas as pd
import pytest

import taxtune
from taxtune.classifier.cascade import Cascade
from taxtune.cli.cascade import calibrate_cascade
from taxtune.fieldguide import MANIFEST_FILE, TAXONOMY_FILE
from taxtune.images import load_image
from taxtune.models.image_urls import data_url
from taxtune.taxonomy import read_taxonomy
from taxtune.tuning.costs import CallCost
from tests.cli.commands import run_json, run_refused, run_well
from tests.servers import OpenAIServer

SMALL = (
    "data.count=40 data.tuning=6 data.first_rung=6 data.heldout=12 iterations=1 objective.kind=hp"
)
IMAGES = 140


@pytest.fixture(scope="module")
def rows():
    """The drawings that the run has not seen, each with its species."""
    with MANIFEST_FILE.open() as file:
        return [(row["image"], row["label"]) for row in csv.DictReader(file)][60 : 60 + IMAGES]


@pytest.fixture(scope="module")
def server(rows):
    """A model that knows all drawings but one in ten, of which it only says that it is a bird."""
    names = {}
    for i, (image, label) in enumerate(rows):
        url = data_url(load_image(MANIFEST_FILE.parent / image))
        names[url] = "bird" if i % 10 == 0 else label

    def answer(body):
        (url,) = (
            part["image_url"]["url"]
            for part in body["messages"][0]["content"]
            if "image_url" in part
        )
        return f"A: {names.get(url, 'bird')}."

    with OpenAIServer(answer) as running:
        yield running


@pytest.fixture(scope="module")
def tuned(server, rows, tmp_path_factory):
    """A folder with a run, photos.csv, and scores.csv that is sure of two drawings in three."""
    folder = tmp_path_factory.mktemp("cascade")
    vlm = f"vlm={{kind: api, model: openai/gpt-4o, api_base: '{server.api_base}'}}"
    given = (*SMALL.split(), vlm, "proposer={kind: fragments}", "tracking.mlflow=false")
    words = [word for each in given for word in ("--set", each)]
    run_well("tune", "fieldguide", *words, "--out=run", folder=folder)
    tree = read_taxonomy(TAXONOMY_FILE)
    with (folder / "photos.csv").open("w") as photos, (folder / "scores.csv").open("w") as scores:
        photos.write("image,label,burst\n")
        scores.write("image,label,score\n")
        for i, (image, label) in enumerate(rows):
            photos.write(f"{MANIFEST_FILE.parent / image},{label},{i // 2}\n")
            node = tree.resolve(label)
            siblings = tree.children(tree.parents[node]).tolist()
            other = tree.labels[siblings[siblings.index(node) - 1]]
            share = 0.4 if i % 3 == 0 else 0.97
            scores.write(f"{image},{label},{share}\n{image},{other},{0.98 - share}\n")
    return folder


@pytest.fixture
def here(tuned, tmp_path):
    return shutil.copytree(tuned, tmp_path / "here")


def words(*more, risk=0.3):
    asked = ["calibrate", "scores.csv", "--then=run", "--data=photos.csv", f"--risk={risk}"]
    return [*asked, *more]


def test_a_dry_run_tells_the_shares_that_scores_know_and_asks_nothing(here, server):
    before = len(server.chats)
    done = run_well(*words("--dry-run"), folder=here)
    assert len(server.chats) == before
    assert f"{IMAGES} images (photos.csv" in done.err
    assert f"= {IMAGES} VLM calls, 0 of them in the store" in done.err
    assert "0 of them in the store, the others for about $" in done.err
    shares = {}
    for line in done.out.splitlines():
        cells = line.split()
        if len(cells) == 5 and cells[1][0].isdigit():
            shares[cells[0]] = (cells[1], cells[2])
    third = f"{100 * 47 / IMAGES:.1f}"
    assert shares["0.900"] == (third, f"{10_000 * 47 / IMAGES:,.0f}")
    assert shares["0.990"] == shares["–"] == ("100.0", "10,000")
    rows = run_json(*words("--dry-run"), folder=here)["tables"]["shares"]
    assert [row["asked, %"] for row in rows] == sorted(row["asked, %"] for row in rows)
    assert not (here / "calibration.json").exists()


def test_the_price_list_is_printed_and_kept_with_its_picture(here, server):
    before = len(server.chats)
    done = run_well(*words(), folder=here)
    assert len(server.chats) == before + IMAGES
    found = Cascade.read(here / "calibration.json")
    point = found.chosen
    assert 0 < point.asked == pytest.approx(47 / IMAGES)
    assert (point.second, found.policy["kind"]) == (point.level.threshold, "direct")
    assert found.points[-1].asked == 1
    assert found.points[-1].hr < point.hr
    assert found.points[0].hr < point.hr - 0.01
    assert found.images == IMAGES
    assert (here / found.run).samefile(here / "run")
    assert json.loads((here / "calibration.json").read_text())["run"] == "run"
    assert found.call.usd > 0
    assert found.call.answers == IMAGES  # those to other prompts may cost otherwise
    assert (here / "calibration.png").stat().st_size > 10_000
    rows = [line.split() for line in done.out.splitlines()]
    (chosen,) = (row for row in rows if row[-1:] == ["chosen"])
    assert chosen[0] == "both"
    assert chosen[3:5] == ["33.6", "3,357"]
    assert float(chosen[5]) == pytest.approx(3357 * found.call.usd, abs=0.01)
    assert [row[0] for row in rows if row[-1:] == ["kept"]][:: len(rows)] == ["scores"]
    assert "the mean of 1 - hP is at most 0.3 with 90 % confidence" in done.out
    assert "asking about 33.6 % of the images" in done.out
    assert "A node needs 0.8 of the scores to be done, else 0.9 of them or " in done.out
    # Answers are stored: other promises and points cost nothing.
    again = run_json(*words("--force", "--promise=labels", "--rank=family"), folder=here)
    assert len(server.chats) == before + IMAGES
    assert (again["promise"], again["rank"], again["wanted"]) == ("labels", "family", "family")
    assert max(point["asked"] for point in again["points"][1:4]) == 0


def test_a_point_is_chosen_by_its_price_or_by_its_hr(here):
    run_well(*words("--budget=0"), folder=here)
    cheap = Cascade.read(here / "calibration.json")
    alone = cheap.points[0]
    assert cheap.chosen == alone
    usual = cheap.choose()
    assert usual.chosen.asked > 0
    assert usual.choose(hr=alone.hr - 0.01) == cheap
    price = 10_000 * usual.chosen.asked * usual.call.usd
    assert usual.choose(budget=price * 1.001).chosen == usual.chosen
    assert usual.choose(budget=price * 0.9).chosen == alone
    highest = f"{max(point.hr for point in usual.points):.3f}"
    error = run_refused(*words("--hr=1", "--force"), folder=here)
    assert f"The highest hR is {highest}." in error
    with pytest.raises(taxtune.TaxtuneError, match=f"The highest hR is {alone.hr:.3f}"):
        usual.choose(hr=1, budget=price * 0.9)


def test_a_model_without_probabilities_is_asked_once(here, server):
    before = len(server.chats)
    error = run_refused(*words("--policy=posterior"), folder=here)
    assert "The model gives no probabilities of its answers" in error
    assert len(server.chats) == before + 1


def test_that_the_model_adds_nothing_is_said(here):
    text = (here / "scores.csv").read_text()
    (here / "scores.csv").write_text(text.replace(",0.4\n", ",0.97\n").replace(",0.58", ",0.01"))
    done = run_well(*words(), folder=here)
    assert "The model adds nothing at this promise" in done.out
    assert Cascade.read(here / "calibration.json").place == 0


def test_what_cannot_be_kept_is_told(here):
    rows = (here / "photos.csv").read_text().splitlines()
    labels = [row.split(",")[1] for row in rows[1:]]
    wrong = [rows[0]]
    for row, label in zip(rows[1:], [*labels[7:], *labels[:7]], strict=True):
        image, _, burst = row.split(",")
        wrong.append(f"{image},{label},{burst}")
    (here / "photos.csv").write_text("\n".join(wrong))
    done = run_well(*words(), folder=here)
    assert "Only always answering the root keeps the risk of 0.3" in done.out
    found = Cascade.read(here / "calibration.json")
    assert found.place is None
    with pytest.raises(taxtune.TaxtuneError, match="Only always answering the root"):
        _ = found.chosen
    error = run_refused(*words("--images=5", "--force", risk=0.05), folder=here)
    assert "5 images cannot show that the risk is kept" in error


def test_images_without_scores_are_left_out_and_counted(here):
    lines = (here / "scores.csv").read_text().splitlines()
    (here / "scores.csv").write_text("\n".join(lines[:-20]))
    done = run_well(*words("--images=100"), folder=here)
    assert f"10 of {IMAGES} labelled images have no scores" in done.err
    found = Cascade.read(here / "calibration.json")
    assert (found.images, found.missing) == (100, 10)
    assert "100 images: photos.csv" in done.out
    (here / "scores.csv").write_text("image,label,score\nx.png,mallard,1\n")
    assert "The scores are of other images" in run_refused(*words("--force"), folder=here)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--truth=photos.csv"], "--truth: only for scores alone; with --then, labels and groups"),
        (["--group=burst"], "--group: only for scores alone"),
        (["--risk=2"], "The risk must be between 0 and 1"),
        (["--rank=tribe"], "The tree has no such rank"),
        (["--then=elsewhere"], "elsewhere"),
    ],
)
def test_what_makes_no_sense_is_refused(more, said, here, server):
    before = len(server.chats)
    assert said in run_refused(*words(*more), folder=here)
    assert len(server.chats) == before
    assert not (here / "calibration.json").exists()


def test_points_are_chosen_of_cascades_alone(here):
    for what in (["run"], ["scores.csv", "-t", TAXONOMY_FILE, "--truth=photos.csv"]):
        error = run_refused("calibrate", *what, "--risk=.3", "--budget=5", folder=here)
        assert "--budget: only for scores with --then RUN" in error


class Unpriced:
    """A calibration of a model whose price is not known, which must not be begun."""

    call = CallCost()

    def cascade(self):
        raise AssertionError("it was asked")


def test_a_budget_without_a_price_is_refused_before_anything_is_asked(tmp_path):
    options = {"dry_run": False, "force": False, "as_json": False}
    with pytest.raises(taxtune.TaxtuneError, match="What a call costs is not known"):
        calibrate_cascade(Unpriced(), tmp_path / "out.json", 5.0, None, **options)


def test_a_cascade_is_calibrated_and_labels_in_python(here, rows, server, monkeypatch):
    monkeypatch.chdir(here)
    records = list(csv.DictReader((here / "scores.csv").open()))
    asked = {"risk": 0.3, "data": "photos.csv", "policy": "self_consistency", "samples": 2}
    found = taxtune.calibrate_cascade(records, "run", **asked, rank=3, progress=False)
    assert found.wanted == "3"
    assert found.samples == 2
    assert found.policy == {"kind": "self_consistency", "samples": 2, "threshold": 0.7}
    assert found.temperature == 1
    (here / "deep").mkdir()
    found.choose(budget=0).write("deep/cheap.json")
    cheap = Cascade.read("deep/cheap.json")
    assert cheap.place == 0
    assert cheap.run == found.run
    found.choose(hr=max(point.hr for point in found.points if point.kept)).write("deep/best.json")
    classifier = taxtune.load_cascade("deep/best.json", {"vlm.max_tokens": 200})
    images = [MANIFEST_FILE.parent / image for image, _ in rows[1:4]]
    scores = [{records[2 * i]["label"]: 0.97} for i in (1, 2)]
    before = len(server.chats)
    given = pd.DataFrame({"image": images, "scores": [*scores, {"bird": 0.9}]}, dtype=object)
    labels = classifier.classify(given)
    known = [classifier.taxonomy.resolve(name) for _, name in rows[1:4]]
    assert [label.placed.node for label in labels] == known
    assert [label.source for label in labels] == ["scores", "scores", "model"]
    assert classifier.model.settings.max_tokens == 200
    assert len(server.chats) == before + 2
