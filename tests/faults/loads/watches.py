"""Watches: every change and every event recorded; none lost, none twice, none out of order for a znode.

Only the first worker changes anything: directories whose children live on the same ensemble and on another, and
leaves. It creates, sets and deletes them, gives them children and removes these. Each value is the number of its
change. The others watch the data, the existence and the children of all of that, and set each watch again after
its event. They also read without a watch.
"""

from __future__ import annotations

import itertools
import queue
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from kazoo.exceptions import NodeExistsError, NoNodeError, NotEmptyError

from tests.faults import catching_up
from tests.faults.load import Worker
from tests.faults.retries import LOST, beating, until_answered

WRITERS_PREDECESSOR_S = 12.0  # what a killed writer has sent may arrive until its session has expired
RETRY_S = 0.2
PROBE_S = 0.3
SHARE_PROBED = 0.2
LEAVES = 2


class WatchesLoad:
    name = "watches"
    about = "Watches: no event is lost, doubled, untrue or out of order for a znode"
    processes = 3

    def prepare(self, client: Any, root: str) -> None:
        for base in {path.rpartition("/")[0] for path in _directories(client, root)}:
            client.create(base)

    def work(self, worker: Worker) -> None:
        client = worker.connect()
        with beating(worker):
            if worker.number == 0:
                Writer(worker, client).work()
            else:
                Watcher(worker, client).work()
        client.stop()

    def finish(self, client: Any, root: str, record: Any) -> None:
        pass


def _directories(client: Any, root: str) -> list[str]:
    """Two whose children live where they do, and two whose children live elsewhere, of two homes."""
    placement = client.cluster_map.make_placement()
    found: dict[tuple[int, bool], str] = {}
    for base, number in itertools.product(range(20), range(20)):
        path = f"{root}/{base}/{number}"
        home, children = placement.of_children(f"{root}/{base}"), placement.of_children(path)
        homes = {home for home, _ in found}
        if home in homes or len(homes) < 2:
            found.setdefault((home, home == children), path)
    return sorted(found.values())


# ---- the one who writes --------------------------------------------------------------------------


class Writer:
    def __init__(self, worker: Worker, client: Any) -> None:
        self._worker = worker
        self._client = client
        directories = _directories(client, worker.root)
        self._leaves = [f"{directories[0].rpartition('/')[0]}/leaf{number}" for number in range(LEAVES)]
        self._paths = directories + self._leaves
        self._data: dict[str, int | None] = {}
        self._children: dict[str, list[str]] = {}
        self._numbers = itertools.count(worker.life * 10**9 + 1)

    def work(self) -> None:
        if self._worker.life:
            self._worker.pause(WRITERS_PREDECESSOR_S)
        for path in self._paths:
            until_answered(partial(self._find, path))
        fresh = {*self._paths}
        while not self._worker.is_over():
            path = self._worker.dice.choice(self._paths)
            kind = self._worker.dice.choice(self._possible(path))
            self._change(path, kind, path in fresh)
            fresh.discard(path)
            self._worker.pause(self._worker.dice.uniform(0.0, 0.15))

    def _possible(self, path: str) -> list[str]:
        if self._data[path] is None:
            return ["create"]
        if path in self._leaves:
            return ["set", "set", "delete"]
        return ["set", "add", "drop", "drop"] if self._children[path] else ["set", "add", "add", "delete"]

    def _change(self, path: str, kind: str, is_first: bool) -> None:
        number = next(self._numbers)
        value = b"%d" % number
        child = self._worker.dice.choice(self._children[path]) if kind == "drop" else f"child{number}"
        self._worker.record("changing", path=path, kind=kind, number=number, child=child)
        stat = None
        try:
            if kind == "create":
                _, stat = self._client.create(path, value, include_data=True)
                self._data[path], self._children[path] = number, []
            elif kind == "set":
                stat = self._client.set(path, value)
                self._data[path] = number
            elif kind == "delete":
                self._client.delete(path)
                self._data[path], self._children[path] = None, []
            elif kind == "add":
                self._client.create(f"{path}/{child}", value)
                self._children[path].append(child)
            else:
                self._client.delete(f"{path}/{child}")
                self._children[path].remove(child)
        except LOST:
            until_answered(partial(self._find, path))
        except (NodeExistsError, NoNodeError, NotEmptyError) as error:
            self._worker.record("contradicted", path=path, number=number, error=repr(error), is_first=is_first)
            until_answered(partial(self._find, path))
        else:
            self._worker.record("changed", path=path, number=number, znode=_znode(stat), value=number)

    def _find(self, path: str) -> None:
        """Look what is there: no other worker changes it."""
        catching_up.refresh(self._client, path.rpartition("/")[0], path)
        stat = None
        try:
            value, stat = self._client.get(path)
            self._data[path] = int(value)
            self._children[path] = self._client.get_children(path)
        except NoNodeError:
            self._data[path], self._children[path] = None, []
        found = {"value": self._data[path], "children": sorted(self._children[path])}
        self._worker.record("found", path=path, znode=_znode(stat), **found)


