"""The tree as the report shows it: the numbers of drawing, table and description are the same."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest

from taxtune.report import tree_view
from taxtune.report.html import page
from tests.report import samples
from tests.report.test_html import Tables, check, text

TRUTHS = ["life/birds/owl", "life/birds/owl", "life/birds/jay", "life/fish"]
RUN = samples.answered(
    TRUTHS,
    baseline=["life/birds/jay", "life/birds/owl", "life/fish", "life/fish"],
    winner=["life/birds", "life/birds/owl", "life/birds/jay", "life/moss"],
)


def shown(run=RUN) -> str:  # type: ignore[no-untyped-def]
    found = tree_view.section(run)
    assert found is not None
    return page("report.html.j2", sections={"tree": found}, title="t", headline="", first=None)


def test_drawing_table_and_description_say_the_same() -> None:
    made = shown()
    check(made)
    reader = Tables()
    reader.feed(made)
    (before, after) = reader.tables
    assert "baseline" in before[0]
    assert "winner" in after[0]
    heads = ["group", "images", "right down to it", "with baseline", "wrong", "with baseline", "broader", "said"]
    assert after[1] == [
        heads,
        ["life", "4", "4 (100 %)", "4", "0", "0", "0", "4"],
        ["birds", "3", "3 (100 %)", "2", "0", "1", "0", "3"],
        ["owl", "2", "1 (50 %)", "1", "0", "1", "1", "1"],
        ["jay", "1", "1 (100 %)", "0", "0", "1", "0", "1"],
        ["fish", "1", "0 (0 %)", "1", "1", "0", "0", "0"],
        ["not shown by any image: moss", "0", "–", "–", "–", "–", "–", "1"],
    ]
    assert before[1][0] == ["group", "images", "right down to it", "wrong", "broader", "said"]
    titles = re.findall(r"<title>([^<]*)</title>", made)[1:]
    assert "owl: of 2 images 1 right, 1 broader, 0 wrong (with the baseline 1 right, 1 wrong)" in titles
    labels = [html.unescape(label) for label in re.findall(r'role="img" aria-label="([^"]*)"', made)]
    assert labels[1].endswith("with the winner template. Right down to: level 1 3 of 4; level 2 2 of 3.")
    # Filled, then hatched: of the owls half are right, of the fish none is and all are wrong.
    drawn = re.findall(r'<title>([a-z]+): [^<]*</title>.*?"right" width="([\d.]+%)".*?x="\2" width="([\d.]+%)"', made)
    assert drawn[-5:] == [
        ("life", "100.00%", "0.00%"),
        ("birds", "100.00%", "0.00%"),
        ("owl", "50.00%", "0.00%"),
        ("jay", "100.00%", "0.00%"),
        ("fish", "0.00%", "100.00%"),
    ]


def test_one_template_is_shown_without_a_switch_and_without_changes() -> None:
    run = replace(RUN, heldout=RUN.heldout[1:])
    made = shown(run)
    assert "<input" not in made
    assert "against the baseline" not in text(made)
    assert 'class="panel"' in made


def test_runs_on_other_images_have_a_tree_each() -> None:
    other = samples.answered(["cars/red", "cars/blue"], winner=["cars/red", "cars/red"]).heldout[0]
    made = shown(replace(RUN, heldout=(*RUN.heldout, replace(other, name="cars: winner"))))
    check(made)
    assert made.count('role="img"') == 3
    assert "cars: winner: 2 images" in text(made)
    assert len(set(re.findall(r'<input type="radio" name="([^"]+)"', made))) == 1


def test_answers_off_the_tree_and_silent_ones_are_counted_in_words() -> None:
    rows = list(RUN.heldout[1].rows)
    rows[0] = replace(rows[0], off_tree=True, placement="life")
    rows[1] = replace(rows[1], abstained=True, placement="life")
    made = shown(replace(RUN, heldout=(RUN.heldout[0], replace(RUN.heldout[1], rows=tuple(rows)))))
    assert "1 off the tree, which counts as wrong and 1 that decline or say nothing, which counts as broader" in made


@pytest.mark.parametrize("name", ["<script>x</script>", 'quote"', "{{ 7 * 7 }}", "n" * 200, "\u202eevil", "鳥 🦜"])
def test_names_of_any_kind_stay_text(name: str) -> None:
    made = shown(samples.answered([f"root/{name}"] * 3, winner=["root", f"root/{name}", "root"]))
    checker = check(made)
    assert sum(tag == "script" for tag, _ in checker.elements) == 1
    assert name.replace("/", " › ").replace("\u202e", "\\u202e") in html.unescape(made)


@pytest.mark.parametrize(
    "run",
    [
        replace(RUN, heldout=()),
        samples.answered(["a/b"], baseline=[None], winner=[None]),
        samples.answered(["a/b", "a/c"], baseline=["a", None], winner=[None, "a"]),
    ],
)
def test_nothing_to_count_is_no_section(run) -> None:  # type: ignore[no-untyped-def]
    assert tree_view.section(run) is None


def test_a_tree_of_a_root_alone_is_drawn_too() -> None:
    assert "root" in shown(samples.answered(["root"], winner=["root"]))
