"""A result as a notebook shows it: the verdict, the templates, and the held-out scores as a small HTML table."""

from __future__ import annotations

from html import escape

from taxtune.report.summary import verdict
from taxtune.report.wording import (
    Result,
    difference_rows,
    interval,
    number,
    p_value,
    pair_name,
    result_runs,
    score_rows,
    signed,
    template_name,
    visible,
)

__all__ = ["result_html", "show_in_notebooks"]


def show_in_notebooks() -> None:
    """Has IPython show results as `result_html` does."""
    from IPython import get_ipython

    if (shell := get_ipython()) is not None:
        formatter = shell.display_formatter.formatters["text/html"]
        for name in ("TuneResult", "ComparisonResult"):
            formatter.for_type_by_name("taxtune.tuning.records", name, result_html)


def result_html(result: Result) -> str:
    """Returns the held-out scores, or the iterations of a run that is not finished, as HTML; everything is escaped."""
    if not result.heldout:
        frame = result.to_frame()
        wanted = ("iteration", "state", "value", "hp", "hr", "accuracy", "template")
        table = frame[[name for name in wanted if name in frame]].round(3).to_html(index=False, escape=True)
        return f"<p>The run is not finished. The iterations so far, on the tuning images:</p>{table}"
    pairs = [each.key for each in result.differences]
    changes = {name: found for _, name, found in difference_rows(result)}
    heads = [template_name(held.name) for held in result.heldout] + [pair_name(pair) for pair in pairs]
    body = ""
    for rows in zip(*(score_rows(held) for held in result.heldout), strict=True):
        first = rows[0]
        cells = [_cell(number(r.value, r.key), None if r.ends is None else interval(r.ends, r.key)) for r in rows]
        for pair in pairs:
            found = changes.get(first.name, {}).get(pair)
            if found is None:
                cells.append(_cell("–"))
                continue
            change = signed(found.difference, first.key)
            cells.append(
                _cell(f"<b>{change}</b>" if found.significant else change, f"p {escape(p_value(found.p_value))}")
            )
        body += f'<tr><th style="text-align:left">{escape(first.name)}</th>{"".join(cells)}</tr>'
    said = "".join(
        f"<tr><th>{escape(template_name(held.name))}</th>"
        f'<td style="text-align:left;white-space:pre-wrap">{escape(visible(held.template))}</td></tr>'
        for held in result.heldout
    )
    columns = "".join(f"<th>{escape(head)}</th>" for head in heads)
    verdicts = "".join(f"<p>{escape(verdict(run))}</p>" for run in result_runs(result))
    return (
        f"{verdicts}<table>{said}</table>"
        f"<table><thead><tr><th></th>{columns}</tr></thead><tbody>{body}</tbody></table>"
        f"<p><small>{result.heldout[0].scores.n} held-out images; scores with 95 % intervals, differences with p "
        "values, bold below 0.05.</small></p>"
    )


def _cell(value: str, small: str | None = None) -> str:
    more = "" if small is None else f'<br><small style="opacity:.7">{small}</small>'
    return f'<td style="white-space:nowrap">{value}{more}</td>'
