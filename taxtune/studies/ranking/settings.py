"""Settings of the study ranking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from typer import Argument, Option

from taxtune.errors import DataError
from taxtune.options import SeedOption, measure_option, taxonomy_option
from taxtune.studies.settings import NOT_RECORDED, ContestantSettings, MapperSettings, TextMeasureSettings, TreeSettings

__all__ = ["RankingSettings"]

_DEFAULT = ("exact-match", "contained", "rouge-1", "meteor")


@dataclass(frozen=True, kw_only=True)
class RankingSettings(TextMeasureSettings, MapperSettings, ContestantSettings, TreeSettings):
    """The models and measures: see `taxtune study ranking --help`.

    Raises:
        DataError: If there is neither a taxonomy nor a table of scores, or both.
    """

    files: Annotated[
        tuple[str, ...],
        Argument(metavar="MODEL=FILE...", help="Files with the columns answer and truth, one per model."),
    ] = ()
    taxonomy: Annotated[Any, taxonomy_option("Needed unless --scores is given.")] = None
    measure: Annotated[tuple[Any, ...], measure_option(f"Default: {', '.join(_DEFAULT)}."), NOT_RECORDED] = _DEFAULT
    by: Annotated[str | None, Option(metavar="COLUMN", help="Column that splits the file into models.")] = None
    guess: Annotated[
        tuple[str, ...], Option(help="For lists of guesses: 1, 2, top-3 or all, each ranked as a model; repeatable.")
    ] = ()
    group: Annotated[
        Mapping[str, str],
        Option(
            metavar="NAME=DATASET,...", help="Average over data sets, each with files MODEL:DATASET=FILE; repeatable."
        ),
        NOT_RECORDED,
    ] = field(default_factory=dict)
    dataset_column: Annotated[
        str | None, Option(metavar="COLUMN", help="With --group: column with the data set."), NOT_RECORDED
    ] = None
    tree: Annotated[
        Mapping[str, str], Option(metavar="DATASET=TREE", help="With --group: the tree of a data set."), NOT_RECORDED
    ] = field(default_factory=dict)
    unit: Annotated[
        Literal["example", "target"], Option(help="Compare by example or, if the images differ, by target.")
    ] = "example"
    scores: Annotated[
        str | None,
        Option(
            metavar="TABLE",
            help="Instead of files: a CSV with model and one column per measure, or paper1-table4, paper1-table5 or "
            "paper2-main; TABLE-exchanged reads hP and hR exchanged.",
        ),
        NOT_RECORDED,
    ] = None
    resamples: Annotated[int, Option(min=1, max=100_000, help="Bootstrap resamples of the ranks.")] = 2000
    seed: SeedOption = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scores is None:
            if self.group:
                if self.root is not None:
                    raise DataError("--root is of one tree, --group of several.", value=self.root)
            elif self.tree or self.dataset_column:
                raise DataError("--tree and --dataset-column need --group.", value=self.dataset_column or self.tree)
            elif self.taxonomy is None:
                raise DataError("No taxonomy was given.", remedy="Give one with --taxonomy.")
            return
        measure = self.measure if self.measure != _DEFAULT else None
        given = (self.files, self.taxonomy, self.root, measure, self.by, self.guess, self.where)
        if other := next(filter(None, (*given, self.group, self.dataset_column, self.tree)), None):
            remedy = "Remove the other options."
            raise DataError("--scores ranks only the models of a table.", value=other, remedy=remedy)

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """The data sets of each group; none where all answers are of one.

        Raises:
            DataError: If a group has none, or one twice.
        """
        groups = {name: tuple(map(str.strip, members.split(","))) for name, members in self.group.items()}
        for name, members in groups.items():
            if not all(members) or len(set(members)) < len(members):
                raise DataError("--group takes NAME=DATASET,DATASET,...", value=f"{name}={self.group[name]}")
        return groups
