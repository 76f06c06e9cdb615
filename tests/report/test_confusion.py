"""Confusions: pairs whose two directions are counted apart, and a matrix in which every image is once."""

from __future__ import annotations

import random
from typing import Any

import pytest

from taxtune.report import confusion
from taxtune.report.output import page
from tests.report import samples
from tests.report.test_html import Tables, check, text

TRUTHS = ["life/birds/owl"] * 4 + ["life/birds/jay"] * 2 + ["life/fish/cod"] * 2
RUN = samples.answered(
    TRUTHS,
    baseline=["life/birds/jay"] * 3
    + ["life/birds/owl"]
    + ["life/birds/owl", "life/birds"]
    + ["life/birds/jay", "life"],
    winner=["life/birds/jay", *["life/birds/owl"] * 3] + ["life/birds/jay"] * 2 + ["life/fish/cod"] * 2,
)


def group(run: Any) -> dict[str, Any]:
    found = confusion.section(run)
    assert found is not None
    return found


def test_the_two_directions_of_a_pair_are_counted_apart_and_the_stronger_leads() -> None:
    pairs = group(RUN)["pairs"]
    assert [(pair["truth"], pair["named"], pair["images"]) for pair in pairs] == [
        ("owl", "jay", 4),
        ("fish", "birds", 2),
    ]
    assert pairs[0]["counts"] == [("baseline", 3), ("winner", 1)]
    assert pairs[0]["back"] == {"images": 2, "counts": [1, 0]}
    assert pairs[1]["counts"] == [("baseline", 1), ("winner", 0)]
    assert pairs[1]["back"] == {"images": 6, "counts": [0, 0]}


def test_a_matrix_has_a_row_per_true_group_and_a_column_per_group_that_is_named() -> None:
    found = confusion.section(RUN)
    assert found is not None
    made = page("report.html.j2", sections={"confusion": found}, title="t", headline="", first=None)
    check(made)
    reader = Tables()
    reader.feed(made)
    tables = [rows for _, rows in reader.tables]
    assert tables[0] == [
        ["shown", "images", "jay", "owl", "cod", "broader", "off the tree"],
        ["jay", "2", "0", "1", "0", "1", "0"],
        ["owl", "4", "3", "1", "0", "0", "0"],
        ["cod", "2", "1", "0", "0", "1", "0"],
    ]
    assert "owl taken for jay (level 2, in birds), of 4 images: 3 with baseline, 1 with winner." in text(made)
    assert "The other way round, of 2: 1, 0." in text(made)


@pytest.mark.parametrize(("groups", "others"), [(11, 0), (12, 2), (400, 390)])
def test_every_image_is_once_in_a_matrix_however_many_groups_there_are(groups: int, others: int) -> None:
    rng = random.Random(groups)
    paths = [f"r/c{i:03d}" for i in range(groups)]
    truths = [*paths, *(rng.choice(paths) for _ in range(300))]
    said = [rng.choice([truth, rng.choice(paths), "r"]) for truth in truths]
    (matrix,) = group(samples.answered(truths, winner=said))["matrices"]
    assert len(matrix["rows"]) == (groups if not others else 11)
    assert sum(row["total"] for row in matrix["rows"]) == len(truths)
    cells = [cell for row in matrix["rows"] for cell in row["cells"]]
    assert sum(cell["count"] for cell in cells) == len(truths)
    assert sum(row["cells"][-2]["count"] for row in matrix["rows"]) == said.count("r")
    right = sum(cell["count"] for cell in cells if cell["kind"] == "right")
    shown = {row["name"] for row in matrix["rows"]}
    assert right == sum(one == other and one[2:] in shown for one, other in zip(truths, said, strict=True))
    assert (f"{others} others" in matrix["columns"]) == bool(others)
