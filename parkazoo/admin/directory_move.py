"""Moves the children of a directory from one ensemble to another, while clients work.

A copy is made, while others change the original. Then the map says that the directory moves: clients that have a
session where the children are finish what they do there, and hold what comes. When all of them have said so, the
copy is made exact and sealed, and one transaction at the directory's home switches: the pin names the copy. A mark
below the pin decides between this and everybody who calls the move off, because either deletes it.

Each step may be repeated, by another command too: the map, the pin and the marks say how far a move has come. A
command that is interrupted takes back what it has begun, if the children have not moved yet.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.admin.arguments import WrongArgumentError
from parkazoo.admin.clients import TIMEOUT_S, AdminClient, Auth, LostError, UnreadableError
from parkazoo.admin.copies import read_primary, update_copies
from parkazoo.admin.moving.at_home import MovingHome, SeenPin
from parkazoo.admin.moving.at_work import encode_work
from parkazoo.admin.moving.carried import TOP, Tree, writes_to_copy
from parkazoo.admin.moving.copying import UNSEEN, Both, MovingCopy, NotExactError, Progress, is_sealed
from parkazoo.admin.moving.immovable import (
    verify_deletable,
    verify_form,
    verify_is_placed,
    verify_is_soon_seen,
    verify_owners,
    verify_path,
    verify_queue,
    verify_rule,
    verify_target,
)
from parkazoo.admin.moving.place import TreePlace, look
from parkazoo.admin.moving.promotion import finish_promotion
from parkazoo.admin.moving.taking_back import delete_place, end_guard, end_show, remove_copy, show_abort
from parkazoo.admin.moving.term_writes import TakenOverError
from parkazoo.admin.publish import Change, publish_on, verify_identity
from parkazoo.admin.read import read_map
from parkazoo.admin.registrations import by_client, describe_client, read_sessions, verify_new_enough
from parkazoo.admin.rise import POLL_S, OnWait, Rise, Said, Tell, Waiting, find_behind
from parkazoo.admin.strays import SHOWN
from parkazoo.admin.whereabouts import By, trace
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.moving import MOVES, NATIVE, Moving, guard, mark_of, old_mark_of, term_of
from parkazoo.protocol.pin import decode_pin, encode_pin
from parkazoo.protocol.placement import (
    MIRRORS,
    OF_GENERATION,
    OURS,
    Directory,
    escape,
    fence_of,
    generation_of,
    mirror_path,
    shown,
)
from parkazoo.protocol.registration import format_session
from parkazoo.protocol.where.places import Places
from parkazoo.types import ZnodeStat

HOLD_S = 1.0  # clients hold their operations meanwhile
HOLD_POLL_S = 0.02
HOLD_POLL_EACH_S = 0.00005  # for each client that is not ready: to ask for it takes its servers' time
WANTED_S = 0.1  # so often it looks whether the move has been called off
ATTEMPTS = 3
LOSSES = 5  # of connections, one after the other
MANY = 10_000  # writes, of which nothing is told for a while
MANY_A_ZNODE = 10  # of an old znode, or in an old queue
NOT_CARRIED = (
    "A copied znode has the data, ACL, versions and sequence numbers of the original; czxid, mzxid, pzxid, ctime "
    "and mtime are new, and may be lower; containers and znodes with a TTL become ordinary, for servers do not "
    "tell which they are"
)
NOT_HELD = "a client has waited too long, or deleted it, or another command has come"
CALLED_OFF = (
    "was called off meanwhile, by --abort or another command: run the command again if it is to move all the same"
)


def move_directory(
    hosts: str,
    path: str,
    to: str | None = None,
    *,
    dry_run: bool = False,
    per_second: float = math.inf,
    strangers_gone: bool = False,
    tell: Tell = lambda step: None,
    on_wait: OnWait = lambda waiting: None,
    progress: Progress = lambda done, total: None,
    auth: Auth = (),
    timeout_s: float = TIMEOUT_S,
    **client_options: Any,
) -> ClusterMap:
    """Moves the children of a directory, with all below them there, to another ensemble. Returns the map.

    Clients go on; operations on the directory and below wait for a moment, which `tell` gives in milliseconds. If
    a client does not get ready for that within a second, it is called off and tried again. A call may be
    interrupted anywhere, and the next one goes on; several may run at once.

    Of a znode it carries data, ACL, versions and sequence numbers; czxid, mzxid, pzxid, ctime and mtime are new.
    Containers and znodes with a TTL become ordinary: servers tell no client which they are (ZOOKEEPER-3583). A
    directory with ephemerals of sessions that are not registered stays.

    :param path: of the directory.
    :param to: the ensemble that gets the children; by default where the map puts new directories.
    :param dry_run: writes nothing.
    :param per_second: writes at most, of the copy, and of the delete of what has moved; and ten times as many
        reads.
    :param progress: called with how many znodes are copied, and how many there are to copy.
    :param strangers_gone: as for `grow_map`, like `tell`, `on_wait`, `timeout_s` and `client_options`.
    :raises ClusterMapError: the directory cannot move, or not now, for the reason in the text; or as `grow_map`.
    """
    verify_path(path)
    verify_rate(per_second)
    options = {**client_options, "auth_data": list(auth)}
    rise = Rise(options, timeout_s, tell, on_wait, dry_run, True, strangers_gone)
    known = read_map(hosts, auth=auth, timeout_s=timeout_s, **client_options)
    return _with_all(rise, known, DirectoryMove(path, to, rise, progress, per_second).run)


def _with_all(
    rise: Rise, known: ClusterMap, do: Callable[[ClusterMap, Mapping[str, AdminClient]], ClusterMap]
) -> ClusterMap:
    """What it returns, with clients of all ensembles, also of those that come meanwhile."""
    while True:
        with rise.connected(known) as clients:
            try:
                return do(known, clients)
            except MoreEnsemblesError:
                known = read_primary(clients[known.bootstrap]).map


def verify_rate(per_second: float) -> None:
    if not per_second > 0:  # nor nan
        raise WrongArgumentError(f"{per_second:g} writes/s are none")


def abort_move(
    hosts: str,
    path: str,
    *,
    tell: Tell = lambda step: None,
    auth: Auth = (),
    timeout_s: float = TIMEOUT_S,
    **client_options: Any,
) -> ClusterMap:
    """Calls the move of a directory off, and takes back what it has begun. Returns the map.

    Arguments as for `move_directory`.

    :raises ClusterMapError: its children have moved already; or as `move_directory`.
    """
    verify_path(path)
    options = {**client_options, "auth_data": list(auth)}
    rise = Rise(options, timeout_s, tell, lambda waiting: None, False, True, True)
    known = read_map(hosts, auth=auth, timeout_s=timeout_s, **client_options)
    moving = DirectoryMove(path, None, rise, lambda done, total: None)
    return _with_all(rise, known, moving.abort)


GoOn = Callable[[], None]  # by an error it ends what is at work


def for_ever() -> None:
    pass


def now_and_then(verify: GoOn) -> GoOn:
    """Calls it not more often than it takes to react soon."""
    last_s = time.monotonic()

    def go_on() -> None:
        nonlocal last_s
        if time.monotonic() - last_s >= WANTED_S:
            verify()
            last_s = time.monotonic()

    return go_on


class _CalledOffError(Exception):
    """Reports why a move does not happen now."""


class _AgainError(Exception):
    """Reports that the map, or the directory, is not as it was read."""


class OtherMovesError(ClusterMapError):
    """Another directory is in the map."""

    def __init__(self, move: Moving) -> None:
        super().__init__(
            f"{shown(move.directory)} moves to {move.target}, and one directory moves at a time: wait for the "
            f"end of that command; if it has died, `parkazoo map move {shown(move.directory)}` goes on, and "
            "with --abort takes it back"
        )
        self.move = move


class MoreEnsemblesError(Exception):
    """Reports that ensembles have come, to which this command is not connected."""

    def __str__(self) -> str:
        return "ensembles have come to the map"


@dataclass
class DirectoryMove:
    """The moves of one directory by one command, which may try several times.

    :param to: None until it is known.
    :param about: for who looks on, such as "3 of 40".
    :param is_next: clients that do not register were looked for a moment ago.
    :ivar clients: by name, of all ensembles.
    :ivar brought: what was seen of the copies that this command has made, by the name of the move.
    :ivar held_s: when the hold of a move began, by this machine's clock.
    :ivar begun: the move whose copy, or old place, this command writes to.
    :ivar entered: the move that this command has put into the map, until it takes it out.
    :ivar given_up: the move that this command itself has called off last.
    :ivar reasons: why moves were called off.
    :ivar sessions: how many the source had, when all were waited for last.
    """

    path: str
    to: str | None
    rise: Rise
    progress: Progress
    per_second: float = math.inf
    is_next: bool = False
    about: str = ""
    clients: Mapping[str, AdminClient] = field(default_factory=dict)
    brought: dict[str, Both] = field(default_factory=dict)
    held_s: dict[str, float] = field(default_factory=dict)
    begun: Moving | None = None
    entered: str = ""
    given_up: str = ""
    reasons: list[str] = field(default_factory=list)
    sessions: int = 0
    is_waiting: bool = False
    losses: int = 0

    def rehearse(self, known: ClusterMap, clients: Mapping[str, AdminClient]) -> None:
        """Tells what would be done, by a map that need not be the newest."""
        self._use(known, clients)
        while True:
            with suppress(_AgainError):
                self._rehearse(known)
                return

    def run(self, known: ClusterMap, clients: Mapping[str, AdminClient]) -> ClusterMap:
        """Goes on as the map says, until there is nothing more to do."""
        self._use(known, clients)
        try:
            while not self._goes_on(newest := self._newest(known)):
                pass
        except (KeyboardInterrupt, LostError):
            if self.begun is not None:
                self._end_early(known, self.begun)
            raise
        return newest

    def _end_early(self, known: ClusterMap, move: Moving) -> None:
        def tell(step: str) -> None:
            with suppress(OSError):  # of a terminal that is gone
                self.rise.tell(f"interrupted: {step}")

        try:
            home = self._find_home(known)
            has_moved = home is not None and is_at(move.name, home.data())
            if not has_moved:
                tell(f"taking back what was copied to {move.target}")
                has_moved = self._take_back(known, move.name, self.clients[move.target])
            if not has_moved:
                self._leave(known, move)
                tell(f"{shown(self.path)} stays where it is")
            else:
                self._publish(known, lambda newest: _switched(newest, move))  # for the watches of clients
                tell(f"{shown(self.path)} has moved, and the next command deletes what is on {move.source}")
        except _AgainError:
            tell("another command has ended what was begun")
        except (ClusterMapError, MoreEnsemblesError) as error:
            tell(f"the next command ends what was begun: {error}")

    def _goes_on(self, known: ClusterMap) -> bool:
        """Does what is next, patiently; whether nothing more is to do."""
        try:
            is_over = self._go_on(known)
        except _AgainError:
            return False
        except LostError:
            self.losses += 1
            if self.losses > LOSSES:
                raise
            return False
        except TakenOverError as error:
            self._wait_for_another(error)
            return False
        self.losses = 0
        return is_over

    def _use(self, known: ClusterMap, clients: Mapping[str, AdminClient]) -> None:
        self.clients = clients
        for name, client in clients.items():
            verify_identity(client, known, name)
            client.patiently(client.catch_up)

    def _newest(self, known: ClusterMap) -> ClusterMap:
        return self._connected(read_primary(self.clients[known.bootstrap]).map)

    def _connected(self, newest: ClusterMap) -> ClusterMap:
        """:raises MoreEnsemblesError: there are no clients for it."""
        if not newest.ensembles.keys() <= self.clients.keys():
            raise MoreEnsemblesError
        return newest

    def _wait_for_another(self, error: TakenOverError) -> None:
        if not self.is_waiting:
            self.rise.tell(f"waiting for its end: {error}")
        self.is_waiting = True
        time.sleep(POLL_S)

    def _go_on(self, known: ClusterMap) -> bool:
        """
        :raises LostError: a connection was lost. :raises TakenOverError: another command is at work.
        """
        move = known.move
        if move is not None:
            self._verify_ours(move)
            self.to = move.target
        if self.rise.dry_run:
            self._rehearse(known)
            return True
        if move is None:
            return self._begin(known)
        if move.has_switched:
            self.begun = move
            self._finish(known, move)
        else:
            self._hold(known, move, self._find_home(known), is_fresh=False)
        return False

    def _verify_ours(self, move: Moving) -> None:
        if move.directory != self.path:
            raise OtherMovesError(move)
        if self.to not in (None, move.target):
            raise ClusterMapError(
                f"{shown(self.path)} moves to {move.target} already: the same command with --to {move.target} "
                "goes on, and with --abort takes it back"
            )

    # ---- where everything is -----------------------------------------------------------------------

    def _home(self, known: ClusterMap, d: Directory) -> MovingHome:
        return MovingHome(self.clients[known.names[d.home.ensemble]], d.home.path)

    def _find_home(self, known: ClusterMap) -> MovingHome | None:
        """None: the directory is gone, and so are its marks."""
        found = trace(known, self.clients, self.path)
        return self._home(known, found.d) if found.is_there else None

    def _copy_of(self, move: Moving, go_on: GoOn = for_ever, per_second: float = math.inf) -> TreePlace:
        path = mirror_path(self.path, move.name)
        return TreePlace(self.clients[move.target], path, go_on=go_on, per_second=per_second)

    def _original_of(
        self, move: Moving, home: MovingHome, go_on: GoOn = for_ever, per_second: float = math.inf
    ) -> TreePlace:
        if move.generation == NATIVE:
            return TreePlace(home.client, home.path, OURS, go_on, per_second)
        path = mirror_path(self.path, move.generation)
        return TreePlace(self.clients[move.source], path, go_on=go_on, per_second=per_second)

    def _work(self, known: ClusterMap, move: Moving) -> bytes:
        return encode_work(known.epoch, move, self.about)

    def _fence(self, name: str) -> tuple[str, ZnodeStat]:
        """Path and stat of the directory's fence on an ensemble."""
        client, path = self.clients[name], fence_of(self.path)
        while (stat := client.call("exists", path)) is None:
            client.make(path, b"", OPEN_ACL_UNSAFE)
        return path, stat

    # ---- steps 1 to 4: a copy, the mark, the map ---------------------------------------------------

    def _begin(self, known: ClusterMap) -> bool:
        """Makes a copy and announces the move; whether the children are there already."""
        home, seen, move = self._find(known)
        if self._take_back_left(known, home, seen, self._original_of(move, home), by_force=False):
            self.rise.tell("took back what an interrupted command had begun")
        if seen.moved:
            self._finish_left(known, home, seen.moved)
            raise _AgainError
        if move.source == move.target:
            update_copies(self.clients, known.bootstrap)  # a command may have been interrupted
            return True
        if self.entered:
            raise self._called_off()
        if len(self.reasons) >= ATTEMPTS:
            told = "".join(f"\n  {reason}" for reason in dict.fromkeys(self.reasons))
            raise ClusterMapError(
                f"{shown(self.path)} stays where it is: its move was called off {ATTEMPTS} times{told}"
            )
        self._copy(known, home, seen, move, self._verify(known, home, seen, move))
        return False

    def _find(self, known: ClusterMap) -> tuple[MovingHome, SeenPin, Moving]:
        """Where the children are, and a move to where they are to go.

        :raises ClusterMapError: they cannot go anywhere.
        """
        verify_form(known)
        found = trace(known, self.clients, self.path)
        verify_is_placed(found)
        home = self._home(known, found.d)
        seen = home.look_without_pin() if found.by is By.ADOPTION else home.look()
        if seen is None:
            raise _AgainError
        source = known.names[found.d.mirror.ensemble]
        generation = NATIVE if found.d.is_native else found.d.generation
        target = self.to or known.names[known.make_guess().of_children(self.path)]
        return home, seen, Moving(self.path, new_name(), source, generation, target)

    def _verify(self, known: ClusterMap, home: MovingHome, seen: SeenPin, move: Moving) -> Both:
        """Returns what the original is like.

        :raises ClusterMapError: the children cannot move there.
        """
        verify_target(known, move.target)
        verify_rule(known, self.path, move.target)
        verify_queue(known, self.clients, self.path, move.target)
        if seen.deletes:
            raise ClusterMapError(
                f"a delete of {shown(self.path)} has not come to its end: run the command again. If that stays "
                "so, its client has died: `parkazoo fsck --repair` ends it"
            )
        verify_new_enough(self.clients)
        self.rise.verify_no_strangers(known, self.clients, are_none=self.is_next)
        if not seen.is_native:
            home.verify_rights(move.name, seen)
        place = self._original_of(move, home, per_second=self.per_second)
        original = look(place)
        if not original:
            if not self.rise.dry_run and not seen.is_native:
                finish_promotion(home, seen, place, *self._fence(move.source))
            if not self.rise.dry_run:
                raise _AgainError
        verify_owners(place, original, self.path)
        verify_deletable(place, original)
        verify_is_soon_seen(self._original_of(move, home), original, self.path)
        return Both(original)

    def _copy(self, known: ClusterMap, home: MovingHome, seen: SeenPin, move: Moving, original: Both) -> None:
        """Makes a copy, leaves the mark, puts the move into the map, and goes on: clients hold what they do."""
        published: ClusterMap | None = None
        self._await_all(known, move.source)
        if seen.is_native:
            home.let_marks_be_left()
            home.verify_rights(move.name, seen)
        client, is_mine = self.clients[move.target], guard(move.name)

        def verify_wanted() -> None:
            if not client.is_there(is_mine):
                raise TakenOverError(f"{is_mine} on {client} is gone")

        go_on = now_and_then(verify_wanted)
        place = self._copy_of(move, go_on, self.per_second)
        source = self._original_of(move, home, go_on, self.per_second)
        client.make(MOVES, b"", client.call("get_acls", MIRRORS)[0])
        self.begun = move
        if writes_to_copy(original.original) >= MANY:
            self.rise.tell(f"copying {_work_of(original.original)}")
        copy = MovingCopy.begin(place, move.name, original.original[TOP].acl, self._work(known, move))
        try:
            brought = copy.bring(source, original, per_second=self.per_second, progress=self.progress)
            self.rise.tell(f"copied {_znodes(brought.original)} from {move.source} to {move.target}")
            known = self._await_all(known, move.source, go_on)  # the copy has taken its time
            self.brought[move.name] = copy.bring(source, brought, per_second=self.per_second)
            if home.leave_mark(move.name) and home.data() == seen.data:
                published = self._announce(known, move)
        except NotExactError as error:
            self.reasons.append(str(error))
        except TakenOverError:
            if not client.is_there(is_mine):
                raise self._called_off() from None
        except LostError:
            raise
        except ClusterMapError:
            self._take_back(known, move.name, client)
            raise
        if published is not None and published.move is not None:
            self.begun = published.move
            self._hold(published, published.move, home, is_fresh=True)
        else:
            self._take_back(known, move.name, client)

    def _announce(self, known: ClusterMap, move: Moving) -> ClusterMap | None:
        """The map with this move; None: another command was faster."""
        self.held_s[move.name] = time.monotonic()
        self.entered = move.name
        move = move._replace(clients=max(1, self.sessions))
        # Clients with a session on other ensembles than the source need not hurry, so that no one else's need to.
        first = {name: self.clients[name] for name in (known.bootstrap, move.source)}
        try:
            published = self._publish(
                known, lambda newest: newest if newest.move else newest.with_move(move), first
            )
        except MoreEnsemblesError:
            self.entered = ""
            raise
        except LostError:
            if read_primary(self.clients[known.bootstrap]).map.last_move != move.name:
                self.entered = ""
            raise
        if published.move == move:
            return published
        self.entered = ""
        return None

    def _publish(
        self, known: ClusterMap, change: Change, clients: Mapping[str, AdminClient] | None = None
    ) -> ClusterMap:
        return publish_on(clients or self.clients, known, lambda newest: change(self._connected(newest)))

    def _await_all(self, known: ClusterMap, source: str, go_on: GoOn = for_ever) -> ClusterMap:
        """Waits until all clients with a session there work by the newest map. Nobody is held meanwhile."""
        while True:
            go_on()
            known = self._connected(update_copies(self.clients, known.bootstrap).map)
            waiting = find_behind({source: self.clients[source]}, known)
            if waiting is not None and not waiting.behind:
                self.sessions = waiting.sessions
                return known
            if waiting is not None:
                self.rise.on_wait(waiting)
            time.sleep(POLL_S)

    # ---- steps 4 to 7: the hold and the switch -----------------------------------------------------

    def _hold(self, known: ClusterMap, move: Moving, home: MovingHome | None, *, is_fresh: bool) -> None:
        """Has the move happen, or calls it off. When the mark is gone, what the pin says is final.

        :param is_fresh: whether the hold has just begun.
        """
        began_s = self.held_s.setdefault(move.name, time.monotonic())
        reason: Exception | None = None
        try:
            if home is None:
                raise _CalledOffError("it was deleted meanwhile")
            if not is_fresh:
                self._take_up(known, move, home)
            self._make_exact(known, move, home, began_s)
            self._switch(move, home)
        except (LostError, KeyboardInterrupt):
            if home is not None and self.begun == move:  # else another command may be at it
                with suppress(UnreadableError):
                    home.take_mark(mark_of(move.name))
            raise
        except (_CalledOffError, ClusterMapError) as error:
            reason = error
        if home is not None and not home.take_mark(mark_of(move.name)) and isinstance(reason, NotExactError):
            reason = None  # nobody has held any more
        held_ms = 1000 * (time.monotonic() - began_s)
        if home is not None and is_at(move.name, home.data()):
            self._publish(known, lambda newest: _switched(newest, move))
            self.rise.tell(
                f"{shown(self.path)} has moved to {move.target}: operations there have waited for {held_ms:.0f} ms"
            )
            return
        if reason is None:
            reason = _CalledOffError(NOT_HELD)
        is_other = self.entered == move.name and self.given_up != move.name
        is_aborted = is_other and self._is_taken_back(move)
        if not is_aborted:
            self.given_up = move.name
        if self._take_back(known, move.name, self.clients[move.target]):
            raise _AgainError
        self.rise.tell(f"called off after {held_ms:.0f} ms: {reason}")
        is_for_good = isinstance(reason, ClusterMapError) and not isinstance(reason, NotExactError)
        if not is_for_good and not is_aborted:
            self.reasons.append(str(reason))
        self._leave(known, move)
        if is_for_good:
            raise reason
        if is_aborted:
            raise self._called_off()

    def _take_up(self, known: ClusterMap, move: Moving, home: MovingHome) -> None:
        """Goes on with a hold that another command, or a lost connection, has ended in the middle.

        :raises TakenOverError: another command is at it.
        """
        seen = home.look()
        if seen is None or move.name not in seen.moves:
            self._verify_left(move.name, self.clients[move.target])  # one at work tries again itself
            raise _CalledOffError("a connection was lost, a client has waited too long, or a command was ended")
        source = {name: self.clients[name] for name in (known.bootstrap, move.source)}
        update_copies(source, known.bootstrap)

    def _make_exact(self, known: ClusterMap, move: Moving, home: MovingHome, began_s: float) -> None:
        """Has the copy sealed.

        :raises TakenOverError: another command is at it.
        """
        mark = home.mark(mark_of(move.name))

        def verify_held() -> None:
            if not home.client.is_there(mark):
                raise _CalledOffError(NOT_HELD)

        go_on = now_and_then(verify_held)
        place = self._copy_of(move, go_on)
        copy = MovingCopy.take_over(place, move.name, self._work(known, move))
        if copy is not None:
            self.begun = move
            self._await_hold(known, move, began_s, go_on)
            copy.make_exact(self._original_of(move, home, go_on), self.brought.get(move.name, UNSEEN))
            copy.seal()
        if not is_sealed(place):
            if self.entered == move.name != self.given_up:
                raise self._called_off()
            raise _CalledOffError("an interrupted command has begun to take it back")

    def _is_taken_back(self, move: Moving) -> bool:
        """Whether another command has begun to, such as --abort: a client deletes nothing but the mark."""
        place = self._copy_of(move)
        client = place.client
        client.patiently(client.catch_up)
        if client.is_there(guard(move.name)):
            return False
        return client.is_there(term_of(move.name)) or not is_sealed(place)

    def _called_off(self) -> ClusterMapError:
        return ClusterMapError(f"the move of {shown(self.path)} {CALLED_OFF}")

    def _await_hold(self, known: ClusterMap, move: Moving, began_s: float, go_on: GoOn) -> None:
        said: Said = {}
        while True:
            go_on()
            waiting = find_behind({move.source: self.clients[move.source]}, known, said)
            if waiting is None:
                raise _AgainError
            if not waiting.behind:
                return
            if time.monotonic() - began_s >= HOLD_S:
                told = [describe_client(each) for each in waiting.behind]
                lines = "".join(f"\n    {each}" for each in told[:SHOWN])
                more = f"\n    and {len(told) - SHOWN:,} more" if len(told) > SHOWN else ""
                many = "1 client has" if len(told) == 1 else f"{len(told):,} clients have"
                raise _CalledOffError(f"{many} not got ready within {HOLD_S:g} s:{lines}{more}")
            time.sleep(HOLD_POLL_S + HOLD_POLL_EACH_S * len(waiting.behind))

    def _switch(self, move: Moving, home: MovingHome) -> None:
        """In vain if the mark is gone."""
        before = home.look()
        if before is None:
            raise _CalledOffError("it was deleted meanwhile")
        if before.deletes:
            raise _CalledOffError("a delete of it has not come to its end")
        path, fence = self._fence(move.target)
        self.clients[move.target].set(path, b"", -1)  # so that a mirror that is lost is missed
        home.switch(move.name, encode_pin(fence, move.target, move.name), before)

    def _leave(self, known: ClusterMap, move: Moving) -> None:
        """Takes the move out of the map, unless another command has."""
        is_ours = False

        def leave(newest: ClusterMap) -> ClusterMap:
            nonlocal is_ours
            is_ours = newest.move is not None and newest.move.name == move.name
            return self._connected(newest).with_move(None) if is_ours else newest

        try:
            publish_on(self.clients, known, leave)
        finally:  # a copy of the map may not have it yet
            if is_ours and self.entered == move.name:
                self.entered = ""

    # ---- steps 8 and 9: the old place --------------------------------------------------------------

    def _finish(self, known: ClusterMap, move: Moving) -> None:
        """When all clients have left the old place, deletes it."""
        known = self._await_all(known, move.source)
        home = self._find_home(known)
        if home is not None:
            self._delete_old(move, home)
        self._leave(known, move)
        self.rise.tell(f"deleted what was on {move.source}")

    def _delete_old(self, move: Moving, home: MovingHome) -> None:
        while home.old(move.name) is not None:
            mark = old_mark_of(move.name)
            path, fence = self._fence(move.source)
            if home.old(move.name) is None:  # behind the fence: this is still the life that has moved
                break
            check = (home.mark(mark), -1) if move.generation == NATIVE else (path, fence.version)
            original = self._original_of(move, home, per_second=self.per_second)
            if delete_place(original, check, self.per_second):
                home.take_mark(mark)

    def _finish_left(self, known: ClusterMap, home: MovingHome, moved: Sequence[str]) -> None:
        """Deletes old places that no map names any more: it was made anew."""
        for name in moved:
            if (data := home.old(name)) is None:
                continue
            pin = decode_pin(data)
            if pin is None:  # somebody else's
                first = Places(known.make_placement()).known(self.path)
                source, generation = known.names[first.mirror.ensemble], ""
            elif pin.is_native:
                source, generation = home.client.name, NATIVE
            else:
                source, generation = pin.on, pin.generation
            if source not in self.clients:
                raise ClusterMapError(f"an earlier move has left a place on {source}, which the map does not name")
            known = self._await_all(known, source)
            self._delete_old(Moving(self.path, name, source, generation, source), home)
            self.rise.tell(f"deleted what an earlier move had left on {source}")

    # ---- step 1: what is left over -----------------------------------------------------------------

    def _take_back_left(
        self,
        known: ClusterMap,
        home: MovingHome | None,
        seen: SeenPin | None,
        place: TreePlace | None,
        *,
        by_force: bool,
    ) -> list[str]:
        """Takes back what commands have begun that did not come to their end; the names of the moves.

        :param place: of the children; None: the directory is gone.
        :param by_force: also if such a command is at work.
        :raises TakenOverError: a command is at work.
        :raises ClusterMapError: what looks like a copy may be all that there is of the children.
        """
        marked = set(seen.moves) if seen is not None else set()
        kept = set() if place is None else {generation_of(place.path)}
        if home is not None:
            kept |= _old_generations(home, seen)
        prefix = escape(self.path) + OF_GENERATION
        copies = {
            move: client
            for client in self.clients.values()
            for name in client.children(MIRRORS)
            if name.startswith(prefix) and (move := generation_of(name)) not in kept
        }
        for move, client in copies.items():
            if not by_force:
                self._verify_left(move, client)
            if place is None or client.is_there(guard(move)):
                continue
            if not place.client.is_there(place.path):
                raise ClusterMapError(
                    f"by its pin the children of {shown(self.path)} are on {place.client.name}, and they are not; "
                    f"those in {mirror_path(self.path, move)} on {client.name} may be all that there are: "
                    "`parkazoo fsck` tells more"
                )
        if self._newest(known) != known:
            raise _AgainError
        left = [*copies, *(marked - copies.keys())]
        for move in left:
            self._take_back(known, move, copies.get(move))
        return left

    def _verify_left(self, move: str, client: AdminClient) -> None:
        """:raises TakenOverError: another command is at work at it."""
        term = client.call("exists", term_of(move))
        if term is not None and term.ephemeralOwner != client.zk.client_id[0]:
            raise TakenOverError(
                f"another command moves {shown(self.path)}, in session "
                f"{format_session(term.ephemeralOwner)} on {client.name}"
            )

    def _take_back(self, known: ClusterMap, move: str, client: AdminClient | None) -> bool:
        """Whether the move has happened all the same.

        The guard goes first: so nobody seals the copy. One that had none may be sealed; it may even be where the
        children are by now, and the directory's home elsewhere, because the directory above has moved too. So the
        map, the directory's home and its pin are read anew, and count if no move has begun or ended meanwhile.

        :param client: of the ensemble with the copy, if there is one.
        :raises _AgainError: moves have begun or ended meanwhile.
        :raises ClusterMapError: what looks like a copy may be all that there is of the children.
        """
        is_open = client is not None and end_guard(client, move)
        known = self._newest(known)
        home = self._find_home(known)
        if home is not None:
            home.take_mark(mark_of(move))
        has_happened = home is not None and is_at(move, home.data())
        if client is not None and not has_happened:
            if not is_open:
                self._verify_not_in_use(known, move, client, home)
            remove_copy(TreePlace(client, mirror_path(self.path, move)), move)
        if self.begun is not None and self.begun.name == move and not self.begun.has_switched:
            self.begun = None
        return has_happened

    def _verify_not_in_use(
        self, known: ClusterMap, move: str, client: AdminClient, home: MovingHome | None
    ) -> None:
        """No pin named the copy when the home was asked; nor is it an old place, to which clients may still go."""
        is_held = known.move is not None and known.move.name == move and not known.move.has_switched
        is_old = home is not None and move in _old_generations(home, home.look())
        newest = self._newest(known)
        if is_old or (newest.move, newest.last_move) != (known.move, known.last_move):
            raise _AgainError
        path = mirror_path(self.path, move)
        if home is None and not is_held and client.is_there(path) and client.children(path):
            raise ClusterMapError(
                f"{shown(self.path)} is gone, and what is in {path} on {client.name} may be all that there is of "
                "its children: `parkazoo fsck` tells more"
            )

    def abort(self, known: ClusterMap, clients: Mapping[str, AdminClient]) -> ClusterMap:
        """Calls the move off, whoever is at it."""
        self._use(known, clients)
        while True:
            with suppress(_AgainError):
                self._abort(self._connected(update_copies(clients, known.bootstrap).map))
                return update_copies(clients, known.bootstrap).map

    def _abort(self, known: ClusterMap) -> None:
        found = trace(known, self.clients, self.path)
        home = self._home(known, found.d) if found.is_there else None
        seen = None if home is None else home.look()
        place = None
        if home is not None:
            place = TreePlace(self.clients[known.names[found.d.mirror.ensemble]], found.d.mirror.path)
        move = known.move if known.move is not None and known.move.directory == self.path else None
        if move is not None:
            client = self.clients[move.target]
            if move.has_switched:
                raise self._has_moved(move.source, move.target)
            show_abort(client, move.name)
            self.given_up = move.name
            try:
                if self._take_back(known, move.name, client):
                    raise self._has_moved(move.source, move.target)
            finally:
                end_show(client, move.name)
            self._leave(known, move)
        else:
            left = self._take_back_left(known, home, seen, place, by_force=True)
            pin = decode_pin((home and home.data()) or b"")
            called_off = {*left, self.given_up} - {""}
            if place is not None and pin is not None and pin.generation in called_off:  # its command was faster
                raise self._has_moved(place.client.name, pin.on)
            if not called_off:
                raise ClusterMapError(
                    f"there is nothing to abort: {shown(self.path)} does not move. A command that waits for "
                    "clients before it copies has written nothing yet: end it where it runs"
                )
        self.rise.tell(f"called off: {shown(self.path)} stays where it is")

    def _has_moved(self, source: str, target: str) -> ClusterMapError:
        return ClusterMapError(
            f"{shown(self.path)} has moved to {target} already: the same command without --abort "
            f"ends the move, and then with --to {source} moves it back"
        )

    # ---- a dry run ---------------------------------------------------------------------------------

    def _rehearse(self, known: ClusterMap) -> None:
        if known.move is not None:
            self.rise.tell(f"would go on with the move of {shown(self.path)} to {known.move.target}")
            return
        home, seen, move = self._find(known)
        source, target = move.source, move.target
        if source == target:
            return
        original = self._verify(known, home, seen, move).original
        tell = self.rise.tell
        tell(f"would copy {_work_of(original)} from {source} to {target}")
        tell(NOT_CARRIED)
        tell(f"would publish map {known.epoch + 1}: clients hold what they do at {shown(self.path)} and below")
        tell(
            f"would switch when all clients with a session on {source} are ready; would call it off if that takes "
            f"more than {HOLD_S:g} s, and try again, {ATTEMPTS} times in all"
        )
        tell(f"would publish map {known.epoch + 2}, delete what is on {source}, and publish map {known.epoch + 3}")
        sessions = {source: read_sessions(self.clients[source])}
        self.rise.on_wait(Waiting(known.form, known.epoch, by_client(sessions), len(sessions[source])))


