"""The asyncio client's calls that kazoo does not have."""

from __future__ import annotations

import asyncio
from typing import Any

from kazoo.exceptions import BadArgumentsError, NoAuthError, NoNodeError
from kazoo.security import READ_ACL_UNSAFE

from parkazoo.protocol.newer_requests import CreateTTL
from tests.aio.aio_case import AioCase


class TestOfSession(AioCase):
    async def test_whoami(self) -> None:
        zk = await self.started()
        self.assertEqual(await zk.whoami(), [])

    async def test_ephemerals(self) -> None:
        zk = await self.started()
        names = [str(number) for number in range(8)]
        for name in names:
            await zk.create(f"/{name}")
            await zk.create(f"/{name}/e", ephemeral=True)
            await zk.create(f"/{name}/stays")
        self.assertEqual(await zk.get_ephemerals(), [f"/{name}/e" for name in names])
        self.assertEqual(await zk.get_ephemerals("/3"), ["/3/e"])
        below = await self.started("/3")
        self.assertEqual(await below.get_ephemerals(), [])
        await below.create("/mine", ephemeral=True)
        self.assertEqual(await below.get_ephemerals(), ["/mine"])
        self.assertEqual(await below.get_ephemerals("/mine"), ["/mine"])

    async def test_wrong_arguments(self) -> None:
        calls: Any = await self.started()
        with self.assertRaises(TypeError):
            calls.get_ephemerals_async(None)


class TestCount(AioCase):
    async def test_all_below(self) -> None:
        zk = await self.started()
        for number in range(5):
            await zk.create(f"/d/{number}/x", makepath=True)
        self.assertEqual(await zk.count_all_children("/d"), 10)
        self.assertEqual(await zk.count_all_children("/d/0/x"), 0)
        self.assertEqual(await zk.count_all_children("/"), 11)
        self.assertEqual(await (await self.started("/d")).count_all_children("/"), 10)
        with self.assertRaises(NoNodeError):
            await zk.count_all_children("/none")

    async def test_deleted_meanwhile(self) -> None:
        zk = await self.started()
        await zk.create("/d/x", makepath=True)
        await zk.create("/d/y")
        listed = zk.get_children_async

        def get_children_async(path: str) -> Any:
            if path == "/d/x":
                zk.delete_async(path)
            return listed(path)

        zk.get_children_async = get_children_async  # type: ignore[method-assign, assignment]
        self.assertEqual(await zk.count_all_children("/d"), 1)

    async def test_a_refusal(self) -> None:
        zk = await self.started()
        await zk.create("/d/x", makepath=True)
        listed = zk.get_children_async

        def get_children_async(path: str) -> Any:
            if path != "/d/x":
                return listed(path)
            refused = zk._new_future()
            refused.set_exception(NoAuthError())
            return refused

        zk.get_children_async = get_children_async  # type: ignore[method-assign, assignment]
        with self.assertRaises(NoAuthError):
            await zk.count_all_children("/d")


class TestEnding(AioCase):
    async def test_with_a_ttl(self) -> None:
        zk = await self.started("/app", default_acl=READ_ACL_UNSAFE)
        self.assertEqual(await zk.create_ttl("/d/x", b"1", ttl=60, makepath=True), "/d/x")
        self.assertEqual(await zk.create_ttl_async("/d/s-", ttl=0.5, sequence=True), "/d/s-0000000001")
        ttls = {each.ttl_ms for each in self.cluster.requests if isinstance(each, CreateTTL)}
        self.assertEqual(ttls, {60_000, 500})
        self.assertEqual((await zk.get_acls("/d/x"))[0], READ_ACL_UNSAFE)

    async def test_containers(self) -> None:
        zk = await self.started()
        asked = [f"/{number}" for number in range(12)]
        answers = await asyncio.gather(*map(zk.create_container, asked), return_exceptions=True)
        made = [each for each in answers if isinstance(each, str)]
        self.assertEqual({type(each) for each in answers}, {str, BadArgumentsError})
        self.assertEqual(sorted(await zk.get_children("/")), sorted(path[1:] for path in made))
        with self.assertRaises(BadArgumentsError):
            await zk.create_container_async("/parkazoo", makepath=True)

    async def test_wrong_arguments_of_creates(self) -> None:
        calls: Any = await self.started()
        for error, call in (
            (TypeError, lambda: calls.create_ttl("/a")),
            (TypeError, lambda: calls.create_ttl_async("/a", ttl="1")),
            (TypeError, lambda: calls.create_ttl_async("/a", ttl=True)),
            (ValueError, lambda: calls.create_ttl_async("/a", ttl=0)),
            (ValueError, lambda: calls.create_ttl_async("/a", ttl=float("nan"))),
            (ValueError, lambda: calls.create_ttl_async("/a", ttl=1 << 40)),
            (ValueError, lambda: calls.create_container_async("/a/../b")),
        ):
            with self.assertRaises(error):
                call()
        with self.assertRaises(BadArgumentsError):
            await calls.create_ttl("/parkazoo/x", ttl=1)
        with self.assertRaises(BadArgumentsError):
            await calls.create_container("/parkazoo/x")
