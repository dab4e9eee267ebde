"""The table of sessions."""

from __future__ import annotations

import json
import os
import stat
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from parkazoo.gateway.session_table import SessionTable, TableError, TableRow, read_lines, write_end, write_row

ROW = TableRow(7, b"p" * 16, 4000, b"\x01a" + bytes(24))


class TestLines(unittest.TestCase):
    def test_damaged_lines_are_left_out(self) -> None:
        rows: dict[int, TableRow] = {}
        whole = write_row(ROW).encode()
        for line in (b"", b"{", whole[:-9], b"[]", b"1", b"{}", b'{"session": 7, "sessions": "xx"}', b"\xff"):
            read_lines([line], rows)
            self.assertEqual(rows, {})
        read_lines([whole], rows)
        self.assertEqual(rows, {7: ROW})
        read_lines([write_end(7).encode()], rows)
        self.assertEqual(rows, {})


class TestSessionTable(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name, "table")

    def table(self) -> SessionTable:
        table = SessionTable(self.path).__enter__()
        self.addCleanup(table.__exit__, None, None, None)
        return table

    def test_another_goes_on(self) -> None:
        with SessionTable(self.path) as first:
            first.put(ROW)
            first.put(ROW._replace(number=8))
            first.put(newer := ROW._replace(sessions=b"\x01b" + bytes(24)))
            first.end(8)
            first.end(9)
        self.assertEqual(len(self.path.read_text().splitlines()), 4)
        second = self.table()
        self.assertEqual((second.find(7), second.find(8)), (newer, None))
        self.assertEqual(len(self.path.read_text().splitlines()), 1)  # written anew
        self.assertEqual(newer.client_id, (7, newer.sessions))

    def test_the_same_row_is_written_once(self) -> None:
        table = self.table()
        table.put(ROW)
        table.put(ROW)
        self.assertEqual(len(self.path.read_text().splitlines()), 1)

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

    def test_sessions_that_nobody_goes_on_with(self) -> None:
        """They end when servers have expired them; not those that other gateways have."""
        rows = [ROW._replace(number=number) for number in range(1, 5)]
        with SessionTable(self.path) as before:
            for row in rows:
                before.put(row)
        first = self.table()
        second = self.table()
        first.claim(rows[0])
        second.put(rows[1]._replace(sessions=b"\x01b" + bytes(24)))
        first.end(4)
        for age_s, left in ((8.0, [1, 2, 3]), (8.1, [1, 2]), (9999, [1, 2])):
            first.end_orphans(age_s)
            second.end_orphans(age_s)
            for table in (first, second):
                self.assertEqual([number for number in range(1, 5) if table.find(number)], left)

    def test_a_line_that_is_being_written(self) -> None:
        table = self.table()
        line = write_row(ROW).encode()
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

    def test_a_session_that_goes_on_as_it_was(self) -> None:
        """With another gateway: the one that has read the row at its start does not end it."""
        with SessionTable(self.path) as before:
            before.put(ROW)
        first, second = self.table(), self.table()
        second.claim(ROW)
        first.end_orphans(9999)
        self.assertEqual((first.find(7), second.find(7)), (ROW, ROW))

    def test_only_its_owner_reads_it(self) -> None:
        self.table().put(ROW)
        for path in (self.path, self.path.with_name("table.lock")):
            self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)

    def test_a_wrong_place(self) -> None:
        for path in (self.path / "no" / "folder", Path("/proc/table")):
            with self.assertRaises(TableError), SessionTable(path):
                pass

    def test_in_memory(self) -> None:
        with SessionTable() as table:
            table.put(ROW)
            self.assertEqual(table.find(7), ROW)
            table.end(7)
            self.assertIsNone(table.find(7))
