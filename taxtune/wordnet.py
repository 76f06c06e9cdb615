"""WordNet (Fellbaum 1998), where it is installed: which things words name, and what these are kinds of.

WordNet is optional and is never downloaded: where it is missing, `find_wordnet` returns None, and
the caller goes on without it and says so. nltk reads the files, which takes a second or two at the
first question.
"""

from __future__ import annotations

import io
import math
import os
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from taxtune.errors import DataError

__all__ = ["ENVIRONMENT", "INSTALL", "Synset", "WordNet", "find_wordnet"]

#: The environment variable that names WordNet's folder; "none" means not to use it.
ENVIRONMENT = "TAXTUNE_WORDNET"
#: How to install it, for messages.
INSTALL = (
    "Install it (on Debian and Ubuntu: apt install wordnet-base; elsewhere: python -m "
    f"nltk.downloader wordnet), or give the folder of its files in {ENVIRONMENT}."
)
_SYSTEM = Path("/usr/share/wordnet")
# What nltk opens of the folder; the counts of senses and the index of senses are not asked for.
_FILES = [
    name
    for pos in ("noun", "verb", "adj", "adv")
    for name in (f"index.{pos}", f"data.{pos}", f"{pos}.exc")
]
# The lexicographers' files in the order of their numbers: lexnames(5WN). nltk reads them from a
# file of that name, which Debian leaves out.
_LEXNAMES = (
    "adj.all adj.pert adv.all noun.Tops noun.act noun.animal noun.artifact noun.attribute "
    "noun.body noun.cognition noun.communication noun.event noun.feeling noun.food noun.group "
    "noun.location noun.motive noun.object noun.person noun.phenomenon noun.plant "
    "noun.possession noun.process noun.quantity noun.relation noun.shape noun.state "
    "noun.substance noun.time verb.body verb.change verb.cognition verb.communication "
    "verb.competition verb.consumption verb.contact verb.creation verb.emotion verb.motion "
    "verb.perception verb.possession verb.social verb.stative verb.weather adj.ppl"
)
# A hypernym or what this is an instance of, in a line of data.noun.
_UPWARD = re.compile(r" @i? (\d{8}) n ")
_CATEGORIES = {"noun": 1, "verb": 2, "adj": 3, "adv": 4}
_INDEXES = {"n": "index.noun", "v": "index.verb", "a": "index.adj", "r": "index.adv"}


@dataclass(frozen=True, slots=True)
class Synset:
    """One sense, such as "dog.n.01".

    Attributes:
        name: Its name.
        lemmas: Its synonyms with spaces, the most frequent first.
        gloss: Its definition.
        lexname: Its lexicographers' file.
    """

    name: str
    lemmas: tuple[str, ...] = field(compare=False)
    gloss: str = field(compare=False)
    lexname: str = field(compare=False)


