"""What a study can be told: one declaration for the command line, for the record in study.json and for Python.

A study's settings are a frozen dataclass that derives from `Settings`. The annotation of a field says all that there is
to say about it: its type, and with `typer.Option` or `typer.Argument` its names on the command line, its help and its
range; the default stands beside it. `taxtune.cli.study` makes the command from these fields, `Settings.record` what the
report says of them, and a value is checked in the same way whichever way it comes.

What several studies can be told is declared here once, in the classes that they inherit from.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo

from taxtune.errors import DataError
from taxtune.options import (
    AnswerColumnOption,
    ApiBaseOption,
    BatchSizeOption,
    CacheDirOption,
    ConcurrencyOption,
    DeviceOption,
    FormatOption,
    GuessesOption,
    IdColumnOption,
    MissingKeptOption,
    OffTreeAsOption,
    OffTreeOption,
    OtherGuessesOption,
    PresetOption,
    RootOption,
    RowsOption,
    SimilarityOption,
    TaxonomyOption,
    TruthColumnOption,
    WhereOption,
    choice,
    pairs,
)

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
    "TaxonomySource",
    "TextMeasureSettings",
    "TreeSettings",
    "declarations",
    "needs_of",
]


@dataclass(frozen=True, slots=True)
class Recorded:
    """Where the record of a study has a field that does not stand under its own name.

    Attributes:
        key: The key, with dots between those of objects inside objects; None leaves the field out.
    """

    key: str | None


#: Marks what changes no result, such as the device, and what the report says in its own words.
NOT_RECORDED = Recorded(None)


@dataclass(frozen=True, slots=True)
class Declared:
    """What the annotation of a field says.

    Attributes:
        name: The field's name.
        type: Its type, without None and without what is only for the command line.
        optional: Whether it may be None.
        default: Its default; `dataclasses.MISSING` where it must be given.
        info: Its names on the command line, help and range.
        key: Where the record has it, see `Recorded`.
    """

    name: str
    type: Any
    optional: bool
    default: Any
    info: OptionInfo | ArgumentInfo
    key: str | None

    @property
    def option(self) -> str:
        """What the field is called on the command line."""
        if isinstance(self.info, ArgumentInfo):
            return str(self.info.metavar or self.name.upper())
        names = [name for name in self.info.param_decls or () if name.startswith("--")]
        return names[0].split("/")[0] if names else f"--{self.name.replace('_', '-')}"

    def checked(self, value: Any) -> Any:
        """Returns a value as the settings hold it.

        Raises:
            DataError: If it is not among the values that there are, or out of range.
        """
        if value is None and self.optional:
            return None
        origin = get_origin(self.type)
        if origin is tuple:
            return (value,) if isinstance(value, str | Path) or not isinstance(value, Iterable) else tuple(value)
        if origin is Literal:
            return choice(value, get_args(self.type), self.option)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return dict(value) if isinstance(value, Mapping) else pairs(value, self.option)
        if self.type is Path:
            return Path(value)
        low, high = self.info.min, self.info.max
        if low is not None and not value >= low:
            raise DataError(f"{self.option} must be at least {low}.", value=value)
        if high is not None and not value <= high:
            raise DataError(f"{self.option} must be at most {high}.", value=value)
        return value


def declarations(settings: type[Settings]) -> dict[str, Declared]:
    """Returns what the fields of a class of settings say, by name, in the order of the command line.

    What must be given comes first, then the study's own fields, then those that it inherits.
    """
    hints = get_type_hints(settings, include_extras=True)
    own = inspect.get_annotations(settings)
    found = [_declared(field, hints[field.name]) for field in fields(settings)]
    return {one.name: one for one in sorted(found, key=lambda one: (one.default is not MISSING, one.name not in own))}


def _declared(field: Field[Any], hint: Any) -> Declared:
    kind, *said = get_args(hint)
    # A type may be narrowed beside the option that several share: Annotated[Literal["error"], OffTreeOption].
    metadata = [more for item in said for more in (get_args(item)[1:] if get_origin(item) is Annotated else (item,))]
    if get_origin(kind) in (Union, types.UnionType):
        inner = [part for part in get_args(kind) if part is not type(None)]
        kind, optional = inner[0], True
    else:
        optional = False
    return Declared(
        field.name,
        kind,
        optional,
        field.default if field.default_factory is MISSING else field.default_factory(),
        next(item for item in metadata if isinstance(item, OptionInfo | ArgumentInfo)),
        next((item.key for item in metadata if isinstance(item, Recorded)), field.name),
    )


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a study.

    Raises:
        DataError: If a value is not one of those that there are, or out of range.
    """

    #: Whether the report's JSON has a record for each answer, which the help of --json says.
    rows_in_json: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name, declared in declarations(type(self)).items():
            object.__setattr__(self, name, declared.checked(getattr(self, name)))

    def record(self) -> dict[str, Any]:
        """Returns the fields as the report records them."""
        record: dict[str, Any] = {}
        for name, declared in declarations(type(self)).items():
            if declared.key is not None:
                *outer, last = declared.key.split(".")
                place = record
                for key in outer:
                    place = place.setdefault(key, {})
                place[last] = getattr(self, name)
        return record

    def works(self) -> Sequence[str]:
        """Returns the specifications of the measures and similarities whose work is kept on disk as it is made."""
        return ()