def _znodes(found: Tree) -> str:
    """How many there are below its top."""
    number = max(0, len(found) - 1)
    return "1 znode" if number == 1 else f"{number:,} znodes"


def _work_of(found: Tree) -> str:
    """How many znodes, and how many writes if those are many more."""
    writes = writes_to_copy(found)
    return _znodes(found) + (f" by {writes:,} writes" if writes > MANY_A_ZNODE * len(found) else "")


def new_name() -> str:
    return secrets.token_hex(16)


def is_at(move: str, data: bytes | None) -> bool:
    """Whether a pin says that the move has happened."""
    pin = None if data is None else decode_pin(data)
    return pin is not None and pin.generation == move


def _old_generations(home: MovingHome, seen: SeenPin | None) -> set[str]:
    """Of the places that earlier moves have left, and that are not deleted yet.

    :param seen: the pin; None: there is none.
    """
    olds = (home.old(move) for move in seen.moved) if seen is not None else ()
    return {pin.generation for data in olds if data is not None and (pin := decode_pin(data))}


def _switched(newest: ClusterMap, move: Moving) -> ClusterMap:
    """The map that says so; the same if it is another move's, or says it already."""
    is_told = newest.move != move or move.has_switched
    return newest if is_told else newest.with_move(move._replace(has_switched=True))
