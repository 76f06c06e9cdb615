"""The settings of the studies: one declaration for the command line, study.json and Python.

A study's settings derive from `StudySettings`. The annotation of a field holds its type and, with `typer.Option` or
`typer.Argument`, its names on the command line, its help and its range. `taxtune.cli.study` makes the command from
these fields, and a value is checked in the same way whether it comes from there or from Python.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Self,
    Union,
    get_args,
    get_origin,
)

import typer
from pydantic import ValidationError, ValidationInfo, field_validator, model_validator
from pydantic.fields import FieldInfo
from typer.models import ArgumentInfo, OptionInfo

from taxtune import options
from taxtune.atomic import check_folder
from taxtune.errors import DataError
from taxtune.settings import Settings

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
    "ModelSettings",
    "PlacingSettings",
    "Recorded",
    "StudySettings",
    "TextMeasureSettings",
    "TreeSettings",
    "bare_type",
    "check_inputs",
    "check_once",
    "check_written",
    "field_info",
]


class Recorded(NamedTuple):
    """The key of a field in the record where it is not its name; None leaves it out."""

    key: str | None


#: Marks a field that changes no result, such as the device, or that the report states elsewhere.
NOT_RECORDED = Recorded(None)


def _marks(field: FieldInfo) -> list[Any]:
    """Returns the metadata of a field's annotation."""
    marks: list[Any] = []
    for item in field.metadata:
        # A type may be narrowed beside the option that several share: Annotated[Literal["error"], OffTreeOption].
        marks += getattr(item, "__metadata__", [item])
    return marks


def field_info(field: FieldInfo) -> OptionInfo | ArgumentInfo:
    """Returns the option or the argument of the command line that sets a field."""
    return next(mark for mark in _marks(field) if isinstance(mark, OptionInfo | ArgumentInfo))


def bare_type(field: FieldInfo) -> Any:
    """Returns the type of a field; of one that may be None the other type."""
    if get_origin(field.annotation) not in (Union, types.UnionType):
        return field.annotation
    return next(part for part in get_args(field.annotation) if part is not types.NoneType)


class StudySettings(Settings):
    """The settings of a study.

    Raises:
        DataError: If a value is not one of the allowed ones, or out of range.
    """

    #: Whether the report's JSON has a record per answer, which the help of --json says.
    rows_in_json: ClassVar[bool] = False

    @classmethod
    def ordered_fields(cls) -> dict[str, FieldInfo]:
        """Returns the fields by name: required ones first, then the class's own, then inherited ones."""
        own = inspect.get_annotations(cls)
        order = sorted(
            cls.model_fields,
            key=lambda name: (not cls.model_fields[name].is_required(), name not in own),
        )
        return {name: cls.model_fields[name] for name in order}

    @classmethod
    def option(cls, name: str) -> str:
        """Returns the name of a field on the command line."""
        info = field_info(cls.model_fields[name])
        if isinstance(info, ArgumentInfo):
            return str(info.metavar or name.upper())
        for declared in info.param_decls or ():
            if declared.startswith("--"):
                return str(declared.partition("/")[0])
        return f"--{name.replace('_', '-')}"

    @model_validator(mode="wrap")
    @classmethod
    def _explained(cls, values: Any, validate: Any) -> Any:
        try:
            return validate(values)
        except ValidationError as error:
            problem = error.errors()[0]
            name = str(problem["loc"][0])
            option = cls.option(name) if name in cls.model_fields else name
            raise DataError(f"{option}: {problem['msg']}.", value=problem["input"]) from None

    @field_validator("*", mode="before")
    @classmethod
    def _read(cls, value: Any, info: ValidationInfo) -> Any:
        """Returns a value in the form of its type; raises a DataError if it is not allowed or out of range."""
        name = str(info.field_name)
        field, option = cls.model_fields[name], cls.option(name)
        kind = bare_type(field)
        origin = get_origin(kind)
        if value is None:
            return None
        if origin is tuple:
            repeats = isinstance(value, Iterable) and not isinstance(value, str | Path)
            return tuple(value) if repeats else (value,)
        if origin is Literal:
            return options.choice(value, get_args(kind), option)
        if origin is Mapping:
            return value if isinstance(value, Mapping) else options.pairs(value, option)
        declared = field_info(field)
        if declared.min is not None and not value >= declared.min:
            raise DataError(f"{option} must be at least {declared.min}.", value=value)
        if declared.max is not None and not value <= declared.max:
            raise DataError(f"{option} must be at most {declared.max}.", value=value)
        return value

    def record(self) -> dict[str, Any]:
        """Returns the fields as the report records them."""
        recorded = {}
        for name, field in type(self).ordered_fields().items():
            keys = [mark.key for mark in _marks(field) if isinstance(mark, Recorded)]
            key = keys[0] if keys else name
            if key is not None:
                recorded[key] = getattr(self, name)
        return recorded


BatchSize = Annotated[options.BatchSizeOption, NOT_RECORDED]


class TreeSettings(StudySettings):
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


class ModelSettings(StudySettings):
    """A study with models on this machine."""

    device: Annotated[options.DeviceOption, NOT_RECORDED] = "auto"
    cache_dir: Annotated[options.CacheDirOption, NOT_RECORDED] = None

    def measure_settings(self) -> MeasureSettings:
        """The settings that all measures share."""
        from taxtune.metrics.registry import MeasureSettings

        names = {"device", "batch_size", "cache_dir", "api_base", "concurrency"}
        return MeasureSettings(**self.model_dump(include=names))

    def measures(self, specs: Iterable[str | Measure]) -> list[Measure]:
        """Returns the measures of specifications, each once; a measure is returned as it is."""
        from taxtune.metrics.registry import make_measure

        settings = self.measure_settings()
        measures = []
        for spec in dict.fromkeys(specs):
            measures.append(make_measure(spec, settings) if isinstance(spec, str) else spec)
        return measures


class ApiSettings(ModelSettings):
    """A study with language models as judges, which may be behind an API."""

    api_base: Annotated[options.ApiBaseOption, NOT_RECORDED] = None
    concurrency: Annotated[options.ConcurrencyOption, NOT_RECORDED] = 8


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


class PlacingSettings(ModelSettings):
    """A study that places answers with taxtune's mapper, whose identity stands in the record."""

    similarity: Annotated[options.SimilarityOption, NOT_RECORDED] = "lexical"
    preset: Annotated[options.PresetOption, NOT_RECORDED] = "default"
    off_tree_as: Annotated[options.OffTreeAsOption, NOT_RECORDED] = "child"

    @model_validator(mode="after")
    def _has_a_mapper(self) -> Self:
        self.mapper_config()
        return self

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


class AnswerSettings(StudySettings):
    """A study of files of answers with their targets; `taxtune.answers.AnswerSchema` documents the choices."""

    where: Annotated[Mapping[str, str], options.WhereOption] = {}
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

        schema = AnswerSchema(
            answer=self.answer_column,
            truth=self.truth_column,
            id=self.id_column,
            where=self.where,
            guesses=self.guesses,
            off_tree=self.off_tree,
            missing=self.missing,
            by=by,
            taxonomy=taxonomy,
            part=part,
        )
        return read_answers(path, schema)


class ContestantSettings(TextMeasureSettings, PlacingSettings, AnswerSettings, TreeSettings):
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
