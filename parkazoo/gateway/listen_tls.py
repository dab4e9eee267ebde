"""TLS in front: a listener whose connections are a program's once their handshake has succeeded."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import NamedTuple

from kazoo.exceptions import ConfigurationError

log = logging.getLogger(__name__)

HANDSHAKE_S = 10.0
SHUTDOWN_S = 5.0
MOST_HANDSHAKES = 200  # at a time
AGAIN_S = 0.1  # no more files can be opened, for example


class ListenFiles(NamedTuple):
    """PEM files. :param ca: authorities of the programs' certificates; None: programs need none."""

    cert: str
    key: str
    ca: str | None = None

    def make_context(self) -> ssl.SSLContext:
        """:raises ConfigurationError: the files cannot be used."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.cert, self.key, "")  # without a password it would ask on the terminal
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"{self.cert} and {self.key} are not a certificate and its key, or the key is encrypted: "
                f"{_reason(error)}"
            ) from None
        if self.ca is not None:
            try:
                context.load_verify_locations(self.ca)
            except OSError as error:
                raise ConfigurationError(f"{self.ca} holds no certificates: {_reason(error)}") from None
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error) or type(error).__name__


class TlsListener:
    """Listens until :meth:`close`. A handshake holds up no other; if there are too many, the oldest ends.

    :param sock: bound. :param make: makes the protocol of a connection.
    """

    def __init__(
        self, sock: socket.socket, context: ssl.SSLContext, make: Callable[[], asyncio.Protocol], backlog: int
    ) -> None:
        self._sock = sock
        self._context = context
        self._make = make
        self._handshakes: dict[asyncio.Task[None], None] = {}  # in the order in which they began
        sock.setblocking(False)
        sock.listen(backlog)
        self._accepting = asyncio.ensure_future(self._accept())

    def close(self) -> None:
        for task in (self._accepting, *self._handshakes):
            task.cancel()
        self._sock.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, (host, port, *_) = await loop.sock_accept(self._sock)
            except OSError as error:
                log.warning("no connection can be accepted: %s", error.strerror)
                await asyncio.sleep(AGAIN_S)
                continue
            if len(self._handshakes) >= MOST_HANDSHAKES:
                next(iter(self._handshakes)).cancel()
            task = asyncio.ensure_future(self._shake_hands(sock, f"{host}:{port}"))
            self._handshakes[task] = None
            task.add_done_callback(self._handshakes.pop)

    async def _shake_hands(self, sock: socket.socket, address: str) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._make,
                sock,
                ssl=self._context,
                ssl_handshake_timeout=HANDSHAKE_S,
                ssl_shutdown_timeout=SHUTDOWN_S,
            )
        except OSError as error:
            log.info("%s: no TLS: %s", address, _reason(error))
