"""What an audit comes to: the shares with their intervals, its tables, and the files that it leaves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from taxtune import atomic
from taxtune.audit.population import Item, Population, answers_digest
from taxtune.audit.sampling import Drawn, Estimate, draw, estimate
from taxtune.audit.verdicts import Finding, Verdict, VerdictLog
from taxtune.errors import DataError
from taxtune.report.output import Cell, StudyReport, Table
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["AuditFiles", "Audited", "draw_sample", "make_report", "with_agreement", "write_placed", "write_result"]


@dataclass(frozen=True, slots=True)
class AuditFiles:
    """The files of an audit.

    Attributes:
        folder: Where they are.
        stem: "audit", with the evaluation where it is not the winner's, and "llm" where a model judged.
    """

    folder: Path
    stem: str = "audit"

    @property
    def verdicts(self) -> Path:
        """A person's verdicts, as they were given; those on all evaluations of a run."""
        return self.folder / "audit.jsonl"

    @property
    def result(self) -> Path:
        """The result, and the sample that it rests on."""
        return self.folder / f"{self.stem}.json"

    @property
    def placed(self) -> Path:
        """The answers whose node is known, as `taxtune study mapping` reads them."""
        return self.folder / f"{self.stem}-placed.jsonl"

    @property
    def aliases(self) -> Path:
        """The aliases that were taken over."""
        return self.folder / f"{self.stem}-aliases.csv"


@dataclass(frozen=True, slots=True)
class Audited:
    """A sample and what was found of it.

    Attributes:
        population: What it was drawn from.
        sample: The sample.
        findings: What was found of each; None where there is no verdict.
        judge: "a person", or the model.
        n: How many were asked for.
        seed: The seed of the draw.
        notes: What else is to be said, such as how many replies could not be read.
        account: Counts of a model's replies, for `--json`.
    """

    population: Population
    sample: Sequence[Drawn]
    findings: Sequence[Finding | None]
    judge: str
    n: int
    seed: int
    notes: Sequence[str] = ()
    account: Mapping[str, Any] | None = None

    @property
    def items(self) -> list[Item]:
        """The drawn items."""
        return [self.population.items[unit.item] for unit in self.sample]

    @property
    def judged(self) -> list[tuple[Item, Finding]]:
        """The drawn items that have a verdict, with it."""
        return [(i, f) for i, f in zip(self.items, self.findings, strict=True) if f is not None]

    def share(self, verdict: Verdict, stage: str | None = None) -> Estimate | None:
        """Returns the share of answers with a verdict, of all or of those that a stage placed; None if none has one."""
        return estimate(
            self.sample,
            [item.count for item in self.items],
            [None if finding is None else finding.verdict is verdict for finding in self.findings],
            None if stage is None else [item.stage == stage for item in self.items],
        )


def draw_sample(population: Population, n: int, seed: int, result: Path) -> list[Drawn]:
    """Returns the sample of an audit: the one of a former start on the same answers, else a new one.

    A sample of answers stays one where mapper or tree have changed since, so that their verdicts can be compared.

    Args:
        population: What to draw from.
        n: Distinct answers to draw.
        seed: The seed.
        result: The audit's result file; it need not be there.

    Raises:
        DataError: If it is there and is none.
    """
    items = population.items
    try:
        known = json.loads(result.read_text("utf-8"))
        key = (known["answers_digest"], known["settings"]["n"], known["settings"]["seed"])
        if key == (answers_digest(items), n, seed):
            places: dict[str, list[int]] = {}  # several where images were looked at, too
            for i, item in enumerate(items):
                places.setdefault(item.answer, []).append(i)
            return [
                Drawn(places[unit["answer"]].pop(), int(unit["stratum"]), float(unit["inclusion"]))
                for unit in known["sample"]
            ]
    except FileNotFoundError:
        pass
    except OSError as error:
        raise DataError(f"The audit cannot be read: {error.strerror}.", file=result) from error
    except (ValueError, LookupError, TypeError) as error:
        raise DataError(
            "This is not a taxtune audit.", file=result, remedy="Move the file away to start an audit here."
        ) from error
    cells = [(item.stage, int(population.tree.depth[item.node])) for item in items]
    return draw(cells, [item.count for item in items], n, seed)


def with_agreement(audited: Audited, files: AuditFiles) -> Audited:
    """Returns a model's audit with how far it agrees with a person, where one judged the same placements.

    Raises:
        DataError: If the person's verdicts cannot be read.
    """
    log = VerdictLog(files.verdicts)
    pairs = [(finding, log.find(audited.population, item)) for item, finding in audited.judged]
    agree = [model.verdict is person.verdict for model, person in pairs if person is not None]
    if not agree:
        return audited
    said = f"Of {len(agree):,} placements that a person also judged, the model agrees on {sum(agree):,}."
    return replace(audited, notes=(*audited.notes, said))


