"""Labelled images from every source: manifests, folders, iNaturalist's JSON, lists, frames, data sets."""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import json
import os
import re
import shutil

import pandas as pd
import pytest
from PIL import Image

from taxtune.data import content_hash, load_examples, load_image
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


@pytest.fixture
def paint(tmp_path):
    """Paints images, of which no two are alike, and returns their paths."""
    shades = itertools.count(1)

    def make(*names):
        paths = [tmp_path / name for name in names]
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            picture(next(shades)).save(path, format="PNG")
        return paths

    return make


def picture(shade):
    return Image.new("RGB", (16, 16), (shade, 0, 0))


def as_frame(rows):
    return pd.DataFrame(rows, columns=["image", "label"])


def table(path, rows, sep=","):
    as_frame(rows).to_csv(path, index=False, sep=sep)
    return path


def ids(examples):
    return [example.id for example in examples]


def targets(examples):
    return [example.target for example in examples]


def labels(examples):
    return [example.label for example in examples]


def check_files(examples, folder):
    """Checks that each example has the path and the content of the file of its name."""
    for example in examples:
        assert example.image == folder / example.id
        assert example.sha256 == content_hash(example.image)


def load(path, **options):
    """Returns the examples of a source that gives rise to no note."""
    with showing(Recorder()) as display:
        examples = load_examples(path, TREE, **options)
    assert display.notes == []
    return examples


# -- manifests ---------------------------------------------------------------------------------------------------------


def test_a_csv_manifest(paint, tmp_path):
    paint("a.png", "sub/b.png")
    rows = [["a.png", "Turdus merula"], ["sub/b.png", " american ROBIN "]]
    examples = load(table(tmp_path / "m.csv", rows), kind="manifest")
    assert ids(examples) == ["a.png", "sub/b.png"]
    assert targets(examples) == [MERULA, MIGRATORIUS]
    assert labels(examples) == ["Turdus merula", "american ROBIN"]
    check_files(examples, tmp_path)


def test_other_forms_of_manifest_say_the_same(paint, tmp_path):
    paint("a,1.png", "b.png")
    rows = [["a,1.png", "thrush"], ["b.png", "life/Plantae/Anas"]]
    comma = table(tmp_path / "m.csv", rows)
    expected = load(comma)
    assert load(table(tmp_path / "m.tsv", rows, sep="\t")) == expected
    lines = tmp_path / "m.jsonl"
    records = [{"label": label, "image": image, "other": [1]} for image, label in rows]
    lines.write_text("\n\n".join(map(json.dumps, records)) + "\n")
    assert load(lines) == expected
    marked = tmp_path / "bom.csv"
    marked.write_bytes(b"\xef\xbb\xbf" + comma.read_bytes())
    assert load(marked) == expected
    excel = tmp_path / "excel.csv"
    text = 'Image;LABEL\r\n\r\n"a,1.png";thrush\r\n"b.png";life/Plantae/Anas\r\n'
    excel.write_bytes(text.encode("utf-16"))
    assert load(excel) == expected
    sheet = tmp_path / "m.xlsx"
    frame = pd.DataFrame([*rows, ["", ""]], columns=["Image", "Label"])
    frame.to_excel(sheet, index=False)
    assert load(sheet) == expected


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
def test_a_list_without_columns_is_read_by_a_pattern(pattern, lines, paint, tmp_path):
    names = [re.fullmatch(pattern, line)["image"] + ".jpg" for line in lines]
    photos = tmp_path / "photos"
    paint(*(f"photos/{name}" for name in names))
    listed = tmp_path / "test.txt"
    listed.write_bytes("\r\n".join(["", *lines, ""]).encode())
    examples = load(listed, images=photos, pattern=pattern)
    assert ids(examples) == names
    assert targets(examples) == [MERULA, MIGRATORIUS]
    check_files(examples, photos)


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
def test_patterns_and_lines_that_do_not_fit_are_told(pattern, message, tmp_path):
    file = tmp_path / "list.txt"
    file.write_text("# all\na,bird\nb.png bird\n")
    with pytest.raises(DataError, match=message):
        load(file, pattern=pattern)


