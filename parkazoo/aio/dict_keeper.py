"""Keeps the copy of an asyncio DistributedDict equal to the servers' entries, by watches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, KazooException, NoAuthError, NoNodeError
from kazoo.protocol.states import EventType, WatchedEvent

from parkazoo.aio.async_ensembles import AsyncEnsembles
from parkazoo.aio.recipe.sight import GrowingPauses, steadily
from parkazoo.aio.tending import look
from parkazoo.protocol.client_id import SessionId
from parkazoo.protocol.placement import join
from parkazoo.protocol.steps import IMPOSSIBLE
from parkazoo.structures.keys import EMPTY, key_of, name_of
from parkazoo.structures.local_copy import Entry, LocalCopy, life_of
from parkazoo.types import ZnodeStat
from parkazoo.types.client import Listener
from parkazoo.types.handlers import Log
from parkazoo.types.znodes import Watch
from parkazoo.wire.member import FINAL_STATES

PAUSE_PER_NAME_S = 2e-5  # between two listings: one takes about a tenth of that
SHORT_S = 0.005


class KeptClient(AsyncEnsembles):
    """The client of a dictionary, as that sees it."""

    logger: Log
    _ends: dict[Callable[[None], None], None]  # called with None when no further state comes

    @property
    def client_id(self) -> SessionId | None:
        """Returns the client's id and password."""
        raise NotImplementedError

    def add_listener(self, listener: Listener) -> None:
        """Adds a state listener."""
        raise NotImplementedError

    def remove_listener(self, listener: Listener) -> None:
        """Removes a state listener."""
        raise NotImplementedError


