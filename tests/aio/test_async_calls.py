"""The calls of the asyncio client, and what they answer."""

from __future__ import annotations

import asyncio
from typing import Any

from kazoo.exceptions import (
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from parkazoo.errors import CrossEnsembleError
from tests.aio.aio_case import AioCase, until


class TestCalls(AioCase):
    async def test_reads_and_writes(self) -> None:
        zk = await self.started()
        self.assertEqual(await zk.create("/a", b"1"), "/a")
        self.assertEqual((await zk.get("/a"))[0], b"1")
        self.assertEqual((await zk.set("/a", b"2", 0)).version, 1)
        with self.assertRaises(BadVersionError):
            await zk.set("/a", b"3", 0)
        stat = await zk.exists("/a")
        assert stat is not None
        self.assertEqual(stat.version, 1)
        self.assertIsNone(await zk.exists("/none"))
        path, stat = await zk.create("/a/s-", sequence=True, include_data=True)
        self.assertEqual((path, stat.version), ("/a/s-0000000000", 0))
        self.assertEqual(await zk.get_children("/a"), ["s-0000000000"])
        names, stat = await zk.get_children("/a", include_data=True)
        self.assertEqual((names, stat.version), (["s-0000000000"], 1))
        with self.assertRaises(NotEmptyError):
            await zk.delete("/a")
        self.assertIs(await zk.delete(path), True)
        self.assertIs(await zk.delete("/a", 1), True)
        with self.assertRaises(NoNodeError):
            await zk.get("/a")

    async def test_acls(self) -> None:
        zk = await self.started(default_acl=READ_ACL_UNSAFE)
        await zk.create("/a")
        self.assertEqual((await zk.get_acls("/a"))[0], READ_ACL_UNSAFE)
        self.assertEqual((await zk.set_acls("/a", OPEN_ACL_UNSAFE, 0)).aversion, 1)
        self.assertEqual((await zk.get_acls("/a"))[0], OPEN_ACL_UNSAFE)
        await zk.create("/b", acl=OPEN_ACL_UNSAFE)
        self.assertEqual((await zk.get_acls("/b"))[0], OPEN_ACL_UNSAFE)
        await zk.create("/c", acl=[])  # to kazoo's create as none at all
        self.assertEqual((await zk.get_acls("/c"))[0], READ_ACL_UNSAFE)

    async def test_credentials(self) -> None:
        zk = await self.started()
        self.assertIs(await zk.add_auth("digest", "user:password"), True)
        self.assertEqual(zk.auth_data, {("digest", "user:password")})
        self.assertEqual((await zk.get("/"))[0], b"")

    async def test_sync(self) -> None:
        """It answers with the path that it was asked for."""
        for chroot in ("", "/a", "/parkazoo/mirrors"):
            zk = await self.started(chroot)
            for path in ("/", "/x", "/parkazoo/mirrors/%2Fa/x"):
                self.assertEqual(await zk.sync(path), path)

    async def test_missing_levels(self) -> None:
        zk = await self.started()
        with self.assertRaises(NoNodeError):
            await zk.create("/a/b/c")
        self.assertEqual(await zk.create("/a/b/c", makepath=True), "/a/b/c")
        self.assertEqual(await zk.ensure_path("/x/y"), "/x/y")
        self.assertIs(await zk.ensure_path("/x/y"), True)
        with self.assertRaises(NodeExistsError):
            await zk.create("/x/y", makepath=True)

    async def test_in_the_order_of_issue(self) -> None:
        """Nobody awaits the set before the get."""
        zk = await self.started()
        await zk.create("/a", b"1")
        first, second = zk.set_async("/a", b"2"), zk.get_async("/a")
        self.assertEqual((await second)[0], b"2")
        self.assertTrue(first.done())

    async def test_a_coroutine_is_issued_when_it_is_awaited(self) -> None:
        zk = await self.started()
        get = zk.get("/")
        self.cluster.requests.clear()
        await asyncio.sleep(0)
        self.assertEqual(self.cluster.requests, [])
        async with asyncio.TaskGroup() as group:
            task = group.create_task(get)
        self.assertEqual(task.result()[0], b"")

    async def test_many_at_once(self) -> None:
        """More than the socket takes, and more than may be on their way."""
        zk = await self.started()
        await zk.create("/a", b"x" * 300_000)
        values = await asyncio.gather(*(zk.get("/a") for _ in range(40)), *(zk.get("/") for _ in range(3000)))
        self.assertEqual([len(value) for value, _ in values], [300_000] * 40 + [0] * 3000)
        await asyncio.gather(*(zk.set("/a", b"y" * 400_000) for _ in range(30)))
        self.assertEqual((await zk.get("/a"))[1].version, 30)

    async def test_chroot(self) -> None:
        with self.assertWarnsRegex(UserWarning, "No chroot path exists"):
            zk = await self.started("/root")
        self.assertEqual(await zk.create("/a", makepath=True), "/a")
        self.assertEqual(await zk.create("/s-", sequence=True, include_data=False), "/s-0000000001")
        self.assertEqual(await zk.sync("/a"), "/a")
        self.assertEqual(await zk.sync("/"), "/")
        self.assertEqual(await zk.get_children("/"), ["a", "s-0000000001"])

    async def test_wrong_arguments(self) -> None:
        """They are refused by the call itself, and nothing is asked."""
        zk = await self.started()
        self.cluster.requests.clear()
        calls: Any = zk
        for error, call in (
            (TypeError, lambda: calls.get_async(7)),
            (TypeError, lambda: calls.get_async("/a", 7)),
            (TypeError, lambda: calls.set_async("/a", "text")),
            (TypeError, lambda: calls.set_async("/a", b"", "1")),
            (TypeError, lambda: calls.create_async("/a", b"", acl=CREATOR_ALL_ACL[0])),
            (TypeError, lambda: calls.create_async("/a", ephemeral=1)),
            (TypeError, lambda: calls.create_async("/a", makepath=1)),
            (TypeError, lambda: calls.ensure_path_async(None)),
            (TypeError, lambda: calls.get_children_async("/a", None, 1)),
            (TypeError, lambda: calls.set_acls_async("/a", "acl")),
            (TypeError, lambda: calls.delete_async("/a", "1")),
            (TypeError, lambda: calls.add_auth_async("digest", b"u:p")),
            (TypeError, lambda: calls.add_auth_async(None, "u:p")),
            (ValueError, lambda: calls.get_async("/a/../b")),
            (ValueError, lambda: calls.create_async("/a/./b")),
            (ValueError, lambda: calls.transaction().create("/a/./b")),
            (TypeError, lambda: calls.transaction().create("/a", None)),
            (TypeError, lambda: calls.transaction().set_data("/a", None)),
            (TypeError, lambda: calls.transaction().check("/a", None)),
        ):
            with self.assertRaises(error):
                call()
        with self.assertRaises(TypeError):
            await calls.delete("/a", recursive=1)
        self.assertEqual(self.cluster.requests, [])


class TestWatches(AioCase):
    async def test_before_any_later_answer(self) -> None:
        zk = await self.started()
        await zk.create("/a")
        told: list[Any] = []
        await zk.get("/a", told.append)
        await zk.set("/a", b"1")
        self.assertEqual([(each.type, each.path) for each in told], [("CHANGED", "/a")])
        await zk.create("/a/b")
        await zk.get_children("/a", told.append)
        await zk.create("/a/c")
        self.assertEqual([(each.type, each.path) for each in told[1:]], [("CHILD", "/a")])
        await zk.exists("/none", told.append)
        await zk.create("/none")
        self.assertEqual([(each.type, each.path) for each in told[2:]], [("CREATED", "/none")])

    async def test_it_may_call_the_client(self) -> None:
        zk = await self.started()
        await zk.create("/a", b"0")
        read: list[asyncio.Future[Any]] = []
        await zk.get("/a", lambda event: read.append(zk.get_async("/a")))
        await zk.set("/a", b"1")
        self.assertEqual([(await each)[0] for each in read], [b"1"])

    async def test_one_that_raises(self) -> None:
        zk = await self.started()
        told: list[Any] = []

        def wrong(event: Any) -> None:
            raise LookupError

        await asyncio.gather(zk.get("/", wrong), zk.get("/", told.append), zk.get_children("/", told.append))
        with self.assertLogs("parkazoo.aio.asyncio_runtime", "ERROR"):
            await zk.create("/a")
            await zk.set("/", b"")
        self.assertEqual(len(told), 2)

    async def test_a_coroutine_function(self) -> None:
        """Nobody would await it."""
        zk = await self.started()

        async def watch(event: Any) -> None:
            raise AssertionError

        for call in (zk.get_async, zk.exists_async, zk.get_children_async):
            with self.assertRaisesRegex(TypeError, "coroutine"):
                call("/", watch)

    async def test_they_end_with_the_client(self) -> None:
        """At once, not at the next start: that may be on another loop."""
        zk = await self.started()
        told: list[Any] = []
        await zk.get("/", told.append)
        await zk.stop()
        await until(lambda: told, "the event")
        self.assertEqual([(each.type, each.state) for each in told], [("NONE", "CLOSED")])


class TestTransactions(AioCase):
    async def test_committed(self) -> None:
        zk = await self.started()
        await zk.create("/a")
        await zk.create("/a/b", b"1")
        async with zk.transaction() as t:
            t.check("/a/b", 0)
            t.set_data("/a/b", b"2")
            t.create("/a/c", b"3")
            self.assertEqual((t.results, t.committed), ([], False))
        self.assertEqual((t.results[0], t.results[2], t.committed), (True, "/a/c", True))
        self.assertEqual((await zk.get("/a/b"))[0], b"2")
        for call in (t.commit_async, lambda: t.delete("/a/c")):
            with self.assertRaisesRegex(ValueError, "already committed"):
                call()

    async def test_it_fails(self) -> None:
        """The error is of the operation that has failed; then it can be committed again."""
        zk = await self.started()
        await zk.create("/a")
        await zk.create("/a/b")
        t = zk.transaction()
        with self.assertRaises(NoNodeError):
            async with t:
                t.set_data("/a/b", b"2")
                t.delete("/a/c")
        self.assertEqual((len(t.results), t.committed), (2, False))
        await zk.create("/a/c")
        results = await t.commit()
        self.assertEqual((results[1], t.committed), (True, True))

    async def test_while_it_is_being_committed(self) -> None:
        zk = await self.started()
        await zk.create("/a")
        t = zk.transaction()
        t.set_data("/a", b"1")
        commit = t.commit_async()
        with self.assertRaisesRegex(ValueError, "being committed"):
            t.commit_async()
        await commit

    async def test_a_commit_that_is_cancelled(self) -> None:
        """It is being committed as long as it may be done, and has its results then."""
        zk = await self.started()
        await zk.create("/a")
        for once in (False, True):
            t = zk.transaction()
            t.set_data("/a", b"1")
            task = asyncio.create_task(zk.once(t.commit) if once else t.commit())
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            self.assertTrue(task.cancelled())
            for call in (t.commit_async, lambda t=t: t.delete("/a")):
                with self.assertRaisesRegex(ValueError, "being committed"):
                    call()
            await until(lambda t=t: t.committed, "the answer")
            self.assertEqual(len(t.results), 1)
            with self.assertRaisesRegex(ValueError, "already committed"):
                await zk.once(t.commit)
        self.assertEqual((await zk.get("/a"))[1].version, 2)

    async def test_a_commit_that_was_cancelled_before_it_was_sent(self) -> None:
        """It is not done, and may be committed again."""
        zk = await self.started()
        await zk.create("/a")
        self.cluster.away = {0, 1, 2}
        for each in range(3):
            self.cluster.cut(each)
        await until(lambda: not zk.connected, "it is suspended")
        t = zk.transaction()
        t.set_data("/a", b"1")
        t.commit_async().cancel()
        self.cluster.away = set()
        await zk.exists("/a")
        await t.commit()
        self.assertEqual((await zk.get("/a"))[1].version, 1)

    async def test_the_block_raises(self) -> None:
        zk = await self.started()
        with self.assertRaises(LookupError):
            async with zk.transaction() as t:
                t.create("/a")
                raise LookupError
        self.assertIsNone(await zk.exists("/a"))

    async def test_of_several_ensembles(self) -> None:
        zk = await self.started()
        paths = [f"/d{number}/x" for number in range(12)]
        await asyncio.gather(*(zk.create(path, makepath=True) for path in paths))
        with self.assertRaises(CrossEnsembleError):
            async with zk.transaction() as t:
                for path in paths:
                    t.set_data(path, b"1")


class TestTree(AioCase):
    async def test_deleted(self) -> None:
        zk = await self.started()
        await asyncio.gather(*(zk.create(f"/a/{x}/{y}", makepath=True) for x in range(5) for y in range(30)))
        self.assertIsNone(await zk.delete("/a", recursive=True))
        self.assertIsNone(await zk.exists("/a"))
        self.assertIs(await zk.delete("/a", recursive=True), True)

    async def test_cancelled(self) -> None:
        """Nothing more is asked."""
        zk = await self.started()
        await asyncio.gather(*(zk.create(f"/a/{x}/{y}", makepath=True) for x in range(5) for y in range(30)))
        task = asyncio.create_task(zk.delete("/a", recursive=True))
        await asyncio.sleep(0)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        await zk.delete("/a", recursive=True)
        self.assertIsNone(await zk.exists("/a"))
