"""Make, read and check the cluster map and what the protocol needs on each ensemble. Nothing is printed.

    /parkazoo/map                  on the bootstrap ensemble
    /parkazoo/draft                the same, while the map is being made
    /parkazoo/ensemble             on every ensemble: which one of which cluster this is
    /parkazoo/mirrors, done        on the ensembles of the placement, if there is more than one
    /parkazoo/fences/0 .. 1023     the same

The draft is what makes `init_map` safe to repeat: it is created first, so that all who make a map at the same
time or after a crash agree on one, and becomes the map in the last transaction.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import socket
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    InvalidACLError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
)
from kazoo.protocol.states import KeeperState
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap, describe_record, format_hosts, no_map_error, parse_hosts
from parkazoo.protocol.placement import (
    DONE,
    ENSEMBLE,
    FENCE_COUNT,
    FENCES,
    MAP,
    MIRRORS,
    PIN,
    ROOT,
    Place,
    Placement,
    escape,
    join,
    split,
    unescape,
)
from parkazoo.wire.log import DiscreetLog
from parkazoo.wire.sasl import verify_sasl
from parkazoo.wire.tls import make_context

DRAFT = ROOT + "/draft"
PROBE = "parkazoo-probe-"
APART = "bootstrap"  # the name of a bootstrap ensemble that carries no znodes
TIMEOUT_S = 15.0
SESSION_TIMEOUT_S = 10.0
TCP_TIMEOUT_S = 3.0
CREATES_AT_ONCE = 256  # keeps a transaction far below the servers' limit of 1 MiB
READS_AT_ONCE = 64
REFUSED = "the servers refuse the identity"
MOVED = f"or put its new address into {MAP}, as docs/operations/fsck.md tells"
SHOWN = 5
LOSSES_SHOWN = 20

Auth = Sequence[tuple[str, str]]
T = TypeVar("T")

log = logging.getLogger(__name__)
log.addHandler(logging.NullHandler())  # a connection that is refused is told in an error, not on stderr


class Finding(NamedTuple):
    """What `check_map` found wrong: on which ensemble, what, and what to do.

    :param is_warning: whether the cluster serves all the same.
    """

    ensemble: str
    problem: str
    remedy: str
    is_warning: bool = False


class Loss(NamedTuple):
    """What ensembles that have lost their data had, so far as the other ones know of it; users' paths, sorted.

    :param ensembles: their names.
    :param childless: directories whose children were there.
    :param homeless: directories that were there themselves, and whose children are on another ensemble.
    :param hidden: how many znodes could not be looked at, for want of a right.
    """

    ensembles: tuple[str, ...]
    childless: tuple[str, ...]
    homeless: tuple[str, ...]
    hidden: int

    def __str__(self) -> str:
        parts = [
            f"{what} of {len(paths):,} director{'ies' if len(paths) > 1 else 'y'} ({_some(paths)})"
            for what, paths in (("the children", self.childless), ("the data", self.homeless))
            if paths
        ]
        unseen = f" ({self.hidden:,} znodes could not be looked at)" if self.hidden else ""
        return (
            f"{', '.join(parts) or 'nothing that the other ensembles know of'}; beside that, what no other "
            f"ensemble knows of: znodes, and native directories with all in them{unseen}"
        )


def _some(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - LOSSES_SHOWN:,} more" if len(paths) > LOSSES_SHOWN else ""
    return ", ".join(paths[:LOSSES_SHOWN]) + more


def init_map(
    bootstrap: str,
    ensembles: Mapping[str, str],
    *,
    auth: Auth = (),
    closed: bool = False,
    replace: Collection[str] = (),
    tell: Callable[[Loss], None] = lambda loss: None,
    timeout_s: float = TIMEOUT_S,
    **client_options: Any,
) -> ClusterMap:
    """Make the cluster map, and on every ensemble what the protocol needs; return the map.

    Nothing is written before it is verified that every ensemble is reachable, that no two of them are one,
    that none carries another map and, if there are several, that none has znodes which would be out of reach.
    One ensemble alone is adopted with all its data. Repeating it with the same arguments finishes what a crash
    has left unfinished, makes again what is missing, overwrites nothing, and returns the map that is there. It
    refuses an ensemble that was part of the cluster and has lost its data, unless that is to be replaced.

    :param bootstrap: hosts (``"h:p,h:p"``) of the ensemble that is to hold the map: all or some servers of one
        of `ensembles`, or an ensemble apart that holds the map and nothing else (its name is "bootstrap").
    :param ensembles: hosts by name, of the ensembles that carry znodes; their order is part of the map.
    :param auth: identities as ``(scheme, credential)``.
    :param closed: only the identities of this call may read or change ``/parkazoo``, the map included, so that
        every client needs them; otherwise anyone may.
    :param replace: names of ensembles that are made anew if they have lost their data, which is given up.
    :param tell: called with what is lost, before anything is written.
    :param timeout_s: seconds to wait for the connections, and for each answer.
    :param client_options: further arguments for KazooClient (TLS, SASL), apart from ``handler``.
    :raises ClusterMapError: if anything is not as it must be. It says what, and what to do.
    :raises ConfigurationError: the TLS or SASL options cannot be used.
    """
    wanted = _plan(bootstrap, ensembles)
    verify_names(replace, wanted)
    if closed and not (auth or client_options.get("sasl_options") or client_options.get("certfile")):
        raise ClusterMapError("a closed cluster needs an identity to be closed to: give one in auth (--auth)")
    acl = CREATOR_ALL_ACL if closed else OPEN_ACL_UNSAFE
    options = {**client_options, "auth_data": list(auth)}
    with _connected(wanted.ensembles, options, timeout_s) as (clients, absent):
        if absent:
            raise ClusterMapError(_unreachable(absent))
        # The bootstrap ensemble last: whoever marks the others has written a draft there before.
        first = sorted(clients.values(), key=lambda client: client.name == wanted.bootstrap)
        states = {client.name: _State.read(client) for client in first}
        cluster_map, is_made = _agree(wanted, states)
        for name in states:
            _verify_state(cluster_map, name, states, closed, is_made)
        if lost := _find_lost(cluster_map, states, is_made):
            if not is_made:  # with its ensembles in another order, something else would be told to be lost
                _verify_all_in_reach(cluster_map, clients, is_again=True)
            loss = _assess(cluster_map, clients, lost)
            _verify_given_up(cluster_map, states, loss, replace, is_made)
            tell(loss)
        if any(state.record is None for state in states.values()):
            _verify_distinct(clients, options, timeout_s)
        if not is_made and not lost:
            _verify_all_in_reach(cluster_map, clients, is_again=False)
        if not is_made:
            cluster_map = _write_draft(clients[wanted.bootstrap], cluster_map, acl)
        for client in clients.values():
            _make_structure(client, cluster_map, acl)
            _make_record(client, cluster_map, acl)
        if not is_made:
            _publish(clients[wanted.bootstrap], cluster_map, acl)
    return cluster_map


def read_map(hosts: str, *, auth: Auth = (), timeout_s: float = TIMEOUT_S, **client_options: Any) -> ClusterMap:
    """The cluster map on the bootstrap ensemble at `hosts`; arguments as for `init_map`.

    :raises ClusterMapError: if there is none, it can't be read or used, or nobody answers at `hosts`.
    """
    parse_hosts(hosts)
    with _connected({"": hosts}, {**client_options, "auth_data": list(auth)}, timeout_s) as (clients, absent):
        if absent:
            raise ClusterMapError(f"no ZooKeeper answers within {timeout_s:g} s: {_reasons(absent[0])}")
        (client,) = clients.values()
        found = client.read(MAP)
        if found is None:
            raise no_map_error(hosts, client.read(ENSEMBLE))
        return _parse(found, MAP, hosts)


def check_map(
    hosts: str, *, auth: Auth = (), timeout_s: float = TIMEOUT_S, **client_options: Any
) -> list[Finding]:
    """Compare the cluster map at `hosts` with the ensembles; nothing is written. Arguments as for `init_map`.

    Every server is asked by itself, because a server in the wrong ensemble hides behind the right ones.

    :returns: what is wrong; empty if nothing is.
    :raises ClusterMapError: as `read_map`.
    """
    cluster_map = read_map(hosts, auth=auth, timeout_s=timeout_s, **client_options)
    options = {**client_options, "auth_data": list(auth)}
    remedy = f"start its servers, {MOVED}"
    with _connected(cluster_map.ensembles, options, timeout_s) as (clients, absent):
        return [
            *_check_hosts(hosts, cluster_map),
            *(Finding(client.name, f"cannot be reached: {_reasons(client)}", remedy) for client in absent),
            *(finding for client in clients.values() for finding in _check_ensemble(client, cluster_map)),
            *_check_forms(clients),
            *_check_servers(clients, cluster_map, options, timeout_s),
        ]


def verify_names(names: Collection[str], cluster_map: ClusterMap) -> None:
    """ClusterMapError if one of `names` is not an ensemble of the map."""
    if unknown := [name for name in names if name not in cluster_map.ensembles]:
        raise ClusterMapError(
            f"no ensemble of the map is called {unknown[0]!r}: there are {', '.join(cluster_map.names)}"
        )


# ---- clients -------------------------------------------------------------------------------------------


class _NoRightError(ClusterMapError):
    """The identity may not use a znode."""


class _Client:
    """A KazooClient whose every answer comes within `timeout_s`, with errors that name the ensemble."""

    def __init__(self, name: str, hosts: str, options: Mapping[str, Any], timeout_s: float) -> None:
        self.name = name
        self.hosts = hosts
        self.timeout_s = timeout_s
        # kazoo also waits that long for a server that accepts connections and says nothing
        session_timeout_s = min(SESSION_TIMEOUT_S, timeout_s)
        self.zk = KazooClient(hosts=hosts, logger=DiscreetLog(log), **{"timeout": session_timeout_s, **options})

    def __str__(self) -> str:
        return f"ensemble {self.name} ({self.hosts})" if self.name else self.hosts

    def start(self) -> Any:
        if self.zk.use_ssl:
            make_context(self.zk)  # only to see that it can be made
        if self.zk._connection.sasl_options is not None:
            verify_sasl(self.zk._connection.sasl_options)
        return self.zk.start_async()

    def stop(self) -> None:
        with suppress(KazooException):  # a server that hangs does not acknowledge the end of the session
            self.zk.stop()
            self.zk.close()

    def call(self, method: str, path: str, *arguments: Any) -> Any:
        """What kazoo's `method` answers; NoNodeError and NodeExistsError as they come."""
        return self.wait(path, getattr(self.zk, method + "_async")(path, *arguments))

    def wait(self, path: str, answer: Any) -> Any:
        try:
            return answer.get(timeout=self.timeout_s)
        except (NoNodeError, NodeExistsError):
            raise
        except NoAuthError:
            raise _NoRightError(
                f"no right to use {path} on {self}: give the identity that has it in auth (--auth)"
            ) from None
        except AuthFailedError:
            raise ClusterMapError(f"{self}: {REFUSED}") from None
        except InvalidACLError:
            raise ClusterMapError(f"{self} knows no identity of this client: give one in auth (--auth)") from None
        except (KazooException, self.zk.handler.timeout_exception) as error:
            told = str(error) or type(error).__name__
            raise ClusterMapError(f"{path} on {self}: {told}; it is safe to try again") from error

    def read(self, path: str) -> bytes | None:
        """The data of `path`, not older than this call; None if there is no such znode."""
        try:
            self.call("sync", path)
            data: bytes = self.call("get", path)[0]
        except NoNodeError:
            return None
        return data or b""

    def is_there(self, path: str) -> bool:
        try:
            return self.call("exists", path) is not None
        except _NoRightError:  # since ZooKeeper 3.9, of what may not be read
            return True

    def children(self, path: str) -> list[str]:
        try:
            children: list[str] = self.call("get_children", path)
        except NoNodeError:
            return []
        return children

    def make(self, path: str, data: bytes, acl: Any) -> bool:
        """Create `path`; whether it was not there before."""
        try:
            self.call("create", path, data, acl)
        except NodeExistsError:
            return False
        return True

    def commit(self, path: str, transaction: Any) -> bool:
        """Whether the transaction, which is about `path`, was carried out."""
        results = self.wait(path, transaction.commit_async())
        if any(isinstance(each, NoAuthError) for each in results):
            raise ClusterMapError(
                f"no right to use {path} on {self}: give the identity that has it in auth (--auth)"
            )
        return not any(isinstance(each, Exception) for each in results)


