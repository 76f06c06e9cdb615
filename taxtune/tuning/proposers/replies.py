"""From a chat model's reply to the template in it."""

from __future__ import annotations

import json
import re

from taxtune.errors import TemplateError

__all__ = ["looks_refused", "unwrap_reply", "without_thoughts"]

_THOUGHTS = re.compile(r"<(think|thinking|thought|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)
# Cut off before they end.
_OPEN_THOUGHTS = re.compile(r"\A\s*<(?:think|thinking|thought|reasoning)>.*\Z", re.DOTALL | re.IGNORECASE)
# Some servers put the opening tag into the prompt.
_CLOSED_THOUGHTS = re.compile(
    r"\A(?:(?!<(?:think|thinking|thought|reasoning)>).)*</(?:think|thinking|thought|reasoning)>[ \t]*(?:\n|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_FENCED = re.compile(
    r"^[ \t]*(?P<fence>`{3,}|~{3,})[^\n`]*\n(?P<body>.*?)^[ \t]*(?P=fence)[ \t]*$", re.DOTALL | re.MULTILINE
)
_OPENED = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[^\n`]*\n(?P<body>.*)\Z", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"\A`{3,}(?P<body>[^\n]*?)`{3,}\Z")
_TAGGED = re.compile(r"<(template|prompt)>(?P<body>.*?)</\1>", re.DOTALL | re.IGNORECASE)
_HTML = re.compile(r"\A\s*(<!doctype\s+html|<html\b|<\?xml)", re.IGNORECASE)
_PREFIX = re.compile(
    r"\A[*_#\s]*(?:(?:the|my|new|next|revised|improved|proposed|final|updated|jinja2?)\s+)*(?:template|prompt)"
    r"(?:\s+\d+)?\s*[*_]*\s*[:：]\s*[*_]*\s*",
    re.IGNORECASE,
)
_CHATTER = re.compile(
    r"\A(?:sure|certainly|of course|okay|ok|here(?:'s|\u2019s| is| are| you go))\b[^\n]*:\s*\n", re.IGNORECASE
)
_REFUSAL = re.compile(
    r"\A\W*(?:i(?:['\u2019]m| am)\s+(?:so |very |really )?(?:sorry|afraid|unable|not able)\b|sorry\b"
    r"|i\s+(?:can(?:not|['\u2019]t)|won['\u2019]t|will not|must decline|do not feel|don['\u2019]t feel)\b"
    r"|unfortunately,?\s+i\b|as an ai\b|i apologi[sz]e\b)",
    re.IGNORECASE,
)
_QUOTES = {'"': '"', "'": "'", "`": "`", "\u201c": "\u201d", "\u2018": "\u2019", "\u00ab": "\u00bb", "\u201e": "\u201c"}
_REFUSAL_LENGTH = 600  # a template that begins with an apology and is longer than this is taken for one


def unwrap_reply(reply: str | None) -> str:
    """Returns the template in a reply, without fences, quotes, labels, tags, JSON and the chatter around it.

    Args:
        reply: What the chat model wrote.

    Raises:
        TemplateError: There is nothing, a web page, a refusal or several templates in it; the reason is fit to go back.
    """
    text = without_thoughts(reply or "")
    if not text:
        raise TemplateError("The reply is empty but for thoughts." if (reply or "").strip() else "The reply is empty.")
    if _HTML.match(text):
        raise TemplateError("The reply is a web page, not a template.")
    if looks_refused(text):
        raise TemplateError("The reply is a refusal, not a template.")
    for _ in range(6):  # wrappers lie in one another: a fence around JSON around a quoted text
        inner = _peel(text).strip()
        if inner == text:
            break
        text = inner
    if not text:
        raise TemplateError("The reply holds no template.")
    return text


def without_thoughts(reply: str) -> str:
    """Returns a reply without what a reasoning model thinks before it, also where that was cut off."""
    text = _THOUGHTS.sub("", reply.replace("\r\n", "\n").lstrip("\ufeff"))
    return _CLOSED_THOUGHTS.sub("", _OPEN_THOUGHTS.sub("", text)).strip()


def looks_refused(text: str) -> bool:
    """Tells whether a text is a chat model's refusal."""
    return len(text) <= _REFUSAL_LENGTH and "```" not in text and bool(_REFUSAL.match(text))


def _peel(text: str) -> str:
    blocks = list(dict.fromkeys(match["body"].strip() for match in _FENCED.finditer(text)))
    if len(blocks) > 1:
        raise TemplateError(f"The reply holds {len(blocks)} different blocks.", remedy="Give exactly one template.")
    if blocks:
        return blocks[0]
    for pattern in (_INLINE, _OPENED):
        if opened := pattern.search(text):
            return opened["body"]
    tagged = list(dict.fromkeys(match["body"].strip() for match in _TAGGED.finditer(text)))
    if len(tagged) == 1:
        return tagged[0]
    if (inside := _from_json(text)) is not None:
        return inside
    for pattern in (_CHATTER, _PREFIX):
        if found := pattern.match(text):
            return text[found.end() :]
    for mark in ('"""', "'''"):
        if len(text) > 2 * len(mark) and text.startswith(mark) and text.endswith(mark):
            return text[len(mark) : -len(mark)]
    closing = _QUOTES.get(text[:1])
    # A quotation mark inside may mean that the outer two do not belong together: "this" or "that".
    if closing and len(text) > 2 and text.endswith(closing) and not {text[0], closing} & set(text[1:-1]):
        return text[1:-1]
    return text


def _from_json(text: str) -> str | None:
    if text[:1] not in ("{", "[", '"'):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None  # {{ ... }} is no JSON
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        inside = [value[key] for key in ("template", "prompt") if isinstance(value.get(key), str)]
        if inside:
            return str(inside[0])
        raise TemplateError("The reply is JSON without a text under 'template'.")
    return None
