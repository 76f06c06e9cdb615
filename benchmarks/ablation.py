"""What each rule of the mapper's reading is worth, by domain: places answers without it.

    python benchmarks/ablation.py
    python benchmarks/ablation.py --trees trees/ --placed placed_fresh.jsonl placed_chatty.jsonl --by-file

A rule is found in the source, not listed by hand: a list of words or a pattern, which is emptied; a
function, which gives the neutral answer of its return type (False, None, nothing, or its argument);
with `--branches` also each condition, which never holds. What is learnt from small trees is learnt
anew without the rule; the tables of a large one stay. A rule that the mapper cannot run without is
left out.

The gain of a rule is the number of placements that are acceptable with it only, less those that are
without it only; a domain is a tree. A rule earns its place in domains that were not looked at when
it was written: `first` and `second` were, the others by their README after they had been scored
once, or never.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import signal
import sys
from collections.abc import Callable, Iterator
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.mapper_confidence import DOMAINS, cases
from taxtune.mapping import Mapper
from taxtune.mapping.confidence import PlacementConfidence

ROOMS = (
    "unwrap",
    "english",
    "normalize",
    "reading",
    "naming",
    "index",
    "lexicon",
    "asserted",
    "resolve",
    "mapper",
)
MODULES = {room: import_module(f"taxtune.mapping.{room}") for room in ROOMS}
#: What changes in these is learnt anew, on trees with fewer nodes than are kept on disk.
LEARNT = ("normalize", "index")
SMALL = 2000
#: Without a condition, a loop may never end.
SECONDS = 120
EMPTY = {frozenset: "frozenset()", re.Pattern: 're.compile("(?!)")', dict: "{}"}


class Rule(NamedTuple):
    """One rule: its room, what it is called, its function if it is (in) one, and the source of the room without it."""

    room: str
    name: str
    function: str
    source: str


def rules(branches: bool) -> Iterator[Rule]:
    """Yields every rule in the source of the rooms."""
    for room, module in MODULES.items():
        tree = ast.parse(inspect.getsource(module))
        for part in tree.body:
            if isinstance(part, ast.Assign | ast.AnnAssign):
                name = ast.unparse(part.targets[0] if isinstance(part, ast.Assign) else part.target)
                empty = EMPTY.get(type(getattr(module, name, None)))
                if empty:
                    held = part.value
                    part.value = ast.parse(empty, mode="eval").body
                    yield Rule(room, name, "", ast.unparse(tree))
                    part.value = held
            inside, owner = (
                (part.body, f"{part.name}.") if isinstance(part, ast.ClassDef) else ([part], "")
            )
            for function in (each for each in inside if isinstance(each, ast.FunctionDef)):
                yield from rules_of(room, tree, function, owner + function.name, branches)


def rules_of(
    room: str, tree: ast.Module, function: ast.FunctionDef, path: str, branches: bool
) -> Iterator[Rule]:
    """Yields a function and its conditions."""
    answer = neutral(function)
    if answer is not None:
        body = function.body
        function.body = ast.parse(f"return {answer}").body
        yield Rule(room, path, path, ast.unparse(tree))
        function.body = body
    for owner, field, at, condition, value in switches(function) if branches else ():
        held = getattr(owner, field)
        setattr(
            owner,
            field,
            ast.Constant(value)
            if at is None
            else [*held[:at], ast.Constant(value), *held[at + 1 :]],
        )
        yield Rule(
            room, f"{path}:{condition.lineno} {ast.unparse(condition)}", path, ast.unparse(tree)
        )
        setattr(owner, field, held)


def switches(
    function: ast.FunctionDef,
) -> Iterator[tuple[ast.AST, str, int | None, ast.expr, bool]]:
    """Yields where each condition of a function stands, and what switches it off."""
    for node in ast.walk(function):
        if isinstance(node, ast.If | ast.IfExp):
            yield node, "test", None, node.test, False
        for field in ("ifs", "values") if isinstance(node, ast.comprehension | ast.BoolOp) else ():
            for at, condition in enumerate(getattr(node, field, ())):
                yield (
                    node,
                    field,
                    at,
                    condition,
                    not (isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or)),
                )


def neutral(function: ast.FunctionDef) -> str | None:
    """Returns the neutral answer of a function by its return type, as source.

    None where there is none.
    """
    returned = ast.unparse(function.returns) if function.returns else ""
    same = [
        a.arg for a in function.args.args if a.annotation and ast.unparse(a.annotation) == returned
    ]
    if returned.endswith("| None"):
        return "None"
    if same:
        return same[-1]
    return {"bool": "False", "tuple": "()", "list": "[]", "Sequence": "()", "set": "set()"}.get(
        returned.split("[")[0]
    )


def switch_off(rule: Rule) -> Callable[[], None]:
    """Switches a rule off and returns what switches it on again."""
    module = MODULES[rule.room]
    if rule.function:
        found: Any = module
        for name in rule.function.split("."):
            found = inspect.getattr_static(found, name)
        if isinstance(found, property | cached_property):
            found = found.fget if isinstance(found, property) else found.func
        function = inspect.unwrap(getattr(found, "__func__", found))
        before = function.__code__
        codes = [compile(rule.source, str(module.__file__), "exec")]
        while (code := codes.pop()).co_qualname != rule.function:
            codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        function.__code__ = code
        return lambda: setattr(function, "__code__", before)
    namespace: dict[str, Any] = {"__name__": module.__name__}
    exec(compile(rule.source, str(module.__file__), "exec"), namespace)
    saved = {name: value for name, value in vars(module).items() if name.isupper()}
    vars(module).update({name: namespace[name] for name in saved})
    return lambda: vars(module).update(saved)


class Domains:
    """The answers of all domains with their mappers, which are indexed once."""

    def __init__(self, files: list[Path], trees: list[Path]) -> None:
        PlacementConfidence.probability = lambda *_: 0.5  # decides no placement
        self.cases = list(cases(files, trees))
        self.mappers = [Mapper(taxonomy) for _, taxonomy, _ in self.cases]
        self.base = self.acceptable(anew=False)

    def acceptable(self, *, anew: bool) -> list[list[bool]]:
        """Returns for the answers of each domain whether they are placed acceptably, by trees learnt anew or not."""
        lexicons = [mapper._lexicon for mapper in self.mappers]
        for holder in [*MODULES.values(), *lexicons]:
            for value in vars(holder).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()
        found = []
        for (_, taxonomy, group), mapper in zip(self.cases, self.mappers, strict=True):
            used = Mapper(taxonomy) if anew and len(taxonomy) < SMALL else mapper
            found.append(
                [
                    p.node in w
                    for p, w in zip(used.place(list(group.answer)), group.wanted, strict=True)
                ]
            )
        return found

    def gains(self, rule: Rule) -> pd.DataFrame | None:
        """Returns the gain of a rule for each file and domain, or None where the mapper needs it."""
        switch_on = switch_off(rule)
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.alarm(SECONDS)
        try:
            without = self.acceptable(anew=rule.room in LEARNT)
        except (Exception, KeyboardInterrupt):
            return None
        finally:
            signal.alarm(0)
            switch_on()
        groups = zip(self.cases, self.base, without, strict=True)
        rows = []
        for (_, _, group), a, b in groups:
            rows.append(group[["file", "tree"]].assign(gain=np.subtract(a, b, dtype=int)))
        table = pd.concat(rows).groupby(["file", "tree"]).gain.sum().reset_index()
        return table.assign(rule=f"{rule.room}.{rule.name}")


def show(table: pd.DataFrame, column: str) -> None:
    """Prints a line for each rule, the greatest gain first: where it helps and hurts, and its gain by a column."""
    by_tree = table.pivot_table(index="rule", columns="tree", values="gain", aggfunc="sum")
    gains = table.pivot_table(
        index="rule", columns=column, values="gain", aggfunc="sum", sort=False
    )
    for rule in by_tree.sum(axis=1).sort_values(ascending=False, kind="stable").index:
        shown = "  ".join(
            f"{name} {int(n):+d}" for name, n in gains.loc[rule].items() if n or column == "group"
        )
        helps = int((by_tree.loc[rule] > 0).sum())
        hurts = int((by_tree.loc[rule] < 0).sum())
        print(
            f"{int(by_tree.loc[rule].sum()):+5d}  helps {helps:2d} hurts {hurts:2d}  {rule[:99]:50s} {shown}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--placed", type=Path, nargs="*", default=[], help="more answers, with the same columns"
    )
    parser.add_argument("--trees", type=Path, help="the folder of their trees")
    parser.add_argument("--branches", action="store_true", help="switch off each condition, too")
    parser.add_argument(
        "--by-file", action="store_true", help="print the gains by file instead of by domain"
    )
    args = parser.parse_args()
    trees = [DOMAINS / "trees", *([args.trees] if args.trees else [])]
    own = sorted(DOMAINS.glob("*.jsonl"))
    domains = Domains([*own, *args.placed], trees)
    found = [domains.gains(rule) for rule in rules(args.branches)]
    table = pd.concat([rows for rows in found if rows is not None], ignore_index=True)
    groups = {"first": "written for", "second": "written for"} | {
        file.stem: "given" for file in args.placed
    }
    table = table.assign(
        tree=table.tree.map(lambda name: Path(name).stem), group=table.file.replace(groups)
    )
    show(table, "group" if args.by_file else "tree")


if __name__ == "__main__":
    main()
