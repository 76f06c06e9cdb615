"""Fine and coarse classes alone: the two-level form of paper 3 (Table 5) and the one of language only (Table 6).

The coarse class of an image is predicted directly from the coarse names, from the parent of the predicted fine class,
and from the average of the fine classes' text embeddings. In language only the text of the fine class is classified
instead of an image, by an encoder of texts or a chat model.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from taxtune.encoders.base import TextEncoder
from taxtune.errors import DataError
from taxtune.metrics.statistics import Interval, Sample, bootstrap
from taxtune.models import Answer, AnswerStore, Model, Request, ask
from taxtune.report.output import StudyReport, intervals_table
from taxtune.resources import prompts_dir
from taxtune.studies.embedding import (
    check_vectors,
    distinct_names,
    embed_labels,
    label_texts,
    make_encoder,
    read_label_prompts,
    rounded,
    shown_name,
    unit,
)
from taxtune.studies.granularity.scores import ScoreMatrix, at_leaves
from taxtune.studies.granularity.settings import GranularitySettings
from taxtune.studies.output import draw_intervals, frame_table
from taxtune.taxonomy import Taxonomy
from taxtune.taxonomy.label_graph import LabelGraph

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Classified", "Grouping", "chosen_class", "coarse_cut", "draw_accuracies", "language_chat", "language_only"]
__all__ += ["language_report", "top_one", "two_level", "two_level_report"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_COLUMNS = ("FG direct", "CG direct", "CG FG-label", "Δ label", "CG FG-emb", "Δ emb")
# Names are folders or models: what is longer is cut at its beginning, since the end tells them apart.
_LONGEST = 48


class Grouping(NamedTuple):
    """Fine classes and the coarse class of each.

    Attributes:
        fine: The leaves, shape (fine,).
        coarse: The coarse nodes, shape (coarse,).
        parent: The position in `coarse` of each fine class, shape (fine,).
        sizes: Number of fine classes of each coarse class, shape (coarse,).
        notes: Stated, counted exclusions.
    """

    fine: IntArray
    coarse: IntArray
    parent: IntArray
    sizes: IntArray
    notes: list[str]


def coarse_cut(taxonomy: Taxonomy, *, level: int | None = None, labels: Sequence[str] = ()) -> Grouping:
    """Returns the leaves and the coarse class of each; leaves that are below none are left out and counted.

    Args:
        taxonomy: The tree.
        level: Take the nodes of this level that are no leaves; the root is level 0.
        labels: Or take these nodes: labels, aliases or paths.

    Raises:
        DataError: If not exactly one of the two is given, there is no such level, a class has nothing below it or lies
            below another, or there are fewer than two coarse classes.
        TaxonomyError: If a label is not on the tree.
    """
    if (level is None) == (not labels):
        raise DataError("Give coarse classes either by a level or by their labels, not both.")
    if level is None:
        coarse = np.array(sorted({taxonomy.resolve(label) for label in labels}), dtype=np.int64)
    elif 1 <= level < taxonomy.height:
        coarse = np.setdiff1d(np.flatnonzero(taxonomy.depth == level), taxonomy.leaves)
    else:
        levels = f"Take 1 to {taxonomy.height - 1}." if taxonomy.height > 1 else "The taxonomy has no level between."
        message = "The coarse level must be below the root and above the lowest leaves."
        raise DataError(message, value=level, remedy=levels)
    names = taxonomy.labels
    for node in coarse.tolist():
        if node in taxonomy.leaves:
            raise DataError("A coarse class has nothing below it.", value=names[node])
        if (above := np.intersect1d(taxonomy.ancestors(node)[:-1], coarse)).size:
            message = f"The coarse class {names[node]!r} is below another, {names[int(above[0])]!r}."
            raise DataError(message, remedy="Remove one of them: a fine class belongs to only one coarse class.")
    if len(coarse) < 2:
        raise DataError("There must be at least two coarse classes.", value=[names[i] for i in coarse])
    position = {node: i for i, node in enumerate(coarse.tolist())}
    parents = np.array(
        [next((position[a] for a in taxonomy.ancestors(v).tolist() if a in position), -1) for v in taxonomy.leaves]
    )
    kept = parents >= 0
    sizes = np.bincount(parents[kept], minlength=len(coarse))
    notes = []
    if not kept.all():
        lost = f"{int((~kept).sum()):,} of {len(kept):,} fine classes left out"
        notes.append(f"{lost}: they are not below a coarse class.")
    return Grouping(taxonomy.leaves[kept], coarse, parents[kept], sizes, notes)


def top_one(scores: NDArray[np.floating], right: IntArray, group: IntArray | None = None) -> FloatArray:
    """Returns the credit of each row for its highest score: 1 if it is the right column's, 0 if not.

    Where several columns share the highest score the credit is the share of them that are right.

    Args:
        scores: Shape (rows, columns).
        right: The right class of each row, shape (rows,): a column, or a group of columns.
        group: The group of each column, shape (columns,); by default each column is its own.
    """
    of_column = np.arange(scores.shape[1]) if group is None else group
    best = scores == scores.max(axis=1, keepdims=True)
    hits = best & (of_column[np.newaxis, :] == right[:, np.newaxis])
    return np.asarray(hits.sum(axis=1) / best.sum(axis=1), dtype=np.float64)


class Classified(NamedTuple):
    """Classes chosen by one score matrix, encoder or chat model.

    Attributes:
        name: Where the choices are from.
        credit: By quantity, 1 for each image or fine class that is classified right, 0 if wrong, a share where classes
            tie, NaN where there is no choice; each of shape (n,).
        notes: Stated, counted exclusions.
        chosen: In language only, the position of the coarse class of each fine class, -1 for none; shape (fine,).
    """

    name: str
    credit: dict[str, FloatArray]
    notes: list[str]
    chosen: IntArray = np.empty(0, dtype=np.int64)

    def intervals(self, settings: GranularitySettings) -> dict[str, Interval]:
        """Returns the mean of each quantity, in 0..1, with its 95 % bootstrap interval."""
        return bootstrap(Sample(self.credit), resamples=settings.resamples, seed=settings.seed)


# -- two levels (Table 5) ---------------------------------------------------------------------------------------------


def two_level(matrix: ScoreMatrix, graph: LabelGraph, grouping: Grouping) -> Classified:
    """Classifies the images into fine and coarse classes.

    Args:
        matrix: The scores.
        graph: The tree.
        grouping: The fine and the coarse classes; images of other classes are left out and counted.

    Raises:
        DataError: If no image shows a fine class.
    """
    matrix = at_leaves(matrix, graph)
    position = np.full(len(graph), -1, dtype=np.int64)
    position[grouping.fine] = np.arange(len(grouping.fine))
    kept = position[matrix.targets] >= 0
    if not kept.any():
        raise DataError("No image shows a class that is below a coarse class.", file=matrix.name)
    notes = [*matrix.notes, *grouping.notes]
    if not kept.all():
        notes.append(f"{int((~kept).sum()):,} of {len(kept):,} images left out: they show none of the fine classes.")
    matrix = matrix.of(kept)
    fine = position[matrix.targets]
    coarse = grouping.parent[fine]
    of_fine, of_coarse = matrix.scores[:, grouping.fine], matrix.scores[:, grouping.coarse]
    credits = {
        "FG direct": top_one(of_fine, fine),
        "CG direct": top_one(of_coarse, coarse),
        "CG FG-label": top_one(of_fine, coarse, grouping.parent),
        "CG FG-emb": np.full(len(fine), np.nan),
    }
    if matrix.image_embeddings is not None and matrix.label_embeddings is not None:
        # The average embedding of the fine classes of each coarse class, at length 1: scores are cosines.
        total = np.zeros((len(grouping.coarse), matrix.label_embeddings.shape[1]), dtype=np.float32)
        np.add.at(total, grouping.parent, matrix.label_embeddings[grouping.fine])
        averages = unit(total / grouping.sizes[:, np.newaxis].clip(1))
        credits["CG FG-emb"] = top_one(rounded(matrix.image_embeddings @ averages.T), coarse)
    else:
        notes.append("No CG FG-emb: averaging the fine classes' embeddings needs a model or embeddings in the file.")
    for name in ("label", "emb"):
        credits[f"Δ {name}"] = credits[f"CG FG-{name}"] - credits["CG direct"]
    if tied := int(((of_fine == of_fine.max(axis=1, keepdims=True)).sum(axis=1) > 1).sum()):
        notes.append(f"{tied:,} images have several fine classes with the highest score and count by the right share.")
    return Classified(matrix.name, {name: credits[name] for name in _COLUMNS}, notes)


def two_level_report(results: Sequence[Classified], grouping: Grouping, settings: GranularitySettings) -> StudyReport:
    """Returns the report of the two-level form."""
    means = {result.name: result.intervals(settings) for result in results}
    shown = {
        column: [some[column] for some in means.values()]
        for column in _COLUMNS
        if not column.startswith("Δ") and any(np.isfinite(some[column].estimate) for some in means.values())
    }
    rows = [
        {"scores": r.name, "images": len(r.credit["FG direct"])}
        | {column: 100 * interval.estimate for column, interval in means[r.name].items()}
        for r in results
    ]
    return StudyReport(
        study="granularity",
        title="Are coarse classes recognised as well directly as through their fine classes?",
        settings=settings.record(),
        tables=(
            frame_table(
                "two-level",
                "Top-1 accuracy on fine (FG) and coarse (CG) classes, in % (paper 3, Table 5)",
                pd.DataFrame(rows),
                f"{len(grouping.fine):,} fine and {len(grouping.coarse):,} coarse classes. CG FG-label: the coarse "
                "class of the predicted fine class; CG FG-emb: by the average of the fine classes' text embeddings; "
                "Δ: the gain over CG direct.",
                digits=dict.fromkeys(_COLUMNS, 2),
            ),
            intervals_table(
                ("scores", "quantity"),
                [((name, column), interval) for name, some in means.items() for column, interval in some.items()],
                f"Percentile bootstrap over the images, {settings.resamples:,} resamples.",
            ),
        ),
        figures={"two-level": partial(draw_accuracies, list(means), shown)},
        notes=tuple(dict.fromkeys(note for result in results for note in result.notes)),
    )


# -- language only (Table 6) ------------------------------------------------------------------------------------------


def language_only(
    encoder: TextEncoder, names: Sequence[str], grouping: Grouping, templates: Sequence[str]
) -> Classified:
    """Classifies each fine class as the coarse class whose text is nearest to its own.

    Args:
        encoder: An encoder of texts.
        names: The name of each node in a prompt.
        grouping: The fine and the coarse classes.
        templates: Prompt templates, for both; the embeddings of a label's prompts are averaged.

    Raises:
        ModelError: If the encoder gives no vector for a class.
    """
    fine, coarse = (
        embed_labels(encoder, templates, [names[i] for i in nodes.tolist()])
        for nodes in (grouping.fine, grouping.coarse)
    )
    check_vectors(encoder.name, {"fine classes": fine, "coarse classes": coarse})
    scores = rounded(fine @ coarse.T)
    credit = {"accuracy": top_one(scores, grouping.parent)}
    return Classified(shown_name(encoder.name), credit, [], scores.argmax(axis=1))


def language_chat(
    llm: Model, name: str, names: Sequence[str], grouping: Grouping, *, store: AnswerStore | None = None
) -> Classified:
    """Classifies each fine class as the coarse class that a chat model names (the generative row of the table).

    A reply that names no class, or several, and a failed call are unscored and counted, never wrong.

    Args:
        llm: The chat model.
        name: Its name in the table.
        names: The name of each node in the prompt.
        grouping: The fine and the coarse classes.
        store: The store of replies, or None.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(loader=FileSystemLoader(prompts_dir() / "granularity"), undefined=StrictUndefined)
    template = environment.get_template("coarse_class.j2")
    kinds = [names[i] for i in grouping.coarse.tolist()]
    prompts = [template.render(kinds=kinds, thing=names[i]) for i in grouping.fine.tolist()]
    replies = ask(llm, [Request(prompt) for prompt in prompts], store)
    chosen = np.array([chosen_class(r.text, kinds) if isinstance(r, Answer) else -1 for r in replies], dtype=np.int64)
    failed = sum(not isinstance(reply, Answer) for reply in replies)
    unclear = int((chosen < 0).sum()) - failed
    notes = [
        f"{name}: {n:,} of {len(replies):,} {what}: unscored."
        for n, what in ((unclear, "replies name no class or several"), (failed, "calls failed"))
        if n
    ]
    return Classified(name, {"accuracy": np.where(chosen < 0, np.nan, chosen == grouping.parent)}, notes, chosen)


