from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from taxtune.errors import ProposerError, TemplateError
from taxtune.tuning.proposers import Proposal, ProposalFailed, Proposer, make_proposer
from taxtune.tuning.proposers.fragments import FragmentsProposer, RandomProposer, read_fragments
from tests.rows import sample_row
from tests.tuning import templates
from tests.tuning.proposers.histories import goal, record
from tests.tuning.templates import SAMPLE, render

GOAL = goal("hp", 0.5, 1.0, 0.5, "bird", "What is this?", ["order"], 20)
ROW = sample_row(node=1, placement="life/b", confidence=1.0, hp=1.0, hr=1.0, from_store=True)
SMALL = """
slots:
  - id: ask
    choices: [{id: a, text: "What is it?"}, {id: b, text: "Which {{ domain }}?"}]
  - id: how
    choices: [{id: none, text: ""}, {id: c, text: "Be sure."}]
"""


def write(folder: Path, text: str, name: str = "mine.yaml") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8", errors="surrogatepass")
    return file


def accept(_: str) -> None:
    """Every template is fine."""


def run(
    proposer: Proposer,
    objective: Callable[[Proposal], float],
    *,
    iterations: int,
    seed: int = 0,
    images: Callable[[int], int] = lambda _: 20,
) -> list[tuple[Proposal, float]]:
    history = [record(0, "the baseline", value=0.1)]
    done: list[tuple[Proposal, float]] = []
    for iteration in range(1, iterations + 1):
        earlier = [trial.template for trial in history if trial.template]

        def check(source: str, earlier: list[str] = earlier) -> None:
            templates.check(source, earlier=earlier)

        proposal = proposer.propose(history, GOAL, iteration=iteration, seed=seed, check=check)
        # Asked again with the same history, it says the same: this is what a resumed run relies on.
        assert (
            proposer.propose(list(history), GOAL, iteration=iteration, seed=seed, check=check)
            == proposal
        )
        value = objective(proposal)
        n = images(iteration)
        done_now = record(
            iteration, proposal.template, parameters=proposal.parameters, value=value, hp=value, n=n
        )
        history.append(replace(done_now, rows=(ROW,) * n))
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


class TestProposer:
    def test_it_learns(self):
        worth = {
            "backoff": {
                "broader_group": 0.7,
                "only_when_certain": 1.0,
                "step_up": 0.8,
                "no_broad": -1.0,
            },
            "specificity": {"exact": -0.6, "always_commit": -1.0, "as_specific_as_sure": 0.6},
            "care": {"wrong_is_worse": 0.5, "no_guessing": 0.4},
        }

        def objective(proposal: Proposal) -> float:
            return sum(
                worth.get(slot, {}).get(choice, 0.0) for slot, choice in proposal.parameters.items()
            )

        led, chance = (
            [run(proposer, objective, iterations=25, seed=seed) for seed in range(2)]
            for proposer in (FragmentsProposer(), RandomProposer())
        )
        assert all(len({proposal.template for proposal, _ in done}) == 25 for done in led)
        # Until there is something to learn from, both draw the same.
        assert [done[:8] for done in led] == [done[:8] for done in chance]
        late = [
            sum(value for done in runs for _, value in done[-10:]) / 20 for runs in (led, chance)
        ]
        assert late[0] > late[1] + 0.4

    def test_it_learns_what_a_constraint_holds_apart_from_the_aim(self):
        careful = {"broader_group", "only_when_certain", "step_up", "serious_doubt", "bad_picture"}

        def scores(parameters: dict[str, str]) -> dict[str, float]:
            held = (parameters["backoff"] in careful) + (parameters["care"] != "none")
            return {
                "hp": 0.90 + 0.05 * held,
                "hr": 0.9 - 0.1 * held + 0.1 * (parameters["role"] == "expert"),
            }

        aim = goal("hr_at_hp", None, 1.0, 0.5, "bird", "What is this?", ["order"], 20)
        best = {}
        for proposer in (FragmentsProposer(), RandomProposer()):
            history = [record(0, "the baseline", value=0.1)]
            for iteration in range(1, 41):
                proposal = proposer.propose(history, aim, iteration=iteration, seed=0, check=accept)
                known = scores(proposal.parameters)
                history.append(
                    record(
                        iteration,
                        proposal.template,
                        value=known["hr"],
                        parameters=proposal.parameters,
                        **known,
                    )
                )
            late = [each.parameters for each in history[-15:]]
            best[proposer.name] = sum(
                scores(p)["hp"] >= 0.98 and p["role"] == "expert" for p in late
            )
        assert best["fragments"] >= 11
        assert best["random"] <= 5

    def test_records_of_more_images_are_not_mistaken_for_better_templates(self):
        """The first ten images are easy: a record that holds more is worse for that, whatever its choices."""

        def objective(proposal: Proposal) -> float:
            return float(proposal.parameters["role"] == "expert")

        def images(iteration: int) -> int:
            return 10 if iteration % 2 else 40

        def shifted(proposal: Proposal) -> float:
            shift = next(shifts)
            return objective(proposal) + shift

        shifts = iter([0.0 if images(iteration) == 40 else 3.0 for iteration in range(1, 41)])
        done = run(FragmentsProposer(), shifted, iterations=40, images=images)
        assert sum(objective(proposal) for proposal, _ in done[-15:]) >= 11

    def test_failed_trials_teach_nothing_but_are_not_proposed_again(self, tmp_path: Path):
        proposer = FragmentsProposer(write(tmp_path, SMALL))
        history = [
            record(1, "What is it?", state="failed", parameters={"ask": "a", "how": "none"}),
            record(2, None, state="failed", reason="no reply"),
            record(3, None, state="void", parameters={"ask": "b", "how": "c"}, reason="no answers"),
            record(4, "old", value=0.5, parameters={"ask": "gone", "how": "c"}),
        ]
        for seed in range(6):
            proposal = proposer.propose(history, GOAL, iteration=5, seed=seed, check=accept)
            assert proposal.template in {"What is it? Be sure.", "Which {{ domain }}?"}


