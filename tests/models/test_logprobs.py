from __future__ import annotations

import json
import math
import random
from collections import Counter
from itertools import pairwise
from os.path import commonprefix
from types import SimpleNamespace

import pytest

from taxtune.models import Failure, Request
from taxtune.models.base import OTHERWISE, Candidates
from taxtune.models.logprobs import read_outcomes
from tests import servers
from tests.models.replies import api_model, exchange, texts
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

pytestmark = pytest.mark.usefixtures("litellm")


def as_objects(told):
    """What litellm makes of a reply's log-probabilities."""
    return json.loads(json.dumps(told), object_hook=lambda fields: SimpleNamespace(**fields))


def shares(text, *places, candidates=BIRDS, **told):
    """The probabilities of an answer's outcomes; each place has the token that was said first."""
    places = [{place: 1} if isinstance(place, str) else place for place in places]
    outcomes = read_outcomes(text, as_objects(logprobs(*places, **told)), candidates)
    if outcomes is None:
        return None
    assert sum(map(math.exp, outcomes.values())) == pytest.approx(1)
    return {outcome: math.exp(log) for outcome, log in outcomes.items()}


# -- tokens to outcomes ------------------------------------------------------------------------------------------------

REST = OTHERWISE
CASES = []


def case(name, text, *places, outcomes, **told):
    """Adds an answer and the places of its tokens; a place that is a text has no alternative."""
    CASES.append(pytest.param(text, places, outcomes, told, id=name))


