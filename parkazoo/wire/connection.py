"""How a member comes to be connected: kazoo's code connects, on a worker; a Link carries it on the loop."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from kazoo.exceptions import AuthFailedError, ConnectionDropped, SessionExpiredError
from kazoo.protocol.states import KeeperState

from parkazoo.kazoo_private import ConnectionHandler, RWServerAvailable
from parkazoo.wire import loop as loops
from parkazoo.wire.link import Link
from parkazoo.wire.workers import Workers, run_on

CONNECTORS_OF_AN_ENSEMBLE = 8

_connectors: dict[Any, Workers] = {}


class Backoff:
    """What a KazooRetry waits between attempts, without waiting."""

    def __init__(self, retry: Any) -> None:
        self._policy = retry
        self.reset()

    def reset(self) -> None:
        self._attempts = 0
        self._delay_s = self._policy.delay
        self._began_s = time.monotonic()

    def next_delay_s(self) -> float | None:
        """None if there is not to be another attempt."""
        retry = self._policy
        self._attempts += 1
        delay_s: float = self._delay_s * random.uniform(1 - retry.max_jitter, 1 + retry.max_jitter)
        self._delay_s = min(delay_s * retry.backoff, retry.max_delay)
        if self._attempts == retry.max_tries:
            return None
        if retry.deadline is not None and time.monotonic() + delay_s >= self._began_s + retry.deadline:
            return None
        return delay_s


class MemberConnection(ConnectionHandler):
    """The connection of a :class:`~parkazoo.wire.member.Member`, which is its ``client``, from start to stop."""

    _loop: loops.Loop | None = None
    _rw_server: tuple[str, int] | None
    _link: Link | None = None
    _is_looking = False  # for a server that can write

    # ---- any thread ------------------------------------------------------------------------------

    _read_sock: Any
    _write_sock: Any

    def start(self) -> None:
        if not self.connection_stopped.is_set():
            raise Exception("Unable to start, connection routine already active.")
        self.connection_closed.clear()
        self.connection_stopped.clear()
        self._backoff = Backoff(self.retry_sleeper)
        self._servers: Iterator[tuple[str, str, int]] = iter(())
        self._is_trying = True
        self._retry_number = 0
        self._loop = loops.join(self.handler)
        self._read_sock, self._write_sock = self._loop.read_sock, self._loop.write_sock
        self._run(self._look_up)

    def stop(self, timeout: float | None = None) -> bool:
        """Whether it has stopped within the time."""
        self.connection_stopped.wait(timeout)
        return bool(self.connection_stopped.is_set())

    def close(self) -> None:
        if not self.connection_stopped.is_set():
            raise Exception("Cannot close connection until it is stopped")
        self.connection_closed.set()
        self._read_sock = self._write_sock = None

    def abandon(self) -> None:
        """In a child process: close what it has of the parent's socket, without a word to the server."""
        if self._socket is not None:
            with suppress(OSError):  # it had been closed
                os.close(self._socket.detach())
        self._link = self._loop = self._read_sock = self._write_sock = None
        self.connection_stopped = self.handler.event_object()
        self.connection_stopped.set()

    def submit(self, request: Any, reply: Any) -> bool:
        """Send a request, or queue it until that is possible; False if the connection has stopped."""
        link = self._link
        if link is not None and hasattr(request, "serialize"):  # kazoo's test hooks have none
            try:
                if link.send(request, reply):
                    return True
            except Exception as error:  # a value that kazoo's types let through, such as a version of 2**40
                if reply is not None:
                    reply.set_exception(error)
                return True
        self.client._queue.append((request, reply))
        return self.wake()

    def wake(self) -> bool:
        """Have what is queued, a close too, looked at; False if the connection has stopped."""
        link, loop = self._link, self._loop
        if link is not None:
            link.wake()
        elif self.client._stopped.is_set() and loop is not None:
            loop.call(self._give_up)
        return self._write_sock is not None and not self.connection_stopped.is_set()

    # ---- on a worker, for it blocks: to connect, and to tell of states, for listeners may take their time ------

    def _run(self, call: Any) -> None:
        """A server that does not answer must not hold up the connections to other ensembles."""
        hosts = tuple(self.client.hosts)
        workers = _connectors.get(hosts)
        if workers is None:
            workers = _connectors[hosts] = Workers("parkazoo-connect", CONNECTORS_OF_AN_ENSEMBLE)
        run_on(workers, self.handler, call)

    def _look_up(self) -> None:
        self._servers = iter(self._expand_client_hosts())
        self._try_servers()

    def _try_servers(self) -> None:
        """Try the servers that have not been tried, until one accepts."""
        outcome: Any = None
        try:
            for host, ip, port in self._servers:
                if self.client._stopped.is_set() or (outcome := self._try(host, ip, port)) is not None:
                    break
        except Exception:
            self.logger.exception("Unhandled exception in connection loop")
            self._finish()
            return
        if isinstance(outcome, AuthFailedError):
            self._finish()
        else:
            assert self._loop is not None
            self._loop.call(partial(self._have_tried, outcome))

    def _try(self, host: str, ip: str, port: int) -> Any:
        """The time-outs in ms that hold from now on; None if it did not work, an exception if it never will."""
        client = self.client
        self._socket = None
        if self._rw_server:
            (host, port), self._rw_server = self._rw_server, None
            ip = host
        self._tell(KeeperState.CONNECTING)
        try:
            self._xid = 0
            with self._socket_error_handling():
                timeouts = client.connect_hook(super()._connect, host, ip, port)
            self._backoff.reset()
            client.trouble = ""
            return timeouts
        except (ConnectionDropped, self.handler.timeout_exception) as error:
            self.logger.warning("Connection dropped: %s", error)
            client.trouble = f"{host}:{port} {error}"
            self._tell(KeeperState.CONNECTING)
        except AuthFailedError as error:
            self.logger.warning("AUTH_FAILED closing: %s", error)
            self._tell(KeeperState.AUTH_FAILED)
            self._close_socket()
            return error
        except SessionExpiredError:
            self._backoff.reset()
            self.logger.warning("Session has expired")
            self._tell(KeeperState.EXPIRED_SESSION)
        self._close_socket()
        return None

    def _tell(self, state: str) -> None:
        if self.client._state != state:
            self.client._session_callback(state)

    def _close_socket(self) -> None:
        if self._socket is not None:
            self._socket.close()

    def _go_on(self, error: Exception | None) -> None:
        """The link has ended."""
        if error is None:
            self.logger.info("Closing connection")
            self._finish()
            return
        if isinstance(error, AuthFailedError):
            self._tell(KeeperState.AUTH_FAILED)
            self._finish()
            return
        if isinstance(error, SessionExpiredError):
            self._backoff.reset()
            self.logger.warning("Session has expired")
            self._tell(KeeperState.EXPIRED_SESSION)
        elif isinstance(error, RWServerAvailable):
            self._backoff.reset()
            self.logger.warning("Found a RW server, dropping connection")
            self._tell(KeeperState.CONNECTING)
        else:
            self.logger.warning("Connection dropped: %s", error)
            self._tell(KeeperState.CONNECTING)
        self._try_servers()

    def _look_for_writer(self, servers: Iterator[Any], link: Link) -> None:
        try:
            self._rw_server = next(servers) or None
        finally:
            self._is_looking = False
        loop = self._loop
        if self._rw_server and loop is not None:
            loop.call(partial(link.end, RWServerAvailable()))

    def _finish(self) -> None:
        loop, self._loop = self._loop, None
        self.connection_stopped.set()
        self._tell(KeeperState.CLOSED)
        assert loop is not None
        loops.leave(loop)

    # ---- on the loop -----------------------------------------------------------------------------

    def _have_tried(self, timeouts_ms: tuple[float, float] | None) -> None:
        self._is_trying = False
        if timeouts_ms is not None:
            self._begin_link(timeouts_ms[0] / 1000)
        elif self.client._stopped.is_set():
            self._give_up()
        elif (delay_s := self._backoff.next_delay_s()) is None:
            self.logger.warning("Failed connecting to Zookeeper within the connection retry policy.")
            self._give_up()
        else:
            assert self._loop is not None
            self._loop.call_later(delay_s, self._try_again)

    def _begin_link(self, read_timeout_s: float) -> None:
        assert self._loop is not None
        self._link = Link(
            self.client,
            self._socket,
            self._loop,
            self.logger,
            self._read_watch_event,
            read_timeout_s,
            self._pinged,
            self._link_ended,
        )
        self._link.begin()

    def _pinged(self) -> None:
        """On a read-only connection: time to look for a server that can write."""
        if self._ro_mode and self._link is not None and not self._is_looking:
            self._is_looking = True
            self._run(partial(self._look_for_writer, self._ro_mode, self._link))

    def _try_again(self) -> None:
        if not self._is_trying and self._loop is not None:
            self._is_trying = True
            self._run(self._look_up)

    def _give_up(self) -> None:
        """The client is to stop, and there is no session to close. A worker that tries will see it by itself."""
        if self._link is None and not self._is_trying and self._loop is not None:
            self._is_trying = True
            self._run(self._finish)

    def _link_ended(self, error: Exception | None) -> None:
        self._link = None
        self._is_trying = True
        self._run(partial(self._go_on, error))
