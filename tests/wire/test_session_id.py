"""The id and the password of a member's session, as another thread may see them while it begins."""

from __future__ import annotations

import unittest
from typing import Any
from unittest import mock

from parkazoo.wire import connection as module
from parkazoo.wire.connection import MemberConnection


class Member(mock.Mock):
    """Another thread looks after each change: at the id first, as for the client_id."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in ("_session_id", "_session_passwd") and self._session_id:
            self.seen.append((self._session_id, self._session_passwd))


class TestSessionId(unittest.TestCase):
    def test_no_id_with_another_password(self) -> None:
        connection = MemberConnection.__new__(MemberConnection)
        connection.client = member = Member(_session_id=None, _session_passwd=bytes(16), last_zxid=0, seen=[])
        for name in ("logger", "report", "_loop", "_move", "_tell"):
            setattr(connection, name, mock.Mock())
        established = mock.Mock()
        established.exchange.zxid = 0
        accepted = established.exchange.accepted
        accepted.session_id, accepted.passwd = 7, b"p" * 16
        with mock.patch.object(module, "Link"):
            connection._begin_link(established)
        self.assertEqual({*member.seen}, {(7, b"p" * 16)})
