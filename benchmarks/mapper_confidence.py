"""Fits the mapper's confidence, and prints what it is worth on trees that it was not fitted on.

    python benchmarks/mapper_confidence.py
    python benchmarks/mapper_confidence.py --encoder sentence:MODEL --write
    python benchmarks/mapper_confidence.py --trees trees/ --placed placed_fresh.jsonl placed_chatty.jsonl

The answers of `benchmarks/domains`, placed by hand, are placed by the default mapper. A logistic
model of the signals of each placement (`Mapper.signals`) learns which ones are acceptable: once per
tree without that tree's answers, which gives the figures, and once on all, which `--write` writes
into the package and `--placed` tries on other answers. How sure the stages are that only an encoder
reaches is fitted last, if there is one, and else stays what it was.

Risk at a coverage is the share of unacceptable placements among those that the confidence puts
first. Few answers look badly calibrated by chance alone: "by chance" is the calibration error that
the same confidences have if each is exactly right.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from taxtune.mapping import Mapper, Stage
from taxtune.mapping.confidence import COEFFICIENTS
from taxtune.mapping.config import DOUBTFUL
from taxtune.mapping.similarity import Similarity, make_similarity
from taxtune.metrics.confidence import COVERAGES, calibration_error, risk_at_coverage
from taxtune.taxonomy import Taxonomy, read_taxonomy

DOMAINS = Path(__file__).parent / "domains"
#: The stages that guess by similarity.
GUESSES = (Stage.SIMILARITY, Stage.VOTE)
#: The columns that are no signals.
KNOWN = ("file", "tree", "stage", "acceptable", "confidence")


def cases(files: list[Path], trees: list[Path]) -> Iterator[tuple[str, Taxonomy, pd.DataFrame]]:
    """Yields each tree's name, the tree, and its answers.

    The column `wanted` holds the nodes that are acceptable.
    """
    answers = pd.concat(
        [pd.read_json(file, lines=True).assign(file=file.stem) for file in files], ignore_index=True
    )
    for name, group in answers.groupby("tree", sort=False):
        taxonomy = read_taxonomy(
            next(folder / name for folder in trees if (folder / name).exists())
        )
        nodes = {taxonomy.path(v): v for v in range(len(taxonomy))}
        wanted = []
        for row in group.itertuples():
            paths = [
                path.split("/") if isinstance(path, str) else path for path in (row.node, *row.also)
            ]
            wanted.append(
                {nodes[tuple(path)] if isinstance(path, list) else taxonomy.root for path in paths}
            )
        yield name, taxonomy, group.assign(wanted=wanted)


def placed_rows(
    files: list[Path], trees: list[Path], similarity: str | Similarity = "lexical"
) -> pd.DataFrame:
    """Returns a row per answer: its file, tree and stage, whether its placement is acceptable, and the signals."""
    rows = []
    for name, taxonomy, group in cases(files, trees):
        mapper = Mapper(taxonomy, similarity)
        for row, placement in zip(
            group.itertuples(), mapper.place(list(group.answer)), strict=True
        ):
            known = {"file": row.file, "tree": name, "stage": str(placement.stage)}
            known["acceptable"] = placement.node in row.wanted
            rows.append(known | mapper.signals(placement))
    return pd.DataFrame(rows)


def fitted(rows: pd.DataFrame, signals: list[str]) -> dict[str, float]:
    """Returns the coefficient of each signal, and the intercept."""
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=5000))
    model.fit(rows[signals].to_numpy(), rows.acceptable)
    scaler = model[0]
    logistic = model[1]
    weights = logistic.coef_[0] / scaler.scale_
    intercept = float(logistic.intercept_[0] - weights @ scaler.mean_)
    return {"intercept": intercept} | dict(zip(signals, weights.tolist(), strict=True))


def logits(model: dict[str, float], rows: pd.DataFrame) -> pd.Series:
    """Returns the logit of each row under a model, to which signals that it never saw say nothing."""
    weights = pd.Series(model).drop("intercept")
    values = rows.reindex(columns=weights.index, fill_value=0.0)
    return model["intercept"] + values @ weights


def confidences(model: dict[str, float], rows: pd.DataFrame) -> pd.Series:
    """Returns the probability of each row under a model."""
    return expit(logits(model, rows))


def level(model: dict[str, float], rows: pd.DataFrame) -> float:
    """Returns the addend of the logits that makes the mean probability of rows their share of acceptable ones.

    That share is (k + 1) / (n + 2) for k of n, which is never 0 or 1.
    """
    before = logits(model, rows)
    share = (rows.acceptable.sum() + 1) / (len(rows) + 2)
    return float(brentq(lambda more: expit(before + more).mean() - share, -20, 20))


def tree_left_out(rows: pd.DataFrame, signals: list[str]) -> pd.Series:
    """Returns the probability of each row under the model that its tree's rows have no part in."""
    confidence = pd.Series(0.0, index=rows.index)
    for tree in rows.tree.unique():
        is_out = rows.tree == tree
        model = fitted(rows[~is_out], signals)
        confidence[is_out] = confidences(model, rows[is_out])
    return confidence


