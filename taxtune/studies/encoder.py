"""Which encoder places text best at which level of a tree, and what a recipe should use: paper 3, Appendix B.

Every text is placed with each encoder in two ways: on the node with the nearest name, which is the encoder's own merit,
and by taxtune's default mapper with the encoder as its similarity, which a recipe's `mapper.similarity` sets. And as in
paper 3 (Appendix B, Table 6) a leaf's name is classified as its ancestor at each level above, by the nearest name of
that level ("language only"). Everything works on one frame with a row per text, way of placing and encoder.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
import pandas as pd
from pydantic import model_validator
from typer import Option

from taxtune.errors import DataError
from taxtune.mapping import Mapper
from taxtune.metrics.statistics import bootstrap, hierarchical_sample, paired_bootstrap
from taxtune.options import ResamplesOption, SeedOption
from taxtune.report.output import StudyReport, Table
from taxtune.studies.level_texts import (
    HELD_OUT,
    Levels,
    held_out_texts,
    template_texts,
    tree_levels,
    without_names,
)
from taxtune.studies.output import both_trees_table, draw_curves, frame_table
from taxtune.studies.scorers import (
    AnnotatedAnswers,
    Scorer,
    make_scorers,
    nearest_nodes,
    read_annotated,
    split_name,
    tree_names,
)
from taxtune.studies.settings import ModelSettings, Recorded, TreeSettings, check_once
from taxtune.taxonomy import Domain, Taxonomy

__all__ = [
    "MAPPER",
    "NEAREST",
    "NO_EVIDENCE",
    "EncoderSettings",
    "compare_encoders",
    "place_all",
    "run",
]

#: The ways of placing.
NEAREST, MAPPER = "nearest name", "default mapper"
#: The verdict where no encoder beats every other one.
NO_EVIDENCE = "no evidence"

_ALL = "all"  # the row of all levels together
_LANGUAGE = "language only"
_NAMES = {"hf": "hF", "hp": "hP", "hr": "hR", "accuracy": "accuracy"}


class EncoderSettings(ModelSettings, TreeSettings):
    """Which encoders are compared, on which texts: see `taxtune study encoder --help`."""

    encoder: Annotated[
        tuple[str, ...],
        Option(
            "--encoder",
            "-e",
            metavar="[NAME=]SPEC",
            help="lexical, sentence:MODEL, clip:MODEL; repeatable.",
        ),
        Recorded("encoders"),
    ] = ("lexical",)
    answers: Annotated[
        Path | None,
        Option(metavar="FILE", help="Answers placed by people: CSV or JSONL with answer and node."),
    ] = None
    by: Annotated[Literal["auto", "rank", "depth"], Option(help="What a level is.")] = "auto"
    per_level: Annotated[int, Option(min=1, help="Number of nodes to draw at each level.")] = 200
    template: Annotated[
        tuple[str, ...],
        Option(help="Answer with {name} or {plural}; repeatable."),
        Recorded("templates"),
    ] = ("A: {name}.", "a photo of a {name}", "{plural}")
    metric: Annotated[
        Literal["hf", "hp", "hr", "accuracy"], Option(help="Metric to compare encoders by.")
    ] = "hf"
    resamples: ResamplesOption = 10_000
    seed: SeedOption = 0

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if not self.encoder:
            raise DataError("No encoder was given.", remedy="Give one with --encoder.")
        check_once("--template", self.template)
        return self


def run(settings: EncoderSettings) -> StudyReport:
    """Say which encoder places text best at which level, and what a recipe's mapper should use (paper 3, App. B).

    Raises:
        TaxtuneError: If the tree has nothing to draw, there is no such similarity, or its model cannot be loaded.
    """
    taxonomy, part = settings.read_tree()
    answers = None if settings.answers is None else read_annotated(settings.answers, taxonomy, part)
    return compare_encoders(taxonomy, settings, answers, part)


# -- placing ----------------------------------------------------------------------------------------------------------


def place_all(
    taxonomy: Taxonomy, settings: EncoderSettings, answers: AnnotatedAnswers | None = None
) -> tuple[pd.DataFrame, Levels, dict[str, str], list[str]]:
    """Draws the texts and places them with every encoder.

    Returns:
        A frame with a row per text, way and encoder: kind, way, level, text, target, classes (for "language only", how
        many nodes there were to choose from), encoder, node. Then the levels, each encoder's name and specification,
        and notes.

    Raises:
        TaxtuneError: If the tree has nothing to draw, or an encoder needs images, does not exist or cannot be loaded.
    """
    if len(taxonomy) == 1:
        raise DataError("The taxonomy has only a root.", file=taxonomy.source)
    levels = tree_levels(taxonomy, settings.by)
    drawing, choosing, leafing = np.random.default_rng(settings.seed).spawn(3)
    held_out, hidden, notes = held_out_texts(taxonomy, levels, settings.per_level, drawing)
    named, more = template_texts(taxonomy, levels, settings.template, settings.per_level, choosing)
    tasks = language_tasks(taxonomy, levels, settings.per_level, leafing)
    sets, notes = [held_out, named], notes + more
    if answers is not None:
        placed = answers.frame[["answer", "target"]].rename(columns={"answer": "text"})
        sets.append(placed.assign(kind="placed answers"))
        notes += answers.notes
    texts = pd.concat(sets, ignore_index=True)
    if texts.empty:
        raise DataError("There are no texts to place.", remedy="Give a --template, or --answers.")
    texts["level"] = texts["target"].map(levels.of)
    # All encoders are made before the first works for minutes: one may not exist.
    if camera := next(
        (spec for spec in settings.encoder if split_name(spec)[1].startswith("clip-i2t:")), None
    ):
        raise DataError("The encoder needs images, but the texts have none.", value=camera)
    scorers = make_scorers(settings.encoder, tree_names(taxonomy), settings, measures=False)
    reduced, parts = without_names(taxonomy, hidden), []
    for scorer in scorers:
        language = _classified(taxonomy, scorer, tasks, levels, settings.seed)
        whole = _placed(taxonomy, scorer, texts[texts["kind"] != HELD_OUT])
        # The encoder must not know the names that were taken off: lexical weighs n-grams by all names it has seen.
        kept = tree_names(reduced)
        scorer.similarity.fit(kept.vocabulary)
        part = _placed(reduced, scorer._replace(names=kept), texts[texts["kind"] == HELD_OUT])
        parts.append(pd.concat([part, whole, language]).assign(encoder=scorer.name))
    frame = pd.concat(parts, ignore_index=True).astype({"node": np.int64, "target": np.int64})
    frame = frame.sort_values("kind", key=lambda kind: pd.factorize(kind)[0], kind="stable")
    return frame, levels, {scorer.name: scorer.spec for scorer in scorers}, notes


def _placed(taxonomy: Taxonomy, scorer: Scorer, texts: pd.DataFrame) -> pd.DataFrame:
    """The texts with their node, once per way; a blank text's nearest node is the root."""
    mapper = Mapper(taxonomy, scorer.similarity)
    nodes: dict[str, tuple[int, int]] = {}
    for batch, table in scorer.tables(sorted(texts["text"].unique())):
        nearest, _ = nearest_nodes(taxonomy, table)
        for text, row, node in zip(batch, table, nearest.tolist(), strict=True):
            nodes[text] = (
                node if any(map(str.isalnum, text)) else taxonomy.root,
                mapper.place_scored(text, row).node,
            )
    ways = [
        texts.assign(way=way, node=[nodes[t][i] for t in texts["text"]])
        for i, way in enumerate((NEAREST, MAPPER))
    ]
    return pd.concat(ways)


