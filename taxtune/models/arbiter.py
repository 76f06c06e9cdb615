"""A chat model as the mapper's arbiter: it reads each answer that is more than a name of a node.

The model is shown numbered nodes. Its reply is a number, so whatever an answer says to the model,
it can at most have another node chosen. Where it moves an answer to a node whose children it was
not shown, it is asked once more, with the children (`walk_down`). Replies are kept on disk by
everything that makes the question: the model, the wording, the question, the answer and the nodes.
Where a call fails after all its attempts, or a reply is no number of a node, the answer stays where
it is; both are counted. The failed call is made again the next time, the unreadable reply is not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from operator import add
from pathlib import Path

from taxtune.errors import ModelError
from taxtune.mapping.config import NONE_OF_THESE, Question
from taxtune.models.ask import ask, check_model, open_replies
from taxtune.models.base import (
    Answer,
    Failure,
    Identity,
    Model,
    ModelSettings,
    ModelUsage,
    Request,
    count_faults,
)
from taxtune.models.judging import JudgePrompt, plain_reply
from taxtune.models.names import is_local, make_model
from taxtune.progress import note
from taxtune.taxonomy import Taxonomy

__all__ = [
    "FURTHER_SHARE",
    "ChatArbiter",
    "Choices",
    "arbiter_settings",
    "estimated_calls",
    "named_arbiter",
    "offer",
    "read_choice",
    "walk_down",
]

#: Further questions, with the children of the node that was chosen, per answer that is asked about:
#: 23 about the 340 answers of benchmarks/chat.
FURTHER_SHARE = 0.07
#: Tokens of a question and of its reply, for estimates: about the mean over the answers in
#: benchmarks/domains, at four characters a token.
_QUESTION_TOKENS = (550, 3)
#: An answer is asked about so often, at most.
_MOST_ROUNDS = 5
#: A node with more children is a choice as it is.
_MOST_CHILDREN = 70
#: Of reading: that it is wrong then is worth knowing.
_SURE = 0.9
#: So many names of a node are shown beside its label.
_MAX_NAMES = 4
#: A number takes few; what a model thinks before it counts as well. One that thinks for longer is
#: cut off and counted. A model on this machine would take minutes.
_MAX_TOKENS = 2000
_MAX_LOCAL_TOKENS = 256
#: A number alone, maybe as "Node: 3", or with the label that it stands for behind it.
_CHOICE = re.compile(
    r"\W*(?:(?:the\s+)?(?:answer|choice|node|number|option)\W*(?:is\b)?\W*)?"
    r"([0-9]{1,4})(?![0-9])(.*)",
    re.I | re.S,
)


@dataclass(frozen=True, slots=True)
class Choices:
    """How often an arbiter and reading agree.

    Attributes:
        agreed: Choices of what reading found.
        moved: Choices of something else.
        moved_sure: Those of them where the confidence of reading was .9 or more.
        unread: Replies that are not the number of a node.
        failed: Failed calls.
    """

    agreed: int = 0
    moved: int = 0
    moved_sure: int = 0
    unread: int = 0
    failed: int = 0

    def __add__(self, other: Choices) -> Choices:
        """Returns the sums."""
        return Choices(*map(add, astuple(self), astuple(other)))

    def __str__(self) -> str:
        """Returns the counts as a sentence."""
        text = (
            f"{self.agreed:,} stay where reading puts them, {self.moved:,} are moved, "
            f"{self.moved_sure:,} of these although its confidence was {_SURE} or more"
        )
        if self.unread:
            text += f"; replies that are not the number of a node: {self.unread:,}"
        if self.failed:
            text += f"; failed calls: {self.failed:,}"
        return text


class ChatArbiter:
    """Asks a chat model which of its candidates an answer belongs on.

    It is the `arbiter` of a `taxtune.mapping.Mapper`.

    Args:
        model: PROVIDER/MODEL behind an API, local:MODEL on this machine, or a model.
        settings: How it is asked; greedily when left out.
        cache_dir: Folder of the replies; None is the user's cache folder.

    Attributes:
        llm: The model.
        choices: How often it and reading have agreed so far.

    Raises:
        ModelError: If the name stands for no model.
    """

    def __init__(
        self,
        model: str | Model,
        settings: ModelSettings | None = None,
        *,
        cache_dir: Path | None = None,
    ) -> None:
        self._model = model
        self._cache_dir = cache_dir
        self._settings = settings or arbiter_settings(model)
        self.llm = make_model(model, self._settings)
        self._prompt = JudgePrompt("choose.j2", "mapper")
        self._spent = ModelUsage()
        self.choices = Choices()

    def __reduce__(self) -> tuple[object, ...]:
        """Returns the parts of a copy in another process, which keeps an account of its own."""
        return partial(type(self), cache_dir=self._cache_dir), (self._model, self._settings)

    @property
    def identity(self) -> Identity:
        """The model, its decoding and the wording of the question."""
        return {**self.llm.identity, "prompt": self._prompt.digest}

    def check(self) -> list[str]:
        """Checks without a call that the model can be asked; returns remarks for the user.

        Raises:
            ModelError: If its key, its provider or its weights are missing.
        """
        return check_model(self.llm)

    def price(self) -> float | None:
        """Returns the approximate price of a question in US dollars.

        It is 0 on this machine, and None where no price is known.
        """
        if isinstance(self._model, str) and is_local(self._model):
            return 0.0
        price: Callable[[int, int], float | None] = getattr(self.llm, "price", lambda *_: None)
        return price(*_QUESTION_TOKENS)

    def spent(self) -> ModelUsage:
        """Returns the calls, tokens and cost since the last call of this method."""
        spent = self._spent
        self._spent = ModelUsage()
        return spent

    def note_spent(self) -> None:
        """Notes how many questions were asked, what they cost and what came of them."""
        spent = self.spent()
        price = ""
        if spent.calls:
            price = " (price unknown)" if spent.cost_usd is None else f" (${spent.cost_usd:,.4f})"
        note(
            f"{self._model} was asked {spent.calls:,} questions{price}; "
            f"{spent.from_store:,} replies are from the store. {self.choices}"
        )

    def prompt(self, taxonomy: Taxonomy, question: Question) -> str:
        """Returns the text of a question: the answer, and its candidates as a numbered tree.

        A node is shown with its common name and those of its names that stand in the answer.
        """
        said = question.answer.casefold()
        options = []
        above: list[int] = []
        for node in question.candidates:
            while above and not taxonomy.is_ancestor(above[-1], node):
                above.pop()
            label, *others = taxonomy.names(node)
            names = [name for name in others if name == others[0] or name.casefold() in said]
            options.append((label, names[:_MAX_NAMES], len(above)))
            above.append(node)
        return self._prompt.render(asked=question.asked, answer=question.answer, options=options)

    def __call__(self, taxonomy: Taxonomy, questions: Sequence[Question]) -> list[int | None]:
        """Returns a node or `NONE_OF_THESE` for each question, once the model has walked down to it.

        It is None where a call failed or a reply cannot be read.

        Raises:
            ModelError: If the model cannot be asked at all: its key is refused, or there is no such
                model.
            DataError: If the file of replies cannot be read or written.
        """
        choices = walk_down(taxonomy, questions, partial(self.choose, taxonomy))
        self.choices += _compared(questions, choices)
        return choices

    def choose(self, taxonomy: Taxonomy, questions: Sequence[Question]) -> list[int | None]:
        """Returns a candidate or `NONE_OF_THESE` for each question, by a call about each.

        It is None where the call failed or the reply cannot be read.

        Raises:
            ModelError: As for a call of the arbiter itself.
            DataError: Likewise.
        """
        requests = [Request(self.prompt(taxonomy, question)) for question in questions]
        with open_replies(self._cache_dir) as store, count_faults() as faults:
            replies = ask(self.llm, requests, store, what="choosing")
        self._spent += ModelUsage.of(replies, faults)
        choices: list[int | None] = []
        for question, reply in zip(questions, replies, strict=True):
            nodes = question.candidates
            labels = [taxonomy.labels[node] for node in nodes]
            number = read_choice(reply.text, labels) if isinstance(reply, Answer) else None
            choices.append(None if number is None else (NONE_OF_THESE, *nodes)[number])
        failures = [reply for reply in replies if isinstance(reply, Failure)]
        unread = choices.count(None) - len(failures)
        self.choices += Choices(unread=unread, failed=len(failures))
        _note_undecided(choices, failures)
        return choices


def arbiter_settings(model: str | Model, api_base: str | None = None) -> ModelSettings:
    """Returns the settings of an arbiter: it is asked greedily, behind an API with room to think.

    Args:
        model: The model, or its name.
        api_base: Address of its server; the provider's own where it is None.
    """
    is_here = isinstance(model, str) and is_local(model)
    return ModelSettings(
        task="text-generation",
        max_tokens=_MAX_LOCAL_TOKENS if is_here else _MAX_TOKENS,
        api_base=api_base,
    )


def named_arbiter(name: str | None) -> ChatArbiter | None:
    """Returns the chat model that a command's option names, or None for none.

    Raises:
        ModelError: If the name stands for no model.
    """
    if name in (None, "none"):
        return None
    if name == "auto":
        raise ModelError(
            "Only a recipe has a chat model that auto could stand for.",
            value=name,
            remedy="Name one, PROVIDER/MODEL, or none.",
        )
    return ChatArbiter(str(name))


def walk_down(
    taxonomy: Taxonomy,
    questions: Sequence[Question],
    choose: Callable[[Sequence[Question]], Sequence[int | None]],
) -> list[int | None]:
    """Returns a choice for each question, from which no other below it would be chosen.

    Where a choice is not that of reading, and not all of its children were shown, a further
    question shows them, and what is above them. Without a further choice the last one stands.

    Args:
        taxonomy: The tree.
        questions: The questions to begin with.
        choose: From the questions of a round to the choices, None where no choice is made.
    """
    choices: list[int | None] = [None] * len(questions)
    asked = dict(enumerate(questions))
    for _ in range(_MOST_ROUNDS):
        further = {}
        for i, choice in zip(asked, choose(list(asked.values())), strict=True):
            if choice is None:
                continue
            before = choices[i]
            choices[i] = choice
            question = _further(taxonomy, asked[i], choice)
            # Who goes back up has seen what is below.
            is_below = before is None or taxonomy.is_ancestor(before, choice)
            if question is not None and is_below:
                further[i] = question
        if not further:
            break
        asked = further
    return choices


def _further(taxonomy: Taxonomy, question: Question, choice: int) -> Question | None:
    """Returns the question that shows the children of a choice, if there is one to be asked."""
    if choice in (NONE_OF_THESE, question.read):
        return None
    children = taxonomy.children(choice).tolist()
    if len(children) > _MOST_CHILDREN or set(children) <= set(question.candidates):
        return None
    return question._replace(candidates=(*taxonomy.ancestors(choice).tolist(), *children))


def _compared(questions: Sequence[Question], choices: Sequence[int | None]) -> Choices:
    agreed = moved = moved_sure = 0
    for question, choice in zip(questions, choices, strict=True):
        if choice == question.read:
            agreed += 1
        elif choice is not None:
            moved += 1
            moved_sure += (question.reading.confidence or 0.0) >= _SURE
    return Choices(agreed=agreed, moved=moved, moved_sure=moved_sure)


def _note_undecided(choices: Sequence[int | None], failures: Sequence[Failure]) -> None:
    """Notes for how many answers no node was chosen, and why."""
    without = choices.count(None)
    if not without:
        return
    causes = []
    if without > len(failures):
        unread = without - len(failures)
        causes.append(f"replies that are not the number of a node: {unread:,}")
    if failures:
        first = failures[0].reason.rstrip(".")
        causes.append(f"failed calls: {len(failures):,}, the first: {first}")
    note(
        f"The arbiter chose no node for {without:,} of {len(choices):,} answers, "
        f"which stay where they are; {'; '.join(causes)}."
    )


def estimated_calls(answers: int) -> int:
    """Returns about how many questions are asked about so many different answers, none a name."""
    return round((1 + FURTHER_SHARE) * answers)


def offer(answers: int, how: str) -> str:
    """Returns a line on what a chat model would be asked where there is none.

    Args:
        answers: The most answers that there may be.
        how: How a model is named.
    """
    return (
        f"No chat model reads the answers. One ({how}) would be asked about at most {answers:,}, "
        f"some {_QUESTION_TOKENS[0]} tokens each: once where answers repeat, and not about names "
        "alone. It helps most where placements are doubtful, see docs/how-to/arbiter.md."
    )


def read_choice(reply: str, labels: Sequence[str]) -> int | None:
    """Returns the number that a reply gives, from 0 to the number of labels, if it gives one.

    Args:
        reply: The reply; thoughts and mark-up are left out.
        labels: The labels that the numbers from 1 on stand for; the number's own label may follow
            it.
    """
    text = plain_reply(reply)
    match = None if text is None else _CHOICE.fullmatch(text.strip())
    if match is None:
        return None
    number = int(match[1])
    if number > len(labels):
        return None
    rest = _words(match[2])
    label = _words(("none of these", *labels)[number])
    # The label of 0 begins with "none of these".
    is_label = rest == label or (number == 0 and rest[:3] == label)
    return number if is_label or not rest else None


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())
