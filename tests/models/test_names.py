"""What the name of a model says, whoever reads it."""

from __future__ import annotations

import pytest

from taxtune.errors import ModelError
from taxtune.models.names import parse_model

KIMI = "fireworks_ai/accounts/fireworks/models/kimi"
SMOLVLM = "HuggingFaceTB/SmolVLM-Instruct"


@pytest.mark.parametrize(
    ("name", "kind", "model"),
    [
        ("openai/gpt-4o", "api", "openai/gpt-4o"),
        (KIMI, "api", KIMI),
        ("api:openai/gpt-4o", "api", "openai/gpt-4o"),
        ("api:in-house/model", "api", "in-house/model"),
        (f"local:{SMOLVLM}", "local", SMOLVLM),
        (f"hf:{SMOLVLM}", "local", SMOLVLM),
        ("local:/models/tiny", "local", "/models/tiny"),
        ("builtin:fieldguide", "local", "builtin:fieldguide"),
    ],
)
def test_a_name_says_what_it_stands_for(name, kind, model):
    found = parse_model(name)
    assert found == (kind, model)
    assert parse_model(str(found)) == found


@pytest.mark.parametrize("name", ["local:", " "])
def test_an_empty_name_is_refused(name):
    with pytest.raises(ModelError, match="is empty"):
        parse_model(name)


@pytest.mark.parametrize("name", [SMOLVLM, "nobody/model"])
def test_an_unknown_provider_is_refused_with_the_remedy(name):
    provider = name.partition("/")[0]
    message = f"'{provider}' is not a well-known provider.*local:{name}.*api:{name}"
    with pytest.raises(ModelError, match=message):
        parse_model(name)


def test_a_name_without_a_provider_is_refused_with_the_remedy():
    with pytest.raises(ModelError, match=r"has no provider.*api:PROVIDER/MODEL"):
        parse_model("gpt-4o")


def test_a_folder_is_no_provider(tmp_path, monkeypatch):
    (tmp_path / "models/tiny").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match="local:models/tiny"):
        parse_model("models/tiny")
    assert parse_model("local:models/tiny").absolute.model == str(tmp_path / "models/tiny")
