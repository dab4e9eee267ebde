"""Adds ensembles to a map, and takes them out again before they have a directory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from parkazoo.admin.arguments import arguments_alone
from parkazoo.admin.clients import TIMEOUT_S, AdminClient, Auth, Options, connect_to
from parkazoo.admin.contents import DELETE_ALL, Contents
from parkazoo.admin.identity import is_identity, verify_distinct
from parkazoo.admin.make import make_identity, make_structure
from parkazoo.admin.publish import change_map, verify_size
from parkazoo.admin.read import read_map
from parkazoo.admin.rise import OnWait, Rise, Tell, is_changed
from parkazoo.admin.strays import SHOWN
from parkazoo.admin.verify import verify_contents
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap, parse_hosts, verify_name
from parkazoo.protocol.epochs import Epoch, Form
from parkazoo.protocol.placement import ENSEMBLE, MIRRORS, PROBE, ROOT, shown


def grow_map(
    hosts: str,
    ensembles: Mapping[str, str],
    weights: Mapping[str, int] | None = None,
    *,
    yes: bool = False,
    dry_run: bool = False,
    strangers_gone: bool = False,
    tell: Tell = lambda step: None,
    on_wait: OnWait = lambda waiting: None,
    auth: Auth = (),
    timeout_s: float = TIMEOUT_S,
    **client_options: Any,
) -> ClusterMap:
    """Adds empty ensembles to the map; new directories go there from then on. Returns the map.

    It verifies the new servers, makes the znodes there that the protocol needs, and publishes a map that names
    them. Then it raises the map's form to ``grown``, step by step, and waits for all clients at each step. With
    that form comes an epoch with the new weights; if the form was ``grown`` already, in one more map. A call may
    be interrupted anywhere, by a lost connection too; the next call goes on from there. Several may run at
    once.

    :param hosts: servers of any ensembles of the cluster.
    :param ensembles: hosts (``"h:p,h:p"``) of the new ensembles, by name. Without any, only the form rises.
    :param weights: of the new ensembles, by name; 1 by default.
    :param yes: confirms that the form rises, for good, although no ensemble comes.
    :param dry_run: writes nothing, and returns the map that a call would publish. It cannot verify whether the new
        servers of one ensemble share their data, because that takes a write.
    :param strangers_gone: confirms that no plain kazoo program uses the znodes any more, nor a client that could
        not register; the servers are not asked for their connections.
    :param tell: called after each step, with a sentence about it.
    :param on_wait: called twice a second with the clients that have not followed; by a dry run once, with all
        clients for which a call would wait.
    :param timeout_s: seconds to wait for the connections, and for each answer.
    :param client_options: as for `init_map`.
    :raises UnconfirmedError: only the form would rise, and `yes` is not set.
    :raises ClusterMapError: the map cannot gain ensembles, a server is unfit or unreachable, or a copy cannot be
        written. The text has the remedy.
    """
    weights = weights or {}
    _verify_arguments(ensembles, weights)
    options = {**client_options, "auth_data": list(auth)}
    rise = Rise(options, timeout_s, tell, on_wait, dry_run, yes or bool(ensembles), strangers_gone)
    known = read_map(hosts, auth=auth, timeout_s=timeout_s, **client_options)

    def place_them(before: ClusterMap) -> ClusterMap:
        return _with_weights(before, ensembles, weights)

    def name_them(before: ClusterMap) -> ClusterMap:
        _verify_growable(before, ensembles, weights)
        wanted = before.with_ensembles({n: each for n, each in ensembles.items() if n not in before.ensembles})
        if wanted != before:
            verify_size(before, place_them(replace(wanted, form=Form.GROWN)))
            _verify_servers(before, wanted, rise)
        if not ensembles or is_changed(wanted, place_them):
            rise.verify_ready(before, wanted)
        if wanted != before and not dry_run:
            _prepare(before, wanted, rise)
        return wanted

    def tell_names(named: ClusterMap) -> None:
        tell(f"{'would publish' if dry_run else 'published'} map {named.epoch}, which names {_listed(ensembles)}")

    if dry_run:
        named = name_them(known)
        if named != known:
            tell_names(named)
    else:
        named = change_map(known, name_them, options, timeout_s, tell_names)
    return rise.change(named, place_them, alone=not ensembles)


def abort_growth(
    hosts: str, *, auth: Auth = (), timeout_s: float = TIMEOUT_S, **client_options: Any
) -> tuple[str, ...]:
    """Takes ensembles that no epoch names out of the map. Arguments as for `grow_map`.

    They may be away; their znodes stay. A map of form ``tolerant`` becomes ``plain`` again, a higher form stays.

    :returns: a sentence for each step.
    :raises ClusterMapError: no ensemble can be taken out, for the reason in the text; or as `change_hosts`.
    """
    options = {**client_options, "auth_data": list(auth)}
    known = read_map(hosts, auth=auth, timeout_s=timeout_s, **client_options)
    unused: dict[str, None] = {}

    def give_up(before: ClusterMap) -> ClusterMap:
        """Changes form and ensembles in one map. Only ensembles that stay get it: the others may be away."""
        unused.update(dict.fromkeys(before.unused))
        _verify_without_directories(before, options, timeout_s)
        is_tolerant = before.form is Form.TOLERANT
        given_up = without_unused(before.with_form(Form.PLAIN) if is_tolerant else before)
        return given_up if given_up == before else replace(given_up, epoch=before.epoch + 1)

    after = change_map(known, give_up, options, timeout_s)
    gone = [name for name in unused if name not in after.ensembles]
    if after.form == known.form and not gone:
        raise ClusterMapError(f"there is nothing to abort: {_why_not(after)}")
    without = f" without {', '.join(gone)}" if gone else ""
    again = ": paths decide where directories are, as before" if after.form < known.form else ""
    to_reuse = (
        f". To use these servers for something else, delete {ROOT} there ({DELETE_ALL}). No other ensemble gets "
        f"the name {' or '.join(gone)}"
    )
    return (f"published map {after.epoch}{without}{again}{to_reuse if gone else ''}",)


def _why_not(cluster_map: ClusterMap) -> str:
    """Returns the reason why no command can abort the growth of a map."""
    if cluster_map.form is Form.PLAIN:
        return "no change has begun"
    if cluster_map.move is not None:
        path = shown(cluster_map.move.directory)
        return f"{path} moves, which `parkazoo map move {path} --abort` calls off"
    if cluster_map.form is Form.GUARDED:
        return "clients write pins already. `parkazoo map grow` goes on from there"
    return (
        f"directories may be on each ensemble, {', '.join(cluster_map.placement)}. `parkazoo map drain` keeps new "
        "ones away"
    )


@arguments_alone()
def _verify_arguments(ensembles: Mapping[str, str], weights: Mapping[str, int]) -> None:
    for name, servers in ensembles.items():
        verify_name(name)
        parse_hosts(servers)
    for name in weights:
        if name not in ensembles:
            raise ClusterMapError(f"a weight is given for {name!r}, which is none of the new ensembles")
    Epoch(1, {"": 1, **weights})  # it verifies each


def _verify_growable(cluster_map: ClusterMap, ensembles: Mapping[str, str], weights: Mapping[str, int]) -> None:
    """Raises ClusterMapError if the map cannot gain the ensembles, or has another one of such a name."""
    if not ensembles and len(cluster_map.placement) == 1:
        raise ClusterMapError("the map has one ensemble: give at least one new one")
    for name, servers in ensembles.items():
        if name in cluster_map.ensembles and set(parse_hosts(servers)) != set(
            parse_hosts(cluster_map.ensembles[name])
        ):
            raise ClusterMapError(
                f"the map has an ensemble {name}, on {cluster_map.ensembles[name]}: give the new one another "
                "name, or change its addresses with `parkazoo map hosts`"
            )
        if name in cluster_map.ensembles and name not in cluster_map.placement:
            raise ClusterMapError(f"ensemble {name} holds the map and nothing else: it can carry no znodes")
    _verify_weights(cluster_map, ensembles, weights)


def _verify_weights(cluster_map: ClusterMap, ensembles: Mapping[str, str], weights: Mapping[str, int]) -> None:
    """Raises ClusterMapError if an ensemble has another weight, perhaps from another command."""
    newest = cluster_map.epochs[-1].weights
    for name in ensembles:
        if name in newest and weights.get(name, newest[name]) != newest[name]:
            raise ClusterMapError(
                f"ensemble {name} has weight {newest[name]} in the map already: `parkazoo map weight "
                f"{name}={weights[name]}` changes it"
            )


def _with_weights(before: ClusterMap, ensembles: Mapping[str, str], weights: Mapping[str, int]) -> ClusterMap:
    newest = before.epochs[-1]
    _verify_weights(before, ensembles, weights)
    if gone := [name for name in ensembles if name not in before.ensembles]:
        raise ClusterMapError(
            f"ensemble {', '.join(gone)} was taken out of the map meanwhile by `parkazoo map abort`: run the "
            "command again if it is to come all the same"
        )
    added = {name: weights.get(name, 1) for name in ensembles if name not in newest.weights}
    return before.with_epoch({**newest.weights, **added}, newest.rules) if added else before


def without_unused(before: ClusterMap) -> ClusterMap:
    """Returns the next map, without the ensembles that no epoch names; the same map if there is none."""
    unused = before.unused
    if not unused:
        return before
    return replace(
        before,
        epoch=before.epoch + 1,
        ensembles={name: hosts for name, hosts in before.ensembles.items() if name not in unused},
        placement=tuple(name for name in before.placement if name not in unused),
        unweighted=tuple(name for name in before.unweighted if name not in unused),
        retired=tuple(dict.fromkeys((*before.retired, *unused))),
    )


# ---- the new servers -----------------------------------------------------------------------------


def _verify_servers(known: ClusterMap, wanted: ClusterMap, rise: Rise) -> None:
    """Raises ClusterMapError unless the new servers are empty, reachable, distinct and of no other cluster."""
    with rise.connected(wanted) as clients:
        new = {name: client for name, client in clients.items() if name not in known.ensembles}
        first = Contents.read(clients[known.bootstrap])
        states = {name: Contents.read(client) for name, client in new.items()}
        for name, client in new.items():
            verify_contents(wanted, name, states, closed=first.is_open is False, is_made=False)
            _verify_empty(client, states[name])
            _verify_new(client, states[name], known)
        if not rise.dry_run:
            verify_distinct(clients, rise.options, rise.timeout_s)
        rise.tell(f"checked the servers of {_listed(new)}: they are empty, and of no other cluster")


def _prepare(known: ClusterMap, wanted: ClusterMap, rise: Rise) -> None:
    """Makes the protocol's znodes and the identity on the new ensembles."""
    with rise.connected(wanted) as clients:
        new = {name: client for name, client in clients.items() if name not in known.ensembles}
        alone = clients if len(known.placement) == 1 else {}  # it has had no need of mirrors
        acl = clients[known.bootstrap].call("get_acls", ROOT)[0]
        for client in {**alone, **new}.values():
            make_structure(client, wanted, acl)
            make_identity(client, wanted, acl)
        for client in new.values():
            _verify_same_identities(client, clients[known.bootstrap])
        rise.tell(f"prepared {_listed(new)}")


