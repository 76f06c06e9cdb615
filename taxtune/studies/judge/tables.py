"""The judge study's tables: correlations, their differences, groups, and what VQA accuracy misses."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from taxtune.metrics.statistics import percentiles, two_sided_p
from taxtune.studies.judge.bootstrap import Correlations
from taxtune.studies.judge.human_ratings import RatedAnswer
from taxtune.studies.output import Cell, Table
from taxtune.studies.published import published

__all__ = ["differences_table", "groups_table", "main_table", "missed_table", "paper_table"]

FloatArray = NDArray[np.float64]

# An answer that people call correct is missed by VQA accuracy below this (paper 4, "Does LAVE Fix VQA Accuracy's
# Failures?").
_MISSED = 0.5

_MAIN_COLUMNS = (
    "measure",
    "answers",
    "unscored",
    "mean score",
    "Spearman ρ",
    "ρ low",
    "ρ high",
    "Kendall τ",
    "τ low",
    "τ high",
    "paper 4 ρ",
)


def main_table(
    names: Sequence[str],
    kinds: Sequence[str],
    scores: FloatArray,
    unscored: NDArray[np.int64],
    common: NDArray[np.bool_],
    found: Correlations,
) -> Table:
    """Returns the correlations with their intervals, the paper's beside them.

    Args:
        names: The measures, as they are printed.
        kinds: Their kinds ("rouge-1", "lave").
        scores: Their scores, shape (measures, answers); NaN is unscored.
        unscored: How many answers each left unscored.
        common: The answers that are compared.
        found: The correlations over these.
    """
    # LAVE's own row depends on the language model, and none of the paper's three need be the one used here.
    printed = {row["measure"]: row["overall"] for row in published("paper4-table2") if row["measure"] != "lave"}
    rows: list[tuple[Cell, ...]] = []
    for i, name in enumerate(names):
        paper = printed.get(kinds[i])
        rows.append(
            (
                name,
                int(common.sum()),
                int(unscored[i]),
                float(scores[i, common].mean()),  # NaN, a dash, where the measure scored nothing
                float(found.rho[i]),
                *(percentiles(found.rho_resamples[:, i]) if np.isfinite(found.rho[i]) else (None, None)),
                float(found.tau[i]),
                *(percentiles(found.tau_resamples[:, i]) if np.isfinite(found.tau[i]) else (None, None)),
                paper / 100 if isinstance(paper, float) else None,
            )
        )
    return Table(
        "correlations",
        "Correlation with human ratings",
        _MAIN_COLUMNS,
        tuple(rows),
        notes=(
            "ρ and τ (tau-b) over the answers that every measure scored, with 95 % percentile bootstrap intervals.",
            "paper 4 ρ: its Table 2, overall, on 22,100 rated answers to VQAv2, VG-QA and OK-VQA.",
            "– means undefined: the scores, or the ratings, are all the same, or nothing was scored.",
        ),
    )


def differences_table(names: Sequence[str], live: NDArray[np.int64], found: Correlations) -> Table:
    """Returns the difference of ρ of each pair of measures, with its interval and p-values.

    Args:
        names: The measures that have scores.
        live: Their places in `found`.
        found: The correlations.
    """
    from scipy import stats

    rows: list[list[Cell]] = []
    p_values: list[float] = []
    for a in range(len(names)):
        for b in range(a + 1, len(names)):
            first, second = found.rho_resamples[:, live[a]], found.rho_resamples[:, live[b]]
            both = np.isfinite(first) & np.isfinite(second)
            change = first[both] - second[both]
            estimate = float(found.rho[live[a]] - found.rho[live[b]])
            if not np.isfinite(estimate) or not change.size:
                rows.append([names[a], names[b], None, None, None, None, None, None])
                p_values.append(float("nan"))
                continue
            p = two_sided_p(change)
            t_test = float("nan")
            if np.ptp(change) > 0:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", RuntimeWarning)  # a correlation of 1 in every resample
                    t_test = float(stats.ttest_ind(first[both], second[both], equal_var=False).pvalue)
            p_values.append(p)
            rows.append([names[a], names[b], estimate, *percentiles(change), p, None, t_test])
    for row, adjusted in zip(rows, _holm(p_values), strict=True):
        row[6] = adjusted
    return Table(
        "differences",
        "Differences of Spearman's ρ",
        ("measure", "other", "difference", "low", "high", "p", "p (Holm)", "p (t-test)"),
        tuple(map(tuple, rows)),
        digits={"p": 4, "p (Holm)": 4, "p (t-test)": 4},
        notes=(
            "p: paired bootstrap, two-sided; the same resamples of the answers for both measures. Use this one, or its "
            "Holm adjustment over all pairs.",
            "p (t-test): as paper 4 words it, a t-test between the two sets of resampled correlations. More resamples "
            "make it as small as one likes, whatever the number of answers; it is shown for comparison only.",
        ),
    )


def _holm(p_values: Sequence[float]) -> list[float | None]:
    """Returns p-values adjusted for all being looked at (Holm, 1979); None for those that are undefined."""
    order = sorted((p, i) for i, p in enumerate(p_values) if np.isfinite(p))
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, i) in enumerate(order):
        highest = max(highest, min(1.0, p * (len(order) - rank)))
        adjusted[i] = highest
    return adjusted


def groups_table(names: Sequence[str], found: Correlations, by_group: Mapping[str, tuple[Correlations, int]]) -> Table:
    """Returns ρ of each measure in each group, and over all answers.

    Args:
        names: The measures.
        found: Their correlations over all answers.
        by_group: Their correlations and the number of answers by group.
    """
    rows: list[tuple[Cell, ...]] = []
    for i, name in enumerate(names):
        inside = [float(group.rho[i]) for group, _ in by_group.values()]
        rows.append((name, *inside, float(found.rho[i])))
    sizes = ", ".join(f"{group}: {count:,}" for group, (_, count) in by_group.items())
    return Table(
        "groups",
        "Spearman's ρ by group",
        ("measure", *by_group, "all"),
        tuple(rows),
        notes=(f"Answers: {sizes}.", "Kendall's τ and the intervals of the groups are in the figure and in --json."),
    )


def missed_table(
    names: Sequence[str],
    kinds: Sequence[str],
    scores: FloatArray,
    human: FloatArray,
    common: NDArray[np.bool_],
    rows: Sequence[RatedAnswer],
) -> Table | None:
    """Returns the mean scores of answers that people call correct and VQA accuracy does not, by category (Figure 4).

    Args:
        names: The measures.
        kinds: Their kinds.
        scores: Their scores, shape (measures, answers).
        human: The ratings.
        common: The answers that are compared.
        rows: The answers.

    Returns:
        The table, or None where VQA accuracy is not among the measures or the ratings do not lie between 0 and 1.
    """
    if "vqa-accuracy" not in kinds or human.min() < 0 or human.max() != 1:
        return None
    vqa = kinds.index("vqa-accuracy")
    missed = common & (human == 1) & (scores[vqa] < _MISSED)
    lucky = int((common & (human == 0) & (scores[vqa] > _MISSED)).sum())
    categories = list(dict.fromkeys(row.category for row in rows if row.category))
    shown: list[tuple[Cell, ...]] = []
    for name in [*categories, ""]:
        chosen = missed & np.array([not name or row.category == name for row in rows])
        count = int(chosen.sum())
        means: list[Cell] = [float(line[chosen].mean()) if count else None for line in scores]
        shown.append((name or "all", count, count / int(common.sum()), *means))
    return Table(
        "missed",
        f"Correct answers that VQA accuracy misses (people: 1, VQA accuracy below {_MISSED})",
        ("category", "answers", "share", *names),
        tuple(shown),
        notes=(
            f"The other way round, people: 0 and VQA accuracy above {_MISSED}: {lucky:,} answers.",
            "Paper 4: 16.33 % of its answers are missed and 1.72 % the other way round.",
        ),
    )


def paper_table(name: str) -> Table:
    """Returns paper 4's Table 2 or 3 ("paper4-table2", "paper4-table3") as printed."""
    printed = published(name)
    columns = tuple(column for column in printed[0] if column != "measure")
    titles = {
        "paper4-table2": "Paper 4, Table 2: Spearman's ρ × 100 by VQA model and data set",
        "paper4-table3": "Paper 4, Table 3: Spearman's ρ × 100 of LAVE with Flan-T5, its prompt varied",
    }
    return Table(
        name,
        titles[name],
        columns,
        tuple(tuple(row[column] for column in columns) for row in printed),
        digits=dict.fromkeys(columns, 2),
        notes=("As printed; not made here.",),
    )
