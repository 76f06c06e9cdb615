"""The parts of a recipe as typed models: taxonomy, data, prompt, VLM, mapper, objective, judge, proposer, ..."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictInt,
    field_validator,
    model_serializer,
    model_validator,
)

from taxtune.errors import TaxtuneError
from taxtune.fieldguide import IMAGES
from taxtune.models.names import parse_model

__all__ = [
    "BASELINE",
    "EFFORTS",
    "AgentProposerSettings",
    "ApiVLMSettings",
    "BudgetSettings",
    "DataSettings",
    "DirectPolicySettings",
    "Effort",
    "ExecutionSettings",
    "FieldGuideData",
    "FolderData",
    "FragmentsProposerSettings",
    "INat21Data",
    "JudgeSettings",
    "LLMProposerSettings",
    "LocalVLMSettings",
    "ManifestData",
    "MapperSettings",
    "Number",
    "ObjectiveSettings",
    "PolicySettings",
    "PromptSettings",
    "ProposerSettings",
    "RandomProposerSettings",
    "SeedSettings",
    "Settings",
    "TaxonomySettings",
    "TrackingSettings",
    "VLMSettings",
    "VotePolicySettings",
    "with_kind",
]

#: Paper 1, §7.2, word for word, as in prompts/seeds/baseline.j2.
BASELINE = "What is this an image of? Answer in the format 'A: <answer>.'"


def _no_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("must be a number")
    return value


# YAML reads `yes` as true, which would silently be 1; and 1e-3, without a dot, as text, which is meant as a number.
Number = Annotated[float, BeforeValidator(_no_bool)]


class Settings(BaseModel):
    """What every part of a recipe has: unknown keys are refused, and values do not change."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, str_strip_whitespace=False, protected_namespaces=(), allow_inf_nan=False
    )


class SeedSettings(Settings):
    """Seeds of what is drawn at random; in a recipe one number stands for all three.

    Attributes:
        split: Seeds the draw of the tuning and the held-out images, and the bootstrap.
        proposer: Seeds the proposer.
        model: Seeds the VLM's sampling; without effect at temperature 0.
    """

    split: StrictInt = Field(0, ge=0)
    proposer: StrictInt = Field(0, ge=0)
    model: StrictInt = Field(0, ge=0)

    @model_validator(mode="before")
    @classmethod
    def _one_for_all(cls, value: Any) -> Any:
        if isinstance(value, dict | SeedSettings):
            return value
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError("must be a whole number, or {split: 0, proposer: 1, model: 2}")
        if value < 0:
            raise ValueError("must be at least 0")
        return dict.fromkeys(("split", "proposer", "model"), value)

    @model_serializer
    def _as_written(self) -> int | dict[str, int]:
        if self.split == self.proposer == self.model:
            return self.split
        return {"split": self.split, "proposer": self.proposer, "model": self.model}

    @property
    def fixed(self) -> int | dict[str, int]:
        """Those that a resumed run must not change: the model's counts where it samples, and is in its identity."""
        split, proposer = self.split, self.proposer
        return split if split == proposer else {"split": split, "proposer": proposer}

    def repeated(self, k: int) -> SeedSettings:
        """Returns the seeds of the k-th repeat, from 0: other proposals and samples on the same images."""
        return SeedSettings(split=self.split, proposer=self.proposer + k, model=self.model + k)


class TaxonomySettings(Settings):
    """The label tree.

    Attributes:
        path: A file, folder or zip file, or "builtin:NAME" for the tree of a recipe that comes with taxtune.
        format: Its format; "auto" looks at the content.
        root: Restrict the tree to the part below this label or path ("Aves"), which becomes the root of all metrics;
            the held-out scores are given on the whole tree too. Images of anything else are left out and counted.
        root_label: The root's label where the format adds a root.
        domain: The node of the trivial answer ("always say bird"); the lowest node above all labels when left out.
        english_names: Attach the English names that taxtune knows of Latin higher ranks.
        frequencies: How often the nodes occur, for the information-weighted scores: a CSV with the columns node and
            count, or "targets" for the labels of the tuning split; all leaves equally likely when left out.
        smoothing: Occurrences added to every leaf, for nodes that never occur in `frequencies`; 0 when left out.
    """

    path: str
    format: str = "auto"
    root: str | None = None
    root_label: str | None = None
    domain: str | None = None
    english_names: bool = True
    frequencies: str | None = Field(None, min_length=1)
    smoothing: Number | None = Field(None, ge=0)

    @field_validator("format")
    @classmethod
    def _readable(cls, value: str) -> str:
        from taxtune.plugins import names_near, plugin_names
        from taxtune.taxonomy import FORMATS

        known = [*FORMATS, *plugin_names("taxtune.readers")]
        if value not in known:
            raise ValueError(f"is not a format. {names_near(value, known)}")
        return value


