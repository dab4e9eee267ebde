"""The lasting watches of one client, as long as its map is plain: then each place is certain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from weakref import WeakSet

from kazoo.exceptions import ConnectionLoss, NoNodeError, UnimplementedError
from kazoo.protocol.states import EventType, KeeperState, WatchedEvent

from parkazoo.engine.ports import OnAnswer, Reply, RequestPort
from parkazoo.engine.watching import Watching
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.lasting_watch import LastingWatch
from parkazoo.protocol.newer_requests import AddWatch
from parkazoo.protocol.ops.of_session import known_there
from parkazoo.protocol.placement import Place, is_reserved, shown
from parkazoo.types import AddWatchMode
from parkazoo.types.znodes import Watch

INSTEAD = "Read with watch= and set it again at each event, as DataWatch and ChildrenWatch do"


class Lasting:
    """Adds and ends them. Private methods run on the loop.

    :param members: indexed as in the placement. :param call: makes a call on the loop.
    :param deliver: has a user's function called.
    """

    def __init__(
        self,
        watching: Watching,
        members: Sequence[RequestPort],
        call: Callable[[Callable[[], None]], None],
        deliver: Callable[[Watch, WatchedEvent], None],
    ) -> None:
        self._watching = watching
        self._members = members
        self._call = call
        self._deliver = deliver
        self._watches: WeakSet[LastingWatch] = WeakSet()

    def add(self, path: str, watcher: Watch, mode: AddWatchMode, reply: Reply) -> None:
        """Leave one. `reply` gets None, or why there is none."""
        self._call(partial(self._add, path, watcher, mode, reply))

    def _add(self, path: str, watcher: Watch, mode: AddWatchMode, reply: Reply) -> None:
        context = self._watching.driver.context
        if is_reserved(path):
            reply.set_exception(NoNodeError(path))
        elif context.form is not Form.PLAIN:
            self._refuse(path, "the map has grown or is about to, and pins say where children are", reply)
        elif mode is AddWatchMode.PERSISTENT_RECURSIVE and len(context.names) > 1:
            self._refuse(path, "the znodes below it are on several ensembles", reply)
        else:
            d = context.known(path)
            watch = LastingWatch(watcher, mode, d.home, d.mirror, self._deliver)
            adding = _Adding(len(watch.places), partial(self._have_added, watch, reply))
            for place in watch.places:
                request = AddWatch(place.path, mode, watch)
                ending = OnAnswer(partial(self._answered, place, request, adding))
                self._members[place.ensemble].submit(request, ending)

    def _refuse(self, path: str, why: str, reply: Reply) -> None:
        told = shown(self._watching.driver.unchroot(path))
        reply.set_exception(UnimplementedError(f"{told}: a watch here cannot last: {why}. {INSTEAD}"))

    def _answered(self, place: Place, request: AddWatch, adding: _Adding, answer: object) -> None:
        try:
            known_there(self._watching.driver.context, place.ensemble, request, answer)
        except Exception as error:
            adding.error = error
        adding.end_one()

    def _have_added(self, watch: LastingWatch, reply: Reply, error: Exception | None) -> None:
        if error is None and self._watching.driver.context.form is not Form.PLAIN:
            error = ConnectionLoss("the map began to grow meanwhile")
        if error is None:
            self._watches.add(watch)
            reply.set(None)
        else:
            self._end(watch)
            reply.set_exception(error)

    def end(self) -> None:
        """On the loop: what they watch may come elsewhere from now on. Each hears that it has ended."""
        for watch in list(self._watches):
            self._end(watch)
            watch.end(WatchedEvent(EventType.NONE, KeeperState.CLOSED, None))
        self._watches.clear()

    def _end(self, watch: LastingWatch) -> None:
        for ensemble, path in watch.places:
            self._members[ensemble].forget_watch(path, watch)
        self._watching.have_forgotten(watch.places, OnAnswer(lambda answer: None))


class _Adding:
    """A watch that is being left.

    :param missing: so many answers. :param on_end: gets the error of one of them, if one has failed.
    """

    def __init__(self, missing: int, on_end: Callable[[Exception | None], None]) -> None:
        self.error: Exception | None = None
        self._missing = missing
        self._on_end = on_end

    def end_one(self) -> None:
        self._missing -= 1
        if not self._missing:
            self._on_end(self.error)