# ---- those who watch -----------------------------------------------------------------------------


class Watcher:
    def __init__(self, worker: Worker, client: Any) -> None:
        self._worker = worker
        self._client = client
        directories = _directories(client, worker.root)
        leaves = [f"{directories[0].rpartition('/')[0]}/leaf{number}" for number in range(LEAVES)]
        self._all = [(path, kind) for path in directories for kind in ("data", "exists", "children")]
        self._all += [(path, kind) for path in leaves for kind in ("data", "exists")]
        self._numbers = itertools.count(1)
        self._due: queue.Queue[tuple[str, str]] = queue.Queue()

    def work(self) -> None:
        for each in self._all:
            self._due.put(each)
        refused: list[tuple[float, tuple[str, str]]] = []  # and when to try again
        while not self._worker.is_over():
            with suppress(queue.Empty):
                each = self._due.get(timeout=PROBE_S)
                if not self._is_armed(*each):
                    refused.append((time.monotonic() + RETRY_S, each))
            while refused and refused[0][0] < time.monotonic():
                self._due.put(refused.pop(0)[1])
            if self._worker.dice.random() < SHARE_PROBED:
                self._probe(*self._worker.dice.choice(self._all))

    def _is_armed(self, path: str, kind: str) -> bool:
        """Set a watch; False if that failed."""
        told = {"watch": next(self._numbers), "path": path, "kind": kind}
        try:
            found = self._read(path, kind, partial(self._tell, told))
        except NoNodeError:
            self._worker.record("refused", **told)
            return False
        except LOST:
            return False
        self._worker.record("armed", **told, **found)
        return True

    def _probe(self, path: str, kind: str) -> None:
        try:
            found = self._read(path, kind, None)
        except NoNodeError:
            found = {"value": None, "znode": None}
        except LOST:
            return
        self._worker.record("read", path=path, kind=kind, **found)

    def _read(self, path: str, kind: str, watch: Callable[[Any], None] | None) -> dict[str, Any]:
        if kind == "children":
            return {"value": sorted(self._client.get_children(path, watch))}
        if kind == "data":
            value, stat = self._client.get(path, watch)
            return {"value": int(value), "znode": _znode(stat)}
        return {"znode": _znode(self._client.exists(path, watch))}

    def _tell(self, told: dict[str, Any], event: Any) -> None:
        self._worker.record("event", **told, type=str(event.type), of=event.path)
        self._due.put((told["path"], told["kind"]))


def _znode(stat: Any) -> list[int] | None:
    """What tells the state of a znode's data from all others of its path; ensembles may have the same czxids."""
    return stat and [stat.czxid, stat.ctime, stat.version]


LOAD = WatchesLoad()
