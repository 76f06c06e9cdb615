"""What a chat model gains as the mapper's arbiter, and what its confidence should be, from recorded replies.

    python benchmarks/chat_arbiter.py                          # the figures of the replies recorded so far
    python benchmarks/chat_arbiter.py --fit                    # and a confidence, by agreement with reading
    python benchmarks/chat_arbiter.py --model openai/gpt-4o-mini          # asks about what lacks a reply
    python benchmarks/chat_arbiter.py --against chat/OTHER.jsonl          # two wordings side by side

`chat/answers.jsonl` holds 340 answers of `domains` that are asked about, from all 49 trees. The reply to
each request is kept as the path that was chosen and the paths that were offered, in `chat/WORDING.jsonl`,
where WORDING is the digest of the request's wording: another wording has a file of its own. Where no reply
has just these candidates, another one about the answer stands as long as its node is offered and nothing
is offered below it that was not before. An answer counts once each of its requests has a reply.

Answers of one's own, placed by hand, need their trees and a folder for the replies:

    python benchmarks/chat_arbiter.py --placed placed.jsonl --trees trees/ --folder replies/ --model MODEL
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.mapper_confidence import DOMAINS, cases, confidences, fitted
from taxtune.mapping import Mapper, Placement, Stage
from taxtune.mapping.config import NONE_OF_THESE, Question
from taxtune.metrics.confidence import calibration_error
from taxtune.models import ModelSettings, RetryPolicy
from taxtune.models.arbiter import ChatArbiter, walk_down
from taxtune.taxonomy import Taxonomy

FOLDER = Path(__file__).parent / "chat"
ANSWERS = "answers.jsonl"
#: A rough rule for English and for the tokenizers of today.
CHARACTERS_A_TOKEN = 4
BINS = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)
#: What `--write` writes stands below this line.
HEADING = "## Figures\n"
SIGNALS = ["agrees", "confidence if it agrees", "confidence if it differs"]


# -- recorded replies ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reply:
    """What a chat model chose.

    Attributes:
        choice: The path of the node, its labels joined by "/"; None for none of the candidates.
        offered: The paths of the candidates.
    """

    choice: str | None
    offered: frozenset[str]

    def stands(self, offered: Iterable[str]) -> bool:
        """Tells whether the model would presumably choose the same among other candidates."""
        new = set(offered) - self.offered
        if self.choice is None:
            return not new
        is_closer = any(path.startswith(f"{self.choice}/") for path in new)
        return self.choice in offered and not is_closer


class Replies:
    """The replies of one wording, in a file of JSON lines."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._replies: dict[tuple[str, str], dict[frozenset[str], Reply]] = {}
        if file.exists():
            for row in read_lines(file):
                reply = Reply(choice=row["choice"], offered=frozenset(row["offered"]))
                self.add(row["tree"], row["answer"], reply)

    def find(self, tree: str, answer: str, offered: Iterable[str]) -> Reply | None:
        """Returns the reply about an answer among these candidates, or the closest one that stands."""
        now = frozenset(offered)
        known = self._replies.get((tree, answer), {})
        if now in known:
            return known[now]
        standing = [reply for reply in known.values() if reply.stands(now)]
        standing.sort(key=lambda reply: (-len(reply.offered & now), sorted(reply.offered)))
        return standing[0] if standing else None

    def add(self, tree: str, answer: str, reply: Reply) -> None:
        """Keeps a reply about an answer, in place of one among the same candidates."""
        self._replies.setdefault((tree, answer), {})[reply.offered] = reply

    def save(self) -> None:
        """Writes the file, sorted, so that two versions of it can be compared."""
        rows = []
        for (tree, answer), replies in self._replies.items():
            for reply in replies.values():
                rows.append((tree, answer, sorted(reply.offered), reply.choice))
        rows.sort(key=lambda row: row[:3])
        lines = []
        for tree, answer, offered, choice in rows:
            row = {"tree": tree, "answer": answer, "choice": choice, "offered": offered}
            lines.append(json.dumps(row, ensure_ascii=False) + "\n")
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text("".join(lines), encoding="utf-8")


