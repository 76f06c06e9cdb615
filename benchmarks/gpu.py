"""What a GPU does with taxtune's local models: the same answers, how fast, and what a step of decoding waits for.

    bash benchmarks/gpu.sh [FOLDER OF WHEELS] [OUT]      # on the machine; at most 8 minutes
    bash benchmarks/gpu.sh wheels-gpu runs/gpu --quick   # tiny shapes, on two CPU cores in less than 3

All weights are random and made on the device; nothing is downloaded. After every step the figures are written to
OUT/gpu.json and OUT/gpu.md, so that what was measured is kept if time runs out. Besides the bundle of `make gpu-bundle`
the machine needs torch, torchvision, transformers, accelerate, scikit-learn, pandas, networkx, matplotlib, rich, typer,
filelock, sentencepiece and, for the log-probabilities, pytest and hypothesis.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
import transformers
from random_vlms import FAMILIES, REAL, Shape, make_model, scaled
from vlm_throughput import (
    PHASES,
    Plan,
    batched,
    generate,
    limits,
    make_images,
    make_prompts,
    one_by_one,
    settings_of,
    taxtune,
    timed,
)

from taxtune.models import Answer, Request, ask
from taxtune.models.checkpoint import Checkpoint
from taxtune.models.vision import LocalVLM

DTYPES = ("float32", "bfloat16")
BATCHES = (1, 8, 32)


class Made(LocalVLM):
    """A local model whose network was made in this process and lies nowhere else."""

    def __init__(self, network: Any, processor: Any, plan: Plan) -> None:
        super().__init__("random", settings_of(plan))
        self.__dict__["_network"] = network
        self.made = processor

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """Says what a folder would."""
        config = self._network.config
        return Checkpoint("random weights", "", {}, "random", config, complete=True, weight_bytes=0)

    def _load_processor(self) -> Any:
        return self.made


@dataclass
class Findings:
    """The figures so far, which are written after every step.

    Attributes:
        out: The folder that they are written to.
        quick: Whether the shapes are tiny.
        limit: Seconds that all steps may take.
        figures: What each step found.
        lines: The same in Markdown.
    """

    out: Path
    quick: bool
    limit: float
    figures: dict[str, Any] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    @classmethod
    def read(cls, out: Path, *, quick: bool, limit: float) -> Findings:
        """Goes on from the files of earlier steps."""
        figures = json.loads((out / "gpu.json").read_text(encoding="utf-8"))
        lines = (out / "gpu.md").read_text(encoding="utf-8").splitlines()
        return cls(out=out, quick=quick, limit=limit, figures=figures, lines=lines)

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self.limit - (time.monotonic() - self.started)

    def run(self, name: str, title: str, step: Callable[[Findings], None]) -> None:
        """Runs a step as long as there is time, and writes what it found, or why it failed."""

        def stop(*_: Any) -> None:
            raise TimeoutError("the time for all steps is over")

        began = time.monotonic()
        self.say(f"\n## {title}\n")
        self.write()
        signal.signal(signal.SIGALRM, stop)
        signal.alarm(max(1, int(self.left)))
        try:
            step(self)
        except Exception as error:
            self.figures.setdefault("failed", {})[name] = traceback.format_exc()
            self.say(f"**Not measured**: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
        finally:
            signal.alarm(0)
        self.figures.setdefault("seconds", {})[name] = round(time.monotonic() - began, 1)
        self.write()

    def say(self, line: str) -> None:
        """Adds a line of Markdown."""
        print(line, flush=True)
        self.lines.append(line)

    def row(self, *cells: object) -> None:
        """Adds a row of a table."""
        self.say(f"| {' | '.join(map(str, cells))} |")

    def head(self, *cells: str) -> None:
        """Adds the head of a table."""
        self.row(*cells)
        self.row(*("---" for _ in cells))

    def write(self) -> None:
        """Writes both files."""
        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / "gpu.json").write_text(json.dumps(self.figures, indent=1, default=str), encoding="utf-8")
        (self.out / "gpu.md").write_text("\n".join(self.lines) + "\n", encoding="utf-8")


def device() -> str:
    """Returns the kind of device that is measured."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def questions(plan: Plan) -> list[Request]:
    """Returns all prompts about all images, in an order that mixes both."""
    pairs = [(prompt, image) for prompt in plan.prompts for image in plan.images]
    random.Random(0).shuffle(pairs)
    return [Request(prompt, Path(image)) for prompt, image in pairs]


