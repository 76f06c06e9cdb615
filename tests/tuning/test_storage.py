"""A run whose history is in a server's database, from a recipe."""

from __future__ import annotations

from pathlib import Path

import pytest

from taxtune.audit.subject import run_settings
from taxtune.errors import ResumeError
from tests.databases import postgresql
from tests.tuning.toy import ToyVLM, make_parts, tuned


def test_machines_share_a_run_on_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    once = ToyVLM()
    alone = tuned(make_parts(tmp_path / "in", tmp_path / "alone", once), tmp_path / "alone")
    with postgresql() as server:
        url = server.url
        monkeypatch.setenv("SECRET", "unused")
        settings = (f"storage={url.replace(':unused@', ':${SECRET}@')}", "iterations=3")
        one, two = tmp_path / "one", tmp_path / "two"
        first, vlm = ToyVLM(), ToyVLM()
        tuned(make_parts(tmp_path / "in", one, first, settings), one)
        with pytest.raises(ResumeError, match=r"already holds a tuning run called 'toy-hp'"):
            tuned(make_parts(tmp_path / "in", two, vlm, settings), two)
        session = make_parts(tmp_path / "in", two, vlm, (settings[0],))
        result = tuned(session, two, resume=True)
        assert [r.template for r in result.iterations] == [r.template for r in alone.iterations]
        assert [r.scores for r in result.iterations] == [r.scores for r in alone.iterations]
        assert result.heldout[1].scores == alone.heldout[1].scores
        assert first.asked == 8 * 4 + 2 * 12
        # The baseline and the winner on the held-out images, if it is the same one, were answered by the other machine.
        assert first.asked + vlm.asked <= once.asked + 12, "no question is asked again by another machine"
        assert not list(tmp_path.glob("*/answers.db")), "the answers are where the history is"
    assert run_settings(two)["recipe.seed"] == 3, "what a run was made from is known without the server"
    written = [file for file in tmp_path.rglob("*") if file.is_file() and file.suffix not in {".db", ".png"}]
    assert not any("unused" in file.read_text(encoding="utf-8") for file in written), "no password in any file"
