"""Where the questions of a run are answered: in this process, or by the actors of a Ray cluster.

`deploy` makes the model that the settings ask for; both give the same answers under the same identity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from taxtune.errors import ModelError
from taxtune.models.base import Model, ModelSettings
from taxtune.models.names import make_model

if TYPE_CHECKING:
    from taxtune.settings import ExecutionSettings

__all__ = ["deploy"]


def deploy(
    spec: str | Callable[..., Any] | Model,
    settings: ModelSettings | None = None,
    execution: ExecutionSettings | None = None,
) -> Model:
    """Makes a model that runs where `execution` says, in this process where left out; no weights are loaded yet.

    Args:
        spec: What `make_model` takes; for workers the name of a model, which each of them makes itself.
        settings: How the model is run.
        execution: Where.

    Raises:
        ModelError: If the model cannot be run there, or there is no cluster.
        MissingExtraError: If Ray is wanted and not installed.
    """
    if execution is None or execution.engine == "here":
        return make_model(spec, settings)
    from taxtune.models.api import ApiModel

    settings = settings or ModelSettings()
    if not isinstance(spec, str) or isinstance(make_model(spec, settings), ApiModel):
        raise ModelError(
            "execution.engine 'ray' needs a model that each worker makes for itself, not a function or an API.",
            value=spec,
            remedy="Give local:MODEL or the name of a model of an installed package, or leave out execution.",
        )
    from taxtune.execution.ray_actors import RayModel

    return RayModel(spec, settings, None if execution.workers == "auto" else execution.workers)
