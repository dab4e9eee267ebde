"""What a client tells of its work: events for listeners, and counters.

``ParKazooClient(hosts, listeners=[MyListener()])``. A program that cannot change the constructor calls
:func:`register` before it makes its clients. ``ParKazooClient(hosts, counters=True)`` counts, and
``client.counters()`` returns the counts. Neither has data, ACLs or credentials.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

BUCKETS_S = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
"""The upper bounds of a histogram's buckets: OpenTelemetry's for databases, and 0.25, 0.5 and 2.5 ms."""
OTHER = "other"
NO_ERROR = "ok"
OUTCOMES = (
    NO_ERROR,
    "no_node",
    "node_exists",
    "bad_version",
    "not_empty",
    "no_auth",
    "connection_loss",
    "session_expired",
    OTHER,
)


# ---- events --------------------------------------------------------------------------------------


class RequestEnded(NamedTuple):
    """Tells of a request to one ensemble that has been answered, or has failed.

    :param ensemble: its name.
    :param operation: ``"get"``, ``"set"``, ``"create"`` and so on, as the client's methods are called;
        ``"transaction"`` for several writes at once.
    :param outcome: one of OUTCOMES. A transaction has the outcome of the write that made it fail.
    :param seconds: since the client began to send it; the time in a queue counts.
    :param directory: the first of :attr:`Listener.directories` that fits, ``"other"`` if none does, or ``""``.
    """

    ensemble: str
    operation: str
    outcome: str
    seconds: float
    directory: str


class OperationEnded(NamedTuple):
    """Tells of an operation of the client, which has sent any number of requests.

    :param operation: as in :class:`RequestEnded`; also ``"once"``, and ``"deferred"`` for a batch.
    :param outcome: one of OUTCOMES.
    :param seconds: since it was issued.
    :param directory: as in :class:`RequestEnded`.
    :param requests: how many it had sent when it ended. If one answer of two was enough, the other request may
        come later, and is not among them.
    """

    operation: str
    outcome: str
    seconds: float
    directory: str
    requests: int


class Connected(NamedTuple):
    """Tells of a connection that can be used.

    :param ensemble: its name. :param server: ``"host:port"``.
    :param away_s: seconds since the ensemble was lost, or first not reached; 0 if neither.
    """

    ensemble: str
    server: str
    away_s: float


class ConnectionLost(NamedTuple):
    """Tells of the end of a connection that the client did not want to end."""

    ensemble: str
    server: str
    why: str


class AttemptFailed(NamedTuple):
    """Tells of an attempt to connect that failed.

    :param ensemble: ``""`` as long as the client does not know it.
    :param why: begins with the server.
    """

    ensemble: str
    why: str


class CredentialsRefused(NamedTuple):
    """Tells of a server that refuses the client's credentials. The client is LOST."""

    ensemble: str
    server: str


class SessionExpired(NamedTuple):
    """Tells of a session on one ensemble that a server has declared expired."""

    ensemble: str


class SessionRenewed(NamedTuple):
    """Tells of a session that the client ends itself and replaces, because the whole client is LOST."""

    ensemble: str
    why: str


class EnsembleWentBack(NamedTuple):
    """Tells of an ensemble that has come back with an older copy of its data. The client is LOST by now."""

    ensemble: str


class StateChanged(NamedTuple):
    """Tells of a new KazooState of the client.

    :param ensemble: whose connection has brought it about; ``""`` if none has.
    """

    old: str
    new: str
    ensemble: str


class MapChanged(NamedTuple):
    """Tells of a cluster map that the client has begun to follow, the first one included.

    :param form: ``"plain"``, ``"tolerant"``, ``"guarded"`` or ``"grown"``.
    :param new_ensembles: the client did not know them before.
    """

    epoch: int
    form: str
    new_ensembles: tuple[str, ...]


class WatchFired(NamedTuple):
    """Tells of a watch event that a server has sent.

    :param type: kazoo's EventType.
    """

    ensemble: str
    type: str


