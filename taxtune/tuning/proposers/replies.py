"""From a chat model's reply to the template in it."""

from __future__ import annotations

import json
import re

from taxtune.errors import TemplateError
from taxtune.models.api import Completion

__all__ = ["UsedUpError", "check_whole", "unwrap_reply", "without_thoughts"]

_TAG = "(?:think|thinking|thought|reasoning)"
# Thoughts that end, thoughts that were cut off, and thoughts whose opening tag the server put into the prompt.
_THOUGHTS = re.compile(
    rf"<(think|thinking|thought|reasoning)>.*?</\1>|\A\s*<{_TAG}>(?!.*</{_TAG}>).*\Z"
    rf"|\A(?:(?!<{_TAG}>).)*</{_TAG}>[ \t]*(?:\n|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_FENCED = re.compile(
    r"^[ \t]*(?P<fence>`{3,}|~{3,})[^\n`]*\n(?P<body>.*?)(?:^[ \t]*(?P=fence)[ \t]*$|\Z)", re.DOTALL | re.MULTILINE
)
_TAGGED = re.compile(r"<(template|prompt)>(?P<body>.*?)</\1>", re.DOTALL | re.IGNORECASE)
_LEAD_IN = re.compile(
    r"\A(?:(?:sure|certainly|of course|okay|ok|here(?:['’]s| is| are| you go))\b[^\n]*:\s*\n"
    r"|[*_#\s]*(?:(?:the|my|new|next|revised|improved|proposed|final|updated|jinja2?)\s+)*(?:template|prompt)"
    r"(?:\s+\d+)?\s*[*_]*\s*[:：]\s*[*_]*\s*)",
    re.IGNORECASE,
)
# A quotation mark inside may mean that the outer two do not belong together: "this" or "that".
_QUOTED = re.compile(
    r"\A(\"{3}|'{3}|`{3}|[\"'`])(?P<body>(?:(?!\1).)+)\1\Z|\A[“„«‘](?P<curly>[^“”„«»‘’]+)[”“»’]\Z", re.DOTALL
)
_HTML = re.compile(r"\A\s*(<!doctype\s+html|<html\b|<\?xml)", re.IGNORECASE)
_REFUSAL = re.compile(
    r"\A\W*(?:i(?:['’]m| am)\s+(?:so |very |really )?(?:sorry|afraid|unable|not able)\b|sorry\b"
    r"|i\s+(?:can(?:not|['’]t)|won['’]t|will not|must decline|do not feel|don['’]t feel)\b"
    r"|unfortunately,?\s+i\b|as an ai\b|i apologi[sz]e\b)",
    re.IGNORECASE,
)
_REFUSAL_LENGTH = 600  # a template that begins with an apology and is longer than this is taken for one


class UsedUpError(TemplateError):
    """The reply was cut off while the model was still thinking."""


def check_whole(reply: Completion) -> None:
    """Checks that a reply is complete.

    Raises:
        UsedUpError: If it was cut off before it began.
        TemplateError: If it is a refusal, was stopped by a content filter or cut off.
    """
    if reply.refusal is not None:
        raise TemplateError("The reply is a refusal, not a template.")
    if reply.finish_reason == "content_filter":
        raise TemplateError("The provider's content filter stopped the reply.")
    if reply.finish_reason == "length" and not reply.tool_calls and not without_thoughts(reply.text):
        raise UsedUpError(
            f"All {reply.completion_tokens} tokens were used up before the reply began, as reasoning models do.",
            remedy="Raise proposer.max_tokens, or choose a model that reasons less.",
        )
    if reply.finish_reason == "length":
        raise TemplateError(f"The reply was cut off after {reply.completion_tokens} tokens; be shorter.")


def unwrap_reply(reply: str | None) -> str:
    """Returns the template in a reply, without fences, quotes, labels, tags, JSON and the chatter around it.

    Raises:
        TemplateError: The reply is empty, a web page or a refusal, or holds several templates; the reason is fit to go
            back to the model.
    """
    text = without_thoughts(reply or "")
    if not text:
        raise TemplateError("The reply is empty but for thoughts." if (reply or "").strip() else "The reply is empty.")
    if _HTML.match(text):
        raise TemplateError("The reply is a web page, not a template.")
    if len(text) <= _REFUSAL_LENGTH and "```" not in text and _REFUSAL.match(text):
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
    """Returns a reply without a reasoning model's thoughts, also where they were cut off."""
    return _THOUGHTS.sub("", reply.replace("\r\n", "\n").lstrip("\ufeff")).strip()


def _peel(text: str) -> str:
    for pattern in (_FENCED, _TAGGED):
        bodies = dict.fromkeys(match["body"].strip() for match in pattern.finditer(text))
        blocks = [body for body in bodies if body]
        if len(blocks) > 1:
            raise TemplateError(f"The reply holds {len(blocks)} different blocks.", remedy="Give exactly one template.")
        if bodies:
            return "".join(blocks)
    try:
        value = json.loads(text) if text[:1] in '{"' else None
    except (ValueError, RecursionError):
        value = None  # {{ ... }} is no JSON
    if isinstance(value, dict):
        value = value.get("template", value.get("prompt"))
        if not isinstance(value, str):
            raise TemplateError("The reply is JSON without a text under 'template'.")
    if isinstance(value, str):
        return value
    if lead_in := _LEAD_IN.match(text):
        return text[lead_in.end() :]
    quoted = _QUOTED.match(text)
    return text if quoted is None else quoted["body"] or quoted["curly"]
