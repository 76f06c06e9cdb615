"""What is particular to stored answers; what they share with other stored values is in `tests/test_store.py`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from taxtune.models import Answer, AnswerStore, ModelSettings, Request, make_model
from taxtune.models.ask import answer_key
from tests.models.replies import texts

IDENTITY = {"kind": "local", "model": "m", "temperature": 0.0}
REQUEST = Request("What bird?", Path("a.jpg"), "f" * 64)


def test_an_answer_comes_back_as_it_was_and_marked_as_cached(tmp_path):
    answers = [Answer("A: a robin 🐦.", False, 12, 5, 0.002, 1.5), Answer("")]
    requests = [REQUEST, replace(REQUEST, prompt="b")]
    with AnswerStore(tmp_path / "answers.db") as store:
        store.put(IDENTITY, zip(requests, answers, strict=True))
        assert store.get(IDENTITY, requests) == [replace(answer, cached=True) for answer in answers]


def test_prompt_content_and_sample_change_the_key_and_the_file_name_does_not():
    key = answer_key(IDENTITY, REQUEST)
    assert answer_key(IDENTITY, replace(REQUEST, image=Path("elsewhere/b.png"))) == key
    others = [
        replace(REQUEST, prompt="What bird? "),
        replace(REQUEST, image_sha256="e" * 64),
        Request("What bird?"),
        replace(REQUEST, sample=1),
        replace(REQUEST, sample=2),
    ]
    assert len({key, *(answer_key(IDENTITY, other) for other in others)}) == 6


def test_answers_of_earlier_versions_are_found():
    """Keys as stores hold them; they change only where answers may, as when images are sent in another form."""
    key = answer_key(IDENTITY, REQUEST)
    assert key == "87fa24802035b84314d33d75c53b0fff1488e0eb1a51bba3051a53842eef50d8"
    api = make_model("openai/gpt-4o", ModelSettings(api_base="http://u:p@host/v1")).identity
    key = answer_key(api, REQUEST)
    assert key == "030cbbfc1252af6866445502a1b532d12fb4f619d89136a493eb13cd9f713241"
    settings = ModelSettings(task="text-generation", max_tokens=256)
    text = make_model("openai/gpt-4o-mini", settings).identity
    key = answer_key(text, Request("Is it?"))
    assert key == "efa1de9d0962c986bf8550a92d07c542ead50bbda709a54a8bb42fe8a9e91a44"


def test_half_a_surrogate_pair_does_not_break_the_batch(tmp_path):
    requests = [replace(REQUEST, prompt="\ud83d"), REQUEST]
    answers = [Answer("a \ud83d bird"), Answer("x")]
    with AnswerStore(tmp_path / "answers.db") as store:
        store.put(IDENTITY, zip(requests, answers, strict=True))
        found = store.get(IDENTITY, requests)
    assert texts(found) == ["a ? bird", "x"]
