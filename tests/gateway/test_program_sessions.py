"""Sessions of programs: how they begin, go on, move and end, over ensembles in memory."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import sys
import tempfile
from pathlib import Path
from unittest import mock

from parkazoo.kazoo_private import (
    Close,
    Connect,
    Create,
    Exists,
    GetACL,
    GetChildren,
    GetData,
    SetData,
    int_struct,
)
from parkazoo.protocol.newer_requests import GetEphemerals, write_text
from parkazoo.protocol.placement import logical
from tests.aio.aio_case import until
from tests.gateway.gateway_case import ACL, GatewayCase, RawProgram

if sys.version_info >= (3, 11):
    from parkazoo.gateway import gateway as gateway_module
    from parkazoo.gateway import program_connection, program_replies, program_session
    from parkazoo.gateway.gateway import Gateway, GatewayOptions
    from parkazoo.gateway.session_table import SessionTable
    from parkazoo.gateway.upstream import UpstreamClient

PATHS = ["/a", "/b", "/c", "/d"]
EPHEMERALS = [f"{path}/e" for path in PATHS]
MIB = 1 << 20
CONNECT = bytes(Connect(0, 0, 4000, 0, bytes(16), False).serialize())


class SessionCase(GatewayCase):
    async def holder(self, timeout_s: float = 600) -> RawProgram:
        """A program with ephemerals on all ensembles."""
        zk = await self.program(timeout_s=timeout_s)
        for path in PATHS:
            await zk.ask(Create(path, b"", ACL, 0))
            await zk.ask(Create(f"{path}/e", b"", ACL, 1))
        self.assertEqual({at for at in range(3) if self.held(at)}, {0, 1, 2})
        return zk

    def held(self, *ensembles: int) -> list[str]:
        """The ephemerals that are there."""
        nodes = (self.cluster.model.nodes[at] for at in ensembles or range(3))
        return sorted({logical(path) for each in nodes for path in each} & {*EPHEMERALS})

    async def check_holds(self, zk: RawProgram) -> None:
        self.assertEqual(await zk.ask(GetEphemerals("/")), EPHEMERALS)


class TestSessions(SessionCase):
    async def test_a_program_that_connects_again(self) -> None:
        zk = await self.holder()
        zk.drop()
        again = await self.program(zk.session)
        self.assertEqual((again.session, again.timeout_ms), (zk.session, zk.timeout_ms))
        await self.check_holds(again)
        third = await self.program(zk.session)  # before the other has ended
        await again.ended()
        await self.check_holds(third)

    async def test_what_is_no_session(self) -> None:
        zk = await self.program()
        number, password = zk.session
        for session in ((number, b"x" * 16), (number, b""), (number + 1, password), (-5, password)):
            refused = await self.program(session)
            self.assertEqual((refused.session[0], refused.timeout_ms), (0, 0))
            self.assertEqual(await refused.ended(), b"")
        await zk.ping()

    async def test_a_silent_program(self) -> None:
        zk = await self.holder(1)
        self.assertEqual(await zk.ended(), b"")
        await until(lambda: not self.held(), "its ephemerals are gone")
        self.assertEqual((await self.program(zk.session)).timeout_ms, 0)
        self.assertEqual(self.gateway._sessions, {})

    async def test_a_look_at_the_sessions_that_fails(self) -> None:
        """The log says so, and the next one goes on."""
        zk = await self.holder(1)
        with (
            mock.patch.object(SessionTable, "sweep", side_effect=ZeroDivisionError) as sweep,
            self.assertLogs("parkazoo.gateway.gateway", "WARNING") as logs,
        ):
            await until(lambda: sweep.call_count > 1, "it has failed twice")
        (line,) = logs.output
        self.assertIn("ZeroDivisionError", line)
        self.assertEqual(await zk.ended(), b"")

    async def test_a_program_that_goes_away(self) -> None:
        (await self.holder(1)).drop()
        await until(lambda: not self.held(), "its ephemerals are gone")

    async def test_one_that_is_not_read(self) -> None:
        """It lives for as long as it says something."""
        zk = await self.program(timeout_s=1)
        connection = self.gateway._sessions[zk.session[0]].program
        assert isinstance(connection, program_connection.ProgramConnection)
        connection.pause_writing()
        for _ in range(8):
            zk.send_bytes(11, b"", -2)
            await asyncio.sleep(0.2)
        self.assertIn(zk.session[0], self.gateway._sessions)
        connection.resume_writing()
        for _ in range(8):
            self.assertEqual((await zk.answer())[0], -2)
        connection.pause_writing()
        zk.send_bytes(11, b"", -2)
        self.assertEqual(await zk.ended(), b"")
        self.assertNotIn(zk.session[0], self.gateway._sessions)

    async def test_the_gateway_was_asleep(self) -> None:
        """What programs have said meanwhile has not been read yet."""
        zk = await self.holder()
        self.gateway._ticked_s -= 10_000
        session = self.gateway._sessions[zk.session[0]]
        session.heard_s -= 10_000
        await until(lambda: session.heard_s > self.gateway._ticked_s - 600, "the gateway has looked")
        await self.check_holds(zk)

    async def test_a_session_that_servers_have_expired(self) -> None:
        zk = await self.holder()
        self.cluster.expire(next(at for at in range(3) if self.held(at)))
        await zk.ended()
        refused = await self.program(zk.session)
        if refused.timeout_ms:  # the client did not know yet
            await refused.ended()
            refused = await self.program(zk.session)
        self.assertEqual(refused.timeout_ms, 0)
        await until(lambda: not self.held(), "its ephemerals are gone")

    async def test_an_ensemble_that_is_away(self) -> None:
        """The program waits, if it holds something there. The session goes on."""
        zk = await self.holder()
        away = next(at for at in range(3) if self.held(at))
        self.cluster.away.add(away)
        self.cluster.cut(away)
        await zk.ended()
        again = await self.raw()
        beginning = asyncio.create_task(again.begin(zk.session))
        session = self.gateway._sessions[zk.session[0]]
        await until(lambda: session.program is not None, "it has asked")
        self.assertFalse(beginning.done())
        self.cluster.away.clear()
        await beginning
        self.assertEqual(again.session, zk.session)
        await self.check_holds(again)

    async def test_an_ensemble_of_no_concern_that_is_away(self) -> None:
        """Other requests go on, on the same connection."""
        zk, other = await self.program(timeout_s=20), await self.holder()
        for path in PATHS:
            await zk.ask(Exists(f"{path}/e", None))
        self.assertEqual(len(await zk.ask(GetChildren("/", None))), len(PATHS))
        away = next(at for at in range(3) if self.held(at) and at != self.ensemble_of("/a"))
        self.cluster.away.add(away)
        self.cluster.cut(away)
        session = self.gateway._sessions[zk.session[0]]
        await until(lambda: not session.client.has_all, "it is away")
        self.assertEqual((await zk.ask(GetData("/a", None)))[0], b"")
        other.drop()

    async def test_credentials(self) -> None:
        """They are the session's alone, outlast the program's connection, and are not too many."""
        zk, other = await self.program(), await self.program()
        clients = [self.gateway._sessions[each.session[0]].client for each in (zk, other)]
        for _ in range(2):
            self.assertEqual(await zk.authenticate("digest", b"u:p"), 0)
            self.assertEqual([each.auth_data for each in clients], [{("digest", "u:p")}, set()])
            zk.drop()
            zk = await self.program(zk.session)
        with mock.patch.object(program_connection, "MOST_IDENTITIES", 2):
            self.assertEqual([await zk.authenticate("digest", b"%d:p" % at) for at in range(2)], [0, -115])
            self.assertEqual(await zk.ended(), b"")
        zk = await self.program(zk.session)
        self.assertEqual((await zk.authenticate("digest", b"u:p"), len(clients[0].auth_data)), (0, 2))

    async def test_addresses(self) -> None:
        """Of a host that has several, each has the port."""
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"127.0.0.{at}", 0)) for at in (1, 2)]
        gateway = Gateway(GatewayOptions(self.cluster.hosts), self.table)
        with mock.patch("socket.getaddrinfo", return_value=found):
            await gateway.start("localhost", 0)
        self.stack.push_async_callback(gateway.stop)
        for at in (1, 2):
            zk = RawProgram(*await asyncio.open_connection(f"127.0.0.{at}", gateway.port))
            await zk.begin()
            zk.drop()

    async def test_no_cluster(self) -> None:
        gateway = await self.started_gateway(self.table, hosts="127.0.0.1:1")
        with mock.patch.object(program_session, "START_S", 0.05):
            zk = await self.raw(gateway)
            zk.write(CONNECT)
            self.assertEqual(await zk.ended(), b"")
        await until(lambda: not gateway._beginning, "it is forgotten")

    async def test_a_program_that_goes_before_its_session_begins(self) -> None:
        """It cannot come back, for it has no password."""
        self.cluster.away.update(range(3))
        for _ in range(4):
            zk = await self.raw()
            zk.write(CONNECT)
            await until(lambda: self.gateway._beginning, "it has asked")
            zk.drop()
            await until(lambda: not self.gateway._beginning, "it is forgotten")
        self.cluster.away.clear()

    async def test_one_that_ends_before_it_begins(self) -> None:
        """Its client never starts."""
        session = self.gateway.session_for(0, b"", 4000)
        assert session is not None
        session.leave("the gateway stops")
        await session.ended()
        self.assertEqual((session.client.client_state, self.gateway._beginning), ("CLOSED", {}))

    async def test_one_that_is_lost_in_the_moment_in_which_it_begins(self) -> None:
        """The program's connection ends, and it asks again."""

        async def lose(client: UpstreamClient) -> bool:
            self.cluster.away.update(range(3))
            for at in range(3):
                self.cluster.cut(at)
            await until(lambda: not client.connected, "it is lost")
            return False

        zk = await self.program()
        await zk.ask(Create("/app", b"", ACL, 0))
        await zk.ask(Close())
        gateway = await self.started_gateway(self.table, hosts=f"{self.cluster.hosts}/app")
        with mock.patch.object(UpstreamClient, "_lacks_chroot", lose):
            zk = await self.raw(gateway)
            zk.write(CONNECT)
            self.assertEqual(await zk.ended(), b"")
        self.cluster.away.clear()
        self.assertEqual((gateway._beginning, gateway._sessions, self.table.numbers), ({}, {}, []))
        await (await self.program(gateway=gateway)).ping()

    async def test_the_gateway_stops_while_a_session_is_closed(self) -> None:
        """It waits for the servers, but not for ever."""
        may_stop, stop = asyncio.Event(), UpstreamClient.stop

        async def late(client: UpstreamClient) -> None:
            await may_stop.wait()
            await stop(client)

        zk = await self.holder()
        with mock.patch.object(UpstreamClient, "stop", late):
            zk.send(Close())
            await until(lambda: self.gateway._ending, "it is being closed")
            stopping = asyncio.create_task(self.gateway.stop())
            await zk.ended()
            self.assertFalse(stopping.done())
            may_stop.set()
            await stopping
            self.assertEqual(self.held(), [])
            may_stop.clear()
            gateway = await self.started_gateway(self.table)
            zk = await self.program(gateway=gateway)
            zk.send(Close())
            await until(lambda: gateway._ending, "it is being closed")
            with mock.patch.object(gateway_module, "STOP_S", 0.01):
                await gateway.stop()
            may_stop.set()


