"""What the engine needs of its members, of its runtime, and of the client that it works for.

The engine imports none of them. Each is handed in, so the same session runs over threads, greenlets, an event
loop, or a test. Nothing here waits, so there is no clock: a time-out belongs to the client that waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from kazoo.exceptions import ConnectionLoss
from kazoo.protocol.states import WatchedEvent

from parkazoo.kazoo_private import Create
from parkazoo.protocol.client_id import SessionId
from parkazoo.protocol.lasting_watch import LastingWatch
from parkazoo.protocol.server_list import Server
from parkazoo.protocol.steps import DataAnswer, Request, WireRequest
from parkazoo.types.handlers import Log
from parkazoo.types.znodes import Watch


class Reply(Protocol):
    """Takes the answer to a request: kazoo's async results do, and so do the steps of an operation."""

    def set(self, value: object = None) -> None: ...
    def set_exception(self, exception: Exception) -> None: ...


class BodyReply(Reply, Protocol):
    """One that can take the bytes of an answer."""

    def set_body(self, body: bytes) -> None:
        """:param body: what a server has answered, behind the header."""


class AbandonedError(ConnectionLoss):
    """Nobody waited for the answer any more when the request could be sent: it was not."""

    def __str__(self) -> str:
        return "nobody waited for the answer any more when the request could be sent, so it was not"


def is_abandoned(reply: object) -> bool:
    """Whether nobody waits for an answer any more. Then what was not sent for it is not to be.

    Whoever has kept a request asks, and then sends it unless it is abandoned. A reply that can tell has an
    attribute of that name. It is False once something was sent: that is finished.
    """
    return bool(getattr(reply, "is_abandoned", False))


def note_kept(reply: object) -> None:
    """A request is kept: whoever keeps it asks, before it is sent, whether it is abandoned."""
    note = getattr(reply, "note_kept", None)
    if note is not None:
        note()


class OnAnswer:
    """A reply that makes a call with the answer, which may be an exception.

    :param asker: the reply to the request that needs it, if one does.
    """

    __slots__ = ("_call", "asker")

    def __init__(self, call: Callable[[Any], None], asker: Reply | None = None) -> None:
        self._call = call
        self.asker = asker

    def set(self, value: object = None) -> None:
        self._call(value)

    def set_exception(self, exception: Exception) -> None:
        self._call(exception)


class OwnAnswer(OnAnswer):
    """One that is kept and abandoned with its asker."""

    __slots__ = ()

    @property
    def is_abandoned(self) -> bool:
        """See :func:`is_abandoned`."""
        return is_abandoned(self.asker)

    def note_kept(self) -> None:
        """See :func:`note_kept`."""
        note_kept(self.asker)


def give(reply: Reply | None, answer: object) -> None:
    """Set a reply, if there is one.

    :param answer: may be an exception.
    """
    if reply is None:
        return
    if isinstance(answer, Exception):
        reply.set_exception(answer)
    else:
        reply.set(answer)


class RequestPort(Protocol):
    """The part of a member that operations need: it takes requests for one ensemble."""

    @property
    def session_id(self) -> int:
        """Of its ZooKeeper session; 0 while it has none."""

    def submit(self, request: WireRequest, reply: Reply | None) -> None:
        """Queue a request, in order, without blocking; `reply` takes the answer on any thread, perhaps at once."""

    def forget_watch(self, path: str, watch: Watch | LastingWatch, of_children: bool | None = None) -> bool:
        """On the loop: take a watch on a physical path out of all tables, or of one; False: it is not there."""

    def watches_on(self, path: str) -> list[Watch | LastingWatch]:
        """The watches on the data and on the children of a physical path."""

    def data_watches(self) -> list[tuple[str, Watch]]:
        """The watches on data and on existence, with the physical paths."""

    def child_watches(self) -> list[tuple[str, Watch]]:
        """The watches on children, with the physical paths."""


