"""Removes the format of an answer: markers, markdown, JSON and lists become plain lines."""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, takewhile
from typing import Literal

from taxtune.mapping import english
from taxtune.thoughts import without_thoughts

__all__ = ["Block", "unwrap"]

_FIRST_TURN = re.compile(r"^\s*#{2,}\s*(?:human|user)\s*:.*?#{2,}\s*assistant\s*:", re.S | re.I)
_NEXT_TURN = re.compile(r"(?<=\S)\s*#{2,}\s*(?:human|user|assistant)\s*:.*", re.S | re.I)
_FENCE = re.compile(r"```[\w-]*\n?(.*?)(?:```|\Z)", re.S)
_LINK = re.compile(r"!?\[([^\]\n]*)\]\([^)\n]*\)")
_URL = re.compile(r"\b(?:https?://|www\.)\S+")
_TAG = re.compile(
    r"</?(?:answer|a|b|br|code|div|em|final|h\d|i|label|li|ol|p|pre|s|span|strong|u|ul)(?:\s[^<>\n]{0,80})?/?>"
    r"|<\|(?:begin|end)_of_box\|>",
    re.I,
)
_LATEX = re.compile(r"\\(?:boxed|text|textit|textbf|emph)\s*\{([^{}]*)\}")
_STAR = re.compile(r"^\s*\*\s+", re.M)
_MARKUP = re.compile(r"\*+|`+|~~|^\s*#+\s*|^\s*>+\s*|(?<!\w)_+|_+(?!\w)", re.M)
_QUOTES = re.compile(r"[\"“”„«»‹›]|(?<!\w)['‘’](?=\w)|(?<=\w)['’](?!\w)")
_SNAKE = re.compile(r"(?<=[^\W_])_+(?=[^\W_])")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_MARKER = re.compile(
    r"(?:(?:^|[\s.!?(])(?:final answer|answer|answer is|ans|prediction|output|assistant)"
    r"|(?:^|[.!?\n'\"”’])\s*A)\s*[:：=]\s*",
    re.I,
)
_BULLET = re.compile(r"^\s*(?:[-•·▪◦*+–—]\s+|\(?\d{1,2}[.):]\s*|\(?[a-h]\)\s+)", re.I)
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*(?:%|percent\b)")
_CANDIDATES = re.compile(r"[,;]\s|\bor\b")


#: How lines hang together: guesses, each of its own; fields that name one thing; prose.
BlockLink = Literal["list", "same", ""]


@dataclass(frozen=True, slots=True)
class Block:
    """One part of an answer without its format.

    It is prose, a list, the fields of an object, or what follows a heading.

    Attributes:
        lines: Its lines, none of them empty.
        link: How a line hangs together with the line before it.
    """

    lines: tuple[str, ...]
    link: BlockLink = ""


@lru_cache(maxsize=64)
def unwrap(answer: str) -> tuple[Block, ...]:
    """Returns the content of an answer without its format.

    Of JSON, the texts stay, but not those of keys such as "reason". Of a text with markers such as
    "A:" or "Final answer:", what follows the last one stays. Of candidates with percentages, the
    likeliest one stays. Markdown, quotes, tags and list numbers go.

    Returns:
        The parts in the order in which they answer "what is this?".
    """
    text = without_thoughts(answer) or ""
    text = _NEXT_TURN.sub("", _FIRST_TURN.sub("", text))
    fenced = _FENCE.search(text)
    if fenced and fenced[1].strip():
        text = fenced[1]
    values, link = _json_values(text)
    if values:
        lines: list[str] = []
        for value in values:
            lines += map(str.strip, _clean(value).splitlines())
        return _blocks([(lines, link if len(values) > 1 else "")])
    lines = _likeliest(_filled_lines(_after_marker(_clean(text))))
    parts: list[tuple[list[str], BlockLink]] = []
    for is_list, group in groupby(lines, _is_bulleted):
        items = [_BULLET.sub("", line) for line in group]
        parts.append((items, "list" if is_list and len(items) > 1 else ""))
    return _blocks(parts)


def _blocks(parts: list[tuple[list[str], BlockLink]]) -> tuple[Block, ...]:
    """Returns the parts as blocks, without lines and parts that are empty."""
    blocks = []
    for lines, link in parts:
        stripped = [line.strip(" \t.;,:") for line in lines]
        filled = tuple(filter(None, stripped))
        if filled:
            blocks.append(Block(lines=filled, link=link))
    return tuple(blocks)


def _filled_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _is_bulleted(line: str) -> bool:
    return _BULLET.match(line) is not None


def _likeliest(lines: list[str]) -> list[str]:
    """Returns the candidate with the highest percentage: of "Beagle (70%), Basset (20%)"."""
    candidates = lines
    if sum(bool(_PERCENT.search(line)) for line in lines) < 2:
        candidates = []
        for line in lines:
            candidates += filter(str.strip, _CANDIDATES.split(line))
    percentages = []
    for candidate in candidates:
        percentages.append(max(map(float, _PERCENT.findall(candidate)), default=0.0))
    highest = max(percentages, default=0.0)
    has_several = sum(percentage > 0 for percentage in percentages) > 1
    if has_several and percentages.count(highest) == 1:
        return [candidates[percentages.index(highest)]]
    return lines


def _clean(text: str) -> str:
    """Returns a text without markup."""
    text = html.unescape(text)
    text = _LINK.sub(r"\1", text)
    text = _LATEX.sub(r"\1", text)
    text = _URL.sub(" ", text)
    text = _TAG.sub(" ", text)
    text = _STAR.sub("- ", text)
    text = _MARKUP.sub("", text)
    text = _SNAKE.sub(" ", text)
    if not re.search(r"\s", text.strip()):
        text = _CAMEL.sub(" ", text)
    return _QUOTES.sub("", text)


def _after_marker(text: str) -> str:
    """Returns the line or list behind the last "A:" or "Answer:", or else the text."""
    for marker in reversed(list(_MARKER.finditer(text))):
        lines = _filled_lines(text[marker.end() :])
        if lines and _is_bulleted(lines[0]):
            return "\n".join(takewhile(_is_bulleted, lines))
        if lines:
            return lines[0]
    return text


def _json_values(text: str) -> tuple[list[str], BlockLink]:
    """Returns the texts of a JSON value that may be answers, and how they hang together."""
    opening = re.search(r"[{\[]", text)
    if opening is None:
        return [], ""
    try:
        value, _ = json.JSONDecoder().raw_decode(text[opening.start() :])
    except (ValueError, RecursionError):
        return [], ""
    if not isinstance(value, dict):
        return _texts(value), "list"
    is_flat = not any(isinstance(item, list | dict) for item in value.values())
    return _texts(value), "same" if is_flat else "list"


def _texts(value: object) -> list[str]:
    texts: list[str] = []
    if isinstance(value, str) and value.strip():
        texts.append(value)
    elif isinstance(value, list):
        for item in value:
            texts += _texts(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if english.OTHER_KEYS.isdisjoint(re.findall(r"[a-z]+", key.lower())):
                texts += _texts(item)
    return texts
