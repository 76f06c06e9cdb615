"""The outputs of every command that computes something, compared with files that hold them as they were.

Everything goes through the command line, whose options stay when what is behind them changes. Inputs lie in `inputs/`
and are nobody else's. To take over a change that is meant: `pytest tests/golden --update-golden`, and read the diff.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import numpy as np
import pytest

from tests.servers import OpenAIServer

DOMAINS = Path(__file__).parents[2] / "benchmarks" / "domains"
INAT21 = "inat21/inat2021-categories.csv"


#: A small run, and what makes it one.
SMALL = (
    "data.count=60 data.tuning=24 data.first_rung=8 data.heldout=30 iterations=4 vlm.batch_size=16"
)
SETS = " ".join(f"--set {setting}" for setting in SMALL.split())


@pytest.mark.heavy
def test_compare_on_the_field_guide(golden):
    golden.case(
        "compare",
        f"compare fieldguide --objective hp --objective accuracy --out out {SETS}",
        # Nothing is left to do, and the same is printed.
        f"compare fieldguide --objective hp --objective accuracy --out out --resume {SETS}",
        f"evaluate fieldguide --template out/winner-hp.j2 --split tuning --out out --json {SETS}",
        "study prompts tuned=out/hp -t builtin:fieldguide --resamples 50 --json",
    )


@pytest.mark.heavy
def test_the_summary_of_a_run_and_of_an_evaluation(golden):
    sets = f"{SETS} --set tracking.mlflow=false"
    seeds = ("specific", "paper1-minimal", "paper1-question-answer", "paper1-specific")
    templates = " ".join(f"--template builtin:{seed}" for seed in seeds)
    tuned = golden.run(f"tune fieldguide --out out --set objective.hp_target=0.95 {sets}")
    evaluated = golden.run(f"evaluate fieldguide --out out {templates} {sets}")
    assert len(tuned.splitlines()) <= 25
    for line in [*tuned.splitlines(), *evaluated.splitlines()]:
        assert len(line) <= 80 or "/evaluated/" in line  # a file's name stays whole
    golden.compare({"summary/tune.txt": tuned, "summary/evaluate.txt": evaluated}, "summary")


# What each command is given: its options as a user types them, in the folder of inputs. Each case prints once as people
# read it and writes its tables, or prints JSON.
CASES = {
    "score": (
        "score predicted.csv -t birds.csv --resamples 100 --json",
        "score bold.csv -t birds.csv --resamples 100 --seed 3 --frequencies frequencies.csv --smoothing 0.5",
        "score bold.csv -t birds.csv --resamples 50 --root Aves --off-tree-as root "
        "--frequencies targets --smoothing 1 --json",
        "score careful.csv -t birds.csv --resamples 50 --missing abstain --preset paper-listing --json",
    ),
    "measure": (
        "score measure measured.jsonl --resamples 100 --out out",
        "score measure measured.jsonl --resamples 50 -m cider -m cider-d -m text-inclusion -m text-inclusion-literal "
        "-m vqa-accuracy --json",
    ),
    "diagnose": (
        "score diagnose bold.csv -t birds.csv --least 1 --resamples 100 --out out",
        "score diagnose careful.csv -t birds.csv --missing leave-out --root Aves --off-tree leave-out "
        "--resamples 50 --json",
        "score diagnose terse.csv -t birds.csv --inclusion text-inclusion --concept rouge-1 --tags tags.csv "
        "--resamples 50 --json",
        "score diagnose guesses.jsonl -t birds.csv --guesses join --frequencies frequencies.csv "
        "--smoothing 1 --resamples 50 --json",
    ),
    "place": (
        "place --input csv bold.csv -t birds.csv",
        "place --input csv terse.csv -t birds.csv --preset paper-listing --json --root Aves",
    ),
    "taxonomy-check": ("taxonomy check birds.csv", "taxonomy check birds.csv --json"),
    "taxonomy-convert": (
        "taxonomy convert birds.csv again.csv",
        "taxonomy show again.csv thrush",
    ),
    "taxonomy-build": (
        "taxonomy build graph.csv --out built.csv",
        "taxonomy build graph.csv --out joined.csv --join-roots all --json",
    ),
    "taxonomy-enrich": (
        "taxonomy enrich birds.csv --out proposals.csv",
        "taxonomy enrich birds.csv --apply proposals.csv --out better.csv",
    ),
    "study-ranking": (
        "study ranking careful=careful.csv bold.csv terse.csv -t birds.csv --resamples 100 --out out",
        "study ranking careful.csv bold.csv terse.csv -t birds.csv --root Passeriformes --resamples 50 --json",
        "study ranking guesses.jsonl --guess 1 --guess top-3 --guess all -t birds.csv --resamples 50 --json",
    ),
    "study-prompts": (
        "study prompts m:careful=careful.csv m:bold=bold.csv m:terse=terse.csv -t birds.csv --resamples 100 --out out",
        "study prompts m:careful=careful.csv m:bold=bold.csv -t birds.csv --root Aves --baseline bold "
        "-m text-inclusion --resamples 50 --json",
    ),
    "study-correlation": (
        "study correlation -t builtin:fieldguide --pairs 60 --out out --save-pairs pairs.csv",
        "study correlation -t birds.csv --pairs 40 --farthest 4 --root Aves --draw steps "
        "--labels canonical -m meteor --json",
    ),
    "study-encoder": (
        "study encoder -t birds.csv -e lexical -e again=lexical --answers placed.csv --resamples 100 --out out",
        "study encoder -t birds.csv --root Aves --by depth --per-level 3 --metric hp --seed 2 --resamples 50 --json",
    ),
    "study-mapping": (
        "study mapping placed.csv -t birds.csv --resamples 100 --out out",
        "study mapping placed.csv -t birds.csv --root Aves -m lexical -m rouge-1 --ties random --names common "
        "--resamples 50 --json",
    ),
    "study-judge": (
        "study judge rated.jsonl --resamples 100 --by model --category kind --out out",
        "study judge rated.jsonl -m exact-match -m meteor -m contained --resamples 50 --seed 9 --json",
    ),
    "study-specificity": (
        "study specificity --captions coco/captions.json --instances coco/instances.json "
        "--narratives coco/narratives.jsonl --pairs pairs.jsonl --negatives 4 --seed 1",
        "study specificity --scored model-a.csv --scored model-b.csv --resamples 100 --out out",
    ),
    "study-granularity-hierarchy": (
        "study granularity -t things.csv --scores scores.csv --scores sharper.csv --resamples 50 --out out",
        "study granularity -t things.csv --scores scores.csv --trivial leave-out --resamples 20 --seed 1 --json",
    ),
    "study-granularity-captions": (
        "study granularity -t things.csv --scores scores.csv --captions captions.txt --resamples 20 --out out",
    ),
    "study-granularity-two-level": (
        "study granularity -t things.csv --form two-level --coarse-level 1 --scores scores.csv "
        "--resamples 50 --out out",
        "study granularity -t things.csv --form two-level --coarse animal --coarse food --coarse tool "
        "--scores embedded.npz --resamples 20 --json",
    ),
    "study-granularity-frequency": (
        "study granularity -t things.csv --form frequency --captions captions.txt --out out",
        "study granularity -t things.csv --form frequency --captions more-captions.jsonl --caption-column text --json",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_commands_print_and_write(golden, name):
    embedded(golden.folder / "embedded.npz")
    golden.case(name, *CASES[name])


def test_a_taxonomy_with_every_defect(golden):
    golden.case(
        "taxonomy-check-broken",
        "taxonomy check broken.csv",
        "taxonomy check broken.csv --json",
        code=2,
    )


def embedded(file):
    """Writes scores with the embeddings that they are of, which a model would have made."""
    fine = ("cat", "dog", "apple", "bread", "saw", "file")
    labels = ("animal", "food", "tool", *fine)
    random = np.random.default_rng(0)
    texts = random.normal(size=(len(labels), 8))
    shown = np.tile(np.arange(6), 2)
    images = random.normal(size=(12, 8)) + texts[3 + shown]
    texts /= np.linalg.norm(texts, axis=1, keepdims=True)
    images /= np.linalg.norm(images, axis=1, keepdims=True)
    np.savez(
        file,
        scores=images @ texts.T,
        labels=np.array(labels),
        targets=np.array(fine)[shown],
        image_embeddings=images,
        label_embeddings=texts,
    )


# -- chat models ------------------------------------------------------------------------------------------------------


def rated(request):
    """Rates an answer as a judge does; one reply holds no rating."""
    question = request["messages"][-1]["content"]
    _, _, candidate = question.rpartition("Candidate answer: ")
    line, *_ = candidate.split("\n")
    answer = line.strip('"')
    ratings = {"cat": 3, "kitty": 3, "a mammal": 2, "dog": 1}
    rating = f"Rating: {ratings[answer]}" if answer in ratings else "Hm."
    return f"The candidate says {answer}.\n{rating}"


@pytest.mark.heavy
def test_judges(golden):
    with OpenAIServer(rated) as server:
        model = f"--judge openai/judge --api-base {server.api_base} --cache-dir ../cache --concurrency 1"
        golden.case(
            "study-judge-lave",
            f"study judge rated.jsonl {model} --resamples 50 --out out",
            f"study judge rated.jsonl {model} --ablations --caption-column caption --resamples 20 --json",
        )


def test_a_chat_model_that_is_asked_what_kind_a_thing_is(golden):
    kinds = {
        "cat": "animal",
        "dog": "food",
        "apple": "It is food.",
        "bread": "food",
        "saw": "tool",
        "file": "paper",
    }

    def reply(request):
        content = request["messages"][-1]["content"]
        return next(kind for thing, kind in kinds.items() if f"is this: {thing}?" in content)

    with OpenAIServer(reply) as server:
        golden.case(
            "study-granularity-language",
            "study granularity -t things.csv --form language --coarse-level 1 --model llm:openai/chat --resamples 20 "
            f"--api-base {server.api_base} --cache-dir ../cache --concurrency 1 --out out",
        )


# -- placements -------------------------------------------------------------------------------------------------------


def placements(golden, tree, answers):
    """Returns the output of `taxtune place` for each answer."""
    file = golden.folder / "answers-to-place.jsonl"
    lines = [json.dumps({"answer": answer}) + "\n" for answer in answers]
    file.write_text("".join(lines), encoding="utf-8")
    printed = golden.run(f"place -t '{tree}' --json '{file}'")
    return [json.loads(line) for line in printed.splitlines()]


def row(place):
    """Returns the path, the stage, the confidence and what else is said of a placement."""
    confidence = "" if place["confidence"] is None else repr(place["confidence"])
    said = " ".join(name for name in ("abstained", "off_tree") if place[name])
    return ["/".join(place["path"]), place["stage"], confidence, said]


def table(rows):
    return "".join("\t".join(map(str, cells)) + "\n" for cells in rows)


def test_placements_in_eight_domains(golden):
    answers = {}
    for part in ("first.jsonl", "second.jsonl"):
        for line in (DOMAINS / part).read_text("utf-8").splitlines():
            record = json.loads(line)
            answers.setdefault(record["tree"], []).append(record["answer"])
    folder = "place-domains"
    held = {}
    for tree, texts in answers.items():
        placed = placements(golden, DOMAINS / "trees" / tree, texts)
        rows = [[place["answer"], *row(place), place["evidence"]] for place in placed]
        held[f"{folder}/{Path(tree).stem}.tsv"] = table(rows)
    golden.compare(held, folder)


@pytest.mark.heavy
def test_placements_of_given_answers(golden, shared_data):
    """The answers are other people's: a digest stands for each of them, and for the evidence, which is part of it."""
    answers = {}
    for file in sorted((shared_data / "answers").glob("*.jsonl")):
        for line in file.read_text("utf-8").splitlines():
            record = json.loads(line)
            answer = record["answer"]
            distinct = answers.setdefault(tree_of(record, shared_data), {})
            distinct.update(dict.fromkeys(answer if isinstance(answer, list) else [answer]))
    folder = "place-shared"
    held = {}
    for tree, distinct in sorted(answers.items()):
        file = shared_data / tree
        if file.suffix == ".txt":
            file = as_paths(file, golden.folder / "pets.csv")
        rows = []
        for place in placements(golden, file, distinct):
            rows.append([digest(place["answer"]), *row(place), digest(place["evidence"])])
        held[f"{folder}/{Path(tree).stem}.tsv.gz"] = table(rows)
    golden.compare(held, folder)


def tree_of(record, shared_data):
    """Returns the file of the tree that a record's answer is placed on."""
    if "tree" in record:
        return linked(shared_data, f"trees/{record['tree']}")
    if record.get("domain") in ("aircraft", "car196"):
        return "trees/vehicles.csv"
    return INAT21


def as_paths(file, written):
    """Writes the paths of a file that has "class, group" on each line."""
    paths = ["path"]
    for line in file.read_text("utf-8").splitlines():
        name, group = line.split(", ")
        paths.append(f"pets/{group}/{name}")
    written.write_text("\n".join(paths) + "\n", "utf-8")
    return written


def linked(folder, file):
    """Returns the file that a link leads to, where a copy of the folder holds links as their text."""
    text = (folder / file).read_text("utf-8")[:200].strip()
    target = Path(file).parent / text
    if "\n" in text or not (folder / target).is_file():
        return file
    return (folder / target).resolve().relative_to(folder.resolve()).as_posix()


def digest(text):
    return "" if text is None else f"{zlib.crc32(text.encode('utf-8')):08x}"
