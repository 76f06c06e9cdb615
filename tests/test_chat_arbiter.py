"""The bed of recorded replies of the arbiter, replayed through the real arbiter over HTTP."""

from __future__ import annotations

import itertools
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import chat_arbiter
from benchmarks.chat_arbiter import FOLDER, Replies, Reply, as_rows, ask, figures, make_beds
from benchmarks.mapper_confidence import DOMAINS
from taxtune.mapping.config import NONE_OF_THESE
from taxtune.models.api import load_litellm
from taxtune.models.arbiter import ChatArbiter
from tests.servers import OpenAIServer, model_settings

TREE = (
    "path\nthing\nthing/dog\nthing/dog/pug\nthing/cat\nthing/vehicle\nthing/vehicle/fire engine\n"
)
PLACED = [
    {"answer": "Un camion de pompiers", "node": "thing/vehicle/fire engine", "also": []},
    {"answer": "it may be a cable car", "node": None, "also": ["thing/vehicle"]},
    {"answer": "a puglike dawg", "node": "thing/dog/pug", "also": ["thing/dog"]},
]
OPTIONS = re.compile(r'^(\d+): +"(.*?)"', re.M)
PATHS = st.sampled_from(["a", "a/b", "a/b/c", "a/d", "a/d/e"])


@pytest.fixture(scope="module", autouse=True)
def litellm():
    return load_litellm()


@pytest.fixture
def placed(tmp_path):
    """A folder with a tree and answers on it."""
    (tmp_path / "tree.csv").write_text(TREE, encoding="utf-8")
    lines = [json.dumps({"tree": "tree.csv", **row}) + "\n" for row in PLACED]
    (tmp_path / "placed.jsonl").write_text("".join(lines), encoding="utf-8")
    return tmp_path


def small_beds(folder, replies, share=1.0):
    return make_beds([folder / "placed.jsonl"], [folder], replies, listed=None, share=share)


def arbiter_of(server, folder):
    settings = model_settings(server, task="text-generation")
    return ChatArbiter("openai/gpt-4o-mini", settings, cache_dir=folder / "cache")


def test_what_is_asked_once_is_recorded_and_asked_again_where_it_no_longer_stands(placed):
    file = placed / "replies.jsonl"
    replies = Replies(file)
    [bed] = small_beds(placed, replies)
    asked = len(bed.arbiter.missing)
    assert asked > 1
    with OpenAIServer(then="1") as server:
        arbiter = arbiter_of(server, placed)
        ask(arbiter, [bed], at_a_time=2)
        assert len(server.chats) == asked
        recorded = Replies(file)
        [again] = small_beds(placed, recorded)
        assert not again.arbiter.missing
        rows = as_rows([again], arbiter)
    choices = [pair[1] for pairs in again.arbiter.rounds.values() for pair in pairs]
    assert choices == [0] * asked
    assert set(rows.arbiter) <= {"agrees", "differs"}
    acceptable = rows.set_index("answer").after
    assert not acceptable["Un camion de pompiers"]
    text = "\n".join(figures(rows))
    assert f"{asked} of {asked} answers that are asked about have a reply" in text
    assert f"| all | {asked} |" in text
    # A candidate below the chosen node that was not offered: the model might have chosen it.
    fewer = Replies(placed / "fewer.jsonl")
    [(question, _)] = again.arbiter.rounds["Un camion de pompiers"]
    fewer.add("tree.csv", question.answer, Reply(choice="thing", offered=frozenset(["thing"])))
    [changed] = small_beds(placed, fewer)
    assert question in changed.arbiter.missing


def test_further_questions_are_recorded_and_counted_with_their_answer(tmp_path):
    labels = [f"tool {i}" for i in range(30)]
    paths = [f"thing/{label}" for label in labels]
    paths += [f"thing/{label}/part {i}" for label in labels for i in range(3)]
    (tmp_path / "tree.csv").write_text("\n".join(["path", "thing", *paths]), encoding="utf-8")
    row = {"tree": "tree.csv", "answer": "Ein Hubschrauber", "also": []}
    row["node"] = "thing/tool 7/part 2"
    (tmp_path / "placed.jsonl").write_text(json.dumps(row), encoding="utf-8")

    def choose(body):
        options = OPTIONS.findall(body["messages"][-1]["content"])
        numbers = {label: number for number, label in options}
        return numbers.get("part 2", numbers["tool 7"])

    replies = Replies(tmp_path / "replies.jsonl")
    [bed] = small_beds(tmp_path, replies)
    with OpenAIServer(choose) as server:
        arbiter = arbiter_of(server, tmp_path)
        ask(arbiter, [bed], at_a_time=1)
        assert len(server.chats) == 2
    [again] = small_beds(tmp_path, Replies(tmp_path / "replies.jsonl"))
    rows = as_rows([again], arbiter)
    assert rows[["before", "after", "best"]].to_numpy().tolist() == [[False, True, True]]
    # The answer names nothing: the first level; then the node with its three children.
    assert rows.candidates.tolist() == [[31, 5]]
    text = "\n".join(figures(rows))
    assert "1 of 1 answers" in text
    assert "There are 2 requests, 1 of them further ones." in text
    assert "18.0 candidates (median 18)" in text