def chosen_class(reply: str, kinds: Sequence[str]) -> int:
    """Returns the position of the class that a reply names, or -1 if it names none or several.

    A reply that is a class's name counts as it is; otherwise the one name that stands in it on word boundaries, where
    a name inside a longer one ("fish" in "food fish") does not count.
    """
    plain = reply.strip().strip(".*\"'`-: ").casefold()
    folded = [kind.casefold() for kind in kinds]
    named = {plain} & set(folded)
    if not named:
        rest = reply.casefold()
        for kind in sorted(set(folded), key=len, reverse=True):
            rest, count = re.subn(rf"(?<!\w){re.escape(kind)}(?!\w)", " ; ", rest)
            named |= {kind} if count else set()
    positions = [i for i, kind in enumerate(folded) if kind in named]
    return positions[0] if len(positions) == 1 else -1


def _classified(settings: GranularitySettings, names: Sequence[str], grouping: Grouping) -> list[Classified]:
    templates, results = read_label_prompts(settings.templates or "label"), []
    for spec in settings.model:
        if not spec.startswith("llm:"):
            results.append(language_only(make_encoder(spec, settings), names, grouping, templates))
            continue
        from taxtune.models import ModelSettings, check_model, make_model, open_replies

        shared = {name: getattr(settings, name) for name in ("api_base", "concurrency", "device")}
        llm = make_model(spec.removeprefix("llm:"), ModelSettings(task="text-generation", **shared, max_tokens=64))
        check_model(llm)
        with open_replies(settings.cache_dir) as store:
            results.append(language_chat(llm, shown_name(spec), names, grouping, store=store))
    return results


