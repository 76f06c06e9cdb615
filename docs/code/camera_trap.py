"""Makes what a camera-trap project has, of the field guide's drawings: `python docs/code/camera_trap.py [FOLDER]`.

    traps/      the photos of May: bursts of three to five frames from six cameras, a third of the frames empty;
                labels.csv (file, deployment, sequence, timestamp, label) and megadetector.json
    june/       the photos of June, with photos.csv and megadetector.json; their labels, which only made data
                can have, are in truth.csv
    tree.csv    the label tree of the birds

The same call writes the same photos. Birds are drawings that come with taxtune, each in one burst.
"""

from __future__ import annotations

import itertools
import json
import shutil
import sys
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import ExifTags, Image, ImageDraw, ImageFilter

from taxtune.fieldguide import MANIFEST_FILE, TAXONOMY_FILE

WIDTH, HEIGHT = 400, 300
CAMERAS = ("D01", "D02", "D03", "D04", "D05", "D06")
#: Width and height of a drawing in pixels, and the share of them that its bird takes.
SIDE, EXTENT = 192, 0.78
#: From this severity on nobody can tell the bird: a person writes one of these in turn.
HOPELESS = 0.9
VAGUE = ("unidentified bird", "unidentified bird", "unknown")


@dataclass
class Month:
    """The photos of one month: where they go, when it begins, their rows, and what MegaDetector says of them."""

    folder: Path
    begin: datetime
    rows: list[dict[str, str]] = field(default_factory=list)
    detections: list[dict[str, object]] = field(default_factory=list)

    def take(self, camera: str, burst: str, time: datetime, photo: Image.Image, boxes: list, label: str) -> None:
        """Writes one photo with its EXIF, and notes its label and its boxes."""
        number = 1 + sum(row["deployment"] == camera for row in self.rows)
        name = f"{camera}/IMG_{number:04d}.JPG"
        exif = Image.Exif()
        exif[ExifTags.Base.Make] = "Fieldcam"
        exif[ExifTags.Base.Model] = "FC-2"
        more = exif.get_ifd(ExifTags.IFD.Exif)
        more[ExifTags.Base.BodySerialNumber] = f"FC2-{camera}"
        more[ExifTags.Base.DateTimeOriginal] = f"{time:%Y:%m:%d %H:%M:%S}"
        (self.folder / camera).mkdir(parents=True, exist_ok=True)
        photo.save(self.folder / name, quality=90, exif=exif)
        row = {"file": name, "deployment": camera, "sequence": burst}
        self.rows.append(row | {"timestamp": f"{time:%Y-%m-%d %H:%M:%S}", "label": label})
        found = [{"category": "1", "conf": conf, "bbox": box} for box, conf in boxes]
        self.detections.append({"file": name, "detections": found})

    def finish(self) -> pd.DataFrame:
        """Writes MegaDetector's file in its own format; returns the table of photos."""
        info = {"format_version": "1.6", "detector": "md_v5a.0.0.pt"}
        info |= {"detector_metadata": {"typical_detection_threshold": 0.2}}
        found = {"info": info, "detection_categories": {"1": "animal", "2": "person", "3": "vehicle"}}
        found |= {"images": self.detections}
        (self.folder / "megadetector.json").write_text(json.dumps(found, indent=1))
        return pd.DataFrame(self.rows)


def scene_of(rng: np.random.Generator) -> Image.Image:
    """Draws what a camera looks at: a slope with bushes."""
    top = rng.uniform(110, 200) + rng.normal(0, 10, 3)
    bottom = rng.uniform(60, 130) + rng.normal(0, 10, 3)
    ramp = np.linspace(0, 1, HEIGHT)[:, None, None]
    page = np.broadcast_to(top * (1 - ramp) + bottom * ramp, (HEIGHT, WIDTH, 3))
    scene = Image.fromarray(page.astype(np.uint8))
    draw = ImageDraw.Draw(scene)
    for _ in range(12):
        x, y, r = rng.uniform(0, WIDTH), rng.uniform(0.4 * HEIGHT, HEIGHT), rng.uniform(12, 60)
        shade = rng.uniform(50, 130) + rng.normal(0, 12, 3)
        draw.ellipse((x - r, y - r / 2, x + r, y + r / 2), fill=tuple(shade.astype(int).tolist()))
    return scene.filter(ImageFilter.GaussianBlur(4))


