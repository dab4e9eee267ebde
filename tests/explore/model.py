"""ZooKeeper in memory: it answers kazoo's requests as ensembles of servers would, and fires watches.

It knows data, versions, ACLs, ephemerals, sequence numbers, multis and their lists of errors, and, if asked,
followers that lag. A :class:`Model` of one ensemble is also the specification that several are judged by.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import nullcontext
from itertools import pairwise
from typing import Any, NamedTuple

from kazoo.exceptions import (
    BadArgumentsError,
    BadVersionError,
    InvalidACLError,
    KazooException,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    UnimplementedError,
)
from kazoo.protocol.states import EventType, KeeperState, WatchedEvent, ZnodeStat
from kazoo.security import ACL, OPEN_ACL_UNSAFE, Id, Permissions

from parkazoo.kazoo_private import (
    Auth,
    CheckVersion,
    Create,
    Create2,
    Delete,
    Exists,
    GetACL,
    GetChildren,
    GetChildren2,
    GetData,
    RolledBackError,
    RuntimeInconsistency,
    SetACL,
    SetData,
    Sync,
    Transaction,
)
from parkazoo.protocol.placement import DONE, FENCES, MIRRORS, PIN, ROOT, Placement, logical, split
from parkazoo.protocol.tree import Tree

EPHEMERAL, SEQUENCE = 1, 2
READS = (Exists, GetData, GetACL, GetChildren, GetChildren2)
WORLD = Id("world", "anyone")


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


class Model:
    """Ensembles in memory. What a client has been shown, and what it watches, hangs on its :class:`Who`.

    ``on_event`` is called with session, ensemble and event (of a physical path) when a watch fires.

    :param has_lag: remember the past, so that :meth:`execute` can answer a read as a follower would that is
        behind, as far as the session allows.
    """

    def __init__(self, ensembles: int, has_lag: bool = False) -> None:
        root = Znode(b"", tuple(OPEN_ACL_UNSAFE), 0, 0, 0, 0)
        self.nodes: list[dict[str, Znode]] = [{"/": root} for _ in range(ensembles)]
        self.zxids = [0] * ensembles
        self.has_lag = has_lag
        self.past: list[list[dict[str, Znode]]] = [[dict(nodes)] for nodes in self.nodes]
        self.seen: dict[tuple[Who, int], int] = {}  # the oldest state that a session may still be shown
        # (session, ensemble, "data" or "child", path), as the servers know them
        self.watches: set[tuple[Who, int, str, str]] = set()
        self.on_event: Callable[[Who, int, WatchedEvent], None] = lambda who, ensemble, event: None
        self._undo: dict[str, Znode | None] | None = None
        self._fired: list[tuple[int, str, str, Znode]] = []

    def copy(self) -> Model:
        twin = Model.__new__(Model)
        twin.nodes = [dict(nodes) for nodes in self.nodes]
        twin.zxids = list(self.zxids)
        twin.has_lag = self.has_lag
        twin.past = [list(states) for states in self.past]
        twin.seen = dict(self.seen)
        twin.watches = set(self.watches)
        twin.on_event = self.on_event
        twin._undo = None
        twin._fired = []
        return twin

    def remembering(self) -> Model:
        """This state, with a past that begins now."""
        twin = self.copy()
        twin.has_lag, twin.past, twin.seen = True, [[dict(nodes)] for nodes in self.nodes], {}
        return twin

    def key(self) -> Hashable:
        """What tells this state from others; not the zxids and the pins' data, which no operation depends on."""
        state: tuple[Hashable, ...] = (*map(_nodes_key, self.nodes), frozenset(self.watches))
        if self.has_lag:
            seen = tuple(sorted((who.owners, ensemble, at) for (who, ensemble), at in self.seen.items()))
            state += (tuple(tuple(map(_nodes_key, states)) for states in self.past), seen)
        return state

    # ---- requests ------------------------------------------------------------------------------

    def execute(self, ensemble: int, request: Any, who: Who = ANYONE, at: int | None = None) -> Any:
        """The answer to one request: what kazoo would put into the async result, or the exception.

        :param at: for a read, the number of the state that the follower is in, as of :meth:`moments`; None for
            the newest.
        """
        if isinstance(request, READS):
            states = [self.nodes[ensemble]] if at is None else self.past[ensemble][at:]
            self.seen[who, ensemble] = len(self.past[ensemble]) - 1 if at is None else at
            try:
                answer = self._read(states[0], request, who)
            except KazooException as error:
                return error
            if getattr(request, "watcher", None):
                self._watch(ensemble, request, who, states)
            return answer
        self._fired = []
        answer = self._write_all(ensemble, request, who)
        if self.has_lag:
            self.past[ensemble].append(dict(self.nodes[ensemble]))
        self.seen[who, ensemble] = len(self.past[ensemble]) - 1  # a write, even a failed one, catches up
        for fired in self._fired:
            self._fire(*fired)
        return answer

    def moments(self, ensemble: int, request: Any, who: Who) -> list[int | None]:
        """The states in which a follower may answer: a session never goes back, nor behind its writes there.

        Of those that answer a read alike it is the oldest, from which the session may be shown most.
        """
        if not self.has_lag or not isinstance(request, READS):
            return [None]
        first: dict[Hashable, int | None] = {}
        for at in range(self.seen.get((who, ensemble), 0), len(self.past[ensemble])):
            try:
                answer = self._read(self.past[ensemble][at], request, who)
            except KazooException as error:
                answer = error
            first.setdefault(freeze(answer), at)
        if getattr(request, "watcher", None):  # what happens before a follower hears of it is told
            first[None, "newest"] = None
        return list(first.values())

    def _write_all(self, ensemble: int, request: Any, who: Who) -> Any:
        if isinstance(request, Sync):
            return request.path
        if isinstance(request, Auth):
            return True
        self.zxids[ensemble] += 1
        if not isinstance(request, Transaction):
            try:
                return self._write(ensemble, request, who)
            except KazooException as error:
                return error
        self._undo, results = {}, []
        for index, operation in enumerate(request.operations):
            try:
                result = self._write(ensemble, operation, who)
            except KazooException as error:
                self._roll_back(ensemble, self._undo)
                self._fired = []
                after = len(request.operations) - index - 1
                results = [RolledBackError() for _ in range(index)]
                results += [error, *(RuntimeInconsistency() for _ in range(after))]
                break
            results.append(logical(result) if isinstance(result, str) else result)
        self._undo = None
        return results

    def _roll_back(self, ensemble: int, undo: dict[str, Znode | None]) -> None:
        for path, znode in undo.items():
            if znode is None:
                self.nodes[ensemble].pop(path, None)
            else:
                self.nodes[ensemble][path] = znode

    def _read(self, nodes: dict[str, Znode], request: Any, who: Who) -> Any:
        if isinstance(request, Exists) and request.path not in nodes:
            return None
        znode = _find(nodes, request.path)
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

    def _write(self, ensemble: int, request: Any, who: Who) -> Any:
        nodes, zxid = self.nodes[ensemble], self.zxids[ensemble]
        if isinstance(request, (Create, Create2)):
            path = self._create(ensemble, request, who)
            return (path, nodes[path].stat) if isinstance(request, Create2) else path
        if isinstance(request, Delete):
            self._delete(ensemble, request, who)
            return True
        if isinstance(request, SetACL):
            acl = _fixed(request.acls, who)
            znode = _find(nodes, request.path)
            _check(znode, Permissions.ADMIN, who)
            _check_version(znode.aversion, request.version)
            self._put(ensemble, request.path, znode._replace(acl=acl, aversion=znode.aversion + 1))
            return nodes[request.path].stat
        if not isinstance(request, (SetData, CheckVersion)):
            raise UnimplementedError
        znode = _find(nodes, request.path)
        _check(znode, Permissions.WRITE if isinstance(request, SetData) else Permissions.READ, who)
        _check_version(znode.version, request.version)
        if isinstance(request, CheckVersion):
            return True
        changed = znode._replace(data=request.data, version=znode.version + 1, mzxid=zxid)
        self._put(ensemble, request.path, changed)
        self._fired.append((ensemble, EventType.CHANGED, request.path, znode))
        return changed.stat

    def _create(self, ensemble: int, request: Any, who: Who) -> str:
        nodes, zxid = self.nodes[ensemble], self.zxids[ensemble]
        acl = _fixed(request.acl, who)
        parent_path, name = split(request.path)
        parent = _find(nodes, parent_path)
        _check(parent, Permissions.CREATE, who)
        path = request.path
        if request.flags & SEQUENCE:
            path += f"{parent.created:010d}"
            name += f"{parent.created:010d}"
        if path in nodes:
            raise NodeExistsError
        if parent.owner:
            raise NoChildrenForEphemeralsError
        owner = who.owners[ensemble] if request.flags & EPHEMERAL else 0
        children = parent.children | {name}
        znode = Znode(request.data, acl, owner, zxid, zxid, zxid)
        self._put(ensemble, path, znode)
        self._put(
            ensemble, parent_path, parent._replace(pzxid=zxid, created=parent.created + 1, children=children)
        )
        self._fired += [
            (ensemble, EventType.CREATED, path, znode),
            (ensemble, EventType.CHILD, parent_path, parent),
        ]
        return str(path)

    def _delete(self, ensemble: int, request: Any, who: Who) -> None:
        nodes, path = self.nodes[ensemble], request.path
        if path == "/":
            raise BadArgumentsError
        parent_path, name = split(path)
        parent = _find(nodes, parent_path)
        _check(parent, Permissions.DELETE, who)
        znode = _find(nodes, path)
        _check_version(znode.version, request.version)
        if znode.children:
            raise NotEmptyError
        self._put(ensemble, path, None)
        self._put(
            ensemble,
            parent_path,
            parent._replace(pzxid=self.zxids[ensemble], children=parent.children - {name}),
        )
        self._fired += [
            (ensemble, EventType.DELETED, path, znode),
            (ensemble, EventType.CHILD, parent_path, parent),
        ]

    def _put(self, ensemble: int, path: str, znode: Znode | None) -> None:
        nodes = self.nodes[ensemble]
        if self._undo is not None:
            self._undo.setdefault(path, nodes.get(path))
        if znode is None:
            del nodes[path]
        else:
            nodes[path] = znode

    # ---- watches -------------------------------------------------------------------------------

    def _watch(self, ensemble: int, request: Any, who: Who, states: Sequence[dict[str, Znode]]) -> None:
        """Leave a watch on a server that is in the first of these states, and comes to the others."""
        kind = "child" if isinstance(request, (GetChildren, GetChildren2)) else "data"
        self.watches.add((who, ensemble, kind, request.path))
        for before, after in pairwise(states):
            event = difference(kind, before.get(request.path), after.get(request.path))
            if event is not None:
                self._fire(ensemble, event, request.path, after.get(request.path) or before[request.path], who)
                break

    def _fire(self, ensemble: int, event: str, path: str, znode: Znode, only: Who | None = None) -> None:
        """Watches are used up, but those who may not read the znode are not told."""
        kinds = {EventType.CHILD: ("child",), EventType.DELETED: ("data", "child")}.get(event, ("data",))
        fired = {key for key in self.watches if key[1:] in [(ensemble, kind, path) for kind in kinds]}
        fired = {key for key in fired if only in (None, key[0])}
        self.watches -= fired
        for who in {key[0] for key in fired}:
            if who.may(Permissions.READ, znode):
                self.on_event(who, ensemble, WatchedEvent(event, KeeperState.CONNECTED, path))


