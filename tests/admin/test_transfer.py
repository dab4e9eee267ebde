"""Export and import over a tree in memory: answers in any order, lost connections, interruptions anywhere."""

from __future__ import annotations

import contextlib
import errno
import io
import itertools
import os
import sys
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st
from kazoo.exceptions import NoAuthError, NoNodeError, RolledBackError, RuntimeInconsistency
from kazoo.security import OPEN_ACL_UNSAFE, make_digest_acl

from parkazoo.admin.transfer import export_tree as exporting
from parkazoo.admin.transfer import import_tree as importing
from parkazoo.admin.transfer.export_file import ExportFileError, Key, MovedCounter, Record, key_of, path_of
from parkazoo.admin.transfer.import_writes import NotImportedError
from parkazoo.admin.transfer.in_order import BYTES_HELD, HELD, InOrder, creates_of
from parkazoo.admin.transfer.systems import marks_left_out
from parkazoo.cli import export_command
from parkazoo.cli.app import run
from parkazoo.protocol.placement import CERTAIN, GUESS, HINT, MIRRORS, PINNED, Directory, Place
from tests.arbitrary import fuzzed
from tests.fakes.tree import CutOffError, FakeTree, Result, fill, window_of

TIMEOUT_S = 60.0
PATHS = st.lists(st.lists(st.sampled_from("ab% !0"), min_size=1, max_size=4).map("/".join), max_size=30)


class NamedBytes(io.BytesIO):
    name = "FILE"


def above(key: Key, root: str) -> Iterator[str]:
    """The paths from the root down to a znode."""
    return (path_of(key[:depth], root) for depth in range(len(key) + 1))


class TransferCase(unittest.TestCase):
    def setUp(self) -> None:
        for module in ("window", "import_writes"):
            patch = mock.patch(f"parkazoo.admin.transfer.{module}.AGAIN_S", 0.0)
            patch.start()
            self.addCleanup(patch.stop)

    def walk(self, tree: FakeTree, root: str, after: tuple[str, ...] | None = None) -> list[Any]:
        return list(InOrder(tree, window_of(tree)(TIMEOUT_S), root, tree.system().around, after))

    def export(self, tree: FakeTree, root: str) -> NamedBytes:
        file = NamedBytes()
        with self.on(tree):
            exporting.export_tree("fake", root, file.write, timeout_s=TIMEOUT_S)
        return file

    def import_into(self, tree: FakeTree, file: NamedBytes, **options: Any) -> importing.Imported:
        with self.on(tree):
            return importing.import_tree("fake", file, timeout_s=TIMEOUT_S, **options)

    def on(self, tree: FakeTree) -> Any:
        stack = mock.patch.multiple(exporting, open_system=mock.MagicMock(), Window=window_of(tree))
        stack_2 = mock.patch.multiple(importing, open_system=mock.MagicMock(), Window=window_of(tree))
        return _Both(stack, stack_2, tree)


class _Both:
    """Both modules have the tree in place of a cluster."""

    def __init__(self, one: Any, other: Any, tree: FakeTree) -> None:
        self._patches = one, other
        self._tree = tree

    def __enter__(self) -> None:
        for patch in self._patches:
            patch.start()
        for module in (exporting, importing):
            module.open_system.return_value.__enter__.return_value = self._tree.system()

    def __exit__(self, *about: object) -> None:
        for patch in self._patches:
            patch.stop()


