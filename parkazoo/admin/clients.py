"""One kazoo client for each ensemble, or for each server, whose errors name it."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar, cast

from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    InvalidACLError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    SessionClosedRequireSaslError,
    SessionExpiredError,
)
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.security import ACL

from parkazoo.admin.steadfast_client import SteadfastClient
from parkazoo.admin.words import ask_server, closes_at_once, takes_request
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import format_hosts, parse_hosts
from parkazoo.protocol.past import CATCH_UP
from parkazoo.protocol.placement import ENSEMBLE
from parkazoo.types import TransactionRequest
from parkazoo.types.handlers import Event
from parkazoo.wire.log import DiscreetLog
from parkazoo.wire.report import words_of
from parkazoo.wire.sasl import verify_sasl
from parkazoo.wire.tls import make_context

TIMEOUT_S = 15.0
SESSION_TIMEOUT_S = 10.0
TCP_TIMEOUT_S = 3.0
AGAIN_S = 0.2
SOON_S = 0.5  # after the first of several has answered
THREADS_MOST = 400  # a hundred ensembles, and their servers: one that is frozen must not hold up others
READS = frozenset({"exists", "get", "get_acls", "get_children"})
REFUSED = "the servers refuse the identity"
FULL = "closes connections as they come: more than its maxClientCnxns or maxCnxns (with TLS also: no quorum)"
ADMITS = "admits only clients that authenticate, by SASL or as its settings say: docs/operations/security.md"
Auth = Sequence[tuple[str, str]]
S = TypeVar("S")
T = TypeVar("T")
log = logging.getLogger(__package__)
log.addHandler(logging.NullHandler())  # a refused connection is an error, not a line on stderr


class UnreadableError(ClusterMapError):
    """An ensemble or a server does not answer, or does not answer this client."""


class NoRightError(UnreadableError):
    """The identity may not use a znode."""


Options = Mapping[str, Any]  # of a client; they are only passed on


class LostError(UnreadableError):
    """The connection was lost before the answer came."""


class _SharedTimeHandler(SequentialThreadingHandler):
    """Has an ensemble's servers share the time to connect. kazoo would give all of it to each, one after another.

    :param within_s: seconds for TCP and TLS with one server.
    """

    def __init__(self, within_s: float) -> None:
        super().__init__()
        self._within_s = within_s

    def create_connection(self, *args: Any, **options: Any) -> socket.socket:
        made: socket.socket = super().create_connection(*args, **{**options, "timeout": self._within_s})
        return made


class AdminClient:
    """A SteadfastClient whose every answer comes within `timeout_s`, with errors that name the ensemble.

    A read is sent again after a lost connection, so that an election is no error.

    :param gives_up: whether a read fails at once when all its servers refuse connections.
    :param registers: as of a SteadfastClient.
    :ivar began_s: when it was started, and `connected_s`, when it was last connected: seconds since the epoch, by
        this machine's clock; 0.0: not yet.
    :ivar has_multi_read: whether its servers know requests of several reads; until one says that it does not.
    """

    def __init__(
        self,
        name: str,
        hosts: str,
        options: Options,
        timeout_s: float,
        *,
        gives_up: bool = False,
        registers: bool = False,
    ) -> None:
        self.name = name
        self.hosts = hosts
        self.timeout_s = timeout_s
        self._gives_up = gives_up
        session_timeout_s = min(SESSION_TIMEOUT_S, timeout_s)
        handler = _SharedTimeHandler(session_timeout_s / len(hosts.split(",")))
        own = {"timeout": session_timeout_s, "handler": handler, "registers": registers}
        self.zk = SteadfastClient(hosts=hosts, logger=DiscreetLog(log), **{**own, **options})
        self.began_s = self.connected_s = 0.0
        self.has_multi_read = True

    def __str__(self) -> str:
        return f"ensemble {self.name} ({self.hosts})" if self.name != self.hosts else f"server {self.hosts}"

    def start(self) -> Event:
        if self.zk.use_ssl:
            make_context(self.zk)  # only to see that it can be made
        if self.zk._connection.sasl_options is not None:
            verify_sasl(self.zk._connection.sasl_options)
        self.zk.add_listener(self._note)
        self.began_s = time.time()
        return self.zk.start_async()

    def _note(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self.connected_s = time.time()

    def stop(self) -> None:
        with suppress(KazooException):  # a server that hangs does not acknowledge the end of the session
            self.zk.stop()
            self.zk.close()

    def ask(self, word: str, within_s: float | None = None) -> str:
        """Ask the client's server, its first if it has several, a four-letter word; return the whole answer.

        :param within_s: seconds for all of it; `timeout_s` by default.
        :raises OSError: the server cannot be reached, or its answer does not end in time.
        """
        (server, *_) = parse_hosts(self.hosts)
        context = make_context(self.zk) if self.zk.use_ssl else None
        return ask_server(word, server, self.timeout_s if within_s is None else within_s, context)

    def takes(self, size: int) -> bool | None:
        """Whether its server takes requests of so many bytes; None if that cannot be seen."""
        (server, *_) = parse_hosts(self.hosts)
        context = make_context(self.zk) if self.zk.use_ssl else None
        return takes_request(size, server, min(TCP_TIMEOUT_S, self.timeout_s), context)

    def call(self, method: str, path: str, *arguments: object) -> Any:
        """What kazoo's `method` answers; NoNodeError, NodeExistsError and BadVersionError as they come."""

        def ask() -> Any:
            return self.wait(path, getattr(self.zk, method + "_async")(path, *arguments))

        return self.patiently(ask) if method in READS else ask()

    def patiently(self, ask: Callable[[], T]) -> T:
        """Call `ask`, which only reads; again while connections are lost, for `timeout_s` at most."""
        deadline = time.monotonic() + self.timeout_s
        while time.monotonic() < deadline and not self._is_refused():
            with suppress(LostError):
                return ask()
            time.sleep(AGAIN_S)
        return ask()

    def _is_refused(self) -> bool:
        """Whether to give up, because no server of the ensemble accepts a connection."""
        return self._gives_up and not self.zk.connected and all(_refusals(self))

    def wait(self, path: str, answer: Any) -> Any:
        deadline = time.monotonic() + self.timeout_s
        while not answer.wait(min(1.0, max(0.0, deadline - time.monotonic()))):
            if time.monotonic() > deadline or self._is_refused():
                break
        try:
            return answer.get(timeout=0.0)
        except (NoNodeError, NodeExistsError, BadVersionError):
            raise
        except NoAuthError:
            raise self.no_right(path) from None
        except (AuthFailedError, ConnectionClosedError):  # nothing else closes it while somebody waits
            raise UnreadableError(f"{self}: {REFUSED}") from None
        except SessionClosedRequireSaslError:
            raise UnreadableError(f"{self} {ADMITS}") from None
        except InvalidACLError:
            raise ClusterMapError(f"{self} knows no identity of this client: give one in auth (--auth)") from None
        except (ConnectionLoss, OperationTimeoutError, SessionExpiredError) as error:
            if self.zk.is_elsewhere:
                raise UnreadableError(
                    f"{self}: its servers are not those that the command began with ({ENSEMBLE} differs): see "
                    "`parkazoo map check`, then run the command again"
                ) from error
            raise LostError(self._describe(path, error)) from error
        except (KazooException, self.zk.handler.timeout_exception) as error:
            raise UnreadableError(self._describe(path, error)) from error

    def no_right(self, path: str) -> NoRightError:
        return NoRightError(f"no right to use {path} on {self}: give the identity that has it in auth (--auth)")

    def _describe(self, path: str, error: Exception) -> str:
        told = str(error) or type(error).__name__
        if not self.zk.connected:
            told += f" ({reasons(self)})"
        return f"{path} on {self}: {told}; it is safe to try again"

    def read(self, path: str) -> bytes | None:
        """The data of `path`, not older than this call; None if there is no such znode."""
        found = self.read_with_version(path)
        return found and found[0]

    def read_with_version(self, path: str) -> tuple[bytes, int] | None:
        return self.patiently(lambda: self._read_with_version(path))

    def _read_with_version(self, path: str) -> tuple[bytes, int] | None:
        try:
            synced = self.zk.sync_async(path)
            found = self.zk.get_async(path)  # is answered behind it
            self.wait(path, synced)
            data, stat = self.wait(path, found)
        except NoNodeError:
            return None
        return data or b"", stat.version

    def catch_up(self) -> None:
        """Have the server apply all that was written before, by a write that cannot succeed.

        A sync would not do: a leader answers it before it has applied what its followers have.
        """
        with suppress(BadVersionError, NoNodeError, NoRightError):
            self.wait(CATCH_UP.path, self.zk.delete_async(CATCH_UP.path, CATCH_UP.version))

    def is_there(self, path: str) -> bool:
        try:
            return self.call("exists", path) is not None
        except NoRightError:  # since ZooKeeper 3.9, of what may not be read
            return True

    def children(self, path: str) -> list[str]:
        try:
            children: list[str] = self.call("get_children", path)
        except NoNodeError:
            return []
        return children

    def make(self, path: str, data: bytes, acl: Sequence[ACL]) -> bool:
        """Create `path`; whether it was not there before."""
        try:
            self.call("create", path, data, acl)
        except NodeExistsError:
            return False
        return True

    def set(self, path: str, data: bytes, version: int) -> bool:
        """Whether `path` had that version, and has the data now."""
        try:
            self.call("set", path, data, version)
        except (BadVersionError, NoNodeError):
            return False
        return True

    def commit(self, path: str, transaction: TransactionRequest) -> bool:
        """Whether the transaction, which is about `path`, was carried out."""
        results = self.wait(path, transaction.commit_async())
        if any(isinstance(each, NoAuthError) for each in results):
            raise ClusterMapError(
                f"no right to use {path} on {self}: give the identity that has it in auth (--auth)"
            )
        return not any(isinstance(each, Exception) for each in results)


