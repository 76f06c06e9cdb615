"""Evidence of a template's answers, which a proposer is shown beside the scores, without any name of an answer.

A score tells a language model that a template is worse, not why. The rows do: at which level answers stop and how many
of them are right there, which kinds of mistakes cost most, with example answers, how sure the scores are, and whether
anything is left to win.

No label of a tuning image may be given away. A name on the tree is replaced by its relation to the truth ("[a wrong
species of the right family]"), whichever node it is: a wrong name gives the right family away as well as the right one
would. Of the remaining words only those stay that every domain shares (`taxtune.mapping.english`) or that the prompt
said first; the rest, which may be names that the tree does not know, become "[…]".
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from taxtune.mapping import english
from taxtune.mapping.config import GUESSED
from taxtune.mapping.normalize import fold_words
from taxtune.metrics.diagnosis import ErrorType, classify, wrong_from
from taxtune.metrics.ranks import rank_of, rank_scores
from taxtune.metrics.table import ScoreTable, is_mean
from taxtune.tuning.leaks import find_labels

if TYPE_CHECKING:
    from taxtune.objective import Objective
    from taxtune.taxonomy import Taxonomy
    from taxtune.tuning.proposers.base import Goal
    from taxtune.tuning.records import IterationRecord, SampleResult

__all__ = [
    "GRADED",
    "Evidence",
    "HiddenAnswer",
    "Hider",
    "Level",
    "Mistake",
    "Score",
    "evidence",
    "hidden_answers",
    "measures_of",
    "relation",
    "row_values",
]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

#: Measures that give credit for the groups that the true label belongs to.
GRADED = frozenset(
    ("hp", "hr", "hf", "ihp", "ihr", "ihf", "depth", "remaining_uncertainty", "misinformation")
)

_SHOWN = 160  # characters of an example answer
_EXAMPLES = 2  # answers of a kind of mistake

_ELSEWHERE = "[…]"  # what stands for words that may be a name
_TOKEN = re.compile(r"[^\W_]+(?:['’ʼ‘`´][^\W_]+)*")
_RUN = re.compile(r"\[…\](?:[\W_]{1,3}\[…\])+")
_ROUND = str.maketrans("[]", "()")
_BRACKETS = re.compile(r"\[[^\[\]]*\]")
_ARTICLE = re.compile(r"\b(?:an?|the) (?=\[(?:a wrong|the right|more specific) )", re.IGNORECASE)
_LONGEST_NAME = 12  # words
# Colours, sizes and continents are left out of these: they are halves of names ("American [the right family]").
_GRAMMAR = (
    *(english.ARTICLES, english.ALTERNATIVE, english.NEGATION, english.REFUSAL, english.COMPARISON),
    *(english.SEEMS, english.PREPOSITIONS, english.BREAKS, english.HAVING),
    *(english.TELLING, english.OTHER_KEYS, english.FILLER, english.TAIL, english.PICTURE),
)
# "I cannot tell the exact species", "not sure if this one is a jay".
_DOUBT = (
    "this that sure certain clear confident entirely completely fully doubt only definitive exact exactly specific",
    "specifically precise precisely particular definitively certainty",
)
_COMMON = frozenset(
    folded for words in (*_GRAMMAR, _DOUBT) for word in words for folded in fold_words(word)
)


@dataclass(frozen=True, slots=True)
class Score:
    """The mean of a measure over the images that have a value, its standard error, and whether no mean can be higher.

    The error is that of an estimate for new images of the same kind. To values in [0, 1] one observation of variance
    1/4 is added (as Waudby-Smith and Ramdas do, 2024, §4), so that twenty right answers are not taken for certainty.
    """

    measure: str
    mean: float
    standard_error: float
    ceiling: bool


@dataclass(frozen=True, slots=True)
class Level:
    """The answers at a rank ("level 2" where the tree names none), of those that were placed on the tree.

    `stop` answers name a label of this rank and nothing more specific, `reach` answers one of this rank or below it;
    `stop_right` and `reach_right` of them are right at this rank.
    """

    rank: str
    stop: int
    stop_right: int
    reach: int
    reach_right: int


@dataclass(frozen=True, slots=True)
class HiddenAnswer:
    """An answer and its placement, with names replaced by their relation to the truth, and its kind of mistake."""

    text: str
    placed: str
    kind: ErrorType


@dataclass(frozen=True, slots=True)
class Mistake:
    """A kind of mistake, its number of answers, and the worst of them, no two alike.

    `wrong_from` counts those that are wrong from each rank on. `costs` holds their loss of the mean of each measure in
    [0, 1] that has a value for each image; the costs of all kinds add up to 1 minus the mean.
    """

    kind: ErrorType
    count: int
    wrong_from: dict[str, int]
    costs: dict[str, float]
    examples: tuple[HiddenAnswer, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence of the answers to one template.

    Attributes:
        images: Images that were answered.
        failed: Images that have no answer or no value of the objective.
        scores: The measures that the objective is about, the main one first.
        levels: The levels of the tree below the domain, the broadest first.
        domain_only: Answers that say no more than the domain.
        abstained: Answers that say nothing.
        off_tree: Answers that assert something that the tree lacks.
        guessed: Answers in which the mapper found no name of the tree, so that it had to guess.
        mistakes: Kinds of mistakes, the costliest first.
        ceiling: Whether nothing is left to win on these images: the template counts, and the objective is as high as it
            can be.
    """

    images: int
    failed: int
    scores: tuple[Score, ...]
    levels: tuple[Level, ...]
    domain_only: int
    abstained: int
    off_tree: int
    guessed: int
    mistakes: tuple[Mistake, ...]
    ceiling: bool


