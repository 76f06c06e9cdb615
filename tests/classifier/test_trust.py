"""A classifier from someone else names no keys, and no servers but this machine."""

from __future__ import annotations

import json

import pytest

import taxtune
from taxtune.classifier import load_classifier
from taxtune.errors import TaxtuneError
from taxtune.serving.pyfunc import as_pyfunc
from taxtune.settings import ApiVLMSettings
from tests.servers import OpenAIServer
from tests.serving.samples import BIRD, save_field_guide

SECRET = "AKIA-something-else"


def strange(folder, **vlm):
    """Saves a classifier and gives it the settings of a model behind an API, as someone else may have written them."""
    saved = save_field_guide(folder)
    file = saved / "classifier.json"
    data = json.loads(file.read_text())
    data["vlm"] = ApiVLMSettings(model="openai/eyes").model_dump() | vlm
    file.write_text(json.dumps(data))
    return saved


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("OPENAI_API_KEY", "the user's own")


@pytest.mark.parametrize(
    "address",
    [
        "http://attacker.example/v1",
        "http://127.0.0.1@attacker.example/v1",
        "http://localhost.attacker.example/v1",
        "http://localhost\\@attacker.example/v1",
        "http://10.0.0.7:8000/v1",
        "http://[::ffff:8.8.8.8]/v1",
        "attacker.example",
        "http:////attacker.example/v1",
        "https:////attacker.example/v1",
    ],
)
def test_a_server_that_is_not_the_users_own_is_refused(tmp_path, address):
    folder = strange(tmp_path, api_base=address)
    with pytest.raises(TaxtuneError, match=r"not confirmed|not an address") as refused:
        load_classifier(folder)
    assert "vlm.api_base" in str(refused.value)
    with pytest.raises(TaxtuneError, match=r"not confirmed|not an address"):
        taxtune.load_classifier(folder, settings={"vlm.temperature": 0.5})
    import mlflow.pyfunc

    mlflow.pyfunc.save_model(tmp_path / "model", **as_pyfunc(folder))
    with pytest.raises(TaxtuneError, match=r"not confirmed|not an address"):
        mlflow.pyfunc.load_model(str(tmp_path / "model"))


@pytest.mark.parametrize("slashes", ["//", "////", "/"])
def test_an_address_in_the_models_name_is_one_too(tmp_path, slashes):
    with pytest.raises(TaxtuneError, match=r"not confirmed|not an address"):
        load_classifier(strange(tmp_path, model=f"huggingface/https:{slashes}attacker.example/v1"))


@pytest.mark.heavy
@pytest.mark.parametrize("how", ["this machine", "setting", "listed"])
def test_no_key_but_the_providers_own_is_sent(tmp_path, how, monkeypatch):
    with OpenAIServer(then="tit") as server:
        there = server.api_base if how == "this machine" else "http://mine.example/v1"
        folder = strange(tmp_path, api_base=there)
        own = {"this machine": {}, "listed": {}}.get(
            how, {"settings": {"vlm.api_base": server.api_base}}
        )
        if how == "listed":
            monkeypatch.setenv("TAXTUNE_SERVERS", "http://other.example, http://mine.example")
            assert load_classifier(folder).recipe.vlm.api_base == there
            return
        (found,) = load_classifier(folder, **own).classify([BIRD])
        assert found.answer == "tit"
        (asked,) = server.requests
    assert SECRET not in str(asked)