def make_report(audited: Audited) -> StudyReport:
    """Returns the tables of an audit and all that `--json` prints."""
    population = audited.population
    stages: dict[str, int] = {}
    for item in population.items:
        stages[item.stage] = stages.get(item.stage, 0) + item.count
    names = {Verdict.RIGHT: "right (acceptable)", Verdict.TOO_GENERAL: "too general", Verdict.WRONG: "wrong"}
    counts = [finding.verdict for _, finding in audited.judged]
    shares: list[tuple[Cell, ...]] = []
    for verdict, name in names.items():
        found = audited.share(verdict)
        ends = (None,) * 3 if found is None else (found.share, found.low, found.high)
        shares.append((name, counts.count(verdict), *ends))
    by_stage: list[tuple[Cell, ...]] = []
    for stage, answers in sorted(stages.items(), key=lambda pair: (-pair[1], pair[0])):
        drawn = sum(item.stage == stage for item, _ in audited.judged)
        right = audited.share(Verdict.RIGHT, stage)
        others = [audited.share(verdict, stage) for verdict in (Verdict.TOO_GENERAL, Verdict.WRONG)]
        by_stage.append(
            (
                stage.replace("_", " "),
                answers / population.answers,
                drawn,
                *((None,) * 3 if right is None else (right.share, right.low, right.high)),
                *(None if other is None else other.share for other in others),
            )
        )
    return StudyReport(
        study="audit",
        title=f"How the answers of {population.name} were placed",
        settings={"n": audited.n, "seed": audited.seed, "judge": audited.judge, "taxonomy": population.tree.source},
        tables=(
            Table(
                "audit",
                f"Placements of {population.name}, judged by {audited.judge}",
                ("placement", "judged", "share", "low", "high"),
                tuple(shares),
                notes=_notes(audited),
            ),
            Table(
                "by-stage",
                "By deciding stage",
                ("stage", "of all", "judged", "right", "low", "high", "too general", "wrong"),
                tuple(by_stage),
                notes=("of all: share of all answers that this stage placed.",),
            ),
        ),
        data={
            "name": population.name,
            "judge": audited.judge,
            "mapper": dict(population.mapper),
            "answers": population.answers,
            "distinct": len(population.items),
            "unanswered": population.unanswered,
            "drawn": len(audited.sample),
            "judged": len(audited.judged),
            "shares": {str(v).replace(" ", "_"): _plain(audited.share(v)) for v in Verdict},
            **({} if audited.account is None else {"replies": dict(audited.account)}),
        },
        notes=(*population.notes, *audited.notes),
    )


def _plain(found: Estimate | None) -> dict[str, Any] | None:
    return None if found is None else asdict(found)


def _notes(audited: Audited) -> tuple[str, ...]:
    population, drawn, judged = audited.population, len(audited.sample), len(audited.judged)
    often = "" if population.answers == len(population.items) else f", {len(population.items):,} of them distinct"
    notes = [
        f"{judged:,} judged of {drawn:,} distinct answers drawn from {population.answers:,}{often}; shares are of all "
        "answers, low and high the ends of their 95 % interval."
    ]
    if population.unanswered:
        notes.append(f"{population.unanswered:,} more have no answer and are excluded.")
    if judged < drawn:
        open_ = drawn - judged
        notes.append(
            f"{open_:,} drawn {'answer has' if open_ == 1 else 'answers have'} no verdict and are not counted."
        )
    right = audited.share(Verdict.RIGHT)
    if right is not None and right.coverage < 1 - 1e-9:
        notes.append(f"The verdicts represent {right.coverage:.0%} of the answers; the other strata have no verdicts.")
    return tuple(notes)


def write_result(files: AuditFiles, audited: Audited, report: StudyReport) -> None:
    """Writes the result with its sample, and the answers whose node is known.

    Raises:
        TaxtuneError: If a file cannot be written.
    """
    population = audited.population
    sample = []
    for unit, item, finding in zip(audited.sample, audited.items, audited.findings, strict=True):
        node = None if finding is None else finding.node
        sample.append(
            {
                "answer": item.answer,
                "count": item.count,
                "stratum": unit.stratum,
                "inclusion": unit.inclusion,
                "placed": list(population.tree.path(item.node)),
                "stage": item.stage,
                "verdict": None if finding is None else str(finding.verdict),
                "node": None if node is None else list(population.tree.path(node)),
            }
        )
    record = {
        **report.as_json(),
        "answers_digest": answers_digest(population.items),
        "placements_digest": population.placements(),
        "sample": sample,
    }
    atomic.write_json(files.result, record)


def write_placed(files: AuditFiles, audited: Audited) -> int:
    """Writes the drawn answers whose node is known, as `taxtune study mapping` reads them; returns how many those are.

    An answer that was placed right has the node that it was placed on, another one the node that was chosen.

    Raises:
        TaxtuneError: If the file cannot be written.
    """
    tree = audited.population.tree
    lines = []
    for item, finding in audited.judged:
        node = item.node if finding.node is None and finding.verdict is Verdict.RIGHT else finding.node
        if node is not None:
            record = {
                "answer": item.answer,
                "node": None if node == tree.root else _node_reference(tree, node),
                "also": [],
                "style": item.stage,
                "source": f"audit of {audited.population.name}, judged by {audited.judge}",
            }
            lines.append(json.dumps(record, ensure_ascii=False) + "\n")
    if lines or files.placed.exists():
        atomic.write_text(files.placed, "".join(lines))
    return len(lines)


def _node_reference(tree: Taxonomy, node: int) -> str | list[str]:
    """Returns a node's path joined with "/", or as a list where a label holds a slash itself."""
    path = tree.path(node)
    return list(path) if any("/" in label for label in path) else "/".join(path)
