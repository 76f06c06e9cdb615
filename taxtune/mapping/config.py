"""The mapper's settings and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from taxtune.errors import MapperError

if TYPE_CHECKING:
    from pandas import DataFrame

    from taxtune.taxonomy import Taxonomy

__all__ = [
    "DOUBTFUL",
    "GUESSED",
    "NONE_OF_THESE",
    "OFF_TREE",
    "OFF_TREE_STAGES",
    "PAPER_PRESETS",
    "PRESETS",
    "Arbiter",
    "MapperConfig",
    "Placement",
    "Placements",
    "Question",
    "Stage",
]

#: Algorithm 1 of the paper, as its listing prints it (§11) and as its prose describes it (§6).
PAPER_PRESETS = ("paper-listing", "paper-prose")
#: The presets that a mapper can run under.
PRESETS = ("default", *PAPER_PRESETS)
#: How an answer that is off the tree is scored.
OFF_TREE = ("child", "root")

#: Below this confidence a placement is doubtful: 48 % of 465 such ones in benchmarks/domains were
#: not acceptable, and 7 % of the 1,203 others.
DOUBTFUL = 0.75
#: What an arbiter chooses where an answer asserts none of the candidates.
NONE_OF_THESE = -1


class Stage(StrEnum):
    """What decided a placement."""

    #: The answer says a name of one node and nothing else.
    NAME = "name"
    #: A whole phrase of the answer is a name of the node; (the paper's presets) the answer contains
    #: a name of it.
    VERBATIM = "verbatim"
    #: The answer's last words are a name, or names on the tree end in them: "red-breasted
    #: woodpecker".
    HEAD = "head"
    #: The answer names several things; the node is their common ancestor.
    LIST = "list"
    #: A guess of the paper's presets: the answer shares word n-grams with names.
    NGRAM = "ngram"
    #: A guess: what about equally similar nodes have in common.
    VOTE = "vote"
    #: A guess: the most similar node.
    SIMILARITY = "similarity"
    #: An arbiter, such as a chat model, chose the node among candidates; see `Mapper`.
    ARBITER = "arbiter"
    #: The answer asserts something that the tree does not have ("a bicycle" on a tree of dishes);
    #: placed on the root.
    OFF_TREE = "off_tree"
    #: The answer is in another language than English, and nothing in it can be read; placed on the
    #: root.
    FOREIGN = "foreign"
    #: The answer declines, denies or says nothing; placed on the root.
    ABSTAINED = "abstained"


#: The stages of what asserts something else than the tree has, or cannot be read.
OFF_TREE_STAGES = (Stage.OFF_TREE, Stage.FOREIGN)
#: The stages that guess where nothing on the tree is named in so many words.
GUESSED = (Stage.NGRAM, Stage.VOTE, Stage.SIMILARITY)


@dataclass(frozen=True, slots=True)
class MapperConfig:
    """Settings of a mapper.

    Attributes:
        preset: "default", or Algorithm 1 of the paper: "paper-listing" exactly as it is printed
            (§11), "paper-prose" as its text describes it (§6).
        k: Number of most similar nodes that the paper's presets consider (§11: 10).
        thr_top2: Softmax difference of the first and the second score below which nodes vote (paper
            §11: 0.001).
        thr_topk: The same for the first and the k-th score (paper §11: 0.0015).
        thr_vote: Votes that a node needs, at least; "paper-listing" asks for more than this (paper
            §6, §11: 4).
        coverage: Threshold of the share of the nodes whose names end in a noun: an ancestor that
            covers as much stands for the noun.
        min_similarity: Under "default", the score below which the most similar node is not believed
            and the answer abstains; None takes the similarity's own value.
        max_characters: Number of characters of an answer that are read.
        off_tree: How an answer off the tree is *scored*: "child", as a child of the root that is
            never right (hP 1/2), or "root", as the paper does (hP 1). The paper's presets always
            have "root".
    """

    preset: str = "default"
    k: int = 10
    thr_top2: float = 0.001
    thr_topk: float = 0.0015
    thr_vote: int = 4
    coverage: float = 0.85
    min_similarity: float | None = None
    max_characters: int = 4000
    off_tree: str = "child"

    def __post_init__(self) -> None:
        checks = {
            "preset": (self.preset in PRESETS, f"must be one of {', '.join(PRESETS)}"),
            "k": (self.k >= 2, "must be at least 2"),
            "coverage": (0.5 < self.coverage <= 1, "must be above 0.5 and at most 1"),
            "max_characters": (self.max_characters >= 1, "must be positive"),
            "off_tree": (self.off_tree in OFF_TREE, f"must be one of {', '.join(OFF_TREE)}"),
        }
        for name, (sound, rule) in checks.items():
            if not sound:
                raise MapperError(f"The mapper's {name} {rule}.", value=getattr(self, name))
        if self.preset in PAPER_PRESETS:
            object.__setattr__(self, "off_tree", "root")

    def as_dict(self) -> dict[str, str | int | float | None]:
        """Returns the settings by name."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Placement:
    """The placement of an answer.

    Attributes:
        answer: The answer.
        node: The node's number; 0, the root, for an abstention and for an answer that is off the
            tree.
        stage: The stage that decided.
        evidence: The part of the answer that decided, as it stands there, "" for an abstention; the
            label that reading found where an arbiter chose; the code of a foreign language.
        confidence: The probability in (0, 1) that the placement is acceptable (`confidence`). Under
            the paper's presets it is the similarity of the answer to the node, the highest over its
            names, and None for a blank answer.
        path: The labels from the root to the node.
        doubtful: Whether the confidence is a probability below `DOUBTFUL`. It is None where the
            confidence is no probability.
        not_subject: Whether the answer denies what everything on the tree is: "there is no bird".
            The node is the root.
    """

    answer: str
    node: int
    stage: Stage
    evidence: str = ""
    confidence: float | None = None
    path: tuple[str, ...] = ()
    doubtful: bool | None = None
    not_subject: bool = False

    @property
    def abstained(self) -> bool:
        """Whether the answer declines, denies or says nothing."""
        return self.stage is Stage.ABSTAINED

    @property
    def off_tree(self) -> bool:
        """Whether the answer asserts something that the tree lacks, or that cannot be read."""
        return self.stage in OFF_TREE_STAGES


