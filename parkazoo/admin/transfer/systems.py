"""The systems that an export reads and an import writes: clusters of ParKazoo, and plain ZooKeeper."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.admin.clients import SESSION_TIMEOUT_S, Auth
from parkazoo.admin.transfer.in_order import Around, creates_of
from parkazoo.client import ParKazooClient
from parkazoo.compat.creation import ensure_path
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.placement import (
    CERTAIN,
    ENSEMBLE,
    OURS,
    PINNED,
    Directory,
    is_of_zookeeper,
    is_reserved,
    split,
)
from parkazoo.types import ZnodeStat

log = logging.getLogger("parkazoo.transfer")
log.addHandler(logging.NullHandler())  # what matters is an error, not a line on stderr


class System(NamedTuple):
    """A client, and what a walk through its tree has to know.

    :param cluster: of the map; None: plain ZooKeeper.
    :param make_above: makes what is missing above a path, also above the chroot, open to all; returns a result.
    """

    client: Any
    around: Around
    cluster: str | None
    make_above: Callable[[str], Any]

    def zxids(self) -> dict[str, str]:
        """By ensemble, the last that the client has seen."""
        members = {"": self.client} if self.cluster is None else self.client.members
        return {name: f"{member.last_zxid:#x}" for name, member in members.items()}


@contextmanager
def open_system(
    hosts: str, *, is_plain: bool, auth: Auth, timeout_s: float, **client_options: Any
) -> Iterator[System]:
    """Has a client connected to all ensembles, and ends it.

    :param hosts: with a chroot, below which all paths are.
    :raises ClusterMapError: there is no map, or `is_plain` and there is one.
    :raises KazooTimeoutError: an ensemble cannot be reached.
    """
    make = KazooClient if is_plain else ParKazooClient
    session_timeout_s = min(SESSION_TIMEOUT_S, timeout_s)
    client = make(
        hosts, **{"timeout": session_timeout_s, "auth_data": list(auth), "logger": log, **client_options}
    )
    chroot, client.chroot = client.chroot, ""  # it need not exist yet; the start of a client would warn of that
    try:
        client.start(timeout_s)
        yield _plain(client, hosts, chroot) if is_plain else _cluster(client, timeout_s, chroot)
    finally:
        with suppress(KazooException):
            client.stop()
            client.close()


def _plain(client: Any, hosts: str, chroot: str) -> System:
    if client.exists(ENSEMBLE) is not None:
        raise ClusterMapError(f"{hosts} is an ensemble of ParKazoo: leave --plain out")
    client.chroot = chroot
    around = Around(
        lambda path, stat: creates_of(stat),
        lambda path: is_of_zookeeper(_physical(chroot, path)),
        lambda path: is_reserved(_physical(chroot, path)),
    )
    return System(client, around, None, lambda path: client.ensure_path_async(split(path)[0]))


def _cluster(client: ParKazooClient, timeout_s: float, chroot: str) -> System:
    client.chroot = chroot
    client.join(timeout=timeout_s)
    session = client._session
    assert session is not None and client.cluster_map is not None

    def creates(path: str, stat: ZnodeStat) -> int:
        assert session is not None and session.driver is not None
        d = session.driver.context.places.known(_physical(chroot, path))
        return creates_of(stat) + marks_left_out(d, stat)

    around = Around(
        creates,
        lambda path: is_of_zookeeper(_physical(chroot, path)) or is_reserved(_physical(chroot, path)),
        lambda path: False,
    )
    return System(
        client,
        around,
        client.cluster_map.cluster,
        lambda path: ensure_path(client, split(_physical(chroot, path))[0], OPEN_ACL_UNSAFE),
    )


def marks_left_out(d: Directory, stat: ZnodeStat) -> int:
    """How many children the directory's own stat may leave out, though the next number counts them: pin and proof.

    :param stat: as a client returns it.
    """
    if not d.is_native or d.certainty == CERTAIN:
        return 0
    return len(OURS) if d.certainty == PINNED or stat.numChildren else 0


def _physical(chroot: str, path: str) -> str:
    return (chroot + path).rstrip("/") or "/" if chroot else path
