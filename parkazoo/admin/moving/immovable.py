"""What keeps the children of a directory where they are, found before anything is changed."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress

from kazoo.exceptions import BadVersionError, NoNodeError

from parkazoo.admin.arguments import arguments_alone
from parkazoo.admin.clients import AdminClient
from parkazoo.admin.many_reads import send
from parkazoo.admin.moving.carried import SeenZnode, Tree, parent_of
from parkazoo.admin.moving.place import TreePlace, walk
from parkazoo.admin.registrations import read_registrations
from parkazoo.admin.strays import SHOWN
from parkazoo.admin.verify import verify_names
from parkazoo.admin.whereabouts import By, Whereabouts, trace
from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import Delete
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.placement import is_of_zookeeper, is_reserved, join, shown, split
from parkazoo.protocol.registration import format_session
from parkazoo.protocol.steps import IMPOSSIBLE
from parkazoo.recipe.queue_layout import ENTRIES, KAZOOS_LOCKS, OURS

MOST_LOOK_S = 2.0  # beside the second in which clients get ready: they hold for three
FEW, FEW_BYTES = 30_000, 32 << 20  # take less, on any machine


@arguments_alone()
def verify_path(path: str) -> None:
    """:raises ClusterMapError: no directory of that path moves in any cluster."""
    if path == "/":
        raise ClusterMapError("/ has its place for ever: move directories below it")
    if is_of_zookeeper(path):
        raise ClusterMapError(f"{path} is ZooKeeper's own, on the bootstrap ensemble: it cannot move")
    if is_reserved(path):
        raise ClusterMapError(f"{path} is ParKazoo's own: it cannot move")


def verify_target(known: ClusterMap, name: str) -> None:
    """:raises ClusterMapError: no directory can move to an ensemble of that name."""
    if name in known.gone:
        raise ClusterMapError(f"ensemble {name} has left the map: move the directory to another")
    verify_names([name], known)
    if name in known.leaving:
        raise ClusterMapError(
            f"ensemble {name} is leaving, and takes no directory: `parkazoo map weight {name}=1` has it stay"
        )
    if name in known.unused:  # `map abort` would take it out, reachable or not
        raise ClusterMapError(
            f"no epoch names ensemble {name} yet, so it carries no directory: run `parkazoo map grow` again"
        )
    if name not in known.placement:
        raise ClusterMapError(f"ensemble {name} holds the map and nothing else: it can carry no znodes")


def verify_rule(known: ClusterMap, path: str, name: str) -> None:
    """:raises ClusterMapError: a rule says that the directory is not to be on that ensemble."""
    guess = known.make_guess()
    rule, bound = guess.rule_of(path), known.names[guess.of_children(path)]
    if rule is None:
        return
    change = "change the rule first (`parkazoo map rule remove` and `add`)"
    if rule.together and bound != name:
        raise ClusterMapError(
            f"the rule for {rule.prefix} keeps directories together, there on {bound}, and transactions may need "
            f"that: move it there, or {change}"
        )
    if rule.on and name not in rule.on:
        raise ClusterMapError(
            f"the rule for {rule.prefix} keeps directories on {' or '.join(rule.on)}: move it there, or {change}"
        )


def verify_queue(known: ClusterMap, clients: Mapping[str, AdminClient], path: str, name: str) -> None:
    """A LockingQueue in kazoo's layout has transactions over its two directories.

    :raises ClusterMapError: the other one is not on that ensemble.
    """
    parent, own = split(path)
    other = {ENTRIES: KAZOOS_LOCKS, KAZOOS_LOCKS: ENTRIES}.get(own)
    if other is None:
        return
    found = trace(known, clients, join(parent, other))
    if not found.is_there or known.names[found.d.mirror.ensemble] == name:
        return
    client, at = clients[known.names[found.d.home.ensemble]], parent_of(found.d.home.path)
    if client.read(join(at, ENTRIES)) != OURS:
        raise ClusterMapError(
            f"{shown(path)} and {other} beside it are a LockingQueue in kazoo's layout: its transactions need "
            f"both on one ensemble. Move {shown(parent)}: both go along if neither has moved before. Else delete "
            "the queue when it is empty: clients make it anew, in a layout that can move"
        )


def verify_form(known: ClusterMap) -> None:
    """:raises ClusterMapError: paths say where directories are."""
    if known.form is not Form.GROWN:
        raise ClusterMapError(
            f"the map has form {known.form.word}: paths say where directories are. They can move in a map of form "
            "grown, which `parkazoo map grow` makes of it"
        )


def verify_is_placed(found: Whereabouts) -> None:
    """:raises ClusterMapError: there is no such directory, or its children have no place."""
    path = shown(found.d.path)
    if not found.is_there:
        raise ClusterMapError(f"there is no znode {path}")
    if found.by is By.NOBODY:
        raise ClusterMapError(
            f"{path} has never had a child, so there is nothing to move: the first one goes where the map says "
            f"(`parkazoo where {path}`)"
        )


def verify_owners(place: TreePlace, found: Tree, path: str) -> None:
    """:raises ClusterMapError: there are ephemerals that nobody would make elsewhere: only their owners can."""
    owned: dict[int, list[str]] = defaultdict(list)
    for below, znode in found.items():
        if znode.owner:
            owned[znode.owner].append(path + below)
    if not owned:
        return
    registered, _ = read_registrations({place.client.name: place.client})
    clients = {each.client for each in registered}
    strange = {session: each for owner, each in owned.items() if (session := format_session(owner)) not in clients}
    if strange:
        paths = [each for paths in strange.values() for each in paths]
        more = f" and {len(paths) - 1:,} more" if len(paths) > 1 else ""
        raise ClusterMapError(
            f"ephemerals at or below the children of {shown(path)} belong to sessions that are not registered, "
            f"and only its owner can make one elsewhere: {shown(paths[0])}{more}, of session "
            f"{', '.join([*strange][:SHOWN])} on {place.client}. Run the command again when these have ended"
        )


def verify_is_soon_seen(place: TreePlace, found: Tree, path: str) -> None:
    """Looks as a hold does.

    :param found: an earlier look.
    :raises ClusterMapError: that takes so long that clients would not wait for its end.
    """
    if len(found) <= FEW and sum(znode.size for znode in found.values()) <= FEW_BYTES:
        return
    for _ in range(2):  # others may have been at work meanwhile
        began_s = time.monotonic()
        walk(place, found)
        took_s = time.monotonic() - began_s
        if took_s <= MOST_LOOK_S:
            return
    raise ClusterMapError(
        f"{shown(path)} has {len(found) - 1:,} znodes, and one look at them takes {took_s:.1f} s: clients would "
        f"not wait for more than {MOST_LOOK_S:g} s. Try again when its servers are less busy, or "
        "have fewer znodes in it (client.Spread makes several directories of one)"
    )


def verify_deletable(place: TreePlace, found: Tree) -> None:
    """Tries to delete a child of each kind of directory, with a version that none has.

    :raises NoRightError: the old place could not be deleted when the children have moved.
    """
    children: dict[tuple[object, ...], str] = {}  # by the ACL above
    for path in found:
        above: SeenZnode | None = found.get(parent_of(path)) if path else None
        if above is not None:
            children.setdefault(above.acl, path)
    for path in children.values():
        place.client.patiently(lambda path=path: _try_to_delete(place, path))  # type: ignore[misc]  # each its own


def _try_to_delete(place: TreePlace, path: str) -> None:
    with suppress(BadVersionError, NoNodeError):
        place.client.wait(place.at(parent_of(path)), send(place.client, Delete(place.at(path), IMPOSSIBLE)))
