"""Whatever a program sends, and in whatever parts it comes: what is a request is answered, the rest ends its
connection, and nothing of it is left.
"""

from __future__ import annotations

import asyncio
import gc
import random
import socket
import sys
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from parkazoo.kazoo_private import (
    AUTH_XID,
    PING_XID,
    CheckVersion,
    Connect,
    Create,
    Create2,
    Delete,
    Exists,
    GetACL,
    GetChildren,
    GetChildren2,
    GetData,
    SetACL,
    SetData,
    Sync,
    Transaction,
    int_int_struct,
    int_struct,
)
from parkazoo.protocol.newer_requests import CreateContainer, CreateTTL, GetEphemerals, WhoAmI, write_text
from parkazoo.wire.frames import REPLY
from tests.aio.aio_case import until
from tests.gateway.gateway_case import ACL, NEW, GatewayCase, RawProgram

if sys.version_info >= (3, 11):
    from parkazoo.gateway import program_connection
    from parkazoo.gateway.program_connection import ProgramConnection
    from parkazoo.gateway.program_session import ProgramSession

PING, MULTI_READ, AUTH = 11, 22, 100
XIDS = {PING: PING_XID, AUTH: AUTH_XID}
NUMBERS = [-(1 << 31), -2, -1, 0, 1, 4, 1 << 20, (1 << 31) - 1]
PATH = write_text("/a")
NONE = int_struct.pack(0)
WATCHED = bytes(8) + int_struct.pack(1) + PATH
READ = int_struct.pack(4) + b"\0" + int_struct.pack(-1) + PATH + b"\0"
END = int_struct.pack(-1) + b"\1" + int_struct.pack(-1)
REQUESTS: list[tuple[int, bytes]] = [
    *(
        (each.type, bytes(each.serialize()))
        for each in (
            Create("/b", b"x", ACL, 0),
            Create("/b/c", b"x", ACL, 3),
            Create2("/c-", b"x", ACL, 2),
            CreateContainer("/d", b"x", ACL, 0),
            CreateTTL("/e", b"x", ACL, 0, 5000),
            Delete("/b", -1),
            Exists("/b", print),
            Exists("/b", None),
            GetData("/a", None),
            GetData("/a", print),
            SetData("/a", b"12345678", -1),
            GetACL("/a"),
            SetACL("/a", ACL, -1),
            GetChildren("/", print),
            GetChildren2("/a", None),
            Sync("/a"),
            GetEphemerals("/"),
            WhoAmI(),
            Transaction([Create("/a/t", b"", ACL, 0), SetData("/a/t", b"1", 0), CheckVersion("/a/t", 1)]),
        )
    ),
    (AUTH, NONE + write_text("digest") + write_text("u:p")),
    (101, WATCHED + 2 * NONE),
    (105, WATCHED + 4 * NONE),
    (106, PATH + NONE),
    (17, PATH + int_struct.pack(3)),
    (18, PATH + int_struct.pack(3)),
    (MULTI_READ, 2 * READ + END),
    (104, PATH),
    (PING, b""),
]


def framed(body: bytes) -> bytes:
    return bytes(int_struct.pack(len(body))) + body


def connect_bytes(session: tuple[int, bytes] = NEW, timeout_ms: int = 600_000, version: int = 0) -> bytes:
    return bytes(Connect(version, 0, timeout_ms, *session, False).serialize())


class QuietTransport(asyncio.Transport):
    """A connection without a socket of its own: what the gateway writes is kept in `written`."""

    def __init__(self, make: Callable[[], asyncio.Protocol], sock: socket.socket) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "socket": sock})
        self._loop = asyncio.get_running_loop()
        self._unread: deque[bytes] = deque()
        self._is_closing = self._is_paused = self.has_ended = False
        self.written = bytearray()
        self.protocol: Any = make()
        self.protocol.connection_made(self)

    def feed(self, *parts: bytes) -> None:
        """The program has sent them."""
        self._unread += parts
        self._read()

    def _read(self) -> None:
        while self._unread and not (self._is_paused or self._is_closing):
            self.protocol.data_received(self._unread.popleft())

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        self._loop.call_soon(self._read)

    def get_write_buffer_size(self) -> int:
        return 0  # the program takes all

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self._lose)

    abort = close

    def _lose(self) -> None:
        self.has_ended = True
        protocol, self.protocol = self.protocol, None
        protocol.connection_lost(None)

    def frames(self) -> Iterator[bytes]:
        """What was written, in whole frames."""
        at = 0
        while at < len(self.written):
            (length,) = int_struct.unpack_from(self.written, at)
            at += 4 + length
            yield bytes(self.written[at - length : at])


