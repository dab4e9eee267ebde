"""One production client without a network: session, members, links and handshakes over sockets that a test plays.

Nothing happens by itself. :class:`Client` takes what comes from outside, an :data:`Input` at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

from kazoo.exceptions import NoNodeError
from kazoo.protocol.states import KeeperState, WatchedEvent
from kazoo.retry import KazooRetry
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.engine.form_change import MOST_POLLS
from parkazoo.engine.gather import Slot
from parkazoo.engine.holding import MOST_LOOKS
from parkazoo.engine.session import Session
from parkazoo.kazoo_private import Create, GetData
from parkazoo.protocol.cluster_map import parse_hosts
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.placement import ENSEMBLE, logical
from parkazoo.protocol.registration import encode_registration, registration_path
from parkazoo.protocol.server_list import CONFIG, Server
from parkazoo.wire.exchange import CONNECTING
from parkazoo.wire.handshake import Address
from parkazoo.wire.log import DiscreetLog
from parkazoo.wire.member import Member, MemberOptions
from parkazoo.wire.patience import LOOKS
from parkazoo.wire.tls import Tls
from tests.explore.answers import freeze, freeze_exactly
from tests.explore.scenario import Knows
from tests.explore.sessions import bytes as said
from tests.explore.sessions.below import Connection, Handler, Runtime
from tests.explore.znodes import EPHEMERAL, Answer, Request, path_of
from tests.fakes.result import Result

SESSION_TIMEOUT_S = 10.0
LOG = logging.getLogger("parkazoo.test.sessions")
LOG.addHandler(logging.NullHandler())
LOG.propagate = False
LOG.setLevel(logging.CRITICAL)


class Unknown(Exception):
    """The client does not know the ensemble."""


class Join(NamedTuple):
    """No request to a path: an operation that reads there what each ensemble has. So it needs a session there."""

    ensemble: int
    type: int = 0


# ---- what a client gets from outside -------------------------------------------------------------


class Try(NamedTuple):
    """It is time to try a server of an ensemble."""

    ensemble: int


class Accept(NamedTuple):
    """The answer to Connect. `session` is 0 if it has expired."""

    ensemble: int
    session: int


class Tell(NamedTuple):
    """The answer to the oldest request, or an event, or ConnectionLoss: the connection has ended."""

    ensemble: int
    what: Answer
    zxid: int = 0


class Lose(NamedTuple):
    """The connection breaks."""

    ensemble: int


class Wait(NamedTuple):
    """What waits for a connection has waited too long."""

    ensemble: int


class Hurry(NamedTuple):
    """What is under way by an older form of the map has taken too long."""


class GiveUp(NamedTuple):
    """The client has been suspended for too long."""


class Look(NamedTuple):
    """It is time to look at the mark of a move. :param is_impatient: once too often."""

    is_impatient: bool


class Idle(NamedTuple):
    """Time for what is not urgent."""


class CallBack(NamedTuple):
    """The watch thread makes its next call."""


Input = Try | Accept | Tell | Lose | Wait | Hurry | GiveUp | Look | Idle | CallBack


def plain(item: Input) -> Hashable:
    """What tells it from others, zxids left out."""
    if isinstance(item, Tell):
        return type(item), item.ensemble, freeze(item.what)
    return type(item), item


def exact(item: Input) -> Hashable:
    """The same, zxids included."""
    return (plain(item), item.zxid, freeze_exactly(item.what)) if isinstance(item, Tell) else plain(item)


# ---- the client ----------------------------------------------------------------------------------

LOOKING, ASKING, GREETING, OPEN = "looking", "asking", "greeting", "open"


class Port(NamedTuple):
    """A client's end of a connection to an ensemble.

    :param phase: empty if there is none.
    :param session: that it has, or asks for; 0 for a new one.
    :param outbox: requests that wait for an answer. :param forms: by which each was sent, if by an operation.
    :param queue: requests that wait for a connection.
    :param is_patient: whether those wait for ever.
    """

    phase: str = ""
    session: int = 0
    outbox: tuple[Request, ...] = ()
    queue: tuple[Request, ...] = ()
    is_patient: bool = False
    forms: tuple[Form | None, ...] = ()


class OfForm(Result):
    """:ivar form: of the map, by which the operation is done; None as long as it has not begun."""

    form: Form | None = None


class Traced(Session[Member]):
    """A session whose operations say by which form they are done. No server belongs to a copy of its ensemble.

    :ivar results: the replies to all.
    """

    def __init__(self, client: Client, runtime: Runtime) -> None:
        super().__init__(client, runtime, client.make_member, None)
        self.results: list[OfForm] = []

    def doubts(self, member: Member, server: Server) -> str:
        return ""

    def _call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        runtime: Runtime = self._runtime  # type: ignore[assignment]
        runtime.later.append(call)

    def _open(self) -> None:
        super()._open()
        assert self.driver is not None
        driver, pass_on = self.driver, self.gate._pass_on
        first = driver.context.form

        def begin(request: Request, reply: OfForm) -> None:
            reply.form = driver.context.form
            pass_on(request, reply)

        self.gate._pass_on = begin  # type: ignore[assignment]
        for reply in self.results:
            reply.form = first


def form_of(reply: object) -> Form | None:
    """Of the operation that waits for this answer; None if it is none's."""
    while not isinstance(reply, OfForm):
        if isinstance(reply, Slot):
            reply = reply.asker
        elif hasattr(reply, "_reply"):
            reply = reply._reply
        else:
            return None
    return reply.form


