"""The settings of the studies: one declaration for the command line, for the record in study.json and for Python.

A study's settings are a frozen dataclass that derives from `Settings`. The annotation of a field holds its type and,
with `typer.Option` or `typer.Argument`, its names on the command line, its help and its range. `taxtune.cli.study`
makes the command from these fields, and a value is checked in the same way whether it comes from there or from Python.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import typer
from typer.models import ArgumentInfo, OptionInfo

from taxtune import options
from taxtune.atomic import check_folder
from taxtune.errors import DataError

if TYPE_CHECKING:
    from taxtune.answers import AnswerTable
    from taxtune.mapping import Mapper, MapperConfig
    from taxtune.metrics.registry import Measure, MeasureSettings
    from taxtune.taxonomy import Domain, Taxonomy

__all__ = [
    "NOT_RECORDED",
    "AnswerSettings",
    "ApiSettings",
    "BatchSize",
    "ContestantSettings",
    "Declared",
    "MapperSettings",
    "ModelSettings",
    "Recorded",
    "Settings",
    "TextMeasureSettings",
    "TreeSettings",
    "check_inputs",
    "check_once",
    "check_written",
    "declarations",
]


class Recorded(NamedTuple):
    """The key of a field in the record where it is not its name; None leaves it out."""

    key: str | None


#: Marks a field that changes no result, such as the device, or that the report states elsewhere.
NOT_RECORDED = Recorded(None)


class Declared(NamedTuple):
    """A field of the settings: its type without None, and what its annotation says of the option and the record."""

    name: str
    type: Any
    optional: bool
    default: Any
    info: OptionInfo | ArgumentInfo
    key: str | None

    @property
    def option(self) -> str:
        """Its name on the command line."""
        if isinstance(self.info, ArgumentInfo):
            return str(self.info.metavar or self.name.upper())
        names = [name for name in self.info.param_decls or () if name.startswith("--")]
        return names[0].split("/")[0] if names else f"--{self.name.replace('_', '-')}"

    def checked(self, value: Any) -> Any:
        """Returns a value in the field's type; raises a DataError if it is not an allowed one, or out of range."""
        if value is None and self.optional:
            return None
        origin = get_origin(self.type)
        if origin is tuple:
            return (
                (value,)
                if isinstance(value, str | Path) or not isinstance(value, Iterable)
                else tuple(value)
            )
        if origin is Literal:
            return options.choice(value, get_args(self.type), self.option)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return dict(value) if isinstance(value, Mapping) else options.pairs(value, self.option)
        if self.type is Path:
            return Path(value)
        for word, bound, sign in (("least", self.info.min, 1), ("most", self.info.max, -1)):
            if bound is not None and not sign * value >= sign * bound:
                raise DataError(f"{self.option} must be at {word} {bound}.", value=value)
        return value


