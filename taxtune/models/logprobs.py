"""What an API tells of its tokens, as the probabilities of the names that the model might have said.

For each token of the answer an API tells the few most likely tokens at its place. Up to the name the answer is taken
as given. From there, each of these tokens continues what was said so far: it completes a name, or begins some, or none.
What an API does not tell goes to `OTHERWISE`, so that more tokens take nothing from a name for that.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import defaultdict
from functools import lru_cache
from typing import Any, NamedTuple

from taxtune.models.base import OTHERWISE, Candidates
from taxtune.models.outcomes import find_name, frame_of, unsettled

__all__ = ["read_outcomes"]

_ARTICLES = (b"a", b"an", b"the")


def read_outcomes(text: str, logprobs: Any, candidates: Candidates) -> dict[str, float] | None:
    """Reads the outcomes of an answer (see `Answer.outcomes`) out of the log-probabilities of its tokens.

    Args:
        text: The answer, white space at the ends removed.
        logprobs: Those of a choice in OpenAI's form: `content` lists the tokens, each with `token`, `bytes` (or None),
            `logprob` and `top_logprobs`, which lists such tokens. Thoughts may stand before the answer.
        candidates: The names.

    Returns:
        The outcomes; None where the tokens do not spell the answer, lack alternatives or have no probabilities.
    """
    tokens = getattr(logprobs, "content", None) or ()
    try:
        pieces = [_bytes(token) for token in tokens]
    except ValueError:
        return None
    said = b"".join(pieces)
    begin = said.rfind(text.encode())
    if begin < 0 or not text:
        return None
    if (found := find_name(text, candidates)) is None:
        return {OTHERWISE: 0.0}
    start, end, name = found
    names = _names(candidates)
    own = name if name in candidates.weighed else OTHERWISE
    has_article = len(frame_of(text, start)[1]) > 1
    name_at, last = (begin + len(text[:at].encode()) for at in (start, end))
    first = len(said[:name_at].rstrip())  # a space before the name may be a token, or begin one
    shares: dict[str, float] = defaultdict(float)
    path, after = 1.0, 0
    for token, piece in zip(tokens, pieces, strict=True):
        before, after = after, after + len(piece)
        if after <= first:
            continue
        if (told := _shares(token)) is None:
            return None
        longer, lead = 0.0, said[before:first]
        for each, share in told.items():
            spaced = said[first:before] + each.removeprefix(lead)
            stem = spaced.lstrip()
            glued = begin < first < name_at and stem == spaced
            if (
                each == piece
                or glued
                or not each.startswith(lead)
                or (not has_article and stem.lower() in _ARTICLES)
            ):
                continue  # an article may be that of any name
            outcome = _outcome(stem, names)
            if outcome != OTHERWISE:
                shares[outcome] += path * share
                longer += share
        if before >= last:  # what goes on to no longer name is the name's
            shares[own] += path * max(0.0, 1 - longer - told[piece])
        path *= told[piece]
        if after >= last and set(_going_on(said[name_at:after], names)) <= {own}:
            break
    shares[own] += path
    shares[OTHERWISE] = max(
        0.0, 1 - sum(share for outcome, share in shares.items() if outcome != OTHERWISE)
    )
    return {outcome: math.log(share) for outcome, share in shares.items() if share > 0}


def _bytes(token: Any) -> bytes:
    """What a token says, which may be a part of a character."""
    return bytes(token.bytes) if token.bytes is not None else token.token.encode("utf-8", "replace")


def _shares(token: Any) -> dict[bytes, float] | None:
    """Returns the probabilities of a token and of its alternatives; None where they are no probabilities."""
    shares: dict[bytes, float] = defaultdict(float)
    listed = list(token.top_logprobs or ())
    if listed and _bytes(token) not in map(_bytes, listed):
        listed.append(token)
    for each in listed:
        shares[_bytes(each)] += math.exp(each.logprob) if each.logprob <= 0 else math.nan
    total = sum(shares.values())
    if not listed or not total <= 1.01:  # rounding may add a little
        return None
    return {each: share / max(total, 1.0) for each, share in shares.items()}


class _Names(NamedTuple):
    """The names that are weighed, as they are compared, in order, and as they are written."""

    plain: list[bytes]
    written: list[str]
    candidates: Candidates


@lru_cache(maxsize=8)
def _names(candidates: Candidates) -> _Names:
    known: dict[bytes, str] = {}
    for name in candidates.weighed:
        known.setdefault(_plain(name.encode("utf-8", "replace")).strip(), name)
    return _Names(
        sorted(known), [known[plain] for plain in sorted(known)], Candidates(candidates.weighed)
    )


def _plain(said: bytes) -> bytes:
    """Text as it is compared, in small letters, hyphens as spaces; the bytes of half a character stay as they are."""
    text = said.decode("utf-8", "surrogateescape").casefold()
    return re.sub(r"[\s_-]+", " ", text).encode("utf-8", "surrogateescape")


def _going_on(said: bytes, names: _Names) -> list[str]:
    """Returns the names that may yet be said, or just were, where `said` is how they begin."""
    stem = _plain(said)
    whole = stem.strip()
    going_on = names.written[
        bisect_left(names.plain, stem) : bisect_left(names.plain, stem + b"\xff")
    ]
    at = bisect_left(names.plain, whole)
    return (
        going_on
        if whole == stem or names.plain[at : at + 1] != [whole]
        else [names.written[at], *going_on]
    )


def _outcome(said: bytes, names: _Names) -> str:
    """Returns the outcome of what was said from where a name begins, whatever comes next."""
    if not said.strip():
        return OTHERWISE
    if going_on := _going_on(said, names):
        return going_on[0] if len(going_on) == 1 else unsettled(going_on)
    found = find_name(said.decode("utf-8", "surrogateescape"), names.candidates)
    return found[2] if found is not None and found[0] == 0 else OTHERWISE
