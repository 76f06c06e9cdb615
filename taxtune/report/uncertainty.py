"""What a template's scores on the tuning images are worth: which of them count for a run, and their intervals."""

from __future__ import annotations

import numpy as np

from taxtune.metrics.statistics import Interval, Sample, bootstrap
from taxtune.tuning.records import IterationRecord, TuneResult
from taxtune.tuning.selection import values

__all__ = ["counted_scores", "tuning_interval"]

# Few enough that a run of a hundred templates is drawn in a second; the ends are good to about one in a hundred of the
# interval's width.
_RESAMPLES = 1000
_HARMONIC = {"hf": ("hp", "hr"), "ihf": ("ihp", "ihr")}


def tuning_interval(record: IterationRecord, measure: str) -> Interval | None:
    """Returns a score on the tuning images with its 95 % bootstrap interval over them, from the rows of the record.

    Templates that were asked about more images in the race have narrower ones. Nothing is taken off for the choice of
    the best.

    Args:
        record: The iteration.
        measure: "hp", "hr", "hf", "accuracy", or another of the scores.

    Returns:
        The interval; None where no answer has a value, or the score is not a mean over images.
    """
    if record.scores is None or not record.rows:
        return None
    parts = {name: values(record, name) for name in _HARMONIC.get(measure, (measure,))}
    usable = ~np.any([np.isnan(each) for each in parts.values()], axis=0)
    if not usable.any():
        return None
    kept = {name: each[usable] for name, each in parts.items()}
    sample = Sample(kept, names=(measure,), keys=tuple(kept.values()))
    return bootstrap(sample, resamples=_RESAMPLES)[measure]


def counted_scores(run: TuneResult) -> tuple[str, ...]:
    """Returns the scores that decide in a run, its aim first, then those that are held; hP and hR where none is named.

    Args:
        run: The run. One whose objective is a function of all scores names none.
    """
    aims = [] if run.spec is None else [run.spec.measure]
    wanted = (*filter(None, aims), run.objective, *(each.measure for each in run.constraints))
    known = {key for record in run.iterations if record.scores is not None for key in record.scores.keys()}  # noqa: SIM118
    return tuple(dict.fromkeys(key for key in wanted if key in known)) or ("hp", "hr")