def language_tasks(
    taxonomy: Taxonomy, levels: Levels, per_level: int, rng: np.random.Generator
) -> pd.DataFrame:
    """Draws leaves, to be classified as their ancestor of each level, by common name and by label.

    Returns:
        A row per leaf's name and level: kind, way ("common name" or "label"), level, text, target (the ancestor),
        classes (how many nodes the level has). A level with a single node is left out: there is nothing to choose.
    """
    leaves = taxonomy.leaves
    if len(leaves) > per_level:
        leaves = np.sort(rng.choice(leaves, size=per_level, replace=False))
    named = [len(taxonomy.names(v)) > 1 for v in range(len(taxonomy))]
    sizes = levels.of.value_counts()
    rows: list[tuple[Any, ...]] = []
    for way in ("common name", "label") if any(named) else ("label",):
        for level in levels.names:
            for leaf in leaves.tolist() if sizes[level] > 1 else ():
                above = [v for v in taxonomy.ancestors(leaf)[:-1].tolist() if levels.of[v] == level]
                if above and (way == "label" or named[leaf]):
                    text = taxonomy.labels[leaf] if way == "label" else taxonomy.common_name(leaf)
                    rows.append((_LANGUAGE, way, level, text, above[-1], int(sizes[level])))
    return pd.DataFrame(rows, columns=["kind", "way", "level", "text", "target", "classes"])


