"""Probabilities of names are those of generation, step by step, for every family, batch and way to keep images."""

from __future__ import annotations

import json
import math
import os
import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from os.path import commonprefix
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from taxtune.models import AnswerStore, FunctionModel, ModelSettings, Request, ask, scoring
from taxtune.models.base import OTHERWISE, Candidates
from taxtune.models.outcomes import find_name, forms, frame_of, undecided
from taxtune.models.scoring import Scorer, Written
from taxtune.models.vision import LocalVLM
from tests.models.replies import texts
from tests.tiny_models import FAMILIES, make_checkpoint

Checkpoints = Callable[[str], Path]
DEVICE = os.environ.get("TAXTUNE_TEST_DEVICE", "cpu")  # benchmarks/gpu.py sets another one
Tokens = tuple[int, ...]

# -- where a name stands -----------------------------------------------------------------------------------------------

BIRDS = Candidates(
    (
        "barn owl",
        "finch",
        "finch lark",
        "great-tailed grackle",
        "Anna's hummingbird",
        "St. Bernard",
        "仓鸮",
    ),
    ("owl", "bird", "animal"),
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("This is a BARN  Owl.", ("barn owl", "This is", (" a ", " an "))),
        ("A: Great tailed grackle", ("great-tailed grackle", "A:", (" ",))),
        ("finch lark or finch", ("finch lark", "", ("",))),
        ("Bird:\n**Finch**, no barn owl", ("finch", "Bird:\n**", ("",))),
        ("A bird, an owl", ("owl", "A bird,", (" a ", " an "))),
        ("An animal", ("animal", "", ("A ", "An "))),
        ("Anna\u2019s hummingbird", ("Anna's hummingbird", "", ("",))),
        ("My st. bernard", ("St. Bernard", "My", (" ",))),
        ("这是仓鸮。", ("仓鸮", "这是", ("",))),
        ("Owls, goldfinch, a barn. An owlet", None),
        ("", None),
    ],
)
def test_a_name_is_found_and_the_text_before_it(text, found):
    place = find_name(text, BIRDS)
    assert (place and (place[2], *frame_of(text, place[0]))) == found
    if place:
        assert place[0] < place[1] <= len(text)


def test_how_names_are_written_and_what_they_share():
    assert forms("barn owl") == ("barn owl", "Barn owl", "Barn Owl")
    assert forms("European robin") == ("European robin", "european robin", "European Robin")
    assert undecided(["grey heron", "grey wagtail"]) == "grey …"
    assert undecided(["a", "b"]) == "…"


# -- against brute force, with tokenizers that merge and a model of any distribution -----------------------------------

WORDS = [
    "fin",
    "finch",
    "finch lark",
    "finches",
    "owl",
    "An owl",
    "lark",
    "la",
    "Tit",
    "great tit",
    "grey",
    "greylag",
]


@cache
def subwords(kind):
    """A tokenizer of sub-words, in the way of GPT-2 or of SentencePiece, or one of characters."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE(unk_token="<unk>"))
    if kind == "bytes":
        core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        core.decoder = decoders.ByteLevel()
    else:
        core.pre_tokenizer = pre_tokenizers.Metaspace()
        core.decoder = decoders.Metaspace()
    trainer = trainers.BpeTrainer(
        vocab_size=0 if kind == "characters" else 420,
        special_tokens=["<s>", "<unk>"],
        initial_alphabet=[*pre_tokenizers.ByteLevel.alphabet(), *'"():.\nÜ▁'],
    )
    texts = [f'This is a {word}. A: "{word} is an owl:' for word in WORDS * 3]
    core.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", unk_token="<unk>")


def tokenize(tokenizer, text):
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


CONTEXT = "<s>User: what? Bot:"


def weigh(tokenizer, answer, names, sharp, epsilon=1e-15):
    """The probabilities of outcomes under a model of random logits, the same after the same text."""

    def read(_, more):
        lengths = [len(tokens) for tokens in more]
        assert lengths == sorted(lengths)
        return (logits(tokenizer, tokens, sharp) for tokens in more)

    def tokens_of(texts):
        return [tokenize(tokenizer, text) for text in texts]

    def known(place):
        return logits(tokenizer, tuple(written[:place]), sharp)

    decode = partial(tokenizer.decode, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    start = len(tokenize(tokenizer, CONTEXT))
    written = tokenize(tokenizer, CONTEXT + answer)[start:]
    answers = [Written(CONTEXT, written, known, names)]
    [outcomes] = Scorer(tokens_of, decode).outcomes(answers, read, epsilon)
    return {name: math.exp(log) for name, log in outcomes.items()}


def logits(tokenizer, tokens, sharp):
    return np.random.default_rng([7, *tokens]).normal(0, sharp, len(tokenizer)).astype(np.float32)


def brute_force(sequences, next_logits, least=0.0):
    """The probability of each name: of its sequences, less of going on to another name's."""

    @cache
    def shares(prefix):
        wide = np.float64(next_logits(prefix))
        odds = np.exp(wide - wide.max())
        return odds / odds.sum()

    def probability(tokens):
        product = 1.0
        for i, token in enumerate(tokens):
            product *= shares(tokens[:i])[token] if product > least else 0
        return float(product)

    total = dict.fromkeys(sequences.values(), 0.0)
    for tokens, name in sequences.items():
        longer = [other for other in sequences if other[: len(tokens)] == tokens != other]
        on = {other[: len(tokens) + 1] for other in longer}
        total[name] += probability(tokens) - sum(map(probability, on))
    return {**total, OTHERWISE: 1 - sum(total.values())}