class _Splits(Settings):
    # For people, who are told by `taxtune recipes`; nothing depends on it.
    page: str | None = Field(None, exclude=True, description="Web page that the images are from.")
    size: str | None = Field(None, exclude=True, description="How large they are: 25,250 photos, a download of 5 GB.")
    tuning: StrictInt | None = Field(
        None,
        ge=1,
        description="Number of images for comparing templates. Default: two fifths of the images, at most 400; of "
        "fewer than 150, three fifths.",
    )
    block: StrictInt | None = Field(
        20,
        ge=2,
        description="Tuning images that every template is asked about; those that may win are asked about more, and "
        "the finalists about all. Where it is null or not below tuning, every template is asked about all.",
    )
    heldout: StrictInt | None = Field(
        None,
        ge=1,
        description="Number of images for the final comparison of baseline and winner. Default: seven twentieths "
        "of the images, or what tuning leaves; at most 200.",
    )


class ManifestData(_Splits):
    """A CSV, XLSX, JSONL or other text file with one image per row.

    Attributes:
        path: The file.
        images: Folder that image paths are relative to; the file's own folder by default.
        image_column: Column with the image's path.
        label_column: Column with the label: a label, alias or path of the taxonomy.
        pattern: For a text file without columns: a regular expression that matches each line, with
            the groups `image` and `label`: '(?P<image>[0-9]+) (?P<label>.+)'.
        image_suffix: What is added to the images' names: .jpg where the file has them without.
        skip_broken: Leave out images that are missing or unreadable, and name them, instead of refusing to run.
    """

    kind: Literal["manifest"] = "manifest"
    path: str
    images: str | None = None
    image_column: str = "image"
    label_column: str = "label"
    pattern: str | None = None
    image_suffix: str = ""
    skip_broken: bool = False

    @field_validator("pattern")
    @classmethod
    def _finds_both(cls, value: str | None) -> str | None:
        from taxtune.data.sources import line_pattern

        try:
            return None if value is None else line_pattern(value).pattern
        except TaxtuneError as error:
            raise ValueError(str(error)) from None


class FolderData(_Splits):
    """A folder with one sub-folder of images for each label.

    Attributes:
        path: The folder. The sub-folders' names are the labels.
        skip_broken: Leave out images that are unreadable, and name them, instead of refusing to run.
    """

    kind: Literal["folder"] = "folder"
    path: str
    skip_broken: bool = False


class INat21Data(_Splits):
    """iNaturalist 2021: its COCO-style JSON and the folder of its images.

    Attributes:
        path: The JSON file, such as val.json.
        images: Folder that the JSON's file names are relative to.
    """

    kind: Literal["inat21"] = "inat21"
    path: str
    images: str


class FieldGuideData(_Splits):
    """The drawn birds of the embedded field guide."""

    kind: Literal["fieldguide"] = "fieldguide"
    count: StrictInt = Field(IMAGES.n, ge=2, description="Number of images to use, from the first on.")
    degraded: Number = Field(
        IMAGES.degraded, ge=0, le=1, description="Share of images that are fogged, blurred or occluded."
    )
    seed: StrictInt = Field(IMAGES.seed, ge=0, description="The seed that the images were drawn with.")

    @model_validator(mode="after")
    def _drawn(self) -> FieldGuideData:
        if self.count > IMAGES.n or (self.degraded, self.seed) != (IMAGES.degraded, IMAGES.seed):
            raise ValueError(
                f"taxtune comes with {IMAGES.n} images, drawn with degraded: {IMAGES.degraded} and seed: "
                f"{IMAGES.seed}. To draw others, use a checkout of its repository: python -m fieldguide.draw "
                "--out birds --images N --degraded SHARE --seed SEED, and used with data: {kind: manifest, path: "
                "birds/manifest.csv, ...}"
            )
        return self