def test_all_labels_that_are_not_on_the_tree_are_named_with_rows_and_near_names(paint, tmp_path):
    names = ["blackbrid", "bird", "blackbrid", "Anas", "xyzzy", "a/b"]
    rows = [[f"{i}.png", name] for i, name in enumerate(names)]
    with pytest.raises(DataError) as caught:
        load(table(tmp_path / "m.csv", rows))
    lines = str(caught.value).splitlines()
    assert lines[0].endswith("m.csv: 4 labels name no single node of the taxonomy:")
    assert lines[1] == "  'blackbrid' (row 2, row 4): did you mean 'blackbird'?"
    paths = "2 nodes are called 'Anas'. Give the path: life/Aves/Anatidae/Anas, "
    assert lines[2].startswith(f"  'Anas' (row 5): {paths}")
    assert lines[3] == "  'xyzzy' (row 6): no similar name is on the taxonomy."
    assert lines[4].startswith("  'a/b' (row 7)")


def test_all_bad_images_are_named(paint, tmp_path):
    paint("good.png")
    (tmp_path / "empty.png").write_bytes(b"")
    rows = [[name, "bird"] for name in ("good.png", "gone.png", "empty.png")]
    with pytest.raises(ImageError, match="2 of 3 images cannot be used") as caught:
        load(table(tmp_path / "m.csv", rows))
    message = str(caught.value)
    assert "gone.png (m.csv, row 3): The image file does not exist" in message
    assert "empty.png (m.csv, row 4): The image file is empty" in message


def test_bad_images_are_left_out_and_named_where_that_is_asked_for(paint, tmp_path, notes):
    paint("good.png")
    (tmp_path / "empty.png").write_bytes(b"")
    rows = [[name, "bird"] for name in ("gone.png", "good.png", "empty.png")]
    path = table(tmp_path / "m.csv", rows)
    (example,) = load_examples(path, TREE, skip_broken=True)
    assert example.id == "good.png"
    check_files([example], tmp_path)
    (note,) = notes
    assert note.startswith("2 images cannot be used and are left out:")
    assert "gone.png (m.csv, row 2): The image file does not exist" in note
    assert "empty.png (m.csv, row 4): The image file is empty" in note
    none = table(tmp_path / "none.csv", rows[:1])
    with pytest.raises(ImageError, match="None of the 1 images can be used"):
        load_examples(none, TREE, skip_broken=True)


def test_one_image_under_two_labels_is_refused(paint, tmp_path):
    shutil.copy(*paint("a.png"), tmp_path / "copy.png")
    path = table(tmp_path / "m.csv", [["a.png", "blackbird"], ["copy.png", "American robin"]])
    with pytest.raises(DataError, match=r"a\.png is 'blackbird', copy\.png is 'American robin'"):
        load(path)


def test_only_the_domain_is_kept_and_the_rest_is_counted(paint, tmp_path, notes):
    paint("a.png", "b.png", "c.png")
    rows = [["a.png", "blackbird"], ["b.png", "Plantae"], ["c.png", "bird"]]
    path = table(tmp_path / "m.csv", rows)
    kept = load_examples(path, TREE, domain=TREE.resolve("Aves"))
    assert ids(kept) == ["a.png", "c.png"]
    assert notes == ["1 of 3 images are outside 'Aves' and are left out: Plantae."]
    nothing = "None of the 3 images shows anything below 'Turdus migratorius'"
    with pytest.raises(DataError, match=nothing):
        load(path, domain=MIGRATORIUS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "The manifest file is empty"),
        (b"image,label\n", "a header but no rows"),
        (b"image,lable\na,bird\n", "'label'. There are 'image', 'lable'. Did you mean 'lable'"),
        (b"image,label,Label\na,bird,thrush\n", r"m\.csv:1: Two columns have the same name"),
        (
            b"image,label\na,\n,b\nc,d\n",
            r"2 rows lack a value:\n  row 2: no label\n  row 3: no image",
        ),
        (b"image,label\na.png,bird,oops\n", r"m\.csv:2: The row has 3 cells, the header 2"),
        (b'image,label\n"a.png,bird\n', r"m\.csv:2: The row cannot be read as CSV"),
        (b"image,label\n\xff\xfe,bird\n", r"m\.csv:2: The manifest file is not UTF-8"),
    ],
)
def test_malformed_tables_are_refused(text, message, tmp_path):
    file = tmp_path / "m.csv"
    file.write_bytes(text)
    with pytest.raises(DataError, match=message):
        load(file, kind="manifest")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, r"m\.jsonl:1: The line is not a JSON object"),
        ('{"image": "a.png", "label": "bird"}\n{"image": \n', r":2: The line is not a JSON object"),
        ('["a.png", "bird"]\n', r"m\.jsonl:1: Entry 1 of the list is not a JSON object"),
        ('{"image": "a.png"}\n', r"m\.jsonl: There is no column 'label'"),
        ('{"image": "a.png", "label": null}\n', "row 1: no label"),
    ],
)
def test_malformed_records_are_refused(text, message, tmp_path):
    file = tmp_path / "m.jsonl"
    file.write_text(text)
    with pytest.raises(DataError, match=message):
        load(file, kind="manifest")


