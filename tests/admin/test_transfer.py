"""Export and import over a tree in memory: answers in any order, lost connections, interruptions anywhere."""

from __future__ import annotations

import io
import itertools
import unittest
from typing import Any
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st
from kazoo.exceptions import NoNodeError
from kazoo.security import OPEN_ACL_UNSAFE, make_digest_acl

from parkazoo.admin.transfer import export_tree as exporting
from parkazoo.admin.transfer import import_tree as importing
from parkazoo.admin.transfer.export_file import ExportFileError, Record, key_of
from parkazoo.admin.transfer.import_writes import NotImportedError
from parkazoo.admin.transfer.in_order import BYTES_HELD, HELD, InOrder, creates_of
from tests.arbitrary import fuzzed
from tests.fakes.tree import CutOffError, FakeTree, fill, window_of

TIMEOUT_S = 60.0
PATHS = st.lists(st.lists(st.sampled_from("ab% !0"), min_size=1, max_size=4).map("/".join), max_size=30)


class NamedBytes(io.BytesIO):
    name = "FILE"


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
            self.assertEqual([key_of(each.path, root) for each in rest], expected[at + 1 :])

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

    def test_ephemerals_and_odd_ones(self) -> None:
        tree, copy = FakeTree(), FakeTree()
        fill(tree, "/r", ["a"])
        tree.make("/r/e", owner=0x17)
        tree.make("/r/c", owner=-(1 << 63))
        tree.make("/r/t", owner=(0xFF << 56) - (1 << 64) + 1000)
        file = NamedBytes()
        with self.on(tree):
            found = exporting.export_tree("fake", "/r", file.write)
        self.assertEqual((found.sums["znodes"], found.sums["ephemerals"]), (4, 1))
        self.assertEqual([(each.path, each.kind) for each in found.odd], [("/r/c", "container"), ("/r/t", "ttl")])
        self.import_into(copy, file)
        self.assertNotIn("/r/e", copy.znodes)
        self.assertEqual(copy.znodes["/r"].creates, 4)  # ephemerals count
        self.assertEqual(self.import_into(copy, file).equal, 4)

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
        tree.make("/r/o", owner=-(1 << 63))
        whole = self.export(tree, "/r").getvalue()
        records = whole.rpartition(b'{"footer"')[0]
        for length in range(len(whole.splitlines()[0]) + 1, len(whole)):
            file = NamedBytes(whole[:length])
            with self.on(tree):
                found = exporting.resume_export("fake", "/r", file)
            self.assertEqual((found.sums["ephemerals"], [each.path for each in found.odd]), (2, ["/r/o"]))
            self.assertEqual(file.getvalue().rpartition(b'{"footer"')[0], records)
            self.import_into(FakeTree(), file)
        for path, content, about in (("/r", whole, "is whole"), ("/s", records, "of /r, not of /s")):
            with self.on(tree), self.assertRaisesRegex(ExportFileError, about):
                exporting.resume_export("fake", path, NamedBytes(content))

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
        expected = [("gone", "/r/a/b"), ("new", "/r/a/bb"), ("data and ACL", "/r/d"), ("ACL", "/r/e")]
        self.assertEqual([tuple(each) for each in found], expected)


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

    def test_a_refused_write_names_its_path(self) -> None:
        copy = FakeTree()
        with (
            mock.patch.object(copy, "make", side_effect=NoNodeError("refused")),
            self.assertRaisesRegex(NotImportedError, r"^/r was refused: NoNodeError refused"),
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
