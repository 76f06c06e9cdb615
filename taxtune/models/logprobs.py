"""Probabilities of the names that a model might have given, from an API's token probabilities.

For each token of the answer an API tells the few most likely tokens at its place. Up to the name
the answer is taken as given. From there, each of these tokens continues the text so far: it
completes a name, or begins some, or none. What an API does not tell goes to `OTHERWISE`, so that
more tokens take nothing from a name for that.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from taxtune.models.base import OTHERWISE, Candidates
from taxtune.models.outcomes import find_name, frame_of, undecided

__all__ = ["read_outcomes"]

_ARTICLES = (b"a", b"an", b"the")


def read_outcomes(text: str, logprobs: Any, candidates: Candidates) -> dict[str, float] | None:
    """Reads the outcomes of an answer (see `Answer.outcomes`) out of its token probabilities.

    Args:
        text: The answer, white space at the ends removed.
        logprobs: Those of a choice in OpenAI's form: `content` lists the tokens, each with `token`,
            `bytes` (or None), `logprob` and `top_logprobs`, which lists such tokens. Thoughts may
            stand before the answer.
        candidates: The names.

    Returns:
        The outcomes; None where the tokens do not spell the answer, lack alternatives or have no
        probabilities.
    """
    tokens = getattr(logprobs, "content", None) or ()
    try:
        pieces = [_bytes(token) for token in tokens]
    except ValueError:
        return None
    written = b"".join(pieces)
    answer_start = written.rfind(text.encode())
    if answer_start < 0 or not text:
        return None
    found = find_name(text, candidates)
    if found is None:
        return {OTHERWISE: 0.0}
    name_start = answer_start + len(text[: found.start].encode())
    name_end = answer_start + len(text[: found.end].encode())
    # A space before the name may be a token, or begin one.
    first = len(written[:name_start].rstrip())
    names = _names(candidates)
    given = found.name if found.name in candidates.weighed else OTHERWISE
    reading = _Reading(
        written=written,
        first=first,
        name_start=name_start,
        is_inside=answer_start < first < name_start,
        has_article=len(frame_of(text, found.start)[1]) > 1,
    )
    shares: dict[str, float] = defaultdict(float)
    so_far = 1.0
    end = 0
    for token, piece in zip(tokens, pieces, strict=True):
        start = end
        end += len(piece)
        if end <= first:
            continue
        alternatives = _alternatives(token)
        if alternatives is None:
            return None
        other_names = 0.0
        for alternative, share in alternatives.items():
            if alternative == piece:
                continue
            outcome = _outcome(reading.name_with(alternative, start), names)
            if outcome != OTHERWISE:
                shares[outcome] += so_far * share
                other_names += share
        if start >= name_end:
            # Whatever does not go on to a longer name is the name's.
            shares[given] += so_far * max(0.0, 1 - other_names - alternatives[piece])
        so_far *= alternatives[piece]
        if end >= name_end and set(_continued(written[name_start:end], names)) <= {given}:
            break
    shares[given] += so_far
    shares.pop(OTHERWISE, None)
    shares[OTHERWISE] = max(0.0, 1 - sum(shares.values()))
    return {outcome: math.log(share) for outcome, share in shares.items() if share > 0}


class _Reading(NamedTuple):
    """Where the name of an answer stands, in bytes.

    Attributes:
        written: All that the model wrote.
        first: The end of the text before the name, without white space.
        name_start: Where the name begins.
        is_inside: Whether white space parts the name from other words of the answer.
        has_article: Whether an English indefinite article stands before the name.
    """

    written: bytes
    first: int
    name_start: int
    is_inside: bool
    has_article: bool

    def name_with(self, token: bytes, start: int) -> bytes:
        """Returns the beginning of a name if a token stood at a place; empty if none begins."""
        lead = self.written[start : self.first]
        if not token.startswith(lead):
            return b""
        text = self.written[self.first : start] + token.removeprefix(lead)
        name = text.lstrip()
        if self.is_inside and name == text:
            return b""
        if not self.has_article and name.lower() in _ARTICLES:
            return b""  # an article may be that of any name
        return name


def _bytes(token: Any) -> bytes:
    """Returns a token's text, which may be a part of a character."""
    return bytes(token.bytes) if token.bytes is not None else token.token.encode("utf-8", "replace")


def _alternatives(token: Any) -> Mapping[bytes, float] | None:
    """Returns the probabilities of a token and of its alternatives; None where they are none."""
    listed = list(token.top_logprobs or ())
    if listed and _bytes(token) not in map(_bytes, listed):
        listed.append(token)
    shares: dict[bytes, float] = defaultdict(float)
    for alternative in listed:
        log = alternative.logprob
        shares[_bytes(alternative)] += math.exp(log) if log <= 0 else math.nan
    total = sum(shares.values())
    if not listed or not total <= 1.01:  # rounding may add a little
        return None
    return {text: share / max(total, 1.0) for text, share in shares.items()}


class _Names(NamedTuple):
    """The names that are weighed.

    Attributes:
        plain: The names as they are compared, in order.
        written: The same names as they are written.
        candidates: The same names, none of them broader.
    """

    plain: list[bytes]
    written: list[str]
    candidates: Candidates


@lru_cache(maxsize=8)
def _names(candidates: Candidates) -> _Names:
    known: dict[bytes, str] = {}
    for name in candidates.weighed:
        known.setdefault(_plain(name.encode("utf-8", "replace")).strip(), name)
    plain = sorted(known)
    return _Names(plain, [known[name] for name in plain], Candidates(candidates.weighed))


def _plain(text: bytes) -> bytes:
    """Returns text as it is compared: in small letters, hyphens as spaces.

    The bytes of half a character stay as they are.
    """
    folded = text.decode("utf-8", "surrogateescape").casefold()
    return re.sub(r"[\s_-]+", " ", folded).encode("utf-8", "surrogateescape")


def _continued(text: bytes, names: _Names) -> list[str]:
    """Returns the names that a text begins or, white space at its end left out, is."""
    stem = _plain(text)
    start = bisect_left(names.plain, stem)
    end = bisect_left(names.plain, stem + b"\xff")
    continued = names.written[start:end]
    whole = stem.strip()
    place = bisect_left(names.plain, whole)
    is_name = names.plain[place : place + 1] == [whole]
    if is_name and whole != stem:
        continued = [names.written[place], *continued]
    return continued


def _outcome(text: bytes, names: _Names) -> str:
    """Returns the outcome of a text from where a name begins, whatever comes next."""
    if not text.strip():
        return OTHERWISE
    continued = _continued(text, names)
    if continued:
        return continued[0] if len(continued) == 1 else undecided(continued)
    found = find_name(text.decode("utf-8", "surrogateescape"), names.candidates)
    return found.name if found is not None and found.start == 0 else OTHERWISE
