"""Which other language an answer is in; the mapper, which reads English, asks if it cannot read.

The names on a tree are often borrowed ("chaise longue", "turquoise") and answers are short, so only
a sure verdict counts. None of 1,972 placed English answers has a probability of 0.6 of being in
another language. Of 17 answers in French, German, Spanish, Indonesian, Chinese and Japanese 14
have, and two more are written in other letters than Latin.
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
    """Returns the ISO 639 code of a text's language, or None if that is English or not sure."""
    letters = [letter for letter in text if letter.isalpha()]
    if not letters:
        return None
    latin = sum(unicodedata.name(letter, "").startswith("LATIN") for letter in letters)
    code, probability = _identifier().classify(text)
    if code == "en" or (probability < _SURE and 2 * latin >= len(letters)):
        return None
    return str(code)


@cache
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
