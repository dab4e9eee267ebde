"""Servers lose their data, a follower and a leader; an empty one takes the place of each."""

from __future__ import annotations

import time
from pathlib import Path

from tests.drills.calls import Goal
from tests.drills.stage import SESSION_TIMEOUT_S, Stage

PAGE = Path("docs/operations/replace-server.md")
ABOUT = "a follower and a leader are replaced by empty servers"
GOAL = Goal(allowed=frozenset({"connection_loss"}), most_share=0.003, longest_s=2.0)

AWAY_S = 1.5 * SESSION_TIMEOUT_S


def work(stage: Stage) -> None:
    """The two are of two ensembles. Each is away for longer than a session timeout.

    :raises LocalClusterError: the others do not serve, or the empty server does not get all of their data.
    """
    _, first, second = stage.cluster.ensembles
    follower, leader = first.followers()[0], second.leader()
    for ensemble, server, role in ((first, follower, "follower"), (second, leader, "leader")):
        is_ready, has_all = stage.commands(PAGE, {"ensemble": ensemble.name, "server": server.name})
        stage.lose_data(server, role)
        time.sleep(AWAY_S)
        stage.run(is_ready)
        stage.start(server)
        stage.run(has_all)
        stage.note_end()
