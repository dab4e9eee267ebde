"""What the engine needs of its members, of its runtime, and of the client that it works for.

The engine imports none of them. Each is handed in, so the same session runs over threads, greenlets, an event
loop, or a test. Nothing here waits, so there is no clock: a time-out belongs to the client that waits.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from parkazoo.protocol.steps import Request


class Reply(Protocol):
    """Takes the answer to a request: kazoo's async results do, and so do the steps of an operation."""

    def set(self, value: Any = None) -> None: ...
    def set_exception(self, exception: Exception) -> None: ...


class OnAnswer:
    """A reply that makes a call with the answer, which may be an exception."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[[Any], None]) -> None:
        self._call = call

    def set(self, value: Any = None) -> None:
        self._call(value)

    def set_exception(self, exception: Exception) -> None:
        self._call(exception)


class RequestPort(Protocol):
    """The part of a member that operations need: it takes requests for one ensemble."""

    @property
    def session_id(self) -> int:
        """Of its ZooKeeper session; 0 while it has none."""

    def submit(self, request: Request, reply: Reply | None) -> None:
        """Queue a request, in order, without blocking; `reply` takes the answer on any thread, perhaps at once."""

    def forget_watch(self, path: str, watch: Any) -> None:
        """Take a watch on a physical path out of the tables, if it is there."""


class Member(RequestPort, Protocol):
    """The client of one ensemble, with a ZooKeeper session of its own.

    It reports to its :class:`Owner` on the loop. It is made without a connection; :meth:`begin` makes one.

    :param verify: called at each connection, before any request, with the answer to a read of the ensemble's
        identity; returns why these are the wrong servers. None: the servers are not asked.
    :param registration: makes the request by which a session registers, for its id. A session that can write sends
        it, behind `verify`, before any other request. None: it does not register.
    """

    name: str
    verify: Callable[[Any], Exception | None] | None
    registration: Callable[[int], Request] | None

    @property
    def session_password(self) -> bytes:
        """Of its ZooKeeper session: 16 bytes."""

    def begin(self) -> None:
        """Connect, without waiting for it. Requests are queued from now on."""

    def rename(self, name: str) -> None:
        """Take the ensemble's name, which the map gives."""

    def registered(self, session: int, answer: Any) -> None:
        """Take the answer to the registration of a session of this member. An exception: it is not registered."""

    def go_on(self) -> None:
        """On the loop: begin the ZooKeeper session that had to wait, see :meth:`Owner.may_begin`."""

    def renew(self, expired: str | None = None) -> None:
        """On the loop: close the ZooKeeper session on its servers and begin another. Requests so far fail.

        :param expired: the ensemble whose session has expired, for the log.
        """

    def begin_stop(self) -> None:
        """On the loop: end the ZooKeeper session after what is queued, without waiting for it."""

    def close(self) -> None:
        """After its end: release what it still holds."""

    def abandon(self) -> None:
        """In a child process: the connection is the parent's."""

    def distrust(self, thread: int) -> None:
        """Drop the connection, on which that thread may have sent half a request."""

    def drop_watches(self, state: str) -> None:
        """Call every watch with the event NONE and this KeeperState, once, and forget it."""

    def describe_troubles(self) -> str:
        """Each server, and why the last attempt to connect to it failed."""


MemberT = TypeVar("MemberT", bound=Member)
MemberT_contra = TypeVar("MemberT_contra", bound=Member, contravariant=True)


class Owner(Protocol[MemberT_contra]):
    """The session, as its members see it. They call it on the loop."""

    is_leaving: bool
    """Watches are called no more."""

    def member_changed(self, member: MemberT_contra, state: str) -> None:
        """:param state: its KeeperState now."""

    def member_ended(self, member: MemberT_contra) -> None:
        """Its connection has ended for good; called once after each `begin`."""

    def may_begin(self, member: MemberT_contra) -> bool:
        """Whether it may begin a ZooKeeper session: the client's first comes first, the others register its id."""

    def recover(self) -> None:
        """Drop what an interrupted thread may have left half done, if one has been interrupted."""


class Runtime(Protocol):
    """What runs a session: a loop that makes one call at a time, and a queue for the user's watches."""

    def begin(self) -> None:
        """Have the loop run, until :meth:`end`.

        :raises RuntimeError: no thread can be started.
        """

    def end(self) -> None:
        """Let go of the loop."""

    def call(self, call: Callable[[], None]) -> None:
        """Make a call on the loop, soon. Any thread may ask for it."""

    def dispatch(self, call: Callable[[], None]) -> None:
        """Make a call where the user's watches are called: one at a time, in order."""

    def make_lock(self) -> AbstractContextManager[Any]:
        """A lock that is held for a moment at a time, never across a call out of the engine."""

    def new_mark(self) -> str:
        """A name that is never used twice."""


class Client(Protocol):
    """The client that the session works for."""

    logger: Any

    @property
    def client_state(self) -> str:
        """Its KeeperState."""

    def describe_hosts(self) -> str:
        """The bootstrap ensemble's hosts as ``"h:p,h:p"``."""

    def registration(self, session: int, client: int, epoch: int) -> Request:
        """The request by which a session registers.

        :param client: the client's id.
        :param epoch: of the cluster map.
        """

    def session_changed(self, state: str) -> None:
        """Called on the loop with the KeeperState that all members make up."""
