"""What a GPU does with taxtune's local models: the same answers, how fast, and what a step of decoding waits for.

    bash benchmarks/gpu.sh [FOLDER OF WHEELS] [OUT]      # at most 8 minutes; --limit SECONDS, --steps NAME ...
    bash benchmarks/gpu.sh wheels-gpu runs/gpu --quick   # tiny shapes, on two CPU cores

All weights are random and made on the device; nothing is downloaded. Each step runs in a process of its own, since an
error on the device ends the process that meets it. After each step OUT/gpu.json and OUT/gpu.md have what was measured.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
import transformers
import vlm_throughput as bench
from random_vlms import FAMILIES, REAL, Shape, make_model, scaled
from vlm_throughput import PHASES, Ask, Plan

from taxtune.models import Answer, Request, ask
from taxtune.models.checkpoint import Checkpoint
from taxtune.models.vision import LocalVLM

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
DTYPES = ("float32", "bfloat16")
BATCHES = (1, 8, 32)


class Made(LocalVLM):
    """A local model whose network was made in this process and lies nowhere else."""

    def __init__(self, network: Any, processor: Any, plan: Plan) -> None:
        super().__init__("random weights", bench.settings_of(plan))
        self.__dict__["_network"] = network
        self.made = processor

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """Says what a folder would."""
        return Checkpoint(
            self.model, "", {}, "random", self._network.config, complete=True, weight_bytes=0
        )

    def _load_processor(self) -> Any:
        return self.made


class Report:
    """The figures of a step so far, in JSON and in Markdown, written to a file after each row."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.figures: dict[str, Any] = {}
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        """Adds a line of Markdown."""
        print(line, flush=True)
        self.lines.append(line)
        self.file.write_text(
            json.dumps({"figures": self.figures, "lines": self.lines}), encoding="utf-8"
        )

    def row(self, *cells: object) -> None:
        """Adds a row of a table."""
        self.say(f"| {' | '.join(map(str, cells))} |")

    def head(self, *cells: str) -> None:
        """Adds the head of a table."""
        self.row(*cells)
        self.row(*("---" for _ in cells))


def make_plan(
    work: Path, *, shape: Shape, dtype: str, prompts: int, images: int, tokens: int
) -> Plan:
    """Returns questions about images that are written to a folder; no model lies there."""
    return Plan(
        folder=str(work / "none"),
        images=bench.make_images(work / "images", shape.image_side, images, seed=0),
        held_out=[],
        warm_up=bench.make_images(work / "warm-up", shape.image_side, 4, seed=1),
        prompts=bench.make_prompts(prompts, 40, seed=0),
        new_tokens=tokens,
        batch_size=1,
        device=DEVICE,
        dtype=dtype,
        cpu_time=False,
    )


# -- the same answers ------------------------------------------------------------------------------


def parity(report: Report, quick: bool) -> None:
    """Compares answers from kept images with those of plain `generate`, question by question."""
    report.say(
        "Answers that differ, of 32 (8 prompts about 4 images; kept: all mixed), from those of `generate` asked alone "
        "with its pixels, and the largest difference of a first token's logit, as a share of their range.\n"
    )
    report.head(
        "family",
        "dtype",
        "plain, batches of 8",
        *(f"kept, of {n}" for n in BATCHES),
        "logit",
        "not cached",
    )
    for dtype in DTYPES:
        for family in ("mllama", "qwen2_5_vl") if quick else FAMILIES:
            with tempfile.TemporaryDirectory() as work:
                found = compare(family, dtype, Path(work))
            report.figures[f"{family}, {dtype}"] = found
            report.row(family, dtype, *found.values())


