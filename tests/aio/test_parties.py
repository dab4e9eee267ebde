"""Parties and leases of the asyncio client."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta
from typing import Any

from tests.aio.aio_case import AioCase
from tests.aio.strikes import StrikeCase

PARTY = "/party"
LEASE = "/leases/a"
HOLDER = f"{LEASE}/lease_holder"
HOUR = timedelta(hours=1)


class TestStruck(StrikeCase):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        await self.zk.ensure_path(PARTY)
        await self.zk.ensure_path(LEASE)

    def below(self, path: str) -> list[str]:
        return [each for each in super().below(path) if each != HOLDER]

    async def test_party(self) -> None:
        async def use() -> None:
            async with self.zk.Party(PARTY) as party:
                await party.members()

        await self.strike_each(use, root=PARTY)

    async def test_lease(self) -> None:
        """It may be held or not; its lock is not."""

        async def use() -> None:
            self.assertTrue(await self.zk.NonBlockingLease(LEASE, HOUR, "me").obtain())

        await self.strike_each(use, root=LEASE)


class TestParty(AioCase):
    async def test_members(self) -> None:
        zk, other = await self.started(), await self.started()
        for kind in ("Party", "ShallowParty"):
            first, second = getattr(zk, kind)(f"/{kind}", "me"), getattr(other, kind)(f"/{kind}", "you-too")
            self.assertEqual((await first.members(), await first.size()), ([], 0))
            await asyncio.gather(first.join(), first.join())
            async with second:
                self.assertEqual(sorted(await first.members()), ["me", "you-too"])
                self.assertEqual((await second.size(), second.participating), (2, True))
            self.assertEqual((await first.members(), second.participating), (["me"], False))
            self.assertIs(await second.leave(), False)
            self.assertIs(await first.leave(), True)

    async def test_other_znodes_in_the_folder(self) -> None:
        """Kazoo's ShallowParty takes them for members."""
        zk = await self.started()
        for kind, members in (("Party", []), ("ShallowParty", ["deep", "b"])):
            await zk.create(f"/{kind}/deep", makepath=True)
            await zk.create(f"/{kind}/a-b")
            party = getattr(zk, kind)(f"/{kind}")
            self.assertCountEqual(await party.members(), members)
            self.assertEqual(await party.size(), len(members))

    async def test_an_identifier_with_a_slash(self) -> None:
        """It would make folders, which nobody deletes."""
        zk = self.client()
        for make in (zk.ShallowParty, lambda path, who: zk.SetPartitioner(path, [1], identifier=who)):
            with self.assertRaisesRegex(ValueError, "has no slash: 'a/b'"):
                make(PARTY, "a/b")
        zk.Party(PARTY, "a/b")

    async def test_a_lost_session(self) -> None:
        zk = await self.started()
        party = zk.Party(PARTY)
        await party.join()
        assert zk._session is not None
        zk._session.expire("a test wants it")
        await zk.exists("/")
        self.assertFalse(party.participating)
        await party.join()
        self.assertEqual((party.participating, await party.size()), (True, 1))
        await zk.delete(PARTY, recursive=True)
        self.assertIs(await party.leave(), False)

    async def test_it_leaves_while_it_joins(self) -> None:
        zk = await self.started()
        party = zk.Party(PARTY)
        joining = asyncio.create_task(party.join())
        await asyncio.sleep(0)
        self.assertIs(await party.leave(), True)
        await joining
        self.assertEqual((party.participating, await party.size()), (False, 0))

    async def test_it_leaves_and_joins_at_once(self) -> None:
        zk = await self.started()
        party = zk.Party(PARTY)
        await party.join()
        await asyncio.gather(party.leave(), party.join())
        self.assertEqual((party.participating, await party.size()), (True, 1))

    async def test_a_client_that_stops(self) -> None:
        zk = await self.started()
        party = zk.Party(PARTY)
        await party.join()
        await zk.stop()
        self.assertFalse(party.participating)


class TestLease(AioCase):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.zk = await self.started()
        self.now = datetime(2026, 1, 1)

    def lease(self, holder: str) -> Any:
        return self.zk.NonBlockingLease(LEASE, HOUR, holder, lambda: self.now)

    async def test_until_its_end(self) -> None:
        mine = self.lease("me")
        self.assertFalse(mine.obtained)
        self.assertIs(await mine.obtain(), True)
        data = json.loads((await self.zk.get(HOLDER))[0])
        self.assertEqual(data, {"version": 1, "holder": "me", "end": "2026-01-01T01:00:00"})
        self.assertIs(await self.lease("you").obtain(), False)
        self.now += HOUR / 2
        self.assertIs(await self.lease("me").obtain(), True)
        self.now += HOUR
        self.assertIs(await self.lease("you").obtain(), True)
        self.assertIs(await mine.obtain(), False)
        self.assertFalse(mine.obtained)
        await self.zk.set(HOLDER, b'{"version": 2}')
        self.assertIs(await self.lease("you").obtain(), False)

    async def test_several(self) -> None:
        obtained = []
        for holder in ("me", "you", "they"):
            lease = self.zk.MultiNonBlockingLease(2, LEASE, HOUR, holder)
            obtained.append((await lease.obtain(), lease.obtained))
        self.assertEqual(obtained, [(True, True), (True, True), (False, False)])

    async def test_wrong_arguments(self) -> None:
        calls: Any = self.zk
        with self.assertRaises(TypeError):
            calls.NonBlockingLease(LEASE, 60)
