"""Requests that are handed on as bytes have the same answers as by the ordinary way."""

from __future__ import annotations

import json
import random
import sys
from contextlib import AsyncExitStack
from typing import Any
from unittest import TestCase, mock

from kazoo.exceptions import NoAuthError

from parkazoo import monitoring
from parkazoo.engine.driver import Driver
from parkazoo.kazoo_private import Create, Delete, Exists, GetChildren2, GetData, SetData, int_struct, stat_struct
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.newer_requests import write_text
from parkazoo.protocol.placement import MAP, logical
from parkazoo.wire.frames import REPLY
from tests.aio.aio_case import AioCase, needs_aio, until
from tests.explore.alone import must
from tests.fakes.zookeeper import Ensembles
from tests.gateway.gateway_case import ACL, GatewayCase, RawProgram

if sys.version_info >= (3, 11):
    from parkazoo.gateway import program_connection
    from parkazoo.gateway.gateway import Gateway, GatewayOptions
    from parkazoo.gateway.placed_requests import MOST_PATH_BYTES, PathTable
    from parkazoo.gateway.session_table import SessionTable
    from parkazoo.gateway.upstream import UpstreamClient

GET, EXISTS, SET = GetData.type, Exists.type, SetData.type
STAT_BYTES = stat_struct.size
CONNECTION_LOSS, NO_NODE = -4, -101
BIG = b"b" * 70_000
DIRECTORIES = ("", "/a", "/b", "/ü", "/c/d", "/secret", "/a/1234567890", "/parkazoo", "/zookeeper")
NAMES = ("x", "ünïcödé", "n0000000001", "secret", ".parkazoo", "y/", "/z", ".", "")
Frame = tuple[int, bytes]


def integer(number: int) -> bytes:
    return bytes(int_struct.pack(number))


def frame(kind: int, path: str | bytes, rest: bytes = b"\0") -> bytes:
    name = path.encode() if isinstance(path, str) else path
    return integer(7) + integer(kind) + integer(len(name)) + name + rest


@needs_aio
class TestPathTable(TestCase):
    def test_what_it_takes(self) -> None:
        table = PathTable("/root")
        version = integer(3)
        for kind, rest in (
            (GET, b"\0"),
            (EXISTS, b"\0"),
            (SET, integer(2) + b"ab" + version),
            (SET, integer(0) + version),
            (SET, integer(-1) + version),
        ):
            for path, whole in (("/a/ü", "/root/a/ü"), ("/", "/root"), ("/" + "n" * MOST_PATH_BYTES, "")):
                with self.subTest(kind=kind, path=path):
                    expected = (7, kind, whole or "/root" + path, rest)
                    self.assertEqual(table.read(frame(kind, path, rest)), expected)
                    self.assertEqual(table.read(frame(kind, path, rest)), expected)

    def test_what_it_leaves(self) -> None:
        table = PathTable("")
        set_rest = integer(1) + b"a" + integer(0)
        for each in (
            b"",
            frame(GET, "/a")[:11],
            frame(GET, "/a")[:-1],
            frame(GET, "/a", b"\1"),
            frame(GET, "/a", b"\0\0"),
            frame(GET, "/a", b""),
            frame(GET, ""),
            frame(GET, "a"),
            frame(GET, "/a/"),
            frame(GET, "/a/../b"),
            frame(GET, b"/\xff"),
            frame(GET, "/parkazoo/map"),
            frame(GET, "/a/.parkazoo"),
            integer(7) + integer(GET) + integer(-1) + b"\0",
            integer(7) + integer(GET) + integer(-5) + b"\0",
            frame(GetChildren2.type, "/a"),
            frame(SET, "/a", set_rest[:-1]),
            frame(SET, "/a", set_rest + b"\0"),
            frame(SET, "/a", integer(-2) + integer(0)),
            frame(SET, "/a", integer(5)),
        ):
            with self.subTest(each):
                self.assertIsNone(table.read(each))

    def test_it_does_not_grow_for_ever(self) -> None:
        with mock.patch("parkazoo.gateway.placed_requests.MOST_PATHS", 3):
            table = PathTable("")
            for number in range(10):
                for _ in range(2):
                    self.assertEqual(table.read(frame(GET, f"/n{number}")), (7, GET, f"/n{number}", b"\0"))
            self.assertLessEqual(len(table._paths), 3)


