from __future__ import annotations

import re
from dataclasses import replace

import pytest

from taxtune.metrics.information import information_values, leaf_information
from taxtune.objective import Constraint, Objective
from taxtune.resources import prompts_dir
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.proposers.messages import Messages
from tests.tuning.proposers.answered import BIRDS, bird_rows
from tests.tuning.proposers.histories import goal as make_goal
from tests.tuning.proposers.histories import record

GOAL = make_goal()


def trial(iteration, value, **fields):
    scores = {"hp": 0.9, "hr": 0.6, "hf": 0.72, "accuracy": 0.25, **fields}
    return record(iteration, f"template number {iteration}.", value=value, **scores)


def words(text):
    return len(text.split())


def first(history, goal=GOAL, budget=10_000):
    system, user = Messages().first(history, goal, budget=budget, count=words)
    assert (system["role"], user["role"]) == ("system", "user")
    return system["content"], user["content"]


def test_the_system_message_tells_the_goal_and_the_trivial_answer():
    system, _ = first([])
    assert "20 images" in system
    assert "hierarchical precision (hP)" in system
    assert "hierarchical recall (hR)" in system
    assert "back off" in system
    assert 'answering just "bird" gives hP 1.000 and hR 0.500' in system
    assert "hR is at least 0.510" in system
    assert "order, family, species" in system
    assert "{{ examples }}" in system
    assert "{% if ... %}" in system


def test_the_example_in_the_message_is_right():
    """The numbers that explain hP and hR to the chat model are the ones that taxtune would compute."""
    paths = {
        "violin": ["thing", "instrument", "string instrument", "violin"],
        "string instrument": ["thing", "instrument", "string instrument"],
        "cello": ["thing", "instrument", "string instrument", "cello"],
        "flute": ["thing", "instrument", "wind instrument", "flute"],
    }
    text = (prompts_dir() / "proposer" / "example.j2").read_text(encoding="utf-8")
    for answer, path in paths.items():
        shared = len(set(path) & set(paths["violin"]))
        told = text[text.lower().index(f'"{answer}"', text.index("The answer")) :]
        assert f"hP {shared}/{len(path)}" in told.split("hR")[0]
        assert told.split("hR ")[1].startswith(f"{shared}/4")


def test_only_the_scores_of_the_objective_are_shown():
    history = [trial(0, 0.9)]
    _, user = first(history)
    assert "hP 0.900, hR 0.600" in user
    assert "accuracy" not in user
    system, user = first(history, make_goal("accuracy"))
    assert "accuracy 0.250" in user
    assert not any(name in system + user for name in ("hP", "hR", "hF", "hierarchical"))
    system, user = first(history, make_goal("hf"))
    assert "hF 0.720 (hP 0.900, hR 0.600)" in user
    assert "harmonic" in system
    assert "does not count" not in system


def test_the_scores_in_bits_are_told_with_right_numbers():
    """The example's ihP and ihR are those that taxtune computes on the example's tree."""
    strings = ["violin", "viola", "cello", "double bass"]
    winds = ["flute", "oboe", "clarinet", "bassoon"]
    instruments = {"string instrument": strings, "wind instrument": winds}
    tree = Taxonomy.from_dict({"thing": {"instrument": instruments}})
    weights = leaf_information(tree)
    violin = tree.resolve("violin")
    assert weights.weight[tree.ancestors(violin)].tolist() == [0, 0, 1, 2]
    text = (prompts_dir() / "proposer" / "example_bits.j2").read_text(encoding="utf-8")
    for answer in ("violin", "string instrument", "cello", "flute", "instrument"):
        told = text[text.lower().index(f'"{answer}"', text.index("The answer")) :]
        found = re.findall(r"ih[PR] (\d)(?:/(\d))?", told)[:2]
        ihp, ihr, _, _ = information_values(weights, [tree.resolve(answer)], [violin])
        shown = [int(part) / int(whole or 1) for part, whole in found]
        assert shown == pytest.approx([ihp[0], ihr[0]])
    ihp, ihr, _, _ = information_values(weights, [0], [violin], off_tree=[True])
    assert ihp[0] == 0
    assert ihr[0] == 0


