"""The offline proposers: templates composed from fragments, at random or led by a model."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated

import numpy as np
import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo

from taxtune.data.context import Variable, blank
from taxtune.errors import ProposerError, TemplateError
from taxtune.policies.paths import FloatArray
from taxtune.recipe_file import load_yaml
from taxtune.resources import prompts_dir
from taxtune.tables import read_text
from taxtune.tuning.context import Known
from taxtune.tuning.proposers.base import Check, Goal, Proposal, ProposalFailed, Proposer
from taxtune.tuning.records import IterationRecord
from taxtune.tuning.template import Template

__all__ = ["Choice", "Fragments", "FragmentsProposer", "RandomProposer", "Slot", "read_fragments"]


_MOST = 1_000_000  # choices of all slots multiplied
_LOOKED_AT = 2_000  # compositions considered for one proposal; each check takes milliseconds
# What a record's noise may be, as a multiple of the variance of a choice's effect.
_NOISE = 2.0 ** np.arange(-6, 9, 0.5)
# How many times wider the prior of the mean of all compositions is than that of an effect.
_CONSTANT = 3.0
_RECORDED = 20  # refusals that go into the record
_UNLED = 8  # compositions that are scored before the model leads


def _checked_piece(text: str, info: ValidationInfo) -> str:
    """Returns a piece of a template that can be parsed.

    Raises:
        ValueError: If it cannot.
    """
    try:
        if text.strip():
            Template.parse(text, info.context)
    except TemplateError as error:
        raise ValueError(str(error)) from None
    return text


_Id = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=40)]
_Compositions = list[dict[str, str]]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Choice(_Model):
    """One sentence of a slot.

    Attributes:
        id: Its name in the record; lower-case letters, digits and underscores.
        text: A piece of a Jinja template, complete in itself; empty to leave the slot out.
        stance: The answer that it wants, in one word ("bold", "careful"); choices of different
            stances contradict each other and never stand in one template. None goes with any.
    """

    id: _Id
    text: Annotated[str, Field(max_length=1_000), AfterValidator(_checked_piece)]
    stance: _Id | None = None


class Slot(_Model):
    """One place in a template: its name in the record, its purpose, and its possible sentences.

    Raises:
        ValueError: If two choices have one id.
    """

    id: _Id
    about: str = ""
    choices: Annotated[tuple[Choice, ...], Field(min_length=1)]

    def model_post_init(self, _: object) -> None:
        """Checks the ids of the choices."""
        _distinct(choice.id for choice in self.choices)


class Fragments(_Model):
    """Slots in their order in a template; `name` is that of the file that they were read from.

    Raises:
        ValueError: If two slots have one id, a slot has no choice that goes with a stance, or there
            are too many.
    """

    name: str = ""
    slots: Annotated[tuple[Slot, ...], Field(min_length=1)]

    def model_post_init(self, _: object) -> None:
        """Checks the ids of the slots, and that each stance can be taken."""
        _distinct(slot.id for slot in self.slots)
        stances = {choice.stance: None for slot in self.slots for choice in slot.choices}
        for stance in stances:
            for slot in self.slots:
                if stance and not any(c.stance in (None, stance) for c in slot.choices):
                    raise ValueError(
                        f"slot {slot.id!r} needs a choice without a stance: none goes with "
                        f"{stance!r}"
                    )
        if math.prod(len(slot.choices) for slot in self.slots) > _MOST:
            raise ValueError(
                f"the choices of all slots make more than {_MOST:,} combinations; leave some out"
            )

    @cached_property
    def _chosen(self) -> list[tuple[Choice, ...]]:
        """The choices of each composition without contradiction."""
        compositions = []
        for choices in itertools.product(*(slot.choices for slot in self.slots)):
            stances = {choice.stance for choice in choices}
            if len(stances - {None}) < 2:
                compositions.append(choices)
        return compositions

    @property
    def compositions(self) -> int:
        """The number of ways to choose without contradiction."""
        return len(self._chosen)

    def parameters(self, number: int) -> dict[str, str]:
        """Returns the composition of a number from 0 to `compositions` - 1: a choice by slot."""
        choices = zip(self.slots, self._chosen[number], strict=True)
        return {slot.id: choice.id for slot, choice in choices}

    def compose(self, parameters: Mapping[str, str]) -> str:
        """Returns the template of a choice by slot: the texts in order, joined with a space."""
        texts = []
        for slot in self.slots:
            for choice in slot.choices:
                if choice.id == parameters[slot.id] and choice.text.strip():
                    texts.append(choice.text.strip())
        return " ".join(texts)

    def with_context(self, context: tuple[Variable, ...]) -> Fragments:
        """Returns the fragments with a last slot that tells what is known of the image.

        Its choices are nothing, each variable, and all. Fragments that use any of the variables
        themselves stay as they are.
        """
        kinds = blank(context)
        used: set[str] = set()
        for slot in self.slots:
            for choice in slot.choices:
                if choice.text:
                    used |= Template.parse(choice.text, kinds).variables
        if not context or used & kinds.keys():
            return self
        sentences = [_sentence(variable) for variable in context]
        texts = {"none": ""}
        for number, sentence in enumerate(sentences, 1):
            texts[f"known_{number}"] = sentence
        if len(sentences) > 1:
            texts["all"] = " ".join(sentences)
        choices = [Choice.model_construct(id=name, text=text) for name, text in texts.items()]
        slot = Slot(id="context", choices=tuple(choices))
        return Fragments(name=self.name, slots=(*self.slots, slot))

    def digest(self) -> str:
        """Returns a hash of all that decides which templates there are."""
        content = []
        for slot in self.slots:
            choices = [[choice.id, choice.text, choice.stance] for choice in slot.choices]
            content.append([slot.id, choices])
        text = json.dumps(content)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@lru_cache(maxsize=8)
def _with_context(fragments: Fragments, context: tuple[Known, ...]) -> Fragments:
    return fragments.with_context(tuple(known.variable for known in context))


def _sentence(variable: Variable) -> str:
    """Returns a sentence that tells a variable of an image that has it."""
    name = variable.name
    meaning = re.sub(r"[{}%#]", "", variable.meaning).strip(" .:")
    meaning = meaning or name.replace("_", " ")
    condition = f"{name} or {name} == 0" if variable.kind == "number" else name
    value = f"{name} | join(', ')" if variable.kind == "list" else name
    words = f"{meaning[:1].upper()}{meaning[1:]}: {{{{ {value} }}}}."
    return f"{{% if {condition} %}}{words}{{% endif %}}"


def read_fragments(source: str | Path = "default", context: Sequence[Variable] = ()) -> Fragments:
    """Reads a fragment file.

    Args:
        source: Name of a file in `prompts/fragments/` without its ending, or the path of a YAML
            file.
        context: Variables that the fragments may use besides those of every template.

    Raises:
        ProposerError: The file is missing, is not YAML or does not have the right form; file and
            key are named.
    """
    known = prompts_dir() / "fragments"
    file = Path(source).expanduser()
    file = file if file.is_file() else known / f"{source}.yaml"
    if not file.is_file():
        stems = sorted(path.stem for path in known.glob("*.yaml"))
        names = ", ".join(stems)
        remedy = f"Give the path of a YAML file, or one of: {names}."
        raise ProposerError(f"There are no fragments {str(source)!r}.", remedy=remedy)
    try:
        content = load_yaml(read_text(file, error=ProposerError, what="fragments"))
        fragments = Fragments.model_validate(content, context=blank(context))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"])) or "the whole file"
        value = first["input"]
        is_plain = isinstance(value, str | int | float | bool)
        raise ProposerError(
            f"{key}: {first['msg']}.",
            file=file,
            value=value if is_plain else None,
            remedy="A fragment file has 'slots', each with an 'id' and 'choices'; each choice has "
            "'id' and 'text', and a 'stance' where it contradicts others.",
        ) from None
    except (yaml.YAMLError, RecursionError) as error:
        problem = " ".join(str(error).split())
        raise ProposerError(f"The fragments cannot be read: {problem}.", file=file) from None
    return fragments.model_copy(update={"name": file.stem})


def _distinct(ids: Iterable[str]) -> None:
    """Raises a `ValueError` if an id is there twice."""
    for name, count in Counter(ids).items():
        if count > 1:
            raise ValueError(f"the id {name!r} is given twice")


class RandomProposer(Proposer):
    """Composes templates at random, uniformly among the compositions that were not tried.

    A composition has one choice of every slot. The scores teach it nothing, so it is the proposer
    that any other must beat.

    Args:
        fragments: Name of a file in `prompts/fragments/` without its ending, the path of a YAML
            file, or `Fragments`.
        context: What fragments of a file may use of each image.
    """

    name = "random"

    def __init__(
        self, fragments: str | Path | Fragments = "default", context: Sequence[Variable] = ()
    ) -> None:
        if not isinstance(fragments, Fragments):
            fragments = read_fragments(fragments, context)
        self.fragments = fragments

    def identity(self) -> dict[str, str | int | float | None]:
        """Returns the fragments' name and the hash of their content."""
        return {
            "kind": self.name,
            "fragments": self.fragments.name,
            "fragments_digest": self.fragments.digest(),
        }

    def propose(
        self,
        history: Sequence[IterationRecord],
        goal: Goal,
        *,
        iteration: int,
        seed: int,
        check: Check,
    ) -> Proposal:
        """Returns a composition that passes `check`; see `Proposer.propose`.

        Raises:
            ProposalFailed: Every composition was refused; `final` if there are no others.
        """
        salt = repr((seed, iteration))
        digest = hashlib.sha256(salt.encode()).digest()
        draw = random.Random(int.from_bytes(digest[:8]))
        fragments = _with_context(self.fragments, goal.context)
        total = fragments.compositions
        drawn = draw.sample(range(total), min(total, _LOOKED_AT))
        tried = {frozenset(record.parameters.items()) for record in history}
        untried = []
        for parameters in map(fragments.parameters, drawn):
            if frozenset(parameters.items()) not in tried:
                untried.append(parameters)
        refused: list[tuple[str, str]] = []
        for parameters in self._ordered(untried, history, goal, draw):
            template = fragments.compose(parameters)
            try:
                check(template)
            except TemplateError as error:
                refused.append((template, str(error)))
                continue
            return Proposal(template, parameters, rejected=tuple(refused[:_RECORDED]))
        is_final = len(drawn) == total
        which = f"{len(drawn):,} combinations in a row"
        if is_final:
            which = f"All {total:,} combinations of the fragments"
        reason = f"{which} have already been tried or are rejected"
        reason += f"; the last reason: {refused[-1][1]}" if refused else "."
        raise ProposalFailed(reason, rejected=tuple(refused[:_RECORDED]), final=is_final)

    def _ordered(
        self,
        compositions: _Compositions,
        history: Sequence[IterationRecord],
        goal: Goal,
        draw: random.Random,
    ) -> _Compositions:
        """Returns the compositions, which come in random order, in the order of their checks."""
        return compositions


