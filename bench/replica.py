"""What one server has of a tree, to be compared with what another one has."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from kazoo.client import KazooClient

START_TIMEOUT_S = 30.0


class Replica(NamedTuple):
    """
    :param digest: of all paths, values, versions and zxids.
    """

    znodes: int
    digest: str


def read_replica(address: str, root: str) -> Replica:
    """
    :param address: ``"host:port"`` of the server, which is brought up to date with its leader first.
    :raises KazooException: it does not serve, or there is no such root.
    """
    client = KazooClient(address)
    client.start(START_TIMEOUT_S)
    try:
        client.sync(root)
        digest, count, level = hashlib.sha256(), 0, [root]
        while level:
            values = [client.get_async(path) for path in level]
            children = [client.get_children_async(path) for path in level]
            below = []
            for path, value, names in zip(level, values, children, strict=True):
                data, stat = value.get()
                told = path, data, stat.version, stat.cversion, stat.czxid, stat.mzxid, stat.pzxid
                digest.update(repr(told).encode())
                below += [f"{path}/{name}" for name in sorted(names.get())]
            count += len(level)
            level = below
        return Replica(count, digest.hexdigest())
    finally:
        client.stop()
        client.close()
