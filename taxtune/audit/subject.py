"""What is audited: the answers of a file, or those of a run where the run placed them or where another tree does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from taxtune.answers import AnswerSchema, read_answers
from taxtune.answers.runs import RunRows, heldout_rows, read_run_rows, split_run
from taxtune.audit.population import Item, Population, digest, place_answers
from taxtune.audit.result import AuditFiles
from taxtune.errors import DataError, TaxtuneError
from taxtune.progress import note
from taxtune.taxonomy import Taxonomy
from taxtune.taxonomy.domain import read_part

if TYPE_CHECKING:
    from taxtune.mapping import Mapper

__all__ = [
    "MakeMapper",
    "Placing",
    "Subject",
    "read_subject",
    "recorded_population",
    "refresh_run_report",
    "run_settings",
]

Note = Callable[[str], None]


class MakeMapper(Protocol):
    """Makes the mapper for a tree."""

    def __call__(self, tree: Taxonomy, cache_dir: Path | None = None) -> Mapper:
        """Returns the mapper."""
        ...


@dataclass(frozen=True, slots=True)
class Placing:
    """Where and how answers are placed, as a user says it; what is None is as in the run, or the default.

    Attributes:
        taxonomy: The taxonomy file, or a built-in one.
        format: Its format.
        root_label: What its root is called where one is added.
        root: The node below which to place.
        similarity: The mapper's similarity.
        preset: The mapper's preset.
    """

    taxonomy: str | None = None
    format: str = "auto"
    root_label: str | None = None
    root: str | None = None
    similarity: str | None = None
    preset: str | None = None

    def tree(self, *, names: bool = True) -> Taxonomy:
        """Returns the tree, with or without English names."""
        assert self.taxonomy is not None
        tree, _ = read_part(self.taxonomy, self.format, self.root, names=names, root_label=self.root_label)
        return tree


@dataclass(frozen=True, slots=True)
class Subject:
    """What is audited, and with which mapper.

    Attributes:
        population: The answers as they were placed.
        files: Where the audit's files go unless somebody says otherwise.
        make: Makes the mapper for a tree; None where placing takes images.
    """

    population: Population
    files: AuditFiles
    make: MakeMapper | None

    def with_evidence(self, drawn: Sequence[int]) -> Population:
        """Returns the population with what part of the answer decided of the drawn items, which runs do not record."""
        items = list(self.population.items)
        without = [i for i in drawn if not items[i].evidence]
        if self.make is None or len(without) < len(drawn):
            return self.population
        placements = self.make(self.population.tree).place([items[i].answer for i in without])
        for i, placed in zip(without, placements, strict=True):
            if placed.node == items[i].node:  # where it is another by now, its evidence is that of the other
                items[i] = replace(items[i], evidence=placed.evidence)
        return replace(self.population, items=tuple(items))


def read_subject(source: str, placing: Placing, *, evaluation: str | None = None, input: str = "auto") -> Subject:
    """Returns what a user names: the answers of a file, placed on a tree; or of a run, as it placed them, or anew.

    Args:
        source: A file, or RUN, RUN:baseline, RUN:N.
        placing: The tree and the mapper, where they are not the run's.
        evaluation: Which answers of a run, in place of what stands behind the colon.
        input: A file's format, see `taxtune.answers.FORMATS`.

    Raises:
        DataError: If there is no such file or run, it has no answers, there is no tree or another one than the run's,
            or answers of a mapper that looks at images would have to be placed again.
    """
    run = split_run(source)
    if run is None:
        if evaluation is not None and Path(source).exists():
            raise DataError("Only runs have evaluations.", value=evaluation, remedy="Remove --evaluation.")
        return _of_file(Path(source), placing, input)
    folder, named = run
    if evaluation is not None and named is not None:
        raise DataError("The run and --evaluation both name an evaluation.", value=named, remedy="Remove one.")
    return _of_run(folder, evaluation or named, placing)


def _of_file(source: Path, placing: Placing, input: str) -> Subject:
    if not source.exists():
        raise DataError("There is no such run or file of answers.", file=source, remedy="Check the path.")
    if placing.taxonomy is None:
        raise DataError(
            "A file of answers needs a taxonomy to place them on.", file=source, remedy="Give it with -t TREE."
        )
    make, _ = _mapper(None, placing)
    read = read_answers(source, AnswerSchema(id=None, missing="keep", format=input))
    if not read.rows:
        raise DataError("The file contains no answers.", file=source)
    for text in read.notes:
        note(text)
    population = place_answers(source.name, [row.answer or "" for row in read.rows], make(placing.tree()))
    return Subject(population, AuditFiles(source.with_name(f"{source.stem}-audit")), make)


def _of_run(folder: Path, evaluation: str | None, placing: Placing) -> Subject:
    run = read_run_rows(folder, evaluation)
    answered = [row for row in run.rows if row["answer"] is not None]
    settings = run_settings(folder)
    name = f"{folder.name or folder.resolve().name}, {run.evaluation}, {run.split}"
    default = evaluation is None or run.evaluation == "winner"
    files = AuditFiles(folder, "audit" if default else f"audit-{run.evaluation.replace(' ', '-')}")
    make, looks = _mapper(settings, placing)
    anew = (placing.taxonomy, placing.similarity, placing.preset) != (None, None, None)
    if anew and looks:
        raise DataError(
            "The run's mapper uses the images, so its answers cannot be placed again without them.",
            file=folder,
            remedy="Remove --taxonomy to audit the recorded placements, or choose another --similarity.",
        )
    names = bool(settings.get("recipe.taxonomy.english_names", True))
    tree = _with_run_tree(settings, placing, folder).tree(names=names)
    if not anew:
        return Subject(recorded_population(run, name, tree, _part(settings, "mapper.")), files, None if looks else make)
    population = place_answers(
        name, [row["answer"] for row in answered], make(tree), unanswered=len(run.rows) - len(answered)
    )
    before = {row["answer"]: row["placement"] for row in answered}
    moved = sum(item.count for item in population.items if population.path(item) != before[item.answer])
    if moved:
        note(
            f"{moved:,} of {population.answers:,} answers are placed otherwise than in the run; what is audited is how "
            "they are placed now, and not the run"
        )
    return Subject(population, files, make)


def recorded_population(run: RunRows, name: str, tree: Taxonomy, mapper: Mapping[str, Any]) -> Population:
    """Returns the answers of a run as it placed them.

    Args:
        run: Its rows.
        name: What they are called in messages.
        tree: The run's tree.
        mapper: The run's mapper's identity.

    Raises:
        DataError: If the tree is another one than the run's.
    """
    counts = Counter(
        (row["answer"], row["node"], row["placement"], row["stage"]) for row in run.rows if row["answer"] is not None
    )
    items = []
    for (answer, node, path, stage), count in counts.items():
        if not 0 <= node < len(tree) or "/".join(tree.path(node)) != path:
            raise DataError(
                "This is not the taxonomy that the run's answers were placed on.",
                file=run.file,
                value=path,
                remedy="To place the answers again on this taxonomy, give it with --taxonomy.",
            )
        items.append(Item(answer, count, node, stage))
    return Population(name, tree, tuple(items), mapper, len(run.rows) - counts.total())


def run_settings(folder: Path) -> Mapping[str, Any]:
    """Returns what a run was made from, see `history.read_attributes`; of a comparison, that of its first run.

    Empty where the history is gone.

    Raises:
        TaxtuneError: If the history cannot be read.
    """
    from taxtune.tuning.history import read_attributes

    folders = (folder, *sorted(path for path in folder.glob("*") if path.is_dir()))
    return next((found for found in map(read_attributes, folders) if found), {})


def refresh_run_report(run: Path, folder: Path) -> None:
    """Writes a run's report anew, where an audit was written to the run's folder."""
    from taxtune.report.audited import refresh_report

    if run.resolve() != folder.resolve() or not (run / "result.json").exists():
        return
    with suppress(TaxtuneError, KeyError, TypeError):  # the audit stands, whatever is the matter with the report
        held = {
            digest((r["answer"], r["placement"], r["stage"], 1) for r in rows if r["answer"] is not None): name
            for name, rows in heldout_rows(run / "result.json")
        }
        refresh_report(run, held)


def _part(settings: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {key.removeprefix(prefix): value for key, value in settings.items() if key.startswith(prefix)}


def _with_run_tree(settings: Mapping[str, Any], placing: Placing, folder: Path) -> Placing:
    """Returns where the run's taxonomy is, as far as the command does not say."""
    of_run = _part(settings, "recipe.taxonomy.")
    placing = replace(
        placing,
        root=placing.root or of_run.get("root"),
        root_label=placing.root_label or of_run.get("root_label"),
    )
    if placing.taxonomy is not None:
        return placing
    for path in (settings.get("note:taxonomy"), of_run.get("path")):
        # Runs from before the note was taken have their recipe's word, which may start at the recipe's folder.
        if path is not None and (str(path).startswith("builtin:") or Path(path).exists()):
            return replace(placing, taxonomy=str(path), format=of_run.get("format", placing.format))
    raise DataError(
        "The run's taxonomy has been moved, or the run does not record where it was.",
        file=folder,
        value=settings.get("note:taxonomy") or of_run.get("path"),
        remedy="Give it with -t TREE.",
    )


def _mapper(settings: Mapping[str, Any] | None, placing: Placing) -> tuple[MakeMapper, bool]:
    """Returns what makes the mapper, and whether it looks at images; the settings are a run's, or None for a file."""
    from taxtune.mapping import Mapper, MapperConfig

    # What identifies a mapper is all that can change its placements.
    values = _part(settings or {}, "mapper.")
    recorded = str(values.pop("similarity", "lexical"))
    spec = placing.similarity or recorded
    if placing.preset is not None:
        values["preset"] = placing.preset
    unknown = values.keys() - {field.name for field in fields(MapperConfig)}
    if unknown:
        raise DataError(
            "The run's mapper has settings unknown to this version of taxtune.",
            value=sorted(unknown),
            remedy="Audit it with the version of taxtune that made it.",
        )
    if settings is not None:  # the identity says which WordNet was used, the settings whether one is
        values["wordnet"] = bool(values.get("wordnet"))
    config = MapperConfig(**values)

    def make(tree: Taxonomy, cache_dir: Path | None = None) -> Mapper:
        return Mapper(tree, spec, config, cache_dir=cache_dir)

    return make, spec.startswith("clip-i2t:")
