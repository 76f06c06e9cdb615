"""The tuning loop: propose, check, ask, place, score, record; then baseline and winner on the held-out images."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from taxtune.errors import TaxonomyError, TaxtuneError, VLMError
from taxtune.models import AnswerStore
from taxtune.tuning.evaluation import Evaluator
from taxtune.tuning.heldout import judge
from taxtune.tuning.history import Claim, History, as_trials, best, check_unused
from taxtune.tuning.objective import Objective, ObjectiveKind
from taxtune.tuning.proposers import Proposal, ProposalFailed
from taxtune.tuning.records import ExampleRow, IterationRecord, TuneResult, Usage
from taxtune.tuning.session import Session

__all__ = ["Listener", "Tuner"]

_POLL_SECONDS = 0.5
_SHOWN, _LONGEST = 3, 100  # examples in an error, and characters of each


class Listener(Protocol):
    """Hears what the loop does as it happens: the terminal's progress display is one, the MLflow tracker another."""

    def on_start(self, tuner: Tuner, done: Sequence[IterationRecord]) -> None:
        """The loop begins, with the iterations that are already done."""

    def on_answers(self, done: int, from_store: int) -> None:
        """So many of the tuning images are answered, so many of them from the store."""

    def on_iteration(self, record: IterationRecord, best: IterationRecord | None) -> None:
        """An iteration is finished."""

    def on_heldout(self, name: str, done: int, total: int) -> None:
        """So many of the held-out images are answered for the template called `name`."""

    def on_result(self, tuner: Tuner, result: TuneResult) -> None:
        """The run is complete."""

    def on_stop(self, status: str) -> None:
        """The run ends: "finished", "failed" or "killed"."""


