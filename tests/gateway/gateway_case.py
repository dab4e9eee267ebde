"""What the tests of a gateway share: ensembles in memory, gateways, and programs that send what a test wants."""

from __future__ import annotations

import asyncio
import itertools
import ssl
import sys
from contextlib import suppress
from typing import Any

from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.kazoo_private import AUTH_XID, PING_XID, WATCH_XID, Connect, Watch, int_int_struct, int_struct
from parkazoo.wire.frames import REPLY
from tests.aio.aio_case import DEADLINE_S, LONG_S, AioCase

if sys.version_info >= (3, 11):
    from parkazoo.gateway.gateway import Gateway, GatewayOptions
    from parkazoo.gateway.session_table import SessionTable

ACL = list(OPEN_ACL_UNSAFE)
NEW = (0, bytes(16))


class RawProgram:
    """A program's connection, byte by byte.

    :ivar events: kazoo's Watch of each event, in order; :ivar log: xids of answers, and -1 for events.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.xids = itertools.count(1)
        self.events: list[Watch] = []
        self.log: list[int] = []
        self.session: tuple[int, bytes] = NEW
        self.timeout_ms = -1

    @classmethod
    async def connect(cls, port: int) -> RawProgram:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def begin(self, session: tuple[int, bytes] = NEW, timeout_s: float = LONG_S) -> RawProgram:
        """Connect, and take the answer."""
        self.write(bytes(Connect(0, 0, int(timeout_s * 1000), *session, False).serialize()))
        answer, _ = Connect.deserialize(await self.frame(), 0)
        self.session, self.timeout_ms = (answer.session_id, answer.passwd), answer.time_out
        return self

    def write(self, body: bytes) -> None:
        self.writer.write(int_struct.pack(len(body)) + body)

    async def frame(self) -> bytes:
        async with asyncio.timeout(DEADLINE_S):
            (length,) = int_struct.unpack(await self.reader.readexactly(4))
            return await self.reader.readexactly(length)

    def send(self, request: Any, xid: int | None = None) -> int:
        """Send a request of kazoo's; returns its xid."""
        return self.send_bytes(request.type, bytes(request.serialize()), xid)

    def send_bytes(self, kind: int, body: bytes, xid: int | None = None) -> int:
        xid = next(self.xids) if xid is None else xid
        self.write(bytes(int_int_struct.pack(xid, kind)) + body)
        return xid

    async def answer(self) -> tuple[int, int, bytes]:
        """The next answer, behind any events: xid, error and body."""
        while True:
            frame = await self.frame()
            xid, _, code = REPLY.unpack_from(frame)
            self.log.append(xid)
            if xid != WATCH_XID:
                return xid, code, frame[REPLY.size :]
            self.events.append(Watch.deserialize(frame, REPLY.size)[0])

    async def event(self) -> tuple[int, str]:
        """Type and path of the next event, which comes before any answer."""
        if not self.events:
            frame = await self.frame()
            xid, zxid, _ = REPLY.unpack_from(frame)
            assert (xid, zxid) == (WATCH_XID, -1)
            self.log.append(xid)
            self.events.append(Watch.deserialize(frame, REPLY.size)[0])
        event = self.events.pop(0)
        return event.type, event.path

    async def ask(self, request: Any) -> Any:
        """Send it; returns the answer as kazoo reads it, or the error's code."""
        sent = self.send(request)
        xid, code, body = await self.answer()
        assert xid == sent, (xid, sent)
        return code if code else request.deserialize(body, 0) if hasattr(request, "deserialize") else None

    async def ask_bytes(self, kind: int, body: bytes, xid: int | None = None) -> tuple[int, bytes]:
        """Send it; returns error and body."""
        sent = self.send_bytes(kind, body, xid)
        found, code, answer = await self.answer()
        assert found == sent, (found, sent)
        return code, answer

    async def ping(self) -> None:
        """Send it and take the answer; events may come before."""
        self.send_bytes(11, b"", PING_XID)
        assert (await self.answer())[0] == PING_XID

    async def authenticate(self, scheme: str, credential: bytes) -> int:
        body = int_struct.pack(0) + int_struct.pack(len(scheme)) + scheme.encode()
        return (await self.ask_bytes(100, bytes(body + int_struct.pack(len(credential)) + credential), AUTH_XID))[
            0
        ]

    async def ended(self) -> bytes:
        """What comes until the gateway ends the connection."""
        async with asyncio.timeout(DEADLINE_S):
            with suppress(ConnectionError):
                return await self.reader.read()
        return b""

    def drop(self) -> None:
        self.writer.transport.abort()


class GatewayCase(AioCase):
    """`gateway` is in front of the test's ensembles."""

    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.table = self.stack.enter_context(SessionTable())
        self.gateway = await self.started_gateway(self.table)

    async def started_gateway(
        self, table: SessionTable, tls: ssl.SSLContext | None = None, **options: Any
    ) -> Gateway:
        gateway = Gateway(GatewayOptions(**{"hosts": self.cluster.hosts, **options}), table)
        await gateway.start("127.0.0.1", 0, tls)
        self.stack.push_async_callback(gateway.stop)
        return gateway

    async def raw(self, gateway: Gateway | None = None) -> RawProgram:
        """A program's connection, without a session."""
        program = await RawProgram.connect((gateway or self.gateway).port)
        self.stack.callback(program.drop)
        return program

    async def program(
        self, session: tuple[int, bytes] = NEW, timeout_s: float = LONG_S, gateway: Gateway | None = None
    ) -> RawProgram:
        """A program's connection that has the answer to Connect."""
        return await (await self.raw(gateway)).begin(session, timeout_s)
