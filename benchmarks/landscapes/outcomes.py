"""Records what a model might have named: the log-probability of each name of the tree where its greedy answer has one.

Run `python benchmarks/landscapes/outcomes.py --out benchmarks/landscapes/outcomes.npz`; it takes some minutes. Images
and templates are those of the votes (`votes.py`). `--model FOLDER` asks another model than the embedded one:
`outcomes-long.npz` is of one that `fieldguide.train` made with `--pieces` and `--seen-by`. The package's own scoring is
not used, so that it can be held against this: all names of the tree are read at once behind "A:", as a tree of tokens
of which each sees those before it.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from record import DEGRADED, IMAGES, SEED, _text

from fieldguide.draw import make_dataset
from taxtune.fieldguide import MODEL_FOLDER, TAXONOMY_FILE
from taxtune.images import load_image
from taxtune.mapping import Mapper, MapperConfig, make_similarity
from taxtune.models import ModelSettings, Request, make_model
from taxtune.recipe import load_recipe
from taxtune.taxonomy import Taxonomy, read_taxonomy
from taxtune.tuning.template import Template

VOTES = Path(__file__).resolve().parent / "votes.npz"
FRAME = "A:"
_BATCH = 64
_TOP = 5


class Tokens:
    """The names' tokens as a tree: the token of each node, its parent (-1 for none), and where each name ends."""

    def __init__(self, names: Mapping[str, Sequence[int]]) -> None:
        self.token: list[int] = []
        self.parent: list[int] = []
        self.ends: dict[str, int] = {}
        self.children: dict[int, dict[int, int]] = {}
        for name, tokens in names.items():
            at = -1
            for token in tokens:
                below = self.children.setdefault(at, {})
                if token not in below:
                    below[token] = len(self.token)
                    self.token.append(token)
                    self.parent.append(at)
                at = below[token]
            self.ends[name] = at

    def way(self, node: int) -> list[int]:
        """Returns the nodes from the first token to one."""
        return [] if node < 0 else [*self.way(self.parent[node]), node]


def read_names(
    network: Any, tokens: Tokens, head: Sequence[int], states: Any, image: int
) -> tuple[Any, Any]:
    """Returns the log-probability of each token after its parent and the lowest of the likeliest five there."""
    import torch

    before = len(head)
    size = len(head) + len(tokens.token)
    ways = [tokens.way(node) for node in range(len(tokens.token))]
    sees = torch.zeros(size, size, dtype=torch.bool)
    sees[:before, :before] = torch.ones(before, before).tril().bool()
    for node, way in enumerate(ways):
        sees[before + node, :before] = True
        sees[before + node, [before + one for one in way]] = True
    mask = torch.zeros(size, size).masked_fill(~sees, torch.finfo(torch.float32).min)
    at_image = torch.zeros(1, size, 1, 1, dtype=torch.long)
    at_image[:, head.index(image) :] = 1
    places = torch.tensor([*range(before), *(before + len(way) - 1 for way in ways)])
    parents = torch.tensor(
        [before + parent if parent >= 0 else before - 1 for parent in tokens.parent]
    )
    found = []
    fifth = []
    with torch.inference_mode():
        for batch in states.split(_BATCH):
            hidden = network.model(
                input_ids=torch.tensor([*head, *tokens.token]).expand(len(batch), -1),
                attention_mask=mask.expand(len(batch), 1, -1, -1),
                cross_attention_mask=at_image.expand(len(batch), -1, -1, -1),
                cross_attention_states=batch,
                position_ids=places.expand(len(batch), -1),
                use_cache=False,
            ).last_hidden_state
            logs = network.lm_head(hidden[:, parents]).log_softmax(-1)
            found.append(
                logs[:, torch.arange(len(parents)), torch.tensor(tokens.token)].double().numpy()
            )
            fifth.append(logs.topk(_TOP, -1).values[..., -1].double().numpy())
    return np.concatenate(found), np.concatenate(fifth)


