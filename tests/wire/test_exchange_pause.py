"""An exchange that moves to another server, or hears of changes before it carries requests."""

from __future__ import annotations

import unittest
from typing import Any

from kazoo.exceptions import ConnectionDropped

from parkazoo.kazoo_private import GetData
from parkazoo.wire.exchange import DRAINING, MOST_HANDSHAKE_BYTES, OPEN, TABLE
from tests.fakes.conversation import PATH, Conversation, connect_answer, data_answer, event


class TestPause(unittest.TestCase):
    def test_nothing_else_goes_back(self) -> None:
        order = [*TABLE]
        for state, steps in TABLE.items():
            for after in {*steps.values()} - ({OPEN} if state == DRAINING else set()):
                self.assertGreaterEqual(order.index(after), order.index(state))

    def test_a_pause(self) -> None:
        """Answers come; the session cannot be closed before its end."""
        conversation = Conversation().open()
        conversation.get(1)
        conversation.exchange.drain()
        conversation.exchange.receive(data_answer(1, b"x"))
        self.assertEqual(conversation.values(), [b"x"])
        with self.assertRaises(KeyError):
            conversation.exchange.close()
        conversation.pending.clear()
        conversation.exchange.open()
        self.assertEqual(conversation.exchange.state, OPEN)


class TestEarlyEvents(unittest.TestCase):
    def test_events_within_it(self) -> None:
        """Its own reads leave watches. What they hear comes first, when requests are open."""
        whole = event(3, "/a") + data_answer(0, b"b") + event(3, "/b")
        for size in range(1, len(whole) + 1):
            conversation = Conversation()
            exchange, found = conversation.exchange, list[Any]()
            exchange.ask(GetData(PATH, None), found.append)
            exchange.receive_handshake(connect_answer())
            for begin in range(0, len(whole), size):
                exchange.receive_handshake(whole[begin : begin + size])
            self.assertEqual((len(found), conversation.told), (1, []))
            exchange.ask(GetData(PATH, None), found.append)
            exchange.receive_handshake(event(3, "/c") + data_answer(0, b"b"))
            exchange.open()
            exchange.receive()
            self.assertEqual(conversation.told, [("event", 3, path) for path in ("/a", "/b", "/c")])

    def test_too_many_events(self) -> None:
        exchange = Conversation().exchange
        exchange.ask(GetData(PATH, None), lambda found: None)
        exchange.receive_handshake(connect_answer())
        with self.assertRaises(ConnectionDropped):
            for _ in range(MOST_HANDSHAKE_BYTES // 1000 + 1):
                exchange.receive_handshake(event(3, "/" + 1000 * "a"))


class TestTheNext(unittest.TestCase):
    def test_xids_go_on(self) -> None:
        """A server could take the late commit of an earlier connection's request for an answer to this one."""
        conversation = Conversation().open()
        conversation.get(2)
        conversation.exchange.end()
        conversation.begin()
        conversation.open()
        self.assertEqual(conversation.ask(GetData("/a", None)), [3])
