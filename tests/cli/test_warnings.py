"""No warning of a library reaches a user: the documented commands in a process of their own, with Python's filters."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from taxtune.fieldguide import export

#: The commands of the README and the tutorials, on fewer images and templates.
SMALL = "--set data.tuning=12 --set data.first_rung=null --set data.heldout=12 --set iterations=1"
COMMANDS = f"""
taxonomy check tree.csv
init birds.yaml --data photos --taxonomy tree.csv --model builtin:fieldguide
tune birds.yaml --dry-run
tune birds.yaml {SMALL}
tune birds.yaml {SMALL} --resume
tune birds.yaml {SMALL} --set policy.kind=posterior --out runs/posterior
compare fieldguide --objective hr_at_hp --objective accuracy {SMALL}
evaluate birds.yaml --template runs/birds/winner.j2 {SMALL}
classify runs/birds new-photos/00300.png --out labels.csv
calibrate runs/birds --risk 0.9 --samples 2 --images 12
report runs/birds
audit runs/birds
place --taxonomy tree.csv answers.txt
score --taxonomy tree.csv predictions.csv
score measure -m rouge-1 -m cider --reference-column truth predictions.csv
score diagnose -t tree.csv predictions.csv
calibrate scores.csv -t tree.csv --truth labels-of-scores.csv --risk 0.4
classify calibration.json scores.csv --out new-labels.csv
recipes
"""
RUN = """
import shlex, sys
from taxtune.cli import main

for line in sys.stdin.read().splitlines():
    sys.argv = ["taxtune", *shlex.split(line)]
    print("$", *sys.argv, file=sys.stderr, flush=True)
    try:
        main()
    except SystemExit as end:
        assert not end.code, end.code
"""


@pytest.fixture
def folder(tmp_path):
    """What the commands read: drawn birds, answers about them, and a classifier's scores."""
    export(tmp_path)
    birds = ["Chaffinch", "Pica pica", "finch"] * 20
    (tmp_path / "answers.txt").write_text("\n".join(birds))
    rows = [f"{i}.png,{bird}" for i, bird in enumerate(birds)]
    answered = [f"{row},A: a {bird}." for row, bird in zip(rows, birds, strict=True)]
    (tmp_path / "predictions.csv").write_text("\n".join(["image,truth,answer", *answered]))
    (tmp_path / "labels-of-scores.csv").write_text("\n".join(["image,label", *rows]))
    (tmp_path / "scores.csv").write_text(
        "\n".join(["image,label,score", *(f"{row},0.9" for row in rows)])
    )
    return tmp_path


@pytest.mark.heavy
@pytest.mark.timeout(1200)
def test_no_documented_command_shows_a_librarys_warning(folder):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        cwd=folder,
        env=environment,
        input=COMMANDS.strip(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    said = [line for line in done.stderr.splitlines() if "Warning" in line or "deprecated" in line]
    assert not said, said
