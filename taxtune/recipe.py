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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictInt,
    ValidationError,
    field_validator,
    model_validator,
)

from taxtune.errors import RecipeError
from taxtune.recipe_errors import explain, members
from taxtune.recipe_file import apply_overrides, parse_override, read_mapping
from taxtune.resources import recipes_dir

__all__ = [
    "ApiVLMSettings",
    "DataSettings",
    "FieldGuideData",
    "FolderData",
    "FragmentsProposerSettings",
    "INat21Data",
    "LLMProposerSettings",
    "LocalVLMSettings",
    "ManifestData",
    "MapperSettings",
    "ObjectiveSettings",
    "PromptSettings",
    "Recipe",
    "TaxonomySettings",
    "TrackingSettings",
    "load_recipe",
    "recipe_path",
]

BASELINE = "What is this an image of? Answer in the format 'A: <answer>.'"
ObjectiveKind = Literal["hp", "hf", "accuracy"]


def _no_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("must be a number")
    return value


# YAML reads `yes` as true, which would silently be 1; and 1e-3, without a dot, as text, which is meant as a number.
_Number = Annotated[float, BeforeValidator(_no_bool)]


class _Model(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, str_strip_whitespace=False, protected_namespaces=(), allow_inf_nan=False
    )


class TaxonomySettings(_Model):
    """The label tree.

    Attributes:
        path: A file, or "builtin:fieldguide".
        format: Its format; "auto" looks at the content.
        root: Restrict the tree to the part below this label or path, which becomes the root of all metrics.
        domain: The node of the trivial answer ("always say bird"); the lowest node above all labels when left out.
        english_names: Attach the English names that taxtune knows of Latin higher ranks.
    """

    path: str
    format: Literal["auto", "inat21-json", "inat21-csv", "edges", "paths"] = "auto"
    root: str | None = None
    domain: str | None = None
    english_names: bool = True


class _Splits(_Model):
    tuning: StrictInt = Field(20, ge=1, description="Images that every template is asked about.")
    heldout: StrictInt = Field(
        200, ge=1, description="Images that baseline and winner are asked about, once, at the end."
    )


class ManifestData(_Splits):
    """A CSV or JSONL file with one image a row."""

    kind: Literal["manifest"] = "manifest"
    path: str
    images: str | None = None
    image_column: str = "image"
    label_column: str = "label"


class FolderData(_Splits):
    """A folder with one sub-folder of images a label."""

    kind: Literal["folder"] = "folder"
    path: str


class INat21Data(_Splits):
    """iNaturalist 2021: its COCO-style JSON and the folder of its images."""

    kind: Literal["inat21"] = "inat21"
    path: str
    images: str


class FieldGuideData(_Splits):
    """The embedded field guide's drawn birds, rendered on first use."""

    kind: Literal["fieldguide"] = "fieldguide"
    count: StrictInt = Field(400, ge=2, description="Images to draw.")
    degraded: _Number = Field(0.5, ge=0, le=1, description="Share of images that are fogged, blurred or occluded.")
    seed: StrictInt = Field(2021, ge=0)


DataSettings = Annotated[ManifestData | FolderData | INat21Data | FieldGuideData, Field(discriminator="kind")]


class PromptSettings(_Model):
    """What templates may refer to, and the template that iteration 0 asks with."""

    baseline: str = BASELINE
    question: str = "What is this an image of?"
    domain: str = "object"
    ranks: tuple[str, ...] = Field((), max_length=32)
    examples: tuple[str, ...] = Field((), max_length=32)


class LocalVLMSettings(_Model):
    """A transformers checkpoint on this machine."""

    kind: Literal["local"] = "local"
    model: str
    revision: str | None = None
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    device: str = "auto"
    batch_size: StrictInt = Field(8, ge=1)
    max_new_tokens: StrictInt = Field(64, ge=1)
    temperature: _Number = Field(0.0, ge=0)
    system_prompt: str | None = None


class ApiVLMSettings(_Model):
    """Any model with image input that litellm reaches."""

    kind: Literal["api"] = "api"
    model: str
    api_base: str | None = None
    api_key_env: str | None = Field(None, description="Environment variable that holds the key.")
    concurrency: StrictInt = Field(8, ge=1)
    max_tokens: StrictInt = Field(64, ge=1)
    temperature: _Number | None = Field(0.0, ge=0)
    timeout: _Number = Field(60.0, gt=0)
    max_retries: StrictInt = Field(5, ge=0)
    system_prompt: str | None = None


VLMSettings = Annotated[LocalVLMSettings | ApiVLMSettings, Field(discriminator="kind")]


class MapperSettings(_Model):
    """How free text is placed on the taxonomy (paper 1, Algorithm 1)."""

    similarity: str = "lexical"
    preset: Literal["default", "paper-listing"] = "default"
    k: StrictInt = Field(10, ge=2)
    thr_top2: _Number = Field(0.001, ge=0)
    thr_topk: _Number = Field(0.0015, ge=0)
    thr_vote: StrictInt = Field(4, ge=1)
    use_images: bool = Field(False, description="Compare image to text (CLIP-i2t) instead of answer to text.")

    @field_validator("similarity")
    @classmethod
    def _known(cls, value: str) -> str:
        if value != "lexical" and not re.fullmatch(r"(sentence|clip):.+", value):
            raise ValueError("must be 'lexical', 'sentence:MODEL' or 'clip:MODEL'")
        return value


