"""What a tuning run writes down: plain values that the tracker, the report and `--json` read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from taxtune.data import Example
from taxtune.data.boxes import Box
from taxtune.data.context import Variable
from taxtune.errors import DataError
from taxtune.metrics.doubt import Doubt
from taxtune.metrics.groups import Groups
from taxtune.metrics.hierarchical import is_exact
from taxtune.metrics.outcomes import (
    ABSTAINED,
    EXACT,
    GENERAL,
    MISSING,
    OFF_TREE,
    WRONG,
    Outcomes,
    confused_with_nothing,
)
from taxtune.metrics.ranks import RankIntervals
from taxtune.metrics.selective import Selective
from taxtune.metrics.statistics import Interval, PairedDifference
from taxtune.metrics.table import CONFIDENCE, ScoreTable, TemplateScores
from taxtune.models.base import ModelUsage
from taxtune.objective import Constraint, ObjectiveSpec
from taxtune.policies import PlacedAnswer

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "CUT_REMEDY",
    "OBJECTIVES_CHOICE",
    "RUN_FORMAT",
    "Candidate",
    "ComparisonResult",
    "Difference",
    "Held",
    "HeldoutResult",
    "IterationRecord",
    "ModelUsage",
    "Provenance",
    "Role",
    "SampleResult",
    "Selection",
    "Status",
    "TuneResult",
    "Turn",
    "Usage",
    "count_cut",
    "cut_in_words",
    "groups_of",
    "image_table",
    "outcomes_of",
    "score_table",
]

#: What to do about answers that were cut off.
CUT_REMEDY = "Raise vlm.max_tokens in another run (--out); a model that thinks takes some thousand."
#: The name of the template that a run chose among held-out results where a person has chosen another.
OBJECTIVES_CHOICE = "run's choice"
#: The format of what is written to a run's folder.
RUN_FORMAT = "taxtune run 3"
State = Literal["complete", "failed", "void"]
Status = Literal["certified", "passes-alone", "estimate"]
Role = Literal["most careful", "best estimate", "boldest", "baseline"]


@dataclass(frozen=True, slots=True)
class SampleResult:
    """One image asked with one prompt.

    Attributes:
        example: The example's id.
        image: File name of the image.
        target: The target node's number.
        truth: Path of the target node, joined with "/".
        placed: The answer and the node that it was put on. It is None if the call failed.
        scores: The scores of the node by name, see `taxtune.metrics.table.SCORES`; empty if the
            call failed, never 0. An answer off the tree is scored as a child of the root that is
            never right, unless the run scores such answers as the root.
        from_store: Whether the answer came from the answer store.
        failure: Why there is no answer, or None.
        unrated: Why a measure that the objective needs gives no value, or None.
        measures: The value of each metric and measure by name; None where there is none, never 0.
        remarks: What a measure says of its value, by name: a judge's rationale.
        context: What the template used of the image's variables, by name; None or [] where it lacks
            one.
        cut: How many answers about it were cut off at the longest answer.
        group: The name of the image's group, see `Example`.
    """

    example: str
    image: str
    target: int
    truth: str
    placed: PlacedAnswer | None = None
    scores: dict[str, float] = field(default_factory=dict, hash=False)
    from_store: bool = False
    failure: str | None = None
    unrated: str | None = None
    measures: dict[str, float | None] = field(default_factory=dict, hash=False)
    remarks: dict[str, str] = field(default_factory=dict, hash=False)
    context: dict[str, Any] = field(default_factory=dict, hash=False)
    cut: int = 0
    group: str = ""

    @property
    def answer(self) -> str | None:
        """What the model said."""
        return self.placed.answer if self.placed else None

    @property
    def node(self) -> int | None:
        """Number of the node that the answer was put on."""
        return self.placed.node if self.placed else None

    @property
    def placement(self) -> str | None:
        """Path of that node, joined with "/"."""
        return self.placed.placement if self.placed else None

    @property
    def stage(self) -> str | None:
        """The mapper's stage that decided, or the policy."""
        return self.placed.stage if self.placed else None

    @property
    def confidence(self) -> float | None:
        """How sure the placement is, see `PlacedAnswer`."""
        return self.placed.confidence if self.placed else None

    @property
    def doubtful(self) -> bool | None:
        """Whether the node hangs on a doubtful placement, None if that is not known."""
        return self.placed.doubtful if self.placed else None

    @property
    def masked(self) -> str | None:
        """Path of the node that it would be on without the checklist, None for the same node."""
        return self.placed.masked if self.placed else None

    @property
    def votes(self) -> tuple[int, ...]:
        """The node of each of several answers, -1 for a refusal."""
        return self.placed.votes if self.placed else ()

    @property
    def abstained(self) -> bool:
        """Whether the answer declines, denies or says nothing; it was put on the root."""
        return self.placed is not None and self.placed.abstained

    @property
    def off_tree(self) -> bool:
        """Whether the answer asserts something that the tree lacks. Its node is the root."""
        return self.placed is not None and self.placed.off_tree

    @property
    def hp(self) -> float | None:
        """This example's hP in (0, 1]."""
        return self.scores.get("hp")

    @property
    def hr(self) -> float | None:
        """This example's hR in (0, 1]."""
        return self.scores.get("hr")

    @property
    def missing(self) -> str | None:
        """Why the image counts in no mean: no answer, or no value that the objective needs."""
        return self.failure or self.unrated

    @property
    def counts(self) -> bool:
        """Whether it has an answer, and every value that the objective needs."""
        return self.placed is not None and self.unrated is None

    @property
    def exact(self) -> bool:
        """Whether the answer, as it is scored, is exactly the target."""
        return bool(is_exact(self.hp, self.hr))

    @property
    def state(self) -> str:
        """The answer's state, see `taxtune.metrics.outcomes.STATES`."""
        if self.hp is None or self.hr is None:
            return MISSING
        if self.off_tree:
            return OFF_TREE
        if self.exact:
            return EXACT
        if self.abstained:
            return ABSTAINED
        return GENERAL if self.hp == 1 else WRONG

    @property
    def values(self) -> dict[str, float | None]:
        """The numbers that means are made of, by name; empty if the call failed."""
        if self.placed is None:
            return {}
        return {
            **self.scores,
            CONFIDENCE: self.placed.confidence,
            "abstained": self.placed.abstained,
            "off_tree": self.placed.off_tree,
            **self.measures,
        }

    def as_row(self) -> dict[str, Any]:
        """Returns the result as a flat row; what a failed call lacks is None."""
        row: dict[str, Any] = {}
        for each in fields(self):
            if each.name == "placed":
                row |= {
                    part.name: getattr(self.placed, part.name, None)
                    for part in fields(PlacedAnswer)
                }
                row |= {"abstained": self.abstained, "off_tree": self.off_tree}
            elif each.name == "scores":
                row |= {"hp": None, "hr": None, **self.scores}
            elif each.name not in ("measures", "remarks"):
                row[each.name] = getattr(self, each.name)
        row |= self.measures
        row |= {f"{name}_remark": text for name, text in self.remarks.items()}
        return row


