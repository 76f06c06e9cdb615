"""The demonstrations that a judge is shown, read from YAML and checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from taxtune.errors import DataError

__all__ = ["Demonstration", "read_demonstrations"]

_KEYS = ("question", "references", "answer", "caption", "rationale", "rating")


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A rated answer.

    Attributes:
        question: What was asked.
        references: The answers that people gave, duplicates included.
        answer: The candidate answer.
        rationale: Why it has its rating, in a sentence.
        rating: 1, 2 or 3.
        caption: A description of the image, shown where the judge is shown captions; None for none.
    """

    question: str
    references: tuple[str, ...]
    answer: str
    rationale: str
    rating: int
    caption: str | None = None


def read_demonstrations(path: Path) -> tuple[Demonstration, ...]:
    """Reads a YAML list of demonstrations: question, references, answer, rationale, rating and maybe caption.

    Raises:
        DataError: If the file cannot be read, a key is unknown or missing, or a value is not what it must be; YAML's
            bare yes and no, which are read as true and false, are named.
    """
    import yaml

    from taxtune.recipe_file import load_yaml

    try:
        entries = load_yaml(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        detail = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise DataError(f"The demonstrations cannot be read: {detail}.", file=path) from error
    if not isinstance(entries, list) or not entries:
        raise DataError(
            "The demonstrations are no list.", file=path, remedy=f"Each demonstration needs {', '.join(_KEYS)}."
        )
    return tuple(_demonstration(entry, place, path) for place, entry in enumerate(entries, 1))


def _demonstration(entry: object, place: int, path: Path) -> Demonstration:
    def fault(message: str, value: object = None) -> DataError:
        return DataError(f"Demonstration {place}: {message}", file=path, value=value)

    if not isinstance(entry, dict):
        raise fault("is not a mapping.", entry)
    unknown = [key for key in entry if key not in _KEYS]
    missing = [key for key in _KEYS if key != "caption" and key not in entry]
    if unknown or missing:
        wrong = [*(f"unknown {key!r}" for key in unknown), *(f"no {key!r}" for key in missing)]
        raise fault(f"{', '.join(wrong)}; the keys are {', '.join(_KEYS)}.")
    references = entry["references"]
    if isinstance(references, str):
        references = [references]
    if not isinstance(references, list) or not references:
        raise fault("'references' must be a list of texts.", references)
    texts = {key: entry[key] for key in ("question", "answer", "rationale")} | {"references": references}
    texts |= {"caption": entry["caption"]} if entry.get("caption") is not None else {}
    for key, value in texts.items():
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, bool):
                raise fault(f'{key!r} must be a text; write "yes" and "no" in quotation marks.', text)
            if not isinstance(text, str | int | float) or not str(text).strip():
                raise fault(f"{key!r} must be a text.", text)
    rating = entry["rating"]
    if isinstance(rating, bool) or rating not in (1, 2, 3):
        raise fault("'rating' must be 1, 2 or 3.", rating)
    caption = entry.get("caption")
    return Demonstration(
        question=str(entry["question"]),
        references=tuple(map(str, references)),
        answer=str(entry["answer"]),
        rationale=" ".join(str(entry["rationale"]).split()),
        rating=int(rating),
        caption=None if caption is None else str(caption),
    )
