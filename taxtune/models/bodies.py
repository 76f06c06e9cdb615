"""What servers put into the body of a chat completion, made what litellm reads: text, or an error with its status."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["CodelessError", "readable"]

#: Parts of the names that servers give to errors in place of a status, each with the status.
_STATUSES = {"rate_limit": 429, "quota": 429, "api_key": 401, "auth": 401, "permission": 403, "not_found": 404}
_STATUSES |= {"overloaded": 503, "timeout": 504, "server_error": 500, "invalid_request": 400}


class CodelessError(Exception):
    """An error in place of an answer, whose status is OK and which names no other; the text is the server's."""


def readable(status: int, body: bytes) -> tuple[int, bytes]:
    """Returns status and body of a reply as litellm reads them.

    Of content in parts the text parts are kept, since the others are thoughts. An error in a reply whose status is OK
    gets the status of its own code. Anything else stays as it is.

    Raises:
        CodelessError: If an error in a reply whose status is OK has no code.
    """
    try:
        reply = json.loads(body) if status == 200 else None
    except (ValueError, RecursionError):
        reply = None
    if not isinstance(reply, dict):
        return status, body
    choices = reply.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    message = choice.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    error = reply.get("error") or choice.get("error")
    if error and not content:
        return _as_error(error)
    if not isinstance(message, dict) or not isinstance(content, list):
        return status, body
    message["content"] = "".join(map(_text, content))
    return status, json.dumps(reply).encode()


def _text(part: Any) -> str:
    """Returns the text of a part of a message's content, empty if it is another kind of part."""
    if isinstance(part, str):
        return part
    if not isinstance(part, dict) or part.get("type", "text") not in ("text", "output_text"):
        return ""
    text = part.get("text")
    return text if isinstance(text, str) else ""


def _as_error(error: Any) -> tuple[int, bytes]:
    told = error if isinstance(error, dict) else {"message": str(error)}
    message = told.get("message") or told
    words = message if isinstance(message, str) else json.dumps(message)
    for name in ("code", "status_code", "status", "type"):
        if (status := _status(told.get(name))) is not None:
            return status, json.dumps({"error": {**told, "message": words}}).encode()
    raise CodelessError(words)


def _status(code: Any) -> int | None:
    """Returns the HTTP status that a code, or the name of an error, stands for, if any."""
    text = str(code).lower()
    if text.isdecimal():
        return int(text) if 400 <= int(text) < 600 else None
    return next((status for part, status in _STATUSES.items() if part in text), None)
