"""All that an ensemble carries: listed, and whether it is where the map looks for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from kazoo.exceptions import NoNodeError

from parkazoo.admin.clients import AdminClient, NoRightError
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.pin import Pin, decode_pin
from parkazoo.protocol.placement import MIRRORS, PIN, PROBE, ROOT, Place, join, logical
from parkazoo.protocol.where.places import Places

READS_AT_ONCE = 64
SHOWN = 5
OTHERS = frozenset(("/zookeeper", ROOT))  # children of / that are no znodes of the users


class Listing(NamedTuple):
    """The names of a znode's children; `pin` is what its pin holds, None without a pin that can be read."""

    path: str
    names: list[str]
    pin: Pin | None


def verify_no_strays(cluster_map: ClusterMap, clients: Mapping[str, AdminClient]) -> None:
    """No ensemble has a znode at a place where this map would not look for it."""
    if len(cluster_map.names) > 1 and (strays := _all_strays(cluster_map, clients)):
        raise ClusterMapError(
            f"{strays}Begin with empty ensembles and copy the znodes with a ParKazooClient, or make a map of the "
            "one ensemble that has data"
        )


def verify_places(cluster_map: ClusterMap, clients: Mapping[str, AdminClient]) -> None:
    """Verify that a map fits the znodes of ensembles that are of its cluster already, whose map is lost."""
    _verify_all_are_given(cluster_map, clients)
    if cluster_map.form >= Form.GUARDED:  # pins say where all is, but for the children of /
        _verify_root(cluster_map, clients)
    elif strays := _all_strays(cluster_map, clients):
        raise ClusterMapError(
            f"{strays}There are marks of cluster {cluster_map.cluster}, but no map: to make it again, give all "
            "its ensembles in their old order"
        )


def _verify_all_are_given(cluster_map: ClusterMap, clients: Mapping[str, AdminClient]) -> None:
    """:raises ClusterMapError: a pin says that children are on an ensemble that the map does not have."""
    directories: dict[str, list[str]] = {}
    for name in clients:
        to_list = ["/", MIRRORS]
        for path, names, pin in listings(clients[name], to_list, []):
            if pin is not None and not pin.is_native and pin.on not in cluster_map.ensembles:
                directories.setdefault(pin.on, []).append(logical(path))
            to_list += [child for each in names if each != PIN and (child := join(path, each)) not in OTHERS]
    if not directories:
        return
    missing = " and ".join(sorted(directories))
    known = "; ".join(
        f"on ensemble {name} are the children of {', '.join(paths[:SHOWN])}{', ...' if len(paths) > SHOWN else ''}"
        for name, paths in sorted(directories.items())
    )
    raise ClusterMapError(
        f"cluster {cluster_map.cluster} has ensembles that are not given: {known}. Its map is lost: to make it "
        f"again, give all its ensembles, {missing} too, by their old names and in their old order. If the servers "
        f"of {missing} are gone, give new ones under that name: the next error says what is lost with them"
    )


def _verify_root(cluster_map: ClusterMap, clients: Mapping[str, AdminClient]) -> None:
    root = cluster_map.names[Places(cluster_map.make_placement()).known("/").mirror.ensemble]
    for name, client in clients.items():
        found = [path for each in client.children("/") if (path := f"/{each}") not in OTHERS]
        found = [path for path in found if not path.startswith(f"/{PROBE}")]
        if name != root and found:
            raise ClusterMapError(
                f"with these ensembles in this order the children of / are on {root}, but {client} has "
                f"{', '.join(found[:SHOWN])}: to make the map of cluster {cluster_map.cluster} again, give all "
                "its ensembles in their old order"
            )


def _all_strays(cluster_map: ClusterMap, clients: Mapping[str, AdminClient]) -> str:
    """Some znodes at places where this map would not look for them, for a message; nothing if there are none."""
    places = Places(cluster_map.make_placement())
    strays = []
    for index, name in enumerate(cluster_map.names):
        if name in clients and (found := _strays(clients[name], index, places, cluster_map.names)):
            strays.append(f"{', '.join(found)}{', ...' if len(found) == SHOWN else ''} on {clients[name]}")
    told = f"znodes would be out of reach with these ensembles in this order: {'; '.join(strays)}. "
    return told if strays else ""


def _strays(client: AdminClient, index: int, places: Places, ensembles: Sequence[str]) -> list[str]:
    """Some znodes on ensemble `index` whose place is elsewhere; goes through the whole tree if there are none."""
    found = [
        path
        for path in (join(MIRRORS, name) for name in client.children(MIRRORS))
        if places.known(logical(path)).mirror != Place(index, path)
    ]
    to_list = ["/"]
    for path, names, pin in listings(client, to_list):
        for name in names:
            child = join(path, name)
            if child in OTHERS or child.startswith(f"/{PROBE}"):
                continue
            if name == PIN:  # its directory has a mirror
                d = places.known(path)
                is_elsewhere = pin is not None and not pin.is_native and pin.on != ensembles[d.mirror.ensemble]
                if d.is_native or is_elsewhere:
                    found.append(child)
            elif places.known(child).home == Place(index, child):
                to_list.append(child)
            else:
                found.append(child)
        if len(found) >= SHOWN:
            break
    return found[:SHOWN]


def listings(client: AdminClient, to_list: list[str], hidden: list[str] | None = None) -> Iterator[Listing]:
    """The paths in `to_list`, to which the caller adds while it goes on, with the znodes below them.

    :param hidden: gets the paths that may not be listed, which else is an error.
    """
    while to_list:
        batch = to_list[-READS_AT_ONCE:]
        del to_list[-READS_AT_ONCE:]
        listed: dict[str, list[str]] = {}
        for path, answer in [(path, client.zk.get_children_async(path)) for path in batch]:
            with suppress(NoNodeError):  # deleted meanwhile
                try:
                    listed[path] = client.wait(path, answer)
                except NoRightError:
                    if hidden is None:
                        raise
                    hidden.append(path)
        pins = _read_pins(client, [path for path, names in listed.items() if PIN in names])
        for path, names in listed.items():
            yield Listing(path, names, pins.get(path))


def _read_pins(client: AdminClient, paths: Sequence[str]) -> dict[str, Pin | None]:
    """What the pins below these znodes hold."""
    pins: dict[str, Pin | None] = {}
    for path, answer in [(path, client.zk.get_async(join(path, PIN))) for path in paths]:
        with suppress(NoNodeError, NoRightError):  # all may read the pins that ParKazoo makes
            data, _ = client.wait(join(path, PIN), answer)
            pins[path] = decode_pin(data or b"")
    return pins
