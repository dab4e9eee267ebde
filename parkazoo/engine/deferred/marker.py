"""The znode that counts the batches of a lane: made, replaced to learn the count, removed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kazoo.exceptions import ConnectionLoss, OperationTimeoutError, SessionExpiredError

from parkazoo.engine.deferred.own_operations import OwnOperations
from parkazoo.engine.ports import OnAnswer
from parkazoo.protocol.chain import Settled, make_marker, marker_path, remove_marker, replace_marker
from parkazoo.protocol.placement import Place
from parkazoo.protocol.steps import Operation

DISCONNECTED = (ConnectionLoss, SessionExpiredError, OperationTimeoutError)
PAUSE_S = 0.05  # before a marker is asked again


class LaneMarker:
    """Makes, asks and removes the marker of a lane. Callers hold the lock.

    :param client: the number of the session to which the lane belongs.
    :param enter: makes a call with the lock held.
    :param settled: called with the number of batches that are in, -1 if it is unknown, and the error that ends the
        lane, or None.
    :ivar base: the number of batches that were in when it was made. :ivar is_asked: whether its answer is due.
    """

    def __init__(
        self,
        own: OwnOperations,
        client: int,
        ensemble: int,
        enter: Callable[..., None],
        settled: Callable[[int, Exception | None], None],
    ) -> None:
        self.place = Place(ensemble, "")
        self.data = b""
        self.base = 0
        self._own = own
        self._client = client
        self._enter = enter
        self._settled = settled
        self._successor = ""
        self._left: list[Place] = []  # markers that may be there
        self._is_removed = False
        self._question: object | None = None

    @property
    def is_asked(self) -> bool:
        return self._question is not None

    def ask(self) -> None:
        """Makes the marker; or replaces it, so that no earlier batch can land any more, and learns the count."""
        self._question = question = object()
        operation: Operation[object]
        if not self.data:  # under another name each time: one that was lost may still be made, after all else
            self.place = self._another()
            operation = make_marker(self.place, self._client, self._own.acl)
        else:
            self._successor = self._successor or self._another().path
            operation = replace_marker(self.place, self._successor, self._client, self._own.acl)
        self._own.driver.run(operation, OnAnswer(partial(self._enter, self._answered, question)))

    def _another(self) -> Place:
        marker = Place(self.place.ensemble, marker_path(self._own.runtime.new_mark()))
        self._left.append(marker)
        return marker

    def _ask_again(self, question: object) -> None:
        if question is self._question:
            self.ask()

    def _answered(self, question: object, answer: bytes | Settled | Exception) -> None:
        session = self._own.session
        if question is not self._question:  # a call was interrupted since; it was asked again
            return
        if self._is_removed:
            self._remove_all()
            return
        if isinstance(answer, DISCONNECTED) and not session.is_stopping:
            self._own.call_later(PAUSE_S, partial(self._enter, self._ask_again, question))
            return
        self._question = None
        if isinstance(answer, Exception):
            self._settled(-1, answer)
            return
        if isinstance(answer, Settled):
            self._left.remove(self.place)
            self.place, self._successor = Place(self.place.ensemble, self._successor), ""
            self.base, self.data = answer
        else:
            self.data = answer
        self._settled(self.base, None if session.number == self._client else SessionExpiredError())

    def remove(self) -> None:
        """Removes the marker at the lane's end, as soon as no answer is due."""
        self._is_removed = True
        if self._question is None:
            self._remove_all()

    def _remove_all(self) -> None:
        for marker in self._left:
            self._remove(marker)

    def _remove(self, marker: Place) -> None:
        """Removes a marker, again after a lost answer. A client that stops leaves it."""
        if not self._own.session.is_stopping:
            self._own.driver.run(remove_marker(marker), OnAnswer(partial(self._removed, marker)))

    def _removed(self, marker: Place, answer: Exception | None) -> None:
        if isinstance(answer, DISCONNECTED):
            self._own.call_later(PAUSE_S, partial(self._remove, marker))
