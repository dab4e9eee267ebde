"""Ensembles that have gone back to an older copy of their data: what clients have noted there, and its end."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from kazoo.exceptions import NoNodeError

from parkazoo.admin.clients import TIMEOUT_S, AdminClient, Auth, NoRightError, connect_to, unreachable
from parkazoo.admin.history import note_change
from parkazoo.admin.publish import verify_identity
from parkazoo.admin.read import read_map
from parkazoo.admin.utc import in_words
from parkazoo.admin.verify import verify_names
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.placement import ENSEMBLE, join
from parkazoo.protocol.went_back import FOUND, SEEN, is_notice

UNREADABLE = "a client found an older state"


def find_notices(client: AdminClient) -> dict[str, str]:
    """Returns what clients have noted on an ensemble since the last `accept_restore`, by path."""
    names = sorted(filter(is_notice, client.children(ENSEMBLE)), key=int)
    found = {path: _read(client, path) for path in (join(ENSEMBLE, name) for name in names)}
    return {path: told for path, told in found.items() if told is not None}


def _read(client: AdminClient, path: str) -> str | None:
    """Returns what a note says; None if it has just been accepted."""
    try:
        data, stat = client.call("get", path)
    except NoNodeError:
        return None
    except NoRightError:  # clients let everybody read theirs
        return UNREADABLE
    return f"{_describe(data)}, {in_words(stat.ctime / 1000)} UTC"


def _describe(data: bytes) -> str:
    with suppress(ValueError, RecursionError, TypeError, KeyError):
        about = json.loads(data)
        return f"a client that had seen change {about[SEEN]:d} of {ENSEMBLE} found change {about[FOUND]:d}"
    return UNREADABLE


def accept_restore(
    hosts: str, name: str, *, auth: Auth = (), timeout_s: float = TIMEOUT_S, **client_options: Any
) -> list[str]:
    """Ends the finding that an ensemble has gone back. Returns what clients had noted; nothing if nobody had.

    Clients that still remember the newer state are LOST all the same when they connect. The map's history has it,
    unless nobody had noted anything. Other arguments as for `init_map`.

    :param name: of the ensemble.
    :raises ClusterMapError: the map has no such ensemble; or it, or the bootstrap ensemble, cannot be reached.
    """
    cluster_map = read_map(hosts, auth=auth, timeout_s=timeout_s, **client_options)
    verify_names([name], cluster_map)
    options = {**client_options, "auth_data": list(auth)}
    needed = {each: cluster_map.ensembles[each] for each in (name, cluster_map.bootstrap)}
    with connect_to(needed, options, timeout_s) as (clients, absent):
        if absent:
            raise ClusterMapError(unreachable(absent))
        for each, client in clients.items():
            verify_identity(client, cluster_map, each)
        client = clients[name]
        notices = find_notices(client)
        if notices:
            note_change(
                clients[cluster_map.bootstrap], cluster_map.epoch, f"the restore of ensemble {name} accepted"
            )
        for path in notices:
            with suppress(NoNodeError):
                client.call("delete", path)
        return [*notices.values()]