class WordNet:
    """The senses of words and the relations between them.

    Every question is answered from memory the second time.

    Args:
        folder: The folder of the database files, which may be in an archive.
    """

    def __init__(self, folder: Path | zipfile.Path) -> None:
        #: Where it was found.
        self.place = str(folder)
        self._folder = folder
        # By synset name; nltk keeps the synsets themselves.
        self._known: dict[str, Synset] = {}

    @cached_property
    def reader(self) -> Any:
        """The `WordNetCorpusReader` of nltk on the files.

        Raises:
            DataError: If they are damaged.
        """
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # other languages than English are not asked for
                return _reader(self._folder)
        except Exception as problem:  # a damaged file shows in whatever way nltk stumbles over it
            raise _damaged(self.place, f"{type(problem).__name__}: {problem}") from problem

    @cached_property
    def version(self) -> str:
        """The version that the files state, such as "3.0"; "unknown" if they state none."""
        # The licence at the head of a file has it; nltk would load all.
        with (self._folder / "data.noun").open("rb") as file:
            stated = re.search(rb"WordNet (\d+(?:\.\d+)?) Copyright", file.read(4096))
        return stated[1].decode() if stated else "unknown"

    @property
    def source(self) -> str:
        """Name and version, for records and messages."""
        return f"WordNet {self.version}"

    # -- words and senses --------------------------------------------------------------------------

    @cache  # noqa: B019 - there is one WordNet for the whole process
    def synsets(self, word: str, pos: str = "n") -> tuple[Synset, ...]:
        """Returns the senses of a word or phrase, the most frequent first; none if it has none.

        Args:
            word: In any case; spaces or underscores; inflected or not ("school buses" is found
                under "school bus").
            pos: The part of speech: n, v, a or r.
        """
        lemma = _lemma(word)
        return self._wrapped(self.reader.synsets(lemma, pos)) if lemma else ()

    def synset(self, name: str) -> Synset | None:
        """Returns the synset that is called `name` ("dog.n.01"), or None."""
        if name not in self._known:
            try:
                self._wrap(self.reader.synset(name))
            # nltk raises WordNetError, ValueError or KeyError, by what is wrong with the name.
            except Exception:
                return None
        # nltk finds "canis_familiaris.n.01" too, and calls it by its first lemma.
        return self._known.get(name)

    def has(self, word: str, pos: str = "nvar") -> bool:
        """Tells whether a word or phrase stands in the index, as it is written.

        Only the index is searched, so that a word that WordNet lacks does not cost the loading of
        all.

        Args:
            word: The word or phrase.
            pos: The parts of speech, any of which will do.
        """
        lemma = _lemma(word).encode("latin-1", "replace")
        return any(lemma in self._lemmas[part] for part in pos)

    @cached_property
    def _lemmas(self) -> dict[str, frozenset[bytes]]:
        lemmas = {}
        for pos, name in _INDEXES.items():
            lines = (self._folder / name).read_bytes().splitlines()
            lemmas[pos] = frozenset(line.partition(b" ")[0] for line in lines)
        return lemmas

    def pertainyms(self, word: str) -> tuple[Synset, ...]:
        """Returns the senses of the nouns that an adjective pertains to.

        Of "volcano" for "volcanic".
        """
        adjective = word.strip().lower()
        nouns = []
        for synset in self.reader.synsets(adjective, "a"):
            for lemma in synset.lemmas():
                if lemma.name().lower() == adjective:
                    nouns += [noun.synset() for noun in lemma.pertainyms()]
        return self._wrapped(nouns)

    def synset_at(self, offset: int) -> Synset | None:
        """Returns the noun at an offset of the files, or None.

        ImageNet's n02084071 is 2084071 of WordNet 3.0.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nltk warns where there is none
            synset = self.reader.synset_from_pos_and_offset("n", offset)
        return None if synset is None else self._wrap(synset)

    # -- relations ---------------------------------------------------------------------------------

    @cache  # noqa: B019
    def hypernyms(self, synset: Synset) -> tuple[Synset, ...]:
        """Returns the senses of which a sense is directly a kind or an instance, in order."""
        below = self.reader.synset(synset.name)
        above = [*_in_order(below.hypernyms()), *_in_order(below.instance_hypernyms())]
        return self._wrapped(above)

    def member_of(self, synset: Synset) -> tuple[Synset, ...]:
        """Returns the groups that a sense is a member of, as a genus is of its family."""
        return self._wrapped(_in_order(self.reader.synset(synset.name).member_holonyms()))

    @cache  # noqa: B019
    def ancestors(self, synset: Synset) -> frozenset[Synset]:
        """Returns all that a sense is a kind of, on any path, itself included."""
        return frozenset({synset}).union(*map(self.ancestors, self.hypernyms(synset)))

    def information(self, synset: Synset) -> float:
        """Returns the information of a kind, from 0 (the root) to 1 (nothing is below it).

        This is the intrinsic information content of
        Seco, Veale and Hayes (ECAI 2004, eq. 2): 1 - log(h + 1) / log(N) for a noun with h
        hyponyms, direct and indirect, of N. Other parts of speech have 0.
        """
        offset = self.reader.synset(synset.name).offset()
        n_below = self._numbers_below.get(offset, 0)
        if not n_below:
            return 0.0
        return 1 - math.log(n_below) / math.log(len(self._numbers_below))

    @cached_property
    def _numbers_below(self) -> dict[int, int]:
        """The number of nouns of the kind of each noun, itself included, by its offset."""
        # The whole file line by line: 82,000 synsets as objects of nltk's would take many times as
        # long.
        above = {}
        with self.reader.open("data.noun") as file:
            for line in file:
                if not line.startswith(" "):
                    offsets = _UPWARD.findall(line.split("|")[0])
                    above[int(line[:8])] = [int(offset) for offset in offsets]
        ancestors: dict[int, frozenset[int]] = {}
        counts: Counter[int] = Counter()
        for offset in TopologicalSorter(above).static_order():
            of_parents = [ancestors[parent] for parent in above[offset]]
            ancestors[offset] = frozenset({offset}).union(*of_parents)
            counts.update(ancestors[offset])
        return counts

    def _wrapped(self, synsets: Iterable[Any]) -> tuple[Synset, ...]:
        """Returns synsets of nltk's as ours, each once."""
        return tuple(dict.fromkeys(map(self._wrap, synsets)))

    def _wrap(self, synset: Any) -> Synset:
        name = str(synset.name())
        if name not in self._known:
            self._known[name] = Synset(
                name=name,
                lemmas=tuple(lemma.replace("_", " ") for lemma in synset.lemma_names()),
                gloss=synset.definition(),
                lexname=synset.lexname(),
            )
        return self._known[name]


