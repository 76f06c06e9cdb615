"""What a tuning run can find out, in words: the same in the dry run, at the start of a run and in the report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from taxtune.report.wording import meaning, metric_name, number, signed
from taxtune.tuning.objective import Constraint, Objective
from taxtune.tuning.outlook import ASSUMED_SHARE, Aim, Outlook, highest_provable
from taxtune.tuning.records import IterationRecord, TemplateScores, TuneResult

__all__ = [
    "aim_in_words",
    "best_in_words",
    "nothing_left",
    "optimism_rows",
    "outlook_lines",
    "resolution_in_words",
]

_FROM = {
    "assumed": f"if templates differ on {100 * ASSUMED_SHARE:.0f} % of the images, as on the field guide",
    "baseline": "if templates differ as much as the baseline's own scores vary",
    "templates": "as the templates tried differ from the baseline",
}


def outlook_lines(outlook: Outlook) -> list[tuple[str, str]]:
    """Returns what an outlook says, each with a name of at most 15 letters."""
    lines = [("goal", aim_in_words(aim)) for aim in outlook.aims]
    shown = list(dict.fromkeys(["hp", "hr", *(each.measure for each in outlook.resolutions)]))
    for i, level in enumerate(outlook.levels):
        what = "always answering the domain's root" if level.rank is None else f"always the right {level.rank}"
        scores = ", ".join(f"{metric_name(key)} {number(level.scores[key])}" for key in shown if key in level.scores)
        lines.append(({0: "trivial answer", 1: "oracles"}.get(i, ""), f"{what}: {scores}"))
    worth = _grouped((each.measure, number(each.one_image)) for each in outlook.resolutions)
    lines.append(("one image", f"one level wrong instead of right, it lowers the mean by {worth}"))
    lines.append(("told apart", resolution_in_words(outlook)))
    for each in dict.fromkeys(
        held for aim in outlook.aims for held in aim.constraints if held.measure in outlook.needed
    ):
        name = metric_name(each.measure)
        highest = number(highest_provable(outlook.images, each.confidence), each.measure)
        said = (
            f"without a single error, {outlook.images:,} image{'' if outlook.images == 1 else 's'} prove {name} "
            f"{highest} with {100 * each.confidence:g} % confidence"
        )
        if (more := outlook.needed[each.measure] - outlook.images) > 0:
            said += f": label {more:,} more photo{'' if more == 1 else 's'}, or raise data.tuning, to prove "
            said += number(each.least, each.measure)
        lines.append(("provable", said))
    return lines


def nothing_left(objective: str, images: int, *, block: bool = False) -> str:
    """Returns what there is to say of a baseline that already scores as the exact labels would.

    Args:
        objective: The objective's name.
        images: Images that the baseline was asked about.
        block: Whether they are a block, of which the tuning split has more.
    """
    if block:
        return (
            f"On all {images:,} images of the block the baseline is as good for {metric_name(objective)} as the exact "
            "labels would be. No template can look better there, so that the search learns nothing but what is worse: "
            "raise data.block."
        )
    other = "" if objective == "hr_at_hp" else ", or another objective, such as hr_at_hp"
    return (
        f"Nothing is left to win on the tuning images: on all {images:,} the baseline is as good for "
        f"{metric_name(objective)} as the exact labels would be. What is found now only looks better by chance. Tune "
        f"on more or harder images (data.tuning){other}."
    )


def optimism_rows(run: TuneResult) -> list[tuple[str, ...]]:
    """Returns a row a score: its name, the winner's on both splits, their difference, and what that is on average."""
    return [
        (
            metric_name(each.measure),
            number(each.tuning, each.measure),
            number(each.heldout, each.measure),
            signed(each.tuning - each.heldout, each.measure),
            "–" if each.expected is None else signed(each.expected, each.measure),
        )
        for each in run.optimism
    ]


def aim_in_words(aim: Aim) -> str:
    """Returns what is tuned for: "the highest hR, with hP at least 0.980 (with 90 % confidence)"."""
    what = meaning(aim.objective) if aim.measure is None else metric_name(aim.measure)
    head = f"the {'highest' if aim.direction == 'maximize' else 'lowest'} {what}"
    return ", ".join([head, *(f"with {_held(each)}" for each in aim.constraints)])


def best_in_words(
    best: IterationRecord, objective: Objective, measure: str | None, baseline: TemplateScores | None
) -> str:
    """Returns why a template is the best of a search so far, by the means on the images that all were asked about.

    Args:
        best: The template.
        objective: What is tuned for.
        measure: The score that is maximised; None where it is computed from several.
        baseline: The baseline's scores.
    """
    held = " and ".join(
        f"{metric_name(each.measure)} at least {number(each.bound(baseline), each.measure)}"
        for each in objective.constraints
    )
    if not best.feasible:
        return f"no template has {held} on average yet; this one comes nearest"
    what = f"{_most(objective)} {_aim_name(objective, measure)} so far"
    return f"{what} with {held} on average" if held else what


def _most(objective: Objective) -> str:
    return "highest" if objective.direction == "maximize" else "lowest"


def _aim_name(objective: Objective, measure: str | None) -> str:
    if objective.front:
        return " × ".join(map(metric_name, objective.front))
    return metric_name(objective.name if measure is None else measure)


def resolution_in_words(outlook: Outlook) -> str:
    """Returns which differences between two templates are too small for the tuning images."""
    images = f"{outlook.images:,} image{'' if outlook.images == 1 else 's'}"
    parts = []
    for source in dict.fromkeys(each.source for each in outlook.resolutions):
        found = [each for each in outlook.resolutions if each.source == source]
        sizes = _grouped((each.measure, f"{each.difference:.2f}") for each in found if each.difference is not None)
        blind = _listed([metric_name(each.measure) for each in found if each.difference is None])
        said = [f"differences below {sizes}"] if sizes else []
        said += [f"any difference in {blind}"] if blind else []
        parts.append(f"{_listed(said)} ({_FROM[source]})")
    return f"with 80 % power at the 5 % level, {images} cannot show {'; nor '.join(parts)}"


def _grouped(values: Iterable[tuple[str, str]]) -> str:
    """Returns values with the scores that they are of: "0.10 in hP and hR, 0.30 in accuracy"."""
    names: dict[str, list[str]] = {}
    for measure, value in values:
        names.setdefault(value, []).append(metric_name(measure))
    return ", ".join(f"{value} in {_listed(found)}" for value, found in names.items())


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _held(constraint: Constraint) -> str:
    name = metric_name(constraint.measure)
    if constraint.of is not None:
        return f"{name} at least {constraint.least:.0%}".replace("%", " %") + " of the baseline's"
    sure = "" if constraint.confidence == 0.5 else f" ({constraint.confidence:.0%} confidence)".replace("%", " %")
    return f"{name} at least {number(constraint.least)}{sure}"
