"""One ParKazoo session: N ZooKeeper sessions that live and die together, from start() to stop()."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Generic

from kazoo.exceptions import (
    AuthFailedError,
    ConnectionLoss,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
)
from kazoo.protocol.states import EventType, KeeperState, WatchedEvent

from parkazoo.engine.driver import Driver
from parkazoo.engine.early import Early
from parkazoo.engine.ports import Client, MemberT, OnAnswer, Reply, Runtime
from parkazoo.engine.watching import Watching
from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import GetData, SetData
from parkazoo.protocol.client_id import SESSION_PASSWORD_BYTES, pack_client_id, unpack_password
from parkazoo.protocol.cluster_map import ClusterMap, identity_error, no_map_error
from parkazoo.protocol.context import Context
from parkazoo.protocol.placement import ENSEMBLE, MAP
from parkazoo.protocol.registration import Owners
from parkazoo.protocol.states import ASKED_AGAIN, CLOSED_ERRORS, CONNECTED_STATES, state_of
from parkazoo.protocol.steps import Request


class Session(Generic[MemberT]):
    """The members of a client and their common state.

    It begins with one member, for the bootstrap ensemble. The map there names the others. When each member has
    confirmed that it is the ensemble that the map means, the session is open and sends the operations that were
    issued before. All changes of state happen on the loop, at once, and none of them waits.

    :param make_member: makes a member from its owner, a name, hosts and a client_id.
    :param resume: the client_id of the session to go on with, if any.
    :ivar call: issues an operation; it waits until the session is open.
    :ivar number: the client's id, which is that of its session on the bootstrap ensemble; 0 before that begins.
    :ivar interrupted_thread: was interrupted while it issued an operation, see :meth:`recover`.
    """

    call: Callable[[Request, Reply | None], None]

    def __init__(
        self,
        client: Client,
        runtime: Runtime,
        make_member: Callable[[Session[MemberT], str, str, tuple[int, bytes] | None], MemberT],
        resume: tuple[int, bytes] | None,
    ) -> None:
        self._client = client
        self._runtime = runtime
        self._make_member = make_member
        self._resume = resume
        first = (resume[0], resume[1][:SESSION_PASSWORD_BYTES]) if resume else None
        self.bootstrap = make_member(self, "bootstrap", client.describe_hosts(), first)
        self.members: tuple[MemberT, ...] = (self.bootstrap,)
        self.cluster_map: ClusterMap | None = None
        self.failure: Exception | None = None
        self.number = 0
        self.driver: Driver | None = None  # once the session is open
        self.watching: Watching | None = None  # likewise
        self.interrupted_thread: int | None = None
        self.is_leaving = False  # the client has begun to stop: watches are called no more
        self.is_stopping = False  # the members have been asked to end
        self.is_over = True  # nothing is left, or nothing has begun
        self._when_over: deque[Callable[[], None]] = deque()
        self._has_expired = False
        self._states = {self.bootstrap: KeeperState.CONNECTING}
        self._unidentified = {self.bootstrap}  # members that have not yet said which ensemble they are
        self._active = 0  # members whose connection has not ended
        self._early = Early(runtime.make_lock(), self._refusal)
        self.call = self._early.call

    # ---- operations ------------------------------------------------------------------------------

    def _refusal(self) -> Exception | None:
        return (self.failure or CLOSED_ERRORS[KeeperState.CLOSED]()) if self.is_stopping else None

    def interrupted(self, thread: int) -> None:
        """An exception was raised in a thread while it issued an operation, at an unknown point of it."""
        self.interrupted_thread = thread
        self.recover()

    def recover(self) -> None:
        """After :meth:`interrupted`: drop what may be half done, with the connections. They come back."""
        thread = self.interrupted_thread
        if thread is None:
            return
        for member in self.members:
            member.distrust(thread)
        if self.driver is not None:
            self.driver.fail_all(ConnectionLoss)
        self.interrupted_thread = None  # at last: this may be interrupted too

    # ---- begin -----------------------------------------------------------------------------------

    def begin(self) -> None:
        """Connect to the bootstrap ensemble, and from there on to all, without waiting for any of it.

        :raises RuntimeError: no thread can be started.
        """
        self._runtime.begin()
        self.is_over = False
        self._runtime.call(self._begin_first)

    def _begin_first(self) -> None:
        if self.is_stopping:
            self._end()
        else:
            self._begin(self.bootstrap)

    def _begin(self, member: MemberT) -> None:
        self._active += 1
        member.begin()

    def _read_map(self, answer: Any) -> None:
        where = f"{MAP} on {self._client.describe_hosts()}"
        if isinstance(answer, ASKED_AGAIN) or self.is_stopping:
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
                self._connect_others(self.cluster_map)

    def _explain_no_map(self, answer: Any) -> None:
        if not isinstance(answer, ASKED_AGAIN):
            record = None if isinstance(answer, Exception) else answer[0]
            self._fail(no_map_error(self._client.describe_hosts(), record))

    def _connect_others(self, cluster_map: ClusterMap) -> None:
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
            self._introduce(member)
            self._states[member] = KeeperState.CONNECTING
            self._unidentified.add(member)
        if self.is_stopping:
            return
        self.members = tuple(by_name[name] for name in names)  # from now on start() can name the missing ones
        for name in others:
            self._begin(by_name[name])
            if self._has_expired:  # the session to resume has ended on the bootstrap ensemble: end it here too
                self._renew(by_name[name])
        self._identify(self.bootstrap)

    def _identify(self, member: MemberT) -> None:
        """It is connected for the first time. All but the first have given their identity by now."""
        if self.cluster_map is None:
            self._ask(member, MAP, self._read_map)
        elif member.verify is None:
            self._ask(member, ENSEMBLE, partial(self._take_identity, member))
        else:
            self._identified(member)

    def _ask(self, member: MemberT, path: str, then: Callable[[Any], None]) -> None:
        self._ask_with(member, GetData(path, None), then)

    def _ask_with(self, member: MemberT, request: Request, then: Callable[[Any], None]) -> None:
        member.submit(request, OnAnswer(lambda answer: self._runtime.call(partial(then, answer))))

    def _take_identity(self, member: MemberT, answer: Any) -> None:
        if not isinstance(answer, ASKED_AGAIN) and self._verify(member, answer) is None:
            self._introduce(member)
            self._register(member, member.session_id, self._registration(member, member.session_id))

    def _register(self, member: MemberT, session: int, request: Request) -> None:
        """On a connection that began without: the member knew of no map then. From now on each begins with it."""

        def take(answer: Any) -> None:
            if isinstance(answer, NodeExistsError):  # the session is resumed
                self._register(member, session, SetData(request.path, request.data, -1))
            elif not isinstance(answer, ASKED_AGAIN):
                member.registered(session, answer)
                self._identified(member)

        self._ask_with(member, request, take)

    def _introduce(self, member: MemberT) -> None:
        """Have its connections verify which ensemble it is, and its sessions register, from now on."""
        member.verify = partial(self._verify, member)
        member.registration = partial(self._registration, member)

    def _registration(self, member: MemberT, session: int) -> Request:
        assert self.cluster_map is not None
        client = session if member is self.bootstrap else self.number
        return self._client.registration(session, client, self.cluster_map.epoch)

    def _verify(self, member: MemberT, answer: Any) -> Exception | None:
        """Refuse an ensemble that is not the one that the map means, before anything is written there.

        :param answer: to a read of the ensemble's identity, with which each connection begins.
        :returns: what is wrong. Before the session is open, that is its end.
        """
        assert self.cluster_map is not None
        error = identity_error(self.cluster_map, member.name, answer)
        if error is not None and self.driver is None:
            self._fail(error)
        return error

    def _identified(self, member: MemberT) -> None:
        self._unidentified.discard(member)
        if not self._unidentified and self.driver is None and not self.is_stopping:
            assert self.cluster_map is not None
            self._open(self.cluster_map)

    def _open(self, cluster_map: ClusterMap) -> None:
        placement, client = cluster_map.make_placement(), self._client
        self.watching = watching = Watching(self.members, self._runtime.dispatch, lambda: client.client_state)
        context = Context(
            placement,
            cluster_map.names,
            self._runtime.new_mark,
            watching.watch,
            watching.settle,
            Owners(lambda at: self.members[at].session_id, lambda: self.number, is_alone=len(self.members) == 1),
            self._runtime.make_lock(),
        )
        watching.driver = driver = Driver(context, self.members, self._runtime.make_lock)
        self.driver = driver
        self._early.open(driver.call)
        self.call = driver.call
        self._report()

    def _fail(self, error: Exception) -> None:
        if self.failure is None and not self.is_stopping:
            self.failure = error
            self._client.logger.error("Cannot start: %s", error)
            self.begin_stop()
            state = KeeperState.AUTH_FAILED if isinstance(error, AuthFailedError) else KeeperState.CLOSED
            self._change(state)

    # ---- end -------------------------------------------------------------------------------------

    def stop(self, when_over: Callable[[], None]) -> None:
        """Close every member's session, without waiting for it.

        :param when_over: is called when all have ended, on the loop or here.
        """
        self._when_over.append(when_over)
        if self.is_over:
            self._tell_over()
        else:
            self._runtime.call(self._stop)

    def _tell_over(self) -> None:
        while True:
            try:
                call = self._when_over.popleft()
            except IndexError:
                return
            call()

    def _stop(self) -> None:
        self.begin_stop()
        if not self._active and not self.is_over:  # it was interrupted before it could begin
            self._end()

    def begin_stop(self) -> None:
        """On the loop: close every member's session, without waiting for it."""
        self.is_leaving = self.is_stopping = True
        self._early.fail()
        for member in self.members:
            member.begin_stop()

    def member_ended(self, member: MemberT) -> None:
        """The last of them lets go of the loop."""
        self._active -= 1
        if not self._active:
            self._end()

    def _end(self) -> None:
        self.is_over = True
        self._runtime.end()
        self._tell_over()

    def close(self) -> None:
        for member in self.members:
            member.close()

    def abandon(self, error: Exception) -> None:
        """See :meth:`ParKazooClient.abandon`."""
        self.failure = error
        self.is_leaving = self.is_stopping = True
        for member in self.members:
            member.abandon()

    # ---- states ----------------------------------------------------------------------------------

    def member_changed(self, member: MemberT, state: str) -> None:
        """Called by the members, on the loop."""
        self._states[member] = state
        if self.is_stopping:
            return
        if state in CONNECTED_STATES:
            if not self.number:
                self._begin_life(member.session_id)
            if member in self._unidentified:
                self._identify(member)
        if state == KeeperState.EXPIRED_SESSION:
            self._expire(member)
        elif state in (KeeperState.AUTH_FAILED, KeeperState.CLOSED):
            self.begin_stop()
            self._change(state)
        else:
            self._report()

    def may_begin(self, member: MemberT) -> bool:
        """Called by the members, on the loop."""
        return member is self.bootstrap or self.number != 0

    def _begin_life(self, number: int) -> None:
        self.number = number
        for member in self.members:
            member.go_on()

    def _expire(self, expired: MemberT) -> None:
        self._has_expired = True
        self.number = 0
        if self.driver is not None:
            self._change(KeeperState.EXPIRED_SESSION)
            self.driver.fail_all(SessionExpiredError)
        for member in self.members:
            if member is not expired and self._states[member] != KeeperState.EXPIRED_SESSION:
                self._renew(member, expired.name)

    def _renew(self, member: MemberT, expired: str | None = None) -> None:
        if member is self.bootstrap:
            self.number = 0
        self._states[member] = KeeperState.CONNECTING
        member.renew(expired)
        member.drop_watches(KeeperState.EXPIRED_SESSION)

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
        """Call every watch with the event NONE, once, and forget it.

        :param state: the KeeperState in the event: the client's, whatever the member's is.
        """
        for member in self.members:
            member.drop_watches(state)
        if self.watching is not None:
            self.watching.drop(WatchedEvent(EventType.NONE, state, None))

    @property
    def client_id(self) -> tuple[int, bytes] | None:
        """The first session's id; its password and, packed behind it, the others. None if one has ended."""
        others = [member for member in self.members if member is not self.bootstrap]
        sessions = [(member.session_id, member.session_password) for member in (self.bootstrap, *others)]
        return pack_client_id(sessions)

    def describe_missing(self) -> str:
        """The ensembles that were not reached and why, for the message of a time-out."""
        name = "ensemble {}" if self.cluster_map else "the bootstrap ensemble"
        missing = [
            f"{name.format(member.name)} ({member.describe_troubles()})"
            for member in self.members
            if self._states[member] not in CONNECTED_STATES
        ]
        return " and ".join(missing) or "all ensembles at once"
