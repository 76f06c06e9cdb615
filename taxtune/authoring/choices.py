"""Which synset each of many labels is: found by their agreement, shown in a CSV, and taken back from it as edited."""

from __future__ import annotations

import re
import statistics
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taxtune.authoring.labels import Label
from taxtune.authoring.senses import Sense, agreeing_senses, senses_of
from taxtune.errors import DataError
from taxtune.tables import csv_text, read_rows
from taxtune.wordnet import Synset, WordNet

__all__ = ["IS", "KIND_OF", "WNID", "Choice", "choice_lines", "choices_csv", "choose_synsets", "read_choices"]

#: How a label has its synset: it is a name of it, names a kind of it, is WordNet's number of it, or has none.
IS, KIND_OF, NONE = "is", "kind of", ""
_COLUMNS = ("label", "synset", "relation", "words", "gloss", "alternatives")
#: A label that is WordNet's number of a noun, as ImageNet's folders are called.
WNID = re.compile(r"n(\d{8})")
_AFTER_HEAD = frozenset({"of", "with", "in", "on", "for", "from", "at", "to", "without", "de", "al", "la"})
# What a reading loses by each word of the label that it leaves out in front of the head, and by leaving out the head.
_SHORTER, _NOT_THE_HEAD = 0.9, 0.5
# A reading of a part of a label is believed if it agrees with the others at least so well, of what labels that WordNet
# has as they stand do (their median): "pad thai" is no Thai among dishes.
_BELIEVED = 0.25
_SHOWN = 6
# Labels whose synsets are printed one by one; of more, those are that somebody should look at.
_PRINTED = 30


