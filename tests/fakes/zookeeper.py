"""ZooKeeper in memory behind real sockets, on the asyncio loop of the test: ensembles of one server each."""

from __future__ import annotations

import asyncio
import itertools
import json
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kazoo.protocol.states import WatchedEvent
from kazoo.security import ACL, OPEN_ACL_UNSAFE, Id

from parkazoo.kazoo_private import (
    AUTH_XID,
    PING_XID,
    CheckVersion,
    Close,
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
    multiheader_struct,
)
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.newer_requests import (
    LONG,
    AddWatch,
    CreateContainer,
    CreateTTL,
    GetEphemerals,
    RemoveWatches,
    SetWatches,
    SetWatches2,
    WhoAmI,
)
from parkazoo.protocol.placement import CLIENTS, ENSEMBLE, MAP
from parkazoo.wire.frames import REPLY
from tests.explore.alone import must, prepared
from tests.explore.model import Model
from tests.explore.sessions import bytes as said
from tests.explore.znodes import SEQUENCE, Who

NAMES = "abc"
KINDS = {
    each.type: each
    for each in (CheckVersion, Create, Create2, Delete, Exists, GetACL, GetChildren, GetChildren2, GetData)
} | {each.type: each for each in (SetACL, SetData, Sync, GetEphemerals, RemoveWatches)}