class MemberPort(RequestPort, Protocol):
    """The client of one ensemble, with a ZooKeeper session of its own.

    It reports to its :class:`Owner` on the loop. It is made without a connection; :meth:`begin` makes one.
    """

    name: str

    @property
    def is_connected(self) -> bool:
        """Whether a server has its session, as far as it knows. Any thread may ask."""

    @property
    def session_password(self) -> bytes:
        """Of its ZooKeeper session: 16 bytes."""

    @property
    def has_ephemerals(self) -> bool:
        """Whether there may be an ephemeral of its ZooKeeper session."""

    @property
    def has_unnamed_ephemerals(self) -> bool:
        """Whether there may be some whose names it does not know: the session was another client's, or a create
        has had no answer.
        """

    def ephemerals_below(self, path: str) -> list[str]:
        """On the loop: the physical paths of the ephemerals of known names below one."""

    def forget_ephemerals(self, path: str) -> None:
        """On the loop: what is below a physical path is no ephemeral that the client would miss."""

    @property
    def has_watches(self) -> bool:
        """Whether there is a watch of its ZooKeeper session, or a request that leaves one."""

    @property
    def has_unanswered(self) -> bool:
        """Whether requests have no answer, sent or not."""

    def begin(self) -> None:
        """Connect, without waiting for it. Requests are queued from now on."""

    def settle(self, name: str, hosts: str | None, spare: Sequence[Server], limit_s: float | None) -> None:
        """It is known which ensemble this is.

        :param hosts: its servers; None: the member's.
        :param spare: what it tries when it cannot reach them.
        :param limit_s: so long a request waits for a connection, then it fails with ConnectionLoss; None: for
            ever.
        """

    def resume(self, session: SessionId) -> None:
        """Before it has a session: its next attempt to connect goes on with this one."""

    def fail_waiting(self, error: Exception | None) -> None:
        """Fail the requests that wait for a connection; without an error, each with ConnectionLoss."""

    def renew(self, why: str, error: type[Exception]) -> None:
        """On the loop: close the ZooKeeper session on its servers and begin another. Requests so far expire.

        :param why: for the log. :param error: what they get.
        """

    def begin_stop(self) -> None:
        """On the loop: end the ZooKeeper session after the queued requests, without waiting for it."""

    def leave(self) -> None:
        """On the loop: end the connection, and leave the ZooKeeper session to its time-out."""

    def close(self) -> None:
        """After its end: release what it still holds."""

    def abandon(self) -> None:
        """In a child process: the connection is the parent's."""

    def distrust(self, thread: int) -> None:
        """Drop the connection, on which that thread may have sent half a request."""

    def drop_watches(self, state: str) -> None:
        """Call every watch with the event NONE and this KeeperState, once, and forget it.

        Some outlast a connection. They stay while the session does: if the state is CONNECTING.
        """

    def read_map(self) -> None:
        """On the loop: read the copy of the map, and have its owner take it."""

    def describe_troubles(self) -> str:
        """Each server, and why the last attempt to connect to it failed."""


MemberT = TypeVar("MemberT", bound=MemberPort)
MemberT_contra = TypeVar("MemberT_contra", bound=MemberPort, contravariant=True)


class Owner(Protocol[MemberT_contra]):
    """The session, as its members see it. They call it on the loop."""

    is_leaving: bool
    """Watches are called no more."""

    @property
    def has_map(self) -> bool:
        """Whether the cluster map is known."""

    def recognize(
        self, member: MemberT_contra, record: DataAnswer, copy: DataAnswer | None, server: str
    ) -> Exception | None:
        """Called at each connection, before any request: may this server be used?

        :param record: the answer to a read of ``/parkazoo/ensemble``.
        :param copy: to a read of ``/parkazoo/map``; None if it has not been asked. See :meth:`take_copy`.
        :param server: its address, for messages.
        :returns: why not. :class:`OtherSession`: the next attempt goes on with another session.
        """

    def registration(self, member: MemberT_contra, session: int) -> Create:
        """The request by which a session registers. A session that can write sends it before any other."""

    def unready(self, member: MemberT_contra) -> Exception | None:
        """Called behind the registration and the copy: why the session may not be used."""

    def take_copy(self, member: MemberT_contra, copy: DataAnswer, server: str) -> Exception | None:
        """As :meth:`recognize`, behind the registration: the copy is not older than the one that made room for it.

        A newer map is the client's from now on. Called again whenever the copy has been read again.
        """

    def map_told(self, member: MemberT_contra) -> None:
        """The copy has changed: have the member read it, now or soon."""

    def take_config(self, member: MemberT_contra, config: DataAnswer) -> None:
        """Called at the end of each connection's handshake, and whenever the znode has changed.

        :param config: the answer to a read of ``/zookeeper/config``, perhaps an exception.
        """

    def doubts(self, member: MemberT_contra, server: Server) -> str:
        """Called behind the registration of a session: may this server belong to a copy of the ensemble?

        :returns: the servers to ask whether they have the registration, ``"h:p,h:p"``; empty if there is no doubt.
        """

    def refuse_copy(self, member: MemberT_contra, server: str) -> Exception:
        """They have not: the client cannot start.

        :param server: its address.
        :returns: why.
        """

    def went_back(self, member: MemberT_contra) -> None:
        """Its ensemble has been restored from a copy that is older than what the client has seen there."""

    def is_fatal(self, member: MemberT_contra) -> bool:
        """Its ZooKeeper session has expired: does the client's end? If not, it begins another by itself."""

    def member_changed(self, member: MemberT_contra, state: str) -> None:
        """:param state: its KeeperState now."""

    def member_told(self, member: MemberT_contra) -> None:
        """An event has come for a watch that the client has there; the watch is called next."""

    def member_missed(self, member: MemberT_contra) -> None:
        """A request that leaves a watch has waited in vain for a connection."""

    def member_ended(self, member: MemberT_contra) -> None:
        """Its connection has ended for good; called once after each `begin`."""

    def have_mistaken(self, error: Exception) -> None:
        """While a connection was made, something was raised that no server and no network causes."""

    def recover(self) -> None:
        """Drop what an interrupted thread may have left half done, if one has been interrupted."""


