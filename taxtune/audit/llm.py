"""A chat model as the judge of placements.

It sees the answer, the path, what is below it and the nodes whose names are in the answer. A reply is read strictly:
without exactly one verdict it is unread, and neither that nor a call that failed is scored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from taxtune.audit.population import Item, Population
from taxtune.audit.search import NodeSearch
from taxtune.audit.verdicts import Finding, Verdict, judged_by_node
from taxtune.errors import TaxonomyError
from taxtune.mapping.config import Stage
from taxtune.metrics.judge_replies import plain_reply
from taxtune.metrics.judging import MAX_TEXT, Judge, JudgePrompt
from taxtune.metrics.judging import Verdicts as Replies
from taxtune.taxonomy.tree import Taxonomy

if TYPE_CHECKING:
    from taxtune.models import Model

__all__ = ["MAX_TOKENS", "JudgedByModel", "judge_placements", "read_finding"]

#: Room for a thought before the three lines; the last lines decide.
MAX_TOKENS = 512
_BELOW, _NEAR, _NAMES = 40, 12, 4
_ORDER = tuple(Verdict)
_VERDICT = re.compile(r"^\W*(?:(?:final\s+)?verdict\s*[:=]\s*)\W*(right|too[\s-]+general|wrong)\W*$", re.I | re.M)
_ALONE = re.compile(r"\W*(right|too[\s-]+general|wrong)\W*", re.I)
_NOTHING = frozenset({"", "-", "–", "—", "n/a", "unknown"})


@dataclass(frozen=True, slots=True)
class JudgedByModel:
    """What a chat model said.

    Attributes:
        findings: What it found of each item; None where the reply has no verdict or the call failed.
        replies: What it wrote, and the account of calls.
        unusable: Nodes that it named and that are not on the tree, are ambiguous or contradict its verdict.
        notes: What people should know of it.
    """

    findings: tuple[Finding | None, ...]
    replies: Replies
    unusable: int
    notes: tuple[str, ...] = ()

    @property
    def account(self) -> dict[str, Any]:
        """The counts of the replies, for `--json`."""
        return {
            "unread": self.replies.unread,
            "failed": self.replies.failed,
            "not_asked": sum(self.replies.not_asked.values()),
            "from_store": self.replies.from_store,
            "unusable_nodes": self.unusable,
            "prompt_tokens": self.replies.prompt_tokens,
            "completion_tokens": self.replies.completion_tokens,
            "cost_usd": self.replies.cost_usd,
        }


def judge_placements(
    population: Population,
    items: Sequence[Item],
    model: Model,
    *,
    cache_dir: Path | None = None,
) -> JudgedByModel:
    """Asks a chat model about placements; replies that are on disk are not asked for again.

    Args:
        population: What the items are of.
        items: The placements.
        model: The model.
        cache_dir: Where replies are kept; None for the user's cache.

    Raises:
        ModelError: If the model cannot be asked at all.
        DataError: If the file of replies cannot be read or written.
    """
    judge: Judge = Judge(model, place=cache_dir)
    prompt = JudgePrompt("judge.j2", "audit")
    search = NodeSearch(population.tree)
    prompts = [
        _asked(prompt, population.tree, search, item) if len(item.answer) <= MAX_TEXT else None for item in items
    ]
    replies = judge.judge(prompts, _code, f"an answer longer than {MAX_TEXT:,} characters")
    findings: list[Finding | None] = []
    unusable = 0
    for item, code, reply in zip(items, replies.values, replies.replies, strict=True):
        if np.isnan(code) or reply is None:
            findings.append(None)
            continue
        finding, used = read_finding(reply, population.tree, item)
        unusable += not used
        findings.append(finding)
    notes = list(judge.notes("contains no verdict"))
    if unusable:
        notes.append(
            f"{unusable:,} replies name a node that the tree does not have or that contradicts their verdict; the "
            "verdict counts, the node does not."
        )
    return JudgedByModel(tuple(findings), replies, unusable, tuple(notes))


def _asked(prompt: JudgePrompt, tree: Taxonomy, search: NodeSearch, item: Item) -> str:
    def path(node: int) -> str:
        return "/".join(tree.path(node))

    below = tree.children(item.node).tolist()
    near = [node for node in search.named_in(item.answer, _NEAR) if node not in (item.node, tree.root)]
    return prompt.render(
        root=tree.common_name(tree.root),
        answer=item.answer,
        placed=None if item.nowhere else path(item.node),
        off_tree=item.stage == Stage.OFF_TREE,
        names=tree.names(item.node)[1 : 1 + _NAMES],
        below=[_with_name(tree, node) for node in below[:_BELOW]],
        more=max(0, len(below) - _BELOW),
        near=[path(node) for node in near],
    )


def _with_name(tree: Taxonomy, node: int) -> str:
    names = tree.names(node)
    return names[0] if len(names) == 1 else f"{names[0]} ({names[1]})"


def _verdict(reply: str) -> Verdict | None:
    text = plain_reply(reply)
    if text is None:
        return None
    alone = _ALONE.fullmatch(text.strip())
    said = {" ".join(re.split(r"[\s-]+", found.casefold())) for found in _VERDICT.findall(text)}
    if alone is not None:
        said = {" ".join(re.split(r"[\s-]+", alone[1].casefold()))}
    return Verdict(said.pop()) if len(said) == 1 else None


def _code(reply: str) -> float | None:
    verdict = _verdict(reply)
    return None if verdict is None else float(_ORDER.index(verdict))


def read_finding(reply: str, tree: Taxonomy, item: Item) -> tuple[Finding | None, bool]:
    """Returns what a reply says, and whether the node that it names, if any, can be used.

    The verdict stands on a line "Verdict: ..." or is the whole reply; two that differ are none. A node counts if it is
    one node of the tree and the verdict follows from it, and words count if they stand in the answer.

    Args:
        reply: What the model wrote.
        tree: The tree.
        item: The placement that it was asked about.
    """
    verdict = _verdict(reply)
    if verdict is None:
        return None, True
    named, words = _line(reply, "node"), _line(reply, "words")
    phrase = words if words is not None and words.casefold() in item.answer.casefold() else None
    if verdict is Verdict.RIGHT or named is None:
        return Finding(verdict), True
    try:
        node = tree.root if named.casefold() == "none" else tree.resolve(named)
    except TaxonomyError:
        return Finding(verdict), False
    if judged_by_node(tree, item, node) is not verdict:
        return Finding(verdict), False
    return Finding(verdict, node, phrase), True


def _line(reply: str, name: str) -> str | None:
    """Returns what stands behind "name:" on its last line; None where there is nothing."""
    found = re.findall(rf"^[\s*_>-]*{name}[*_]*\s*[:=](.*)$", reply, re.I | re.M)
    said = found[-1].strip().strip("\"'`*“”‘’ ").strip() if found else ""
    return None if said.casefold() in _NOTHING else said
