"""The watches that programs leave at a gateway, over ensembles in memory."""

from __future__ import annotations

import asyncio
import sys
from typing import Any
from unittest import mock

from parkazoo.kazoo_private import (
    Create,
    Delete,
    Exists,
    GetChildren,
    GetChildren2,
    GetData,
    SetData,
    Sync,
    int_struct,
)
from parkazoo.protocol.newer_requests import AddWatch, write_text
from parkazoo.protocol.placement import logical
from tests.aio.aio_case import until
from tests.gateway.gateway_case import ACL, GatewayCase

if sys.version_info >= (3, 11):
    from parkazoo.gateway import program_connection
    from parkazoo.gateway.upstream import UpstreamClient

NO_NODE, BAD_ARGUMENTS, UNIMPLEMENTED, NO_WATCHER, CONNECTION_LOSS = -101, -8, -6, -121, -4
CREATED, DELETED, CHANGED, CHILD = 1, 2, 3, 4


def integer(number: int) -> bytes:
    return bytes(int_struct.pack(number))


class TestWatches(GatewayCase):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.zk, self.other = await self.program(), await self.program()

    async def set_watches(self, *lists: list[str], kind: int = 101) -> list[tuple[int, str]]:
        """The events that come before the answer."""
        texts = (integer(len(each)) + b"".join(map(write_text, each)) for each in lists)
        self.assertEqual(await self.zk.ask_bytes(kind, bytes(8) + b"".join(texts), -8), (0, b""))
        told = [(event.type, event.path) for event in self.zk.events]
        self.zk.events.clear()
        return told

    async def reconnect(self) -> None:
        self.zk.drop()
        self.zk = await self.program(self.zk.session)

    async def no_event(self) -> None:
        for path in ("/", "/a", "/b", "/c", "/d"):
            await self.zk.ask(Sync(path))
        self.assertEqual(self.zk.events, [])

    async def test_one_event_each(self) -> None:
        for path in ("/a", "/b", "/c"):
            await self.zk.ask(Exists(path, print))
            await self.other.ask(Create(path, b"", ACL, 0))
            self.assertEqual(await self.zk.event(), (CREATED, path))
            for _ in range(2):
                await self.zk.ask(GetData(path, print))
                await self.zk.ask(Exists(path, print))
                await self.zk.ask(GetChildren(path, print))
                await self.zk.ask(GetChildren2(path, print))
            await self.other.ask(SetData(path, b"1", -1))
            self.assertEqual(await self.zk.event(), (CHANGED, path))
            await self.other.ask(Create(f"{path}/x", b"", ACL, 0))
            self.assertEqual(await self.zk.event(), (CHILD, path))
            await self.no_event()
            await self.zk.ask(GetData(f"{path}/x", print))
            await self.zk.ask(GetChildren(f"{path}/x", print))
            await self.other.ask(Delete(f"{path}/x", -1))
            self.assertEqual(await self.zk.event(), (DELETED, f"{path}/x"))
            await self.no_event()

    async def test_own_changes(self) -> None:
        """The event comes before the answer to the write, or just behind it, and before later answers."""
        await self.zk.ask(Create("/a", b"", ACL, 0))
        await self.zk.ask(GetData("/a", print))
        first, second = self.zk.send(SetData("/a", b"1", -1)), self.zk.send(GetData("/a", None))
        while self.zk.log[-1] != second:
            await self.zk.answer()
        self.assertIn(self.zk.log[-3:], ([-1, first, second], [first, -1, second]))

    async def test_one_that_is_left_again_behind_a_change(self) -> None:
        """Without a wait for any answer: each watch has the event that comes behind it."""
        await self.zk.ask(Create("/a", b"", ACL, 0))
        await self.zk.ask(GetData("/a", print))
        writes = SetData("/a", b"1", -1), Exists("/a", print), Delete("/a", -1)
        sent = [self.zk.send(each) for each in (*writes, Sync("/a"))]
        self.assertEqual([(await self.zk.answer())[0] for _ in sent], sent)
        told = [(event.type, event.path) for event in self.zk.events]
        self.assertEqual(told, [(CHANGED, "/a"), (DELETED, "/a")])

    async def test_a_short_cut(self) -> None:
        """Watches wait where they were, and events wait for the program."""
        for path in ("/a", "/b"):
            await self.zk.ask(Create(path, b"", ACL, 0))
            await self.zk.ask(GetData(path, print))
            await self.zk.ask(GetChildren(path, print))
        await self.zk.ask(Exists("/c", print))
        session = self.gateway._sessions[self.zk.session[0]]
        self.zk.drop()
        await until(lambda: session.program is None, "the program is away")
        await self.other.ask(SetData("/a", b"1", -1))
        await self.other.ask(Create("/b/x", b"", ACL, 0))
        await until(lambda: len(session.watches.missed) == 2, "both events")
        reads = len(self.cluster.requests)
        await self.reconnect()
        told = await self.set_watches(["/a", "/b"], ["/c"], ["/a", "/b"])
        self.assertEqual(sorted(told), [(CHANGED, "/a"), (CHILD, "/b")])
        self.assertEqual([type(each).__name__ for each in self.cluster.requests[reads:]], [])
        await self.other.ask(Create("/c", b"", ACL, 0))
        self.assertEqual(await self.zk.event(), (CREATED, "/c"))
        await self.other.ask(SetData("/b", b"1", -1))
        self.assertEqual(await self.zk.event(), (CHANGED, "/b"))
        await self.no_event()

    async def directories(self) -> None:
        """The children of /d0 are on the first ensemble, as /d0 is, and those of /d1 on the third."""
        for path in ("/d0", "/d1"):
            await self.other.ask(Create(path, b"", ACL, 0))
            await self.other.ask(Create(f"{path}/x", b"", ACL, 0))
        self.assertEqual([self.ensemble_of(path) for path in ("/d0", "/d1")], [0, 0])
        self.assertIn("/d1/x", map(logical, self.cluster.model.nodes[2]))

    async def test_a_read_that_the_last_connection_has_not_answered(self) -> None:
        """Its event does not hold up those of the next connection."""
        await self.directories()
        await self.zk.ask(GetData("/d1", None))
        self.cluster.mute.add(2)
        asked = len(self.cluster.requests)
        self.zk.send(GetData("/d1", print))  # of the first ensemble, and then of the third
        await until(lambda: len(self.cluster.requests) == asked + 2, "it has asked both")
        session = self.gateway._sessions[self.zk.session[0]]
        self.zk.drop()
        await until(lambda: session.program is None, "the program is away")
        self.zk = await self.program(self.zk.session)
        self.cluster.model.execute(0, SetData("/d1", b"1", -1))
        for value in (b"1", b"2"):
            await self.zk.ask(Exists("/d0", print))
            await self.other.ask(SetData("/d0", value, -1))
            self.assertEqual(await self.zk.event(), (CHANGED, "/d0"))

    async def test_a_deletion_that_the_ensemble_of_the_children_tells_late(self) -> None:
        """The watch of the znode that is there by then goes on."""
        await self.directories()
        await self.other.ask(Delete("/d1/x", -1))
        await self.zk.ask(GetData("/d1", print))
        await self.zk.ask(GetChildren("/d1", print))
        tell = self.cluster.model.on_event
        late: list[Any] = []
        self.cluster.model.on_event = lambda *each: late.append(each) if each[1] == 2 else tell(*each)
        await self.other.ask(Delete("/d1", -1))
        self.assertEqual(await self.zk.event(), (DELETED, "/d1"))
        await self.other.ask(Create("/d1", b"", ACL, 0))
        await self.zk.ask(Exists("/d1", print))
        self.assertTrue(late)
        for each in late:
            tell(*each)
        await self.no_event()
        await self.other.ask(SetData("/d1", b"1", -1))
        self.assertEqual(await self.zk.event(), (CHANGED, "/d1"))

    async def test_an_event_and_an_answer_that_the_program_has_not_read(self) -> None:
        """The program is told again: its watch was left again, but it does not know."""
        await self.zk.ask(Create("/a", b"", ACL, 0))
        await self.zk.ask(GetData("/a", print))
        session = self.gateway._sessions[self.zk.session[0]]
        await self.other.ask(SetData("/a", b"1", -1))
        await until(lambda: not len(session.watches), "it was told")
        self.zk.send(GetData("/a", print))
        await until(lambda: len(session.watches), "it was answered")
        await self.reconnect()
        self.assertEqual(await self.set_watches(["/a"], [], []), [(CHANGED, "/a")])
        await self.reconnect()
        self.assertEqual(await self.set_watches(["/a"], [], []), [(CHANGED, "/a")])  # nor has it read this
        await self.zk.ask(GetData("/a", print))
        await self.other.ask(SetData("/a", b"2", -1))
        self.assertEqual(await self.zk.event(), (CHANGED, "/a"))
        await self.no_event()

    async def test_a_lost_ensemble(self) -> None:
        """The program's connection ends, and it hears what it has missed."""
        paths = [f"/{number}" for number in range(6)]
        for path in paths:
            await self.zk.ask(Create(path, b"", ACL, 0))
            await self.zk.ask(GetData(path, print))
            await self.zk.ask(GetChildren(path, print))
        await self.zk.ask(Exists("/no", print))
        await self.other.ask(Create("/4/x", b"", ACL, 0))
        self.assertEqual(await self.zk.event(), (CHILD, "/4"))
        await self.zk.ask(GetChildren("/4", print))
        for at in range(3):
            self.cluster.cut(at)
        await self.zk.ended()
        self.other = await self.program(self.other.session)
        await self.other.ask(SetData("/0", b"1", -1))
        await self.other.ask(Create("/1/x", b"", ACL, 0))
        await self.other.ask(Delete("/2", -1))
        await self.other.ask(Delete("/4/x", -1))
        await self.other.ask(Create("/4/x", b"", ACL, 0))  # the names are the same again
        await self.reconnect()
        told = await self.set_watches(paths, ["/no"], paths)
        expected = {(CHANGED, "/0"), (CHILD, "/1"), (DELETED, "/2"), (CHILD, "/4")}
        while not expected <= {*told}:
            told.append(await self.zk.event())
        self.assertEqual({*told}, expected)
        await self.other.ask(SetData("/3", b"1", -1))
        self.assertEqual(await self.zk.event(), (CHANGED, "/3"))
        await self.no_event()

    async def test_a_session_of_an_ensemble_that_expires(self) -> None:
        """The program's goes on. It is told of what it may have missed."""
        await self.other.ask(Create("/a", b"", ACL, 0))
        await self.other.ask(Create("/a/x", b"", ACL, 0))
        await self.other.ask(Create("/b", b"", ACL, 0))
        for path in ("/a", "/b"):
            await self.zk.ask(GetData(path, print))
            await self.zk.ask(GetChildren(path, print))
        for at in range(3):
            self.cluster.expire(at)
        await self.zk.ended()
        self.other = await self.program()
        await self.other.ask(SetData("/b", b"1", -1))
        await self.reconnect()
        told = await self.set_watches(["/a", "/b"], [], ["/a", "/b"])
        self.assertEqual({*told}, {(CHILD, "/a"), (CHILD, "/b"), (CHANGED, "/b")})

    async def test_a_gateway_that_remembers_nothing(self) -> None:
        for path in ("/a", "/b"):
            await self.zk.ask(Create(path, b"", ACL, 0))
        told = await self.set_watches(["/a", "/gone"], ["/b", "/no"], ["/a"])
        self.assertEqual(sorted(told), [(CREATED, "/b"), (DELETED, "/gone"), (CHANGED, "/a"), (CHILD, "/a")])
        await self.other.ask(Create("/no", b"", ACL, 0))
        self.assertEqual(await self.zk.event(), (CREATED, "/no"))

    async def test_very_many(self) -> None:
        """They are set some at a time, so that other programs have their turns."""
        paths, counts = [f"/{number}" for number in range(20)], [0]
        ask = UpstreamClient.ask

        def count(client: UpstreamClient, request: Any, reply: Any) -> None:
            if not counts[-1]:
                asyncio.get_running_loop().call_soon(counts.append, 0)
            counts[-1] += 1
            ask(client, request, reply)

        with (
            mock.patch.object(program_connection, "WATCHES_AT_ONCE", 4),
            mock.patch.object(UpstreamClient, "ask", count),
        ):
            self.assertEqual(await self.set_watches([], paths, []), [])
        self.assertEqual((max(counts), sum(counts)), (4, 20))
        await self.other.ask(Create(paths[-1], b"", ACL, 0))
        self.assertEqual(await self.zk.event(), (CREATED, paths[-1]))

    async def test_removed(self) -> None:
        await self.zk.ask(Create("/a", b"", ACL, 0))
        for kind, left in ((1, CHANGED), (2, CHILD), (3, 0)):
            await self.zk.ask(GetData("/a", print))
            await self.zk.ask(GetChildren("/a", print))
            body = write_text("/a") + integer(kind)
            self.assertEqual(await self.zk.ask_bytes(17, body), (0, b""))
            self.assertEqual(await self.zk.ask_bytes(18, body), (0, b""))
            self.assertEqual((await self.zk.ask_bytes(18, body))[0], NO_WATCHER)
            self.assertEqual((await self.zk.ask_bytes(17, body))[0], NO_WATCHER)
            await self.other.ask(SetData("/a", b"", -1))
            await self.other.ask(Create(f"/a/{kind}", b"", ACL, 0))
            if left:
                self.assertEqual(await self.zk.event(), (left, "/a"))
            await self.no_event()
        self.assertEqual((await self.zk.ask_bytes(18, write_text("/a") + integer(9)))[0], BAD_ARGUMENTS)

    async def test_one_that_is_left_behind_a_removal(self) -> None:
        """It stays."""
        await self.zk.ask(Create("/a", b"", ACL, 0))
        await self.zk.ask(GetData("/a", print))
        removal = self.zk.send_bytes(18, write_text("/a") + integer(2))
        get = self.zk.send(GetData("/a", print))
        self.assertEqual([(await self.zk.answer())[:2] for _ in range(2)], [(removal, 0), (get, 0)])
        await self.other.ask(SetData("/a", b"1", -1))
        self.assertEqual(await self.zk.event(), (CHANGED, "/a"))

    async def test_one_that_is_being_left(self) -> None:
        """It is found, and removed, behind the read; one whose read fails is not."""
        await self.zk.ask(Create("/a", b"", ACL, 0))
        for path, codes in (("/a", [0, 0, 0, 0, NO_WATCHER]), ("/no", [NO_NODE, *3 * [NO_WATCHER], NO_WATCHER])):
            xids = [self.zk.send(GetData(path, print))]
            for kind, of in ((17, 2), (17, 3), (18, 3), (18, 2)):
                xids.append(self.zk.send_bytes(kind, write_text(path) + integer(of)))
            answers = [(await self.zk.answer())[:2] for _ in xids]
            self.assertEqual(answers, list(zip(xids, codes, strict=True)))
        await self.other.ask(SetData("/a", b"1", -1))
        await self.no_event()

    async def test_a_removal_of_an_earlier_connection(self) -> None:
        """It waits behind a slow read, and the program connects again and leaves its watch again: that stays."""
        for path in ("/a", "/s"):
            await self.zk.ask(Create(path, b"", ACL, 0))
        await self.zk.ask(GetData("/a", print))
        session = self.gateway._sessions[self.zk.session[0]]
        slow: list[Any] = []

        def ask_placed(client: UpstreamClient, kind: int, path: str, rest: bytes, reply: Any) -> bool:
            slow.append(reply)
            return True

        with mock.patch.object(UpstreamClient, "ask_placed", ask_placed):
            self.zk.send(GetData("/s", None))
            self.zk.send(GetData("/a", print))
            self.zk.send_bytes(18, write_text("/a") + integer(2))
            await until(lambda: session.program and session.program._in_turn is not None, "it waits its turn")
        await self.reconnect()
        await self.set_watches(["/a"], [], [])
        slow[0].set_body(b"")
        await self.other.ask(SetData("/a", b"1", -1))
        self.assertEqual(await self.zk.event(), (CHANGED, "/a"))

    async def test_events_that_are_not_taken(self) -> None:
        """They do not fill the gateway's memory, also if the program pings."""
        connection: Any = self.gateway._sessions[self.zk.session[0]].program
        self.zk.writer.transport.pause_reading()  # type: ignore[attr-defined] - a connection's transport has it

        def has_ended() -> bool:
            for _ in range(1000):
                connection.tell("CHANGED", "/" + 1000 * "x")
            return bool(connection.has_ended)

        with (
            mock.patch.object(program_connection, "MOST_BUFFERED_BYTES", 1 << 20),
            self.assertLogs("parkazoo.gateway.program_connection", "WARNING") as logs,
        ):
            await until(has_ended, "the connection ends")
        self.assertIn("does not take its events", logs.output[0])

    async def test_one_that_is_not_left_in_time(self) -> None:
        """The read has ConnectionLoss, and so there is no watch."""
        zk = await self.program(timeout_s=2)
        await zk.ask(Create("/a", b"", ACL, 0))
        self.cluster.mute.update(range(3))
        zk.send(GetData("/a", print))
        zk.send_bytes(18, write_text("/a") + integer(2))
        self.assertEqual((await zk.answer())[1], CONNECTION_LOSS)
        self.assertIn((await zk.answer())[1], (CONNECTION_LOSS, NO_WATCHER))
        zk.send_bytes(18, write_text("/a") + integer(2))
        self.assertEqual((await zk.answer())[1], NO_WATCHER)

    async def test_lasting(self) -> None:
        add = write_text("/a") + integer(0)
        self.assertEqual(await self.zk.ask_bytes(106, add), (0, integer(0)))
        self.assertEqual(await self.zk.ask_bytes(106, add), (0, integer(0)))
        await self.other.ask(Create("/a", b"", ACL, 0))
        for value in (b"1", b"2"):
            await self.other.ask(SetData("/a", value, -1))
        await self.other.ask(Create("/a/x", b"", ACL, 0))
        told = [await self.zk.event() for _ in range(4)]
        self.assertEqual(sorted(told), [(CREATED, "/a"), (CHANGED, "/a"), (CHANGED, "/a"), (CHILD, "/a")])
        for at in range(3):
            self.cluster.cut(at)
        await self.zk.ended()
        self.other = await self.program(self.other.session)
        await self.reconnect()
        self.assertEqual(await self.set_watches([], [], [], ["/a"], [], kind=105), [])
        await self.other.ask(SetData("/a", b"3", -1))
        self.assertEqual(await self.zk.event(), (CHANGED, "/a"))
        self.assertEqual(await self.zk.ask_bytes(18, write_text("/a") + integer(4)), (0, b""))
        await self.other.ask(SetData("/a", b"4", -1))
        await self.no_event()
        recursive = write_text("/a") + integer(1)
        self.assertEqual((await self.zk.ask_bytes(106, recursive))[0], UNIMPLEMENTED)
        self.assertEqual((await self.zk.ask_bytes(106, write_text("/a") + integer(7)))[0], BAD_ARGUMENTS)
        again = bytes(8) + 3 * integer(0) + integer(1) + write_text("a") + integer(0)
        self.assertEqual((await self.zk.ask_bytes(105, again))[0], BAD_ARGUMENTS)

    async def test_lasting_at_once(self) -> None:
        """Two requests for one that is refused are both refused; a removal finds one that is being left."""
        body = write_text("/a") + integer(1)
        for _ in range(2):
            self.zk.send_bytes(106, body)
        self.assertEqual([(await self.zk.answer())[1] for _ in range(2)], [UNIMPLEMENTED, UNIMPLEMENTED])
        self.zk.send_bytes(106, write_text("/a") + integer(0))
        self.zk.send_bytes(18, write_text("/a") + integer(4))
        self.assertEqual([(await self.zk.answer())[1] for _ in range(2)], [0, 0])
        await self.other.ask(Create("/a", b"", ACL, 0))
        await self.no_event()