def make_plan(work: Path, *, shape: Shape, dtype: str, prompts: int, images: int, tokens: int) -> Plan:
    """Returns a plan of questions; its images lie in a folder, no model does."""
    folder = work / f"{time.monotonic_ns()}"
    return Plan(
        folder=str(folder / "none"),
        images=make_images(folder / "images", shape.image_side, images, seed=0),
        held_out=[],
        warm_up=make_images(folder / "warm-up", shape.image_side, min(images, 4), seed=1),
        prompts=make_prompts(prompts, 40, seed=0),
        new_tokens=tokens,
        batch_size=1,
        device=device(),
        dtype=dtype,
        cpu_time=False,
    )


# -- the same answers --------------------------------------------------------------------------------------------------


def parity(findings: Findings) -> None:
    """Compares answers from kept images with those of plain `generate`, question by question."""
    findings.say(
        "Of 32 questions (8 prompts of 4 lengths about 4 images), mixed in every batch: answers that differ from those of "
        "`generate` alone with its pixels; and the largest difference of a first token's logit, of their range.\n"
    )
    findings.head(
        "family", "dtype", "plain, batches of 8", *(f"kept, batches of {n}" for n in BATCHES), "logit", "kept"
    )
    found = findings.figures["parity"] = {}
    for dtype in DTYPES:
        for family in list(FAMILIES):
            with tempfile.TemporaryDirectory() as work:
                found[f"{family} {dtype}"] = one = compare(family, dtype, Path(work), findings.quick)
            kept = [one["kept"][size] for size in BATCHES]
            findings.row(family, dtype, one["batched"], *kept, f"{one['logit']:.1e}", one["not_kept"] or "yes")
            findings.write()


def compare(family: str, dtype: str, work: Path, quick: bool) -> dict[str, Any]:
    """Returns how the answers and first logits of one family differ."""
    prompts = 4 if quick else 8
    shape = replace(Shape(vocabulary=4000), image_side=64)
    plan = make_plan(work, shape=shape, dtype=dtype, prompts=prompts, images=32 // prompts, tokens=8)
    network, processor = make_model(family, shape, dtype=dtype, device=plan.device)
    # Any of many tokens ends an answer, so that rows of a batch end at different times.
    ends = network.generation_config.eos_token_id or processor.tokenizer.eos_token_id
    network.generation_config.eos_token_id = [ends, *range(300, 800)]
    # That of Idefics3's kin may lie beyond the vocabulary.
    network.generation_config.pad_token_id = processor.tokenizer.pad_token_id
    requests = questions(plan)
    plain = {(r.prompt, r.image): generate(plan, network, processor, r.prompt, [str(r.image)])[0] for r in requests}
    if len(set(plain.values())) < len(plain) // 2:
        raise ValueError("answers that are all alike show nothing")
    many = batched(replace(plan, batch_size=8), network, processor)
    together = {}
    for prompt in plan.prompts:
        for image, text in zip(plan.images, many(prompt, plan.images), strict=True):
            together[prompt, Path(image)] = text
    kept: dict[int, int] = {}
    for size in BATCHES:
        vlm = Made(network, processor, replace(plan, batch_size=size))
        replies = ask(vlm, requests, None)
        texts = [reply.text if isinstance(reply, Answer) else str(reply) for reply in replies]
        kept[size] = sum(text != plain[r.prompt, r.image] for r, text in zip(requests, texts, strict=True))
    return {
        "questions": len(requests),
        "distinct": len(set(plain.values())),
        "batched": sum(together[key] != text for key, text in plain.items()),
        "kept": kept,
        "logit": logits_apart(vlm, requests),
        "not_kept": vlm.not_kept,
    }


def logits_apart(vlm: Made, requests: Sequence[Request]) -> float:
    """Returns the largest difference of first logits between kept images and pixels, as a share of their range."""
    prepared = [vlm._prepare(request) for request in requests]
    none: list[Sequence[int]] = [()] * len(prepared)
    kept = vlm._first_logits(vlm._collate(prepared))
    most = 0.0
    for at, question in enumerate(prepared):
        alone = vlm._first_logits(vlm._plain([question], none[:1]))[0]
        finite = torch.isfinite(alone)
        span = float(alone[finite].amax() - alone[finite].amin())
        most = max(most, float((alone - kept[at])[finite].abs().amax()) / span)
    return most


def probabilities(findings: Findings) -> None:
    """Runs the tests that compare names' probabilities with those of generation, on this device."""
    wanted = "smolvlm" if findings.quick else ""
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", ".", "-p", "no:cacheprovider"]
    command += ["tests/models/test_scoring.py", "-k", f"outcomes_are_those_of_generation and {wanted or 'test'}"]
    environment = {**os.environ, "TAXTUNE_TEST_DEVICE": device()}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=max(1, findings.left), check=False
    )
    last = done.stdout.strip().splitlines()[-1:]
    findings.figures["probabilities"] = {"passed": done.returncode == 0, "said": done.stdout[-4000:]}
    findings.say(f"`posterior` against generation, float32, seven families, kept and not: {' '.join(last)}")


