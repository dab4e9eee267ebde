"""Which requests each of kazoo's recipes makes, with kazoo on one ensemble and with ParKazooClient on three.

Requests are counted on their way: each server is behind a relay that reads the type of every request. One client
uses each recipe alone, twice: the first time makes what the recipe needs, the second time shows its usual cost.
Pings are not counted.
"""

from __future__ import annotations

import argparse
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from rich.console import Console
from rich.table import Table

from bench import WIDTH
from bench.bare_requests import DELETE, HEADER, INT, PING, text
from bench.documents import as_text, results_file
from bench.machine import describe_machine, describe_versions
from parkazoo import ParKazooClient
from parkazoo.admin import init_map
from parkazoo.local import HOST, LocalCluster, LocalClusterError
from parkazoo.protocol import past
from parkazoo.wire.loop import READ_BYTES

COUNTED_ENSEMBLES = 3
KINDS = {
    1: "create",
    DELETE: "delete",
    3: "exists",
    4: "get",
    5: "set",
    6: "get_acls",
    7: "set_acls",
    8: "get_children",
    9: "sync",
    PING: "ping",
    12: "get_children",
    13: "check",
    14: "transaction",
    15: "create",
    18: "remove_watch",
    101: "set_watches",
    105: "set_watches",
    106: "add_watch",
    -11: "close",
}
CONNECT = "connect"
# A delete that always fails: what is read behind it is not older than this client's writes on other ensembles.
CATCH_UP, OF_THE_PAST = "catch_up", text(past.CATCH_UP.path)
QUIET_S = 0.3  # without a request: then all that belongs to a recipe was counted
FIRST, AGAIN = "first", "again"


def _lock(client: Any, path: str) -> None:
    with client.Lock(path, "me"):
        pass


def _read_lock(client: Any, path: str) -> None:
    with client.ReadLock(path, "me"):
        pass


def _write_lock(client: Any, path: str) -> None:
    with client.WriteLock(path, "me"):
        pass


def _semaphore(client: Any, path: str) -> None:
    with client.Semaphore(path, "me", max_leases=2):
        pass


def _barrier(client: Any, path: str) -> None:
    barrier = client.Barrier(path)
    barrier.create()
    barrier.remove()
    barrier.wait(1)


def _double_barrier(client: Any, path: str) -> None:
    barrier = client.DoubleBarrier(path, 1, "me")
    barrier.enter()
    barrier.leave()


def _counter(client: Any, path: str) -> None:
    counter = client.Counter(path)
    counter += 1


def _election(client: Any, path: str) -> None:
    client.Election(path, "me").run(lambda: None)


def _party(client: Any, path: str) -> None:
    party = client.Party(path, "me")
    party.join()
    list(party)
    party.leave()


def _shallow_party(client: Any, path: str) -> None:
    party = client.ShallowParty(path, "me")
    party.join()
    list(party)
    party.leave()


def _queue(client: Any, path: str) -> None:
    queue = client.Queue(path)
    queue.put(b"item")
    queue.get()


def _locking_queue(client: Any, path: str) -> None:
    queue = client.LockingQueue(path)
    queue.put(b"item")
    queue.get(1)
    queue.consume()


def _set_partitioner(client: Any, path: str) -> None:
    partitioner = client.SetPartitioner(path, {"a", "b"}, identifier="me", time_boundary=0.1)
    partitioner.wait_for_acquire(10)
    partitioner.finish()


def _lease(client: Any, path: str) -> None:
    from datetime import timedelta  # noqa: PLC0415 - of this recipe alone

    if not client.NonBlockingLease(path, timedelta(microseconds=1), "me"):
        raise RuntimeError("the lease was refused")


def _data_watch(client: Any, path: str) -> None:
    client.ensure_path(path)
    client.DataWatch(path, lambda data, stat: False)


def _children_watch(client: Any, path: str) -> None:
    client.ensure_path(path)
    client.ChildrenWatch(path, lambda children: False)


# What is done with each recipe once.
RECIPES: dict[str, tuple[str, Callable[[Any, str], None]]] = {
    "Lock": ("acquire, release", _lock),
    "ReadLock": ("acquire, release", _read_lock),
    "WriteLock": ("acquire, release", _write_lock),
    "Semaphore": ("acquire, release", _semaphore),
    "Barrier": ("create, remove, wait", _barrier),
    "DoubleBarrier": ("enter, leave, of one client", _double_barrier),
    "Counter": ("add 1", _counter),
    "Election": ("run", _election),
    "Party": ("join, list, leave", _party),
    "ShallowParty": ("join, list, leave", _shallow_party),
    "Queue": ("put, get", _queue),
    "LockingQueue": ("put, get, consume", _locking_queue),
    "SetPartitioner": ("acquire two items, finish", _set_partitioner),
    "NonBlockingLease": ("take", _lease),
    "DataWatch": ("begin, with ensure_path", _data_watch),
    "ChildrenWatch": ("begin, with ensure_path", _children_watch),
}


