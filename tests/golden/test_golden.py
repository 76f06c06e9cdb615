"""The outputs of every command that computes something, compared with files that hold them as they were.

Everything goes through the command line, whose options stay when what is behind them changes. Inputs lie in `inputs/`
and are nobody else's. To take over a change that is meant: `pytest tests/golden --update-golden`, and read the diff.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from taxtune.wordnet import find_wordnet
from tests.golden.golden import Golden

DOMAINS = Path(__file__).parents[2] / "benchmarks" / "domains"
INAT21 = "inat21/inat2021-categories.csv"


def test_compare_on_the_field_guide(golden: Golden) -> None:
    settings = "data.count=60 data.tuning=12 data.heldout=30 iterations=4 vlm.batch_size=16"
    sets = " ".join(f"--set {setting}" for setting in settings.split())
    golden.case(
        "compare",
        f"compare fieldguide --out out {sets}",
        # Nothing is left to do, and the same is printed.
        f"compare fieldguide --out out --resume {sets}",
        f"evaluate fieldguide --template out/winner-hp.j2 --split tuning --out out --json {sets}",
        "study prompts tuned=out/hp --resamples 50 --json",
    )


# -- placements -------------------------------------------------------------------------------------------------------


def placements(golden: Golden, tree: Path, answers: Iterable[str]) -> list[dict[str, Any]]:
    """Returns what `taxtune place` says of each answer."""
    file = golden.folder / "answers-to-place.jsonl"
    file.write_text("".join(json.dumps({"answer": answer}) + "\n" for answer in answers), encoding="utf-8")
    return [json.loads(line) for line in golden.run(f"place -t '{tree}' --json '{file}'").splitlines()]


def row(place: dict[str, Any]) -> list[str]:
    """Returns the path, the stage, the confidence and what else is said of a placement."""
    confidence = "" if place["confidence"] is None else repr(place["confidence"])
    said = " ".join(name for name in ("abstained", "off_tree") if place[name])
    return ["/".join(place["path"]), place["stage"], confidence, said]


def table(rows: Iterable[Iterable[object]]) -> str:
    return "".join("\t".join(map(str, cells)) + "\n" for cells in rows)


@pytest.fixture(params=["without WordNet", "with WordNet"])
def known(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The end of the golden files' folder: whether WordNet is there. What needs it is skipped where it is not."""
    if request.param == "without WordNet":
        return "without-wordnet"
    monkeypatch.delenv("TAXTUNE_WORDNET")
    found = find_wordnet()
    if found is None or found.source != "WordNet 3.0":
        pytest.skip("the placements were made with WordNet 3.0, which is not installed")
    return "with-wordnet"


def test_placements_in_eight_domains(golden: Golden, known: str) -> None:
    answers: dict[str, list[str]] = {}
    for part in ("first.jsonl", "second.jsonl"):
        for line in (DOMAINS / part).read_text("utf-8").splitlines():
            record = json.loads(line)
            answers.setdefault(record["tree"], []).append(record["answer"])
    folder = f"place-domains-{known}"
    held = {}
    for tree, texts in answers.items():
        placed = placements(golden, DOMAINS / "trees" / tree, texts)
        rows = [[place["answer"], *row(place), place["evidence"]] for place in placed]
        held[f"{folder}/{Path(tree).stem}.tsv"] = table(rows)
    golden.compare(held, folder)


def test_placements_of_given_answers(golden: Golden, known: str, shared_data: Path) -> None:
    """The answers are other people's: a digest stands for each of them, and for the evidence, which is part of it."""
    answers: dict[str, dict[str, None]] = {}
    for file in sorted((shared_data / "answers").glob("*.jsonl")):
        for line in file.read_text("utf-8").splitlines():
            record = json.loads(line)
            tree = INAT21
            if "tree" in record:
                tree = f"trees/{record['tree']}"
            elif record.get("domain") in ("aircraft", "car196"):
                tree = "trees/vehicles.csv"
            texts = record["answer"] if isinstance(record["answer"], list) else [record["answer"]]
            answers.setdefault(tree, {}).update(dict.fromkeys(texts))
    folder = f"place-shared-{known}"
    held = {}
    for tree, distinct in sorted(answers.items()):
        placed = placements(golden, shared_data / tree, distinct)
        rows = [[digest(place["answer"]), *row(place), digest(place["evidence"])] for place in placed]
        held[f"{folder}/{Path(tree).stem}.tsv.gz"] = table(rows)
    golden.compare(held, folder)


def digest(text: str | None) -> str:
    return "" if text is None else f"{zlib.crc32(text.encode('utf-8')):08x}"
