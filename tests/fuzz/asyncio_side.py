"""The asyncio client as a thread uses it: with kazoo's calls, on a loop in a thread of its own."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any
from unittest import mock

from kazoo.exceptions import ConnectionClosedError
from kazoo.protocol.states import Callback
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.aio import ParKazooClient
from parkazoo.aio.future_reply import FutureReply
from parkazoo.aio.recipe.async_semaphore import AsyncSemaphore
from parkazoo.kazoo_private import Create, GetData
from parkazoo.protocol.client_id import SessionId
from parkazoo.protocol.placement import ENSEMBLE
from parkazoo.wire.member import Member

EPHEMERAL = 1
PAUSE_S = 0.01
TURNS = 20  # of the loop, in which a task has taken what came
LOOKS = ("contenders", "get")
RECIPES = ("Lock", "ReadLock", "WriteLock", "Semaphore", "Queue", "Counter", "Election", "Party", "ShallowParty")


class AsyncioClient:
    """Each call waits for its coroutine; a future has kazoo's ``get(timeout)``.

    What nobody has caught on the loop is an error of :meth:`stop`.
    """

    timeout_exception = TimeoutError

    def __init__(self, hosts: str, **options: Any) -> None:
        self._client = ParKazooClient(hosts, **options)
        self._loop = asyncio.new_event_loop()
        self._mistakes: list[Mapping[str, Any]] = []
        self._watching: set[asyncio.Task[None]] = set()
        self._loop.set_exception_handler(lambda loop, context: self._mistakes.append(context))
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def on_loop(self, call: Callable[[], Any]) -> Any:
        async def make() -> Any:
            return call()

        return self.wait(make())

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if name == "LockingQueue":
            return lambda path: LockingQueue(self, found(path))
        if name in RECIPES:
            return lambda *args, **options: Recipe(self, found(*args, **options))
        if name.endswith("_async"):
            return partial(self._issue, found)
        if inspect.iscoroutinefunction(found):
            return lambda *args, **options: self.wait(found(*args, **options))
        return found

    def _issue(self, call: Callable[..., asyncio.Future[Any]], *args: Any, **options: Any) -> Issued:
        return Issued(self.on_loop(lambda: _followed(call(*args, **options))))

    def transaction(self) -> Transaction:
        return Transaction(self, self._client.transaction())

    def retry(self, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return call(*args, **options)

    # ---- its life --------------------------------------------------------------------------------

    def restart(self) -> None:
        self.stop()
        self.wait(self._client.start())

    def stop(self) -> None:
        self.wait(self._client.stop())
        if self._mistakes:
            raise AssertionError(str(self._mistakes))

    def close(self) -> None:
        async def end() -> None:
            for task in self._watching.copy():
                task.cancel()
            await asyncio.gather(*self._watching, return_exceptions=True)

        self.wait(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def join(self, timeout: float) -> None:
        self.wait(asyncio.wait_for(self._join(), timeout))

    async def _join(self) -> None:
        session = self._client._session
        assert session is not None
        answers: list[asyncio.Future[Any]] = [self._loop.create_future() for _ in session.roster.ports]
        for port, answer in zip(session.roster.ports, answers, strict=True):
            port.submit(GetData(ENSEMBLE, None), FutureReply(answer))
        await asyncio.gather(*answers)

    @property
    def members(self) -> Mapping[str, AsyncioMember]:
        assert self._client._session is not None
        return {each.name: AsyncioMember(self, each) for each in self._client._session.roster.members}

    # ---- watchers --------------------------------------------------------------------------------

    def TreeCache(self, path: str) -> TreeCache:
        return TreeCache(self, self._client.TreeCache(path))

    def DataWatch(self, path: str, func: Callable[..., object]) -> None:
        async def watch() -> None:
            async with self._client.watch_data(path) as states:
                async for state in states:
                    func(*(state or (None, None)))

        self._watch(watch)

    def ChildrenWatch(self, path: str, func: Callable[..., object]) -> None:
        """It ends with the znode."""

        async def watch() -> None:
            async with self._client.watch_children(path) as states:
                async for names in states:
                    if names is None:
                        return
                    func(names)

        self._watch(watch)

    def _watch(self, watch: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """As kazoo's, which go on when the client is started again. The first state is there when it returns."""

        async def go_on() -> None:
            while True:
                with suppress(ConnectionClosedError):
                    return await watch()
                while not self._client.connected:
                    await asyncio.sleep(PAUSE_S)

        def begin() -> None:
            task = self._loop.create_task(go_on())
            self._watching.add(task)
            task.add_done_callback(self._watching.discard)

        self.on_loop(begin)

    # ---- what kazoo's handler is asked -----------------------------------------------------------

    @property
    def handler(self) -> AsyncioClient:
        return self

    def settle(self) -> None:
        """Have tasks take what came."""

        async def turn() -> None:
            for _ in range(TURNS):
                await asyncio.sleep(0)

        self.wait(turn())

    def dispatch_callback(self, callback: Callback) -> None:
        self._loop.call_soon_threadsafe(callback.func, *callback.args)