class WalkTest(TransferCase):
    @fuzzed
    @given(PATHS, st.integers(0, 1000))
    def test_all_in_order(self, paths: list[str], seed: int) -> None:
        tree = FakeTree(seed, lost=0.1)
        fill(tree, "/r", paths)
        tree.make("/zookeeper")
        for root in ("/r", "/"):
            expected = sorted(
                key_of(path, root) for path in tree.znodes if path.startswith(root) and path != "/zookeeper"
            )
            found = self.walk(tree, root)
            self.assertEqual([key_of(each.path, root) for each in found], expected)
            for each in found:
                znode = tree.znodes[each.path]
                self.assertEqual((each.data, each.creates), (znode.data, znode.creates))
            at = seed % len(expected)
            rest = self.walk(tree, root, expected[at])
            again = [*rest[: len(expected[at]) + 1]]
            self.assertEqual(
                again, [MovedCounter(path, tree.znodes[path].creates) for path in [*above(expected[at], root)]]
            )
            self.assertEqual([key_of(each.path, root) for each in rest[len(again) :]], expected[at + 1 :])

    def test_memory_is_bounded(self) -> None:
        """Nothing of a wide tree is read much further than it is told."""
        tree = FakeTree(1)
        fill(tree, "/r", [f"{a:03}/{b:02}" for a in range(300) for b in range(30)])
        for znode in tree.znodes.values():
            znode.data = b"x" * 10_000
        walk = InOrder(tree, window_of(tree)(TIMEOUT_S), "/r", tree.system().around)
        most = most_bytes = 0
        for _ in walk:
            most = max(most, len(walk._nodes))
            most_bytes = max(most_bytes, walk._bytes)
        self.assertLessEqual(most, HELD + 3 * 128)
        self.assertLess(most_bytes, BYTES_HELD)
        self.assertGreater(tree.most_under_way, 100)

    def test_a_znode_that_goes_meanwhile(self) -> None:
        tree = FakeTree(2)
        fill(tree, "/r", ["a/b", "c"])
        found = iter(InOrder(tree, window_of(tree)(TIMEOUT_S), "/r", tree.system().around))
        self.assertEqual(next(found).path, "/r")
        tree.remove("/r/a/b")
        tree.remove("/r/a")
        self.assertEqual([each.path for each in found][-1], "/r/c")

    def test_counter(self) -> None:
        tree = FakeTree()
        fill(tree, "/r", ["a", "b"])
        tree.remove("/r/a")
        stat = tree.exists("/r")
        assert stat is not None
        self.assertEqual(creates_of(stat), 2)
        large = (1 << 30) + 5  # cversion no longer fits
        self.assertEqual(creates_of(stat._replace(cversion=2 * large - 1 - (1 << 32), numChildren=1)), large)
        self.assertEqual(creates_of(stat._replace(cversion=-1, numChildren=1)), 0)  # of an empty root


class MarksTest(unittest.TestCase):
    def test_pin_and_proof_in_the_next_number(self) -> None:
        """A drained directory with a pin has them still."""
        tree = FakeTree()
        fill(tree, "/full", ["a"])
        fill(tree, "/empty", [])
        empty, full = tree.exists("/empty"), tree.exists("/full")
        assert empty is not None and full is not None
        home, mirror = Place(0, "/d"), Place(1, f"{MIRRORS}/%2Fd")
        for certainty, of_empty, of_full in ((PINNED, 2, 2), (HINT, 0, 2), (GUESS, 0, 2), (CERTAIN, 0, 0)):
            native = Directory("/d", home, home, True, certainty)
            found = marks_left_out(native, empty), marks_left_out(native, full)
            self.assertEqual(found, (of_empty, of_full), certainty)
            self.assertEqual(marks_left_out(Directory("/d", home, mirror, False, certainty), full), 0)


