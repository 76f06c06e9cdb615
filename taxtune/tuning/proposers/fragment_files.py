"""Fragment files: the slots and sentences that templates are composed from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from taxtune.errors import ProposerError, TemplateError
from taxtune.recipe_file import load_yaml
from taxtune.resources import prompts_dir
from taxtune.tuning.template import check_source

__all__ = ["Choice", "Fragments", "Slot", "read_fragments"]

_Id = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=40)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Choice(_Model):
    """One sentence of a slot.

    Attributes:
        id: Its name in the record; lower-case letters, digits and underscores.
        text: A piece of a Jinja template, complete in itself; empty to leave the slot out.
        stance: What it wants of the answer, in one word ("bold", "careful"); choices of different stances contradict
            each other and never stand in one template. None goes with any.
    """

    id: _Id
    text: Annotated[str, Field(max_length=1_000)]
    stance: _Id | None = None


class Slot(_Model):
    """One place in a template.

    Attributes:
        id: Its name in the record.
        about: What the slot is for; for people.
        choices: What can stand there.
    """

    id: _Id
    about: str = ""
    choices: Annotated[tuple[Choice, ...], Field(min_length=1)]

    def text(self, choice: str) -> str:
        """Returns the text of a choice."""
        return next(c.text for c in self.choices if c.id == choice)

    def allowed(self, stance: str | None) -> tuple[Choice, ...]:
        """Returns the choices that go with a stance: all of them with None."""
        return tuple(c for c in self.choices if stance is None or c.stance in (None, stance))


class _File(_Model):
    name: str = ""
    extends: str | None = None
    slots: Annotated[tuple[Slot, ...], Field(min_length=1)]


class Fragments(_Model):
    """Slots in the order in which they stand in a template.

    Attributes:
        name: Name of the file that they were read from.
        slots: The slots.
    """

    name: str
    slots: tuple[Slot, ...]

    @cached_property
    def stances(self) -> tuple[str, ...]:
        """The stances that choices take, in the order in which the file names them."""
        taken = (choice.stance for slot in self.slots for choice in slot.choices)
        return tuple(dict.fromkeys(stance for stance in taken if stance is not None))

    @property
    def compositions(self) -> int:
        """The number of ways to choose without contradiction."""
        return sum(ways for _, _, ways in self._ways[0][None])

    def compose(self, parameters: Mapping[str, str]) -> str:
        """Returns the template of a choice by slot: the texts in the order of the slots, joined with a space."""
        texts = (slot.text(parameters[slot.id]).strip() for slot in self.slots)
        return " ".join(text for text in texts if text)

    def fits(self, parameters: Mapping[str, str]) -> bool:
        """Tells whether every slot has one of its choices, none contradicts another, and there is nothing else."""
        if parameters.keys() != {slot.id for slot in self.slots}:
            return False
        chosen = [choice for slot in self.slots for choice in slot.choices if choice.id == parameters[slot.id]]
        return len(chosen) == len(self.slots) and len({c.stance for c in chosen if c.stance is not None}) < 2

    def parameters(self, number: int) -> dict[str, str]:
        """Returns the composition of a number from 0 to `compositions` - 1."""
        chosen: dict[str, str] = {}
        stance: str | None = None
        for slot, ways_after in zip(self.slots, self._ways, strict=True):
            for choice, after, ways in ways_after[stance]:
                if number < ways:
                    chosen[slot.id], stance = choice, after
                    break
                number -= ways
        return chosen

    @cached_property
    def _ways(self) -> list[dict[str | None, list[tuple[str, str | None, int]]]]:
        """What may stand in each slot, by the stance that was taken before it.

        Each choice comes with the stance that is then taken and with the number of ways to fill the slots after it.
        """
        table: list[dict[str | None, list[tuple[str, str | None, int]]]] = []
        ways: dict[str | None, int] = dict.fromkeys((None, *self.stances), 1)
        for slot in reversed(self.slots):
            row = {
                taken: [(c.id, taken or c.stance, ways[taken or c.stance]) for c in slot.allowed(taken)]
                for taken in ways
            }
            ways = {taken: sum(each for _, _, each in choices) for taken, choices in row.items()}
            table.insert(0, row)
        return table

    def digest(self) -> str:
        """Returns a hash of all that decides which templates there are."""
        content = [[slot.id, [[c.id, c.text, c.stance] for c in slot.choices]] for slot in self.slots]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def read_fragments(source: str | Path = "default") -> Fragments:
    """Reads a fragment file, or all of a folder's.

    A file that names another one under `extends` adds to it: choices to the slots that are there, slots after them. The
    files of a folder add to each other in the order of their names.

    Args:
        source: Name of a file in `prompts/fragments/` without its ending, or the path of a YAML file or of a folder.

    Raises:
        ProposerError: A file is missing, is not YAML or does not have the right form; file and key are named.
    """
    path = _find(source, None)
    files = sorted((*path.glob("*.yaml"), *path.glob("*.yml"))) if path.is_dir() else [path]
    if not files:
        raise ProposerError("The folder contains no fragment files (*.yaml).", file=path)
    slots: dict[str, Slot] = {}
    for file in files:
        for slot in _read(file, ()):
            _add(slots, slot, file)
    fragments = Fragments(name=path.stem, slots=tuple(slots.values()))
    _check_stances(fragments, path)
    if fragments.compositions == 1 and not fragments.compose(fragments.parameters(0)):
        raise ProposerError("The only template these fragments can form is empty.", file=path, remedy="Add a choice.")
    return fragments


def _find(source: str | Path, beside: Path | None) -> Path:
    known = prompts_dir() / "fragments"
    candidates = [Path(source).expanduser(), known / f"{source}.yaml"]
    if beside is not None:
        candidates.insert(0, beside.parent / source)
    for candidate in candidates:
        # A folder that happens to be named like a set of fragments does not hide it, unless it holds fragments.
        if candidate.is_file() or (candidate.is_dir() and next(candidate.glob("*.y*ml"), None) is not None):
            return candidate
    if candidates[0].is_dir():
        return candidates[0]
    names = ", ".join(sorted(path.stem for path in known.glob("*.yaml")))
    raise ProposerError(
        f"There are no fragments {str(source)!r}.",
        file=beside,
        remedy=f"Give the path of a YAML file or of a folder, or one of: {names}.",
    )


def _read(file: Path, above: tuple[Path, ...]) -> list[Slot]:
    if file.resolve() in above:
        raise ProposerError("The file extends itself.", file=file, remedy="Remove its 'extends'.")
    try:
        data: Any = load_yaml(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ProposerError(f"The fragments cannot be read: {error}.", file=file) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error)
        row = None if mark is None else mark.line + 1
        raise ProposerError(f"This is not valid YAML: {problem}.", file=file, row=row) from None
    except RecursionError:
        raise ProposerError("The file is nested too deeply.", file=file) from None
    try:
        parsed = _File.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "the whole file"
        value = first["input"] if isinstance(first["input"], str | int | float | bool) else None
        raise ProposerError(
            f"{key}: {first['msg']}.",
            file=file,
            value=value,
            remedy="A fragment file has 'slots', each with an 'id' and 'choices'; each choice has 'id' and 'text', "
            "and a 'stance' where it contradicts others.",
        ) from None
    slots: dict[str, Slot] = {}
    if parsed.extends is not None:
        parent = _find(parsed.extends, file)
        if parent.is_dir():
            raise ProposerError("A file cannot extend a folder.", file=file, value=parsed.extends)
        slots = {slot.id: slot for slot in _read(parent, (*above, file.resolve()))}
    _check(parsed, file)
    for slot in parsed.slots:
        _add(slots, slot, file)
    return list(slots.values())


def _check(parsed: _File, file: Path) -> None:
    seen: set[str] = set()
    for slot in parsed.slots:
        if slot.id in seen:
            raise ProposerError(f"Two slots are called {slot.id!r}.", file=file, remedy="Merge their choices.")
        seen.add(slot.id)
        choices: set[str] = set()
        for choice in slot.choices:
            where = f"slot {slot.id!r}, choice {choice.id!r}"
            if choice.id in choices:
                raise ProposerError(f"{where}: two choices have this id.", file=file, remedy="Rename one.")
            choices.add(choice.id)
            if not choice.text.strip():
                continue
            try:
                check_source(choice.text)
            except TemplateError as error:
                raise ProposerError(f"{where}: {error}", file=file) from None


def _check_stances(fragments: Fragments, file: Path) -> None:
    """Checks that every choice can stand in some template."""
    for stance in fragments.stances:
        for slot in fragments.slots:
            if not slot.allowed(stance):
                raise ProposerError(
                    f"slot {slot.id!r}: none of its choices goes with the stance {stance!r}, so no template can hold "
                    "a choice with that stance.",
                    file=file,
                    remedy="Add a choice without a stance to the slot.",
                )


def _add(slots: dict[str, Slot], slot: Slot, file: Path) -> None:
    before = slots.get(slot.id)
    if before is None:
        slots[slot.id] = slot
        return
    known = {choice.id: choice for choice in before.choices}
    for choice in slot.choices:
        if known.get(choice.id, choice) != choice:
            raise ProposerError(
                f"slot {slot.id!r}, choice {choice.id!r}: another file has a different text or stance under this id.",
                file=file,
                remedy="Give it another id.",
            )
    new = tuple(choice for choice in slot.choices if choice.id not in known)
    slots[slot.id] = before.model_copy(update={"choices": (*before.choices, *new)})