def declarations(settings: type[Settings]) -> dict[str, Declared]:
    """Returns the fields of a class of settings by name: required ones first, then its own, then inherited ones."""
    hints, own = get_type_hints(settings, include_extras=True), inspect.get_annotations(settings)
    declared = []
    for one in fields(settings):
        kind, *more = get_args(hints[one.name])
        # A type may be narrowed beside the option that several share: Annotated[Literal["error"], OffTreeOption].
        metadata = [
            part
            for item in more
            for part in (get_args(item)[1:] if get_origin(item) is Annotated else (item,))
        ]
        optional = get_origin(kind) in (Union, types.UnionType)
        if optional:
            kind = next(part for part in get_args(kind) if part is not type(None))
        default = one.default if one.default_factory is MISSING else one.default_factory()
        info = next(item for item in metadata if isinstance(item, OptionInfo | ArgumentInfo))
        key = next((item.key for item in metadata if isinstance(item, Recorded)), one.name)
        declared.append(Declared(one.name, kind, optional, default, info, key))
    return {
        one.name: one
        for one in sorted(declared, key=lambda d: (d.default is not MISSING, d.name not in own))
    }


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a study.

    Raises:
        DataError: If a value is not one of the allowed ones, or out of range.
    """

    #: Whether the report's JSON has a record per answer, which the help of --json says.
    rows_in_json: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name, declared in declarations(type(self)).items():
            object.__setattr__(self, name, declared.checked(getattr(self, name)))

    def record(self) -> dict[str, Any]:
        """Returns the fields as the report records them."""
        declared = declarations(type(self)).values()
        return {one.key: getattr(self, one.name) for one in declared if one.key is not None}


BatchSize = Annotated[int, options.BatchSizeOption, NOT_RECORDED]


@dataclass(frozen=True, kw_only=True)
class TreeSettings(Settings):
    """A study on a taxonomy (a file, "builtin:fieldguide" or a `Taxonomy`), or on a part of it."""

    taxonomy: Annotated[Any, options.TaxonomyOption]
    format: options.FormatOption = "auto"
    root: options.RootOption = None

    def read_tree(self, *, names: bool = True) -> tuple[Taxonomy, Domain | None]:
        """Returns the tree of the study, and the domain that it is a part of; None where it is the whole taxonomy.

        With `names`, a tree from a file gets the English names that come with taxtune. Raises a TaxonomyError if the
        file cannot be read, or there is no such node or nothing below it.
        """
        from taxtune.taxonomy.domain import read_part

        return read_part(self.taxonomy, self.format, self.root, names=names)

    def record(self) -> dict[str, Any]:
        """Returns the fields as the report records them, a taxonomy in memory as its source file."""
        return super().record() | {"taxonomy": getattr(self.taxonomy, "source", self.taxonomy)}


@dataclass(frozen=True, kw_only=True)
class ModelSettings(Settings):
    """A study with models on this machine."""

    device: Annotated[str, options.DeviceOption, NOT_RECORDED] = "auto"
    cache_dir: Annotated[Path | None, options.CacheDirOption, NOT_RECORDED] = None

    def measure_settings(self) -> MeasureSettings:
        """The settings that all measures share."""
        from taxtune.metrics.registry import MeasureSettings

        names = ("device", "batch_size", "cache_dir", "api_base", "concurrency")
        return MeasureSettings(
            **{name: getattr(self, name) for name in names if hasattr(self, name)}
        )

    def measures(self, specs: Iterable[str | Measure]) -> list[Measure]:
        """Returns the measures of specifications, each once; a measure is returned as it is."""
        from taxtune.metrics.registry import make_measure

        settings = self.measure_settings()
        return [
            make_measure(spec, settings) if isinstance(spec, str) else spec
            for spec in dict.fromkeys(specs)
        ]


@dataclass(frozen=True, kw_only=True)
class ApiSettings(ModelSettings):
    """A study with language models as judges, which may be behind an API."""

    api_base: Annotated[str | None, options.ApiBaseOption, NOT_RECORDED] = None
    concurrency: Annotated[int, options.ConcurrencyOption, NOT_RECORDED] = 8


@dataclass(frozen=True, kw_only=True)
class TextMeasureSettings(ApiSettings):
    """A study that compares answers with names of their targets as text."""

    question_column: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Column with the prompt, for measures that are judges."
        ),
    ] = None
    reference: Annotated[
        Literal["common-name", "label", "any-name"],
        typer.Option(
            metavar="WHAT",
            help="Which name of the target to compare answers with: common-name, label or any-name.",
        ),
    ] = "common-name"
    batch_size: BatchSize = 64


@dataclass(frozen=True, kw_only=True)
class MapperSettings(ModelSettings):
    """A study that places answers with taxtune's mapper, whose identity stands in the record."""

    similarity: Annotated[str, options.SimilarityOption, NOT_RECORDED] = "lexical"
    preset: Annotated[str, options.PresetOption, NOT_RECORDED] = "default"
    off_tree_as: Annotated[str, options.OffTreeAsOption, NOT_RECORDED] = "child"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.mapper_config()

    def mapper_config(self) -> MapperConfig:
        """Returns the mapper's own settings; raises a MapperError if one is out of range."""
        from taxtune.mapping import MapperConfig

        return MapperConfig(preset=self.preset, off_tree=self.off_tree_as)

    def mapper(self, taxonomy: Taxonomy) -> Mapper:
        """Returns the mapper on a tree; raises a ModelError if the model of its similarity cannot be loaded."""
        from taxtune.mapping import Mapper

        return Mapper(
            taxonomy,
            self.similarity,
            self.mapper_config(),
            device=self.device,
            cache_dir=self.cache_dir,
        )


