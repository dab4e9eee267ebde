"""A client whose map goes from one form to the next while it is at work."""

from __future__ import annotations

import unittest
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Any

from kazoo.exceptions import ConnectionClosedError, ConnectionLoss
from kazoo.protocol.states import EventType, KeeperState

from parkazoo.engine import gate
from parkazoo.engine.form_change import MOST_POLLS, POLL_S
from parkazoo.engine.gate import Gate
from parkazoo.engine.rewatching import AT_ONCE
from parkazoo.kazoo_private import Exists, GetChildren
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.outlasting import outlasting
from parkazoo.protocol.placement import MAP
from tests.engine.test_session_growth import GrowthTest
from tests.fakes.client import Client
from tests.fakes.member import CONNECT_S, SESSION_TIMEOUT_S, STAT, Ensemble
from tests.fakes.result import Result
from tests.interruption import each_interruption, where_signals_come

LIMIT_S = (MOST_POLLS + 1) * POLL_S


class FormTest(GrowthTest):
    def publish(self, client: Client, form: Form, on: str = "abc") -> None:
        """A map of that form; these ensembles have it. The client has not heard of it."""
        client.map = replace(client.map, form=form, epoch=client.map.epoch + 1)
        for name in on:
            if name in client.ensembles:
                client.ensembles[name].data[MAP] = client.map.to_json()

    def change(self, client: Client, form: Form) -> None:
        self.publish(client, form)
        trouble = client.session.take_copy(client["a"], client.ensembles["a"].read(MAP), "a:1")
        self.assertIsNone(trouble)

    def form(self, client: Client) -> Form:
        assert client.session.driver is not None
        return client.session.driver.context.form

    def epochs(self, client: Client) -> list[int]:
        return [epoch for _, epoch in self.said(client).values()]

    def list_slowly(self, client: Client) -> Result:
        """An operation of several requests that the servers of b do not answer."""
        client["b"].is_slow = True
        placement, result = client.map.make_placement(), Result()
        paths = (f"/p{number}" for number in range(100))
        path = next(each for each in paths if not placement.is_native(each) and placement.of_children(each) == 1)
        client.session.call(GetChildren(path, None), result)
        client.runtime.turn()
        self.assertEqual(result.told, [])
        return result


class TestForms(FormTest):
    def test_up(self) -> None:
        client = self.started("ab")
        for epoch, form in enumerate(Form, 1):
            if form is not Form.PLAIN:
                self.change(client, form)
                client.runtime.turn()
            self.assertEqual((self.form(client), self.epochs(client)), (form, [epoch] * 2))
        self.assertEqual(client.states, [])

    def test_given_up(self) -> None:
        """Others may go on by it, so the client does too; it says that it has heard."""
        client = self.started("ab")
        self.change(client, Form.TOLERANT)
        client.runtime.turn()
        self.change(client, Form.PLAIN)
        client.runtime.turn()
        self.assertEqual((self.form(client), self.epochs(client)), (Form.TOLERANT, [3, 3]))
        self.change(client, Form.TOLERANT)
        client.runtime.turn()
        self.assertEqual(self.epochs(client), [4, 4])

    def test_begins_by_it(self) -> None:
        for form in Form:
            client = Client()
            self.publish(client, form)
            client.runtime.turn(CONNECT_S)
            self.assertEqual((self.form(client), self.epochs(client)), (form, [2]))

    def test_found_when_it_starts(self) -> None:
        """Behind the registration, which is behind a first look that showed an older copy."""
        client = Client()
        client.runtime.turn(CONNECT_S / 2)
        old = client.map.to_json()
        self.publish(client, Form.TOLERANT)
        ensemble = client.ensembles["a"]
        read, new = ensemble.read, [ensemble.data[MAP], old]
        ensemble.read = lambda path: (new.pop(), read(path)[1]) if path == MAP and new else read(path)  # type: ignore[method-assign]
        client.runtime.turn(CONNECT_S)
        self.assertEqual((self.form(client), self.epochs(client)), (Form.TOLERANT, [2]))

    def test_several_at_once(self) -> None:
        """The client has not heard of those in between."""
        client = self.started("ab")
        self.change(client, Form.TOLERANT)
        self.change(client, Form.GUARDED)
        client.runtime.turn()
        self.assertEqual((self.form(client), self.epochs(client)), (Form.GUARDED, [3, 3]))

    def test_no_neighbours(self) -> None:
        """What is under way by a form that cannot work beside the newest is not waited for."""
        client = self.started("ab")
        self.change(client, Form.TOLERANT)
        client.runtime.turn()
        listing = self.list_slowly(client)
        self.change(client, Form.GUARDED)
        self.change(client, Form.GROWN)
        client.runtime.turn(POLL_S)
        self.assertEqual((self.form(client), self.epochs(client), listing.told), (Form.GROWN, [4, 2], []))

    def test_ensembles_come_first(self) -> None:
        client = self.started(names="a")
        self.grow(client, "b")
        for form in (Form.TOLERANT, Form.GUARDED, Form.GROWN):
            self.change(client, form)
            client.runtime.turn()
        self.assertEqual((self.form(client), self.epochs(client)), (Form.GROWN, [5]))


