"""Features of encoded images, which are cached: the images stay and the prompts change.

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

#: The cached features of one image: tensors by name, on the CPU.
ImageFeatures = Mapping[str, "torch.Tensor"]


class ImageFeatureCache(dict[str, ImageFeatures]):
    """Features by the key of their image, up to a limit of memory.

    The first to come stay: a run goes through its images in turn, so that of more images than there
    is room for the least recently used is the one that is needed next.

    Args:
        memory: Most bytes.
    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self._room = memory

    def put(self, key: str, features: ImageFeatures) -> None:
        """Keeps the features of an image, if there is room for them."""
        size = sum(tensor.nbytes for tensor in features.values())
        if key not in self and size <= self._room:
            self[key] = features
            self._room -= size


class Uncacheable(Exception):  # noqa: N818 - it is no error: images are then encoded again
    """The features of a network's images cannot be cached; the text says why."""


class PrefixCache(ABC):
    """Makes the features of an image, and the inputs of a network that stand for the image.

    Args:
        network: The network.
        image_token: The number of the token that stands for an image in a text.
        pad_token: The number of the token that texts are padded with.
        room: Most tokens of an answer.
        ids: From the text of a request, as the chat template gives it, to its tokens with those of
            some image.

    Raises:
        Uncacheable: If the network is not of a kind that this fits.
    """

    def __init__(
        self,
        network: Any,
        image_token: int,
        pad_token: int,
        room: int,
        ids: Callable[[str], list[int]],
    ) -> None:
        self.network = network
        self.image_token = image_token
        self.pad_token = pad_token
        self.room = room
        self.ids = ids

    @cached_property
    def cache_name(self) -> str:
        """The network's parameter for its cache: "cache", earlier "past_key_values"."""
        parameters = signature(self.network.forward).parameters
        return "past_key_values" if "past_key_values" in parameters else "cache"

    def device(self, layer: int) -> Any:
        """Returns the device of a layer of the language model; several where it is sharded."""
        try:
            return next(self.network.get_decoder().layers[layer].parameters()).device
        except (AttributeError, StopIteration):
            return self.network.device

    @abstractmethod
    def encode(self, inputs: Any) -> ImageFeatures:
        """Encodes the image of the processor's tensors of a text with it.

        Raises:
            Uncacheable: If the features cannot be cached.
        """

    @abstractmethod
    def inputs(
        self,
        texts: Sequence[str],
        features: Sequence[ImageFeatures],
        more: Sequence[Sequence[int]],
    ) -> dict[str, Any]:
        """Makes the arguments of `generate` for texts and the features of their images.

        Args:
            texts: The texts.
            features: The features of their images.
            more: Tokens to be read after each text; they are part of an answer.

        Raises:
            Uncacheable: If it cannot.
        """


def padded(rows: Sequence[Sequence[int]], pad: int) -> tuple[Any, Any]:
    """Returns rows of tokens padded on the left, and their attention mask.

    Each is a tensor of shape (rows, longest).
    """
    import torch

    longest = max(map(len, rows))
    tokens = torch.full((len(rows), longest), pad, dtype=torch.long)
    mask = torch.zeros((len(rows), longest), dtype=torch.long)
    for row, ids in enumerate(rows):
        start = longest - len(ids)
        tokens[row, start:] = torch.tensor(ids, dtype=torch.long)
        mask[row, start:] = 1
    return tokens, mask


def followed(inputs: Any, more: Sequence[Sequence[int]]) -> Any:
    """Appends tokens, as many to each, to the rows of a processor's batch.

    They are text like the last token.
    """
    import torch

    length = len(more[0])
    if not length:
        return inputs
    shape = tuple(inputs["input_ids"].shape)
    for name, value in inputs.items():
        if tuple(value.shape[:2]) != shape:
            continue
        added = value[:, -1:].expand(-1, length, *value.shape[2:])
        if name == "input_ids":
            added = torch.tensor(more)
        inputs[name] = torch.cat([value, added], dim=1)
    return inputs