def frame_of(rng: np.random.Generator, scene: Image.Image, birds: list, light: float) -> tuple[Image.Image, list]:
    """Draws one frame; returns it with a box (x, y, width and height as shares) and a confidence for each bird."""
    photo = scene.copy()
    boxes = []
    edge = SIDE // 32
    mask = Image.new("L", (SIDE, SIDE), 0)
    ImageDraw.Draw(mask).rectangle((edge, edge, SIDE - edge, SIDE - edge), fill=255)
    mask = mask.filter(ImageFilter.GaussianBlur(edge / 2))
    for drawing, place in birds:
        x, y = (place + rng.integers(-6, 7, 2)).tolist()  # it moves
        photo.paste(drawing, (x, y), mask)
        inset = (1 - EXTENT) / 2 * SIDE + rng.uniform(-3, 3, 2)
        corner = (np.array([x, y]) + inset) / (WIDTH, HEIGHT)
        box = [*corner, EXTENT * SIDE / WIDTH, EXTENT * SIDE / HEIGHT]
        boxes.append((np.round(box, 4).tolist(), round(rng.uniform(0.55, 0.98), 3)))
    if rng.random() < 0.15:  # a leaf that might be something
        x, y = rng.uniform(0, 0.8, 2)
        boxes.append((np.round([x, y, 0.15, 0.2], 4).tolist(), round(rng.uniform(0.02, 0.22), 3)))
    pixels = np.asarray(photo, np.float32) * np.float32(light * rng.uniform(0.95, 1.05))
    pixels = pixels + rng.normal(0, 2, (HEIGHT, WIDTH, 1)).astype(np.float32)
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)), boxes


def shoot(month: Month, scenes: dict, drawings: list, bursts: int, rng: np.random.Generator) -> None:
    """Takes the bursts of a month: every fourth shows nothing, and of some others the last frame."""
    vague = itertools.cycle(VAGUE)
    time = month.begin
    for number in range(bursts):
        time += timedelta(minutes=int(rng.integers(20, 200)))
        camera = str(rng.choice(CAMERAS))
        light = rng.uniform(0.85, 1.1)
        frames = int(rng.integers(3, 6))
        birds, label, last = [], "blank", frames
        if number % 4:
            drawn = drawings.pop()
            label = next(vague) if drawn.severity > HOPELESS else drawn.label
            pictures = [drawn]
            if number == 1:  # two of a kind
                pictures.append(next(one for one in drawings if one.label == drawn.label))
                drawings.remove(pictures[1])
            for left, one in zip((0, 200), pictures):
                place = left + 6 + rng.integers(0, 190 if len(pictures) == 1 else 6), rng.integers(8, 100)
                birds.append((Image.open(MANIFEST_FILE.parent / one.image).convert("RGB"), np.array(place)))
            last = frames - int(rng.integers(0, 2))
        for frame in range(frames):
            here = birds if frame < last else []
            photo, boxes = frame_of(rng, scenes[camera], here, light)
            seconds = timedelta(seconds=2 * frame)
            month.take(camera, f"S{number:04d}", time + seconds, photo, boxes, label if here else "blank")


def main(folder: str = ".", bursts: int = 400, new: int = 100) -> None:
    """Writes both months."""
    rng = np.random.default_rng(36)
    drawings = list(pd.read_csv(MANIFEST_FILE).itertuples(index=False))
    scenes = {camera: scene_of(rng) for camera in CAMERAS}
    may = Month(Path(folder, "traps"), datetime(2026, 5, 1, 5))
    june = Month(Path(folder, "june"), datetime(2026, 6, 1, 5))
    shoot(may, scenes, drawings, bursts, rng)
    shoot(june, scenes, drawings, new, rng)
    may.finish().to_csv(may.folder / "labels.csv", index=False)
    photos = june.finish()
    photos.drop(columns="label").to_csv(june.folder / "photos.csv", index=False)
    photos[["file", "label"]].to_csv(june.folder / "truth.csv", index=False)
    shutil.copyfile(TAXONOMY_FILE, Path(folder, "tree.csv"))


if __name__ == "__main__":
    main(*sys.argv[1:])
