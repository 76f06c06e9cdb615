"""What a tuning run can find out, in words: the same in the dry run, at the start of a run and in the report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from taxtune.report.wording import meaning, metric_name, number, signed
from taxtune.tuning.objective import Constraint
from taxtune.tuning.outlook import ASSUMED_SHARE, Aim, Outlook
from taxtune.tuning.records import Optimism

__all__ = ["aim_in_words", "nothing_left", "optimism_in_words", "outlook_lines", "resolution_in_words"]

_FROM = {
    "assumed": f"if templates differ on {100 * ASSUMED_SHARE:.0f} % of the images, as on the field guide",
    "baseline": "if templates differ as much as the baseline's own scores vary",
    "templates": "as the templates tried differ from the baseline",
}


def outlook_lines(outlook: Outlook) -> list[tuple[str, str]]:
    """Returns what an outlook says, each with a name of at most 15 letters."""
    lines = [("goal", aim_in_words(aim)) for aim in outlook.aims]
    shown = list(dict.fromkeys(["hp", "hr", *(each.measure for each in outlook.resolutions)]))
    for level in outlook.levels:
        what = "always answering the domain's root" if level.rank is None else f"always the right {level.rank}"
        scores = ", ".join(f"{metric_name(key)} {number(level.scores[key])}" for key in shown if key in level.scores)
        lines.append(("trivial answers" if level.rank is None else "", f"{what}: {scores}"))
    worth = _grouped((each.measure, number(each.one_image)) for each in outlook.resolutions)
    lines.append(("one image", f"one level wrong instead of right, it lowers the mean by {worth}"))
    lines.append(("told apart", resolution_in_words(outlook)))
    for measure, needed in outlook.needed.items():
        if needed > outlook.images:
            lines.append(
                (
                    "too few images",
                    f"the confidence demanded of {metric_name(measure)} takes at least {needed:,} images without an "
                    f"error; there are {outlook.images:,}, so no template can be certain to reach it",
                )
            )
    return lines


def nothing_left(objective: str, images: int) -> str:
    """Returns what there is to say of a baseline that already scores as the exact labels would."""
    other = "" if objective == "hr_at_hp" else ", or another objective, such as hr_at_hp"
    return (
        f"Nothing is left to win on the tuning images: on all {images:,} the baseline is as good for "
        f"{metric_name(objective)} as the exact labels would be. What is found now only looks better by chance. Tune "
        f"on more or harder images (data.tuning){other}."
    )


def optimism_in_words(optimism: Optimism) -> str:
    """Returns by how much a winner's tuning score was too good, and by how much such a choice makes it on average."""
    key = optimism.measure
    said = (
        f"{metric_name(key)} {number(optimism.tuning, key)} on the tuning images, {number(optimism.heldout, key)} on "
        f"the held-out ones: {signed(optimism.tuning - optimism.heldout, key)}"
    )
    if optimism.expected is None:
        return said
    return f"{said}; expected of such a choice {signed(optimism.expected, key)}"


def aim_in_words(aim: Aim) -> str:
    """Returns what is tuned for: "the highest hR, with hP at least 0.980 (with 90 % confidence)"."""
    what = meaning(aim.objective) if aim.measure is None else metric_name(aim.measure)
    head = f"the {'highest' if aim.direction == 'maximize' else 'lowest'} {what}"
    return ", ".join([head, *(f"with {_held(each)}" for each in aim.constraints)])


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