class Placed:
    """Counts what is handed on as bytes, and what not although it was asked for."""

    def __init__(self) -> None:
        self.counts = {True: 0, False: 0}

    def __enter__(self) -> Placed:
        call = Driver.call_placed

        def call_placed(*arguments: Any) -> bool:
            is_placed = call(*arguments)
            self.counts[is_placed] += 1
            return is_placed

        self._patch = mock.patch.object(Driver, "call_placed", call_placed)
        self._patch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.stop()


def some_requests(chance: random.Random, count: int, has_watches: bool) -> list[Frame]:
    """Reads and writes of existing znodes as a rule; type and body."""
    requests: list[Frame] = []
    for _ in range(count):
        path = f"{chance.choice(DIRECTORIES)}/{chance.choices(NAMES, [30, 20, 20, 10, 2, 2, 2, 2, 2])[0]}"
        if chance.random() < 0.2:
            path = chance.choice(DIRECTORIES) or "/"
        kind = chance.choice(("get", "get", "exists", "set", "set", "list", "create", "delete"))
        watch = bytes([has_watches and chance.random() < 0.2])
        if kind == "get":
            requests.append((GET, write_text(path) + watch))
        elif kind == "exists":
            requests.append((EXISTS, write_text(path) + watch))
        elif kind == "set":
            data = chance.choice((integer(-1), integer(0), integer(2) + b"ab", integer(len(BIG)) + BIG))
            version = integer(chance.choice((-1, -1, -1, 0, 1, 5)))
            requests.append((SET, write_text(path) + data + version))
        elif kind == "list":
            requests.append((GetChildren2.type, write_text(path) + b"\0"))
        elif kind == "create":
            made = Create(path, b"1", ACL, chance.choice((0, 0, 0, 1, 2)))
            requests.append((made.type, bytes(made.serialize())))
        else:
            requests.append((Delete.type, bytes(Delete(path, -1).serialize())))
    return requests


class TestBothWays(AioCase):
    """Each way has ensembles and a gateway of its own."""

    async def play(
        self,
        requests: list[Frame],
        at_once: int,
        form: Form = Form.PLAIN,
        chroot: str = "",
        grow_at: int = -1,
    ) -> list[bytes]:
        """The frames that a program gets, without its session's number.

        :param at_once: so many requests are sent before their answers are read. :param grow_at: the number of the
            request before which the map begins to grow.
        """
        async with AsyncExitStack() as stack:
            cluster = await stack.enter_async_context(Ensembles(3, form))
            execute = cluster.model.execute

            def guarded(ensemble: int, request: Any, *arguments: Any) -> Any:
                if "secret" in getattr(request, "path", "") and not isinstance(request, (Create, Exists)):
                    return NoAuthError()
                return execute(ensemble, request, *arguments)

            table = stack.enter_context(SessionTable())
            gateway = Gateway(GatewayOptions(hosts=cluster.hosts + chroot), table)
            await gateway.start("127.0.0.1", 0)
            stack.push_async_callback(gateway.stop)
            zk = await (await RawProgram.connect(gateway.port)).begin()
            stack.callback(zk.drop)
            if chroot:
                await zk.ask(Create("/", b"", ACL, 0))
            for path in ("/a", "/b", "/ü", "/c", "/c/d", "/secret", "/a/1234567890"):
                self.assertEqual(await zk.ask(Create(path, b"1", ACL, 0)), path)
            for path in ("/a/x", "/b/x", "/c/d/ünïcödé", "/ü/n0000000001", "/b/secret"):
                self.assertEqual(await zk.ask(Create(path, b"1", ACL, 0)), path)
            cluster.model.execute = guarded  # type: ignore[method-assign,assignment]
            frames: list[bytes] = []
            for first in range(0, len(requests), at_once):
                if first <= grow_at < first + at_once:
                    await self.grow(cluster)
                batch = requests[first : first + at_once]
                xids = [zk.send_bytes(kind, body) for kind, body in batch]
                while xids:
                    said = await zk.frame()
                    if REPLY.unpack_from(said)[0] == xids[0]:
                        del xids[0]
                    frames.append(said.replace(zk.session[0].to_bytes(8, "big"), b"session."))
            return frames

    async def grow(self, cluster: Ensembles) -> None:
        data = json.loads(cluster.model.nodes[0][MAP].data or b"")
        data |= {"form": Form.TOLERANT.name.lower(), "epoch": data["epoch"] + 1}
        for ensemble in range(3):
            must(cluster.model.execute(ensemble, SetData(MAP, json.dumps(data).encode(), -1)))

    async def compare(self, requests: list[Frame], at_once: int, **world: Any) -> None:
        with Placed() as placed:
            by_bytes = await self.play(requests, at_once, **world)
        self.assertGreater(placed.counts[True], len(requests) / 8)
        with Placed() as placed, mock.patch.object(UpstreamClient, "ask_placed", return_value=False):
            ordinary = await self.play(requests, at_once, **world)
        self.assertEqual(placed.counts, {True: 0, False: 0})
        if at_once > 1:  # which ensemble answers first is chance, and so are the zxids in headers
            by_bytes, ordinary = ([each[:4] + each[12:] for each in frames] for frames in (by_bytes, ordinary))
        elif "grow_at" in world:  # so is when the client says that it knows the map
            by_bytes, ordinary = ([*map(without_zxids, frames)] for frames in (by_bytes, ordinary))
        for number, (one, other) in enumerate(zip(by_bytes, ordinary, strict=True)):
            self.assertEqual(one, other, f"answer {number}")

    async def test_one_at_a_time(self) -> None:
        await self.compare(some_requests(random.Random(1), 150, has_watches=True), 1)

    async def test_on_a_grown_map(self) -> None:
        await self.compare(some_requests(random.Random(2), 150, has_watches=True), 1, form=Form.GROWN)

    async def test_below_a_chroot(self) -> None:
        await self.compare(some_requests(random.Random(3), 120, has_watches=True), 1, chroot="/ä")

    async def test_many_at_once(self) -> None:
        for form in (Form.PLAIN, Form.GROWN):
            with self.subTest(form=form):
                chance = random.Random(4)
                writes = (Create.type, Delete.type)
                requests = [
                    each for each in some_requests(chance, 150, has_watches=False) if each[0] not in writes
                ]
                await self.compare(requests, 50, form=form)

    async def test_a_map_that_grows_meanwhile(self) -> None:
        await self.compare(some_requests(random.Random(5), 160, has_watches=False), 1, grow_at=80)


