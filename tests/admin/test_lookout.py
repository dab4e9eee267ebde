"""Sessions that are not registered, among those that servers list."""

from __future__ import annotations

import unittest
from collections.abc import Mapping, Sequence
from unittest import mock

from parkazoo.admin.answers import ServerConnection
from parkazoo.admin.strangers import Lookout, Strangers
from parkazoo.protocol.registration import format_session

OWN = 0x10
ALIKE = "0x100002a3f7c0001"  # two servers that began in one millisecond count from one number


class TestLookout(unittest.TestCase):
    def look(self, registered: Mapping[str, Sequence[str]], connected: Mapping[str, Sequence[str]]) -> Strangers:
        clients = {name: mock.Mock() for name in registered}
        for name, client in clients.items():
            client.name, client.children.return_value = name, list(registered[name])
            client.zk._session_id = OWN
        lookout = Lookout(clients, {f"{name}:1": name for name in connected}, {}, 1.0)
        for server, name in [(f"{name}:1", name) for name in connected]:
            lookout._asked[server].listed = connected[name]

        def answer(server: mock.Mock) -> list[ServerConnection]:
            return [ServerConnection("h:1", session, 1, 1) for session in server.listed]

        with mock.patch("parkazoo.admin.strangers._connections", answer):
            return lookout.look()

    def test_who_is_not_registered(self) -> None:
        found = self.look({"a": ["0x1"], "b": []}, {"a": ["0x1", "0x2", format_session(OWN)], "b": []})
        self.assertEqual([*found.found], [("a", "0x2")])

    def test_sessions_of_one_id_on_two_ensembles(self) -> None:
        """One is a client's, and the other a plain kazoo program's, which would lose znodes."""
        found = self.look({"a": [ALIKE], "b": []}, {"a": [ALIKE], "b": [ALIKE]})
        self.assertEqual([*found.found], [("b", ALIKE)])
        found = self.look({"a": [], "b": []}, {"a": [ALIKE], "b": [ALIKE]})
        self.assertEqual(len(found.found), 2)
