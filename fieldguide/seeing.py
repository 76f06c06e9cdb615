"""The first stage of the training: the image side of the model learns to tell the birds apart.

The mean of the image tokens, as the language side will get them, is read by a linear layer that
names the species. The layer is thrown away afterwards, save for one use: on pictures that it has
not seen it says how sure one can be of the species, the family and the order, which decides what a
careful answer to a prompt is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldguide.pictures import Pictures
from fieldguide.species import all_species

__all__ = ["image_tokens", "learn_to_name", "learn_to_see", "look", "sureness"]

_BATCH = 64
#: Pictures are shifted by up to this many pixels, and mirrored half of the time.
_SHIFT = 4


def image_tokens(model: Any, images: Any) -> Any:
    """Runs the image side of the model.

    Args:
        model: The `MllamaForConditionalGeneration`.
        images: A uint8 tensor of shape (n, 64, 64, 3).

    Returns:
        The tokens that the language side attends to, shape (n, 65, width).
    """
    import torch

    n = len(images)
    pixels = (images.float() / 127.5 - 1).permute(0, 3, 1, 2)[:, None, None]
    seen = model.model.vision_model(
        pixel_values=pixels,
        aspect_ratio_ids=torch.ones(n, 1, dtype=torch.long),
        aspect_ratio_mask=torch.ones(n, 1, 1, dtype=torch.long),
    )
    tokens = model.model.multi_modal_projector(seen.last_hidden_state)
    return tokens.reshape(n, -1, tokens.shape[-1])


def learn_to_see(
    model: Any,
    pictures: Pictures,
    check: Pictures,
    *,
    epochs: int,
    rate: float = 1.5e-3,
    seed: int = 0,
    say: Callable[[str], None] = print,
) -> Any:
    """Trains the image side of the model in place.

    Args:
        model: The `MllamaForConditionalGeneration`.
        pictures: What to learn from.
        check: What to report the progress on.
        epochs: How often to go through the pictures.
        rate: The highest learning rate.
        seed: Of the order of the pictures.
        say: Where notes on progress go.

    Returns:
        The linear layer that names the species.
    """
    import torch
    from torch import nn

    generator = torch.Generator().manual_seed(seed)
    images = torch.from_numpy(pictures.images)
    species = torch.from_numpy(pictures.species)
    layer = nn.Linear(model.config.text_config.hidden_size, len(all_species()))
    parameters = [
        *model.model.vision_model.parameters(),
        *model.model.multi_modal_projector.parameters(),
        *layer.parameters(),
    ]
    batches = max(1, len(images) // _BATCH)
    optimizer = torch.optim.AdamW(parameters, lr=rate, weight_decay=0.05, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, rate, total_steps=epochs * batches, pct_start=0.1
    )
    for epoch in range(epochs):
        model.train()
        total = 0.0
        order = torch.randperm(len(images), generator=generator)
        for batch in order[: batches * _BATCH].split(_BATCH):
            seen = images[batch]
            if torch.rand((), generator=generator) < 0.5:
                seen = seen.flip(2)
            shift = torch.randint(-_SHIFT, _SHIFT + 1, (2,), generator=generator).tolist()
            seen = seen.roll(shift, (1, 2))
            loss = nn.functional.cross_entropy(
                layer(image_tokens(model, seen).mean(1)), species[batch]
            )
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            schedule.step()
            total += loss.item()
        _, chances = look(model, layer, check)
        right = chances.argmax(1) == check.species
        clear = check.severity == 0
        say(
            f"seeing: epoch {epoch + 1}/{epochs}, loss {total / batches:.3f}, species right on clear pictures "
            f"{right[clear].mean():.3f}, on degraded ones {right[~clear].mean():.3f}"
        )
    return layer


def learn_to_name(model: Any, pictures: Pictures) -> Any:
    """Trains the linear layer that names the species on a model that sees already, and leaves the model as it is."""
    import torch
    from torch import nn

    layer = nn.Linear(model.config.text_config.hidden_size, len(all_species()))
    tokens, _ = look(model, layer, pictures)
    means = torch.from_numpy(tokens.mean(1, dtype=np.float32))
    species = torch.from_numpy(pictures.species)
    optimizer = torch.optim.LBFGS(layer.parameters(), max_iter=300, line_search_fn="strong_wolfe")

    def loss() -> Any:
        optimizer.zero_grad()
        value = (
            nn.functional.cross_entropy(layer(means), species) + 1e-4 * layer.weight.square().sum()
        )
        value.backward()
        return value

    optimizer.step(loss)
    return layer


def look(
    model: Any, layer: Any, pictures: Pictures
) -> tuple[NDArray[np.float16], NDArray[np.float64]]:
    """Runs the image side over pictures, without learning.

    Returns:
        The image tokens, shape (n, 65, width), and the chance of each species, shape (n, species).
    """
    import torch

    model.eval()
    tokens = []
    chances = []
    with torch.no_grad():
        for images in torch.from_numpy(pictures.images).split(256):
            seen = image_tokens(model, images)
            tokens.append(seen.half().numpy())
            chances.append(layer(seen.mean(1)).double().softmax(1).numpy())
    return np.concatenate(tokens), np.concatenate(chances)


def sureness(chances: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Returns the highest probability of a species, a family and an order per picture.

    Args:
        chances: The chance of each species, shape (n, species).

    Returns:
        For "species", "family" and "order" an array of shape (n,), 0..1.
    """
    birds = all_species()
    result = {"species": chances.max(1)}
    for rank in ("family", "order"):
        groups = sorted({getattr(bird, rank) for bird in birds})
        member = np.array(
            [[getattr(bird, rank) == group for group in groups] for bird in birds], float
        )
        result[rank] = (chances @ member).max(1)
    return result
