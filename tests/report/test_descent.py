"""Where templates come from, and how the report shows it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from taxtune.report import descent
from taxtune.report.descent import Origin, origins
from taxtune.report.html import page
from taxtune.tuning.records import IterationRecord, TuneResult, Turn
from tests.report import samples
from tests.report.test_html import check, text

TEMPLATES = [
    "Name the bird in this picture.",
    "Name the bird in this picture. Be careful.",
    "Say nothing at all unless certain of every single word that you use!",
    "Name the bird in this picture. Be very careful.",
]


def records(*templates: str | None) -> list[IterationRecord]:
    return [
        samples.iteration(k, template=template) if template is not None else samples.iteration(k, state="failed")
        for k, template in enumerate(templates)
    ]


def run(iterations: list[IterationRecord], winner: int = 0) -> TuneResult:
    return replace(samples.tune(n=1), iterations=tuple(iterations), winner=winner, pareto=(winner,))


def shown(result: TuneResult) -> str:
    found = descent.section(result)
    assert found is not None
    made = page("report.html.j2", sections={"descent": found}, title="t", headline="", first=None)
    check(made)
    return made


def test_what_is_not_recorded_is_told_by_likeness_among_earlier_templates() -> None:
    found = origins(records(TEMPLATES[0], TEMPLATES[1], None, TEMPLATES[3]))
    assert found[1] == Origin((0,), pytest.approx(14 / 17))
    assert found[3] == Origin((1,), pytest.approx(20 / 21))
    assert set(found) == {1, 3}


@pytest.mark.parametrize(
    ("parent", "origin"),
    [
        ("0", Origin((0,))),
        ("2, 1", Origin((2, 1))),
        # No iteration before it, or a fragment that is called so: likeness decides.
        ("3", None),
        ("7", None),
        ("-1", None),
        ("1, x", None),
        ("", None),
        ("²", None),
    ],
)
def test_what_a_proposer_recorded_is_believed(parent: str, origin: Origin | None) -> None:
    made = records(*TEMPLATES)
    made[3] = replace(made[3], parameters={"parent": parent})
    found = origins(made)[3]
    assert found == (origin or Origin((1,), found.likeness))
    assert (found.likeness is None) == (origin is not None)


def test_the_way_from_the_baseline_to_the_winner_is_told_in_words() -> None:
    made = shown(run(records(*TEMPLATES), winner=3))
    line = made[made.index('class="descent line"') : made.index("</ol>")]
    told = text(line)
    assert [part in told for part in ("Baseline", "Template 1", "Template 2", "Template 3")] == [
        True,
        True,
        False,
        True,
    ]
    assert "<ins>very</ins>" in line
    assert "most like 1: 95 % of the words" in told
    assert told.count("winner") == 1
    whole = text(made)
    assert "All 4 templates" in whole
    # What has nothing to do with what was before is not compared with it.
    assert "like none before (most like 0" in whole
    assert TEMPLATES[2] in whole
    assert "It is not recorded what the proposer started from" in whole


def test_scores_have_the_intervals_of_the_images_that_were_asked() -> None:
    def width(images: int) -> float:
        made = samples.iteration(1, images=images, template=TEMPLATES[1])
        found = descent.section(run([samples.iteration(0, images=images), made], winner=1))
        assert found is not None
        name, value, ends = found["runs"][0]["line"][1]["scores"][0]
        assert (name, value) == ("hP", "0.900")
        low, high = map(float, ends.split(" to "))
        return high - low

    assert 0 < width(400) < width(20) / 2


def test_refused_templates_failures_and_drafts_are_there() -> None:
    made = records(TEMPLATES[0], None, TEMPLATES[1])
    trace = (Turn("try_draft", "{}", "{}"), Turn("submit", "{}", "{}"), Turn("try_draft", "{}", "{}"))
    refused = (("Name the BIRD in this picture.", "a repeat, but for <b>case</b>"),)
    made[2] = replace(made[2], rejected=refused, trace=trace, feasible=False)
    told = text(shown(run(made)))
    assert "1 refused on the way" in told
    assert "✗ a repeat, but for <b>case</b>" in told
    assert "2 drafts tried before" in told
    assert "hR below 0.420" in text(shown(run([made[0], replace(made[2], scores=samples.scores(0.9, 0.3, 0.4))])))
    assert "and 1 iteration without one" in told
    assert "three replies in a row were refused" in told


def test_fragments_that_changed_are_named() -> None:
    made = records(*TEMPLATES[:3])
    made[1] = replace(made[1], parameters={"care": "none", "format": "short"})
    made[2] = replace(made[2], parameters={"care": "look", "format": "short"}, template=f"{TEMPLATES[1]} Look!")
    assert "care: none → look" in text(shown(run(made)))


@pytest.mark.parametrize("template", [samples.HOSTILE, "x" * 5000, "\u202eevil", ""])
def test_templates_of_any_kind_stay_text(template: str) -> None:
    made = shown(run(records(TEMPLATES[0], template), winner=1))
    assert made.count("<script>") == 1
    assert "\u202e" not in made


def test_a_hundred_templates_are_one_tree() -> None:
    found: dict[str, Any] | None = descent.section(samples.tune(n=100))
    assert found is not None

    def count(items: list[dict[str, Any]]) -> int:
        return sum(1 + count(item["children"]) for item in items)

    (only,) = found["runs"]
    # Of a hundred iterations one failed without a template.
    assert count(only["tree"]) == only["templates"] == 100
    assert len(only["without"]) == 1


def test_each_run_of_a_comparison_has_its_own() -> None:
    found = descent.section(samples.comparison(3))
    assert found is not None
    assert [each["title"] for each in found["runs"]] == ["Tuned for hP", "Tuned for accuracy"]


@pytest.mark.parametrize("iterations", [[], records(TEMPLATES[0]), records(TEMPLATES[0], None)])
def test_a_baseline_alone_has_no_descent(iterations: list[IterationRecord]) -> None:
    assert descent.section(run(iterations)) is None
