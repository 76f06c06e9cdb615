"""Outputs that are held in files: what is compared, what is masked, and how a difference is told."""

from __future__ import annotations

import csv
import difflib
import gzip
import io
import json
import math
import re
import shlex
from pathlib import Path

import pytest

import taxtune
from tests.cli.commands import run_command, without_duration

__all__ = ["Golden"]

#: The files of a run that are compared. Not pictures, databases and HTML pages; nor Markdown, which repeats the CSV.
HELD = (".csv", ".j2", ".json", ".jsonl", ".ttl")
#: What MLflow keeps under ids that it draws at random.
NOT_HELD = frozenset({"mlartifacts"})
#: How long something took, and the versions of what is installed.
OF_THE_MACHINE = ("seconds", "time", "Software", "transformers")
PACKAGE = Path(taxtune.__file__).parent
#: How far two floats may lie apart, relatively: libraries for arithmetic differ in the last digits.
TOLERANCE = 1e-9
#: Differences that a failure shows.
SHOWN = 40


def masked(value, folder):
    """Replaces what differs from one machine, or one run of the same code, to the next, and nothing else."""
    if isinstance(value, dict):
        return {
            key: "*" if key in OF_THE_MACHINE else masked(item, folder)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [masked(item, folder) for item in value]
    if isinstance(value, str):
        # Where the run and the package lie, and the port that the system gave a server of the test.
        value = (
            value.replace(str(folder), "FOLDER")
            .replace(str(PACKAGE), "PACKAGE")
            .replace(str(PACKAGE.parent), "CHECKOUT")
        )
        return re.sub(r"http://127\.0\.0\.1:\d+", "http://SERVER", without_duration(value))
    return value


class Golden:
    """Runs commands in a folder and compares what they print and write with files.

    Args:
        expected: The folder of the golden files, which has one folder a case.
        folder: The working directory, which holds the inputs.
        monkeypatch: What sets the command line.
        capsys: What reads the streams.
        update: Whether golden files are written in place of being compared.
    """

    def __init__(
        self,
        expected,
        folder,
        monkeypatch,
        capsys,
        *,
        update,
    ):
        self._expected, self.folder, self._update = expected, folder, update
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def run(self, command, code=0):
        """Runs `taxtune COMMAND`, which must end with `code`; returns what it prints."""
        ended = run_command(self._monkeypatch, *shlex.split(command))
        said = self._capsys.readouterr()
        assert ended == code, f"taxtune {command} ended with {ended}: {said.err}"
        return said.out

    def case(self, name, *commands, code=0):
        """Runs commands one after the other; compares what each prints and all that they leave in the folder."""
        before = {path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}
        held = {}
        for number, command in enumerate(commands, 1):
            held[f"printed-{number}{suffix(command)}"] = self.run(command, code)
        for path in sorted(self.folder.rglob("*")):
            inside = path.relative_to(self.folder)
            if (
                not path.is_file()
                or path.suffix not in HELD
                or not NOT_HELD.isdisjoint(inside.parts)
            ):
                continue
            if before.get(path) != path.read_bytes():
                held[inside.as_posix().replace("/", "--")] = path.read_text("utf-8")
        self.compare({f"{name}/{file}": text for file, text in held.items()}, name)

    def compare(self, held, folder):
        """Compares texts with golden files, or writes these.

        Args:
            held: The texts by the golden files' names below the folder of all; one that ends in .gz is packed.
            folder: The part of the folder of all which holds these files and no others.
        """
        place = self._expected / folder
        contents = {name: masked(parsed(name, text), self.folder) for name, text in held.items()}
        if self._update:
            for path in place.glob("*"):
                path.unlink()
            for name, content in contents.items():
                store(self._expected / name, written(name, content))
            return
        there = {path.relative_to(self._expected).as_posix() for path in place.glob("*")}
        found = [
            f"{name}: written, and there is no golden file of it"
            for name in sorted(contents.keys() - there)
        ]
        found += [
            f"{name}: a golden file, but nothing like it is written"
            for name in sorted(there - contents.keys())
        ]
        for name in sorted(there & contents.keys()):
            found += differences(parsed(name, load(self._expected / name)), contents[name], name)
        if found:
            more = f"\n... and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
            pytest.fail(
                "\n".join(found[:SHOWN])
                + more
                + "\n(golden -> now; if it is meant so, --update-golden)",
                False,
            )


def store(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode("utf-8")
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def load(path):
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")


def suffix(command):
    """Returns the ending of the golden file that holds what a command prints."""
    words = command.split()
    return ".txt" if "--json" not in words else ".jsonl" if words[0] == "place" else ".json"


def parsed(name, text):
    """Returns the content of a file: the JSON, a list of JSON lines or of rows, a text's lines."""
    name = name.removesuffix(".gz")
    if name.endswith(".json"):
        return json.loads(text)
    if name.endswith(".jsonl"):
        return [json.loads(line) for line in text.splitlines()]
    if name.endswith((".csv", ".tsv")):
        return list(
            csv.reader(
                io.StringIO(text, newline=""), delimiter="\t" if name.endswith(".tsv") else ","
            )
        )
    return text.splitlines()


def written(name, content):
    """Returns the text of a golden file: the inverse of `parsed`."""
    name = name.removesuffix(".gz")
    if name.endswith(".json"):
        return laid_out(content) + "\n"
    if name.endswith(".jsonl"):
        return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in content)
    if name.endswith((".csv", ".tsv")):
        stream = io.StringIO(newline="")
        csv.writer(
            stream, delimiter="\t" if name.endswith(".tsv") else ",", lineterminator="\n"
        ).writerows(content)
        return stream.getvalue()
    return "".join(f"{line}\n" for line in content)


def laid_out(value, margin="\n"):
    """Returns JSON with a line for each innermost list or object, so that a row of a table is a line of a diff."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    if not any(isinstance(item, dict | list) and item for item in inner):
        return json.dumps(value, ensure_ascii=False)
    keys = (
        [f"{json.dumps(key, ensure_ascii=False)}: " for key in value]
        if isinstance(value, dict)
        else [""] * len(value)
    )
    lines = (
        f"{margin} {key}{laid_out(item, margin + ' ')}"
        for key, item in zip(keys, inner, strict=True)
    )
    start, end = "{}" if isinstance(value, dict) else "[]"
    return f"{start}{','.join(lines)}{margin}{end}"


def differences(golden, now, where):
    """Returns a line for each difference, with the place where it is."""
    if isinstance(golden, dict) and isinstance(now, dict):
        lines = [f"{where}: {key!r} is gone" for key in golden if key not in now]
        lines += [f"{where}: {key!r} is new" for key in now if key not in golden]
        for key in golden:
            lines += differences(golden[key], now[key], f"{where} {key}") if key in now else []
        return lines
    if isinstance(golden, list) and isinstance(now, list):
        if len(golden) == len(now):
            pairs = enumerate(zip(golden, now, strict=True))
            return [line for i, (a, b) in pairs for line in differences(a, b, f"{where}[{i}]")]
        a, b = ([json.dumps(item, ensure_ascii=False) for item in items] for items in (golden, now))
        return [
            f"{where}: {len(a)} -> {len(b)} items",
            *list(difflib.unified_diff(a, b, n=1, lineterm=""))[2:],
        ]
    if same(golden, now):
        return []
    return [f"{where}: {golden!r} -> {now!r}"]


def same(golden, now):
    """Whether two values are the same, floats up to the tolerance, also where they are written in a cell."""
    if golden == now and isinstance(golden, bool) == isinstance(now, bool):
        return True
    a, b = number(golden), number(now)
    if a is None or b is None or isinstance(golden, str) != isinstance(now, str):
        return False
    return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=TOLERANCE)


def number(value):
    if isinstance(value, bool) or value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