class ObjectiveSettings(_Model):
    """What makes one template better than another."""

    kind: ObjectiveKind = "hp"
    hr_floor: _Number | None = Field(
        None,
        ge=0,
        le=1,
        description="Smallest mean hR that 'hp' accepts; left out: just above the trivial root answer.",
    )


class FragmentsProposerSettings(_Model):
    """Optuna's TPE over templates composed from fragments; needs no key."""

    kind: Literal["fragments"] = "fragments"
    fragments: str = Field("default", description="Name of a file in prompts/fragments/, or a path.")


class LLMProposerSettings(_Model):
    """A chat model that reads the history and writes the next template (the paper's loop)."""

    kind: Literal["llm"] = "llm"
    model: str = "openai/gpt-4o"
    api_base: str | None = None
    api_key_env: str | None = Field(None, description="Environment variable that holds the key.")
    temperature: _Number | None = Field(1.0, ge=0)
    max_history_tokens: StrictInt = Field(6000, ge=200)
    timeout: _Number = Field(120.0, gt=0)
    max_retries: StrictInt = Field(5, ge=0)


ProposerSettings = Annotated[FragmentsProposerSettings | LLMProposerSettings, Field(discriminator="kind")]


class TrackingSettings(_Model):
    """Where MLflow records the run; `MLFLOW_TRACKING_URI` wins over the default, `uri` over both."""

    mlflow: bool = True
    experiment: str = "taxtune"
    uri: str | None = None


class Recipe(_Model):
    """A tuning run, in full.

    Attributes:
        name: Names the run folder, the MLflow runs and the registered prompt.
        description: For people.
        seed: Seeds the splits, the proposer and the bootstrap.
        iterations: Templates to try after the baseline.
        max_missing: Largest share of images without an answer before an iteration is void.
        source: The file that the recipe was read from; set by `load_recipe`.
    """

    name: str
    description: str = ""
    seed: StrictInt = Field(0, ge=0)
    taxonomy: TaxonomySettings
    data: DataSettings
    prompt: PromptSettings = PromptSettings()
    vlm: VLMSettings
    mapper: MapperSettings = MapperSettings()
    objective: ObjectiveSettings = ObjectiveSettings()
    proposer: ProposerSettings = FragmentsProposerSettings()
    iterations: StrictInt = Field(30, ge=1)
    max_missing: _Number = Field(0.1, ge=0, lt=1)
    tracking: TrackingSettings = TrackingSettings()
    source: Path | None = Field(None, exclude=True)

    @field_validator("name")
    @classmethod
    def _names_a_folder(cls, value: str) -> str:
        if len(value) > 100 or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", value):
            raise ValueError(
                "must be at most 100 letters (a-z), digits, dots, dashes and underscores and begin with a letter or "
                "digit, since it names a folder"
            )
        return value

    @model_validator(mode="after")
    def _images_need_clip(self) -> Recipe:
        if self.mapper.use_images and not self.mapper.similarity.startswith("clip:"):
            raise ValueError("mapper.use_images needs mapper.similarity 'clip:MODEL'")
        return self

    def path(self, text: str) -> Path:
        """Returns a path of the recipe: `${NAME}` and `~` expanded, relative to the recipe's folder.

        Raises:
            RecipeError: If the path uses an environment variable that is not set, or cannot be a path.
        """
        if "\0" in text:
            raise RecipeError("A path cannot hold a NUL character.", file=self.source, value=text)
        for name in re.findall(r"\$\{(\w+)\}", text):
            if name not in os.environ:
                raise RecipeError(
                    f"The path {text!r} uses the environment variable {name}, which is not set.",
                    file=self.source,
                    remedy=f"Set it: export {name}=/path/to/it",
                )
        path = Path(os.path.expandvars(text)).expanduser()
        base = self.source.parent if self.source is not None else Path.cwd()
        return path if path.is_absolute() else base / path

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
        if path.is_dir():
            raise RecipeError("This is a folder, not a recipe.", file=path, remedy="Give the YAML file in it.")
        if path.is_file():
            return path
    shipped = recipes_dir()
    # "fieldguide", "fieldguide.yaml" and "recipes/fieldguide.yaml" all work in a folder without a checkout.
    if len(path.parts) == 1 or path.parts[:-1] == ("recipes",):
        candidate = path.name if path.suffix in {".yaml", ".yml"} else f"{path.name}.yaml"
        if candidate in {file.name for file in shipped.glob("*.yaml")}:
            return shipped / candidate
    names = sorted(p.stem for p in shipped.glob("*.yaml"))
    near = difflib.get_close_matches(path.stem, names, n=1)
    raise RecipeError(
        "There is no such recipe.",
        value=str(reference),
        remedy=(f"Did you mean {near[0]!r}? " if near else "")
        + f"Give a file, or one of the recipes that come with taxtune: {', '.join(names)}.",
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
    settings = [parse_override(override) for override in overrides]
    stated, text = read_mapping(path)
    data = apply_overrides(stated, settings, _kinds())
    try:
        return Recipe.model_validate({**data, "source": path.resolve()})
    except ValidationError as error:
        raise RecipeError("\n".join(explain(error, Recipe, data, path, text, settings))) from None


def _kinds() -> dict[str, dict[str, frozenset[str]]]:
    """Returns, for each group that has kinds, the keys that each kind knows."""
    groups = ((name, members(field.annotation)) for name, field in Recipe.model_fields.items())
    return {
        name: {member.model_fields["kind"].default: frozenset(member.model_fields) for member in found}
        for name, found in groups
        if len(found) > 1
    }
