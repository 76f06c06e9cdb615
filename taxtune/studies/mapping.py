"""How well text similarity measures place answers, alone and with Algorithm 1 (paper 1, §6.1, Table 2, Figure 4).

Every measure maps an answer to the node whose name it finds most similar ("alone"); every measure is put into the
paper's listing as its similarity ("Algorithm 1"); and taxtune's own mapper stands beside them ("default"). People have
placed the answers, so the node of each is known. Measures compare normalised answers with normalised names (§6); the
default mapper reads the answer as it is. Everything works on one frame with a row per mapper and answer.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import pandas as pd
from typer import Argument, Option

from taxtune.mapping import Mapper, MapperConfig
from taxtune.mapping.normalize import plain_or_raw
from taxtune.metrics.confidence import COVERAGES, calibration_error, risk_at_coverage
from taxtune.metrics.hierarchical import precision_recall
from taxtune.metrics.statistics import (
    Interval,
    bootstrap,
    hierarchical_sample,
    paired_bootstrap,
    percentiles,
)
from taxtune.options import ResamplesOption, SeedOption
from taxtune.report.output import StudyReport, Table
from taxtune.studies.contestants import place_texts
from taxtune.studies.output import both_trees_table, draw_dots, frame_table
from taxtune.studies.scorers import (
    UNPLACED,
    AnnotatedAnswers,
    MeasureSimilarity,
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

#: The ways of placing: the nearest name, the paper's listing, taxtune's default mapper.
ALONE, ALGORITHM, DEFAULT = "alone", "Algorithm 1", "default"
# The scores with intervals, as they are printed.
_SHOWN = {"hp": "hP", "hr": "hR", "hf": "hF", "accuracy": "accuracy", "acceptable": "acceptable"}
_COLUMNS = [
    "answer",
    "mapper",
    "base",
    "way",
    "node",
    "tied",
    "abstained",
    "off_tree",
    "confidence",
]


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
    names, longest = (
        tree_names(taxonomy, settings.names, plain_or_raw),
        MapperConfig().max_characters,
    )
    stripped = [text.strip() for text in answers.frame["answer"]]
    keys = [text[:longest] if any(map(str.isalnum, text[:longest])) else "" for text in stripped]
    # Sorted, so that batches, and with them the last digits of a model's scores, do not depend on the file's order.
    texts = sorted({*keys} - {""})
    label, spec = split_name(settings.similarity)
    mapper = Mapper(taxonomy, spec, device=settings.device, cache_dir=settings.cache_dir)
    scorers = make_scorers(settings.measure, names, settings, measures=True)
    parts = []
    for scorer in scorers:
        placed = _scored(taxonomy, scorer, texts, settings).loc[keys].assign(base=scorer.name)
        listing = placed[["listing", "base"]].rename(columns={"listing": "node"})
        parts.append(placed.assign(mapper=scorer.name, way=ALONE))
        parts.append(listing.assign(mapper=f"{scorer.name} + Alg. 1", way=ALGORITHM))
    name, columns = (
        f"default mapper, {label or spec}",
        ["node", "abstained", "off_tree", "confidence"],
    )
    cells = [
        (p.node, p.abstained, p.off_tree, p.confidence)
        for p in place_texts(mapper, ["", *texts]).values()
    ]
    default = pd.DataFrame(cells, ["", *texts], columns).loc[keys]
    parts.append(default.assign(mapper=name, base=name, way=DEFAULT))
    frame = pd.concat(
        [part.reset_index(drop=True).rename_axis("answer").reset_index() for part in parts]
    )
    frame = frame.reindex(columns=_COLUMNS).join(
        answers.frame[["target", "acceptable"]], on="answer"
    )
    frame = frame.reset_index(drop=True)
    frame["acceptable"] = [
        node in nodes for node, nodes in zip(frame["node"], frame["acceptable"], strict=True)
    ]
    counts = {
        "answers have no letter or digit; every method places them on the root": keys.count(""),
        f"answers are truncated to their first {longest:,} characters": sum(
            len(text) > longest for text in stripped
        ),
    }
    notes = [f"{count:,} {what}" for what, count in counts.items() if count]
    identities: dict[str, Any] = {}
    for scorer in scorers:
        measure = (
            scorer.similarity.measure if isinstance(scorer.similarity, MeasureSimilarity) else None
        )
        notes += [f"{scorer.name}: {note}" for note in (measure.notes if measure else ())]
        identities[scorer.name] = (
            dict(measure.identity()) if measure else {"similarity": scorer.spec}
        )
    return frame, notes, identities


def _scored(
    taxonomy: Taxonomy, scorer: Scorer, texts: list[str], settings: MappingSettings
) -> pd.DataFrame:
    """Placements by a measure, alone and with Algorithm 1, from one table of scores; "" is a blank answer's row."""
    rng = np.random.default_rng(settings.seed)
    listing = Mapper(taxonomy, scorer.similarity, MapperConfig(preset="paper-listing"))
    rows = [(taxonomy.root, 1, taxonomy.root)]
    for batch, table in scorer.tables(texts, plain_or_raw):
        nodes, tied = nearest_nodes(taxonomy, table, ties=settings.ties, rng=rng)
        finite = np.nan_to_num(table, nan=-np.inf)
        for text, row, node, ties in zip(batch, finite, nodes.tolist(), tied.tolist(), strict=True):
            rows.append(
                (node, ties, UNPLACED if node == UNPLACED else listing.place_scored(text, row).node)
            )
    return pd.DataFrame(rows, index=["", *texts], columns=["node", "tied", "listing"])


