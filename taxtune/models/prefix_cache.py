"""The features of encoded images are cached: in prompt tuning the images stay and the prompts change.

`CrossAttentionCache` is for networks whose text looks at the image through layers of their own
(Mllama), `KeyValueCache` for all that read image and text as one sequence (LLaVA, Qwen2.5-VL,
SmolVLM, InternVL, Gemma 3 and their like).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from inspect import signature
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

__all__ = ["ImageFeatureCache", "ImageFeatures", "PrefixCache", "Uncacheable", "prefix_cache_for"]

#: What is kept of one image: tensors by name, on the CPU.
ImageFeatures = Mapping[str, "torch.Tensor"]


class ImageFeatureCache(dict[str, ImageFeatures]):
    """States by the key of their image, up to a limit of memory.

    The first to come stay: a run goes through its images in turn, so that of more images than there is room for the
    least recently used is the one that is needed next.

    Args:
        memory: Most bytes.
    """

    def __init__(self, memory: int) -> None:
        self.memory, self._room = memory, memory

    def put(self, key: str, state: ImageFeatures) -> None:
        """Keeps a state, if there is room for it."""
        size = sum(tensor.nbytes for tensor in state.values())
        if key not in self and size <= self._room:
            self[key] = state
            self._room -= size


class Uncacheable(Exception):  # noqa: N818 - it is not shown as an error: the images are then encoded for each prompt
    """A network's images cannot be kept; the text says why."""


class PrefixCache(ABC):
    """How a network is given an image that it has seen before; `Uncacheable` if it is not of a kind that this fits.

    Args:
        network: The network.
        image_token: The number of the token that stands for an image in a text.
        pad_token: The number of the token that texts are padded with.
        room: Most tokens of an answer.
        ids: From the text of a request, as the chat template gives it, to its tokens with those of some image.
    """

    def __init__(
        self,
        network: Any,
        image_token: int,
        pad_token: int,
        room: int,
        ids: Callable[[str], list[int]],
    ) -> None:
        self.network, self.image_token, self.pad_token, self.room, self.ids = (
            network,
            image_token,
            pad_token,
            room,
            ids,
        )

    @cached_property
    def cache_name(self) -> str:
        """What the network calls its cache: "cache", in earlier versions "past_key_values"."""
        takes = signature(self.network.forward).parameters
        return "past_key_values" if "past_key_values" in takes else "cache"

    def device(self, layer: int) -> Any:
        """Returns the device that a layer of the language model is on; several where the network is sharded."""
        try:
            return next(self.network.get_decoder().layers[layer].parameters()).device
        except (AttributeError, StopIteration):
            return self.network.device

    @abstractmethod
    def encode(self, inputs: Any) -> ImageFeatures:
        """Encodes an image, of the processor's tensors of a text with it; `Uncacheable` if that cannot be kept."""

    @abstractmethod
    def inputs(
        self, texts: Sequence[str], states: Sequence[ImageFeatures], more: Sequence[Sequence[int]]
    ) -> dict[str, Any]:
        """Makes the arguments of `generate` for texts and the states of their images; `Uncacheable` if it cannot.

        Args:
            texts: The texts.
            states: What is kept of their images.
            more: Tokens to be read after each text; they are part of an answer.
        """


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


def followed(inputs: Any, more: Sequence[Sequence[int]]) -> Any:
    """Appends tokens, as many to each, to the rows of a processor's batch; they are text like the last one."""
    import torch

    shape, length = inputs["input_ids"].shape, len(more[0])
    for name, value in inputs.items():
        if length and tuple(value.shape[:2]) == tuple(shape):
            last = (
                torch.tensor(more)
                if name == "input_ids"
                else value[:, -1:].expand(-1, length, *value.shape[2:])
            )
            inputs[name] = torch.cat([value, last], dim=1)
    return inputs


def on_host(tensor: Any) -> Any:
    """Returns a tensor in this machine's memory; pinned, if it comes from a CUDA card, so that it goes back fast."""
    import torch

    copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
    return copy.copy_(tensor)


