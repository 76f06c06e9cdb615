"""Text from outside (answers, labels, replies of servers), made harmless for a program that would obey it.

Results are kept exactly as they came; this is for where people look at them: a terminal and a spreadsheet.
"""

from __future__ import annotations

import re

__all__ = ["visible"]


def visible(text: str) -> str:
    """Returns a text from outside with its control characters spelled out, since a terminal would obey them."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", lambda m: repr(m.group())[1:-1], text)
