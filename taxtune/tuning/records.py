"""What a tuning run writes down: plain values that the loop makes and the tracker, the report and `--json` read."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from taxtune.metrics.hierarchical import HierarchicalScores
from taxtune.metrics.ranks import RankIntervals, RankScores
from taxtune.metrics.statistics import Interval, PairedDifference

__all__ = [
    "ComparisonResult",
    "ExampleRow",
    "FullTreeScores",
    "HeldoutResult",
    "IterationRecord",
    "Judged",
    "TemplateScores",
    "TuneResult",
    "Usage",
]

State = Literal["complete", "failed", "void"]


@dataclass(frozen=True, slots=True)
class TemplateScores(HierarchicalScores):
    """The scores of a template.

    Attributes:
        lave: Mean LAVE score of the answers that the judge rated, in [0, 1]; None where no judge was asked, or none was
            rated.
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

    lave: float | None = None
    abstained: float = 0.0
    off_tree: float = 0.0
    ihp: float | None = None
    ihr: float | None = None
    ihf: float | None = None
    remaining_uncertainty: float | None = None
    misinformation: float | None = None
    target_bits: float | None = None
    ranks: tuple[RankScores, ...] = ()


@dataclass(frozen=True, slots=True)
class Judged:
    """What a judge was asked about a template's answers, and what of it has no score.

    Attributes:
        rated: Answers that have a rating.
        unread: Replies that hold no rating.
        failed: Calls that failed, and answers that the judge was not asked about.
        asked: Replies that the judge gave now.
        from_store: Replies that were on disk.
        prompt_tokens: Tokens sent in new calls.
        completion_tokens: Tokens written in new calls.
        cost_usd: Cost of new calls in US dollars; None where the price is unknown.
    """

    rated: int
    unread: int
    failed: int
    asked: int = 0
    from_store: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None


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
        placed: Path of that node, joined with "/"; None where the call failed.
        stage: The mapper's stage that decided; None where the call failed.
        confidence: How far the mapper's guess is to be believed, in [0, 1]; None where nothing was guessed.
        hp: This example's hP in (0, 1]; None where the call failed, never 0.
        hr: This example's hR in (0, 1]; None where the call failed, never 0.
        abstained: Whether the answer declines, denies or says nothing; it was put on the root.
        from_store: Whether the answer came from the answer store.
        failure: Why there is no answer, or None.
        lave: The judge's score in {0, 0.5, 1}; None where it was not asked or gave no rating, never 0.
        rationale: What the judge wrote, or None.
        unrated: Why there is no rating where a judge was asked, or None.
        off_tree: Whether the answer asserts something the tree lacks. Its node is the root, and `hp` and `hr` are those
            of a child of the root that is never right, unless the run scores such answers as the root.
        ihp: This example's information-weighted hP in [0, 1]; None where the call failed.
        ihr: This example's information-weighted hR in [0, 1]; None where the call failed.
    """

    example: str
    image: str
    target: int
    truth: str
    answer: str | None
    node: int | None
    placed: str | None
    stage: str | None
    confidence: float | None
    hp: float | None
    hr: float | None
    abstained: bool
    from_store: bool
    failure: str | None = None
    lave: float | None = None
    rationale: str | None = None
    unrated: str | None = None
    off_tree: bool = False
    ihp: float | None = None
    ihr: float | None = None


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


@dataclass(frozen=True, slots=True)
class IterationRecord:
    """One template, asked and scored.

    Attributes:
        iteration: 0 for the baseline, then 1, 2, ...
        state: "complete"; "failed" where no acceptable template was proposed; "void" where too many calls failed.
        template: The Jinja source, or None where none was accepted.
        scores: Scores on the tuning split, over the images that were answered; None unless complete.
        value: The objective's value, larger is better; None unless complete.
        feasible: Whether the objective's constraint (the hR floor) holds.
        reason: Why the iteration failed or is void.
        parameters: The proposer's own description of the template (the fragments it chose).
        rejected: Templates that were proposed and refused, each with the reason.
        rows: One row an image, in the order of the split.
        usage: Tokens, cost and seconds.
        judged: What the judge was asked, for the objective "lave".
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
    rows: tuple[ExampleRow, ...] = ()
    usage: Usage = field(default_factory=Usage)
    judged: Judged | None = None

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
    """One template on the held-out split.

    Attributes:
        name: "baseline", "winner", or the objective that the template won ("hp", "accuracy").
        template: The Jinja source.
        scores: Scores over the images that were answered, and rated where there is a judge, for *all* templates.
        intervals: Bootstrap intervals of the scores, by name.
        rows: One row an image.
        full: The scores on the whole taxonomy; None unless the run is restricted to a part of it.
        off_tree_as: How answers off the tree were scored: "child" (of the root, never right) or "root".
        ranks: Precision and recall at each rank with bootstrap intervals, the broadest rank first.
    """

    name: str
    template: str
    scores: TemplateScores
    intervals: dict[str, Interval]
    rows: tuple[ExampleRow, ...]
    full: FullTreeScores | None = None
    off_tree_as: str = "child"
    ranks: tuple[RankIntervals, ...] = ()


@dataclass(frozen=True, slots=True)
class TuneResult:
    """A finished tuning run.

    Attributes:
        name: The recipe's name.
        objective: "hp", "hf", "ihp", "ihf", "accuracy" or "lave".
        hr_floor: Smallest mean hR on the tuning split that "hp" and "ihp" allow; None for other objectives.
        trivial_hp: hP of always answering the domain's root on the tuning split.
        trivial_hr: hR of always answering the domain's root on the tuning split.
        winner: Number of the winning iteration.
        iterations: Every iteration, the baseline first.
        pareto: Numbers of the iterations that no other beats in both hP and hR.
        heldout: Baseline and winner on the held-out split.
        differences: Paired differences winner minus baseline on the held-out split, by metric.
        folder: The run's folder.
        where: Where to look: commands and files, by what they show.
        full_differences: The paired differences on the whole taxonomy; empty unless the run is restricted to a part.
    """

    name: str
    objective: str
    hr_floor: float | None
    trivial_hp: float
    trivial_hr: float
    winner: int
    iterations: tuple[IterationRecord, ...]
    pareto: tuple[int, ...]
    heldout: tuple[HeldoutResult, ...]
    differences: dict[str, PairedDifference]
    folder: str
    where: dict[str, str]
    full_differences: dict[str, PairedDifference] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    """Tuning runs with different objectives from the same baseline, splits and seed.

    Attributes:
        name: The recipe's name.
        runs: One tuning run an objective, in the order asked for.
        heldout: The baseline and each run's winner on the same held-out images.
        differences: Paired differences of held-out scores, keyed "a - b" by name, then by metric.
        folder: The comparison's folder.
        where: Where to look: commands and files, by what they show.
        full_differences: The paired differences on the whole taxonomy; empty unless the runs are restricted to a part.
    """

    name: str
    runs: tuple[TuneResult, ...]
    heldout: tuple[HeldoutResult, ...]
    differences: dict[str, dict[str, PairedDifference]]
    folder: str
    where: dict[str, str]
    full_differences: dict[str, dict[str, PairedDifference]] = field(default_factory=dict)
