"""What a type checker says of tests/typing/user.py, with ParKazoo installed as users install it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import venv
from collections import Counter
from pathlib import Path

import kazoo

ROOT = Path(__file__).parents[2]
USER = ROOT / "tests" / "typing" / "user.py"
SOURCES = ("parkazoo", "pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")


def install(folder: Path) -> Path:
    """Make an environment with the wheel of this checkout, which also sees the packages of this one.

    :returns: its Python.
    """
    source = folder / "source"
    source.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source / name)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--wheel-dir", str(folder), str(source)], check=True, capture_output=True, text=True)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv", with_pip=False)
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    shutil.unpack_archive(wheel, site, "zip")
    (site / "kazoo").symlink_to(Path(kazoo.__file__).parent)
    return folder / "venv" / "bin" / "python"


def expected() -> Counter[tuple[int, str]]:
    lines = enumerate(USER.read_text().splitlines(), 1)
    return Counter((number, found[1]) for number, line in lines if (found := re.search(r"# E: ([a-z-]+)", line)))


class TestUser(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="parkazoo-typing-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_mypy(self) -> None:
        python = install(self.folder)
        program = shutil.copy(USER, self.folder)  # where it stands mypy would find the checkout, not the wheel
        mypy = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file="]
        options = ["--python-executable", str(python), "--cache-dir", str(self.folder / "cache")]
        ran = subprocess.run(
            [*mypy, *options, program], cwd=self.folder, capture_output=True, text=True, check=False
        )
        said = re.findall(r"^.*user\.py:(\d+): error: .*\[([a-z-]+)\]$", ran.stdout, re.MULTILINE)
        found = Counter((int(number), code) for number, code in dict.fromkeys(said))
        self.assertEqual(ran.stderr, "")
        self.assertEqual(found, expected(), ran.stdout)
        self.assertEqual(ran.stdout.count("error:"), len(said), ran.stdout)
