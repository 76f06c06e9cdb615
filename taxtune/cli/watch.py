"""`taxtune audit LABELS --of CLASSIFIER`: whether its promise still holds, by labels given since."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from taxtune.options import opt
from taxtune.progress import note

if TYPE_CHECKING:
    import pandas as pd

    from taxtune.metrics.evidence import Evidence
    from taxtune.report.output import Cell

__all__ = ["OnBrokenOption", "tell_broken", "watch_labels"]

OnBrokenOption = Annotated[
    Literal["say", "back-off"],
    opt("Where the promise is broken: say so, or go up to the deepest rank where it is not."),
]
_BROKEN, _HOLDS = "evidence: broken", "evidence: holds"


def watch_labels(
    file: Path, classifier: Path, n: int, by: str | None, group: str | None, *, as_json: bool
) -> None:
    """Takes over the truths of drawn images, says what they show, and draws up to n further ones.

    They are in NAME-audit.csv beside the file of labels. Arguments are those of `taxtune audit`.
    """
    from taxtune.audit.watch import SOURCE, Watch
    from taxtune.report.output import StudyReport, Table, publish
    from taxtune.tracking.curve import log_evidence

    watch = Watch.of(classifier)
    labels = watch.read(file)
    source = labels[SOURCE].iloc[0]
    asked = file.with_name(f"{file.stem}-audit.csv")
    if asked.exists():
        watch = watch.take(asked, source)
    rows = []
    groups = {}
    if watch.evidence is not None:
        rows.append(_row("all", watch.labelled, watch.evidence, watch.level))
        log_evidence(classifier, watch.evidence.broken.tolist(), watch.file.stem[-8:])
        groups = {} if by is None else watch.groups(by)
    for name, members in groups.items():
        # All groups together say "broken" wrongly as seldom as one test does.
        rows.append(_row(name, members, watch.weigh(members), watch.level / len(groups)))
    own = watch.drawn[watch.drawn[SOURCE] == source]
    said = [row["promise"] for row in rows[:1]]
    is_settled = len(own) > 0 and said in (["broken"], ["holds"])
    if not is_settled and (own["truth"] != "").all():
        watch = watch.draw(labels, n, group)
    watch.save()
    unlabelled = watch.write(asked, source)
    notes = [f"On images like those of the calibration {watch.promise}."]
    table = Table.from_records("watch", "watch", rows, digits={_BROKEN: 2, _HOLDS: 2}, notes=notes)
    publish(StudyReport("audit", "", {}, (table,)), out=None, as_json=as_json)
    broken = watch.broken()
    if broken is not None:
        note(broken[0])
    elif not is_settled and not unlabelled:
        note(f"no image is left to draw from {file}; labels of further images go on with the watch")
    if unlabelled:
        note(
            f"{unlabelled:,} images in {asked} have no truth yet: write what each shows into the "
            "column truth, then run the command again"
        )


def tell_broken(classifier: Path, on_broken: str) -> tuple[str, int | None]:
    """Returns since when a classifier's promise is broken, and the depth at which labels are to end.

    Says so, too. They are "" and None where the promise is not broken.
    """
    from taxtune.audit.watch import Watch, watch_file

    broken = None
    if watch_file(classifier).exists():
        broken = Watch.of(classifier).broken()
    if broken is None:
        return "", None
    text, depth = broken
    if on_broken == "back-off":
        note(f"{text}; labels end at depth {depth}, where it is not")
        return text, depth
    note(f"{text}; --on-broken back-off ends labels at depth {depth}, where it is not")
    return text, None


def _row(name: str, labelled: pd.DataFrame, evidence: Evidence, level: float) -> dict[str, Cell]:
    """Returns the row of a group of images in the table of verdicts."""
    row: dict[str, Cell] = {"images": name, "labels": len(labelled)}
    row["risk"] = evidence.loss
    row[_BROKEN] = float(evidence.broken[-1])
    row[_HOLDS] = float(evidence.holds[-1])
    row["promise"] = evidence.verdict(level)
    return row