DataSettings = Annotated[ManifestData | FolderData | INat21Data | FieldGuideData, Field(discriminator="kind")]


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


def _auto_or_count(value: object) -> object:
    if value != "auto" and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise ValueError("must be auto, or a whole number that is at least 1")
    return value


Count = Annotated[int | Literal["auto"], BeforeValidator(_auto_or_count)]
DeviceMap = Literal["auto", "balanced", "balanced_low_0", "sequential"]
Quantization = Literal["4bit", "8bit", "int8", "int4", "float8"]


class LocalVLMSettings(Settings):
    """A transformers checkpoint on this machine.

    Attributes:
        model: "local:" and a name on Hugging Face or a folder, or "builtin:fieldguide".
        revision: Branch, tag or commit on Hugging Face; its default branch if omitted.
        dtype: Precision of the weights; auto takes what fits the device.
        device: auto, cpu, cuda, cuda:1, mps, ...
        batch_size: Images per batch, halved when memory runs out; auto takes what fits into a CUDA card's memory, and 8
            elsewhere.
        device_map: Spreads the layers of a model that is too large for one card over several: auto, balanced,
            balanced_low_0, sequential.
        quantization: Weights in fewer bits: 4bit or 8bit (bitsandbytes), int8, int4 or float8 (torchao).
        stop: Texts that end an answer; they are cut off.
        image_memory_gib: Memory for what the model makes of images, so that a further prompt does not read them again;
            a quarter of the machine's if omitted, and 0 for none.
        image_disk_gib: Disk for the same, in the user's cache folder, for later runs.
        max_new_tokens: Longest answer, in tokens.
        temperature: 0 for greedy decoding; above 0 for sampling.
        system_prompt: System message before every prompt.
    """

    kind: Literal["local"] = "local"
    model: str
    revision: str | None = None
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    device: str = "auto"
    batch_size: Count = "auto"
    device_map: DeviceMap | None = None
    quantization: Quantization | None = None
    stop: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    image_memory_gib: Number | None = Field(None, ge=0)
    image_disk_gib: Number = Field(0.0, ge=0)
    max_new_tokens: StrictInt = Field(64, ge=1)
    temperature: Number = Field(0.0, ge=0)
    system_prompt: str | None = None


class ApiVLMSettings(Settings):
    """Any model with image input that litellm reaches.

    Attributes:
        model: PROVIDER/MODEL, as litellm names it: openai/gpt-4o.
        api_base: Address of an OpenAI-compatible server; the provider's own by default.
        concurrency: Maximum number of concurrent calls; auto follows the server's answers, up to 128.
        max_tokens: Longest answer, in tokens.
        temperature: Sampling temperature; null leaves it to the provider.
        timeout: Seconds that one attempt may take.
        max_retries: Further attempts after a failed one.
        max_image_side: Longer side in pixels to which larger images are scaled down before they are sent; null sends
            them as they are.
        images_at: Folders that the server can reach, each with its address there (file:///photos, https://...): images
            in them that need no change are sent by reference.
        system_prompt: System message before every prompt.
    """

    kind: Literal["api"] = "api"
    model: str
    api_base: str | None = None
    api_key_env: str | None = Field(None, description="Environment variable that holds the key, named ..._API_KEY.")
    concurrency: Count = "auto"
    max_tokens: StrictInt = Field(64, ge=1)
    temperature: Number | None = Field(0.0, ge=0)
    timeout: Number = Field(60.0, gt=0)
    max_retries: StrictInt = Field(5, ge=0)
    max_image_side: StrictInt | None = Field(1024, ge=8)
    images_at: dict[str, str] = Field(default_factory=dict)
    system_prompt: str | None = None