def compare(family: str, dtype: str, work: Path) -> dict[str, Any]:
    """Returns the counts of answers of one family that differ, and the difference of its logits."""
    shape = Shape(vocabulary=4000, image_side=64)
    plan = make_plan(work, shape=shape, dtype=dtype, prompts=8, images=4, tokens=8)
    network, processor = make_model(family, shape, dtype=dtype, device=DEVICE)
    # Any of many tokens ends an answer, so that rows of a batch end at different times.
    network.generation_config.eos_token_id = [processor.tokenizer.eos_token_id, *range(300, 800)]
    # That of Idefics3's kin may lie beyond the vocabulary.
    network.generation_config.pad_token_id = processor.tokenizer.pad_token_id
    requests = [Request(prompt, Path(image)) for prompt in plan.prompts for image in plan.images]
    plain = []
    for one in requests:
        plain.append(bench.generate(plan, network, processor, one.prompt, [str(one.image)])[0])
    if len({*plain}) < len(plain) // 2:
        raise ValueError("answers that are all alike show nothing")
    many = bench.batched(replace(plan, batch_size=8), network, processor)
    together = [text for prompt in plan.prompts for text in many(prompt, plan.images)]
    found: dict[str, Any] = {"batched": differences(plain, together)}
    order = random.Random(0).sample(range(len(requests)), len(requests))
    for size in BATCHES:
        vlm = Made(network, processor, replace(plan, batch_size=size))
        replies = ask(vlm, [requests[i] for i in order], None)
        texts = [reply.text if isinstance(reply, Answer) else str(reply) for reply in replies]
        found[f"kept {size}"] = differences([plain[i] for i in order], texts)
    return {
        **found,
        "logit": f"{logits_apart(vlm, requests):.1e}",
        "not cached": vlm.not_cached or "",
    }


def differences(some: Sequence[str], others: Sequence[str]) -> int:
    """Returns the number of texts that differ."""
    return sum(one != other for one, other in zip(some, others, strict=True))


def logits_apart(vlm: Made, requests: Sequence[Request]) -> float:
    """Returns the largest difference of first logits between kept images and pixels, as a share of their range."""
    prepared = [vlm._prepare(request) for request in requests]
    kept = vlm._first_logits(vlm._collate(prepared))
    most = 0.0
    for row, question in zip(kept, prepared, strict=True):
        alone = vlm._first_logits(vlm._from_pixels([question], [()]))[0]
        finite = torch.isfinite(alone)
        span = float(alone[finite].amax() - alone[finite].amin())
        most = max(most, float((alone - row)[finite].abs().amax()) / span)
    return most


def probabilities(report: Report, quick: bool) -> None:
    """Runs the tests that compare names' probabilities with those of generation, on this device."""
    wanted = "outcomes_are_those_of_generation" + (" and llava" if quick else "")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-c",
        os.devnull,
        "--rootdir",
        ".",
        "-p",
        "no:cacheprovider",
    ]
    command += ["-W", "ignore", "tests/models/test_scoring.py", "-k", wanted]
    environment = {**os.environ, "TAXTUNE_TEST_DEVICE": DEVICE}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    report.figures["said"] = done.stdout[-2000:]
    report.say(
        f"`posterior` against generation, float32, kept and not: {done.stdout.strip().splitlines()[-1]}"
    )


# -- how fast --------------------------------------------------------------------------------------


