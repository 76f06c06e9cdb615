"""Groups for labels as a chat model sorts them."""

from __future__ import annotations

from collections.abc import Sequence

from taxtune.authoring.labels import Label
from taxtune.authoring.replies import UnreadError, read_json, render_prompt
from taxtune.errors import ModelError
from taxtune.models import Answer, AnswerStore, Model, Request, ask
from taxtune.progress import track
from taxtune.tables import clean

__all__ = ["group_labels"]

#: Labels that one prompt asks about, and how often it is asked until the reply can be used.
LABELS, ATTEMPTS = 60, 3
# Other labels that a prompt names, so no group is called like one.
_SHOWN = 200


def group_labels(
    llm: Model,
    labels: Sequence[Label],
    *,
    max_depth: int | None = None,
    min_children: int = 2,
    store: AnswerStore | None = None,
) -> tuple[dict[str, tuple[str, ...]], list[dict[str, object]]]:
    """Asks a chat model which groups each label is in.

    Labels are asked about some dozens at a time, each time with the groups that are in use already. A reply has to name
    every label it was asked about once and no other, and no group like a label; one that does not is unread, and the
    model is told what is wrong with it and asked again.

    Args:
        llm: The chat model.
        labels: The labels.
        max_depth: Most edges from the root to a label, or None for five.
        min_children: How many labels a group should hold.
        store: Where replies are kept, or None.

    Returns:
        The groups of each label by its name, the widest first; and the replies that could not be used, each with the
        labels asked about and what is wrong.

    Raises:
        ModelError: If the model cannot reply, or none of its replies about some labels can be used.
    """
    most = max(1, (max_depth or 6) - 1)
    names = {label.name.casefold() for label in labels}
    spelling: dict[str, str] = {}
    paths: dict[str, tuple[str, ...]] = {}
    unread: list[dict[str, object]] = []
    with track("sorting labels", len(labels)) as task:
        for start in range(0, len(labels), LABELS):
            asked = [label.name for label in labels[start : start + LABELS]]
            others = [label.name for label in labels if label.name not in asked][:_SHOWN]
            problem = ""
            for _ in range(ATTEMPTS):
                groups = sorted({path[:end] for path in paths.values() for end in range(1, len(path) + 1)})
                prompt = render_prompt(
                    "groups.j2",
                    labels=asked,
                    more=others,
                    groups=groups,
                    most=most,
                    least=min_children,
                    problem=problem,
                )
                reply = ask(llm, [Request(prompt)], store)[0]
                if not isinstance(reply, Answer):
                    raise ModelError(
                        f"The model did not reply: {reply.reason}",
                        remedy="Run the command again; the replies so far are saved.",
                    )
                try:
                    paths |= _read(reply.text, asked, names, most, spelling)
                    break
                except UnreadError as error:
                    problem = str(error)
                    unread.append({"labels": asked, "reply": reply.text, "reason": problem})
            else:
                raise ModelError(
                    f"None of {ATTEMPTS} replies about {len(asked)} labels can be used; the last problem: {problem}",
                    value=", ".join(asked[:5]) + (", …" if len(asked) > 5 else ""),
                    remedy="Use another model, or remove --llm to use WordNet.",
                )
            task.advance(len(asked))
    return paths, unread


def _read(
    reply: str, asked: Sequence[str], names: set[str], most: int, spelling: dict[str, str]
) -> dict[str, tuple[str, ...]]:
    value = read_json(reply)
    if not isinstance(value, dict):
        raise UnreadError("It is not a JSON object.")
    missing = [name for name in asked if name not in value]
    strange = [name for name in value if name not in asked]
    if missing or strange:
        wrong = ((missing, "labels are missing"), (strange, "keys are not labels from the question"))
        said = [f"{len(some)} {what}: {', '.join(map(repr, some[:5]))}" for some, what in wrong if some]
        raise UnreadError("; ".join(said) + ".")
    paths = {}
    for name, groups in value.items():
        if not isinstance(groups, list) or not all(isinstance(group, str) and clean(group) for group in groups):
            raise UnreadError(f"The value of {name!r} is not a list of groups.")
        path = tuple(map(clean, groups))
        if len(path) > most:
            raise UnreadError(f"{name!r} is in {len(path)} nested groups, more than {most}.")
        like = [group for group in path if group.casefold() in names]
        if like:
            raise UnreadError(f"The group {like[0]!r} of {name!r} has the same name as a label.")
        if len({group.casefold() for group in path}) < len(path):
            raise UnreadError(f"A group of {name!r} contains itself.")
        paths[name] = path
    # One spelling a group, so that "Dogs" and "dogs" are one.
    return {name: tuple(spelling.setdefault(group.casefold(), group) for group in path) for name, path in paths.items()}
