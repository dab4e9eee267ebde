"""How busy the machines of a lab are while a load is measured."""

from __future__ import annotations

import threading
import time

from bench.lab import Lab, LabError, ProcessorTimes
from bench.load.plan import Plan

ONE = "the machine"  # whichever of its hosts was asked


class BusyWatch:
    """Looks twice: when what is measured begins, and when it ends.

    :param plan: of the load. `begin` has to be called when that begins.
    """

    def __init__(self, lab: Lab, plan: Plan) -> None:
        self._lab = lab
        self._plan = plan
        self._seen: list[dict[str, ProcessorTimes]] = []
        self._error: LabError | None = None
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._has_begun = False

    def begin(self) -> None:
        self._has_begun = True
        self._thread.start()

    def _watch(self) -> None:
        try:
            for wait_s in (self._plan.warm_up_s, self._plan.measure_s):
                time.sleep(wait_s)
                self._seen.append(self._lab.processor_times())
        except LabError as error:
            self._error = error

    def shares(self) -> dict[str, float]:
        """Of each machine, 0 to 1. Waits for the end of the load.

        :raises LabError: a machine did not answer.
        """
        if not self._has_begun:
            return {}
        self._thread.join()
        if self._error:
            raise self._error
        before, after = self._seen
        shares = {name: _share(before[name], after[name]) for name in before}
        if self._lab.is_one_machine:
            (share,) = shares.values()
            return {ONE: share}
        return shares


def _share(before: ProcessorTimes, after: ProcessorTimes) -> float:
    total_s = after.total_s - before.total_s
    return (after.busy_s - before.busy_s) / total_s if total_s else 0.0
