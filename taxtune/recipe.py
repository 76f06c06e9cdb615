"""The recipe: one YAML file that says everything about a tuning run.

A recipe is read into typed models; an unknown key, a wrong type or a value out of range is a `RecipeError` that names
the file and the line and suggests the right key. Relative paths are relative to the recipe's folder; `${NAME}` in a
path is an environment variable.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, Field, PrivateAttr, StrictInt, ValidationError, field_validator, model_validator

from taxtune.errors import RecipeError
from taxtune.recipe_file import Override, apply_overrides, parse_override, read_mapping
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
)
from taxtune.trust import check_server

__all__ = ["Recipe", "load_recipe", "recipe_path"]


class Recipe(Settings):
    """A tuning run, in full.

    Attributes:
        name: Names the run folder, the MLflow runs and the registered prompt.
        description: For people.
        seed: Seeds the splits, the proposer, the VLM's sampling and the bootstrap.
        effort: How much the search may spend: light, medium or heavy, which is 10, 20 or 40 templates and at most 800,
            1,600 or 3,200 calls of the VLM about tuning images (a vote of several answers counts as one). Medium,
            unless `iterations` or `budget.vlm_calls` say it.
        iterations: Templates to try after the baseline, at most; those of the effort, or as many as a budget of calls
            gives, when left out.
        budget: What the run may spend.
        max_missing: Largest share of images without an answer, or without a value of what is tuned for, before an
            iteration is void.
        max_off_tree: Largest share of the baseline's answers to the tuning images that may be off the tree; above it
            the run ends, since the tree or the domain is not that of the images.
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
    # Keys whose values are the user's own, with all below them; "" is all of them. No file can say so.
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
        from taxtune.tuning.objective import asks_a_model

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
        """Returns the most templates after the baseline and the budget, as effort and budget say together.

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
        """Returns a path of the recipe: `${NAME}` and `~` expanded, relative to the recipe's folder.

        Raises:
            RecipeError: If the path uses an environment variable that is not set, or cannot be a path.
        """
        if "\0" in text:
            raise RecipeError("A path cannot hold a NUL character.", file=self.source, value=text)
        path = Path(self.expanded(text)).expanduser()
        base = self.source.parent if self.source is not None else Path.cwd()
        return path if path.is_absolute() else base / path

    def expanded(self, text: str) -> str:
        """Returns a path or URL of the recipe with `${NAME}` expanded.

        Raises:
            RecipeError: If it uses an environment variable that is not set.
        """
        for name in re.findall(r"\$\{(\w+)\}", text):
            if name not in os.environ:
                raise RecipeError(
                    f"{text!r} uses the environment variable {name}, which is not set.",
                    file=self.source,
                    remedy=f"Set it: export {name}=VALUE",
                )
        return os.path.expandvars(text)

    def from_file(self, source: Path | None, own: Iterable[str] = ()) -> Recipe:
        """Returns the recipe as that of a file of another person, maybe, but for the keys that are the user's own."""
        copy = self.model_copy()
        copy._source, copy._own = source, frozenset(own)
        return copy

    def access(self, group: str) -> str | None:
        """The `api_base` of the model of a group: "vlm", "judge" or "proposer"; None for the provider's own.

        The key is always the one in the provider's own variable: a recipe names none.

        Raises:
            TaxtuneError: If a file names a server that the user does not trust; see `taxtune.trust`.
        """
        settings: Any = getattr(self, group)
        sends = f"{'images, ' if group == 'vlm' else ''}prompts and your API key"
        self._check_server(f"{group}.api_base", settings.api_base, sends)
        if "://" in settings.model:  # litellm takes "huggingface/https://HOST" for the address
            self._check_server(f"{group}.model", settings.model.partition("/")[2], sends)
        base: str | None = settings.api_base
        return base

    def _check_server(self, key: str, address: str | None, sends: str) -> None:
        if not self._is_own(key):
            check_server(address, key=key, file=self.source, sends=sends)

    def _is_own(self, key: str) -> bool:
        return any(each in ("", key) or key.startswith(f"{each}.") for each in self._own)

    def changed(self, changes: Mapping[str, Any]) -> Recipe:
        """Returns the recipe with other values of some keys, which are the user's own.

        Args:
            changes: Values by dotted key: {"data.tuning": 40}.

        Raises:
            RecipeError: If a key is unknown or a value is wrong; all in one message.
        """
        overrides = [Override(f"{key}={value}", tuple(key.split(".")), value) for key, value in changes.items()]
        data = apply_overrides(self.settings(), _with_kinds(overrides), _kinds())
        try:
            return Recipe.model_validate(data).from_file(self.source, self._own | changes.keys())
        except ValidationError as error:
            raise RecipeError("\n".join(_problems(error, data, str(self.source or "settings"), ""))) from None

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
    with contextlib.suppress(OSError, ValueError):  # a name that no file can have is not there
        if path.is_file():
            return path
    shipped = recipes_dir()
    # "fieldguide", "fieldguide.yaml" and "recipes/fieldguide.yaml" all work in a folder without a checkout.
    if len(path.parts) == 1 or path.parts[:-1] == ("recipes",):
        candidate = path.name if path.suffix in {".yaml", ".yml"} else f"{path.name}.yaml"
        if candidate in {file.name for file in shipped.glob("*.yaml")}:
            return shipped / candidate
    with contextlib.suppress(OSError, ValueError):
        if path.is_dir():
            raise RecipeError("This is a folder, not a recipe.", file=path, remedy="Give the YAML file in it.")
    names = sorted(p.stem for p in shipped.glob("*.yaml"))
    near = difflib.get_close_matches(path.stem, names, n=1)
    raise RecipeError(
        "The recipe does not exist.",
        value=str(reference),
        remedy=(f"Did you mean {near[0]!r}? " if near else "")
        + f"Give a file, or one of the built-in recipes: {', '.join(names)}.",
    )


