"""Every interleaving of several clients over the model, with crashes, lost connections, lag and watches.

A process is one client: the production driver, session and generators over members without sockets, and a program
that issues operations. Its state is the list of what it has received so far: replaying its client with that gives
the requests that are on their way, so states can be hashed and each is visited once.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

from kazoo.exceptions import ConnectionLoss
from kazoo.protocol.states import EventType, WatchedEvent, ZnodeStat

from parkazoo.kazoo_private import Create, Create2, Delete, GetChildren, GetChildren2, Transaction
from parkazoo.protocol.placement import MIRRORS, PIN, Placement, logical, unescape
from parkazoo.protocol.plans import PLANS
from tests.explore.client import Client, Result
from tests.explore.model import ANYONE, READS, Model, Who, difference, freeze, make_tree, must, outcome

# Requests one after the other, or a generator that yields a request, or a list to be issued at once, and is sent
# the results. A true watcher in a request is replaced by one whose calls are judged.
Program = Sequence[Any] | Callable[[], Generator[Any, Any, None]]


class Violation(AssertionError):
    pass


class Event(NamedTuple):
    """A call, with its request, or a return, with its result, in a history.

    :param ensemble: that has given all answers to an awaited operation; -1 if there are several.
    """

    is_return: bool
    process: int
    operation: int
    what: Any
    ensemble: int = -1


class _Process(NamedTuple):
    """An alive or crashed client. `inputs` and `inboxes` hold answers and events, for each ensemble in order."""

    inboxes: tuple[tuple[Any, ...], ...]
    inputs: tuple[
        tuple[int, Any], ...
    ] = ()  # (ensemble, answer or event); (-1, None): kazoo's watch thread's turn
    plain: tuple[Hashable, ...] = ()  # the inputs as values, without zxids
    called: int = 0  # operations whose call is in the history
    is_alive: bool = True


class _Position(NamedTuple):
    """Where a process is, found by replay."""

    outboxes: tuple[tuple[Any, ...], ...]  # requests without an answer, for each ensemble
    calls: tuple[Any, ...]  # the operations issued
    results: tuple[tuple[int, Any, int], ...]  # of what has ended: number, result and :attr:`Event.ensemble`
    callbacks: int  # calls that wait for the watch thread
    told: tuple[tuple[int, str], ...]  # whose watch was called, and with what
    is_watching: bool


class _Call(NamedTuple):
    """An operation as it is judged. `returned` is None if nobody knows whether it was done."""

    request: Any
    who: Who
    process: int
    number: int
    called: int
    returned: int | None = None
    result: Hashable = None
    ensemble: int = -1


class Explorer:
    """Explores one scenario.

    :param model: the state to begin with. :param programs: what each client does.
    :param judge: what a result is compared by; by default all but zxids.
    :param crashes: how many processes may stop for ever between two requests.
    :param losses: how often a connection may be lost, with or without its requests done; the client goes on.
    :param whos: the processes' sessions.
    :param observe: requests that a client makes at the end; they must fit the history too.
    :param mirrors_per_life: how often a directory may get its mirror while it lives; None for any number.
    :param longest: how many answers a process, or each, gets before it is left alone.
    :param abandoned: requests that were abandoned in the state to begin with: each may come true later.
    :param first: the processes whose requests come first, in this order; from there on all orders are tried.
    :param stopped: the processes that have crashed by then.
    :param at_end: called with each last state, before anything is observed, and whether a process crashed.
    :param most: how many states are visited before the rest is left out.
    :param judges_watches: whether what watches are told must be one ZooKeeper's.
    :param turns: before all orders are tried: a process, and how many of its operations end in its turn, with
        nobody else at work; None for all.
    :param is_in_order: judge that what a process issues at once is done in its order. Several ensembles promise
        that only as long as nobody else is at work there.
    """

    def __init__(
        self,
        placement: Placement,
        model: Model,
        specification: Model,
        programs: Sequence[Program],
        judge: Callable[[Any, Hashable], Hashable] = lambda request, result: result,
        crashes: int = 1,
        losses: int = 0,
        whos: Sequence[Who] | None = None,
        observe: Sequence[Any] = (),
        mirrors_per_life: int | None = 1,
        at_end: Callable[[Model, bool], None] = lambda model, has_crashed: None,
        longest: int | Sequence[int] = 24,
        abandoned: Sequence[Any] = (),
        first: Sequence[int] = (),
        stopped: Sequence[int] = (),
        most: int | None = None,
        judges_watches: bool = True,
        turns: Sequence[tuple[int, int | None]] = (),
        is_in_order: bool = False,
    ) -> None:
        self.placement = placement
        self.model = model
        self.specification = specification
        self.programs = programs
        self.judge = judge
        self.crashes = crashes
        self.losses = losses
        self.whos = whos or [Who(owners=(100 * index + 7,) * 5) for index in range(len(programs))]
        self.observe = observe
        self.mirrors_per_life = mirrors_per_life
        self.at_end = at_end
        self.longest = [longest] * len(programs) if isinstance(longest, int) else longest
        self.abandoned = abandoned
        self.first = first
        self.stopped = stopped
        self.most = most
        self.judges_watches = judges_watches
        self.turns = turns
        self.is_in_order = is_in_order
        self.states = 0
        self.moves = 0
        self.cut = 0
        self.ends = 0
        self._judged: set[Hashable] = set()
        self._positions: dict[Hashable, _Position] = {}

    # ---- processes -----------------------------------------------------------------------------

    def _position(self, index: int, process: _Process) -> _Position:
        key: Hashable = (index, process.plain)
        found = self._positions.get(key)
        if found is not None and found.is_watching:  # which tells lives of a directory by zxids
            key = index, _exact(process.inputs)
            found = self._positions.get(key)
        if found is None:
            found = self._positions[key] = self._replay(index, process.inputs)
        return found

    def _replay(self, index: int, inputs: Sequence[tuple[int, Any]]) -> _Position:
        client = Client(self.placement, Model(self.placement.ensembles), self.whos[index], f"p{index}-")
        run = _Run(client, self.programs[index])
        run.advance()
        for ensemble, what in inputs:
            if ensemble < 0:
                client.callbacks.popleft()()
            elif isinstance(what, WatchedEvent):
                client.members[ensemble].tell(what)
            else:
                run.heard.add(ensemble)
                client.members[ensemble].answer(*client.members[ensemble].outbox.popleft(), what)
            run.advance()
        return _Position(
            tuple(tuple(request for request, _ in member.outbox) for member in client.members),
            tuple(run.calls),
            tuple(run.ended),
            len(client.callbacks),
            tuple(run.told),
            any(getattr(request, "watcher", None) for request in run.calls),
        )

    # ---- exploration ---------------------------------------------------------------------------

    def explore(self) -> None:
        """Visit every state.

        :raises Violation: something does not hold.
        """
        stack = [self._start()]
        seen = {self._key(*stack[0])}
        while stack and self.states != self.most:
            state = stack.pop()
            self.states += 1
            is_end = True
            for move, *args in self._moves(*state):
                is_end = False
                self.moves += 1
                after = move(*state, *args)
                key = self._key(*after)
                if key not in seen:
                    seen.add(key)
                    stack.append(after)
            if is_end:
                self._end(*state)

    def walk(self, dice: random.Random) -> None:
        """One way at random.

        :raises Violation: something does not hold.
        """
        state = self._start()
        while moves := list(self._moves(*state)):
            self.states += 1
            self.moves += 1
            move, *args = dice.choice(moves)
            state = move(*state, *args)
        self._end(*state)

    def _start(self) -> Any:
        process = _Process(tuple(() for _ in range(self.placement.ensembles)))
        state: Any = self.model, tuple(process for _ in self.programs), (), self._mirrors(self.model, {})
        for index, count in self.turns:
            ended = len(self._position(index, state[1][index]).results)
            while any((position := self._position(index, state[1][index])).outboxes):
                if count is not None and len(position.results) >= ended + count:
                    break
                state = self._serve(*state, index, next(e for e, box in enumerate(position.outboxes) if box), None)
        for index in self.first:
            outboxes = self._position(index, state[1][index]).outboxes
            state = self._serve(*state, index, next(e for e, outbox in enumerate(outboxes) if outbox), None)
        for index in self.stopped:
            state = self._crash(*state, index)
        return state

    def _end(self, model: Model, processes: Any, history: Any, mirrors: Any) -> None:
        self.ends += 1
        self.at_end(model, any(not process.is_alive for process in processes))
        told = {}
        for index, process in enumerate(processes if self.judges_watches else ()):
            position = self._position(index, process)
            if process.is_alive and not any(position.outboxes):  # else it was cut, and may not know yet
                told[index] = position.told
        self._judge(model, history, told)

    def _key(self, model: Model, processes: Any, history: Any, mirrors: Any) -> Hashable:
        lives = tuple(sorted((path, is_there, times) for path, (_, is_there, times) in mirrors.items()))
        keys = tuple(self._process_key(index, process, model) for index, process in enumerate(processes))
        return model.key(), keys, _frozen(history), lives

    def _process_key(self, index: int, process: _Process, model: Model) -> Hashable:
        """Without zxids; but a watch knows the life of a directory by one, so these are numbered."""
        plain = process.plain, freeze(process.inboxes), process.is_alive
        position = self._position(index, process)
        if not position.is_watching:
            return plain
        received = (*process.inputs, *((e, what) for e, inbox in enumerate(process.inboxes) for what in inbox))
        names: dict[Any, int] = {}
        lives = [
            names.setdefault((ensemble, stat.czxid), len(names))
            for ensemble, what in received
            for stat in _stats(what)
        ]
        for request in position.calls:
            home = self.placement.home(request.path)
            znode = model.nodes[home.ensemble].get(home.path)
            lives.append(names.get((home.ensemble, znode.czxid), -1) if znode else -2)
        return plain, tuple(lives)

    def _moves(self, model: Model, processes: Any, history: Any, mirrors: Any) -> Iterator[Any]:
        """Methods and their arguments beyond the state."""
        may_crash = sum(not process.is_alive for process in processes) < self.crashes
        lost = sum(isinstance(what, ConnectionLoss) for process in processes for _, what in process.inputs)
        for index, process in enumerate(processes):
            if not process.is_alive:
                continue
            position = self._position(index, process)
            if position.callbacks:
                yield self._call_back, index
            for ensemble, inbox in enumerate(process.inboxes):
                if inbox:
                    yield self._deliver, index, ensemble
            if not any(position.outboxes):
                continue
            if len(process.inputs) >= self.longest[index]:  # two that undo each other's work could go on for ever
                self.cut += 1
                continue
            if may_crash and process.called > len(position.results):
                yield self._crash, index
            for ensemble, outbox in enumerate(position.outboxes):
                if (answered := _answered(process.inboxes[ensemble])) < len(outbox):
                    for at in model.moments(ensemble, outbox[answered], self.whos[index]):
                        yield self._serve, index, ensemble, at
                if outbox and lost < self.losses:
                    yield self._lose, index, ensemble, True
                    yield self._lose, index, ensemble, False

    def _call_back(self, model: Model, processes: Any, history: Any, mirrors: Any, index: int) -> Any:
        """kazoo's watch thread makes its next call."""
        process = _given(processes[index], -1, None)
        return self._received(model, processes, history, mirrors, index, process)

    def _crash(self, model: Model, processes: Any, history: Any, mirrors: Any, index: int) -> Any:
        return model, _with(processes, index, processes[index]._replace(is_alive=False)), history, mirrors

    def _serve(
        self, model: Model, processes: Any, history: Any, mirrors: Any, index: int, ensemble: int, at: int | None
    ) -> Any:
        """A server executes the oldest request. Its answer is read at once, where events cannot overtake it."""
        state = self._execute(model, processes, history, mirrors, index, ensemble, at)
        is_watching = self._position(index, processes[index]).is_watching
        return state if is_watching else self._deliver(*state, index, ensemble)

    def _execute(
        self, model: Model, processes: Any, history: Any, mirrors: Any, index: int, ensemble: int, at: int | None
    ) -> Any:
        process, position = processes[index], self._position(index, processes[index])
        if process.called < len(position.calls):
            history = self._called(index, process.called, position, history)
            processes = _with(processes, index, process._replace(called=len(position.calls)))
        after = model.copy()
        fired: list[tuple[Who, int, WatchedEvent]] = []
        after.on_event = lambda *event: fired.append(event)
        request = position.outboxes[ensemble][_answered(process.inboxes[ensemble])]
        answer = after.execute(ensemble, request, self.whos[index], at)
        # a lagging server answers before it tells what it hears of only then
        arrived = [(self.whos[index], ensemble, answer)] if isinstance(request, READS) else []
        arrived += fired if isinstance(request, READS) else [*fired, (self.whos[index], ensemble, answer)]
        for who, where, what in arrived:
            to = self.whos.index(who)
            inboxes = list(processes[to].inboxes)
            inboxes[where] += (what,)
            processes = _with(processes, to, processes[to]._replace(inboxes=tuple(inboxes)))
        return after, processes, history, self._mirrors(after, mirrors, history)

    def _deliver(self, model: Model, processes: Any, history: Any, mirrors: Any, index: int, ensemble: int) -> Any:
        """A client reads the oldest answer or event."""
        inboxes = list(processes[index].inboxes)
        what, *left = inboxes[ensemble]
        inboxes[ensemble] = tuple(left)
        process = _given(processes[index]._replace(inboxes=tuple(inboxes)), ensemble, what)
        return self._received(model, processes, history, mirrors, index, process)

    def _lose(
        self, model: Model, processes: Any, history: Any, mirrors: Any, index: int, ensemble: int, is_done: bool
    ) -> Any:
        """A connection is lost, with the requests on their way or their answers. Events come after it is back."""
        state: Any = model, processes, history, mirrors
        count = len(self._position(index, processes[index]).outboxes[ensemble])
        while is_done and _answered(state[1][index].inboxes[ensemble]) < count:
            state = self._execute(*state, index, ensemble, None)
        model, processes, history, mirrors = state
        process, position = processes[index], self._position(index, processes[index])
        if process.called < len(position.calls):
            history = self._called(index, process.called, position, history)
            process = process._replace(called=len(position.calls))
        inboxes = list(process.inboxes)
        inboxes[ensemble] = tuple(what for what in inboxes[ensemble] if isinstance(what, WatchedEvent))
        process = process._replace(inboxes=tuple(inboxes))
        for _ in range(count):
            process = _given(process, ensemble, ConnectionLoss())
        return self._received(model, processes, history, mirrors, index, process)

    def _received(
        self, model: Model, processes: Any, history: Any, mirrors: Any, index: int, process: _Process
    ) -> Any:
        before = len(self._position(index, processes[index]).results)
        position = self._position(index, process)
        for number, result, ensemble in position.results[before:]:
            if number >= process.called:  # it ended without a request
                history = self._called(index, process.called, position, history)
                process = process._replace(called=len(position.calls))
            if not isinstance(result, ConnectionLoss):  # else it may yet be done
                judged = self._result(position.calls[number], result)
                history = (*history, Event(True, index, number, judged, ensemble))
        return model, _with(processes, index, process), history, mirrors

    def _called(self, index: int, called: int, position: _Position, history: Any) -> Any:
        calls = enumerate(position.calls)
        return (*history, *(Event(False, index, number, call) for number, call in calls if number >= called))

    def _result(self, request: Any, result: Any) -> Hashable:
        if isinstance(request, (Create, Create2)):  # the client calls it by the user's name
            if isinstance(result, tuple):
                result = (logical(result[0]), result[1])
            elif isinstance(result, str):
                result = logical(result)
        return self.judge(request, freeze(result))

    # ---- what must hold ------------------------------------------------------------------------

    def _mirrors(self, model: Model, before: dict[str, Any], history: Any = ()) -> dict[str, Any]:
        """How often each living directory got its mirror: name -> (home's czxid, is there, times)."""
        mirrors = {}
        for ensemble, nodes in enumerate(model.nodes):
            for name in nodes[MIRRORS].children:
                directory = unescape(name)
                if self.placement.directory(directory).mirror.ensemble != ensemble:
                    raise Violation(f"the mirror of {directory} is on ensemble {ensemble}")
                home = self.placement.home(directory)
                znode = model.nodes[home.ensemble].get(home.path)
                if znode is None or PIN not in znode.children:
                    raise Violation(f"orphan: {directory} has a mirror but no home with a pin; {history}")
                mirrors[directory] = znode.czxid
        now = {}
        for directory in {*before, *mirrors}:
            home = self.placement.home(directory)
            znode = model.nodes[home.ensemble].get(home.path)
            if znode is None:
                continue
            life, was_there, times = before.get(directory, (znode.czxid, False, 0))
            if life != znode.czxid:
                was_there, times = False, 0
            is_there = directory in mirrors
            times += is_there and not was_there
            if self.mirrors_per_life is not None and times > self.mirrors_per_life:
                raise Violation(f"{directory} got {times} mirrors in one life; {history}")
            now[directory] = (znode.czxid, is_there, times)
        return now

    def _judge(self, model: Model, history: tuple[Event, ...], told: dict[int, Any]) -> None:
        """The history, and what a client sees that comes afterwards, must be one ZooKeeper's."""
        tree = make_tree(self.placement, "observer")
        model = model.copy()
        model.on_event = lambda who, ensemble, event: None
        observed = []
        for request in self.observe:
            result = outcome(model, PLANS[request.type].operation(tree, request))
            observed.append((request, self._result(request, result)))
        key = _frozen(history), tuple(result for _, result in observed), tuple(told.items())
        if key in self._judged:
            return
        self._judged.add(key)
        self._mirrors(model, {})
        if not self._is_linearizable(history, observed, told):
            shown = [*history, *(f"{process}'s watches: {events}" for process, events in told.items() if events)]
            raise Violation("not linearizable:\n" + "\n".join(map(str, [*shown, "then", *observed])))

    def _is_linearizable(
        self, history: Sequence[Event], observed: Sequence[tuple[Any, Hashable]], told: dict[int, Any]
    ) -> bool:
        calls: dict[tuple[int, int], _Call] = {}
        for time, event in enumerate(history):
            which = event.process, event.operation
            if event.is_return:
                calls[which] = calls[which]._replace(returned=time, result=event.what, ensemble=event.ensemble)
            else:
                calls[which] = _Call(event.what, self.whos[event.process], *which, time)
        pending = [*calls.values(), *(_Call(request, ANYONE, -1, -1, -1) for request in self.abandoned)]

        def may_be_next(call: _Call, left: frozenset[int]) -> bool:
            """Whether no other one comes before. A read may be of the past, but see `_binds`."""
            is_stale = self.model.has_lag and isinstance(call.request, READS)
            return not any(
                self._is_before(other, call) and (not is_stale or _binds(other, call))
                for other in (pending[i] for i in left)
            )

        def fits(specification: _Specification, left: frozenset[int], is_over: bool) -> bool:
            if not is_over and all(pending[i].returned is None for i in left) and specification.told(told):
                is_over = True
                if fits(specification, left, is_over):
                    return True
                is_over = False
            if is_over and self._sees(specification.model, observed):
                return True
            for i in left:
                call = pending[i]
                if may_be_next(call, left):
                    after, got = specification.execute(call)
                    is_right = call.returned is None or self.judge(call.request, freeze(got)) == call.result
                    if is_right and fits(after, left - {i}, is_over):
                        return True
            return False

        return fits(_Specification(self.specification), frozenset(range(len(pending))), False)

    def _is_before(self, one: _Call, other: _Call) -> bool:
        if one.returned is None:
            return False
        is_issued_before = one.process == other.process and one.number < other.number
        return one.returned < other.called or (self.is_in_order and is_issued_before)

    def _sees(self, specification: Model, observed: Sequence[tuple[Any, Hashable]]) -> bool:
        return all(
            self.judge(request, freeze(specification.execute(0, request))) == result
            for request, result in observed
        )


