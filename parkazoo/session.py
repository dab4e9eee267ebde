"""One ParKazoo session: N ZooKeeper sessions that live and die together, from start() to stop()."""

from __future__ import annotations

import json
import threading
import uuid
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakSet, WeakValueDictionary

from kazoo.exceptions import (
    AuthFailedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NoNodeError,
    SessionExpiredError,
)
from kazoo.protocol.states import Callback, EventType, KeeperState, WatchedEvent

from parkazoo.driver import Driver, Reply, Serial
from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import GetData
from parkazoo.protocol.cluster_map import ClusterMap, format_hosts
from parkazoo.protocol.operations import look_again
from parkazoo.protocol.placement import ENSEMBLE, MAP
from parkazoo.protocol.session import pack_password, state_of, unpack_password
from parkazoo.protocol.steps import Request
from parkazoo.protocol.tree import Directory, Tree
from parkazoo.protocol.watches import DirectoryWatch
from parkazoo.wire.member import CLOSED_ERRORS, Member
from parkazoo.wire.workers import STATES, run_on

CONNECTED = (KeeperState.CONNECTED, KeeperState.CONNECTED_RO)
NOT_YET = (ConnectionLoss, SessionExpiredError)  # asked again once connected again
SESSION_PASSWORD_BYTES = 16


class Then:
    """A reply that is a function of the answer, which may be an exception."""

    def __init__(self, then: Callable[[Any], None]) -> None:
        self._then = then

    def set(self, value: Any = None) -> None:
        self._then(value)

    def set_exception(self, exception: Exception) -> None:
        self._then(exception)


