"""What the watchers of a client for threads read after a lost connection, over ZooKeeper in memory."""

from __future__ import annotations

import asyncio
import threading
import unittest
from collections.abc import Callable
from typing import Any

from kazoo.protocol.states import Callback, KazooState
from kazoo.recipe.cache import TreeCache, TreeEvent
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo import ParKazooClient
from parkazoo.kazoo_private import Create, Delete, Exists, GetChildren, GetData, SetData
from parkazoo.protocol.newer_requests import SetWatches
from parkazoo.protocol.placement import logical
from tests.aio.aio_case import DEADLINE_S, LONG_S, needs_aio, until
from tests.explore.alone import must
from tests.fakes.zookeeper import Ensembles

PATHS = [f"/d/{number}" for number in range(20)]
READS = (Exists, GetData, GetChildren)


@needs_aio
class RewatchingCase(unittest.IsolatedAsyncioTestCase):
    """Its servers are on the loop, and its client's calls on other threads.

    :ivar told: what functions were called with, in order.
    """

    ensembles = 1

    async def asyncSetUp(self) -> None:
        self.cluster = Ensembles(self.ensembles)
        await self.cluster.__aenter__()
        self.addAsyncCleanup(self.cluster.__aexit__, None, None, None)
        self.told: list[Any] = []
        self.states: list[str] = []
        self.zk: Any = ParKazooClient(self.cluster.hosts, timeout=LONG_S)
        self.zk.add_listener(self.states.append)
        self.addAsyncCleanup(asyncio.to_thread, self.end)
        await self.start()
        for path in ("/d", *PATHS):
            await self.call(self.zk.create, path)

    async def start(self) -> None:
        await self.call(self.zk.start, DEADLINE_S)

    def end(self) -> None:
        self.cluster.away.clear()
        self.zk.stop()
        self.zk.close()

    async def call(self, call: Callable[..., Any], *args: Any, **named: Any) -> Any:
        return await asyncio.to_thread(call, *args, **named)

    def teller(self, path: str) -> Callable[..., None]:
        return lambda *found: self.told.append((path, *found))

    async def watch_data(self, *paths: str) -> None:
        for path in paths:
            await self.call(self.zk.DataWatch, path, self.teller(path))
        await until(lambda: len(self.told) == len(paths), "the first calls")
        self.told.clear()

    async def lose(self) -> None:
        self.states.clear()
        self.cluster.away |= set(range(self.ensembles))
        for ensemble in range(self.ensembles):
            self.cluster.cut(ensemble)
        await until(lambda: self.states == [KazooState.SUSPENDED], "it is suspended")

    async def back(self) -> list[Any]:
        """The reads and other requests that come then, until nothing is under way."""
        self.cluster.requests.clear()
        self.cluster.away.clear()
        await until(lambda: self.states[-1] == KazooState.CONNECTED, "it is back")
        return await self.asked()

    async def lose_at_a_read(self) -> list[Any]:
        """A znode changes, and the read that follows gets no answer. See :meth:`back`."""

        def hush(request: Any) -> None:
            if isinstance(request, GetData):
                self.cluster.mute.add(0)

        self.cluster.hear = hush
        self.change(SetData(PATHS[3], b"1", -1))
        await until(lambda: self.cluster.mute, "it reads")
        await self.lose()
        self.cluster.hear = lambda request: None
        self.cluster.mute.clear()
        return await self.back()

    async def asked(self) -> list[Any]:
        await self.call(self.settle)
        return [each for each in self.cluster.requests if is_users(each)]

    def settle(self) -> None:
        """Listeners have been called before an answer comes, and so have the events before it been taken."""
        for _ in range(3):  # an event, the read that it causes, and the call behind that
            self.zk.exists("/none")
            is_over = threading.Event()
            self.zk.handler.dispatch_callback(Callback("watch", is_over.set, ()))
            is_over.wait(DEADLINE_S)

    def change(self, request: Any, ensemble: int = 0) -> None:
        must(self.cluster.model.execute(ensemble, request))


def is_users(request: Any) -> bool:
    path = logical(getattr(request, "path", "/d"))
    return isinstance(request, (*READS, SetWatches)) and path.startswith("/d")