class TestUnderWay(FormTest):
    """Operations of the older form."""

    def test_others_do_not_wait(self) -> None:
        """They begin by the newer form; the client says so when those of the older one have ended."""
        client = self.started("ab")
        listing = self.list_slowly(client)
        self.change(client, Form.TOLERANT)
        later = self.call(client, "a")
        client.runtime.turn(10 * POLL_S)
        self.assertEqual((self.form(client), self.epochs(client), listing.told), (Form.TOLERANT, [1, 1], []))
        self.assert_read(later)
        client["b"].is_slow = False
        client["b"]._serve()
        client.runtime.turn(POLL_S)
        self.assertEqual((self.epochs(client), len(listing.told)), ([2, 2], 1))

    def test_one_does_not_end(self) -> None:
        """It sends nothing more, and the registration comes behind what it has sent."""
        client = self.started("ab")
        self.change(client, Form.TOLERANT)
        client.runtime.turn()
        operation = self.list_slowly(client)
        self.change(client, Form.GUARDED)
        later = self.call(client, "a")
        client.runtime.turn(LIMIT_S)
        self.assertEqual((self.form(client), self.epochs(client)), (Form.GUARDED, [3, 2]))
        self.assert_read(later)
        self.assertEqual(operation.told, [])
        client["b"].is_slow = False
        client["b"]._serve()
        self.assertEqual(self.epochs(client), [3, 3])
        self.assertEqual(len(operation.told), 1)
        self.assertEqual(client.states, [])

    def test_a_watch_does_not_come_about(self) -> None:
        """The client is suspended for a moment: recipes set their watches again."""
        client = self.started("ab")
        self.change(client, Form.TOLERANT)
        client.runtime.turn()
        self.list_slowly(client)
        self.change(client, Form.GUARDED)
        client.runtime.turn(LIMIT_S)
        assert client.session.driver is not None
        client.session.driver.on_miss()
        client.session.driver.on_miss()
        client.runtime.turn(POLL_S)
        self.assertEqual(client.states, [KeeperState.CONNECTING])  # as long as others may yet fail
        client["b"].is_slow = False
        client["b"]._serve()
        client.runtime.turn(POLL_S)
        self.assertEqual(client.states, [KeeperState.CONNECTING, KeeperState.CONNECTED])

    def test_a_thread_is_about_to_begin_one(self) -> None:
        """It may send yet, so nothing is said on any connection before it has."""
        client = self.started("a")
        client.session.gate._inside.add(None)
        self.change(client, Form.TOLERANT)
        client.runtime.turn(10 * POLL_S)
        self.assertEqual((self.form(client), self.epochs(client)), (Form.PLAIN, [1]))
        client.session.gate._inside.clear()
        client.runtime.turn(POLL_S)
        self.assertEqual((self.form(client), self.epochs(client)), (Form.TOLERANT, [2]))

    def test_requests_wait_for_a_connection(self) -> None:
        """They could be sent behind the registration of a session that begins, so they fail."""
        client = self.started("ab")
        client["b"].lose()
        waiting = self.call(client, "b")
        unjoined = self.call(client, "c")
        client.ensembles["c"].is_up = False
        self.change(client, Form.TOLERANT)
        client.runtime.turn(POLL_S)
        for result in (waiting, unjoined):
            self.assertIsInstance(result.value, ConnectionLoss)
        client.ensembles["b"].is_up = client.ensembles["c"].is_up = True
        client.runtime.turn(2 * CONNECT_S)
        self.assertEqual((self.form(client), self.epochs(client)), (Form.TOLERANT, [2, 2, 2]))

    def test_a_session_begins_meanwhile(self) -> None:
        """Its queue may have requests of the older form, so it begins again; nothing is waited for any more."""
        client = self.started("ab")
        operation = self.list_slowly(client)
        old = self.call(client, "c")
        client.runtime.turn(CONNECT_S / 2)
        self.publish(client, Form.TOLERANT)
        client.runtime.turn(CONNECT_S / 2)
        self.assertIsInstance(old.value, ConnectionLoss)
        self.assertEqual((self.form(client), operation.told), (Form.TOLERANT, []))
        client["b"].is_slow = False
        client["b"]._serve()
        client.runtime.turn()
        self.assertEqual(self.epochs(client), [2, 2, 2])
        self.assertEqual([len(client.ensembles[name].sessions) for name in "abc"], [1, 1, 1])

    def test_lost_meanwhile(self) -> None:
        client = self.started("ab")
        self.list_slowly(client)
        self.change(client, Form.TOLERANT)
        later = self.call(client, "a")
        client["b"].is_slow = False
        client.session.expire("a test wants it")
        client.runtime.turn(2 * CONNECT_S)
        self.assertEqual((self.form(client), self.epochs(client)), (Form.TOLERANT, [2, 2]))
        self.assert_read(later)

    def test_stop(self) -> None:
        client = self.started("ab")
        self.list_slowly(client)
        client.session.gate._inside.add(None)  # so that it stays shut
        self.change(client, Form.TOLERANT)
        later, idle = self.call(client, "a"), Result()
        client.session.when_idle(lambda: idle.set("idle"))
        client.runtime.turn(POLL_S)
        self.assertEqual(idle.told, [])
        client.session.stop(lambda: None)
        client.runtime.turn(SESSION_TIMEOUT_S)
        self.assertIsInstance(later.value, ConnectionClosedError)
        self.assertEqual(idle.value, "idle")
        self.assert_over(client)