def with_kind(value: Any) -> Any:
    """Returns the settings of a model with the kind that its name says; a name alone is settings, too.

    Raises:
        ValueError: If the name stands for nothing, or for a model of another kind than the settings say.
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


VLMSettings = Annotated[LocalVLMSettings | ApiVLMSettings, Field(discriminator="kind"), BeforeValidator(with_kind)]


class ExecutionSettings(Settings):
    """Where the model's answers are computed; what comes out is the same."""

    engine: Literal["here", "processes", "ray"] = Field(
        "here",
        description="here (in the process of the run), processes (one for each GPU of this machine) or ray (actors of "
        "a Ray cluster). The other keys are for the last two.",
    )
    workers: Count = Field(
        "auto",
        description="How many workers, each with the whole model. auto: as many as the GPUs make; without GPUs one, or "
        "on a Ray cluster one for each node.",
    )
    address: str | None = Field(
        None,
        min_length=1,
        description="Address of the Ray cluster: HOST:6379, ray://HOST:10001 or auto. Default: that of RAY_ADDRESS, or "
        "else a cluster on this machine, which is started if there is none.",
    )
    gpus_per_worker: Number | None = Field(
        None,
        ge=0,
        description="GPUs of each worker: several for a model that is spread over them (vlm.device_map), a fraction "
        "where workers share one, 0 for the CPU. Default: 1 where there are any.",
    )

    @model_validator(mode="after")
    def _names_an_engine(self) -> ExecutionSettings:
        # With `engine: here` the keys may stand, so that one key switches the workers off.
        if self.model_fields_set and "engine" not in self.model_fields_set:
            raise ValueError("needs an engine: processes or ray")
        if self.gpus_per_worker is not None and self.gpus_per_worker > 1 and self.gpus_per_worker % 1:
            raise ValueError("gpus_per_worker must be a whole number, or less than 1")
        return self


class MapperSettings(Settings):
    """How free text is placed on the taxonomy (paper 1, Algorithm 1).

    Attributes:
        similarity: lexical, sentence:MODEL or clip:MODEL.
        preset: default, or Algorithm 1 of the paper: paper-listing as printed, paper-prose as its text describes it.
        k: Number of most similar nodes that are looked at.
        thr_top2: Softmax difference of the first and the second score below which nodes vote.
        thr_topk: The same for the first and the k-th score.
        thr_vote: Votes that a node needs.
    """

    similarity: str = "lexical"
    preset: Literal["default", "paper-listing", "paper-prose"] = "default"
    k: StrictInt = Field(10, ge=2)
    thr_top2: Number = Field(0.001, ge=0)
    thr_topk: Number = Field(0.0015, ge=0)
    thr_vote: StrictInt = Field(4, ge=1)
    use_images: bool = Field(False, description="Compare the image instead of the answer with the names (CLIP-i2t).")
    wordnet: bool = Field(True, description="Look up words that the tree lacks in WordNet, if it is installed.")
    off_tree: Literal["child", "root"] = Field(
        "child",
        description="How to score an answer that asserts something the tree lacks: child (a wrong child of the root) "
        "or root (hP 1; the paper's presets always do this).",
    )

    @field_validator("similarity")
    @classmethod
    def _known(cls, value: str) -> str:
        if value != "lexical" and not re.fullmatch(r"(sentence|clip):.+", value):
            raise ValueError("must be 'lexical', 'sentence:MODEL' or 'clip:MODEL'")
        return value


class ObjectiveSettings(Settings):
    """What makes one template better than another."""

    kind: str = Field(
        "hr_at_hp",
        description="hr_at_hp (as specific as possible while hP is at least hp_target), hp, hf, f_beta, pareto, "
        "accuracy, ihr_at_ihp, ihp, ihf, the name of a measure ('lave' is rated by the judge), or an objective of an "
        "installed package.",
    )
    hp_target: Number = Field(
        0.98, gt=0, le=1, description="The hP that 'hr_at_hp' holds, and the ihP that 'ihr_at_ihp' holds."
    )
    confidence_level: Number = Field(
        0.9, ge=0.5, lt=1, description="The confidence level at which a one-sided bound must reach hp_target."
    )
    beta: Number = Field(
        0.5, gt=0, le=10, description="How many times hR counts as much as hP in 'f_beta'; below 1 hP counts more."
    )
    hr_floor: Number | str = Field(
        "80%",
        description="Smallest mean hR that 'hp' and 'ihp' accept: a number, a share of the baseline's hR (80%), or "
        "trivial (just above that of always answering the root).",
    )

    @field_validator("hr_floor")
    @classmethod
    def _a_floor(cls, value: float | str) -> float | str:
        from taxtune.tuning.objective import read_floor

        try:
            read_floor(value)
        except TaxtuneError as error:
            raise ValueError(f"is not a floor of hR. {error.remedy}") from None
        return value

    @field_validator("kind")
    @classmethod
    def _known(cls, value: str) -> str:
        from taxtune.tuning.objective import check_objective

        try:
            check_objective(value)
        except TaxtuneError as error:
            raise ValueError(f"is not an objective. {error.remedy}") from None
        return value


