"""taxtune for Python: tune, compare and evaluate templates, place and score answers, read runs.

    import taxtune

    result = taxtune.tune("tree.csv", "photos/", answer, out="runs/birds")
    result.best.prompt

Everything that can be named can be given as an object or a function instead. The arguments fill a
recipe, of which the command line builds the same experiment; see `taxtune.tuning` for what is
built.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack, cast, get_args

from taxtune.errors import DataError
from taxtune.progress import note
from taxtune.thoughts import without_thoughts

if TYPE_CHECKING:
    from pandas import DataFrame

    from taxtune.answers.records import Source as Scores
    from taxtune.classifier.cascade import Cascade
    from taxtune.data.sources import Source
    from taxtune.mapping import Mapper, MapperConfig
    from taxtune.metrics import HierarchicalScores
    from taxtune.models import Model
    from taxtune.policies.risk import Promise
    from taxtune.recipe import Recipe
    from taxtune.results import ComparisonResult, TuneResult
    from taxtune.settings import Effort
    from taxtune.taxonomy import Taxonomy
    from taxtune.tuning.build import AnyObjective, Setup
    from taxtune.tuning.calibrate import Calibration
    from taxtune.tuning.proposers import Proposer
    from taxtune.tuning.records import SampleResult

    AnyTaxonomy = Taxonomy | str | Path | Mapping[str, Any]
    AnyModel = Model | Callable[..., Any] | str
    Evidence = Literal["self_consistency", "posterior"]

__all__ = [
    "calibrate",
    "calibrate_cascade",
    "compare",
    "evaluate",
    "load_run",
    "place",
    "score",
    "tune",
]

SplitName = Literal["heldout", "tuning"]


class RunParts(TypedDict, total=False):
    """What `tune`, `compare` and `evaluate` take besides tree, images and model; see `tune`."""

    metrics: Mapping[str, Callable[[SampleResult], Any]] | None
    baseline: str | None
    domain: str | None
    recipe: Recipe | str | Path | None
    settings: Mapping[str, Any] | None
    out: str | Path | None
    answers: str | Path | None


class SearchParts(RunParts, total=False):
    """What `tune` and `compare` take as well; see `tune`."""

    goal: float | None
    effort: Effort | None
    proposer: Proposer | Callable[..., str] | str | None


F = TypeVar("F", bound=Callable[..., Any])


def _lists(parameters: type) -> Callable[[F], F]:
    """Has `help` and `inspect.signature` list the keys of a TypedDict in place of `**`."""

    def decorate(function: F) -> F:
        own = inspect.signature(function)
        *listed, bag = own.parameters.values()
        option = bag.replace(kind=bag.KEYWORD_ONLY, default=None)
        for name, annotation in parameters.__annotations__.items():
            listed.append(option.replace(name=name, annotation=annotation.__forward_arg__))
        signature = own.replace(parameters=listed)

        @functools.wraps(function)
        def checked(*arguments: Any, **named: Any) -> Any:
            try:
                signature.bind(*arguments, **named)
            except TypeError as error:
                raise TypeError(f"{function.__name__}() {error}") from None
            return function(*arguments, **named)

        checked.__signature__ = signature  # type: ignore[attr-defined]
        return cast("F", checked)

    return decorate


def _setup(
    kind: str,
    taxonomy: AnyTaxonomy | None,
    examples: Source | None,
    vlm: AnyModel | None,
    parts: SearchParts,
) -> Setup:
    """Returns the recipe with the given values, and the objects that replace its parts."""
    from taxtune.execution import deploy
    from taxtune.models.names import parse_model
    from taxtune.settings import with_kind
    from taxtune.tuning.build import Setup
    from taxtune.tuning.metrics import as_metrics

    is_whole = taxonomy is not None and examples is not None and vlm is not None
    if not is_whole and parts.get("recipe") is None:
        raise DataError(
            "A run needs a taxonomy, examples and a vlm.",
            remedy="Give all three, or a recipe, such as recipe='fieldguide', and what is to be "
            "different.",
        )
    recipe, folder = _recipe(kind, parts.get("recipe"), parts.get("out"))
    settings = dict(parts.get("settings") or {})
    policy = settings.pop("policy", None)
    mapper = settings.pop("mapper", None)
    changes = {
        "objective.hp_target": parts.get("goal"),
        "effort": parts.get("effort"),
        "prompt.baseline": parts.get("baseline"),
        "prompt.domain": parts.get("domain"),
    }
    changes = {key: value for key, value in changes.items() if value is not None}
    model = None
    if isinstance(vlm, str):
        changes["vlm"] = with_kind(str(parse_model(vlm).absolute))
    proposer_keys, proposer = _proposer(parts.get("proposer"))
    recipe = recipe.changed(changes | proposer_keys | settings)
    if vlm is not None and not isinstance(vlm, str):
        model = deploy(vlm, execution=recipe.execution)
    tree = None if taxonomy is None else _tree(taxonomy)
    metrics = as_metrics(parts.get("metrics"))
    return Setup(
        recipe=recipe,
        folder=folder,
        answers=parts.get("answers"),
        vlm=model,
        mapper=mapper,
        policy=policy,
        proposer=proposer,
        taxonomy=tree,
        examples=examples,
        metrics=metrics,
    )


def _recipe(
    kind: str, given: Recipe | str | Path | None, out: str | Path | None
) -> tuple[Recipe, Path]:
    """Returns the recipe, one with stand-ins where none is given, and the folder of the run."""
    from taxtune.recipe import Recipe, load_recipe
    from taxtune.tuning.run_folder import STAND_INS, default_folder

    if given is not None:
        recipe = given if isinstance(given, Recipe) else load_recipe(given)
        return recipe, Path(out or default_folder(recipe.name, kind))
    folder = Path(out or f"runs/{kind}")
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name)
    name = name[:100].strip("-._") or kind
    # The domain is named after the tree once it is read.
    settings = {"name": name, **STAND_INS, "prompt": {"domain": ""}}
    return Recipe.model_validate(settings), folder


def _proposer(
    proposer: Proposer | Callable[..., str] | str | None,
) -> tuple[dict[str, Any], Proposer | None]:
    """Returns a proposer's keys of a recipe, or the object that replaces the recipe's own."""
    from taxtune.settings import proposer_named
    from taxtune.tuning.proposers import make_proposer

    if proposer is None:
        return {}, None
    if isinstance(proposer, str):
        keys = {}
        for key, value in proposer_named(proposer).items():
            keys[f"proposer.{key}"] = value
        return keys, None
    return {}, make_proposer(proposer)


@_lists(SearchParts)
def tune(
    taxonomy: AnyTaxonomy | None = None,
    examples: Source | None = None,
    vlm: AnyModel | None = None,
    *,
    objective: AnyObjective | None = None,
    resume: bool = False,
    callbacks: Sequence[Any] = (),
    progress: bool | None = None,
    **parts: Unpack[SearchParts],
) -> TuneResult:
    """Tunes a template: propose, ask, place, score, record; then compares winner and baseline once.

    Two fifths of the images, at most 400, compare templates; of fewer than 150, three fifths.
    Others, at most 200, judge baseline and winner at the end. From 150 images on the rest is left
    for `calibrate`.

    Args:
        taxonomy: The label tree: a `Taxonomy`, a file that `read_taxonomy` reads, or nested dicts.
        examples: Labelled images: a folder with one sub-folder for each label, a CSV or JSONL file
            with one image and its label per row, a list of (image, label), a `DataFrame`, or a
            Hugging Face `Dataset`. Images are paths or PIL images.
        vlm: What is tuned: a function (image, prompt) -> str, where the image is a PIL image whose
            `filename` is its file, also batched or async; "PROVIDER/MODEL" for an API that litellm
            reaches, "local:MODEL" for a transformers checkpoint; or a `Model`.
        objective: What makes one template better: "hr_at_hp" (the default), as specific as possible
            while hP is at least `goal`; "hp", "hf", "accuracy", "ihr_at_ihp", "ihp", "ihf", "aurc";
            the name of a measure or of one of `metrics`; a function of the scores; or an
            `Objective`.
        goal: The hP that "hr_at_hp" holds, in (0, 1]; 0.98 by default.
        effort: How much the search may spend: "light", "medium" (the default) or "heavy", which is
            at most 10, 20 or 40 templates and 800, 1,600 or 3,200 calls of the VLM about tuning
            images. Promising templates are asked about more images than others, and the finalists
            about all.
        proposer: What writes the templates: "fragments" (the default), which needs no key;
            "PROVIDER/MODEL" for a chat model, or "agent:PROVIDER/MODEL" for one with tools; a
            function (history) -> str; or a `Proposer`.
        metrics: What else is taken of each answer: functions of a row that return a number, True or
            False, by name.
        baseline: The template that the run begins with; that of the paper by default.
        domain: What the images show in a word, such as "bird"; the name of the lowest node above
            all labels where left out.
        recipe: A recipe: a YAML file, the name of one that comes with taxtune ("fieldguide"), or
            what `taxtune.load_recipe` returns. Arguments that are given replace what it says.
        settings: Any other key of a recipe, with dots, as `--set` has it: {"data.tuning": 40,
            "seed": 1, "vlm.temperature": 0.7, "tracking.mlflow": False}. "policy" and "mapper" may
            be objects: a `taxtune.SelfConsistency`, a `Mapper` of this tree or a `MapperConfig`.
        out: The run's folder; "runs/tune", or "runs/" and the recipe's name, where left out.
        answers: The file of the answers, of which none is asked for twice; `answers.db` beside `out`.
        resume: Continue the run in the folder, if there is one.
        callbacks: Told what happens: objects with some of `taxtune.Callback`'s methods, or
            functions of (record, best).
        progress: Show progress on standard error: by default a line per iteration and a bar in a
            terminal, elsewhere, as in a notebook, a line per rung; True for lines per iteration
            everywhere, False for none. Nothing is ever printed on standard output; remarks are
            logged as warnings.

    Returns:
        The result: `best.prompt`, `heldout`, `to_frame()`, `answers("winner")`, `plot()`.

    Raises:
        TaxtuneError: If something is missing or the run cannot go on; what is done is kept.
        KeyboardInterrupt: On Ctrl-C; the run goes on with `resume=True`.
    """
    from taxtune import runs
    from taxtune.results import shown_progress, tuned
    from taxtune.tuning.build import make_objective

    setup = _setup("tune", taxonomy, examples, vlm, parts)
    aim = setup.recipe.objective.kind if objective is None else objective
    make_objective(setup.recipe, aim, setup.metrics)  # a wrong name is told before images are read
    if parts.get("goal") is not None and aim not in ("hr_at_hp", "ihr_at_ihp"):
        raise DataError(
            "goal is the hP that 'hr_at_hp' holds.",
            value=parts["goal"],
            remedy="Leave out goal, or objective.",
        )
    with shown_progress(progress) as shown:
        told = [*shown, *runs.recording_callbacks(setup), *callbacks]
        return tuned(runs.tune(setup, objective, callbacks=told, resume=resume))


@_lists(SearchParts)
def compare(
    objectives: Sequence[AnyObjective] = ("hr_at_hp", "accuracy"),
    taxonomy: AnyTaxonomy | None = None,
    examples: Source | None = None,
    vlm: AnyModel | None = None,
    *,
    resume: bool = False,
    callbacks: Sequence[Any] = (),
    progress: bool | None = None,
    **parts: Unpack[SearchParts],
) -> ComparisonResult:
    """Tunes for each objective from the same baseline, splits and seed; compares the winners by image.

    Args:
        objectives: Two or more of what `tune` takes as `objective`.
        taxonomy: As in `tune`.
        examples: As in `tune`.
        vlm: As in `tune`.
        resume: As in `tune`.
        callbacks: As in `tune`.
        progress: As in `tune`.
        **parts: As in `tune`, but that `out` is the comparison's folder, with one sub-folder per
            run: "runs/compare" where left out, or "runs/NAME-compare" with the recipe's name.

    Returns:
        The result: `runs`, `heldout`, `differences`, `to_frame()`, `answers("accuracy")`.

    Raises:
        TaxtuneError: If something is missing or wrong, or a run cannot go on; what is done is kept.
        KeyboardInterrupt: On Ctrl-C; the runs go on with `resume=True`.
    """
    from taxtune import runs
    from taxtune.results import compared, shown_progress

    setup = _setup("compare", taxonomy, examples, vlm, parts)
    with shown_progress(progress) as shown:
        told = [*shown, *runs.recording_callbacks(setup), *callbacks]
        return compared(runs.compare(setup, objectives, callbacks=told, resume=resume))


@_lists(RunParts)
def evaluate(
    template: str | Mapping[str, str],
    taxonomy: AnyTaxonomy | None = None,
    examples: Source | None = None,
    vlm: AnyModel | None = None,
    *,
    split: SplitName = "heldout",
    progress: bool | None = None,
    **parts: Unpack[RunParts],
) -> ComparisonResult:
    """Scores a template beside the baseline, on the same images.

    Args:
        template: The Jinja source, or several by name.
        taxonomy: As in `tune`.
        examples: As in `tune`.
        vlm: As in `tune`.
        split: Which images to ask about.
        progress: As in `tune`.
        **parts: As in `tune`, but that the result and its report are written to the folder
            `evaluated` in `out`; "runs/evaluate" where left out.

    Returns:
        The result: `heldout` (whichever the split), `differences`, `to_frame()`,
        `answers("template")`.

    Raises:
        TaxtuneError: If a template cannot be used, or something is missing or wrong.
    """
    from taxtune import runs
    from taxtune.atomic import make_folder
    from taxtune.report.html import ReportCallback
    from taxtune.results import compared, shown_progress
    from taxtune.tuning.build import build

    if split not in get_args(SplitName):
        raise DataError("There is no such split.", value=split, remedy="Use heldout or tuning.")
    templates = {"template": template} if isinstance(template, str) else dict(template)
    if "baseline" in templates:
        raise DataError(
            "A template cannot be called 'baseline'.", remedy="Give it as the argument `baseline`."
        )
    setup = _setup("evaluate", taxonomy, examples, vlm, cast("SearchParts", parts))
    with shown_progress(progress) as shown:
        make_folder(setup.folder)
        experiment = build(setup)
        for name, source in templates.items():
            for text in experiment.rules.notes(source, f"The template {name!r}"):
                note(text)
        told = [*shown, ReportCallback()]
        return compared(runs.evaluate(experiment, templates, split=split, callbacks=told))


def calibrate(
    run: str | Path,
    *,
    risk: float,
    confidence_level: float | None = None,
    policy: Evidence | None = None,
    samples: int | None = None,
    data: Source | None = None,
    images: int = 500,
    recipe: str | Path | None = None,
    vlm: Model | Callable[..., Any] | None = None,
    answers: str | Path | None = None,
    promise: Promise = "hp",
    rank: str | None = None,
    progress: bool | None = None,
) -> Calibration:
    """Chooses the threshold at which a run's winner keeps a promised risk on new images of its kind.

    Args:
        run: The run's folder, to which `calibration.json` is written.
        risk: What to keep, in (0, 1).
        confidence_level: How often that holds, in (0, 1); in expectation where left out, and 0.9
            for labels.
        policy: "self_consistency" (several answers per image) or "posterior" (one, with the
            probabilities of the tree's names); the run's own where left out, or self-consistency
            where it takes a single answer.
        samples: Answers per image of self-consistency; those of the run's policy, or 8, where left
            out.
        data: Labelled images to calibrate on, as `tune` takes them; those of the run's data in
            neither split where left out. Images of the run's splits among them are passed over.
        images: Most images to ask about.
        recipe: The run's recipe, where the run does not know it.
        vlm: The model, for a run with a model of one's own; it must sample.
        answers: The file in which answers are kept; that of the run where left out.
        promise: What is at most `risk`: "hp", the mean of 1 - hP; or "labels", the share of wrong
            labels among those below the root.
        rank: The rank, or the depth, from which on a node is a label.
        progress: As in `tune`.

    Returns:
        The calibration: `policy`, `chosen`, `levels`.

    Raises:
        TaxtuneError: If the run cannot be calibrated, or the images cannot show what is promised.
    """
    from taxtune.results import shown_progress
    from taxtune.tuning.calibrate import CalibrationRun

    work = CalibrationRun(
        folder=Path(run),
        risk=risk,
        confidence=confidence_level,
        kind=policy,
        samples=samples,
        data=data,
        images=images,
        recipe=recipe,
        vlm=vlm,
        answers=answers,
        promise=promise,
        rank=rank,
    )
    with shown_progress(progress):
        return work.run()


def calibrate_cascade(
    scores: Scores,
    run: str | Path,
    *,
    risk: float,
    confidence_level: float = 0.9,
    policy: Evidence | None = None,
    rank: str | int | None = None,
    progress: bool | None = None,
    **options: Any,
) -> Cascade:
    """Chooses thresholds of scores, and of a run's answers where scores do not say enough.

    Args:
        scores: A classifier's scores of the labelled images, as `calibrate_scores` takes them.
        run: The run's folder.
        risk: What to keep, in (0, 1).
        confidence_level: How often that holds, in (0, 1).
        policy: As in `calibrate`; the run's own where left out.
        rank: The rank, or the depth, at which scores say enough, and from which on a node is a
            label; a leaf, or any, where left out.
        progress: As in `tune`.
        **options: `data`, `samples`, `images`, `recipe`, `vlm`, `answers` and `promise` of
            `calibrate`, and `columns` of `calibrate_scores`.

    Returns:
        The cascade: `points` (the price list), `chosen`, `choose` and `write`.

    Raises:
        TaxtuneError: As `calibrate`.
    """
    from taxtune.classifier.cascade import CascadeRun
    from taxtune.results import shown_progress

    wanted = None
    if rank is not None:
        wanted = str(rank)
    work = CascadeRun(
        scores=scores,
        folder=Path(run),
        risk=risk,
        confidence=confidence_level,
        kind=policy,
        wanted=wanted,
        **options,
    )
    with shown_progress(progress):
        return work.cascade()


def place(
    answers: str | Sequence[str | None],
    taxonomy: AnyTaxonomy,
    *,
    mapper: Mapper | MapperConfig | None = None,
) -> DataFrame:
    """Places free text on a taxonomy.

    Args:
        answers: What was said; None or NaN for an answer that is missing, as is a reply that ends
            within its thought.
        taxonomy: The label tree, as `tune` takes it.
        mapper: A `Mapper` of this tree, or its settings.

    Returns:
        One row per answer: answer, placement (path), label, depth, stage, confidence, abstained,
        off_tree and evidence, of which a missing answer has none.

    Raises:
        TaxtuneError: If the tree cannot be read.
    """
    import pandas as pd

    from taxtune.mapping import Mapper
    from taxtune.scoring.nodes import place_texts

    tree = _tree(taxonomy)
    made = mapper if isinstance(mapper, Mapper) else Mapper(tree, config=mapper)
    listed = [answers] if isinstance(answers, str) else list(answers)
    texts = pd.Series(listed, dtype=object)
    given = texts[texts.notna()].map(lambda text: without_thoughts(str(text))).dropna()
    placements = place_texts(made, list(given))
    nodes = [placed.node for placed in placements]
    columns: dict[str, list[Any]] = {}
    columns["placement"] = ["/".join(tree.path(node)) for node in nodes]
    columns["label"] = [tree.labels[node] for node in nodes]
    columns["depth"] = [int(tree.depth[node]) for node in nodes]
    columns["stage"] = [str(placed.stage) for placed in placements]
    for name in ("confidence", "abstained", "off_tree", "evidence"):
        columns[name] = [getattr(placed, name) for placed in placements]
    # As series, of which those without values stay objects.
    series = {name: pd.Series(values, given.index) for name, values in columns.items()}
    frame = pd.DataFrame(series).reindex(texts.index)
    frame.insert(0, "answer", texts.where(texts.notna(), None))
    # So that a missing answer does not turn whole numbers and truth values into floats and objects.
    return frame.astype({"depth": "Int64", "abstained": "boolean", "off_tree": "boolean"})


def score(
    predicted: Sequence[str | Sequence[str]],
    target: Sequence[str | Sequence[str]],
    taxonomy: AnyTaxonomy,
    *,
    free_text: bool = False,
) -> HierarchicalScores:
    """Returns hP, hR, hF, accuracy and depth of answers.

    Args:
        predicted: What was answered: labels or paths of the tree, or with `free_text` anything that
            a model may say.
        target: What is true: labels or paths, as many.
        taxonomy: The label tree, as `tune` takes it.
        free_text: Place the answers with the mapper first; those off the tree count as a child of
            the root that is never right.

    Raises:
        TaxtuneError: If a label is not on the tree or missing, or the lengths differ.
    """
    import numpy as np
    import pandas as pd

    from taxtune.mapping import Mapper
    from taxtune.metrics.hierarchical import score as score_nodes

    tree = _tree(taxonomy)
    if len(predicted) != len(target) or not len(predicted):
        raise DataError(f"There are {len(predicted)} answers for {len(target)} targets.")
    answers: list[Any] = list(predicted)
    if free_text:
        for i, text in enumerate(answers):
            if isinstance(text, str):
                answers[i] = without_thoughts(text)
    for name, given in {"answer": answers, "target": list(target)}.items():
        absent = pd.Series(given, dtype=object).isna()
        if absent.any():
            raise DataError(
                f"There is no {name} number {absent.argmax() + 1:,}.",
                remedy="Leave out pairs in which one is missing.",
            )
    truth = np.array([tree.resolve(label) for label in target])
    if not free_text:
        nodes = np.array([tree.resolve(label) for label in answers])
        return score_nodes(tree, nodes, truth)
    texts = [str(text) for text in answers]
    placements = Mapper(tree).place(texts)
    nodes = np.array([placed.node for placed in placements])
    off_tree = np.array([placed.off_tree for placed in placements])
    return score_nodes(tree, nodes, truth, off_tree=off_tree)


def load_run(folder: str | Path) -> TuneResult | ComparisonResult:
    """Reads a run or a comparison back from its folder.

    Args:
        folder: What `tune` or `compare` was told as `out`.

    Raises:
        DataError: If there is no finished run in the folder, or its files cannot be read.
    """
    from taxtune.results import offered
    from taxtune.tuning.run_folder import read_result

    return offered(read_result(folder))


def _tree(given: AnyTaxonomy) -> Taxonomy:
    from taxtune.taxonomy.read import as_taxonomy

    return as_taxonomy(given)
