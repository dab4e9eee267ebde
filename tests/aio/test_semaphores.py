"""Semaphores and elections of the asyncio client."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import Any

from kazoo.exceptions import NotEmptyError

from tests.aio.aio_case import AioCase, until
from tests.aio.strikes import StrikeCase

if sys.version_info >= (3, 11):
    from parkazoo.aio import LockLostError

ROOT = "/leases"
FOLDER = f"{ROOT}/a"
RIVAL = f"{FOLDER}/rival"
GUARD = f"{FOLDER}-__lock__/00__lock__0000000000"


class TestStruck(StrikeCase):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        async with self.zk.Semaphore(FOLDER):  # its folders stay
            self.folders = [FOLDER, f"{FOLDER}-__lock__"]

    def below(self, path: str) -> list[str]:
        return [each for each in super().below(path) if each not in getattr(self, "folders", ())]

    async def strike(self, rival: str = "") -> None:
        def begin() -> Any:
            if rival:
                self.put(rival)
            return self.use()

        def go_on() -> None:
            if rival:
                self.drop(rival)

        await self.strike_each(begin, go_on, root=ROOT, may_raise=(LockLostError,))

    async def use(self) -> None:
        async with self.zk.Semaphore(FOLDER):
            await asyncio.sleep(0)

    async def test_free(self) -> None:
        await self.strike()

    async def test_no_lease(self) -> None:
        await self.strike(RIVAL)

    async def test_the_guard_is_held(self) -> None:
        await self.strike(GUARD)


class TestSemaphore(AioCase):
    async def test_leases(self) -> None:
        zk, other = await self.started(), await self.started()
        first, second = (each.Semaphore(FOLDER, name, 2) for each, name in ((zk, "me"), (other, "you")))
        self.assertEqual(await first.lease_holders(), [])
        self.assertIs(await first.acquire(), True)
        self.assertIs(await second.acquire(), True)
        self.assertEqual((await zk.get(FOLDER))[0], b"2")
        self.assertEqual(sorted(await first.lease_holders()), ["me", "you"])
        third = zk.Semaphore(FOLDER, max_leases=2)
        self.assertIs(await third.acquire(blocking=False), False)
        task = asyncio.create_task(third.acquire())
        await until(
            lambda: zk._session and any(member.child_watches() for member in zk._session.roster.members),
            "it waits",
        )
        fourth = other.Semaphore(FOLDER, max_leases=2)
        self.assertIs(await fourth.acquire(blocking=False), False)
        self.assertIs(await second.release(), True)
        self.assertIs(await task, True)
        self.assertEqual((first.is_acquired, second.is_acquired, third.is_acquired), (True, False, True))
        self.assertIs(await first.release(), True)
        self.assertIs(await first.release(), False)

    async def test_another_number(self) -> None:
        zk = await self.started()
        async with zk.Semaphore(FOLDER, max_leases=3):
            pass
        with self.assertRaisesRegex(ValueError, "/leases/a has 3 leases, not max_leases=2"):
            await zk.Semaphore(FOLDER, max_leases=2).acquire()
        await zk.set(FOLDER, b"of another program")
        async with zk.Semaphore(FOLDER, max_leases=2):
            pass
        calls: Any = zk
        with self.assertRaises(TypeError):
            calls.Semaphore(FOLDER, max_leases="2")

    async def test_its_folder_is_swept(self) -> None:
        zk, other = await self.started(), await self.started()
        semaphore = zk.Semaphore(FOLDER)
        await semaphore.acquire()
        await other.delete(FOLDER, recursive=True)
        self.assertIs(await semaphore.release(), False)
        async with other.Semaphore(FOLDER):
            task = asyncio.create_task(semaphore.acquire())
            await until(
                lambda: zk._session and any(member.child_watches() for member in zk._session.roster.members),
                "it waits",
            )
            with suppress(NotEmptyError):  # the next znode is there already
                await other.delete(FOLDER, recursive=True)
            await task

    async def test_a_lost_session_cancels_the_body(self) -> None:
        zk = await self.started()
        with self.assertRaisesRegex(LockLostError, FOLDER):
            async with zk.Semaphore(FOLDER):
                assert zk._session is not None
                zk._session.expire("a test wants it")
                await asyncio.sleep(60)


class TestElection(AioCase):
    async def test_one_leader(self) -> None:
        zk, other = await self.started(), await self.started()
        led: list[str] = []

        async def lead(name: str, until: asyncio.Event) -> str:
            led.append(name)
            await until.wait()
            return name

        end = asyncio.Event()
        first = asyncio.create_task(zk.Election("/leader", "me").run(lead, "me", until=end))
        await until(lambda: led, "it leads")
        candidate = other.Election("/leader", "you")
        second = asyncio.create_task(candidate.run(lead, "you", end))
        while len(await candidate.contenders()) < 2:
            await asyncio.sleep(0)
        self.assertEqual(await candidate.contenders(), ["me", "you"])
        self.assertEqual(led, ["me"])
        first.cancel()
        await until(lambda: len(led) == 2, "the other leads")
        end.set()
        self.assertEqual(await second, "you")
        self.assertEqual(await candidate.contenders(), [])

    async def test_not_callable(self) -> None:
        calls: Any = (await self.started()).Election("/leader")
        with self.assertRaisesRegex(ValueError, "not callable"):
            await calls.run("lead")