class JudgeSettings(Settings):
    """The language model that rates answers, for objectives that ask one, such as 'lave' (paper 4).

    Attributes:
        api_base: Address of an OpenAI-compatible server; the provider's own by default.
        concurrency: Maximum number of concurrent calls; auto follows the server's answers, up to 128.
        timeout: Seconds that one attempt may take.
        max_retries: Further attempts after a failed one.
        device: Device of a local model: auto, cpu, cuda, ...
        dtype: Precision of a local model's weights.
        batch_size: Batch size of a local model, or auto.
        device_map: Spreads a local model over several cards, as of `vlm`.
        quantization: Weights of a local model in fewer bits, as of `vlm`.
        revision: Revision of a local model on Hugging Face.
    """

    model: str = Field(min_length=1, description="PROVIDER/MODEL behind an API, or local:MODEL on this machine.")
    api_base: str | None = None
    api_key_env: str | None = Field(None, description="Environment variable that holds the key, named ..._API_KEY.")
    temperature: Number | None = Field(0.0, ge=0, description="Sampling temperature of a model behind an API.")
    max_tokens: StrictInt = Field(
        256, ge=1, description="Maximum length of a reply, which is a sentence and a rating, in tokens."
    )
    concurrency: Count = "auto"
    timeout: Number = Field(60.0, gt=0)
    max_retries: StrictInt = Field(5, ge=0)
    device: str = "auto"
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    batch_size: Count = "auto"
    device_map: DeviceMap | None = None
    quantization: Quantization | None = None
    revision: str | None = None
    demonstrations: str | None = Field(None, description="A YAML file of demonstrations to use instead of taxtune's.")
    yes_no_demonstrations: str | None = Field(None, description="The same for yes/no questions.")


def _several(value: object) -> object:
    return value if isinstance(value, list | tuple) else (value,)


_Samples = Annotated[StrictInt, Field(ge=2, le=100)]
_Share = Annotated[Number, Field(gt=0, le=1)]


class DirectPolicySettings(Settings):
    """One answer an image, placed as it is."""

    kind: Literal["direct"] = "direct"


class VotePolicySettings(Settings):
    """Several answers an image; it goes to the deepest node that a share of them agree on.

    `samples` and `share` may be lists. The first of each, which for `samples` must be the largest, is what templates
    are compared at; the winner is chosen among the finalists at every one of them, from the same answers.
    """

    kind: Literal["vote"] = "vote"
    samples: Annotated[tuple[_Samples, ...], BeforeValidator(_several)] = Field(
        (8,), min_length=1, description="Answers an image, each a call of the VLM."
    )
    share: Annotated[tuple[_Share, ...], BeforeValidator(_several)] = Field(
        (0.7,), min_length=1, description="Share of the answers that a node needs."
    )
    temperature: Number | None = Field(
        1.0, gt=0, le=10, description="Sampling temperature of the VLM, in place of vlm.temperature; null keeps that."
    )


PolicySettings = Annotated[DirectPolicySettings | VotePolicySettings, Field(discriminator="kind")]


class FragmentsProposerSettings(Settings):
    """Templates composed from fragments, led by a model of what they do; needs no key."""

    kind: Literal["fragments"] = "fragments"
    fragments: str = Field("default", description="Name of a file in prompts/fragments/, or a path.")


class RandomProposerSettings(Settings):
    """Templates composed from fragments at random: what another proposer has to beat; needs no key."""

    kind: Literal["random"] = "random"
    fragments: str = Field("default", description="Name of a file in prompts/fragments/, or a path.")


