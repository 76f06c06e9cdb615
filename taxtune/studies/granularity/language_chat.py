"""A chat model sorts fine names into coarse classes: the generative row of paper 3, Table 6."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from taxtune.metrics.statistics import Sample, bootstrap
from taxtune.models import Answer, AnswerStore, Model, Request, ask
from taxtune.resources import prompts_dir
from taxtune.studies.granularity.label_prompts import label_texts
from taxtune.studies.granularity.two_level import Grouping, LanguageOnly
from taxtune.taxonomy.tree import Taxonomy

__all__ = ["chosen_class", "language_chat"]


def language_chat(
    llm: Model,
    name: str,
    taxonomy: Taxonomy,
    grouping: Grouping,
    *,
    names: str = "common",
    store: AnswerStore | None = None,
    resamples: int = 1000,
    seed: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
) -> LanguageOnly:
    """Returns how often a chat model names the coarse class of a fine name.

    A reply that names no class, or several, and a failed call are unscored and counted, never wrong.

    Args:
        llm: The chat model.
        name: How it is called in the table.
        taxonomy: The tree.
        grouping: The fine and the coarse classes.
        names: Which name of a node stands in the prompt; see `label_texts`.
        store: Where replies are kept, or None.
        resamples: Bootstrap resamples of the fine classes; 0 for no interval.
        seed: Seed of the resampling.
        on_progress: Called with how many replies are there and how many of them were there before.
    """
    texts = label_texts(taxonomy, names)
    kinds = [texts[i] for i in grouping.coarse.tolist()]
    render = _template()
    prompts = [render(kinds, texts[i]) for i in grouping.fine.tolist()]
    replies = ask(llm, [Request(prompt) for prompt in prompts], store, on_progress=on_progress)
    chosen = np.array(
        [chosen_class(reply.text, kinds) if isinstance(reply, Answer) else -1 for reply in replies], dtype=np.int64
    )
    failed = sum(not isinstance(reply, Answer) for reply in replies)
    unclear = int((chosen < 0).sum()) - failed
    credit = np.where(chosen < 0, np.nan, chosen == grouping.parent)
    notes = []
    if unclear:
        notes.append(f"{name}: {unclear:,} of {len(replies):,} replies name no class or several: unscored.")
    if failed:
        notes.append(f"{name}: {failed:,} of {len(replies):,} calls failed: unscored.")
    return LanguageOnly(
        name, bootstrap(Sample({"": credit}), resamples=resamples, seed=seed)[""], credit, chosen, tuple(notes)
    )


def chosen_class(reply: str, kinds: Sequence[str]) -> int:
    """Returns the position of the class that a reply names, or -1 if it names none or several.

    A reply that is a class's name counts as it is; otherwise the one name that stands in it on word boundaries, where
    a name inside a longer one ("fish" in "food fish") does not count.
    """
    plain = reply.strip().strip(".*\"'`-: ").casefold()
    folded = [kind.casefold() for kind in kinds]
    if folded.count(plain) == 1:
        return folded.index(plain)
    rest = reply.casefold()
    named: set[str] = set()
    for kind in sorted(set(folded), key=len, reverse=True):
        rest, found = re.subn(rf"(?<!\w){re.escape(kind)}(?!\w)", " ; ", rest)
        if found:
            named.add(kind)
    if len(named) != 1:
        return -1
    kind = named.pop()
    return folded.index(kind) if folded.count(kind) == 1 else -1


def _template() -> Callable[[Sequence[str], str], str]:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(prompts_dir() / "granularity"), undefined=StrictUndefined, keep_trailing_newline=False
    )
    template = environment.get_template("coarse_class.j2")
    return lambda kinds, thing: template.render(kinds=kinds, thing=thing)
