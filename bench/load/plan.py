"""What load is to be produced, by which clients, on what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

BARE = ZOOKEEPER, ETCD = "zookeeper", "etcd"  # asked by bare sockets
SYSTEMS = ("kazoo", "parkazoo", *BARE)
HANDLERS = ("threading", "gevent")
WRITES = ("create-delete", "set", "new-directories", "sessions")
BETWEEN_ENSEMBLES = ";"  # in the hosts of bare sockets
LATE_S = 0.5  # by which a process may begin later than the first one; each goes on longer by that
MOST_BARE_BYTES = 16_000  # of a value: an HTTP/2 frame has 16,384 at most


class PlanError(Exception):
    """A plan cannot be carried out. The message names the entry."""


@dataclass(frozen=True)
class Plan:
    """The load of `nodes` hosts together, `processes` on each, `threads` in each process with a client each.

    :param hosts: a hosts string; for parkazoo of the bootstrap ensemble; for bare sockets of each ensemble, with a
        semicolon between two.
    :param ensembles: what directories are spread over; 1 for kazoo.
    :param root: the znode below which this load works. Loads that name the same one find its directories there.
    :param name: of this run; no other run on these ensembles has it.
    :param node: which of the `nodes` this is, from 0.
    :param read_share: of the requests, 0 to 1; the others are writes.
    :param write: ``create-delete``: a create, then the delete of what it made, which are two requests;
        ``set``: of znodes that are there; ``new-directories``: a directory, some creates in it, and so on;
        ``sessions``: a session that is begun and ended, in the closed loop.
    :param size: bytes of a value.
    :param directories: so many, spread evenly over the ensembles.
    :param leaves: znodes of each directory, for reads and sets.
    :param is_hashed: directories have ordinary names, and lie where these happen to lie.
    :param is_pinned: each sequence, which is a request in flight and its successors, stays in one directory.
    :param zipf: exponent of the law by which directories are chosen; 0: one is as likely as another.
    :param batch: again and again so many sets and as many reads, which come after all of these; 0: as `read_share`
        says.
    :param is_linearizable: reads of bare sockets are linearizable, as far as the system has such: etcd's ranges; a
        sync before each get. If not, a server answers from what it has itself.
    :param recent_share: of a batch's reads, 0 to 1, that come at once, each after the set of its znode.
    :param is_deferred: sets are deferred writes; the record has when each was committed, as far as that is seen.
    :param max_pending: deferred writes of all clients together that wait to be committed; more make calls wait.
        0: as many for each client as it has by default.
    :param barrier_each: after so many of them the client waits for a barrier; 0: at the end alone.
    :param in_flight: requests that each client has outstanding, in the closed loop.
    :param rate_s: requests/s of all clients together, in the open loop; 0: closed loop.
    :param pool: in the open loop, so many requests at most are outstanding, of all clients together; others wait
        until one of those was answered. 0: any number.
    :param chain: in the open loop, so many requests, each sent when the one before was answered, count as one.
    :param idle: clients of each process that have sessions wherever a directory is, and ask nothing more.
    :param warm_up_s: at the beginning, not measured.
    :param connect_timeout_s: for each client to connect; `begin_timeout_s`, for all of them to be there.
    """

    system: str
    hosts: str
    root: str
    name: str
    ensembles: int = 1
    nodes: int = 1
    node: int = 0
    processes: int = 1
    threads: int = 1
    handler: str = "threading"
    read_share: float = 0.0
    write: str = "create-delete"
    size: int = 1024
    directories: int = 12
    leaves: int = 4
    is_hashed: bool = False
    is_pinned: bool = False
    zipf: float = 0.0
    batch: int = 0
    is_linearizable: bool = False
    recent_share: float = 0.0
    is_deferred: bool = False
    max_pending: int = 0
    barrier_each: int = 0
    in_flight: int = 1
    rate_s: float = 0.0
    pool: int = 0
    chain: int = 1
    idle: int = 0
    warm_up_s: float = 1.0
    measure_s: float = 5.0
    session_timeout_s: float = 10.0
    connect_timeout_s: float = 60.0
    begin_timeout_s: float = 120.0
    seed: int = 0

    def __post_init__(self) -> None:
        """
        :raises PlanError: an entry has no such value.
        """
        for name, allowed in (("system", SYSTEMS), ("handler", HANDLERS), ("write", WRITES)):
            if getattr(self, name) not in allowed:
                raise PlanError(f"{name} is {getattr(self, name)!r}; it must be one of {', '.join(allowed)}")
        for name in ("ensembles", "nodes", "processes", "threads", "directories", "leaves", "in_flight", "chain"):
            if getattr(self, name) < 1:
                raise PlanError(f"{name} is {getattr(self, name)}; it must be at least 1")
        for name in ("read_share", "recent_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise PlanError(f"{name} is {getattr(self, name)}; it must be 0 to 1")
        if self.is_deferred and (self.system, self.write) != ("parkazoo", "set"):
            raise PlanError("is_deferred is true; system must be 'parkazoo' and write 'set' then")
        if self.batch and (self.write != "set" or self.read_share):
            raise PlanError("batch is for sets, and says how many reads there are: leave read_share out")
        if 0 < self.max_pending < self.clients:
            raise PlanError(f"max_pending is {self.max_pending}; {self.clients} clients need at least one each")
        if not self.rate_s and (self.pool or self.chain > 1):
            raise PlanError("pool and chain are for the open loop: give it a rate_s")
        if self.write == "sessions" and (self.rate_s or self.read_share or self.handler != "threading"):
            raise PlanError("sessions are for the closed loop, without reads, on threads")
        if self.is_linearizable and self.system not in BARE:
            raise PlanError(f"is_linearizable is true; system must be one of {', '.join(BARE)} then")
        if self.system in BARE:
            self._see_bare()
        if self.pool < 0 or 0 < self.pool < self.clients:
            raise PlanError(f"pool is {self.pool}; it must be 0, or at least 1 for each of {self.clients} clients")

    def _see_bare(self) -> None:
        """
        :raises PlanError: bare sockets cannot do that.
        """
        if (self.nodes, self.processes, self.write, self.chain) != (1, 1, "set", 1) or self.is_hashed or self.pool:
            raise PlanError(
                "bare sockets are for one process of one node, for sets and reads, in directories that are spread "
                "evenly, without pool and chain"
            )
        if self.size > MOST_BARE_BYTES:
            raise PlanError(f"size is {self.size}; bare sockets send values of at most {MOST_BARE_BYTES} bytes")
        if (count := self.hosts.count(BETWEEN_ENSEMBLES) + 1) != self.ensembles:
            raise PlanError(f"hosts has {count} ensembles; ensembles is {self.ensembles}")

    @classmethod
    def from_json(cls, entries: Mapping[str, Any]) -> Plan:
        """
        :raises PlanError: an entry is missing, unknown, or has no such value.
        """
        known = {each.name for each in fields(cls)}
        if unknown := sorted(entries.keys() - known):
            raise PlanError(f"there is no entry {unknown[0]}; there are {', '.join(sorted(known))}")
        try:
            return cls(**entries)
        except TypeError as error:
            raise PlanError(str(error).partition("() ")[2]) from None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def clients(self) -> int:
        """Of all hosts together."""
        return self.nodes * self.processes * self.threads

    def total_s(self) -> float:
        return self.warm_up_s + self.measure_s
