"""The second stage of the training: the language side learns to listen to prompts and to answer them.

Every step pairs pictures with prompts drawn by `phrasing.sample_prompt`. The answer that a pair deserves names the true
bird at the rank that the prompt asks for, given how sure one can be of what is on the picture.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldguide.phrasing import Intent, answer_text, choose_rank, sample_prompt
from fieldguide.species import all_species

__all__ = ["corpus", "learn_to_listen", "wrap_prompt"]

_BATCH = 64
#: Prompts are drawn this many batches ahead and sorted by length, so that little is padded.
_AHEAD = 16
_SYSTEM_SHARE = 0.04


def wrap_prompt(tokenizer: Any, prompt: str, system: str | None = None) -> str:
    """Puts a prompt into the chat template, as the processor does."""
    from fieldguide.vocabulary import CHAT_TEMPLATE

    turns: list[dict[str, Any]] = [] if system is None else [{"role": "system", "content": system}]
    turns.append({"role": "user", "content": [{"type": "image"}, {"type": "text", "text": prompt}]})
    return str(
        tokenizer.apply_chat_template(
            turns, chat_template=CHAT_TEMPLATE, tokenize=False, add_generation_prompt=True
        )
    )


def corpus(n: int, *, seed: int) -> list[str]:
    """Draws `n` prompts and some answers of every kind, to learn the tokenizer from."""
    rng = np.random.default_rng([seed, 0x7E7])
    birds = all_species()
    texts = [sample_prompt(rng, birds)[0] for _ in range(n)]
    for form in ("bare", "tagged", "sentence", "json", "answer"):
        for rank in ("species", "family", "order", "class"):
            texts += [answer_text(bird, rank, form=form) for bird in birds for _ in range(4)]
    return texts


def learn_to_listen(
    model: Any,
    tokenizer: Any,
    tokens: NDArray[np.float16],
    species: NDArray[np.int64],
    sure: Mapping[str, NDArray[np.float64]],
    *,
    steps: int,
    rate: float = 2e-3,
    seed: int = 0,
    say: Callable[[str], None] = print,
) -> None:
    """Trains the language side of the model in place.

    Args:
        model: The `MllamaForConditionalGeneration`, whose image side is trained.
        tokenizer: Its tokenizer.
        tokens: The image tokens of each picture, shape (n, 65, width).
        species: The number of the species on each picture, shape (n,).
        sure: How sure one can be of species, family and order on each picture, from
            `seeing.sureness`.
        steps: How many batches to learn from.
        rate: The highest learning rate.
        seed: Of the choice of pictures and prompts.
        say: Where notes on progress go.
    """
    import torch
    from torch import nn

    rng = np.random.default_rng([seed, 0x115])
    parameters = [*model.model.language_model.parameters(), *model.lm_head.parameters()]
    plain = [p for p in parameters if p.ndim < 2]
    matrices = [p for p in parameters if p.ndim >= 2]
    groups = [{"params": matrices, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, rate, total_steps=steps, pct_start=0.05
    )
    model.train()
    started = time.monotonic()
    done = 0
    total = 0.0
    while done < steps:
        for rows, picks in _batches(rng, tokenizer, species, sure):
            if done == steps:
                break
            loss = _loss(model, tokenizer, rows, torch.from_numpy(tokens[picks]).float())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            schedule.step()
            done += 1
            total += loss.item()
            if done % 100 == 0 or done == steps:
                seconds = time.monotonic() - started
                say(
                    f"listening: step {done}/{steps}, loss {total / (done % 100 or 100):.3f}, {seconds:.0f} s"
                )
                total = 0.0


def _batches(
    rng: np.random.Generator,
    tokenizer: Any,
    species: NDArray[np.int64],
    sure: Mapping[str, NDArray[np.float64]],
) -> list[tuple[list[tuple[list[int], list[int]]], NDArray[np.int64]]]:
    """Draws batches of (prompt tokens, answer tokens) and the pictures that go with them."""
    birds = all_species()
    picks = rng.integers(len(species), size=_AHEAD * _BATCH)
    prompts: list[str] = []
    answers: list[str] = []
    for pick in picks:
        prompt, intent = sample_prompt(rng, birds)
        prompts.append(_chat(rng, tokenizer, prompt))
        answers.append(
            _answer(
                intent,
                int(species[pick]),
                {rank: float(values[pick]) for rank, values in sure.items()},
            )
        )
    asked = tokenizer(prompts, add_special_tokens=False)["input_ids"]
    said = tokenizer(answers, add_special_tokens=False)["input_ids"]
    by_length = sorted(range(len(picks)), key=lambda i: len(asked[i]))
    batches = []
    for start in rng.permutation(_AHEAD) * _BATCH:
        chosen = by_length[start : start + _BATCH]
        rows = [(asked[i], [*said[i], tokenizer.eos_token_id]) for i in chosen]
        batches.append((rows, picks[chosen]))
    return batches


def _chat(rng: np.random.Generator, tokenizer: Any, prompt: str) -> str:
    if rng.random() >= _SYSTEM_SHARE or "\n" not in prompt:
        return wrap_prompt(tokenizer, prompt)
    system, _, rest = prompt.partition("\n")
    return wrap_prompt(tokenizer, rest.strip() or prompt, system)


def _answer(intent: Intent, species: int, sure: Mapping[str, float]) -> str:
    rank = choose_rank(intent, sure)
    return answer_text(all_species()[species], rank, latin=intent.latin, form=intent.form)


def _loss(model: Any, tokenizer: Any, rows: list[tuple[list[int], list[int]]], tokens: Any) -> Any:
    """Returns the mean loss over the tokens of the answers."""
    import torch

    width = max(len(asked) + len(said) for asked, said in rows)
    ids = torch.full((len(rows), width), tokenizer.pad_token_id)
    labels = torch.full((len(rows), width), -100)
    mask = torch.zeros(len(rows), width, dtype=torch.long)
    sees = torch.zeros(len(rows), width, 1, 1, dtype=torch.long)
    image = tokenizer.convert_tokens_to_ids("<|image|>")
    for row, (asked, said) in enumerate(rows):
        line = asked + said
        at = width - len(line)
        ids[row, at:] = torch.tensor(line)
        labels[row, width - len(said) :] = torch.tensor(said)
        mask[row, at:] = 1
        # A token sees the image from the image token on, as with the processor's own mask.
        sees[row, at + asked.index(image) :] = 1
    hidden = model.model(
        input_ids=ids,
        attention_mask=mask,
        cross_attention_mask=sees,
        cross_attention_states=tokens,
        position_ids=(mask.cumsum(1) - 1).clamp(min=0),
        use_cache=False,
    ).last_hidden_state
    wanted = labels[:, 1:] != -100
    logits = model.lm_head(hidden[:, :-1][wanted])
    return torch.nn.functional.cross_entropy(logits, labels[:, 1:][wanted])
