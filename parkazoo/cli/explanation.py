"""Why the children of a directory live where they do, with the computation to do by hand."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import MODULO
from parkazoo.protocol.rendezvous import bid_of
from parkazoo.protocol.resolver import Resolver


def explain_children(cluster_map: ClusterMap, directory: str) -> Iterator[str]:
    """Lines for people."""
    index = Resolver(cluster_map.make_placement()).known(directory).mirror.ensemble
    name = cluster_map.names[index]
    if len(cluster_map.names) == 1:
        yield f"children: on {name}, which is the only ensemble"
    elif directory == "/zookeeper" or directory.startswith("/zookeeper/"):
        yield f"children: on {name}, the bootstrap ensemble, as everything in /zookeeper"
    elif cluster_map.hash == MODULO:
        count = len(cluster_map.placement) - len(cluster_map.unweighted)
        yield f"children: on {name}, which is number {index} by the hash of {directory}, modulo {count}:"
        yield f"    printf %s {shlex.quote(directory)} | sha256sum"
    else:
        yield f"children: on {name}, whose bid for {directory} is the highest:"
        yield from _bids(cluster_map, directory)


def _bids(cluster_map: ClusterMap, directory: str) -> Iterator[str]:
    width = max(map(len, cluster_map.placement))
    for position, (name, weight) in enumerate(zip(cluster_map.placement, cluster_map.shares, strict=True)):
        if not weight:
            why = "it has no weight yet" if name in cluster_map.unweighted else "its weight is 0"
            yield f"    {name:{width}}  none: {why}"
            continue
        bid = bid_of(position, weight, directory)
        first = 8 * bid.word + 1  # in hexadecimal digits
        yield (
            f"    {name:{width}}  {bid.value:08x}  printf %s {shlex.quote(bid.hashed)} | sha256sum | "
            f"cut -c{first}-{first + 7}"
        )
