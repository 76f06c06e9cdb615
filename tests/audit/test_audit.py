"""`taxtune audit` as a user runs it: the sample in a CSV file, verdicts by hand and from a chat model."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from taxtune.audit.chat import read_reply
from taxtune.audit.sample import _allocated, draw_sample
from taxtune.audit.summary import summarise_audit
from taxtune.audit.verdicts import verdict_of
from taxtune.mapping import Mapper, MapperConfig
from taxtune.taxonomy import Taxonomy, read_taxonomy
from tests.cli.commands import run_command
from tests.servers import OpenAIServer, status
from tests.tuning.toy import make_parts, tuned
from tests.unsure import Unsure

TREE = "path,aliases\nfood/dessert/cake,gateau\nfood/dessert/ice cream,\nfood/soup/pho,pho bo\n"
ANSWERS = ["pho", "A: cake.", "pho", "chocolate dessert", "ice cream", "a dessert", "pho"]
Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "dishes.csv").write_text(TREE)
    (tmp_path / "answers.txt").write_text("\n".join(ANSWERS) + "\n")
    return tmp_path


def audit(monkeypatch: Patch, folder: Path, *more: object) -> int:
    return run_command(
        monkeypatch, "audit", folder / "answers.txt", "-t", folder / "dishes.csv", "--json", *more
    )


def fill_in(file: Path, verdicts: dict[str, tuple[str, str]]) -> None:
    """Writes verdicts and nodes into the sample, as a spreadsheet would."""
    frame = pd.read_csv(file, dtype=str, keep_default_na=False)
    for index, answer in enumerate(frame["answer"]):
        frame.loc[index, ["verdict", "node"]] = verdicts.get(answer, ("right", ""))
    frame.to_csv(file, index=False)


def shares(printed: str) -> dict[tuple[str, str], float]:
    return {
        (row["answers"], row["verdict"]): row["share"]
        for row in json.loads(printed)["tables"]["audit"]
    }


def test_the_sample_is_filled_in_and_read_back(
    monkeypatch: Patch, capsys: Capture, folder: Path
) -> None:
    assert audit(monkeypatch, folder) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "5 answers in" in err
    file = folder / "answers-audit" / "audit.csv"
    fill_in(file, {"chocolate dessert": ("", "cake"), "a dessert": ("", "")})
    assert audit(monkeypatch, folder) == 0
    out, err = capsys.readouterr()
    found = shares(out)
    # All answers were drawn; the one without a verdict is not counted, and its stage is represented by the others.
    assert found["all", "too general"] > 0
    assert found["all", "right"] + found["all", "too general"] == pytest.approx(1)
    aliases = (file.parent / "audit-aliases.csv").read_text()
    assert aliases == "node,alias,source\nfood/dessert/cake,chocolate dessert,audit\n"
    assert "1 answers in" in err
    assert "to add them, run:" in err
    assert run_command(monkeypatch, "taxonomy", "enrich", folder / "dishes.csv", "--apply",
                       file.parent / "audit-aliases.csv", "--out", folder / "more.csv") == 0  # fmt: skip
    assert (
        Mapper(read_taxonomy(folder / "more.csv")).place_one("chocolate dessert").path[-1] == "cake"
    )
    capsys.readouterr()


def test_an_answer_that_is_half_a_surrogate_pair(
    monkeypatch: Patch, capsys: Capture, folder: Path
) -> None:
    (folder / "odd.jsonl").write_text('{"answer": "\\ud83d pho"}\n{"answer": "cake"}\n')
    assert run_command(monkeypatch, "audit", folder / "odd.jsonl", "-t", folder / "dishes.csv") == 0
    assert set(pd.read_csv(folder / "odd-audit" / "audit.csv")["answer"]) == {"? pho", "cake"}


def test_a_verdict_counts_for_the_placement_it_was_given_on(
    monkeypatch: Patch, capsys: Capture, folder: Path
) -> None:
    assert audit(monkeypatch, folder) == 0
    fill_in(
        folder / "answers-audit" / "audit.csv",
        {"a dessert": ("right", ""), "chocolate dessert": ("", "cake")},
    )
    (folder / "dishes.csv").write_text(
        TREE.replace("gateau", "gateau;chocolate dessert").replace(
            "food/dessert/", "food/sweet dessert/"
        )
    )
    # The tree has no node called dessert now; the node that a verdict names is still there.
    assert audit(monkeypatch, folder) == 0
    out = capsys.readouterr().out
    assert any(
        "placed elsewhere now: judge them again" in text for text in json.loads(out)["notes"]
    )
    frame = pd.read_csv(
        folder / "answers-audit" / "audit.csv", dtype=str, keep_default_na=False
    ).set_index("answer")
    assert frame.loc["chocolate dessert", "verdict"] == "right"
    assert frame.loc["A: cake.", "verdict"] == ""


@pytest.mark.parametrize(
    ("verdict", "node", "message"),
    [
        ("correct", "", "Unknown verdict. Write right, too general, wrong"),
        ("", "strudel", "not on the tree"),
    ],
)
def test_what_cannot_be_read_is_named_by_row(
    monkeypatch: Patch, capsys: Capture, folder: Path, verdict: str, node: str, message: str
) -> None:
    assert audit(monkeypatch, folder) == 0
    file = folder / "answers-audit" / "audit.csv"
    fill_in(file, {"A: cake.": (verdict, node)})
    row = 2 + pd.read_csv(file, dtype=str)["answer"].tolist().index("A: cake.")
    capsys.readouterr()
    assert audit(monkeypatch, folder) == 2
    err = " ".join(capsys.readouterr().err.split())
    assert f"audit.csv:{row}:" in err
    assert (verdict or node) in err
    for part in message.split(". "):
        assert part.rstrip(".") in err


@pytest.mark.parametrize("saved_as", [{"sep": "\t", "encoding": "utf-16"}])
def test_verdicts_survive_a_spreadsheet_and_a_smaller_draw(
    monkeypatch: Patch, capsys: Capture, folder: Path, saved_as: dict[str, Any]
) -> None:
    # The root is called as another node is, and a node as a formula begins.
    (folder / "dishes.csv").write_text(f"{TREE}food/snack/food,\nfood/snack/=nuts,\n")
    assert audit(monkeypatch, folder) == 0
    file = folder / "answers-audit" / "audit.csv"
    fill_in(file, {"chocolate dessert": ("wrong", "=nuts")})
    assert audit(monkeypatch, folder) == 0
    frame = pd.read_csv(file, dtype=str, keep_default_na=False)
    assert (
        frame["id"].str.match("[a-z]").all()
    )  # no number, which a spreadsheet would write its own way
    frame.to_csv(file, index=False, **saved_as)
    assert audit(monkeypatch, folder, "--n", 1) == 0
    capsys.readouterr()
    assert audit(monkeypatch, folder) == 0
    assert json.loads(capsys.readouterr().out)["settings"]["judged"] == len(frame) == 5
    kept = pd.read_csv(file, dtype=str, keep_default_na=False)
    assert dict(zip(kept["answer"], kept["node"], strict=True))["chocolate dessert"] == "'=nuts"


def test_two_verdicts_on_one_answer_are_refused(
    monkeypatch: Patch, capsys: Capture, folder: Path
) -> None:
    assert audit(monkeypatch, folder) == 0
    file = folder / "answers-audit" / "audit.csv"
    fill_in(file, {})
    with file.open("a") as lines:
        lines.write(file.read_text().splitlines()[1].replace("right", "wrong") + "\n")
    assert audit(monkeypatch, folder) == 2
    assert "audit.csv:7: Another row judges this answer." in " ".join(
        capsys.readouterr().err.split()
    )


def test_a_file_needs_a_tree(monkeypatch: Patch, capsys: Capture, folder: Path) -> None:
    assert run_command(monkeypatch, "audit", folder / "answers.txt") == 2
    assert "-t TREE" in capsys.readouterr().err


def test_a_run_brings_its_tree_and_mapper(
    monkeypatch: Patch, capsys: Capture, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    tuned(make_parts(tmp_path / "recipe", run, overrides=("iterations=1",)), run)
    assert run_command(monkeypatch, "audit", run) == 0
    frame = pd.read_csv(run / "audit.csv", dtype=str, keep_default_na=False)
    result = json.loads((run / "result.json").read_text())
    answers = [row["placed"] for row in result["heldout"][1]["rows"]]
    placed = {answer["answer"]: answer["placement"] for answer in answers}
    assert {row["answer"]: row["placement"] for row in frame.to_dict("records")} == placed


TEXTS = ["b", "a c", "it may be d", "an e", "f", "nothing", "zebra", "a d or f", "c!", "B."]


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("mapper", "asked", "wrong"),
    [
        (Mapper, (), {1, 5, 8}),
        # The doubtful answers are those that are wrong; half of them; none, and others are.
        (Unsure, (2, 6, 9), {2, 6, 9}),
        (Unsure, (2, 6, 9), {6}),
        (Unsure, (2, 6, 9), {0, 3}),
    ],
)
def test_the_draw_is_unbiased_and_its_interval_covers_the_truth(
    mapper: type[Mapper], asked: tuple[int, ...], wrong: set[int]
) -> None:
    """On a made population whose verdicts are known."""
    tree = Taxonomy.from_paths(["a/b", "a/c", "a/d/e", "a/d/f"])
    placing = mapper(tree)
    texts = [text + "?" * (i in asked) for i, text in enumerate(TEXTS)]
    times = np.random.default_rng(5).integers(1, 60, len(texts))
    times[list(asked)] = np.ceil(times[list(asked)] / 3)
    answers = [text for text, count in zip(texts, times, strict=True) for _ in range(count)]
    false = {texts[i] for i in wrong}
    truth = 1 - sum(Counter(answers)[text] for text in false) / len(answers)
    estimates, covered, doubts = [], 0, 0.0
    for seed in range(200):
        sample = draw_sample(answers, placing, 40, seed)
        assert sample["draws"].sum() == 40
        sample["verdict"] = ["wrong" if answer in false else "right" for answer in sample["answer"]]
        row = summarise_audit(sample, judge="a person").table("audit").records()[0]
        estimates.append(row["share"])
        covered += row["low"] <= truth <= row["high"]
        doubts += (
            sample.loc[sample["answer"].str.contains("?", regex=False), "draws"].sum() / 40 / 200
        )
    assert np.mean(estimates) == pytest.approx(truth, abs=3 * np.std(estimates) / 200**0.5 + 1e-9)
    assert covered >= 0.93 * 200
    assert doubts >= 1.4 * sum(times[list(asked)]) / len(answers)


def test_the_share_that_is_right_is_told_by_doubt() -> None:
    tree = Taxonomy.from_paths(["a/b", "a/c"])
    answers = ["b"] * 30 + ["c"] * 10 + ["c?"] * 8 + ["b?"] * 2
    for preset in ("default", "paper-listing"):
        sample = draw_sample(answers, Unsure(tree, config=MapperConfig(preset=preset)), 50)
        sample["verdict"] = ["wrong" if answer == "c?" else "right" for answer in sample["answer"]]
        records = summarise_audit(sample, judge="a person").table("audit").records()
        found = {
            row["answers"]: (row["judged"], row["share"])
            for row in records
            if row["verdict"] == "right"
        }
        doubts = {
            "confidence from 0.75 on": (2, 1.0),
            "confidence below 0.75": (2, pytest.approx(0.2)),
        }
        assert {key: value for key, value in found.items() if key.startswith("confidence")} == (
            doubts if preset == "default" else {}
        )
        assert found["all"] == (4, pytest.approx(42 / 50))


def test_the_interval_of_one_stratum_is_wilsons() -> None:
    answers = [f"b{'.' * i}" for i in range(60)]
    sample = draw_sample(answers, Mapper(Taxonomy.from_paths(["a/b", "a/c"])), 23)
    sample["verdict"] = ["wrong"] * 4 + ["right"] * 19
    row = summarise_audit(sample, judge="a person").table("audit").records()[0]
    expected = binomtest(19, 23).proportion_ci(method="wilson")
    assert (row["share"], row["low"], row["high"]) == pytest.approx(
        (19 / 23, expected.low, expected.high)
    )


def test_draws_go_where_they_lower_the_variance_most() -> None:
    sizes, spread = np.array([70, 20, 6, 4]), np.array([0.22, 0.5, 0.45, 0.3])
    draws = _allocated(sizes, spread, 24)

    def variance(draws: tuple[int, ...]) -> float:
        return sum(size**2 * s**2 / d for size, s, d in zip(sizes, spread, draws, strict=True))

    choices = (
        c
        for c in itertools.product(range(1, 22), range(1, 21), range(1, 7), range(1, 5))
        if sum(c) == 24
    )
    assert variance(tuple(draws)) == pytest.approx(min(map(variance, choices)))
    assert _allocated(sizes, spread, 1000).tolist() == sizes.tolist()
    assert _allocated(sizes, spread, 2).tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("placement", "stage", "node", "verdict"),
    [("a/d", "head", "e", "too general"), ("a", "off_tree", "e", "wrong"), ("a/b", "head", "a", "wrong"),
     ("a/b", "head", "b", "right"), ("a", "abstained", "a", "right")],
)  # fmt: skip
def test_the_verdict_follows_from_the_node(
    placement: str, stage: str, node: str, verdict: str
) -> None:
    tree = Taxonomy.from_paths(["a/b", "a/d/e"])
    assert verdict_of(tree, placement, stage, tree.resolve(node)) == verdict


# -- a chat model as the judge -----------------------------------------------------------------------------------------


@pytest.mark.heavy
def test_a_model_judges(monkeypatch: Patch, capsys: Capture, folder: Path) -> None:
    replies: dict[str, Any] = {
        "chocolate dessert": "Verdict: too general\nNode: cake",
        "A: cake.": "Verdict: wrong\nNode: cake",  # where it is: the verdict counts, the node does not
        "ice cream": "Hard to tell.",
        "a dessert": status(400, "bad"),
    }

    def reply(body: dict[str, Any]) -> Any:
        answer = body["messages"][-1]["content"].split('Text of the answer: "')[1].split('"\n')[0]
        return replies.get(answer, "Verdict: right")

    arguments = ("--llm", "openai/judge", "--cache-dir", folder / "cache")
    with OpenAIServer(reply) as server:
        assert audit(monkeypatch, folder, *arguments, "--api-base", server.api_base) == 0
        first = json.loads(capsys.readouterr().out)
        assert audit(monkeypatch, folder, *arguments, "--api-base", server.api_base) == 0
        assert len(server.chats) == 6  # of five, the failed call alone is asked again
        shown = " ".join(server.prompts)
    assert "Directly below that node" in shown
    notes = " ".join(first["notes"])
    assert "the judge's reply contains no verdict" in notes
    assert "the call failed" in notes
    assert "1 replies name a node" in notes
    frame = pd.read_csv(
        folder / "answers-audit" / "audit-llm.csv", dtype=str, keep_default_na=False
    )
    verdicts = dict(zip(frame["answer"], frame["verdict"], strict=True))
    assert verdicts == {"pho": "right", "A: cake.": "wrong", "chocolate dessert": "too general", "ice cream": "",
                        "a dessert": ""}  # fmt: skip


@pytest.mark.heavy
def test_a_model_is_compared_with_a_person(
    monkeypatch: Patch, capsys: Capture, folder: Path
) -> None:
    assert audit(monkeypatch, folder) == 0
    fill_in(folder / "answers-audit" / "audit.csv", {"chocolate dessert": ("", "cake")})
    capsys.readouterr()
    with OpenAIServer(then="Verdict: right") as server:
        more = (
            "--llm",
            "openai/judge",
            "--cache-dir",
            folder / "cache",
            "--api-base",
            server.api_base,
        )
        assert audit(monkeypatch, folder, *more) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert "Of 5 placements that a person also judged, the model agrees on 4." in notes


@pytest.mark.parametrize(
    ("reply", "read"),
    [
        ("Verdict: right", ("right", "")),
        ("**Verdict:** Too general\nNode: -", ("too general", "")),
        ("<think>Verdict: wrong? no</think>\nverdict = too-general.", ("too general", "")),
        ('Verdict: too general\n- **Node:** "cake"', ("too general", "cake")),
        ("Verdict: right\nVerdict: wrong", (None, "")),
        ("<think>Verdict: right", (None, "")),
        ("", (None, "")),
    ],
)
def test_a_reply_is_read_strictly(reply: str, read: tuple[str | None, str]) -> None:
    assert read_reply(reply) == read