def _binds(own: _Call, read: _Call) -> bool:
    """Whether a read that may be of the past must not be of before an operation.

    It must not if that is the session's own, and a create or delete of the same znode or of one above or below it,
    or if one and the same ensemble has given all answers to both.
    """
    if own.process != read.process:
        return False
    if own.ensemble == read.ensemble >= 0:
        return True
    changes = own.request.operations if isinstance(own.request, Transaction) else [own.request]
    return any(
        is_related(change.path, read.request.path)
        for change in changes
        if isinstance(change, (Create, Create2, Delete))
    )


def is_related(one: str, other: str) -> bool:
    """Whether one path is the other, or above it."""
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


class _Run:
    """A program at work on a client."""

    def __init__(self, client: Client, program: Program) -> None:
        self.client = client
        self.calls: list[Any] = []
        self.ended: list[tuple[int, Any, int]] = []
        self.heard: set[int] = set()  # the ensembles that have answered since an operation was issued alone
        self.told: list[tuple[int, str]] = []
        self._program = program() if callable(program) else _one_by_one(program)
        self._results: list[Result] = []
        self._awaited: list[Result] = []
        self._is_many = False

    def advance(self) -> None:
        """Issue what the program wants to, after what it waits for."""
        self._note()
        while all(result.told for result in self._awaited):
            values = [result.value for result in self._awaited]
            try:
                if not self.calls:
                    request = next(self._program)
                else:
                    request = self._program.send(values if self._is_many else values[0])
            except StopIteration:
                return
            self._is_many = isinstance(request, list)
            self.heard.clear()
            self._awaited = [self._issue(each) for each in (request if self._is_many else [request])]
            self._note()

    def _issue(self, request: Any) -> Result:
        number = len(self.calls)
        self.calls.append(request)
        if getattr(request, "watcher", None):
            request = request._replace(watcher=lambda event: self.told.append((number, event.type)))
        self._results.append(self.client.call(request))
        return self._results[-1]

    def _note(self) -> None:
        known = {number for number, *_ in self.ended}
        for number, result in enumerate(self._results):
            if result.told and number not in known:
                ensemble = next(iter(self.heard)) if len(self.heard) == 1 and not self._is_many else -1
                self.ended.append((number, result.value, ensemble))