def _classified(
    taxonomy: Taxonomy, scorer: Scorer, tasks: pd.DataFrame, levels: Levels, seed: int
) -> pd.DataFrame:
    """The tasks with the node of their level whose name is the most similar.

    Of equally similar ones one is drawn: the first would often be the largest, whose gain would be nobody's merit.
    """
    rng = np.random.default_rng(seed)
    keys = list(tasks[["way", "level"]].drop_duplicates().itertuples(index=False, name=None))
    classes = {level: np.array(levels.nodes(level)) for _, level in keys}
    chosen: dict[tuple[str, str, str], int] = {}
    for batch, table in scorer.tables(sorted(tasks["text"].unique())):
        for way, level in keys:
            best, _ = nearest_nodes(taxonomy, table[:, classes[level]], ties="random", rng=rng)
            chosen.update(
                zip(
                    ((way, level, text) for text in batch),
                    classes[level][best].tolist(),
                    strict=True,
                )
            )
    return tasks.assign(
        node=[
            chosen[key]
            for key in tasks[["way", "level", "text"]].itertuples(index=False, name=None)
        ]
    )


# -- the report -------------------------------------------------------------------------------------------------------


def compare_encoders(
    taxonomy: Taxonomy,
    settings: EncoderSettings,
    answers: AnnotatedAnswers | None = None,
    part: Domain | None = None,
) -> StudyReport:
    """Places texts of every level with every encoder and returns the report; errors as `place_all`.

    With `part`, what the tree is a part of, the scores on the whole are added.
    """
    placed, levels, encoders, notes = place_all(taxonomy, settings, answers)
    order = ["root", *levels.names]
    scores, differences, verdicts = _scores(taxonomy, placed, order, settings)
    own, language = scores[scores["kind"] != _LANGUAGE], scores[scores["kind"] == _LANGUAGE]
    choice, reason = _recommendation(verdicts, encoders, settings.metric)
    tables = [_verdicts_table(verdicts, order, settings)]
    tables += [
        _kind_table(f"encoder-{i}", kind, own) for i, kind in enumerate(own["kind"].unique(), 1)
    ]
    if part is not None:
        by = placed[placed["kind"] != _LANGUAGE].groupby(["kind", "way", "encoder"], sort=False)
        rows = {
            f"{kind} ({way}, {e})": (some["node"], some["target"]) for (kind, way, e), some in by
        }
        tables.append(both_trees_table(part, rows, "text (placed by, encoder)"))
    tables.append(_kind_table("encoder-language", _LANGUAGE, language))
    figures = {"encoder-levels": partial(draw_curves, _drawn(own, "hf", order), "hF")}
    if len(language):
        figures["encoder-language"] = partial(
            draw_curves, _drawn(language, "accuracy", order), "accuracy"
        )
    return StudyReport(
        study="encoder",
        title="Which encoder places text best at each level of the taxonomy",
        settings={
            **settings.record(),
            "taxonomy": taxonomy.source,
            "root": None if part is None else "/".join(part.full.path(part.root)),
            "levels": levels.names,
            "level": levels.by,
            "confidence_level": 0.95,
        },
        tables=tuple(table for table in tables if table.rows),
        figures=figures,
        notes=(*notes, reason),
        data={
            "excluded": [] if answers is None else list(answers.excluded),
            "recommendation": {"similarity": choice, "reason": reason},
            "scores": scores.to_dict("records"),
            "differences": differences.to_dict("records"),
        },
    )


