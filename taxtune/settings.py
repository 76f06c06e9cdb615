"""The groups of a recipe as typed models: taxonomy, data, prompt, VLM, mapper, objective, ..."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StrictInt,
    Tag,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

from taxtune.errors import ProposerError, TaxtuneError
from taxtune.fieldguide import IMAGES
from taxtune.models.names import api_name, parse_model
from taxtune.plugins import names_near, plugin_names

#: Paper 1, §7.2, word for word, as in prompts/seeds/baseline.j2.
BASELINE = "What is this an image of? Answer in the format 'A: <answer>.'"


def _no_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("must be a number")
    return value


# YAML reads `yes` as true, which would silently be 1; and 1e-3, without a dot, as text, which is
# meant as a number.
Number = Annotated[float, BeforeValidator(_no_bool)]


def _split_size(value: object) -> object:
    if isinstance(value, float) and 0 < value < 1:
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    raise ValueError("must be a number of images, such as 40, or a share of them, such as 0.4")


# Of a split: a number of images, or a share of them, which follows the data.
SplitSize = Annotated[int | float, BeforeValidator(_split_size)]


class Settings(BaseModel):
    """What every part of a recipe has: unknown keys are refused, and values do not change."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        str_strip_whitespace=False,
        protected_namespaces=(),
        allow_inf_nan=False,
    )


class TaxonomySettings(Settings):
    """The label tree.

    Attributes:
        path: A file, or "builtin:NAME" for the tree of a recipe that comes with taxtune.
        root: Restrict the tree to the part below this label or path ("Aves"), which becomes the
            root of all metrics. Images of anything else are left out and counted.
        domain: The node of the trivial answer ("always say bird"); the lowest node above all labels
            when left out.
        frequencies: How often the nodes occur, for the information-weighted scores: a CSV with the
            columns node and count, or "targets" for the labels of the tuning split; all leaves
            equally likely when left out.
        allowed: What may occur where and when: a CSV with the column node and any of place, from
            month and to month. What an answer names and cannot be there goes to the deepest node
            above it that can.
    """

    path: str
    root: str | None = None
    domain: str | None = None
    frequencies: str | None = Field(None, min_length=1)
    allowed: str | None = Field(None, min_length=1)


class ContextSettings(Settings):
    """What templates may know of each image: a column of the data is a variable, as {{ place }}.

    Attributes:
        columns: Columns of the data; or exif:month, exif:hour, exif:latitude and exif:longitude,
            out of the files.
        candidates: A classifier's scores of the images, in the formats of `taxtune calibrate`; {{
            candidates }} are their names with the scores, best first.
        top: How many candidates each image has at most.
        describe: What variables mean, by name, for the proposer.
    """

    columns: tuple[str, ...] = ()
    candidates: str | None = Field(None, min_length=1)
    top: StrictInt = Field(5, ge=1, le=32)
    describe: dict[str, str] = Field(default_factory=dict)


def _columns(value: object) -> object:
    return {"columns": value} if isinstance(value, list | tuple) else value


def _phrases(listed: str) -> tuple[str, ...]:
    return tuple(listed.split(", "))


class LabelWords(Settings):
    """Words of labels that no tree has; case, underscores and plurals make no difference.

    A label that names a node is that node, whatever the words say.

    Attributes:
        nothing: Labels of images on which nothing is there, whose truth is the root.
        unnamed: Words before or after a group's name: of an unnamed kind of it.
        left_out: Labels of images of which nobody knows what they show.
    """

    nothing: tuple[str, ...] = _phrases(
        "blank, empty, none, nothing, nothing there, nothing here, no animal, no object, "
        "no detection, false trigger, false positive, false alarm, misfire, ghost, background"
    )
    unnamed: tuple[str, ...] = _phrases(
        "unidentified, unidentifiable, not identified, unknown, unnamed, undetermined, "
        "indeterminate, indet, unspecified, unclassified, other, species, sp, spp"
    )
    left_out: tuple[str, ...] = _phrases(
        "unknown, problem, unidentifiable, unsure, not sure, uncertain, unclear, cannot tell, "
        "can't tell, unreadable, corrupt, corrupted, broken, error, n/a, nan, null, tbd, ?, -"
    )


