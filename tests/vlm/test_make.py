from __future__ import annotations

import subprocess
import sys

import pytest

from taxtune.errors import VLMError
from taxtune.vlm import make_vlm
from taxtune.vlm.api import ApiVLM
from taxtune.vlm.local import LocalVLM


def test_each_kind_is_made_with_its_settings() -> None:
    local = make_vlm("local", "org/model", batch_size=3)
    assert isinstance(local, LocalVLM)
    assert (local.model, local.batch_size) == ("org/model", 3)
    api = make_vlm("api", "openai/gpt-4o", concurrency=2)
    assert isinstance(api, ApiVLM)
    assert (api.model, api.concurrency) == ("openai/gpt-4o", 2)


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("magic", {}, "no such kind of VLM"),
        ("local", {"bath_size": 3}, "no setting 'bath_size'. Did you mean 'batch_size'?"),
        ("local", {"api_key": "x"}, "'local' has no setting 'api_key'"),
        ("api", {"revision": "x"}, "'api' has no setting 'revision'"),
    ],
)
def test_what_there_is_not_is_refused(kind: str, settings: dict[str, object], message: str) -> None:
    with pytest.raises(VLMError, match=message.replace("?", r"\?")):
        make_vlm(kind, "m", **settings)


def test_importing_and_making_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom taxtune.vlm import make_vlm\nimport taxtune.data\n"
        "make_vlm('local', 'org/model')\nmake_vlm('api', 'openai/gpt-4o')\n"
        "heavy = {'torch', 'transformers', 'litellm', 'tenacity', 'PIL', 'huggingface_hub'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
