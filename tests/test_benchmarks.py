"""The benchmarks run as `make bench` calls them, on less."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.mark.parametrize(
    ("script", "arguments", "said"),
    [
        ("build.py", ["--nodes", "1500"], "read back: identical"),
        ("mapper.py", ["--texts", "20", "--timed", "3"], "identical placements 3 of 3"),
        ("policies.py", ["--draws", "3"], "the baseline, 16 answers"),
        ("metrics.py", ["--pairs", "2000", "--repeats", "1"], "identical values"),
    ],
)
def test_a_benchmark_runs_without_data(
    script: str, arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [script, *arguments])
    runpy.run_path(str(BENCHMARKS / script), run_name="__main__")
    assert said in capsys.readouterr().out
