"""Where a path is on a plain map, by docs/design/protocol.md ("Placement").

Tests do not ask Places for it: Places may be wrong.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from parkazoo.protocol.placement import Directory, Place, Placement, mirror_path, split

_found: WeakKeyDictionary[Placement, dict[str, Directory]] = WeakKeyDictionary()  # a test counts placements
forget_places = _found.clear


def where_is(placement: Placement, path: str) -> Directory:
    """Returns where a path and its children are. It counts as decided."""
    of_placement = _found.setdefault(placement, {})
    if path not in of_placement:
        of_placement[path] = _find(placement, path)
    return of_placement[path]


def _find(placement: Placement, path: str) -> Directory:
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
