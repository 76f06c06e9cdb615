"""What a tuning run's questions cost on a local vision-language model: one by one, in batches, and through taxtune.

    python benchmarks/vlm_throughput.py                       # the proportional model on a CPU, the real one on a GPU
    python benchmarks/vlm_throughput.py --quick               # a small one, in about a minute
    python benchmarks/vlm_throughput.py --family qwen2_5_vl

The model is made from its configuration, with random weights: on a GPU in the shape of the released checkpoint
(Llama-3.2-11B-Vision by default), on a CPU with the same pattern of layers, tiles and attention heads, but fewer heads,
layers and patches. Every answer has the same number of tokens. A run asks `--prompts` prompts of different lengths
about the same `--images` images, one prompt after the other, and then two of them about `--held-out` other images, as
tuning does. It is made three times, each in a process of its own that has the model loaded and warm:

    one by one   the loop of the model card: open the image, processor, generate, decode
    batched      the same with `--batch-size` questions at a time, padded on the left
    taxtune      `ask` with an answer store and a local model, an iteration a call

Printed are seconds, pairs of image and prompt a second, peak memory, how many answers differ, and what each way's time
went into: encoding (the vision encoder and what joins it to the language model), prefill, decoding (steps of one token)
and everything else. Two limits stand beside them: a step of decoding cannot be faster than the weights that it uses
can be read from memory, nor a run faster than its floating-point operations at the rate of a large matrix product. The
memory's bandwidth and that rate are measured.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

WAYS = ("one by one", "batched", "taxtune")
PHASES = ("encoding", "prefill", "decoding", "else")
# The modules that make embeddings of an image, as the families call them.
_VISION = ("vision_model", "vision_tower", "visual", "multi_modal_projector", "connector")
# What a language model computes of an image's states, before its first forward pass where the
# states are kept.
_CROSS = ("cross_attn.k_proj", "cross_attn.v_proj", "cross_attn.k_norm")


@dataclass(frozen=True)
class Plan:
    """Questions and model; read by each of the processes."""

    folder: str
    images: list[str]
    held_out: list[str]
    warm_up: list[str]
    prompts: list[str]
    new_tokens: int
    batch_size: int
    device: str
    dtype: str
    cpu_time: bool

    @property
    def clock(self) -> Callable[[], float]:
        """Seconds of the clock on the wall, or of this process on the CPU."""
        return time.process_time if self.cpu_time else time.perf_counter

    def rounds(self) -> Iterator[tuple[str, list[str]]]:
        """Yields each prompt with the images that it is asked about: those of tuning, then those held out."""
        for prompt in self.prompts:
            yield prompt, self.images
        for prompt in self.prompts[:2]:
            yield prompt, self.held_out


class Phases:
    """Splits what a clock counts among the phases of answering, through hooks on the network's modules.

    Args:
        network: A generative model of transformers.
        clock: Returns what is counted so far: seconds, or floating-point operations. A phase gets what is counted in
            its modules, less what belongs to modules within them.
    """

    def __init__(self, network: Any, clock: Callable[[], Any]) -> None:
        self.clock = clock
        self.steps = 0
        self._open = ["else"]
        self._marks: list[tuple[str, Any]] = []
        self._hooks: list[Any] = []
        vision = [module for name, module in network.model.named_children() if name in _VISION]
        if not vision:
            raise SystemExit(f"No vision encoder is known in {type(network).__name__}.")
        language = [network, network.model, network.model.language_model]
        cross = [module for name, module in network.named_modules() if name.endswith(_CROSS)]
        for modules, phase in ((vision, _encoding), (language, _forward), (cross, _cross)):
            for module in modules:
                self._hooks.append(
                    module.register_forward_pre_hook(self._enter(phase), with_kwargs=True)
                )
                self._hooks.append(module.register_forward_hook(self._leave, always_call=True))

    def remove(self) -> None:
        """Takes the hooks off the network."""
        for hook in self._hooks:
            hook.remove()

    def start(self) -> None:
        """Forgets what was counted."""
        self.steps = 0
        self._marks = []
        self._mark("else")

    def stop(self) -> dict[str, float]:
        """Returns the counts since the start, by phase."""
        self._mark("else")
        marks = [(phase, _plain(mark)) for phase, mark in self._marks]
        counted = dict.fromkeys(PHASES, 0.0)
        for (_, before), (phase, after) in itertools.pairwise(marks):
            counted[phase] += after - before
        return counted

    def _mark(self, phase: str) -> None:
        self._marks.append((phase, self.clock()))

    def _enter(self, phase: Callable[[str, Any, Any], str]) -> Callable[[Any, Any, Any], None]:
        def hook(module: Any, args: Any, kwargs: Any) -> None:
            self._mark(self._open[-1])
            self._open.append(phase(self._open[-1], args, kwargs))
            self.steps += self._open[-2:] == ["else", "decoding"]

        return hook

    def _leave(self, module: Any, args: Any, output: Any) -> None:
        self._mark(self._open.pop())


def _encoding(now: str, args: Any, kwargs: Any) -> str:
    return "encoding"


def _cross(now: str, args: Any, kwargs: Any) -> str:
    return "prefill" if now == "else" else now


def _forward(now: str, args: Any, kwargs: Any) -> str:
    if now != "else":
        return now
    given = next(
        (x for x in (kwargs.get("input_ids"), kwargs.get("inputs_embeds"), *args) if x is not None),
        None,
    )
    return "decoding" if given is not None and given.shape[1] == 1 else "prefill"


class _Event:
    """A point of a GPU's timeline, in seconds after the first; it costs the CPU no waiting."""

    first: Any = None

    def __init__(self) -> None:
        import torch

        self.event = torch.cuda.Event(enable_timing=True)
        self.event.record()
        _Event.first = _Event.first or self.event

    def seconds(self) -> float:
        self.event.synchronize()
        return float(_Event.first.elapsed_time(self.event)) / 1e3