def throughput(family: str, report: Report, quick: bool) -> None:
    """Times 8 prompts about 32 images: alone, in batches, and through taxtune.

    And the limits of the device.
    """
    shape = REAL[family]
    dtype = "bfloat16"
    sizes = (16, 64)
    sample = (8, 32, 16)
    if quick:
        shape = scaled(shape, width=16, depth=16, tile=56 if family == "mllama" else None)
        dtype = "float32"
        sizes = (2, 4)
        sample = (2, 4, 4)
    prompts, images, tokens = sample
    with tempfile.TemporaryDirectory() as work:
        plan = make_plan(
            Path(work), shape=shape, dtype=dtype, prompts=prompts, images=images, tokens=tokens
        )
        network, processor = make_model(family, shape, dtype=dtype, device=DEVICE, only_words=True)
        bound = report.figures["limits"] = bench.limits(plan, network, processor)
        report.say(
            f"{bound['model']}, {bound['parameters'] / 1e9:.1f} G parameters, {dtype}, {bound['tokens']['image']:,} "
            f"states an image; {prompts} prompts × {images} images (one by one: a single prompt), {tokens} tokens.\n"
        )
        report.head("way", "batch", "answers/s", "s", *PHASES, "step, ms", "peak, GiB")
        alone = replace(plan, prompts=plan.prompts[-1:])
        measure(report, "one by one", alone, bench.one_by_one(alone, network, processor), network)
        for size in sizes:
            sized = replace(plan, batch_size=size)
            measure(report, "batched", sized, bench.batched(sized, network, processor), network)
        for size in sizes:
            own = Path(work) / str(
                size
            )  # for its answers, so that none are found that are kept already
            own.mkdir()
            sized = replace(plan, batch_size=size, folder=str(own / "none"))
            model = Made(network, processor, sized)
            measure(report, "taxtune", sized, bench.taxtune(sized, model), network)
            measure(
                report, "taxtune, prompts mixed", sized, mixed(sized, network, processor), network
            )
        report.say(
            f"\nMemory {bound['bandwidth'] / 1e9:,.0f} GB/s, peak {bound['peak'] / 1e12:,.0f} TFLOP/s: a step's "
            f"weights take {bound['bytes_a_step'] / bound['bandwidth'] * 1e3:.2f} ms at least; of a question, "
            + ", ".join(
                f"{p} {bound['flop'][p] / bound['peak'] * 1e3:,.1f} ms"
                for p in PHASES
                if p != "else"
            )
        )
        profile(report, replace(plan, batch_size=sizes[0]), network, processor)


def mixed(plan: Plan, network: Any, processor: Any) -> Ask:
    """Asks all prompts of a plan at its first, so that batches are full and hold questions of many lengths."""
    model = Made(network, processor, plan)

    def ask_all(prompt: str, images: Sequence[str]) -> list[str]:
        if images == plan.images and prompt != plan.prompts[0]:
            return []
        prompts = plan.prompts if images == plan.images else [prompt]
        replies = ask(
            model, [Request(text, Path(image)) for text in prompts for image in images], None
        )
        return [reply.text for reply in replies if isinstance(reply, Answer)]

    return ask_all


def measure(report: Report, way: str, plan: Plan, asks: Ask, network: Any) -> None:
    """Times one way and adds its row."""
    wanted = len(plan.prompts) * len(plan.images)
    try:
        one = bench.timed(plan, asks, network)
    except torch.cuda.OutOfMemoryError:
        report.row(way, plan.batch_size, "out of memory")
        return
    answers = sum(map(len, one.pop("answers")))
    if answers != wanted:
        raise ValueError(f"{way}: {answers} answers to {wanted} questions")
    spent = one["shares"]["tuning"]
    seconds = one["seconds"]["tuning"]
    report.figures[f"{way}, {plan.batch_size}"] = one
    step = spent["decoding"] / max(1, spent["steps"]) * 1e3
    phases = (f"{spent[phase]:.1f}" for phase in PHASES)
    speed = f"{answers / seconds:.2f}"
    report.row(
        way,
        plan.batch_size,
        speed,
        f"{seconds:.1f}",
        *phases,
        f"{step:.1f}",
        f"{one['memory'] / 2**30:.1f}",
    )


# -- a step of decoding ----------------------------------------------------------------------------


def profile(report: Report, plan: Plan, network: Any, processor: Any) -> None:
    """Profiles two steps of decoding: kernels, the time of the device in them, and what the host does."""
    watched = torch.profiler.profile()
    seen = 0

    def watch(input_ids: Any, scores: Any, **_: Any) -> Any:
        nonlocal seen
        seen += 1
        if seen == 1:
            watched.start()
        if seen == 3:
            torch.cuda.synchronize() if CUDA else None
            watched.stop()
        return torch.zeros(len(input_ids), dtype=torch.bool, device=DEVICE)

    inputs = bench.inputs_of(plan, processor, plan.prompts[0], plan.images[: plan.batch_size])
    network.generate(**inputs, max_new_tokens=4, do_sample=False, stopping_criteria=[watch])
    events = watched.key_averages()
    kernels = sorted(
        (e for e in events if e.device_type.name == "CUDA"), key=lambda e: -e.self_device_time_total
    )
    busy = sum(event.self_device_time_total for event in kernels) / 2e3
    launched = sum(event.count for event in kernels) / 2
    report.say(
        f"\nA step of {plan.batch_size} rows: the device computes {busy:.1f} ms in {launched:,.0f} kernels.\n"
    )
    for event in kernels[:5]:
        report.say(
            f"- {event.key[:70]}: {event.self_device_time_total / 2e3:.2f} ms, {event.count / 2:.0f} ×"
        )
    for event in sorted(events, key=lambda event: -event.self_cpu_time_total)[:5]:
        report.say(
            f"- host, {event.key[:60]}: {event.self_cpu_time_total / 2e3:.2f} ms, {event.count / 2:.0f} ×"
        )


