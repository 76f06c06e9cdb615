"""`taxtune init` as a new user runs it: whatever recipe it writes passes the dry run, and what cannot work it says."""

from __future__ import annotations

import shlex
from collections import Counter
from itertools import cycle, islice
from pathlib import Path

import pytest
from PIL import Image

from taxtune import loading
from taxtune.recipe import load_recipe
from taxtune.wordnet import ENVIRONMENT
from tests.authoring.food_wordnet import food_wordnet
from tests.cli.commands import run_captured
from tests.scenes import scene

SHADES = ("scarlet", "crimson", "navy", "azure")
TREE = """\
path,rank,aliases
colour,,
colour/reddish,family,
colour/reddish/scarlet,shade,vermilion
colour/reddish/crimson,shade,
colour/bluish,family,
colour/bluish/navy,shade,
colour/bluish/azure,shade,
"""
LIFE = """\
path,rank,aliases
life,,
life/Animalia,kingdom,
life/Animalia/Chordata,phylum,
life/Animalia/Chordata/Aves,class,birds
life/Animalia/Chordata/Aves/Anseriformes,order,waterfowl
life/Animalia/Chordata/Aves/Anseriformes/mallard,species,
life/Animalia/Chordata/Aves/Passeriformes,order,songbirds
life/Animalia/Chordata/Aves/Passeriformes/robin,species,
life/Animalia/Chordata/Aves/Passeriformes/wren,species,
life/Plantae,kingdom,
"""
MODEL = ("--model", "builtin:fieldguide")


def picture(file, number):
    """Draws an image like no other number's."""
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (12, 12), (number % 256, number // 256, 77)).save(file)
    return file


def in_folders(folder, counts):
    """Draws so many images in each sub-folder."""
    number = 0
    for label, count in counts.items():
        for _ in range(count):
            picture(folder / label / f"{number}.png", number)
            number += 1
    return folder


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The current folder, with a tree of colours in it and no way to the hub."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(loading._Hub, "until", 0.0)
    monkeypatch.setattr(loading._Hub, "out_of_reach", False)
    (tmp_path / "tree.csv").write_text(TREE)
    return tmp_path


def init(*arguments, taxonomy="tree.csv", recipe="mine.yaml"):
    tree = () if taxonomy is None else ("--taxonomy", taxonomy)
    return run_captured("init", recipe, *tree, *arguments)


def written(done, recipe="mine.yaml"):
    """The recipe that was written, once its dry run has passed."""
    assert done.code == 0, done.err
    assert f"Next: taxtune tune {shlex.quote(recipe)} --dry-run" in done.out
    dry = run_captured("tune", recipe, "--dry-run")
    assert dry.code == 0, dry.out + dry.err
    assert "All checks passed" in dry.out
    return load_recipe(recipe)


def refused(done, *words):
    assert done.code == 2, done.out
    missing = [word for word in words if word not in done.err]
    assert not missing, f"{missing} not in: {done.err}"
    assert not Path("mine.yaml").exists(), "nothing is written"


@pytest.mark.parametrize(
    ("images", "tuning", "heldout", "rest"),
    [
        (6, 3, 3, "none left for `taxtune calibrate` (below 150 photos)"),
        (300, 120, 105, "75 left for `taxtune calibrate`"),
    ],
)
def test_the_splits_fit_the_images(here, images, tuning, heldout, rest):
    in_folders(here / "photos", Counter(islice(cycle(SHADES), images)))
    done = init("--data", "photos", *MODEL)
    recipe = written(done)
    data = recipe.data
    assert (data.tuning, data.heldout, data.first_rung) == (None, None, 20)
    aim = recipe.objective
    assert (aim.kind, aim.hp_target, aim.confidence_level) == ("hr_at_hp", 0.98, 0.9)
    splits = f"{tuning} for tuning, {heldout} held out for the final comparison, {rest}"
    assert splits in " ".join(done.out.split())
    assert max(map(len, done.out.splitlines())) <= 80


def test_too_few_images_are_refused(here):
    in_folders(here / "photos", {"navy": 3, "azure": 2})
    done = init("--data", "photos", *MODEL)
    reason = "There are 5 different images of 2 labels: too few for a run"
    refused(done, reason, "at least 6 images")


def test_a_file_that_is_no_image_is_refused_here_and_not_at_the_dry_run(here):
    in_folders(here / "photos", dict.fromkeys(SHADES, 3))
    (here / "photos/navy/broken.png").write_text("no image")
    refused(init("--data", "photos", *MODEL), "broken.png", "add --skip-broken")
    done = init("--data", "photos", *MODEL, "--skip-broken")
    assert (
        "1 image cannot be used and is left out:\n  photos/navy/broken.png: This is not an image"
        in done.err
    )
    assert "images    12 of 13" in done.out
    assert written(done).data.skip_broken, "the dry run, and the run, leave it out too"


def manifest(folder, header, row, images=""):
    lines = [header]
    for n in range(12):
        picture(folder / images / f"{n}.png", n)
        lines.append(row(n, SHADES[n % 4]))
    file = folder / "list.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.mark.parametrize(
    ("header", "row", "columns"),
    [
        ("image,label", lambda n, shade: f"{n}.png,{shade}", ("image", "label")),
        ("File;Species", lambda n, shade: f"{n}.png;{shade}", ("file", "species")),
        ("row,where,class", lambda n, shade: f"{n},{n}.png,{shade}", ("where", "class")),
        ("image,label,class", lambda n, shade: f"{n}.png,{shade},{n % 2}", ("image", "label")),
    ],
)
def test_columns_are_found_by_what_they_hold_and_said(here, header, row, columns):
    manifest(here, header, row)
    done = init("--data", "list.csv", *MODEL)
    recipe = written(done)
    assert (recipe.data.image_column, recipe.data.label_column) == columns
    images, labels = columns
    said = f"The images are taken from the column {images!r} and the labels from {labels!r}."
    assert (said in done.err) is (columns != ("image", "label")), "never silently"