def outcomes_of(rows: Iterable[SampleResult]) -> Outcomes:
    """Returns the counts of what became of rows."""
    rows = list(rows)
    labels = sum(bool(row.node) and not row.off_tree for row in rows)  # the root is node 0
    counts = dict(Counter(row.state for row in rows))
    placed = [row for row in rows if row.state != MISSING]
    called_empty = [row.node == 0 and not row.off_tree for row in placed]
    counts |= confused_with_nothing([row.target == 0 for row in placed], called_empty)
    groups = groups_of(rows)
    per_group = len(rows) / len(groups) if rows else 1.0
    return Outcomes(counts=counts, labels=labels, per_group=per_group)


def groups_of(images: Sequence[SampleResult | Example]) -> Groups:
    """Returns the groups of images."""
    return Groups.of([image.group for image in images])


def image_table(rows: Sequence[SampleResult]) -> ScoreTable:
    """Returns the scores of the images of rows."""
    return ScoreTable.of_rows([row.values for row in rows])


def score_table(rows: Sequence[SampleResult]) -> ScoreTable:
    """Returns the scores of the groups of rows: every mean, bound and interval is of these."""
    return image_table(rows).grouped(groups_of(rows))


def count_cut(rows: Sequence[SampleResult]) -> tuple[int, int]:
    """Returns the number of answers in rows that were cut off, and of all answers."""
    cut = sum(row.cut for row in rows)
    answers = sum(max(len(row.votes), row.cut, 1) for row in rows)
    return cut, answers


