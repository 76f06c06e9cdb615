"""Measures of pairs, each different pair computed once, and the text models of Hugging Face that some of them run."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from taxtune.encoders.base import folder_digest
from taxtune.errors import ModelError
from taxtune.hardware import AdaptiveBatches, find_device
from taxtune.loading import explain_load_error, look_for_hub
from taxtune.metrics.registry import FloatArray, Images, MeasureSettings, PairwiseMeasure, Questions, Texts, check_texts
from taxtune.progress import track
from taxtune.shell import program

__all__ = [
    "Advance",
    "ModelMeasure",
    "Notes",
    "Pair",
    "PairsMeasure",
    "TextModel",
    "TextModelMeasure",
    "find_text_model",
    "is_empty",
    "load_error",
    "token_limit",
    "version_of",
    "whole",
]

Pair = tuple[str, str]
Advance = Callable[[int], None]

_MAX_CHARACTERS = 100_000
_NO_LIMIT = 1_000_000  # a tokenizer without a limit names a larger one
_USUAL_LIMIT = 512
# Their position embeddings begin after the padding token's, so that they read fewer tokens than they have positions.
_OFFSET_POSITIONS = frozenset(
    {"camembert", "data2vec-text", "ibert", "longformer", "mpnet", "roberta", "roberta-prelayernorm"}
    | {"xlm-roberta", "xlm-roberta-xl", "xmod"}
)


def is_empty(text: str) -> bool:
    """Tells whether a text has nothing but blanks."""
    return not text.strip()


def whole(text: str) -> str:
    """The part of a text that a model is given: stripped, at most 100,000 characters, no halves of surrogate pairs."""
    return text.strip()[:_MAX_CHARACTERS].encode("utf-8", "replace").decode("utf-8")


class Notes:
    """Sentences with a number in them: how often something happened, or to how many different texts."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}
        self._texts: dict[str, set[int]] = {}

    def count(self, sentence: str, times: int = 1) -> None:
        """Counts an event, under a sentence with {n} where the number goes."""
        if times:
            self._times[sentence] = self._times.get(sentence, 0) + times

    def mark(self, sentence: str, text: str) -> None:
        """Counts a text once, however often it occurs."""
        self._texts.setdefault(sentence, set()).add(hash(text))

    def sentences(self) -> tuple[str, ...]:
        """The sentences with their numbers."""
        counts = {**self._times, **{sentence: len(texts) for sentence, texts in self._texts.items()}}
        return tuple(sentence.replace("{n}", f"{number:,}") for sentence, number in counts.items())


