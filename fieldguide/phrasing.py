"""Prompts in many wordings, what each of them asks for, and the answer that it deserves.

The embedded model learns to listen from these. A prompt is put together from parts (question, role,
care, back-off, form of the answer, ...) whose wordings stand in `phrasings.yaml`. Each part says
what it asks for; `Intent` is the sum.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from fieldguide.species import Species, families, orders, root_names

__all__ = [
    "BASELINE",
    "RANKS",
    "Intent",
    "answer_text",
    "choose_rank",
    "expand",
    "held_out_prompts",
    "intent_of",
    "load_phrasings",
    "sample_prompt",
]

#: The prompt of iteration 0, which every tuning run starts from.
BASELINE = "What is this an image of? Answer in the format 'A: <answer>.'"

#: The ranks that an answer can have, the most specific first.
RANKS = ("species", "family", "order", "class")

_FILE = Path(__file__).resolve().parent / "phrasings.yaml"

#: How sure one must be of the species, and of the family or order, before naming it, by
#: carefulness.
_CAREFULNESS = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)
_SURE_OF_SPECIES = (0.0, 0.38, 0.54, 0.72, 0.88, 0.96)
_SURE_OF_GROUP = (0.0, 0.0, 0.40, 0.70, 0.86, 0.94)

#: The carefulness of a prompt that asks for nothing in particular.
_PLAIN = 1.0


@dataclass(frozen=True, slots=True)
class Intent:
    """What a prompt asks for.

    Attributes:
        care: Carefulness: 0 or less always names a species, 1 is the plain question, 3 backs off
            when unsure, 5 is as careful as can be.
        level: A rank that is asked for whatever the picture shows, or None.
        drop: "class" if doubt is to lead straight to "bird" and not to family or order; else None.
        latin: Whether scientific names are wanted.
        form: The form of the answer: "tagged" (A: x.), "answer" (Answer: x), "bare", "sentence" or
            "json".
    """

    care: float = _PLAIN
    level: str | None = None
    drop: str | None = None
    latin: bool = False
    form: str = "sentence"


@cache
def load_phrasings() -> dict[str, Any]:
    """Returns the content of `phrasings.yaml`."""
    table: dict[str, Any] = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return table


def held_out_prompts() -> dict[str, list[str]]:
    """Returns whole prompts that no model was trained on, by what they ask for."""
    return {kind: list(prompts) for kind, prompts in load_phrasings()["held_out"].items()}


# -- wordings --------------------------------------------------------------------------------------


def expand(text: str, rng: np.random.Generator) -> str:
    """Picks one wording of a small grammar, in which (a|b|) stands for a, b or nothing and may be nested."""
    while True:
        group = re.search(r"\(([^()]*)\)", text)
        if group is None:
            return re.sub(r"\s+", " ", text).strip()
        choices = group.group(1).split("|")
        text = (
            text[: group.start()] + choices[int(rng.integers(len(choices)))] + text[group.end() :]
        )


def _pick(entries: Sequence[Mapping[str, Any]], rng: np.random.Generator) -> Mapping[str, Any]:
    weights = np.array([float(entry.get("weight", 1)) for entry in entries])
    return entries[int(rng.choice(len(entries), p=weights / weights.sum()))]


def intent_of(parts: Sequence[Mapping[str, Any]]) -> Intent:
    """Sums up what the parts of a prompt ask for.

    An explicit level beats a policy, and a policy beats pushes: "be specific, but name the family
    when unsure" backs off, only a little less readily. A later form or naming beats an earlier one.
    """
    pushes = [float(part["push"]) for part in parts if "push" in part]
    policies = [float(part["policy"]) for part in parts if "policy" in part]
    if policies:
        up = sum(p for p in pushes if p > 0)
        down = sum(p for p in pushes if p < 0)
        care = max(policies) + 0.25 * (len(policies) - 1) + 0.3 * up + 0.4 * down
        care = max(care, min(1.75, max(policies)))
    else:
        care = _PLAIN + sum(pushes)
    levels = [str(part["level"]) for part in parts if "level" in part]
    # Only where every policy says so does doubt lead straight to the root.
    rules = [part for part in parts if "policy" in part]
    drop = "class" if rules and all(part.get("drop") == "class" for part in rules) else None
    latin = [bool(part["latin"]) for part in parts if "latin" in part]
    forms = [str(part["form"]) for part in parts if "form" in part]
    return Intent(
        care=min(max(care, -1.0), 5.0),
        level=levels[-1] if levels else None,
        drop=drop,
        latin=latin[-1] if latin else False,
        form=forms[-1] if forms else "sentence",
    )


def _examples(rng: np.random.Generator, birds: Sequence[Species]) -> list[str]:
    bird = birds[int(rng.integers(len(birds)))]
    group = families()[bird.family]
    ladder = [
        bird.names[0],
        group.names[0],
        (orders()[bird.order].names or (bird.order,))[0],
        "bird",
    ]
    keep = sorted(rng.choice(4, size=int(rng.integers(1, 4)), replace=False).tolist())
    return [ladder[i] for i in keep]


def _fragments() -> list[tuple[str, dict[str, str]]]:
    """The slots of the toolkit's own fragments: slot and the texts of its choices."""
    from taxtune.resources import prompts_dir

    table = yaml.safe_load(
        (prompts_dir() / "fragments" / "default.yaml").read_text(encoding="utf-8")
    )
    return [(slot["id"], {c["id"]: c["text"] for c in slot["choices"]}) for slot in table["slots"]]


