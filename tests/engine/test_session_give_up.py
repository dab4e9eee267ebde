"""A client that does not want to be SUSPENDED for ever: `give_up_after`."""

from __future__ import annotations

from tests.engine.test_session import CONNECTED, EXPIRED
from tests.engine.test_session_states import CONNECTING, NEW_LIFE, StatesTest
from tests.fakes.client import Client
from tests.fakes.member import CONNECT_S, SESSION_TIMEOUT_S


class TestGiveUp(StatesTest):
    LIMIT_S = 5.0

    def suspended(self) -> Client:
        client = self.holding("ephemerals", joined="abc")
        client.give_up_after_s = self.LIMIT_S
        client["b"].lose()
        return client

    def test_lost(self) -> None:
        """It ends its session without a word of the ensemble that it waits for; there it will expire."""
        client = self.suspended()
        client.runtime.turn(self.LIMIT_S - 0.1)
        self.assertEqual(client.states, [CONNECTING])
        client.runtime.turn(0.1)
        self.assertEqual(client.states, [CONNECTING, EXPIRED, CONNECTING])
        client.runtime.turn(CONNECT_S)
        self.assertEqual(client.states, NEW_LIFE)
        self.assertIn("renew: the client has been suspended for 5 s", client["a"].told)
        client.runtime.turn(10 * self.LIMIT_S)
        client.ensembles["b"].is_up = True
        client.runtime.turn(2 * CONNECT_S)
        self.assertEqual((client.states, client["b"].state), (NEW_LIFE, CONNECTED))

    def test_back_in_time(self) -> None:
        """The next loss has the whole time again."""
        client = self.suspended()
        client.runtime.turn(self.LIMIT_S - 1.5 * CONNECT_S)
        client.ensembles["b"].is_up = True
        client.runtime.turn(CONNECT_S)
        self.assertEqual(client.states, [CONNECTING, CONNECTED])
        client.runtime.turn(10 * self.LIMIT_S)
        client["b"].has_watches = True
        client["b"].lose()
        client.runtime.turn(self.LIMIT_S - 0.1)
        self.assertEqual(client.states, [CONNECTING, CONNECTED, CONNECTING])
        client.runtime.turn(0.1)
        self.assertEqual(client.states[3:], [EXPIRED, CONNECTING])

    def test_from_the_first_loss(self) -> None:
        """Another ensemble that goes while it waits does not prolong the time."""
        client = self.suspended()
        client.runtime.turn(self.LIMIT_S - 0.1)
        client["c"].has_ephemerals = True
        client["c"].lose()
        client.runtime.turn(0.1)
        self.assertIn(EXPIRED, client.states)

    def test_expired_before(self) -> None:
        """It is LOST once."""
        client = self.suspended()
        client.give_up_after_s = SESSION_TIMEOUT_S * 2
        client["b"].lose()
        client.ensembles["b"].sessions.clear()
        client.ensembles["b"].is_up = True
        client.runtime.turn(10 * SESSION_TIMEOUT_S)
        self.assertEqual(client.states, NEW_LIFE)

    def test_all_stay_away(self) -> None:
        """It is LOST once, and stays SUSPENDED after that, since it has nothing more to lose."""
        client = self.suspended()
        for name in "ac":
            client[name].lose()
        client.runtime.turn(10 * self.LIMIT_S)
        self.assertEqual(client.states, NEW_LIFE[:3])

    def test_never_connected(self) -> None:
        client = Client()
        client.give_up_after_s = self.LIMIT_S
        client.ensembles["a"].is_up = False
        client.runtime.turn(10 * self.LIMIT_S)
        self.assertEqual(client.states, [])

    def test_without_a_limit(self) -> None:
        """Until a session expires."""
        client = self.holding("ephemerals")
        client["b"].lose()
        client.runtime.turn(100 * SESSION_TIMEOUT_S)
        self.assertEqual(client.states, [CONNECTING])
