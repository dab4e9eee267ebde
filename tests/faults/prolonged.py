"""Shows that a ZooKeeper follower which comes back prolongs sessions that began while it was away: kazoo alone.

    python -m tests.faults.prolonged

A follower is stopped; a process makes an ephemeral and is killed; shortly before its session would end, the
follower comes back. It reads in the log that the session began, and its next ping reports to the leader that the
session lives.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time

from kazoo.client import KazooClient
from rich.console import Console

from parkazoo.local import LocalCluster, LocalEnsemble

SESSION_TIMEOUT_S = 6.0
BACK_AFTER_S = 4.0
POLL_S = 0.05


def make_and_die(hosts: str, path: str) -> None:
    client = KazooClient(hosts, timeout=SESSION_TIMEOUT_S)
    client.start()
    client.create(path, ephemeral=True)
    signal.raise_signal(signal.SIGKILL)


def life_s(ensemble: LocalEnsemble, is_away: bool) -> float:
    """How long an ephemeral is there after the death of its process."""
    leader = ensemble.leader()
    follower = next(server for server in ensemble.servers if server is not leader)
    others = ",".join(server.address for server in ensemble.servers if server is not follower)
    if is_away:
        follower.kill()
    path = f"/ephemeral-{is_away}"
    subprocess.run([sys.executable, "-m", __spec__.name, others, path], check=False)
    died_s = time.monotonic()
    client = KazooClient(others)
    client.start()
    while client.exists(path):
        if is_away and time.monotonic() - died_s > BACK_AFTER_S:
            follower.start()
            is_away = False
        time.sleep(POLL_S)
    life = time.monotonic() - died_s
    client.stop()
    client.close()
    return life


def main() -> int:
    if sys.argv[1:]:
        make_and_die(*sys.argv[1:])
    console = Console(highlight=False)
    with LocalCluster(ensembles=1, servers=3, progress=console.print) as cluster:
        (ensemble,) = cluster.ensembles
        there, away = life_s(ensemble, is_away=False), life_s(ensemble, is_away=True)
    console.print(
        f"session timeout {SESSION_TIMEOUT_S:.1f} s; the ephemeral outlived its process by {there:.1f} s,"
    )
    console.print(f"and by {away:.1f} s where a follower came back after {BACK_AFTER_S:.1f} s")
    return int(away < there + BACK_AFTER_S / 2)


if __name__ == "__main__":
    sys.exit(main())
