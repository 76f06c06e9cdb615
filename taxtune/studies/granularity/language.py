"""Fine and coarse classes by their text alone: the form of language only of paper 3 (Table 6).

The text of a fine class is classified instead of an image, by an encoder of texts or a chat model.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from taxtune.encoders.base import TextEncoder
from taxtune.models import Answer, AnswerStore, Model, Request, ask
from taxtune.report.output import StudyReport, Table
from taxtune.resources import prompts_dir
from taxtune.studies.embedding import (
    check_vectors,
    distinct_names,
    embed_labels,
    make_encoder,
    read_label_prompts,
    rounded,
    shown_name,
)
from taxtune.studies.frames import records
from taxtune.studies.granularity.classes import (
    Classified,
    Grouping,
    draw_accuracies,
    top_one,
)
from taxtune.studies.granularity.settings import GranularitySettings
from taxtune.studies.output import frame_table

__all__ = ["ask_models", "chosen_class", "language_chat", "language_only", "language_report"]


def ask_models(settings: GranularitySettings, grouping: Grouping) -> list[Classified]:
    """Classifies the fine names by their text, with each encoder and chat model of the settings."""
    templates = read_label_prompts(settings.templates or "label")
    results = []
    for spec in settings.model:
        if spec.startswith("llm:"):
            results.append(_ask_chat(spec, settings, grouping))
        else:
            results.append(language_only(make_encoder(spec, settings), grouping, templates))
    return results


def _ask_chat(spec: str, settings: GranularitySettings, grouping: Grouping) -> Classified:
    from taxtune.models import ModelSettings, check_model, make_model, open_replies

    model_settings = ModelSettings(
        task="text-generation",
        api_base=settings.api_base,
        concurrency=settings.concurrency,
        device=settings.device,
        max_tokens=64,
    )
    llm = make_model(spec.removeprefix("llm:"), model_settings)
    check_model(llm)
    with open_replies(settings.cache_dir) as store:
        return language_chat(llm, shown_name(spec), grouping, store=store)


def language_only(encoder: TextEncoder, grouping: Grouping, templates: Sequence[str]) -> Classified:
    """Classifies each fine class as the coarse class whose text is nearest to its own.

    The embeddings of a label's prompts, one per template, are averaged.

    Raises:
        ModelError: If the encoder gives no vector for a class.
    """
    fine = embed_labels(encoder, templates, grouping.names[grouping.fine].tolist())
    coarse = embed_labels(encoder, templates, grouping.names[grouping.coarse].tolist())
    check_vectors(encoder.name, {"fine classes": fine, "coarse classes": coarse})
    scores = rounded(fine @ coarse.T)
    credit = pd.DataFrame({"accuracy": top_one(scores, grouping.parent)})
    return Classified(shown_name(encoder.name), credit, [], scores.argmax(axis=1))


def language_chat(
    llm: Model, name: str, grouping: Grouping, *, store: AnswerStore | None = None
) -> Classified:
    """Classifies each fine class as the coarse class that a chat model names (the generative row of the table).

    A reply that names no class, or several, and a failed call are unscored and counted, never wrong.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(prompts_dir() / "granularity")
    environment = Environment(loader=loader, undefined=StrictUndefined)
    template = environment.get_template("coarse_class.j2")
    kinds = grouping.names[grouping.coarse].tolist()
    prompts = [template.render(kinds=kinds, thing=thing) for thing in grouping.names[grouping.fine]]
    replies = ask(llm, [Request(prompt) for prompt in prompts], store)
    chosen = np.full(len(replies), -1, dtype=np.int64)
    failed = unclear = 0
    for i, reply in enumerate(replies):
        if not isinstance(reply, Answer):
            failed += 1
            continue
        chosen[i] = chosen_class(reply.text, kinds)
        unclear += chosen[i] < 0
    notes = []
    for count, what in ((unclear, "replies name no class or several"), (failed, "calls failed")):
        if count:
            notes.append(f"{name}: {count:,} of {len(replies):,} {what}: unscored.")
    accuracy = np.where(chosen < 0, np.nan, chosen == grouping.parent)
    return Classified(name, pd.DataFrame({"accuracy": accuracy}), notes, chosen)


def chosen_class(reply: str, kinds: Sequence[str]) -> int:
    """Returns the position of the class that a reply names, or -1 if it names none or several.

    A reply that is a class's name counts as it is; otherwise the one name that stands in it on word boundaries, where
    a name inside a longer one ("fish" in "food fish") does not count.
    """
    plain = reply.strip().strip(".*\"'`-: ").casefold()
    folded = [kind.casefold() for kind in kinds]
    named = {plain} & set(folded)
    if not named:
        longest_first = sorted(set(folded), key=len, reverse=True)
        names = "|".join(map(re.escape, longest_first))
        named = set(re.findall(rf"(?<!\w)(?:{names})(?!\w)", reply.casefold()))
    positions = [i for i, kind in enumerate(folded) if kind in named]
    return positions[0] if len(positions) == 1 else -1


