"""Probabilities of names are those of generation, step by step, for every family, batch and way to keep images."""

from __future__ import annotations

import json
import math
import os
import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from taxtune.models import Answer, AnswerStore, FunctionModel, ModelSettings, Request, ask, scoring
from taxtune.models.base import OTHERWISE, Candidates
from taxtune.models.outcomes import find_name, forms, frame_of, undecided
from taxtune.models.scoring import Scorer, Written
from taxtune.models.vision import LocalVLM
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
def test_a_name_is_found_and_the_text_before_it(text: str, found: tuple[Any, ...] | None) -> None:
    place = find_name(text, BIRDS)
    assert (place and (place[2], *frame_of(text, place[0]))) == found
    if place:
        assert place[0] < place[1] <= len(text)


def test_how_names_are_written_and_what_they_share() -> None:
    assert forms("barn owl") == ("barn owl", "Barn owl", "Barn Owl")
    assert forms("European robin") == ("European robin", "european robin", "European Robin")
    assert (undecided(["grey heron", "grey wagtail"]), undecided(["a", "b"])) == ("grey …", "…")


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
def subwords(kind: str) -> Any:
    """A tokenizer of sub-words, in the way of GPT-2 or in that of SentencePiece, or one of single characters."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE(unk_token="<unk>"))
    if kind == "bytes":
        core.pre_tokenizer, core.decoder = (
            pre_tokenizers.ByteLevel(add_prefix_space=False),
            decoders.ByteLevel(),
        )
    else:
        core.pre_tokenizer, core.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    alphabet = [*pre_tokenizers.ByteLevel.alphabet(), *'"():.\nÜ▁']
    size = 420 if kind != "characters" else 0
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=["<s>", "<unk>"], initial_alphabet=alphabet
    )
    core.train_from_iterator(
        [f'This is a {word}. A: "{word} is an owl:' for word in WORDS * 3], trainer
    )
    return PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", unk_token="<unk>")


def tokenize(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def weigh(
    tokenizer: Any, answer: str, names: Candidates, sharp: float, epsilon: float = 1e-15
) -> dict[str, float]:
    """Returns the probabilities of outcomes under a model whose logits are random, but the same after the same text."""
    context = "<s>User: what? Bot:"

    def read(_: Sequence[int], more: Sequence[Tokens]) -> Iterator[Any]:
        assert [len(tokens) for tokens in more] == sorted(len(tokens) for tokens in more)
        return (logits(tokenizer, tokens, sharp) for tokens in more)

    def tokens_of(texts: Sequence[str]) -> list[list[int]]:
        return [tokenize(tokenizer, text) for text in texts]

    decode = partial(tokenizer.decode, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    before = tokenize(tokenizer, context)
    written = tokenize(tokenizer, context + answer)[len(before) :]
    known = partial(lambda place: logits(tokenizer, tuple(written[:place]), sharp))
    found = Scorer(tokens_of, decode).outcomes(
        [Written(context, written, known, names)], read, epsilon
    )[0]
    return {name: math.exp(log) for name, log in found.items()}


def logits(tokenizer: Any, tokens: Tokens, sharp: float) -> Any:
    return np.random.default_rng([7, *tokens]).normal(0, sharp, len(tokenizer)).astype(np.float32)


def brute_force(
    sequences: dict[Tokens, str], next_logits: Callable[[Tokens], Any], least: float = 0.0
) -> dict[str, float]:
    """Returns the probability of each name: that of each of its sequences, less that of going on to another name's."""

    @cache
    def shares(prefix: Tokens) -> Any:
        wide = np.float64(next_logits(prefix))
        odds = np.exp(wide - wide.max())
        return odds / odds.sum()

    def probability(tokens: Tokens) -> float:
        product = 1.0
        for i, token in enumerate(tokens):
            product *= shares(tokens[:i])[token] if product > least else 0
        return float(product)

    total: dict[str, float] = {}
    for tokens, name in sequences.items():
        on = {
            other[: len(tokens) + 1]
            for other in sequences
            if other[: len(tokens)] == tokens and other != tokens
        }
        total[name] = total.get(name, 0.0) + probability(tokens) - sum(map(probability, on))
    return {**total, OTHERWISE: 1 - sum(total.values())}


