"""From the folder of a finished run, or of a saved classifier, to a classifier: recipe, experiment, parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from taxtune.classifier.classifier import FILE, Classifier, read_saved, read_tree
from taxtune.data.context import blank
from taxtune.errors import DataError
from taxtune.models import Model, make_model
from taxtune.models.names import parse_model
from taxtune.policies import Policy, Posterior, Reliability, RiskGuarantee, SelfConsistency, Single
from taxtune.policies.allowed import Checklist
from taxtune.progress import note
from taxtune.recipe import Recipe, load_recipe
from taxtune.settings import LocalVLMSettings
from taxtune.taxonomy.read import as_taxonomy
from taxtune.tuning.build import (
    make_checklist,
    make_mapper,
    make_policy,
    make_taxonomy,
    make_vlm,
    sampling_temperature,
)
from taxtune.tuning.calibrate import read_calibration
from taxtune.tuning.records import TuneResult
from taxtune.tuning.run_folder import STAND_INS, as_texts, finished_run, recipe_of
from taxtune.tuning.template import Template

if TYPE_CHECKING:
    from taxtune.mapping import Mapper
    from taxtune.taxonomy import Domain, Taxonomy

__all__ = ["load_classifier"]


def load_classifier(
    run: str | PathLike[str] | TuneResult,
    *,
    calibrated: bool = False,
    policy: Policy | None = None,
    recipe: Recipe | str | Path | None = None,
    taxonomy: Taxonomy | str | Path | Mapping[str, Any] | None = None,
    vlm: Model | Callable[..., Any] | str | None = None,
    mapper: Mapper | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Classifier:
    """Makes the classifier of a finished run, or of a folder that it was saved to; nothing is loaded yet.

    Args:
        run: The run's folder, the run, or the folder that `Classifier.save` wrote.
        calibrated: Use the policy that `calibrate` chose, with its guarantee, instead of the run's own.
        policy: Another policy. Self-consistency asks a model that decodes greedily in the run at a temperature of 1.
        recipe: The run's recipe, where the run does not know it.
        taxonomy: The label tree as `taxtune.tune` takes it, for a run with one that is in no file.
        vlm: The model, for a run with a model of one's own.
        mapper: The mapper, for a run with one of one's own.
        settings: Other values of the recipe's keys, such as {"vlm.device": "cuda"}, {"vlm.api_base": "http://..."} or
            {"execution.engine": "ray"}, where this machine is not that of the run; with {"policy.samples": 8} it
            is self-consistency of 8 answers.

    Raises:
        DataError: If there is no finished run and no saved classifier in the folder, or no calibration; if the tree is
            no longer that of the run; or if something has to be given again.
        RecipeError: If the run does not know its recipe.
        TaxtuneError: If the folder names a server that is not known to be the user's own (see `taxtune.trust`).
    """
    asked_often = {
        key.removeprefix("policy."): one
        for key, one in (settings or {}).items()
        if key.startswith("policy.")
    }
    if asked_often and policy is None:
        policy = _policy(
            {"kind": "self_consistency", **asked_often},
            Path(run.folder if isinstance(run, TuneResult) else run),
        )
    if calibrated and policy is not None:
        raise DataError("A calibration has its own policy.", remedy="Leave out the other.")
    given: dict[str, Any] = {
        "mapper": mapper,
        "taxonomy": None if taxonomy is None else as_taxonomy(taxonomy),
    }
    changes: list[dict[str, Any]] = [dict(settings or {})]
    if isinstance(vlm, str):  # known by its settings, as a recipe's
        changes.insert(0, {"vlm": str(parse_model(vlm).absolute)})
    else:
        given["vlm"] = None if vlm is None else make_model(vlm)
    if not isinstance(run, TuneResult) and (Path(run) / FILE).exists():
        if recipe is not None or taxonomy is not None:
            raise DataError(
                "A saved classifier holds its recipe and its tree.",
                file=Path(run),
                remedy="Leave them out.",
            )
        folder = Path(run)
        saved = read_saved(folder)
        if calibrated and saved.guarantee is None:
            raise DataError(
                "The classifier was saved without a calibration.",
                file=folder,
                remedy="Save it from its run with load_classifier(run, calibrated=True).save(folder).",
            )
        groups = {
            "vlm": saved.vlm.model_dump(),
            "mapper": saved.mapper.model_dump(),
            "seed": saved.seed,
        }
        # The folder may come from anyone, so that its server needs the user's consent.
        known = Recipe.model_validate({"name": "classifier", **STAND_INS, **groups}).from_file(
            folder / FILE
        )
        given["taxonomy"] = read_tree(folder, saved)
        asked = policy or _policy(saved.policy, folder)
        parts = _parts(known, asked, changes, given)
        template, variables, context = saved.template, saved.variables, saved.context
        allowed = None if saved.allowed is None else Checklist(parts.taxonomy, saved.allowed)
        reliability, name = saved.reliability, saved.name
        guarantee = saved.guarantee if policy is None else None
    else:
        result = run if isinstance(run, TuneResult) else finished_run(Path(run))
        folder, name = Path(result.folder), result.name
        if recipe is None:
            groups_given = {
                "data",
                *(group for group, one in (given | {"vlm": vlm}).items() if one is not None),
            }
            recipe = recipe_of(result, given=groups_given)
        known = recipe if isinstance(recipe, Recipe) else load_recipe(recipe)
        known, template, asked, guarantee = _winner(
            result, known, calibrated, policy, same_model=vlm is None
        )
        parts = _parts(known, asked, changes, given)
        variables = known.prompt.variables
        allowed = make_checklist(parts.recipe, parts.taxonomy, parts.part)
        used = {
            *Template.parse(template, blank(result.context)).variables,
            *(allowed.variables if allowed else ()),
        }
        context = tuple(variable for variable in result.context if variable.name in used)
        reliability = _reliability(result, parts.taxonomy)
        then, now = result.provenance.facts.get("Mapper", {}), as_texts(parts.mapper.identity())
        for key in sorted(then):
            if then[key] != now.get(key):
                note(
                    f"the run placed answers with {key} {then[key]}, and not {now.get(key)}: placements may differ"
                )
    return Classifier(
        template,
        parts.taxonomy,
        parts.vlm,
        parts.mapper,
        asked,
        variables=variables,
        context=context,
        allowed=allowed,
        reliability=reliability,
        guarantee=guarantee,
        recipe=parts.recipe if given.get("vlm") is None and mapper is None else None,
        name=name,
    )


def _winner(
    result: TuneResult, recipe: Recipe, calibrated: bool, policy: Policy | None, *, same_model: bool
) -> tuple[Recipe, str, Policy, RiskGuarantee | None]:
    """Returns the recipe with the commit that the run asked, and the winner's template, policy and guarantee."""
    folder = Path(result.folder)
    if isinstance(recipe.vlm, LocalVLMSettings) and same_model and recipe.vlm.revision is None:
        # What the name stands for may have changed since.
        commit = result.provenance.facts.get("Model", {}).get("revision", "")
        if commit and not commit.startswith("sha256:"):
            recipe = recipe.changed({"vlm.revision": commit})
    if not calibrated:
        if policy is None and result.selection is not None and result.selection.policy:
            policy = _policy(result.selection.policy, folder)
        return recipe, str(result.best.template), policy or make_policy(recipe), None
    calibration = read_calibration(folder)
    if calibration.policy is None:
        raise DataError(
            "The calibration found that only always answering the root keeps the risk.", file=folder
        )
    temperature = calibration.identity.get("vlm.temperature")
    if temperature and calibration.names is None:
        recipe = recipe.changed(
            {"policy.samples": calibration.samples, "vlm.temperature": temperature}
        )
    guarantee = RiskGuarantee(calibration.risk, calibration.confidence_level, calibration.images)
    return recipe, calibration.template, calibration.policy, guarantee