class _Images(Settings):
    context: Annotated[ContextSettings, BeforeValidator(_columns)] = ContextSettings()
    group: str | None = Field(
        None,
        min_length=1,
        description="Images that belong together, which are in one split and count once: a column of the data (burst, "
        "camera, patient, product), folder (that of the image; below a class folder the folder in it), or exif:burst "
        "(same camera, each at most 60 seconds after the one before). Copies of a photo always belong together.",
    )
    tuning: SplitSize | None = Field(
        None,
        description="Images for comparing templates: a number (40), or a share (0.4), which follows the data and is "
        "rounded down. Default: two fifths of the images, at most 400; of fewer than 150, three fifths.",
    )
    first_rung: StrictInt | None = Field(
        20,
        ge=2,
        description="Tuning images that every template is asked about; those that may win are asked about more, and "
        "the finalists about all. Where it is null or not below tuning, every template is asked about all.",
    )
    heldout: SplitSize | None = Field(
        None,
        description="Images for the final comparison of baseline and winner: a number, or a share. Default: seven "
        "twentieths of the images, or what tuning leaves; at most 200.",
    )

    @model_validator(mode="after")
    def _shares_fit(self) -> _Images:
        shares = [size for size in (self.tuning, self.heldout) if isinstance(size, float)]
        if round(sum(shares), 9) > 1:
            raise ValueError(
                f"the shares tuning ({self.tuning}) and heldout ({self.heldout}) are more than 1 in all"
            )
        return self


class _Photos(LabelWords, _Images):
    box: str | None = Field(
        None,
        min_length=1,
        description="Boxes that are cut out and asked about: a column (x, y, width and height in a cell, relative or "
        "in pixels), or MegaDetector's JSON file. Photos without a box are left out.",
    )
    margin: Number = Field(0.1, ge=0, le=2, description="Margin of a box, in its longer side.")
    least_confidence: Number = Field(0.2, ge=0, le=1, description="That detections need.")


class ManifestData(_Photos):
    """A CSV, XLSX, JSONL or other text file with one image per row.

    Attributes:
        path: The file.
        images: Folder that image paths are relative to; the file's own folder by default.
        image_column: Column with the image's path.
        label_column: Column with the label: a label, alias or path of the taxonomy.
        pattern: For a text file without columns: a regular expression that matches each line, with
            the groups `image`, without the ending .jpg, and `label`: '(?P<image>[0-9]+)
            (?P<label>.+)'.
        skip_broken: Leave out images that are missing or unreadable, and name them, instead of
            refusing to run.
    """

    kind: Literal["manifest"] = "manifest"
    path: str
    images: str | None = None
    image_column: str = "image"
    label_column: str = "label"
    pattern: str | None = None
    skip_broken: bool = False


class FolderData(_Photos):
    """A folder with one sub-folder of images for each label.

    Attributes:
        path: The folder. The sub-folders' names are the labels.
        skip_broken: Leave out images that are unreadable, and name them, instead of refusing to
            run.
    """

    kind: Literal["folder"] = "folder"
    path: str
    skip_broken: bool = False


class INat21Data(LabelWords, _Images):
    """iNaturalist 2021: its COCO-style JSON and the folder of its images.

    Attributes:
        path: The JSON file, such as val.json.
        images: Folder that the JSON's file names are relative to.
    """

    kind: Literal["inat21"] = "inat21"
    path: str
    images: str


class FieldGuideData(LabelWords, _Images):
    """The drawn birds of the embedded field guide."""

    kind: Literal["fieldguide"] = "fieldguide"
    count: StrictInt = Field(
        IMAGES.n, ge=2, le=IMAGES.n, description="Number of images to use, from the first on."
    )


DataSettings = Annotated[
    ManifestData | FolderData | INat21Data | FieldGuideData, Field(discriminator="kind")
]


