"""Watches that outlast the connection on which they were left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from unittest import mock

from kazoo.exceptions import ConnectionLoss, UnimplementedError
from kazoo.protocol.states import KazooState, WatchedEvent
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.kazoo_private import Create, Delete, GetData, SetData, Sync
from parkazoo.protocol.newer_requests import SetWatches
from parkazoo.protocol.outlasting import outlasting
from parkazoo.protocol.placement import logical
from parkazoo.wire import kept_watches
from tests.aio.aio_case import AioCase, until
from tests.explore.alone import must

NONE = ("NONE", None)


@outlasting
class Lasting:
    """A watch, and what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str | None]] = []

    def __call__(self, event: WatchedEvent) -> None:
        self.told.append((event.type, event.path))


class OutlastingCase(AioCase):
    """The client's connection is cut, and another program changes something before the next one."""

    ensembles = 1

    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.zk = await self.started()
        self.states: list[str] = []
        self.zk.add_listener(self.states.append)
        for path in ("/a", "/b", "/d", "/d/x"):
            self.put(path)

    def put(self, path: str) -> None:
        must(self.cluster.model.execute(0, Create(path, b"", OPEN_ACL_UNSAFE, 0)))

    def set(self, path: str) -> None:
        must(self.cluster.model.execute(0, SetData(path, b"1", -1)))

    def drop(self, path: str) -> None:
        must(self.cluster.model.execute(0, Delete(path, -1)))

    async def lose(self) -> None:
        self.cluster.away.add(0)
        self.cluster.cut(0)
        await until(lambda: KazooState.SUSPENDED in self.states, "it is suspended")

    async def back(self) -> list[Any]:
        """The user's requests on the next connection."""
        self.cluster.requests.clear()
        self.cluster.away.clear()
        await until(lambda: self.states[-1:] == [KazooState.CONNECTED], "it is back")
        await self.zk.sync("/")
        self.states.clear()
        return [each for each in self.cluster.requests if not is_own(each)]

    def watched(self) -> set[tuple[str, str]]:
        """What the server watches for the user, by kind and path."""
        return {(each.kind, each.path) for each in self.cluster.model.watches if not is_own(each)}


def is_own(request: Any) -> bool:
    path = getattr(request, "path", "")
    return isinstance(request, Sync) or path.startswith(("/parkazoo", "/zookeeper"))