class TestRandom:
    def test_it_draws_uniformly_among_the_compositions_that_were_not_tried(self, tmp_path: Path):
        proposer = RandomProposer(write(tmp_path, STANCES))
        tried = proposer.propose([], GOAL, iteration=1, seed=0, check=accept)
        history = [record(1, tried.template, value=0.5, parameters=tried.parameters)]
        drawn = Counter(
            proposer.propose(history, GOAL, iteration=2, seed=seed, check=accept).template
            for seed in range(900)
        )
        assert tried.template not in drawn
        assert len(drawn) == 9
        assert all(70 <= count <= 130 for count in drawn.values())


class TestRefusals:
    def test_all_compositions_are_found_before_it_gives_up(self, tmp_path: Path):
        proposer = FragmentsProposer(write(tmp_path, SMALL))
        done = run(proposer, lambda proposal: len(proposal.template), iterations=4)
        assert len({proposal.template for proposal, _ in done}) == 4
        history = [
            record(i, p.template, value=v, parameters=p.parameters)
            for i, (p, v) in enumerate(done, 1)
        ]
        with pytest.raises(ProposalFailed, match="All 4 combinations") as caught:
            proposer.propose(history, GOAL, iteration=5, seed=0, check=accept)
        assert caught.value.final

    def test_a_refused_composition_is_recorded_with_its_reason(self, tmp_path: Path):
        def check(source: str) -> None:
            if "sure" not in source:
                raise TemplateError("It must be sure.")

        proposer = FragmentsProposer(write(tmp_path, SMALL))
        proposals = [
            proposer.propose([], GOAL, iteration=i, seed=0, check=check) for i in range(1, 9)
        ]
        assert all("sure" in proposal.template for proposal in proposals)
        rejected = [pair for proposal in proposals for pair in proposal.rejected]
        assert rejected
        assert all(
            "sure" not in template and reason == "It must be sure." for template, reason in rejected
        )

    def test_nothing_acceptable(self, tmp_path: Path):
        def check(_: str) -> None:
            raise TemplateError("Never.")

        with pytest.raises(ProposalFailed, match=r"All 4 combinations.*Never") as caught:
            FragmentsProposer(write(tmp_path, SMALL)).propose(
                [], GOAL, iteration=1, seed=0, check=check
            )
        assert caught.value.final
        assert len(caught.value.spent.rejected) == 4
        with pytest.raises(ProposalFailed, match=r"2,000 combinations in a row") as caught:
            FragmentsProposer().propose([], GOAL, iteration=1, seed=0, check=check)
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
    def test_compositions_are_those_without_a_contradiction_each_once(self, tmp_path: Path):
        fragments = read_fragments(write(tmp_path, STANCES))
        stances = {
            (slot.id, choice.id): choice.stance
            for slot in fragments.slots
            for choice in slot.choices
        }
        valid = []
        for chosen in itertools.product(
            *([choice.id for choice in slot.choices] for slot in fragments.slots)
        ):
            parameters = dict(zip("abc", chosen, strict=True))
            if len({stances[pair] for pair in parameters.items()} - {None}) < 2:
                valid.append(parameters)
        numbered = [fragments.parameters(number) for number in range(fragments.compositions)]
        assert len(numbered) == len(valid) == 10
        assert all(parameters in numbered for parameters in valid)

    def test_too_many_are_refused(self, tmp_path: Path):
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
    def test_a_bad_file_is_named_with_the_key(self, tmp_path: Path, text: str, words: str):
        with pytest.raises(ProposerError, match=words) as caught:
            read_fragments(write(tmp_path, text))
        assert "mine.yaml" in str(caught.value)


def test_wrong_settings():
    with pytest.raises(TypeError):
        make_proposer("fragments", fragmnets="x")
    with pytest.raises(ProposerError, match=r"Unknown proposer.*fragments"):
        make_proposer("gepa")
