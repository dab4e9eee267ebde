"""The znodes of one ensemble, and what a server answers to a request about them: no time passes here."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import cached_property
from typing import NamedTuple, Protocol

from kazoo.exceptions import (
    BadArgumentsError,
    BadVersionError,
    InvalidACLError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    UnimplementedError,
)
from kazoo.protocol.states import EventType, ZnodeStat
from kazoo.security import ACL, Id, Permissions

from parkazoo.kazoo_private import (
    CheckVersion,
    Create,
    Create2,
    Delete,
    Exists,
    GetACL,
    GetChildren,
    GetChildren2,
    GetData,
    SetACL,
    SetData,
)
from parkazoo.protocol.newer_requests import CreateContainer, CreateTTL
from parkazoo.protocol.outlasting import outlasts
from parkazoo.protocol.placement import PIN, split
from parkazoo.protocol.presence import Presence
from parkazoo.wire.own_read import OwnRead

EPHEMERAL, SEQUENCE = 1, 2
READS = (Exists, GetData, GetACL, GetChildren, GetChildren2)
LISTINGS = (GetChildren, GetChildren2)
WORLD = Id("world", "anyone")


class Request(Protocol):
    """One of kazoo's: Create, GetData, Transaction. kazoo ships no types; ``isinstance`` tells which."""

    @property
    def type(self) -> int: ...


Answer = object  # what kazoo would put into the async result, or the exception


class Who(NamedTuple):
    """A session. With `has_all` the servers check no ACL.

    :param owners: the session's number on each ensemble.
    """

    owners: tuple[int, ...] = (7, 8, 9, 10, 11)
    ids: frozenset[Id] = frozenset()
    has_all: bool = True

    def may(self, perms: int, znode: Znode) -> bool:
        return self.has_all or any(acl.perms & perms and acl.id in self.ids | {WORLD} for acl in znode.acl)


ANYONE = Who()


class Znode(NamedTuple):
    data: bytes | None
    acl: tuple[ACL, ...]
    owner: int
    czxid: int
    mzxid: int
    pzxid: int
    version: int = 0
    aversion: int = 0
    created: int = 0  # children, ever: the next sequence number
    children: frozenset[str] = frozenset()

    @property
    def stat(self) -> ZnodeStat:
        return ZnodeStat(
            czxid=self.czxid,
            mzxid=self.mzxid,
            ctime=self.czxid,
            mtime=self.mzxid,
            version=self.version,
            cversion=2 * self.created - len(self.children),
            aversion=self.aversion,
            ephemeralOwner=self.owner,
            dataLength=len(self.data or b""),
            numChildren=len(self.children),
            pzxid=self.pzxid,
        )


class Znodes(dict[str, Znode]):
    """By path, at one moment: a write works on a copy."""

    @cached_property
    def key(self) -> Hashable:
        """What tells these from others; not the zxids and the pins' data, which no operation depends on."""
        return frozenset(
            (path, None if path.endswith(PIN) else z.data, z.acl, z.owner, z.version, z.aversion, z.created)
            for path, z in self.items()
        )

    def find(self, path: str) -> Znode:
        """:raises NoNodeError: it is not there."""
        if path not in self:
            raise NoNodeError
        return self[path]

    def read(self, request: Request, who: Who) -> Answer:
        """:raises KazooException: the answer is an error."""
        path = path_of(request)
        if isinstance(request, Presence):  # which no server is asked, but the one ZooKeeper is
            return path in self
        if isinstance(request, Exists) and path not in self:
            return None
        znode = self.find(path)
        if isinstance(request, GetACL):
            _check(znode, Permissions.READ | Permissions.ADMIN, who)
            return _masked(znode, who), znode.stat
        _check(znode, Permissions.READ, who)
        if isinstance(request, Exists):
            return znode.stat
        if isinstance(request, GetData):
            return znode.data, znode.stat
        names = sorted(znode.children)
        return (names, znode.stat) if isinstance(request, GetChildren2) else names


class Change(NamedTuple):
    """An event that a watch may get, and the znode as it was."""

    event: str
    path: str
    znode: Znode


