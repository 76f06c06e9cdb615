"""From the folder of a finished run, or of a saved classifier, to a classifier."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    make_mapper,
    make_policy,
    make_taxonomy,
    make_vlm,
)
from taxtune.tuning.calibrate import read_calibration
from taxtune.tuning.experiment import make_checklist
from taxtune.tuning.records import TuneResult
from taxtune.tuning.run_folder import STAND_INS, as_texts, finished_run, recipe_of
from taxtune.tuning.template import Template

if TYPE_CHECKING:
    from taxtune.mapping import Mapper
    from taxtune.taxonomy import Taxonomy

__all__ = ["load_classifier"]

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
    recipe: Recipe | str | Path | None = None,
    taxonomy: Taxonomy | str | Path | Mapping[str, Any] | None = None,
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
        recipe: The run's recipe, where the run does not know it.
        taxonomy: The label tree as `taxtune.tune` takes it, for a run with one that is in no file.
        vlm: The model, for a run with a model of one's own.
        mapper: The mapper, for a run with one of one's own.
        settings: Other values of the recipe's keys, such as {"vlm.device": "cuda"},
            {"vlm.api_base": "http://..."} or {"execution.engine": "ray"}, where this machine is not
            that of the run; with {"policy.samples": 8} it is self-consistency of 8 answers.

    Raises:
        DataError: If there is no finished run and no saved classifier in the folder, or no
            calibration; if the tree is no longer that of the run; or if something has to be given
            again.
        RecipeError: If the run does not know its recipe.
        TaxtuneError: If the folder names a server that is not known to be the user's own (see
            `taxtune.trust`).
    """
    folder = Path(run.folder if isinstance(run, TuneResult) else run)
    changes = dict(settings or {})
    if policy is None:
        policy = _policy_of_settings(changes, folder)
    if calibrated and policy is not None:
        raise DataError("A calibration has its own policy.", remedy="Leave out the other.")
    model = None
    changes_of_recipe = [changes]
    if isinstance(vlm, str):  # known by its settings, as a recipe's
        changes_of_recipe.insert(0, {"vlm": str(parse_model(vlm).absolute)})
    elif vlm is not None:
        model = make_model(vlm)
    tree = None if taxonomy is None else as_taxonomy(taxonomy)
    wanted = _Wanted(
        calibrated=calibrated,
        policy=policy,
        taxonomy=tree,
        vlm=model,
        mapper=mapper,
        changes=changes_of_recipe,
    )
    if isinstance(run, TuneResult) or not (folder / FILE).exists():
        result = run if isinstance(run, TuneResult) else finished_run(folder)
        if recipe is None:
            given = {"data": True, "taxonomy": taxonomy, "vlm": vlm, "mapper": mapper}
            groups = {group for group, value in given.items() if value is not None}
            recipe = recipe_of(result, given=groups)
        known = recipe if isinstance(recipe, Recipe) else load_recipe(recipe)
        if vlm is None:
            known = _with_commit(known, result)
        return _of_run(result, known, wanted)
    if recipe is not None or taxonomy is not None:
        raise DataError(
            "A saved classifier holds its recipe and its tree.",
            file=folder,
            remedy="Leave them out.",
        )
    return _of_saved(folder, wanted)


@dataclass(frozen=True)
class _Wanted:
    """What is to be different from what a run or a folder says.

    Attributes:
        calibrated: Whether to use the policy that `calibrate` chose.
        policy: Another policy.
        taxonomy: The label tree in place of the recipe's; likewise the next two.
        vlm: The model.
        mapper: The mapper.
        changes: Other values of the recipe's keys, the first ones first.
    """

    calibrated: bool
    policy: Policy | None
    taxonomy: Taxonomy | None
    vlm: Model | None
    mapper: Mapper | None
    changes: Sequence[Mapping[str, Any]]

    def changed(self, recipe: Recipe, policy: Policy) -> Recipe:
        """Returns a recipe with the changes, whose model is asked at the policy's temperature."""
        for change in self.changes:
            if "vlm.model" in change and isinstance(recipe.vlm, LocalVLMSettings):
                # Another model has no commit of this one.
                change = {"vlm.revision": None, **change}
            recipe = recipe.changed(change)
        temperature = recipe.vlm.temperature
        if policy.samples > 1 and temperature == 0:
            temperature = 1.0
        return recipe.changed({"policy.samples": 1, "vlm.temperature": temperature})

    def kept(self, recipe: Recipe) -> Recipe | None:
        """Returns the recipe of model and mapper, None if one of them is an object."""
        return recipe if self.vlm is None and self.mapper is None else None


def _of_saved(folder: Path, wanted: _Wanted) -> Classifier:
    """Makes the classifier of a folder that it was saved to."""
    saved = read_saved(folder)
    if wanted.calibrated and saved.guarantee is None:
        raise DataError(
            "The classifier was saved without a calibration.",
            file=folder,
            remedy="Save it from its run with load_classifier(run, calibrated=True).save(folder).",
        )
    groups = {
        **STAND_INS,
        "name": "classifier",
        "vlm": saved.vlm.model_dump(),
        "mapper": saved.mapper.model_dump(),
        "seed": saved.seed,
    }
    # The folder may come from anyone, so that its server needs the user's consent.
    recipe = Recipe.model_validate(groups).from_file(folder / FILE)
    policy = wanted.policy or _policy(saved.policy, folder)
    recipe = wanted.changed(recipe, policy)
    taxonomy, _ = make_taxonomy(recipe, read_tree(folder, saved))
    return Classifier(
        template=saved.template,
        taxonomy=taxonomy,
        model=wanted.vlm or make_vlm(recipe),
        mapper=make_mapper(recipe, taxonomy, wanted.mapper),
        policy=policy,
        variables=saved.variables,
        context=saved.context,
        allowed=None if saved.allowed is None else Checklist(taxonomy, saved.allowed),
        reliability=saved.reliability,
        guarantee=saved.guarantee if wanted.policy is None else None,
        recipe=wanted.kept(recipe),
        name=saved.name,
    )


