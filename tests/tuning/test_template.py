from __future__ import annotations

from typing import ClassVar

import jinja2
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from taxtune.errors import TemplateError
from taxtune.tuning import template as module
from taxtune.tuning.template import MAX_RENDERED, MAX_SOURCE, Template
from tests.tuning.templates import SAMPLE, check, render

EMPTY = {"question": "What is it?", "domain": "bird", "ranks": [], "examples": []}


def refusal(source, **settings):
    with pytest.raises(TemplateError) as caught:
        check(source, **settings)
    return str(caught.value)


@pytest.mark.parametrize(
    ("source", "prompt"),
    [
        ("{{ question }}", "What is this an image of?"),
        ("Name the {{ domain|upper }}.", "Name the BIRD."),
        ("{{ ranks | join(', ') }}", "order, family, genus, species"),
        ("{{ ranks | last }} {{ ranks | first }} {{ ranks | length }}", "species order 4"),
        ("{{ ranks[:-1] | reverse | join(' or ') }}", "genus or family or order"),
        ("{{ ranks[-2:] | first | title }}", "Genus"),
        ("{{ examples | sort | join('/') }}", "bird/song sparrow/songbird"),
        ("{{ 'yes' if examples else 'no' }}", "yes"),
        ("{% if domain == 'bird' and not 2 > 3 %}a{% elif ranks %}b{% else %}c{% endif %}", "a"),
        ("{% if 'family' in ranks %}x{% endif %}", "x"),
        ("{% if domain in ['bird', 'car'] %}x{% endif %}", "x"),
        ("{# how to ask #}Ask {{ domain ~ '!' }}", "Ask bird!"),
        ("{% raw %}{{ not a variable }}{% endraw %}", "{{ not a variable }}"),
        ("Format: <answer> & 'quotes' stay.", "Format: <answer> & 'quotes' stay."),
    ],
)
def test_harmless_templates(source, prompt):
    check(source)
    assert render(source, SAMPLE) == prompt


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("{{ ''.__class__ }}", "Line 1"),
        ("{{ ''.__class__ }}", "Getattr '__class__'"),
        ("{{ ranks['__class__'] }}", "only slices"),
        ("{{ ranks|attr('__class__') }}", "filter 'attr'"),
        ("ok\n{% for i in range(10**9) %}x{% endfor %}", "Line 2"),
        ("ok\n{% for i in range(10**9) %}x{% endfor %}", "construct For"),
        ("ok\n{% for i in range(10**9) %}x{% endfor %}", "ranks | join(', ')"),
        ("{{ question.upper() }}", "construct Call"),
        ("{{ 'a' * 10000000 }}", "construct Mul"),
        ("{{ 10 ** 10 ** 10 }}", "construct Pow"),
        ("{{ 1 + 1 }}", "construct Add"),
        ("{{ -question }}", "construct Neg"),
        ("{% include 'a' %}", "construct Include"),
        ("{% extends 'a' %}", "construct Extends"),
        ("{% macro m() %}x{% endmacro %}", "construct Macro"),
        ("{% set x = 1 %}{{ x }}", "construct Assign"),
        ("{% filter upper %}x{% endfilter %}", "construct FilterBlock"),
        ("{% autoescape true %}x{% endautoescape %}", "construct Scope"),
        ("{{ {'a': 1} }}", "construct Dict"),
        ("{{ question|center(100000) }}", "filter 'center'"),
        ("{{ question|replace('a', 'aa') }}", "filter 'replace'"),
        ("{{ ranks|jion }}", "'jion'"),
        ("{{ ranks|jion }}", "Did you mean 'join'"),
        ("{{ question|join('x') }}", "'join' works only on"),
        ("{{ ranks|join('x')|join('x') }}", "'join' works only on"),
        ("{{ ranks|join(ranks|join('x')) }}", "only constants"),
        ("{{ ranks|join(attribute='__class__') }}", "only constants"),
        ("{{ ranks|join('" + "x" * 101 + "') }}", "separator"),
        ("{{ ranks|upper }}", "only on text"),
        ("{{ ranks|upper }}", "Join"),
        ("{{ ranks }}", "list"),
        ("{{ ranks }}", "join"),
        ("{{ ranks | reverse }}", "list"),
        ("{{ ranks | reverse }}", "join"),
        ("{{ (examples or ranks) ~ 'x' }}", "list"),
        ("{{ (examples or ranks) ~ 'x' }}", "join"),
        ("{{ (ranks or 'x') | upper }}", "only on text"),
        ("{{ ranks[domain] }}", "only slices"),
        ("{{ ranks[0] }}", "only slices"),
        ("{{ ranks[0] }}", "first"),
        ("{{ ranks[:question]|join }}", "constant bounds"),
        ("{% if question is sameas(domain) %}x{% endif %}", "construct Test"),
        ("{% if question is sameas(domain) %}x{% endif %}", "{% if ranks %}"),
        ("{{ '" + "x" * 501 + "' }}", "501 characters"),
        ("{{ answer }}", "unknown variable 'answer'"),
        ("{{ answer }}", "question, domain, ranks, examples"),
        ("{{ quesion }}", "unknown variable 'quesion'"),
        ("{{ quesion }}", "Did you mean 'question'?"),
        ("a\nb {{ question }", "Syntax error in line 2"),
        ("{% if x %}", "Syntax error"),
        ("{% if x %}", "endif"),
        ("{{ " + "9" * 5000 + " }}", "cannot be read"),
        ("", "empty"),
        ("{% if false %}x{% endif %}", "empty prompt"),
        ("x" * (MAX_SOURCE + 1), "8,001 characters"),
        ("a\x00b", "U+0000"),
        ("a\ud800b", "U+D800"),
        ('{{ "\\x07" }}', "U+0007"),
        ("{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}", "nested too deeply"),
        ("{{ " + "not " * 1500 + "1 }}", "nested too deeply"),
        ("{{ 1 }}" * 900, "too many parts"),
        ("{{ ranks[9:] | first }}", "cannot be rendered"),
        ("{{ ranks[9:] | first }}", "if ranks else"),
        ("{{ ranks|reverse|length }}", "cannot be rendered"),
        (("{{ ranks|join('" + "x" * 100 + "') }}") * 60, "longer than 16,000"),
    ],
)
def test_refusals_name_the_construct(source, word):
    message = refusal(source)
    assert word in message
    assert len(message) < 400


