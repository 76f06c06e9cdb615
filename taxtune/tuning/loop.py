"""The tuning loop: propose, check, ask, place, score, record; then baseline and winner on the held-out images."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock
from pydantic import TypeAdapter

from taxtune.data import Example
from taxtune.errors import ModelError, ProposerError, ResumeError, TaxonomyError, TaxtuneError
from taxtune.models import AnswerStore, count_faults
from taxtune.progress import note, track
from taxtune.tuning.calibrate import posterior_offer
from taxtune.tuning.evaluation import Evaluation, Evaluator, check_images_there
from taxtune.tuning.experiment import Experiment
from taxtune.tuning.history import Claim, History, is_begun
from taxtune.tuning.proposers import Proposal, ProposalFailed
from taxtune.tuning.records import (
    CUT_REMEDY,
    ComparisonResult,
    HeldoutResult,
    IterationRecord,
    ModelUsage,
    SampleResult,
    Selection,
    TuneResult,
    Usage,
    cut_in_words,
)
from taxtune.tuning.rules import TemplateRules
from taxtune.tuning.run_folder import (
    check_run_folder,
    describe,
    files_shown,
    identity_of,
    write_result,
)
from taxtune.tuning.selection import best, choose, next_steps
from taxtune.tuning.thresholds import final_threshold

__all__ = ["Callback", "Callbacks", "Group", "Tuner"]

_USAGES = TypeAdapter(dict[str, Usage])
_PATIENCE = 2  # iterations in a row that a proposer's model may leave without a template


class Group(NamedTuple):
    """The runs of a comparison: its name, and an identity that stays the same when its folder is moved."""

    name: str
    identity: str


class Callback:
    """Is told what a run does; override what you care about.

    Anything with some of these methods will do, and so will a plain function, which is called as `on_iteration` is.
    A callback watches and never steers: to end a run early, raise `KeyboardInterrupt`.
    """

    def on_start(self, tuner: Tuner, done: Sequence[IterationRecord]) -> None:
        """The loop begins, with the iterations that are already done."""

    def on_iteration(self, record: IterationRecord, best: IterationRecord | None) -> None:
        """An iteration is finished; `best` is the best one so far."""

    def on_rung(self, record: IterationRecord) -> None:
        """A template was asked about more of the tuning images."""

    def on_selection(self, selection: Selection) -> None:
        """The winner is chosen, before the held-out images are asked about."""

    def on_heldout(self, name: str, images: int) -> None:
        """So many held-out images are to be asked about with the template called `name`."""

    def on_result(self, result: TuneResult | ComparisonResult) -> None:
        """A run, a comparison or an evaluation is complete, and written but for its report."""

    def on_comparison(self, result: ComparisonResult, group: Group) -> None:
        """Several runs were compared; `group` joins the comparison to its runs."""

    def on_stop(self, status: str) -> None:
        """The run ends: "finished", "failed" or "killed"."""


class Callbacks:
    """Several callbacks: objects with some of `Callback`'s methods, or functions of (record, best)."""

    def __init__(self, given: Sequence[Any]) -> None:
        names = sorted(name for name in vars(Callback) if name.startswith("on_"))
        for each in given:
            if not callable(each) and not any(hasattr(each, name) for name in names):
                raise TypeError(f"{each!r} is not a callback: it has none of {', '.join(names)}")
        self._given = tuple(given)

    def tell(self, event: str, *what: Any) -> None:
        """Calls the method `event` of every callback that has it, in their order."""
        for each in self._given:
            method = getattr(
                each, event, each if event == "on_iteration" and callable(each) else None
            )
            if method is not None:
                method(*what)

    def recorded_all(self) -> bool:
        """Tells whether callbacks have done all that they were told to do, and need not be told of it again."""
        return all(each.recorded_all() for each in self._given if hasattr(each, "recorded_all"))

    def where(self) -> dict[str, str]:
        """Returns where to look at what callbacks have recorded, by what it shows."""
        return {
            what: place
            for each in self._given
            if hasattr(each, "where")
            for what, place in each.where().items()
        }