def difference(kind: str, before: Znode | None, after: Znode | None) -> str | None:
    """The event that tells a watch of a change."""
    if before is None or after is None:
        return None if before is after else EventType.CREATED if before is None else EventType.DELETED
    if before.czxid != after.czxid:
        return EventType.DELETED
    if kind == "child":
        return EventType.CHILD if before.pzxid != after.pzxid else None
    return EventType.CHANGED if before.mzxid != after.mzxid else None


def _find(nodes: dict[str, Znode], path: str) -> Znode:
    if path not in nodes:
        raise NoNodeError
    return nodes[path]


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


def _nodes_key(nodes: dict[str, Znode]) -> Hashable:
    return frozenset(
        (path, None if path.endswith(PIN) else z.data, z.acl, z.owner, z.version, z.aversion, z.created)
        for path, z in nodes.items()
    )


# ---- what tests need around it ----------------------------------------------------------------


def freeze(answer: Any) -> Hashable:
    """An answer or a result as a value: without zxids, an error as its name."""
    if isinstance(answer, Exception):
        return type(answer).__name__
    if isinstance(answer, ZnodeStat):
        return ("stat", answer.version, answer.cversion, answer.aversion, answer.dataLength, answer.numChildren)
    if isinstance(answer, (list, tuple)):
        return tuple(freeze(each) for each in answer)
    return answer  # type: ignore[no-any-return]


