"""The turns of the tasks that share a recipe's object."""

from __future__ import annotations

import asyncio


class TaskTurns:
    """One task at a time has the turn; the others wait in order.

    Unlike an asyncio.Lock it knows no loop: an object may serve one loop after the other.
    """

    def __init__(self) -> None:
        self.is_taken = False
        self._waiting: list[asyncio.Future[None]] = []  # a deque needs ten times the memory while it is empty

    async def take(self) -> None:
        if not self.is_taken:
            self.is_taken = True
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except BaseException:
            if not turn.cancelled():  # it had been given the turn
                self.give()
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise

    def give(self) -> None:
        """To the next one."""
        while self._waiting:
            turn = self._waiting.pop(0)
            if not turn.done():
                turn.set_result(None)
                return
        self.is_taken = False