@dataclass
class RecordedArbiter:
    """Chooses what was recorded, or nothing, and remembers what it was asked.

    Attributes:
        tree: The name of the tree.
        replies: The recorded replies.
        rounds: The questions with their choices, None where no reply stands, by the text of the
            answer.
    """

    tree: str
    replies: Replies
    rounds: dict[str, list[tuple[Question, int | None]]] = field(default_factory=dict)
    identity: ClassVar = {"name": "recorded"}

    def __call__(self, taxonomy: Taxonomy, questions: Sequence[Question]) -> list[int | None]:
        """Returns the recorded choices; None where not even the first reply is known."""
        for question in questions:
            self.rounds[question.answer] = []
        return walk_down(taxonomy, questions, partial(self._choose, taxonomy))

    def _choose(self, taxonomy: Taxonomy, questions: Sequence[Question]) -> list[int | None]:
        choices = [self.recorded(taxonomy, question) for question in questions]
        for question, choice in zip(questions, choices, strict=True):
            self.rounds[question.answer].append((question, choice))
        return choices

    def recorded(self, taxonomy: Taxonomy, question: Question) -> int | None:
        """Returns the recorded choice, None where no reply is known that stands."""
        offered = {path_of(taxonomy, node): node for node in question.candidates}
        reply = self.replies.find(self.tree, question.answer, offered)
        if reply is None:
            return None
        return NONE_OF_THESE if reply.choice is None else offered[reply.choice]

    def record(self, taxonomy: Taxonomy, question: Question, choice: int) -> None:
        """Writes a choice to the file of replies."""
        path = None if choice == NONE_OF_THESE else path_of(taxonomy, choice)
        offered = frozenset(path_of(taxonomy, node) for node in question.candidates)
        self.replies.add(self.tree, question.answer, Reply(choice=path, offered=offered))
        self.replies.save()

    @property
    def missing(self) -> list[Question]:
        """The questions that no reply is known to."""
        every = [pair for pairs in self.rounds.values() for pair in pairs]
        return [question for question, choice in every if choice is None]


def path_of(taxonomy: Taxonomy, node: int) -> str:
    return "/".join(taxonomy.path(node))


# -- the bed -------------------------------------------------------------------------------------------


@dataclass
class Bed:
    """The answers on one tree.

    Attributes:
        taxonomy: The tree.
        answers: A row per answer: its `file`, `answer`, `wanted`, the acceptable nodes, and `read`,
            its placement without an arbiter.
        placed: The placements with the recorded choices.
        arbiter: Its questions, and the choices that were recorded.
    """

    taxonomy: Taxonomy
    answers: pd.DataFrame
    placed: list[Placement]
    arbiter: RecordedArbiter


def make_beds(
    placed: list[Path],
    trees: list[Path],
    replies: Replies,
    *,
    listed: set[tuple[str, str]] | None,
    share: float,
) -> list[Bed]:
    """Returns the answers of each tree with their placements.

    Args:
        placed: Files of placed answers.
        trees: Folders of their trees.
        replies: The recorded replies.
        listed: The answers that count, each with its tree; None for all.
        share: Of the answers of each file that are asked about, those with the least confidence.
    """
    mappers = {}
    parts = []
    for name, taxonomy, group in cases(placed, trees):
        if listed is not None:
            group = group[[(name, answer) in listed for answer in group.answer]]
        mappers[name] = Mapper(taxonomy)
        group = group.assign(read=mappers[name].place(list(group.answer)))
        parts.append(group)
    answers = pd.concat(parts)
    answers["confidence"] = [placement.confidence for placement in answers.read]
    answers = answers[[placement.stage is not Stage.NAME for placement in answers.read]]
    places = answers.groupby("file").confidence.rank(method="first", pct=True)
    beds = []
    for name, group in answers[places <= share].groupby("tree", sort=False):
        mapper = mappers[name]
        mapper.arbiter = RecordedArbiter(tree=name, replies=replies)
        placements = mapper.place(list(group.answer))
        beds.append(
            Bed(
                taxonomy=mapper.taxonomy,
                answers=group,
                placed=placements,
                arbiter=mapper.arbiter,
            )
        )
    return beds


