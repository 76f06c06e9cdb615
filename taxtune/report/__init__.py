"""What a run shows to people: figures, the HTML report, tables and progress in the terminal.

Nothing heavy is loaded before it is needed.
"""

from __future__ import annotations

from taxtune.report.figures import figure6, history_figure
from taxtune.report.html import write_report
from taxtune.report.tables import print_result
from taxtune.report.wording import headline

__all__ = ["figure6", "headline", "history_figure", "print_result", "write_report"]
