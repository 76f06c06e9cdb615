"""A chat model as the judge of placements.

It sees the answer, the path, the children of the node and the nodes whose names are in the answer.
A reply without exactly one verdict is unread; neither that nor a failed call is scored.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from taxtune.audit.verdicts import VERDICTS, resolve_node, verdict_of
from taxtune.errors import TaxonomyError
from taxtune.mapping.config import OFF_TREE_STAGES, Stage
from taxtune.models.judging import MAX_TEXT, Judge, JudgePrompt, plain_reply
from taxtune.tables import split_cell

if TYPE_CHECKING:
    import pandas as pd

    from taxtune.models import Model
    from taxtune.taxonomy.tree import Taxonomy

__all__ = ["MAX_TOKENS", "judge_sample", "read_reply"]

#: Room for a thought before the three lines; the last lines decide.
MAX_TOKENS = 512
_MOST_CHILDREN = 40
_MOST_NEAR = 12
_MOST_NAMES = 4
_LONGEST_NAME = 8
_READ = 400  # characters of an answer in which names are looked for
_VERDICT = re.compile(
    r"^\W*(?:(?:final\s+)?verdict\s*[:=]\s*)\W*(right|too[\s-]+general|wrong)\W*$", re.I | re.M
)
_NODE = re.compile(r"^[\s*_>-]*node[*_]*\s*[:=](.*)$", re.I | re.M)
_ALONE = re.compile(r"\W*(right|too[\s-]+general|wrong)\W*", re.I)


def judge_sample(
    sample: pd.DataFrame, tree: Taxonomy, model: Model, *, cache_dir: Path | None = None
) -> tuple[pd.DataFrame, list[str]]:
    """Fills a sample with the verdicts of a chat model.

    Args:
        sample: The sample.
        tree: The label tree.
        model: The chat model.
        cache_dir: Where replies are kept, which are not asked for again. None is the user's cache.

    Returns:
        The sample, and notes on what has no verdict.

    Raises:
        ModelError: If the model cannot be asked at all.
        DataError: If the file of replies cannot be read or written.
    """
    judge = Judge(model, place=cache_dir)
    rows = sample.to_dict("records")
    questions = _Questions(tree)
    prompts = []
    for row in rows:
        is_short = len(row["answer"]) <= MAX_TEXT
        prompts.append(questions.about(row) if is_short else None)

    def code(reply: str) -> float | None:
        verdict, _ = read_reply(reply)
        return None if verdict is None else float(VERDICTS.index(verdict))

    replies = judge.judge(prompts, code, f"an answer longer than {MAX_TEXT:,} characters")
    filled = sample.copy()
    unusable = 0
    judged = zip(rows, replies.values, replies.replies, strict=True)
    for index, (row, value, reply) in enumerate(judged):
        if np.isnan(value) or reply is None:
            continue
        verdict, node = read_reply(reply)
        if node and verdict == "right":
            node = ""
        elif node and not _follows(tree, row, node, verdict):
            node = ""
            unusable += 1
        filled.loc[index, ["verdict", "node"]] = [verdict, node]
    notes = list(judge.notes("contains no verdict"))
    if unusable:
        notes.append(
            f"{unusable:,} replies name a node that the tree does not have or that contradicts their "
            "verdict; the verdict counts, the node does not."
        )
    return filled, notes


def read_reply(reply: str) -> tuple[str | None, str]:
    """Returns the verdict and the node of a reply.

    The verdict stands on a line "Verdict: ..." or is the whole reply. It is None where there is
    none or several. Of several lines "Node: ..." the last counts; "" is no node.
    """
    text = plain_reply(reply)
    if text is None:
        return None, ""
    alone = _ALONE.fullmatch(text.strip())
    verdicts = [alone[1]] if alone else _VERDICT.findall(text)
    distinct = set()
    for written in verdicts:
        words = re.split(r"[\s-]+", written.casefold())
        distinct.add(" ".join(words))
    *_, last = "", *_NODE.findall(text)
    node = last.strip().strip("\"'`*“”‘’ ").strip()
    if node.casefold() in ("-", "–", "—", "n/a", "unknown"):
        node = ""
    verdict = distinct.pop() if len(distinct) == 1 else None
    return verdict, node


def _follows(tree: Taxonomy, row: Mapping[Any, Any], node: str, verdict: str | None) -> bool:
    """Returns whether a verdict follows from the node that a reply names."""
    try:
        named = resolve_node(tree, node)
    except TaxonomyError:
        return False
    return verdict_of(tree, row["placement"], row["stage"], named) == verdict


class _Questions:
    """The questions about placements on a tree.

    Args:
        tree: The label tree.
    """

    def __init__(self, tree: Taxonomy) -> None:
        self._tree = tree
        self._prompt = JudgePrompt("judge.j2", "audit")
        self._nodes_of: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for node in range(len(tree)):
            for name in tree.names(node):
                self._nodes_of[_words(name)].append(node)

    def about(self, row: Mapping[Any, Any]) -> str:
        """Returns the question about the placement in a row of a sample."""
        tree = self._tree
        node = tree.resolve(split_cell(row["placement"], "/"))
        is_off_tree = row["stage"] in OFF_TREE_STAGES
        is_nothing = is_off_tree or row["stage"] == Stage.ABSTAINED
        children = tree.children(node).tolist()
        below = []
        for child in children[:_MOST_CHILDREN]:
            name, *others = tree.names(child)
            below.append(f"{name} ({others[0]})" if others else name)
        near = [other for other in self._named_in(row["answer"]) if other not in (node, tree.root)]
        return self._prompt.render(
            root=tree.common_name(tree.root),
            answer=row["answer"],
            placed=None if is_nothing else "/".join(tree.path(node)),
            off_tree=is_off_tree,
            names=tree.names(node)[1 : 1 + _MOST_NAMES],
            below=below,
            more=max(0, len(children) - _MOST_CHILDREN),
            near=["/".join(tree.path(other)) for other in near[:_MOST_NEAR]],
        )

    def _named_in(self, answer: str) -> dict[int, None]:
        """Returns the nodes whose names are in an answer, those with long names first."""
        words = _words(answer[:_READ])
        nodes: dict[int, None] = {}
        for length in range(_LONGEST_NAME, 0, -1):
            for start in range(len(words) - length + 1):
                nodes |= dict.fromkeys(self._nodes_of.get(words[start : start + length], ()))
        return nodes


def _words(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\w+", text.casefold()))
