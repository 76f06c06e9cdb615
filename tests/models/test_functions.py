"""Plain functions as models."""

from __future__ import annotations

import asyncio
import functools
import importlib
import threading
from pathlib import Path

import pytest
from PIL import Image

from taxtune.errors import ModelError
from taxtune.models import (
    AnswerStore,
    Failure,
    FunctionModel,
    Model,
    Request,
    ask,
    make_model,
    note_kept,
)

PROMPTS = ["one", "two", "three"]


@pytest.fixture
def asked(pictures):
    return [Request(prompt, image) for prompt, image in zip(PROMPTS, pictures, strict=False)]


def texts(replies):
    """The text of each answer; None for a failure."""
    return [getattr(reply, "text", None) for reply in replies]


def looked(image, prompt):
    assert isinstance(image, Image.Image)
    return f"{prompt} {Path(image.filename).name} {image.mode}"


async def async_looked(image, prompt):
    await asyncio.sleep(0.01 * (3 - PROMPTS.index(prompt)))
    return looked(image, prompt)


class Looker:
    def __call__(self, image, prompt):
        return looked(image, prompt)

    def method(self, image, prompt):
        return looked(image, prompt)


class AsyncLooker:
    async def __call__(self, image, prompt):
        return looked(image, prompt)


@pytest.mark.parametrize(
    "function",
    [
        looked,
        lambda image, prompt: f" {looked(image, prompt)}\n",
        lambda photo, question, /, style="short": looked(photo, question),
        functools.partial(lambda style, image, prompt: looked(image, prompt), "short"),
        Looker(),
        Looker().method,
        async_looked,
        AsyncLooker(),
        functools.partial(async_looked),
    ],
)
def test_every_form_of_a_function_answers_in_order(function, asked):
    model = make_model(function)
    assert isinstance(model, Model)
    assert texts(model.answer(asked)) == [
        f"{prompt} {i}.png RGB" for i, prompt in enumerate(PROMPTS)
    ]
    assert model.answer([]) == []


def test_an_async_function_works_where_an_event_loop_runs(asked):
    under_way = []
    now = 0

    async def answer(image, prompt):
        nonlocal now
        now += 1
        under_way.append(now)
        await asyncio.sleep(0.01)
        now -= 1
        return str(id(asyncio.get_running_loop()))

    model = FunctionModel(answer, concurrency=2)

    async def notebook():
        return model.answer(asked) + model.answer(asked)

    replies = texts(asyncio.run(notebook()))
    assert max(under_way) == 2
    assert len(set(replies)) == 1, "a client that belongs to its event loop serves all batches"
    assert [thread.name for thread in threading.enumerate()].count("taxtune-async") == 1


def test_an_exception_is_a_failure_and_never_an_answer(asked, tmp_path):
    def fails(image, prompt):
        if prompt == "two":
            raise TimeoutError("no reply\nin time")
        return prompt

    async def async_fails(image, prompt):
        return fails(image, prompt)

    for function in (fails, async_fails):
        with AnswerStore(tmp_path / f"{function.__name__}.db") as store:
            replies = ask(FunctionModel(function), asked, store)
            assert texts(replies) == ["one", None, "three"]
            assert replies[1].reason.startswith(f"{asked[1].image}: the function {__name__}.")
            assert replies[1].reason.endswith("raised TimeoutError: no reply in time")
            assert len(store) == 2


def test_a_function_that_always_fails_ends_the_work(asked):
    def broken(image, prompt):
        raise NameError("name 'client' is not defined")

    with pytest.raises(
        ModelError, match=r"broken failed for all 3 requests, first: .*0\.png.*'client'"
    ):
        FunctionModel(broken).answer(asked)
    lost = Request("four", Path("lost.png"))
    for some in ([*asked[:2], lost], [lost, *asked[:2]]):
        with pytest.raises(ModelError, match="broken failed for all 2 requests"):
            FunctionModel(broken).answer(some)
    (reply,) = FunctionModel(broken).answer(asked[:1])
    assert isinstance(reply, Failure), "one failure says nothing of the function"

    def sometimes(image, prompt):
        return broken(image, prompt) if prompt != "one" else "x"

    model = FunctionModel(sometimes)
    assert texts([*model.answer(asked[:1]), *model.answer(asked[1:])]) == ["x", None, None]


def test_a_model_error_ends_the_work_at_once(asked):
    def no_key(image, prompt):
        raise ModelError("No key.", remedy="Set KEY.")

    async def one_no_key(image, prompt):
        if prompt == "one":
            raise ModelError("No key.")
        await asyncio.sleep(60)
        return prompt

    for function in (no_key, one_no_key):
        with pytest.raises(ModelError, match=r"^No key"):
            FunctionModel(function).answer(asked)


