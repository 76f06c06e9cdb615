"""Fine and coarse classes alone: the two-level form of paper 3 (Table 5) and the one of language only (Table 6).

The coarse class of an image is predicted directly from the coarse names, from the parent of the predicted fine class,
and from the average of the fine classes' text embeddings. In language only the text of the fine class is classified
instead of an image, by an encoder of texts or a chat model.

Two direct answers about an image may contradict each other. *Full path* is the share of images for which both are right
(hierarchical consistent accuracy: Tan, Qing and Gong 2025, arXiv 2505.24840; full-path accuracy: Park et al. 2025,
arXiv 2406.11608), *inconsistent* the share whose fine class does not belong to the coarse one, right or wrong (the
tree-based inconsistency error of the latter).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
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
from taxtune.studies.output import draw_dots, frame_table
from taxtune.taxonomy import Taxonomy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from taxtune.studies.granularity.settings import GranularitySettings

__all__ = ["Classified", "Grouping", "ask_models", "chosen_class", "coarse_cut", "language_chat"]
__all__ += ["language_only", "language_report", "top_one", "two_level", "two_level_report"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Grouping(NamedTuple):
    """Fine classes, the leaves, shape (fine,); the coarse nodes, shape (coarse,); and how they belong together.

    Attributes:
        parent: The position in `coarse` of each fine class, shape (fine,).
        names: The name of each node in a prompt, shape (nodes,).
        notes: Stated, counted exclusions.
    """

    fine: IntArray
    coarse: IntArray
    parent: IntArray
    names: NDArray[np.object_]
    notes: list[str]


def coarse_cut(
    taxonomy: Taxonomy, *, level: int | None = None, labels: Sequence[str] = ()
) -> Grouping:
    """Returns the leaves and the coarse class of each; leaves that are below none are left out and counted.

    Args:
        taxonomy: The tree.
        level: Take the nodes of this level that are no leaves; the root is level 0.
        labels: Or take these nodes: labels, aliases or paths.

    Raises:
        DataError: If not exactly one of the two is given, a class has nothing below it or lies below another, or there
            are fewer than two coarse classes.
        TaxonomyError: If a label is not on the tree.
    """
    if (level is None) == (not labels):
        raise DataError("Give coarse classes either by a level or by their labels, not both.")
    leaves = np.asarray(taxonomy.leaves)
    if level is None:
        coarse = np.array(sorted({taxonomy.resolve(label) for label in labels}), dtype=np.int64)
    else:
        coarse = np.setdiff1d(np.flatnonzero(taxonomy.depth == level), leaves)
    shown = [taxonomy.labels[node] for node in coarse]
    if np.isin(coarse, leaves).any():
        raise DataError("A coarse class has nothing below it.", value=shown)
    if len(coarse) < 2:
        remedy = "Take a level below the root and above the lowest leaves, or two labels."
        raise DataError("There must be at least two coarse classes.", value=shown, remedy=remedy)
    below = taxonomy.is_ancestor(coarse[:, np.newaxis], leaves)
    if (below.sum(axis=0) > 1).any():
        remedy = "Remove one of them: a fine class belongs to only one coarse class."
        raise DataError("A coarse class is below another.", value=shown, remedy=remedy)
    kept, names = below.any(axis=0), np.array(label_texts(taxonomy), dtype=object)
    notes = [
        f"{(~kept).sum():,} of {kept.size:,} fine classes left out: they are not below a coarse class."
    ]
    return Grouping(
        leaves[kept], coarse, below[:, kept].argmax(axis=0), names, [] if kept.all() else notes
    )


def top_one(
    scores: NDArray[np.floating], right: IntArray, group: IntArray | None = None
) -> FloatArray:
    """Returns 1 for each row whose highest score is the right column's, 0 if not, and where columns tie their share.

    Args:
        scores: Shape (rows, columns).
        right: The right class of each row, shape (rows,): a column, or a group of columns.
        group: The group of each column, shape (columns,); by default each column is its own.
    """
    of_column = np.arange(scores.shape[1]) if group is None else group
    best = scores == scores.max(axis=1, keepdims=True)
    hits = best & (of_column == right[:, np.newaxis])
    return np.asarray(hits.sum(axis=1) / best.sum(axis=1), dtype=np.float64)


class Classified(NamedTuple):
    """Classes chosen by one score matrix, encoder or chat model.

    Attributes:
        name: Where the choices are from.
        credit: A row per image or fine class; by column, 1 where it is classified right, 0 where wrong, a share where
            classes tie, NaN where there is no choice.
        notes: Stated, counted exclusions.
        chosen: In language only, the position of the coarse class of each fine class, -1 for none; shape (fine,).
    """

    name: str
    credit: pd.DataFrame
    notes: list[str]
    chosen: IntArray = np.empty(0, dtype=np.int64)

    def intervals(self, settings: GranularitySettings) -> dict[str, Interval]:
        """Returns the mean of each column, in 0..1, with its 95 % bootstrap interval."""
        columns = {str(name): self.credit[name].to_numpy(dtype=float) for name in self.credit}
        return bootstrap(Sample(columns), resamples=settings.resamples, seed=settings.seed)


# -- two levels (Table 5) ---------------------------------------------------------------------------------------------


def two_level(matrix: ScoreMatrix, tree: Taxonomy, grouping: Grouping) -> Classified:
    """Classifies the images into fine and coarse classes; images of other classes are left out and counted.

    Raises:
        DataError: If no image shows a fine class.
    """
    matrix = at_leaves(matrix, tree)
    kept = np.isin(matrix.targets, grouping.fine)
    if not kept.any():
        raise DataError("No image shows a class that is below a coarse class.", file=matrix.name)
    notes = [*matrix.notes, *grouping.notes]
    if not kept.all():
        notes.append(
            f"{int((~kept).sum()):,} of {len(kept):,} images left out: they show none of the fine classes."
        )
    matrix = matrix.of(kept)
    fine = np.searchsorted(grouping.fine, matrix.targets)
    coarse = grouping.parent[fine]
    of_fine, of_coarse = matrix.scores[:, grouping.fine], matrix.scores[:, grouping.coarse]
    credit = pd.DataFrame(
        {"FG direct": top_one(of_fine, fine), "CG direct": top_one(of_coarse, coarse)}
    )
    credit["CG FG-label"] = top_one(of_fine, coarse, grouping.parent)
    # Classes that tie are drawn from alike, fine and coarse ones independently.
    best = [
        (scores == scores.max(axis=1, keepdims=True)).astype(float)
        for scores in (of_fine, of_coarse)
    ]
    of_parent, of_class = (each / each.sum(axis=1, keepdims=True) for each in best)
    of_parent = of_parent @ np.eye(len(grouping.coarse))[grouping.parent]
    credit["full path"] = credit["FG direct"] * credit["CG direct"]
    credit["inconsistent"] = 1 - (of_parent * of_class).sum(axis=1)
    credit["Δ label"] = credit["CG FG-label"] - credit["CG direct"]
    if matrix.image_embeddings is not None and matrix.label_embeddings is not None:
        # The average embedding of the fine classes of each coarse class, at length 1: scores are cosines.
        sums = pd.DataFrame(matrix.label_embeddings[grouping.fine]).groupby(grouping.parent).sum()
        means = unit(sums.to_numpy(dtype=np.float32))
        credit["CG FG-emb"] = top_one(rounded(matrix.image_embeddings @ means.T), coarse)
    else:
        credit["CG FG-emb"] = np.nan
        notes.append(
            "No CG FG-emb: averaging the fine classes' embeddings needs a model or embeddings in the file."
        )
    credit["Δ emb"] = credit["CG FG-emb"] - credit["CG direct"]
    return Classified(matrix.name, credit, notes)


def two_level_report(
    results: Sequence[Classified], grouping: Grouping, settings: GranularitySettings
) -> StudyReport:
    """Returns the report of the two-level form."""
    means = {result.name: result.intervals(settings) for result in results}
    intervals = [
        ((name, column), one) for name, some in means.items() for column, one in some.items()
    ]
    table = pd.DataFrame(
        [{column: 100 * one.estimate for column, one in some.items()} for some in means.values()]
    )
    columns = list(map(str, table.dropna(axis=1, how="all")))
    table.insert(0, "scores", list(means))
    table.insert(1, "images", [len(result.credit) for result in results])
    return StudyReport(
        study="granularity",
        title="Are coarse classes recognised as well directly as through their fine classes?",
        settings=settings.record(),
        tables=(
            frame_table(
                "two-level",
                "Top-1 accuracy on fine (FG) and coarse (CG) classes, in % (paper 3, Table 5)",
                table,
                f"{len(grouping.fine):,} fine and {len(grouping.coarse):,} coarse classes. CG FG-label: the coarse "
                "class of the predicted fine class; CG FG-emb: by the average of the fine classes' text embeddings; "
                "Δ: the gain over CG direct; full path: FG and CG direct are both right; inconsistent: the "
                "fine class does not belong to the coarse one. Classes that share the highest score share the credit.",
                digits=dict.fromkeys(columns, 2),
            ),
            intervals_table(
                ("scores", "quantity"),
                intervals,
                f"Percentile bootstrap over the images, {settings.resamples:,} resamples.",
            ),
        ),
        figures={
            "two-level": partial(
                _draw, [(*of, one) for of, one in intervals if of[1][:2] in ("FG", "CG")]
            )
        },
        notes=tuple(dict.fromkeys(note for result in results for note in result.notes)),
    )


def _draw(accuracies: Sequence[tuple[str, str, Interval]]) -> Figure:
    """Draws accuracies with their intervals: the source of the choices, the way they were made, and the mean."""
    rows = [("", name, way, one.estimate, one.low, one.high) for name, way, one in accuracies]
    frame = pd.DataFrame(rows, columns=["panel", "name", "series", "estimate", "low", "high"])
    return draw_dots(frame, "top-1 accuracy, %", scale=100)


# -- language only (Table 6) ------------------------------------------------------------------------------------------


def ask_models(settings: GranularitySettings, grouping: Grouping) -> list[Classified]:
    """Classifies the fine names by their text, with each encoder and chat model of the settings."""
    templates, results = read_label_prompts(settings.templates or "label"), []
    for spec in settings.model:
        if not spec.startswith("llm:"):
            results.append(language_only(make_encoder(spec, settings), grouping, templates))
            continue
        from taxtune.models import ModelSettings, check_model, make_model, open_replies

        shared = {name: getattr(settings, name) for name in ("api_base", "concurrency", "device")}
        llm = make_model(
            spec.removeprefix("llm:"),
            ModelSettings(task="text-generation", **shared, max_tokens=64),
        )
        check_model(llm)
        with open_replies(settings.cache_dir) as store:
            results.append(language_chat(llm, shown_name(spec), grouping, store=store))
    return results


def language_only(encoder: TextEncoder, grouping: Grouping, templates: Sequence[str]) -> Classified:
    """Classifies each fine class as the coarse class whose text is nearest to its own.

    The embeddings of a label's prompts, one per template, are averaged.

    Raises:
        ModelError: If the encoder gives no vector for a class.
    """
    fine, coarse = (
        embed_labels(encoder, templates, grouping.names[n].tolist())
        for n in (grouping.fine, grouping.coarse)
    )
    check_vectors(encoder.name, {"fine classes": fine, "coarse classes": coarse})
    scores = rounded(fine @ coarse.T)
    credit = pd.DataFrame({"accuracy": top_one(scores, grouping.parent)})
    return Classified(shown_name(encoder.name), credit, [], scores.argmax(axis=1))


def language_chat(
    llm: Model, name: str, grouping: Grouping, *, store: AnswerStore | None = None
) -> Classified:
    """Classifies each fine class as the coarse class that a chat model names (the generative row of the table).

    A reply that names no class, or several, and a failed call are unscored and counted, never wrong.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(prompts_dir() / "granularity"), undefined=StrictUndefined
    )
    template = environment.get_template("coarse_class.j2")
    kinds = grouping.names[grouping.coarse].tolist()
    prompts = [template.render(kinds=kinds, thing=thing) for thing in grouping.names[grouping.fine]]
    replies = ask(llm, [Request(prompt) for prompt in prompts], store)
    chosen = np.array(
        [chosen_class(r.text, kinds) if isinstance(r, Answer) else -1 for r in replies],
        dtype=np.int64,
    )
    failed = sum(not isinstance(reply, Answer) for reply in replies)
    unclear = int((chosen < 0).sum()) - failed
    notes = [
        f"{name}: {n:,} of {len(replies):,} {what}: unscored."
        for n, what in ((unclear, "replies name no class or several"), (failed, "calls failed"))
        if n
    ]
    credit = pd.DataFrame({"accuracy": np.where(chosen < 0, np.nan, chosen == grouping.parent)})
    return Classified(name, credit, notes, chosen)