def _one_by_one(requests: Sequence[Any]) -> Generator[Any, Any, None]:
    for request in requests:  # noqa: UP028 - a list cannot be sent the results
        yield request


class _Specification:
    """One ZooKeeper, and what the watches left there have to tell."""

    def __init__(
        self, model: Model, events: dict[tuple[int, int, str, str], tuple[str, ...]] | None = None
    ) -> None:
        self.model = model
        # (process, operation, "data" or "child", path, whether the call succeeded) -> what happened since
        self._events = events or {}

    def execute(self, call: _Call) -> tuple[_Specification, Any]:
        model, events = self.model.copy(), dict(self._events)
        before, after = self.model.nodes[0], model.nodes[0]
        got = model.execute(0, call.request, call.who)
        for key, seen in events.items():
            event = difference(key[2], before.get(key[3]), after.get(key[3]))
            if event is not None:
                events[key] = (*seen, event)
        if getattr(call.request, "watcher", None) and not isinstance(got, Exception):
            kind = "child" if isinstance(call.request, (GetChildren, GetChildren2)) else "data"
            events[call.process, call.number, kind, call.request.path, call.returned is not None] = ()
        return _Specification(model, events), got

    def told(self, told: dict[int, Any]) -> bool:
        """Each watch was told once if anything happened, the first thing that did, or that all is over.

        After a lost connection nobody knows whether there is a watch.
        """
        for (process, number, _, _, is_sure), events in self._events.items():
            seen = [event for of, event in told.get(process, ()) if of == number]
            if len(seen) > min(1, len(events)) or (process in told and is_sure and events and not seen):
                return False
            if seen and not (seen[0] == events[0] or (seen[0] == EventType.DELETED and seen[0] in events)):
                return False
        watches = {(process, number) for process, number, *_ in self._events}
        return all((process, number) in watches for process, events in told.items() for number, _ in events)


