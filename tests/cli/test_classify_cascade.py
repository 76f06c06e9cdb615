"""`taxtune classify` by a classifier's scores, then a run behind a server: whom it asks, when, and for how much."""

from __future__ import annotations

import base64
import csv
import io
import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

from taxtune.classifier.classifier import COLUMNS
from taxtune.classifier.labels import UNPAID
from taxtune.cli.classify import named_classifier
from tests.cli.commands import run_captured, run_refused, run_well
from tests.servers import BatchServer, OpenAIServer, status
from tests.serving.samples import site_of
from tests.tuning.toy import COLOURS, PARENT, Sight, make_files

#: What scores say of a photo: nothing, its family, or its shade.
VAGUE, FAMILY, SURE = "vague", "family", "sure"
KINDS = (SURE, FAMILY, SURE, VAGUE)
#: Of each colour.
LABELLED = 50
NEW = 4
#: The photos that are not sure, in the order of their names.
VAGUE_COLOURS = ("azure", "crimson", "navy", "scarlet")
FAMILY_COLOURS = ("azure", "crimson", "navy", "scarlet")
SERVED = {SURE: "azure-101", VAGUE: "navy-101", FAMILY: "crimson-100"}


def photo(folder, colour, n):
    """Saves a photo of a colour and returns its name."""
    red, _, blue = COLOURS[colour]
    name = f"{colour}-{n}.png"
    Image.new("RGB", (8, 8), (red, n % 30, blue + n // 30)).save(folder / name)
    return name


def scores_of(colour, kind):
    """The scores of a photo, by shade."""
    if kind == SURE:
        return {colour: 0.9998}
    if kind == VAGUE:
        return dict.fromkeys(COLOURS, 0.25)
    return {shade: 0.4999 for shade in COLOURS if PARENT[shade] == PARENT[colour]}


def write_scores(file, kinds):
    """Writes the scores of photos, each called by its colour and a number."""
    rows = ["image,label,score"]
    for name, kind in kinds.items():
        colour, _, _ = name.partition("-")
        rows += [f"{name},{shade},{score}" for shade, score in scores_of(colour, kind).items()]
    file.write_text("\n".join(rows) + "\n")


def colour_of(body):
    """The shade that is seen on the photo of a request."""
    parts = body["messages"][-1]["content"]
    address = next(part["image_url"]["url"] for part in parts if part["type"] == "image_url")
    with Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2]))) as image:
        return Sight.of(image).shade


