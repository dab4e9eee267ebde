"""Every interleaving of several generators over the model, with a crash at every step.

A process is a list of operations of one client. Its state is the list of answers that it has received so far:
replaying its generators with them gives the next request, so states can be hashed and each is visited once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

from kazoo.exceptions import KazooException

from parkazoo.kazoo_private import Create, Create2
from parkazoo.protocol.operations import PLANS
from parkazoo.protocol.placement import MIRRORS, PIN, Placement, unescape
from parkazoo.protocol.steps import Step
from tests.protocol.model import ANYONE, Model, Who, freeze, make_tree, must, outcome


class Violation(AssertionError):
    pass


class Event(NamedTuple):
    """A call or a return in a history."""

    is_return: bool
    process: int
    operation: int
    result: Hashable = None


class _Process(NamedTuple):
    answers: tuple[Any, ...] = ()  # lists of answers that the generators have been sent
    partial: tuple[Any, ...] = ()  # to the steps that were yielded together last
    is_alive: bool = True

    def key(self) -> Hashable:
        return freeze(self.answers), freeze(self.partial), self.is_alive


class _Position(NamedTuple):
    """Where a process is, found by replay."""

    operation: int  # index of the running one
    is_fresh: bool  # it has sent nothing yet
    steps: tuple[Step, ...]  # the next requests; empty if the process has ended
    results: tuple[Any, ...]  # of the operations that have ended


class Explorer:
    """Explores one scenario.

    :param model: the state to begin with. :param programs: each process's requests, in order.
    :param judge: what a result is compared by; by default all but zxids.
    :param crashes: how many processes may stop for ever between two requests.
    :param whos: the processes' sessions.
    :param observe: requests that a client makes at the end; they must fit the history too.
    :param mirrors_per_life: how often a directory may get its mirror while it lives; None for any number.
    :param longest: how many answers a process, or each, gets before it is left alone.
    :param abandoned: requests that were abandoned in the state to begin with: each may come true later.
    :param first: the processes whose requests come first, in this order; from there on all orders are tried.
    :param stopped: the processes that have crashed by then.
    :param at_end: called with each last state, before anything is observed, and whether a process crashed.
    """

    def __init__(
        self,
        placement: Placement,
        model: Model,
        specification: Model,
        programs: Sequence[Sequence[Any]],
        judge: Callable[[Any, Hashable], Hashable] = lambda request, result: result,
        crashes: int = 1,
        whos: Sequence[Who] | None = None,
        observe: Sequence[Any] = (),
        mirrors_per_life: int | None = 1,
        at_end: Callable[[Model, bool], None] = lambda model, has_crashed: None,
        longest: int | Sequence[int] = 24,
        abandoned: Sequence[Any] = (),
        first: Sequence[int] = (),
        stopped: Sequence[int] = (),
    ) -> None:
        self.placement = placement
        self.model = model
        self.specification = specification
        self.programs = programs
        self.judge = judge
        self.crashes = crashes
        self.whos = whos or [Who(owners=(100 * index + 7,) * 5) for index in range(len(programs))]
        self.observe = observe
        self.mirrors_per_life = mirrors_per_life
        self.at_end = at_end
        self.longest = [longest] * len(programs) if isinstance(longest, int) else longest
        self.abandoned = abandoned
        self.first = first
        self.stopped = stopped
        self.states = 0
        self.cut = 0
        self.ends = 0
        self._judged: set[Hashable] = set()
        self._positions: dict[Hashable, _Position] = {}

    # ---- processes -----------------------------------------------------------------------------

    def _position(self, index: int, process: _Process) -> _Position:
        key = index, freeze(process.answers)
        found = self._positions.get(key)
        if found is None:
            found = self._positions[key] = self._replay(index, process.answers)
        return found

    def _replay(self, index: int, answers: Sequence[Any]) -> _Position:
        tree = make_tree(self.placement, f"p{index}-", self.whos[index])
        results: list[Any] = []
        at = 0
        for number, request in enumerate(self.programs[index]):
            operation = PLANS[request.type].operation(tree, request)
            is_fresh = True
            try:
                steps = next(operation)
                while at < len(answers):
                    is_fresh = False
                    at += 1
                    steps = operation.send(list(answers[at - 1]))
                return _Position(number, is_fresh, steps, tuple(results))
            except StopIteration as stop:
                results.append(stop.value)
            except KazooException as error:
                results.append(error)
        return _Position(len(results), False, (), tuple(results))

    # ---- exploration ---------------------------------------------------------------------------

    def explore(self) -> None:
        start: Any = self.model, tuple(_Process() for _ in self.programs), (), self._mirrors(self.model, {})
        for index in self.first:
            start = self._move(*start, index, self._position(index, start[1][index]), False)
        for index in self.stopped:
            start = start[0], _with(start[1], index, start[1][index]._replace(is_alive=False)), *start[2:]
        stack = [start]
        seen = {self._key(*start)}
        while stack:
            model, processes, history, mirrors = stack.pop()
            self.states += 1
            is_end = True
            for after in self._moves(model, processes, history, mirrors):
                is_end = False
                key = self._key(*after)
                if key not in seen:
                    seen.add(key)
                    stack.append(after)
            if is_end:
                self.ends += 1
                self.at_end(model, any(not process.is_alive for process in processes))
                self._judge(model, history)

    def _key(self, model: Model, processes: Any, history: Any, mirrors: Any) -> Hashable:
        lives = tuple(sorted((path, is_there, times) for path, (_, is_there, times) in mirrors.items()))
        return model.key(), tuple(process.key() for process in processes), history, lives

    def _moves(self, model: Model, processes: Any, history: Any, mirrors: Any) -> Iterator[Any]:
        may_crash = sum(not process.is_alive for process in processes) < self.crashes
        for index, process in enumerate(processes):
            position = self._position(index, process)
            if not process.is_alive or not position.steps:
                continue
            if len(process.answers) >= self.longest[index]:  # two that undo each other's work could go on for ever
                self.cut += 1
                continue
            if may_crash and not (position.is_fresh and not process.partial):
                yield model, _with(processes, index, process._replace(is_alive=False)), history, mirrors
            for is_lagging in (False, True) if model.has_lag else (False,):
                yield self._move(model, processes, history, mirrors, index, position, is_lagging)

    def _move(
        self,
        model: Model,
        processes: Any,
        history: Any,
        mirrors: Any,
        index: int,
        position: _Position,
        is_lagging: bool,
    ) -> Any:
        process = processes[index]
        ensemble, request = position.steps[len(process.partial)]
        after = model.copy()
        answer = after.execute(ensemble, request, self.whos[index], is_lagging)
        if position.is_fresh and not process.partial:
            history = (*history, Event(False, index, position.operation))
        mirrors = self._mirrors(after, mirrors, history)
        partial = (*process.partial, answer)
        if len(partial) < len(position.steps):
            process = process._replace(partial=partial)
        else:
            process = _Process((*process.answers, partial))
            for number in range(position.operation, len(self._position(index, process).results)):
                if number > position.operation:  # it ended without a request
                    history = (*history, Event(False, index, number))
                result = self._position(index, process).results[number]
                history = (*history, self._returned(index, number, result))
        return after, _with(processes, index, process), history, mirrors

    def _returned(self, index: int, number: int, result: Any) -> Event:
        return Event(True, index, number, self._result(self.programs[index][number], result))

    def _result(self, request: Any, result: Any) -> Hashable:
        if isinstance(request, (Create, Create2)):  # the client calls it by the user's name
            if isinstance(result, tuple):
                result = (Placement.logical(result[0]), result[1])
            elif isinstance(result, str):
                result = Placement.logical(result)
        return self.judge(request, freeze(result))

    # ---- what must hold ------------------------------------------------------------------------

    def _mirrors(self, model: Model, before: dict[str, Any], history: Any = ()) -> dict[str, Any]:
        """How often each living directory got its mirror: name -> (home's czxid, is there, times)."""
        mirrors = {}
        for ensemble, nodes in enumerate(model.nodes):
            for name in nodes[MIRRORS].children:
                directory = unescape(name)
                if self.placement.children(directory).ensemble != ensemble:
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

    def _judge(self, model: Model, history: tuple[Event, ...]) -> None:
        """The history, and what a client sees that comes afterwards, must be one ZooKeeper's."""
        tree = make_tree(self.placement, "observer")
        model = model.copy()
        observed = []
        for request in self.observe:
            result = outcome(model, PLANS[request.type].operation(tree, request))
            observed.append((request, self._result(request, result)))
        key = history, tuple(result for _, result in observed)
        if key in self._judged:
            return
        self._judged.add(key)
        self._mirrors(model, {})
        if not self._is_linearizable(history, observed):
            shown = [(self.programs[e.process][e.operation], e) for e in history]
            raise Violation("not linearizable:\n" + "\n".join(map(str, [*shown, "then", *observed])))

    def _is_linearizable(self, history: Sequence[Event], observed: Sequence[tuple[Any, Hashable]]) -> bool:
        calls: dict[tuple[int, int], list[Any]] = {}
        for time, event in enumerate(history):
            which = event.process, event.operation
            if event.is_return:
                calls[which][1:3] = [event.result, time]
            else:
                request = self.programs[event.process][event.operation]
                calls[which] = [request, None, None, time, self.whos[event.process]]
        pending = [*calls.values(), *([request, None, None, -1, ANYONE] for request in self.abandoned)]

        def fits(specification: Model, left: frozenset[int]) -> bool:
            returns = [pending[i][2] for i in left if pending[i][2] is not None]
            if not returns and self._sees(specification, observed):
                return True
            for i in left:
                request, result, returned, called, who = pending[i]
                if returns and called > min(returns):
                    continue
                after = specification.copy()
                got = self.judge(request, freeze(after.execute(0, request, who)))
                if (returned is None or got == result) and fits(after, left - {i}):
                    return True
            return False

        return fits(self.specification, frozenset(range(len(pending))))

    def _sees(self, specification: Model, observed: Sequence[tuple[Any, Hashable]]) -> bool:
        return all(
            self.judge(request, freeze(specification.execute(0, request))) == result
            for request, result in observed
        )


def _with(processes: tuple[Any, ...], index: int, process: Any) -> tuple[Any, ...]:
    return (*processes[:index], process, *processes[index + 1 :])


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
