"""What programs ask a gateway for, over ensembles in memory."""

from __future__ import annotations

import asyncio
import sys
from typing import Any
from unittest import mock

from kazoo.client import KazooClient

from parkazoo.gateway.program_bytes import FrameReader
from parkazoo.kazoo_private import (
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
    int_struct,
    multiheader_struct,
    stat_struct,
)
from parkazoo.protocol.newer_requests import CreateContainer, CreateTTL, GetEphemerals, WhoAmI, write_text
from parkazoo.protocol.placement import logical
from tests.aio.aio_case import LONG_S, until
from tests.gateway.gateway_case import ACL, GatewayCase

if sys.version_info >= (3, 11):
    from parkazoo.gateway import program_connection
    from parkazoo.gateway.upstream import UpstreamClient

NO_NODE, BAD_ARGUMENTS, UNIMPLEMENTED, NO_WATCHER, AUTH_FAILED = -101, -8, -6, -121, -115
CREATED, DELETED, CHANGED, CHILD = 1, 2, 3, 4
STAT_BYTES = stat_struct.size


def integer(number: int) -> bytes:
    return bytes(int_struct.pack(number))


class TestRequests(GatewayCase):
    async def test_znodes(self) -> None:
        """Of directories with their children on their own ensemble, and elsewhere."""
        zk = await self.program()
        for path in ("/a", "/b", "/c"):
            self.assertEqual(await zk.ask(Create(path, b"1", ACL, 0)), path)
            self.assertEqual(await zk.ask(Create(path, b"1", ACL, 0)), -110)
            made, stat = await zk.ask(Create2(f"{path}/x", b"", ACL, 1))
            self.assertEqual((made, stat.ephemeralOwner), (f"{path}/x", zk.session[0]))
            self.assertRegex(await zk.ask(Create(f"{path}/s-", b"", ACL, 2)), rf"^{path}/s-[0-9]{{10}}$")
            self.assertEqual((await zk.ask(GetData(path, None)))[0], b"1")
            self.assertEqual((await zk.ask(SetData(path, b"2", 0))).version, 1)
            self.assertEqual(await zk.ask(SetData(path, b"2", 0)), -103)
            self.assertEqual((await zk.ask(Exists(path, None))).numChildren, 2)
            self.assertEqual(await zk.ask(Exists(f"{path}/no", None)), NO_NODE)
            self.assertEqual(len(await zk.ask(GetChildren(path, None))), 2)
            self.assertEqual(len((await zk.ask(GetChildren2(path, None)))[0]), 2)
            self.assertEqual((await zk.ask(GetACL(path)))[0], ACL)
            self.assertEqual((await zk.ask(SetACL(path, ACL, 0))).aversion, 1)
            self.assertEqual(await zk.ask(Sync(path)), path)
            self.assertEqual(await zk.ask(Delete(path, -1)), -111)
            zk.send(Delete(f"{path}/x", 0))
            self.assertEqual((await zk.answer())[1:], (0, b""))

    async def test_transactions(self) -> None:
        zk = await self.program()
        made = await zk.ask(Transaction([Create("/a", b"", ACL, 0), Create("/b-", b"", ACL, 2)]))
        self.assertRegex(" ".join(made), "^/a /b-[0-9]{10}$")
        multi = Transaction([CheckVersion("/a", 0), SetData("/a", b"1", 0), Delete(made[1], -1)])
        self.assertEqual([type(each).__name__ for each in await zk.ask(multi)], ["bool", "ZnodeStat", "bool"])
        failed = await zk.ask(Transaction([SetData("/a", b"1", -1), CheckVersion("/a", 9)]))
        self.assertEqual([each.code for each in failed], [0, -103])
        self.assertEqual(await zk.ask(Transaction([])), [])
        for parent in ("/a", "/c", "/d"):
            await zk.ask(Create(parent, b"", ACL, 0))
        across = [Create(f"/{each}/x", b"", ACL, 0) for each in "acd"]
        self.assertEqual(await zk.ask(Transaction(across)), BAD_ARGUMENTS)

    async def test_the_newer_calls(self) -> None:
        zk = await self.program()
        for request in (CreateTTL("/t", b"1", ACL, 0, 60_000), CreateContainer("/c", b"1", ACL, 0)):
            code, body = await zk.ask_bytes(request.type, request.serialize())
            if code == BAD_ARGUMENTS:  # a container whose children would be elsewhere
                continue
            self.assertEqual((code, FrameReader(body).text()), (0, request.path))
            self.assertEqual(len(body), len(write_text(request.path)) + STAT_BYTES)
        for number in range(9):
            await zk.ask(Create(f"/e{number}", b"", ACL, 1))
        names = [f"/e{number}" for number in range(9)]
        self.assertEqual(sorted(await zk.ask(GetEphemerals("/"))), names)
        self.assertEqual(await zk.ask(GetEphemerals("/e1")), ["/e1"])
        self.assertIsInstance(await zk.ask(WhoAmI()), list)
        self.assertEqual(await zk.ask_bytes(104, write_text("/")), (0, integer(len(self.root_names()))))
        self.assertEqual((await zk.ask_bytes(104, write_text("/no")))[0], NO_NODE)

    def root_names(self) -> set[str]:
        nodes = {path for each in self.cluster.model.nodes for path in each}
        return {path for path in nodes if path.count("/") == 1 and path not in ("/", "/parkazoo", "/zookeeper")}

    async def test_several_reads(self) -> None:
        zk = await self.program()
        await zk.ask(Create("/a", b"1", ACL, 0))
        parts = [
            bytes(multiheader_struct.pack(kind, False, -1)) + write_text(path) + b"\0"
            for kind, path in ((4, "/a"), (4, "/no"), (8, "/a"))
        ]
        end = bytes(multiheader_struct.pack(-1, True, -1))
        code, body = await zk.ask_bytes(22, b"".join((*parts, end)))
        fields = FrameReader(body)
        found = [fields.number(), fields.flag(), fields.number(), fields.buffer()]
        self.assertEqual((code, found), (0, [4, False, 0, b"1"]))
        fields.take(STAT_BYTES)
        self.assertEqual(
            [fields.number(), fields.flag(), fields.number(), fields.number()], [-1, False, *2 * [NO_NODE]]
        )
        self.assertEqual([fields.number(), fields.flag(), fields.number(), fields.texts()], [8, False, 0, []])
        self.assertEqual(fields.take(9), end)
        self.assertTrue(fields.is_at_end)

    async def test_what_it_refuses(self) -> None:
        zk = await self.program()
        for kind in (16, 102, 20, 21_000, -7):  # reconfig, SASL, ...
            self.assertEqual((await zk.ask_bytes(kind, b""))[0], UNIMPLEMENTED)
        for path in ("a", "/a/", "/a//b", "/../a", ""):
            self.assertEqual(await zk.ask(GetData(path, None)), BAD_ARGUMENTS)
        self.assertEqual(await zk.ask(Create("/parkazoo/x", b"", ACL, 0)), BAD_ARGUMENTS)
        self.assertEqual(await zk.ask(GetData("/parkazoo/map", None)), NO_NODE)
        self.assertEqual(
            await zk.ask(GetChildren("/", None)), ["zookeeper"] if "zookeeper" in self.root_names() else []
        )

    async def test_identities(self) -> None:
        zk = await self.program()
        self.assertEqual(await zk.authenticate("digest", b"u:p"), 0)
        self.assertEqual(await zk.authenticate("ip", b""), 0)
        self.assertEqual(await zk.authenticate("sasl", b"x"), AUTH_FAILED)
        self.assertEqual(await zk.ended(), b"")

    async def test_close(self) -> None:
        """It is answered when the ephemerals are gone, behind what was asked before."""
        zk = await self.program()
        for number in range(6):
            await zk.ask(Create(f"/e{number}", b"", ACL, 1))
        get, close = zk.send(GetData("/e1", None)), zk.send_bytes(Close.type, b"")
        self.assertEqual([(await zk.answer())[:2] for _ in range(2)], [(get, 0), (close, 0)])
        self.assertEqual(await zk.ended(), b"")
        self.assertFalse(any(path.startswith("/e") for nodes in self.cluster.model.nodes for path in nodes))
        self.assertEqual((await self.program(zk.session)).session[0], 0)

    async def test_requests_behind_close(self) -> None:
        """Nothing is done in a session that has been closed."""
        zk, other = await self.program(), await self.program()
        for number in range(6):
            await zk.ask(Create(f"/e{number}", b"", ACL, 1))
        close = zk.send_bytes(Close.type, b"")
        zk.send(Create("/late", b"", ACL, 0))
        zk.send_bytes(Close.type, b"")
        zk.send_bytes(106, b"")
        self.assertEqual((await zk.answer())[:2], (close, 0))
        self.assertEqual(await zk.ended(), b"")
        self.assertEqual(await other.ask(GetChildren("/", None)), [])

    async def test_answers_in_order(self) -> None:
        """Those of an ensemble that answers late hold up the others, for a third of the time-out."""
        zk = await self.program(timeout_s=9)
        paths = [f"/{number}" for number in range(8)]
        for path in paths:
            await zk.ask(Create(path, b"", ACL, 0))
            await zk.ask(Create(f"{path}/x", b"", ACL, 0))
        away = self.ensemble_below("/0")
        others = next(path for path in paths if self.ensemble_below(path) != away)
        self.cluster.mute.add(away)
        sent = [zk.send(GetData(f"{path}/x", None)) for path in ("/0", others, "/0", others)]
        found = [(await zk.answer())[:2] for _ in sent]
        self.assertEqual([xid for xid, _ in found], sent)
        self.assertEqual([code for _, code in found], [-4, 0, -4, 0])
        self.cluster.mute.clear()

    def ensemble_below(self, path: str) -> int:
        """Where the znode x in a directory is."""
        nodes = enumerate(self.cluster.model.nodes)
        return next(at for at, each in nodes if f"{path}/x" in map(logical, each))

    async def test_requests_with_connect(self) -> None:
        zk = await self.raw()
        beginning = asyncio.create_task(zk.begin())
        await asyncio.sleep(0)
        xids = [zk.send(Create(f"/{number}", b"", ACL, 0)) for number in range(20)]
        await beginning
        self.assertEqual([(await zk.answer())[0] for _ in xids], xids)

    async def test_total_order(self) -> None:
        gateway = await self.started_gateway(self.table, has_total_order=True)
        zk = await self.program(gateway=gateway)
        for number in range(5):
            await zk.ask(Create(f"/{number}", b"", ACL, 0))
            self.assertEqual(await zk.ask(Create(f"/{number}/x", b"1", ACL, 0)), f"/{number}/x")
            self.assertEqual((await zk.ask(GetData(f"/{number}/x", None)))[0], b"1")

    async def test_a_chroot(self) -> None:
        zk = await self.program()
        await zk.ask(Create("/app", b"", ACL, 0))
        gateway = await self.started_gateway(self.table, hosts=f"{self.cluster.hosts}/app")
        below = await self.program(gateway=gateway)
        await below.ask(Exists("/a", print))
        self.assertEqual(await below.ask(Create("/a", b"1", ACL, 0)), "/a")
        self.assertEqual(await below.event(), (CREATED, "/a"))
        self.assertEqual(await below.ask(GetChildren("/", None)), ["a"])
        self.assertEqual(await below.ask(Transaction([Create("/a/b", b"", ACL, 1)])), ["/a/b"])
        self.assertEqual(await below.ask(GetEphemerals("/")), ["/a/b"])
        self.assertEqual(await below.ask(Sync("/a")), "/a")
        self.assertEqual((await zk.ask(GetData("/app/a", None)))[0], b"1")

    async def test_kazoo(self) -> None:
        """Its recipes, on threads of their own."""
        await asyncio.to_thread(self.use_kazoo)

    def use_kazoo(self) -> None:
        first, second = (KazooClient(f"127.0.0.1:{self.gateway.port}", timeout=LONG_S) for _ in range(2))
        for zk in (first, second):
            zk.start(60)
        try:
            with first.Lock("/lock", "me"):
                self.assertFalse(second.Lock("/lock", "you").acquire(blocking=False))
                waiting = second.Lock("/lock", "you").acquire
                routine = second.handler.spawn(waiting)
            routine.join(60)
            seen: list[Any] = []
            first.ensure_path("/watched")
            second.DataWatch("/watched")(lambda data, stat: seen.append(data))
            for value in (b"1", b"2"):
                first.set("/watched", value)
                self.wait_for(seen, value)
            first.Queue("/queue").put(b"1")
            self.assertEqual(second.Queue("/queue").get(), b"1")
            counter = first.Counter("/counter")
            counter += 3
            self.assertEqual(second.Counter("/counter").value, 3)
        finally:
            for zk in (first, second):
                zk.stop()
                zk.close()

    def wait_for(self, seen: list[Any], value: bytes) -> None:
        asyncio.run(until(lambda: seen[-1] == value, f"{value!r}"))


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

    async def test_a_lost_ensemble(self) -> None:
        """The program's connection ends, and it hears what it has missed."""
        paths = [f"/{number}" for number in range(6)]
        for path in paths:
            await self.zk.ask(Create(path, b"", ACL, 0))
            await self.zk.ask(GetData(path, print))
            await self.zk.ask(GetChildren(path, print))
        await self.zk.ask(Exists("/no", print))
        for at in range(3):
            self.cluster.cut(at)
        await self.zk.ended()
        self.other = await self.program(self.other.session)
        await self.other.ask(SetData("/0", b"1", -1))
        await self.other.ask(Create("/1/x", b"", ACL, 0))
        await self.other.ask(Delete("/2", -1))
        await self.reconnect()
        told = await self.set_watches(paths, ["/no"], paths)
        expected = [(CHANGED, "/0"), (CHILD, "/1"), (DELETED, "/2"), (DELETED, "/2")]
        self.assertEqual(sorted(set(told)), sorted(set(expected)))
        await self.other.ask(SetData("/3", b"1", -1))
        self.assertEqual(await self.zk.event(), (CHANGED, "/3"))
        await self.no_event()

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

    async def test_the_session_is_the_servers(self) -> None:
        zk = await self.program()
        await zk.ask(Create("/a", b"", ACL, 1))
        self.assertEqual(self.cluster.model.nodes[0]["/a"].owner, zk.session[0])

    async def test_a_container_by_any_create(self) -> None:
        """The answer has the form of the request's type."""
        zk = await self.program()
        for kind, size in ((1, 0), (15, STAT_BYTES), (19, STAT_BYTES)):
            for flags in (0, 4):
                path = f"/{kind}-{flags}"
                code, body = await zk.ask_bytes(kind, bytes(Create2(path, b"", ACL, flags).serialize()))
                self.assertEqual((code, body[: len(body) - size]), (0, write_text(path)))

    async def test_another_gateway_goes_on(self) -> None:
        zk = await self.program()
        await zk.ask(Create("/a", b"", ACL, 1))
        await self.gateway.stop()
        again = await self.program(zk.session, gateway=await self.started_gateway(self.table))
        self.assertEqual((again.session, await again.ask(GetEphemerals("/"))), (zk.session, ["/a"]))
        self.cluster.expire(0)
        await again.ended()
