"""What the report and the summary say of a mapper's audits."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from taxtune.audit.population import Item, Population, digest
from taxtune.audit.result import Audited, AuditFiles, make_report, write_result
from taxtune.audit.sampling import Drawn
from taxtune.audit.verdicts import Finding, Verdict
from taxtune.report.audited import audit_sentences, refresh_report
from taxtune.report.html import render_report
from taxtune.taxonomy import Taxonomy
from taxtune.tuning.records import HeldoutResult, TuneResult
from tests.report import samples


def said(held: HeldoutResult) -> list[tuple[str, str, str]]:
    return [(str(r.answer), str(r.placement), str(r.stage)) for r in held.rows if r.answer is not None]


def write_audit(folder: Path, held: HeldoutResult, *findings: Finding | None, stem: str = "audit") -> None:
    """Writes the audit of a template's answers, of which those that have no finding have no verdict."""
    paths = list(dict.fromkeys(path for _, path, _ in said(held)))
    tree = Taxonomy(["x", *paths], [-1, *([0] * len(paths))])
    items = tuple(Item(answer, 1, 1 + paths.index(path), stage) for answer, path, stage in said(held))

    class Stub(Population):
        def path(self, item: Item) -> str:
            return paths[item.node - 1]

    people = Stub("run, winner, held-out", tree, items, {})
    verdicts = [*findings, *[None] * (len(items) - len(findings))]
    sample = [Drawn(i, 0, 1.0) for i in range(len(items))]
    result = Audited(people, sample, verdicts, "a person", 60, 0)
    write_result(AuditFiles(folder, stem), result, make_report(result))


def tuned(folder: Path) -> TuneResult:
    return replace(samples.tune(), folder=str(folder))


def test_a_run_without_an_audit_says_how_to_make_one(tmp_path: Path) -> None:
    folder = tmp_path / "my run"
    assert audit_sentences(tuned(folder)) == [f"Not audited: run taxtune audit '{folder}'"]


def test_an_audit_of_the_runs_own_placements_is_told(tmp_path: Path) -> None:
    result = tuned(tmp_path)
    n = len(said(result.heldout[1]))
    findings = [Finding(Verdict.RIGHT)] * (n - 2) + [Finding(Verdict.WRONG)]
    write_audit(tmp_path, result.heldout[1], *findings)
    sentence = audit_sentences(result)[0]
    assert sentence.startswith(f"Audited by a person: of the {n} held-out answers to the winner template, {n - 1} ")
    assert "(1 more drawn, without a verdict)" in sentence
    assert f"Placed right: {(n - 2) / (n - 1):.3f} of all answers (95 % interval " in sentence
    assert sentence in render_report(result)


def test_an_audit_of_other_placements_does_not_count(tmp_path: Path) -> None:
    result = tuned(tmp_path)
    winner = result.heldout[1]
    other = replace(winner, rows=(replace(winner.rows[0], placement="bird"), *winner.rows[1:]))
    write_audit(tmp_path, other, Finding(Verdict.RIGHT))
    assert audit_sentences(result)[0].startswith("The audit is of other answers or placements")
    # Neither does one without a verdict, nor what is not an audit.
    write_audit(tmp_path, winner)
    assert audit_sentences(result)[0].startswith("Not audited")
    (tmp_path / "audit.json").write_text("nonsense")
    assert audit_sentences(result) == ["audit.json cannot be read as an audit."]


def test_a_report_is_brought_up_to_date_in_its_place(tmp_path: Path) -> None:
    result = tuned(tmp_path)
    report = tmp_path / "report.html"
    report.write_text(render_report(result), encoding="utf-8")
    before = report.read_text("utf-8")
    write_audit(tmp_path, result.heldout[1], *[Finding(Verdict.RIGHT)] * len(said(result.heldout[1])))
    held = {digest((*row, 1) for row in said(each)): each.name for each in result.heldout}
    assert refresh_report(tmp_path, held)
    after = report.read_text("utf-8")
    assert "Audited by a person" in after
    assert after.split("<!-- /audit -->")[1] == before.split("<!-- /audit -->")[1]
    record = json.loads((tmp_path / "audit.json").read_text())
    (tmp_path / "audit.json").write_text(json.dumps({**record, "judge": "<script>x</script>"}))
    refresh_report(tmp_path, held)
    assert "<script>x" not in report.read_text("utf-8")
    report.write_text("an old report")
    assert not refresh_report(tmp_path, held)
    assert report.read_text() == "an old report"
