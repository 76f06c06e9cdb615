from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from tests.cli.commands import run_captured

TAXONOMY = """path,rank,aliases
life/bird,class,birds
life/bird/duck/mallard,species,wild duck
life/bird/thrush/blackbird,species,Turdus merula
life/bird/thrush/American robin,species,Turdus migratorius
life/insect/robin,species,
life/plant/robin,species,
"""


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("taxonomy.csv").write_text(TAXONOMY, encoding="utf-8")


def score(rows, *more, name="rows.csv"):
    """Runs `taxtune score` on a file of these rows."""
    Path(name).write_text(rows, encoding="utf-8")
    return run_captured("score", "-t", "taxonomy.csv", name, *more)


def scored(rows, *more, name="rows.csv"):
    """What --json prints; it must end well."""
    done = score(rows, *more, "--json", name=name)
    assert done.code == 0, done.err
    return dict(json.loads(done.out))


def column(rows, name):
    return [row[name] for row in rows]


def test_what_is_scored_stands_before_the_scores_in_json():
    keys = list(scored("answer,truth\nbird,mallard\n"))
    wanted = ["root", "scored", "n", "scores", "doubtful", "ranks", "mapper", "rows"]
    assert [key for key in keys if key in wanted] == wanted


def test_scores_of_predicted_nodes():
    rows = "placement,truth\nbird,mallard\nlife/bird/thrush,Turdus merula\nmallard,Wild Duck\n"
    done = score(rows)
    assert done.code == 0, done.err
    shown = {}
    for line in done.out.splitlines():
        name, *values = re.split(r"  +", line.strip())
        if values:
            shown[name] = values[0]
    # hR is (2/4 + 3/4 + 4/4) / 3. Five leaves, three of them birds: "bird" says log2(5/3) bits of
    # the log2(5) of a mallard or a blackbird, so ihR is (0.737 + 1.322 + 2.322) / 2.322 / 3.
    expected = {
        "hP": "1.000",
        "hR": "0.750",
        "hF": "0.857",
        "accuracy": "0.333",
        "depth": "2.00",
        "ihP": "1.000",
        "ihR": "0.629",
        "ihF": "0.772",
        "remaining uncertainty, bits": "0.86",
        "misinformation, bits": "0.00",
    }
    assert {name: shown[name] for name in expected} == expected
    assert "  3 examples\n" in done.out
    targets = "mean depth 3.00, mean information 2.32 bits (all leaves equally likely)"
    assert f"targets: {targets}" in done.out
    ranks = done.out.partition("At each rank")[2].partition("3 examples")[0]
    lines = [" ".join(line.split()) for line in ranks.splitlines()]
    assert any(line.startswith("class 3 1.000") for line in lines)
    # Ducks and thrushes have no rank.
    assert any(line.startswith("level 2 2") for line in lines)
    assert "species 1 1.000 1.000 1.000 3 0.333 0.000 1.000" in lines


def test_json_holds_everything():
    first = {"placement": ["life", "bird"], "truth": "mallard"}
    second = {"placement": "duck", "truth": "blackbird"}
    text = f"{json.dumps(first)}\n{json.dumps(second)}"
    data = scored(text, "--seed", 3, "--resamples", 50, name="rows.jsonl")
    facts = {"n": 2, "scored": "placement", "seed": 3, "resamples": 50, "abstained": None}
    assert {key: data[key] for key in facts} == facts
    scores = data["scores"]
    assert scores["hp"]["estimate"] == pytest.approx((1 + 2 / 3) / 2)
    assert scores["hr"]["low"] <= scores["hr"]["high"]
    bird = math.log2(5 / 3) / math.log2(5)
    assert scores["ihp"]["estimate"] == pytest.approx((1 + bird) / 2)
    assert column(data["rows"], "row") == [1, 2]
    duck = data["rows"][1]
    assert duck["placement"] == "life/bird/duck"
    assert duck["hp"] == pytest.approx(2 / 3)
    assert duck["ihp"] == pytest.approx(bird)
    assert duck["misinformation"] == pytest.approx(math.log2(3))
    assert duck["remaining_uncertainty"] == pytest.approx(math.log2(3))
    assert data["targets"] == {"depth": 3, "bits": pytest.approx(math.log2(5))}
    # The mean weight of bird, insect and plant.
    aside = pytest.approx((math.log2(5 / 3) + 2 * math.log2(5)) / 3)
    assert data["information"] == {"p": "leaves", "smoothing": 0, "off_tree_bits": aside}
    ranks = data["ranks"]
    assert column(ranks, "rank") == ["class", "level 2", "species"]
    assert column(ranks, "n_predicted") == [2, 1, 0]
    assert column(ranks, "n_relevant") == [2, 2, 2]
    assert column(ranks, "right") == [2, 0, 0]
    assert ranks[1]["precision"]["estimate"] == 0
    assert ranks[2]["precision"] is None
    assert ranks[2]["recall"] == {"estimate": 0, "low": 0, "high": 0}


