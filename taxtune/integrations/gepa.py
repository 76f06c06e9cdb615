"""gepa.optimize as the search of a tuning run (Agrawal et al. 2025, https://github.com/gepa-ai/gepa).

    from taxtune.integrations import gepa

    result = gepa.optimize("openai/gpt-5", max_metric_calls=400, recipe="fieldguide")

gepa proposes, by reflection on answers; what it keeps becomes the iterations of a run like any other: asked about the
tuning images (the answers are there), the winner chosen by the run's objective and judged once on the held-out images.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from taxtune.errors import MissingExtraError, ProposerError, TemplateError
from taxtune.integrations.gepa_adapter import COMPONENT, Adapter
from taxtune.integrations.gepa_reflection import Log, Reflection, reflection_prompt
from taxtune.models import AnswerStore, Model, ModelSettings, RetryPolicy, check_model, function_identity, make_model
from taxtune.tuning.proposers import Check, Goal, Proposal, ProposalFailed, Proposer
from taxtune.tuning.proposers.messages import Messages
from taxtune.tuning.records import IterationRecord, SampleResult, TuneResult

if TYPE_CHECKING:
    from taxtune.tuning.loop import Tuner

__all__ = ["Adapter", "GepaProposer", "Log", "optimize"]

_OWN = ("seed_candidate", "trainset", "valset", "adapter", "reflection_lm", "max_metric_calls", "seed", "logger")


class GepaProposer(Proposer):
    """Runs gepa's whole search in the first iteration and proposes what it kept, one template an iteration.

    Args:
        reflection_lm: The model that reflects: what `taxtune.make_model` takes, a function (prompt) -> str included.
        max_metric_calls: gepa's budget: pairs of a template and an image that it may score, those that the store
            answers included.
        score: From a row to a number, larger is better; the objective's value of one image where left out.
        settings: Further arguments of `gepa.optimize`, such as {"reflection_minibatch_size": 5}.
    """

    def __init__(
        self,
        reflection_lm: str | Callable[[str], str] | Model,
        *,
        max_metric_calls: int,
        score: Callable[[SampleResult], float] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.max_metric_calls, self.score, self.settings = max_metric_calls, score, dict(settings or {})
        usual = ModelSettings(task="text-generation", max_tokens=4_000, temperature=1.0, retry=RetryPolicy(timeout=120))
        self.model = make_model(reflection_lm, usual)
        self._tuner: Tuner | None = None
        self._found: list[tuple[str, str]] | None = None
        self._spent: dict[str, Any] = {}

    def on_start(self, tuner: Tuner, done: Sequence[IterationRecord]) -> None:
        """Learns which run it proposes for."""
        self._tuner = tuner

    def identity(self) -> dict[str, str | int | float | None]:
        """Returns the reflection model, hashes of what it reads and of an own score, and gepa's plain settings."""
        plain = {key: value for key, value in self.settings.items() if isinstance(value, str | int | float)}
        return {
            "kind": "gepa",
            **{f"reflection.{key}": value for key, value in self.model.identity.items()},
            "prompts_digest": Messages().digest + hashlib.sha256(reflection_prompt().encode()).hexdigest()[:16],
            **{f"settings.{key}": value for key, value in plain.items()},
            **({} if self.score is None else {"score": function_identity(self.score)["source"]}),
        }

    def check(self) -> None:
        """Checks that gepa is installed, takes the settings, and the reflection model can be asked."""
        known = _gepa_arguments()
        for name in self.settings:
            if name in _OWN or name not in known:
                raise ProposerError("gepa.optimize takes no such setting here.", value=name)
        check_model(self.model)

    def propose(
        self, history: Sequence[IterationRecord], goal: Goal, *, iteration: int, seed: int, check: Check
    ) -> Proposal:
        """Returns the first template of gepa's that the run has not tried; see `Proposer.propose`.

        Raises:
            ProposalFailed: All have been tried.
            ProposerError: The reflection model is out of reach.
        """
        tuner = self._tuner
        if tuner is None:
            raise ProposerError("gepa has not been told its run.", remedy="Give this proposer as a callback, too.")
        if self._found is None:
            self._found = self._search(tuner, history[:1], goal, seed)
        # Not `check`, which knows what was proposed when the search began, and an earlier session may have finished it.
        earlier = tuner.history.templates()
        for template, parent in self._found:
            try:
                tuner.experiment.check(template, earlier)
            except TemplateError:  # tried already
                continue
            spent, self._spent = self._spent, {}
            return Proposal(template, {"parent": parent}, **spent)
        raise ProposalFailed(
            f"gepa kept {len(self._found)} templates within {self.max_metric_calls} metric calls, and all of them have "
            "been asked.",
            final=True,
        )

    def _search(self, tuner: Tuner, history: Sequence[IterationRecord], goal: Goal, seed: int) -> list[tuple[str, str]]:
        """Returns the templates that gepa kept, in their order, each with the number of what it was made from."""
        import gepa

        experiment, stage, calls = tuner.experiment, tuner.experiment.stages[0], self.max_metric_calls
        block = experiment.splits.tuning[: stage.images]
        if experiment.budget.vlm_calls is not None:
            calls = min(calls, stage.templates * stage.images)
        with AnswerStore(tuner.answers) as store:
            adapter = Adapter(experiment, store, score=self.score)
            reflection = Reflection(self.model, adapter, store, history, goal)
            own = self.settings.get("stop_callbacks") or []
            given = {
                "reflection_prompt_template": reflection_prompt(),
                **self._perfect(adapter),
                **self.settings,
                "stop_callbacks": [
                    lambda _: reflection.error is not None,
                    *(own if isinstance(own, Sequence) else [own]),
                ],
            }
            found = gepa.optimize(
                adapter.seed,
                adapter.examples,
                block,
                adapter=adapter,
                reflection_lm=reflection,
                max_metric_calls=calls,
                seed=seed,
                logger=Log(),
                **given,
            )
        if reflection.error is not None:
            raise reflection.error
        templates = [each[COMPONENT] for each in found.candidates]
        iterations = {(template, example.id) for template in templates for example in block}
        self._spent = {
            "prompt_tokens": reflection.prompt_tokens,
            "completion_tokens": reflection.completion_tokens,
            "cost_usd": None if None in reflection.costs else sum(filter(None, reflection.costs)),
            "trials": replace(adapter.usage, tried=len(set(adapter.asked) - iterations)),
            "judged": adapter.judged,
        }
        parents = [", ".join(map(str, each)) for each in found.parents]
        return list(zip(templates, parents, strict=True))[1:]  # without the seed

    def _perfect(self, adapter: Adapter) -> dict[str, Any]:
        """Returns what gepa counts as a minibatch to learn nothing from: exact answers, where their value is known."""
        if self.score is not None or adapter.experiment.objective.needs:
            return {"skip_perfect_score": False}
        target = adapter.examples[0].target
        return {"perfect_score": adapter.value(SampleResult("", "", target, "", node=target))}


