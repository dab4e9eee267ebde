"""Which cluster local ensembles belong to, say their znodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from parkazoo.admin.clients import TIMEOUT_S, connect_to, unreachable
from parkazoo.admin.contents import Contents, parse_map
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import describe_record
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.placement import MAP


class Belonging(NamedTuple):
    """Names of the ensembles that belong to a cluster, and lines about it.

    `lines`: none about the map that a first start makes.
    """

    members: tuple[str, ...]
    lines: tuple[str, ...]


def find_belonging(ensembles: Mapping[str, str]) -> Belonging:
    """What the ensembles say, whose hosts are given by name. Unreachable hosts count as members."""
    try:
        with connect_to(ensembles, {}, TIMEOUT_S) as (clients, absent):
            if absent:
                raise ClusterMapError(unreachable(absent))
            found = {name: Contents.read(client) for name, client in clients.items()}
        told = {name: _describe(contents, ensembles) for name, contents in found.items()}
    except ClusterMapError as error:  # they serve all the same
        return Belonging(tuple(ensembles), (str(error),))
    members = tuple(name for name, each in found.items() if each.map is not None or each.record is not None)
    lines = []
    for line in dict.fromkeys(filter(None, told.values())):
        names = [name for name, each in told.items() if each == line]
        lines.append(f"ensemble{'s' if len(names) > 1 else ''} {', '.join(names)}: {line}")
    return Belonging(members, tuple(lines))


def _describe(contents: Contents, ensembles: Mapping[str, str]) -> str:
    if contents.map is None:
        return "" if contents.record is None else f"{describe_record(contents.record)}, without a copy of its map"
    found = parse_map(contents.map, MAP, contents.hosts)
    if found.form is Form.PLAIN and found.ensembles == ensembles:
        return ""
    return f"of cluster {found.cluster}: `up` does not change its map"
