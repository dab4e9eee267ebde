"""The watches of one program, which outlast its connections. Pure.

A path has one watch of each kind, whatever reads have left it; so it has one event. A read may have no answer when
that comes: at its answer the client tells whether it has left the watch behind the event. A watch outlasts a lost
connection of the client. If the client loses it nevertheless, with a session for example, another read shows
whether anything may have come between: of data it is known what was seen, of children nothing.

What was sent to a program just before its connection ended, it may not have read. So nothing is known of a watch
that was left again on the same connection as its last event: the program is told again, once too often perhaps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from kazoo.protocol.states import EventType, WatchedEvent

from parkazoo.gateway.answer_row import AnswerPlace
from parkazoo.types.znodes import ZnodeStat

DATA, CHILDREN = "data", "children"
KINDS = (DATA, CHILDREN)
Sight = int | None  # what a read of data has seen; None: there was no znode
Key = tuple[str, str]  # kind and path


def sight_of(answer: Any) -> Sight:
    """What a read of data has seen: the zxid of the last change.

    :param answer: of exists or get.
    """
    if answer is None:
        return None
    stat: ZnodeStat = answer if isinstance(answer, ZnodeStat) else answer[1]
    return stat.mzxid


class ProgramWatch:
    """A watch, as the client has it: it is called with each event.

    :ivar is_left: a read has left it, and no event has come.
    :ivar set_in: in which of the program's connections it was left, or set again.
    :ivar lost_in: in which of the program's connections it was left when the client lost it; 0: it was not.
    :ivar has_seen: whether `seen` says what the last read of data saw.
    :ivar arming: reads on the program's connection that leave it: they have no answer. With each, the type of an
        event of the watch that was left before, which may have been the read's own too; None: no event has come.
    """

    __slots__ = ("_on_event", "arming", "has_seen", "is_left", "kind", "lost_in", "path", "seen", "set_in")

    def __init__(self, kind: str, path: str, on_event: Callable[[ProgramWatch, WatchedEvent], None]) -> None:
        self.kind = kind
        self.path = path
        self.is_left = self.has_seen = False
        self.lost_in = self.set_in = 0
        self.seen: Sight = None
        self.arming: dict[AnswerPlace, str | None] = {}
        self._on_event = on_event

    def __call__(self, event: WatchedEvent) -> None:
        self._on_event(self, event)

    @property
    def outlasts_connection(self) -> bool:
        """Whether the client's next connection keeps it."""
        return self.is_left

    def was_changed(self, is_expected: bool, answer: Any) -> str | None:
        """Return the type of the event that was missed, if there was one.

        :param is_expected: the program thinks that there is a znode. :param answer: of a read just now.
        """
        if not is_expected:
            return None if answer is None else EventType.CREATED
        if answer is None:
            return EventType.DELETED
        if self.kind == CHILDREN:  # the same names may be other znodes by now
            return EventType.CHILD
        return None if self.has_seen and self.seen == sight_of(answer) else EventType.CHANGED


