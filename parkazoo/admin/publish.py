"""A change of the map, published: every copy gets the present map, then the primary is set, then the copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from parkazoo.admin.clients import AdminClient, connect_to, unreachable
from parkazoo.admin.copies import read_primary, update_copies
from parkazoo.admin.identity import is_identity
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap, describe_record
from parkazoo.protocol.placement import ENSEMBLE, MAP

# Of the map. Servers end the connection of who sends more than jute.maxbuffer, mostly 1 MiB.
MOST_BYTES = 1_000_000
Options = Mapping[str, Any]


def change_map(
    known: ClusterMap,
    change: Callable[[ClusterMap], ClusterMap],
    options: Options,
    timeout_s: float,
    tell: Callable[[ClusterMap], None] = lambda published: None,
) -> ClusterMap:
    """Publish what `change` makes of the map; again, with the newer one, if another command is faster.

    :param known: the map as it was read, perhaps not the newest.
    :param change: returns the map that it is given if there is nothing to do. Raises what is to be raised.
    :param tell: called with the map if this command has published it, when all copies have it.
    :returns: the map that is published, which all copies have.
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
        published, is_done = _publish(known, wanted, options, timeout_s)
        if is_done:
            if wanted != known:
                tell(wanted)
            return wanted
        known = published


def verify_size(known: ClusterMap, wanted: ClusterMap) -> None:
    """ClusterMapError if the servers may not take this change of the map: it is too large, and not less so.

    Sent all the same, it would end as a ConnectionLoss, and so would each change behind it.
    """
    size = len(wanted.to_json())
    if size > MOST_BYTES and size > len(known.to_json()):
        newest = wanted.epochs[-1].rules
        raise ClusterMapError(
            f"the map is not changed: with {len(wanted.names):,} ensembles and {len(newest):,} rules it would "
            f"have {size:,} bytes, and servers may not take more than {MOST_BYTES:,} (jute.maxbuffer). Have fewer "
            "rules: one for /tenants/* is one for each child of /tenants. `parkazoo map rule remove` removes one"
        )


def _read_published(known: ClusterMap, options: Options, timeout_s: float) -> ClusterMap | None:
    """None if that cannot be read now."""
    hosts = {known.bootstrap: known.ensembles[known.bootstrap]}
    with connect_to(hosts, options, timeout_s) as (clients, _), suppress(ClusterMapError):
        for client in clients.values():
            verify_identity(client, known, client.name)
            return read_primary(client).map
    return None


def _publish(known: ClusterMap, wanted: ClusterMap, options: Options, timeout_s: float) -> tuple[ClusterMap, bool]:
    """Publish `wanted`, if `known` is what is published; if they are the same, the copies alone are finished.

    :returns: `wanted`, which all copies have, and True; else what is published, and nothing is changed.
    :raises ClusterMapError: an ensemble cannot be reached, is another one, or a copy cannot be written.
    """
    with connect_to(wanted.ensembles, options, timeout_s) as (clients, absent):
        bootstrap = clients.get(known.bootstrap)
        if bootstrap is None:
            raise ClusterMapError(
                f"the map is not changed: {unreachable(absent)}\nA change begins on the bootstrap ensemble, "
                f"{known.bootstrap}: start it, or give its new servers too"
            )
        for client in clients.values():
            verify_identity(client, known, client.name)
        published = read_primary(bootstrap).map
        if published != known:
            return published, False
        if wanted != known:
            if absent and not _may_go_ahead(known, wanted):
                raise ClusterMapError(
                    f"the map is not changed: {unreachable(absent)}\nBefore a change, each copy gets the present "
                    "map: start the ensemble, or give its new servers too"
                )
            present = {name: client for name, client in clients.items() if name in known.ensembles}
            primary = update_copies(present, known.bootstrap)
            if primary.map != known or not bootstrap.set(MAP, wanted.to_json(), primary.version):
                return read_primary(bootstrap).map, False
        _finish_copies(clients, wanted, absent, wanted != known)
        return wanted, True


def _may_go_ahead(known: ClusterMap, wanted: ClusterMap) -> bool:
    """Whether `wanted` may be published while a copy cannot be written: it has weights and rules alone for
    ensembles that an epoch has named before, so that each copy knows them.
    """
    named = {name for epoch in known.epochs for name in epoch.weights}
    return wanted.ensembles == known.ensembles and wanted.epochs[-1].weights.keys() <= named


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
    clients: Mapping[str, AdminClient], published: ClusterMap, absent: list[AdminClient], is_changed: bool
) -> None:
    """:param is_changed: whether this command has published the map."""
    troubles = [unreachable(absent)] if absent else []
    try:
        update_copies(clients, published.bootstrap)
    except ClusterMapError as error:
        troubles.append(str(error))
    if troubles:
        changed = f"map {published.epoch} is published, but not every copy has it"
        unchanged = f"nothing was to change in map {published.epoch}, but not every copy could be checked"
        raise ClusterMapError(
            f"{changed if is_changed else unchanged}: {'; '.join(troubles)}\nClients that see another ensemble "
            "work by it. When that is mended, the next `parkazoo map` command that changes the map finishes the "
            "copies, also if it finds nothing to change"
        )
