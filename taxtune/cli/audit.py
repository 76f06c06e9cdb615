"""`taxtune audit`: how many answers the mapper places right, judged by you or by a chat model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from taxtune.cli.answers import InputOption, read_answers
from taxtune.cli.interrupts import interrupts, keep_replies, keep_work
from taxtune.cli.options import (
    ApiBaseOption,
    BatchSizeOption,
    CacheDirOption,
    ConcurrencyOption,
    DeviceOption,
    FormatOption,
    JsonOption,
    RootLabelOption,
    note,
)
from taxtune.errors import DataError, TaxtuneError

if TYPE_CHECKING:
    from rich.console import Console

    from taxtune.audit.mending import Alias
    from taxtune.audit.population import Item, Population
    from taxtune.audit.result import Audited, AuditFiles
    from taxtune.audit.runs import RunAnswers
    from taxtune.audit.verdicts import Finding, VerdictLog
    from taxtune.mapping import Mapper
    from taxtune.metrics.judging import Judge
    from taxtune.models import Model
    from taxtune.taxonomy import Taxonomy

__all__ = ["audit"]

_RUNS = "the run's"


class _MakeMapper(Protocol):
    def __call__(self, tree: Taxonomy, cache_dir: Path | None = None) -> Mapper:
        """Returns the mapper for a tree."""
        ...


@dataclass(frozen=True, slots=True)
class _Subject:
    """What is audited, and with which mapper.

    `make` returns the mapper for a tree; None where placing takes images, or the run does not say which it was.
    """

    population: Population
    files: AuditFiles
    make: _MakeMapper | None
    run: RunAnswers | None = None


def audit(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="RUN|FILE", help="A run's folder, or a file of answers: text, CSV or JSONL as place takes them."
        ),
    ],
    taxonomy: Annotated[
        str | None,
        typer.Option(
            "--taxonomy",
            "-t",
            metavar="TREE",
            show_default=_RUNS,
            help="The taxonomy file, or builtin:fieldguide. With a run, its answers are placed on it anew.",
        ),
    ] = None,
    n: Annotated[int, typer.Option("--n", min=1, help="Distinct answers to draw and judge.")] = 60,
    evaluation: Annotated[
        str | None,
        typer.Option(
            "--evaluation",
            metavar="WHICH",
            show_default="winner",
            help="Of a run: winner, baseline or an objective on the held-out images, or an iteration's number.",
        ),
    ] = None,
    llm: Annotated[
        str | None,
        typer.Option("--llm", metavar="MODEL", help="Have a chat model judge: PROVIDER/MODEL or local:MODEL."),
    ] = None,
    similarity: Annotated[
        str | None,
        typer.Option(
            "--similarity",
            metavar="SPEC",
            show_default=f"{_RUNS}, or lexical",
            help="The mapper's similarity: lexical, sentence:MODEL or clip:MODEL.",
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            "--preset",
            metavar="NAME",
            show_default=f"{_RUNS}, or default",
            help="The mapper's settings: default or paper-listing.",
        ),
    ] = None,
    input: InputOption = "auto",
    format: FormatOption = "auto",
    root_label: RootLabelOption = None,
    root: Annotated[
        str | None,
        typer.Option(
            "--root", metavar="NODE", help="Place on the part of the taxonomy below this node (a label or path)."
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the draw.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FOLDER",
            show_default="the run's folder, or FILE-audit",
            help="Where verdicts and results are kept.",
        ),
    ] = None,
    as_json: JsonOption = False,
    api_base: ApiBaseOption = None,
    concurrency: ConcurrencyOption = 8,
    device: DeviceOption = "auto",
    batch_size: BatchSizeOption = 8,
    cache_dir: CacheDirOption = None,
) -> None:
    """Say how far the mapper can be trusted here: judge a drawn sample of its placements, or have it judged.

    A sample is drawn by stage and depth. Each answer is shown with the node that it was placed on,
    and a key says whether that is right; what was judged is kept at once, and the same command goes
    on. The result is the share of all answers that are placed right, with its interval, the aliases
    that would mend others, and a file of placed answers for `taxtune study mapping`.
    """
    from taxtune.atomic import make_folder
    from taxtune.audit.result import Audited, draw_sample, make_report, write_placed, write_result
    from taxtune.studies.output import publish

    model = None if llm is None else _model(llm, api_base, concurrency, device, batch_size)
    tree_options = _TreeOptions(taxonomy, format, root_label, root)
    mapper_options = (similarity, preset)
    if source.is_dir():
        subject = _of_run(source, evaluation, tree_options, mapper_options)
    else:
        subject = _of_file(source, evaluation, tree_options, mapper_options, input)
    files = replace(
        subject.files,
        folder=subject.files.folder if out is None else out,
        stem=subject.files.stem + ("" if llm is None else "-llm"),
    )
    population = subject.population
    sample = draw_sample(population, n, seed, files.result)
    if n > len(population.items):
        note(f"there are only {len(population.items):,} distinct answers; all of them are judged")
    population = _with_evidence(population, [unit.item for unit in sample], subject.make)
    items = [population.items[unit.item] for unit in sample]

    def audited(findings: Sequence[Finding | None], judge: str, **more: Any) -> Audited:
        return Audited(population, sample, findings, judge, n, seed, **more)

    def finish(result: Audited) -> None:
        write_result(files, result, make_report(result))
        write_placed(files, result)
        if subject.run is not None:
            _refresh(source, files.folder)

    if model is not None:
        make_folder(files.folder)
        result, finished = _judged_by_model(population, items, model, cache_dir, audited), True
        result = replace(result, notes=[*result.notes, *_agreement(result, files)])
        finish(result)
    else:
        result, finished = _judged_by_person(population, items, files, audited, finish)
    taken = _aliases(subject.make, result, files, ask=model is None) if finished else 0
    publish(make_report(result), out=None, as_json=as_json)
    _say_where(files, result, finished=finished, taken=taken)


# -- what is audited ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _TreeOptions:
    path: str | None
    format: str
    root_label: str | None
    root: str | None


def _of_file(
    source: Path,
    evaluation: str | None,
    tree_options: _TreeOptions,
    mapper_options: tuple[str | None, str | None],
    input: str,
) -> _Subject:
    from taxtune.audit.population import place_answers
    from taxtune.audit.result import AuditFiles
    from taxtune.mapping import Mapper, MapperConfig

    if not source.exists():
        raise DataError("There is no such run or file of answers.", file=source, remedy="Check the path.")
    if evaluation is not None:
        raise DataError("Only a run has evaluations.", value=evaluation, remedy="Leave --evaluation out.")
    if tree_options.path is None:
        raise DataError(
            "A file of answers needs the taxonomy to place them on.", file=source, remedy="Name it: -t TREE."
        )
    similarity, preset = (mapper_options[0] or "lexical", mapper_options[1] or "default")
    config = MapperConfig(preset=preset)
    answers = read_answers(str(source), input)
    if not answers:
        raise DataError("The file holds no answers.", file=source)
    tree = _read_tree(tree_options)
    keep_work([similarity])

    def make(tree: Taxonomy, cache_dir: Path | None = None) -> Mapper:
        return Mapper(tree, similarity, config, cache_dir=cache_dir)

    population = place_answers(source.name, answers, make(tree))
    return _Subject(population, AuditFiles(source.with_name(f"{source.stem}-audit")), make)


def _of_run(
    folder: Path,
    evaluation: str | None,
    tree_options: _TreeOptions,
    mapper_options: tuple[str | None, str | None],
) -> _Subject:
    from taxtune.audit.population import place_answers
    from taxtune.audit.result import AuditFiles
    from taxtune.audit.runs import read_run_answers, run_settings

    run = read_run_answers(folder, evaluation)
    settings = run_settings(folder)
    name = f"{folder.name or folder.resolve().name}, {run.evaluation}, {run.split}"
    default = evaluation is None or run.evaluation == "winner"
    files = AuditFiles(folder, "audit" if default else f"audit-{run.evaluation.replace(' ', '-')}")
    make, looks = _run_mapper(settings, mapper_options)
    if tree_options.path is None and mapper_options == (None, None):
        tree = _read_tree(_run_tree(settings, tree_options, folder), names=_english_names(settings))
        identity = {k.removeprefix("mapper."): v for k, v in settings.items() if k.startswith("mapper.")}
        return _Subject(run.population(name, tree, identity), files, None if looks else make, run)
    if looks:
        raise DataError(
            "The run's mapper looks at the images, so that its answers cannot be placed anew without them.",
            file=folder,
            remedy="Leave --taxonomy out to audit the placements on record, or name another --similarity.",
        )
    tree = _read_tree(_run_tree(settings, tree_options, folder), names=_english_names(settings))
    keep_work([mapper_options[0]])
    population = place_answers(name, run.answers, make(tree), unanswered=run.unanswered)
    before = {answer: path for answer, _, path, _ in run.rows}
    moved = sum(item.count for item in population.items if population.path(item) != before[item.answer])
    if moved:
        note(
            f"{moved:,} of {population.answers:,} answers are placed otherwise than in the run; what is audited is how "
            "they are placed now, and not the run"
        )
    return _Subject(population, files, make, run)


def _run_tree(settings: Mapping[str, Any], given: _TreeOptions, folder: Path) -> _TreeOptions:
    """Returns where the run's taxonomy is, as far as the command does not say."""
    of_run = {key.removeprefix("recipe.taxonomy."): v for key, v in settings.items() if "recipe.taxonomy." in key}
    root = given.root or of_run.get("root")
    if given.path is not None:
        return replace(given, root=root, root_label=given.root_label or of_run.get("root_label"))
    for path in (settings.get("note:taxonomy"), of_run.get("path")):
        # Runs from before the note was taken have their recipe's word, which may start at the recipe's folder.
        if path is not None and (str(path).startswith("builtin:") or Path(path).exists()):
            label = given.root_label or of_run.get("root_label")
            return _TreeOptions(str(path), of_run.get("format", given.format), label, root)
    raise DataError(
        "The run's taxonomy is not where it was, or the run does not say where.",
        file=folder,
        value=settings.get("note:taxonomy") or of_run.get("path"),
        remedy="Name it: -t TREE.",
    )


