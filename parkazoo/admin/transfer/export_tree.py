"""Writes a subtree into a file, continues that, and finds what has changed since."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple

from kazoo.exceptions import NoNodeError

from parkazoo.admin.clients import TIMEOUT_S, Auth
from parkazoo.admin.transfer.export_file import (
    Entry,
    ExportFileError,
    ExportWriter,
    Header,
    Key,
    MovedCounter,
    Reader,
    Record,
    Unread,
    key_of,
    path_of,
)
from parkazoo.admin.transfer.in_order import InOrder
from parkazoo.admin.transfer.systems import System, open_system
from parkazoo.admin.transfer.window import Window
from parkazoo.admin.utc import stamp
from parkazoo.protocol.placement import shown

TELL_EVERY = 256
Progress = Callable[[int, str], None]


def no_progress(znodes: int, path: str) -> None:
    pass


class Exported(NamedTuple):
    """What an export has written.

    :param sums: by the names in the footer.
    :param unread: the first that could not be read, each with the reason.
    """

    sums: dict[str, int]
    content: str
    unread: list[Unread]


class Changed(NamedTuple):
    """:param what: "new", "gone", "unread"; or "data", "ACL", "counter", or several of these with "and"."""

    what: str
    path: str


def export_tree(
    hosts: str,
    path: str,
    write: Callable[[bytes], object],
    *,
    is_plain: bool = False,
    auth: Auth = (),
    timeout_s: float = TIMEOUT_S,
    progress: Progress = no_progress,
    **client_options: Any,
) -> Exported:
    """Writes data, ACLs and sequence counters of all znodes at and below a path; ephemerals it leaves out.

    Each znode is of one moment, the tree is not. Lost connections are waited for.

    :param hosts: of the cluster, with a chroot if `path` is below one.
    :param write: takes the file, line by line.
    :param is_plain: the hosts are of a plain ZooKeeper.
    :param timeout_s: seconds to wait for an answer.
    :param progress: called now and then with the number of znodes so far, and the last of them.
    :param client_options: further arguments for the client (TLS, SASL).
    :raises NoNodeError: there is no such path.
    :raises KazooTimeoutError: an ensemble ceases to answer.
    """
    with open_system(hosts, is_plain=is_plain, auth=auth, timeout_s=timeout_s, **client_options) as system:
        _verify_there(system, path)
        writer = ExportWriter()
        write(writer.header(Header(path, system.cluster, stamp(), system.zxids(), system.client.chroot)))
        return _export(system, Window(timeout_s), path, writer, write, progress)


def resume_export(
    hosts: str,
    path: str,
    file: BinaryIO,
    *,
    is_plain: bool = False,
    auth: Auth = (),
    timeout_s: float = TIMEOUT_S,
    progress: Progress = no_progress,
    **client_options: Any,
) -> Exported:
    """Continues the file of an interrupted export behind the last znode that may have children.

    Behind that it had ephemerals, and znodes that could not be read: it looks at them again. Otherwise as
    `export_tree`.

    :param file: open for reading and writing.
    :raises ExportFileError: it is whole already, or of another path, chroot or cluster, or was changed.
    """
    reader = _read(file)
    if reader.footer is not None:
        raise ExportFileError(f"{file.name} is whole: there is nothing to continue")
    with open_system(hosts, is_plain=is_plain, auth=auth, timeout_s=timeout_s, **client_options) as system:
        _verify_source(reader, file.name, path, system)
        _verify_there(system, path)
        file.truncate(reader.solid)
        if reader.solid < reader.length:
            reader = _read(file)
        file.seek(reader.solid)
        after = None if reader.last is None else key_of(reader.last, path)
        known = {
            path_of((after or ())[:depth], path): creates for depth, creates in enumerate(reader.open_creates)
        }
        return _export(system, Window(timeout_s), path, reader.writer, file.write, progress, after, known)


def _read(file: BinaryIO) -> Reader:
    file.seek(0)
    reader = Reader(file, file.name, may_be_cut=True)
    for _ in reader:
        pass
    return reader


def find_changes(
    hosts: str,
    path: str,
    file: BinaryIO,
    *,
    is_plain: bool = False,
    auth: Auth = (),
    timeout_s: float = TIMEOUT_S,
    progress: Progress = no_progress,
    **client_options: Any,
) -> Iterator[Changed]:
    """Yields the znodes that have come, gone or changed since a file was exported; it reads the tree once more.

    Arguments as for `resume_export`; nothing is written.
    """
    reader = Reader(file, file.name)
    with open_system(hosts, is_plain=is_plain, auth=auth, timeout_s=timeout_s, **client_options) as system:
        _verify_source(reader, file.name, path, system)
        tree = InOrder(system.client, Window(timeout_s), path, system.around)
        for count, (ours, theirs) in enumerate(beside(reader, tree, path)):
            if not count % TELL_EVERY:
                progress(count, (ours or theirs or Unread(path, "")).path)
            what = _change(ours, theirs)
            if what:
                yield Changed(what, (ours or theirs or Unread(path, "")).path)


def beside(
    ours: Iterable[Entry], theirs: Iterable[Entry | MovedCounter], root: str
) -> Iterator[tuple[Entry | None, Entry | None]]:
    """The znodes of two trees, those with one path together."""
    left, right = iter(ours), (each for each in theirs if not isinstance(each, MovedCounter))
    mine, other = next(left, None), next(right, None)
    while mine is not None or other is not None:
        mine_at: Key | None = None if mine is None else key_of(mine.path, root)
        other_at: Key | None = None if other is None else key_of(other.path, root)
        if other_at is None or (mine_at is not None and mine_at < other_at):
            yield mine, None
            mine = next(left, None)
        elif mine_at is None or other_at < mine_at:
            yield None, other
            other = next(right, None)
        else:
            yield mine, other
            mine, other = next(left, None), next(right, None)


def _change(ours: Entry | None, theirs: Entry | None) -> str:
    if isinstance(theirs, Record) and theirs.is_ephemeral:
        theirs = None
    if theirs is None:
        return "gone" if ours is not None else ""
    if ours is None:
        return "new"
    if isinstance(ours, Unread) or isinstance(theirs, Unread):
        return "unread"
    differs = {
        "data": ours.mzxid != theirs.mzxid,
        "ACL": ours.aversion != theirs.aversion,
        "counter": ours.creates < theirs.creates,  # children may be gone: an import would give their numbers again
    }
    return " and ".join(what for what, is_so in differs.items() if is_so)


def _verify_source(reader: Reader, name: str, path: str, system: System) -> None:
    header = reader.header
    if header.path != path:
        raise ExportFileError(f"{name} is an export of {shown(header.path)}, not of {shown(path)}")
    if header.cluster != system.cluster:
        here, there = (
            f"cluster {each}" if each else "a plain ZooKeeper" for each in (system.cluster, header.cluster)
        )
        raise ExportFileError(f"{name} is an export of {there}; this is {here}")
    if header.chroot != system.client.chroot:
        here, there = (
            f"chroot {shown(each)}" if each else "no chroot" for each in (system.client.chroot, header.chroot)
        )
        raise ExportFileError(f"{name} is an export with {there}; this is {here}")


def _verify_there(system: System, path: str) -> None:
    if system.around.is_left_out(path) or system.client.exists(path) is None:
        raise NoNodeError(f"there is no znode {shown(path)} of yours")


def _export(
    system: System,
    window: Window,
    path: str,
    writer: ExportWriter,
    write: Callable[[bytes], object],
    progress: Progress,
    after: Key | None = None,
    known: Mapping[str, int] = MappingProxyType({}),
) -> Exported:
    """
    :param known: counters that are in the file, of `after` and those above it.
    """
    for count, entry in enumerate(InOrder(system.client, window, path, system.around, after)):
        if isinstance(entry, MovedCounter) and entry.creates <= known[entry.path]:
            continue
        write(writer.entry(entry))
        if not count % TELL_EVERY:
            progress(writer.sums["znodes"], entry.path)
    write(writer.footer(stamp(), system.zxids()))
    return Exported(writer.sums, writer.content, writer.unread)