def same(found, expected, within=1e-9):
    names = {*found, *expected}
    return all(abs(found.get(name, 0) - expected.get(name, 0)) <= within for name in names)


@pytest.fixture
def unbounded(monkeypatch):
    monkeypatch.setattr(scoring, "MOST_READS", 10**6)
    monkeypatch.setattr(scoring, "_LEAST", 0.0)


@pytest.mark.usefixtures("unbounded")
@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("kind", ["bytes", "pieces", "characters"])
@pytest.mark.parametrize(
    "answer",
    [" This is a finch.", " An owl", " A: great tit", ' A:"finch lark"', "finch", "\n(owl)"],
)
def test_probabilities_are_those_of_all_tokens_of_all_forms(kind, answer):
    tokenizer = subwords(kind)
    names = Candidates(tuple(WORDS))
    place = find_name(answer, names)
    frame, leads = frame_of(answer, place.start)
    before = tokenize(tokenizer, CONTEXT)
    whole = tokenize(tokenizer, CONTEXT + frame)
    assert whole[: len(before)] == before
    known = dict(zip(WORDS, WORDS, strict=True))
    for word in WORDS:
        for form in forms(word):
            known.setdefault(form, word)
    written = {}
    for form, name in known.items():
        for lead in leads:
            tokens = tokenize(tokenizer, CONTEXT + frame + lead + form)
            assert tokens[: len(before)] == before
            written.setdefault(tuple(tokens[len(before) :]), name)
    # The last place that all forms and the frame go through.
    own = tuple(whole[len(before) :])
    shared = len(commonprefix([own, *written]))  # noqa: RUF071 - they are no paths
    start = own[:shared]
    expected = brute_force(
        {tokens[shared:]: name for tokens, name in written.items()},
        lambda tokens: logits(tokenizer, (*start, *tokens), 3.0),
    )
    found = weigh(tokenizer, answer, names, 3.0)
    assert same(found, expected)
    assert math.isclose(sum(found.values()), 1, abs_tol=1e-9)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(WORDS), min_size=1, unique=True),
    st.sampled_from(WORDS),
    st.sampled_from([0.1, 3.0, 40.0]),
    st.sampled_from([" This is a {}.", "{}"]),
)
def test_outcomes_sum_to_one_and_a_finer_look_only_splits_them(words, further, sharp, frame):
    tokenizer = subwords("bytes")
    names = Candidates(tuple(words))
    answer = frame.format(words[0])
    rough = weigh(tokenizer, answer, names, sharp, 0.05)
    fine = weigh(tokenizer, answer, names, sharp, 1e-4)
    assert math.isclose(sum(rough.values()), 1, abs_tol=1e-9)
    assert math.isclose(sum(fine.values()), 1, abs_tol=1e-9)
    # What was not told apart goes to names and to what is none; nothing goes back.
    for outcome in {*rough, *fine}:
        change = fine.get(outcome, 0) - rough.get(outcome, 0)
        is_undecided = outcome.endswith(OTHERWISE) and outcome != OTHERWISE
        assert change >= -1e-9 or outcome not in words
        assert change <= 1e-9 or outcome not in rough or not is_undecided
    more = weigh(tokenizer, answer, Candidates((*words, further)), sharp, 1e-4)
    for name in words:
        is_begun = further.startswith(name) or further.lower().startswith(name)
        if fine.get(name) and more.get(name) and not is_begun:
            assert math.isclose(fine[name], more[name], rel_tol=1e-6)