# -- how fast ----------------------------------------------------------------------------------------------------------


def throughput(family: str, findings: Findings) -> None:
    """Times 8 prompts about 32 images: alone, in batches, and through taxtune; and the limits of the device."""
    quick = findings.quick
    shape = scaled(REAL[family], width=16, depth=16, tile=56 if family == "mllama" else None) if quick else REAL[family]
    dtype = "float32" if quick else "bfloat16"
    sizes = (2, 4) if quick else (16, 64)
    with tempfile.TemporaryDirectory() as work:
        plan = make_plan(
            Path(work),
            shape=shape,
            dtype=dtype,
            prompts=2 if quick else 8,
            images=4 if quick else 32,
            tokens=4 if quick else 16,
        )
        began = time.monotonic()
        network, processor = make_model(family, shape, dtype=dtype, device=plan.device, only_words=True)
        found: dict[str, Any] = {"making the weights, s": time.monotonic() - began}
        findings.figures.setdefault("throughput", {})[family] = found
        bound = found["limits"] = limits(plan, network, processor)
        alone = replace(plan, prompts=plan.prompts[4:5] or plan.prompts[:1])
        findings.say(
            f"{bound['model']}, {bound['parameters'] / 1e9:.1f} G parameters, {dtype}; {bound['tokens']['image']:,} states an "
            f"image, {bound['tokens']['text'][0]} to {bound['tokens']['text'][1]} tokens of text, {plan.new_tokens} new ones; "
            f"{len(plan.prompts)} prompts × {len(plan.images)} images (one by one: a single prompt).\n"
        )
        findings.head("way", "batch", "answers/s", "s", *PHASES, "step, ms", "peak, GiB")
        measure(findings, family, "one by one", alone, one_by_one(alone, network, processor), network)
        for size in sizes:
            sized = replace(plan, batch_size=size)
            measure(findings, family, "batched", sized, batched(sized, network, processor), network)
        for size in sizes:
            sized = replace(plan, batch_size=size, folder=str(Path(work) / f"own-{size}" / "none"))
            Path(sized.folder).parent.mkdir()
            vlm = Made(network, processor, sized)
            measure(findings, family, "taxtune", sized, taxtune(sized, vlm), network)
            # An iteration asks one prompt about the images; all prompts at once fill larger batches.
            together = taxtune_together(sized, Made(network, processor, sized))
            measure(findings, family, "taxtune, all prompts at once", sized, together, network, at_once=True)
        flop = bound["flop"]
        findings.say(
            f"\nMemory {bound['bandwidth'] / 1e9:,.0f} GB/s (read and write), peak {bound['peak'] / 1e12:,.1f} TFLOP/s. A step "
            f"reads {bound['bytes_a_step'] / 2**30:,.2f} GiB of weights: at best {step_limit(bound) * 1e3:.2f} ms. "
            + ", ".join(
                f"{name} {flop[name] / 1e12:,.2f} TFLOP ({flop[name] / bound['peak'] * 1e3:,.1f} ms)"
                for name in PHASES
                if name != "else"
            )
            + " a question."
        )
        findings.write()
        findings.say("")
        profile(findings, family, plan, network, processor)