def test_a_manifest_in_an_unknown_format_needs_a_pattern(tmp_path):
    file = tmp_path / "m.txt"
    file.write_text("a.png bird\n")
    endings = "end in .csv, .*.jsonl, .ndjson, not in '.txt'.*`pattern`"
    with pytest.raises(DataError, match=endings):
        load(file, kind="manifest")


def test_a_manifest_that_does_not_exist(tmp_path):
    with pytest.raises(DataError, match="manifest file does not exist"):
        load(tmp_path / "gone.csv", kind="manifest")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "folder"}, r"1 images are not in a class folder: stray\.png"),
        ({"kind": "manifest", "images": "gone"}, "folder of the images does not exist"),
        ({"kind": "manifest"}, "This is a folder and no manifest file"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message, paint, tmp_path):
    paint("stray.png")
    with pytest.raises(DataError, match=message):
        load_examples(tmp_path, TREE, **options)


# -- lists, frames and data sets ---------------------------------------------------------------------------------------


def as_dataset(rows):
    datasets = pytest.importorskip("datasets")
    images = [image for image, _ in rows]
    texts = [label for _, label in rows]
    are_paths = all(isinstance(image, str) for image in images)
    kind = datasets.Value("string") if are_paths else datasets.Image()
    features = datasets.Features({"image": kind, "label": datasets.Value("string")})
    return datasets.Dataset.from_dict({"image": images, "label": texts}, features=features)


in_memory = pytest.mark.parametrize(
    "wrap", [list, as_frame, as_dataset], ids=["list", "frame", "dataset"]
)


@in_memory
def test_paths_in_memory_are_read_as_from_a_manifest(wrap, paint, tmp_path):
    path, _ = paint("a.png", "b.png")
    rows = [(str(path), "Turdus merula"), ("b.png", " american ROBIN ")]
    examples = load_examples(wrap(rows), TREE, images=tmp_path)
    assert ids(examples) == [str(path), "b.png"]
    assert targets(examples) == [MERULA, MIGRATORIUS]
    assert labels(examples) == ["Turdus merula", "american ROBIN"]
    check_files(examples, tmp_path)


