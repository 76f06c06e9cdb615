"""Evidence of a template's answers for a proposer, beside the scores and without any answer's name.

A score tells a language model that a template is worse, not why. The rows do: at which level
answers stop and how many of them are right there, which kinds of mistakes cost most, with example
answers, how sure the scores are, and whether anything is left to win.

No label of a tuning image may be given away. A name on the tree is replaced by its relation to the
truth ("[a wrong species of the right family]"), whichever node it is: a wrong name gives the right
family away as well as the right one would. Of the remaining words only those stay that every domain
shares (`taxtune.mapping.english`) or that the prompt said first; the rest, which may be names that
the tree does not know, become "[…]".
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from taxtune.mapping import english
from taxtune.mapping.config import GUESSED
from taxtune.mapping.normalize import fold_words
from taxtune.metrics.diagnosis import ErrorType, classify, wrong_from
from taxtune.metrics.ranks import rank_of, rank_scores
from taxtune.metrics.table import ScoreTable, is_mean
from taxtune.policies.paths import FloatArray, IntArray
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
    "score_columns",
]

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
# Colours, sizes and continents are left out of these: they are halves of names ("American [the
# right family]").
_GRAMMAR = (
    english.ARTICLES,
    english.ALTERNATIVE,
    english.NEGATION,
    english.REFUSAL,
    english.COMPARISON,
    english.SEEMS,
    english.PREPOSITIONS,
    english.BREAKS,
    english.HAVING,
    english.TELLING,
    english.OTHER_KEYS,
    english.FILLER,
    english.TAIL,
    english.PICTURE,
)
# "I cannot tell the exact species", "not sure if this one is a jay".
_DOUBT = (
    "this that sure certain clear confident entirely completely fully doubt only definitive exact",
    "exactly specific",
    "specifically precise precisely particular definitively certainty",
)
_COMMON_TEXTS = (*itertools.chain(*_GRAMMAR), *_DOUBT)
_COMMON = frozenset(itertools.chain.from_iterable(map(fold_words, _COMMON_TEXTS)))


@dataclass(frozen=True, slots=True)
class Score:
    """The mean of a measure over the images that have a value, and whether no mean can be higher.

    The standard error is that of an estimate for new images of the same kind. To values in [0, 1]
    one observation of variance 1/4 is added (as Waudby-Smith and Ramdas do, 2024, §4), so that
    twenty right answers are not taken for certainty.
    """

    measure: str
    mean: float
    standard_error: float
    ceiling: bool


@dataclass(frozen=True, slots=True)
class Level:
    """The answers at a rank ("level 2" where the tree names none) that were placed on the tree.

    `stop` answers name a label of this rank and nothing more specific, `reach` answers one of this
    rank or below it; `stop_right` and `reach_right` of them are right at this rank.
    """

    rank: str
    stop: int
    stop_right: int
    reach: int
    reach_right: int


@dataclass(frozen=True, slots=True)
class HiddenAnswer:
    """An answer and its placement, names replaced by their relation to the truth, and its kind."""

    text: str
    placed: str
    kind: ErrorType


@dataclass(frozen=True, slots=True)
class Mistake:
    """A kind of mistake, its number of answers, and the worst of them, no two alike.

    `wrong_from` counts those that are wrong from each rank on. `costs` holds their loss of the mean
    of each measure in [0, 1] that has a value for each image; the costs of all kinds add up to 1
    minus the mean.
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
        ceiling: Whether nothing is left to win on these images: the template counts, and the
            objective is as high as it can be.
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
    """Returns the evidence of a template's answers, None if there are none or the goal has no tree.

    Args:
        record: An iteration, or rows of answers.
        goal: What is being tuned for.
        template: The template, whose words may stand in the example answers; the record's where it
            is one.
    """
    met = True
    if isinstance(record, Sequence):
        rows = record
    else:
        rows = record.rows
        met = record.feasible
        template = template or record.template
    tree = goal.taxonomy
    domain = goal.domain_node
    answered = [row for row in rows if row.counts]
    if tree is None or not answered:
        return None
    values = score_columns(answered, measures_of(goal.objective, met=met))
    if not values:
        values = score_columns(answered, ("hp", "hr"))
    scores = [_score(name, column) for name, column in values.items()]
    target = np.array([row.target for row in answered])
    placed = np.array([row.node for row in answered])
    on_tree = np.array([not (row.off_tree or row.abstained) for row in answered])
    hidden = hidden_answers(answered, goal, template=template)
    domain_only = tree.is_ancestor(placed, domain) & on_tree
    return Evidence(
        images=len(answered),
        failed=len(rows) - len(answered),
        scores=tuple(scores),
        levels=_levels(tree, domain, placed[on_tree], target[on_tree]),
        domain_only=int(domain_only.sum()),
        abstained=sum(row.abstained and not row.off_tree for row in answered),
        off_tree=sum(row.off_tree for row in answered),
        guessed=sum(row.stage in GUESSED for row in answered),
        mistakes=_mistakes(hidden, wrong_from(tree, placed, target), values),
        ceiling=met and _at_ceiling(goal.objective, scores),
    )