class Issued:
    """The answer to a call that was issued."""

    def __init__(self, answer: Future[Any]) -> None:
        self._answer = answer

    def get(self, timeout: float | None = None) -> Any:
        return self._answer.result(timeout)


class Transaction:
    """A transaction that is committed from a thread."""

    def __init__(self, client: AsyncioClient, transaction: Any) -> None:
        self._client = client
        self._transaction = transaction

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transaction, name)

    def commit(self) -> Any:
        return self._client.wait(self._transaction.commit())

    def commit_async(self) -> Issued:
        return self._client._issue(self._transaction.commit_async)


class Recipe:
    """A recipe that is used from a thread, as kazoo's is.

    Kazoo's make their folder to look into it, and set a Semaphore's; who holds a lease acquires it once more.
    """

    def __init__(self, client: AsyncioClient, recipe: Any) -> None:
        self._client = client
        self._recipe = recipe

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._recipe, name)
        if name in LOOKS:
            return lambda: self._look(found)
        if inspect.iscoroutinefunction(found):
            return lambda *args, **options: self._client.wait(found(*args, **options))
        return found

    def acquire(self, blocking: bool) -> bool:
        if isinstance(self._recipe, AsyncSemaphore):
            if self._recipe.is_acquired:
                return True
            if self._client.ensure_path(self._recipe.path) is not True:
                self._client.set(self._recipe.path, str(self._recipe.max_leases).encode())
            self._client.get(self._recipe.path)[0].decode()  # kazoo's fails without data
        return bool(self._client.wait(self._recipe.acquire(blocking)))

    def _look(self, found: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        self._client.ensure_path(getattr(self._recipe, "lock", self._recipe).path)
        return self._client.wait(found())

    def run(self, func: Callable[..., object], *args: Any) -> None:
        async def lead(*args: Any) -> None:
            func(*args)

        self._client.wait(self._recipe.run(lead, *args))

    @property
    def value(self) -> Any:
        return self._client.wait(self._recipe.value())

    def __iadd__(self, value: int) -> Recipe:
        self._client.wait(self._recipe.add(value))
        return self

    def __isub__(self, value: int) -> Recipe:
        self._client.wait(self._recipe.add(-value))
        return self

    def __len__(self) -> int:
        return int(self._look(self._recipe.qsize if hasattr(self._recipe, "qsize") else self._recipe.size))

    def __iter__(self) -> Iterator[str]:
        return iter(self._look(self._recipe.members))


class LockingQueue(Recipe):
    """Kazoo's get has a time limit; with 0 it looks once."""

    def get(self, timeout: float) -> bytes | None:
        assert timeout == 0
        found: bytes | None = self._client.wait(self._get())
        return found

    async def _get(self) -> bytes | None:
        nothing, first_free = asyncio.Event(), self._recipe._first_free

        async def look(*about: Any) -> Any:
            entry = await first_free(*about)
            if entry is None:
                nothing.set()
            return entry

        with mock.patch.object(self._recipe, "_first_free", look):
            tasks = [asyncio.create_task(self._recipe.get()), asyncio.create_task(nothing.wait())]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        return None if tasks[0].cancelled() else tasks[0].result()


class TreeCache:
    """A TreeCache that is used from a thread."""

    def __init__(self, client: AsyncioClient, cache: Any) -> None:
        self._client = client
        self._cache = cache

    def start(self) -> None:
        self._client.wait(self._cache.start())

    def close(self) -> None:
        self._client.wait(self._cache.close())

    def get_data(self, path: str) -> Any:
        return self._client.on_loop(partial(self._cache.get_data, path))

    def get_children(self, path: str, default: Any) -> Any:
        return self._client.on_loop(partial(self._cache.get_children, path, default))


class AsyncioMember:
    """One ensemble's session."""

    def __init__(self, client: AsyncioClient, member: Member) -> None:
        self._client = client
        self._member = member

    @property
    def client_id(self) -> SessionId:
        return self._member.session_id, self._member.session_password

    def _call(self, request: Any, reply: None) -> None:
        self._client.on_loop(partial(self._member.submit, request, reply))

    def create(self, path: str, ephemeral: bool) -> None:
        async def create() -> None:
            made: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            self._member.submit(Create(path, b"", OPEN_ACL_UNSAFE, EPHEMERAL * ephemeral), FutureReply(made))
            await made

        self._client.wait(create())


def _followed(future: asyncio.Future[Any]) -> Future[Any]:
    """The same, for threads."""
    followed: Future[Any] = Future()

    def follow(done: asyncio.Future[Any]) -> None:
        error = done.exception()
        if error is None:
            followed.set_result(done.result())
        else:
            followed.set_exception(error)

    future.add_done_callback(follow)
    return followed