def test_nothing_is_rendered_before_the_tree_has_been_walked(monkeypatch):
    def explode(*_, **__):
        raise AssertionError("compiled or rendered")

    monkeypatch.setattr(module._ENVIRONMENT, "compile", explode)
    assert "__class__" in refusal("never seen before {{ ''.__class__ }}")
    monkeypatch.setattr(jinja2.Template, "generate", explode)
    assert "For" in refusal("{% for i in range(10**9) %}{% endfor %}")


def test_not_text_is_refused():
    assert "must be text" in refusal(None)


class TestVariables:
    def test_render_uses_the_given_values_only(self):
        assert render("{{ domain }}", {"domain": "car"}) == "car"
        with pytest.raises(TemplateError, match=r"cannot be rendered.*'question' is undefined"):
            render("{{ question }}", {"domain": "car"})

    @pytest.mark.parametrize(
        ("variables", "words"),
        [
            ({"place": 5j}, "'place' must be text or a number"),
            ({"tags": [1]}, "'tags' must be a list of text"),
            ({"notes": "x" * 2001}, "'notes' is too long"),
            ({"domain": 5}, "'domain' must be text"),
            ({"ranks": "species"}, "'ranks' must be a list of text"),
            ({"examples": [1]}, "'examples' must be a list of text"),
            ({"ranks": ["x"] * 33}, "'ranks' is too long"),
            (
                {"ranks": ["x" * 1001] * 2},
                "'ranks' is too long: at most 2,000 characters in 32 items",
            ),
            ({"question": "x" * 2001}, "'question' is too long"),
        ],
    )
    def test_wrong_values_are_named(self, variables, words):
        with pytest.raises(TemplateError, match=words):
            render("x", variables)

    def test_the_sample_decides_whether_a_template_renders(self):
        check("{{ ranks | last }}")
        message = refusal("{{ ranks | last }}", samples=[EMPTY])
        assert "cannot be rendered" in message
        assert "may be empty; write {{ ranks | last if ranks else domain }}." in message
        check("{{ ranks | last if ranks else 'kind' }}", samples=[EMPTY])
        check("{{ ranks | last | default('kind') }}", samples=[EMPTY])

    def test_values_are_not_rendered_again(self):
        assert render("{{ question }}", {"question": "{{ domain }}"}) == "{{ domain }}"