def prepared(placement: Placement, directories: Iterable[str] = (), has_lag: bool = False) -> Model:
    """Ensembles with what `parkazoo map init` makes on each, the fences only of `directories`."""
    model = Model(placement.ensembles, has_lag)
    for ensemble in range(placement.ensembles):
        for path in (ROOT, MIRRORS, FENCES, DONE):
            must(model.execute(ensemble, Create(path, b"", OPEN_ACL_UNSAFE, 0)))
    for ensemble, fence in {(d.mirror.ensemble, d.fence) for d in map(placement.directory, directories)}:
        must(model.execute(ensemble, Create(fence, b"", OPEN_ACL_UNSAFE, 0)))
    return model


def must(answer: Any) -> Any:
    if isinstance(answer, Exception):
        raise answer
    return answer


def find_directory(placement: Placement, is_native: bool, parent: str = "/", name: str = "d") -> str:
    """A path below `parent` that is native, or is not."""
    start = "/" if parent == "/" else parent + "/"
    return next(p for n in range(1000) if placement.is_native(p := f"{start}{name}{n}") is is_native)


class Marks:
    """Names for marks: never twice the same from one, nor from two with different prefixes."""

    def __init__(self, prefix: str = "mark") -> None:
        self.prefix = prefix
        self.count = 0

    def __call__(self) -> str:
        self.count += 1
        return f"{self.prefix}{self.count}"


