"""The benchmarks run as `make bench` calls them, on less."""

from __future__ import annotations

import importlib
import json
import os
import runpy
import shlex
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fieldguide.draw import make_dataset
from taxtune.errors import DataError
from taxtune.mapping import Mapper, MapperConfig, Stage, make_similarity
from taxtune.mapping.confidence import PlacementConfidence
from taxtune.metrics.groups import Groups
from taxtune.metrics.registry import make_measure
from taxtune.policies import RiskGuarantee, worst_loss
from taxtune.policies.cascade import price_list
from taxtune.studies.scorers import MeasureSimilarity
from taxtune.taxonomy import Taxonomy
from tests.tuning.toy import make_parts, tuned

pytestmark = pytest.mark.heavy

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
DOMAINS = BENCHMARKS / "domains"
LANDSCAPES = BENCHMARKS / "landscapes"


@pytest.fixture
def benchmark(monkeypatch, capsys):
    """Runs a command line of a benchmark, and returns what it prints."""

    def run(command):
        script, *arguments = shlex.split(command)
        monkeypatch.setattr(sys, "argv", [script, *arguments])
        runpy.run_path(str(BENCHMARKS / script), run_name="__main__")
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        (
            "local_runner.py --width 128 --layers 1 --prompts 5 --repeats 1 --variants batch static",
            "| static cache |",
        ),
        ("execution.py --workers 1 --without-ray --images 3 --prompts 2", "3 of 3"),
        ("mapper.py --texts 20 --timed 3", "identical placements 3 of 3"),
        (
            f"mapper.py --texts 0 --trees '{DOMAINS}/trees' --placed '{DOMAINS}/third.jsonl'",
            "| calibration error\ndefault",
        ),
        ("taxonomy_scale.py --nodes 300 --shapes things --answers 20", "| things | 300 |"),
        ("policies.py --draws 4 --splits 2", "both: posterior | 1 |"),
        (
            "cascade.py --quick",
            "| Features, then posterior, 50% of 1,202 images degraded | 0.020 |",
        ),
        ("watch.py --runs 4", "| tell | 0.02 | watch | "),
        ("groups.py --runs 2", "| burst | promise broken |"),
        ("overhead.py --only loop --iterations 12", "after iterations"),
        ("metrics.py --pairs 2000 --repeats 1", "identical values"),
        ("serving.py --calls 20 --fixed 12 --images 2", "| made once, the file's own bytes |"),
        ("scale.py --tiny --only pairs", "| 1,000 | 13 | 10,000 |"),
        ("scale.py --tiny --only answers", "| 2,000 | 6"),
        ("scale.py --tiny --only images", "| 1,200 |"),
    ],
)
def test_a_benchmark_runs_without_data(benchmark, command, printed):
    assert printed in benchmark(command)


# -- presets -----------------------------------------------------------------------------------------------------------

THINGS = [
    "thing/animal/red fox",
    "thing/animal/red deer",
    "thing/plant/red oak",
    "thing/plant/red maple",
    "thing/rock",
]
ANSWERS = [
    ("a red fox", "thing/animal/red fox"),
    (["red", "something red and old"], None),
    ("an oak", "thing/plant/red oak"),
    ("no idea at all", "nowhere"),
    ("deer, or so", "red_deer"),
    ("?!", "rock"),
]
TEXTS = ["a red fox", "red", "something red and old", "an oak", "no idea at all", "deer, or so"]
# Known: the fox, the oak, the deer, and, placed by hand on nothing, the root for both of a list.
KNOWN = 5


@pytest.fixture
def placed_by_hand(tmp_path):
    """A folder of answers, with the nodes on which people placed them."""
    tree = tmp_path / "trees" / "t.csv"
    tree.parent.mkdir()
    tree.write_text("\n".join(["path", *THINGS]), encoding="utf-8")
    rows = [{"answer": answer, "tree": "t.csv", "node": node} for answer, node in ANSWERS]
    rows.append({"answer": "of another domain", "domain": "unknown"})
    made = tmp_path / "answers" / "made.jsonl"
    made.parent.mkdir()
    made.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return tmp_path