def cut_in_words(rows: Sequence[SampleResult], limit: int | None) -> str:
    """Returns the number of answers that were cut off and the remedy; empty if none was.

    Args:
        rows: The rows of the answers.
        limit: Most tokens of an answer, None if that is not known.
    """
    cut, answers = count_cut(rows)
    if not cut:
        return ""
    where = "" if limit is None else f" at max_tokens = {limit}"
    return f"{cut:,} of {answers:,} answers were cut{where}: raise vlm.max_tokens"


@dataclass(frozen=True, slots=True)
class Usage:
    """Calls to all models, and time.

    Attributes:
        vlm: The vision-language model.
        proposer: The proposer's model; its `calls` are templates, accepted or refused.
        judge: The language models that rate answers, and the arbiter that places them.
        seconds: Wall-clock seconds.
        tried: Images that drafts were tried on, besides those of the template that became of one.
    """

    vlm: ModelUsage = field(default_factory=ModelUsage)
    proposer: ModelUsage = field(default_factory=ModelUsage)
    judge: ModelUsage = field(default_factory=ModelUsage)
    seconds: float = 0.0
    tried: int = 0

    def __add__(self, other: Usage) -> Usage:
        """Returns the sum; see `ModelUsage`."""
        return Usage(
            vlm=self.vlm + other.vlm,
            proposer=self.proposer + other.proposer,
            judge=self.judge + other.judge,
            seconds=self.seconds + other.seconds,
            tried=self.tried + other.tried,
        )

    @property
    def cost_usd(self) -> float | None:
        """The price of all that has one; None where nothing has."""
        costs = (self.vlm.cost_usd, self.proposer.cost_usd, self.judge.cost_usd)
        known = [cost for cost in costs if cost is not None]
        return sum(known) if known else None

    def new(self) -> Usage:
        """Returns the usage without answers from the store and without time."""
        vlm = replace(self.vlm, from_store=0)
        judge = replace(self.judge, from_store=0)
        return replace(self, vlm=vlm, judge=judge, seconds=0.0)


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of a proposer's model: a tool with its arguments and result, or the text it wrote.

    Long texts are cut. Tokens are counted with the first of several calls that it made at once.
    """

    tool: str | None
    arguments: str
    result: str
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True)
class IterationRecord:
    """One template, asked and scored.

    Attributes:
        iteration: 0 for the baseline, then 1, 2, ...
        state: "complete"; "failed" where no acceptable template was proposed; "void" where too many
            calls failed.
        template: The Jinja source, or None where none was accepted.
        scores: Scores on the tuning split, over the groups of the images that were answered; None
            unless complete.
        value: The objective's value, larger is better; None unless complete.
        feasible: Whether the means meet the objective's constraints.
        reason: Why the iteration failed or is void.
        parameters: The proposer's own description of the template (the fragments it chose).
        rejected: Templates that were proposed and refused, each with the reason.
        rows: One row per image, in the order of the split.
        usage: Calls, tokens, cost and seconds.
        trace: What the proposer's model did and said, turn by turn; empty for proposers without a
            model.
        out_of_reach: Whether it failed because the proposer's model did not answer.
        policy: The policy that its answers were placed by; empty where none were.
        prompt: The template rendered, as the model was asked, or where images have prompts of their
            own the template; None where none was accepted.
        before: Its rows on the images of each earlier rung, where more images change the rows of
            these, since the threshold that a node needs is chosen by all of them.
    """

    iteration: int
    state: State
    template: str | None
    scores: TemplateScores | None = None
    value: float | None = None
    feasible: bool = True
    reason: str | None = None
    parameters: dict[str, str] = field(default_factory=dict)
    rejected: tuple[tuple[str, str], ...] = ()
    rows: tuple[SampleResult, ...] = field(default=(), repr=False)
    usage: Usage = field(default_factory=Usage)
    trace: tuple[Turn, ...] = field(default=(), repr=False)
    out_of_reach: bool = False
    policy: dict[str, Any] = field(default_factory=dict)
    prompt: str | None = None
    before: tuple[tuple[SampleResult, ...], ...] = field(default=(), repr=False)

    @property
    def missing(self) -> int:
        """Images that have no answer because the call failed, or no rating from the judge."""
        return sum(row.missing is not None for row in self.rows)

    @property
    def table(self) -> ScoreTable:
        """The scores of the groups of its images."""
        return score_table(self.rows)

    @property
    def cut_short(self) -> bool:
        """Whether more than half of its answers were cut off, so that it cannot win."""
        cut, answers = count_cut(self.rows)
        return 2 * cut > answers


@dataclass(frozen=True, slots=True)
class Candidate:
    """A template that is worth choosing, by its tuning images.

    Attributes:
        iteration: Its iteration.
        roles: What it is among the candidates, see `taxtune.tuning.candidates`; the objective's own
            choice may be none of it.
        outcomes: What became of its answers.
        hp: Its mean hP.
        low: A one-sided lower bound of it.
        confidence: The confidence of that bound.
        certified: Whether it is certified; None if the objective holds nothing with a confidence.
        held: How it stands to each constraint.
        taken: Whether the objective takes it.
    """

    iteration: int
    roles: tuple[Role, ...]
    outcomes: Outcomes
    hp: float
    low: float
    confidence: float
    certified: bool | None = None
    held: tuple[Held, ...] = ()
    taken: bool = False

    def as_row(self) -> dict[str, Any]:
        """Returns the candidate as a row of a frame."""
        return {
            "iteration": self.iteration,
            "taken": self.taken,
            "role": ", ".join(self.roles),
            **_counts(self.outcomes),
            "hp": self.hp,
            "hp_low": self.low,
            "certified": self.certified,
        }


@dataclass(frozen=True, slots=True)
class Held:
    """How the winner stands to a constraint.

    Attributes:
        measure: The score that is held.
        goal: Its smallest mean.
        confidence: The confidence with which it is held; 0.5 takes the mean for granted.
        low: The mean that the tuning images prove with it.
        mean: The mean on the tuning images.
        more: About how many more images would prove the goal, if it goes on losing as before. It is
            None if it is proven, or if no number of images would do.
    """

    measure: str
    goal: float
    confidence: float
    low: float
    mean: float
    more: int | None = None

    @property
    def missed(self) -> bool:
        """Whether the goal is not proven."""
        return self.low < self.goal - 1e-12


@dataclass(frozen=True, slots=True)
class Selection:
    """How the winner was chosen.

    Attributes:
        winner: Its iteration. A person may have chosen another since, see `TuneResult.is_chosen`.
        reached: Whether it reaches every constraint. If not, no template does, and it is a best
            estimate.
        images: Tuning images that it and its rivals were asked about.
        policy: The policy that the winner's answers are placed by.
        status: What is known of the winner if a constraint has a confidence: "certified" (its bound
            reaches every constraint, and so does that of every more cautious template),
            "passes-alone" (its bound does, but a more cautious template failed first), "estimate"
            (its bound does not). It is None if no constraint has one.
        held: How the winner stands to each constraint.
        chose_threshold: Whether the policy's threshold was chosen on the same images, so that they
            certify nothing.
        candidates: The templates that are worth choosing, the most careful first.
        there: How many tuning images there are, or groups of them; 0 where that is not known.
        unit: What counts once where tuning images belong together, as "burst"; "" where none do.
        groups: How many groups those are that it and its rivals were asked about.
        leaders: The iteration that would have been chosen once each iteration was done; None before
            there was one.
    """

    winner: int
    reached: bool
    images: int
    policy: dict[str, Any] = field(default_factory=dict, hash=False)
    status: Status | None = None
    held: tuple[Held, ...] = ()
    chose_threshold: bool = False
    candidates: tuple[Candidate, ...] = ()
    there: int = 0
    unit: str = ""
    groups: int = 0
    leaders: tuple[int | None, ...] = ()

    @property
    def outcomes(self) -> Outcomes | None:
        """What became of the winner's answers; None where no candidates are known."""
        return next((each.outcomes for each in self.candidates if each.taken), None)