def test_answers_are_placed_and_abstentions_counted():
    rows = """answer,target
A: a mallard.,mallard
"It is a thrush,
I think",blackbird
I cannot tell what this is.,mallard
"""
    data = scored(rows)
    placed = ["life/bird/duck/mallard", "life/bird/thrush", "life"]
    assert column(data["rows"], "placement") == placed
    assert column(data["rows"], "row") == [2, 3, 5]
    assert column(data["rows"], "abstained") == [False, False, True]
    assert data["abstained"] == 1
    assert data["mapper"]
    assert "3 examples, 1 (33.3 %) of them abstentions" in score(rows).out


def test_every_label_that_is_not_on_the_taxonomy_is_named():
    done = score("placement,truth\nmalard,duck\nbird,blackbrid\n,duck\nrobin,\nbird,duck\n")
    assert (done.code, done.out) == (2, "")
    for said in (
        "4 of 5 rows cannot be used",
        "row 2: placement: 'malard' is not on the taxonomy. Did you mean 'mallard'",
        "row 3: truth: 'blackbrid' is not on the taxonomy. Did you mean 'blackbird'",
        "row 4: placement is missing",
        "row 5: truth is missing",
        "2 nodes are called 'robin'. Give the path: life/insect/robin, life/plant/robin",
    ):
        assert said in done.err


def test_an_empty_answer_is_never_guessed_at():
    rows = "answer,target\nmallard,mallard\n,mallard\n"
    done = score(rows)
    assert done.code == 2
    for said in ("row 3: answer is missing", "--missing abstain", "--missing leave-out"):
        assert said in done.err
    out = score(rows, "--missing", "leave-out").out
    assert "1 example," in out
    assert "1 row without an answer left out: 3" in out
    data = scored(rows, "--missing", "abstain")
    assert (data["n"], data["abstained"], data["rows"][1]["placement"]) == (2, 1, "life")
    assert score(rows, "--missing", "zero").code == 2


def test_a_domain_root_changes_the_scores_and_both_are_shown():
    rows = "placement,truth\nbird,mallard\nlife/bird/thrush,Turdus merula\nduck,life/plant/robin\n"
    done = score(rows, "--root", "birds")
    bits = ("ihP", "ihR", "ihF", "remaining uncertainty, bits", "misinformation, bits")
    for name in ("hP", "hR", "hF", "depth", *bits):
        assert f"  {name} on bird  " in done.out
        assert f"  {name} on life  " in done.out
    assert "  2 examples\n  1 row with a target outside bird left out: 4\n" in done.out
    data = scored(rows, "--root", "bird")
    assert (data["root"], data["n"], data["outside"]) == ("life/bird", 2, [4])
    # "bird" for life/bird/duck/mallard: 1 of 3 nodes from bird down, 2 of 4 from life down; then 2
    # of 3, and 3 of 4.
    below = [1 / 3, 2 / 3]
    whole = [2 / 4, 3 / 4]
    scores = data["scores"]
    full = data["full_scores"]
    assert scores["hr"]["estimate"] == pytest.approx(sum(below) / 2)
    assert full["hr"]["estimate"] == pytest.approx(sum(whole) / 2)
    assert full["depth"]["estimate"] == scores["depth"]["estimate"] + 1
    assert full["accuracy"] == scores["accuracy"]
    assert column(data["rows"], "row") == [2, 3]
    assert column(data["rows"], "hr") == pytest.approx(below)
    assert column(data["rows"], "full_hr") == whole
    assert data["rows"][0]["truth"] == "bird/duck/mallard"
    data = scored("placement,truth\nbird,bird\n")
    assert (data["root"], data["full_scores"], data["outside"]) == (None, None, [])


