"""The benchmarks run as `make bench` calls them, on less."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.mark.parametrize(
    ("script", "arguments", "said"),
    [
        ("build.py", ["--nodes", "1500"], "read back: identical"),
        ("mapper.py", ["--texts", "20", "--timed", "3"], "identical placements 3 of 3"),
        ("metrics.py", ["--pairs", "2000", "--repeats", "1"], "identical values"),
    ],
)
def test_a_benchmark_runs_without_data(script: str, arguments: list[str], said: str) -> None:
    command = [sys.executable, str(BENCHMARKS / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
