"""Pictures of failures for a proposer's model, over HTTP: a toy run on large photos whose metadata hold secrets."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

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
from tests.servers import OpenAIServer, Reply, calls, model_settings, status, text
from tests.tuning.proposers.answered import BIRDS, rows
from tests.tuning.proposers.histories import goal, record
from tests.tuning.toy import COLOURS, PARENT, ToyVLM, make_files, tuned

FENCED = "```\nBe careful. Which {{ domain }} is this?\n```"


@pytest.fixture(autouse=True)
def no_picture_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    yield
    for file in tmp_path.rglob("*"):
        own = file.is_dir() or file.suffix == ".html"  # the report shows small copies of its own
        assert own or b";base64," not in file.read_bytes(), file


def photos(folder: Path) -> Path:
    """Writes the toy's files with photos of 900 × 600 pixels whose metadata tell the place and the label."""
    recipe = make_files(folder)
    for file in folder.glob("*.png"):
        exif = Image.Exif()
        exif[0x010E], exif[0x8825] = (
            f"secret: {file.stem}",
            {1: "N", 2: (48.0, 12.0, 30.0)},
        )  # description, GPS
        Image.open(file).resize((900, 600)).save(file, exif=exif)
        assert b"secret" in file.read_bytes()
    return recipe


def toy(folder: Path, *overrides: str, **parts: Any) -> Setup:
    recipe = load_recipe(photos(folder / "in"), ("iterations=1", "seed=1", *overrides))
    return Setup(recipe, folder / "out", vlm=ToyVLM(), **parts)


def chat(server: OpenAIServer, pictures: int) -> str:
    return f"proposer={{kind: llm, model: openai/gpt-4o, api_base: '{server.api_base}', pictures: {pictures}}}"


def counting(body: dict[str, Any]) -> Reply:
    """Replies, and counts 255 tokens for each picture."""
    return text(FENCED, prompt_tokens=100 + 255 * json.dumps(body).count('{"url":'))


def sent(server: OpenAIServer) -> list[list[Image.Image]]:
    """Returns the pictures of each request, all of which are checked for what must not go out."""
    found = []
    for request in server.chats:
        urls = re.findall(r'"(data:image/[^"]*)"', request.body.decode())
        files = [base64.b64decode(url.partition(",")[2]) for url in urls]
        words = re.sub(r"data:image/[^\"]*", "", request.body.decode())
        for secret in ("secret", "Exif", ".png", *COLOURS, *PARENT.values()):
            assert all(secret not in each for each in (words, *map(repr, files)))
        found.append([Image.open(io.BytesIO(file)) for file in files])
        assert not any(picture.getexif() for picture in found[-1])
    return found


def test_a_chat_model_sees_the_worst_failures(tmp_path: Path) -> None:
    with OpenAIServer(counting) as server:
        result = tuned(toy(tmp_path, chat(server, 2)))
        (pictures,) = sent(server)
        system, user = server.chats[0].messages
    past, first, *shown = [part["text"] for part in user["content"] if part["type"] == "text"]
    assert [part["type"] for part in user["content"]] == [
        "text",
        "text",
        *["text", "image_url"] * 2,
    ]
    assert "iteration 0" in first
    assert [picture.size for picture in pictures] == [(512, 341)] * 2
    assert all("a wrong level-2 label of the right level-1 label" in caption for caption in shown)
    baseline, proposed = result.iterations
    assert proposed.trace[0].tool == "pictures"
    wrong = {row.example for row in baseline.rows if row.node != row.target}
    assert set(proposed.trace[0].result.split(", ")) < wrong
    assert (usage := proposed.usage.proposer).prompt_tokens == 100 + 2 * 255
    assert usage.cost_usd == pytest.approx(
        2.5e-6 * usage.prompt_tokens + 1e-5 * usage.completion_tokens
    )

    with OpenAIServer(FENCED) as server:  # by default all is as it was
        tuned(toy(tmp_path, chat(server, 0)), tmp_path / "plain")
        assert server.chats[0].messages == [system, {"role": "user", "content": past}]
    plain, seeing = (LLMProposer("openai/gpt-4o", pictures=n).identity() for n in (0, 2))
    assert plain["prompts_digest"] == Messages().digest != seeing["prompts_digest"]
    assert "pictures" not in plain


