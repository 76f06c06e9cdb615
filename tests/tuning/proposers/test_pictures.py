"""Pictures of failures for a proposer's model, over HTTP: a toy run on large photos whose metadata hold secrets."""

from __future__ import annotations

import base64
import io
import json
import re
from functools import partial
from pathlib import Path

import pytest
from PIL import Image

from taxtune.errors import ProposerError
from taxtune.integrations import gepa
from taxtune.models import make_model
from taxtune.recipe import load_recipe
from taxtune.tuning.build import Setup
from taxtune.tuning.plan import make_plan
from taxtune.tuning.proposers.agent import AgentProposer
from taxtune.tuning.proposers.llm import LLMProposer
from taxtune.tuning.proposers.messages import Messages
from taxtune.tuning.proposers.pictures import worst_failures
from tests.servers import OpenAIServer, calls, model_settings, status, text
from tests.tuning.proposers.answered import bird_rows
from tests.tuning.proposers.histories import bird_goal, record
from tests.tuning.toy import COLOURS, PARENT, ToyVLM, make_files, tuned

FENCED = "```\nBe careful. Which {{ domain }} is this?\n```"


@pytest.fixture(autouse=True)
def no_picture_is_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    yield
    for file in tmp_path.rglob("*"):
        own = file.is_dir() or file.suffix == ".html"  # the report shows small copies of its own
        assert own or b";base64," not in file.read_bytes(), file


def photos(folder):
    """Writes the toy's files with photos of 900 × 600 pixels whose metadata tell the place and the label."""
    recipe = make_files(folder)
    for file in folder.glob("*.png"):
        exif = Image.Exif()
        exif[0x010E] = f"secret: {file.stem}"  # description
        exif[0x8825] = {1: "N", 2: (48.0, 12.0, 30.0)}  # GPS
        Image.open(file).resize((900, 600)).save(file, exif=exif)
        assert b"secret" in file.read_bytes()
    return recipe


def toy(folder, *overrides, **parts):
    recipe = load_recipe(photos(folder / "in"), ("iterations=1", "seed=1", *overrides))
    return Setup(recipe, folder / "out", vlm=ToyVLM(), **parts)


def chat(server, pictures):
    where = f"api_base: '{server.api_base}', pictures: {pictures}"
    return f"proposer={{kind: llm, model: openai/gpt-4o, {where}}}"


def counting(body):
    """Replies, and counts 255 tokens for each picture."""
    return text(FENCED, prompt_tokens=100 + 255 * json.dumps(body).count('{"url":'))


def sent(server):
    """Returns the pictures of each request, all of which are checked for what must not go out."""
    found = []
    for request in server.chats:
        urls = re.findall(r'"(data:image/[^"]*)"', request.body.decode())
        files = [base64.b64decode(url.partition(",")[2]) for url in urls]
        words = re.sub(r"data:image/[^\"]*", "", request.body.decode())
        for secret in ("secret", "Exif", ".png", *COLOURS, *PARENT.values()):
            assert secret not in words
            assert all(secret.encode() not in file for file in files)
        pictures = [Image.open(io.BytesIO(file)) for file in files]
        assert not any(picture.getexif() for picture in pictures)
        found.append(pictures)
    return found


def kinds(message):
    """Returns the kinds of the parts of a message."""
    return [part["type"] for part in message["content"]]


def test_a_chat_model_sees_the_worst_failures(tmp_path):
    with OpenAIServer(counting) as server:
        result = tuned(toy(tmp_path, chat(server, 2)))
        (pictures,) = sent(server)
        system, user = server.chats[0].messages
    past, first, *shown = [part["text"] for part in user["content"] if part["type"] == "text"]
    assert kinds(user) == ["text", "text", "text", "image_url", "text", "image_url"]
    assert "iteration 0" in first
    assert [picture.size for picture in pictures] == [(512, 341)] * 2
    assert all("a wrong level-2 label of the right level-1 label" in caption for caption in shown)
    baseline, proposed = result.iterations
    assert proposed.trace[0].tool == "pictures"
    wrong = {row.example for row in baseline.rows if row.node != row.target}
    assert set(proposed.trace[0].result.split(", ")) < wrong
    usage = proposed.usage.proposer
    assert usage.prompt_tokens == 100 + 2 * 255
    cost = 2.5e-6 * usage.prompt_tokens + 1e-5 * usage.completion_tokens
    assert usage.cost_usd == pytest.approx(cost)

    with OpenAIServer(FENCED) as server:  # by default all is as it was
        tuned(toy(tmp_path, chat(server, 0)), tmp_path / "plain")
        assert server.chats[0].messages == [system, {"role": "user", "content": past}]
    plain = LLMProposer("openai/gpt-4o", pictures=0).identity()
    seeing = LLMProposer("openai/gpt-4o", pictures=2).identity()
    assert plain["prompts_digest"] == Messages().digest != seeing["prompts_digest"]
    assert "pictures" not in plain


