"""Followers that lag: frozen one after the other, so that they answer with what is old when they go on."""

from __future__ import annotations

import random
from contextlib import ExitStack

from kazoo.client import KazooClient

from parkazoo.local import LocalCluster, LocalServer
from tests.faults.stress_state import Stress, connect

FROZEN_S = (0.1, 0.6)
THAWED_S = 0.1
FENCE = "/parkazoo/fences/0"  # that its version changes makes a promotion begin again, no more


class Lag:
    """Freezes one follower after the other, and sees that it answers with what is old when it goes on."""

    def __init__(self, stress: Stress, cluster: LocalCluster, seed: int, stack: ExitStack) -> None:
        self._stress = stress
        self._dice = random.Random(f"{seed}/lag")
        self._leaders = [connect(ensemble.leader().address, stack) for ensemble in cluster.ensembles]
        self._followers = [
            (index, server, connect(server.address, stack))
            for index, ensemble in enumerate(cluster.ensembles)
            for server in ensemble.followers()
        ]
        for leader in self._leaders:
            leader.ensure_path(FENCE)

    def __str__(self) -> str:
        return "the freezer of followers"

    def work(self) -> None:
        try:
            while not self._stress.over.is_set():
                self._dice.shuffle(self._followers)
                for index, server, reader in self._followers:
                    self._freeze(self._leaders[index], server, reader)
        except Exception as error:
            self._stress.problem(f"no more followers are frozen: {error!r}")
            raise

    def _freeze(self, leader: KazooClient, server: LocalServer, reader: KazooClient) -> None:
        server.freeze()
        try:
            self._stress.over.wait(self._dice.uniform(*FROZEN_S))
            version = leader.set(FENCE, b"").version
            answer = reader.get_async(FENCE)
        finally:
            server.thaw()
        self._stress.add("followers frozen")
        self._stress.add(
            "followers seen to lag" if answer.get()[1].version < version else "followers not seen to lag"
        )
        self._stress.over.wait(THAWED_S)
