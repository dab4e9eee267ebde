"""What an ensemble still holds: the directories whose pins name it, and what is on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from parkazoo.admin.clients import AdminClient, LostError, for_each
from parkazoo.admin.strays import OTHERS, SHOWN, listings
from parkazoo.admin.whereabouts import DIRECTORIES_SHOWN
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.placement import MIRRORS, OURS, PIN, PROBE, join, logical, mirror_path
from parkazoo.protocol.where.places import Places


class StillHeld(NamedTuple):
    """Describes what keeps an ensemble in the map; false if nothing does.

    :param directories: whose pins name the ensemble; they may have no child.
    :param znodes: how many have their place there.
    :param shown: some of the directories, by path, with the number of their children.
    :param lost: mirrors there that no pin names. :param strange: znodes there that no client of the cluster sees.
    :param moving: a directory that moves, and has a mirror there that its pin does not name, or will not.
    """

    directories: tuple[str, ...] = ()
    znodes: int = 0
    shown: tuple[tuple[str, int], ...] = ()
    lost: tuple[str, ...] = ()
    strange: tuple[str, ...] = ()
    moving: str = ""

    def __bool__(self) -> bool:
        return bool(self.directories or self.lost or self.strange or self.moving)

    def describe(self, name: str) -> str:
        """Returns lines that say what it is, and what to do.

        :param name: of the ensemble.
        """
        lines = []
        if number := len(self.directories):
            lines.append(
                f"{_count(number, 'directory', 'directories')} {'has its' if number == 1 else 'have their'} place "
                f"there, with {_count(self.znodes, 'znode', 'znodes')} in all:"
            )
            lines += [f"  {path}: {_count(children, 'child', 'children')}" for path, children in self.shown]
            if number > len(self.shown):
                lines.append(f"  and {number - len(self.shown):,} more")
            lines.append(
                "A directory keeps its place until it is deleted, even without a child; another one goes "
                f"elsewhere. `parkazoo map drain {name} --move` takes the children of all to other ensembles"
            )
        if self.moving:
            lines.append(
                f"{self.moving} moves, and has a mirror there: wait for its end, or run `parkazoo map move "
                f"{self.moving}`"
            )
        if self.lost:
            told = ", ".join(self.lost[:SHOWN])
            lines.append(f"children are there of directories that do not know it, {told}: run `parkazoo fsck`")
        if self.strange:
            told = ", ".join(self.strange[:SHOWN])
            lines.append(f"znodes are there that no client of this cluster sees, {told}: delete them")
        return "\n".join(lines)


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


class _Seen(NamedTuple):
    """What one ensemble shows.

    :param pinned: directories whose pins name the ensemble in question, with their mirrors.
    :param listed: how many znodes were listed below mirrors.
    """

    pinned: dict[str, str]
    hidden: list[str]
    listed: int


def find_held(known: ClusterMap, name: str, clients: Mapping[str, AdminClient]) -> StillHeld:
    """Looks at every directory, on all ensembles.

    A pin that is there all the time is found: its home, and all above it, stay where they are as long.

    :param clients: of all ensembles. Their servers have applied what matters.
    :raises ClusterMapError: some znodes may not be listed.
    """
    seen = dict(zip(clients, for_each(list(clients.values()), lambda each: _look(each, known, name)), strict=True))
    for ensemble, each in seen.items():
        if each.hidden:
            told = ", ".join(each.hidden[:SHOWN])
            raise ClusterMapError(
                f"{len(each.hidden):,} znodes on ensemble {ensemble} may not be listed, {told}: directories below "
                f"may be on {name}. Give an identity with READ there (--auth)"
            )
    client = clients[name]
    pinned = {path: mirror for each in seen.values() for path, mirror in each.pinned.items()}
    directories = sorted(pinned)
    mirrors = {logical(join(MIRRORS, each)) for each in client.children(MIRRORS)}
    lost = mirrors.difference(directories)
    moving = known.move.directory if known.move is not None and known.move.directory in lost else ""
    strange = [f"/{each}" for each in client.children("/") if not each.startswith(PROBE)]
    asked = [(path, client.zk.exists_async(pinned[path])) for path in directories[:DIRECTORIES_SHOWN]]
    stats = [(path, client.wait(pinned[path], answer)) for path, answer in asked]
    return StillHeld(
        tuple(directories),
        seen[name].listed - len(mirrors),
        tuple((path, stat.numChildren if stat is not None else 0) for path, stat in stats),
        tuple(sorted(lost - {moving})),
        tuple(path for path in strange if path not in OTHERS),
        moving,
    )


def _look(client: AdminClient, known: ClusterMap, name: str) -> _Seen:
    """On one session, which never goes back."""
    session = client.zk._session_id
    first, names = Places(known.make_placement()), known.names
    pinned, hidden, listed = dict[str, str](), list[str](), 0
    to_list = ["/", MIRRORS]
    for path, children, pin in listings(client, to_list, hidden):
        listed += path.startswith(MIRRORS + "/")
        to_list += [child for each in children if each not in OURS and (child := join(path, each)) not in OTHERS]
        if PIN not in children:
            continue
        directory = logical(path)
        if pin is not None:
            is_there = pin.on == name
        else:  # somebody else's, unless it is gone
            is_there = names[first.known(directory).mirror.ensemble] == name and client.is_there(join(path, PIN))
        if is_there:
            pinned[directory] = mirror_path(directory, "" if pin is None else pin.generation)
    if client.zk._session_id != session:
        raise LostError(f"the session on {client} has expired meanwhile; it is safe to try again")
    return _Seen(pinned, hidden, listed)