def test_what_is_too_improbable_or_too_much_to_read_stays_together():
    tokenizer = subwords("characters")
    names = Candidates(("finch", "finch lark", "fig", "owl"))
    found = weigh(tokenizer, "owl", names, 0.1, epsilon=0.1)
    assert {"fi…", "owl…", OTHERWISE} == set(found)
    assert math.isclose(sum(found.values()), 1, abs_tol=1e-9)
    assert weigh(tokenizer, "a duck", names, 0.1) == {OTHERWISE: 1.0}


def test_no_more_nodes_are_read_than_the_limit_and_the_best_first(
    monkeypatch,
):
    tokenizer = subwords("characters")
    asked = []
    real = logits

    def noted(tokenizer, tokens, sharp):
        asked.append(tokens)
        return real(tokenizer, tokens, sharp)

    monkeypatch.setitem(globals(), "logits", noted)
    monkeypatch.setattr(scoring, "MOST_READS", 5)
    names = Candidates(tuple(f"{a}{b}x" for a in "abcdefgh" for b in "klmn"))
    found = weigh(tokenizer, "akx", names, 0.1, epsilon=1e-12)
    assert len(asked) <= 5 + 3, "the answer's own tokens were read before"
    assert math.isclose(sum(found.values()), 1, abs_tol=1e-9)


# -- against generation ------------------------------------------------------------------------------------------------

PROMPTS = ["?", "What is it? " * 5]
NEW_TOKENS = 8


@pytest.fixture(scope="module")
def lettered(tmp_path_factory):
    """Gives the folder of a family's checkpoint that writes small letters and spaces, so that answers have words."""
    parent = tmp_path_factory.mktemp("letters")

    @cache
    def get(family):
        folder = make_checkpoint(family, parent)
        tokens = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
        letters = {tokens[token] for token in "abcdefghijklmnopqrstuvwxyzĠ"}
        file = folder / "generation_config.json"
        config = json.loads(file.read_text())
        config["suppress_tokens"] = sorted({*range(250)} - letters)
        file.write_text(json.dumps(config))
        return folder

    return get


@cache
def loaded(folder):
    from transformers import AutoModelForImageTextToText, AutoProcessor

    network = AutoModelForImageTextToText.from_pretrained(folder).to(DEVICE)
    return network.eval(), AutoProcessor.from_pretrained(folder)


class Alone:
    """A checkpoint asked as its model card shows it: one image, step by step, without anything kept."""

    def __init__(self, folder, image, prompt):
        self.network, processor = loaded(folder)
        self.tokenizer = processor.tokenizer
        content = [{"type": "image"}, {"type": "text", "text": prompt}]
        messages = [{"role": "user", "content": content}]
        text = processor.apply_chat_template(messages, add_generation_prompt=True)
        starts = text.startswith(self.tokenizer.bos_token or "\0")
        picture = Image.open(image).convert("RGB")
        self.inputs = processor(
            images=[[picture]], text=[text], add_special_tokens=not starts, return_tensors="pt"
        ).to(DEVICE)

    def raw_answer(self):
        output = self.network.generate(**self.inputs, max_new_tokens=NEW_TOKENS, do_sample=False)
        new = output[0, self.inputs["input_ids"].shape[1] :]
        return str(self.tokenizer.decode(new, skip_special_tokens=True))

    def logits(self, tokens):
        import torch

        inputs = dict(self.inputs)
        rows = self.inputs["input_ids"].shape
        for name, value in inputs.items():
            if value.shape[:2] == rows and tokens:
                last = torch.stack([value[:, -1]] * len(tokens), 1)
                if name == "input_ids":
                    last = torch.tensor([tokens], device=DEVICE)
                inputs[name] = torch.cat([value, last], 1)
        output = self.network.generate(
            **inputs,
            max_new_tokens=1,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
        )
        return output.logits[0][0].cpu().numpy()


def words_of(texts):
    """The shortest words of random answers, and words that go on from them."""
    found = [re.findall(r"[a-z]+", text) for text in texts]
    short = [min(words, key=len) for words in found if words]
    longer = [f"{short[0]}x", f"{short[0]} y"] if short else []
    return tuple(dict.fromkeys([*short, *longer]))


