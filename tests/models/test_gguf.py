"""GGUF files: a tiny one that the tests write, a real one where it is installed, and files that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from taxtune.errors import MissingExtraError, ModelError
from taxtune.models import Answer, AnswerStore, Failure, ModelSettings, Reply, Request, ask, check_model, make_model
from taxtune.models.base import Task
from taxtune.models.checkpoint import check_reachable, checkpoint_revision, find_checkpoint, weights_here
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


def test_its_answers_are_kept_by_the_content_of_the_file(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    copy = tmp_path / "elsewhere" / tiny.name
    copy.write_bytes(tiny.read_bytes())
    model, again = make_model(f"local:{tiny}", TEXT), make_model(f"local:{copy}", TEXT)
    with AnswerStore(tmp_path / "answers.db") as store:
        (first,) = ask(model, [Request("Is it?")], store)
        (second,) = ask(again, [Request("Is it?")], store)
    assert isinstance(second, Answer)
    assert second.cached
    assert second.text == text(first)
    with copy.open("ab") as stream:
        stream.write(b"more")
    assert make_model(f"local:{copy}", TEXT).identity != model.identity


def test_it_is_found_without_its_weights(folder: Path, tiny: Path) -> None:
    found = find_checkpoint(str(tiny), task=TASK)
    assert (found.name, found.model_type, found.complete) == (tiny.name, "llama", True)
    assert found.revision == checkpoint_revision(str(tiny))
    # At two bytes for each, where the folder has four.
    assert found.weight_bytes == pytest.approx((folder / "model.safetensors").stat().st_size / 2, rel=0.05)
    assert weights_here(str(tiny))
    assert check_model(make_model(f"local:{tiny}", TEXT)) == []


def test_it_is_not_quantized_again(tiny: Path) -> None:
    with pytest.raises(ModelError, match="cannot be quantized again"):
        check_model(make_model(f"local:{tiny}", ModelSettings(task=TASK, quantization="4bit")))


@pytest.mark.heavy
def test_a_real_model_answers(smollm2: Path) -> None:
    model = make_model(f"local:{smollm2}", TEXT)
    # 134,515,008 weights of two bytes, although the file has fewer bits for each.
    assert find_checkpoint(str(smollm2), task=TASK).weight_bytes == 269_030_016
    (reply,) = model.answer([Request("What is the capital of France?")])
    assert "Paris" in text(reply)
    assert isinstance(reply, Answer)
    # The system turn that its chat template adds is read as well.
    assert reply.prompt_tokens > 30


# -- what is refused --------------------------------------------------------------------------------------------------


def test_a_vision_language_model_is_not_read_from_such_a_file(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    with pytest.raises(ModelError, match=r"language model, which takes no images.*vlm\.api_base"):
        check_model(make_model(f"local:{file}"))
    with pytest.raises(ModelError, match="which takes no images"):
        check_reachable(str(file))


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


def test_a_download_that_broke_off_is_refused(tiny: Path, tmp_path: Path) -> None:
    part = tmp_path / "part.gguf"
    part.write_bytes(tiny.read_bytes()[: tiny.stat().st_size // 2])
    with pytest.raises(ModelError, match="damaged or incomplete"):
        find_checkpoint(str(part), task=TASK)


@pytest.mark.parametrize("package", ["accelerate", "gguf"])
def test_a_missing_package_is_named(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    monkeypatch.setattr("taxtune.models.checkpoint.find_spec", lambda name: None if name == package else object())
    with pytest.raises(MissingExtraError, match=rf"model\.gguf needs the package '{package}'.*\.\[gguf\]"):
        find_checkpoint(str(file), task=TASK)
