"""What a way of keeping images is to a model, and which one fits a network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from taxtune.models.reuse.states import State

__all__ = ["Reuse", "Unsupported", "on_host", "padded", "rest", "ways_to_keep"]


class Unsupported(Exception):  # noqa: N818 - it is not shown as an error: the images are then encoded for each prompt
    """A network's images cannot be kept; the text says why."""


class Reuse(ABC):
    """How a network is given an image that it has seen before.

    Args:
        network: The network.
        image_token: The number of the token that stands for an image in a text.
        pad_token: The number of the token that texts are padded with.
        room: Most tokens of an answer.
        ids: From the text of a request, as the chat template gives it, to its tokens with those of some image.

    Raises:
        Unsupported: If the network is not of a kind that this way fits.
    """

    def __init__(
        self, network: Any, image_token: int, pad_token: int, room: int, ids: Callable[[str], list[int]]
    ) -> None:
        self.network = network
        self.image_token = image_token
        self.pad_token = pad_token
        self.room = room
        self.ids = ids

    def device(self, layer: int) -> Any:
        """Returns the device that a layer of the language model is on; several where the network is sharded."""
        try:
            return next(self.network.get_decoder().layers[layer].parameters()).device
        except (AttributeError, StopIteration):
            return self.network.device

    @abstractmethod
    def encode(self, inputs: Any) -> State:
        """Returns what is kept of an image.

        Args:
            inputs: What the processor makes of a text with the image, a batch of one on the network's device.

        Raises:
            Unsupported: If what the network makes of it cannot be kept.
        """

    @abstractmethod
    def inputs(self, texts: Sequence[str], states: Sequence[State]) -> dict[str, Any]:
        """Returns what `generate` is called with in place of the processor's tensors: no pixels among them.

        Args:
            texts: The texts of a batch.
            states: What is kept of the image of each.

        Raises:
            Unsupported: If this batch cannot be put together.
        """


def ways_to_keep(model_type: str) -> tuple[type[Reuse], ...]:
    """Returns the ways of keeping images that may fit an architecture, the one that saves most first."""
    from taxtune.models.reuse.cross import CrossAttended
    from taxtune.models.reuse.features import Features
    from taxtune.models.reuse.prefix import Prefix

    return (CrossAttended,) if model_type == "mllama" else (Prefix, Features)


def rest(ids: Sequence[int], image_token: int) -> Sequence[int]:
    """Returns the tokens after the image."""
    return ids[len(ids) - ids[::-1].index(image_token) :]


def padded(rows: Sequence[Sequence[int]], pad: int) -> tuple[Any, Any]:
    """Returns rows of tokens padded on the left, and their attention mask; each a tensor of shape (rows, longest)."""
    import torch

    longest = max(map(len, rows))
    tokens = torch.full((len(rows), longest), pad, dtype=torch.long)
    mask = torch.zeros((len(rows), longest), dtype=torch.long)
    for row, ids in enumerate(rows):
        tokens[row, longest - len(ids) :] = torch.tensor(ids, dtype=torch.long)
        mask[row, longest - len(ids) :] = 1
    return tokens, mask


def on_host(tensor: Any) -> Any:
    """Returns a tensor in this machine's memory; pinned, if it comes from a CUDA card, so that it goes back fast."""
    import torch

    copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
    return copy.copy_(tensor)
