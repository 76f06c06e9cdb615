from __future__ import annotations

import itertools
from collections import Counter
from functools import partial

import numpy as np
import pytest

from taxtune.errors import ProposerError, TemplateError
from taxtune.tuning.proposers import ProposalFailed, make_proposer
from taxtune.tuning.proposers.fragments import FragmentsProposer, RandomProposer, read_fragments
from tests.rows import sample_row
from tests.tuning import templates
from tests.tuning.proposers.histories import goal, record
from tests.tuning.templates import SAMPLE, render

GOAL = goal("hp", 0.5)
ROW = sample_row(node=1, placement="life/b", confidence=1.0, hp=1.0, hr=1.0, from_store=True)
SMALL = """
slots:
  - id: ask
    choices: [{id: a, text: "What is it?"}, {id: b, text: "Which {{ domain }}?"}]
  - id: how
    choices: [{id: none, text: ""}, {id: c, text: "Be sure."}]
"""


def write(folder, text, name="mine.yaml"):
    file = folder / name
    file.write_text(text, encoding="utf-8", errors="surrogatepass")
    return file


def accept(_):
    """Every template is fine."""


def ask(
    proposer,
    history=(),
    *,
    goal=GOAL,
    iteration=1,
    seed=0,
    check=accept,
):
    return proposer.propose(history, goal, iteration=iteration, seed=seed, check=check)


def tried(iteration, proposal, value, **known):
    """Returns the record of a proposal that had a value."""
    return record(
        iteration, proposal.template, parameters=proposal.parameters, value=value, **known
    )


def run(
    proposer,
    objective,
    *,
    iterations,
    seed=0,
    images=lambda _: 20,
):
    history = [record(0, "the baseline", value=0.1)]
    done = []
    for iteration in range(1, iterations + 1):
        earlier = [trial.template for trial in history if trial.template]
        check = partial(templates.check, earlier=earlier)
        proposal = ask(proposer, history, iteration=iteration, seed=seed, check=check)
        # Asked again with the same history, it says the same: this is what a resumed run relies on.
        again = ask(proposer, list(history), iteration=iteration, seed=seed, check=check)
        assert again == proposal
        value = objective(proposal)
        n = images(iteration)
        history.append(tried(iteration, proposal, value, hp=value, n=n, rows=(ROW,) * n))
        done.append((proposal, value))
    return done


class TestTheFileThatComesWithTaxtune:
    def test_every_fragment_renders_with_and_without_ranks_and_examples(self):
        empty = {"question": "What is it?", "domain": "bird", "ranks": [], "examples": []}
        for slot in read_fragments().slots:
            assert slot.about
            for choice in slot.choices:
                for values in (SAMPLE, empty):
                    if choice.text:
                        assert render(choice.text, values)

    def test_any_composition_is_a_good_template(self):
        fragments = read_fragments()
        for number in range(0, fragments.compositions, 211):
            templates.check(fragments.compose(fragments.parameters(number)))

    def test_bold_and_careful_sentences_never_meet(self):
        fragments = read_fragments()
        texts = [fragments.compose(fragments.parameters(n)) for n in range(fragments.compositions)]
        bold = {text for text in texts if "even if you have to guess" in text}
        careful = {text for text in texts if "When in doubt, go one level up" in text}
        assert bold
        assert careful
        assert not bold & careful


#: What each choice of a slot is worth to a template.
WORTH = {
    ("backoff", "broader_group"): 0.7,
    ("backoff", "only_when_certain"): 1.0,
    ("backoff", "step_up"): 0.8,
    ("backoff", "no_broad"): -1.0,
    ("specificity", "exact"): -0.6,
    ("specificity", "always_commit"): -1.0,
    ("specificity", "as_specific_as_sure"): 0.6,
    ("care", "wrong_is_worse"): 0.5,
    ("care", "no_guessing"): 0.4,
}


