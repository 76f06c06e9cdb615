"""What servers put into the body of a chat completion, made what litellm reads: text, or an error with its status."""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["CodelessError", "readable"]

#: Parts of the names that servers give to errors in place of a status, each with the status; the first one counts.
_STATUSES = {
    "insufficient_quota": 402,
    "billing": 402,
    "payment": 402,
    "credit": 402,
    "balance": 402,
}
_STATUSES |= {"rate_limit": 429, "quota": 429, "too_many": 429, "exhausted": 429, "throttl": 429}
_STATUSES |= {"api_key": 401, "auth": 401, "permission": 403, "forbidden": 403, "not_found": 404}
_STATUSES |= {
    "overloaded": 503,
    "unavailable": 503,
    "timeout": 504,
    "deadline": 504,
    "gateway": 502,
    "upstream": 502,
}
_STATUSES |= {
    "server_error": 500,
    "internal": 500,
    "content_filter": 400,
    "moderation": 400,
    "context_length": 400,
}
_STATUSES |= {"invalid": 400, "bad_request": 400}
#: Fields in which an error that is the whole reply has its words.
_WORDS = ("message", "detail", "msg")
_CUT = re.compile(r"max|length|limit|truncat", re.IGNORECASE)


class CodelessError(Exception):
    """An error in place of an answer, whose status is OK and which names no other; the text is the server's."""


def readable(status: int, body: bytes) -> tuple[int, bytes]:
    """Returns status and body of a reply as litellm reads them.

    Of content in parts the text parts are kept, since the others are thoughts, and a refusal. An error in a reply whose
    status is OK gets the status of its own code, also beside the half of an answer. Anything else stays as it is.

    Raises:
        CodelessError: If an error in a reply whose status is OK has no code.
    """
    try:
        reply = json.loads(body)
    except (ValueError, RecursionError):
        return status, body
    if isinstance(reply, list) and reply:  # as Google packs errors
        reply = reply[0]
        body = body if status == 200 else json.dumps(reply).encode()
    if status != 200 or not isinstance(reply, dict):
        return status, body
    choices = reply.get("choices")
    choice = (
        choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    )
    if error := _error(reply, choice):
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
        if refusal := "".join(_part(part, "refusal") for part in parts):
            message["refusal"] = refusal
    return status, json.dumps(reply).encode()


def _error(reply: dict[str, Any], choice: dict[str, Any]) -> Any:
    """Returns the error in a reply whose status is OK, if any."""
    if error := reply.get("error") or choice.get("error"):
        return error
    if choice.get("finish_reason") == "error":
        return "the answer ended with an error"
    return (
        reply if not choice and any(isinstance(reply.get(name), str) for name in _WORDS) else None
    )


def _part(part: Any, *kinds: str) -> str:
    """Returns the text of a part of a message's content, empty if it is of another kind; a plain text is "text"."""
    if not isinstance(part, dict):
        part = {"text": part}
    kind = part.get("type", "text")
    text = part.get("refusal" if kind == "refusal" else "text")
    text = text.get("value") if isinstance(text, dict) else text
    return text if kind in kinds and isinstance(text, str) else ""


def _as_error(error: Any) -> tuple[int, bytes]:
    told = error if isinstance(error, dict) else {"message": str(error)}
    message = next((told[name] for name in _WORDS if told.get(name)), told)
    words = message if isinstance(message, str) else json.dumps(message)
    for name in ("code", "status_code", "status", "type"):
        if (status := _status(told.get(name))) is not None:
            return status, json.dumps({"error": {**told, "message": words}}).encode()
    raise CodelessError(words)


def _status(code: Any) -> int | None:
    """Returns the HTTP status that a code, or the name of an error, stands for, if any."""
    text = re.sub(r"[\s-]", "_", str(code).lower())
    if number := re.search(r"(?<!\d)[45]\d\d(?!\d)", text):
        return int(number[0])
    return next((status for part, status in _STATUSES.items() if part in text), None)
