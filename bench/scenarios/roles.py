"""Who leads, and who serves."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from bench.lab import Ensembles, Lab, LabError, Server

TIMEOUT_S = 120.0
POLL_S = 0.05
EPOCH_BITS = 32  # the higher half of a zxid is the epoch of its leader
LEADING = ("leader", "standalone")

T = TypeVar("T")


def find_line(answer: str, name: str) -> str:
    """What a server's answer to ``srvr`` says after that name; empty if it does not serve."""
    return next((line[len(name) :].strip() for line in answer.splitlines() if line.startswith(name)), "")


def roles(lab: Lab, ensembles: Ensembles, ensemble: str = "a") -> dict[Server, str]:
    """Of each server of an ensemble that serves: leader, follower or standalone."""
    answers = {server: lab.ask(server, "srvr") for server in ensembles.of(ensemble)}
    return {server: mode for server, answer in answers.items() if (mode := find_line(answer, "Mode:"))}


def zxid(lab: Lab, server: Server) -> int:
    """Of the last entry that the server has; 0 if it does not serve."""
    return int(find_line(lab.ask(server, "srvr"), "Zxid:") or "0", 16)


def epoch(lab: Lab, ensembles: Ensembles, ensemble: str = "a") -> int:
    """The number of its leader: each that comes to lead has a higher one, also if it has led before."""
    return max(zxid(lab, server) for server in ensembles.of(ensemble)) >> EPOCH_BITS


def wait_leader(lab: Lab, ensembles: Ensembles, ensemble: str = "a") -> Server:
    """
    :raises LabError: there is none within two minutes.
    """

    def look() -> Server | None:
        return next((each for each, mode in roles(lab, ensembles, ensemble).items() if mode in LEADING), None)

    return wait_until(look, f"ensemble {ensemble} has no leader")


def wait_all_serve(lab: Lab, ensembles: Ensembles, ensemble: str = "a") -> None:
    """All follow one leader. One that was frozen may take itself for the leader for a moment when it wakes up.

    :raises LabError: not within two minutes.
    """
    count = len(ensembles.of(ensemble))

    def look() -> bool:
        modes = list(roles(lab, ensembles, ensemble).values())
        return len(modes) == count and sum(mode in LEADING for mode in modes) == 1

    wait_until(look, f"not all servers of ensemble {ensemble} serve, with one leader,")


def wait_caught_up(lab: Lab, ensembles: Ensembles) -> None:
    """Each server that serves has what another one of its ensemble had at first.

    A leader goes on without its slowest follower, and sends it the rest long after the last answer.

    :raises LabError: not within two minutes.
    """
    for name in ensembles.shape.names:
        has = {server: zxid(lab, server) for server in ensembles.of(name)}
        wanted = max(has.values())
        for server in (each for each, had in has.items() if 0 < had < wanted):
            wait_has(lab, server, wanted)


def wait_has(lab: Lab, server: Server, wanted: int) -> None:
    """
    :param wanted: the zxid of an entry that the server is to have.
    :raises LabError: not within two minutes.
    """
    wait_until(lambda: zxid(lab, server) >= wanted, f"{server.name} has not caught up")


def wait_until(look: Callable[[], T | None], trouble: str) -> T:
    """What `look` returns, as soon as that is something.

    :param trouble: what is to be said if it does not come.
    :raises LabError: not within two minutes.
    """
    deadline = time.monotonic() + TIMEOUT_S
    while not (found := look()):
        if time.monotonic() > deadline:
            raise LabError(f"{trouble} after {TIMEOUT_S:g} s")
        time.sleep(POLL_S)
    return found