def by_chance(confidence: pd.Series, draws: int = 200) -> float:
    """Returns the mean calibration error if each placement is right as often as its confidence says."""
    rng = np.random.default_rng(0)
    is_right = rng.random((draws, len(confidence))) < confidence.to_numpy()
    return float(np.mean([calibration_error(confidence, right) for right in is_right]))


def figures(rows: pd.DataFrame) -> Iterator[str]:
    """Yields a table of Markdown with a row for all rows, each file and each stage."""
    parts = [("all", rows), *rows.groupby("file")]
    parts += [(f"stage {stage}", part) for stage, part in rows.groupby("stage")]
    coverages = " | ".join(f"risk at {coverage:.0%}" for coverage in COVERAGES)
    yield f"| | n | acceptable | confidence | AUROC | {coverages} | calibration error | by chance |"
    yield "|---|" + "---:|" * (6 + len(COVERAGES))
    for name, part in parts:
        sure = part.confidence
        right = part.acceptable
        auroc = roc_auc_score(right, sure) if right.nunique() > 1 else np.nan
        values = [right.mean(), sure.mean(), auroc, *risk_at_coverage(sure, right)]
        values += [calibration_error(sure, right), by_chance(sure)]
        yield f"| {name} | {len(part)} | " + " | ".join(f"{value:.3f}" for value in values) + " |"
    is_doubtful = rows.confidence < DOUBTFUL
    yield (
        f"Below {DOUBTFUL} are {is_doubtful.sum()} of {len(rows)}: of these "
        f"{1 - rows.acceptable[is_doubtful].mean():.3f} are not acceptable, "
        f"of the others {1 - rows.acceptable[~is_doubtful].mean():.3f}."
    )


def of_guesses(model: dict[str, float], rows: pd.DataFrame) -> dict[str, float]:
    """Returns the coefficient of each stage that rows have, and prints what it rests on."""
    coefficients = {}
    for stage, part in rows.groupby("stage"):
        coefficients[str(stage)] = level(model, part)
        print(f"Stage {stage}: {part.acceptable.mean():.3f} of {len(part)} are acceptable.")
    return coefficients


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--placed",
        type=Path,
        nargs="*",
        default=[],
        help="answers to try the model on, with the same columns",
    )
    parser.add_argument("--trees", type=Path, help="the folder of their trees")
    parser.add_argument(
        "--encoder", help="a similarity that reaches the stages that reading does not"
    )
    parser.add_argument(
        "--write", action="store_true", help="write the coefficients into the package"
    )
    args = parser.parse_args()
    trees = [DOMAINS / "trees", *([args.trees] if args.trees else [])]
    files = sorted(DOMAINS.glob("*.jsonl"))
    rows = placed_rows(files, trees).fillna(0.0)
    signals = [name for name in rows.columns if name not in KNOWN]
    rows["confidence"] = tree_left_out(rows, signals)
    print("Each tree left out:", "", *figures(rows), sep="\n")
    model = fitted(rows, signals)
    if args.placed:
        others = placed_rows(args.placed, trees).fillna(0.0)
        others["confidence"] = confidences(model, others)
        print("", "What was given:", "", *figures(others), sep="\n")
    missing = [stage for stage in GUESSES if stage not in model]
    if args.encoder:
        guessing = placed_rows(files, trees, make_similarity(args.encoder)).fillna(0.0)
        model |= of_guesses(model, guessing[guessing.stage.isin(missing)])
    else:
        coefficients = json.loads(COEFFICIENTS.read_text(encoding="utf-8"))
        model |= {stage: coefficients[stage] for stage in missing}
    model = {name: round(value, 3) for name, value in model.items()}
    print("", json.dumps(model, indent=1), sep="\n")
    if args.write:
        COEFFICIENTS.write_text(json.dumps(model, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
