"""The sockets on which a gateway listens: one for each address of its host, all at one port."""

from __future__ import annotations

import errno
import os
import socket
from contextlib import suppress
from typing import Any

TRIES = 20  # to find a port that is free at each address
Address = tuple[int, tuple[Any, ...]]  # family and socket address


class ListenError(OSError):
    """Reports an address that cannot be listened on."""


def bind(host: str, port: int, *, is_shared: bool = False) -> list[socket.socket]:
    """Bind them. They do not listen yet.

    :param port: 0: any. :param is_shared: processes of this user may bind there, too, if all of them say so.
    :raises ListenError: the host has no address here, or the port is in use.
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        addresses = [*dict.fromkeys((int(family), address) for family, *_, address in found)]
        for _ in range(TRIES):
            with suppress(_TakenError):
                return _bind_all(addresses, port, is_shared=is_shared)
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    except (OSError, UnicodeError) as error:  # the latter for a name that no host can have
        raise ListenError(f"{host}:{port}: {getattr(error, 'strerror', error)}") from None


class _TakenError(OSError):
    """Reports that a port that was free at one address is in use at another."""


def _bind_all(addresses: list[Address], port: int, *, is_shared: bool) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    absent: OSError | None = None
    try:
        for family, address in addresses:
            at = port or (sockets[0].getsockname()[1] if sockets else 0)
            try:
                sockets.append(_bind(family, (address[0], at, *address[2:]), is_shared=is_shared))
            except OSError as error:
                if error.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):  # IPv6 is named, and switched off
                    absent = error
                elif error.errno == errno.EADDRINUSE and at != port:
                    raise _TakenError(error.errno, error.strerror) from None
                else:
                    raise
        if absent is not None and not sockets:
            raise absent
    except OSError:
        for each in sockets:
            each.close()
        raise
    return sockets


def _bind(family: int, address: tuple[Any, ...], *, is_shared: bool) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock
