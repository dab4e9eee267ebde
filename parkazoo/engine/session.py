"""One ParKazoo session: N ZooKeeper sessions that live and die together, from start() to stop()."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import WeakSet, WeakValueDictionary

from kazoo.exceptions import (
    AuthFailedError,
    ConnectionLoss,
    NoAuthError,
    NoNodeError,
    SessionExpiredError,
)
from kazoo.protocol.states import Callback, EventType, KeeperState, WatchedEvent

from parkazoo.engine.driver import Driver, Reply
from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import GetData
from parkazoo.protocol.client_id import SESSION_PASSWORD_BYTES, pack_password, unpack_password
from parkazoo.protocol.cluster_map import ClusterMap, no_map_error
from parkazoo.protocol.operations import look_again
from parkazoo.protocol.placement import ENSEMBLE, MAP, Directory
from parkazoo.protocol.states import state_of
from parkazoo.protocol.steps import Request
from parkazoo.protocol.tree import Tree
from parkazoo.protocol.watches import DirectoryWatch
from parkazoo.wire import loop as loops
from parkazoo.wire.member import CLOSED_ERRORS, CONNECTED_STATES, Gate, Member

# Asked again once connected again; RuntimeError: the answer was another request's, and the connection has ended.
NOT_YET = (ConnectionLoss, SessionExpiredError, RuntimeError)
POLL_S = 0.1


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
    issued before then are sent. All changes of state happen on the loop, at once, and none of them waits.

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
        self.loop: loops.Loop
        self._has_expired = False
        self._interrupted: int | None = None  # a thread that was, while it sent
        self._states = {self.bootstrap: KeeperState.CONNECTING}
        self._unknown = {self.bootstrap}  # members that have not yet said which ensemble they are
        self._active = 0  # members whose connection has not ended
        self.is_over = True  # nothing is left, or nothing has begun
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

    def interrupted(self) -> None:
        """In a thread in which an exception has been raised while it issued an operation: nobody knows where."""
        self._interrupted = threading.get_ident()
        self.mend()

    def mend(self) -> None:
        """After :meth:`interrupted`: what may be half done is dropped, with the connections. They come back."""
        thread = self._interrupted
        if thread is None:
            return
        for member in self.members:
            member.distrust(thread)
        if self.driver is not None:
            self.driver.fail_all(ConnectionLoss)
        self._interrupted = None  # at last: this may be interrupted too

    # ---- begin -----------------------------------------------------------------------------------

    def begin(self) -> None:
        """Connect to the bootstrap ensemble, and from there on to all, without waiting for any of it.

        :raises RuntimeError: no thread can be started.
        """
        self.loop = loops.join(self._client.handler)
        self.is_over = False
        self.loop.call(self._begin_first)

    def _begin_first(self) -> None:
        if self.is_stopping:
            self._end()
        else:
            self._begin(self.bootstrap)

    def _begin(self, member: Member) -> None:
        self._active += 1
        member.begin()

    def _read_map(self, answer: Any) -> None:
        where = f"{MAP} on {self._client.describe_hosts()}"
        if isinstance(answer, NOT_YET) or self.is_stopping:
            return
        if isinstance(answer, NoNodeError):
            self._ask(self.bootstrap, ENSEMBLE, self._explain_no_map)
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

    def _explain_no_map(self, answer: Any) -> None:
        if not isinstance(answer, NOT_YET):
            record = None if isinstance(answer, Exception) else answer[0]
            self._fail(no_map_error(self._client.describe_hosts(), record))

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
        self.bootstrap.rename(cluster_map.bootstrap)
        by_name = {cluster_map.bootstrap: self.bootstrap}
        for name, client_id in zip(others, resumed, strict=True):
            by_name[name] = member = self._make_member(self, name, cluster_map.ensembles[name], client_id)
            member.verify = partial(self._verify, member)
            self._states[member] = KeeperState.CONNECTING
            self._unknown.add(member)
        with self._lock:
            if self.is_stopping:
                return
            self.members = tuple(by_name[name] for name in names)  # now start() may tell that they are missing
        for name in others:
            self._begin(by_name[name])
            if self._has_expired:  # what is to be resumed has ended on the bootstrap ensemble: end it here too
                self._renew(by_name[name])
        self._introduce(self.bootstrap)

    def _introduce(self, member: Member) -> None:
        """It is connected for the first time. All but the first have been asked who they are by now."""
        if self.cluster_map is None:
            self._ask(member, MAP, self._read_map)
        elif member.verify is None:
            self._ask(member, ENSEMBLE, partial(self._hear_identity, member))
        else:
            self._know(member)

    def _ask(self, member: Member, path: str, then: Callable[[Any], None]) -> None:
        member.submit(GetData(path, None), Then(lambda answer: self.loop.call(partial(then, answer))))

    def _hear_identity(self, member: Member, answer: Any) -> None:
        if not isinstance(answer, NOT_YET) and self._verify(member, answer) is None:
            member.verify = partial(self._verify, member)
            self._know(member)

    def _verify(self, member: Member, answer: Any) -> Exception | None:
        """Never write to an ensemble that is not the one that the map means.

        :param answer: to a read of the ensemble's identity; with it begins each connection.
        :returns: what is wrong. Before the session is open, that is its end.
        """
        assert self.cluster_map is not None
        error = self._compare(self.cluster_map, member, answer)
        if error is not None and self.driver is None:
            self._fail(error)
        return error

    @staticmethod
    def _compare(cluster_map: ClusterMap, member: Member, answer: Any) -> Exception | None:
        if isinstance(answer, Exception) and not isinstance(answer, NoNodeError):
            return answer
        expected = cluster_map.identity(member.name)
        try:
            found = None if isinstance(answer, NoNodeError) else json.loads(answer[0])
        except (TypeError, ValueError, RecursionError):  # of somebody else's making
            found = answer[0]
        if found == expected:
            return None
        told = f"is {found!r}, not {expected!r}"
        if isinstance(answer, NoNodeError):
            told = "is missing; if they are its servers, they have lost their data"
        return ClusterMapError(
            f"the servers {cluster_map.ensembles[member.name]} are not ensemble {member.name} of this cluster: "
            f"{ENSEMBLE} there {told}. See `parkazoo map check`"
        )

    def _know(self, member: Member) -> None:
        self._unknown.discard(member)
        if not self._unknown and self.driver is None and not self.is_stopping:
            assert self.cluster_map is not None
            self._open(self.cluster_map)

    def _open(self, cluster_map: ClusterMap) -> None:
        placement = cluster_map.make_placement()
        tree = Tree(
            placement, cluster_map.names, _new_mark, self._watch, self._settle, self._own, threading.Lock()
        )
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
            self._change(state)

    @property
    def gate(self) -> Gate:
        gate: Gate = self._client.listeners
        return gate

    # ---- end -------------------------------------------------------------------------------------

    @property
    def is_leaving(self) -> bool:
        return self.is_stopping or bool(self._client._stopped.is_set())

    def stop(self, timeout_s: float) -> bool:
        """Close every member's session. Whether all have been within the time."""
        deadline_s = time.monotonic() + timeout_s
        if not self.is_over:
            has_begun = self._client.handler.event_object()
            self.loop.call(partial(self._begin_stop, has_begun.set))
            # Members may just be made: they are waited for too.
            while not (has_begun.wait(POLL_S) or self.is_over or time.monotonic() > deadline_s):
                pass
        has_stopped = True
        for member in self.members:  # each is waited for
            has_stopped &= member._connection.stop(max(0.0, deadline_s - time.monotonic()))
        return has_stopped

    def _begin_stop(self, has_begun: Callable[[], None]) -> None:
        self.begin_stop()
        has_begun()

    def begin_stop(self) -> None:
        """On the loop: close every member's session, without waiting for it."""
        with self._lock:
            self.is_stopping = True
            early, self._early = self._early, deque()
        for _, reply in early:
            if reply is not None:
                reply.set_exception(self._closed_error())
        for member in self.members:
            member.begin_stop()

    def member_ended(self, member: Member) -> None:
        """The last of them lets go of the loop."""
        self._active -= 1
        if not self._active:
            self._end()

    def _end(self) -> None:
        self.is_over = True
        loops.leave(self.loop)

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

    def resume(self) -> None:
        """The gate is open: what servers have answered meanwhile can be taken."""
        for member in self.members:
            member._connection.resume()

    def member_changed(self, member: Member, state: str) -> None:
        """Called by the members, on the loop."""
        self._states[member] = state
        if self.is_stopping:
            return
        if state in CONNECTED_STATES and member in self._unknown:
            self._introduce(member)
        if state == KeeperState.EXPIRED_SESSION:
            self._expire(member)
        elif state in (KeeperState.AUTH_FAILED, KeeperState.CLOSED):
            self.begin_stop()
            self._change(state)
        else:
            self._report()

    def _expire(self, expired: Member) -> None:
        self._has_expired = True
        if self.driver is not None:
            self._change(KeeperState.EXPIRED_SESSION)
            self.driver.fail_all(SessionExpiredError)
        for member in self.members:
            if member is not expired and self._states[member] != KeeperState.EXPIRED_SESSION:
                member._connection.report.renewed(expired.name)
                self._renew(member)

    def _renew(self, member: Member) -> None:
        self._states[member] = KeeperState.CONNECTING
        member.renew()

    def _report(self) -> None:
        if self.driver is not None and not self.is_stopping:
            self._change(state_of(self._states.values()))

    def _change(self, state: str) -> None:
        """As with kazoo, every watch hears when the client is no longer connected; programs set them again."""
        was_connected = self._client.client_state in CONNECTED_STATES
        self._client.session_changed(state)
        if was_connected and state not in CONNECTED_STATES:
            self.drop_watches(state)

    def drop_watches(self, state: str) -> None:
        """Call every watch with the event NONE, once, and forget it."""
        for member in self.members:
            member.drop_watches()
        self._dispatch(partial(self._drop_armed, WatchedEvent(EventType.NONE, state, None)))

    def _drop_armed(self, event: WatchedEvent) -> None:
        """Also those that just look again, and are in no table."""
        for watches in list(self._armed.values()):
            for watch in list(watches):
                watch.fire(event)

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
            f"{self._describe(member)} ({member.describe_troubles()})"
            for member in self.members
            if self._states[member] not in CONNECTED_STATES
        ]
        return " and ".join(missing) or "all ensembles at once"

    def _describe(self, member: Member) -> str:
        return f"ensemble {member.name}" if self.cluster_map else "the bootstrap ensemble"

    # ---- what the tree needs ---------------------------------------------------------------------

    def logger_for(self, name: str) -> Any:
        """The log of the ensemble's connection."""
        return self._client.logger_for(name)

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
            for other in set(watch.peers or ()) - {watch}:
                watch.replace(other)

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
