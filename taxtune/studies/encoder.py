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
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
import pandas as pd
from pydantic import model_validator
from typer import Option

from taxtune.errors import DataError
from taxtune.mapping import Mapper
from taxtune.options import ResamplesOption, SeedOption
from taxtune.report.output import StudyReport, Table
from taxtune.studies.frames import groups, records, sorted_by
from taxtune.studies.level_texts import (
    HELD_OUT,
    Levels,
    held_out_texts,
    template_texts,
    tree_levels,
    without_names,
)
from taxtune.studies.output import both_trees_table, draw_curves, frame_table, part_path
from taxtune.studies.placements import PlacementScorer, wide_intervals
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
# The columns of the report's JSON.
_ABOUT = ["kind", "way", "level"]
_SCORES = [*_ABOUT, "n", "classes", "largest", "encoder", "metric", "estimate", "low", "high"]
_DIFFERENCES = [*_ABOUT, "first", "second", "metric", "difference", "low", "high", "p_value"]
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
    answers = None
    if settings.answers is not None:
        answers = read_annotated(settings.answers, taxonomy, part)
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
    named, template_notes = template_texts(
        taxonomy, levels, settings.template, settings.per_level, choosing
    )
    notes += template_notes
    tasks = language_tasks(taxonomy, levels, settings.per_level, leafing)
    sets = [held_out, named]
    if answers is not None:
        placed = answers.frame[["target"]].assign(kind="placed answers")
        placed["text"] = answers.frame["answer"]
        sets.append(placed)
        notes += answers.notes
    texts = pd.concat(sets, ignore_index=True)
    if texts.empty:
        raise DataError("There are no texts to place.", remedy="Give a --template, or --answers.")
    texts["level"] = texts["target"].map(levels.of)
    is_held_out = texts["kind"] == HELD_OUT
    held_out, others = texts[is_held_out], texts[~is_held_out]
    # All encoders are made before the first works for minutes: one may not exist.
    for spec in settings.encoder:
        if split_name(spec)[1].startswith("clip-i2t:"):
            raise DataError("The encoder needs images, but the texts have none.", value=spec)
    scorers = make_scorers(settings.encoder, tree_names(taxonomy), settings, measures=False)
    reduced = without_names(taxonomy, hidden)
    kept = tree_names(reduced)
    parts = {}
    for scorer in scorers:
        language = _classified(taxonomy, scorer, tasks, levels, settings.seed)
        whole = _placed(taxonomy, scorer, others)
        # The encoder must not know the names that were taken off: lexical weighs n-grams by all names it has seen.
        scorer.similarity.fit(kept.vocabulary)
        part = _placed(reduced, scorer._replace(names=kept), held_out)
        parts[scorer.name] = pd.concat([part, whole, language], ignore_index=True)
    frame = pd.concat(parts, names=["encoder", "row"]).reset_index("encoder")
    frame = frame.astype({"node": np.int64, "target": np.int64})
    frame = sorted_by(frame, "kind", frame["kind"].unique())
    specs = {scorer.name: scorer.spec for scorer in scorers}
    return frame, levels, specs, notes


def _placed(taxonomy: Taxonomy, scorer: Scorer, texts: pd.DataFrame) -> pd.DataFrame:
    """Returns the texts with their node, once per way; a blank text's nearest node is the root."""
    mapper = Mapper(taxonomy, scorer.similarity)
    rows = []
    for batch, table in scorer.tables(sorted(texts["text"].unique())):
        nodes, _ = nearest_nodes(taxonomy, table)
        for text, row, nearest in zip(batch, table, nodes.tolist(), strict=True):
            if not any(map(str.isalnum, text)):
                nearest = taxonomy.root
            placement = mapper.place_scored(text, row)
            rows.append((text, nearest, placement.node))
    by_text = pd.DataFrame(rows, columns=["text", NEAREST, MAPPER])
    placed = texts.merge(by_text, how="left", on="text")
    return placed.melt(list(texts), [NEAREST, MAPPER], var_name="way", value_name="node")


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
    pairs = []
    for leaf in leaves.tolist():
        pairs += [(leaf, node) for node in taxonomy.ancestors(leaf)[:-1].tolist()]
    tasks = pd.DataFrame(pairs, columns=["leaf", "target"])
    tasks["level"] = tasks["target"].map(levels.of)
    tasks["classes"] = tasks["level"].map(levels.of.value_counts())
    is_choice = tasks["level"].isin(levels.names) & (tasks["classes"] > 1)
    tasks = tasks[is_choice]
    # Of two ancestors on one level the lower one counts.
    tasks = tasks.drop_duplicates(["leaf", "level"], keep="last")
    tasks = sorted_by(tasks, "level", levels.names)
    nameless = [leaf for leaf in leaves if len(taxonomy.names(leaf)) == 1]
    named = tasks[~tasks["leaf"].isin(nameless)].assign(way="common name")
    named["text"] = named["leaf"].map(taxonomy.common_name)
    labelled = tasks.assign(way="label")
    labelled["text"] = labelled["leaf"].map(taxonomy.labels.__getitem__)
    both = pd.concat([named, labelled], ignore_index=True)
    both["kind"] = _LANGUAGE
    return both[["kind", "way", "level", "text", "target", "classes"]]


