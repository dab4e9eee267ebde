"""The states of a client, one after the other."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from kazoo.exceptions import ConnectionClosedError

from parkazoo.aio.waking import set_event
from parkazoo.wire.member import FINAL_STATES

if TYPE_CHECKING:
    from parkazoo.aio.async_client import ParKazooClient


class ClientStates:
    """``async for`` it: the client's KazooState, and each later one; none is left out.

    It hears of them from the first ``anext`` on, until :meth:`aclose`, or until nobody has it any more. If waiting
    for the next is cancelled, nothing is lost.
    """

    def __init__(self, client: ParKazooClient) -> None:
        self._client = client
        self._heard: _Heard | None = None
        self._has_ended = False

    def __aiter__(self) -> ClientStates:
        return self

    async def __anext__(self) -> str:
        """It ends when the client stops.

        :raises ConnectionClosedError: the client does not run. :raises RuntimeError: it runs on another loop.
        """
        self._client.verify_here()
        if self._heard is None and not self._has_ended:
            self._heard = self._hear()
        while (heard := self._heard) is not None:
            if heard.states:
                state = heard.states.popleft()
                if state is not None:
                    return state
                self._end()
            else:
                heard.has_come.clear()
                await heard.has_come.wait()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Ends the iteration."""
        heard = self._heard
        self._end()
        if heard is not None:
            heard.has_come.set()

    def __del__(self) -> None:
        self._end()

    def _hear(self) -> _Heard:
        client = self._client
        if client._loop is None:
            raise ConnectionClosedError("the client does not run")
        heard = _Heard(client.state)
        if client.client_state in FINAL_STATES:
            heard.note(None)
        client.add_listener(heard.note)
        client._ends[heard.note] = None
        return heard

    def _end(self) -> None:
        heard, self._heard, self._has_ended = self._heard, None, True
        if heard is not None:
            self._client.remove_listener(heard.note)
            self._client._ends.pop(heard.note, None)


class _Heard:
    """The states that have come. The client refers to this alone.

    :ivar states: None is the end.
    """

    def __init__(self, first: str) -> None:
        self.states: deque[str | None] = deque([first])
        self.has_come = asyncio.Event()

    def note(self, state: str | None) -> None:
        self.states.append(state)
        set_event(self.has_come)
