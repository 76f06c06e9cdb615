"""From the folder of a finished run, or of a saved classifier, to a classifier."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taxtune.classifier.classifier import Classifier, Promise
from taxtune.classifier.reliability import Reliability
from taxtune.classifier.saved import FILE, read_saved, read_tree
from taxtune.errors import DataError
from taxtune.models import Model, make_model
from taxtune.models.names import parse_model
from taxtune.policies import Direct, Policy, Vote
from taxtune.progress import note
from taxtune.recipe import Recipe, load_recipe
from taxtune.settings import LocalVLMSettings
from taxtune.taxonomy.read import as_taxonomy
from taxtune.tuning.calibrate import read_calibration
from taxtune.tuning.experiment import Experiment, template_variables
from taxtune.tuning.from_recipe import temperature_of
from taxtune.tuning.run_folder import STAND_INS, as_texts, finished_run, recipe_of
from taxtune.tuning.template import render

if TYPE_CHECKING:
    from taxtune.mapping import Mapper
    from taxtune.taxonomy import Taxonomy
    from taxtune.tuning.records import TuneResult

__all__ = ["load_classifier"]

#: At which a model is asked several times that is asked once, greedily, in the run.
_TEMPERATURE = 1.0


def load_classifier(
    run: str | PathLike[str] | TuneResult,
    *,
    calibrated: bool = False,
    policy: Policy | None = None,
    recipe: Recipe | str | Path | None = None,
    taxonomy: Taxonomy | str | Path | Mapping[str, Any] | None = None,
    vlm: Model | Callable[..., Any] | str | None = None,
    mapper: Mapper | None = None,
    execution: str | None = None,
    api_base: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Classifier:
    """Returns what a finished run found, or what was saved of it, ready to label images; nothing is loaded yet.

    Args:
        run: The run's folder, the run, or the folder that `Classifier.save` wrote.
        calibrated: Use what `calibrate` chose, with its promise, in place of the run's own policy.
        policy: Another policy. A vote asks a model that decodes greedily in the run at a temperature of 1.
        recipe: The run's recipe, where the run does not know it.
        taxonomy: The label tree as `taxtune.tune` takes it, for a run with one that is in no file.
        vlm: The model, for a run with a model of one's own.
        mapper: The mapper, for a run with one of one's own.
        execution: Where the model runs: "here" or "ray"; as in the run's recipe where left out.
        api_base: Address of the server of a model behind an API, in place of the folder's.
        settings: Other values of the recipe's keys of the model, such as {"vlm.device": "cuda"}, where this machine is
            not that of the run.

    Raises:
        DataError: If there is no finished run and no saved classifier in the folder, or no calibration; if the tree is
            no longer that of the run; or if something has to be given again.
        RecipeError: If the run does not know its recipe.
        TaxtuneError: If the folder names a server that is not known to be the user's own (see `taxtune.trust`).
    """
    from taxtune.tuning.records import TuneResult

    if calibrated and policy is not None:
        raise DataError("A calibration has its own policy.", remedy="Leave out policy=.")
    changes = dict(settings or {})
    changes |= {} if execution is None else {"execution.engine": execution}
    changes |= {} if api_base is None else {"vlm.api_base": api_base}
    own = _Own(policy, None if taxonomy is None else as_taxonomy(taxonomy), vlm, mapper, changes)
    if isinstance(run, TuneResult):
        return _of_run(run, recipe, calibrated, own)
    folder = Path(run)
    if (folder / FILE).exists():
        if recipe is not None or taxonomy is not None:
            raise DataError("A saved classifier holds its recipe and its tree.", file=folder, remedy="Leave them out.")
        return _of_saved(folder, calibrated, own)
    return _of_run(finished_run(folder), recipe, calibrated, own)


class _Own:
    """What is given in Python in place of what the folder says."""

    def __init__(
        self,
        policy: Policy | None,
        taxonomy: Taxonomy | None,
        vlm: Model | Callable[..., Any] | str | None,
        mapper: Mapper | None,
        changes: dict[str, Any],
    ) -> None:
        self.policy, self.taxonomy, self.mapper = policy, taxonomy, mapper
        #: A model that is named is known by its settings, as one of a recipe is.
        self.vlm = vlm if vlm is None or isinstance(vlm, str) else make_model(vlm)
        #: Other values of keys of the recipe.
        self.changes = changes

    def on(self, recipe: Recipe) -> Recipe:
        """Returns a recipe with the settings that were given; another model has no commit of the recipe's."""
        other = isinstance(recipe.vlm, LocalVLMSettings) and "vlm.model" in self.changes
        return recipe.changed({**({"vlm.revision": None} if other else {}), **self.changes})

    @property
    def model(self) -> Model | None:
        return None if isinstance(self.vlm, str) else self.vlm

    @property
    def named(self) -> dict[str, Any]:
        """The recipe's group of a model that is given by name; empty where none is."""
        return {"vlm": str(parse_model(self.vlm).absolute)} if isinstance(self.vlm, str) else {}


