"""A flat list of labels, and the sense of WordNet in which each is meant.

"Crane" is a bird among birds and a machine among machines: of the senses of a label, the most
frequent one is taken unless another lies below a telling kind that more of the other labels share.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
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
    "Label",
    "SenseChoice",
    "as_labels",
    "choices_csv",
    "choose_synsets",
    "head_end",
    "read_labels",
    "senses_on_tree",
    "unplaced",
]

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
_RARER = 0.95
_SECOND_LEMMA = 0.7
# The prior of a part of a label falls by each word left out before the head noun, and by leaving
# out the head noun.
_SHORTER = 0.9
_NOT_THE_HEAD = 0.5
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
        folders = [entry.name for entry in path.iterdir() if entry.is_dir()]
        names = sorted(name for name in folders if not name.startswith("."))
        if not names:
            raise DataError(
                "The folder has no sub-folders to use as labels.",
                file=path,
                remedy="Give a folder with one sub-folder for each label, or a file with one label "
                "per line.",
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
            remedy = "Fill it in, or remove the row."
            raise DataError("The row has no label.", file=path, row=line, remedy=remedy)
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
        aliases = [one for one in spellings if one.casefold() != known.name.casefold()]
        if folders:
            aliases = [one for one in aliases if known.name not in label_references(one)]
        labels[name.casefold()] = Label(known.name, spellings, tuple(aliases))
    return list(labels.values())


class SenseChoice(NamedTuple):
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
    """Returns the senses of a name as a noun with their priors, the most frequent first.

    A name that WordNet does not have is looked up with its parts joined by spaces, by hyphens, and
    by nothing.
    """
    parts = name.replace("_", " ").replace("-", " ").split()
    for spelling in dict.fromkeys((name, " ".join(parts), "-".join(parts), "".join(parts))):
        written = spelling.replace("_", " ").casefold()
        senses = {}
        for i, synset in enumerate(wordnet.synsets(spelling)):
            is_first = synset.lemmas[0].casefold() == written
            senses[synset] = _RARER**i * (1.0 if is_first else _SECOND_LEMMA)
        if senses:
            return senses
    return {}


def agreement(
    wordnet: WordNet, senses: Sequence[Mapping[Synset, float]]
) -> list[dict[Synset, float]]:
    """Returns a score for each sense of each name, by the kind that it shares with other names.

    The score is the prior times the highest product, over all kinds of the sense, of the share of
    the other names that may be of this kind and of the kind's information content to the third
    power. A name alone scores its priors.
    """
    members: Counter[Synset] = Counter()
    for some in senses:
        members.update(_kinds(wordnet, some))
    others = sum(map(bool, senses)) - 1

    def score(synset: Synset) -> float:
        if others < 1:
            return 1.0
        shared = []
        for kind in wordnet.ancestors(synset):
            shared.append((members[kind] - 1) * wordnet.information(kind) ** _POWER)
        return max(shared, default=0.0) / others

    return [{synset: prior * score(synset) for synset, prior in some.items()} for some in senses]


def choose_synsets(wordnet: WordNet, labels: Sequence[Label]) -> list[SenseChoice]:
    """Returns the synset of each label.

    A label that WordNet does not have is looked up by its head noun ("wedding cake": cake) or by
    other parts of it; a part that has no sense in common with the other labels, or none in their
    domain (see `_Domain`), is not believed, and the label has no synset.
    """
    lookups = [_lookups(wordnet, label) for label in labels]
    priors = []
    for senses in lookups:
        priors.append({synset: lookup.prior for synset, lookup in senses.items()})
    scores = agreement(wordnet, priors)
    best_whole = []
    named = []
    heads = []
    for senses, row in zip(lookups, scores, strict=True):
        ranked = sorted(row, key=lambda synset: -row[synset])
        if any(lookup.relation == "kind of" for lookup in senses.values()):
            heads.append(ranked)
        elif ranked:
            named.append(ranked[0])
            best_whole.append(row[ranked[0]])
    least = 0.0
    if best_whole:
        least = _BELIEVED * sorted(best_whole)[len(best_whole) // 2]
    domain = _Domain(wordnet, named, heads)
    choices = []
    for label, senses, row in zip(labels, lookups, scores, strict=True):
        ranked = sorted(row, key=lambda synset: -row[synset])
        likely = ranked
        if any(lookup.relation == "kind of" for lookup in senses.values()):
            likely = [synset for synset in domain.fitting(ranked) if row[synset] >= least]
        if not likely:
            choices.append(SenseChoice(label, alternatives=tuple(ranked)))
            continue
        lookup = senses[likely[0]]
        others = tuple(synset for synset in ranked if synset is not likely[0])
        choices.append(SenseChoice(label, likely[0], lookup.relation, lookup.words, others))
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
        self._named = _kinds(wordnet, named)
        kinds = [wordnet.ancestors(synset) for synset in named]
        kinds += [_kinds(wordnet, senses) for senses in heads if senses]
        self._labels = len(kinds)
        self._counts = Counter(chain.from_iterable(kinds))
        self._information = {kind: wordnet.information(kind) for kind in self._counts}
        self._telling = sorted(self._counts, key=lambda kind: (-self._information[kind], kind.name))

    def fitting(self, senses: Sequence[Synset]) -> list[Synset]:
        """Returns the senses of a label's parts that are in the domain of the other labels.

        The domain of the others is the most telling kind that most of them may be of. A sense fits
        if it is below that, or below a kind as telling that a label is which WordNet has, and no
        other sense is much closer to these.
        """
        own = _kinds(self._wordnet, senses)
        least = _MOST * (self._labels - 1)
        shared = (kind for kind in self._telling if self._counts[kind] - (kind in own) > least)
        domain = next(shared, None) if self._labels > 1 else None
        closest = max(map(self._closeness, senses), default=0.0)
        near = [synset for synset in senses if self._closeness(synset) >= _HALF_AS_CLOSE * closest]
        if domain is None:
            return near
        telling = {domain}
        for kind in self._named:
            if self._information[kind] >= self._information[domain]:
                telling.add(kind)
        return [synset for synset in near if telling & self._wordnet.ancestors(synset)]

    def _closeness(self, synset: Synset) -> float:
        """Returns the information that a sense has in common with the labels of WordNet."""
        shared = self._wordnet.ancestors(synset) & self._named
        return max((self._information[kind] for kind in shared), default=0.0)


class _Lookup(NamedTuple):
    """How a sense of a label was looked up.

    Attributes:
        prior: The prior of the sense.
        words: The words that were looked up.
        relation: "is" for the whole label, "kind of" for a part of it.
    """

    prior: float
    words: str
    relation: str


def _lookups(wordnet: WordNet, label: Label) -> dict[Synset, _Lookup]:
    """Returns the senses that a label may have."""
    for written in label.written:
        number = WNID.fullmatch(written)
        synset = wordnet.synset_at(int(number[1])) if number else None
        if synset is not None:
            return {synset: _Lookup(1.0, written, "is")}
    whole = senses_of(wordnet, label.name)
    if whole:
        return {synset: _Lookup(prior, label.name, "is") for synset, prior in whole.items()}
    words = label.name.replace("-", " ").split()
    end = head_end(words, _AFTER_HEAD)
    parts = [(words[i:end], _SHORTER**i) for i in range(end)]
    for i in range(end - 1, 0, -1):
        parts.append((words[:i], _NOT_THE_HEAD * _SHORTER ** (end - i)))
    senses: dict[Synset, _Lookup] = {}
    for part, weight in parts:
        name = " ".join(part)
        for synset, prior in senses_of(wordnet, name).items():
            senses.setdefault(synset, _Lookup(prior * weight, name, "kind of"))
    return senses


def head_end(words: Sequence[str], after_head: Collection[str]) -> int:
    """Returns the number of words of a noun phrase up to its head: 1 of "chest of drawers"."""
    for i, word in enumerate(words):
        if i and word.lower() in after_head:
            return i
    return len(words)


def _kinds(wordnet: WordNet, senses: Iterable[Synset]) -> frozenset[Synset]:
    """Returns all that any of the senses is a kind of, itself included."""
    return frozenset().union(*map(wordnet.ancestors, senses))


def senses_on_tree(wordnet: WordNet, taxonomy: Taxonomy) -> dict[int, Synset]:
    """Returns the synset of each node that the nodes around it confirm.

    A node above confirms a sense that is a kind of one of its senses, and a child one of which it
    may be a kind. The sense with the most confirmations is taken, of several the one that agrees
    best with all nodes; a node without confirmation has none, and a synset that two nodes would
    have is that of neither.
    """
    senses: list[dict[Synset, float]] = []
    kinds_above = []
    for node in range(len(taxonomy)):
        own: dict[Synset, float] = {}
        for name in (taxonomy.labels[node], *taxonomy.aliases[node]):
            for synset, prior in senses_of(wordnet, name).items():
                own[synset] = own.get(synset, 0.0) + prior
        senses.append(own)
        above = [wordnet.ancestors(synset) - {synset} for synset in own]
        kinds_above.append(frozenset().union(*above))
    chosen: dict[int, Synset] = {}
    for node, row in enumerate(agreement(wordnet, senses)):
        parents = taxonomy.ancestors(node).tolist()[:-1]
        children = taxonomy.children(node).tolist()
        confirmations = {}
        for synset in row:
            kinds = wordnet.ancestors(synset)
            by_parents = sum(not kinds.isdisjoint(senses[parent]) for parent in parents)
            by_children = sum(synset in kinds_above[child] for child in children)
            confirmations[synset] = by_parents + by_children
        ranked = sorted(row, key=lambda synset: (-confirmations[synset], -row[synset]))
        if ranked and confirmations[ranked[0]]:
            chosen[node] = ranked[0]
    owners = Counter(chosen.values())
    return {node: synset for node, synset in chosen.items() if owners[synset] == 1}


def unplaced(choices: Sequence[SenseChoice]) -> str:
    """Returns a sentence on the labels that have no synset, "" where all have one."""
    names = ", ".join(choice.label.name for choice in choices if choice.synset is None)
    return f"below the root, since WordNet lacks them: {names}" if names else ""


def choices_csv(choices: Sequence[SenseChoice]) -> str:
    """Returns the choices as CSV, to be reviewed."""
    rows = []
    for label, synset, relation, words, alternatives in choices:
        others = " | ".join(f"{other.name}: {other.gloss}" for other in alternatives[:_SHOWN])
        name, gloss = (synset.name, synset.gloss) if synset else ("", "")
        rows.append((label.name, name, relation, words, gloss, others))
    return csv_text(("label", "synset", "relation", "words", "gloss", "alternatives"), rows)
