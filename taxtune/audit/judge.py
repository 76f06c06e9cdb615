"""A chat model as the judge of placements.

It sees the answer, the path, the children of the node and the nodes whose names are in the answer. A reply without
exactly one verdict is unread; neither that nor a failed call is scored.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from taxtune.audit.sample import VERDICTS, resolve_node, verdict_of
from taxtune.errors import TaxonomyError
from taxtune.mapping.config import Stage
from taxtune.metrics.judging import MAX_TEXT, Judge, JudgePrompt, plain_reply
from taxtune.tables import split_cell

if TYPE_CHECKING:
    import pandas as pd

    from taxtune.models import Model
    from taxtune.taxonomy.tree import Taxonomy

__all__ = ["MAX_TOKENS", "judge_sample", "read_reply"]

#: Room for a thought before the three lines; the last lines decide.
MAX_TOKENS = 512
_MOST_CHILDREN, _MOST_NEAR, _MOST_NAMES, _LONGEST_NAME = 40, 12, 4, 8
_VERDICT = re.compile(r"^\W*(?:(?:final\s+)?verdict\s*[:=]\s*)\W*(right|too[\s-]+general|wrong)\W*$", re.I | re.M)
_NODE = re.compile(r"^[\s*_>-]*node[*_]*\s*[:=](.*)$", re.I | re.M)
_ALONE = re.compile(r"\W*(right|too[\s-]+general|wrong)\W*", re.I)


def judge_sample(
    sample: pd.DataFrame, tree: Taxonomy, model: Model, *, cache_dir: Path | None = None
) -> tuple[pd.DataFrame, list[str]]:
    """Fills a sample with the verdicts of a chat model, and notes what has none.

    Replies in `cache_dir` (the user's cache where it is None) are not asked for again.

    Raises:
        ModelError: If the model cannot be asked at all.
        DataError: If the file of replies cannot be read or written.
    """
    judge = Judge(model, place=cache_dir)
    prompt = JudgePrompt("judge.j2", "audit")
    nodes_of: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for node in range(len(tree)):
        for name in tree.names(node):
            nodes_of[_words(name)].append(node)
    rows = sample.to_dict("records")
    prompts = [_render(prompt, tree, nodes_of, row) if len(row["answer"]) <= MAX_TEXT else None for row in rows]

    def code(reply: str) -> float | None:
        verdict = read_reply(reply)[0]
        return None if verdict is None else float(VERDICTS.index(verdict))

    replies = judge.judge(prompts, code, f"an answer longer than {MAX_TEXT:,} characters")
    filled, unusable = sample.copy(), 0
    for index, (row, value, reply) in enumerate(zip(rows, replies.values, replies.replies, strict=True)):
        if np.isnan(value) or reply is None:
            continue
        verdict, named = read_reply(reply)
        if named and (verdict == "right" or not _follows(tree, row, named, verdict)):
            unusable += verdict != "right"
            named = ""
        filled.loc[index, ["verdict", "node"]] = [verdict, named]
    notes = list(judge.notes("contains no verdict"))
    if unusable:
        notes.append(
            f"{unusable:,} replies name a node that the tree does not have or that contradicts their verdict; the "
            "verdict counts, the node does not."
        )
    return filled, notes


def read_reply(reply: str) -> tuple[str | None, str]:
    """The verdict and the node of a reply; None where it has no verdict or several, "" where it has no node.

    The verdict stands on a line "Verdict: ..." or is the whole reply; of several lines "Node: ..." the last counts.
    """
    text = plain_reply(reply)
    if text is None:
        return None, ""
    alone = _ALONE.fullmatch(text.strip())
    verdicts = [alone[1]] if alone else _VERDICT.findall(text)
    distinct = {" ".join(re.split(r"[\s-]+", verdict.casefold())) for verdict in verdicts}
    node = ["", *_NODE.findall(text)][-1].strip().strip("\"'`*“”‘’ ").strip()
    node = "" if node.casefold() in ("-", "–", "—", "n/a", "unknown") else node
    return distinct.pop() if len(distinct) == 1 else None, node


def _follows(tree: Taxonomy, row: Mapping[Any, Any], node: str, verdict: str | None) -> bool:
    try:
        return verdict_of(tree, row["placement"], row["stage"], resolve_node(tree, node)) == verdict
    except TaxonomyError:
        return False


def _words(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\w+", text.casefold()))


def _render(
    prompt: JudgePrompt, tree: Taxonomy, nodes_of: Mapping[tuple[str, ...], list[int]], row: Mapping[Any, Any]
) -> str:
    node, stage = tree.resolve(split_cell(row["placement"], "/")), row["stage"]
    words = _words(row["answer"][:400])
    runs = [words[i : i + n] for n in range(_LONGEST_NAME, 0, -1) for i in range(len(words) - n + 1)]
    near = dict.fromkeys(other for run in runs for other in nodes_of.get(run, ()) if other not in (node, tree.root))
    children = tree.children(node).tolist()
    shown = [tree.names(child)[:2] for child in children[:_MOST_CHILDREN]]
    return prompt.render(
        root=tree.common_name(tree.root),
        answer=row["answer"],
        placed=None if stage in (Stage.ABSTAINED, Stage.OFF_TREE) else "/".join(tree.path(node)),
        off_tree=stage == Stage.OFF_TREE,
        names=tree.names(node)[1 : 1 + _MOST_NAMES],
        below=[names[0] if len(names) == 1 else f"{names[0]} ({names[1]})" for names in shown],
        more=max(0, len(children) - _MOST_CHILDREN),
        near=["/".join(tree.path(other)) for other in list(near)[:_MOST_NEAR]],
    )
