"""How well text similarity measures place answers, alone and with Algorithm 1 (paper 1, §6.1, Table 2, Figure 4).

Every measure maps an answer to the node whose name it finds most similar ("alone"); every measure is put into the
paper's listing as its similarity ("Algorithm 1"); and taxtune's own mapper stands beside them ("default"). People have
placed the answers, so the node of each is known. Measures compare normalised answers with normalised names (§6); the
default mapper reads the answer as it is. Everything works on one frame with a row per mapper and answer.
"""

from __future__ import annotations

import itertools
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from typer import Argument, Option

from taxtune.mapping import Mapper, MapperConfig
from taxtune.mapping.normalize import plain_or_raw
from taxtune.metrics.confidence import COVERAGES, calibration_error, risk_at_coverage
from taxtune.metrics.hierarchical import precision_recall
from taxtune.metrics.statistics import percentiles
from taxtune.options import ResamplesOption, SeedOption
from taxtune.report.output import StudyReport, Table
from taxtune.studies.contestants import place_distinct
from taxtune.studies.frames import groups, records
from taxtune.studies.output import both_trees_table, draw_dots, frame_table, node_paths, part_path
from taxtune.studies.placements import PlacementScorer, wide_intervals
from taxtune.studies.scorers import (
    UNPLACED,
    AnnotatedAnswers,
    Scorer,
    make_scorers,
    nearest_nodes,
    read_annotated,
    split_name,
    tree_names,
)
from taxtune.studies.settings import BatchSize, ModelSettings, TreeSettings
from taxtune.taxonomy import Domain, Taxonomy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ALGORITHM", "ALONE", "DEFAULT", "MappingSettings", "mapping_report", "place_all", "run"]

FloatArray = NDArray[np.float64]

#: The ways of placing: the nearest name, the paper's listing, taxtune's default mapper.
ALONE, ALGORITHM, DEFAULT = "alone", "Algorithm 1", "default"
# The scores with intervals, as they are printed.
_SHOWN = {"hp": "hP", "hr": "hR", "hf": "hF", "accuracy": "accuracy", "acceptable": "acceptable"}


class MappingSettings(ModelSettings, TreeSettings):
    """The placed answers and the measures: see `taxtune study mapping --help`."""

    rows_in_json: ClassVar[bool] = True

    file: Annotated[
        Path,
        Argument(
            metavar="FILE",
            help="Answers placed by people: answer, node and, if known, also and style.",
        ),
    ]
    measure: Annotated[
        tuple[str, ...],
        Option("--measure", "-m", metavar="[NAME=]SPEC", help="A measure or lexical; repeatable."),
    ] = ("exact-match", "contained", "bleu-2", "rouge-1", "meteor", "lexical")
    similarity: Annotated[str, Option(metavar="SPEC", help="Similarity of the default mapper.")] = (
        "lexical"
    )
    names: Annotated[
        Literal["all", "common"],
        Option(help="Names that a measure compares with: all, or the common one."),
    ] = "all"
    ties: Annotated[
        Literal["deepest", "ancestor", "random"],
        Option(help="Which of several equally similar nodes to use."),
    ] = "deepest"
    resamples: ResamplesOption = 2000
    seed: SeedOption = 0
    batch_size: BatchSize = 64


def run(settings: MappingSettings) -> StudyReport:
    """Place annotated answers by each measure, alone and with Algorithm 1 (paper 1, Table 2 and Figure 4).

    Raises:
        TaxtuneError: If a file cannot be used, or a measure does not exist, lacks images or cannot place.
    """
    taxonomy, part = settings.read_tree()
    return mapping_report(taxonomy, read_annotated(settings.file, taxonomy, part), settings, part)


# -- placing ----------------------------------------------------------------------------------------------------------


