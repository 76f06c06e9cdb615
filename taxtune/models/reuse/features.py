"""Networks that read image and text as one sequence, where the keys and values of an image are too much to keep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

from taxtune.models.reuse.base import Reuse, Unsupported, on_host, padded, rest
from taxtune.models.reuse.states import State

__all__ = ["Features"]


class Features(Reuse):
    """Keeps what the vision encoder and its projector give: the image as the language model reads it.

    The language model reads it anew with each prompt, so less is saved than by `Prefix`, and far less kept. A state is
    `ids`, the tokens up to the image's last one, `features` (of shape (..., hidden size)), and whatever else the
    processor says of the image besides its pixels, such as the size of its grid.
    """

    def __init__(
        self, network: Any, image_token: int, pad_token: int, room: int, ids: Callable[[str], list[int]]
    ) -> None:
        super().__init__(network, image_token, pad_token, room, ids)
        self._forward = signature(network.forward).parameters
        self._encoder: Any = getattr(getattr(network, "base_model", None), "get_image_features", None)
        if self._encoder is None or "mm_encoder_outputs" not in self._forward:
            raise Unsupported("this version of transformers takes no image features that were computed before")

    def encode(self, inputs: Any) -> State:
        """Returns the image's features."""
        ids = inputs["input_ids"][0]
        length = int((ids == self.image_token).nonzero()[-1]) + 1
        taken = signature(self._encoder).parameters
        made = self._encoder(**{name: inputs[name] for name in taken if name in inputs}, return_dict=True).pooler_output
        listed = not hasattr(made, "shape")
        if listed and len(made) != 1:
            raise Unsupported("its features of one image come in several parts")
        described = {
            f"of_image.{name}": value.cpu()
            for name, value in inputs.items()
            if not name.startswith("pixel") and value.shape[:2] != inputs["input_ids"].shape
        }
        features = {"listed_features" if listed else "features": on_host(made[0] if listed else made)}
        return {"ids": ids[:length].cpu(), **features, **described}

    def inputs(self, texts: Sequence[str], states: Sequence[State]) -> dict[str, Any]:
        """Returns tokens, mask and the features of the images."""
        import torch
        from transformers.modeling_outputs import BaseModelOutputWithPooling

        device = self.network.device
        rows = [[*s["ids"].tolist(), *rest(self.ids(t), self.image_token)] for t, s in zip(texts, states, strict=True)]
        tokens, mask = padded(rows, self.pad_token)
        listed = "listed_features" in states[0]
        parts = [state["listed_features" if listed else "features"].to(device) for state in states]
        inputs = {
            "input_ids": tokens.to(device),
            "attention_mask": mask.to(device),
            # Made for each call: the network changes the dictionary.
            "mm_encoder_outputs": {
                "image": BaseModelOutputWithPooling(pooler_output=parts if listed else torch.cat(parts))
            },
        }
        for name in ("mm_token_type_ids", "token_type_ids"):
            if name in self._forward:
                inputs[name] = (tokens == self.image_token).long().to(device)
        for name in states[0]:
            if name.startswith("of_image."):
                inputs[name.removeprefix("of_image.")] = torch.cat([state[name] for state in states]).to(device)
        return inputs
