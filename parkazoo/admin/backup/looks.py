"""All ensembles walked at once: for a backup, and to find what has been lost since one."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from kazoo.exceptions import NoNodeError

from parkazoo.admin.all_znodes import Pace, ask_each
from parkazoo.admin.backup.compare import Answer, At, Differences, compare
from parkazoo.admin.backup.listed import list_directories
from parkazoo.admin.backup.manifest import (
    ClusterState,
    ManifestError,
    new_manifest,
    read_manifest,
    write_manifest,
)
from parkazoo.admin.clients import TIMEOUT_S, AdminClient, Auth, try_each
from parkazoo.admin.identity import is_identity
from parkazoo.admin.new_identity import id_of_copy
from parkazoo.admin.read import connect_by_newest, read_map
from parkazoo.admin.utc import stamp
from parkazoo.admin.walk import GRACE_S
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap, describe_record
from parkazoo.protocol.placement import ENSEMBLE, PIN, join
from parkazoo.types import ZnodeStat

UNREAD = (b"", ZnodeStat(*(0,) * 11))  # of a znode that is there, and may not be read
Clients = Mapping[str, AdminClient]
Progress = Callable[[str, int], None]


class Compared(NamedTuple):
    """:param is_same: no directory has come, gone or changed."""

    then: ClusterState
    now: ClusterState
    differences: Differences
    is_same: bool

    @property
    def hidden(self) -> int:
        """How many znodes the identity could not read, then and now."""
        return count_hidden(self.then) + count_hidden(self.now)

    @property
    def is_fine(self) -> bool:
        """Whether all could be compared, and nothing is lost."""
        return not (self.differences.lost or self.differences.older or self.now.absent or self.hidden)


def count_hidden(state: ClusterState) -> int:
    return sum(each.hidden for each in state.ensembles.values())


def make_backup(
    folder: Path,
    hosts: str,
    *,
    auth: Auth = (),
    timeout_s: float = TIMEOUT_S,
    progress: Progress = lambda ensemble, znodes: None,
    **client_options: Any,
) -> ClusterState:
    """Writes the manifest of a backup into a folder. It reads every znode's list of children, and no data.

    :param progress: called now and then with an ensemble's name and its znodes so far, on several threads.
    :param client_options: as for `init_map`.
    :raises ManifestError: the folder has a manifest, or cannot be written.
    :raises ClusterMapError: an ensemble is away, or has lost its data. No manifest is written.
    """
    with new_manifest(folder) as file:
        cluster_map = read_map(hosts, auth=auth, timeout_s=timeout_s, **client_options)
        options = {**client_options, "auth_data": list(auth)}
        with _looked(cluster_map, options, timeout_s, progress) as (state, _):
            if state.absent:
                told = "; ".join(f"ensemble {name}: {why}" for name, why in state.absent.items())
                raise ClusterMapError(f"no backup is made while an ensemble is away: {told}")
            if lost := [name for name, each in state.ensembles.items() if not each.record]:
                raise ClusterMapError(
                    f"no backup is made: ensemble {', '.join(lost)} has no {ENSEMBLE} (see `parkazoo map check`)"
                )
        write_manifest(state, file)
    return state


def compare_with(
    folder: Path,
    hosts: str,
    *,
    auth: Auth = (),
    timeout_s: float = TIMEOUT_S,
    grace_s: float = GRACE_S,
    progress: Progress = lambda ensemble, znodes: None,
    **client_options: Any,
) -> Compared:
    """Finds the directories that have been lost since a backup. It only reads.

    :param grace_s: seconds until the second look at whatever seems lost: clients may be at work there.
    :param progress: as for `make_backup`.
    :raises ManifestError: the manifest cannot be used, or is of another cluster than this one or its
        original.
    :raises ClusterMapError: there is no map, or no ensemble can be read.
    """
    then = read_manifest(folder)
    cluster_map = read_map(hosts, auth=auth, timeout_s=timeout_s, **client_options)
    cluster = then.cluster_map.cluster
    if cluster_map.cluster not in (cluster, id_of_copy(cluster, cluster_map)):
        raise ManifestError(f"{folder} has a backup of cluster {cluster}; this is {cluster_map.cluster}")
    options = {**client_options, "auth_data": list(auth)}
    with _looked(cluster_map, options, timeout_s, progress) as (state, clients):
        due_s = time.monotonic() + grace_s
        differences = compare(then, state, partial(look_again, clients, due_s))
    return Compared(then, state, differences, not state.absent and then.digest() == state.digest())


@contextmanager
def _looked(
    cluster_map: ClusterMap, options: Mapping[str, Any], timeout_s: float, progress: Progress
) -> Iterator[tuple[ClusterState, Clients]]:
    """The state of a cluster, and clients of its ensembles for further looks."""
    at = stamp()
    is_over = threading.Event()
    with connect_by_newest(cluster_map, options, timeout_s) as (newest, connections):
        look = partial(list_directories, is_over=is_over.is_set, progress=progress)
        found, unreadable = try_each(connections.clients, look, is_over)
        absent = {**connections.away, **unreadable}
        if not found:
            told = "; ".join(f"ensemble {name}: {why}" for name, why in absent.items())
            raise ClusterMapError(f"no ensemble can be read: {told}")
        for name, each in found.items():
            if each.record and not is_identity(each.record.encode(), newest, name):
                told = describe_record(each.record.encode())
                raise ClusterMapError(
                    f"{connections.clients[name]} is {told}, not ensemble {name} of cluster {newest.cluster}"
                )
        yield ClusterState(at, newest, found, absent), connections.clients


def look_again(clients: Clients, due_s: float, places: Iterable[At]) -> dict[At, Answer]:
    """Returns data and stat of znodes, of all but pins the stat alone, not older than this call.

    :param due_s: not before this time of the monotonic clock, if there is a place.
    :raises UnreadableError: an ensemble ceases to answer.
    """
    found: dict[At, Answer] = dict.fromkeys(places)
    by_ensemble: dict[str, list[str]] = defaultdict(list)
    for at in found:
        by_ensemble[at.ensemble].append(at.znode)
    if found:
        time.sleep(max(0.0, due_s - time.monotonic()))
    for name, paths in by_ensemble.items():
        client = clients.get(name)
        if client is None:  # a pin names an ensemble that the map lacks
            continue
        client.read(ENSEMBLE)  # the servers catch up
        is_pin = {path: path == join(path[: -len(PIN) - 1] or "/", PIN) for path in paths}
        for method in ("get", "exists"):
            asked = [path for path in paths if is_pin[path] is (method == "get")]
            for path, answer in ask_each(client, method, asked, Pace(per_second=float("inf"))):
                if isinstance(answer, NoNodeError) or answer is None:
                    continue
                stat_alone = (b"", answer)
                found[At(name, path)] = (
                    UNREAD if isinstance(answer, Exception) else answer if method == "get" else stat_alone
                )
    return found
