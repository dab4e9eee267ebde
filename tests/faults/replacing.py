"""All servers are replaced by new ones, by ZooKeeper's reconfiguration, while the loads go on. No faults."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from parkazoo import ClusterMapError
from parkazoo.admin import change_hosts
from parkazoo.local import LocalCluster, LocalClusterError, LocalServer
from parkazoo.local.four_letter_words import four_letter_word
from tests.faults.crew import Crew
from tests.faults.load import Fault, Judgement
from tests.reconfigured import Reconfigured
from tests.relay import Relay

ABOUT = "Each server is replaced: clients leave it in time, keep their sessions, and forget its address"
KIND = "replace"
LEAVE_TIMEOUT_S = 60.0
SERVING_TIMEOUT_S = 120.0
POLL_S = 0.2
SESSION = re.compile(r"sid=0x([0-9a-f]+)")  # of a connection, in the answer to "cons"
LOST = re.compile(
    r"^.* (?:the session has expired|the session ends, because) .*$", re.MULTILINE
)  # in a client's log


class Replacing:
    """Replaces one server after the other, and sees that no client suffers.

    The new servers are on new ports. Relays lead to servers that stay, as a name in DNS would.

    :param hosts: of each ensemble, as they stand in the map; at the end they are the new ones.
    """

    def __init__(
        self,
        cluster: LocalCluster,
        relays: Mapping[str, Relay],
        hosts: dict[str, str],
        crew: Crew,
        tell: Callable[[str], None],
        journal: Path,
    ) -> None:
        self._cluster = cluster
        self._relays = relays
        self._hosts = hosts
        self._crew = crew
        self._tell = tell
        self._journal = journal
        self._old: list[LocalServer] = [each for ensemble in cluster.ensembles for each in ensemble.servers]
        self.faults: list[Fault] = []
        self.problems: list[str] = []
        self.judgement = Judgement([], {})

    def work(self, minutes: float) -> None:
        """Replace all, for at least that time; then look at what the clients know."""
        end_s = time.monotonic() + 60 * minutes
        lost_before = self._lost()
        try:
            for index in range(len(self._cluster.ensembles)):
                self._replace_all(index)
        except (LocalClusterError, ClusterMapError) as error:
            self.problems.append(f"replacing: {error}")
            return
        while (left_s := end_s - time.monotonic()) > 0:
            time.sleep(min(left_s, POLL_S))
        old = {each.address for each in self._old}
        problems = [f"a session was lost: {each}" for each in sorted(self._lost() - lost_before)]
        problems += self._wait_until_forgotten(old)
        self.judgement = Judgement(
            problems,
            {
                "servers replaced": len(self.faults),
                "clients that know the new ones": len(self._crew.servers()),
                "slowest to be left, s": f"{max(each.until_s - each.since_s for each in self.faults):.1f}",
            },
        )

    def _replace_all(self, index: int) -> None:
        name = self._cluster.ensembles[index].name
        relay = self._relays[name]
        with Reconfigured(self._cluster, index) as changing:
            for server in self._cluster.ensembles[index].servers:
                began_s = time.monotonic()
                new = changing.join()
                self._tell(f"{KIND}: {server.name} by {new.name}")
                relay.lead_to(new.address)
                since_s = time.monotonic()
                changing.leave(server)
                self._wait_until_left(server, changing.session)
                until_s = time.monotonic()
                server.stop()
                fault = Fault(began_s, time.monotonic(), KIND, server.name, "", since_s, until_s)
                self.faults.append(fault)
                with self._journal.open("a") as journal:
                    print(json.dumps(fault._asdict()), file=journal)
            for server in changing.ensemble.servers:  # an election may just have been
                server.wait_serving(SERVING_TIMEOUT_S)
        self._hosts[name] = f"{self._cluster.ensembles[index].hosts},{relay.address}"
        change_hosts(relay.address, {name: self._hosts[name]})

    def _wait_until_left(self, server: LocalServer, operator: int) -> None:
        """Whoever is there now has left; not the operator. Clients that start may still begin there."""
        deadline_s = time.monotonic() + LEAVE_TIMEOUT_S
        left = _sessions(server) - {operator}
        while left := left & _sessions(server):
            if time.monotonic() > deadline_s:
                names = ", ".join(f"0x{each:x}" for each in sorted(left))
                raise LocalClusterError(f"{names} on {server.name} {LEAVE_TIMEOUT_S:g} s after it left")
            time.sleep(POLL_S)

    def _wait_until_forgotten(self, old: set[str]) -> list[str]:
        """What clients know of old servers when they have had time enough."""
        deadline_s = time.monotonic() + LEAVE_TIMEOUT_S
        while time.monotonic() < deadline_s:
            found = {client: old & known for client, known in self._crew.servers().items()}
            if not any(found.values()):
                return []
            time.sleep(POLL_S)
        return [f"{client} still knows {', '.join(sorted(known))}" for client, known in found.items() if known]

    def _lost(self) -> set[str]:
        """What the clients say of sessions that they have lost so far."""
        return {
            each for member in self._crew.members for each in LOST.findall(member.log.read_text(errors="replace"))
        }


def _sessions(server: LocalServer) -> set[int]:
    """Of the clients that are connected to it."""
    return {int(each, 16) for each in SESSION.findall(four_letter_word(server.address, "cons"))}
