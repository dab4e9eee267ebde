"""One client over the model: the real driver and the real session's watches, over members without sockets."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Container
from functools import partial
from threading import Lock
from typing import TypeVar

from kazoo.protocol.states import EventType, KeeperState, WatchedEvent

from parkazoo.engine.driver import Driver
from parkazoo.engine.ports import AbandonedError, Reply, is_abandoned, note_kept
from parkazoo.engine.total import TotalDriver
from parkazoo.engine.watching import Watching
from parkazoo.protocol.lasting_watch import LastingWatch
from parkazoo.protocol.past import CATCH_UP
from parkazoo.protocol.placement import Placement, logical
from tests.explore.alone import make_context, make_grown
from tests.explore.model import Model
from tests.explore.scenario import Knows
from tests.explore.znodes import ANYONE, Answer, Request, Who, has_watch, watch_kind
from tests.fakes.result import Result

R = TypeVar("R", bound=Result)
Watcher = Callable[[WatchedEvent], object]


class Ordered(dict[Watcher, None]):
    """A set of watches in the order in which they were set, so that the same happens each time."""

    def add(self, watcher: Watcher) -> None:
        self[watcher] = None

    def discard(self, watcher: Watcher) -> None:
        self.pop(watcher, None)


class Watches:
    """What a member has been asked to watch: kazoo's tables."""

    def __init__(self) -> None:
        self.data: dict[str, Ordered] = {}
        self.child: dict[str, Ordered] = {}

    def answered(self, request: Request, answer: Answer) -> None:
        """Keep the watch of a request, if it has succeeded."""
        if has_watch(request) and not isinstance(answer, Exception):
            table = self.child if watch_kind(request) == "child" else self.data
            table.setdefault(request.path, Ordered()).add(request.watcher)  # type: ignore[attr-defined]

    def take(self, event: WatchedEvent) -> Ordered:
        """The watches that an event uses up."""
        watches = Ordered()
        if event.type != EventType.CHILD:
            watches |= self.data.pop(event.path, {})
        if event.type in (EventType.CHILD, EventType.DELETED):
            watches |= self.child.pop(event.path, {})
        return watches

    def left(self) -> set[Watcher]:
        return {watch for table in (self.data, self.child) for watches in table.values() for watch in watches}


class FakeMember:
    """A connection: requests wait in `outbox` for the server, answers and events in `inbox` for the client.

    :param keeps: requests wait for the connection first, as if it had no room: see :meth:`take`.
    :ivar kept: how many still do, the last ones of `outbox`.
    """

    def __init__(self, client: Client, ensemble: int, *, keeps: bool = False) -> None:
        self.keeps = keeps
        self.kept = 0
        self.client = client
        self.ensemble = ensemble
        self.outbox: deque[tuple[Request, Reply | None]] = deque()
        self.inbox: deque[Callable[[], object]] = deque()
        self.watches = Watches()
        self.session_id = client.who.owners[ensemble]

    def submit(self, request: Request, reply: Reply | None) -> None:
        self.outbox.append((request, reply))
        if self.keeps:
            self.kept += 1
            note_kept(reply)
        else:
            self._note_sent(request, reply)

    def take(self) -> None:
        """The connection takes the oldest request that it has kept, and sends it if that was not given up."""
        at = len(self.outbox) - self.kept
        request, reply = self.outbox[at]
        self.kept -= 1
        if not is_abandoned(reply):
            self._note_sent(request, reply)
            return
        if (caller := caller_of(reply)) is not None and caller.has_begun:
            self.client.mistakes.append("what has begun is left half done")
        del self.outbox[at]
        if reply is not None:
            reply.set_exception(AbandonedError())

    def forget_watch(self, path: str, watch: Watcher | LastingWatch, of_children: bool | None = None) -> bool:
        was_there, tables = False, (self.watches.data, self.watches.child)
        for table in tables if of_children is None else (tables[of_children],):
            was_there = was_there or watch in table.get(path, Ordered())
            table.get(path, Ordered()).discard(watch)  # type: ignore[arg-type]  # it may be of another kind
        return was_there

    def watches_on(self, path: str) -> list[Watcher | LastingWatch]:
        return [*self.watches.data.get(path, ()), *self.watches.child.get(path, ())]

    def data_watches(self) -> list[tuple[str, Watcher]]:
        return [(path, each) for path, watches in self.watches.data.items() for each in watches]

    def child_watches(self) -> list[tuple[str, Watcher]]:
        return [(path, each) for path, watches in self.watches.child.items() for each in watches]

    def _note_sent(self, request: Request, reply: Reply | None) -> None:
        caller = caller_of(reply) if self.client.may_give_up else None
        if caller is not None and request is CATCH_UP:
            is_for_all = isinstance(self.client.driver, TotalDriver)  # others count on it, so it is sent
            caller.is_prepared |= is_for_all or not caller.is_given_up
        elif caller is not None:
            if caller.is_given_up and not (caller.has_begun or caller.is_prepared):
                self.client.mistakes.append("a request is sent that was given up before")
            caller.has_begun = True

    def serve(self) -> None:
        """The server executes the oldest request."""
        request, reply = self.outbox.popleft()
        self.client.sent.append((self.ensemble, request))
        answer = self.client.model.execute(self.ensemble, request, self.client.who)
        self.inbox.append(lambda: self.answer(request, reply, answer))

    def answer(self, request: Request, reply: Reply | None, answer: Answer) -> None:
        self.watches.answered(request, answer)
        if reply is None:
            return
        if isinstance(answer, Exception):
            reply.set_exception(answer)
        else:
            reply.set(answer)

    def tell(self, event: WatchedEvent) -> None:
        """An event arrives; its watches are called on kazoo's watch thread."""
        self.client.driver.hear(self.ensemble)
        for watch in self.watches.take(event):
            seen = event._replace(path=logical(event.path))
            self.client.callbacks.append(partial(watch, seen))

    def deliver(self) -> None:
        """The client reads the oldest answer or event."""
        self.inbox.popleft()()