@dataclass(frozen=True, slots=True)
class HeldoutResult:
    """One template on the held-out split, or on the images that it was evaluated on.

    Attributes:
        name: "baseline", "winner", or the objective that the template won ("hp", "accuracy").
        template: The Jinja source.
        scores: Scores over the images that were answered, and rated where there is a judge, for
            *all* templates.
        intervals: Bootstrap intervals of the scores, by name.
        rows: All images, in their order.
        off_tree_as: How answers off the tree were scored: "child" (of the root, never right) or
            "root".
        ranks: Precision and recall at each rank with bootstrap intervals, the broadest rank first.
        usage: Calls, tokens, cost and seconds.
        split: Which images they are: "held-out", or "tuning" where those were evaluated.
        doubt: What hangs on doubtful placements, over the images of `scores`; None where the mapper
            gives no probability.
        selective: The worth of the answers' confidence, over the images of `scores`; None where one
            has none.
        unit: What counts once where images belong together, as "burst"; "" where none do.
    """

    name: str
    template: str
    scores: TemplateScores
    intervals: dict[str, Interval] = field(repr=False)
    rows: tuple[SampleResult, ...] = field(repr=False)
    off_tree_as: str = "child"
    ranks: tuple[RankIntervals, ...] = field(default=(), repr=False)
    usage: Usage = field(default_factory=Usage, repr=False)
    split: str = "held-out"
    doubt: Doubt | None = None
    selective: Selective | None = None
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """Paired differences of two templates on the same held-out images, `name` minus `other`."""

    name: str
    other: str
    metrics: dict[str, PairedDifference]

    @property
    def key(self) -> str:
        """The pair as files and tables name it: "hp - baseline"."""
        return f"{self.name} - {self.other}"