def language_report(
    settings: GranularitySettings, taxonomy: Taxonomy, grouping: Grouping, results: Sequence[Classified] | None = None
) -> StudyReport:
    """Classifies fine names by their text, with each encoder and chat model, and returns the report.

    Args:
        settings: The models and prompts.
        taxonomy: The tree.
        grouping: The fine and the coarse classes.
        results: The choices, where they are known; by default the models are asked.

    Raises:
        TaxtuneError: If a model or the templates cannot be used.
    """
    names = label_texts(taxonomy, settings.label_names)
    results = _classified(settings, names, grouping) if results is None else results
    distinct = distinct_names([result.name for result in results])
    results = [result._replace(name=name) for result, name in zip(results, distinct, strict=True)]
    fine, coarse = (np.array(names, dtype=object)[nodes] for nodes in (grouping.fine, grouping.coarse))
    sorted_names, rows, classes = {}, [], []
    means = {result.name: result.intervals(settings)["accuracy"] for result in results}
    for name, credit, _, chosen in results:
        choices = pd.DataFrame({"fine": fine, "coarse": coarse[grouping.parent]})
        choices["chosen"] = [None if i < 0 else coarse[i] for i in chosen.tolist()]
        choices["credit"] = credit["accuracy"]
        sorted_names[name] = choices.to_dict("records")
        mean, unscored = means[name], int(choices["credit"].isna().sum())
        ends = (100 * mean.estimate, 100 * mean.low, 100 * mean.high)
        rows.append((name, *ends, len(choices) - unscored, unscored))
        for i in np.argsort(-grouping.sizes, kind="stable").tolist():
            own = choices[grouping.parent == i]
            mistaken = own.loc[(chosen != i)[grouping.parent == i], "chosen"].dropna()
            most = mistaken.mode().head(1).tolist()
            common = f"{most[0]} ({(mistaken == most[0]).sum()})" if most else "–"
            classes.append((name, coarse[i], len(own), 100 * own["credit"].mean(), common))
    largest = int(grouping.sizes.argmax())
    share = float(grouping.sizes[largest]) / len(fine)
    trivial = {"at random": 1 / len(coarse), f"always {coarse[largest]}": share}
    shared = ", ".join(f"{name!r} ({count})" for name, count in Counter(coarse.tolist()).items() if count > 1)
    alike = [f"Coarse classes that share a name cannot be distinguished and share the credit: {shared}."]
    columns = ["encoder", "accuracy", "low", "high", "scored", "unscored"]
    of_class = ["encoder", "coarse class", "fine classes", "accuracy", "most often mistaken for"]
    return StudyReport(
        study="granularity",
        title="Does the text of a fine class reveal its coarse class?",
        settings=settings.record(),
        tables=(
            frame_table(
                "language",
                "Fine names assigned to coarse classes by their text: accuracy in % (paper 3, Table 6)",
                pd.DataFrame(rows, columns=columns),
                f"{len(fine):,} fine and {len(coarse):,} coarse classes. A random guess is right in "
                f"{100 / len(coarse):.2f} %; always answering {coarse[largest]!r}, in {100 * share:.2f} %.",
                f"95 % percentile bootstrap over the fine classes, {settings.resamples:,} resamples.",
                digits=dict.fromkeys(columns[1:4], 2),
            ),
            frame_table(
                "classes",
                "The same by coarse class",
                pd.DataFrame(classes, columns=of_class),
                digits={"accuracy": 1},
            ),
        ),
        figures={"language": partial(draw_accuracies, list(means), {"accuracy": list(means.values())}, marks=trivial)},
        notes=(*grouping.notes, *(alike if shared else ()), *(note for r in results for note in r.notes)),
        data={"sorted": sorted_names},
    )


