"""The asyncio client's calls that kazoo does not have."""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import NoAuthError, NoNodeError

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