# -- the report -------------------------------------------------------------------------------------------------------


def mapping_report(
    taxonomy: Taxonomy,
    answers: AnnotatedAnswers,
    settings: MappingSettings,
    part: Domain | None = None,
) -> StudyReport:
    """Places the answers in every way and returns the report; arguments and errors as `place_all`.

    With `part`, what the tree is a part of, the scores on the whole are added.
    """
    frame, notes, identities = place_all(taxonomy, answers, settings)
    ways = frame.drop_duplicates("mapper").set_index("mapper")["way"]
    order = list(ways.index)
    # By way, so that what the ways have in common stands together.
    by_way = sorted(order, key=lambda name: (ALONE, ALGORITHM, DEFAULT).index(ways[name]))
    nodes = frame.pivot(index="answer", columns="mapper", values="node")[by_way]
    # The share of answers that each two mappers place on the same node, of those that both have placed.
    shares = nodes.where(nodes >= 0).corr(lambda a, b: float((a == b).mean()))  # type: ignore[arg-type]  # the stubs lack it
    scores = _scores(taxonomy, frame, settings)
    styles = _styles(taxonomy, frame, answers.frame["style"])
    pairs = {name: (nodes[name], answers.frame["target"]) for name in order}
    ends = scores.pivot(index="mapper", columns="metric", values=["low", "high"]).reindex(order)
    intervals = {
        f"{shown} {end}": ends[end, metric]
        for metric, shown in _SHOWN.items()
        for end in ("low", "high")
    }
    tables = [
        _scores_table(taxonomy, frame, scores),
        frame_table(
            "mapping-intervals",
            "95 % bootstrap intervals",
            pd.DataFrame(intervals).reset_index(),
            f"{settings.resamples:,} resamples of the answers, percentiles.",
        ),
        *([] if part is None else [both_trees_table(part, pairs, "mapper")]),
        _differences(taxonomy, frame, settings),
        _confidence_table(frame[frame["way"] == DEFAULT]),
        frame_table(
            "mapping-styles",
            "Scores by answer style",
            styles.rename(columns=_SHOWN),
            "Scores over a few answers say little; n: the number of answers.",
        ),
        frame_table(
            "mapping-agreement",
            "Share of answers that two mappers place on the same node (paper 1, Figure 4)",
            shares.reset_index(names="mapper"),
            digits=dict.fromkeys(order, 2),
        ),
    ]
    paths = {
        node: "/".join(taxonomy.path(node))
        for node in {*frame["node"], *frame["target"]} - {UNPLACED}
    }
    records = (
        answers.frame[["row", "answer"]]
        .assign(truth=answers.frame["target"].map(paths))
        .to_dict("records")
    )
    for record, placed in zip(records, nodes.to_dict("records"), strict=True):
        record["placed"] = {name: paths.get(node) for name, node in placed.items()}
    return StudyReport(
        study="mapping",
        title="How well measures place answers on the taxonomy, alone and with Algorithm 1",
        settings={
            **settings.record(),
            "taxonomy": taxonomy.source,
            "root": None if part is None else "/".join(part.full.path(part.root)),
            "n": len(answers.frame),
            "confidence_level": 0.95,
            "identities": identities,
        },
        tables=tuple(table for table in tables if table.rows),
        figures={
            "mapping-scores": partial(draw_dots, _drawn(scores), "score, 95 % interval"),
            "mapping-agreement": partial(_draw_agreement, shares),
        },
        notes=(*answers.notes, *notes),
        data={
            "excluded": list(answers.excluded),
            "scores": scores.to_dict("records"),
            "styles": styles.to_dict("records"),
            "answers": records,
        },
    )