@contextmanager
def _connected(
    hosts_by_name: Mapping[str, str], options: Mapping[str, Any], timeout_s: float
) -> Iterator[tuple[dict[str, _Client], list[_Client]]]:
    """Clients by name, connected in parallel, and those that were not connected in time."""
    clients = [_Client(name, hosts, options, timeout_s) for name, hosts in hosts_by_name.items()]
    deadline = time.monotonic() + timeout_s
    started: list[_Client] = []  # kazoo cannot stop one whose start was interrupted
    try:
        lives = []
        for client in clients:
            lives.append(client.start())
            started.append(client)
        for live in lives:
            live.wait(max(0.0, deadline - time.monotonic()))
        yield (
            {client.name: client for client, live in zip(clients, lives, strict=True) if live.is_set()},
            [client for client, live in zip(clients, lives, strict=True) if not live.is_set()],
        )
    finally:
        _for_each(started, _Client.stop)


def _for_each(items: Sequence[Any], function: Callable[[Any], T]) -> list[T]:
    """Call `function` for all of them in parallel."""
    if not items:
        return []
    with ThreadPoolExecutor(min(len(items), 32)) as pool:
        return list(pool.map(function, items))


def _refusal(client: KazooClient, server: tuple[str, int]) -> str:
    """Why `server` accepts no connection with the options of `client`; empty if it does."""
    try:
        with socket.create_connection(server, TCP_TIMEOUT_S) as plain:
            if client.use_ssl:
                make_context(client).wrap_socket(plain, server_hostname=server[0]).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _reasons(client: _Client) -> str:
    """For a client that did not connect: why."""
    if client.zk.client_state == KeeperState.AUTH_FAILED:
        return REFUSED
    servers = parse_hosts(client.hosts)
    return ", ".join(
        f"{format_hosts([server])}: {refusal or 'answers, but not as a ZooKeeper that serves (no quorum? TLS?)'}"
        for server, refusal in zip(servers, _for_each(servers, partial(_refusal, client.zk)), strict=True)
    )