def test_an_iteration_that_begins_anew_shows_the_same(tmp_path):
    with OpenAIServer(status(401), FENCED) as server:
        with pytest.raises(ProposerError):
            tuned(toy(tmp_path, chat(server, 3)))
        tuned(toy(tmp_path, chat(server, 3)), resume=True)
    assert list(map(len, sent(server))) == [3, 3]
    assert server.chats[0].body == server.chats[1].body


def results(messages):
    """Returns the results of the tools."""
    return [json.loads(message["content"]) for message in messages if message["role"] == "tool"]


def test_an_agent_looks_at_what_it_chooses(tmp_path):
    def reply(body):
        told = results(body["messages"])
        if not told:
            return calls(("look", {"image": 1}), ("failures", {"iteration": 0}))
        if len(told) == 2:
            numbers = [int(re.match(r"Image (\d+)", line)[1]) for line in told[1]["worst"]]
            return calls(*[("look", {"image": number}) for number in [*numbers, 99]])
        return calls(("submit", {"template": "Be careful. Which {{ domain }} is this?"}))

    with OpenAIServer(reply) as server:
        agent = AgentProposer("openai/gpt-4o", api_base=server.api_base, pictures=2, max_turns=3)
        result = tuned(toy(tmp_path, proposer=agent))
    assert list(map(len, sent(server))) == [0, 0, 2]
    offered = [[tool["function"]["name"] for tool in each.json["tools"]] for each in server.chats]
    assert offered == [["failures", "look", "try_draft", "submit"]] * 2 + [["submit"]]
    last = server.chats[-1].messages
    # The pictures come after all results of the reply, and not right after a tool's message.
    assert [message["role"] for message in last[-3:]] == ["tool", "assistant", "user"]
    assert kinds(last[-1]) == ["text", "image_url", "text", "image_url", "text"]
    assert "last reply" in last[-1]["content"][-1]["text"]
    early, _, *looks, late = results(last)
    assert "has not listed" in early["error"]
    assert [look["looks_left"] for look in looks[:2]] == [1, 0]
    assert late["error"] == "No look is left."
    (shown,) = [turn for turn in result.iterations[1].trace if turn.tool == "pictures"]
    assert len(shown.result.split(", ")) == 2


def test_gepa_reflects_on_a_contact_sheet(tmp_path):
    pytest.importorskip("gepa", reason="gepa is not installed: pip install '.[gepa]'")
    search = partial(
        gepa.optimize,
        max_metric_calls=40,
        pictures=2,
        recipe=photos(tmp_path),
        vlm=lambda image, prompt: "navy",
        out=tmp_path / "run",
    )
    with pytest.raises(ProposerError, match=r"takes no images.*\(image, prompt\)"):
        search(lambda prompt: prompt)
    with OpenAIServer(counting) as server:
        model = make_model("openai/gpt-4o", model_settings(server, task="text-generation"))
        result = search(model)
    searched = result.iterations[1]
    shown = [len(set(turn.result.split(", "))) for turn in searched.trace]
    assert 2 in shown
    assert [sheet.size for (sheet,) in sent(server)] == [(512 * n, 512) for n in shown]
    for n, prompt in zip(shown, server.prompts, strict=True):
        assert f"tile {n} of the picture" in prompt
    assert searched.usage.proposer.prompt_tokens == len(shown) * (100 + 255)


@pytest.mark.parametrize(
    ("model", "note"), [("gpt-4o", "$0.05 in all"), ("own", "price unknown"), ("gpt-4", "")]
)
def test_a_dry_run_tells_what_pictures_cost(model, note, tmp_path):
    proposer = f"proposer={{kind: llm, model: openai/{model}, pictures: 4}}"
    plan = make_plan(toy(tmp_path, proposer, "iterations=20"))
    assert any("Set proposer.pictures: 0" in problem for problem in plan.problems) == (not note)
    told = f"Up to 4 tuning images go to openai/{model} in each of 20 proposals, about 1,048 tokens each time ({note}"
    assert any(text.startswith(told) for text in plan.notes)


def test_the_worst_come_first_and_no_two_alike():
    said = [("goldfinch", "a finch"), ("goldfinch", "a chaffinch"), ("chaffinch", "a goldfinch")]
    said += [("snowy owl", "a blue jay"), ("blue jay", "a blue jay"), ("snowy owl", None)]
    asked = record(0, "What is this?", value=0.5, rows=bird_rows(said))
    files = {f"e{i}": Path(f"{i}.png") for i in range(6)}
    known = bird_goal(images=files)
    drawn = set()
    for salt in range(9):
        worst = worst_failures(asked, known, 9, salt=salt)
        drawn.add(tuple(picture.number for picture in worst))
    # Two answers about finches are alike: one of them comes after the vague one.
    assert drawn == {(4, 2, 1, 3), (4, 3, 1, 2)}
    assert worst_failures(asked, bird_goal(), 9) == []
