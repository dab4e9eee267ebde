"""One ParKazoo session, from start() to stop(): a ZooKeeper session on each ensemble that the client uses."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from kazoo.exceptions import AuthFailedError, ConnectionLoss, SessionExpiredError
from kazoo.protocol.states import EventType, KeeperState, WatchedEvent

from parkazoo.engine.driver import Driver
from parkazoo.engine.early import Early
from parkazoo.engine.form_change import POLL_S
from parkazoo.engine.gate import Gate
from parkazoo.engine.growing import Growing
from parkazoo.engine.ports import Client, MemberT, Reply, Runtime, Timer
from parkazoo.engine.total import TotalDriver
from parkazoo.engine.watching import Watching
from parkazoo.kazoo_private import CONNECTION_DROP
from parkazoo.protocol.client_id import SessionId
from parkazoo.protocol.context import Context
from parkazoo.protocol.registration import Owners
from parkazoo.protocol.states import CONNECTED_STATES, is_fatal
from parkazoo.protocol.steps import Request

AWAY_POLL_S = 0.1  # between two looks for what waits for an ensemble that is away, while the client stops


class Session(Growing[MemberT]):
    """The members of a client and their common state.

    It begins with one member, on whichever ensemble answers first. The map there names the others. Each of them is
    joined when a request needs it, and stays joined. All changes of state happen on the loop, at once, and none of
    them waits.

    :ivar call: issues an operation; it waits until the session is open.
    :ivar interrupted_thread: was interrupted while it issued an operation, see :meth:`recover`.
    """

    call: Callable[[Request, Reply | None], None]

    def __init__(
        self,
        client: Client,
        runtime: Runtime,
        make_member: Callable[[Session[MemberT], str, str, SessionId | None], MemberT],
        resume: SessionId | None,
    ) -> None:
        super().__init__(client, runtime, make_member, resume)
        self.interrupted_thread: int | None = None
        self.leaves_sessions = False  # it could not resume them all: those that live are left as they are
        self.is_leaving = False  # the client has begun to stop: watches are called no more
        self.is_over = True  # nothing is left, or nothing has begun
        self._when_over: deque[Callable[[], None]] = deque()
        self._active = 0  # members whose connection has not ended
        self._patience: Timer | None = None  # while the client is suspended
        self._early = Early(runtime.make_lock(), self.refusal)
        self.call = self._early.call

    # ---- operations ------------------------------------------------------------------------------

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
        for port in self._unjoined():
            port.drop(ConnectionLoss)
        if self.driver is not None:
            self.driver.fail_all(ConnectionLoss)
        self.interrupted_thread = None  # at last: this may be interrupted too

    # ---- begin -----------------------------------------------------------------------------------

    def begin(self) -> None:
        """Connect to the first ensemble that answers, without waiting for it.

        :raises RuntimeError: no thread can be started.
        """
        self._runtime.begin()
        self.is_over = False
        self._runtime.call(self._begin_first)

    def _begin_first(self) -> None:
        if self.is_stopping:
            self._end()
        else:
            self._begin(self.first)

    def _begin(self, member: MemberT) -> None:
        self._active += 1
        member.begin()

    def _open(self) -> None:
        client = self._client
        self.watching = watching = Watching(
            self.ports, self._soon, self._runtime.deliver, lambda: client.client_state
        )
        context = Context(
            self._placement,
            self.names,
            self._runtime.new_mark,
            watching.watch,
            watching.settle,
            Owners(lambda at: self.ports[at].session_id, lambda: self.number, is_alone=self._atlas.is_of_one),
            self._runtime.make_lock(),
        )
        kind = TotalDriver if client.has_total_order else Driver
        watching.driver = driver = kind(context, self.ports, self._runtime.make_lock, client.unchroot)
        self._work_by_pins(driver)
        self.driver = driver
        self.gate = gate = Gate(driver.call, self._runtime.make_lock, self.refusal)
        self._early.open(gate.call)
        self.call = gate.call

    def _soon(self, call: Callable[[], None]) -> None:
        """Make a call on the loop; here, if that does not run for this session any more."""
        if self.is_over:
            call()
        else:
            self._runtime.call(call)

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
        if self.driver is not None:
            self.gate.fail()
        self._stop_waiting()
        for port in self._unjoined():
            port.fail()
        for member in self.members:
            if self.leaves_sessions and member.name in self._sessions:
                member.leave()
            else:
                member.begin_stop()

    def when_idle(self, call: Callable[[], None]) -> None:
        """Once the session is open: make `call` when no operation waits or needs another request."""
        assert self.driver is not None
        if self.is_changing:
            self._runtime.call(partial(self._when_changed, call))
        else:
            self.driver.when_idle(call)

    def _when_changed(self, call: Callable[[], None]) -> None:
        self._runtime.call_later(POLL_S, partial(self.when_idle, call))

    def fail_away(self) -> None:
        """On the loop, when the client is about to stop: nothing waits for an ensemble that is away any longer.

        Nor does what an operation asks next, nor for an ensemble that goes away only now.
        """
        if self.is_stopping:
            return
        for member in self._known:
            if not self._standing.is_connected(member):
                member.fail_waiting(None)
        self._runtime.call_later(AWAY_POLL_S, self.fail_away)

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
        self._standing.changed(member, state)
        if self.is_stopping:
            return
        if state == KeeperState.EXPIRED_SESSION:  # the member says next that it is connecting
            self._lose(f"that on ensemble {member.name} has expired", member)
        elif state in (KeeperState.AUTH_FAILED, KeeperState.CLOSED):
            self.begin_stop()
            self._change(state)
        else:
            if state == KeeperState.CONNECTING:
                self._miss(member)
            else:
                self._take_in(member)
            self._report()

    def _take_in(self, member: MemberT) -> None:
        """It is connected."""
        self._known.add(member)
        self._register_again(member)
        if self.driver is None and member is self.first:
            self._open()

    def _miss(self, member: MemberT) -> None:
        """It has lost its connection, and fails its requests next."""
        if self._standing.lost(member, member.has_ephemerals, member.has_watches, member.has_unanswered):
            self._runtime.call(partial(self._calm, member))

    def _calm(self, member: MemberT) -> None:
        self._standing.calmed(member)
        self._report()

    def member_missed(self, member: MemberT) -> None:
        """See :meth:`parkazoo.engine.ports.Owner.member_missed`."""
        self._standing.awaits(member)
        self._report()

    def member_told(self, member: MemberT) -> None:
        """See :meth:`parkazoo.engine.ports.Owner.member_told`."""
        if self.driver is not None:
            self.driver.hear(self.names.index(member.name))

    def is_fatal(self, member: MemberT) -> bool:
        """See :meth:`parkazoo.engine.ports.Owner.is_fatal`."""
        return is_fatal(member.has_ephemerals, self._atlas.is_of_one or self.driver is None)

    def drop_connections(self) -> None:
        """On the loop, for tests: every connection breaks, and the client is suspended until all are back."""
        for member in self.members:
            self._standing.awaits(member)
            member.submit(CONNECTION_DROP, None)

    def expire(self, why: str) -> None:
        """On the loop: end the session; it begins anew.

        :param why: for the log.
        """
        if not self.is_stopping:
            self._lose(why)
            self._report()

    def _lose(self, why: str, expired: MemberT | None = None) -> None:
        """Close the sessions on all ensembles. All begin anew, and nothing is left of the old ones.

        :param expired: has none any more.
        """
        self._stop_waiting()
        self._sessions = {}
        if self.driver is not None:
            self._change(KeeperState.EXPIRED_SESSION)
            self.driver.fail_all(SessionExpiredError)
        self._number = self._runtime.new_number()  # not before it is LOST
        self._standing.begins_anew()
        for port in self._unjoined():
            port.drop(SessionExpiredError)
        for member in self.members:
            if member is not expired and self._standing[member] != KeeperState.EXPIRED_SESSION:
                member.renew(why)
                member.drop_watches(KeeperState.EXPIRED_SESSION)

    def _report(self) -> None:
        if self.driver is not None and not self.is_stopping:
            self._change(self._standing.state)

    def _change(self, state: str) -> None:
        """As with kazoo, every watch hears when the client is no longer connected; programs set them again."""
        was_connected = self._client.client_state in CONNECTED_STATES
        self._client.session_changed(state)
        if state in CONNECTED_STATES:
            self._stop_waiting()
        elif was_connected:
            self.drop_watches(state)
            if state == KeeperState.CONNECTING:
                self._wait()

    def _wait(self) -> None:
        """The client is suspended, but not for longer than it wants to be."""
        limit_s = self._client.give_up_after_s
        if limit_s is not None:
            why = f"the client has been suspended for {limit_s:g} s"
            self._patience = self._runtime.call_later(limit_s, partial(self.expire, why))

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def drop_watches(self, state: str) -> None:
        """Call every watch with the event NONE, once, and forget it.

        :param state: the KeeperState in the event: the client's, whatever the member's is.
        """
        for member in self.members:
            member.drop_watches(state)
        if self.watching is not None:
            self.watching.drop(WatchedEvent(EventType.NONE, state, None))
