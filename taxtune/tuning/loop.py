"""The tuning loop: propose, check, ask, place, score, record; then baseline and winner on the held-out images."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from taxtune.data import Example
from taxtune.errors import ModelError, ProposerError, ResumeError, TaxonomyError, TaxtuneError
from taxtune.models import AnswerStore, count_faults
from taxtune.progress import note, track
from taxtune.tuning.callbacks import Callbacks, Group
from taxtune.tuning.evaluation import DraftEvaluator, Evaluation, Evaluator, check_images_there
from taxtune.tuning.experiment import Experiment
from taxtune.tuning.heldout import compare_templates
from taxtune.tuning.history import Claim, History, best, check_unused, is_begun
from taxtune.tuning.power import ceiling_reached
from taxtune.tuning.proposers import Proposal, ProposalFailed
from taxtune.tuning.records import (
    HeldoutResult,
    IterationRecord,
    ModelUsage,
    SampleResult,
    TemplateScores,
    TuneResult,
    Usage,
)
from taxtune.tuning.run_folder import (
    check_folder_is_for,
    describe,
    files_shown,
    write_result,
)
from taxtune.tuning.selection import choose, next_steps
from taxtune.tuning.template import render

__all__ = ["Tuner"]

_SHOWN, _LONGEST = 3, 100  # examples in an error, and characters of each
_USAGE = TypeAdapter(Usage)
_PATIENCE = 2  # iterations in a row that a proposer's model may leave without a template


class Tuner:
    """One tuning run.

    Args:
        experiment: What is tuned.
        folder: Folder of the run.
        answers: The file of the answers; `answers.db` in the folder where left out.
        callbacks: Told what happens: objects with some of `Callback`'s methods, or functions of (record, best).
        resume: Go on with a run that is already in the folder.
        group: What the run is a part of, for the record.
        command: The command that runs it again, for the report.
    """

    def __init__(
        self,
        experiment: Experiment,
        folder: Path,
        *,
        answers: Path | None = None,
        callbacks: Sequence[Any] = (),
        resume: bool = False,
        group: Group | None = None,
        command: str | None = None,
    ) -> None:
        self.experiment = experiment
        self.folder = folder
        self.answers = answers or folder / "answers.db"
        self.callbacks = Callbacks(callbacks)
        self.resume = resume
        self.group = group
        self.command = command
        self.history: History
        self._uncounted = 0  # answers in the store that an interrupted attempt got, and no usage has
        self._started = time.monotonic()

    def run(self) -> TuneResult:
        """Runs, or goes on with, the tuning run.

        Returns:
            The result. A run that is finished already asks nothing and is written again.

        Raises:
            TaxtuneError: If the run cannot start or go on; what is done is kept and `resume` goes on from there.
            KeyboardInterrupt: On Ctrl-C, after the run has been left in a state that `resume` goes on from.
        """
        experiment = self.experiment
        self._started = time.monotonic()
        check_folder_is_for("tune", self.folder)
        with track("opening the history"):
            if not self.resume:
                check_unused(self.folder)
            for text in experiment.baseline_notes():
                note(text)
            if not is_begun(self.folder):
                experiment.check_models()
            self.history = History(self.folder, experiment.name, experiment.identity(), resume=self.resume)
            if self.group is not None:
                self.history.set_note("group", self.group.identity)
            # A recipe's paths start at its own folder, which is not known where the run is read later.
            self.history.set_note("taxonomy", experiment.full_taxonomy.source)
            self.history.set_note("constraints", [asdict(held) for held in experiment.objective.constraints])
        status = "failed"
        try:
            with AnswerStore(self.answers) as store:
                self._uncounted = self._count_interrupted(len(store))
                result = self._run(experiment.evaluator(store))
            status = "finished"
            return result
        except KeyboardInterrupt:
            status = "killed"
            raise
        finally:
            try:
                self.callbacks.tell("on_stop", status)
            finally:
                if status == "failed" or (status == "killed" and not self.history.claimed()):
                    self.history.discard()
                self.history.close()

    def _run(self, evaluator: Evaluator) -> TuneResult:
        experiment, objective = self.experiment, self.experiment.objective
        done = self.history.records()
        if done and done[-1].iteration > experiment.iterations:
            raise ResumeError(
                f"The run has {done[-1].iteration} iterations already, more than it is to have now.",
                file=self.folder,
                value=f"iterations={experiment.iterations}",
                remedy=f"Continue it with iterations={done[-1].iteration} or more, or start another run with fewer "
                "(`--out`, in Python `out=`), which takes the baseline's answers anew.",
            )
        if done and done[0].iteration == 0:
            self._check_off_tree(done[0].rows)  # `max_off_tree` may be another than when the run began
        with track("opening the record of the run"):
            self.callbacks.tell("on_start", self, done)
        exhausted = False
        while (claim := self._claim(new=not exhausted)) is not None:
            record, ends = (claim.record, False) if claim.record is not None else self._iterate(claim, evaluator)
            exhausted |= ends
            self.history.finish(record)
            self._clock()
            if record.iteration == 0 and record.scores is not None and ceiling_reached(objective, record.scores):
                note(
                    f"On all {record.scores.n:,} images the baseline is as good for {objective.name} as the exact "
                    "labels would be: what looks better is chance. Raise data.block or tune on harder images."
                )
            self.callbacks.tell("on_iteration", record, best(self.history.records()))
        while steps := next_steps(self.history.records(), objective, experiment.stages):
            self._ask_more(evaluator, *steps[0])
        self.history.write()

        records = self.history.records()
        selection = choose(records, objective)
        if selection is None or records[0].template is None:
            raise TaxtuneError(
                "No iteration could be scored.", file=self.folder, remedy="See history.jsonl for the reasons."
            )
        self.callbacks.tell("on_selection", selection)
        winner = next(record for record in records if record.iteration == selection.winner)
        templates = {"baseline": records[0].template, "winner": winner.template or ""}
        tell = partial(self.callbacks.tell, "on_heldout")
        heldout, differences = compare_templates(experiment, evaluator, templates, tell)
        heldout, seconds = self._accounted(heldout), self._clock()
        trivial_hp, trivial_hr = experiment.trivial
        result = TuneResult(
            name=experiment.name,
            objective=objective.name,
            constraints=objective.constraints,
            trivial_hp=trivial_hp,
            trivial_hr=trivial_hr,
            winner=winner.iteration,
            iterations=tuple(records),
            heldout=heldout,
            differences=differences,
            folder=str(self.folder),
            where=files_shown(self.folder) | self.callbacks.where(),
            provenance=describe(experiment, self.command),
            selection=selection,
            spec=objective.spec,
            seconds=seconds,
        )
        self.history.check_there()
        write_result(result)
        self.callbacks.tell("on_written", result)
        with track("recording the result"):
            self.callbacks.tell("on_result", self, result)
        return result

    def _claim(self, *, new: bool) -> Claim | None:
        """Returns an iteration to work on, or None once all are done or the budget of the search is spent."""
        records, stage = self.history.records(), self.experiment.stages[0]
        if not records:
            return self.history.claim(0)
        spent, budget = sum((record.usage for record in records), Usage()), self.experiment.budget
        new &= budget.usd is None or (spent.cost_usd or 0.0) < budget.usd
        if budget.vlm_calls is not None:  # drafts count in place of templates
            new &= (len(records) + 1) * stage.images + spent.tried <= stage.templates * stage.images
        return self.history.claim(stage.templates - 1, new=new)

    def _ask_more(self, evaluator: Evaluator, iteration: int, images: int) -> None:
        """Asks a template that may win about so many of the tuning images."""
        record = next(record for record in self.history.records() if record.iteration == iteration)
        assert record.template is not None  # it was asked with
        start, examples = time.monotonic(), self.experiment.splits.tuning[:images]
        self.callbacks.tell("on_template", iteration, record.template, images)
        evaluation = evaluator.evaluate(record.template, examples, partial(self.callbacks.tell, "on_answers"))
        usage = replace(self._counted(evaluation.usage), seconds=time.monotonic() - start)
        grown = self._judged(replace(record, rows=evaluation.rows), evaluation, examples)
        self.history.grow(replace(grown, usage=record.usage + usage, race=record.race + usage))
        self.callbacks.tell("on_race", grown)

    # -- time and calls ------------------------------------------------------------------------------------------------

    def _clock(self) -> float:
        """Returns the wall time of the run so far, with that of earlier sessions, and keeps it for later ones."""
        now = time.monotonic()
        seconds = float(self.history.note("seconds") or 0.0) + now - self._started
        self.history.set_note("seconds", seconds)
        self._started = now
        return seconds

    def _count_interrupted(self, stored: int) -> int:
        """Returns the number of `stored` answers from a killed attempt of this run that no usage counts."""
        counted: int = sum(record.usage.vlm.calls for record in self.history.records())
        counted += sum(int(usage["vlm"]["calls"]) for usage in (self.history.note("heldout usage") or {}).values())
        before = self.history.note("answers before")
        if before is None:  # no attempt was killed: the rest are those of other runs, or of a calibration
            self.history.set_note("answers before", stored - counted)
            return 0
        return max(0, stored - int(before) - counted)

    def _counted(self, usage: Usage) -> Usage:
        """Returns a usage in which answers that an interrupted attempt got are asked, and not from the store."""
        vlm = usage.vlm
        again = min(self._uncounted, vlm.from_store)
        self._uncounted -= again
        return replace(usage, vlm=replace(vlm, calls=vlm.calls + again, from_store=vlm.from_store - again))

    def _accounted(self, heldout: Sequence[HeldoutResult]) -> tuple[HeldoutResult, ...]:
        """Returns held-out results with what they took when they were asked, where all answers are stored by now."""
        known = self.history.note("heldout usage") or {}
        kept: list[HeldoutResult] = []
        for held in heldout:
            if held.template not in known:
                known[held.template] = asdict(self._counted(held.usage))
            elif held.usage.vlm.calls or held.usage.judge.calls:  # what had no answer or no rating before
                known[held.template] = asdict(_USAGE.validate_python(known[held.template]) + held.usage.new())
            # A baseline that won was asked once.
            again = any(earlier.template == held.template for earlier in kept)
            kept.append(held if again else replace(held, usage=_USAGE.validate_python(known[held.template])))
        self.history.set_note("heldout usage", known)
        self.history.set_note("answers before", None)
        return tuple(kept)

    # -- one iteration -------------------------------------------------------------------------------------------------

    def _iterate(self, claim: Claim, evaluator: Evaluator) -> tuple[IterationRecord, bool]:
        """Returns the iteration's record, and whether the proposer has nothing more to propose."""
        start = time.monotonic()
        drafts = self._drafts(evaluator)
        try:
            with count_faults() as faults, track("proposing a template"):
                proposal = claim.proposal or self._propose(claim, drafts, faults)
        except ProposalFailed as failure:
            if failure.out_of_reach:
                self._check_within_reach(failure)
            tried, seconds = failure.spent.trials + drafts.usage(), time.monotonic() - start
            usage = replace(tried, proposer=_proposer_usage(failure.spent, faults), seconds=seconds)
            record = IterationRecord(
                claim.iteration,
                "failed",
                None,
                reason=failure.reason,
                rejected=failure.spent.rejected,
                usage=usage,
                trace=failure.spent.trace,
                out_of_reach=failure.out_of_reach,
            )
            return record, failure.final

        examples = self.experiment.splits.tuning[: self.experiment.stages[0].images]
        self.callbacks.tell("on_template", claim.iteration, proposal.template, len(examples))
        evaluation = evaluator.evaluate(proposal.template, examples, partial(self.callbacks.tell, "on_answers"))
        record = IterationRecord(
            iteration=claim.iteration,
            state="complete",
            template=proposal.template,
            prompt=render(proposal.template, self.experiment.variables),
            parameters=dict(proposal.parameters),
            rejected=tuple(proposal.rejected),
            rows=evaluation.rows,
            trace=tuple(proposal.trace),
            policy=dict(self.experiment.policy.identity()),
            usage=replace(proposal.trials + self._counted(evaluation.usage), seconds=time.monotonic() - start),
        )
        record = self._judged(record, evaluation, examples)
        if claim.iteration == 0:
            self._check_off_tree(record.rows)
        return record, False

    def _judged(self, record: IterationRecord, evaluation: Evaluation, examples: Sequence[Example]) -> IterationRecord:
        """Returns the record with its scores, or why it has none.

        Raises:
            ModelError: If going on is senseless.
            ImageError: If images are gone.
        """
        failures, experiment = evaluation.failures, self.experiment
        if len(failures) <= experiment.recipe.max_missing * len(examples) and evaluation.scores is not None:
            return self._valued(record, evaluation.scores)
        check_images_there(examples)
        what = "answer" if not experiment.objective.needs else "answer or no rating"
        reason = f"{len(failures)} of {len(examples)} images have no {what}; the first: {failures[0].rstrip('.')}"
        if evaluation.retryable or record.iteration == 0:
            # Not the template's fault: going on would waste the budget on a model that is out of reach, and without
            # answers to the baseline there is nothing to compare with.
            raise ModelError(
                f"Iteration {record.iteration} stopped: {reason}.",
                remedy="Continue with --resume when the model answers again; answers so far are saved."
                if evaluation.retryable
                else "The baseline must have answers and ratings to compare with: change prompt.baseline, "
                "the model, the judge or the images, or raise max_missing.",
            )
        return replace(record, state="void", scores=None, value=None, reason=reason)

    def _valued(self, record: IterationRecord, scores: TemplateScores) -> IterationRecord:
        objective = self.experiment.objective
        baseline = scores if record.iteration == 0 else self.history.records()[0].scores
        value, feasible = objective.value(scores, baseline), objective.feasible(scores, baseline)
        return replace(record, scores=scores, value=value, feasible=feasible)

    def _check_off_tree(self, rows: Sequence[SampleResult]) -> None:
        """Checks that the baseline's answers are about what is on the tree: no prompt makes up for the wrong tree.

        Raises:
            TaxonomyError: If more of them are off the tree than the recipe's `max_off_tree` allows.
        """
        answers = [row for row in rows if row.answer is not None]
        off = [row for row in answers if row.off_tree]
        most = self.experiment.recipe.max_off_tree
        if len(off) <= most * len(answers):
            return
        examples: dict[str, str] = {}
        for row in off:
            examples.setdefault(" ".join((row.answer or "").split()), row.truth)
        shown = [
            f"{answer if len(answer) <= _LONGEST else answer[: _LONGEST - 1] + '…'!r} for {truth}"
            for answer, truth in list(examples.items())[:_SHOWN]
        ]
        raise TaxonomyError(
            f"{len(off)} of the baseline's {len(answers)} answers to the tuning images assert something that the "
            f"taxonomy lacks, more than max_off_tree ({most:g}) allows: {'; '.join(shown)}.",
            file=self.experiment.source,
            remedy="Check that taxonomy.path is a tree of what the images show, that taxonomy.root excludes nothing "
            "that they show, and that taxonomy.domain and prompt.domain fit. Missing names can be added to the tree "
            "as aliases. If the answers are as expected, raise max_off_tree: answers that were given "
            "are kept.",
        )

    def _check_within_reach(self, failure: ProposalFailed) -> None:
        """Checks that a proposer's model which did not answer has answered in one of the iterations just before.

        A fault of the moment costs one iteration. A model that has never answered is set up wrongly, and one that has
        not for some time is down: to go on would use up the iterations.

        Raises:
            ProposerError: If it has not.
        """
        before = [record for record in self.history.records() if record.iteration > 0]
        if all(record.out_of_reach for record in before[-_PATIENCE:]):
            raise ProposerError(
                failure.reason,
                remedy="Continue with --resume when the model answers again. Or use the proposer 'fragments', which "
                "needs no model.",
            ) from None

    def _drafts(self, evaluator: Evaluator) -> DraftEvaluator:
        """Returns the evaluator of an iteration's drafts, within the calls that the budget leaves to the search."""
        experiment, records = self.experiment, self.history.records()
        stage, most = experiment.stages[0], None
        if experiment.budget.vlm_calls is not None:
            tried = sum(record.usage.tried for record in records)
            most = stage.images * (stage.templates - len(records) - 1) - tried
        return DraftEvaluator(
            evaluator,
            experiment.splits.tuning[: stage.images],
            most=most,
            max_missing=experiment.recipe.max_missing,
            on_answers=partial(self.callbacks.tell, "on_answers"),
        )

    def _propose(self, claim: Claim, drafts: DraftEvaluator, faults: Mapping[str, int]) -> Proposal:
        experiment = self.experiment
        if claim.iteration == 0:
            proposal = Proposal(experiment.prompt.baseline)
        else:
            earlier = self.history.templates()
            proposal = experiment.proposer.propose(
                self.history.records(),
                replace(experiment.goal(), ask=None if drafts.left == 0 else drafts),
                iteration=claim.iteration,
                seed=experiment.seed,
                check=lambda template: experiment.check(template, earlier),
            )
            tried = proposal.trials + drafts.usage(proposal.template)
            proposal = replace(proposal, trials=replace(tried, proposer=_proposer_usage(proposal, faults)))
        self.history.propose(claim, proposal)
        return proposal


def _proposer_usage(proposed: Proposal, faults: Mapping[str, int]) -> ModelUsage:
    """Returns the usage of a proposer's model; nothing where it has none."""
    usage = ModelUsage(0, 0, proposed.prompt_tokens, proposed.completion_tokens, proposed.cost_usd, dict(faults))
    templates = len(proposed.rejected) + bool(proposed.template)
    return replace(usage, calls=templates) if usage.tokens or usage.faults else usage
