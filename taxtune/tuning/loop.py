"""The tuning loop: propose, check, ask, place, score, record; then the held-out images."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock
from pydantic import TypeAdapter

from taxtune.data import Example
from taxtune.data.grouping import list_copies
from taxtune.errors import BatchPendingError, ModelError, ProposerError, TaxonomyError, TaxtuneError
from taxtune.metrics.groups import unit_of
from taxtune.models import AnswerStore, count_faults
from taxtune.models.batches import in_batches
from taxtune.progress import note, track
from taxtune.tuning.asker import answer_limit
from taxtune.tuning.calibrate import posterior_offer
from taxtune.tuning.candidates import with_candidates
from taxtune.tuning.evaluation import Evaluation, Evaluator, check_images_there
from taxtune.tuning.experiment import Experiment
from taxtune.tuning.history import Claim, History, is_begun
from taxtune.tuning.proposers import Proposal, ProposalFailed
from taxtune.tuning.records import (
    CUT_REMEDY,
    OBJECTIVES_CHOICE,
    ComparisonResult,
    HeldoutResult,
    IterationRecord,
    ModelUsage,
    SampleResult,
    Selection,
    TuneResult,
    Usage,
    cut_in_words,
    groups_of,
)
from taxtune.tuning.run_folder import (
    answers_of,
    describe,
    files_shown,
    identity_of,
    next_folder,
    note_answers,
    write_result,
)
from taxtune.tuning.saved import save_winner
from taxtune.tuning.selection import choose, leaders, next_steps
from taxtune.tuning.thresholds import final_threshold

__all__ = ["Callback", "Callbacks", "ComparisonGroup", "Tuner"]

_USAGES = TypeAdapter(dict[str, Usage])
_WAIT = "Continue with --resume when the model answers again; answers so far are saved."
_BATCH = "batch"
_CHOSEN = "chosen"  # the note of the iteration that a person has chosen
_PATIENCE = 2  # iterations in a row that a proposer's model may leave without a template


class ComparisonGroup(NamedTuple):
    """The runs of a comparison.

    Attributes:
        name: Its name.
        identity: What stays the same when its folder is moved.
    """

    name: str
    identity: str


class Callback:
    """Is told what a run does; override what you care about.

    Anything with some of these methods will do, and so will a plain function, which is called as
    `on_iteration` is. A callback watches and never steers: to end a run early, raise
    `KeyboardInterrupt`.
    """

    def on_start(self, tuner: Tuner, done: Sequence[IterationRecord]) -> None:
        """Tells that the loop begins, with the iterations that are already done."""

    def on_iteration(self, record: IterationRecord, best: IterationRecord | None) -> None:
        """Tells that an iteration is finished; `best` is the one that would win now."""

    def on_rung(self, record: IterationRecord) -> None:
        """Tells that a template was asked about more of the tuning images."""

    def on_selection(self, selection: Selection) -> None:
        """Tells which template wins, before the held-out images are asked about."""

    def on_heldout(self, name: str, images: int) -> None:
        """Tells how many held-out images the template called `name` is asked about."""

    def on_result(self, result: TuneResult | ComparisonResult) -> None:
        """Tells that a run, a comparison or an evaluation is written, but for its report."""

    def on_comparison(self, result: ComparisonResult, group: ComparisonGroup) -> None:
        """Tells that runs were compared; `group` joins the comparison to its runs."""

    def on_stop(self, status: str) -> None:
        """Tells how the run ends: "finished", "failed" or "killed"."""


class Callbacks:
    """Several callbacks: objects with some of `Callback`'s methods, or functions as `on_iteration`.

    Raises:
        TypeError: If one is neither.
    """

    def __init__(self, callbacks: Sequence[Any]) -> None:
        names = sorted(name for name in vars(Callback) if name.startswith("on_"))
        for callback in callbacks:
            if not callable(callback) and not any(hasattr(callback, name) for name in names):
                raise TypeError(
                    f"{callback!r} is not a callback: it has none of {', '.join(names)}"
                )
        self._callbacks = tuple(callbacks)

    def tell(self, event: str, *arguments: Any) -> None:
        """Calls the method `event` of every callback that has it, in their order."""
        for callback in self._callbacks:
            method = getattr(callback, event, None)
            if method is None and event == "on_iteration" and callable(callback):
                method = callback
            if method is not None:
                method(*arguments)

    def recorded_all(self) -> bool:
        """Returns whether callbacks have recorded all that they were told."""
        known = [callback for callback in self._callbacks if hasattr(callback, "recorded_all")]
        return all(callback.recorded_all() for callback in known)

    def where(self) -> dict[str, str]:
        """Returns where to look at what callbacks have recorded, by what it shows."""
        places: dict[str, str] = {}
        for callback in self._callbacks:
            if hasattr(callback, "where"):
                places |= callback.where()
        return places


class Tuner:
    """One tuning run.

    Args:
        experiment: What is tuned.
        folder: Folder of the run.
        callbacks: Told what happens; see `Callbacks`.
        resume: Go on with a run that is already in the folder.
        group: The comparison that the run is a part of.
        command: The command that runs it again, for the report.
        anew: How a new run is begun where this one cannot go on; in Python where left out.
        batch: Ask about held-out images in the provider's batches, now and when it is resumed.
        lock: The folder's lock where the caller holds it; see `taxtune.tuning.history.locked`.
    """

    history: History

    def __init__(
        self,
        experiment: Experiment,
        folder: Path,
        *,
        callbacks: Sequence[Any] = (),
        resume: bool = False,
        group: ComparisonGroup | None = None,
        command: str | None = None,
        anew: str | None = None,
        batch: bool = False,
        lock: FileLock | None = None,
    ) -> None:
        self.experiment = experiment
        self.folder = folder
        self.callbacks = Callbacks(callbacks)
        self.resume = resume
        self.group = group
        self.command = command
        self.anew = anew
        self.batch = batch
        self.lock = lock
        self._started = time.monotonic()
        self._known: dict[str, HeldoutResult] = {}

    def run(self) -> TuneResult:
        """Runs, or goes on with, the tuning run.

        One that is finished already asks nothing and is written again.

        Raises:
            TaxtuneError: If the run cannot start or go on; what is done is kept and `resume` goes
                on from there.
            KeyboardInterrupt: On Ctrl-C, after the run has been left in a state that `resume` goes
                on from.
        """
        self._started = time.monotonic()
        with track("opening the history"):
            self._open()
        with self._asking() as evaluator:
            return self._run(evaluator)

    @contextmanager
    def _asking(self) -> Iterator[Evaluator]:
        """Gives what asks; at the end callbacks are told how it went, and the history is closed."""
        status = "failed"
        try:
            with AnswerStore(self.experiment.answers) as store:
                yield self.experiment.evaluator(store)
            status = "finished"
        except (BatchPendingError, KeyboardInterrupt):
            status = "killed"
            raise
        finally:
            try:
                self.callbacks.tell("on_stop", status)
            finally:
                self.history.close()

    def choose(self, iteration: int, earlier: TuneResult) -> TuneResult:
        """Makes an iteration the winner of a finished run, and asks about held-out images with it.

        What the objective chose stays beside it; to choose that takes an earlier choice back.

        Args:
            iteration: The iteration; it has scores.
            earlier: The result of the run. Its held-out images are not asked about again.
        """
        assert earlier.selection is not None
        if not self.experiment.policy.is_open:  # another threshold may place them elsewhere
            self._known = {held.template: held for held in earlier.heldout}
        self._started = time.monotonic()
        self.history = History(self.folder, "", None, resume=True, lock=self.lock)
        winner = self.history.record(iteration)
        is_own = iteration == earlier.selection.winner
        with self._asking() as evaluator:
            evaluator, selection = self._with_threshold(evaluator, earlier.selection, winner)
            self.callbacks.tell("on_start", self, self.history.records())
            made = self._result(evaluator, selection, winner)
            result = replace(
                earlier,
                winner=made.winner,
                heldout=made.heldout,
                differences=made.differences,
                where=made.where,
                selection=selection,
                seconds=made.seconds,
            )
            self.history.set_note(_CHOSEN, None if is_own else iteration)
            self._write(result)
            return result

    def _open(self) -> None:
        """Opens the history, once all that is asked is known to answer."""
        experiment = self.experiment
        for text in experiment.notes():
            note(text)
        if not is_begun(self.folder):
            experiment.check_models()
        if self.batch:  # before anything is paid
            in_batches(experiment.vlm, experiment.answers)
        whole = self.folder if self.group is None else self.folder.parent
        self.history = History(
            self.folder,
            experiment.recipe.name,
            identity_of(experiment),
            resume=self.resume,
            anew=self.anew or f"out={str(next_folder(whole))!r}",
            lock=self.lock,
        )
        if self.batch:  # also where the search is killed before it is over
            self.history.set_note(_BATCH, True)
        splits = experiment.splits
        images = (*experiment.examples, *splits.tuning, *splits.heldout)
        list_copies(images, self.folder / "copies.csv")
        if self.group is not None:  # the folder may have been moved since
            identity = self.history.note("group") or self.group.identity
            self.group = ComparisonGroup(self.group.name, identity)
            self.history.set_note("group", identity)

    def _run(self, evaluator: Evaluator) -> TuneResult:
        done = self.history.records()
        answers = self.experiment.answers
        if answers_of(self.folder) != answers:
            note_answers(self.folder, answers)
        if self.group is not None:  # by which the folder is known as a comparison's
            note_answers(self.folder.parent, answers)
        with track("opening the record of the run"):
            self.callbacks.tell("on_start", self, done)
        self._search(evaluator)
        selection = self._selection()
        chosen = self.history.note(_CHOSEN)
        winner = self.history.record(selection.winner if chosen is None else chosen)
        evaluator, selection = self._with_threshold(evaluator, selection, winner)
        self.callbacks.tell("on_selection", selection)
        result = self._result(self._in_batches(evaluator), selection, winner)
        self._write(result)
        return result

    def _in_batches(self, evaluator: Evaluator) -> Evaluator:
        """Returns the evaluator, which asks in batches if the run was told to once."""
        if not self.history.note(_BATCH):
            return evaluator
        model = in_batches(self.experiment.vlm, self.experiment.answers)
        return replace(evaluator, asker=replace(evaluator.asker, model=model))

    def _write(self, result: TuneResult) -> None:
        """Writes a result with the winner's classifier, and tells the callbacks."""
        save_winner(self.experiment, result)
        write_result(result)
        with track("recording the result"):
            self.callbacks.tell("on_result", result)

    def _search(self, evaluator: Evaluator) -> None:
        """Proposes and asks until the budget is spent, then asks who may win about more images."""
        experiment = self.experiment
        is_exhausted = False
        while (claim := self._claim(new=not is_exhausted)) is not None:
            record, is_exhausted = self._iterate(claim, evaluator)
            self.history.finish(record)
            self._clock()
            self.callbacks.tell("on_iteration", record, self._leader())
        while steps := next_steps(self.history.records(), experiment.objective, experiment.rungs):
            iteration, images = steps[0]
            self._ask_more(evaluator, iteration, images)
        self.history.write()

    def _leader(self) -> IterationRecord | None:
        """Returns the template that would win now."""
        selection = choose(self.history.records(), self.experiment.objective)
        return None if selection is None else self.history.record(selection.winner)

    def _selection(self) -> Selection:
        """Returns the choice of the winner."""
        records = self.history.records()
        selection = choose(records, self.experiment.objective)
        if selection is None and any(record.cut_short for record in records):
            raise TaxtuneError(
                "No template can win: more than half of the answers to each were cut off, at the "
                "longest answer.",
                file=self.folder,
                remedy=CUT_REMEDY,
            )
        if selection is None or records[0].template is None:
            raise TaxtuneError(
                "No iteration could be scored.",
                file=self.folder,
                remedy="See history.jsonl for the reasons.",
            )
        tuning = self.experiment.splits.tuning
        groups = groups_of(tuning)
        seen = groups_of(tuning[: selection.images])
        selection = replace(
            selection,
            there=len(groups),
            unit=unit_of(self.experiment.recipe.data.group, groups),
            groups=len(seen),
            leaders=tuple(leaders(records, self.experiment.objective)),
        )
        return with_candidates(selection, records, self.experiment.objective)

    def _with_threshold(
        self, evaluator: Evaluator, selection: Selection, winner: IterationRecord
    ) -> tuple[Evaluator, Selection]:
        """Returns evaluator and choice with the threshold of a policy that leaves it open."""
        experiment = self.experiment
        if not experiment.policy.is_open:
            return evaluator, selection
        threshold = final_threshold(
            experiment.taxonomy,
            experiment.weights,
            winner.rows,
            experiment.objective,
            off_tree=evaluator.off_tree,
        )
        policy = experiment.policy.with_threshold(threshold)
        selection = replace(selection, policy=dict(policy.identity()), chose_threshold=True)
        if selection.status is not None:  # what chose the threshold cannot certify it as well
            candidates = [replace(each, certified=False) for each in selection.candidates]
            selection = replace(selection, status="estimate", candidates=tuple(candidates))
        return evaluator.with_policy(policy), selection

    def _result(
        self, evaluator: Evaluator, selection: Selection, winner: IterationRecord
    ) -> TuneResult:
        """Returns the result, once baseline and winner are asked about the held-out images."""
        experiment = self.experiment
        objective = experiment.objective
        records = self.history.records()
        named = {"baseline": records[0]}
        if winner.iteration != selection.winner:
            named[OBJECTIVES_CHOICE] = self.history.record(selection.winner)
        named["winner"] = winner
        templates = {}
        for name, record in named.items():
            templates[name] = experiment.rules.parse(record.template or "")
        on_heldout = partial(self.callbacks.tell, "on_heldout")
        heldout, differences = experiment.compare(
            evaluator, templates, on_heldout, known=self._known
        )
        trivial_hp, trivial_hr = experiment.trivial
        result = TuneResult(
            name=experiment.recipe.name,
            objective=objective.name,
            constraints=objective.constraints,
            trivial_hp=trivial_hp,
            trivial_hr=trivial_hr,
            winner=winner.iteration,
            iterations=tuple(records),
            heldout=self._accounted(heldout),
            differences=differences,
            folder=str(self.folder),
            where=files_shown(self.folder) | self.callbacks.where(),
            provenance=describe(experiment, self.command),
            selection=selection,
            spec=objective.spec,
            context=experiment.context,
            seconds=self._clock(),
        )
        offer = posterior_offer(experiment, evaluator, result)
        return replace(result, where=result.where | offer)

    def _claim(self, *, new: bool) -> Claim | None:
        """Returns an iteration to work on, None once all are done or the budget is spent."""
        records = self.history.records()
        if not records:
            return self.history.claim(0)
        most_usd = self.experiment.budget.usd
        if most_usd is not None:
            spent = sum((record.usage for record in records), Usage())
            new &= (spent.cost_usd or 0.0) < most_usd
        left = self._draft_images()
        if left is not None:  # drafts count in place of templates
            new &= left >= 0
        return self.history.claim(self.experiment.rungs[0].templates - 1, new=new)

    def _ask_more(self, evaluator: Evaluator, iteration: int, images: int) -> None:
        """Asks a template that may win about so many of the tuning images."""
        start = time.monotonic()
        record = self.history.record(iteration)
        assert record.template is not None  # it was asked with
        examples = self.experiment.splits.tuning[:images]
        template = self.experiment.rules.parse(record.template)
        evaluation = evaluator.evaluate(template, examples, again=len(record.rows))
        usage = replace(evaluation.usage, seconds=time.monotonic() - start)
        usage = record.usage + usage
        before = (*record.before, record.rows) if self.experiment.policy.is_open else ()
        grown = replace(record, rows=evaluation.rows, usage=usage, before=before)
        grown = self._judged(grown, evaluation, examples)
        self.history.keep(grown)
        self.callbacks.tell("on_rung", grown)

    def _clock(self) -> float:
        """Returns the wall time of the run so far, with that of earlier sessions, and keeps it."""
        now = time.monotonic()
        seconds = float(self.history.note("seconds") or 0.0) + now - self._started
        self.history.set_note("seconds", seconds)
        self._started = now
        return seconds

    def _accounted(self, heldout: Sequence[HeldoutResult]) -> tuple[HeldoutResult, ...]:
        """Returns held-out results with the usage of when they were asked.

        By now their answers are stored.
        """
        known = _USAGES.validate_python(self.history.note("heldout usage") or {})
        usages: dict[str, Usage] = {}
        for held in heldout:
            if held.template not in usages:  # a baseline that won was asked once
                before = known.get(held.template)
                usages[held.template] = held.usage if before is None else before + held.usage.new()
        self.history.set_note("heldout usage", _USAGES.dump_python(known | usages))
        accounted = []
        for held in heldout:
            usage = usages.pop(held.template, held.usage)
            accounted.append(replace(held, usage=usage))
        return tuple(accounted)

    def _iterate(self, claim: Claim, evaluator: Evaluator) -> tuple[IterationRecord, bool]:
        """Returns the iteration's record, and whether the proposer has nothing more to propose."""
        start = time.monotonic()
        experiment = self.experiment
        examples = experiment.splits.tuning[: experiment.rungs[0].images]
        drafts = _Drafts(evaluator, experiment, self._draft_images())
        try:
            with count_faults() as faults, track("proposing a template"):
                proposal = claim.proposal or self._propose(claim, drafts, faults)
        except ProposalFailed as failure:
            trials = failure.spent.trials + drafts.usage()
            proposer = _proposer_usage(failure.spent, faults)
            usage = replace(trials, proposer=proposer, seconds=time.monotonic() - start)
            return self._failed(claim.iteration, failure, usage), failure.final

        template = experiment.rules.parse(proposal.template)
        evaluation = evaluator.evaluate(template, examples)
        usage = replace(proposal.trials + evaluation.usage, seconds=time.monotonic() - start)
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
            usage=usage,
        )
        record = self._judged(record, evaluation, examples)
        if claim.iteration == 0:
            self._check_off_tree(record.rows)
        return record, False

    def _failed(self, iteration: int, failure: ProposalFailed, usage: Usage) -> IterationRecord:
        """Returns the record of an iteration without a template.

        Raises:
            ProposerError: If the proposer's model has not answered for some time.
        """
        before = [record for record in self.history.records() if record.iteration > 0]
        # One fault costs an iteration. A model that never answered is set up wrongly, or down for
        # some time.
        if failure.out_of_reach and all(record.out_of_reach for record in before[-_PATIENCE:]):
            raise ProposerError(
                failure.reason,
                remedy="Continue with --resume when the model answers again. Or use the proposer "
                "'fragments', which needs no model.",
            ) from None
        return IterationRecord(
            iteration=iteration,
            state="failed",
            template=None,
            reason=failure.reason,
            rejected=failure.spent.rejected,
            usage=usage,
            trace=failure.spent.trace,
            out_of_reach=failure.out_of_reach,
        )

    def _judged(
        self, record: IterationRecord, evaluation: Evaluation, examples: Sequence[Example]
    ) -> IterationRecord:
        """Returns the record with its scores, or why it has none.

        Raises:
            ModelError: If going on is senseless.
            ImageError: If images are gone.
        """
        objective = self.experiment.objective
        scores = evaluation.scores
        most = self.experiment.recipe.max_missing * len(examples)
        if scores is not None and len(evaluation.failures) <= most:
            baseline = scores if record.iteration == 0 else self.history.record(0).scores
            value = objective.value(scores, baseline)
            feasible = objective.feasible(scores, baseline) and not record.cut_short
            return replace(record, scores=scores, value=value, feasible=feasible)
        check_images_there(examples)
        cut = cut_in_words(record.rows, answer_limit(self.experiment.vlm))
        what = "answer or no rating" if objective.needs else "answer"
        first = evaluation.failures[0].rstrip(".")
        reason = f"{len(evaluation.failures)} of {len(examples)} images have no {what}"
        reason += f"; the first: {first}"
        if cut:
            reason += f"; {cut}"
        if not evaluation.retryable and record.iteration > 0:
            return replace(record, state="void", scores=None, value=None, reason=reason)
        # Not the template's fault: going on would waste the budget on a model that is out of reach,
        # and without answers to the baseline there is nothing to compare with.
        remedy = (
            "The baseline must have answers and ratings to compare with: change prompt.baseline, "
            "the model, the judge or the images, or raise max_missing."
        )
        if evaluation.retryable:
            remedy = _WAIT
        elif cut:
            remedy = CUT_REMEDY
        raise ModelError(f"Iteration {record.iteration} stopped: {reason}.", remedy=remedy)

    def _check_off_tree(self, rows: Sequence[SampleResult]) -> None:
        """Raises a `TaxonomyError` if too many of the baseline's answers are off the tree.

        No prompt makes up for the wrong tree.
        """
        # Where nothing is there, what a model says instead is on no tree.
        answered = [row for row in rows if row.answer is not None and row.target]
        off_tree = [row for row in answered if row.off_tree]
        most = self.experiment.recipe.max_off_tree
        if len(off_tree) <= most * len(answered):
            return
        truths = {}
        for row in off_tree:
            answer = " ".join(str(row.answer).split())
            truths[answer[:100]] = row.truth
        shown = [f"{answer!r} for {truth}" for answer, truth in list(truths.items())[:3]]
        raise TaxonomyError(
            f"{len(off_tree)} of the baseline's {len(answered)} answers to the tuning images "
            f"assert something that the taxonomy lacks, more than max_off_tree ({most:g}) allows: "
            f"{'; '.join(shown)}.",
            file=self.experiment.recipe.source,
            remedy="Check that taxonomy.path is a tree of what the images show, and taxonomy.root, "
            "taxonomy.domain and prompt.domain; add missing names as aliases. If the answers are "
            "as expected, raise max_off_tree: answers are kept.",
        )

    def _draft_images(self) -> int | None:
        """Returns the images that the budget leaves to drafts, None if there is no bound."""
        if self.experiment.budget.vlm_calls is None:
            return None
        rung = self.experiment.rungs[0]
        records = self.history.records()
        tried = sum(record.usage.tried for record in records)
        return rung.images * (rung.templates - len(records) - 1) - tried

    def _propose(self, claim: Claim, drafts: _Drafts, faults: Mapping[str, int]) -> Proposal:
        experiment = self.experiment
        if claim.iteration == 0:
            proposal = Proposal(experiment.recipe.prompt.baseline)
        else:
            goal = experiment.goal()
            if drafts.left != 0:
                goal = replace(goal, ask=drafts)
            proposal = experiment.proposer.propose(
                self.history.records(),
                goal,
                iteration=claim.iteration,
                seed=experiment.recipe.seed,
                check=partial(experiment.rules.check, earlier=self.history.templates()),
            )
            tried = proposal.trials + drafts.usage(proposal.template)
            trials = replace(tried, proposer=_proposer_usage(proposal, faults))
            proposal = replace(proposal, trials=trials)
        self.history.propose(claim, proposal)
        return proposal


