"""The end of sessions when the interpreter ends: no other thread or greenlet runs any more, and none will."""

from __future__ import annotations

import time
from _socket import socket as PlainSocket  # a program may have replaced the other by gevent's, which would wait
from collections.abc import Iterable
from contextlib import suppress

from parkazoo.wire.link import Link
from parkazoo.wire.loop import READ_BYTES

LIMIT_S = 2.0


def say_farewell(links: Iterable[Link]) -> None:
    """Close the sessions of some connections, and wait until their servers have, two seconds in all."""
    deadline_s = time.monotonic() + LIMIT_S
    for sock in [PlainSocket(fileno=number) for link in links if (number := link.close_alone()) is not None]:
        with suppress(OSError):  # also a time-out
            while (rest_s := deadline_s - time.monotonic()) > 0:
                sock.settimeout(rest_s)
                if not sock.recv(READ_BYTES):  # the server has closed the session, and then the connection
                    break
        sock.close()