def evidence(
    record: IterationRecord | Sequence[SampleResult], goal: Goal, *, template: str | None = None
) -> Evidence | None:
    """Returns the evidence of a template's answers; None where there are none, or the goal holds no taxonomy.

    Args:
        record: An iteration, or rows of answers.
        goal: What is being tuned for.
        template: The template, whose words may stand in the example answers; the record's where it is one.
    """
    if isinstance(record, Sequence):
        rows, met = record, True
    else:
        rows, met, template = (
            record.rows,
            record.feasible,
            record.template if template is None else template,
        )
    answered = [row for row in rows if row.node is not None and row.unrated is None]
    if goal.taxonomy is None or not answered:
        return None
    values = _values(answered, measures_of(goal.objective, met=met)) or _values(
        answered, ("hp", "hr")
    )
    target = np.array([row.target for row in answered])
    placed = np.array([row.node for row in answered])
    on_tree = np.array([not (row.off_tree or row.abstained) for row in answered])
    scores = tuple(_score(name, each) for name, each in values.items())
    # Where something is held, only the main score is to rise.
    aims = set(goal.objective.shown[:1] if goal.objective.constraints else goal.objective.shown)
    hidden = hidden_answers(answered, goal, template=template)
    return Evidence(
        images=len(answered),
        failed=len(rows) - len(answered),
        scores=scores,
        levels=_levels(goal.taxonomy, goal.domain_node, placed[on_tree], target[on_tree]),
        domain_only=int((goal.taxonomy.is_ancestor(placed, goal.domain_node) & on_tree).sum()),
        abstained=sum(row.abstained and not row.off_tree for row in answered),
        off_tree=sum(row.off_tree for row in answered),
        guessed=sum(row.stage in GUESSED for row in answered),
        mistakes=_mistakes(hidden, wrong_from(goal.taxonomy, placed, target), values),
        ceiling=met and bool(aims) and aims <= {score.measure for score in scores if score.ceiling},
    )