class Counted:
    """An address that leads to a server, and counts the requests that pass.

    :param target: host and port of the server.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = host, int(port)
        self._door = socket.create_server((HOST, 0))
        self.address = f"{HOST}:{self._door.getsockname()[1]}"
        self.requests: Counter[str] = Counter()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._door.close()

    def _accept(self) -> None:
        with suppress(OSError):  # the door is closed
            while True:
                client, _ = self._door.accept()
                server = socket.create_connection(self._target)
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for source, target, count in ((client, server, self._reader()), (server, client, None)):
                    threading.Thread(target=_pass_on, args=(source, target, count), daemon=True).start()

    def _reader(self) -> Callable[[bytes], None]:
        """For one connection: it takes what the client sends, and counts."""
        buffer = bytearray()
        kinds: list[str] = [CONNECT]  # of the first frame, which has no type

        def read(part: bytes) -> None:
            buffer.extend(part)
            while len(buffer) >= HEADER.size:
                length, _, kind = HEADER.unpack_from(buffer)
                if len(buffer) < INT.size + length:
                    return
                body = bytes(buffer[HEADER.size : INT.size + length])
                self.requests[kinds.pop() if kinds else _name(kind, body)] += 1
                del buffer[: INT.size + length]

        return read


def _name(kind: int, body: bytes) -> str:
    if kind == DELETE and body.startswith(OF_THE_PAST):
        return CATCH_UP
    return KINDS.get(kind, f"type {kind}")


def _pass_on(source: socket.socket, target: socket.socket, read: Callable[[bytes], None] | None) -> None:
    with suppress(OSError):
        while part := source.recv(READ_BYTES):
            if read:
                read(part)
            target.sendall(part)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@contextmanager
def counted_ensembles(tell: Callable[[str], None]) -> Iterator[list[Counted]]:
    """Three ensembles of one server each behind relays, which the cluster map names.

    :raises LocalClusterError: servers cannot be started.
    """
    cluster = LocalCluster(COUNTED_ENSEMBLES, 1, make_map=False, progress=tell)
    cluster.start()
    relays: list[Counted] = []
    try:
        relays += [Counted(ensemble.hosts) for ensemble in cluster.ensembles]
        names = [ensemble.name for ensemble in cluster.ensembles]
        init_map(relays[0].address, {name: each.address for name, each in zip(names, relays, strict=True)})
        yield relays
    finally:
        for each in relays:
            each.close()
        cluster.stop()


def count(relays: Sequence[Counted], work: Callable[[], None]) -> dict[str, int]:
    """The requests that are made from its beginning until there are no more."""
    before = _all(relays)
    work()
    seen = _all(relays)
    while True:
        time.sleep(QUIET_S)
        if (now := _all(relays)) == seen:
            return dict(sorted((now - before).items()))
        seen = now


def _all(relays: Sequence[Counted]) -> Counter[str]:
    """So far, without pings."""
    total = sum((each.requests for each in relays), Counter[str]())
    del total["ping"]
    return total


def measure(relays: Sequence[Counted]) -> list[dict[str, Any]]:
    """A record for each recipe, system, and time."""
    records = []
    for system, client_class in {"kazoo": KazooClient, "parkazoo": ParKazooClient}.items():
        client: Any = client_class(relays[0].address)
        client.start()
        try:
            for name, (what, use) in RECIPES.items():
                path = f"/with-{system}/{name}"
                for which in (FIRST, AGAIN):
                    requests = count(relays, partial(use, client, path))
                    records.append(
                        {"recipe": name, "does": what, "system": system, "time": which, "requests": requests}
                    )
        finally:
            client.stop()
            client.close()
    return records


def make_table(records: Sequence[Mapping[str, Any]]) -> Table:
    """Of the second time; and how many there are the first time."""
    found = {(each["recipe"], each["system"], each["time"]): each["requests"] for each in records}
    table = Table("recipe", "what is done", "kazoo", "first time", "ParKazoo", "first time")
    for name, (what, _) in RECIPES.items():
        row = [name, what]
        for system in ("kazoo", "parkazoo"):
            row += [in_words(found[name, system, AGAIN]), str(sum(found[name, system, FIRST].values()))]
        table.add_row(*row)
    return table


def in_words(requests: Mapping[str, int]) -> str:
    """2 create, 1 delete: 3"""
    return ", ".join(f"{count} {kind}" for kind, count in requests.items()) + f": {sum(requests.values())}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.recipe_requests", description=__doc__)
    parser.add_argument("--out", metavar="FILE", type=Path, help="for the results, as JSON")
    path = results_file(parser, parser.parse_args().out, "recipes")
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    try:
        with counted_ensembles(console.print) as relays:
            records = measure(relays)
    except LocalClusterError as error:
        console.print(str(error), markup=False, highlight=False, style="bold")
        return 1
    about: dict[str, Any] = {"date": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "ensembles": f"{COUNTED_ENSEMBLES}x1"}
    about |= {"machine": describe_machine(), "versions": describe_versions()}
    path.write_text(as_text({"about": about, "recipes": records}))
    console.print(make_table(records))
    console.print(str(path), highlight=False, soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
