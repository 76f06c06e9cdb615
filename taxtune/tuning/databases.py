"""What a run's databases say when they cannot be used, in words for people."""

from __future__ import annotations

import sqlite3

__all__ = ["database_problem"]


def database_problem(error: BaseException) -> str | None:
    """Returns what a database said, without the SQL around it, or None where the error comes from no database.

    Optuna and SQLAlchemy each wrap the error of the database below them; only the innermost says what happened.
    """
    from sqlalchemy.exc import SQLAlchemyError

    found: BaseException | None = None
    link: BaseException | None = error
    seen: set[int] = set()
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        if isinstance(link, sqlite3.Error):
            return str(link)
        if isinstance(link, SQLAlchemyError):
            found = getattr(link, "orig", None) or link
        link = link.__cause__ or link.__context__
    return None if found is None else str(found).split("\n", 1)[0]
