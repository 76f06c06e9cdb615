"""The example that fine-tunes on hard texts, from the study's texts to the study of the checkpoint that it saves."""

from __future__ import annotations

import itertools
import json
import math
import runpy
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from tests.cli.commands import run_captured
from tests.tiny_text_models import make_clip

pytestmark = pytest.mark.heavy

EXAMPLE = Path(__file__).parents[1] / "examples" / "finetune_on_hard_texts.py"
COLOURS = {"dog": "red", "cat": "blue", "couch": "green", "umbrella": "yellow", "skis": "white"}


def write_data(folder):
    """Writes images of two objects, each a colour, with a caption and labels in COCO's format."""
    (folder / "images").mkdir()
    names = list(COLOURS)
    images = []
    captions = []
    labels = []
    for i, (left, right) in enumerate(itertools.permutations(names, 2)):
        picture = Image.new("RGB", (32, 32), COLOURS[left])
        picture.paste(COLOURS[right], (16, 0, 32, 32))
        picture.save(folder / "images" / f"{i}.png")
        images.append({"id": i, "file_name": f"{i}.png"})
        captions.append({"id": i, "image_id": i, "caption": f"A {left} beside a {right}"})
        for name in (left, right):
            category = names.index(name)
            labels.append({"id": len(labels), "image_id": i, "category_id": category})
    categories = [{"id": i, "name": name} for i, name in enumerate(names)]
    captions_file = folder / "captions.json"
    captions_file.write_text(json.dumps({"images": images, "annotations": captions}))
    instances_file = folder / "instances.json"
    instances_file.write_text(json.dumps({"categories": categories, "annotations": labels}))
    return ["--captions", str(captions_file), "--instances", str(instances_file)]


def study(*options):
    """Runs the study of specificity and returns what it printed."""
    done = run_captured("study", "specificity", *options)
    assert done.code == 0, done.err
    return done.out


def test_a_text_that_repeats_the_right_one_is_not_wrong():
    pytest.importorskip("open_clip", reason="open_clip is not installed")
    import torch

    loss = runpy.run_path(str(EXAMPLE))["HardTextLoss"]()
    # Two images with one text, and a text that was drawn as wrong.
    loss.repeats = torch.tensor([[False, True, False], [True, False, False]])
    images = torch.eye(2)
    texts = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    # Each image has its own text and the wrong one to choose from; each text has its own image alone.
    expected = (math.log1p(math.exp(-1)) + math.log1p(math.exp(1))) / 2
    found = loss(images, texts, torch.tensor(1.0))
    assert float(found) == pytest.approx((expected + 0) / 2)


def test_hard_texts_lower_the_scores_of_hard_negatives(tmp_path):
    open_clip = pytest.importorskip("open_clip", reason="open_clip is not installed")
    data = write_data(tmp_path)
    folder = Path(make_clip(tmp_path).removeprefix("local-dir:"))
    # A checkpoint needs an architecture that open_clip knows by name.
    config = json.loads((folder / "open_clip_config.json").read_text())["model_cfg"]
    architecture = folder / "tiny-finetuned.json"
    architecture.write_text(json.dumps(config))
    open_clip.add_model_config(architecture)
    study(*data, "--negatives", 6, "--pairs", tmp_path / "pairs.jsonl")
    finetune = runpy.run_path(str(EXAMPLE))["finetune"]
    weights = folder / "open_clip_model.bin"
    checkpoints = {"before": weights}
    for texts in ("plain", "hard"):
        checkpoints[texts] = tmp_path / f"{texts}.pt"
        losses = finetune(
            tmp_path / "pairs.jsonl",
            tmp_path / "images",
            checkpoints[texts],
            texts=texts,
            model=f"tiny-finetuned@{weights}",
            epochs=30,
            batch_size=20,
            lr=3e-3,
        )
        assert losses[-1] < 0.75 * losses[0]
    # Checkpoints of training are models of the study, by architecture and file.
    precision = {}
    altered = {}
    for name, checkpoint in checkpoints.items():
        pairs = tmp_path / f"{name}.jsonl"
        options = ["--model", f"tiny-finetuned@{checkpoint}", "--images", tmp_path / "images"]
        options += ["--pairs", pairs, "--cache-dir", tmp_path / "cache"]
        options += ["--device", "cpu", "--negatives", "6", "--resamples", "0", "--json"]
        record = json.loads(study(*data, *options))
        rows = pd.DataFrame(record["tables"]["specificity"])
        precision[name] = rows.set_index("right texts")["vs altered captions"]
        scores = pd.read_json(pairs, lines=True).groupby("kind").score.mean()
        altered[name] = scores["altered"]
    assert altered["hard"] < altered["plain"] - 0.05
    for right in ("all labels", "one label"):
        assert precision["hard"][right] > precision["plain"][right] + 30
