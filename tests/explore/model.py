"""ZooKeeper in memory: it answers kazoo's requests as ensembles of servers would, and fires watches.

It knows data, versions, ACLs, ephemerals, sequence numbers, multis and their lists of errors, and, if asked,
followers that lag. A :class:`Model` of one ensemble is also the specification that several are judged by.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise
from typing import NamedTuple

from kazoo.exceptions import KazooException, NoWatcherError
from kazoo.protocol.states import EventType, KeeperState, WatchedEvent
from kazoo.security import OPEN_ACL_UNSAFE, Permissions

from parkazoo.kazoo_private import Auth, RolledBackError, RuntimeInconsistency, Sync, Transaction
from parkazoo.protocol.newer_requests import (
    AddWatch,
    GetEphemerals,
    RemoveWatches,
    SetWatches,
    SetWatches2,
    WhoAmI,
)
from parkazoo.protocol.placement import above, logical
from tests.explore.answers import freeze
from tests.explore.znodes import (
    ANYONE,
    READS,
    Answer,
    Request,
    Who,
    Write,
    Znode,
    Znodes,
    difference,
    leaves_watch,
    path_of,
    watch_kind,
)

LASTING = ("persistent", "recursive")  # kinds, by their modes


class Watch(NamedTuple):
    """As the servers know it. `kind` is "data" or "child"."""

    who: Who
    ensemble: int
    kind: str
    path: str


class Model:
    """Ensembles in memory. What a client has been shown, and what it watches, hangs on its :class:`Who`.

    ``on_event`` is called with session, ensemble and event (of a physical path) when a watch fires.

    :param has_lag: remember the past, so that :meth:`execute` can answer a read as a follower would that is
        behind, as far as the session allows.
    """

    def __init__(self, ensembles: int, has_lag: bool = False) -> None:
        root = Znode(b"", tuple(OPEN_ACL_UNSAFE), 0, 0, 0, 0)
        self.nodes = [Znodes({"/": root}) for _ in range(ensembles)]
        self.zxids = [0] * ensembles
        self.has_lag = has_lag
        self.past: list[tuple[Znodes, ...]] = [(nodes,) for nodes in self.nodes]
        self.seen: dict[tuple[Who, int], int] = {}  # the oldest state that a session may still be shown
        self.watches: frozenset[Watch] = frozenset()
        self.on_event: Callable[[Who, int, WatchedEvent], None] = lambda who, ensemble, event: None

    def copy(self) -> Model:
        twin = Model.__new__(Model)
        twin.nodes = list(self.nodes)
        twin.zxids = list(self.zxids)
        twin.has_lag = self.has_lag
        twin.past = list(self.past)
        twin.seen = dict(self.seen)
        twin.watches = self.watches
        twin.on_event = self.on_event
        return twin

    def remembering(self) -> Model:
        """This state, with a past that begins now."""
        twin = self.copy()
        twin.has_lag, twin.past, twin.seen = True, [(nodes,) for nodes in self.nodes], {}
        return twin

    def key(self) -> Hashable:
        """What tells this state from others."""
        state: tuple[Hashable, ...] = (*(nodes.key for nodes in self.nodes), self.watches)
        if self.has_lag:
            seen = tuple(sorted((who.owners, ensemble, at) for (who, ensemble), at in self.seen.items()))
            state += (tuple(tuple(nodes.key for nodes in states) for states in self.past), seen)
        return state

    # ---- requests ------------------------------------------------------------------------------

    def execute(self, ensemble: int, request: Request, who: Who = ANYONE, at: int | None = None) -> Answer:
        """The answer to one request.

        :param at: for a read, the number of the state that the follower is in, as of :meth:`moments`; None for
            the newest.
        """
        if isinstance(request, AddWatch):
            self.watches |= {Watch(who, ensemble, LASTING[request.mode], request.path)}
            return True
        if isinstance(request, SetWatches):
            self._set_watches(ensemble, request, who)
            return True
        if isinstance(request, SetWatches2):
            for kind, paths in zip(LASTING, (request.single, request.recursive), strict=True):
                self.watches |= {Watch(who, ensemble, kind, path) for path in paths}
            return True
        if isinstance(request, RemoveWatches):
            wanted = who, ensemble, request.path
            gone = {each for each in self.watches if (each.who, each.ensemble, each.path) == wanted}
            self.watches -= gone
            return True if gone else NoWatcherError()
        if isinstance(request, WhoAmI):
            return sorted(who.ids)
        if isinstance(request, GetEphemerals):
            owner = who.owners[ensemble]
            return sorted(path for path, znode in self.nodes[ensemble].items() if znode.owner == owner)
        if isinstance(request, READS):
            return self._read(ensemble, request, who, at)
        answer = self._write(ensemble, request, who)
        if self.has_lag:  # a write, even a failed one, catches up
            self.seen[who, ensemble] = len(self.past[ensemble]) - 1
        return answer

    def moments(self, ensemble: int, request: Request, who: Who) -> list[int | None]:
        """The states in which a follower may answer: a session never goes back, nor behind its writes there.

        Of those that answer a read alike it is the oldest, from which the session may be shown most.
        """
        if not self.has_lag or not isinstance(request, READS):
            return [None]
        first: dict[Hashable, int | None] = {}
        for at in range(self.seen.get((who, ensemble), 0), len(self.past[ensemble])):
            answer: Answer
            try:
                answer = self.past[ensemble][at].read(request, who)
            except KazooException as error:
                answer = error
            first.setdefault(freeze(answer), at)
        if leaves_watch(request):  # it reports what happens before a follower hears of it
            first[None, "newest"] = None
        return list(first.values())

    def _read(self, ensemble: int, request: Request, who: Who, at: int | None) -> Answer:
        states = [self.nodes[ensemble]] if at is None else self.past[ensemble][at:]
        if self.has_lag:
            self.seen[who, ensemble] = len(self.past[ensemble]) - 1 if at is None else at
        try:
            answer = states[0].read(request, who)
        except KazooException as error:
            return error
        if leaves_watch(request):
            self._watch(Watch(who, ensemble, watch_kind(request), path_of(request)), states)
        return answer

    def _write(self, ensemble: int, request: Request, who: Who) -> Answer:
        if isinstance(request, Sync):
            return request.path
        if isinstance(request, Auth):
            return True
        self.zxids[ensemble] += 1
        write = Write(self.nodes[ensemble], self.zxids[ensemble], who, who.owners[ensemble])
        operations = request.operations if isinstance(request, Transaction) else [request]
        results: list[Answer] = []
        try:
            for operation in operations:
                results.append(write.execute(operation))  # noqa: PERF401 - kept if one fails
        except KazooException as error:
            after = len(operations) - len(results) - 1
            results = [RolledBackError() for _ in results]
            results += [error, *(RuntimeInconsistency() for _ in range(after))]
            return results if isinstance(request, Transaction) else error
        self.nodes[ensemble] = write.znodes
        if self.has_lag:
            self.past[ensemble] += (write.znodes,)
        for change in write.changes:
            self._fire(ensemble, change.event, change.path, change.znode)
        if not isinstance(request, Transaction):
            return results[0]
        return [logical(result) if isinstance(result, str) else result for result in results]

    # ---- watches -------------------------------------------------------------------------------

    def _watch(self, watch: Watch, states: Sequence[Znodes]) -> None:
        """Leave a watch on a server that is in the first of these states, and comes to the others."""
        self.watches |= {watch}
        for before, after in pairwise(states):
            was, is_now = before.get(watch.path), after.get(watch.path)
            event = difference(watch.kind, was, is_now)
            znode = is_now or was
            if event is not None and znode is not None:
                self._fire(watch.ensemble, event, watch.path, znode, watch.who)
                break

    def _set_watches(self, ensemble: int, request: SetWatches, who: Who) -> None:
        """As a server does that has no lag: tell what came after a zxid, and keep the other watches."""
        nodes, zxid = self.nodes[ensemble], request.zxid
        missed: list[tuple[str, str, str | None]] = []
        for path in request.data:
            znode = nodes.get(path)
            event = EventType.DELETED if znode is None else EventType.CHANGED if znode.mzxid > zxid else None
            missed.append(("data", path, event))
        missed += [("data", path, EventType.CREATED if path in nodes else None) for path in request.missing]
        for path in request.children:
            znode = nodes.get(path)
            event = EventType.DELETED if znode is None else EventType.CHILD if znode.pzxid > zxid else None
            missed.append(("child", path, event))
        for kind, path, event in missed:
            znode = nodes.get(path)
            if event is None:
                self.watches |= {Watch(who, ensemble, kind, path)}
            elif znode is None or who.may(Permissions.READ, znode):
                self.on_event(who, ensemble, WatchedEvent(event, KeeperState.CONNECTED, path))

    def _fire(self, ensemble: int, event: str, path: str, znode: Znode, only: Who | None = None) -> None:
        """Watches are used up, but a client that may not read the znode gets no event."""
        if not self.watches:
            return
        kinds = {EventType.CHILD: ("child",), EventType.DELETED: ("data", "child")}.get(event, ("data",))
        fired = {
            watch
            for watch in self.watches
            if (watch.ensemble, watch.path) == (ensemble, path)
            and watch.kind in kinds
            and only in (None, watch.who)
        }
        self.watches -= fired
        fired |= {
            watch
            for watch in self.watches
            if watch.ensemble == ensemble
            and (
                (watch.kind == "persistent" and watch.path == path)
                or (watch.kind == "recursive" and event != EventType.CHILD and watch.path in (path, *above(path)))
            )
        }
        for who in sorted({watch.who for watch in fired}, key=lambda each: each.owners):
            if who.may(Permissions.READ, znode):
                self.on_event(who, ensemble, WatchedEvent(event, KeeperState.CONNECTED, path))
