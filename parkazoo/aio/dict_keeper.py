"""Keeps the copy of an asyncio DistributedDict equal to the servers' entries, by watches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, KazooException, NoAuthError, NoNodeError
from kazoo.protocol.states import EventType, KazooState, WatchedEvent

from parkazoo.aio.dict_entries import DictEntries
from parkazoo.aio.recipe.sight import GrowingPauses, steadily
from parkazoo.aio.tending import look
from parkazoo.protocol.placement import join
from parkazoo.protocol.steps import IMPOSSIBLE
from parkazoo.structures.keys import EMPTY, keys_of
from parkazoo.structures.local_copy import Life, life_of
from parkazoo.types import ZnodeStat
from parkazoo.wire.member import FINAL_STATES

PAUSE_PER_NAME_S = 2e-5  # between two listings: one takes about a tenth of that
SHORT_S = 0.005


class DictKeeper:
    """Reads everything with watches, and reads again after each event: :class:`parkazoo.structures.keeper.Keeper`
    does the same for threads.

    A lost connection ends all watches: then a task of the client reads everything anew, until it succeeds. Events
    and answers of earlier loads no longer count: each has the number of its load, its generation.

    :ivar is_loaded: whether everything is read and watched.
    """

    def __init__(self, entries: DictEntries) -> None:
        self.is_loaded = False
        self._entries = entries
        self._reader = entries.reader
        self._client = entries.client
        self._path = entries.path
        self._generation = 0
        self._armed: dict[str, partial[None]] = {}  # the watches of entries
        self._on_directories: list[partial[None] | None] = [None] * len(entries.directories)
        self._identities: list[Life | None] = [None] * len(entries.directories)  # None: it is not there
        self._under_way = 0  # what this generation has asked, until all that its answers lead to is asked
        self._failure: BaseException = ConnectionLoss("not read yet")
        self._has_ended: asyncio.Future[None] | None = None  # the load of this generation
        self._next_listing_s = [0.0] * len(entries.directories)
        self._timers: dict[int, asyncio.TimerHandle] = {}  # of listings
        self._is_reloading = False
        self._reloading: asyncio.Task[None] | None = None
        self._is_closed = False

    async def start(self) -> None:
        """Loads everything. Where that fails, :meth:`close` it.

        :raises: the errors of the client's reads.
        """
        self._is_reloading = True
        await steadily(self._client, self._load)
        self._is_reloading = False
        if not self.is_loaded:  # a watch was lost just now
            self._reload()

    def close(self) -> None:
        """Forgets the watches."""
        self._is_closed = True
        if self._reloading is not None:
            self._reloading.cancel()
        self._end(ConnectionClosedError("the dictionary is closed"))
        self._forget_all()

    @property
    def is_kept(self) -> bool:
        """Whether everything is read, and each ensemble that sends events is connected."""
        states = (self._client.state_of(join(each, EMPTY)) for each in self._entries.directories)
        return self.is_loaded and all(state == KazooState.CONNECTED for state in states)

    @property
    def is_stale(self) -> bool:
        """Whether the copy may lack a change for which the servers have sent an event."""
        return bool(self._under_way) or not self.is_kept

    # ---- loading -----------------------------------------------------------------------------------

    async def _load(self) -> None:
        self._end(ConnectionClosedError("another load has begun"))
        if self._is_closed:
            raise ConnectionClosedError("the dictionary is closed")
        self._forget_all()
        generation = self._generation
        has_ended = self._has_ended = self._client._new_future()
        self._under_way = 1  # until here all is asked
        directories = self._entries.directories
        # a new session may be at a server that lags
        syncs = asyncio.gather(*map(self._client.sync_async, directories), return_exceptions=True)
        _, stats = await asyncio.gather(syncs, asyncio.gather(*map(self._client.exists_async, directories)))
        for number, stat in enumerate(stats if generation == self._generation else ()):
            self._recognise(number, stat)
            self._list(generation, number)
        self._end_step(generation)
        await asyncio.wait([has_ended])
        if generation != self._generation:
            raise self._failure

    def _recognise(self, number: int, stat: ZnodeStat | None) -> None:
        """Notes whether the directory is the same as before; it may have been made again, perhaps with shards."""
        identity = None if stat is None else life_of(stat)
        if self._identities[number] not in (None, identity):
            self._reader.is_verified = False
        self._identities[number] = identity

    def _forget_all(self) -> None:
        armed, self._armed = self._armed, {}
        for key, watch in armed.items():
            self._client.forget_watch(self._entries.place(key)[1], watch)
        for number, on_it in enumerate(self._on_directories):
            if on_it is not None:
                self._client.forget_watch(self._entries.directories[number], on_it)
                self._on_directories[number] = None
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

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
            self._reloading = self._client.own(self._load_until_done())
            self._is_reloading = self._reloading is not None

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

    def _ask(
        self,
        issued: asyncio.Future[Any],
        generation: int,
        take: Callable[[Any], None],
        watch: partial[None] | None = None,
    ) -> None:
        """Have an answer taken, as long as it counts. One that no longer does has brought its watch."""
        self._under_way += 1

        def come(answer: asyncio.Future[Any]) -> None:
            if answer.cancelled():  # the loop ends
                return
            error = answer.exception()
            if generation != self._generation:
                if watch is not None:
                    self._client.forget_watch(watch.keywords["path"], watch)
            elif error is None or isinstance(error, (NoNodeError, NoAuthError)):
                take(answer.result() if error is None else error)
                self._end_step(generation)
            else:
                self._lose(generation, error)

        issued.add_done_callback(come)

    # ---- listings ----------------------------------------------------------------------------------

    def _list(self, generation: int, number: int) -> None:
        directory = self._entries.directories[number]
        watch = self._watch(generation, number)
        ticket = self._reader.copy.ticket()
        listing = self._client.get_children_async(directory, watch)
        self._ask(listing, generation, partial(self._listed, generation, number, ticket), watch)

    def _watch(self, generation: int, number: int) -> partial[None]:
        """Returns the watch of a directory from now on."""
        path = self._entries.directories[number]
        watch = self._on_directories[number] = partial(self._directory_changed, generation, number, path=path)
        return watch

    def _directory_changed(self, generation: int, number: int, event: WatchedEvent, path: str) -> None:
        if generation != self._generation:
            return
        if event.type == EventType.NONE:
            self._lose(generation, ConnectionLoss("a watch was lost"))
            return
        if event.type in (EventType.CREATED, EventType.DELETED):
            stat = self._client.exists_async(path)
            self._ask(stat, generation, partial(self._recognise, number))
        loop = asyncio.get_running_loop()
        if (wait_s := self._next_listing_s[number] - loop.time()) <= SHORT_S:
            self._list(generation, number)
            return
        self._under_way += 1
        self._timers[number] = loop.call_later(wait_s, self._list_now, generation, number)

    def _list_now(self, generation: int, number: int) -> None:
        if generation == self._generation:
            self._list(generation, number)
            self._end_step(generation)

    def _listed(self, generation: int, number: int, ticket: int, answer: list[str] | Exception) -> None:
        keys: list[str] = []
        if isinstance(answer, NoNodeError):
            self._await_directory(generation, number)
        elif isinstance(answer, Exception):
            self._lose(generation, answer)
            return
        else:
            keys = keys_of(answer)
        self._next_listing_s[number] = asyncio.get_running_loop().time() + len(keys) * PAUSE_PER_NAME_S
        for key in self._reader.copy.listed(number, keys, ticket):
            self._read(generation, key, is_again=True)
        for key in keys:
            if key not in self._armed:
                self._read(generation, key)

    def _await_directory(self, generation: int, number: int) -> None:
        """Sets a watch for the creation of the missing directory."""
        watch = self._watch(generation, number)
        stat = self._client.exists_async(self._entries.directories[number], watch)
        self._ask(stat, generation, partial(self._looked, generation, number, watch), watch)

    def _looked(
        self, generation: int, number: int, watch: partial[None], answer: ZnodeStat | Exception | None
    ) -> None:
        if isinstance(answer, Exception):
            self._lose(generation, answer)
            return
        self._recognise(number, answer)
        if answer is not None and self._on_directories[number] is watch:  # it has just come, and is not listed yet
            self._client.forget_watch(self._entries.directories[number], watch)
            self._list(generation, number)

    # ---- entries -----------------------------------------------------------------------------------

    def _read(self, generation: int, key: str, is_again: bool = False) -> None:
        number, path = self._entries.place(key)
        ticket = self._reader.copy.ticket()
        watch = self._armed.setdefault(key, partial(self._entry_changed, generation, key, ticket, path=path))
        if is_again:  # the server may lag
            self._client.set_async(path, b"", IMPOSSIBLE).add_done_callback(look)
        take = partial(self._have_read, generation, number, key, ticket, is_again, watch)
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
        self,
        generation: int,
        number: int,
        key: str,
        ticket: int,
        is_certain: bool,
        watch: partial[None],
        answer: Any,
    ) -> None:
        if isinstance(answer, Exception):  # the next listing that has it asks again
            if self._armed.get(key) is watch:
                del self._armed[key]
        elif self._armed.setdefault(key, watch) is not watch:
            self._client.forget_watch(self._entries.place(key)[1], watch)
        if self._reader.take(number, key, ticket, answer, is_certain):
            self._read(generation, key, is_again=True)