@contextmanager
def connect_to(
    hosts_by_name: Mapping[str, str],
    options: Options,
    timeout_s: float,
    soon_s: float | None = None,
    *,
    gives_up: bool = False,
    registers: bool = False,
) -> Iterator[tuple[dict[str, AdminClient], list[AdminClient]]]:
    """Clients by name, connected in parallel, and the names that did not connect in time.

    :param soon_s: how long to wait for the others when the first is connected; by default the whole time.
    :param gives_up: do not wait for those whose servers all refuse connections.
    :param registers: for commands that may take long: their sessions are not taken for plain kazoo programs'.
    """
    clients = [
        AdminClient(name, hosts, options, timeout_s, gives_up=gives_up, registers=registers)
        for name, hosts in hosts_by_name.items()
    ]
    refused = [all(each) for each in for_each(clients, _refusals)] if gives_up else [False for _ in clients]
    deadline = time.monotonic() + timeout_s
    is_any_connected = threading.Event()

    def note(state: str) -> None:
        if state == KazooState.CONNECTED:
            is_any_connected.set()

    started: list[AdminClient] = []  # kazoo cannot stop one whose start was interrupted
    try:
        lives = []
        for client in clients:
            client.zk.add_listener(note)
            lives.append(client.start())
            started.append(client)
        if soon_s is not None and is_any_connected.wait(timeout_s):
            deadline = min(deadline, time.monotonic() + soon_s)
        for live, is_refused in zip(lives, refused, strict=True):
            live.wait(0.0 if is_refused else max(0.0, deadline - time.monotonic()))
        yield (
            {client.name: client for client, live in zip(clients, lives, strict=True) if live.is_set()},
            [client for client, live in zip(clients, lives, strict=True) if not live.is_set()],
        )
    finally:
        for_each(started, AdminClient.stop)