class FragmentsProposer(RandomProposer):
    """Composes the template of which a model of the choices' effects expects most.

    The objective's main score and the score of each constraint are modelled apart, each as a sum of
    effects of the choices, by Bayesian ridge regression (MacKay, 1992), which estimates from the
    records how large the effects are and how noisy a record is. One draw from the posterior decides
    (Thompson, 1933), so that choices of which little is known are tried too: of the compositions
    that meet the constraints in that draw, the one with the highest aim.

    A record counts by its number of answers. Those of equally many images were asked about the same
    ones, which may be easy or hard; so that number is in the model like one more choice, and
    predictions are for the largest.

    Until eight compositions are scored it draws as `RandomProposer` does, whose arguments it takes.
    """

    name = "fragments"

    def _ordered(
        self,
        compositions: _Compositions,
        history: Sequence[IterationRecord],
        goal: Goal,
        draw: random.Random,
    ) -> _Compositions:
        # The baseline is no composition.
        scored = [record for record in history if record.scores is not None and record.parameters]
        if len(scored) < _UNLED or not compositions:
            return compositions
        scores = [record.scores for record in scored if record.scores is not None]
        images = [len(record.rows) for record in scored]
        lengths = np.unique(images)
        slots = _with_context(self.fragments, goal.context).slots
        features = _features(slots, [record.parameters for record in scored])
        known = np.hstack([features, np.equal.outer(images, lengths)])
        largest = np.tile(lengths == lengths[-1], (len(compositions), 1))
        asked = np.hstack([_features(slots, compositions), largest])
        answers = np.array([score.n for score in scores], dtype=np.float64)
        weights = answers / answers.max()
        rng = np.random.default_rng(draw.getrandbits(64))

        def drawn(values: list[float]) -> FloatArray:
            return _drawn_values(known, np.array(values), weights, asked, rng)

        baselines = (record.scores for record in history if record.iteration == 0)
        baseline = next(baselines, None)
        missed = np.zeros(len(compositions))
        for constraint in goal.objective.constraints:
            held = drawn([score.get(constraint.measure) for score in scores])
            missed += np.maximum(constraint.bound(baseline) - held, 0.0)
        aimed = drawn([goal.objective.aimed(score) for score in scores])
        return [compositions[i] for i in np.lexsort((-aimed, missed))]