def _at_ceiling(objective: Objective, scores: Iterable[Score]) -> bool:
    """Tells whether all scores that are to rise are as high as they can be."""
    # Where something is held, only the main score is to rise.
    aims = objective.shown[:1] if objective.constraints else objective.shown
    highest = {score.measure for score in scores if score.ceiling}
    return bool(aims) and highest.issuperset(aims)


def hidden_answers(
    answered: Sequence[SampleResult], goal: Goal, *, template: str | None = None
) -> list[HiddenAnswer]:
    """Returns each answer without names.

    Args:
        answered: Rows that have an answer.
        goal: What is being tuned for, with the taxonomy.
        template: The template, whose words may stay.
    """
    tree = goal.taxonomy
    domain = goal.domain_node
    assert tree is not None
    nodes = np.array([row.node for row in answered])
    targets = [row.target for row in answered]
    abstained = [row.abstained for row in answered]
    off_tree = [row.off_tree for row in answered]
    kinds = classify(tree, nodes, targets, abstained=abstained, off_tree=off_tree)
    ranks = filter(None, tree.ranks)
    hider = Hider(tree, domain, (template or "", goal.domain, *goal.ranks, *ranks))
    hidden = []
    for row, kind in zip(answered, kinds, strict=True):
        assert row.node is not None  # it has an answer
        text = hider.hide(row.answer or "", row.target, row.node)
        if len(text) > _SHOWN:
            text = text[: _SHOWN - 1] + "…"
        placed = str(kind)
        if kind not in (ErrorType.OFF_TREE, ErrorType.ABSTAINED):
            placed = relation(tree, domain, row.node, row.target)
        hidden.append(HiddenAnswer(text, placed, kind))
    return hidden


def score_columns(rows: Sequence[SampleResult], measures: Iterable[str]) -> dict[str, FloatArray]:
    """Returns each row's part in the mean of each measure that all rows hold, shape (n,).

    Of hF, which is no mean, these are its linear approximation around the rows' means, whose mean
    is hF and whose spread is hF's to first order.

    Args:
        rows: Rows with an answer.
        measures: Scores of `taxtune.metrics.table.SCORES`, or names of metrics that were taken.
    """
    table = ScoreTable.of_rows([row.values for row in rows])
    columns = {}
    for name in measures:
        values = table.column(name)
        if rows and not np.isnan(values).any():
            columns[name] = values
    return columns


def measures_of(objective: Objective, *, met: bool = True) -> tuple[str, ...]:
    """Returns the measures that an objective is about, the main one first.

    Args:
        objective: What makes one template better than another; hP and hR where it does not say what
            it is made of.
        met: Whether its constraints are met; otherwise their measures come first.
    """
    held = [constraint.measure for constraint in objective.constraints]
    about = objective.shown or objective.beside or ("hp", "hr")
    measures = (*about, *held) if met else (*held, *about)
    return tuple(dict.fromkeys(measures))


