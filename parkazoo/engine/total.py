"""One order for the reads and writes of all ensembles: ZooNet's rule.

Each ensemble orders its own requests. They have one order in common if each client that changes ensembles has had
all answers before, and begins there with a write, or with a read behind one.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import overload

from kazoo.exceptions import NotReadOnlyCallError

from parkazoo.engine.driver import Driver
from parkazoo.engine.ports import (
    AbandonedError,
    BodyReply,
    OnAnswer,
    OwnAnswer,
    Reply,
    RequestPort,
    give,
    is_abandoned,
)
from parkazoo.kazoo_private import Auth, Create, Create2, Delete, Reconfig, SetACL, SetData, Sync, Transaction
from parkazoo.protocol.context import Context
from parkazoo.protocol.heard import Guard, Heard
from parkazoo.protocol.lasting_watch import LastingWatch
from parkazoo.protocol.newer_requests import CreateContainer, CreateTTL
from parkazoo.protocol.once import Once
from parkazoo.protocol.only_ensemble import ALONE, only_ensemble
from parkazoo.protocol.past import CATCH_UP, REFUSED
from parkazoo.protocol.steps import Request, WireRequest
from parkazoo.types.znodes import Watch

log = logging.getLogger(__name__)

WRITES = frozenset(
    {
        Create.type,
        Create2.type,
        CreateTTL.type,
        CreateContainer.type,
        Delete.type,
        SetData.type,
        SetACL.type,
        Transaction.type,
        Once.type,
        Reconfig.type,
    }
)


class _Operations:
    """The operations of a client, in their order.

    :ivar ensemble: that gets the only request of each that is under way; or ALONE.
    :ivar under_way: a token of each, which it may give back twice.
    :ivar is_moving: a thread starts waiting operations, so no other may start.
    """

    __slots__ = ("ensemble", "is_moving", "under_way", "waiting")

    def __init__(self) -> None:
        self.ensemble = ALONE
        self.under_way: set[object] = set()
        self.waiting: deque[tuple[Request, Reply | None]] = deque()
        self.is_moving = False


class TotalDriver(Driver):
    """A driver by whose operations all ensembles have one order.

    Operations start in the order in which they were issued. One waits while others are under way, unless all of
    them have their only request on the same ensemble.
    """

    def __init__(
        self,
        context: Context,
        members: Sequence[RequestPort],
        make_lock: Callable[[], AbstractContextManager[object]],
        unchroot: Callable[[str], str] = str,
    ) -> None:
        self._heard = Heard(make_lock())
        self._line = _Operations()
        super().__init__(context, _Ports(members, self._heard), make_lock, unchroot)

    @property
    def is_still(self) -> bool:
        """See :meth:`Driver.is_still`."""
        return not self._line.is_moving

    def call(self, request: Request, reply: Reply | None) -> None:
        """See :meth:`Driver.call`. Credentials have no place in the order."""
        if request.type == Auth.type:
            super().call(request, reply)
            return
        ensemble, token = self._only_ensemble(request), object()
        if self._may_start(ensemble, token, request, reply):
            try:
                super().call(request, OwnAnswer(partial(self._answered, token, reply), reply))
            except BaseException:  # a signal handler's, perhaps: the caller goes on without an answer
                self._ended(token)
                raise

    def call_placed(self, kind: int, path: str, rest: bytes, reply: BodyReply) -> bool:
        """No: each operation has its place in the order."""
        return False

    def _may_start(self, ensemble: int, token: object, request: Request, reply: Reply | None) -> bool:
        """Whether an operation may start at once; else it waits."""
        line = self._line
        with self._lock:
            may_start = not line.waiting and not line.is_moving and self._admit(ensemble, token)
            if not may_start:
                line.waiting.append((request, reply))
        return may_start  # not from within: a signal handler's exception could keep the lock

    def hear(self, ensemble: int) -> None:
        self._heard.hear(ensemble)

    def _only_ensemble(self, request: Request) -> int:
        try:
            return only_ensemble(self.context, request)
        except Exception:  # of a path that has no UTF-8, an ACL that is none: the operation says so itself
            return ALONE

    def _admit(self, ensemble: int, token: object) -> bool:
        """With the lock held: whether an operation may start now. Then it counts as under way.

        :param token: the operation's, for :meth:`_ended`.
        """
        line = self._line
        if line.under_way and (ensemble != line.ensemble or ensemble == ALONE or self.order.blocked):
            return False
        line.ensemble = ensemble
        line.under_way.add(token)
        return True

    def _answered(self, token: object, reply: Reply | None, answer: object) -> None:
        """Hand an answer on first: others that start now may be answered at once."""
        give(reply, answer)
        self._ended(token)

    def _ended(self, token: object) -> None:
        """An operation has ended: others may start. Called again for the same one, it changes nothing."""
        line = self._line
        with self._lock:
            line.under_way.discard(token)
            may_move = bool(line.waiting) and not line.is_moving
            if may_move:
                line.is_moving = True
            idle = self._take_idle()
        if may_move:
            self._move()
        for call in idle:
            call()

    def _move(self) -> None:
        """Start waiting operations, as far as they may."""
        while (first := self._first(token := object())) is not None:
            request, reply = first
            ending = OwnAnswer(partial(self._answered, token, reply), reply)
            if is_abandoned(reply):
                ending.set_exception(AbandonedError())
                continue
            try:
                super().call(request, ending)
            except Exception as error:  # the thread is not the one that has issued it
                log.exception("Unhandled exception in %r", request)
                ending.set_exception(error)

    def _first(self, token: object) -> tuple[Request, Reply | None] | None:
        """The next operation, which counts as under way by its token; None: nobody moves any more."""
        line = self._line
        while True:
            waiting = line.waiting
            first = waiting[0] if waiting else None
            # Now: those before may have changed it.
            ensemble = ALONE if first is None else self._only_ensemble(first[0])
            with self._lock:
                if line.waiting is not waiting or (first is None and waiting):
                    continue
                may_start = first is not None and self._admit(ensemble, token)
                if may_start:
                    waiting.popleft()
                else:
                    line.is_moving = False
            return first if may_start else None

    @property
    def is_idle(self) -> bool:
        """See :meth:`Driver.is_idle`. Nothing is under way, either."""
        return super().is_idle and not self._line.under_way and not self._line.waiting

    def fail_all(self, failure: type[Exception]) -> None:
        """See :meth:`Driver.fail_all`. What comes next waits for the answers that are still to come."""
        with self._lock:
            waiting, self._line.waiting = self._line.waiting, deque()
        self._heard.forget()
        super().fail_all(failure)
        for _, reply in waiting:
            if reply is not None:
                reply.set_exception(failure())


class _Ports(Sequence[RequestPort]):
    """In place of the members: it puts writes in front of reads that might be too old.

    :param members: others may be appended, and replace them.
    """

    def __init__(self, members: Sequence[RequestPort], heard: Heard) -> None:
        self._members = members
        self._heard = heard

    def __len__(self) -> int:
        return len(self._members)

    @overload
    def __getitem__(self, index: int) -> RequestPort: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[RequestPort]: ...
    def __getitem__(self, index: int | slice) -> RequestPort | Sequence[RequestPort]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        return _Port(index, self._members[index], self._heard)


class _Port:
    """A member's place for one request."""

    __slots__ = ("_ensemble", "_heard", "_member")

    def __init__(self, ensemble: int, member: RequestPort, heard: Heard) -> None:
        self._ensemble = ensemble
        self._member = member
        self._heard = heard

    @property
    def session_id(self) -> int:
        return self._member.session_id

    def forget_watch(self, path: str, watch: Watch | LastingWatch, of_children: bool | None = None) -> bool:
        return self._member.forget_watch(path, watch, of_children)

    def watches_on(self, path: str) -> list[Watch | LastingWatch]:
        return self._member.watches_on(path)

    def data_watches(self) -> list[tuple[str, Watch]]:
        return self._member.data_watches()

    def child_watches(self) -> list[tuple[str, Watch]]:
        return self._member.child_watches()

    def submit(self, request: WireRequest, reply: Reply | None) -> None:
        kind = request.type
        if kind == Auth.type:
            self._member.submit(request, reply)
        elif request is CATCH_UP:
            self._put(reply, reply)
        elif kind in WRITES:
            guard = Guard(self._heard.count)
            self._member.submit(request, OwnAnswer(partial(self._write_answered, guard, reply), reply))
        elif kind == Sync.type:
            self._member.submit(request, OwnAnswer(partial(self._read_answered, Guard(0), reply), reply))
        else:
            guard = self._heard.guard(self._ensemble) or self._put(None, reply)
            self._member.submit(request, OwnAnswer(partial(self._read_answered, guard, reply), reply))

    def _put(self, reply: Reply | None, asker: Reply | None) -> Guard:
        """Send a write that cannot succeed.

        :param asker: the reply to the request that needs it.
        """
        guard = Guard(self._heard.count)
        self._member.submit(CATCH_UP, OnAnswer(partial(self._caught_up, guard, reply), asker))
        self._heard.sent(self._ensemble, guard)
        return guard

    def _caught_up(self, guard: Guard, reply: Reply | None, answer: object) -> None:
        """A write that cannot succeed is answered."""
        if isinstance(answer, Exception) and not isinstance(answer, REFUSED):
            guard.is_good = False
            if not isinstance(answer, NotReadOnlyCallError):  # a server that is cut off serves what it has
                guard.error = answer
        give(reply, answer)

    def _write_answered(self, guard: Guard, reply: Reply | None, answer: object) -> None:
        """A write is answered: if it was done, reads may be behind it."""
        if not isinstance(answer, Exception):
            self._heard.sent(self._ensemble, guard)
        self._heard.hear(self._ensemble)
        give(reply, answer)

    def _read_answered(self, guard: Guard, reply: Reply | None, answer: object) -> None:
        """A read is answered, or a request that needs no guard of its own."""
        self._heard.hear(self._ensemble)
        if guard.error is not None and not isinstance(answer, Exception):
            answer = guard.error
        give(reply, answer)