def step_limit(bound: Mapping[str, Any]) -> float:
    """Returns the seconds that reading a step's weights takes; the bandwidth counts reads and writes alike."""
    return float(bound["bytes_a_step"] / bound["bandwidth"])


def taxtune_together(plan: Plan, vlm: Made) -> Callable[[str, Sequence[str]], list[str]]:
    """Asks all prompts of a plan in one call, at the first prompt; the warm-up is asked as it comes."""

    def ask_all(prompt: str, images: Sequence[str]) -> list[str]:
        prompts = plan.prompts if list(images) == plan.images else [prompt]
        replies = ask(vlm, [Request(text, Path(image)) for text in prompts for image in images], None)
        return [reply.text for reply in replies if isinstance(reply, Answer)]

    return ask_all


def measure(
    findings: Findings,
    family: str,
    way: str,
    plan: Plan,
    asks: Callable[[str, Sequence[str]], list[str]],
    network: Any,
    *,
    at_once: bool = False,
) -> None:
    """Times one way and adds its row."""
    if device() == "cuda":
        torch.cuda.empty_cache()
    try:
        one = timed(replace(plan, prompts=plan.prompts[:1]) if at_once else plan, asks, network)
    except torch.cuda.OutOfMemoryError:
        findings.row(way, plan.batch_size, "out of memory")
        return
    answers = [text for part in one.pop("answers") for text in part]
    if len(answers) != len(plan.prompts) * len(plan.images):
        raise ValueError(f"{way}: {len(answers)} answers to {len(plan.prompts) * len(plan.images)} questions")
    spent, seconds = one["shares"]["tuning"], one["seconds"]["tuning"]
    one |= {"answers": len(answers), "batch": plan.batch_size}
    findings.figures["throughput"][family][f"{way}, {plan.batch_size}"] = one
    step = spent["decoding"] / spent["steps"] * 1e3 if spent["steps"] else float("nan")
    parts = (f"{spent[phase]:.2f}" for phase in PHASES)
    memory = f"{one['memory'] / 2**30:.1f}"
    findings.row(way, plan.batch_size, f"{len(answers) / seconds:.2f}", f"{seconds:.1f}", *parts, f"{step:.1f}", memory)
    findings.write()


# -- a step of decoding ------------------------------------------------------------------------------------------------


def batch_of(plan: Plan, processor: Any, size: int) -> Any:
    """Returns the tensors of so many questions with their pixels."""
    from PIL import Image

    messages = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": plan.prompts[0]}]}]
    text = processor.apply_chat_template(messages, add_generation_prompt=True)
    images = [[Image.open(plan.images[i % len(plan.images)]).convert("RGB")] for i in range(size)]
    starts = text.startswith(processor.tokenizer.bos_token or "\0")
    made = processor(
        images=images, text=[text] * size, padding=True, add_special_tokens=not starts, return_tensors="pt"
    )
    return made.to(plan.device, dtype=getattr(torch, plan.dtype))


