"""Where a path is on a plain map, by docs/design/protocol.md ("Placement").

Tests do not ask Places for it: Places may be wrong.
"""

from __future__ import annotations

from functools import lru_cache

from parkazoo.protocol.placement import PATHS_CACHED, Directory, Place, Placement, mirror_path, split


@lru_cache(PATHS_CACHED)
def where_is(placement: Placement, path: str) -> Directory:
    """Returns where a path and its children are. It counts as decided."""
    home = _home(placement, path)
    children = placement.of_children(path)
    if home.ensemble == children:
        return Directory(path, home, home, True)
    return Directory(path, home, Place(children, mirror_path(path)), False)


def _home(placement: Placement, path: str) -> Place:
    """Returns the znode that holds the data, ACL and versions of a path."""
    ensemble, directory = placement.of(path), split(path)[0]
    while directory != "/":
        if placement.of(directory) != ensemble:
            return Place(ensemble, mirror_path(directory) + path[len(directory) :])
        directory = split(directory)[0]  # children of a native directory stay below it
    return Place(ensemble, path)