class ExportTest(TransferCase):
    def test_digest_of_a_copy(self) -> None:
        for seed in range(5):
            tree, copy = FakeTree(seed), FakeTree(seed + 100, lost=0.2)
            fill(tree, "/r/s", ["a b/c", "a/b/c", "d%/e", "z"])
            tree.make("/r/s/acl", None, [make_digest_acl("u", "p", all=True)])
            file = self.export(tree, "/r/s")
            found = self.import_into(copy, file)
            self.assertEqual(found.content, found.footer.content)
            self.assertEqual((found.created, found.equal), (10, 0))
            tree.znodes["/r"].creates = copy.znodes["/r"].creates
            self.assertEqual(copy.content(), tree.content())

    def test_ephemerals(self) -> None:
        tree, copy = FakeTree(), FakeTree()
        fill(tree, "/r", ["a"])
        tree.make("/r/e", owner=0x17)
        file = NamedBytes()
        with self.on(tree):
            found = exporting.export_tree("fake", "/r", file.write)
        self.assertEqual((found.sums["znodes"], found.sums["ephemerals"]), (2, 1))
        self.import_into(copy, file)
        self.assertNotIn("/r/e", copy.znodes)
        self.assertEqual(copy.znodes["/r"].creates, 2)  # ephemerals count
        self.assertEqual(self.import_into(copy, file).equal, 2)

    def test_what_may_not_be_read_is_told_and_not_imported(self) -> None:
        tree, copy = FakeTree(), FakeTree()
        fill(tree, "/r", ["a/b", "c", "m"])
        tree.unreadable.add("/r/a")
        masked = make_digest_acl("u", "p", all=True)
        tree.znodes["/r/m"].acl = [masked._replace(id=masked.id._replace(id="u:x"))]
        file = NamedBytes()
        with self.on(tree):
            found = exporting.export_tree("fake", "/r", file.write)
        self.assertEqual([each.path for each in found.unread], ["/r/a", "/r/m"])
        with self.assertRaisesRegex(ExportFileError, "not complete: /r/a could not be read"):
            self.import_into(copy, file)
        self.assertEqual(copy.writes, 0)

    def test_no_such_path(self) -> None:
        for path in ("/r", "/zookeeper"):
            with self.assertRaises(NoNodeError):
                self.export(FakeTree(), path)

    def test_continued_wherever_it_was_cut_off(self) -> None:
        """What the first part has left out or could not read is in the sums too."""
        tree = FakeTree(3)
        fill(tree, "/r", ["a/b", "a/c", "d", "n"])
        tree.make("/r/a/e", owner=0x17)
        tree.make("/r/e", owner=0x17)
        tree.make("/r/o")
        whole = self.export(tree, "/r").getvalue()
        records = whole.rpartition(b'{"footer"')[0]
        for length in range(len(whole.splitlines()[0]) + 1, len(whole)):
            file = NamedBytes(whole[:length])
            with self.on(tree):
                found = exporting.resume_export("fake", "/r", file)
            self.assertEqual((found.sums["znodes"], found.sums["ephemerals"]), (7, 2))
            self.assertEqual(file.getvalue().rpartition(b'{"footer"')[0], records)
            self.import_into(FakeTree(), file)
        for path, content, about in (("/r", whole, "is whole"), ("/s", records, "of /r, not of /s")):
            with self.on(tree), self.assertRaisesRegex(ExportFileError, about):
                exporting.resume_export("fake", path, NamedBytes(content))

    def test_another_chroot(self) -> None:
        """Its znodes are others, though the paths are the same."""
        tree = FakeTree()
        fill(tree, "/r", ["a"])
        whole = self.export(tree, "/r").getvalue()
        tree.chroot = "/other"
        about = "an export with no chroot; this is chroot /other"
        with self.on(tree):
            with self.assertRaisesRegex(ExportFileError, about):
                exporting.resume_export("fake", "/r", NamedBytes(whole.rpartition(b'{"footer"')[0]))
            with self.assertRaisesRegex(ExportFileError, about):
                list(exporting.find_changes("fake", "/r", NamedBytes(whole)))
        file = self.export(tree, "/r")
        with self.on(tree):
            self.assertEqual(list(exporting.find_changes("fake", "/r", NamedBytes(file.getvalue()))), [])
            tree.chroot = ""
            with self.assertRaisesRegex(ExportFileError, "an export with chroot /other; this is no chroot"):
                list(exporting.find_changes("fake", "/r", NamedBytes(file.getvalue())))

    def resume_each(
        self, tree: FakeTree, change: Callable[[FakeTree], None]
    ) -> Iterator[tuple[NamedBytes, FakeTree]]:
        """Cuts an export off behind each line, goes on when the tree has changed, and imports it."""
        lines = self.export(tree, "/r").getvalue().splitlines(keepends=True)
        change(tree)
        for count in range(1, len(lines)):
            file, copy = NamedBytes(b"".join(lines[:count])), FakeTree()
            with self.on(tree):
                exporting.resume_export("fake", "/r", file)
            self.import_into(copy, file)
            yield file, copy

    def test_counters_that_moved_before_it_was_continued(self) -> None:
        """A new child behind the place of the cut has a number that the counters above it must have passed."""
        tree = FakeTree(3)
        fill(tree, "/r", ["a/b/c", "a/d", "e"])

        def change(tree: FakeTree) -> None:
            for path in ("/r/z", "/r/a/z", "/r/a/b/z", "/r/a/b/c/z"):
                tree.make(path)
                tree.make(path + "-gone")
                tree.remove(path + "-gone")

        for _, copy in self.resume_each(tree, change):
            for path in ("/r", "/r/a", "/r/a/b", "/r/a/b/c"):
                name = path + "/z"
                if name in copy.znodes:
                    self.assertEqual(copy.znodes[path].creates, tree.znodes[path].creates, path)

    def test_continued_twice(self) -> None:
        """The counters of a first continuation stay, when the second is in another directory."""
        tree, copy = FakeTree(3), FakeTree()
        fill(tree, "/r", ["a/b", "c"])
        lines = self.export(tree, "/r").getvalue().splitlines(keepends=True)
        for name in ("z", "gone"):
            tree.make(f"/r/a/{name}")
        tree.remove("/r/a/gone")
        file = NamedBytes(b"".join(lines[:3]))  # behind /r/a
        with self.on(tree):
            exporting.resume_export("fake", "/r", file)
            file = NamedBytes(b"".join(file.getvalue().splitlines(keepends=True)[:-1]))
            tree.make("/r/z")
            tree.make("/r/gone")
            tree.remove("/r/gone")
            exporting.resume_export("fake", "/r", file)
        self.import_into(copy, file)
        self.assertEqual((copy.znodes["/r/a"].creates, copy.znodes["/r"].creates), (3, 4))

    def test_what_had_no_children_when_it_was_cut_off(self) -> None:
        """An ephemeral, or a znode that could not be read, may be a directory when it goes on."""
        for kind in ("ephemeral", "unread"):
            tree = FakeTree(3)
            fill(tree, "/r", ["a"])
            tree.make("/r/b", owner=0x17 if kind == "ephemeral" else 0)
            tree.make("/r/c", owner=0x17 if kind == "ephemeral" else 0)
            if kind == "unread":
                tree.unreadable |= {"/r/b", "/r/c"}

            def change(tree: FakeTree) -> None:
                tree.unreadable.clear()
                for path in ("/r/b", "/r/c"):
                    tree.znodes[path].owner = 0
                    tree.make(path + "/child")

            for file, copy in self.resume_each(tree, change):
                for path in ("/r/b/child", "/r/c/child"):
                    self.assertIn(path, copy.znodes, file.getvalue())

    def test_a_reserved_name_is_told_once(self) -> None:
        tree = FakeTree(3)
        fill(tree, "/r", ["a", "reserved", "z"])
        tree.reserved.add("/r/reserved")
        whole = self.export(tree, "/r").getvalue()
        lines = whole.splitlines(keepends=True)
        for count in range(1, len(lines)):
            file = NamedBytes(b"".join(lines[:count]))
            with self.on(tree):
                found = exporting.resume_export("fake", "/r", file)
            self.assertEqual([each.path for each in found.unread], ["/r/reserved"])
            self.assertEqual(file.getvalue().splitlines()[:-1], whole.splitlines()[:-1])
        self.assertEqual([each.path for each in self.walk(tree, "/r", ("reserved",))], ["/r", "/r/z"])

    def test_changes(self) -> None:
        tree = FakeTree(4)
        fill(tree, "/r", ["a/b", "a/c", "d", "e"])
        file = self.export(tree, "/r")
        with self.on(tree):
            self.assertEqual(list(exporting.find_changes("fake", "/r", NamedBytes(file.getvalue()))), [])
            tree.remove("/r/a/b")
            tree.make("/r/a/bb")
            tree.make("/r/f", owner=1)
            tree.set_async("/r/d", b"new")
            tree.set_acls_async("/r/d", [])
            tree.set_acls_async("/r/e", [])
            found = list(exporting.find_changes("fake", "/r", NamedBytes(file.getvalue())))
        expected = [
            ("counter", "/r"),
            ("counter", "/r/a"),
            ("gone", "/r/a/b"),
            ("new", "/r/a/bb"),
            ("data and ACL", "/r/d"),
            ("ACL", "/r/e"),
        ]
        self.assertEqual([tuple(each) for each in found], expected)

    def test_jobs_that_came_and_went_since(self) -> None:
        """An import of this file would give their numbers again."""
        tree = FakeTree(4)
        fill(tree, "/r", ["jobs", "other"])
        file = self.export(tree, "/r")
        for name in ("job-500", "job-501"):
            tree.make(f"/r/jobs/{name}")
            tree.remove(f"/r/jobs/{name}")
        tree.remove("/r/other")
        with self.on(tree):
            found = list(exporting.find_changes("fake", "/r", NamedBytes(file.getvalue())))
        self.assertEqual([tuple(each) for each in found], [("counter", "/r/jobs"), ("gone", "/r/other")])


