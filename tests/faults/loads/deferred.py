"""Deferred writes: what is done is a prefix of what was issued, on each ensemble, and each write is done once.

Each worker puts 1, 2, 3 and so on into znodes of its own, one for each of several directories. So if all is well
the version of a znode is its value.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from kazoo.exceptions import NodeExistsError

from parkazoo import DeferredError
from tests.faults.load import InterruptedCallError, Worker
from tests.faults.retries import until_answered

DIRECTORIES, MOST = 6, 2000
SHARE_LIMITED = 0.002  # of the puts may have a time limit


class DeferredLoad:
    name = "deferred"
    about = "deferred writes are a prefix, and once"
    processes = 3

    def prepare(self, client: Any, root: str) -> None:
        for number in range(DIRECTORIES):
            client.create(f"{root}/d{number}")

    def work(self, worker: Worker) -> None:
        client = worker.connect()
        until_answered(
            lambda: client.create(f"{worker.root}/d0/e", ephemeral=True, sequence=True)
        )  # it can be LOST
        number = 0
        while not worker.is_over():
            number += 1
            names = [f"d{each}/{worker.number}-{worker.life}-{number}" for each in range(DIRECTORIES)]
            for name in names:
                until_answered(lambda name=name: _make(client, f"{worker.root}/{name}"))
            self._write(worker, client, names)
        client.stop()

    def _write(self, worker: Worker, client: Any, names: list[str]) -> None:
        tickets: dict[str, list[Any]] = {name: [] for name in names}
        later = client.deferred()
        each = worker.dice.randrange(1, MOST)
        worker.record("issuing", names=names, each=each)
        try:
            for value in range(1, each + 1):
                for name in names:
                    self._put(worker, later, name, value, tickets[name])
                if worker.dice.random() < 0.02:
                    worker.pause(0.02)
            with worker.limited():
                later.barrier()
            worker.record("barrier", names=names, each=each)
        except (DeferredError, InterruptedCallError) as error:
            worker.record("refused", error=str(error)[:200])
        _close(later)
        for name, some in tickets.items():
            worker.record("told", name=name, states=_counts([ticket.state for ticket in some]))

    def _put(self, worker: Worker, later: Any, name: str, value: int, tickets: list[Any]) -> None:
        """One that is interrupted has no ticket, and may land. It is the last: all those behind it are refused."""
        try:
            if worker.dice.random() < SHARE_LIMITED:
                with worker.limited():
                    ticket = later.put(f"{worker.root}/{name}", b"%d" % value)
            else:
                ticket = later.put(f"{worker.root}/{name}", b"%d" % value)
        except InterruptedCallError:
            worker.record("without a ticket", name=name)
            raise DeferredError("interrupted") from None
        tickets.append(ticket)

    def finish(self, client: Any, root: str, record: Any) -> None:
        for number in range(DIRECTORIES):
            client.sync(f"{root}/d{number}")
            for name in client.get_children(f"{root}/d{number}"):
                data, stat = client.get(f"{root}/d{number}/{name}")
                record("found", name=f"d{number}/{name}", value=int(data or b"0"), version=stat.version)


def _make(client: Any, path: str) -> None:
    with suppress(NodeExistsError):  # by an attempt whose answer was lost
        client.create(path)


def _close(later: Any) -> None:
    with suppress(DeferredError):  # the tickets say it
        later.close()


def _counts(states: list[str]) -> list[tuple[str, int]]:
    """Each run of equal states, and its length."""
    counts: list[tuple[str, int]] = []
    for state in states:
        if counts and counts[-1][0] == state:
            counts[-1] = state, counts[-1][1] + 1
        else:
            counts.append((state, 1))
    return counts


LOAD = DeferredLoad()
