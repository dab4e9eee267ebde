"""TLS in front of a gateway, over ensembles in memory."""

from __future__ import annotations

import asyncio
import ssl
import sys
import tempfile
from pathlib import Path
from typing import ClassVar
from unittest import mock

from parkazoo.kazoo_private import Create, GetData
from tests.aio.aio_case import until
from tests.gateway.gateway_case import ACL, GatewayCase, RawProgram
from tests.kazoo_suite.certificates import Authority, Credentials

if sys.version_info >= (3, 11):
    from parkazoo.gateway import listen_tls
    from parkazoo.gateway.gateway import Gateway
    from parkazoo.gateway.listen_tls import ListenFiles, TlsListener

HOST = "127.0.0.1"
LARGE = bytes(300_000)


class TestTls(GatewayCase):
    authority: ClassVar[Authority]
    gateways: ClassVar[Credentials]
    folder: ClassVar[Path]

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.authority = Authority("ours")
        cls.gateways = cls.authority.issue("localhost", HOST)

    def file(self, name: str, data: bytes) -> str:
        path = self.folder / name
        path.write_bytes(data)
        return str(path)

    async def secured(self, ca: Authority | None = None) -> Gateway:
        files = ListenFiles(
            self.file("cert", self.gateways.certificate),
            self.file("key", self.gateways.key),
            None if ca is None else self.file("ca", ca.certificate),
        )
        return await self.started_gateway(self.table, files.make_context())

    def context(self, own: Credentials | None = None) -> ssl.SSLContext:
        """A program's."""
        context = ssl.create_default_context(cadata=self.authority.certificate.decode())
        if own is not None:
            context.load_cert_chain(self.file("own-cert", own.certificate), self.file("own-key", own.key))
        return context

    async def connect(self, gateway: Gateway, own: Credentials | None = None) -> RawProgram:
        program = RawProgram(*await asyncio.open_connection(HOST, gateway.port, ssl=self.context(own)))
        self.stack.callback(program.drop)
        return program

    def listener(self, gateway: Gateway) -> TlsListener:
        (listener,) = gateway._listeners
        assert isinstance(listener, TlsListener)
        return listener

    async def nothing_is_left(self, gateway: Gateway) -> None:
        handshakes = self.listener(gateway)._handshakes
        await until(lambda: not (gateway._connections or handshakes), "all connections are over")

    async def test_programs(self) -> None:
        """Requests, large answers, four-letter words, and a session that goes on."""
        gateway = await self.secured()
        zk = await (await self.connect(gateway)).begin()
        await zk.ask(Create("/a", LARGE, ACL, 0))
        sent = [zk.send(GetData("/a", None)) for _ in range(20)]
        self.assertEqual([(await zk.answer())[:2] for _ in sent], [(xid, 0) for xid in sent])
        zk.drop()
        again = await (await self.connect(gateway)).begin(zk.session)
        self.assertEqual(again.session, zk.session)
        self.assertEqual((await again.ask(GetData("/a", None)))[0], LARGE)
        word = await self.connect(gateway)
        word.writer.write(b"ruok")
        self.assertEqual(await word.ended(), b"imok")
        again.drop()
        await self.nothing_is_left(gateway)

    async def test_a_program_that_is_not_read(self) -> None:
        """It is heard, though the layer of TLS may have taken what it says from the socket."""
        gateway = await self.secured()
        zk = await (await self.connect(gateway)).begin()
        (connection,) = gateway._connections
        connection.pause_writing()
        self.assertFalse(connection.has_said_more())
        for _ in range(2):
            zk.send_bytes(11, b"", -2)
            await until(connection.has_said_more, "it has said something")
            await asyncio.sleep(0.05)
            connection.has_said_more()
            self.assertFalse(connection.has_said_more())

    async def test_certificates_of_programs(self) -> None:
        gateway = await self.secured(self.authority)
        zk = await (await self.connect(gateway, self.authority.issue("program"))).begin()
        for own in (None, Authority("another").issue("program")):
            try:
                refused = await self.connect(gateway, own)
            except (ssl.SSLError, ConnectionError):  # or a program first thinks that it is connected
                continue
            refused.writer.write(b"ruok")
            self.assertEqual(await refused.ended(), b"")
        await zk.ping()

    async def test_plain_text(self) -> None:
        gateway = await self.secured()
        for data in (b"ruok", bytes(44), b"\x16\x03\x01\x00\x05hello", b""):
            zk = await self.raw(gateway)
            zk.writer.write(data)
            zk.writer.write_eof()
            self.assertNotIn(b"imok", await zk.ended())
        await self.nothing_is_left(gateway)

    async def test_handshakes_that_stall(self) -> None:
        """Others do not wait for them."""
        gateway = await self.secured()
        with mock.patch.object(listen_tls, "HANDSHAKE_S", 600.0):
            stalled = [await self.raw(gateway) for _ in range(20)]
            stalled[0].writer.write(b"\x16\x03\x01\x02\x00\x01")
            await until(lambda: len(self.listener(gateway)._handshakes) == 20, "they are there")
        zk = await (await self.connect(gateway)).begin()
        await zk.ping()
        self.assertEqual(len(self.listener(gateway)._handshakes), 20)
        for each in (zk, *stalled):
            each.drop()
        await self.nothing_is_left(gateway)

    async def test_a_handshake_that_takes_too_long(self) -> None:
        gateway = await self.secured()
        with mock.patch.object(listen_tls, "HANDSHAKE_S", 0.05):
            for data in (b"", b"\x16\x03\x01\x02\x00\x01"):
                stalled = await self.raw(gateway)
                stalled.writer.write(data)
                self.assertEqual(await stalled.ended(), b"")
        await self.nothing_is_left(gateway)

    async def test_too_many_handshakes(self) -> None:
        """The oldest ends, so that a program can connect."""
        gateway = await self.secured()
        with mock.patch.object(listen_tls, "MOST_HANDSHAKES", 3):
            stalled = [await self.raw(gateway) for _ in range(3)]
            await until(lambda: len(self.listener(gateway)._handshakes) == 3, "they are there")
            await (await self.connect(gateway)).begin()
            self.assertEqual(await stalled[0].ended(), b"")
            self.assertEqual(len(self.listener(gateway)._handshakes), 2)

    async def test_the_gateway_stops(self) -> None:
        gateway = await self.secured()
        stalled, zk = await self.raw(gateway), await (await self.connect(gateway)).begin()
        await until(lambda: self.listener(gateway)._handshakes, "it is there")
        await gateway.stop()
        for each in (stalled, zk):
            self.assertEqual(await each.ended(), b"")
        await self.nothing_is_left(gateway)
        with self.assertRaises(ConnectionError):
            await self.raw(gateway)

    async def test_no_more_files(self) -> None:
        """It goes on when there are some again."""
        gateway = await self.secured()
        loop = asyncio.get_running_loop()
        accept, failed = loop.sock_accept, asyncio.Event()

        async def fail_once(sock: object) -> object:
            if failed.is_set():
                return await accept(sock)  # type: ignore[arg-type]
            failed.set()
            raise OSError(24, "Too many open files")

        with (
            mock.patch.object(loop, "sock_accept", fail_once),
            mock.patch.object(listen_tls, "AGAIN_S", 0.01),
            self.assertLogs("parkazoo.gateway.listen_tls", "WARNING"),
        ):
            for _ in range(2):
                await (await self.connect(gateway)).begin()
        self.assertTrue(failed.is_set())
