"""What a request says of an image."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from taxtune.errors import ImageError
from taxtune.serving import images
from taxtune.serving.images import read_image

CONTENT = b"\xff\xd8\xff\xe0 not much of a JPEG"
BASE64 = base64.b64encode(CONTENT).decode()


@pytest.fixture
def server() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/a.jpg" else 404)
            self.end_headers()
            self.wfile.write(CONTENT)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


@pytest.mark.parametrize(
    "text",
    [
        BASE64,
        "\n".join(BASE64[i : i + 8] for i in range(0, len(BASE64), 8)),
        f"data:image/jpeg;base64,{BASE64}",
        f"DATA:;base64,{BASE64}",
        "data:,%FF%D8%FF%E0%20not%20much%20of%20a%20JPEG",
    ],
    ids=["base64", "wrapped base64", "data", "data without a type", "percent"],
)
@pytest.mark.parametrize("content_only", [False, True])
def test_content(text: str, content_only: bool) -> None:
    assert read_image(text, content_only=content_only) == CONTENT


def test_a_path_wins_where_a_file_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("photos").mkdir()
    Path("photos/duck").write_bytes(CONTENT)  # 11 characters of base64's, and with one more a whole text of it
    Path("photos/ducks").write_bytes(CONTENT)
    assert read_image("photos/ducks") == Path("photos/ducks")
    assert read_image(f"{(tmp_path / 'a b.jpg').as_uri()}") == tmp_path / "a b.jpg"
    assert read_image("/nowhere/a.jpg") == Path("/nowhere/a.jpg")  # whoever reads it says what is wrong
    assert read_image(f"{server}/a.jpg") == CONTENT


@pytest.mark.parametrize("text", ["photos/a.jpg", "/etc/passwd", "file:///etc/passwd", "http://127.0.0.1:1/a.jpg", ""])
def test_whoever_may_only_send_content_has_nothing_read(text: str) -> None:
    with pytest.raises(ImageError, match="not an image file in base64"):
        read_image(text, content_only=True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("data:image/png;base64", "no content"),
        ("data:image/png;base64,$$$", "not base64"),
        ("{server}/b.jpg", "cannot be fetched: HTTP Error 404"),
        ("http://127.0.0.1:1/a.jpg", "cannot be fetched"),
        ("http://[broken/a.jpg", "cannot be fetched"),
    ],
)
def test_what_cannot_be_read(text: str, said: str, server: str) -> None:
    with pytest.raises(ImageError, match=said):
        read_image(text.replace("{server}", server))


def test_a_limit_on_size(monkeypatch: pytest.MonkeyPatch, server: str) -> None:
    monkeypatch.setattr(images, "MAX_BYTES", len(CONTENT) - 1)
    for text in (BASE64, f"data:;base64,{BASE64}", f"{server}/a.jpg"):
        with pytest.raises(ImageError, match="more than 0 MB"):
            read_image(text)