def choose_answers(size: int, seed: int) -> list[tuple[str, str]]:
    """Draws answers that are asked about, evenly over files, trees and styles; returns trees and answers.

    The answers are put in this order, at random within a style, and each n-th is taken.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for name, taxonomy, group in cases(sorted(DOMAINS.glob("*.jsonl")), [DOMAINS / "trees"]):
        placements = Mapper(taxonomy).place(list(group.answer))
        for row, placement in zip(group.itertuples(), placements, strict=True):
            if placement.stage is not Stage.NAME:
                rows.append((row.file, name, row.style, rng.random(), row.answer))
    rows.sort()
    places = (np.arange(size) + rng.random()) * len(rows) / size
    return [(rows[int(place)][1], rows[int(place)][4]) for place in places]


def ask(arbiter: ChatArbiter, beds: list[Bed], *, at_a_time: int) -> None:
    """Asks a chat model about what lacks a reply; each reply is written to the file as it comes."""
    writing = Lock()

    def choose(bed: Bed, questions: Sequence[Question]) -> list[int | None]:
        [question] = questions
        with writing:
            known = bed.arbiter.recorded(bed.taxonomy, question)
        if known is not None:
            return [known]
        [choice] = arbiter.choose(bed.taxonomy, [question])
        if choice is not None:
            with writing:
                bed.arbiter.record(bed.taxonomy, question, choice)
        return [choice]

    with ThreadPoolExecutor(max_workers=at_a_time) as pool:
        walks = []
        for bed in beds:
            for question in bed.arbiter.missing:
                walks.append(pool.submit(walk_down, bed.taxonomy, [question], partial(choose, bed)))
        for walk in walks:
            walk.result()


# -- figures -------------------------------------------------------------------------------------------


def as_rows(beds: list[Bed], arbiter: ChatArbiter) -> pd.DataFrame:
    """Returns a row per answer that was asked about: how it was read and chosen, and what it cost."""
    rows = []
    for bed in beds:
        for row, placed in zip(bed.answers.itertuples(), bed.placed, strict=True):
            read = row.read
            rounds = bed.arbiter.rounds.get(read.answer.strip())
            if not rounds:
                continue
            questions = [question for question, _ in rounds]
            choice = rounds[-1][1]
            said = "no reply"
            if choice is not None:
                said = "agrees" if choice == questions[0].read else "differs"
            shown = {bed.taxonomy.root}.union(*(question.candidates for question in questions))
            prompts = [arbiter.prompt(bed.taxonomy, question) for question in questions]
            rows.append(
                {
                    "tree": bed.arbiter.tree,
                    "file": row.file,
                    "answer": questions[0].answer,
                    "stage": str(read.stage),
                    "confidence": read.confidence,
                    "arbiter": said,
                    "before": read.node in row.wanted,
                    "after": placed.node in row.wanted,
                    "best": bool(row.wanted & shown),
                    "candidates": [len(question.candidates) for question in questions],
                    "tokens": [len(prompt) / CHARACTERS_A_TOKEN for prompt in prompts],
                }
            )
    return pd.DataFrame(rows)


def figures(rows: pd.DataFrame) -> Iterator[str]:
    """Yields the tables of the answers that have a reply, as lines of Markdown."""
    replied = rows[rows.arbiter != "no reply"]
    yield f"{len(replied)} of {len(rows)} answers that are asked about have a reply."
    requests = rows[["candidates", "tokens"]].explode(["candidates", "tokens"])
    means = requests.mean()
    medians = requests.median()
    yield f"There are {len(requests)} requests, {len(requests) - len(rows)} of them further ones."
    yield f"A request has {means.candidates:.1f} candidates (median {medians.candidates:.0f})"
    yield f"and about {means.tokens:.0f} tokens (median {medians.tokens:.0f});"
    yield f"for {rows.best.mean():.3f} of the answers an acceptable one is among those shown."
    if replied.empty:
        return
    yield ""
    yield "| acceptable | n | reading | chat model | best candidate |"
    yield "|---|---:|---:|---:|---:|"
    bins = pd.cut(replied.confidence, BINS, right=False)
    parts = [("all", replied), *replied.groupby("arbiter"), *replied.groupby("file")]
    parts += [(f"stage {stage}", part) for stage, part in replied.groupby("stage")]
    for between, part in replied.groupby(bins, observed=True):
        parts.append((f"confidence {between.left} to {between.right}", part))
    for name, part in parts:
        means = [f"{part[column].mean():.3f}" for column in ("before", "after", "best")]
        yield f"| {name} | {len(part)} | {' | '.join(means)} |"


def fit(rows: pd.DataFrame) -> Iterator[str]:
    """Yields a logistic model of the choices that are acceptable, and what it is worth on trees left out."""
    replied = rows[rows.arbiter != "no reply"].copy()
    confidence = replied.confidence.clip(0.01, 0.99)
    logit = np.log(confidence / (1 - confidence))
    agrees = replied.arbiter == "agrees"
    replied[SIGNALS[0]] = agrees.astype(float)
    replied[SIGNALS[1]] = logit.where(agrees, 0.0)
    replied[SIGNALS[2]] = logit.where(~agrees, 0.0)
    replied["acceptable"] = replied.after
    for tree in replied.tree.unique():
        is_out = replied.tree == tree
        model = fitted(replied[~is_out], SIGNALS)
        replied.loc[is_out, "fitted"] = confidences(model, replied[is_out])
    yield "| confidence, its tree left out | n | mean | acceptable | calibration error |"
    yield "|---|---:|---:|---:|---:|"
    parts = [("all", replied), *replied.groupby("arbiter")]
    for between, part in replied.groupby(pd.cut(replied.fitted, BINS), observed=True):
        parts.append((f"{between.left} to {between.right}", part))
    for name, part in parts:
        error = calibration_error(part.fitted, part.after)
        means = f"{part.fitted.mean():.3f} | {part.after.mean():.3f}"
        yield f"| {name} | {len(part)} | {means} | {error:.3f} |"
    model = fitted(replied, SIGNALS)
    yield json.dumps({name: round(value, 3) for name, value in model.items()})


def side_by_side(rows: pd.DataFrame, others: pd.DataFrame) -> Iterator[str]:
    """Yields how two wordings compare on the answers that have a reply under both."""
    both = rows.merge(others, on=["tree", "answer"], suffixes=("", " there"))
    both = both[(both.arbiter != "no reply") & (both["arbiter there"] != "no reply")]
    yield f"{len(both)} answers have a reply under both wordings."
    tokens = both.tokens.explode().mean()
    yield f"here: {both.after.mean():.3f} acceptable, about {tokens:.0f} tokens"
    yield f"there: {both['after there'].mean():.3f} acceptable"
    yield f"acceptable here alone: {(both.after & ~both['after there']).sum()}"
    yield f"acceptable there alone: {(both['after there'] & ~both.after).sum()}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--choose", type=int, help="draw so many answers of the domains anew")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--placed", type=Path, nargs="+", help="answers: tree, answer, node, also")
    parser.add_argument("--trees", type=Path, help="the folder of their trees")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where replies are kept")
    parser.add_argument(
        "--share",
        type=float,
        default=1.0,
        help="of each file, the answers with the least confidence",
    )
    parser.add_argument(
        "--model", help="asks PROVIDER/MODEL or local:MODEL about what lacks a reply"
    )
    parser.add_argument("--api-base", help="the address of an OpenAI-compatible server")
    parser.add_argument("--concurrency", type=int, default=16, help="calls at a time")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds that a call may take")
    parser.add_argument("--cache-dir", type=Path, help="where the model's own words are kept")
    parser.add_argument(
        "--replies", type=Path, help="the file of replies, if not the wording's own"
    )
    parser.add_argument("--against", type=Path, help="the replies of another wording")
    parser.add_argument("--fit", action="store_true", help="fit the confidence of a choice")
    parser.add_argument(
        "--write", action="store_true", help="write the figures into the folder's README"
    )
    args = parser.parse_args()
    if args.placed and (args.trees is None or args.folder == FOLDER):
        parser.error("--placed needs --trees, and a --folder of its own for the replies")
    if args.choose:
        chosen = choose_answers(args.choose, args.seed)
        lines = [
            json.dumps({"tree": tree, "answer": answer}, ensure_ascii=False)
            for tree, answer in chosen
        ]
        (FOLDER / ANSWERS).write_text("\n".join(lines) + "\n", encoding="utf-8")
    settings = ModelSettings(
        task="text-generation",
        max_tokens=256,
        api_base=args.api_base,
        retry=RetryPolicy(timeout=args.timeout),
    )
    arbiter = ChatArbiter(args.model or "openai/none", settings, cache_dir=args.cache_dir)
    replies = Replies(args.replies or args.folder / file_of(arbiter))
    placed = args.placed or sorted(DOMAINS.glob("*.jsonl"))
    trees = [args.trees or DOMAINS / "trees"]
    listed = None if args.placed else listed_answers()

    def made(replies: Replies) -> list[Bed]:
        return make_beds(placed, trees, replies, listed=listed, share=args.share)

    beds = made(replies)
    if args.model:
        ask(arbiter, beds, at_a_time=args.concurrency)
        beds = made(replies)
    rows = as_rows(beds, arbiter)
    lines = [f"Replies: `{replies.file.name}`.", *figures(rows)]
    print(*lines, sep="\n")
    if args.write:
        readme = args.folder / "README.md"
        text = readme.read_text(encoding="utf-8") if readme.exists() else ""
        kept = text.partition(HEADING)[0]
        readme.write_text("\n".join([kept + HEADING, *lines, ""]), encoding="utf-8")
    if args.against:
        others = as_rows(made(Replies(args.against)), arbiter)
        print(*side_by_side(rows, others), sep="\n")
    if args.fit:
        print(*fit(rows), sep="\n")


def file_of(arbiter: ChatArbiter) -> str:
    """Returns the name of the file of replies to the wording that an arbiter asks in."""
    return f"{str(arbiter.identity['prompt'])[:12]}.jsonl"


def listed_answers() -> set[tuple[str, str]]:
    """Returns the trees and answers of the bed."""
    return {(row["tree"], row["answer"]) for row in read_lines(FOLDER / ANSWERS)}


def read_lines(file: Path) -> list[dict[str, Any]]:
    """Returns the objects in a file of JSON lines."""
    with file.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


if __name__ == "__main__":
    main()