class TestGateways(SessionCase):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.path = Path(self.stack.enter_context(tempfile.TemporaryDirectory()), "table")

    def opened(self) -> SessionTable:
        return self.stack.enter_context(SessionTable(self.path))

    async def test_another_gateway_goes_on(self) -> None:
        self.gateway = await self.started_gateway(self.opened())
        zk = await self.holder()
        await zk.ask(GetData("/a", print))
        await self.gateway.stop()
        await zk.ended()
        other, second = await self.program(gateway=await self.started_gateway(self.opened())), self.gateway
        second = await self.started_gateway(self.opened())
        again = await self.program(zk.session, gateway=second)
        self.assertEqual((again.session, again.timeout_ms), (zk.session, zk.timeout_ms))
        await self.check_holds(again)
        await other.ask(SetData("/a", b"2", -1))
        body = bytes(8) + int_struct.pack(1) + write_text("/a") + 2 * int_struct.pack(0)
        self.assertEqual(await again.ask_bytes(101, body, -8), (0, b""))
        self.assertEqual(await again.event(), (3, "/a"))

    async def test_without_the_table(self) -> None:
        zk = await self.holder()
        await self.gateway.stop()
        other = await self.started_gateway(self.opened())
        self.assertEqual((await self.program(zk.session, gateway=other)).timeout_ms, 0)

    async def test_only_the_one_with_the_program_goes_on(self) -> None:
        """The other neither takes sessions back, nor closes them when its time comes."""
        self.gateway = first = await self.started_gateway(self.opened())
        second = await self.started_gateway(self.opened())
        zk = await self.holder()
        session = first._sessions[zk.session[0]]
        for gateway, other in ((second, first), (first, second), (second, first)):
            zk.drop()
            zk = await self.program(zk.session, gateway=gateway)
            await until(lambda other=other: not other._sessions, "the other has left it")
            await self.check_holds(zk)
        self.assertTrue(session.has_ended)
        await until(lambda: not session.client.connected, "it is not connected")
        self.assertEqual(self.held(), EPHEMERALS)

    async def test_one_that_has_ended_the_connection_itself_tries_once(self) -> None:
        self.gateway = first = await self.started_gateway(self.opened())
        second = await self.started_gateway(self.opened())
        zk = await self.holder()
        for at in range(3):
            self.cluster.cut(at)
        await zk.ended()
        zk = await self.program(zk.session, gateway=second)
        while first._sessions:
            await self.check_holds(zk) if not zk.reader.at_eof() else None
            zk.drop()
            zk = await self.program(zk.session, gateway=second)
        await self.check_holds(zk)

    async def test_a_row_is_there_before_anything_is_made(self) -> None:
        table = self.opened()
        gateway = await self.started_gateway(table)
        zk = await self.program(gateway=gateway)
        missing: list[str] = []

        def look(session: int, ensemble: int) -> None:
            row = table.find(zk.session[0])
            written = b"" if row is None else row.sessions
            if self.held(ensemble) and session.to_bytes(8, "big") not in written:
                missing.append(f"{session} on {ensemble}")

        self.cluster.strike = look
        for path in PATHS:
            await zk.ask(Create(path, b"", ACL, 0))
            await zk.ask(Create(f"{path}/e", b"", ACL, 1))
        self.assertEqual((missing, self.held()), ([], EPHEMERALS))

    async def test_a_row_that_is_written_while_another_gateway_begins(self) -> None:
        """It has the session that its program needs, on one more ensemble, and keeps that."""
        first, second = [await self.started_gateway(self.opened()) for _ in range(2)]
        await self.holder()
        zk = await self.program(gateway=first)
        joined = next(iter(first._sessions[zk.session[0]].client.connections))
        other = next(at for at, name in enumerate(self.cluster.names) if name != joined and self.held(at))
        path = next(path for path in EPHEMERALS if path in self.held(other))
        may_start, start = asyncio.Event(), UpstreamClient.start

        async def late(client: UpstreamClient, timeout: float) -> None:
            await may_start.wait()
            await start(client, timeout)

        zk.send(Create(f"{path}2", b"", ACL, 1))
        with mock.patch.object(UpstreamClient, "start", late):
            again = await self.raw(second)
            again.write(bytes(Connect(0, 0, 600_000, *zk.session, False).serialize()))
            await until(lambda: second._beginning, "it has read the row")
            nodes = self.cluster.model.nodes
            await until(lambda: f"{path}2" in map(logical, nodes[other]), "the first has made it")
            zk.drop()
            may_start.set()
            self.assertEqual(await again.ended(), b"")
        again = await self.program(zk.session, gateway=second)
        self.assertEqual((await again.ask(Exists(f"{path}2", None))).ephemeralOwner, zk.session[0])
        self.assertEqual(await again.ask(GetEphemerals("/")), [f"{path}2"])

    async def test_the_one_that_goes_on_says_so(self) -> None:
        """Nothing else has changed in its row, and the one before has ended."""
        with SessionTable(self.path) as before:
            gateway = await self.started_gateway(before)
            zk = await self.program(gateway=gateway)
            await gateway.stop()
        other, table = self.opened(), self.opened()
        await self.program(zk.session, gateway=await self.started_gateway(table))
        self.assertIsNotNone(other.find(zk.session[0]))
        self.assertEqual(other._rows.marks, {zk.session[0]: table._mark})

    async def test_one_that_is_let_go(self) -> None:
        """Its row ends when nobody has gone on with it in time."""
        zk = await self.program(timeout_s=600)
        self.gateway._sessions[zk.session[0]].leave("for a test")
        now_s = asyncio.get_running_loop().time()
        for later_s, left in ((10, zk.session[:1]), (1200, zk.session[:1]), (1220, ())):
            self.table.sweep(now_s + later_s)
            self.assertEqual(self.table.numbers, [*left])

    async def test_a_table_that_cannot_be_written(self) -> None:
        """The session goes on, and the log says once what that costs. Later there is space."""
        table = self.opened()
        gateway = await self.started_gateway(table)
        zk = await self.program(gateway=gateway)
        with (
            mock.patch("os.write", side_effect=OSError(28, "No space left")),
            self.assertLogs(level="ERROR") as logs,
        ):
            for path in PATHS:
                await zk.ask(Create(path, b"", ACL, 0))
                await zk.ask(Create(f"{path}/e", b"", ACL, 1))
        (line,) = logs.output
        self.assertIn("a restart of the gateway expires session", line)
        await self.check_holds(zk)
        session = gateway._sessions[zk.session[0]]
        await until(
            lambda: table._rows.rows[zk.session[0]].client_id == session.client.client_id, "the row is there"
        )

    async def test_servers_that_grant_more(self) -> None:
        """The row is there for as long as the program may stay away."""
        table = self.opened()
        gateway = await self.started_gateway(table)
        with mock.patch.object(UpstreamClient, "granted_timeout_s", 4.0):
            zk = await self.program(gateway=gateway, timeout_s=1)
            self.assertEqual((zk.timeout_ms, table._rows.rows[zk.session[0]].timeout_ms), (4000, 4000))