def test_of_several_replies_that_of_the_same_candidates_counts_else_the_closest_that_stands():
    replies = Replies(FOLDER / "there is no such file")
    for choice, offered in [
        ("a", "a"),
        ("a/b", "a a/b"),
        ("a/b/c", "a a/b a/b/c"),
        (None, "a a/d"),
    ]:
        reply = Reply(choice=choice, offered=frozenset(offered.split()))
        replies.add("tree", "answer", reply)

    def found(offered):
        reply = replies.find("tree", "answer", offered.split())
        return reply and reply.choice

    assert found("a") == "a"
    assert found("a a/b") == "a/b"
    assert found("a a/b a/d") == "a/b"
    assert found("a a/b a/b/c a/d") == "a/b/c"
    assert found("a a/d") is None
    assert replies.find("tree", "another", ["a"]) is None
    assert replies.find("another", "answer", ["a"]) is None


def test_a_share_of_each_file_is_the_least_sure(placed):
    [bed] = small_beds(placed, Replies(placed / "none.jsonl"))
    [half] = small_beds(placed, Replies(placed / "none.jsonl"), share=0.5)
    assert half.answers.confidence.max() <= bed.answers.confidence.median()
    assert 0 < len(half.answers) < len(bed.answers)


@given(choice=st.none() | PATHS, offered=st.frozensets(PATHS), now=st.sets(PATHS))
def test_a_reply_stands_unless_something_better_may_be_offered(choice, offered, now):
    reply = Reply(choice=choice, offered=offered | ({choice} - {None}))
    assert reply.stands(reply.offered)
    if choice is None:
        assert reply.stands(now) == (now <= offered)
    else:
        below = {path for path in now - offered if path.startswith(choice + "/")}
        assert reply.stands(now) == (choice in now and not below)


@given(
    st.dictionaries(
        st.tuples(st.text(max_size=5), st.text(max_size=20)),
        st.builds(Reply, choice=st.none() | PATHS, offered=st.frozensets(PATHS)),
        max_size=5,
    )
)
def test_replies_are_the_same_after_they_are_written(tmp_path_factory, rows):
    file = tmp_path_factory.mktemp("replies") / "replies.jsonl"
    replies = Replies(file)
    for (tree, answer), reply in rows.items():
        replies.add(tree, answer, reply)
    replies.save()
    again = Replies(file)
    for (tree, answer), reply in rows.items():
        assert again.find(tree, answer, sorted(reply.offered)) == reply


def test_every_tree_has_answers_in_the_bed():
    listed = chat_arbiter.listed_answers()
    assert len(listed) >= 320
    assert {tree for tree, _ in listed} == {file.name for file in (DOMAINS / "trees").iterdir()}


def test_the_recorded_replies_give_the_figures_that_are_printed(tmp_path):
    numbers = {}
    with OpenAIServer(lambda body: str(numbers[body["messages"][-1]["content"]])) as server:
        arbiter = arbiter_of(server, tmp_path)
        file = FOLDER / chat_arbiter.file_of(arbiter)
        if not file.exists():
            pytest.skip("no replies to this wording of the request are recorded yet")
        beds = make_beds(
            sorted(DOMAINS.glob("*.jsonl")),
            [DOMAINS / "trees"],
            Replies(file),
            listed=chat_arbiter.listed_answers(),
            share=1.0,
        )
        for bed in beds:
            rounds = [pairs for pairs in bed.arbiter.rounds.values() if pairs[-1][1] is not None]
            for question, node in itertools.chain(*rounds):
                number = 0 if node == NONE_OF_THESE else question.candidates.index(node) + 1
                numbers[arbiter.prompt(bed.taxonomy, question)] = number
            first = [pairs[0][0] for pairs in rounds]
            assert arbiter(bed.taxonomy, first) == [pairs[-1][1] for pairs in rounds]
        assert len(server.chats) == len(numbers)
    printed = (FOLDER / "README.md").read_text(encoding="utf-8")
    lines = [f"Replies: `{file.name}`.", *figures(as_rows(beds, arbiter))]
    written = printed.partition(chat_arbiter.HEADING)[2].splitlines()[1:]
    assert written == lines, "write them again: python benchmarks/chat_arbiter.py --write"