@dataclass(frozen=True, kw_only=True)
class AnswerSettings(Settings):
    """A study of files of answers with their targets; `taxtune.answers.AnswerSchema` documents the choices."""

    where: Annotated[Mapping[str, str], options.WhereOption] = field(default_factory=dict)
    guesses: Annotated[Literal["first", "join"], options.GuessesOption] = "first"
    answer_column: Annotated[str, options.AnswerColumnOption] = "answer"
    truth_column: Annotated[str, options.TruthColumnOption] = "truth"
    id_column: Annotated[str, options.IdColumnOption] = "id"
    off_tree: Annotated[Literal["error", "leave-out"], options.OffTreeOption] = "error"
    missing: Annotated[Literal["keep", "error", "leave-out"], options.MissingKeptOption] = "keep"

    def read_answers(
        self,
        path: str | Path,
        taxonomy: Taxonomy,
        part: Domain | None = None,
        by: Sequence[str] = (),
    ) -> AnswerTable:
        """Returns the rows of a file on a tree, or on a part of one; raises a DataError if it cannot be used.

        `by` are columns that tell several models or prompts in the file apart.
        """
        from taxtune.answers import AnswerSchema, read_answers

        columns = {name: getattr(self, f"{name}_column") for name in ("answer", "truth", "id")}
        how = {name: getattr(self, name) for name in ("where", "guesses", "off_tree", "missing")}
        return read_answers(
            path, AnswerSchema(**columns, **how, by=by, taxonomy=taxonomy, part=part)
        )


@dataclass(frozen=True, kw_only=True)
class ContestantSettings(TextMeasureSettings, MapperSettings, AnswerSettings, TreeSettings):
    """A study that compares models or prompts: several files, or files split by a column or by their guesses."""

    by: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column that splits each file.")
    ] = None
    guess: Annotated[
        tuple[str, ...],
        typer.Option(help="For lists of guesses: 1, 2, top-3 or all, compared with each other."),
    ] = ()
    guesses: Annotated[Literal["first", "join"], options.OtherGuessesOption] = "first"
    rows: Annotated[Literal["error", "common"], options.RowsOption] = "error"
    seed: options.SeedOption = 0


def check_inputs(
    measures: Iterable[str | Measure],
    what: str,
    *,
    questions: bool = False,
    remedy: str = "Remove it.",
) -> None:
    """Checks that there are the inputs of measures besides texts, before a model is loaded.

    Args:
        measures: The measures, or their specifications.
        what: What is measured, for the message.
        questions: Whether it has questions.
        remedy: What to do about a measure that needs questions.

    Raises:
        DataError: If a measure needs what there is not, or there is no such measure.
    """
    from taxtune.metrics.registry import split_spec

    for measure in measures:
        if isinstance(measure, str):
            kind, _ = split_spec(measure)
            name, asks = kind.kind, kind.needs_question
        else:
            name, asks = measure.name, measure.needs_questions
        if asks and not questions:
            raise DataError(
                f"The measure {name} needs questions, which {what} do not have.", remedy=remedy
            )


def check_written(path: Path | None, option: str, ending: str, inputs: Iterable[Any]) -> None:
    """Raises a TaxtuneError unless a file can be written, has the given ending (".npz") and is none of the inputs."""
    if path is None:
        return
    if path.suffix.lower() != ending:
        raise DataError(
            f"The file for {option} must end in {ending}.", value=str(path), remedy="Rename it."
        )
    if path.is_dir():
        raise DataError(f"This is a folder, but {option} needs a file.", file=path)
    if path.resolve() in {
        Path(other).resolve() for other in inputs if isinstance(other, str | Path)
    }:
        raise DataError(
            f"{option} names a file that is also an input.", file=path, remedy="Choose another."
        )
    check_folder(path.parent)


def check_once(option: str, values: Sequence[Any]) -> None:
    """Raises a DataError if two values of an option are the same."""
    repeated = [str(value) for i, value in enumerate(values) if value in values[:i]]
    if repeated:
        raise DataError(
            f"{option} contains the same value twice.", value=repeated[0], remedy="Give it once."
        )
