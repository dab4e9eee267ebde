"""Several directories that move, one after the other: those at and below a path, or all on an ensemble.

Those furthest down move first. A command looks again until it finds nothing new. It may be interrupted anywhere,
and the next one does what is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from parkazoo.admin.clients import TIMEOUT_S, AdminClient, Auth, NoRightError, UnreadableError
from parkazoo.admin.copies import read_primary
from parkazoo.admin.directory_move import DirectoryMove, MoreEnsemblesError, verify_rate
from parkazoo.admin.moving.copying import Progress
from parkazoo.admin.moving.immovable import verify_form, verify_path, verify_target
from parkazoo.admin.read import read_map
from parkazoo.admin.rise import OnWait, Rise, Tell
from parkazoo.admin.still_held import find_held
from parkazoo.admin.verify import verify_names
from parkazoo.admin.whereabouts import at_and_below
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.placement import Directory, shown

Clients = Mapping[str, AdminClient]
Find = Callable[[ClusterMap, Clients], list[str]]
HIDDEN = "what is at or below it cannot be seen: it takes an identity with READ there (--auth)"


class SeveralMoves(NamedTuple):
    """
    :param moved: how many directories have moved, or would.
    :param stayed: why others have not, by path.
    """

    moved: int
    stayed: Mapping[str, str]


def move_below(
    hosts: str,
    path: str,
    to: str | None = None,
    *,
    dry_run: bool = False,
    strangers_gone: bool = False,
    tell: Tell = lambda step: None,
    on_wait: OnWait = lambda waiting: None,
    progress: Progress = lambda done, total: None,
    per_second: float = math.inf,
    auth: Auth = (),
    timeout_s: float = TIMEOUT_S,
    **client_options: Any,
) -> SeveralMoves:
    """Moves the children of a directory and of all directories below it, as `move_directory` does for one.

    Why a directory cannot move is told at the end, and the others move.

    :param to: the ensemble that gets them; by default each goes where the map puts new directories.
    :param per_second: as for `move_directory`.
    :raises ClusterMapError: an ensemble cannot be reached, or has no place for directories.
    """
    verify_path(path)
    verify_rate(per_second)
    options = {**client_options, "auth_data": list(auth)}
    rise = Rise(options, timeout_s, tell, on_wait, dry_run, True, strangers_gone)
    known = read_map(hosts, auth=auth, timeout_s=timeout_s, **client_options)
    verify_form(known)
    if to is not None:
        verify_target(known, to)
    several = _SeveralMoves(rise, progress, to, per_second)
    return several.run(known, known, partial(several.find_below, path))


def move_off(
    hosts: str,
    name: str,
    *,
    would_be: ClusterMap | None = None,
    dry_run: bool = False,
    strangers_gone: bool = False,
    tell: Tell = lambda step: None,
    on_wait: OnWait = lambda waiting: None,
    progress: Progress = lambda done, total: None,
    per_second: float = math.inf,
    auth: Auth = (),
    timeout_s: float = TIMEOUT_S,
    **client_options: Any,
) -> SeveralMoves:
    """Moves all directories off an ensemble with weight 0, to where the map puts new ones. Else as `move_below`.

    :param name: of the ensemble.
    :param would_be: the map by which a dry run looks for new places.
    """
    verify_rate(per_second)
    options = {**client_options, "auth_data": list(auth)}
    rise = Rise(options, timeout_s, tell, on_wait, dry_run, True, strangers_gone)
    known = read_map(hosts, auth=auth, timeout_s=timeout_s, **client_options)
    verify_names([name], known)
    if would_be is None:
        verify_form(known)
    several = _SeveralMoves(rise, progress, None, per_second)
    return several.run(known, would_be or known, lambda newest, clients: _held(newest, name, clients))


def _held(known: ClusterMap, name: str, clients: Clients) -> list[str]:
    return [*find_held(known, name, clients).directories]


@dataclass
class _SeveralMoves:
    """The moves of one command.

    :param to, per_second: as for `move_below`.
    """

    rise: Rise
    progress: Progress
    to: str | None
    per_second: float = math.inf
    tried: set[str] = field(default_factory=set)
    moved: int = 0
    stayed: dict[str, str] = field(default_factory=dict)

    def run(self, known: ClusterMap, would_be: ClusterMap, find: Find) -> SeveralMoves:
        """
        :param would_be: the map by which a dry run looks for places.
        """
        while True:
            with self.rise.connected(known) as clients:
                try:
                    self._move_all(known, would_be, clients, find)
                except MoreEnsemblesError:
                    known = read_primary(clients[known.bootstrap]).map
                else:
                    return SeveralMoves(self.moved, self.stayed)

    def find_below(self, path: str, known: ClusterMap, clients: Clients) -> list[str]:
        """The directories at and below a path that are not where they are to go."""
        guess, found = known.make_guess().of_children, list[str]()
        for each in at_and_below(known, clients, path):
            if not isinstance(each, Directory):
                self.stayed[each] = HIDDEN
            elif known.names[each.mirror.ensemble] != (self.to or known.names[guess(each.path)]):
                found.append(each.path)
        return found

    def _move_all(self, known: ClusterMap, would_be: ClusterMap, clients: Clients, find: Find) -> None:
        for client in clients.values():
            client.patiently(client.catch_up)
        newest = read_primary(clients[known.bootstrap]).map
        if newest.move is not None and not self.rise.dry_run:  # a command was interrupted
            self._move(newest.move.directory, newest.move.target, known, clients, "an interrupted move")
        while paths := self._new(find, would_be if self.rise.dry_run else newest, clients):
            for number, path in enumerate(paths, 1):
                if self.rise.dry_run:
                    self._rehearse(path, would_be, clients)
                else:
                    self._move(path, self.to, known, clients, f"{number:,} of {len(paths):,}")
                self.tried.add(path)
            newest = read_primary(clients[known.bootstrap]).map

    def _new(self, find: Find, known: ClusterMap, clients: Clients) -> list[str]:
        if not known.ensembles.keys() <= clients.keys():
            raise MoreEnsemblesError
        found = {*find(known, clients)} - self.tried
        return sorted(found, key=lambda path: (-path.count("/"), path))

    def _move(self, path: str, to: str | None, known: ClusterMap, clients: Clients, about: str) -> None:
        def tell(step: str) -> None:
            self.rise.tell(f"{about}: {step}")

        with self._told(path):
            rise = replace(self.rise, tell=tell)
            DirectoryMove(path, to, rise, self.progress, self.per_second).run(known, clients)

    def _rehearse(self, path: str, would_be: ClusterMap, clients: Clients) -> None:
        told: list[str] = []
        rise = replace(self.rise, tell=told.append, on_wait=lambda waiting: None)
        with self._told(path):
            DirectoryMove(path, self.to, rise, self.progress).rehearse(would_be, clients)
            if told:
                self.rise.tell(f"{shown(path)}: {told[0].partition('. ')[0]}")

    @contextmanager
    def _told(self, path: str) -> Iterator[None]:
        """Keeps why a directory stays. If an ensemble does not answer, none can move."""
        try:
            yield
        except NoRightError as error:
            self.stayed[path] = str(error)
        except UnreadableError:
            raise
        except ClusterMapError as error:
            self.stayed[path] = str(error)
        else:
            self.moved += 1