def on_host(tensor: Any) -> Any:
    """Returns a tensor in this machine's memory; pinned, so that it goes back fast to a card."""
    import torch

    copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
    return copy.copy_(tensor)


class CrossAttentionCache(PrefixCache):
    """Fills the cross-attention's cache with what the vision model and its projector give.

    The features are `states`, of shape (tiles, patches of a tile, hidden size), and `tiles`, how
    many of them are the image's own: for 11B about 50 MiB in bfloat16. Keys and values, which are
    made of them for each batch, would take four times as much. They have to be in the cache before
    the first step: states handed to `generate` would be appended to it again at each step. Tiles
    that only fill up are part of them, too: tokens before the image see them.
    """

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        text_config = self.network.config.get_text_config()
        self._layers = sorted(getattr(text_config, "cross_attention_layers", ()))
        has_vision_model = hasattr(getattr(self.network, "model", None), "vision_model")
        # The length of the first layer's cache tells `generate` how much text it has read.
        if not has_vision_model or not self._layers or self._layers[0] == 0:
            raise Uncacheable("its layers are not where those of Mllama are")

    def encode(self, inputs: Any) -> ImageFeatures:
        """Returns the projected states of the image's tiles."""
        model = self.network.model
        tiles = inputs["aspect_ratio_mask"]
        output = model.vision_model(
            pixel_values=inputs["pixel_values"],
            aspect_ratio_ids=inputs["aspect_ratio_ids"],
            aspect_ratio_mask=tiles,
        )
        states = output.last_hidden_state
        projected = model.multi_modal_projector(states)
        projected = projected.reshape(-1, states.shape[-2], model.hidden_size)
        return {"states": on_host(projected), "tiles": tiles.sum().reshape(1).cpu()}

    def inputs(
        self,
        texts: Sequence[str],
        features: Sequence[ImageFeatures],
        more: Sequence[Sequence[int]],
    ) -> dict[str, Any]:
        """Returns tokens, the filled cache and, for each row, which tokens see which tiles."""
        import torch

        device = self.network.device
        rows = [[*self.ids(text), *added] for text, added in zip(texts, more, strict=True)]
        tokens, mask = padded(rows, self.pad_token)
        states = torch.stack([image["states"].to(device, non_blocking=True) for image in features])
        tiles = torch.arange(states.shape[1])
        is_own = tiles < torch.stack([image["tiles"] for image in features])
        is_after_image = (tokens == self.image_token).cumsum(dim=1) > 0
        sees = is_after_image[:, :, None, None] & is_own[:, None, None, :]
        return {
            "input_ids": tokens.to(device),
            "attention_mask": mask.to(device),
            self.cache_name: self._cache(states.flatten(1, 2)),
            "cross_attention_mask": sees.long().to(device),
        }

    def _cache(self, states: Any) -> Any:
        """Returns the keys and values of states of shape (images, patches, hidden size)."""
        from transformers import DynamicCache

        cache = DynamicCache()
        for layer in self._layers:
            attention = self.network.model.language_model.layers[layer].cross_attn
            shape = (*states.shape[:2], attention.num_key_value_heads, attention.head_dim)
            of_layer = states.to(self.device(layer))
            keys = attention.k_proj(of_layer).view(shape).transpose(1, 2)
            values = attention.v_proj(of_layer).view(shape).transpose(1, 2)
            cache.update(attention.k_norm(keys), values, layer)
        return cache


