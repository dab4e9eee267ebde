"""The order in which a program gets its answers and its events. Pure.

Clients end a connection whose answers do not come in the order of their requests. So an answer waits in its place
for those in front of it. An event goes behind every answer that has come before it, and behind the answer that
leaves its watch.
"""

from __future__ import annotations

from collections import deque


class AnswerPlace:
    """A request's place in the row.

    :ivar is_sent: its answer is among the bytes that were taken, or may be.
    :ivar size: of the request in bytes, and then of its answer.
    """

    __slots__ = ("after", "answer", "is_sent", "number", "size")

    def __init__(self) -> None:
        self.number = self.size = 0
        self.answer: bytes | None = None
        self.after = b""  # events
        self.is_sent = False


class AnswerRow:
    """The requests of one connection that have no answer yet, or whose answer waits for its turn.

    :ivar count: answers and events so far.
    :ivar size: of those requests and answers, in bytes.
    """

    def __init__(self) -> None:
        self._row: deque[AnswerPlace] = deque()
        self._ready = bytearray()
        self._number = 0
        self.count = self.size = 0
        self._last: AnswerPlace | None = None  # the last in the row that has an answer or an event

    def __len__(self) -> int:
        return len(self._row)

    @property
    def first(self) -> AnswerPlace | None:
        """The oldest request that has no answer."""
        return self._row[0] if self._row else None

    def enter(self, place: AnswerPlace, size: int) -> None:
        """A request of that many bytes has come."""
        place.size = size
        self.size += size
        self._number = place.number = self._number + 1
        self._row.append(place)

    def answer(self, place: AnswerPlace, answer: bytes) -> None:
        """Its answer has come; a later one does not count."""
        if place.answer is not None:
            return
        place.answer = answer
        self.size += len(answer) - place.size
        place.size = len(answer)
        self.count += 1
        self._note(place)
        row = self._row
        while row and (ready := row[0].answer) is not None:
            first = row.popleft()
            self._ready += ready + first.after
            first.is_sent = True
            self.size -= first.size
            if first is self._last:
                self._last = None

    def tell(self, event: bytes, behind: AnswerPlace | None = None) -> None:
        """An event has come.

        :param behind: a place whose answer has to be in front of it.
        """
        self.count += 1
        if behind is not None and not behind.is_sent:
            self._note(behind)
        if self._last is None:
            self._ready += event
        else:
            self._last.after += event

    def at_once(self, answer: bytes) -> None:
        """An answer that has no place."""
        self.count += 1
        self._ready += answer

    def take(self) -> bytes:
        """The bytes whose turn it is."""
        ready = bytes(self._ready)
        self._ready.clear()
        return ready

    def _note(self, place: AnswerPlace) -> None:
        if self._last is None or place.number > self._last.number:
            self._last = place