@pytest.mark.usefixtures("unbounded")
@pytest.mark.parametrize(
    "family", [f if f == "smolvlm" else pytest.param(f, marks=pytest.mark.heavy) for f in FAMILIES]
)
def test_outcomes_are_those_of_generation(family, lettered, pictures):
    folder = lettered(family)
    pairs = [(prompt, image) for prompt in PROMPTS for image in pictures[2:]]
    alone = [Alone(folder, image, prompt) for prompt, image in pairs]
    raw = [checkpoint.raw_answer() for checkpoint in alone]
    names = Candidates(words_of(raw))
    expected = [exact(*pair, names) for pair in zip(alone, raw, strict=True)]
    with_names = sum(len(outcomes) > 1 for outcomes in expected)
    assert with_names > len(pairs) // 2, "answers without a name show nothing"
    requests = [Request(prompt, image, candidates=names) for prompt, image in pairs]
    for memory, size in ((None, 1), (None, 3), (0, 3)):
        settings = ModelSettings(
            max_tokens=NEW_TOKENS,
            device=DEVICE,
            dtype="float32",
            batch_size=size,
            image_memory_gib=memory,
        )
        vlm = LocalVLM(str(folder), settings)
        vlm._scorer.outcomes = partial(vlm._scorer.outcomes, epsilon=1e-6)
        replies = vlm.answer(requests)
        assert texts(replies) == [text.strip() for text in raw]
        for reply, outcomes in zip(replies, expected, strict=True):
            found = {name: math.exp(log) for name, log in reply.outcomes.items()}
            assert same(found, outcomes, 1e-5), (memory, size)
        assert vlm.not_cached is None


def exact(alone, text, names):
    """The probabilities of an answer's outcomes, by generation step by step."""
    place = find_name(text, names)
    frame, leads = frame_of(text, place.start) if place else ("", ())
    before = tokenize(alone.tokenizer, frame)
    known = {name: name for name in names.names}
    for name in names.names:
        for form in forms(name):
            known.setdefault(form, name)
    written = {}
    for form, name in known.items():
        for lead in leads:
            written.setdefault(tuple(tokenize(alone.tokenizer, lead + form)), name)
    return brute_force(written, lambda tokens: alone.logits((*before, *tokens)), 1e-6)


@pytest.fixture
def vlm(lettered):
    def make(**settings):
        settings = ModelSettings(device="cpu", max_tokens=8, **settings)
        return LocalVLM(str(lettered("llava")), settings)

    return make


def test_plain_answers_stay_beside_scored_ones_which_are_greedy(vlm, pictures, monkeypatch):
    plain = [Request("Bird?", picture) for picture in pictures]
    greedy = texts(vlm(temperature=0.0).answer(plain))
    drawn = texts(vlm(temperature=0.9).answer(plain))
    names = Candidates(words_of(greedy))
    scored = [replace(request, candidates=names) for request in plain]
    warm = vlm(temperature=0.9)
    replies = warm.answer([*plain, *scored])
    assert texts(replies) == drawn + greedy
    assert [reply.outcomes is None for reply in replies] == [True] * 4 + [False] * 4
    read = warm._first_logits

    def tight(inputs):
        if len(inputs["input_ids"]) > 1:
            raise RuntimeError("CUDA out of memory. Tried to allocate")
        return read(inputs)

    monkeypatch.setattr(warm, "_first_logits", tight)
    for reply, halved in zip(replies[4:], warm.answer(scored), strict=True):
        assert halved.outcomes == pytest.approx(reply.outcomes, abs=1e-4)


# -- stored, sent and not known ----------------------------------------------------------------------------------------


def test_scored_answers_are_stored_beside_plain_ones(vlm, pictures, tmp_path):
    model = vlm()
    plain = Request("Bird?", pictures[0])
    scored = replace(plain, candidates=Candidates(words_of(texts(model.answer([plain])))))
    others = replace(plain, candidates=Candidates(("zq", "zx")))
    with AnswerStore(tmp_path / "answers.db") as store:
        fresh = ask(model, [plain, scored, others, scored], store)
        assert [reply.cached for reply in fresh] == [False, False, False, True]
        again = ask(model, [plain, scored, others], store)
    assert all(reply.cached for reply in again)
    outcomes = [reply.outcomes for reply in again]
    assert outcomes == [reply.outcomes for reply in fresh[:3]]
    assert outcomes[0] is None
    assert outcomes[2] == {OTHERWISE: 0.0}
    # As they go to a cluster and back.
    assert pickle.loads(pickle.dumps((scored, fresh[1]))) == (scored, fresh[1])


def test_a_function_gives_no_outcomes(pictures):
    model = FunctionModel(lambda image, prompt: "owl")
    [reply] = ask(model, [Request("?", pictures[0], candidates=BIRDS)], None)
    assert (reply.text, reply.outcomes) == ("owl", None)
