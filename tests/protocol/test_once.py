"""A write that is done once: each of its requests is lost in turn, before or behind its execution; or is late."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from itertools import count, product
from typing import Any, NamedTuple
from unittest import mock

from kazoo.exceptions import BadVersionError, ConnectionLoss, NodeExistsError, SessionExpiredError
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.engine.ports import Reply
from parkazoo.errors import AnswerLostError, RequestTooLargeError
from parkazoo.kazoo_private import CheckVersion, Delete, GetData, SetData, Transaction
from parkazoo.protocol.context import Context
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.holdings import Holdings
from parkazoo.protocol.once import MAY_BE_DONE, Marker, Once, SentTransaction, _find_results, may_be_done
from parkazoo.protocol.placement import MARKER, ROOT, Placement
from parkazoo.protocol.plans import PLANS
from parkazoo.protocol.steps import Operation
from parkazoo.recipe.exactly_once import ExactlyOnce
from tests.explore.alone import find_directory, make_context, make_grown, must, outcome, prepared
from tests.explore.directories import create
from tests.explore.scenario import Knows
from tests.explore.znodes import EPHEMERAL, SEQUENCE, Answer, Request
from tests.fakes.result import Result
from tests.where_is import where_is

PLACEMENT = Placement(2)
D, NEW = find_directory(PLACEMENT, False), find_directory(PLACEMENT, False, name="n")
BEFORE, AFTER, LATE = "before", "after", "late"  # a request is lost, or its answer is, or it comes afterwards
OF_MARKERS = f"{ROOT}/{MARKER}"


WRITES: dict[str, Sequence[Request]] = {
    "a create": [create(f"{D}/made")],
    "a create with a number": [create(f"{D}/made-", SEQUENCE)],
    "an ephemeral": [create(f"{D}/made", EPHEMERAL)],
    "a first child": [create(f"{NEW}/made")],
    "a first child with a number": [create(f"{NEW}/made-", SEQUENCE)],
    "a set": [SetData(f"{D}/x", b"new", -1)],
    "a set of a version": [SetData(f"{D}/x", b"new", 0)],
    "a set of a directory": [SetData(D, b"new", 0)],
    "a delete": [Delete(f"{D}/x", 0)],
    "a delete of a directory": [Delete(NEW, -1)],
    "several": [create(f"{D}/made-", SEQUENCE), create(f"{D}/made-", SEQUENCE), SetData(f"{D}/x", b"new", 0)],
    "a check that fails": [CheckVersion(f"{D}/x", 5), create(f"{D}/made")],
}


class Loss(NamedTuple):
    """The connection is lost at a request of one try."""

    at: int
    how: str


class Client:
    """One client of a model, whose write is tried until it has an answer."""

    def __init__(self, form: Form) -> None:
        self.model = prepared(PLACEMENT, [D, NEW])
        context = make_context(PLACEMENT)
        for request in (create(D), create(NEW), create(f"{D}/x"), create(f"{D}/made-", SEQUENCE)):
            must(outcome(self.model, PLANS[request.type].operation(context, request)))
        if form is Form.GROWN:
            knows = Knows(form=form, guess=PLACEMENT.of_children)
            self.context: Context = make_grown(context, PLACEMENT, knows)
            self.plans = PLANS
        else:
            self.context, self.plans = context, PLANS
        self.late: list[tuple[int, Request]] = []
        self.tries = 0

    def write(self, operations: Sequence[Request], losses: Sequence[Loss] = ()) -> Any:
        """The results, or the error that is not ConnectionLoss."""
        request = Once(operations, Marker(1, OPEN_ACL_UNSAFE))
        left = iter(losses)
        while True:
            self.tries += 1
            try:
                return self.run(self.plans[Once.type].operation(self.context, request), next(left, None))
            except ConnectionLoss:
                continue

    def run(self, operation: Operation[Any], loss: Loss | None) -> Any:
        """What comes late is executed behind the first request of the next try."""
        answers: Any = None
        number = count()
        while True:
            try:
                steps = operation.send(answers)
            except StopIteration as stop:
                return stop.value
            answers = []
            for step in steps:
                is_lost = loss is not None and next(number) >= loss.at
                if loss is not None and is_lost and loss.how == LATE:
                    self.late.append(step)
                if loss is None or not is_lost or loss.how == AFTER:
                    answer = self.model.execute(*step)
                    for late in self.late if not is_lost else ():
                        self.model.execute(*late)
                    self.late = self.late if is_lost else []
                answers.append(ConnectionLoss() if is_lost else answer)

    def tree(self) -> list[dict[str, tuple[bytes | None, int, bool]]]:
        """What is there, but markers."""
        return [
            {
                path: (each.data, each.version, bool(each.owner))
                for path, each in nodes.items()
                if not is_ours(path)
            }
            for nodes in self.model.nodes
        ]


def is_ours(path: str) -> bool:
    """Marks of the protocol have names of their own each time."""
    return path.startswith(OF_MARKERS) or ("/fences" in path) or ("/done" in path) or "mark" in path


def plain(results: Any) -> Any:
    """Without zxids."""
    return [each.version if hasattr(each, "version") else str(each) + type(each).__name__ for each in results]


def losses(tries: int) -> Iterator[tuple[Loss, ...]]:
    for ways in product(product(range(12), (BEFORE, AFTER, LATE)), repeat=tries):
        yield tuple(Loss(*way) for way in ways)


def differences(form: Form, tries: int, names: Sequence[str] = tuple(WRITES)) -> Iterator[str]:
    """Where a write did something else than one that was not disturbed."""
    for name in names:
        alone = Client(form)
        wanted = plain(alone.write(WRITES[name]))
        for each in losses(tries):
            client = Client(form)
            try:
                found = plain(client.write(WRITES[name], each))
            except Exception as error:
                yield f"{name}, {each}: {error!r}"
                continue
            if found != wanted or client.tree() != alone.tree():
                yield f"{name}, {each}: {found}, not {wanted}"


class TestLosses(unittest.TestCase):
    def test_one(self) -> None:
        for form in (Form.PLAIN, Form.GROWN):
            self.assertEqual(list(differences(form, 1)), [])

    def test_two(self) -> None:
        for form in (Form.PLAIN, Form.GROWN):
            names = ("a create with a number", "a set", "a first child", "a delete")
            self.assertEqual(list(differences(form, 2, names)), [])


class TestLeft(unittest.TestCase):
    """The caller of a write has left after a lost connection. Its marker serves another write."""

    def next_of(self, form: Form, loss: Loss) -> Client:
        """A client behind both writes, the second of which must be done and answered as ever.

        :raises AssertionError: it is not, or the first one is done behind it.
        """
        client, marker = Client(form), Marker(1, OPEN_ACL_UNSAFE)
        plan = client.plans[Once.type]
        left = Once([SetData(f"{D}/x", b"left", -1)], marker)
        with suppress(ConnectionLoss):
            client.run(plan.operation(client.context, left), loss)
        del left
        request = Once([SetData(f"{D}/x", b"next", -1)], marker)
        (stat,) = client.run(plan.operation(client.context, request), None)
        self.assertTrue(request.is_exact)
        home = where_is(PLACEMENT, f"{D}/x").home
        node = client.model.nodes[home.ensemble][home.path]
        self.assertEqual((node.data, node.version), (b"next", stat.version))
        return client

    def test_each_request_is_lost(self) -> None:
        for form, at, how in product((Form.PLAIN, Form.GROWN), range(12), (BEFORE, AFTER, LATE)):
            with self.subTest(form=form, at=at, how=how):
                self.next_of(form, Loss(at, how))

    def test_on_another_ensemble_nobody_asks(self) -> None:
        """It might be away."""
        client, marker = Client(Form.PLAIN), Marker(1, OPEN_ACL_UNSAFE)
        plan = PLANS[Once.type]
        with self.assertRaises(ConnectionLoss):
            client.run(plan.operation(client.context, Once([SetData(f"{D}/x", b"", -1)], marker)), Loss(1, AFTER))
        asked: list[int] = []
        operation, answers = plan.operation(client.context, Once([create("/leaf")], marker)), None
        with suppress(StopIteration):
            while True:
                steps = operation.send(answers)
                asked += [ensemble for ensemble, _ in steps]
                answers = [client.model.execute(*step) for step in steps]
        self.assertEqual(set(asked), {where_is(PLACEMENT, "/leaf").home.ensemble})
        self.assertNotEqual(
            where_is(PLACEMENT, "/leaf").home.ensemble, where_is(PLACEMENT, f"{D}/x").home.ensemble
        )

    def test_a_mutant_that_does_not_settle_what_was_left(self) -> None:
        def settle(marker: Marker, doubt: object) -> Operation[None]:
            yield from ()

        with mock.patch("parkazoo.protocol.once.Marker._settle_doubt", settle), self.assertRaises(BadVersionError):
            self.next_of(Form.PLAIN, Loss(1, AFTER))


class TestEnds(unittest.TestCase):
    """What is not answered as if nothing had been lost."""

    def setUp(self) -> None:
        self.client = Client(Form.PLAIN)
        self.marker = Marker(1, OPEN_ACL_UNSAFE)

    def lose(self, *operations: Request) -> Operation[Any]:
        """The answer to a write is lost; what finds out."""
        request = Once(operations, self.marker)
        at = 0
        while self.marker.attempt is None:
            with self.assertRaises(ConnectionLoss):
                self.client.run(self.issue(request), Loss(at, AFTER))
            at += 1
        return self.issue(request)

    def issue(self, request: Once) -> Operation[Any]:
        return PLANS[Once.type].operation(self.client.context, request)

    def paths(self) -> list[str]:
        return [path for nodes in self.client.model.nodes for path in nodes if path.startswith(OF_MARKERS)]

    def test_the_session_has_ended(self) -> None:
        for renewed in (7, 70):  # the marker went with it; the client has another one
            self.setUp()
            again = self.lose(SetData(f"{D}/x", b"new", -1))
            for path in self.paths():
                for ensemble in range(2):
                    self.client.model.execute(ensemble, Delete(path, -1))
            with (
                mock.patch.object(self.client.context.owners, "session_on", range(renewed, 100).__getitem__),
                self.assertRaises(SessionExpiredError),
            ):
                self.client.run(again, None)

    def test_what_was_made_is_gone(self) -> None:
        for made in (create(f"{D}/made-", SEQUENCE), SetData(f"{D}/x", b"new", -1)):
            self.setUp()
            again = self.lose(made)
            context = make_context(PLACEMENT)
            for path in (f"{D}/made-0000000001", f"{D}/made-0000000002", f"{D}/x"):
                outcome(self.client.model, PLANS[Delete.type].operation(context, Delete(path, -1)))
            with self.assertRaises(AnswerLostError):
                self.client.run(again, None)

    def test_its_directory_has_moved(self) -> None:
        """What has the same czxid on another ensemble is another znode."""
        made, model = create(f"{D}/made-", SEQUENCE), self.client.model
        path = f"{D}/made-0000000001"
        d = where_is(PLACEMENT, path)
        (found,) = (each for each in range(2) if d.home.path in model.nodes[each])
        zxid = model.nodes[found][d.home.path].stat.czxid
        finding = _find_results(self.client.context, [made], zxid, found)
        self.assertEqual(self.client.run(finding, None), [path])
        with self.assertRaisesRegex(AnswerLostError, "its directory has moved"):
            self.client.run(_find_results(self.client.context, [made], zxid, 1 - found), None)

    def test_somebody_deletes_the_marker(self) -> None:
        self.assertEqual(self.client.run(self.issue(Once([create(f"{D}/one")], self.marker)), None), [f"{D}/one"])
        (path,) = self.paths()
        for ensemble in range(2):
            self.client.model.execute(ensemble, Delete(path, -1))
        self.assertEqual(self.client.run(self.issue(Once([create(f"{D}/two")], self.marker)), None), [f"{D}/two"])

    def test_a_marker_is_used_again(self) -> None:
        """It goes from one write to the next, also if one fails."""
        for operations, error in (
            ([create(f"{D}/one")], None),
            ([create(f"{D}/one")], NodeExistsError),
            ([SetData(f"{D}/one", b"", 0)], None),
            ([SetData(f"{D}/one", b"", 0)], BadVersionError),
            ([Delete(f"{D}/one", 1)], None),
            ([create(f"{NEW}/one")], None),
        ):
            (result,) = self.client.run(self.issue(Once(operations, self.marker)), None)
            self.assertEqual(isinstance(result, Exception) and type(result), error or False, operations)
        self.assertEqual(len(self.paths()), 1)

    def test_it_is_free_when_its_write_is_over(self) -> None:
        request = Once([create(f"{D}/one")], self.marker)
        request.is_under_way = True
        self.assertFalse(self.marker.is_free)
        request.is_left = True
        self.assertFalse(self.marker.is_free)
        request.is_under_way = False
        self.assertTrue(self.marker.is_free)

    def test_it_is_free_when_nothing_refers_to_its_write(self) -> None:
        """The call was interrupted before anybody could send it."""
        request = Once([create(f"{D}/one")], self.marker)
        request.is_under_way = True
        self.assertFalse(self.marker.is_free)
        del request
        self.assertTrue(self.marker.is_free)

    def test_it_is_no_ephemeral_of_the_users(self) -> None:
        holdings = Holdings()
        marker = create(f"{OF_MARKERS}0x7-1", EPHEMERAL)
        holdings.lost([marker])
        holdings.answered(marker, marker.path)
        self.assertFalse(holdings)


class TestTooLarge(unittest.TestCase):
    """A server ends the connection; the write may have been too large for it."""

    def write(self, is_done: bool) -> tuple[Client, Marker, Any]:
        """The request behind it is lost with the connection, too.

        :param is_done: the server has done it, and another reason has ended the connection.
        """
        client, marker = Client(Form.PLAIN), Marker(1, OPEN_ACL_UNSAFE)
        request = Once([create(f"{D}/made-", SEQUENCE), SetData(f"{D}/x", b"large", 0)], marker)
        suspects = 0
        is_away = False

        def execute(ensemble: int, request: Request) -> Any:
            nonlocal suspects, is_away
            if is_away:
                is_away = False
                return ConnectionLoss()
            is_suspect = is_away = isinstance(request, Transaction)
            suspects += is_suspect
            answer = client.model.execute(ensemble, request) if is_done or not is_suspect else None
            return RequestTooLargeError() if is_suspect else answer

        def run() -> Any:
            operation = PLANS[Once.type].operation(client.context, request)
            answers: Any = None
            try:
                while True:
                    answers = [execute(*step) for step in operation.send(answers)]
            except StopIteration as stop:
                return stop.value
            except RequestTooLargeError as error:
                return error

        with self.assertRaises(ConnectionLoss):
            run()
        answer = run()
        self.assertEqual(suspects, 1)
        return client, marker, answer

    def test_it_was(self) -> None:
        client, marker, answer = self.write(is_done=False)
        self.assertIsInstance(answer, RequestTooLargeError)
        self.assertIsNone(marker.attempt)
        self.assertEqual(client.tree(), Client(Form.PLAIN).tree())

    def test_it_was_not(self) -> None:
        client, marker, answer = self.write(is_done=True)
        self.assertEqual((answer[0], answer[1].version), (f"{D}/made-0000000002", 1))
        self.assertIsNone(marker.attempt)
        self.assertNotEqual(client.tree(), Client(Form.PLAIN).tree())


class Waited(Result):
    """An async result that has come."""

    def get(self) -> Answer:
        return self.value


class TestItsError(unittest.TestCase):
    """An error says whether the write may have been done."""

    def raised(self, *, is_sent: bool) -> Exception:
        """The error of a write whose session ends."""

        def call(request: Once, reply: Reply) -> None:
            if is_sent:
                request.marker.attempt = SentTransaction(0, 1, OF_MARKERS, 0)
            reply.set_exception(SessionExpiredError(path))

        path = f"/{MAY_BE_DONE}"  # which is no reason to think so
        client = mock.Mock(auth_data=(), unchroot=str, _call=call)
        client.handler.lock_object, client.handler.async_result = nullcontext, Waited
        with self.assertRaises(SessionExpiredError) as raised:
            ExactlyOnce(client).commit(mock.Mock(operations=[SetData(path, b"new", -1)]))
        return raised.exception

    def test_may_be_done(self) -> None:
        self.assertTrue(may_be_done(self.raised(is_sent=True)))
        self.assertFalse(may_be_done(self.raised(is_sent=False)))


class TestMutants(unittest.TestCase):
    """What is found if the protocol is another one."""

    def assert_found(self, where: str, what: Callable[..., Any]) -> None:
        with mock.patch(f"parkazoo.protocol.once.{where}", what):
            self.assertTrue(next(differences(Form.PLAIN, 1, ["a set", "a create with a number"]), None))

    def test_nobody_finds_out(self) -> None:
        def find_out(marker: Marker, context: Context) -> Operation[None]:
            yield from ()

        self.assert_found("Marker.find_out", find_out)

    def test_one_looks_and_does_not_set(self) -> None:
        """What comes late is done then, and once more."""

        def find_out(marker: Marker, context: Context) -> Operation[int | None]:
            if marker.attempt is None:
                return None
            ensemble, session, path, version = marker.attempt
            (_, stat), *_ = yield ((ensemble, GetData(path, None)),)
            marker._versions[ensemble] = session, stat.version
            return stat.mzxid if stat.version > version else None

        self.assert_found("Marker.find_out", find_out)

    def test_the_marker_is_not_in_the_multi(self) -> None:
        guard = Marker.guard

        def apart(marker: Marker, context: Context, ensemble: int, is_gone: bool) -> Operation[Request]:
            step = yield from guard(marker, context, ensemble, is_gone)
            yield ((ensemble, Transaction([step])),)
            return CheckVersion(step.path, -1)

        self.assert_found("Marker.guard", apart)