@dataclass(frozen=True, slots=True)
class Choice:
    """The synset of a label.

    Attributes:
        label: The label.
        synset: Its synset, or None.
        relation: "is" if the label is a name of the synset, "kind of" if only its head noun is, "" without a synset.
        words: The words of the label that WordNet was asked for.
        given: Whether somebody chose it.
        alternatives: The other senses, those that agree best with the other labels first.
    """

    label: Label
    synset: Synset | None
    relation: str
    words: str
    given: bool = False
    alternatives: tuple[Synset, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Returns the choice as plain values."""
        return {
            "label": self.label.name,
            "synset": self.synset and self.synset.name,
            "relation": self.relation,
            "words": self.words,
            "given": self.given,
            "gloss": self.synset and self.synset.gloss,
            "alternatives": [{"synset": one.name, "gloss": one.gloss} for one in self.alternatives],
        }


def choose_synsets(
    wordnet: WordNet, labels: Sequence[Label], given: Mapping[str, tuple[Synset | None, str]] | None = None
) -> list[Choice]:
    """Returns the synset of each label, all chosen together: the senses that agree best with one another.

    A label that WordNet does not have as it stands is read by its head noun ("wedding cake": cake), or by other parts
    of it; a part whose every sense disagrees with the other labels is not believed, and the label has no synset.

    Args:
        wordnet: Where the synsets are from.
        labels: The labels.
        given: What somebody chose, by the label's name: synset and relation.
    """
    given = given or {}
    readings = [_readings(wordnet, label) if label.name not in given else [] for label in labels]
    senses: list[list[Sense]] = []
    for label, some in zip(labels, readings, strict=True):
        chosen = given.get(label.name, (None, ""))[0]
        senses.append([sense for _, sense, _ in some] if chosen is None else [Sense(chosen)])
    scores = agreeing_senses(wordnet, senses)
    whole = [max(row) for row, some in zip(scores, readings, strict=True) if row and some and some[0][2] == IS]
    least = _BELIEVED * statistics.median(whole) if whole else 0.0
    choices = []
    for label, some, row in zip(labels, readings, scores, strict=True):
        if label.name in given:
            synset, relation = given[label.name]
            choices.append(Choice(label, synset, relation, label.name if synset else "", given=True))
            continue
        ranked = sorted(range(len(some)), key=lambda i: (-row[i], i))
        others = tuple(dict.fromkeys(some[i][1].synset for i in ranked))
        if not ranked or (some[ranked[0]][2] == KIND_OF and row[ranked[0]] < least):
            choices.append(Choice(label, None, NONE, "", alternatives=others))
            continue
        words, sense, relation = some[ranked[0]]
        choices.append(Choice(label, sense.synset, relation, words, alternatives=others[1:]))
    return choices


def _readings(wordnet: WordNet, label: Label) -> list[tuple[str, Sense, str]]:
    """Returns the senses that a label may have, the words that have them, and the relation."""
    for written in label.written:
        number = WNID.fullmatch(written)
        synset = wordnet.synset_at(int(number[1])) if number else None
        if synset is not None:
            return [(written, Sense(synset), IS)]
    whole = senses_of(wordnet, label.name)
    if whole:
        return [(label.name, sense, IS) for sense in whole]
    words = label.name.replace("-", " ").split()
    cut = next((i for i, word in enumerate(words) if i and word.lower() in _AFTER_HEAD), len(words))
    parts = [(words[i:cut], _SHORTER**i) for i in range(cut)]
    parts += [(words[:i], _NOT_THE_HEAD * _SHORTER ** (cut - i)) for i in range(cut - 1, 0, -1)]
    found = []
    for part, prior in parts:
        phrase = " ".join(part)
        found += [(phrase, Sense(sense.synset, sense.prior * prior), KIND_OF) for sense in senses_of(wordnet, phrase)]
    return found


def choices_csv(choices: Sequence[Choice]) -> str:
    """Returns the choices as CSV, to be edited: another synset or relation, or none for a label under the root."""
    rows = []
    for choice in choices:
        others = " | ".join(f"{synset.name}: {synset.gloss}" for synset in choice.alternatives[:_SHOWN])
        name, gloss = (choice.synset.name, choice.synset.gloss) if choice.synset else ("", "")
        rows.append((choice.label.name, name, choice.relation, choice.words, gloss, others))
    return csv_text(_COLUMNS, rows)


def choice_lines(choices: Sequence[Choice]) -> list[str]:
    """Returns how many labels have a synset, and the choices that somebody should look at, as people read them."""
    by_name = [row for row in choices if row.relation == IS]
    in_part = [row for row in choices if row.synset is not None and row.relation != IS]
    without = [row for row in choices if row.synset is None]
    several = [row for row in by_name if row.alternatives and not row.given]
    lines = [
        f"synsets  {len(by_name):,} labels are in WordNet, {len(several):,} of them with several senses; "
        f"{len(in_part):,} are by their head noun or another part; {len(without):,} are not and are placed directly "
        f"below the root"
    ]
    if without:
        lines.append(f"  below the root: {', '.join(row.label.name for row in without)}")
    shown = choices if len(choices) <= _PRINTED else [row for row in choices if row in several or row in in_part]
    for row in shown[:_PRINTED]:
        if row.synset is not None:
            how = "" if row.relation == IS else f", a kind of {row.words!r}"
            others = f"; not {', '.join(one.name for one in row.alternatives[:3])}" if row.alternatives else ""
            gloss = textwrap.shorten(row.synset.gloss, 60, placeholder=" …")
            lines.append(f"  {row.label.name}{how}: {row.synset.name} ({gloss}){others}")
    if len(shown) > _PRINTED:
        lines.append(f"  and {len(shown) - _PRINTED:,} more to review: see the file of synsets, or --json")
    return lines


def read_choices(path: Path, wordnet: WordNet, labels: Sequence[Label]) -> dict[str, tuple[Synset | None, str]]:
    """Reads choices that were edited: synset and relation by the label's name.

    Args:
        path: A CSV with the columns label and synset ("dog.n.01", or empty for none), and optionally relation.
        wordnet: Where the synsets are from.
        labels: The labels; those that the file leaves out are chosen for.

    Raises:
        DataError: If a column is missing, a label is unknown or named twice, or a synset does not exist.
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
        if relation not in ("", IS, KIND_OF):
            raise DataError("The relation must be 'is' or 'kind of'.", file=path, row=line, value=relation)
        found[label.name] = (synset, (relation or IS) if synset else NONE)
    return found