def hidden_answers(
    answered: Sequence[SampleResult], goal: Goal, *, template: str | None = None
) -> list[HiddenAnswer]:
    """Returns each answer without names.

    Args:
        answered: Rows that have an answer.
        goal: What is being tuned for, with the taxonomy.
        template: The template, whose words may stay.
    """
    tree, domain = goal.taxonomy, goal.domain_node
    assert tree is not None
    abstained, off_tree = [row.abstained for row in answered], [row.off_tree for row in answered]
    nodes, targets = np.array([row.node for row in answered]), [row.target for row in answered]
    kinds = classify(tree, nodes, targets, abstained=abstained, off_tree=off_tree)
    hider = Hider(
        tree, domain, (template or "", goal.domain, *goal.ranks, *filter(None, tree.ranks))
    )
    hidden = []
    for row, node, kind in zip(answered, nodes.tolist(), kinds, strict=True):
        text = hider.hide(row.answer or "", row.target, node)
        off = kind in (ErrorType.OFF_TREE, ErrorType.ABSTAINED)
        placed = str(kind) if off else relation(tree, domain, node, row.target)
        hidden.append(
            HiddenAnswer(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…", placed, kind)
        )
    return hidden


def row_values(rows: Sequence[SampleResult], measure: str) -> FloatArray | None:
    """Returns each row's value, which adds to a mean, shape (n,); None where the rows do not hold it.

    Of hF, which is no mean, these are its linear approximation around the rows' means, whose mean is hF and whose
    spread is hF's to first order.

    Args:
        rows: Rows with an answer.
        measure: A score of `taxtune.metrics.table.SCORES`, or the name of a metric that was taken.
    """
    values = ScoreTable.of_rows([row.values for row in rows]).column(measure)
    return None if not rows or np.isnan(values).any() else values


def measures_of(objective: Objective, *, met: bool = True) -> tuple[str, ...]:
    """Returns the measures that an objective is about, the main one first.

    Args:
        objective: What makes one template better than another; hP and hR where it does not say what it is made of.
        met: Whether its constraints are met; otherwise what they hold comes first.
    """
    held = [each.measure for each in objective.constraints]
    about = objective.shown or objective.beside or ("hp", "hr")
    return tuple(dict.fromkeys((*about, *held) if met else (*held, *about)))


def _values(rows: Sequence[SampleResult], measures: Sequence[str]) -> dict[str, FloatArray]:
    return {name: values for name in measures if (values := row_values(rows, name)) is not None}


def _score(measure: str, values: FloatArray) -> Score:
    n, mean = len(values), float(values.mean())
    spread = float(((values - mean) ** 2).sum())
    within = _bounded(values)
    variance = (
        (spread + 0.25) / (n + 1) if within or not is_mean(measure) else spread / max(n - 1, 1)
    )
    return Score(measure, mean, float(np.sqrt(variance / n)), within and mean >= 1 - 1e-12)


def _levels(
    taxonomy: Taxonomy, domain: int, placed: IntArray, target: IntArray
) -> tuple[Level, ...]:
    if not placed.size:
        return ()
    below = ~taxonomy.is_ancestor(placed, domain)
    right = taxonomy.is_ancestor(placed, target)
    paths = taxonomy.lineage[np.concatenate([placed, target]), taxonomy.depth[domain] + 1 :]
    ranks = {rank_of(taxonomy, int(node)) for node in np.unique(paths[paths >= 0])}
    stops = np.array([rank_of(taxonomy, int(node)) for node in placed])
    levels = []
    for each in rank_scores(taxonomy, placed, target):
        if each.rank in ranks:
            here = (stops == each.rank) & below
            levels.append(
                Level(
                    each.rank,
                    int(here.sum()),
                    int((here & right).sum()),
                    each.n_predicted,
                    each.right,
                )
            )
    return tuple(levels)


def _mistakes(
    hidden: Sequence[HiddenAnswer], wrong: Sequence[str | None], values: dict[str, FloatArray]
) -> tuple[Mistake, ...]:
    losses = {name: 1 - each for name, each in values.items() if is_mean(name) and _bounded(each)}
    mistakes = []
    for kind in dict.fromkeys(answer.kind for answer in hidden if answer.kind != ErrorType.CORRECT):
        places = [i for i, answer in enumerate(hidden) if answer.kind == kind]
        worst = sorted(places, key=lambda i: tuple(-float(loss[i]) for loss in losses.values()))
        # Of answers that are hidden altogether there is little to learn.
        examples = sorted(
            dict.fromkeys(hidden[i] for i in worst), key=lambda answer: answer.text == _ELSEWHERE
        )
        on_tree = kind not in (ErrorType.OFF_TREE, ErrorType.ABSTAINED)
        ranks = Counter(rank for i in places if on_tree and (rank := wrong[i]) is not None)
        costs = {name: float(loss[places].sum()) / len(hidden) for name, loss in losses.items()}
        mistakes.append(
            Mistake(
                kind, len(places), dict(ranks.most_common()), costs, tuple(examples[:_EXAMPLES])
            )
        )
    return tuple(
        sorted(mistakes, key=lambda each: (*(-cost for cost in each.costs.values()), -each.count))
    )


def _bounded(values: FloatArray) -> bool:
    return bool((values >= 0).all() and (values <= 1).all())


# -- hiding names ------------------------------------------------------------------------------------------------------


class Hider:
    """Hides the names in answers.

    Args:
        taxonomy: The label tree.
        domain: The node of what all images show, whose names and whose ancestors' names stay.
        kept: Texts whose words may stay: the prompt, the names of the ranks.
    """

    def __init__(self, taxonomy: Taxonomy, domain: int, kept: Iterable[str] = ()) -> None:
        self._taxonomy = taxonomy
        self._domain = domain
        self._kept = _COMMON | {word for text in kept for word in fold_words(text)} - {""}

    def hide(self, answer: str, target: int, node: int | None = None) -> str:
        """Returns an answer with each name replaced by its relation to the target.

        Args:
            answer: The model's answer.
            target: The true label's node.
            node: The answer's node; of several nodes with a name it is the one that is meant.
        """
        tree = self._taxonomy
        text = " ".join("".join(filter(_visible, unicodedata.normalize("NFC", answer))).split())
        text = text.translate(_ROUND)  # square brackets stand for names
        tokens = [
            (match.start(), match.end(), fold_words(match.group()))
            for match in _TOKEN.finditer(text)
        ]
        names = _names(tree)
        parts: list[str] = []
        at = i = 0
        while i < len(tokens):
            words = [folded for _, _, folded in tokens[i : i + _LONGEST_NAME]]
            keys = [
                tuple(part for word in words[:n] for part in word) for n in range(len(words), 0, -1)
            ]
            # The longest name that begins here, if any.
            count, key = next(
                ((len(words) - k, key) for k, key in enumerate(keys) if key in names), (0, ())
            )
            start, end = tokens[i][0], tokens[i + max(count, 1) - 1][1]
            shown = text[start:end]
            if count:
                meant = self._meant(names[key], target, node)
                if not tree.is_ancestor(meant, self._domain):
                    shown = f"[{relation(tree, self._domain, meant, target)}]"
            elif not set(tokens[i][2]) <= self._kept:
                shown = _ELSEWHERE
            parts += [text[at:start], shown]
            at, i = end, i + max(count, 1)
        hidden = _ARTICLE.sub("", _RUN.sub(_ELSEWHERE, "".join([*parts, text[at:]])))
        # A prompt may have the model spell its answer with words of the prompt's own: "m a l l a r d".
        free = {name for v in tree.ancestors(self._domain) for name in tree.names(int(v))}
        secret = {name for v in tree.ancestors(target) for name in tree.names(int(v))} - free
        return _ELSEWHERE if find_labels(_BRACKETS.sub("|", hidden), secret) else hidden

    def _meant(self, nodes: tuple[int, ...], target: int, node: int | None) -> int:
        if node is not None and node in nodes:
            return node
        over = [v for v in nodes if self._taxonomy.is_ancestor(v, self._domain)]
        return (
            over[0]
            if over
            else max(nodes, key=lambda v: (int(self._taxonomy.shared(v, target)), -v))
        )


def relation(taxonomy: Taxonomy, domain: int, node: int, target: int) -> str:
    """Returns a node's relation to the true one, without a name: "a wrong species of the right family"."""

    def level(node: int) -> str:
        rank = rank_of(taxonomy, node)
        return rank if taxonomy.ranks[node] else f"{rank.replace(' ', '-')} label"

    if taxonomy.is_ancestor(node, domain):
        return "no more than the domain"
    if taxonomy.is_ancestor(node, target):
        return f"the right {level(node)}"
    if taxonomy.is_ancestor(target, node):
        return f"more specific than the right {level(target)}"
    common = taxonomy.lca(node, target)
    if not taxonomy.is_ancestor(domain, common):
        return f"a wrong {level(node)} outside the domain"
    if common != domain:
        return f"a wrong {level(node)} of the right {level(common)}"
    first = int(taxonomy.lineage[node, taxonomy.depth[domain] + 1])
    return f"a wrong {level(node)}" + (f" of a wrong {level(first)}" if first != node else "")


def _visible(character: str) -> bool:
    return unicodedata.category(character) not in ("Cf", "Cs") and (
        character.isspace() or character.isprintable()
    )


@lru_cache(maxsize=4)
def _names(taxonomy: Taxonomy) -> dict[tuple[str, ...], tuple[int, ...]]:
    """Returns the nodes that have each name, folded as answers are."""
    table: dict[tuple[str, ...], list[int]] = {}
    for node in range(len(taxonomy)):
        for words in {fold_words(name) for name in taxonomy.names(node)} - {()}:
            table.setdefault(words, []).append(node)
    return {words: tuple(nodes) for words, nodes in table.items()}
