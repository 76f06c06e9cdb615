"""The report in a browser: what its script does, that nothing breaks the policy, and that it fits a phone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PIL import Image

from taxtune.report.html import render_report
from taxtune.tuning.records import Provenance
from tests.report import samples
from tests.rows import changed_row


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    result = samples.comparison(3)
    hostile = '</script><script>document.title="x"</script>"><img src="https://example.org/x.png" onerror="alert(1)">'
    first, *others = result.heldout
    rows = (
        changed_row(first.rows[0], answer=hostile, image=hostile, stage="similarity"),
        *first.rows[1:],
    )
    held = [
        replace(each, rows=(changed_row(each.rows[0], answer=hostile), *each.rows[1:]))
        for each in others
    ]
    Image.new("RGB", (64, 48), (90, 120, 60)).save(folder / "a.png")
    images = {row.example: str(folder / "a.png") for row in first.rows}
    result = replace(
        result,
        name=hostile,
        heldout=(replace(first, rows=rows), *held),
        provenance=Provenance(images=images),
    )
    (folder / "report.html").write_text(render_report(result), "utf-8")
    return (folder / "report.html").as_uri()


@pytest.fixture
def complaints():
    return []


@pytest.fixture
def open_page(browser, complaints):
    """Opens pages in a new context and checks at the end that none complained or asked the network."""
    contexts = []

    def opened(address, **options):
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda asked: asked.url.startswith(("data:", "file:")) or complaints.append(asked.url),
        )
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def cards(page):
    return int(page.locator("ul.gallery > li:visible").count())


def count(page):
    return str(page.locator(".count").inner_text())


@pytest.mark.heavy
def test_a_filter_chooses_counts_and_stays_in_the_address(open_page, report):
    page = open_page(report)
    assert (cards(page), count(page)) == (200, "200 of 200 images.")
    change = page.locator("select[name=change]")
    option = change.locator("option[value='exact → right, but general']").inner_text()
    change.select_option("exact → right, but general")
    assert option == f"exact → right, but general ({cards(page)})"
    assert (
        count(page)
        == f"{cards(page)} of 200 images (template: hP-tuned; change: exact → right, but general)."
    )
    first = cards(page)
    page.locator("select[name=template]").select_option("1")
    assert (
        count(page)
        == f"{cards(page)} of 200 images (template: accuracy-tuned; change: exact → right, but general)."
    )
    assert cards(page) != first
    again = open_page(page.url)
    assert (cards(again), count(again)) == (cards(page), count(page))
    again.get_by_role("button", name="Show all").click()
    assert (cards(again), again.evaluate("location.hash")) == (200, "#gallery?template=1")


@pytest.mark.heavy
def test_a_number_of_the_first_screen_leads_to_its_images(open_page, report):
    page = open_page(report)
    for template in range(2):
        total = 0
        for link in page.locator(f"a[data-template='{template}']").all():
            link.click()
            assert int(link.inner_text()) == cards(page)
            assert count(page).startswith(f"{cards(page)} of 200 images (template: ")
            total += cards(page)
        assert total == 200
    page.locator("a[data-error='exact']").first.click()
    assert page.evaluate(
        "document.getElementById('gallery').getBoundingClientRect().top"
    ) == pytest.approx(0, abs=2)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.name") == "template"


def test_without_scripts_everything_is_there(open_page, report):
    page = open_page(report, java_script_enabled=False)
    assert (cards(page), count(page)) == (200, "200 images.")
    assert not page.locator(".filters").is_visible()


def test_a_hostile_answer_stays_text(open_page, report):
    page = open_page(report)
    assert "</script><script>" in page.title()
    assert page.locator("script").count() == 1
    assert page.locator("img:not([src^='data:'])").count() == 0
    page.locator("input[name=text]").fill("</script>")
    assert cards(page) == 1


@pytest.mark.parametrize("scripts", [True, False])
def test_a_mark_of_the_plane_shows_its_prompt(open_page, report, scripts):
    page = open_page(report, java_script_enabled=scripts)
    assert page.locator(".chosen:visible").count() == 0
    mark = page.locator(".plane svg a[href='#iteration-1-2']")
    assert "Try 2: say only" in mark.get_attribute("aria-label")
    mark.focus()
    page.keyboard.press("Enter")
    assert "Try 2: say only" in page.locator(".chosen:visible").inner_text()
    page.get_by_role("link", name="read all").click()
    assert page.locator(".chosen:visible").count() == 8


@pytest.mark.heavy
def test_a_row_of_confused_groups_leads_to_its_images(open_page, report):
    page = open_page(report)
    for link in page.locator("table.pairs a").all():
        row = link.locator("xpath=ancestor::tr")
        counts = [int(cell) for cell in row.locator("td").all_inner_texts()[1:-1]]
        link.click()
        assert 0 < cards(page) <= 200
        if link.locator("xpath=ancestor::th").count():
            assert max(counts) <= cards(page) <= sum(counts)
        chosen = page.locator("select[name=confused] option:checked").inner_text()
        assert chosen.endswith(f"({cards(page)})")


def test_nothing_is_wider_than_a_phone(open_page, report):
    page = open_page(report, viewport={"width": 390, "height": 800})
    page.get_by_role("link", name="read all").click()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
