"""A cluster's writes measured, and advice on them. It writes nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from parkazoo.admin.advice import FOLLOW, SAMPLE, Advice, Measured, advise_on
from parkazoo.admin.all_znodes import Pace, look_at_all, stats_of
from parkazoo.admin.clients import (
    TIMEOUT_S,
    AdminClient,
    Auth,
    connect_to,
    reasons,
    try_each,
    unreachable,
)
from parkazoo.admin.looking import Looker, sessions_of
from parkazoo.admin.rates import ClusterLook, Rates, rates_between
from parkazoo.admin.recursive_watch import Followers
from parkazoo.admin.write_counts import ChangeCounts, DirectoryWrites, counted_by_looks
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.placement import MAP, is_of_zookeeper, is_reserved, join

FOLLOW_S = 15.0
SAMPLE_S = 60.0
ALONE_NAME = "zookeeper"  # of a ZooKeeper without a map
COVERED = 0.99  # of an ensemble's writes: the ages of their directories are asked for
MOST_AGES = 2_000  # directories, and top-level znodes
LOST = "the connection was lost meanwhile: ask again"
TAKE_S = 2.0  # a follower keeps as many paths as it can see in more
Clients = Mapping[str, AdminClient]
T = TypeVar("T")


def find_advice(
    hosts: str,
    *,
    is_plain: bool = False,
    samples: bool = False,
    seconds: float | None = None,
    auth: Auth = (),
    timeout_s: float = TIMEOUT_S,
    **client_options: Any,
) -> Advice:
    """Measures a cluster's writes, and advises on them. It writes nothing. Other arguments as for `init_map`.

    :param is_plain: `hosts` are those of a ZooKeeper without a map, which is asked about before it is adopted.
    :param samples: looks twice at each znode, 500 a second, instead of following each change, which ZooKeeper can
        since 3.6.
    :param seconds: how long writes are counted; two looks may take longer. By default 15, or 60 with `samples`.
    :raises ClusterMapError: as `read_map`; the map has changed meanwhile; with `is_plain`, there is a map.
    """
    looker = (_LookerAlone if is_plain else Looker)(hosts, auth=auth, timeout_s=timeout_s, **client_options)
    with (
        looker,
        connect_to(looker.map.ensembles, looker.options, timeout_s, gives_up=True, registers=True) as (
            clients,
            absent,
        ),
    ):
        count = _by_looks if samples else _by_events
        counted = count(looker, clients, seconds or (SAMPLE_S if samples else FOLLOW_S))
        if counted.now.map != counted.before.map:
            raise ClusterMapError("the map has changed meanwhile: ask again")
        aged, _ = _try_paced(
            clients, lambda client, pace: _with_ages(client, counted.directories.get(client.name, []), pace)
        )
        directories = sorted(
            (each for found in {**counted.directories, **aged}.values() for each in found),
            key=lambda each: (-each.writes, each.ensemble, each.path),
        )
        oldest, _ = _try_paced(clients, _oldest_s)
        guess = looker.map.make_guess()
        rules = {each.directory: guess.rule_of(each.directory) for each in directories}
        now_s = counted.now.time_s
        return advise_on(
            Measured(
                SAMPLE if samples else FOLLOW,
                counted.seconds,
                _rates(counted.before, counted.now),
                directories,
                looker.map.epochs[-1].weights,
                bound=frozenset(directory for directory, rule in rules.items() if rule and rule.on),
                ruled=frozenset(directory for directory, rule in rules.items() if rule),
                can_move=looker.map.form is Form.GROWN,
                tree_s=max((now_s - each for each in oldest.values() if each is not None), default=None),
                now_s=now_s,
                is_plain=is_plain,
                unseen={**{each.name: reasons(each) for each in absent}, **counted.unseen},
            )
        )


class _LookerAlone(Looker):
    """Looks at one ZooKeeper that has no map.

    :raises ClusterMapError: it has one, or does not answer, when the block is entered.
    """

    def __enter__(self) -> Looker:
        ensembles = {ALONE_NAME: self._hosts}
        with connect_to(ensembles, self.options, self._timeout_s, gives_up=True) as (clients, absent):
            if absent:
                raise ClusterMapError(unreachable(absent))
            if clients[ALONE_NAME].is_there(MAP):
                raise ClusterMapError(f"{self._hosts} has a cluster map: ask about the cluster (--hosts)")
        self._open(ClusterMap(ALONE_NAME, ensembles, (ALONE_NAME,), ALONE_NAME))
        return self


class _Counted(NamedTuple):
    """:param directories: by ensemble. :param unseen: by ensemble: why it has none."""

    before: ClusterLook
    now: ClusterLook
    seconds: float
    directories: Mapping[str, Sequence[DirectoryWrites]]
    unseen: Mapping[str, str]


def _by_events(looker: Looker, clients: Clients, seconds: float) -> _Counted:
    counts = {name: ChangeCounts() for name in looker.map.ensembles}
    with Followers(looker.auth, looker.options, by_path=True) as followers:
        followers.follow(looker.map)
        sessions = followers.sessions()
        own = [*sessions.values(), *sessions_of(clients)]
        before = looker.look(own)
        followers.take()
        began_s = time.monotonic()
        while (left_s := began_s + seconds - time.monotonic()) > 0:
            time.sleep(min(left_s, TAKE_S))
            _take(followers, counts)
            if followers.are_over():
                break
        now = looker.look([*own, *followers.sessions().values()])
        _take(followers, counts)
        passed_s = time.monotonic() - began_s
        lost = {name: LOST for name, session in followers.sessions().items() if session != sessions[name]}
        unseen = {**lost, **followers.troubles()}
    directories = {
        name: each.directories(name, passed_s, now.time_s) for name, each in counts.items() if name not in unseen
    }
    return _Counted(before, now, passed_s, directories, unseen)


def _take(followers: Followers, counts: Mapping[str, ChangeCounts]) -> None:
    for name, seen in followers.take().items():
        counts[name].add(seen)


def _by_looks(looker: Looker, clients: Clients, seconds: float) -> _Counted:
    own = sessions_of(clients)
    before = looker.look(own)
    began_s = time.monotonic()
    first, unseen = _try_paced(clients, look_at_all)
    time.sleep(max(0.0, began_s + seconds - time.monotonic()))
    now = looker.look(own)
    passed_s = time.monotonic() - began_s
    second, unseen_later = _try_paced({name: clients[name] for name in first}, look_at_all)
    directories = {
        name: counted_by_looks(name, first[name].znodes, each.znodes, passed_s) for name, each in second.items()
    }
    hidden = {name: why for name, each in second.items() if (why := each.why_not_all())}
    return _Counted(before, now, passed_s, directories, {**unseen, **unseen_later, **hidden})


def _try_paced(
    clients: Clients, function: Callable[[AdminClient, Pace], T]
) -> tuple[Mapping[str, T], Mapping[str, str]]:
    """As `try_each`, each with a pace of its own. At ^C no request passes any more."""
    is_over = threading.Event()
    return try_each(clients, lambda client: function(client, Pace(is_over.is_set)), is_over)


def _rates(before: ClusterLook, now: ClusterLook) -> Rates:
    """Returns the rates between two looks; of the queues the shorter: one that waits for a moment says nothing."""
    rates = rates_between(before, now)
    first = {each.ensemble: each.queue for each in rates_between(before, before).ensembles}

    def shorter(name: str, last: int | None) -> int | None:
        queues = [each for each in (first.get(name), last) if each is not None]
        return min(queues) if len(queues) == 2 else None

    return rates._replace(
        ensembles=[each._replace(queue=shorter(each.ensemble, each.queue)) for each in rates.ensembles]
    )


def _with_ages(client: AdminClient, directories: Sequence[DirectoryWrites], pace: Pace) -> list[DirectoryWrites]:
    """Returns them with the time of their making, of the hottest at least; of one that is gone it may be None."""
    left = (1 - COVERED) * sum(each.writes for each in directories)
    needed: list[str] = []
    for each in reversed(directories):
        left -= each.writes
        if left < 0 and each.made_s is None:
            needed.append(each.path)
    stats = dict(stats_of(client, needed[-MOST_AGES:], pace))
    return [
        each if (stat := stats.get(each.path)) is None else each._replace(made_s=stat.created)
        for each in directories
    ]


def _oldest_s(client: AdminClient, pace: Pace) -> float | None:
    """When the oldest top-level znode was made, since the epoch; None: there is none."""
    paths = [join("/", name) for name in client.children("/")]
    asked = [path for path in paths if not is_of_zookeeper(path) and not is_reserved(path)][:MOST_AGES]
    return min((stat.created for _, stat in stats_of(client, asked, pace) if stat is not None), default=None)
