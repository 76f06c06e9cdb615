from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from taxtune.errors import DataError
from taxtune.metrics.registry import MeasureSettings, make_measure
from tests.displays import Recorder
from tests.tiny_text_models import make_clip

pytest.importorskip("open_clip")

ANSWERS = ["a robin", "house sparrow", "🐦 طائر", "a robin"]
REFERENCES = ["bird", "sparrow", "bird", "truck"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_clip(tmp_path_factory.mktemp("clip"))


@pytest.fixture(scope="module")
def pictures() -> list[Image.Image]:
    noise = np.random.default_rng(0).integers(0, 255, (3, 30, 40, 3), dtype=np.uint8)
    return [Image.fromarray(pixels) for pixels in noise]


def by_hand(model: str, texts: Sequence[str], others: Sequence[str | Image.Image]) -> list[float]:
    """Cosines one pair at a time, straight from open_clip."""
    import open_clip
    import torch

    network, _, preprocess = open_clip.create_model_and_transforms(model)
    tokenizer = open_clip.get_tokenizer(model)
    network.eval()

    def vector(item: str | Image.Image) -> np.ndarray:
        with torch.inference_mode():
            if isinstance(item, str):
                found = network.encode_text(tokenizer([item]))
            else:
                found = network.encode_image(preprocess(item.convert("RGB"))[None])
        return np.asarray(found[0], dtype=np.float64)

    pairs = [(vector(text), vector(other)) for text, other in zip(texts, others, strict=True)]
    return [float(a @ b / np.sqrt((a @ a) * (b @ b))) for a, b in pairs]


def test_text_to_text(model: str, tmp_path: Path) -> None:
    measure = make_measure(f"clip-t2t:{model}", MeasureSettings("cpu", 3, tmp_path))
    expected = by_hand(model, ANSWERS, REFERENCES)
    assert measure.scores(ANSWERS, REFERENCES) == pytest.approx(expected, abs=1e-5)
    assert np.diag(measure.matrix(ANSWERS, REFERENCES)) == pytest.approx(expected, abs=1e-5)
    assert (measure.label, measure.needs_images) == ("CLIP-t2t", False)
    assert measure.notes == ()
    measure.scores(["so many birds " * 75_000, "a bird"], ["bird", "bird"])
    assert measure.notes == ("Texts that fill the model's limit of 24 tokens and may be truncated: 1.",)


def test_image_to_text(model: str, tmp_path: Path, pictures: list[Image.Image], recorder: Recorder) -> None:
    settings = MeasureSettings("cpu", 3, tmp_path)
    measure = make_measure(f"clip-i2t:{model}", settings)
    images = [pictures[0], pictures[1], pictures[2], pictures[0]]
    expected = by_hand(model, ANSWERS, images)
    assert measure.scores(ANSWERS, REFERENCES, images) == pytest.approx(expected, abs=1e-5)
    assert recorder.of(measure.label) == [(0, 4), (3, 4), (4, 4)]
    # In a matrix the image stands in the answer's place.
    table = measure.matrix(["", "", ""], ["bird", "truck", " "], pictures)
    assert table[:, 0] == pytest.approx(by_hand(model, ["bird"] * 3, pictures), abs=1e-5)
    assert table[:, 1] == pytest.approx(by_hand(model, ["truck"] * 3, pictures), abs=1e-5)
    assert np.isnan(table[:, 2]).all()
    assert (measure.label, measure.needs_images) == ("CLIP-i2t", True)


def test_rows_without_an_image(model: str, tmp_path: Path, pictures: list[Image.Image]) -> None:
    measure = make_measure(f"clip-i2t:{model}", MeasureSettings("cpu", 8, tmp_path))
    scores = measure.scores(["robin", "robin", ""], ["bird"] * 3, [pictures[0], None, pictures[1]])
    np.testing.assert_array_equal(np.isnan(scores), [False, True, False])
    assert scores[2] == 0
    assert "Rows left unscored because they have no image: 1." in measure.notes
    table = measure.matrix(["a", "b"], ["bird"], [None, pictures[0]])
    np.testing.assert_array_equal(np.isnan(table[:, 0]), [True, False])
    for images in (None, [None, None]):
        with pytest.raises(DataError, match=r"no row has one.*clip-t2t"):
            measure.scores(["a", "b"], ["c", "d"], images)
        with pytest.raises(DataError, match="no row has one"):
            measure.matrix(["a", "b"], ["c"], images)
    with pytest.raises(DataError, match="1 images for 2 rows"):
        measure.scores(["a", "b"], ["c", "d"], pictures[:1])
    assert measure.scores([], [], []).shape == (0,)
    assert measure.scores([], []).shape == (0,)
