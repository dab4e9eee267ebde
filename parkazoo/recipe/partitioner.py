"""kazoo's SetPartitioner, whose wait ends at each state but ALLOCATING, and which leaves no listener."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from kazoo.exceptions import KazooException, NoNodeError
from kazoo.recipe.partitioner import PartitionState
from kazoo.recipe.partitioner import SetPartitioner as KazooSetPartitioner

from parkazoo.types.znodes import AsyncResult

log = logging.getLogger(__name__)


class SetPartitioner(KazooSetPartitioner):
    """Replaces kazoo's SetPartitioner: same methods, same znodes.

    If another program deletes its folders, or its member of the party, it makes them again and joins again before
    it allocates; kazoo's stays ALLOCATING for ever.
    """

    def __init__(self, client: Any, *args: object, **kwargs: object) -> None:
        self._is_decided = client.handler.event_object()
        super().__init__(client, *args, **kwargs)

    def wait_for_acquire(self, timeout: float | None = 30) -> None:
        """Waits while the state is ALLOCATING.

        :param timeout: seconds.
        """
        self._is_decided.wait(timeout)

    def _set_state(self, state: str) -> None:
        super()._set_state(state)
        if state == PartitionState.ALLOCATING:
            self._is_decided.clear()
        else:
            self._is_decided.set()

    def _fail_out(self) -> None:
        self._client.remove_listener(self._establish_sessionwatch)
        super()._fail_out()

    def _child_watching(self, func: Callable[[Any], object] | None = None, client_handler: bool = False) -> Any:
        """Join again, if need be, and wait until the party is stable."""
        try:
            self._party.join()
        except KazooException:
            self._fail_out()
            return None
        return super()._child_watching(func, client_handler)

    def _allocate_transition(self, result: AsyncResult[tuple[list[str], object]]) -> None:
        is_gone = isinstance(result.exception, NoNodeError)
        if is_gone or (result.exception is None and self._party.node not in result.get()[0]):
            if self.allocating:
                self._child_watching(self._allocate_transition, client_handler=True)
            return
        try:
            super()._allocate_transition(result)
        except Exception:
            log.exception("a partition could not be allocated")
            self._fail_out()