def same(found: dict[str, float], expected: dict[str, float], within: float = 1e-9) -> bool:
    return all(
        abs(found.get(name, 0) - expected.get(name, 0)) <= within for name in {*found, *expected}
    )


@pytest.fixture
def unbounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "MOST_READS", 10**6)
    monkeypatch.setattr(scoring, "_LEAST", 0.0)


@pytest.mark.usefixtures("unbounded")
@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("kind", ["bytes", "pieces", "characters"])
@pytest.mark.parametrize(
    "answer",
    [" This is a finch.", " An owl", " A: great tit", ' A:"finch lark"', "finch", "\n(owl)"],
)
def test_probabilities_are_those_of_all_tokens_of_all_forms(kind: str, answer: str) -> None:
    tokenizer, names, context = subwords(kind), Candidates(tuple(WORDS)), "<s>User: what? Bot:"
    place = find_name(answer, names)
    assert place is not None
    frame, leads = frame_of(answer, place[0])
    before, whole = tokenize(tokenizer, context), tokenize(tokenizer, context + frame)
    assert whole[: len(before)] == before
    written: dict[Tokens, str] = {}
    for form, name in [
        *zip(WORDS, WORDS, strict=True),
        *((form, word) for word in WORDS for form in forms(word)),
    ]:
        for lead in leads:
            tokens = tokenize(tokenizer, context + frame + lead + form)
            assert tokens[: len(before)] == before
            written.setdefault(tuple(tokens[len(before) :]), name)
    # The last place that all forms and the frame go through.
    own = tuple(whole[len(before) :])
    shared = max(i for i in range(len(own) + 1) if all(tokens[:i] == own[:i] for tokens in written))
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
def test_outcomes_sum_to_one_and_a_finer_look_only_splits_them(
    words: list[str], further: str, sharp: float, frame: str
) -> None:
    tokenizer, names = subwords("bytes"), Candidates(tuple(words))
    answer = frame.format(words[0])
    rough, fine = (weigh(tokenizer, answer, names, sharp, epsilon) for epsilon in (0.05, 1e-4))
    assert math.isclose(sum(rough.values()), 1, abs_tol=1e-9)
    assert math.isclose(sum(fine.values()), 1, abs_tol=1e-9)
    for outcome in {
        *rough,
        *fine,
    }:  # what was not told apart goes to names and to what is none; nothing goes back
        change = fine.get(outcome, 0) - rough.get(outcome, 0)
        assert change >= -1e-9 or outcome not in words
        assert (
            change <= 1e-9
            or outcome not in rough
            or not outcome.endswith(OTHERWISE)
            or outcome == OTHERWISE
        )
    more = weigh(tokenizer, answer, Candidates((*words, further)), sharp, 1e-4)
    for name in words:
        if (
            fine.get(name)
            and more.get(name)
            and not any(form.startswith(name) for form in (further.lower(), further))
        ):
            assert math.isclose(fine[name], more[name], rel_tol=1e-6)


def test_what_is_too_improbable_or_too_much_to_read_stays_together() -> None:
    tokenizer, names = subwords("characters"), Candidates(("finch", "finch lark", "fig", "owl"))
    found = weigh(tokenizer, "owl", names, 0.1, epsilon=0.1)
    assert {"fi…", "owl…", OTHERWISE} == set(found)
    assert math.isclose(sum(found.values()), 1, abs_tol=1e-9)
    assert weigh(tokenizer, "a duck", names, 0.1) == {OTHERWISE: 1.0}


def test_no_more_nodes_are_read_than_the_limit_and_the_best_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokenizer, asked = subwords("characters"), list[Tokens]()
    real = logits
    monkeypatch.setitem(globals(), "logits", lambda *given: asked.append(given[1]) or real(*given))
    monkeypatch.setattr(scoring, "MOST_READS", 5)
    names = Candidates(tuple(f"{a}{b}x" for a in "abcdefgh" for b in "klmn"))
    found = weigh(tokenizer, "akx", names, 0.1, epsilon=1e-12)
    assert len(asked) <= 5 + 3, "the answer's own tokens were read before"
    assert math.isclose(sum(found.values()), 1, abs_tol=1e-9)


# -- against generation ------------------------------------------------------------------------------------------------

PROMPTS = ["?", "What is it? " * 5]
NEW_TOKENS = 8


