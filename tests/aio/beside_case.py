"""Recipes of the asyncio client beside the same recipes of a client for threads, on the same znodes."""

from __future__ import annotations

import asyncio
import sys
import unittest
import uuid
from datetime import timedelta
from functools import partial
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.recipe.cache import TreeCache
from kazoo.security import OPEN_ACL_UNSAFE, make_acl

from parkazoo import ParKazooClient
from tests.aio import aio_case
from tests.aio.aio_case import DEADLINE_S, needs_aio, until

if sys.version_info >= (3, 11):
    from parkazoo.aio import LockLostError

HOUR = timedelta(hours=1)


@needs_aio
class BesideCase(unittest.IsolatedAsyncioTestCase):
    """Each test has a client for asyncio, and another one, ParKazoo's or kazoo's.

    :cvar ensembles: one, if the other is kazoo's. :ivar hosts: set before :meth:`asyncSetUp`.
    """

    ensembles = 3
    other_kind: type[KazooClient] = ParKazooClient

    hosts: str

    async def asyncSetUp(self) -> None:
        root = f"/{uuid.uuid4().hex}"
        async with aio_case.ParKazooClient(self.hosts) as zk:
            await zk.create(root)
        self.zk: Any = aio_case.ParKazooClient(self.hosts + root, timeout=4)
        self.addAsyncCleanup(self.zk.stop)
        await self.zk.start(DEADLINE_S)
        self.other: Any = self.other_kind(self.hosts + root)
        self.addAsyncCleanup(asyncio.to_thread, self.stop_other)
        await asyncio.to_thread(self.other.start, DEADLINE_S)

    def stop_other(self) -> None:
        self.other.stop()
        self.other.close()

    async def in_thread(self, call: Any, *args: Any, **named: Any) -> Any:
        return await asyncio.to_thread(call, *args, **named)

    async def test_deferred(self) -> None:
        """Both write the same znodes, each in its order."""
        if isinstance(self.other, ParKazooClient):
            paths = [await self.zk.create(f"/{each}/x", makepath=True) for each in range(4)]

            def write() -> None:
                with self.other.deferred() as later:
                    for _ in range(200):
                        for path in paths:
                            later.put(path, b"theirs")

            theirs = asyncio.create_task(self.in_thread(write))
            async with self.zk.deferred() as later:
                tickets = [await later.put(path, b"ours") for _ in range(200) for path in paths]
            await theirs
            self.assertEqual({each.state for each in tickets}, {"committed"})
            for path in paths:
                self.assertEqual((await self.in_thread(self.other.get, path))[1].version, 400)

    async def test_dictionaries(self) -> None:
        """Each sees what the other writes, and no update is lost."""
        if isinstance(self.other, ParKazooClient):
            theirs = await self.in_thread(self.other.DistributedDict, "/settings")
            async with self.zk.DistributedDict("/settings") as ours:
                await ours.set("x", [1])
                await until(lambda: theirs.copy() == {"x": [1]}, "they see it")
                await self.in_thread(theirs.update, {"x": 2, "a/b": 3})
                await until(lambda: ours.copy() == {"x": 2, "a/b": 3}, "we see it")
                self.assertFalse(await ours.compare_and_set("x", 0, 9))
                self.assertTrue(await ours.compare_and_set("x", 1, 4))
                await until(lambda: theirs.get("x") == 4, "they see it")
                self.assertEqual((await self.in_thread(theirs.pop, "x"), await ours.pop("x", None)), (4, None))
            await self.in_thread(theirs.close)

    async def both_dictionaries(self, path: str, **options: Any) -> list[Any]:
        """Ours, and theirs in a thread, whose calls may be awaited too."""
        ours = await self.enterAsyncContext(self.zk.DistributedDict(path, **options))
        theirs = await self.in_thread(self.other.DistributedDict, path, **options)
        self.addAsyncCleanup(self.in_thread, theirs.close)

        class Awaited:
            def __getattr__(_, name: str) -> Any:
                return partial(self.in_thread, getattr(theirs, name))

        return [(ours, ours), (theirs, Awaited())]

    async def test_values_that_cannot_be_read(self) -> None:
        """An update writes them with the others; whoever would read one deletes nothing."""
        if not isinstance(self.other, ParKazooClient):
            self.skipTest("kazoo has none")
        for shards in (1, 3):
            path = f"/unread-{shards}"
            for copy, calls in await self.both_dictionaries(path, shards=shards):
                await calls.update({str(number): 0 for number in range(9)})
                paths = {key: copy._entries.place(key)[1] for key in copy}
                for key in "258":
                    await self.zk.set(paths[key], b"{")
                await until(lambda: repr(copy).count("<cannot be read>") == 3, "it has come")  # noqa: B023
                for call in (partial(calls.pop, "2"), partial(calls.setdefault, "2", 1), calls.snapshot):
                    with self.assertRaisesRegex(ValueError, "'[258]': the serializer cannot read"):
                        await call()
                with self.assertRaisesRegex(ValueError, "'[258]': the serializer cannot read"):
                    copy.copy()
                self.assertEqual((await self.zk.get(paths["2"]))[0], b"{")
                with self.assertRaisesRegex(TypeError, "'4': the serializer does not take"):
                    await calls.update({"3": 1, "4": object(), "5": 1})
                self.assertEqual(copy["3"], 0)
                await calls.update({"1": 1, "2": 1, "new": 1, "5": 1})
                expected = {**dict.fromkeys("03467", 0), **dict.fromkeys(["1", "2", "new", "5"], 1)}
                self.assertEqual({key: copy[key] for key in copy if key != "8"}, expected)
                await calls.clear()
                self.assertEqual(await calls.snapshot(), {})

    async def test_entries_that_may_not_be_read(self) -> None:
        """They are written with the others, those of another session too."""
        if not isinstance(self.other, ParKazooClient):
            self.skipTest("kazoo has none")
        hidden = [make_acl("world", "anyone", write=True, admin=True)]
        strangers = partial(self.in_thread, self.other.create), self.zk.create
        for is_ephemeral in (False, True):
            path = f"/hidden-{is_ephemeral}"
            both = await self.both_dictionaries(path, ephemeral=is_ephemeral)
            for (copy, calls), create in zip(both, strangers, strict=True):
                await calls.update(a=0, c=0)
                await create(f"{path}/b", b"0", hidden)
                await create(f"{path}/d", b"0", ephemeral=True)
                await until(lambda: len(copy) == 3 and not copy.is_stale, "they have come")  # noqa: B023
                with self.assertRaises(NoAuthError):
                    copy["b"]
                async with asyncio.timeout(DEADLINE_S):
                    await calls.update({"a": 1, "b": 1, "d": 1})
                if not is_ephemeral:  # a copy would not be seen to change
                    with self.assertRaises(NoAuthError):
                        copy["b"]
                await self.zk.set_acls(f"{path}/b", OPEN_ACL_UNSAFE)
                for key in "abd":
                    data, stat = await self.zk.get(f"{path}/{key}")
                    self.assertEqual((data, bool(stat.ephemeralOwner)), (b"1", is_ephemeral))
                await calls.clear()

    async def test_locks(self) -> None:
        """They exclude each other, and queue up behind each other."""
        for mine, theirs in (("Lock", "Lock"), ("WriteLock", "ReadLock"), ("ReadLock", "WriteLock")):
            path = f"/locks/{mine}"
            ours, others = getattr(self.zk, mine)(path, "me"), getattr(self.other, theirs)(path, "you")
            await self.in_thread(others.acquire)
            self.assertIs(await ours.acquire(blocking=False), False)
            task = asyncio.create_task(ours.acquire())
            while await ours.contenders() != ["you", "me"]:
                await asyncio.sleep(0.01)
            self.assertFalse(task.done())
            self.assertEqual(await self.in_thread(others.contenders), ["you", "me"])
            await self.in_thread(others.release)
            self.assertIs(await task, True)
            self.assertIs(await self.in_thread(others.acquire, blocking=False), False)
            waiting = asyncio.create_task(self.in_thread(others.acquire))
            while await ours.contenders() != ["me", "you"]:
                await asyncio.sleep(0.01)
            self.assertIs(await ours.release(), True)
            self.assertIs(await waiting, True)
            await self.in_thread(others.release)
            self.assertEqual(await self.zk.get_children(path), [])

    async def test_readers_share(self) -> None:
        others = self.other.ReadLock("/locks/r")
        await self.in_thread(others.acquire)
        async with self.zk.ReadLock("/locks/r"):
            pass
        await self.in_thread(others.release)

    async def test_a_cancelled_contender_lets_others_pass(self) -> None:
        others = self.other.Lock("/locks/c")
        async with self.zk.Lock("/locks/c"):
            tasks = [asyncio.create_task(self.zk.Lock("/locks/c").acquire()) for _ in range(20)]
            while len(await self.zk.get_children("/locks/c")) < 21:
                await asyncio.sleep(0.01)
            waiting = asyncio.create_task(self.in_thread(others.acquire))
            for task in tasks:
                task.cancel()
        self.assertIs(await waiting, True)
        await self.in_thread(others.release)

    async def test_a_lost_session(self) -> None:
        with self.assertRaises(LockLostError):
            async with self.zk.Lock("/locks/l"):
                self.zk._session.expire("a test wants it")
                await asyncio.sleep(DEADLINE_S)
        self.assertIs(await self.in_thread(self.other.Lock("/locks/l").acquire, timeout=DEADLINE_S), True)

    async def test_a_lost_connection(self) -> None:
        """The lock is held, and the others wait on."""
        async with self.zk.Lock("/locks/d"):
            task = asyncio.create_task(self.zk.Lock("/locks/d").acquire())
            while len(await self.zk.get_children("/locks/d")) < 2:
                await asyncio.sleep(0.01)
            self.zk._session.drop_connections()
            await until(lambda: not self.zk.connected, "it is suspended")
            await until(lambda: self.zk.connected, "it is back")
            self.assertIs(await self.in_thread(self.other.Lock("/locks/d").acquire, blocking=False), False)
        self.assertIs(await task, True)

    async def test_semaphores(self) -> None:
        ours, others = self.zk.Semaphore("/s", "me", 2), self.other.Semaphore("/s", "you", 2)
        await self.in_thread(others.acquire)
        self.assertIs(await ours.acquire(), True)
        self.assertEqual(sorted(await self.in_thread(others.lease_holders)), ["me", "you"])
        third = self.zk.Semaphore("/s", max_leases=2)
        self.assertIs(await third.acquire(blocking=False), False)
        task = asyncio.create_task(third.acquire())
        await self.in_thread(others.release)
        self.assertIs(await task, True)
        with self.assertRaises(ValueError):
            await self.zk.Semaphore("/s", max_leases=3).acquire()

    async def test_elections(self) -> None:
        led: list[str] = []

        async def lead() -> None:
            led.append("me")

        def lead_there() -> None:
            led.append("you")

        await self.zk.Election("/e").run(lead)
        await self.in_thread(self.other.Election("/e").run, lead_there)
        self.assertEqual(led, ["me", "you"])

    async def test_counters(self) -> None:
        ours = self.zk.Counter("/n")
        await asyncio.gather(
            *(ours.add(1) for _ in range(10)), self.in_thread(lambda: self.other.Counter("/n").__add__(5))
        )
        self.assertEqual(await ours.value(), 15)
        self.assertEqual(await self.in_thread(lambda: self.other.Counter("/n").value), 15)

    async def test_queues(self) -> None:
        ours, others = self.zk.Queue("/q"), self.other.Queue("/q")
        await ours.put(b"2")
        await self.in_thread(others.put, b"1", 99)
        self.assertEqual(await ours.get(), b"1")
        self.assertEqual(await self.in_thread(others.get), b"2")
        self.assertIsNone(await ours.get())

    async def test_locking_queues(self) -> None:
        """An entry has one holder, of either kind."""
        ours, others = self.zk.LockingQueue("/lq"), self.other.LockingQueue("/lq")
        await self.in_thread(others.put_all, [b"1", b"2"], 99)
        await ours.put(b"3")
        self.assertEqual(await ours.get(), b"1")
        self.assertEqual(await self.in_thread(others.get, DEADLINE_S), b"2")
        async with ours.entry() as value:
            self.assertEqual(value, b"3")
            self.assertEqual((await ours.qsize(), await self.in_thread(len, others)), (3, 3))
        self.assertIs(await ours.release(), True)
        self.assertIs(await self.in_thread(others.consume), True)
        self.assertEqual(await self.in_thread(others.get, DEADLINE_S), b"1")
        task = asyncio.create_task(ours.get())
        await asyncio.sleep(0)
        self.assertIs(await self.in_thread(others.release), True)
        self.assertEqual(await task, b"1")
        self.assertEqual((await ours.holds_lock(), await ours.consume()), (True, True))
        self.assertEqual(await self.zk.get_children("/lq/entries"), [])

    async def test_barriers(self) -> None:
        await self.in_thread(self.other.Barrier("/b").create)
        task = asyncio.create_task(self.zk.Barrier("/b").wait())
        await asyncio.sleep(0)
        self.assertIs(await self.in_thread(self.other.Barrier("/b").remove), True)
        await task
        ours, others = self.zk.DoubleBarrier("/d", 2), self.other.DoubleBarrier("/d", 2)
        await asyncio.gather(ours.enter(), self.in_thread(others.enter))
        self.assertTrue(ours.participating and others.participating)
        await asyncio.gather(ours.leave(), self.in_thread(others.leave))
        self.assertEqual(await self.zk.get_children("/d"), [])

    async def test_parties(self) -> None:
        for kind in ("Party", "ShallowParty"):
            others = getattr(self.other, kind)(f"/{kind}", "you")
            await self.in_thread(others.join)
            async with getattr(self.zk, kind)(f"/{kind}", "me") as party:
                self.assertEqual(sorted(await party.members()), ["me", "you"])
                self.assertEqual(sorted(await self.in_thread(lambda others=others: [*others])), ["me", "you"])
            self.assertEqual(await self.in_thread(len, others), 1)

    async def test_leases(self) -> None:
        self.assertTrue(await self.in_thread(self.other.NonBlockingLease, "/l", HOUR, "you"))
        self.assertIs(await self.zk.NonBlockingLease("/l", HOUR, "me").obtain(), False)
        self.assertIs(await self.zk.NonBlockingLease("/l", HOUR, "you").obtain(), True)
        self.assertFalse(await self.in_thread(self.other.NonBlockingLease, "/l", HOUR, "me"))

    async def test_tree_caches(self) -> None:
        """Both see the same, and each what the other's client writes."""
        others = TreeCache(self.other, "/tc")
        await self.in_thread(others.start)
        self.addAsyncCleanup(self.in_thread, others.close)
        async with self.zk.TreeCache("/tc") as ours:
            await self.in_thread(self.other.create, "/tc/a/b", b"1", makepath=True)
            await self.zk.create("/tc/c", b"2")
            await self.zk.set("/tc/a", b"3")
            for path, data in (("/tc/a/b", b"1"), ("/tc/c", b"2"), ("/tc/a", b"3")):
                for cache in (ours, others):
                    await until(lambda p=path, d=data, c=cache: (c.get_data(p) or [0, 0])[1] == d, path)
            self.assertEqual(ours.get_children("/tc"), others.get_children("/tc"))

    async def test_set_partitioners(self) -> None:
        """They divide the items among members of either kind, whoever comes and goes."""
        items = ["a", "b", "c", "d", "e"]
        ours = self.zk.SetPartitioner("/sp", items, identifier="1", time_boundary=0.2)
        others = await self.in_thread(
            partial(self.other.SetPartitioner, "/sp", items, identifier="2", time_boundary=0.2)
        )

        async def turn() -> list[list[str]]:
            while not (ours.acquired and others.acquired):
                if ours.release:
                    await ours.release_set()
                elif others.release:
                    await self.in_thread(others.release_set)
                else:
                    await asyncio.gather(ours.wait_for_acquire(), self.in_thread(others.wait_for_acquire, 1))
            return [list(ours), list(others)]

        self.assertEqual(await turn(), [["a", "c", "e"], ["b", "d"]])
        third = self.zk.SetPartitioner("/sp", items, identifier="3", time_boundary=0.2)
        waiting = asyncio.create_task(third.wait_for_acquire())
        await until(lambda: ours.release and others.release, "both hear of it")
        self.assertEqual(await turn(), [["a", "d"], ["b", "e"]])
        await waiting
        self.assertEqual([*third], ["c"])
        await third.finish()
        await self.in_thread(others.finish)
        async for share in ours:
            if len(share) == 5:
                break
        await ours.finish()
        self.assertTrue(ours.failed)

    async def test_spreads(self) -> None:
        if not hasattr(self.other, "Spread"):
            self.skipTest("kazoo has none")
        ours, others = self.zk.Spread("/spread", 7), self.other.Spread("/spread", 7)
        await ours.create("a", b"1")
        await self.in_thread(others.create, "b", b"2")
        self.assertEqual(sorted(await ours.get_children()), sorted(await self.in_thread(others.get_children)))
        self.assertEqual(((await ours.get("b"))[0], (await self.in_thread(others.get, "a"))[0]), (b"2", b"1"))

    async def test_once(self) -> None:
        self.assertEqual(
            await self.zk.once(self.zk.create, "/o/n-", sequence=True, makepath=True), "/o/n-0000000000"
        )
        self.assertEqual((await self.zk.once(self.zk.set, "/o/n-0000000000", b"1", 0)).version, 1)
        self.assertIs(await self.zk.once(self.zk.delete, "/o/n-0000000000"), True)
