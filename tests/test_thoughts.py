from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.mapping.unwrap import unwrap
from taxtune.models.arbiter import read_choice
from taxtune.models.base import Candidates
from taxtune.models.lave import read_rating
from taxtune.models.outcomes import find_name
from taxtune.thoughts import fenced_blocks, is_mark, open_thought, without_thoughts
from taxtune.tuning.proposers.messages import unwrap_reply

#: An answer "X" after a thought, as families of models write it; "%" is what they think.
WRITTEN = (
    "<think>%</think>X",
    "<think>\n%\n</think>\n\n<answer>\nX\n</answer>",
    "<think duration='5'>%</think>X",
    "<think>%</thinking>X",
    "%</think>X",
    "<THINK >\n%</ think >X",
    "< think id=1>%</think id=1>X",
    "&lt;think&gt;%&lt;/think&gt;X",
    "＜think＞%＜/think＞X",
    "<antThinking>%</antThinking>X",
    "<thought_process>%</thought_process>X",
    "<think_faster>%</think_faster>X",
    "<|thinking_start|>%<|thinking_end|>X",
    "<|inner_prefix|>%<|inner_suffix|>X",
    "<ctrl94>thought\n%<ctrl95>X",
    "<think>%</think>So,<think>% `</think>` %</think>X",
    "<|channel|>analysis<|message|>%<|end|><|start|>assistant<|channel|>final <|constrain|>text<|message|>X",
    "%\n◁/think▷X",
    "◁think▷%◁/think▷X",
    "<thinking>%</thinking>X",
    "<seed:think>%</seed:think>X",
    "<longcat_think>%</longcat_think>\nX",
    "<Thought>%</Thought>\n<Output>X</Output>",
    "<SUMMARY>s</SUMMARY><CAPTION>c</CAPTION><REASONING>%</REASONING><CONCLUSION>X</CONCLUSION>",
    "<scratchpad>%</scratchpad>X",
    "[THINK]%[/THINK]X",
    "<|START_THINKING|>%<|END_THINKING|><|START_RESPONSE|>X<|END_RESPONSE|>",
    "<|begin_of_thought|>%<|end_of_thought|>\n<|begin_of_solution|>X<|end_of_solution|>",
    "<|think|>%<|end|><|begin|>assistant<|content|>X<|end|>",
    "<|channel|>analysis<|message|>%<|end|><|start|>assistant<|channel|>final<|message|>X<|return|>",
    "<|start|>assistant<|channel|>analysis<|message|>%<|end|><|start|>assistant<|channel|>final<|message|>X",
    "analysisThe user asks: %assistantfinalX",
    "<|channel>thought\n%<channel|>X",
    "<unused94>thought\n%<unused95>X",
    "Here is my thought process: %\nHere is my response: X",
    "Here are my reasoning steps:\n%\n[BEGIN FINAL RESPONSE]\nX\n[END FINAL RESPONSE]",
)
THOUGHT = "A mallard? The format is 'A: <answer>.' So"


@pytest.mark.parametrize("written", WRITTEN)
def test_the_answer_follows_the_thought(written):
    reply = written.replace("%", THOUGHT).replace("X", "Great egret.")
    assert without_thoughts(reply) == "Great egret."


@pytest.mark.parametrize("written", [each for each in WRITTEN if not each.startswith("%")])
def test_a_thought_that_was_cut_off_is_no_answer(written):
    opening, _, _ = written.partition("%")
    assert without_thoughts(opening + THOUGHT) is None


@pytest.mark.parametrize(
    "reply", ["X\n<think>A mallard? No.</think>", "<think>Hm</think>X<thinking>So.</thinking><eos>"]
)
def test_a_thought_after_the_answer_is_none_of_it(reply):
    assert without_thoughts(reply.replace("X", "Great egret.")) == "Great egret."


@pytest.mark.parametrize(
    "reply", ["<think>A mallard.</think>", "A mallard.\n</think>\n", "Egret. <think>Or a"]
)
def test_a_thought_with_nothing_after_it_is_no_answer(reply):
    assert without_thoughts(reply) is None


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "A <b>great</b> egret",
        "Analysis of the picture: an egret",
        "a statue, <thinker>",
        "[1] egret",
        "I think: an egret",
        "Words on a sign, `<think>`, and a great egret",
        'It says "</think>" beside a great egret.',
        "'A: <answer>'",
        "```\nThink in <think></think> first.\n```",
        "analysis paralysis",
        "A: <your answer>",
    ],
)
def test_a_reply_without_thoughts_stays_as_it_is(reply):
    assert without_thoughts(reply) == reply


PIECES = ["<think>", "</think>", "[/THINK]", "```", "\n", "x", " ", "<|channel|>final"]


@given(st.lists(st.sampled_from(PIECES)))
def test_what_is_left_has_no_open_thought(pieces):
    answer = without_thoughts("".join(pieces)) or ""
    if "```" not in pieces:  # a fenced block may show a thought's marks
        for mark in ("<think>", "</think>", "<|channel|>final"):
            assert mark not in answer


def unwrapped(reply):
    """Returns the lines of the one block of a reply."""
    (block,) = unwrap(reply)
    return block.lines


def test_one_rule_for_answers_proposals_judges_arbiters_and_probabilities():
    reply = "[THINK]A mallard, 1, Rating: 1\n```\nno\n```[/THINK]"
    assert unwrapped(reply + "Great egret.") == ("Great egret",)
    boxed = "<think>A mallard?</think><answer><|begin_of_box|>Great egret<|end_of_box|></answer>"
    assert unwrapped(boxed) == ("Great egret",)
    assert unwrapped('{"thinking": "A mallard?", "label": "egret"}') == ("egret",)
    assert unwrap_reply(reply + "\n```\nWhat is it?\n```") == "What is it?"
    assert read_rating(reply + "Rating: 3") == 3
    assert read_choice(reply + "2", ["mallard", "egret"]) == 2
    found = find_name(reply + "A mallard, no: an egret", Candidates(("mallard", "egret")))
    assert found == (len(reply) + 2, len(reply) + 9, "mallard")
    assert find_name("[THINK]A mallard", Candidates(("mallard",))) is None


def test_marks_of_prompts_and_tokenizers():
    assert open_thought("<|im_start|>assistant\n<think>\n") == "<think>"
    assert open_thought("Use <think> tags.<|im_start|>assistant\n") == ""
    assert open_thought("<|im_start|>assistant\n<think>\n\n</think>\n\n") == ""
    for mark in ("[THINK]", "<|END_THINKING|>", "<|channel|>", "<|message|>", "<unused94>"):
        assert is_mark(mark)
    for token in ("<image>", "</s>", "<|im_end|>", "[INST]"):
        assert not is_mark(token)


@pytest.mark.parametrize(
    "filler",
    ["<think> ", "```a\n", "<answer>", "</think>", "<a", "<|channel|>", "<think>x</think>", " "],
)
def test_long_replies_are_read_in_linear_time(filler):
    long = "<think></think>" + filler * (200_000 // len(filler))
    assert without_thoughts(long + "x</think>egret") in ("egret", None)
    assert isinstance(fenced_blocks(long), list)
