"""`--proposer`, `--model`, `--effort` and `--seed` of `tune` and `compare`: who writes the templates, by name."""

from __future__ import annotations

from pathlib import Path

import pytest

import taxtune
from taxtune.errors import TaxtuneError
from taxtune.recipe import load_recipe
from taxtune.settings import proposer_named
from taxtune.tuning.run_folder import recipe_of
from tests.cli.commands import run_captured, run_json, run_refused, run_well
from tests.cli.test_bad_input import answer, make_inputs
from tests.servers import OpenAIServer, status

NAMES = {
    "fragments": {"kind": "fragments"},
    "random": {"kind": "random"},
    "openai/gpt-5-mini": {"kind": "llm", "model": "openai/gpt-5-mini"},
    "api:newcomer/chat": {"kind": "llm", "model": "api:newcomer/chat"},
    "agent:anthropic/claude-x": {"kind": "agent", "model": "anthropic/claude-x"},
    "agent:api:newcomer/chat": {"kind": "agent", "model": "api:newcomer/chat"},
}


@pytest.fixture
def inputs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    return make_inputs(tmp_path / "in")


#: What both commands take.
OPTIONS = "--model openai/eyes --effort light --seed 5"


def at(server, **more):
    """Settings that send all calls to a server."""
    addresses = dict.fromkeys(("vlm.api_base", "proposer.api_base"), server.api_base)
    settings = {**addresses, "max_off_tree": 1.0, **more}
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def sees(messages):
    """Whether the last message has an image."""
    return isinstance(messages[-1]["content"], list)


def test_a_chat_model_writes_the_templates_of_another_model(inputs):
    command = ["tune", inputs / "recipe.yaml", "--proposer", "openai/gpt-5-mini", "--out", "out"]
    with OpenAIServer(answer) as server:
        run_well(*command, *OPTIONS.split(), *at(server, iterations=1))
        asked = [(chat.json["model"], sees(chat.messages)) for chat in server.chats]
    assert set(asked) == {("gpt-5-mini", False), ("eyes", True)}
    assert asked.count(("gpt-5-mini", False)) == 1
    run = taxtune.load_run("out")
    assert run.iterations[1].template.startswith("Name the {{ domain }} that you see.")
    used = recipe_of(run)
    assert (used.seed, used.effort, used.vlm.model) == (5, "light", "openai/eyes")


def test_compare_takes_them_too(inputs):
    command = ["compare", inputs / "recipe.yaml", "--proposer", "agent:openai/gpt-5-mini"]
    with OpenAIServer(answer) as server:
        given = at(server, iterations="null")
        plan = run_json(*command, *OPTIONS.split(), *given, "--dry-run")
    assert (plan["vlm"]["model"], plan["problems"]) == ("openai/eyes", [])
    templates = plan["rungs"][0]["templates"] - 1
    # Twelve turns of an agent for each template and objective.
    assert plan["llm_calls"] == 12 * templates * 2


def test_a_run_that_stops_says_how_to_go_on_with_its_options(inputs):
    def no_key(request):
        return answer(request) if sees(request["messages"]) else status(401)

    with OpenAIServer(no_key) as server:
        given = ["--objective", "hp", "--proposer", "openai/gpt-5-mini", "--seed", "5"]
        given += [*at(server), "--out", "out", "--answers", "kept.db"]
        done = run_captured("tune", inputs / "recipe.yaml", *given)
    assert done.code == 2
    again = f"taxtune tune {inputs / 'recipe.yaml'} {' '.join(given)} --resume"
    assert f"Continue with: {again}" in done.err


@pytest.mark.parametrize("name", NAMES)
def test_a_name_means_the_same_everywhere(inputs, name):
    recipe = inputs / "recipe.yaml"
    text = "".join(line for line in recipe.open() if not line.startswith("proposer:"))
    named = inputs / "named.yaml"
    named.write_text(f"{text}proposer: {name}\n")
    keys = {f"proposer.{key}": part for key, part in proposer_named(name).items()}
    for loaded in (
        load_recipe(named),
        load_recipe(recipe, [f"proposer={name}"]),
        load_recipe(recipe).changed({"proposer": name}),
        load_recipe(recipe).changed(keys),
    ):
        assert NAMES[name].items() <= loaded.settings()["proposer"].items()
    # A group of keys that is a name in the file can be refined like any other.
    if "model" in NAMES[name]:
        assert load_recipe(named, ["proposer.pictures=2"]).settings()["proposer"]["pictures"] == 2


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fragmnets", "Did you mean 'fragments'?"),
        ("gpt-5-mini", "Known names: fragments, random, PROVIDER/MODEL, agent:PROVIDER/MODEL"),
        ("agent:", "The model's name is empty"),
        ("agent:gpt 5", "has no provider"),
        ("local:some/llm", "needs a model behind an API"),
        ("newcomer/chat", "api:newcomer/chat for any other provider"),
        ("", "Unknown proposer"),
    ],
)
def test_a_name_that_stands_for_nothing_is_refused_before_anything_is_read(inputs, name, words):
    with pytest.raises(TaxtuneError):
        proposer_named(name)
    for option in (("--proposer", name), ("--set", f'proposer="{name}"')):
        assert words in run_refused("tune", inputs / "recipe.yaml", *option)
    assert not Path("runs").exists()


def test_another_model_keeps_the_rest_of_the_group_and_a_files_server_stays_the_files(
    inputs,
):
    recipe = inputs / "recipe.yaml"
    kept = [line for line in recipe.open() if not line.startswith(("proposer:", "vlm:"))]
    kept.append("vlm: {model: openai/test, api_base: 'https://eyes.example/v1', max_tokens: 17}\n")
    kept.append(
        "proposer: {kind: llm, model: openai/old, api_base: 'https://pens.example/v1', evidence: false}\n"
    )
    recipe.write_text("".join(kept))
    changes = {"proposer.kind": "llm", "proposer.model": "openai/new", "vlm.model": "openai/eyes"}
    assert load_recipe(recipe, changes).settings()["proposer"]["evidence"] is False
    options = "--proposer openai/new --model openai/eyes --dry-run"
    done = run_captured("tune", recipe, *options.split())
    assert done.code == 2
    said = " ".join((done.out + done.err).split())
    for key, server in {"vlm": "eyes", "proposer": "pens"}.items():
        assert f"{key}.api_base sends" in said
        assert f"https://{server}.example, which you have not confirmed" in said


def test_a_folder_is_found_from_where_the_command_runs(inputs, tmp_path):
    odd = tmp_path / "my model: v2 #3"
    odd.mkdir()
    done = run_captured("tune", inputs / "recipe.yaml", "--model", f"local:{odd.name}", "--dry-run")
    assert str(odd) in (done.out + done.err).replace("\n", " ")