@dataclass(frozen=True, slots=True)
class Provenance:
    """What was run: the facts that it takes to judge a result or to run it again.

    Attributes:
        facts: Groups of facts ("Model", "Data", ...), each by name.
        recipe: The settings in full, with every default, as YAML.
        command: The command that runs it again, given that recipe; None where none does.
        images: Image files by example id.
        photos: Of crops the photos that they are cut out of, each with its box, by example id.
        source: The recipe's file, whose folder its paths start at; None where there is none.
    """

    facts: dict[str, dict[str, str]] = field(default_factory=dict)
    recipe: str | None = None
    command: str | None = None
    images: dict[str, str] = field(default_factory=dict)
    photos: dict[str, tuple[str, Box]] = field(default_factory=dict)
    source: str | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class _Result:
    """What the results of a tuning run and of a comparison share.

    Attributes:
        name: The run's name.
        heldout: Templates on the same held-out images, the baseline first.
        differences: Paired differences of held-out scores, each later template minus each earlier
            one.
        folder: The folder of the run or the comparison.
        where: Where to look: commands and files, by what they show.
        provenance: What was run.
        seconds: Wall time until the held-out images were answered, of all sessions; None where it
            is not known.
    """

    name: str
    heldout: tuple[HeldoutResult, ...]
    differences: tuple[Difference, ...]
    folder: str
    where: dict[str, str] = field(default_factory=dict)
    provenance: Provenance = field(default_factory=Provenance)
    seconds: float | None = None

    def __repr__(self) -> str:
        """Returns the result in a line: the records that it holds would fill pages."""
        scores = ", ".join(f"{held.name} {held.scores.hp:.3f}" for held in self.heldout)
        return (
            f"{type(self).__name__}({self.name!r}, held-out hP: {scores}, folder={self.folder!r})"
        )

    @property
    def usage(self) -> Usage:
        """The calls to each model, in all runs of a comparison, their cost and the time."""
        spent = getattr(self, "runs", ()) or (*getattr(self, "iterations", ()), *self.heldout)
        total = sum((each.usage for each in spent), Usage())
        return total if self.seconds is None else replace(total, seconds=self.seconds)

    @property
    def faults(self) -> dict[str, dict[str, int]]:
        """Failed calls by the kind of fault, of "model", "proposer" and "judge or arbiter"."""
        usage = self.usage
        faults = {
            "model": usage.vlm.faults,
            "proposer": usage.proposer.faults,
            "judge or arbiter": usage.judge.faults,
        }
        return {who: counts for who, counts in faults.items() if counts}

    def against(self, name: str, other: str) -> Difference | None:
        """Returns the differences `name` minus `other`, None if they were not compared."""
        for difference in self.differences:
            if (difference.name, difference.other) == (name, other):
                return difference
        return None

    @property
    def contenders(self) -> tuple[str, ...]:
        """The names of the held-out results that are no baseline."""
        return tuple(held.name for held in self.heldout if held.name != "baseline")

    @property
    def heldout_baseline(self) -> HeldoutResult | None:
        """The baseline on the held-out images; None where there are no held-out results."""
        return next((held for held in self.heldout if held.name == "baseline"), None)

    @property
    def split(self) -> str:
        """The images that templates are judged by: "held-out", or "tuning" if those were evaluated."""
        return self.heldout[0].split if self.heldout else "held-out"

    def answers(self, which: str | int = "winner") -> DataFrame:
        """Returns the answers about each image, with placement and scores.

        Args:
            which: "baseline", "winner", the name of a comparison's objective or of a template, for
                the held-out images; of a tuning run also the number of an iteration, for the tuning
                images.

        Returns:
            One row per image: the fields of `SampleResult` and of its answer, and one column per
            score and metric. Values that a failed call lacks are missing, never 0.
        """
        import pandas as pd

        known: dict[str | int, Sequence[SampleResult]] = {}
        for held in self.heldout:
            known[held.name] = held.rows
        for record in getattr(self, "iterations", ()):
            known[record.iteration] = record.rows
        if which not in known:
            raise DataError(
                "There are no answers with this name.",
                file=self.folder,
                value=which,
                remedy=f"There are {', '.join(map(str, known))}.",
            )
        return pd.DataFrame([row.as_row() for row in known[which]])

    def heldout_frame(self, details: bool = False) -> DataFrame:
        """Returns the templates on the held-out images, a row each.

        Args:
            details: Whether to return every score, as SCORE, `SCORE_low` and `SCORE_high`.

        Returns:
            The counts `wrong`, `general` and `exact` of `images` with an answer; `share_wrong` of
            the labels, `hp` and `hr`, each beside its 95 % interval: `hp_95`, rounded.
        """
        import pandas as pd

        make = _all_scores if details else _first_scores
        names = pd.Index([held.name for held in self.heldout], name="name")
        return pd.DataFrame([make(held) for held in self.heldout], index=names)

    def candidates(self) -> DataFrame:
        """Returns the candidates, see `Candidate`, with their prompts: a row each.

        Counts, `hp` and its lower bound `hp_low` are those of their tuning images. Of a comparison
        the first column is the `objective`.
        """
        import pandas as pd

        rows: list[dict[str, Any]] = []
        runs: Sequence[Any] = getattr(self, "runs", (self,))
        for run in runs:
            objective = {} if run is self else {"objective": run.objective}
            prompts = {record.iteration: record.prompt for record in run.iterations}
            for candidate in run.shortlist:
                row = objective | candidate.as_row()
                rows.append(row | {"prompt": prompts[candidate.iteration]})
        return pd.DataFrame(rows)

    def as_dict(self) -> dict[str, Any]:
        """Returns the result as plain values, as `result.json` has it."""
        data = asdict(self) | {"usage": asdict(self.usage)}
        del data["provenance"]
        return data


