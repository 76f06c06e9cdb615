"""The recipe: one YAML file that says everything about a tuning run.

A recipe is read into typed models; an unknown key, a wrong type or a value out of range is a
`RecipeError` that names the file and the line and suggests the right key. Relative paths are
relative to the recipe's folder; `${NAME}` in a path is an environment variable.
"""

from __future__ import annotations

import contextlib
import copy
import difflib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import yaml
from pydantic import (
    BaseModel,
    Field,
    PrivateAttr,
    StrictInt,
    ValidationError,
    field_validator,
    model_validator,
)

from taxtune.errors import RecipeError
from taxtune.recipe_file import parse_override, read_mapping
from taxtune.resources import recipes_dir
from taxtune.settings import (
    EFFORTS,
    BudgetSettings,
    DataSettings,
    Effort,
    ExecutionSettings,
    FragmentsProposerSettings,
    JudgeSettings,
    MapperSettings,
    Number,
    ObjectiveSettings,
    PolicySettings,
    PromptSettings,
    ProposerSettings,
    Settings,
    TaxonomySettings,
    TrackingSettings,
    VLMSettings,
    with_kind,
    with_proposer,
)
from taxtune.trust import address_in, check_server

__all__ = ["Recipe", "load_recipe", "recipe_path"]

#: Groups of keys that a name may stand for.
_NAMED = {"proposer": with_proposer, "vlm": with_kind}