def _unreachable(absent: Sequence[_Client]) -> str:
    told = "".join(f"\n  ensemble {client.name}: {_reasons(client)}" for client in absent)
    return f"cannot be reached within {absent[0].timeout_s:g} s:{told}"


# ---- what is there -------------------------------------------------------------------------------------


class _State(NamedTuple):
    """What an ensemble holds below ``/parkazoo``, whose children are `parts`; None for what is missing."""

    hosts: str
    map: bytes | None
    draft: bytes | None
    record: bytes | None
    is_open: bool | None
    strange: tuple[str, ...]
    has_mirrors: bool
    parts: frozenset[str]

    @classmethod
    def read(cls, client: _Client) -> _State:
        client.read(ROOT)
        try:
            acl = client.call("get_acls", ROOT)[0]
        except NoNodeError:
            return cls(client.hosts, None, None, None, None, (), False, frozenset())
        own = {split(path)[1] for path in (MAP, DRAFT, ENSEMBLE, MIRRORS, FENCES, DONE)}
        names = client.children(ROOT)
        return cls(
            hosts=client.hosts,
            map=client.read(MAP),
            draft=client.read(DRAFT),
            record=client.read(ENSEMBLE),
            is_open=acl == OPEN_ACL_UNSAFE,
            strange=tuple(name for name in names if name not in own and not name.startswith(PROBE)),
            has_mirrors=bool(client.children(MIRRORS)),
            parts=frozenset(join(ROOT, name) for name in names),
        )


