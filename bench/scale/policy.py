"""How a client comes back: the pauses and the patience of `parkazoo.wire`, without its sockets."""

from __future__ import annotations

import random
from dataclasses import dataclass

from parkazoo.wire.race import PATIENCE_GROWTH, PATIENCE_S
from parkazoo.wire.rounds import LEAST_DELAY, MOST_DELAY_S

FIRST_PAUSE_S = 0.1  # of KazooClient's connection_retry, which doubles it
JITTER = 0.4  # more or less


@dataclass(frozen=True)
class Policy:
    """
    :param time_out_s: of the session.
    """

    time_out_s: float

    def pause_s(self, rounds: int, chance: random.Random) -> float:
        """Behind so many rounds in which every server refused."""
        most_s = min(MOST_DELAY_S, self.time_out_s / 3)
        pause_s = FIRST_PAUSE_S * 2.0 ** min(rounds - 1, 16) * chance.uniform(1 - JITTER, 1 + JITTER)
        return pause_s if pause_s <= most_s else most_s * chance.uniform(LEAST_DELAY, 1)

    def patience_s(self, too_slow: int) -> float:
        """How long a server may take to answer, after so many that were too slow."""
        return min(PATIENCE_S * float(PATIENCE_GROWTH) ** min(too_slow, 16), self.time_out_s)
