"""`taxtune audit` as a user runs it: the sample in a CSV file, verdicts by hand and from a chat model."""

from __future__ import annotations

import json
from collections import Counter
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
from tests.cli.commands import run_captured, run_well
from tests.servers import OpenAIServer, status
from tests.tuning.toy import make_parts, tuned
from tests.unsure import Unsure

TREE = "path,aliases\nfood/dessert/cake,gateau\nfood/dessert/ice cream,\nfood/soup/pho,pho bo\n"
ANSWERS = ["pho", "A: cake.", "pho", "chocolate dessert", "ice cream", "a dessert", "pho"]
Row = dict[str, Any]


def read_sample(file):
    return pd.read_csv(file, dtype=str, keep_default_na=False)


class Desk:
    """A folder with answers and a tree, where audits are run and filled in."""

    def __init__(self, folder):
        self.folder = folder
        self.tree = folder / "dishes.csv"
        self.file = folder / "answers-audit" / "audit.csv"
        self.tree.write_text(TREE)
        self.answers = folder / "answers.txt"
        self.answers.write_text("\n".join(ANSWERS) + "\n")

    def audit(self, *more, code=0):
        done = run_captured("audit", self.answers, "-t", self.tree, "--json", *more)
        assert done.code == code, done.err
        return done

    def fill_in(self, **verdicts):
        """Writes verdicts and nodes into the sample, as a spreadsheet would; "right" by default."""
        frame = read_sample(self.file)
        for index, answer in enumerate(frame["answer"]):
            verdict = verdicts.get(answer.replace(" ", "_"), ("right", ""))
            frame.loc[index, ["verdict", "node"]] = verdict
        frame.to_csv(self.file, index=False)


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


def test_the_sample_is_filled_in_and_read_back(desk):
    done = desk.audit()
    assert done.out == ""
    assert "5 answers in" in done.err
    desk.fill_in(chocolate_dessert=("", "cake"), a_dessert=("", ""))
    done = desk.audit()
    shares = {}
    for row in json.loads(done.out)["tables"]["audit"]:
        shares[row["answers"], row["verdict"]] = row["share"]
    # All answers were drawn; the one without a verdict is not counted, and its stage is represented
    # by the others.
    assert shares["all", "too general"] > 0
    assert shares["all", "right"] + shares["all", "too general"] == pytest.approx(1)
    aliases = desk.file.with_name("audit-aliases.csv")
    wanted = "node,alias,source\nfood/dessert/cake,chocolate dessert,audit\n"
    assert aliases.read_text() == wanted
    assert "1 answers in" in done.err
    assert "to add them, run:" in done.err
    more = desk.folder / "more.csv"
    run_well("taxonomy", "enrich", desk.tree, "--apply", aliases, "--out", more)
    placement = Mapper(read_taxonomy(more)).place_one("chocolate dessert")
    assert placement.path[-1] == "cake"


def test_an_answer_that_is_half_a_surrogate_pair(desk):
    odd = desk.folder / "odd.jsonl"
    odd.write_text('{"answer": "\\ud83d pho"}\n{"answer": "cake"}\n')
    run_well("audit", odd, "-t", desk.tree)
    frame = read_sample(desk.folder / "odd-audit" / "audit.csv")
    assert set(frame["answer"]) == {"? pho", "cake"}


def test_a_verdict_counts_for_the_placement_it_was_given_on(desk):
    desk.audit()
    desk.fill_in(a_dessert=("right", ""), chocolate_dessert=("", "cake"))
    tree = TREE.replace("gateau", "gateau;chocolate dessert")
    desk.tree.write_text(tree.replace("food/dessert/", "food/sweet dessert/"))
    # The tree has no node called dessert now; the node that a verdict names is still there.
    notes = json.loads(desk.audit().out)["notes"]
    assert any("placed elsewhere now: judge them again" in text for text in notes)
    verdicts = read_sample(desk.file).set_index("answer")["verdict"]
    assert verdicts["chocolate dessert"] == "right"
    assert verdicts["A: cake."] == ""


@pytest.mark.parametrize(
    ("verdict", "node", "messages"),
    [
        ("correct", "", ["Unknown verdict.", "Write right, too general, wrong"]),
        ("", "strudel", ["not on the tree"]),
    ],
)
def test_what_cannot_be_read_is_named_by_row(desk, verdict, node, messages):
    desk.audit()
    desk.fill_in(ice_cream=(verdict, node))
    row = 2 + read_sample(desk.file)["answer"].tolist().index("ice cream")
    err = " ".join(desk.audit(code=2).err.split())
    for part in (f"audit.csv:{row}:", verdict or node, *messages):
        assert part in err


