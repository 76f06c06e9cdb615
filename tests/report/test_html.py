from __future__ import annotations

import base64
import hashlib
import html
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from taxtune.errors import DataError
from taxtune.report.gallery import small_jpeg
from taxtune.report.html import render_report, save_report
from taxtune.tuning.records import Provenance, Turn
from tests.report import samples
from tests.rows import changed_row
from tests.tuning.toy import toy, tuned

VOID = {"meta", "img", "input", "br", "path", "use"}


class Checker(HTMLParser):
    """Collects elements, attributes and what is not closed in order."""

    def __init__(self):
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.wrong: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def check(page):
    checker = Checker()
    checker.feed(page)
    assert checker.wrong == []
    assert checker.open == []
    return checker


@pytest.fixture(scope="module")
def page():
    return render_report(samples.comparison(9))


def text(page):
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


class Tables(HTMLParser):
    """The tables of a page: their caption, and their rows as lists of cells."""

    def __init__(self):
        super().__init__()
        self.tables: list[tuple[str, list[list[str]]]] = []
        self._in: str | None = None

    def handle_starttag(self, tag, attrs):
        if tag == "table":
            self.tables.append(("", []))
        elif tag == "tr" and self.tables:
            self.tables[-1][1].append([])
        elif tag in ("td", "th") and self.tables:
            self.tables[-1][1][-1].append("")
        if tag in ("caption", "td", "th", "small"):
            self._in = tag

    def handle_endtag(self, tag):
        if tag in ("caption", "td", "th", "small"):
            self._in = None

    def handle_data(self, data):
        if self._in == "caption":
            self.tables[-1] = (self.tables[-1][0] + data, self.tables[-1][1])
        elif self._in in ("td", "th"):
            self.tables[-1][1][-1][-1] += data


def test_it_needs_nothing_from_elsewhere_and_runs_its_own_script_alone(page):
    checker = check(page)
    tags = {tag for tag, _ in checker.elements}
    assert tags.isdisjoint({"link", "iframe", "object", "embed", "base", "form"})
    for _, attributes in checker.elements:
        assert not any(name.startswith("on") for name in attributes)
        for name in ("src", "href", "xlink:href"):
            value = attributes.get(name) or "#"
            assert value.startswith(("#", "data:image/"))
    assert "@import" not in page
    (policy,) = [found["content"] or "" for tag, found in checker.elements if "http-equiv" in found]
    assert policy.startswith("default-src 'none';")
    assert [attributes for tag, attributes in checker.elements if tag == "script"] == [{}]
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.S)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy


def test_each_mark_of_the_plane_leads_to_its_prompt_in_the_page(page):
    elements = check(page).elements
    marks = {}
    for tag, attributes in elements:
        if tag == "a" and "aria-label" in attributes:
            marks[attributes["href"]] = attributes["aria-label"]
    ids = {f"#{attributes['id']}" for _, attributes in elements if "id" in attributes}
    assert len(marks) == 2 * 9, "two runs of ten iterations, one of which failed"
    assert marks.keys() <= ids
    assert marks["#iteration-2-3"].startswith("Iteration 3: {{ question }} Try 3: say only")
    said = text(page)
    assert "Iteration 3, tuning for accuracy" in said
    assert "hP 0.8" in said.partition("Iteration 3, tuning for accuracy")[2][:200]
    assert "failed: three replies in a row were refused" in said
    assert ".html#" not in page


def test_what_a_model_wrote_stays_text():
    run = samples.tune(n=2)
    nasty = replace(
        run.iterations[1],
        template=samples.HOSTILE,
        rejected=(("</pre><img src=x onerror=alert(1)>", "<tt>because</tt>"),),
        trace=(Turn("<em>look</em>", "<tt>at</tt>", "</pre><iframe src='//x'>"),),
        reason="<iframe src='//x'>",
        parameters={"<i>a</i>": "<u>b</u>"},
    )
    baseline, winner = run.heldout
    # The hostile answer is the one that changed most.
    before = changed_row(baseline.rows[0], hp=0.2, hr=0.2)
    image = '"><svg onload=x>.png'
    after = changed_row(winner.rows[0], hp=1.0, hr=1.0, placement="bird/<marquee>/x", image=image)
    baseline = replace(baseline, rows=(before,))
    winner = replace(winner, rows=(after,), template=samples.HOSTILE)
    result = replace(
        run,
        iterations=(run.iterations[0], nasty),
        winner=1,
        heldout=(baseline, winner),
        name="<em>run</em>",
        provenance=Provenance({"Model": {"<s>": "</dl><script>"}}, "</pre><script>", "run", {}),
    )
    page = render_report(result)
    tags = [tag for tag, _ in check(page).elements]
    assert tags.count("script") == 1
    assert set(tags).isdisjoint({"iframe", "marquee", "img", "tt", "i", "u", "em", "s"})
    assert "<script>alert('x')</script>" in text(page)
    assert page.count("&lt;script&gt;alert(&#39;x&#39;)") >= 3


NOT_HELD_OUT = replace(samples.tune(n=1), heldout=(), differences=())


@pytest.mark.parametrize(
    "result",
    [
        NOT_HELD_OUT,
        replace(samples.tune(n=1), winner=0),
        replace(NOT_HELD_OUT, iterations=(samples.iteration(0, state="void"),)),
    ],
)
def test_poor_runs_have_a_report_too(result):
    check(render_report(result))


def test_a_page_is_not_replaced_by_one_that_lacks_its_pictures(tmp_path):
    result = tuned(toy(tmp_path))
    page = save_report(result).read_text()
    assert page.count("data:image/jpeg;") > 0
    assert save_report(result).read_text() == page
    for file in (tmp_path / "in").glob("*.png"):
        file.unlink()
    small_jpeg.cache_clear()
    with pytest.raises(DataError, match=r"would lose .* pictures") as caught:
        save_report(result)
    assert "--out" in str(caught.value)
    assert (tmp_path / "run" / "report.html").read_text() == page
    other = save_report(result, tmp_path / "other.html")
    assert other.read_text().count("data:image/jpeg;") == 0