def _verify_same_identities(client: AdminClient, bootstrap: AdminClient) -> None:
    """Raises ClusterMapError if an earlier attempt made ``/parkazoo`` there for other identities than now."""
    there, wanted = ({*each.call("get_acls", ROOT)[0]} for each in (client, bootstrap))
    if there != wanted:
        raise ClusterMapError(
            f"{ROOT} on {client} is of an earlier attempt, and lets other identities in than on {bootstrap.name}: "
            f"delete it there ({DELETE_ALL}), and repeat the command"
        )


def _verify_empty(client: AdminClient, state: Contents) -> None:
    """Raises ClusterMapError if the ensemble has znodes beside an earlier attempt's."""
    found = [f"/{name}" for name in client.children("/") if f"/{name}" not in {"/zookeeper", ROOT}]
    if found := sorted(path for path in found if not path.startswith(f"/{PROBE}")):
        more = ", ..." if len(found) > SHOWN else ""
        raise ClusterMapError(
            f"{client} has znodes: {', '.join(found[:SHOWN])}{more}. They would be out of reach: a new ensemble "
            "must be empty"
        )
    if state.has_mirrors:
        raise ClusterMapError(
            f"{client} has znodes below {MIRRORS}, though the map does not name it: use other servers"
        )


def _verify_new(client: AdminClient, state: Contents, known: ClusterMap) -> None:
    """Raises ClusterMapError if another ensemble may have had the name: clients may still be connected there."""
    if client.name in known.retired and (state.record is None or state.map is None):
        raise ClusterMapError(
            f"`parkazoo map abort` has taken an ensemble {client.name} out of this map, and {client} cannot prove "
            "that it is that one: it has no copy of the map. Clients may still use the old one by its name: give "
            f"the new one another (if {ROOT} is there, delete it first: {DELETE_ALL})"
        )


def _verify_without_directories(before: ClusterMap, options: Options, timeout_s: float) -> None:
    """Raises ClusterMapError if a reachable ensemble that no epoch names has children of a directory.

    Then a map whose epochs named it was lost.
    """
    with connect_to({name: before.ensembles[name] for name in before.unused}, options, timeout_s) as (clients, _):
        for name, client in clients.items():
            is_it = is_identity(client.read(ENSEMBLE) or b"", before, name)
            if is_it and client.children(MIRRORS):
                raise ClusterMapError(
                    f"{client} has children of directories, below {MIRRORS}, so it cannot be taken out: a newer "
                    "map named it, and was lost. Run `parkazoo map grow` again"
                )


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(names)