def _plain(mark: Any) -> float:
    return mark.seconds() if isinstance(mark, _Event) else float(mark)


# -- the three ways --------------------------------------------------------------------------------

Ask = Callable[[str, Sequence[str]], list[str]]


def one_by_one(plan: Plan, network: Any, processor: Any) -> Ask:
    """The loop of Llama 3.2 Vision's model card."""

    def ask(prompt: str, images: Sequence[str]) -> list[str]:
        return [
            text for image in images for text in generate(plan, network, processor, prompt, [image])
        ]

    return ask


def batched(plan: Plan, network: Any, processor: Any) -> Ask:
    """As many questions at a time as the batch is large, with their pixels."""
    processor.tokenizer.padding_side = "left"

    def ask(prompt: str, images: Sequence[str]) -> list[str]:
        texts = []
        for start in range(0, len(images), plan.batch_size):
            texts += generate(
                plan, network, processor, prompt, images[start : start + plan.batch_size]
            )
        return texts

    return ask


def taxtune(plan: Plan, model: Any) -> Ask:
    """The local model of taxtune, asked as tuning asks it, with a new answer store."""
    from taxtune.models import Answer, AnswerStore, Request
    from taxtune.models import ask as ask_model

    store = AnswerStore(Path(plan.folder).with_name("answers.sqlite"))

    def ask(prompt: str, images: Sequence[str]) -> list[str]:
        replies = ask_model(model, [Request(prompt, Path(image)) for image in images], store)
        failed = [reply for reply in replies if not isinstance(reply, Answer)]
        if failed:
            raise SystemExit(f"{len(failed)} questions were not answered: {failed[0]}")
        return [reply.text for reply in replies if isinstance(reply, Answer)]

    return ask