def _of_run(result: TuneResult, recipe: Recipe, wanted: _Wanted) -> Classifier:
    """Makes the classifier of a finished run."""
    winner = _Winner.of(result, recipe, wanted)
    recipe = wanted.changed(winner.recipe, winner.policy)
    taxonomy, part = make_taxonomy(recipe, wanted.taxonomy)
    mapper = make_mapper(recipe, taxonomy, wanted.mapper)
    allowed = make_checklist(recipe, taxonomy, part)
    template = Template.parse(winner.template, blank(result.context))
    used = set(template.variables)
    if allowed is not None:
        used.update(allowed.variables)
    classifier = Classifier(
        template=winner.template,
        taxonomy=taxonomy,
        model=wanted.vlm or make_vlm(recipe),
        mapper=mapper,
        policy=winner.policy,
        variables=winner.recipe.prompt.variables,
        context=tuple(variable for variable in result.context if variable.name in used),
        allowed=allowed,
        reliability=_reliability(result, taxonomy),
        guarantee=winner.guarantee,
        recipe=wanted.kept(recipe),
        name=result.name,
    )
    recorded = result.provenance.facts.get("Mapper", {})
    facts = as_texts(mapper.identity())
    for key in sorted(recorded):
        if recorded[key] != facts.get(key):
            note(
                f"the run placed answers with {key} {recorded[key]}, and not {facts.get(key)}: "
                "placements may differ"
            )
    return classifier


@dataclass(frozen=True)
class _Winner:
    """What a run decided, with the recipe that its model is asked by."""

    recipe: Recipe
    template: str
    policy: Policy
    guarantee: RiskGuarantee | None = None

    @classmethod
    def of(cls, result: TuneResult, recipe: Recipe, wanted: _Wanted) -> _Winner:
        """Returns the winner with the wanted policy, or else that of the run."""
        if wanted.calibrated:
            return cls.calibrated(result, recipe)
        policy = wanted.policy
        if policy is None and result.selection is not None and result.selection.policy:
            policy = _policy(result.selection.policy, Path(result.folder))
        return cls(recipe, str(result.best.template), policy or make_policy(recipe))

    @classmethod
    def calibrated(cls, result: TuneResult, recipe: Recipe) -> _Winner:
        """Returns the winner with the policy that a calibration chose."""
        folder = Path(result.folder)
        calibration = read_calibration(folder)
        if calibration.policy is None:
            raise DataError(
                "The calibration found that only always answering the root keeps the risk.",
                file=folder,
            )
        temperature = calibration.identity.get("vlm.temperature")
        if temperature and calibration.names is None:
            samples = calibration.samples
            recipe = recipe.changed({"policy.samples": samples, "vlm.temperature": temperature})
        guarantee = RiskGuarantee(
            calibration.risk, calibration.confidence_level, calibration.images
        )
        return cls(recipe, calibration.template, calibration.policy, guarantee)


def _with_commit(recipe: Recipe, result: TuneResult) -> Recipe:
    """Returns a recipe whose checkpoint is the commit that the run asked.

    What its name stands for may have changed since.
    """
    if not isinstance(recipe.vlm, LocalVLMSettings) or recipe.vlm.revision is not None:
        return recipe
    commit = result.provenance.facts.get("Model", {}).get("revision", "")
    if not commit or commit.startswith("sha256:"):
        return recipe
    return recipe.changed({"vlm.revision": commit})


def _policy_of_settings(settings: Mapping[str, Any], folder: Path) -> Policy | None:
    """Returns the self-consistency that settings ask for, None if they do not."""
    named = {}
    for key, value in settings.items():
        if key.startswith("policy."):
            named[key.removeprefix("policy.")] = value
    return _policy({"kind": "self_consistency", **named}, folder) if named else None


def _policy(identity: Mapping[str, Any], folder: Path) -> Policy:
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


def _reliability(result: TuneResult, tree: Taxonomy) -> Reliability | None:
    """Counts right answers of the winner to the held-out images; None if none was judged.

    Raises:
        DataError: If the tree is not the one that they were placed on.
    """
    nodes = []
    targets = []
    for row in result.heldout_winner.rows:
        if row.node is None or row.off_tree:
            continue
        path = tree.path(row.target) if row.target < len(tree) else ()
        if "/".join(path) != row.truth:
            raise DataError(
                "The tree has changed since the run: its nodes are no longer those of the run's "
                "labels.",
                file=Path(result.folder),
                remedy="Use the tree of the run, or tune again.",
            )
        # Of several answers the first: what a single answer would have been.
        node = row.votes[0] if row.votes else row.node
        if node >= 0:
            nodes.append(node)
            targets.append(row.target)
    return Reliability.of(tree, nodes, targets) if nodes else None
