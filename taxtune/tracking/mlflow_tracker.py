"""Records a run in MLflow, by its fluent API.

A tuning run is a run, each iteration one nested in it, and a comparison one above its tuning runs. Names of runs are
deterministic and a tag says that an iteration is wholly recorded: a run that is resumed records what is not yet
recorded. Recording never decides over a run: where it fails, a note says so and the run goes on.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from taxtune.errors import TaxtuneError
from taxtune.progress import note
from taxtune.report.pictures import thumbnail
from taxtune.report.scores import best_so_far
from taxtune.report.summary import verdict
from taxtune.tracking import notes, registry, values
from taxtune.tracking.store import Store, in_force, open_store, short_reason, store_uri, unusable
from taxtune.tracking.traces import log_traces
from taxtune.tracking.values import Files
from taxtune.tuning.callbacks import Group
from taxtune.tuning.records import ComparisonResult, HeldoutResult, IterationRecord, TuneResult

__all__ = ["MLflowTracker", "Split"]

_PARENT, _NOTE = "mlflow.parentRunId", "mlflow.note.content"
_KIND, _GROUP = "taxtune.kind", "taxtune.group"
_ITERATION, _RECORDED = "taxtune.iteration", "taxtune.recorded"
_PARAMETERS_PER_CALL = 100
#: How many rows of a table have pictures: the worst of an iteration, and of the held-out images what changed most.
_PICTURES, _HELDOUT_PICTURES = 24, 100


@dataclass(frozen=True)
class Split:
    """The images of a split, with their labels.

    Attributes:
        context: The use of the split.
        name: Name of the data set.
        source: A path or an address.
        images: Image files, by example id.
        labels: Path of each label on the tree, joined with "/", by example id.
        digest: Tells these images and labels from others.
    """

    context: Literal["tuning", "heldout"]
    name: str
    source: str
    images: Mapping[str, Path] = field(repr=False)
    labels: Mapping[str, str] = field(repr=False)
    digest: str


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
        traces: int = 5,
        model: bool = True,
    ) -> None:
        self._experiment, self._folder = experiment, Path(folder)
        self._traced, self._with_model = traces, model
        self._uri = store_uri(folder, tracking_uri)
        self._opened: Store | None = None
        self._run: str | None = None
        self._above: str | None = None
        self._splits: tuple[Split, ...] = ()
        self._images: dict[str, Path] = {}
        self._render: Callable[[str], str] | None = None
        self._vlm = ""
        self._runs: dict[str, str] = {}  # of iterations, by name, recorded or not
        self._recorded: dict[int, tuple[str, int]] = {}  # run and number of images of each recorded iteration
        self._unrecorded: set[int] = set()
        self._failed = False

    @property
    def whole(self) -> bool:
        """Whether everything is recorded."""
        return not (self._unrecorded or self._failed)

    @property
    def unrecorded(self) -> tuple[int, ...]:
        """Numbers of the iterations that could not be recorded yet."""
        return tuple(sorted(self._unrecorded))

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
        """Starts a tuning run's record, or continues an earlier one.

        Args:
            name: Name of the run.
            parameters: The recipe; nested keys are joined with dots, and the whole of it is kept as `recipe.yaml` too,
                since MLflow cuts long values. The values below "resolved" are left out there.
            tags: Tags of the run.
            run_id: The run to continue; where the store does not know it, a new one is started.
            group: The comparison that the run is part of; its run is made where there is none yet.
            splits: The images; `data` records them.
            render: Returns the prompt that a template makes, for traces.

        Returns:
            The run's id.

        Raises:
            TaxtuneError: If the store cannot be reached or written.
        """
        self._splits, self._render = tuple(splits), render
        self._images = {key: file for split in splits for key, file in split.images.items()}
        self._vlm = str(parameters.get("resolved", {}).get("vlm", {}).get("model", ""))
        try:
            with self._mlflow():
                if group is not None:
                    self._above = self._group_run(group, parameters)
                self._run = self._continued(run_id)
                if self._run is None:
                    tags = {_KIND: "tuning run", _NOTE: notes.UNFINISHED, **tags}
                    self._run = self._new_run(name, tags, self._above)
                    if run_id is not None:
                        note(f"MLflow does not know the run {run_id}; its iterations will be recorded again.")
                self._log_recipe(self._run, parameters)
                for run in self._search(f"tags.`{_PARENT}` = '{self._run}'"):
                    self._runs[run.info.run_name] = run.info.run_id
                    if run.data.tags.get(_RECORDED) == "true":
                        images = int(run.data.metrics.get("images", 0))
                        self._recorded[int(run.data.tags[_ITERATION])] = (run.info.run_id, images)
                return self._run
        except TaxtuneError:
            raise
        except Exception as error:
            raise unusable(self._uri, error) from error

    def data(self) -> None:
        """Records the splits as inputs of the run and of the one above it."""
        if self._splits:
            self._try("the data sets", self._data)

    def iteration(self, record: IterationRecord, best: IterationRecord | None = None) -> None:
        """Records an iteration as a nested run, unless it is recorded already.

        Args:
            record: The iteration.
            best: The best iteration so far, for the tuning run's curves.
        """
        number = record.iteration
        if self._recorded.get(number, ("", -1))[1] >= len(record.rows):
            return
        try:
            with self._mlflow() as mlflow:
                self._record(mlflow, record, best)
            self._unrecorded.discard(number)
        except Exception as error:
            # One note is enough: `finish` tries again.
            if not self._unrecorded:
                note(f"MLflow could not record iteration {number}; the run continues: {short_reason(error)}")
            self._unrecorded.add(number)

    def finish(self, result: TuneResult) -> None:
        """Records the held-out scores, the run's files and its templates, and each iteration as the race left it."""
        for record, best in zip(result.iterations, best_so_far(result.iterations), strict=True):
            self.iteration(record, best)
        if self._unrecorded:
            numbers = ", ".join(map(str, self.unrecorded))
            note(f"MLflow has no record of iterations {numbers}; the run's folder has one.")
        self._try("the result", lambda mlflow: self._finish(mlflow, result))
        self._try("the templates as prompts", lambda mlflow: self._prompts(mlflow, result))
        for held in result.heldout:
            self._try("traces", partial(self._trace, self._run or "", held, f"heldout/{held.name}", held.template))
        if self._with_model and result.heldout:
            self._try("the winner as a model", lambda mlflow: self._model(result))

    def group(self, result: ComparisonResult, group: Group) -> str | None:
        """Records the result of runs that belong together, and replaces what was recorded of them before.

        Returns:
            The id of the run above them, or None where it could not be recorded.

        Raises:
            TaxtuneError: If the store cannot be reached at all.
        """
        self._store()
        self._try("the comparison", lambda mlflow: self._finish_group(mlflow, result, group))
        return self._above

    def close(self, status: str = "FINISHED") -> None:
        """Ends the run as "FINISHED", "FAILED" or "KILLED"; without a started run it does nothing.

        The run above it continues unless this one failed: there may be others.
        """

        def end(mlflow: Any) -> None:
            runs = [self._run] if status == "FINISHED" else [*self._runs.values(), self._run, self._above]
            # A run is left as "FAILED" by a call that could not record something.
            ended = ("RUNNING", "FAILED") if status == "FINISHED" else ("RUNNING",)
            for run in runs:
                if run is not None and mlflow.get_run(run).info.status in ended:
                    mlflow.MlflowClient().set_terminated(run, status)

        if self._run is not None:
            self._try("the end of the run", end)

    def where(self) -> str:
        """Returns the command or the address that shows the record."""
        store = self._opened or Store(None, self._uri, "")
        return store.where(self._above or self._run)

    # -- runs ----------------------------------------------------------------------------------------------------------

    def _store(self) -> Store:
        if self._opened is None:
            self._opened = open_store(self._experiment, self._folder, self._uri)
        return self._opened

    @contextmanager
    def _mlflow(self) -> Iterator[Any]:
        """Yields the module `mlflow`, set to the store and the experiment for the block."""
        with in_force(self._store()) as mlflow:
            yield mlflow

    @contextmanager
    def _active(self, mlflow: Any, run: str, status: str = "RUNNING", **options: Any) -> Iterator[None]:
        """Makes a run the active one for the block, after which it has a status; "FAILED" after an error."""
        mlflow.start_run(run_id=run, nested=True, **options)
        ended = "FAILED"
        try:
            yield
            ended = status
        finally:
            mlflow.end_run(ended)

    def _new_run(self, name: str, tags: Mapping[str, str], parent: str | None) -> str:
        texts = {key: values.cut(str(value), values.TAG_LIMIT) for key, value in tags.items() if value}
        texts = {"mlflow.source.name": "taxtune", **texts, **({} if parent is None else {_PARENT: parent})}
        # Not by `mlflow.start_run`, which nests it in a run that the caller of `tune` has active.
        store = self._store()
        return str(store.client.create_run(store.experiment, tags=texts, run_name=name).info.run_id)

    def _continued(self, run_id: str | None) -> str | None:
        """Returns the run to continue, None where the store does not know it: another store, or its file is gone."""
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
        with self._active(mlflow, run_id):
            if self._above is not None and run.data.tags.get(_PARENT) != self._above:
                mlflow.set_tag(_PARENT, self._above)
        return run_id

    def _group_run(self, group: Group, parameters: Mapping[str, Any] | None) -> str:
        """Returns the run above those of a group, which continues, or which is made."""
        import mlflow

        there = self._search(f"tags.`{_GROUP}` = '{group.identity}'")
        if there:
            run = str(there[-1].info.run_id)  # the first that was made
            with self._active(mlflow, run):
                pass
        else:
            tags = {_KIND: "comparison", _GROUP: group.identity, _NOTE: notes.UNFINISHED}
            run = self._new_run(f"compare: {group.name}", tags, None)
        if parameters is not None:
            shared = {key: value for key, value in parameters.items() if key not in ("objective", "resolved")}
            self._log_recipe(run, shared)
        return run

    def _log_recipe(self, run: str, parameters: Mapping[str, Any]) -> None:
        import mlflow
        import yaml

        # MLflow refuses to change a parameter, and a resumed run has them.
        known = mlflow.get_run(run).data.params
        new = [(key, value) for key, value in values.flatten(parameters) if key not in known]
        for start in range(0, len(new), _PARAMETERS_PER_CALL):
            mlflow.log_params(dict(new[start : start + _PARAMETERS_PER_CALL]), run_id=run)
        recipe = {key: value for key, value in values.plain(parameters).items() if key != "resolved"}
        mlflow.log_text(yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True), "recipe.yaml", run_id=run)

    def _search(self, condition: str) -> list[Any]:
        import mlflow

        return list(mlflow.search_runs([self._store().experiment], condition, output_format="list"))

    # -- iterations ----------------------------------------------------------------------------------------------------

    def _record(self, mlflow: Any, record: IterationRecord, best: IterationRecord | None) -> None:
        """Records an iteration, or what the race has added to it; a step is a number of images, which grows."""
        number, new = record.iteration, record.iteration not in self._recorded
        name = "baseline" if number == 0 else f"iteration {number:02d}"
        tags = {_ITERATION: str(number), _KIND: "iteration", "taxtune.state": record.state}
        tags |= {"taxtune.feasible": str(record.feasible).lower(), _NOTE: notes.about_iteration(record)}
        tags |= {} if record.reason is None else {"taxtune.reason": values.cut(record.reason, values.TAG_LIMIT)}
        run = self._runs.get(name)
        if run is None:
            run = self._runs[name] = self._new_run(name, tags, self._run)
        files = Files(self._images)
        if record.template is not None:
            files.text("template.j2", record.template)
        files.json("scores.json", values.all_scores(record))
        if record.rejected:
            refused = [{"template": template, "reason": reason} for template, reason in record.rejected]
            files.json("rejected.json", {"rejected": refused})
        if record.trace:
            files.json("trace.json", {"trace": [asdict(turn) for turn in record.trace]})
        files.table("examples.json", values.example_table(record.rows), pictures=_PICTURES)
        with self._active(mlflow, run, "FINISHED" if record.state == "complete" else "FAILED"):
            mlflow.log_params(dict(values.flatten({"iteration": number, **record.parameters})))
            mlflow.log_metrics(values.iteration_metrics(record), step=len(record.rows))
            files.log(mlflow, run)
            if new:
                self._trace(run, record, str(number), record.template)
                curves = {"objective": record.value, **values.headline_metrics(record.scores)}
                curves["best.objective"] = None if best is None else best.value
                mlflow.log_metrics(values.finite(curves), step=number, run_id=self._run)
            mlflow.set_tag(_RECORDED, "true")
        self._recorded[number] = (run, len(record.rows))

    def _trace(
        self, run: str, asked: IterationRecord | HeldoutResult, what: str, template: str | None, _: Any = None
    ) -> None:
        """Records a sample of a template's images as traces."""
        log_traces(
            self._store(),
            run,
            asked,
            None if template is None or self._render is None else self._render(template),
            number=self._traced,
            identity=f"{self._run}/{what}",
            model=self._vlm,
            images=self._images,
        )

    # -- results -------------------------------------------------------------------------------------------------------

    def _finish(self, mlflow: Any, result: TuneResult) -> None:
        run, folder = str(self._run), Path(result.folder)
        files = self._result_files(result, folder)
        for name in ("winner.txt", "winner.j2"):
            files.copy(folder / name)
        with self._active(mlflow, run):
            files.log(mlflow, run)
            if result.iterations:
                mlflow.set_tag(_NOTE, notes.about_result(result))
            if result.selection is not None and result.selection.status is not None:
                mlflow.set_tag(registry.TARGET_REACHED, result.selection.status)
            for held in result.heldout[:2]:
                step = 0 if held is result.heldout[0] else result.winner
                mlflow.log_metrics(values.heldout_metrics(held), step=step)
            account = result.account
            mlflow.log_metrics(values.finite({"seconds": account.seconds, "cost_usd": account.usd}))

    def _finish_group(self, mlflow: Any, result: ComparisonResult, group: Group) -> None:
        run = self._above = self._group_run(group, None)
        if not self._images:  # its runs were finished before
            self._images = {key: Path(file) for key, file in result.provenance.images.items()}
        metrics: dict[str, float] = {}
        files = self._result_files(result, Path(result.folder))
        for held in result.heldout:
            metrics |= values.heldout_metrics(held, held.name)
            files.text(f"template_{held.name}.j2", held.template)
        with self._active(mlflow, run, "FINISHED"):
            files.log(mlflow, run)
            mlflow.set_tag(_NOTE, notes.about_result(result))
            mlflow.log_metrics(metrics)

    def _result_files(self, result: TuneResult | ComparisonResult, folder: Path) -> Files:
        files = Files(self._images)
        for name, table in values.result_tables(result).items():
            files.table(name, table)
        files.table("heldout_images.json", values.image_table(result.heldout), pictures=_HELDOUT_PICTURES)
        for file in (*sorted(folder.glob("*.png")), *sorted(folder.glob("*.svg"))):
            files.copy(file, "figures")
        # With the latter two `load_run` reads the run where its folder is not there.
        for name in ("report.html", "result.json", "provenance.json"):
            files.copy(folder / name)
        return files

    def _prompts(self, mlflow: Any, result: TuneResult) -> None:
        run = str(self._run)
        runs = {number: [run, child] for number, (child, _) in self._recorded.items()}
        name = registry.registered_name(result.name, dots=True)
        addresses = registry.register_prompts(name, registry.versions_of(result), root=self._above or run, runs=runs)
        with self._active(mlflow, run):
            mlflow.set_tag("taxtune.prompt", addresses[result.winner])

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
        shown = next((file for row in held.rows if (file := self._images.get(row.example))), None)
        with tempfile.TemporaryDirectory(prefix="taxtune-") as folder:
            registry.log_classifier(
                self._store(),
                str(self._run),
                classifier.save(Path(folder) / "classifier"),
                name=f"{result.name}-{result.objective}-classifier",
                metrics=values.headline_metrics(held.scores),
                tags={"objective": result.objective},
                example=None if shown is None else thumbnail(shown),
                step=result.winner,
                status=None if result.selection is None else result.selection.status,
                description=verdict(result),
            )

    def _data(self, mlflow: Any) -> None:
        import pandas as pd
        from mlflow.data.sources import LocalArtifactDatasetSource

        for run in filter(None, (self._above, self._run)):
            with self._active(mlflow, run):
                for split in self._splits:
                    frame = pd.DataFrame({"image": list(split.labels), "label": list(split.labels.values())})
                    # MLflow finds two readings of a path, both the same, and warns of it.
                    source = split.source if "://" in split.source else LocalArtifactDatasetSource(split.source)
                    made = mlflow.data.from_pandas(
                        frame, source=source, targets="label", name=split.name, digest=split.digest
                    )
                    mlflow.log_input(made, context=split.context)

    def _try(self, what: str, action: Callable[[Any], object]) -> None:
        try:
            with self._mlflow() as mlflow:
                action(mlflow)
        except Exception as error:
            note(f"MLflow could not record {what}: {short_reason(error)}")
            self._failed = True