def settings_of(plan: Plan) -> Any:
    """Returns the settings of taxtune's model."""
    from taxtune.models import ModelSettings

    return ModelSettings(
        max_tokens=plan.new_tokens, batch_size=plan.batch_size, device=plan.device, dtype=plan.dtype
    )


def _load(plan: Plan) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForImageTextToText, AutoProcessor

    network = AutoModelForImageTextToText.from_pretrained(
        plan.folder, dtype=getattr(torch, plan.dtype)
    )
    return network.to(plan.device).eval(), AutoProcessor.from_pretrained(plan.folder)


def inputs_of(plan: Plan, processor: Any, prompt: str, images: Sequence[str]) -> Any:
    """Returns one prompt about each image as the tensors of a batch, as transformers shows it."""
    import torch
    from PIL import Image

    messages = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": prompt}]}]
    text = processor.apply_chat_template(messages, add_generation_prompt=True)
    made = processor(
        images=[[Image.open(image).convert("RGB")] for image in images],
        text=[text] * len(images),
        padding=True,
        # A template that writes the start token must not get a second one.
        add_special_tokens=not text.startswith(processor.tokenizer.bos_token or "\0"),
        return_tensors="pt",
    )
    return made.to(plan.device, dtype=getattr(torch, plan.dtype))


def generate(
    plan: Plan, network: Any, processor: Any, prompt: str, images: Sequence[str]
) -> list[str]:
    """Returns the answers to a prompt about images, asked in one batch."""
    inputs = inputs_of(plan, processor, prompt, images)
    output = network.generate(**inputs, max_new_tokens=plan.new_tokens, do_sample=False)
    new = output[:, inputs["input_ids"].shape[1] :]
    return [text.strip() for text in processor.batch_decode(new, skip_special_tokens=True)]


def run_way(way: str, plan: Plan) -> dict[str, Any]:
    """Returns the answers of one way, and its time."""
    if way == "taxtune":
        from taxtune.models import make_model

        model = make_model(f"local:{plan.folder}", settings_of(plan))
        # The network is needed for the hooks alone.
        return timed(plan, taxtune(plan, model), model._network)  # type: ignore[attr-defined]
    network, processor = _load(plan)
    return timed(
        plan, {"one by one": one_by_one, "batched": batched}[way](plan, network, processor), network
    )


def timed(plan: Plan, ask: Ask, network: Any) -> dict[str, Any]:
    """Returns the answers to all questions of a plan, the seconds of its parts, their phases and the peak memory."""
    import torch

    cuda = plan.device.startswith("cuda")
    phases = Phases(network, _Event if cuda else plan.clock)
    ask(plan.prompts[-1], plan.warm_up)
    if cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    answers: list[list[str]] = []
    seconds: list[float] = []
    shares: dict[str, dict[str, float]] = {"tuning": dict.fromkeys((*PHASES, "steps"), 0.0)}
    shares["held out"] = dict(shares["tuning"])
    for number, (prompt, images) in enumerate(plan.rounds()):
        phases.start()
        started = plan.clock()
        answers.append(ask(prompt, images))
        seconds.append(plan.clock() - started)
        part = shares["tuning" if number < len(plan.prompts) else "held out"]
        for phase, counted in (phases.stop() | {"steps": phases.steps}).items():
            part[phase] += counted
    phases.remove()
    return {
        "seconds": {
            "tuning": sum(seconds[: len(plan.prompts)]),
            "held out": sum(seconds[len(plan.prompts) :]),
        },
        "shares": shares,
        "memory": torch.cuda.max_memory_allocated() if cuda else _peak(),
        "answers": answers,
    }


def _peak() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


# -- the limits ------------------------------------------------------------------------------------


