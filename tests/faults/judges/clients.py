"""The journals of processes with several clients, as if each client were a worker."""

from __future__ import annotations

from collections.abc import Iterator

from tests.faults.load import Fault, Record, Run

MANY = 1000  # more than the clients of a process


def by_client(run: Run, load: str, clients: int) -> Run:
    """The same, in which client 7 of worker 1 is worker 1007.

    :param load: its name. :param clients: how many each process has.
    """
    return run._replace(records=[*_records(run)], faults=[*_faults(run, load, clients)])


def _records(run: Run) -> Iterator[Record]:
    """What a process records of itself is each client's."""
    clients: dict[tuple[int, int], set[int]] = {}
    for record in run.records:
        if "client" in record.fields:
            clients.setdefault((record.worker, record.life), set()).add(record.fields["client"])
    for record in run.records:
        own = [record.fields["client"]] if "client" in record.fields else clients.get(record[1:3], ())
        what = "state" if record.what == "seen" else record.what
        if record.worker < 0:
            yield record
        for client in own:
            yield record._replace(worker=MANY * record.worker + client, what=what)


def _faults(run: Run, load: str, clients: int) -> Iterator[Fault]:
    """A session that is expired is one client's, but no record says whose."""
    for fault in run.faults:
        yield fault
        process, _, ensemble = fault.target.partition(" on ")
        name, _, number = process.partition("/")
        if fault.kind == "expire" and name == load:
            for client in range(clients):
                yield fault._replace(target=f"{name}/{MANY * int(number) + client} on {ensemble}")
