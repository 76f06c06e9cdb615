"""What a chat model gains as the mapper's arbiter, on answers placed by hand.

    python benchmarks/chat_arbiter.py --model openai/gpt-4o-mini
    python benchmarks/chat_arbiter.py --trees trees/ --placed placed_fresh.jsonl --model openai/gpt-4o-mini
    python benchmarks/chat_arbiter.py

Without files they are those of benchmarks/domains; without a model only the candidates are measured.
Replies are kept in `--cache-dir`, from which they come again without a call.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from taxtune.mapping import Mapper
from taxtune.mapping.config import NONE_OF_THESE, Stage
from taxtune.models import ModelSettings, RetryPolicy
from taxtune.models.arbiter import ChatArbiter
from taxtune.taxonomy import Taxonomy, read_taxonomy

DOMAINS = Path(__file__).parent / "domains"
#: Confidences of reading, between which arbiter and reading are compared.
STEPS = [0.0, 0.5, 0.75, 0.9, 1.0]


def acceptable_nodes(tree: Taxonomy, row: pd.Series) -> set[int]:
    """Returns the nodes that a row gives as acceptable, the root where it has none."""
    nodes = {tree.path(node): node for node in range(len(tree))}
    acceptable = set()
    for path in (row["node"], *row["also"]):
        labels = path.split("/") if isinstance(path, str) else path
        acceptable.add(nodes[tuple(labels)] if isinstance(labels, list) else tree.root)
    return acceptable


def read_answers(files: Sequence[Path]) -> pd.DataFrame:
    """Returns the rows of files: tree, answer, node, also, and the question or ""."""
    rows = pd.concat([pd.read_json(file, lines=True) for file in files], ignore_index=True)
    if "question" not in rows:
        rows["question"] = ""
    rows["question"] = rows["question"].fillna("")
    return rows


def placed_rows(rows: pd.DataFrame, tree: Taxonomy, arbiter: ChatArbiter | None) -> pd.DataFrame:
    """Returns a row for each answer on one tree, as reading and as the arbiter place it."""
    mapper = Mapper(tree)
    readings = mapper.place(list(rows["answer"]))
    questions = mapper.questions(zip(readings, rows["question"], strict=True))
    is_asked = [reading.stage is not Stage.NAME for reading in readings]
    asked = [question for question, open_ in zip(questions, is_asked, strict=True) if open_]
    choices = iter([] if arbiter is None else arbiter(tree, asked))
    placed = []
    for (_, row), question, open_ in zip(rows.iterrows(), questions, is_asked, strict=True):
        acceptable = acceptable_nodes(tree, row)
        choice = next(choices, None) if open_ else None
        node = question.reading.node
        if choice is not None:
            node = tree.root if choice == NONE_OF_THESE else choice
        is_read = choice == question.read
        placed.append(
            {
                "asked": open_,
                "confidence": question.reading.confidence,
                "before": question.reading.node in acceptable,
                "after": node in acceptable,
                "arbiter": "no choice" if choice is None else "agrees" if is_read else "differs",
                "size": len(question.candidates),
                "recall": bool(acceptable.intersection([*question.candidates, tree.root])),
            }
        )
    return pd.DataFrame(placed)


def show(placed: pd.DataFrame, arbiter: ChatArbiter | None) -> None:
    """Prints what is measured."""
    asked = placed[placed["asked"]]
    print(f"{len(placed)} answers, {len(asked) / len(placed):.1%} of them asked about")
    sizes = asked["size"]
    print(
        f"candidates: recall {asked['recall'].mean():.3f}, {sizes.median():.0f} in the median, "
        f"{sizes.mean():.1f} on average, {sizes.quantile(0.95):.0f} at 95 %"
    )
    if arbiter is None:
        return
    print(f"acceptable: {placed['before'].mean():.3f} by reading, {placed['after'].mean():.3f} after")
    spent = arbiter.spent()
    print(
        f"{spent.calls} calls, {spent.from_store} replies from the store; {arbiter.choices}\n"
        f"tokens a call: {spent.prompt_tokens / max(1, spent.calls):.0f} read, "
        f"{spent.completion_tokens / max(1, spent.calls):.1f} written"
    )
    of_reading = pd.cut(asked["confidence"], STEPS, right=False).rename("confidence of reading")
    by = asked.groupby([of_reading, "arbiter"], observed=True)
    print(by.agg(n=("after", "size"), before=("before", "mean"), after=("after", "mean")).round(3))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trees", type=Path, default=DOMAINS / "trees", help="their folder")
    parser.add_argument(
        "--placed", type=Path, nargs="+", help="answers: tree, answer, node, also, maybe question"
    )
    parser.add_argument("--model", help="PROVIDER/MODEL or local:MODEL")
    parser.add_argument("--api-base", help="the address of an OpenAI-compatible server")
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds that a call may take")
    parser.add_argument("--cache-dir", type=Path, help="where replies are kept")
    args = parser.parse_args()
    arbiter = None
    if args.model:
        settings = ModelSettings(
            task="text-generation",
            max_tokens=256,
            api_base=args.api_base,
            concurrency=args.concurrency,
            retry=RetryPolicy(timeout=args.timeout),
        )
        arbiter = ChatArbiter(args.model, settings, cache_dir=args.cache_dir)
    answers = read_answers(args.placed or sorted(DOMAINS.glob("*.jsonl")))
    parts = []
    for name, rows in answers.groupby("tree", sort=False):
        parts.append(placed_rows(rows, read_taxonomy(args.trees / str(name)), arbiter))
    show(pd.concat(parts, ignore_index=True), arbiter)


if __name__ == "__main__":
    main()