def make_tree(placement: Placement, marks: str = "mark", who: Who = ANYONE, **others: Any) -> Tree:
    """A tree whose ``ephemeralOwner`` is the session's on the first ensemble."""

    def own(ensemble: int, stat: Any) -> Any:
        is_ours = stat.ephemeralOwner and stat.ephemeralOwner == who.owners[ensemble]
        return stat._replace(ephemeralOwner=who.owners[0]) if is_ours else stat

    def unwatched(*args: Any) -> Any:
        raise AssertionError("this test has no watches")

    names = [f"e{index}" for index in range(placement.ensembles)]
    watch, settle = others.get("watch", unwatched), others.get("settle", unwatched)
    return Tree(placement, names, Marks(marks), watch, settle, own, nullcontext())


def run(model: Model, operation: Any, who: Who = ANYONE, log: list[Any] | None = None) -> Any:
    """Run a generator to its end, alone; its result, or its error raised. `log` gets its requests."""
    answers: Any = None
    while True:
        try:
            steps = operation.send(answers)
        except StopIteration as stop:
            return stop.value
        if log is not None:
            log += steps
        answers = [model.execute(ensemble, request, who) for ensemble, request in steps]


def outcome(model: Model, operation: Any, who: Who = ANYONE, log: list[Any] | None = None) -> Any:
    """As :func:`run`, but an error is returned."""
    try:
        return run(model, operation, who, log)
    except Exception as error:
        return error
