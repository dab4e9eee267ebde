"""Requests that come before they can be taken."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

from parkazoo.engine.ports import AbandonedError, Reply, give, is_abandoned, note_kept
from parkazoo.protocol.steps import Request

RequestT = TypeVar("RequestT", bound=Request)


class Early(Generic[RequestT]):
    """Keeps requests in their order until it may pass them on. Any thread may call.

    :param refusal: why none is kept any more; None as long as they are.
    """

    def __init__(self, lock: AbstractContextManager[object], refusal: Callable[[], Exception | None]) -> None:
        self._lock = lock
        self._refusal = refusal
        self._kept: list[tuple[RequestT, Reply | None]] = []
        self._pass_on: Callable[[RequestT, Reply | None], None] | None = None

    @property
    def is_open(self) -> bool:
        return self._pass_on is not None

    @property
    def kept(self) -> int:
        """How many are kept."""
        return len(self._kept)

    def call(self, request: RequestT, reply: Reply | None) -> None:
        error: Exception | None = None
        with self._lock:
            pass_on = self._pass_on
            if pass_on is None and (error := self._refusal()) is None:
                note_kept(reply)
                self._kept.append((request, reply))
                return
        if pass_on is not None:
            pass_on(request, reply)
        elif reply is not None and error is not None:
            reply.set_exception(error)

    def open(self, pass_on: Callable[[RequestT, Reply | None], None]) -> None:
        """Pass on the kept calls for whose answers somebody waits, and from then on all calls."""
        while True:
            with self._lock:
                if not self._kept:
                    self._pass_on = pass_on
                    return
                kept, self._kept = self._kept, []
            for request, reply in kept:
                if is_abandoned(reply):
                    give(reply, AbandonedError())
                else:
                    pass_on(request, reply)

    def fail(self, make_error: Callable[[], Exception | None] | None = None) -> None:
        """Answer the kept calls.

        :param make_error: makes an error for each; without it, it is the refusal, which is there by now.
        """
        with self._lock:
            kept, self._kept = self._kept, []
        for _, reply in kept:
            if reply is not None and (error := (make_error or self._refusal)()) is not None:
                reply.set_exception(error)