class WatchTable:
    """All watches of a program.

    :param on_event: is called on each event that the client has for one of them. :param clock: never goes back.
    :param holds: whether the client has a watch, which no event has taken.
    :ivar missed: events that came while the program was away, with the number of its connection before.
    :ivar unread_s: an event that was told earlier was read, or the session is over.
    """

    def __init__(
        self,
        on_event: Callable[[ProgramWatch, WatchedEvent], None],
        clock: Callable[[], float],
        holds: Callable[[ProgramWatch], bool],
    ) -> None:
        self._on_event = on_event
        self._clock = clock
        self._holds = holds
        self._watches: dict[Key, ProgramWatch] = {}
        self._connections = 1
        self.missed: dict[Key, tuple[str, int]] = {}
        self.unread_s = math.inf
        self._told_s: dict[Key, float] = {}  # on this connection, and when; the oldest first
        self._told_before: set[Key] = set()  # on the one before

    def __len__(self) -> int:
        """How many are left."""
        return sum(each.is_left for each in self._watches.values())

    @property
    def remembered(self) -> int:
        """How many are left, or lost, or about to be left."""
        return len(self._watches)

    def watch(self, kind: str, path: str) -> ProgramWatch:
        """The watch of a path, made if there is none."""
        watch = self._watches.get((kind, path))
        if watch is None:
            watch = self._watches[kind, path] = ProgramWatch(kind, path, self._on_event)
        return watch

    def set_again(self, kind: str, path: str) -> ProgramWatch:
        """The watch of a path that the program sets again on a new connection."""
        if (kind, path) in self._told_before:
            self._told_before.discard((kind, path))
            self.forget(self.watch(kind, path))
        return self.watch(kind, path)

    def left(self, kind: str, path: str) -> ProgramWatch | None:
        """The watch of a path, if one is left."""
        watch = self._watches.get((kind, path))
        return watch if watch is not None and watch.is_left else None

    def is_arming(self, kind: str, path: str) -> bool:
        """Whether a read is to leave the watch of a path."""
        watch = self._watches.get((kind, path))
        return watch is not None and bool(watch.arming)

    def begin(self, watch: ProgramWatch, place: AnswerPlace) -> None:
        """A read begins that is to leave it."""
        watch.arming[place] = None

    def end(self, watch: ProgramWatch, place: AnswerPlace, answer: Any, *, is_left: bool) -> str | None:
        """That read has ended.

        :param is_left: the program knows that it has left the watch.
        :returns: the type of the event that it has had already, to be told behind the answer.
        """
        is_armed = place in watch.arming
        early = watch.arming.pop(place, None)
        if early is not None and (not is_left or self._holds(watch)):
            early = None
        if is_left and is_armed and early is None:
            watch.is_left, watch.lost_in = True, 0
            self.renew(watch)
            if watch.kind == DATA:
                watch.has_seen, watch.seen = True, sight_of(answer)
            self.missed.pop((watch.kind, watch.path), None)
        self._tidy(watch)
        return early

    def renew(self, watch: ProgramWatch) -> None:
        """The program has set it again."""
        watch.set_in = self._connections

    def fire(self, watch: ProgramWatch, kind: str) -> list[AnswerPlace | None]:
        """An event of a watch. A deletion is the event of both watches of the path.

        One that has had its event counts no more: the ensemble of the children may tell late of a deletion, when
        there is another znode of that path.

        :param kind: its EventType.
        :returns: behind which answer to tell it, None: at once; once for each.
        """
        if self._watches.get((watch.kind, watch.path)) is not watch:
            return []
        concerned = [watch]
        if kind == EventType.DELETED:
            concerned = [each for each in map(self._watches.get, self._keys(watch.path)) if each is not None]
        was_left = any(each.is_left for each in concerned)
        told: list[AnswerPlace | None] = [None] if was_left else []
        for each in concerned:
            each.is_left = each.has_seen = False
            each.lost_in = 0
            if was_left:
                each.arming = {place: early or kind for place, early in each.arming.items()}
            else:
                told += each.arming
                each.arming.clear()
            self._tidy(each)
        return told

    def note_told(self, watch: ProgramWatch, kind: str) -> None:
        """The program was told of an event. It may not have read that when its connection ends.

        :param kind: its EventType.
        """
        for key in self._keys(watch.path) if kind == EventType.DELETED else [(watch.kind, watch.path)]:
            self._told_s.pop(key, None)
            self._told_s[key] = self._clock()
        self._forget_told()

    def _forget_told(self) -> None:
        """What the program has read by now."""
        since_s = self._clock() - self.unread_s
        while self._told_s and self._told_s[key := next(iter(self._told_s))] < since_s:
            del self._told_s[key]

    def miss(self, watch: ProgramWatch, kind: str) -> None:
        """The program is away, so it does not hear of an event."""
        self.missed[watch.kind, watch.path] = kind, self._connections

    def take_missed(self, watch: ProgramWatch) -> str | None:
        """The event that came while the program was away, if one did; once."""
        kind, _ = self.missed.pop((watch.kind, watch.path), (None, 0))
        if kind is not None:
            self._tidy(watch)
        return kind

    def lose(self, watch: ProgramWatch) -> None:
        """The client has lost it. The program's next connection may set it again."""
        if watch.is_left:
            watch.is_left, watch.lost_in = False, self._connections
        self._tidy(watch)

    def connect(self) -> None:
        """The program has a new connection. Forget what it has not set again on the last one, and the reads that
        the last one has not answered: an event may not wait for them.
        """
        self._connections += 1
        self._forget_told()
        self._told_before, self._told_s = {*self._told_s}, {}
        for watch in list(self._watches.values()):
            watch.arming.clear()
            if 0 < watch.lost_in < self._connections - 1 or (
                watch.is_left and watch.set_in < self._connections - 1
            ):
                self.forget(watch)
            self._tidy(watch)
        for key, (_, connection) in list(self.missed.items()):
            if connection < self._connections - 1:
                del self.missed[key]

    def forget(self, watch: ProgramWatch) -> None:
        """The program does not want it any more."""
        watch.is_left = watch.has_seen = False
        watch.lost_in = 0
        self._tidy(watch)

    def _keys(self, path: str) -> Iterator[Key]:
        return ((kind, path) for kind in KINDS)

    def _tidy(self, watch: ProgramWatch) -> None:
        key = watch.kind, watch.path
        if not (watch.is_left or watch.lost_in or watch.arming) and self._watches.get(key) is watch:
            del self._watches[key]
