"""The fragments that taxtune's templates are made of."""

from __future__ import annotations

from collections.abc import Iterator

import yaml
from jinja2 import Environment

from fieldguide.phrasing import load_phrasings
from taxtune.resources import prompts_dir

__all__ = ["fragment_texts", "held_out_fragments"]


def fragment_texts() -> dict[tuple[str, str], str]:
    """Returns the source of each fragment by slot and choice."""
    file = prompts_dir() / "fragments" / "default.yaml"
    table = yaml.safe_load(file.read_text(encoding="utf-8"))
    texts = {}
    for slot in table["slots"]:
        for choice in slot["choices"]:
            texts[slot["id"], choice["id"]] = choice["text"]
    return texts


def held_out_fragments() -> Iterator[tuple[str, str, str]]:
    """Yields slot, choice and text of the fragments that are kept out of training."""
    texts = fragment_texts()
    for slot, choices in load_phrasings()["fragments"]["held_out"].items():
        for choice in choices:
            template = Environment().from_string(texts[slot, choice])
            yield slot, choice, template.render(domain="bird", ranks=["family", "species"])
