"""GGUF files: the real SmolLM2-135M-Instruct where it is installed, and files that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from taxtune.errors import MissingExtraError, ModelError
from taxtune.models import Answer, AnswerStore, Failure, Model, ModelSettings, Request, ask, check_model, make_model
from taxtune.models.base import Task
from taxtune.models.checkpoint import checkpoint_revision, find_checkpoint, weights_here

TEXT = ModelSettings(task="text-generation", max_tokens=12, device="cpu")
TASK: Task = "text-generation"


@pytest.fixture(scope="module")
def llm(smollm2: Path) -> Model:
    return make_model(f"local:{smollm2}", TEXT)


@pytest.fixture
def header(tmp_path: Path) -> Path:
    """Where a test writes the header of a GGUF file."""
    pytest.importorskip("gguf", reason="the package gguf is not installed (pip install 'taxtune[gguf]')")
    return tmp_path / "model.gguf"


def write(file: Path, architecture: str, parts: int = 1) -> None:
    from gguf import GGUFWriter

    writer = GGUFWriter(file, architecture)
    writer.add_uint16("split.count", parts)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# -- the real model ---------------------------------------------------------------------------------------------------


def test_it_answers_in_its_own_chat_template_without_a_bar(llm: Model, capfd: pytest.CaptureFixture[str]) -> None:
    replies = llm.answer([Request("What is the capital of France?"), Request("Which animal barks?")])
    assert [isinstance(reply, Answer) for reply in replies] == [True, True]
    said = [reply.text for reply in replies if isinstance(reply, Answer)]
    assert "Paris" in said[0]
    assert all(isinstance(reply, Answer) and 0 < reply.completion_tokens <= 12 for reply in replies)
    # Its template's own system turn and the prompt are read; and the file's weights are not unpacked under a bar.
    assert all(isinstance(reply, Answer) and reply.prompt_tokens > 20 for reply in replies)
    assert "%|" not in capfd.readouterr().err


def test_a_prompt_that_is_too_long_fails_alone(llm: Model) -> None:
    long, short = llm.answer([Request("word " * 9_000), Request("Hello")])
    assert isinstance(long, Failure)
    assert "has room for 8,180 besides its answer" in long.reason
    assert isinstance(short, Answer)


def test_its_answers_are_kept_by_the_content_of_the_file(llm: Model, smollm2: Path, tmp_path: Path) -> None:
    link = tmp_path / smollm2.name
    link.symlink_to(smollm2)
    question = [Request("Is a robin a bird? Reply with yes or no.")]
    with AnswerStore(tmp_path / "answers.db") as store:
        (first,) = ask(llm, question, store)
        (again,) = ask(make_model(f"local:{link}", TEXT), question, store)
    assert isinstance(first, Answer)
    assert isinstance(again, Answer)
    assert again.cached
    assert again.text == first.text


def test_it_is_found_without_its_weights(smollm2: Path) -> None:
    found = find_checkpoint(str(smollm2), task=TASK)
    assert (found.name, found.model_type, found.complete) == (smollm2.name, "llama", True)
    assert found.revision == checkpoint_revision(str(smollm2))
    # 134,515,008 weights of two bytes, although the file has fewer bits for each.
    assert found.weight_bytes == 269_030_016
    assert weights_here(str(smollm2))
    assert check_model(make_model(f"local:{smollm2}", TEXT)) == []


def test_it_is_not_quantized_again(smollm2: Path) -> None:
    with pytest.raises(ModelError, match="cannot be quantized again"):
        check_model(make_model(f"local:{smollm2}", ModelSettings(task=TASK, quantization="4bit")))


# -- what is refused --------------------------------------------------------------------------------------------------


def test_a_vision_language_model_is_not_read_from_such_a_file(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    with pytest.raises(ModelError, match=r"language model, which takes no images.*vlm\.kind: api"):
        check_model(make_model(f"local:{file}"))


@pytest.mark.parametrize("name", ["model.gguf", "models/model.gguf", "org/repository/Model-Q4_K_M.GGUF", "~/no.gguf"])
def test_a_file_that_does_not_exist_is_not_sought_on_a_hub(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda *_, **__: pytest.fail("the hub was asked"))
    assert not weights_here(name)
    with pytest.raises(ModelError, match=r"file of the model does not exist.*download REPOSITORY FILE"):
        find_checkpoint(name, task=TASK)


def test_a_file_has_no_revisions(header: Path) -> None:
    write(header, "llama")
    with pytest.raises(ModelError, match="no revisions"):
        find_checkpoint(str(header), "main", task=TASK)


@pytest.mark.parametrize(
    ("architecture", "parts", "message"),
    [
        ("clip", 1, r"image encoder of a vision-language model \(mmproj\)"),
        ("llama", 3, "one part of a model that is split into several.*--merge"),
        ("rwkv7", 1, "cannot read a GGUF file of the architecture 'rwkv7'.*llama.cpp or Ollama"),
    ],
)
def test_what_is_no_language_model_of_transformers_is_refused(
    header: Path, architecture: str, parts: int, message: str
) -> None:
    write(header, architecture, parts)
    with pytest.raises(ModelError, match=message):
        find_checkpoint(str(header), task=TASK)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"version https://git-lfs.github.com/spec/v1\n", "does not begin with the letters GGUF"),
        (b"", "does not begin with the letters GGUF"),
        (b"GGUF\x03\x00\x00\x00\x05\x00", "damaged or incomplete"),
    ],
)
def test_a_file_that_is_none_is_refused(header: Path, content: bytes, message: str) -> None:
    header.write_bytes(content)
    with pytest.raises(ModelError, match=message):
        find_checkpoint(str(header), task=TASK)


def test_a_download_that_broke_off_is_refused(smollm2: Path, tmp_path: Path) -> None:
    part = tmp_path / "part.gguf"
    with smollm2.open("rb") as stream:
        part.write_bytes(stream.read(20_000_000))
    with pytest.raises(ModelError, match="damaged or incomplete"):
        find_checkpoint(str(part), task=TASK)


@pytest.mark.parametrize("package", ["accelerate", "gguf"])
def test_a_missing_package_is_named(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    monkeypatch.setattr("taxtune.models.gguf.find_spec", lambda name: None if name == package else object())
    with pytest.raises(MissingExtraError, match=rf"model\.gguf needs the package '{package}'.*taxtune\[gguf\]"):
        find_checkpoint(str(file), task=TASK)
