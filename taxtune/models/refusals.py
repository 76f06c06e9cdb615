"""Parameters that a model refuses by name: it is asked without them, or under their new name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["PARAMETERS", "Refusals", "refused"]

#: The parameters that a model may be asked without.
PARAMETERS = ("max_tokens", "max_completion_tokens", "temperature", "seed", "stop")
#: The name under which newer models take a parameter.
_RENAMED = {"max_tokens": "max_completion_tokens"}
# A value that is out of range is a mistake of the settings, and not refused whatever it is.
_OUT_OF_RANGE = re.compile(
    r"at (?:least|most)|too (?:large|small|high|low|big|many)|maximum|minimum|exceed|greater"
    r"|less than|between|range|<=|>=",
    re.IGNORECASE,
)


class Refusals:
    """The parameters that a model was found to refuse; copies of a model share them.

    Attributes:
        names: The parameters, in the order of `PARAMETERS`.
    """

    def __init__(self) -> None:
        self.names: tuple[str, ...] = ()

    def add(self, names: Iterable[str]) -> None:
        """Adds parameters."""
        known = {*self.names, *names}
        self.names = tuple(name for name in PARAMETERS if name in known)

    def accepted(self, arguments: Mapping[str, Any], also: Iterable[str] = ()) -> dict[str, Any]:
        """Returns the arguments of a call without those that the model refuses, and others."""
        kept = dict(arguments)
        refused_names = {*self.names, *also}
        for name in PARAMETERS:
            if name not in refused_names or name not in kept:
                continue
            value = kept.pop(name)
            if name in _RENAMED and value is not None:
                kept[_RENAMED[name]] = value
        return kept

    def describe(self, name: str) -> str:
        """Returns the consequence of a refusal; the rest of a sentence about the model."""
        if name in _RENAMED:
            return f"takes no {name} and is asked with {_RENAMED[name]}"
        return f"takes no {name} and is asked without it"


def refused(reason: str, arguments: Mapping[str, Any]) -> str | None:
    """Returns the argument that the reason of a rejection names, if it can be left out."""
    for name in PARAMETERS:
        is_named = re.search(rf"(?i)(?<![\w-]){name}(?![\w-])", reason) is not None
        if arguments.get(name) is None or not is_named:
            continue
        has_new_name = name in _RENAMED and _RENAMED[name] in reason
        if has_new_name or not _OUT_OF_RANGE.search(reason):
            return name
    return None
