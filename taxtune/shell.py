"""Commands that messages tell people to run, written so that they work in the shell that this one was typed in.

In a virtual environment that is not activated `taxtune` and its neighbours (`mlflow`, `hf`) are not on the PATH, or
are those of another environment: then they are called by their path.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import sysconfig
from pathlib import Path

__all__ = ["command", "install_extra", "program", "python"]


def command(*words: str | Path) -> str:
    """Returns a command line of taxtune that starts as the user's own did.

    Args:
        *words: What follows "taxtune", unquoted: "tune", Path("my birds.yaml"), "--dry-run".
    """
    started = Path(sys.argv[0])
    if started.name == "__main__.py" and started.parent.name == "taxtune":
        start = f"{python()} -m taxtune"
    else:  # from a notebook, or a test, there is no command to go by
        known = started.stem == "taxtune" and started.parent != Path()
        start = _called("taxtune", started) if known else "taxtune"
    return " ".join([start, *(shlex.quote(str(word)) for word in words)])


def program(name: str) -> str:
    """The command that calls a program that is installed beside this Python, quoted; its name where it is nowhere."""
    installed = Path(sysconfig.get_path("scripts")) / (f"{name}.exe" if os.name == "nt" else name)
    return _called(name, installed) if installed.exists() else name


def install_extra(extra: str) -> str:
    """The command that installs an extra of taxtune, which is on no package index: from its clone."""
    return f"{program('pip')} install '.[{extra}]' (in the clone of taxtune)"


def python() -> str:
    """The command that calls this Python, quoted."""
    return _called("python", Path(sys.executable)) if sys.executable else "python"


def _called(name: str, file: Path) -> str:
    """Returns the name of a program where the PATH leads to the file, or else the file's path."""
    on_path = shutil.which(name)
    # Not resolved: a virtual environment's Python is a link to one that knows nothing of it.
    if on_path is not None and Path(on_path).absolute() == file.absolute():
        return shlex.quote(name)
    if file.is_absolute() and file.is_relative_to(Path.cwd()):
        file = file.relative_to(Path.cwd())
    return shlex.quote(str(file) if os.sep in str(file) else os.path.join(os.curdir, file))
