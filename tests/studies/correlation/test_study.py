from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.stats import kendalltau

from taxtune.errors import DataError, TaxonomyError
from taxtune.metrics.hierarchical import precision_recall
from taxtune.metrics.registry import FloatArray, Measure, PairwiseMeasure, make_measure
from taxtune.report.drawing import save_figure
from taxtune.report.output import StudyReport, publish
from taxtune.studies import run
from taxtune.studies.correlation import CorrelationSettings
from taxtune.studies.correlation.study import MeasureCorrelation, PairSet, correlate, write_pairs
from taxtune.taxonomy import Taxonomy


def correlated(
    birds: Taxonomy, measures: Sequence[Measure], images: Mapping[int, list[Path]] | None = None, **more: Any
) -> tuple[tuple[PairSet, ...], tuple[MeasureCorrelation, ...]]:
    """The pairs drawn, and what measures make of them."""
    settings = CorrelationSettings(taxonomy=birds, **{"pairs": 400, "seed": 5, **more})
    return correlate(birds, measures, settings, images=images)


def reported(birds: Taxonomy, measures: Sequence[Measure | str], **more: Any) -> StudyReport:
    """The whole study."""
    return run("correlation", taxonomy=birds, measure=measures, **{"pairs": 400, "seed": 5, **more})


class _Constant(PairwiseMeasure):
    """One score for all pairs but those with a bird in the reference, which are unscored."""

    def scores(self, answers, references, images=None, *, questions=None) -> FloatArray:  # type: ignore[no-untyped-def]
        return np.array(
            [math.nan if "robin" in reference or "migratorius" in reference else 0.5 for reference in references]
        )


class _Bright(PairwiseMeasure):
    """How bright the image is."""

    needs_images = True

    def scores(self, answers, references, images=None, *, questions=None) -> FloatArray:  # type: ignore[no-untyped-def]
        assert len(images) == len(answers) == len(references)
        return np.array([np.asarray(image).mean() / 255 for image in images])


class _Judge(_Constant):
    needs_questions = True


@pytest.mark.parametrize("labels", ["common", "canonical"])
def test_tau_is_that_of_all_pairs_scored_one_by_one(birds: Taxonomy, labels: str) -> None:
    measures = [make_measure("rouge-1"), make_measure("meteor")]
    sets, found = correlated(birds, measures, labels=labels)
    assert [(one.measure, one.metric) for one in found] == [
        (name, metric) for name in ("rouge-1", "meteor") for metric in ("hp", "hr")
    ]
    for part in sets:
        leaves, nodes = part.pairs.leaves.tolist(), part.pairs.nodes.tolist()
        hp, hr = precision_recall(birds, nodes, leaves)
        if part.metric == "hr":
            assert (hp == 1).all()
        metric = hp if part.metric == "hp" else hr
        names = [birds.common_name(i) if labels == "common" else birds.labels[i] for i in range(len(birds))]
        for measure in measures:
            scores = [measure.scores([names[node]], [names[leaf]])[0] for leaf, node in zip(leaves, nodes, strict=True)]
            expected = kendalltau(metric, np.round(scores, 6)).statistic
            (one,) = (one for one in found if (one.measure, one.metric) == (measure.name, part.metric))
            np.testing.assert_allclose(one.correlation.tau, expected)  # NaN where both are
            for value, n, mean, std in one.curve:
                there = np.array(scores)[metric == value]
                assert n == len(there)
                assert (mean, std) == pytest.approx((there.mean(), there.std()), abs=1e-6)


def test_labels_are_common_or_canonical_names(birds: Taxonomy) -> None:
    by_label = {
        labels: correlated(birds, [make_measure("rouge-1")], labels=labels)[1] for labels in ("common", "canonical")
    }
    # "Turdus merula" and "Turdus migratorius" share a word; "blackbird" and "American robin" share none.
    assert math.isnan(by_label["common"][0].correlation.tau)
    assert not math.isnan(by_label["canonical"][0].correlation.tau)


def test_what_is_unscored_is_left_out_and_counted_and_a_constant_has_no_tau(birds: Taxonomy) -> None:
    measure = _Constant("constant", "Constant")
    sets, found = correlated(birds, [measure])
    robins = [int(np.sum(part.pairs.leaves == birds.resolve("American robin"))) for part in sets]
    assert [one.unscored for one in found] == robins
    assert [one.correlation.n for one in found] == [400 - n for n in robins]
    assert all(math.isnan(one.correlation.tau) for one in found)


def test_measures_that_need_what_labels_do_not_have_are_refused(birds: Taxonomy) -> None:
    with pytest.raises(DataError, match="labels do not answer one"):
        reported(birds, [_Judge("judge", "Judge")])
    with pytest.raises(DataError, match="labels do not answer one"):
        reported(birds, ["lave:no/such"])
    with pytest.raises(DataError, match="--images"):
        reported(birds, [_Bright("bright", "Bright")])
    with pytest.raises(DataError, match="--images"):
        reported(birds, ["clip-i2t:no/such"])


def test_distances_run_from_the_nearest_to_the_farthest() -> None:
    with pytest.raises(DataError, match="distances"):
        CorrelationSettings(taxonomy="never read", nearest=4, farthest=3)