class DictKeeper:
    """Reads everything with watches, and reads again after each event: :class:`parkazoo.structures.keeper.Keeper`
    does the same for threads.

    A lost connection ends all watches: then a task of the client reads everything anew, until it succeeds. Events
    and answers of earlier loads no longer count: each has the number of its load, its generation.

    :param tell: called with the key and the entry before, after each change.
    :ivar is_loaded: whether everything is read and watched.
    """

    def __init__(self, client: KeptClient, path: str, tell: Callable[[str, Entry | None], None]) -> None:
        self.copy = LocalCopy(1, tell)
        self.is_loaded = False
        self._client = client
        self._path = path
        self._generation = 0
        self._armed: dict[str, partial[None]] = {}  # the watches of entries
        self._on_directory: Watch | None = None
        self._under_way = 0  # what this generation has asked, until all that its answers lead to is asked
        self._failure: BaseException = ConnectionLoss("not read yet")
        self._has_ended: asyncio.Future[None] | None = None  # the load of this generation
        self._next_listing_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._is_reloading = False
        self._is_closed = False

    def place(self, key: str) -> str:
        """
        :raises TypeError: the key is no str.
        """
        return join(self._path, name_of(key))

    async def start(self) -> None:
        """Loads everything.

        :raises: the errors of the client's reads.
        """
        self._is_reloading = True
        try:
            await steadily(self._client, self._load)
        except BaseException:
            self.close()
            raise
        self._is_reloading = False
        if not self.is_loaded:  # a watch was lost just now
            self._reload()

    def close(self) -> None:
        """Forgets the watches."""
        self._is_closed = True
        self._end(ConnectionClosedError("the dictionary is closed"))
        self._forget_all()

    @property
    def is_stale(self) -> bool:
        """Whether the copy may lack a change for which the servers have sent an event."""
        state = self._client.state_of(join(self._path, EMPTY))
        return bool(self._under_way) or not self.is_loaded or state != "CONNECTED"

    # ---- loading -----------------------------------------------------------------------------------

    async def _load(self) -> None:
        self._end(ConnectionClosedError("another load has begun"))
        if self._is_closed:
            raise ConnectionClosedError("the dictionary is closed")
        self._forget_all()
        generation = self._generation
        has_ended = self._has_ended = self._client._new_future()
        self._under_way = 1  # until here all is asked
        self._client.sync_async(self._path).add_done_callback(look)  # a new session may be at a server that lags
        self._list(generation)
        self._end_step(generation)
        await asyncio.wait([has_ended])
        if generation != self._generation:
            raise self._failure

    def _forget_all(self) -> None:
        armed, self._armed = self._armed, {}
        for key, watch in armed.items():
            self._client.forget_watch(self.place(key), watch)
        if self._on_directory is not None:
            self._client.forget_watch(self._path, self._on_directory)
            self._on_directory = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self, error: BaseException) -> None:
        """Makes earlier questions and watches count no longer."""
        self._generation += 1
        self._failure = error
        self.is_loaded = False
        self._under_way = 0
        if self._has_ended is not None and not self._has_ended.done():
            self._has_ended.set_result(None)

    def _lose(self, generation: int, error: BaseException) -> None:
        """Loads again, because a watch or an answer was lost."""
        if generation == self._generation:
            self._end(error)
            self._reload()

    def _reload(self) -> None:
        if not (self._is_reloading or self._is_closed):
            self._is_reloading = self._client.own(self._load_until_done()) is not None

    async def _load_until_done(self) -> None:
        pauses = GrowingPauses(self._client)
        try:
            while not (self.is_loaded or self._is_closed):
                if (error := await self._try_to_load()) is not None:
                    has_ended = self._client.client_state in FINAL_STATES
                    if has_ended or isinstance(error, ConnectionClosedError):  # the next CONNECTED has it read
                        return
                    about = {"path": self._path, "reason": repr(error)}
                    self._client.logger.info(
                        "DistributedDict %s: cannot be read yet: %r", self._path, error, extra=about
                    )
                    await pauses.next()
        finally:
            self._is_reloading = False

    async def _try_to_load(self) -> KazooException | None:
        try:
            await steadily(self._client, self._load)
        except KazooException as error:
            return error
        return None

    def connected(self) -> None:
        """The client is connected, perhaps after a stop."""
        if not self.is_loaded:
            self._reload()

    def _end_step(self, generation: int) -> None:
        """Counts an answer, after the questions that follow from it. If none is left, everything is loaded."""
        if generation == self._generation:
            self._under_way -= 1
            if not self._under_way and not self.is_loaded:
                self.is_loaded = True
                if self._has_ended is not None and not self._has_ended.done():
                    self._has_ended.set_result(None)

    def _ask(self, issued: asyncio.Future[Any], generation: int, take: Callable[[Any], None], watch: Any) -> None:
        """Have an answer taken, as long as it counts. One that no longer does has brought its watch."""
        self._under_way += 1

        def come(answer: asyncio.Future[Any]) -> None:
            if answer.cancelled():  # the loop ends
                return
            error = answer.exception()
            if generation != self._generation:
                self._client.forget_watch(watch.keywords["path"], watch)
            elif error is None or isinstance(error, (NoNodeError, NoAuthError)):
                take(answer.result() if error is None else error)
                self._end_step(generation)
            else:
                self._lose(generation, error)

        issued.add_done_callback(come)

    # ---- listings ----------------------------------------------------------------------------------

    def _list(self, generation: int) -> None:
        watch = self._on_directory = partial(self._directory_changed, generation, path=self._path)
        ticket = self.copy.ticket()
        listing = self._client.get_children_async(self._path, watch)
        self._ask(listing, generation, partial(self._listed, generation, ticket), watch)

    def _directory_changed(self, generation: int, event: WatchedEvent, path: str) -> None:
        if generation != self._generation:
            return
        if event.type == EventType.NONE:
            self._lose(generation, ConnectionLoss("a watch was lost"))
            return
        loop = asyncio.get_running_loop()
        if (wait_s := self._next_listing_s - loop.time()) <= SHORT_S:
            self._list(generation)
            return
        self._under_way += 1
        self._timer = loop.call_later(wait_s, self._list_now, generation)

    def _list_now(self, generation: int) -> None:
        if generation == self._generation:
            self._list(generation)
            self._end_step(generation)

    def _listed(self, generation: int, ticket: int, answer: list[str] | Exception) -> None:
        keys: list[str] = []
        if isinstance(answer, NoNodeError):
            self._await_directory(generation)
        elif isinstance(answer, Exception):
            self._lose(generation, answer)
            return
        else:
            keys = [key for key in map(key_of, answer) if key is not None]
        self._next_listing_s = asyncio.get_running_loop().time() + len(keys) * PAUSE_PER_NAME_S
        for key in self.copy.listed(0, keys, ticket):
            self._read(generation, key, is_again=True)
        for key in keys:
            if key not in self._armed:
                self._read(generation, key)

    def _await_directory(self, generation: int) -> None:
        """Sets a watch for the creation of the missing directory."""
        watch = self._on_directory = partial(self._directory_changed, generation, path=self._path)
        stat = self._client.exists_async(self._path, watch)
        self._ask(stat, generation, partial(self._looked, generation), watch)

    def _looked(self, generation: int, answer: ZnodeStat | Exception | None) -> None:
        if answer is not None:  # it has just come
            self._list(generation)

    # ---- entries -----------------------------------------------------------------------------------

    def _read(self, generation: int, key: str, is_again: bool = False) -> None:
        path = self.place(key)
        ticket = self.copy.ticket()
        watch = self._armed.setdefault(key, partial(self._entry_changed, generation, key, ticket, path=path))
        if is_again:  # the server may lag
            self._client.set_async(path, b"", IMPOSSIBLE).add_done_callback(look)
        take = partial(self._have_read, generation, key, ticket, is_again, watch)
        self._ask(self._client.get_async(path, watch), generation, take, watch)

    def _entry_changed(self, generation: int, key: str, number: int, event: WatchedEvent, path: str) -> None:
        """:param number: of the watch. If another counts by now, that is called too, or its read sees it."""
        if generation != self._generation:
            return
        if event.type == EventType.NONE:
            self._lose(generation, ConnectionLoss("a watch was lost"))
            return
        armed = self._armed.get(key)
        if armed is None or armed.args[2] == number:
            self._armed.pop(key, None)
            self._read(generation, key)

    def _have_read(
        self, generation: int, key: str, ticket: int, is_certain: bool, watch: partial[None], answer: Any
    ) -> None:
        if isinstance(answer, Exception):  # the next listing that has it asks again
            if self._armed.get(key) is watch:
                del self._armed[key]
        elif self._armed.setdefault(key, watch) is not watch:
            self._client.forget_watch(self.place(key), watch)
        if self.take(key, ticket, answer, is_certain):
            self._read(generation, key, is_again=True)

    def take(self, key: str, ticket: int, answer: Any, is_certain: bool = False) -> bool:
        """Puts the answer to a get, or its error, into the copy; returns whether it is in doubt."""
        if isinstance(answer, NoAuthError):
            if self.copy.refused(0, key, ticket):
                self._client.logger.warning(
                    "DistributedDict %s: %r may not be read, and is left out",
                    self._path,
                    key,
                    extra={"path": self._path},
                )
            return False
        if isinstance(answer, Exception):
            return self.copy.not_found(0, key, ticket)
        raw, stat = answer
        state = raw or b"", stat.version, stat.mzxid, stat.ephemeralOwner, life_of(stat), is_certain
        return self.copy.found(0, key, ticket, *state)

    async def fetch(self, key: str) -> Entry | None:
        """Reads one entry, also over a lost connection; None if it does not exist."""
        path, is_certain = self.place(key), False
        while True:
            ticket = self.copy.ticket()
            if is_certain:  # the server may lag
                self._client.set_async(path, b"", IMPOSSIBLE).add_done_callback(look)
            try:
                answer: object = await steadily(self._client, partial(self._client.get, path))
            except NoNodeError as error:
                answer = error
            if not self.take(key, ticket, answer, is_certain):
                return self.copy.entries.get(key)
            is_certain = True