case(
    "whole names, a space before each",
    "A: chaffinch",
    "A:",
    {" chaffinch": 0.7, " bullfinch": 0.2, " gull": 0.1},
    outcomes={"chaffinch": 0.7, "bullfinch": 0.2, REST: 0.1},
)
case(
    "pieces: what the path says is multiplied",
    "A: chaffinch",
    "A:",
    {" chaff": 0.8, " bull": 0.2},
    {"inch": 0.5, "y": 0.5},
    outcomes={"chaffinch": 0.4, "bullfinch": 0.2, REST: 0.4},
)
case(
    "how several names begin",
    "A: chaffinch",
    "A:",
    {" chaffinch": 0.7, " f": 0.2, " m": 0.1},
    outcomes={"chaffinch": 0.7, "finch…": 0.2, "m…": 0.1},
)
case(
    "what is not told is otherwise",
    "A: chaffinch",
    "A:",
    {" chaffinch": 0.7, " bullfinch": 0.1},
    outcomes={"chaffinch": 0.7, "bullfinch": 0.1, REST: 0.2},
)
case(
    "any case, and the tree's spelling",
    "A: CHAFFINCH.",
    "A:",
    {" CHAFFINCH.": 0.6, " Bull": 0.3, " STELLER": 0.1},
    outcomes={"chaffinch": 0.6, "bullfinch": 0.3, "Steller's jay": 0.1},
)
case(
    "hyphens are spaces",
    "A: Red Tailed Hawk",
    "A:",
    {" Red": 0.8, " red tailed": 0.1, " finch": 0.1},
    " Tailed",
    {" Hawk": 0.5, " hen": 0.5},
    outcomes={"red-tailed hawk": 0.5, "finch…": 0.1, REST: 0.4},
)
case(
    "a longer name goes on after the one that was said",
    "A: finch.",
    "A:",
    {" finch": 0.9, " chaffinch": 0.1},
    {".": 0.6, " lark": 0.1, "es": 0.1, " ": 0.1},
    outcomes={"finch": 0.9 * 0.8, "finch lark": 0.09, "finch…": 0.09, "chaffinch": 0.1},
)
case(
    "the longer name was said",
    "A: finch lark, perhaps",
    "A:",
    {" finch": 0.9, " chaffinch": 0.1},
    {" lark": 0.5, ".": 0.3, "es": 0.2},
    ",",
    " perhaps",
    outcomes={"finch lark": 0.45, "finch": 0.27, "chaffinch": 0.1, REST: 0.18},
)
case(
    "a name ends within a token",
    "A finch, I think",
    "A",
    " fin",
    {"ch, I": 0.5, "ch lark": 0.3, "ch.": 0.2},
    " think",
    outcomes={"finch": 0.7, "finch lark": 0.3},
)
case(
    "in the middle of a sentence, on the frame that was said",
    "It looks like the chaffinch to me.",
    {"It": 0.1, "A": 0.9},
    " looks like the",
    {" chaffinch": 0.5, " bullfinch": 0.5},
    {" to": 0.1, " lark": 0.9},
    " me.",
    outcomes={"chaffinch": 0.5, "bullfinch": 0.5},
)
case(
    "no space, so it is no new word",
    "The chaffinch",
    "The",
    {" chaffinch": 0.5, "bullfinch": 0.3, "  mallard": 0.2},
    outcomes={"chaffinch": 0.5, "mallard": 0.2, REST: 0.3},
)
case(
    "at the answer's beginning",
    "Chaffinch",
    {" Ch": 0.6, "Bull": 0.3, " mall": 0.1},
    "affinch",
    outcomes={"chaffinch": 0.6, "bullfinch": 0.3, "mallard": 0.1},
)
case(
    "after a quotation mark in the same token",
    'A: "chaffinch"',
    "A:",
    {' "ch': 0.6, ' "bull': 0.3, " mall": 0.1},
    'affinch"',
    outcomes={"chaffinch": 0.6, "bullfinch": 0.3, REST: 0.1},
)
case(
    "a space that is a token",
    "The chaffinch",
    {"The": 0.5, "A": 0.5},
    {" ": 0.7, " gull": 0.1, " mall": 0.1, ":": 0.1},
    {"chaffinch": 0.6, " bull": 0.4},
    outcomes={"chaffinch": 0.42, "bullfinch": 0.28, "mallard": 0.1, REST: 0.2},
)
case(
    "space and quotation marks begin no name",
    "A: chaffinch",
    "A:",
    {" chaffinch": 0.6, " ": 0.2, ' "': 0.2},
    outcomes={"chaffinch": 0.6, REST: 0.4},
)
case(
    "pieces of a character",
    "A: müller's parrot",
    "A:",
    {" m": 0.8, " bull": 0.2},
    {b"\xc3": 0.7, "all": 0.3},
    {b"\xbc": 1},
    "ller's",
    " parrot",
    outcomes={"müller's parrot": 0.56, "mallard": 0.24, "bullfinch": 0.2},
)
case(
    "alternatives that are pieces of a character",
    "A: mallard",
    "A:",
    {" mal": 0.8, b" m\xc3": 0.1, b" m\xc2": 0.1},
    "lard",
    outcomes={"mallard": 0.8, "müller's parrot": 0.1, REST: 0.1},
)
case(
    "a broader name, of which species may begin",
    "A bird",
    "A",
    {" bird": 0.6, " bull": 0.3, " gull": 0.1},
    outcomes={"bullfinch": 0.3, REST: 0.7},
)
case(
    "no name", "I cannot tell.", "I", {" cannot": 0.6, " see": 0.4}, " tell.", outcomes={REST: 1.0}
)
case(
    "the article is taken as given",
    "This is a mallard.",
    "This is",
    {" a": 0.6, " an": 0.2, " the": 0.2},
    {" mallard": 0.8, " finch": 0.2},
    ".",
    outcomes={"mallard": 0.8, "finch…": 0.2},
)
case(
    "the token said is not among the alternatives",
    "A: mallard",
    "A:",
    {" mallard": 0.1, " bullfinch": 0.3, " chaffinch": 0.2},
    outcomes={"mallard": 0.1, "bullfinch": 0.3, "chaffinch": 0.2, REST: 0.4},
    most=2,
)
case(
    "thoughts, and marks of the end",
    "A: mallard",
    {"A: mallard": 0.2, "No": 0.8},
    "?</think>",
    "A:",
    {" mallard": 0.7, " finch.": 0.3},
    "<end>",
    outcomes={"mallard": 0.7, "finch": 0.3},
)
case(
    "it seemed to go on to the longer name",
    "A: finch lamp",
    "A:",
    " finch",
    {" la": 0.6, ".": 0.1, " lark": 0.1},
    {"mp": 0.5, "rk": 0.3},
    outcomes={"finch": 0.72, "finch lark": 0.28},
)
case(
    "more bytes than characters before the name",
    "Là-bas à côté: mallard",
    "Là-bas",
    {" à côté:": 0.5},
    {" mallard": 0.6, " bullfinch": 0.4},
    outcomes={"mallard": 0.6, "bullfinch": 0.4},
)


@pytest.mark.parametrize(("text", "places", "expected", "told"), CASES)
def test_tokens_to_outcomes(text, places, expected, told):
    assert shares(text, *places, **told) == pytest.approx(expected)
    has_bytes = any(isinstance(token, bytes) for place in places for token in place)
    if not has_bytes:
        assert shares(text, *places, in_bytes=False, **told) == pytest.approx(expected)


