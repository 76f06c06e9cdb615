from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from taxtune.errors import DataError, ImageError
from taxtune.mapping import Mapper, MapperConfig
from taxtune.metrics.registry import MeasureSettings
from taxtune.studies.mapping import MappingSettings
from taxtune.studies.mapping.annotated import AnnotatedAnswers
from taxtune.studies.mapping.scorers import draw_node_images, node_image_scorer
from taxtune.studies.mapping.study import mapping_report, place_all
from taxtune.taxonomy import Taxonomy
from tests.studies.mapping.test_study import asked
from tests.tiny_text_models import make_clip

ANSWERS = ("a blackbird", "quack quack quack", "")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_clip(tmp_path_factory.mktemp("clip"))


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """A manifest of images: two of the blackbird (node 4), one each of the robin (5) and the mallard (8)."""
    rng = np.random.default_rng(0)
    lines = ["image,label"]
    for number, label in enumerate(("Turdus merula", "Turdus merula", "Turdus migratorius", "Anas platyrhynchos")):
        Image.fromarray(rng.integers(0, 255, (40, 40, 3), dtype=np.uint8)).save(tmp_path / f"{number}.png")
        lines.append(f"{number}.png,{label}")
    (tmp_path / "images.csv").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path / "images.csv"


def answers() -> AnnotatedAnswers:
    n = len(ANSWERS)
    return AnnotatedAnswers(
        "made.csv", tuple(range(n)), ANSWERS, (4, 8, 0), tuple(map(frozenset, ([4], [8], [0]))), (None,) * n,
        (None,) * n, (),
    )  # fmt: skip


def by_clip(model: str, pictures: Path) -> MappingSettings:
    """A study of a CLIP model alone."""
    cache = pictures.parent / "cache"
    return asked(f"CLIP=clip-i2t:{model}", resamples=5, device="cpu", batch_size=2, cache_dir=cache)


def cosines(model: str, files: list[Path]) -> np.ndarray:
    """The answers' texts beside images, straight from open_clip."""
    import open_clip
    import torch

    network, _, preprocess = open_clip.create_model_and_transforms(model)
    network.eval()
    with torch.inference_mode():
        texts = network.encode_text(open_clip.get_tokenizer(model)(list(ANSWERS[:2])), normalize=True)
        images = [preprocess(Image.open(file).convert("RGB")) for file in files]
        return np.asarray(texts @ network.encode_image(torch.stack(images), normalize=True).T)


def test_the_answer_is_compared_with_the_images_of_nodes(birds: Taxonomy, model: str, pictures: Path) -> None:
    drawn = draw_node_images(pictures, birds)
    assert list(drawn) == [4, 5, 8]
    placed, notes, identities = place_all(birds, answers(), by_clip(model, pictures), drawn)
    expected = cosines(model, [drawn[node] for node in (4, 5, 8)])
    alone, listing, _ = placed
    assert alone.nodes.tolist() == [*np.array([4, 5, 8])[expected.argmax(axis=1)].tolist(), birds.root]
    table = np.full((2, len(birds)), -np.inf, dtype=np.float32)
    table[:, [4, 5, 8]] = expected
    mapper = Mapper(birds, config=MapperConfig(preset="paper-listing"))
    by_hand = [mapper.place_scored(text, row).node for text, row in zip(ANSWERS[:2], table, strict=True)]
    assert listing.nodes.tolist() == [*by_hand, birds.root]
    assert "CLIP: 3 of 9 nodes have an image; the others are never the most similar" in notes
    assert set(identities["CLIP"]) == {"kind", "model", "weights", "images"}


def test_the_study_reports_it_and_the_cache_changes_nothing(birds: Taxonomy, model: str, pictures: Path) -> None:
    settings = by_clip(model, pictures)
    drawn = draw_node_images(pictures, birds)
    first, again = (mapping_report(birds, answers(), settings, drawn) for _ in range(2))
    assert len(list((pictures.parent / "cache").iterdir())) == 1
    assert first.tables == again.tables
    paper = next(table for table in first.tables if table.name == "mapping-paper")
    assert "CLIP + Alg. 1" in [row["our row"] for row in paper.records()]


def test_which_image_is_drawn_depends_on_the_seed(birds: Taxonomy, pictures: Path) -> None:
    seen = {draw_node_images(pictures, birds, seed=s)[4].name for s in range(20)}
    assert seen == {"0.png", "1.png"}


def test_images_that_are_not_there(birds: Taxonomy, model: str, pictures: Path) -> None:
    with pytest.raises(DataError, match="No node of the tree has an image"):
        node_image_scorer(f"clip-i2t:{model}", {}, len(birds))
    with pytest.raises(ImageError, match=r"gone\.png"):
        node_image_scorer(f"clip-i2t:{model}", {4: pictures.parent / "gone.png"}, len(birds), MeasureSettings("cpu"))