class _Parts(NamedTuple):
    """What a classifier is made of, besides what its run decided."""

    recipe: Recipe
    taxonomy: Taxonomy
    part: Domain | None
    vlm: Model
    mapper: Mapper


def _parts(
    recipe: Recipe,
    policy: Policy,
    changes: list[dict[str, Any]],
    given: dict[str, Any],
) -> _Parts:
    """Makes the parts of a recipe with its changes; the model is asked at the policy's temperature."""
    for some in changes:
        if "vlm.model" in some and isinstance(recipe.vlm, LocalVLMSettings):
            some = {"vlm.revision": None, **some}  # another model has no commit of this one
        recipe = recipe.changed(some)
    temperature = recipe.vlm.temperature
    if policy.samples > 1:
        temperature = sampling_temperature(recipe)
        temperature = 1.0 if temperature == 0 else temperature
    recipe = recipe.changed({"policy.samples": 1, "vlm.temperature": temperature})
    taxonomy, part = make_taxonomy(recipe, given["taxonomy"])
    return _Parts(
        recipe=recipe,
        taxonomy=taxonomy,
        part=part,
        vlm=make_vlm(recipe) if given.get("vlm") is None else given["vlm"],
        mapper=make_mapper(recipe, taxonomy, given["mapper"]),
    )


def _policy(identity: Mapping[str, Any], folder: Path) -> Policy:
    """Makes the policy that a record names."""
    kinds: dict[object, Callable[..., Policy]] = {
        "direct": Single,
        "self_consistency": SelfConsistency,
        "posterior": Posterior,
    }
    kind = identity.get("kind")
    settings = {key: value for key, value in identity.items() if key != "kind"}
    if kind == "self_consistency" and settings.get("samples") == 1:
        return Single()
    try:
        return kinds[kind](**settings)
    except (KeyError, TypeError):
        raise DataError(
            "There is no such policy.",
            file=folder,
            value=dict(identity),
            remedy="Set policy.samples and policy.threshold, such as 8 and 0.7; in Python "
            "policy=taxtune.SelfConsistency(8, 0.7).",
        ) from None


def _reliability(result: TuneResult, tree: Taxonomy) -> Reliability | None:
    """Counts how often the winner's answers to the held-out images were right; None where none was judged.

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
