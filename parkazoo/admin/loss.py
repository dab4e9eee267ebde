"""Finds the ensembles that have lost their data, and what the other ensembles know of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from parkazoo.admin.clients import AdminClient
from parkazoo.admin.contents import Contents, lost_parts
from parkazoo.admin.strays import OTHERS, listings
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.placement import (
    FENCES,
    MAP,
    MIRRORS,
    OURS,
    PIN,
    join,
    logical,
    mirror_path,
    split,
    unescape,
)
from parkazoo.protocol.where.places import Places

LOSSES_SHOWN = 20


class Loss(NamedTuple):
    """Names the data of ensembles that have lost it, as far as the others know; users' paths, sorted.

    :param ensembles: the names of the ensembles.
    :param childless: directories whose children were there.
    :param homeless: directories whose home was there, with children on another ensemble.
    :param hidden: the number of znodes that the identity may not read.
    """

    ensembles: tuple[str, ...]
    childless: tuple[str, ...]
    homeless: tuple[str, ...]
    hidden: int

    def __str__(self) -> str:
        parts = [
            f"{what} of {len(paths):,} director{'ies' if len(paths) > 1 else 'y'} ({_shorten(paths)})"
            for what, paths in (("the children", self.childless), ("the data", self.homeless))
            if paths
        ]
        unseen = f" ({self.hidden:,} znodes could not be looked at)" if self.hidden else ""
        return (
            f"{', '.join(parts) or 'nothing that the other ensembles know of'}; beside that, what no other "
            f"ensemble knows of: znodes, and native directories with all in them{unseen}"
        )


def _shorten(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - LOSSES_SHOWN:,} more" if len(paths) > LOSSES_SHOWN else ""
    return ", ".join(paths[:LOSSES_SHOWN]) + more


def find_lost(cluster_map: ClusterMap, states: Mapping[str, Contents], is_made: bool) -> list[str]:
    """Returns the ensembles that have lost their data.

    `map init` marks all ensembles before it publishes the map, and has a draft until then. So if there is a map,
    or a mark without a draft, missing parts are lost. A draft beside a copy of the map, or beside children of
    directories, belongs to a map that is made again.
    """
    was_at_work = any(state.map is not None or state.has_mirrors for state in states.values())
    is_begun = states[cluster_map.bootstrap].draft is not None and not was_at_work
    if not is_made and (is_begun or all(state.record is None for state in states.values())):
        return []
    return [name for name in cluster_map.ensembles if lost_parts(cluster_map, name, states[name].parts)]


def verify_given_up(
    cluster_map: ClusterMap, states: Mapping[str, Contents], loss: Loss, replaced: Collection[str], is_made: bool
) -> None:
    """Raises ClusterMapError if an ensemble has lost its data and is not to be replaced, or cannot be."""
    if kept := [name for name in loss.ensembles if name not in replaced]:
        lost = " and ".join(f"ensemble {name} ({states[name].hosts})" for name in kept)
        told = f"the data of this cluster on {lost} is lost"
        options = " ".join(f"--replace {name}" for name in kept)
        if not is_made:
            told = f"{_no_map(cluster_map, states)}{told}"
        raise ClusterMapError(
            f"{told}: {loss}. Bring back the old servers or a backup, or give up what was there with {options}"
        )
    for name in loss.ensembles:
        if FENCES in states[name].parts and MIRRORS not in states[name].parts:
            raise ClusterMapError(
                f"ensemble {name} ({states[name].hosts}) has lost {MIRRORS} but not {FENCES}: stop the clients, "
                f"delete {FENCES} there (`deleteall {FENCES}` in ZooKeeper's zkCli.sh), and try again"
            )


def _no_map(cluster_map: ClusterMap, states: Mapping[str, Contents]) -> str:
    """Returns what the others prove if the bootstrap ensemble has no map: a copy proves more than a mark."""
    first = cluster_map.bootstrap
    told = f"no cluster map at {MAP} on ensemble {first} ({states[first].hosts}), "
    if copies := [name for name in cluster_map.ensembles if states[name].map is not None]:
        return (
            f"{told}which is the bootstrap ensemble of cluster {cluster_map.cluster}, says the copy of its map on "
            f"{' and '.join(copies)}: "
        )
    found = [name for name in cluster_map.ensembles if states[name].record is not None]
    return (
        f"{told}but ensemble {', '.join(found)} {'are' if len(found) > 1 else 'is'} of cluster "
        f"{cluster_map.cluster}. If {first} was not its bootstrap ensemble, give that one as --bootstrap. If it "
        "was, "
    )


def assess(cluster_map: ClusterMap, clients: Mapping[str, AdminClient], lost: Sequence[str]) -> Loss:
    """Returns what the ensembles know of ensembles that have lost their data. Reads every znode."""
    places = Places(cluster_map.make_placement())
    mirrors = {name: set(clients[name].children(MIRRORS)) for name in lost}
    childless: set[str] = set()
    homeless: set[str] = set()
    mirrored: set[str] = set()
    pinned: set[str] = set()
    hidden: list[str] = []
    for name in clients:
        to_list = ["/", MIRRORS]
        for path, names, pin in listings(clients[name], to_list, hidden):
            directory = logical(path)
            known = cluster_map.names[places.known(directory).mirror.ensemble]
            where = pin.on if pin is not None else known
            is_native = pin is not None and pin.is_native
            mirror = split(mirror_path(directory, pin.generation if pin is not None else ""))[1]
            if PIN in names and not is_native and mirror not in mirrors.get(where, {mirror}):
                childless.add(directory)
            if PIN in names:
                pinned.add(directory)
            if path == MIRRORS and cluster_map.form is Form.GROWN:  # each has a pin where its home is
                mirrored.update(map(unescape, names))
            elif path == MIRRORS:
                homes = {each: places.known(each).home for each in map(unescape, names)}
                homeless.update(
                    each
                    for each, home in homes.items()
                    if (holder := cluster_map.names[home.ensemble]) in mirrors
                    and not clients[holder].is_there(home.path)
                )
            children = (join(path, each) for each in names if each not in OURS)
            to_list += [each for each in children if each not in OTHERS]
    homeless |= mirrored - pinned
    return Loss(tuple(lost), tuple(sorted(childless)), tuple(sorted(homeless)), len(hidden))