@cache
def _held_out_fragments() -> frozenset[str]:
    """The texts of the fragments that are kept out of training, in lower case."""
    from jinja2 import Environment

    kept = load_phrasings()["fragments"]["held_out"]
    variables = {
        "question": "",
        "domain": "bird",
        "ranks": ["order", "family", "species"],
        "examples": [],
    }
    return frozenset(
        Environment().from_string(text).render(variables).strip().casefold()
        for slot, texts in _fragments()
        for choice, text in texts.items()
        if choice in kept.get(slot, {})
    )


@cache
def _trained_fragments() -> tuple[tuple[str, tuple[tuple[str, Mapping[str, Any]], ...]], ...]:
    trained = load_phrasings()["fragments"]["train"]
    slots = []
    for slot, texts in _fragments():
        known = trained.get(slot, {})
        slots.append((slot, tuple((texts[c], effect) for c, effect in known.items() if c in texts)))
    return tuple(slots)


def _from_fragments(
    rng: np.random.Generator, birds: Sequence[Species]
) -> tuple[list[str], list[Mapping[str, Any]]]:
    from jinja2 import Environment

    table = load_phrasings()
    # A question that stands for the recipe's own must ask for nothing in particular: its slot says
    # so.
    question = _pick(
        [entry for entry in table["question"] if entry.keys() <= {"text", "weight"}], rng
    )
    variables = {
        "question": expand(question["text"], rng) if rng.random() < 0.6 else "What bird is this?",
        "domain": "bird"
        if rng.random() < 0.9
        else str(rng.choice(["animal", "birds", "Aves", "creature"])),
        "ranks": [[], ["order", "family", "species"], ["class", "order", "family", "species"]][
            int(rng.choice(3, p=[0.1, 0.6, 0.3]))
        ],
        "examples": _examples(rng, birds) if rng.random() < 0.7 else [],
    }
    texts: list[str] = []
    effects: list[Mapping[str, Any]] = []
    environment = Environment()
    for slot, choices in _trained_fragments():
        if not choices or (slot != "question" and rng.random() < 0.45):
            continue
        source, effect = choices[int(rng.integers(len(choices)))]
        texts.append(environment.from_string(source).render(variables).strip())
        effects.append(effect)
    return texts, effects


#: How often a part of each kind is in a prompt.
_SHARE = {
    "role": 0.25,
    "specific": 0.26,
    "general": 0.08,
    "care": 0.30,
    "backoff": 0.30,
    "level": 0.07,
    "naming": 0.10,
    "form": 0.78,
    "filler": 0.20,
}


