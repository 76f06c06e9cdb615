from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from taxtune.metrics import registry
from taxtune.metrics.base import FunctionMeasure
from taxtune.metrics.registry import MeasureSettings, PairwiseMeasure
from taxtune.studies.diagnosis.tags import Tagged, tagged
from tests.cli.commands import Done, run_captured
from tests.servers import OpenAIServer

TREE = """path,rank,aliases
life,,
life/Aves,class,bird
life/Aves/Passeriformes,order,songbird
life/Aves/Passeriformes/Turdidae,family,thrush
life/Aves/Passeriformes/Turdidae/Turdus merula,species,blackbird
life/Aves/Passeriformes/Turdidae/Turdus migratorius,species,american robin
life/Aves/Anseriformes,order,
life/Aves/Anseriformes/Anatidae,family,duck
life/Aves/Anseriformes/Anatidae/Anas platyrhynchos,species,mallard
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    path = tmp_path / "tree.csv"
    path.write_text(TREE)
    return path


def run(*arguments: str) -> Done:
    """Runs `taxtune score diagnose ARGUMENTS` in this process."""
    return run_captured("score", "diagnose", *arguments)


def diagnosed(file: Path, tree: Path, *options: str) -> dict[str, Any]:
    """What `taxtune score diagnose FILE -t TREE OPTIONS --json` prints; it must end well."""
    done = run(str(file), "-t", str(tree), *options, "--json")
    assert done.code == 0, done.err
    return dict(json.loads(done.out))


def rows(*answers: tuple[object, str]) -> str:
    return "".join(
        json.dumps({"id": f"x{i}", "answer": answer, "target": target}) + "\n"
        for i, (answer, target) in enumerate(answers)
    )


def test_types_costs_examples_and_files(tree: Path, tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text(
        rows(
            ("a blackbird", "Turdus merula"),
            ("a bird", "Turdus merula"),
            ("mallard", "Turdus merula"),
            ("American robin", "Turdus merula"),
            ("a blackbird", "thrush"),
            ("no idea at all", "Turdus merula"),
        )
    )
    result = diagnosed(file, tree, "--least", "1", "--out", str(tmp_path / "out"))
    assert [record["type"] for record in result["answers"]] == [
        "correct",
        "too general",
        "wrong branch at order",
        "sibling",
        "too specific",
        "abstained",
    ]
    by_type = {record["type"]: record for record in result["tables"]["types"]}
    assert by_type["wrong branch at order"]["cost in hP"] == pytest.approx((1 - 2 / 5) / 6)
    assert by_type["all"]["cost in hP"] == pytest.approx(
        sum(record["cost in hP"] for record in result["tables"]["types"] if record["type"] != "all")
    )
    assert by_type["mapper doubtful"]["hP"] is None
    assert [record["type"] for record in result["tables"]["examples"]] == [
        "correct",
        "too general",
        "too specific",
        "sibling",
        "wrong branch at order",
        "abstained",
    ]
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert {
        "study.json",
        "types.csv",
        "types.md",
        "clades.csv",
        "examples.md",
        "diagnosis.png",
        "diagnosis.svg",
        "scores.csv",
        "ranks.csv",
        "ranks.png",
    } <= written
    assert diagnosed(file, tree, "--least", "1") == result


def test_examples_are_shown_of_the_wrong_branches_of_each_rank(tree: Path, tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    merula, more = "Turdus merula", "life/Aves/Passeriformes/Corvidae/Corvus corax,species,raven\n"
    tree.write_text(TREE + "life/Aves/Passeriformes/Corvidae,family,crow\n" + more)
    file.write_text(rows(("duck", merula), ("mallard", merula), ("raven", merula), ("thrush", "raven")))
    result = diagnosed(file, tree, "--examples", "1")
    # The costliest of each: a mallard shares 2 nodes of 5 with a blackbird, and a duck 2 of 4; a raven shares 3 of 5 of
    # its own and of the blackbird's, a thrush 3 of its 4 and of the raven's 5.
    assert [(row["type"], row["id"]) for row in result["tables"]["examples"]] == [
        ("wrong branch at order", "x1"),
        ("wrong branch at family", "x2"),
    ]


def test_a_domain_root_is_the_root(tree: Path, tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text(rows(("mallard", "Turdus merula")))
    result = diagnosed(file, tree, "--root", "bird")
    (record,) = result["answers"]
    assert record["truth"].startswith("Aves/")
    assert record["hp"] == pytest.approx(1 / 4)
    # On the whole tree the nodes above the domain are shared too.
    (both,) = result["tables"]["both-trees"]
    whole = diagnosed(file, tree)["scores"]
    assert both["hP on Aves"] == pytest.approx(1 / 4)
    assert [value for name, value in both.items() if name.startswith("hP on")][1] == pytest.approx(whole["hp"])


def test_targets_outside_the_root_are_left_out_and_listed(tree: Path, tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    told = rows(("mallard", "Turdus merula"), ("mallard", "mallard"), (None, "duck"), ("thrush", "Turdus merula"))
    file.write_text(told)
    result = diagnosed(file, tree, "--root", "songbird")
    # A mallard is no songbird: as a wrong child of the root it shares 1 of 3 nodes; a thrush is 2 of 3.
    assert [(record["id"], record["hp"], record["hr"]) for record in result["answers"]] == [
        ("x0", 0.5, pytest.approx(1 / 3)),
        ("x3", 1.0, pytest.approx(2 / 3)),
    ]
    outside = "target outside Passeriformes"
    assert result["excluded"] == [
        {"file": str(file), "row": 2, "id": "x1", "reason": outside},
        {"file": str(file), "row": 3, "id": "x2", "reason": outside},
    ]
    assert result["notes"] == [f"{file}: 2 of 4 rows are left out: {outside}"]
    file.write_text(told + json.dumps({"id": "x4", "answer": "a", "target": "dragon"}))
    done = run(str(file), "-t", str(tree), "--root", "songbird")
    assert done.code == 2
    assert "1 of 5 rows cannot be used" in done.err
    assert "row 5: target: 'dragon' is not on the taxonomy" in done.err
    file.write_text(rows(("mallard", "mallard"), ("duck", "duck")))
    done = run(str(file), "-t", str(tree), "--root", "songbird")
    assert done.code == 2
    assert "No target lies below 'Passeriformes'" in done.err


def test_error_types_from_measures_stand_beside(tree: Path, tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text(rows(("a blackbird", "Turdus merula"), ("mallard", "Turdus merula")))
    options = ("--inclusion", "text-inclusion", "--concept", "rouge-1")
    result = diagnosed(file, tree, *options, "--out", str(tmp_path / "out"))
    wrong = "fine-grained discrimination failure"
    assert [record["measured"] for record in result["answers"]] == ["correct", wrong]
    by_type = {record["type"]: record for record in result["tables"]["measured"]}
    assert [by_type[kind]["answers"] for kind in ("correct", "granularity error", wrong, "all")] == [1, 0, 1, 2]
    # Of its types too the costs add up: a mallard for a blackbird shares 2 of 5 nodes.
    assert by_type[wrong]["cost in hP"] == pytest.approx((1 - 2 / 5) / 2) == by_type["all"]["cost in hP"]
    crossed = {record["by placement"]: record for record in result["tables"]["types-crossed"]}
    assert (crossed["wrong branch"][wrong], crossed["wrong branch"]["counterpart"]) == (1, wrong)
    assert (crossed["wrong branch"]["in it, %"], crossed["abstained"]["counterpart"]) == (100, None)
    assert {"measured.png", "measured.svg", "types-crossed.csv"} <= {path.name for path in (tmp_path / "out").iterdir()}
    # Any of the target's names will do, if asked for: the tree's label is the Latin name.
    file.write_text(rows(("Turdus merula", "Turdus merula"), ("mallard", "Turdus merula")))
    found = diagnosed(file, tree, *options), diagnosed(file, tree, *options, "--reference", "any-name")
    assert [[record["measured"] for record in result["answers"]] for result in found] == [
        [wrong] * 2,
        ["correct", wrong],
    ]
    alone = run(str(file), "-t", str(tree), "--inclusion", "text-inclusion")
    assert alone.code == 2
    assert "--concept" in alone.err


def test_a_judge_is_shown_the_prompt_of_each_row(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Judge(PairwiseMeasure):
        needs_questions = True

        def scores(self, answers, references, images=None, *, questions=None):
            asked.extend(questions)
            return np.ones(len(answers))

    made = []

    def make(spec: str, settings: MeasureSettings) -> PairwiseMeasure:
        made.append((spec, settings.device, settings.batch_size, settings.cache_dir))
        return Judge(spec, spec)

    monkeypatch.setattr(registry, "make_measure", make)
    file = tmp_path / "answers.jsonl"
    lines = [{"id": i, "answer": "duck", "target": "mallard", "asked": f"What {i}?"} for i in range(2)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    models = ("--inclusion", "contained", "--concept", "rouge-1", "--device", "cpu", "--batch-size", "3")
    options = (*models, "--cache-dir", str(tmp_path / "cache"), "--question-column", "asked")
    done = run(str(file), "-t", str(tree), *options)
    assert done.code == 0, done.err
    assert asked == ["What 0?", "What 1?"] * 2
    assert made == [(spec, "cpu", 3, tmp_path / "cache") for spec in ("contained", "rouge-1")]
    for wrong, said in ((("--question-column", "else"), "row has no else"), ((), "--question-column")):
        done = run(str(file), "-t", str(tree), *models, *wrong)
        assert done.code == 2
        assert said in done.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--concept", "clip-i2t:none"), "The measure clip-i2t:none needs images"),
        (("--inclusion", "llama-inclusion:none"), "--question-column"),
        (
            ("--inclusion", "llama-inclusion:none", "--question-column", "asked"),
            "answers.jsonl:2: The row has no asked",
        ),
    ],
)
def test_what_measures_lack_is_said_before_a_model_is_loaded(
    tree: Path, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    file = tmp_path / "answers.jsonl"
    lines = [{"answer": "duck", "target": "mallard", "asked": asked} for asked in ("What is it?", " ")]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = run(str(file), "-t", str(tree), "--inclusion", "text-inclusion", "--concept", "rouge-1", *options)
    assert done.code == 2
    assert said in done.err


def test_an_unclear_verdict_of_a_judge_is_unscored_and_counted(tree: Path, tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text(rows(("a duck", "mallard"), ("robin", "Turdus merula"), ("mallard", "mallard")))
    replies = {"a duck": "No.", "robin": "Perhaps.", "mallard": "Yes"}

    def judge(request: dict[str, Any]) -> str:
        (said,) = [said for said in replies if f'"{said}"' in request["messages"][-1]["content"].split("Answer")[-1]]
        return replies[said]

    with pytest.MonkeyPatch.context() as patch, OpenAIServer(judge) as server:
        patch.setenv("OPENAI_API_KEY", "none")
        options = ("--inclusion", "llama-inclusion:openai/judge", "--concept", "rouge-1", "--api-base", server.api_base)
        where = ("--question", "What bird is it?", "--cache-dir", str(tmp_path / "cache"))
        result = diagnosed(file, tree, *options, *where)
        assert all("What bird is it?" in prompt for prompt in server.prompts)
    assert [record["measured"] for record in result["answers"]] == [
        "fine-grained discrimination failure",
        "unscored",
        "correct",
    ]
    assert sum(row["unscored"] for row in result["tables"]["types-crossed"]) == 1
    assert "LI: 1 of 3 unscored: the judge's reply is neither yes nor no." in result["notes"]


MERULA = "Turdus merula"
TAGGED = (("a dog", MERULA), ("duck", MERULA), ("a bird", MERULA), ("blackbird", MERULA), ("mallard", MERULA))


@pytest.mark.parametrize(
    ("name", "tags"),
    [
        # A tagging model's own, as a list and as a text; answers of a model that was asked to list what it sees.
        (
            "tags.jsonl",
            '{"id": "x0", "tags": ["grass", "dog"]}\n{"id": "x1", "tags": []}\n'
            '{"id": "x2", "tags": "bird | branch"}\n{"id": "x3", "tags": "bird, blackbird"}\n',
        ),
        ("tags.csv", 'id,tags\nx0,"grass, dog"\nx1,none\nx2,"[""bird"", ""branch""]"\nx3,bird;blackbird\nx4,\n'),
        (
            "listed.csv",
            'id,answer\nx0,"The image shows a dog on the grass."\nx1,water\nx2,"a bird, and a branch"\n'
            'x3,"- a bird\n- the blackbird"\n',
        ),
    ],
)
def test_wrong_answers_that_name_a_tag_are_counted_by_type(tree: Path, tmp_path: Path, name: str, tags: str) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text(rows(*TAGGED))
    (tmp_path / name).write_text(tags)
    result = diagnosed(file, tree, "--tags", str(tmp_path / name))
    assert [record["named"] for record in result["answers"]] == [["dog"], [], ["bird"], ["blackbird"], None]
    shown = {
        row["type"]: [row[key] for key in ("answers", "tagged", "name a tag", "%")] for row in result["tables"]["tags"]
    }
    assert shown["off the tree"] == [1, 1, 1, 100]
    assert shown["wrong branch"] == [2, 1, 0, 0]  # the duck is no tag, and of the mallard's image there are none
    assert shown["too general"] == [1, 1, 1, 100]
    assert shown["correct"] == [1, 1, 1, 100]
    assert shown["all wrong"] == [4, 3, 2, pytest.approx(100 * 2 / 3)]
    assert shown["abstained"] == [0, 0, 0, None]
    assert result["settings"]["inclusion"]["measure"] == "text-inclusion"


def test_a_model_that_was_asked_to_list_what_it_sees_is_a_tagger(tree: Path, tmp_path: Path) -> None:
    kept = {"target": 4, "truth": f"life/{MERULA}", "node": 0, "placement": "life", "stage": "nothing"}
    listed = [kept | {"example": f"x{i}", "answer": said} for i, said in enumerate(("a dog and grass", None))]
    run_folder = tmp_path / "asked"
    run_folder.mkdir()
    (run_folder / "result.json").write_text(json.dumps({"heldout": [{"name": "list", "rows": listed}]}))
    file = tmp_path / "answers.jsonl"
    file.write_text(rows(*TAGGED[:2]))
    result = diagnosed(file, tree, "--tags", f"{run_folder}:list")
    # What a failed call would have said is not known.
    assert [(one["tags"], one["named"]) for one in result["answers"]] == [(["dog", "grass"], ["dog"]), (None, None)]
    assert f"{run_folder}: the answers are those of list on the held-out images" in result["notes"]


def test_tags_are_judged_by_the_inclusion_measure_and_counted_by_its_types_too(tree: Path, tmp_path: Path) -> None:
    file, tags = tmp_path / "answers.jsonl", tmp_path / "tags.jsonl"
    file.write_text(rows(("two dogs", MERULA), ("blackbirds", MERULA)))
    tags.write_text('{"image": "a.png", "tags": ["dog"]}\n{"image": "b.png", "tags": ["nest"]}\n')
    lines = [
        json.loads(line) | {"image": f"{name}.png"}
        for name, line in zip("ab", file.read_text().splitlines(), strict=True)
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = ("--inclusion", "contained", "--concept", "rouge-1", "--tags", str(tags))
    result = diagnosed(file, tree, *options)
    # Stemmed, dogs are a dog; the measures' types stand beside those of the tree.
    assert [record["named"] for record in result["answers"]] == [["dog"], []]
    assert {(row["by"], row["type"]): row["name a tag"] for row in result["tables"]["tags"] if row["answers"]} == {
        ("placement", "correct"): 0,
        ("placement", "off the tree"): 1,
        ("placement", "all wrong"): 1,
        ("measures", "correct"): 0,
        ("measures", "fine-grained discrimination failure"): 1,
        ("measures", "all wrong"): 1,
    }


def test_a_verdict_of_one_half_names_a_tag() -> None:
    verdicts = FunctionMeasure("half", "half", lambda _, tag: 0.5 if tag == "dog" else 0.49, MeasureSettings())
    one, none = tagged(verdicts, ["pets", "pets"], [("dog", "cat"), None])
    assert one == Tagged(("dog", "cat"), ("dog",), unscored=False)
    assert none is None


def test_a_verdict_on_a_tag_that_is_unclear_is_unscored(tree: Path, tmp_path: Path) -> None:
    file, tags = tmp_path / "answers.jsonl", tmp_path / "tags.jsonl"
    file.write_text(rows(("a dog", MERULA), ("a cat", MERULA)))
    tags.write_text('{"id": "x0", "tags": ["dog", "lawn"]}\n{"id": "x1", "tags": ["lawn", "pet"]}\n')

    def judge(request: dict[str, Any]) -> str:
        prompt = request["messages"][-1]["content"]
        return "Yes" if prompt.count("dog") > 1 else "Perhaps." if "lawn" in prompt else "No"

    with pytest.MonkeyPatch.context() as patch, OpenAIServer(judge) as server:
        patch.setenv("OPENAI_API_KEY", "none")
        options = ("--inclusion", "llama-inclusion:openai/judge", "--concept", "rouge-1", "--api-base", server.api_base)
        where = ("--question", "What is it?", "--cache-dir", str(tmp_path / "cache"), "--tags", str(tags))
        result = diagnosed(file, tree, *options, *where)
    (row,) = [r for r in result["tables"]["tags"] if (r["by"], r["type"]) == ("placement", "all wrong")]
    assert [row[key] for key in ("tagged", "unscored", "name a tag", "%")] == [2, 1, 1, 100]
    assert any("neither yes nor no" in note for note in result["notes"])


@pytest.mark.parametrize(
    ("answers", "tags", "said"),
    [
        ('{"id": "x0", "answer": "duck", "target": "mallard"}\n', '{"file": "a", "tags": ["a"]}\n', "'id' nor 'image'"),
        (
            '{"id": "x0", "answer": "duck", "target": "mallard"}\n',
            '{"id": "y", "tags": ["a"]}\n',
            "No answer has the id",
        ),
        ('{"id": "x0", "answer": "duck", "target": "mallard"}\n', '{"id": "x0", "words": "a"}\n', "no column 'answer'"),
        (
            '{"id": "x0", "answer": "duck", "target": "mallard"}\n',
            '{"id": "x0", "tags": ["a"]}\n{"id": "x0", "tags": ["b"]}\n',
            "id 'x0' is already in row 1",
        ),
        (
            '{"id": "x0", "answer": "duck", "target": "mallard"}\n',
            '{"id": "x0", "tags": "a"}\n{"tags": "b"}\n',
            "row 2: id is missing",
        ),
        ('{"id": "x0", "answer": "duck", "target": "mallard"}\n', '{"id": "x0", "tags": 3}\n', "tags is not text: 3"),
        # Without ids, rows would be matched by their numbers.
        ('{"answer": "duck", "target": "mallard"}\n', '{"id": "1", "tags": ["a"]}\n', "every answer needs one"),
    ],
)
def test_tags_that_cannot_be_used(tree: Path, tmp_path: Path, answers: str, tags: str, said: str) -> None:
    file, other = tmp_path / "answers.jsonl", tmp_path / "tags.jsonl"
    file.write_text(answers)
    other.write_text(tags)
    done = run(str(file), "-t", str(tree), "--tags", str(other))
    assert done.code == 2
    assert said in " ".join(done.err.split())
    assert "Traceback" not in done.err


def test_rows_of_tags_without_an_answer_or_without_tags_are_told(tree: Path, tmp_path: Path) -> None:
    file, tags = tmp_path / "answers.jsonl", tmp_path / "tags.csv"
    file.write_text(rows(("duck", MERULA), ("duck", MERULA)))
    tags.write_text("id,tags\nx0,water\nx1,\nz,dog\n")
    result = diagnosed(file, tree, "--tags", str(tags))
    assert f"{tags}: 1 of 3 rows of tags belong to no answer" in result["notes"]
    assert [record["tags"] for record in result["answers"]] == [["water"], None]


def test_clades_that_nobody_asks_for_are_no_table(tree: Path, tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text(rows(("mallard", "Turdus merula")))
    tables = diagnosed(file, tree, "--clades", "0", "--examples", "0")["tables"]
    assert list(tables) == ["types", "scores", "ranks"]


def test_the_settings_are_all_that_is_needed_to_run_it_again(tree: Path, tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text(rows(("mallard", "Turdus merula")))
    options = ("--least", "1", "--inclusion", "contained", "--concept", "rouge-1")
    settings = diagnosed(file, tree, *options)["settings"]
    assert {"format", "off_tree", "missing", "least", "clades", "examples", "seed"} <= settings.keys()
    assert settings["inclusion"]["measure"] == "contained"


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        ("", (), "empty"),
        ('{"answer": "a", "target": "dragon"}\n', (), "dragon"),
        ('{"answer": "a", "target": "dragon"}\n', ("--off-tree", "leave-out"), "No usable rows are left"),
        ('{"answer": null, "target": "thrush"}\n', (), "--missing leave-out"),
        ('{"answer": 3, "target": "thrush"}\n', (), "answer is not text: 3"),
        ('{"answer": "a", "target": "thrush"}\n', ("--where", "domain=x"), "domain"),
        ('{"answer": "a", "target": "thrush"}\n', ("--where", "domain"), "NAME=VALUE"),
        ('{"answer": "a", "target": "thrush"}\n', ("--guesses", "all"), "first, join"),
        ('{"answer": "a", "target": "thrush"}\n', ("--answer-column", "said"), "said"),
        ('{"answer": "a", "target": "thrush", "id": 1}\n' * 2, (), "row 1"),
        ('{"answer": "a", "target": "thrush"}\n', ("--high", "nan"), "--high"),
    ],
)
def test_what_cannot_be_diagnosed(
    tree: Path, tmp_path: Path, content: str, options: tuple[str, ...], said: str
) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text(content)
    done = run(str(file), "-t", str(tree), "--out", str(tmp_path / "out"), *options)
    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "out").exists()


def test_answers_that_all_say_nothing_are_counted_and_cost_hr_alone(tree: Path, tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text(rows(*(("", "mallard"),) * 5, ([], "mallard")))
    result = diagnosed(file, tree, "--out", str(tmp_path / "out"))
    assert result["notes"] == [f"{file}: 6 of 6 answers are empty"]
    by_type = {record["type"]: record for record in result["tables"]["types"]}
    # life of life/Aves/Anseriformes/Anatidae/Anas platyrhynchos
    assert (by_type["abstained"]["answers"], by_type["abstained"]["cost in hP"]) == (6, 0)
    assert by_type["abstained"]["cost in hR"] == pytest.approx(4 / 5)
    assert result["tables"]["clades"] == []
    assert result["table_notes"]["clades"] == ["None: no clade with at least --least answers lowers hP."]


def test_files_as_people_have_them(tree: Path, tmp_path: Path) -> None:
    file = tmp_path / "answers.csv"
    text = 'id,answer,target\r\na,"a duck, ""wild""\nor tame",mallard\r\nb,Amsel 🐦,thrush\r\n'
    found = []
    for content in (
        text.encode(),
        text.encode("utf-8-sig"),
        text.encode("utf-16"),
        text.replace("\r\n", "\n").encode(),
        text.replace("\r\n", "\r").encode(),
    ):
        file.write_bytes(content)
        found.append(diagnosed(file, tree)["answers"])
    assert found[0][0]["answer"] == 'a duck, "wild"\nor tame'
    assert all(other == found[0] for other in found)
    done = run(str(tmp_path), "-t", str(tree))
    assert (done.code, "The folder does not contain a taxtune run" in done.err) == (2, True)


def test_odd_answers_are_diagnosed_and_counted(tree: Path, tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    said = ["", "🦆🦆", "طائر", "bird " * 200_000, *["mallard"] * 300]
    file.write_text(rows(*((answer, "Anas platyrhynchos") for answer in said)))
    result = diagnosed(file, tree)
    types = [record["type"] for record in result["answers"]]
    assert types[:3] == ["abstained", "abstained", "off the tree"]
    assert types[3] == "too general"
    assert types[4:] == ["correct"] * 300


def test_scores_in_bits_and_by_rank(tree: Path, tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text(rows(("a blackbird", "Turdus merula"), ("mallard", "Turdus merula"), ("no idea", "mallard")))
    result = diagnosed(file, tree)
    scores = {record["score"]: record for record in result["tables"]["scores"]}
    assert scores["ihP"]["mean"] == pytest.approx((1 + 0 + 1) / 3) == result["scores"]["ihp"]
    assert scores["misinformation, bits"]["mean"] == pytest.approx(np.log2(3) / 3)
    assert scores["hP"]["mean"] == pytest.approx((1 + 2 / 5 + 1) / 3)
    assert result["answers"][1]["misinformation"] == pytest.approx(np.log2(3))
    assert result["answers"][2]["remaining_uncertainty"] == pytest.approx(np.log2(3))
    ranks = {record["rank"]: record for record in result["tables"]["ranks"]}
    assert list(ranks) == ["class", "order", "family", "species"]
    assert (ranks["species"]["said"], ranks["species"]["to be said"]) == (2, 3)
    assert ranks["species"]["precision"] == 0.5
    assert ranks["species"]["recall"] == pytest.approx(1 / 3)
    assert result["information"]["p"] == "leaves"
    counts = tmp_path / "counts.csv"
    counts.write_text("node,count\nmallard,2\nTurdus merula,1\nTurdus migratorius,1\n")
    result = diagnosed(file, tree, "--frequencies", str(counts))
    assert result["answers"][1]["misinformation"] == pytest.approx(1)
    assert result["settings"]["frequencies"] == str(counts)
    counts.write_text("node,count\nmallards,2\n")
    done = run(str(file), "-t", str(tree), "--frequencies", str(counts))
    assert (done.code, "counts.csv: 1 of 1 rows cannot be used" in done.err) == (2, True)