class LLMProposerSettings(Settings):
    """A chat model that reads the history and writes the next template (the paper's loop).

    Attributes:
        model: PROVIDER/MODEL, as litellm names it: openai/gpt-4o.
        api_base: Address of an OpenAI-compatible server; the provider's own by default.
        temperature: Sampling temperature; null leaves it to the provider.
        max_history_tokens: Most tokens of past templates and their evidence in a message; the best and the latest are
            kept.
        evidence: Whether the best and the latest template come with what their answers show, or all with their scores
            alone (as in the paper).
        max_tokens: Most tokens of a reply; a reasoning model's thoughts count.
        timeout: Seconds that one attempt may take.
        max_retries: Further attempts after a failed one.
    """

    kind: Literal["llm"] = "llm"
    model: str = "openai/gpt-4o"
    api_base: str | None = None
    api_key_env: str | None = Field(None, description="Environment variable that holds the key, named ..._API_KEY.")
    temperature: Number | None = Field(1.0, ge=0)
    max_history_tokens: StrictInt = Field(6000, ge=200, le=200_000)
    evidence: bool = True
    max_tokens: StrictInt = Field(4000, ge=100, le=100_000)
    timeout: Number = Field(120.0, gt=0, le=3600)
    max_retries: StrictInt = Field(5, ge=0)


class AgentProposerSettings(Settings):
    """A chat model with tools: it looks at failures, tries drafts and compares them before it submits a template.

    Attributes:
        model: PROVIDER/MODEL, as litellm names it: openai/gpt-4o; it must be able to call tools.
        api_base: Address of an OpenAI-compatible server; the provider's own by default.
        temperature: Sampling temperature; null leaves it to the provider.
        max_turns: Most replies of the model in an iteration.
        trial_images: Most images that drafts are tried on in an iteration, over all drafts; 0 for none.
        max_history_tokens: Most tokens of past templates in the first message; the best and the latest are kept.
        max_total_tokens: Most tokens of an iteration's conversation, read and written.
        max_tokens: Most tokens of a reply; a reasoning model's thoughts count.
        timeout: Seconds that one attempt may take.
        max_retries: Further attempts after a failed one.
    """

    kind: Literal["agent"] = "agent"
    model: str = "openai/gpt-4o"
    api_base: str | None = None
    api_key_env: str | None = Field(None, description="Environment variable that holds the key, named ..._API_KEY.")
    temperature: Number | None = Field(1.0, ge=0)
    max_turns: StrictInt = Field(12, ge=2, le=100)
    trial_images: StrictInt = Field(60, ge=0)
    max_history_tokens: StrictInt = Field(4000, ge=200, le=200_000)
    max_total_tokens: StrictInt = Field(150_000, ge=5000)
    max_tokens: StrictInt = Field(4000, ge=100, le=100_000)
    timeout: Number = Field(120.0, gt=0, le=3600)
    max_retries: StrictInt = Field(5, ge=0)


ProposerSettings = Annotated[
    FragmentsProposerSettings | RandomProposerSettings | LLMProposerSettings | AgentProposerSettings,
    Field(discriminator="kind"),
]


Effort = Literal["light", "medium", "heavy"]
#: What a run may spend at each effort: templates to try after the baseline, and calls of the VLM about tuning images.
EFFORTS: Mapping[Effort, tuple[int, int]] = {"light": (10, 800), "medium": (20, 1600), "heavy": (40, 3200)}


class BudgetSettings(Settings):
    """What a run may spend; where one of them runs short the search ends early, in time for the finals."""

    vlm_calls: StrictInt | None = Field(
        None, ge=10, description="Most questions to the model about tuning images; the held-out images come on top."
    )
    llm_tokens: StrictInt | None = Field(
        None, ge=1, description="Most tokens read and written by the proposer's model."
    )
    usd: Number | None = Field(None, gt=0, description="Most US dollars, where litellm knows the prices.")
    minutes: Number | None = Field(None, gt=0, description="Most minutes for the search.")


class TrackingSettings(Settings):
    """Where MLflow records the run; `MLFLOW_TRACKING_URI` wins over the default, `uri` over both.

    Attributes:
        mlflow: Whether to record the run in MLflow.
        experiment: Name of the MLflow experiment.
        uri: Tracking server or database; a database in the run's folder by default.
        traces: Most images of a template that become traces; none with 0.
        model: Whether to log the winner as a model that MLflow can serve.
    """

    mlflow: bool = True
    experiment: str = "taxtune"
    uri: str | None = None
    traces: int = Field(5, ge=0)
    model: bool = True