def profile(findings: Findings, family: str, plan: Plan, network: Any, processor: Any, size: int = 16) -> None:
    """Profiles some steps of decoding: kernels, the time of the device in them, and what else the step takes."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiler

    size = 2 if findings.quick else size
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device() == "cuda" else [])]
    watched = profiler(activities=activities)
    first, last = 2, 3 if findings.quick else 8
    marks: list[float] = []
    steps = 0

    def watch(input_ids: Any, scores: Any, **_: Any) -> Any:
        nonlocal steps
        steps += 1
        if steps in (first, last):
            if device() == "cuda":
                torch.cuda.synchronize()
            if steps == first:
                watched.start()
            marks.append(time.perf_counter())
            if steps == last:
                watched.stop()
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)

    inputs = batch_of(plan, processor, size)
    with torch.inference_mode():
        network.generate(**inputs, max_new_tokens=last + 1, do_sample=False, stopping_criteria=[watch])
    events = watched.key_averages()
    count = last - first
    kernels = [event for event in events if event.device_type.name == "CUDA"]
    busy = sum(event.self_device_time_total for event in kernels) / 1e3 / count
    launched = sum(event.count for event in kernels) / count
    step = (marks[1] - marks[0]) / count * 1e3
    by_device = sorted(kernels, key=lambda event: -event.self_device_time_total)[:5]
    by_host = sorted(events, key=lambda event: -event.self_cpu_time_total)[:5]
    lines = [
        f"{e.key[:70]}: {e.self_device_time_total / 1e3 / count:.2f} ms, {e.count / count:.0f} ×" for e in by_device
    ]
    lines += [
        f"host, {e.key[:60]}: {e.self_cpu_time_total / 1e3 / count:.2f} ms, {e.count / count:.0f} ×" for e in by_host
    ]
    findings.figures.setdefault("profile", {})[family] = {
        "step_ms": step,
        "busy_ms": busy,
        "kernels": launched,
        "top": lines,
    }
    findings.say(
        f"A step of {size} rows, while it is profiled: {step:.1f} ms, in which the device computes {busy:.1f} ms in "
        f"{launched:,.0f} kernels.\n"
    )
    for line in lines:
        findings.say(f"- {line}")
    findings.write()


def static(findings: Findings, family: str = "qwen2_5_vl") -> None:
    """Times answers with a static cache, whose steps transformers compiles to CUDA graphs, beside the plain cache."""
    if device() != "cuda":
        findings.say("Only on CUDA.")
        return
    shape = REAL[family]
    with tempfile.TemporaryDirectory() as work:
        plan = make_plan(Path(work), shape=shape, dtype="bfloat16", prompts=1, images=16, tokens=16)
        plan = replace(plan, batch_size=16)
        network, processor = make_model(family, shape, dtype="bfloat16", device="cuda", only_words=True)
        compiled(findings, family, plan, network, processor)


def compiled(findings: Findings, family: str, plan: Plan, network: Any, processor: Any) -> None:
    """Times the two caches, each after a first answer."""
    inputs = batch_of(plan, processor, plan.batch_size)
    found: dict[str, float] = {}
    for way in ("dynamic", "static"):
        own = {"cache_implementation": "static"} if way == "static" else {}
        seconds = []
        for tokens in (plan.new_tokens, 2, plan.new_tokens):  # the first compiles
            began = time.perf_counter()
            with torch.inference_mode():
                network.generate(**inputs, **own, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False)
            torch.cuda.synchronize()
            seconds.append(time.perf_counter() - began)
        found[f"{way}, first s"] = seconds[0]
        found[f"{way}, step ms"] = (seconds[2] - seconds[1]) / (plan.new_tokens - 2) * 1e3
    findings.figures.setdefault("static", {})[family] = found
    findings.say(
        f"\nA step of {plan.batch_size} rows: {found['dynamic, step ms']:.1f} ms; with a static cache and CUDA graphs "
        f"{found['static, step ms']:.1f} ms, after {found['static, first s']:.0f} s for the first answer."
    )


# -- a run -------------------------------------------------------------------------------------------------------------

_RUN = """
import json, sys, taxtune
from taxtune.models import ModelSettings, make_model
own = ModelSettings(device=sys.argv[1], dtype=sys.argv[2], max_tokens=24, batch_size=20)
result = taxtune.tune(recipe="fieldguide", vlm=make_model("builtin:fieldguide", own), out=sys.argv[3],
                      settings={"tracking.mlflow": False, **json.loads(sys.argv[4])})