class CrossAttentionCache(PrefixCache):
    """Keeps what the vision model and its projector give, tile by tile, and fills the cross-attention's cache with it.

    A state is `states`, of shape (tiles, patches of a tile, hidden size), and `tiles`, how many of them are the image's
    own: for 11B about 50 MiB in bfloat16. Keys and values, which are made of it for each batch, would take four times
    as much. They have to be in the cache before the first step: states handed to `generate` would be appended to it
    again at each step. Tiles that only fill up are kept, too: tokens before the image see them.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        network, text = self.network, self.network.config.get_text_config()
        self._layers = sorted(getattr(text, "cross_attention_layers", ()))
        if (
            not hasattr(getattr(network, "model", None), "vision_model")
            or not self._layers
            or self._layers[0] == 0
        ):
            # The length of the first layer's cache tells `generate` how much text it has read.
            raise Uncacheable("its layers are not where those of Mllama are")

    def encode(self, inputs: Any) -> ImageFeatures:
        """Returns the projected states of the image's tiles."""
        model = self.network.model
        seen = model.vision_model(
            pixel_values=inputs["pixel_values"],
            aspect_ratio_ids=inputs["aspect_ratio_ids"],
            aspect_ratio_mask=inputs["aspect_ratio_mask"],
        ).last_hidden_state
        states = model.multi_modal_projector(seen).reshape(-1, seen.shape[-2], model.hidden_size)
        return {
            "states": on_host(states),
            "tiles": inputs["aspect_ratio_mask"].sum().reshape(1).cpu(),
        }

    def inputs(
        self, texts: Sequence[str], states: Sequence[ImageFeatures], more: Sequence[Sequence[int]]
    ) -> dict[str, Any]:
        """Returns tokens, the filled cache and, for each left-padded row, which tokens see which tiles."""
        import torch
        from transformers import DynamicCache

        device = self.network.device
        rows = [[*self.ids(text), *then] for text, then in zip(texts, more, strict=True)]
        tokens, mask = padded(rows, self.pad_token)
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
            self.cache_name: cache,
            "cross_attention_mask": (after_image[:, :, None, None] & own[:, None, None, :])
            .long()
            .to(device),
        }


class KeyValueCache(PrefixCache):
    """Keeps the keys and values of everything up to the image's last token; a prompt is then only its own tokens.

    A state is `ids`, the tokens up to there (of shape (length,)), `keys` and `values` (layers, heads, length, size of a
    head), and for positions in several dimensions (Qwen's) `rope_delta`. In a batch the kept parts are padded on the
    left, and so are the rests, so that there is padding in the middle; the mask tells, and positions are counted by it.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        if self.network.config.is_encoder_decoder:
            raise Uncacheable("an encoder reads image and prompt together")

    @cached_property
    def _text_config(self) -> Any:
        return self.network.config.get_text_config(decoder=True)

    def encode(self, inputs: Any) -> ImageFeatures:
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
        cache = getattr(self.network(**shown, **last_only, use_cache=True), self.cache_name)
        layers = getattr(cache, "layers", None)
        kept: list[tuple[Any, Any]] = [
            (getattr(at, "keys", None), getattr(at, "values", None)) for at in layers or ()
        ]
        shapes = {tuple(getattr(one, "shape", ())) for pair in kept for one in pair}
        if len(shapes) != 1 or len(next(iter(shapes))) != 4 or next(iter(shapes))[2] != length:
            raise Uncacheable("its layers do not all keep the whole text")
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

    def inputs(
        self, texts: Sequence[str], states: Sequence[ImageFeatures], more: Sequence[Sequence[int]]
    ) -> dict[str, Any]:
        """Returns tokens, mask and the cache of the kept parts."""
        import torch
        from transformers import DynamicCache

        device = self.network.device
        head, head_mask = padded([state["ids"].tolist() for state in states], self.pad_token)
        rests = [
            [*rest(self.ids(text), self.image_token), *then]
            for text, then in zip(texts, more, strict=True)
        ]
        tail, tail_mask = padded(rests, self.pad_token)
        layers, heads, _, size = states[0]["keys"].shape
        length = head.shape[1]
        cache = DynamicCache(config=self._text_config)
        self._check_windows(cache, length + tail.shape[1] + max(0, self.room - min(map(len, more))))
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
            self.network.model.rope_deltas = torch.stack(
                [state["rope_delta"] for state in states]
            ).to(device)
        return {
            "input_ids": torch.cat([head, tail], dim=1).to(device),
            "attention_mask": torch.cat([head_mask, tail_mask], dim=1).to(device),
            self.cache_name: cache,
        }

    def _check_windows(self, cache: Any, length: int) -> None:
        """Refuses a batch longer than a layer's sliding window, which padding in the middle would fill up."""
        windows = [getattr(layer, "sliding_window", None) for layer in cache.layers]
        if any(window is not None and length > window for window in windows):
            raise Uncacheable(f"{length} tokens do not fit into the sliding windows of its layers")


def prefix_cache_for(model_type: str) -> type[PrefixCache]:
    """How the images of an architecture are kept."""
    return CrossAttentionCache if model_type == "mllama" else KeyValueCache
