"""A model of an installed package, for workers: slow on purpose, and it keeps a diary of what it was asked.

sleepy = make_package(folder, monkeypatch)
make_model(sleepy)
"""

from __future__ import annotations

import os

__all__ = ["asked", "make_package"]

MODULE = """
import os, signal, sys, time
from taxtune.images import content_hash
from taxtune.errors import ModelError
from taxtune.models import Answer, Fault, count_fault
from taxtune.progress import note

class Sleepy:
    batch_size = 2
    def __init__(self, model="", **settings):
        if model == "stillborn" and "pytest" not in sys.modules:
            print("no licence to live", flush=True)
            os._exit(3)
    @property
    def identity(self):
        return {"kind": "sleepy", "model": "sleepy"}
    def answer(self, requests):
        return [self.one(request) for request in requests]
    def one(self, request):
        if "poison" in request.prompt:
            os.kill(os.getpid(), signal.SIGKILL)
        if request.prompt == "kills once" and not os.path.exists(os.environ["SLEEPY_DIARY"] + ".killed"):
            with open(os.environ["SLEEPY_DIARY"] + ".killed", "w") as file:
                file.write(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        if "broken" in request.prompt:
            raise ModelError("the model is out of order")
        if "bug" in request.prompt:
            raise KeyError("nothing")
        if "fault" in request.prompt:
            count_fault(Fault.TIMEOUT)
            note("slow today")
        time.sleep(0.005)
        seen = content_hash(request.image)[:8] if request.image else "nothing"
        with open(os.environ["SLEEPY_DIARY"], "a") as diary:
            diary.write(f"{os.getpid()} {seen} {request.prompt}\\n")
        return Answer(f"{request.prompt}: {seen}")
"""


def make_package(folder, monkeypatch):
    """Installs the model's package in a folder; returns the model's name."""
    site = folder / "site"
    info = site / "sleepy-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "sleepy.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sleepy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[taxtune.vlms]\nsleepy = sleepy:Sleepy\n")
    (folder / "diary").touch()
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
    monkeypatch.setenv("SLEEPY_DIARY", str(folder / "diary"))
    return "sleepy"


def asked(folder):
    """Returns the answers in order: process, image, prompt."""
    rows = [line.split(" ", 2) for line in (folder / "diary").read_text().splitlines()]
    return [(int(pid), seen, prompt) for pid, seen, prompt in rows]