class Listener:
    """Hears of a client's work. Override the methods whose events you want; the others cost nothing.

    A thread (with gevent a greenlet) of the listener's own calls the methods, one event at a time, in order. So
    a listener may be slow, wait, or use the client: states, requests, connections, watches and other listeners do
    not wait for it. If 10,000 events wait for it, further events of requests, operations, watches and attempts are
    dropped until it has caught up, and the client's log says so once. Counters drop nothing.

    What a method raises is logged once for each listener and method, and changes nothing. A listener that uses
    the client hears of its own requests too. A listener of several clients hears all of them, each on a thread
    of its own. ``stop()`` waits a second at most for events that are due. Credentials and pings are no requests,
    nor is what the client sends to connect, to register and to follow the map.

    :cvar directories: the directories to tell apart, as paths below the chroot in which ``*`` stands for any one
        name: ``("/jobs", "/users/*")``. A request belongs to the directory that its znode is in; a listing to
        the directory itself, a transaction to the directory of its first write.
    """

    directories: Sequence[str] = ()

    def request_ended(self, event: RequestEnded) -> None:
        """Hears of each request to an ensemble, at its end."""

    def operation_ended(self, event: OperationEnded) -> None:
        """Hears of each operation of the client, at its end."""

    def connected(self, event: Connected) -> None:
        """Hears of each connection."""

    def connection_lost(self, event: ConnectionLost) -> None:
        """Hears of each lost connection."""

    def attempt_failed(self, event: AttemptFailed) -> None:
        """Hears of each attempt to connect that failed."""

    def credentials_refused(self, event: CredentialsRefused) -> None:
        """Hears of each server that refuses the credentials."""

    def session_expired(self, event: SessionExpired) -> None:
        """Hears of each session that has expired."""

    def session_renewed(self, event: SessionRenewed) -> None:
        """Hears of each session that the client replaces."""

    def ensemble_went_back(self, event: EnsembleWentBack) -> None:
        """Hears of each ensemble that was restored from an older copy, if this client was there before."""

    def state_changed(self, event: StateChanged) -> None:
        """Hears of each state of the client, perhaps after its state listeners."""

    def map_changed(self, event: MapChanged) -> None:
        """Hears of each cluster map."""

    def watch_fired(self, event: WatchFired) -> None:
        """Hears of each watch event."""


registered: list[Listener] = []


def register(listener: Listener) -> None:
    """Adds a listener to every client that this process makes from now on.

    :raises TypeError: it is no :class:`Listener`.
    """
    registered.append(verified(listener))


def verified(listener: Listener) -> Listener:
    """
    :raises TypeError: it is no Listener.
    """
    if not isinstance(listener, Listener):
        raise TypeError(f"a listener must be an instance of parkazoo.monitoring.Listener, not {listener!r}")
    return listener


# ---- counters ------------------------------------------------------------------------------------


class Histogram(NamedTuple):
    """Says how long requests took.

    :param buckets: how many took as long as each of BUCKETS_S at most, and longer than the one before; the last
        one the requests that took longer than all.
    :param sum_s: the seconds of all.
    """

    buckets: tuple[int, ...]
    sum_s: float

    @property
    def total(self) -> int:
        """Returns how many requests there were."""
        return sum(self.buckets)


class Counters(NamedTuple):
    """Holds what a client has counted since it was made. Ensembles are given by name.

    :param requests: by ensemble, operation and outcome: how many have ended.
    :param seconds: by ensemble and operation: how long these took, whatever their outcome.
    :param in_flight: now sent and not answered. :param queued: now waiting to be sent.
    :param connected: whether the ensemble is connected now.
    :param connections_lost: how often. :param sessions_expired: how often. :param watch_events: how many.
    :param map_epoch: of the newest map; 0 if there is none.
    """

    requests: Mapping[tuple[str, str, str], int]
    seconds: Mapping[tuple[str, str], Histogram]
    in_flight: Mapping[str, int]
    queued: Mapping[str, int]
    connected: Mapping[str, bool]
    connections_lost: Mapping[str, int]
    sessions_expired: Mapping[str, int]
    watch_events: Mapping[str, int]
    map_epoch: int
