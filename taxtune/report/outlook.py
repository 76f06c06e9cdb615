"""What a tuning run can find out, in words: the same in the dry run, at the start of a run and in the report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from taxtune.metrics.names import metric_name
from taxtune.report.scores import number
from taxtune.report.summary import aim_in_words
from taxtune.tuning.outlook import ASSUMED_SHARE, Outlook, highest_provable

__all__ = [
    "nothing_left",
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