class Write:
    """One write, or all writes of a transaction: on a copy of the znodes, which count only if all succeed.

    :param owner: the session's number on this ensemble.
    """

    def __init__(self, znodes: Znodes, zxid: int, who: Who, owner: int) -> None:
        self.znodes = Znodes(znodes)
        self.changes: list[Change] = []
        self._zxid = zxid
        self._who = who
        self._owner = owner

    def execute(self, request: Request) -> Answer:
        """:raises KazooException: the answer is an error."""
        if isinstance(request, (Create, Create2, CreateTTL, CreateContainer)):
            path = self._create(request)
            return (path, self.znodes[path].stat) if isinstance(request, Create2) else path
        if isinstance(request, Delete):
            self._delete(request)
            return True
        if isinstance(request, SetACL):
            return self._set_acl(request)
        if isinstance(request, (SetData, CheckVersion)):
            return self._set_or_check(request)
        raise UnimplementedError

    def _set_acl(self, request: SetACL) -> ZnodeStat:
        acl = _fixed(request.acls, self._who)
        znode = self.znodes.find(request.path)
        _check(znode, Permissions.ADMIN, self._who)
        _check_version(znode.aversion, request.version)
        changed = self.znodes[request.path] = znode._replace(acl=acl, aversion=znode.aversion + 1)
        return changed.stat

    def _set_or_check(self, request: SetData | CheckVersion) -> Answer:
        znode = self.znodes.find(request.path)
        perms = Permissions.WRITE if isinstance(request, SetData) else Permissions.READ
        _check(znode, perms, self._who)
        _check_version(znode.version, request.version)
        if isinstance(request, CheckVersion):
            return True
        changed = znode._replace(data=request.data, version=znode.version + 1, mzxid=self._zxid)
        self.znodes[request.path] = changed
        self.changes.append(Change(EventType.CHANGED, request.path, znode))
        return changed.stat

    def _create(self, request: Create | Create2 | CreateTTL | CreateContainer) -> str:
        zxid = self._zxid
        acl = _fixed(request.acl, self._who)
        parent_path, name = split(request.path)
        parent = self.znodes.find(parent_path)
        _check(parent, Permissions.CREATE, self._who)
        path = str(request.path)
        if request.flags & SEQUENCE:
            path += f"{parent.created:010d}"
            name += f"{parent.created:010d}"
        if path in self.znodes:
            raise NodeExistsError
        if parent.owner:
            raise NoChildrenForEphemeralsError
        owner = self._owner if request.flags & EPHEMERAL else 0
        znode = self.znodes[path] = Znode(request.data, acl, owner, zxid, zxid, zxid)
        children = parent.children | {name}
        self.znodes[parent_path] = parent._replace(pzxid=zxid, created=parent.created + 1, children=children)
        self.changes += [Change(EventType.CREATED, path, znode), Change(EventType.CHILD, parent_path, parent)]
        return path

    def _delete(self, request: Delete) -> None:
        path = request.path
        if path == "/":
            raise BadArgumentsError
        parent_path, name = split(path)
        parent = self.znodes.find(parent_path)
        _check(parent, Permissions.DELETE, self._who)
        znode = self.znodes.find(path)
        _check_version(znode.version, request.version)
        if znode.children:
            raise NotEmptyError
        del self.znodes[path]
        self.znodes[parent_path] = parent._replace(pzxid=self._zxid, children=parent.children - {name})
        self.changes += [Change(EventType.DELETED, path, znode), Change(EventType.CHILD, parent_path, parent)]


def difference(kind: str, before: Znode | None, after: Znode | None) -> str | None:
    """The event that tells a watch ("data" or "child") of a change."""
    if before is None or after is None:
        if before is after:
            return None
        return str(EventType.CREATED if before is None else EventType.DELETED)
    if before.czxid != after.czxid:
        return str(EventType.DELETED)
    if kind == "child":
        return str(EventType.CHILD) if before.pzxid != after.pzxid else None
    return str(EventType.CHANGED) if before.mzxid != after.mzxid else None


def watch_kind(request: Request) -> str:
    """What a read with a watch watches: the tables that ZooKeeper keeps of it."""
    return "child" if isinstance(request, LISTINGS) else "data"


def has_watch(request: Request) -> bool:
    return bool(getattr(request, "watcher", None))


def is_lasting(request: Request) -> bool:
    """Whether the watch of a request outlasts its connection."""
    return outlasts(getattr(request, "watcher", None))


def leaves_watch(request: Request) -> bool:
    """Whether a server keeps a watch: also of a member's own read, which is in none of the client's tables."""
    return has_watch(request) or isinstance(request, OwnRead)


def path_of(request: Request) -> str:
    """Empty if it has none."""
    return str(getattr(request, "path", ""))


def _check_version(version: int, wanted: int) -> None:
    if wanted not in (-1, version):
        raise BadVersionError


def _check(znode: Znode, perms: int, who: Who) -> None:
    if not who.may(perms, znode):
        raise NoAuthError


def _fixed(acls: Iterable[ACL], who: Who) -> tuple[ACL, ...]:
    """An ACL as the servers store it."""
    fixed: list[ACL] = []
    for acl in dict.fromkeys(acls):
        if acl.id.scheme == "auth":
            if not who.ids:
                raise InvalidACLError
            fixed += [ACL(acl.perms, each) for each in sorted(who.ids)]
        elif acl.id == WORLD or (acl.id.scheme == "digest" and acl.id.id.count(":") == 1):
            fixed.append(acl)
        else:
            raise InvalidACLError
    if not fixed:
        raise InvalidACLError
    return tuple(fixed)


def _masked(znode: Znode, who: Who) -> list[ACL]:
    """An ACL as the servers show it: digests are for those with ADMIN."""
    try:
        _check(znode, Permissions.ADMIN, who)
    except NoAuthError:
        return [
            ACL(acl.perms, Id("digest", acl.id.id.split(":")[0] + ":x")) if acl.id.scheme == "digest" else acl
            for acl in znode.acl
        ]
    return list(znode.acl)
