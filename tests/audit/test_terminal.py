"""The loop in the terminal, with keys pressed to order and a console that is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from taxtune.audit.mending import Alias
from taxtune.audit.population import Item
from taxtune.audit.terminal import Reviewer, terminal_keys
from taxtune.audit.verdicts import Finding, Verdict, VerdictLog
from taxtune.errors import DataError
from tests.audit.samples import console, item, population, press, shown

ITEMS = (
    item("A: a slice of cake.", 2, evidence="cake"),
    item("gelato", 3, count=12),
    item("a pho", 5),
    item("a bicycle", 0, "off_tree"),
    item("", 0, "abstained"),
)
KINDS = [Verdict.RIGHT, Verdict.TOO_GENERAL, Verdict.WRONG]


def review(tmp_path: Path, *keys: str | type[BaseException], items: tuple[Item, ...] = ITEMS) -> tuple[bool, str]:
    out = console()
    answers = population(*items)
    reviewer = Reviewer(answers, VerdictLog(tmp_path / "audit.jsonl"), out, press(keys))
    return reviewer.ask(items), shown(out)


def said(tmp_path: Path) -> list[Finding | None]:
    log, answers = VerdictLog(tmp_path / "audit.jsonl"), population(*ITEMS)
    return [log.find(answers, item) for item in ITEMS]


def test_a_key_a_verdict(tmp_path: Path) -> None:
    finished, text = review(tmp_path, "rgwRr")
    assert finished
    assert said(tmp_path) == [Finding(kind) for kind in (*KINDS, Verdict.RIGHT, Verdict.RIGHT)]
    assert "1 of 5 · answers.txt" in text
    assert "Answer, said 12 times" in text
    assert "food › dessert › cake (gateau)" in text
    assert "below it: pho (pho bo), noodle soup" in text
    assert "off the tree: it names something that the tree lacks" in text
    assert "(blank)" in text


def test_quit_and_go_on_where_it_was(tmp_path: Path) -> None:
    assert not review(tmp_path, "rq")[0]
    assert said(tmp_path)[:2] == [Finding(Verdict.RIGHT), None]
    finished, text = review(tmp_path, "wwrr")
    assert finished
    assert "1 of 5" not in text
    assert said(tmp_path)[:2] == [Finding(Verdict.RIGHT), Finding(Verdict.WRONG)]
    # What is judged whole asks for no key.
    assert review(tmp_path) == (True, "")


def test_ctrl_c_loses_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        review(tmp_path, "rw", KeyboardInterrupt)
    assert said(tmp_path)[:3] == [Finding(Verdict.RIGHT), Finding(Verdict.WRONG), None]


def test_skip_leaves_it_open_and_back_changes_a_verdict(tmp_path: Path) -> None:
    finished, text = review(tmp_path, "sr", "b", "g", "rrr")
    assert finished  # of what was not skipped
    assert said(tmp_path)[:3] == [None, Finding(Verdict.TOO_GENERAL), Finding(Verdict.RIGHT)]
    assert "You said: right" in text
    # At the first there is no way back, and other keys do nothing.
    assert review(tmp_path, "b", "x", "<up>", "<enter>", "w")[0]
    assert said(tmp_path)[0] == Finding(Verdict.WRONG)


def test_nothing_is_too_general_with_nothing_below_it(tmp_path: Path) -> None:
    _, text = review(tmp_path, "gq")
    assert said(tmp_path)[0] is None
    assert "too general" not in text


def test_the_node_is_chosen_by_typing_a_part_of_its_name(tmp_path: Path) -> None:
    finished, text = review(tmp_path, "c", "gel", "<enter>", "c", "gelx", "<backspace>", "<enter>", "qqq")
    assert not finished
    assert said(tmp_path)[:2] == [Finding(Verdict.WRONG, 4), Finding(Verdict.TOO_GENERAL, 4)]
    assert "It should be on: gel▏" in text
    assert "❯ gelato" in text


def test_the_root_is_chosen_for_what_names_nothing(tmp_path: Path) -> None:
    review(tmp_path, "c", "<up>", "<enter>", "q")
    assert said(tmp_path)[0] == Finding(Verdict.WRONG, 0)


def test_suggestions_come_from_the_answer_and_can_be_marked(tmp_path: Path) -> None:
    only = (item("a pho or noodle soup", 5),)
    # The names in the answer, the longest first, then what is near the placement.
    _, text = review(tmp_path, "c", "<down>", "<enter>", items=only)
    assert text.index("❯ noodle soup") < text.index("❯ pho")
    log = VerdictLog(tmp_path / "audit.jsonl")
    assert log.find(population(*only), only[0]) == Finding(Verdict.TOO_GENERAL, 6)


def test_escape_leaves_the_search_without_a_verdict(tmp_path: Path) -> None:
    review(tmp_path, "c", "ca", "<escape>", "q")
    assert said(tmp_path)[0] is None


def test_a_changed_placement_is_asked_anew_and_says_so(tmp_path: Path) -> None:
    before = item("gelato", 2)
    VerdictLog(tmp_path / "audit.jsonl").add(population(before), before, Finding(Verdict.WRONG))
    _, text = review(tmp_path, "rrq")
    assert "Its placement has changed: placed on food › dessert › cake it was wrong" in text


def test_the_evidence_stands_out_and_answers_do_not_command_the_terminal(tmp_path: Path) -> None:
    out = console(colours=True)
    items = (item("it is\x1b[2J [bold]cake[/bold] \u202e", 2, evidence="cake"), item("x" * 5000, 0, "abstained"))
    Reviewer(population(*items), VerdictLog(tmp_path / "audit.jsonl"), out, press("rq")).ask(items)
    text = shown(out)
    assert "\x1b[1;36mcake\x1b[0m" in text
    assert "\\x1b[2J [bold]" in text
    assert "\u202e" not in text
    assert "5,000" in text


def test_without_a_terminal_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(DataError, match=r"in a terminal, but .* --llm"), terminal_keys():
        pass


# -- aliases ----------------------------------------------------------------------------------------------------------

GOOD = Alias("mud pie", 2, "a mud pie")
OTHER = Alias("affogato", 4, "affogato")
BAD = Alias("soup", 6, "soup", why="it is already a name of food/soup")


def take(tmp_path: Path, proposals: list[Alias], *keys: str) -> tuple[list[Alias], str]:
    out = console()

    def retry(alias: Alias, text: str) -> Alias:
        return Alias(text, alias.node, alias.answer, "" if text == "soup bowl" else "no")

    reviewer = Reviewer(population(*ITEMS), VerdictLog(tmp_path / "audit.jsonl"), out, press(keys))
    return reviewer.take(proposals, retry), shown(out)


def test_aliases_are_taken_by_key(tmp_path: Path) -> None:
    assert take(tmp_path, [GOOD, OTHER], "ts")[0] == [GOOD]
    assert take(tmp_path, [GOOD, BAD, OTHER], "a")[0] == [GOOD, OTHER]
    assert take(tmp_path, [GOOD, OTHER], "q")[0] == []
    assert take(tmp_path, [], "")[0] == []


def test_an_alias_that_does_not_help_can_be_edited_and_not_taken(tmp_path: Path) -> None:
    taken, text = take(tmp_path, [BAD], "t", "e", " bowl", "<enter>", "t")
    assert taken == [Alias("soup bowl", 6, "soup")]
    assert "it is already a name of food/soup" in text
    assert take(tmp_path, [BAD], "e", "<escape>", "as")[0] == []
    assert take(tmp_path, [GOOD], "e", *["<backspace>"] * 9, "<enter>", "t")[0] == [GOOD]  # an empty line is none