Servers = Mapping[
    str, tuple[str, AdminClient]
]  # by address: the ensemble's name, and a client of this server alone
Failures = Mapping[str, tuple[str, str]]  # by address: the ensemble's name, and why there is no client


@contextmanager
def connect_to_each_server(
    clients: Mapping[str, AdminClient], options: Options, timeout_s: float
) -> Iterator[tuple[Servers, Failures]]:
    """A client for each server alone."""
    hosts = {name: client.hosts for name, client in clients.items()}
    with connect_to_all(hosts, options, timeout_s, has_ensembles=False) as connections:
        yield connections.servers, connections.failed


class Connections(NamedTuple):
    """To all of a cluster.

    :param clients: by name, for the ensembles that serve.
    :param absent: ensembles that cannot be reached, and why.
    :param unreadable: ensembles that serve, but do not let this client read, and why.
    """

    clients: Mapping[str, AdminClient]
    absent: Mapping[str, str]
    servers: Servers
    failed: Failures
    unreadable: Mapping[str, str] = MappingProxyType({})

    @property
    def away(self) -> dict[str, str]:
        """The ensembles of which nothing is known, and why."""
        return {**self.absent, **self.unreadable}

    def without(self, unreadable: Mapping[str, str]) -> Connections:
        """The same, if these ensembles cannot be read either."""
        clients = {name: client for name, client in self.clients.items() if name not in unreadable}
        return self._replace(clients=clients, unreadable={**self.unreadable, **unreadable})