def chosen_class(reply: str, kinds: Sequence[str]) -> int:
    """Returns the position of the class that a reply names, or -1 if it names none or several.

    A reply that is a class's name counts as it is; otherwise the one name that stands in it on word boundaries, where
    a name inside a longer one ("fish" in "food fish") does not count.
    """
    plain = reply.strip().strip(".*\"'`-: ").casefold()
    folded = [kind.casefold() for kind in kinds]
    named = {plain} & set(folded)
    if not named:
        longest_first = "|".join(map(re.escape, sorted(set(folded), key=len, reverse=True)))
        named = set(re.findall(rf"(?<!\w)(?:{longest_first})(?!\w)", reply.casefold()))
    positions = [i for i, kind in enumerate(folded) if kind in named]
    return positions[0] if len(positions) == 1 else -1


def language_report(
    results: Sequence[Classified], grouping: Grouping, settings: GranularitySettings
) -> StudyReport:
    """Returns the report of the language-only form, from one or more models' choices."""
    fine, coarse = grouping.names[grouping.fine], grouping.names[grouping.coarse]
    sizes = np.bincount(grouping.parent, minlength=len(coarse))
    names = distinct_names([result.name for result in results])
    means = [result.intervals(settings)["accuracy"] for result in results]
    data, rows, classes = {}, [], []
    for name, mean, (_, credit, _, chosen) in zip(names, means, results, strict=True):
        choices = pd.DataFrame({"fine": fine, "coarse": coarse[grouping.parent]})
        choices["chosen"] = pd.Series([None if i < 0 else coarse[i] for i in chosen], dtype=object)
        choices["credit"] = credit["accuracy"]
        data[name] = choices.to_dict("records")
        scored = int(choices["credit"].notna().sum())
        rows.append(
            (
                name,
                *(100 * end for end in (mean.estimate, mean.low, mean.high)),
                scored,
                len(fine) - scored,
            )
        )
        for i in np.argsort(-sizes, kind="stable").tolist():
            own = choices[grouping.parent == i]
            mistaken = (
                own.loc[chosen[grouping.parent == i] != i, "chosen"].value_counts().sort_index()
            )
            common = f"{mistaken.idxmax()} ({mistaken.max()})" if len(mistaken) else "–"
            classes.append((name, coarse[i], len(own), 100 * own["credit"].mean(), common))
    notes = [*grouping.notes, *(note for result in results for note in result.notes)]
    if alike := [
        f"{kind!r} ({count})" for kind, count in Counter(coarse.tolist()).items() if count > 1
    ]:
        notes.append(
            f"Coarse classes that share a name cannot be distinguished and share the credit: {', '.join(alike)}."
        )
    columns = ["encoder", "accuracy", "low", "high", "scored", "unscored"]
    by_class = pd.DataFrame(
        classes, columns=["encoder", "coarse class", "fine classes", "accuracy", "mistaken for"]
    )
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
                f"{100 / len(coarse):.2f} %; always answering {coarse[sizes.argmax()]!r}, in "
                f"{100 * sizes.max() / len(fine):.2f} %.",
                f"95 % percentile bootstrap over the fine classes, {settings.resamples:,} resamples.",
                digits=dict.fromkeys(columns[1:4], 2),
            ),
            frame_table("classes", "The same by coarse class", by_class, digits={"accuracy": 1}),
        ),
        figures={
            "language": partial(
                _draw, [(name, "", mean) for name, mean in zip(names, means, strict=True)]
            )
        },
        notes=tuple(notes),
        data={"sorted": data},
    )
