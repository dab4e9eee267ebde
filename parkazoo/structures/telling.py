"""Calls the user's callbacks for changes in a DistributedDict, on a thread or greenlet of its own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from parkazoo.structures.local_copy import Entry, LocalCopy
from parkazoo.types.handlers import Handler, Log
from parkazoo.wire.workers import SoleWorker

OnChange = Callable[[str, Any, Any, "int | None"], object]


class Teller:
    """Calls the callbacks for each changed key, with its old and its new value.

    The changes of a key come in order. Changes that arrive while a callback runs become one, so that the queue
    holds at most each key once, and the last state always comes.

    :param decode: returns the value of a key's entry. :param log: for exceptions of callbacks.
    """

    def __init__(self, handler: Handler, decode: Callable[[str, Entry], object], log: Log) -> None:
        self._worker = SoleWorker(handler, lambda: self._pending, self._tell_all)
        self._decode = decode
        self._log = log
        self._callbacks: tuple[OnChange, ...] = ()
        self._pending: dict[str, Entry | None] = {}  # what each was before the first change that is not told
        self._untold: dict[str, Entry | None] = {}  # the last one told, before a value that cannot be read
        self._is_closed = False
        self.copy: LocalCopy
        self.lock: AbstractContextManager[object]

    def add(self, callback: OnChange) -> None:
        """
        :raises RuntimeError: it is closed.
        """
        with self.lock:
            if self._is_closed:
                raise RuntimeError("the dictionary is closed: no change is told any more")
            self._callbacks = (*self._callbacks, callback)

    def close(self) -> None:
        """Calls no callback any more; one may still be running."""
        with self.lock:
            self._is_closed = True
            self._callbacks = ()
            self._pending.clear()

    def changed(self, key: str, before: Entry | None) -> None:
        """With the lock held."""
        if not self._callbacks:
            return
        self._pending.setdefault(key, before)
        self._worker.ask()

    def _tell_all(self) -> None:
        while True:
            with self.lock:
                if not self._pending:
                    return
                key = next(iter(self._pending))
                before = self._pending.pop(key)
                before = self._untold.pop(key, before)
                now = self.copy.entries.get(key)
            if before is not now:
                self._tell(key, before, now)

    def _tell(self, key: str, before: Entry | None, now: Entry | None) -> None:
        try:
            new = None if now is None else self._decode(key, now)
        except Exception:
            self._log.exception("DistributedDict: a value of %r cannot be read, so no callback hears of it", key)
            self._untold[key] = before
            return
        try:
            old = None if before is None else self._decode(key, before)
        except Exception:  # it was there before the first callback
            old = None
        for callback in self._callbacks:
            if self._is_closed:
                return
            try:
                is_last = callback(key, old, new, None if now is None else now.version) is False
            except BaseException:  # a SystemExit or a gevent.Timeout too: the next change must be told
                self._log.exception("DistributedDict: error in a callback of on_change, for key %r", key)
                continue
            if is_last:
                with self.lock:
                    self._callbacks = tuple(each for each in self._callbacks if each is not callback)
