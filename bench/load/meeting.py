"""How the processes of a load begin together: by znodes of the very system that they put under load.

ROOT/NAME/ready/N    process N is there
ROOT/NAME/begin      the first process creates it when all are: the load begins

Each is created once more, without harm, if its answer is lost.
"""

from __future__ import annotations

import time
from typing import Any

from bench.load.plan import Plan

POLL_S = 0.05


class MeetingError(Exception):
    """The processes do not come together. The message says how many are there."""


class Meeting:
    """Seen by the first client of a process.

    :param number: of the process, among those of all hosts.
    """

    def __init__(self, client: Any, plan: Plan, number: int) -> None:
        self._client = client
        self._plan = plan
        path = f"{plan.root}/{plan.name}"
        self._ready, self._begin = f"{path}/ready", f"{path}/begin"
        self._number = number

    def come(self) -> None:
        """Say that this process is ready."""
        self._client.retry(self._client.ensure_path, f"{self._ready}/{self._number}")

    def begin(self) -> None:
        """Let the load begin as soon as all processes are there.

        :raises MeetingError: some do not come.
        """
        plan, ask = self._plan, self._client.retry
        wanted = plan.nodes * plan.processes
        deadline = time.monotonic() + plan.begin_timeout_s
        while (there := len(ask(self._client.get_children, self._ready))) < wanted:
            if time.monotonic() > deadline:
                raise MeetingError(f"{there} of {wanted} processes are ready after {plan.begin_timeout_s:g} s")
            self._client.handler.sleep_func(POLL_S)
        ask(self._client.ensure_path, self._begin)

    def wait_begin(self) -> None:
        """
        :raises MeetingError: it does not begin.
        """
        changed = self._client.handler.event_object()
        deadline = time.monotonic() + self._plan.begin_timeout_s
        while not self._client.retry(self._client.exists, self._begin, watch=lambda _: changed.set()):
            changed.wait(deadline - time.monotonic())
            if not changed.is_set():
                raise MeetingError(f"the load has not begun within {self._plan.begin_timeout_s:g} s")
            changed.clear()