class Tuner:
    """One tuning run.

    Args:
        experiment: What is tuned.
        folder: Folder of the run.
        answers: The file of the answers; `answers.db` in the folder where left out.
        callbacks: Told what happens; see `Callbacks`.
        resume: Go on with a run that is already in the folder.
        group: The comparison that the run is a part of.
        command: The command that runs it again, for the report.
        lock: The folder's lock where the caller holds it; see `taxtune.tuning.history.locked`.
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
        lock: FileLock | None = None,
    ) -> None:
        self.lock = lock
        self.experiment, self.folder, self.answers = (
            experiment,
            folder,
            answers or folder / "answers.db",
        )
        self.callbacks, self.resume, self.group, self.command = (
            Callbacks(callbacks),
            resume,
            group,
            command,
        )
        self.history: History
        self._started = time.monotonic()

    def run(self) -> TuneResult:
        """Runs, or goes on with, the tuning run; one that is finished already asks nothing and is written again.

        Raises:
            TaxtuneError: If the run cannot start or go on; what is done is kept and `resume` goes on from there.
            KeyboardInterrupt: On Ctrl-C, after the run has been left in a state that `resume` goes on from.
        """
        experiment = self.experiment
        self._started = time.monotonic()
        check_run_folder(self.folder, resume=self.resume)
        with track("opening the history"):
            for text in experiment.notes():
                note(text)
            if not is_begun(self.folder):
                experiment.check_models()
            identity = identity_of(experiment)
            name = experiment.recipe.name
            self.history = History(self.folder, name, identity, resume=self.resume, lock=self.lock)
            if self.group is not None:  # the folder may have been moved since
                self.group = Group(
                    self.group.name, self.history.note("group") or self.group.identity
                )
                self.history.set_note("group", self.group.identity)
        status = "failed"
        try:
            with AnswerStore(self.answers) as store:
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
        with track("opening the record of the run"):
            self.callbacks.tell("on_start", self, done)
        exhausted = False
        while (claim := self._claim(new=not exhausted)) is not None:
            record, exhausted = self._iterate(claim, evaluator)
            self.history.finish(record)
            self._clock()
            self.callbacks.tell("on_iteration", record, best(self.history.records()))
        while steps := next_steps(self.history.records(), objective, experiment.rungs):
            self._ask_more(evaluator, *steps[0])
        self.history.write()

        records = self.history.records()
        selection = choose(records, objective)
        if selection is None and any(record.cut_short for record in records):
            raise TaxtuneError(
                "No template can win: more than half of the answers to each were cut off, at the longest answer.",
                file=self.folder,
                remedy=CUT_REMEDY,
            )
        if selection is None or records[0].template is None:
            raise TaxtuneError(
                "No iteration could be scored.",
                file=self.folder,
                remedy="See history.jsonl for the reasons.",
            )
        winner = next(record for record in records if record.iteration == selection.winner)
        if experiment.policy.is_open:
            threshold = final_threshold(
                experiment.taxonomy,
                experiment.weights,
                winner.rows,
                objective,
                off_tree=evaluator.off_tree,
            )
            policy = experiment.policy.with_threshold(threshold)
            evaluator = evaluator.with_policy(policy)
            selection = replace(selection, policy=dict(policy.identity()), chose_threshold=True)
            if selection.status is not None:  # what chose the threshold cannot certify it as well
                selection = replace(selection, status="estimate")
        self.callbacks.tell("on_selection", selection)
        templates = {
            "baseline": experiment.rules.parse(records[0].template),
            "winner": experiment.rules.parse(winner.template or ""),
        }
        tell = partial(self.callbacks.tell, "on_heldout")
        heldout, differences = experiment.compare(evaluator, templates, tell)
        heldout, seconds = self._accounted(heldout), self._clock()
        trivial_hp, trivial_hr = experiment.trivial
        result = TuneResult(
            name=experiment.recipe.name,
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
            context=experiment.context,
            seconds=seconds,
        )
        result = replace(
            result, where=result.where | posterior_offer(experiment, evaluator, result)
        )
        write_result(result)
        with track("recording the result"):
            self.callbacks.tell("on_result", result)
        return result

    def _claim(self, *, new: bool) -> Claim | None:
        """Returns an iteration to work on, or None once all are done or the budget of the search is spent."""
        records, rung = self.history.records(), self.experiment.rungs[0]
        if not records:
            return self.history.claim(0)
        spent, budget = sum((record.usage for record in records), Usage()), self.experiment.budget
        new &= budget.usd is None or (spent.cost_usd or 0.0) < budget.usd
        if budget.vlm_calls is not None:  # drafts count in place of templates
            new &= (len(records) + 1) * rung.images + spent.tried <= rung.templates * rung.images
        return self.history.claim(rung.templates - 1, new=new)

    def _ask_more(self, evaluator: Evaluator, iteration: int, images: int) -> None:
        """Asks a template that may win about so many of the tuning images."""
        record = next(record for record in self.history.records() if record.iteration == iteration)
        assert record.template is not None  # it was asked with
        start, examples = time.monotonic(), self.experiment.splits.tuning[:images]
        template = self.experiment.rules.parse(record.template)
        evaluation = evaluator.evaluate(template, examples)
        usage = record.usage + replace(evaluation.usage, seconds=time.monotonic() - start)
        before = (*record.before, record.rows) if self.experiment.policy.is_open else ()
        grown = replace(record, rows=evaluation.rows, usage=usage, before=before)
        grown = self._judged(grown, evaluation, examples)
        self.history.keep(grown)
        self.callbacks.tell("on_rung", grown)

    def _clock(self) -> float:
        """Returns the wall time of the run so far, with that of earlier sessions, and keeps it for later ones."""
        now = time.monotonic()
        seconds = float(self.history.note("seconds") or 0.0) + now - self._started
        self.history.set_note("seconds", seconds)
        self._started = now
        return seconds

    def _accounted(self, heldout: Sequence[HeldoutResult]) -> tuple[HeldoutResult, ...]:
        """Returns held-out results with what they took when they were asked, where answers are stored by now."""
        known = _USAGES.validate_python(self.history.note("heldout usage") or {})
        usages: dict[str, Usage] = {}
        for held in heldout:
            if held.template not in usages:  # a baseline that won was asked once
                before = known.get(held.template)
                usages[held.template] = held.usage if before is None else before + held.usage.new()
        self.history.set_note("heldout usage", _USAGES.dump_python(usages))
        return tuple(replace(held, usage=usages.pop(held.template, held.usage)) for held in heldout)

    def _iterate(self, claim: Claim, evaluator: Evaluator) -> tuple[IterationRecord, bool]:
        """Returns the iteration's record, and whether the proposer has nothing more to propose."""
        start, experiment = time.monotonic(), self.experiment
        examples = experiment.splits.tuning[: experiment.rungs[0].images]
        most, missing = self._draft_images(), experiment.recipe.max_missing
        drafts = _Drafts(evaluator, experiment.rules, examples, most=most, max_missing=missing)
        try:
            with count_faults() as faults, track("proposing a template"):
                proposal = claim.proposal or self._propose(claim, drafts, faults)
        except ProposalFailed as failure:
            before = [record for record in self.history.records() if record.iteration > 0]
            # One fault costs an iteration. A model that never answered is set up wrongly, or down for some time.
            if failure.out_of_reach and all(record.out_of_reach for record in before[-_PATIENCE:]):
                raise ProposerError(
                    failure.reason,
                    remedy="Continue with --resume when the model answers again. Or use the proposer 'fragments', "
                    "which needs no model.",
                ) from None
            usage = replace(
                failure.spent.trials + drafts.usage(),
                proposer=_proposer_usage(failure.spent, faults),
            )
            record = IterationRecord(
                claim.iteration,
                "failed",
                None,
                reason=failure.reason,
                rejected=failure.spent.rejected,
                usage=replace(usage, seconds=time.monotonic() - start),
                trace=failure.spent.trace,
                out_of_reach=failure.out_of_reach,
            )
            return record, failure.final

        template = experiment.rules.parse(proposal.template)
        evaluation = evaluator.evaluate(template, examples)
        record = IterationRecord(
            iteration=claim.iteration,
            state="complete",
            template=proposal.template,
            prompt=experiment.rules.prompt(template),
            parameters=dict(proposal.parameters),
            rejected=tuple(proposal.rejected),
            rows=evaluation.rows,
            trace=tuple(proposal.trace),
            policy=dict(experiment.policy.identity()),
            usage=replace(proposal.trials + evaluation.usage, seconds=time.monotonic() - start),
        )
        record = self._judged(record, evaluation, examples)
        if claim.iteration == 0:
            self._check_off_tree(record.rows)
        return record, False

    def _judged(
        self, record: IterationRecord, evaluation: Evaluation, examples: Sequence[Example]
    ) -> IterationRecord:
        """Returns the record with its scores, or why it has none; raises an error where going on is senseless."""
        failures, objective, scores = (
            evaluation.failures,
            self.experiment.objective,
            evaluation.scores,
        )
        if (
            len(failures) <= self.experiment.recipe.max_missing * len(examples)
            and scores is not None
        ):
            baseline = scores if record.iteration == 0 else self.history.records()[0].scores
            value, feasible = (
                objective.value(scores, baseline),
                objective.feasible(scores, baseline),
            )
            return replace(
                record, scores=scores, value=value, feasible=feasible and not record.cut_short
            )
        check_images_there(examples)
        what = "answer" if not objective.needs else "answer or no rating"
        reason = f"{len(failures)} of {len(examples)} images have no {what}; the first: {failures[0].rstrip('.')}"
        limit = getattr(getattr(self.experiment.vlm, "settings", None), "max_tokens", None)
        cut = cut_in_words(record.rows, limit)
        if cut:
            reason += f"; {cut}"
        if evaluation.retryable or record.iteration == 0:
            # Not the template's fault: going on would waste the budget on a model that is out of reach, and without
            # answers to the baseline there is nothing to compare with.
            raise ModelError(
                f"Iteration {record.iteration} stopped: {reason}.",
                remedy="Continue with --resume when the model answers again; answers so far are saved."
                if evaluation.retryable
                else CUT_REMEDY
                if cut
                else "The baseline must have answers and ratings to compare with: change prompt.baseline, "
                "the model, the judge or the images, or raise max_missing.",
            )
        return replace(record, state="void", scores=None, value=None, reason=reason)

    def _check_off_tree(self, rows: Sequence[SampleResult]) -> None:
        """Checks that the baseline's answers are about what is on the tree: no prompt makes up for the wrong tree."""
        answers = [row for row in rows if row.answer is not None]
        off = {
            " ".join(str(row.answer).split())[:100]: row.truth for row in answers if row.off_tree
        }
        most = self.experiment.recipe.max_off_tree
        if (count := sum(row.off_tree for row in answers)) <= most * len(answers):
            return
        raise TaxonomyError(
            f"{count} of the baseline's {len(answers)} answers to the tuning images assert something that the taxonomy "
            f"lacks, more than max_off_tree ({most:g}) allows: "
            f"{'; '.join(f'{answer!r} for {truth}' for answer, truth in list(off.items())[:3])}.",
            file=self.experiment.recipe.source,
            remedy="Check that taxonomy.path is a tree of what the images show, and taxonomy.root, taxonomy.domain and "
            "prompt.domain; add missing names as aliases. If the answers are as expected, raise max_off_tree: answers "
            "are kept.",
        )

    def _draft_images(self) -> int | None:
        """The number of images that the budget leaves to an iteration's drafts; None where there is no bound."""
        rung, records = self.experiment.rungs[0], self.history.records()
        if self.experiment.budget.vlm_calls is None:
            return None
        return rung.images * (rung.templates - len(records) - 1) - sum(
            record.usage.tried for record in records
        )

    def _propose(self, claim: Claim, drafts: _Drafts, faults: Mapping[str, int]) -> Proposal:
        experiment = self.experiment
        if claim.iteration == 0:
            proposal = Proposal(experiment.recipe.prompt.baseline)
        else:
            earlier = self.history.templates()
            proposal = experiment.proposer.propose(
                self.history.records(),
                replace(experiment.goal(), ask=None if drafts.left == 0 else drafts),
                iteration=claim.iteration,
                seed=experiment.recipe.seed,
                check=lambda template: experiment.rules.check(template, earlier),
            )
            tried = proposal.trials + drafts.usage(proposal.template)
            proposal = replace(
                proposal, trials=replace(tried, proposer=_proposer_usage(proposal, faults))
            )
        self.history.propose(claim, proposal)
        return proposal


