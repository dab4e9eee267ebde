"""What servers take: bytes from and to clients and other servers, memory, the size of their data and files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.lab import Ensembles, Lab, Server

THREADS = 8
# Of ZooKeeper's answers to mntr and dirs. The first two count up; the others are what there is.
COUNTED = {"received_bytes": "zk_bytes_received_count", "sent_bytes": "zk_response_bytes"}
FOUND = {"data_bytes": "zk_approximate_data_size", "files_bytes": "datadir_size"}
FORCE = re.compile(r"^zk_avg_fsynctime\s+([\d.]+)$", re.MULTILINE)
LINE = re.compile(r"^(\w+):?\s+(\d+)$", re.MULTILINE)
# Of Lab.weigh, as far as the lab has it. Cards count up; what clients have not sent and got is the other servers'.
AMONG = {
    "from_servers_bytes": ("card_received_bytes", "received_bytes"),
    "to_servers_bytes": ("card_sent_bytes", "sent_bytes"),
}
MEMORY = "memory_bytes"

Account = Mapping[str, int]


def ask_all(lab: Lab, ensembles: Ensembles) -> dict[str, Account]:
    """Of each server by its name; of one that does not answer, nothing."""

    def ask(server: Server) -> tuple[str, Account]:
        said = read(lab.ask(server, "mntr") + lab.ask(server, "dirs"))
        return server.name, {**said, **lab.weigh(server)} if said else {}

    with ThreadPoolExecutor(THREADS) as pool:
        return {name: account for name, account in pool.map(ask, ensembles.servers) if account}


def force_ms(lab: Lab, ensembles: Ensembles) -> list[float]:
    """What an fsync of its log has taken each server in the mean, as it says itself."""
    answers = (FORCE.search(lab.ask(server, "mntr")) for server in ensembles.servers)
    return [float(each[1]) for each in answers if each]


def read(answers: str) -> Account:
    found = dict(LINE.findall(answers))
    names = {**COUNTED, **FOUND}
    if not found.keys() >= set(names.values()):
        return {}
    return {name: int(found[theirs]) for name, theirs in names.items()}


def between(before: Mapping[str, Account], after: Mapping[str, Account]) -> list[dict[str, Any]]:
    """Of each server that answered both times."""
    return [{"server": name, **_between(before[name], each)} for name, each in after.items() if name in before]


def _between(before: Account, after: Account) -> Account:
    def counted(name: str) -> int:
        return after[name] - before[name]

    return {
        **{name: counted(name) for name in COUNTED},
        **{name: counted(card) - counted(theirs) for name, (card, theirs) in AMONG.items() if card in after},
        **{name: after[name] for name in (*FOUND, MEMORY) if name in after},
    }