class Tuner:
    """One tuning run.

    Args:
        session: The recipe and what it asks for.
        folder: Where the run is kept.
        kind: The objective; the recipe's where left out.
        answers: The answer store's file; `answers.db` in the folder where left out.
        listeners: Told what happens.
        resume: Go on with a run that is already in the folder.
    """

    def __init__(
        self,
        session: Session,
        folder: Path,
        *,
        kind: ObjectiveKind | None = None,
        answers: Path | None = None,
        listeners: Sequence[Listener] = (),
        resume: bool = False,
    ) -> None:
        self.session = session
        self.folder = folder
        self.kind: ObjectiveKind = kind or session.recipe.objective.kind
        self.answers = answers or folder / "answers.db"
        self.listeners = tuple(listeners)
        self.resume = resume
        self.history: History
        self.objective: Objective

    def run(self) -> TuneResult:
        """Runs, or goes on with, the tuning run.

        Returns:
            The result; iterations that another process did are part of it.

        Raises:
            TaxtuneError: If the run cannot start or go on; what is done is kept and `resume` goes on from there.
            KeyboardInterrupt: On Ctrl-C, after the run has been left in a state that `resume` goes on from.
        """
        session = self.session
        if not self.resume:
            check_unused(self.folder)  # before images are read, which may take minutes
        session.check_baseline()
        self.objective = session.objective(self.kind)
        if not (self.folder / "history.db").exists():
            session.check_models(judged=self.kind == "lave")
        self.history = History(
            self.folder,
            session.recipe.name,
            session.identity(self.objective),
            resume=self.resume,
            details=session.details(),
        )
        # A recipe's paths start at its own folder, which whoever reads the run later does not know.
        self.history.set_note("taxonomy", session.full_taxonomy.source)
        status = "failed"
        try:
            with AnswerStore(self.answers) as store:
                result = self._run(session.evaluator(store, judged=self.kind == "lave"))
            status = "finished"
            return result
        except KeyboardInterrupt:
            status = "killed"
            raise
        finally:
            try:
                for listener in self.listeners:
                    listener.on_stop(status)
            finally:
                if status == "failed" or (status == "killed" and not self.history.claimed()):
                    self.history.discard()
                self.history.close()

    def _run(self, evaluator: Evaluator) -> TuneResult:
        total = self.session.recipe.iterations
        done = self.history.records()
        if done and done[0].iteration == 0:
            self._check_off_tree(done[0].rows)  # `max_off_tree` may be another than when the run began
        for listener in self.listeners:
            listener.on_start(self, done)
        exhausted = False
        while not exhausted and (claim := self.history.claim(total)) is not None:
            record, exhausted = (claim.record, False) if claim.record is not None else self._iterate(claim, evaluator)
            self.history.finish(record)
            for listener in self.listeners:
                listener.on_iteration(record, best(self.history.records()))
        while self.history.others_at_work():
            time.sleep(_POLL_SECONDS)
        self.history.write()

        records = self.history.records()
        winner = best(records)
        if winner is None or winner.template is None or records[0].template is None:
            raise TaxtuneError(
                "No iteration could be scored.", file=self.folder, remedy="See history.jsonl for the reasons."
            )
        with self.history.alone("final"):
            judged = judge(
                self.session,
                evaluator,
                {"baseline": records[0].template, "winner": winner.template},
                self._on_heldout,
            )
        trivial_hp, trivial_hr = self.session.trivial
        result = TuneResult(
            name=self.session.recipe.name,
            objective=self.kind,
            hr_floor=self.objective.hr_floor,
            trivial_hp=trivial_hp,
            trivial_hr=trivial_hr,
            winner=winner.iteration,
            iterations=tuple(records),
            pareto=self.history.pareto(),
            heldout=judged.results,
            differences=judged.differences["winner - baseline"],
            full_differences=judged.full_differences.get("winner - baseline", {}),
            folder=str(self.folder),
            where={},
        )
        for listener in self.listeners:
            listener.on_result(self, result)
        return result

    def _on_heldout(self, name: str, done: int, total: int) -> None:
        for listener in self.listeners:
            listener.on_heldout(name, done, total)

    def _on_answers(self, done: int, from_store: int) -> None:
        for listener in self.listeners:
            listener.on_answers(done, from_store)

    # -- one iteration -------------------------------------------------------------------------------------------------

    def _iterate(self, claim: Claim, evaluator: Evaluator) -> tuple[IterationRecord, bool]:
        """Returns the iteration's record, and whether the proposer has nothing left to propose."""
        start = time.monotonic()
        try:
            proposal = claim.proposal or self._propose(claim)
        except ProposalFailed as failure:
            usage = Usage(
                proposer_prompt_tokens=failure.prompt_tokens,
                proposer_completion_tokens=failure.completion_tokens,
                proposer_cost_usd=failure.cost_usd,
                seconds=time.monotonic() - start,
            )
            record = IterationRecord(
                claim.iteration, "failed", None, reason=failure.reason, rejected=failure.rejected, usage=usage
            )
            return record, failure.final

        examples = self.session.splits.tuning
        evaluation = evaluator.evaluate(proposal.template, examples, self._on_answers)
        record = IterationRecord(
            iteration=claim.iteration,
            state="complete",
            template=proposal.template,
            parameters=dict(proposal.parameters),
            rejected=tuple(proposal.rejected),
            rows=evaluation.rows,
            judged=evaluation.judged,
            usage=replace(
                evaluation.usage,
                proposer_prompt_tokens=proposal.prompt_tokens,
                proposer_completion_tokens=proposal.completion_tokens,
                proposer_cost_usd=proposal.cost_usd,
                seconds=time.monotonic() - start,
            ),
        )
        failures = evaluation.failures
        if len(failures) > self.session.recipe.max_missing * len(examples) or evaluation.scores is None:
            what = "answer" if evaluation.judged is None else "answer or no rating"
            reason = f"{len(failures)} of {len(examples)} images have no {what}; the first: {failures[0].rstrip('.')}"
            if evaluation.retryable or claim.iteration == 0:
                # Not the template's fault: going on would waste the budget on a model that is out of reach, and a
                # baseline without answers leaves nothing to compare with.
                raise VLMError(
                    f"Iteration {claim.iteration} stopped: {reason}.",
                    remedy="Go on with --resume when the model answers again; answers that were given are kept."
                    if evaluation.retryable
                    else "Nothing can be compared with a baseline that has no answers or no ratings: change "
                    "prompt.baseline, the model, the judge or the images, or raise max_missing.",
                )
            return replace(record, state="void", reason=reason), False
        if claim.iteration == 0:
            self._check_off_tree(record.rows)
        return (
            replace(
                record,
                scores=evaluation.scores,
                value=self.objective.value(evaluation.scores),
                feasible=self.objective.feasible(evaluation.scores),
            ),
            False,
        )

    def _check_off_tree(self, rows: Sequence[ExampleRow]) -> None:
        """Checks that the baseline's answers are about what is on the tree: no tuning can mend another tree's scores.

        Raises:
            TaxonomyError: If more of them are off the tree than the recipe's `max_off_tree` allows.
        """
        answers = [row for row in rows if row.answer is not None]
        off = [row for row in answers if row.off_tree]
        most = self.session.recipe.max_off_tree
        if len(off) <= most * len(answers):
            return
        examples: dict[str, str] = {}
        for row in off:
            examples.setdefault(" ".join((row.answer or "").split()), row.truth)
        shown = [f"{_cut(said)!r} for {truth}" for said, truth in list(examples.items())[:_SHOWN]]
        raise TaxonomyError(
            f"{len(off)} of the baseline's {len(answers)} answers to the tuning images assert something that the "
            f"taxonomy does not have, more than max_off_tree ({most:g}) allows: {'; '.join(shown)}.",
            file=self.session.recipe.source,
            remedy="Check that taxonomy.path is a tree of what the images show, that taxonomy.root leaves nothing out "
            "that they show, and that taxonomy.domain and prompt.domain name it. Names that the tree lacks can be "
            "added to it as aliases. If the answers are as they should be, raise max_off_tree: answers that were given "
            "are kept.",
        )

    def _propose(self, claim: Claim) -> Proposal:
        if claim.iteration == 0:
            proposal = Proposal(self.session.recipe.prompt.baseline)
        else:
            earlier = self.history.templates()
            proposal = self.session.proposer.propose(
                as_trials(self.history.records(), self.objective),
                self.session.goal(self.objective),
                iteration=claim.iteration,
                seed=self.session.recipe.seed,
                check=lambda template: self.session.check(template, earlier),
            )
        self.history.propose(claim, proposal)
        return proposal


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
