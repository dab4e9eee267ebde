"""All servers of one ensemble end, and come back after twice a session timeout."""

from __future__ import annotations

from tests.drills.calls import Goal
from tests.drills.stage import SESSION_TIMEOUT_S, Stage

ABOUT = "one ensemble of three is away for 20 s"
AWAY_S = 2 * SESSION_TIMEOUT_S
# docs/guide/holding-on.md: ConnectionLoss after the session timeout, or up to a quarter of it later. A call that
# waits for an earlier one of its client, as writes by `once` in one directory do, waits as long again.
GOAL = Goal(allowed=frozenset({"connection_loss"}), most_share=0.05, longest_s=2 * 1.25 * SESSION_TIMEOUT_S + 0.5)


def work(stage: Stage) -> None:
    """
    :raises LocalClusterError: a server does not come back.
    """
    stage.take_away(stage.cluster.ensembles[1], AWAY_S)
    stage.settle()