class TestOneConnection(OutlastingCase):
    async def test_nothing_has_changed(self) -> None:
        """The server keeps each again, by one request, and no znode is read."""
        watch = Lasting()
        await self.zk.get("/a", watch)
        await self.zk.exists("/b", watch)
        await self.zk.exists("/missing", watch)
        await self.zk.get_children("/d", watch)
        watched = self.watched()
        await self.lose()
        zxid = self.cluster.model.zxids[0]
        self.assertEqual(await self.back(), [SetWatches(zxid, ("/a", "/b"), ("/missing",), ("/d",))])
        self.assertEqual((watch.told, self.watched()), ([], watched))
        self.set("/a")
        self.drop("/b")
        self.put("/missing")
        self.put("/d/y")
        await self.zk.sync("/")
        told = [("CHANGED", "/a"), ("DELETED", "/b"), ("CREATED", "/missing"), ("CHILD", "/d")]
        self.assertEqual((watch.told, self.watched()), (told, set()))

    async def test_what_has_changed_is_told(self) -> None:
        """And nothing else, and each once; then nothing is left of it."""
        changes: list[tuple[Any, str, Callable[[], None], list[tuple[str, str]]]] = [
            (self.zk.get, "/a", lambda: self.set("/a"), [("CHANGED", "/a")]),
            (self.zk.get, "/a", lambda: self.set("/b"), []),
            (self.zk.get, "/a", lambda: self.put("/a/x"), []),
            (self.zk.get, "/b", lambda: self.drop("/b"), [("DELETED", "/b")]),
            (self.zk.exists, "/d/x", lambda: self.drop("/d/x"), [("DELETED", "/d/x")]),
            (self.zk.exists, "/a", lambda: None, []),
            (self.zk.exists, "/a", lambda: self.set("/a"), [("CHANGED", "/a")]),
            (self.zk.exists, "/b", lambda: self.put("/b"), [("CREATED", "/b")]),
            (self.zk.exists, "/b/y", lambda: self.put("/b/z"), []),
            (self.zk.exists, "/d/z", lambda: (self.put("/d/z"), self.drop("/d/z")), []),  # type: ignore[func-returns-value]
            (self.zk.get, "/b/z", lambda: (self.drop("/b/z"), self.put("/b/z")), [("CHANGED", "/b/z")]),  # type: ignore[func-returns-value]
            (self.zk.get_children, "/d", lambda: self.put("/d/v"), [("CHILD", "/d")]),
            (self.zk.get_children, "/d", lambda: self.drop("/d/v"), [("CHILD", "/d")]),
            (self.zk.get_children, "/d", lambda: self.set("/d"), []),
            (self.zk.get_children, "/d", lambda: self.drop("/d"), [("DELETED", "/d")]),
        ]
        for number, (read, path, change, told) in enumerate(changes):
            with self.subTest(number=number):
                watch = Lasting()
                await read(path, watch)
                await self.lose()
                change()
                requests = await self.back()
                self.assertEqual([type(each) for each in requests], [SetWatches])
                self.assertEqual(watch.told, told)
                self.assertEqual(len(self.watched()), not told)
                await self.zk.remove_watches(path)

    async def test_a_change_before_the_loss(self) -> None:
        """It is told once: the zxid says that."""
        watch = Lasting()
        await self.zk.get("/a", watch)
        self.set("/a")
        await self.zk.get("/a", watch)
        self.set("/b")
        await self.zk.get("/b", watch)
        await self.lose()
        await self.back()
        self.assertEqual((watch.told, self.watched()), ([("CHANGED", "/a")], {("data", "/a"), ("data", "/b")}))

    async def test_a_program_s_watch_ends(self) -> None:
        """Also one on the same znode, and one that has any attribute."""
        kept, anything = Lasting(), mock.Mock()
        others: list[WatchedEvent] = []
        await self.zk.get("/a", kept)
        await self.zk.get("/a", others.append)
        await self.zk.get("/b", anything)
        await self.zk.get_children("/d", others.append)
        await self.lose()
        self.assertEqual([(each.type, each.path) for each in others], [NONE, NONE])
        self.assertEqual(anything.call_args[0][0].type, "NONE")
        self.assertEqual([each.data for each in await self.back()], [("/a",)])
        self.set("/a")
        await self.zk.sync("/")
        self.assertEqual((kept.told, len(others)), ([("CHANGED", "/a")], 2))

    async def test_a_forgotten_watch(self) -> None:
        watch = Lasting()
        await self.zk.get("/a", watch)
        await self.zk.exists("/missing", watch)
        await self.lose()
        await self.zk.remove_watches("/a")
        await self.zk.remove_watches("/missing")
        self.assertEqual(await self.back(), [])

    async def test_it_goes_first(self) -> None:
        """Before requests that wait for the connection: a read that shows a change comes behind its event."""
        watch, seen = Lasting(), list[Any]()
        await self.zk.get("/a", watch)
        await self.lose()
        self.set("/a")

        async def read() -> None:
            value, _ = await self.zk.get("/a", later)
            seen.append((value, list(watch.told)))

        later = Lasting()
        reading = asyncio.create_task(read())
        await asyncio.sleep(0)
        requests = await self.back()
        await reading
        self.assertEqual([type(each) for each in requests], [SetWatches, GetData])
        self.assertEqual((seen, later.told), ([(b"1", [("CHANGED", "/a")])], []))

    async def test_a_read_without_an_answer(self) -> None:
        """Its watch was never left."""
        watch = Lasting()
        self.cluster.mute.add(0)
        reading = self.zk.get_async("/a", watch)
        await until(lambda: any(isinstance(each, GetData) for each in self.cluster.requests), "the read")
        await self.lose()
        self.cluster.mute.clear()
        await asyncio.wait([reading])
        self.assertIsInstance(reading.exception(), ConnectionLoss)
        self.assertEqual((await self.back(), watch.told), ([], []))