@dataclass(frozen=True, kw_only=True, repr=False)
class TuneResult(_Result):
    """A tuning run, with what the results of a comparison have, too (`name`, `heldout`, ...).

    Attributes:
        objective: The objective's name, such as "hp".
        constraints: What a template had to reach on the tuning split to count.
        trivial_hp: hP of always answering the domain's root on the tuning split.
        trivial_hr: hR of always answering the domain's root on the tuning split.
        winner: Number of the winning iteration.
        iterations: Every iteration, the baseline first.
        selection: How the winner was chosen.
        spec: What was tuned for.
        context: What templates might know of each image.
    """

    objective: str
    constraints: tuple[Constraint, ...]
    trivial_hp: float
    trivial_hr: float
    winner: int
    iterations: tuple[IterationRecord, ...]
    selection: Selection | None = None
    spec: ObjectiveSpec | None = None
    context: tuple[Variable, ...] = ()

    @property
    def heldout_winner(self) -> HeldoutResult:
        """The winner on the held-out images."""
        return next(held for held in self.heldout if held.name == "winner")

    @property
    def named_runs(self) -> tuple[tuple[str, TuneResult], ...]:
        """The run, with its winner's name among the held-out results."""
        return (("winner", self),)

    @property
    def best(self) -> IterationRecord:
        """The winning iteration, with its prompt, template, scores and rows on the tuning split."""
        return next(record for record in self.iterations if record.iteration == self.winner)

    @property
    def baseline(self) -> IterationRecord:
        """The iteration of the baseline."""
        return self.iterations[0]

    @property
    def leaders(self) -> list[IterationRecord | None]:
        """The best iteration once each one was done, see `Selection`; None where it is not known."""
        numbers = () if self.selection is None else self.selection.leaders
        known = {record.iteration: record for record in self.iterations}
        found = [None if number is None else known[number] for number in numbers]
        return found + [None] * (len(self.iterations) - len(found))

    @property
    def shortlist(self) -> tuple[Candidate, ...]:
        """The candidates, the most careful first; empty before a winner was chosen."""
        return () if self.selection is None else self.selection.candidates

    @property
    def is_chosen(self) -> bool:
        """Whether a person has chosen the winner (`taxtune choose`) in place of the objective."""
        return self.selection is not None and self.winner != self.selection.winner

    @property
    def bounds(self) -> dict[str, float]:
        """The smallest mean that each constraint accepts, by measure."""
        baseline = self.iterations[0].scores if self.iterations else None
        return {held.measure: held.bound(baseline) for held in self.constraints}

    def to_frame(self) -> DataFrame:
        """Returns the iterations, by their tuning images: a row each.

        Returns:
            `iteration`, `winner`, the counts `wrong`, `general` and `exact` of `images` with an
            answer, every score, the objective's `value`, what happened, and `template`. Failed
            iterations lack counts and scores.
        """
        import pandas as pd

        rows = []
        for record in self.iterations:
            row: dict[str, Any] = {
                "iteration": record.iteration,
                "winner": record.iteration == self.winner,
            }
            if record.scores is not None:
                row |= _counts(outcomes_of(record.rows)) | record.scores.means
            row |= {
                "value": record.value,
                "feasible": record.feasible,
                "state": record.state,
                "missing": record.missing,
                "reason": record.reason,
                "seconds": record.usage.seconds,
                "template": record.template,
            }
            rows.append(row)
        # Failed iterations have no counts, which stay whole numbers.
        return pd.DataFrame(rows).astype(dict.fromkeys(_counts(Outcomes()), "Int64"))


