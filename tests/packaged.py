"""The files that an index would have, and an environment with one of them."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

import kazoo

from bench import ROOT

NO_SOURCES = (".git", ".venv", "build", "dist", "*.egg-info", "__pycache__", ".mypy_cache", ".ruff_cache")


def build_sdist(folder: Path) -> Path:
    """Builds from a copy of the checkout, because setuptools writes beside the sources."""
    shutil.copytree(ROOT, folder / "checkout", ignore=shutil.ignore_patterns(*NO_SOURCES))
    return _build("sdist", folder / "checkout", folder)


def build_wheel(folder: Path, sdist: Path) -> Path:
    """Builds from the sdist, as pip does."""
    unpacked = folder / "unpacked"
    unpacked.mkdir()
    # Not tarfile: Debian 12's has no filter, and Python 3.12's warns without one.
    subprocess.run(["tar", "--extract", "--file", sdist, "--directory", unpacked], check=True)
    (source,) = unpacked.iterdir()
    return _build("wheel", source, folder)


def _build(kind: str, source: Path, folder: Path) -> Path:
    call = f"from setuptools import build_meta; print(build_meta.build_{kind}({str(folder)!r}))"
    ran = subprocess.run([sys.executable, "-c", call], cwd=source, capture_output=True, text=True, check=True)
    return folder / ran.stdout.split()[-1]


def install(folder: Path, wheel: Path) -> Path:
    """Makes an environment of the wheel and kazoo, without pip, which would ask an index.

    :returns: its Python.
    """
    venv.create(folder / "venv", with_pip=False)
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    shutil.unpack_archive(wheel, site, "zip")
    (site / "kazoo").symlink_to(Path(kazoo.__file__).parent)
    return folder / "venv" / "bin" / "python"
