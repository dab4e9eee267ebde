"""Strikes at each await of a recipe's coroutine, and looks what is left."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any
from unittest import mock

from kazoo.exceptions import ConnectionClosedError
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.kazoo_private import Create, Delete
from parkazoo.wire import rounds
from tests.aio.aio_case import AioCase, until
from tests.explore.alone import must

SOON_S = 0.005  # by then an answer has come
Work = Coroutine[Any, Any, Any]


class Strike:
    """What happens at one suspension.

    :param name: `cancel`, `lost` (before the effect), `swallowed` (the answer, behind the effect; `and ended`: the
        session is, too), `expired`, `stopped` (and started again); with `behind`, when the answer has come, before
        the coroutine wakes; with `and cancel`, that too.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_behind = "behind" in name
        self.cancels = "cancel" in name
        self.may_raise = (ConnectionClosedError,) * ("stopped" in name)

    def __call__(self, case: StrikeCase, task: asyncio.Task[Any]) -> None:
        cluster, loop = case.cluster, asyncio.get_running_loop()
        if "lost" in self.name:
            cluster.cut(0)
        if "expired" in self.name:
            cluster.expire(0)
        if "stopped" in self.name:
            case.restarting = asyncio.create_task(case.restart())
        if "swallowed" in self.name:
            cluster.mute = {0}

            def cut() -> None:
                cluster.mute = set()
                (cluster.expire if "ended" in self.name else cluster.cut)(0)

            loop.call_later(SOON_S, cut)
        if self.name.startswith("cancel"):
            task.cancel()
        elif self.cancels:
            loop.call_later(2 * SOON_S, task.cancel)


STRIKES = tuple(
    Strike(name)
    for name in (
        "cancel",
        "cancel behind",
        "lost",
        "lost and cancel",
        "swallowed",
        "swallowed and cancel",
        "expired",
        "expired behind",
        "expired and cancel",
        "stopped",
        "stopped and cancel",
    )
)
ENDED = Strike("swallowed and ended"), Strike("swallowed and ended and cancel")


@types.coroutine
def struck(
    work: Work, at: int, strike: Callable[[], None], is_behind: bool, seen: list[int]
) -> Generator[Any, Any, Any]:
    """Run a coroutine; strike at its suspension of that number, from 0. `seen` counts them."""
    steps = work.__await__()
    error: BaseException | None = None
    try:
        while True:
            waited = steps.send(None) if error is None else steps.throw(error)
            error = None
            if len(seen) == at:
                if is_behind and waited is not None:
                    is_blocking = waited._asyncio_future_blocking  # a callback must not come before the task's own
                    waited.add_done_callback(lambda _: strike())
                    waited._asyncio_future_blocking = is_blocking
                else:
                    asyncio.get_running_loop().call_soon(strike)
            seen.append(at)
            try:
                yield waited
            except BaseException as thrown:
                error = thrown
    except StopIteration as stop:
        return stop.value


class StrikeCase(AioCase):
    """Has one ensemble, whose client is struck; the rest of the world is in the model."""

    ensembles = 1
    restarting: asyncio.Task[None] | None = None

    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        short = mock.patch.object(rounds, "MOST_DELAY_S", SOON_S)  # or most of the time were pauses
        short.start()
        self.addCleanup(short.stop)
        self.zk = await self.started(timeout=4)

    async def restart(self) -> None:
        await self.zk.stop()
        await self.zk.start()

    def put(self, path: str, data: bytes = b"") -> None:
        """Another program makes a znode."""
        must(self.cluster.model.execute(0, Create(path, data, OPEN_ACL_UNSAFE, 0)))

    def drop(self, path: str) -> None:
        """Another program deletes a znode."""
        must(self.cluster.model.execute(0, Delete(path, -1)))

    def below(self, path: str) -> list[str]:
        return sorted(each for each in self.cluster.model.nodes[0] if each.startswith(path + "/"))

    def left(self) -> list[str]:
        """What the client holds that it should not."""
        if self.restarting is not None and not self.restarting.done():
            return ["a client that is started again"]
        session = self.zk._session
        assert session is not None and session.driver is not None and session.watching is not None
        left: list[str] = []
        for member in session.roster.members:
            left += [f"watch on {path}" for path, _ in (*member.data_watches(), *member.child_watches())]
            left += ["requests"] * member.has_unanswered
        left += ["operations"] * (not session.driver.is_idle)
        left += ["directory watches"] * bool(len(session.watching))
        left += [f"cleanup {each}" for each in self.zk._cleanups]
        left += ["who waits for a change"] * bool(self.zk._changes)
        left += [f"holder {each}" for each in self.zk.losses]
        tasks = [each for each in asyncio.all_tasks() if "Ensembles" not in repr(each)]
        return left + [f"task {each}" for each in tasks if each is not asyncio.current_task()]

    async def strike_each(
        self,
        begin: Callable[[], Work],
        help_on: Callable[[], None] = lambda: None,
        *,
        root: str,
        may_raise: tuple[type[BaseException], ...] = (),
        strikes: tuple[Strike, ...] = STRIKES,
        then: Callable[[], Work] | None = None,
    ) -> None:
        """Strike at each suspension, until there is none.

        :param begin: has the world as it is to be, and returns the coroutine.
        :param help_on: has the rest of the world go on, so that the coroutine can end.
        :param may_raise: what an expired session may raise. :param then: what is done when it has ended.
        """
        for strike in strikes:
            at = 0
            while True:
                with self.subTest(strike=strike.name, at=at):
                    seen: list[int] = []
                    task: asyncio.Task[Any]
                    work = begin()

                    async def run(work: Work = work, at: int = at, strike: Strike = strike) -> Any:
                        return await struck(work, at, lambda: strike(self, task), strike.is_behind, seen)  # noqa: B023

                    task = asyncio.create_task(run())
                    await asyncio.wait([task], timeout=4 * SOON_S)
                    if task.done() and then is None:  # nothing waits for the rest of the world
                        await until(lambda: not self.left(), f"{strike.name} at {at}: nothing is left")
                    help_on()
                    await until(task.done, f"{strike.name} at {at}: its end")
                    if task.cancelled():
                        self.assertTrue(strike.cancels)
                    elif task.exception() is not None and not isinstance(
                        task.exception(), strike.may_raise + may_raise
                    ):
                        raise AssertionError(f"{strike.name} at {at}") from task.exception()
                    if then is not None:
                        if self.restarting is not None:
                            await self.restarting
                        await then()
                    await until(lambda: not self.left(), f"{strike.name} at {at}: nothing is left")
                    self.assertEqual(self.below(root), [], f"{strike.name} at {at}")
                if len(seen) <= at:
                    break
                at += 1
            self.assertGreater(at, 0)