class _Drafts:
    """Asks about the drafts that a proposer tries in one iteration; the `ask` of its `Goal`.

    Args:
        evaluator: Asks and scores.
        experiment: What is tuned, with the images of the first rung.
        most: Most images to ask about, None for no bound.
    """

    def __init__(self, evaluator: Evaluator, experiment: Experiment, most: int | None) -> None:
        self._evaluator = evaluator
        self._experiment = experiment
        self._most = most
        self._images: dict[str, int] = {}
        self._usage = Usage()

    def __call__(self, template: str, images: int) -> tuple[SampleResult, ...]:
        """Returns the rows of a checked template on the first images, fewer if the budget ends."""
        known = self._images.get(template, 0)
        if self.left is not None:
            images = min(images, known + self.left)
        if images == 0:
            return ()
        experiment = self._experiment
        parsed = experiment.rules.parse(template)
        examples = experiment.splits.tuning[: experiment.rungs[0].images]
        evaluation = self._evaluator.evaluate(parsed, examples[:images])
        failures = evaluation.failures
        asked = len(evaluation.rows)
        if evaluation.retryable and len(failures) > experiment.recipe.max_missing * asked:
            first = failures[0].rstrip(".")
            raise ModelError(
                f"A draft could not be tried: {len(failures)} of {asked} images have no answer; "
                f"the first: {first}.",
                remedy=_WAIT,
            )
        self._images[template] = max(known, asked)
        self._usage += evaluation.usage
        return evaluation.rows

    @property
    def left(self) -> int | None:
        """Images that may still be asked about, None if there is no bound."""
        if self._most is None:
            return None
        return max(0, self._most - sum(self._images.values()))

    def usage(self, submitted: str | None = None) -> Usage:
        """Returns the usage of all drafts but `submitted`, whose images the iteration counts."""
        tried = sum(images for template, images in self._images.items() if template != submitted)
        return replace(self._usage, tried=tried)


def _proposer_usage(proposed: Proposal, faults: Mapping[str, int]) -> ModelUsage:
    """Returns the usage of a proposer's model; nothing if it has none."""
    usage = ModelUsage(
        prompt_tokens=proposed.prompt_tokens,
        completion_tokens=proposed.completion_tokens,
        cost_usd=proposed.cost_usd,
        faults=dict(faults),
    )
    if usage.tokens or usage.faults:
        calls = len(proposed.rejected) + bool(proposed.template)
        usage = replace(usage, calls=calls)
    return usage
