"""The package as an index would have it: its files, and what works where only it and kazoo are installed."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

from bench import ROOT
from parkazoo import __version__, installing
from parkazoo.installing import command_to_add
from tests.packaged import build_sdist, build_wheel, install

IMPORT_ALL = """
import importlib, pkgutil, sys
before = {*sys.modules, "__main__"}  # a Linux distribution's sitecustomize, too
import parkazoo
for each in pkgutil.walk_packages(parkazoo.__path__, "parkazoo."):
    if not each.name.startswith(WITH_EXTRAS):
        importlib.import_module(each.name)
print(*sorted({name.partition(".")[0] for name in sys.modules.keys() - before} - sys.stdlib_module_names))
"""
WITH_EXTRAS = (
    "parkazoo.__main__", "parkazoo.cli.", "parkazoo.demo", "parkazoo.kazoo_private", "parkazoo.otel",
    "parkazoo.prometheus",
)  # fmt: skip
if sys.version_info < (3, 11):
    WITH_EXTRAS += "parkazoo.aio", "parkazoo.gateway"
PROGRAM = "from parkazoo import ParKazooClient; print(ParKazooClient.__module__)"


def files_of(folder: str) -> set[str]:
    return {
        str(path.relative_to(ROOT))
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


class PackageTest(unittest.TestCase):
    folder: Path
    sdist: Path
    wheel: Path
    python: Path

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory(prefix="parkazoo-package-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.sdist = build_sdist(cls.folder)
        cls.wheel = build_wheel(cls.folder, cls.sdist)
        cls.python = install(cls.folder, cls.wheel)

    def run_python(self, *arguments: str, status: int = 0) -> str:
        ran = subprocess.run(
            [self.python, *arguments], cwd=self.folder, capture_output=True, text=True, check=False
        )
        self.assertEqual(ran.returncode, status, ran.stderr)
        return ran.stdout + ran.stderr

    def metadata(self) -> str:
        with zipfile.ZipFile(self.wheel) as wheel:
            return wheel.read(f"parkazoo-{__version__}.dist-info/METADATA").decode()

    def test_wheel(self) -> None:
        """It has every file of parkazoo/, and nothing else but what describes it."""
        with zipfile.ZipFile(self.wheel) as wheel:
            names = {*wheel.namelist()}
        about = {name for name in names if name.startswith(f"parkazoo-{__version__}.dist-info/")}
        self.assertEqual(names - about, files_of("parkazoo"))
        self.assertIn(f"parkazoo-{__version__}.dist-info/licenses/LICENSE", about)

    def test_sdist(self) -> None:
        """It has the tests and the pages too."""
        with tarfile.open(self.sdist) as sdist:
            names = {member.name.partition("/")[2] for member in sdist.getmembers()}
        wanted = {str(path.relative_to(ROOT)) for path in ROOT.glob("*.md")} | {"Makefile", "pyproject.toml"}
        for folder in ("parkazoo", "tests", "docs", "recipes", "bench", "docker"):
            wanted |= files_of(folder)
        self.assertEqual(wanted - names, set())

    def test_description(self) -> None:
        text = self.metadata()
        self.assertIn("Author: the ParKazoo developers\n", text)
        self.assertEqual(
            re.findall(r"^Requires-Dist: (?!.*extra ==)(.*)", text, re.MULTILINE), ["kazoo<2.12,>=2.11"]
        )
        self.assertNotRegex(text, r"\]\((?!https://)")  # a link into a checkout

    def test_the_extra_all(self) -> None:
        extras = {*re.findall(r"^Provides-Extra: (.*)", self.metadata(), re.MULTILINE)}
        named = re.search(r'^Requires-Dist: parkazoo\[(.*)\]; extra == "all"', self.metadata(), re.MULTILINE)
        assert named
        left_out = extras - {"all", *named[1].split(",")}
        self.assertEqual(
            left_out,
            {"cli", "bench", "dev", "release", "site", "test"},
            "cli comes with top, the rest is for developers",
        )

    def test_kazoo_alone(self) -> None:
        """Every module but the extras' can be imported."""
        self.assertEqual(self.run_python("-c", f"{WITH_EXTRAS=}\n{IMPORT_ALL}").split(), ["kazoo", "parkazoo"])

    def test_command_without_its_extra(self) -> None:
        said = self.run_python("-m", "parkazoo", "--version", status=1)
        self.assertEqual(said, "The command parkazoo needs typer and rich: pip install 'parkazoo[cli]'\n")

    def test_a_folder_of_its_name_beside_the_program(self) -> None:
        """A checkout is such a folder. Neither a wheel nor an editable installation is hidden by it."""
        beside = self.folder / "beside"
        (beside / "parkazoo" / "parkazoo").mkdir(parents=True)
        program = beside / "program.py"
        program.write_text(PROGRAM)
        self.assertEqual(self.run_python(str(program)), "parkazoo.client\n")
        editable = [sys.executable, str(program)]
        self.assertEqual(
            subprocess.run(editable, capture_output=True, text=True, check=True).stdout, "parkazoo.client\n"
        )

    def test_completion_of_a_shell(self) -> None:
        words = {"COMP_WORDS": "parkazoo map gr", "COMP_CWORD": "2", "_PARKAZOO_COMPLETE": "complete_bash"}
        ran = subprocess.run(
            [sys.executable, "-m", "parkazoo"], env=words, capture_output=True, text=True, check=True
        )
        self.assertEqual(ran.stdout, "grow\n")


class CommandToAddTest(unittest.TestCase):
    def command(self, origin: dict[str, object]) -> str:
        """The command of a wheel that came from there."""
        with (
            mock.patch.object(installing, "CHECKOUT", Path("/nowhere")),
            mock.patch.object(installing, "_origin", lambda: origin),
        ):
            return command_to_add("top")

    def test_checkout(self) -> None:
        self.assertIn(command_to_add("top"), (f"pip install -e '{ROOT}[top]'", f'pip install -e "{ROOT}[top]"'))

    def test_index(self) -> None:
        self.assertEqual(self.command({}), "pip install 'parkazoo[top]'")

    def test_file(self) -> None:
        with tempfile.NamedTemporaryFile(suffix=" 1.whl") as wheel:
            origin: dict[str, object] = {"url": Path(wheel.name).as_uri(), "archive_info": {}}
            self.assertEqual(self.command(origin), f"pip install '{wheel.name}[top]'")

    def test_a_file_that_has_gone(self) -> None:
        self.assertEqual(self.command({"url": "file:///nowhere"}), "pip install 'parkazoo[top]'")

    def test_repository(self) -> None:
        origin = {"url": "ssh://git@example.org/p.git", "vcs_info": {"vcs": "git", "commit_id": "af42"}}
        self.assertEqual(
            self.command(origin), "pip install 'parkazoo[top] @ git+ssh://git@example.org/p.git@af42'"
        )