def test_an_image_of_the_leaf_is_drawn_by_the_seed(birds: Taxonomy, tmp_path: Path) -> None:
    blackbird, mallard = birds.resolve("blackbird"), birds.resolve("mallard")
    images: dict[int, list[Path]] = {}
    for node, shades in ((blackbird, (0, 51)), (mallard, (255,))):
        for shade in shades:
            file = tmp_path / f"{shade}.png"
            Image.new("RGB", (8, 8), (shade,) * 3).save(file)
            images.setdefault(node, []).append(file)
    measure = _Bright("bright", "Bright")
    sets, found = correlated(birds, [measure], images)
    again = correlated(birds, [measure], images)[1]
    assert [one.as_dict() for one in found] == [one.as_dict() for one in again]
    for part, one in zip(sets, found, strict=True):
        leaves = part.pairs.leaves
        assert one.unscored == int((leaves == birds.resolve("American robin")).sum())
        # Two images of the blackbird, each drawn about as often.
        total = sum(n * mean for _, n, mean, _ in one.curve)
        expected = (leaves == mallard).sum() + 0.1 * (leaves == blackbird).sum()
        assert total == pytest.approx(expected, rel=0.1)


def test_the_report_stands_beside_the_paper(birds: Taxonomy, tmp_path: Path) -> None:
    measures = [make_measure("rouge-1"), _Constant("exact-match", "EM")]
    report = reported(birds, measures, labels="canonical", pairs=500)
    rouge, em = report.tables[0].records()
    assert (rouge["τ-hP paper, iNat21"], rouge["τ-hR paper, iNat21"]) == (0.18, 0.41)
    assert (rouge["τ-hP paper, OVEN"], rouge["τ-hR paper, OVEN"]) == (0.17, 0.21)
    assert rouge["τ-hP"] == report.data["correlations"][0]["tau"]
    assert em["τ-hP"] is None
    assert "–" in report.tables[0].markdown()
    assert any("unscored and left out" in note for note in report.notes)
    assert "No correlation with hP where a measure gives all pairs the same score: exact-match." in report.notes
    assert sum(row["pairs"] for row in report.tables[2].records()) == 1000  # type: ignore[misc]
    publish(report, out=tmp_path / "out", as_json=False)
    record = json.loads((tmp_path / "out" / "study.json").read_text())
    assert record["settings"]["seed"] == 5
    assert {one["metric"] for one in record["correlations"]} == {"hp", "hr"}
    assert (tmp_path / "out" / "correlation.png").stat().st_size > 10_000
    assert (tmp_path / "out" / "correlation.svg").is_file()


def test_the_figure_of_measures_without_any_score_is_left_out(birds: Taxonomy) -> None:
    class _None(PairwiseMeasure):
        def scores(self, answers, references, images=None, *, questions=None) -> FloatArray:  # type: ignore[no-untyped-def]
            return np.full(len(answers), np.nan)

    report = reported(birds, [_None("exact-match", "EM")])
    assert report.figures == {}
    assert [one["n"] for one in report.data["correlations"]] == [0, 0]


def test_one_measure_out_of_two_without_scores_is_drawn_around(birds: Taxonomy, tmp_path: Path) -> None:
    class _HpOnly(PairwiseMeasure):
        def scores(self, answers, references, images=None, *, questions=None) -> FloatArray:  # type: ignore[no-untyped-def]
            return np.array([0.1 if a == "mallard" else math.nan for a in answers])

    report = reported(birds, ["rouge-1", _HpOnly("contained", "Contained")])
    assert save_figure(report.figures["correlation"], tmp_path / "figure")[0].is_file()


def test_a_metric_that_is_constant_is_not_blamed_on_the_measures() -> None:
    chain = Taxonomy(["life", "bird", "great bird", "seal"], [-1, 0, 1, 2])
    measures = ["rouge-1", "exact-match"]
    report = reported(chain, measures)
    # Every node above the only leaf is its ancestor, whose hP is 1; hR differs from node to node.
    assert [note for note in report.notes if "hP" in note] == [
        "hP is 1.000 for all pairs drawn, so nothing can correlate with it: the tree is too small or has no branches."
    ]
    assert [note for note in report.notes if "hR" in note] == [
        "No correlation with hR where a measure gives all pairs the same score: rouge-1, exact-match."
    ]
    with pytest.raises(TaxonomyError, match=r"Of the leaves drawn, 1, such as 'life', has no node at a distance of 1"):
        reported(Taxonomy(["life"], [-1]), measures)


def test_tau_of_the_written_pairs_is_that_of_the_tables(birds: Taxonomy, tmp_path: Path) -> None:
    measures = [make_measure("rouge-1"), _Constant("constant", "Constant")]
    settings = CorrelationSettings(taxonomy=birds, pairs=500, labels="canonical")
    sets, found = correlate(birds, measures, settings)
    with write_pairs(tmp_path / "new" / "pairs.csv", birds, settings, sets, found).open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 1000
    for one in found:
        its = [row for row in rows if row["metric"] == one.metric]
        scored = [row for row in its if row[one.measure]]
        assert len(its) - len(scored) == one.unscored
        values, scores = zip(*((float(row["value"]), float(row[one.measure])) for row in scored), strict=True)
        np.testing.assert_allclose(one.correlation.tau, kendalltau(values, scores).statistic)
    for row in rows:
        leaf, node = row["leaf"].split("/"), row["node"].split("/")
        shared = sum(a == b for a, b in zip(leaf, node, strict=False))
        assert int(row["distance"]) == len(leaf) + len(node) - 2 * shared
        assert float(row["value"]) == pytest.approx(shared / len(node if row["metric"] == "hp" else leaf))
        assert (row["reference"], row["answer"]) == (leaf[-1], node[-1])