class TestProposer:
    def test_it_learns(self):
        def objective(proposal):
            return sum(WORTH.get(choice, 0.0) for choice in proposal.parameters.items())

        late = []
        chance_late = []
        for seed in range(2):
            led = run(FragmentsProposer(), objective, iterations=25, seed=seed)
            chance = run(RandomProposer(), objective, iterations=25, seed=seed)
            assert len({proposal.template for proposal, _ in led}) == 25
            # Until there is something to learn from, both draw the same.
            assert led[:8] == chance[:8]
            late += [value for _, value in led[-10:]]
            chance_late += [value for _, value in chance[-10:]]
        assert np.mean(late) > np.mean(chance_late) + 0.4

    def test_it_learns_what_a_constraint_holds_apart_from_the_aim(self):
        careful = {"broader_group", "only_when_certain", "step_up", "serious_doubt", "bad_picture"}

        def scores(parameters):
            held = (parameters["backoff"] in careful) + (parameters["care"] != "none")
            expert = parameters["role"] == "expert"
            return {"hp": 0.90 + 0.05 * held, "hr": 0.9 - 0.1 * held + 0.1 * expert}

        aim = goal("hr_at_hp", None)
        best = {}
        for proposer in (FragmentsProposer(), RandomProposer()):
            history = [record(0, "the baseline", value=0.1)]
            for iteration in range(1, 41):
                proposal = ask(proposer, history, goal=aim, iteration=iteration)
                known = scores(proposal.parameters)
                history.append(tried(iteration, proposal, known["hr"], **known))
            late = [each.parameters for each in history[-15:]]
            good = [p for p in late if scores(p)["hp"] >= 0.98 and p["role"] == "expert"]
            best[proposer.name] = len(good)
        assert best["fragments"] >= 11
        assert best["random"] <= 5

    def test_records_of_more_images_are_not_mistaken_for_better_templates(self):
        """The first ten images are easy: a record that holds more is worse for that, whatever its choices."""

        def objective(proposal):
            return float(proposal.parameters["role"] == "expert")

        def images(iteration):
            return 10 if iteration % 2 else 40

        def shifted(proposal):
            shift = next(shifts)
            return objective(proposal) + shift

        shifts = iter([0.0 if images(iteration) == 40 else 3.0 for iteration in range(1, 41)])
        done = run(FragmentsProposer(), shifted, iterations=40, images=images)
        assert sum(objective(proposal) for proposal, _ in done[-15:]) >= 11

    def test_failed_trials_teach_nothing_but_are_not_proposed_again(self, tmp_path):
        proposer = FragmentsProposer(write(tmp_path, SMALL))
        history = [
            record(1, "What is it?", state="failed", parameters={"ask": "a", "how": "none"}),
            record(2, None, state="failed", reason="no reply"),
            record(3, None, state="void", parameters={"ask": "b", "how": "c"}, reason="no answers"),
            record(4, "old", value=0.5, parameters={"ask": "gone", "how": "c"}),
        ]
        for seed in range(6):
            proposal = ask(proposer, history, iteration=5, seed=seed)
            assert proposal.template in {"What is it? Be sure.", "Which {{ domain }}?"}


class TestRandom:
    def test_it_draws_uniformly_among_the_compositions_that_were_not_tried(self, tmp_path):
        proposer = RandomProposer(write(tmp_path, STANCES))
        first = ask(proposer)
        history = [tried(1, first, 0.5)]
        drawn = Counter(ask(proposer, history, iteration=2, seed=s).template for s in range(900))
        assert first.template not in drawn
        assert len(drawn) == 9
        assert all(70 <= count <= 130 for count in drawn.values())


class TestRefusals:
    def test_all_compositions_are_found_before_it_gives_up(self, tmp_path):
        proposer = FragmentsProposer(write(tmp_path, SMALL))
        done = run(proposer, lambda proposal: len(proposal.template), iterations=4)
        assert len({proposal.template for proposal, _ in done}) == 4
        history = [tried(i, proposal, value) for i, (proposal, value) in enumerate(done, 1)]
        with pytest.raises(ProposalFailed, match="All 4 combinations") as caught:
            ask(proposer, history, iteration=5)
        assert caught.value.final

    def test_a_refused_composition_is_recorded_with_its_reason(self, tmp_path):
        def check(source):
            if "sure" not in source:
                raise TemplateError("It must be sure.")

        proposer = FragmentsProposer(write(tmp_path, SMALL))
        rejected = []
        for iteration in range(1, 9):
            proposal = ask(proposer, iteration=iteration, check=check)
            assert "sure" in proposal.template
            rejected += proposal.rejected
        assert rejected
        for template, reason in rejected:
            assert "sure" not in template
            assert reason == "It must be sure."

    def test_nothing_acceptable(self, tmp_path):
        def check(_):
            raise TemplateError("Never.")

        with pytest.raises(ProposalFailed, match=r"All 4 combinations.*Never") as caught:
            ask(FragmentsProposer(write(tmp_path, SMALL)), check=check)
        assert caught.value.final
        assert len(caught.value.spent.rejected) == 4
        with pytest.raises(ProposalFailed, match=r"2,000 combinations in a row") as caught:
            ask(FragmentsProposer(), check=check)
        assert not caught.value.final


