"""A member as ``client.members`` shows it: a KazooClient, whose handler and connection programs may change."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionDropped

from parkazoo.engine.ports import Owner, Reply
from parkazoo.kazoo_private import ConnectionHandler
from parkazoo.protocol.client_id import SessionId
from parkazoo.protocol.states import CLOSED_ERRORS, CONNECTED_STATES, kazoo_state
from parkazoo.protocol.steps import WireRequest
from parkazoo.types.handlers import Event, Handler, Log
from parkazoo.wire.backlog import Backlog
from parkazoo.wire.connection import MemberConnection
from parkazoo.wire.handshake import Address
from parkazoo.wire.member import Member, MemberOptions
from parkazoo.wire.race import NotWanted, Outcome
from parkazoo.wire.running import WireRuntime
from parkazoo.wire.sasl import converse
from parkazoo.wire.tls import tls_options

ConnectMethod = Callable[..., tuple[float, float]]  # a connection's method, or what a program has put in its place


class KazooMember(Member, KazooClient):
    """A member that is the kazoo client of its ensemble, too.

    :param connect_hook: returns how a program connects, given the connection's own method; None if it does not.
    """

    _connection: KazooConnection
    _live: Event
    _stopped: Event

    def __init__(
        self,
        owner: Owner[KazooMember],
        runtime: WireRuntime,
        name: str,
        hosts: str,
        session: SessionId | None,
        options: MemberOptions,
        handler: Handler,
        connect_hook: Callable[[ConnectMethod], ConnectMethod | None],
    ) -> None:
        self.connect_hook = connect_hook
        KazooClient.__init__(
            self,
            hosts=hosts,
            timeout=options.session_timeout_s,
            client_id=session,
            handler=handler,
            read_only=options.read_only,
            randomize_hosts=options.randomize_hosts,
            connection_retry=options.retry.copy(),
            logger=options.logger_for(name),
            **tls_options(options.tls),
        )
        Member.__init__(self, owner, runtime, name, hosts, session, options)

    def _make_connection(self, logger: Log) -> KazooConnection:
        return KazooConnection(self, logger)

    def _reset(self) -> None:
        """Overrides kazoo's, at its construction: the member has all that."""

    def _call(self, request: WireRequest, async_object: Reply | None) -> bool:
        """Overrides kazoo's, for a program that uses this member as a client of its own."""
        self.submit(request, async_object)
        return self._state not in CLOSED_ERRORS

    @property
    def state(self) -> str:
        """Overrides kazoo's attribute: the KazooState of this ensemble."""
        return kazoo_state(self._state)

    @state.setter
    def state(self, state: str) -> None:
        """kazoo's constructor sets it."""

    @property
    def _queue(self) -> Backlog:
        """Overrides kazoo's attribute."""
        return self.backlog

    def _become(self, state: str) -> None:
        super()._become(state)
        if state in CONNECTED_STATES:
            self._live.set()
        else:
            self._live.clear()

    @property
    def overrides(self) -> Mapping[str, Any]:  # type: ignore[override]  # a program changes it at any time
        return vars(self.handler)

    def socket_maker(self) -> Callable[..., socket.socket] | None:
        """Returns the handler's `create_connection`, if a program has replaced kazoo's."""
        create: Callable[..., socket.socket] = self.handler.create_connection
        return None if create.__module__.startswith("kazoo.handlers.") else create

    def is_connected_otherwise(self) -> bool:
        return self.connect_hook(self._connection._connect) is not None or self.socket_maker() is not None

    def authenticate(self, sock: socket.socket, host: str, timeout_s: float) -> None:
        assert self.sasl_options is not None
        converse(self.sasl_options, self.handler, sock, host, timeout_s, self._connection.logger)

    def close(self) -> None:
        self._connection.close()

    def abandon(self) -> None:
        self._live, self._stopped = self.handler.event_object(), self.handler.event_object()
        self._stopped.set()
        super().abandon()


class KazooConnection(MemberConnection, ConnectionHandler):
    """Has the attributes of kazoo's, and connects by a program's own function if there is one."""

    client: KazooMember
    connection_stopped: Event
    _established: Any = None  # until a program's `_connect` has returned

    def __init__(self, client: KazooMember, logger: Log) -> None:
        ConnectionHandler.__init__(self, client, client.retry_policy, logger, client.sasl_options)
        MemberConnection.__init__(self, client, logger)

    def start(self) -> None:
        if not self.connection_stopped.is_set():
            raise Exception("Unable to start, connection routine already active.")
        self.connection_closed.clear()
        self.connection_stopped.clear()
        loop: Any = self.client.runtime.loop
        self._read_sock, self._write_sock = loop.read_sock, loop.write_sock
        super().start()

    def stop(self, timeout: float | None = None) -> bool:
        """Returns whether it has stopped within the time."""
        self.connection_stopped.wait(timeout)
        return bool(self.connection_stopped.is_set())

    def close(self) -> None:
        if not self.connection_stopped.is_set():
            raise Exception("Cannot close connection until it is stopped")
        self.connection_closed.set()
        self._read_sock = self._write_sock = None

    def abandon(self) -> None:
        super().abandon()
        self._read_sock = self._write_sock = None
        self.connection_stopped = self.client.handler.event_object()
        self.connection_stopped.set()

    def _note_end(self) -> None:
        super()._note_end()
        self.connection_stopped.set()

    def _connect(self, *address: Any) -> tuple[float, float]:
        """Overrides kazoo's, for a program that has replaced it and calls the original: connects, and waits.

        :returns: time-outs in ms, for reading and for connecting.
        """
        host, ip, port = address
        has_ended = self.client.handler.event_object()
        outcomes: list[Outcome] = []

        def end(outcome: Outcome) -> None:
            outcomes.append(outcome)
            has_ended.set()

        loop = self._loop
        if loop is None:
            raise ConnectionDropped("the client has stopped")
        loop.call(partial(self._try_alone, Address(host, ip, port), end))
        has_ended.wait()
        (outcome,) = outcomes
        if isinstance(outcome, Exception):
            raise outcome
        self._established = outcome
        return outcome.read_timeout_s * 1000, outcome.connect_timeout_s * 1000

    def _try_alone(self, address: Address, on_end: Callable[[Outcome], None]) -> None:
        """For a program that waits for it."""
        if self._loop is None:
            on_end(NotWanted("the client has stopped"))
        else:
            self._race.begin(address, on_end, is_alone=True)

    def _try(self, address: Address) -> None:
        connect = self.client.connect_hook(self._connect)
        if connect is None:
            super()._try(address)
            return
        assert self._loop is not None
        self._is_held = True
        try:
            self._loop.run_blocking(partial(self._try_by, connect, address))
        except Exception as error:  # no thread can be started
            self._program_has_tried(address, ConnectionDropped(str(error)))

    def _try_by(self, connect: ConnectMethod, address: Address) -> None:
        """On another thread: calls the function that a program has put in place of `_connect`."""
        outcome: Outcome | None
        try:
            read_timeout_ms, _ = connect(*address)
            established = self._established
            outcome = established and established._replace(read_timeout_s=read_timeout_ms / 1000)
        except Exception as error:
            outcome = error
        except BaseException as error:  # sys.exit() too
            outcome = ConnectionDropped(repr(error))
        if outcome is None:
            outcome = ConnectionDropped("the program's _connect did not call the original")
        if (loop := self._loop) is not None:
            loop.call(partial(self._program_has_tried, address, outcome))

    def _program_has_tried(self, address: Address, outcome: Outcome) -> None:
        self._is_held = False
        self._established = None
        self._have_tried(address, outcome)
