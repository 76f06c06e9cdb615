"""Records a run in MLflow, by its fluent API.

A tuning run is a run, each iteration one nested in it, and a comparison one above its tuning runs.
Names of runs are deterministic and a tag says that an iteration is wholly recorded: a run that is
resumed records what is not yet recorded. Recording never decides over a run: if it fails, a note
says so and the run goes on.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from taxtune.errors import TaxtuneError
from taxtune.progress import note
from taxtune.report.output import plain
from taxtune.report.summary import goal_in_words
from taxtune.tracking import entities, values
from taxtune.tracking.store import (
    TrackingStore,
    in_force,
    open_store,
    short_reason,
    store_uri,
    unusable,
)
from taxtune.tuning.loop import Callback, ComparisonGroup
from taxtune.tuning.records import (
    OBJECTIVES_CHOICE,
    ComparisonResult,
    HeldoutResult,
    IterationRecord,
    SampleResult,
    TuneResult,
)
from taxtune.tuning.saved import find_saved
from taxtune.tuning.selection import leaders
from taxtune.tuning.template import Template

if TYPE_CHECKING:
    from taxtune.tuning.loop import Tuner

__all__ = ["MLflowTracker", "TrackingCallback"]

_PARENT = "mlflow.parentRunId"
_NOTE = "mlflow.note.content"
_KIND = "taxtune.kind"
_GROUP = "taxtune.group"
_ITERATION = "taxtune.iteration"
_RECORDED = "taxtune.recorded"
_PARAMETERS_PER_CALL = 100
#: Most images of a template that become traces, and of the winner.
_TRACES = 5
_REVIEWED = 60
_STATUS = {"finished": "FINISHED", "failed": "FAILED", "killed": "KILLED"}


class MLflowTracker:
    """Records a run in MLflow.

    Args:
        experiment: Name of the MLflow experiment.
        folder: The run's folder; by default the store is `mlflow.db` with `mlartifacts/` in it.
        tracking_uri: Another store; without it `MLFLOW_TRACKING_URI` counts.

    Attributes:
        unrecorded: Numbers of the iterations that could not be recorded yet.
    """

    def __init__(
        self, experiment: str, folder: str | Path, tracking_uri: str | None = None
    ) -> None:
        self._experiment = experiment
        self._folder = Path(folder)
        self._uri = store_uri(folder, tracking_uri)
        self._opened: TrackingStore | None = None
        self._run: str | None = None
        self._above: str | None = None
        self._images: Mapping[str, Path] = {}
        self._parse: Callable[[str], Template] | None = None
        self._variables: Mapping[str, object] = {}
        self._vlm = ""
        # The runs of iterations, by name, recorded or not.
        self._runs: dict[str, str] = {}
        # The run and the number of images of each recorded iteration.
        self._recorded: dict[int, tuple[str, int]] = {}
        self.unrecorded: set[int] = set()
        self._failed = False

    @property
    def whole(self) -> bool:
        """Whether everything is recorded."""
        return not (self.unrecorded or self._failed)

    def start(
        self,
        name: str,
        parameters: Mapping[str, Any],
        tags: Mapping[str, str],
        run_id: str | None = None,
        *,
        group: ComparisonGroup | None = None,
        images: Mapping[str, Path] | None = None,
        parse: Callable[[str], Template] | None = None,
        variables: Mapping[str, object] | None = None,
    ) -> str:
        """Starts a tuning run's record, or continues an earlier one.

        Args:
            name: Name of the run.
            parameters: What MLflow's page shows, in this order; nested keys are joined with dots.
                The whole of "recipe" is kept as `recipe.yaml` too, since MLflow cuts long values.
            tags: Tags of the run.
            run_id: The run to continue; if the store does not know it, a new one is started.
            group: The comparison that the run is part of; its run is made if there is none yet.
            images: Image files by example id, for pictures.
            parse: Returns the template of a source, for the prompts in traces.
            variables: The variables of templates that all images share.

        Returns:
            The run's id.

        Raises:
            TaxtuneError: If the store cannot be reached or written.
        """
        self._images = images or {}
        self._parse = parse
        self._variables = variables or {}
        self._vlm = str(parameters.get("model", ""))
        try:
            with in_force(self._store()):
                import mlflow

                if group is not None:
                    self._above = self._group_run(group, parameters)
                self._run = self._continued(run_id)
                if self._run is None:
                    tags = {_KIND: "tuning run", _NOTE: values.UNFINISHED, **tags}
                    self._run = self._new_run(name, tags, self._above)
                    mlflow.log_metrics(values.FIRST_METRICS, step=0, run_id=self._run)
                    if run_id is not None:
                        note(
                            f"MLflow does not know the run {run_id}; "
                            "its iterations will be recorded again."
                        )
                self._log_recipe(self._run, parameters)
                self._find_iterations(self._run)
                return self._run
        except TaxtuneError:
            raise
        except Exception as error:
            raise unusable(self._uri, error) from error

    def _find_iterations(self, run: str) -> None:
        """Finds the iterations that a continued run has recorded."""
        for nested in self._search(_PARENT, run):
            child = nested.info.run_id
            self._runs[nested.info.run_name] = child
            tags = nested.data.tags
            if tags.get(_RECORDED) == "true":
                images = int(nested.data.metrics.get("tuning/images", 0))
                self._recorded[int(tags[_ITERATION])] = (child, images)

    def iteration(self, record: IterationRecord, best: IterationRecord | None = None) -> None:
        """Records an iteration as a nested run, unless it is recorded already.

        Args:
            record: The iteration.
            best: The best iteration so far, for the tuning run's curves.
        """
        number = record.iteration
        _, images = self._recorded.get(number, ("", -1))
        if images >= len(record.rows):
            return
        try:
            with in_force(self._store()):
                self._record(record, best)
            self.unrecorded.discard(number)
        except Exception as error:
            # One note is enough: `finish` tries again.
            if not self.unrecorded:
                note(
                    f"MLflow could not record iteration {number}; "
                    f"the run continues: {short_reason(error)}"
                )
            self.unrecorded.add(number)

    def finish(self, result: TuneResult) -> None:
        """Records a finished run: each iteration as it ended, the result, prompts and traces."""
        for record, best in zip(result.iterations, result.leaders, strict=True):
            self.iteration(record, best)
        if self.unrecorded:
            numbers = ", ".join(map(str, sorted(self.unrecorded)))
            note(f"MLflow has no record of iterations {numbers}; the run's folder has one.")
        with self._attempt("the result"):
            self._finish(result)
        with self._attempt("the templates as prompts"):
            self._register_prompts(result)
        with self._attempt("traces"):
            names = {record.template: _name_of(record) for record in result.iterations}
            for held in result.heldout:
                number = _REVIEWED if held.name == "winner" else _TRACES
                # By iteration, so that a winner that is chosen later has traces of its own.
                name = f"{names[held.template]}, held out"
                self._trace(str(self._run), held, name, number)
        if result.heldout:
            with self._attempt("the winner as a model"):
                self._log_classifier(result)

    def group(self, result: ComparisonResult, group: ComparisonGroup) -> str | None:
        """Records the result of runs that belong together; it replaces an earlier record of them.

        Returns:
            The id of the run above them, or None if it could not be recorded.

        Raises:
            TaxtuneError: If the store cannot be reached at all.
        """
        self._store()
        with self._attempt("the comparison"):
            self._finish_group(result, group)
        return self._above

    def close(self, status: str = "FINISHED") -> None:
        """Ends the run as "FINISHED", "FAILED" or "KILLED"; without a started run it does nothing.

        The run above it continues unless this one failed: there may be others.
        """
        if self._run is None:
            return
        runs: list[str | None] = [self._run]
        # A run is left as "FAILED" by a call that could not record something.
        ended = ["RUNNING", "FAILED"]
        if status != "FINISHED":
            runs = [*self._runs.values(), self._run, self._above]
            ended = ["RUNNING"]
        with self._attempt("the end of the run"):
            client = self._store().client
            for run in runs:
                if run is not None and client.get_run(run).info.status in ended:
                    client.set_terminated(run, status)

    def where(self) -> str:
        """Returns the command or the address that shows the record."""
        store = self._opened or TrackingStore(None, self._uri, "")
        return store.where(self._above or self._run)

    def _store(self) -> TrackingStore:
        if self._opened is None:
            self._opened = open_store(self._experiment, self._folder, self._uri)
        return self._opened

    @contextmanager
    def _attempt(self, what: str) -> Iterator[None]:
        """Puts the store in force for the block, and notes an error of it in place of raising it."""
        try:
            with in_force(self._store()):
                yield
        except Exception as error:
            note(f"MLflow could not record {what}: {short_reason(error)}")
            self._failed = True

    # -- runs --------------------------------------------------------------------------------------

    @contextmanager
    def _active(self, run: str, status: str = "RUNNING") -> Iterator[Path]:
        """Makes a run the active one for the block, and gives it a status; "FAILED" after an error.

        Yields a folder whose files become artifacts; files of the same names are replaced.
        """
        import mlflow

        mlflow.start_run(run_id=run, nested=True)
        ended = "FAILED"
        try:
            with tempfile.TemporaryDirectory(prefix="taxtune-") as folder:
                yield Path(folder)
                if any(Path(folder).iterdir()):
                    mlflow.log_artifacts(folder)
                    # By this tag MLflow's pages find the tables.
                    there = [name for name in values.TABLES if Path(folder, name).exists()]
                    tables = [{"path": name, "type": "table"} for name in there]
                    mlflow.set_tag("mlflow.loggedArtifacts", json.dumps(tables))
            ended = status
        finally:
            mlflow.end_run(ended)

    def _new_run(self, name: str, tags: Mapping[str, str], parent: str | None) -> str:
        texts = {"mlflow.source.name": "taxtune"}
        for key, value in tags.items():
            if value:
                texts[key] = values.shorten(str(value), values.TAG_LIMIT)
        if parent is not None:
            texts[_PARENT] = parent
        # Not by `mlflow.start_run`, which nests it in a run that the caller of `tune` has active.
        store = self._store()
        return str(store.client.create_run(store.experiment, tags=texts, run_name=name).info.run_id)

    def _continued(self, run_id: str | None) -> str | None:
        """Returns the run to continue; None if the store does not know it."""
        import mlflow

        if run_id is None:
            return None
        try:
            run = mlflow.get_run(run_id)
        except mlflow.exceptions.MlflowException as error:
            if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                return None
            raise
        if run.info.lifecycle_stage != "active":
            return None
        with self._active(run_id):
            if self._above is not None:
                mlflow.set_tag(_PARENT, self._above)
        return run_id

    def _group_run(self, group: ComparisonGroup, parameters: Mapping[str, Any] | None) -> str:
        """Returns the run above those of a group, which continues, or which is made."""
        known = self._search(_GROUP, group.identity)
        if known:
            run = str(known[-1].info.run_id)  # the first that was made
            with self._active(run):
                pass
        else:
            tags = {_KIND: "comparison", _GROUP: group.identity, _NOTE: values.UNFINISHED}
            run = self._new_run(f"compare: {group.name}", tags, None)
        if parameters is not None:
            own = ("objective", "goal", "resolved")
            shared = {key: value for key, value in parameters.items() if key not in own}
            shared["recipe"] = dict(shared.get("recipe", {}))
            shared["recipe"].pop("objective", None)
            self._log_recipe(run, shared)
        return run

    def _log_recipe(self, run: str, parameters: Mapping[str, Any]) -> None:
        import mlflow

        # MLflow refuses to change a parameter, and a resumed run has them.
        known = mlflow.get_run(run).data.params
        texts = values.parameter_texts(parameters)
        new = [(name, text) for name, text in texts if name not in known]
        for start in range(0, len(new), _PARAMETERS_PER_CALL):
            batch = new[start : start + _PARAMETERS_PER_CALL]
            mlflow.log_params(dict(batch), run_id=run)
        recipe = plain(parameters.get("recipe", {}))
        text = yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True)
        mlflow.log_text(text, "recipe.yaml", run_id=run)

    def _search(self, tag: str, value: str) -> list[Any]:
        import mlflow

        experiments = [self._store().experiment]
        query = f"tags.`{tag}` = '{value}'"
        return list(mlflow.search_runs(experiments, query, output_format="list"))

    # -- iterations --------------------------------------------------------------------------------

    def _record(self, record: IterationRecord, best: IterationRecord | None) -> None:
        """Records an iteration, or the images that it was asked about since it was recorded.

        A step of its metrics is a number of images, which grows.
        """
        import mlflow

        number = record.iteration
        is_new = number not in self._recorded
        run = self._iteration_run(record)
        status = "FINISHED" if record.state == "complete" else "FAILED"
        with self._active(run, status) as folder:
            values.write_iteration(folder, record, self._images)
            parameters = {"iteration": number, **record.parameters}
            mlflow.log_params(dict(values.parameter_texts(parameters)))
            metrics = values.tuning_metrics(record)
            spent = values.usage_metrics(record.usage)
            mlflow.log_metrics({**metrics, **spent}, step=len(record.rows))
            if is_new:
                self._trace(run, record, f"{_name_of(record)}, tuning", _TRACES)
                if best is not None and best.value is not None:
                    metrics["tuning/best_objective"] = best.value
                mlflow.log_metrics(metrics, step=number, run_id=self._run)
        self._store().client.set_tag(run, _RECORDED, "true")
        self._recorded[number] = (run, len(record.rows))

    def _iteration_run(self, record: IterationRecord) -> str:
        """Returns the run of an iteration, which is made if there is none yet."""
        name = _name_of(record)
        if name not in self._runs:
            tags = {
                _ITERATION: str(record.iteration),
                _KIND: "iteration",
                "taxtune.state": record.state,
                "taxtune.feasible": str(record.feasible).lower(),
                _NOTE: values.about_iteration(record),
                "taxtune.reason": record.reason or "",
            }
            self._runs[name] = self._new_run(name, tags, self._run)
        return self._runs[name]

    def _trace(
        self, run: str, template: IterationRecord | HeldoutResult, name: str, number: int
    ) -> None:
        """Records a sample of a template's images as traces."""
        source = template.template
        parsed = None if source is None or self._parse is None else self._parse(source)

        def prompt(row: SampleResult) -> str:
            return "" if parsed is None else parsed.render({**self._variables, **row.context})

        entities.log_traces(
            self._store(),
            run,
            template,
            prompt,
            name=name,
            number=number,
            identity=f"{self._run}/{name}",
            model=self._vlm,
            images=self._images,
        )

    # -- results -----------------------------------------------------------------------------------

    def _finish(self, result: TuneResult) -> None:
        import mlflow

        run = str(self._run)
        with self._active(run) as folder:
            values.write_result(folder, result, self._images)
            if result.iterations:
                mlflow.set_tag(_NOTE, values.about_result(result, self._store().page(run)))
            mlflow.set_tag(entities.TARGET_REACHED, entities.status_of(result))
            for held in result.heldout:
                if held.name != OBJECTIVES_CHOICE:
                    # MLflow shows the last step, so the winner's, whoever chose it.
                    step = 0 if held.name == "baseline" else len(result.iterations)
                    mlflow.log_metrics(values.heldout_metrics(held), step=step)
            mlflow.log_metrics(values.usage_metrics(result.usage))

    def _finish_group(self, result: ComparisonResult, group: ComparisonGroup) -> None:
        import mlflow

        run = self._group_run(group, None)
        self._above = run
        if not self._images:  # its runs were finished before
            self._images = {key: Path(file) for key, file in result.provenance.images.items()}
        with self._active(run, "FINISHED") as folder:
            values.write_result(folder, result, self._images)
            mlflow.set_tag(_NOTE, values.about_result(result, self._store().page(run)))
            # The page shows them in this order: the baseline last.
            for held in sorted(result.heldout, key=lambda held: held.name == "baseline"):
                # A measure's name may hold its model's slash.
                name = entities.registered_name(held.name, dots=True)
                (folder / f"template_{name}.j2").write_text(held.template, encoding="utf-8")
                mlflow.log_metrics(values.heldout_metrics(held, held.name))

    def _register_prompts(self, result: TuneResult) -> None:
        import mlflow

        run = str(self._run)
        runs = {number: [run, child] for number, (child, _) in self._recorded.items()}
        addresses = entities.register_prompts(result, root=self._above or run, runs=runs)
        with self._active(run):
            mlflow.set_tag("taxtune.prompt", addresses[result.winner])

    def _log_classifier(self, result: TuneResult) -> None:
        """Logs the winner as a model that MLflow can serve, if nothing of it was given in Python."""
        from taxtune.classifier import load_classifier

        try:
            load_classifier(result)
        except TaxtuneError:
            return
        run = str(self._run)
        with self._active(run):
            entities.log_classifier(result, run, find_saved(Path(result.folder)))


