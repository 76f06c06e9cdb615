"""The page and MLflow's scoring server behind it, in this process."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

import pytest

from taxtune.classifier import Reliability
from taxtune.classifier.classifier import Promise
from taxtune.policies import Vote
from taxtune.serving import app as serving_app
from taxtune.serving.app import make_app
from tests.serving.samples import in_base64, served, toy


def client(folder: Path, **changes: Any) -> Any:
    from fastapi.testclient import TestClient

    return TestClient(make_app(served(toy(folder, **changes), content_only=True), "http://127.0.0.1:8000"))


def test_the_page_loads_and_runs_only_what_its_policy_names(tmp_path: Path) -> None:
    reply = client(tmp_path).get("/")
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


def test_the_page_is_about_the_classifier(tmp_path: Path) -> None:
    page = client(tmp_path, reliability=Reliability(((1,), (1, 1), (1, 1, 1)))).get("/").text
    for said in (
        "toy &amp; co",
        "What is this?",
        "6 below colour",
        "held-out images went as deep",
        "127.0.0.1:8000",
        "asks toy about",
    ):
        assert said in page
    page = client(tmp_path, policy=Vote(4, 0.5), promise=Promise(0.02, 0.9, 300)).get("/").text
    assert "asked about 4 times" in page
    assert "Mean hP of at least 0.98" in page
    assert "with confidence 0.9, from 300 images" in page


@pytest.mark.parametrize("form", ["dataframe_records", "dataframe_split", "inputs", "instances", "csv"])
def test_images_over_http_in_the_forms_of_mlflow(tmp_path: Path, form: str) -> None:
    images = [in_base64(tmp_path / name) for name in ("scarlet0.png", "azure0.png") if toy(tmp_path)]
    body: dict[str, Any] = {
        "dataframe_records": [{"image": each} for each in images],
        "dataframe_split": {"columns": ["image"], "data": [[each] for each in images]},
        "inputs": {"image": images},
        "instances": [{"image": each} for each in images],
    }
    if form == "csv":
        sent: dict[str, Any] = {"content": "\n".join(["image", *images]), "headers": {"Content-Type": "text/csv"}}
    else:
        sent = {"json": {form: body[form]}}
    reply = client(tmp_path).post("/invocations", **sent)
    assert reply.status_code == 200, reply.text
    assert [row["path"] for row in reply.json()["predictions"]] == ["colour/reddish/scarlet", "colour/bluish/azure"]


def test_files_of_the_server_cannot_be_asked_about(tmp_path: Path) -> None:
    site = client(tmp_path)
    reply = site.post("/invocations", json={"inputs": {"image": [str(tmp_path / "azure0.png")]}})
    (row,) = reply.json()["predictions"]
    assert row["path"] is None
    assert "not an image file in base64" in row["failure"]


def test_a_request_that_is_too_large_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving_app, "_MAX_REQUEST", 1024**2)
    reply = client(tmp_path).post("/invocations", json={"inputs": {"image": ["A" * 1024**2]}})
    assert reply.status_code == 413
    assert "more than 1 MB" in reply.json()["message"]


def test_other_addresses_are_mlflows(tmp_path: Path) -> None:
    site = client(tmp_path)
    assert site.get("/ping").status_code == site.get("/health").status_code == 200
    assert site.post("/invocations", json={"nothing": 1}).status_code == 400
