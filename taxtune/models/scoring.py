"""The probabilities of names where an answer has one, read off a model's next-token logits.

The tokens of all forms of all names make a prefix tree, which is read from its root on: one read
gives the probabilities of all tokens that go on from a node. A name's probability is the product of
those of its tokens, given the answer's frame; the forms of a name are summed. Longer names are not
made up for: this is what the model, sampled often, would write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache
from os.path import commonprefix
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from taxtune.models.base import OTHERWISE, Candidates
from taxtune.models.outcomes import find_name, forms, frame_of, summed, undecided

__all__ = ["EPSILON", "MOST_READS", "Scorer", "Written"]

FloatArray = NDArray[np.float64]
Tokens = tuple[int, ...]
Logits = NDArray[np.float32]

#: Least probability of a node of the prefix tree that is read: names below it are not told apart.
EPSILON = 1e-3
#: Nodes read for one answer at most, the most probable first.
MOST_READS = 40
# Branches less probable than this are one outcome with their likes: ten thousand names have
# thousands of them.
_LEAST = 1e-9
# Stands for any word before a name, where the tokens of these do not depend on it.
_ANY_WORD = "A"
_WORDS = ("owl", "Owl", "ibis", "teal", "Éider", "8")
# Contexts and frames whose tokens are cached.
_CACHED_FRAMES = 256
# Prefix trees that are cached: answers with the same word before the name share one.
_CACHED_TREES = 8


class Written(NamedTuple):
    """An answer as a model wrote it.

    Attributes:
        context: The end of what it read, from the last control token on.
        tokens: The tokens that it wrote.
        logits: From a place among these to the logits of the token there, of shape (vocabulary,);
            None if not known.
        candidates: The names to weigh.
    """

    context: str
    tokens: Sequence[int]
    logits: Callable[[int], Logits] | None
    candidates: Candidates

    def logits_after(self, tokens: Tokens) -> Logits | None:
        """Returns the logits after tokens, if these were read while the answer was written."""
        place = len(tokens)
        is_known = place < len(self.tokens) and tokens == tuple(self.tokens[:place])
        return self.logits(place) if self.logits is not None and is_known else None


class _Node:
    """A node of a prefix tree, which makes its children when they are first wanted.

    Args:
        members: Tokens and name of each form at or below it.
        depth: Number of tokens from the root.

    Attributes:
        name: The name that ends here, if any.
        has_children: Whether others go on.
    """

    def __init__(self, members: Sequence[tuple[Tokens, str]], depth: int = 0) -> None:
        self._members = members
        self._depth = depth
        self.name = next((name for tokens, name in members if len(tokens) == depth), None)
        self.has_children = any(len(tokens) > depth for tokens, _ in members)

    @cached_property
    def children(self) -> tuple[NDArray[np.intp], list[_Node]]:
        """The tokens that go on from here, and where they lead."""
        below: dict[int, list[tuple[Tokens, str]]] = {}
        for tokens, name in self._members:
            if len(tokens) > self._depth:
                below.setdefault(tokens[self._depth], []).append((tokens, name))
        nodes = [_Node(members, self._depth + 1) for members in below.values()]
        return np.array(list(below), dtype=np.intp), nodes

    @cached_property
    def undecided(self) -> str:
        """The outcome of all names at or below it."""
        return undecided([name for _, name in self._members])


class _Tree(NamedTuple):
    """A prefix tree.

    Attributes:
        root: Its root.
        shared: How many of the tokens before the name are part of it, as names may merge with them.
    """

    root: _Node
    shared: int


class _Branch(NamedTuple):
    """A node that may be read.

    Attributes:
        answer: The number of the answer.
        tokens: The tokens after the request.
        node: The node.
        log: The node's log-probability.
    """

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
        self._tokenize = tokenize
        self._decode = decode
        self._context = lru_cache(maxsize=_CACHED_FRAMES)(self._read_context)
        self._frame = lru_cache(maxsize=_CACHED_FRAMES)(self._read_frame)
        self._tree = lru_cache(maxsize=_CACHED_TREES)(self._make_tree)

    def outcomes(
        self,
        answers: Sequence[Written],
        read: Callable[[Sequence[int], Sequence[Tokens]], Iterator[Logits]],
        epsilon: float = EPSILON,
    ) -> list[dict[str, float]]:
        """Returns the log-probabilities of each answer's outcomes; see `Answer.outcomes`.

        Args:
            answers: The answers.
            read: From numbers of answers, and tokens that follow their questions, the fewest first,
                to the logits of the next token, each of shape (vocabulary,).
            epsilon: Nodes of a lower probability are not read.
        """
        parts: list[list[tuple[str, float]]] = [[] for _ in answers]
        reads_left = [MOST_READS] * len(answers)
        branches: list[_Branch] = []
        for number, answer in enumerate(answers):
            start = self._start(answer)
            if start is None:
                parts[number].append((OTHERWISE, 0.0))
                continue
            tokens, root = start
            branches.append(_Branch(answer=number, tokens=tokens, node=root, log=0.0))
        while branches:
            unread: list[_Branch] = []
            while branches:
                branches.sort(key=lambda branch: branch.log)
                branch = branches.pop()
                number = branch.answer
                is_probable = branch.log >= np.log(epsilon)
                logits = answers[number].logits_after(branch.tokens) if is_probable else None
                if logits is not None:
                    branches += _follow(branch, logits, parts[number])
                elif is_probable and reads_left[number]:
                    reads_left[number] -= 1
                    unread.append(branch)
                else:
                    parts[number].append((branch.node.undecided, branch.log))
            unread.sort(key=lambda branch: len(branch.tokens))
            numbers = [branch.answer for branch in unread]
            rows = read(numbers, [branch.tokens for branch in unread])
            for branch, row in zip(unread, rows, strict=True):
                branches += _follow(branch, row, parts[branch.answer])
        return [summed(of_answer) for of_answer in parts]

    def _start(self, answer: Written) -> tuple[Tokens, _Node] | None:
        """Returns the tokens of an answer's frame and the root of the names after it, if any."""
        context, context_text = self._context(answer.context)
        whole = self._decode([*context, *answer.tokens])
        text = whole.removeprefix(context_text)
        # The text of a token may depend on those before it: some tokenizers drop the space at the
        # beginning of a text.
        if not whole.startswith(context_text):
            text = self._decode(answer.tokens)
        found = find_name(text, answer.candidates)
        if found is None:
            return None
        frame, leads = frame_of(text, found.start)
        written, anchor = self._frame(answer.context, frame, leads[0])
        merges = bool(written) and anchor == answer.context + frame
        tree = self._tree(anchor, leads, merges, answer.candidates)
        if tree.shared > len(written):
            tree = self._tree(anchor, leads, False, answer.candidates)
        return written[: len(written) - tree.shared], tree.root

    def _read_context(self, context: str) -> tuple[list[int], str]:
        """Returns the tokens of the end of what the model read, and their text."""
        [tokens] = self._tokenize([context])
        return tokens, self._decode(tokens)

    def _read_frame(self, context: str, frame: str, lead: str) -> tuple[Tokens, str]:
        """Returns the tokens of a frame, and an anchor.

        That is a text, as short as can be, after which names have the same tokens as after the
        frame.
        """
        before, _ = self._context(context)
        text = context + frame
        [tokens] = self._tokenize([text])
        if tokens[: len(before)] != before:
            # What was written cannot merge with the end of what was read.
            tokens = [*before, *self._tokenize([frame])[0]]
        written = tuple(tokens[len(before) :])
        words = self._words_after(text, lead)
        for anchor in (_ANY_WORD, text.split(" ")[-1]):
            if self._words_after(anchor, lead) == words:
                return written, anchor
        return written, text

    def _words_after(self, text: str, lead: str) -> list[list[int]]:
        """Returns the tokens of some words after a text; of those that merge, with the text's."""
        base, *rows = self._tokenize([text, *(text + lead + word for word in _WORDS)])
        return [row[len(base) :] if row[: len(base)] == base else row for row in rows]

    def _make_tree(
        self, anchor: str, leads: tuple[str, ...], merges: bool, candidates: Candidates
    ) -> _Tree:
        names = candidates.weighed
        known = dict(zip(names, names, strict=True))  # a name is no form of another
        for name in names:
            for form in forms(name):
                known.setdefault(form, name)
        named = [(lead + form, name) for form, name in known.items() for lead in leads]
        base, *rows = self._tokenize([anchor, *(anchor + text for text, _ in named)])
        start = len(base)
        if merges:
            start = len(commonprefix([base, *rows]))  # noqa: RUF071 - they are no paths
        members: dict[Tokens, str] = {}
        for (text, name), row in zip(named, rows, strict=True):
            if row[:start] == base[:start]:
                tokens = row[start:]
            else:
                [tokens] = self._tokenize([text])
            members.setdefault(tuple(tokens), name)
        return _Tree(root=_Node(list(members.items())), shared=len(base) - start)


def _follow(branch: _Branch, logits: Logits, parts: list[tuple[str, float]]) -> Iterator[_Branch]:
    """Adds the outcomes that end at a node to an answer's, and gives the branches that go on."""
    tokens, nodes = branch.node.children
    logs = logits.astype(np.float64)
    logs += branch.log - _log_sum(logs)
    below = logs[tokens]
    logs[tokens] = -np.inf
    parts.append((branch.node.name or OTHERWISE, _log_sum(logs)))
    is_least = np.exp(below) < _LEAST
    parts.append((branch.node.undecided, _log_sum(below[is_least])))
    for i in np.flatnonzero(~is_least):
        node = nodes[i]
        log = float(below[i])
        if node.has_children:
            yield _Branch(branch.answer, (*branch.tokens, int(tokens[i])), node, log)
        else:
            assert node.name is not None, "a node without children ends a name"
            parts.append((node.name, log))


def _log_sum(logs: FloatArray) -> float:
    most = logs.max(initial=-np.inf)
    return float(most + np.log(np.exp(logs - most).sum())) if most > -np.inf else -np.inf