# What a measure is told, where a study can be told it.
_TOLD = ("device", "batch_size", "cache_dir", "api_base", "concurrency", "chunker")

#: The taxonomy: a file, "builtin:fieldguide", or a `Taxonomy`.
TaxonomySource = Annotated[Any, TaxonomyOption]
BatchSize = Annotated[int, BatchSizeOption, NOT_RECORDED]


@dataclass(frozen=True, kw_only=True)
class TreeSettings(Settings):
    """A study on a taxonomy, or on a part of it."""

    taxonomy: TaxonomySource
    format: FormatOption = "auto"
    root: RootOption = None

    def read_tree(self, *, names: bool = True) -> tuple[Taxonomy, Domain | None]:
        """Returns the tree that the study is on, and what it is a part of, or None where it is the whole taxonomy.

        Args:
            names: Whether the English names that come with taxtune are added to a tree that is read from a file.

        Raises:
            TaxonomyError: If the file cannot be read, or there is no such node or nothing below it.
        """
        from taxtune.taxonomy.domain import read_part

        return read_part(self.taxonomy, self.format, self.root, names=names)

    def record(self) -> dict[str, Any]:
        """Returns the fields as the report records them, a taxonomy in memory as the file that it is from."""
        return super().record() | {"taxonomy": getattr(self.taxonomy, "source", self.taxonomy)}


@dataclass(frozen=True, kw_only=True)
class ModelSettings(Settings):
    """A study with models on this machine."""

    device: Annotated[str, DeviceOption, NOT_RECORDED] = "auto"
    cache_dir: Annotated[Path | None, CacheDirOption, NOT_RECORDED] = None

    def measure_settings(self) -> MeasureSettings:
        """Returns what every measure is told of these settings."""
        from taxtune.metrics.registry import MeasureSettings

        told = {name: getattr(self, name) for name in _TOLD if hasattr(self, name)}
        return MeasureSettings(**told)

    def measures(self, specs: Iterable[str | Measure]) -> list[Measure]:
        """Returns the measures, each once; one that is given in place of a specification is taken as it is."""
        from taxtune.metrics.registry import make_measure

        told = self.measure_settings()
        return [make_measure(spec, told) if isinstance(spec, str) else spec for spec in dict.fromkeys(specs)]


@dataclass(frozen=True, kw_only=True)
class ApiSettings(ModelSettings):
    """A study with language models as judges, which may be behind an API."""

    api_base: Annotated[str | None, ApiBaseOption, NOT_RECORDED] = None
    concurrency: Annotated[int, ConcurrencyOption, NOT_RECORDED] = 8


