"""The page in a browser: photos are chosen and dropped, and what is shown can be read with and without eyes."""

from __future__ import annotations

import base64
import csv
import re
import shutil
import socket
import threading
import time
from pathlib import Path

import pytest
from PIL import UnidentifiedImageError

from taxtune.classifier import Reliability
from taxtune.classifier.classifier import COLUMNS
from taxtune.errors import ModelError
from taxtune.models import Failure
from taxtune.serving import app as serving_app
from taxtune.serving.app import make_app
from taxtune.serving.pyfunc import ServedClassifier
from tests.serving.samples import toy
from tests.tuning.toy import BicycleMapper, Cyclist


class Moody(Cyclist):
    """Takes what is murky for a bicycle; is down where it is told to be."""

    down = False
    seconds = 0.0

    def answer(self, questions):
        if self.down:
            raise ModelError("The server of the model is down.")
        time.sleep(self.seconds)
        try:
            return super().answer(questions)
        except UnidentifiedImageError:
            return [Failure("This is not an image.", retryable=False)] * len(questions)


@pytest.fixture(scope="module")
def model():
    return Moody()


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return tmp_path_factory.mktemp("photos")


@pytest.fixture(scope="module")
def site(model, photos):
    """The address of a server of coloured squares."""
    import uvicorn

    mapper = BicycleMapper(toy(photos).taxonomy)
    classifier = toy(
        photos, model, mapper=mapper, reliability=Reliability(((4,), (4, 3), (400, 399, 250)))
    )
    with pytest.MonkeyPatch.context() as patch, socket.socket() as here:
        patch.setattr(serving_app, "MAX_BYTES", 4096)
        here.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{here.getsockname()[1]}"
        server = uvicorn.Server(
            uvicorn.Config(
                make_app(ServedClassifier(classifier, content_only=True), address),
                log_level="error",
            )
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [here]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield address
        server.should_exit = True
        thread.join()


@pytest.fixture
def page(browser, site):
    """The page in a context of its own; at the end nothing may have broken the policy or asked another server."""
    context = browser.new_context()
    opened, complaints = context.new_page(), []
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on(
        "console", lambda told: complaints.append(told.text) if "503" not in told.text else None
    )
    opened.on(
        "request",
        lambda sent: (
            None if sent.url.startswith((site, "data:", "blob:")) else complaints.append(sent.url)
        ),
    )
    opened.goto(site)
    yield opened
    context.close()
    assert complaints == []


def choose(page, file):
    """Chooses a photo and waits for what comes of it."""
    from playwright.sync_api import expect

    page.set_input_files("#photo", file)
    expect(page.get_by_role("status")).not_to_have_text(re.compile(r"^$|^Asking"))


def test_a_photo_gets_its_node_with_the_way_there(page, photos):
    choose(page, photos / "scarlet0.png")
    assert page.get_by_role("heading", level=2).inner_text() == "scarlet"
    rows = page.get_by_role("row").all()[1:]
    names = [row.get_by_role("rowheader").inner_text() for row in rows]
    assert names == ["colour", "reddish", "scarlet"]
    # What is not certain is never shown as 100 %.
    assert [row.get_by_role("cell").last.inner_text().strip() for row in rows] == [
        "100 %",
        "> 99 %",
        "62 %",
    ]
    widths = [row.locator(".bar i").bounding_box()["width"] for row in rows]
    assert widths == sorted(widths, reverse=True)
    assert 0.55 < widths[2] / widths[0] < 0.7
    assert page.locator("#answer").inner_text() == "A: scarlet."
    assert (
        page.get_by_role("img", name="Your photo scarlet0.png").evaluate(
            "image => image.naturalWidth"
        )
        == 16
    )
    assert page.get_by_role("status").inner_text() == "scarlet: 62 % sure"


def test_a_model_that_is_down(page, photos, model, monkeypatch):
    monkeypatch.setattr(model, "down", True)
    choose(page, photos / "scarlet0.png")
    assert "No answer: The server of the model is down." in page.get_by_role("status").inner_text()
    assert not page.locator("#result").is_visible()


def labels(page):
    """The rows of the table of several photos."""
    return [
        row.locator("th, td").all_inner_texts() for row in page.locator("#labels tbody tr").all()
    ]


def download(page):
    """The rows of the CSV file."""
    with page.expect_download() as started:
        page.get_by_role("link", name="Download CSV").click()
    assert started.value.suggested_filename == "labels.csv"
    return list(
        csv.DictReader(Path(started.value.path()).read_text(encoding="utf-8-sig").splitlines())
    )


def test_several_photos_are_listed_and_given_as_csv(page, photos, tmp_path):
    (tmp_path / "broken.png").write_bytes(b"not a PNG")
    (tmp_path / "large.png").write_bytes(b"x" * 5000)
    shutil.copy(photos / "azure0.png", tmp_path / "=1+1.png")
    files = [photos / "scarlet0.png", tmp_path / "=1+1.png", photos / "scarlet4.png"]
    page.set_input_files("#photo", [*files, tmp_path / "broken.png", tmp_path / "large.png"])
    page.get_by_text("5 photos done; 2 without an answer.").wait_for()
    assert labels(page) == [
        ["scarlet0.png", "scarlet", "62 %"],
        ["=1+1.png", "azure", "62 %"],
        ["scarlet4.png", "Not on the tree", ""],
        ["broken.png", "No answer", ""],
        ["large.png", "No answer", ""],
    ]
    assert not page.locator("#result").is_visible()
    page.get_by_role("button", name="=1+1.png").click()
    assert page.get_by_role("heading", level=2).inner_text() == "azure"
    assert (
        page.get_by_role("img", name="Your photo =1+1.png").evaluate("image => image.naturalWidth")
        == 16
    )
    rows = download(page)
    assert [row["image"] for row in rows] == [
        "scarlet0.png",
        "'=1+1.png",
        "scarlet4.png",
        "broken.png",
        "large.png",
    ]
    assert tuple(rows[0]) == COLUMNS
    assert (rows[0]["placement"], rows[0]["answer"]) == ("colour/reddish/scarlet", "A: scarlet.")
    assert [row["off_tree"] for row in rows[:3]] == ["false", "false", "true"]
    assert rows[3]["failure"] == "This is not an image."
    assert "the limit is" in rows[4]["failure"]


def test_a_folder_with_what_else_is_in_it(page, photos, tmp_path):
    trip = tmp_path / "trip"
    (trip / "May").mkdir(parents=True)
    for name in ("navy0.png", "azure0.png"):
        shutil.copy(photos / name, trip / "May" / name)
    (trip / "notes.txt").write_text("Sunny.")
    page.set_input_files("#folder", trip)
    page.get_by_text("2 photos done.").wait_for()
    assert [row[:2] for row in labels(page)] == [
        ["trip/May/azure0.png", "azure"],
        ["trip/May/navy0.png", "navy"],
    ]
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "notes.txt").write_text("Rain.")
    page.set_input_files("#folder", tmp_path / "empty")
    page.get_by_text("There is no photo in it").wait_for()
    assert not page.locator("#several").is_visible()


