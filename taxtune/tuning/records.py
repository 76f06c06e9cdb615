"""What a tuning run writes down: plain values that the loop makes and the tracker, the report and `--json` read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from taxtune.errors import DataError
from taxtune.metrics.hierarchical import HierarchicalScores
from taxtune.metrics.ranks import RankIntervals, RankScores
from taxtune.metrics.statistics import Interval, PairedDifference
from taxtune.record_lines import current_row
from taxtune.report.pictures import PICTURE_BYTES
from taxtune.tuning.account import Account, account_of, sum_accounts
from taxtune.tuning.objective import Constraint
from taxtune.tuning.outlook import Outlook

if TYPE_CHECKING:
    from pandas import DataFrame

    from taxtune.classifier import Classifier
    from taxtune.recipe_settings import BudgetSettings

__all__ = [
    "ComparisonResult",
    "Difference",
    "ExampleRow",
    "Finalist",
    "FullTreeScores",
    "HeldoutResult",
    "IterationRecord",
    "Judged",
    "Optimism",
    "Provenance",
    "Selection",
    "TemplateScores",
    "TuneResult",
    "Turn",
    "Usage",
    "sum_faults",
    "sum_judged",
    "sum_usage",
    "upgraded",
]

State = Literal["complete", "failed", "void"]


@dataclass(frozen=True, slots=True)
class TemplateScores(HierarchicalScores):
    """The scores of a template.

    Attributes:
        measures: Means of the run's own metrics and of the measures that it takes, over the answers that have a value,
            by name.
        abstained: Share of the answers that decline, deny or say nothing, in [0, 1]; they are on the root.
        off_tree: Share of the answers that assert something the tree lacks, in [0, 1], however they are scored.
        ihp: Information-weighted hP, in [0, 1]; this and those below are None in records of versions that lacked them.
        ihr: Information-weighted hR, in [0, 1].
        ihf: Harmonic mean of the two.
        remaining_uncertainty: Mean bits of the truth that are not said, at least 0.
        misinformation: Mean bits said that are not true, at least 0.
        target_bits: Mean information content of the targets, in bits: the scale of the two.
        ranks: What is said at each rank and how much of it is right, the broadest rank first.
    """

    abstained: float = 0.0
    off_tree: float = 0.0
    ihp: float | None = None
    ihr: float | None = None
    ihf: float | None = None
    remaining_uncertainty: float | None = None
    misinformation: float | None = None
    target_bits: float | None = None
    ranks: tuple[RankScores, ...] = field(default=(), repr=False)
    measures: dict[str, float] = field(default_factory=dict, hash=False)

    def get(self, key: str) -> float:
        """Returns a score by name: "hp", "ihr", or one of `measures`.

        Raises:
            ValueError: If there is no such score.
        """
        value = self.measures.get(key, getattr(self, key, None))
        if value is None:
            raise ValueError(f"the scores hold no {key!r}")
        return float(value)

    def keys(self) -> tuple[str, ...]:
        """Returns the names of the scores that there are."""
        plain = (f.name for f in fields(self) if f.name not in ("n", "ranks", "measures"))
        return (*(name for name in plain if getattr(self, name) is not None), *self.measures)


@dataclass(frozen=True, slots=True)
class Judged:
    """What a language model was asked about a template's answers by the measures that ask one.

    Attributes:
        rated: Answers that have a rating.
        unread: Replies that hold no rating.
        failed: Calls that failed, and answers that the judge was not asked about.
        asked: Replies that the judge gave now.
        from_store: Replies that were on disk.
        prompt_tokens: Tokens sent in new calls.
        completion_tokens: Tokens written in new calls.
        cost_usd: Cost of new calls in US dollars; None where the price is unknown.
        faults: Calls that failed, those made again included, by the kind of fault.
    """

    rated: int
    unread: int
    failed: int
    asked: int = 0
    from_store: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    faults: dict[str, int] = field(default_factory=dict, hash=False)


def upgraded(data: Any) -> Any:
    """Returns records as this version has them: earlier ones had other names for a judge's rating and the placement."""
    if isinstance(data, list):
        return [upgraded(item) for item in data]
    if not isinstance(data, dict):
        return data
    data = current_row({key: upgraded(value) for key, value in data.items()})
    # Not intervals by score, which have one under this key.
    if "lave" in data and "measures" not in data and "hp" in data and not isinstance(data["lave"], dict):
        rating, rationale = data.pop("lave"), data.pop("rationale", None)
        row = "example" in data
        data["measures"] = {"lave": rating} if rating is not None or (row and rationale is not None) else {}
        if row:
            data["remarks"] = {} if rationale is None else {"lave": rationale}
    return data


