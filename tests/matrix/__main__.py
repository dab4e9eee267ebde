"""Runs the tests on each version of Python, and live ones on each version of ZooKeeper; ends with one table."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version as version_of_package
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from parkazoo.local import LocalClusterError
from tests.__main__ import LOGS, Result, run
from tests.matrix.pythons import NotMadeError, find_python, make_environment, version_of
from tests.matrix.zookeepers import FOLDER, find_distribution

PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14", "3.14t")
ZOOKEEPERS = ("3.5.10", "3.6.4", "3.7.2", "3.8.4", "3.9.5")
ON_PYTHONS, ON_ZOOKEEPERS = ("pure", "slice"), ("slice",)
COUNTED = ("passed", "failed", "skipped")
NOT_FOUND = "not found"


class Where(NamedTuple):
    """What tests run on.

    :param variables: of their environment, over those of this process.
    """

    python: Path
    variables: Mapping[str, str]


@dataclass
class Row:
    """A version, and what became of it.

    :param about: what it really was, such as ``"3.13.0"``.
    :param is_absent: this machine has it not, and nobody has asked for it by name.
    """

    version: str
    about: str = ""
    results: dict[str, Result] = field(default_factory=dict)
    trouble: str = ""
    is_absent: bool = False

    def count(self, outcome: str) -> int:
        return sum(result.counts[outcome] for result in self.results.values())

    @property
    def failed(self) -> int:
        """Failed tests; what kept tests from running counts as one."""
        troubles = [self.trouble, *(result.trouble for result in self.results.values())]
        return self.count("failed") + sum(1 for each in troubles if each)

    @property
    def seconds(self) -> float:
        return sum(result.seconds for result in self.results.values())


class Matrix:
    """Runs tests, version by version.

    :param run_part: of the part's name, where it runs, and a name for its log.
    """

    def __init__(self, console: Console, run_part: Callable[[str, Where, str], Result]) -> None:
        self._console = console
        self._run_part = run_part

    def try_python(self, version: str, kazoo: str, *, is_asked_for: bool) -> Row:
        """
        :param kazoo: its version; empty: as the package requires.
        """
        row = Row(f"Python {version}")
        python = find_python(version)
        if python is None:
            self._say(f"{row.version}: {NOT_FOUND}")
            row.about = NOT_FOUND
            row.is_absent = not is_asked_for
            row.trouble = NOT_FOUND if is_asked_for else ""
            return row
        row.about = version_of(python)
        with tempfile.TemporaryDirectory(prefix="parkazoo-matrix-") as folder:
            self._say(f"{row.version}: an environment of {row.about}")
            try:
                own = make_environment(python, Path(folder), kazoo)
            except NotMadeError as error:
                row.trouble = str(error)
                self._say(f"  FAILED {row.version}: no environment: {row.trouble}")
                return row
            self._fill(row, ON_PYTHONS, Where(own, {}))
        return row

    def try_zookeeper(self, version: str) -> Row:
        """On the Python of this process."""
        row = Row(f"ZooKeeper {version}", f"on Python {sys.version.split()[0]}")
        try:
            distribution = find_distribution(version)
        except LocalClusterError as error:
            row.trouble = str(error)
            self._say(f"  FAILED {row.version}: {row.trouble}")
            return row
        # With a cache of its own: the user's keeps few archives of classes.
        variables = {"ZOOKEEPER_PATH": str(distribution), "XDG_CACHE_HOME": str(FOLDER / "cache")}
        self._fill(row, ON_ZOOKEEPERS, Where(Path(sys.executable), variables))
        return row

    def _fill(self, row: Row, parts: Sequence[str], where: Where) -> None:
        for part in parts:
            self._console.rule(f"{row.version}: {part}", align="left", style="dim")
            row.results[part] = result = self._run_part(
                part, where, f"matrix-{row.version.replace(' ', '-')}-{part}"
            )
            if result.trouble:
                self._say(f"  FAILED {row.version} {part}: {result.trouble}")

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def print_table(console: Console, rows: Sequence[Row]) -> None:
    """Prints what failed, then one line for each version."""
    table = Table(title="matrix", title_justify="left")
    table.add_column("version", no_wrap=True)
    table.add_column("", no_wrap=True)
    for each in (*COUNTED, "seconds"):
        table.add_column(each, justify="right")
    for row in rows:
        for part, result in row.results.items():
            for test in result.failed:
                console.print(
                    f"FAILED {row.version} {part}: {test}", markup=False, highlight=False, soft_wrap=True
                )
        counts = (str(row.failed if each == "failed" else row.count(each)) for each in COUNTED)
        table.add_row(row.version, row.about, *(("",) * 4 if row.is_absent else (*counts, f"{row.seconds:.0f}")))
    console.print(table)


def run_part(name: str, where: Where, file: str) -> Result:
    return run(name, [], False, None, file, str(where.python), where.variables)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument(
        "--pythons", help=f"versions, as 3.12 3.13t; by default those found of {' '.join(PYTHONS)}"
    )
    parser.add_argument("--zookeepers", help=f"versions; by default {' '.join(ZOOKEEPERS)}")
    parser.add_argument("--kazoo", default="", help="its version, as 2.12, though the package may not allow it")
    options = parser.parse_args()
    defaults: tuple[Sequence[str], Sequence[str]] = (), ()  # to name one kind is to leave the other out
    if options.kazoo:
        threads = "t" if "t" in sys.abiflags else ""
        defaults = (f"{sys.version_info.major}.{sys.version_info.minor}{threads}",), ()
    elif options.pythons is None and options.zookeepers is None:
        defaults = PYTHONS, ZOOKEEPERS
    pythons = defaults[0] if options.pythons is None else options.pythons.split()
    zookeepers = defaults[1] if options.zookeepers is None else options.zookeepers.split()
    os.environ.pop("ZOOKEEPER_PATH", None)
    LOGS.mkdir(parents=True, exist_ok=True)
    console = Console()
    matrix = Matrix(console, run_part)
    rows: list[Row] = []
    try:
        asked_for = options.pythons is not None or bool(options.kazoo)
        rows.extend(matrix.try_python(each, options.kazoo, is_asked_for=asked_for) for each in pythons)
        rows.extend(matrix.try_zookeeper(each) for each in zookeepers)
    except KeyboardInterrupt:
        console.print("\ninterrupted")
        return 130
    console.print(
        f"\nkazoo {options.kazoo or version_of_package('kazoo')}, ParKazoo {version_of_package('parkazoo')}"
    )
    print_table(console, rows)
    failed = sum(row.failed for row in rows)
    print(f"{sum(row.count('passed') for row in rows)} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