class TestDataWatch(RewatchingCase):
    async def test_nothing_has_changed(self) -> None:
        """The servers are asked once, and no function is called; what comes then is told."""
        await self.watch_data(*PATHS, "/d/missing")
        for _ in range(2):
            await self.lose()
            requests = await self.back()
            self.assertEqual([type(each) for each in requests], [SetWatches])
            self.assertEqual((set(requests[0].data), requests[0].missing), ({*PATHS}, ("/d/missing",)))
        self.change(SetData(PATHS[3], b"1", -1))
        self.change(Create("/d/missing", b"2", OPEN_ACL_UNSAFE, 0))
        await until(lambda: len(self.told) == 2, "both are told")
        self.assertEqual({(path, data) for path, data, *_ in self.told}, {(PATHS[3], b"1"), ("/d/missing", b"2")})

    async def test_some_have_changed(self) -> None:
        """They are told and read, and no others."""
        await self.watch_data(*PATHS, "/d/missing")
        await self.lose()
        self.change(SetData(PATHS[3], b"1", -1))
        self.change(Delete(PATHS[5], -1))
        self.change(Create("/d/missing", b"2", OPEN_ACL_UNSAFE, 0))
        requests = await self.back()
        self.assertEqual(type(requests[0]), SetWatches)
        self.assertEqual({each.path for each in requests[1:]}, {PATHS[3], PATHS[5], "/d/missing"})
        self.assertEqual(len(requests[1:]), 4)  # exists, too, for the one that is gone
        told = sorted((path, data) for path, data, *_ in self.told if data is not None)
        self.assertEqual(told, [(PATHS[3], b"1"), ("/d/missing", b"2")])
        self.assertEqual([each[:2] for each in self.told if each[1] is None], [(PATHS[5], None)])

    async def test_an_event_came_just_before(self) -> None:
        """Its read gets no answer: the znode is read again."""
        await self.watch_data(*PATHS)
        self.cluster.requests.clear()

        requests = await self.lose_at_a_read()
        self.assertEqual([type(each) for each in requests], [SetWatches, GetData])
        self.assertNotIn(PATHS[3], requests[0].data)
        self.assertEqual([(path, data) for path, data, *_ in self.told], [(PATHS[3], b"1")])

    async def test_a_lost_session(self) -> None:
        await self.watch_data(*PATHS)
        self.states.clear()
        self.cluster.requests.clear()
        self.cluster.expire(0)
        await until(lambda: self.states[-2:] == [KazooState.LOST, KazooState.CONNECTED], "the next session")
        requests = await self.asked()
        self.assertEqual({each.path for each in requests}, {*PATHS})
        self.assertEqual({type(each) for each in requests}, {GetData})

    async def test_the_client_starts_again(self) -> None:
        await self.watch_data(*PATHS)
        await self.call(self.zk.stop)
        self.change(SetData(PATHS[3], b"1", -1))
        self.cluster.requests.clear()
        await self.start()
        requests = await self.asked()
        self.assertEqual({each.path for each in requests}, {*PATHS})
        self.assertEqual([(path, data) for path, data, *_ in self.told], [(PATHS[3], b"1")])

    async def test_an_event_got_lost_with_a_stop(self) -> None:
        """Nobody has told it to read, so it reads at the next start."""
        watch = await self.call(self.zk.DataWatch, PATHS[0], self.teller(PATHS[0]))
        names = await self.call(self.zk.ChildrenWatch, PATHS[1], self.teller(PATHS[1]))
        for each in (watch, names):
            for states, count in (("SUSPENDED CONNECTED", 0), ("SUSPENDED LOST CONNECTED", 1)):
                self.cluster.requests.clear()
                for state in states.split():
                    each._session_watcher(state)
                self.assertEqual(len(await self.asked()), count)

    async def test_one_that_was_stopped(self) -> None:
        watch = await self.call(self.zk.DataWatch, PATHS[0], self.teller(PATHS[0]))
        await self.lose()
        watch._stopped = True
        self.assertEqual(await self.back(), [])


class TestSeveralEnsembles(RewatchingCase):
    ensembles = 3

    async def test_one_is_away(self) -> None:
        """Watches elsewhere go on, though the client is suspended; those there are told what they have missed."""
        paths = [f"/d{number}/x" for number in range(20)]
        for path in paths:
            await self.call(self.zk.create, path, makepath=True)
        await self.watch_data(*paths)
        nodes = self.cluster.model.nodes
        places = {logical(path): (at, path) for at in range(3) for path in nodes[at] if path.endswith("x")}
        (at, first), *_ = places.values()
        there = [path for path in paths if places[path][0] == at]
        elsewhere = next(path for path in paths if path not in there)
        self.states.clear()
        self.cluster.away.add(at)
        self.cluster.cut(at)
        await until(lambda: self.states == [KazooState.SUSPENDED], "it is suspended")
        self.cluster.requests.clear()
        self.change(SetData(first, b"1", -1), at)
        self.change(SetData(places[elsewhere][1], b"2", -1), places[elsewhere][0])
        await until(lambda: [each[:2] for each in self.told] == [(elsewhere, b"2")], "it is told")
        self.cluster.away.clear()
        await until(lambda: self.states[-1] == KazooState.CONNECTED, "it is back")
        requests = await self.asked()
        self.assertEqual([each[:2] for each in self.told], [(elsewhere, b"2"), (logical(first), b"1")])
        reads = [each.path for each in requests if not isinstance(each, SetWatches)]
        self.assertEqual(reads, [places[elsewhere][1], first])
        (kept,) = (each for each in requests if isinstance(each, SetWatches))
        self.assertEqual({*kept.data}, {places[path][1] for path in there})


