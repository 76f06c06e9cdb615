"""From the folder of a finished run, or of a saved classifier, to a classifier."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taxtune.classifier.classifier import Classifier
from taxtune.errors import DataError, command
from taxtune.models import Model, make_model
from taxtune.models.names import parse_model
from taxtune.policies import Policy, Posterior, RiskGuarantee, SelfConsistency, Single
from taxtune.policies.allowed import Checklist
from taxtune.progress import note
from taxtune.recipe import Recipe
from taxtune.settings import LocalVLMSettings
from taxtune.tuning.build import make_mapper, make_vlm
from taxtune.tuning.calibrate import read_calibration
from taxtune.tuning.records import TuneResult
from taxtune.tuning.run_folder import STAND_INS, as_texts
from taxtune.tuning.saved import FILE, Saved, find_saved, read_saved, tree_of_columns

if TYPE_CHECKING:
    from taxtune.mapping import Mapper

__all__ = ["load_classifier", "policy_of"]

_ARBITER = "arbiter.model"
_POLICIES: Mapping[str, Callable[..., Policy]] = {
    "direct": Single,
    "self_consistency": SelfConsistency,
    "posterior": Posterior,
}


def load_classifier(
    run: str | PathLike[str] | TuneResult,
    *,
    calibrated: bool = False,
    policy: Policy | None = None,
    vlm: Model | Callable[..., Any] | str | None = None,
    mapper: Mapper | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Classifier:
    """Makes the classifier of a finished run, or of a folder that it was saved to.

    Nothing is loaded yet.

    Args:
        run: The run's folder, the run, or the folder that `Classifier.save` wrote.
        calibrated: Use the policy that `calibrate` chose, with its guarantee, instead of the run's
            own.
        policy: Another policy. Self-consistency asks a model that decodes greedily in the run at a
            temperature of 1.
        vlm: The model, for a run with a model of one's own.
        mapper: The mapper, for a run with one of one's own.
        settings: Other values of the recipe's keys, such as {"vlm.device": "cuda"},
            {"vlm.api_base": "http://..."} or {"execution.engine": "ray"}, where this machine is not
            that of the run; with {"policy.samples": 8} it is self-consistency of 8 answers.

    Raises:
        DataError: If there is no finished run and no saved classifier in the folder, or no
            calibration; or if model or mapper have to be given again.
        RecipeError: If there is no such key.
        TaxtuneError: If the folder names a server that is not known to be the user's own (see
            `taxtune.trust`).
    """
    given = Path(run.folder if isinstance(run, TuneResult) else run)
    folder = find_saved(given)
    saved = read_saved(folder)
    changes = dict(settings or {})
    if policy is None:
        policy = _policy_of_settings(changes, folder)
    if calibrated:
        if policy is not None:
            raise DataError("A calibration has its own policy.", remedy="Leave out the other.")
        saved = _calibrated(saved, given, folder)
    model = None
    if isinstance(vlm, str):  # known by its settings, as a recipe's
        changes = {"vlm": str(parse_model(vlm).absolute), **changes}
    elif vlm is not None:
        model = make_model(vlm)
    used = policy or policy_of(saved.policy, folder)
    recipe = _changed(_recipe(saved, folder), changes, used)
    if model is None:
        _check_model(recipe, given)
    if saved.mapper is None and mapper is None:
        raise DataError(
            "The run's mapper was given in Python.",
            file=given,
            remedy="Give the same mapper in Python: load_classifier(run, mapper=...).",
        )
    taxonomy = tree_of_columns(saved.taxonomy, folder / FILE)
    classifier = Classifier(
        template=saved.template,
        taxonomy=taxonomy,
        model=model or make_vlm(recipe),
        mapper=make_mapper(recipe, taxonomy, mapper),
        policy=used,
        variables=saved.variables,
        context=saved.context,
        allowed=None if saved.allowed is None else Checklist(taxonomy, saved.allowed),
        reliability=saved.reliability,
        guarantee=saved.guarantee if policy is None else None,
        boxes=saved.boxes,
        group=saved.group,
        recipe=recipe if model is None and mapper is None else None,
        words=saved.words,
        name=saved.name,
    )
    _note_other_mapper(classifier.mapper, saved)
    return classifier


def _calibrated(saved: Saved, run: Path, folder: Path) -> Saved:
    """Returns a saved classifier with its guarantee: a run's has the policy of its calibration."""
    if run == folder:
        if saved.guarantee is None:
            raise DataError(
                "The classifier was saved without a calibration.",
                file=folder,
                remedy="Save it from its run with load_classifier(run, calibrated=True).save(folder).",
            )
        return saved
    calibration = read_calibration(run)
    if calibration.policy is None:
        raise DataError(
            "The calibration found that only always answering the root keeps the risk.", file=run
        )
    if calibration.template != saved.template:
        raise DataError(
            "The calibration is that of another template than the winner.",
            file=run,
            remedy=f"Calibrate the winner: {command('calibrate', run, '--risk', str(calibration.risk))}",
        )
    vlm = saved.vlm
    temperature = calibration.identity.get("vlm.temperature")
    if vlm is not None and temperature and calibration.names is None:
        vlm = vlm.model_copy(update={"temperature": temperature})
    guarantee = RiskGuarantee.of(calibration)
    policy = dict(calibration.policy.identity())
    return saved.model_copy(update={"vlm": vlm, "policy": policy, "guarantee": guarantee})


