"""Counts and durations of clients for OpenTelemetry. Needs parkazoo[otel]."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from parkazoo.installing import command_to_add
from parkazoo.measures import (
    ENSEMBLE,
    MEASURES,
    NAME,
    OPERATION,
    OUTCOME,
    CountedClients,
    CountingClient,
    Labels,
    Measure,
    values_of,
)
from parkazoo.monitoring import BUCKETS_S, NO_ERROR, OTHER, Connected, Listener, OperationEnded, RequestEnded
from parkazoo.version import __version__

try:
    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation, get_meter_provider
except ModuleNotFoundError:
    raise ImportError(f"parkazoo.otel needs opentelemetry-api: {command_to_add('otel')}") from None

SYSTEM, ZOOKEEPER = "db.system.name", "zookeeper"  # the conventions have no word for it, and allow one's own
ERROR_TYPE = "error.type"
UNKNOWN_ERROR = "_OTHER"  # the conventions' word
ATTRIBUTES = {
    NAME: "parkazoo.client",
    ENSEMBLE: "parkazoo.ensemble",
    OPERATION: "db.operation.name",
    OUTCOME: ERROR_TYPE,
}
CONVENTIONAL_BUCKETS_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
CONVENTIONAL_PORT = "2181"


def observe(
    *clients: CountingClient, meter_provider: MeterProvider | None = None, **named: CountingClient
) -> None:
    """Has the counters of clients read whenever metrics are collected. Nothing is done for a request.

    The metrics are ``parkazoo.requests``, ``parkazoo.connected`` and so on. ``observe(jobs=zk, users=other)``
    gives each client an attribute ``parkazoo.client``, ``observe(zk, other)`` adds their counts up. The provider
    keeps the clients until it is shut down.

    :param clients: made with ``counters=True``.
    :param meter_provider: by default the program's.
    :raises RuntimeError: a client does not count.
    :raises ValueError: there is no client, or only some have names.
    """
    counted, meter = CountedClients(clients, named), _meter(meter_provider)
    create: Callable[..., object]
    for each in MEASURES:
        if each.grows:
            create = meter.create_observable_counter
        elif each.is_sum:
            create = meter.create_observable_up_down_counter
        else:
            create = meter.create_observable_gauge
        create(f"parkazoo.{each.name}", [_callback(counted, each)], f"{{{each.counted}}}", each.about)


class OperationDurations(Listener):
    """Records ``db.client.operation.duration``: how long each operation of the program took.

    Each recording costs processor time, on the listener's thread.

    :param meter_provider: by default the program's.
    """

    def __init__(self, meter_provider: MeterProvider | None = None) -> None:
        self._durations = _meter(meter_provider).create_histogram(
            "db.client.operation.duration",
            "s",
            "Duration of database client operations.",
            explicit_bucket_boundaries_advisory=CONVENTIONAL_BUCKETS_S,
        )

    def operation_ended(self, event: OperationEnded) -> None:
        """Records an operation."""
        about = _attributes((OPERATION, OUTCOME), (event.operation, event.outcome))
        self._durations.record(event.seconds, about)


class RequestDurations(Listener):
    """Records ``parkazoo.request.duration``: how long each request to an ensemble took, and its server.

    Each recording costs processor time, on the listener's thread. Each client needs a listener of its own.

    :param meter_provider: by default the program's.
    """

    def __init__(self, meter_provider: MeterProvider | None = None) -> None:
        self._durations = _meter(meter_provider).create_histogram(
            "parkazoo.request.duration",
            "s",
            "How long requests took, the client's queue included.",
            explicit_bucket_boundaries_advisory=BUCKETS_S,
        )
        self._servers: dict[str, dict[str, str | int]] = {}  # by ensemble

    def connected(self, event: Connected) -> None:
        """Learns the server of an ensemble."""
        address, _, port = event.server.rpartition(":")
        server: dict[str, str | int] = {"server.address": address.strip("[]")}
        self._servers[event.ensemble] = (
            server if port == CONVENTIONAL_PORT else server | {"server.port": int(port)}
        )

    def request_ended(self, event: RequestEnded) -> None:
        """Records a request."""
        labels = event.ensemble, event.operation, event.outcome
        about = _attributes((ENSEMBLE, OPERATION, OUTCOME), labels)
        self._durations.record(event.seconds, about | self._servers.get(event.ensemble, {}))


def _meter(provider: MeterProvider | None) -> Meter:
    return (provider or get_meter_provider()).get_meter("parkazoo", __version__)


def _attributes(names: Labels, values: Labels) -> dict[str, str | int]:
    """The conventions' attributes. A success has no type of an error."""
    found: dict[str, str | int] = {SYSTEM: ZOOKEEPER}
    found |= {ATTRIBUTES[name]: value for name, value in zip(names, values, strict=True)}
    if found.get(ERROR_TYPE) == NO_ERROR:
        del found[ERROR_TYPE]
    elif found.get(ERROR_TYPE) == OTHER:
        found[ERROR_TYPE] = UNKNOWN_ERROR
    return found


def _callback(clients: CountedClients, measure: Measure) -> Callable[[CallbackOptions], Iterator[Observation]]:
    names = clients.labels(measure.labels)

    def observed(_: CallbackOptions) -> Iterator[Observation]:
        for values, value in values_of(measure, clients.read()).items():
            yield Observation(value, _attributes(names, values))

    return observed
