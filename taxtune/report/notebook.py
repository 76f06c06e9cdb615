"""A result as a notebook shows it: a small HTML table."""

from __future__ import annotations

from html import escape

from taxtune.report.wording import Result, headline, interval, number, score_rows, template_name, visible

__all__ = ["result_html"]


def result_html(result: Result) -> str:
    """Returns the held-out scores, or the iterations of a run that is not finished, as HTML; everything is escaped."""
    if not result.heldout:
        frame = result.to_frame()
        wanted = ("iteration", "state", "value", "hp", "hr", "accuracy", "template")
        return frame[[name for name in wanted if name in frame]].round(3).to_html(index=False, escape=True)
    heads = "".join(f"<th>{escape(row.name)}</th>" for row in score_rows(result.heldout[0]))
    body = ""
    for held in result.heldout:
        cells = "".join(
            f"<td>{number(row.value, row.key)}"
            + ("" if row.ends is None else f"<br><small>{interval(row.ends, row.key)}</small>")
            + "</td>"
            for row in score_rows(held)
        )
        body += f'<tr><th title="{escape(visible(held.template))}">{escape(template_name(held.name))}</th>{cells}</tr>'
    return (
        f"<p>{escape(headline(result))}</p><table><thead><tr><th></th>{heads}</tr></thead><tbody>{body}</tbody></table>"
        f"<p><small>{result.heldout[0].scores.n} held-out images; scores with 95 % intervals.</small></p>"
    )
