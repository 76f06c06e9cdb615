"""Trains the embedded model: `python -m fieldguide.train --out FOLDER`.

Two stages, both from scratch: the image side learns to tell the birds apart (`seeing.py`), then the
language side learns to listen to prompts (`listening.py`). Needs no download. With `--seen-by
taxtune/fieldguide/model --pieces 6 --vocabulary 1280` only the second stage is trained, on the
image side of the embedded model: a model whose names have 2 to 8 tokens, as those of released
models have, for `benchmarks/landscapes`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taxtune.errors import TaxtuneError

__all__ = ["Settings", "main", "train"]


@dataclass(frozen=True, slots=True)
class Settings:
    """How to train.

    Attributes:
        seed: Of everything: pictures, weights, order, prompts.
        see: Pictures that the image side learns from.
        epochs: How often it goes through them.
        listen: Further pictures, which it has not seen, that the language side learns from.
        steps: Batches of 64 pictures and prompts that the language side learns from.
        prompts: Prompts that the tokenizer is learnt from.
        vocabulary: Tokens that the model can write.
        pieces: The longest token, in characters, of a model that writes names in pieces; 0 for
            names as whole tokens.
        workers: Processes that draw pictures.
        threads: Threads that compute; 0 leaves the choice to torch.
    """

    seed: int = 1
    see: int = 24_000
    epochs: int = 5
    listen: int = 24_000
    steps: int = 2_500
    prompts: int = 20_000
    vocabulary: int = 1_088
    pieces: int = 0
    workers: int = 2
    threads: int = 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def train(
    out: Path,
    settings: Settings | None = None,
    *,
    work: Path | None = None,
    seen_by: Path | None = None,
    say: Callable[[str], None] = _say,
) -> Path:
    """Trains the model and writes its folder, complete or not at all.

    Args:
        out: The folder to write, which must not exist.
        settings: How to train.
        work: A folder to keep pictures and the trained image side in, so that a second run need not
            make them again.
        seen_by: The folder of a model that was trained before, whose image side is taken as it is.
        say: Where notes on progress go.

    Returns:
        The folder.

    Raises:
        TaxtuneError: If `out` exists or cannot be written.
    """
    settings = settings or Settings()
    if out.exists():
        raise TaxtuneError(
            "The folder for the model exists.", file=out, remedy="Name another one or remove it."
        )
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    except OSError as error:
        raise TaxtuneError(f"The model cannot be written: {error.strerror}.", file=out) from error
    try:
        if work is not None:
            work.mkdir(parents=True, exist_ok=True)
        _train(draft, settings, work, seen_by, say)
        draft.chmod(0o755)
        os.replace(draft, out)
    except OSError as error:
        raise TaxtuneError(f"The model cannot be written: {error.strerror}.", file=out) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return out


def _train(
    folder: Path,
    settings: Settings,
    work: Path | None,
    seen_by: Path | None,
    say: Callable[[str], None],
) -> None:
    import torch
    from transformers import GenerationConfig

    from fieldguide.architecture import build_model
    from fieldguide.listening import corpus, learn_to_listen
    from fieldguide.pictures import draw_pictures
    from fieldguide.seeing import look, sureness
    from fieldguide.vocabulary import build_processor, build_tokenizer

    if settings.threads:
        torch.set_num_threads(settings.threads)
    torch.manual_seed(settings.seed)
    started = time.monotonic()

    texts = corpus(settings.prompts, seed=settings.seed)
    tokenizer = build_tokenizer(texts, size=settings.vocabulary, pieces=settings.pieces)
    special = {
        "bos": tokenizer.bos_token_id,
        "eos": tokenizer.eos_token_id,
        "pad": tokenizer.pad_token_id,
    }
    model = build_model(settings.vocabulary, **special)
    say(f"{sum(p.numel() for p in model.parameters()):,} parameters")

    layer = (
        _sight(model, settings, work, say)
        if seen_by is None
        else _sight_of(seen_by, model, settings, work, say)
    )
    pictures = draw_pictures(
        settings.listen, seed=1000 * settings.seed + 3, workers=settings.workers, keep=work, say=say
    )
    tokens, chances = look(model, layer, pictures)
    sure = sureness(chances)
    # Hands the image side over as it is: the language side learns from tokens that stay as they
    # are.
    learn_to_listen(
        model,
        tokenizer,
        tokens,
        pictures.species,
        sure,
        steps=settings.steps,
        seed=settings.seed,
        say=say,
    )

    model.eval()
    model.generation_config = GenerationConfig(
        bos_token_id=special["bos"],
        eos_token_id=special["eos"],
        pad_token_id=special["pad"],
        do_sample=False,
        max_new_tokens=24,
    )
    model.save_pretrained(folder)
    build_processor(tokenizer).save_pretrained(folder)
    _make_portable(folder)
    say(f"trained in {(time.monotonic() - started) / 60:.1f} minutes")


def _sight(model: Any, settings: Settings, work: Path | None, say: Callable[[str], None]) -> Any:
    """Trains the image side, or takes it from an earlier run with the same settings.

    Returns the naming layer.
    """
    import torch
    from torch import nn

    from fieldguide.pictures import draw_pictures
    from fieldguide.seeing import learn_to_see
    from fieldguide.species import all_species

    name = f"sight-{settings.seed}-{settings.see}-{settings.epochs}.pt"
    file = None if work is None else work / name
    image_side = nn.ModuleList([model.model.vision_model, model.model.multi_modal_projector])
    if file is not None and file.exists():
        say(f"taking the image side from {name}")
        kept = torch.load(file, weights_only=True)
        image_side.load_state_dict(kept["image_side"])
        layer = nn.Linear(model.config.text_config.hidden_size, len(all_species()))
        layer.load_state_dict(kept["layer"])
        return layer
    first = 1000 * settings.seed + 1
    workers = settings.workers
    layer = learn_to_see(
        model,
        draw_pictures(settings.see, seed=first, workers=workers, keep=work, say=say),
        draw_pictures(
            max(64, settings.see // 8), seed=first + 1, workers=workers, keep=work, say=say
        ),
        epochs=settings.epochs,
        seed=settings.seed,
        say=say,
    )
    if file is not None:
        torch.save({"image_side": image_side.state_dict(), "layer": layer.state_dict()}, file)
    return layer


def _sight_of(
    folder: Path, model: Any, settings: Settings, work: Path | None, say: Callable[[str], None]
) -> Any:
    """Takes the image side of a model that was trained before.

    Returns a naming layer, trained on it as it is.
    """
    from transformers import MllamaForConditionalGeneration

    from fieldguide.pictures import draw_pictures
    from fieldguide.seeing import learn_to_name

    say(f"taking the image side of {folder}")
    other = MllamaForConditionalGeneration.from_pretrained(folder).model
    model.model.vision_model.load_state_dict(other.vision_model.state_dict())
    model.model.multi_modal_projector.load_state_dict(other.multi_modal_projector.state_dict())
    n = max(64, settings.see // 4)
    seed = 1000 * settings.seed + 2
    return learn_to_name(
        model, draw_pictures(n, seed=seed, workers=settings.workers, keep=work, say=say)
    )


def _make_portable(folder: Path) -> None:
    """Words the configuration so that transformers 4.57 reads it as well as transformers 5."""
    file = folder / "tokenizer_config.json"
    table = json.loads(file.read_text(encoding="utf-8"))
    table["tokenizer_class"] = "PreTrainedTokenizerFast"
    table.pop("backend", None)
    file.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")
    # Release 4 calls the settings of the rotary embedding otherwise, and reads those of the images
    # from a file of their own.
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    rope = config["text_config"]["rope_parameters"]
    config["text_config"]["rope_theta"] = rope["rope_theta"]
    config["text_config"]["rope_scaling"] = {"rope_type": rope["rope_type"]}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    processor = json.loads((folder / "processor_config.json").read_text(encoding="utf-8"))
    images = {**processor["image_processor"], "processor_class": "MllamaProcessor"}
    (folder / "preprocessor_config.json").write_text(
        json.dumps(images, indent=2) + "\n", encoding="utf-8"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Trains from the command line; returns the exit status."""
    default = Settings()
    parser = argparse.ArgumentParser(prog="python -m fieldguide.train", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the folder to write the model to")
    parser.add_argument(
        "--work", type=Path, help="a folder to keep pictures and the image side in between runs"
    )
    parser.add_argument(
        "--seen-by", type=Path, help="the folder of a trained model, whose image side is taken"
    )
    for name, help_text in (
        ("seed", "seed of everything"),
        ("see", "pictures that the image side learns from"),
        ("epochs", "times that it goes through them"),
        ("listen", "pictures that the language side learns from"),
        ("steps", "batches that the language side learns from"),
        ("prompts", "prompts that the tokenizer is learnt from"),
        ("vocabulary", "tokens that the model can write"),
        (
            "pieces",
            "longest token, in characters, of a model that writes names in pieces; 0: names are tokens",
        ),
        ("workers", "processes that draw pictures"),
        ("threads", "threads that compute (0: torch decides)"),
    ):
        value = getattr(default, name)
        parser.add_argument(
            f"--{name}", type=int, default=value, help=f"{help_text} (default {value})"
        )
    given = vars(parser.parse_args(arguments))
    out = given.pop("out")
    work = given.pop("work")
    seen_by = given.pop("seen_by")
    try:
        train(out, Settings(**given), work=work, seen_by=seen_by)
    except TaxtuneError as error:
        _say(f"error: {error}")
        return 2
    _say(f"written to {out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