class TestVariablesOfAnImage:
    HERE: ClassVar = {**SAMPLE, "place": "marsh", "month": 5, "seen": ["coot", "heron"]}
    UNKNOWN: ClassVar = {**SAMPLE, "place": None, "month": None, "seen": []}

    @pytest.mark.parametrize(
        ("source", "here", "unknown"),
        [
            (
                "{% if place %}At the {{ place }}{% else %}Somewhere{% endif %}.",
                "marsh.",
                "Somewhere.",
            ),
            ("Taken at {{ place | default('some place') | upper }}.", "MARSH.", "SOME PLACE."),
            ("{{ 'Summer' if 4 < month < 9 else 'Any time' }}.", "Summer.", "Any time."),
            ("Month {{ month }}, {{ place ~ '!' }}", "Month 5, marsh!", "Month , !"),
            ("Others: {{ seen[:1] | join(', ') }}.", "Others: coot.", "Others: ."),
        ],
    )
    def test_what_is_missing_is_empty_and_compares_with_nothing(self, source, here, unknown):
        check(source, samples=[self.HERE, self.UNKNOWN])
        assert render(source, self.HERE).endswith(here)
        assert render(source, self.UNKNOWN).endswith(unknown)
        refusal(source)

    def test_a_template_must_render_for_every_image(self):
        both = [self.HERE, self.UNKNOWN]
        assert "cannot be rendered" in refusal("{{ seen | first }}", samples=both)
        assert "cannot be printed" in refusal("{{ seen }}", samples=[self.HERE])

    def test_a_repeat_is_the_same_for_every_image(self):
        earlier = ["Name it."]
        again = "Name it{% if place %} at {{ place }}{% endif %}."
        check(again, earlier=earlier, samples=[self.UNKNOWN, self.HERE])
        assert "same prompt" in refusal(again, earlier=earlier, samples=[self.UNKNOWN])

    def test_labels_come_through_variables_of_any_image_and_not_beside_them(self):
        samples = [self.UNKNOWN, self.HERE]
        labels = ["coot", "marsh tit", "heron"]
        check("Not {{ seen | join(' or ') }}?", forbidden=labels, samples=samples)
        hidden = "Name it{% if place %}, a {{ 'marsh' ~ ' tit' }}{% endif %}."
        assert "'marsh tit'" in refusal(hidden, forbidden=labels, samples=samples)
        pieces = "Name it{% if seen %}, a {{ 'co' ~ 'ot' }}{% endif %}."
        assert "'coot'" in refusal(pieces, forbidden=labels, samples=samples)

    def test_values_are_data(self):
        values = {**SAMPLE, "notes": "{{ question }} {% if x %}"}
        assert render("{{ notes }}", values) == values["notes"]


