"""WordNet as ImageNet has it: hypernym edges over synset ids ("n02084071 n02085374"), and names of synsets.

Names come in three forms, recognised by content: lines of `words.txt` (id, a tab, names separated by commas), the JSON
of `imagenet_class_index.json` (class number to id and name), and a JSON object of synsets by id with `name`, `labels`
and `lemmas`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from taxtune.errors import TaxonomyError
from taxtune.taxonomy.building.edges import EdgeCollector, tidy
from taxtune.taxonomy.sources.lines import first_lines, lines

__all__ = ["Direction", "is_synset_edges", "read_json_names", "read_synset_edges", "read_synset_names"]

Direction = Literal["child-parent", "parent-child"]

_SYNSET = re.compile(r"[nvars]\d{8}")
_WORDS = re.compile(r"([nvars]\d{8})[\t ](.+)")


def is_synset_edges(line: str) -> bool:
    """Tells whether a line is two synset ids."""
    tokens = line.split()
    return len(tokens) == 2 and all(_SYNSET.fullmatch(token) for token in tokens)


def read_synset_edges(path: Path, into: EdgeCollector, *, direction: Direction = "parent-child") -> None:
    """Reads edges between synsets, two ids per line with white space between them.

    Args:
        path: The file, packed or not.
        into: Where the edges go.
        direction: Which of the two comes first.

    Raises:
        TaxonomyError: If a line is something else.
    """
    into.start(str(path))
    for row, text in lines(path):
        tokens = text.split()
        if not tokens or text.startswith("#"):
            continue
        if len(tokens) != 2:
            raise TaxonomyError(
                f"The line has {len(tokens)} words instead of two ids.",
                file=path,
                row=row,
                value=text,
                remedy="Each line needs a parent and a child.",
            )
        first, second = map(tidy, tokens)
        if direction == "parent-child":
            into.edge(second, first, row)
        else:
            into.edge(first, second, row)


def read_synset_names(path: Path, into: EdgeCollector) -> None:
    """Reads the names of synsets that are there already: the first is the label, the others are aliases.

    Args:
        path: The file, in one of the three forms.
        into: Where the names go.

    Raises:
        TaxonomyError: If it is in none of them.
    """
    names = read_json_names(path) if first_lines(path, 1)[0].lstrip()[:1] in "{[" else _word_names(path)
    for key, label, others in names:
        into.name(key, label)
        for other in others:
            into.alias(key, other)


def _word_names(path: Path) -> Iterator[tuple[str, str, list[str]]]:
    for row, text in lines(path):
        if not text.strip():
            continue
        match = _WORDS.fullmatch(text.rstrip())
        if match is None:
            raise TaxonomyError(
                "The line is not a synset id and its names.",
                file=path,
                row=row,
                value=text,
                remedy="Lines look like: n01440764, a tab, tench, Tinca tinca.",
            )
        names = [name.strip() for name in match[2].split(",") if name.strip()]
        if names:
            yield match[1], names[0], names[1:]


def read_json_names(path: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Yields the id, the name and the other names of each synset of a JSON file in one of its two forms.

    Raises:
        TaxonomyError: If it is in neither.
    """
    try:
        data = json.loads("\n".join(text for _, text in lines(path)))
    except json.JSONDecodeError as problem:
        raise TaxonomyError(
            f"The file is not valid JSON: {problem.msg}.", file=path, row=problem.lineno, remedy="Download it again."
        ) from None
    except RecursionError:
        raise TaxonomyError("The JSON is nested too deeply to be names.", file=path) from None
    if not isinstance(data, dict) or not data:
        raise TaxonomyError("The JSON is not an object of names.", file=path)
    for place, (key, value) in enumerate(data.items(), start=1):
        if isinstance(value, list) and len(value) == 2 and all(isinstance(part, str) for part in value):
            yield value[0], value[1].replace("_", " "), []
        elif isinstance(value, dict) and isinstance(value.get("name"), str):
            yield key, value["name"], [*_texts(value, "labels"), *_texts(value, "lemmas")]
        elif isinstance(value, str):
            yield key, value, []
        else:
            raise TaxonomyError(
                f'Entry {place:,} is neither a name, nor ["n01440764", "tench"], nor {{"name": ...}}.',
                file=path,
                value={key: value},
            )


def _texts(value: dict[str, Any], field: str) -> list[str]:
    found = value.get(field)
    return [text for text in found if isinstance(text, str)] if isinstance(found, list) else []
