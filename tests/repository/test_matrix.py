"""``make matrix``: which Python it takes, and what its table says of versions that fail or that there are not."""

from __future__ import annotations

import io
import os
import sys
import tempfile
import unittest
from collections.abc import Container
from pathlib import Path
from unittest import mock

from rich.console import Console

from parkazoo.local import LocalClusterError
from tests.__main__ import Result
from tests.matrix import __main__ as matrix
from tests.matrix import pythons
from tests.matrix.pythons import NotMadeError, find_python, make_environment, version_of
from tests.matrix.zookeepers import coordinates_of

NUMBER = f"{sys.version_info.major}.{sys.version_info.minor}"
OWN, OTHER = (f"{NUMBER}t", NUMBER) if "t" in sys.abiflags else (NUMBER, f"{NUMBER}t")
NO_PYTHON = "#!/bin/sh\nexit 127\n"  # as pyenv's shim for a version that it does not have


class TestTable(unittest.TestCase):
    """A whole run, but for environments, downloads and tests."""

    def run_matrix(
        self, *arguments: str, absent: Container[str] = ("3.14", "3.14t"), **results: Result
    ) -> tuple[int, list[str], str]:
        """The exit status, what ran on what, and what was said.

        :param absent: the Pythons that this machine has not.
        :param results: by part; none: it passes one test.
        """
        ran = []

        def run_part(name: str, where: matrix.Where, file: str) -> Result:
            ran.append(f"{name} {where.variables.get('ZOOKEEPER_PATH', '')} {file}")
            return results.get(name, Result({"a": "passed"}, seconds=2))

        def find(version: str) -> Path | None:
            return None if version in absent else Path("python")

        def distribution(version: str) -> Path:
            if version == "3.6.4":
                raise LocalClusterError("no network")
            return Path(f"zookeeper-{version}")

        def make(python: Path, folder: Path, kazoo: str) -> Path:
            if kazoo == "2.12":
                raise NotMadeError("no such kazoo")
            return python

        printed, said = io.StringIO(), io.StringIO()
        with (
            mock.patch.object(matrix, "run_part", run_part),
            mock.patch.object(matrix, "find_python", find),
            mock.patch.object(matrix, "version_of", lambda python: "3.x.y"),
            mock.patch.object(matrix, "make_environment", make),
            mock.patch.object(matrix, "find_distribution", distribution),
            mock.patch.object(matrix, "Console", lambda: Console(file=printed, width=120)),
            mock.patch.object(sys, "argv", ["matrix", *arguments]),
            mock.patch.dict(os.environ),
            mock.patch("sys.stdout", said),
        ):
            status = matrix.main()
        return status, ran, printed.getvalue() + said.getvalue()

    def row(self, said: str, version: str) -> list[str]:
        (line,) = (line for line in said.splitlines() if line.startswith(f"│ {version} "))
        return [cell.strip() for cell in line.strip("│").split("│")]

    def test_all(self) -> None:
        status, ran, said = self.run_matrix()
        self.assertEqual(ran[:2], ["pure  matrix-Python-3.10-pure", "slice  matrix-Python-3.10-slice"])
        self.assertEqual(ran[-1], "slice zookeeper-3.9.5 matrix-ZooKeeper-3.9.5-slice")
        self.assertEqual(self.row(said, "Python 3.12"), ["Python 3.12", "3.x.y", "2", "0", "0", "4"])
        self.assertEqual(self.row(said, "Python 3.14t"), ["Python 3.14t", "not found", "", "", "", ""])
        self.assertIn("FAILED ZooKeeper 3.6.4: no network", said)
        self.assertEqual(self.row(said, "ZooKeeper 3.6.4")[2:], ["0", "1", "0", "0"])
        self.assertEqual((status, said.splitlines()[-1]), (1, "12 passed, 1 failed"))

    def test_failures(self) -> None:
        bad = Result({"x.test_y": "failed", "x.test_z": "skipped"}, trouble="it died")
        status, _, said = self.run_matrix("--pythons", "3.13", slice=bad)
        self.assertIn("FAILED Python 3.13 slice: it died", said)
        self.assertIn("FAILED Python 3.13 slice: x.test_y", said)
        self.assertEqual(self.row(said, "Python 3.13")[2:5], ["1", "2", "1"])
        self.assertEqual((status, said.splitlines()[-1]), (1, "1 passed, 2 failed"))

    def test_one_that_was_asked_for(self) -> None:
        status, ran, said = self.run_matrix("--pythons", "3.14")
        self.assertEqual((status, ran), (1, []))
        self.assertEqual(self.row(said, "Python 3.14")[1:4], ["not found", "0", "1"])

    def test_some_zookeepers(self) -> None:
        status, ran, _ = self.run_matrix("--zookeepers", "3.8.4")
        self.assertEqual((status, ran), (0, ["slice zookeeper-3.8.4 matrix-ZooKeeper-3.8.4-slice"]))

    def test_a_kazoo_that_there_is_not(self) -> None:
        status, ran, said = self.run_matrix("--kazoo", "2.12", absent=())
        self.assertEqual((status, ran), (1, []))
        self.assertIn(f"FAILED Python {OWN}: no environment: no such kazoo", said)

    def test_a_kazoo_without_a_python_to_try_it(self) -> None:
        status, ran, said = self.run_matrix("--kazoo", "2.11", absent=(OWN,))
        self.assertEqual((status, ran), (1, []))
        self.assertEqual(self.row(said, f"Python {OWN}")[1:4], ["not found", "0", "1"])


