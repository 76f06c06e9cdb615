"""Bodies of chat completions, made what litellm reads: text, or an error with its status."""

from __future__ import annotations

import json
import re
from typing import Any

from taxtune.models.base import CallError, Fault

__all__ = ["readable"]

#: Parts of the names that servers give to errors in place of a status, by that status; the first
#: that occurs counts.
_STATUSES = {
    402: ("insufficient_quota", "billing", "payment", "credit", "balance"),
    429: ("rate_limit", "quota", "too_many", "exhausted", "throttl"),
    401: ("api_key", "auth"),
    403: ("permission", "forbidden"),
    404: ("not_found",),
    503: ("overloaded", "unavailable"),
    504: ("timeout", "deadline"),
    502: ("gateway", "upstream"),
    500: ("server_error", "internal"),
    400: ("content_filter", "moderation", "context_length", "invalid", "bad_request"),
}
#: Fields in which an error that is the whole reply has its words.
_WORDS = ("message", "detail", "msg")
#: Fields in which an error has its code or its name.
_CODES = ("code", "status_code", "status", "type")
_CUT = re.compile(r"max|length|limit|truncat", re.IGNORECASE)


def readable(status: int, body: bytes) -> tuple[int, bytes]:
    """Returns status and body of a reply as litellm reads them.

    Of content in parts the text parts are kept, since the others are thoughts, and a refusal. An
    error in a reply whose status is OK gets the status of its own code, also beside the half of an
    answer. Anything else stays as it is.

    Raises:
        CallError: If an error in a reply whose status is OK has no code.
    """
    try:
        reply = json.loads(body)
    except (ValueError, RecursionError):
        return status, body
    if isinstance(reply, list) and reply:  # as Google packs errors
        reply = reply[0]
        if status != 200:
            body = json.dumps(reply).encode()
    if status != 200 or not isinstance(reply, dict):
        return status, body
    choices = reply.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        choice = {}
    error = _error(reply, choice)
    if error:
        return _as_error(error)
    message = choice.get("message")
    if not isinstance(message, dict):
        return status, body
    if _CUT.search(str(choice.get("finish_reason"))):
        choice["finish_reason"] = "length"
    content = message.get("content")
    if isinstance(content, list | dict):
        parts = content if isinstance(content, list) else [content]
        message["content"] = "".join(_part(part, "text", "output_text") for part in parts)
        refusal = "".join(_part(part, "refusal") for part in parts)
        if refusal:
            message["refusal"] = refusal
    return status, json.dumps(reply).encode()


def _error(reply: dict[str, Any], choice: dict[str, Any]) -> Any:
    """Returns the error in a reply whose status is OK, if any."""
    error = reply.get("error") or choice.get("error")
    if error:
        return error
    if choice.get("finish_reason") == "error":
        return "the answer ended with an error"
    has_words = any(isinstance(reply.get(name), str) for name in _WORDS)
    return reply if has_words and not choice else None


def _part(part: Any, *kinds: str) -> str:
    """Returns the text of a part of a message's content, empty if it is of another kind.

    A plain text is of the kind "text".
    """
    if not isinstance(part, dict):
        part = {"text": part}
    kind = part.get("type", "text")
    text = part.get("refusal" if kind == "refusal" else "text")
    if isinstance(text, dict):
        text = text.get("value")
    return text if kind in kinds and isinstance(text, str) else ""


def _as_error(error: Any) -> tuple[int, bytes]:
    """Returns the status that an error's code stands for, and a body in OpenAI's form."""
    fields = error if isinstance(error, dict) else {"message": str(error)}
    message = next((fields[name] for name in _WORDS if fields.get(name)), fields)
    words = message if isinstance(message, str) else json.dumps(message)
    for name in _CODES:
        status = _status(fields.get(name))
        if status is not None:
            reply = {"error": {**fields, "message": words}}
            return status, json.dumps(reply).encode()
    raise CallError(Fault.MALFORMED, f"returned an error, not a chat completion: {words}")


def _status(code: Any) -> int | None:
    """Returns the HTTP status that a code, or the name of an error, stands for, if any."""
    text = re.sub(r"[\s-]", "_", str(code).lower())
    number = re.search(r"(?<!\d)[45]\d\d(?!\d)", text)
    if number:
        return int(number[0])
    for status, parts in _STATUSES.items():
        if any(part in text for part in parts):
            return status
    return None
