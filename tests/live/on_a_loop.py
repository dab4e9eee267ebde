"""The asyncio client with the face of the client for threads: tests of that one run with it, unchanged.

Its loop has a thread of its own. Watches, listeners and completion callbacks are called by a handler's threads, as
with the other client, so they may block.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import cache, partial
from typing import Any

from kazoo.exceptions import ConnectionClosedError, LockTimeout
from kazoo.protocol.states import Callback, KazooState
from kazoo.retry import KazooRetry

from parkazoo.compat.internals import Sockets
from parkazoo.kazoo_private import CONNECTION_DROP, SESSION_EXPIRED, GetData, collect_hosts
from parkazoo.protocol.placement import ENSEMBLE
from parkazoo.protocol.states import kazoo_state
from parkazoo.wire.handler import ThreadingHandler
from tests.aio import aio_case

WATCHED = ("get", "exists", "get_children", "add_watch", "remove_watches")  # the second argument is a watch
OF_THREADS = ("handler", "connection_retry", "command_retry")  # options that the asyncio client has not
HELD_BY = {"acquire": "release", "enter": "leave", "join": "leave"}  # what a recipe's block begins and ends with
LIMIT_S = 120.0  # nothing takes so long
MISTAKES: list[dict[str, Any]] = []  # what nobody has caught on the loop


@cache
def the_loop() -> asyncio.AbstractEventLoop:
    """The process's loop of such clients; it starts when it is first asked for."""
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _, context: MISTAKES.append(context))
    threading.Thread(target=loop.run_forever, name="the loop", daemon=True).start()
    return loop


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """What it returns or raises, on the loop."""
    return asyncio.run_coroutine_threadsafe(work, the_loop()).result(LIMIT_S)


def call_there(call: Callable[[], Any]) -> Any:
    """What a plain call returns or raises, on the loop."""
    made: Future[Any] = Future()

    def make() -> None:
        try:
            made.set_result(call())
        except Exception as error:
            made.set_exception(error)

    the_loop().call_soon_threadsafe(make)
    return made.result(LIMIT_S)


class There:
    """A function of a test, called by the handler's thread. Two of the same function are equal."""

    def __init__(self, client: OnALoop, function: Callable[..., Any]) -> None:
        self.client = client
        self.function = function

    def __call__(self, *found: Any) -> None:
        self.client.handler.dispatch_callback(Callback("watch", self.function, found))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, There) and self.function == other.function

    def __hash__(self) -> int:
        return hash(self.function)