class KeyValueCache(PrefixCache):
    """Holds the keys and values of everything up to the image's last token.

    A prompt is then only its own tokens. The features are `ids`, the tokens up to there (of shape
    (length,)), `keys` and `values` (layers, heads, length, size of a head), and for positions in
    several dimensions (Qwen's) `rope_delta`. In a batch the prefixes are padded on the left, and so
    are the rests, so that there is padding in the middle; the mask tells, and positions are counted
    by it.
    """

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
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
        arguments: dict[str, Any] = {"use_cache": True}
        for name, value in inputs.items():
            if not hasattr(value, "shape"):
                continue
            is_of_tokens = value.shape[:2] == inputs["input_ids"].shape
            arguments[name] = value[:, :length] if is_of_tokens else value
        if "logits_to_keep" in signature(self.network.forward).parameters:
            arguments["logits_to_keep"] = 1
        cache = getattr(self.network(**arguments), self.cache_name)
        layers = getattr(cache, "layers", None) or ()
        keys: list[Any] = [getattr(layer, "keys", None) for layer in layers]
        values: list[Any] = [getattr(layer, "values", None) for layer in layers]
        shapes = {tuple(getattr(tensor, "shape", ())) for tensor in keys + values}
        shape = shapes.pop() if len(shapes) == 1 else ()
        if len(shape) != 4 or shape[2] != length:
            raise Uncacheable("its layers do not all keep the whole text")
        device = keys[0].device
        features = {
            "ids": ids[:length].cpu(),
            "keys": on_host(torch.stack([tensor[0].to(device) for tensor in keys])),
            "values": on_host(torch.stack([tensor[0].to(device) for tensor in values])),
        }
        rope_deltas = getattr(getattr(self.network, "model", None), "rope_deltas", None)
        if rope_deltas is not None:
            features["rope_delta"] = rope_deltas.reshape(-1)[:1].cpu()
        return features

    def inputs(
        self,
        texts: Sequence[str],
        features: Sequence[ImageFeatures],
        more: Sequence[Sequence[int]],
    ) -> dict[str, Any]:
        """Returns tokens, mask and the cache of the prefixes."""
        import torch

        device = self.network.device
        head, head_mask = padded([image["ids"].tolist() for image in features], self.pad_token)
        rests = [[*self._rest(text), *added] for text, added in zip(texts, more, strict=True)]
        tail, tail_mask = padded(rests, self.pad_token)
        answer = max(0, self.room - min(map(len, more)))
        cache = self._cache(features, head.shape[1], longest=head.shape[1] + tail.shape[1] + answer)
        if "rope_delta" in features[0]:
            # Qwen keeps it on the model between the steps of an answer; here it is that of this
            # batch's images.
            deltas = torch.stack([image["rope_delta"] for image in features])
            self.network.model.rope_deltas = deltas.to(device)
        return {
            "input_ids": torch.cat([head, tail], dim=1).to(device),
            "attention_mask": torch.cat([head_mask, tail_mask], dim=1).to(device),
            self.cache_name: cache,
        }

    def _rest(self, text: str) -> Sequence[int]:
        """Returns the tokens of a text after its image."""
        ids = self.ids(text)
        return ids[len(ids) - ids[::-1].index(self.image_token) :]

    def _cache(self, features: Sequence[ImageFeatures], length: int, longest: int) -> Any:
        """Returns the keys and values of prefixes, padded on the left to a length.

        Padding in the middle would fill up a layer's sliding window, so `longest`, the most tokens
        that a row can have, must not be more than that.
        """
        import torch
        from transformers import DynamicCache

        cache = DynamicCache(config=self._text_config)
        windows = [getattr(layer, "sliding_window", None) for layer in cache.layers]
        if any(window is not None and longest > window for window in windows):
            raise Uncacheable(f"{longest} tokens do not fit into the sliding windows of its layers")
        device = self.network.device
        dtype = features[0]["keys"].dtype
        layers, heads, _, size = features[0]["keys"].shape
        shape = (layers, len(features), heads, length, size)
        keys = torch.zeros(shape, dtype=dtype, device=device)
        values = torch.zeros(shape, dtype=dtype, device=device)
        for row, image in enumerate(features):
            start = length - image["ids"].shape[0]
            keys[:, row, :, start:].copy_(image["keys"], non_blocking=True)
            values[:, row, :, start:].copy_(image["values"], non_blocking=True)
        for layer in range(layers):
            of_layer = self.device(layer)
            cache.update(keys[layer].to(of_layer), values[layer].to(of_layer), layer)
        return cache


def prefix_cache_for(model_type: str) -> type[PrefixCache]:
    """Returns the kind of cache that fits an architecture."""
    return CrossAttentionCache if model_type == "mllama" else KeyValueCache