class TestReaders(OutlastingCase):
    """The states and recipes of the client."""

    async def test_states(self) -> None:
        """Of data and children: they read what has changed, and nothing else."""
        states: list[Any] = [self.zk.watch_data(path) for path in ("/a", "/b", "/missing")]
        states += [self.zk.watch_children("/d"), self.zk.watch_children("/a")]
        for each in states:
            await anext(each)
        self.assertEqual([type(each) for each in await self.lost()], [SetWatches])
        requests = await self.lost(lambda: (self.set("/a"), self.put("/d/y")))  # type: ignore[func-returns-value]
        self.assertEqual([type(each) for each in requests], [SetWatches])
        self.assertEqual(((await anext(states[0]))[0], await anext(states[3])), (b"1", ["x", "y"]))
        requests = [each for each in self.cluster.requests if not is_own(each)]
        self.assertEqual([each.path for each in requests[1:]], ["/a", "/d"])
        for each in states:
            await each.__aexit__(None, None, None)
        await self.zk.sync("/")
        self.assertEqual(await self.lost(), [])

    async def test_trees(self) -> None:
        async with self.zk.watch_tree("/") as states, self.zk.TreeCache("/") as cache:
            self.assertEqual({*await anext(states)} & {"/a", "/d/x"}, {"/a", "/d/x"})
            await until(lambda: cache.get_data("/d/x") is not None, "it is read")
            await self.zk.sync("/")
            self.assertEqual([type(each) for each in await self.lost()], [SetWatches])
            await self.lost(lambda: (self.set("/a"), self.put("/d/x/y")))  # type: ignore[func-returns-value]
            await until(lambda: cache.get_data("/d/x/y") is not None, "it is read")
            while "/d/x/y" not in (state := await anext(states)) or state["/a"][0] != b"1":
                pass
            read = {each.path for each in self.cluster.requests if hasattr(each, "path") and not is_own(each)}
            self.assertEqual(read, {"/a", "/d/x", "/d/x/y"})

    async def test_contenders(self) -> None:
        """They wait on for the one before them, whose end is told."""
        locks = [self.zk.Lock("/l", str(number)) for number in range(3)]
        await locks[0].acquire()
        waiting = [asyncio.create_task(each.acquire()) for each in locks[1:]]
        await until(lambda: len(self.watched()) == 2, "each waits for the one before it")
        await self.zk.sync("/")
        self.assertEqual([type(each) for each in await self.lost()], [SetWatches])
        (first,) = (path for path in self.cluster.model.nodes[0] if path.startswith("/l/") and path.endswith("0"))
        await self.lost(lambda: self.drop(first))
        await waiting[0]
        self.assertFalse(waiting[1].done())
        await locks[1].release()
        await waiting[1]

    async def lost(self, change: Callable[[], Any] = lambda: None) -> list[Any]:
        await self.lose()
        change()
        return await self.back()


class TestSeveralConnections(OutlastingCase):
    def pieces(self) -> list[SetWatches]:
        return [each for each in self.cluster.requests if isinstance(each, SetWatches)]

    async def test_an_answer_is_lost(self) -> None:
        """The handshake has shown a newer zxid, but nothing was told: the older one counts, however often."""
        watch = Lasting()
        await self.zk.get("/a", watch)
        await self.zk.exists("/missing", watch)
        await self.zk.get_children("/d", watch)
        zxid = self.cluster.model.zxids[0]
        await self.lose()
        self.set("/a")
        self.put("/missing")
        self.put("/d/y")

        def swallow(request: Any) -> None:
            if isinstance(request, SetWatches):
                self.cluster.mute.add(0)

        self.cluster.hear = swallow
        for _ in range(3):
            self.cluster.requests.clear()
            self.cluster.away.clear()
            await until(self.pieces, "they are set")
            self.assertEqual(self.pieces(), [SetWatches(zxid, ("/a",), ("/missing",), ("/d",))])
            self.states.clear()
            await self.lose()
            self.cluster.mute.clear()
            self.assertEqual(watch.told, [])
        self.cluster.hear = lambda request: None
        await self.back()
        self.assertEqual(watch.told, [("CHANGED", "/a"), ("CREATED", "/missing"), ("CHILD", "/d")])
        self.assertEqual(self.watched(), set())

    async def test_one_of_two_pieces_has_an_answer(self) -> None:
        """What it tells is told; what the other would have told is not missed."""
        watch = Lasting()
        await self.zk.get("/a", watch)
        await self.zk.get("/b", watch)
        zxid = self.cluster.model.zxids[0]
        with mock.patch.object(kept_watches, "MOST_BYTES", 8):
            await self.lose()
            self.set("/a")
            self.set("/b")

            def swallow(request: Any) -> None:
                if isinstance(request, SetWatches) and request.data == ("/b",):
                    self.cluster.mute.add(0)

            self.cluster.hear = swallow
            self.cluster.requests.clear()
            self.cluster.away.clear()
            await until(lambda: watch.told and len(self.pieces()) == 2, "one is told")
            self.assertEqual([each.data for each in self.pieces()], [("/a",), ("/b",)])
            self.states.clear()
            await self.lose()
            self.cluster.mute.clear()
            self.cluster.hear = lambda request: None
            self.assertEqual([(each.zxid, each.data) for each in await self.back()], [(zxid, ("/b",))])
        self.assertEqual(watch.told, [("CHANGED", "/a"), ("CHANGED", "/b")])

    async def test_the_zxid_moves_on(self) -> None:
        """Once all have an answer."""
        watch = Lasting()
        await self.zk.get("/a", watch)
        for _ in range(3):
            await self.lose()
            self.set("/b")
            await self.back()
        await self.lose()
        self.assertEqual([each.zxid for each in await self.back()], [self.cluster.model.zxids[0]])
        self.assertEqual(watch.told, [])