class ImportTest(TransferCase):
    def setUp(self) -> None:
        super().setUp()
        self.tree = FakeTree(5)
        fill(self.tree, "/r", ["a/b", "a/c", "d"])
        for _ in range(1500):
            self.tree.make("/r/d/x")
            self.tree.remove("/r/d/x")
        self.file = self.export(self.tree, "/r")

    def test_interrupted_anywhere_and_run_again(self) -> None:
        for writes in itertools.count():
            copy = FakeTree(writes, lost=0.1)
            copy.writes_left = writes
            try:
                self.import_into(copy, self.file)
                break
            except CutOffError:
                pass
            copy.writes_left = None
            found = self.import_into(copy, self.file)
            self.assertEqual(found.created + found.equal, 5)
            self.assert_copied(copy)
        self.assertGreater(writes, 5)

    def assert_copied(self, copy: FakeTree) -> None:
        for path, (data, acl, creates) in self.tree.content().items():
            self.assertEqual(copy.content()[path][:2], (data, acl))
            self.assertGreaterEqual(copy.content()[path][2], creates)
        self.assertEqual(copy.znodes["/r/d"].creates, 1500)

    def test_what_differs_is_refused_before_anything_is_written(self) -> None:
        for what in ("data", "ACL"):
            copy = FakeTree(6)
            fill(copy, "/r", ["d", "theirs"])
            if what == "data":
                copy.set_async("/r/d", b"other")
            else:
                copy.set_acls_async("/r/d", [])
            copy.writes = 0
            about = rf"1 znodes exist and differ, the first is /r/d \({what}\)"
            with self.assertRaisesRegex(NotImportedError, about):
                self.import_into(copy, self.file)
            self.assertEqual(copy.writes, 0)
            found = self.import_into(copy, self.file, overwrite=True)
            self.assertEqual((found.created, found.overwritten, found.equal, found.beside), (3, 1, 1, 1))
            self.assert_copied(copy)

    def test_overwrite_sets_the_acls_of_equal_directories_again(self) -> None:
        """An import that was interrupted may have left the old one where a directory's children are."""
        copy = FakeTree(6)
        self.import_into(copy, self.file)
        self.import_into(copy, self.file)
        self.assertEqual({each.aversion for each in copy.znodes.values()}, {0})
        found = self.import_into(copy, self.file, overwrite=True)
        self.assertEqual((found.overwritten, found.equal), (0, 5))
        again = [path for path, each in copy.znodes.items() if each.aversion]
        self.assertEqual(sorted(again), ["/r", "/r/a", "/r/d"])
        self.assert_copied(copy)

    def test_an_ephemeral_in_the_way(self) -> None:
        copy = FakeTree()
        copy.make("/r", owner=5)
        with self.assertRaisesRegex(NotImportedError, "/r exists and is an ephemeral: nothing was written"):
            self.import_into(copy, self.file, overwrite=True)

    def test_dry_run(self) -> None:
        copy = FakeTree()
        found = self.import_into(copy, self.file, dry_run=True)
        self.assertEqual((found.created, found.raised, copy.writes), (5, None, 0))

    def test_a_damaged_file_writes_nothing(self) -> None:
        content = self.file.getvalue()
        for damaged in (content[:-1], content.replace(b'"mzxid":5', b'"mzxid":6', 1)):
            copy = FakeTree()
            with self.assertRaises(ExportFileError):
                self.import_into(copy, NamedBytes(damaged))
            self.assertEqual((copy.writes, [*copy.znodes]), (0, ["/"]))

    def test_a_pipe(self) -> None:
        copy = FakeTree()
        with (
            mock.patch.object(self.file, "seekable", return_value=False),
            self.assertRaisesRegex(ExportFileError, "FILE is a pipe"),
        ):
            self.import_into(copy, self.file)

    def test_a_refused_write_names_its_path(self) -> None:
        copy = FakeTree()
        make = copy.make

        def refuse_one(path: str, *about: Any) -> None:
            if path == "/r/d":
                raise NoNodeError("refused")
            make(path, *about)

        with (
            mock.patch.object(copy, "make", refuse_one),
            self.assertRaisesRegex(NotImportedError, r"^/r/d was refused: NoNodeError refused"),
        ):
            self.import_into(copy, self.file)

    def test_a_refused_counter_names_the_reason(self) -> None:
        """Not that the operations before it were rolled back."""
        copy = FakeTree()
        results = [RolledBackError(), NoAuthError(), RuntimeInconsistency()]
        with (
            mock.patch.object(copy, "commit", lambda operations: Result(copy, results)),
            self.assertRaisesRegex(NotImportedError, "^/r/d was refused: NoAuthError"),
        ):
            self.import_into(copy, self.file)

    def test_what_is_above_the_root_is_open(self) -> None:
        """The root's own ACL is not that of what is missing above it."""
        closed = [make_digest_acl("u", "p", all=True)]
        tree = FakeTree()
        fill(tree, "/deep/er", [])
        tree.make("/deep/er/r", b"", closed)
        tree.make("/deep/er/r/x", b"", closed)
        file = self.export(tree, "/deep/er/r")
        for lost in (0.0, 0.5):
            copy = FakeTree(3, lost=lost)
            self.import_into(copy, file)
            found = {path: each.acl for path, each in copy.znodes.items() if path != "/"}
            above = {"/deep": OPEN_ACL_UNSAFE, "/deep/er": OPEN_ACL_UNSAFE}
            self.assertEqual(found, {**above, "/deep/er/r": closed, "/deep/er/r/x": closed})

    def test_what_is_above_the_root_is_refused(self) -> None:
        copy = FakeTree()
        with (
            mock.patch.object(copy, "ensure_path", side_effect=NoNodeError("refused")),
            self.assertRaisesRegex(NotImportedError, "^what is missing above /r was refused: NoNodeError refused"),
        ):
            self.import_into(copy, self.file)

    def test_a_change_behind_its_back_is_not_called_done(self) -> None:
        copy = FakeTree()
        with (
            mock.patch.object(importing._Import, "write", lambda run: None),
            self.assertRaisesRegex(NotImportedError, "/r is gone again"),
        ):
            self.import_into(copy, self.file)
        self.import_into(copy, self.file)
        done = importing._Import.write

        def and_somebody(run: Any) -> None:
            done(run)
            copy.set_async("/r/a", b"theirs")

        with (
            mock.patch.object(importing._Import, "write", and_somebody),
            self.assertRaisesRegex(NotImportedError, "/r/a has other data than in the file"),
        ):
            self.import_into(copy, self.file)

    def test_a_record_as_it_is_compared(self) -> None:
        open_record = Record("/r", b"", tuple(OPEN_ACL_UNSAFE))
        self.assertEqual(importing.differences(open_record, open_record._replace(mzxid=7, aversion=2)), [])