def _parse(data: bytes, path: str, hosts: str) -> ClusterMap:
    try:
        return ClusterMap.from_json(data)
    except ClusterMapError as error:
        raise ClusterMapError(f"cannot use the cluster map at {path} on {hosts}: {error}") from None


def _record(cluster_map: ClusterMap, name: str) -> bytes:
    return json.dumps(cluster_map.identity(name)).encode()


def _is_record(data: bytes, cluster_map: ClusterMap, name: str) -> bool:
    with suppress(ValueError, RecursionError):
        return bool(json.loads(data) == cluster_map.identity(name))
    return False


def _plan(bootstrap: str, ensembles: Mapping[str, str]) -> ClusterMap:
    """The map that is asked for, validated, with a fresh cluster id."""
    own = set(parse_hosts(bootstrap))
    servers = {name: set(parse_hosts(hosts)) for name, hosts in ensembles.items()}
    if not servers:
        raise ClusterMapError("give at least one ensemble that carries znodes")
    hosts = {name: format_hosts(parse_hosts(text)) for name, text in ensembles.items()}
    for name, theirs in servers.items():
        if own <= theirs:
            break
        if common := own & theirs:
            raise ClusterMapError(
                f"the bootstrap ensemble {bootstrap} shares {format_hosts(sorted(common))} with ensemble {name}: "
                f"let it be servers of {name} alone, or none of them"
            )
    else:
        name = APART
        if name in servers:
            raise ClusterMapError(
                f"{name!r} is the name of the ensemble at {bootstrap}: name the other one otherwise"
            )
        hosts[name] = format_hosts(parse_hosts(bootstrap))
    return ClusterMap(cluster=uuid.uuid4().hex, ensembles=hosts, placement=tuple(ensembles), bootstrap=name)


def _agree(wanted: ClusterMap, states: Mapping[str, _State]) -> tuple[ClusterMap, bool]:
    """The map to go on with: the one that is there, else the draft, else the one wanted; whether it is made.

    The one wanted is that of the cluster which the ensembles are of, if they are of one: perhaps its map is lost.
    """
    state = states[wanted.bootstrap]
    if state.map is not None:
        return _same(wanted, _parse(state.map, MAP, state.hosts), MAP), True
    if state.draft is not None:
        return _same(wanted, _parse(state.draft, DRAFT, state.hosts), DRAFT), False
    clusters = {_cluster_of(each.record) for each in states.values() if each.record is not None}
    if len(clusters) == 1:
        return dataclasses.replace(wanted, cluster=clusters.pop() or wanted.cluster), False
    return wanted, False


def _cluster_of(record: bytes) -> str:
    """The cluster's id in what ``/parkazoo/ensemble`` holds; empty if it is damaged."""
    with suppress(ValueError, RecursionError, TypeError, KeyError):
        return str(json.loads(record)["cluster"])
    return ""


