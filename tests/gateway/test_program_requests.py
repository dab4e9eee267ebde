"""What programs ask a gateway for, over ensembles in memory."""

from __future__ import annotations

import asyncio
from typing import Any

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
from parkazoo.types.znodes import ZnodeStat
from tests.aio.aio_case import LONG_S, until
from tests.gateway.gateway_case import ACL, GatewayCase

NO_NODE, BAD_ARGUMENTS, UNIMPLEMENTED, AUTH_FAILED, INCONSISTENT = -101, -8, -6, -115, -2
CREATED = 1
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
        refused = [each.code for each in await zk.ask(Transaction(across))]
        self.assertEqual(refused, [BAD_ARGUMENTS, INCONSISTENT, INCONSISTENT])  # a client in C counts them

    async def test_creates_with_stats_in_a_transaction(self) -> None:
        """Each stat is the one that the znode had when it was made, whatever became of it."""
        zk = await self.program()
        for number in range(4):  # they have their children on several ensembles
            await zk.ask(Create(f"/d{number}", b"", ACL, 0))
            a, b = f"/d{number}/a", f"/d{number}/b"
            parts = [Create2(a, b"12", ACL, 1), SetData(a, b"3", 0), Create2(b, b"", ACL, 0), Delete(b, 0)]
            code, body = await zk.ask_bytes(Transaction.type, bytes(Transaction(parts).serialize()))
            fields = FrameReader(body)
            stats = []
            for part in parts:
                kind, is_end, _ = multiheader_struct.unpack(fields.take(multiheader_struct.size))
                self.assertEqual((code, kind, is_end), (0, part.type, False))
                if kind == Create2.type:
                    self.assertEqual(fields.text(), part.path)
                if kind != Delete.type:
                    stats.append(ZnodeStat(*stat_struct.unpack(fields.take(STAT_BYTES))))
            made, changed, gone = stats
            self.assertEqual((made.version, made.dataLength, made.ephemeralOwner), (0, 2, zk.session[0]))
            self.assertEqual((made.czxid, made.mzxid, made.pzxid), (changed.czxid,) * 3)
            self.assertEqual((gone.version, gone.dataLength, gone.mzxid), (0, 0, gone.czxid))
            self.assertEqual((await zk.ask(GetData(a, None)))[0], b"3")
        failed = Transaction([Create2("/d0/c", b"", ACL, 0), CheckVersion("/d0", 9)])
        code, body = await zk.ask_bytes(Transaction.type, bytes(failed.serialize()))
        self.assertEqual((code, FrameReader(body).number()), (0, -1))
        self.assertIsInstance(await zk.ask(Exists("/d0/c", None)), int)

    async def test_what_is_behind_a_create_comes_after_it(self) -> None:
        zk = await self.program()
        create = CreateTTL("/t", b"1", ACL, 0, 60_000)
        zk.send_bytes(create.type, create.serialize())
        zk.send(GetData("/t", None))
        self.assertEqual([(await zk.answer())[1] for _ in range(2)], [0, 0])

    async def test_znodes_that_end(self) -> None:
        """Containers of which some have their children elsewhere, and in each a child with a time to live."""
        zk = await self.program()
        for number in range(6):
            container = CreateContainer(f"/c{number}", b"1", ACL, 0)
            for request in (container, CreateTTL(f"{container.path}/t", b"1", ACL, 0, 60_000)):
                code, body = await zk.ask_bytes(request.type, request.serialize())
                self.assertEqual((code, FrameReader(body).text()), (0, request.path))
                self.assertEqual(len(body), len(write_text(request.path)) + STAT_BYTES)

    async def test_one_that_ends_before_its_stat_is_read(self) -> None:
        """It was made, and its stat is the one that it had then."""
        zk = await self.program()
        for request in (CreateContainer("/c", b"12", ACL, 0), CreateTTL("/t", b"12", ACL, 0, 60_000)):

            def hear(asked: Any, path: str = request.path) -> None:
                if isinstance(asked, Exists) and asked.path == path:
                    self.cluster.model.execute(self.ensemble_of(path), Delete(path, -1))

            self.cluster.hear = hear
            code, body = await zk.ask_bytes(request.type, request.serialize())
            fields = FrameReader(body)
            self.assertEqual((code, fields.text()), (0, request.path))
            stat = ZnodeStat(*stat_struct.unpack(fields.take(STAT_BYTES)))
            self.assertEqual((stat.version, stat.dataLength, stat.pzxid), (0, 2, stat.czxid))
            self.assertEqual(await zk.ask(GetChildren("/", None)), [])

    async def test_the_newer_calls(self) -> None:
        zk = await self.program()
        for number in range(9):
            await zk.ask(Create(f"/e{number}", b"", ACL, 1))
        names = [f"/e{number}" for number in range(9)]
        self.assertEqual(sorted(await zk.ask(GetEphemerals("/"))), names)
        self.assertEqual(await zk.ask(GetEphemerals("/e1")), ["/e1"])
        for text, found in (("/e", names), ("", names), ("/e1/", []), ("e1", []), ("/no", [])):
            self.assertEqual(sorted(await zk.ask(GetEphemerals(text))), found)  # so does a server
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
        for identity in (b"u:p", b"u"):
            self.assertEqual(await zk.authenticate("digest", identity), 0)
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

    async def test_a_transaction_that_may_have_been_done(self) -> None:
        """Its connection ends: for kazoo, an error for each operation says that nothing was done."""
        zk = await self.program(timeout_s=3)
        await zk.ask(Create("/0", b"", ACL, 0))
        await zk.ask(Create("/0/x", b"", ACL, 0))
        self.cluster.mute.add(self.ensemble_below("/0"))
        zk.send(Transaction([SetData("/0/x", b"1", -1)]))
        self.assertEqual(await zk.ended(), b"")
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
        for text, found in (("/", ["/a/b"]), ("/a", ["/a/b"]), ("/app", [])):
            self.assertEqual(await below.ask(GetEphemerals(text)), found)
        self.assertEqual(await below.ask(Sync("/a")), "/a")
        self.assertEqual((await zk.ask(GetData("/app/a", None)))[0], b"1")

    async def test_the_root_of_a_chroot(self) -> None:
        """It cannot be deleted, and what is made in sequence there is below it, as at a server."""
        zk = await self.program()
        await zk.ask(Create("/app", b"", ACL, 0))
        gateway = await self.started_gateway(self.table, hosts=f"{self.cluster.hosts}/app")
        below = await self.program(gateway=gateway)
        self.assertEqual(await below.ask(Delete("/", -1)), BAD_ARGUMENTS)
        (refused,) = await below.ask(Transaction([Delete("/", -1)]))
        self.assertEqual(refused.code, BAD_ARGUMENTS)
        made = [
            await below.ask(Create("/", b"", ACL, 2)),
            *await below.ask(Transaction([Create("/", b"", ACL, 2)])),
        ]
        ttl = CreateTTL("/", b"", ACL, 2, 60_000)
        made.append(FrameReader((await below.ask_bytes(ttl.type, ttl.serialize()))[1]).text())
        self.assertEqual(len({*made}), 3)
        for each in made:
            self.assertRegex(each, "^/[0-9]{10}$")
        self.assertEqual(await zk.ask(GetChildren("/", None)), ["app"])
        self.assertEqual(sorted(await zk.ask(GetChildren("/app", None))), sorted(each[1:] for each in made))
        self.assertRegex(await zk.ask(Create("/", b"", ACL, 2)), "^/[0-9]{10}$")

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


class TestOneEnsemble(GatewayCase):
    ensembles = 1

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
