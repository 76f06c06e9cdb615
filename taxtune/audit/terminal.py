"""Asking a person in the terminal: one placement at a time, a key a verdict.

Keys come from a function and what is shown goes to a `rich` console, so that neither needs a terminal. Every verdict is
handed on as it is given; Ctrl-C and the end of the input end the asking with what was said until then.
"""

from __future__ import annotations

import codecs
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from taxtune.audit.mending import Alias
from taxtune.audit.population import Item, Population
from taxtune.audit.search import NodeSearch, matches
from taxtune.audit.verdicts import Finding, Verdict, VerdictLog, judged_by_node
from taxtune.errors import DataError
from taxtune.mapping.config import Stage
from taxtune.untrusted import visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

__all__ = ["Keys", "Reviewer", "terminal_keys"]

#: Returns the next key: a character, or "enter", "escape", "backspace", "up", "down".
Keys = Callable[[], str]

_VERDICTS = {"r": Verdict.RIGHT, "g": Verdict.TOO_GENERAL, "w": Verdict.WRONG}
_COLOURS = {Verdict.RIGHT: "green", Verdict.TOO_GENERAL: "yellow", Verdict.WRONG: "red"}
_NAMED = {
    "\r": "enter",
    "\n": "enter",
    "\x1b": "escape",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x1b[A": "up",
    "\x1bOA": "up",
    "\x1b[B": "down",
    "\x1bOB": "down",
}
# What is typed fast or pasted comes as one text; arrows and the like are one key of several characters.
_KEY = re.compile(r"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Za-z]|.", re.S)
#: Longest answer, in characters, that is shown whole; and how many nodes below a placement are named.
_SHOWN, _BELOW = 1200, 6


@contextmanager
def terminal_keys() -> Iterator[Keys]:
    """Yields the keys of the terminal, which gives them one by one until the block ends.

    Raises:
        DataError: If there is no terminal to ask in.
    """
    if any(stream is None or not stream.isatty() for stream in (sys.stdin, sys.stderr)):
        raise DataError(
            "An audit asks you questions in a terminal, but input or messages are redirected.",
            remedy="Run it in a terminal, or let a chat model judge: --llm openai/gpt-4o-mini.",
        )
    with _typed() as read:
        waiting: deque[str] = deque()

        def key() -> str:
            while not waiting:
                text = read()
                if not text or "\x04" in text:  # the end of the input, or Ctrl-D
                    raise KeyboardInterrupt
                waiting.extend(_KEY.findall(text))
            pressed = waiting.popleft()
            return _NAMED.get(pressed, pressed)

        yield key


@contextmanager
def _typed() -> Iterator[Callable[[], str]]:
    """Yields what returns the text of the keys that were pressed, at least one."""
    try:
        import termios
        import tty
    except ImportError:  # Windows
        import click

        yield click.getchar
        return
    # For the whole time, and not key by key: what is pressed while a card is drawn is not to be lost.
    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read() -> str:
        text = ""
        while not text:
            pressed = os.read(number, 64)
            text = decoder.decode(pressed)
            if not pressed:
                break
        return text

    tty.setcbreak(number, termios.TCSADRAIN)
    try:
        yield read
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


@dataclass(frozen=True, slots=True)
class Card:
    """A drawn placement, as it is shown."""

    item: Item
    place: int
    total: int
    said: Finding | None
    earlier: str | None


class Reviewer:
    """Shows placements and takes verdicts.

    Args:
        population: What is audited.
        log: Where verdicts are kept.
        console: Where to show.
        keys: Where keys come from.
    """

    def __init__(self, population: Population, log: VerdictLog, console: Console, keys: Keys) -> None:
        self._population = population
        self._tree = population.tree
        self._log = log
        self._console = console
        self._keys = keys
        self._search = NodeSearch(population.tree)

    def ask(self, items: Sequence[Item]) -> bool:
        """Asks about each item that has no verdict; returns whether it came to the end, rather than to "quit".

        Args:
            items: The drawn items, in the order in which to ask.

        Raises:
            KeyboardInterrupt: On Ctrl-C; what was said is kept.
            TaxtuneError: If a verdict cannot be written.
        """
        finished = self._ask(items)
        self._console.clear()
        return finished

    def _ask(self, items: Sequence[Item]) -> bool:
        place = self._next(items, 0)
        while place is not None:
            item = items[place]
            card = Card(item, place, len(items), self._log.find(self._population, item), self._log.earlier(item.answer))
            # Nothing is too general that has nothing below it.
            verdicts = {k: v for k, v in _VERDICTS.items() if k != "g" or len(self._tree.children(item.node))}
            self._show(self._card(card), _menu(verdicts, back=place > 0))
            key = self._keys().casefold()
            if key == "q":
                return False
            if key == "b" and place > 0:
                place -= 1
                continue
            if key == "s":
                place = self._next(items, place + 1)
                continue
            finding = self._chosen(card) if key == "c" else Finding(verdicts[key]) if key in verdicts else None
            if finding is not None:
                self._log.add(self._population, item, finding)
                place = self._next(items, place + 1)
        return True

    def _next(self, items: Sequence[Item], start: int) -> int | None:
        open_ = (i for i in range(start, len(items)) if self._log.find(self._population, items[i]) is None)
        return next(open_, None)

    def _chosen(self, card: Card) -> Finding | None:
        node = self._choose(card)
        return None if node is None else Finding(judged_by_node(self._tree, card.item, node), node)

    def _choose(self, card: Card) -> int | None:
        """Lets the person find the node that an answer belongs on; None where they go back."""
        node = card.item.node
        nearby = [*self._search.named_in(card.item.answer), *self._tree.ancestors(node)[-2:].tolist()]
        nearby += self._tree.children(node).tolist()
        first = [near for near in dict.fromkeys(nearby) if near != node][:8]
        typed, marked = "", 0
        while True:
            found = self._search.find(typed) if typed.strip() else first
            # Always there: that the answer names nothing on the tree is an answer, too.
            options = [*(node for node in found if node != self._tree.root), self._tree.root]
            marked = min(marked, len(options) - 1)
            self._show(self._card(card), self._options(typed, options, marked))
            key = self._keys()
            if key == "enter":
                return options[marked]
            if key == "escape":
                return None
            if key in ("up", "down"):
                marked = (marked + (1 if key == "down" else -1)) % len(options)
            elif key == "backspace":
                typed, marked = typed[:-1], 0
            elif len(key) == 1 and key.isprintable():
                typed, marked = typed + key, 0

    # -- aliases -------------------------------------------------------------------------------------------------------

    def take(self, proposals: Sequence[Alias], retry: Callable[[Alias, str], Alias]) -> list[Alias]:
        """Asks which aliases to take over; returns those taken.

        Args:
            proposals: What would mend placements that were not right.
            retry: Checks another wording of a proposal.
        """
        taken = self._take(proposals, retry)
        self._console.clear()
        return taken

    def _take(self, proposals: Sequence[Alias], retry: Callable[[Alias, str], Alias]) -> list[Alias]:
        taken = []
        for number, proposal in enumerate(proposals, 1):
            alias = proposal
            while True:
                self._show(self._alias(alias, number, len(proposals)))
                key = self._keys().casefold()
                if key in ("t", "enter") and alias.helps:
                    taken.append(alias)
                    break
                if key == "e":
                    wording = self._line("alias", alias.text)
                    alias = alias if wording is None else retry(alias, wording)
                elif key == "a" and alias.helps:
                    return [*taken, alias, *(other for other in proposals[number:] if other.helps)]
                elif key == "s":
                    break
                elif key == "q":
                    return taken
        return taken

    def _line(self, what: str, text: str) -> str | None:
        """Lets the person edit a line; None where they go back or leave it empty."""
        from rich.text import Text

        while True:
            self._show(Text.assemble((f"  {what}: ", "bold"), visible(text), ("▏", "blink")), _hint(_LINE))
            key = self._keys()
            if key == "enter":
                return text.strip() or None
            if key == "escape":
                return None
            if key == "backspace":
                text = text[:-1]
            elif len(key) == 1 and key.isprintable():
                text += key

    # -- what is shown -------------------------------------------------------------------------------------------------

    def _show(self, *parts: RenderableType) -> None:
        self._console.clear()
        for part in parts:
            self._console.print(part)

    def _card(self, card: Card) -> RenderableType:
        from rich.console import Group
        from rich.padding import Padding
        from rich.rule import Rule
        from rich.text import Text

        item = card.item
        often = "" if item.count == 1 else f", said {item.count:,} times"
        parts: list[RenderableType] = [
            Rule(Text(f" {card.place + 1} of {card.total} · {visible(self._population.name)} ", style="dim")),
            Text.assemble(("Answer", "bold"), (often, "dim")),
            Padding(self._answer(item), (0, 0, 1, 4)),
            Text.assemble(("Placed on", "bold"), ("" if item.nowhere else f", by {item.stage}", "dim")),
            Padding(self._placement(item), (0, 0, 1, 4)),
        ]
        if card.said is not None:
            where = "" if card.said.node is None else f", should be on {self._name(card.said.node)}"
            parts.append(Text(f"You said: {card.said.verdict}{where}", style=_COLOURS[card.said.verdict]))
        elif card.earlier is not None:
            parts.append(Text(f"Its placement has changed: {visible(card.earlier)}", style="magenta"))
        return Group(*parts)

    def _answer(self, item: Item) -> Text:
        from rich.text import Text

        if not item.answer.strip():
            return Text("(blank)", style="dim italic")
        text = item.answer if len(item.answer) <= _SHOWN else item.answer[:_SHOWN]
        start = text.find(item.evidence) if item.evidence else -1
        end = start + len(item.evidence)
        # Taken apart before control characters are spelled out, which changes lengths.
        shown = (
            Text(visible(text))
            if start < 0
            else Text.assemble(visible(text[:start]), (visible(text[start:end]), "bold cyan"), visible(text[end:]))
        )
        return shown if len(item.answer) <= _SHOWN else shown.append(f" … {len(item.answer):,} characters", "dim")

    def _placement(self, item: Item) -> Text:
        from rich.text import Text

        if item.stage == Stage.ABSTAINED:
            return Text.assemble(("nothing", "bold"), ": it names nothing")
        if item.stage == Stage.OFF_TREE:
            return Text.assemble(("off the tree", "bold"), ": it names something that the tree lacks")
        above = self._tree.path(item.node)[:-1]
        shown = Text("".join(f"{visible(label)} › " for label in above)).append(self._name(item.node), "bold")
        below = self._tree.children(item.node).tolist()
        if below:
            names = ", ".join(self._name(node) for node in below[:_BELOW])
            more = f" and {len(below) - _BELOW:,} more" if len(below) > _BELOW else ""
            shown.append(f"\nbelow it: {names}{more}", "dim")
        return shown

    def _name(self, node: int, typed: str = "") -> str:
        """Returns a node's label and one of its other names: one that was typed, or else its first."""
        label, *others = self._tree.names(node)
        other = next((name for name in others if matches(typed, name)), others[0] if others else None)
        return visible(label if other is None else f"{label} ({other})")

    def _options(self, typed: str, options: Sequence[int], marked: int) -> RenderableType:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 1))
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=3)
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=2, style="dim")
        table.expand = True
        for i, node in enumerate(options):
            root = node == self._tree.root
            name = "nothing on the tree" if root else self._name(node, typed)
            above = self._tree.path(node)[-3:-1]
            style = "reverse" if i == marked else "italic" if root else ""
            table.add_row("❯" if i == marked else " ", Text(name, style=style), Text(" › ".join(map(visible, above))))
        head = Text.assemble(("It should be on: ", "bold"), visible(typed), ("▏", "blink"))
        return Group(head, table, _hint(_CHOOSE))

    def _alias(self, alias: Alias, number: int, total: int) -> RenderableType:
        from rich.console import Group
        from rich.rule import Rule
        from rich.text import Text

        return Group(
            Rule(Text(f" alias {number} of {total} ", style="dim")),
            Text.assemble(("Alias   ", "bold"), (visible(alias.text), "bold cyan")),
            Text.assemble(("of      ", "bold"), " › ".join(map(visible, self._tree.path(alias.node)))),
            Text.assemble(("because ", "bold"), visible(" ".join(alias.answer.split()))[:300]),
            Text.assemble(
                ("check   ", "bold"),
                ("fixes it and breaks nothing else", "green") if alias.helps else (alias.why, "red"),
            ),
            Text(""),
            _hint(_TAKE if alias.helps else _CANNOT),
        )


_CHOOSE = (("type", "part of a name"), ("↑↓", "mark"), ("Enter", "take"), ("Esc", "back"))
_LINE = (("type", "to change it"), ("Enter", "check it"), ("Esc", "back"))
_CANNOT = (("e", "edit"), ("s", "skip"), ("q", "quit"))
_TAKE = (("t", "take"), ("a", "take all"), *_CANNOT)


def _menu(verdicts: Mapping[str, Verdict], *, back: bool) -> Text:
    others = (("c", "choose the node"), ("s", "skip"), *((("b", "back"),) if back else ()), ("q", "quit"))
    return _hint((*((key, str(verdict)) for key, verdict in verdicts.items()), *others))


def _hint(keys: Sequence[tuple[str, str]]) -> Text:
    from rich.text import Text

    shown = Text("\n")
    for key, meaning in keys:
        shown.append(key, "bold").append(f" {meaning}   ", "dim")
    shown.rstrip()
    return shown
