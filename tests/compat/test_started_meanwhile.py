"""A call while another thread starts the client. It does not really begin, so nothing connects."""

from __future__ import annotations

import unittest
from typing import Any
from unittest import mock

from kazoo.exceptions import ConnectionClosedError
from kazoo.protocol.states import KeeperState

from parkazoo import ParKazooClient
from parkazoo.compat.ensembles import AwaitedAnswer
from parkazoo.kazoo_private import GetData


class _Client(ParKazooClient):
    """Another thread starts it just after one of its attributes has been looked at."""

    looked_at = ""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name == super().__getattribute__("looked_at"):
            self.looked_at = ""
            self._session = mock.Mock(failure=None)
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
