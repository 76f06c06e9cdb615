"""`taxtune audit`: how many answers the mapper places right, judged by you or by a chat model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from taxtune.cli.printing import note_arbiter, refuse_options
from taxtune.errors import DataError, TaxtuneError, command
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
    import pandas as pd

    from taxtune.mapping import Mapper, MapperConfig
    from taxtune.models import Model
    from taxtune.models.arbiter import ChatArbiter
    from taxtune.taxonomy import Taxonomy

__all__ = ["audit"]

_FOR_ANSWERS = ("taxonomy", "llm", "verdicts_from", "similarity", "arbiter", "seed", "out")

AuditedArgument = Annotated[
    str,
    typer.Argument(
        metavar="RUN|FILE|LABELS",
        help=f"A run, a file of answers, or labels. {ANSWERS_HELP.format('column answer')}",
    ),
]
TreeOption = Annotated[str | None, opt("The taxonomy file.", "--taxonomy", "-t", shown="the run's")]
JudgeOption = Annotated[str | None, opt("Let a chat model judge: PROVIDER/MODEL or local:MODEL.")]
RunSimilarityOption = Annotated[
    str | None,
    opt(
        "The mapper's similarity: lexical, sentence:MODEL or clip:MODEL.",
        shown="the run's, or lexical",
    ),
]
RunArbiterOption = Annotated[
    str | None,
    opt(
        "Chat model that reads answers: PROVIDER/MODEL, local:MODEL, or none.",
        shown="the run's, or none",
    ),
]
FromOption = Annotated[
    Literal["mlflow"] | None,
    opt("Sum up the verdicts that people gave in MLflow, on the run's traces.", "--from"),
]
OfOption = Annotated[
    Path | None,
    opt("Watch the promise of this run, saved classifier or calibration on its LABELS."),
]
ByOption = Annotated[str | None, opt("With --of: a column or a rank whose groups are tested, too.")]
GroupOption = Annotated[
    str | None, opt("With --of: a column of groups (bursts), of which one image is drawn at most.")
]
AuditOutOption = Annotated[
    Path | None,
    opt("Folder for the verdicts and results.", shown="the run's folder, or FILE-audit"),
]


def audit(
    context: typer.Context,
    source: AuditedArgument,
    of: OfOption = None,
    by: ByOption = None,
    group: GroupOption = None,
    taxonomy: TreeOption = None,
    n: Annotated[int, opt("Number of answers, or of images, to draw.", min=1)] = 60,
    llm: JudgeOption = None,
    verdicts_from: FromOption = None,
    similarity: RunSimilarityOption = None,
    arbiter: RunArbiterOption = None,
    seed: Annotated[int, opt("Seed for drawing the answers.", min=0)] = 0,
    out: AuditOutOption = None,
    as_json: JsonOption = False,
    api_base: ApiBaseOption = None,
    concurrency: ConcurrencyOption = 8,
    cache_dir: CacheDirOption = None,
) -> None:
    """Say how far the mapper can be trusted here: judge a sample of its placements, or have it judged.

    The first call writes a sample to audit.csv. Write right, too general or wrong in its column
    verdict, and in the column node where the answer belongs, if you know it. Then run the same command
    again for the share of answers that are placed right, and the aliases that would help.

    With --of, images to look at are drawn from labels and written to LABELS-audit.csv. Write what each
    shows into its column truth and run the same command again, as often as you like: it says whether the
    promise holds, is broken, or is not known yet. Labels of later images continue the watch.
    """
    from taxtune import atomic
    from taxtune.answers import AnswerSchema, read_answers
    from taxtune.audit.chat import judge_sample
    from taxtune.audit.feedback import read_feedback
    from taxtune.audit.sample import draw_sample, merge_verdicts, write_sample
    from taxtune.models.arbiter import named_arbiter

    if of is not None:
        refuse_options(context, _FOR_ANSWERS, "answers")
        _watch(Path(source), of, n, by, group, as_json=as_json)
        return
    refuse_options(context, ("by", "group"), "labels, with --of")
    placing = _placing(source, taxonomy, similarity)
    if arbiter is not None:
        placing = replace(placing, arbiter=named_arbiter(arbiter))
    read = read_answers(source, AnswerSchema(id=None, missing="keep"))
    answers = [row.answer for row in read.rows if row.answer is not None]
    if not answers:
        raise DataError("The file contains no answers.", file=source)
    out = out or placing.folder
    given: list[dict[str, str]] = []
    if verdicts_from is not None:
        given = read_feedback(placing.folder, read.rows)
        answers = [row["answer"] for row in given]
    mapper = placing.mapper(placing.tree, placing.arbiter)
    sample = draw_sample(answers, mapper, n, seed)
    note_arbiter(mapper)
    by_hand, reopened = merge_verdicts(sample, out / "audit.csv", placing.tree, given)
    atomic.make_folder(out)
    notes = list(read.notes)
    if llm is None:
        file = out / "audit.csv"
        sample = by_hand
        if reopened:
            notes.append(f"{reopened:,} answers are placed elsewhere now: judge them again.")
    else:
        file = out / "audit-llm.csv"
        model = _judge(llm, api_base, concurrency)
        sample, more = judge_sample(sample, placing.tree, model, cache_dir=cache_dir)
        notes += [*more, *_agreement(by_hand, sample)]
    write_sample(file, sample)
    _sum_up(sample, file, placing, llm, notes, as_json=as_json)


def _sum_up(
    sample: pd.DataFrame,
    file: Path,
    placing: _Placing,
    judge: str | None,
    notes: list[str],
    *,
    as_json: bool,
) -> None:
    """Prints what the verdicts on a sample come to, and writes the aliases that would help."""
    from taxtune import atomic
    from taxtune.audit.summary import summarise_audit
    from taxtune.report.output import publish

    unjudged = int((sample["verdict"] == "").sum())
    if unjudged and judge is None:
        note(
            f"{unjudged:,} answers in {file} have no verdict yet: write right, too general or wrong "
            "in the column verdict, then run the command again"
        )
    if unjudged == len(sample):
        return
    report = summarise_audit(sample, judge=judge or "a person", notes=notes)
    atomic.write_json(file.with_suffix(".json"), report.as_json())
    aliases = file.with_name(f"{file.stem}-aliases.csv")
    count = _write_aliases(sample, placing, aliases)
    publish(report, out=None, as_json=as_json)
    if count:
        enrich = command("taxonomy", "enrich", placing.file, "--apply", aliases)
        note(f"{count:,} aliases would place more answers right; to add them, run: {enrich}")


def _watch(
    file: Path, classifier: Path, n: int, by: str | None, group: str | None, *, as_json: bool
) -> None:
    """Takes over the truths of drawn images, says what they show, and draws up to n further ones."""
    from taxtune.audit.watch import Watch
    from taxtune.metrics.ranks import nodes_at
    from taxtune.report.output import StudyReport, Table, publish
    from taxtune.tracking.curve import log_evidence

    watch = Watch.of(classifier)
    labels = watch.read(file)
    if by is not None and by not in labels:
        try:
            nodes_at(watch.tree, by)
        except TaxtuneError as error:
            message = "The labels have no such column, and the tree has no such rank."
            raise DataError(message, file=file, value=by, remedy=error.remedy) from None
    asked = file.with_name(f"{file.stem}-audit.csv")
    if asked.exists():
        watch = watch.take(asked, labels)
    rows = watch.verdicts(by)
    own = watch.of_labels(labels)
    is_settled = len(own) > 0 and rows[:1] != [] and rows[0]["promise"] in ("broken", "holds")
    if not is_settled and (own["truth"] != "").all():
        watch = watch.draw(labels, n, group)
    unlabelled = watch.save(asked, labels)
    if rows:
        evidence = watch.weigh(watch.labelled)
        log_evidence(classifier, evidence.broken.tolist(), watch.file.stem[-8:])
    notes = [f"On images like those of the calibration {watch.promise}."]
    digits = {"evidence: broken": 2, "evidence: holds": 2}
    table = Table.from_records("watch", "watch", rows, digits=digits, notes=notes)
    publish(StudyReport("audit", "", {}, (table,)), out=None, as_json=as_json)
    broken = watch.broken()
    if broken is not None:
        note(broken[0])
    elif not is_settled and not unlabelled:
        note(f"no image is left to draw from {file}; labels of further images go on with the watch")
    if unlabelled:
        note(
            f"{unlabelled:,} images in {asked} have no truth yet: write what each shows into the "
            "column truth, then run the command again"
        )


def _judge(name: str, api_base: str | None, concurrency: int) -> Model:
    """Returns a chat model that judges; notes what is odd about it."""
    from taxtune.audit.chat import MAX_TOKENS
    from taxtune.models import ModelSettings, check_model, make_model

    settings = ModelSettings(
        task="text-generation",
        max_tokens=MAX_TOKENS,
        api_base=api_base,
        concurrency=concurrency,
        batch_size=8,
    )
    model = make_model(name, settings)
    for text in check_model(model):
        note(text)
    return model


def _agreement(by_hand: pd.DataFrame, judged: pd.DataFrame) -> list[str]:
    """Returns a note on the agreement of a model and a person, if both judged some placements."""
    both = (by_hand["verdict"] != "") & (judged["verdict"] != "")
    if not both.any():
        return []
    agreed = int((by_hand["verdict"] == judged["verdict"])[both].sum())
    return [
        f"Of {both.sum():,} placements that a person also judged, the model agrees on {agreed:,}."
    ]


def _write_aliases(sample: pd.DataFrame, placing: _Placing, file: Path) -> int:
    """Writes the aliases that would help; returns how many they are."""
    from taxtune import atomic
    from taxtune.audit.summary import helpful_aliases
    from taxtune.authoring.enrich import node_path
    from taxtune.tables import csv_text

    aliases = helpful_aliases(sample, placing.tree, placing.mapper)
    rows = [(node_path(placing.tree, node), name, "audit") for node, name in aliases]
    atomic.write_text(file, csv_text(("node", "alias", "source"), rows))
    return len(aliases)


@dataclass(frozen=True, slots=True)
class _Placing:
    """How the answers are placed.

    Attributes:
        folder: The folder for the results.
        file: The file of the tree, for a command; TREE where it is not known.
        tree: The tree.
        similarity: The mapper's similarity.
        config: The mapper's settings.
        arbiter: The chat model that reads answers; None for none.
    """

    folder: Path
    file: str
    tree: Taxonomy
    similarity: str
    config: MapperConfig
    arbiter: ChatArbiter | None = None

    def mapper(self, tree: Taxonomy, arbiter: ChatArbiter | None = None) -> Mapper:
        """Returns the mapper for a tree."""
        from taxtune.mapping import Mapper

        return Mapper(tree, self.similarity, self.config, arbiter=arbiter)


def _placing(source: str, taxonomy: str | None, similarity: str | None) -> _Placing:
    """Returns the placing of the answers of a run, or of a file."""
    from taxtune.answers.records import split_run
    from taxtune.mapping import MapperConfig
    from taxtune.taxonomy.domain import read_part

    run = split_run(source)
    if run is not None:
        return _placing_of_run(run[0], taxonomy, similarity)
    if taxonomy is None:
        remedy = "Give it with -t TREE; for labels with a promise, --of RUN or --of CALIBRATION."
        raise DataError("A file of answers needs a taxonomy.", file=source, remedy=remedy)
    file = Path(source)
    return _Placing(
        folder=file.with_name(f"{file.stem}-audit"),
        file=taxonomy,
        tree=read_part(taxonomy)[0],
        similarity=_without_images(similarity or "lexical"),
        config=MapperConfig(),
    )


def _placing_of_run(folder: Path, taxonomy: str | None, similarity: str | None) -> _Placing:
    from taxtune.mapping import MapperConfig
    from taxtune.taxonomy.domain import read_part
    from taxtune.tuning.build import make_arbiter
    from taxtune.tuning.run_folder import finished_run, recipe_of
    from taxtune.tuning.saved import find_saved, read_saved, tree_of_columns

    recipe = recipe_of(finished_run(folder), given={"data", "vlm", "taxonomy"})
    if taxonomy is None:
        saved = find_saved(folder)
        tree = tree_of_columns(read_saved(saved).taxonomy, saved)
        source = recipe.path(recipe.taxonomy.path)
        file = str(source) if source.exists() else "TREE"
    else:
        file = taxonomy
        tree, _ = read_part(taxonomy, root=recipe.taxonomy.root)
    return _Placing(
        folder=folder,
        file=file,
        tree=tree,
        similarity=_without_images(similarity or recipe.mapper.similarity),
        config=MapperConfig(preset=recipe.mapper.preset, off_tree=recipe.mapper.off_tree),
        arbiter=make_arbiter(recipe),
    )


def _without_images(similarity: str) -> str:
    if similarity.startswith("clip-i2t:"):
        remedy = "Give another --similarity, such as lexical."
        raise DataError("The mapper uses the images.", value=similarity, remedy=remedy)
    return similarity
