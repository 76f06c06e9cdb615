"""The benchmarks run as `make bench` calls them, on less."""

from __future__ import annotations

import importlib
import json
import os
import runpy
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from fieldguide.draw import make_dataset
from taxtune.errors import DataError
from taxtune.mapping import Mapper, MapperConfig, Stage, make_similarity
from taxtune.mapping.confidence import PlacementConfidence
from taxtune.metrics.registry import make_measure
from taxtune.studies.scorers import MeasureSimilarity
from taxtune.taxonomy import read_taxonomy
from tests.tuning.toy import make_parts, tuned

pytestmark = pytest.mark.heavy

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
DOMAINS = BENCHMARKS / "domains"


@pytest.mark.parametrize(
    ("script", "arguments", "said"),
    [
        (
            "local_runner.py",
            [
                "--width",
                "128",
                "--layers",
                "1",
                "--prompts",
                "5",
                "--repeats",
                "1",
                "--variants",
                "batch",
                "static",
            ],
            "| static cache |",
        ),
        (
            "execution.py",
            ["--workers", "1", "--without-ray", "--images", "3", "--prompts", "2"],
            "3 of 3",
        ),
        ("mapper.py", ["--texts", "20", "--timed", "3"], "identical placements 3 of 3"),
        (
            "mapper.py",
            [
                "--texts",
                "0",
                "--trees",
                str(DOMAINS / "trees"),
                "--placed",
                str(DOMAINS / "third.jsonl"),
            ],
            "| calibration error\ndefault",
        ),
        (
            "taxonomy_scale.py",
            ["--nodes", "300", "--shapes", "things", "--answers", "20"],
            "| things | 300 |",
        ),
        ("policies.py", ["--draws", "4", "--splits", "2"], "both: posterior | 1 |"),
        ("overhead.py", ["--only", "loop", "--iterations", "12"], "after iterations"),
        ("metrics.py", ["--pairs", "2000", "--repeats", "1"], "identical values"),
        (
            "serving.py",
            ["--calls", "20", "--fixed", "12", "--images", "2"],
            "| made once, the file's own bytes |",
        ),
        ("scale.py", ["--tiny", "--only", "pairs"], "| 1,000 | 13 | 10,000 |"),
        ("scale.py", ["--tiny", "--only", "answers"], "| 2,000 | 6"),
        ("scale.py", ["--tiny", "--only", "images"], "| 1,200 |"),
    ],
)
def test_a_benchmark_runs_without_data(
    script: str,
    arguments: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", [script, *arguments])
    runpy.run_path(str(BENCHMARKS / script), run_name="__main__")
    assert said in capsys.readouterr().out


def test_the_benchmark_of_the_presets_counts_what_mappers_with_them_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = "thing/animal/red fox\nthing/animal/red deer\nthing/plant/red oak\nthing/plant/red maple\nthing/rock\n"
    answers = [
        "a red fox",
        ["red", "something red and old"],
        "an oak",
        "no idea at all",
        "deer, or so",
        "?!",
    ]
    nodes = ["thing/animal/red fox", None, "thing/plant/red oak", "nowhere", "red_deer", "rock"]
    for folder in ("answers", "trees"):
        (tmp_path / folder).mkdir()
    (tmp_path / "trees" / "t.csv").write_text(f"path\n{tree}", encoding="utf-8")
    rows = [
        {"answer": said, "tree": "t.csv", "node": node}
        for said, node in zip(answers, nodes, strict=True)
    ]
    rows.append({"answer": "of another domain", "domain": "unknown"})
    (tmp_path / "answers" / "made.jsonl").write_text(
        "\n".join(map(json.dumps, rows)), encoding="utf-8"
    )
    monkeypatch.setattr(sys, "argv", ["presets.py", str(tmp_path)])
    runpy.run_path(str(BENCHMARKS / "presets.py"), run_name="__main__")
    said = capsys.readouterr().out
    for similarity, table in zip(("lexical", "rouge-1"), said.split("\nrouge-1\n"), strict=True):
        taxonomy = read_taxonomy(tmp_path / "trees" / "t.csv")
        measured = (
            make_similarity("lexical")
            if similarity == "lexical"
            else MeasureSimilarity(make_measure("rouge-1"))
        )
        texts = [
            "a red fox",
            "red",
            "something red and old",
            "an oak",
            "no idea at all",
            "deer, or so",
        ]
        for factor in (1, 10, 100):
            config = MapperConfig(
                preset="paper-listing", thr_top2=0.001 * factor, thr_topk=0.0015 * factor
            )
            listing, prose = (
                Mapper(taxonomy, measured, replace(config, preset=preset)).place(texts)
                for preset in ("paper-listing", "paper-prose")
            )
            stages = Counter(placement.stage for placement in prose)
            differ = sum(one.node != other.node for one, other in zip(listing, prose, strict=True))
            decided = [
                stages[stage]
                for stage in (Stage.VERBATIM, Stage.NGRAM, Stage.VOTE, Stage.SIMILARITY)
            ]
            row = next(
                line.split()
                for line in table.splitlines()
                if line.split()[:2] == ["made", f"x{factor}"]
            )
            # Known: the fox, the oak, the deer, and, placed by hand on nothing, the root for both of a list.
            assert list(map(int, row[2:9])) == [6, *decided, differ, 5]


@pytest.fixture
def optimizers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("optimizers")


def test_the_recorded_landscape_holds_every_composition_and_three_difficulties(
    optimizers: ModuleType, tmp_path: Path
) -> None:
    landscape = optimizers.read_landscape()
    assert landscape.hp.shape == (1 + landscape.fragments.compositions, 1280)
    assert 0 < landscape.hp.min() < landscape.hp.max() == 1
    for share in optimizers.SHARES:
        part = landscape.with_degraded(share)
        assert part.hp.shape[1] >= 800
        assert part.degraded.mean() == pytest.approx(share, abs=1e-3)
    # A wording that has changed since is noticed.
    text = (BENCHMARKS / "landscapes" / "fragments.yaml").read_text(encoding="utf-8")
    (tmp_path / "fragments.yaml").write_text(
        text.replace("Do not guess.", "Never guess."), encoding="utf-8"
    )
    with pytest.raises(DataError, match="every composition"):
        optimizers.read_landscape(fragments=tmp_path / "fragments.yaml")


def test_the_recorded_answers_are_the_models(optimizers: ModuleType, tmp_path: Path) -> None:
    record = importlib.import_module("landscapes.record")
    images = make_dataset(tmp_path / "images", n=4, seed=record.SEED, degraded=record.DEGRADED)
    again = record.record(images, record.read_fragments(record.FRAGMENTS), templates=3, check=4)
    with np.load(BENCHMARKS / "landscapes" / "fieldguide.npz") as recorded:
        for name in ("templates", "parameters"):
            assert (again[name] == recorded[name][:4]).all()
        for name in ("nodes", "off_tree"):
            assert (again[name] == recorded[name][:4, :4]).all()
        for name in ("targets", "degraded"):
            assert (again[name] == recorded[name][:4]).all()


def test_the_recorded_probabilities_are_the_models(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of a few images, and as generation has it: the likeliest name is the greedy answer's, wherever it has one."""
    monkeypatch.syspath_prepend(str(BENCHMARKS / "landscapes"))
    outcomes, record = importlib.import_module("outcomes"), importlib.import_module("record")
    images = make_dataset(tmp_path / "images", n=3, seed=record.SEED, degraded=record.DEGRADED)
    again = outcomes.record(images, outcomes.MODEL_FOLDER)
    with np.load(BENCHMARKS / "landscapes" / "outcomes.npz") as kept:
        assert (again["names"] == kept["names"]).all()
        assert (again["greedy"] == kept["greedy"][:, :3]).all()
        for name, rows in (("logp", kept["logp"][:, :3]), ("top5", kept["top5"][:3])):
            # Three bits of the half precision are dropped of all templates but the first.
            shares = (
                np.exp(table.astype(float)) if name == "logp" else table
                for table in (again[name], rows)
            )
            np.testing.assert_allclose(*shares, atol=0.01)
        assert (again["nodes"][again["logp"].argmax(axis=2)] == again["greedy"]).mean() > 0.9
    for name in ("outcomes", "outcomes-long"):
        with np.load(BENCHMARKS / "landscapes" / f"{name}.npz") as kept:
            assert (np.exp(kept["logp"].astype(float)).sum(axis=2).mean(axis=1) > 0.98).all()
            assert kept["tokens"][:35].max() == (2 if name == "outcomes" else 8)


def _run(optimizers: ModuleType, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    optimizers.main([*arguments, "--json"])
    return json.loads(capsys.readouterr().out)


def test_every_method_searches_within_its_budget_and_alike_each_time(
    optimizers: ModuleType, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    given = ("--degraded", "0.5", "--seeds", "2", "--budgets", "100", "200", "--tuning", "60")
    given += ("--methods", *optimizers.METHODS, "tpe")
    found = _run(optimizers, capsys, *given, "--out", str(tmp_path))
    assert {row["method"] for row in found["means"]} == {*optimizers.METHODS, "tpe"}
    for row in found["means"]:
        assert 0 < row["calls"] <= row["budget"]
        assert 0 <= row["kept"] <= 1
    assert found == _run(optimizers, capsys, *given)
    assert found == _run(optimizers, capsys, *given, "--out", str(tmp_path), "--again")
    assert {path.name for path in tmp_path.iterdir()} >= {
        "study.json",
        "reach.md",
        "gain.csv",
        "optimizers-hp.png",
    }


def test_more_answers_find_the_best_where_nothing_is_left_to_chance(optimizers: ModuleType) -> None:
    """Where every image says the same, every method that can afford all templates finds the best one."""
    recorded = optimizers.read_landscape()
    hp = np.repeat(np.linspace(0.9, 1, 40)[:, None], 60, axis=1)
    few = {
        "templates": recorded.templates[:40],
        "parameters": recorded.parameters[:40],
        "fragments": None,
    }
    even = replace(recorded, name="even", hp=hp, hr=np.full_like(hp, 0.9), **few)
    methods = [*optimizers.METHODS, *optimizers.SLOW]
    runs = optimizers.replay([even], [optimizers.Aim("hp")], methods, [2_400], seeds=1, tuning=30)
    assert runs.set_index("method").gain.to_dict() == pytest.approx(dict.fromkeys(methods, 1.0))
    assert runs.optimism_hp.abs().max() < 1e-9


def test_a_run_is_a_landscape_of_its_own(
    optimizers: ModuleType, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    result = tuned(make_parts(tmp_path / "in", run), run)
    landscape = optimizers.landscape_of_run(run)
    assert landscape.templates == tuple(record.template for record in result.iterations)
    assert landscape.hp.mean(axis=1) == pytest.approx(
        [record.scores.hp for record in result.iterations]
    )
    assert landscape.trivial_hr == pytest.approx(result.trivial_hr)
    found = _run(
        optimizers,
        capsys,
        "--from",
        str(run),
        "--seeds",
        "2",
        "--budgets",
        "20",
        "--methods",
        "paper",
        "random",
    )
    assert {row["calls"] for row in found["means"]} == {20}


@pytest.mark.heavy
@pytest.mark.timeout(1200)  # five processes for each, that each load torch and transformers
@pytest.mark.parametrize("family", ["mllama", "qwen2_5_vl"])
def test_the_throughput_of_a_local_model_is_measured_without_the_packages_that_others_need(
    family: str, tmp_path: Path
) -> None:
    # Every process of the benchmark reads this module when it starts.
    blocked = dict.fromkeys(("mlflow", "litellm", "optuna", "open_clip"))
    (tmp_path / "sitecustomize.py").write_text(
        f"import sys\nsys.modules.update({blocked!r})\n", encoding="utf-8"
    )
    paths = [str(tmp_path), str(BENCHMARKS.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    tiny = [
        "--width",
        "32",
        "--depth",
        "16",
        "--prompts",
        "3",
        "--images",
        "2",
        "--held-out",
        "3",
        "--new-tokens",
        "3",
    ]
    if family == "mllama":
        tiny += ["--tile", "56"]
    done = subprocess.run(
        [
            sys.executable,
            BENCHMARKS / "vlm_throughput.py",
            "--family",
            family,
            *tiny,
            "--batch-size",
            "2",
            "--json",
        ],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["questions"] == {"tuning": 6, "held out": 6, "all": 12}
    assert found["distinct"] > 6
    assert set(found["differ"].values()) == {0}
    # Three tokens per answer: one from the prefill, two steps of one token for each batch.
    assert found["step"]["count"] == 2 * (3 + 2 * 2)
    assert all(seconds > 0 for way in found["seconds"].values() for seconds in way.values())
    spent = found["shares"]["all"]
    assert all(spent[phase] > 0 for phase in ("encoding", "prefill", "decoding", "else"))
    assert sum(spent.values()) == pytest.approx(found["seconds"]["taxtune"]["all"], rel=0.05)


def test_the_ablation_counts_the_answers_that_a_rule_gains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        PlacementConfidence, "probability", PlacementConfidence.probability
    )  # which it sets
    ablation = importlib.import_module("benchmarks.ablation")
    (tmp_path / "pets.csv").write_text("path\npet/cat\npet/dog\n", encoding="utf-8")
    rows = [("not a dog but a cat", "pet/cat"), ("a dog", "pet/dog")]
    placed = [
        {"tree": "pets.csv", "answer": answer, "node": node, "also": []} for answer, node in rows
    ]
    (tmp_path / "placed.jsonl").write_text("\n".join(map(json.dumps, placed)), encoding="utf-8")
    domains = ablation.Domains([tmp_path / "placed.jsonl"], [tmp_path])
    assert domains.base == [[True, True]]
    rules = {f"{rule.room}.{rule.name}": rule for rule in ablation.rules(False)}
    gains = [
        domains.gains(rules[f"english.{name}"]).gain.tolist() for name in ("NEGATION", "LIKENESS")
    ]
    assert gains == [[1], [0]]
    assert domains.acceptable(anew=True) == domains.base