class CommandTest(unittest.TestCase):
    """What `parkazoo export` says if the file cannot be written."""

    def run_export(self, *arguments: str) -> str:
        """Stderr of the command, which writes a line, and ends with status 1."""
        err = io.StringIO()
        with (
            mock.patch.object(sys, "argv", ["parkazoo", "export", "/r", "--hosts", "a1", *arguments]),
            mock.patch.dict(os.environ, {"COLUMNS": "200"}),
            mock.patch.object(export_command, "export_tree", lambda hosts, path, write, **options: write(b"line")),
            contextlib.redirect_stderr(err),
        ):
            self.assertEqual(run(), 1)
        return err.getvalue()

    @unittest.skipUnless(Path("/dev/full").exists(), "no /dev/full")
    def test_a_full_disk(self) -> None:
        with Path("/dev/full").open("w") as full, contextlib.redirect_stdout(full):
            self.assertEqual(self.run_export(), "error: stdout cannot be written: No space left on device\n")

    def test_a_file_that_may_not_be_written(self) -> None:
        refused = PermissionError(errno.EACCES, "Permission denied")
        with mock.patch.object(Path, "open", side_effect=refused):
            self.assertEqual(
                self.run_export("--resume", __file__), f"error: {__file__} cannot be written: Permission denied\n"
            )