@pytest.fixture(scope="module")
def lettered(tmp_path_factory: pytest.TempPathFactory) -> Checkpoints:
    """Gives the folder of a family's checkpoint that writes small letters and spaces, so that answers have words."""
    parent, made = tmp_path_factory.mktemp("letters"), dict[str, Path]()

    def get(family: str) -> Path:
        if family not in made:
            folder = made[family] = make_checkpoint(family, parent)
            file = folder / "generation_config.json"
            tokens = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
            letters = {tokens[token] for token in "abcdefghijklmnopqrstuvwxyzĠ"}
            config = json.loads(file.read_text()) | {
                "suppress_tokens": sorted({*range(250)} - letters)
            }
            file.write_text(json.dumps(config))
        return made[family]

    return get


@cache
def loaded(folder: Path) -> Any:
    from transformers import AutoModelForImageTextToText, AutoProcessor

    return AutoModelForImageTextToText.from_pretrained(folder).to(
        DEVICE
    ).eval(), AutoProcessor.from_pretrained(folder)


class Alone:
    """A checkpoint asked as its model card shows it: one image, step by step, without anything kept."""

    def __init__(self, folder: Path, image: Path, prompt: str) -> None:
        self.network, processor = loaded(folder)
        self.tokenizer = processor.tokenizer
        messages = [
            {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": prompt}]}
        ]
        text = processor.apply_chat_template(messages, add_generation_prompt=True)
        starts = text.startswith(self.tokenizer.bos_token or "\0")
        picture = Image.open(image).convert("RGB")
        inputs = processor(
            images=[[picture]], text=[text], add_special_tokens=not starts, return_tensors="pt"
        )
        self.inputs = inputs.to(DEVICE)

    def raw_answer(self) -> str:
        new = self.network.generate(**self.inputs, max_new_tokens=NEW_TOKENS, do_sample=False)
        return str(
            self.tokenizer.decode(
                new[0, self.inputs["input_ids"].shape[1] :], skip_special_tokens=True
            )
        )

    def logits(self, tokens: Tokens) -> Any:
        import torch

        inputs, rows = dict(self.inputs), self.inputs["input_ids"].shape
        for name, value in inputs.items():
            if value.shape[:2] == rows and tokens:
                last = torch.stack([value[:, -1]] * len(tokens), 1)
                if name == "input_ids":
                    last = torch.tensor([tokens], device=DEVICE)
                inputs[name] = torch.cat([value, last], 1)
        config = {
            "max_new_tokens": 1,
            "do_sample": False,
            "output_logits": True,
            "return_dict_in_generate": True,
        }
        return self.network.generate(**inputs, **config).logits[0][0].cpu().numpy()


def words_of(texts: Iterable[str]) -> tuple[str, ...]:
    """The shortest words of random answers, and words that go on from them."""
    short = [min(words, key=len) for text in texts if (words := re.findall(r"[a-z]+", text))]
    return tuple(
        dict.fromkeys(
            [*short, *(f"{word}x" for word in short[:1]), *(f"{word} y" for word in short[:1])]
        )
    )


@pytest.mark.usefixtures("unbounded")
@pytest.mark.parametrize(
    "family", [f if f == "smolvlm" else pytest.param(f, marks=pytest.mark.heavy) for f in FAMILIES]
)
def test_outcomes_are_those_of_generation(
    family: str, lettered: Checkpoints, pictures: list[Path]
) -> None:
    folder = lettered(family)
    pairs = [(prompt, image) for prompt in PROMPTS for image in pictures[2:]]
    alone = [Alone(folder, image, prompt) for prompt, image in pairs]
    raw = [one.raw_answer() for one in alone]
    names = Candidates(words_of(raw))
    expected = []
    for one, text in zip(alone, raw, strict=True):
        place = find_name(text, names)
        frame, leads = frame_of(text, place[0]) if place else ("", ())
        after = tokenize(one.tokenizer, frame)
        written = {
            tuple(tokenize(one.tokenizer, lead + form)): name
            for name in names.names[::-1]
            for form in forms(name)[::-1]
            for lead in leads
        } | {
            tuple(tokenize(one.tokenizer, lead + name)): name
            for name in names.names
            for lead in leads
        }
        ask_one = partial(lambda one, after, tokens: one.logits((*after, *tokens)), one, after)
        expected.append(brute_force(written, ask_one, 1e-6))
    assert sum(len(one) > 1 for one in expected) > len(pairs) // 2, (
        "answers without a name show nothing"
    )
    requests = [Request(prompt, image, candidates=names) for prompt, image in pairs]
    for memory, size in ((None, 1), (None, 3), (0, 3)):
        vlm = LocalVLM(
            str(folder),
            ModelSettings(
                max_tokens=NEW_TOKENS,
                device=DEVICE,
                dtype="float32",
                batch_size=size,
                image_memory_gib=memory,
            ),
        )
        vlm._scorer.outcomes = partial(vlm._scorer.outcomes, epsilon=1e-6)  # type: ignore[method-assign]
        for reply, text, one in zip(vlm.answer(requests), raw, expected, strict=True):
            assert isinstance(reply, Answer)
            assert reply.text == text.strip()
            assert reply.outcomes is not None
            assert same({name: math.exp(log) for name, log in reply.outcomes.items()}, one, 1e-5), (
                memory,
                size,
            )
        assert vlm.not_cached is None