def sum_judged(accounts: Sequence[Judged]) -> Judged | None:
    """Returns the sum of what several measures asked, or None where none asked anything."""
    if not accounts:
        return None
    own = ("cost_usd", "faults")
    counts = {f.name: sum(getattr(each, f.name) for each in accounts) for f in fields(Judged) if f.name not in own}
    costs = [each.cost_usd for each in accounts if each.cost_usd is not None]
    faults = sum_faults(each.faults for each in accounts)
    return Judged(**counts, cost_usd=sum(costs) if costs else None, faults=faults)


def sum_faults(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Returns the sum of counts of faults, the most frequent kind first."""
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))


@dataclass(frozen=True, slots=True)
class ExampleRow:
    """One image asked with one prompt.

    Attributes:
        example: The example's id.
        image: File name of the image.
        target: The target node's number.
        truth: Path of the target node, joined with "/".
        answer: What the model said; None where the call failed.
        node: Number of the node the answer was put on; None where the call failed.
        placement: Path of that node, joined with "/"; None where the call failed.
        stage: The mapper's stage that decided; None where the call failed.
        confidence: How far the mapper's guess is to be believed, in [0, 1]; None where nothing was guessed.
        hp: This example's hP in (0, 1]; None where the call failed, never 0.
        hr: This example's hR in (0, 1]; None where the call failed, never 0.
        abstained: Whether the answer declines, denies or says nothing; it was put on the root.
        from_store: Whether the answer came from the answer store.
        failure: Why there is no answer, or None.
        measures: The value of each metric and measure by name; None where there is none, never 0.
        remarks: What a measure says of its value, by name: a judge's rationale.
        unrated: Why a measure gives no value, or None.
        off_tree: Whether the answer asserts something the tree lacks. Its node is the root, and `hp` and `hr` are those
            of a child of the root that is never right, unless the run scores such answers as the root.
        ihp: This example's information-weighted hP in [0, 1]; None where the call failed.
        ihr: This example's information-weighted hR in [0, 1]; None where the call failed.
        remaining_uncertainty: Bits of this example's truth that are not said; None where the call failed.
        misinformation: Bits said of this example that are not true; None where the call failed.
        votes: The node of each answer where a policy takes several: the root for one off the tree, -1 for one that was
            refused. `answer` then lists the different answers.
    """

    example: str
    image: str
    target: int
    truth: str
    answer: str | None = None
    node: int | None = None
    placement: str | None = None
    stage: str | None = None
    confidence: float | None = None
    hp: float | None = None
    hr: float | None = None
    abstained: bool = False
    from_store: bool = False
    failure: str | None = None
    unrated: str | None = None
    off_tree: bool = False
    ihp: float | None = None
    ihr: float | None = None
    remaining_uncertainty: float | None = None
    misinformation: float | None = None
    measures: dict[str, float | None] = field(default_factory=dict, hash=False)
    remarks: dict[str, str] = field(default_factory=dict, hash=False)
    votes: tuple[int, ...] = ()


def sum_usage(usages: Sequence[Usage]) -> Usage:
    """Returns the sum of what was consumed; a cost that is unknown counts as nothing."""
    found: dict[str, Any] = {}
    for each in fields(Usage):
        values = [value for usage in usages if (value := getattr(usage, each.name)) is not None]
        if each.name.endswith(("_faults", "_batches")):
            found[each.name] = sum_faults(values)
        elif values:
            found[each.name] = sum(values)
    return Usage(**found)


@dataclass(frozen=True, slots=True)
class Usage:
    """What an iteration consumed; cost is None where the provider's price is unknown.

    Attributes:
        proposer_prompt_tokens: Tokens sent to the proposer.
        proposer_completion_tokens: Tokens the proposer wrote.
        proposer_cost_usd: Cost of the proposer's calls in US dollars.
        vlm_prompt_tokens: Tokens sent to the VLM in new calls.
        vlm_completion_tokens: Tokens the VLM wrote in new calls.
        vlm_cost_usd: Cost of the VLM's new calls in US dollars.
        asked: Answers that the VLM gave in this iteration.
        from_store: Answers that came from the answer store.
        seconds: Wall-clock seconds of the iteration.
        tried: Images that drafts were tried on, besides those of the template that became of one.
        vlm_faults: Calls of the VLM that failed, those made again included, by the kind of fault ("rate_limit", ...).
        proposer_faults: The same of the proposer's model.
        vlm_batches: How many answers of a model on this machine were computed in batches of each size.
    """

    proposer_prompt_tokens: int = 0
    proposer_completion_tokens: int = 0
    proposer_cost_usd: float | None = None
    vlm_prompt_tokens: int = 0
    vlm_completion_tokens: int = 0
    vlm_cost_usd: float | None = None
    asked: int = 0
    from_store: int = 0
    seconds: float = 0.0
    tried: int = 0
    vlm_faults: dict[str, int] = field(default_factory=dict, hash=False)
    proposer_faults: dict[str, int] = field(default_factory=dict, hash=False)
    vlm_batches: dict[str, int] = field(default_factory=dict, hash=False)

    def __add__(self, other: Usage) -> Usage:
        """Returns the sum; a cost that is unknown on either side counts as nothing there."""
        return sum_usage((self, other))

    def exceeds(self, budget: BudgetSettings) -> bool:
        """Tells whether a search that consumed this has used up a budget's tokens, dollars or minutes."""
        costs = [cost for cost in (self.proposer_cost_usd, self.vlm_cost_usd) if cost is not None]
        spent = (
            (self.proposer_prompt_tokens + self.proposer_completion_tokens, budget.llm_tokens),
            (sum(costs), budget.usd),
            (self.seconds / 60, budget.minutes),
        )
        return any(most is not None and used >= most for used, most in spent)


@dataclass(frozen=True, slots=True)
class Turn:
    """What a proposer's model did in a turn of its conversation: it called a tool, or wrote text.

    Attributes:
        tool: The tool; None where the model wrote text.
        arguments: The arguments as the model wrote them, or its text; long ones are cut.
        result: What it was told; long results are cut.
        prompt_tokens: Tokens that it read, with the first call of those that it made at once; 0 with the others.
        completion_tokens: Tokens that it wrote, likewise.
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
        state: "complete"; "failed" where no acceptable template was proposed; "void" where too many calls failed.
        template: The Jinja source, or None where none was accepted.
        scores: Scores on the tuning split, over the images that were answered; None unless complete.
        value: The objective's value, larger is better; None unless complete.
        feasible: Whether the means meet the objective's constraints.
        reason: Why the iteration failed or is void.
        parameters: The proposer's own description of the template (the fragments it chose).
        rejected: Templates that were proposed and refused, each with the reason.
        rows: One row an image, in the order of the split.
        usage: Tokens, cost and seconds.
        race: What of `usage` the race took; nothing in records of versions that did not keep it apart.
        judged: What measures that ask a language model asked it; None where there are none.
        trace: What the proposer's model did and said on the way, turn by turn; empty for proposers without a model.
        out_of_reach: Whether it failed because the proposer's model did not answer.
        policy: The policy that its answers were placed by; empty where none were.
        prompt: The template rendered, as the model was asked; None where none was accepted.
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
    rows: tuple[ExampleRow, ...] = field(default=(), repr=False)
    usage: Usage = field(default_factory=Usage)
    race: Usage = field(default_factory=Usage, repr=False)
    judged: Judged | None = None
    trace: tuple[Turn, ...] = field(default=(), repr=False)
    out_of_reach: bool = False
    policy: dict[str, Any] = field(default_factory=dict)
    prompt: str | None = None

    @property
    def missing(self) -> int:
        """Images that have no answer because the call failed, or no rating from the judge."""
        return sum(row.failure is not None or row.unrated is not None for row in self.rows)

    def as_dict(self, *, rows: bool = True) -> dict[str, Any]:
        """Returns the record as plain values, for JSON."""
        data = asdict(self)
        if not rows:
            del data["rows"]
        return data


@dataclass(frozen=True, slots=True)
class Optimism:
    """How much better the winner looks on the tuning images than on others.

    Attributes:
        measure: The score.
        tuning: Its mean on the tuning images that the winner was asked about.
        heldout: Its mean on the held-out images.
        expected: How much the first exceeds the second on average for this choice among these templates, by simulation
            (see `taxtune.tuning.optimism`); None where nothing could be simulated.
    """

    measure: str
    tuning: float
    heldout: float
    expected: float | None = None


@dataclass(frozen=True, slots=True)
class Finalist:
    """A template of the last round, as the choice of the winner sees it.

    Attributes:
        iteration: Its iteration.
        estimate: What is believed of the objective's aim, larger is better: its mean on the tuning images, shrunk.
        low: One-sided lower bound of it.
        bounds: What it is taken to reach in the measure of each constraint: a one-sided lower bound at the constraint's
            confidence, or, where it has none, the mean.
        reached: Whether it reaches every constraint.
        policy: The policy that its answers were placed by.
    """

    iteration: int
    estimate: float
    low: float
    bounds: dict[str, float] = field(default_factory=dict, hash=False)
    reached: bool = True
    policy: dict[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Selection:
    """How the winner was chosen.

    Attributes:
        winner: Its iteration.
        reached: Whether it reaches every constraint; where it does not, no template does, and it is a best estimate.
        images: Tuning images that it and the other finalists were asked about.
        finalists: The templates that were asked about most images, in the order of their iterations; where a run has
            several policies, each template once a policy.
        policy: The policy that the winner's answers are placed by.
        status: What is known of the winner where a constraint has a confidence: "certified" (its bound reaches every
            constraint, and so does that of every more cautious template), "passes-alone" (its bound does, but a more
            cautious template failed first), "estimate" (its bound does not); None where no constraint has one.
    """

    winner: int
    reached: bool
    images: int
    finalists: tuple[Finalist, ...] = ()
    policy: dict[str, Any] = field(default_factory=dict, hash=False)
    status: Literal["certified", "passes-alone", "estimate"] | None = None


@dataclass(frozen=True, slots=True)
class FullTreeScores:
    """The same placements scored on the whole taxonomy, for a run that is restricted to a part of it.

    Attributes:
        domain: Label of the root that the run is restricted to ("Aves").
        root: Label of the whole taxonomy's root ("life").
        scores: Scores on the whole taxonomy, over the same images.
        intervals: Their bootstrap intervals, by name.
    """

    domain: str
    root: str
    scores: HierarchicalScores
    intervals: dict[str, Interval]


@dataclass(frozen=True, slots=True)
class HeldoutResult:
    """One template on the held-out split, or on the images that it was evaluated on.

    Attributes:
        name: "baseline", "winner", or the objective that the template won ("hp", "accuracy").
        template: The Jinja source.
        scores: Scores over the images that were answered, and rated where there is a judge, for *all* templates.
        intervals: Bootstrap intervals of the scores, by name.
        rows: One row an image.
        full: The scores on the whole taxonomy; None unless the run is restricted to a part of it.
        off_tree_as: How answers off the tree were scored: "child" (of the root, never right) or "root".
        ranks: Precision and recall at each rank with bootstrap intervals, the broadest rank first.
        usage: What asking consumed.
        judged: What measures that ask a language model asked it; None where there are none.
        split: Which images they are: "held-out", or "tuning" where those were evaluated.
    """

    name: str
    template: str
    scores: TemplateScores
    intervals: dict[str, Interval] = field(repr=False)
    rows: tuple[ExampleRow, ...] = field(repr=False)
    full: FullTreeScores | None = None
    off_tree_as: str = "child"
    ranks: tuple[RankIntervals, ...] = field(default=(), repr=False)
    usage: Usage = field(default_factory=Usage, repr=False)
    judged: Judged | None = None
    split: str = "held-out"


@dataclass(frozen=True, slots=True)
class Difference:
    """One template against another on the same held-out images.

    Attributes:
        name: The template that is compared.
        other: The template that it is compared with.
        metrics: Paired differences `name` minus `other`, by metric.
        full: The same on the whole taxonomy; empty unless the run is restricted to a part of it.
    """

    name: str
    other: str
    metrics: dict[str, PairedDifference]
    full: dict[str, PairedDifference] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The pair as files and tables name it: "hp - baseline"."""
        return f"{self.name} - {self.other}"


@dataclass(frozen=True, slots=True)
class Provenance:
    """What was run: the facts that somebody needs to judge a result or to run it again.

    Attributes:
        facts: Groups of facts ("Model", "Data", ...), each by name.
        recipe: The settings in full, with every default, as YAML; None where they are not known.
        command: The command that runs it again, given that recipe; None where none does.
        images: Image files by example id.
        source: The recipe's file, whose folder its paths start at; None where there is none.
    """

    facts: dict[str, dict[str, str]] = field(default_factory=dict)
    recipe: str | None = None
    command: str | None = None
    images: dict[str, str] = field(default_factory=dict)
    source: str | None = None


class _Result:
    """What the results of a tuning run and of a comparison share."""

    name: str
    heldout: tuple[HeldoutResult, ...]
    differences: tuple[Difference, ...]
    folder: str
    provenance: Provenance

    def report(self, path: str | Path | None = None, *, picture_bytes: int | None = PICTURE_BYTES) -> Path:
        """Writes the report as one HTML file that needs no network and no other file.

        Args:
            path: The file; `report.html` in the run's folder where left out.
            picture_bytes: Bytes that the pictures of images may take together; the images whose answers changed have
                theirs first. None for no limit.

        Returns:
            The file's path.

        Raises:
            TaxtuneError: If it cannot be written.
        """
        from taxtune.atomic import write_text
        from taxtune.report.html import render_report

        file = Path(self.folder) / "report.html" if path is None else Path(path)
        return write_text(file, render_report(cast("Any", self), picture_bytes=picture_bytes))

    def against(self, name: str, other: str) -> Difference | None:
        """Returns the differences `name` minus `other` of held-out templates, or None where they were not compared."""
        return next((d for d in self.differences if (d.name, d.other) == (name, other)), None)

    @property
    def contenders(self) -> tuple[str, ...]:
        """The names of the held-out results that are no baseline: winners, templates that were given, a front."""
        return tuple(each.name for each in self.heldout if each.name.rpartition(": ")[2] != "baseline")

    def baseline_of(self, name: str) -> HeldoutResult | None:
        """Returns the baseline that a held-out result is to be compared with: of several runs, the run's own."""
        held = {each.name: each for each in self.heldout}
        return held.get(f"{name.partition(': ')[0]}: baseline") or held.get("baseline")

    def _held(self, name: str) -> HeldoutResult:
        for held in self.heldout:
            if held.name == name:
                return held
        raise DataError(
            "There are no held-out answers with this name.",
            file=self.folder,
            value=name,
            remedy=f"There are {', '.join(held.name for held in self.heldout) or 'none yet: the run is not finished'}.",
        )

    def heldout_frame(self) -> DataFrame:
        """Returns the held-out scores: a row a template, a column a score, and `SCORE_low` and `SCORE_high` beside."""
        import pandas as pd

        rows: list[dict[str, Any]] = []
        for held in self.heldout:
            row: dict[str, Any] = {"name": held.name, "images": held.scores.n}
            for key in held.scores.keys():  # noqa: SIM118 - not a mapping
                row[key] = held.scores.get(key)
                if (ends := held.intervals.get(key)) is not None:
                    row |= {f"{key}_low": ends.low, f"{key}_high": ends.high}
            rows.append({**row, "template": held.template})
        return pd.DataFrame(rows)

    def _described(self, *facts: str) -> str:
        """Returns the result in a line: the records that it holds would fill pages."""
        scores = ", ".join(f"{held.name} {held.scores.hp:.3f}" for held in self.heldout) or "not finished"
        parts = [repr(self.name), *facts, f"held-out hP: {scores}", f"folder={self.folder!r}"]
        return f"{type(self).__name__}({', '.join(parts)})"

    def _repr_html_(self) -> str:
        from taxtune.report.notebook import result_html

        return result_html(cast("Any", self))


@dataclass(frozen=True, repr=False)
class TuneResult(_Result):
    """A tuning run; one that was stopped before its end, read by `taxtune.load_run`, has no held-out results yet.

    Attributes:
        name: The run's name.
        objective: The objective's name, such as "hp".
        constraints: What a template had to reach on the tuning split to count.
        trivial_hp: hP of always answering the domain's root on the tuning split.
        trivial_hr: hR of always answering the domain's root on the tuning split.
        winner: Number of the winning iteration.
        iterations: Every iteration, the baseline first.
        pareto: Numbers of the iterations that no other beats in both hP and hR.
        heldout: Baseline and winner on the held-out split.
        differences: The paired differences winner minus baseline on the held-out split.
        folder: The run's folder.
        where: Where to look: commands and files, by what they show.
        provenance: What was run.
        selection: How the winner was chosen; None in records of versions that did not say.
        outlook: What the tuning images can show; None of a run that is not finished.
        optimism: How much better the winner looks on the tuning images than on others, for each score that counts.
        seconds: Wall time until the held-out images were answered, of all sessions where the run was resumed; None in
            records of versions that did not keep it.
    """

    name: str
    objective: str
    constraints: tuple[Constraint, ...]
    trivial_hp: float
    trivial_hr: float
    winner: int
    iterations: tuple[IterationRecord, ...]
    pareto: tuple[int, ...]
    heldout: tuple[HeldoutResult, ...]
    differences: tuple[Difference, ...]
    folder: str
    where: dict[str, str] = field(default_factory=dict)
    provenance: Provenance = field(default_factory=Provenance)
    selection: Selection | None = None
    outlook: Outlook | None = None
    optimism: tuple[Optimism, ...] = ()
    seconds: float | None = None

    def __repr__(self) -> str:
        return self._described(
            f"objective={self.objective!r}", f"iterations={len(self.iterations)}", f"winner={self.winner}"
        )

    def classifier(self, **options: Any) -> Classifier:
        """Returns the winner as a classifier of new images; nothing is loaded yet.

        Args:
            **options: The options of `taxtune.load_classifier`, such as `calibrated=True`; a model, a mapper or a tree
                that was given in Python is to be given again: `vlm=`, `mapper=`, `taxonomy=`.

        Raises:
            TaxtuneError: If the run is not finished, or something has to be given again.
        """
        from taxtune.classifier import load_classifier

        return load_classifier(self, **options)

    @property
    def faults(self) -> dict[str, dict[str, int]]:
        """Calls that failed: by whom was asked ("model", "proposer", "judge"), by the kind of fault."""
        return _faults([*self.iterations, *self.heldout])

    @property
    def account(self) -> Account:
        """What was asked of whom, and what that cost."""
        return account_of(self.iterations, self.heldout, self.seconds)

    @property
    def heldout_winner(self) -> HeldoutResult:
        """The winner on the held-out images, of a run that is finished; behind it may be others of the front."""
        return self._held("winner")

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
    def area(self) -> float:
        """The area below the front on the held-out images: the share of the hP-hR plane that some template reaches."""
        points = sorted(((held.scores.hr, held.scores.hp) for held in self.heldout), reverse=True)
        area, highest = 0.0, 0.0
        for (hr, hp), (lower, _) in zip(points, [*points[1:], (0.0, 0.0)], strict=True):
            highest = max(highest, hp)
            area += highest * (hr - lower)
        return area

    @property
    def bounds(self) -> dict[str, float]:
        """The smallest mean that each constraint accepts, by measure."""
        scores = self.baseline.scores if self.iterations else None
        return {each.measure: each.bound(scores) for each in self.constraints}

    def to_frame(self) -> DataFrame:
        """Returns the iterations: a row each, with state, value, scores on the tuning split, tokens and template."""
        import pandas as pd

        rows = []
        for record in self.iterations:
            scores = record.scores
            rows.append(
                {
                    "iteration": record.iteration,
                    "state": record.state,
                    "winner": record.iteration == self.winner,
                    "value": record.value,
                    "feasible": record.feasible,
                    **({} if scores is None else {key: scores.get(key) for key in scores.keys()}),  # noqa: SIM118
                    "missing": record.missing,
                    "reason": record.reason,
                    "seconds": record.usage.seconds,
                    "template": record.template,
                }
            )
        return pd.DataFrame(rows)

    def answers(self, which: str | int = "winner") -> DataFrame:
        """Returns what was said about each image, with its placement and scores.

        Args:
            which: "winner" or "baseline" for the held-out images, or an iteration's number for the tuning images.

        Returns:
            One row an image: example, image, answer, placed (path), truth (path), hp, hr, stage, confidence, abstained,
            off_tree, failure, and a column a metric. What a failed call has not is missing, never 0.

        Raises:
            DataError: If there are no such answers.
        """
        if isinstance(which, str):
            return _frame(self._held(which).rows)
        for record in self.iterations:
            if record.iteration == which:
                return _frame(record.rows)
        raise DataError(
            "The iteration does not exist.", file=self.folder, value=which, remedy=f"There are {len(self.iterations)}."
        )

    def as_dict(self) -> dict[str, Any]:
        """Returns the result as plain values, as `result.json` has it."""
        from taxtune.report.summary import verdict

        data = _plain_fields(self)
        data["verdict"] = verdict(self)
        found = self.differences[0] if self.differences else Difference("winner", "baseline", {})
        data["differences"] = {key: asdict(value) for key, value in found.metrics.items()}
        data["full_differences"] = {key: asdict(value) for key, value in found.full.items()}
        data["account"] = self.account.as_dict()
        data["faults"] = self.faults
        return data


@dataclass(frozen=True, repr=False)
class ComparisonResult(_Result):
    """Templates compared on the same held-out images: winners of runs with different objectives, or given ones.

    Attributes:
        name: The runs' name.
        runs: One tuning run an objective, in the order asked for; none where given templates are evaluated.
        heldout: The baseline and each run's winner on the same held-out images.
        differences: Paired differences of held-out scores, each later template against each earlier one.
        folder: The comparison's folder.
        where: Where to look: commands and files, by what they show.
        provenance: What was run.
        names: What each run's winner is called among the held-out results; the run's objective where left out.
        seconds: Wall time until the held-out images were answered; None where it is not known.
    """

    name: str
    runs: tuple[TuneResult, ...]
    heldout: tuple[HeldoutResult, ...]
    differences: tuple[Difference, ...]
    folder: str
    where: dict[str, str] = field(default_factory=dict)
    provenance: Provenance = field(default_factory=Provenance)
    names: tuple[str, ...] = ()
    seconds: float | None = None

    def __repr__(self) -> str:
        return self._described()

    @property
    def named_runs(self) -> tuple[tuple[str, TuneResult], ...]:
        """The runs, each with its winner's name among the held-out results."""
        return tuple(zip(self.names or [run.objective for run in self.runs], self.runs, strict=True))

    @property
    def faults(self) -> dict[str, dict[str, int]]:
        """Calls that failed: by whom was asked ("model", "proposer", "judge"), by the kind of fault."""
        iterations = [record for run in self.runs for record in run.iterations]
        return _faults([*iterations, *(held for result in (*self.runs, self) for held in result.heldout)])

    @property
    def account(self) -> Account:
        """What was asked of whom in all runs, and what that cost; given templates have none but the held-out images."""
        if not self.runs:
            return account_of((), self.heldout, self.seconds)
        return sum_accounts([run.account for run in self.runs], self.seconds)

    def to_frame(self) -> DataFrame:
        """Returns the held-out scores with their intervals: a row a template."""
        return self.heldout_frame()

    def answers(self, which: str) -> DataFrame:
        """Returns what was said about each held-out image: see `TuneResult.answers`.

        Args:
            which: "baseline", or the name of a run's objective.

        Raises:
            DataError: If there are no such answers.
        """
        return _frame(self._held(which).rows)

    def as_dict(self) -> dict[str, Any]:
        """Returns the result as plain values, as `result.json` has it."""
        data = _plain_fields(self)
        data["runs"] = [run.as_dict() for run in self.runs]
        data["differences"] = {d.key: {k: asdict(v) for k, v in d.metrics.items()} for d in self.differences}
        data["full_differences"] = {
            d.key: {k: asdict(v) for k, v in d.full.items()} for d in self.differences if d.full
        }
        data["account"] = self.account.as_dict()
        data["faults"] = self.faults
        return data


def _faults(asked: Sequence[IterationRecord | HeldoutResult]) -> dict[str, dict[str, int]]:
    found = {
        "model": sum_faults(each.usage.vlm_faults for each in asked),
        "proposer": sum_faults(each.usage.proposer_faults for each in asked),
        "judge": sum_faults(each.judged.faults for each in asked if each.judged is not None),
    }
    return {who: counts for who, counts in found.items() if counts}


def _plain_fields(result: TuneResult | ComparisonResult) -> dict[str, Any]:
    left_out = ("provenance", "differences", "runs", "names")
    return {f.name: _plain(getattr(result, f.name)) for f in fields(result) if f.name not in left_out}


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _frame(rows: Sequence[ExampleRow]) -> DataFrame:
    import pandas as pd

    data = []
    for row in rows:
        plain = asdict(row)
        measures, remarks = plain.pop("measures"), plain.pop("remarks")
        data.append({**plain, **measures, **{f"{key}_remark": text for key, text in remarks.items()}})
    columns = [f.name for f in fields(ExampleRow) if f.name not in ("measures", "remarks")]
    return pd.DataFrame(data, columns=None if data else columns)
