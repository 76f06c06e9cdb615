"""GGUF files: a tiny one that the tests write, a real one where it is installed, and files that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from taxtune.errors import MissingExtraError, ModelError
from taxtune.models import Answer, Failure, ModelSettings, Reply, Request, check_model, make_model
from taxtune.models.base import Task
from taxtune.models.checkpoint import check_reachable, find_checkpoint
from tests.tiny_gguf import make_gguf
from tests.tiny_models import make_checkpoint

TEXT = ModelSettings(task="text-generation", max_tokens=12, device="cpu")
TASK: Task = "text-generation"


def _skip_without_packages() -> None:
    for package in ("accelerate", "gguf"):
        pytest.importorskip(package, reason=f"the package {package} is not installed (pip install '.[gguf]')")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    _skip_without_packages()
    return make_checkpoint("llama", tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def tiny(folder: Path) -> Path:
    """A GGUF file with the weights and the tokenizer of `folder`."""
    return make_gguf(folder, folder.parent / "tiny.gguf")


@pytest.fixture
def header(tmp_path: Path) -> Path:
    """Where a test writes the header of a GGUF file."""
    _skip_without_packages()
    return tmp_path / "model.gguf"


def write(file: Path, architecture: str, parts: int = 1) -> None:
    from gguf import GGUFWriter

    writer = GGUFWriter(file, architecture)
    writer.add_uint16("split.count", parts)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# -- what it is -------------------------------------------------------------------------------------------------------


def test_it_answers_as_the_folder_that_it_was_made_of(
    folder: Path, tiny: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    prompts = ["Is it?", "Does the answer agree with the label? " * 3, "قطة 🐱?", "x" * 10_000]
    capfd.readouterr()
    ours, theirs = (make_model(f"local:{path}", TEXT).answer([Request(p) for p in prompts]) for path in (tiny, folder))
    assert [text(reply) for reply in ours[:3]] == [text(reply) for reply in theirs[:3]]
    assert isinstance(ours[3], Failure)
    assert "tiny.gguf has room for 2,036 besides its answer" in ours[3].reason
    assert "%|" not in capfd.readouterr().err, "transformers drew a progress bar"


def text(reply: Reply) -> str:
    assert isinstance(reply, Answer), reply
    return reply.text


def test_it_is_not_quantized_again(tiny: Path) -> None:
    with pytest.raises(ModelError, match="cannot be quantized again"):
        check_model(make_model(f"local:{tiny}", ModelSettings(task=TASK, quantization="4bit")))


# -- what is refused --------------------------------------------------------------------------------------------------


def test_a_vision_language_model_is_not_read_from_such_a_file(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    with pytest.raises(ModelError, match=r"language model, which takes no images.*vlm\.api_base"):
        check_model(make_model(f"local:{file}"))
    with pytest.raises(ModelError, match="which takes no images"):
        check_reachable(str(file))


@pytest.mark.parametrize(("architecture", "parts"), [("clip", 1), ("llama", 3), ("rwkv7", 1)])
def test_what_is_no_language_model_of_transformers_is_refused(header: Path, architecture: str, parts: int) -> None:
    write(header, architecture, parts)
    with pytest.raises(ModelError, match=r"cannot read a language model .*no mmproj file.*llama\.cpp or Ollama"):
        find_checkpoint(str(header), task=TASK)


def test_a_file_that_is_none_is_refused(header: Path) -> None:
    header.write_bytes(b"version https://git-lfs.github.com")
    with pytest.raises(ModelError, match=r"model\.gguf: .*cannot read a language model"):
        find_checkpoint(str(header), task=TASK)


@pytest.mark.parametrize("package", ["accelerate", "gguf"])
def test_a_missing_package_is_named(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    monkeypatch.setattr("taxtune.models.checkpoint.find_spec", lambda name: None if name == package else object())
    with pytest.raises(MissingExtraError, match=rf"model\.gguf needs the package '{package}'.*\.\[gguf\]"):
        find_checkpoint(str(file), task=TASK)