def test_verdicts_survive_a_spreadsheet_and_a_smaller_draw(desk):
    # The root is called as another node is, and a node as a formula begins.
    desk.tree.write_text(f"{TREE}food/snack/food,\nfood/snack/=nuts,\n")
    desk.audit()
    desk.fill_in(chocolate_dessert=("wrong", "=nuts"))
    desk.audit()
    frame = read_sample(desk.file)
    # An id is no number, which a spreadsheet would write its own way.
    assert frame["id"].str.match("[a-z]").all()
    frame.to_csv(desk.file, index=False, sep="\t", encoding="utf-16")
    desk.audit("--n", 1)
    again = json.loads(desk.audit().out)
    assert again["settings"]["judged"] == len(frame) == 5
    nodes = read_sample(desk.file).set_index("answer")["node"]
    assert nodes["chocolate dessert"] == "'=nuts"


def test_two_verdicts_on_one_answer_are_refused(desk):
    desk.audit()
    desk.fill_in()
    content = desk.file.read_text()
    _, first, *_ = content.splitlines()
    contrary = first.replace("right", "wrong")
    desk.file.write_text(f"{content}{contrary}\n")
    err = " ".join(desk.audit(code=2).err.split())
    assert "audit.csv:7: Another row judges this answer." in err


def test_a_file_needs_a_tree(desk):
    done = run_captured("audit", desk.answers)
    assert done.code == 2
    assert "-t TREE" in done.err


def test_a_run_brings_its_tree_and_mapper(tmp_path):
    run = tmp_path / "run"
    parts = make_parts(tmp_path / "recipe", run, overrides=("iterations=1",))
    tuned(parts, run)
    run_well("audit", run)
    frame = read_sample(run / "audit.csv").set_index("answer")
    result = json.loads((run / "result.json").read_text())
    _, winner = result["heldout"]
    answers = [row["placed"] for row in winner["rows"]]
    placed = {answer["answer"]: answer["placement"] for answer in answers}
    assert frame["placement"].to_dict() == placed


# -- the draw and what follows ---------------------------------------------------------------------

TEXTS = ["b", "a c", "it may be d", "an e", "f", "nothing", "zebra", "a d or f", "c!", "B."]


def judged(sample, wrong):
    """Returns the summary of a sample whose wrong answers are known."""
    sample["verdict"] = np.where(sample["answer"].isin(wrong), "wrong", "right")
    return summarise_audit(sample, judge="a person").table("audit").records()


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
def test_the_draw_is_unbiased_and_its_interval_covers_the_truth(mapper, asked, wrong):
    """On a made population whose verdicts are known."""
    tree = Taxonomy.from_paths(["a/b", "a/c", "a/d/e", "a/d/f"])
    placing = mapper(tree)
    doubtful = list(asked)
    texts = TEXTS.copy()
    for i in doubtful:
        texts[i] += "?"
    times = np.random.default_rng(5).integers(1, 60, len(texts))
    times[doubtful] = np.ceil(times[doubtful] / 3)
    answers = np.repeat(texts, times).tolist()
    false = {texts[i] for i in wrong}
    counts = Counter(answers)
    truth = 1 - sum(counts[text] for text in false) / len(answers)
    estimates = []
    covered = 0
    doubts = 0.0
    for seed in range(200):
        sample = draw_sample(answers, placing, 40, seed)
        assert sample["draws"].sum() == 40
        row = judged(sample, false)[0]
        estimates.append(row["share"])
        covered += row["low"] <= truth <= row["high"]
        is_asked = sample["answer"].str.contains("?", regex=False)
        drawn = sample.loc[is_asked, "draws"]
        doubts += drawn.sum() / 40 / 200
    error = 3 * np.std(estimates) / 200**0.5
    assert np.mean(estimates) == pytest.approx(truth, abs=error + 1e-9)
    assert covered >= 0.93 * 200
    assert doubts >= 1.4 * sum(times[doubtful]) / len(answers)


@pytest.mark.parametrize(
    ("preset", "by_doubt"),
    [
        (
            "default",
            {"confidence from 0.75 on": (2, 1.0), "confidence below 0.75": (2, pytest.approx(0.2))},
        ),
        ("paper-listing", {}),
    ],
)
def test_the_share_that_is_right_is_told_by_doubt(preset, by_doubt):
    tree = Taxonomy.from_paths(["a/b", "a/c"])
    answers = ["b"] * 30 + ["c"] * 10 + ["c?"] * 8 + ["b?"] * 2
    config = MapperConfig(preset=preset)
    sample = draw_sample(answers, Unsure(tree, config=config), 50)
    shares = {}
    for row in judged(sample, {"c?"}):
        if row["verdict"] == "right":
            shares[row["answers"]] = (row["judged"], row["share"])
    assert {key: shares[key] for key in shares if key.startswith("confidence")} == by_doubt
    assert shares["all"] == (4, pytest.approx(42 / 50))