def _scores(taxonomy: Taxonomy, frame: pd.DataFrame, settings: MappingSettings) -> pd.DataFrame:
    """One row per mapper and metric: mapper, base, way, metric, estimate, low, high; only of what is placed."""
    rows = []
    placed = frame[frame["node"] != UNPLACED]
    for key, some in placed.groupby(["mapper", "base", "way"], sort=False):
        sample = hierarchical_sample(taxonomy, some["node"], some["target"])
        metrics = bootstrap(sample, resamples=settings.resamples, seed=settings.seed)
        # Of n resampled answers a binomial number is acceptable.
        n, share = len(some), float(some["acceptable"].mean())
        drawn = np.random.default_rng(settings.seed).binomial(n, share, size=settings.resamples) / n
        metrics["acceptable"] = Interval(share, *percentiles(drawn))
        rows += [(*key, metric, one.estimate, one.low, one.high) for metric, one in metrics.items()]
    return pd.DataFrame(
        rows, columns=["mapper", "base", "way", "metric", "estimate", "low", "high"]
    )


def _scores_table(taxonomy: Taxonomy, frame: pd.DataFrame, scores: pd.DataFrame) -> Table:
    flags = {
        "tied": frame["tied"] > 1,
        "on the root": frame["node"] == taxonomy.root,
        "abstained": frame["abstained"].eq(True),
        "off the tree": frame["off_tree"].eq(True),
        "unscored": frame["node"] == UNPLACED,
    }
    by = frame.assign(n=frame["node"] != UNPLACED, **flags).groupby(["mapper", "way"], sort=False)
    counts = by[["n", *flags]].sum().reset_index("way").astype(object)
    counts.loc[counts["way"] != ALONE, "tied"] = None
    counts.loc[counts["way"] != DEFAULT, ["abstained", "off the tree"]] = None
    wide = scores.pivot(index="mapper", columns="metric", values="estimate").reindex(
        columns=list(_SHOWN)
    )
    cells = counts[["n"]].join(wide.rename(columns=_SHOWN)).join(counts[[*flags]])
    return frame_table(
        "mapping",
        "Placements compared with those of people",
        cells.reset_index(),
        "tied: answers for which several nodes shared the highest score, which --ties decides; unscored: answers that "
        "the measure did not score, which are excluded.",
        "An answer off the tree counts as placed on the root, where people place what the tree lacks: this study "
        "judges the mapper, not the answers.",
    )


def _differences(taxonomy: Taxonomy, frame: pd.DataFrame, settings: MappingSettings) -> Table:
    """What Algorithm 1 adds to each measure, and what the default mapper adds to each with Algorithm 1."""
    by = {
        (str(base), str(way)): some.reset_index()
        for (base, way), some in frame.groupby(["base", "way"], sort=False)
    }
    algorithm = [base for base, way in by if way == ALGORITHM]
    pairs = [((base, ALGORITHM), (base, ALONE)) for base in algorithm]
    pairs += [(key, (base, ALGORITHM)) for key in by if key[1] == DEFAULT for base in algorithm]
    rows: list[dict[str, Any]] = []
    for a, b in pairs:
        both = (by[a]["node"] != UNPLACED) & (by[b]["node"] != UNPLACED)
        if not both.any():
            continue
        first, second = (by[key][both] for key in (a, b))
        one, other = (
            hierarchical_sample(taxonomy, some["node"], some["target"]) for some in (first, second)
        )
        changes = paired_bootstrap((one, other), resamples=settings.resamples, seed=settings.seed)
        row = {
            "first": first["mapper"].iloc[0],
            "second": second["mapper"].iloc[0],
            "n": len(first),
        }
        for metric, shown, short in (("hf", "hF", ""), ("accuracy", "accuracy", "acc. ")):
            change = changes[metric]
            row |= {
                shown: change.difference,
                f"{short}low": change.low,
                f"{short}high": change.high,
            }
            row |= {f"{short}p": change.p_value}
        rows.append(row)
    title = "Paired differences, first minus second, on the same answers"
    return frame_table(
        "mapping-differences", title, pd.DataFrame(rows), digits={"p": 4, "acc. p": 4}
    )