def _of_run(result: TuneResult, recipe: Recipe | str | Path | None, calibrated: bool, own: _Own) -> Classifier:
    folder = Path(result.folder)
    if not result.heldout:
        raise DataError("The run is not finished.", file=folder, remedy="Finish it with --resume first.")
    if recipe is None:
        given = {"taxonomy": own.taxonomy, "vlm": own.vlm, "mapper": own.mapper}
        settings = recipe_of(result, given={"data", *(name for name, one in given.items() if one is not None)})
    else:
        settings = recipe if isinstance(recipe, Recipe) else load_recipe(recipe)
    templates = [str(result.best.template)]
    policy, promise = own.policy, None
    changes: dict[str, Any] = {}
    changes |= own.named
    if isinstance(settings.vlm, LocalVLMSettings) and own.vlm is None:
        # The commit that the run asked: what the name stands for may have changed since.
        asked = result.provenance.facts.get("Model", {}).get("revision", "")
        if settings.vlm.revision is None and not asked.startswith("sha256:") and asked:
            changes["vlm.revision"] = asked
    if calibrated:
        calibration = read_calibration(folder)
        templates, policy = list(calibration.templates), calibration.policy
        if policy is None:
            raise DataError("The calibration found that only always answering the root keeps the risk.", file=folder)
        promise = Promise(calibration.risk, calibration.confidence_level, calibration.images)
        if calibration.temperature:
            changes |= {"policy.samples": calibration.samples, "vlm.temperature": calibration.temperature}
    elif policy is None and result.selection is not None and result.selection.policy:
        policy = _policy(result.selection.policy, folder)
    objects: dict[str, Any] = {"taxonomy": own.taxonomy, "mapper": own.mapper}
    parts = Experiment(own.on(settings.changed(changes)), folder, vlm=own.model, **objects)
    policy = policy or parts.policy
    recipe = None
    if own.model is None:
        recipe = _with_temperature(parts.recipe, policy, temperature_of(parts.recipe))
        parts = Experiment(recipe, folder, **objects)
    if own.mapper is None and not any(key.startswith("mapper.") for key in own.changes):
        _check_mapper(parts.mapper, result)
    variables = template_variables(settings.prompt)
    return Classifier(
        tuple(render(template, variables) for template in templates),
        parts.taxonomy,
        parts.vlm,
        parts.mapper,
        policy,
        reliability=_reliability(result, parts.taxonomy),
        promise=promise,
        recipe=recipe,
        name=result.name,
    )


def _check_mapper(mapper: Mapper, result: TuneResult) -> None:
    """Checks that answers are placed as they were in the run; another WordNet is noted.

    Raises:
        DataError: If they are not: the run had a mapper that was given in Python.
    """
    known, made = dict(result.provenance.facts.get("Mapper", {})), as_texts(mapper.identity())
    then, now = (facts.pop("wordnet", "no WordNet") for facts in (known, made))
    if known and then != now:
        note(f"the run looked words up in {then}, and here it is {now}: placements may differ")
    for name in sorted(known.keys() & made.keys()):
        if (value := known[name]) == made[name]:
            continue
        raise DataError(
            f"The run placed answers with another mapper: its {name} was {value}, and not {made[name]}.",
            file=result.folder,
            remedy="Give the same mapper in Python: mapper=.",
        )


