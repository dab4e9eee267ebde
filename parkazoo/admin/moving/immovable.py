"""What keeps the children of a directory where they are, found before anything is changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress

from kazoo.exceptions import BadVersionError, NoNodeError

from parkazoo.admin.arguments import arguments_alone
from parkazoo.admin.clients import AdminClient
from parkazoo.admin.moving.carried import SeenZnode, Tree, parent_of
from parkazoo.admin.moving.place import TreePlace, send
from parkazoo.admin.registrations import describe_client, read_registrations
from parkazoo.admin.strays import SHOWN
from parkazoo.admin.verify import verify_names
from parkazoo.admin.whereabouts import By, Whereabouts
from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import Delete
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.placement import is_of_zookeeper, is_reserved, shown
from parkazoo.protocol.registration import format_session
from parkazoo.protocol.steps import IMPOSSIBLE


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


def verify_no_ephemerals(place: TreePlace, found: Tree, path: str) -> None:
    """:raises ClusterMapError: there are ephemerals, which only their owners could make elsewhere."""
    owned: dict[int, list[str]] = defaultdict(list)
    for below, znode in found.items():
        if znode.owner:
            owned[znode.owner].append(path + below)
    if owned:
        number = sum(map(len, owned.values()))
        lines = "".join(f"\n  {line}" for line in _owners(place.client, owned))
        raise ClusterMapError(
            f"{shown(path)} has {number:,} ephemeral{'s' if number > 1 else ''} at or below its children, which "
            f"only the owners could make elsewhere. Run the command again when these have gone, or their clients "
            f"have ended:{lines}"
        )


def _owners(client: AdminClient, owned: Mapping[int, list[str]]) -> list[str]:
    registered, _ = read_registrations({client.name: client})
    clients = {each.client: describe_client(each) for each in registered}
    lines = []
    for owner, paths in [*owned.items()][:SHOWN]:
        session = format_session(owner)
        who = clients.get(session, f"session {session} on {client}")
        more = f" and {len(paths) - 1:,} more" if len(paths) > 1 else ""
        lines.append(f"{shown(paths[0])}{more}: of {who}")
    if len(owned) > SHOWN:
        lines.append(f"and those of {len(owned) - SHOWN:,} other clients")
    return lines


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
