"""Records a run in MLflow.

A tuning run is a run, each iteration one nested in it, and a comparison, or a run that is repeated, one above its
tuning runs. Recording never decides over a run: an iteration that could not be recorded is kept and tried again, with
one note to the user, and the run goes on. What is recorded already is not recorded twice when a run is resumed.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from taxtune.errors import TaxtuneError
from taxtune.progress import note
from taxtune.report.pictures import thumbnail
from taxtune.report.summary import verdict
from taxtune.report.wording import best_so_far
from taxtune.tracking import notes, prompts, values
from taxtune.tracking.base import Group, Split
from taxtune.tracking.data import evaluation_dataset, run_input
from taxtune.tracking.files import Files, Pictures
from taxtune.tracking.model import TARGET_REACHED, log_classifier
from taxtune.tracking.store import Store, hushed, open_store, short_reason, sqlite_path, store_uri
from taxtune.tracking.traces import link_traces, log_traces
from taxtune.tuning.records import ComparisonResult, HeldoutResult, IterationRecord, TuneResult
from taxtune.untrusted import redact

__all__ = ["MLflowTracker"]

_PARENT, _NOTE, _SOURCE = "mlflow.parentRunId", "mlflow.note.content", {"mlflow.source.name": "taxtune"}
_KIND, _GROUP = "taxtune.kind", "taxtune.group"
_ITERATION, _RECORDED = "taxtune.iteration", "taxtune.recorded"
_PARAMETERS_A_CALL, _METRICS_A_CALL = 100, 1000
#: How many rows of a table have pictures: the worst of an iteration, and of the held-out images what changed most.
_PICTURES, _HELDOUT_PICTURES = 24, 100
_SAMPLED_EVERY = 5  # seconds between two looks at what the machine is doing
T = TypeVar("T")


class MLflowTracker:
    """Records a run in MLflow.

    Args:
        experiment: Name of the MLflow experiment.
        folder: The run's folder; by default the store is `mlflow.db` with `mlartifacts/` in it.
        tracking_uri: Another store; without it `MLFLOW_TRACKING_URI` counts.
        traces: Most images of a template that become traces.
        model: Whether to log the winner as a model.
    """

    def __init__(
        self,
        experiment: str,
        folder: str | Path,
        tracking_uri: str | None = None,
        *,
        traces: int = 0,
        model: bool = False,
    ) -> None:
        self._experiment = experiment
        self._traced, self._with_model = traces, model
        self._folder = Path(folder)
        self._uri = store_uri(folder, tracking_uri)
        self._opened: Store | None = None
        self._run: str | None = None
        self._above: str | None = None
        self._splits: tuple[Split, ...] = ()
        self._images: dict[str, Path] = {}
        self._pictures = Pictures({})
        self._render: Callable[[str], str] | None = None
        self._vlm = ""
        #: Of each iteration that is recorded, its run and of how many images.
        self._recorded: dict[int, tuple[str, int]] = {}
        self._pending: dict[int, tuple[IterationRecord, IterationRecord | None]] = {}
        self._addresses: dict[str, str] = {}  # of templates in the prompt registry
        self._complained = self._failed = False
        self._monitor: Any = None

    @property
    def whole(self) -> bool:
        """Whether all that was told is recorded."""
        return not (self._pending or self._failed)

    @property
    def unrecorded(self) -> tuple[int, ...]:
        """Numbers of the iterations that could not be recorded yet."""
        return tuple(sorted(self._pending))

    def start(
        self,
        name: str,
        parameters: Mapping[str, Any],
        tags: Mapping[str, str],
        run_id: str | None = None,
        *,
        group: Group | None = None,
        splits: Sequence[Split] = (),
        render: Callable[[str], str] | None = None,
    ) -> str:
        """Starts a tuning run's record, or goes on with an earlier one.

        Args:
            name: Name of the run.
            parameters: The recipe, nested or flat; nested keys are joined with dots, and the whole of it is kept as
                `recipe.yaml` too, since MLflow cuts long values. What is below "resolved" is left out there.
            tags: Tags of the run.
            run_id: The run to go on with; where the store does not know it, a new one is started.
            group: What the run is a part of; its run is made where it is not there yet.
            splits: The images; `data` records them.
            render: Returns the prompt that a template makes, for traces.

        Returns:
            The run's id.

        Raises:
            TaxtuneError: If the store cannot be reached or written.
        """
        self._store()
        self._splits = tuple(splits)
        self._images = {key: file for split in splits for key, file in split.images.items()}
        self._pictures, self._render = Pictures(self._images), render
        self._vlm = str(parameters.get("resolved", {}).get("vlm", {}).get("model", ""))
        try:
            if group is not None:
                self._above = self._group_run(group, parameters)
            return self._start(name, parameters, tags, run_id)
        except Exception as error:
            raise TaxtuneError(
                f"MLflow cannot record the run at {redact(self._uri)}: {short_reason(error).rstrip('.')}.",
                remedy="Check the tracking server or its disk, or unset MLFLOW_TRACKING_URI to record in the run's "
                "folder.",
            ) from error

    def data(self) -> None:
        """Records the splits as inputs of the run and of the one above it, and as evaluation data sets."""
        if self._splits:
            self._try("the data sets", self._data)

    def iteration(self, record: IterationRecord, best: IterationRecord | None = None) -> None:
        """Records an iteration as a nested run, unless it is recorded already.

        Args:
            record: The iteration.
            best: The best iteration so far, for the tuning run's curves.
        """
        if record.iteration not in self._recorded:
            self._pending[record.iteration] = (record, best)
        self._flush()

    def finish(self, result: TuneResult) -> None:
        """Records the held-out scores, the run's files and its templates, and each iteration as the race left it."""
        for record, best in zip(result.iterations, best_so_far(result.iterations), strict=True):
            if self._recorded.get(record.iteration, ("", -1))[1] < len(record.rows):
                self._pending.setdefault(record.iteration, (record, best))
        self._flush()
        if self._pending:
            note(
                f"MLflow has no record of iterations {', '.join(map(str, self.unrecorded))}; the run's folder has one."
            )
        self._try("the result", lambda: self._finish(result))
        self._try("the templates as prompts", lambda: self._prompts(result))
        for held in result.heldout:
            self._try("traces", partial(self._trace, self._parent(), held, f"heldout/{held.name}", held.template))
        if self._with_model and result.heldout:
            self._try("the winner as a model", lambda: self._model(result))

    def group(self, result: ComparisonResult, group: Group) -> str | None:
        """Records what came of runs that belong together, in place of what was recorded of them before.

        Args:
            result: What came of them.
            group: What joins them.

        Returns:
            The id of the run above them, or None where it could not be recorded.

        Raises:
            TaxtuneError: If the store cannot be reached at all.
        """
        self._store()
        return self._try("the comparison", lambda: self._finish_group(result, group))

    def close(self, status: str = "FINISHED") -> None:
        """Ends the run as "FINISHED", "FAILED" or "KILLED"; without a started run it does nothing.

        The run above it goes on unless this one failed: there may be others.
        """
        if self._monitor is not None:
            self._monitor.finish()
        if self._run is not None:
            self._try("the end of the run", lambda: self._close(status))

    def where(self) -> str:
        """Returns the command or the address that shows what is recorded."""
        store = self._opened or Store(None, self._uri, "")
        return store.where(self._above or self._run)

    def address(self) -> str:
        """Returns the store's address and the experiment's name, the address from the run's folder if it is in it."""
        file, folder = sqlite_path(self._uri), self._folder.resolve()
        place = file.relative_to(folder).as_posix() if file and file.is_relative_to(folder) else redact(self._uri)
        return f"{place} {self._experiment}"

    # -- runs ----------------------------------------------------------------------------------------------------------

    def _close(self, status: str) -> None:
        client, run = self._store().client, self._parent()
        client.set_terminated(run, status)
        if status != "FINISHED":
            # What interrupted the run may have come in the middle of recording an iteration.
            for child in self._search(f"tags.`{_PARENT}` = '{run}'"):
                if child.info.status == "RUNNING":
                    client.set_terminated(child.info.run_id, status)
            if self._above is not None:
                client.set_terminated(self._above, status)

    def _store(self) -> Store:
        if self._opened is None:
            self._opened = open_store(self._experiment, self._folder, self._uri)
        return self._opened

    def _parent(self) -> str:
        if self._run is None:
            raise RuntimeError("start() comes first")
        return self._run

    def _start(self, name: str, parameters: Mapping[str, Any], tags: Mapping[str, str], run_id: str | None) -> str:
        client = self._store().client
        tags = {_KIND: "tuning run", **({} if self._above is None else {_PARENT: self._above}), **tags}
        run = self._known(run_id)
        if run is None:
            objective = parameters.get("objective")
            kind = objective.get("kind") if isinstance(objective, Mapping) else None
            run = self._new_run(name, {_NOTE: notes.about_start(kind, self._splits), **tags})
            self._run = str(run.info.run_id)  # from here on `close` has a run to end, whatever happens
            self._describe_experiment()
            if run_id is not None:
                note(f"MLflow does not know the run {run_id}; its iterations will be recorded again.")
        else:
            self._run = str(run.info.run_id)
            client.update_run(self._run, status="RUNNING")
            if self._above is not None and run.data.tags.get(_PARENT) != self._above:
                client.set_tag(self._run, _PARENT, self._above)
        self._log_recipe(run, parameters)
        self._recorded = self._children()
        self._watch(self._run, resumed=run_id is not None)
        return self._run

    def _group_run(self, group: Group, parameters: Mapping[str, Any] | None) -> str:
        """Returns the run above those of a group, which goes on, or which is made."""
        client = self._store().client
        found = self._search(f"tags.`{_GROUP}` = '{group.identity}'")
        if found:
            run = found[-1]  # the first that was made
            client.update_run(run.info.run_id, status="RUNNING")
        else:
            tags = {_KIND: "comparison", _GROUP: group.identity, _NOTE: notes.about_start(None, self._splits)}
            run = self._new_run(f"compare: {group.name}", tags)
        if parameters is not None:
            shared = {key: value for key, value in parameters.items() if key not in ("objective", "resolved")}
            self._log_recipe(run, shared)
        return str(run.info.run_id)

    def _new_run(self, name: str, tags: Mapping[str, str]) -> Any:
        store = self._store()
        texts = {key: values.cut(str(value), values.TAG_LIMIT) for key, value in tags.items() if value}
        return store.client.create_run(store.experiment, tags={**_SOURCE, **texts}, run_name=name)

    def _log_recipe(self, run: Any, parameters: Mapping[str, Any]) -> None:
        import yaml

        # MLflow refuses to change a parameter, and a resumed run has them.
        known, client = run.data.params, self._store().client
        self._log(run.info.run_id, parameters={k: v for k, v in values.flatten(parameters) if k not in known})
        recipe = {key: value for key, value in values.plain(parameters).items() if key != "resolved"}
        client.log_text(run.info.run_id, yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True), "recipe.yaml")

    def _describe_experiment(self) -> None:
        store = self._store()
        if _NOTE not in store.client.get_experiment(store.experiment).tags:
            store.client.set_experiment_tag(store.experiment, _NOTE, notes.about_experiment())

    def _watch(self, run: str, *, resumed: bool) -> None:
        """Has MLflow record what the machine is doing, where psutil is installed and the user does not mind."""
        if os.environ.get("MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING", "true").lower() in ("false", "0"):
            return
        with suppress(ImportError):
            from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

            self._monitor = SystemMetricsMonitor(
                run, sampling_interval=_SAMPLED_EVERY, resume_logging=resumed, tracking_uri=self._uri
            )
            self._monitor.start()

    def _known(self, run_id: str | None) -> Any:
        if run_id is None:
            return None
        from mlflow.exceptions import MlflowException

        try:
            run = self._store().client.get_run(run_id)
        except MlflowException as error:
            # Another store, or its file was deleted: no reason not to go on.
            if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                return None
            raise
        return run if run.info.lifecycle_stage == "active" else None

    def _children(self) -> dict[int, tuple[str, int]]:
        """Returns the iterations that have a whole record, and deletes those that a crash left half-recorded."""
        store, found = self._store(), {}
        for run in self._search(f"tags.`{_PARENT}` = '{self._parent()}'"):
            number = run.data.tags.get(_ITERATION, "")
            if number.isdecimal() and run.data.tags.get(_RECORDED) == "true":
                found[int(number)] = (str(run.info.run_id), int(run.data.metrics.get("images", 0)))
            elif number:
                store.client.delete_run(run.info.run_id)
        return found

    def _search(self, condition: str) -> list[Any]:
        store, runs, token = self._store(), [], None
        while True:
            page = store.client.search_runs([store.experiment], condition, max_results=500, page_token=token)
            runs += list(page)
            token = page.token
            if not token:
                return runs

    # -- iterations ----------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        for number in sorted(self._pending):
            record, best = self._pending[number]
            try:
                run = self._record(record, best)
            except Exception as error:
                # One note is enough: the next iterations, and `finish`, try again.
                if not self._complained:
                    note(f"MLflow could not record iteration {number}; the run continues: {short_reason(error)}")
                self._complained = True
                return
            del self._pending[number]
            self._recorded[number] = (run, len(record.rows))
            self._complained = False

    def _record(self, record: IterationRecord, best: IterationRecord | None) -> str:
        """Records an iteration, or what the race has added to it; returns its run."""
        client, number = self._store().client, record.iteration
        known = self._recorded.get(number)
        if known is not None:
            self._fill(known[0], record)
            return known[0]
        # What an attempt before this one left half-recorded would be there twice.
        for there in self._search(f"tags.`{_PARENT}` = '{self._parent()}' and tags.`{_ITERATION}` = '{number}'"):
            if there.data.tags.get(_RECORDED) == "true":
                return str(there.info.run_id)
            client.delete_run(there.info.run_id)
        tags = {_PARENT: self._parent(), _ITERATION: str(number), _KIND: "iteration", "taxtune.state": record.state}
        tags |= {"taxtune.feasible": str(record.feasible).lower(), _NOTE: notes.about_iteration(record)}
        if record.reason is not None:
            tags["taxtune.reason"] = record.reason
        run = str(self._new_run("baseline" if number == 0 else f"iteration {number:02d}", tags).info.run_id)
        self._fill(run, record)
        self._trace(run, record, str(number), record.template)
        curves = {"objective": record.value, **values.headline_metrics(record.scores)}
        curves["best.objective"] = None if best is None else best.value
        self._log(self._parent(), metrics=values.finite(curves), step=number)
        client.set_tag(run, _RECORDED, "true")
        client.set_terminated(run, "FINISHED" if record.state == "complete" else "FAILED")
        return run

    def _fill(self, run: str, record: IterationRecord) -> None:
        """Puts an iteration's scores and files into its run; a step is a number of images, which grows in the race."""
        with Files(self._pictures) as files:
            if record.template is not None:
                files.text("template.j2", record.template)
            files.json("scores.json", values.all_scores(record))
            if record.rejected:
                refused = [{"template": template, "reason": reason} for template, reason in record.rejected]
                files.json("rejected.json", {"rejected": refused})
            if record.trace:
                files.json("trace.json", {"trace": [asdict(turn) for turn in record.trace]})
            files.table("examples.json", values.example_table(record.rows), pictures=_PICTURES)
            self._log(
                run,
                parameters=dict(values.flatten({"iteration": record.iteration, **record.parameters})),
                metrics=values.iteration_metrics(record),
                tags=files.log(self._store().client, run),
                step=len(record.rows),
            )

    def _trace(self, run: str, asked: IterationRecord | HeldoutResult, what: str, template: str | None) -> None:
        """Records a sample of a template's images as traces."""
        prompt = None if template is None or self._render is None else self._render(template)
        log_traces(
            self._store(),
            run,
            asked,
            prompt,
            number=self._traced,
            identity=f"{self._parent()}/{what}",
            model=self._vlm,
            images=self._images,
            prompt_version=self._addresses.get(template or ""),
        )

    # -- results -------------------------------------------------------------------------------------------------------

    def _finish(self, result: TuneResult) -> None:
        client, run, folder = self._store().client, self._parent(), Path(result.folder)
        with Files(self._pictures) as files:
            self._add_tables(files, result)
            for file in (*sorted(folder.glob("*.png")), *sorted(folder.glob("*.svg"))):
                files.copy(file, "figures")
            # With the latter two `load_run` reads the run where its folder is not at hand.
            for name in ("report.html", "winner.txt", "winner.j2", "result.json", "provenance.json"):
                files.copy(folder / name)
            tags = files.log(client, run)
        if result.iterations:
            tags[_NOTE] = notes.about_result(result, self._splits)
        if result.selection is not None and result.selection.status is not None:
            tags[TARGET_REACHED] = result.selection.status
        for held in result.heldout[:2]:
            step = 0 if held is result.heldout[0] else result.winner
            self._log(run, metrics=values.heldout_metrics(held), step=step)
        self._log(run, metrics=values.run_totals(result), tags=tags)

    def _finish_group(self, result: ComparisonResult, group: Group) -> str:
        client, folder = self._store().client, Path(result.folder)
        run = self._group_run(group, None)
        if not self._images:  # its runs were finished before, and are not recorded again
            self._images = {key: Path(file) for key, file in result.provenance.images.items()}
            self._pictures = Pictures(self._images)
        with Files(self._pictures) as files:
            metrics: dict[str, float] = {}
            for held in result.heldout:
                metrics |= values.heldout_metrics(held, held.name)
                files.text(f"template_{held.name}.j2", held.template)
            self._add_tables(files, result)
            for file in (*sorted(folder.glob("*.png")), *sorted(folder.glob("*.svg"))):
                files.copy(file, "figures")
            for name in ("report.html", "result.json", "provenance.json"):
                files.copy(folder / name)
            tags = files.log(client, run)
        tags[_NOTE] = notes.about_group(result, group, self._splits)
        self._log(run, metrics=metrics, tags=tags)
        client.set_terminated(run, "FINISHED")
        return run

    def _add_tables(self, files: Files, result: TuneResult | ComparisonResult) -> None:
        files.table("heldout.json", values.heldout_table(result.heldout))
        files.table("differences.json", values.difference_table(result))
        files.table("ranks.json", values.rank_table(result.heldout))
        files.table("heldout_images.json", values.image_table(result.heldout), pictures=_HELDOUT_PICTURES)

    def _prompts(self, result: TuneResult) -> None:
        client, run = self._store().client, self._parent()
        runs = {number: [run, each] for number, (each, _) in self._recorded.items()}
        with self._as_default_store():
            addresses = prompts.register(
                client,
                prompts.prompt_name(result.name),
                prompts.versions_of(result),
                root=self._above or run,
                runs=runs,
            )
        client.set_tag(run, "taxtune.prompt", addresses[result.winner])
        self._addresses = {
            record.template or "": addresses[record.iteration]
            for record in result.iterations
            if record.iteration in addresses
        }
        if self._traced:
            for number, (each, _) in self._recorded.items():
                if number in addresses:
                    link_traces(self._store(), each, addresses[number])

    def _model(self, result: TuneResult) -> None:
        """Logs the winner as a model that MLflow can serve, where nothing of it was given in Python."""
        from taxtune.classifier import load_classifier

        try:
            classifier = load_classifier(result)
        except TaxtuneError:
            return
        if not classifier.portable:
            return
        held = result.heldout_winner
        digests = [split.digest for split in self._splits if split.context == "heldout"]
        shown = next((file for row in held.rows if (file := self._images.get(row.example))), None)
        with tempfile.TemporaryDirectory(prefix="taxtune-") as folder, self._as_default_store():
            log_classifier(
                self._store(),
                self._parent(),
                classifier.save(Path(folder) / "classifier"),
                name=f"{result.name}-{result.objective}-classifier",
                metrics=values.headline_metrics(held.scores),
                worth=_worth(result),
                judged_on="".join(digests),
                tags={"objective": result.objective},
                example=None if shown is None else thumbnail(shown),
                step=result.winner,
                status=None if result.selection is None else result.selection.status,
                description=verdict(result),
            )

    def _data(self) -> None:
        store = self._store()
        inputs = [run_input(split) for split in self._splits]
        for run in filter(None, (self._above, self._run)):
            store.client.log_inputs(run, inputs)
        with self._as_default_store():
            for split in self._splits:
                evaluation_dataset(store.client, store.experiment, split)

    def _log(
        self,
        run: str,
        *,
        parameters: Mapping[str, str] | None = None,
        metrics: Mapping[str, float] | None = None,
        tags: Mapping[str, str] | None = None,
        step: int = 0,
    ) -> None:
        from mlflow.entities import Metric, Param, RunTag

        client, now = self._store().client, int(time.time() * 1000)
        params = [Param(key, value) for key, value in (parameters or {}).items()]
        numbers = [Metric(key, value, now, step) for key, value in (metrics or {}).items()]
        texts = [RunTag(key, values.cut(value, values.TAG_LIMIT)) for key, value in (tags or {}).items()]
        while params or numbers or texts:
            client.log_batch(run, numbers[:_METRICS_A_CALL], params[:_PARAMETERS_A_CALL], texts)
            numbers, params, texts = numbers[_METRICS_A_CALL:], params[_PARAMETERS_A_CALL:], []

    @contextmanager
    def _as_default_store(self) -> Iterator[None]:
        # What a client does with prompts looks for runs and the current experiment in the *default* store, and would
        # make an `mlflow.db` in the current folder; these variables are the public way of naming the one that is meant.
        store = self._store()
        meant = {"MLFLOW_TRACKING_URI": store.uri, "MLFLOW_EXPERIMENT_ID": store.experiment}
        before = {name: os.environ.pop(name, None) for name in (*meant, "MLFLOW_EXPERIMENT_NAME")}
        os.environ.update(meant)
        try:
            with hushed():
                yield
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value

    def _try(self, what: str, action: Callable[[], T]) -> T | None:
        try:
            return action()
        except Exception as error:
            note(f"MLflow could not record {what}: {short_reason(error)}")
            self._failed = True
            return None


def _worth(result: TuneResult) -> float:
    """Returns what a run's winner is worth on the held-out images, more is better: what it was tuned for.

    One that misses what the objective demands has by how much it does, below zero.
    """
    scores, baseline = result.heldout_winner.scores, result.heldout[0].scores
    missed = sum(each.missed(scores, baseline) for each in result.constraints)
    spec = result.spec
    if missed or spec is None or spec.measure is None or spec.measure not in scores.keys():  # noqa: SIM118 - no mapping
        return -missed if missed else scores.hf
    return scores.get(spec.measure) * (1 if spec.direction == "maximize" else -1)
