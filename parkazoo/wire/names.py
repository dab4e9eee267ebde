"""The IP addresses of servers' names. A look-up may block; one name has one look-up at a time."""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from parkazoo.wire.handshake import Address
from parkazoo.wire.running import RunningLoop

Found = list[Address] | OSError
_asked: dict[tuple[str, str, int], deque[Callable[[Found], None]]] = {}  # who waits; no lock, as for the loops


class LookUp:
    """All addresses of some servers, in their order. For the loop's own thread.

    :param on_end: called once, perhaps at once, with the addresses and, for each name that has none, why.
    """

    def __init__(
        self,
        loop: RunningLoop,
        servers: Sequence[tuple[str, int]],
        on_end: Callable[[list[Address], dict[tuple[str, int], str]], None],
    ) -> None:
        self._loop = loop
        self._on_end = on_end
        self._found: list[Found | None] = [None] * len(servers)
        self._servers = servers
        self._missing = len(servers) + 1
        for index, (name, port) in enumerate(servers):
            host = name.strip()
            if _is_numeric(host):
                self._take(index, [Address(host, host, int(port))])
            else:
                _ask(loop, (host, int(port)), partial(self._heard, index))
        self._take(None, [])

    def _heard(self, index: int, found: Found) -> None:
        """On another thread."""
        self._loop.call(partial(self._take, index, found))

    def _take(self, index: int | None, found: Found) -> None:
        if index is not None:
            self._found[index] = found
        self._missing -= 1
        if self._missing:
            return
        addresses: list[Address] = []
        troubles: dict[tuple[str, int], str] = {}
        for (name, port), each in zip(self._servers, self._found, strict=True):
            if isinstance(each, list):
                addresses += each
            elif each is not None:
                host = name.strip()
                troubles[host, int(port)] = f"cannot resolve {host}: {each.strerror or each}"
        self._on_end(addresses, troubles)


def _is_numeric(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except (OSError, ValueError):
            continue
        return True
    return False


def _ask(loop: RunningLoop, server: tuple[str, int], on_end: Callable[[Found], None]) -> None:
    """Ask, or wait for the answer to the same question."""
    key = loop.kind, *server
    mine = deque([on_end])
    waiting = _asked.setdefault(key, mine)
    if waiting is not mine:
        waiting.append(on_end)
        if _asked.get(key) is not waiting and _has_taken_back(waiting, on_end):
            _ask(loop, server, on_end)
        return
    try:
        loop.run_blocking(partial(_resolve, key))
    except Exception as error:  # no thread can be started
        _answer(key, OSError(str(error)))


def _resolve(key: tuple[str, str, int]) -> None:
    _, host, port = key
    try:
        found: Found = [
            Address(host, str(each[4][0]), port)
            for each in socket.getaddrinfo(host, port, 0, 0, socket.IPPROTO_TCP)
        ]
    except OSError as error:
        found = error
    except UnicodeError as error:
        found = OSError(str(error))
    except BaseException as error:  # what a program's own resolver raises
        found = OSError(repr(error))
    _answer(key, found)


def _answer(key: tuple[str, str, int], found: Found) -> None:
    waiting = _asked.pop(key, deque())
    while True:
        try:
            on_end = waiting.popleft()
        except IndexError:
            return
        on_end(found)


def _has_taken_back(waiting: deque[Callable[[Found], None]], on_end: Callable[[Found], None]) -> bool:
    """Whether it came too late for the answer that the others got."""
    try:
        waiting.remove(on_end)
    except ValueError:
        return False
    return True


def _after_fork() -> None:
    _asked.clear()  # no thread of the child answers


os.register_at_fork(after_in_child=_after_fork)
