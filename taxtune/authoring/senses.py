"""Which sense of WordNet each of many labels is meant in, as a CSV file that can be edited.

"Crane" is a bird among birds and a machine among machines: of the senses of a label, the most frequent one is taken
unless another lies below a telling kind that more of the other labels share.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from taxtune.authoring.labels import Label
from taxtune.errors import DataError
from taxtune.tables import csv_text, read_rows
from taxtune.taxonomy.tree import Taxonomy
from taxtune.wordnet import Synset, WordNet

__all__ = ["WNID", "Choice", "choice_lines", "choices_csv", "choose_synsets", "read_choices", "senses_on_tree"]

_COLUMNS = ("label", "synset", "relation", "words", "gloss", "alternatives")
#: A label that is WordNet's number of a noun, as ImageNet's folders are called.
WNID = re.compile(r"n(\d{8})")
_AFTER_HEAD = frozenset({"of", "with", "in", "on", "for", "from", "at", "to", "without", "de", "al", "la"})
# The prior of a sense falls by the first factor with each sense of the word that is more frequent, and by the second
# where the word is not the first lemma of the synset: "jellyfish" is the second name of the Portuguese man-of-war.
_RARER, _SECOND_LEMMA = 0.95, 0.7
# The prior of a part of a label falls by each word left out before the head noun, and by leaving out the head noun.
_SHORTER, _NOT_THE_HEAD = 0.9, 0.5
# A part of a label is believed if its sense scores at least this share of the median of the labels that WordNet has.
_BELIEVED = 0.25
# Of ImageNet's 308 labels with several senses, a power of 3 finds 239, a power of 1 finds 217; the first sense, 102.
_POWER = 3
_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Choice:
    """The synset of a label.

    Attributes:
        label: The label.
        synset: Its synset, or None.
        relation: "is" if the label is a name of the synset, "kind of" if only its head noun is, "" without a synset.
        words: The words of the label that were looked up.
        given: Whether the synset was given by the user.
        alternatives: The other senses, the best first.
    """

    label: Label
    synset: Synset | None
    relation: str = "is"
    words: str = ""
    given: bool = False
    alternatives: tuple[Synset, ...] = ()


def senses_of(wordnet: WordNet, name: str) -> dict[Synset, float]:
    """The senses of a name as a noun with their priors, the most frequent first.

    A name that WordNet does not have is looked up with its parts joined by spaces, by hyphens, and by nothing.
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


def agreement(wordnet: WordNet, senses: Sequence[Mapping[Synset, float]]) -> list[dict[Synset, float]]:
    """Scores each sense of each name by the kind that it shares with the other names.

    The score is the prior times the highest product, over all kinds of the sense, of the share of the other names that
    may be of this kind and of the kind's information content to the third power. A name alone scores its priors.
    """
    members = Counter(
        kind for some in senses for kind in frozenset().union(*(wordnet.ancestors(synset) for synset in some))
    )
    others = sum(map(bool, senses)) - 1

    def score(synset: Synset) -> float:
        if others < 1:
            return 1.0
        shared = ((members[kind] - 1) * wordnet.information(kind) ** _POWER for kind in wordnet.ancestors(synset))
        return max(shared, default=0.0) / others

    return [{synset: prior * score(synset) for synset, prior in some.items()} for some in senses]


