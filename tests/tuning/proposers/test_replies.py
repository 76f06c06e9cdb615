from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxtune.errors import TemplateError
from taxtune.tuning.proposers.messages import unwrap_reply

TEMPLATE = "What is this an image of? Answer in the format 'A: <answer>.'"
LONG = "{% if ranks %}Name the {{ ranks | last }}.{% endif %}\nBe careful."


@pytest.mark.parametrize("template", [TEMPLATE, LONG, "{{ question }}"])
@pytest.mark.parametrize(
    "wrap",
    [
        "```\n{}\n```",
        "<think>Was it a robin?</think>\n\n```\n{}\n```\n",
        "\ufeff```jinja2\r\n{}\r\n```",
        "~~~\n{}\n~~~",
        "I'm sorry for before. Here is a better template:\n\n```jinja\n{}\n```\n\nIt asks for care.",
        "```\n{}\n```\nAgain:\n```\n{}\n```",
        "<think>Was it a robin? ```no```\n```\nno\n```</think>\n```\n{}\n```",
        "Was it a robin? ```no```\n</think>\n\n```\n{}\n```",
        "Was it a robin?\n```\nno\n```</think>\n```\n{}\n```",
        "[THINK]Was it a robin?[/THINK]```\nHm.\n[/THINK]\n```\n{}\n```",
        "**Neue Vorlage**\n\n```\n{}\n```\nSie verlangt Sorgfalt.",
    ],
)
def test_the_template_is_what_the_fence_holds(wrap, template):
    assert unwrap_reply(wrap.replace("{}", template)) == template


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "Here's an improved template:\n\nWhat is this?",
        "**New template:** What is this?",
        "Sure! What is this?",
        '"What is this?"',
        "What is this?",
        "Voici le nouveau modèle :\n\nWhat is this?",
        "[[ ## template ## ]]\nWhat is this?",
        "What is this?\n\n这个模板要求谨慎。",
        '{"template": "What is this?"}',
    ],
)
def test_a_template_without_a_fence_is_none(reply):
    with pytest.raises(TemplateError, match="no template in a fence"):
        unwrap_reply(reply)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ('```json\n{"template": "What is this?"}\n```', "JSON"),
        ("I'm sorry, but I can't help with that.", "no template"),
        ("<!DOCTYPE html><html></html>", "no template"),
        ("<think>hm\n```\nWhich one?\n```", "no template"),
        ("hm\n```\nWhich one?\n```\n</think>", "no template"),
        ("```\n\n```", "no template"),
        ("```\nHalf a templ", "no template"),
        ("```\na\n```\nor\n```\nb\n```", "2 different blocks"),
    ],
)
def test_what_holds_no_template(reply, words):
    with pytest.raises(TemplateError, match=words):
        unwrap_reply(reply)


PIECES = ["```", "\n", "~~~", "{", "}", "{{", '"', "<think>", "</think>", "x", " "]


@given(st.lists(st.sampled_from(PIECES)).map("".join) | st.text())
def test_any_reply_gives_a_text_or_a_reason(reply):
    try:
        text = unwrap_reply(reply)
    except TemplateError:
        return
    assert text
    assert text == text.strip()