def _name_of(record: IterationRecord) -> str:
    return f"iteration {record.iteration:02d}" if record.iteration else "baseline"


class TrackingCallback(Callback):
    """Records runs in MLflow, with a nested run for each iteration and templates as prompts.

    Iterations are recorded in a thread, so that the model need not wait for MLflow; the end of a run
    waits until all is recorded.

    Args:
        make_tracker: Returns a new record of a run; called once a run.
    """

    def __init__(self, make_tracker: Callable[[], MLflowTracker]) -> None:
        self._make = make_tracker
        self.tracker = make_tracker()
        self._lost = False
        self._thread: ThreadPoolExecutor | None = None

    def where(self) -> dict[str, str]:
        """Returns the place to look at the record."""
        return {"experiments": self._make().where()}

    def recorded_all(self) -> bool:
        """Tells whether all that was told is recorded, of the runs before this one, too."""
        return self.tracker.whole and not self._lost

    def on_start(self, tuner: Tuner, done: Sequence[IterationRecord]) -> None:
        """Starts the run's record, or goes on with the one that the history remembers.

        Raises:
            TaxtuneError: If the store cannot be reached or written.
        """
        self._lost = not self.recorded_all()
        self.tracker = self._make()
        experiment = tuner.experiment
        objective = experiment.objective
        splits = experiment.splits
        examples = (*splits.tuning, *splits.heldout)
        recipe = dict(experiment.settings)
        recipe["objective"] = {"kind": objective.name, **objective.identity()}
        # First what people compare runs by.
        parameters = {
            "objective": objective.name,
            "goal": goal_in_words(objective.spec),
            "model": experiment.vlm.identity.get("model"),
            "proposer": recipe["proposer"].get("model") or recipe["proposer"]["kind"],
            "images": f"{len(splits.tuning)} for tuning, {len(splits.heldout)} held out",
            "recipe": recipe,
            # What the model turned out to be: the commit behind a branch, the dtype behind "auto".
            "resolved": {
                "vlm": dict(experiment.vlm.identity),
                "mapper": dict(experiment.mapper.identity()),
                "proposer": dict(experiment.proposer.identity()),
            },
        }
        run = self.tracker.start(
            f"{experiment.recipe.name} ({objective.name})",
            parameters,
            {"taxtune.recipe": experiment.recipe.name, "taxtune.objective": objective.name},
            tuner.history.note("mlflow_run"),
            group=tuner.group,
            images={example.id: Path(example.image).resolve() for example in examples},
            parse=experiment.rules.parse,
            variables=experiment.variables,
        )
        # Before anything is asked: of a run that is killed there would be a second record otherwise.
        tuner.history.set_note("mlflow_run", run)
        self._thread = ThreadPoolExecutor(1, "taxtune-tracking")
        for record, leader in zip(done, leaders(done, experiment.objective), strict=True):
            best = next((each for each in done if each.iteration == leader), None)
            self._then(self.tracker.iteration, record, best)

    def on_iteration(self, record: IterationRecord, best: IterationRecord | None) -> None:
        """Records the iteration."""
        self._then(self.tracker.iteration, record, best)

    def on_result(self, result: TuneResult | ComparisonResult) -> None:
        """Records the held-out scores, the files and the templates of a run."""
        if isinstance(result, TuneResult):
            self._then(self.tracker.finish, result).result()

    def on_comparison(self, result: ComparisonResult, group: ComparisonGroup) -> None:
        """Records the comparison in the run above its runs."""
        self.tracker.group(result, group)

    def on_stop(self, status: str) -> None:
        """Ends the run's record, once all that was told is recorded."""
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None
        self.tracker.close(_STATUS[status])

    def _then(self, work: Callable[..., None], *arguments: Any) -> Future[None]:
        """Has the thread do something after its present work."""
        assert self._thread is not None
        # Notes go to the display in force here.
        return self._thread.submit(copy_context().run, work, *arguments)
