"""The sockets on which a gateway listens."""

from __future__ import annotations

import errno
import socket
import sys
import unittest
from typing import Any
from unittest import mock

from tests.aio.aio_case import needs_aio

if sys.version_info >= (3, 11):
    from parkazoo.gateway import listen_sockets
    from parkazoo.gateway.listen_sockets import ListenError, bind

FIRST, SECOND, ABSENT = "127.0.0.1", "127.0.0.2", "192.0.2.1"


def named(*addresses: str) -> Any:
    """A name that has these addresses."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, 0)) for each in addresses]
    return mock.patch("socket.getaddrinfo", return_value=[*found, *found])


@needs_aio
class TestBind(unittest.TestCase):
    def bound(self, *, port: int = 0, is_shared: bool = False) -> list[tuple[str, int]]:
        sockets = bind("host", port, is_shared=is_shared)
        for each in sockets:
            self.addCleanup(each.close)
            each.listen()
        return [each.getsockname() for each in sockets]

    def test_each_address_has_the_same_port(self) -> None:
        with named(FIRST, SECOND):
            (first, port), second = self.bound()
            self.assertEqual((first, second), (FIRST, (SECOND, port)))

    def test_a_port_that_is_free_at_one_address_alone(self) -> None:
        """Another one is tried, unless that port is wanted. Nothing of it stays open."""
        for at in (FIRST, SECOND):
            with named(FIRST, SECOND), socket.create_server((at, 0)) as taken:
                port = taken.getsockname()[1]
                self.assertRaisesRegex(ListenError, f"^host:{port}: Address already", self.bound, port=port)
        tried: list[Any] = []
        bind_one = listen_sockets._bind

        def fail_first(family: int, address: Any, **options: bool) -> Any:
            tried.append(address)
            if len(tried) == 2:
                raise OSError(errno.EADDRINUSE, "Address already in use")
            return bind_one(family, address, **options)

        with named(FIRST, SECOND), mock.patch.object(listen_sockets, "_bind", fail_first):
            self.assertEqual(len({port for _, port in self.bound()}), 1)
        self.assertEqual([(address, bool(port)) for address, port in tried], 2 * [(FIRST, False), (SECOND, True)])

    def test_no_port_is_free_at_all_addresses(self) -> None:
        def fail_second(family: int, address: Any, **options: bool) -> Any:
            if address[0] == SECOND:
                raise OSError(errno.EADDRINUSE, "Address already in use")
            return mock.Mock(**{"getsockname.return_value": (FIRST, 9)})

        with (
            named(FIRST, SECOND),
            mock.patch.object(listen_sockets, "_bind", fail_second),
            self.assertRaisesRegex(ListenError, "^host:0: Address already in use$"),
        ):
            bind("host", 0)

    def test_an_address_that_is_switched_off(self) -> None:
        with named(ABSENT, FIRST):
            self.assertEqual([address for address, _ in self.bound()], [FIRST])
        with named(ABSENT), self.assertRaisesRegex(ListenError, "Cannot assign requested address"):
            self.bound()

    def test_what_is_no_host(self) -> None:
        for name in ("no.such.host.invalid", "a..b", "x" * 70):
            with self.assertRaisesRegex(ListenError, f"^{name}:0: "):
                bind(name, 0)

    def test_shared(self) -> None:
        with named(FIRST):
            ((_, port),) = self.bound(is_shared=True)
            self.assertEqual(self.bound(port=port, is_shared=True), [(FIRST, port)])
            self.assertRaises(ListenError, self.bound, port=port)