def knows(body):
    """The script of a server that sees every shade."""
    return f"A: {colour_of(body)}."


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a run, its calibration with scores, and photos whose scores are in new.csv."""
    folder = tmp_path_factory.mktemp("cascade")
    make_files(folder / "in")
    (folder / "known").mkdir()
    kinds = {}
    rows = ["image,label"]
    for colour in COLOURS:
        for n in range(LABELLED):
            name = photo(folder / "known", colour, n)
            kinds[name] = KINDS[n % 4]
            rows.append(f"{name},{colour}")
    (folder / "known" / "photos.csv").write_text("\n".join(rows) + "\n")
    write_scores(folder / "scores.csv", kinds)
    (folder / "photos").mkdir()
    new = {}
    for i, colour in enumerate(COLOURS):
        for n in range(NEW):
            new[photo(folder / "photos", colour, 100 + n)] = KINDS[(i + n) % 4]
    write_scores(folder / "new.csv", new)
    with pytest.MonkeyPatch.context() as patch, OpenAIServer(knows) as server:
        patch.setenv("OPENAI_API_KEY", "sk-test")
        api = {"kind": "api", "model": "openai/gpt-4o", "api_base": server.api_base}
        given = [f"--set=vlm={json.dumps(api)}", "--set=iterations=1"]
        run_well("tune", "in/recipe.yaml", *given, "--out=run", folder=folder)
        calibrate(folder, "--risk=0.1")
    return folder


def calibrate(folder, *more):
    known = ["--then=run", "--data=known/photos.csv", "--force"]
    return run_well("calibrate", "scores.csv", *known, *more, folder=folder)


@pytest.fixture
def here(made, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    return shutil.copytree(made, tmp_path / "here")


def classify(here, server, *more, out="labels.csv", code=0):
    """Labels the photos, asking one question at a time; returns what was said, and the rows."""
    given = ["--scores=new.csv", f"--set=vlm.api_base={server.api_base}", "--set=vlm.concurrency=1"]
    given += [f"--out={out}", "--force", *more]
    done = run_captured("classify", "calibration.json", "photos", *given, folder=here)
    assert done.code == code, done.err
    return done, rows_of(here / out) if (here / out).exists() else []


def rows_of(file):
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def asked_about(server):
    """The shades of the photos that the server was asked about, in order."""
    return [colour_of(chat.json) for chat in server.chats]


def kind_of(row):
    colour, n = Path(row["image"]).stem.split("-")
    return KINDS[(list(COLOURS).index(colour) + int(n)) % 4]


def sources(rows):
    return Counter((kind_of(row), row["source"]) for row in rows)


def truths(here):
    rows = [f"{file.name},{file.stem.partition('-')[0]}" for file in (here / "photos").iterdir()]
    (here / "truth.csv").write_text("\n".join(["image,label", *rows]) + "\n")
    return "--truth=truth.csv"


def change_record(here, *, alone=True, usd=1.0, **changes):
    """Changes the calibration: whether the model alone keeps the promise, what a call costs, and fields."""
    file = here / "calibration.json"
    record = json.loads(file.read_text()) | changes
    record["points"][-1]["level"]["kept"] = alone
    record["call"]["usd"] = usd
    file.write_text(json.dumps(record))


def test_only_photos_whose_scores_do_not_say_enough_are_asked_about_the_vaguest_first(here):
    with OpenAIServer(knows) as server:
        done, rows = classify(here, server, truths(here))
        assert asked_about(server) == [*VAGUE_COLOURS, *FAMILY_COLOURS]
        printed = run_well(
            *("classify", "calibration.json", "photos", "--scores=new.csv"),
            f"--set=vlm.api_base={server.api_base}",
            folder=here,
        )
        assert len(server.chats) == 8  # answers are kept
    assert tuple(rows[0]) == (*COLUMNS, "source")
    names = [f"photos/{file.name}" for file in sorted((here / "photos").iterdir())]
    assert [row["image"] for row in rows] == names
    for row in rows:
        assert row["placement"].endswith(Path(row["image"]).stem.partition("-")[0])
        assert (row["answer"] == "") == (kind_of(row) == SURE)
    assert sources(rows) == {(SURE, "scores"): 8, (FAMILY, "model"): 4, (VAGUE, "model"): 4}
    assert float(rows[0]["confidence"]) < 0.9 < float(rows[1]["confidence"])
    assert "8 of 16 images are asked about" in done.err
    assert "labelled by: model 8, scores 8" in done.err
    assert "16 images with a true label: 0 wrong, 0 right, but general, 16 exact" in done.err
    assert "so that the risk of 0.1 is kept on these" in done.err
    assert printed.out == (here / "labels.csv").read_text()


def test_a_budget_is_spent_on_the_vaguest_and_the_rest_keeps_what_scores_say(here):
    price = json.loads((here / "calibration.json").read_text())["call"]["usd"]
    with OpenAIServer(knows) as server:
        done, rows = classify(here, server, f"--budget={5.5 * price}", truths(here))
        assert asked_about(server) == [*VAGUE_COLOURS, FAMILY_COLOURS[0]]
        left = [row for row in rows if row["failure"]]
        assert {row["placement"] for row in left} == {"colour/reddish", "colour/bluish"}
        assert {(row["source"], row["failure"]) for row in left} == {("scores", UNPAID)}
        review = rows_of(here / "labels-review.csv")
        assert [row["why"] for row in review] == ["not asked"] * 3
        assert "3 to review: 3 not asked" in done.err
        assert "the mean of 1 - hP is at most 0.1 with 90 % confidence" in done.err
        assert "the risk of 0.1 is kept on these" in done.err
        done, rows = classify(here, server, f"--budget={2 * price}")  # stored answers are free
        assert len(server.chats) == 7
        done, rows = classify(here, server)
        assert len(server.chats) == 8
    assert not any(row["failure"] for row in rows)
    change_record(here, usd=None)
    with OpenAIServer() as server:
        done, _ = classify(here, server, "--budget=1", code=2)
    assert "What a call costs is not known" in done.err


def test_a_photo_without_an_answer_keeps_what_scores_say(here):
    def script(body):
        return status(400, "no such colour") if colour_of(body) == "navy" else knows(body)

    with OpenAIServer(script) as server:
        done, rows = classify(here, server)
    failed = [row for row in rows if row["failure"]]
    assert [(row["placement"], row["source"]) for row in failed] == [
        ("colour", "scores"),
        ("colour/bluish", "scores"),
    ]
    assert all("no such colour" in row["failure"] for row in failed)
    assert "2 to review: 2 failed" in done.err
    assert "the mean of 1 - hP is at most 0.1" in done.err


def test_what_is_stopped_goes_on_and_pays_once(here):
    said = [f"A: {colour}." for colour in (*VAGUE_COLOURS, *FAMILY_COLOURS)]
    with OpenAIServer(*said[:3], status(401), *said[3:]) as server:
        done, rows = classify(here, server, code=2)
        assert rows == []
        assert "Incorrect API key" in done.err
        done, rows = classify(here, server)
        asked = asked_about(server)
    assert asked == [*VAGUE_COLOURS, VAGUE_COLOURS[3], *FAMILY_COLOURS]
    assert not any(row["failure"] for row in rows)


def test_all_questions_are_one_batch(here):
    with BatchServer(knows) as server:
        done, rows = classify(here, server, "--batch", code=75)
        assert rows == []
        assert "8 questions are with the provider" in done.err
        server.end()
        done, rows = classify(here, server, "--resume")
        assert not server.chats
    assert len(server.batches) == 1
    assert sources(rows)[VAGUE, "model"] == 4


def test_a_budget_is_spent_in_one_batch(here):
    price = json.loads((here / "calibration.json").read_text())["call"]["usd"]
    with BatchServer(knows) as server:
        classify(here, server, "--batch", f"--budget={5.5 * price}", code=75)
        server.end()
        _, rows = classify(here, server, "--resume", f"--budget={5.5 * price}")
        (batch,) = server.batches
        assert len(server.lines(batch)) == 5
    assert [row["failure"] for row in rows if row["failure"]] == [UNPAID] * 3


def test_the_scores_alone_need_no_model(here, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    change_record(here, place=0)
    given = ["calibration.json", "photos", "--scores=new.csv", "--out=labels.csv"]
    done = run_well("classify", *given, folder=here)
    assert "0 of 16 images are asked about" in done.err
    assert "labelled by: scores 16" in done.err
    rows = rows_of(here / "labels.csv")
    assert [row["image"] for row in rows] == sorted(row["image"] for row in rows)
    assert Counter(row["placement"].count("/") for row in rows) == {2: 8, 1: 8}
    change_record(here, place=None)
    said = run_refused("classify", *given, "--force", folder=here)
    assert "Only always answering the root keeps the promise." in said


def test_photos_without_scores_are_labelled_by_the_model_alone_where_it_keeps_the_promise(here):
    write_scores(here / "new.csv", {"azure-101.png": SURE, "navy-101.png": VAGUE})
    with OpenAIServer(knows) as server:
        done, rows = classify(here, server)
        assert len(server.chats) == 15
        assert "15 of 16 images are asked about; 14 have no scores" in done.err
        assert Counter(row["source"] for row in rows) == {"model": 15, "scores": 1}
        change_record(here, alone=False)
        done, rows = classify(here, server)
        assert len(server.chats) == 15
    assert "1 of 16 images are asked about" in done.err
    (said,) = (line for line in done.err.splitlines() if "labelled by" in line)
    assert "14" not in said
    lacking = [row for row in rows if row["failure"]]
    assert {(row["placement"], row["source"]) for row in lacking} == {("", "")}
    assert {row["failure"] for row in lacking} == {"There are no scores."}
    assert len(lacking) == 14


def test_several_answers_are_asked_for_as_in_the_calibration(here):
    policy = {"kind": "self_consistency", "samples": 2, "threshold": 0.7}
    change_record(here, policy=policy, samples=2, temperature=0.7)
    with OpenAIServer(knows) as server:
        done, rows = classify(here, server)
    assert {chat.json["temperature"] for chat in server.chats} == {0.7}
    assert len(server.chats) == 16
    assert "8 of 16 images are asked about × 2 answers = 16 VLM calls" in done.err
    assert {row["answer"].partition("(")[2] for row in rows} == {"", "2 of 2)"}


def test_nothing_is_promised_of_a_share_of_labels_before_all_have_an_answer(here):
    with OpenAIServer() as server:
        calibrate(here, "--risk=0.1", "--promise=labels", f"--answers={here / 'answers.db'}")
        promised, _ = classify(here, server, "--budget=0", truths(here))
    assert "nothing is promised of the labels before 8 images more have an answer" in promised.err
    assert "calibration at most" not in promised.err
    assert "kept on these" not in promised.err
    with OpenAIServer(knows) as server:
        promised, _ = classify(here, server, truths(here))
    assert "at most 10 % of the labels given are wrong with 90 % confidence" in promised.err
    assert "kept on these" in promised.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["calibration.json"], "The images need scores. Add --scores FILE."),
        (["calibration.json", "--scores=other.csv"], "The scores are of other images"),
        (["calibration.json", "--candidates=new.csv"], "--candidates: only for a run."),
        (["calibration.json", "--policy=direct"], "--policy: only for a run."),
        (["run", "--scores=new.csv"], "--scores: only for calibrations of scores."),
        (["run", "--budget=5"], "--budget: only for calibrations of scores."),
    ],
)
def test_what_does_not_go_together_is_refused(here, arguments, said):
    write_scores(here / "other.csv", {"azure-7.png": SURE})
    run, *more = arguments
    assert said in run_refused("classify", run, "photos", *more, folder=here)


def test_a_run_that_is_gone_is_told_as_that_of_the_calibration(here):
    (here / "run").rename(here / "elsewhere")
    error = run_refused("classify", "calibration.json", "photos", "--scores=new.csv", folder=here)
    assert "run: The run of the calibration is gone" in error
    assert "Move both together, or calibrate again" in error


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"place": 9}, "The price list has no such point. (got 9)"),
        ({"place": -1}, "The price list has no such point. (got -1)"),
        ({"format": "taxtune cascade 2"}, "The file is no calibration of scores and a run"),
    ],
)
def test_a_record_that_was_edited_or_is_of_another_version_is_refused(here, changes, said):
    change_record(here, **changes)
    arguments = ("classify", "calibration.json", "photos", "--scores=new.csv")
    assert said in run_refused(*arguments, folder=here)


def test_another_run_than_that_of_the_calibration_is_refused(here):
    change_record(here, template="Which colour?")
    said = run_refused("classify", "calibration.json", "photos", "--scores=new.csv", folder=here)
    assert "another template or another tree" in said
    assert "taxtune calibrate SCORES --then RUN" in said


def test_a_list_of_images_with_a_column_of_its_name_is_refused(here):
    (here / "list.csv").write_text("image,source\nphotos/azure-101.png,camera 1\n")
    said = run_refused("classify", "calibration.json", "list.csv", "--scores=new.csv", folder=here)
    assert "a column 'source' already" in said


def test_its_promise_is_watched(here):
    with OpenAIServer(knows) as server:
        classify(here, server)
    run_well("audit", "labels.csv", "--of=calibration.json", "--n=5", folder=here)
    drawn = rows_of(here / "labels-audit.csv")
    assert 0 < len(drawn) <= 5
    assert {row["source"] for row in drawn} <= {"scores", "model"}
    truths = [row | {"truth": "crimson"} for row in drawn]  # which most of them are not
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, truths[0])
    writer.writeheader()
    writer.writerows(truths)
    (here / "labels-audit.csv").write_text(text.getvalue())
    told = run_captured("audit", "labels.csv", "--of=calibration.json", "--n=5", folder=here)
    assert "On images like those of the calibration the mean of 1 - hP is at most 0.1" in told.out


def test_it_is_served(here):
    images = {kind: here / "photos" / f"{name}.png" for kind, name in SERVED.items()}
    rows = []
    for kind, file in images.items():
        content = base64.b64encode(file.read_bytes()).decode()
        scores = scores_of(file.stem.partition("-")[0], kind)
        rows.append({"image": content, "scores": scores})
    with OpenAIServer(knows) as server:
        site = site_of(served(here, server))
        reply = site.post("/invocations", json={"dataframe_records": rows}).json()
        assert len(server.chats) == 2
        alone = site.post("/invocations", json={"inputs": [rows[0]["image"]]}).json()
        assert len(server.chats) == 3
        bad = rows[0] | {"scores": {"azure": 7}}
        refused = site.post("/invocations", json={"dataframe_records": [bad]})
        page = site.get("/").text
    found = [(row["placement"], row["source"]) for row in reply["predictions"]]
    assert found == [
        ("colour/bluish/azure", "scores"),
        ("colour/bluish/navy", "model"),
        ("colour/reddish/crimson", "model"),
    ]
    (row,) = alone["predictions"]
    assert (row["placement"], row["source"]) == ("colour/bluish/azure", "model")
    assert refused.status_code == 400
    assert "no probability" in refused.json()["message"]
    assert "Photos on this page have none: the model alone labels them." in page
    change_record(here, alone=False)
    with OpenAIServer() as server:
        page = site_of(served(here, server)).get("/").text
    assert "Photos on this page have none: they get no label." in page


def served(here, server):
    settings = [f"vlm.api_base={server.api_base}"]
    return named_classifier(here / "calibration.json", "run", settings)