class Recipe(Settings):
    """A tuning run, in full.

    Attributes:
        name: Names the run folder, the MLflow runs and the registered prompt.
        description: For people.
        seed: Seeds the splits, the proposer, the VLM's sampling and the bootstrap.
        effort: How much the search may spend: light, medium or heavy, which is 10, 20 or 40
            templates and at most 800, 1,600 or 3,200 calls of the VLM about tuning images (several
            answers about an image count as one). Medium, unless `iterations` or `budget.vlm_calls`
            say it.
        iterations: Templates to try after the baseline, at most; those of the effort, or as many as
            a budget of calls gives, when left out.
        budget: What the run may spend.
        max_missing: Largest share of images without an answer, or without a value of what is tuned
            for, before an iteration is void.
        max_off_tree: Largest share of the baseline's answers to the tuning images that may be off
            the tree; above it the run ends, since the tree or the domain is not that of the images.
        judge: The language model that rates answers, for objectives that ask one.
    """

    name: str
    description: str = ""
    seed: StrictInt = Field(0, ge=0)
    taxonomy: TaxonomySettings
    data: DataSettings
    prompt: PromptSettings = PromptSettings()
    vlm: VLMSettings
    execution: ExecutionSettings = ExecutionSettings()
    mapper: MapperSettings = MapperSettings()
    policy: PolicySettings = PolicySettings()
    objective: ObjectiveSettings = ObjectiveSettings()
    judge: JudgeSettings | None = None
    proposer: ProposerSettings = FragmentsProposerSettings()
    effort: Effort | None = None
    iterations: StrictInt | None = Field(None, ge=1)
    budget: BudgetSettings = BudgetSettings()
    max_missing: Number = Field(0.1, ge=0, lt=1)
    max_off_tree: Number = Field(0.5, ge=0, le=1)
    tracking: TrackingSettings = TrackingSettings()
    _source: Path | None = PrivateAttr(None)
    # Keys whose values are the user's own, with all below them; "" is all of them. No file can say
    # so.
    _own: frozenset[str] = PrivateAttr(frozenset({""}))

    @field_validator("name")
    @classmethod
    def _names_a_folder(cls, value: str) -> str:
        if len(value) > 100 or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", value):
            raise ValueError(
                "must be at most 100 letters (a-z), digits, dots, dashes and underscores and start with a letter or "
                "digit, because it is the name of a folder"
            )
        return value

    @model_validator(mode="after")
    def _ratings_need_a_judge(self) -> Recipe:
        from taxtune.objective import asks_a_model

        if self.judge is None and asks_a_model(self.objective.kind):
            raise ValueError(
                f"objective.kind {self.objective.kind!r} needs a judge: judge: {{model: openai/gpt-4o-mini}}"
            )
        return self

    @property
    def source(self) -> Path | None:
        """The file that the recipe was read from; no key says so."""
        return self._source

    def limits(self, answers: int = 1) -> tuple[int, BudgetSettings]:
        """Returns the most templates after the baseline, and the budget.

        Args:
            answers: Answers that the policy takes of each image.
        """
        calls, templates = self.budget.vlm_calls, self.iterations
        if calls is None and (self.effort is not None or templates is None):
            most, calls = EFFORTS[self.effort or "medium"]
            templates, calls = templates or most, calls * answers
        budget = self.budget.model_copy(update={"vlm_calls": calls})
        return templates or calls or 1, budget

    def path(self, text: str) -> Path:
        """Returns a path of the recipe, with `${NAME}` and `~` expanded.

        It is relative to the recipe's folder.

        Raises:
            RecipeError: If the path uses an environment variable that is not set, or cannot be a
                path.
        """
        if "\0" in text:
            raise RecipeError("A path cannot hold a NUL character.", file=self.source, value=text)
        for name in re.findall(r"\$\{(\w+)\}", text):
            if name not in os.environ:
                raise RecipeError(
                    f"{text!r} uses the environment variable {name}, which is not set.",
                    file=self.source,
                    remedy=f"Set it: export {name}=VALUE",
                )
        base = self.source.parent if self.source is not None else Path.cwd()
        return base / Path(os.path.expandvars(text)).expanduser()

    def from_file(self, source: Path | None, own: Iterable[str] = ()) -> Recipe:
        """Returns the recipe as that of a file, which may be another person's.

        Args:
            source: The file.
            own: The keys whose values are the user's own.
        """
        recipe = self.model_copy()
        recipe._source, recipe._own = source, frozenset(own)
        return recipe

    def access(self, group: str) -> str | None:
        """Returns the `api_base` of the model of a group, None for the provider's own.

        The key is always the one in the provider's own variable: a recipe names none.

        Args:
            group: "vlm", "judge", "proposer" or "mapper".

        Raises:
            TaxtuneError: If a file names a server that the user does not trust; see
                `taxtune.trust`.
        """
        settings: Any = getattr(self, group)
        named = "arbiter" if group == "mapper" else "model"
        model, base = getattr(settings, named) or "", getattr(settings, "api_base", None)
        addresses = {f"{group}.api_base": base}
        if getattr(settings, "kind", None) != "local" and not model.startswith(("local:", "hf:")):
            # litellm takes "huggingface/https://HOST" for the address.
            addresses[f"{group}.{named}"] = address_in(model)
        for key, address in addresses.items():
            if not any(own in ("", key) or key.startswith(f"{own}.") for own in self._own):
                sends = "prompts and your API key"
                if group == "vlm":
                    sends = f"images, {sends}"
                check_server(address, key=key, file=self.source, sends=sends)
        return base

    def changed(self, changes: Mapping[str, Any]) -> Recipe:
        """Returns the recipe with other values of some keys, which are the user's own.

        Args:
            changes: Values by dotted key: {"data.tuning": 40}.

        Raises:
            RecipeError: If a key is unknown or a value is wrong; all in one message.
        """
        recipe = _made(self.settings(), changes, str(self.source or "settings"))
        return recipe.from_file(self.source, self._own | changes.keys())

    def settings(self) -> dict[str, Any]:
        """Returns the recipe as plain nested values."""
        return self.model_dump(mode="json")

    def flat(self) -> dict[str, Any]:
        """Returns the recipe with dotted keys, for records and comparisons."""
        return flatten(self.settings())