def find_wordnet() -> WordNet | None:
    """Returns the WordNet of this machine, or None where there is none; nothing is downloaded.

    It is looked for in the folder that the environment variable TAXTUNE_WORDNET names ("none" is to
    do without), then where Debian's package `wordnet-base` puts it, then in nltk's data folders.

    Raises:
        DataError: If TAXTUNE_WORDNET names no such folder, or the folder that is found lacks a
            file.
    """
    named = os.environ.get(ENVIRONMENT, "").strip()
    if named.lower() == "none":
        return None
    if named:
        folder = Path(named).expanduser()
        if not folder.is_dir():
            raise DataError(
                f"{ENVIRONMENT} does not name a folder.",
                value=named,
                remedy=f"Give WordNet's folder, or unset {ENVIRONMENT}.",
            )
        return _at(folder)
    # Debian's folder first: to look into nltk's means to import nltk, which takes longer than to
    # place an answer.
    if _SYSTEM.is_dir():
        return _at(_SYSTEM)
    import nltk

    for data in nltk.data.path:
        for name in ("wordnet", "wordnet.zip"):
            path = Path(data) / "corpora" / name
            if path.exists():
                return _at(path)
    return None


@cache
def _at(path: Path) -> WordNet:
    folder = zipfile.Path(path, "wordnet/") if path.suffix == ".zip" else path
    missing = [name for name in _FILES if not (folder / name).is_file()]
    if missing:
        raise _damaged(str(path), f"there is no {', '.join(missing)}")
    return WordNet(folder)


def _damaged(place: str, what: str) -> DataError:
    return DataError(
        f"WordNet's files cannot be read: {what}.",
        file=place,
        remedy=f"{INSTALL} Set {ENVIRONMENT}=none to do without.",
    )


def _lemma(word: str) -> str:
    """Returns a word or phrase as it stands in WordNet's files."""
    return word.strip().lower().replace(" ", "_")


def _in_order(synsets: Iterable[Any]) -> list[Any]:
    # nltk keeps relations in sets, whose order may differ from run to run.
    return sorted(synsets, key=lambda synset: (synset.pos(), synset.offset()))


def _reader(folder: Path | zipfile.Path) -> Any:
    from nltk.corpus.reader.wordnet import WordNetCorpusReader
    from nltk.data import PathPointer

    class _Folder(PathPointer):  # type: ignore[misc]
        """Stands for the folder: nltk itself opens only what lies in one of its data folders."""

        open = None
        file_size = None
        join = None

    class _Reader(WordNetCorpusReader):  # type: ignore[misc]
        def open(self, file: str) -> Any:
            if file == "lexnames":
                return io.StringIO(_lexnames())
            # nltk seeks by byte offsets, so that a character must be a byte and a line end stay
            # what it is.
            path = folder / file
            if isinstance(path, Path):
                return path.open(encoding="latin-1", newline="\n")
            return io.TextIOWrapper(io.BytesIO(path.read_bytes()), encoding="latin-1", newline="\n")

        def map_wn(self, version: str = "wordnet") -> None:
            """Leaves out the mapping to other versions.

            Only other languages need it, and it wants more files.
            """

    return _Reader(_Folder(), None)


def _lexnames() -> str:
    """Returns the file of the lexicographers' files."""
    lines = []
    for number, name in enumerate(_LEXNAMES.split()):
        category = _CATEGORIES[name.partition(".")[0]]
        lines.append(f"{number:02d}\t{name}\t{category}\n")
    return "".join(lines)
