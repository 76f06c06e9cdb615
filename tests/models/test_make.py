from __future__ import annotations

import subprocess
import sys

import pytest

from taxtune.errors import ModelError, TaxtuneError
from taxtune.models import (
    Answer,
    FunctionModel,
    Identity,
    ModelSettings,
    Request,
    make_model,
)
from taxtune.models.api import ApiModel
from taxtune.models.local import LocalLLM
from taxtune.models.vision import LocalVLM


def test_a_name_is_a_model_of_its_kind_with_its_settings():
    local = make_model("local:org/model", ModelSettings(batch_size=3))
    assert isinstance(local, LocalVLM)
    assert (local.model, local.batch_size) == ("org/model", 3)
    drawn = make_model("builtin:fieldguide")
    assert isinstance(drawn, LocalVLM)
    assert drawn.model == "builtin:fieldguide"
    text = make_model("local", ModelSettings(task="text-generation"))
    assert isinstance(text, LocalLLM)
    assert text.model == "meta-llama/Llama-3.2-3B-Instruct"
    api = make_model("ollama/llava:7b", ModelSettings(concurrency=2))
    assert isinstance(api, ApiModel)
    assert (api.model, api.batch_size) == ("ollama/llava:7b", 2)


def test_a_model_is_taken_as_it_is_and_a_function_is_made_one():
    class Mine:
        def __init__(self):
            self.identity: Identity = {"kind": "mine"}

        def answer(self, requests):
            return [Answer("x")] * len(requests)

    mine = Mine()
    assert make_model(mine) is mine
    assert isinstance(make_model(lambda image, prompt: "x"), FunctionModel)


@pytest.mark.parametrize("spec", ["", "  ", "local:", "local", 3])
def test_what_names_no_model_is_refused(spec):
    with pytest.raises(
        ModelError, match=r"The model's name is empty|neither a model nor a function"
    ):
        make_model(spec)


def test_importing_and_making_imports_nothing_heavy():
    code = (
        "import sys\nfrom taxtune.models import ModelSettings, make_model\nimport taxtune.data\n"
        "make_model('local:org/model')\nmake_model('openai/gpt-4o')\nmake_model(lambda image, prompt: '')\n"
        "make_model('local', ModelSettings(task='text-generation'))\n"
        "heavy = {'torch', 'transformers', 'litellm', 'PIL', 'huggingface_hub'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package that adds models, with the metadata that an installer writes."""
    (tmp_path / "birdmodels.py").write_text(
        "class Parrot:\n"
        "    def __init__(self, **settings):\n"
        "        self.identity = {'kind': 'parrot', **settings}\n"
        "    def answer(self, requests):\n"
        "        return []\n"
        "def function(max_tokens=64):\n"
        "    return lambda image, prompt: 'x' * max_tokens\n"
        "def broken(**settings):\n"
        "    raise OSError('no licence')\n"
        "def number(**settings):\n"
        "    return 3\n"
    )
    info = tmp_path / "birdmodels-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: birdmodels\nVersion: 1.0\n")
    names = [
        "parrot = birdmodels:Parrot",
        *(f"{n} = birdmodels:{n}" for n in ("function", "broken", "number", "gone")),
    ]
    (info / "entry_points.txt").write_text("[taxtune.vlms]\n" + "\n".join(names) + "\n")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("package")
def test_a_model_of_an_installed_package_is_found_by_its_name():
    assert make_model("parrot").identity == {"kind": "parrot"}
    settings = ModelSettings(max_tokens=3, temperature=0.5)
    assert make_model("parrot:grey", settings).identity == {
        "kind": "parrot",
        "model": "grey",
        "max_tokens": 3,
        "temperature": 0.5,
    }
    (reply,) = make_model("function", ModelSettings(max_tokens=3)).answer([Request("?")])
    assert reply.text == "xxx"


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        (
            "broken",
            {},
            r"'broken', which a package provides, cannot be created: OSError: no licence",
        ),
        ("function", {"device": "cpu"}, r"'function'.*TypeError: .*device"),
        ("number", {}, r"'number'.*neither a model nor a function.*got 3"),
        ("gone", {}, r"'gone', which birdmodels registers.*cannot be loaded.*gone"),
    ],
)
def test_a_package_whose_model_cannot_be_had_is_named(name, settings, words):
    with pytest.raises(TaxtuneError, match=words):
        make_model(name, ModelSettings(**settings))