def place_all(
    taxonomy: Taxonomy, answers: AnnotatedAnswers, settings: MappingSettings
) -> tuple[pd.DataFrame, list[str], dict[str, dict[str, Any]]]:
    """Places every answer in every way; each distinct answer is scored once.

    Returns:
        A frame with a row per mapper and answer: mapper (as printed: "ROUGE + Alg. 1"), base ("ROUGE"), way, answer
        (its position), node (`UNPLACED` where unscored), target, acceptable (whether the node is); for `ALONE` also
        tied, for `DEFAULT` abstained, off_tree and confidence. Then notes, and the identity of each measure.

    Raises:
        TaxtuneError: If two measures have one name, or a model cannot be loaded.
    """
    keys, notes = _read_texts(answers.frame["answer"])
    # Sorted, so that batches, and with them the last digits of a model's scores, do not depend on the file's order.
    texts = sorted({*keys} - {""})
    label, spec = split_name(settings.similarity)
    mapper = Mapper(taxonomy, spec, device=settings.device, cache_dir=settings.cache_dir)
    names = tree_names(taxonomy, settings.names, plain_or_raw)
    scorers = make_scorers(settings.measure, names, settings, measures=True)
    parts = []
    identities = {}
    for scorer in scorers:
        placed = _scored(taxonomy, scorer, texts, settings)
        placed["base"] = scorer.name
        listing = placed[["listing", "base"]].rename(columns={"listing": "node"})
        parts.append(placed.assign(mapper=scorer.name, way=ALONE))
        parts.append(listing.assign(mapper=f"{scorer.name} + Alg. 1", way=ALGORITHM))
        notes += [f"{scorer.name}: {note}" for note in scorer.notes]
        identities[scorer.name] = scorer.identity()
    default = _placed_by(mapper, texts)
    name = f"default mapper, {label or spec}"
    parts.append(default.assign(base=name, mapper=name, way=DEFAULT))
    positions = range(len(keys))
    by_answer = [part.loc[keys].assign(answer=positions) for part in parts]
    frame = pd.concat(by_answer)
    frame = frame.join(answers.frame[["target", "acceptable"]], on="answer")
    choices = zip(frame["node"], frame["acceptable"], strict=True)
    frame["acceptable"] = [node in nodes for node, nodes in choices]
    return frame.reset_index(drop=True), notes, identities


def _read_texts(answers: pd.Series[str]) -> tuple[list[str], list[str]]:
    """Returns the part of each answer that is placed, "" where it has no letter or digit, and notes."""
    longest = MapperConfig().max_characters
    notes = []
    stripped = answers.str.strip()
    texts = stripped.str[:longest]
    is_blank = ~texts.map(lambda text: any(map(str.isalnum, text)))
    if is_blank.any():
        nothing = "have no letter or digit; every method places them on the root"
        notes.append(f"{is_blank.sum():,} answers {nothing}")
    is_cut = stripped.str.len() > longest
    if is_cut.any():
        start = f"are truncated to their first {longest:,} characters"
        notes.append(f"{is_cut.sum():,} answers {start}")
    return texts.mask(is_blank, "").tolist(), notes


def _scored(
    taxonomy: Taxonomy, scorer: Scorer, texts: list[str], settings: MappingSettings
) -> pd.DataFrame:
    """Returns the placements by a measure, alone and with Algorithm 1, from one table of scores.

    The index is the text, "" that of blank answers; the columns are node, tied and listing.
    """
    rng = np.random.default_rng(settings.seed)
    listing = Mapper(taxonomy, scorer.similarity, MapperConfig(preset="paper-listing"))
    rows = [(taxonomy.root, 1, taxonomy.root)]
    for batch, table in scorer.tables(texts, plain_or_raw):
        nodes, ties = nearest_nodes(taxonomy, table, ties=settings.ties, rng=rng)
        finite = np.nan_to_num(table, nan=-np.inf)
        for text, row, node, tied in zip(batch, finite, nodes.tolist(), ties, strict=True):
            by_listing = UNPLACED
            if node != UNPLACED:
                by_listing = listing.place_scored(text, row).node
            rows.append((node, int(tied), by_listing))
    return pd.DataFrame(rows, index=["", *texts], columns=["node", "tied", "listing"])


