"""The probabilities of names where an answer has one, read off a model's next-token logits.

The tokens of all forms of all names make a prefix tree, which is read from its root on: one read gives the
probabilities of all tokens that go on from a node. A name's probability is the product of those of its tokens, given
the answer's frame; the forms of a name are summed. Longer names are not made up for: this is what the model, sampled
often, would write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache
from os.path import commonprefix
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from taxtune.models.base import OTHERWISE, Candidates
from taxtune.models.outcomes import find_name, forms, frame_of, summed, unsettled

__all__ = ["EPSILON", "MOST_READS", "Scorer", "Written"]

FloatArray = NDArray[np.float64]
Tokens = tuple[int, ...]
Logits = NDArray[np.float32]

#: Least probability of a node of the prefix tree that is read: names below it are not told apart.
EPSILON = 1e-3
#: Nodes read for one answer at most, the most probable first.
MOST_READS = 40
# Branches less probable than this are one outcome with their likes: ten thousand names have thousands of them.
_LEAST = 1e-9
# Stands for any word before a name, where the tokens of these do not depend on it.
_ANY_WORD, _WORDS = "A", ("owl", "Owl", "ibis", "teal", "Éider", "8")
# Frames and prefix trees that are kept: answers with the same word before the name share a tree.
_FRAMES, _TREES = 256, 8


class Written(NamedTuple):
    """An answer as a model wrote it.

    Attributes:
        context: The end of what it read, from the last control token on.
        tokens: The tokens that it wrote.
        logits: From a place among these to the logits of the token there, of shape (vocabulary,); None if not known.
        candidates: The names to weigh.
    """

    context: str
    tokens: Sequence[int]
    logits: Callable[[int], Logits] | None
    candidates: Candidates

    def logits_after(self, tokens: Tokens) -> Logits | None:
        """Returns the logits after tokens, if these were read while the answer was written."""
        if (
            self.logits is None
            or len(tokens) == len(self.tokens)
            or tokens != tuple(self.tokens[: len(tokens)])
        ):
            return None
        return self.logits(len(tokens))


class _Node:
    """A node of a prefix tree, which makes its children when they are first wanted.

    Args:
        members: Tokens and name of each form at or below it.
        depth: Number of tokens from the root.
    """

    def __init__(self, members: Sequence[tuple[Tokens, str]], depth: int = 0) -> None:
        self._members, self._depth = members, depth
        #: The name that ends here, and whether others go on.
        self.name = next((name for tokens, name in members if len(tokens) == depth), None)
        self.goes_on = any(len(tokens) > depth for tokens, _ in members)

    @cached_property
    def children(self) -> tuple[NDArray[np.intp], list[_Node]]:
        """The tokens that go on from here, and where they lead."""
        below: dict[int, list[tuple[Tokens, str]]] = {}
        for member in self._members:
            if len(member[0]) > self._depth:
                below.setdefault(member[0][self._depth], []).append(member)
        return np.array([*below], dtype=np.intp), [
            _Node(some, self._depth + 1) for some in below.values()
        ]

    @cached_property
    def unsettled(self) -> str:
        """The outcome of all names at or below it."""
        return unsettled([name for _, name in self._members])


class _Tree(NamedTuple):
    """A prefix tree, and how many of the tokens before the name are part of it, as names may merge with them."""

    root: _Node
    back: int


class _Reach(NamedTuple):
    """A node to be read: the answer's number, the tokens after the request, and the node's log-probability."""

    answer: int
    tokens: Tokens
    node: _Node
    log: float


class Scorer:
    """Weighs names with a model.

    Args:
        tokenize: From texts, control tokens included, to their tokens, with nothing added.
        decode: From tokens to their text without control tokens.
    """

    def __init__(
        self,
        tokenize: Callable[[Sequence[str]], list[list[int]]],
        decode: Callable[[Sequence[int]], str],
    ) -> None:
        self._tokenize, self._decode = tokenize, decode
        self._context = lru_cache(maxsize=_FRAMES)(self._read_context)
        self._frame = lru_cache(maxsize=_FRAMES)(self._read_frame)
        self._tree = lru_cache(maxsize=_TREES)(self._plant)

    def outcomes(
        self,
        answers: Sequence[Written],
        read: Callable[[Sequence[int], Sequence[Tokens]], Iterator[Logits]],
        epsilon: float = EPSILON,
    ) -> list[dict[str, float]]:
        """Returns the log-probabilities of each answer's outcomes; see `Answer.outcomes`.

        Args:
            answers: The answers.
            read: From numbers of answers, and tokens that follow their questions, the fewest first, to the logits of
                the next token, each of shape (vocabulary,).
            epsilon: Nodes of a lower probability are not read.
        """
        parts: list[list[tuple[str, float]]] = [[] for _ in answers]
        room = [MOST_READS] * len(answers)
        reached: list[_Reach] = []
        for number, answer in enumerate(answers):
            start = self._start(answer)
            if start is None:
                parts[number].append((OTHERWISE, 0.0))
            else:
                reached.append(_Reach(number, *start, 0.0))
        while reached:
            queue: list[_Reach] = []
            while reached:
                reached.sort(key=lambda one: one.log)
                one = reached.pop()
                worth = one.log >= np.log(epsilon)
                known = answers[one.answer].logits_after(one.tokens) if worth else None
                if known is not None:
                    reached += _settle(one, known, parts[one.answer])
                elif worth and room[one.answer]:
                    room[one.answer] -= 1
                    queue.append(one)
                else:
                    parts[one.answer].append((one.node.unsettled, one.log))
            queue.sort(key=lambda one: len(one.tokens))
            rows = read([one.answer for one in queue], [one.tokens for one in queue])
            for one, row in zip(queue, rows, strict=True):
                reached += _settle(one, row, parts[one.answer])
        return [summed(some) for some in parts]

    def _start(self, answer: Written) -> tuple[Tokens, _Node] | None:
        """Returns the tokens of an answer's frame and the root of the names after it; None without a name."""
        context, before = self._context(answer.context)
        text = self._decode([*context, *answer.tokens])
        # What a token says may depend on those before it: some tokenizers drop the space at the beginning of a text.
        text = text.removeprefix(before) if text.startswith(before) else self._decode(answer.tokens)
        found = find_name(text, answer.candidates)
        if found is None:
            return None
        frame, leads = frame_of(text, found[0])
        written, anchor = self._frame(answer.context, frame, leads[0])
        merges = bool(written) and anchor == answer.context + frame
        tree = self._tree(anchor, leads, merges, answer.candidates)
        if tree.back > len(written):
            tree = self._tree(anchor, leads, False, answer.candidates)
        return written[: len(written) - tree.back], tree.root

    def _read_context(self, context: str) -> tuple[list[int], str]:
        """Returns the tokens of the end of what was read, and what they say."""
        [tokens] = self._tokenize([context])
        return tokens, self._decode(tokens)

    def _read_frame(self, context: str, frame: str, lead: str) -> tuple[Tokens, str]:
        """Returns the tokens of a frame, and a text after which names have the same tokens, as short as can be."""
        before, _ = self._context(context)
        text = context + frame
        [tokens] = self._tokenize([text])
        if (
            tokens[: len(before)] != before
        ):  # what was written cannot merge with the end of what was read
            tokens = [*before, *self._tokenize([frame])[0]]
        wanted, last = self._after(text, lead), text.split(" ")[-1]
        anchor = next((end for end in (_ANY_WORD, last) if self._after(end, lead) == wanted), text)
        return tuple(tokens[len(before) :]), anchor

    def _after(self, text: str, lead: str) -> list[list[int]]:
        """Returns the tokens of some words after a text; of those that merge with it, with the text's."""
        base, *rows = self._tokenize([text, *(text + lead + word for word in _WORDS)])
        return [row[len(base) :] if row[: len(base)] == base else row for row in rows]

    def _plant(
        self, anchor: str, leads: tuple[str, ...], merges: bool, candidates: Candidates
    ) -> _Tree:
        names = candidates.weighed
        known = dict(zip(names, names, strict=True))  # what is a name is no form of another
        for name in names:
            for form in forms(name):
                known.setdefault(form, name)
        named = [(lead + form, name) for form, name in known.items() for lead in leads]
        base, *rows = self._tokenize([anchor, *(anchor + text for text, _ in named)])
        shared = len(commonprefix([base, *rows])) if merges else len(base)  # noqa: RUF071 - they are no paths
        members: dict[Tokens, str] = {}
        for (text, name), row in zip(named, rows, strict=True):
            whole = row[:shared] == base[:shared]
            members.setdefault(tuple(row[shared:] if whole else self._tokenize([text])[0]), name)
        return _Tree(_Node([*members.items()]), len(base) - shared)


def _settle(at: _Reach, logits: Logits, parts: list[tuple[str, float]]) -> Iterator[_Reach]:
    """Adds what a node that was read tells to an answer's outcomes, and gives the children that go on."""
    tokens, nodes = at.node.children
    rest = logits.astype(np.float64)
    rest += at.log - _log_sum(rest)
    below = rest[tokens]
    rest[tokens] = -np.inf
    parts.append((at.node.name or OTHERWISE, _log_sum(rest)))
    least = np.exp(below) < _LEAST
    parts.append((at.node.unsettled, _log_sum(below[least])))
    for i in np.flatnonzero(~least):
        node, log = nodes[i], float(below[i])
        if node.goes_on:
            yield _Reach(at.answer, (*at.tokens, int(tokens[i])), node, log)
        else:
            assert node.name is not None, "a node without children ends a name"
            parts.append((node.name, log))


def _log_sum(logs: FloatArray) -> float:
    most = logs.max(initial=-np.inf)
    return float(most + np.log(np.exp(logs - most).sum())) if most > -np.inf else -np.inf
