"""Removes the format of an answer: markers, markdown, JSON and lists become plain lines."""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, takewhile
from typing import TypeVar

from taxtune.mapping import english
from taxtune.thoughts import without_thoughts

__all__ = ["Block", "unwrap"]

_TURN = re.compile(r"#{2,}\s*(?:human|user|assistant)\s*:", re.I)
_STAR = re.compile(r"^\s*\*\s+", re.M)
_MARKUP = re.compile(
    r"""
    \b(?:https?://|www\.)\S+
    | </?(?:answer|a|b|br|code|div|em|final|h\d|i|label|li|ol|p|pre|s|span|strong|u|ul)
        (?:\s[^<>\n]{0,80})?/?>
    | <\|(?:begin|end)_of_box\|>
    | \\(?:boxed|text\w*|emph)\b | [{}] | !?\[(?=[^\]\n]*\]\() | \]\(
    | ```\w* | \*+ | `+ | ~~ | ^\s*[#>|]+
    | (?<!\w)_+ | _+(?!\w) | (?<=[^\W_])_+(?=[^\W_])
    | ["“”„«»‹›] | (?<!\w)['‘’](?=\w) | (?<=\w)['’](?!\w)
    """,
    re.M | re.I | re.X,
)
_TABLE_HEAD = re.compile(r"^[^|\n]*\|.*\n[ \t|:]*-[-:| \t]*$", re.M)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_MARKER = re.compile(
    r"(?:(?:^|[\s.!?(])(?:final answer|answer|answer is|ans|prediction|output|assistant)"
    r"|(?:^|[.!?\n'\"”’])\s*A)\s*[:：=]\s*",
    re.I,
)
_BULLET = re.compile(r"^\s*(?:[-•·▪◦*+–—]\s+|\(?\d{1,2}\s*[.):|]\s*|\(?[a-h]\)\s+)", re.I)
#: A number that ranks a candidate: "70%", "0.7", "score: 7".
_SHARE = re.compile(
    r"(?:(?:confidence|likelihood|probability|score)\W{1,4}(?=\d)"
    r"|\b(?=0\.\d+\b(?!\s*\w))|\b(?=\d+(?:\.\d+)?\s*(?:%|percent\b)))"
    r"(\d+(?:\.\d+)?)\s*(?:%|percent\b)?",
    re.I,
)
_CANDIDATES = re.compile(r"[,;]\s|\bor\b")

_Candidate = TypeVar("_Candidate")


@dataclass(frozen=True, slots=True)
class Block:
    """One part of an answer without its format.

    It is prose, a list, the fields of an object, or what follows a heading.

    Attributes:
        lines: Its lines, none of them empty.
        is_list: Whether its lines are the items of a list or the fields of an object.
    """

    lines: tuple[str, ...]
    is_list: bool = False


@lru_cache(maxsize=64)
def unwrap(answer: str) -> tuple[Block, ...]:
    """Returns the content of an answer without its format.

    Of JSON, the texts stay; those of keys such as "reason" or "similar" stay only if there are no
    others. Of a text with markers such as "A:" or "Final answer:", what follows the last one stays.
    Of candidates with percentages or scores, in lines, a table or JSON, the likeliest one stays.
    Markdown, quotes, tags and list numbers go.

    Returns:
        The parts in the order in which they answer "what is this?".
    """
    text = without_thoughts(answer) or ""
    turns = _TURN.split(text)
    text = turns[0] if turns[0].strip() else turns[-1]
    values = _json_values(text)
    if values:
        lines: list[str] = []
        for value in values:
            lines += _answering_lines(value)
        blocks = [_block(lines, is_list=len(values) > 1)]
    else:
        blocks = []
        for is_bulleted, group in groupby(_answering_lines(text), _is_bulleted):
            items = list(group)
            blocks.append(_block(items, is_list=is_bulleted and len(items) > 1))
    return tuple(block for block in blocks if block.lines)


def _block(lines: list[str], *, is_list: bool) -> Block:
    """Returns lines as a block, without list marks and empty lines."""
    words = [_BULLET.sub("", line).split() for line in lines]
    stripped = [" ".join(line).strip(" .;,:|()$–—-") for line in words]
    return Block(lines=tuple(filter(None, stripped)), is_list=is_list)


def _answering_lines(text: str) -> list[str]:
    """Returns the lines of a text that answer, without markup but with list marks."""
    text = _after_marker(_clean(text))
    return _likeliest_lines(_filled_lines(text))


def _filled_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _is_bulleted(line: str) -> bool:
    return _BULLET.match(line) is not None


def _likeliest_lines(lines: list[str]) -> list[str]:
    """Returns the candidate with the highest share: of "Beagle (70%), Basset (20%)"."""
    candidates: list[str] = []
    for line in lines:
        candidates += filter(str.strip, _CANDIDATES.split(line))
    for several in (lines, candidates):
        likeliest = _likeliest(several)
        if len(likeliest) < len(several):
            return [_SHARE.sub(" ", line) for line in likeliest]
    return lines


def _likeliest(candidates: list[_Candidate]) -> list[_Candidate]:
    """Returns the candidates with the highest share, or else all, if only one or none has any."""
    shares = []
    for candidate in candidates:
        numbers = _SHARE.findall(str(candidate))
        shares.append(max(map(float, numbers), default=0.0))
    if sum(share > 0 for share in shares) < 2:
        return candidates
    pairs = zip(candidates, shares, strict=True)
    return [candidate for candidate, share in pairs if share == max(shares)]


def _clean(text: str) -> str:
    """Returns a text without markup."""
    text = html.unescape(text)
    text = _TABLE_HEAD.sub("", text)
    text = _STAR.sub("- ", text)
    text = _MARKUP.sub(" ", text)
    if not re.search(r"\s", text.strip()):
        text = _CAMEL.sub(" ", text)
    return text


def _after_marker(text: str) -> str:
    """Returns the line or list behind the last "A:" or "Answer:", or else the text."""
    for marker in reversed(list(_MARKER.finditer(text))):
        lines = _filled_lines(text[marker.end() :])
        if lines and _is_bulleted(lines[0]):
            return "\n".join(takewhile(_is_bulleted, lines))
        if lines:
            return lines[0]
    return text


def _json_values(text: str) -> list[str]:
    """Returns the texts of a JSON value that may be answers."""
    opening = re.search(r"[{\[]", text)
    if opening is None:
        return []
    try:
        value, _ = json.JSONDecoder().raw_decode(text[opening.start() :])
    except (ValueError, RecursionError):
        return []
    return _texts(value, english.OTHER_KEYS) or _texts(value, frozenset())


def _texts(value: object, other_keys: frozenset[str]) -> list[str]:
    texts: list[str] = []
    if isinstance(value, str) and value.strip():
        texts.append(value)
    elif isinstance(value, list):
        for item in _likeliest(value):
            texts += _texts(item, other_keys)
    elif isinstance(value, dict):
        for key, item in value.items():
            if other_keys.isdisjoint(re.findall(r"[a-z]+", key.lower())):
                texts += _texts(item, other_keys)
    return texts