class PairsMeasure(PairwiseMeasure):
    """A measure that computes the scores of different pairs: write `compute`."""

    def __init__(self, settings: MeasureSettings, *, model: str | None = None) -> None:
        super().__init__(None if model is None else f"{self.kind.kind}:{model}")
        self.settings = settings
        self._notes = Notes()

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the scores computed so far."""
        return self._notes.sentences()

    @abstractmethod
    def compute(self, pairs: Sequence[Pair], advance: Advance) -> FloatArray:
        """The scores of different pairs of `as_pair`, NaN where there is no number; `advance` counts pairs."""

    def as_pair(self, answer: str, reference: str) -> Pair:
        """The texts that are compared of an answer and its reference."""
        return answer, reference

    def settled(self, answer: str, reference: str) -> float | None:
        """The score of a pair that need not be computed, counting it in the notes; None for all others."""
        return None

    def note_pairs(self, pairs: Sequence[Pair]) -> None:
        """Counts in the notes the texts that are cut."""

    def scores(
        self, answers: Texts, references: Texts, images: Images = None, *, questions: Questions = None
    ) -> FloatArray:
        """The score of each answer against its reference, shape (n,).

        Raises:
            ModelError: If the model cannot be loaded or run.
        """
        check_texts(answers, references)
        scores = np.full(len(answers), np.nan)
        rows: dict[Pair, list[int]] = {}
        for row, (answer, reference) in enumerate(zip(answers, references, strict=True)):
            settled = self.settled(answer, reference)
            if settled is None:
                rows.setdefault(self.as_pair(answer, reference), []).append(row)
            else:
                scores[row] = settled
        pairs = list(rows)
        self.note_pairs(pairs)
        with track(self.label, len(pairs)) as task:
            computed = self.compute(pairs, task.advance).tolist() if pairs else []
        for pair, score in zip(pairs, computed, strict=True):
            scores[rows[pair]] = score if math.isfinite(score) else np.nan
        unscored = sum(len(rows[pair]) for pair, score in zip(pairs, computed, strict=True) if not math.isfinite(score))
        self._notes.count("Pairs left unscored because the model returned no number: {n}.", unscored)
        return scores


class ModelMeasure(PairsMeasure):
    """A measure by a model: give it an `identity` and `compute`.

    An empty answer says nothing and gets 0, the score of unrelated texts, without asking the model; a pair with an
    empty reference is unscored (NaN), and so is one for which the model gives no number. All are counted in `notes`.
    """

    def __init__(self, model: str, settings: MeasureSettings) -> None:
        super().__init__(settings, model=model)

    def as_pair(self, answer: str, reference: str) -> Pair:
        """The texts that the model is given."""
        return whole(answer), whole(reference)

    def settled(self, answer: str, reference: str) -> float | None:
        """0 for an empty answer, NaN for an empty reference."""
        if is_empty(reference):
            self._notes.count("Pairs left unscored because the reference is empty: {n}.")
            return float("nan")
        if is_empty(answer):
            self._notes.count("Pairs with an empty answer, which score 0: {n}.")
            return 0.0
        return None


class TextModelMeasure(ModelMeasure):
    """A measure by a text model of Hugging Face, whose weights are loaded with the first pair.

    Raises:
        ModelError: If the model is not there.
    """

    #: The note on what is cut short, with {limit} for the model's tokens.
    cut_note = "Texts longer than the model's limit of {limit} tokens, which are truncated: {n}."
    blank_first = False

    def __init__(self, model: str, settings: MeasureSettings, folder: str | None = None) -> None:
        super().__init__(model, settings)
        self._model = find_text_model(folder or model)

    @cached_property
    def _batches(self) -> AdaptiveBatches:
        device = find_device(self.settings.device)
        return AdaptiveBatches(self.settings.batch_size, model=self._model.name, device=device)

    @cached_property
    def _tokenizer(self) -> Any:
        return load_tokenizer(self._model, blank_first=self.blank_first)

    def note_long(self, *texts: str) -> None:
        """Counts texts that the model is given together and that are longer than it reads."""
        # A token has at least a byte of the text, but for letters that are normalised to several.
        if sum(len(text.encode()) for text in texts) > 256:
            limit = self._tokenizer.model_max_length
            if len(self._tokenizer(*texts, truncation=False, verbose=False)["input_ids"]) > limit:
                self._notes.mark(self.cut_note.replace("{limit}", str(limit)), "\0".join(texts))


# -- text models -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TextModel:
    """A model whose weights are not loaded.

    Attributes:
        name: The Hugging Face name, or the folder's name.
        source: The Hugging Face name or the folder, to load it by.
        revision: The commit, or for a folder "sha256:" and a hash of its files.
        commit: The commit to load, or None for a folder.
        config: The model's configuration.
    """

    name: str
    source: str
    revision: str | None
    commit: str | None
    config: Any


def find_text_model(model: str) -> TextModel:
    """Finds a model by its Hugging Face name or its folder.

    Raises:
        ModelError: If it is not there; the message says how to get it.
    """
    from transformers import AutoConfig

    folder = Path(model).expanduser()
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise ModelError(
            "The folder contains no config.json, so it is not a model.",
            file=folder,
            remedy="Give the folder that `save_pretrained` or `hf download` wrote.",
        )
    if not folder.is_dir():
        if model.startswith((".", "/", "~")) or model.count("/") > 1 or "\\" in model:
            raise ModelError("The folder of the model does not exist.", value=model, remedy="Check the path.")
        look_for_hub()
    try:
        config = AutoConfig.from_pretrained(str(folder) if folder.is_dir() else model)
        digest = folder_digest(folder) if folder.is_dir() else None
    except Exception as error:  # OSError, ValueError, HTTP errors
        raise load_error(model, error, "configuration") from error
    if digest is not None:
        return TextModel(folder.resolve().name, str(folder), f"sha256:{digest}", None, config)
    commit = getattr(config, "_commit_hash", None)
    return TextModel(model, model, commit, commit, config)


def load_error(model: str, error: BaseException, what: str) -> ModelError:
    """The error where "configuration", "tokenizer" or "weights" cannot be loaded, with the way to get the model."""
    if isinstance(error, ModelError):
        return error
    found = explain_load_error(model, error, what)
    remedy = found.remedy
    if remedy is None:
        is_folder = Path(model).expanduser().is_dir()
        download = f"Run `{program('hf')} download {model}` while online, or give the folder of a copy."
        remedy = "Add the missing files to the folder." if is_folder else download
    return ModelError(found.message if found.message.endswith((".", ":")) else f"{found.message}.", remedy=remedy)


def load_tokenizer(model: TextModel, *, blank_first: bool = False) -> Any:
    """The model's tokenizer with its limit as `model_max_length` and a token for padding.

    With `blank_first` RoBERTa's tokenizers put a blank before the first word, as bert-score does.
    """
    from transformers import AutoTokenizer

    revision = model.commit or "main"
    try:
        tokenizer = AutoTokenizer.from_pretrained(model.source, revision=revision)
        if blank_first and type(tokenizer).__name__.removesuffix("Fast") in ("GPT2Tokenizer", "RobertaTokenizer"):
            tokenizer = AutoTokenizer.from_pretrained(model.source, revision=revision, add_prefix_space=True)
    except Exception as error:
        raise load_error(model.source, error, "tokenizer") from error
    tokenizer.model_max_length = token_limit(tokenizer, model.config)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def token_limit(tokenizer: Any, config: Any) -> int:
    """The number of tokens that a model reads, special tokens included."""
    limits = []
    length = getattr(tokenizer, "model_max_length", None)
    if length is not None and 0 < length < _NO_LIMIT:
        limits.append(int(length))
    positions = getattr(config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        offset = (config.pad_token_id or 0) + 1 if config.model_type in _OFFSET_POSITIONS else 0
        limits.append(positions - offset)
    return min(limits, default=_USUAL_LIMIT)


def version_of(module: Any) -> str:
    """A library with its major and minor version."""
    return f"{module.__name__} {'.'.join(str(module.__version__).split('.')[:2])}"
