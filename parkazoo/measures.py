"""The counters of a program's clients as values with labels, for parkazoo.prometheus and parkazoo.otel."""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol, TypeVar

from parkazoo.monitoring import NO_ERROR, Counters

NAME, ENSEMBLE, OPERATION, OUTCOME = "client", "ensemble", "operation", "outcome"
# They begin at 0, because no rate sees the first value of a series.
OUTCOMES_FROM_0 = (NO_ERROR, "connection_loss", "session_expired")
Labels = tuple[str, ...]
T = TypeVar("T")
_log = logging.getLogger("parkazoo")


class CountingClient(Protocol):
    """A ParKazooClient, for threads or for asyncio."""

    def counters(self) -> Counters:
        """Returns what it has counted."""


class Measure(NamedTuple):
    """Says what one metric tells.

    :param name: without the prefix of the library.
    :param about: a sentence.
    :param counted: the thing that is counted.
    :param grows: whether it never falls.
    :param labels: their names.
    :param values: returns its values in the counters of a client, by the values of the labels.
    :param join: makes one value of the values of two clients without names.
    """

    name: str
    about: str
    counted: str
    grows: bool
    labels: Labels
    values: Callable[[Counters], Mapping[Labels, int]]
    join: Callable[[int, int], int] = operator.add

    @property
    def is_sum(self) -> bool:
        """Returns whether the values of several clients are added up."""
        return self.join is operator.add


def _requests(counters: Counters) -> dict[Labels, int]:
    kinds = {(ensemble, operation) for ensemble, operation, _ in counters.requests}
    found: dict[Labels, int] = {(*kind, each): 0 for kind in kinds for each in OUTCOMES_FROM_0}
    return found | dict(counters.requests)


def _by_ensemble(name: str, about: str, counted: str, *, grows: bool) -> Measure:
    """Makes the measure of a field of Counters. It has each ensemble that the client knows, at 0 too."""

    def values(counters: Counters) -> dict[Labels, int]:
        counts: Mapping[str, int] = getattr(counters, name)
        return {(each,): int(counts.get(each, 0)) for each in (*counters.connected, *counts)}

    return Measure(name, about, counted, grows, (ENSEMBLE,), values)


MEASURES = (
    Measure(
        "requests",
        "Requests to ensembles that were answered or failed.",
        "request",
        True,
        (ENSEMBLE, OPERATION, OUTCOME),
        _requests,
    ),
    _by_ensemble(
        "connections_lost", "Connections that ended against the client's will.", "connection", grows=True
    ),
    _by_ensemble("sessions_expired", "Sessions that the ensemble declared expired.", "session", grows=True),
    _by_ensemble("watch_events", "Watch events that the ensemble sent.", "event", grows=True),
    _by_ensemble(
        "connected",
        "Clients that are connected to the ensemble; none is before its first request there.",
        "client",
        grows=False,
    ),
    _by_ensemble("in_flight", "Requests that are sent and not answered yet.", "request", grows=False),
    _by_ensemble("queued", "Requests that wait to be sent.", "request", grows=False),
    Measure(
        "map_epoch",
        "Number of the newest cluster map that the client knows; of several clients the lowest.",
        "epoch",
        False,
        (),
        lambda counters: {(): counters.map_epoch},
        min,
    ),
)


class CountedClients:
    """Reads the counters of clients. All of them have names, or none has.

    :raises RuntimeError: a client does not count.
    :raises ValueError: there is no client, or only some have names.
    """

    def __init__(self, clients: Sequence[CountingClient], named: Mapping[str, CountingClient]) -> None:
        if bool(clients) == bool(named):
            raise ValueError("give at least one client, and a name to each of them or to none")
        self._have_names = bool(named)
        self._clients: list[tuple[Labels, CountingClient]] = [((), each) for each in clients]
        self._clients += [((name,), each) for name, each in named.items()]
        self._has_failed = False
        for _, client in self._clients:
            client.counters()

    def labels(self, labels: Labels) -> Labels:
        """Returns the names of the labels; the first is the client's, if the clients have names."""
        return (NAME, *labels) if self._have_names else labels

    def read(self) -> list[tuple[Labels, Counters]]:
        """Returns the counters of each client, with its name.

        A client whose counters fail is left out, so that the program's other metrics are there. The first failure
        is logged.
        """
        found: list[tuple[Labels, Counters]] = []
        for name, client in self._clients:
            with self._no_error(client):
                found.append((name, client.counters()))
        return found

    @contextmanager
    def _no_error(self, client: CountingClient) -> Iterator[None]:
        try:
            yield
        except Exception:
            if not self._has_failed:
                self._has_failed = True
                _log.exception("Error in the counters of %r; no further one is logged", client)


def values_of(measure: Measure, read: Iterable[tuple[Labels, Counters]]) -> dict[Labels, int]:
    """Returns the values of a measure, by the client's name, if it has one, and the labels."""
    return joined(((name, measure.values(counters)) for name, counters in read), measure.join)


def joined(found: Iterable[tuple[Labels, Mapping[Labels, T]]], join: Callable[[T, T], T]) -> dict[Labels, T]:
    """Returns the values of all named clients, and one for the others."""
    values: dict[Labels, T] = {}
    for name, of_client in found:
        for labels, value in of_client.items():
            key = (*name, *labels)
            values[key] = join(values[key], value) if key in values else value
    return values
