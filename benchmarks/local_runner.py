"""What the order of the questions, the batch and the settings of transformers are worth to a model that runs here.

Run `python benchmarks/local_runner.py`. A language model of Llama's shape is built with random weights, and asked 64
prompts of very different lengths, as a judge is, for 15 tokens each: in the order in which they come, as `generate` is
called in most evaluators, and as taxtune asks. `--variants` adds other attention, caches, compilation and weights. All
variants are timed in turn, so that what else the machine does falls on all of them, and the best time of each counts.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # so that it runs as a script, too
from benchmarks.random_vlms import byte_tokenizer
from taxtune.models import Answer, ModelSettings, Reply, Request
from taxtune.models.local import LocalLLM

Run = Callable[[], list[Reply]]
NEW_TOKENS = 15
VOCABULARY = 32_000


def make_model(folder: Path, width: int, layers: int) -> None:
    """Writes a checkpoint: a token a byte, a large vocabulary as real models have, and random weights."""
    tokenizer = byte_tokenizer(["<end>"], bos=None, eos="<end>", pad="<end>", size=VOCABULARY)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        num_key_value_heads=width // 128,
        vocab_size=VOCABULARY,
        # Next to never written, so that all answers are of one length.
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def made_prompts(count: int) -> list[Request]:
    """Prompts of 20 to 600 tokens, half of them below 100, in no order."""
    rng = random.Random(0)
    lengths = [round(min(600, max(20, rng.lognormvariate(4.6, 0.8)))) for _ in range(count)]
    return [Request("".join(rng.choices("abcdefghij ", k=length))) for length in lengths]


def in_order(model: LocalLLM, requests: list[Request], size: int) -> list[Reply]:
    """Asks batch by batch in the order of the requests."""
    return [
        reply
        for at in range(0, len(requests), size)
        for reply in model.answer(requests[at : at + size])
    ]


def variants(folder: Path, requests: list[Request], size: int, names: list[str]) -> dict[str, Run]:
    """Returns the runners by name; the first is the reference."""
    settings = ModelSettings(
        task="text-generation",
        max_tokens=NEW_TOKENS,
        device="cpu",
        dtype="float32",
        batch_size=size,
    )

    def made(**changes: Any) -> LocalLLM:
        return LocalLLM(str(folder), replace(settings, **changes))

    plain = made()
    runs: dict[str, Run] = {
        f"in the order given, batches of {size}": partial(in_order, plain, requests, size),
        f"longest first, batches of {size}": partial(plain.answer, requests),
    }
    if "batch" in names:
        for other in (1, 32):
            runs[f"longest first, batches of {other}"] = partial(
                made(batch_size=other).answer, requests
            )
    if "attention" in names:
        eager = made()
        eager._network.set_attn_implementation("eager")
        runs["eager attention in place of SDPA"] = partial(eager.answer, requests)
    for name in ("static", "compile"):
        if name in names:
            static = made()
            static._generation.cache_implementation = "static"
            static._generation.disable_compile = (
                True  # what `generate` compiles by itself, on CUDA only
            )
            if name == "compile":
                static._network.forward = torch.compile(static._network.forward, dynamic=True)
            runs["static cache" + (", compiled" if name == "compile" else "")] = partial(
                static.answer, requests
            )
    if "weights" in names:
        runs["dtype bfloat16"] = partial(made(dtype="bfloat16").answer, requests)
        for kind in ("4bit", "8bit"):
            runs[f"weights in {kind}"] = partial(made(quantization=kind).answer, requests)
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--variants",
        nargs="*",
        default=[],
        choices=["batch", "attention", "static", "compile", "weights"],
    )
    options = parser.parse_args()
    requests = made_prompts(options.prompts)
    with tempfile.TemporaryDirectory() as folder:
        make_model(Path(folder), options.width, options.layers)
        runs = variants(Path(folder), requests, options.batch_size, options.variants)
        texts = {}
        for name, run in runs.items():  # what is loaded or compiled once is no part of the time
            texts[name] = [reply.text for reply in run() if isinstance(reply, Answer)]
        seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
        for _ in range(options.repeats):
            for name, run in runs.items():
                started = time.perf_counter()
                cpu = time.process_time()
                run()
                seconds[name].append((time.perf_counter() - started, time.process_time() - cpu))
    tokens = sorted(len(request.prompt) for request in requests)
    print(
        f"{options.prompts} prompts of {tokens[0]} to {tokens[-1]} tokens (median {tokens[len(tokens) // 2]}), "
        f"{NEW_TOKENS} new ones each; {options.layers} layers of width {options.width}; "
        f"{torch.get_num_threads()} threads, torch {torch.__version__}, transformers {transformers.__version__}\n"
    )
    print("| | seconds | CPU seconds | speed-up | other answers |\n| --- | --: | --: | --: | --: |")
    best = {name: min(times, key=lambda pair: pair[1]) for name, times in seconds.items()}
    first = next(iter(runs))
    for name, (wall, cpu) in best.items():
        other = sum(a != b for a, b in zip(texts[first], texts[name], strict=True))
        print(
            f"| {name} | {wall:.2f} | {cpu:.2f} | {best[first][1] / cpu:.2f} | {other} of {len(requests)} |"
        )


if __name__ == "__main__":
    main()