class _Drafts:
    """Asks about the drafts that a proposer tries in one iteration, at most `most` images; the `ask` of its `Goal`."""

    def __init__(
        self,
        evaluator: Evaluator,
        rules: TemplateRules,
        examples: Sequence[Example],
        *,
        most: int | None,
        max_missing: float,
    ) -> None:
        self._evaluator = evaluator
        self._rules = rules
        self._examples = examples
        self._most = most
        self._max_missing = max_missing
        self._images: dict[str, int] = {}
        self._usage = Usage()

    def __call__(self, template: str, images: int) -> tuple[SampleResult, ...]:
        """Returns the rows of a checked template on the first images, fewer where the budget ends."""
        known = self._images.get(template, 0)
        if self.left is not None:
            images = min(images, known + self.left)
        if images == 0:
            return ()
        parsed = self._rules.parse(template)
        evaluation = self._evaluator.evaluate(parsed, self._examples[:images])
        failures = evaluation.failures
        if evaluation.retryable and len(failures) > self._max_missing * len(evaluation.rows):
            raise ModelError(
                f"A draft could not be tried: {len(failures)} of {len(evaluation.rows)} images have no answer; the "
                f"first: {failures[0].rstrip('.')}.",
                remedy="Continue with --resume when the model answers again; answers so far are saved.",
            )
        self._images[template] = max(known, len(evaluation.rows))
        self._usage += evaluation.usage
        return evaluation.rows

    @property
    def left(self) -> int | None:
        """Images that may still be asked about; None where there is no bound."""
        return None if self._most is None else max(0, self._most - sum(self._images.values()))

    def usage(self, submitted: str | None = None) -> Usage:
        """Returns the usage of the drafts but `submitted`, whose images the iteration counts itself."""
        tried = sum(images for template, images in self._images.items() if template != submitted)
        return replace(self._usage, tried=tried)


def _proposer_usage(proposed: Proposal, faults: Mapping[str, int]) -> ModelUsage:
    """Returns the usage of a proposer's model; nothing where it has none."""
    usage = ModelUsage(
        0, 0, proposed.prompt_tokens, proposed.completion_tokens, proposed.cost_usd, dict(faults)
    )
    templates = len(proposed.rejected) + bool(proposed.template)
    return replace(usage, calls=templates) if usage.tokens or usage.faults else usage
