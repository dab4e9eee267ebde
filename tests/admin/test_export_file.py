"""The file of an export: what was written is read; whatever was changed or cut off is refused."""

from __future__ import annotations

import io
import json
import unittest
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from kazoo.security import ACL, OPEN_ACL_UNSAFE, Id

from parkazoo.admin.transfer.export_file import (
    Entry,
    ExportFileError,
    ExportWriter,
    Header,
    MovedCounter,
    Reader,
    Record,
    Unread,
    key_of,
    path_of,
)
from tests.arbitrary import NAME, fuzzed

OPEN = tuple(OPEN_ACL_UNSAFE)
GOOD_NAME = NAME.filter(lambda name: name.encode("utf-8", "ignore").decode() == name)
ACLS = st.lists(
    st.builds(ACL, st.integers(1, 31), st.builds(Id, st.text(max_size=5), st.text(max_size=9))), max_size=3
)


def ephemeral(path: str) -> Record:
    return Record(path, b"data", OPEN, 0, 7, 1, is_ephemeral=True)


@st.composite
def trees(draw: st.DrawFn) -> tuple[str, list[Entry]]:
    """A root, and znodes at and below it in the order of a file."""
    root = path_of(tuple(draw(st.lists(GOOD_NAME, max_size=2))), "/")
    keys = {()} | {
        tuple(names[:depth])
        for names in draw(st.lists(st.lists(GOOD_NAME, min_size=1, max_size=3), max_size=8))
        for depth in range(1, len(names) + 1)
    }
    entries: list[Entry] = []
    for key in sorted(keys):
        path = path_of(key, root)
        is_leaf = not any(other[: len(key)] == key and other != key for other in keys)
        if is_leaf and draw(st.booleans()):
            why = draw(st.text(max_size=9))
            entries.append(Unread(path, why) if draw(st.booleans()) else ephemeral(path))
            continue
        data = draw(st.one_of(st.none(), st.binary(max_size=9)))
        acl = tuple(draw(ACLS)) if draw(st.booleans()) else OPEN
        creates, mzxid, aversion = (draw(st.integers(0, most)) for most in (1 << 31, 1 << 62, 1 << 31))
        entries.append(Record(path, data, acl, creates, mzxid, aversion))
    return root, entries


def written(root: str, entries: Sequence[Entry | MovedCounter]) -> bytes:
    writer = ExportWriter()
    lines = [writer.header(Header(root, "cluster", "now", {"a": "0x1"}))]
    lines += [writer.entry(entry) for entry in entries]
    return b"".join([*lines, writer.footer("then", {"a": "0x2"})])


def reader(content: bytes, *, may_be_cut: bool = False) -> Reader:
    return Reader(io.BytesIO(content), "FILE", may_be_cut=may_be_cut)


SOME: list[Entry] = [
    Record("/a", b"x", OPEN, 3, 5),
    Record("/a/% b", None, (ACL(31, Id("digest", "u:x=")),), 0, 6, 1),
    Record("/a/% b/\u00fc", b"", OPEN),
    ephemeral("/a/aa"),
    Unread("/a/b", "no right"),
]