def _recipe(saved: Saved, folder: Path) -> Recipe:
    """Returns the recipe that the model and the mapper of a saved classifier are made from."""
    groups: dict[str, Any] = {**STAND_INS, "name": "classifier", "seed": saved.seed}
    for group in ("vlm", "mapper"):
        settings = getattr(saved, group)
        if settings is not None:
            groups[group] = settings.model_dump()
    # The folder may come from anyone, so that its server needs the user's consent.
    return Recipe.model_validate(groups).from_file(folder / FILE)


def _changed(recipe: Recipe, changes: Mapping[str, Any], policy: Policy) -> Recipe:
    """Returns a recipe with the changes, whose model is asked at the policy's temperature."""
    if "vlm.model" in changes and isinstance(recipe.vlm, LocalVLMSettings):
        # Another model has no commit of this one.
        recipe = recipe.changed({"vlm.revision": None})
    recipe = recipe.changed(changes)
    temperature = recipe.vlm.temperature
    if policy.samples > 1 and temperature == 0:
        temperature = 1.0
    return recipe.changed({"policy.samples": 1, "vlm.temperature": temperature})


def _check_model(recipe: Recipe, folder: Path) -> None:
    """Raises a `DataError` if a model was given in Python, or its checkpoint is no longer there."""
    name = recipe.vlm.model
    another = "--set vlm.model=local:FOLDER or PROVIDER/MODEL, in Python vlm="
    if name == STAND_INS["vlm"]["model"]:
        raise DataError(
            "The run's model was given in Python.",
            file=folder,
            remedy="Give the same model in Python: load_classifier(run, vlm=...). Or another one: "
            f"{another}.",
        )
    path = Path(name)
    is_local = isinstance(recipe.vlm, LocalVLMSettings)
    if is_local and path.is_absolute() and not path.is_dir():
        raise DataError(
            "The checkpoint of the model is no longer there.",
            file=folder,
            value=name,
            remedy=f"Say where it is: {another}.",
        )


def _note_other_mapper(mapper: Mapper, saved: Saved) -> None:
    """Notes what differs in a mapper from that of the run."""
    facts = as_texts(mapper.identity())
    another = saved.placed_by.get(_ARBITER) != facts.get(_ARBITER)
    for key in sorted(saved.placed_by):
        # The name of a chat model says all of it.
        is_said = another and key.startswith("arbiter.") and key != _ARBITER
        before = saved.placed_by[key]
        if before != facts.get(key) and not is_said:
            note(
                f"the run placed answers with {key} {before}, and not {facts.get(key, 'none')}: "
                "placements may differ"
            )


def _policy_of_settings(settings: Mapping[str, Any], folder: Path) -> Policy | None:
    """Returns the self-consistency that settings ask for, None if they do not."""
    named = {}
    for key, value in settings.items():
        if key.startswith("policy."):
            named[key.removeprefix("policy.")] = value
    return policy_of({"kind": "self_consistency", **named}, folder) if named else None


def policy_of(identity: Mapping[str, Any], folder: Path) -> Policy:
    """Returns the policy that a record names."""
    settings = dict(identity)
    kind = settings.pop("kind", None)
    if kind == "self_consistency" and settings.get("samples") == 1:
        return Single()
    try:
        return _POLICIES[kind](**settings)
    except (KeyError, TypeError):
        raise DataError(
            "There is no such policy.",
            file=folder,
            value=dict(identity),
            remedy="Set policy.samples and policy.threshold, such as 8 and 0.7; in Python "
            "policy=taxtune.SelfConsistency(8, 0.7).",
        ) from None