class PromptSettings(Settings):
    """What templates may refer to, and the template that iteration 0 asks with.

    Attributes:
        baseline: Template of iteration 0, which every other is compared with.
        question: The question, for templates and judges.
        domain: What the images show, in a word: bird, dish.
        ranks: Names of the ranks below the domain's root, broadest first.
        examples: Example answers of different specificity.
    """

    baseline: str = BASELINE
    question: str = "What is this an image of?"
    domain: str = "object"
    ranks: tuple[str, ...] = Field((), max_length=32)
    examples: tuple[str, ...] = Field((), max_length=32)

    @property
    def variables(self) -> dict[str, object]:
        """The variables of templates, whatever the image."""
        return {
            "question": self.question,
            "domain": self.domain,
            "ranks": list(self.ranks),
            "examples": list(self.examples),
        }


def _auto_or_count(value: object) -> object:
    if value != "auto" and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise ValueError("must be auto, or a whole number that is at least 1")
    return value


Count = Annotated[int | Literal["auto"], BeforeValidator(_auto_or_count)]
#: Values of `device` that spread a model over several cards, as accelerate names them.
SPREAD = ("balanced", "balanced_low_0", "sequential")
Quantization = Literal["4bit", "8bit"]


class LocalVLMSettings(Settings):
    """A transformers checkpoint on this machine.

    Attributes:
        model: "local:" and a name on Hugging Face or a folder, or "builtin:fieldguide".
        revision: Branch, tag or commit on Hugging Face; its default branch if omitted.
        device: auto, cpu, cuda, cuda:1, mps, ...; or balanced, balanced_low_0 or sequential, which
            spread the layers of a model that is too large for one card over several.
        batch_size: Images per batch, halved when memory runs out; auto takes what fits into a CUDA
            card's memory, and 8 elsewhere.
        quantization: Weights in fewer bits, by bitsandbytes: 4bit or 8bit.
        max_tokens: Longest answer, in tokens.
        temperature: 0 for greedy decoding; above 0 for sampling.
    """

    kind: SkipJsonSchema[Literal["local"]] = "local"
    model: str
    revision: str | None = None
    device: str = "auto"
    batch_size: Count = "auto"
    quantization: Quantization | None = None
    max_tokens: StrictInt = Field(64, ge=1)
    temperature: Number = Field(0.0, ge=0)


class ApiVLMSettings(Settings):
    """Any model with image input that litellm reaches; its key is in OPENAI_API_KEY or the like.

    Attributes:
        model: PROVIDER/MODEL, as litellm names it: openai/gpt-4o.
        api_base: Address of an OpenAI-compatible server; the provider's own by default.
        concurrency: Maximum number of concurrent calls; auto is 16.
        max_tokens: Longest answer, in tokens.
        temperature: Sampling temperature; null leaves it to the provider.
        reasoning_effort: How long a model may think, as its provider names it: low; left to that by
            default.
        extra: Further fields of a call, as the provider names them: {top_p: 0.9}.
        timeout: Seconds that one attempt may take.
        max_retries: Further attempts after a failed one.
    """

    kind: SkipJsonSchema[Literal["api"]] = "api"
    model: str
    api_base: str | None = None
    concurrency: Count = "auto"
    max_tokens: StrictInt = Field(64, ge=1)
    temperature: Number | None = Field(0.0, ge=0)
    reasoning_effort: str | None = Field(None, min_length=1)
    extra: dict[str, Any] = Field(default_factory=dict)
    timeout: Number = Field(60.0, gt=0)
    max_retries: StrictInt = Field(5, ge=0)

    @field_validator("extra")
    @classmethod
    def _leaves_ours(cls, value: dict[str, Any]) -> dict[str, Any]:
        if (
            own := {"model", "messages", "max_tokens", "temperature", "seed", "stream", "n"}
            & value.keys()
        ):
            raise ValueError(f"must not have {min(own)}, which taxtune sends itself")
        return value


