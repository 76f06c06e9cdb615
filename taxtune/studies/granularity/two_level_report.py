"""Tables of the two-level and the language-only form of the granularity study."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from taxtune.studies.granularity.accuracies import draw_accuracies
from taxtune.studies.granularity.label_prompts import label_texts
from taxtune.studies.granularity.two_level import Grouping, LanguageOnly, TwoLevel
from taxtune.studies.output import Cell, StudyReport, Table
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["language_report", "two_level_report"]

_COLUMNS = ("FG direct", "CG direct", "CG FG-label", "Δ label", "CG FG-emb", "Δ emb")


def two_level_report(
    results: Sequence[TwoLevel], taxonomy: Taxonomy, grouping: Grouping, settings: dict[str, Any]
) -> StudyReport:
    """Returns the report of the two-level form (paper 3, Table 5)."""
    rows: list[tuple[Cell, ...]] = [
        (r.name, r.images, *(100 * r.accuracy[name].estimate for name in _COLUMNS)) for r in results
    ]
    intervals: list[tuple[Cell, ...]] = [
        (r.name, name, *(100 * value for value in (i.estimate, i.low, i.high)))
        for r in results
        for name, i in r.accuracy.items()
    ]
    digits = {"estimate": 2, "low": 2, "high": 2}
    shown = {
        name: [r.accuracy[name] for r in results]
        for name in _COLUMNS
        if not name.startswith("Δ") and any(np.isfinite(r.accuracy[name].estimate) for r in results)
    }
    return StudyReport(
        study="granularity",
        title="Are coarse classes recognised as well directly as by way of their fine classes?",
        settings=settings,
        tables=(
            Table(
                "two-level",
                "Top-1 accuracy on fine (FG) and coarse (CG) classes, in % (paper 3, Table 5)",
                ("scores", "images", *_COLUMNS),
                tuple(rows),
                digits=dict.fromkeys(_COLUMNS, 2),
                notes=(
                    f"{len(grouping.fine):,} fine and {len(grouping.coarse):,} coarse classes. CG FG-label: the coarse "
                    "class of the predicted fine class; CG FG-emb: by the average of the fine classes' text "
                    "embeddings; Δ: the gain over CG direct.",
                ),
            ),
            Table(
                "intervals",
                "The same with 95 % intervals",
                ("scores", "quantity", "estimate", "low", "high"),
                tuple(intervals),
                digits=digits,
                notes=(f"Percentile bootstrap over the images, {settings.get('resamples', 0):,} resamples.",),
            ),
        ),
        figures={"two-level": lambda: draw_accuracies([r.name for r in results], shown)},
        notes=tuple(dict.fromkeys(note for r in results for note in r.notes)),
        data={"coarse_classes": _classes(taxonomy, grouping)},
    )


def language_report(
    results: Sequence[LanguageOnly], taxonomy: Taxonomy, grouping: Grouping, settings: dict[str, Any]
) -> StudyReport:
    """Returns the report of the language-only form (paper 3, Table 6)."""
    sizes = np.bincount(grouping.parent, minlength=len(grouping.coarse))
    rows: list[tuple[Cell, ...]] = [
        (
            r.name,
            100 * r.accuracy.estimate,
            100 * r.accuracy.low,
            100 * r.accuracy.high,
            int(np.isfinite(r.credit).sum()),
            int(np.isnan(r.credit).sum()),
        )
        for r in results
    ]
    largest = int(sizes.argmax())
    columns = ("encoder", "accuracy", "low", "high", "scored", "unscored")
    digits = dict.fromkeys(columns[1:4], 2)
    names = label_texts(taxonomy, settings.get("label_names", "common"))
    accuracies = {"accuracy": [r.accuracy for r in results]}
    trivial = {
        "at random": 1 / len(grouping.coarse),
        f"always {names[int(grouping.coarse[largest])]}": sizes[largest] / len(grouping.fine),
    }
    return StudyReport(
        study="granularity",
        title="Does the text of a fine class tell its coarse class?",
        settings=settings,
        tables=(
            Table(
                "language",
                "Fine names sorted into coarse classes by their text: accuracy in % (paper 3, Table 6)",
                columns,
                tuple(rows),
                digits=digits,
                notes=(
                    f"{len(grouping.fine):,} fine and {len(grouping.coarse):,} coarse classes. A guess at random is "
                    f"right in {100 / len(grouping.coarse):.2f} %, always {names[int(grouping.coarse[largest])]!r} in "
                    f"{100 * sizes[largest] / len(grouping.fine):.2f} %.",
                    f"95 % percentile bootstrap over the fine classes, {settings.get('resamples', 0):,} resamples.",
                ),
            ),
            _by_class(results, names, grouping, sizes),
        ),
        figures={"language": lambda: draw_accuracies([r.name for r in results], accuracies, marks=trivial)},
        notes=(*grouping.notes, *_shared(names, grouping), *(note for r in results for note in r.notes)),
        data={
            "coarse_classes": _classes(taxonomy, grouping),
            "sorted": {r.name: _sorted(r, names, grouping) for r in results},
        },
    )


def _shared(names: Sequence[str], grouping: Grouping) -> tuple[str, ...]:
    """Returns the note on coarse classes of one name, which no text can tell apart."""
    counts = Counter(names[node] for node in grouping.coarse.tolist())
    shared = {name: count for name, count in counts.items() if count > 1}
    if not shared:
        return ()
    listed = ", ".join(f"{name!r} ({count})" for name, count in shared.items())
    return (f"Coarse classes that share a name cannot be told apart, and share the credit: {listed}.",)


def _by_class(results: Sequence[LanguageOnly], names: Sequence[str], grouping: Grouping, sizes: Any) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for r in results:
        for i in np.argsort(-sizes, kind="stable").tolist():
            own = grouping.parent == i
            credit = r.credit[own]
            scored = credit[np.isfinite(credit)]
            wrong = r.chosen[own & (r.chosen != i) & (r.chosen >= 0)]
            common = "–"
            if wrong.size:
                counts = np.bincount(wrong)
                common = f"{names[int(grouping.coarse[int(counts.argmax())])]} ({int(counts.max())})"
            accuracy = 100 * float(scored.mean()) if scored.size else float("nan")
            rows.append((r.name, names[int(grouping.coarse[i])], int(sizes[i]), accuracy, common))
    return Table(
        "classes",
        "The same by coarse class",
        ("encoder", "coarse class", "fine classes", "accuracy", "most often mistaken for"),
        tuple(rows),
        digits={"accuracy": 1},
    )


def _classes(taxonomy: Taxonomy, grouping: Grouping) -> list[dict[str, Any]]:
    sizes = np.bincount(grouping.parent, minlength=len(grouping.coarse)).tolist()
    return [
        {"path": "/".join(taxonomy.path(node)), "fine_classes": size}
        for node, size in zip(grouping.coarse.tolist(), sizes, strict=True)
    ]


def _sorted(result: LanguageOnly, names: Sequence[str], grouping: Grouping) -> list[dict[str, Any]]:
    coarse = [names[i] for i in grouping.coarse.tolist()]
    return [
        {
            "fine": names[fine],
            "coarse": coarse[parent],
            "chosen": None if chosen < 0 else coarse[chosen],
            "credit": credit,
        }
        for fine, parent, chosen, credit in zip(
            grouping.fine.tolist(),
            grouping.parent.tolist(),
            result.chosen.tolist(),
            result.credit.tolist(),
            strict=True,
        )
    ]
