"""Language models that read and write text: the proposer's chat model, and the judges of answers.

`chat.py` holds a conversation; `make_llm` makes a model that replies to many prompts at once, here (`local.py`) or
behind an API (`api.py`); `ask_llm` asks it and keeps its replies on disk.
"""

from __future__ import annotations

from taxtune.llm.ask import ask_llm
from taxtune.llm.base import DEFAULT_LOCAL, LLM, LLMSettings
from taxtune.llm.make import make_llm

__all__ = ["DEFAULT_LOCAL", "LLM", "LLMSettings", "ask_llm", "make_llm"]