class ExportFileTest(unittest.TestCase):
    @fuzzed
    @given(trees())
    def test_what_was_written_is_read(self, tree: tuple[str, list[Entry]]) -> None:
        root, entries = tree
        content = written(root, entries)
        found = reader(content)
        left_out = [each for each in entries if isinstance(each, Record) and each.is_ephemeral]
        self.assertEqual(list(found), [each for each in entries if each not in left_out])
        self.assertEqual((found.header.path, found.length), (root, len(content)))
        assert found.footer is not None
        self.assertEqual(found.footer.is_complete, not any(isinstance(each, Unread) for each in entries))
        self.assertEqual(found.footer.sums["ephemerals"], len(left_out))
        for entry in entries:
            self.assertEqual(path_of(key_of(entry.path, root), root), entry.path)

    def test_a_large_znode_and_many_children(self) -> None:
        entries = [Record("/a", bytes(1 << 20), OPEN)] + [Record(f"/a/{n:06}", b"", OPEN) for n in range(10_000)]
        self.assertEqual(sum(1 for _ in reader(written("/a", entries))), 10_001)

    def test_each_cut_is_refused(self) -> None:
        content = written("/a", SOME)
        for length in range(len(content)):
            with self.assertRaisesRegex(ExportFileError, "FILE (was cut off|is no export)"):
                list(reader(content[:length]))

    def test_each_changed_byte_is_refused(self) -> None:
        content = written("/a", SOME)
        for at in range(len(content)):
            for change in (1, 0x20, 0x80):
                changed = bytearray(content)
                changed[at] ^= change
                with self.assertRaises(ExportFileError):
                    list(reader(bytes(changed)))

    def test_each_missing_repeated_or_moved_line_is_refused(self) -> None:
        lines = written("/a", SOME).splitlines(keepends=True)
        for at in range(len(lines)):
            for changed in (
                lines[:at] + lines[at + 1 :],
                [*lines[:at], lines[at], *lines[at:]],
                lines[:at] + lines[at + 1 : at + 2] + lines[at : at + 1] + lines[at + 2 :],
            ):
                if changed != lines:
                    with self.assertRaises(ExportFileError):
                        list(reader(b"".join(changed)))

    def test_znodes_out_of_their_place_are_refused(self) -> None:
        for paths in (
            ["/a", "/a/b/c"],
            ["/a", "/b"],
            ["/a", "/a/c", "/a/b"],
            ["/a", "/a"],
            ["/a/b"],
            ["/a", "/a/.."],
            ["/a", "/a/../b"],
            ["/a", "/a/b/"],
            ["/a", "/ab"],
            ["/a", ""],
        ):
            with self.assertRaisesRegex(ExportFileError, f"damaged in line {len(paths) + 1}"):
                list(reader(written("/a", [Record(path, b"", OPEN) for path in paths])))

    def test_nothing_is_below_what_has_no_children(self) -> None:
        for above in (ephemeral("/a/b"), Unread("/a/b", "no right")):
            with self.assertRaisesRegex(ExportFileError, "damaged in line 4"):
                list(reader(written("/a", [SOME[0], above, Record("/a/b/c", b"", OPEN)])))
            list(reader(written("/a", [SOME[0], above, Record("/a/c", b"", OPEN)])))

    def test_counters_of_a_resumed_export(self) -> None:
        counter = MovedCounter("/a/b", 9)
        below = Record("/a/b/c", b"", OPEN)
        entries = [Record("/a", b"", OPEN, 3), Record("/a/b", b"", OPEN, 2), MovedCounter("/a", 5), counter, below]
        found = reader(written("/a", entries))
        self.assertEqual([each.path for each in found], ["/a", "/a/b", "/a/b/c"])
        self.assertEqual((found.counters, found.open_creates), ({"/a": 5, "/a/b": 9}, [5, 9, 0]))
        for wrong in (
            MovedCounter("/a/b", 2),  # not higher
            MovedCounter("/b", 7),
            MovedCounter("/a/c", 7),
            MovedCounter("/a/b/c", 7),
            MovedCounter("/", 7),
            MovedCounter("/a", 1 << 32),
        ):
            with self.assertRaisesRegex(ExportFileError, "damaged in line 4"):
                list(reader(written("/a", [*entries[:2], wrong])))
        for first in ([], [entries[0], ephemeral("/a/b")], [entries[0], Unread("/a/b", "no right")]):
            with self.assertRaisesRegex(ExportFileError, f"damaged in line {len(first) + 2}"):
                list(reader(written("/a", [*first, counter])))

    def test_what_no_server_has_is_refused(self) -> None:
        """Though the digest is right: a file that was made so."""
        for record in (
            Record("/a", b"", OPEN, creates=1 << 32),
            Record("/a", b"", OPEN, creates=-1),
            Record("/a", b"", (ACL(1 << 31, Id("world", "anyone")),)),
            Record("/a", b"", (ACL(1, Id("world", "\ud800")),)),
            Record("/a/\ud800", b"", OPEN),
        ):
            with self.assertRaisesRegex(ExportFileError, "damaged in line 2"):
                list(reader(written("/a", [record])))

    def test_what_is_no_export(self) -> None:
        newer = json.dumps({"parkazoo-export": 2}).encode() + b"\n"
        for content, about in (
            (b"", "no export"),
            (b"{}\n", "no export"),
            (b"[]\n", "no export"),
            (newer, "format 2"),
        ):
            with self.assertRaisesRegex(ExportFileError, about):
                reader(content)

    @fuzzed
    @given(st.binary(max_size=60), st.integers(0, 5))
    def test_any_bytes_are_read_or_refused(self, some: bytes, at: int) -> None:
        lines = written("/a", SOME).splitlines(keepends=True)
        with self.assertRaises(ExportFileError):
            list(reader(b"".join(lines[:at]) + some + b"\n" + b"".join(lines[at:])))

    def test_a_file_that_was_cut_off_is_continued(self) -> None:
        content = written("/a", SOME)
        whole = [*range(len(content.splitlines(keepends=True)[0]), len(content))]
        for length in whole:
            found = reader(content[:length], may_be_cut=True)
            for _ in found:
                pass
            self.assertIsNone(found.footer)
            entries = content[: found.length].count(b"\n") - 1
            rest = [found.writer.entry(entry) for entry in SOME[entries:]]
            rest.append(found.writer.footer("then", {"a": "0x2"}))
            self.assertEqual(content[: found.length] + b"".join(rest), content)
