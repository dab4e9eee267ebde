"""Clients that tell of each request: to their own counters, or to a listener."""

from __future__ import annotations

from parkazoo import ParKazooClient
from parkazoo.monitoring import Listener, RequestEnded


class CountingClient(ParKazooClient):
    """It counts its requests."""

    def __init__(self, hosts: str) -> None:
        super().__init__(hosts, counters=True)


class HeardClient(ParKazooClient):
    """A listener hears of each request."""

    def __init__(self, hosts: str) -> None:
        super().__init__(hosts, listeners=[_Hears()])


class _Hears(Listener):
    def request_ended(self, event: RequestEnded) -> None:
        """Needs no time of its own."""
