from __future__ import annotations

import subprocess
import sys

import pytest

from taxtune.errors import ModelError
from taxtune.models import Answer, FunctionModel, Identity, ModelSettings, Reply, Request, make_model
from taxtune.models.api import ApiModel
from taxtune.models.text import LocalLLM
from taxtune.models.vision import LocalVLM


def test_a_name_is_a_model_of_its_kind_with_its_settings() -> None:
    local = make_model("local:org/model", ModelSettings(batch_size=3))
    assert isinstance(local, LocalVLM)
    assert (local.model, local.batch_size) == ("org/model", 3)
    text = make_model("local", ModelSettings(task="text-generation"))
    assert isinstance(text, LocalLLM)
    assert text.model == "meta-llama/Llama-3.2-3B-Instruct"
    api = make_model("ollama/llava:7b", ModelSettings(concurrency=2))
    assert isinstance(api, ApiModel)
    assert (api.model, api.batch_size) == ("ollama/llava:7b", 4)


def test_a_model_is_taken_as_it_is_and_a_function_is_made_one() -> None:
    class Mine:
        def __init__(self) -> None:
            self.identity: Identity = {"kind": "mine"}

        def answer(self, requests: list[Request]) -> list[Reply]:
            return [Answer("x")] * len(requests)

    mine = Mine()
    assert make_model(mine) is mine
    assert isinstance(make_model(lambda image, prompt: "x"), FunctionModel)


@pytest.mark.parametrize("spec", ["", "  ", "local:", "local", 3])
def test_what_names_no_model_is_refused(spec: object) -> None:
    with pytest.raises(ModelError, match=r"No model is named|neither a model nor a function"):
        make_model(spec)  # type: ignore[arg-type]


def test_importing_and_making_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom taxtune.models import ModelSettings, make_model\nimport taxtune.data\n"
        "make_model('local:org/model')\nmake_model('openai/gpt-4o')\nmake_model(lambda image, prompt: '')\n"
        "make_model('local', ModelSettings(task='text-generation'))\n"
        "heavy = {'torch', 'transformers', 'litellm', 'tenacity', 'PIL', 'huggingface_hub'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
