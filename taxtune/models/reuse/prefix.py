"""Networks that read image and text as one sequence: LLaVA, Qwen2.5-VL, SmolVLM, InternVL, Gemma 3 and their like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from inspect import signature
from typing import Any

from taxtune.models.reuse.base import Reuse, Unsupported, on_host, padded, rest
from taxtune.models.reuse.states import State

__all__ = ["Prefix"]


class Prefix(Reuse):
    """Keeps the keys and values of everything up to the image's last token; a prompt is then only its own tokens.

    A state is `ids`, the tokens up to there (of shape (length,)), `keys` and `values` (layers, heads, length, size of a
    head), and for positions in several dimensions (Qwen's) `rope_delta`. In a batch the kept parts are padded on the
    left, and so are the rests, so that there is padding in the middle; the mask tells, and positions are counted by it.
    """

    def __init__(
        self, network: Any, image_token: int, pad_token: int, room: int, ids: Callable[[str], list[int]]
    ) -> None:
        super().__init__(network, image_token, pad_token, room, ids)
        if network.config.is_encoder_decoder:
            raise Unsupported("an encoder reads image and prompt together")

    @cached_property
    def _text_config(self) -> Any:
        return self.network.config.get_text_config(decoder=True)

    def encode(self, inputs: Any) -> State:
        """Reads everything up to the image's last token."""
        import torch

        ids = inputs["input_ids"][0]
        length = int((ids == self.image_token).nonzero()[-1]) + 1
        shown = {
            name: value[:, :length] if value.shape[:2] == inputs["input_ids"].shape else value
            for name, value in inputs.items()
            if hasattr(value, "shape")
        }
        takes = signature(self.network.forward).parameters
        last_only = {"logits_to_keep": 1} if "logits_to_keep" in takes else {}
        layers = getattr(self.network(**shown, **last_only, use_cache=True).past_key_values, "layers", None)
        kept: list[tuple[Any, Any]] = [(getattr(at, "keys", None), getattr(at, "values", None)) for at in layers or ()]
        shapes = {tuple(getattr(one, "shape", ())) for pair in kept for one in pair}
        if len(shapes) != 1 or len(next(iter(shapes))) != 4 or next(iter(shapes))[2] != length:
            raise Unsupported("its layers do not all keep the whole text")
        device = kept[0][0].device
        state = {
            "ids": ids[:length].cpu(),
            "keys": on_host(torch.stack([keys[0].to(device) for keys, _ in kept])),
            "values": on_host(torch.stack([values[0].to(device) for _, values in kept])),
        }
        delta = getattr(getattr(self.network, "model", None), "rope_deltas", None)
        if delta is not None:
            state["rope_delta"] = delta.reshape(-1)[:1].cpu()
        return state

    def inputs(self, texts: Sequence[str], states: Sequence[State]) -> dict[str, Any]:
        """Returns tokens, mask and the cache of the kept parts."""
        import torch
        from transformers import DynamicCache

        device = self.network.device
        head, head_mask = padded([state["ids"].tolist() for state in states], self.pad_token)
        tail, tail_mask = padded([rest(self.ids(text), self.image_token) for text in texts], self.pad_token)
        layers, heads, _, size = states[0]["keys"].shape
        length = head.shape[1]
        cache = DynamicCache(config=self._text_config)
        self._check_windows(cache, length + tail.shape[1])
        shape = (layers, len(states), heads, length, size)
        both = torch.zeros((2, *shape), dtype=states[0]["keys"].dtype, device=device)
        for row, state in enumerate(states):
            own = length - state["ids"].shape[0]
            both[0, :, row, :, own:].copy_(state["keys"], non_blocking=True)
            both[1, :, row, :, own:].copy_(state["values"], non_blocking=True)
        for layer in range(layers):
            where = self.device(layer)
            cache.update(both[0, layer].to(where), both[1, layer].to(where), layer)
        if "rope_delta" in states[0]:
            # Qwen keeps it on the model between the steps of an answer; here it is that of this batch's images.
            self.network.model.rope_deltas = torch.stack([state["rope_delta"] for state in states]).to(device)
        return {
            "input_ids": torch.cat([head, tail], dim=1).to(device),
            "attention_mask": torch.cat([head_mask, tail_mask], dim=1).to(device),
            "past_key_values": cache,
        }

    def _check_windows(self, cache: Any, length: int) -> None:
        """Refuses a batch longer than a layer's sliding window, which padding in the middle would fill up."""
        windows = [getattr(layer, "sliding_window", None) for layer in cache.layers]
        if any(window is not None and length + self.room > window for window in windows):
            raise Unsupported(f"{length} tokens do not fit into the sliding windows of its layers")
