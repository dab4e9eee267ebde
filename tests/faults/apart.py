"""A client that is cut off from the bootstrap ensemble alone, again and again. It reaches all others."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from tests.faults.judges.spans import Spans
from tests.faults.load import Fault, Judgement, Record
from tests.faults.network import Network, both_ways

ABOUT = "A client that loses the bootstrap ensemble alone goes on, and follows the growth"
KIND = "client cut off"
LOAD, NUMBER = "registers", 0
NAME = f"{LOAD}/{NUMBER}"
MACHINE = "z1"


class Apart:
    """The machine of that client, and what is done to its cables.

    :param ensemble: the name of the one that it is cut off from. :param servers: their names.
    """

    def __init__(self, network: Network, ensemble: str, servers: Sequence[str]) -> None:
        self.inside = {NAME: network.machine_of(MACHINE).argv}
        self._network = network
        self.ensemble = ensemble
        self._servers = servers

    def cut(self, lasts_s: float) -> Fault:
        """For so long; then all is as before."""
        began_s = time.monotonic()
        with self._network.hushed(both_ways(MACHINE, self._servers)):
            since_s = time.monotonic()
            time.sleep(lasts_s)
            until_s = time.monotonic()
        return Fault(began_s, time.monotonic(), KIND, NAME, f"from {self.ensemble}", since_s, until_s)


def judge(faults: Sequence[Fault], records: Sequence[Record], ensemble: str) -> Judgement:
    """Whether the cuts have cut: the client says that this ensemble is gone, and that it has others.

    Only those cuts can show it in which nothing is wrong with the ensemble itself, nor with the client.

    :param records: of that client.
    """
    cuts = [each for each in faults if each.kind == KIND]
    others = Spans(
        each[:2]
        for each in faults
        if each.kind != KIND
        and (each.target.startswith(NAME) or each.target.partition(" ")[0].startswith(ensemble))
    )
    clear = [each for each in cuts if not others.touch(each.began_s, each.ended_s)]
    left = [
        each.at_s for each in records if each.what == "sessions" and _is_left(each.fields["sessions"], ensemble)
    ]
    seen = sum(any(cut.since_s < at_s < cut.until_s for at_s in left) for cut in clear)
    figures = {"cuts": len(cuts), "of them with no other fault there": len(clear), "seen by the client": seen}
    return Judgement([f"{NAME} has never seen {ensemble} go alone"] if clear and not seen else [], figures)


def _is_left(sessions: Mapping[str, object], ensemble: str) -> bool:
    return bool(sessions) and ensemble not in sessions
