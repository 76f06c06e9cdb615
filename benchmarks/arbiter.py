"""Fits the mapper's confidence, and prints what it is worth on trees that it was not fitted on.

    python benchmarks/arbiter.py
    python benchmarks/arbiter.py --trees trees/ --placed placed_fresh.jsonl placed_chatty.jsonl --write

The answers of `benchmarks/domains`, placed by hand, are placed by the default mapper. A logistic
model of the signals of each placement (`Mapper.signals`) learns which ones are acceptable: once per
tree without that tree's answers, which gives the figures, and once on all, which `--write` writes
into the package and `--placed` tries on other answers. Risk at a coverage is the share of
unacceptable placements among those that the confidence puts first.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from taxtune.mapping import Mapper
from taxtune.mapping.confidence import COEFFICIENTS
from taxtune.metrics.confidence import COVERAGES, calibration_error, risk_at_coverage
from taxtune.taxonomy import Taxonomy, read_taxonomy

DOMAINS = Path(__file__).parent / "domains"


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


def placed_rows(files: list[Path], trees: list[Path]) -> pd.DataFrame:
    """Returns a row per answer: its file, tree, whether its placement is acceptable, and the signals."""
    rows = []
    for name, taxonomy, group in cases(files, trees):
        mapper = Mapper(taxonomy)
        for row, placement in zip(
            group.itertuples(), mapper.place(list(group.answer)), strict=True
        ):
            known = {"file": row.file, "tree": name, "acceptable": placement.node in row.wanted}
            rows.append(known | mapper.signals(placement))
    return pd.DataFrame(rows).fillna(0.0)


def fitted(rows: pd.DataFrame, signals: list[str]) -> dict[str, float]:
    """Returns the coefficient of each signal, and the intercept."""
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.3, max_iter=5000))
    model.fit(rows[signals].to_numpy(), rows.acceptable)
    scaler = model[0]
    logistic = model[1]
    weights = logistic.coef_[0] / scaler.scale_
    intercept = float(logistic.intercept_[0] - weights @ scaler.mean_)
    return {"intercept": intercept} | dict(zip(signals, weights.tolist(), strict=True))


def confidences(model: dict[str, float], rows: pd.DataFrame) -> pd.Series:
    """Returns the probability of each row under a model, to which signals that it never saw say nothing."""
    weights = pd.Series(model).drop("intercept")
    logits = model["intercept"] + rows.reindex(columns=weights.index, fill_value=0.0) @ weights
    return 1 / (1 + np.exp(-logits))


def show(name: str, rows: pd.DataFrame) -> None:
    """Prints the risk at each coverage and the calibration error in ten bins of the same size."""
    risks = risk_at_coverage(rows.confidence, rows.acceptable)
    error = calibration_error(rows.confidence, rows.acceptable)
    print(f"{name:24s} n {len(rows):4d} ", *(f"{risk:.3f}" for risk in risks), f"| {error:.3f}")


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
        "--write", action="store_true", help="write the coefficients into the package"
    )
    args = parser.parse_args()
    trees = [DOMAINS / "trees", *([args.trees] if args.trees else [])]
    rows = placed_rows(sorted(DOMAINS.glob("*.jsonl")), trees)
    signals = [name for name in rows.columns if name not in ("file", "tree", "acceptable")]
    for tree in rows.tree.unique():
        left_out = rows.tree == tree
        rows.loc[left_out, "confidence"] = confidences(
            fitted(rows[~left_out], signals), rows[left_out]
        )
    model = {name: round(value, 3) for name, value in fitted(rows, signals).items()}
    print("risk at coverage", *(f"{c:.0%}" for c in COVERAGES), "| calibration error")
    for name, part in [*rows.groupby("file"), ("all, tree left out", rows)]:
        show(str(name), part)
    if args.placed:
        others = placed_rows(args.placed, trees)
        others["confidence"] = confidences(model, others)
        for name, part in [*others.groupby("file"), ("all that were given", others)]:
            show(str(name), part)
    print(json.dumps(model, indent=1))
    if args.write:
        COEFFICIENTS.write_text(json.dumps(model, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
