"""One ParKazoo session, from start() to stop(): a ZooKeeper session on each ensemble that the client uses."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Generic

from kazoo.exceptions import AuthFailedError, ConnectionLoss, SessionExpiredError
from kazoo.protocol.states import EventType, KeeperState, WatchedEvent

from parkazoo.engine.driver import Driver
from parkazoo.engine.early import Early
from parkazoo.engine.following import Following
from parkazoo.engine.form_change import POLL_S
from parkazoo.engine.gate import Gate
from parkazoo.engine.lasting import Lasting
from parkazoo.engine.map_events import MapEvents
from parkazoo.engine.observed import ObservedOperations
from parkazoo.engine.parting import Parting
from parkazoo.engine.ports import BodyReply, Client, MemberT, OnAnswer, Reply, Runtime, Timer
from parkazoo.engine.registering import Registering
from parkazoo.engine.roster import Roster
from parkazoo.engine.total import TotalDriver
from parkazoo.engine.watching import Watching
from parkazoo.errors import WentBackError
from parkazoo.kazoo_private import CONNECTION_DROP, Create, Exists
from parkazoo.monitoring import EnsembleWentBack
from parkazoo.protocol.client_id import SessionId, pack_sessions
from parkazoo.protocol.context import Context
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.past import Past
from parkazoo.protocol.registration import Owners
from parkazoo.protocol.server_list import Server
from parkazoo.protocol.standing import Standing
from parkazoo.protocol.states import CLOSED_ERRORS, CONNECTED_STATES, is_fatal
from parkazoo.protocol.steps import DataAnswer, Request
from parkazoo.protocol.where.places import Places
from parkazoo.types import AddWatchMode
from parkazoo.types.znodes import Watch

Call = Callable[[Request, Reply | None], None]
AWAY_POLL_S = 0.1  # between two looks for what waits for an ensemble that is away, while the client stops


class Session(Generic[MemberT]):
    """Begins and ends the members of a client, and makes one state of theirs.

    It begins with one member, on whichever ensemble answers first. The map there names the others. Each of them is
    joined when a request needs it, and stays joined. All changes of state happen on the loop, at once, and none of
    them waits. The session has no lock: other threads read single attributes, and :attr:`call` may come from any.

    :ivar roster: the ensembles and members. :ivar registering: their registrations.
    :ivar call: issues an operation; it waits until the session is open.
    :ivar driver: from then on. :ivar gate: through which operations come to it. :ivar watching: their watches.
    :ivar failure: why the client could not start, or cannot go on.
    :ivar is_stopping: the members have been asked to end.
    :ivar is_leaving: the client has begun to stop: watches are called no more.
    :ivar is_over: nothing is left, or nothing has begun.
    :ivar leaves_sessions: it could not resume them all: living ones are left as they are.
    :ivar leaves_all: no session is closed, on any ensemble: another client goes on with them.
    :ivar interrupted_thread: was interrupted while it issued an operation, see :meth:`recover`.
    """

    call: Call
    gate: Gate

    def __init__(
        self,
        client: Client,
        runtime: Runtime,
        make_member: Callable[[Session[MemberT], str, str, SessionId | None], MemberT],
        resume: SessionId | None,
    ) -> None:
        self._client = client
        self._runtime = runtime
        self.failure: Exception | None = None
        self.interrupted_thread: int | None = None
        self.leaves_sessions = self.leaves_all = self.is_leaving = self.is_stopping = False
        self.is_over = True
        self.driver: Driver | None = None
        self.watching: Watching | None = None
        self._lasting: Lasting | None = None  # once it is open
        self._standing: Standing[MemberT] = Standing()
        number = None if resume is None else resume[0]
        self.registering = Registering(client, runtime, self._standing, number, self._call_later)
        self.roster = Roster(self, client, runtime, make_member, resume, self._standing, self.registering)
        self._following: Following[MemberT] | None = None  # once it is open
        self._map_events: MapEvents[MemberT] = MapEvents(
            self._call_later,
            lambda: self.roster.cluster_map,
            self._is_connected,
            lambda: self.registering.part,
            self._must_hurry,
        )
        self._when_over: deque[Callable[[], None]] = deque()
        self._active = 0  # members whose connection has not ended
        self._patience: Timer | None = None  # while the client is suspended
        self._early: Early[Request] = Early(runtime.make_lock(), self.refusal)
        self.call = self._observed(self._early.call)

    def _observed(self, call: Call) -> Call:
        """The same, telling of each operation if somebody wants to hear of them."""
        monitor = self._client.monitor
        meter = None if monitor is None else monitor.operation_meter
        if monitor is None or meter is None:
            return call
        return ObservedOperations(call, meter, monitor.now_s).call

    @property
    def number(self) -> int:
        """The client's id. If there is one ensemble it is the session's there, as with kazoo."""
        return self.roster.first.session_id if self.roster.has_stayed_one else self.registering.number

    @property
    def client_id(self) -> SessionId | None:
        """The client's id, and what resumes its sessions. None if there is no session."""
        first = self.roster.first
        if self.roster.has_stayed_one:
            return (first.session_id, first.session_password) if first.session_id else None
        sessions = {each.name: (each.session_id, each.session_password) for each in self.roster.members}
        return self.number, pack_sessions({name: each for name, each in sessions.items() if each[0]})

    def refusal(self) -> Exception | None:
        """Why no request is taken any more; None as long as they are."""
        return (self.failure or CLOSED_ERRORS[KeeperState.CLOSED]()) if self.is_stopping else None

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
        for member in self.roster.members:
            member.distrust(thread)
        for port in self.roster.unjoined():
            port.drop(ConnectionLoss)
        if self.driver is not None:
            self.driver.fail_all(ConnectionLoss)
        self.interrupted_thread = None  # at last: this may be interrupted too

    def call_placed(self, kind: int, path: str, rest: bytes, reply: BodyReply) -> bool:
        """See :meth:`Driver.call_placed`. False also while operations are kept, or if somebody listens or counts.

        Only the loop's thread may call. Its request is sent at once, so the gate does not count it.
        """
        driver = self.driver
        if driver is None or self._client.monitor is not None or self.gate.is_shut:
            return False
        return driver.call_placed(kind, path, rest, reply)

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
            self.begin_member(self.roster.first)

    def begin_member(self, member: MemberT) -> None:
        """Have a member connect."""
        self._active += 1
        member.begin()

    def _open(self) -> None:
        client, runtime, roster = self._client, self._runtime, self.roster
        ports = roster.ports
        self.watching = watching = Watching(ports, self._soon, runtime.deliver, lambda: client.client_state)
        self._lasting = Lasting(watching, ports, self._soon, runtime.deliver)
        context = Context(
            Form.PLAIN,
            Places(roster.placement, lock=runtime.make_lock()),
            roster.names,
            runtime.new_mark,
            watching.watch,
            watching.settle,
            Owners(lambda at: ports[at].session_id, lambda: self.number, is_alone=roster.is_of_one),
            Past(len(roster.names), runtime.make_lock()),
            roster.is_joined,
            roster.is_connected,
            roster.take_beside,
        )
        kind = TotalDriver if client.has_total_order else Driver
        watching.driver = driver = kind(context, roster.asked, runtime.make_lock, client.unchroot)
        self.gate = gate = Gate(driver.call, runtime.make_lock, self.refusal)
        self._following = Following(
            runtime,
            driver,
            gate,
            roster,
            self._standing,
            self._report,
            lambda: self.is_stopping,
            self._acknowledge,
            Parting(runtime, roster, self._standing, self._report, self._lose, lambda: self.is_stopping).go_on,
            lambda: client.client_state,
            self._lasting.end,
        )
        self.driver = driver
        self._early.open(gate.call)
        self.call = self._observed(gate.call)

    def _soon(self, call: Callable[[], None]) -> None:
        """Make a call on the loop; here, if that does not run for this session any more."""
        if self.is_over:
            call()
        else:
            self._runtime.call(call)

    def fail(self, error: Exception) -> None:
        """Stop: the client cannot start."""
        if self.failure is None and not self.is_stopping:
            self.failure = error
            self._client.logger.error("Cannot start: %s", error, extra={"reason": str(error)})
            self.begin_stop()
            state = KeeperState.AUTH_FAILED if isinstance(error, AuthFailedError) else KeeperState.CLOSED
            self._change(state)

    def have_mistaken(self, error: Exception) -> None:
        """See :meth:`parkazoo.engine.ports.Owner.have_mistaken`. If it is open, another attempt may do."""
        if self.driver is None:
            self.fail(error)

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
        for port in self.roster.unjoined():
            port.fail()
        for member in self.roster.members:
            if self.leaves_all or (self.leaves_sessions and member.name in self.roster.sessions):
                member.leave()
            else:
                member.begin_stop()
        if self.driver is not None:
            self.driver.fail_held(self.refusal() or ConnectionLoss())

    def when_idle(self, call: Callable[[], None], is_issuing: Callable[[], bool] = lambda: False) -> None:
        """Once the session is open: make `call` when no operation waits or needs another request.

        :param is_issuing: whether an answer may have another operation issued.
        """
        assert self.driver is not None
        if self.is_changing or is_issuing():
            self._runtime.call(partial(self._look_later, call, is_issuing))
        else:
            self.driver.when_idle(call)

    def _look_later(self, call: Callable[[], None], is_issuing: Callable[[], bool]) -> None:
        self._runtime.call_later(POLL_S, partial(self.when_idle, call, is_issuing))

    def fail_away(self) -> None:
        """On the loop, when the client is about to stop: nothing waits for an ensemble that is away any longer.

        Nor does what an operation asks next, nor for an ensemble that goes away only now.
        """
        if self.is_stopping:
            return
        for member in self.roster.known:
            if not self._standing.is_connected(member):
                member.fail_waiting(None)
        self._runtime.call_later(AWAY_POLL_S, self.fail_away)

    def member_ended(self, member: MemberT) -> None:
        """The last of them lets go of the loop."""
        if member not in self.roster.members:  # its ensemble has left
            member.close()
        self._active -= 1
        if not self._active:
            self._end()

    def _end(self) -> None:
        self.is_over = True
        self._runtime.end()
        self._tell_over()

    def close(self) -> None:
        for member in self.roster.members:
            member.close()

    def abandon(self, error: Exception) -> None:
        """See :meth:`ParKazooClient.abandon`."""
        self.failure = error
        self.is_leaving = self.is_stopping = True
        for member in self.roster.members:
            member.abandon()

    # ---- what members ask, before they send anything ---------------------------------------------

    @property
    def has_map(self) -> bool:
        """Whether the cluster map is known."""
        return self.roster.cluster_map is not None

    def recognize(
        self, member: MemberT, record: DataAnswer, copy: DataAnswer | None, server: str
    ) -> Exception | None:
        """See :meth:`parkazoo.engine.ports.Owner.recognize`."""
        trouble = self.roster.recognize(member, record, copy, server)
        if copy is not None and trouble is None:
            self._map_events.have_read(member)
        return trouble

    def registration(self, member: MemberT, session: int) -> Create:
        """See :meth:`parkazoo.engine.ports.Owner.registration`."""
        return self.registering.make(member, session, self.roster.has_stayed_one)

    def unready(self, member: MemberT) -> Exception | None:
        """See :meth:`parkazoo.engine.ports.Owner.unready`."""
        return None if self._following is None else self._following.unready(member.name)

    def take_copy(self, member: MemberT, copy: DataAnswer, server: str) -> Exception | None:
        """See :meth:`parkazoo.engine.ports.Owner.take_copy`."""
        trouble = self.roster.take_copy(member, copy, server)
        if trouble is None:
            self._map_events.have_read(member)
        return trouble

    def map_told(self, member: MemberT) -> None:
        """See :meth:`parkazoo.engine.ports.Owner.map_told`."""
        self._map_events.told(member)

    def take_config(self, member: MemberT, config: DataAnswer) -> None:
        """See :meth:`parkazoo.engine.ports.Owner.take_config`."""
        self.roster.take_config(member, config)

    def doubts(self, member: MemberT, server: Server) -> str:
        """See :meth:`parkazoo.engine.ports.Owner.doubts`."""
        return self.roster.doubts(member, server)

    def refuse_copy(self, member: MemberT, server: str) -> Exception:
        """See :meth:`parkazoo.engine.ports.Owner.refuse_copy`."""
        return self.roster.refuse_copy(member, server)

    # ---- the map ---------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether operations are taken."""
        return self.driver is not None

    @property
    def is_changing(self) -> bool:
        """Whether the client goes from one form of the map to the next."""
        return self._following is not None and self._following.is_changing

    def have_come(self, ensembles: int) -> None:
        """Make room for more ensembles. See :meth:`parkazoo.engine.roster.RosterOwner.have_come`."""
        if self.driver is not None:
            self.driver.context.grow(ensembles)

    def map_has_changed(self) -> None:
        """Work by the newest map."""
        if self._following is None:
            self._acknowledge()
        else:
            self._following.go_on()

    def _acknowledge(self) -> None:
        """Nothing is under way by an older map."""
        roster = self.roster
        assert roster.cluster_map is not None
        self.registering.acknowledge(roster.cluster_map, roster.members, roster.has_stayed_one)

    def _call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        """On the loop: make a call after that time, unless the session stops before."""
        self._runtime.call_later(delay_s, partial(self._unless_stopping, call))

    def _unless_stopping(self, call: Callable[[], None]) -> None:
        if not self.is_stopping:
            call()

    def _is_connected(self, name: str) -> bool:
        return any(self._standing.is_connected(member) for member in self.roster.members if member.name == name)

    def _must_hurry(self) -> bool:
        """Whether the client has something to do when a directory has moved."""
        return self._following is not None and self._following.has_moving_watches

    # ---- states ----------------------------------------------------------------------------------

    def member_changed(self, member: MemberT, state: str) -> None:
        """Called by the members, on the loop."""
        if member not in self.roster.members:  # its ensemble has left
            return
        self._standing.changed(member, state)
        if self.is_stopping:
            return
        if state == KeeperState.EXPIRED_SESSION:  # the member says next that it is connecting
            self._lose(f"that on ensemble {member.name} has expired", member)
        elif state in (KeeperState.AUTH_FAILED, KeeperState.CLOSED):
            self.begin_stop()
            self._change(state, member)
        else:
            if state == KeeperState.CONNECTING:
                self._miss(member)
            else:
                self._take_in(member)
            self._report(member)
            if self._following is not None:
                self._runtime.call(self._following.part)

    def _take_in(self, member: MemberT) -> None:
        """It is connected."""
        self.roster.known.add(member)
        self.registering.register_again(member, self.roster.has_stayed_one)
        if self.driver is None and member is self.roster.first:
            self._open()

    def _miss(self, member: MemberT) -> None:
        """It has lost its connection, and fails its requests next."""
        if self._standing.lost(member, member.has_ephemerals, member.has_watches, member.has_unanswered):
            self._runtime.call(partial(self._calm, member))

    def _calm(self, member: MemberT) -> None:
        self._standing.calmed(member)
        self._report(member)

    def member_missed(self, member: MemberT) -> None:
        """See :meth:`parkazoo.engine.ports.Owner.member_missed`."""
        self._standing.awaits(member)
        self._report(member)

    def member_told(self, member: MemberT) -> None:
        """See :meth:`parkazoo.engine.ports.Owner.member_told`."""
        if self.driver is not None:
            self.driver.hear(self.roster.names.index(member.name))

    def went_back(self, member: MemberT) -> None:
        """See :meth:`parkazoo.engine.ports.Owner.went_back`."""
        if self.is_stopping:
            return
        has_ended = self._standing.has_begun_anew(member)
        self._client.logger.error(
            "ensemble %s: it has gone back to an older copy of its data, so acknowledged writes are gone. The "
            "client's session %s on all ensembles. See `parkazoo map check` and docs/operations/backup.md",
            member.name,
            "has ended before" if has_ended else "ends",
            extra={"ensemble": member.name},
        )
        if (monitor := self._client.monitor) is not None:
            monitor.tell(EnsembleWentBack(member.name))
        if not has_ended:
            self._lose(f"ensemble {member.name} has gone back to an older copy of its data", error=WentBackError)
            self._report()

    def is_fatal(self, member: MemberT) -> bool:
        """See :meth:`parkazoo.engine.ports.Owner.is_fatal`."""
        return is_fatal(member.has_ephemerals, self.roster.is_of_one or self.driver is None)

    def drop_connections(self) -> None:
        """On the loop, for tests: every connection breaks, and the client is suspended until all are back."""
        for member in self.roster.members:
            self._standing.awaits(member)
            member.submit(CONNECTION_DROP, None)

    def expire(self, why: str) -> None:
        """On the loop: end the session; it begins anew.

        :param why: for the log.
        """
        if not self.is_stopping:
            self._lose(why)
            self._report()

    def _lose(
        self, why: str, expired: MemberT | None = None, error: type[SessionExpiredError] = SessionExpiredError
    ) -> None:
        """Close the sessions on all ensembles. All begin anew, and nothing is left of the old ones.

        :param expired: has none any more. :param error: what unanswered operations get.
        """
        self._stop_waiting()
        self.roster.sessions = {}
        if self.driver is not None:
            self._change(KeeperState.EXPIRED_SESSION, expired)
            self.driver.fail_all(error)
        self.registering.renumber()  # not before it is LOST
        self._standing.begins_anew()
        for port in self.roster.unjoined():
            port.drop(error)
        for member in self.roster.members:
            if member is not expired and self._standing[member] != KeeperState.EXPIRED_SESSION:
                member.renew(why, error)
                member.drop_watches(KeeperState.EXPIRED_SESSION)

    def _report(self, cause: MemberT | None = None) -> None:
        """:param cause: the member that has changed."""
        if self.driver is not None and not self.is_stopping:
            self._change(self._standing.state, cause)

    def _change(self, state: str, cause: MemberT | None = None) -> None:
        """As with kazoo, every watch hears when the client is no longer connected; programs set them again."""
        was_connected = self._client.client_state in CONNECTED_STATES
        self._client.session_changed(state, "" if cause is None else cause.name)
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

    def remove_watches(self, path: str, watcher: Watch | None, reply: Reply) -> None:
        """See :meth:`Watching.remove`."""
        if (error := self.refusal()) is not None:
            reply.set_exception(error)
        elif self.watching is None:
            reply.set(False)
        else:
            self.watching.remove(path, watcher, reply)

    def add_watch(self, path: str, watcher: Watch, mode: AddWatchMode, reply: Reply) -> None:
        """See :meth:`Lasting.add`. It waits until the session is open, as operations do."""
        if (error := self.refusal()) is not None:
            reply.set_exception(error)
        elif self._lasting is None:  # behind a request that waits for that
            self.call(Exists("/", None), OnAnswer(partial(self._add_watch, path, watcher, mode, reply)))
        else:
            self._lasting.add(path, watcher, mode, reply)

    def _add_watch(self, path: str, watcher: Watch, mode: AddWatchMode, reply: Reply, answer: object) -> None:
        if isinstance(answer, Exception):
            reply.set_exception(answer)
        else:
            self.add_watch(path, watcher, mode, reply)

    def drop_watches(self, state: str) -> None:
        """Have members drop their watches, see :meth:`parkazoo.engine.ports.MemberPort.drop_watches`.

        :param state: the KeeperState in the event: the client's, whatever the member's is.
        """
        for member in self.roster.members:
            member.drop_watches(state)
        if self.watching is not None:
            self.watching.drop(WatchedEvent(EventType.NONE, state, None))