def expected_counts(measured, factor):
    """Returns the counts of a row: texts, placements by stage, texts that the presets part, known ones."""
    taxonomy = Taxonomy.from_paths(THINGS)
    config = MapperConfig(preset="paper-listing", thr_top2=0.001 * factor, thr_topk=0.0015 * factor)
    listing = Mapper(taxonomy, measured, config).place(TEXTS)
    prose = Mapper(taxonomy, measured, replace(config, preset="paper-prose")).place(TEXTS)
    stages = Counter(placement.stage for placement in prose)
    shown = (Stage.VERBATIM, Stage.NGRAM, Stage.VOTE, Stage.SIMILARITY)
    by_stage = [stages[stage] for stage in shown]
    parted = sum(one.node != other.node for one, other in zip(listing, prose, strict=True))
    return [len(TEXTS), *by_stage, parted, KNOWN]


def test_the_benchmark_of_the_presets_counts_what_mappers_with_them_do(placed_by_hand, benchmark):
    printed = benchmark(f"presets.py '{placed_by_hand}'")
    lexical, rouge = printed.split("\nrouge-1\n")
    check_table(lexical, make_similarity("lexical"))
    check_table(rouge, MeasureSimilarity(make_measure("rouge-1")))


def check_table(table, similarity):
    """Checks the counts that the benchmark prints of a measure, for each factor of the thresholds."""
    counts = {}
    for line in table.splitlines():
        if line.split()[:1] == ["made"]:
            _, factor, *cells = line.split()
            counts[factor] = [int(cell) for cell in cells[:7]]
    for factor in (1, 10, 100):
        assert counts[f"x{factor}"] == expected_counts(similarity, factor)


# -- recorded answers --------------------------------------------------------------------------------------------------


