"""`taxtune audit`: how many answers the mapper places right, judged by you or by a chat model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from taxtune.errors import DataError, command
from taxtune.options import (
    ANSWERS_HELP,
    ApiBaseOption,
    CacheDirOption,
    ConcurrencyOption,
    JsonOption,
    opt,
)
from taxtune.progress import note

if TYPE_CHECKING:
    from taxtune.mapping import Mapper
    from taxtune.models.arbiter import ChatArbiter
    from taxtune.taxonomy import Taxonomy

__all__ = ["audit"]


def audit(
    source: Annotated[
        str,
        typer.Argument(
            metavar="RUN|FILE",
            help=f"A run, or a file of answers. {ANSWERS_HELP.format('column answer')}",
        ),
    ],
    taxonomy: Annotated[
        str | None, opt("The taxonomy file.", "--taxonomy", "-t", shown="the run's")
    ] = None,
    n: Annotated[int, opt("Number of answers to draw.", min=1)] = 60,
    llm: Annotated[
        str | None, opt("Let a chat model judge: PROVIDER/MODEL or local:MODEL.")
    ] = None,
    similarity: Annotated[
        str | None,
        opt(
            "The mapper's similarity: lexical, sentence:MODEL or clip:MODEL.",
            shown="the run's, or lexical",
        ),
    ] = None,
    seed: Annotated[int, opt("Seed for drawing the answers.", min=0)] = 0,
    out: Annotated[
        Path | None,
        opt("Folder for the verdicts and results.", shown="the run's folder, or FILE-audit"),
    ] = None,
    as_json: JsonOption = False,
    api_base: ApiBaseOption = None,
    concurrency: ConcurrencyOption = 8,
    cache_dir: CacheDirOption = None,
) -> None:
    """Say how far the mapper can be trusted here: judge a sample of its placements, or have it judged.

    The first call writes a sample to audit.csv. Write right, too general or wrong in its column
    verdict, and in the column node where the answer belongs, if you know it. Then run the same command
    again for the share of answers that are placed right, and the aliases that would help.
    """
    from taxtune import atomic
    from taxtune.answers import AnswerSchema, read_answers
    from taxtune.audit.sample import (
        MAX_TOKENS,
        draw_sample,
        helpful_aliases,
        judge_sample,
        merge_verdicts,
        summarise_audit,
        write_sample,
    )
    from taxtune.authoring.enrich import node_path
    from taxtune.report.output import publish
    from taxtune.tables import csv_text

    folder, tree, make_mapper, arbiter = _placing(source, taxonomy, similarity)
    read = read_answers(source, AnswerSchema(id=None, missing="keep"))
    answers = [row.answer for row in read.rows if row.answer is not None]
    if not answers:
        raise DataError("The file contains no answers.", file=source)
    out = out or folder
    mapper = make_mapper(tree)
    mapper.arbiter = arbiter
    sample = draw_sample(answers, mapper, n, seed)
    if arbiter is not None:
        arbiter.note_spent()
    by_hand, reopened = merge_verdicts(sample, out / "audit.csv", tree)
    stem, notes = "audit", list(read.notes)
    atomic.make_folder(out)
    if llm is None:
        sample = by_hand
        notes += (
            [f"{reopened:,} answers are placed elsewhere now: judge them again."]
            if reopened
            else []
        )
    else:
        from taxtune.models import ModelSettings, check_model, make_model

        settings = ModelSettings(
            task="text-generation",
            max_tokens=MAX_TOKENS,
            api_base=api_base,
            concurrency=concurrency,
            batch_size=8,
        )
        model, stem = make_model(llm, settings), "audit-llm"
        for text in check_model(model):
            note(text)
        sample, more = judge_sample(sample, tree, model, cache_dir=cache_dir)
        notes += more
        both = (by_hand["verdict"] != "") & (sample["verdict"] != "")
        if both.any():
            agreed = int((by_hand["verdict"] == sample["verdict"])[both].sum())
            notes.append(
                f"Of {both.sum():,} placements that a person also judged, the model agrees on {agreed:,}."
            )
    write_sample(out / f"{stem}.csv", sample)
    unjudged = int((sample["verdict"] == "").sum())
    if unjudged and llm is None:
        note(
            f"{unjudged:,} answers in {out / 'audit.csv'} have no verdict: fill them in and run the command again"
        )
    if unjudged == len(sample):
        return
    aliases = helpful_aliases(sample, tree, make_mapper)
    rows = [(node_path(tree, node), name, "audit") for node, name in aliases]
    atomic.write_text(out / f"{stem}-aliases.csv", csv_text(("node", "alias", "source"), rows))
    report = summarise_audit(sample, judge=llm or "a person", notes=notes)
    atomic.write_json(out / f"{stem}.json", report.as_json())
    publish(report, out=None, as_json=as_json)
    if aliases:
        words = (
            "taxonomy",
            "enrich",
            taxonomy or tree.source or "TREE",
            "--apply",
            out / f"{stem}-aliases.csv",
        )
        note(
            f"{len(aliases):,} aliases would place more answers right; to add them, run: {command(*words)}"
        )


def _placing(
    source: str, taxonomy: str | None, similarity: str | None
) -> tuple[Path, Taxonomy, Callable[[Taxonomy], Mapper], ChatArbiter | None]:
    """The folder for the results, the tree, what makes the mapper for a tree, and the run's arbiter."""
    from taxtune.answers.records import split_run
    from taxtune.mapping import Mapper, MapperConfig
    from taxtune.taxonomy.domain import read_part

    run, arbiter = split_run(source), None
    if run is None:
        if taxonomy is None:
            raise DataError(
                "A file of answers needs a taxonomy.", file=source, remedy="Give it with -t TREE."
            )
        file = Path(source)
        folder, config, recorded = file.with_name(f"{file.stem}-audit"), MapperConfig(), "lexical"
        tree, _ = read_part(taxonomy)
    else:
        from taxtune.tuning.build import make_arbiter, make_taxonomy
        from taxtune.tuning.run_folder import finished_run, recipe_of

        folder = run[0]
        recipe = recipe_of(finished_run(folder), given={"data", "vlm"})
        if taxonomy is None:
            tree, _ = make_taxonomy(recipe)
        else:
            tree, _ = read_part(taxonomy, root=recipe.taxonomy.root)
        recorded, arbiter = recipe.mapper.similarity, make_arbiter(recipe)
        config = MapperConfig(preset=recipe.mapper.preset, off_tree=recipe.mapper.off_tree)
    chosen = similarity or recorded
    if chosen.startswith("clip-i2t:"):
        remedy = "Give another --similarity, such as lexical."
        raise DataError("The mapper uses the images.", value=chosen, remedy=remedy)
    return folder, tree, lambda changed: Mapper(changed, chosen, config), arbiter
