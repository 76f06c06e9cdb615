"""Networks whose text looks at the image through cross-attention (Mllama: Llama 3.2 Vision)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from taxtune.models.reuse.base import Reuse, Unsupported, on_host, padded
from taxtune.models.reuse.states import State

__all__ = ["CrossAttended"]


class CrossAttended(Reuse):
    """Keeps what the vision model and its projector give, tile by tile, and fills the cross-attention's cache with it.

    A state is `states`, of shape (tiles, patches of a tile, hidden size), and `tiles`, how many of them are the image's
    own: for 11B about 50 MiB in bfloat16. Keys and values, which are made of it for each batch, would take four times
    as much. They have to be in the cache before the first step: states handed to `generate` would be appended to it
    again at each step. Tiles that only fill up are kept, too: tokens before the image see them.
    """

    def __init__(
        self, network: Any, image_token: int, pad_token: int, room: int, ids: Callable[[str], list[int]]
    ) -> None:
        super().__init__(network, image_token, pad_token, room, ids)
        text = network.config.get_text_config()
        self._layers = sorted(getattr(text, "cross_attention_layers", ()))
        if not hasattr(getattr(network, "model", None), "vision_model") or not self._layers or self._layers[0] == 0:
            # The length of the first layer's cache tells `generate` how much text it has read.
            raise Unsupported("its layers are not where those of Mllama are")

    def encode(self, inputs: Any) -> State:
        """Returns the projected states of the image's tiles."""
        model = self.network.model
        seen = model.vision_model(
            pixel_values=inputs["pixel_values"],
            aspect_ratio_ids=inputs["aspect_ratio_ids"],
            aspect_ratio_mask=inputs["aspect_ratio_mask"],
        ).last_hidden_state
        states = model.multi_modal_projector(seen).reshape(-1, seen.shape[-2], model.hidden_size)
        return {"states": on_host(states), "tiles": inputs["aspect_ratio_mask"].sum().reshape(1).cpu()}

    def inputs(self, texts: Sequence[str], states: Sequence[State]) -> dict[str, Any]:
        """Returns tokens, the filled cache and, for each left-padded row, which tokens see which tiles."""
        import torch
        from transformers import DynamicCache

        device = self.network.device
        tokens, mask = padded([self.ids(text) for text in texts], self.pad_token)
        batch = torch.stack([state["states"].to(device, non_blocking=True) for state in states])
        tiles = torch.arange(batch.shape[1])
        batch = batch.flatten(1, 2)
        cache = DynamicCache()
        for layer in self._layers:
            attention = self.network.model.language_model.layers[layer].cross_attn
            shape = (*batch.shape[:2], attention.num_key_value_heads, attention.head_dim)
            there = batch.to(self.device(layer))
            keys = attention.k_norm(attention.k_proj(there).view(shape).transpose(1, 2))
            cache.update(keys, attention.v_proj(there).view(shape).transpose(1, 2), layer)
        after_image = (tokens == self.image_token).cumsum(dim=1) > 0
        own = tiles < torch.stack([state["tiles"] for state in states])
        return {
            "input_ids": tokens.to(device),
            "attention_mask": mask.to(device),
            "past_key_values": cache,
            "cross_attention_mask": (after_image[:, :, None, None] & own[:, None, None, :]).long().to(device),
        }
