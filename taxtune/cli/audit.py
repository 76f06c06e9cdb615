"""`taxtune audit`: how many answers the mapper places right, judged by you or by a chat model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taxtune.cli.interrupts import interrupts, keep_replies, keep_work
from taxtune.errors import DataError
from taxtune.options import (
    ANSWERS_HELP,
    ApiBaseOption,
    BatchSizeOption,
    CacheDirOption,
    ConcurrencyOption,
    DeviceOption,
    FormatOption,
    InputOption,
    JsonOption,
    PlaceRootOption,
    RootLabelOption,
    text_model,
)
from taxtune.progress import note
from taxtune.shell import command

if TYPE_CHECKING:
    from rich.console import Console

    from taxtune.audit.mending import Alias, Mender
    from taxtune.audit.population import Item, Population
    from taxtune.audit.result import Audited, AuditFiles
    from taxtune.audit.verdicts import Finding
    from taxtune.models import Model

__all__ = ["audit"]


def _option(name: str, metavar: str, default: str, help: str, *more: str) -> Any:
    return typer.Option(name, *more, metavar=metavar, show_default=default, help=help)


def audit(
    source: Annotated[
        str,
        typer.Argument(metavar="RUN|FILE", help=f"A run, or a file of answers. {ANSWERS_HELP.format('column answer')}"),
    ],
    taxonomy: Annotated[
        str | None,
        _option(
            "--taxonomy",
            "TREE",
            "the run's",
            "The taxonomy file, or builtin:NAME for that of a built-in recipe. With a run, its answers are placed on "
            "it again.",
            "-t",
        ),
    ] = None,
    n: Annotated[int, typer.Option("--n", min=1, help="Number of distinct answers to draw and judge.")] = 60,
    evaluation: Annotated[
        str | None,
        _option(
            "--evaluation",
            "WHICH",
            "winner",
            "For a run: winner, baseline or an objective (on the held-out images), or the number of an iteration.",
        ),
    ] = None,
    llm: Annotated[
        str | None,
        typer.Option("--llm", metavar="MODEL", help="Let a chat model judge: PROVIDER/MODEL or local:MODEL."),
    ] = None,
    similarity: Annotated[
        str | None,
        _option(
            "--similarity",
            "SPEC",
            "the run's, or lexical",
            "The mapper's similarity: lexical, sentence:MODEL or clip:MODEL.",
        ),
    ] = None,
    preset: Annotated[
        str | None,
        _option(
            "--preset", "NAME", "the run's, or default", "The mapper's settings: default, paper-listing or paper-prose."
        ),
    ] = None,
    input: InputOption = "auto",
    format: FormatOption = "auto",
    root_label: RootLabelOption = None,
    root: PlaceRootOption = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed for drawing the answers.")] = 0,
    out: Annotated[
        Path | None,
        _option("--out", "FOLDER", "the run's folder, or FILE-audit", "Folder for verdicts and results."),
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
    from taxtune.audit.mending import mend
    from taxtune.audit.result import Audited, draw_sample, make_report, with_agreement, write_placed, write_result
    from taxtune.audit.subject import Placing, read_subject, refresh_run_report
    from taxtune.report.output import publish

    model = None
    if llm is not None:
        from taxtune.audit.llm import MAX_TOKENS

        model = text_model(
            llm, MAX_TOKENS, api_base=api_base, concurrency=concurrency, device=device, batch_size=batch_size
        )
    keep_work([similarity])
    placing = Placing(taxonomy, format, root_label, root, similarity, preset)
    subject = read_subject(source, placing, evaluation=evaluation, input=input)
    files = replace(
        subject.files,
        folder=subject.files.folder if out is None else out,
        stem=subject.files.stem + ("" if llm is None else "-llm"),
    )
    sample = draw_sample(subject.population, n, seed, files.result)
    if n > len(subject.population.items):
        note(f"there are only {len(subject.population.items):,} distinct answers; all of them will be judged")
    population = subject.with_evidence([unit.item for unit in sample])
    items = [population.items[unit.item] for unit in sample]

    def finish(findings: Sequence[Finding | None], judge: str = "a person", **more: Any) -> Audited:
        result = Audited(population, sample, findings, judge, n, seed, **more)
        if model is not None:
            result = with_agreement(result, files)
        make_folder(files.folder)
        write_result(files, result, make_report(result))
        write_placed(files, result)
        refresh_run_report(subject.files.folder, files.folder)
        return result

    if model is not None:
        result, finished = _judged_by_model(population, items, model, cache_dir, finish), True
    else:
        result, finished = _judged_by_person(population, items, files, finish)
    taken = 0
    if finished and subject.make is not None:
        console = _console()
        with console.status("trying aliases") as status:

            def choose(found: Sequence[Alias], mender: Mender) -> Sequence[Alias]:
                status.stop()
                return _chosen(population, files, console, found, mender)

            taken = mend(subject.make, result, files.aliases, choose=choose if model is None else None)
    publish(make_report(result), out=None, as_json=as_json)
    _say_where(files, result, finished=finished, taken=taken)


def _judged_by_model(
    population: Population,
    items: Sequence[Item],
    model: Model,
    cache_dir: Path | None,
    finish: Callable[..., Audited],
) -> Audited:
    from taxtune.audit.llm import judge_placements

    keep_replies()
    said = judge_placements(population, items, model, cache_dir=cache_dir)
    account = {**said.account, "identity": dict(model.identity)}
    return finish(said.findings, str(model.identity["model"]), notes=said.notes, account=account)


def _judged_by_person(
    population: Population, items: Sequence[Item], files: AuditFiles, finish: Callable[..., Audited]
) -> tuple[Audited, bool]:
    """Asks the user about what has no verdict yet; returns the audit, and whether they came to the end."""
    from taxtune.atomic import make_folder
    from taxtune.audit.terminal import Reviewer, terminal_keys
    from taxtune.audit.verdicts import VerdictLog

    log = VerdictLog(files.verdicts)
    interrupts.kept = f"your verdicts so far are saved in {files.verdicts}; run the same command again to continue."
    changed = sum(log.find(population, item) is None and log.earlier(item.answer) is not None for item in items)
    if changed:
        what = "verdict is for a placement that has" if changed == 1 else "verdicts are for placements that have"
        note(
            f"{changed:,} {what} changed, because the mapper or the tree is different; you will be asked about "
            f"these again"
        )

    def so_far() -> list[Finding | None]:
        return [log.find(population, item) for item in items]

    if None not in so_far():
        return finish(so_far()), True
    with terminal_keys() as keys:
        make_folder(files.folder)
        try:
            finished = Reviewer(population, log, _console(), keys).ask(items)
        finally:  # after Ctrl-C, too: what was said until then counts
            result = finish(so_far())
    return result, finished


def _chosen(
    population: Population, files: AuditFiles, console: Console, found: Sequence[Alias], mender: Mender
) -> Sequence[Alias]:
    """Asks the user which aliases to take over."""
    from taxtune.audit.terminal import Reviewer, terminal_keys
    from taxtune.audit.verdicts import VerdictLog

    # Without a terminal nothing can be asked, and the result is there all the same.
    with suppress(DataError), terminal_keys() as keys:
        return Reviewer(population, VerdictLog(files.verdicts), console, keys).take(found, mender.retry)
    return []


def _console() -> Console:
    # On standard error, so that what the command prints can go to a file all the same.
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def _say_where(files: AuditFiles, result: Audited, *, finished: bool, taken: int) -> None:
    if not finished:
        left = len(result.sample) - len(result.judged)
        note(f"{left:,} still need a verdict; run the same command again to continue")
    note(f"result saved in {files.result}")
    if files.placed.exists():
        note(f"placed answers for `taxtune study mapping` saved in {files.placed}")
    if taken:
        tree = result.population.tree.source or "TREE"
        adding = command("taxonomy", "enrich", tree, "--apply", files.aliases)
        note(f"{taken:,} new aliases in {files.aliases}; to add them, run: {adding}")
