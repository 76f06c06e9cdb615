"""Fine-tune a CLIP model on hard right and wrong texts (Xu et al., paper 3, §6, Table 4).

The loss is open_clip's own. The texts are those of taxtune's study of specificity, made of the
training images:

    taxtune study specificity --captions captions_train2017.json \
      --instances instances_train2017.json --negatives 5 --pairs runs/train-pairs.jsonl
    python examples/finetune_on_hard_texts.py runs/train-pairs.jsonl train2017/ runs/hard.pt \
      --model ViT-B-32@openai
    taxtune study specificity --captions captions_val2017.json \
      --instances instances_val2017.json --images val2017/ --model ViT-B-32@runs/hard.pt

In each epoch an image is shown with one right text: a caption, a prompt with all its labels or one
with a single label. One of its altered captions and one caption of a related image join the batch
as texts that no image is shown with. `--texts plain` trains on captions alone, which is what the
paper compares with. The paper gives no more than that it takes the hyperparameters of NegCLIP;
those here are ours.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import open_clip
import torch
from open_clip.loss import ClipLoss
from PIL import Image

Texts = dict[str, list[str]]

RIGHT = {"plain": ("caption",), "hard": ("caption", "multi", "single")}
WRONG: dict[str, tuple[str, ...]] = {"plain": (), "hard": ("altered", "related")}


class HardTextLoss(ClipLoss):  # type: ignore[misc]
    """The loss of CLIP where a batch has more texts than images, at its end the wrong ones."""

    #: Which texts repeat the right one of an image, shape (images, texts): they are not wrong for
    #: it.
    repeats: torch.Tensor

    def get_logits(self, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the logits of images over texts, and of the right texts over images."""
        per_image, _ = super().get_logits(*args, **kwargs)
        per_image = per_image.masked_fill(self.repeats, -math.inf)
        return per_image, per_image[:, : len(per_image)].T


def read_texts(path: Path) -> dict[str, Texts]:
    """Returns the texts of each image file by kind, from what `--pairs` of the study wrote."""
    images: dict[str, Texts] = defaultdict(lambda: defaultdict(list))
    with path.open(encoding="utf-8") as file:
        for line in file:
            pair = json.loads(line)
            images[pair["file"]][pair["kind"]].append(pair["text"])
    return images


def drawn_texts(batch: list[Texts], texts: str, rng: random.Random) -> list[str]:
    """Returns one right text for each image of a batch and, behind them, drawn wrong ones."""
    drawn = []
    for image in batch:
        kinds = [kind for kind in RIGHT[texts] if image[kind]]
        drawn.append(rng.choice(image[rng.choice(kinds)]))
    for image in batch:
        for kind in WRONG[texts]:
            if image[kind]:
                drawn.append(rng.choice(image[kind]))
    return drawn


def repeated(drawn: list[str], images: int, device: str) -> torch.Tensor:
    """Returns which texts repeat the right one of an image, shape (images, texts).

    The first texts are the right ones, in the order of the images.
    """
    number = {text: i for i, text in enumerate(dict.fromkeys(drawn))}
    numbers = torch.tensor([number[text] for text in drawn], device=device)
    same = numbers[:images, None] == numbers[None, :]
    own = torch.eye(images, len(drawn), dtype=torch.bool, device=device)
    return same & ~own


def finetune(
    pairs: Path,
    folder: Path,
    out: Path,
    *,
    model: str,
    texts: str = "hard",
    epochs: int = 5,
    batch_size: int = 256,
    lr: float = 1e-6,
    device: str = "cpu",
    seed: int = 0,
) -> list[float]:
    """Fine-tunes a model, saves a checkpoint as open_clip's training does, and returns the losses.

    Args:
        pairs: The texts, see `read_texts`.
        folder: The folder of the images.
        out: The checkpoint to write; taxtune takes it as ARCHITECTURE@FILE.
        model: ARCHITECTURE@WEIGHTS, as open_clip names them.
        texts: "hard" or "plain".
        epochs: How often each image is shown.
        batch_size: Images in a batch.
        lr: The learning rate at its height, after a twentieth of the steps; it falls to 0 along a
            cosine.
        device: "cpu" or "cuda".
        seed: Seed of the order of images and the draws of texts.

    Returns:
        The mean loss of each epoch.
    """
    torch.manual_seed(seed)
    rng = random.Random(seed)
    architecture, _, weights = model.partition("@")
    clip, preprocess = open_clip.create_model_from_pretrained(
        architecture, pretrained=weights, device=device
    )
    tokenizer = open_clip.get_tokenizer(architecture)
    images = read_texts(pairs)
    loss = HardTextLoss()
    optimizer = torch.optim.AdamW(
        clip.parameters(), lr=lr, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.1
    )
    steps = epochs * math.ceil(len(images) / batch_size)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, lr, total_steps=steps + 1, pct_start=0.05
    )
    means = []
    clip.train()
    for epoch in range(epochs):
        files = rng.sample(sorted(images), len(images))
        losses = []
        for start in range(0, len(files), batch_size):
            names = files[start : start + batch_size]
            drawn = drawn_texts([images[name] for name in names], texts, rng)
            loss.repeats = repeated(drawn, len(names), device)
            pictures = [Image.open(folder / name).convert("RGB") for name in names]
            pixels = torch.stack([preprocess(picture) for picture in pictures])
            tokens = tokenizer(drawn)
            image_features, text_features, scale, *_ = clip(pixels.to(device), tokens.to(device))
            value = loss(image_features, text_features, scale)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            schedule.step()
            clip.logit_scale.data.clamp_(0, math.log(100))  # as CLIP's authors do
            losses.append(float(value.detach()))
        means.append(sum(losses) / len(losses))
        print(f"epoch {epoch + 1}: loss {means[-1]:.4f}", flush=True)
    torch.save({"epoch": epochs, "name": out.stem, "state_dict": clip.state_dict()}, out)
    return means


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("pairs", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--texts", choices=sorted(RIGHT), default="hard")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lr", type=float, default=1e-6)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    finetune(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