@dataclass(frozen=True, kw_only=True, repr=False)
class ComparisonResult(_Result):
    """Templates compared on the same held-out images.

    They are winners of runs with different objectives, or given ones. Its `runs` are a tuning run
    for each objective, none where given templates are evaluated. The other attributes are those of
    `TuneResult`; `heldout` has the baseline and each run's winner.
    """

    runs: tuple[TuneResult, ...]

    @property
    def named_runs(self) -> tuple[tuple[str, TuneResult], ...]:
        """The runs, each with its winner's name among the held-out results."""
        return tuple((run.objective, run) for run in self.runs)

    def to_frame(self) -> DataFrame:
        """Returns the held-out counts and scores, see `heldout_frame`."""
        return self.heldout_frame()

    def as_dict(self) -> dict[str, Any]:
        """Returns the result as plain values, as `result.json` has it."""
        data = _Result.as_dict(replace(self, runs=()))
        data["runs"] = [run.as_dict() for run in self.runs]
        data["usage"] = asdict(self.usage)
        return data


# -- rows of frames --------------------------------------------------------------------------------


def _counts(found: Outcomes) -> dict[str, Any]:
    counts = {name: getattr(found, name) for name in ("wrong", "general", "exact", "images")}
    return counts | found.nothing


def _first_scores(held: HeldoutResult) -> dict[str, Any]:
    import pandas as pd

    found = outcomes_of(held.rows)
    row = _counts(found)
    scores = {"share_wrong": found.share_wrong, **held.intervals}
    for key in ("share_wrong", "hp", "hr"):
        ends = scores.get(key)
        row[key] = ends and ends.estimate
        row[f"{key}_95"] = ends and pd.Interval(round(ends.low, 3), round(ends.high, 3), "both")
    return row


def _all_scores(held: HeldoutResult) -> dict[str, Any]:
    row: dict[str, Any] = {"images": held.scores.n, **held.scores.means}
    for key, interval in held.intervals.items():
        row[f"{key}_low"] = interval.low
        row[f"{key}_high"] = interval.high
    row["template"] = held.template
    return row
