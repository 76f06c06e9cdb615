"""Fine and coarse classes alone: the two-level form of paper 3 (Table 5) and the one of language only (Table 6).

The coarse class of an image is predicted directly from the coarse names, from the parent of the predicted fine class,
and from the average of the fine classes' text embeddings. With no image at all, the fine class's own text takes the
image's place: does the encoder of texts, or a chat model, know what the fine name is a kind of?
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taxtune.encoders.base import TextEncoder
from taxtune.errors import DataError
from taxtune.metrics.statistics import Interval, Sample, bootstrap
from taxtune.models import Answer, AnswerStore, Model, Request, ask
from taxtune.report.output import Cell, StudyReport, Table, intervals_table
from taxtune.resources import prompts_dir
from taxtune.studies.embedding import check_vectors, embed_labels, rounded, shown_name, unit
from taxtune.studies.granularity.figure import draw_accuracies
from taxtune.studies.granularity.scores import ScoreMatrix, at_leaves
from taxtune.taxonomy import Taxonomy
from taxtune.taxonomy.label_graph import LabelGraph

__all__ = [
    "Grouping",
    "LanguageOnly",
    "TwoLevel",
    "chosen_class",
    "coarse_cut",
    "language_chat",
    "language_only",
    "language_report",
    "top_one",
    "two_level",
    "two_level_report",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_COLUMNS = ("FG direct", "CG direct", "CG FG-label", "Δ label", "CG FG-emb", "Δ emb")


@dataclass(frozen=True, slots=True)
class Grouping:
    """Fine classes and the coarse class of each.

    Attributes:
        fine: The leaves, shape (fine,).
        coarse: The coarse nodes, shape (coarse,).
        parent: The position in `coarse` of each fine class, shape (fine,).
        notes: Stated, counted exclusions.
    """

    fine: IntArray
    coarse: IntArray
    parent: IntArray
    notes: tuple[str, ...]

    @property
    def sizes(self) -> IntArray:
        """How many fine classes each coarse class has, shape (coarse,)."""
        return np.bincount(self.parent, minlength=len(self.coarse))

    def records(self, taxonomy: Taxonomy) -> list[dict[str, Any]]:
        """Returns the path and the size of each coarse class, for JSON."""
        paths = ["/".join(taxonomy.path(node)) for node in self.coarse.tolist()]
        return [{"path": path, "fine_classes": n} for path, n in zip(paths, self.sizes.tolist(), strict=True)]


def coarse_cut(taxonomy: Taxonomy, *, level: int | None = None, labels: Sequence[str] = ()) -> Grouping:
    """Returns the leaves and the coarse class of each; leaves that are below none are left out and counted.

    Args:
        taxonomy: The tree.
        level: Take the nodes of this level, the root being level 0, that are no leaves themselves.
        labels: Or take these nodes: labels, aliases or paths.

    Raises:
        DataError: If not one of the two is given, there is no such level, a class has nothing below it or lies below
            another, or fewer than two coarse classes are left.
        TaxonomyError: If a label is not on the tree.
    """
    if (level is None) == (not labels):
        raise DataError("Give coarse classes either by a level or by their labels, not both.")
    if level is None:
        coarse = np.array(sorted({taxonomy.resolve(label) for label in labels}), dtype=np.int64)
    else:
        if taxonomy.height < 2:
            raise DataError("The taxonomy has no level between its root and its leaves.", value=level)
        if not 1 <= level < taxonomy.height:
            raise DataError(
                "The coarse level must be below the root and above the lowest leaves.",
                value=level,
                remedy=f"Take 1 to {taxonomy.height - 1}.",
            )
        coarse = np.setdiff1d(np.flatnonzero(taxonomy.depth == level), taxonomy.leaves)
    names = taxonomy.labels
    for node in coarse.tolist():
        if node in taxonomy.leaves:
            raise DataError("A coarse class has nothing below it.", value=names[node])
        above = np.intersect1d(taxonomy.ancestors(node)[:-1], coarse)
        if above.size:
            raise DataError(
                f"The coarse class {names[node]!r} is below another, {names[int(above[0])]!r}.",
                remedy="Remove one of them: a fine class belongs to only one coarse class.",
            )
    if len(coarse) < 2:
        raise DataError("There must be at least two coarse classes.", value=[names[i] for i in coarse])
    position = {node: i for i, node in enumerate(coarse.tolist())}
    leaves = taxonomy.leaves
    parents = np.array(
        [next((position[a] for a in taxonomy.ancestors(v).tolist() if a in position), -1) for v in leaves]
    )
    kept = parents >= 0
    lost = int((~kept).sum())
    notes = (f"{lost:,} of {len(leaves):,} fine classes left out: they are not below a coarse class.",) if lost else ()
    return Grouping(leaves[kept], coarse, parents[kept], notes)


def top_one(scores: NDArray[np.floating], right: IntArray, group: IntArray | None = None) -> FloatArray:
    """Returns the credit of each row for its highest score: 1 if it is the right column's, 0 if not.

    Where several columns share the highest score the credit is the share of them that are right, so that the order of
    the columns does not matter.

    Args:
        scores: Shape (rows, columns).
        right: The right class of each row, shape (rows,): a column, or a group of columns.
        group: The group of each column, shape (columns,); by default each column is its own.
    """
    of_column = np.arange(scores.shape[1]) if group is None else group
    best = scores == scores.max(axis=1, keepdims=True)
    hits = best & (of_column[np.newaxis, :] == right[:, np.newaxis])
    return np.asarray(hits.sum(axis=1) / best.sum(axis=1), dtype=np.float64)


# -- two levels (Table 5) ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TwoLevel:
    """Top-1 accuracies of one score matrix, in 0..1, with intervals.

    Attributes:
        name: Where the scores are from.
        images: How many images were classified.
        accuracy: By name of the table's columns; those by averaged embeddings are NaN where there are none.
        notes: Stated, counted exclusions.
    """

    name: str
    images: int
    accuracy: dict[str, Interval]
    notes: tuple[str, ...]


def two_level(
    matrix: ScoreMatrix, taxonomy: Taxonomy, grouping: Grouping, *, resamples: int = 1000, seed: int = 0
) -> TwoLevel:
    """Returns the top-1 accuracies of fine and coarse classes.

    Args:
        matrix: The scores.
        taxonomy: The tree.
        grouping: The fine and the coarse classes; images of other classes are left out and counted.
        resamples: Bootstrap resamples of the images; 0 for no intervals.
        seed: Seed of the resampling.

    Raises:
        DataError: If no image shows a fine class.
    """
    matrix = at_leaves(matrix, LabelGraph.of(taxonomy))
    place = np.full(len(taxonomy), -1, dtype=np.int64)
    place[grouping.fine] = np.arange(len(grouping.fine))
    kept = place[matrix.targets] >= 0
    notes = [*matrix.notes, *grouping.notes]
    if not kept.any():
        raise DataError("No image shows a class that is below a coarse class.", file=matrix.name)
    if not kept.all():
        notes.append(f"{int((~kept).sum()):,} of {len(kept):,} images left out: they show none of the fine classes.")
    matrix = matrix.of(kept)
    fine = place[matrix.targets]
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
    tied = int(((of_fine == of_fine.max(axis=1, keepdims=True)).sum(axis=1) > 1).sum())
    if tied:
        notes.append(
            f"{tied:,} images have several fine classes with the highest score; each counts by the share of them "
            "that is right."
        )
    sample = Sample({name: credits[name] for name in _COLUMNS})
    return TwoLevel(matrix.name, len(fine), bootstrap(sample, resamples=resamples, seed=seed), tuple(notes))


def two_level_report(
    results: Sequence[TwoLevel], taxonomy: Taxonomy, grouping: Grouping, settings: dict[str, Any]
) -> StudyReport:
    """Returns the report of the two-level form."""
    shown = {
        name: [r.accuracy[name] for r in results]
        for name in _COLUMNS
        if not name.startswith("Δ") and any(np.isfinite(r.accuracy[name].estimate) for r in results)
    }
    return StudyReport(
        study="granularity",
        title="Are coarse classes recognised as well directly as through their fine classes?",
        settings=settings,
        tables=(
            Table(
                "two-level",
                "Top-1 accuracy on fine (FG) and coarse (CG) classes, in % (paper 3, Table 5)",
                ("scores", "images", *_COLUMNS),
                tuple((r.name, r.images, *(100 * r.accuracy[name].estimate for name in _COLUMNS)) for r in results),
                digits=dict.fromkeys(_COLUMNS, 2),
                notes=(
                    f"{len(grouping.fine):,} fine and {len(grouping.coarse):,} coarse classes. CG FG-label: the coarse "
                    "class of the predicted fine class; CG FG-emb: by the average of the fine classes' text "
                    "embeddings; Δ: the gain over CG direct.",
                ),
            ),
            intervals_table(
                ("scores", "quantity"),
                (((r.name, name), found) for r in results for name, found in r.accuracy.items()),
                f"Percentile bootstrap over the images, {settings.get('resamples', 0):,} resamples.",
            ),
        ),
        figures={"two-level": partial(draw_accuracies, [r.name for r in results], shown)},
        notes=tuple(dict.fromkeys(note for r in results for note in r.notes)),
        data={"coarse_classes": grouping.records(taxonomy)},
    )


# -- language only (Table 6) ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LanguageOnly:
    """Accuracy of fine names sorted into coarse classes by their text.

    Attributes:
        name: The encoder or the chat model.
        accuracy: The share of fine classes that are sorted right, with its interval over the fine classes.
        credit: 1 for each fine class sorted right, 0 if wrong, a share where coarse classes tie, NaN where a chat model
            gave no class; shape (fine,).
        chosen: The position of the coarse class chosen for each fine class, -1 where none was; shape (fine,).
        notes: What was left out, with counts.
    """

    name: str
    accuracy: Interval
    credit: FloatArray
    chosen: IntArray
    notes: tuple[str, ...] = ()


def language_only(
    encoder: TextEncoder,
    names: Sequence[str],
    grouping: Grouping,
    templates: Sequence[str],
    *,
    resamples: int = 1000,
    seed: int = 0,
) -> LanguageOnly:
    """Returns how often a fine class's text is nearest to its coarse class's text.

    Args:
        encoder: An encoder of texts.
        names: The name of each node as it stands in a prompt.
        grouping: The fine and the coarse classes.
        templates: Prompt templates, for both; the embeddings of a label's prompts are averaged.
        resamples: Bootstrap resamples of the fine classes; 0 for no interval.
        seed: Seed of the resampling.

    Raises:
        ModelError: If the encoder gives no vector for a class.
    """
    fine, coarse = (
        embed_labels(encoder, templates, [names[i] for i in nodes.tolist()])
        for nodes in (grouping.fine, grouping.coarse)
    )
    check_vectors(encoder.name, {"fine classes": fine, "coarse classes": coarse})
    scores = rounded(fine @ coarse.T)
    credit = top_one(scores, grouping.parent)
    accuracy = bootstrap(Sample({"": credit}), resamples=resamples, seed=seed)[""]
    return LanguageOnly(shown_name(encoder.name), accuracy, credit, scores.argmax(axis=1))


def language_chat(
    llm: Model,
    name: str,
    names: Sequence[str],
    grouping: Grouping,
    *,
    store: AnswerStore | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> LanguageOnly:
    """Returns how often a chat model names the coarse class of a fine name (the generative row of the table).

    A reply that names no class, or several, and a failed call are unscored and counted, never wrong.

    Args:
        llm: The chat model.
        name: How it is called in the table.
        names: The name of each node as it stands in the prompt.
        grouping: The fine and the coarse classes.
        store: Where replies are kept, or None.
        resamples: Bootstrap resamples of the fine classes; 0 for no interval.
        seed: Seed of the resampling.
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
    credit = np.where(chosen < 0, np.nan, chosen == grouping.parent)
    notes = [
        f"{name}: {n:,} of {len(replies):,} {what}: unscored."
        for n, what in ((unclear, "replies name no class or several"), (failed, "calls failed"))
        if n
    ]
    accuracy = bootstrap(Sample({"": credit}), resamples=resamples, seed=seed)[""]
    return LanguageOnly(name, accuracy, credit, chosen, tuple(notes))