class OnALoop:
    """See the module. What it does not have itself is the asyncio client's, its coroutines as calls that block."""

    def __init__(self, hosts: str, **options: Any) -> None:
        self.handler = options.get("handler") or ThreadingHandler()
        retry = options.get("command_retry") or KazooRetry(max_tries=-1, sleep_func=self.handler.sleep_func)
        self.retry = KazooRetry(**retry) if isinstance(retry, dict) else retry
        self.zk: Any = aio_case.ParKazooClient(
            hosts, **{name: value for name, value in options.items() if name not in OF_THREADS}
        )
        self._listeners: dict[Any, Any] = {}
        self._followers: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return repr(self.zk)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.zk, name)
        if name.endswith("_async"):
            return partial(self._issue, name, found)
        if inspect.iscoroutinefunction(found):
            return Blocking(self, name, found)
        if inspect.ismethod(found) and name[0].isupper():
            return lambda *args, **named: Recipe(self, found(*args, **named))
        return found

    def issue(self, call: Callable[[], asyncio.Future[Any]]) -> Any:
        """The result of what is issued by `call`, on the loop. It also gets what that raises."""
        result = self.handler.async_result()

        def pass_on(future: asyncio.Future[Any]) -> None:
            error = future.exception()
            if error is None:
                result.set(future.result())
            else:
                result.set_exception(error)

        def begin() -> None:
            try:
                call().add_done_callback(pass_on)
            except Exception as error:
                result.set_exception(error)

        the_loop().call_soon_threadsafe(begin)
        return result

    def _issue(self, name: str, call: Callable[..., asyncio.Future[Any]], *args: Any, **named: Any) -> Any:
        args, named = self.with_watch(name.removesuffix("_async"), args, named)
        return self.issue(partial(call, *args, **named))

    def with_watch(
        self, name: str, args: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments, with a watch that the handler calls."""
        if name in WATCHED:
            if callable(named.get("watch")):
                named = {**named, "watch": There(self, named["watch"])}
            elif len(args) > 1 and callable(args[1]):
                args = (args[0], There(self, args[1]), *args[2:])
        return args, named

    # ---- the session -----------------------------------------------------------------------------

    def start(self, timeout: float = 15) -> None:
        self.handler.start()
        try:
            run(self.zk.start(timeout))
        except TimeoutError as error:
            raise self.handler.timeout_exception(str(error)) from error
        told = self.handler.event_object()
        self.handler.dispatch_callback(Callback("watch", told.set, ()))
        told.wait(LIMIT_S)  # the listeners come before: kazoo's start() returns when they have been called

    def start_async(self) -> threading.Event:
        """Requests are taken from now on."""
        self.handler.start()
        is_connected = threading.Event()

        async def begin() -> None:
            self._starting = asyncio.create_task(self.zk.start())
            self._starting.add_done_callback(
                lambda task: None if task.cancelled() or task.exception() else is_connected.set()
            )
            await asyncio.sleep(0)

        run(begin())
        return is_connected

    def stop(self) -> None:
        run(self.zk.stop())
        self.handler.stop()

    def restart(self) -> None:
        self.stop()
        self.start()

    def close(self) -> None:
        """Nothing is left to close."""

    def add_listener(self, listener: Any) -> None:
        if not callable(listener):
            self.zk.add_listener(listener)

        def tell(state: str) -> None:
            if listener(state) is True:
                self.remove_listener(listener)

        self._listeners[listener] = there = There(self, tell)
        call_there(partial(self.zk.add_listener, there))

    def remove_listener(self, listener: Any) -> None:
        call_there(partial(self.zk.remove_listener, self._listeners.pop(listener, None)))

    def _call(self, request: Any, reply: Any) -> None:
        session = self.zk._session
        if request is CONNECTION_DROP:
            call_there(session.drop_connections)
        elif request is SESSION_EXPIRED:
            call_there(partial(session.expire, "a test wants it"))
        else:
            call_there(partial(self.zk._call, request, reply))

    # ---- its ensembles ---------------------------------------------------------------------------

    @property
    def cluster_map(self) -> Any:
        return None if self.zk._session is None else self.zk._session.roster.cluster_map

    @property
    def members(self) -> dict[str, Joined]:
        session = self.zk._session
        return {} if session is None else {each.name: Joined(each) for each in session.roster.members}

    @property
    def _connection(self) -> Any:
        return AllConnections(self)

    def join(self, *names: str, timeout: float = 15) -> None:
        """The asyncio client has no such call: it joins by the first request."""
        roster = self.zk._session.roster
        known = [name for name in roster.names if name in roster.cluster_map.ensembles]
        if not {*names} <= {*known}:
            raise ValueError(f"no ensemble {names[0]!r} in the cluster map: {', '.join(known)}")
        for name in names or known:
            answer = self.handler.async_result()
            port = roster.ports[roster.names.index(name)]
            call_there(partial(port.submit, GetData(ENSEMBLE, None), answer))
            answer.get(timeout=timeout)

    def state_of(self, path: str) -> str:
        session = self.zk._session
        ensemble = session.driver.context.known(self.zk.chroot + path).home.ensemble
        return kazoo_state(session.roster.state_on(ensemble))

    # ---- recipes that are none of the asyncio client's -------------------------------------------

    def DataWatch(self, path: str, function: Callable[..., Any] | None = None) -> Any:
        """By `watch_data`."""
        if function is None:
            return partial(self.DataWatch, path)
        return self._follow(self.zk.watch_data(path), lambda state: function(*(state or (None, None))))

    def ChildrenWatch(self, path: str, function: Callable[[Any], Any] | None = None) -> Any:
        """By `watch_children`."""
        if function is None:
            return partial(self.ChildrenWatch, path)
        return self._follow(self.zk.watch_children(path), function)

    def _follow(self, states: Any, function: Callable[[Any], Any]) -> Any:
        """The first state is told before this returns."""
        is_told: Future[None] = Future()

        async def follow() -> None:
            async with states:
                async for state in states:
                    goes_on = await asyncio.wrap_future(self._tell(function, state))
                    if not is_told.done():
                        is_told.set_result(None)
                    if goes_on is False:
                        return

        def end(task: asyncio.Task[None]) -> None:
            self._followers.discard(task)
            error = task.exception()
            if not is_told.done():
                is_told.set_exception(error or AssertionError("no state came"))
            elif error is not None and not isinstance(error, ConnectionClosedError):
                MISTAKES.append({"message": "a watch", "exception": error})

        def begin() -> None:
            task = the_loop().create_task(follow())
            self._followers.add(task)
            task.add_done_callback(end)

        call_there(begin)
        is_told.result()
        return function

    def _tell(self, function: Callable[[Any], Any], state: Any) -> Future[Any]:
        told: Future[Any] = Future()
        self.handler.dispatch_callback(Callback("watch", lambda: told.set_result(function(state)), ()))
        return told

    def transaction(self) -> Transaction:
        return Transaction(self)


class Blocking:
    """A coroutine function of the asyncio client as a function that blocks."""

    def __init__(self, client: OnALoop, name: str, call: Callable[..., Any]) -> None:
        self.client = client
        self.name = self.__name__ = name
        self.call = call

    def __call__(self, *args: Any, **named: Any) -> Any:
        args, named = self.client.with_watch(self.name, args, named)
        args = tuple(each.call if isinstance(each, Blocking) else each for each in args)  # of `once`
        return run(self._call(*args, **named))

    async def _call(self, *args: Any, **named: Any) -> Any:
        return await self.call(*args, **named)


class Transaction:
    """kazoo's face of an asyncio client's transaction: no operation that has failed is raised by its block."""

    def __init__(self, client: OnALoop) -> None:
        self._client = client
        self._transaction = client.zk.transaction()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transaction, name)

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is None:
            self.commit()

    @property
    def commit(self) -> Blocking:
        return Blocking(self._client, "commit", self._transaction.commit)

    def commit_async(self) -> Any:
        return self._client.issue(self._transaction.commit_async)


class Recipe:
    """A recipe's object whose coroutines block, with kazoo's `timeout`."""

    def __init__(self, client: OnALoop, recipe: Any) -> None:
        self.client = client
        self._recipe = recipe

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._recipe, name)
        return partial(self._run, found) if inspect.iscoroutinefunction(found) else found

    def _run(self, call: Callable[..., Any], *args: Any, timeout: float | None = None, **named: Any) -> Any:
        async def limited() -> Any:
            async with asyncio.timeout(timeout):
                return await call(*args, **named)

        try:
            return run(limited())
        except TimeoutError:
            raise LockTimeout(f"not within {timeout} s") from None

    def __enter__(self) -> Recipe:
        self._run(getattr(self._recipe, self._begin()))
        return self

    def __exit__(self, *_: object) -> None:
        self._run(getattr(self._recipe, HELD_BY[self._begin()]))

    def _begin(self) -> str:
        return next(name for name in HELD_BY if hasattr(self._recipe, name))


class Joined:
    """A member, with those of kazoo's attributes that tests ask for."""

    def __init__(self, member: Any) -> None:
        self._member = member

    def __getattr__(self, name: str) -> Any:
        return getattr(self._member, name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Joined) and self._member is other._member

    def __hash__(self) -> int:
        return hash(self._member)

    @property
    def state(self) -> str:
        return kazoo_state(self._member._state)

    @property
    def connected(self) -> bool:
        return self.state == KazooState.CONNECTED

    @property
    def client_id(self) -> Any:
        return (self._member.session_id, self._member.session_password) if self._member.session_id else None

    def set_hosts(self, hosts: str) -> None:
        self._member.hosts = collect_hosts(hosts)[0]


class AllConnections:
    """Of all members; see :class:`parkazoo.compat.internals.JointConnection`."""

    def __init__(self, client: OnALoop) -> None:
        self._client = client

    @property
    def _socket(self) -> Sockets:
        return Sockets(lambda: [each._connection._socket for each in self._client.members.values()])