def _english_names(settings: Mapping[str, Any]) -> bool:
    return bool(settings.get("recipe.taxonomy.english_names", True))


def _run_mapper(settings: Mapping[str, Any], given: tuple[str | None, str | None]) -> tuple[_MakeMapper, bool]:
    """Returns what makes the run's mapper, with what the command says otherwise, and whether it looks at images."""
    from dataclasses import fields

    from taxtune.mapping import Mapper, MapperConfig

    # What identifies a mapper is all that can change its placements.
    values = {key.removeprefix("mapper."): value for key, value in settings.items() if key.startswith("mapper.")}
    similarity = given[0] or str(values.pop("similarity", "lexical"))
    values.pop("similarity", None)
    if given[1] is not None:
        values["preset"] = given[1]
    unknown = values.keys() - {field.name for field in fields(MapperConfig)}
    if unknown:
        raise DataError(
            "The run's mapper has settings that this version of taxtune does not know.",
            value=sorted(unknown),
            remedy="Audit it with the version that it was made with.",
        )
    # The identity says which WordNet was used, the settings whether one is.
    config = MapperConfig(**{**values, "wordnet": bool(values.get("wordnet"))})

    def make(tree: Taxonomy, cache_dir: Path | None = None) -> Mapper:
        return Mapper(tree, similarity, config, cache_dir=cache_dir)

    return make, similarity.startswith("clip-i2t:")