def flatten(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns nested mappings as one mapping with dotted keys."""
    flat: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, Mapping) and item:
            flat |= flatten(item, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = item
    return flat


def recipe_path(reference: str | Path) -> Path:
    """Returns the file of a recipe given by path or by the name of one that comes with taxtune.

    Raises:
        RecipeError: If there is no such file.
    """
    path = Path(reference)
    if path.is_file():
        return path
    shipped = {file.stem: file for file in sorted(recipes_dir().glob("*.yaml"))}
    # "fieldguide", "fieldguide.yaml" and "recipes/fieldguide.yaml" all work in a folder without a
    # checkout.
    is_name = path.parts[:-1] in ((), ("recipes",)) and path.suffix in ("", ".yaml", ".yml")
    if is_name and path.stem in shipped:
        return shipped[path.stem]
    if path.is_dir():
        remedy = "Give the YAML file in it."
        raise RecipeError("This is a folder, not a recipe.", file=path, remedy=remedy)
    near = difflib.get_close_matches(path.stem, shipped, n=1)
    remedy = f"Did you mean {near[0]!r}? " if near else ""
    remedy += f"Give a file, or one of the built-in recipes: {', '.join(shipped)}."
    raise RecipeError("The recipe does not exist.", value=str(reference), remedy=remedy)


def load_recipe(reference: str | Path, overrides: Sequence[str] | Mapping[str, Any] = ()) -> Recipe:
    """Reads a recipe.

    Args:
        reference: A YAML file, or the name of a recipe that comes with taxtune ("fieldguide").
        overrides: Settings that replace those of the file, each "dotted.key=value" with a YAML
            value, or values by dotted key. Another `kind` of a group takes the file's keys that
            only the former kind knows with it.

    Raises:
        RecipeError: If the file is missing or no YAML, a key is unknown or a value is wrong; all in
            one message.
    """
    path = recipe_path(reference)
    stated, text = read_mapping(path)
    pairs = overrides if isinstance(overrides, Mapping) else map(parse_override, overrides)
    typed = dict(pairs)
    return _made(stated, typed, str(path), text, "--set ").from_file(path.resolve(), typed)


def _made(
    stated: Mapping[str, Any],
    changes: Mapping[str, Any],
    file: str,
    text: str = "",
    given: str = "",
) -> Recipe:
    """Returns the recipe of nested values and changes.

    Args:
        stated: The values.
        changes: Other values, by dotted key.
        file: The file, for messages.
        text: Its text.
        given: What stands before a change on the command line, "" for changes in Python.

    Raises:
        RecipeError: With all that is wrong.
    """
    data = _merged(stated, changes, given)
    try:
        return Recipe.model_validate(data)
    except ValidationError as error:
        lines = _problems(error, data, file, text, changes if given else {})
        raise RecipeError("\n".join(lines)) from None


def _merged(stated: Mapping[str, Any], changes: Mapping[str, Any], given: str) -> dict[str, Any]:
    """Returns a copy of nested values with the changes in it."""
    data = copy.deepcopy(dict(stated))
    if changes:
        for group in _NAMED.keys() & data.keys():
            with contextlib.suppress(ValueError):  # a name that stands for nothing may be replaced
                data[group] = _NAMED[group](data[group])
    assigned: dict[str, Any] = {}
    for key, value in changes.items():
        try:
            if key == "vlm.model" and isinstance(value, str):
                # Another model comes with the kind that its name says.
                for name, part in with_kind(value).items():
                    assigned[f"vlm.{name}"] = part
            else:
                assigned[key] = _NAMED[key](value) if key in _NAMED else value
        except ValueError as error:
            raise RecipeError(f"{given}{key}={value}: {error}") from None
    for key, value in assigned.items():
        group, _, name = key.partition(".")
        if name == "kind":
            _change_kind(data, group, str(value))
    for key, value in assigned.items():
        *parents, last = key.split(".")
        place = data
        for parent in parents:
            if place.get(parent) is None:
                place[parent] = {}
            place = place[parent]
            if not isinstance(place, dict):
                raise RecipeError(
                    f"{given}{key}={value}: {parent!r} is a value, not a group of keys."
                )
        place[last] = value
    return data


def _change_kind(data: dict[str, Any], group: str, kind: str) -> None:
    """Takes the keys of a group away that only its former kind knows."""
    below = data.get(group)
    if group not in Recipe.model_fields or not isinstance(below, dict):
        return
    kinds = _kinds(group)
    former = kinds.get(str(below.get("kind")))
    chosen = kinds.get(kind)
    if group == "proposer" and "kind" in below and kind != below["kind"]:
        # A package's kind has keys that are known to the package alone.
        former = former or list(below)
        chosen = chosen or []
    if former is not None and chosen is not None:
        gone = set(former) - set(chosen)
        data[group] = {name: value for name, value in below.items() if name not in gone}


def _members(group: str) -> list[type[BaseModel]]:
    """Returns the models that a group of keys may be."""
    annotation = Recipe.model_fields[group].annotation
    members = []
    for member in get_args(annotation) or (annotation,):
        if get_origin(member) is Annotated:  # with a tag
            member = get_args(member)[0]
        if isinstance(member, type) and issubclass(member, BaseModel):
            members.append(member)
    return members


def _kinds(group: str) -> dict[str, list[str]]:
    """Returns the keys of a group by its kind, none where it has no kinds."""
    kinds = {}
    for member in _members(group):
        if "kind" in member.model_fields:
            for kind in get_args(member.model_fields["kind"].annotation):
                kinds[kind] = list(member.model_fields)
    return kinds


# -- what pydantic finds wrong ---------------------------------------------------------------------


def _problems(
    error: ValidationError, data: Mapping[str, Any], file: str, text: str, typed: Mapping[str, Any]
) -> list[str]:
    """Returns a line for each problem.

    It has the file and the line or the --set, the key, pydantic's message, and the key meant.
    """
    lines = []
    for problem in error.errors(include_url=False):
        place = list(problem["loc"])
        value = problem["input"]
        group = str(place[0]) if place else ""
        kinds = _kinds(group) if group in Recipe.model_fields else {}
        if len(place) > 1 and place[1] in kinds:
            del place[1]  # pydantic's tag of a union, which the YAML does not have
        message = problem["msg"].removeprefix("Value error, ")
        match problem["type"]:
            case "union_tag_invalid" | "union_tag_not_found" if not isinstance(value, Mapping):
                message = _not_a_group(group)
            case "union_tag_invalid" | "union_tag_not_found" if place == ["vlm"]:
                place.append("model")  # the model's name says its kind
                value = value.get("model")
                message = "must be the name of a model"
            case "union_tag_invalid" | "union_tag_not_found":
                place.append("kind")
                value = value.get("kind")
                message = f"must be one of {str([*kinds])[1:-1]}"
            case "model_type" | "model_attributes_type":
                message = _not_a_group(group)
            case "tuple_type":
                message = "must be a list"
            case "extra_forbidden":
                meant = _meant(str(place[-1]), group if len(place) > 1 else None, data)
                message = f"unknown key; {meant}"
        key = ".".join(map(str, place))
        row = _row(text, place)
        where = file if row is None else f"{file}:{row}"
        for setting, given in typed.items():
            is_inside = f"{key}.".startswith(f"{setting}.") or f"{setting}.".startswith(f"{key}.")
            if place and is_inside:
                where = f"--set {setting}={given}"
        got = f" (got {value!r:.80})"
        if isinstance(value, BaseModel | Mapping) or problem["type"] == "missing":
            got = ""
        lines.append(f"{where}: {key}: {message}{got}" if key else f"{where}: {message}{got}")
    return lines


def _not_a_group(group: str) -> str:
    first = next(iter(_members(group)[0].model_fields))
    return f"must be a group of keys, such as {group}.{first}"


def _meant(key: str, group: str | None, data: Mapping[str, Any]) -> str:
    """Returns the key that an unknown one may mean, or the keys that there are."""
    if key.startswith("api_key"):
        return "a key is taken from the provider's own variable, such as OPENAI_API_KEY."
    if group is None:
        known = list(Recipe.model_fields)
        near = []
        for name in known:
            if any(key in model.model_fields for model in _members(name)[:1]):
                near.append(f"{name}.{key}")
    else:
        below = data[group]
        with contextlib.suppress(ValueError):  # the name of a model says its kind
            below = with_kind(below)
        known = _kinds(group).get(str(below.get("kind"))) or list(_members(group)[0].model_fields)
        near = []
    near += difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"the keys here are {', '.join(known)}."


def _row(text: str, place: Sequence[Any]) -> int | None:
    """Returns the line of a key, or of the nearest group above it that the file has."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    row = None
    for part in place:
        pairs = node.value if isinstance(node, yaml.MappingNode) else ()
        for key, value in pairs:
            if key.value == str(part):
                row = key.start_mark.line + 1
                node = value
                break
        else:
            return row
    return row