def _from_phrases(
    rng: np.random.Generator, birds: Sequence[Species]
) -> tuple[list[str], list[Mapping[str, Any]]]:
    table = load_phrasings()
    asked = [] if rng.random() < 0.03 else [_pick(table["question"], rng)]
    others = [_pick(table[kind], rng) for kind, share in _SHARE.items() if rng.random() < share]
    for kind in (
        "care",
        "specific",
        "backoff",
        "filler",
    ):  # now and then the same thing twice, in other words
        if rng.random() < 0.06:
            others.append(_pick(table[kind], rng))
    order = rng.permutation(len(others)) if rng.random() < 0.6 else np.arange(len(others))
    parts = [others[int(i)] for i in order]
    at = int(rng.integers(len(parts) + 1)) if rng.random() < 0.5 else 0
    parts[at:at] = asked
    if not parts:
        parts = [_pick(table["question"], rng)]
    texts = []
    for part in parts:
        text = expand(part["text"], rng)
        while text.casefold() in _held_out_fragments():
            text = expand(part["text"], rng)
        if "EXAMPLES" in text:
            names = _examples(rng, birds)
            quote = str(rng.choice(["", "'", '"']))
            text = text.replace("EXAMPLES", " or ".join(f"{quote}{name}{quote}" for name in names))
        texts.append(text)
    return texts, list(parts)


def _join(texts: Sequence[str], rng: np.random.Generator) -> str:
    style = rng.random()
    if style < 0.62:
        return " ".join(texts)
    if style < 0.80:
        return "\n".join(texts)
    if style < 0.88:
        return "\n\n".join(texts)
    marks = [f"{i + 1}. " for i in range(len(texts))] if style > 0.94 else ["- "] * len(texts)
    return "\n".join(mark + text for mark, text in zip(marks, texts, strict=True))


def _misspell(text: str, rng: np.random.Generator) -> str:
    letters = list(text)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(letters) - 1))
        if letters[at].isalpha() and letters[at + 1].isalpha():
            if rng.random() < 0.5:
                letters[at], letters[at + 1] = letters[at + 1], letters[at]
            else:
                letters[at] = ""
    return "".join(letters)


def sample_prompt(rng: np.random.Generator, birds: Sequence[Species]) -> tuple[str, Intent]:
    """Draws a prompt of the training set and what it asks for.

    Args:
        rng: Where the choice comes from.
        birds: The species whose names may serve as examples.

    Returns:
        The prompt and its intent.
    """
    kind = rng.random()
    if kind < 0.05:
        return BASELINE, Intent(form="tagged")
    texts, effects = _from_fragments(rng, birds) if kind < 0.30 else _from_phrases(rng, birds)
    prompt = " ".join(texts) if kind < 0.25 else _join(texts, rng)
    if rng.random() < 0.10:
        prompt = _misspell(prompt, rng)
    if rng.random() < 0.08:
        prompt = prompt.replace(".", "").strip() or prompt
    return prompt, intent_of(effects)


# -- answers ---------------------------------------------------------------------------------------


def choose_rank(intent: Intent, sureness: Mapping[str, float]) -> str:
    """Returns the rank that an answer should have.

    Args:
        intent: What the prompt asks for.
        sureness: For "species", "family" and "order", how likely the most likely one is the right
            one, 0..1.
    """
    if intent.level is not None:
        return intent.level
    if sureness["species"] >= np.interp(intent.care, _CAREFULNESS, _SURE_OF_SPECIES):
        return "species"
    if intent.drop is not None:
        return intent.drop
    needed = np.interp(intent.care, _CAREFULNESS, _SURE_OF_GROUP)
    return next((rank for rank in ("family", "order") if sureness[rank] >= needed), "class")


def _name(bird: Species, rank: str, latin: bool) -> str:
    if rank == "species":
        return bird.label if latin else bird.names[0]
    if rank == "class":
        label, names = root_names()
    else:
        group = families()[bird.family] if rank == "family" else orders()[bird.order]
        label = group.label
        names = group.names
    return label if latin or not names else names[0]


def answer_text(bird: Species, rank: str, *, latin: bool = False, form: str = "sentence") -> str:
    """Writes the answer that names a bird at a rank.

    Args:
        bird: Whom the picture shows.
        rank: One of `RANKS`.
        latin: Whether to give the scientific name; groups without a short English name have theirs
            in any case.
        form: As in `Intent`.

    Returns:
        The answer, such as "A: Blue Tit." or "This is a finch."
    """
    name = _name(bird, rank, latin)
    if form == "tagged":
        return f"A: {name}."
    if form == "answer":
        return f"Answer: {name}"
    if form == "json":
        return f'{{"answer": "{name}"}}'
    if form == "bare":
        return name
    article = "an" if name[0] in "AEIOUaeiou" and not name.startswith("Eu") else "a"
    return f"This is {article} {name}."