class Session:
    """The members of a client and their common state.

    It begins with one member, for the bootstrap ensemble. The map that is read there names the others; when
    each of them has said that it is the ensemble that the map means, the session is open: operations that were
    issued before then are sent. All changes of state go through one queue, so that listeners see them in order.

    :param client: the ParKazooClient.
    :param make_member: makes a member from a name, hosts and a client_id.
    :param resume: the client_id of the session to go on with, if any.
    """

    def __init__(
        self,
        client: Any,
        make_member: Callable[[Session, str, str, Any], Member],
        resume: tuple[int, bytes] | None,
    ) -> None:
        self._client = client
        self._make_member = make_member
        self._resume = resume
        first = (resume[0], resume[1][:SESSION_PASSWORD_BYTES]) if resume else None
        self.bootstrap = make_member(self, "bootstrap", client.describe_hosts(), first)
        self.members: tuple[Member, ...] = (self.bootstrap,)
        self.cluster_map: ClusterMap | None = None
        self.failure: Exception | None = None
        self.driver: Driver | None = None
        self.is_stopping = False
        self._has_expired = False
        self._serial = Serial()
        self._states = {self.bootstrap: KeeperState.CONNECTING}
        self._unknown = {self.bootstrap}  # members that have not yet said which ensemble they are
        self._lock = threading.Lock()
        # The watches on directories without a mirror, by path, wherever they are: also those that just look again
        # and are in no table. Each watch holds its path's set. Only kazoo's watch thread uses it.
        self._armed: WeakValueDictionary[str, WeakSet[DirectoryWatch]] = WeakValueDictionary()
        self._early: deque[tuple[Request, Reply | None]] = deque()  # operations issued before the session is open

    # ---- operations ------------------------------------------------------------------------------

    def call(self, request: Request, reply: Reply | None) -> None:
        """Issue an operation; it waits until the session is open."""
        driver = self.driver
        if driver is None:
            with self._lock:
                driver = self.driver
                if driver is None and not self.is_stopping:
                    self._early.append((request, reply))
                    return
        if driver is None:
            if reply is not None:
                reply.set_exception(self._closed_error())
        else:
            driver.call(request, reply)

    def _closed_error(self) -> Exception:
        return self.failure or CLOSED_ERRORS[KeeperState.CLOSED]()

    # ---- begin -----------------------------------------------------------------------------------

    def begin(self) -> None:
        """Connect to the bootstrap ensemble, and from there on to all, without waiting for any of it."""
        self.bootstrap.begin()

    def _read_map(self, answer: Any) -> None:
        where = f"{MAP} on {self._client.describe_hosts()}"
        if isinstance(answer, NOT_YET) or self.is_stopping:
            return
        if isinstance(answer, NoNodeError):
            self._fail(ClusterMapError(f"no cluster map at {where}: make one with `parkazoo map init`"))
        elif isinstance(answer, NoAuthError):
            self._fail(ClusterMapError(f"may not read {where}: pass the cluster's identity in auth_data"))
        elif isinstance(answer, Exception):
            self._fail(answer)
        elif self.cluster_map is None:
            try:
                self.cluster_map = ClusterMap.from_json(answer[0])
            except ClusterMapError as error:
                self._fail(ClusterMapError(f"cannot use the cluster map at {where}: {error}"))
            else:
                self._meet_all(self.cluster_map)

    def _meet_all(self, cluster_map: ClusterMap) -> None:
        """Connect to the other ensembles, all at once."""
        names = cluster_map.names
        others = [name for name in names if name != cluster_map.bootstrap]
        resumed: list[Any] = [None] * len(others)
        if self._resume:
            sessions = unpack_password(self._resume[1][SESSION_PASSWORD_BYTES:], len(others))
            if sessions is None:
                self._client.logger.warning(
                    "The client_id is not one of a client of %d ensembles: starting a new session", len(names)
                )
                self._renew(self.bootstrap)
            else:
                resumed = list(sessions)
        self.bootstrap.name = cluster_map.bootstrap
        by_name = {cluster_map.bootstrap: self.bootstrap}
        for name, client_id in zip(others, resumed, strict=True):
            by_name[name] = self._make_member(self, name, cluster_map.ensembles[name], client_id)
        for member in by_name.values():
            self._states.setdefault(member, KeeperState.CONNECTING)
        new = [by_name[name] for name in others]
        with self._lock:
            if self.is_stopping:  # a start() may have timed out meanwhile
                return
            self._unknown.update(new)
            self.members = tuple(by_name[name] for name in names)  # now start() may tell that they are missing
            for member in new:
                member.begin()
        if self._has_expired:  # what is to be resumed has ended on the bootstrap ensemble: end it here too
            for member in new:
                self._renew(member)
        self._introduce(self.bootstrap)

    def _introduce(self, member: Member) -> None:
        if self.cluster_map is None:
            member.submit(GetData(MAP, None), Then(lambda answer: self._later(partial(self._read_map, answer))))
        else:
            then = Then(lambda answer: self._later(partial(self._check_identity, member, answer)))
            member.submit(GetData(ENSEMBLE, None), then)

    def _later(self, call: Callable[[], None]) -> None:
        """In turn, and not on the connections' loop: listeners may take their time."""
        run_on(STATES, self._client.handler, partial(self._serial, call))

    def _check_identity(self, member: Member, answer: Any) -> None:
        """Never write to an ensemble that is not the one that the map means."""
        assert self.cluster_map is not None
        hosts = self.cluster_map.ensembles[member.name]
        if isinstance(answer, NOT_YET) or member not in self._unknown:
            return
        if isinstance(answer, KazooException) and not isinstance(answer, NoNodeError):
            self._fail(answer)
            return
        expected = self.cluster_map.identity(member.name)
        try:
            found = None if isinstance(answer, NoNodeError) else json.loads(answer[0])
        except (TypeError, ValueError, RecursionError):  # of somebody else's making
            found = answer[0]
        if found != expected:
            self._fail(
                ClusterMapError(
                    f"the servers {hosts} are not ensemble {member.name} of this cluster: {ENSEMBLE} there is "
                    f"{found!r}, not {expected!r}. See `parkazoo map check`"
                )
            )
            return
        self._unknown.discard(member)
        if not self._unknown:
            self._open(self.cluster_map)

    def _open(self, cluster_map: ClusterMap) -> None:
        placement = cluster_map.make_placement()
        tree = Tree(placement, cluster_map.names, _new_mark, self._watch, self._settle, self._own)
        driver = Driver(tree, self.members)
        while True:
            with self._lock:
                if not self._early:
                    self.driver = driver
                    break
                early, self._early = self._early, deque()
            for request, reply in early:
                driver.call(request, reply)
        self._report()

    def _fail(self, error: Exception) -> None:
        if self.failure is None and not self.is_stopping:
            self.failure = error
            self._client.logger.error("Cannot start: %s", error)
            self.begin_stop()
            state = KeeperState.AUTH_FAILED if isinstance(error, AuthFailedError) else KeeperState.CLOSED
            self._client.session_changed(state)

    # ---- end -------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Begin to stop in turn: a member that is just being made is stopped too."""
        has_begun = self._client.handler.event_object()
        self._serial(self.begin_stop, has_begun.set)
        has_begun.wait(self._client.patience_s)

    def begin_stop(self) -> None:
        """Close every member's session, without waiting for it."""
        with self._lock:
            self.is_stopping = True
            early, self._early = self._early, deque()
        for _, reply in early:
            if reply is not None:
                reply.set_exception(self._closed_error())
        for member in self.members:
            member.begin_stop()

    def wait_stopped(self, timeout_s: float) -> bool:
        """Whether every member's connection thread has ended within the time."""
        have_stopped = [member._connection.stop(timeout_s) for member in self.members]  # each is waited for
        return all(have_stopped)

    def close(self) -> None:
        for member in self.members:
            member._connection.close()

    def abandon(self, error: Exception) -> None:
        """See :meth:`ParKazooClient.abandon`."""
        self.failure = error
        self.is_stopping = True
        for member in self.members:
            member.abandon()

    # ---- states ----------------------------------------------------------------------------------

    def member_changed(self, member: Member, state: str) -> None:
        """Called by the members, where they may wait; returns when listeners know."""
        is_taken = self._client.handler.event_object()
        self._serial(partial(self._take, member, state), is_taken.set)
        is_taken.wait(self._client.patience_s)

    def _take(self, member: Member, state: str) -> None:
        if state in CONNECTED and (member.is_renewing or member.client_state not in CONNECTED):
            return  # it was, and is about to tell what it is now
        self._states[member] = state
        if self.is_stopping:
            return
        if state in CONNECTED and member in self._unknown:
            self._introduce(member)
        if state == KeeperState.EXPIRED_SESSION:
            self._has_expired = True
            if self.driver is not None:
                self._client.session_changed(state)
            for other in self.members:
                if other is not member and self._states[other] != KeeperState.EXPIRED_SESSION:
                    self._renew(other)
        elif state in (KeeperState.AUTH_FAILED, KeeperState.CLOSED):
            self.begin_stop()
            self._client.session_changed(state)
        else:
            self._report()

    def _renew(self, member: Member) -> None:
        self._states[member] = KeeperState.CONNECTING
        member.renew()

    def _report(self) -> None:
        if self.driver is not None and not self.is_stopping:
            self._client.session_changed(state_of(self._states.values()))

    @property
    def client_id(self) -> tuple[int, bytes] | None:
        """The first session's id; its password and, packed behind it, the others. None if one has ended."""
        if not all(member._session_id for member in self.members):
            return None
        others = [member for member in self.members if member is not self.bootstrap]
        packed = pack_password((member._session_id, member._session_passwd) for member in others)
        return self.bootstrap._session_id, self.bootstrap._session_passwd + packed

    def describe_missing(self) -> str:
        """Who has not been reached and why, for the message of a time-out."""
        missing = [
            f"{self._describe(member)} ({format_hosts(member.hosts)}{member.trouble and f'; {member.trouble}'})"
            for member in self.members
            if self._states[member] not in CONNECTED
        ]
        return " and ".join(missing) or "all ensembles at once"

    def _describe(self, member: Member) -> str:
        return f"ensemble {member.name}" if self.cluster_map else "the bootstrap ensemble"

    # ---- what the tree needs ---------------------------------------------------------------------

    def unchroot(self, path: str) -> str:
        """The user's name for a member's physical path."""
        return str(self._client.unchroot(path))

    def _own(self, ensemble: int, stat: Any) -> Any:
        if stat.ephemeralOwner and stat.ephemeralOwner == self.members[ensemble]._session_id:
            return stat._replace(ephemeralOwner=self.bootstrap._session_id)
        return stat

    def _watch(self, d: Directory, watcher: Callable[[Any], Any]) -> DirectoryWatch:
        watch = DirectoryWatch(watcher, partial(self._look_again, d), partial(self._withdraw, d))
        watch.path = d.path
        return watch

    def _settle(self, watch: DirectoryWatch, has_succeeded: bool) -> None:
        def settle() -> None:
            if has_succeeded:
                watch.peers = self._armed.setdefault(watch.path, WeakSet())
                watch.peers.add(watch)
            watch.settle(has_succeeded)

        self._dispatch(settle)

    def _dispatch(self, call: Callable[[], None]) -> None:
        self._client.handler.dispatch_callback(Callback("watch", call, ()))

    def _look_again(self, d: Directory, watch: DirectoryWatch, event: WatchedEvent) -> None:
        def told(answer: Any) -> None:
            if answer is not None:  # after a failure nobody knows: as with kazoo's watches of a lost connection
                kind = EventType.NONE if isinstance(answer, Exception) else answer
                path = None if isinstance(answer, Exception) else event.path
                self._dispatch(partial(watch.fire, event._replace(type=kind, path=path)))

        assert self.driver is not None
        self.driver.run(look_again(d, watch), Then(told))

    def _withdraw(self, d: Directory, watch: DirectoryWatch, has_fired: bool) -> None:
        armed = self._armed.get(d.path, WeakSet())
        withdrawn = [watch]
        if has_fired:
            withdrawn += [each for each in armed if each.is_armed and each.watcher == watch.watcher]
        for each in withdrawn:
            self.members[d.home.ensemble]._child_watchers.get(d.home.path, set()).discard(each)
            self.members[d.mirror.ensemble]._data_watchers.get(d.mirror.path, set()).discard(each)
            self.members[d.mirror.ensemble]._child_watchers.get(d.mirror.path, set()).discard(each)
            armed.discard(each)
            each.end()


def _new_mark() -> str:
    return uuid.uuid4().hex
