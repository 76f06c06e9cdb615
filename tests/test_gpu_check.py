"""The check of benchmarks/gpu.sh runs where only its bundle and what the list names are installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
WHEELS = ROOT / "benchmarks" / "gpu-wheels.txt"


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def there():
    """Returns the packages of the bundle and of the machine, with all that these need."""
    lines = WHEELS.read_text(encoding="utf-8").splitlines()
    bundle = {normal(line) for line in lines if not line.startswith("#")}
    comment = " ".join(line.removeprefix("#") for line in lines if line.startswith("#"))
    listed = comment.split("Python 3.12,")[1].replace(" and ", ", ").rstrip(".")
    found = set()
    waiting = [normal(name.strip()) for name in listed.split(",")]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            try:
                needs = [Requirement(text) for text in requires(name) or ()]
            except PackageNotFoundError:
                continue
            waiting += [
                normal(need.name) for need in needs if need.marker is None or need.marker.evaluate()
            ]
    return found | bundle | {"taxtune", "pip", "setuptools"}


def test_what_the_list_leaves_out_is_not_in_the_closure_by_chance():
    assert there().isdisjoint(
        {"litellm", "mlflow", "openai", "nltk", "open-clip-torch", "ray", "lemminflect"}
    )


@pytest.mark.heavy
def test_the_check_needs_nothing_but_the_bundle_and_what_the_list_names(tmp_path):
    allowed = there()
    absent = [
        name
        for name, packages in packages_distributions().items()
        if allowed.isdisjoint(map(normal, packages)) and name.isidentifier()
    ]
    assert "litellm" in absent
    # Python imports this file at the start of each process.
    (tmp_path / "sitecustomize.py").write_text(
        f"import sys\nsys.modules.update(dict.fromkeys({absent!r}))\n"
    )
    path = os.pathsep.join(map(str, (tmp_path, ROOT, ROOT / "benchmarks")))
    command = [sys.executable, ROOT / "benchmarks" / "gpu.py", "--out", tmp_path / "out", "--quick"]
    environment = {**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run([*command, "--steps", "parity", "tuning"], check=True, env=environment, cwd=ROOT)
    figures = json.loads((tmp_path / "out" / "gpu.json").read_text(encoding="utf-8"))
    assert figures["not finished"] == {}
    rough = {name: row for name, row in figures["parity"].items() if "bfloat16" in name}
    for name, row in figures["parity"].items():
        assert row["not cached"] == "", name
        if name not in rough:
            assert [row["batched"], row["kept 1"], row["kept 8"], row["kept 32"]] == [0, 0, 0, 0], (
                name
            )
    assert len(rough) == 2
    assert figures["tuning"]["cpu, float32"]["rows"]