def test_labels_that_are_not_on_the_tree_are_listed_with_what_may_be_meant(here):
    shades = ("scarlett", "navy", "azure", "turquoise")
    manifest(here, "image,label", lambda n, shade: f"{n}.png,{shades[n % 4]}")
    done = init("--data", "list.csv", *MODEL)
    refused(
        done,
        "2 labels name no single node",
        "'scarlett' (row 2, row 6, row 10): did you mean 'scarlet'?",
        "'turquoise' (row 5, row 9, row 13): no similar name",
        "Correct the labels",
    )
    table = here / "list.csv"
    table.write_text(table.read_text().replace("scarlett", "scarlet"))
    (here / "tree.csv").write_text(TREE + "colour/bluish/turquoise,shade,\n")
    written(init("--data", "list.csv", *MODEL))


def test_the_domain_the_ranks_and_the_examples_are_those_above_the_labels(here):
    (here / "tree.csv").write_text(LIFE)
    in_folders(here / "photos", {"mallard": 6, "robin": 6})
    done = init("--data", "photos", *MODEL)
    recipe = written(done)
    assert recipe.taxonomy.domain is None, "what is default is not written"
    prompt = recipe.prompt
    assert (prompt.domain, prompt.question) == ("bird", "What bird is this?")
    assert prompt.ranks == ("order", "species")
    assert prompt.examples == ("bird", "songbirds", "wren"), "a leaf that no image shows"
    assert "life/Animalia/Chordata/Aves, in a word: bird" in done.out


@pytest.mark.parametrize(
    ("root", "asked", "word"),
    [
        ("bird", (), "bird"),
        ("Aves", (), "bird"),
        ("thing", (), "object"),
        ("bird", ("--domain", "duck"), "duck"),
    ],
)
def test_what_is_printed_is_what_is_written(here, root, asked, word):
    (here / "tree.csv").write_text(f"path,rank\n{root}/a/Mallard,species\n{root}/b/Teal,species\n")
    in_folders(here / "photos", {"Mallard": 6, "Teal": 6})
    done = init("--data", "photos", *MODEL, *asked)
    recipe = written(done)
    prompt = recipe.prompt
    assert (prompt.domain, prompt.question) == (word, f"What {word} is this?")
    domain = root if word == root else f"{root}, in a word: {word}"
    assert f"domain    {domain}\n" in done.out


def test_labels_that_wordnet_lacks_are_listed(here, monkeypatch):
    monkeypatch.setenv(ENVIRONMENT, food_wordnet(here / "wordnet").place)
    in_folders(here / "photos", {"pizza": 4, "cheesecake": 4, "chowder": 4})
    done = init("--data", "photos", *MODEL, taxonomy=None)
    assert "below the root, since WordNet lacks them: pizza" in done.err


