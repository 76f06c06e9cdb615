"""Which other language an answer is in, if any; the mapper reads English and asks where it finds nothing to read.

The names on a tree are often borrowed ("chaise longue", "turquoise") and answers are short, so only a sure verdict
counts: of 1,972 placed English answers none has a probability of 0.6 of being in another language, of 17 answers in
French, German, Spanish, Indonesian, Chinese and Japanese 14 have, and two more are written in no Latin letters.
"""

from __future__ import annotations

import unicodedata
from functools import cache, lru_cache
from typing import Any

__all__ = ["foreign_language"]

#: A language is believed from this probability on.
_SURE = 0.6


@lru_cache(maxsize=10_000)
def foreign_language(text: str) -> str | None:
    """Returns the ISO 639 code of the language of a text, None where that is English or cannot be told."""
    letters = [letter for letter in text if letter.isalpha()]
    latin = sum(unicodedata.name(letter, "").startswith("LATIN") for letter in letters)
    if not letters:
        return None
    code, probability = _identifier().classify(text)
    return (
        str(code) if code != "en" and (probability >= _SURE or 2 * latin < len(letters)) else None
    )


@cache
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