class TestPythons(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def place(self, path: str, *, runs: bool = True) -> Path:
        python = self.folder / path
        python.parent.mkdir(parents=True, exist_ok=True)
        python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n' if runs else NO_PYTHON)
        python.chmod(0o755)
        return python

    def test_where(self) -> None:
        """A shim on PATH that does not run is passed over; so is another version, and one with other threads."""
        places = {
            "PATH": str(self.folder),
            "PYENV_ROOT": str(self.folder),
            "UV_PYTHON_INSTALL_DIR": str(self.folder),
        }
        with mock.patch.dict(os.environ, places):
            self.assertIsNone(find_python(OWN))
            self.place(f"python{OWN}", runs=False)
            self.place("python3.99")
            self.place(f"python{OTHER}")
            self.assertEqual([find_python(each) for each in (OWN, "3.99", OTHER)], [None] * 3)
            free = "+freethreaded" if OWN.endswith("t") else ""
            of_uv = self.place(f"cpython-{NUMBER}.1{free}-linux-x86_64-gnu/bin/python{OWN}")
            self.assertEqual(find_python(OWN), of_uv)
            of_pyenv = self.place(f"versions/{NUMBER}.1{OWN.removeprefix(NUMBER)}/bin/python")
            self.assertEqual(find_python(OWN), of_pyenv)
            on_path = self.place(f"python{OWN}")
            self.assertEqual(find_python(OWN), on_path)

    def test_version(self) -> None:
        self.assertTrue(version_of(Path(sys.executable)).startswith(f"{NUMBER}."))
        self.assertEqual(version_of(self.folder / "none"), "")

    def test_no_environment(self) -> None:
        with self.assertRaisesRegex(NotMadeError, "Error"):
            make_environment(Path(sys.executable), Path(os.devnull, "none"), "")

    def test_last_words(self) -> None:
        script = "import sys; print('ERROR: no kazoo'); print('advice', file=sys.stderr); sys.exit(1)"
        with self.assertRaisesRegex(NotMadeError, "^ERROR: no kazoo$"):
            pythons._run([sys.executable, "-c", script])


class TestZooKeepers(unittest.TestCase):
    def test_coordinates(self) -> None:
        """Servers before 3.9 have the older interface for logging."""
        self.assertIn(":zookeeper:3.9.4+ch.qos.logback:logback-classic:1.3.", coordinates_of("3.9.4"))
        self.assertIn(":zookeeper:3.5.10+ch.qos.logback:logback-classic:1.2.", coordinates_of("3.5.10"))