class TestOneEnsemble(GatewayCase):
    ensembles = 1

    async def test_a_recursive_watch(self) -> None:
        zk, other = await self.program(), await self.program()
        self.assertEqual(await zk.ask_bytes(106, write_text("/a") + integer(1)), (0, integer(0)))
        await other.ask(Create("/a", b"", ACL, 0))
        await other.ask(Create("/a/b", b"", ACL, 0))
        self.assertEqual([await zk.event(), await zk.event()], [(CREATED, "/a"), (CREATED, "/a/b")])

    async def test_an_event_just_behind_a_lasting_watch(self) -> None:
        """It comes behind the answer: by that a program's client knows the watch, and drops what comes before."""
        zk, other = await self.program(), await self.program()
        await other.ask(Create("/a", b"", ACL, 0))
        loop = asyncio.get_running_loop()

        def hear(request: Any) -> None:
            if isinstance(request, AddWatch):
                loop.call_soon(self.cluster.model.execute, 0, SetData("/a", b"1", -1))

        self.cluster.hear = hear
        add = zk.send_bytes(106, write_text("/a") + integer(0))
        self.assertEqual((await zk.answer())[0], add)
        self.assertEqual((await zk.event(), zk.log), ((CHANGED, "/a"), [add, -1]))

    async def test_a_lasting_watch_whose_answer_never_came(self) -> None:
        """Its events do not hold up those of the next connection."""
        zk, other = await self.program(), await self.program()
        session, add = self.gateway._sessions[zk.session[0]], UpstreamClient.add_watch_async

        def left_and_not_told(*asked: Any) -> asyncio.Future[None]:
            add(*asked)
            return asyncio.get_running_loop().create_future()

        with mock.patch.object(UpstreamClient, "add_watch_async", left_and_not_told):
            zk.send_bytes(106, write_text("/a") + integer(0))
            await until(lambda: session.lasting, "it has asked")
        zk = await self.program(zk.session)
        await zk.ask(Exists("/b", print))
        for path in ("/a", "/b"):
            await other.ask(Create(path, b"", ACL, 0))
            self.assertEqual(await zk.event(), (CREATED, path))
