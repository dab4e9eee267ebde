"""Recipes of the asyncio client beside a client for threads, on real ensembles."""

from __future__ import annotations

from kazoo.client import KazooClient

from tests.aio import beside_case
from tests.live.world import shared_cluster


class TestBesideParKazoo(beside_case.BesideCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.hosts = shared_cluster(cls.ensembles).hosts


class TestBesideKazoo(TestBesideParKazoo):
    ensembles = 1
    other_kind = KazooClient