def _with(processes: tuple[Any, ...], index: int, process: Any) -> tuple[Any, ...]:
    return (*processes[:index], process, *processes[index + 1 :])


def _given(process: _Process, ensemble: int, what: Any) -> _Process:
    plain = (*process.plain, (ensemble, freeze(what)))
    return process._replace(inputs=(*process.inputs, (ensemble, what)), plain=plain)


def _answered(inbox: Sequence[Any]) -> int:
    return sum(not isinstance(what, WatchedEvent) for what in inbox)


def _stats(answer: Any) -> Iterator[ZnodeStat]:
    if isinstance(answer, ZnodeStat):
        yield answer
    elif isinstance(answer, (list, tuple)):
        for each in answer:
            yield from _stats(each)


def _exact(answer: Any) -> Hashable:
    """As a value, zxids included."""
    if isinstance(answer, Exception):
        return type(answer).__name__
    if isinstance(answer, (list, tuple)):
        return tuple(_exact(each) for each in answer)
    return answer  # type: ignore[no-any-return]


def _frozen(history: Sequence[Event]) -> Hashable:
    return tuple(event if event.is_return else event[:3] for event in history)


def issue(placement: Placement, model: Model, *requests: Any, steps: int | None = None) -> None:
    """Bring a model into a state by requests, run alone; the last one is abandoned after `steps` requests."""
    tree = make_tree(placement, "before")
    for request in requests[: None if steps is None else -1]:
        operation = PLANS[request.type].operation(tree, request)
        must(outcome(model, operation))
    if steps is not None:
        operation = PLANS[requests[-1].type].operation(tree, requests[-1])
        answers: Any = None
        for _ in range(steps):
            answers = [model.execute(ensemble, request) for ensemble, request in operation.send(answers)]
        operation.close()
