"""A change of the map, published: every copy gets the present map, then the primary is set, then the copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from parkazoo.admin.clients import AdminClient, LostError, Options, connect_to, try_each, unreachable
from parkazoo.admin.copies import read_primary, update_copies
from parkazoo.admin.history import add_to_history
from parkazoo.admin.identity import is_identity
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap, describe_record
from parkazoo.protocol.placement import ENSEMBLE, MAP

# Of the map. Servers end the connection of who sends more than jute.maxbuffer, mostly 1 MiB.
MOST_BYTES = 1_000_000
Change = Callable[[ClusterMap], ClusterMap]


def change_map(
    known: ClusterMap,
    change: Change,
    options: Options,
    timeout_s: float,
    tell: Callable[[ClusterMap], None] = lambda published: None,
    warn: Callable[[str], None] | None = None,
) -> ClusterMap:
    """Publish what `change` makes of the map; again, with the newer one, if another command is faster.

    :param known: the map as it was read, perhaps not the newest.
    :param change: returns the map that it is given if there is nothing to do. May raise.
    :param tell: called with the map if this command has published it, when all copies have it.
    :param warn: called with the reason if a change that may go ahead has left a copy behind; by default that is an
        error.
    :returns: the map that is published, which all copies have, or all that could be written.
    """
    while True:
        try:
            wanted = change(known)
            verify_size(known, wanted)
        except ClusterMapError:
            newest = _read_published(known, options, timeout_s)
            if newest in (known, None):
                raise
            known = newest
            continue
        published, left = _publish(known, wanted, options, timeout_s, warn is not None)
        if left is None:
            known = published
            continue
        if left and warn is not None:
            warn(left)
        elif wanted != known:
            tell(wanted)
        return wanted


def verify_size(known: ClusterMap, wanted: ClusterMap) -> None:
    """ClusterMapError if the servers may not take this change of the map: it is too large, and not less so.

    Sent all the same, it would end as a ConnectionLoss, and so would each change behind it.
    """
    size = len(wanted.to_json())
    if size > MOST_BYTES and size > len(known.to_json()):
        newest = wanted.epochs[-1].rules
        raise ClusterMapError(
            f"the map is not changed: with {len(wanted.ensembles):,} ensembles and {len(newest):,} rules it would "
            f"have {size:,} bytes, and servers may not take more than {MOST_BYTES:,} (jute.maxbuffer). Have fewer "
            "rules: one for /tenants/* is one for each child of /tenants. `parkazoo map rule remove` removes one"
        )


def _read_published(known: ClusterMap, options: Options, timeout_s: float) -> ClusterMap | None:
    """None if that cannot be read now."""
    hosts = {known.bootstrap: known.ensembles[known.bootstrap]}
    with connect_to(hosts, options, timeout_s, gives_up=True) as (clients, _), suppress(ClusterMapError):
        for client in clients.values():
            verify_identity(client, known, client.name)
            return read_primary(client).map
    return None


def _publish(
    known: ClusterMap,
    wanted: ClusterMap,
    options: Options,
    timeout_s: float,
    may_leave: bool,
) -> tuple[ClusterMap, str | None]:
    """Publish `wanted`, if `known` is published; if they are the same, the copies alone are finished.

    :param may_leave: whether copies may be left behind that such a change need not wait for.
    :returns: `wanted`, and which copies were left behind; or what is published instead, and None: nothing is
        changed.
    :raises ClusterMapError: an ensemble cannot be reached, is another one, or a copy cannot be written.
    """
    may_leave = may_leave and _may_go_ahead(known, wanted)
    with connect_to(wanted.ensembles, options, timeout_s, gives_up=may_leave) as (connected, absent):
        _, unreadable = try_each(connected, lambda client: verify_identity(client, known, client.name))
        clients = {name: client for name, client in connected.items() if name not in unreadable}
        away = "; ".join([*([unreachable(absent)] if absent else ()), *unreadable.values()])
        if known.bootstrap not in clients:
            raise ClusterMapError(
                f"the map is not changed: {away}\nA change begins on the bootstrap ensemble, "
                f"{known.bootstrap}: start it, or give its new servers too"
            )
        return _publish_on(clients, known, wanted, away, may_leave)


def publish_on(clients: Mapping[str, AdminClient], known: ClusterMap, change: Change) -> ClusterMap:
    """As :func:`change_map`, without the time that it takes to connect.

    :param clients: of all ensembles; or of the bootstrap ensemble and those whose copies are to be written, if
        the others have the map before. Then these have to be written before the next change.
    """
    while True:
        wanted = change(known)
        verify_size(known, wanted)
        published, left = _publish_on(clients, known, wanted, "", False)
        if left is not None:
            return wanted
        known = published


def _publish_on(
    clients: Mapping[str, AdminClient], known: ClusterMap, wanted: ClusterMap, away: str, may_leave: bool
) -> tuple[ClusterMap, str | None]:
    """As :func:`_publish`, by these clients.

    :param away: why the other ensembles have none; empty if there are no others.
    """
    bootstrap = clients[known.bootstrap]
    published = read_primary(bootstrap).map
    if published != known:
        return published, None
    if wanted != known:
        if away and not _may_go_ahead(known, wanted):
            raise ClusterMapError(
                f"the map is not changed: {away}\nBefore a change, each copy gets the present "
                "map: start the ensemble, or give its new servers too"
            )
        present = {name: client for name, client in clients.items() if name in known.ensembles}
        primary = update_copies(present, known.bootstrap)
        if primary.map != known or not _set_primary(bootstrap, known, wanted, primary.version):
            return read_primary(bootstrap).map, None
    return wanted, _finish_copies(clients, wanted, away, wanted != known, may_leave)


def _set_primary(bootstrap: AdminClient, known: ClusterMap, wanted: ClusterMap, version: int) -> bool:
    transaction = bootstrap.zk.transaction()
    transaction.set_data(MAP, wanted.to_json(), version)
    add_to_history(bootstrap, transaction, known, wanted)
    return bootstrap.commit(MAP, transaction)


def _may_go_ahead(known: ClusterMap, wanted: ClusterMap) -> bool:
    """Whether `wanted` may be published while a copy cannot be written: its form does not rise, and it has weights
    and rules alone for ensembles that an epoch has named before, so that each copy knows them.
    """
    named = {name for epoch in known.epochs for name in epoch.weights}
    is_known = wanted.ensembles == known.ensembles and wanted.epochs[-1].weights.keys() <= named
    return is_known and wanted.form <= known.form


def verify_identity(client: AdminClient, known: ClusterMap, name: str) -> None:
    record = client.read(ENSEMBLE)
    if record is None:
        raise ClusterMapError(
            f"{client} is not ensemble {name} of this cluster, or has lost its data: {ENSEMBLE} is missing there. "
            "If its data is gone for good, let empty servers have its old addresses, and give it up: `parkazoo "
            f"map init` with the arguments of the map and --replace {name}"
        )
    if not is_identity(record, known, name):
        raise ClusterMapError(f"{client} is {describe_record(record)}, not ensemble {name} of {known.cluster}")


def _finish_copies(
    clients: Mapping[str, AdminClient],
    published: ClusterMap,
    away: str,
    is_changed: bool,
    may_leave: bool,
) -> str:
    """Bring the copies to the published map; return which are left behind, empty if none is.

    :param away: why other ensembles have none; empty if there are no others.
    :param is_changed: whether this command has published the map.
    :param may_leave: whether it is no error that ensembles are away.
    """
    troubles, is_lost = [away] if away else [], False
    try:
        update_copies(clients, published.bootstrap)
    except ClusterMapError as error:
        troubles.append(str(error))
        may_leave, is_lost = False, isinstance(error, LostError) and not away
    told = ""
    if troubles:
        changed = f"map {published.epoch} is published, but not every copy has it"
        unchanged = f"nothing was to change in map {published.epoch}, but not every copy could be checked"
        told = (
            f"{changed if is_changed else unchanged}: {'; '.join(troubles)}\nClients that see another ensemble "
            "work by it. When that is mended, the next `parkazoo map` command that changes the map finishes the "
            "copies, also if it finds nothing to change"
        )
        if not may_leave:
            raise (LostError if is_lost else ClusterMapError)(told)
    return told