@pytest.fixture
def optimizers(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("optimizers")


def test_the_recorded_landscape_holds_every_composition_and_three_difficulties(
    optimizers, tmp_path
):
    landscape = optimizers.read_landscape()
    assert landscape.hp.shape == (1 + landscape.fragments.compositions, 1280)
    assert 0 < landscape.hp.min() < 1
    assert landscape.hp.max() == 1
    for share in optimizers.SHARES:
        part = landscape.with_degraded(share)
        assert part.hp.shape[1] >= 800
        assert part.degraded.mean() == pytest.approx(share, abs=1e-3)
    # A wording that has changed since is noticed.
    text = (LANDSCAPES / "fragments.yaml").read_text(encoding="utf-8")
    changed = tmp_path / "fragments.yaml"
    changed.write_text(text.replace("Do not guess.", "Never guess."), encoding="utf-8")
    with pytest.raises(DataError, match="every composition"):
        optimizers.read_landscape(fragments=changed)


@pytest.mark.usefixtures("optimizers")
def test_the_recorded_answers_are_the_models(tmp_path):
    record = importlib.import_module("landscapes.record")
    images = make_dataset(tmp_path / "images", n=4, seed=record.SEED, degraded=record.DEGRADED)
    fragments = record.read_fragments(record.FRAGMENTS)
    again = record.record(images, fragments, templates=3, check=4)
    with np.load(LANDSCAPES / "fieldguide.npz") as recorded:
        for name in ("templates", "parameters", "targets", "degraded"):
            assert (again[name] == recorded[name][:4]).all()
        for name in ("nodes", "off_tree"):
            assert (again[name] == recorded[name][:4, :4]).all()


def test_the_recorded_probabilities_are_the_models(monkeypatch, tmp_path):
    """Of a few images, and as generation has it: the likeliest name is the greedy answer's, wherever it has one."""
    monkeypatch.syspath_prepend(str(LANDSCAPES))
    outcomes = importlib.import_module("outcomes")
    record = importlib.import_module("record")
    images = make_dataset(tmp_path / "images", n=3, seed=record.SEED, degraded=record.DEGRADED)
    again = outcomes.record(images, outcomes.MODEL_FOLDER)
    with np.load(LANDSCAPES / "outcomes.npz") as kept:
        assert (again["names"] == kept["names"]).all()
        assert (again["greedy"] == kept["greedy"][:, :3]).all()
        # Three bits of the half precision are dropped of all templates but the first.
        shares = probabilities(kept["logp"][:, :3])
        np.testing.assert_allclose(probabilities(again["logp"]), shares, atol=0.01)
        np.testing.assert_allclose(again["top5"], kept["top5"][:3], atol=0.01)
    likeliest = again["nodes"][again["logp"].argmax(axis=2)]
    assert (likeliest == again["greedy"]).mean() > 0.9


@pytest.mark.parametrize(("name", "tokens"), [("outcomes", 2), ("outcomes-long", 8)])
def test_the_recorded_probabilities_add_up_to_nearly_one(name, tokens):
    with np.load(LANDSCAPES / f"{name}.npz") as kept:
        sums = probabilities(kept["logp"]).sum(axis=2)
        assert (sums.mean(axis=1) > 0.98).all()
        assert kept["tokens"][:35].max() == tokens


def probabilities(logarithms):
    return np.exp(logarithms.astype(float))


def test_the_recorded_scores_of_weak_classifiers_are_about_the_images_of_the_landscape():
    with np.load(LANDSCAPES / "first.npz") as first, np.load(LANDSCAPES / "outcomes.npz") as kept:
        assert (first["targets"] == kept["targets"]).all()
        for name, least in (("pixels", 0.3), ("features", 0.6)):
            np.testing.assert_allclose(probabilities(first[name]).sum(axis=1), 1, atol=0.01)
            found = first["nodes"][first[name].argmax(axis=1)]
            assert least < (found == kept["targets"]).mean() < least + 0.2


# -- cascades ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def cascade(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("cascade")


@pytest.mark.parametrize("risk", [0.02, 0.1])
def test_the_benchmark_of_cascades_keeps_what_the_price_list_keeps(cascade, risk):
    pair = cascade.recorded("features", 0.5, "votes").of(np.arange(400))
    columns = cascade.columns_of(pair)
    promise = RiskGuarantee.asked(risk, cascade.CONFIDENCE)
    points = price_list(
        pair.tree,
        pair.scores,
        pair.answers,
        pair.target,
        promise,
        Groups(np.arange(400)),
        pair.leaves,
        pair.thresholds,
    )
    assert len(points) == len(columns)
    assert any(point.kept for point in points)
    for point, column, part in zip(points, columns, cascade.PARTS, strict=True):
        level = (1 - cascade.CONFIDENCE) * part
        row = cascade.last_kept(column.loss, risk, level, worst_loss(pair.tree))
        assert point.kept == (row >= 0)
        assert point.asked == column.asked.mean()
        if row >= 0:
            assert point.level.hr == pytest.approx(column.hr[row].mean())


def test_a_model_is_simulated_for_scores_of_files(cascade, tmp_path, capsys):
    rng = np.random.default_rng(0)
    labels = [f"{group}/{group}{i}" for group in "abcd" for i in range(3)]
    (tmp_path / "tree.csv").write_text("path\n" + "\n".join(labels), encoding="utf-8")
    species = [label.split("/")[1] for label in labels]
    scores = ["image," + ",".join(species)]
    truth = ["image,label"]
    for image in range(300):
        target = rng.integers(12)
        weights = rng.dirichlet(np.where(np.arange(12) == target, 6.0, 0.2))
        scores.append(f"{image}," + ",".join(f"{weight:.6f}" for weight in weights))
        truth.append(f"{image},{species[target]}")
    (tmp_path / "scores.csv").write_text("\n".join(scores), encoding="utf-8")
    (tmp_path / "truth.csv").write_text("\n".join(truth), encoding="utf-8")
    files = [str(tmp_path / name) for name in ("scores.csv", "truth.csv", "tree.csv")]
    pair = cascade.simulated(files, 0.9, 0.6)
    votes = pair.answers.nodes[:, 2] == pair.target
    assert 0.8 < votes.mean() < 1
    # What the scores are sure of is easier for the simulated model, too.
    sure = pair.scores.shares[:, 2] > np.median(pair.scores.shares[:, 2])
    assert votes[sure].mean() > votes[~sure].mean()
    cascade.main(["--scores", *files, "--quick", "--images", "200", "--risks", "0.1"])
    assert "| 300 images, then a simulated model, 85% right, likeness 0 | 0.100 |" in (
        capsys.readouterr().out
    )


# -- optimizers --------------------------------------------------------------------------------------------------------


@pytest.fixture
def search(optimizers, capsys):
    """Runs the benchmark of optimizers with a command line and returns what it prints."""

    def run(command):
        optimizers.main([*shlex.split(command), "--json"])
        return json.loads(capsys.readouterr().out)

    return run


def test_every_method_searches_within_its_budget_and_alike_each_time(optimizers, search, tmp_path):
    methods = [*optimizers.METHODS, "tpe"]
    command = "--degraded 0.5 --seeds 2 --budgets 100 200 --tuning 60"
    command += f" --methods {shlex.join(methods)}"
    found = search(f"{command} --out '{tmp_path}'")
    assert {row["method"] for row in found["means"]} == set(methods)
    for row in found["means"]:
        assert 0 < row["calls"] <= row["budget"]
        assert 0 <= row["kept"] <= 1
    assert search(command) == found
    assert search(f"{command} --out '{tmp_path}' --again") == found
    for name in ("study.json", "reach.md", "gain.csv", "optimizers-hp.png"):
        assert (tmp_path / name).is_file()


def test_more_answers_find_the_best_where_nothing_is_left_to_chance(optimizers):
    """Where every image says the same, every method that can afford all templates finds the best one."""
    recorded = optimizers.read_landscape()
    hp = np.linspace(0.9, 1, 40)[:, np.newaxis].repeat(60, axis=1)
    even = replace(
        recorded,
        name="even",
        hp=hp,
        hr=np.full_like(hp, 0.9),
        templates=recorded.templates[:40],
        parameters=recorded.parameters[:40],
        fragments=None,
    )
    methods = [*optimizers.METHODS, *optimizers.SLOW]
    aims = [optimizers.Aim("hp")]
    runs = optimizers.replay([even], aims, methods, [2_400], seeds=1, tuning=30)
    assert set(runs.method) == set(methods)
    assert runs.gain.tolist() == pytest.approx([1.0] * len(methods))
    assert runs.optimism_hp.abs().max() < 1e-9


def test_a_run_is_a_landscape_of_its_own(optimizers, search, tmp_path):
    run = tmp_path / "run"
    result = tuned(make_parts(tmp_path / "in", run), run)
    landscape = optimizers.landscape_of_run(run)
    assert landscape.templates == tuple(record.template for record in result.iterations)
    hp = [record.scores.hp for record in result.iterations]
    assert landscape.hp.mean(axis=1) == pytest.approx(hp)
    assert landscape.trivial_hr == pytest.approx(result.trivial_hr)
    found = search(f"--from '{run}' --seeds 2 --budgets 20 --methods paper random")
    assert {row["calls"] for row in found["means"]} == {20}


# -- local models, and rules of the mapper -----------------------------------------------------------------------------


@pytest.mark.timeout(1200)  # five processes for each, that each load torch and transformers
@pytest.mark.parametrize("model", ["--family mllama --tile 56", "--family qwen2_5_vl"])
def test_the_throughput_of_a_local_model_is_measured_without_the_packages_that_others_need(
    model, tmp_path
):
    # Every process of the benchmark reads this module when it starts.
    blocked = dict.fromkeys(("mlflow", "litellm", "optuna", "open_clip"))
    custom = tmp_path / "sitecustomize.py"
    custom.write_text(f"import sys\nsys.modules.update({blocked!r})\n", encoding="utf-8")
    paths = [str(tmp_path), str(BENCHMARKS.parent), os.environ.get("PYTHONPATH", "")]
    arguments = f"{model} --width 32 --depth 16 --prompts 3 --images 2 --held-out 3"
    arguments += " --new-tokens 3 --batch-size 2 --json"
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "vlm_throughput.py", *arguments.split()],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
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
    for seconds in found["seconds"].values():
        assert min(seconds.values()) > 0
    spent = found["shares"]["all"]
    for phase in ("encoding", "prefill", "decoding", "else"):
        assert spent[phase] > 0
    total = found["seconds"]["taxtune"]["all"]
    assert sum(spent.values()) == pytest.approx(total, rel=0.05)


def test_the_ablation_counts_the_answers_that_a_rule_gains(tmp_path, monkeypatch):
    # The ablation sets another one.
    monkeypatch.setattr(PlacementConfidence, "probability", PlacementConfidence.probability)
    ablation = importlib.import_module("benchmarks.ablation")
    (tmp_path / "pets.csv").write_text("path\npet/cat\npet/dog\n", encoding="utf-8")
    placed = tmp_path / "placed.jsonl"
    rows = [("not a dog but a cat", "pet/cat"), ("a dog", "pet/dog")]
    with placed.open("w", encoding="utf-8") as lines:
        for answer, node in rows:
            row = {"tree": "pets.csv", "answer": answer, "node": node, "also": []}
            lines.write(json.dumps(row) + "\n")
    domains = ablation.Domains([placed], [tmp_path])
    assert domains.base == [[True, True]]
    rules = {f"{rule.room}.{rule.name}": rule for rule in ablation.rules(False)}
    assert domains.gains(rules["english.NEGATION"]).gain.tolist() == [1]
    assert domains.gains(rules["english.LIKENESS"]).gain.tolist() == [0]
    assert domains.acceptable(anew=True) == domains.base