def choose_synsets(
    wordnet: WordNet, labels: Sequence[Label], given: Mapping[str, tuple[Synset | None, str]] | None = None
) -> list[Choice]:
    """Chooses the synset of each label.

    A label that WordNet does not have is looked up by its head noun ("wedding cake": cake) or by other parts of it; a
    part that has no sense in common with the other labels is not believed, and the label has no synset.

    Args:
        wordnet: WordNet.
        labels: The labels.
        given: The synset and the relation that the user chose, by the label's name.
    """
    given = given or {}
    lookups = [_lookups(wordnet, label) if label.name not in given else {} for label in labels]
    priors: list[Mapping[Synset, float]] = []
    for label, found in zip(labels, lookups, strict=True):
        chosen = given.get(label.name, (None, ""))[0]
        priors.append({synset: prior for synset, (prior, _, _) in found.items()} if chosen is None else {chosen: 1.0})
    scores = agreement(wordnet, priors)
    whole = sorted(
        max(row.values())
        for row, found in zip(scores, lookups, strict=True)
        if any(r == "is" for *_, r in found.values())
    )
    least = _BELIEVED * whole[len(whole) // 2] if whole else 0.0
    choices = []
    for label, found, row in zip(labels, lookups, scores, strict=True):
        if label.name in given:
            synset, relation = given[label.name]
            choices.append(Choice(label, synset, relation, label.name if synset else "", given=True))
            continue
        ranked = sorted(found, key=lambda synset: -row[synset])
        best = ranked[0] if ranked else None
        if best is None or (found[best][2] == "kind of" and row[best] < least):
            choices.append(Choice(label, None, "", alternatives=tuple(ranked)))
        else:
            choices.append(Choice(label, best, found[best][2], found[best][1], alternatives=tuple(ranked[1:])))
    return choices


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

    A node above confirms a sense that is a kind of one of its senses, and a child one of which it may be a kind. The
    sense with the most confirmations is taken, of several the one that agrees best with all nodes; a node without
    confirmation has none, and a synset that two nodes would have is that of neither.
    """
    senses: list[dict[Synset, float]] = []
    for node in range(len(taxonomy)):
        found: dict[Synset, float] = {}
        for name in (taxonomy.labels[node], *taxonomy.aliases[node]):
            for synset, prior in senses_of(wordnet, name).items():
                found[synset] = found.get(synset, 0.0) + prior
        senses.append(found)
    kinds = [frozenset().union(*(wordnet.ancestors(synset) - {synset} for synset in some)) for some in senses]
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


# -- the file ----------------------------------------------------------------------------------------------------------


def choices_csv(choices: Sequence[Choice]) -> str:
    """The choices as CSV, to be edited: another synset or relation, or no synset for a label below the root."""
    rows = []
    for choice in choices:
        others = " | ".join(f"{synset.name}: {synset.gloss}" for synset in choice.alternatives[:_SHOWN])
        name, gloss = (choice.synset.name, choice.synset.gloss) if choice.synset else ("", "")
        rows.append((choice.label.name, name, choice.relation, choice.words, gloss, others))
    return csv_text(_COLUMNS, rows)


def choice_lines(choices: Sequence[Choice]) -> list[str]:
    """Returns lines that say how many labels have a synset and which have none."""
    several = sum(row.relation == "is" and bool(row.alternatives) and not row.given for row in choices)
    relations, without = Counter(row.relation for row in choices), [row.label.name for row in choices if not row.synset]
    counts = (
        f"synsets  {relations['is']:,} labels are in WordNet, {several:,} of them with several senses; "
        f"{relations['kind of']:,} are by their head noun or another part; {len(without):,} are directly below the root"
    )
    return [counts, *([f"  below the root: {', '.join(without)}"] if without else [])]


def read_choices(path: Path, wordnet: WordNet, labels: Sequence[Label]) -> dict[str, tuple[Synset | None, str]]:
    """Reads edited choices: synset and relation by the label's name.

    Args:
        path: A CSV with the columns label and synset ("dog.n.01", or empty for none), and optionally relation.
        wordnet: WordNet.
        labels: The labels; for those that the file leaves out a synset is chosen.

    Raises:
        DataError: If a column is missing, a label is unknown or has two rows, or a synset does not exist.
    """
    known = {written.casefold(): label for label in labels for written in (*label.written, label.name)}
    found: dict[str, tuple[Synset | None, str]] = {}
    remedy = "Give the file that `taxtune taxonomy from-labels` wrote."
    for line, cells in read_rows(path, ("label", "synset"), ("relation",), what="synsets", remedy=remedy):
        written, name, relation = cells.values()
        label = known.get(written.casefold())
        if label is None:
            raise DataError("This is not one of the labels.", file=path, row=line, value=written, remedy="Remove it.")
        if label.name in found:
            raise DataError("The label already has a row.", file=path, row=line, value=written, remedy="Remove one.")
        synset = wordnet.synset(name) if name else None
        if name and synset is None:
            near = ", ".join(synset.name for synset in wordnet.synsets(name.split(".")[0])[:5])
            raise DataError(
                f"{wordnet.source} has no such synset.",
                file=path,
                row=line,
                value=name,
                remedy=f"Write one of {near}." if near else "Write it like dog.n.01, or leave the cell empty.",
            )
        if relation not in ("", "is", "kind of"):
            raise DataError("The relation must be 'is' or 'kind of'.", file=path, row=line, value=relation)
        found[label.name] = (synset, (relation or "is") if synset else "")
    return found
