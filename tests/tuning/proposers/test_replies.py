from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.errors import TemplateError
from taxtune.tuning.proposers.replies import unwrap_reply

TEMPLATE = "What is this an image of? Answer in the format 'A: <answer>.'"
LONG = "{% if ranks %}Name the {{ ranks | last }}.{% endif %}\nBe careful."


@pytest.mark.parametrize("template", [TEMPLATE, LONG, "{{ question }}"])
@pytest.mark.parametrize(
    "wrap",
    [
        "{}",
        "  \n{}\n\n",
        "\ufeff{}",
        "```\n{}\n```",
        "```jinja2\n{}\n```",
        "~~~\n{}\n~~~",
        "Here is a better template:\n\n```jinja\n{}\n```\n\nIt asks for care.",
        "```\n{}",
        "```\n{}\n```\nAgain:\n```\n{}\n```",
        "<think>Was it a robin? ```no```</think>\n{}",
        "Was it a robin? ```no```\n</think>\n\n{}",
        "<template>{}</template>",
        "Here's my next template:\n{}",
        "Template: {}",
        "**New template:** {}",
        '"""{}"""',
        "\u201c{}\u201d",
        "Template:\n```\n\u201c{}\u201d\n```",
    ],
)
def test_the_template_is_freed_of_what_is_wrapped_around_it(wrap: str, template: str):
    assert unwrap_reply(wrap.replace("{}", template)) == template


@pytest.mark.parametrize("key", ["template", "prompt"])
def test_json(key: str):
    assert unwrap_reply(json.dumps({"why": "because", key: LONG})) == LONG
    assert unwrap_reply("```json\n" + json.dumps({key: LONG}, indent=1) + "\n```") == LONG
    assert unwrap_reply(json.dumps(LONG)) == LONG


def test_windows_line_ends():
    assert unwrap_reply("```\r\na\r\nb\r\n```") == "a\nb"


@pytest.mark.parametrize(
    "template",
    [
        '"bird" or "plane"? Say "bird"',
        "'a' and 'b'",
        "What is this? Answer 'A: <answer>.'",
        "Describe the image. Template: none.",
        "If the picture shows several things, list one:\nA: <answer>",
    ],
)
def test_what_belongs_to_the_template_stays(template: str):
    assert unwrap_reply(template) == template


@pytest.mark.parametrize("template", ['"What is it?"', "'What is it?'", "`What is it?`", "```What is it?```"])
def test_quotes_around_all_of_it(template: str):
    assert unwrap_reply(template) == "What is it?"


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (None, "empty"),
        ("<think>hm\n```\nWhich one?\n```", "empty but for thoughts"),
        ("hm\n```\nWhich one?\n```\n</think>", "empty but for thoughts"),
        ("```\n\n```", "no template"),
        ("Template:", "no template"),
        ("<!DOCTYPE html><html></html>", "web page"),
        ("I'm sorry, but I can't help with that.", "refusal"),
        ("I\u2019m sorry, I can\u2019t assist.", "refusal"),
        ("I cannot write this.", "refusal"),
        ("```\na\n```\nor\n```\nb\n```", "2 different blocks"),
        ('{"answer": "x"}', "'template'"),
    ],
)
def test_what_holds_no_template(reply: str | None, words: str):
    with pytest.raises(TemplateError, match=words):
        unwrap_reply(reply)


def test_an_apology_inside_a_template_is_no_refusal():
    for template in ("What is this? If unsure, say: sorry.", "Sorry to ask again." + " Look at the wings." * 40):
        assert unwrap_reply(template) == template
    assert unwrap_reply("I'm sorry for before.\n```\nWhat is it?\n```") == "What is it?"


PIECES = ["```", "\n", "~~~", "{", "}", "{{", '"', "'", ":", "Template:", "<template>", "</template>", "x", " "]


@given(st.lists(st.sampled_from(PIECES)).map("".join) | st.text())
def test_any_reply_gives_a_text_or_a_reason(reply: str):
    try:
        text = unwrap_reply(reply)
    except TemplateError:
        return
    assert text
    assert text == text.strip()