def with_kind(value: Any) -> Any:
    """Returns the settings of a model with the kind that its name says.

    A name alone is settings, too.

    Raises:
        ValueError: If the name stands for nothing, or for a model of another kind than the settings
            say.
    """
    settings = {"model": value} if isinstance(value, str) else value
    if not isinstance(settings, dict) or not isinstance(settings.get("model"), str):
        return value
    model, kind = settings["model"], settings.get("kind")
    if kind is not None and model.partition(":")[0] not in ("local", "hf", "api"):
        return settings
    try:
        name = parse_model(model)
    except TaxtuneError as error:
        raise ValueError(f"{error.message.rstrip('.')}: {model!r}. {error.remedy}") from None
    meant = "local" if name.kind == "local" else "api"
    if kind not in (None, meant):
        raise ValueError(f"the model {model!r} is not of the kind {kind!r}")
    return {"kind": meant, **settings, "model": name.model}


VLMSettings = Annotated[
    LocalVLMSettings | ApiVLMSettings, Field(discriminator="kind"), BeforeValidator(with_kind)
]


class ExecutionSettings(Settings):
    """Where the model's answers are computed; what comes out is the same."""

    engine: Literal["here", "ray"] = Field(
        "here",
        description="here (in the process of the run) or ray (actors: for the GPUs of this machine, or of the cluster "
        "that RAY_ADDRESS names).",
    )
    workers: Count = Field(
        "auto",
        description="How many workers, each with the whole model. auto: as many as the GPUs make; without GPUs one for "
        "each node.",
    )

    @model_validator(mode="after")
    def _names_an_engine(self) -> ExecutionSettings:
        # With `engine: here` the keys may stand, so that one key switches the workers off.
        if self.model_fields_set and "engine" not in self.model_fields_set:
            raise ValueError("needs the engine ray")
        return self


#: As `mapper.arbiter`: a chat model that the recipe uses anyway, if there is one.
AUTO = "auto"


class MapperSettings(Settings):
    """How free text is placed on the taxonomy (paper 1, Algorithm 1).

    Attributes:
        similarity: lexical, sentence:MODEL, clip:MODEL, or clip-i2t:MODEL, which compares the image
            with the names.
        preset: default, or Algorithm 1 of the paper: paper-listing as printed, paper-prose as its
            text describes it.
        api_base: Address of an OpenAI-compatible server for the arbiter; the provider's own by
            default, or that of the part whose model auto takes.
    """

    similarity: str = "lexical"
    preset: Literal["default", "paper-listing", "paper-prose"] = "default"
    off_tree: Literal["child", "root"] = Field(
        "child",
        description="How to score an answer that asserts something the tree lacks: child (a wrong child of the root) "
        "or root (hP 1; the paper's presets always do this).",
    )
    arbiter: str | None = Field(
        AUTO,
        description="The chat model that reads the answers that are not just a name of a node: PROVIDER/MODEL behind "
        "an API, local:MODEL on this machine, or none. auto is the model of the judge, else that of the proposer llm "
        "or agent, if the recipe has one, and otherwise none.",
    )
    api_base: str | None = None

    @field_validator("arbiter")
    @classmethod
    def _names_a_model(cls, value: str | None) -> str | None:
        if value in (None, AUTO, "none"):
            return None if value == "none" else value
        try:
            parse_model(str(value))
        except TaxtuneError as error:
            raise ValueError(f"{error.message.rstrip('.')}. {error.remedy}") from None
        return value

    @property
    def takes_arbiter(self) -> bool:
        """Whether a chat model may read answers: under the default preset, without images."""
        return self.preset == "default" and not self.similarity.startswith("clip-i2t:")

    @model_validator(mode="after")
    def _arbiter_reads(self) -> MapperSettings:
        if self.arbiter not in (None, AUTO) and not self.takes_arbiter:
            raise ValueError(
                "the arbiter needs the preset 'default' and a similarity that does not look at images"
            )
        return self

    @field_validator("similarity")
    @classmethod
    def _known(cls, value: str) -> str:
        if value != "lexical" and not re.fullmatch(r"(sentence|clip|clip-i2t):.+", value):
            raise ValueError(
                "must be 'lexical', 'sentence:MODEL', 'clip:MODEL' or 'clip-i2t:MODEL'"
            )
        return value


