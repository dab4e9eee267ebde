"""Recipes of the asyncio client beside a client for threads, over ZooKeeper in memory."""

from __future__ import annotations

from kazoo.client import KazooClient

from tests.aio import beside_case
from tests.fakes.zookeeper import Ensembles


class TestBesideParKazoo(beside_case.BesideCase):
    async def asyncSetUp(self) -> None:
        cluster = Ensembles(self.ensembles)
        await cluster.__aenter__()
        self.addAsyncCleanup(cluster.__aexit__, None, None, None)
        self.hosts = cluster.hosts
        await super().asyncSetUp()


class TestBesideKazoo(TestBesideParKazoo):
    ensembles = 1
    other_kind = KazooClient