def _same(wanted: ClusterMap, found: ClusterMap, path: str) -> ClusterMap:
    """`found`, unless it is another map than the one wanted."""
    differences = []
    if found.bootstrap != wanted.bootstrap:
        differences.append(f"its bootstrap ensemble is {found.bootstrap}, not {wanted.bootstrap}")
    if found.placement != wanted.placement:
        differences.append(f"its placement is {', '.join(found.placement)}, not {', '.join(wanted.placement)}")
    for name, hosts in wanted.ensembles.items():
        theirs = found.ensembles.get(name)
        if theirs is not None and set(parse_hosts(theirs)) != set(parse_hosts(hosts)):
            differences.append(f"its ensemble {name} is {theirs}, not {hosts}")
    if not differences:
        return found
    where = f"{path} on {found.ensembles[found.bootstrap]}"
    told = "; ".join(differences)
    if path == MAP:
        raise ClusterMapError(
            f"there is another cluster map at {where}: {told}. See it with `parkazoo map show`; "
            "docs/operations/fsck.md tells how to change a server's address in it"
        )
    raise ClusterMapError(
        f"a map with other arguments was begun and not finished at {where}: {told}. Finish it with its own "
        f"arguments; or, if none of its ensembles has znodes below {MIRRORS}, delete {ROOT} on each"
    )


# ---- verify --------------------------------------------------------------------------------------------


def _verify_state(
    cluster_map: ClusterMap, name: str, states: Mapping[str, _State], closed: bool, is_made: bool
) -> None:
    state = states[name]
    where = f"ensemble {name} ({state.hosts})"
    if state.map is not None and name != cluster_map.bootstrap:
        if not is_made and _cluster_of(state.map) == cluster_map.cluster:
            raise ClusterMapError(
                f"{where} is the bootstrap ensemble of this cluster: give its hosts as --bootstrap"
            )
        raise ClusterMapError(f"{where} carries another cluster map, at {MAP}: an ensemble is in one cluster")
    if state.draft is not None and name != cluster_map.bootstrap:
        raise ClusterMapError(
            f"a map was begun and not finished at {DRAFT} on {where}: finish it with its own arguments, which "
            "have its hosts as --bootstrap"
        )
    if state.record is not None and not _is_record(state.record, cluster_map, name):
        told = f"{where} is {describe_record(state.record)}: an ensemble is in one cluster, under one name. "
        if state.has_mirrors:
            told += f"It has znodes of that cluster below {MIRRORS}: leave {ROOT} there, and use other servers"
        else:
            told += f"Use other servers; or, if that cluster is given up, delete {ROOT} there"
        raise ClusterMapError(told)
    if state.is_open is not None:
        _verify_form(where, state.is_open, closed)
    if state.strange:
        there = ", ".join(f"{ROOT}/{each}" for each in state.strange[:SHOWN])
        raise ClusterMapError(f"{where} has {there}, not of this cluster: {ROOT} is ParKazoo's, delete them")
    if state.has_mirrors and state.record is None and not is_made:
        raise ClusterMapError(
            f"{where} has znodes below {MIRRORS}, but no {ENSEMBLE}: it has been an ensemble of a cluster. Use "
            "other servers; or make that znode again as the other ensembles of its cluster have it, with this "
            "one's name"
        )


def _find_lost(cluster_map: ClusterMap, states: Mapping[str, _State], is_made: bool) -> list[str]:
    """The ensembles that have lost their data.

    All are made and marked before the map is published, and there is a draft until then. So if there is a map, or
    no draft and yet a mark, what is missing has been there.
    """
    has_draft = states[cluster_map.bootstrap].draft is not None
    if not is_made and (has_draft or all(state.record is None for state in states.values())):
        return []
    return [name for name in cluster_map.names if _lost_parts(cluster_map, name, states[name].parts)]


def _lost_parts(cluster_map: ClusterMap, name: str, parts: Collection[str]) -> list[str]:
    """Of what an ensemble has below ``/parkazoo``, that which cannot be made again without losing something."""
    needed = [MAP] if name == cluster_map.bootstrap else [ENSEMBLE]  # the map marks its ensemble too
    if _has_mirrors(cluster_map, name):
        needed.append(MIRRORS)
    return [path for path in needed if path not in parts]


def _parts(client: _Client) -> frozenset[str]:
    return frozenset(join(ROOT, name) for name in client.children(ROOT))