class Client:
    """What a ParKazooClient hands to its session, and the session itself.

    :param names: of the ensembles. :param hosts: to begin with, a server of each of some ensembles.
    """

    logger = LOG
    session_timeout_s = SESSION_TIMEOUT_S
    has_total_order = False
    monitor = None

    def __init__(self, index: int, names: str, hosts: str, give_up_after_s: float | None) -> None:
        self.give_up_after_s = give_up_after_s
        self.client_state: str = KeeperState.CONNECTING
        self.states: list[str] = []
        self._names = names
        self._hosts = hosts
        self._made: list[Member] = []
        self._handler = Handler()
        self._runtime = Runtime(index, self._handler)
        self.session = Traced(self, self._runtime)
        self.session.begin()
        self.settle()

    # ---- for the session -------------------------------------------------------------------------

    def unchroot(self, path: str) -> str:
        return path

    def describe_hosts(self) -> str:
        return self._hosts

    def registration(self, session: int, client: int, epoch: int) -> Create:
        data = encode_registration(client, {"epoch": epoch})
        return Create(registration_path(session), data, OPEN_ACL_UNSAFE, EPHEMERAL)

    def session_changed(self, state: str, ensemble: str) -> None:
        if state != self.client_state:
            self.client_state = state
            self.states.append(state)

    def make_member(
        self, session: Session[Member], name: str, hosts: str, client_id: tuple[int, bytes] | None
    ) -> Member:
        member = Member(
            session,
            self._runtime,  # type: ignore[arg-type]
            name,
            hosts,
            client_id,
            MemberOptions(
                logical,
                lambda name: LOG,
                SESSION_TIMEOUT_S,
                set(),
                Tls(),
                None,
                KazooRetry(),
                False,
                False,
            ),
        )
        member._connection = Connection(member, DiscreetLog(LOG))
        self._made.append(member)
        return member

    # ---- for the test ----------------------------------------------------------------------------

    def call(self, request: Request) -> OfForm:
        result = OfForm()
        self.session.results.append(result)
        if isinstance(request, Join):
            self._join(request.ensemble, result)
        else:
            self.session.call(request, result)
        return result

    def rise(self, knows: Knows) -> None:
        raise AssertionError("here the map rises by itself")

    def _join(self, ensemble: int, result: OfForm) -> None:
        session = self.session
        if session.driver is None or self._names[ensemble] not in session.roster.names:
            result.set_exception(Unknown())
            return
        result.form = session.driver.context.form
        index = session.roster.names.index(self._names[ensemble])
        session.driver.run(session.driver.context.ask("/", index, GetData(ENSEMBLE, None)), result)

    def settle(self) -> None:
        """Make the calls that are to be made soon. Servers do not change here, so no move waits for an answer."""
        self._runtime.loop.run()
        self._runtime.look()
        self._runtime.loop.run()
        for member in self.session.roster.members:
            exchange = _connection(member).race.exchange
            if exchange is not None and exchange._asked and path_of(exchange._asked[0][0]) == CONFIG:
                _connection(member).arrive(said.answered(0, 0, exchange._asked[0][0], NoNodeError()))
                self._runtime.loop.run()

    def take(self, item: Input) -> None:
        if isinstance(item, GiveUp):
            assert self._runtime.give_up is not None
            self._runtime.give_up()
        elif isinstance(item, Hurry):
            for _ in range(MOST_POLLS + 1):
                self._runtime.look()
        elif isinstance(item, Look):
            following = self.session._following
            holding = following._moves._holding if following is not None else None
            if item.is_impatient and holding is not None:
                holding._looks = MOST_LOOKS
            self._runtime.holds.popleft()()
        elif isinstance(item, Idle):
            self._runtime.later.popleft()()
        elif isinstance(item, CallBack):
            self._handler.callbacks.popleft()()
        else:
            self._take_on(self._member(item.ensemble), item)
        self.settle()

    def _take_on(self, member: Member, item: Try | Accept | Tell | Lose | Wait) -> None:
        connection = _connection(member)
        if isinstance(item, Try):
            connection.try_server(item.ensemble, self._address(member, item.ensemble))
        elif isinstance(item, Accept):
            connection.arrive(said.accepted(item.session, int(1000 * SESSION_TIMEOUT_S)))
        elif isinstance(item, Lose):
            connection.arrive(b"")
        elif isinstance(item, Wait):
            patience = member._patience
            assert patience is not None
            for _ in range(LOOKS + 1):
                patience._look()
        elif isinstance(item.what, WatchedEvent):
            connection.arrive(said.event(item.what))
        else:
            xid, request = _oldest(member)
            connection.arrive(said.answered(xid, item.zxid, request, item.what))

    def _member(self, ensemble: int) -> Member:
        found = self._find(ensemble)
        assert found is not None
        return found

    def _find(self, ensemble: int) -> Member | None:
        """The member of an ensemble, or that which does not know yet whose it will be."""
        parted = [each for each in self._made if each.name in self._gone() and each._connection._link is not None]
        for member in (*self.session.roster.members, *parted):
            if member.name == self._names[ensemble]:
                return member
        first = self.session.roster.first
        if first.name in self._names:
            return None
        connection = _connection(first)
        is_free = connection.is_looking
        return first if is_free or connection.ensemble == ensemble else None

    def _address(self, member: Member, ensemble: int) -> Address:
        servers = parse_hosts(self._hosts) if member.name not in self._names else member.hosts
        host, port = next(each for each in servers if each[0][0] == self._names[ensemble])
        return Address(host, host, port)

    def port(self, ensemble: int) -> Port:
        member = self._find(ensemble)
        if member is None:
            return Port()
        connection = _connection(member)
        queue = tuple(member.backlog.requests())
        if connection._link is not None:
            outbox = tuple(each[0] for each in member._pending)
            forms = tuple(form_of(each[1]) for each in member._pending)
            return Port(OPEN, member.session_id, outbox, queue, forms=forms)
        exchange = connection.race.exchange
        if exchange is None:
            phase = LOOKING if connection.is_looking else ""
            return Port(phase, member.session_id, (), queue, member._patience is None)
        asked = tuple(request for request, _ in exchange._asked if path_of(request) != CONFIG)
        phase = ASKING if exchange.state == CONNECTING else GREETING
        return Port(phase, member.session_id, asked, queue, member._patience is None)

    @property
    def callbacks(self) -> int:
        return len(self._handler.callbacks)

    @property
    def form(self) -> Form:
        driver = self.session.driver
        return driver.context.form if driver is not None else Form.PLAIN

    @property
    def is_changing(self) -> bool:
        return self.session.is_changing

    @property
    def may_give_up(self) -> bool:
        return self._runtime.give_up is not None

    def _gone(self) -> Mapping[str, str]:
        known = self.session.roster.cluster_map
        return known.gone if known is not None else {}

    @property
    def parting(self) -> frozenset[tuple[str, int]]:
        following = self.session._following
        if following is None:
            return frozenset()
        moving = {following._moves.last: 1} if following._moves.last else {}
        return frozenset({**following._parting, **moving}.items())

    @property
    def later(self) -> int:
        return len(self._runtime.later)

    @property
    def is_holding(self) -> bool:
        return bool(self._runtime.holds)

    def parted(self) -> frozenset[int]:
        left = self._gone().keys() - {each.name for each in self.session.roster.members}
        return (
            frozenset(self._names.index(name) for name in left) if self.session.driver is not None else frozenset()
        )

    def has_right_hosts(self) -> bool:
        """Whether each member looks for the servers that the client's map names.

        If there was one ensemble, it looks for the user's, and since there are more, for the map's after them.
        """
        known, first = self.session.roster.cluster_map, self.session.roster.first
        if known is None:
            return True
        members = [each for each in self.session.roster.members if each.name not in known.gone]
        wanted = {member: parse_hosts(known.ensembles[member.name]) for member in members}
        if tuple(first.hosts) == parse_hosts(self._hosts):
            is_one = len(known.names) == 1
            return is_one or {*first.servers} == {*first.hosts, *wanted.pop(first)}
        return all(tuple(member.hosts) == hosts for member, hosts in wanted.items())


def _connection(member: Member) -> Connection:
    connection = member._connection
    assert isinstance(connection, Connection)
    return connection


def _oldest(member: Member) -> tuple[int, Request]:
    """The oldest request that waits for an answer, and its xid."""
    exchange = _connection(member).race.exchange
    if exchange is None:
        request, _, xid = member._pending[0]
        return xid, request
    return 0, exchange._asked[0][0]
