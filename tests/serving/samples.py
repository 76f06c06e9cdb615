"""Classifiers to serve: a toy in this process, and the field guide's own, saved to a folder."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from taxtune.classifier import Classifier
from taxtune.fieldguide import MANIFEST_FILE
from taxtune.recipe import load_recipe
from taxtune.serving.app import make_app
from taxtune.serving.pyfunc import ServedClassifier
from taxtune.tuning.build import build, make_mapper, make_taxonomy, make_vlm
from tests.tuning.templates import render
from tests.tuning.toy import ToyVLM, make_parts

#: A bird of the field guide.
BIRD = MANIFEST_FILE.parent / "images" / "00000.png"


def toy(folder: Path, vlm: Any = None, **changes: Any) -> Classifier:
    """Returns a classifier of coloured squares; the squares are in `folder`."""
    parts = build(make_parts(folder, folder / "run", vlm or ToyVLM()))
    mapper = changes.pop("mapper", parts.mapper)
    return Classifier(
        "What is this?", parts.taxonomy, parts.vlm, mapper, name="toy & co", **changes
    )


def site_of(classifier: Classifier, host: str = "127.0.0.1") -> Any:
    """Returns a client of the server of a classifier, in this process."""
    from starlette.testclient import TestClient

    app = make_app(ServedClassifier(classifier, content_only=True), f"http://{host}:8000")
    return TestClient(app, base_url=f"http://{host}:8000", raise_server_exceptions=True)


def save_field_guide(folder: Path) -> Path:
    """Saves a classifier of the field guide and returns its folder."""
    recipe = load_recipe("fieldguide")
    tree, _ = make_taxonomy(recipe)
    prompt = render(recipe.prompt.baseline, recipe.prompt.variables)
    model, mapper = make_vlm(recipe), make_mapper(recipe, tree)
    classifier = Classifier(prompt, tree, model, mapper, recipe=recipe, name="birds")
    return classifier.save(folder / "classifier")


def in_base64(file: Path) -> str:
    """Returns a file's content as a request has it."""
    return base64.b64encode(file.read_bytes()).decode("ascii")
