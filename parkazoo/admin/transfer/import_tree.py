"""Brings a file into a cluster: looks first, then creates, then reads all of it back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

from parkazoo.admin.clients import TIMEOUT_S, Auth
from parkazoo.admin.transfer.export_file import (
    Content,
    Entry,
    ExportFileError,
    Footer,
    Header,
    Reader,
    Record,
    Unread,
    differences,
)
from parkazoo.admin.transfer.export_tree import TELL_EVERY, beside
from parkazoo.admin.transfer.import_writes import NotImportedError, Writes
from parkazoo.admin.transfer.in_order import InOrder
from parkazoo.admin.transfer.systems import System, open_system
from parkazoo.admin.transfer.window import Window
from parkazoo.protocol.placement import shown

Step = Callable[[str, int, str], None]


class Imported(NamedTuple):
    """What an import has done, or would do.

    :param created: znodes. :param overwritten: that existed and differed. :param equal: that were there already.
    :param beside: znodes of the cluster below the path that the file does not have; they stay.
    :param raised: directories whose counter was raised; None: nothing was written.
    :param content: the digest of what was read back.
    """

    header: Header
    footer: Footer
    created: int
    overwritten: int
    equal: int
    beside: int
    raised: int | None = None
    content: str = ""


def import_tree(
    hosts: str,
    file: BinaryIO,
    *,
    overwrite: bool = False,
    dry_run: bool = False,
    auth: Auth = (),
    timeout_s: float = TIMEOUT_S,
    progress: Step = lambda step, count, path: None,
    **client_options: Any,
) -> Imported:
    """Creates the znodes of a file at their paths, with data, ACLs and sequence counters, and reads them back.

    It may be run again after an interruption: what is there and equal is left as it is. Versions and times begin
    anew. Before it writes, it has read the whole file and all that the cluster has of it.

    :param hosts: of the cluster, with a chroot below which the paths shall be.
    :param file: open for reading.
    :param overwrite: znodes that exist and differ get the file's data and ACL; otherwise they are refused. All
        directories get their ACL again.
    :param dry_run: nothing is written.
    :param progress: called now and then with the step, the number of znodes so far, and the last of them.
    :raises ExportFileError: the file was cut off or changed, or lacks znodes that could not be read.
    :raises NotImportedError: znodes exist and differ, or a write was refused: it names the first.
    :raises KazooTimeoutError: an ensemble ceases to answer.
    """
    if not file.seekable():
        raise ExportFileError(f"{file.name} is a pipe: import reads the file several times, so write it to a disk")
    reader = _open(file)
    for count, entry in enumerate(reader):
        if not count % TELL_EVERY:
            progress("reading the file", count, entry.path)
        if isinstance(entry, Unread):
            raise ExportFileError(
                f"{file.name} is not complete: {shown(entry.path)} could not be read ({entry.why}). Export it "
                "again with an identity that may"
            )
    assert reader.footer is not None
    with open_system(hosts, is_plain=False, auth=auth, timeout_s=timeout_s, **client_options) as system:
        run = _Import(system, file, reader, reader.footer, overwrite, timeout_s, progress)
        planned = run.look()
        if dry_run:
            return planned
        run.write()
        raised, content = run.read_back()
        return planned._replace(raised=raised, content=content)


def _open(file: BinaryIO) -> Reader:
    file.seek(0)
    return Reader(file, file.name)


class _Import:
    """:param whole: has read the file to its end."""

    def __init__(
        self,
        system: System,
        file: BinaryIO,
        whole: Reader,
        footer: Footer,
        overwrite: bool,
        timeout_s: float,
        progress: Step,
    ) -> None:
        self._system = system
        self._file = file
        self._header, self._counters, self._footer = whole.header, whole.counters, footer
        self._path = whole.header.path
        self._overwrite = overwrite
        self._timeout_s = timeout_s
        self._progress = progress

    def look(self) -> Imported:
        """What is there already.

        :raises NotImportedError: something of it is in the way.
        """
        created = equal = others = differing = 0
        first = ""
        for ours, theirs in self._pairs("looking at the cluster", Window(self._timeout_s)):
            if ours is None:
                others += 1
            elif self._system.around.is_left_out(ours.path):
                raise NotImportedError(f"{shown(ours.path)} is reserved: nothing was written")
            elif theirs is None:
                created += 1
            elif (why := _obstacle(theirs)) is not None:
                raise NotImportedError(f"{shown(ours.path)} exists and {why}: nothing was written")
            elif found := differences(ours, _record(theirs)):
                differing += 1
                first = first or f"{shown(ours.path)} ({' and '.join(found)})"
            else:
                equal += 1
        if differing and not self._overwrite:
            raise NotImportedError(
                f"{differing:,} znodes exist and differ, the first is {first}: nothing was written. --overwrite "
                "gives them the file's data and ACLs"
            )
        return Imported(self._header, self._footer, created, differing, equal, others)

    def write(self) -> None:
        """Creates and sets."""
        window = Window(self._timeout_s)
        writes = Writes(self._system, window)
        for ours, theirs in self._pairs("writing", window):
            if ours is None:
                continue
            if theirs is None:
                if ours.path == self._path:
                    writes.create_above(ours.path)
                writes.create(ours)
            elif (why := _obstacle(theirs)) is not None:
                raise NotImportedError(f"{shown(ours.path)} exists and {why}: run the import again")
            elif found := differences(ours, _record(theirs)):
                if not self._overwrite:
                    raise NotImportedError(f"{shown(ours.path)} has changed meanwhile: run the import again")
                writes.overwrite(ours, found)
            elif self._overwrite and (ours.creates or _record(theirs).creates):
                # An import that was interrupted may have set it here, and not yet where the children are.
                writes.overwrite(ours, ["ACL"])
        writes.finish()

    def read_back(self) -> tuple[int, str]:
        """Compares all with the file and raises the counters that are too low; how many, and the digest.

        :raises NotImportedError: something is not as in the file.
        """
        window = Window(self._timeout_s)
        writes = Writes(self._system, window)
        content = Content()
        raised = 0
        for ours, theirs in self._pairs("reading back", window):
            if ours is None:
                continue
            if theirs is None:
                raise NotImportedError(f"{shown(ours.path)} is gone again: run the import again")
            if (why := _obstacle(theirs)) is not None:
                raise NotImportedError(f"{shown(ours.path)} {why}: run the import again")
            there = _record(theirs)
            if found := differences(ours, there):
                raise NotImportedError(
                    f"{shown(ours.path)} has other {' and '.join(found)} than in the file: somebody has "
                    "changed it meanwhile"
                )
            content.add(there)
            if there.creates < ours.creates:
                raised += 1
                writes.raise_counter(ours, there.creates)
        writes.finish()
        if content.hexdigest() != self._footer.content:
            raise NotImportedError(f"the digest of what was read back is not that in {self._file.name}")
        return raised, content.hexdigest()

    def _pairs(self, step: str, window: Window) -> Iterator[tuple[Record | None, Entry | None]]:
        reader = _open(self._file)
        tree = InOrder(self._system.client, window, self._path, self._system.around)
        for count, (ours, theirs) in enumerate(beside(reader, tree, self._path)):
            if not count % TELL_EVERY:
                path = (ours or theirs or Unread("", "")).path
                self._progress(step, count, path)
            assert not isinstance(ours, Unread)
            yield self._with_counter(ours), theirs

    def _with_counter(self, record: Record | None) -> Record | None:
        if record is None or record.path not in self._counters:
            return record
        return record._replace(creates=self._counters[record.path])


def _obstacle(theirs: Entry) -> str | None:
    """Why a znode can be neither left nor overwritten; None if it can."""
    if isinstance(theirs, Unread):
        return f"cannot be read ({theirs.why})"
    return "is an ephemeral" if theirs.is_ephemeral else None


def _record(entry: Entry) -> Record:
    assert isinstance(entry, Record)
    return entry