class Question(NamedTuple):
    """A question to an arbiter: which of several nodes an answer asserts.

    Attributes:
        answer: The answer, a long one as its beginning and end.
        candidates: The nodes to choose from, the root first, in the order of a walk down the tree.
            Between one and the next below it nodes may be missing.
        asked: What the answer answers, "" if that is not known.
        reading: Where reading puts the answer, which is not for the arbiter to see: it is for its
            account.
    """

    answer: str
    candidates: tuple[int, ...]
    asked: str
    reading: Placement

    @property
    def read(self) -> int:
        """What reading would choose: its node, or `NONE_OF_THESE`."""
        asserts_none = self.reading.abstained or self.reading.off_tree
        return NONE_OF_THESE if asserts_none else self.reading.node


class Arbiter(Protocol):
    """Reads answers that are more than a name of a node."""

    @property
    def identity(self) -> Mapping[str, str | int | float | None]:
        """Everything that can change a choice."""
        ...

    def __call__(self, taxonomy: Taxonomy, questions: Sequence[Question]) -> Sequence[int | None]:
        """Returns one of its candidates, or a node below one, for each question, or `NONE_OF_THESE`.

        It is None if the arbiter made no choice.
        """
        ...


class Placements(list[Placement]):
    """Placements in the order of the answers; a notebook shows them as a table."""

    def to_frame(self) -> DataFrame:
        """Returns a row for each placement: answer, path, stage, evidence, confidence.

        The labels of a path are joined by " > ".
        """
        import pandas as pd

        rows = []
        for placement in self:
            path = " > ".join(placement.path)
            stage = str(placement.stage)
            rows.append((placement.answer, path, stage, placement.evidence, placement.confidence))
        frame = pd.DataFrame(rows, columns=["answer", "path", "stage", "evidence", "confidence"])
        return frame.astype({"confidence": float})

    def _repr_html_(self) -> str:
        """Returns a table of at most 60 rows, its texts escaped and cut to 200 characters."""
        frame = self.to_frame()
        for column in ("answer", "path", "evidence"):
            frame[column] = [_clipped(text) for text in frame[column]]
        return str(frame.to_html(max_rows=60, na_rep="", show_dimensions=True))


def _clipped(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}…"
