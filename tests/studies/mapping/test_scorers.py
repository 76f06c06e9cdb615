from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from taxtune.errors import DataError, ImageError, MapperError
from taxtune.mapping import Mapper, MapperConfig, Similarity
from taxtune.metrics.registry import MeasureSettings
from taxtune.studies.mapping.scorers import (
    UNPLACED,
    MeasureSimilarity,
    NodeNames,
    draw_node_images,
    nearest_nodes,
    node_image_scorer,
    similarity_scorer,
    tree_names,
)
from taxtune.studies.mapping.study import mapping_report, place_all
from taxtune.taxonomy import Taxonomy
from tests.studies.mapping.test_study import asked, placed_by_hand
from tests.studies.measures import UNSCORED, Words
from tests.tiny_text_models import make_clip

NAN = float("nan")


@given(
    st.lists(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4), min_size=1, max_size=8),
    st.integers(0, 1000),
)
def test_the_best_name_decides(names: list[list[str]], seed: int) -> None:
    columns = NodeNames.of(names)
    scores = np.random.default_rng(seed).random((3, len(columns.vocabulary))).astype(np.float32)
    scores[0, 0] = NAN  # gives way to a name that has a score
    value = columns.vocabulary.index
    expected = [[np.nanmax([row[value(n)] for n in g] + [-1]) for g in names] for row in scores]
    assert np.array_equal(np.nan_to_num(columns.best(scores), nan=-1), np.array(expected, dtype=np.float32))


def test_all_names_or_the_common_one(birds: Taxonomy) -> None:
    assert {"Aves", "bird", "common blackbird"} <= set(tree_names(birds).vocabulary)
    assert set(tree_names(birds, "common").vocabulary) == {
        "life", "bird", "Passeriformes", "thrush", "blackbird", "American robin", "Anseriformes", "Anatidae", "mallard",
    }  # fmt: skip


def test_ties_by_each_rule(birds: Taxonomy) -> None:
    row = np.zeros(len(birds), dtype=np.float32)
    row[[2, 4, 5]] = 0.7, 0.7 - 1e-8, 0.7  # Passeriformes and two thrushes; fractions computed in another order
    lone = np.full(len(birds), NAN, dtype=np.float32)
    lone[6] = -0.3
    table = np.stack([row, np.eye(len(birds), dtype=np.float32)[7], np.full(len(birds), NAN, np.float32), lone])
    nodes, tied = nearest_nodes(birds, table)
    assert nodes.tolist() == [4, 7, UNPLACED, 6]
    assert tied.tolist() == [3, 1, 0, 1]
    assert nearest_nodes(birds, table, ties="ancestor")[0].tolist() == [2, 7, UNPLACED, 6]
    drawn = {int(nearest_nodes(birds, table, ties="random", rng=np.random.default_rng(s))[0][0]) for s in range(40)}
    assert drawn == {2, 4, 5}


def test_batches_change_nothing(birds: Taxonomy) -> None:
    texts = [f"{word} {i}" for i in range(100) for word in ("bird", "mallard", "nothing")]
    scorer = similarity_scorer("mine=lexical", tree_names(birds))
    assert (scorer.name, scorer.spec, scorer.kind) == ("mine", "lexical", "lexical")
    batches = list(scorer.tables(texts))
    assert len(batches) > 1
    assert [text for batch, _ in batches for text in batch] == texts
    table = np.concatenate([part for _, part in batches])
    assert scorer.names is not None
    assert np.allclose(table, scorer.names.best(scorer.similarity.scores(texts)))


def test_a_measure_is_a_mapper_s_similarity(birds: Taxonomy) -> None:
    similarity = MeasureSimilarity(Words("words", "Words"))
    assert isinstance(similarity, Similarity)
    with pytest.raises(MapperError, match="has no names"):
        similarity.scores(["x"])
    mapper = Mapper(birds, similarity, MapperConfig(preset="paper-listing"))
    # "thrush" is not said verbatim as a name of the robin, but "robin" is half of one.
    assert mapper.place_one("some robin").node == 5
    assert mapper.place_one("a thrush").node == 3
    assert (similarity.scores([UNSCORED]) == -1).all()
    assert np.isnan(similarity.table([UNSCORED])).all()
    # A repeated name is scored once.
    similarity.fit(["duck", "blue jay", "duck"])
    Words.calls = 0
    assert similarity.scores(["duck jay"]).tolist() == [[1.0, 0.5, 1.0]]
    assert Words.calls == 2


# -- images of nodes ---------------------------------------------------------------------------------------------------

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


def test_the_answer_is_compared_with_the_images_of_nodes(birds: Taxonomy, model: str, pictures: Path) -> None:
    import open_clip
    import torch

    drawn = draw_node_images(pictures, birds)
    assert list(drawn) == [4, 5, 8]
    assert {draw_node_images(pictures, birds, seed=s)[4].name for s in range(20)} == {"0.png", "1.png"}
    cache = pictures.parent / "cache"
    settings = asked(f"CLIP=clip-i2t:{model}", resamples=5, device="cpu", batch_size=2, cache_dir=cache)
    answers = placed_by_hand(zip(ANSWERS, (4, 8, 0), ([], [], []), (None,) * 3, strict=True))
    placed, notes, identities = place_all(birds, answers, settings, drawn)
    # The answers' texts beside the images, straight from open_clip.
    network, _, preprocess = open_clip.create_model_and_transforms(model)
    network.eval()
    with torch.inference_mode():
        texts = network.encode_text(open_clip.get_tokenizer(model)(list(ANSWERS[:2])), normalize=True)
        images = torch.stack([preprocess(Image.open(drawn[node]).convert("RGB")) for node in (4, 5, 8)])
        expected = np.asarray(texts @ network.encode_image(images, normalize=True).T)
    nodes = placed.groupby("mapper")["node"].agg(list)
    assert nodes["CLIP"] == [*np.array([4, 5, 8])[expected.argmax(axis=1)].tolist(), birds.root]
    table = np.full((2, len(birds)), -np.inf, dtype=np.float32)
    table[:, [4, 5, 8]] = expected
    mapper = Mapper(birds, config=MapperConfig(preset="paper-listing"))
    by_hand = [mapper.place_scored(text, row).node for text, row in zip(ANSWERS[:2], table, strict=True)]
    assert nodes["CLIP + Alg. 1"] == [*by_hand, birds.root]
    assert "CLIP: 3 of 9 nodes have an image; the others are never the most similar" in notes
    assert set(identities["CLIP"]) == {"kind", "model", "weights", "images"}
    # The cache changes nothing.
    first, again = (mapping_report(birds, answers, settings, drawn) for _ in range(2))
    assert len(list(cache.iterdir())) == 1
    assert first.tables == again.tables
    assert "CLIP + Alg. 1" in [row["our row"] for row in first.table("mapping-paper").records()]


def test_images_that_do_not_exist(birds: Taxonomy, model: str, pictures: Path) -> None:
    with pytest.raises(DataError, match="No node of the tree has an image"):
        node_image_scorer(f"clip-i2t:{model}", {}, len(birds), MeasureSettings("cpu"))
    with pytest.raises(ImageError, match=r"gone\.png"):
        node_image_scorer(f"clip-i2t:{model}", {4: pictures.parent / "gone.png"}, len(birds), MeasureSettings("cpu"))