class TestWatchesOfPlainMaps(FormTest):
    """Of what is not there: it may come elsewhere than it could."""

    def test_replaced(self) -> None:
        client = self.started(names="a")
        client["a"].watches = [("/d/missing", print), ("/d/there", print), ("/missing", print)]
        self.show(client.ensembles["a"])
        self.change(client, Form.TOLERANT)
        client.runtime.turn()
        self.assertEqual(client["a"].watches, [("/d/there", print), ("/missing", print)])
        self.assertEqual(self.epochs(client), [2])
        client["a"].watches.append(("/d/missing", print))
        self.change(client, Form.GUARDED)
        client.runtime.turn()
        self.assertEqual(len(client["a"].watches), 3)

    def test_many(self) -> None:
        client = self.started(names="a")
        client["a"].watches = [(f"/d/missing{number}", print) for number in range(5 * AT_ONCE)]
        self.show(client.ensembles["a"])
        self.change(client, Form.TOLERANT)
        client.runtime.turn()
        self.assertEqual((client["a"].watches, self.epochs(client)), ([], [2]))

    def rewatch(self) -> tuple[Client, list[str]]:
        """A client that begins with it, and what a watch that outlasts connections is told."""
        client, told = self.started(names="a"), list[str]()
        lasting = outlasting(lambda event: told.append(event.type))
        client["a"].watches = [("/d/missing", lasting), ("/missing", lasting), ("/d/missing", print)]
        self.show(client.ensembles["a"])
        return client, told

    def assert_lost(self, client: Client, told: list[str]) -> None:
        self.change(client, Form.TOLERANT)
        client.runtime.turn()
        client["a"].lose()
        client.runtime.turn()
        self.assertEqual([path for path, _ in client["a"].watches], ["/missing", "/d/missing"])
        for call in client.runtime.dispatched:
            call()
        self.assertEqual(told, [EventType.NONE])

    def test_lost_before_all_is_left(self) -> None:
        """One that outlasts its connection hears of it: what it waits for may come elsewhere."""
        client, told = self.rewatch()
        client["a"].is_slow = True
        self.assert_lost(client, told)

    def test_lost_while_one_is_replaced(self) -> None:
        client, told = self.rewatch()
        answer = client.ensembles["a"].answer

        def answer_once(request: Any) -> Any:
            client["a"].is_slow = isinstance(request, Exists)
            return answer(request)

        client.ensembles["a"].answer = answer_once  # type: ignore[method-assign]
        self.assert_lost(client, told)

    def test_said_when_they_are(self) -> None:
        client = self.started("ab")
        client["b"].is_slow = True
        self.change(client, Form.TOLERANT)
        self.change(client, Form.GUARDED)
        client.runtime.turn(LIMIT_S)
        self.assertEqual((self.form(client), self.epochs(client)), (Form.GUARDED, [1, 1]))
        client["b"].lose()
        client.runtime.turn()
        self.assertEqual(self.epochs(client), [3, 1])

    def show(self, ensemble: Ensemble) -> None:
        """There is only one znode."""
        answer = ensemble.answer

        def exists(request: Any) -> Any:
            if not isinstance(request, Exists):
                return answer(request)
            return STAT if request.path == "/d/there" else None

        ensemble.answer = exists  # type: ignore[method-assign]