@contextmanager
def connect_to_all(
    ensembles: Mapping[str, str],
    options: Options,
    timeout_s: float,
    *,
    has_ensembles: bool = True,
    gives_up: bool = False,
) -> Iterator[Connections]:
    """Clients for each ensemble and for each server alone, connected at the same time.

    :param has_ensembles: whether the ensembles' own clients are wanted.
    :param gives_up: do not wait for ensembles whose servers all refuse connections.
    """
    servers = [(name, server) for name, hosts in ensembles.items() for server in parse_hosts(hosts)]
    any_client = AdminClient("", next(iter(ensembles.values())), options, timeout_s).zk
    refusals = for_each([server for _, server in servers], partial(_refusal, any_client))
    ensemble_of = {format_hosts([server]): name for name, server in servers}
    failed = {
        address: (name, refusal)
        for (address, name), refusal in zip(ensemble_of.items(), refusals, strict=True)
        if refusal
    }
    asked = {address: address for address in ensemble_of if address not in failed}
    wanted = {**(ensembles if has_ensembles else {}), **asked}
    with connect_to(wanted, options, timeout_s, gives_up=gives_up) as (connected, absent):
        silent = [each for each in absent if each.name in asked]
        failed |= {
            each.name: (ensemble_of[each.name], why or "serves no requests")
            for each, why in zip(silent, for_each(silent, _closing), strict=True)
        }
        missing = [client for client in absent if client.name in ensembles]
        yield Connections(
            {name: client for name, client in connected.items() if name in ensembles},
            dict(zip((client.name for client in missing), for_each(missing, reasons), strict=True)),
            {name: (ensemble_of[name], client) for name, client in connected.items() if name in asked},
            failed,
        )


def for_each(items: Sequence[S], function: Callable[[S], T], is_over: threading.Event | None = None) -> list[T]:
    """Call `function` for all of them in parallel.

    :param is_over: set at ^C, or another error, so that those calls end that still run: they are waited for.
    """
    if not items:
        return []
    with ThreadPoolExecutor(min(len(items), THREADS_MOST)) as pool:
        try:
            return list(pool.map(function, items))
        except BaseException:
            if is_over is not None:
                is_over.set()
            raise


def try_each(
    clients: Mapping[str, AdminClient],
    function: Callable[[AdminClient], T],
    is_over: threading.Event | None = None,
) -> tuple[dict[str, T], dict[str, str]]:
    """Call `function` for all clients in parallel; its results, and why the others could not be read, by name."""
    found, errors = attempt_each(clients, function, is_over)
    return found, {name: str(error) for name, error in errors.items()}


def attempt_each(
    clients: Mapping[str, AdminClient],
    function: Callable[[AdminClient], T],
    is_over: threading.Event | None = None,
) -> tuple[dict[str, T], dict[str, UnreadableError]]:
    """As :func:`try_each`, with the errors."""

    def attempt(client: AdminClient) -> tuple[T | None, UnreadableError | None]:
        try:
            return function(client), None
        except UnreadableError as error:
            return None, error

    found = dict(zip(clients, for_each(list(clients.values()), attempt, is_over), strict=True))
    return (
        {name: cast(T, result) for name, (result, error) in found.items() if error is None},
        {name: error for name, (_, error) in found.items() if error is not None},
    )


def _refusals(client: AdminClient) -> list[str]:
    """For each of a client's servers: why it accepts no connection by TCP; empty if it does."""

    def refusal(server: tuple[str, int]) -> str:
        try:
            socket.create_connection(server, TCP_TIMEOUT_S).close()
        except OSError as error:
            return words_of(error)
        return ""

    return for_each(parse_hosts(client.hosts), refusal)


def _closing(client: AdminClient) -> str:
    """Why the first of its servers closes connections before it is asked anything; empty if it does not."""
    (server, *_) = parse_hosts(client.hosts)
    return FULL if closes_at_once(server, TCP_TIMEOUT_S) else ""


def _refusal(client: SteadfastClient, server: tuple[str, int]) -> str:
    """Why `server` accepts no connection with the options of `client`; empty if it does."""
    try:
        with socket.create_connection(server, TCP_TIMEOUT_S) as plain:
            if client.use_ssl:
                make_context(client).wrap_socket(plain, server_hostname=server[0]).close()
    except OSError as error:
        return words_of(error)
    return ""


def _complaint(client: SteadfastClient, server: tuple[str, int]) -> str:
    return FULL if closes_at_once(server, TCP_TIMEOUT_S) else _refusal(client, server)


def reasons(client: AdminClient) -> str:
    """For a client that did not connect: why."""
    state = client.zk.client_state
    if state == KeeperState.AUTH_FAILED:
        return REFUSED
    servers = parse_hosts(client.hosts)
    has_ended = state == KeeperState.CLOSED  # kazoo's next state after AUTH_FAILED
    otherwise = REFUSED if has_ended else "answers, but not as a ZooKeeper that serves (no quorum? TLS?)"
    return ", ".join(
        f"{format_hosts([server])}: {refusal or otherwise}"
        for server, refusal in zip(servers, for_each(servers, partial(_complaint, client.zk)), strict=True)
    )


def unreachable(absent: Sequence[AdminClient]) -> str:
    told = "".join(f"\n  ensemble {client.name}: {reasons(client)}" for client in absent)
    subject = "an ensemble" if len(absent) == 1 else f"{len(absent)} ensembles"
    return f"{subject} cannot be reached within {absent[0].timeout_s:g} s:{told}"
