"""A flat list of labels, and the sense of WordNet in which each is meant.

"Crane" is a bird among birds and a machine among machines: of the senses of a label, the most
frequent one is taken unless another lies below a telling kind that more of the other labels share.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from taxtune.data.labels import label_references
from taxtune.errors import DataError
from taxtune.tables import clean, csv_text, header_of, read_rows, read_text, text_lines
from taxtune.taxonomy.tree import Taxonomy
from taxtune.wordnet import Synset, WordNet

__all__ = [
    "WNID",
    "Choice",
    "Label",
    "as_labels",
    "choices_csv",
    "choose_synsets",
    "read_labels",
    "senses_on_tree",
]
__all__ += ["unplaced"]

#: A label that is WordNet's number of a noun, as ImageNet's folders are called.
WNID = re.compile(r"n(\d{8})")
# What data sets put in front of their labels: "012.Black_footed_Albatross".
_NUMBER = re.compile(r"\d+\.\s*(?=\D)")
_AFTER_HEAD = frozenset(
    {"of", "with", "in", "on", "for", "from", "at", "to", "without", "de", "al", "la"}
)
# The prior of a sense falls by the first factor with each sense of the word that is more frequent,
# and by the second where the word is not the first lemma of the synset: "jellyfish" is the second
# name of the Portuguese man-of-war.
_RARER, _SECOND_LEMMA = 0.95, 0.7
# The prior of a part of a label falls by each word left out before the head noun, and by leaving
# out the head noun.
_SHORTER, _NOT_THE_HEAD = 0.9, 0.5
# A part of a label is believed if its sense scores at least this share of the median of the labels
# that WordNet has.
_BELIEVED = 0.25
# Most labels are of a kind where more than this share of them may be.
_MOST = 0.75
# A sense that has less than this share of the information in common with them that another one has
# is not meant.
_HALF_AS_CLOSE = 0.5
# Of ImageNet's 308 labels with several senses, a power of 3 finds 239, a power of 1 finds 217; the
# first sense, 102.
_POWER = 3
_SHOWN = 6


class Label(NamedTuple):
    """A label.

    Attributes:
        name: As people read it: spaces for underscores, no number in front.
        written: As the data have it, each way once.
        aliases: What of this the tree has to know as another name. A folder's name does not need it
            where only underscores or a number in front tell it from the label: whoever reads the
            images passes over these.
    """

    name: str
    written: tuple[str, ...]
    aliases: tuple[str, ...] = ()


def read_labels(path: Path) -> list[Label]:
    """Returns the labels of a file or folder, each once, in their order.

    Labels that differ in upper and lower case, underscores or a leading number only are one.

    Args:
        path: A text file with one label per line; a CSV with a column label; or a folder, whose
            sub-folders are called as the labels of the images in them.

    Raises:
        DataError: If there is no such file or folder, no column label, an empty label, or no label
            at all.
    """
    if path.is_dir():
        with os.scandir(path) as entries:
            names = sorted(
                entry.name for entry in entries if entry.is_dir() and not entry.name.startswith(".")
            )
        if not names:
            raise DataError(
                "The folder has no sub-folders to use as labels.",
                file=path,
                remedy="Give a folder with one sub-folder for each label, or a file with one label per line.",
            )
        return as_labels(names, folders=True)
    text = read_text(path, error=DataError, what="labels")
    if path.suffix.lower() not in (".csv", ".tsv") and "label" not in header_of(text):
        return as_labels(filter(str.strip, text_lines(text)))
    remedy = (
        "Rename the column with the labels to label, or give a text file with one label per line."
    )
    rows = read_rows(path, ("label",), what="labels", remedy=remedy)
    for line, cells in rows:
        if not cells["label"]:
            raise DataError(
                "The row has no label.",
                file=path,
                row=line,
                remedy="Fill it in, or remove the row.",
            )
    return as_labels(cells["label"] for _, cells in rows)


def as_labels(written: Iterable[str], *, folders: bool = False) -> list[Label]:
    """Returns labels as they are written as `Label`s, those that are read alike as one.

    Args:
        written: The labels.
        folders: Whether they are names of folders of images.
    """
    labels: dict[str, Label] = {}
    for text in map(clean, written):
        number = _NUMBER.match(text)
        name = clean(text[number.end() if number else 0 :].replace("_", " ")) or text
        known = labels.get(name.casefold(), Label(name, ()))
        spellings = tuple(dict.fromkeys((*known.written, text)))
        aliases = [
            one for one in spellings if not (folders and known.name in label_references(one))
        ]
        aliases = [one for one in aliases if one.casefold() != known.name.casefold()]
        labels[name.casefold()] = Label(known.name, spellings, tuple(aliases))
    return list(labels.values())


class Choice(NamedTuple):
    """The synset of a label.

    Attributes:
        label: The label.
        synset: Its synset, or None.
        relation: "is" if the label is a name of the synset, "kind of" if only its head noun is, ""
            without a synset.
        words: The words of the label that were looked up.
        alternatives: The other senses, the best first.
    """

    label: Label
    synset: Synset | None = None
    relation: str = ""
    words: str = ""
    alternatives: tuple[Synset, ...] = ()


def senses_of(wordnet: WordNet, name: str) -> dict[Synset, float]:
    """The senses of a name as a noun with their priors, the most frequent first.

    A name that WordNet does not have is looked up with its parts joined by spaces, by hyphens, and
    by nothing.
    """
    parts = name.replace("_", " ").replace("-", " ").split()
    for spelling in dict.fromkeys((name, " ".join(parts), "-".join(parts), "".join(parts))):
        written = spelling.replace("_", " ").casefold()
        senses = {
            synset: _RARER**i * (1.0 if synset.lemmas[0].casefold() == written else _SECOND_LEMMA)
            for i, synset in enumerate(wordnet.synsets(spelling))
        }
        if senses:
            return senses
    return {}


def agreement(
    wordnet: WordNet, senses: Sequence[Mapping[Synset, float]]
) -> list[dict[Synset, float]]:
    """Scores each sense of each name by the kind that it shares with the other names.

    The score is the prior times the highest product, over all kinds of the sense, of the share of
    the other names that may be of this kind and of the kind's information content to the third
    power. A name alone scores its priors.
    """
    members = Counter(
        kind
        for some in senses
        for kind in frozenset().union(*(wordnet.ancestors(synset) for synset in some))
    )
    others = sum(map(bool, senses)) - 1

    def score(synset: Synset) -> float:
        if others < 1:
            return 1.0
        shared = (
            (members[kind] - 1) * wordnet.information(kind) ** _POWER
            for kind in wordnet.ancestors(synset)
        )
        return max(shared, default=0.0) / others

    return [{synset: prior * score(synset) for synset, prior in some.items()} for some in senses]


def choose_synsets(wordnet: WordNet, labels: Sequence[Label]) -> list[Choice]:
    """Chooses the synset of each label.

    A label that WordNet does not have is looked up by its head noun ("wedding cake": cake) or by
    other parts of it; a part that has no sense in common with the other labels, or none in their
    domain (see `_Domain`), is not believed, and the label has no synset.
    """
    lookups = [_lookups(wordnet, label) for label in labels]
    scores = agreement(
        wordnet, [{synset: prior for synset, (prior, _, _) in some.items()} for some in lookups]
    )
    whole = sorted(
        max(row.values())
        for row, senses in zip(scores, lookups, strict=True)
        if any(relation == "is" for *_, relation in senses.values())
    )
    least = _BELIEVED * whole[len(whole) // 2] if whole else 0.0
    ranked_of = [
        sorted(senses, key=lambda synset: -row[synset])
        for senses, row in zip(lookups, scores, strict=True)
    ]
    of_parts = [
        any(relation == "kind of" for *_, relation in senses.values()) for senses in lookups
    ]
    pairs = [*zip(ranked_of, of_parts, strict=True)]
    domain = _Domain(
        wordnet,
        named=[ranked[0] for ranked, of_part in pairs if ranked and not of_part],
        heads=[ranked for ranked, of_part in pairs if of_part],
    )
    choices = []
    for label, senses, ranked, of_part, row in zip(
        labels, lookups, ranked_of, of_parts, scores, strict=True
    ):
        likely = ranked
        if of_part:
            likely = [synset for synset in domain.fitting(ranked) if row[synset] >= least]
        if likely:
            _, words, relation = senses[likely[0]]
            others = tuple(synset for synset in ranked if synset is not likely[0])
            choices.append(Choice(label, likely[0], relation, words, others))
        else:
            choices.append(Choice(label, alternatives=tuple(ranked)))
    return choices


class _Domain:
    """What labels have in common, as far as their senses tell.

    Args:
        wordnet: WordNet.
        named: The sense of each label that WordNet has.
        heads: The senses of the parts of each other label.
    """

    def __init__(
        self, wordnet: WordNet, named: Sequence[Synset], heads: Sequence[Sequence[Synset]]
    ) -> None:
        self._wordnet = wordnet
        self._named = frozenset().union(*map(wordnet.ancestors, named))
        kinds = [
            self._kinds(senses) for senses in (*([synset] for synset in named), *heads) if senses
        ]
        self._labels = len(kinds)
        self._counts = Counter(chain.from_iterable(kinds))
        self._information = {kind: wordnet.information(kind) for kind in self._counts}
        self._telling = sorted(self._counts, key=lambda kind: (-self._information[kind], kind.name))

    def fitting(self, senses: Sequence[Synset]) -> list[Synset]:
        """Returns the senses of a label's parts that are no further from the other labels than these are.

        The domain of the others is the most telling kind that most of them may be of. A sense fits
        if it is below that, or below a kind as telling that a label is which WordNet has, and no
        other sense is much closer to these.
        """
        own = self._kinds(senses)
        least = _MOST * (self._labels - 1)
        shared = (kind for kind in self._telling if self._counts[kind] - (kind in own) > least)
        domain = next(shared, None) if self._labels > 1 else None
        closest = max(map(self._closeness, senses), default=0.0)
        near = [synset for synset in senses if self._closeness(synset) >= _HALF_AS_CLOSE * closest]
        if domain is None:
            return near
        telling = {
            kind for kind in self._named if self._information[kind] >= self._information[domain]
        } | {domain}
        return [
            synset for synset in near if not telling.isdisjoint(self._wordnet.ancestors(synset))
        ]

    def _closeness(self, synset: Synset) -> float:
        """Returns the information content of what a sense has in common with the labels that WordNet has."""
        shared = self._wordnet.ancestors(synset) & self._named
        return max((self._information[kind] for kind in shared), default=0.0)

    def _kinds(self, senses: Iterable[Synset]) -> frozenset[Synset]:
        return frozenset().union(*map(self._wordnet.ancestors, senses))


def _lookups(wordnet: WordNet, label: Label) -> dict[Synset, tuple[float, str, str]]:
    """The senses that a label may have: the prior, the words that were looked up, and the relation."""
    for written in label.written:
        number = WNID.fullmatch(written)
        synset = wordnet.synset_at(int(number[1])) if number else None
        if synset is not None:
            return {synset: (1.0, written, "is")}
    whole = senses_of(wordnet, label.name)
    if whole:
        return {synset: (prior, label.name, "is") for synset, prior in whole.items()}
    words = label.name.replace("-", " ").split()
    cut = next((i for i, word in enumerate(words) if i and word.lower() in _AFTER_HEAD), len(words))
    parts = [(words[i:cut], _SHORTER**i) for i in range(cut)]
    parts += [(words[:i], _NOT_THE_HEAD * _SHORTER ** (cut - i)) for i in range(cut - 1, 0, -1)]
    found: dict[Synset, tuple[float, str, str]] = {}
    for part, weight in parts:
        for synset, prior in senses_of(wordnet, " ".join(part)).items():
            found.setdefault(synset, (prior * weight, " ".join(part), "kind of"))
    return found


def senses_on_tree(wordnet: WordNet, taxonomy: Taxonomy) -> dict[int, Synset]:
    """The synset of each node that the nodes around it confirm.

    A node above confirms a sense that is a kind of one of its senses, and a child one of which it
    may be a kind. The sense with the most confirmations is taken, of several the one that agrees
    best with all nodes; a node without confirmation has none, and a synset that two nodes would
    have is that of neither.
    """
    senses: list[dict[Synset, float]] = []
    for node in range(len(taxonomy)):
        found: dict[Synset, float] = {}
        for name in (taxonomy.labels[node], *taxonomy.aliases[node]):
            for synset, prior in senses_of(wordnet, name).items():
                found[synset] = found.get(synset, 0.0) + prior
        senses.append(found)
    kinds = [
        frozenset().union(*(wordnet.ancestors(synset) - {synset} for synset in some))
        for some in senses
    ]
    chosen: dict[int, Synset] = {}
    for node, row in enumerate(agreement(wordnet, senses)):
        above, below = taxonomy.ancestors(node).tolist()[:-1], taxonomy.children(node).tolist()
        votes = {
            synset: sum(not wordnet.ancestors(synset).isdisjoint(senses[other]) for other in above)
            + sum(synset in kinds[child] for child in below)
            for synset in row
        }
        best = max(row, key=lambda synset: (votes[synset], row[synset]), default=None)
        if best is not None and votes[best]:
            chosen[node] = best
    owners = Counter(chosen.values())
    return {node: synset for node, synset in chosen.items() if owners[synset] == 1}


def unplaced(choices: Sequence[Choice]) -> str:
    """Returns in a sentence which labels have no synset; "" where all have one."""
    names = ", ".join(choice.label.name for choice in choices if choice.synset is None)
    return f"below the root, since WordNet lacks them: {names}" if names else ""


def choices_csv(choices: Sequence[Choice]) -> str:
    """The choices as CSV, to be reviewed."""
    rows = []
    for label, synset, relation, words, alternatives in choices:
        others = " | ".join(f"{other.name}: {other.gloss}" for other in alternatives[:_SHOWN])
        name, gloss = (synset.name, synset.gloss) if synset else ("", "")
        rows.append((label.name, name, relation, words, gloss, others))
    return csv_text(("label", "synset", "relation", "words", "gloss", "alternatives"), rows)
