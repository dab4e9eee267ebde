"""What servers say of themselves: bytes from and to clients, the size of their data, and of their files."""

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
LINE = re.compile(r"^(\w+):?\s+(\d+)$", re.MULTILINE)

Account = Mapping[str, int]


def ask_all(lab: Lab, ensembles: Ensembles) -> dict[str, Account]:
    """Of each server by its name; of one that does not answer, nothing."""

    def ask(server: Server) -> tuple[str, Account]:
        return server.name, read(lab.ask(server, "mntr") + lab.ask(server, "dirs"))

    with ThreadPoolExecutor(THREADS) as pool:
        return {name: account for name, account in pool.map(ask, ensembles.servers) if account}


def read(answers: str) -> Account:
    found = dict(LINE.findall(answers))
    names = {**COUNTED, **FOUND}
    if not found.keys() >= set(names.values()):
        return {}
    return {name: int(found[theirs]) for name, theirs in names.items()}


def between(before: Mapping[str, Account], after: Mapping[str, Account]) -> list[dict[str, Any]]:
    """Of each server that answered both times."""
    return [
        {
            "server": name,
            **{key: account[key] - before[name][key] for key in COUNTED},
            **{key: account[key] for key in FOUND},
        }
        for name, account in after.items()
        if name in before
    ]
