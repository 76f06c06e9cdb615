"""Models that answer about images or write text: a checkpoint here, an API, or a function.

`make_model` makes one; `ask` asks it, the store first. Importing this package imports neither
torch, transformers nor litellm.
"""

from __future__ import annotations

from taxtune.models.ask import AnswerStore, ask, check_model, note_kept, open_replies
from taxtune.models.base import (
    Answer,
    Failure,
    Fault,
    Identity,
    Model,
    ModelSettings,
    Reply,
    Request,
    RetryPolicy,
    count_fault,
    count_faults,
)
from taxtune.models.functions import FunctionModel, function_identity
from taxtune.models.names import make_model

__all__ = [
    "Answer",
    "AnswerStore",
    "Failure",
    "Fault",
    "FunctionModel",
    "Identity",
    "Model",
    "ModelSettings",
    "Reply",
    "Request",
    "RetryPolicy",
    "ask",
    "check_model",
    "count_fault",
    "count_faults",
    "function_identity",
    "make_model",
    "note_kept",
    "open_replies",
]