def test_what_hangs_on_doubtful_placements_is_said():
    rows = "answer,target\nmallard,mallard\na blackbird,blackbird\nblackbrid or so,blackbird\n"
    rows += "the quux of the wug,mallard\n"
    found = scored(rows)
    doubtful = found["doubtful"]
    unsure = [row["confidence"] < doubtful["below"] for row in found["rows"]]
    assert not unsure[0]
    assert unsure[3]
    assert sum(unsure) == doubtful["n"]
    kept = [row["hp"] for row, out in zip(found["rows"], unsure, strict=True) if not out]
    assert doubtful["without"]["hp"] == pytest.approx(sum(kept) / len(kept))
    wrong = [0.5 if out else row["hp"] for row, out in zip(found["rows"], unsure, strict=True)]
    assert doubtful["wrong"]["hp"] == pytest.approx(sum(wrong) / len(wrong))
    assert f"(confidence below {doubtful['below']}): {doubtful['n']}; hP" in score(rows).out
    assert scored(rows, "--preset", "paper-listing")["doubtful"] is None


def test_a_confidence_beside_the_nodes_is_scored():
    rows = "placement,truth,confidence\nmallard,mallard,.9\nthrush,mallard,.8\nbird,mallard,.3\n"
    found = scored(rows)["selective"]
    assert found["aurc"] == pytest.approx((0 + 1 / 6 + 1 / 9) / 3)
    assert found["brier"] == pytest.approx((0.1**2 + 0.8**2 + 0.7**2) / 3)
    note = "confidence: AURC 0.093, calibration error 0.533, Brier score 0.380; 1 - hP by coverage: 0.000 at 20 %, "
    assert note in score(rows).out
    # Percent are no probabilities, but rank.
    percent = scored(rows.replace(",.", ",").replace("9", "90"))["selective"]
    assert (percent["aurc"], percent["brier"]) == (pytest.approx(found["aurc"]), None)
    broken = score(rows.replace(".3", "low"))
    assert "confidence: AURC" not in broken.out
    assert "the column confidence has no number in some rows" in broken.err
    # Of text it is the mapper's, which is not how sure it is that the answer is right.
    said = scored("answer,truth\nmallard,mallard\nthrush,mallard\n")["selective"]
    assert (said["brier"], said["curve"]) == (None, None)


EMPTY_FRAMES = """answer,truth
a mallard,blank
There is no life in the photo.,Empty
a bicycle,false trigger
empty,mallard
a bird,unidentified bird
a duck,unknown
"""


def test_what_shows_nothing_is_right_on_the_root_alone():
    found = scored(EMPTY_FRAMES)
    assert found["n"] == 5
    assert found["outcomes"]["counts"] == {
        "wrong": 1,
        "off the tree": 1,
        "right, but general": 1,
        "exact": 2,
        "empty, called something": 2,
        "something, called empty": 1,
    }
    assert column(found["rows"], "truth") == ["life", "life", "life", LIFE_MALLARD, "life/bird"]
    assert column(found["rows"], "hp") == [0.25, 1, 0.5, 1, 1]
    assert column(found["rows"], "hr") == [1, 1, 1, 0.25, 1]
    assert re.search(r"empty, called something +2 ", score(EMPTY_FRAMES).out)
    assert "empty, called" not in score("answer,truth\nempty,mallard\n").out


LIFE_MALLARD = "life/bird/duck/mallard"