def test_without_a_tree_wordnet_gives_one_beside_the_recipe(here, monkeypatch):
    monkeypatch.setenv(ENVIRONMENT, food_wordnet(here / "wordnet").place)
    in_folders(here / "photos", {"pizza": 4, "cake": 4, "ice cream": 4})
    (here / "sub").mkdir()

    def dishes(*more):
        return init("--data", "photos", *MODEL, *more, taxonomy=None, recipe="sub/dishes.yaml")

    done = dishes()
    assert written(done, "sub/dishes.yaml").taxonomy.path == "dishes-tree.csv"
    assert "Made the tree sub/dishes-tree.csv from WordNet's hypernyms" in done.err
    assert "taxtune taxonomy show sub/dishes-tree.csv" in done.err
    assert "dishes-tree.synsets.csv" in done.err
    assert run_captured("taxonomy", "check", "sub/dishes-tree.csv").code == 0
    (here / "sub/dishes.yaml").unlink()
    again = dishes()
    assert again.code == 2, "a tree that a user may have corrected is not written over"
    assert "Use it (--taxonomy sub/dishes-tree.csv)" in again.err
    written(dishes("--force"), "sub/dishes.yaml")


def test_a_flat_made_tree_has_the_group_of_an_unnamed_kind_and_no_node_of_nothing(
    here, monkeypatch
):
    monkeypatch.setenv(ENVIRONMENT, food_wordnet(here / "wordnet").place)
    labels = (
        "pizza",
        "cake",
        "ice cream",
        "unidentified_dessert",
        "Empty",
        "nothing there",
        "unknown",
    )
    in_folders(here / "photos", dict.fromkeys(labels, 3))
    done = init("--data", "photos", *MODEL, taxonomy=None)
    written(done)
    tree = (here / "mine-tree.csv").read_text().casefold()
    assert "dessert" in tree
    assert not any(word in tree for word in ("empty", "nothing", "unknown", "unidentified"))
    assert done.err.count("is nothing of the tree") == 2


def test_a_model_behind_an_api_is_told_from_a_checkpoint(here):
    in_folders(here / "photos", dict.fromkeys(SHADES, 3))
    name = "HuggingFaceTB/SmolVLM-Instruct"
    refused(init("--data", "photos", "--model", name), f"Write local:{name}")
    assert init("--data", "photos", "--model", "openai/gpt-4o").code == 0
    vlm = load_recipe("mine.yaml").vlm
    assert (vlm.kind, vlm.model) == ("api", "openai/gpt-4o")


def test_a_model_that_is_not_here_is_told_before_the_dry_run(here):
    in_folders(here / "photos", dict.fromkeys(SHADES, 3))
    done = init("--data", "photos")
    assert done.code == 0, done.err
    model = load_recipe("mine.yaml").vlm.model
    assert f"model     {model}" in done.out
    assert f"{model!r} is not on this machine, and HF_HUB_OFFLINE is set." in done.err


def test_nothing_is_overwritten_unasked(here):
    in_folders(here / "photos", dict.fromkeys(SHADES, 3))
    Path("mine.yaml").write_text("mine")
    done = init("--data", "photos", *MODEL)
    assert done.code == 2
    assert "--force" in done.err
    assert Path("mine.yaml").read_text() == "mine"
    written(init("--data", "photos", *MODEL, "--force"))


def test_a_commented_line_names_a_chat_model_that_writes_the_templates(here):
    photos = in_folders(here / "photos", dict.fromkeys(SHADES, 3))
    assert written(init("--data", photos, *MODEL)).proposer.kind == "fragments"
    recipe = Path("mine.yaml")
    (line,) = (line for line in recipe.read_text().splitlines() if line.startswith("# proposer:"))
    recipe.write_text(recipe.read_text().replace(line, line.removeprefix("# ")))
    proposer = load_recipe(recipe).proposer
    assert (proposer.kind, proposer.model) == ("llm", "openai/gpt-5-mini")


def in_bursts(here, groups):
    """Writes a manifest of 48 photos in so many bursts, of which one is saved twice."""
    rows = ["image,label,deployment,Burst_ID"]
    for number in range(48):
        picture(here / f"{number}.png", number)
        rows.append(f"{number}.png,{SHADES[number % 4]},{number % 4},{number % groups}")
    for name in ("0.png", "1.png"):
        scene(5, size=(64, 48)).save(here / name)
    scene(5, size=(64, 48)).save(here / "1.png", compress_level=1)
    (here / "photos.csv").write_text("\n".join(rows))


