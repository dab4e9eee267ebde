"""The watches of one program, which outlast its connections. Pure.

A path has one watch of each kind, whatever reads have left it; so it has one event. What a read with a watch has
seen is remembered until the event: if the client has lost the watch, another read shows whether anything came
between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kazoo.protocol.states import EventType, WatchedEvent

from parkazoo.gateway.answer_row import AnswerPlace
from parkazoo.types.znodes import ZnodeStat

DATA, CHILDREN = "data", "children"
KINDS = (DATA, CHILDREN)
Sight = int | None  # what a read has seen; None: there was no znode
Key = tuple[str, str]  # kind and path


def sight_of(kind: str, answer: Any) -> Sight:
    """What a read has seen: of data the zxid of the last change, of children a hash of their names.

    :param answer: of exists, get, get_children.
    """
    if answer is None:
        return None
    if kind == CHILDREN:
        return hash(frozenset(answer if isinstance(answer, list) else answer[0]))
    stat: ZnodeStat = answer if isinstance(answer, ZnodeStat) else answer[1]
    return stat.mzxid


class ProgramWatch:
    """A watch, as the client has it: it is called with each event.

    :ivar is_left: a read has left it, and no event has come.
    :ivar lost_in: in which of the program's connections it was left when the client lost it; 0: it was not.
    :ivar has_seen: whether `seen` says what the last read saw.
    :ivar arming: reads that leave it and have no answer; True: an event has come meanwhile.
    """

    __slots__ = ("_on_event", "arming", "has_seen", "is_left", "kind", "lost_in", "path", "seen")

    def __init__(self, kind: str, path: str, on_event: Callable[[ProgramWatch, WatchedEvent], None]) -> None:
        self.kind = kind
        self.path = path
        self.is_left = self.has_seen = False
        self.lost_in = 0
        self.seen: Sight = None
        self.arming: dict[AnswerPlace, bool] = {}
        self._on_event = on_event

    def __call__(self, event: WatchedEvent) -> None:
        self._on_event(self, event)

    def was_changed(self, is_expected: bool, answer: Any) -> str | None:
        """Return the type of the event that was missed, if there was one.

        :param is_expected: the program thinks that there is a znode. :param answer: of a read just now.
        """
        seen = sight_of(self.kind, answer)
        if not is_expected:
            return None if seen is None else EventType.CREATED
        if seen is None:
            return EventType.DELETED
        if self.has_seen and self.seen == seen:
            return None
        return EventType.CHILD if self.kind == CHILDREN else EventType.CHANGED


class WatchTable:
    """All watches of a program.

    :param on_event: is called on each event that the client has for one of them.
    :ivar missed: events that came while the program was away, with the number of its connection before.
    """

    def __init__(self, on_event: Callable[[ProgramWatch, WatchedEvent], None]) -> None:
        self._on_event = on_event
        self._watches: dict[Key, ProgramWatch] = {}
        self._connections = 1
        self.missed: dict[Key, tuple[str, int]] = {}

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

    def left(self, kind: str, path: str) -> ProgramWatch | None:
        """The watch of a path, if one is left."""
        watch = self._watches.get((kind, path))
        return watch if watch is not None and watch.is_left else None

    def begin(self, watch: ProgramWatch, place: AnswerPlace) -> None:
        """A read begins that is to leave it."""
        watch.arming[place] = False

    def end(self, watch: ProgramWatch, place: AnswerPlace, answer: Any, *, is_left: bool) -> None:
        """That read has ended.

        :param is_left: the program knows that it has left the watch.
        """
        has_fired = watch.arming.pop(place, True)
        if is_left and not has_fired:
            watch.is_left, watch.lost_in = True, 0
            watch.has_seen, watch.seen = True, sight_of(watch.kind, answer)
            self.missed.pop((watch.kind, watch.path), None)
        self._tidy(watch)

    def fire(self, watch: ProgramWatch, kind: str) -> list[AnswerPlace | None]:
        """An event of a watch. A deletion is the event of both watches of the path.

        :param kind: its EventType.
        :returns: behind which answer to tell it, None: at once; once for each.
        """
        concerned = [watch]
        if kind == EventType.DELETED:
            concerned = [each for each in map(self._watches.get, self._keys(watch.path)) if each is not None]
        told: list[AnswerPlace | None] = []
        if any(each.is_left for each in concerned):
            told.append(None)
        for each in concerned:
            each.is_left = each.has_seen = False
            each.lost_in = 0
            for place, has_fired in each.arming.items():
                if not has_fired:
                    each.arming[place] = True
                    told.append(place)
            self._tidy(each)
        return told

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
        """The program has a new connection. Forget what it has not set again on the last one."""
        self._connections += 1
        for watch in list(self._watches.values()):
            if 0 < watch.lost_in < self._connections - 1:
                self.forget(watch)
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