def test_an_article_may_be_that_of_any_name():
    candidates = Candidates(("aardvark", "ant", "mallard", "teal"))
    bare = {" mallard": 0.5, " a": 0.2, " an": 0.1, " The": 0.1, " aard": 0.1}
    found = shares("It is mallard", "It is", bare, candidates=candidates)
    assert found == pytest.approx({"mallard": 0.5, "aardvark": 0.1, REST: 0.4})
    framed = {" mallard": 0.6, " an": 0.3, " te": 0.1}
    found = shares("A mallard", "A", framed, candidates=candidates)
    assert found == pytest.approx({"mallard": 0.6, "ant": 0.3, "teal": 0.1})


@pytest.mark.parametrize("weigh_broader", [False, True])
def test_broader_names_have_a_share_where_they_are_weighed(weigh_broader):
    candidates = Candidates(("bird cherry", "bullfinch"), ("bird",), weigh_broader)
    bird = {" bird": 0.7, " bull": 0.2, " gull": 0.1}
    found = shares("A bird.", "A", bird, {".": 0.4, " cherry": 0.6}, candidates=candidates)
    own = {"bird": 0.28, REST: 0.1} if weigh_broader else {REST: 0.38}
    assert found == pytest.approx({"bird cherry": 0.42, "bullfinch": 0.2, **own})


def alternative(token, logprob):
    return {"token": token, "bytes": None, "logprob": logprob}


SPOILT = {
    "no alternatives": {"top_logprobs": []},
    "other text": {"token": " gull", "bytes": list(b" gull")},
    "bytes": {"bytes": [300]},
    "NaN": {"top_logprobs": [alternative(" mallard", math.nan)]},
    "above 0": {"top_logprobs": [alternative(" mallard", 0.5)]},
    "above 1": {"top_logprobs": [alternative(" mallard", -0.1), alternative(" finch", -0.1)]},
}


@pytest.mark.parametrize("changes", SPOILT.values(), ids=SPOILT)
def test_spoilt_log_probabilities_are_none(changes):
    told = logprobs({"A:": 1}, {" mallard": 0.7, " finch": 0.2})
    told["content"][1] |= changes
    assert read_outcomes("A: mallard", as_objects(told), BIRDS) is None


@pytest.mark.parametrize(
    "told", [None, SimpleNamespace(content=None), SimpleNamespace(content=[]), -1.25]
)
def test_what_are_no_log_probabilities_are_none(told):
    assert read_outcomes("A: mallard", told, BIRDS) is None


# -- against exact probabilities ---------------------------------------------------------------------------------------


def random_word(chance):
    return "".join(chance.choices(("b", "c", "bd", "cc"), k=chance.randint(1, 3)))


def random_pieces(chance, answer):
    count = min(len(answer), chance.randint(1, 3))
    cuts = sorted(chance.sample(range(1, len(answer) + 1), k=count))
    pieces = [answer[start:end] for start, end in pairwise([0, *cuts, len(answer)])]
    return [piece for piece in pieces if piece]


def random_tree(chance):
    """Names of pieces, and the probability of each answer, by its tokens; some are no names."""
    words = set()
    for many in chance.choices((1, 2), k=chance.randint(2, 12)):
        words.add(" ".join(random_word(chance) for _ in range(many)))
    weights = Counter()
    for answer in [*sorted(words), "zb", "zcc", "zz b"]:
        first, *others = random_pieces(chance, answer)
        weights["A:", f" {first}", *others, "."] = chance.expovariate(1) ** 2
    total = sum(weights.values())
    return tuple(sorted(words)), {tokens: weight / total for tokens, weight in weights.items()}


def greedy(answers):
    """The tokens of the greedy answer, each with all its alternatives."""
    path = ()
    places = []
    while True:
        place = Counter()
        for tokens, share in answers.items():
            if tokens[: len(path)] == path != tokens:
                place[tokens[len(path)]] += share
        if not place:
            return places
        total = sum(place.values())
        places.append({token: share / total for token, share in place.most_common()})
        path = (*path, next(iter(places[-1])))