class TestGate(unittest.TestCase):
    def setUp(self) -> None:
        self.passed: list[Any] = []
        self.refusal: Exception | None = None
        self.gate = Gate(lambda request, reply: self.passed.append(request), Lock, lambda: self.refusal)

    def test_in_their_order(self) -> None:
        self.gate.call(1, None)
        self.gate.shut()
        self.gate.call(2, None)
        self.gate.call(3, None)
        self.assertEqual(self.passed, [1])
        self.gate.open()
        self.gate.call(4, None)
        self.assertEqual(self.passed, [1, 2, 3, 4])

    def test_who_is_inside(self) -> None:
        def look(request: Any, reply: Any) -> None:
            self.passed.append(self.gate.is_empty)

        self.gate = Gate(look, Lock, lambda: None)
        self.assertTrue(self.gate.is_empty)
        self.gate.call(1, None)
        self.assertEqual((self.passed, self.gate.is_empty), ([False], True))

    def test_an_error_leaves(self) -> None:
        def fail(request: Any, reply: Any) -> None:
            raise KeyboardInterrupt

        self.gate = Gate(fail, Lock, lambda: None)
        self.assertRaises(KeyboardInterrupt, self.gate.call, 1, None)
        self.assertTrue(self.gate.is_empty)

    def test_a_signal_handlers_exception_leaves(self) -> None:
        def check() -> None:
            self.assertTrue(self.gate.is_empty)

        points = each_interruption(
            lambda: partial(self.gate.call, 1, None), check, {gate.__file__}, where_signals_come
        )
        self.assertGreater(points, 2)

    def test_refused(self) -> None:
        self.gate.fail()
        self.gate.shut()
        before, after = Result(), Result()
        self.gate.call(1, before)
        self.refusal = ConnectionClosedError()
        self.gate.fail()
        self.gate.call(2, after)
        self.gate.open()
        self.assertEqual((before.value, after.value, self.passed), (self.refusal, self.refusal, []))