class ObjectiveSettings(Settings):
    """What makes one template better than another."""

    kind: str = Field(
        "hr_at_hp",
        description="hr_at_hp (as specific as possible while hP is at least hp_target), hp, hf, accuracy, "
        "ihr_at_ihp, ihp, ihf, aurc (sure only where it is right), or the name of a measure ('lave' is rated by the "
        "judge).",
    )
    hp_target: Number = Field(
        0.98,
        gt=0,
        le=1,
        description="The hP that 'hr_at_hp' holds, and the ihP that 'ihr_at_ihp' holds.",
    )
    confidence_level: Number = Field(
        0.9,
        ge=0.5,
        lt=1,
        description="The confidence level at which a one-sided bound must reach hp_target.",
    )
    hr_floor: Number | str = Field(
        "80%",
        description="Smallest mean hR that 'hp', 'ihp' and 'aurc' accept: a number, or a share of the baseline (80%).",
    )

    @field_validator("hr_floor", "kind")
    @classmethod
    def _known(cls, value: Any, info: ValidationInfo) -> Any:
        from taxtune.objective import check_objective, read_floor

        what, check = (
            ("an objective", check_objective)
            if info.field_name == "kind"
            else ("a floor of hR", read_floor)
        )
        try:
            check(value)
        except TaxtuneError as error:
            raise ValueError(f"is not {what}. {error.remedy}") from None
        return value


class JudgeSettings(Settings):
    """The language model that rates answers, for objectives that ask one, such as 'lave' (paper 4).

    Attributes:
        model: PROVIDER/MODEL behind an API, or local:MODEL on this machine.
        api_base: Address of an OpenAI-compatible server; the provider's own by default.
    """

    model: str = Field(min_length=1)
    api_base: str | None = None


class PolicySettings(Settings):
    """How an image is asked about, and what makes one node of what the model says.

    Attributes:
        kind: self_consistency (an image goes to the deepest node that enough of several answers
            have; one answer is placed as it is) or posterior (one call that gives the probabilities
            of the tree's names: the deepest node that holds enough).
        samples: Answers per image of self-consistency, each a call of the VLM, at a temperature of
            at least 1.
        threshold: Share of the answers, or of the probability, that a node needs. Default: 0.7 for
            self_consistency; for posterior chosen on the tuning images for what the run is tuned
            for.
        names: What posterior weighs: all (label and preferred common name of each node; what inner
            nodes get goes to the leaves below them), aliases (every alias as well) or species
            (leaves alone).
    """

    kind: Literal["self_consistency", "posterior"] = "self_consistency"
    samples: StrictInt = Field(1, ge=1, le=100)
    threshold: Number | None = Field(None, gt=0, le=1)
    names: Literal["species", "all", "aliases"] = "all"

    @model_validator(mode="after")
    def _asks_once(self) -> PolicySettings:
        if self.kind == "posterior" and self.samples > 1:
            raise ValueError("posterior takes one answer per image: leave out samples")
        return self


class FragmentsProposerSettings(Settings):
    """Templates composed from fragments, led by a model of their effects or at random; needs no key.

    Attributes:
        kind: fragments, or random, which is what another proposer has to beat.
        fragments: Name of a file in prompts/fragments/, or a path.
    """

    kind: Literal["fragments", "random"] = "fragments"
    fragments: str = "default"


class ChatProposerSettings(Settings):
    """A chat model writes the next template: from the history (llm), or with tools (agent).

    The name alone will do: `proposer: openai/gpt-5-mini`, or `proposer: agent:openai/gpt-5-mini`.

    Attributes:
        kind: llm; or agent, which looks at failures, tries drafts and compares them before it
            submits a template.
        model: PROVIDER/MODEL, as litellm names it: openai/gpt-4o; an agent's must be able to call
            tools.
        api_base: Address of an OpenAI-compatible server; the provider's own by default.
        evidence: For llm: whether the best and the latest template come with what their answers
            show, or all with their scores alone (as in the paper).
        max_tokens: Most tokens of a reply, those of a reasoning model's thoughts included.
        pictures: Most tuning images per iteration that the model is shown, the worst failures
            first, at 512 pixels; 0 sends none.
    """

    kind: Literal["llm", "agent"] = "llm"
    model: str = "openai/gpt-4o"
    api_base: str | None = None
    evidence: bool = True
    max_tokens: StrictInt = Field(4_000, ge=1)
    pictures: StrictInt = Field(0, ge=0, le=16)