def _read_tree(options: _TreeOptions, *, names: bool = True) -> Taxonomy:
    from taxtune.taxonomy import read_taxonomy, restrict

    assert options.path is not None
    tree = read_taxonomy(options.path, format=options.format, names=names, root_label=options.root_label, on_note=note)
    return tree if options.root is None else restrict(tree, options.root).tree


def _with_evidence(population: Population, drawn: Sequence[int], make: _MakeMapper | None) -> Population:
    """Adds to the drawn placements of a run, which records none, what part of the answer decided."""
    without = [i for i in drawn if not population.items[i].evidence]
    if make is None or len(without) < len(drawn):
        return population
    items = list(population.items)
    for i, placed in zip(without, make(population.tree).place([items[i].answer for i in without]), strict=True):
        if placed.node == items[i].node:  # where it is another by now, its evidence is that of the other
            items[i] = replace(items[i], evidence=placed.evidence)
    return replace(population, items=tuple(items))


# -- judging -----------------------------------------------------------------------------------------------------------


def _model(name: str, api_base: str | None, concurrency: int, device: str, batch_size: int) -> Model:
    from taxtune.audit.llm import MAX_TOKENS
    from taxtune.models import ModelSettings, check_model, make_model

    settings = ModelSettings(
        task="text-generation",
        max_tokens=MAX_TOKENS,
        api_base=api_base,
        concurrency=concurrency,
        device=device,
        batch_size=batch_size,
        on_note=note,
    )
    model = make_model(name, settings)
    for text in check_model(model):
        note(text)
    return model