def _placed_by(mapper: Mapper, texts: list[str]) -> pd.DataFrame:
    """Returns a mapper's placements: node, abstained, off_tree and confidence by text."""
    placements = place_distinct(mapper, ["", *texts])
    frame = pd.DataFrame({"placement": placements})
    for name in ("node", "abstained", "off_tree", "confidence"):
        frame[name] = frame["placement"].map(attrgetter(name))
    return frame.drop(columns="placement")


# -- the report -------------------------------------------------------------------------------------------------------


def mapping_report(
    taxonomy: Taxonomy,
    answers: AnnotatedAnswers,
    settings: MappingSettings,
    part: Domain | None = None,
) -> StudyReport:
    """Places the answers in every way and returns the report; arguments and errors as `place_all`.

    With `part`, the domain that the tree is, the scores on the whole taxonomy are added.
    """
    frame, notes, identities = place_all(taxonomy, answers, settings)
    scorer = PlacementScorer(taxonomy, settings.resamples, settings.seed)
    scores = _scores(scorer, frame)
    styles = _styles(taxonomy, frame, answers.frame["style"])
    nodes = _nodes_by_mapper(frame)
    # The share of answers that each two mappers place on the same node, of those that both have placed.
    agreement = nodes.where(nodes >= 0).corr(_agreement)  # type: ignore[arg-type]  # the stubs lack it
    tables = [_scores_table(taxonomy, frame, scores)]
    tables.append(_intervals_table(scores, settings.resamples))
    if part is not None:
        tables.append(both_trees_table(part, frame, "mapper"))
    tables.append(_differences_table(scorer, frame))
    tables.append(_confidence_table(frame[frame["way"] == DEFAULT]))
    tables.append(_styles_table(styles))
    tables.append(_agreement_table(agreement))
    record = settings.record()
    record["root"] = part_path(part)
    record["n"] = len(answers.frame)
    record["confidence_level"] = 0.95
    record["identities"] = identities
    figures = {"mapping-scores": partial(draw_dots, _drawn(scores), "score, 95 % interval")}
    figures["mapping-agreement"] = partial(_draw_agreement, agreement)
    data: dict[str, Any] = {"excluded": list(answers.excluded)}
    data["scores"] = records(scores)
    data["styles"] = records(styles)
    data["answers"] = _records(taxonomy, answers, nodes)
    return StudyReport(
        study="mapping",
        title="How well measures place answers on the taxonomy, alone and with Algorithm 1",
        settings=record,
        tables=tuple(table for table in tables if table.rows),
        figures=figures,
        notes=(*answers.notes, *notes),
        data=data,
    )


def _nodes_by_mapper(frame: pd.DataFrame) -> pd.DataFrame:
    """Returns the nodes with a row per answer and a column per mapper; mappers of one way stand together."""
    nodes = frame.pivot(index="answer", columns="mapper", values="node")
    alone, listing, default = _mappers(frame)
    return nodes[alone + listing + default]


def _mappers(frame: pd.DataFrame) -> list[list[str]]:
    """Returns the names of the mappers of each way."""
    by_way = frame.groupby("way")["mapper"].unique()
    return [by_way[way].tolist() for way in (ALONE, ALGORITHM, DEFAULT)]


def _agreement(first: FloatArray, second: FloatArray) -> float:
    return float((first == second).mean())


def _records(
    taxonomy: Taxonomy, answers: AnnotatedAnswers, nodes: pd.DataFrame
) -> list[dict[str, Any]]:
    """Returns row, answer, truth and the node by each mapper of every answer, nodes as paths."""
    used = set(np.unique(nodes)) - {UNPLACED}
    paths = {node: "/".join(taxonomy.path(node)) for node in used}
    frame = answers.frame[["row", "answer"]].copy()
    frame["truth"] = node_paths(taxonomy, answers.frame["target"])
    rows = records(frame)
    for row, placed in zip(rows, records(nodes), strict=True):
        row["placed"] = {name: paths.get(node) for name, node in placed.items()}
    return rows


