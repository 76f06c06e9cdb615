"""Vision-language models: image and prompt in, answer out.

`make_vlm` makes a model that runs here (`taxtune.vlm.local`) or one behind an API (`taxtune.vlm.api`); `ask` asks it,
the answer store first. Importing this package imports neither transformers nor litellm.
"""

from __future__ import annotations

import difflib
import inspect
from typing import TYPE_CHECKING, Any

from taxtune.errors import VLMError
from taxtune.vlm.answers import AnswerStore
from taxtune.vlm.ask import ask
from taxtune.vlm.base import VLM, Answer, Failure, Identity, Question, Reply

if TYPE_CHECKING:
    from taxtune.vlm.api import ApiVLM
    from taxtune.vlm.local import LocalVLM

__all__ = ["VLM", "Answer", "AnswerStore", "Failure", "Identity", "Question", "Reply", "ask", "make_vlm"]


def make_vlm(kind: str, model: str, **settings: Any) -> LocalVLM | ApiVLM:
    """Makes a vision-language model.

    Args:
        kind: "local" or "api".
        model: The model's name; see `LocalVLM` and `ApiVLM`.
        settings: Keyword arguments of the class.

    Raises:
        VLMError: If there is no such kind or setting, or a setting is out of range.
    """
    maker: type[LocalVLM] | type[ApiVLM]
    if kind == "local":
        from taxtune.vlm.local import LocalVLM as maker  # noqa: N813
    elif kind == "api":
        from taxtune.vlm.api import ApiVLM as maker  # noqa: N813
    else:
        raise VLMError("There is no such kind of VLM.", value=kind, remedy="Use 'local' or 'api'.")
    known = [name for name in inspect.signature(maker).parameters if name != "model"]
    for name in settings:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            remedy = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(known)}."
            raise VLMError(f"A VLM of the kind {kind!r} has no setting {name!r}.", remedy=remedy)
    return maker(model, **settings)
