"""The cluster map: which ensembles there are and which of them carry znodes.

It is stored as JSON in the znode ``/parkazoo/map`` of every ensemble. That of the bootstrap ensemble is the
primary: a change is published when it is set there. Then it is written to the copies, which the others hold.

    {
      "format": 2,
      "epoch": 1,                                    a number that each change of the map raises by one
      "cluster": "5d3c...",                          a name for this cluster that no other has
      "bootstrap": "a",                              the ensemble that holds the primary
      "ensembles": {"a": "h1:2181,h2:2181", ...},    every ensemble by name, with its servers
      "hash": "rendezvous-sha256",
      "placement": ["a", "b", "c"],                  the ensembles that carry znodes; the order counts
      "form": "plain",
      "epochs": [{"epoch": 1, "weights": {"a": 1, "b": 1, "c": 2}, "rules": []}]
    }

The weights are shares of the directories. Ensembles that have come since are the last of the placement, without
a weight: clients know them and may join them, and no znode is there. Form, further epochs and rules are for maps
that change their placement; a client that does not know them refuses the map. A map of format 1 has none of them;
its hash, "sha256", is taken modulo the number of ensembles. It is read, and keeps its format when it changes.

Each ensemble also holds ``/parkazoo/ensemble``, ``{"cluster": ..., "name": ...}``, so that a client with a
wrong address finds out before it writes.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from ipaddress import IPv6Address
from typing import Any
from weakref import WeakValueDictionary

from kazoo.exceptions import NoNodeError

from parkazoo.errors import ClusterMapError
from parkazoo.protocol.placement import ENSEMBLE, MAP, Placement, modulo
from parkazoo.protocol.rendezvous import MOST_WEIGHT, rendezvous

FORMAT = 2  # of new maps
HASHES = {1: "sha256", FORMAT: "rendezvous-sha256"}  # by format
PLAIN = "plain"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
FIRST = "the servers of hosts"  # in place of an ensemble's name, until a client knows which one it is
HOST = re.compile(r"(?:\[(?P<ipv6>[^\[\]]+)\]|(?P<name>[\w.-]+)):(?P<port>[0-9]{1,5})")
QUOTED_AT_MOST = 200
KEYS = frozenset({"format", "epoch", "cluster", "bootstrap", "ensembles", "hash", "placement"})
KEYS_OF = {1: KEYS, FORMAT: KEYS | {"form", "epochs"}}
KEYS_OF_EPOCH = frozenset({"epoch", "weights", "rules"})
IN_EPOCHS = " in 'epochs'"
UPGRADE = "upgrade ParKazoo"

# By their parameters, as long as a client uses them. Each remembers 65,536 paths, which is tens of MB.
_shared: WeakValueDictionary[tuple[int, int, tuple[int, ...]], Placement] = WeakValueDictionary()


def called(name: str) -> str:
    """An ensemble, or FIRST, in a line of the log."""
    return name if name == FIRST else f"ensemble {name}"


def verify_name(name: str) -> None:
    """ClusterMapError if no ensemble can be called that."""
    if not NAME.fullmatch(name):
        raise ClusterMapError(f"{_quoted(name)} is no name for an ensemble: letters, digits, '.', '_' and '-'")


def parse_hosts(hosts: str) -> tuple[tuple[str, int], ...]:
    """``"h1:2181,h2:2181"`` as pairs of host and port; ClusterMapError if it is anything else."""
    if not isinstance(hosts, str):
        raise ClusterMapError(f"hosts must be a string like 'h1:2181,h2:2181', not {_quoted(hosts)}")
    if not hosts.strip():
        raise ClusterMapError(f"{hosts!r} names no server: give one or more, as a1:2181,a2:2181")
    servers = [_parse_server(server.strip(), hosts) for server in hosts.split(",")]
    if len(set(servers)) != len(servers):
        raise ClusterMapError(f"{_quoted(hosts)} names a server twice")
    return tuple(servers)


def _parse_server(server: str, hosts: str) -> tuple[str, int]:
    match = HOST.fullmatch(server)
    if match is not None and 0 < int(match["port"]) < 1 << 16:
        # What these two refuse cannot be looked up: then every attempt to connect would fail.
        with suppress(ValueError):
            if match["ipv6"]:
                return str(IPv6Address(match["ipv6"])), int(match["port"])
            match["name"].encode("idna")
            return match["name"].lower(), int(match["port"])
    raise ClusterMapError(f"{_quoted(server)} in {_quoted(hosts)} is not host:port")


def format_hosts(servers: Iterable[tuple[str, int]]) -> str:
    """The inverse of :func:`parse_hosts`."""
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in servers)


@dataclass(frozen=True)
class ClusterMap:
    """A validated cluster map. Invariants: names are unique and well formed, no server is in two ensembles,
    ``bootstrap`` and every name in ``placement`` are keys of ``ensembles``, and every ensemble is one or the
    other.

    :param ensembles: hosts (``"h:p,h:p"``) by name of the ensemble.
    :param placement: names of the ensembles that carry znodes; a znode's ensemble is an index into it.
    :param bootstrap: name of the ensemble that holds the map and answers for ``/zookeeper``.
    :param weights: of ensembles of the placement, by name: 0 to MOST_WEIGHT, 1 if it is not named.
    :param format: decides the hash; only maps of format 2 have weights.
    :param unweighted: the ensembles at the end of the placement that have come since, and have no weight yet.
    :raises ClusterMapError: if an invariant does not hold.
    """

    cluster: str
    ensembles: Mapping[str, str]
    placement: tuple[str, ...]
    bootstrap: str
    epoch: int = field(default=1)
    weights: Mapping[str, int] = field(default_factory=dict)
    format: int = field(default=FORMAT)
    unweighted: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        if not self.cluster:
            raise ClusterMapError("the cluster's name is empty")
        owner: dict[tuple[str, int], str] = {}
        for name, hosts in self.ensembles.items():
            verify_name(name)
            for server in parse_hosts(hosts):
                other = owner.setdefault(server, name)
                if other != name:
                    raise ClusterMapError(
                        f"server {server[0]}:{server[1]} would be in ensemble {other} and in {name}"
                    )
        if not self.placement:
            raise ClusterMapError("the placement names no ensemble")
        if len(set(self.placement)) != len(self.placement):
            raise ClusterMapError(f"the placement names an ensemble twice: {', '.join(self.placement)}")
        used = {*self.placement, self.bootstrap}
        if missing := used - self.ensembles.keys():
            raise ClusterMapError(f"no hosts are given for ensemble {', '.join(sorted(missing))}")
        if idle := self.ensembles.keys() - used:
            raise ClusterMapError(f"ensemble {', '.join(sorted(idle))} is not in the placement")
        self._verify_weights()

    def _verify_weights(self) -> None:
        if late := [name for name in self.unweighted if name not in self.placement[len(self._weighted) :]]:
            raise ClusterMapError(f"no weight is given for ensemble {', '.join(late)}")
        for name, weight in self.weights.items():
            if name not in self._weighted:
                raise ClusterMapError(f"a weight is given for {_quoted(name)}, which is not in the placement")
            if isinstance(weight, bool) or not isinstance(weight, int) or not 0 <= weight <= MOST_WEIGHT:
                found = _quoted(weight)
                raise ClusterMapError(
                    f"the weight of ensemble {name} is {found}, not a whole number from 0 to {MOST_WEIGHT}"
                )
        if not any(self.shares):
            raise ClusterMapError("every ensemble of the placement has weight 0: no directory could be made")
        if self.format == 1 and set(self.shares) != {1}:
            raise ClusterMapError("a map of format 1 has no weights")

    @property
    def shares(self) -> tuple[int, ...]:
        """The weights of the placement's ensembles, in its order."""
        return (*(self.weights.get(name, 1) for name in self._weighted), *[0] * len(self.unweighted))

    @property
    def _weighted(self) -> tuple[str, ...]:
        return self.placement[: len(self.placement) - len(self.unweighted)]

    @property
    def hash(self) -> str:
        return HASHES[self.format]

    def continues(self, before: ClusterMap) -> bool:
        """Whether it places znodes as an earlier map does, though ensembles without a weight may have come."""
        known = len(before.placement)
        return (
            (self.placement[:known], self.bootstrap) == (before.placement, before.bootstrap)
            and (self._weighted, self.weights) == (before._weighted, before.weights)
            # On one ensemble both formats place all alike.
            and (self.format == before.format or (known == 1 and self.format > before.format))
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Every ensemble: those of the placement in its order, then the bootstrap ensemble if it is apart."""
        return self.placement if self.bootstrap in self.placement else (*self.placement, self.bootstrap)

    def identity(self, name: str) -> dict[str, str]:
        """What ``/parkazoo/ensemble`` of the ensemble `name` holds, as JSON."""
        return {"cluster": self.cluster, "name": name}

    def with_hosts(self, changes: Mapping[str, str]) -> ClusterMap:
        """The map with these hosts, by name, and the next epoch; this one if it names these servers already."""
        servers = {name: parse_hosts(hosts) for name, hosts in changes.items()}
        changed = {
            name: format_hosts(new)
            for name, new in servers.items()
            if set(new) != set(parse_hosts(self.ensembles[name]))
        }
        return replace(self, ensembles={**self.ensembles, **changed}, epoch=self.epoch + 1) if changed else self

    def make_placement(self) -> Placement:
        """Where znodes live by this map; the ensembles' indexes are those of :attr:`names`.

        Clients of a process with the same placement share it, and the places that it remembers.
        """
        shares, bootstrap = self.shares, self.names.index(self.bootstrap)
        key = self.format, bootstrap, shares
        placement = _shared.get(key)
        if placement is None:
            choose = modulo(len(shares)) if self.format == 1 else rendezvous(shares)
            placement = _shared.setdefault(key, Placement(len(shares), bootstrap, choose))
        return placement

    def to_json(self) -> bytes:
        """The bytes to store at ``/parkazoo/map``."""
        document = {
            "format": self.format,
            "epoch": self.epoch,
            "cluster": self.cluster,
            "bootstrap": self.bootstrap,
            "ensembles": dict(self.ensembles),
            "hash": self.hash,
            "placement": list(self.placement),
        }
        if self.format > 1:
            weights = dict(zip(self._weighted, self.shares, strict=False))
            document |= {"form": PLAIN, "epochs": [{"epoch": 1, "weights": weights, "rules": []}]}
        return json.dumps(document, indent=2).encode()

    @classmethod
    def from_json(cls, data: bytes | None) -> ClusterMap:
        """Parse what ``/parkazoo/map`` holds.

        :raises ClusterMapError: if it is damaged, of a newer format, or breaks an invariant.
        """
        try:
            document = json.loads((data or b"").decode(), object_pairs_hook=unique_keys)
        except (ValueError, RecursionError) as error:
            raise ClusterMapError(f"it is damaged (not JSON: {error})") from None
        if not isinstance(document, dict):
            raise ClusterMapError("it is damaged (not a JSON object)")
        number = _typed(document, "format", int)
        if number > FORMAT:
            raise ClusterMapError(f"it has format {number}; this ParKazoo reads up to {FORMAT}: {UPGRADE}")
        if number < 1:
            raise ClusterMapError(f"it is damaged (format {number})")
        _verify_keys(document, KEYS_OF[number])
        if document["hash"] != HASHES[number]:
            raise ClusterMapError(
                f"it asks for hash {_quoted(document['hash'])}; in format {number} ParKazoo knows {HASHES[number]}"
            )
        ensembles = _typed(document, "ensembles", dict)
        placement = _typed(document, "placement", list)
        if not all(isinstance(each, str) for each in (*ensembles.values(), *placement)):
            raise ClusterMapError("it is damaged (ensembles and placement must hold strings)")
        epoch = _typed(document, "epoch", int)
        if epoch < 1:
            raise ClusterMapError(f"it is damaged (epoch {epoch})")
        weights = _weights(document) if number > 1 else dict.fromkeys(placement, 1)
        return cls(
            cluster=_typed(document, "cluster", str),
            ensembles=ensembles,
            placement=tuple(placement),
            bootstrap=_typed(document, "bootstrap", str),
            epoch=epoch,
            weights={
                name: each
                for name, each in weights.items()
                if (name in placement, type(each), each) != (True, int, 1)
            },
            format=number,
            unweighted=tuple(name for name in placement if name not in weights),
        )


def describe_record(record: bytes) -> str:
    """What ``/parkazoo/ensemble`` of an ensemble says, for a message."""
    with suppress(ValueError, RecursionError, TypeError, KeyError):
        found = json.loads(record)
        return f"ensemble {found['name']} of cluster {found['cluster']}"
    return f"marked with something unknown in {ENSEMBLE}"


def no_map_error(hosts: str, record: bytes | None) -> ClusterMapError:
    """The error to raise when servers hold no cluster map. It says what may have happened, and what to do.

    They alone cannot tell whether a map was never made or has been lost.

    :param hosts: the servers that were asked.
    :param record: the data of ``/parkazoo/ensemble`` there; None if there is no such znode.
    """
    if record is None:
        hint = (
            "either none has been made, or this was the bootstrap ensemble of a cluster that still exists on its "
            "other ensembles, and it has lost its data. `parkazoo map init` with all ensembles finds out: it "
            "makes a first map, or refuses and names what is lost"
        )
    else:
        hint = (
            f"these servers are {describe_record(record)}: give servers of its other ensembles too. If none has "
            "the map, it is lost: `parkazoo map init` with all ensembles names what is lost with it"
        )
    return ClusterMapError(f"no cluster map at {MAP} on {hosts}: {hint}")


def wrong_ensemble_error(cluster_map: ClusterMap, name: str, record: bytes | None) -> ClusterMapError | None:
    """The error to raise when the servers of ensemble `name` are not that ensemble; None if they are.

    :param record: the data of ``/parkazoo/ensemble`` there; None if there is no such znode.
    """
    expected = cluster_map.identity(name)
    if record is None:
        told = "is missing; if they are its servers, they have lost their data"
    else:
        try:
            found = json.loads(record)
        except (ValueError, RecursionError):  # not ParKazoo's
            found = record
        if found == expected:
            return None
        told = f"is {found!r}, not {expected!r}"
    return ClusterMapError(
        f"the servers {cluster_map.ensembles[name]} are not ensemble {name} of this cluster: {ENSEMBLE} there "
        f"{told}. See `parkazoo map check`"
    )


def identity_error(cluster_map: ClusterMap, name: str, answer: Any) -> Exception | None:
    """What is wrong with the servers of ensemble `name`, if anything.

    :param answer: to a read of ``/parkazoo/ensemble`` there, which may be an exception.
    """
    if isinstance(answer, Exception) and not isinstance(answer, NoNodeError):
        return answer
    record = None if isinstance(answer, NoNodeError) else answer[0] or b""  # kazoo gives None for no data
    return wrong_ensemble_error(cluster_map, name, record)


def _quoted(value: Any) -> str:
    """Its repr, cut short: a damaged map may hold anything, and people read the message."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = QUOTED_AT_MOST
    return short.repr(value)


def _typed(document: Mapping[str, Any], key: str, kind: type, where: str = "") -> Any:
    value = document.get(key)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ClusterMapError(f"it is damaged ({key!r}{where} is {_quoted(value)})")
    return value


def _verify_keys(document: Mapping[str, Any], keys: frozenset[str], where: str = "") -> None:
    if document.keys() != keys:
        raise ClusterMapError(
            f"it is damaged (missing or unknown{where}: {_quoted(sorted(document.keys() ^ keys))})"
        )


def _weights(document: Mapping[str, Any]) -> dict[str, Any]:
    """The weights by name, not validated, in a map that has never changed its placement.

    :raises ClusterMapError: it is damaged, or has changed its placement.
    """
    form, epochs = _typed(document, "form", str), _typed(document, "epochs", list)
    if form != PLAIN:
        raise ClusterMapError(f"it has form {_quoted(form)}; this ParKazoo knows {PLAIN}: {UPGRADE}")
    if not epochs or not all(isinstance(each, dict) for each in epochs):
        raise ClusterMapError(f"it is damaged ('epochs' is {_quoted(epochs)})")
    if len(epochs) > 1:
        raise ClusterMapError(f"its placement has changed since it was made: {UPGRADE}")
    (first,) = epochs
    _verify_keys(first, KEYS_OF_EPOCH, IN_EPOCHS)
    if (epoch := _typed(first, "epoch", int, IN_EPOCHS)) != 1:
        raise ClusterMapError(f"it is damaged (the first of 'epochs' is {_quoted(epoch)})")
    if _typed(first, "rules", list, IN_EPOCHS):
        raise ClusterMapError(f"it has rules: {UPGRADE}")
    weights: dict[str, Any] = _typed(first, "weights", dict, IN_EPOCHS)
    return weights


def unique_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """For json's ``object_pairs_hook``: ClusterMapError if a key appears twice, where json keeps the last."""
    document = dict(pairs)
    if len(document) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ClusterMapError(f"it is damaged (the key {_quoted(twice)} appears twice)")
    return document