def _confidence_table(default: pd.DataFrame) -> Table:
    """What the default mapper's confidence is worth."""
    sure, right = default["confidence"].astype(float), default["acceptable"]
    risks = zip(
        (f"risk at {coverage:.0%}" for coverage in COVERAGES),
        risk_at_coverage(sure, right),
        strict=True,
    )
    row = {"mapper": default["mapper"].iloc[0], "n": len(default), **dict(risks)}
    return frame_table(
        "mapping-confidence",
        "What the confidence is worth",
        pd.DataFrame([row | {"calibration error": calibration_error(sure, right)}]),
        "Risk: the share of placements that are not acceptable among those that the confidence puts first; calibration "
        "error: its mean distance from the share that is acceptable, in ten bins of equal mass.",
    )


def _styles(taxonomy: Taxonomy, frame: pd.DataFrame, style: pd.Series) -> pd.DataFrame:
    """The mean scores of each style, the largest first, and mapper; NaN where nothing of it was placed."""
    named = style.fillna("–")
    sizes = named.value_counts(sort=False).sort_values(ascending=False, kind="stable")
    placed = frame[frame["node"] != UNPLACED].assign(style=lambda some: some["answer"].map(named))
    placed["hp"], placed["hr"] = precision_recall(taxonomy, placed["node"], placed["target"])
    placed["accuracy"], placed["depth"] = (
        placed["node"] == placed["target"],
        taxonomy.depth[placed["node"].to_numpy()],
    )
    means = placed.groupby(["style", "mapper"])[
        ["hp", "hr", "accuracy", "acceptable", "depth"]
    ].mean()
    means.insert(2, "hf", 2 * means["hp"] * means["hr"] / (means["hp"] + means["hr"]))
    shown = sizes.index[: None if style.notna().any() else 0]
    index = pd.MultiIndex.from_product([shown, frame["mapper"].unique()], names=["style", "mapper"])
    wide = means.reindex(index).reset_index()
    wide.insert(2, "n", wide["style"].map(sizes))
    return wide


def _drawn(scores: pd.DataFrame) -> pd.DataFrame:
    """The metrics that the figure shows, as `draw_dots` takes them."""
    panels = {"hf": "hF", "accuracy": "accuracy (exact node)"}
    series = {ALONE: ALONE, ALGORITHM: f"with {ALGORITHM}", DEFAULT: "default mapper"}
    shown = scores[scores["metric"].isin(panels)]
    named = {
        "panel": shown["metric"].map(panels),
        "name": shown["base"],
        "series": shown["way"].map(series),
    }
    return shown.assign(**named)


def _draw_agreement(agreement: pd.DataFrame) -> Figure:
    """The agreement of mappers as a heat map, with the share in each cell."""
    from matplotlib.figure import Figure

    n, names = len(agreement), [*map(str, agreement)]
    figure = Figure(figsize=(2.9 + 0.46 * n, 1.9 + 0.46 * n), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(agreement.to_numpy(), cmap="Blues", vmin=0, vmax=1)
    for (i, j), value in np.ndenumerate(agreement.to_numpy()):
        text = "–" if np.isnan(value) else f"{value:.2f}"
        axes.text(
            j,
            i,
            text,
            ha="center",
            va="center",
            fontsize=8,
            color="white" if value > 0.55 else "black",
        )
    axes.set_xticks(range(n), names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(n), names)
    figure.colorbar(image, label="share of answers placed on the same node")
    return figure