def _of_saved(folder: Path, calibrated: bool, own: _Own) -> Classifier:
    from taxtune.mapping import Mapper, MapperConfig
    from taxtune.mapping.similarity import make_similarity

    saved = read_saved(folder)
    if calibrated and saved.promise is None:
        raise DataError(
            "The classifier was saved without a calibration.",
            file=folder,
            remedy="Save it from its run with load_classifier(run, calibrated=True).save(folder).",
        )
    for name, there, given in (
        ("vlm", saved.vlm, own.vlm),
        ("mapper", saved.mapper, own.mapper),
        ("policy", saved.policy, own.policy),
    ):
        if there is None and given is None:
            what = "model" if name == "vlm" else name
            raise DataError(
                f"The classifier's {what} was given in Python, so it is not in the folder.",
                file=folder,
                remedy=f"Give the same again in Python: {name}=.",
            )
    tree = read_tree(folder, saved)
    policy = own.policy or _policy(saved.policy or {}, folder)
    recipe: Recipe | None = None
    if own.model is None:
        vlm = None if saved.vlm is None else saved.vlm.model_dump()
        recipe = Recipe.model_validate(
            {
                "name": "classifier",
                "seed": saved.seed,
                **STAND_INS,
                **(own.named or {"vlm": vlm}),
                "source": folder / FILE,
            }
        )
        # The folder may come from anyone, so that its server needs the user's consent.
        recipe = own.on(recipe if own.named else recipe.from_file())
        recipe = _with_temperature(recipe, policy, recipe.vlm.temperature)
    mapper = own.mapper
    if saved.mapper is not None:
        mapper = mapper or Mapper(tree, make_similarity(saved.mapper.similarity), MapperConfig(**saved.mapper.config))
    assert mapper is not None
    model = own.model
    if recipe is not None:
        model = Experiment(recipe, folder).vlm
    assert model is not None
    return Classifier(
        saved.prompts,
        tree,
        model,
        mapper,
        policy,
        reliability=saved.reliability,
        promise=saved.promise if own.policy is None else None,
        recipe=recipe,
        name=saved.name,
    )


def _with_temperature(recipe: Recipe, policy: Policy, several: float | None) -> Recipe:
    """Returns the recipe of a model that is asked at the temperature that a policy needs.

    Args:
        recipe: The recipe, with the temperature of a single answer.
        policy: The policy.
        several: The temperature of several answers; 0 where nobody has set one.
    """
    temperature = recipe.vlm.temperature
    if policy.calls > 1:
        temperature = _TEMPERATURE if several == 0 else several
    return recipe.changed({"policy.samples": 1, "vlm.temperature": temperature})


def _policy(identity: Mapping[str, Any], folder: Path) -> Policy:
    """Returns the policy that a record names."""
    kinds: dict[str, Callable[..., Policy]] = {"direct": Direct, "vote": Vote}
    if identity["kind"] not in kinds:
        raise DataError(
            f"The run's policy {identity['kind']!r} was given in Python.",
            file=folder,
            remedy="Give the same policy in Python: policy=.",
        )
    return kinds[identity["kind"]](**{key: value for key, value in identity.items() if key != "kind"})


def _reliability(result: TuneResult, tree: Taxonomy) -> Reliability | None:
    """Returns how often the winner's answers to the held-out images were right; None where none was judged.

    Raises:
        DataError: If the tree is not the one that they were placed on.
    """
    rows = [row for row in result.heldout_winner.rows if row.node is not None and not row.off_tree]
    if any(row.target >= len(tree) or "/".join(tree.path(row.target)) != row.truth for row in rows):
        raise DataError(
            "The tree has changed since the run: its nodes are no longer those of the run's labels.",
            file=Path(result.folder),
            remedy="Use the tree of the run, or tune again.",
        )
    # Of several answers the first: what a single answer would have been.
    single = [(row.votes[0] if row.votes else row.node, row.target) for row in rows]
    judged = [(node, target) for node, target in single if node is not None and node >= 0]
    return Reliability.of(tree, *zip(*judged, strict=True)) if judged else None
