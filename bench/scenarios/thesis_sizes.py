"""What of the thesis is measured: systems, and how many threads, processes, hosts and clients; in which parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.scenarios.evaluation import READ_SHARES, Parts
from bench.scenarios.thesis_figures import numbers_printed
from bench.scenarios.thesis_runs import STEPS

CROWD = "crowd"  # the step of clients at once


@dataclass(frozen=True)
class Subject:
    """A system, and what it is measured on.

    :param is_limited: with the servers' bandwidth limited, where the lab shares one machine.
    """

    system: str
    shape: str
    handler: str = "threading"
    is_limited: bool = False

    @property
    def name(self) -> str:
        return f"{self.system} {self.shape}" + (" gevent" if self.handler == "gevent" else "")


@dataclass(frozen=True)
class Gathering:
    """Clients at once: `threads` in each of the `processes` of each of the `nodes`, which are client hosts."""

    system: str
    shape: str
    nodes: int
    processes: int
    threads: int

    @property
    def clients(self) -> int:
        return self.nodes * self.processes * self.threads


@dataclass(frozen=True)
class Size:
    """
    :param threads: the numbers of a step; `processes` and `nodes` likewise.
    :param value_bytes: of what is written and read.
    :param steps: that are measured.
    :param before: the parts that have the steps before these.
    :param repeat: how often the best of all steps is run again; with gevent, once. Each step is run once.
    :param is_as_printed: with limited bandwidth the numbers are those of the thesis' tables.
    :param over_time_s: of the best again, at least, and of one thread alone, with writes; 0: that is not run.
    :param gatherings: the smaller ones of a system first.
    """

    subjects: Sequence[Subject]
    threads: Sequence[int]
    processes: Sequence[int]
    nodes: Sequence[int]
    warm_up_s: float
    measure_s: float
    value_bytes: int = 1024
    steps: Sequence[str] = STEPS
    before: Sequence[str] = ()
    repeat: int = 3
    is_as_printed: bool = False
    over_time_s: float = 0.0
    gatherings: Sequence[Gathering] = ()

    def numbers(self, subject: Subject, load: str, step: str) -> Sequence[int]:
        if self.is_as_printed and subject.is_limited:
            return numbers_printed(load, step, subject.name)
        found: Sequence[int] = getattr(self, step)
        return found

    def most_hosts(self) -> int:
        """Client hosts that it wants."""
        hosts = STEPS[-1]
        wants = hosts in self.steps or self.over_time_s
        found = [self.numbers(each, load, hosts) for each in self.subjects for load in READ_SHARES if wants]
        return max([1, *(number for some in found for number in some), *(each.nodes for each in self.gatherings)])


OF_ONE_ENSEMBLE = (
    Subject("kazoo", "1x3"),
    Subject("parkazoo", "1x3"),
    Subject("kazoo", "1x3", "gevent"),
    Subject("parkazoo", "1x3", "gevent"),
)
OF_THE_THESIS = (Subject("kazoo", "1x3", is_limited=True), Subject("parkazoo", "3x3", is_limited=True))
OF_SMALL = (Subject("parkazoo", "1x1"), Subject("kazoo", "1x1", is_limited=True))
FULL: dict[str, Any] = {
    "threads": (4, 32, 128),
    "processes": (1, 2),
    "nodes": (1, 2),
    "warm_up_s": 1,
    "measure_s": 4,
}
PRINTED = {**FULL, "is_as_printed": True, "repeat": 0}
SIZES: dict[str, Any] = {
    "small": Size(
        OF_SMALL,
        (1, 2),
        (1, 2),
        (1, 2),
        0.2,
        1,
        repeat=2,
        over_time_s=1,
        gatherings=[Gathering("parkazoo", "1x1", 1, 2, 3)],
    ),
    "medium": Size((*OF_ONE_ENSEMBLE, *OF_THE_THESIS), (4, 32), (1, 2), (1, 2), 0.7, 2.5),
    "full": Parts(
        client=Size(OF_ONE_ENSEMBLE, **FULL),
        threads=Size(OF_THE_THESIS, steps=STEPS[:1], **PRINTED),
        processes=Size(OF_THE_THESIS, steps=STEPS[1:2], before=("threads",), **PRINTED),
        hosts=Size(OF_THE_THESIS, steps=STEPS[2:], before=("threads", "processes"), **PRINTED),
        time=Size(
            OF_THE_THESIS,
            steps=(),
            before=("threads", "processes", "hosts"),
            over_time_s=100,
            **{**PRINTED, "repeat": 1},
        ),
        crowd=Size(
            (),
            steps=(),
            gatherings=[
                *(Gathering("kazoo", "1x3", nodes, 6, 200) for nodes in (1, 5)),
                Gathering("parkazoo", "3x3", 1, 1, 1000),
                *(Gathering("parkazoo", "3x3", nodes, 8, 100) for nodes in (1, 4, 14)),
            ],
            **FULL,
        ),
    ),
}