def optimize(
    reflection_lm: str | Callable[[str], str] | Model,
    *,
    max_metric_calls: int,
    score: Callable[[SampleResult], float] | None = None,
    gepa_settings: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    callbacks: Sequence[Any] = (),
    **what: Any,
) -> TuneResult:
    """Tunes a template with gepa.

    Args:
        reflection_lm: The model that reads answers and writes templates: "PROVIDER/MODEL", "local:MODEL", a function
            (prompt) -> str, or what `taxtune.make_model` returns (for an address, a key or other settings).
        max_metric_calls: gepa's budget: pairs of a template and an image that it may score, those that the store
            answers included. The seed takes one for each tuning image that an iteration asks about, and so
            does every template that it keeps.
        score: What gepa maximises, a function of a row, larger is better. Where left out the objective's value of one
            image, and for an objective with a constraint on hP or hR (4 hP + hR) / 5; whatever gepa maximises, the
            winner is chosen by the run's objective.
        gepa_settings: Further arguments of `gepa.optimize`, such as {"reflection_minibatch_size": 5}.
        settings: As in `taxtune.tune`.
        callbacks: As in `taxtune.tune`.
        **what: The other arguments of `taxtune.tune`: recipe, or taxonomy, examples and vlm; objective,
            out, resume and so on.

    Returns:
        The result: `best.prompt`, `heldout`, `report("r.html")`. `best.parameters["parent"]` is the number of the
        template that gepa made it from.

    Raises:
        MissingExtraError: If gepa is not installed.
        TaxtuneError: If something is missing or wrong, or a model is out of reach; what is done is kept.
    """
    from taxtune.api import tune

    _gepa_arguments()
    search = GepaProposer(reflection_lm, max_metric_calls=max_metric_calls, score=score, settings=gepa_settings)
    # Its own budget is what ends it: every template that it keeps may become an iteration.
    settings = {"iterations": max_metric_calls, **(settings or {})}
    return tune(**what, proposer=search, settings=settings, callbacks=[*callbacks, search])


def _gepa_arguments() -> frozenset[str]:
    """Returns what `gepa.optimize` takes.

    Raises:
        MissingExtraError: If gepa is not installed.
    """
    try:
        from gepa import optimize as engine
    except ImportError as error:
        raise MissingExtraError("gepa", "gepa", "Tuning with gepa") from error
    return frozenset(inspect.signature(engine).parameters)
