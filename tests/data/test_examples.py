"""Labelled images from every source: manifests, folders, iNaturalist's JSON, lists, frames, data sets."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from PIL import Image

from taxtune.data import Example, content_hash, load_examples, load_image
from taxtune.errors import DataError, ImageError
from taxtune.progress import showing
from taxtune.taxonomy.tree import Taxonomy
from tests.displays import Recorder

TREE = Taxonomy.from_paths(
    [
        "life/Aves/Turdidae/Turdus/Turdus merula",
        "life/Aves/Turdidae/Turdus/Turdus migratorius",
        "life/Aves/Anatidae/Anas",
        "life/Plantae/Anas",
    ],
    aliases={
        "Aves": ["bird"],
        "Turdidae": ["thrush"],
        "Turdus merula": ["blackbird"],
        "Turdus migratorius": ["American robin"],
    },
)
MERULA = TREE.resolve("Turdus merula")
MIGRATORIUS = TREE.resolve("Turdus migratorius")

Paint = Callable[[str], Path]


@pytest.fixture
def paint(tmp_path: Path) -> Paint:
    """Paints another image each time."""
    count = 0

    def make(name: str) -> Path:
        nonlocal count
        count += 1
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (16, 16), (count, 0, 0)).save(path, format="PNG")
        return path

    return make


def table(path: Path, rows: Sequence[Sequence[str]], *, tab: bool = False) -> Path:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, delimiter="\t" if tab else ",")
        writer.writerows([("image", "label"), *rows])
    return path


def seen(examples: Sequence[Example]) -> list[tuple[str, int]]:
    """Returns the id and the target of each example."""
    return [(example.id, example.target) for example in examples]


def load(kind: str, path: Path, **options: Any) -> list[Example]:
    with showing(Recorder()) as display:
        examples = load_examples(path, TREE, kind=kind, **options)
    assert display.notes == []
    return examples


# -- manifests ---------------------------------------------------------------------------------------------------------


def test_a_csv_manifest(paint: Paint, tmp_path: Path) -> None:
    paint("a.png")
    paint("sub/b.png")
    rows = [["a.png", "Turdus merula"], ["sub/b.png", " american ROBIN "]]
    examples = load("manifest", table(tmp_path / "m.csv", rows))
    assert seen(examples) == [("a.png", MERULA), ("sub/b.png", MIGRATORIUS)]
    assert [example.label for example in examples] == ["Turdus merula", "american ROBIN"]
    for example in examples:
        assert example.image == tmp_path / example.id
        assert example.sha256 == content_hash(example.image)


def test_other_forms_of_manifest_say_the_same(paint: Paint, tmp_path: Path) -> None:
    paint("a,1.png")
    paint("b.png")
    rows = [["a,1.png", "thrush"], ["b.png", "life/Plantae/Anas"]]
    expected = load("manifest", table(tmp_path / "m.csv", rows))
    assert load("manifest", table(tmp_path / "m.tsv", rows, tab=True)) == expected
    records = [{"label": label, "image": image, "other": [1]} for image, label in rows]
    (tmp_path / "m.jsonl").write_text("\n\n".join(map(json.dumps, records)) + "\n")
    assert load("manifest", tmp_path / "m.jsonl") == expected
    (tmp_path / "bom.csv").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "m.csv").read_bytes())
    assert load("manifest", tmp_path / "bom.csv") == expected
    text = 'Image;LABEL\r\n\r\n"a,1.png";thrush\r\n"b.png";life/Plantae/Anas\r\n'
    (tmp_path / "excel.csv").write_bytes(text.encode("utf-16"))
    assert load("manifest", tmp_path / "excel.csv") == expected
    sheet = pd.DataFrame([*rows, ["", ""]], columns=["Image", "Label"])
    sheet.to_excel(tmp_path / "m.xlsx", index=False)
    assert load("manifest", tmp_path / "m.xlsx") == expected


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        (r"(?P<image>\w+) (?P<label>.+)", ["a_1 Turdus merula", "b_2 American robin"]),
        (r"(?P<image>(?P<label>\w+)_\d+) .*", ["Turdus_merula_1 5 1 1", "american_robin_2 7 2 1"]),
        (
            r"\d+ (?P<image>(?P<label>[^/]+)/.+)",
            ["1 011.Turdus_merula/x", "2 007.American_Robin/y"],
        ),
    ],
)
def test_a_list_without_columns_is_read_by_a_pattern(
    pattern: str, lines: list[str], paint: Paint, tmp_path: Path
) -> None:
    names = [re.fullmatch(pattern, line)["image"] + ".jpg" for line in lines]  # type: ignore[index]
    photos = tmp_path / "photos"
    for name in names:
        paint(f"photos/{name}")
    listed = tmp_path / "test.txt"
    listed.write_bytes("\r\n".join(["", *lines, ""]).encode())
    examples = load("manifest", listed, images=photos, pattern=pattern)
    assert [example.id for example in examples] == names
    assert [example.image for example in examples] == [photos / name for name in names]
    assert [example.target for example in examples] == [MERULA, MIGRATORIUS]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(?P<image>", r"The pattern is not a regular expression: .*\(got '\(\?P<image>'\)"),
        ("(?P<image>.+)", r"The pattern has no group 'label'\..*For lines such as"),
        (
            r"(?P<image>\w+),(?P<label>.+)",
            r"does not match 2 lines:\n  row 1: '# all'\n  row 3: 'b\.png bird'",
        ),
        (r"(?P<image>.*?)[ ,]*(?P<label>\w*|# all)", r"row 1: no image\b"),
    ],
)
def test_patterns_and_lines_that_do_not_fit_are_told(
    pattern: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "list.txt").write_text("# all\na,bird\nb.png bird\n")
    with pytest.raises(DataError, match=message):
        load("manifest", tmp_path / "list.txt", pattern=pattern)


def test_all_labels_that_are_not_on_the_tree_are_named_with_rows_and_near_names(
    paint: Paint, tmp_path: Path
) -> None:
    labels = ["blackbrid", "bird", "blackbrid", "Anas", "xyzzy", "a/b"]
    rows = [[f"{i}.png", label] for i, label in enumerate(labels)]
    with pytest.raises(DataError) as caught:
        load("manifest", table(tmp_path / "m.csv", rows))
    lines = str(caught.value).splitlines()
    assert lines[0].endswith("m.csv: 4 labels name no single node of the taxonomy:")
    assert lines[1] == "  'blackbrid' (row 2, row 4): did you mean 'blackbird'?"
    paths = "2 nodes are called 'Anas'. Give the path: life/Aves/Anatidae/Anas, "
    assert lines[2].startswith(f"  'Anas' (row 5): {paths}")
    assert lines[3] == "  'xyzzy' (row 6): no similar name is on the taxonomy."
    assert lines[4].startswith("  'a/b' (row 7)")


def test_all_bad_images_are_named(paint: Paint, tmp_path: Path) -> None:
    paint("good.png")
    (tmp_path / "empty.png").write_bytes(b"")
    rows = [[name, "bird"] for name in ("good.png", "gone.png", "empty.png")]
    with pytest.raises(ImageError, match="2 of 3 images cannot be used") as caught:
        load("manifest", table(tmp_path / "m.csv", rows))
    assert "gone.png (m.csv, row 3): The image file does not exist" in str(caught.value)
    assert "empty.png (m.csv, row 4): The image file is empty" in str(caught.value)


def test_bad_images_are_left_out_and_named_where_that_is_asked_for(
    paint: Paint, tmp_path: Path, notes: list[str]
) -> None:
    paint("good.png")
    (tmp_path / "empty.png").write_bytes(b"")
    rows = [[name, "bird"] for name in ("gone.png", "good.png", "empty.png")]
    path = table(tmp_path / "m.csv", rows)
    (example,) = load_examples(path, TREE, skip_broken=True)
    assert (example.id, example.sha256) == ("good.png", content_hash(tmp_path / "good.png"))
    (note,) = notes
    assert note.startswith("2 images cannot be used and are left out:")
    assert "gone.png (m.csv, row 2): The image file does not exist" in note
    assert "empty.png (m.csv, row 4): The image file is empty" in note
    none = table(tmp_path / "none.csv", rows[:1])
    with pytest.raises(ImageError, match="None of the 1 images can be used"):
        load_examples(none, TREE, skip_broken=True)


def test_one_image_under_two_labels_is_refused(paint: Paint, tmp_path: Path) -> None:
    shutil.copy(paint("a.png"), tmp_path / "copy.png")
    path = table(tmp_path / "m.csv", [["a.png", "blackbird"], ["copy.png", "American robin"]])
    with pytest.raises(DataError, match=r"a\.png is 'blackbird', copy\.png is 'American robin'"):
        load("manifest", path)


def test_only_the_domain_is_kept_and_the_rest_is_counted(
    paint: Paint, tmp_path: Path, notes: list[str]
) -> None:
    for name in "abc":
        paint(f"{name}.png")
    rows = [["a.png", "blackbird"], ["b.png", "Plantae"], ["c.png", "bird"]]
    path = table(tmp_path / "m.csv", rows)
    kept = load_examples(path, TREE, domain=TREE.resolve("Aves"))
    assert [example.id for example in kept] == ["a.png", "c.png"]
    assert notes == ["1 of 3 images are outside 'Aves' and are left out: Plantae."]
    nothing = "None of the 3 images shows anything below 'Turdus migratorius'"
    with pytest.raises(DataError, match=nothing):
        load("manifest", path, domain=MIGRATORIUS)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "m.csv",
            "image,lable\na.png,bird\n",
            r"no column 'label'. There are 'image', 'lable'. Did you mean 'lable'\?",
        ),
        ("m.csv", "", "The manifest file is empty"),
        ("m.csv", "image,label\n", "a header but no rows"),
        (
            "m.csv",
            "image,label,Label\na.png,bird,thrush\n",
            r"m\.csv:1: Two columns have the same name",
        ),
        ("m.jsonl", "[" * 100_000, r"m\.jsonl:1: The line is not a JSON object"),
        (
            "m.csv",
            "image,label\na.png,\n,bird\nb.png,bird\n",
            r"2 rows lack a value:\n  row 2: no label\n  row 3: no image",
        ),
        ("m.csv", "image,label\na.png,bird,oops\n", r"m\.csv:2: The row has 3 cells, the header 2"),
        ("m.csv", 'image,label\n"a.png,bird\n', r"m\.csv:2: The row cannot be read as CSV"),
        (
            "m.jsonl",
            '{"image": "a.png", "label": "bird"}\n{"image": \n',
            r"m\.jsonl:2: The line is not a JSON object",
        ),
        ("m.jsonl", '["a.png", "bird"]\n', r"m\.jsonl:1: Entry 1 of the list is not a JSON object"),
        ("m.jsonl", '{"image": "a.png"}\n', r"m\.jsonl: There is no column 'label'"),
        ("m.jsonl", '{"image": "a.png", "label": null}\n', "row 1: no label"),
        ("m.txt", "a.png bird\n", "end in .csv, .*.jsonl, .ndjson, not in '.txt'.*`pattern`"),
        ("m.csv", b"image,label\n\xff\xfe.png,bird\n", r"m\.csv:2: The manifest file is not UTF-8"),
        ("gone.csv", None, "manifest file does not exist"),
    ],
)
def test_malformed_manifests_are_refused(
    name: str, text: str | bytes | None, message: str, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / name).write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(DataError, match=message):
        load("manifest", tmp_path / name)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "folder"}, r"1 images are not in a class folder: stray\.png"),
        ({"kind": "manifest", "images": "gone"}, "folder of the images does not exist"),
        ({"kind": "manifest"}, "This is a folder and no manifest file"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    options: dict[str, str], message: str, paint: Paint, tmp_path: Path
) -> None:
    paint("stray.png")
    with pytest.raises(DataError, match=message):
        load_examples(tmp_path, TREE, **options)


# -- lists, frames and data sets ---------------------------------------------------------------------------------------

Rows = list[tuple[Any, Any]]
Wrap = Callable[[Rows], Any]


def as_frame(rows: Rows) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["image", "label"])


def as_dataset(rows: Rows) -> Any:
    datasets = pytest.importorskip("datasets")
    pictures = any(not isinstance(image, (str, Path)) for image, _ in rows)
    images = [str(image) if isinstance(image, Path) else image for image, _ in rows]
    features = {
        "image": datasets.Image() if pictures else datasets.Value("string"),
        "label": datasets.Value("string"),
    }
    columns = {"image": images, "label": [label for _, label in rows]}
    return datasets.Dataset.from_dict(columns, features=datasets.Features(features))


in_memory = pytest.mark.parametrize(
    "wrap", [list, as_frame, as_dataset], ids=["list", "frame", "dataset"]
)


def picture(number: int) -> Image.Image:
    return Image.new("RGB", (16, 16), (number, 0, 0))


@in_memory
def test_paths_in_memory_are_read_as_from_a_manifest(
    wrap: Wrap, paint: Paint, tmp_path: Path
) -> None:
    rows: Rows = [(str(paint("a.png")), "Turdus merula"), ("b.png", " american ROBIN ")]
    paint("b.png")
    examples = load_examples(wrap(rows), TREE, images=tmp_path)
    assert seen(examples) == [(str(tmp_path / "a.png"), MERULA), ("b.png", MIGRATORIUS)]
    assert [example.label for example in examples] == ["Turdus merula", "american ROBIN"]
    for example in examples:
        assert example.image == tmp_path / example.id
        assert example.sha256 == content_hash(example.image)


@in_memory
def test_images_in_memory_are_written_once_under_their_content(
    wrap: Wrap, tmp_path: Path, notes: list[str]
) -> None:
    folder = tmp_path / "images"
    labels = ["blackbird", "American robin", "Turdus merula"]
    rows: Rows = list(zip(map(picture, (1, 2, 1)), labels, strict=True))
    examples = load_examples(wrap(rows), TREE, folder=folder)
    assert [example.target for example in examples] == [MERULA, MIGRATORIUS]
    pixels = [load_image(example.image).getpixel((0, 0)) for example in examples]
    assert pixels == [(1, 0, 0), (2, 0, 0)]
    (note,) = notes
    assert "1 image is listed more than once with the same label" in note

    def written() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in folder.rglob("*.png")}

    before = written()
    assert set(before) == {example.image for example in examples}
    assert load_examples(wrap(rows[1::-1]), TREE, folder=folder) == examples[::-1]
    assert written() == before
    with pytest.raises(DataError, match=r"images are not stored in files\. Give `folder`"):
        load_examples(wrap(rows), TREE)


@in_memory
def test_bytes_of_image_files_are_written_as_they_are(wrap: Wrap, tmp_path: Path) -> None:
    stream = io.BytesIO()
    picture(9).save(stream, "JPEG")
    stored = {"bytes": stream.getvalue(), "path": None}
    (example,) = load_examples(wrap([(stored, "bird")]), TREE, folder=tmp_path)
    assert example.image.read_bytes() == stream.getvalue()
    assert example.image.suffix == ".jpeg"
    assert example.sha256 == hashlib.sha256(stream.getvalue()).hexdigest() == example.image.stem


@in_memory
def test_labels_and_rows_that_are_wrong_are_all_named(
    wrap: Wrap, paint: Paint, tmp_path: Path
) -> None:
    labels = ["bird", "blackbrid", "blackbrid"]
    rows: Rows = [(str(paint(f"{i}.png")), label) for i, label in enumerate(labels)]
    meant = r"'blackbrid' \((row|item) 1, (row|item) 2\): did you mean 'blackbird'\?"
    with pytest.raises(DataError, match=meant):
        load_examples(wrap(rows), TREE)
    with pytest.raises(DataError, match=r"(?s)2 rows lack a value.* 0: no label.* 2: no label\n"):
        load_examples(wrap([(rows[0][0], None), rows[0], (rows[1][0], "")]), TREE)
    with pytest.raises((DataError, ImageError), match=r"(row|item) 1: no image"):
        load_examples(wrap([rows[0], (None, "bird")]), TREE)
    gone = (str(tmp_path / "gone.png"), "bird")
    missing = r"gone\.png \(\w+, (row|item) 1\): The image file does not exist"
    with pytest.raises(ImageError, match=missing):
        load_examples(wrap([rows[0], gone]), TREE)
    with pytest.raises(DataError, match="no images in the data"):
        load_examples(wrap([]), TREE)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            [("a.png", "bird", 3)],
            r"list: Item 0 is not a pair of an image and a label\. \(got|list: Item 0",
        ),
        (["a.png"], "Item 0 is not a pair"),
        ([(3.5 + 2j, "bird")], r"item 0: no image \(got \(3\.5\+2j\)\)"),
        ([({"bytes": None, "path": None}, "bird")], r"item 0: no image\nFill in"),
        ([("a.png", ["Aves", "Turdidae"])], r"item 0: no label \(got \['Aves', 'Turdidae'\]\)"),
        (7, "A int cannot be used as a source of images"),
        ({"train": [], "test": []}, r"Choose one of its splits: 'train', 'test'\."),
        (
            pd.DataFrame({"file": ["a.png"], "label": ["bird"]}),
            r"DataFrame: There is no column 'image'\. There are 'file', 'label'\.",
        ),
        (
            pd.DataFrame({"image": ["a.png"], "label": [float("nan")]}, index=["x7"]),
            r"row x7: no label",
        ),
        (
            pd.DataFrame({"image": ["a.png"], "label": pd.array([None], dtype="string")}),
            r"row 0: no label",
        ),
    ],
)
def test_sources_in_memory_that_do_not_do(source: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_examples(source, TREE)


def test_class_labels_of_a_data_set_are_their_names(paint: Paint) -> None:
    datasets = pytest.importorskip("datasets")
    names = datasets.ClassLabel(names=["thrush", "blackbird"])
    features = datasets.Features({"image": datasets.Image(), "label": names})
    files = [str(paint("a.png")), str(paint("b.png"))]
    columns = {"image": files, "label": [1, 0]}
    dataset = datasets.Dataset.from_dict(columns, features=features).with_format("numpy")
    examples = load_examples(dataset, TREE)
    # The images lie on the disk: they are read there.
    assert [example.id for example in examples] == files
    assert [str(example.image) for example in examples] == files
    assert [example.label for example in examples] == ["blackbird", "thrush"]
    columns["label"] = [1, -1]
    unlabelled = datasets.Dataset.from_dict(columns, features=features)
    with pytest.raises(DataError, match="row 1: no label"):
        load_examples(unlabelled, TREE)
    with pytest.raises(DataError, match="streamed data set"):
        load_examples(dataset.to_iterable_dataset(), TREE)
    with pytest.raises(DataError, match=r"Choose one of its splits: 'train'"):
        load_examples(datasets.DatasetDict(train=dataset), TREE)


# -- one folder for each class -----------------------------------------------------------------------------------------


def test_a_folder_a_class(paint: Paint, tmp_path: Path) -> None:
    targets = {
        "012.American_robin/x.png": MIGRATORIUS,
        "Plantae/Anas/y.png": TREE.resolve("Plantae/Anas"),
        "Turdus_merula/1.JPG": MERULA,
        "Turdus_merula/2.png": MERULA,
    }
    for name in (".hidden/z.png", *reversed(targets)):
        paint(f"birds/{name}")
    examples = load("folder", tmp_path / "birds")
    assert seen(examples) == list(targets.items())
    assert all(example.image.is_file() for example in examples)


def test_linked_class_folders_are_followed_and_loops_are_not(paint: Paint, tmp_path: Path) -> None:
    paint("elsewhere/a.png")
    root = tmp_path / "birds"
    root.mkdir()
    os.symlink(tmp_path / "elsewhere", root / "bird")
    os.symlink(root, tmp_path / "elsewhere" / "back")
    assert [e.id for e in load("folder", root)] == ["bird/a.png"]


# -- iNaturalist -------------------------------------------------------------------------------------------------------

RANKS = ("kingdom", "phylum", "class", "order", "family", "genus", "name")
BLACKBIRD = "Animalia/Chordata/Aves/Passeriformes/Turdidae/Turdus/Turdus merula"
FLOWER = "Plantae/Tracheophyta/Rosopsida/Ordo/Familia/Turdus/Turdus flos"
INAT = Taxonomy.from_paths([f"life/{BLACKBIRD}", f"life/{FLOWER}"])
LEAVES = [INAT.resolve("Turdus merula"), INAT.resolve("Turdus flos")]


def inat(tmp_path: Path, **changes: Any) -> Path:
    categories = []
    for id, names in enumerate((BLACKBIRD, FLOWER), start=1):
        ranks = dict(zip(RANKS, names.split("/"), strict=True))
        categories.append({"id": id, "common_name": "x", **ranks})
    data: dict[str, Any] = {"categories": categories}
    data["images"] = [{"id": 7, "file_name": "val/a.png"}, {"id": 8, "file_name": "val/b.png"}]
    data["annotations"] = [
        {"id": 1, "image_id": 8, "category_id": 2},
        {"id": 2, "image_id": 7, "category_id": 1},
    ]
    path = tmp_path / "val.json"
    path.write_text(json.dumps(data | changes))
    return path


def test_inat21(tmp_path: Path) -> None:
    examples = load_examples(inat(tmp_path), INAT, images=tmp_path)
    assert seen(examples) == [("val/b.png", LEAVES[1]), ("val/a.png", LEAVES[0])]
    assert [example.label for example in examples] == [FLOWER, BLACKBIRD]
    for example in examples:
        assert example.image == tmp_path / example.id
        assert example.sha256 == ""


def test_coco_categories_without_ranks_go_by_name(tmp_path: Path) -> None:
    categories = [{"id": 1, "name": "Turdus merula"}, {"id": 2, "name": "Turdus flos"}]
    examples = load_examples(inat(tmp_path, categories=categories), INAT)
    assert [example.target for example in examples] == LEAVES[::-1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"annotations": [{"image_id": 99, "category_id": 1}]},
            r"Annotation 1 has an unknown image_id.*99",
        ),
        (
            {"annotations": [{"image_id": 7, "category_id": 99}]},
            r"Annotation 1 has an unknown category_id.*99",
        ),
        (
            {"annotations": [{"image_id": 7, "category_id": 1}, {"image_id": 7, "category_id": 2}]},
            r"has two categories.*'val/a\.png'",
        ),
        ({"annotations": [{"image_id": 7}]}, "problem with 'category_id'"),
        ({"images": None}, "must be lists"),
        ({"images": [{"id": {}}]}, "must be lists"),
    ],
)
def test_malformed_json_is_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        load_examples(inat(tmp_path, **changes), INAT)


@pytest.mark.heavy
def test_the_real_categories_all_have_their_node(
    inat21: Taxonomy, shared_data: Path, tmp_path: Path
) -> None:
    with (shared_data / "inat21" / "inat2021-categories.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    categories = [{**row, "id": number} for number, row in enumerate(rows)]
    data = {
        "images": [{"id": i, "file_name": f"{i}.jpg"} for i in range(len(rows))],
        "annotations": [{"image_id": i, "category_id": i} for i in range(len(rows))],
        "categories": categories,
    }
    path = tmp_path / "train.json"
    path.write_text(json.dumps(data))
    examples = load_examples(path, inat21)
    assert len({e.target for e in examples}) == 10_000
    assert {int(inat21.depth[e.target]) for e in examples} == {7}


def test_photos_that_cannot_be_read_here_are_left_out_with_the_package_that_reads_them(
    paint: Paint, tmp_path: Path, notes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taxtune.images._formats", lambda: ("PNG",))
    for name in ("a.png", "b.HEIC", "c.heic", "d.avif"):
        paint(f"duck/{name}")
    tree = Taxonomy.from_dict({"bird": ["duck", "gull"]})
    assert [example.id for example in load_examples(tmp_path, tree)] == ["duck/a.png"]
    text = "\n".join(notes)
    assert "3 images are left out: AVIF images need Pillow" in text
    assert "HEIF images need pillow-heif: pip install" in text


def test_a_frame_that_lost_a_label_says_how_pandas_keeps_it(paint: Paint) -> None:
    text = f"image,label\n{paint('a.png')},blackbird\n{paint('b.png')},NA\n"
    advice = r"row 1: no label.*\n.*\"NA\" as missing values: .* keep_default_na=False"
    with pytest.raises(DataError, match=advice):
        load_examples(pd.read_csv(io.StringIO(text)), TREE)


def test_days_and_whole_numbers_of_a_sheet_are_labels(paint: Paint, tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    tree = Taxonomy.from_dict({"thing": ["2024-05-01", "12"]})
    rows = [(str(paint("a.png")), pd.Timestamp("2024-05-01")), (str(paint("b.png")), 12.0)]
    days = pd.DataFrame(rows, columns=["image", "label"], dtype=object)
    days.to_excel(tmp_path / "days.xlsx", index=False)
    for source in (tmp_path / "days.xlsx", days):
        examples = load_examples(source, tree)
        labels = [tree.labels[example.target] for example in examples]
        assert labels == ["2024-05-01", "12"]


def test_labels_that_name_nothing_are_told_apart(paint: Paint, tmp_path: Path) -> None:
    labels = ["Blank", "nothing there", "unidentified blackbird", "Blackbird sp.", "Unknown"]
    labels += ["undetermined_sp", "blackbird"]
    rows = [(paint(f"{number}.png").name, label) for number, label in enumerate(labels)]
    with showing(said := Recorder()):
        examples = load_examples(table(tmp_path / "m.csv", rows), TREE)
    names = {example.id: TREE.labels[example.target] for example in examples}
    black = TREE.labels[TREE.resolve("blackbird")]
    root = TREE.labels[0]
    assert names == {"0.png": root, "1.png": root, "2.png": black, "3.png": black, "6.png": black}
    for label, meant in (
        ("Blank", "its root"),
        ("Blackbird sp.", "the group"),
        ("undetermined_sp", "left out"),
    ):
        assert any(
            "1 of 7 labels: " in note and repr(label) in note and meant in note
            for note in said.notes
        )
    with pytest.raises(DataError, match="names no single node"):
        load_examples(table(tmp_path / "m.csv", [("0.png", "unknown cathedral")]), TREE)


def test_all_that_is_wrong_is_told_at_once(paint: Paint, tmp_path: Path) -> None:
    paint("a.png")
    (tmp_path / "broken.png").write_bytes(b"no image")
    paint("b.png")
    shutil.copy(tmp_path / "b.png", tmp_path / "same.png")
    rows = [
        ("a.png", "blackbird"),
        ("a.png", "blakbird"),
        ("broken.png", "cathedral"),
        ("gone.png", "blackbird"),
    ]
    rows += [
        ("b.png", "blackbird"),
        ("same.png", "American robin"),
        ("c.png", ""),
        ("", "blackbird"),
    ]
    with pytest.raises(DataError) as told:
        load_examples(table(tmp_path / "m.csv", rows), TREE)
    for said in (
        "2 rows lack a value", "row 8: no label", "row 9: no image",
        "2 labels name no single node", "'blakbird' (row 3): did you mean 'blackbird'",
        "'cathedral' (row 4)", "may have its root as its label",
        "2 of 5 images cannot be used", "broken.png (m.csv, row 4): This is not an image", "gone.png (m.csv, row 5)",
        "The same image has two labels", "b.png is 'blackbird', same.png is 'American robin'",
    ):  # fmt: skip
        assert said in str(told.value)
