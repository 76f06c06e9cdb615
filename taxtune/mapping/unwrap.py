"""Answer formats unwrapped: from "A: **House Sparrow**.", JSON, numbered lists or snake_case to plain lines."""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass

from taxtune.mapping import english

__all__ = ["Unwrapped", "unwrap"]

_THINKING = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.S | re.I)
_FIRST_TURN = re.compile(r"^\s*#{2,}\s*(?:human|user)\s*:.*?#{2,}\s*assistant\s*:", re.S | re.I)
_NEXT_TURN = re.compile(r"(?<=\S)\s*#{2,}\s*(?:human|user|assistant)\s*:.*", re.S | re.I)
_FENCE = re.compile(r"```[\w-]*\n?(.*?)(?:```|\Z)", re.S)
_LINK = re.compile(r"!?\[([^\]\n]*)\]\([^)\n]*\)")
_URL = re.compile(r"\b(?:https?://|www\.)\S+")
_TAG = re.compile(
    r"</?(?:answer|a|b|br|code|div|em|final|h\d|i|label|li|ol|p|pre|s|span|strong|u|ul)(?:\s[^<>\n]{0,80})?/?>", re.I
)
_BRACKETS = re.compile(r"[<>]")
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
_INLINE_NUMBER = re.compile(r"(?:^|(?<=[\s,;]))\(?\d{1,2}[.)]\s+")
_HEADING = re.compile(r"^\s*[A-Za-z][A-Za-z /()-]{0,40}:\s*$")
_KEY = re.compile(r"^\s*([A-Za-z][A-Za-z /()-]{0,40}?)\s*[:：=]\s*(?=\S)")


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """An answer without its wrapping.

    Attributes:
        lines: Its lines, none of them empty.
        listed: Whether the lines are the items of a list, each a guess of its own.
    """

    lines: tuple[str, ...]
    listed: bool


def unwrap(answer: str) -> Unwrapped:
    """Returns the content of an answer without its format.

    JSON objects give the values of their answer-like keys ("species", "label"), or else all their texts; a marker such
    as "A:" or "Final answer:" gives what follows the last one; "key: value" lines give the values, and those of keys
    such as "Confidence" are left out; markdown, quotes, tags and list numbers go.
    """
    text = _NEXT_TURN.sub("", _FIRST_TURN.sub("", _THINKING.sub(" ", answer)))
    fenced = _FENCE.search(text)
    if fenced and fenced.group(1).strip():
        text = fenced.group(1)
    values, is_array = _json_values(text)
    if values:
        lines = [line.strip() for value in values for line in _clean(value).splitlines()]
        return Unwrapped(tuple(line for line in lines if line), is_array)

    lines = _without_sections([line for line in _after_marker(_clean(text)).splitlines() if line.strip()])
    if len(lines) == 1 and len(_INLINE_NUMBER.findall(lines[0])) > 1:
        lines = ["- " + part for part in _INLINE_NUMBER.split(lines[0]) if part.strip()]
    bulleted = [bool(_BULLET.match(line)) for line in lines]
    if sum(bulleted) > 1:  # an introduction before a list ("Here are my guesses:") is none of its items
        lines = [line for line, bullet in zip(lines, bulleted, strict=True) if bullet]
    lines = _values_of_keys([_BULLET.sub("", line).strip(" \t.;,:") for line in lines])
    return Unwrapped(tuple(line for line in lines if line), sum(bulleted) > 1)


def _clean(text: str) -> str:
    text = html.unescape(text)
    text = _LATEX.sub(r"\1", _LINK.sub(r"\1", text))
    text = _BRACKETS.sub("", _TAG.sub(" ", _URL.sub(" ", text)))
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


def _without_sections(lines: list[str]) -> list[str]:
    """Drops lists under headings that do not answer "what is this?": "Key features:" and the bullets below it."""
    kept: list[str] = []
    inside = False
    for line in lines:
        if not _BULLET.match(line):
            heading = _HEADING.match(line)
            inside = bool(heading) and not english.OTHER_KEYS.isdisjoint(re.findall(r"[a-z]+", line.lower()))
        if not inside:
            kept.append(line)
    return kept or lines


def _values_of_keys(lines: list[str]) -> list[str]:
    """Returns the values of answer-like keys and the lines without a key; all lines where no key is answer-like."""

    def kind(line: str) -> str:
        match = _KEY.match(line)
        words = set(re.findall(r"[a-z]+", match[1].lower())) if match else set()
        if words & english.OTHER_KEYS:
            return "other"
        return "answer" if words & english.ANSWER_KEYS and len(words) <= 3 else ""

    kinds = [kind(line) for line in lines]
    if "answer" not in kinds:
        return lines
    return [_KEY.sub("", line) if kind else line for line, kind in zip(lines, kinds, strict=True) if kind != "other"]


def _json_values(text: str) -> tuple[list[str], bool]:
    """Returns the answer-like texts of a JSON value, none where there is none, and whether it is a list of them."""
    opening = re.search(r"[{\[]", text)
    try:
        value, _ = json.JSONDecoder().raw_decode(text[opening.start() :] if opening else "")
    except (ValueError, RecursionError):
        return [], False
    found = _texts(value)
    return found, len(found) > 1


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value] if value.strip() else []
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    if isinstance(value, dict):
        words = {key: set(re.findall(r"[a-z]+", str(key).lower())) for key in value}
        return [text for key, item in value.items() if not words[key] & english.OTHER_KEYS for text in _texts(item)]
    return []