class OtherSession(Exception):
    """The session that has just begun is not wanted: another one goes on."""


class Timer(Protocol):
    def cancel(self) -> None:
        """Let the call not be made."""


class Runtime(Protocol):
    """What runs a session: a loop that makes one call at a time, and queues for watches."""

    def begin(self) -> None:
        """Have the loop run, until :meth:`end`.

        :raises RuntimeError: no thread can be started.
        """

    def end(self) -> None:
        """Let go of the loop."""

    def call(self, call: Callable[[], None]) -> None:
        """Make a call on the loop, soon. Any thread may ask for it."""

    def call_later(self, delay_s: float, call: Callable[[], None]) -> Timer:
        """On the loop: make a call on it, after that time."""

    def deliver(self, watch: Watch, event: WatchedEvent) -> None:
        """On the loop: have a watch called with an event.

        A :class:`DirectoryWatch` is called at once. The user's watches are called elsewhere, one at a time, in
        order; watches of recipes need not wait for them.
        """

    def make_lock(self) -> AbstractContextManager[object]:
        """A lock that is held for a moment at a time, never across a call out of the engine."""

    def new_mark(self) -> str:
        """A name that is never used twice."""

    def new_number(self) -> int:
        """A number of 63 bits, above 0, that is never used twice."""


Meter = Callable[[WireRequest, Exception | None, float], None]  # an error, and seconds
OperationMeter = Callable[[Request, Exception | None, float, int], None]  # an error, seconds, and requests


class Monitor(Protocol):
    """What hears of the client's work: its listeners and its counters. Nothing here raises or blocks."""

    def now_s(self) -> float:
        """The seconds of a clock that only goes forward."""

    def meter(self, ensemble: str) -> Meter | None:
        """The meter of requests to an ensemble; None if nobody wants to hear of requests.

        :param ensemble: its name.
        """

    @property
    def operation_meter(self) -> OperationMeter | None:
        """The meter of operations; None if nobody wants to hear of operations."""

    def tell(self, event: object) -> None:
        """Tell of something rarer.

        :param event: of :mod:`parkazoo.monitoring`.
        """


class Client(Protocol):
    """The client that the session works for."""

    give_up_after_s: float | None
    """How long it may be SUSPENDED before it is LOST; None: until a session expires."""

    has_total_order: bool
    """Whether all ensembles have one order."""

    @property
    def monitor(self) -> Monitor | None:
        """None if nobody listens or counts."""

    @property
    def logger(self) -> Log: ...

    @property
    def session_timeout_s(self) -> float: ...

    @property
    def client_state(self) -> str:
        """Its KeeperState."""

    def unchroot(self, path: str) -> str:
        """The user's name for a path."""

    def describe_hosts(self) -> str:
        """The hosts to begin with as ``"h:p,h:p"``."""

    def registration(self, session: int, client: int, epoch: int) -> Create:
        """The request by which a session registers.

        :param client: the client's id.
        :param epoch: of the cluster map.
        """

    def session_changed(self, state: str, ensemble: str) -> None:
        """Called on the loop with the KeeperState that all members make up.

        :param ensemble: the name of the member that has brought it about; empty if none has.
        """
