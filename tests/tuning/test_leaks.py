from __future__ import annotations

import random

import pytest

from taxtune.errors import TemplateError
from taxtune.resources import prompts_dir
from taxtune.taxonomy import Taxonomy, read_taxonomy
from taxtune.tuning.build import build
from taxtune.tuning.leaks import find_labels, group_names
from taxtune.tuning.proposers.fragments import read_fragments
from tests.tuning.proposers.answered import BIRDS
from tests.tuning.templates import check
from tests.tuning.toy import make_parts

TREES = (
    "trees/cars_bodytype.csv",
    "trees/dishes.csv",
    "trees/medical.csv",
    "trees/objects.csv",
    "trees/scenes.csv",
    "trees/surfaces.csv",
    "trees/vehicles.csv",
    "inat21/inat2021-categories.csv",
)


def groups(tree, domain, *labels, **more):
    targets = [tree.resolve(label) for label in labels]
    return set(group_names(tree, tree.resolve(domain), targets, **more))


THINGS = Taxonomy.from_paths(
    [
        *(f"thing/object/artifact/{name}" for name in ("cup", "lamp", "bell", "ship", "sofa")),
        *(f"thing/object/device/{name}" for name in ("clock", "phone")),
        *(f"thing/animal/{kind}" for kind in ("finch/goldfinch", "finch/bullfinch", "shark")),
        "thing/group/crowd",
        "thing/team/twins",
    ]
)


class TestGroupNames:
    def test_groups_between_the_domain_and_a_label_are_secret(self):
        found = groups(BIRDS, "bird", "goldfinch", "snowy owl")
        assert {"finch", "Fringillidae", "owl", "Strigiformes", "typical owl"} <= found
        # Not the labels themselves, the domain and what is above it, or groups of which there is no image.
        assert not found & {"goldfinch", "snowy owl", "bird", "Aves", "animal", "crow"}

    def test_what_holds_most_labels_says_no_more_than_the_domain(self):
        found = groups(THINGS, "thing", "cup", "shark", "goldfinch")
        assert found == {"artifact", "animal", "finch"}
        # Within the animals, finches are most of them.
        assert groups(THINGS, "animal", "shark", "goldfinch") == set()

    def test_what_holds_all_images_says_no_more_than_the_domain(self):
        assert "owl" in groups(BIRDS, "bird", "snowy owl", "blue jay")
        assert groups(BIRDS, "bird", "snowy owl") == set()
        assert "owl" in groups(BIRDS, "bird", "snowy owl", heldout=[BIRDS.resolve("blue jay")])

    def test_general_words_and_ranks_are_free(self):
        assert groups(THINGS, "thing", "crowd", "twins", "clock") == {"team", "device"}
        by_depth = ("kind", "team", "make", "type")
        ranks = [by_depth[len(THINGS.path(v)) - 1] for v in range(len(THINGS))]
        ranked = Taxonomy(THINGS.labels, THINGS.parents, ranks=ranks)
        assert groups(ranked, "thing", "crowd", "twins", "clock") == {"device"}

    def test_words_of_ones_own_prompt_are_free(self):
        found = groups(THINGS, "thing", "shark", "clock", own=["Which animals are these?"])
        assert found == {"device"}


def prompt_texts():
    """What the prompts that come with taxtune say, whatever the domain."""
    texts = [path.read_text(encoding="utf-8") for path in (prompts_dir() / "seeds").glob("*.j2")]
    for slot in read_fragments().slots:
        texts += [choice.text for choice in slot.choices]
    return texts


class TestOnTrees:
    @pytest.fixture(params=[*TREES, "builtin:fieldguide"])
    def tree(self, request):
        if request.param.startswith("builtin:"):
            return read_taxonomy(request.param)
        return read_taxonomy(request.getfixturevalue("shared_data") / request.param)

    def test_prompts_for_any_domain_are_accepted_and_groups_refused(self, tree):
        leaves = tree.leaves.tolist()
        targets = random.Random(3).sample(leaves, min(200, len(leaves)))
        secret = group_names(tree, tree.root, targets)
        general = [
            "Look at the object, its colour, pattern, shape and texture, and what it is made of.",
            "Name the family, order or group of the thing in the picture, and never guess.",
            f"What kind of {tree.labels[0]} is this?",
        ]
        for text in (*prompt_texts(), *general):
            assert not find_labels(text, secret)
        # No group remains that less than half of the labels belong to.
        named = {node for name in secret for node in tree.find(name) + tree.led(name)}
        for target in targets:
            for node in tree.ancestors(target)[1:-1].tolist():
                assert node in named or tree.is_ancestor(node, tree.leaves).mean() > 0.5


def test_a_template_that_names_groups_is_refused():
    secret = sorted(groups(BIRDS, "bird", "goldfinch", "snowy owl"))
    with pytest.raises(TemplateError, match=r"'finch', 'owls'.*a group of such labels"):
        check("Answer finch, or owls where it is dark.", forbidden=secret)
    check("Name the bird's family or order, such as that of crows.", forbidden=secret)


@pytest.mark.parametrize(
    ("objective", "refused"),
    [("hp", True), ("hr_at_hp", True), ("ihf", True), ("accuracy", False), ("rouge-1", False)],
)
def test_groups_are_secret_where_they_earn_credit(tmp_path, objective, refused):
    experiment = build(make_parts(tmp_path, tmp_path / "out"), objective)
    assert "scarlet" in experiment.rules.forbidden
    assert ("reddish" in experiment.rules.forbidden) is refused