def static(report: Report, quick: bool) -> None:
    """Times a step with a static cache, for which transformers makes CUDA graphs, beside the plain cache."""
    if not CUDA:
        report.say("Only on CUDA.")
        return
    shape = REAL["qwen2_5_vl"]
    with tempfile.TemporaryDirectory() as work:
        plan = make_plan(Path(work), shape=shape, dtype="bfloat16", prompts=1, images=16, tokens=16)
        network, processor = make_model(
            "qwen2_5_vl", shape, dtype="bfloat16", device=DEVICE, only_words=True
        )
        inputs = bench.inputs_of(plan, processor, plan.prompts[0], plan.images)
        for cache in ("dynamic", "static"):
            seconds = []
            for tokens in (16, 2, 16):  # the first compiles
                began = time.perf_counter()
                network.generate(
                    **inputs, cache_implementation=cache, max_new_tokens=tokens, do_sample=False
                )
                torch.cuda.synchronize()
                seconds.append(time.perf_counter() - began)
            step = (seconds[2] - seconds[1]) / 14 * 1e3
            report.figures[cache] = {"first, s": seconds[0], "step, ms": step}
            report.say(
                f"- {cache}: a step of 16 rows takes {step:.1f} ms, the first answer {seconds[0]:.0f} s"
            )


def padding(report: Report, quick: bool) -> None:
    """Times a step of a padded batch, in lengths that are new and again, without cuDNN and with."""
    shape = REAL["qwen2_5_vl"]
    dtype = "bfloat16"
    count = 32
    if quick:
        shape = scaled(shape, width=16, depth=16)
        dtype = "float32"
        count = 2
    with tempfile.TemporaryDirectory() as work:
        plan = make_plan(Path(work), shape=shape, dtype=dtype, prompts=2, images=count, tokens=16)
        network, processor = make_model(
            "qwen2_5_vl", shape, dtype=dtype, device=DEVICE, only_words=True
        )
        vlm = Made(network, processor, replace(plan, batch_size=2 * count))
        requests = [
            Request(prompt, Path(image)) for prompt in plan.prompts for image in plan.images
        ]
        questions = [vlm._prepare(request) for request in requests]
        report.head("cuDNN", "lengths", "step, ms")
        # Without it first, so that it has met no length before.
        for has_cudnn in (False, True):
            torch.backends.cuda.enable_cudnn_sdp(has_cudnn)
            generate_timed(vlm, questions, 2)
            for lengths in ("new", "again"):
                prefill = generate_timed(vlm, questions, 2)
                step = (generate_timed(vlm, questions, 16) - prefill) / 14 * 1e3
                report.figures[f"cuDNN {has_cudnn}, {lengths}"] = step
                report.row("yes" if has_cudnn else "no", lengths, f"{step:.1f}")


def generate_timed(vlm: Made, questions: Sequence[Any], tokens: int) -> float:
    """Returns the seconds of so many tokens for each question of one batch."""
    inputs = vlm._collate(questions)
    synchronize()
    began = time.perf_counter()
    vlm._network.generate(**inputs, max_new_tokens=tokens, do_sample=False)
    synchronize()
    return time.perf_counter() - began


def synchronize() -> None:
    """Waits until the device has done all that it was given."""
    if CUDA:
        torch.cuda.synchronize()


# -- a run -----------------------------------------------------------------------------------------