def _verify_given_up(
    cluster_map: ClusterMap, states: Mapping[str, _State], loss: Loss, replaced: Collection[str], is_made: bool
) -> None:
    """Every ensemble that has lost its data is to be replaced, and can be."""
    if kept := [name for name in loss.ensembles if name not in replaced]:
        first, found = cluster_map.bootstrap, [n for n in cluster_map.names if states[n].record is not None]
        lost = " and ".join(f"ensemble {name} ({states[name].hosts})" for name in kept)
        told = f"the data of this cluster on {lost} is lost"
        options = " ".join(f"--replace {name}" for name in kept)
        if not is_made:
            told = (
                f"no cluster map at {MAP} on ensemble {first} ({states[first].hosts}), but ensemble "
                f"{', '.join(found)} {'are' if len(found) > 1 else 'is'} of cluster {cluster_map.cluster}. If "
                f"{first} was not its bootstrap ensemble, give that one as --bootstrap. If it was, {told}"
            )
        raise ClusterMapError(
            f"{told}: {loss}. Bring back the old servers or a backup, or give up what was there with {options}"
        )
    for name in loss.ensembles:
        if FENCES in states[name].parts and MIRRORS not in states[name].parts:
            raise ClusterMapError(
                f"ensemble {name} ({states[name].hosts}) has lost {MIRRORS} but not {FENCES}: stop the clients, "
                f"delete {FENCES} there with what is below it, and try again"
            )


def _assess(cluster_map: ClusterMap, clients: Mapping[str, _Client], lost: Sequence[str]) -> Loss:
    """What the ensembles tell of those that have lost their data; goes through all that there is."""
    placement = cluster_map.make_placement()
    mirrors = {cluster_map.names.index(name): set(clients[name].children(MIRRORS)) for name in lost}
    childless: set[str] = set()
    homeless: set[str] = set()
    hidden: list[str] = []
    for name in cluster_map.placement:
        to_list = ["/", MIRRORS]
        for path, names in _listings(clients[name], to_list, hidden):
            directory = placement.logical(path)
            where = placement.of_children(directory)
            if PIN in names and escape(directory) not in mirrors.get(where, {escape(directory)}):
                childless.add(directory)
            if path == MIRRORS:
                homes = {each: placement.home(each) for each in map(unescape, names)}
                homeless.update(
                    each
                    for each, home in homes.items()
                    if home.ensemble in mirrors
                    and not clients[cluster_map.names[home.ensemble]].is_there(home.path)
                )
            children = (join(path, each) for each in names if each != PIN)
            to_list += [each for each in children if each not in {"/zookeeper", ROOT}]
    return Loss(tuple(lost), tuple(sorted(childless)), tuple(sorted(homeless)), len(hidden))


def _verify_form(where: str, is_open: bool, closed: bool) -> None:
    if is_open and closed:
        raise ClusterMapError(f"{ROOT} on {where} is open to all: leave out --closed")
    if not is_open and not closed:
        raise ClusterMapError(
            f"{ROOT} on {where} is closed: give --closed, and the identity that it needs in --auth"
        )


def _verify_distinct(clients: Mapping[str, _Client], options: Mapping[str, Any], timeout_s: float) -> None:
    """Each name is an ensemble of its own, and all its servers are in it.

    Host names prove nothing, nor do the servers' own lists of members, in which each may call itself 0.0.0.0.
    So every ensemble is given an ephemeral, and every server is asked which ones it has.
    """
    servers = {name: parse_hosts(client.hosts) for name, client in clients.items()}
    if sum(map(len, servers.values())) == 1:
        return
    parents = {name: ROOT if client.call("exists", ROOT) else "/" for name, client in clients.items()}
    run = PROBE + uuid.uuid4().hex
    probes = {f"{run}-{index}": name for index, name in enumerate(clients)}
    for probe, name in probes.items():
        clients[name].call("create", join(parents[name], probe), b"", OPEN_ACL_UNSAFE, True)

    def look(client: _Client, parent: str) -> set[str]:
        client.call("sync", parent)
        return {probes[child] for child in client.children(parent) if child in probes}

    try:
        with _each_server(clients, options, timeout_s) as (connected, _):
            for server, (name, client) in connected.items():
                seen = look(client, parents[name])
                if seen == {name}:
                    continue
                if name not in seen:
                    raise ClusterMapError(
                        f"server {server} is not in one ensemble with the other servers of {name} "
                        f"({clients[name].hosts})" + (f", but in {', '.join(sorted(seen))}" if seen else "")
                    )
                raise ClusterMapError(f"{' and '.join(sorted(seen))} are one ensemble: {server} belongs to both")
    finally:
        for probe, name in probes.items():
            with suppress(NoNodeError, ClusterMapError):  # it ends with the session anyway
                clients[name].call("delete", join(parents[name], probe))


@contextmanager
def _each_server(
    clients: Mapping[str, _Client], options: Mapping[str, Any], timeout_s: float
) -> Iterator[tuple[dict[str, tuple[str, _Client]], dict[str, tuple[str, str]]]]:
    """A client for each server alone, and why there is none: both by server, with the ensemble's name."""
    servers = {
        format_hosts([server]): (name, server)
        for name, client in clients.items()
        for server in parse_hosts(client.hosts)
    }
    any_client = next(iter(clients.values())).zk
    refusals = _for_each([server for _, server in servers.values()], partial(_refusal, any_client))
    failed = {
        address: (name, refusal)
        for (address, (name, _)), refusal in zip(servers.items(), refusals, strict=True)
        if refusal
    }
    hosts = {address: address for address in servers if address not in failed}
    with _connected(hosts, options, timeout_s) as (connected, absent):
        failed |= {client.name: (servers[client.name][0], "serves no requests") for client in absent}
        yield {address: (servers[address][0], client) for address, client in connected.items()}, failed