@pytest.fixture
def vlm(lettered: Checkpoints) -> Callable[..., LocalVLM]:
    return lambda **given: LocalVLM(
        str(lettered("llava")), ModelSettings(device="cpu", max_tokens=8, **given)
    )


def test_plain_answers_stay_beside_scored_ones_which_are_greedy(
    vlm: Callable[..., LocalVLM], pictures: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = [Request("Bird?", picture) for picture in pictures]
    greedy, drawn = (vlm(temperature=temperature).answer(plain) for temperature in (0.0, 0.9))
    names = Candidates(words_of(reply.text for reply in greedy if isinstance(reply, Answer)))
    warm = vlm(temperature=0.9)
    both = warm.answer([*plain, *(replace(request, candidates=names) for request in plain)])
    texts = [
        [reply.text for reply in some if isinstance(reply, Answer)]
        for some in (drawn, greedy, both)
    ]
    assert texts[2] == texts[0] + texts[1]
    assert [reply.outcomes is None for reply in both if isinstance(reply, Answer)] == [True] * 4 + [
        False
    ] * 4
    read = warm._first_logits

    def tight(inputs: Any) -> Any:
        if len(inputs["input_ids"]) > 1:
            raise RuntimeError("CUDA out of memory. Tried to allocate")
        return read(inputs)

    monkeypatch.setattr(warm, "_first_logits", tight)
    for reply, halved in zip(
        both[4:],
        warm.answer([replace(request, candidates=names) for request in plain]),
        strict=True,
    ):
        assert isinstance(reply, Answer)
        assert isinstance(halved, Answer)
        assert reply.outcomes is not None
        assert halved.outcomes == pytest.approx(reply.outcomes, abs=1e-4)


# -- stored, sent and not known ----------------------------------------------------------------------------------------


def test_scored_answers_are_stored_beside_plain_ones(
    vlm: Callable[..., LocalVLM], pictures: list[Path], tmp_path: Path
) -> None:
    model, plain = vlm(), Request("Bird?", pictures[0])
    [first] = model.answer([plain])
    assert isinstance(first, Answer)
    scored = replace(plain, candidates=Candidates(words_of([first.text])))
    others = replace(plain, candidates=Candidates(("zq", "zx")))
    with AnswerStore(tmp_path / "answers.db") as store:
        fresh = ask(model, [plain, scored, others, scored], store)
        assert [reply.cached for reply in fresh if isinstance(reply, Answer)] == [
            False,
            False,
            False,
            True,
        ]
        again = ask(model, [scored, plain, others], store)
    found = [reply.outcomes for reply in again if isinstance(reply, Answer) and reply.cached]
    assert found == [
        reply.outcomes for reply in (fresh[1], fresh[0], fresh[2]) if isinstance(reply, Answer)
    ]
    assert found[1] is None
    assert found[2] == {OTHERWISE: 0.0}
    assert pickle.loads(pickle.dumps((scored, fresh[1]))) == (scored, fresh[1]), (
        "as it goes to a cluster and back"
    )


def test_a_function_gives_no_outcomes(pictures: list[Path]) -> None:
    [reply] = ask(
        FunctionModel(lambda image, prompt: "owl"),
        [Request("?", pictures[0], candidates=BIRDS)],
        None,
    )
    assert isinstance(reply, Answer)
    assert reply.outcomes is None