RUN = """
import json, sys, taxtune
from taxtune.models import ModelSettings, make_model
device, dtype, fewer = sys.argv[1:4]
own = ModelSettings(device=device, dtype=dtype, max_tokens=24, batch_size=20)
result = taxtune.tune(recipe="fieldguide", vlm=make_model("builtin:fieldguide", own), out=sys.argv[4],
                      settings={"tracking.mlflow": False, **json.loads(fewer)})
table = result.heldout_frame(details=True)[["accuracy", "hp", "hr"]].reset_index()
print(json.dumps({"winner": result.winner, "prompt": result.best.prompt, "rows": table.values.tolist()}))
"""


def tuning(report: Report, quick: bool) -> None:
    """Tunes the field guide on the CPU and on this device: winner and table should be the same."""
    fewer = (
        {"iterations": 1, "data.count": 60, "data.tuning": 24, "data.heldout": 16} if quick else {}
    )
    report.head(
        "device", "dtype", "winner", "baseline: accuracy, hP, hR", "winner: accuracy, hP, hR"
    )
    for device, dtype in {("cpu", "float32"), *((DEVICE, dtype) for dtype in DTYPES)}:
        with tempfile.TemporaryDirectory() as out:
            command = [
                sys.executable,
                "-W",
                "ignore",
                "-c",
                RUN,
                device,
                dtype,
                json.dumps(fewer),
                out,
            ]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        report.figures[f"{device}, {dtype}"] = found
        report.row(
            device,
            dtype,
            found["winner"],
            *(", ".join(f"{x:.4f}" for x in row[1:]) for row in found["rows"]),
        )


STEPS: dict[str, tuple[str, Callable[[Report, bool], None]]] = {
    "parity": ("The same answers", parity),
    "probabilities": ("Probabilities of names", probabilities),
    "mllama": ("Llama-3.2-11B-Vision's shape", partial(throughput, "mllama")),
    "qwen2_5_vl": ("Qwen2.5-VL-7B's shape", partial(throughput, "qwen2_5_vl")),
    "padding": ("A step of a padded batch, Qwen2.5-VL-7B's shape, 64 rows", padding),
    "tuning": ("A tuning run of the field guide", tuning),
    "static": ("A static cache, Qwen2.5-VL-7B's shape (transformers compiles no Mllama)", static),
}


def main() -> None:
    """Runs the steps and writes both files after each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("runs/gpu"))
    parser.add_argument("--quick", action="store_true", help="tiny shapes")
    parser.add_argument("--limit", type=float, default=470, help="seconds that all steps may take")
    parser.add_argument("--steps", nargs="+", default=[*STEPS], choices=STEPS)
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        STEPS[options.step][1](Report(options.out / f"{options.step}.json"), options.quick)
        return
    until = time.monotonic() + options.limit
    options.out.mkdir(parents=True, exist_ok=True)
    device = torch.cuda.get_device_name() if CUDA else "CPU"
    machine = {
        "device": device,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    figures: dict[str, Any] = {"machine": machine, "seconds": {}, "not finished": {}}
    lines = [", ".join(machine.values())]
    for step in options.steps:
        began = time.monotonic()
        lines += ["", f"## {STEPS[step][0]}", ""]
        file = options.out / f"{step}.json"
        file.unlink(missing_ok=True)
        command = [
            sys.executable,
            __file__,
            "--out",
            options.out,
            "--step",
            step,
            *(["--quick"] if options.quick else []),
        ]
        try:
            subprocess.run(command, check=True, timeout=max(1, until - began))
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            figures["not finished"][step] = type(error).__name__
        found = (
            json.loads(file.read_text(encoding="utf-8"))
            if file.exists()
            else {"figures": {}, "lines": []}
        )
        figures[step] = found["figures"]
        lines += found["lines"] + (
            ["", "**Not finished.**"] if step in figures["not finished"] else []
        )
        figures["seconds"][step] = round(time.monotonic() - began, 1)
        (options.out / "gpu.json").write_text(json.dumps(figures, indent=1), encoding="utf-8")
        (options.out / "gpu.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