def _verify_all_in_reach(cluster_map: ClusterMap, clients: Mapping[str, _Client], is_again: bool) -> None:
    """No ensemble has a znode at a place where this map would not look for it.

    :param is_again: whether ensembles are of a cluster already, whose map is lost.
    """
    if len(cluster_map.names) == 1:
        return
    placement = cluster_map.make_placement()
    strays = []
    for index, name in enumerate(cluster_map.names):
        if found := _strays(clients[name], index, placement):
            strays.append(f"{', '.join(found)}{', ...' if len(found) == SHOWN else ''} on {clients[name]}")
    if not strays:
        return
    told = f"znodes would be out of reach with these ensembles in this order: {'; '.join(strays)}. "
    if is_again:
        raise ClusterMapError(
            f"{told}There are marks of cluster {cluster_map.cluster}, but no map: to make it again, give all its "
            "ensembles in their old order"
        )
    raise ClusterMapError(
        f"{told}Begin with empty ensembles and copy the znodes with a ParKazooClient, or make a map of the one "
        "ensemble that has data"
    )


def _strays(client: _Client, index: int, placement: Placement) -> list[str]:
    """Some znodes on ensemble `index` whose place is elsewhere; goes through the whole tree if there are none."""
    found = [
        path
        for path in (join(MIRRORS, name) for name in client.children(MIRRORS))
        if placement.children(placement.logical(path)) != Place(index, path)
    ]
    to_list = ["/"]
    for path, names in _listings(client, to_list):
        for name in names:
            child = join(path, name)
            if child in {"/zookeeper", ROOT} or child.startswith(f"/{PROBE}") or name == PIN:
                continue
            if placement.home(child) == Place(index, child):
                to_list.append(child)
            else:
                found.append(child)
        if len(found) >= SHOWN:
            break
    return found[:SHOWN]


def _listings(
    client: _Client, to_list: list[str], hidden: list[str] | None = None
) -> Iterator[tuple[str, list[str]]]:
    """The paths in `to_list`, to which the caller adds while it goes on, with the names of their children.

    :param hidden: gets the paths that may not be listed, which else is an error.
    """
    while to_list:
        batch = to_list[-READS_AT_ONCE:]
        del to_list[-READS_AT_ONCE:]
        for path, answer in [(path, client.zk.get_children_async(path)) for path in batch]:
            with suppress(NoNodeError):  # deleted meanwhile
                try:
                    names = client.wait(path, answer)
                except _NoRightError:
                    if hidden is None:
                        raise
                    hidden.append(path)
                else:
                    yield path, names


# ---- make ----------------------------------------------------------------------------------------------


def _write_draft(client: _Client, cluster_map: ClusterMap, acl: Any) -> ClusterMap:
    """The draft: this map, or the one of somebody who was faster, if that is the same but for its id."""
    _make_root(client, acl)
    transaction = client.zk.transaction()
    transaction.create(MAP, b"", acl)  # fails if there is a map by now
    transaction.delete(MAP)
    transaction.create(DRAFT, cluster_map.to_json(), acl)
    if client.commit(DRAFT, transaction):
        return cluster_map
    for path in (DRAFT, MAP):
        if (data := client.read(path)) is not None:
            return _same(cluster_map, _parse(data, path, client.hosts), path)
    raise ClusterMapError(f"{DRAFT} on {client} comes and goes: let one `parkazoo map init` run at a time")


def _make_root(client: _Client, acl: Any) -> None:
    if not client.make(ROOT, b"", acl):
        is_open = client.call("get_acls", ROOT)[0] == OPEN_ACL_UNSAFE
        _verify_form(str(client), is_open, closed=acl != OPEN_ACL_UNSAFE)


def _make_structure(client: _Client, cluster_map: ClusterMap, acl: Any) -> None:
    _make_root(client, acl)
    if not _has_mirrors(cluster_map, client.name):
        return
    for path in (MIRRORS, FENCES, DONE):
        client.make(path, b"", acl)
    while missing := _missing_fences(client):
        for start in range(0, len(missing), CREATES_AT_ONCE):
            transaction = client.zk.transaction()
            for path in missing[start : start + CREATES_AT_ONCE]:
                transaction.create(path, b"", acl)
            client.commit(FENCES, transaction)  # it fails if somebody else makes them too: look again


