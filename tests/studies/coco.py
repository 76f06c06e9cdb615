"""A few made images in COCO's format."""

from __future__ import annotations

import json

__all__ = ["CAPTIONS", "INSTANCES", "NARRATIVES", "write_coco"]

_TEXTS = """1 A dog sits on an orange couch.
1 An  old dog resting indoors
2 Two dogs and a cat near a hot dog stand
2 Pets on a sidewalk
3 A man holding an umbrella in the rain
4 A quiet street"""
_NAMES = {1: "person", 17: "cat", 18: "dog", 28: "umbrella", 58: "hot dog", 63: "couch", 35: "skis"}
#: The categories of the objects by image.
_OBJECTS = {1: [18, 63, 18], 2: [18, 17], 3: [1, 28], 99: [28]}
_IMAGES = [{"id": i, "file_name": f"00000000000{i}.jpg"} for i in range(1, 6)]
_WRITTEN = [{"image_id": int(line[0]), "caption": line[2:]} for line in _TEXTS.splitlines()]
CAPTIONS = {"images": _IMAGES, "annotations": _WRITTEN}
_CATEGORIES = [{"id": i, "name": name} for i, name in _NAMES.items()]
_SHOWN = []
for image, categories in _OBJECTS.items():
    _SHOWN += [{"image_id": image, "category_id": category} for category in categories]
INSTANCES = {"categories": _CATEGORIES, "annotations": _SHOWN}
NARRATIVES = [
    {"image_id": "1", "caption": "In the middle there is a dog and behind it a wall."},
    {"image_id": "000000000003", "caption": "A person with a hat stands in the rain."},
    {"image_id": "77", "caption": "Of another image."},
]


def write_coco(folder, captions=CAPTIONS, instances=INSTANCES, narratives=NARRATIVES):
    """Writes the three files and returns their paths."""
    contents = {"captions.json": [captions], "instances.json": [instances]}
    contents["narratives.jsonl"] = narratives
    for name, records in contents.items():
        (folder / name).write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    return [folder / name for name in contents]
