"""What the name of a model says, whoever reads it."""

from __future__ import annotations

import pytest

from taxtune.errors import ModelError
from taxtune.models.names import parse_model

RECIPE = """\
name: mine
taxonomy: {path: builtin:fieldguide}
data: {kind: fieldguide}
vlm: %s
"""


@pytest.mark.parametrize(
    ("name", "kind", "model"),
    [
        ("openai/gpt-4o", "api", "openai/gpt-4o"),
        (
            "fireworks_ai/accounts/fireworks/models/kimi",
            "api",
            "fireworks_ai/accounts/fireworks/models/kimi",
        ),
        ("api:openai/gpt-4o", "api", "openai/gpt-4o"),
        ("api:in-house/model", "api", "in-house/model"),
        ("local:HuggingFaceTB/SmolVLM-Instruct", "local", "HuggingFaceTB/SmolVLM-Instruct"),
        ("hf:HuggingFaceTB/SmolVLM-Instruct", "local", "HuggingFaceTB/SmolVLM-Instruct"),
        ("local:/models/tiny", "local", "/models/tiny"),
        ("builtin:fieldguide", "local", "builtin:fieldguide"),
    ],
)
def test_a_name_says_what_it_stands_for(name, kind, model):
    found = parse_model(name)
    assert found == (kind, model)
    assert parse_model(str(found)) == found


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "HuggingFaceTB/SmolVLM-Instruct",
            [
                "'HuggingFaceTB' is not a well-known provider",
                "local:HuggingFaceTB/SmolVLM-Instruct",
            ],
        ),
        (
            "nobody/model",
            ["'nobody' is not a well-known provider", "local:nobody/model", "api:nobody/model"],
        ),
        ("gpt-4o", ["has no provider", "api:PROVIDER/MODEL"]),
        ("local:", ["is empty"]),
        (" ", ["is empty"]),
    ],
)
def test_a_name_that_stands_for_nothing_is_refused_with_the_remedy(name, words):
    with pytest.raises(ModelError) as error:
        parse_model(name)
    assert all(word in str(error.value) for word in words)


def test_a_folder_is_no_provider(tmp_path, monkeypatch):
    (tmp_path / "models/tiny").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match="local:models/tiny"):
        parse_model("models/tiny")
    assert parse_model("local:models/tiny").absolute.model == str(tmp_path / "models/tiny")