def _has_mirrors(cluster_map: ClusterMap, name: str) -> bool:
    """Whether the ensemble needs mirrors and what belongs to them: with one ensemble all is native."""
    return len(cluster_map.placement) > 1 and name in cluster_map.placement


def _missing_fences(client: _Client) -> list[str]:
    there = set(client.children(FENCES))
    return [f"{FENCES}/{number}" for number in range(FENCE_COUNT) if str(number) not in there]


def _make_record(client: _Client, cluster_map: ClusterMap, acl: Any) -> None:
    if client.make(ENSEMBLE, _record(cluster_map, client.name), acl):
        return
    found = client.read(ENSEMBLE) or b""
    if not _is_record(found, cluster_map, client.name):
        raise ClusterMapError(
            f"{client} has meanwhile become {describe_record(found)}: let one `parkazoo map init` run at a time"
        )


def _publish(client: _Client, cluster_map: ClusterMap, acl: Any) -> None:
    transaction = client.zk.transaction()
    transaction.delete(DRAFT)
    transaction.create(MAP, cluster_map.to_json(), acl)
    if not client.commit(MAP, transaction):
        data = client.read(MAP)
        if data is None:
            raise ClusterMapError(f"{DRAFT} on {client} was deleted meanwhile: run `parkazoo map init` again")
        _same(cluster_map, _parse(data, MAP, client.hosts), MAP)


# ---- check ---------------------------------------------------------------------------------------------


def _check_hosts(hosts: str, cluster_map: ClusterMap) -> Iterator[Finding]:
    """With servers of two ensembles a client finds the map or not, by chance."""
    given = set(parse_hosts(hosts))
    for name, theirs in cluster_map.ensembles.items():
        if name != cluster_map.bootstrap and (strays := given & set(parse_hosts(theirs))):
            told = f"{format_hosts(sorted(strays))} is among the hosts that were given"
            yield Finding(name, told, f"give servers of ensemble {cluster_map.bootstrap} alone, to clients too")


def _check_ensemble(client: _Client, cluster_map: ClusterMap) -> Iterator[Finding]:
    again = "run `parkazoo map init` again with the arguments of the map"
    if client.name != cluster_map.bootstrap and client.read(MAP) is not None:
        yield Finding(client.name, f"it carries a map too, at {MAP}", "it may be in another cluster: see that map")
    if client.name == cluster_map.bootstrap and client.read(MAP) != cluster_map.to_json():
        yield Finding(client.name, "its map is not the one that was read", "give the hosts that the map names")
    parts = _parts(client)
    if lost := _lost_parts(cluster_map, client.name, parts):
        yield Finding(
            client.name,
            f"{' and '.join(lost)} {'are' if len(lost) > 1 else 'is'} missing: it has lost its data, or these are "
            "new servers",
            "bring back the old servers or a backup; `parkazoo map init` with the arguments of the map tells what "
            f"is lost, and with --replace {client.name} gives it up",
        )
    elif client.name == cluster_map.bootstrap and ENSEMBLE not in parts:
        yield Finding(client.name, f"{ENSEMBLE} is missing", again)
    if not lost and _has_mirrors(cluster_map, client.name):
        missing = [path for path in (FENCES, DONE) if path not in parts] or _missing_fences(client)
        if missing:
            more = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
            yield Finding(client.name, f"missing: {', '.join(missing[:SHOWN])}{more}", again)


def _check_forms(clients: Mapping[str, _Client]) -> Iterator[Finding]:
    forms = {name: _State.read(client).is_open for name, client in clients.items()}
    if len({*forms.values()} - {None}) > 1:
        open_ones = ", ".join(name for name, is_open in forms.items() if is_open)
        yield Finding(open_ones, f"{ROOT} is open there and closed elsewhere", f"set the ACLs of {ROOT} and below")


def _check_servers(
    clients: Mapping[str, _Client], cluster_map: ClusterMap, options: Mapping[str, Any], timeout_s: float
) -> Iterator[Finding]:
    wrong_server = f"start the ensemble's own server at this address, {MOVED}"
    with _each_server(clients, options, timeout_s) as (connected, failed):
        for server, (name, reason) in failed.items():
            remedy = f"start it, {MOVED}"
            if name in clients and _lost_parts(cluster_map, name, _parts(clients[name])):
                remedy = (
                    "do not start it beside the emptied ones, which would overwrite its data: "
                    "see docs/operations/fsck.md"
                )
            yield Finding(name, f"server {server}: {reason}", remedy, is_warning=name in clients)
        for server, (name, client) in connected.items():
            record = client.read(ENSEMBLE)
            if record is not None and not _is_record(record, cluster_map, name):
                yield Finding(name, f"server {server} is {describe_record(record)}", wrong_server)
            elif record is None and clients[name].read(ENSEMBLE) is not None:
                yield Finding(name, f"server {server} is in another ensemble", wrong_server)
