"""How the processes of a load begin and end together: by znodes of the very system that they put under load.

ROOT/NAME/counter    how many clients are connected
ROOT/NAME/barrier    the first process removes it when all are: the load begins
ROOT/NAME/finish     the first process creates it when the time is over; all clients watch it
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from kazoo.exceptions import KazooException
from kazoo.protocol.states import ZnodeStat
from kazoo.recipe.barrier import Barrier
from kazoo.recipe.counter import Counter

from bench.load.plan import Plan

POLL_S = 0.05
END_TIMEOUT_S = 60.0


class MeetingError(Exception):
    """The processes do not come together. The message says who is missing."""


class Meeting:
    """Seen by one client.

    :param finish: an event of the client's handler; set when the load is over.
    """

    def __init__(self, client: Any, plan: Plan) -> None:
        self._client = client
        self._plan = plan
        self._path = f"{plan.root}/{plan.name}"
        self._barrier = Barrier(client, self._path + "/barrier")
        self.finish = client.handler.event_object()

    def count_in(self, clients: int) -> None:
        """Report that so many clients are ready."""
        self._barrier.create()
        counter = Counter(self._client, self._path + "/counter")
        counter += clients

    def watch_finish(self) -> None:
        """A watch that survives the loss of a connection."""
        self._client.DataWatch(self._path + "/finish", self._look)

    def _look(self, _: bytes | None, stat: ZnodeStat | None) -> bool | None:
        if stat is None:
            return None
        self.finish.set()
        return False  # the watch has done its work

    def wait_begin(self) -> None:
        """
        :raises MeetingError: the barrier stays where it is.
        """
        if not self._barrier.wait(self._plan.begin_timeout_s):
            raise MeetingError(f"the load has not begun within {self._plan.begin_timeout_s:g} s")

    def begin(self) -> None:
        """Remove the barrier as soon as all clients are there.

        :raises MeetingError: some do not come.
        """
        counter = Counter(self._client, self._path + "/counter")
        deadline = time.monotonic() + self._plan.begin_timeout_s
        while (there := counter.value) < self._plan.clients:
            if time.monotonic() > deadline:
                raise MeetingError(
                    f"{there} of {self._plan.clients} clients are connected after {self._plan.begin_timeout_s:g} s"
                )
            self._client.handler.sleep_func(POLL_S)
        self._barrier.remove()

    def end(self) -> None:
        """Create the znode that ends the load. While its ensemble does not serve, the load goes on.

        :raises MeetingError: it cannot be created.
        """
        deadline = time.monotonic() + END_TIMEOUT_S
        while not self._has_finished():
            if time.monotonic() > deadline:
                raise MeetingError(f"the load cannot be ended: no znode can be created within {END_TIMEOUT_S:g} s")
            self._client.handler.sleep_func(POLL_S)

    def _has_finished(self) -> bool:
        with suppress(KazooException):
            self._client.ensure_path(self._path + "/finish")
            return True
        return False