def _score(measure: str, values: FloatArray) -> Score:
    """Returns the mean of a measure with its standard error."""
    n = len(values)
    mean = float(values.mean())
    spread = float(((values - mean) ** 2).sum())
    bounded = _bounded(values)
    variance = spread / max(n - 1, 1)
    if bounded or not is_mean(measure):
        variance = (spread + 0.25) / (n + 1)
    error = float(np.sqrt(variance / n))
    return Score(measure, mean, error, ceiling=bounded and mean >= 1 - 1e-12)


def _levels(
    taxonomy: Taxonomy, domain: int, placed: IntArray, target: IntArray
) -> tuple[Level, ...]:
    """Returns the answers at each rank below the domain that answers or targets have."""
    if not placed.size:
        return ()
    below = ~taxonomy.is_ancestor(placed, domain)
    right = taxonomy.is_ancestor(placed, target)
    both = np.concatenate([placed, target])
    paths = taxonomy.lineage[both, taxonomy.depth[domain] + 1 :]
    nodes = np.unique(paths[paths >= 0]).tolist()
    ranks = {rank_of(taxonomy, node) for node in nodes}
    stops = np.array([rank_of(taxonomy, node) for node in placed.tolist()])
    levels = []
    for scores in rank_scores(taxonomy, placed, target):
        if scores.rank not in ranks:
            continue
        here = (stops == scores.rank) & below
        level = Level(
            rank=scores.rank,
            stop=int(here.sum()),
            stop_right=int((here & right).sum()),
            reach=scores.n_predicted,
            reach_right=scores.right,
        )
        levels.append(level)
    return tuple(levels)


def _mistakes(
    hidden: Sequence[HiddenAnswer], wrong: Sequence[str | None], values: dict[str, FloatArray]
) -> tuple[Mistake, ...]:
    """Returns the kinds of mistakes, the costliest first."""
    losses = {}
    for name, column in values.items():
        if is_mean(name) and _bounded(column):
            losses[name] = 1 - column
    places: dict[ErrorType, list[int]] = {}
    for i, answer in enumerate(hidden):
        if answer.kind != ErrorType.CORRECT:
            places.setdefault(answer.kind, []).append(i)
    mistakes = [_mistake(kind, own, hidden, wrong, losses) for kind, own in places.items()]
    mistakes.sort(key=lambda mistake: (*(-cost for cost in mistake.costs.values()), -mistake.count))
    return tuple(mistakes)


def _mistake(
    kind: ErrorType,
    places: list[int],
    hidden: Sequence[HiddenAnswer],
    wrong: Sequence[str | None],
    losses: dict[str, FloatArray],
) -> Mistake:
    """Returns a kind of mistake with its costs and its worst answers."""
    worst = sorted(places, key=lambda i: tuple(-float(loss[i]) for loss in losses.values()))
    examples = list(dict.fromkeys(hidden[i] for i in worst))
    # Of answers that are hidden altogether there is little to learn.
    examples.sort(key=lambda answer: answer.text == _ELSEWHERE)
    ranks: Counter[str] = Counter()
    if kind not in (ErrorType.OFF_TREE, ErrorType.ABSTAINED):
        ranks.update(filter(None, (wrong[i] for i in places)))
    costs = {}
    for name, loss in losses.items():
        costs[name] = float(loss[places].sum()) / len(hidden)
    return Mistake(
        kind=kind,
        count=len(places),
        wrong_from=dict(ranks.most_common()),
        costs=costs,
        examples=tuple(examples[:_EXAMPLES]),
    )


def _bounded(values: FloatArray) -> bool:
    return bool(((values >= 0) & (values <= 1)).all())


