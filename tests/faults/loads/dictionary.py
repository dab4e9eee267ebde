"""DistributedDict: no write is lost, none is done twice, no entry goes back, and each change is told.

Workers share a dictionary of several shards, each with several threads, of which one is interrupted now and
then. Keys are of four kinds. A thread's own are set to 1, 2, 3 and so on by nobody else. The shared ones are
added to by all, by compare_and_set, so their value is their version. The common ones are set by all, so their
version counts the writes. Items are put by one thread and popped by any. Each worker also records what it hears
of each change, and at its end whether it has heard of all that is there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from kazoo.exceptions import KazooException

from parkazoo import OutcomeUnknown
from parkazoo.structures.policies import Linearizable, Watch
from tests.faults.load import InterruptedCallError, Worker
from tests.faults.retries import until_answered

SHARDS, OWN, SHARED, COMMON, THREADS = 4, 4, 3, 2, 4
PAUSE_S = 0.05
TOLD_TIMEOUT_S, POLL_S = 60.0, 0.1


class DictionaryLoad:
    name = "dictionary"
    about = "DistributedDict: no write lost or done twice, no entry goes back, each change is told"
    processes = 3

    def prepare(self, client: Any, root: str) -> None:
        shared = client.DistributedDict(f"{root}/d", Linearizable(), shards=SHARDS)
        for number in range(SHARED):
            shared[f"shared-{number}"] = 0
        for number in range(COMMON):
            shared[f"common-{number}"] = 0

    def work(self, worker: Worker) -> None:
        client = worker.connect()
        shared = until_answered(lambda: client.DistributedDict(f"{worker.root}/d", Watch(), shards=SHARDS))
        user = _User(worker, shared)
        shared.on_change(user.hear)
        others = [_User(worker.part(number), shared, number) for number in range(1, THREADS)]
        threads = [threading.Thread(target=other.act_to_the_end) for other in others]
        for thread in threads:
            thread.start()
        user.act_to_the_end()
        for thread in threads:
            thread.join()
        fresh = until_answered(lambda: client.DistributedDict(f"{worker.root}/d", Linearizable(), shards=SHARDS))
        there = until_answered(lambda: {key: fresh.get_with_version(key) for key in fresh if is_followed(key)})
        user.wait_until_told(there)
        client.stop()

    def finish(self, client: Any, root: str, record: Any) -> None:
        found = client.DistributedDict(f"{root}/d", Linearizable(), shards=SHARDS)
        for key in found:
            value, version = found.get_with_version(key)
            record("found", key=key, value=value, version=version)


def is_followed(key: str) -> bool:
    """Items come and go: their versions are always 0."""
    return not key.startswith("item-")


class _User:
    """Does what its dice say, and records what comes of it."""

    def __init__(self, worker: Worker, shared: Any, number: int = 0) -> None:
        self._name = f"{worker.number}-{worker.life}.{number}"
        self._worker = worker
        self._dice = worker.dice
        self._shared = shared
        self._numbers: dict[str, int] = {}
        self._items = 0
        self._told: dict[str, int] = {}
        self._actions = (
            *[self._set] * 4,
            *[self._add] * 3,
            *[self._overwrite] * 4,
            self._put,
            *[self._pop] * 2,
            self._update,
        )

    def act_to_the_end(self) -> None:
        while not self._worker.is_over():
            self._dice.choice(self._actions)()
            self._worker.pause(self._dice.uniform(0.0, PAUSE_S))

    def hear(self, key: str, old: Any, new: Any, version: int | None) -> None:
        if is_followed(key):
            self._worker.record("seen", key=key, value=new, version=version)
            self._told[key] = -1 if version is None else version

    def _set(self) -> None:
        key, number = self._next()
        self._write({key: number}, lambda: self._shared.__setitem__(key, number))

    def _update(self) -> None:
        """Several at once: all of a shard or none."""
        values = dict(self._next() for _ in range(3))
        self._write(values, lambda: self._shared.update(values))

    def _next(self) -> tuple[str, int]:
        key = f"own-{self._name}-{self._dice.randrange(OWN)}"
        self._numbers[key] = self._numbers.get(key, 0) + 1
        return key, self._numbers[key]

    def _write(self, values: dict[str, int], write: Callable[[], None]) -> None:
        self._worker.record("writing", values=values)
        try:
            with self._worker.limited():
                write()
        except InterruptedCallError:
            outcome = dict.fromkeys(values, "unknown")
        except KazooException as error:
            outcome = outcome_of(error, values)
        else:
            outcome = dict.fromkeys(values, "done")
        self._worker.record("written", values=values, outcome=outcome)

    def _add(self) -> None:
        key = f"shared-{self._dice.randrange(SHARED)}"
        value, version = self._shared.get_with_version(key)
        self._worker.record("adding", key=key)
        try:
            with self._worker.limited():
                outcome = "done" if self._shared.compare_and_set(key, version, value + 1) else "not done"
        except InterruptedCallError:
            outcome = "unknown"
        except KazooException as error:
            outcome = outcome_of(error, [key])[key]
        self._worker.record("added", key=key, outcome=outcome)

    def _overwrite(self) -> None:
        """What others write too: writes of one process wait for each other in their turn."""
        key = f"common-{self._dice.randrange(COMMON)}"
        self._worker.record("adding", key=key)
        try:
            with self._worker.limited():
                self._shared[key] = self._items
        except InterruptedCallError:
            outcome = "unknown"
        except KazooException as error:
            outcome = outcome_of(error, [key])[key]
        else:
            outcome = "done"
        self._worker.record("added", key=key, outcome=outcome)

    def _put(self) -> None:
        self._items += 1
        item = f"item-{self._name}-{self._items}"
        self._worker.record("putting", item=item)
        try:
            with self._worker.limited():
                self._shared.setdefault(item, 0)
        except InterruptedCallError:
            outcome = "unknown"
        except KazooException as error:
            outcome = outcome_of(error, [item])[item]
        else:
            outcome = "done"
        self._worker.record("put", item=item, outcome=outcome)

    def _pop(self) -> None:
        items = [key for key in self._shared if not is_followed(key)]
        if not items:
            return
        item = self._dice.choice(items)
        self._worker.record("popping", item=item)
        try:
            with self._worker.limited():
                outcome = "done" if self._shared.pop(item, None) is not None else "not done"
        except InterruptedCallError:
            outcome = "unknown"
        except KazooException as error:
            outcome = outcome_of(error, [item])[item]
        self._worker.record("popped", item=item, outcome=outcome)

    def wait_until_told(self, there: dict[str, tuple[int, int]]) -> None:
        """Whether the callback has heard of all that is there, or of newer. Nothing is told of what was there at
        the beginning, so the copy counts where nothing was told."""
        tries = int(TOLD_TIMEOUT_S / POLL_S)
        while missing := {key: found for key, found in there.items() if self._version(key) < found[1]}:
            tries -= 1
            if not tries:
                break
            self._shared._client.handler.sleep_func(POLL_S)
        self._worker.record(
            "told", keys=len(there), missing={key: version for key, (_, version) in missing.items()}
        )

    def _version(self, key: str) -> int:
        if key in self._told:
            return self._told[key]
        return int(self._shared.get_with_version(key)[1]) if key in self._shared else -1


def outcome_of(error: KazooException, keys: Any) -> dict[str, str]:
    """What an error says of each key: an update goes in one transaction for each shard."""
    if isinstance(error, OutcomeUnknown):
        return {key: "unknown" if key in error.keys else "not done" for key in keys}
    done, unknown = getattr(error, "done", ()), getattr(error, "unknown", ())
    return {key: "done" if key in done else "unknown" if key in unknown else "not done" for key in keys}


LOAD = DictionaryLoad()