def caller_of(reply: object) -> Asked | None:
    """The reply to the operation that a request is sent for."""
    while reply is not None and not isinstance(reply, Asked):
        reply = getattr(reply, "asker", None)
    return reply


class Asked(Result):
    """The reply to an operation of a program.

    :ivar has_begun: a request was sent for it. :ivar is_prepared: or a write in front of one.
    """

    has_begun = False
    is_prepared = False

    @property
    def is_given_up(self) -> bool:
        """Whether a test has given it up, whatever it says."""
        return self.is_abandoned


class Client:
    """A client of the model. Nothing happens by itself: see :meth:`choices`.

    ``callbacks`` stands for kazoo's watch thread: what is called there, in order.

    :param knows: if pins decide where children are: where it thinks that they are.
    :param keeps: the ensembles whose connections keep requests.
    :param may_give_up: whether to note what is sent for operations that may be given up.
    :ivar mistakes: what it has done wrong.
    """

    def __init__(
        self,
        placement: Placement,
        model: Model,
        who: Who = ANYONE,
        marks: str = "mark",
        knows: Knows | None = None,
        *,
        has_total_order: bool = False,
        keeps: Container[int] = (),
        may_give_up: bool = False,
    ) -> None:
        self.model = model
        self.may_give_up = may_give_up
        self.who = who
        self.sent: list[tuple[int, Request]] = []
        self.mistakes: list[str] = []
        self.callbacks: deque[Callable[[], object]] = deque()
        self.members = [
            FakeMember(self, ensemble, keeps=ensemble in keeps) for ensemble in range(placement.ensembles)
        ]
        self.watching = watching = Watching(
            self.members, self.callbacks.append, self._deliver, lambda: KeeperState.CONNECTED
        )
        self.context = make_context(
            placement, marks, who, watch=watching.watch, settle=watching.settle, lock=Lock()
        )
        kind = TotalDriver if has_total_order else Driver
        self.driver = watching.driver = kind(self.context, self.members, Lock)
        self._placement = placement
        if knows is not None:
            self.rise(knows)
        others = model.on_event

        def on_event(who: Who, ensemble: int, event: WatchedEvent) -> None:
            if who == self.who:
                self.members[ensemble].inbox.append(partial(self.members[ensemble].tell, event))
            else:
                others(who, ensemble, event)

        model.on_event = on_event

    def _deliver(self, watch: Callable[[WatchedEvent], object], event: WatchedEvent) -> None:
        self.callbacks.append(partial(watch, event))

    def call(self, request: Request) -> Result:
        return self.ask(request, Asked())

    def ask(self, request: Request, result: R) -> R:
        self.driver.call(request, result)
        return result

    def rise(self, knows: Knows) -> None:
        """Go on to a form of the map in which pins decide."""
        self.driver.begin_form(make_grown(self.driver.context, self._placement, knows))

    def choices(self) -> list[Callable[[], None]]:
        """What can happen next, each by a call."""
        choices: list[Callable[[], None]] = [member.serve for member in self.members if member.outbox]
        choices += [member.deliver for member in self.members if member.inbox]
        if self.callbacks:
            choices.append(self._call_back)
        return choices

    def _call_back(self) -> None:
        self.callbacks.popleft()()

    def run(self, dice: random.Random | None = None) -> None:
        """Until nothing can happen any more."""
        while choices := self.choices():
            (dice.choice(choices) if dice else choices[0])()

    def get(self, request: Request) -> Answer:
        """Issue a request and run until all is quiet; the result or the error."""
        result = self.call(request)
        self.run()
        return result.value
