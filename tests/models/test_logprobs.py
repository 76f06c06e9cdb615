from __future__ import annotations

import json
import math
import random
from collections import Counter
from itertools import pairwise
from types import SimpleNamespace

import pytest

from taxtune.models import Answer, Failure, Request, count_faults
from taxtune.models.api import ApiModel
from taxtune.models.api_errors import load_litellm
from taxtune.models.base import OTHERWISE, Candidates
from taxtune.models.logprobs import read_outcomes
from tests import servers
from tests.servers import OpenAIServer, logprobs

BIRDS = Candidates(
    (
        "chaffinch",
        "bullfinch",
        "finch",
        "finch lark",
        "Steller's jay",
        "red-tailed hawk",
        "müller's parrot",
        "mallard",
    ),
    broader=("bird of prey", "bird"),
)
Place = dict[str | bytes, float]


def as_objects(told):
    """What litellm makes of a reply's log-probabilities."""
    return json.loads(json.dumps(told), object_hook=lambda fields: SimpleNamespace(**fields))


def shares(text, *places, candidates=BIRDS, **told):
    """The probabilities of an answer's outcomes; each place has the token that was said first."""
    outcomes = read_outcomes(text, as_objects(logprobs(*places, **told)), candidates)
    if outcomes is None:
        return None
    assert sum(map(math.exp, outcomes.values())) == pytest.approx(1)
    return {outcome: math.exp(log) for outcome, log in outcomes.items()}


# -- tokens to outcomes ------------------------------------------------------------------------------------------------