class PluginProposerSettings(Settings):
    """The proposer of an installed package.

    Attributes:
        kind: Its name, an entry point in the group `taxtune.proposers`. All other keys are its own
            settings.
    """

    model_config = ConfigDict(extra="allow")

    kind: str


#: The group of entry points under which packages add proposers of their own.
PROPOSER_PLUGINS = "taxtune.proposers"


def proposer_named(name: str) -> dict[str, str]:
    """Returns the settings of a proposer that is given by name.

    Names are given on the command line, in recipes and in Python.

    Args:
        name: "fragments" or "random", "PROVIDER/MODEL" for a chat model, "agent:PROVIDER/MODEL" for
            one with tools, or the name of one that an installed package adds.

    Raises:
        ProposerError: If there is no such proposer.
        ModelError: If the model is not one behind an API.
    """
    own = plugin_names(PROPOSER_PLUGINS)
    if name in ("fragments", "random", *own):
        return {"kind": name}
    if not {"/", ":"} & set(name):
        known = ["fragments", "random", "PROVIDER/MODEL", "agent:PROVIDER/MODEL", *own]
        raise ProposerError("Unknown proposer.", value=name, remedy=names_near(name, known))
    model = name.removeprefix("agent:")
    api_name(model, "The proposer")
    return {"kind": "llm" if model == name else "agent", "model": model}


def with_proposer(value: Any) -> Any:
    """Returns the settings of a proposer that is given by name; others as they are.

    Raises:
        ValueError: If the name stands for nothing.
    """
    if not isinstance(value, str):
        return value
    try:
        return proposer_named(value)
    except TaxtuneError as error:
        raise ValueError(f"{error.message.rstrip('.')}. {error.remedy}") from None


def _proposer_tag(value: Any) -> str | None:
    """Returns the tag of the settings that a proposer's kind has."""
    kind = value.get("kind") if isinstance(value, Mapping) else getattr(value, "kind", None)
    if not isinstance(kind, str):
        return None
    tags = {"random": "fragments", "agent": "llm"}
    if kind in plugin_names(PROPOSER_PLUGINS):
        return "plugin"
    return tags.get(kind, kind)


ProposerSettings = Annotated[
    Annotated[FragmentsProposerSettings, Tag("fragments")]
    | Annotated[ChatProposerSettings, Tag("llm")]
    | Annotated[PluginProposerSettings, Tag("plugin")],
    Discriminator(_proposer_tag),
    BeforeValidator(with_proposer),
]


Effort = Literal["light", "medium", "heavy"]
#: What a run may spend at each effort: templates to try after the baseline, and calls of the VLM
#: about tuning images.
EFFORTS: Mapping[Effort, tuple[int, int]] = {
    "light": (10, 800),
    "medium": (20, 1600),
    "heavy": (40, 3200),
}


class BudgetSettings(Settings):
    """What a run may spend. Where it runs short the search ends early, in time for the finals.

    Attributes:
        vlm_calls: Most questions to the model about tuning images; the held-out images come on top.
        usd: Most US dollars, where litellm knows the prices.
    """

    vlm_calls: StrictInt | None = Field(None, ge=10)
    usd: Number | None = Field(None, gt=0)


class TrackingSettings(Settings):
    """Whether MLflow records the run: in its folder, or where `MLFLOW_TRACKING_URI` says.

    Attributes:
        mlflow: Whether to record the run in MLflow, in the experiment that `MLFLOW_EXPERIMENT_NAME`
            names ("taxtune").
    """

    mlflow: bool = True