def _scores(
    taxonomy: Taxonomy, placed: pd.DataFrame, order: Sequence[str], settings: EncoderSettings
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Scores every encoder and every pair on each kind of text, way of placing and level.

    The intervals of the differences are widened (Bonferroni) so that those of all levels of a kind and way and of all
    pairs of encoders hold together with the confidence asked for.

    Returns:
        Scores (kind, way, level, n, classes, largest: the share of the most frequent target, encoder, metric, estimate,
        low, high), differences (kind, way, level, first, second, metric, difference, low, high, p_value), and verdicts
        (kind, way, level, best: an encoder, or `NO_EVIDENCE`).
    """
    scores: list[dict[str, Any]] = []
    differences: list[dict[str, Any]] = []
    verdicts: list[dict[str, Any]] = []
    draws: dict[str, Any] = {"resamples": settings.resamples, "seed": settings.seed}
    encoders = list(placed["encoder"].unique())
    pairs = list(itertools.combinations(encoders, 2))
    for (kind, way), group in placed.groupby(["kind", "way"], sort=False):
        language = kind == _LANGUAGE
        levels = [level for level in order if (group["level"] == level).any()] + (
            [] if language else [_ALL]
        )
        alpha = (1 - 0.95) / max(1, len(levels) * len(pairs))
        metric = "accuracy" if language else settings.metric
        for level in levels:
            here = dict(list(group[(group["level"] == level) | (level == _ALL)].groupby("encoder")))
            about, targets = {"kind": kind, "way": way, "level": level}, here[encoders[0]]["target"]
            samples = {e: hierarchical_sample(taxonomy, here[e]["node"], targets) for e in encoders}
            largest = float(targets.value_counts(normalize=True).max()) if language else None
            size = {
                "n": len(targets),
                "classes": here[encoders[0]]["classes"].iloc[0],
                "largest": largest,
            }
            for e in encoders:
                metrics = bootstrap(samples[e], **draws)
                scores += [
                    {**about, **size, "encoder": e, "metric": m, **asdict(one)}
                    for m, one in metrics.items()
                ]
            wins: Counter[str] = Counter()
            for a, b in pairs:
                paired = paired_bootstrap((samples[a], samples[b]), confidence=1 - alpha, **draws)
                differences += [
                    {**about, "first": a, "second": b, "metric": m, **asdict(d)}
                    for m, d in paired.items()
                ]
                wins[a if paired[metric].difference > 0 else b] += paired[metric].p_value < alpha
            best = (e for e in encoders if pairs and wins[e] == len(encoders) - 1)
            verdicts.append({**about, "best": next(best, NO_EVIDENCE)})
    return pd.DataFrame(scores), pd.DataFrame(differences), pd.DataFrame(verdicts)


def _recommendation(
    verdicts: pd.DataFrame, encoders: Mapping[str, str], metric: str
) -> tuple[str | None, str]:
    """The similarity that a recipe should use, or None, and why: one similarity serves all levels in the mapper."""
    if len(encoders) < 2:
        return None, "There is only one encoder; add another with --encoder to compare."
    overall = verdicts[(verdicts["way"] == MAPPER) & (verdicts["level"] == _ALL)].set_index("kind")[
        "best"
    ]
    winners = overall[overall != NO_EVIDENCE]
    if winners.empty:
        return None, "For a recipe: no evidence that the mapper's similarity matters on this tree."
    by_kind = "; ".join(f"{best} on {kind}" for kind, best in winners.items())
    if winners.nunique() > 1:
        return (
            None,
            f"For a recipe: the kinds of text disagree ({by_kind}); choose the kind most like your answers.",
        )
    return encoders[
        winners.iloc[0]
    ], f"For a recipe, higher {_NAMES[metric]} over all levels: {by_kind}."


def _drawn(scores: pd.DataFrame, metric: str, order: Sequence[str]) -> pd.DataFrame:
    """One metric by level, as `draw_curves` takes it; "language only" with the share of the most frequent class."""
    shown = scores[(scores["metric"] == metric) & scores["level"].isin(order)].rename(
        columns={"encoder": "series"}
    )
    largest = shown.dropna(subset="largest").drop_duplicates(["way", "level"])
    share = pd.DataFrame(
        {**largest, "series": "always the most frequent class", "estimate": largest["largest"]}
    )
    shown = pd.concat([shown, share.assign(low=np.nan, high=np.nan)], ignore_index=True)
    shown = shown.sort_values("level", key=lambda level: level.map(order.index), kind="stable")
    return shown.rename(columns={"kind": "panel", "level": "x"})


# -- tables -----------------------------------------------------------------------------------------------------------


def _verdicts_table(
    verdicts: pd.DataFrame, order: Sequence[str], settings: EncoderSettings
) -> Table:
    heads = pd.MultiIndex.from_frame(verdicts[["kind", "way"]].drop_duplicates())
    wide = verdicts.pivot(index=["kind", "way"], columns="level", values="best").reindex(heads)
    wide = wide[[level for level in (*order, _ALL) if level in wide]].reset_index()
    return frame_table(
        "encoder",
        "Which encoder is better, and where there is evidence",
        wide.rename(columns={"kind": "text", "way": "placed by"}),
        f"An encoder is named if its {_NAMES[settings.metric]} (language only: accuracy) is higher than that of "
        "every other encoder and the interval of the paired difference excludes 0; the intervals of a row hold "
        "jointly with 95 % confidence.",
    )


def _kind_table(name: str, kind: str, scores: pd.DataFrame) -> Table:
    language = kind == _LANGUAGE
    keys = ["way", "level", "n", *(["classes", "largest"] if language else []), "encoder"]
    some = scores[scores["kind"] == kind]
    wide = some.pivot(index=keys, columns="metric", values=["estimate", "low", "high"])
    ends = {"estimate": "", "low": " low", "high": " high"}
    cells = {
        f"{shown}{end}": wide[value, metric]
        for metric, shown in _NAMES.items()
        for value, end in ends.items()
    }
    table = (
        pd.DataFrame(cells)
        .reindex(pd.MultiIndex.from_frame(some[keys].drop_duplicates()))
        .reset_index()
    )
    if not language:
        return frame_table(name, f"Text: {kind}", table.rename(columns={"way": "placed by"}))
    return frame_table(
        name,
        "Language only: a leaf's name to its ancestor at each level, top-1 (paper 3, Appendix B)",
        table.rename(columns={"way": "leaf's name"}).astype({"classes": int}),
        "largest: the accuracy of always answering the most frequent class.",
    )