REST = OTHERWISE
CASES = {
    "whole names, a space before each": (
        "A: chaffinch",
        [{"A:": 1}, {" chaffinch": 0.7, " bullfinch": 0.2, " gull": 0.1}],
        {"chaffinch": 0.7, "bullfinch": 0.2, REST: 0.1},
    ),
    "pieces: what the path says is multiplied": (
        "A: chaffinch",
        [{"A:": 1}, {" chaff": 0.8, " bull": 0.2}, {"inch": 0.5, "y": 0.5}],
        {"chaffinch": 0.4, "bullfinch": 0.2, REST: 0.4},
    ),
    "how several names begin": (
        "A: chaffinch",
        [{"A:": 1}, {" chaffinch": 0.7, " f": 0.2, " m": 0.1}],
        {"chaffinch": 0.7, "finch…": 0.2, "m…": 0.1},
    ),
    "what is not told is otherwise": (
        "A: chaffinch",
        [{"A:": 1}, {" chaffinch": 0.7, " bullfinch": 0.1}],
        {"chaffinch": 0.7, "bullfinch": 0.1, REST: 0.2},
    ),
    "any case, and the tree's spelling": (
        "A: CHAFFINCH.",
        [{"A:": 1}, {" CHAFFINCH.": 0.6, " Bull": 0.3, " STELLER": 0.1}],
        {"chaffinch": 0.6, "bullfinch": 0.3, "Steller's jay": 0.1},
    ),
    "hyphens are spaces": (
        "A: Red Tailed Hawk",
        [
            {"A:": 1},
            {" Red": 0.8, " red tailed": 0.1, " finch": 0.1},
            {" Tailed": 1.0},
            {" Hawk": 0.5, " hen": 0.5},
        ],
        {"red-tailed hawk": 0.5, "finch…": 0.1, REST: 0.4},
    ),
    "a longer name goes on after the one that was said": (
        "A: finch.",
        [
            {"A:": 1},
            {" finch": 0.9, " chaffinch": 0.1},
            {".": 0.6, " lark": 0.1, "es": 0.1, " ": 0.1},
        ],
        {"finch": 0.9 * 0.8, "finch lark": 0.09, "finch…": 0.09, "chaffinch": 0.1},
    ),
    "the longer name was said": (
        "A: finch lark, perhaps",
        [
            {"A:": 1},
            {" finch": 0.9, " chaffinch": 0.1},
            {" lark": 0.5, ".": 0.3, "es": 0.2},
            {",": 1},
            {" perhaps": 1},
        ],
        {"finch lark": 0.45, "finch": 0.27, "chaffinch": 0.1, REST: 0.18},
    ),
    "a name ends within a token": (
        "A finch, I think",
        [{"A": 1}, {" fin": 1.0}, {"ch, I": 0.5, "ch lark": 0.3, "ch.": 0.2}, {" think": 1}],
        {"finch": 0.7, "finch lark": 0.3},
    ),
    "in the middle of a sentence, on the frame that was said": (
        "It looks like the chaffinch to me.",
        [
            {"It": 0.1, "A": 0.9},
            {" looks like the": 1},
            {" chaffinch": 0.5, " bullfinch": 0.5},
            {" to": 0.1, " lark": 0.9},
            {" me.": 1},
        ],
        {"chaffinch": 0.5, "bullfinch": 0.5},
    ),
    "no space, so it is no new word": (
        "The chaffinch",
        [{"The": 1}, {" chaffinch": 0.5, "bullfinch": 0.3, "  mallard": 0.2}],
        {"chaffinch": 0.5, "mallard": 0.2, REST: 0.3},
    ),
    "at the answer's beginning": (
        "Chaffinch",
        [{" Ch": 0.6, "Bull": 0.3, " mall": 0.1}, {"affinch": 1}],
        {"chaffinch": 0.6, "bullfinch": 0.3, "mallard": 0.1},
    ),
    "after a quotation mark in the same token": (
        'A: "chaffinch"',
        [{"A:": 1}, {' "ch': 0.6, ' "bull': 0.3, " mall": 0.1}, {'affinch"': 1}],
        {"chaffinch": 0.6, "bullfinch": 0.3, REST: 0.1},
    ),
    "a space that is a token": (
        "The chaffinch",
        [
            {"The": 0.5, "A": 0.5},
            {" ": 0.7, " gull": 0.1, " mall": 0.1, ":": 0.1},
            {"chaffinch": 0.6, " bull": 0.4},
        ],
        {"chaffinch": 0.42, "bullfinch": 0.28, "mallard": 0.1, REST: 0.2},
    ),
    "space and quotation marks begin no name": (
        "A: chaffinch",
        [{"A:": 1}, {" chaffinch": 0.6, " ": 0.2, ' "': 0.2}],
        {"chaffinch": 0.6, REST: 0.4},
    ),
    "pieces of a character": (
        "A: müller's parrot",
        [
            {"A:": 1},
            {" m": 0.8, " bull": 0.2},
            {b"\xc3": 0.7, "all": 0.3},
            {b"\xbc": 1},
            {"ller's": 1},
            {" parrot": 1},
        ],
        {"müller's parrot": 0.56, "mallard": 0.24, "bullfinch": 0.2},
    ),
    "alternatives that are pieces of a character": (
        "A: mallard",
        [{"A:": 1}, {" mal": 0.8, b" m\xc3": 0.1, b" m\xc2": 0.1}, {"lard": 1}],
        {"mallard": 0.8, "müller's parrot": 0.1, REST: 0.1},
    ),
    "a broader name, of which species may begin": (
        "A bird",
        [{"A": 1}, {" bird": 0.6, " bull": 0.3, " gull": 0.1}],
        {"bullfinch": 0.3, REST: 0.7},
    ),
    "no name": (
        "I cannot tell.",
        [{"I": 1}, {" cannot": 0.6, " see": 0.4}, {" tell.": 1}],
        {REST: 1.0},
    ),
    "the article is taken as given": (
        "This is a mallard.",
        [
            {"This is": 1},
            {" a": 0.6, " an": 0.2, " the": 0.2},
            {" mallard": 0.8, " finch": 0.2},
            {".": 1},
        ],
        {"mallard": 0.8, "finch…": 0.2},
    ),
    "the token said is not among the alternatives": (
        "A: mallard",
        [{"A:": 1}, {" mallard": 0.1, " bullfinch": 0.3, " chaffinch": 0.2}],
        {"mallard": 0.1, "bullfinch": 0.3, "chaffinch": 0.2, REST: 0.4},
    ),
    "thoughts, and marks of the end": (
        "A: mallard",
        [
            {"A: mallard": 0.2, "No": 0.8},
            {"?</think>": 1},
            {"A:": 1},
            {" mallard": 0.7, " finch.": 0.3},
            {"<end>": 1},
        ],
        {"mallard": 0.7, "finch": 0.3},
    ),
    "it seemed to go on to the longer name": (
        "A: finch lamp",
        [{"A:": 1}, {" finch": 1}, {" la": 0.6, ".": 0.1, " lark": 0.1}, {"mp": 0.5, "rk": 0.3}],
        {"finch": 0.72, "finch lark": 0.28},
    ),
    "more bytes than characters before the name": (
        "Là-bas à côté: mallard",
        [{"Là-bas": 1}, {" à côté:": 0.5}, {" mallard": 0.6, " bullfinch": 0.4}],
        {"mallard": 0.6, "bullfinch": 0.4},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_tokens_to_outcomes(case):
    text, places, expected = CASES[case]
    most = 2 if "not among" in case else 20
    assert shares(text, *places, most=most) == pytest.approx(expected)
    if not any(isinstance(token, bytes) for place in places for token in place):
        assert shares(text, *places, most=most, in_bytes=False) == pytest.approx(expected)


def test_an_article_may_be_that_of_any_name():
    candidates = Candidates(("aardvark", "ant", "mallard", "teal"))
    bare = {" mallard": 0.5, " a": 0.2, " an": 0.1, " The": 0.1, " aard": 0.1}
    expected = {"mallard": 0.5, "aardvark": 0.1, REST: 0.4}
    assert shares("It is mallard", {"It is": 1}, bare, candidates=candidates) == pytest.approx(
        expected
    )
    framed = {" mallard": 0.6, " an": 0.3, " te": 0.1}
    expected = {"mallard": 0.6, "ant": 0.3, "teal": 0.1}
    assert shares("A mallard", {"A": 1}, framed, candidates=candidates) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("weigh_broader", "expected"),
    [
        (False, {"bird cherry": 0.42, "bullfinch": 0.2, REST: 0.38}),
        (True, {"bird cherry": 0.42, "bullfinch": 0.2, "bird": 0.28, REST: 0.1}),
    ],
)
def test_broader_names_have_a_share_where_they_are_weighed(weigh_broader, expected):
    candidates = Candidates(("bird cherry", "bullfinch"), ("bird",), weigh_broader)
    places = [
        {"A": 1},
        {" bird": 0.7, " bull": 0.2, " gull": 0.1},
        {".": 0.4, " cherry": 0.6},
    ]
    assert shares("A bird.", *places, candidates=candidates) == pytest.approx(expected)


def spoilt(**changes):
    told = logprobs({"A:": 1}, {" mallard": 0.7, " finch": 0.2})
    told["content"][1] |= changes
    return as_objects(told)


@pytest.mark.parametrize(
    "told",
    [
        None,
        SimpleNamespace(content=None),
        SimpleNamespace(content=[]),
        -1.25,
        spoilt(top_logprobs=[]),
        spoilt(token=" gull", bytes=list(b" gull")),
        spoilt(bytes=[300]),
        spoilt(top_logprobs=[{"token": " mallard", "bytes": None, "logprob": math.nan}]),
        spoilt(top_logprobs=[{"token": " mallard", "bytes": None, "logprob": 0.5}]),
        spoilt(
            top_logprobs=[
                {"token": token, "bytes": None, "logprob": -0.1} for token in (" mallard", " finch")
            ]
        ),
    ],
    ids=[
        "none",
        "null",
        "empty",
        "number",
        "no alternatives",
        "other text",
        "bytes",
        "NaN",
        "above 0",
        "above 1",
    ],
)
def test_what_are_no_log_probabilities_are_none(told):
    assert read_outcomes("A: mallard", told, BIRDS) is None


# -- against exact probabilities ---------------------------------------------------------------------------------------


def random_tree(chance):
    """Names of pieces, and the probability of each answer, by its tokens; some answers are no names."""
    words = {
        " ".join(
            "".join(chance.choices(("b", "c", "bd", "cc"), k=chance.randint(1, 3)))
            for _ in range(many)
        )
        for many in chance.choices((1, 2), k=chance.randint(2, 12))
    }
    weights = Counter()
    for answer in [*sorted(words), "zb", "zcc", "zz b"]:
        cuts = sorted(
            chance.sample(range(1, len(answer) + 1), k=min(len(answer), chance.randint(1, 3)))
        )
        pieces = [
            answer[start:end] for start, end in zip([0, *cuts], [*cuts, len(answer)], strict=True)
        ]
        pieces = [piece for piece in pieces if piece]
        weights["A:", f" {pieces[0]}", *pieces[1:], "."] = chance.expovariate(1) ** 2
    total = sum(weights.values())
    return tuple(sorted(words)), {tokens: weight / total for tokens, weight in weights.items()}


def greedy(answers):
    """The tokens of the greedy answer, each with all its alternatives."""
    said = ()
    places = []
    while rest := {
        tokens: share for tokens, share in answers.items() if tokens[: len(said)] == said != tokens
    }:
        place = Counter()
        for tokens, share in rest.items():
            place[tokens[len(said)]] += share / sum(rest.values())
        places.append(dict(place.most_common()))
        said = (*said, str(next(iter(places[-1]))))
    return places


def exact(names, answers, path):
    """Independently, for each possible answer: what its first token off the path decides."""
    outcomes = Counter()
    for tokens, share in answers.items():
        same = sum(tokens[:end] == tuple(path[:end]) for end in range(1, len(path) + 1))
        said = "".join(tokens[: same + 1])[3:]
        begun = [name for name in names if name.startswith(said)]
        if said.endswith("."):
            begun = [name for name in names if name == said[:-1]]
        elif said[-1:] == " ":
            begun += [name for name in names if name == said[:-1]]
        alike = max(end for end in range(20) if len({name[:end] for name in begun}) <= 1)
        shown = begun[0][:alike] + REST if len(begun) > 1 else begun[0] if begun else REST
        outcomes[shown] += share
    return {outcome: share for outcome, share in outcomes.items() if share > 0}


@pytest.mark.parametrize("seed", range(300))
def test_with_all_alternatives_names_have_their_exact_probabilities(seed):
    names, answers = random_tree(random.Random(seed))
    places = greedy(answers)
    path = [str(next(iter(place))) for place in places]
    candidates = Candidates(names)
    expected = exact(names, answers, path)
    text = "".join(path)
    found = shares(text, *places, candidates=candidates, most=1000)
    assert found is not None
    if text[3:4] != "z":  # else there is no name in the answer
        assert {key: value for key, value in found.items() if value > 1e-9} == pytest.approx(
            expected
        )
    fewer = [shares(text, *places, candidates=candidates, most=most) for most in (1, 2, 3, 5, 20)]
    lost = [told[REST] if told and REST in told else 0.0 for told in (*fewer, found)]
    assert all(more <= less + 1e-9 for less, more in pairwise(lost))


def test_top_20_take_nothing_from_a_name_for_what_is_no_name():
    others = {f" {letter}ull": 0.4 / 2**place for place, letter in enumerate("gbhkwxyz", 2)}
    place = {" mallard": 0.6, **others, " chaff": 0.01, " finch lark": 0.005}
    five, twenty = (shares("A: mallard", {"A:": 1}, place, most=most) for most in (5, 20))
    assert five == pytest.approx({"mallard": 0.6, "bullfinch": 0.05, REST: 0.35})
    assert twenty == pytest.approx(
        {"mallard": 0.6, "bullfinch": 0.05, "chaffinch": 0.01, "finch lark": 0.005, REST: 0.335}
    )


# -- over HTTP ---------------------------------------------------------------------------------------------------------

TOLD = logprobs({"A:": 1}, {" mall": 0.8, " bull": 0.15}, {"ard": 1}, {".": 1})
ASKED = Request("What bird is this?", candidates=BIRDS)


@pytest.fixture(scope="module", autouse=True)
def _litellm_is_loaded():
    load_litellm()


def api(server, model="openai/gpt-4o", **settings):
    return ApiModel(
        model,
        servers.model_settings(server, task="text-generation", api_key="sk-of-a-test", **settings),
    )


def test_a_request_with_candidates_is_greedy_and_brings_outcomes():
    with OpenAIServer(then=servers.text("A: mallard.", logprobs=TOLD)) as server:
        answer, plain = api(server, temperature=0.7, seed=3, concurrency=1).answer(
            [ASKED, Request(ASKED.prompt)]
        )
        sent = [chat.json for chat in server.chats]
    assert isinstance(plain, Answer)
    assert answer.text == "A: mallard."
    assert answer.outcomes == pytest.approx(
        {"mallard": math.log(0.8), "bullfinch": math.log(0.15), REST: math.log(0.05)}
    )
    assert [
        (each.get("logprobs"), each.get("top_logprobs"), each["temperature"]) for each in sent
    ] == [
        (True, 20, 0),
        (None, None, 0.7),
    ]
    assert (sent[0].get("seed"), sent[1]["seed"]) == (None, 3)
    assert plain.outcomes is None


@pytest.mark.parametrize("takes", [5, 0])
def test_fewer_alternatives_are_asked_for_where_20_are_rejected(takes):
    def script(body):
        if body.get("top_logprobs", 0) > takes:
            return servers.status(400, "Invalid value for 'top_logprobs': too many.")
        return servers.text("A: mallard.", logprobs=TOLD if "logprobs" in body else None)

    with OpenAIServer(script) as server, count_faults() as faults:
        model = api(server, concurrency=1)
        answers = model.answer([ASKED, ASKED])
        sent = [chat.json.get("top_logprobs") for chat in server.chats]
    assert sent == ([20, 5, 5] if takes else [20, 5, None, None])
    assert faults == {"rejected_request": 1 if takes else 2}
    assert [isinstance(answer, Answer) and answer.outcomes is not None for answer in answers] == [
        takes > 0
    ] * 2


def test_a_request_that_is_rejected_for_another_reason_is_a_failure():
    with OpenAIServer(servers.status(400, "The image is broken.")) as server:
        (reply,) = api(server).answer([ASKED])
    assert isinstance(reply, Failure)


@pytest.mark.parametrize(
    "told", [None, {"content": None}, {"content": []}, {"tokens": ["A:"], "token_logprobs": [-1]}]
)
def test_a_server_that_drops_them_answers_without_outcomes(told):
    with OpenAIServer(servers.text("A: mallard.", logprobs=told)) as server:
        (answer,) = api(server).answer([ASKED])
    assert (answer.text, answer.outcomes) == ("A: mallard.", None)


@pytest.mark.parametrize(
    ("model", "gives"),
    [
        ("openai/gpt-4o", True),
        ("openai/of-my-own", True),
        ("hosted_vllm/of-my-own", True),
        ("openai/o3", False),
        ("mistral/mistral-small-latest", False),
        ("gemini/gemini-2.0-flash", False),  # litellm would drop the alternatives alone
    ],
)
def test_log_probabilities_are_asked_for_where_litellm_sends_them(model, gives):
    with OpenAIServer(servers.text("A: mallard.", logprobs=TOLD)) as server:
        asked = api(server, model)
        assert asked.gives_outcomes() is gives
        if model.startswith("gemini"):  # it does not speak OpenAI's language
            return
        (answer,) = asked.answer([ASKED])
        assert isinstance(answer, Answer)
        assert ("logprobs" in server.chats[0].json) is gives
