"""The file of an export: one JSON object a line, in ASCII; header, znodes, footer. It is pure.

Znodes are in pre-order, parents first, siblings by code point. So two files, or a file and a tree, can be compared
as they are read, and a file that was cut off can be continued behind its last whole line.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from kazoo.exceptions import KazooException
from kazoo.security import ACL, OPEN_ACL_UNSAFE, Id

from parkazoo.protocol.placement import join, shown

FORMAT = 1
FORMAT_KEY = "parkazoo-export"
SUMS = ("znodes", "bytes", "unread", "ephemerals")
SHOWN = 20
COUNTER = 1 << 32  # cversion, which counts creates and deletes, is an int of so many values
Key = tuple[str, ...]


class ExportFileError(KazooException):
    """Reports a file that is no export, was cut off, was changed, or cannot be read or written."""


class Header(NamedTuple):
    """Where an export comes from.

    :param path: of the subtree, without the chroot.
    :param cluster: of the map; None: of a plain ZooKeeper.
    :param began: time, as ISO 8601 in UTC.
    :param zxids: by ensemble, the last that was seen there.
    :param chroot: in front of the path.
    """

    path: str
    cluster: str | None
    began: str
    zxids: dict[str, str]
    chroot: str = ""


class Record(NamedTuple):
    """A znode.

    :param creates: how many children were ever created: the number that the next sequential child gets.
    :param mzxid: of its data, and `aversion` of its ACL: by which a later look sees changes.
    :param is_ephemeral: a file has its path alone. Servers tell no client which are containers or have a TTL.
    """

    path: str
    data: bytes | None
    acl: tuple[ACL, ...]
    creates: int = 0
    mzxid: int = 0
    aversion: int = 0
    is_ephemeral: bool = False


class Unread(NamedTuple):
    """A znode that could not be exported, and nothing below it."""

    path: str
    why: str


class MovedCounter(NamedTuple):
    """A directory's counter when a resumed export went on: higher than in its record, which was written before.

    :param creates: as of a record.
    """

    path: str
    creates: int


Entry = Record | Unread


class Footer(NamedTuple):
    """What a whole file has.

    :param sums: by the names in SUMS.
    :param content: digest of paths, data and ACLs alone: a copy of the tree has the same.
    """

    sums: dict[str, int]
    content: str
    ended: str
    zxids: dict[str, str]

    @property
    def is_complete(self) -> bool:
        return not self.sums["unread"]


def key_of(path: str, root: str) -> Key:
    """The names from `root` down to `path`, by which znodes are ordered."""
    return tuple(path[len(root.rstrip("/")) + 1 :].split("/")) if path != root else ()


def path_of(key: Key, root: str) -> str:
    return join(root, "/".join(key)) if key else root


class Content:
    """The digest over the content of znodes, in order."""

    def __init__(self) -> None:
        self._digest = sha256()

    def add(self, record: Record) -> None:
        data = None if record.data is None else sha256(record.data).hexdigest()
        self._digest.update(_line({"path": record.path, "data": data, "acl": sorted(_plain_acl({*record.acl}))}))

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


class ExportWriter:
    """Makes the lines of a file, each with its end.

    :ivar unread: the first that could not be read.
    """

    def __init__(self) -> None:
        self._digest = sha256()
        self._content = Content()
        self.sums = dict.fromkeys(SUMS, 0)
        self.unread: list[Unread] = []

    def header(self, header: Header) -> bytes:
        return self._sealed(_line({FORMAT_KEY: FORMAT, **header._asdict()}))

    def entry(self, entry: Entry | MovedCounter) -> bytes:
        line = _line(_to_json(entry))
        self._count(entry)
        return self._sealed(line)

    def footer(self, ended: str, zxids: dict[str, str]) -> bytes:
        footer = Footer(self.sums, self.content, ended, zxids)
        return _line({"footer": footer._asdict(), "sha256": self.seal(footer)})

    @property
    def content(self) -> str:
        return self._content.hexdigest()

    def seal(self, footer: Footer) -> str:
        """The digest of all lines and the footer."""
        digest = self._digest.copy()
        digest.update(_line(footer._asdict()))
        return digest.hexdigest()

    def resume(self, line: bytes, entry: Header | Entry | MovedCounter) -> None:
        """Takes in a line that is in the file already."""
        if not isinstance(entry, Header):
            self._count(entry)
        self._sealed(line)

    def _count(self, entry: Entry | MovedCounter) -> None:
        if isinstance(entry, MovedCounter):
            return
        if isinstance(entry, Unread):
            self.sums["unread"] += 1
            if len(self.unread) < SHOWN:
                self.unread.append(entry)
            return
        if entry.is_ephemeral:
            self.sums["ephemerals"] += 1
            return
        self._content.add(entry)
        self.sums["znodes"] += 1
        self.sums["bytes"] += len(entry.data or b"")

    def _sealed(self, line: bytes) -> bytes:
        self._digest.update(line)
        return line


class Reader:
    """Reads a file and holds it to its footer.

    Iterate over it to its end: only then is all of it verified. It holds one line at a time. It
    counts ephemerals, and does not yield them, nor counters.

    :param lines: the lines, each with its end.
    :param name: of the file, for errors.
    :ivar footer: when the iteration has ended; None: the file was cut off, and `may_be_cut` is true.
    :ivar last: the path of the last znode.
    :ivar length: bytes of the whole lines so far.
    :ivar solid: bytes up to the last znode that may have children: behind it a resumed export goes on.
    :ivar open_creates: the counters of the last znode and of those above it, from the root down.
    :ivar counters: by path, those that a resumed export found higher.
    """

    def __init__(self, lines: Iterable[bytes], name: str, *, may_be_cut: bool = False) -> None:
        self._lines = iter(lines)
        self._name = name
        self._may_be_cut = may_be_cut
        self._number = 0
        self._open: list[str] = []  # the names of the last znode
        self._may_have_children = True
        self.writer = ExportWriter()
        self.footer: Footer | None = None
        self.last: str | None = None
        self.length = self.solid = 0
        self.open_creates: list[int] = []
        self.counters: dict[str, int] = {}
        line = next(self._lines, b"")
        found = self._parse(line)
        if found.get(FORMAT_KEY) != FORMAT:
            raise ExportFileError(
                f"{name} is no export of ParKazoo"
                if FORMAT_KEY not in found
                else f"{name} has format {found[FORMAT_KEY]!r}; this version reads {FORMAT}"
            )
        try:
            self.header = Header(
                _a_path(found["path"]),
                found["cluster"],
                str(found["began"]),
                dict(found["zxids"]),
                str(found.get("chroot", "")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise self._damaged() from error
        self._take(line, self.header)
        self.solid = self.length

    def __iter__(self) -> Iterator[Entry]:
        for line in self._lines:
            if self._may_be_cut and not line.endswith(b"\n"):
                return
            found = self._parse(line)
            if "footer" in found:
                self._end(line, found)
                return
            try:
                entry = _from_json(found)
                if isinstance(entry, MovedCounter):
                    self._raise(entry)
                else:
                    self._follow(entry)
            except (KeyError, TypeError, ValueError) as error:
                raise self._damaged() from error
            self._take(line, entry)
            if self._may_have_children:
                self.solid = self.length
            if isinstance(entry, MovedCounter):
                continue
            self.last = entry.path
            if not isinstance(entry, Record) or not entry.is_ephemeral:
                yield entry
        if not self._may_be_cut:
            raise self._cut()

    def _parse(self, line: bytes) -> dict[str, Any]:
        self._number += 1
        if not line.endswith(b"\n"):
            raise self._cut() if self._number > 1 else ExportFileError(f"{self._name} is no export of ParKazoo")
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            if self._number == 1:
                raise ExportFileError(f"{self._name} is no export of ParKazoo")
            raise self._damaged()
        return found

    def _take(self, line: bytes, entry: Header | Entry | MovedCounter) -> None:
        self.writer.resume(line, entry)
        self.length += len(line)

    def _follow(self, entry: Entry) -> None:
        """:raises ValueError: an entry is not in its place: no parent, or not in order."""
        root = self.header.path
        names = list(key_of(entry.path, root))
        if self.last is None:
            if names:
                raise ValueError
        elif not entry.path.startswith(root.rstrip("/") + "/"):
            raise ValueError
        else:
            depth = len(names) - 1
            if self._open[:depth] != names[:depth] or self._open >= names:
                raise ValueError
            if depth == len(self._open) and not self._may_have_children:
                raise ValueError
        self._open = names
        self._may_have_children = isinstance(entry, Record) and not entry.is_ephemeral
        self.open_creates[len(names) :] = [entry.creates if isinstance(entry, Record) else 0]

    def _raise(self, counter: MovedCounter) -> None:
        """:raises ValueError: it is not of the last znode or one above it, or not higher."""
        names = list(key_of(counter.path, self.header.path))
        if self.last is None or path_of(tuple(names), self.header.path) != counter.path:
            raise ValueError
        if self._open[: len(names)] != names or not self._may_have_children:
            raise ValueError
        if counter.creates <= self.open_creates[len(names)]:
            raise ValueError
        self.open_creates[len(names)] = self.counters[counter.path] = counter.creates

    def _end(self, line: bytes, found: dict[str, Any]) -> None:
        try:
            footer = Footer(**found["footer"])
            seals = found["sha256"], footer.sums, footer.content
            ours = self.writer.seal(footer), self.writer.sums, self.writer.content
        except (KeyError, TypeError) as error:
            raise self._damaged() from error
        if seals != ours:
            raise ExportFileError(f"{self._name} was changed or damaged: its digest is not its footer's")
        if next(self._lines, None) is not None:
            raise ExportFileError(f"{self._name} goes on behind its footer")
        self.length += len(line)
        self.footer = footer

    def _cut(self) -> ExportFileError:
        behind = f" behind {shown(self.last)}" if self.last else ""
        return ExportFileError(
            f"{self._name} was cut off{behind}: `parkazoo export {shown(self.header.path)} --resume FILE` goes on"
        )

    def _damaged(self) -> ExportFileError:
        return ExportFileError(f"{self._name} was changed or damaged in line {self._number:,}")


def differences(ours: Record, theirs: Record) -> list[str]:
    """In which of data and ACL two znodes differ."""
    found = []
    if ours.data != theirs.data:
        found.append("data")
    if set(ours.acl) != set(theirs.acl):
        found.append("ACL")
    return found


def _to_json(entry: Entry | MovedCounter) -> dict[str, Any]:
    """Without the fields that most znodes have alike."""
    if isinstance(entry, MovedCounter):
        return {"counter": entry.path, "creates": entry.creates}
    if isinstance(entry, Unread):
        return {"unread": entry.path, "why": entry.why}
    if entry.is_ephemeral:
        return {"ephemeral": entry.path}
    found: dict[str, Any] = {"path": entry.path}
    if entry.data != b"":
        found["data"] = None if entry.data is None else b64encode(entry.data).decode()
    if list(entry.acl) != OPEN_ACL_UNSAFE:
        found["acl"] = _plain_acl(entry.acl)
    if entry.creates:
        found["creates"] = entry.creates
    found["mzxid"] = entry.mzxid
    if entry.aversion:
        found["aversion"] = entry.aversion
    return found


def _from_json(found: dict[str, Any]) -> Entry | MovedCounter:
    """:raises (KeyError, TypeError, ValueError): it is no entry."""
    if "counter" in found:
        return MovedCounter(_a_path(found["counter"]), _a_number(found["creates"], range(COUNTER)))
    if "unread" in found:
        return Unread(_a_path(found["unread"]), str(found["why"]))
    if "ephemeral" in found:
        return Record(_a_path(found["ephemeral"]), b"", (), is_ephemeral=True)
    data = found.get("data", "")
    acl = found.get("acl")
    return Record(
        _a_path(found["path"]),
        None if data is None else b64decode(data, validate=True),
        tuple(OPEN_ACL_UNSAFE) if acl is None else tuple(_an_acl(each) for each in acl),
        _a_number(found.get("creates", 0), range(COUNTER)),  # a larger one is never reached
        _a_number(found["mzxid"]),
        _a_number(found.get("aversion", 0)),
    )


def _plain_acl(acl: Iterable[ACL]) -> list[tuple[int, str, str]]:
    return [(perms, who.scheme, who.id) for perms, who in acl]


def _an_acl(found: Sequence[Any]) -> ACL:
    perms, scheme, who = found
    for each in (scheme, who):
        if not isinstance(each, str):
            raise TypeError
        each.encode()  # lone surrogates have no UTF-8
    return ACL(_a_number(perms, range(-(1 << 31), 1 << 31)), Id(scheme, who))


def _a_number(found: object, among: range = range(1 << 63)) -> int:
    if type(found) is not int:
        raise TypeError
    if found not in among:
        raise ValueError
    return found


def _a_path(found: object) -> str:
    if not isinstance(found, str):
        raise TypeError
    names = found.split("/")
    if found != "/" and (names[0] or not {"", ".", ".."}.isdisjoint(names[1:])):
        raise ValueError
    found.encode()  # lone surrogates are no path
    return found


def _line(found: dict[str, Any]) -> bytes:
    return json.dumps(found, separators=(",", ":")).encode() + b"\n"