def test_the_interval_of_one_stratum_is_wilsons():
    answers = [f"b{'.' * i}" for i in range(60)]
    mapper = Mapper(Taxonomy.from_paths(["a/b", "a/c"]))
    sample = draw_sample(answers, mapper, 23)
    wrong = set(sample["answer"][:4])
    row, *_ = judged(sample, wrong)
    expected = binomtest(19, 23).proportion_ci(method="wilson")
    assert row["share"] == pytest.approx(19 / 23)
    assert row["low"] == pytest.approx(expected.low)
    assert row["high"] == pytest.approx(expected.high)


def test_draws_go_where_they_lower_the_variance_most():
    sizes = np.array([70, 20, 6, 4])
    spread = np.array([0.22, 0.5, 0.45, 0.3])
    draws = _allocated(sizes, spread, 24)
    grid = np.meshgrid(np.arange(21), np.arange(20), np.arange(6), np.arange(4))
    choices = 1 + np.stack(grid, axis=-1).reshape(-1, 4)
    choices = choices[choices.sum(axis=1) == 24]
    squares = (sizes * spread) ** 2
    variances = (squares / choices).sum(axis=1)
    assert (squares / draws).sum() == pytest.approx(variances.min())
    assert _allocated(sizes, spread, 1000).tolist() == sizes.tolist()
    assert _allocated(sizes, spread, 2).tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("placement", "stage", "node", "verdict"),
    [
        ("a/d", "head", "e", "too general"),
        ("a", "off_tree", "e", "wrong"),
        ("a/b", "head", "a", "wrong"),
        ("a/b", "head", "b", "right"),
        ("a", "abstained", "a", "right"),
    ],
)
def test_the_verdict_follows_from_the_node(placement, stage, node, verdict):
    tree = Taxonomy.from_paths(["a/b", "a/d/e"])
    assert verdict_of(tree, placement, stage, tree.resolve(node)) == verdict


# -- a chat model as the judge ---------------------------------------------------------------------


@pytest.mark.heavy
def test_a_model_judges(desk):
    replies = {
        "chocolate dessert": "Verdict: too general\nNode: cake",
        "A: cake.": "Verdict: wrong\nNode: cake",  # where it is: the verdict counts, the node not
        "ice cream": "Hard to tell.",
        "a dessert": status(400, "bad"),
    }

    def reply(body):
        question = body["messages"][-1]["content"]
        _, _, rest = question.partition('Text of the answer: "')
        answer, _, _ = rest.partition('"\n')
        return replies.get(answer, "Verdict: right")

    with OpenAIServer(reply) as server:
        model = ("--llm", "openai/judge", "--api-base", server.api_base)
        first = desk.audit(*model, "--cache-dir", desk.folder / "cache")
        desk.audit(*model, "--cache-dir", desk.folder / "cache")
        assert len(server.chats) == 6  # of five, the failed call alone is asked again
        assert "Directly below that node" in " ".join(server.prompts)
    notes = " ".join(json.loads(first.out)["notes"])
    assert "the judge's reply contains no verdict" in notes
    assert "the call failed" in notes
    assert "1 replies name a node" in notes
    sample = read_sample(desk.file.with_name("audit-llm.csv"))
    verdicts = sample.set_index("answer")["verdict"]
    silent = {"ice cream": "", "a dessert": ""}
    said = {"pho": "right", "A: cake.": "wrong", "chocolate dessert": "too general"}
    assert verdicts.to_dict() == said | silent


@pytest.mark.heavy
def test_a_model_is_compared_with_a_person(desk):
    desk.audit()
    desk.fill_in(chocolate_dessert=("", "cake"))
    with OpenAIServer(then="Verdict: right") as server:
        model = ("--llm", "openai/judge", "--api-base", server.api_base)
        done = desk.audit(*model, "--cache-dir", desk.folder / "cache")
    notes = json.loads(done.out)["notes"]
    assert "Of 5 placements that a person also judged, the model agrees on 4." in notes


@pytest.mark.parametrize(
    ("reply", "verdict", "node"),
    [
        ("Verdict: right", "right", ""),
        ("**Verdict:** Too general\nNode: -", "too general", ""),
        ("<think>Verdict: wrong? no</think>\nverdict = too-general.", "too general", ""),
        ('Verdict: too general\n- **Node:** "cake"', "too general", "cake"),
        ("Verdict: right\nVerdict: wrong", None, ""),
        ("<think>Verdict: right", None, ""),
        ("", None, ""),
    ],
)
def test_a_reply_is_read_strictly(reply, verdict, node):
    assert read_reply(reply) == (verdict, node)
