"""The recipe: one YAML file that says everything about a tuning run.

A recipe is read into typed models; an unknown key, a wrong type or a value out of range is a `RecipeError` that names
the file and the line and suggests the right key. Relative paths are relative to the recipe's folder; `${NAME}` in a
path is an environment variable.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from taxtune.errors import RecipeError
from taxtune.recipe_errors import explain
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


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=False, protected_namespaces=())


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
    tuning: int = Field(20, ge=1, description="Images that every template is asked about.")
    heldout: int = Field(200, ge=1, description="Images that baseline and winner are asked about, once, at the end.")


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
    count: int = Field(400, ge=2, description="Images to draw.")
    degraded: float = Field(0.5, ge=0, le=1, description="Share of images that are fogged, blurred or occluded.")
    seed: int = Field(2021, ge=0)


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
    batch_size: int = Field(8, ge=1)
    max_new_tokens: int = Field(64, ge=1)
    temperature: float = Field(0.0, ge=0)
    system_prompt: str | None = None


class ApiVLMSettings(_Model):
    """Any model with image input that litellm reaches."""

    kind: Literal["api"] = "api"
    model: str
    api_base: str | None = None
    api_key_env: str | None = Field(None, description="Environment variable that holds the key.")
    concurrency: int = Field(8, ge=1)
    max_tokens: int = Field(64, ge=1)
    temperature: float | None = Field(0.0, ge=0)
    timeout: float = Field(60.0, gt=0)
    max_retries: int = Field(5, ge=0)
    system_prompt: str | None = None


VLMSettings = Annotated[LocalVLMSettings | ApiVLMSettings, Field(discriminator="kind")]


class MapperSettings(_Model):
    """How free text is placed on the taxonomy (paper 1, Algorithm 1)."""

    similarity: str = "lexical"
    preset: Literal["default", "paper-listing"] = "default"
    k: int = Field(10, ge=2)
    thr_top2: float = Field(0.001, ge=0)
    thr_topk: float = Field(0.0015, ge=0)
    thr_vote: int = Field(4, ge=1)
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
    hr_floor: float | None = Field(
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
    temperature: float | None = Field(1.0, ge=0)
    max_history_tokens: int = Field(6000, ge=200)
    timeout: float = Field(120.0, gt=0)
    max_retries: int = Field(5, ge=0)


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

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    description: str = ""
    seed: int = Field(0, ge=0)
    taxonomy: TaxonomySettings
    data: DataSettings
    prompt: PromptSettings = PromptSettings()
    vlm: VLMSettings
    mapper: MapperSettings = MapperSettings()
    objective: ObjectiveSettings = ObjectiveSettings()
    proposer: ProposerSettings = FragmentsProposerSettings()
    iterations: int = Field(30, ge=1)
    max_missing: float = Field(0.1, ge=0, lt=1)
    tracking: TrackingSettings = TrackingSettings()
    source: Path | None = Field(None, exclude=True)

    @model_validator(mode="after")
    def _images_need_clip(self) -> Recipe:
        if self.mapper.use_images and not self.mapper.similarity.startswith("clip:"):
            raise ValueError("mapper.use_images needs mapper.similarity 'clip:MODEL'")
        return self

    def path(self, text: str) -> Path:
        """Returns a path of the recipe: `${NAME}` and `~` expanded, relative to the recipe's folder.

        Raises:
            RecipeError: If the path uses an environment variable that is not set.
        """
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
    if path.is_file():
        return path
    shipped = recipes_dir()
    # "fieldguide", "fieldguide.yaml" and "recipes/fieldguide.yaml" all work in a folder without a checkout.
    if len(path.parts) == 1 or path.parts[:-1] == ("recipes",):
        candidate = shipped / (path.name if path.suffix in {".yaml", ".yml"} else f"{path.name}.yaml")
        if candidate.is_file():
            return candidate
    names = sorted(p.stem for p in shipped.glob("*.yaml"))
    near = difflib.get_close_matches(path.stem, names, n=1)
    raise RecipeError(
        f"There is no recipe {str(reference)!r}.",
        remedy=(f"Did you mean {near[0]!r}? " if near else "")
        + f"Give a file, or one of the recipes that come with taxtune: {', '.join(names)}.",
    )


def load_recipe(reference: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Reads a recipe.

    Args:
        reference: A YAML file, or the name of a recipe that comes with taxtune ("fieldguide").
        overrides: Settings that replace those of the file, each "dotted.key=value" with a YAML value.

    Raises:
        RecipeError: If the file is missing or no YAML, a key is unknown or a value is wrong; all in one message.
    """
    path = recipe_path(reference)
    try:
        text = path.read_text(encoding="utf-8")
        data = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"The recipe cannot be read: {error}.", file=path) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise RecipeError(
            f"The recipe is no valid YAML: {getattr(error, 'problem', None) or error}.",
            file=path,
            row=None if mark is None else mark.line + 1,
        ) from error
    if not isinstance(data, dict):
        raise RecipeError("The recipe must be a mapping of keys to values.", file=path)
    for override in overrides:
        _override(data, override)
    try:
        return Recipe.model_validate({**data, "source": path.resolve()})
    except ValidationError as error:
        raise RecipeError("\n".join(explain(error, Recipe, data, path, text))) from None


def _override(data: dict[str, Any], override: str) -> None:
    key, separator, value = override.partition("=")
    if not separator or not key.strip():
        raise RecipeError(
            "A setting on the command line must be KEY=VALUE.",
            value=override,
            remedy="For example: --set iterations=10",
        )
    try:
        parsed = yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise RecipeError(f"The value of --set {key} is no valid YAML.", value=value) from error
    *parents, last = key.strip().split(".")
    for parent in parents:
        below = data.setdefault(parent, {})
        if not isinstance(below, dict):
            raise RecipeError(f"--set {key}: {parent!r} is a value, not a group of keys.")
        data = below
    data[last] = parsed