def test_an_iteration_that_begins_anew_shows_the_same(tmp_path: Path) -> None:
    with OpenAIServer(status(401), FENCED) as server:
        with pytest.raises(ProposerError):
            tuned(toy(tmp_path, chat(server, 3)))
        tuned(toy(tmp_path, chat(server, 3)), resume=True)
    assert list(map(len, sent(server))) == [3, 3]
    assert server.chats[0].body == server.chats[1].body


def test_an_agent_looks_at_what_it_chooses(tmp_path: Path) -> None:
    def reply(body: dict[str, Any]) -> Reply:
        told = [message["content"] for message in body["messages"] if message["role"] == "tool"]
        if not told:
            return calls(("look", {"image": 1}), ("failures", {"iteration": 0}))
        numbers = [
            int(line.split(":")[0].removeprefix("Image ")) for line in json.loads(told[1])["worst"]
        ]
        if len(told) == 2:
            return calls(*(("look", {"image": number}) for number in [*numbers, 99]))
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
    assert [part["type"] for part in last[-1]["content"]] == [*["text", "image_url"] * 2, "text"]
    assert "last reply" in last[-1]["content"][-1]["text"]
    early, _, *looks, late = [
        json.loads(message["content"]) for message in last if message["role"] == "tool"
    ]
    assert "has not listed" in early["error"]
    assert [look["looks_left"] for look in looks[:2]] == [1, 0]
    assert late["error"] == "No look is left."
    assert [
        len(turn.result.split(", "))
        for turn in result.iterations[1].trace
        if turn.tool == "pictures"
    ] == [2]


def test_gepa_reflects_on_a_contact_sheet(tmp_path: Path) -> None:
    pytest.importorskip("gepa", reason="gepa is not installed: pip install '.[gepa]'")
    what = {
        "recipe": photos(tmp_path),
        "vlm": lambda image, prompt: "navy",
        "out": tmp_path / "run",
    }
    with pytest.raises(ProposerError, match=r"takes no images.*\(image, prompt\)"):
        gepa.optimize(lambda prompt: prompt, max_metric_calls=40, pictures=2, **what)
    with OpenAIServer(counting) as server:
        model = make_model("openai/gpt-4o", model_settings(server, task="text-generation"))
        result = gepa.optimize(model, max_metric_calls=40, pictures=2, **what)
    searched = result.iterations[1]
    shown = [len(set(turn.result.split(", "))) for turn in searched.trace]
    assert 2 in shown
    assert [sheet.size for (sheet,) in sent(server)] == [(512 * n, 512) for n in shown]
    assert all(
        f"tile {n} of the picture" in prompt
        for n, prompt in zip(shown, server.prompts, strict=True)
    )
    assert searched.usage.proposer.prompt_tokens == len(shown) * (100 + 255)


@pytest.mark.parametrize(
    ("model", "note"), [("gpt-4o", "$0.05 in all"), ("own", "price unknown"), ("gpt-4", "")]
)
def test_a_dry_run_tells_what_pictures_cost(model: str, note: str, tmp_path: Path) -> None:
    proposer = f"proposer={{kind: llm, model: openai/{model}, pictures: 4}}"
    plan = make_plan(toy(tmp_path, proposer, "iterations=20"))
    assert any("Set proposer.pictures: 0" in problem for problem in plan.problems) == (not note)
    told = f"Up to 4 tuning images go to openai/{model} in each of 20 proposals, about 1,048 tokens each time ({note}"
    assert any(text.startswith(told) for text in plan.notes)


def test_the_worst_come_first_and_no_two_alike() -> None:
    said = [("goldfinch", "a finch"), ("goldfinch", "a chaffinch"), ("chaffinch", "a goldfinch")]
    said += [("snowy owl", "a blue jay"), ("blue jay", "a blue jay"), ("snowy owl", None)]
    asked = replace(record(0, "What is this?", value=0.5), rows=tuple(rows(BIRDS, said)))
    files = {f"e{i}": Path(f"{i}.png") for i in range(6)}
    about = goal(
        "hp", 0.3, 1.0, 0.5, "bird", "", [], 6, taxonomy=BIRDS, domain_node=BIRDS.resolve("bird")
    )
    known = replace(about, images=files)
    drawn = {
        tuple(picture.number for picture in worst_failures(asked, known, 9, salt=salt))
        for salt in range(9)
    }
    # Two answers about finches are alike: one of them comes after the vague one.
    assert drawn == {(4, 2, 1, 3), (4, 3, 1, 2)}
    assert worst_failures(asked, about, 9) == []
