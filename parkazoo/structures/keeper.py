"""Keeps the copy of a DistributedDict equal to the servers' entries, by watches."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from kazoo.exceptions import AuthFailedError, ConnectionClosedError, ConnectionLoss, NoAuthError, NoNodeError
from kazoo.protocol.states import EventType, KazooState, WatchedEvent

from parkazoo.protocol.asking import prefixed
from parkazoo.protocol.placement import join
from parkazoo.protocol.steps import IMPOSSIBLE
from parkazoo.structures.entries import Entries
from parkazoo.structures.keys import EMPTY, keys_of
from parkazoo.structures.local_copy import Life, life_of
from parkazoo.types.znodes import AsyncResult, ZnodeStat

LEAST_PAUSE_S, MOST_PAUSE_S = 0.05, 2.0
PAUSE_PER_NAME_S = 2e-5  # between two listings: one takes about a tenth of that
SHORT_S = 0.005


class Keeper:
    """Reads everything with watches, and reads again after each event.

    A watch is called once, and is set again with the read. A lost connection ends all watches: then a thread (or
    greenlet) reads everything anew, until it succeeds. Events and answers of earlier loads no longer count: each
    has the number of its load, its generation.

    :ivar is_loaded: whether everything is read and watched.
    """

    def __init__(self, entries: Entries) -> None:
        self.is_loaded = False
        self._entries = entries
        self._client = entries.client
        self._lock = entries.lock
        self._generation = 0
        self._is_active = False  # this generation loads, or has loaded
        self._armed: dict[str, partial[None]] = {}  # the watches of entries
        self._on_directories: list[partial[None] | None] = [None] * len(entries.directories)
        self._identities: list[Life | None] = [None] * len(entries.directories)  # None: it is not there
        self._next_listing_s = [0.0] * len(entries.directories)
        self._under_way = 0  # what this generation has asked, until all that its answers lead to is asked
        self._failure: BaseException | None = None
        self._has_ended: Any = None  # the load of this generation; an event
        self._is_reloading = False
        self._is_closed = False

    def start(self) -> None:
        """Loads everything.

        :raises: the errors of the client's reads.
        """
        self._is_reloading = True
        try:
            self._client.add_listener(self._state_changed)
            self._client.retry(self._load)
            if not self._is_done():
                self._client.handler.spawn(self._load_until_done)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Removes the listener and the watches."""
        self._client.remove_listener(self._state_changed)
        with self._lock:
            self._is_closed = True
            self._end(ConnectionClosedError("the dictionary is closed"))
            armed = dict(self._armed)
        self._take_out_all(armed)

    def _take_out_all(self, armed: dict[str, partial[None]]) -> None:
        for key, watch in armed.items():
            self._take_out(self._entries.place(key)[1], watch)
        for directory, on_it in zip(self._entries.directories, self._on_directories, strict=True):
            self._take_out(directory, on_it)

    def _take_out(self, path: str, watch: partial[None] | None) -> None:
        for table in (self._client._data_watchers, self._client._child_watchers):
            table[prefixed(self._client.chroot, path)].discard(watch)

    @property
    def is_kept(self) -> bool:
        """Returns whether everything is read, and each ensemble that sends events is connected."""
        directories = self._entries.directories
        states = (self._client.state_for_watch(join(directory, EMPTY)) for directory in directories)
        return self.is_loaded and all(state == KazooState.CONNECTED for state in states)

    @property
    def is_stale(self) -> bool:
        """Returns whether the copy may lack a change for which the servers have sent an event.

        It may while the client reads a change, and while answers wait for state listeners.
        """
        return bool(self._under_way) or self._client.listeners.is_closed or not self.is_kept

    # ---- loading -----------------------------------------------------------------------------------

    def _load(self) -> None:
        with self._lock:
            self._end(ConnectionClosedError("another load has begun"))
            if self._is_closed:
                raise self._failure or ConnectionClosedError
            generation, armed, self._armed = self._generation, self._armed, {}
            self._is_active, self._under_way = True, 1  # until here all is asked
            has_ended = self._has_ended = self._client.handler.event_object()
        self._take_out_all(armed)
        directories = self._entries.directories
        for directory in directories:
            self._client.sync_async(directory)  # a new session may be at a server that lags
        stats = [self._client.exists_async(directory) for directory in directories]
        for number, stat in enumerate(stats):
            self._recognise(number, _identity(stat.get()))
        for number in range(len(directories)):
            self._list(generation, number)
        self._end_step(generation)
        has_ended.wait()
        with self._lock:
            if generation != self._generation:
                raise self._failure or ConnectionClosedError

    def _recognise(self, number: int, identity: Life | None) -> None:
        """Notes whether the directory is the same as before. Its parent's children may have moved, and it with
        them; or it was made again, perhaps with shards.
        """
        with self._lock:
            if self._identities[number] not in (None, identity):
                self._entries.reader.is_verified = False
            self._identities[number] = identity

    def _end(self, error: BaseException) -> None:
        """Makes earlier questions and watches count no longer. The caller holds the lock."""
        self._generation += 1
        self._failure = error
        self._is_active = self.is_loaded = False
        if self._has_ended is not None:
            self._has_ended.set()

    def _lose(self, generation: int, error: BaseException) -> None:
        """Loads again, because a watch or an answer was lost."""
        with self._lock:
            if generation != self._generation:
                return
            was_loaded = self.is_loaded
            self._end(error)
        if was_loaded:
            self._reload()

    def _reload(self) -> None:
        with self._lock:
            if self._is_reloading or self._is_closed:
                return
            self._is_reloading = True
        self._client.handler.spawn(self._load_until_done)

    def _load_until_done(self) -> None:
        pause_s = LEAST_PAUSE_S
        while (error := self._try_to_load()) is not None or not self._is_done():
            if error is not None:
                if not self._goes_on(error):
                    return
                self._client.handler.sleep_func(pause_s)
                pause_s = min(2 * pause_s, MOST_PAUSE_S)

    def _try_to_load(self) -> Exception | None:
        try:
            self._load()
        except Exception as error:
            return error
        return None

    def _is_done(self) -> bool:
        """Returns whether the load has ended, and nothing was lost since."""
        with self._lock:
            self._is_reloading = not self.is_loaded and not self._is_closed
            return not self._is_reloading

    def _goes_on(self, error: Exception) -> bool:
        """Returns whether to try again now; otherwise the next CONNECTED does."""
        with self._lock:
            is_over = isinstance(error, (ConnectionClosedError, AuthFailedError)) and not self._client.connected
            if self._is_closed or is_over:
                self._is_reloading = False
                return False
        path = self._entries.path
        self._client.logger.info(
            "DistributedDict %s: cannot be read yet: %r", path, error, extra={"path": path, "reason": repr(error)}
        )
        return True

    def _state_changed(self, state: str) -> None:
        if state == KazooState.CONNECTED and not self.is_loaded:
            self._reload()

    def _begin_step(self, generation: int) -> int:
        """Returns a ticket for a question; 0 if the question no longer counts. The caller holds the lock."""
        if generation != self._generation or not self._is_active:
            return 0
        self._under_way += 1
        return self._entries.copy.ticket()

    def _end_step(self, generation: int) -> None:
        """Counts an answer, after the questions that follow from it. If none is left, everything is loaded."""
        with self._lock:
            if generation == self._generation:
                self._under_way -= 1
                if not self._under_way and not self.is_loaded:
                    self.is_loaded = True
                    self._has_ended.set()

    # ---- listings ----------------------------------------------------------------------------------

    def _list(self, generation: int, number: int, called: int = 0) -> None:
        """:param called: the number of a watch that was, or needs no longer be. If another counts by now, that has
        a listing of its own.
        """
        with self._lock:
            on_it = self._on_directories[number]
            if called and on_it is not None and on_it.args[2] != called:
                return
            if not (ticket := self._begin_step(generation)):
                return
            watch = self._watch(generation, number, ticket)
        answer = self._client.get_children_async(self._entries.directories[number], watch=watch)
        answer.rawlink(partial(self._listed, generation, number, ticket, watch))

    def _watch(self, generation: int, number: int, ticket: int) -> partial[None]:
        """Returns the watch of a directory from now on. The caller holds the lock."""
        watch = self._on_directories[number] = partial(self._directory_changed, generation, number, ticket)
        return watch

    def _directory_changed(self, generation: int, number: int, called: int, event: WatchedEvent) -> None:
        if event.type == EventType.NONE:
            self._lose(generation, ConnectionLoss("a watch was lost"))
            return
        if event.type in (EventType.CREATED, EventType.DELETED):
            self._identify(generation, number)
        wait_s = self._next_listing_s[number] - time.monotonic()
        if wait_s <= SHORT_S:
            self._list(generation, number, called)
            return
        with self._lock:
            if not self._begin_step(generation):
                return
        self._client.call_later(wait_s, partial(self._list_now, generation, number, called))

    def _list_now(self, generation: int, number: int, called: int) -> None:
        self._list(generation, number, called)
        self._end_step(generation)

    def _listed(self, generation: int, number: int, ticket: int, watch: partial[None], answer: Any) -> None:
        error, keys = answer.exception, list[str]()
        if generation != self._generation:  # the answer has brought the watch
            self._take_out(self._entries.directories[number], watch)
        if isinstance(error, NoNodeError):
            self._await_directory(generation, number)
        elif error is not None:
            self._lose(generation, error)
            return
        else:
            keys = keys_of(answer.value)
        self._next_listing_s[number] = time.monotonic() + len(keys) * PAUSE_PER_NAME_S
        with self._lock:
            if generation != self._generation:
                return
            doubtful = self._entries.copy.listed(number, keys, ticket)
            new = [key for key in keys if key not in self._armed]
        for key in new:
            self._ask(generation, key)
        for key in doubtful:
            self._ask(generation, key, is_again=True)
        self._end_step(generation)

    def _await_directory(self, generation: int, number: int) -> None:
        """Sets a watch for the creation of the missing directory."""
        with self._lock:
            if not (ticket := self._begin_step(generation)):
                return
            watch = self._watch(generation, number, ticket)
        answer = self._client.exists_async(self._entries.directories[number], watch=watch)
        answer.rawlink(partial(self._looked, generation, number, watch))

    def _looked(
        self, generation: int, number: int, watch: partial[None], answer: AsyncResult[ZnodeStat | None]
    ) -> None:
        if generation != self._generation or answer.value is not None:  # it has just come, and is listed
            self._take_out(self._entries.directories[number], watch)
        if answer.exception is not None:
            self._lose(generation, answer.exception)
            return
        self._recognise(number, _identity(answer.value))
        if answer.value is not None:
            self._list(generation, number, watch.args[2])
        self._end_step(generation)

    def _identify(self, generation: int, number: int) -> None:
        """Looks whether the directory was made again: another one may have shards."""
        with self._lock:
            if not self._begin_step(generation):
                return
        answer = self._client.exists_async(self._entries.directories[number])
        answer.rawlink(partial(self._identified, generation, number))

    def _identified(self, generation: int, number: int, answer: AsyncResult[ZnodeStat | None]) -> None:
        if answer.exception is not None:
            self._lose(generation, answer.exception)
            return
        self._recognise(number, _identity(answer.value))
        self._end_step(generation)

    # ---- entries -----------------------------------------------------------------------------------

    def _ask(self, generation: int, key: str, is_again: bool = False, called: int = 0) -> None:
        """:param called: the number of a watch that was. If another counts by now, that is called too, or its read
        sees it.
        """
        with self._lock:
            armed = self._armed.get(key)
            if armed is not None and not is_again:
                if armed.args[2] != called:
                    return
                del self._armed[key]
            if not (ticket := self._begin_step(generation)):
                return
            watch = self._armed.setdefault(key, partial(self._entry_changed, generation, key, ticket))
        number, path = self._entries.place(key)
        if is_again:  # the server may lag
            self._client.set_async(path, b"", IMPOSSIBLE)
        answer = self._client.get_async(path, watch=watch)
        answer.rawlink(partial(self._read, generation, number, key, ticket, is_again, watch))

    def _entry_changed(self, generation: int, key: str, number: int, event: WatchedEvent) -> None:
        if event.type == EventType.NONE:
            self._lose(generation, ConnectionLoss("a watch was lost"))
            return
        self._ask(generation, key, called=number)

    def _read(
        self,
        generation: int,
        number: int,
        key: str,
        ticket: int,
        is_certain: bool,
        watch: partial[None],
        answer: Any,
    ) -> None:
        error = answer.exception
        with self._lock:
            is_spare = generation != self._generation
            if not is_spare and error is None:
                is_spare = self._armed.setdefault(key, watch) is not watch
            elif self._armed.get(key) is watch:  # the next listing that has it asks again
                del self._armed[key]
        if is_spare:  # the answer has brought it
            self._take_out(self._entries.place(key)[1], watch)
        if error is not None and not isinstance(error, NoNodeError | NoAuthError):
            self._lose(generation, error)
            return
        with self._lock:
            if generation != self._generation:
                return
            copy = self._entries.copy
            if error is None:
                raw, stat = answer.value
                state = raw or b"", stat.version, stat.mzxid, stat.ephemeralOwner, life_of(stat), is_certain
                is_in_doubt = copy.found(number, key, ticket, *state)
            elif isinstance(error, NoAuthError):
                is_in_doubt = False
            else:
                is_in_doubt = copy.not_found(number, key, ticket)
        if isinstance(error, NoAuthError):
            self._entries.reader.refused(number, key, ticket)
        if is_in_doubt:
            self._ask(generation, key, is_again=True)
        self._end_step(generation)


def _identity(stat: ZnodeStat | None) -> Life | None:
    return None if stat is None else life_of(stat)
