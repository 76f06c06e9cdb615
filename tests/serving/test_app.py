"""The server of a classifier, in this process and behind a port."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import socket
import threading
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
from PIL import Image

from taxtune.classifier import Reliability, RiskGuarantee
from taxtune.data.boxes import Boxes
from taxtune.errors import ModelError
from taxtune.models import Failure, make_model
from taxtune.policies import Posterior, SelfConsistency
from taxtune.serving import app as serving_app
from taxtune.serving.app import make_app
from taxtune.serving.pyfunc import ServedClassifier, few_at_once
from taxtune.untrusted import spreadsheet_cell
from tests.servers import OpenAIServer, Reply, model_settings
from tests.serving.samples import in_base64, site_of, toy
from tests.tuning.toy import ToyVLM


def test_the_page_loads_and_runs_only_what_its_policy_names(tmp_path):
    reply = site_of(toy(tmp_path)).get("/")
    assert reply.status_code == 200
    policy = reply.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for element in ("script", "style"):
        (content,) = re.findall(rf"<{element}>(.*?)</{element}>", reply.text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{element}-src 'sha256-{digest}'" in policy
    assert not re.findall(r"(?:src|href)=[\"'](?!data:)", reply.text)
    assert " style=" not in reply.text


def test_the_page_is_about_the_classifier(tmp_path):
    page = site_of(toy(tmp_path, reliability=Reliability(((1,), (1, 1), (1, 1, 1))))).get("/").text
    for said in (
        "toy &amp; co",
        "What is this?",
        "6 below colour",
        "held-out images went as deep",
        "127.0.0.1:8000",
        "asks toy about",
    ):
        assert said in page
    promise = RiskGuarantee(0.02, 0.9, 300)
    classifier = toy(tmp_path, policy=SelfConsistency(4, 0.5), guarantee=promise)
    page = site_of(classifier).get("/").text
    classifier.broken = "the promise is broken since label 3 of 40 (a.jpg)"
    assert classifier.broken not in page
    assert f"<strong>{classifier.broken}.</strong>" in site_of(classifier).get("/").text
    assert "asked about 4 times" in page
    assert (
        "On photos of the same kind the mean of 1 - hP is at most 0.02 with 90 % confidence" in page
    )
    assert "from 300 images" in page
    assert "whole photos" not in page
    of_names = site_of(toy(tmp_path, policy=Posterior(0.7))).get("/").text
    assert "The probability that the model gives to the label" in of_names
    classifier.boxes = Boxes()
    page = site_of(classifier).get("/").text
    assert "On boxes in photos of the same kind the mean of 1 - hP is at most 0.02" in page
    assert "This page asks about whole photos, of which nothing is promised." in page


def test_images_in_json(tmp_path):
    site = site_of(toy(tmp_path))
    images = [in_base64(tmp_path / name) for name in ("scarlet0.png", "azure0.png")]
    images += [f"data:image/png;base64,{image}" for image in images] * 499
    reply = site.post("/invocations", json={"inputs": images})
    assert reply.status_code == 200, reply.text
    placements = [row["placement"] for row in reply.json()["predictions"]]
    assert placements == ["colour/reddish/scarlet", "colour/bluish/azure"] * 500


def test_an_image_file_is_a_request(tmp_path):
    site = site_of(toy(tmp_path))
    content = (tmp_path / "azure0.png").read_bytes()
    (row,) = site.post(
        "/invocations", content=content, headers={"Content-Type": "image/png"}
    ).json()["predictions"]
    assert row["placement"] == "colour/bluish/azure"


@pytest.mark.parametrize(
    "kind", ["application/vnd.apache.parquet", "multipart/form-data; boundary=x", "image", ""]
)
def test_only_images_and_json_are_read(tmp_path, kind):
    reply = site_of(toy(tmp_path)).post(
        "/invocations", content=b"PAR1" * 10, headers={"Content-Type": kind}
    )
    assert reply.status_code == 415
    assert "application/json" in reply.json()["message"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"[" * 100_000, 400),
        (b'{"inputs": ' + b"[" * 4000 + b"]" * 4000 + b"}", 400),
        (b'{"inputs": ["secret', 400),
        (b"\xff\xfe secret", 400),
        (b'{"inputs": []}', 400),
        (b'{"inputs": [17, "secret"]}', 400),
        (b'{"inputs": {"photo": ["secret"]}}', 400),
        (b'{"inputs": [' + b'"secret",' * 1000 + b'"secret"]}', 400),
        (b'{"inputs": ["' + b"secret!" * 100 + b'"]}', 200),
        (b'{"inputs": ["data:image/png;base64,' + b"secret!" * 100 + b'"]}', 200),
    ],
)
def test_a_bad_body_is_refused_and_nothing_of_it_comes_back(tmp_path, body, status):
    reply = site_of(toy(tmp_path)).post(
        "/invocations", content=body, headers={"Content-Type": "application/json"}
    )
    assert reply.status_code == status, reply.text
    assert "secret" not in reply.text
    assert len(reply.text) < 1000


def test_the_host_must_be_one_of_this_servers(tmp_path):
    site = site_of(toy(tmp_path))
    names = [
        "localhost:8000",
        "127.0.0.1",
        "[::1]:8000",
        "192.168.0.7:8000",
        f"{socket.gethostname().upper()}:8000",
    ]
    for name in names:
        assert site.get("/ping", headers={"Host": name}).status_code == 200, name
    for name in (
        "attacker.example",
        "attacker.example:8000",
        "127.0.0.1.attacker.example",
        "localhost.attacker",
        "[",
    ):
        for path in ("/", "/ping"):
            reply = site.get(path, headers={"Host": name})
            assert reply.status_code == 400, name
            assert "--host" in reply.json()["message"]
    named = make_app(ServedClassifier(toy(tmp_path)), "http://birds.lan:8000", ["Birds.lan"])
    from starlette.testclient import TestClient

    assert TestClient(named, base_url="http://birds.lan:8000").get("/ping").status_code == 200


@pytest.mark.parametrize("kind", ["raises", "fails"])
def test_a_model_that_does_not_answer(tmp_path, kind):
    class Down(ToyVLM):
        def answer(self, questions):
            if kind == "raises":
                raise ModelError("The server is down.")
            return [Failure("the server is down", retryable=True)] * len(questions)

    site = site_of(toy(tmp_path, Down()))
    image = in_base64(tmp_path / "azure0.png")
    reply = site.post("/invocations", json={"inputs": [image, "broken"]})
    assert reply.status_code == 503
    assert "server is down" in reply.json()["message"]


def test_a_models_server_that_sends_back_the_image_with_its_error(tmp_path):
    def echo(asked):
        return Reply(
            500, json.dumps({"error": {"message": f"cannot read {json.dumps(asked)}"}}).encode()
        )

    with OpenAIServer(echo) as server:
        model = make_model("openai/eyes", model_settings(server, max_retries=0))
        site = site_of(toy(tmp_path, model))
        image = in_base64(tmp_path / "azure0.png")
        reply = site.post("/invocations", json={"inputs": [image]})
    assert reply.status_code == 503
    assert len(reply.text) < 1500
    assert image[20:60] not in reply.text


# -- behind a port: bodies in chunks, and requests side by side --------------------------------------------------------


@contextmanager
def running(classifier):
    import uvicorn

    with socket.socket() as here:
        here.bind(("127.0.0.1", 0))
        port = here.getsockname()[1]
        app = make_app(ServedClassifier(classifier, content_only=True), f"http://127.0.0.1:{port}")
        server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [here]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield port
        server.should_exit = True
        thread.join()


def sent(port, head, chunks):
    """Sends a request by hand; returns the reply, and how many bytes were taken."""
    taken, reply = 0, b""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        lines = [
            "POST /invocations HTTP/1.1",
            "Host: localhost",
            "Content-Type: application/json",
            head,
            "",
            "",
        ]
        connection.sendall("\r\n".join(lines).encode())
        try:
            for chunk in chunks():
                connection.sendall(chunk)
                taken += len(chunk)
        except OSError:  # the server hung up
            pass
        try:
            while more := connection.recv(65536):
                reply += more
        except OSError:
            pass
    return reply, taken


def test_a_body_is_limited_in_chunks_too(tmp_path, monkeypatch):
    monkeypatch.setattr(serving_app, "_MAX_REQUEST", 1024**2)
    block = b"secret" * 10_000
    chunk = b"%x\r\n%s\r\n" % (len(block), block)
    with running(toy(tmp_path)) as port:
        reply, taken = sent(
            port, "Transfer-Encoding: chunked", lambda: (chunk for _ in range(2000))
        )
        assert taken < 40 * 1024**2  # of 120 MB: the limit, and what was under way in buffers
        if reply:  # a client that still sends may see the connection end first
            assert b"413" in reply.split(b"\r\n")[0]
            assert b"secret" not in reply
        reply, _ = sent(port, f"Content-Length: {2 * 1024**2}", lambda: iter(()))
        assert b"413" in reply.split(b"\r\n")[0]
        assert b"more than 1 MB" in reply
        # What is within the limit is read, in chunks or not.
        image = json.dumps({"inputs": [in_base64(tmp_path / "azure0.png")]}).encode()
        whole = b"%x\r\n%s\r\n0\r\n\r\n" % (len(image), image)
        reply, _ = sent(
            port, "Transfer-Encoding: chunked\r\nConnection: close", lambda: iter([whole])
        )
        assert b"colour/bluish/azure" in reply


def test_a_single_photo_does_not_wait_for_a_large_request(tmp_path):
    answered = threading.Event()

    class Slow(ToyVLM):
        turns = 0

        def answer(self, questions):
            Slow.turns += 1
            if len(questions) > 1:
                answered.wait(0.5)
            return super().answer(questions)

    classifier = toy(tmp_path, Slow())
    image = (tmp_path / "azure0.png").read_bytes()
    many = json.dumps({"inputs": [in_base64(tmp_path / "azure0.png")] * 320}).encode()
    with running(classifier) as port:

        def ask(body, kind):
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}/invocations", body, headers={"Content-Type": kind}
            )
            with urllib.request.urlopen(request, timeout=60) as reply:
                return len(json.load(reply)["predictions"])

        large = threading.Thread(target=ask, args=(many, "application/json"))
        large.start()
        while not Slow.turns:
            time.sleep(0.001)
        assert ask(image, "image/png") == 1
        turns = Slow.turns
        answered.set()
        large.join()
        assert turns < 15  # of 20: the large one was still under way
    assert Slow.turns == 21


def test_bodies_together_are_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(serving_app, "_MOST_AT_ONCE", 2**20)
    block = b"x" * 2**18
    entered, leave = threading.Event(), threading.Event()

    class Slow(ToyVLM):
        def answer(self, questions):
            entered.set()
            leave.wait(60)
            return super().answer(questions)

    classifier = toy(tmp_path, Slow())
    image = in_base64(tmp_path / "azure0.png")
    first = json.dumps({"inputs": [image]}).encode().ljust(900_000)
    length = "Connection: close\r\nContent-Length: {}"
    replies = []
    with running(classifier) as port:
        slow = threading.Thread(
            target=lambda: replies.append(
                sent(port, length.format(len(first)), lambda: iter([first]))[0]
            )
        )
        slow.start()
        assert entered.wait(60)
        reply, _ = sent(port, length.format(2**18), lambda: iter([block]))
        assert b" 503 " in reply.split(b"\r\n")[0]
        assert b"retry-after: 5" in reply.lower()
        assert b"busy with other large requests" in reply
        small = json.dumps({"inputs": [image]}).encode()
        leave.set()
        slow.join()
        assert b"colour/bluish/azure" in replies[0]
        # The room is free again, of the refused one's too.
        reply, _ = sent(port, length.format(len(first)), lambda: iter([first]))
        assert b"colour/bluish/azure" in reply
        reply, _ = sent(port, length.format(len(small)), lambda: iter([small]))
        assert b"colour/bluish/azure" in reply


def test_a_client_that_goes_away_is_no_trouble(tmp_path, capfd):
    with running(toy(tmp_path)) as port:
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
                lines = ["POST /invocations HTTP/1.1", "Host: localhost", "Content-Type: image/png"]
                connection.sendall(
                    "\r\n".join([*lines, "Content-Length: 100000", "", "half"]).encode()
                )
        image = json.dumps({"inputs": [in_base64(tmp_path / "azure0.png")]}).encode()
        reply, _ = sent(
            port, f"Connection: close\r\nContent-Length: {len(image)}", lambda: iter([image])
        )
        assert b"colour/bluish/azure" in reply
    assert capfd.readouterr().err == ""


def test_a_page_of_another_server_may_not_ask(tmp_path):
    site = site_of(toy(tmp_path))
    image = (tmp_path / "azure0.png").read_bytes()
    for origin, status in [
        ("http://127.0.0.1:8000", 200),
        ("https://127.0.0.1:8000", 200),
        ("http://127.0.0.1:3000", 403),
        ("http://localhost:8000", 403),
        ("http://attacker.example", 403),
        ("http://127.0.0.1:8000.attacker.example", 403),
        ("null", 403),
        ("", 403),
    ]:
        headers = {"Content-Type": "image/png", "Origin": origin}
        assert site.post("/invocations", content=image, headers=headers).status_code == status, (
            origin
        )


def test_large_photos_are_decoded_few_at_a_time(tmp_path):
    stream, image = io.BytesIO(), tmp_path / "small.png"
    Image.new("1", (5000, 4000)).save(stream, "PNG")
    Image.new("1", (64, 64)).save(image)
    given = [*[stream.getvalue()] * 5, *[image] * 20, b"no image"]
    groups = list(few_at_once(dict(enumerate(given))))
    assert [len(group) for group in groups] == [2, 2, 16, 6]
    assert [key for group in groups for key in group] == list(range(26))


def test_the_pages_csv_quotes_the_formulas_that_all_tables_quote():
    script = (Path(serving_app.__file__).parent / "page" / "page.js").read_text(encoding="utf-8")
    (starts,) = re.findall(r"replace\(/\^\(\?=(\[[^/]+\])\)/", script)
    for start in "=+-@\t\n\r＝＋－＠":
        assert spreadsheet_cell(f"{start}SUM(A1)") != f"{start}SUM(A1)"
        assert re.match(starts, start)
    assert not re.match(starts, "A: a wren.")