def exact(names, answers, path):
    """Independently, for each possible answer: what its first token off the path decides."""
    outcomes = Counter()
    for tokens, share in answers.items():
        same = sum(tokens[:end] == tuple(path[:end]) for end in range(1, len(path) + 1))
        said = "".join(tokens[: same + 1])[3:]
        begun = [name for name in names if name.startswith(said)]
        whole = [name for name in names if name == said[:-1]]
        if said.endswith("."):
            begun = whole
        elif said[-1:] == " ":
            begun += whole
        if not begun:
            outcome = REST
        elif len(begun) == 1:
            outcome = begun[0]
        else:
            outcome = commonprefix(begun) + REST  # noqa: RUF071 - they are no paths
        outcomes[outcome] += share
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
        probable = {outcome: share for outcome, share in found.items() if share > 1e-9}
        assert probable == pytest.approx(expected)
    lost = []
    for most in (1, 2, 3, 5, 20, 1000):
        told = shares(text, *places, candidates=candidates, most=most) or {}
        lost.append(told.get(REST, 0.0))
    assert all(more <= less + 1e-9 for less, more in pairwise(lost))


def test_top_20_take_nothing_from_a_name_for_what_is_no_name():
    others = {f" {letter}ull": 0.4 / 2**rank for rank, letter in enumerate("gbhkwxyz", 2)}
    place = {" mallard": 0.6, **others, " chaff": 0.01, " finch lark": 0.005}
    five = shares("A: mallard", "A:", place, most=5)
    assert five == pytest.approx({"mallard": 0.6, "bullfinch": 0.05, REST: 0.35})
    twenty = shares("A: mallard", "A:", place, most=20)
    rare = {"chaffinch": 0.01, "finch lark": 0.005}
    assert twenty == pytest.approx({"mallard": 0.6, "bullfinch": 0.05, **rare, REST: 0.335})


# -- over HTTP ---------------------------------------------------------------------------------------------------------

TOLD = logprobs({"A:": 1}, {" mall": 0.8, " bull": 0.15}, {"ard": 1}, {".": 1})
ASKED = Request("What bird is this?", candidates=BIRDS)


TEXT = servers.text("A: mallard.", logprobs=TOLD)


def test_a_request_with_candidates_is_greedy_and_brings_outcomes():
    requests = [ASKED, Request(ASKED.prompt)]
    (answer, plain), chats, _ = exchange(
        requests, then=TEXT, temperature=0.7, seed=3, concurrency=1
    )
    scored, sampled = (chat.json for chat in chats)
    assert answer.text == "A: mallard."
    shares = {name: math.exp(log) for name, log in answer.outcomes.items()}
    assert shares == pytest.approx({"mallard": 0.8, "bullfinch": 0.15, REST: 0.05})
    assert (scored["logprobs"], scored["top_logprobs"], scored["temperature"]) == (True, 20, 0)
    assert "seed" not in scored
    assert not {"logprobs", "top_logprobs"} & set(sampled)
    assert (sampled["temperature"], sampled["seed"]) == (0.7, 3)
    assert plain.outcomes is None


@pytest.mark.parametrize("takes", [5, 0])
def test_fewer_alternatives_are_asked_for_where_20_are_rejected(takes):
    def script(body):
        if body.get("top_logprobs", 0) > takes:
            return servers.status(400, "Invalid value for 'top_logprobs': too many.")
        return servers.text("A: mallard.", logprobs=TOLD if "logprobs" in body else None)

    answers, chats, faults = exchange([ASKED, ASKED], script, concurrency=1)
    sent = [chat.json.get("top_logprobs") for chat in chats]
    assert sent == ([20, 5, 5] if takes else [20, 5, None, None])
    assert faults == {"rejected_request": 1 if takes else 2}
    assert [answer.outcomes is not None for answer in answers] == [takes > 0] * 2


def test_a_request_that_is_rejected_for_another_reason_is_a_failure():
    [reply], _, _ = exchange([ASKED], servers.status(400, "The image is broken."))
    assert isinstance(reply, Failure)


@pytest.mark.parametrize(
    "told", [None, {"content": None}, {"content": []}, {"tokens": ["A:"], "token_logprobs": [-1]}]
)
def test_a_server_that_drops_them_answers_without_outcomes(told):
    [answer], _, _ = exchange([ASKED], servers.text("A: mallard.", logprobs=told))
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
    with OpenAIServer(TEXT) as server:
        asked = api_model(server, model)
        assert asked.gives_outcomes() is gives
        if model.startswith("gemini"):  # it does not speak OpenAI's language
            return
        texts(asked.answer([ASKED]))
        assert ("logprobs" in server.chats[0].json) is gives
