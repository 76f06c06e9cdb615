"""The candidates of a run."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from taxtune.objective import Aims, make_objective
from taxtune.tuning.candidates import MOST, beats, with_candidates
from taxtune.tuning.selection import choose
from tests.tuning.test_selection import KINDS, SEEDS, record, records_of, world


def chosen(records, objective):
    selection = choose(records, objective)
    return selection, with_candidates(selection, records, objective).candidates


def staged(hp, hr, sizes, rng):
    """Returns iterations that were asked about different numbers of the first images."""
    images = rng.choice(sizes, len(hp))
    return [record(i, hp[i, : images[i]], hr[i, : images[i]]) for i in range(len(hp))]


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, kind=KINDS, templates=st.integers(2, 14), failed=st.booleans())
def test_candidates_are_few_and_unbeaten_and_have_the_choice_of_the_objective(
    seed, kind, templates, failed
):
    rng = np.random.default_rng(seed)
    hp, hr = world(seed, templates, 60)
    if failed:
        hp = np.where(rng.random(hp.shape) < 0.05, np.nan, hp)
    objective = make_objective(kind, aims=Aims(hp_target=0.9))
    records = staged(hp, hr, [20, 35, 60], rng)
    selection, candidates = chosen(records, objective)

    assert 1 <= len(candidates) <= MOST
    assert len({each.iteration for each in candidates}) == len(candidates)
    assert [each.iteration for each in candidates if each.taken] == [selection.winner]
    by_number = {each.iteration: each for each in records}
    for each in candidates:
        own = by_number[each.iteration]
        assert each.outcomes.images + each.outcomes.missing == len(own.rows)
        for other in records:
            if not each.taken and len(other.rows) >= max(len(own.rows), selection.images):
                assert not beats(other, own)


def counts(wrong, general, exact):
    """Returns hP and hR of images with these outcomes, in an order of their own."""
    hp = [0.5] * wrong + [1.0] * (general + exact)
    hr = [0.5] * (wrong + general) + [1.0] * exact
    return hp, hr


def of_counts(*templates):
    hp, hr = zip(*(counts(*each) for each in templates), strict=True)
    return records_of(np.array(hp), np.array(hr))


def test_a_bolder_template_that_the_certificate_passed_over_is_a_candidate():
    objective = make_objective("hr_at_hp", aims=Aims(hp_target=0.95))
    # The baseline, one that is certified, a bolder one that is not, and one that is beaten.
    records = of_counts((40, 20, 60), (0, 90, 30), (8, 50, 62), (9, 55, 56))
    selection, candidates = chosen(records, objective)
    assert selection.winner == 1
    assert selection.status == "certified"
    found = {each.iteration: each.roles for each in candidates}
    assert set(found) == {1, 2}
    assert "most careful" in found[1]
    assert "boldest" in found[2]
    bold = candidates[-1]
    assert (bold.iteration, bold.certified, bold.taken) == (2, False, False)
    assert (bold.outcomes.wrong, bold.outcomes.general, bold.outcomes.exact) == (8, 50, 62)
    assert bold.hp == np.mean(counts(8, 50, 62)[0])
    assert bold.low < bold.held[0].goal


def test_templates_are_compared_on_the_images_that_both_were_asked_about():
    few = record(1, *counts(0, 0, 20))
    hp, hr = counts(1, 0, 19)
    many = record(2, hp + [1.0] * 40, hr + [1.0] * 40)
    assert beats(few, many)
    assert not beats(many, few)
    assert not beats(few, few)


def test_an_image_without_an_answer_decides_nothing():
    hp, hr = counts(0, 0, 3)
    lacking = record(1, [np.nan, *hp[1:]], hr)
    assert not beats(lacking, record(2, hp, hr))
    assert not beats(record(2, hp, hr), lacking)


def test_without_anything_that_is_proven_nothing_is_certified():
    objective = make_objective("accuracy")
    selection, candidates = chosen(of_counts((40, 60, 20), (20, 70, 30)), objective)
    assert selection.winner == 1
    assert [each.iteration for each in candidates] == [1]
    assert [each.certified for each in candidates] == [None]


def test_a_template_with_the_counts_of_the_baseline_is_not_called_the_baseline():
    _, candidates = chosen(of_counts((1, 0, 7), (0, 4, 4), (1, 0, 7)), make_objective("hr_at_hp"))
    assert [each.iteration for each in candidates if "baseline" in each.roles] == [0]