class Noise:
    """Bytes that clients of ZooKeeper do not send, the same for each seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def spoiled(self, data: bytes) -> bytes:
        """With some bytes changed, cut out or put in, and some numbers replaced."""
        chance, noise = self.chance, bytearray(data)
        for _ in range(chance.randrange(4)):
            at = chance.randrange(len(noise) + 1)
            way = chance.randrange(4)
            if way == 0 and at < len(noise):
                noise[at] = chance.randrange(256)
            elif way == 1:
                noise[at : at + 4] = int_struct.pack(chance.choice(NUMBERS))
            elif way == 2:
                del noise[at : at + chance.randrange(9)]
            else:
                noise[at:at] = chance.randbytes(chance.randrange(9))
        return bytes(noise)

    def cut(self, data: bytes) -> list[bytes]:
        """In some parts."""
        ends = sorted(self.chance.randrange(len(data) + 1) for _ in range(self.chance.randrange(5)))
        return [data[begin:end] for begin, end in zip([0, *ends], [*ends, len(data)], strict=True)]

    def opening(self) -> bytes:
        """Of a connection that has no session yet."""
        chance = self.chance
        way = chance.randrange(6)
        if way == 0:
            return chance.randbytes(chance.randrange(64))
        if way == 1:
            return bytes(int_struct.pack(chance.choice(NUMBERS))) + chance.randbytes(chance.randrange(64))
        if way == 2:
            return framed(self.spoiled(connect_bytes((chance.getrandbits(63), chance.randbytes(16)))))
        if way == 3:
            return framed(connect_bytes((chance.getrandbits(63), b"")))[: chance.randrange(48)]
        if way == 4:
            return chance.choice([b"ruok", b"mntr\n", b"stat", b"ruokruok", b"cons", b"dump", b"envi"])
        kind, body = chance.choice(REQUESTS)
        return framed(bytes(int_int_struct.pack(1, kind)) + body)

    def request(self, xid: int) -> bytes:
        """A frame that may be a request, or several in one."""
        kind, body = self.chance.choice(REQUESTS)
        if self.chance.random() < 0.02:
            kind = self.chance.choice([*range(-10, 30), *range(101, 108), *NUMBERS])
        while self.chance.random() < 0.1:
            body += body
        return framed(bytes(int_int_struct.pack(XIDS.get(kind, xid), kind)) + self.spoiled(body))


class FuzzCase(GatewayCase):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        pair = socket.socketpair()
        for each in pair:
            self.addCleanup(each.close)
        self.sock = pair[0]

    def connected(self) -> QuietTransport:
        return QuietTransport(self.gateway._connection, self.sock)

    def left(self) -> dict[str, int]:
        """What there is."""
        gc.collect()
        kinds = [type(each) for each in gc.get_objects()]
        loop: Any = asyncio.get_running_loop()
        return {
            "files": len([*Path("/proc/self/fd").iterdir()]),
            "tasks": len(asyncio.all_tasks()),
            "timers": sum(not each.cancelled() for each in loop._scheduled),
            "rows": len(self.table.numbers),
            "sessions": len(self.gateway._sessions) + len(self.gateway._beginning) + len(self.gateway._ending),
            "connections": len(self.gateway._connections),
            "objects": kinds.count(ProgramConnection) + kinds.count(ProgramSession),
        }

    async def nothing_is_left(self, before: dict[str, int]) -> None:
        await until(lambda: self.left() == before, f"at first {before}, and now {self.left()}")


class TestOpenings(FuzzCase):
    async def test_many(self) -> None:
        """Without a session, each ends by itself or with its program; four-letter words are answered."""
        noise, before, words = Noise(1), self.left(), 0
        for _ in range(6000):
            transport = self.connected()
            opening = noise.opening()
            transport.feed(*noise.cut(opening))
            words += opening == b"ruok" and transport.written == b"imok"
            transport.close()  # as its program does, if the gateway has not
            if len(self.gateway._connections) > 50:
                await asyncio.sleep(0)
        self.assertGreater(words, 20)
        await self.nothing_is_left(before)

    async def test_with_sockets(self) -> None:
        noise, before = Noise(2), self.left()
        for _ in range(150):
            program = await RawProgram.connect(self.gateway.port)
            for part in noise.cut(noise.opening()):
                program.writer.write(part)
            if noise.chance.random() < 0.5:
                program.drop()
            else:
                program.writer.write_eof()
                await program.ended()
                program.writer.close()
        await self.nothing_is_left(before)

    async def test_each_field_of_connect(self) -> None:
        """It is a session, or none; the gateway's own limits hold for times."""
        zk = await self.program()
        number, password = zk.session
        least, most = 1000, 3_600_000
        with_flag = connect_bytes()
        for body, timeout_ms in (
            (connect_bytes(version=7), 600_000),
            (connect_bytes(version=-1), 600_000),
            (with_flag[:4] + b"\x7f" + b"\xff" * 7 + with_flag[12:], 600_000),  # has seen more than there is
            (with_flag[:4] + b"\xff" * 8 + with_flag[12:], 600_000),
            (with_flag[:-1], 600_000),  # as older programs
            (with_flag[:-1] + b"\xff", 600_000),
            (with_flag + b"more", 600_000),
            (connect_bytes(timeout_ms=0), least),
            (connect_bytes(timeout_ms=-1), least),
            (connect_bytes(timeout_ms=(1 << 31) - 1), most),
            (connect_bytes((0, b"")), 600_000),
            (connect_bytes((0, b"x" * 1000)), 600_000),
            (connect_bytes((number, password), version=1), 600_000),
            (connect_bytes((number, password), timeout_ms=-5), 600_000),
            (connect_bytes((number, password + b"x")), 0),
            (connect_bytes((number, password[:-1])), 0),
            (connect_bytes((-number, password)), 0),
            (connect_bytes(((1 << 63) - 1, password)), 0),
            (connect_bytes((-(1 << 63), b"")), 0),
        ):
            other = await self.raw()
            other.write(body)
            answer, _ = Connect.deserialize(await other.frame(), 0)
            self.assertEqual((answer.time_out, bool(answer.session_id)), (timeout_ms, timeout_ms > 0), body)
            other.drop()
        for wrong in (with_flag[:20], with_flag[:24] + int_struct.pack(17) + bytes(16), with_flag[:24] + b"\xff"):
            other = await self.raw()
            other.write(wrong)
            self.assertEqual(await other.ended(), b"")
        await (await self.program(zk.session)).ping()

    async def test_one_byte_at_a_time(self) -> None:
        """A program that is slow gets its session; one that never ends a frame is not waited for."""
        transport = self.connected()
        transport.feed(*(bytes([each]) for each in framed(connect_bytes())))
        await until(lambda: transport.written, "it is connected")
        transport.close()
        with mock.patch.object(program_connection, "CONNECT_S", 0.01):
            slow = self.connected()
        slow.feed(b"\0\0")
        await until(lambda: slow.has_ended, "it is over")


