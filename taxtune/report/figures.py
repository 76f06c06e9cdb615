"""The figures of a run: the hP-hR plane (paper 1, Figure 6) and the scores by iteration, as PNG and SVG.

Colours are those of Okabe and Ito (2008), told apart by people with any common colour vision; every objective has its
own marker too, so that the figures survive a black-and-white printer. The same result gives the same SVG, byte by byte.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taxtune import atomic
from taxtune.report.wording import (
    Result,
    best_so_far,
    metric_name,
    number,
    result_runs,
    template_name,
)
from taxtune.tuning.records import HeldoutResult, TuneResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["figure6", "figure6_svg", "history_figure", "history_svg"]

INK, GREY, FAINT, PAPER = "#1b1b1b", "#707070", "#cfcfcf", "#ffffff"
_COLOURS = {"hp": "#0072b2", "accuracy": "#d55e00", "hf": "#009e73", "hr": "#cc79a7"}
_MARKERS = {"hp": "o", "accuracy": "^", "hf": "s", "hr": "v"}
#: For SVG inside a page: each colour becomes a CSS variable, so that the page can follow the reader's dark mode.
_VARIABLES = {INK: "ink", GREY: "grey", FAINT: "faint", PAPER: "paper"} | {v: k for k, v in _COLOURS.items()}
_START = "baseline on the tuning split"
_STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "text.color": INK,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "figure.facecolor": PAPER,
    "axes.facecolor": "none",
    "legend.frameon": False,
    "legend.fontsize": 9,
    "svg.hashsalt": "taxtune",
    "svg.fonttype": "path",
    "path.simplify": False,
}


def figure6(result: Result, folder: str | Path) -> list[Path]:
    """Draws the hP-hR plane with every iteration, the winners and the baseline.

    Small markers are iterations, on the tuning split; large ones, with bars of their 95 % intervals, are the baseline
    and the winners on the held-out split. Grey curves join points of equal hF.

    Args:
        result: A tuning run, or several compared.
        folder: Where `figure6.png` (200 dpi) and `figure6.svg` are written.

    Returns:
        The two paths, the PNG first.

    Raises:
        TaxtuneError: If a file cannot be written.
    """
    return _write(_plane, result, Path(folder) / "figure6")


def history_figure(result: Result, folder: str | Path) -> list[Path]:
    """Draws the scores on the tuning split by iteration, with the best so far and what failed.

    Args:
        result: A tuning run, or several compared; one panel a run.
        folder: Where `history.png` (200 dpi) and `history.svg` are written.

    Returns:
        The two paths, the PNG first.

    Raises:
        TaxtuneError: If a file cannot be written.
    """
    return _write(_history, result, Path(folder) / "history")


def figure6_svg(result: Result) -> str:
    """Returns the hP-hR plane as an `<svg>` element for a page that defines the colours as CSS variables."""
    return _inline(_plane, result, "plane")


def history_svg(result: Result) -> str:
    """Returns the scores by iteration as an `<svg>` element for a page that defines the colours as CSS variables."""
    return _inline(_history, result, "history")


def _style() -> AbstractContextManager[None]:
    import matplotlib as mpl

    # The reader's own matplotlibrc must not change the figure.
    style: AbstractContextManager[None] = mpl.rc_context({**mpl.rcParamsDefault, **_STYLE, "backend": "agg"})
    return style


def _write(draw: Callable[[Result], Figure], result: Result, stem: Path) -> list[Path]:
    with _style():
        figure = draw(result)
        png = _render(figure, "png", dpi=200)
        svg = _render(figure, "svg", metadata={"Date": None})
    return [
        atomic.write_bytes(stem.with_suffix(".png"), png),
        atomic.write_bytes(stem.with_suffix(".svg"), svg),
    ]


def _inline(draw: Callable[[Result], Figure], result: Result, prefix: str) -> str:
    with _style():
        text = _render(draw(result), "svg", metadata={"Date": None}, transparent=True).decode("utf-8")
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # Two figures in one page must not share ids.
    text = re.sub(r'\bid="', f'id="{prefix}-', text)
    text = re.sub(r'href="#', f'href="#{prefix}-', text).replace("url(#", f"url(#{prefix}-")
    for colour, name in _VARIABLES.items():
        text = re.sub(colour, f"var(--{name})", text, flags=re.IGNORECASE)
    # The page sets the size and describes the figure.
    return re.sub(r'(<svg\b[^>]*?) width="[^"]*"', r'\1 aria-hidden="true"', text, count=1).replace(
        ' height="', ' data-height="', 1
    )


def _render(figure: Figure, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, bbox_inches="tight", pad_inches=0.12, **options)
    return buffer.getvalue()


# The hP-hR plane


def _plane(result: Result) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    runs = result_runs(result)
    figure = Figure(figsize=(5.6, 4.8))
    axes = figure.add_subplot()
    _limits(axes, result)
    _iso_lines(axes)
    for run in runs:
        _iterations(axes, run)
    _tuning_baseline(axes, runs[0])
    _trivial(axes, runs[0])
    for run in runs:
        if run.hr_floor is not None and axes.get_xlim()[0] < run.hr_floor < axes.get_xlim()[1]:
            axes.axvline(
                run.hr_floor,
                color=GREY,
                lw=1,
                ls=(0, (1, 2)),
                zorder=1,
                label=f"smallest hR allowed: {number(run.hr_floor)}",
            )
    _heldout(axes, result)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
        axis.set_major_formatter("{x:.2f}")
    axes.set_xlabel("hierarchical recall, hR")
    axes.set_ylabel("hierarchical precision, hP")
    _legend(axes, result)
    return figure


def _iterations(axes: Axes, run: TuneResult) -> None:
    proposed = [record for record in run.iterations if record.iteration > 0]
    scored = [record.scores for record in proposed if record.scores is not None]
    if not scored:
        return
    share = f"{len(scored)}" if len(scored) == len(proposed) else f"{len(scored)} of {len(proposed)}"
    axes.scatter(
        [s.hr for s in scored],
        [s.hp for s in scored],
        s=26,
        marker=_MARKERS.get(run.objective, "o"),
        color=_COLOURS.get(run.objective, INK),
        alpha=0.55,
        edgecolors=PAPER,
        linewidths=0.5,
        zorder=3,
        label=f"tuning for {metric_name(run.objective)} ({share} templates)",
    )


def _tuning_baseline(axes: Axes, run: TuneResult) -> None:
    # The runs compared share their baseline, so one mark is enough.
    scores = next((record.scores for record in run.iterations if record.iteration == 0), None)
    if scores is not None:
        axes.scatter(
            [scores.hr],
            [scores.hp],
            s=26,
            marker="D",
            color=INK,
            edgecolors=PAPER,
            linewidths=0.5,
            zorder=5,
            label=_START,
        )


def _heldout(axes: Axes, result: Result) -> None:
    baseline = next((held for held in result.heldout if held.name == "baseline"), None)
    for held in result.heldout:
        objective = _objective(held, result)
        colour = INK if held is baseline else _COLOURS.get(objective, INK)
        marker = "D" if held is baseline else _MARKERS.get(objective, "o")
        x, y = held.scores.hr, held.scores.hp
        name = "baseline" if held is baseline else f"{template_name(objective)} winner"
        axes.errorbar(
            x,
            y,
            xerr=_bars(held, "hr"),
            yerr=_bars(held, "hp"),
            fmt=marker,
            ms=8 if held is baseline else 10.5,
            color=colour,
            mec=PAPER,
            mew=1.0,
            ecolor=colour,
            elinewidth=1.3,
            capsize=2.5,
            zorder=6,
            label=f"{name}\nhP {number(y)}, hR {number(x)}",
        )
        if baseline is not None and held is not baseline:
            axes.annotate(
                "",
                (x, y),
                (baseline.scores.hr, baseline.scores.hp),
                arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 1.2, "shrinkA": 7, "shrinkB": 9, "alpha": 0.8},
                zorder=4,
            )


def _trivial(axes: Axes, run: TuneResult) -> None:
    low, high = axes.get_xlim()
    inside = low <= run.trivial_hr <= high
    # Far away from everything else it would squeeze the rest; it is then pointed at from the frame.
    axes.scatter(
        [run.trivial_hr if inside else low],
        [run.trivial_hp],
        s=60,
        marker="X" if inside else "<",
        color=GREY,
        edgecolors=PAPER,
        linewidths=0.8,
        zorder=5,
        clip_on=False,
        label=f"always the domain's root\nhP {number(run.trivial_hp)}, hR {number(run.trivial_hr)}"
        + ("" if inside else " (off the plot)"),
    )


def _limits(axes: Axes, result: Result) -> None:
    runs = result_runs(result)
    points = [(s.hr, s.hp) for run in runs for record in run.iterations if (s := record.scores) is not None]
    for held in result.heldout:
        x, y = held.intervals.get("hr"), held.intervals.get("hp")
        points += [(held.scores.hr, held.scores.hp)]
        points += [(x.low, held.scores.hp), (x.high, held.scores.hp)] if x else []
        points += [(held.scores.hr, y.low), (held.scores.hr, y.high)] if y else []
    points = points or [(runs[0].trivial_hr, runs[0].trivial_hp)]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    trivial = runs[0].trivial_hr
    if max(*xs, trivial) - min(*xs, trivial) <= 2.5 * max(max(xs) - min(xs), 0.1):
        xs.append(trivial)
    ys.append(runs[0].trivial_hp)
    axes.set_xlim(*_padded(xs))
    axes.set_ylim(*_padded(ys))


def _padded(values: Sequence[float], least: float = 0.12) -> tuple[float, float]:
    low, high = min(values), max(values)
    if high - low < least:
        low, high = (low + high - least) / 2, (low + high + least) / 2
    margin = 0.05 * (high - low)
    # A score is never above 1 or below 0; the frame goes a little further, so that a marker there is not cut.
    return max(low - margin, -0.02), min(high + margin, 1 + 0.25 * margin)


def _iso_lines(axes: Axes) -> None:
    import numpy as np

    (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
    corner = 2 * x1 * y1 / (x1 + y1)
    origin = 2 * max(x0, 0) * max(y0, 0) / max(max(x0, 0) + max(y0, 0), 1e-9)
    step = 0.05 if corner - origin < 0.4 else 0.1
    for f in np.arange(step, 1.0, step):
        # hF = 2 hP hR / (hP + hR) solved for hP; below hR = f / 2 no hP is enough.
        x = np.linspace(max(f / 2 + 1e-4, x0, 1e-4), x1, 400)
        y = f * x / (2 * x - f)
        seen = (y >= y0) & (y <= y1)
        if seen.sum() < 2:
            continue
        axes.plot(x[seen], y[seen], color=FAINT, lw=0.8, zorder=0)
        exit_y = f * x1 / (2 * x1 - f) if 2 * x1 > f else np.inf
        style: dict[str, Any] = {
            "color": GREY,
            "fontsize": 7.5,
            "annotation_clip": False,
            "textcoords": "offset points",
        }
        if y0 <= exit_y <= y1:
            axes.annotate(f"hF {f:.2f}", (x1, exit_y), xytext=(3, 0), va="center", **style)
        elif x0 <= (exit_x := f * y1 / (2 * y1 - f)) <= x1:
            axes.annotate(f"hF {f:.2f}", (exit_x, y1), xytext=(0, 3), ha="center", **style)


def _legend(axes: Axes, result: Result) -> None:
    from matplotlib.container import ErrorbarContainer
    from matplotlib.lines import Line2D

    handles, labels = axes.get_legend_handles_labels()
    # Of an error bar the legend shows the marker alone: squeezed bars look like dirt.
    handles = [handle.lines[0] if isinstance(handle, ErrorbarContainer) else handle for handle in handles]
    entries = dict(zip(labels, handles, strict=True))
    small = [label for label in entries if label.startswith("tuning for") or label == _START]
    reference = [label for label in entries if label.startswith(("always", "smallest"))]
    large = [label for label in entries if label not in small and label not in reference]
    tuning = next((s.n for record in result_runs(result)[0].iterations if (s := record.scores) is not None), 0)
    heading = Line2D([], [], ls="none")
    order: list[tuple[Any, str]] = []
    if large:
        order += [(heading, f"Held-out split, {result.heldout[0].scores.n} images")]
        order += [(entries[label], label) for label in large]
        order += [(heading, "")]
    order += [(heading, f"Tuning split, {tuning} images" if tuning else "Tuning split")]
    order += [(entries[label], label) for label in (*small, *reference)]
    legend = axes.legend(
        [handle for handle, _ in order],
        [label for _, label in order],
        loc="upper left",
        bbox_to_anchor=(1.13, 1.02),
        borderaxespad=0,
        labelspacing=0.75,
        handletextpad=0.7,
    )
    for text in legend.get_texts():
        if text.get_text().strip().startswith(("Held-out", "Tuning")):
            text.set_fontweight("bold")
            text.set_position((-24, 0))


def _objective(held: HeldoutResult, result: Result) -> str:
    return result.objective if isinstance(result, TuneResult) else held.name


def _bars(held: HeldoutResult, metric: str) -> list[list[float]]:
    value: float = getattr(held.scores, metric)
    interval = held.intervals.get(metric)
    # A bar's length must not be negative, even where a percentile interval leaves the estimate out.
    return [[0.0], [0.0]] if interval is None else [[max(0.0, value - interval.low)], [max(0.0, interval.high - value)]]


# The scores by iteration


def _history(result: Result) -> Figure:
    from matplotlib.figure import Figure

    runs = result_runs(result)
    figure = Figure(figsize=(6.4, 2.6 * len(runs) + 0.3))
    panels = figure.subplots(len(runs), 1, sharex=True, squeeze=False)[:, 0]
    for axes, run in zip(panels, runs, strict=True):
        _panel(axes, run)
    panels[-1].set_xlabel("iteration (0 is the baseline)")
    figure.subplots_adjust(hspace=0.28)
    return figure


def _panel(axes: Axes, run: TuneResult) -> None:
    from matplotlib.ticker import MaxNLocator

    best = best_so_far(run.iterations)
    steps = [
        (record.iteration, b.value)
        for record, b in zip(run.iterations, best, strict=True)
        if b is not None and b.value is not None
    ]
    if steps:
        axes.step(
            [k for k, _ in steps],
            [value for _, value in steps],
            where="post",
            color=_COLOURS.get(run.objective, INK),
            lw=5,
            alpha=0.22,
            solid_capstyle="butt",
            label=f"best {metric_name(run.objective)} so far",
            zorder=1,
        )
    # What has no score is a gap in the line.
    scored = [(record.iteration, record.scores) for record in run.iterations]
    for metric in dict.fromkeys((run.objective, "hp", "hr")):
        axes.plot(
            [k for k, _ in scored],
            [float("nan") if s is None else getattr(s, metric) for _, s in scored],
            marker=_MARKERS[metric],
            ms=3.8,
            lw=1.0 if metric == run.objective else 0.7,
            color=_COLOURS[metric],
            mec=PAPER,
            mew=0.4,
            label=metric_name(metric),
            zorder=3,
        )
    winner = next((record for record in run.iterations if record.iteration == run.winner), None)
    if winner is not None and winner.value is not None:
        axes.plot(
            [winner.iteration],
            [winner.value],
            marker="o",
            ms=11,
            mfc="none",
            mec=INK,
            mew=1.3,
            ls="none",
            label=f"winner: {winner.iteration}",
            clip_on=False,
            zorder=4,
        )
    failed = [record.iteration for record in run.iterations if record.state != "complete"]
    if failed:
        axes.plot(
            failed,
            [0.03] * len(failed),
            transform=axes.get_xaxis_transform(),
            marker="x",
            ms=6,
            mew=1.6,
            ls="none",
            color=INK,
            label="failed or void",
            clip_on=False,
            zorder=4,
        )
    values = [getattr(s, metric) for _, s in scored if s is not None for metric in (run.objective, "hp", "hr")]
    low, high = _padded(values or [0.0, 1.0])
    # Room below for the marks of what failed.
    axes.set_ylim(low - (0.08 * (high - low) if failed else 0.0), high)
    last = max((record.iteration for record in run.iterations), default=0)
    axes.set_xlim(-0.02 * max(last, 1) - 0.3, last + 0.02 * max(last, 1) + 0.3)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.grid(axis="y", color=FAINT, lw=0.6)
    axes.set_axisbelow(True)
    axes.set_ylabel("score, tuning split")
    axes.set_title(f"tuning for {metric_name(run.objective)}", loc="left", fontsize=10, fontweight="bold")
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.02), borderaxespad=0)