def _scores(scorer: PlacementScorer, frame: pd.DataFrame) -> pd.DataFrame:
    """Returns a row per mapper and metric: mapper, base, way, metric, estimate, low, high; only of placed answers."""
    parts = []
    for answers in groups(frame[frame["node"] != UNPLACED], "mapper").values():
        scores = scorer.scores(answers, ["mapper", "base", "way"])
        # Of n resampled answers a binomial number is acceptable.
        n = len(answers)
        share = float(answers["acceptable"].mean())
        drawn = np.random.default_rng(scorer.seed).binomial(n, share, size=scorer.resamples)
        low, high = percentiles(drawn / n)
        acceptable = scores.iloc[:1].assign(metric="acceptable", estimate=share, low=low, high=high)
        parts += [scores, acceptable]
    return pd.concat(parts, ignore_index=True)


def _styles(taxonomy: Taxonomy, frame: pd.DataFrame, style: pd.Series[str]) -> pd.DataFrame:
    """Returns the mean scores by style, the largest first, and mapper; NaN where nothing of it was placed.

    There are no rows where no answer has a style.
    """
    named = style.fillna("–")
    sizes = named.value_counts(sort=False).sort_values(ascending=False, kind="stable")
    if style.isna().all():
        sizes = sizes.iloc[:0]
    placed = frame[frame["node"] != UNPLACED].copy()
    placed["style"] = placed["answer"].map(named)
    nodes, targets = placed["node"], placed["target"]
    placed["hp"], placed["hr"] = precision_recall(taxonomy, nodes, targets)
    placed["accuracy"] = nodes == targets
    placed["depth"] = taxonomy.depth[nodes]
    metrics = ["hp", "hr", "accuracy", "acceptable", "depth"]
    means = placed.groupby(["style", "mapper"])[metrics].mean()
    total = means["hp"] + means["hr"]
    means.insert(2, "hf", 2 * means["hp"] * means["hr"] / total)
    mappers = frame["mapper"].unique()
    index = pd.MultiIndex.from_product([sizes.index, mappers], names=["style", "mapper"])
    wide = means.reindex(index).reset_index()
    wide.insert(2, "n", wide["style"].map(sizes))
    return wide


# -- tables -----------------------------------------------------------------------------------------------------------


def _scores_table(taxonomy: Taxonomy, frame: pd.DataFrame, scores: pd.DataFrame) -> Table:
    counted = frame[["mapper", "way"]].copy()
    counted["n"] = frame["node"] != UNPLACED
    counted["tied"] = frame["tied"] > 1
    counted["on the root"] = frame["node"] == taxonomy.root
    counted["abstained"] = frame["abstained"].eq(True)
    counted["off the tree"] = frame["off_tree"].eq(True)
    counted["unscored"] = frame["node"] == UNPLACED
    counts = counted.groupby(["mapper", "way"], sort=False).sum()
    counts = counts.reset_index("way").astype(object)
    counts.loc[counts["way"] != ALONE, "tied"] = None
    counts.loc[counts["way"] != DEFAULT, ["abstained", "off the tree"]] = None
    means = wide_intervals(scores, ["mapper"], _SHOWN, ["estimate"])
    cells = counts.pop("n").to_frame().join(means)
    cells = cells.join(counts.drop(columns="way"))
    return frame_table(
        "mapping",
        "Placements compared with those of people",
        cells.reset_index(),
        "tied: answers for which several nodes shared the highest score, which --ties decides; unscored: answers that "
        "the measure did not score, which are excluded.",
        "An answer off the tree counts as placed on the root, where people place what the tree lacks: this study "
        "judges the mapper, not the answers.",
    )


def _intervals_table(scores: pd.DataFrame, resamples: int) -> Table:
    cells = wide_intervals(scores, ["mapper"], _SHOWN, ["low", "high"])
    note = f"{resamples:,} resamples of the answers, percentiles."
    return frame_table("mapping-intervals", "95 % bootstrap intervals", cells.reset_index(), note)


