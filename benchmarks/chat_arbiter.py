"""What a chat model gains as the mapper's arbiter, on answers placed by hand.

    python benchmarks/chat_arbiter.py --trees trees/ --placed placed_fresh.jsonl --model openai/gpt-4o-mini

The default mapper places the answers; the chat model is asked about those with the lowest
confidence (half of them, or the `--share` that is given). Printed are the placements that are
acceptable before and after, how often reading and arbiter agree and what either is worth, and how
much of what the best choice among the candidates would gain (the oracle) is reached: "gain".
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd

from taxtune.mapping import Mapper
from taxtune.mapping.config import DOUBTFUL, NONE_OF_THESE, Question
from taxtune.models import ModelSettings, RetryPolicy
from taxtune.models.arbiter import ChatArbiter
from taxtune.taxonomy import Taxonomy, read_taxonomy


def read_rows(
    files: Sequence[Path], trees: Path, similarity: str
) -> tuple[pd.DataFrame, dict[str, Taxonomy]]:
    """Returns a row per answer with its placement, what is acceptable and the candidates.

    And the trees by name.
    """
    answers = pd.concat([pd.read_json(file, lines=True) for file in files], ignore_index=True)
    rows = []
    known = {}
    for name, group in answers.groupby("tree", sort=False):
        known[str(name)] = tree = read_taxonomy(trees / str(name))
        nodes = {tree.path(v): v for v in range(len(tree))}
        mapper = Mapper(tree, similarity)
        placements = mapper.place(list(group.answer))
        for row, one, candidates in zip(
            group.itertuples(), placements, mapper.candidates(placements), strict=True
        ):
            wanted = [
                path.split("/") if isinstance(path, str) else path for path in (row.node, *row.also)
            ]
            acceptable = {
                nodes[tuple(path)] if isinstance(path, list) else tree.root for path in wanted
            }
            known_of = {
                "tree": name,
                "answer": one.answer,
                "confidence": one.confidence,
                "node": one.node,
            }
            rows.append(known_of | {"acceptable": acceptable, "candidates": candidates})
    return pd.DataFrame(rows), known


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trees", type=Path, required=True, help="the folder of the trees")
    parser.add_argument(
        "--placed", type=Path, nargs="+", required=True, help="answers: tree, answer, node, also"
    )
    parser.add_argument("--model", required=True, help="PROVIDER/MODEL or local:MODEL")
    parser.add_argument("--api-base", help="the address of an OpenAI-compatible server")
    parser.add_argument("--similarity", default="lexical")
    parser.add_argument(
        "--share", type=float, default=0.5, help="of the answers, those with the lowest confidence"
    )
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds that a call may take")
    parser.add_argument("--cache-dir", type=Path, help="where replies are kept")
    args = parser.parse_args()
    every, trees = read_rows(args.placed, args.trees, args.similarity)
    rows = every.sort_values("confidence", kind="stable")[: round(args.share * len(every))].copy()
    settings = ModelSettings(
        task="text-generation",
        max_tokens=256,
        api_base=args.api_base,
        concurrency=args.concurrency,
        retry=RetryPolicy(timeout=args.timeout),
    )
    arbiter = ChatArbiter(args.model, settings, cache_dir=args.cache_dir)
    groups = dict(list(rows.groupby("tree", sort=False)))
    asked = [
        [Question(*one) for one in zip(part.answer, part.candidates, strict=True)]
        for part in groups.values()
    ]
    with ThreadPoolExecutor() as pool:
        choices = pool.map(arbiter, [trees[str(name)] for name in groups], asked)
        for part, chosen in zip(groups.values(), choices, strict=True):
            rows.loc[part.index, "choice"] = pd.array(chosen, dtype="Int64")
    spent = arbiter.spent()
    tokens = (
        spent.prompt_tokens / max(1, spent.calls),
        spent.completion_tokens / max(1, spent.calls),
    )
    print(
        f"{len(rows)} of {len(every)} answers asked about: {spent.calls} calls, {spent.from_store} from the store,"
    )
    print(
        f"{tokens[0]:.0f} and {tokens[1]:.0f} tokens per call, {rows.candidates.map(len).mean():.1f} candidates"
    )
    unread = rows.choice.isna()
    after = rows.choice.where(~unread, rows.node).replace(NONE_OF_THESE, 0).astype(int)
    rows["before"] = [node in fit for node, fit in zip(rows.node, rows.acceptable, strict=True)]
    rows["after"] = [node in fit for node, fit in zip(after, rows.acceptable, strict=True)]
    rows["oracle"] = [
        bool(fit & {*nodes, 0}) for nodes, fit in zip(rows.candidates, rows.acceptable, strict=True)
    ]
    rows["arbiter"] = (
        (after == rows.node).map({True: "agrees", False: "differs"}).where(~unread, "no choice")
    )
    doubtful = rows[rows.confidence < DOUBTFUL]
    for name, part in (
        ("asked", rows),
        (f"of these below {DOUBTFUL}", doubtful),
        *doubtful.groupby("arbiter"),
    ):
        before = part.before.mean()
        best = part.oracle.mean()
        now = part.after.mean()
        reached = (now - before) / (best - before) if best > before else float("nan")
        print(
            f"{name:20s} n {len(part):3d}  before {before:.3f}  after {now:.3f}  oracle {best:.3f}  gain {reached:.2f}"
        )


if __name__ == "__main__":
    main()