class TestWrongPrograms(GatewayCase):
    async def nothing_is_left(self) -> None:
        await until(lambda: not (self.gateway._connections or self.gateway._beginning), "all connections are over")

    async def test_wrong_frames(self) -> None:
        """They end the connection, before and after Connect."""
        zk = await self.program()
        for data in (
            b"\xff\xff\xff\xff",
            b"\x80\0\0\0",
            b"\x7f\xff\xff\xff",
            b"GET / HTTP/1.1\r\n\r\n",
            b"\x16\x03\x01\x02\0\x01\0\x01\xfc",
            int_struct.pack(3) + b"abc",
            int_struct.pack(0),
        ):
            before = await self.raw()
            before.writer.write(data)
            self.assertEqual(await before.ended(), b"")
            after = await self.program(zk.session)
            after.writer.write(data)
            self.assertEqual(await after.ended(), b"")
        for kind in (1, 3, 4, 5, 14, 100, 101, 106):
            after = await self.program(zk.session)
            after.send_bytes(kind, b"\0\0")
            self.assertEqual(await after.ended(), b"")
        await self.nothing_is_left()
        self.assertEqual((await self.program(zk.session)).session, zk.session)

    async def test_garbage(self) -> None:
        chance = random.Random(3)
        connect = int_struct.pack(44) + bytes(Connect(0, 0, 600_000, 0, bytes(16), False).serialize())[:44]
        for _ in range(60):
            zk = await self.raw()
            noise = bytearray(connect + chance.randbytes(chance.randrange(60)))
            for _ in range(chance.randrange(3)):
                noise[chance.randrange(len(noise))] = chance.randrange(256)
            zk.writer.write(bytes(noise[: chance.randrange(len(noise))]))
            zk.writer.write_eof()
            await zk.ended()
        await self.nothing_is_left()

    async def test_an_answer_that_cannot_be_written(self) -> None:
        """Its connection ends, and the client's do not."""
        zk = await self.program()
        client = self.gateway._sessions[zk.session[0]].client
        broken = {GetACL.type: mock.Mock(side_effect=ZeroDivisionError)}
        with mock.patch.dict(program_replies.REPLY_WRITERS, broken), self.assertLogs(level="ERROR"):
            await zk.ask(Create("/a", b"", ACL, 0))
            zk.send(GetACL("/a"))
            self.assertEqual(await zk.ended(), b"")
        self.assertTrue(client.has_all)
        await (await self.program(zk.session)).ping()

    async def test_one_that_says_nothing(self) -> None:
        with mock.patch.object(program_connection, "CONNECT_S", 0.01):
            zk = await self.raw()
            self.assertEqual(await zk.ended(), b"")
        await self.nothing_is_left()

    async def test_too_many(self) -> None:
        gateway = await self.started_gateway(self.table, most_connections=2)
        first = await self.program(gateway=gateway)
        second = await self.raw(gateway)
        await until(lambda: len(gateway._connections) == 2, "both are there")
        self.assertEqual(await (await self.raw(gateway)).ended(), b"")
        second.drop()
        await until(lambda: len(gateway._connections) == 1, "one is away")
        await self.program(gateway=gateway)
        await first.ping()

    async def test_too_many_sessions(self) -> None:
        """Those of programs that are away count."""
        gateway = await self.started_gateway(self.table, most_connections=2)
        for _ in range(2):
            zk = await self.program(gateway=gateway)
            zk.drop()
            await until(lambda: not gateway._connections, "it is away")
        third = await self.raw(gateway)
        third.write(CONNECT)
        self.assertEqual(await third.ended(), b"")
        self.assertEqual((await self.program(zk.session, gateway=gateway)).session, zk.session)

    async def test_one_that_does_not_read(self) -> None:
        """The gateway reads no more from it, so it keeps little; all answers come in the end."""
        zk = await self.program()
        await zk.ask(Create("/a", bytes(MIB // 4), ACL, 0))
        (connection,) = self.gateway._connections
        count = 200  # 50 MiB of answers
        sent = [zk.send(GetData("/a", None)) for _ in range(count)]
        await until(lambda: connection._is_paused, "it is not read any more")
        for xid in sent:
            self.assertEqual((await zk.answer())[:2], (xid, 0))
        await zk.ping()
        self.assertFalse(connection._is_paused)

    async def test_one_that_asks_much(self) -> None:
        zk = await self.program()
        for at in range(3):
            self.cluster.mute.add(at)
        (connection,) = self.gateway._connections
        for _ in range(3 * program_connection.MOST_UNANSWERED):
            zk.send(GetData("/a" * 30, None))
        await until(lambda: connection._is_paused, "it is not read any more")
        self.assertEqual(len(connection._row), program_connection.MOST_UNANSWERED)
        zk.drop()

    async def test_large_requests(self) -> None:
        """Few of them wait for their answers in the gateway's memory; each is answered."""
        zk = await self.program()
        await zk.ask(Create("/a", b"", ACL, 0))
        (connection,) = self.gateway._connections
        sizes: list[int] = []
        self.cluster.strike = lambda session, ensemble: sizes.append(connection._row.size)
        sent = [zk.send(SetData("/a", bytes(900_000), -1)) for _ in range(20)]
        for xid in sent:
            self.assertEqual((await zk.answer())[:2], (xid, 0))
        self.assertLess(max(sizes), program_connection.MOST_UNANSWERED_BYTES + 1_000_000)
        self.assertEqual((connection._row.size, connection._is_paused), (0, False))

    async def test_one_that_asks_much_at_once(self) -> None:
        """All is answered in the order in which it came, and never is more under way."""
        zk, most = await self.program(), 5
        await zk.ask(Create("/a", b"", ACL, 0))
        (connection,) = self.gateway._connections
        lengths: list[int] = []

        def look(session: int, ensemble: int) -> None:
            lengths.append(len(connection._row))

        self.cluster.strike = look
        with mock.patch.object(program_connection, "MOST_UNANSWERED", most):
            sent = [zk.send(GetData("/a", None)) for _ in range(40 * most)]
            self.assertEqual([(await zk.answer())[:2] for _ in sent], [(xid, 0) for xid in sent])
        self.assertEqual(max(lengths), most)

    async def test_watches_that_cannot_be_set(self) -> None:
        """The program connects again, and sets them then."""
        zk = await self.program(timeout_s=6)
        await zk.ask(Create("/a", b"", ACL, 0))
        self.cluster.mute.update(range(3))
        body = bytes(8) + int_struct.pack(1) + write_text("/a") + 2 * int_struct.pack(0)
        zk.send_bytes(101, body, -8)
        self.assertEqual(await zk.ended(), b"")
        self.cluster.mute.clear()
        with contextlib.suppress(asyncio.IncompleteReadError):  # the gateway's own connection lacks an answer
            zk = await self.program(zk.session)
            await zk.ask_bytes(101, body, -8)
        zk = await self.program(zk.session)
        self.assertEqual((await zk.ask_bytes(101, body, -8))[0], 0)

    async def test_words(self) -> None:
        for word, answer in ((b"ruok", b"imok"), (b"isro", b"rw"), (b"wchp", b"wchp is not executed")):
            zk = await self.raw()
            zk.writer.write(word)
            self.assertTrue((await zk.ended()).startswith(answer))
        self.assertIn(b"zk_num_alive_connections", await self.said(b"mntr"))
        await self.nothing_is_left()

    async def said(self, word: bytes) -> bytes:
        zk = await self.raw()
        for at in range(4):
            zk.writer.write(word[at : at + 1])
        return await zk.ended()
