"""A few made images in COCO's format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["CAPTIONS", "INSTANCES", "NARRATIVES", "write_coco"]

CAPTIONS: dict[str, Any] = {
    "images": [
        {"id": 1, "file_name": "000000000001.jpg"},
        {"id": 2, "file_name": "000000000002.jpg"},
        {"id": 3, "file_name": "000000000003.jpg"},
        {"id": 4, "file_name": "000000000004.jpg"},
        {"id": 5, "file_name": "000000000005.jpg"},
    ],
    "annotations": [
        {"id": 10, "image_id": 1, "caption": "A dog sits on an orange couch."},
        {"id": 11, "image_id": 1, "caption": "An  old dog resting\n indoors"},
        {"id": 12, "image_id": 2, "caption": "Two dogs and a cat near a hot dog stand"},
        {"id": 13, "image_id": 2, "caption": "Pets on a sidewalk"},
        {"id": 14, "image_id": 3, "caption": "A man holding an umbrella in the rain"},
        {"id": 15, "image_id": 4, "caption": "A quiet street"},
    ],
}
INSTANCES: dict[str, Any] = {
    "categories": [
        {"id": 1, "name": "person"},
        {"id": 17, "name": "cat"},
        {"id": 18, "name": "dog"},
        {"id": 28, "name": "umbrella"},
        {"id": 58, "name": "hot dog"},
        {"id": 63, "name": "couch"},
        {"id": 35, "name": "skis"},
    ],
    "annotations": [
        {"id": 1, "image_id": 1, "category_id": 18},
        {"id": 2, "image_id": 1, "category_id": 63},
        {"id": 3, "image_id": 1, "category_id": 18, "iscrowd": 1},
        {"id": 4, "image_id": 2, "category_id": 18},
        {"id": 5, "image_id": 2, "category_id": 17},
        {"id": 6, "image_id": 3, "category_id": 1},
        {"id": 7, "image_id": 3, "category_id": 28},
        {"id": 8, "image_id": 99, "category_id": 28},
    ],
}
NARRATIVES = [
    {"dataset_id": "made", "image_id": "1", "caption": "In the middle there is a dog and behind it a wall."},
    {"dataset_id": "made", "image_id": "000000000003", "caption": "A person with a hat stands in the rain."},
    {"dataset_id": "made", "image_id": "77", "caption": "Of another image."},
]


def write_coco(
    folder: Path, captions: Any = CAPTIONS, instances: Any = INSTANCES, narratives: Any = NARRATIVES
) -> tuple[Path, Path, Path]:
    """Writes the three files and returns their paths."""
    paths = (folder / "captions.json", folder / "instances.json", folder / "narratives.jsonl")
    paths[0].write_text(json.dumps(captions), encoding="utf-8")
    paths[1].write_text(json.dumps(instances), encoding="utf-8")
    paths[2].write_text("\n".join(map(json.dumps, narratives)), encoding="utf-8")
    return paths