def limits(plan: Plan, network: Any, processor: Any) -> dict[str, Any]:
    """Returns the machine's two rates, and what a question needs of them."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    bandwidth, peak = probe(plan)
    # Counted in plain matrix products: not every fused attention kernel is known to the counter.
    attention = network.config._attn_implementation
    network.set_attn_implementation("eager")
    counter = FlopCounterMode(display=False)
    phases = Phases(network, counter.get_total_flops)
    with counter, _modules_of_a_step(network) as used:
        phases.start()
        # The prompt in the middle is as long as they are on average.
        generate(plan, network, processor, plan.prompts[len(plan.prompts) // 2], plan.images[:1])
        flop = phases.stop()
    phases.remove()
    network.set_attn_implementation(attention)
    weights = {
        id(p): p.numel() * p.element_size()
        for module in used
        for p in module.parameters(recurse=False)
    }
    return {
        "bandwidth": bandwidth,
        "peak": peak,
        "flop": flop,
        "bytes_a_step": sum(weights.values()),
        "parameters": sum(p.numel() for p in network.parameters()),
        "model": type(network).__name__,
        "device": torch.cuda.get_device_name() if plan.device.startswith("cuda") else _processor(),
        "tokens": _tokens(plan, network, processor),
        "threads": torch.get_num_threads(),
    }


@contextmanager
def _modules_of_a_step(network: Any) -> Iterator[list[Any]]:
    """Collects the modules whose weights a step of decoding reads whole.

    Of embeddings it reads a row.
    """
    import torch

    used: list[Any] = []
    state = {"decoding": False}

    def top(module: Any, args: Any, kwargs: Any) -> None:
        state["decoding"] = _forward("else", args, kwargs) == "decoding"

    def leaf(module: Any, args: Any) -> None:
        if state["decoding"] and module not in used:
            used.append(module)

    hooks = [network.register_forward_pre_hook(top, with_kwargs=True)]
    for module in network.modules():
        if next(module.children(), None) is None and not isinstance(module, torch.nn.Embedding):
            hooks.append(module.register_forward_pre_hook(leaf))
    try:
        yield used
    finally:
        for hook in hooks:
            hook.remove()


def _tokens(plan: Plan, network: Any, processor: Any) -> dict[str, Any]:
    """Returns the number of states per image, and the tokens of text of the shortest and the longest question."""
    counted: list[int] = []
    last = [module for name, module in network.model.named_children() if name in _VISION][-1]

    def count(module: Any, args: Any, output: Any) -> None:
        states = getattr(output, "pooler_output", None) if not hasattr(output, "shape") else output
        states = getattr(output, "last_hidden_state", output) if states is None else states
        counted.append(states.numel() // states.shape[-1])

    hook = last.register_forward_hook(count)
    generate(plan, network, processor, plan.prompts[0], plan.images[:1])
    hook.remove()
    template = _template(processor)
    return {"image": counted[0], "text": [template + len(plan.prompts[i]) for i in (0, -1)]}


def probe(plan: Plan, seconds: float = 1.5) -> tuple[float, float]:
    """Returns the memory's bandwidth in bytes a second, reads and writes, and the peak in FLOP a second."""
    import torch

    device = plan.device
    cuda = device.startswith("cuda")
    kind = getattr(torch, plan.dtype)
    source = torch.ones(2**30 if cuda else 2**26, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    side = 8192 if cuda else 2048
    left, right = (torch.randn(side, side, device=device).to(kind) for _ in range(2))
    product = torch.empty_like(left)

    def best(work: Callable[[], Any]) -> float:
        times = []
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or len(times) < 3:
            if cuda:
                torch.cuda.synchronize()
            started = plan.clock()
            work()
            if cuda:
                torch.cuda.synchronize()
            times.append(plan.clock() - started)
        return min(times)

    copied = 2 * source.numel() * source.element_size()
    return copied / best(lambda: target.copy_(source)), 2 * side**3 / best(
        lambda: torch.mm(left, right, out=product)
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(
            line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
        )
    except (OSError, StopIteration):
        name = platform.processor() or platform.machine()
    return name


# -- the table -------------------------------------------------------------------------------------


def summary(plan: Plan, found: Mapping[str, Any], limit: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the figures that are printed."""
    questions = {
        "tuning": len(plan.prompts) * len(plan.images),
        "held out": len(plan.prompts[:2]) * len(plan.held_out),
    }
    questions["all"] = sum(questions.values())
    seconds = {
        way: {**run["seconds"], "all": sum(run["seconds"].values())} for way, run in found.items()
    }
    flat = {way: [text for part in run["answers"] for text in part] for way, run in found.items()}
    own = found["taxtune"]
    shares = {part: {p: own["shares"][part][p] for p in PHASES} for part in own["shares"]}
    shares["all"] = {p: sum(shares[part][p] for part in ("tuning", "held out")) for p in PHASES}
    steps = sum(own["shares"][part]["steps"] for part in own["shares"])
    flop = limit["flop"]
    # A question needs everything but its image's encoding anew; each image is encoded once.
    asked = sum(flop[p] for p in PHASES if p != "encoding")
    least = {
        "tuning": len(plan.images) * flop["encoding"] + questions["tuning"] * asked,
        "held out": len(plan.held_out) * flop["encoding"] + questions["held out"] * asked,
    }
    least["all"] = sum(least.values())
    return {
        "questions": questions,
        "seconds": seconds,
        "ratios": {
            way: {part: seconds[way][part] / seconds["taxtune"][part] for part in questions}
            for way in WAYS
            if way != "taxtune"
        },
        "differ": {
            f"{one} / {other}": sum(a != b for a, b in zip(flat[one], flat[other], strict=True))
            for one, other in (
                ("one by one", "batched"),
                ("one by one", "taxtune"),
                ("batched", "taxtune"),
            )
        },
        "distinct": len(set(flat["one by one"])),
        "shares": shares,
        "memory": {way: run["memory"] for way, run in found.items()},
        "step": {
            "count": steps,
            "seconds": shares["all"]["decoding"] / steps if steps else None,
            "limit": limit["bytes_a_step"] / limit["bandwidth"],
        },
        "flop_limit": {part: least[part] / limit["peak"] for part in least},
        "flop": flop,
        "bandwidth": limit["bandwidth"],
        "peak": limit["peak"],
        "bytes_a_step": limit["bytes_a_step"],
        "parameters": limit["parameters"],
        "tokens": limit["tokens"],
        "model": limit["model"],
        "device": limit["device"],
        "dtype": plan.dtype,
        "batch_size": plan.batch_size,
        "new_tokens": plan.new_tokens,
        "versions": _versions(),
        "cpu_time": plan.cpu_time,
        "threads": limit["threads"],
    }


def _versions() -> dict[str, str]:
    import torch
    import transformers

    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def show(found: Mapping[str, Any]) -> None:
    """Prints the figures as Markdown tables."""
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    tokens = found["tokens"]
    print(
        f"{found['device']}, {found['threads']} threads; {versions}; {found['dtype']}, batches of "
        f"{found['batch_size']}{'; seconds of CPU time' if found['cpu_time'] else ''}"
    )
    print(
        f"{found['model']} with random weights: {found['parameters'] / 1e6:,.0f} M parameters, "
        f"{tokens['image']:,} states an image, {tokens['text'][0]} to {tokens['text'][1]} tokens of text, "
        f"{found['new_tokens']} new ones\n"
    )
    asked = found["questions"]
    seconds = found["seconds"]
    parts = {
        "tuning": f"tuning ({asked['tuning']:,})",
        "held out": f"held out ({asked['held out']:,})",
        "all": "all",
    }
    print(
        f"| way | {' | '.join(f'{title}, s | pairs/s' for title in parts.values())} | peak memory, GiB |"
    )
    print("| --- |" + " ---: |" * (2 * len(parts) + 1))
    for way in WAYS:
        cells = " | ".join(
            f"{seconds[way][p]:,.1f} | {asked[p] / seconds[way][p]:,.2f}" for p in parts
        )
        print(f"| {way} | {cells} | {found['memory'][way] / 2**30:.2f} |")
    for way, ratios in found["ratios"].items():
        cells = " | ".join(f"{ratios[p]:.1f} × | " for p in parts)
        print(f"| {way} / taxtune | {cells} | |")
    print(f"\n| taxtune's time | {' | '.join(PHASES)} | limit by FLOP |")
    print("| --- |" + " ---: |" * (len(PHASES) + 1))
    for part, title in parts.items():
        spent = found["shares"][part]
        total = sum(found["shares"][part].values())
        cells = " | ".join(f"{spent[p]:,.1f} s, {spent[p] / total:.0%}" for p in PHASES)
        print(f"| {title} | {cells} | {found['flop_limit'][part]:,.1f} s |")
    step = found["step"]
    flop = found["flop"]
    print(
        f"\nMemory {found['bandwidth'] / 1e9:,.1f} GB/s, peak {found['peak'] / 1e12:,.3f} TFLOP/s. A question takes "
        + ", ".join(f"{flop[p] / 1e9:,.2f} GFLOP of {p}" for p in PHASES if p != "else")
        + "."
    )
    if step["seconds"] is not None:
        print(
            f"A step of decoding reads {found['bytes_a_step'] / 2**20:,.0f} MiB of weights, at best in "
            f"{step['limit'] * 1e3:.2f} ms; it took {step['seconds'] * 1e3:.2f} ms, "
            f"{step['seconds'] / step['limit']:.1f} times as long."
        )
    different = ", ".join(f"{pair}: {n}" for pair, n in found["differ"].items())
    print(
        f"Answers that differ, of {asked['all']:,} ({found['distinct']:,} distinct): {different}."
    )


# -- questions -------------------------------------------------------------------------------------


def make_images(folder: Path, side: int, count: int, seed: int) -> list[str]:
    """Writes square photographs of a sort, blurred blobs with some noise, and returns their paths."""
    import numpy as np
    from PIL import Image

    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    paths = []
    for number in range(count):
        coarse = Image.fromarray(rng.integers(0, 256, (12, 12, 3), dtype=np.uint8))
        pixels = np.asarray(coarse.resize((side, side), Image.Resampling.BICUBIC), dtype=np.int16)
        noise = rng.integers(-12, 13, pixels.shape, dtype=np.int16)
        path = folder / f"{number:05}.jpg"
        Image.fromarray(np.clip(pixels + noise, 0, 255).astype(np.uint8)).save(path, quality=90)
        paths.append(str(path))
    return paths


def _template(processor: Any) -> int:
    """Returns the tokens of text that a question has besides its prompt."""
    messages = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": ""}]}]
    text = processor.apply_chat_template(messages, add_generation_prompt=True)
    return len(processor.tokenizer(text, add_special_tokens=False)["input_ids"])


def make_prompts(count: int, tokens: int, seed: int) -> list[str]:
    """Returns different texts of half to one and a half times so many tokens, the shortest first."""
    rng = random.Random(seed)
    lengths = [round(tokens * (0.5 + i / max(1, count - 1))) for i in range(count)]
    return [
        "".join(rng.choice("abcdefghijklmnopqrstuvwxyz ") for _ in range(max(4, n - 1))) + "?"
        for n in lengths
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Makes the model and the images, runs the three ways and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--family", default="mllama", help="mllama, llava, qwen2_5_vl, smolvlm or idefics3"
    )
    parser.add_argument("--shape", choices=("auto", "real", "proportional"), default="auto")
    parser.add_argument(
        "--width", type=int, default=16, help="what the proportional model's widths are divided by"
    )
    parser.add_argument(
        "--depth", type=int, default=8, help="what its numbers of layers are divided by"
    )
    parser.add_argument(
        "--tile",
        type=int,
        help="side of its tiles in pixels (mllama: 336, else those of the real model)",
    )
    parser.add_argument("--prompts", type=int, default=30)
    parser.add_argument("--images", type=int, default=20)
    parser.add_argument("--held-out", type=int, default=200)
    parser.add_argument(
        "--text-tokens", type=int, default=40, help="tokens of text in a question, on average"
    )
    parser.add_argument("--new-tokens", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=20)
    parser.add_argument("--device", help="cpu, cuda or cuda:N; by default cuda if there is one")
    parser.add_argument(
        "--dtype", help="float32, bfloat16 or float16; by default bfloat16 on a GPU, else float32"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--quick", action="store_true", help="a smaller model, 8 prompts × 10 images and 2 × 20"
    )
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="seconds of CPU time on one thread, for a busy machine",
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--process", nargs=2, metavar=("WAY", "PLAN"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.process:
        way, file = options.process
        plan = Plan(**json.loads(Path(file).read_text(encoding="utf-8")))
        result = limits(plan, *_load(plan)) if way == "limits" else run_way(way, plan)
        Path(file).with_name(f"{way}.json").write_text(json.dumps(result), encoding="utf-8")
        return
    with tempfile.TemporaryDirectory(prefix="vlm-throughput-") as folder:
        found = measure(options, Path(folder))
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        show(found)


def measure(options: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Returns the figures of one run of the benchmark."""
    import torch
    from random_vlms import REAL, scaled, write_checkpoint
    from transformers import AutoProcessor

    if options.family not in REAL:
        raise SystemExit(f"Unknown family {options.family!r}. Choose one of {', '.join(REAL)}.")
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    cuda = device.startswith("cuda")
    dtype = options.dtype or ("bfloat16" if cuda else "float32")
    shape = REAL[options.family]
    if options.shape == "proportional" or (options.shape == "auto" and not cuda) or options.quick:
        tile = options.tile or (336 if options.family == "mllama" else None)
        shape = scaled(shape, width=options.width, depth=options.depth, tile=tile)
    if options.quick:
        options.prompts = 8
        options.images = 10
        options.held_out = 20
        options.batch_size = 10
    _say(f"Writing {options.family} with random weights ...")
    folder = write_checkpoint(
        options.family,
        work / "model",
        shape,
        seed=options.seed,
        dtype=dtype,
        device=device,
        only_words=True,
    )
    if cuda:
        torch.cuda.empty_cache()
    template = _template(AutoProcessor.from_pretrained(folder))
    plan = Plan(
        folder=str(folder),
        images=make_images(work / "images", shape.image_side, options.images, options.seed),
        held_out=make_images(
            work / "held-out", shape.image_side, options.held_out, options.seed + 1
        ),
        warm_up=make_images(
            work / "warm-up", shape.image_side, min(4, options.batch_size), options.seed + 2
        ),
        prompts=make_prompts(options.prompts, options.text_tokens - template, options.seed),
        new_tokens=options.new_tokens,
        batch_size=options.batch_size,
        device=device,
        dtype=dtype,
        cpu_time=options.cpu_time,
    )
    file = work / "plan.json"
    file.write_text(json.dumps(asdict(plan)), encoding="utf-8")
    results = {}
    for way in ("limits", *WAYS):
        _say(f"Measuring: {way} ...")
        subprocess.run(
            [sys.executable, __file__, "--process", way, str(file)],
            check=True,
            env=_environment(plan),
        )
        results[way] = json.loads(file.with_name(f"{way}.json").read_text(encoding="utf-8"))
    limit = results.pop("limits")
    return summary(plan, results, limit)


def _environment(plan: Plan) -> dict[str, str]:
    """The environment of the processes: nothing is looked for on a hub, and no bars are drawn."""
    quiet = {
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_VERBOSITY": "error",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    }
    # The CPU time of several threads is also that of waiting for one another.
    return {**os.environ, **quiet, **({"OMP_NUM_THREADS": "1"} if plan.cpu_time else {})}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
