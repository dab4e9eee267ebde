"""An address that leads to another ensemble while a command is at work."""

from __future__ import annotations

from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.admin.clients import AdminClient, LostError, UnreadableError
from parkazoo.protocol.placement import ENSEMBLE
from tests.live.copies_case import CopiesCase
from tests.live.map_case import COMMAND_TIMEOUT_S
from tests.live.world import wait_until
from tests.relay import Relay

WRITTEN = "/written"


class ElsewhereTest(CopiesCase):
    def setUp(self) -> None:
        super().setUp()
        self.relay = Relay(self.a)
        self.addCleanup(self.relay.stop)
        self.client = AdminClient("a", self.relay.address, {}, COMMAND_TIMEOUT_S)
        self.client.start().wait(COMMAND_TIMEOUT_S)
        self.addCleanup(self.client.stop)
        self.record = self.client.read(ENSEMBLE)
        self.client.zk.last_zxid = 0  # servers refuse who has seen more than they have, and that is luck here

    def make(self) -> str:
        """How that ends: with "made", or an error that is not of a lost connection."""
        return wait_until(self._make, "an end")

    def _make(self) -> str:
        try:
            self.client.make(WRITTEN, b"", OPEN_ACL_UNSAFE)
        except LostError:
            return ""
        except UnreadableError as error:
            return str(error)
        return "made"

    def is_back(self) -> bool:
        try:
            return self.client.read(ENSEMBLE) == self.record
        except UnreadableError:  # it has not noticed yet
            return False

    def test_a_write_is_refused(self) -> None:
        self.relay.lead_to(self.b)
        self.assertIn("its servers are not those that the command began with", self.make())
        self.assertIsNone(self.plain[1].exists(WRITTEN))

    def test_a_read_is_refused(self) -> None:
        self.relay.lead_to(self.b)
        with self.assertRaisesRegex(UnreadableError, "see `parkazoo map check`, then run the command again$"):
            self.client.read(ENSEMBLE)

    def test_it_comes_back(self) -> None:
        self.relay.lead_to(self.b)
        with self.assertRaises(UnreadableError):
            self.client.read(ENSEMBLE)
        self.relay.lead_to(self.a)
        wait_until(self.is_back, "the ensemble that it had")
        self.assertEqual(self.client.read(ENSEMBLE), self.record)
        self.assertEqual(self.make(), "made")
        self.assertIsNotNone(self.plain[0].exists(WRITTEN))

    def test_another_session_of_the_same_servers(self) -> None:
        first = self.client.zk.client_id
        self.relay.refuse()
        self.client.zk._session_id += 1  # as if the servers had ended it
        self.relay.admit()
        self.assertEqual(self.client.read(ENSEMBLE), self.record)
        self.assertNotEqual(self.client.zk.client_id, first)
        self.assertEqual(self.make(), "made")
        self.assertIsNotNone(self.plain[0].exists(WRITTEN))
