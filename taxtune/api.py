"""taxtune for Python: tune, compare and evaluate templates, place and score answers, and read runs back.

    import taxtune

    result = taxtune.tune(taxonomy="tree.csv", examples="photos/", vlm=answer, out="runs/birds")
    result.best.template

Everything that can be named can be given as an object or a function instead; the command line builds the same objects
from a recipe. See `taxtune.tuning` for what is built.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, cast

from taxtune.errors import DataError
from taxtune.progress import showing

if TYPE_CHECKING:
    from pandas import DataFrame

    from taxtune.data.sources import Source
    from taxtune.mapping import Mapper, MapperConfig
    from taxtune.metrics import HierarchicalScores
    from taxtune.models import Model
    from taxtune.policies import Policy
    from taxtune.recipe import Recipe
    from taxtune.recipe_settings import ExecutionSettings, SeedSettings
    from taxtune.taxonomy import Taxonomy
    from taxtune.tuning.calibrate import Calibration
    from taxtune.tuning.experiment import Experiment
    from taxtune.tuning.objective import Objective
    from taxtune.tuning.proposers import Proposer
    from taxtune.tuning.records import ComparisonResult, ExampleRow, TemplateScores, TuneResult
    from taxtune.tuning.repeats import RepeatsResult

__all__ = [
    "ExperimentArguments",
    "TuningArguments",
    "calibrate",
    "compare",
    "evaluate",
    "load_run",
    "make_experiments",
    "place",
    "repeat",
    "score",
    "tune",
]

_TUNING, _HELDOUT = 20, 200


class ExperimentArguments(TypedDict, total=False):
    """The arguments that `tune`, `compare` and `evaluate` share; `tune` says what each means."""

    taxonomy: Taxonomy | str | Path | Mapping[str, Any] | None
    examples: Source | None
    vlm: Model | Callable[..., Any] | str | None
    execution: str | Mapping[str, Any] | None
    recipe: Recipe | str | Path | None
    metrics: Mapping[str, Callable[[ExampleRow], Any]] | None
    mapper: Mapper | MapperConfig | None
    policy: Policy | Sequence[Policy] | None
    baseline: str | None
    question: str | None
    domain: str | None
    ranks: Sequence[str] | None
    tuning: int | None
    heldout: int | None
    seed: int | Mapping[str, int] | None
    max_missing: float | None


class TuningArguments(ExperimentArguments, total=False):
    """The arguments that `tune` and `compare` share."""

    proposer: Proposer | Callable[..., str] | str | None
    hp_target: float | None
    confidence: float | None
    hr_floor: float | str | None
    iterations: int | None
    max_off_tree: float | None


def make_experiments(  # noqa: D417 - `tune` says what its arguments mean
    objectives: Sequence[Objective | Callable[[TemplateScores], float] | str] = (),
    *,
    taxonomy: Taxonomy | str | Path | Mapping[str, Any] | None = None,
    examples: Source | None = None,
    vlm: Model | Callable[..., Any] | str | None = None,
    execution: str | Mapping[str, Any] | None = None,
    recipe: Recipe | str | Path | None = None,
    proposer: Proposer | Callable[..., str] | str | None = None,
    metrics: Mapping[str, Callable[[ExampleRow], Any]] | None = None,
    mapper: Mapper | MapperConfig | None = None,
    policy: Policy | Sequence[Policy] | None = None,
    baseline: str | None = None,
    question: str | None = None,
    domain: str | None = None,
    ranks: Sequence[str] | None = None,
    hp_target: float | None = None,
    confidence: float | None = None,
    hr_floor: float | str | None = None,
    tuning: int | None = None,
    heldout: int | None = None,
    iterations: int | None = None,
    seed: int | Mapping[str, int] | None = None,
    max_missing: float | None = None,
    max_off_tree: float | None = None,
    name: str | None = None,
    folder: str | Path = "runs/tune",
) -> list[Experiment]:
    """Returns what `tune` and `compare` would tune, as objects, an experiment an objective; nothing is asked yet.

    The arguments that are not listed are those of `tune`.

    Args:
        objectives: What `tune` takes as `objective`, once or several times; the recipe's or "hp" where there are none.
        folder: Where images that are in no file are written, and what language models say as judges is kept.

    Raises:
        TaxtuneError: If something is missing or wrong.
    """
    from taxtune.data import load_examples, split
    from taxtune.execution import deploy
    from taxtune.mapping import Mapper, MapperConfig
    from taxtune.policies import DIRECT
    from taxtune.recipe_settings import PromptSettings
    from taxtune.tuning.experiment import Experiment, trivial_scores
    from taxtune.tuning.from_recipe import Parts
    from taxtune.tuning.metrics import as_metrics
    from taxtune.tuning.objective import Aims, make_objective, read_floor
    from taxtune.tuning.proposers import make_proposer

    own = as_metrics(metrics)
    policies = () if policy is None else tuple(policy) if isinstance(policy, Sequence) else (policy,)
    if recipe is not None:
        given = {
            "name": name,
            "seed": seed,
            "iterations": iterations,
            "data.tuning": tuning,
            "data.heldout": heldout,
            "prompt.baseline": baseline,
            "prompt.question": question,
            "prompt.domain": domain,
            "prompt.ranks": None if ranks is None else list(ranks),
            "objective.hp_target": hp_target,
            "objective.confidence": confidence,
            "objective.hr_floor": hr_floor,
            "max_missing": max_missing,
            "max_off_tree": max_off_tree,
        }
        given |= {
            f"execution.{key}": value for key, value in _execution(execution).model_dump(exclude_unset=True).items()
        }
        changes = {key: value for key, value in given.items() if value is not None}
        parts = Parts(
            _recipe(recipe).changed(changes),
            Path(folder),
            own_proposer=None if proposer is None else make_proposer(proposer),
            own_taxonomy=None if taxonomy is None else _tree(taxonomy),
            own_examples=examples,
            own_metrics=own,
            own_policies=policies,
        )
        if vlm is not None:
            parts.vlm = deploy(vlm, execution=parts.execution)
        if mapper is not None:
            parts.own_mapper = mapper if isinstance(mapper, Mapper) else Mapper(parts.taxonomy, config=mapper)
        return [parts.experiment([each]) for each in objectives or (parts.recipe.objective.kind,)]
    if taxonomy is None or examples is None or vlm is None:
        raise DataError(
            "A run needs a taxonomy, examples and a vlm.",
            remedy="Give all three, or a recipe, such as recipe='fieldguide', and what is to be different.",
        )
    name = name or "tune"
    iterations, seeds = 30 if iterations is None else iterations, _seeds(seed)
    max_missing = 0.1 if max_missing is None else max_missing
    max_off_tree = 0.5 if max_off_tree is None else max_off_tree
    made_proposer = make_proposer(proposer or "fragments")
    model = deploy(vlm, execution=_execution(execution))
    tree = _tree(taxonomy)
    found = load_examples(examples, tree, folder=Path(folder) / "images")
    tuning = _TUNING if tuning is None else tuning
    if heldout is None:
        heldout = min(_HELDOUT, max(len(found) - tuning, 1))
    splits = split(found, tuning=tuning, heldout=heldout, seed=seeds.split)
    top = tree.common_ancestor({example.target for example in found})
    said = {
        "baseline": baseline,
        "question": question,
        "domain": domain or tree.common_name(top),
        "ranks": tuple(ranks or ()),
    }
    prompt = PromptSettings(**cast("Any", {key: value for key, value in said.items() if value is not None}))
    usual = Aims()
    aims = Aims(
        hr_floor=read_floor(hr_floor, trivial_scores(tree, top, splits)[1]),
        hp_target=usual.hp_target if hp_target is None else hp_target,
        confidence=usual.confidence if confidence is None else confidence,
    )
    goals = [make_objective(each, aims=aims, metrics=tuple(own)) for each in objectives or ("hp",)]
    config = mapper.config if isinstance(mapper, Mapper) else mapper or MapperConfig()
    settings = {
        "name": name,
        "seed": seeds.model_dump(),
        "taxonomy": {"path": str(tree.source)} if tree.source else {"kind": "python", "path": "given in Python"},
        "data": {
            "kind": "python",
            "path": str(examples) if isinstance(examples, str | Path) else f"{len(found)} images given in Python",
            "tuning": tuning,
            "heldout": heldout,
        },
        "prompt": prompt.model_dump(mode="json"),
        "iterations": iterations,
        "max_missing": max_missing,
        "max_off_tree": max_off_tree,
        "objective": {"kind": goals[0].name, **goals[0].identity()},
    }
    made = Experiment(
        name=name,
        taxonomy=tree,
        splits=splits,
        vlm=model,
        mapper=mapper if isinstance(mapper, Mapper) else Mapper(tree, config=config),
        proposer=made_proposer,
        policy=policies[0] if policies else DIRECT,
        alternatives=policies[1:],
        objective=goals[0],
        prompt=prompt,
        domain=top,
        metrics=own,
        iterations=iterations,
        seeds=seeds,
        max_missing=max_missing,
        max_off_tree=max_off_tree,
        off_tree=config.off_tree,
        settings=settings,
        fixed={f"prompt.{key}": value for key, value in prompt.model_dump(mode="json").items()}
        | {"name": name, "seed": seeds.fixed},
    )
    return [_with_objective(made, goal, Path(folder)) for goal in goals]


def _with_objective(experiment: Experiment, objective: Objective, folder: Path) -> Experiment:
    """Returns an experiment with an objective and the measures that it needs."""
    from dataclasses import replace

    from taxtune.metrics.base import MeasureSettings
    from taxtune.metrics.registry import make_measure
    from taxtune.tuning.metrics import MeasureMetric

    needed = {
        name: MeasureMetric(
            name,
            make_measure(name, MeasureSettings(cache_dir=folder)),
            experiment.taxonomy,
            experiment.prompt.question,
        )
        for name in objective.needs
        if name not in experiment.metrics
    }
    return replace(experiment, objective=objective, metrics={**experiment.metrics, **needed})


def tune(
    *,
    taxonomy: Taxonomy | str | Path | Mapping[str, Any] | None = None,
    examples: Source | None = None,
    vlm: Model | Callable[..., Any] | str | None = None,
    execution: str | Mapping[str, Any] | None = None,
    recipe: Recipe | str | Path | None = None,
    proposer: Proposer | Callable[..., str] | str | None = None,
    objective: Objective | Callable[[TemplateScores], float] | str | None = None,
    metrics: Mapping[str, Callable[[ExampleRow], Any]] | None = None,
    mapper: Mapper | MapperConfig | None = None,
    policy: Policy | Sequence[Policy] | None = None,
    baseline: str | None = None,
    question: str | None = None,
    domain: str | None = None,
    ranks: Sequence[str] | None = None,
    hp_target: float | None = None,
    confidence: float | None = None,
    hr_floor: float | str | None = None,
    tuning: int | None = None,
    heldout: int | None = None,
    iterations: int | None = None,
    seed: int | Mapping[str, int] | None = None,
    max_missing: float | None = None,
    max_off_tree: float | None = None,
    name: str | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    callbacks: Sequence[Any] = (),
    mlflow: bool | str | None = None,
    experiment: str | None = None,
    storage: str | None = None,
    progress: bool | None = None,
) -> TuneResult:
    """Tunes a template: propose, ask, place, score, record; then compares the winner with the baseline once.

    Args:
        taxonomy: The label tree: a `Taxonomy`, a file that `read_taxonomy` reads, or nested dicts.
        examples: Labelled images: a folder with a sub-folder a label, a CSV or JSONL file with an image and a label a
            row, a list of (image, label), a `DataFrame`, or a Hugging Face `Dataset`. Images are paths or PIL images.
        vlm: What is tuned: a function (image, prompt) -> str, where the image is a PIL image whose `filename` is its
            file, also batched or async; "local:MODEL" for a transformers checkpoint, "PROVIDER/MODEL" for an API that
            litellm reaches; or a `Model`. Answers are kept in the run's folder, and no question is asked twice.
        execution: Where a model that is named answers: "here", the default; "processes", one for each GPU of this
            machine; "ray", on a cluster; or the keys of a recipe's group: {"engine": "ray", "workers": 8}.
        recipe: A recipe: a YAML file, the name of one that comes with taxtune ("fieldguide"), or what
            `taxtune.load_recipe` returns. It may leave out all the others; those that are given take the place of what
            it says.
        proposer: What writes the templates: "fragments", the default, which needs no key; "PROVIDER/MODEL" for a chat
            model; a function (history) -> str; or a `Proposer`.
        objective: What makes one template better: "hp", the default; "hr_at_hp", as specific as possible while hP is at
            least `hp_target`; "hf", "f_beta", "pareto", "ihr_at_ihp", "ihp", "ihf", "accuracy"; the name of a measure
            or of one of `metrics`; a function of the scores; or an `Objective`.
        metrics: What else is taken of each answer: functions of a row that return a number, True or False, by name.
        mapper: How answers are placed on the tree: a `Mapper` of this tree, or its settings.
        policy: How often an image is asked about, and how the answers make one place: `Vote(samples=8, share=0.7)`, or
            a `taxtune.policies.Policy` of your own; one answer an image where left out. Of several, templates are
            compared by the first, and the winner is chosen at each of them, from the same answers.
        baseline: The template that the run begins with; "What is this an image of? ..." where left out.
        question: What templates may refer to as `question`, and what measures that ask a language model are told.
        domain: What the images show in a word, such as "bird"; the name of the lowest node above all labels where left
            out.
        ranks: Names of the ranks below it, broadest first, for templates to refer to.
        hp_target: The hP that "hr_at_hp" holds, in (0, 1]; 0.98 where left out.
        confidence: The confidence with which it holds it, in [0.5, 1); 0.9 where left out.
        hr_floor: Smallest mean hR that "hp" and "ihp" accept: a number in [0, 1], a share of the baseline's hR, "80%"
            where left out, or "trivial", just above that of always answering the domain.
        tuning: Images that every template is asked about; 20 where left out.
        heldout: Images that baseline and winner are asked about at the end; up to 200 of the others where left out.
        iterations: Templates to try after the baseline; 30 where left out.
        seed: Seeds the splits, the proposer, the VLM's sampling and the bootstrap; 0 where left out. Or one seed for
            each, as {"split": 0, "proposer": 1, "model": 2}.
        max_missing: Largest share of images without an answer before an iteration is void, in [0, 1); 0.1 where left
            out.
        max_off_tree: Largest share of the baseline's answers that may be off the tree, in [0, 1]; 0.5 where left out.
        name: Names the run; the recipe's or the folder's name where left out.
        out: The run's folder; "runs/tune", or "runs/" and the recipe's name, where left out.
        resume: Go on with the run in the folder, if there is one.
        callbacks: Told what happens: objects with some of `taxtune.Callback`'s methods, or functions of (record, best).
        mlflow: Whether to record the run in MLflow, in the run's folder; or the address of an MLflow server, to record
            it there. On by default.
        experiment: Name of the MLflow experiment; "taxtune" where left out.
        storage: Address of the history's database, for workers on several machines; a file in the folder by default. On
            PostgreSQL the answers are kept there, too.
        progress: Show progress on standard error, a line an iteration where that is no terminal, as in a notebook; by
            default only in a terminal. Nothing is ever printed on standard output; remarks are logged as warnings.

    Returns:
        The result: `best.template`, `heldout`, `to_frame()`, `answers("winner")`, `report("r.html")`.

    Raises:
        TaxtuneError: If something is missing or wrong, or the run cannot go on; what is done is kept.
        KeyboardInterrupt: On Ctrl-C; the run goes on with `resume=True`.
    """
    from taxtune.tuning.history import check_unused, study_name
    from taxtune.tuning.loop import Tuner
    from taxtune.tuning.objective import make_objective

    loaded, folder, name, storage = _opened(recipe, out, name, "tune", storage)
    kind = objective or ("hp" if loaded is None else loaded.objective.kind)
    if not resume:
        # Before images are read, which may take minutes.
        goal = make_objective(kind, metrics=tuple(metrics or ()))
        check_unused(folder, study_name(name, goal.name, storage), storage)
    with _shown(progress) as shown:
        (made,) = make_experiments(
            [kind],
            taxonomy=taxonomy,
            examples=examples,
            vlm=vlm,
            execution=execution,
            recipe=loaded,
            proposer=proposer,
            metrics=metrics,
            mapper=mapper,
            policy=policy,
            baseline=baseline,
            question=question,
            domain=domain,
            ranks=ranks,
            hp_target=hp_target,
            confidence=confidence,
            hr_floor=hr_floor,
            tuning=tuning,
            heldout=heldout,
            iterations=iterations,
            seed=seed,
            max_missing=max_missing,
            max_off_tree=max_off_tree,
            name=name,
            folder=folder,
        )
        told = [*shown, *_tracking(mlflow, experiment, folder, loaded), *callbacks]
        return Tuner(made, folder, callbacks=told, resume=resume, storage=storage).run()


def compare(
    objectives: Sequence[Objective | Callable[[TemplateScores], float] | str] = ("hp", "accuracy"),
    *,
    name: str | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    callbacks: Sequence[Any] = (),
    mlflow: bool | str | None = None,
    experiment: str | None = None,
    storage: str | None = None,
    progress: bool | None = None,
    **what: Unpack[TuningArguments],
) -> ComparisonResult:
    """Tunes for each objective from the same baseline, splits and seed, and compares the winners image by image.

    Args:
        objectives: Two or more of what `tune` takes as `objective`.
        name: As in `tune`.
        out: The comparison's folder, with a sub-folder a run; "runs/compare" where left out, or
            "runs/NAME-compare" with the recipe's name.
        resume: As in `tune`.
        callbacks: As in `tune`.
        mlflow: As in `tune`.
        experiment: As in `tune`.
        storage: As in `tune`.
        progress: As in `tune`.
        **what: The other arguments of `tune`.

    Returns:
        The result: `runs`, `heldout`, `differences`, `to_frame()`, `answers("hp")`, `report("r.html")`.

    Raises:
        TaxtuneError: If something is missing or wrong, or a run cannot go on; what is done is kept.
        KeyboardInterrupt: On Ctrl-C; the runs go on with `resume=True`.
    """
    from taxtune.tuning.compare import check_objectives, compare_objectives
    from taxtune.tuning.history import check_unused, study_name
    from taxtune.tuning.objective import make_objective

    loaded, folder, name, storage = _opened(what.get("recipe"), out, name, "compare", storage)
    what["recipe"] = loaded
    names = [make_objective(each, metrics=tuple(what.get("metrics") or ())).name for each in objectives]
    check_objectives(names)
    for each in () if resume else names:
        check_unused(folder / each, study_name(name, each, storage), storage)
    with _shown(progress) as shown:
        experiments = make_experiments(objectives, **what, name=name, folder=folder)
        told = [*shown, *_tracking(mlflow, experiment, folder, loaded), *callbacks]
        return compare_objectives(experiments, folder, callbacks=told, resume=resume, storage=storage)


def repeat(
    repeats: int = 5,
    *,
    objective: Objective | Callable[[TemplateScores], float] | str | None = None,
    name: str | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    callbacks: Sequence[Any] = (),
    mlflow: bool | str | None = None,
    experiment: str | None = None,
    storage: str | None = None,
    progress: bool | None = None,
    **what: Unpack[TuningArguments],
) -> RepeatsResult:
    """Tunes several times with other seeds of proposer and model on the same images: how much is luck of the search.

    Args:
        repeats: How many runs, at least 2. The first has the seeds given, each further one those plus one.
        objective: As in `tune`.
        name: As in `tune`.
        out: The folder, with a sub-folder a run; "runs/repeat" where left out, or "runs/NAME-repeat" with the recipe's
            name.
        resume: Go on with the runs in the folder, of which there may now be more.
        callbacks: As in `tune`.
        mlflow: As in `tune`.
        experiment: As in `tune`.
        storage: As in `tune`.
        progress: As in `tune`.
        **what: The other arguments of `tune`.

    Returns:
        The result: `winners` and `differences` with their spread, `runs`, `to_frame()`, `report("r.html")`.

    Raises:
        TaxtuneError: If something is missing or wrong, or a run cannot go on; what is done is kept.
        KeyboardInterrupt: On Ctrl-C; the runs go on with `resume=True`.
    """
    from taxtune.tuning.repeats import check_repeats, repeat_tuning

    check_repeats(repeats)
    loaded, folder, name, storage = _opened(what.get("recipe"), out, name, "repeat", storage)
    what["recipe"] = loaded
    with _shown(progress) as shown:
        (made,) = make_experiments(() if objective is None else [objective], **what, name=name, folder=folder)
        told = [*shown, *_tracking(mlflow, experiment, folder, loaded), *callbacks]
        return repeat_tuning(made, folder, repeats, callbacks=told, resume=resume, storage=storage)


def evaluate(
    template: str | Mapping[str, str],
    *,
    out: str | Path | None = None,
    split: Literal["heldout", "tuning"] = "heldout",
    storage: str | None = None,
    progress: bool | None = None,
    **what: Unpack[ExperimentArguments],
) -> ComparisonResult:
    """Scores a template beside the baseline, on the same images.

    Args:
        template: The Jinja source, or several by name.
        out: Where answers are kept, and in `evaluated` the result with its report; "runs/evaluate" where left out.
            Answers that are there are not asked for again.
        split: Which images to ask about.
        storage: A PostgreSQL database that keeps the answers in place of the folder.
        progress: As in `tune`.
        **what: The other arguments of `tune`.

    Returns:
        The result: `heldout` (whichever the split), `differences`, `to_frame()`, `answers("template")`.

    Raises:
        TaxtuneError: If a template is refused, or something is missing or wrong.
    """
    from taxtune.tuning.compare import evaluate_templates

    what["recipe"], folder, name, storage = _opened(what.get("recipe"), out, None, "evaluate", storage)
    templates = {"template": template} if isinstance(template, str) else dict(template)
    if "baseline" in templates:
        raise DataError(
            "A template cannot be called 'baseline'.", value="baseline", remedy="Give it as the argument `baseline`."
        )
    with _shown(progress) as shown:
        (made,) = make_experiments(**what, name=name, folder=folder)
        for source in templates.values():
            made.check(source)
        return evaluate_templates(
            made,
            {"baseline": made.prompt.baseline, **templates},
            folder,
            split=split,
            callbacks=shown,
            storage=storage,
        )


def calibrate(
    run: str | Path,
    *,
    risk: float,
    confidence: float | None = None,
    samples: int | None = None,
    temperature: float | None = None,
    templates: int = 1,
    data: Source | None = None,
    heldout: bool = False,
    images: int = 500,
    recipe: str | Path | None = None,
    vlm: Model | Callable[..., Any] | None = None,
    progress: bool | None = None,
) -> Calibration:
    """Chooses the share of votes at which a run's winner keeps a promised risk on new images of the same kind.

    Args:
        run: The run's folder. Answers are kept there, and so is `calibration.json`.
        risk: The mean of 1 - hP to keep, in (0, 1).
        confidence: With which confidence, in (0, 1); in expectation where left out.
        samples: Answers an image; those of the run's policy, or 8, where left out.
        temperature: At which they are sampled; that of the run's policy, or 1, where left out.
        templates: How many of the run's best templates are asked in turn, the winner first.
        data: Labelled images to calibrate on, as `tune` takes them; those of the run's data in neither split where left
            out. Images of the run's splits among them are passed over.
        heldout: Calibrate on the run's held-out images as well.
        images: Most images to ask about.
        recipe: The run's recipe, where the run does not know it.
        vlm: The model, for a run with a model of one's own; it must sample.
        progress: As in `tune`.

    Returns:
        The calibration: `policy`, `chosen`, `levels`.

    Raises:
        TaxtuneError: If the run cannot be calibrated, or the images cannot show what is promised.
    """
    from taxtune.tuning.calibration_run import CalibrationRun

    work = CalibrationRun(
        Path(run), risk, confidence, samples, temperature, templates, data, heldout, images, recipe, vlm
    )
    with _shown(progress):
        return work.run()


def place(
    answers: str | Sequence[str | None],
    taxonomy: Taxonomy | str | Path | Mapping[str, Any],
    *,
    mapper: Mapper | MapperConfig | None = None,
    workers: int = 1,
) -> DataFrame:
    """Places free text on a taxonomy.

    Args:
        answers: What was said; None for an answer that is missing.
        taxonomy: The label tree, as `tune` takes it.
        mapper: A `Mapper` of this tree, or its settings.
        workers: In how many processes to place them. Each takes seconds to start, which pays for tens of thousands of
            answers. A script that asks for several has its work below `if __name__ == "__main__":`.

    Returns:
        One row an answer: answer, placed (path), label, depth, stage, confidence, abstained, off_tree, evidence. What a
        missing answer has not is missing.

    Raises:
        TaxtuneError: If the tree cannot be read, or the number of workers cannot be.
    """
    import pandas as pd

    from taxtune.answers.placing import number_of_workers, place_each
    from taxtune.mapping import Mapper

    tree = _tree(taxonomy)
    made = mapper if isinstance(mapper, Mapper) else Mapper(tree, config=mapper)
    texts = [answers] if isinstance(answers, str) else list(answers)
    said = [str(text) for text in texts if text is not None]
    workers = number_of_workers(workers, len(said), made.similarity.name)
    placements = place_each(made, said, total=len(said), workers=workers)
    rows: list[dict[str, Any]] = []
    for text in texts:
        if text is None:
            rows.append({"answer": None})
            continue
        placed = next(placements)
        rows.append(
            {
                "answer": text,
                "placed": "/".join(tree.path(placed.node)),
                "label": tree.labels[placed.node],
                "depth": int(tree.depth[placed.node]),
                "stage": str(placed.stage),
                "confidence": placed.confidence,
                "abstained": placed.abstained,
                "off_tree": placed.off_tree,
                "evidence": placed.evidence,
            }
        )
    columns = ["answer", "placed", "label", "depth", "stage", "confidence", "abstained", "off_tree", "evidence"]
    # So that a missing answer does not turn whole numbers and truth values into floats and objects.
    return pd.DataFrame(rows, columns=columns).astype({"depth": "Int64", "abstained": "boolean", "off_tree": "boolean"})


def score(
    predicted: Sequence[str | Sequence[str]],
    target: Sequence[str | Sequence[str]],
    taxonomy: Taxonomy | str | Path | Mapping[str, Any],
    *,
    free_text: bool = False,
) -> HierarchicalScores:
    """Returns hP, hR, hF, accuracy and depth of answers.

    Args:
        predicted: What was answered: labels or paths of the tree, or with `free_text` anything that a model may say.
        target: What is true: labels or paths, as many.
        taxonomy: The label tree, as `tune` takes it.
        free_text: Place the answers with the mapper first; those off the tree count as a child of the root that is
            never right.

    Raises:
        TaxtuneError: If a label is not on the tree, or the lengths differ.
    """
    import numpy as np

    from taxtune.metrics.hierarchical import score as score_nodes

    tree = _tree(taxonomy)
    if len(predicted) != len(target):
        raise DataError(f"There are {len(predicted)} answers for {len(target)} targets.")
    if not len(predicted):
        raise DataError("There are no answers to score.")
    truth = np.array([tree.resolve(each) for each in target])
    if not free_text:
        return score_nodes(tree, np.array([tree.resolve(each) for each in predicted]), truth)
    from taxtune.mapping import Mapper

    placements = Mapper(tree).place([str(each) for each in predicted])
    off_tree = np.array([placed.off_tree for placed in placements])
    return score_nodes(tree, np.array([placed.node for placed in placements]), truth, off_tree=off_tree)


def load_run(folder: str | Path) -> TuneResult | ComparisonResult | RepeatsResult:
    """Reads a run, a comparison or a repeated run back from its folder.

    Args:
        folder: What `tune`, `compare` or `repeat` was told as `out`. A run that is not finished has the iterations that
            are done.

    Raises:
        DataError: If there is no run in the folder, or its files cannot be read.
    """
    from taxtune.tuning.files import read_result

    return read_result(folder)


def _tree(given: Taxonomy | str | Path | Mapping[str, Any]) -> Taxonomy:
    from taxtune.taxonomy.making import as_taxonomy

    return as_taxonomy(given)


def _execution(given: str | Mapping[str, Any] | None) -> ExecutionSettings:
    from pydantic import ValidationError

    from taxtune.recipe_settings import ExecutionSettings

    try:
        return ExecutionSettings.model_validate({"engine": given} if isinstance(given, str) else given or {})
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(["execution", *map(str, problem["loc"])])
        raise DataError(f"{key}: {problem['msg'].removeprefix('Value error, ')}.", value=given) from None


def _seeds(given: int | Mapping[str, int] | None) -> SeedSettings:
    from pydantic import ValidationError

    from taxtune.recipe_settings import SeedSettings

    try:
        return SeedSettings.model_validate(given or 0)
    except ValidationError:
        raise DataError(
            "A seed must be a whole number, at least 0, or one for each of split, proposer and model.",
            value=given,
            remedy='For example: seed={"split": 0, "proposer": 1, "model": 2}',
        ) from None


def _recipe(given: Recipe | str | Path) -> Recipe:
    from taxtune.recipe import Recipe, load_recipe

    return given if isinstance(given, Recipe) else load_recipe(given)


def _opened(
    recipe: Recipe | str | Path | None, out: str | Path | None, name: str | None, what: str, storage: str | None
) -> tuple[Recipe | None, Path, str, str | None]:
    """Makes the folder; returns the recipe, the folder, the run's name and the history's database."""
    import re

    from taxtune.atomic import make_folder
    from taxtune.tuning.run_folder import default_folder

    found = None if recipe is None else _recipe(recipe)
    default = Path("runs") / what if found is None else default_folder(found.name, what)
    folder = default if out is None else Path(out)
    make_folder(folder)
    if found is None:
        name = name or re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name).strip("-._") or what
        return None, folder, name, storage
    if storage is not None:
        found = found.model_copy(update={"storage": storage})
    elif found.storage is not None:
        storage = found.expanded(found.storage)
    return found, folder, name or found.name, storage


def _tracking(mlflow: bool | str | None, experiment: str | None, folder: Path, recipe: Recipe | None) -> list[Any]:
    from taxtune.recipe import TrackingSettings

    wanted = TrackingSettings() if recipe is None else recipe.tracking
    if not (wanted.mlflow if mlflow is None else mlflow):
        return []
    from taxtune.tracking import MLflowTracker
    from taxtune.tuning.callbacks import TrackingCallback

    address = mlflow if isinstance(mlflow, str) else None if recipe is None else recipe.tracking_uri
    make = partial(MLflowTracker, experiment or wanted.experiment, folder, address)
    return [TrackingCallback(partial(make, traces=wanted.traces, model=wanted.model))]


@contextmanager
def _shown(progress: bool | None) -> Iterator[list[Any]]:
    """Shows progress on standard error where it is wanted; yields the callbacks that show a run."""
    if not (sys.stderr.isatty() if progress is None else progress):
        yield []
        return
    from taxtune.report.progress import Terminal, TuningProgress

    with showing(Terminal()) as terminal:
        yield [TuningProgress(terminal)]
