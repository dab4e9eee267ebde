"""What an exchange asks before the first request, and what it tells of the ephemerals that answers leave."""

from __future__ import annotations

import unittest
from typing import Any
from unittest import mock

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from parkazoo.kazoo_private import Create, Delete, GetData
from tests.fakes.conversation import LOG, PATH, Conversation, answer, connect_answer, data_answer, framed


class TestQuestions(unittest.TestCase):
    def test_several_questions(self) -> None:
        """Each answer goes to its own, errors too; more can be asked when these are answered."""
        exchange, found = Conversation().exchange, list[Any]()
        for name in ("first", "second"):
            exchange.ask(GetData(PATH, None), lambda answer, name=name: found.append((name, answer)))
        exchange.receive_handshake(connect_answer() + data_answer(0, b"b"))
        self.assertFalse(exchange.is_handshake_over)
        exchange.receive_handshake(answer(0, code=NoNodeError.code))
        self.assertTrue(exchange.is_handshake_over)
        exchange.ask(Create("/a", b"", [], 1), lambda answer: found.append(("third", answer)))
        self.assertFalse(exchange.is_handshake_over)
        exchange.receive_handshake(answer(0, framed(b"/a")))
        self.assertTrue(exchange.is_handshake_over)
        (_, (data, _)), (_, error), third = found
        self.assertEqual((data, type(error), third), (b"b", NoNodeError, ("third", "/a")))
        self.assertEqual([name for name, _ in found], ["first", "second", "third"])


class TestHoldings(unittest.TestCase):
    def test_ephemerals(self) -> None:
        """What was made counts before its reply hears of it; what is gone, found missing too, counts no more."""
        conversation = Conversation().open()
        held: list[bool] = []
        reply = mock.Mock(set=lambda value: held.append(bool(conversation.holdings)))
        create = Create("/a", b"", [], 1)
        conversation.exchange.request(create, reply, create.serialize())
        conversation.exchange.receive(answer(1, framed(b"/a")))
        self.assertEqual(held, [True])
        conversation.ask(Delete("/a", 7), Delete("/a", -1))
        conversation.exchange.receive(answer(2, code=BadVersionError.code))
        self.assertTrue(conversation.holdings)
        conversation.exchange.receive(answer(3, code=NoNodeError.code))
        self.assertFalse(conversation.holdings)

    def test_a_failed_create(self) -> None:
        conversation = Conversation().open()
        conversation.ask(Create("/a", b"", [], 1))
        conversation.exchange.receive(answer(1, code=NodeExistsError.code))
        self.assertFalse(conversation.holdings)

    def test_an_answer_that_cannot_be_read(self) -> None:
        """There may be an ephemeral."""
        conversation = Conversation().open()
        conversation.ask(Create("/a", b"", [], 1))
        with self.assertLogs(LOG, "ERROR"):
            conversation.exchange.receive(answer(1, b"\0"))
        self.assertTrue(conversation.holdings)