table = result.heldout_frame().to_json()
print(json.dumps({"winner": result.winner, "prompt": result.best.prompt, "table": json.loads(table)}))
"""


class Run:
    """A tuning run of the field guide in a process of its own."""

    def __init__(self, findings: Findings, where: str, dtype: str) -> None:
        self.folder = tempfile.TemporaryDirectory()
        fewer = {"iterations": 1, "data.count": 60, "data.tuning": 24, "data.heldout": 16} if findings.quick else {}
        arguments = [where, dtype, self.folder.name, json.dumps(fewer)]
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", _RUN, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "4"},
        )

    def result(self, seconds: float) -> dict[str, Any]:
        """Waits for the run and returns its winner and table."""
        out, err = self.process.communicate(timeout=max(1, seconds))
        if self.process.returncode:
            raise RuntimeError(err[-1500:])
        self.folder.cleanup()
        return {**json.loads(out.splitlines()[-1]), "seconds": time.monotonic() - self.began}


def fieldguide(findings: Findings) -> None:
    """Tunes the field guide on the device, and compares winner and table with those of the CPU."""
    runs = {"cpu float32": Run(findings, "cpu", "float32")}
    for dtype in DTYPES if device() == "cuda" else ("bfloat16",):
        runs[f"{device()} {dtype}"] = Run(findings, device(), dtype)
    found = {name: run.result(findings.left) for name, run in runs.items()}
    findings.figures["fieldguide"] = found
    findings.head("device", "winner", "as on the CPU", "accuracy", "hP", "hR", "s")
    for name, one in found.items():
        rows = list(zip(*(one["table"][key].values() for key in ("accuracy", "hp", "hr")), strict=True))
        accuracy, hp, hr = rows[-1]
        same = (
            "yes"
            if one["table"] == found["cpu float32"]["table"] and one["winner"] == found["cpu float32"]["winner"]
            else "no"
        )
        findings.row(name, one["winner"], same, accuracy, f"{hp:.4f}", f"{hr:.4f}", f"{one['seconds']:.0f}")


STEPS: dict[str, tuple[str, Callable[[Findings], None]]] = {
    "parity": ("The same answers", parity),
    "probabilities": ("Probabilities of names", probabilities),
    "mllama": ("Llama-3.2-11B-Vision's shape", partial(throughput, "mllama")),
    "qwen2_5_vl": ("Qwen2.5-VL-7B's shape", partial(throughput, "qwen2_5_vl")),
    "run": ("A tuning run", fieldguide),
    "static": ("A static cache, Qwen2.5-VL-7B's shape (transformers compiles no Mllama)", static),
}


def main() -> None:
    """Runs each step in a process of its own: an error on the device ends the process that meets it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/gpu"))
    parser.add_argument("--quick", action="store_true", help="tiny shapes")
    parser.add_argument("--limit", type=float, default=470, help="seconds that all steps may take")
    parser.add_argument("--steps", nargs="+", default=[*STEPS], choices=STEPS)
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        findings = Findings.read(options.out, quick=options.quick, limit=options.limit)
        findings.run(options.step, *STEPS[options.step])
        return
    findings = Findings(out=options.out, quick=options.quick, limit=options.limit)
    name = torch.cuda.get_device_name() if device() == "cuda" else "CPU"
    findings.figures["machine"] = {"device": name, "torch": torch.__version__, "transformers": transformers.__version__}
    findings.say(f"{name}; torch {torch.__version__}, transformers {transformers.__version__}")
    findings.write()
    for step in options.steps:
        command = [sys.executable, __file__, "--out", options.out, "--step", step, "--limit", str(findings.left)]
        subprocess.run([*command, *(["--quick"] if options.quick else [])], check=False)


if __name__ == "__main__":
    main()
