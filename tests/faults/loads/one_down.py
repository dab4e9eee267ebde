"""While one ensemble is down, operations on the others go on as fast as ever."""

from __future__ import annotations

import itertools
import statistics
import threading
import time
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, SessionExpiredError

from parkazoo import ParKazooClient
from parkazoo.protocol.placement import Placement
from tests.faults.busy import Busy
from tests.faults.load import Fault, Judgement, Run, Worker

NAMES = "abc"
PAUSE_S = 0.04
BUSY_EVERY_S = 1.0
# What kazoo raises when a connection or a session ends under an operation.
USUAL = {"", *(error.__name__ for error in (ConnectionLoss, SessionExpiredError, ConnectionClosedError))}
# A median of fewer says little; on a machine that is busier than this, processes wait for a processor and not for
# an ensemble. The few milliseconds are the scheduler's, whose time slices are about as long as an operation takes.
SAMPLES, BUSY_SHARE, SLICE_MS, TIMES = 500, 0.85, 4.0, 2
AFTERMATH_S = 10.0


class Done(NamedTuple):
    """An operation. `error` is the name of what it raised; empty if it was answered."""

    began_s: float
    ended_s: float
    ensemble: str
    error: str

    @property
    def ms(self) -> float:
        return 1000 * (self.ended_s - self.began_s)


class Down(NamedTuple):
    """A time in which an ensemble is down, and nothing else is wrong with this client."""

    ensemble: str
    since_s: float
    until_s: float

    def holds(self, at_s: float) -> bool:
        return self.since_s <= at_s <= self.until_s


class OneDown:
    name = "one_down"
    about = "one ensemble is down: operations on the others go on, within twice their usual time"
    processes = 1

    def prepare(self, client: ParKazooClient, root: str) -> None:
        for leaf in leaves(root):
            client.create(leaf, makepath=True)

    def work(self, worker: Worker) -> None:
        client = worker.connect()
        threads = [
            threading.Thread(target=_measure, args=(worker, client, ensemble, leaf))
            for ensemble, leaf in zip(NAMES, leaves(worker.root), strict=True)
        ]
        for thread in threads:
            thread.start()
        busy = Busy()
        while not worker.is_over():
            worker.pause(BUSY_EVERY_S)
            worker.record("busy", share=busy.share())
        for thread in threads:
            thread.join()
        client.stop()
        client.close()

    def finish(self, client: ParKazooClient, root: str, record: Any) -> None:
        pass

    def judge(self, run: Run) -> Judgement:
        done = [Done(**each.fields) for each in run.records if each.what == "done"]
        downs = _downs(run)
        on_servers = [each for each in run.faults if "/" not in each.target]
        any_fault = _Faults(each for each in run.faults if each in on_servers or each.target.startswith(self.name))
        fault_of = {name: _Faults(each for each in on_servers if each.target[0] == name) for name in NAMES}
        usual = [each.ms for each in done if not any_fault.touch(each)]
        dead, others = [], []
        for down in downs:
            for each in done:
                if down.holds(each.began_s):
                    if each.ensemble == down.ensemble:
                        dead.append((each, down))
                    elif not fault_of[each.ensemble].touch(each):
                        others.append((each, down))
        problems = [f"{each} is not what kazoo would raise" for each in done if each.error not in USUAL]
        problems += [f"{each} was answered" for each, down in dead if not each.error and down.holds(each.ended_s)]
        failed = [each for each, down in others if each.error and down.holds(each.ended_s)]
        busy = _busy_share(run, downs)
        is_judged = run.is_timed and busy <= BUSY_SHARE
        if is_judged:  # else connections may be lost because a process waits for a processor
            problems += [f"{each} has failed" for each in failed]
        figures: dict[str, int | float | str] = {
            "operations": len(done),
            "failed": sum(bool(each.error) for each in done),
            "times an ensemble was down": len(downs),
            "operations on the others": len(others),
            "of them failed": len(failed),
            "busy meanwhile": f"{busy:.0%}",
        }
        if usual and others:
            usual_ms, other_ms = statistics.median(usual), statistics.median(each.ms for each, _ in others)
            figures["median"] = f"{usual_ms:.1f} ms, {other_ms:.1f} ms with one down"
            is_judged = is_judged and min(len(usual), len(others)) >= SAMPLES
            if is_judged and other_ms > TIMES * usual_ms + SLICE_MS:
                problems.append(f"{figures['median']}, which is more than {TIMES} times as long")
        return Judgement(problems, figures if is_judged else figures | {"times": "not judged"})


def _measure(worker: Worker, client: ParKazooClient, ensemble: str, leaf: str) -> None:
    for number in itertools.count():
        if worker.is_over():
            return
        error, began_s = "", time.monotonic()
        try:
            if number % 2:
                client.get(leaf)
            else:
                client.set(leaf, b"%d" % number)
        except Exception as raised:
            error = type(raised).__name__
        worker.record("done", began_s=began_s, ended_s=time.monotonic(), ensemble=ensemble, error=error)
        worker.pause(PAUSE_S)


def _downs(run: Run) -> list[Down]:
    """Not those in which the client has something else to get over."""
    troubles = [
        (each.at_s, each.at_s) for each in run.records if each.what == "state" and each.fields["state"] == "LOST"
    ]
    troubles += [(each.began_s, each.ended_s) for each in run.faults if each.target.startswith(OneDown.name)]
    return [
        Down(each.target, each.since_s, each.until_s)
        for each in run.faults
        if each.kind == "ensemble down"
        and not any(began < each.until_s and each.since_s < ended + AFTERMATH_S for began, ended in troubles)
    ]


class _Faults:
    """When there were any, for many questions."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self._began: list[float] = []
        self._ended: list[float] = []
        for fault in sorted(faults, key=lambda each: each.began_s):
            if self._ended and fault.began_s <= self._ended[-1]:
                self._ended[-1] = max(self._ended[-1], fault.ended_s)
            else:
                self._began.append(fault.began_s)
                self._ended.append(fault.ended_s)

    def touch(self, done: Done) -> bool:
        before = bisect_right(self._began, done.ended_s)
        return before > 0 and self._ended[before - 1] >= done.began_s


def _busy_share(run: Run, downs: Sequence[Down]) -> float:
    """Of the processors' time, while an ensemble was down: the median of the seconds."""
    busy = (each for each in run.records if each.what == "busy")
    shares = [each.fields["share"] for each in busy if any(down.holds(each.at_s) for down in downs)]
    return statistics.median(shares) if shares else 0.0


def leaves(root: str) -> list[str]:
    """For each ensemble a znode for which it is asked with one request: a leaf in a native directory."""
    placement = Placement(len(NAMES))
    found = []
    for ensemble in range(len(NAMES)):
        paths = (f"{root}/{above}/{name}" for above in range(100) for name in range(100))
        found.append(
            next(
                f"{path}/leaf"
                for path in paths
                if placement.is_native(path) and placement.of_children(path) == ensemble
            )
        )
    return found


LOAD = OneDown()