# -- hiding names ----------------------------------------------------------------------------------


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
        words = itertools.chain.from_iterable(map(fold_words, kept))
        self._kept = _COMMON | set(words) - {""}

    def hide(self, answer: str, target: int, node: int | None = None) -> str:
        """Returns an answer with each name replaced by its relation to the target.

        Args:
            answer: The model's answer.
            target: The true label's node.
            node: The answer's node; of several nodes with a name it is the one that is meant.
        """
        tree = self._taxonomy
        visible = "".join(filter(_visible, unicodedata.normalize("NFC", answer)))
        # Square brackets stand for names.
        text = " ".join(visible.split()).translate(_ROUND)
        tokens = list(_TOKEN.finditer(text))
        words = [fold_words(token.group()) for token in tokens]
        parts: list[str] = []
        end = i = 0
        while i < len(tokens):
            count, nodes = self._longest_name(words[i : i + _LONGEST_NAME])
            last = tokens[i + max(count, 1) - 1]
            shown = text[tokens[i].start() : last.end()]
            if count:
                meant = self._meant(nodes, target, node)
                if not tree.is_ancestor(meant, self._domain):
                    shown = f"[{relation(tree, self._domain, meant, target)}]"
            elif not set(words[i]) <= self._kept:
                shown = _ELSEWHERE
            parts += [text[end : tokens[i].start()], shown]
            end = last.end()
            i += max(count, 1)
        hidden = _RUN.sub(_ELSEWHERE, "".join(parts) + text[end:])
        hidden = _ARTICLE.sub("", hidden)
        # A prompt may have the model spell its answer with words of the prompt's own:
        # "m a l l a r d".
        secret = self._names_above(target) - self._names_above(self._domain)
        is_told = find_labels(_BRACKETS.sub("|", hidden), secret)
        return _ELSEWHERE if is_told else hidden

    def _longest_name(self, words: Sequence[tuple[str, ...]]) -> tuple[int, tuple[int, ...]]:
        """Returns the number of words of the longest name at the beginning, and its nodes."""
        names = _names(self._taxonomy)
        for count in range(len(words), 0, -1):
            key = tuple(itertools.chain.from_iterable(words[:count]))
            if key in names:
                return count, names[key]
        return 0, ()

    def _names_above(self, node: int) -> set[str]:
        """Returns the names of a node and its ancestors."""
        names: set[str] = set()
        for above in self._taxonomy.ancestors(node).tolist():
            names.update(self._taxonomy.names(above))
        return names

    def _meant(self, nodes: tuple[int, ...], target: int, node: int | None) -> int:
        """Returns the node of several with a name that an answer means."""
        if node is not None and node in nodes:
            return node
        for other in nodes:
            if self._taxonomy.is_ancestor(other, self._domain):
                return other
        return max(nodes, key=lambda other: (int(self._taxonomy.shared(other, target)), -other))


def relation(taxonomy: Taxonomy, domain: int, node: int, target: int) -> str:
    """Returns a node's relation to the true one: "a wrong species of the right family"."""

    def level(node: int) -> str:
        rank = rank_of(taxonomy, node)
        return rank if taxonomy.ranks[node] else f"{rank.replace(' ', '-')} label"

    if taxonomy.is_ancestor(node, domain):
        return "no more than the domain"
    if target == taxonomy.root:
        return "a name where nothing is there"
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
    if first == node:
        return f"a wrong {level(node)}"
    return f"a wrong {level(node)} of a wrong {level(first)}"


def _visible(character: str) -> bool:
    is_shown = character.isspace() or character.isprintable()
    return is_shown and unicodedata.category(character) not in ("Cf", "Cs")


@lru_cache(maxsize=4)
def _names(taxonomy: Taxonomy) -> dict[tuple[str, ...], tuple[int, ...]]:
    """Returns the nodes that have each name, folded as answers are."""
    table: dict[tuple[str, ...], list[int]] = {}
    for node in range(len(taxonomy)):
        folded = {fold_words(name) for name in taxonomy.names(node)}
        for words in folded - {()}:
            table.setdefault(words, []).append(node)
    return {words: tuple(nodes) for words, nodes in table.items()}
