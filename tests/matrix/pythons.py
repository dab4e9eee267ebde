"""Interpreters that this machine has, and environments made from them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from bench import ROOT

PYENV = Path("~/.pyenv").expanduser()
UV = Path("~/.local/share/uv/python").expanduser()
ASKED = "import sys; print(sys.version.split()[0] + sys.abiflags)"
ASK_TIMEOUT_S = 60
LINES_SHOWN = 3


class NotMadeError(Exception):
    """An environment cannot be made."""


def find_python(version: str) -> Path | None:
    """Returns an interpreter that runs: of PATH, of pyenv, of uv.

    :param version: ``"3.13"``; ``"3.13t"`` is free-threaded.
    """
    return next((path for path in _candidates(version) if _fits(version, version_of(path))), None)


def version_of(python: Path) -> str:
    """Returns ``"3.13.0"`` or ``"3.13.0t"``; empty if it does not run."""
    try:
        asked = subprocess.run(
            [python, "-c", ASKED], capture_output=True, text=True, timeout=ASK_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stdout.strip() if asked.returncode == 0 else ""


def _candidates(version: str) -> Iterator[Path]:
    if on_path := shutil.which(f"python{version}"):
        yield Path(on_path)
    number, threads = version.rstrip("t"), version[len(version.rstrip("t")) :]
    pyenv = Path(os.environ.get("PYENV_ROOT") or PYENV, "versions")
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or UV)
    freethreaded = "+freethreaded" if threads else ""
    yield from sorted(pyenv.glob(f"{number}.*{threads}/bin/python"), reverse=True)
    yield from sorted(uv.glob(f"cpython-{number}.*{freethreaded}-*/bin/python{version}"), reverse=True)


def _fits(version: str, found: str) -> bool:
    is_free, free = version.endswith("t"), found.endswith("t")
    return is_free == free and found.startswith(f"{version.rstrip('t')}.")


def make_environment(python: Path, folder: Path, kazoo: str) -> Path:
    """Makes an environment with this checkout and what the tests need.

    :param kazoo: its version, such as ``"2.12"``; empty: the newest that the package's requirements allow.
    :returns: its Python.
    :raises NotMadeError: with pip's last words.
    """
    own = folder / "bin" / "python"
    _run([python, "-m", "venv", folder])
    _run([own, "-m", "pip", "install", "--quiet", "--editable", f"{ROOT}[test]"])
    if kazoo:
        _run([own, "-m", "pip", "install", "--quiet", f"kazoo=={kazoo}.*"])
    return own


def _run(command: list[str | Path]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = f"{done.stdout}\n{done.stderr}".strip().splitlines()
        errors = [line for line in said if "error" in line.lower()] or said
        raise NotMadeError("\n".join(errors[-LINES_SHOWN:]))
