"""The table of sessions."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from bench import ROOT
from parkazoo.gateway import session_table
from parkazoo.gateway.session_table import SessionTable, TableError, TableRow, TableRows, write_end, write_row

ROW = TableRow(7, b"p" * 16, 4000, b"\x01a" + bytes(24))


HOLDER = """
import sys
from pathlib import Path
from parkazoo.gateway.session_table import SessionTable, TableRow
with SessionTable(Path(sys.argv[1])) as table:
    for line in sys.stdin:
        number = int(line)
        if number < 0:
            table.end(-number)
        else:
            table.put(TableRow(number, b"p" * 16, 4000, bytes(26)))
        print(flush=True)
"""


WRITER = """
import fcntl, sys
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX, 1, 0)
print(flush=True)
sys.stdin.read()
"""


PROBE = """
import fcntl, sys
try:
    fcntl.lockf(open(sys.argv[1], "r+"), fcntl.LOCK_SH | fcntl.LOCK_NB, 1, 0)
except BlockingIOError:
    print(False)
else:
    print(True)
"""


class Holder:
    """A process that has the table open. Each line that it reads is a row that it puts, or one that it ends."""

    def __init__(self, path: Path) -> None:
        command = [sys.executable, "-c", HOLDER, str(path)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )

    def put(self, *numbers: int) -> None:
        """Those below 0 end."""
        assert self._process.stdin is not None and self._process.stdout is not None
        for number in numbers:
            print(number, file=self._process.stdin, flush=True)
            assert self._process.stdout.readline() == "\n"

    def kill(self) -> None:
        with self._process:
            self._process.kill()


class TestLines(unittest.TestCase):
    def test_damaged_lines_are_left_out(self) -> None:
        rows = TableRows()
        whole = write_row(ROW, 5).encode()
        for line in (b"", b"{", whole[:-9], b"[]", b"1", b"{}", b'{"session": 7, "sessions": "xx"}', b"\xff"):
            self.assertFalse(rows.read([line]))
            self.assertEqual((rows.rows, rows.marks), ({}, {}))
        self.assertTrue(rows.read([whole]))
        self.assertEqual((rows.rows, rows.marks), ({7: ROW}, {7: 5}))
        rows.read([write_end(7).encode(), write_end(8).encode()])
        self.assertEqual((rows.rows, rows.marks), ({}, {}))

    def test_numbers_that_no_gateway_writes(self) -> None:
        """They could not be compared, or be the place of a lock."""
        rows = TableRows()
        about = json.loads(write_row(ROW, 5))
        for name, wrong in (("session", 1 << 63), ("timeout_ms", -1), ("timeout_ms", 10**400), ("by", -1)):
            self.assertFalse(rows.read([json.dumps({**about, name: wrong}).encode()]))
        for line in (b'{"session": Infinity}', b'{"session": NaN}', b"[" * 100_000):
            self.assertFalse(rows.read([line]))
        self.assertEqual(rows.rows, {})


class TestSessionTable(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name, "table")

    def table(self) -> SessionTable:
        table = SessionTable(self.path).__enter__()
        self.addCleanup(table.__exit__, None, None, None)
        return table

    def lines(self) -> int:
        """Those of sessions."""
        head, *lines = self.path.read_text().splitlines()
        self.assertEqual(f"{head}\n", session_table.HEAD)
        return len(lines)

    def test_another_goes_on(self) -> None:
        with SessionTable(self.path) as first:
            first.put(ROW)
            first.put(ROW._replace(number=8))
            first.put(newer := ROW._replace(sessions=b"\x01b" + bytes(24)))
            first.end(8)
            first.end(9)
        self.assertEqual(self.lines(), 4)
        second = self.table()
        self.assertEqual((second.find(7), second.find(8)), (newer, None))
        self.assertEqual(self.lines(), 1)  # written anew
        self.assertEqual(newer.client_id, (7, newer.sessions))

    def test_the_same_row_is_written_once(self) -> None:
        table = self.table()
        table.put(ROW)
        table.put(ROW)
        self.assertEqual(self.lines(), 1)

    def test_two_at_a_time(self) -> None:
        first, second = self.table(), self.table()
        first.put(ROW)
        self.assertEqual(second.find(7), ROW)
        second.end(7)
        self.assertIsNone(first.find(7))
        second.put(ROW._replace(number=9))
        third = self.table()
        self.assertIsNotNone(third.find(9))
        third.put(ROW)
        self.assertEqual(first.find(7), ROW)  # it still has the file that is used

    def test_a_row_that_another_has_written(self) -> None:
        first, second = self.table(), self.table()
        first.put(ROW)
        self.assertTrue(first.replace(ROW, None))
        self.assertTrue(second.replace(ROW, ROW))
        self.assertEqual((first.replace(ROW, None), second.replace(ROW, None)), (False, True))
        first.put(newer := ROW._replace(sessions=b"\x01b" + bytes(24)))
        self.assertFalse(second.replace(ROW, ROW))
        self.assertEqual((first.find(7), second.find(7)), (newer, newer))
        self.assertEqual((second.replace(newer, newer), first.replace(newer, None)), (True, False))
        second.end(7)
        self.assertEqual((first.replace(ROW, None), second.find(7)), (True, ROW))

    def test_nobody_writes_between_a_look_and_a_line(self) -> None:
        """Else two gateways could write the row of one session, and each believe that it has it."""
        first = self.table()
        first.put(ROW)
        probe = [sys.executable, "-c", PROBE, f"{self.path}.lock"]
        seen = []

        def look(row: TableRow, mark: int) -> str:
            seen.append(subprocess.run(probe, check=True, capture_output=True, text=True).stdout)
            return write_row(row, mark)

        newer = ROW._replace(sessions=b"\x01b" + bytes(24))
        with mock.patch.object(session_table, "write_row", look):
            self.assertTrue(first.replace(newer, None))
            first.put(ROW._replace(number=8))
        self.assertEqual(seen, ["False\n", "True\n"])

    def test_of_a_later_version_meanwhile(self) -> None:
        """A later gateway has written it anew: it is not taken for an empty one."""
        table = self.table()
        table.put(ROW)
        assert table._path is not None
        later = json.dumps({"parkazoo_sessions": 2}) + "\n"
        new = table._path.with_name("new")
        new.write_text(later)
        new.replace(table._path)
        for _ in range(2):
            with self.assertRaisesRegex(TableError, "of a later ParKazoo"):
                table.find(9)
        self.assertEqual(table._path.read_text(), later)

    def swept(self, table: SessionTable, now_s: float) -> list[int]:
        """The rows that are left."""
        table.sweep(now_s)
        return sorted(table.numbers)

    def test_sessions_that_no_gateway_has(self) -> None:
        """They end when servers have expired them. A frozen gateway has its own, and a killed one has none."""
        killed, other = Holder(self.path), Holder(self.path)
        self.addCleanup(other.kill)
        killed.put(1, 2, 3)
        other.put(4)
        table = self.table()
        table.put(ROW._replace(number=5))
        self.assertEqual(self.swept(table, 1000), [1, 2, 3, 4, 5])
        killed.kill()
        other.put(2)  # its program has gone on there
        self.assertEqual(self.swept(table, 2000), [1, 2, 3, 4, 5])
        table.put(ROW._replace(number=3))
        self.assertEqual(self.swept(table, 2007), [1, 2, 3, 4, 5])
        self.assertEqual(self.swept(table, 2009), [1, 2, 3, 4, 5])  # not looked: it was just now
        self.assertEqual(self.swept(table, 2012), [2, 3, 4, 5])
        table.leave(5)
        table.leave(4)
        self.assertEqual(self.swept(table, 3000), [2, 3, 4, 5])
        table.put(ROW._replace(number=5))
        self.assertEqual(self.swept(table, 4000), [2, 3, 4, 5])
        table.leave(5)
        other.put(5, -4)
        for now_s in (5000, 6000):
            self.assertEqual(self.swept(table, now_s), [2, 3, 5])

    def test_those_of_the_last_run(self) -> None:
        """The one that uses it alone when it starts may have them, or nobody."""
        with SessionTable(self.path) as before:
            before.put(ROW)
            before.put(ROW._replace(number=8))
        table = self.table()
        self.assertEqual(self.swept(table, 0), [7, 8])
        table.put(ROW)
        self.assertEqual(self.swept(table, 8.1), [7])

    def test_an_end_that_cannot_be_written(self) -> None:
        """It is written later."""
        table = self.table()
        table.put(ROW)
        with mock.patch("os.write", side_effect=OSError(28, "No space left")), self.assertRaises(TableError):
            table.end(7)
        self.assertEqual(self.swept(table, 0), [7])
        self.assertEqual(self.swept(table, 9), [])

    def test_it_does_not_grow_for_ever(self) -> None:
        """Whoever finds it large writes it anew. The others read on there."""
        first, second, other = self.table(), self.table(), Holder(self.path)
        self.addCleanup(other.kill)
        other.put(1)
        with mock.patch.object(session_table, "LARGE_BYTES", 2000):
            for number in range(10, 90):
                first.put(ROW._replace(number=number))
                self.assertIsNotNone(second.find(number))
                first.end(number) if number > 12 else second.put(ROW._replace(number=number, timeout_ms=9_000_000))
            inode = self.path.stat().st_ino
            first.sweep(0)
            self.assertNotEqual(self.path.stat().st_ino, inode)
            self.assertEqual(self.lines(), 4)
            inode = self.path.stat().st_ino
            first.sweep(9)
            self.assertEqual(self.path.stat().st_ino, inode)  # it is small
        other.put(2, -1)
        second.put(ROW)
        for table in (first, second):
            self.assertEqual(
                [table.find(number) is not None for number in (1, 2, 7, 10, 13)],
                1 * [False] + 3 * [True] + [False],
            )
        self.assertEqual(first.find(10), ROW._replace(number=10, timeout_ms=9_000_000))
        self.assertEqual(stat.S_IMODE(self.path.stat().st_mode), 0o600)

    def test_nobody_writes_while_another_writes_it_anew(self) -> None:
        """And the other way round. A row that comes in between is not lost: its gateway tries again."""
        table = self.table()
        table.put(ROW)
        command = [sys.executable, "-c", WRITER, f"{self.path}.lock"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            self.assertRaises(TableError, table.put, ROW._replace(number=8))
            inode = self.path.stat().st_ino
            with (
                mock.patch.object(session_table, "LARGE_BYTES", 0),
                mock.patch.object(session_table, "TIMES_SMALLER", 0),
            ):
                table.sweep(0)
            self.assertEqual((self.path.stat().st_ino, table.numbers), (inode, [7]))
            process.kill()
        table.put(ROW._replace(number=8))
        self.assertEqual(table.numbers, [7, 8])

    def test_a_file_that_is_taken_away(self) -> None:
        table = self.table()
        table.put(ROW)
        self.path.unlink()
        for call in (lambda: table.find(7), lambda: table.put(ROW._replace(number=8)), lambda: table.sweep(0)):
            with self.assertRaisesRegex(TableError, f"{self.path}: No such file"):
                call()

    def test_no_locks(self) -> None:
        table = self.table()
        none = mock.patch("fcntl.lockf", side_effect=OSError(37, "No locks available"))
        with none, self.assertRaisesRegex(TableError, f"{self.path}.lock: No locks"):
            table.put(ROW)
        table.put(ROW)

    def test_a_line_that_is_being_written(self) -> None:
        table = self.table()
        line = write_row(ROW, 5).encode()
        with self.path.open("ab", buffering=0) as other:
            other.write(line[:9])
            self.assertIsNone(table.find(7))
            other.write(line[9:])
            self.assertEqual(table.find(7), ROW)

    def test_after_a_line_that_was_cut(self) -> None:
        """By the end of the process that wrote it."""
        with SessionTable(self.path) as first:
            first.put(ROW)
        with self.path.open("a") as file:
            file.write(json.dumps({"session": 7})[:-3])
        with SessionTable(self.path) as second:
            second.put(ROW._replace(number=8))
        third = self.table()
        self.assertEqual((third.find(7), third.find(8)), (ROW, ROW._replace(number=8)))

    def test_after_a_line_for_which_there_was_no_space(self) -> None:
        """The next line, of whatever gateway, does not become a part of it."""
        first, second = self.table(), self.table()
        write = os.write
        with mock.patch("os.write", lambda number, data: write(number, data[:9])), self.assertRaises(TableError):
            first.put(ROW)
        second.put(ROW._replace(number=8))
        first.put(ROW)
        self.assertEqual((first.find(8), second.find(7)), (ROW._replace(number=8), ROW))
        self.assertEqual((self.table().find(7), self.table().find(8)), (ROW, ROW._replace(number=8)))

    def test_only_its_owner_reads_it(self) -> None:
        self.table().put(ROW)
        for path in (self.path, self.path.with_name("table.lock")):
            self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)

    def test_a_wrong_place(self) -> None:
        for path in (self.path / "no" / "folder", Path("/proc/table")):
            with self.assertRaises(TableError), SessionTable(path):
                pass

    def test_another_file(self) -> None:
        """It stays as it is."""
        for text in ("precious\n", "{}", '{"parkazoo_sessions": 2}\n'):
            self.path.write_text(text)
            with self.assertRaisesRegex(TableError, f"{self.path}: it is "), SessionTable(self.path):
                pass
            self.assertEqual(self.path.read_text(), text)
        self.path.unlink()
        os.mkfifo(self.path)
        with self.assertRaisesRegex(TableError, "it is no table of sessions"), SessionTable(self.path):
            pass
        self.assertTrue(self.path.is_fifo())

    def test_a_table_without_its_first_line(self) -> None:
        """As earlier versions have written it."""
        for text, numbers in ((write_row(ROW, 5), [7]), (write_end(7), []), ("", []), ("\n", [])):
            self.path.write_text(text)
            with SessionTable(self.path) as table:
                self.assertEqual(table.numbers, numbers)

    def test_a_new_file_of_which_others_may_read(self) -> None:
        """One was there already: the table does not become that."""
        self.path.with_name("table.new").touch(0o644)
        self.table().put(ROW)
        self.assertEqual(stat.S_IMODE(self.path.stat().st_mode), 0o600)

    def test_a_file_that_cannot_be_opened_again(self) -> None:
        """Nothing else is closed in its place, and later it is opened."""
        table, other = self.table(), self.table()
        table.put(ROW)
        session_table._write_anew(self.path, other._rows)
        opened = os.open

        def refuse(path: object, *rest: Any) -> int:
            if path == self.path:
                raise PermissionError(13, "Permission denied")
            return opened(path, *rest)

        with mock.patch("os.open", refuse):
            for _ in range(2):
                with self.path.open() as first, self.assertRaises(TableError):
                    table.find(7)
                self.assertTrue(first.closed)
        other.put(ROW)
        self.assertEqual((table.find(7), other.find(7)), (ROW, ROW))

    def test_in_memory(self) -> None:
        with SessionTable() as table:
            table.put(ROW)
            self.assertEqual(table.find(7), ROW)
            table.end(7)
            self.assertIsNone(table.find(7))
