"""Answer formats unwrapped: from "A: **House Sparrow**.", JSON, numbered lists or snake_case to plain lines."""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
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


@dataclass(frozen=True, slots=True)
class Block:
    """One part of an answer, without its wrapping: prose, a list, the fields of an object, what follows a heading.

    Attributes:
        lines: Its lines, none of them empty.
        link: How a line hangs together with the one before: "list" for guesses each of its own, "same" for fields that
            name one thing, "" for prose.
    """

    lines: tuple[str, ...]
    link: Literal["", "list", "same"] = ""


@lru_cache(maxsize=64)
def unwrap(answer: str) -> tuple[Block, ...]:
    """Returns the content of an answer without its format, in the order in which its parts answer "what is this?".

    JSON gives its texts but those of keys such as "reason"; a marker such as "A:" or "Final answer:" gives what follows
    the last one; of candidates with percentages the likeliest one is kept; markdown, quotes, tags and list numbers go.
    """
    text = _NEXT_TURN.sub("", _FIRST_TURN.sub("", without_thoughts(answer) or ""))
    fenced = _FENCE.search(text)
    if fenced and fenced.group(1).strip():
        text = fenced.group(1)
    values, link = _json_values(text)
    if values:
        lines = [line.strip() for value in values for line in _clean(value).splitlines()]
        return _blocks([Block(tuple(lines), link if len(values) > 1 else "")])
    lines = [line for line in _after_marker(_clean(text)).splitlines() if line.strip()]
    answers: list[Block] = []
    for bulleted, group in groupby(_likeliest(lines), lambda line: bool(_BULLET.match(line))):
        body = tuple(_BULLET.sub("", line) for line in group)
        answers.append(Block(body, "list" if bulleted and len(body) > 1 else ""))
    return _blocks(answers)


def _blocks(blocks: list[Block]) -> tuple[Block, ...]:
    """Drops what is empty."""
    kept = [
        Block(tuple(line for text in b.lines if (line := text.strip(" \t.;,:"))), b.link)
        for b in blocks
    ]
    return tuple(block for block in kept if block.lines)


def _likeliest(lines: list[str]) -> list[str]:
    """Returns of candidates with percentages the one with the highest: "Beagle (70%), Basset (20%)"."""
    apart = sum(bool(_PERCENT.search(line)) for line in lines) > 1
    parts = (
        lines
        if apart
        else [part for line in lines for part in _CANDIDATES.split(line) if part.strip()]
    )
    shares = [max(map(float, _PERCENT.findall(part)), default=0.0) for part in parts]
    best = [part for part, share in zip(parts, shares, strict=True) if share == max(shares)]
    several = sum(share > 0 for share in shares) > 1
    return best if several and len(best) == 1 else lines


def _clean(text: str) -> str:
    text = html.unescape(text)
    text = _LATEX.sub(r"\1", _LINK.sub(r"\1", text))
    text = _TAG.sub(" ", _URL.sub(" ", text))
    text = _SNAKE.sub(" ", _MARKUP.sub("", _STAR.sub("- ", text)))
    if not re.search(r"\s", text.strip()):
        text = _CAMEL.sub(" ", text)
    return _QUOTES.sub("", text)


def _after_marker(text: str) -> str:
    """Returns the text after the last "A:" or "Answer:" up to the end of its line, or of its list; else all."""
    for marker in reversed(list(_MARKER.finditer(text))):
        rest = [line for line in text[marker.end() :].splitlines() if line.strip()]
        if not rest:
            continue
        if not _BULLET.match(rest[0]):
            return rest[0]
        items = next((i for i, line in enumerate(rest) if not _BULLET.match(line)), len(rest))
        return "\n".join(rest[:items])
    return text


def _json_values(text: str) -> tuple[list[str], Literal["list", "same"]]:
    """Returns the answer-like texts of a JSON value, none where there is none, and how they hang together."""
    opening = re.search(r"[{\[]", text)
    try:
        value, _ = json.JSONDecoder().raw_decode(text[opening.start() :] if opening else "")
    except (ValueError, RecursionError):
        return [], "list"
    one = isinstance(value, dict) and not any(
        isinstance(item, list | dict) for item in value.values()
    )
    return _texts(value), "same" if one else "list"


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value] if value.strip() else []
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    if isinstance(value, dict):
        words = {key: set(re.findall(r"[a-z]+", str(key).lower())) for key in value}
        return [
            text
            for key, item in value.items()
            if not words[key] & english.OTHER_KEYS
            for text in _texts(item)
        ]
    return []