def test_many_photos_can_be_stopped(page, photos, model, monkeypatch):
    monkeypatch.setattr(model, "seconds", 0.3)
    page.set_input_files(
        "#photo", [photos / f"{name}{i}.png" for name in ("navy", "azure") for i in range(5)] * 3
    )
    page.locator("#labels tbody tr").nth(1).wait_for()
    page.get_by_role("button", name="Stop").click()
    page.get_by_text(re.compile(r"\d+ of 30 photos done")).wait_for()
    assert 2 <= len(download(page)) == len(labels(page)) < 30


def test_a_photo_can_be_dropped_anywhere(page, photos):
    content = base64.b64encode((photos / "azure0.png").read_bytes()).decode()
    held = page.evaluate_handle(
        """content => {
            const held = new DataTransfer();
            const bytes = Uint8Array.from(atob(content), (c) => c.charCodeAt(0));
            held.items.add(new File([bytes], "azure0.png", { type: "image/png" }));
            return held;
        }""",
        content,
    )
    page.dispatch_event("h1", "dragover", {"dataTransfer": held})
    assert page.locator("body.over").count() == 1
    page.dispatch_event("h1", "drop", {"dataTransfer": held})
    page.get_by_role("heading", name="azure").wait_for()
    assert page.locator("body.over").count() == 0


@pytest.mark.parametrize(("width", "scheme"), [(320, "light"), (1280, "dark")])
def test_it_fits_every_width_in_both_schemes(page, photos, width, scheme):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    choose(page, photos / "scarlet0.png")
    page.get_by_text("About this classifier").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.set_input_files("#photo", [photos / "scarlet0.png", photos / "navy0.png"])
    page.get_by_text("2 photos done.").wait_for()
    page.get_by_role("button", name="navy0.png").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    colours = "['color', 'backgroundColor'].map((name) => getComputedStyle(document.body)[name].match(/\\d+/)[0])"
    ink, paper = map(int, page.evaluate(colours))
    assert (ink < paper) == (scheme == "light")
