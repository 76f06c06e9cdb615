"""A sample of placements, kept in one CSV file and judged by a person or a chat model, and the shares that follow.

A chat model sees the answer, the path, the children of the node and the nodes whose names are in
the answer. A reply without exactly one verdict is unread; neither that nor a failed call is scored.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from taxtune import atomic
from taxtune.errors import DataError, TaxonomyError
from taxtune.mapping.config import DOUBTFUL, OFF_TREE_STAGES, Stage
from taxtune.models.judging import MAX_TEXT, Judge, JudgePrompt, plain_reply
from taxtune.report.output import StudyReport, Table
from taxtune.tables import csv_text, join_cell, read_rows, split_cell
from taxtune.untrusted import spreadsheet_cell

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from taxtune.mapping import Mapper
    from taxtune.models import Model
    from taxtune.taxonomy.tree import Taxonomy

__all__ = [
    "MAX_TOKENS",
    "VERDICTS",
    "draw_sample",
    "helpful_aliases",
    "judge_sample",
    "merge_verdicts",
    "read_reply",
    "resolve_node",
    "summarise_audit",
    "verdict_of",
    "write_sample",
]

#: The node is what the answer says; a node below it is as well; the answer says something else, or
#: less.
VERDICTS = ("right", "too general", "wrong")
_COLUMNS = ("id", "answer", "times", "draws", "stage", "placement", "verdict", "node")
#: Longest alias, in words: what is longer is a sentence and not a name.
_LONGEST_ALIAS = 6
#: Room for a thought before the three lines; the last lines decide.
MAX_TOKENS = 512
_MOST_CHILDREN, _MOST_NEAR, _MOST_NAMES, _LONGEST_NAME = 40, 12, 4, 8
_VERDICT = re.compile(
    r"^\W*(?:(?:final\s+)?verdict\s*[:=]\s*)\W*(right|too[\s-]+general|wrong)\W*$", re.I | re.M
)
_NODE = re.compile(r"^[\s*_>-]*node[*_]*\s*[:=](.*)$", re.I | re.M)
#: The draw takes no placement for less sure, or surer, than this: the mapper may be wrong about
#: itself.
_SUREST = (0.05, 0.95)
_Z = 1.959963984540054  # of a 95 % interval
_ALONE = re.compile(r"\W*(right|too[\s-]+general|wrong)\W*", re.I)


def draw_sample(answers: Sequence[str], mapper: Mapper, n: int, seed: int = 0) -> pd.DataFrame:
    """Draws a sample of answers, stratified by the stage that placed them and by whether the placement is doubtful.

    A stratum gets draws in proportion to its answers times the standard deviation √(c (1 - c)) that
    its mean confidence c says of a verdict (Neyman 1934), and at least one; under the paper's
    presets, which have no probability, in proportion to its answers. Within a stratum, answers are
    drawn at random without replacement; an answer that was given several times can be drawn several
    times and is judged once.

    Args:
        answers: All answers, repeated ones included.
        mapper: Places them.
        n: Number of answers to draw; all of them are drawn where there are fewer.
        seed: Seed of the draw.

    Returns:
        One row per distinct answer that was drawn: id, answer, times (how often it was given),
        draws, stage, placement (the path of its node), the empty columns verdict and node, doubtful
        (None where it is not known) and stratum. `attrs` holds the number of answers of each
        stratum.
    """
    import pandas as pd

    counts = Counter(answers)
    placements = mapper.place(list(counts))
    times = np.array(list(counts.values()))
    doubts = [placement.doubtful for placement in placements]
    by = [
        f"{placed.stage}{', doubtful' * bool(doubt)}"
        for placed, doubt in zip(placements, doubts, strict=True)
    ]
    names, stratum = np.unique(by, return_inverse=True)
    sizes = np.bincount(stratum, times).astype(int)
    spread = np.ones(len(sizes))
    if None not in doubts:
        confidence = np.array(
            [1.0 if one.confidence is None else one.confidence for one in placements]
        )
        mean = np.clip(np.bincount(stratum, times * confidence) / sizes, *_SUREST)
        spread = np.sqrt(mean * (1 - mean))
    draws_of = _allocated(sizes, spread, n)
    generator = np.random.default_rng(seed)
    draws = np.zeros(len(times), dtype=int)
    for i in range(len(names)):
        members = np.flatnonzero(stratum == i)
        draws[members] = generator.multivariate_hypergeometric(times[members], int(draws_of[i]))
    sample = pd.DataFrame(
        {
            # A digest, since a spreadsheet may change the text; with a letter, so that it is no
            # number.
            "id": [
                "a" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:10]
                for text in counts
            ],
            "answer": list(counts),
            "times": times,
            "draws": draws,
            "stage": [str(placed.stage) for placed in placements],
            "placement": [join_cell(placed.path, "/") for placed in placements],
            "verdict": "",
            "node": "",
            "doubtful": doubts,
            "stratum": names[stratum],
        }
    ).query("draws > 0", engine="python")
    sample = sample.reset_index(drop=True)
    sample.attrs.update(sizes=dict(zip(names.tolist(), sizes.tolist(), strict=True)))
    return sample


def _allocated(sizes: NDArray[np.int64], spread: NDArray[np.float64], n: int) -> NDArray[np.int64]:
    """Returns the draws of each stratum, at least one, that make the variance of the stratified mean least.

    One by one, each goes where it lowers the variance most (Wright 2012, "The equivalence of Neyman
    optimum allocation for sampling and equal proportions for apportioning the U.S. House of
    Representatives", Am. Stat. 66).
    """
    draws = np.ones_like(sizes)
    while draws.sum() < min(n, sizes.sum()):
        draws[
            np.argmax(np.where(draws < sizes, sizes * spread / np.sqrt(draws * (draws + 1)), -1.0))
        ] += 1
    return draws


def verdict_of(tree: Taxonomy, placement: str, stage: str, node: int) -> str:
    """The verdict that follows from the node on which an answer belongs (the root: it names nothing on the tree)."""
    placed = tree.resolve(split_cell(placement, "/"))
    if node == placed:
        return "right"
    return (
        "too general"
        if tree.is_ancestor(placed, node) and stage not in OFF_TREE_STAGES
        else "wrong"
    )


def _read_verdicts(path: Path, tree: Taxonomy) -> dict[str, dict[str, str]]:
    remedy = (
        "Write the column's name into the header again, or move the file away to draw a new sample."
    )
    rows: dict[str, dict[str, str]] = {}
    for line, row in read_rows(path, _COLUMNS, what="verdicts", remedy=remedy, none=True):
        where: dict[str, Any] = {"file": path, "row": line}
        row["verdict"] = row["verdict"].lower()
        if row["node"].startswith("'") and spreadsheet_cell(row["node"][1:]) == row["node"]:
            row["node"] = row["node"][1:]
        if row["verdict"] not in ("", *VERDICTS):
            raise DataError(
                "Unknown verdict.",
                value=row["verdict"],
                remedy=f"Write {', '.join(VERDICTS)}.",
                **where,
            )
        if row["node"]:
            try:
                resolve_node(tree, row["node"])
            except TaxonomyError as error:
                remedy = error.remedy or "Write its label or its path, or none."
                message = f"The node is not on the tree: {error.message}"
                raise DataError(message, value=row["node"], remedy=remedy, **where) from None
        if row["id"] in rows:
            remedy = "Remove one of the two rows."
            raise DataError(
                "Another row judges this answer.", value=row["answer"], remedy=remedy, **where
            )
        rows[row["id"]] = row
    return rows


def resolve_node(tree: Taxonomy, reference: str) -> int:
    """The node that a label, a path or "none" (the root) names.

    Raises:
        TaxonomyError: If there is no such node, or several.
    """
    if reference.strip().casefold() == "none":
        return tree.root
    path = split_cell(reference.strip(), "/")
    return tree.resolve(path if len(path) > 1 else reference.strip())


def merge_verdicts(sample: pd.DataFrame, path: Path, tree: Taxonomy) -> tuple[pd.DataFrame, int]:
    """Fills a sample with the verdicts of a file, where the file exists.

    A verdict counts for the placement that it was given on. Where the answer is placed elsewhere by
    now, the verdict follows from the node that the file names, and is open again where it names
    none.

    Returns:
        The sample, and how many verdicts are open again. Its `attrs` hold as `others` the rows that
        are judged and not in the sample, which `write_sample` keeps.

    Raises:
        DataError: If the file cannot be read, lacks a column, judges an answer twice, or a verdict
            or a node is unknown; names the row.
    """
    earlier = _read_verdicts(path, tree) if path.exists() else {}
    filled, reopened = sample.copy(), 0
    for index, row in enumerate(sample.to_dict("records")):
        known = earlier.pop(row["id"], None)
        if known is None:
            continue
        verdict, node = known["verdict"], known["node"]
        if node:
            verdict = verdict_of(tree, row["placement"], row["stage"], resolve_node(tree, node))
        elif verdict and (known["placement"], known["stage"]) != (
            spreadsheet_cell(row["placement"]),
            row["stage"],
        ):
            verdict, reopened = "", reopened + 1
        filled.loc[index, ["verdict", "node"]] = [verdict, node]
    filled.attrs["others"] = [
        row | {"draws": "0"} for row in earlier.values() if row["verdict"] or row["node"]
    ]
    return filled, reopened


def write_sample(path: Path, sample: pd.DataFrame) -> None:
    """Writes a sample as CSV, to be filled in with a spreadsheet; below it, verdicts on answers that are not in it.

    Raises:
        TaxtuneError: If the file cannot be written.
    """
    rows = [*sample.to_dict("records"), *sample.attrs.get("others", ())]
    cells = ([spreadsheet_cell(row[column]) for column in _COLUMNS] for row in rows)
    atomic.write_text(path, csv_text(_COLUMNS, cells))


# -- a chat model as the judge ---------------------------------------------------------------------


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
    prompts = [
        _render(prompt, tree, nodes_of, row) if len(row["answer"]) <= MAX_TEXT else None
        for row in rows
    ]

    def code(reply: str) -> float | None:
        verdict = read_reply(reply)[0]
        return None if verdict is None else float(VERDICTS.index(verdict))

    replies = judge.judge(prompts, code, f"an answer longer than {MAX_TEXT:,} characters")
    filled, unusable = sample.copy(), 0
    for index, (row, value, reply) in enumerate(
        zip(rows, replies.values, replies.replies, strict=True)
    ):
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

    The verdict stands on a line "Verdict: ..." or is the whole reply; of several lines "Node: ..."
    the last counts.
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
    prompt: JudgePrompt,
    tree: Taxonomy,
    nodes_of: Mapping[tuple[str, ...], list[int]],
    row: Mapping[Any, Any],
) -> str:
    node, stage = tree.resolve(split_cell(row["placement"], "/")), row["stage"]
    words = _words(row["answer"][:400])
    runs = [
        words[i : i + n] for n in range(_LONGEST_NAME, 0, -1) for i in range(len(words) - n + 1)
    ]
    near = dict.fromkeys(
        other for run in runs for other in nodes_of.get(run, ()) if other not in (node, tree.root)
    )
    children = tree.children(node).tolist()
    shown = [tree.names(child)[:2] for child in children[:_MOST_CHILDREN]]
    return prompt.render(
        root=tree.common_name(tree.root),
        answer=row["answer"],
        placed=None if stage in (Stage.ABSTAINED, *OFF_TREE_STAGES) else "/".join(tree.path(node)),
        off_tree=stage in OFF_TREE_STAGES,
        names=tree.names(node)[1 : 1 + _MOST_NAMES],
        below=[names[0] if len(names) == 1 else f"{names[0]} ({names[1]})" for names in shown],
        more=max(0, len(children) - _MOST_CHILDREN),
        near=["/".join(tree.path(other)) for other in list(near)[:_MOST_NEAR]],
    )


# -- results ---------------------------------------------------------------------------------------


def summarise_audit(sample: pd.DataFrame, *, judge: str, notes: Sequence[str] = ()) -> StudyReport:
    """The share of all answers that have each verdict, and of those right by stage and by doubt, with 95 % intervals.

    The share of a verdict is the mean over the strata, weighted with the answers of each; a row
    without a verdict does not count. The interval is Wilson's for the effective number of draws
    that have a verdict, (Σ w)² / Σ w² with the weight w of each (Kish 1965, "Survey sampling"): it
    takes no credit for what the strata explain.
    """
    answers = sum(sample.attrs["sizes"].values())
    judged = sample[sample["verdict"] != ""]
    rows = [
        ("all", verdict, *_share(judged, verdict, sample.attrs["sizes"])) for verdict in VERDICTS
    ]
    parts = [(str(stage), part) for stage, part in judged.groupby("stage", sort=True)]
    for doubt, words in (
        (False, f"confidence from {DOUBTFUL:g} on"),
        (True, f"confidence below {DOUBTFUL:g}"),
    ):
        parts.append((words, judged[judged["doubtful"].eq(doubt)]))
    rows += [
        (name, "right", *_share(part, "right", sample.attrs["sizes"]))
        for name, part in parts
        if len(part)
    ]
    table = Table(
        "audit",
        "Placements",
        ("answers", "verdict", "judged", "share", "low", "high"),
        tuple(rows),
        {"judged": 0},
    )
    counted = f"{len(judged):,} of {len(sample):,} distinct answers judged, drawn from {answers:,}; judged by {judge}."
    settings = {"answers": answers, "drawn": len(sample), "judged": len(judged), "judge": judge}
    return StudyReport(
        "audit",
        "How many answers the mapper places right",
        settings,
        (table,),
        notes=(counted, *notes),
    )


def _share(
    judged: pd.DataFrame, verdict: str, sizes: dict[str, int]
) -> tuple[int, float, float, float]:
    if judged.empty:
        return 0, float("nan"), float("nan"), float("nan")
    has = judged["draws"].where(judged["verdict"] == verdict, 0).groupby(judged["stratum"]).sum()
    draws = judged.groupby("stratum")["draws"].sum().to_numpy(dtype=float)
    weights = has.index.map(sizes).to_numpy(dtype=float)
    share = float(has.to_numpy() / draws @ weights / weights.sum())
    n = float(weights.sum() ** 2 / (weights**2 / draws).sum())
    middle, half = (
        share + _Z**2 / (2 * n),
        _Z * np.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2)),
    )
    return (
        len(judged),
        share,
        max(0.0, (middle - half) / (1 + _Z**2 / n)),
        min(1.0, (middle + half) / (1 + _Z**2 / n)),
    )


def helpful_aliases(
    sample: pd.DataFrame, tree: Taxonomy, make_mapper: Callable[[Taxonomy], Mapper]
) -> list[tuple[int, str]]:
    """Aliases, each with its node, that bring answers to the nodes on which they belong, tried with the mapper.

    A candidate is the part of the answer that decided, or a short answer whole. It is taken if it
    brings its answer to its node and moves no answer that is right; those taken earlier stay.
    """
    judged = sample[sample["verdict"] != ""].to_dict("records")
    placed = {one.answer: one for one in make_mapper(tree).place([row["answer"] for row in judged])}
    right = {
        row["answer"]: placed[row["answer"]].node for row in judged if row["verdict"] == "right"
    }
    names = [list(names) for names in tree.aliases]
    taken: list[tuple[int, str]] = []
    for row in judged:
        node = resolve_node(tree, row["node"]) if row["node"] else tree.root
        if row["verdict"] == "right" or node == tree.root:
            continue
        for text in dict.fromkeys((placed[row["answer"]].evidence, row["answer"])):
            name = " ".join(text.split()).strip(" .,:;!?\"'")
            if not name or len(name.split()) > _LONGEST_ALIAS or tree.find(name):
                continue
            names[node].append(name)
            found = make_mapper(tree.with_names(aliases=names)).place([row["answer"], *right])
            if [one.node for one in found] == [node, *right.values()]:
                taken.append((node, name))
                break
            names[node].pop()
    return taken