def _differences_table(scorer: PlacementScorer, frame: pd.DataFrame) -> Table:
    """Returns the gains of each measure by Algorithm 1, and of the default mapper over each with Algorithm 1."""
    by_mapper = groups(frame.set_index("answer"), "mapper")
    alone, listing, default = _mappers(frame)
    pairs = [*zip(listing, alone, strict=True), *itertools.product(default, listing)]
    rows = []
    for first_name, second_name in pairs:
        first, second = by_mapper[first_name], by_mapper[second_name]
        both = (first["node"] != UNPLACED) & (second["node"] != UNPLACED)
        if not both.any():
            continue
        changes = scorer.differences(first[both], second[both])
        row: dict[str, Any] = {"first": first_name, "second": second_name}
        row["n"] = int(both.sum())
        for metric, prefix in (("hf", ""), ("accuracy", "acc. ")):
            change = changes.loc[metric]
            row[_SHOWN[metric]] = change["difference"]
            row[f"{prefix}low"] = change["low"]
            row[f"{prefix}high"] = change["high"]
            row[f"{prefix}p"] = change["p_value"]
        rows.append(row)
    title = "Paired differences, first minus second, on the same answers"
    digits = {"p": 4, "acc. p": 4}
    return frame_table("mapping-differences", title, pd.DataFrame(rows), digits=digits)


def _confidence_table(default: pd.DataFrame) -> Table:
    """Returns the worth of the default mapper's confidence."""
    confidence = default["confidence"].astype(float)
    right = default["acceptable"]
    row = {"mapper": default["mapper"].iloc[0], "n": len(default)}
    risks = risk_at_coverage(confidence, right)
    for coverage, risk in zip(COVERAGES, risks, strict=True):
        row[f"risk at {coverage:.0%}"] = risk
    row["calibration error"] = calibration_error(confidence, right)
    return frame_table(
        "mapping-confidence",
        "What the confidence is worth",
        pd.DataFrame([row]),
        "Risk: the share of placements that are not acceptable among those that the confidence puts first; calibration "
        "error: its mean distance from the share that is acceptable, in ten bins of equal mass.",
    )


def _styles_table(styles: pd.DataFrame) -> Table:
    note = "Scores over a few answers say little; n: the number of answers."
    cells = styles.rename(columns=_SHOWN)
    return frame_table("mapping-styles", "Scores by answer style", cells, note)


def _agreement_table(agreement: pd.DataFrame) -> Table:
    title = "Share of answers that two mappers place on the same node (paper 1, Figure 4)"
    cells = agreement.reset_index(names="mapper")
    return frame_table("mapping-agreement", title, cells, digits=2)


# -- figures ----------------------------------------------------------------------------------------------------------


def _drawn(scores: pd.DataFrame) -> pd.DataFrame:
    """Returns the metrics that the figure shows, as `draw_dots` takes them."""
    panels = {"hf": "hF", "accuracy": "accuracy (exact node)"}
    series = {ALONE: ALONE, ALGORITHM: f"with {ALGORITHM}", DEFAULT: "default mapper"}
    shown = scores[scores["metric"].isin(panels)].copy()
    shown["panel"] = shown["metric"].map(panels)
    shown["name"] = shown["base"]
    shown["series"] = shown["way"].map(series)
    return shown


def _draw_agreement(agreement: pd.DataFrame) -> Figure:
    """Draws the agreement of mappers as a heat map, with the share in each cell."""
    from matplotlib.figure import Figure

    shares = agreement.to_numpy()
    names = [str(name) for name in agreement]
    size = 0.46 * len(names)
    figure = Figure(figsize=(2.9 + size, 1.9 + size), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for (row, column), share in np.ndenumerate(shares):
        text = "–" if np.isnan(share) else f"{share:.2f}"
        color = "white" if share > 0.55 else "black"
        axes.text(column, row, text, ha="center", va="center", fontsize=8, color=color)
    ticks = range(len(names))
    axes.set_xticks(ticks, names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(ticks, names)
    figure.colorbar(image, label="share of answers placed on the same node")
    return figure