def test_bursts_are_groups_of_the_recipe_and_copies_are_counted(here):
    in_bursts(here, groups=24)
    done = init("--data", "photos.csv", *MODEL)
    assert written(done).data.group == "burst_id"
    assert "48 images are of 24 groups by 'burst_id'; `data.group: burst_id`" in done.err
    assert "Copies of other images: 1" in done.err
    dry = run_captured("tune", "mine.yaml", "--dry-run")
    # Two bursts are one, since a photo of one is a copy of a photo of the other.
    assert "48 images are of 23 groups by 'burst_id'." in dry.err
    assert "Copies of other images: 1" in dry.err


def test_a_few_groups_are_noted_and_left_to_the_user(here):
    in_bursts(here, groups=12)
    done = init("--data", "photos.csv", *MODEL)
    assert written(done).data.group is None
    assert "48 images are of 12 groups by 'burst_id'" in done.err


def in_sites(here, *folders):
    """Writes a tree of cats and dogs, and three photos in each folder."""
    (here / "tree.csv").write_text("path\nanimal/cat/tabby\nanimal/dog/pug\n")
    for number, folder in enumerate(folders):
        (here / "photos" / folder).mkdir(parents=True)
        for photo in range(3):
            picture(here / "photos" / folder / f"{photo}.png", 3 * number + photo)


def test_folders_of_sites_in_those_of_classes_are_groups(here):
    sites = [f"tabby/{number}/may" for number in range(20)]
    in_sites(here, *sites, "pug/oak", "pug/elm", "blank/oak")
    data = written(init("--data", "photos", *MODEL)).data
    assert data.group == "folder"
    assert "blank" in data.nothing


def test_a_few_sites_are_refused(here):
    in_sites(here, "tabby/oak", "pug/oak", "pug/elm")
    refused(init("--data", "photos", *MODEL), "are 2 groups of images: too few to split")


def test_a_misspelt_folder_is_no_site(here):
    in_sites(here, "dog/pugg", "tabby/oak")
    refused(init("--data", "photos", *MODEL), "'dog/pugg'")


def test_what_shows_nothing_is_no_part_of_the_subject(here):
    (here / "tree.csv").write_text(LIFE)
    counts = {"mallard": 6, "robin": 6, "empty": 20, "false_trigger": 4, "unidentified_bird": 3}
    in_folders(here / "photos", counts | {"unknown": 2})
    done = init("--data", "photos", *MODEL)
    recipe = written(done)
    said = " ".join(f"{done.out}{done.err}".split())
    assert "20 of 41 labels: 'empty' is nothing of the tree: its root" in said
    assert "3 of 41 labels: 'unidentified_bird' is of an unnamed kind: the group 'Aves'" in said
    assert "2 of 41 labels: left out, 'unknown' is not known" in said
    assert (recipe.prompt.domain, recipe.prompt.ranks) == ("bird", ("order", "species"))
    text = (here / "mine.yaml").read_text()
    for line in ("  nothing: [blank, empty,", "  unnamed: [unidentified,", "  left_out: [unknown,"):
        assert line in text
    (here / "mine.yaml").write_text(text.replace("[blank, empty,", "[blank,"))
    dry = run_captured("tune", "mine.yaml", "--dry-run")
    assert "'empty'" in dry.out + dry.err, "an edited line counts"
    assert dry.code == 2


def test_the_lines_are_there_only_where_they_are_needed(here):
    in_folders(here / "photos", dict.fromkeys(SHADES, 3))
    done = init("--data", "photos", *MODEL)
    written(done)
    assert "nothing" not in (here / "mine.yaml").read_text() + done.out


def test_labels_that_name_nothing_are_no_nodes_of_a_made_tree(here):
    labels = ("zoo/cat", "zoo/unknown", "zoo/owl", "empty", "sea/whale", "site/blank")
    in_folders(here / "photos", dict.fromkeys((*labels, "sea/unidentified whale"), 3))
    done = init("--data", "photos", *MODEL, taxonomy=None)
    written(done)
    tree = (here / "mine-tree.csv").read_text().split()
    assert sorted(line.strip(",") for line in tree[1:]) == [
        *("thing", "thing/sea", "thing/sea/whale", "thing/zoo", "thing/zoo/cat", "thing/zoo/owl"),
    ]
    assert "'zoo/unknown' is of an unnamed kind: the group 'zoo'" in done.err
