"""What chat models are asked, and their replies, which have to be JSON."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from taxtune.resources import prompts_dir

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["UnreadError", "read_json", "render_prompt"]

_FENCED = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*", re.DOTALL | re.IGNORECASE)


class UnreadError(Exception):
    """A reply is not what was asked for; the message says what is wrong."""


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(loader=FileSystemLoader(prompts_dir() / "authoring"), undefined=StrictUndefined)


def render_prompt(name: str, **values: Any) -> str:
    """Returns one of the prompts in `prompts/authoring` with its values."""
    return _environment().get_template(name).render(**values)


def read_json(reply: str) -> object:
    """Returns the JSON value that a reply is, whole or in one fenced block; an object may name each key once.

    Raises:
        UnreadError: If it is not JSON, or an object names a key twice.
    """
    fenced = _FENCED.fullmatch(reply)
    try:
        return json.loads(fenced[1] if fenced else reply, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise UnreadError(f"It is not JSON: {error}.") from None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise UnreadError(f"It names {key!r} twice.")
        found[key] = value
    return found
