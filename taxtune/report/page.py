"""HTML pages that need no network and no other file, from the templates of this package."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taxtune.metrics.names import metric_name
from taxtune.untrusted import visible

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["page"]

_TEMPLATES = Path(__file__).parent / "templates"


def page(template: str, *, sections: dict[str, dict[str, Any]] | None = None, **values: Any) -> str:
    """Returns one of the pages in `templates/` as HTML.

    Every value that is not marked as safe is escaped, and the page forbids itself all foreign resources and every
    script but its own.

    Args:
        template: The page's template.
        sections: The values of its sections by name; each has a partial template and a `title`.
        **values: The values of the template itself; `title`, and `headline` where it has no first screen of its own.
    """
    from markupsafe import Markup

    environment = _environment()
    # Script and style are our own, so that they need no escaping.
    script = Markup((_TEMPLATES / "report.js").read_text("utf-8"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    bodies = [
        {
            "name": name,
            "title": section["title"],
            "body": Markup(environment.get_template(f"sections/{name}.html.j2").render(**section)),
        }
        for name, section in (sections or {}).items()
    ]
    return environment.get_template(template).render(
        css=Markup((_TEMPLATES / "report.css").read_text("utf-8")),
        script=script,
        script_hash=f"sha256-{digest}",
        sections=bodies,
        **values,
    )


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["metric"] = metric_name
    environment.filters["visible"] = visible
    return environment
