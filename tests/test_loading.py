from __future__ import annotations

import re

import pytest

from taxtune.errors import ModelError
from taxtune.loading import explain_load_error


def _named(name, message=""):
    kind = type(name, (Exception,), {})
    return kind(message)


@pytest.mark.parametrize(
    ("cause", "message"),
    [
        (
            _named("GatedRepoError"),
            r"licence.*Accept it at https://huggingface\.co/org/model and run .*hf auth login",
        ),
        (
            _named("RepositoryNotFoundError"),
            "no model 'org/model' on Hugging Face, or it is private",
        ),
        (_named("RevisionNotFoundError"), "does not have this revision"),
        (_named("LocalEntryNotFoundError"), "cannot be reached.*hf download org/model"),
        (_named("OfflineModeIsEnabled"), "cannot be reached"),
        (
            ImportError("Package `num2words` is required"),
            "cannot be loaded: Package .num2words.*missing package",
        ),
        (ValueError("odd\nvery odd"), "cannot be loaded: outer"),
    ],
)
def test_load_errors_say_what_to_do(cause, message):
    try:
        try:
            raise cause
        except Exception as inner:
            raise OSError("outer") from inner
    except OSError as error:
        explained = explain_load_error("org/model", error, "configuration")
    assert type(explained) is ModelError
    assert re.search(message, str(explained)), str(explained)