def _classified(
    taxonomy: Taxonomy, scorer: Scorer, tasks: pd.DataFrame, levels: Levels, seed: int
) -> pd.DataFrame:
    """Returns the tasks with the node of their level whose name is the most similar.

    Of equally similar ones one is drawn: the first would often be the largest, whose gain would be nobody's merit.
    """
    rng = np.random.default_rng(seed)
    by_level = groups(tasks, ["way", "level"])
    chosen: dict[tuple[str, str, str], int] = {}
    for batch, table in scorer.tables(sorted(tasks["text"].unique())):
        for way, level in by_level:
            classes = np.array(levels.nodes(level))
            best, _ = nearest_nodes(taxonomy, table[:, classes], ties="random", rng=rng)
            for text, node in zip(batch, classes[best].tolist(), strict=True):
                chosen[way, level, text] = node
    keys = zip(tasks["way"], tasks["level"], tasks["text"], strict=True)
    return tasks.assign(node=[chosen[key] for key in keys])


# -- the report -------------------------------------------------------------------------------------------------------


def compare_encoders(
    taxonomy: Taxonomy,
    settings: EncoderSettings,
    answers: AnnotatedAnswers | None = None,
    part: Domain | None = None,
) -> StudyReport:
    """Places texts of every level with every encoder and returns the report; errors as `place_all`.

    With `part`, the domain that the tree is, the scores on the whole taxonomy are added.
    """
    placed, levels, encoders, notes = place_all(taxonomy, settings, answers)
    order = ["root", *levels.names]
    scores, differences, verdicts = _scores(taxonomy, placed, order, settings)
    is_language = scores["kind"] == _LANGUAGE
    own = scores[~is_language]
    language = scores[is_language]
    choice, reason = _recommendation(verdicts, encoders, settings.metric)
    tables = [_verdicts_table(verdicts, order, settings.metric)]
    for i, (kind, of_kind) in enumerate(groups(own, "kind").items(), 1):
        tables.append(_kind_table(f"encoder-{i}", kind, of_kind))
    if part is not None:
        tables.append(_both_trees(part, placed))
    curves = _drawn(own, "hf", order)
    figures = {"encoder-levels": partial(draw_curves, curves, "hF")}
    if len(language):
        tables.append(_language_table(language))
        accuracies = _drawn(language, "accuracy", order)
        figures["encoder-language"] = partial(draw_curves, accuracies, "accuracy")
    record = settings.record()
    record["root"] = part_path(part)
    record["levels"] = levels.names
    record["level"] = levels.by
    record["confidence_level"] = 0.95
    recommendation = {"similarity": choice, "reason": reason}
    excluded = [] if answers is None else list(answers.excluded)
    data: dict[str, Any] = {"excluded": excluded, "recommendation": recommendation}
    data["scores"] = records(scores)
    data["differences"] = differences
    shown = [table for table in tables if table.rows]
    return StudyReport(
        study="encoder",
        title="Which encoder places text best at each level of the taxonomy",
        settings=record,
        tables=tuple(shown),
        figures=figures,
        notes=(*notes, reason),
        data=data,
    )


def _scores(
    taxonomy: Taxonomy, placed: pd.DataFrame, order: Sequence[str], settings: EncoderSettings
) -> tuple[pd.DataFrame, list[dict[str, Any]], pd.DataFrame]:
    """Scores every encoder and every pair on each kind of text, way of placing and level.

    The intervals of the differences are widened (Bonferroni) so that those of all levels of a kind and way and of all
    pairs of encoders hold together with the confidence asked for.

    Returns:
        Scores (kind, way, level, n, classes, largest: the share of the most frequent target, encoder, metric, estimate,
        low, high), differences (kind, way, level, first, second, metric, difference, low, high, p_value), and verdicts
        (kind, way, level, best: an encoder, or `NO_EVIDENCE`).
    """
    scorer = PlacementScorer(taxonomy, settings.resamples, settings.seed)
    scores: list[pd.DataFrame] = []
    differences: list[dict[str, Any]] = []
    verdicts: list[dict[str, Any]] = []
    pairs = list(itertools.combinations(placed["encoder"].unique(), 2))
    for (kind, way), group in groups(placed, ["kind", "way"]).items():
        is_language = kind == _LANGUAGE
        by_level = groups(group, "level")
        levels = {level: by_level[level] for level in order if level in by_level}
        if not is_language:
            levels[_ALL] = group
        comparisons = max(1, len(levels) * len(pairs))
        alpha = (1 - 0.95) / comparisons
        metric = "accuracy" if is_language else settings.metric
        for level, texts in levels.items():
            about = {"kind": kind, "way": way, "level": level}
            encoders = groups(texts, "encoder")
            level_scores = _level_scores(scorer, texts, is_language)
            scores.append(level_scores.assign(**about))
            wins: Counter[str] = Counter()
            for first, second in pairs:
                changes = scorer.differences(encoders[first], encoders[second], 1 - alpha)
                pair = about | {"first": first, "second": second}
                rows = changes.reset_index(names="metric").assign(**pair)
                differences += records(rows[_DIFFERENCES])
                if changes["p_value"][metric] < alpha:
                    wins[first if changes["difference"][metric] > 0 else second] += 1
            best = NO_EVIDENCE
            for name, count in wins.items():
                if count == len(encoders) - 1:
                    best = name
            verdicts.append(about | {"best": best})
    all_scores = pd.concat(scores, ignore_index=True)[_SCORES]
    return all_scores, differences, pd.DataFrame(verdicts)