class Reader:
    """The fields of a request."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self) -> int:
        (number,) = int_struct.unpack_from(self._data, self._at)
        self._at += 4
        return int(number)

    def buffer(self) -> bytes | None:
        length = self.number()
        if length < 0:
            return None
        self._at += length
        return self._data[self._at - length : self._at]

    def text(self) -> str:
        return (self.buffer() or b"").decode()

    def flag(self) -> bool:
        self._at += 1
        return bool(self._data[self._at - 1])

    def acls(self) -> list[ACL]:
        return [ACL(self.number(), Id(self.text(), self.text())) for _ in range(self.number())]

    def request(self, kind: int) -> Any:
        if kind == Transaction.type:
            operations = []
            while True:
                each, is_end, _ = multiheader_struct.unpack_from(self._data, self._at)
                self._at += multiheader_struct.size
                if is_end:
                    return Transaction(operations)
                operations.append(self.request(each))
        if kind == WhoAmI.type:
            return WhoAmI()
        if kind in (SetWatches.type, SetWatches2.type):
            (zxid,) = LONG.unpack_from(self._data)
            self._at = LONG.size
            is_single = kind == SetWatches.type
            lists = [tuple(self.text() for _ in range(self.number())) for _ in range(3 if is_single else 5)]
            return SetWatches(zxid, *lists) if is_single else SetWatches2(zxid, *lists[3:])
        path = self.text()
        if kind in (Create.type, Create2.type):
            return KINDS[kind](path, self.buffer(), self.acls(), self.number())
        if kind == AddWatch.type:
            return AddWatch(path, self.number(), None)
        if kind == CreateContainer.type:
            return CreateContainer(path, self.buffer(), self.acls(), self.number() & 0)
        if kind == CreateTTL.type:
            data, acl, flags = self.buffer(), self.acls(), self.number()
            (ttl_ms,) = LONG.unpack_from(self._data, self._at)
            return CreateTTL(path, data, acl, flags & SEQUENCE, ttl_ms)
        if kind in (Exists.type, GetData.type, GetChildren.type, GetChildren2.type):
            return KINDS[kind](path, print if self.flag() else None)
        if kind == SetData.type:
            return SetData(path, self.buffer(), self.number())
        if kind == SetACL.type:
            return SetACL(path, self.acls(), self.number())
        if kind in (Delete.type, CheckVersion.type):
            return KINDS[kind](path, self.number())
        return KINDS[kind](path)


class Ensembles:
    """``async with Ensembles() as cluster``: `cluster.hosts` are those of all.

    :ivar away: ensembles that take no connection; :meth:`cut` ends those that they have.
    :ivar mute: ensembles that do what they are asked, and say nothing.
    :ivar barred: sessions that no server takes.
    :ivar read_only: ensembles whose servers say that they can only read.
    :ivar checks_acls: everybody is the world's anyone.
    :ivar hear: called with each request before it is executed.
    :ivar strike: called with session and ensemble before each request is executed, and again after it, before its
        answer is sent.
    """

    def __init__(self, count: int = 3, form: Form = Form.PLAIN, tls: ssl.SSLContext | None = None) -> None:
        self.names = NAMES[:count]
        self.away: set[int] = set()
        self.mute: set[int] = set()
        self.barred: set[int] = set()
        self.read_only: set[int] = set()
        self.checks_acls = False
        self.requests: list[Any] = []
        self.hear: Callable[[Any], None] = lambda request: None
        self.strike: Callable[[int, int], None] = lambda session, ensemble: None
        self._form = form
        self._tls = tls
        self._sessions = itertools.count(0x1000)
        self._alive: set[int] = set()
        self._writers: dict[tuple[int, int], asyncio.StreamWriter] = {}  # by session and ensemble

    async def __aenter__(self) -> Ensembles:
        self._servers = [
            await asyncio.start_server(self._serving(ensemble), "127.0.0.1", 0, ssl=self._tls)
            for ensemble in range(len(self.names))
        ]
        ports = [server.sockets[0].getsockname()[1] for server in self._servers]
        hosts = {name: f"127.0.0.1:{port}" for name, port in zip(self.names, ports, strict=True)}
        cluster_map = ClusterMap("c", hosts, tuple(self.names), self.names[0], 1, form=self._form)
        self.model: Model = prepared(cluster_map.make_placement(), [])
        self.model.on_event = self._tell
        for ensemble, name in enumerate(self.names):
            identity = json.dumps(cluster_map.identity(name)).encode()
            for path, data in ((CLIENTS, b""), (ENSEMBLE, identity), (MAP, cluster_map.to_json())):
                must(self.model.execute(ensemble, Create(path, data, OPEN_ACL_UNSAFE, 0)))
        self.hosts = ",".join(hosts.values())
        return self

    async def __aexit__(self, *_: object) -> None:
        for ensemble, server in enumerate(self._servers):
            self.cut(ensemble)
            server.close()

    def cut(self, ensemble: int) -> None:
        """End the connections."""
        for session, at in list(self._writers):
            if at == ensemble:
                self.drop(session, at)

    def drop(self, session: int, ensemble: int) -> None:
        """End a connection."""
        writer = self._writers.pop((session, ensemble), None)
        if writer is not None:
            writer.transport.abort()

    def end(self, session: int, ensemble: int) -> None:
        """End a session, and its connection."""
        self._end(session, ensemble)
        self.drop(session, ensemble)

    def is_connected(self, ensemble: int) -> bool:
        """Whether a client is."""
        return any(at == ensemble for _, at in self._writers)

    def expire(self, ensemble: int) -> None:
        """End the sessions, and their connections."""
        for session, at in list(self._writers):
            if at == ensemble:
                self._end(session, at)
        self.cut(ensemble)

    def _end(self, session: int, ensemble: int) -> None:
        self._alive.discard(session)
        for path, znode in list(self.model.nodes[ensemble].items()):
            if znode.owner == session:
                self.model.execute(ensemble, Delete(path, -1))

    def _tell(self, who: Who, ensemble: int, event: WatchedEvent) -> None:
        writer = self._writers.get((who.owners[0], ensemble))
        if writer is not None and ensemble not in self.mute:
            writer.write(said.event(event))

    def _serving(self, ensemble: int) -> Any:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                await self._serve(ensemble, reader, writer)
            writer.transport.abort()

        return serve

    async def _serve(self, ensemble: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def frame() -> bytes:
            (length,) = int_struct.unpack(await reader.readexactly(4))
            return await reader.readexactly(length)

        if ensemble in self.away:
            return
        asked = await frame()
        time_out_ms, session = int.from_bytes(asked[12:16], "big"), int.from_bytes(asked[16:24], "big")
        if session in self.barred:
            return
        if session and session not in self._alive:
            writer.write(said.accepted(0, time_out_ms))
            await writer.drain()
            return
        session = session or next(self._sessions)
        self._alive.add(session)
        self.drop(session, ensemble)  # it goes on here
        self._writers[session, ensemble] = writer
        writer.write(said.accepted(session, time_out_ms, ensemble in self.read_only))
        who = Who(owners=(session,) * 5, has_all=not self.checks_acls)
        left = self.model.watches  # by an earlier connection: servers forget them with that
        self.model.watches = frozenset(each for each in left if (each.who, each.ensemble) != (who, ensemble))
        while True:
            data = await frame()
            xid, kind = int_int_struct.unpack_from(data)
            self.strike(session, ensemble)
            if self._writers.get((session, ensemble)) is not writer:
                return
            answer = self._answer(ensemble, session, who, xid, kind, data[8:])
            self.strike(session, ensemble)
            if ensemble not in self.mute and not writer.transport.is_closing():
                writer.write(answer)
            if kind == Close.type:
                await writer.drain()
                return

    def _answer(self, ensemble: int, session: int, who: Who, xid: int, kind: int, body: bytes) -> bytes:
        zxid = self.model.zxids[ensemble]
        if kind == Close.type:
            self._end(session, ensemble)
        if kind == Close.type or xid in (PING_XID, AUTH_XID):
            return said.framed(REPLY.pack(xid, zxid, 0))
        request = Reader(body).request(kind)
        self.requests.append(request)
        self.hear(request)
        answer = self.model.execute(ensemble, request, who)
        if kind in (Create2.type, CreateTTL.type, CreateContainer.type) and isinstance(answer, str):
            answer = answer, self.model.nodes[ensemble][answer].stat
        return said.answered(xid, self.model.zxids[ensemble], request, answer)