FEW = Objective("few", lambda scores: 0.0, (Constraint("hr", 0.4),))
TASTE = Objective("x", lambda scores: 0.0, shown=("taste",))


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        ("hp", "Aim for the highest hP."),
        ("hp", "its hR is at least 0.560 (80 % of what the first template has)"),
        ("hp", "violin"),
        ("hr_at_hp", "Aim for the highest hR."),
        ("hr_at_hp", "hP is at least 0.980, with a confidence of 90 %"),
        ("hr_at_hp", "hP 4/4"),
        ("ihr_at_ihp", "Aim for the highest ihR."),
        ("ihr_at_ihp", "ihP is at least 0.980, with"),
        ("ihr_at_ihp", "ihP 3/3"),
        ("lave", "a judge who knows the true label"),
        ("lave", "Aim for the highest LAVE."),
        ("rouge-1", "ROUGE: share of the reference's words"),
        ("rouge-1", "Aim for the highest ROUGE."),
        (FEW, '"few". Aim for the highest.'),
        (FEW, "hR is at least 0.400."),
        (FEW, "hP 4/4"),
        (TASTE, "taste: a measure"),
        (TASTE, "the highest taste."),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_what_counts_follows_from_the_objective(objective, words):
    history = [trial(0, 0.9, hp=0.9, hr=0.7, ihp=0.8, ihr=0.6)]
    system = Messages().objective(history, make_goal(objective, None))
    assert words in system
    # Each is explained with its own scores, and with no others.
    assert ("hP 4/4" in system) + ("ihP 3/3" in system) <= 1
    assert system.count("Aim for") == 1


def test_the_best_and_the_latest_come_with_evidence_and_the_others_with_scores_alone():
    goal = replace(GOAL, taxonomy=BIRDS, domain_node=BIRDS.resolve("bird"))
    answered = bird_rows([("goldfinch", "a chaffinch"), ("snowy owl", "owl")])
    values = (0.7, 0.9, 0.8, 0.6)
    history = [trial(i, value, rows=answered) for i, value in enumerate(values)]
    _, user = first(history, goal)
    entries = re.split(r"Iteration \d", user)[1:]  # from the worst to the best
    explained = ["[a wrong species of the right family]" in entry for entry in entries]
    assert explained == [True, False, False, True]
    assert "chaffinch" not in user
    # Evidence gives way where there is little room, templates do not.
    _, user = first(history, goal, budget=50)
    assert "template number 1." in user
    assert "wrong species" not in user
    # Nor is any shown where scores alone are wanted, and nothing in the message speaks of it.
    assert "what the answers show" in first(history, goal)[0]
    system, user = Messages().first(history, goal, budget=10_000, count=words, explain=False)
    assert user["content"].count("template number") == len(history)
    assert "wrong species" not in user["content"]
    assert "what the answers show" not in system["content"]


def test_finalists_are_shown_with_the_number_of_their_images():
    _, user = first([trial(0, 0.8), trial(1, 0.9, n=80)])
    assert "Iteration 1: hP 0.900, hR 0.600, on 80 images\n" in user
    assert "Iteration 0: hP 0.900, hR 0.600\n" in user


def test_from_worst_to_best_with_a_note_on_what_does_not_count():
    history = [trial(0, 0.8), trial(1, -0.1, feasible=False), trial(2, 0.9), trial(3, 0.7)]
    _, user = first(history)
    positions = [user.index(f"template number {i}.") for i in (1, 3, 0, 2)]
    assert positions == sorted(positions)
    assert user.count("does not count") == 1
    assert "left out" not in user


def test_a_tight_budget_keeps_the_best_and_the_latest():
    history = [trial(i, 0.99 if i == 3 else i / 100) for i in range(30)]
    _, user = first(history, budget=60)
    shown = [i for i in range(30) if f"template number {i}." in user]
    assert {3, 29} <= set(shown)
    assert 2 <= len(shown) < 10
    assert f"({30 - len(shown)} more were tried" in user
    entries = user[user.index("Iteration") : user.index("(" + str(30 - len(shown)))]
    assert words(entries) <= 60


def test_refused_templates_come_with_their_reason_and_within_a_share_of_the_budget():
    failed = record(
        1,
        None,
        state="failed",
        reason="x",
        rejected=(("{{ a }}", "Unknown."), ("", "Empty."), ("b" * 9000, "Long.")),
    )
    _, user = first([trial(0, 0.5), failed])
    assert "Refused: Unknown.\n```\n{{ a }}\n```" in user
    assert "Empty." not in user
    assert "b" * 1500 + " …" in user
    assert "b" * 1501 not in user
    _, user = first([trial(0, 0.5), failed], budget=20)
    assert "Refused" not in user
