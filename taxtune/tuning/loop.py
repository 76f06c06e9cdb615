"""The tuning loop: propose, check, ask, place, score, record; then baseline and winner on the held-out images."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from taxtune.data import Example
from taxtune.errors import ModelError, ProposerError, ResumeError, TaxonomyError, TaxtuneError
from taxtune.models import AnswerStore, answers_place, count_faults
from taxtune.progress import note, track
from taxtune.report.outlook import nothing_left
from taxtune.store import Place
from taxtune.tracking import Group
from taxtune.tuning.account import account_of
from taxtune.tuning.callbacks import Callbacks
from taxtune.tuning.done import mark_finished, read_finished
from taxtune.tuning.evaluation import Evaluation, Evaluator, check_images_there
from taxtune.tuning.experiment import Experiment
from taxtune.tuning.files import describe, places, write_result
from taxtune.tuning.heldout import compare_templates
from taxtune.tuning.history import Claim, History, best, check_unused, is_begun, study_name
from taxtune.tuning.optimism import find_optimism
from taxtune.tuning.outlook import ceiling_reached
from taxtune.tuning.proposers import Proposal, ProposalFailed
from taxtune.tuning.records import (
    ExampleRow,
    HeldoutResult,
    IterationRecord,
    TemplateScores,
    TuneResult,
    Usage,
    sum_judged,
    sum_usage,
)
from taxtune.tuning.run_folder import check_folder_is_for
from taxtune.tuning.selection import choose, front, next_steps
from taxtune.tuning.template import render
from taxtune.tuning.trials import Trials

__all__ = ["Tuner"]

_SHOWN, _LONGEST = 3, 100  # examples in an error, and characters of each
_POLL_SECONDS = 0.5
_PATIENCE = 2  # iterations in a row that a proposer's model may leave without a template


class Tuner:
    """One tuning run.

    Args:
        experiment: What is tuned.
        folder: Folder of the run.
        answers: Where the answers are kept; beside a history on PostgreSQL, else `answers.db` in the folder, where left
            out.
        callbacks: Told what happens: objects with some of `Callback`'s methods, or functions of (record, best).
        resume: Go on with a run that is already in the folder.
        group: What the run is a part of, for the record.
        command: The command that runs it again, for the report.
        storage: Address of the history's database; a file in the folder where left out.
    """

    def __init__(
        self,
        experiment: Experiment,
        folder: Path,
        *,
        answers: Place | None = None,
        callbacks: Sequence[Any] = (),
        resume: bool = False,
        group: Group | None = None,
        command: str | None = None,
        storage: str | None = None,
    ) -> None:
        self.experiment = experiment
        self.folder = folder
        self.answers = answers or answers_place(folder, storage)
        self.callbacks = Callbacks(callbacks)
        self.resume = resume
        self.group = group
        self.command = command
        self.storage = storage
        self.history: History
        self._uncounted = 0  # answers in the store that an interrupted attempt got, and no usage has
        self._started = time.monotonic()

    def run(self) -> TuneResult:
        """Runs, or goes on with, the tuning run.

        Returns:
            The result; iterations that another process did are part of it. Of a run that is finished already it is
            read from the folder, and callbacks are told nothing.

        Raises:
            TaxtuneError: If the run cannot start or go on; what is done is kept and `resume` goes on from there.
            KeyboardInterrupt: On Ctrl-C, after the run has been left in a state that `resume` goes on from.
        """
        experiment = self.experiment
        self._started = time.monotonic()
        check_folder_is_for("tune", self.folder)
        # The iterations of a server's database may have become more elsewhere.
        if self.resume and self.storage is None:
            found = read_finished(self.folder, [experiment], self.callbacks)
            if isinstance(found, TuneResult):
                return found
        with track("opening the history"):
            name = study_name(experiment.name, experiment.objective.name, self.storage)
            place = (self.folder, name, self.storage)
            if not self.resume:
                check_unused(*place)
            experiment.check_baseline()
            if not is_begun(*place):
                experiment.check_models()
            self.history = History(
                self.folder,
                name,
                experiment.identity(),
                resume=self.resume,
                details=experiment.details(),
                storage=self.storage,
            )
            if self.group is not None:
                self.history.set_note("group", self.group.identity)
            # A recipe's paths start at its own folder, which whoever reads the run later does not know.
            self.history.set_note("taxonomy", experiment.full_taxonomy.source)
            self.history.set_note("constraints", [asdict(each) for each in experiment.objective.constraints])
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
        experiment = self.experiment
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
            self._look_ahead(record)
            self.callbacks.tell("on_iteration", record, best(self.history.known()))
        self._race(evaluator)
        self.history.write()

        records = self.history.records()
        candidates = [*records, *self._at_alternatives(evaluator, records)]
        selection = choose(candidates, experiment.objective)
        if selection is None or records[0].template is None:
            raise TaxtuneError(
                "No iteration could be scored.", file=self.folder, remedy="See history.jsonl for the reasons."
            )
        self.callbacks.tell("on_selection", selection)
        winner = next(record for record in records if record.iteration == selection.winner)
        # The winner as its policy places it, which need not be that of the search.
        placed = next(c for c in candidates if (c.iteration, c.policy) == (selection.winner, selection.policy))
        assert winner.template is not None  # it was asked with
        with self.history.alone("final"):
            templates = {"baseline": records[0].template, "winner": winner.template}
            if experiment.objective.front:
                on_front = [record for record in records if record.iteration in front(records)]
                templates |= {
                    f"iteration {each.iteration}": each.template or "" for each in on_front if each is not winner
                }
            heldout, differences = compare_templates(
                experiment,
                evaluator,
                templates,
                partial(self.callbacks.tell, "on_heldout"),
                policies={"winner": experiment.policy_of(selection)},
            )
            heldout = self._accounted(heldout)
            seconds = self._clock()
        measures = list(dict.fromkeys([*(each.measure for each in experiment.outlook.resolutions), "hp", "hr"]))
        trivial_hp, trivial_hr = experiment.trivial
        result = TuneResult(
            name=experiment.name,
            objective=experiment.objective.name,
            constraints=experiment.objective.constraints,
            trivial_hp=trivial_hp,
            trivial_hr=trivial_hr,
            outlook=experiment.outlook.seen(*(record for record in records if record.scores is not None)),
            optimism=find_optimism(
                candidates, placed, heldout[1], experiment.objective, measures, seed=experiment.seeds.split
            ),
            winner=winner.iteration,
            iterations=tuple(records),
            pareto=front(records),
            heldout=heldout,
            differences=differences,
            folder=str(self.folder),
            where=places(self.folder) | self.callbacks.where(),
            provenance=describe(experiment, account_of(records, heldout, seconds), self.command),
            selection=selection,
            seconds=seconds,
        )
        self.history.check_there()
        with track("writing the report"):
            write_result(result)
        with track("recording the result"):
            self.callbacks.tell("on_result", self, result)
        if self.callbacks.settled():
            mark_finished(self.folder, [experiment], self.callbacks)
        return result

    def _clock(self) -> float:
        """Returns the wall time of the run so far, with that of earlier sessions, and keeps it for later ones."""
        now = time.monotonic()
        seconds = float(self.history.note("seconds") or 0.0) + now - self._started
        self.history.set_note("seconds", seconds)
        self._started = now
        return seconds

    def _look_ahead(self, record: IterationRecord) -> None:
        """Says so where the baseline leaves nothing to win."""
        objective, images = self.experiment.objective, self.experiment.stages[-1].images
        if record.iteration == 0 and record.scores is not None and ceiling_reached(objective, record.scores):
            note(nothing_left(objective.name, record.scores.n, block=len(record.rows) < images))

    def _count_interrupted(self, stored: int) -> int:
        """Returns how many answers of this run are in the store and in no usage: an attempt that was killed got them.

        Args:
            stored: Answers in the store.
        """
        before = self.history.note("answers before")
        if before is None and not self.history.records():  # a run of a version that did not note it has none
            self.history.set_note("answers before", stored)
        if before is None:
            return 0
        counted: int = sum(record.usage.asked for record in self.history.records())
        counted += sum(int(usage["asked"]) for usage in (self.history.note("heldout usage") or {}).values())
        return max(0, stored - int(before) - counted)

    def _counted(self, usage: Usage) -> Usage:
        """Returns a usage in which answers that an interrupted attempt got are asked, and not from the store."""
        again = min(self._uncounted, usage.from_store)
        self._uncounted -= again
        return replace(usage, asked=usage.asked + again, from_store=usage.from_store - again)

    def _accounted(self, heldout: Sequence[HeldoutResult]) -> tuple[HeldoutResult, ...]:
        """Returns held-out results with what they took when they were asked, where all answers are stored by now."""
        known = self.history.note("heldout usage") or {}
        kept: list[HeldoutResult] = []
        for held in (replace(each, usage=self._counted(each.usage)) for each in heldout):
            if held.usage.asked or held.template not in known:
                known[held.template] = asdict(held.usage)
            # A baseline that won was asked once.
            again = any(earlier.template == held.template for earlier in kept)
            kept.append(held if again else replace(held, usage=Usage(**known[held.template])))
        self.history.set_note("heldout usage", known)
        return tuple(kept)

    def _claim(self, *, new: bool) -> Claim | None:
        """Returns an iteration to work on, or None once all are done or the budget of the search is spent."""
        # All others are held to the baseline, so other workers wait until it is done.
        begun = self.history.known() or self.history.records()
        if not begun and (claim := self.history.claim(0)) is not None:
            return claim
        records, stage = self.history.known(), self.experiment.stages[0]
        spent = sum_usage([record.usage for record in records])
        new &= not spent.exceeds(self.experiment.budget)
        if self.experiment.budget.vlm_calls is not None:  # drafts take the place of templates
            new &= (len(records) + 1) * stage.images + spent.tried <= stage.templates * stage.images
        return self.history.claim(stage.templates - 1, new=new)

    def _race(self, evaluator: Evaluator) -> None:
        """Asks the templates that may win about more images, round by round, until the finalists saw them all."""
        objective, stages = self.experiment.objective, self.experiment.stages
        while steps := next_steps(self.history.records(), objective, stages):
            # The workers of a run deal the templates of a round among themselves, and wait for the last of it.
            if not any(self._raced(evaluator, *step) for step in steps):
                time.sleep(_POLL_SECONDS)

    def _raced(self, evaluator: Evaluator, iteration: int, images: int) -> bool:
        """Asks a template about so many of the tuning images; returns whether no other worker does, or did."""
        with self.history.unless_busy(f"race {iteration}") as free:
            record = next(each for each in self.history.records() if each.iteration == iteration)
            if not free or len(record.rows) >= images:
                return False
            assert record.template is not None  # it was asked with
            start, examples = time.monotonic(), self.experiment.splits.tuning[:images]
            self.callbacks.tell("on_template", iteration, record.template, images)
            evaluation = evaluator.evaluate(record.template, examples, partial(self.callbacks.tell, "on_answers"))
            usage = replace(self._counted(evaluation.usage), seconds=time.monotonic() - start)
            grown = self._judged(replace(record, rows=evaluation.rows), evaluation, examples)
            grown = replace(grown, judged=sum_judged([*filter(None, (record.judged, evaluation.judged))]))
            self.history.grow(replace(grown, usage=record.usage + usage, race=record.race + usage))
        self.callbacks.tell("on_race", grown)
        return True

    def _at_alternatives(self, evaluator: Evaluator, records: Sequence[IterationRecord]) -> list[IterationRecord]:
        """Returns the finalists as the run's other policies place them, from the same answers, out of the store."""
        complete = [record for record in records if record.state == "complete" and record.template is not None]
        most = max((len(record.rows) for record in complete), default=0)
        found = []
        for policy in self.experiment.alternatives:
            for record in (record for record in complete if len(record.rows) == most):
                assert record.template is not None
                evaluation = evaluator.at(policy).evaluate(record.template, self.experiment.splits.tuning[:most])
                if evaluation.scores is not None:
                    other = replace(record, rows=evaluation.rows, policy=dict(policy.identity()))
                    found.append(self._valued(other, evaluation.scores))
        return found

    # -- one iteration -------------------------------------------------------------------------------------------------

    def _iterate(self, claim: Claim, evaluator: Evaluator) -> tuple[IterationRecord, bool]:
        """Returns the iteration's record, and whether the proposer has nothing left to propose."""
        start = time.monotonic()
        trials = self._trials(evaluator)
        try:
            with count_faults() as faults, track("proposing a template"):
                proposal = claim.proposal or self._propose(claim, trials, faults)
        except ProposalFailed as failure:
            if failure.out_of_reach:
                self._check_within_reach(failure)
            usage = replace(
                trials.usage(),
                proposer_prompt_tokens=failure.prompt_tokens,
                proposer_completion_tokens=failure.completion_tokens,
                proposer_cost_usd=failure.cost_usd,
                seconds=time.monotonic() - start,
                proposer_faults=dict(faults),
            )
            record = IterationRecord(
                claim.iteration,
                "failed",
                None,
                reason=failure.reason,
                rejected=failure.rejected,
                usage=usage,
                judged=trials.judged,
                trace=failure.trace,
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
            judged=sum_judged([*filter(None, (proposal.judged, evaluation.judged))]),
            trace=tuple(proposal.trace),
            policy=dict(self.experiment.policy.identity()),
            usage=replace(
                proposal.trials + self._counted(evaluation.usage),
                proposer_prompt_tokens=proposal.prompt_tokens,
                proposer_completion_tokens=proposal.completion_tokens,
                proposer_cost_usd=proposal.cost_usd,
                seconds=time.monotonic() - start,
            ),
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
        failures = evaluation.failures
        if len(failures) > self.experiment.max_missing * len(examples) or evaluation.scores is None:
            check_images_there(examples)
            what = "answer" if not self.experiment.objective.needs else "answer or no rating"
            reason = f"{len(failures)} of {len(examples)} images have no {what}; the first: {failures[0].rstrip('.')}"
            if evaluation.retryable or record.iteration == 0:
                # Not the template's fault: going on would waste the budget on a model that is out of reach, and a
                # baseline without answers leaves nothing to compare with.
                raise ModelError(
                    f"Iteration {record.iteration} stopped: {reason}.",
                    remedy="Continue with --resume when the model answers again; answers so far are saved."
                    if evaluation.retryable
                    else "The baseline must have answers and ratings to compare with: change prompt.baseline, "
                    "the model, the judge or the images, or raise max_missing.",
                )
            return replace(record, state="void", scores=None, value=None, reason=reason)
        return self._valued(record, evaluation.scores)

    def _valued(self, record: IterationRecord, scores: TemplateScores) -> IterationRecord:
        objective = self.experiment.objective
        baseline = scores if record.iteration == 0 else self.history.known()[0].scores
        return replace(
            record,
            scores=scores,
            value=objective.value(scores, baseline),
            feasible=objective.feasible(scores, baseline),
        )

    def _check_off_tree(self, rows: Sequence[ExampleRow]) -> None:
        """Checks that the baseline's answers are about what is on the tree: no tuning can mend another tree's scores.

        Raises:
            TaxonomyError: If more of them are off the tree than the recipe's `max_off_tree` allows.
        """
        answers = [row for row in rows if row.answer is not None]
        off = [row for row in answers if row.off_tree]
        most = self.experiment.max_off_tree
        if len(off) <= most * len(answers):
            return
        examples: dict[str, str] = {}
        for row in off:
            examples.setdefault(" ".join((row.answer or "").split()), row.truth)
        shown = [f"{_cut(said)!r} for {truth}" for said, truth in list(examples.items())[:_SHOWN]]
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

        A fault of the moment costs one iteration. What has never answered is set up wrongly, and what has not for some
        time is down: to go on would use up the iterations.

        Raises:
            ProposerError: If it has not.
        """
        before = [record for record in self.history.known() if record.iteration > 0]
        if all(record.out_of_reach for record in before[-_PATIENCE:]):
            raise ProposerError(
                failure.reason,
                remedy="Continue with --resume when the model answers again. Or use the proposer 'fragments', which "
                "needs no model.",
            ) from None

    def _trials(self, evaluator: Evaluator) -> Trials:
        """Returns what asks about an iteration's drafts, on what a budget of calls leaves to the search."""
        experiment, records = self.experiment, self.history.known()
        stage, most = experiment.stages[0], None
        if experiment.budget.vlm_calls is not None:
            most = stage.images * (stage.templates - len(records) - 1) - sum(each.usage.tried for each in records)
        return Trials(
            evaluator,
            experiment.splits.tuning[: stage.images],
            most=most,
            max_missing=experiment.max_missing,
            on_answers=partial(self.callbacks.tell, "on_answers"),
        )

    def _propose(self, claim: Claim, trials: Trials, faults: Mapping[str, int]) -> Proposal:
        if claim.iteration == 0:
            proposal = Proposal(self.experiment.prompt.baseline)
        else:
            earlier = self.history.templates()
            proposal = self.experiment.proposer.propose(
                self.history.known(),
                replace(self.experiment.goal(), ask=None if trials.left == 0 else trials),
                iteration=claim.iteration,
                seed=self.experiment.seeds.proposer,
                check=lambda template: self.experiment.check(template, earlier),
            )
            judged = sum_judged([*filter(None, (proposal.judged, trials.judged))])
            failed = Usage(proposer_faults=dict(faults))
            proposal = replace(
                proposal, trials=proposal.trials + trials.usage(proposal.template) + failed, judged=judged
            )
        self.history.propose(claim, proposal)
        return proposal


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
