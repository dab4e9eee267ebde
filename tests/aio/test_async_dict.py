"""DistributedDict of the asyncio client."""

from __future__ import annotations

import asyncio
import pickle
from contextlib import suppress
from typing import Any
from unittest import mock

from kazoo.exceptions import (
    AuthFailedError,
    BadArgumentsError,
    ConnectionClosedError,
    ConnectionLoss,
)
from kazoo.protocol.states import KazooState

from parkazoo.kazoo_private import SetData
from parkazoo.structures.policies import Always, Count, Linearizable, Lock, Time, Watch
from parkazoo.structures.reading import SNAPSHOT_TRIES
from tests.aio.aio_case import DEADLINE_S, POLL_S, AioCase, until
from tests.explore.alone import must

PATH = "/settings"


class TestDict(AioCase):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.zk, self.other = await self.started(), await self.started()

    async def test_as_a_mapping(self) -> None:
        async with self.zk.DistributedDict(PATH) as d, self.other.DistributedDict(PATH) as other:
            self.assertEqual((len(d), dict(d), "x" in d, d.get("x")), (0, {}, False, None))
            with self.assertRaises(KeyError):
                d["x"]
            await d.set("x", [1])
            await d.update({"a/b": None}, y=2)
            self.assertEqual((d.copy(), d["x"]), ({"x": [1], "a/b": None, "y": 2}, [1]))
            await until(lambda: other.copy() == d.copy(), "the other sees it")
            self.assertEqual(sorted(other), ["a/b", "x", "y"])
            self.assertEqual((await self.other.get(f"{PATH}/a%2Fb"))[0], b"null")
            self.assertEqual(repr(other).count("'x': [1]"), 1)
            self.assertEqual(await other.pop("x"), [1])
            await other.delete("y")
            for call in (other.pop("x"), other.delete("y")):
                with self.assertRaises(KeyError):
                    await call
            self.assertEqual(await other.pop("x", 7), 7)
            await until(lambda: d.copy() == {"a/b": None}, "it sees that")
            self.assertFalse(d.is_stale)

    async def test_an_iteration_while_entries_go(self) -> None:
        """It shows the items of one moment."""
        async with self.zk.DistributedDict(PATH) as d:
            await d.update(x=1, y=2)
            for view in (d.items(), d.values(), d.keys()):
                seen = []
                for each in view:
                    seen.append(each)
                    await d.clear()
                self.assertEqual(len(seen), 2)
                await d.update(x=1, y=2)
            self.assertEqual((d, 1 in d.values(), ("x", 2) in d.items()), ({"x": 1, "y": 2}, True, False))

    async def test_all_at_once(self) -> None:
        """Snapshots, and what deletes any entry or all."""
        for shards in (1, 5):
            path = f"{PATH}-{shards}"
            mine, other = (each.DistributedDict(path, shards=shards) for each in (self.zk, self.other))
            async with mine as d, other:
                items = {str(number): number for number in range(20)}
                self.assertEqual(await d.snapshot(), {})
                await d.update(items)
                self.assertEqual((await other.snapshot(), other.copy()), (items, items))
                self.assertEqual((d | {"x": 1}, {"x": 1} | d), ({**items, "x": 1},) * 2)
                taken = dict([await d.popitem(), await other.popitem()])
                self.assertEqual(await other.snapshot(), {key: items[key] for key in items if key not in taken})
                await other.clear()
                await until(lambda: not d, "it is empty")
                for each in (d, other):
                    await each.clear()
                    with self.assertRaises(KeyError):
                        await each.popitem()

    async def test_a_snapshot_while_others_write(self) -> None:
        """It is read until two reads are equal."""
        async with (
            self.zk.DistributedDict(PATH, shards=3) as d,
            self.other.DistributedDict(PATH, shards=3) as other,
        ):
            await d.update({str(number): 0 for number in range(9)})
            fetch_state, writes = d._reader.fetch_state, 1

            def state() -> Any:
                nonlocal writes
                found = yield from fetch_state()
                if writes:
                    writes -= 1
                    yield from d._writer.put({"0": b"%d" % writes})
                return found

            with mock.patch.object(d._reader, "fetch_state", side_effect=state) as reads:
                self.assertEqual((await d.snapshot())["0"], 0)
                self.assertEqual(reads.call_count, 3)
                writes = SNAPSHOT_TRIES
                with self.assertRaisesRegex(RuntimeError, "there is no snapshot"):
                    await d.snapshot()
            await other.refresh()
            self.assertEqual(other["0"], 0)

    async def test_shards(self) -> None:
        """They are those of the threaded client, on all ensembles, and others are refused."""
        async with self.zk.DistributedDict(PATH, shards=9) as d:
            await d.update({str(number): number for number in range(50)})
            self.assertEqual(sorted(await self.zk.get_children(PATH)), [f"{number}-9" for number in range(9)])
            self.assertEqual((await self.zk.get(PATH))[0], b'{"buckets": 9}')
            number, path = d._entries.place("7")
            self.assertEqual(path, f"{PATH}/{number}-9/7")
            entries = [" ".join(nodes).count("-9/") for nodes in self.cluster.model.nodes]
            self.assertTrue(all(entries), entries)
            changes = d.changes()
            await self.other.set(path, b"70")
            self.assertEqual(await anext(changes), ("7", 7, 70, 1))
            for shards in (1, 3):
                with self.assertRaisesRegex(ValueError, "was made with shards=9"):
                    async with self.other.DistributedDict(PATH, shards=shards):
                        pass
            for each in range(3):
                self.cluster.cut(each)
            await self.set_by_other(b"71", path)
            self.assertEqual((await anext(changes))[:3], ("7", 70, 71))
            await until(lambda: not d.is_stale, "it is read again")
        await self.zk.create("/plain/x", b"1", makepath=True)
        with self.assertRaisesRegex(ValueError, "was made without shards"):
            async with self.zk.DistributedDict("/plain", shards=2):
                pass

    async def test_its_directory_is_made_again_with_shards(self) -> None:
        """It does not write beside them."""
        async with self.zk.DistributedDict(PATH) as d:
            await d.set("x", 1)
            await self.other.delete(PATH, recursive=True)
            async with self.other.DistributedDict(PATH, shards=3) as other:
                await other.set("y", 2)
                await until(lambda: "x" not in d and not d.is_stale, "it sees that")
                for write in (d.set("x", 1), d.setdefault("z", 1)):
                    with self.assertRaisesRegex(ValueError, "was made with shards=3"):
                        await write
                self.assertEqual(other.copy(), {"y": 2})

    async def test_reads_of_a_stale_copy(self) -> None:
        """They raise, if they are to."""
        async with self.zk.DistributedDict(PATH, Watch(raises=True)) as d:
            await d.set("x", 1)
            self.assertEqual((d["x"], len(d)), (1, 1))
            self.cluster.away = {0, 1, 2}
            for each in range(3):
                self.cluster.cut(each)
            await until(lambda: d.is_stale, "it is not kept")
            for read in (lambda: d["x"], lambda: len(d), lambda: list(d), d.copy, lambda: "x" in d):
                with self.assertRaises(ConnectionLoss):
                    read()
            self.cluster.away = set()
            await until(lambda: not d.is_stale, "it is kept again")
            self.assertEqual(d["x"], 1)

    async def test_versions(self) -> None:
        async with self.zk.DistributedDict(PATH) as d, self.other.DistributedDict(PATH) as other:
            self.assertTrue(await d.compare_and_set("x", None, 1))
            self.assertFalse(await other.compare_and_set("x", None, 2))
            self.assertEqual(other.get_with_version("x"), (1, 0))
            self.assertTrue(await other.compare_and_set("x", 0, 2))
            self.assertFalse(await d.compare_and_set("x", 0, 3))
            self.assertEqual(d.get_with_version("x"), (2, 1))
            self.assertEqual((await d.setdefault("x", 9), await d.setdefault("y", 9)), (2, 9))
            with self.assertRaises(TypeError):
                await d.compare_and_set("x", "0", 1)  # type: ignore[arg-type]  # a user's mistake
            with self.assertRaises(ValueError):
                await d.compare_and_set("x", -1, 1)

    async def test_writes_beside_each_other(self) -> None:
        async with self.zk.DistributedDict(PATH) as d, self.other.DistributedDict(PATH) as other:
            await d.set("n", 0)

            async def count(into: Any) -> None:
                for _ in range(20):
                    done = False
                    while not done:
                        if "n" not in into:
                            await asyncio.sleep(0)
                            continue
                        value, version = into.get_with_version("n")
                        done = await into.compare_and_set("n", version, value + 1)

            await asyncio.gather(
                count(d), count(other), d.update({str(n): n for n in range(300)}), other.set("x", 1)
            )
            self.assertEqual((await d.pop("n"), len(d)), (40, 301))
            await until(lambda: d.copy() == other.copy(), "both have all")

    async def test_changes(self) -> None:
        async with self.zk.DistributedDict(PATH) as d, self.other.DistributedDict(PATH) as other:
            changes = d.changes()
            await other.set("x", 1)
            self.assertEqual(await anext(changes), ("x", None, 1, 0))
            await d.set("x", 2)
            self.assertEqual(await anext(changes), ("x", 1, 2, 1))
            with self.assertLogs("parkazoo", "ERROR"):
                await self.other.set(f"{PATH}/x", b"{")
                await until(lambda: "<cannot be read>" in repr(d), "it has come")
                with self.assertRaises(TimeoutError):
                    await asyncio.wait_for(anext(changes), 0.01)
            with self.assertRaises(ValueError):
                d["x"]
            await other.delete("x")
            self.assertEqual(await anext(changes), ("x", 2, None, None))
        with self.assertRaises(StopAsyncIteration):
            await anext(changes)
        self.assertEqual([each async for each in d.changes()], [])

    async def test_over_a_lost_session_and_a_stop(self) -> None:
        async with self.zk.DistributedDict(PATH) as d:
            await d.set("x", 1)
            changes = d.changes()
            for each in range(3):
                self.cluster.expire(each)
            await self.set_by_other(b"3")
            await until(lambda: d.copy() == {"x": 3} and not d.is_stale, "it is read again")
            self.assertEqual((await anext(changes))[:3], ("x", 1, 3))
            waiting = asyncio.create_task(anext(changes))  # type: ignore[arg-type]  # it is a coroutine
            await self.zk.stop()
            with self.assertRaises(ConnectionClosedError):
                await waiting
            self.assertEqual((d["x"], d.is_stale), (3, True))
            with self.assertRaises(ConnectionClosedError):
                await d.set("x", 4)
            await self.other.set(f"{PATH}/x", b"5")
            await self.zk.start()
            await until(lambda: d.copy() == {"x": 5}, "it goes on")

    async def test_changes_of_a_client_that_stops_while_it_is_lost(self) -> None:
        async with self.zk.DistributedDict(PATH) as d:
            waiting = asyncio.create_task(anext(d.changes()))  # type: ignore[arg-type]  # it is a coroutine
            self.cluster.away = {0, 1, 2}
            assert self.zk._session is not None
            self.zk._session.expire("a test wants it")
            await until(lambda: self.zk.state == KazooState.LOST, "it is lost")
            await self.zk.stop()
            for each in (waiting, anext(d.changes())):
                with self.assertRaises(ConnectionClosedError):
                    async with asyncio.timeout(DEADLINE_S):
                        await each
            self.cluster.away = set()
            await self.zk.start()
            changes = d.changes()
            await self.other.create(f"{PATH}/x", b"1", makepath=True)
            self.assertEqual((await anext(changes))[:3], ("x", None, 1))
        self.assertEqual((self.zk._ends, self.zk._listeners), ({}, {}))

    async def test_a_doubt_while_an_entry_changes(self) -> None:
        """The entry is read twice at once, and has one watch then."""
        await self.other.create(f"{PATH}/x", b"0", makepath=True)
        at, physical = next(
            (at, path) for at, each in enumerate(self.cluster.model.nodes) for path in each if path.endswith("/x")
        )
        session = self.zk._session
        assert session is not None

        def watches() -> int:
            tables = [member.data_watches() for member in session.roster.members]
            return sum(path.endswith("/x") for table in tables for path, _ in table)

        async with self.zk.DistributedDict(PATH) as d:
            for number in range(1, 4):
                must(self.cluster.model.execute(at, SetData(physical, b"%d" % number, -1)))
                d._keeper._read(d._keeper._generation, "x", is_again=True)
                await until(lambda: d["x"] == number and not d.is_stale, "it is read")  # noqa: B023
                self.assertEqual(watches(), 1)
        self.assertEqual(watches(), 0)

    async def test_a_client_whose_credentials_are_refused(self) -> None:
        """Nothing of it keeps the client from its end."""
        async with self.zk.DistributedDict(PATH) as d:
            assert self.zk._session is not None
            self.zk._session.fail(AuthFailedError())
            with self.assertRaises(AuthFailedError):
                await self.zk.exists("/")
            async with asyncio.timeout(DEADLINE_S):
                await self.zk.stop()
            await self.zk.start()
            await self.other.create(f"{PATH}/x", b"1", makepath=True)
            await until(lambda: d.copy() == {"x": 1}, "it goes on")

    async def set_by_other(self, value: bytes, path: str = f"{PATH}/x") -> None:
        """Until its connection is back."""
        while True:
            with suppress(ConnectionLoss):
                await self.other.set(path, value)
                return
            await asyncio.sleep(POLL_S)

    async def test_its_directory_is_made_again(self) -> None:
        async with self.zk.DistributedDict(PATH) as d:
            await d.update(x=1, y=2)
            await self.other.delete(PATH, recursive=True)
            await until(lambda: not d, "it is empty")
            await self.other.create(f"{PATH}/z", b"3", makepath=True)
            await until(lambda: d.copy() == {"z": 3}, "it is seen")
            await self.other.delete(PATH, recursive=True)
            await d.set("a", 4)
            await until(lambda: d.copy() == {"a": 4}, "it is made again by a write")

    async def test_ephemeral(self) -> None:
        async with self.zk.DistributedDict(PATH, ephemeral=True) as d, self.other.DistributedDict(PATH) as other:
            await d.update(mine=1, ours=1)
            await until(lambda: len(other) == 2, "the other sees them")
            await other.set("ours", 2)
            self.assertEqual((await self.other.exists(f"{PATH}/ours")).ephemeralOwner, 0)  # type: ignore[union-attr]
            await self.zk.stop()
            await until(lambda: other.copy() == {"ours": 2}, "it has ended")

    async def test_serializers(self) -> None:
        pickled = self.zk.DistributedDict(PATH, serializer=pickle)
        async with pickled as d, self.zk.DistributedDict("/raw", serializer=None) as raw:
            await d.set("x", {1, 2})
            self.assertEqual(d["x"], {1, 2})
            await raw.set("x", b"\xff")
            self.assertEqual(raw["x"], b"\xff")
            with self.assertRaises(TypeError):
                await raw.set("x", "text")

    async def test_wrong_use(self) -> None:
        zk: Any = self.zk
        for wrong, error in (("/", ValueError), ("/parkazoo/x", BadArgumentsError), (7, TypeError)):
            with self.assertRaises(error):
                zk.DistributedDict(wrong)
        for options in ({"serializer": 7}, {"ephemeral": 1}, {"refresh": "always"}):
            with self.assertRaises(TypeError):
                zk.DistributedDict(PATH, **options)
        for policy in (Always(), Linearizable(), Lock(), Count(2), Time(1)):
            with self.assertRaisesRegex(ValueError, "refresh must be Watch"):
                zk.DistributedDict(PATH, policy)
        for shards in (0, 4097, True):
            with self.assertRaisesRegex(ValueError, "shards must be"):
                zk.DistributedDict(PATH, shards=shards)
        async with zk.DistributedDict(PATH) as d:
            with self.assertRaises(TypeError):
                await d.set(7, 1)
            with self.assertRaises(TypeError):
                await d.set("x", object())
            with self.assertRaises(ValueError):
                await d.set("x", "x" * 1_000_000)
        await self.zk.create("/sharded", b'{"buckets": 3}')
        with self.assertRaisesRegex(ValueError, "shards=3"):
            async with zk.DistributedDict("/sharded"):
                pass