class TestRepeats:
    @pytest.mark.parametrize("again", ["Name  the {{domain}}.\n", " Name the {{ domain }}."])
    def test_white_space_makes_no_difference(self, again):
        assert Template.parse(again).key == Template.parse("Name the {{ domain }}.").key
        assert "repeats" in refusal(again, earlier=["x", "Name the {{ domain }}."])

    def test_white_space_that_is_taken_away_makes_a_difference(self):
        trimmed = Template.parse("Name\nthe {{-domain }}.")
        assert trimmed.key != Template.parse("Name the {{ domain }}.").key

    def test_the_same_prompt_from_another_source(self):
        earlier = ["Name the {{ domain }}."]
        assert "same prompt" in refusal("Name the bird.", earlier=earlier)
        check("Name the bird.", earlier=earlier, samples=[{**SAMPLE, "domain": "car"}])

    def test_white_space_that_a_prompt_shows_makes_no_difference_either(self):
        earlier = ["Ranks: {{ ranks | join(' ') }}."]
        lines = "Ranks: {{ ranks | join('\\n') }}."
        assert "same prompt" in refusal(lines, earlier=earlier)
        hidden = "Ranks:{{ ' ' }}\u200b{{ ranks | join(' ') }}."
        assert "same prompt" in refusal(hidden, earlier=earlier)
        assert "repeats" in refusal("Name it.\u200b", earlier=["Name it."])

    def test_case_and_words_make_a_difference(self):
        check("Name the Bird!", earlier=["Name the bird!", "{{ broken", ""])


class TestLabels:
    LABELS = (
        "Turdus merula",
        "blackbird",
        "blue jay",
        "ant",
        "bee",
        "wolf",
        "goose",
        "fly",
        "Müller's finch",
        "osprey",
        "Grey Heron",
    )

    @pytest.mark.parametrize(
        ("source", "named"),
        [
            ("Is it a Blackbird?", "blackbird"),
            ("Not blackbirds!", "blackbirds"),
            ("turdus MERULA", "turdus merula"),
            ("Turdus\n merula", "turdus merula"),
            ("a blue-jay", "blue jay"),
            ("Blue jays", "blue jays"),
            ("wolves", "wolves"),
            ("geese", "geese"),
            ("flies", "flies"),
            ("bees", "bees"),
            ("Mullers finches", "mullers finches"),
            ("black\u200bbird", "blackbird"),
            ("ｂｌａｃｋｂｉｒｄ", "blackbird"),
            ("{{ 'blackbird' }}", "blackbird"),
            ("{{ 'black' ~ 'bird' }}", "blackbird"),
            ("black{{ domain }}", "blackbird"),
            ("{{ 'DRIBKCALB' | lower }} os{# #}prey", "osprey"),
            ("{% if domain == 'osprey' %}x{% else %}y{% endif %}", "osprey"),
            ("x {# osprey #}", "osprey"),
            # disguises
            ("BlueJays", "bluejays"),
            ("turdusmerula", "turdusmerula"),
            ("an os-prey", "osprey"),
            ("an o s p r e y here", "osprey"),
            ("o-s-p-r-e-y", "osprey"),
            ("{{ 'os-' ~ 'prey' }}", "osprey"),
            ("an \u043espr\u0435y", "osprey"),
            ("a gray heron", "gray heron"),
        ],
    )
    def test_named_labels_are_refused(self, source, named):
        message = refusal(source, forbidden=self.LABELS)
        assert f"'{named}'" in message
        assert "ground-truth label" in message

    @pytest.mark.parametrize(
        "source",
        [
            "Look at the plant, be exact.",  # ant, bee
            "Name the bird. A jay or a black bird is blue.",
            "Turdus is a genus.",
            "merula turdus",
            "Flying as this does",
            "a b c d or e",
            "A well-known bird, semi-aquatic.",
            "Black-and-white or bird-like",
        ],
    )
    def test_other_words_are_not(self, source):
        check(source, forbidden=self.LABELS)

    def test_a_label_may_come_through_a_variable_but_not_beside_it(self):
        sample = {**SAMPLE, "examples": ["bird", "osprey"]}
        check("Such as {{ examples | join(', ') }}.", forbidden=self.LABELS, samples=[sample])
        assert "'osprey'" in refusal("Such as an osprey.", forbidden=self.LABELS, samples=[sample])

    def test_labels_without_words_are_no_labels(self):
        check("Anything.", forbidden=["", "?!", "  "])


