"""A page of docs/ with commands and programs, done as it is written, but for the names of servers and folders."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from parkazoo.local import LocalClusterError, status, stop_detached
from tests.entered import entered
from tests.recipes.program import ROOT, run

BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class PageCase(unittest.TestCase):
    """Starts the servers of the page's first block.

    :cvar page: its path below docs/. :cvar servers: its servers, and their folders.
    :ivar blocks: the others, each with its kind.
    """

    page: str
    servers: Mapping[str, str]

    def setUp(self) -> None:
        (_, start), *blocks = BLOCK.findall((ROOT / "docs" / self.page).read_text())
        self.folder = Path(entered(self, tempfile.TemporaryDirectory()))
        folders = {name: self.folder / folder for name, folder in self.servers.items()}
        for folder in folders.values():
            self.addCleanup(self.end, folder)
        self.do(start.replace("--data ", f"--data {self.folder}/"))
        self.hosts = {name: status(folder)[0].address for name, folder in folders.items()}
        self.blocks = [(kind, self.local(text)) for kind, text in blocks]

    @staticmethod
    def end(folder: Path) -> None:
        with suppress(LocalClusterError):  # it was not started
            stop_detached(folder)

    def local(self, text: str) -> str:
        for name, hosts in self.hosts.items():
            text = text.replace(name, hosts)
        return text

    @contextmanager
    def program(self, source: str) -> Iterator[subprocess.Popen[bytes]]:
        """One of the page. It still runs at the end, and no thread of it has ended by an exception."""
        path, said = self.folder / "program.py", self.folder / "said"
        path.write_text(source)
        with said.open("wb") as file, subprocess.Popen([sys.executable, path], cwd=ROOT, stderr=file) as process:
            try:
                yield process
                self.assertIsNone(process.poll(), said.read_text())
                self.assertNotIn("Traceback", said.read_text())
            finally:
                process.kill()

    def do(self, text: str) -> None:
        """Each command, and the lines that the page shows of its output; any number may be another one."""
        for command, *lines in (each.splitlines() for each in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]):
            program, *arguments = command.split()
            self.assertEqual(program, "parkazoo")
            ended = run("-m", "parkazoo", *arguments)
            self.assertEqual(ended.status, 0, ended)
            shown = iter(ended.out.splitlines())
            for line in lines:
                pattern = re.sub(r"\d[\d.,]*", r"[\\d.,]+", re.escape(line).replace("\\.", "."))
                pattern = re.sub(r"(\\ )+", r"\\s+", pattern)
                self.assertTrue(any(re.fullmatch(pattern, each.rstrip()) for each in shown), (line, ended.out))
