"""One order for all ensembles: which requests that takes, and what happens to those that fail."""

from __future__ import annotations

import unittest
from typing import Any
from unittest import mock

from kazoo.exceptions import ConnectionLoss, NotReadOnlyCallError, SessionExpiredError
from kazoo.protocol.states import EventType, KeeperState, WatchedEvent
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.kazoo_private import Create, Exists, GetChildren, GetData, SetData
from parkazoo.protocol.past import CATCH_UP
from tests.explore.alone import find_directory, issue, prepared
from tests.explore.client import Client
from tests.explore.directories import PLACEMENT, D
from tests.where_is import where_is

X, Y = D + "/x", D + "/y"  # on another ensemble than the root's children
R, S = (find_directory(PLACEMENT, True, name=name) for name in "rs")
GET_X, GET_Y, GET_R, GET_S = (GetData(path, None) for path in (X, Y, R, S))
SET_X = SetData(X, b"new", -1)
HOME, AWAY = where_is(PLACEMENT, R).home.ensemble, where_is(PLACEMENT, X).home.ensemble


class TestOneOrder(unittest.TestCase):
    def setUp(self) -> None:
        self.model = prepared(PLACEMENT, [D])
        for path in (D, X, Y, R, S):
            issue(PLACEMENT, self.model, Create(path, b"data", OPEN_ACL_UNSAFE, 0))
        self.client = self.client_of(True)

    def client_of(self, has_total_order: bool) -> Client:
        return Client(PLACEMENT, self.model.copy(), has_total_order=has_total_order)

    def after(self, *requests: Any) -> list[tuple[int, bool]]:
        """What is sent for these, one after the other: where, and whether it is a write in front of a read."""
        del self.client.sent[:]
        for request in requests:
            answer = self.client.get(request)
            if isinstance(answer, Exception):
                raise answer
        return [(ensemble, request is CATCH_UP) for ensemble, request in self.client.sent]

    def waiting(self, ensemble: int) -> list[Any]:
        return [request for request, _ in self.client.members[ensemble].outbox]

    def answer(self, ensemble: int, answer: Any) -> None:
        member = self.client.members[ensemble]
        member.answer(*member.outbox.popleft(), answer)

    # ---- which requests ----------------------------------------------------------------------------

    def test_one_ensemble_costs_nothing(self) -> None:
        """The same requests as by default."""
        default = self.client_of(False)
        requests = [GET_X, SET_X, GET_Y, GetChildren(D, None), Create(D + "/z", b"", OPEN_ACL_UNSAFE, 0), GET_X]
        for client in (self.client, default):
            client.get(GetChildren(D, None))  # from now on it knows the mirror
        self.assertEqual(self.client.sent, default.sent)
        self.after(GET_X)
        del default.sent[:]
        self.after(*requests)
        for request in requests:
            default.get(request)
        self.assertEqual(self.client.sent, default.sent)
        self.assertEqual({ensemble for ensemble, _ in self.client.sent}, {AWAY})

    def test_one_ensemble_keeps_its_pipeline(self) -> None:
        for request in (GET_X, SET_X, GET_Y):
            self.client.call(request)
        self.assertEqual(len(self.waiting(AWAY)), 3)

    def test_a_read_that_changes_ensembles_goes_behind_one_write(self) -> None:
        self.assertEqual(self.after(GET_R), [(HOME, False)])
        self.assertEqual(self.after(GET_X), [(AWAY, True), (AWAY, False)])
        self.assertEqual(self.after(GET_Y, GET_X), [(AWAY, False)] * 2)
        self.assertEqual(self.after(GET_R, GET_S), [(HOME, True), (HOME, False), (HOME, False)])

    def test_a_write_that_changes_ensembles_needs_none(self) -> None:
        """And a read behind it is behind a write."""
        self.assertEqual(self.after(GET_R, SET_X, GET_X), [(HOME, False), (AWAY, False), (AWAY, False)])

    def test_an_event_is_heard(self) -> None:
        self.after(Exists(R, lambda _: None), GET_X)
        self.assertEqual(self.after(GET_X), [(AWAY, False)])
        self.client.members[HOME].tell(WatchedEvent(EventType.CHANGED, KeeperState.CONNECTED, R))
        self.assertEqual(self.after(GET_X), [(AWAY, True), (AWAY, False)])

    def test_a_change_of_ensembles_waits_for_the_answers(self) -> None:
        results = [self.client.call(request) for request in (GET_R, GET_S, SET_X, GET_Y, GET_R)]
        self.assertEqual((len(self.waiting(HOME)), len(self.waiting(AWAY))), (2, 0))
        self.answer(HOME, (b"", None))
        self.assertEqual(self.waiting(AWAY), [])
        self.client.run()
        self.assertTrue(all(len(result.told) == 1 for result in results))

    # ---- what fails --------------------------------------------------------------------------------

    def begin_read(self) -> Any:
        """A read that waits behind a write."""
        self.after(GET_R)
        result = self.client.call(GET_X)
        self.assertIs(self.waiting(AWAY)[0], CATCH_UP)
        return result

    def answer_both(self, of_write: Exception) -> None:
        answer = self.client.model.execute(AWAY, self.waiting(AWAY)[1])
        self.answer(AWAY, of_write)
        self.answer(AWAY, answer)

    def test_a_read_fails_with_the_write_in_front_of_it(self) -> None:
        """They have been on two connections: the read may be of the past."""
        result = self.begin_read()
        self.answer_both(ConnectionLoss())
        self.assertIsInstance(result.value, ConnectionLoss)
        self.assertEqual(self.after(GET_X), [(AWAY, True), (AWAY, False)])

    def test_a_server_that_is_cut_off_shows_what_it_has(self) -> None:
        result = self.begin_read()
        self.answer_both(NotReadOnlyCallError())
        self.assertEqual(result.value[0], b"data")

    def test_an_exception_of_a_signal_handler_holds_nothing_up(self) -> None:
        with (
            mock.patch.object(self.client.members[HOME], "submit", side_effect=KeyboardInterrupt),
            self.assertRaises(KeyboardInterrupt),
        ):
            self.client.call(GET_R)
        self.assertEqual(self.client.get(GET_X)[0], b"data")

    def test_what_waits_fails_at_lost(self) -> None:
        waiting = [self.client.call(request) for request in (GET_R, SET_X, GET_X)][1:]
        idle: list[bool] = []
        self.client.driver.when_idle(lambda: idle.append(True))
        self.assertFalse(idle)
        self.client.driver.fail_all(SessionExpiredError)
        self.assertTrue(idle)
        for result in waiting:
            self.assertIsInstance(result.value, SessionExpiredError)
        self.answer(HOME, SessionExpiredError())  # it comes late
        self.assertEqual(self.after(GET_X)[-1], (AWAY, False))
