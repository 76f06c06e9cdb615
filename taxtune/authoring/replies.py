"""Chat models' replies that have to be JSON."""

from __future__ import annotations

import json
import re

__all__ = ["UnreadError", "read_json"]

_FENCED = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*", re.DOTALL | re.IGNORECASE)


class UnreadError(Exception):
    """A reply is not what was asked for; the message says what is wrong."""


def read_json(reply: str) -> object:
    """Returns the JSON value that a reply is, whole or in one fenced block; an object may name each key once.

    Raises:
        UnreadError: If it is no JSON, or an object names a key twice.
    """
    fenced = _FENCED.fullmatch(reply)
    try:
        return json.loads(fenced[1] if fenced else reply, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise UnreadError(f"It is no JSON: {error}.") from None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise UnreadError(f"It names {key!r} twice.")
        found[key] = value
    return found
