"""The end of a session on an asyncio loop: it goes on by itself, whoever waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kazoo.exceptions import WriterNotClosedException

from parkazoo.aio.asyncio_runtime import AsyncioRuntime
from parkazoo.engine.session import Session
from parkazoo.wire.member import Member

LEAST_LIMIT_S = 10.0  # kazoo's


class Ending:
    """Finishes the operations that were issued, then closes the sessions. Each step has a limit.

    :param finishes: wait for the operations first.
    :param is_issuing: whether an answer may have another operation issued.
    :param on_end: called once, at the end.
    :ivar end: done at the end; its exception says that a server has not answered within the limit.
    """

    def __init__(
        self,
        session: Session[Member],
        runtime: AsyncioRuntime,
        session_timeout_s: float,
        finishes: bool,
        is_issuing: Callable[[], bool],
        on_end: Callable[[], None],
    ) -> None:
        self.end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._session = session
        self._runtime = runtime
        self._limit_s = max(session_timeout_s, LEAST_LIMIT_S)
        self._on_end = on_end
        self._is_closing = False
        session.is_leaving = True
        if session.driver is not None and finishes:
            self._timer = runtime.call_later(session_timeout_s, self._close)
            runtime.call(session.fail_away)
            session.when_idle(self._close, is_issuing)
        else:
            self._timer = runtime.call_later(session_timeout_s, self._close)
            runtime.call(self._close)

    def _close(self) -> None:
        """Nothing is under way any more, or that has taken too long."""
        if not self._is_closing:
            self._is_closing = True
            self._timer.cancel()
            self._timer = self._runtime.call_later(self._limit_s, self._give_up)
            if self._session.leaves_all:
                self._session.begin_stop()  # now: a connection that has just begun would take a session back
            self._session.stop(self._finish)

    def _finish(self) -> None:
        if not self.end.done():
            self._timer.cancel()
            self._session.close()
            self._on_end()
            self.end.set_result(None)

    def _give_up(self) -> None:
        if not self.end.done():
            self._on_end()
            self.end.add_done_callback(asyncio.Future.exception)  # perhaps nobody waits for it
            self.end.set_exception(
                WriterNotClosedException(f"a server has not closed its session within {self._limit_s:.0f} s")
            )
