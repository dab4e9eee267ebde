"""The cluster map: which ensembles there are and which of them carry znodes.

It is stored as JSON in the znode ``/parkazoo/map`` of every ensemble. The bootstrap ensemble's is the
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
      "epochs": [{"epoch": 1, "weights": {"a": 1, "b": 1, "c": 2}, "rules": []}],
      "retired": ["d"],                              names that were taken out, if any were; no ensemble gets them
      "leaving": {"c": 7},                           takes no new directory since map 7, so that it can go
      "gone": {"e": "h9:2181"},                      has left, and held nothing; its place in the order stays
      "move": {...},                                 a directory whose children move (``moving.py``)
      "moved": "1f0c..."                             the last move that has ended, one way or the other
    }

The weights are shares of the directories. Ensembles that have come since are the last of the placement, without
a weight in the first epoch: clients know them and may join them, and later epochs may give them a weight. One that
has left stays in the placement, with weight 0, and is no key of ``ensembles``. Form, further epochs and rules
(``epochs.py``) are for maps that change their placement.

Each ensemble also holds ``/parkazoo/ensemble``, ``{"cluster": ..., "name": ...}``, so that a client with a
wrong address finds out before it writes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from ipaddress import IPv6Address
from typing import ClassVar
from weakref import WeakValueDictionary

from parkazoo.errors import ClusterMapError
from parkazoo.protocol.checked_json import quoted, typed, unique_keys, verify_keys
from parkazoo.protocol.epochs import (
    UPGRADE,
    Epoch,
    Form,
    Rule,
    follow,
    newest_of,
    next_epoch,
    read_epochs,
    verify_known,
    verify_later,
    with_epochs,
)
from parkazoo.protocol.guess import Guess
from parkazoo.protocol.moving import Moving, read_move
from parkazoo.protocol.placement import ENSEMBLE, GENERATION, MAP, Placement
from parkazoo.protocol.rendezvous import rendezvous

FORMAT = 2
HASH = "rendezvous-sha256"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
FIRST = "the servers of hosts"  # in place of an ensemble's name, until a client knows which one it is
HOST = re.compile(r"(?:\[(?P<ipv6>[^\[\]]+)\]|(?P<name>[\w.-]+)):(?P<port>[0-9]{1,5})")
KEYS = frozenset(
    {
        *(
            "format",
            "epoch",
            "cluster",
            "bootstrap",
            "ensembles",
            "hash",
            "placement",
            "retired",
            "leaving",
            "gone",
            "move",
            "moved",
        ),
        *("form", "epochs"),
    }
)

# By their parameters, as long as a client uses them. Each remembers 65,536 paths, which is tens of MB.
_shared: WeakValueDictionary[tuple[int, tuple[int, ...]], Placement] = WeakValueDictionary()
_shared_guesses: WeakValueDictionary[tuple[object, ...], Guess] = WeakValueDictionary()


def called(name: str) -> str:
    """An ensemble, or FIRST, in a line of the log."""
    return name if name == FIRST else f"ensemble {name}"


def verify_name(name: str) -> None:
    """ClusterMapError if no ensemble can be called that."""
    if not NAME.fullmatch(name):
        raise ClusterMapError(f"{quoted(name)} is no name for an ensemble: letters, digits, '.', '_' and '-'")


def parse_hosts(hosts: str) -> tuple[tuple[str, int], ...]:
    """``"h1:2181,h2:2181"`` as pairs of host and port; ClusterMapError if it is anything else."""
    if not isinstance(hosts, str):
        raise ClusterMapError(f"hosts must be a string like 'h1:2181,h2:2181', not {quoted(hosts)}")
    if not hosts.strip():
        raise ClusterMapError(f"{hosts!r} names no server: give one or more, as a1:2181,a2:2181")
    servers = [_parse_server(server.strip(), hosts) for server in hosts.split(",")]
    if len(set(servers)) != len(servers):
        raise ClusterMapError(f"{quoted(hosts)} names a server twice")
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
    raise ClusterMapError(f"{quoted(server)} in {quoted(hosts)} is not host:port")


def format_hosts(servers: Iterable[tuple[str, int]]) -> str:
    """The inverse of :func:`parse_hosts`."""
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in servers)


@dataclass(frozen=True)
class ClusterMap:
    """A validated cluster map. Invariants: names are unique and well formed, no server is in two ensembles,
    ``bootstrap`` and every name in ``placement`` that is not in ``gone`` are keys of ``ensembles``, and every
    ensemble is one or the other.

    :param ensembles: hosts (``"h:p,h:p"``) by name of the ensemble; of those that have not left.
    :param placement: names of the ensembles that carry znodes; a znode's ensemble is an index into it.
    :param bootstrap: name of the ensemble that holds the map and answers for ``/zookeeper``.
    :param weights: in the first epoch, of ensembles of the placement, by name: 0 to MOST_WEIGHT, 1 if not named.
    :param unweighted: the ensembles at the end of the placement that have come since the first epoch, which gives
        them no weight.
    :param form: what clients may take for granted of each other.
    :param later: the newest epochs behind the first, which is made of `weights`; only maps of form GROWN have any.
    :param retired: names of ensembles that were taken out and are not back. Clients may still use these by them.
    :param leaving: the ensembles that no new pin may name, and the number of the map that began that.
    :param gone: the ensembles that have left, which hold nothing, and their last hosts.
    :param move: of the directory whose children move. :param moved: the name of the last move that has ended.
    :raises ClusterMapError: if an invariant does not hold.
    """

    format: ClassVar[int] = FORMAT

    cluster: str
    ensembles: Mapping[str, str]
    placement: tuple[str, ...]
    bootstrap: str
    epoch: int = field(default=1)
    weights: Mapping[str, int] = field(default_factory=dict)
    unweighted: tuple[str, ...] = field(default=())
    form: Form = field(default=Form.PLAIN)
    later: tuple[Epoch, ...] = field(default=())
    retired: tuple[str, ...] = field(default=())
    leaving: Mapping[str, int] = field(default_factory=dict)
    gone: Mapping[str, str] = field(default_factory=dict)
    move: Moving | None = field(default=None)
    moved: str = field(default="")

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
        used = {*self.placement, self.bootstrap} - self.gone.keys()
        if missing := used - self.ensembles.keys():
            raise ClusterMapError(f"no hosts are given for ensemble {', '.join(sorted(missing))}")
        if idle := self.ensembles.keys() - used:
            raise ClusterMapError(f"ensemble {', '.join(sorted(idle))} is not in the placement")
        self._verify_epochs()
        self._verify_parting()

    def _verify_epochs(self) -> None:
        if late := [name for name in self.unweighted if name not in self.placement[len(self._weighted) :]]:
            raise ClusterMapError(f"no weight is given for ensemble {', '.join(late)}")
        verify_known(self.weights, self._weighted)
        verify_later(self.epochs[1:], self.placement, self.form)  # the first one has verified itself

    def _verify_parting(self) -> None:
        for hosts in self.gone.values():
            parse_hosts(hosts)
        for name in (*self.leaving, *self.gone):
            if name not in self.placement or self.form is not Form.GROWN or name == self.bootstrap:
                raise ClusterMapError(f"ensemble {quoted(name)} cannot leave")
            if self.epochs[-1].weights.get(name):
                raise ClusterMapError(f"ensemble {name} leaves, and has a weight")
            if name in self.leaving and name in self.gone:
                raise ClusterMapError(f"ensemble {name} leaves, and has left")
        if self.moved and not GENERATION.fullmatch(self.moved):
            raise ClusterMapError(f"{quoted(self.moved)} is no name of a move")
        if self.last_move and self.form is not Form.GROWN:
            raise ClusterMapError(
                f"its form is {self.form.word}: a directory moves only in form {Form.GROWN.word}"
            )
        if self.move is not None:
            self._verify_move(self.move)

    def _verify_move(self, move: Moving) -> None:
        move.verify({*self.placement} - self.gone.keys())
        if move.target in self.leaving:
            raise ClusterMapError(f"{move.directory} moves to ensemble {move.target}, which leaves")

    @property
    def parting(self) -> dict[str, int]:
        """The ensembles that leave, with the number of the map that began it, and those that have left, with 0."""
        return {**self.leaving, **dict.fromkeys(self.gone, 0)}

    @property
    def shares(self) -> tuple[int, ...]:
        """The weights of the placement's ensembles in the first epoch, in its order."""
        return (*(self.weights.get(name, 1) for name in self._weighted), *[0] * len(self.unweighted))

    @property
    def _weighted(self) -> tuple[str, ...]:
        return self.placement[: len(self.placement) - len(self.unweighted)]

    @property
    def epochs(self) -> tuple[Epoch, ...]:
        """The first decides where directories are that no pin places; the last, where new ones go."""
        return Epoch(1, dict(zip(self._weighted, self.shares, strict=False))), *self.later

    def continues(self, before: ClusterMap) -> bool:
        """Whether it may come behind an earlier map: each directory is where it was, though more may have come.

        The form may be any. (Only commands change it, and :meth:`with_form` says how.) Ensembles that no epoch
        names may have been taken out again. If behind the first no epoch is left that both have, it is not seen
        whether one came behind the other; no directory moves by that.
        """
        kept = [name for name in before.placement if name not in before.unused]
        return (
            (self.cluster, self.bootstrap) == (before.cluster, before.bootstrap)
            and [name for name in self.placement if name in kept] == kept
            and (self._weighted, self.weights) == (before._weighted, before.weights)
            and follow(self.later, before.later)
            and {*kept}.isdisjoint(self.unused)
            and self.gone.keys() >= before.gone.keys()
        )

    @property
    def unused(self) -> tuple[str, ...]:
        """The ensembles that no epoch names."""
        return tuple(name for name in self.unweighted if all(name not in each.weights for each in self.later))

    @property
    def names(self) -> tuple[str, ...]:
        """The placement in its order, with those that have left, then the bootstrap ensemble if it is apart."""
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

    def with_ensembles(self, hosts: Mapping[str, str]) -> ClusterMap:
        """The next map, in which these ensembles have come, by name; no epoch gives them a weight yet."""
        if not hosts:
            return self
        for name in hosts:
            if name in self.ensembles:
                raise ClusterMapError(f"the map has an ensemble {name} already")
            if name in self.gone:
                raise ClusterMapError(f"an ensemble {name} has left this cluster: give the new one another name")
        more = {name: format_hosts(parse_hosts(servers)) for name, servers in hosts.items()}
        return replace(
            self,
            epoch=self.epoch + 1,
            ensembles={**self.ensembles, **more},
            placement=(*self.placement, *more),
            unweighted=(*self.unweighted, *more),
            retired=tuple(name for name in self.retired if name not in more),
        )

    def with_form(self, form: Form) -> ClusterMap:
        """The next map, in this form. It rises one at a time, and only tolerant can become plain again."""
        if form == self.form:
            return self
        if form != self.form + 1 and (self.form, form) != (Form.TOLERANT, Form.PLAIN):
            raise ClusterMapError(f"a map of form {self.form.word} cannot become {form.word} in one step")
        return replace(self, epoch=self.epoch + 1, form=form)

    def with_epoch(self, weights: Mapping[str, int], rules: Sequence[Rule]) -> ClusterMap:
        """The next map, with one more epoch. Of those behind the first, only the newest are kept.

        An ensemble that was leaving stays if it gets a weight.

        :param weights: by name of the ensemble; one that is not named gets no directory.
        """
        verify_known(weights, self.placement)
        later = (*self.later, next_epoch(self.epochs, weights, rules))
        leaving = {name: since for name, since in self.leaving.items() if not weights.get(name)}
        return replace(self, epoch=self.epoch + 1, later=newest_of(later), leaving=leaving)

    def with_leaving(self, name: str) -> ClusterMap:
        """The next map, in which an ensemble has no weight, and no new pin may name it; this one if it is so."""
        if name in self.leaving:
            return self
        newest = self.epochs[-1]
        drained = self.with_epoch({**newest.weights, name: 0}, newest.rules) if newest.weights.get(name) else self
        return replace(drained, epoch=self.epoch + 1, leaving={**self.leaving, name: self.epoch + 1})

    def without(self, name: str) -> ClusterMap:
        """The next map, which an ensemble has left. No pin may name that."""
        return replace(
            self,
            epoch=self.epoch + 1,
            ensembles={each: hosts for each, hosts in self.ensembles.items() if each != name},
            leaving={each: since for each, since in self.leaving.items() if each != name},
            gone={**self.gone, name: self.ensembles[name]},
        )

    def with_move(self, move: Moving | None) -> ClusterMap:
        """The next map, in which a directory moves, or none does."""
        if move is not None and self.move is not None and move.name != self.move.name:
            raise ClusterMapError(f"{self.move.directory} moves: one directory moves at a time")
        moved = self.move.name if move is None and self.move is not None else self.moved
        return replace(self, epoch=self.epoch + 1, move=move, moved=moved)

    @property
    def last_move(self) -> str:
        """The name of the last move that has begun. Older operations may know another place of the directory."""
        return self.moved if self.move is None else self.move.name

    def move_since(self, before: ClusterMap) -> Moving | None:
        """The map's move, or that of the map before, if nothing but moves has changed in between."""
        has_more = any(getattr(self, name) != getattr(before, name) for name in BESIDE_MOVES)
        return None if has_more else self.move or before.move

    def make_placement(self) -> Placement:
        """Where znodes live by the first epoch; the ensembles' indexes are positions in :attr:`names`.

        Clients of a process with the same placement share it, and the places that it remembers.
        """
        shares, bootstrap = self.shares, self.names.index(self.bootstrap)
        key = bootstrap, shares
        placement = _shared.get(key)
        if placement is None:
            placement = _shared.setdefault(key, Placement(len(shares), bootstrap, rendezvous(shares)))
        return placement

    def make_guess(self) -> Guess:
        """Where the newest epoch puts the children of directories; shared, and with indexes, as the placement."""
        first, newest = self.make_placement(), self.later[-1] if self.later else None
        choices = [newest.shares(self.placement, rule) for rule in (None, *newest.rules)] if newest else []
        key = first.bootstrap, self.shares, newest and newest.rules, *choices
        guess = _shared_guesses.get(key)
        if guess is None:
            guess = _shared_guesses.setdefault(key, Guess(first, self.placement, newest))
        return guess

    def to_json(self) -> bytes:
        """The bytes to store at ``/parkazoo/map``."""
        document = {
            "format": FORMAT,
            "epoch": self.epoch,
            "cluster": self.cluster,
            "bootstrap": self.bootstrap,
            "ensembles": dict(self.ensembles),
            "hash": HASH,
            "placement": list(self.placement),
        }
        if self.retired:
            document["retired"] = list(self.retired)
        if self.leaving:
            document["leaving"] = dict(self.leaving)
        if self.gone:
            document["gone"] = dict(self.gone)
        if self.move is not None:
            document["move"] = self.move.to_document()
        if self.moved:
            document["moved"] = self.moved
        return with_epochs(document | {"form": self.form.word}, self.epochs).encode()

    @classmethod
    def from_json(cls, data: bytes | None) -> ClusterMap:
        """Parse what ``/parkazoo/map`` holds. The clients of a process share the map.

        :raises ClusterMapError: if it is damaged, of another format, or breaks an invariant.
        """
        return _parsed(data or b"")

    @classmethod
    def _parse(cls, data: bytes) -> ClusterMap:
        try:
            document = json.loads(data.decode(), object_pairs_hook=unique_keys)
        except (ValueError, RecursionError) as error:
            raise ClusterMapError(f"it is damaged (not JSON: {error})") from None
        if not isinstance(document, dict):
            raise ClusterMapError("it is damaged (not a JSON object)")
        number = typed(document, "format", int)
        if number != FORMAT:
            advice = f": {UPGRADE}" if number > FORMAT else ""
            raise ClusterMapError(
                f"it has format {number}, which this ParKazoo does not know, only {FORMAT}{advice}"
            )
        move = read_move(typed(document, "move", dict)) if "move" in document else None
        document = {"retired": [], "leaving": {}, "gone": {}, "move": {}, "moved": ""} | document
        verify_keys(document, KEYS)
        if document["hash"] != HASH:
            raise ClusterMapError(f"it asks for hash {quoted(document['hash'])}; this ParKazoo knows {HASH}")
        ensembles = typed(document, "ensembles", dict)
        placement, retired = typed(document, "placement", list), typed(document, "retired", list)
        leaving, gone = typed(document, "leaving", dict), typed(document, "gone", dict)
        if not all(isinstance(each, str) for each in (*ensembles.values(), *placement, *retired, *gone.values())):
            raise ClusterMapError("it is damaged (ensembles, placement, 'retired' and 'gone' must hold strings)")
        if not all(type(since) is int for since in leaving.values()):
            raise ClusterMapError("it is damaged ('leaving' must hold numbers)")
        epoch = typed(document, "epoch", int)
        if epoch < 1:
            raise ClusterMapError(f"it is damaged (epoch {epoch})")
        epochs = read_epochs(document, placement)
        return cls(
            cluster=typed(document, "cluster", str),
            ensembles=ensembles,
            placement=tuple(placement),
            bootstrap=typed(document, "bootstrap", str),
            epoch=epoch,
            weights={
                name: each
                for name, each in epochs.first.items()
                if (name in placement, type(each), each) != (True, int, 1)
            },
            unweighted=tuple(name for name in placement if name not in epochs.first),
            form=epochs.form,
            later=epochs.later,
            retired=tuple(retired),
            leaving=leaving,
            gone=gone,
            move=move,
            moved=typed(document, "moved", str),
        )


BESIDE_MOVES = [each.name for each in fields(ClusterMap) if each.name not in ("epoch", "move", "moved")]


@lru_cache(2)  # that of now, and that of before
def _parsed(data: bytes) -> ClusterMap:
    return ClusterMap._parse(data)


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
