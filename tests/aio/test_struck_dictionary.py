"""DistributedDict of the asyncio client, struck at each await of its calls: what is left, and what was done."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, SessionExpiredError
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo import OutcomeUnknown
from parkazoo.kazoo_private import Create, Delete, Exists, SetData
from parkazoo.structures.policies import Watch
from tests.aio.aio_case import until
from tests.aio.strikes import ENDED, STRIKES, StrikeCase
from tests.explore.alone import must

PATH = "/settings"
KEY = f"{PATH}/a"
MAY_RAISE = OutcomeUnknown, SessionExpiredError
Write = Callable[[Any], Awaitable[Any]]


class DictCase(StrikeCase):
    """Strikes calls of one dictionary, which stays open all the while."""

    dictionary: Any = None

    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        await self.zk.ensure_path(PATH)

    def znodes(self) -> dict[str, Any]:
        """What the servers have."""
        nodes = self.cluster.model.nodes[0]
        return {each.removeprefix(f"{PATH}/"): json.loads(nodes[each].data) for each in self.below(PATH)}

    def have(self, items: dict[str, Any]) -> None:
        """Another program has them be the only ones, with version 0."""
        for path in self.below(PATH):
            self.drop(path)
        for key, value in items.items():
            self.put(f"{PATH}/{key}", json.dumps(value).encode())

    def left(self) -> list[str]:
        """But for what an open dictionary has: one watch on its directory, and one on each entry."""
        found = Counter(super().left())
        found["a marker"] = sum(not each.is_free for each in self.zk._once._markers._markers)
        if self.dictionary is not None:
            mine = Counter(f"watch on {path}" for path in (PATH, *self.below(PATH)))
            if self.zk.connected and not self.dictionary.is_stale:
                found += Counter(f"no {each}" for each in (mine - found).elements())
                if self.dictionary.copy() != self.znodes():
                    found["another copy"] += 1
            found -= mine
        else:
            found.update(f"listener {each}" for each in (*self.zk._listeners, *self.zk._ends))
        return list(found.elements())

    async def settled(self, what: str) -> None:
        """Waits until nothing is left."""
        try:
            await until(lambda: not self.left(), what)
        except AssertionError as error:
            raise AssertionError(f"{what}: {self.left()}") from error

    async def strike_writes(
        self,
        before: dict[str, Any],
        write: Write,
        *others: dict[str, Any],
        result: Any = None,
        **options: Any,
    ) -> None:
        """Strike a write at each await. It is done or not, and done if it returns; and the copy has it.

        :param others: what there may be afterwards, the first if it was done.
        """
        async with self.zk.DistributedDict(PATH, **options) as self.dictionary:
            await self._strike_writes(before, write, others, result)
        self.dictionary = None
        await self.settled("the closed dictionary has left nothing")

    async def _strike_writes(
        self, before: dict[str, Any], write: Write, others: tuple[dict[str, Any], ...], result: Any
    ) -> None:
        d, done = self.dictionary, []

        def begin() -> Any:
            done.clear()
            self.have(before)
            return use()

        async def use() -> None:
            try:
                while d.is_stale or d.copy() != before:
                    await until(lambda: not d.is_stale and d.copy() == before, "it is as the znodes are")
                self.assertEqual(await write(d), result)
            except BaseException as error:
                done.append(error)
                raise
            self.assertEqual(d.copy(), others[0])
            done.append(None)

        async def then() -> None:
            await self.settled("the write has ended, and the copy has what it did")
            error = done[0] if done else None
            allowed = [before, *others]
            if error is None:
                allowed = list(others[:1])
            elif isinstance(error, (SessionExpiredError, ConnectionClosedError)) and not isinstance(
                error, OutcomeUnknown
            ):
                allowed = [before]
            self.assertIn(self.znodes(), allowed, repr(error))
            nodes = self.cluster.model.nodes[0]
            self.assertLessEqual({nodes[path].stat.version for path in self.below(PATH)}, {0, 1})  # at most once
            self.have({})
            await until(lambda: not self.left() and not d, "it is empty")

        await self.strike_each(begin, root=PATH, may_raise=MAY_RAISE, then=then, strikes=STRIKES + ENDED)


class TestWrites(DictCase):
    async def test_set(self) -> None:
        await self.strike_writes({}, lambda d: d.set("a", 1), {"a": 1})
        await self.strike_writes({"a": 0}, lambda d: d.set("a", 1), {"a": 1})

    async def test_delete_and_pop(self) -> None:
        await self.strike_writes({"a": 0}, lambda d: d.delete("a"), {})
        await self.strike_writes({"a": 0}, lambda d: d.pop("a"), {}, result=0)
        await self.strike_writes({"a": 0}, lambda d: d.popitem(), {}, result=("a", 0))

    async def test_compare_and_set(self) -> None:
        await self.strike_writes({"a": 0}, lambda d: d.compare_and_set("a", 0, 1), {"a": 1}, result=True)
        await self.strike_writes({}, lambda d: d.compare_and_set("a", None, 1), {"a": 1}, result=True)
        await self.strike_writes({"a": 0}, lambda d: d.compare_and_set("a", 5, 1), {"a": 0}, result=False)

    async def test_setdefault(self) -> None:
        await self.strike_writes({}, lambda d: d.setdefault("a", 1), {"a": 1}, result=1)

    async def test_several_at_once(self) -> None:
        """All of them, or none."""
        await self.strike_writes({"a": 0}, lambda d: d.update(a=1, b=2), {"a": 1, "b": 2})
        await self.strike_writes({"a": 0, "b": 0}, lambda d: d.clear(), {})

    async def test_reads(self) -> None:
        await self.strike_writes({"a": 0}, lambda d: d.refresh(), {"a": 0})
        await self.strike_writes({"a": 0}, lambda d: d.snapshot(), {"a": 0}, result={"a": 0})


class TestKept(DictCase):
    async def test_a_copy_that_is_kept(self) -> None:
        """While it waits for a change, each strike is seen through: the copy ends up as the znodes are."""
        number = 0

        async def use() -> None:
            async with self.zk.DistributedDict(PATH) as d:
                changes = d.changes()
                while d.get("a") != number:
                    await anext(changes)
                await until(lambda: d.copy() == {"a": number} and not d.is_stale, "it is as the znodes are")

        def begin() -> Any:
            nonlocal number
            number += 1
            self.put(KEY, b"0")
            return use()

        def help_on() -> None:
            must(self.cluster.model.execute(0, SetData(KEY, b"%d" % number, -1)))

        async def then() -> None:
            self.drop(KEY)

        may_raise = ConnectionLoss, SessionExpiredError
        await self.strike_each(begin, help_on, root=PATH, may_raise=may_raise, then=then)


class TestOpening(DictCase):
    async def strike_opening(self, path: str, items: dict[str, Any], *policy: Any, **options: Any) -> None:
        d = self.zk.DistributedDict(path, *policy, **options)
        self.have(items)

        async def use() -> None:
            async with d:
                self.assertEqual(d.copy(), items)

        async def then() -> None:
            await self.settled("nothing is left")
            async with d:
                self.assertEqual(d.copy(), items)

        await self.strike_each(use, root="/none", may_raise=(SessionExpiredError,), then=then)

    async def test_a_directory(self) -> None:
        await self.strike_opening(PATH, {"a": 1, "b": 2})

    async def test_a_directory_that_is_missing(self) -> None:
        await self.strike_opening("/none", {}, Watch(raises=True))

    async def test_shards(self) -> None:
        async with self.zk.DistributedDict("/sharded", shards=3) as d:
            await d.update(a=1, b=2)
        await self.strike_opening("/sharded", {"a": 1, "b": 2}, shards=3)


class TestRequests(DictCase):
    """Something happens before and after each request that opening, and reading again, take."""

    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.changes: dict[str, Callable[[], object]] = {
            "an entry is made": lambda: self.execute(Create(f"{PATH}/b", b"0", OPEN_ACL_UNSAFE, 0)),
            "an entry is set": lambda: self.execute(SetData(KEY, b"1", -1)),
            "an entry is deleted": lambda: self.execute(Delete(KEY, -1)),
            "the directory is made": self.make,
            "the directory is deleted": self.delete,
            "the directory is made again": lambda: (self.delete(), self.make()),
        }
        self.losses: dict[str, Callable[[], object]] = {
            "a lost connection": lambda: self.cluster.cut(0),
            "a lost session": lambda: self.cluster.expire(0),
        }

    def execute(self, request: Any) -> None:
        self.cluster.model.execute(0, request)  # it may be refused

    def make(self) -> None:
        for path in (PATH, KEY):
            self.execute(Create(path, b"0", OPEN_ACL_UNSAFE, 0))

    def delete(self) -> None:
        for path in (*self.below(PATH), PATH):
            self.execute(Delete(path, -1))

    async def at_each(self, act: Callable[[], object], use: Callable[[], Awaitable[None]], what: str) -> None:
        """Acts before a request is executed; and behind it, a loss before its answer, a change just behind that,
        for it is told then.
        """
        at = 0
        while True:
            left = at

            def strike(session: int, ensemble: int) -> None:
                nonlocal left
                left -= 1
                if left == -1 and at % 2 and what in self.changes:  # noqa: B023
                    asyncio.get_running_loop().call_soon(act)
                elif left == -1:
                    act()

            self.cluster.strike = strike
            with self.subTest(what, at=at):
                try:
                    await use()
                finally:
                    self.cluster.strike = lambda session, ensemble: None
                self.dictionary = None
                await self.settled(f"{what}, {at}: nothing is left")
            if left >= 0:
                break
            at += 1
        self.assertGreater(at, 2)

    async def test_while_it_opens(self) -> None:
        async def use(is_there: bool) -> None:
            self.delete()
            if is_there:
                self.make()
            async with self.zk.DistributedDict(PATH) as self.dictionary:
                await self.settled("the copy is right, and has one watch for each")

        for what, act in {**self.changes, **self.losses}.items():
            for is_there in (True, False):
                await self.at_each(act, partial(use, is_there), what)

    async def test_closed(self) -> None:
        """While it opens, and while it reads again behind a lost connection."""
        task: asyncio.Task[None]

        async def open_and_read_again() -> None:
            async with self.zk.DistributedDict(PATH) as d:
                self.cluster.cut(0)
                await until(lambda: d.is_stale, "it is behind")
                await until(lambda: not d.is_stale, "it has read again")

        async def use() -> None:
            nonlocal task
            self.delete()
            self.make()
            task = asyncio.create_task(open_and_read_again())
            await asyncio.wait([task])

        await self.at_each(lambda: task.cancel(), use, "it is cancelled")  # noqa: PLW0108 - there is another each time


class TestOwnEntries(DictCase):
    """They end with the session that has written them last."""

    async def test_set(self) -> None:
        """While the session lives, its own entry is the same znode, one version on."""
        before: Any = None
        errors: list[BaseException | None] = []

        def begin() -> Any:
            errors.clear()
            return use()

        async def use() -> None:
            nonlocal before
            try:
                async with self.zk.DistributedDict(PATH, ephemeral=True) as d:
                    await d.set("a", 1)
                    before = self.cluster.model.nodes[0].get(KEY)
                    await d.set("a", 2)
            except BaseException as error:
                errors.append(error)
                raise

        async def then() -> None:
            await self.settled("the writes have ended")
            now = self.cluster.model.nodes[0].get(KEY)
            if now is not None:
                self.assertEqual(now.owner, self.zk._session.number)
                self.assertLessEqual(now.stat.version, 1)
                if not errors and before is not None and before.owner == now.owner:
                    self.assertEqual((now.stat.version, now.stat.czxid), (1, before.stat.czxid))
                self.drop(KEY)

        await self.strike_each(begin, root=PATH, may_raise=MAY_RAISE, then=then)

    async def test_written_while_the_client_is_suspended(self) -> None:
        async with self.zk.DistributedDict(PATH, ephemeral=True) as d:
            await d.set("a", 1)
            before = self.cluster.model.nodes[0][KEY].stat
            self.cluster.away = {0}
            self.cluster.cut(0)
            await until(lambda: not self.zk.connected, "it is suspended")
            task = asyncio.create_task(d.set("a", 2))
            await asyncio.sleep(0)
            self.cluster.away = set()
            await task
            now = self.cluster.model.nodes[0][KEY].stat
            self.assertEqual((now.version, now.czxid), (1, before.czxid))


class TestAway(StrikeCase):
    """Who gives up while an ensemble is away leaves nothing for its return."""

    ensembles = 2

    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        place = self.zk._session.driver.context.known  # type: ignore[union-attr]
        path = next(each for each in map("/settings{}".format, range(99)) if not place(each).home.ensemble)
        self.dictionary = self.zk.DistributedDict(path, shards=4)
        async with self.dictionary as d:
            await d.update({str(number): number for number in range(20)})
        self.assertTrue(all(" ".join(nodes).count("-4/") for nodes in self.cluster.model.nodes))

    async def leave(self) -> None:
        """Ensemble b goes; returns when something waits for it."""
        self.cluster.away = {1}
        self.cluster.cut(1)
        (member,) = (each for each in self.zk._session.roster.members if each.name == "b")  # type: ignore[union-attr]
        await until(lambda: not member.is_connected, "its connection is lost")
        self.is_waiting = member.backlog.requests

    async def come_back(self) -> None:
        def tasks() -> list[str]:
            return [each for each in self.left() if each.startswith(("task", "cleanup", "watch", "holder"))]

        await until(lambda: not tasks(), "no task is left")
        self.cluster.requests.clear()
        self.cluster.away = set()
        await until(lambda: self.cluster.is_connected(1) and not self.left(), "nothing is left")
        late = [each for each in self.cluster.requests if "settings" in str(each)]  # a sync() may have begun
        self.assertEqual([each for each in late if not isinstance(each, Exists)], [])  # some exists() had begun

    async def give_up(self, call: Callable[[], Any]) -> None:
        await self.leave()
        task = asyncio.create_task(call())
        await until(self.is_waiting, "it waits")
        task.cancel()
        await asyncio.wait([task])
        await self.come_back()

    async def test_reads(self) -> None:
        for call in (self.dictionary.refresh, self.dictionary.snapshot, self.dictionary.clear):
            with self.subTest(call=call.__name__):
                await self.give_up(call)

    async def test_opening(self) -> None:
        await self.give_up(self.dictionary.__aenter__)

    async def test_closing_while_it_reads_again(self) -> None:
        async with self.dictionary as d:
            await self.leave()
            await until(self.is_waiting, "it reads again")
        self.assertTrue(d.is_stale)
        await self.come_back()
