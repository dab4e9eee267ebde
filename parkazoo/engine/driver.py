"""Runs the protocol's generators over the members, in the order that one client promises.

The thread that brings an answer, as a rule the loop's, advances the generator. So nothing here may block: members
only queue requests. The lock is held for bookkeeping alone, never across a send.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial

from parkazoo.engine.gather import Gather, Slot
from parkazoo.engine.placed_call import PlacedCall
from parkazoo.engine.ports import AbandonedError, BodyReply, OwnAnswer, Reply, RequestPort, give, is_abandoned
from parkazoo.engine.read_reply import ReadReply
from parkazoo.engine.serial import Serial
from parkazoo.kazoo_private import Exists, Sync, Transaction
from parkazoo.protocol.chain import ChainedBatch
from parkazoo.protocol.context import Context
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.hold import Hold
from parkazoo.protocol.holdings import leaves_watch
from parkazoo.protocol.ops.brief import Brief, beginning, first_of, known_first
from parkazoo.protocol.ops.watched import look
from parkazoo.protocol.order import Claims, Order, Turn, with_prefixes
from parkazoo.protocol.placement import shown
from parkazoo.protocol.plans import BRIEF, OTHER, PLANS, Plan
from parkazoo.protocol.reserved import refusal
from parkazoo.protocol.steps import Operation, Request, Step
from parkazoo.protocol.subject import renamed
from parkazoo.protocol.watches import DirectoryWatch

SEVERAL = (Transaction.type, ChainedBatch.type)  # have no path of their own
PATHS_NAMED = 5  # paths in an error


class _Run(Turn):
    """An operation on its way. It is the reply to its own step if it has sent a single request.

    :ivar has_begun: something was sent for it, or may have been.
    """

    __slots__ = ("_context", "_driver", "_generator", "_plan", "_reply", "has_begun", "order", "request")

    def __init__(
        self,
        driver: Driver,
        plan: Plan,
        request: object,
        reply: Reply | None,
        operation: Operation[object] | None = None,
        order: Order[_Run] | None = None,
    ) -> None:
        self.claims = {}  # as in Turn, which is not asked: each operation makes one of these
        self.blocked = 0
        self._driver = driver
        self.order = driver.order if order is None else order
        self._context = driver.context
        self._plan = plan
        self.request = request
        self._reply = reply
        self.has_begun = False
        self._generator: Operation[object] = operation or plan.operation(driver.context, request)

    @property
    def asker(self) -> Reply | None:
        """The reply to the operation."""
        return self._reply

    @property
    def hold(self) -> Hold | None:
        """That may keep it."""
        return self._context.hold

    @property
    def is_abandoned(self) -> bool:
        """See :func:`is_abandoned`."""
        return not self.has_begun and is_abandoned(self._reply)

    def go_on(self, *answers: object) -> None:
        """After a hold, or in spite of it."""
        if self.is_abandoned:
            self.fail(AbandonedError())
        else:
            self.advance([*answers])

    def start(self) -> None:
        """Start after others, and give up the claims that do not outlast the first request.

        One of an older form keeps them, so that it is known when it has ended.
        """
        if self.is_abandoned:
            self.fail(AbandonedError())
            return
        is_older = self.order is not self._driver.order
        lasting = self._plan.lasting(self._context, self.request) if self.claims and not is_older else None
        self.advance(None)
        if lasting is not None and self.claims:
            self._driver.leave(self, with_prefixes(lasting))

    def set(self, value: object = None) -> None:
        self.has_begun = True
        self.advance([value])

    def set_exception(self, exception: Exception) -> None:
        if isinstance(exception, AbandonedError):
            self.fail(exception)
            return
        self.has_begun = True
        self.advance([exception])

    def advance(self, answers: list[object] | None) -> None:
        """Give the generator the answers to its last steps, None to begin, and send its next ones."""
        try:
            steps = self._generator.send(answers)  # type: ignore[arg-type]  # None begins it
        except StopIteration as stop:
            if self._reply is not None:
                self._reply.set(stop.value)
            if self.claims:
                self._end()
        except Exception as error:
            if self._reply is not None:
                self._reply.set_exception(self._driver.told(error, self.request))
            if self.claims:
                self._end()
        else:
            driver = self._driver
            if len(steps) == 1 and self.order.failure is None:
                ensemble, request = steps[0]
                driver.members[ensemble].submit(request, self)
            else:
                driver.send(steps, self)

    def fail(self, error: Exception) -> None:
        """End it before its end."""
        self._generator.close()
        if self._reply is not None:
            self._reply.set_exception(error)
        if self.claims:
            self._end()

    def _end(self) -> None:
        """After the reply: operations that have waited for this one get their answers later."""
        self._driver.leave(self, {})


class Driver:
    """The operations of one client over its members, which are indexed as in the placement.

    :param make_lock: :meth:`Runtime.make_lock`.
    :param unchroot: the user's name for a path.
    :ivar on_miss: called when a watch is not left.
    :ivar order: of the operations that begin now. Its lines are others after :meth:`fail_all`.
    """

    on_miss: Callable[[], None] = staticmethod(lambda: None)

    def __init__(
        self,
        context: Context,
        members: Sequence[RequestPort],
        make_lock: Callable[[], AbstractContextManager[object]],
        unchroot: Callable[[str], str] = str,
    ) -> None:
        self.unchroot = unchroot
        self.context = context
        self.members = members
        self.order: Order[_Run] = Order()
        self._older: Order[_Run] = self.order  # of operations that began by the form before
        self._make_lock = make_lock
        self._lock = make_lock()
        self._serial = Serial(make_lock())
        self._when_idle: list[Callable[[], None]] = []

    # ---- forms of the map ------------------------------------------------------------------------

    def begin_form(self, context: Context) -> None:
        """From now on operations begin by a newer form of the map; the others go on as they began.

        Both have one order, as operations of one client have. No thread may be about to begin an operation.
        """
        if self.context.form is not Form.PLAIN:
            context.places.inherit(self.context.places)
        with self._lock:
            self._older, self.order = self.order, self.order.successor()
            self.context = context

    @property
    def is_still(self) -> bool:
        """Whether no thread of the driver's own is about to begin an operation."""
        return True

    @property
    def has_older(self) -> bool:
        """Whether anything from before :meth:`begin_form` may send yet."""
        return self._older.failure is None and self._is_older_under_way

    @property
    def is_failing_older(self) -> bool:
        """Whether something has yet to end that :meth:`fail_older` has failed."""
        return self._older.failure is not None and self._is_older_under_way

    @property
    def _is_older_under_way(self) -> bool:
        return self._older is not self.order and self._older.under_way > 0

    def fail_older(self, failure: type[Exception]) -> None:
        """Such operations end with `failure`, when they get the answer or the turn for which they wait."""
        if self._older is not self.order:
            self._older.failure = failure
            if (hold := self.context.hold) is not None:
                for held in hold.take(lambda each: each.order is self._older):
                    held.fail(failure())

    # ---- operations ------------------------------------------------------------------------------

    def call(self, request: Request, reply: Reply | None) -> None:
        """Issue an operation, after all earlier ones of this thread. `reply` gets its result or error."""
        if (error := refusal(request)) is not None:
            if reply is not None:
                if isinstance(request, Exists):
                    reply.set(None)
                elif isinstance(request, Sync):  # as for any path that is not there
                    reply.set(request.path)
                else:
                    reply.set_exception(error)
            return
        if request.type not in BRIEF:
            self._call_in_turn(request, reply)
            return
        context = self.context
        brief: Brief = request  # type: ignore[assignment]  # BRIEF has the types of these
        try:
            first = first_of(context, brief)
        except ValueError as no_place:  # a path that has no UTF-8
            if reply is not None:
                reply.set_exception(no_place)
            return
        d, physical, mode, _, _ = first
        with self._lock:
            order = self.order
            may_start = context is self.context and order.claim_node(d.path, mode)  # a thread may have been held
        if not may_start:
            self._call_in_turn(request, reply)
            return
        answer = ReadReply(self, order, context, brief, reply, first)
        if physical is None:
            self.run_brief(beginning(context, brief), request, answer, order, mode)
        else:
            self.members[d.home.ensemble].submit(physical, answer)

    def call_placed(self, kind: int, path: str, rest: bytes, reply: BodyReply) -> bool:
        """Issue a get, exists or set without a watch as bytes, if it may start at once where its place is known.

        It comes after all earlier operations of this thread, as with :meth:`call`. `reply` gets the bytes of the
        answer, or a result or error as from :meth:`call`.

        :param kind: the type of the request. :param path: normalised, and not reserved.
        :param rest: the bytes of the request behind its path.
        :returns: False: nothing was done; :meth:`call` does it.
        """
        context = self.context
        first = known_first(context, kind, path)
        if first is None:
            return False
        d, mode = first
        with self._lock:
            order = self.order
            may_start = context is self.context and order.claim_node(d.path, mode)  # a thread may have been held
        if may_start:
            call = PlacedCall(self, order, context, kind, path, rest, d, mode, reply)
            self.members[d.home.ensemble].submit(call, call)
        return may_start

    def _call_in_turn(self, request: Request, reply: Reply | None) -> None:
        plan = PLANS.get(request.type, OTHER)
        try:
            run = _Run(self, plan, request, reply)
            lasting = plan.lasting(self.context, request)
            if lasting:
                lasting = with_prefixes(lasting)
        except Exception as error:  # a path that has no UTF-8, an ACL that is none
            if reply is not None:
                reply.set_exception(error)
            return
        # Not above: an exception of a signal handler must reach the caller if something may be claimed.
        may_start = (
            lasting and request.type not in SEVERAL and self._claim_trust(run, request.path, lasting)  # type: ignore[attr-defined]  # what lasts is of it
        )
        if not may_start and (lasting is None or lasting or self.order):
            try:
                run.claims = dict(with_prefixes(plan.claims(self.context, request)))
            except Exception as error:  # a path of a transaction
                if reply is not None:
                    reply.set_exception(error)
                return
            if lasting is None:
                lasting = run.claims
            with self._lock:
                if run.claims and run.order.lines is self.order.lines and not run.order.enter(run, lasting):
                    return
        run.advance(None)

    def _claim_trust(self, run: _Run, path: str, lasting: Claims) -> bool:
        """Whether the operation may start at once, with no other claim than TRUST."""
        with self._lock:
            may_start = run.order.lines is self.order.lines and run.order.claim_trust(run, path, lasting)
        return may_start  # noqa: RET504 - from within, a signal handler's exception could keep the lock

    def release_node(self, path: str, order: Order[_Run], mode: int) -> None:
        """Give up what :meth:`Order.claim_node` has claimed."""
        with self._lock:
            if order.lines is not self.order.lines:  # what waited there has failed
                return
            ready = order.release_node(path, mode)
            idle = self._take_idle() if self._when_idle else []
        if ready or idle:
            self._serial(*(run.start for run in ready), *idle)

    def run_brief(
        self, operation: Operation[object], request: object, reply: Reply, order: Order[_Run], mode: int
    ) -> None:
        """Run a get or set, or the rest of one, that has claimed what it needs, or needs nothing."""
        if mode:
            _Run(self, OTHER, request, reply, operation, order).advance(None)
        else:
            self.run(operation, reply, request, order)

    def run(
        self,
        operation: Operation[object],
        reply: Reply,
        request: object = None,
        order: Order[_Run] | None = None,
    ) -> None:
        """Run a generator, without a claim.

        :param request: what errors are about. :param order: of what it belongs to; None: it begins now.
        """
        with self._lock:
            order = self.order if order is None else order
            order.hold()
        self._run_held(operation, reply, request, order)

    def look(self, watch: DirectoryWatch, reply: Reply) -> None:
        """Look again. `reply` gets the type of the event to fire, or None to watch on."""
        with self._lock:
            order, context = self.order, self.context
            order.hold()
        self._run_held(look(context, watch), reply, watch, order)  # in place of a request: it is to be left again

    def _run_held(self, operation: Operation[object], reply: Reply, request: object, order: Order[_Run]) -> None:
        ending = OwnAnswer(partial(self._let_go, order, reply), reply)
        _Run(self, OTHER, request, ending, operation, order).advance(None)

    def _let_go(self, order: Order[_Run], reply: Reply, answer: object) -> None:
        """End what ran without a claim, and then hand its answer on: it is not under way any more."""
        with self._lock:
            order.let_go()
        give(reply, answer)

    def told(self, error: Exception, request: object) -> Exception:
        """An error as the user hears it: about the paths of the request, whichever znode a step was about."""
        asked = self._named(request)
        return renamed(error, asked) if asked else error

    def _named(self, request: object) -> str:
        """The user's paths in a request; some of them if there are many."""
        operations: Sequence[object] = getattr(request, "operations", (request,))
        paths = [*dict.fromkeys(each.path for each in operations if hasattr(each, "path"))]
        more = [f"{len(paths) - PATHS_NAMED} more"] if len(paths) > PATHS_NAMED else []
        return ", ".join([*(shown(self.unchroot(path)) for path in paths[:PATHS_NAMED]), *more])

    def send(self, steps: tuple[Step, ...], run: _Run) -> None:
        """Send several steps; or none: the operation is held."""
        if run.order.failure is not None:
            if leaves_watch(run.request):
                self.on_miss()
            run.fail(run.order.failure())
            return
        if not steps:
            if run.hold is None or not run.hold.keep(run):
                run.advance([])
            return
        gather = Gather(steps, self._lock, run)
        for index, (ensemble, request) in enumerate(steps):
            self.members[ensemble].submit(request, Slot(gather, index))

    def leave(self, run: _Run, lasting: Claims) -> None:
        with self._lock:
            if run.order.lines is not self.order.lines:  # it has failed
                return
            ready = run.order.leave(run, lasting)
            idle = self._take_idle()
        if ready or idle:
            self._serial(*(run.start for run in ready), *idle)

    def _take_idle(self) -> list[Callable[[], None]]:
        """With the lock held: the calls that have waited for this moment."""
        if not self._when_idle or not self.is_idle:
            return []
        idle, self._when_idle = self._when_idle, []
        return idle

    def fail_all(self, failure: type[Exception]) -> None:
        """End every operation that waits for others or needs another request, with `failure`, at once.

        The members fail operations that wait for an answer.
        """
        with self._lock:
            waiting = self.order.waiting()
            self.order.failure = self._older.failure = failure
            self.order = self._older = Order()
            self._serial = Serial(self._make_lock())
            idle, self._when_idle = self._when_idle, []
        hold = self.context.hold
        for run in (*waiting, *(hold.take() if hold is not None else ())):
            run.fail(failure())
        for call in idle:
            call()

    def fail_held(self, error: Exception) -> None:
        """End the operations that wait for the end of a move. No member takes requests any more."""
        if (hold := self.context.hold) is not None:
            hold.end(error)

    @property
    def is_idle(self) -> bool:
        """Whether no operation waits or needs another request."""
        return not self.order

    def when_idle(self, call: Callable[[], None]) -> None:
        """Make `call` once no operation waits or needs another request."""
        with self._lock:
            if not self.is_idle:
                self._when_idle.append(call)
                return
        call()

    def hear(self, ensemble: int) -> None:
        """An event has come from there; its watches have not been called yet."""