def _level_scores(scorer: PlacementScorer, texts: pd.DataFrame, is_language: bool) -> pd.DataFrame:
    """Returns the scores of each encoder on the same texts, and how many texts and classes there are."""
    scores = scorer.scores(texts, ["encoder"])
    first = texts[texts["encoder"] == texts["encoder"].iloc[0]]
    scores["n"] = len(first)
    scores["classes"] = first["classes"].iloc[0]
    frequencies = first["target"].value_counts(normalize=True)
    scores["largest"] = frequencies.max() if is_language else None
    return scores


def _recommendation(
    verdicts: pd.DataFrame, encoders: Mapping[str, str], metric: str
) -> tuple[str | None, str]:
    """Returns the similarity that a recipe should use, or None, and why; one similarity serves all levels."""
    if len(encoders) < 2:
        return None, "There is only one encoder; add another with --encoder to compare."
    is_overall = (verdicts["way"] == MAPPER) & (verdicts["level"] == _ALL)
    winners = verdicts[is_overall & (verdicts["best"] != NO_EVIDENCE)]
    if winners.empty:
        return None, "For a recipe: no evidence that the mapper's similarity matters on this tree."
    by_kind = "; ".join(winners["best"] + " on " + winners["kind"])
    if winners["best"].nunique() > 1:
        choose = "choose the kind most like your answers."
        return None, f"For a recipe: the kinds of text disagree ({by_kind}); {choose}"
    reason = f"For a recipe, higher {_NAMES[metric]} over all levels: {by_kind}."
    return encoders[winners["best"].iloc[0]], reason


def _drawn(scores: pd.DataFrame, metric: str, order: Sequence[str]) -> pd.DataFrame:
    """Returns one metric by level, as `draw_curves` takes it.

    "language only" comes with the share of the most frequent class.
    """
    is_shown = (scores["metric"] == metric) & scores["level"].isin(order)
    shown = scores[is_shown].rename(columns={"encoder": "series"})
    share = shown.dropna(subset="largest").drop_duplicates(["way", "level"])
    share = share.assign(series="always the most frequent class", estimate=share["largest"])
    share[["low", "high"]] = np.nan
    drawn = pd.concat([shown, share], ignore_index=True)
    drawn = sorted_by(drawn, "level", order)
    return drawn.rename(columns={"kind": "panel", "level": "x"})


# -- tables -----------------------------------------------------------------------------------------------------------


def _verdicts_table(verdicts: pd.DataFrame, order: Sequence[str], metric: str) -> Table:
    by_level = verdicts.set_index(["kind", "way", "level"])["best"]
    wide = by_level.unstack(sort=False)
    wide.index.names = ["text", "placed by"]
    levels = [level for level in (*order, _ALL) if level in wide]
    return frame_table(
        "encoder",
        "Which encoder is better, and where there is evidence",
        wide[levels].reset_index(),
        f"An encoder is named if its {_NAMES[metric]} (language only: accuracy) is higher than that of every other "
        "encoder and the interval of the paired difference excludes 0; the intervals of a row hold jointly with 95 % "
        "confidence.",
    )


def _kind_table(name: str, kind: str, scores: pd.DataFrame) -> Table:
    keys = ["way", "level", "n", "encoder"]
    cells = wide_intervals(scores, keys, _NAMES).reset_index()
    return frame_table(name, f"Text: {kind}", cells.rename(columns={"way": "placed by"}))


def _language_table(scores: pd.DataFrame) -> Table:
    keys = ["way", "level", "n", "classes", "largest", "encoder"]
    cells = wide_intervals(scores, keys, _NAMES).reset_index()
    cells = cells.rename(columns={"way": "leaf's name"})
    cells["classes"] = cells["classes"].astype(int)
    title = (
        "Language only: a leaf's name to its ancestor at each level, top-1 (paper 3, Appendix B)"
    )
    note = "largest: the accuracy of always answering the most frequent class."
    return frame_table("encoder-language", title, cells, note)


def _both_trees(part: Domain, placed: pd.DataFrame) -> Table:
    """Returns hP, hR and hF on both trees by kind of text, way and encoder."""
    name = "text (placed by, encoder)"
    own = placed[placed["kind"] != _LANGUAGE].copy()
    placed_by = own["way"] + ", " + own["encoder"]
    own[name] = own["kind"] + " (" + placed_by + ")"
    return both_trees_table(part, own, name)