def _judged_by_model(
    population: Population,
    items: Sequence[Item],
    model: Model,
    cache_dir: Path | None,
    audited: Callable[..., Audited],
) -> Audited:
    from taxtune.audit.llm import judge_placements
    from taxtune.metrics.judging import Judge
    from taxtune.studies.progress import progress

    keep_replies()
    with progress(len(items), "placements") as advance:
        done = 0

        def show(so_far: int, _: int) -> None:
            nonlocal done
            advance(so_far - done)
            done = so_far

        judge: Judge = Judge(model, cache_dir=cache_dir, on_progress=show)
        said = judge_placements(population, items, judge)
    replies = said.replies
    notes = list(judge.notes("holds no verdict"))
    if said.unusable:
        notes.append(
            f"{said.unusable:,} replies name a node that the tree does not have or that contradicts their verdict; the "
            "verdict counts, the node does not."
        )
    account = {
        "unread": replies.unread,
        "failed": replies.failed,
        "not_asked": sum(replies.not_asked.values()),
        "from_store": replies.from_store,
        "unusable_nodes": said.unusable,
        "prompt_tokens": replies.prompt_tokens,
        "completion_tokens": replies.completion_tokens,
        "cost_usd": replies.cost_usd,
        "identity": dict(model.identity),
    }
    return audited(said.findings, str(model.identity["model"]), notes=notes, account=account)


def _agreement(result: Audited, files: AuditFiles) -> list[str]:
    """Returns how far a model's verdicts are those of a person, where one judged the same placements."""
    from taxtune.audit.verdicts import VerdictLog

    log = VerdictLog(files.verdicts)
    pairs = [(finding, log.find(result.population, item)) for item, finding in result.judged]
    agree = [model.verdict is person.verdict for model, person in pairs if person is not None]
    if not agree:
        return []
    return [f"Of {len(agree):,} placements that a person has judged, too, the model agrees on {sum(agree):,}."]