def written_at(folder):
    """Returns when each image of a folder was written."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*.png")}


@in_memory
def test_images_in_memory_are_written_once_under_their_content(wrap, tmp_path, notes):
    folder = tmp_path / "images"
    rows = [
        (picture(1), "blackbird"),
        (picture(2), "American robin"),
        (picture(1), "Turdus merula"),
    ]
    examples = load_examples(wrap(rows), TREE, folder=folder)
    assert targets(examples) == [MERULA, MIGRATORIUS]
    pixels = [load_image(example.image).getpixel((0, 0)) for example in examples]
    assert pixels == [(1, 0, 0), (2, 0, 0)]
    (note,) = notes
    assert "1 image is listed more than once with the same label" in note
    before = written_at(folder)
    assert set(before) == {example.image for example in examples}
    turned = load_examples(wrap(rows[1::-1]), TREE, folder=folder)
    assert turned == examples[::-1]
    assert written_at(folder) == before
    with pytest.raises(DataError, match=r"images are not stored in files\. Give `folder`"):
        load_examples(wrap(rows), TREE)


@in_memory
def test_bytes_of_image_files_are_written_as_they_are(wrap, tmp_path):
    stream = io.BytesIO()
    picture(9).save(stream, "JPEG")
    content = stream.getvalue()
    rows = [({"bytes": content, "path": None}, "bird")]
    (example,) = load_examples(wrap(rows), TREE, folder=tmp_path)
    assert example.image.read_bytes() == content
    assert example.sha256 == hashlib.sha256(content).hexdigest()
    assert example.image.suffix == ".jpeg"
    assert example.image.stem == example.sha256


@in_memory
def test_labels_and_rows_that_are_wrong_are_all_named(wrap, paint, tmp_path):
    first, second, third = map(str, paint("0.png", "1.png", "2.png"))
    rows = [(first, "bird"), (second, "blackbrid"), (third, "blackbrid")]
    meant = r"'blackbrid' \((row|item) 1, (row|item) 2\): did you mean 'blackbird'\?"
    with pytest.raises(DataError, match=meant):
        load_examples(wrap(rows), TREE)
    with pytest.raises(DataError, match=r"(?s)2 rows lack a value.* 0: no label.* 2: no label\n"):
        load_examples(wrap([(first, None), rows[0], (second, "")]), TREE)
    with pytest.raises((DataError, ImageError), match=r"(row|item) 1: no image"):
        load_examples(wrap([rows[0], (None, "bird")]), TREE)
    gone = (str(tmp_path / "gone.png"), "bird")
    missing = r"gone\.png \(\w+, (row|item) 1\): The image file does not exist"
    with pytest.raises(ImageError, match=missing):
        load_examples(wrap([rows[0], gone]), TREE)
    with pytest.raises(DataError, match="no images in the data"):
        load_examples(wrap([]), TREE)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (("a.png", "bird", 3), "list: Item 0 is not a pair of an image and a label"),
        ("a.png", "Item 0 is not a pair"),
        ((3.5 + 2j, "bird"), r"item 0: no image \(got \(3\.5\+2j\)\)"),
        (({"bytes": None, "path": None}, "bird"), r"item 0: no image\nFill in"),
        (("a.png", ["Aves", "Turdidae"]), r"item 0: no label \(got \['Aves', 'Turdidae'\]\)"),
    ],
)
def test_items_that_are_no_examples_are_refused(item, message):
    with pytest.raises(DataError, match=message):
        load_examples([item], TREE)


def test_a_frame_without_the_columns_is_refused():
    frame = pd.DataFrame({"file": ["a.png"], "label": ["bird"]})
    columns = r"DataFrame: There is no column 'image'\. There are 'file', 'label'\."
    with pytest.raises(DataError, match=columns):
        load_examples(frame, TREE)


@pytest.mark.parametrize("labels", [[float("nan")], pd.array([None], dtype="string")])
def test_a_frame_without_a_label_is_refused(labels):
    frame = pd.DataFrame({"image": ["a.png"], "label": labels}, index=["x7"])
    with pytest.raises(DataError, match=r"row x7: no label"):
        load_examples(frame, TREE)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (7, "A int cannot be used as a source of images"),
        ({"train": [], "test": []}, r"Choose one of its splits: 'train', 'test'\."),
    ],
)
def test_what_is_no_source_of_images_is_refused(source, message):
    with pytest.raises(DataError, match=message):
        load_examples(source, TREE)


def test_class_labels_of_a_data_set_are_their_names(paint):
    datasets = pytest.importorskip("datasets")
    names = datasets.ClassLabel(names=["thrush", "blackbird"])
    features = datasets.Features({"image": datasets.Image(), "label": names})
    files = [*map(str, paint("a.png", "b.png"))]
    columns = {"image": files, "label": [1, 0]}
    dataset = datasets.Dataset.from_dict(columns, features=features).with_format("numpy")
    examples = load_examples(dataset, TREE)
    # The images lie on the disk: they are read there.
    assert ids(examples) == files
    assert [str(example.image) for example in examples] == files
    assert labels(examples) == ["blackbird", "thrush"]
    columns["label"] = [1, -1]
    unlabelled = datasets.Dataset.from_dict(columns, features=features)
    with pytest.raises(DataError, match="row 1: no label"):
        load_examples(unlabelled, TREE)
    with pytest.raises(DataError, match="streamed data set"):
        load_examples(dataset.to_iterable_dataset(), TREE)
    with pytest.raises(DataError, match=r"Choose one of its splits: 'train'"):
        load_examples(datasets.DatasetDict(train=dataset), TREE)


# -- one folder for each class -----------------------------------------------------------------------------------------


def test_a_folder_a_class(paint, tmp_path):
    meant = {
        "012.American_robin/x.png": MIGRATORIUS,
        "Plantae/Anas/y.png": TREE.resolve("Plantae/Anas"),
        "Turdus_merula/1.JPG": MERULA,
        "Turdus_merula/2.png": MERULA,
    }
    birds = tmp_path / "birds"
    paint("birds/.hidden/z.png", *(f"birds/{name}" for name in reversed(meant)))
    examples = load(birds, kind="folder")
    assert ids(examples) == list(meant)
    assert targets(examples) == list(meant.values())
    check_files(examples, birds)


def test_linked_class_folders_are_followed_and_loops_are_not(paint, tmp_path):
    paint("elsewhere/a.png")
    root = tmp_path / "birds"
    root.mkdir()
    os.symlink(tmp_path / "elsewhere", root / "bird")
    os.symlink(root, tmp_path / "elsewhere" / "back")
    assert ids(load(root, kind="folder")) == ["bird/a.png"]


# -- iNaturalist -------------------------------------------------------------------------------------------------------

RANKS = ("kingdom", "phylum", "class", "order", "family", "genus", "name")
BLACKBIRD = "Animalia/Chordata/Aves/Passeriformes/Turdidae/Turdus/Turdus merula"
FLOWER = "Plantae/Tracheophyta/Rosopsida/Ordo/Familia/Turdus/Turdus flos"
INAT = Taxonomy.from_paths([f"life/{BLACKBIRD}", f"life/{FLOWER}"])
LEAVES = [INAT.resolve("Turdus merula"), INAT.resolve("Turdus flos")]


IMAGES = [{"id": 7, "file_name": "val/a.png"}, {"id": 8, "file_name": "val/b.png"}]


def annotation(image, category):
    return {"image_id": image, "category_id": category}


@pytest.fixture
def inat(tmp_path):
    """Writes the JSON of a data set of two images and two categories, some of whose lists are others."""

    def write(**changes):
        categories = []
        for id, names in enumerate((BLACKBIRD, FLOWER), start=1):
            ranks = dict(zip(RANKS, names.split("/"), strict=True))
            categories.append({"id": id, "common_name": "x", **ranks})
        lists = {"categories": categories, "images": IMAGES}
        lists["annotations"] = [annotation(8, 2), annotation(7, 1)]
        path = tmp_path / "val.json"
        path.write_text(json.dumps(lists | changes))
        return path

    return write


def test_inat21(inat, tmp_path):
    examples = load_examples(inat(), INAT, images=tmp_path)
    assert ids(examples) == ["val/b.png", "val/a.png"]
    assert targets(examples) == LEAVES[::-1]
    assert labels(examples) == [FLOWER, BLACKBIRD]
    for example in examples:
        assert example.image == tmp_path / example.id
        assert example.sha256 == ""


def test_coco_categories_without_ranks_go_by_name(inat):
    categories = [{"id": 1, "name": "Turdus merula"}, {"id": 2, "name": "Turdus flos"}]
    assert targets(load_examples(inat(categories=categories), INAT)) == LEAVES[::-1]


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ([annotation(99, 1)], r"Annotation 1 has an unknown image_id.*99"),
        ([annotation(7, 99)], r"Annotation 1 has an unknown category_id.*99"),
        ([annotation(7, 1), annotation(7, 2)], r"has two categories.*'val/a\.png'"),
        ([{"image_id": 7}], "problem with 'category_id'"),
    ],
)
def test_malformed_annotations_are_refused(annotations, message, inat):
    with pytest.raises(DataError, match=message):
        load_examples(inat(annotations=annotations), INAT)


@pytest.mark.parametrize("images", [None, [{"id": {}}]])
def test_malformed_images_are_refused(images, inat):
    with pytest.raises(DataError, match="must be lists"):
        load_examples(inat(images=images), INAT)


@pytest.mark.heavy
def test_the_real_categories_all_have_their_node(inat21, shared_data, inat):
    with (shared_data / "inat21" / "inat2021-categories.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    categories = [{**row, "id": number} for number, row in enumerate(rows)]
    images = [{"id": number, "file_name": f"{number}.jpg"} for number in range(len(rows))]
    annotations = [annotation(number, number) for number in range(len(rows))]
    file = inat(categories=categories, images=images, annotations=annotations)
    nodes = set(targets(load_examples(file, inat21)))
    assert len(nodes) == 10_000
    assert {int(inat21.depth[node]) for node in nodes} == {7}


def test_photos_that_cannot_be_read_here_are_left_out_with_the_package_that_reads_them(
    paint, tmp_path, notes, monkeypatch
):
    monkeypatch.setattr("taxtune.images._formats", lambda: ("PNG",))
    paint("duck/a.png", "duck/b.HEIC", "duck/c.heic", "duck/d.avif")
    tree = Taxonomy.from_dict({"bird": ["duck", "gull"]})
    assert ids(load_examples(tmp_path, tree)) == ["duck/a.png"]
    text = "\n".join(notes)
    assert "3 images are left out: AVIF images need Pillow" in text
    assert "HEIF images need pillow-heif: pip install" in text


def test_a_frame_that_lost_a_label_says_how_pandas_keeps_it(paint):
    known, lost = paint("a.png", "b.png")
    text = f"image,label\n{known},blackbird\n{lost},NA\n"
    advice = r"row 1: no label.*\n.*\"NA\" as missing values: .* keep_default_na=False"
    with pytest.raises(DataError, match=advice):
        load_examples(pd.read_csv(io.StringIO(text)), TREE)


def test_days_and_whole_numbers_of_a_sheet_are_labels(paint, tmp_path):
    pytest.importorskip("openpyxl")
    tree = Taxonomy.from_dict({"thing": ["2024-05-01", "12"]})
    day, number = map(str, paint("a.png", "b.png"))
    rows = [(day, pd.Timestamp("2024-05-01")), (number, 12.0)]
    frame = as_frame(rows).astype(object)
    sheet = tmp_path / "days.xlsx"
    frame.to_excel(sheet, index=False)
    for source in (sheet, frame):
        nodes = targets(load_examples(source, tree))
        assert [tree.labels[node] for node in nodes] == ["2024-05-01", "12"]


def test_labels_that_name_nothing_are_told_apart(paint, tmp_path, notes):
    names = ["Blank", "nothing there", "unidentified blackbird", "Blackbird sp.", "Unknown"]
    names += ["undetermined_sp", "blackbird"]
    rows = [(f"{number}.png", name) for number, name in enumerate(names)]
    paint(*(image for image, _ in rows))
    examples = load_examples(table(tmp_path / "m.csv", rows), TREE)
    assert ids(examples) == ["0.png", "1.png", "2.png", "3.png", "6.png"]
    assert targets(examples) == [TREE.root, TREE.root, MERULA, MERULA, MERULA]
    for label, meant in (
        ("Blank", "its root"),
        ("Blackbird sp.", "the group"),
        ("undetermined_sp", "left out"),
    ):
        (note,) = [note for note in notes if repr(label) in note]
        assert "1 of 7 labels: " in note
        assert meant in note
    with pytest.raises(DataError, match="names no single node"):
        load_examples(table(tmp_path / "m.csv", [("0.png", "unknown cathedral")]), TREE)


def test_all_that_is_wrong_is_told_at_once(paint, tmp_path):
    _, original = paint("a.png", "b.png")
    shutil.copy(original, tmp_path / "same.png")
    (tmp_path / "broken.png").write_bytes(b"no image")
    rows = [
        ("a.png", "blackbird"),
        ("a.png", "blakbird"),
        ("broken.png", "cathedral"),
        ("gone.png", "blackbird"),
        ("b.png", "blackbird"),
        ("same.png", "American robin"),
        ("c.png", ""),
        ("", "blackbird"),
    ]
    with pytest.raises(DataError) as caught:
        load_examples(table(tmp_path / "m.csv", rows), TREE)
    message = str(caught.value)
    for part in (
        "2 rows lack a value",
        "row 8: no label",
        "row 9: no image",
        "2 labels name no single node",
        "'blakbird' (row 3): did you mean 'blackbird'",
        "'cathedral' (row 4)",
        "may have its root as its label",
        "2 of 5 images cannot be used",
        "broken.png (m.csv, row 4): This is not an image",
        "gone.png (m.csv, row 5)",
        "The same image has two labels",
        "b.png is 'blackbird', same.png is 'American robin'",
    ):
        assert part in message