BLOCKS = [
    "{{ ",
    " }}",
    "{% for r in ranks %}",
    "{% for e in examples %}",
    "{% endfor %}",
    "{% if ranks %}",
    "{% else %}",
    "{% endif %}",
    "{% set x = ",
    "%}",
    "{% raw %}",
    "{% endraw %}",
    "{#",
    "#}",
]
VALUES = [
    "text",
    "xxxxxxxxxxxxxxxx",
    "\n",
    "question",
    "domain",
    "ranks",
    "examples",
    "loop.index",
    "r",
    "e",
    "'a'",
    "99",
    "1e308",
    "range(9)",
    "'",
]
FILTERS = [
    "|join(', ')",
    "|join",
    "|upper",
    "|first",
    "|reverse",
    "|length",
    "|default('x')",
    "|unique",
    "|sort",
]
OPERATORS = [
    "[0]",
    "[:-1]",
    "['a']",
    ".__class__",
    ".format",
    "(",
    ")",
    "()",
    "[",
    "]",
    ",",
    "*",
    "**",
    "~",
    "+",
    "-",
    " in ",
    " == ",
    " not ",
    " if ",
    " else ",
    " or ",
    " is defined",
    " recursive ",
]
PIECES = [*BLOCKS, *VALUES, *FILTERS, *OPERATORS]
SOURCES = st.lists(st.sampled_from(PIECES), max_size=40).map("".join) | st.text(max_size=200)
LARGE = {
    "question": "q" * 2000,
    "domain": "d" * 2000,
    "ranks": ["r" * 62] * 32,
    "examples": ["e"] * 32,
}


def refused_or_within_bounds(source):
    for values in (LARGE, SAMPLE, EMPTY):
        try:
            check(source, samples=[values])
        except TemplateError:
            continue
        prompt = render(source, values)
        assert 0 < len(prompt) <= MAX_RENDERED
        assert " object at 0x" not in prompt


@settings(max_examples=400, deadline=None)
@given(SOURCES)
@example("{{ question" + " ~ question" * 300 + " }}")
@example("{{ " + "[" * 500 + "]" * 500 + " }}")
def test_any_source_is_either_refused_with_a_reason_or_renders_within_bounds(source):
    refused_or_within_bounds(source)


@pytest.mark.heavy
@settings(max_examples=20_000, deadline=None)
@given(SOURCES)
def test_so_do_20000_sources(source):
    refused_or_within_bounds(source)


expressions = st.recursive(
    st.sampled_from(
        ["question", "domain", "ranks", "examples", "'a'", "1", "true", "ranks[1:]", "examples[:2]"]
    ),
    lambda inner: st.one_of(
        inner.map(lambda a: f"({a}|join('-'))"),
        inner.map(lambda a: f"({a}|upper)"),
        inner.map(lambda a: f"({a}|first)"),
        inner.map(lambda a: f"({a}|reverse)"),
        inner.map(lambda a: f"(not {a})"),
        st.tuples(inner, inner).map(lambda p: f"({p[0]} ~ {p[1]})"),
        st.tuples(inner, inner).map(lambda p: f"({p[0]} == {p[1]})"),
        st.tuples(inner, inner, inner).map(lambda p: f"({p[0]} if {p[1]} else {p[2]})"),
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(expressions)
def test_expressions_that_pass_give_what_plain_jinja_gives(expression):
    source = f"x {{{{ {expression} }}}}"
    try:
        prompt = render(source, SAMPLE)
    except TemplateError:
        return
    assert prompt == jinja2.Template(source).render(**SAMPLE).strip()
