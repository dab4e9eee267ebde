"""Loads of a client for which all ensembles have one order, and of one for which they have not."""

from __future__ import annotations

from bench.client.paths import ENSEMBLES, make_leaves, spread_directories
from bench.client.single_client import AsyncGet
from parkazoo import ParKazooClient


class OrderedClient(ParKazooClient):
    """All ensembles have one order."""

    def __init__(self, hosts: str) -> None:
        super().__init__(hosts, consistency="total")


class StayingGet(AsyncGet):
    """Get of znodes on one of the ensembles."""

    def set_up(self) -> None:
        self.paths = make_leaves(self.client, spread_directories(self.root)[::ENSEMBLES])
