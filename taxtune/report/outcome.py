"""The first screen of a report: what each template gained against its baseline, what that cost, and what was possible.

Three sentences a template, on the same yardstick whatever it was tuned for, and beside them the table of what became of
the answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from taxtune.report import wording
from taxtune.report.changes import (
    BETTER,
    DIFFERENT,
    EXACT,
    GENERAL,
    MISSING,
    STATES,
    UNCHANGED,
    WORSE,
    WRONG,
    Changes,
    compare,
)
from taxtune.report.wording import Result, metric_name, number, p_value, signed
from taxtune.tuning.records import HeldoutResult, TuneResult

__all__ = ["SYMBOLS", "outcome_sentences", "outcomes"]

#: A sign for each direction, so that none is told by its colour alone.
SYMBOLS = {BETTER: "▲", WORSE: "▼", DIFFERENT: "◆", UNCHANGED: "=", MISSING: "?"}
#: The changes that are told of every template even if they did not happen, since a reader would look for them.
_ALWAYS = {BETTER: (WRONG, (EXACT, GENERAL)), WORSE: (EXACT, (GENERAL, WRONG))}
#: How many ways of change a sentence tells, the most frequent first; the table beside it has them all.
_NAMED = 4


def outcomes(result: Result) -> list[dict[str, Any]]:
    """Returns what the first screen says of each template that has a baseline: its name, sentences and table."""
    shown = []
    for held in _contenders(result):
        baseline = result.baseline_of(held.name)
        assert baseline is not None
        changes = compare(baseline, held)
        run = dict(result.named_runs).get(held.name)
        shown.append(
            {
                "subject": result.contenders.index(held.name),
                "heading": _heading(held.name, run),
                "sentences": _sentences(result, held, baseline, changes, run),
                "table": _table(changes) if changes.answered and not _same(held, baseline, changes) else None,
                "missing": changes.directions[MISSING],
                "total": len(changes.each),
            }
        )
    return shown


def outcome_sentences(result: Result) -> dict[str, str]:
    """Returns what became of the answers with each template that has a baseline, in a sentence, by its name."""
    found = {}
    for held in _contenders(result):
        baseline = result.baseline_of(held.name)
        assert baseline is not None
        changes = compare(baseline, held)
        if changes.answered:
            found[held.name] = _answers(held, baseline, changes, dict(result.named_runs).get(held.name))
    return found


def _contenders(result: Result) -> list[HeldoutResult]:
    return [
        held for held in result.heldout if held.name in result.contenders and result.baseline_of(held.name) is not None
    ]


def _heading(name: str, run: TuneResult | None) -> str:
    run_name, colon, own = name.rpartition(": ")
    what = wording.template_name(own) if run is None else f"tuned for {metric_name(run.objective)}"
    return f"{run_name}{colon}{what}" if colon else f"{what[:1].upper()}{what[1:]}"


def _sentences(
    result: Result, held: HeldoutResult, baseline: HeldoutResult, changes: Changes, run: TuneResult | None
) -> list[str]:
    if not changes.answered:
        return [f"No {held.split} image has an answer to both templates, so that there is nothing to compare."]
    said = [_answers(held, baseline, changes, run)]
    if _same(held, baseline, changes):
        return said
    return [*said, _scores(result, held, baseline, run), _limits(changes, run)]


def _same(held: HeldoutResult, baseline: HeldoutResult, changes: Changes) -> bool:
    """Tells whether a template is the baseline itself, placed alike."""
    return held.template == baseline.template and set(changes.directions) <= {UNCHANGED, MISSING}


def _answers(held: HeldoutResult, baseline: HeldoutResult, changes: Changes, run: TuneResult | None) -> str:
    """Returns what was gained and what was lost."""
    count, found = changes.answered, changes.directions
    if _same(held, baseline, changes):
        why = "" if run is None else ", since no template that was tried did better on the tuning images"
        what = "template" if run is None else "winner"
        return (
            f"The {what} is the baseline itself{why}: nothing is gained and nothing lost on the {count:,} {held.split} "
            f"image{_s(count)}."
        )
    better, worse = (_counted(changes, direction) for direction in (BETTER, WORSE))
    rest = [f"{found[UNCHANGED]:,} {_are(found[UNCHANGED])} unchanged"]
    if found[DIFFERENT]:
        rest.append(f"{found[DIFFERENT]:,} {_are(found[DIFFERENT])} wrong in another way")
    if found[MISSING]:
        rest.append(f"{found[MISSING]:,} more {_are(found[MISSING])} without an answer and not counted")
    have = "has" if 1 in (found[BETTER], count) else "have"
    return (
        f"{found[BETTER] or 'None'} of {count:,} {held.split} image{_s(count)} {have} a better answer than with the "
        f"baseline{better}, and {found[WORSE] or 'none'} a worse one{worse}; {', '.join(rest)}."
    )


def _counted(changes: Changes, direction: str) -> str:
    """Returns the ways in which answers got better, or worse, with their counts that sum to all, in brackets."""
    before, after = _ALWAYS[direction]
    found = changes.worded(direction)
    if not found:
        return ""
    always = [f"{before} → {state}" for state in after if any(change.states[0] == before for change in changes.each)]
    named = [words for i, words in enumerate(found) if i < _NAMED or words in always]
    counts = {words: found[words] for words in named} | {words: 0 for words in always if words not in found}
    if len(named) < len(found):
        counts["otherwise"] = sum(found.values()) - sum(counts.values())
    return f" ({', '.join(f'{words} {count:,}' for words, count in counts.items())})"


def _scores(result: Result, held: HeldoutResult, baseline: HeldoutResult, run: TuneResult | None) -> str:
    """Returns how the scores changed: those that were tuned for, then hP, hR and accuracy."""
    aims = [] if run is None else [run.objective]
    if run is not None and run.outlook is not None:
        aims += [aim.measure for aim in run.outlook.aims if aim.measure is not None]
    names = {key: name for key, name, _ in reversed(wording.difference_rows(result))}
    bounds = {} if run is None else run.bounds
    clauses = []
    for key in dict.fromkeys([*aims, "hp", "hr", "accuracy"]):
        found = wording.paired(result, held.name, baseline.name, key)
        if found is None:
            continue
        ends = f"{number(baseline.scores.get(key), key)} to {number(held.scores.get(key), key)}"
        asked = f"; at least {number(bounds[key], key)} was asked for" if bounds.get(key) else ""
        if found.significant:
            verb = "rose" if found.difference > 0 else "fell"
            small = f"{signed(found.difference, key)}, p {_p(found.p_value)}{asked}"
            clauses.append(f"{names.get(key, metric_name(key))} {verb} from {ends} ({small})")
        else:
            change = f"{ends}, p {_p(found.p_value)}{asked}"
            clauses.append(f"{names.get(key, metric_name(key))} shows no clear difference ({change})")
    if not clauses:
        return "The scores have no paired differences; the tables below have their means."
    text = _joined(clauses)
    # "Accuracy rose", but "hP rose".
    return f"{text[0].upper() if text[1].islower() else text[0]}{text[1:]}."


def _limits(changes: Changes, run: TuneResult | None) -> str:
    """Returns how much could have been gained, and how much better the winner looked where it was chosen."""
    rows = [change.before for change in changes.each if change.direction != MISSING]
    some: list[str] = []
    none: list[str] = []
    for name, values in (("hP", [row.hp or 0 for row in rows]), ("hR", [row.hr or 0 for row in rows])):
        if below := sum(value < 1 for value in values):
            most = sum(1 - value for value in values) / len(values)
            which = "" if some else "the "
            where = "" if some else f" of {len(values):,} image{_s(len(values))} where it is below 1"
            some.append(f"{signed(most)} in {name} (on {which}{below:,}{where})")
        else:
            none.append(name)
    said = f"At most {' and '.join(some)} could be gained" if some else "Nothing could be gained"
    if none:
        said += f"{' and nothing' if some else ''} in {' or '.join(none)}, where the baseline has 1 on every image"
    if run is None or not run.optimism:
        return f"{said}."
    first = run.optimism[0]
    name, more = metric_name(first.measure), first.tuning - first.heldout
    average = (
        "" if first.expected is None else f" ({signed(first.expected, first.measure)} is expected of such a choice)"
    )
    return (
        f"{said}; on the tuning images, on which it was chosen, its {name} was {number(first.tuning, first.measure)}, "
        f"{number(abs(more), first.measure)} {'more' if more >= 0 else 'less'} than here{average}."
    )


def _table(changes: Changes) -> dict[str, Any]:
    """Returns the states before (rows) and after (columns) with the number of images in each cell."""
    counts: Mapping[tuple[str | None, str | None, str], int] = changes.table
    answered = {pair: count for pair, count in counts.items() if pair[2] != MISSING}
    before = [state for state in STATES if any(pair[0] == state for pair in answered)]
    after = [state for state in STATES if any(pair[1] == state for pair in answered)]
    words = {(*change.states, change.direction): change.words for change in changes.each}
    order = list(SYMBOLS)

    def cell(row: str, column: str) -> list[dict[str, Any]]:
        found = sorted((pair for pair in answered if pair[:2] == (row, column)), key=lambda pair: order.index(pair[2]))
        return [
            {
                "count": answered[pair],
                "direction": pair[2],
                "symbol": SYMBOLS[pair[2]],
                "words": words[pair],
                # Where the state is the same, row and column do not tell what changed.
                "within": words[pair].split("→ ")[-1] if row == column and pair[2] != UNCHANGED else "",
            }
            for pair in found
        ]

    return {
        "columns": [(state, sum(n for pair, n in answered.items() if pair[1] == state)) for state in after],
        "rows": [
            (state, sum(n for pair, n in answered.items() if pair[0] == state), [cell(state, each) for each in after])
            for state in before
        ],
        "answered": changes.answered,
        "different": changes.directions[DIFFERENT],
    }


def _p(value: float) -> str:
    text = p_value(value)
    return text if text.startswith("<") else f"= {text}"


def _joined(clauses: list[str]) -> str:
    return clauses[0] if len(clauses) == 1 else f"{', '.join(clauses[:-1])}, and {clauses[-1]}"


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