def load_recipe(reference: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Reads a recipe.

    Args:
        reference: A YAML file, or the name of a recipe that comes with taxtune ("fieldguide").
        overrides: Settings that replace those of the file, each "dotted.key=value" with a YAML value. Another `kind`
            of a group takes the file's keys that only the former kind knows with it.

    Raises:
        RecipeError: If the file is missing or no YAML, a key is unknown or a value is wrong; all in one message.
    """
    path = recipe_path(reference)
    settings = _with_kinds([parse_override(override) for override in overrides], "--set ")
    stated, text = read_mapping(path)
    if settings:
        with contextlib.suppress(ValueError):  # a name that stands for nothing may be replaced
            stated = {**stated, "vlm": with_kind(stated.get("vlm"))} if "vlm" in stated else stated
    data = apply_overrides(stated, settings, _kinds())
    try:
        recipe = Recipe.model_validate(data)
    except ValidationError as error:
        raise RecipeError("\n".join(_problems(error, data, str(path), text, settings))) from None
    return recipe.from_file(path.resolve(), (".".join(override.key) for override in settings))


def _with_kinds(overrides: list[Override], command: str = "") -> list[Override]:
    """Returns overrides in which another model comes with the kind that its name says."""
    made: list[Override] = []
    for override in overrides:
        if override.key not in (("vlm",), ("vlm", "model")) or not isinstance(override.value, str):
            made.append(override)
            continue
        try:
            group = with_kind(override.value)
        except ValueError as error:
            raise RecipeError(f"{command}{override.text}: {error}") from None
        each = [Override(override.text, ("vlm", key), value) for key, value in group.items()]
        made += each if override.key[1:] else [Override(override.text, ("vlm",), group)]
    return made


def _members(annotation: Any) -> list[type[BaseModel]]:
    """The models that a field may hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if get_origin(annotation) in (Union, UnionType, Annotated):
        return [model for argument in get_args(annotation) for model in _members(argument)]
    return []


def _kind_names(member: type[BaseModel]) -> tuple[str, ...]:
    found: tuple[str, ...] = get_args(member.model_fields["kind"].annotation)
    return found


def _kinds() -> dict[str, dict[str, frozenset[str]]]:
    """For each group that has kinds, the keys that each kind knows."""
    groups = ((name, _members(field.annotation)) for name, field in Recipe.model_fields.items())
    return {
        name: {kind: frozenset(member.model_fields) for member in found for kind in _kind_names(member)}
        for name, found in groups
        if len(found) > 1
    }


# -- what pydantic finds wrong -----------------------------------------------------------------------------------------


def _problems(
    error: ValidationError, data: Mapping[str, Any], file: str, text: str, overrides: Sequence[Override] = ()
) -> list[str]:
    """One line per problem: the file and the line, or the --set, the key, pydantic's message, and the key meant."""
    lines = []
    problems = error.errors(include_url=False)
    for problem in problems:
        place, kind, value = list(problem["loc"]), problem["type"], problem["input"]
        if any(place == list(other["loc"])[: len(place)] != list(other["loc"]) for other in problems):
            continue  # a list with a wrong value in it is not also too short
        kinds = _kinds().get(str(place[0]), {}) if place else {}
        if len(place) > 1 and place[1] in kinds:  # pydantic's tag of a union, which the YAML does not have
            del place[1]
        message = problem["msg"].removeprefix("Value error, ")
        if kind.startswith("union_tag_"):  # the model's name says its kind
            place.append("model" if place == ["vlm"] else "kind")
            value = value.get(place[-1])
            known = str([*kinds])[1:-1]
            message = "must be the name of a model" if place[-1] == "model" else f"must be one of {known}"
        elif kind in ("model_type", "model_attributes_type"):
            first = next(iter(_members(Recipe.model_fields[str(place[0])].annotation)[0].model_fields))
            message = f"must be a group of keys, such as {place[0]}.{first}"
        elif kind == "tuple_type":
            message = "must be a list"
        key = ".".join(map(str, place))
        if kind == "extra_forbidden":
            group = str(place[0]) if len(place) > 1 else None
            message = f"unknown key; {_meant(str(place[-1]), group, data)}"
        where = f"{file}:{row}" if (row := _row(text, place)) is not None else file
        for override in reversed(overrides):
            depth = min(len(override.key), len(place))
            if depth and override.key[:depth] == tuple(map(str, place))[:depth]:
                where = f"--set {override.text}"
                break
        got = "" if isinstance(value, BaseModel | Mapping) or kind == "missing" else f" (got {value!r:.80})"
        lines.append(f"{where}: {f'{key}: ' if key else ''}{message}{got}")
    return lines


def _meant(key: str, group: str | None, data: Mapping[str, Any]) -> str:
    """The key that an unknown one may mean, or the keys there are."""
    if group is None:
        known = list(Recipe.model_fields)
        inside = [f"{name}.{key}" for name, field in Recipe.model_fields.items()
                  for model in _members(field.annotation)[:1] if key in model.model_fields]  # fmt: skip
    else:
        members = _members(Recipe.model_fields[group].annotation)
        given = data.get(group)
        kind = given.get("kind") if isinstance(given, Mapping) else None
        chosen = [member for member in members if "kind" in member.model_fields and kind in _kind_names(member)]
        known, inside = list((chosen or members)[0].model_fields), []
    near = inside or difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"the keys here are {', '.join(known)}."


def _row(text: str, place: Sequence[Any]) -> int | None:
    """The line of a key, or of the nearest group above it that the file has."""
    node, row = yaml.compose(text, Loader=yaml.SafeLoader), None
    for part in place:
        pairs = node.value if isinstance(node, yaml.MappingNode) else ()
        found = next(((key.start_mark.line + 1, value) for key, value in pairs if key.value == str(part)), None)
        if found is None:
            return row
        row, node = found
    return row
