"""Comparing encoders: their scores on texts of every level, and what a recipe should take."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from taxtune.metrics.statistics import Interval, PairedDifference, bootstrap, hierarchical_sample, paired_bootstrap
from taxtune.report.output import Cell, StudyReport, Table
from taxtune.studies.both_trees import both_trees_table
from taxtune.studies.encoder import EncoderSettings
from taxtune.studies.encoder.figure import draw_language, draw_levels
from taxtune.studies.encoder.placement import MAPPER, IntArray, LanguageTask, PlacedTexts, place_texts_by_encoder
from taxtune.studies.mapping.annotated import AnnotatedAnswers, AnnotatedColumns, read_annotated
from taxtune.taxonomy.domain import Domain
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["ALL", "NO_EVIDENCE", "LevelScores", "compare_encoders", "encoder", "recipe_lines", "said_by_level"]

#: The row of all levels together.
ALL = "all"
NO_EVIDENCE = "no evidence"

_CONFIDENCE = 0.95

_NAMES = {"hf": "hF", "hp": "hP", "hr": "hR", "accuracy": "accuracy"}


@dataclass(frozen=True, slots=True)
class LevelScores:
    """What the encoders make of one kind of text at one level.

    Attributes:
        kind: The kind of text.
        way: How they were placed.
        level: The level, or `ALL`.
        n: How many texts.
        classes: For "language only", how many nodes there were to choose from; else None.
        largest: For "language only", the share of the texts whose node is the most frequent one; else None.
        scores: By encoder, hP, hR, hF, accuracy and depth with intervals.
        differences: By two encoders, the paired differences of all metrics, first minus second.
        best: The encoder that is better than every other, or `NO_EVIDENCE`.
    """

    kind: str
    way: str
    level: str
    n: int
    classes: int | None
    largest: float | None
    scores: Mapping[str, Mapping[str, Interval]]
    differences: Mapping[tuple[str, str], Mapping[str, PairedDifference]]
    best: str


def encoder(settings: EncoderSettings) -> StudyReport:
    """Reads the tree and the placed answers, compares the encoders and returns the report; see `encoder.run`."""
    taxonomy, part = settings.read_tree()
    answers = None
    if settings.answers is not None:
        columns = AnnotatedColumns(settings.answer_column, settings.node_column)
        how = {"no_node": settings.no_node, "missing": settings.missing}
        answers = read_annotated(settings.answers, taxonomy, columns=columns, part=part, **how)
    return compare_encoders(taxonomy, settings, answers, part)


def compare_encoders(
    taxonomy: Taxonomy,
    settings: EncoderSettings,
    answers: AnnotatedAnswers | None = None,
    part: Domain | None = None,
) -> StudyReport:
    """Places texts of every level with every encoder and returns the report.

    Args:
        taxonomy: The tree.
        settings: What to compare.
        answers: Answers that people have placed on it, or None.
        part: What the tree is a part of; the scores on the whole are then added. None where it is the whole.

    Raises:
        TaxtuneError: As `taxtune.studies.encoder.placement.place_texts_by_encoder`.
    """
    levels, placed, tasks, encoders = place_texts_by_encoder(taxonomy, settings, answers)
    order = ["root", *levels.names]
    found = [scores for p in placed for scores in _by_level(taxonomy, p, order, settings)]
    language = _language(taxonomy, tasks, settings)
    choice, evidence = _recommendation(found, encoders, settings.metric)
    kinds = list(dict.fromkeys(scores.kind for scores in found))
    tables = [_verdicts([*found, *language], order, settings)]
    tables += [_kind_table(f"encoder-{i}", kind, found) for i, kind in enumerate(kinds, 1)]
    if part is not None:
        rows = {f"{p.texts.kind} ({p.way}, {e})": (v, p.texts.targets) for p in placed for e, v in p.nodes.items()}
        tables.append(both_trees_table(part, rows, "text (placed by, encoder)"))
    tables.append(_language_table(language))
    figures: dict[str, Any] = {"encoder-levels": partial(draw_levels, found, order)}
    if language:
        figures["encoder-language"] = partial(draw_language, language, order)
    return StudyReport(
        study="encoder",
        title="Which encoder places text best at each level of the taxonomy",
        settings={
            **settings.record(),
            "taxonomy": taxonomy.source,
            "root": None if part is None else "/".join(part.full.path(part.root)),
            "levels": list(levels.names),
            "level": levels.by,
            "confidence_level": _CONFIDENCE,
        },
        tables=tuple(table for table in tables if table.rows),
        figures=figures,
        notes=(*dict.fromkeys(note for p in placed for note in p.texts.notes), *evidence),
        data={
            "excluded": [] if answers is None else answers.excluded_records(),
            "recommendation": {
                "similarity": choice,
                "recipe": None if choice is None else recipe_lines(choice),
                "evidence": evidence,
            },
            "scores": [_record(scores) for scores in (*found, *language)],
        },
    )


def recipe_lines(similarity: str) -> str:
    """Returns the lines of a recipe, quoted where YAML needs it: a folder may have any name."""
    import yaml

    return yaml.safe_dump({"mapper": {"similarity": similarity}}, allow_unicode=True, width=10_000)


def said_by_level(best: Sequence[tuple[str, str]]) -> str:
    """Returns in words which encoder is best where: "lexical at genus and species; no evidence at kingdom".

    Args:
        best: The encoder, or `NO_EVIDENCE`, of each level, from the root down.
    """
    spans: dict[str, list[str]] = {}
    for winner, run in itertools.groupby(best, key=lambda pair: pair[1]):
        levels = [level for level, _ in run]
        span = levels[0] if len(levels) == 1 else f"{levels[0]} {'and' if len(levels) == 2 else 'to'} {levels[-1]}"
        spans.setdefault(winner, []).append(span)
    words = [
        f"{winner if winner == NO_EVIDENCE else f'{winner} is best'} at {', '.join(where)}"
        for winner, where in sorted(spans.items(), key=lambda item: item[0] == NO_EVIDENCE)
    ]
    return "; ".join(words)


def _by_level(
    taxonomy: Taxonomy, placed: PlacedTexts, order: Sequence[str], settings: EncoderSettings
) -> list[LevelScores]:
    targets = np.array(placed.texts.targets, dtype=np.int64)
    of = np.array(placed.texts.levels)
    present = [level for level in order if (of == level).any()]
    return [
        _scored(
            taxonomy,
            (placed.texts.kind, placed.way, level, None),
            {name: nodes[chosen] for name, nodes in placed.nodes.items()},
            targets[chosen],
            settings,
            len(present) + 1,
            settings.metric,
        )
        for level in (*present, ALL)
        for chosen in [np.flatnonzero((of == level) | (level == ALL))]
        if len(chosen)
    ]


def _language(taxonomy: Taxonomy, tasks: Sequence[LanguageTask], settings: EncoderSettings) -> list[LevelScores]:
    counts = {names: sum(task.names == names for task in tasks) for names in {task.names for task in tasks}}
    return [
        _scored(
            taxonomy,
            ("language only", task.names, task.level, len(task.classes)),
            task.nodes,
            task.targets,
            settings,
            counts[task.names],
            "accuracy",
        )
        for task in tasks
    ]


def _scored(
    taxonomy: Taxonomy,
    head: tuple[str, str, str, int | None],
    nodes: Mapping[str, IntArray],
    targets: IntArray,
    settings: EncoderSettings,
    rows: int,
    metric: str,
) -> LevelScores:
    """Scores every encoder and every pair.

    The intervals of the differences are widened (Bonferroni) so that those of all `rows` levels and all pairs of
    encoders hold together with the confidence asked for.
    """
    kind, way, level, classes = head
    largest = None if classes is None else float(np.unique(targets, return_counts=True)[1].max() / len(targets))
    pairs = list(itertools.combinations(nodes, 2))
    alpha = (1 - _CONFIDENCE) / max(1, rows * len(pairs))
    told = {"resamples": settings.resamples, "seed": settings.seed}
    samples = {name: hierarchical_sample(taxonomy, column, targets) for name, column in nodes.items()}
    scores = {name: bootstrap(sample, confidence=_CONFIDENCE, **told) for name, sample in samples.items()}
    differences = {(a, b): paired_bootstrap((samples[a], samples[b]), confidence=1 - alpha, **told) for a, b in pairs}
    return LevelScores(
        kind,
        way,
        level,
        len(targets),
        classes,
        largest,
        scores,
        differences,
        _best(list(nodes), {pair: found[metric] for pair, found in differences.items()}, alpha),
    )


def _best(encoders: Sequence[str], differences: Mapping[tuple[str, str], PairedDifference], alpha: float) -> str:
    """Returns the encoder that beats every other one, or `NO_EVIDENCE`."""

    def beats(a: str, b: str) -> bool:
        found = differences.get((a, b)) or -differences[b, a]
        return found.difference > 0 and found.p_value < alpha

    if len(encoders) < 2:
        return NO_EVIDENCE
    return next((a for a in encoders if all(beats(a, b) for b in encoders if b != a)), NO_EVIDENCE)


def _recommendation(
    found: Sequence[LevelScores], encoders: Mapping[str, str], metric: str
) -> tuple[str | None, list[str]]:
    """Returns the similarity that a recipe should take, or None, and the sentences that say why."""
    if len(encoders) < 2:
        return None, ["There is only one encoder; add another with --encoder to compare."]
    evidence = []
    for kind, way in dict.fromkeys((scores.kind, scores.way) for scores in found):
        rows = [(s.level, s.best) for s in found if (s.kind, s.way) == (kind, way)]
        evidence.append(f"{kind}, {way}: {said_by_level([row for row in rows if row[0] != ALL])}")
    # A recipe has one similarity for all levels, and uses it inside the mapper.
    overall = [s for s in found if s.way == MAPPER and s.level == ALL]
    winners = {s.kind: s for s in overall if s.best != NO_EVIDENCE}
    distinct = sorted({s.best for s in winners.values()})
    if len(distinct) == 1:
        better = "; ".join(f"{kind} ({_trade(scores)})" for kind, scores in winners.items())
        silent = [s.kind for s in overall if s.kind not in winners]
        rest = f"; no evidence on {', '.join(map(repr, silent))}" if silent else ""
        evidence.append(
            f"For a recipe: {distinct[0]} has the higher {_NAMES[metric]} over all levels on {better}{rest}."
        )
        return encoders[distinct[0]], evidence
    if distinct:
        split = "; ".join(f"{scores.best} on {kind}" for kind, scores in winners.items())
        evidence.append(
            f"For a recipe: the kinds of text disagree ({split}); choose by the kind that is most like your answers."
        )
        return None, evidence
    cheap = " lexical needs no model." if "lexical" in encoders.values() else ""
    evidence.append(f"For a recipe: no evidence that the mapper's similarity matters on this tree.{cheap}")
    return None, evidence


def _trade(scores: LevelScores) -> str:
    """Returns what the best encoder gains or loses against the next one, metric by metric."""
    best = scores.best
    next_best = max((n for n in scores.scores if n != best), key=lambda n: scores.scores[n]["hf"].estimate)
    gains = (scores.scores[best][m].estimate - scores.scores[next_best][m].estimate for m in _NAMES)
    said = ", ".join(f"{name} {gain:+.3f}".replace("-", "−") for name, gain in zip(_NAMES.values(), gains, strict=True))
    return f"{said} against {next_best}" if len(scores.scores) > 2 else said


def _verdicts(found: Sequence[LevelScores], order: Sequence[str], settings: EncoderSettings) -> Table:
    levels = [level for level in (*order, ALL) if any(s.level == level for s in found)]
    best = {(s.kind, s.way, s.level): s.best for s in found}
    heads = list(dict.fromkeys((s.kind, s.way) for s in found))
    return Table(
        "encoder",
        "Which encoder is better, and where there is evidence",
        ("text", "placed by", *levels),
        tuple((kind, way, *(best.get((kind, way, level)) for level in levels)) for kind, way in heads),
        notes=(
            f"An encoder is named if its {_NAMES[settings.metric]} (language only: accuracy) is higher than that of "
            f"every other encoder and the interval of the paired difference excludes 0; the intervals of a row hold "
            f"jointly with {_CONFIDENCE:.0%} confidence.".replace("%", " %"),
        ),
    )


def _kind_table(name: str, kind: str, found: Sequence[LevelScores]) -> Table:
    columns = ("placed by", "level", "n", "encoder", "hP", "hR", "hF", "hF low", "hF high")
    rows: list[tuple[Cell, ...]] = [
        (
            one.way, one.level, one.n, encoder, s["hp"].estimate, s["hr"].estimate,
            *(value for m in ("hf", "accuracy") for value in (s[m].estimate, s[m].low, s[m].high)),
        )
        for one in found
        if one.kind == kind
        for encoder, s in one.scores.items()
    ]  # fmt: skip
    return Table(name, f"Text: {kind}", (*columns, "accuracy", "acc. low", "acc. high"), tuple(rows))


def _language_table(found: Sequence[LevelScores]) -> Table:
    return Table(
        "encoder-language",
        "Language only: a leaf's name to its ancestor at each level, top-1 (paper 3, Appendix B)",
        ("leaf's name", "level", "classes", "largest", "n", "encoder", "accuracy", "low", "high"),
        tuple(
            (one.way, one.level, one.classes, one.largest, one.n, encoder, top.estimate, top.low, top.high)
            for one in found
            for encoder, scores in one.scores.items()
            for top in (scores["accuracy"],)
        ),
        notes=("largest: the accuracy of always answering the most frequent class.",),
    )


def _record(scores: LevelScores) -> dict[str, Any]:
    record = asdict(scores)
    differences = record.pop("differences").items()
    return {
        "text": record.pop("kind"),
        **record,
        "differences": [{"first": a, "second": b, **by_metric} for (a, b), by_metric in differences],
    }