class TestTheEnd(OutlastingCase):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.watch = Lasting()

    async def check_gone(self) -> None:
        """It was told NONE, once for each znode, and no later connection knows of it."""
        self.assertEqual(self.watch.told, [NONE, NONE])
        self.states.clear()
        await self.lose()
        self.assertEqual(await self.back(), [])
        self.assertEqual(self.watch.told, [NONE, NONE])

    async def leave(self) -> None:
        await self.zk.get("/a", self.watch)
        await self.zk.get_children("/d", self.watch)

    async def test_of_the_session(self) -> None:
        await self.leave()
        self.cluster.expire(0)
        await until(lambda: self.states[-2:] == [KazooState.LOST, KazooState.CONNECTED], "the next session")
        await self.check_gone()

    async def test_of_the_session_while_it_was_away(self) -> None:
        await self.leave()
        await self.lose()
        self.assertEqual(self.watch.told, [])
        self.cluster._alive.clear()
        self.cluster.away.clear()
        await until(lambda: self.states[-2:] == [KazooState.LOST, KazooState.CONNECTED], "the next session")
        await self.check_gone()

    async def test_of_patience(self) -> None:
        """The program gives its session up while it is away."""
        await self.leave()
        await self.lose()
        assert self.zk._session is not None
        self.zk._session.expire("a test wants it")
        self.cluster.away.clear()
        await until(lambda: self.states[-2:] == [KazooState.LOST, KazooState.CONNECTED], "the next session")
        await self.check_gone()

    async def test_of_the_client(self) -> None:
        for is_away in (False, True):
            self.watch.told.clear()
            await self.leave()
            if is_away:
                await self.lose()
            await self.zk.stop()
            self.assertEqual(self.watch.told, [NONE, NONE])
            self.cluster.away.clear()
            self.states.clear()
            await self.zk.start()
        await self.check_gone()

    async def test_a_server_that_refuses(self) -> None:
        """What it does not keep is told NONE, and read again. Then the next connection goes on from there."""
        await self.leave()
        execute = self.cluster.model.execute

        def refuse(ensemble: int, request: Any, *args: Any) -> Any:
            return UnimplementedError() if isinstance(request, SetWatches) else execute(ensemble, request, *args)

        await self.lose()
        with mock.patch.object(self.cluster.model, "execute", refuse):
            await self.back()
        self.assertEqual(self.watch.told, [NONE, NONE])
        self.set("/a")
        await self.leave()
        zxid = self.cluster.model.zxids[0]
        await self.lose()
        self.assertEqual(await self.back(), [SetWatches(zxid, ("/a",), (), ("/d",))])
        self.assertEqual(self.watch.told, [NONE, NONE])

    async def test_a_server_that_can_only_read(self) -> None:
        self.zk = await self.started(read_only=True)
        self.zk.add_listener(self.states.append)
        await self.leave()
        await self.lose()
        self.cluster.read_only.add(0)
        self.assertEqual(await self.back(), [])
        self.assertEqual(self.watch.told, [NONE, NONE])
        await self.leave()
        await self.lose()
        self.cluster.read_only.clear()
        self.assertEqual(await self.back(), [])
        self.assertEqual(self.watch.told, 4 * [NONE])


class TestOneOfSeveralEnsembles(AioCase):
    """The client has no ephemeral, so a session that expires on one of them does not end its own."""

    async def test_the_session_there_ends(self) -> None:
        for is_away in (False, True):
            zk, watch, other = await self.started(), Lasting(), Lasting()
            states: list[str] = []
            zk.add_listener(states.append)
            paths = [await zk.create(f"/{is_away}{number}/x", makepath=True) for number in range(20)]
            places = {logical(path): at for at in (1, 2) for path in self.cluster.model.nodes[at]}
            path, at = next((path, places[path]) for path in paths if path in places)
            elsewhere = next(path for path in paths if places.get(path) != at)
            await zk.get(path, watch)
            await zk.get(elsewhere, other)
            if is_away:
                self.cluster.away.add(at)
                self.cluster.cut(at)
                await until(lambda: states == [KazooState.SUSPENDED], "it is suspended")  # noqa: B023
                self.assertEqual(watch.told, [])
                self.cluster._alive.clear()
                self.cluster.away.clear()
            else:
                self.cluster.expire(at)
            await until(lambda: states[-1:] == [KazooState.CONNECTED], "it is back")  # noqa: B023
            self.assertNotIn(KazooState.LOST, states)
            await zk.sync(path)
            self.assertEqual((watch.told, other.told), ([NONE], []))
            self.cluster.requests.clear()
            self.cluster.cut(at)
            await until(lambda: self.cluster.is_connected(at), "it is back")  # noqa: B023
            await zk.sync(path)
            self.assertFalse(any(isinstance(each, SetWatches) for each in self.cluster.requests))
            await zk.stop()