@dataclass(frozen=True, kw_only=True)
class TextMeasureSettings(ApiSettings):
    """A study that compares answers with names of their targets as text."""

    question_column: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column with the prompt, for measures that are judges."),
    ] = None
    reference: Annotated[
        Literal["common-name", "label", "any-name"],
        typer.Option(
            metavar="WHAT", help="Which name of the target to compare answers with: common-name, label or any-name."
        ),
    ] = "common-name"
    batch_size: BatchSize = 64


@dataclass(frozen=True, kw_only=True)
class MapperSettings(ModelSettings):
    """A study that places answers with taxtune's mapper, whose identity stands in the record."""

    similarity: Annotated[str, SimilarityOption, NOT_RECORDED] = "lexical"
    preset: Annotated[str, PresetOption, NOT_RECORDED] = "default"
    off_tree_as: Annotated[str, OffTreeAsOption, NOT_RECORDED] = "child"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.mapper_config()

    def mapper_config(self) -> MapperConfig:
        """Returns the mapper's own settings.

        Raises:
            MapperError: If one is out of range.
        """
        from taxtune.mapping import MapperConfig

        return MapperConfig(preset=self.preset, off_tree=self.off_tree_as)

    def mapper(self, taxonomy: Taxonomy) -> Mapper:
        """Returns the mapper on a tree.

        Raises:
            ModelError: If the model of a similarity cannot be loaded.
        """
        from taxtune.mapping import Mapper

        return Mapper(taxonomy, self.similarity, self.mapper_config(), device=self.device, cache_dir=self.cache_dir)


@dataclass(frozen=True, kw_only=True)
class AnswerSettings(Settings):
    """A study of files of answers with their targets; `taxtune.answers.AnswerSchema` says what each choice means."""

    where: Annotated[Mapping[str, str], WhereOption] = field(default_factory=dict)
    guesses: Annotated[Literal["first", "join"], GuessesOption] = "first"
    answer_column: Annotated[str, AnswerColumnOption, Recorded("columns.answer")] = "answer"
    truth_column: Annotated[str, TruthColumnOption, Recorded("columns.truth")] = "truth"
    id_column: Annotated[str, IdColumnOption, Recorded("columns.id")] = "id"
    off_tree: Annotated[Literal["error", "leave-out"], OffTreeOption] = "error"
    missing: Annotated[Literal["keep", "error", "leave-out"], MissingKeptOption] = "keep"

    def read_answers(
        self, path: str | Path, taxonomy: Taxonomy | None, part: Domain | None = None, by: Sequence[str] = ()
    ) -> AnswerTable:
        """Returns the rows of a file.

        Args:
            path: The file.
            taxonomy: The tree that the targets are on; None where they are texts, the references of the rows.
            part: What it is a part of; None where it is the whole.
            by: Columns that tell several models or prompts in the file apart.

        Raises:
            DataError: If the file cannot be used.
        """
        from taxtune.answers import AnswerSchema, read_answers

        schema = AnswerSchema(
            answer=self.answer_column,
            truth=self.truth_column,
            reference=self.truth_column if taxonomy is None else None,
            id=self.id_column,
            where=self.where,
            by=by,
            guesses=self.guesses,
            off_tree=self.off_tree,
            missing=self.missing,
            taxonomy=taxonomy,
            part=part,
        )
        return read_answers(path, schema)


@dataclass(frozen=True, kw_only=True)
class ContestantSettings(AnswerSettings):
    """A study that compares models or prompts: several files, or one file parted by a column or by its guesses."""

    guesses: Annotated[Literal["first", "join"], OtherGuessesOption] = "first"
    rows: Annotated[Literal["error", "common"], RowsOption] = "error"


def needs_of(measure: str | Measure) -> tuple[str, ...]:
    """Returns what a measure scores with besides texts: "image", "question", none or both.

    Args:
        measure: The measure, or its specification, of which no model is loaded.

    Raises:
        DataError: If there is no such measure.
    """
    from taxtune.metrics.registry import split_spec

    if isinstance(measure, str):
        return split_spec(measure)[0].needs
    needs = {"image": measure.needs_images, "question": measure.needs_questions}
    return tuple(what for what, needed in needs.items() if needed)