STANCES = """
slots:
  - id: a
    choices: [{id: free, text: "1"}, {id: bold, stance: bold, text: "2"}, {id: careful, stance: careful, text: "3"}]
  - id: b
    choices: [{id: free, text: "4"}, {id: bold, stance: bold, text: "5"}, {id: brave, stance: bold, text: "6"}]
  - id: c
    choices: [{id: free, text: "7"}, {id: careful, stance: careful, text: "8"}, {id: odd, stance: odd, text: "9"}]
"""


class TestStances:
    def test_compositions_are_those_without_a_contradiction_each_once(self, tmp_path):
        fragments = read_fragments(write(tmp_path, STANCES))
        valid = []
        for chosen in itertools.product(*[slot.choices for slot in fragments.slots]):
            stances = {choice.stance for choice in chosen} - {None}
            if len(stances) < 2:
                valid.append(dict(zip("abc", [choice.id for choice in chosen], strict=True)))
        numbered = [fragments.parameters(number) for number in range(fragments.compositions)]
        assert len(numbered) == len(valid) == 10
        assert all(parameters in numbered for parameters in valid)

    def test_too_many_are_refused(self, tmp_path):
        slot = "  - {id: s%d, choices: [{id: n, text: ''}, {id: b, stance: b, text: x}, {id: c, stance: c, text: y}]}"
        with pytest.raises(ProposerError, match="more than 1,000,000 combinations"):
            read_fragments(write(tmp_path, "slots:\n" + "\n".join(slot % i for i in range(20))))


class TestFiles:
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("", "is empty"),
            ("slots", "whole file"),
            ("slots:\n  - {id: a", r"mine\.yaml: The fragments cannot be read.*line 2"),
            ("\ud83d", "not UTF-8"),
            ("slots: [{id: a}]", r"slots\.0\.choices: Field required"),
            ("slots: [{id: A b, choices: [{id: x, text: y}]}]", r"slots\.0\.id.*'A b'"),
            ("slots: [{id: a, choices: [{id: x, text: 5}]}]", r"slots\.0\.choices\.0\.text.*got 5"),
            (
                "slots: [{id: a, choices: [{id: x, text: y}, {id: x, text: z}]}]",
                r"slots\.0: .*'x' is given twice",
            ),
            (
                "slots: [{id: a, choices: [{id: x, text: y}]}, {id: a, choices: [{id: z, text: y}]}]",
                "'a' is given",
            ),
            (
                "slots: [{id: a, choices: [{id: x, text: '{{ foo }}'}]}]",
                "choices.0.text.*unknown variable 'foo'",
            ),
            (
                "slots: [{id: a, choices: [{id: x, stance: bold, text: y}]},"
                " {id: b, choices: [{id: z, stance: mild, text: y}, {id: w, stance: calm, text: y}]}]",
                "slot 'b' needs a choice without a stance: none goes with 'bold'",
            ),
        ],
    )
    def test_a_bad_file_is_named_with_the_key(self, tmp_path, text, words):
        with pytest.raises(ProposerError, match=words) as caught:
            read_fragments(write(tmp_path, text))
        assert "mine.yaml" in str(caught.value)


def test_wrong_settings():
    with pytest.raises(TypeError):
        make_proposer("fragments", fragmnets="x")
    with pytest.raises(ProposerError, match=r"Unknown proposer.*fragments"):
        make_proposer("gepa")
