"""Compares the frozen part of the golden files, their numbers and placements, with those of an earlier commit.

Wording, layout and the names of keys and columns are free; a number, a placement and a drawn text are not. Each number
of the earlier files has to be found in the files of the same case now, as often as it was in any one of them. What was
dropped on purpose is listed in `DROPPED` with the reason.

    python tests/golden/frozen.py REVISION
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

EXPECTED = Path(__file__).parent / "expected"
# A number that a computation made, as opposed to a count in a sentence: it has a decimal point.
NUMBER = re.compile(r"(?<![\w.])-?\d*\.\d+(?:e[+-]?\d+)?(?![\w.]*/)", re.IGNORECASE)
PLACEMENTS = re.compile(r"^place")
# case or case/file -> why its numbers went
DROPPED: dict[str, str] = {
    "place-shared-with-wordnet": "the mapper does without WordNet: the placements are in place-shared",
    "place-shared-without-wordnet": "the mapper does without WordNet: the placements are in place-shared",
    "place-domains-with-wordnet": "the mapper does without WordNet: the placements are in place-domains",
    "place-domains-without-wordnet": "the mapper does without WordNet: the placements are in place-domains",
    "study-encoder": "one of 14 texts is placed otherwise by the default mapper, which has fewer rules",
    "study-ranking/printed-4.json": "tables that a paper prints are no longer ranked",
    "study-ranking/printed-5.json": "tables that a paper prints are no longer ranked",
    "study-judge/out--paper4-table1.csv": "a table of the paper as printed: it is in taxtune/studies/published",
    "study-judge/out--paper4-table2.csv": "a table of the paper as printed: it is in taxtune/studies/published",
    "study-judge-lave/out--paper4-table2.csv": "a table of the paper as printed: it is in taxtune/studies/published",
    "study-mapping/out--mapping-paper.csv": "a table of the paper as printed: it is in taxtune/studies/published",
    "study-mapping/out--mapping-presets.csv": "the paper's listing against its prose is benchmarks/presets.py",
    "study-mapping/printed-1.txt": "as printed: the same numbers as in study.json",
    "study-prompts/out--prompts.csv": "the ends of intervals are numbers and no text with three decimals",
    "study-prompts/printed-2.json": "the gains have no second copy of hP and hR; the ends of intervals are numbers",
    "study-judge/printed-1.txt": "as printed: the same numbers as in study.json",
    "study-judge-lave/printed-1.txt": "as printed: the same numbers as in study.json",
}
# key of a JSON file -> why its numbers went
DROPPED_KEYS = {
    "race": "the race's own usage, which nothing read: it is part of the iteration's",
    "batches": "the sizes of batches, which nothing read",
    "account": "the sum of the calls is in usage, with the same numbers",
    "outlook": "no forecast of power and of oracles any more",
    "optimism": "no simulated optimism of the winner any more",
    "hP 95 %": "the ends of intervals are numbers and no text with three decimals",
    "hR 95 %": "the ends of intervals are numbers and no text with three decimals",
    "hF 95 %": "the ends of intervals are numbers and no text with three decimals",
    "mapping-paper": "a table of the paper as printed: it is in taxtune/studies/published",
    "mapping-presets": "the paper's listing against its prose is benchmarks/presets.py",
    "paper4-table1": "a table of the paper as printed: it is in taxtune/studies/published",
    "paper4-table2": "a table of the paper as printed: it is in taxtune/studies/published",
    "paper4-table3": "a table of the paper as printed: it is in taxtune/studies/published",
    "recipe": "the text of a recipe, which has fewer keys",
    "rouge": "the version of the package rouge-score, which is a test's yardstick only",
}


def numbers(content: bytes) -> Counter[str]:
    """How often each number occurs, rounded to six significant digits."""
    text = content.decode(errors="replace")
    return Counter(f"{float(number):.6g}" for number in NUMBER.findall(text))


def most(files: dict[str, bytes]) -> Counter[str]:
    """Every number of a case, as often as in the file that has it most often."""
    union: Counter[str] = Counter()
    for name, content in files.items():
        if name not in DROPPED:
            union |= numbers(content if not name.endswith(".json") else kept(content))
    return union


def kept(content: bytes) -> bytes:
    """A JSON file without what was dropped."""
    return json.dumps(json.loads(content, object_hook=without_dropped)).encode()


def without_dropped(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key not in DROPPED_KEYS}


def unpacked(name: str, content: bytes) -> bytes:
    return gzip.decompress(content) if name.endswith(".gz") else content


def earlier(revision: str) -> dict[str, dict[str, bytes]]:
    """The golden files of a revision, by case."""
    root = EXPECTED.parents[2]
    prefix = EXPECTED.relative_to(root).as_posix()
    git = ["git", "-C", str(root)]
    listed = subprocess.run(
        [*git, "ls-tree", "-r", "--name-only", revision, prefix], capture_output=True, check=True
    )
    cases: dict[str, dict[str, bytes]] = defaultdict(dict)
    for path in listed.stdout.decode().split():
        shown = subprocess.run(
            [*git, "show", f"{revision}:{path}"], capture_output=True, check=True
        )
        name = path.removeprefix(prefix + "/")
        cases[name.split("/")[0]][name] = unpacked(name, shown.stdout)
    return cases


def current() -> dict[str, dict[str, bytes]]:
    """The golden files as they lie here, by case."""
    cases: dict[str, dict[str, bytes]] = defaultdict(dict)
    for path in sorted(file for file in EXPECTED.rglob("*") if file.is_file()):
        name = path.relative_to(EXPECTED).as_posix()
        cases[name.split("/")[0]][name] = unpacked(name, path.read_bytes())
    return cases


def differences(revision: str) -> list[str]:
    """One line per case whose frozen part differs from that of a revision."""
    before, now = earlier(revision), current()
    lines = []
    for case, files in sorted(before.items()):
        if case in DROPPED:
            continue
        if PLACEMENTS.match(case):
            changed = [
                name
                for name, content in files.items()
                if now[case].get(name) != content and name not in DROPPED
            ]
            lines += [f"{name}: placements differ" for name in changed]
            continue
        missing = most(files) - most(now[case])
        if missing:
            shown = ", ".join(f"{number} ({count}x)" for number, count in missing.most_common(12))
            lines.append(
                f"{case}: {missing.total()} of {most(files).total()} numbers are gone: {shown}"
            )
    return lines


def main() -> int:
    """Prints the differences; the exit code says whether there are any."""
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    found = differences(sys.argv[1])
    for line in found or ["No frozen number and no placement differs."]:
        print(line)
    for name, why in DROPPED.items():
        print(f"dropped: {name}: {why}")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