class TestRequests(FuzzCase):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.zk = await self.program()
        for path in ("/a", "/x", "/y", "/x/1", "/y/1"):
            await self.zk.ask(Create(path, b"", ACL, 0))
        self.session = self.gateway._sessions[self.zk.session[0]]
        for name in self.cluster.names:
            await self.session.client.join(name)
        self.zk.drop()
        await until(lambda: not self.gateway._connections, "it is away")

    async def talk(self, *parts: bytes, pings: bool = True) -> QuietTransport:
        """Send them in a connection of the session; it has ended, or has the answer to a ping behind them."""
        transport = self.connected()
        transport.feed(framed(connect_bytes(self.zk.session)), *parts)
        if pings:
            transport.feed(framed(bytes(int_int_struct.pack(PING_XID, PING))))
        await until(lambda: transport.has_ended or self.is_idle(transport), "it is over, or idle")
        return transport

    @staticmethod
    def answers(transport: QuietTransport) -> list[tuple[int, int]]:
        """Xid and error of each, behind the answer to Connect; also events."""
        return [REPLY.unpack_from(frame)[::2] for frame in [*transport.frames()][1:]]

    @staticmethod
    def is_idle(transport: QuietTransport) -> bool:
        connection = transport.protocol
        return bool(connection._is_welcome) and not (transport._unread or connection._row or connection._is_due)

    async def test_spoiled(self) -> None:
        """Answers come in the order of the requests. The session and its connections to servers go on."""
        noise, ended, answered = Noise(3), 0, 0
        before, servers = self.left(), dict(self.cluster._writers)
        for _ in range(250):
            sent = [*map(noise.request, range(1, 2 + noise.chance.randrange(8)))]
            transport = await self.talk(*noise.cut(b"".join(sent)))
            found = [xid for xid, _ in self.answers(transport)]
            answers = [xid for xid in found if xid > 0]  # those to credentials and pings come at once
            xids = [xid for each in sent if (xid := int_struct.unpack_from(each, 4)[0]) > 0]
            self.assertEqual(answers, xids[: len(answers)])
            self.assertTrue(transport.has_ended or answers == xids, (sent, found))
            ended += transport.has_ended
            answered += len(answers)
            transport.close()
            await until(lambda transport=transport: transport.has_ended, "it is over")
        self.assertGreater(min(ended, answered), 50)
        self.assertTrue(self.session.client.has_all)
        self.assertEqual(servers, self.cluster._writers)
        await self.nothing_is_left(before)

    async def test_very_many_reads(self) -> None:
        """They are answered some at a time, in front of what comes behind them; too large an answer is refused."""
        count = 3 * program_connection.READS_AT_ONCE
        set_data = framed(bytes(int_int_struct.pack(2, SetData.type)) + bytes(SetData("/a", b"", -1).serialize()))
        for reads, code in ((count - 150, 0), (count, -8)):
            await self.session.client.set("/a", bytes(1 << 14))
            body = bytes(int_int_struct.pack(1, MULTI_READ)) + reads * READ + END
            transport = await self.talk(framed(body), set_data)
            found = [(xid, error) for xid, error in self.answers(transport) if xid > 0]
            self.assertEqual(found, [(1, code), (2, 0)])
            transport.close()
        cut = framed(bytes(int_int_struct.pack(1, MULTI_READ)) + count * READ + END[:-1])
        self.assertTrue((await self.talk(cut)).has_ended)