class TestChildrenWatch(RewatchingCase):
    async def watch_children(self, *paths: str, **options: Any) -> None:
        for path in paths:
            await self.call(self.zk.ChildrenWatch, path, self.teller(path), **options)
        await until(lambda: len(self.told) == len(paths), "the first calls")
        self.told.clear()

    async def test_nothing_has_changed(self) -> None:
        await self.watch_children(*PATHS)
        for _ in range(2):
            await self.lose()
            requests = await self.back()
            self.assertEqual([type(each) for each in requests], [SetWatches])
        self.change(Create(f"{PATHS[3]}/x", b"", OPEN_ACL_UNSAFE, 0))
        await until(lambda: self.told, "it is told")
        self.assertEqual(self.told, [(PATHS[3], ["x"])])

    async def test_some_have_changed(self) -> None:
        await self.watch_children("/d", *PATHS, send_event=True)
        await self.lose()
        self.change(Create(f"{PATHS[3]}/x", b"", OPEN_ACL_UNSAFE, 0))
        self.change(Delete(PATHS[5], -1))
        requests = await self.back()
        self.assertEqual([each.path for each in requests[1:]], ["/d", PATHS[3], PATHS[5]])
        told = [(path, len(names), event.type) for path, names, event in self.told]
        self.assertEqual(told, [("/d", 19, "CHILD"), (PATHS[3], 1, "CHILD")])

    async def test_as_before(self) -> None:
        """A child has come and gone: that is read, and is no news."""
        await self.watch_children("/d")
        await self.lose()
        self.change(Create("/d/x", b"", OPEN_ACL_UNSAFE, 0))
        self.change(Delete("/d/x", -1))
        self.assertEqual([type(each) for each in await self.back()], [SetWatches, GetChildren])
        self.assertEqual(self.told, [])

    async def test_without_allow_session_lost(self) -> None:
        """As with kazoo, it hears of nothing more."""
        await self.watch_children("/d", allow_session_lost=False)
        await self.lose()
        self.change(Create("/d/x", b"", OPEN_ACL_UNSAFE, 0))
        self.assertEqual((await self.back(), self.told), ([], []))


class TestTreeCache(RewatchingCase):
    async def cache(self) -> Any:
        cache = self.zk.TreeCache("/d")
        cache.listen(
            lambda event: self.told.append((event.event_type, event.event_data and event.event_data.path))
        )
        await self.call(cache.start)
        self.addAsyncCleanup(self.call, cache.close)
        await until(lambda: (TreeEvent.INITIALIZED, None) in self.told, "it is read")
        await self.call(self.settle)
        self.told.clear()
        return cache

    async def test_nothing_has_changed(self) -> None:
        cache = await self.cache()
        for _ in range(2):
            await self.lose()
            (request,) = await self.back()
            self.assertEqual({*request.data}, {"/d", *PATHS})
            self.assertEqual({*request.children}, {"/d", *PATHS})
        await until(lambda: len(self.told) == 4, "its events")
        of_connection = [(TreeEvent.CONNECTION_SUSPENDED, None), (TreeEvent.CONNECTION_RECONNECTED, None)]
        self.assertEqual(self.told, 2 * of_connection)
        self.change(SetData(PATHS[3], b"1", -1))
        await until(lambda: cache.get_data(PATHS[3]).data == b"1", "a change")

    async def test_some_have_changed(self) -> None:
        cache = await self.cache()
        await self.lose()
        self.change(SetData(PATHS[3], b"1", -1))
        self.change(Delete(PATHS[5], -1))
        self.change(Create(f"{PATHS[7]}/x", b"2", OPEN_ACL_UNSAFE, 0))
        await self.back()
        await until(lambda: cache.get_data(f"{PATHS[7]}/x") is not None, "it is read")
        requests = await self.asked()
        self.assertEqual((cache.get_data(PATHS[3]).data, cache.get_data(PATHS[5])), (b"1", None))
        read = {each.path for each in requests[1:]}
        self.assertEqual(read, {"/d", PATHS[3], PATHS[7], f"{PATHS[7]}/x"})

    async def test_reads_without_an_answer(self) -> None:
        """What could not be read is read, and no more than that."""
        cache = await self.cache()

        requests = await self.lose_at_a_read()
        self.assertEqual([getattr(each, "path", None) for each in requests], [None, PATHS[3]])
        await until(lambda: cache.get_data(PATHS[3]).data == b"1", "it is read")

    async def test_a_lost_session(self) -> None:
        cache = await self.cache()
        self.states.clear()
        self.cluster.expire(0)
        self.change(SetData(PATHS[3], b"1", -1))
        await until(lambda: (TreeEvent.INITIALIZED, None) in self.told, "it is read again")
        self.assertEqual(cache.get_data(PATHS[3]).data, b"1")

    async def test_one_of_kazoo_s_own(self) -> None:
        """It reads all, as with kazoo."""
        cache = TreeCache(self.zk, "/d")
        await self.call(cache.start)
        self.addAsyncCleanup(self.call, cache.close)
        await until(lambda: len(cache.get_children("/d", ())) == len(PATHS), "it is read")
        await self.call(self.settle)
        await self.lose()
        self.change(SetData(PATHS[3], b"1", -1))
        await self.back()
        await until(lambda: cache.get_data(PATHS[3]).data == b"1", "a change")