def add_up(
    tokens: Tokens, logs: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns log-probabilities of the beginnings, and of the names, less what goes on as another name."""
    begins = np.stack(
        [logs[:, tokens.way(node)].sum(axis=1) for node in range(logs.shape[1])], axis=1
    )
    ends = []
    for end in tokens.ends.values():
        ends.append(
            np.exp(begins[:, end])
            - np.exp(begins[:, [*tokens.children.get(end, {}).values()]]).sum(axis=1)
        )
    return begins, np.log(np.maximum(np.stack(ends, axis=1), 1e-30))


def told_by_api(
    tree: Taxonomy,
    tokens: Tokens,
    node_of: Mapping[str, int],
    texts: Sequence[str],
    logs: NDArray[np.float64],
    fifth: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Returns the weights that the likeliest tokens along the answer tell: of names by node, then of beginnings."""
    begins, _ = add_up(tokens, logs)
    below: dict[int, list[int]] = {}
    for name, end in tokens.ends.items():
        for node in tokens.way(end):
            below.setdefault(node, []).append(node_of[name])
    told = np.zeros((len(texts), 2 * len(tree)))
    for i, text in enumerate(texts):
        name = text.removeprefix(FRAME).strip(" .")
        if name not in tokens.ends:
            continue
        way = tokens.way(tokens.ends[name])
        left = np.exp(begins[i, way[-1]])
        for at, taken in zip([-1, *way], [*way, -1], strict=True):
            for child in tokens.children.get(at, {}).values():
                if child != taken and logs[i, child] >= fifth[i, child]:
                    nodes = below[child]
                    weight = np.exp(begins[i, child])
                    told[i, tree.common_ancestor(nodes) + (len(tree) if len(nodes) > 1 else 0)] += (
                        weight
                    )
                    left -= weight if taken < 0 else 0.0
        told[i, node_of[name]] += left
    return told


def record(images: Path, folder: Path) -> dict[str, Any]:
    """Asks the templates of the votes about every image; returns the arrays by name (README.md)."""
    import torch
    from transformers import AutoProcessor, MllamaForConditionalGeneration

    recipe = load_recipe("fieldguide")
    sources = np.load(VOTES)["templates"].tolist()
    variables = recipe.prompt.variables
    tree = read_taxonomy(TAXONOMY_FILE, names=False)
    leaves = set(tree.leaves.tolist())
    ordered = sorted(range(len(tree)), key=lambda node: node not in leaves)
    node_of = {tree.common_name(node): node for node in ordered}
    with (images / "manifest.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    processor = AutoProcessor.from_pretrained(folder)
    network = MllamaForConditionalGeneration.from_pretrained(folder)
    tokenizer = processor.tokenizer
    image = tokenizer.convert_tokens_to_ids("<|image|>")

    def ids(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    def chat(prompt: str) -> str:
        content = [{"type": "image"}, {"type": "text", "text": prompt}]
        turns = [{"role": "user", "content": content}]
        return str(processor.apply_chat_template(turns, add_generation_prompt=True, tokenize=False))

    pictures = [load_image(images / row["image"]) for row in rows]
    pictures.append(Image.new("RGB", pictures[0].size, (128, 128, 128)))
    states = []
    for start in range(0, len(pictures), _BATCH):
        some = [[one] for one in pictures[start : start + _BATCH]]
        shown = processor(
            images=some, text=[chat("x")] * len(some), add_special_tokens=False, return_tensors="pt"
        )
        names = ("pixel_values", "aspect_ratio_ids", "aspect_ratio_mask")
        with torch.inference_mode():
            seen = (
                network.eval()
                .model.vision_model(**{name: shown[name] for name in names})
                .last_hidden_state
            )
            states.append(
                network.model.multi_modal_projector(seen).reshape(
                    len(some), -1, network.model.hidden_size
                )
            )
    begin = ids(FRAME)
    tokens = Tokens({name: ids(f"{FRAME} {name}")[len(begin) :] for name in node_of})
    settings = ModelSettings(max_tokens=recipe.vlm.max_tokens, batch_size=160, device="cpu")
    asked = make_model(
        "builtin:fieldguide" if folder == MODEL_FOLDER else f"local:{folder}", settings
    )
    mapper = Mapper(tree, make_similarity("lexical"), MapperConfig())
    found: dict[str, Any] = {"logp": [], "greedy": [], "off_tree": []}
    for number, source in enumerate(sources):
        prompt = Template.parse(source).render(variables)
        texts = []
        for reply in asked.answer([Request(prompt, images / row["image"]) for row in rows]):
            texts.append(_text(reply))
        if not all(text.startswith(FRAME) for text in texts):
            raise SystemExit(f"An answer to {source!r} does not begin with {FRAME!r}.")
        placements = mapper.place(texts)
        found["greedy"].append([placement.node for placement in placements])
        found["off_tree"].append([placement.off_tree for placement in placements])
        logs, fifth = read_names(
            network, tokens, [*ids(chat(prompt)), *begin], torch.cat(states), image
        )
        _, names_of = add_up(tokens, logs)
        found["logp"].append(_rounded(names_of[:-1], 1e-4 if number else 1e-6))
        if number == 0:
            told = told_by_api(tree, tokens, node_of, texts, logs[:-1], fifth[:-1])
            found["top5"] = np.where(told < 1e-6, 0, told).astype(np.float16)
            found["blank"] = names_of[-1:].astype(np.float16)
        print(f"{number + 1} of {len(sources)} templates", flush=True)
    ends = [len(tokens.way(end)) for end in tokens.ends.values()]
    return {
        "logp": np.array(found["logp"]),
        "greedy": np.array(found["greedy"], dtype=np.uint8),
        "off_tree": np.array(found["off_tree"]),
        "top5": found["top5"],
        "blank": found["blank"],
        "names": np.array(list(node_of)),
        "nodes": np.array(list(node_of.values()), dtype=np.uint8),
        "tokens": np.array(ends, dtype=np.uint8),
        "targets": np.array([tree.resolve(row["label"]) for row in rows], dtype=np.uint8),
        "degraded": np.array([row["degraded"] == "yes" for row in rows]),
        "templates": np.array(sources),
    }


def _rounded(logs: NDArray[np.float64], floor: float) -> NDArray[np.float16]:
    """Drops what is below the floor and, but for the baseline, three bits, which a small file can do without."""
    short = logs.astype(np.float16)
    if floor > 1e-5:
        short = (short.view(np.uint16) & np.uint16(0xFFF8)).view(np.float16)
    return np.where(logs < np.log(floor), np.float16(-np.inf), short)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="the file to write (.npz)")
    parser.add_argument(
        "--model", type=Path, default=MODEL_FOLDER, help="a model's folder (default: the package's)"
    )
    parser.add_argument("--drawn", type=Path, help="a folder with images that were drawn before")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = given.drawn or make_dataset(
            Path(name) / "images", n=IMAGES, seed=SEED, degraded=DEGRADED
        )
        np.savez_compressed(given.out, **record(folder, given.model))


if __name__ == "__main__":
    main()
