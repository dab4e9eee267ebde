"""All servers are restarted one by one, each when `parkazoo check --stop` lets it."""

from __future__ import annotations

from pathlib import Path

from tests.drills.calls import Goal
from tests.drills.stage import Stage

PAGE = Path("docs/operations/rolling-restart.md")
ABOUT = "nine servers are restarted one by one"
GOAL = Goal(allowed=frozenset({"connection_loss"}), most_share=0.003, longest_s=2.0)


def work(stage: Stage) -> None:
    """Of each ensemble the leader last.

    :raises LocalClusterError: a server may not be stopped, or does not come back.
    """
    for ensemble in stage.cluster.ensembles:
        leader = ensemble.leader()
        for server in sorted(ensemble.servers, key=lambda each: each is leader):
            question, _ = stage.commands(PAGE, {"server": server.name})
            stage.run(question)
            stage.note_end()
            stage.restart(server, "leader" if server is leader else "follower")
    stage.settle()
    _, last = stage.commands(PAGE, {})
    stage.run(last)