def chosen_class(reply: str, kinds: Sequence[str]) -> int:
    """Returns the position of the class that a reply names, or -1 if it names none or several.

    A reply that is a class's name counts as it is; otherwise the one name that stands in it on word boundaries, where
    a name inside a longer one ("fish" in "food fish") does not count.
    """
    plain = reply.strip().strip(".*\"'`-: ").casefold()
    folded = [kind.casefold() for kind in kinds]
    named = {plain} & set(folded)
    if not named or folded.count(plain) > 1:
        rest = reply.casefold()
        for kind in sorted(set(folded), key=len, reverse=True):
            rest, found = re.subn(rf"(?<!\w){re.escape(kind)}(?!\w)", " ; ", rest)
            named |= {kind} if found else set()
    places = [i for i, kind in enumerate(folded) if kind in named]
    return places[0] if len(places) == 1 else -1


def language_report(
    results: Sequence[LanguageOnly],
    taxonomy: Taxonomy,
    grouping: Grouping,
    names: Sequence[str],
    settings: dict[str, Any],
) -> StudyReport:
    """Returns the report of the language-only form."""
    fine, coarse = ([names[i] for i in nodes.tolist()] for nodes in (grouping.fine, grouping.coarse))
    largest = int(grouping.sizes.argmax())
    trivial = {
        "at random": 1 / len(coarse),
        f"always {coarse[largest]}": float(grouping.sizes[largest]) / len(fine),
    }
    random, always = trivial.values()
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            r.name,
            *(100 * value for value in (r.accuracy.estimate, r.accuracy.low, r.accuracy.high)),
            int(np.isfinite(r.credit).sum()),
            int(np.isnan(r.credit).sum()),
        )
        for r in results
    )
    shared = [f"{name!r} ({count})" for name, count in Counter(coarse).items() if count > 1]
    alike = f"Coarse classes that share a name cannot be distinguished and share the credit: {', '.join(shared)}."
    sorted_names = {
        r.name: [
            {"fine": name, "coarse": coarse[parent], "chosen": None if best < 0 else coarse[best], "credit": credit}
            for name, parent, best, credit in zip(
                fine, grouping.parent.tolist(), r.chosen.tolist(), r.credit.tolist(), strict=True
            )
        ]
        for r in results
    }
    columns = ("encoder", "accuracy", "low", "high", "scored", "unscored")
    return StudyReport(
        study="granularity",
        title="Does the text of a fine class reveal its coarse class?",
        settings=settings,
        tables=(
            Table(
                "language",
                "Fine names assigned to coarse classes by their text: accuracy in % (paper 3, Table 6)",
                columns,
                rows,
                digits=dict.fromkeys(columns[1:4], 2),
                notes=(
                    f"{len(fine):,} fine and {len(coarse):,} coarse classes. A random guess is right in "
                    f"{100 * random:.2f} %; always answering {coarse[largest]!r}, in {100 * always:.2f} %.",
                    f"95 % percentile bootstrap over the fine classes, {settings.get('resamples', 0):,} resamples.",
                ),
            ),
            _by_class(results, coarse, grouping),
        ),
        figures={
            "language": partial(
                draw_accuracies, [r.name for r in results], {"accuracy": [r.accuracy for r in results]}, marks=trivial
            )
        },
        notes=(*grouping.notes, *((alike,) if shared else ()), *(note for r in results for note in r.notes)),
        data={"coarse_classes": grouping.records(taxonomy), "sorted": sorted_names},
    )


def _by_class(results: Sequence[LanguageOnly], coarse: Sequence[str], grouping: Grouping) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for r in results:
        for i in np.argsort(-grouping.sizes, kind="stable").tolist():
            own = grouping.parent == i
            scored = r.credit[own & np.isfinite(r.credit)]
            wrong = r.chosen[own & (r.chosen != i) & (r.chosen >= 0)]
            common = "–"
            if wrong.size:
                counts = np.bincount(wrong)
                common = f"{coarse[int(counts.argmax())]} ({int(counts.max())})"
            accuracy = 100 * float(scored.mean()) if scored.size else float("nan")
            rows.append((r.name, coarse[i], int(own.sum()), accuracy, common))
    return Table(
        "classes",
        "The same by coarse class",
        ("encoder", "coarse class", "fine classes", "accuracy", "most often mistaken for"),
        tuple(rows),
        digits={"accuracy": 1},
    )
