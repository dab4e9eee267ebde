"""Rates that are written to a file and shown again."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import tempfile
import time
import unittest
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from parkazoo.admin import recorded_rates
from parkazoo.admin.arguments import WrongArgumentError
from parkazoo.admin.rates import DirectoryRates, Rates, rates_between
from parkazoo.admin.recorded_rates import MOST, Recorder, parse_rates, read_recorded
from parkazoo.cli import main, top_command
from parkazoo.cli.top_pages import Pages
from parkazoo.cli.top_screen import screen
from parkazoo.cli.top_tables import client_name, draw
from parkazoo.errors import ClusterMapError
from tests.admin.test_rates import CLIENT, FIRST, REGISTERED, SECOND, look, rates
from tests.arbitrary import JSON, fuzzed

WHOLE = rates(FIRST, SECOND, registered=REGISTERED)._replace(
    directories=[DirectoryRates("/app/jobs", "a", 97.0, 1.0)], directories_s=3.0, unseen=("a line",)
)
NOT_KNOWN = rates(FIRST, {})
PATHS = [
    (),
    *[(name,) for name in WHOLE.to_json()],
    *[(name, 0) for name in ("ensembles", "servers", "clients", "directories", "unseen")],
    *[
        (name, 0, each)
        for name in ("ensembles", "servers", "clients", "directories")
        for each in WHOLE.to_json()[name][0]
    ],
]
ODD = st.sampled_from([True, -1, 0, MOST, 10**400, float("nan"), float("inf"), "", "[/x]\x1b\ud800", [], {}, [[]]])


def documents(*recorded: Rates) -> list[object]:
    """As they are in a file."""
    return [json.loads(json.dumps(each.to_json())) for each in recorded]


def damaged(path: tuple[str | int, ...], value: object) -> object:
    """The document with something else at one place."""
    if not path:
        return value
    (document,) = documents(WHOLE)
    inner: Any = document
    for each in path[:-1]:
        inner = inner[each]
    inner[path[-1]] = value
    return document


class TestRecordedRates(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name, "rates")

    def record(self, *recorded: Rates) -> None:
        with Recorder(self.file) as recorder:
            for each in recorded:
                recorder.add(each)

    def command(self, *arguments: str, columns: int = 120) -> tuple[object, str, str]:
        out, err = io.StringIO(), io.StringIO()
        with (
            mock.patch.object(sys, "argv", ["parkazoo", "top", *arguments]),
            mock.patch.dict(os.environ, {"COLUMNS": str(columns)}),
            mock.patch.dict(os.environ),
            redirect_stdout(out),
            redirect_stderr(err),
            self.assertRaises(SystemExit) as end,
        ):
            os.environ.pop("PARKAZOO_HOSTS", None)
            main()
        return end.exception.code, out.getvalue(), err.getvalue()

    def test_they_come_back(self) -> None:
        """Of several recordings in one file too, the oldest first."""
        self.record(WHOLE)
        self.record(NOT_KNOWN, WHOLE)
        self.assertEqual(documents(*read_recorded(self.file)), documents(WHOLE, NOT_KNOWN, WHOLE))

    def test_each_is_there_at_once(self) -> None:
        with Recorder(self.file) as recorder:
            recorder.add(WHOLE)
            self.assertEqual([*read_recorded(self.file)], [WHOLE])

    def test_what_is_shown(self) -> None:
        """Each screen's rates are in the file, behind those of an earlier run."""
        self.record(NOT_KNOWN)
        looks = [look(0, FIRST), look(1, SECOND), look(2, FIRST)]
        looker = mock.MagicMock()
        looker.return_value.__enter__.return_value.look.side_effect = looks
        with mock.patch.object(top_command, "Looker", looker):
            status, out, err = self.command("--hosts", "h:1", "--count", "2", "--record", str(self.file))
        self.assertEqual((status, err, out.count("parkazoo top  map 1")), (0, "", 2))
        shown = [rates_between(*looks[:2]), rates_between(*looks[1:])]
        self.assertEqual(documents(*read_recorded(self.file)), documents(NOT_KNOWN, *shown))

    def test_a_line_without_its_end(self) -> None:
        self.record(WHOLE)
        with self.file.open("a") as file:
            file.write('{"time_s": 1')
        self.assertEqual([*read_recorded(self.file)], [WHOLE])

    def test_what_follows_a_cut_line(self) -> None:
        """Wherever the line was cut, the file has what came before and what comes later."""
        for cut in ("", "{", '{"time_s": 1', '{"time_s": 1, "ensembles": [{}', json.dumps(WHOLE.to_json())):
            self.file.write_text("")
            self.record(NOT_KNOWN)
            with self.file.open("a") as file:
                file.write(cut)
            before = self.file.read_text()
            with Recorder(self.file):
                pass
            self.assertEqual(self.file.read_text(), before)
            self.record(WHOLE, NOT_KNOWN)
            whole = [WHOLE] if cut.endswith("}") and len(cut) > 100 else []
            self.assertEqual(
                documents(*read_recorded(self.file)), documents(NOT_KNOWN, *whole, WHOLE, NOT_KNOWN), cut
            )

    def test_what_a_registration_says(self) -> None:
        """Whatever it is: the file can be read. Any client may write there."""
        for odd in (True, -1, 10**16, 10**400, 0.5, [1], "\x1b", "x" * 256):
            said = {**REGISTERED["a"][0][1], "pid": odd, "epoch": odd, "host": odd}
            found = rates(FIRST, SECOND, registered={"a": [(REGISTERED["a"][0][0], said)]})
            self.assertEqual((found.clients[0].pid, found.clients[0].map, found.clients[0].host), (None,) * 3)
            self.assertEqual(client_name(found.clients[0]).plain, f"-:- {CLIENT}")
            self.record(found)
        self.assertEqual(len([*read_recorded(self.file)]), 8)

    def test_what_a_later_version_adds(self) -> None:
        document = WHOLE.to_json()
        document["ensembles"][0]["new"] = document["new"] = 1
        self.assertEqual(parse_rates(json.loads(json.dumps(document))), WHOLE)

    def test_something_else(self) -> None:
        self.record(WHOLE)
        with self.file.open("ab") as file:
            file.write(b"\xff\n")
        self.assertRegex(self.command("--replay", str(self.file))[2], "^error: .*rates, line 2 is not JSON: ")
        self.file.write_text('{"time_s": 1}\n')
        status, _, err = self.command("--replay", str(self.file))
        self.assertEqual(
            (status, "line 1: it is damaged ('seconds' is missing)" in err.replace("\n", " ")), (2, True)
        )

    def test_a_line_without_end(self) -> None:
        """It is not read whole, however long it is."""
        self.record(WHOLE)
        longest = self.file.stat().st_size + 1
        with mock.patch.object(recorded_rates, "LONGEST", longest):
            self.assertEqual([*read_recorded(self.file)], [WHOLE])
            with self.file.open("ab") as file:
                file.write(bytes(10 * longest))
            with self.assertRaisesRegex(WrongArgumentError, "line 2 is longer than any that is recorded"):
                [*read_recorded(self.file)]

    @given(st.sampled_from(PATHS), st.one_of(ODD, JSON))
    @fuzzed
    def test_whatever_is_there(self, path: tuple[str | int, ...], value: object) -> None:
        """It is refused, or can be drawn."""
        try:
            found = parse_rates(damaged(path, value))
        except ClusterMapError:
            return
        for width in (80, 120):
            history = {each.ensemble: [each.requests] for each in found.ensembles}
            console = Console(width=width, file=io.StringIO())
            console.print(screen(found, width, "", history))
            pages = Pages()
            pages.show(found, history)
            for _ in pages.page.tables:
                for _ in pages.table().columns:
                    pages.sort(1, is_wide=True)
                    console.print(draw(pages.table(), pages.rows, width, cursor=0))
                pages.open()
                self.assertNotIn("The last rates do not have it.", pages.details())
                pages.back()
                pages.next_table(1)

    def test_a_file_that_cannot_be_written(self) -> None:
        with self.assertRaisesRegex(WrongArgumentError, "cannot be written: No such file"):
            Recorder(self.file / "x")
        with Recorder(Path("/dev/full")) as recorder, self.assertRaisesRegex(ClusterMapError, "No space left"):
            recorder.add(WHOLE)

    def test_screens(self) -> None:
        """As they were, with the date; on no terminal at once."""
        self.record(WHOLE, NOT_KNOWN)
        day = time.strftime("%Y-%m-%d", time.localtime(WHOLE.time_s))
        began_s = time.monotonic()
        status, out, err = self.command("--replay", str(self.file), "--interval", "3600")
        self.assertLess(time.monotonic() - began_s, 3600)
        self.assertEqual((status, err), (0, ""))
        self.assertRegex(out, rf"^parkazoo top  map 1  3 of 3 servers  237 req/s .*\n[0-9:]+  on {day}\n")
        self.assertRegex(out, r"\n/app/jobs +a +97\.0 +100% █")
        self.assertEqual(out.count("parkazoo top  map 1"), 2)

    def test_on_a_terminal(self) -> None:
        """A screen after the other, with a pause between two; ^C in it ends them."""
        self.record(WHOLE, NOT_KNOWN, WHOLE)
        for interrupted_at, shown in ((None, 3), (1, 1), (2, 2)):
            pauses: list[float] = []

            def pause(seconds: float, pauses: list[float] = pauses, at: int | None = interrupted_at) -> None:
                pauses.append(seconds)
                if len(pauses) == at:
                    signal.raise_signal(signal.SIGINT)

            clock = SimpleNamespace(sleep=pause, strftime=time.strftime, localtime=time.localtime)
            with (
                mock.patch.object(top_command, "time", clock),
                mock.patch.object(Console, "is_terminal", True),
            ):
                status, out, _ = self.command("--replay", str(self.file), "--interval", "7")
            self.assertEqual((status, out.count("parkazoo top ")), (0, shown))
            self.assertEqual(pauses, [7.0] * (interrupted_at or 2))

    def test_the_last(self) -> None:
        self.record(NOT_KNOWN, WHOLE)
        _, out, _ = self.command("--replay", str(self.file), "--once", "--json")
        self.assertEqual([json.loads(line) for line in out.splitlines()], documents(WHOLE))
        _, out, _ = self.command("--replay", str(self.file), "--once")
        self.assertEqual((out.count("parkazoo top  map 1"), out.count("237 req/s")), (1, 1))

    def test_the_first(self) -> None:
        self.record(WHOLE, NOT_KNOWN, NOT_KNOWN)
        _, out, _ = self.command("--replay", str(self.file), "--count", "1", "--json")
        self.assertEqual([json.loads(line) for line in out.splitlines()], documents(WHOLE))

    def test_an_error_is_a_line(self) -> None:
        """As each document is, and on stderr in words, however many lines these have."""
        error = ClusterMapError("an ensemble cannot be reached:\n  ensemble a: refused")
        with mock.patch.object(top_command, "Looker", side_effect=error):
            status, out, err = self.command("--hosts", "h:1", "--json", "--once")
        self.assertEqual((status, out), (1, json.dumps({"error": str(error)}) + "\n"))
        self.assertIn("ensemble a: refused", err)

    def test_arguments(self) -> None:
        self.file.touch()
        for arguments, why in (
            ((), "give --hosts, or --replay"),
            (("--replay", str(self.file)), "has no rates yet"),
            (("--replay", str(self.file), "--follow"), "no server is asked"),
            (("--replay", str(self.file), "--record", "x"), "no server is asked"),
            (("--replay", "/nowhere"), "does not exist"),
            (("--hosts", "127.0.0.1:1", "--record", "/nowhere/x"), "cannot be written"),
        ):
            status, out, err = self.command(*arguments)
            self.assertEqual((status, out), (2, ""), arguments)
            self.assertIn(why, " ".join(err.replace("│", "").split()))


if __name__ == "__main__":
    unittest.main()
