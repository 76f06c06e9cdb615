"""Parameters that a model refuses by name: it is asked again without them, or under their new name."""

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
    r"at (?:least|most)|too (?:large|small|high|low|big|many)|maximum|minimum|exceed|greater|less than|between|range"
    r"|<=|>=",
    re.IGNORECASE,
)


class Refusals:
    """The parameters that a model was found to refuse, in the order of `PARAMETERS`; copies of a model share them."""

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
        for name in filter(refused_names.__contains__, PARAMETERS):
            value = kept.pop(name, None)
            if name in _RENAMED and value is not None:
                kept[_RENAMED[name]] = value
        return kept

    def told(self, name: str) -> str:
        """Returns the fate of a parameter, as the rest of a sentence that begins with the model."""
        new = _RENAMED.get(name)
        return f"takes no {name}" + (
            f" and is asked with {new}" if new else " and is asked without it"
        )


def refused(reason: str, arguments: Mapping[str, Any]) -> str | None:
    """Returns the argument of a call that the reason of its rejection names, if it is one that can be left out."""
    for name in PARAMETERS:
        if (
            arguments.get(name) is None
            or re.search(rf"(?i)(?<![\w-]){name}(?![\w-])", reason) is None
        ):
            continue
        has_new_name = name in _RENAMED and _RENAMED[name] in reason
        if has_new_name or not _OUT_OF_RANGE.search(reason):
            return name
    return None