def _features(slots: Sequence[Slot], compositions: Sequence[Mapping[str, str]]) -> FloatArray:
    """Returns which choices each composition has, 0 or 1, and a constant.

    Returns:
        Shape (compositions, choices in all + 1).
    """
    choices = [(slot.id, choice.id) for slot in slots for choice in slot.choices]
    column = {choice: index for index, choice in enumerate(choices)}
    features = np.zeros((len(compositions), len(choices) + 1))
    features[:, -1] = _CONSTANT
    for row, parameters in enumerate(compositions):
        for choice in parameters.items():
            features[row, column[choice]] = 1.0
    return features


def _drawn_values(
    known: FloatArray,
    values: FloatArray,
    weights: FloatArray,
    asked: FloatArray,
    rng: np.random.Generator,
) -> FloatArray:
    """Returns values in one draw from the posterior of a Bayesian ridge regression, shape (m,).

    Args:
        known: Features of the compositions with a value, shape (n, features).
        values: Their values, shape (n,).
        weights: Their weights, shape (n,).
        asked: Features of the compositions in question, shape (m, features).
        rng: Draws.
    """
    centre = np.average(values, weights=weights)
    root = np.sqrt(weights)
    left, size, right = np.linalg.svd(known * root[:, None], full_matrices=False)
    along = left.T @ ((values - centre) * root)
    total = np.sum(weights * (values - centre) ** 2)
    beside = max(float(total - along @ along), 0.0)
    # The evidence for each ratio of noise to effects, at the variance of the effects that suits it
    # best.
    spread = size**2 + _NOISE[:, None]
    variance = (np.sum(along**2 / spread, axis=1) + beside / _NOISE) / len(values)
    if not variance.any():  # all values are the same: nothing is known of any effect
        return np.full(len(asked), centre)
    unseen = len(values) - len(size)
    evidence = (
        -len(values) * np.log(variance) - np.sum(np.log(spread), axis=1) - unseen * np.log(_NOISE)
    )
    best = int(np.argmax(evidence))
    mean = right.T @ (size / spread[best] * along)
    noise = rng.normal(size=known.shape[1])
    noise -= right.T @ ((1.0 - np.sqrt(_NOISE[best] / spread[best])) * (right @ noise))
    return np.asarray(centre + asked @ (mean + np.sqrt(variance[best]) * noise))