def _console() -> Console:
    # On standard error, so that what the command prints can go to a file all the same.
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def _judged_by_person(
    population: Population,
    items: Sequence[Item],
    files: AuditFiles,
    audited: Callable[..., Audited],
    finish: Callable[[Audited], None],
) -> tuple[Audited, bool]:
    """Asks the user about what has no verdict yet; returns the audit, and whether they came to the end."""
    from taxtune.atomic import make_folder
    from taxtune.audit.terminal import Reviewer, terminal_keys
    from taxtune.audit.verdicts import VerdictLog

    log = VerdictLog(files.verdicts)
    interrupts.kept = f"verdicts so far are kept in {files.verdicts}; the same command goes on from there."
    _say_what_changed(population, items, log)

    def so_far() -> Audited:
        return audited([log.find(population, item) for item in items], "a person")

    if len(so_far().judged) == len(items):
        make_folder(files.folder)
        finish(so_far())
        return so_far(), True
    with terminal_keys() as keys:
        make_folder(files.folder)
        try:
            finished = Reviewer(population, log, _console(), keys).ask(items)
        except KeyboardInterrupt:
            interrupts.heard()
            raise
        finally:  # after Ctrl-C, too: what was said until then counts
            finish(so_far())
    return so_far(), finished


def _say_what_changed(population: Population, items: Sequence[Item], log: VerdictLog) -> None:
    changed = sum(log.find(population, item) is None and log.earlier(item.answer) is not None for item in items)
    if changed:
        what = "verdict is on a placement that has" if changed == 1 else "verdicts are on placements that have"
        note(f"{changed:,} {what} changed, by another mapper or tree; these are asked anew")


# -- what comes of it --------------------------------------------------------------------------------------------------


def _aliases(make: _MakeMapper | None, result: Audited, files: AuditFiles, *, ask: bool) -> int:
    """Finds the aliases that would mend what is not right, and writes those taken over; returns how many are new."""
    from tempfile import TemporaryDirectory

    if make is None:
        return 0
    # What a mapper keeps of a tree is of no use for one that is only tried.
    with TemporaryDirectory(prefix="taxtune-") as folder:
        return _mended(lambda tree: make(tree, Path(folder)), result, files, ask=ask)


def _mended(make: Callable[[Taxonomy], Mapper], result: Audited, files: AuditFiles, *, ask: bool) -> int:
    from taxtune.audit.mending import Mender, new_proposals, write_proposals

    mender = Mender(result.population.tree, make, result.judged)
    console = _console()
    tree = result.population.tree
    with console.status("trying aliases") if console.is_terminal else nullcontext():
        found = new_proposals(files.aliases, tree, mender.proposals())
    if ask and found:
        from taxtune.audit.terminal import Reviewer, terminal_keys
        from taxtune.audit.verdicts import VerdictLog

        # Without a terminal nothing can be asked, and the result is there all the same.
        with suppress(DataError), terminal_keys() as keys:
            reviewer = Reviewer(result.population, VerdictLog(files.verdicts), console, keys)
            return write_proposals(files.aliases, tree, reviewer.take(found, mender.retry), "audit")
        return 0
    helping: list[Alias] = [alias for alias in found if alias.helps]
    return write_proposals(files.aliases, tree, helping, f"audit, {result.judge}")


def _refresh(run: Path, folder: Path) -> None:
    from taxtune.audit.population import digest
    from taxtune.audit.runs import evaluations
    from taxtune.report.audited import refresh_report

    if run.resolve() != folder.resolve() or not (run / "result.json").exists():
        return
    with suppress(TaxtuneError, KeyError, TypeError):  # the audit stands, whatever is the matter with the report
        held = {
            digest((r["answer"], r["placed"], r["stage"], 1) for r in rows if r["answer"] is not None): name
            for name, rows in evaluations(run / "result.json")
        }
        refresh_report(run, held)


def _say_where(files: AuditFiles, result: Audited, *, finished: bool, taken: int) -> None:
    if not finished:
        left = len(result.sample) - len(result.judged)
        note(f"{left:,} are left to judge; the same command goes on from there")
    note(f"the result is in {files.result}")
    if files.placed.exists():
        note(f"placed answers for taxtune study mapping are in {files.placed}")
    if taken:
        tree = result.population.tree.source or "TREE"
        note(f"{taken:,} new in {files.aliases}; add them: taxtune taxonomy enrich {tree} --apply {files.aliases}")
