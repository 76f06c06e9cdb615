"""What tests of models ask and read again and again."""

from __future__ import annotations

from typing import Any, NamedTuple

from taxtune.models import Answer, count_faults
from taxtune.models.api import ApiModel
from tests import servers
from tests.servers import OpenAIServer

__all__ = ["KEY", "api_model", "exchange", "texts"]

KEY = "sk-a-secret-of-the-test"


def texts(replies):
    """The texts of replies, all of which must be answers."""
    assert all(isinstance(reply, Answer) for reply in replies), replies
    return [reply.text for reply in replies]


def api_model(server, name="openai/gpt-4o", **settings):
    """A model behind a server, with settings of `servers.model_settings`."""
    return ApiModel(name, servers.model_settings(server, **{"api_key": KEY, **settings}))


class Exchange(NamedTuple):
    """Replies, the chats of the server that gave them, and the faults that were counted."""

    replies: list[Any]
    chats: list[servers.Request]
    faults: dict[str, int]


def exchange(requests, *script, then=None, **settings):
    """Asks a model behind a scripted server."""
    with OpenAIServer(*script, then=then) as server, count_faults() as faults:
        replies = api_model(server, **settings).answer(requests)
    return Exchange(replies, server.chats, faults)