def language_report(
    results: Sequence[Classified], grouping: Grouping, settings: GranularitySettings
) -> StudyReport:
    """Returns the report of the language-only form, from one or more models' choices."""
    rows: list[dict[str, Any]] = []
    classes = []
    choices = {}
    names = distinct_names([result.name for result in results])
    for name, result in zip(names, results, strict=True):
        of_result = _choices(result, grouping)
        choices[name] = records(of_result)
        classes.append(_by_class(of_result, result.chosen, grouping).assign(encoder=name))
        interval = result.intervals(settings)["accuracy"]
        rows.append({"name": name, "series": ""} | asdict(interval))
    accuracies = pd.DataFrame(rows)
    scored = [int(result.credit["accuracy"].notna().sum()) for result in results]
    notes = list(grouping.notes)
    for result in results:
        notes += result.notes
    counts = Counter(grouping.names[grouping.coarse].tolist())
    alike = [f"{kind!r} ({count})" for kind, count in counts.items() if count > 1]
    if alike:
        cannot = "Coarse classes that share a name cannot be distinguished and share the credit"
        notes.append(f"{cannot}: {', '.join(alike)}.")
    by_class = pd.concat(classes, ignore_index=True)
    by_class.insert(0, "encoder", by_class.pop("encoder"))
    return StudyReport(
        study="granularity",
        title="Does the text of a fine class reveal its coarse class?",
        settings=settings.record(),
        tables=(
            _accuracy_table(accuracies, scored, grouping, settings.resamples),
            frame_table("classes", "The same by coarse class", by_class, digits={"accuracy": 1}),
        ),
        figures={"language": partial(draw_accuracies, accuracies)},
        notes=tuple(notes),
        data={"sorted": choices},
    )


def _choices(result: Classified, grouping: Grouping) -> pd.DataFrame:
    """Returns a row per fine class: fine, coarse, chosen (None for no choice) and credit."""
    coarse = grouping.names[grouping.coarse]
    choices = pd.DataFrame({"fine": grouping.names[grouping.fine]})
    choices["coarse"] = coarse[grouping.parent]
    chosen = [None if i < 0 else coarse[i] for i in result.chosen]
    choices["chosen"] = pd.Series(chosen, dtype=object)
    choices["credit"] = result.credit["accuracy"]
    return choices


def _by_class(choices: pd.DataFrame, chosen: NDArray[np.int64], grouping: Grouping) -> pd.DataFrame:
    """Returns a row per coarse class, the largest first: how many of its fine classes are right, and the mistakes."""
    sizes = np.bincount(grouping.parent, minlength=len(grouping.coarse))
    rows = []
    for i in np.argsort(-sizes, kind="stable").tolist():
        is_own = grouping.parent == i
        own = choices[is_own]
        mistaken = own.loc[chosen[is_own] != i, "chosen"].value_counts().sort_index()
        row = {"coarse class": grouping.names[grouping.coarse[i]], "fine classes": len(own)}
        row["accuracy"] = 100 * own["credit"].mean()
        row["mistaken for"] = "–"
        if len(mistaken):
            row["mistaken for"] = f"{mistaken.idxmax()} ({mistaken.max()})"
        rows.append(row)
    return pd.DataFrame(rows)


def _accuracy_table(
    accuracies: pd.DataFrame, scored: Sequence[int], grouping: Grouping, resamples: int
) -> Table:
    coarse = grouping.names[grouping.coarse]
    sizes = np.bincount(grouping.parent, minlength=len(coarse))
    cells = pd.DataFrame({"encoder": accuracies["name"]})
    cells[["accuracy", "low", "high"]] = 100 * accuracies[["estimate", "low", "high"]]
    cells["scored"] = scored
    cells["unscored"] = len(grouping.fine) - cells["scored"]
    return frame_table(
        "language",
        "Fine names assigned to coarse classes by their text: accuracy in % (paper 3, Table 6)",
        cells,
        f"{len(grouping.fine):,} fine and {len(coarse):,} coarse classes. A random guess is right in "
        f"{100 / len(coarse):.2f} %; always answering {coarse[sizes.argmax()]!r}, in "
        f"{100 * sizes.max() / len(grouping.fine):.2f} %.",
        f"95 % percentile bootstrap over the fine classes, {resamples:,} resamples.",
        digits=2,
    )