def draw_accuracies(
    names: Sequence[str], series: Mapping[str, Sequence[Interval]], *, marks: Mapping[str, float] | None = None
) -> Figure:
    """Draws a dot with its interval for each row and series, in %.

    Args:
        names: The names of the rows, at least one.
        series: By name, an accuracy in 0..1 for each row; NaN is not drawn.
        marks: Accuracies in 0..1 to compare with, by name, drawn as vertical lines.
    """
    from matplotlib.figure import Figure

    from taxtune.report.drawing import CYCLE, FAINT, GREY, MARKER_CYCLE

    rows, step, several = np.arange(len(names)), 0.16, len(series) > 1
    figure = Figure(figsize=(7.4, (0.28 + (0.3 if several else 0.12) * len(series)) * len(names) + 1.3))
    figure.set_layout_engine("constrained")
    axes = figure.subplots()
    for i, (shown, intervals) in enumerate(series.items()):
        offset = step * (i - (len(series) - 1) / 2)
        look = {"fmt": MARKER_CYCLE[i % len(MARKER_CYCLE)], "color": CYCLE[i % len(CYCLE)], "label": shown}
        draw_intervals(axes, rows + offset, intervals, scale=100, markersize=5.5, linewidth=1.5, **look)
    for style, (shown, value) in zip((":", "--", "-."), (marks or {}).items(), strict=False):
        axes.axvline(100 * value, color=GREY, linewidth=1, linestyle=style, label=shown)
    axes.set_yticks(rows, [name if len(name) <= _LONGEST else "…" + name[1 - _LONGEST :] for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel("top-1 accuracy, %")
    axes.set_xlim(left=-2)  # a marker at 0 is not cut
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=FAINT, linewidth=0.5)
    axes.set_axisbelow(True)
    if several or marks:
        figure.legend(loc="outside upper center", ncols=min(4, len(series) + len(marks or {})))
    return figure
