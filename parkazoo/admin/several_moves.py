"""Several directories that move, one after the other: those at and below a path, all on an ensemble, or a plan's.

A command looks again until it finds nothing new. It may be interrupted anywhere; the next one does what is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from parkazoo.admin.clients import TIMEOUT_S, AdminClient, Auth, NoRightError, UnreadableError
from parkazoo.admin.copies import read_primary
from parkazoo.admin.directory_move import DirectoryMove, MoreEnsemblesError, OtherMovesError, verify_rate
from parkazoo.admin.moving.copying import Progress
from parkazoo.admin.moving.immovable import verify_form, verify_path, verify_target
from parkazoo.admin.read import read_map
from parkazoo.admin.registrations import verify_new_enough
from parkazoo.admin.rise import DryRefusal, OnWait, Rise, StrangersError, Tell
from parkazoo.admin.still_held import find_held
from parkazoo.admin.verify import verify_names
from parkazoo.admin.whereabouts import at_and_below, trace
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.moving import Moving
from parkazoo.protocol.placement import Directory, shown

Clients = Mapping[str, AdminClient]
Targets = Mapping[str, str | None]  # by path: the ensemble that gets the children; None: where new ones go
Find = Callable[[ClusterMap, Clients], Targets]
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
    moves = MovesInTurn(rise, progress, per_second)
    return moves.run(known, known, partial(moves.find_below, path, to))


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
    return MovesInTurn(rise, progress, per_second).run(known, would_be or known, partial(find_on, name))


def find_on(name: str, known: ClusterMap, clients: Clients) -> Targets:
    """All directories on an ensemble: those whose pins name it, and older ones that have none."""
    found = {*find_held(known, name, clients).directories}
    for each in at_and_below(known, clients, "/"):
        if isinstance(each, Directory) and each.path != "/" and known.names[each.mirror.ensemble] == name:
            found.add(each.path)
    return _furthest_down_first(found, None)


def _furthest_down_first(paths: Iterable[str], to: str | None) -> Targets:
    return dict.fromkeys(sorted(paths, key=lambda path: (-path.count("/"), path)), to)


@dataclass
class MovesInTurn:
    """The moves of one command, by connections that it keeps.

    Clients that do not register are looked for before the first move, until two looks have found none, and by one
    look before each other. That is as good: a look may miss a session that goes to another server meanwhile, but
    not two, and the look before the last move is one of these. Who comes later is seen before the next move, as
    he would be if each directory had a command of its own.

    :param per_second: as for `move_below`.
    """

    rise: Rise
    progress: Progress
    per_second: float = math.inf
    tried: set[str] = field(default_factory=set)
    moved: int = 0
    stayed: dict[str, str] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)  # moves that it has tried to bring to their end

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

    def find_below(self, path: str, to: str | None, known: ClusterMap, clients: Clients) -> Targets:
        """The directories at and below a path that are not where they are to go."""
        if not self.tried and not trace(known, clients, path).is_there:
            raise ClusterMapError(f"there is no znode {shown(path)}")
        guess, found = known.make_guess().of_children, list[str]()
        for each in at_and_below(known, clients, path):
            if not isinstance(each, Directory):
                self.stayed[each] = HIDDEN
            elif known.names[each.mirror.ensemble] != (to or known.names[guess(each.path)]):
                found.append(each.path)
        return _furthest_down_first(found, to)

    def _move_all(self, known: ClusterMap, would_be: ClusterMap, clients: Clients, find: Find) -> None:
        for client in clients.values():
            client.patiently(client.catch_up)
        newest = read_primary(clients[known.bootstrap]).map
        self._verify(newest, clients)
        if newest.move is not None and self.rise.dry_run:
            self.rise.tell(f"would go on with a move: {_about(newest.move)}")
            would_be = would_be.with_move(None)
        elif newest.move is not None:
            self._end(newest.move, known, clients)
            newest = read_primary(clients[known.bootstrap]).map
        while targets := self._new(find, would_be if self.rise.dry_run else newest, clients):
            if not self.rise.dry_run:
                directories = "directory" if len(targets) == 1 else "directories"
                self.rise.tell(f"found {len(targets):,} {directories} to move")
            for number, (path, to) in enumerate(targets.items(), 1):
                if self.rise.dry_run:
                    self._rehearse(path, to, would_be, clients)
                else:
                    self._move(path, to, known, clients, f"{number:,} of {len(targets):,}")
                self.tried.add(path)
            newest = read_primary(clients[known.bootstrap]).map

    def _verify(self, newest: ClusterMap, clients: Clients) -> None:
        """:raises ClusterMapError: no directory can move."""
        try:
            verify_new_enough(clients)
            self.rise.verify_no_strangers(newest, clients)
        except ClusterMapError as error:
            if not self.rise.dry_run:
                raise
            self.rise.tell(DryRefusal(f"would be refused: {error}"))

    def _new(self, find: Find, known: ClusterMap, clients: Clients) -> Targets:
        if not known.ensembles.keys() <= clients.keys():
            raise MoreEnsemblesError
        found = find(known, clients)
        for path in self.stayed.keys() & self.tried - found.keys():  # one has gone along with the one above it
            del self.stayed[path]
        return {path: to for path, to in found.items() if path not in self.tried}

    def _move(self, path: str, to: str | None, known: ClusterMap, clients: Clients, about: str) -> None:
        def tell(step: str) -> None:
            self.rise.tell(f"{about}: {step}")

        rise = replace(self.rise, tell=tell)
        with self._told(path):
            while other := self._other(DirectoryMove(path, to, rise, *self._how, about), known, clients):
                self._end(other, known, clients)

    @property
    def _how(self) -> tuple[Progress, float, bool]:
        return self.progress, self.per_second, True

    def _other(self, move: DirectoryMove, known: ClusterMap, clients: Clients) -> Moving | None:
        """Moves a directory, or returns the move that has to come to its end first."""
        try:
            move.run(known, clients)
        except OtherMovesError as error:
            if error.move.name in self.ended:
                raise
            return error.move
        return None

    def _end(self, move: Moving, known: ClusterMap, clients: Clients) -> None:
        """Another command was interrupted in it, or is at it: no other directory can move before its end."""
        self.ended.add(move.name)
        self.rise.tell(f"going on with a move: {_about(move)}")
        with self._told(move.directory):
            DirectoryMove(move.directory, move.target, self.rise, *self._how).run(known, clients)

    def _rehearse(self, path: str, to: str | None, would_be: ClusterMap, clients: Clients) -> None:
        told: list[str] = []
        rise = replace(self.rise, tell=told.append, on_wait=lambda waiting: None, strangers_gone=True)  # is told
        with self._told(path):
            DirectoryMove(path, to, rise, self.progress, self.per_second).rehearse(would_be, clients)
            if told:
                self.rise.tell(f"{shown(path)}: {told[0]}")

    @contextmanager
    def _told(self, path: str) -> Iterator[None]:
        """Keeps why a directory stays. If an ensemble does not answer, or strangers have come, none can move."""
        try:
            yield
        except NoRightError as error:
            self.stayed[path] = str(error)
        except (UnreadableError, StrangersError):
            raise
        except ClusterMapError as error:
            self.stayed[path] = str(error)
        else:
            self.moved += 1
            self.stayed.pop(path, None)


def _about(move: Moving) -> str:
    return f"{shown(move.directory)} moves to {move.target}"
