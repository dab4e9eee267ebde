"""A follower that lags for as long as a test wants."""

from __future__ import annotations

import time

from parkazoo.local import LocalEnsemble
from tests.relay import Relay


class LaggingFollower:
    """A follower that hears of its leader through a relay: while that is frozen, it answers with what is old.

    Writes that reach it wait until the relay goes on. After `syncLimit` ticks it gives up its leader.

    :ivar server: the follower, which is started again for this.
    """

    def __init__(self, ensemble: LocalEnsemble) -> None:
        self.leader = ensemble.leader()
        self.server = ensemble.followers()[0]
        number = int((self.leader.data / "data" / "myid").read_text())
        (config,) = self.server.data.glob("zoo.cfg.dynamic.*")
        lines = config.read_text().splitlines()
        index = next(i for i, line in enumerate(lines) if line.startswith(f"server.{number}="))
        name, _, addresses = lines[index].partition("=")
        host, quorum, others = addresses.split(":", 2)
        self._relay = Relay(f"{host}:{quorum}")
        lines[index] = f"{name}={self._relay.address}:{others}"
        self.server.stop()
        config.write_text("\n".join(lines) + "\n")
        self.server.start()
        self.server.wait_serving()

    def freeze(self) -> None:
        """From now on it hears of nothing."""
        self._relay.freeze()

    def thaw(self) -> None:
        """It catches up."""
        self._relay.thaw()

    def cut(self, seconds: float) -> None:
        """For that long it has no leader; then it may find it again."""
        self._relay.refuse()
        time.sleep(seconds)
        self._relay.admit()

    def stop(self) -> None:
        """It has no leader any more."""
        self._relay.stop()