@pytest.mark.parametrize("said", [None, 3, b"bytes", ["a"]])
def test_what_is_no_text_names_the_image_and_the_value(said, asked):
    with pytest.raises(
        ModelError, match=r"1\.png: .*for the image, which is not text.*Return a str"
    ) as caught:
        FunctionModel(lambda image, prompt: said if prompt == "two" else "x").answer(asked)
    assert f"gave {said!r} for" in str(caught.value)
    with pytest.raises(ModelError, match="for the prompt 'hm', which is not text"):
        FunctionModel(lambda prompt: said).answer([Request("hm")])


@pytest.mark.parametrize(
    "function",
    [
        Looker,
        lambda: "x",
        lambda image, prompt, key: "x",
        lambda image, prompt, *, key: "x",
        lambda image: "x",
        lambda prompt, image: "x",
        lambda images, prompts: ["x"],
        3,
        "x",
        None,
    ],
)
def test_what_cannot_be_called_with_image_and_prompt_is_refused(function):
    with pytest.raises(ModelError, match=r"answer\(image, prompt\) -> str"):
        FunctionModel(function)


# -- identity ----------------------------------------------------------------------------------------------------------


def test_the_identity_is_the_name_and_the_source(tmp_path, monkeypatch):
    def imported(source):
        (tmp_path / "mine.py").write_text(source)
        importlib.invalidate_caches()
        # Another size or time of the file makes the import system read it again.
        module = importlib.reload(importlib.import_module("mine"))
        return make_model(module.answer).identity

    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    before = imported("def answer(image, prompt):\n    return 'a bird'\n")
    assert before["model"] == "mine.answer"
    assert imported("# A note.\ndef answer(image, prompt):\n    return 'a bird'\n") == before
    assert imported("def answer(image, prompt):\n    return 'a robin, I think'\n") != before


def made(said):
    def answer(image, prompt):
        return str(said)

    return answer


def test_functions_of_one_source_are_told_apart_by_what_they_were_made_with():
    def styled(style, image, prompt):
        return style

    one = lambda image, prompt: "one"  # noqa: E731
    two = lambda image, prompt: "two"  # noqa: E731
    parts = ["one", "two", ["one"], {"say": 1}, Path("one"), one, two, Looker().method]
    functions = [one, two, Looker(), Looker().method, looked, *map(made, parts)]
    functions += [functools.partial(styled, style) for style in ("one", "two")]
    identities = [str(make_model(function).identity) for function in functions]
    assert len(set(identities)) == len(functions)
    assert identities == [str(make_model(function).identity) for function in functions]
    # No address of an object is in it.
    assert make_model(made(Looker())).identity == make_model(made(Looker())).identity


def test_a_constant_and_a_helper_of_the_class_tell_functions_apart_and_what_a_call_changes_does_not():
    def identity(constant, helper):
        names = {"CONSTANT": constant, "calls": 0, "log": []}
        exec(
            "def answer(image, prompt):\n global calls\n calls += 1\n log.append(prompt)\n return CONSTANT\n"
            f"class Model:\n def __call__(self, image, prompt): return self.help()\n def help(self): return {helper!r}",
            names,
        )
        first = FunctionModel(names["answer"]).identity
        names["answer"](None, "What is this?")
        assert FunctionModel(names["answer"]).identity == first
        return first["source"], FunctionModel(names["Model"]()).identity["source"]

    seen = []
    model = FunctionModel(lambda image, prompt: str(seen.append(prompt)))
    before = model.identity
    model.answer([Request("What is this?")])
    assert model.identity == before
    answer, model = identity("a", "x")
    other_answer, same_model = identity("b", "x")
    same_answer, other_model = identity("a", "y")
    assert answer == same_answer != other_answer
    assert model == same_model != other_model


def test_the_identity_can_be_given(tmp_path):
    def answer(prompt):
        return prompt

    answer.identity = "v1"
    assert FunctionModel(answer).identity["identity"] == "v1"
    answer.identity = {"checkpoint": "abc", "temperature": 0.5}
    identity = make_model(answer).identity
    assert identity["kind"] == "function"
    assert (identity["checkpoint"], identity["temperature"]) == ("abc", 0.5)
    assert "source" not in identity


def test_answers_that_are_kept_under_a_hash_of_the_code_are_told(asked, tmp_path, caplog):
    def stated(image, prompt):
        return "a bird"

    stated.identity = "v1"
    with AnswerStore(tmp_path / "answers.db") as store:
        for function in (looked, stated):
            model = make_model(function)
            note_kept(model, store)
            ask(model, asked, store)
            assert not caplog.messages
            note_kept(model, store)
            assert len(caplog.messages) == (function is looked)
            caplog.clear()
