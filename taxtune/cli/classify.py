"""`taxtune classify` and `taxtune serve`: a run's winner labels images, in files or over HTTP."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from taxtune.cli.classifier_scores import (
    ImageColumnOption,
    LabelColumnOption,
    ScoreColumnOption,
    TruthLabelsOption,
    classify_file,
    columns_of,
    tell_truth,
)
from taxtune.cli.printing import note_arbiter, refuse_existing, refuse_options, tell
from taxtune.errors import DataError, TaxtuneError
from taxtune.options import ForceOption, opt
from taxtune.progress import note

if TYPE_CHECKING:
    import pandas as pd

    from taxtune.classifier.classifier import Classifier

__all__ = ["classify", "named_classifier", "serve"]

#: The confidence below which a label is unsure where nothing is promised.
_UNSURE = 0.8
#: Seconds that requests have to end after Ctrl-C.
_GRACE = 5
_FOR_RUNS = (
    *("candidates", "boxes", "policy", "review_below", "settings", "batch", "resume"),
    *("scores", "budget"),
)
_NOT_FOR_RUNS = ("label_column", "score_column", "scores", "budget")
_FOR_OTHERS = ("candidates", "boxes", "policy")  # than calibrations of scores with a run

PolicyOption = Annotated[
    Literal["run", "calibrated", "direct"],
    opt("Ask as often as the run, as `taxtune calibrate` chose, or once."),
]
ModelSetOption = Annotated[
    list[str] | None,
    opt("Override a setting of the model, e.g. vlm.device=cuda. Repeatable.", "--set"),
]


RunOrCalibration = Annotated[
    Path,
    typer.Argument(
        metavar="RUN|CALIBRATION",
        help="The folder of a finished tuning run, or of a saved classifier; or a calibration of "
        "scores, alone or with a run.",
    ),
]
ScoresOption = Annotated[
    Path | None, opt("A classifier's scores of the images, for a calibration of scores with a run.")
]
BudgetOption = Annotated[
    float | None,
    opt("For --scores: most US dollars for answers; other images stay as scores have them.", min=0),
]
ImagesArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="IMAGES",
        help="Image files, folders, tables with a column of images, text files (- for stdin) with "
        "a path per line; scores for a calibration.",
    ),
]
CandidatesOption = Annotated[
    Path | None,
    opt("Another classifier's scores of the images, for a prompt that asks for candidates."),
]
BoxesOption = Annotated[
    Path | None,
    opt("MegaDetector's JSON file: each of its boxes is cut out, asked about and has a row."),
]
LabelsOutOption = Annotated[
    Path | None, opt("Write the labels to this file: .csv or .jsonl.", shown="CSV on stdout")
]
BatchOption = Annotated[
    bool, opt("Ask in the provider's batches: half the price, exit code 75.", "--batch")
]
ResumeOption = Annotated[bool, opt("Fetch what --batch submitted; submit what failed.", "--resume")]
ReviewBelowOption = Annotated[
    float | None,
    opt(
        "Confidence below which a label is unsure.",
        shown=f"{_UNSURE}; none if calibrated",
        min=0,
        max=1,
    ),
]
OnBrokenOption = Annotated[
    Literal["say", "back-off"],
    opt("Where the promise is broken: say so, or go up to the deepest rank where it is not."),
]
TruthOption = Annotated[
    Path | None,
    opt("A table with the label of each image, to say how many labels are wrong."),
]


def classify(
    context: typer.Context,
    run: RunOrCalibration,
    images: ImagesArgument,
    image_column: ImageColumnOption = None,
    scores: ScoresOption = None,
    budget: BudgetOption = None,
    candidates: CandidatesOption = None,
    out: LabelsOutOption = None,
    boxes: BoxesOption = None,
    policy: PolicyOption = "run",
    review_below: ReviewBelowOption = None,
    settings: ModelSetOption = None,
    truth: TruthOption = None,
    label_column: LabelColumnOption = None,
    score_column: ScoreColumnOption = None,
    truth_column: TruthLabelsOption = None,
    on_broken: OnBrokenOption = "say",
    batch: BatchOption = False,
    resume: ResumeOption = False,
    force: ForceOption = False,
) -> None:
    """Label images with a run's winner (its prompt, model, mapper and policy), or by a classifier's calibrated scores.

    Each image has a row, in the order given: image, placement (the path of its node), rank, confidence, answer,
    placement_confidence (how sure the mapper is of the answer), off_tree, not_subject, masked, failure, and the other
    columns of the file that names it. Images that are off the tree or not of its subject, failed, got no label, a
    doubtful placement or an unsure label are also written to NAME-review beside --out, the least sure first. Answers
    are kept as they come, so the same command continues after an interruption. Of scores rows have image, placement,
    rank, confidence (the share of the scores) and failure. Of a calibration of scores with a run (calibrate --then)
    rows have a source as well, whose evidence supports the label: scores, model or both. Only images whose scores do
    not say enough are asked about, those first where an answer may gain most.
    """
    from taxtune.classifier.cascading import read_calibrated
    from taxtune.classifier.scores import ScoreCalibration
    from taxtune.models.batches import in_batches

    written = [] if out is None else [out]
    calibration = read_calibrated(run) if run.is_file() else None
    if isinstance(calibration, ScoreCalibration):
        _check_files(written, images, force=force)
        refuse_options(context, _FOR_RUNS, "a run")
        classify_file(run, images, out, truth, columns_of(context), on_broken)
        return
    if out is not None:
        written += [_beside(out, name) for name in ("review", "photos", "groups")]
    _check_files(written, images, force=force)
    if calibration is None:
        refuse_options(context, _NOT_FOR_RUNS, "calibrations of scores")
    else:
        refuse_options(context, _FOR_OTHERS, "a run")
    classifier = named_classifier(run, policy, settings, on_broken)
    if review_below is None:
        # No label of a calibrated policy has less than its threshold, and with that the guarantee
        # was made.
        review_below = _UNSURE if classifier.guarantee is None else 0.0
    listed = _listed(classifier, images, context.params)
    known = {}
    if truth is not None:  # what is wrong with it is told before anything is asked
        known = _known(listed, truth, classifier, columns_of(context))
    answers = _answers(run if calibration is None else Path(calibration.run), out)
    if batch or resume:
        classifier.model = in_batches(classifier.model, answers, resume=resume and not batch)
    labels = _labels(classifier, listed, review_below, answers, printed=out is None)
    note_arbiter(classifier.mapper)
    if out is not None:
        _write(labels, out)
        _write_joined(labels, out, classifier)
    lacking = (labels["failure"].notna() & labels["placement"].notna()).sum()
    if calibration is not None and calibration.promise == "labels" and lacking:
        note(f"nothing is promised of the labels before {lacking:,} images more have an answer")
        classifier.guarantee = None
    has_failed = labels["placement"].isna().all()
    if truth is not None and not has_failed:
        _tell_truth(labels, classifier, known, truth)
    for text in _summary(labels, classifier, review_below):
        tell(text)
    if has_failed:
        raise typer.Exit(1)


def _listed(classifier: Classifier, images: list[str], given: Mapping[str, Any]) -> pd.DataFrame:
    """Returns the images that are named, or their boxes, with what given options tell of them."""
    from taxtune.classifier.cascading import CascadeClassifier
    from taxtune.classifier.joined import list_boxes, list_groups
    from taxtune.classifier.labels import list_images
    from taxtune.data.boxes import Boxes
    from taxtune.init.source import find_images

    was_boxed = classifier.boxes is not None
    if given["boxes"] is not None:
        if not was_boxed:
            note("the run was asked about whole photos, and is now asked about boxes of them")
        classifier.boxes = replace(classifier.boxes or Boxes(), file=given["boxes"])
    listed = list_images(images, partial(find_images, image_column=given["image_column"]))
    if given["candidates"] is not None:
        names = listed["image"].tolist()
        listed["candidates"] = _candidates(classifier, given["candidates"], names)
    listed = list_boxes(list_groups(listed, classifier.group), classifier.boxes)
    if classifier.guarantee is not None and classifier.has_boxes(listed) != was_boxed:
        kind = "boxes" if was_boxed else "whole photos"
        note(f"nothing is promised of these labels: the run was calibrated on {kind}")
        classifier.guarantee = None
    if isinstance(classifier, CascadeClassifier):
        is_scored = classifier.cascade.chosen.first is not None or classifier.top is not None
        if given["scores"] is None and is_scored:
            raise DataError("The images need scores.", remedy="Add --scores FILE.")
        columns = {"label": given["label_column"], "score": given["score_column"]}
        listed = classifier.with_scores(listed, given["scores"], columns)
        classifier.budget = given["budget"]
    return listed


def _known(
    listed: pd.DataFrame, truth: Path, classifier: Classifier, columns: dict[str, str | None]
) -> dict[str, int]:
    """Returns the true node of each image, where it is known; of a box that of its photo."""
    from taxtune.answers.classifier_scores import read_truth
    from taxtune.classifier.truth import match_truth

    known = read_truth(truth, classifier.taxonomy, columns, classifier.words)
    photos = listed["photo" if classifier.has_boxes(listed) else "image"]
    matches = match_truth(photos, known, truth)
    pairs = zip(listed["image"], photos, strict=True)
    return {image: known[matches[photo]] for image, photo in pairs if photo in matches}


def _labels(
    classifier: Classifier,
    listed: pd.DataFrame,
    review_below: float,
    answers: Path | None,
    *,
    printed: bool,
) -> pd.DataFrame:
    """Returns the labels of images, which are printed as they come, if they are printed."""
    from taxtune.classifier.cascading import CascadeClassifier
    from taxtune.classifier.labels import GAIN, SCORES, WORKING, csv_of, label_images
    from taxtune.models import AnswerStore, check_model

    calls = classifier.policy.samples
    asked = len(listed)
    plan = f"{asked:,} image{'' if asked == 1 else 's'}"
    if isinstance(classifier, CascadeClassifier):
        asked = int(listed[GAIN].count())
        plan = f"{asked:,} of {plan} are asked about"
        without = sum(known.placed is None for known in listed[SCORES])
        if without and classifier.cascade.chosen.first is not None:
            plan += f"; {without:,} have no scores"
    if classifier.has_boxes(listed):
        asked = int(listed["box"].count())
        plan = f"{asked:,} boxes in {listed['photo'].nunique():,} photos"
    for model in (classifier.model, getattr(classifier.mapper.arbiter, "llm", None)):
        for text in check_model(model) if asked and model is not None else []:
            note(text)
    if calls > 1:
        plan += f" × {calls} answers = {asked * calls:,} VLM calls"
    if answers is not None:
        plan += f"; answers are kept in {answers}"
    note(plan)
    as_they_come = printed and listed.index.is_monotonic_increasing

    def show(rows: pd.DataFrame) -> None:
        is_first = rows.index[0] == 0
        print(csv_of(rows.drop(columns=list(WORKING)), header=is_first), end="")

    with nullcontext() if answers is None else AnswerStore(answers) as store:
        labels = label_images(
            classifier,
            listed,
            review_below=review_below,
            store=store,
            write=show if as_they_come else None,
        )
    labels = labels.sort_index()
    if printed and not as_they_come:
        show(labels)
    return labels


def _beside(out: Path, name: str) -> Path:
    return out.with_name(f"{out.stem}-{name}{out.suffix}")


def _write(labels: pd.DataFrame, out: Path) -> None:
    """Writes the labels, and those to review beside them, the least sure first."""
    from taxtune.classifier.labels import WORKING, write_labels

    write_labels(labels.drop(columns=list(WORKING)), out)
    # What has no label comes first, then labels by their confidence.
    sureness = labels[["confidence", "placement_confidence"]].astype(float).min(axis=1)
    sureness = sureness.where(labels["why"].isin(["doubtful", "unsure"]), -1.0)
    order = sureness[labels["why"].notna()].sort_values(kind="stable").index
    unsure = labels.loc[order].drop(columns=["again", "evidence"])
    unsure.insert(0, "why", unsure.pop("why"))
    review = _beside(out, "review")
    write_labels(unsure, review)
    note(f"the labels are in {out}, those to review in {review}, the least sure first")


def _write_joined(labels: pd.DataFrame, out: Path, classifier: Classifier) -> None:
    """Writes a row for each photo that has boxes, and for each group, beside the labels."""
    from taxtune.classifier.joined import GROUP, PHOTO, join_labels
    from taxtune.classifier.labels import write_labels

    group = GROUP if GROUP in labels else classifier.group
    photo = PHOTO if classifier.has_boxes(labels) else None
    for column, name in ((photo, "photos"), (group, "groups")):
        if column is not None and column in labels:
            file = _beside(out, name)
            threshold = classifier.policy.threshold
            write_labels(join_labels(labels, column, classifier.taxonomy, threshold), file)
            note(f"a label for each {column} is in {file}")


def _candidates(classifier: Classifier, file: Path, images: list[str]) -> list[list[str]]:
    """Returns the candidates of each image, out of a file of scores."""
    from taxtune.tuning.context import candidates_of

    if classifier.top is None:
        message = "The prompt asks for no candidates."
        raise DataError(message, value=str(file), remedy="Leave out --candidates.")
    candidates = candidates_of(file, classifier.taxonomy, images, classifier.top)
    return [candidates.get(image, []) for image in images]


def named_classifier(
    run: Path, policy: str, settings: list[str] | None, on_broken: str = "say"
) -> Classifier:
    """Returns the classifier that a folder or a file, --policy, --set and --on-broken name.

    Raises:
        TaxtuneError: If there is none, or it cannot be so.
    """
    from taxtune.audit.watch import tell_broken
    from taxtune.classifier import load_classifier
    from taxtune.classifier.cascading import load_cascade
    from taxtune.policies import Single
    from taxtune.recipe_file import parse_override
    from taxtune.tuning.calibrate import CALIBRATION

    overrides = dict(map(parse_override, settings or ()))
    if run.is_file():
        classifier: Classifier = load_cascade(run, overrides)
    else:
        classifier = load_classifier(
            run,
            calibrated=policy == "calibrated",
            policy=Single() if policy == "direct" else None,
            settings=overrides,
        )
    if policy == "run" and classifier.guarantee is None and (run / CALIBRATION).exists():
        note("the run is calibrated; --policy calibrated labels with the guarantee")
    if classifier.guarantee is not None:
        classifier.broken, classifier.deepest = tell_broken(run, on_broken)
    return classifier


def _check_files(files: list[Path], images: list[str], *, force: bool) -> None:
    """Raises a TaxtuneError if a file has no format, cannot be written, is there, or is an input."""
    from taxtune.atomic import check_folder
    from taxtune.classifier.labels import check_format

    named = {Path(name).resolve() for name in images if name != "-"}
    for file in files:
        check_format(file)
        if file.resolve() in named:
            raise DataError(
                "The labels would replace the list of images.",
                file=file,
                remedy="Choose another name.",
            )
        refuse_existing(file, force=force)
        check_folder(file.parent)


def _answers(run: Path, out: Path | None) -> Path | None:
    """Returns the file of the answers: the run's, or else one beside the labels; None if neither.

    A folder that was copied from elsewhere has no such file, and none is made for it.
    """
    from taxtune.tuning.run_folder import answers_of

    kept = answers_of(run)
    # SQLite writes beside the file, too.
    if all(os.access(path, os.W_OK) for path in (kept, kept.parent)):
        return kept
    return None if out is None else out.with_name(f"{out.stem}-answers.db")


def _tell_truth(
    labels: pd.DataFrame, classifier: Classifier, known: Mapping[str, int], truth: Path
) -> None:
    """Prints how labels compare with the true ones, and whether the promised risk is kept."""
    from taxtune.classifier.classifier import UNDETECTED
    from taxtune.classifier.truth import compare_labels

    has_box = labels["answer"] != UNDETECTED
    root = classifier.taxonomy.root
    missed = [known.get(photo, root) != root for photo in labels.loc[~has_box, "image"]]
    if missed:
        count = f"{len(missed):,} photos without a box are not judged"
        tell(f"{count}; something is there on {sum(missed):,} of them")
    labels = labels[has_box]
    if labels.empty:
        return
    as_child = classifier.mapper.config.off_tree == "child"
    rows = []
    for image, path, off_tree in labels[["image", "placement", "off_tree"]].values.tolist():
        rows.append((image, path, as_child and bool(off_tree)))
    promise = classifier.guarantee
    outcomes, scores = compare_labels(rows, known, classifier.taxonomy, truth, promise)
    tell_truth(outcomes, scores, promise)


def _summary(labels: pd.DataFrame, classifier: Classifier, below: float) -> Iterator[str]:
    """Yields the lines that sum up the labels.

    They say where the labels are on the tree, what a person should review, and what is promised.
    """
    from taxtune.mapping.config import DOUBTFUL

    below_root = labels[labels["nodes"].map(len) > 1]
    levels = "level " + (below_root["nodes"].map(len) - 1).astype(str)
    ranks = below_root["rank"].where(below_root["rank"].notna(), levels).value_counts()
    places = [f"{count:,} at {rank}" for rank, count in ranks.items()]
    images = f"{len(labels):,} image{'' if len(labels) == 1 else 's'}"
    is_boxed = classifier.has_boxes(labels)
    if is_boxed:
        images = f"{labels['box'].notna().sum():,} boxes in {labels['photo'].nunique():,} photos"
    yield f"{images}: {', '.join(places) or 'none below the root'}"
    if "source" in labels:
        counts = labels["source"].value_counts().drop("", errors="ignore")
        yield f"labelled by: {', '.join(f'{name} {count:,}' for name, count in counts.items())}"
    if is_boxed:
        empty = (labels["box"].isna() & labels["failure"].isna()).sum()
        yield f"{empty:,} photos without a box are on the root, and nothing was asked about them"
    why = labels["why"].value_counts()
    if len(why):
        limits = {
            "unsure": f" (a confidence below {below:g})",
            "doubtful": f" (the mapper's is below {DOUBTFUL:g})",
            "cut off": " (raise vlm.max_tokens)",
        }
        reasons = [f"{n:,} {reason}{limits.get(str(reason), '')}" for reason, n in why.items()]
        yield f"{why.sum():,} to review: {', '.join(reasons)}"
    if classifier.guarantee is not None:
        yield f"on images like those of the calibration {classifier.guarantee}"
        if classifier.broken:
            yield classifier.broken
    again = labels["again"].sum()
    if again:
        yield f"{again:,} may get an answer if you run the same command again (with --force)"
    if below_root["confidence"].isna().any():
        yield "no confidence is known: the run has no judged answers"


def serve(
    classifier: Annotated[
        Path,
        typer.Argument(
            metavar="RUN|CALIBRATION",
            help="The folder of a finished tuning run or of a saved classifier; or a calibration of "
            "scores with a run.",
        ),
    ],
    port: Annotated[int, opt("Port; 0 takes a free one.", min=0, max=65535)] = 8000,
    host: Annotated[
        str, opt("Address to listen on; 0.0.0.0 lets other machines in.")
    ] = "127.0.0.1",
    policy: PolicyOption = "run",
    settings: ModelSetOption = None,
    on_broken: OnBrokenOption = "say",
) -> None:
    """Serve a run's winner on a page in the browser, and over HTTP, until Ctrl-C.

    The page at / takes photos or a folder, shows where each belongs, the way there and how sure each step is, and has
    all labels as a CSV file. POST /invocations takes an image file, or images in base64 in the JSON formats of MLflow's
    scoring server. No image is kept.
    """
    import uvicorn

    from taxtune.serving.app import make_app
    from taxtune.serving.pyfunc import ServedClassifier

    # The port is taken before anything long is started.
    with _listening(host, port) as listener:
        own_address, own_port, *_ = listener.getsockname()
        address = f"http://{f'[{host}]' if ':' in host else host}:{own_port}"
        loaded = named_classifier(classifier, policy, settings, on_broken)
        served = ServedClassifier(loaded, content_only=True)
        note("Loading the model")
        served.load()
        configured = uvicorn.Config(
            make_app(served, address, [host]),
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=_GRACE,
        )
        if own_address in ("0.0.0.0", "::"):
            note(
                "every machine that reaches this one can ask the model: "
                "there is no password and no encryption"
            )
        note(f"{loaded.name}: {address} (Ctrl-C ends it)")
        with suppress(KeyboardInterrupt):  # how a server is meant to end
            uvicorn.Server(configured).run(sockets=[listener])


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, *_, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(where[:2], family=family)
    except OSError as error:
        remedy = "Give --host an address of this machine, and another --port; 0 takes a free one."
        message = f"Cannot listen on {host}, port {port}: {error.strerror or error}."
        raise TaxtuneError(message, remedy=remedy) from error
