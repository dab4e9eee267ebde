"""A call while another thread starts the client, or starts it again. No session begins, so nothing connects."""

from __future__ import annotations

import unittest
from typing import Any
from unittest import mock

from kazoo.exceptions import ConnectionClosedError
from kazoo.protocol.states import KazooState, KeeperState

from parkazoo import ParKazooClient
from parkazoo.compat.ensembles import AwaitedAnswer
from parkazoo.kazoo_private import GetData
from parkazoo.protocol.placement import Placement
from tests.explore.alone import make_context


class _Client(ParKazooClient):
    """Another thread starts it just after one of its attributes has been looked at."""

    looked_at = ""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name == super().__getattribute__("looked_at"):
            self.looked_at = ""
            self._session = mock.Mock(failure=None, driver=None)
            self._session.roster.state_on = [].__getitem__
            self._state = KeeperState.CONNECTING
        return found


class TestStartedMeanwhile(unittest.TestCase):
    def test_it_was_closed(self) -> None:
        for name, before in (("_state", None), ("_state", mock.Mock(failure=None)), ("_session", None)):
            with self.subTest(name, was_started_before=before is not None):
                client = _Client()
                client._session, answer = before, AwaitedAnswer(client.handler)
                client.looked_at = name
                client._call(GetData("/a", None), answer)
                self.assertIsInstance(answer.value, ConnectionClosedError)

    def test_it_was_open(self) -> None:
        """The state is that of the session that was there."""
        for call, found in (("state_of", KazooState.CONNECTED), ("state_for_watch", KazooState.CONNECTED)):
            with self.subTest(call):
                client = self.opened()
                client.looked_at = "_session"
                self.assertEqual(getattr(client, call)("/a"), found)
        client = self.opened()
        client.looked_at = "_session"
        self.assertTrue(client.may_have_ephemeral("/a"))

    def opened(self) -> _Client:
        """A client with one ensemble, where it may have ephemerals."""
        client, session = _Client(), mock.Mock()
        session.driver.context = make_context(Placement(1))
        session.roster.state_on = [KeeperState.CONNECTED].__getitem__
        session.roster.ports = [mock.Mock(has_ephemerals=True)]
        client._session, client._state = session, KeeperState.CONNECTED
        return client
