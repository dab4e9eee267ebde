"""What is below a client: a loop, sockets and servers that a test plays, in the place of the network."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial

from kazoo.protocol.states import WatchedEvent

from parkazoo.engine.form_change import POLL_S
from parkazoo.engine.holding import MOST_PAUSE_S
from parkazoo.engine.moves import UNTOLD_S
from parkazoo.protocol.server_list import Server
from parkazoo.protocol.watches import DirectoryWatch
from parkazoo.wire.attempt import ConnectAttempt
from parkazoo.wire.connection import MemberConnection
from parkazoo.wire.exchange import Exchange
from parkazoo.wire.handshake import Address, shake_hands
from parkazoo.wire.link import Link
from parkazoo.wire.loop import READ
from parkazoo.wire.member import Member
from parkazoo.wire.running import RunningLoop
from tests.explore.alone import Marks


class Timer:
    def cancel(self) -> None:
        pass


class Loop:
    """Calls are made when :meth:`run` is called. No time passes."""

    kind = "explored"

    def __init__(self) -> None:
        self._calls: deque[Callable[[], None]] = deque()

    def is_here(self) -> bool:
        return True

    def call(self, call: Callable[[], None]) -> None:
        self._calls.append(call)

    call_at_end = call

    def call_later(self, delay_s: float, call: Callable[[], None]) -> Timer:
        return Timer()

    def watch(self, sock: Socket, on_ready: Callable[[int], None]) -> None:
        sock.on_ready = on_ready

    def forget(self, sock: Socket) -> None:
        sock.on_ready = None

    def set_events(self, sock: Socket, events: int) -> None:
        pass

    def run(self) -> None:
        while self._calls:
            self._calls.popleft()()


class Socket:
    """What is sent is looked up in the exchange, not here."""

    def __init__(self) -> None:
        self.on_ready: Callable[[int], None] | None = None
        self._arrived: deque[bytes] = deque()
        self._is_broken = False

    def send(self, data: bytes) -> int:
        if self._is_broken:
            raise BrokenPipeError
        return len(data)

    def recv(self, most: int) -> bytes:
        if self._arrived:
            return self._arrived.popleft()
        if self._is_broken:
            return b""
        raise BlockingIOError

    def fileno(self) -> int:
        return 0

    def close(self) -> None:
        self._is_broken = True

    def arrive(self, data: bytes) -> None:
        """Bytes, or none: the end."""
        if data:
            self._arrived.append(data)
        else:
            self._is_broken = True
        if self.on_ready is not None:
            self.on_ready(READ)


class Handler:
    """`callbacks` stands for the watch thread of a kazoo handler."""

    def __init__(self) -> None:
        self.callbacks: deque[Callable[[], object]] = deque()


class Gate:
    is_closed = False


class Runtime:
    """What runs the session.

    :ivar give_up: what the timer of a suspended client would call.
    :ivar looks: what is to be looked at again soon. :ivar holds: the same, of the mark of a move.
    :ivar later: what the session does when nothing is more urgent.
    """

    gate = Gate()
    link_type = Link
    monitor = None

    def __init__(self, index: int, handler: Handler) -> None:
        self.loop = Loop()
        self.give_up: Callable[[], None] | None = None
        self.looks: deque[Callable[[], None]] = deque()
        self.holds: deque[Callable[[], None]] = deque()
        self.later: deque[Callable[[], None]] = deque()
        self.new_mark = Marks(f"p{index}-")
        self._handler = handler
        self._numbers = 1000 * (index + 1)

    def begin(self) -> None:
        pass

    def end(self) -> None:
        pass

    def call(self, call: Callable[[], None]) -> None:
        self.loop.call(call)

    def call_later(self, delay_s: float, call: Callable[[], None]) -> Runtime:
        if delay_s == POLL_S:
            self.looks.append(call)
        elif delay_s <= MOST_PAUSE_S:
            self.holds.append(call)
        elif delay_s != UNTOLD_S:  # else it would look as one that holds
            self.give_up = call
        return self

    def look(self) -> None:
        """Once at each."""
        for _ in range(len(self.looks)):
            self.looks.popleft()()

    def cancel(self) -> None:
        self.give_up = None

    def deliver(self, watch: Callable[[WatchedEvent], object], event: WatchedEvent) -> None:
        if isinstance(watch, DirectoryWatch):
            watch(event)
        else:
            self._handler.callbacks.append(partial(watch, event))

    def make_lock(self) -> nullcontext[None]:
        return nullcontext()

    def new_number(self) -> int:
        self._numbers += 1
        return self._numbers


class Rounds:
    """Servers are tried when the test says so. Stands for :class:`parkazoo.wire.rounds.Rounds`."""

    in_vain = 0

    def __init__(self) -> None:
        self.is_waiting = True
        self.address: Address | None = None

    def begin(self) -> None:
        """The member looks for a server from now on."""

    look_again = take_hosts = reset = cancel = begin

    def next_server(self, race: Race) -> Address | None:
        address, self.address = self.address, None
        return address

    def is_over(self, race: Race) -> bool:
        return False

    def failed(self, address: Address) -> None:
        pass

    succeeded = failed


class Race:
    """One attempt at a time. Stands for :class:`parkazoo.wire.race.Race`."""

    def __init__(self, member: Member, loop: RunningLoop) -> None:
        self._member = member
        self._loop = loop
        self.attempt: ConnectAttempt | None = None
        self.exchange: Exchange | None = None
        self.sock = Socket()

    def begin(self, address: Address, on_end: Callable[[object], None], *, is_alone: bool) -> None:
        member, connection = self._member, self._member._connection

        def end(outcome: object) -> None:
            self.attempt = self.exchange = None
            on_end(outcome)

        def authenticate(*args: object) -> None:
            raise AssertionError("there is no SASL")

        self.sock = Socket()
        self.exchange = Exchange(member, member._pending, connection._read_watch_event, connection.logger)
        steps = shake_hands(member, address, self.sock, self.exchange, authenticate)  # type: ignore[arg-type]
        attempt = ConnectAttempt(self._loop, steps, end, member.owner.have_mistaken)
        if not attempt.has_ended:
            self.attempt = attempt

    def is_promising(self) -> bool:
        return self.attempt is not None

    def is_idle(self) -> bool:
        return self.attempt is None

    def cancel(self) -> None:
        pass

    def sockets(self) -> list[Socket]:
        return []


class Move:
    """No server changes. Stands for :class:`parkazoo.wire.move.Move`."""

    def connected(self, link: Link, address: Address) -> None:
        """It stays there."""

    def take_hosts(self, before: list[Server]) -> None:
        """They have other names."""

    def lost(self) -> None:
        """Another connection follows."""

    cancel = lost


class Connection(MemberConnection):
    """A member's, which tries one server at a time, when it is told to."""

    ensemble = -1  # that it is connected to, or tries

    def is_session_over(self) -> bool:
        """No time passes."""
        return False

    def start(self) -> None:
        self.is_running = True
        self.report = Silence()  # type: ignore[assignment]
        self._race = Race(self.client, self.client.runtime.loop)  # type: ignore[assignment]
        self._rounds = Rounds()  # type: ignore[assignment]
        self._move = Move()  # type: ignore[assignment]
        self._loop = self.client.runtime.loop

    @property
    def race(self) -> Race:
        return self._race  # type: ignore[return-value]

    @property
    def is_looking(self) -> bool:
        return self._loop is not None and self._link is None and self.race.attempt is None

    def try_server(self, ensemble: int, address: Address) -> None:
        rounds: Rounds = self._rounds  # type: ignore[assignment]
        self.ensemble = ensemble
        rounds.address, rounds.is_waiting = address, False
        self._try_next()
        rounds.is_waiting = True

    def arrive(self, data: bytes) -> None:
        (self._socket if self._link is not None else self.race.sock).arrive(data)


class Silence:
    """Stands for a :class:`parkazoo.wire.report.ConnectionReport`."""

    def __getattr__(self, name: str) -> object:
        return lambda *args, **options: None