class TestPlacedRequests(GatewayCase):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.placed = Placed()
        self.stack.enter_context(self.placed)
        self.zk = await self.program()
        for path in ("/a", "/a/x", "/b", "/b/x", "/c", "/c/x"):
            await self.zk.ask(Create(path, b"1", ACL, 0))
            await self.zk.ask(GetData(path, None))

    def ensemble_with(self, path: str) -> int:
        return next(at for at, nodes in enumerate(self.cluster.model.nodes) if path in map(logical, nodes))

    async def test_the_connection_is_lost_in_the_middle(self) -> None:
        """What was sent has ConnectionLoss, in the order of the requests; then it goes on."""
        away = self.ensemble_with("/a/x")
        self.cluster.mute.add(away)
        before = self.placed.counts[True]
        paths = ["/a/x", "/b/x", "/c/x"] * 3
        xids = [self.zk.send(GetData(path, None)) for path in paths]
        await until(lambda: self.placed.counts[True] - before == len(paths), "all are sent")
        self.cluster.cut(away)
        self.cluster.mute.clear()
        answers = [(await self.zk.answer())[:2] for _ in paths]
        self.assertEqual([xid for xid, _ in answers], xids)
        codes = {path: code for path, (_, code) in zip(paths, answers, strict=True)}
        self.assertEqual({*codes.values()}, {0, CONNECTION_LOSS})
        self.assertEqual([code for _, code in answers], [codes[path] for path in paths])
        await until(lambda: self.cluster.is_connected(away), "it is back")
        self.assertEqual((await self.zk.ask(GetData("/a/x", None)))[0], b"1")

    async def test_one_that_waits_for_too_long(self) -> None:
        self.cluster.mute |= {0, 1, 2}
        with mock.patch.object(program_connection, "PART_OF_TIMEOUT", 10_000_000):
            zk = await self.late()
            xids = [zk.send(GetData("/a/x", None)), zk.send(SetData("/a/x", b"2", -1))]
            self.assertEqual([(await zk.answer())[:2] for _ in xids], [(each, CONNECTION_LOSS) for each in xids])
        self.cluster.mute.clear()

    async def late(self) -> RawProgram:
        muted, self.cluster.mute = self.cluster.mute, set()
        zk = await self.program()
        await zk.ask(GetData("/a/x", None))
        connection = next(each for each in self.gateway._connections if each.session.number == zk.session[0])
        if connection._late_timer is not None:
            connection._late_timer.cancel()
            connection._late_timer = None
        self.cluster.mute = muted
        return zk

    async def test_a_session_that_expires(self) -> None:
        await self.zk.ask(Create("/a/e", b"", ACL, 1))
        self.assertEqual((await self.zk.ask(GetData("/a/e", None)))[1].ephemeralOwner, self.zk.session[0])
        held = self.ensemble_with("/a/e")
        self.cluster.mute.add(held)
        self.zk.send(GetData("/a/e", None))
        self.cluster.expire(held)
        self.cluster.mute.clear()
        await self.zk.ended()
        refused = await self.program(self.zk.session)
        if refused.timeout_ms:  # the client did not know yet
            await refused.ended()
            refused = await self.program(self.zk.session)
        self.assertEqual(refused.timeout_ms, 0)

    async def test_its_own_writes_come_first(self) -> None:
        """Whatever takes more than one request, such as the first child of a directory."""
        for number in range(30):
            directory = f"/d{number}"
            xids = [
                self.zk.send(each)
                for each in (
                    Create(directory, b"0", ACL, 0),
                    GetData(directory, None),
                    Create(f"{directory}/x", b"1", ACL, 0),
                    GetData(f"{directory}/x", None),
                    SetData(f"{directory}/x", b"2", 0),
                    GetData(f"{directory}/x", None),
                    GetData(directory, None),
                    Delete(f"{directory}/x", 1),
                    Exists(f"{directory}/x", None),
                    GetData(directory, None),
                )
            ]
            answers = [await self.zk.answer() for _ in xids]
            self.assertEqual([each[0] for each in answers], xids)
            self.assertEqual([each[1] for each in answers], [0] * 8 + [NO_NODE, 0])
            read = [GetData.deserialize(answers[at][2], 0) for at in (3, 5, 6, 9)]
            self.assertEqual([data for data, _ in read], [b"1", b"2", b"0", b"0"])
            self.assertEqual([stat.numChildren for _, stat in read], [0, 0, 1, 0])

    async def test_events_are_behind_the_answers(self) -> None:
        await self.zk.ask(GetData("/a/x", print))
        xids = [self.zk.send(SetData("/a/x", b"2", -1)), self.zk.send(GetData("/a/x", None))]
        self.zk.log.clear()
        for _ in xids:
            await self.zk.answer()
        self.assertEqual(sorted(self.zk.log), sorted([-1, *xids]))
        self.assertLess(self.zk.log.index(-1), self.zk.log.index(xids[1]))

    async def test_one_order_of_all(self) -> None:
        """The ordinary way, always."""
        gateway = await self.started_gateway(self.stack.enter_context(SessionTable()), has_total_order=True)
        zk = await self.program(gateway=gateway)
        before = dict(self.placed.counts)
        for _ in range(3):
            self.assertEqual((await zk.ask(GetData("/a/x", None)))[0], b"1")
        self.assertEqual(self.placed.counts, before)

    async def test_somebody_listens(self) -> None:
        """To whatever is asked."""
        with mock.patch.object(monitoring, "registered", [monitoring.Listener()]):
            zk = await self.program()
        before = dict(self.placed.counts)
        self.assertEqual((await zk.ask(GetData("/a/x", None)))[0], b"1")
        self.assertEqual(self.placed.counts, before)

    async def test_while_operations_are_kept(self) -> None:
        client = self.gateway._sessions[self.zk.session[0]].client
        assert client._session is not None
        before = self.placed.counts[True]
        client._session.gate.shut()
        xid = self.zk.send(GetData("/a/x", None))
        await self.zk.ping()
        self.assertEqual(self.placed.counts[True], before)
        client._session.gate.open()
        self.assertEqual((await self.zk.answer())[:2], (xid, 0))

    async def test_a_short_answer(self) -> None:
        """It fails, as an ordinary one that cannot be read."""
        with mock.patch("tests.fakes.zookeeper.said.answered", lambda xid, *_: said_short(xid)), self.assertLogs():
            self.zk.send(GetData("/a/x", None))
            _, code, _ = await self.zk.answer()
            self.assertNotEqual(code, 0)


def without_zxids(said: bytes) -> bytes:
    """A frame without those in its header and in its stat, if it has one."""
    body = said[REPLY.size :]
    if len(body) >= STAT_BYTES:
        stat = stat_struct.unpack(body[-STAT_BYTES:])
        body = body[:-STAT_BYTES] + bytes(stat_struct.pack(0, 0, 0, 0, *stat[4:-1], 0))
    return said[:4] + said[12 : REPLY.size] + body


def said_short(xid: int) -> bytes:
    body = bytes(REPLY.pack(xid, 9, 0)) + b"short"
    return integer(len(body)) + body
