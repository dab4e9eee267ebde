"""What is said on a connection, byte by byte: no socket, no thread, no clock."""

from __future__ import annotations

import struct
import unittest
from collections import deque, namedtuple
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    ConnectionDropped,
    NoNodeError,
    SessionExpiredError,
    ZookeeperError,
)

from parkazoo.kazoo_private import (
    AUTH_XID,
    PING_XID,
    WATCH_XID,
    Auth,
    Close,
    Connect,
    Create,
    Exists,
    GetData,
    SetData,
    Sync,
    Transaction,
    int_struct,
)
from parkazoo.wire.exchange import (
    CLOSING,
    CONNECTING,
    ENDED,
    MOST_HANDSHAKE_BYTES,
    OPEN,
    TABLE,
    TORN,
    VERIFYING,
    XID_MAX,
    SessionClosed,
)
from parkazoo.wire.frames import REQUEST, Frames
from parkazoo.wire.sizes import DEFAULT_LIMIT, TIMES
from tests.fakes.conversation import (
    AUTH,
    LOG,
    PASSWORD,
    PATH,
    REFUSED,
    SESSION,
    STAT,
    Conversation,
    Reply,
    answer,
    auth_answer,
    connect_answer,
    data_answer,
    event,
    framed,
)

PART = 1 << 16  # bytes that a socket gives at a time


class Shared(deque[Any]):
    """Pending requests: another thread sends one while somebody goes through them. To copy them is one step."""

    def __iter__(self) -> Iterator[Any]:
        for each in super().__iter__():
            yield each
            self.append((GetData("/other", None), None, 1000))

    def copy(self) -> deque[Any]:  # type: ignore[override]  # a deque's own is one of its own class
        return deque(super().__iter__())


class Refused(ConnectionDropped):
    """What the taker of an answer raises."""


def refuse(found: Any) -> None:
    raise Refused(found)


class TestTable(unittest.TestCase):
    def test_every_state_can_be_reached_and_ends(self) -> None:
        reached, ahead = {CONNECTING}, [CONNECTING]
        while ahead:
            found = {*TABLE[ahead.pop()].values()} - reached
            reached |= found
            ahead += found
        self.assertEqual(reached, {*TABLE})
        self.assertEqual({each["end"] for each in TABLE.values()}, {ENDED})

    def test_a_life(self) -> None:
        conversation = Conversation()
        exchange = conversation.exchange
        states = [exchange.state]
        exchange.connect(Connect(0, 0, 1000, 0, PASSWORD, False))
        exchange.receive_handshake(connect_answer())
        states.append(exchange.state)
        exchange.open()
        states.append(exchange.state)
        exchange.close()
        states.append(exchange.state)
        with self.assertRaises(SessionClosed):
            exchange.receive(answer(1))
        exchange.end()
        states.append(exchange.state)
        self.assertEqual(states, [CONNECTING, VERIFYING, OPEN, CLOSING, ENDED])

    def test_what_may_not_be(self) -> None:
        """It is a mistake of the caller."""
        conversation = Conversation()
        for call in (conversation.exchange.open, conversation.exchange.close, conversation.exchange.tear):
            with self.subTest(call), self.assertRaises(KeyError):
                call()
        self.assertEqual(conversation.exchange.state, CONNECTING)

    def test_torn(self) -> None:
        """What was asked before may still be answered, until the end."""
        conversation = Conversation().open()
        conversation.get(1)
        conversation.exchange.tear()
        self.assertEqual(conversation.exchange.state, TORN)
        conversation.exchange.receive(data_answer(1, b"x"))
        self.assertEqual(conversation.values(), [b"x"])
        conversation.exchange.end()
        conversation.exchange.tear()
        self.assertEqual(conversation.exchange.state, ENDED)

    def test_after_the_end(self) -> None:
        """Nothing is looked at, not even what came along with the last answer."""
        conversation = Conversation().open()
        conversation.get(3)
        told, exchange = conversation.told, conversation.exchange
        with mock.patch.object(Reply, "set", lambda *_: (told.append("ended"), exchange.end())):
            exchange.receive(data_answer(1, b"1") + data_answer(2, b"2") + b"garbage")
        for more in (data_answer(2, b"2"), int_struct.pack(-1)):
            exchange.receive(more)
        self.assertEqual(told, ["ended"])


class TestHandshake(unittest.TestCase):
    def test_what_is_sent(self) -> None:
        conversation = Conversation()
        asked = Connect(0, 7, 9000, SESSION, PASSWORD, True)
        self.assertEqual(conversation.exchange.connect(asked), framed(bytes(asked.serialize())))
        sent = conversation.exchange.credentials({("digest", "b:b"), ("digest", "a:a")})
        sent += conversation.exchange.ask(GetData(PATH, None), lambda found: None)
        kinds = []
        while sent:
            length, xid, kind = REQUEST.unpack_from(sent)
            kinds.append((xid, kind))
            sent = sent[4 + length :]
        self.assertEqual(kinds, [(AUTH_XID, Auth.type), (AUTH_XID, Auth.type), (0, GetData.type)])
        self.assertFalse(conversation.pending)

    def test_in_any_parts(self) -> None:
        others = answer(PING_XID) + event(1, "/a")
        whole = connect_answer() + auth_answer() + others + answer(0, framed(b"b") + STAT, zxid=9)
        for size in range(1, len(whole) + 3):
            with self.subTest(size):
                exchange, found = Conversation().exchange, list[Any]()
                exchange.credentials([("digest", "a:a")])
                exchange.ask(GetData(PATH, None), found.append)
                for begin in range(0, len(whole), size):
                    self.assertFalse(exchange.is_handshake_over)
                    exchange.receive_handshake(whole[begin : begin + size])
                self.assertTrue(exchange.is_handshake_over)
                self.assertEqual((exchange.accepted.session_id, exchange.zxid), (SESSION, 9))
                self.assertEqual([each[0] for each in found], [b"b"])

    def test_what_comes_behind_it(self) -> None:
        """It is kept, a part of an answer too, until requests are open."""
        conversation = Conversation()
        rest = event(1, "/a") + event(2, "/b")[:9]
        conversation.open(rest)
        self.assertTrue(conversation.exchange.has_kept)
        self.assertEqual(conversation.told, [])
        conversation.exchange.receive()
        self.assertEqual(conversation.told, [("event", 1, "/a")])
        conversation.exchange.receive(event(2, "/b")[9:])
        self.assertEqual(conversation.told[1:], [("event", 2, "/b")])
        self.assertFalse(conversation.exchange.has_kept)

    def test_how_it_fails(self) -> None:
        cases: dict[type[Exception], list[bytes]] = {
            SessionExpiredError: [connect_answer(0, 0)],
            AuthFailedError: [connect_answer() + auth_answer(REFUSED)],
            Refused: [
                connect_answer() + auth_answer() + data_answer(0, b"c"),
                connect_answer() + auth_answer() + answer(0, code=NoNodeError.code),
                connect_answer() + auth_answer() + answer(0, code=-999),
            ],
            ConnectionDropped: [
                b"HTTP/1.1 400 Bad Request\r\n\r\n",
                int_struct.pack(-1),
                int_struct.pack(15),
                int_struct.pack(MOST_HANDSHAKE_BYTES + 1),
                framed(bytes(16)),
                connect_answer() + int_struct.pack(-5),
                connect_answer() + answer(7),
                connect_answer() + auth_answer() + answer(0, b"\0"),
                connect_answer() + auth_answer() * 2,  # it was asked for one
            ],
        }
        for kind, answers in cases.items():
            for each in answers:
                with self.subTest(kind=kind, answer=each):
                    conversation = Conversation()
                    conversation.exchange.credentials([("digest", "a:a")])
                    conversation.exchange.ask(GetData(PATH, None), refuse)
                    self.assertIs(type(conversation.feed(each)), kind)

    def test_an_identity_without_a_question(self) -> None:
        conversation = Conversation()
        conversation.exchange.credentials([("digest", "a:a")])
        error = conversation.feed(connect_answer() + data_answer(0, b"b"))
        self.assertEqual(str(error), "an answer to nothing: xid 0")


class TestRequests(unittest.TestCase):
    def test_xids(self) -> None:
        """They go round; credentials have one of their own."""
        conversation = Conversation().open()
        self.assertEqual(conversation.ask(Sync("/"), AUTH, Sync("/")), [1, AUTH_XID, 2])
        conversation.exchange.xid = XID_MAX - 1
        self.assertEqual(conversation.ask(Sync("/"), Sync("/")), [XID_MAX, 1])
        self.assertEqual([xid for _, _, xid in conversation.pending], [1, AUTH_XID, 2, XID_MAX, 1])

    def test_a_ping(self) -> None:
        """It waits for no answer."""
        conversation = Conversation().open()
        self.assertEqual(REQUEST.unpack(conversation.exchange.ping())[1], PING_XID)
        self.assertFalse(conversation.pending)
        conversation.exchange.receive(answer(PING_XID))
        self.assertEqual(conversation.told, [])

    def test_the_last(self) -> None:
        """A close from either side; answers to earlier requests are taken."""
        conversation = Conversation().open()
        conversation.get(1)
        conversation.ask(Close())
        self.assertEqual(conversation.exchange.state, CLOSING)
        self.assertIsInstance(conversation.feed(data_answer(1, b"x") + answer(2)), SessionClosed)
        self.assertEqual(conversation.values(), [b"x"])

    def test_debug(self) -> None:
        with self.assertLogs(LOG, "DEBUG") as logs:
            conversation = Conversation().open()
            conversation.get(2)
            conversation.exchange.receive(data_answer(1, b"x") + answer(2, code=NoNodeError.code))
        words = [
            "Sending request(xid=1): GetData",
            "Sending request(xid=2)",
            "Received response: ",
            "Received error ",
        ]
        for word, line in zip(words, logs.output, strict=True):
            self.assertIn(word, line)


class TestAnswers(unittest.TestCase):
    def test_zxid(self) -> None:
        """Of answers; those to credentials and errors without one have none."""
        conversation = Conversation().open()
        conversation.get(2)
        answers = answer(1, framed(b"") + STAT, zxid=5), answer(2, code=NoNodeError.code, zxid=-1)
        conversation.exchange.receive(b"".join(answers))
        self.assertEqual(conversation.last_zxid, 5)

    def test_watches(self) -> None:
        """They are registered before the reply, and by an exists of what is not there too."""
        conversation = Conversation().open()

        def watch(_: Any) -> None:
            """Not called."""

        conversation.ask(GetData("/a", watch), Exists("/b", watch), GetData("/c", watch), Exists("/d", None))
        no_node = NoNodeError.code
        conversation.exchange.receive(data_answer(1, b"x") + answer(2, code=no_node) + answer(3, code=no_node))
        conversation.exchange.receive(answer(4, code=no_node))
        self.assertEqual(conversation.told[0], ("watch", "/a"))
        self.assertEqual(conversation.told[2:4], [("watch on nothing", "/b"), (1, None)])
        self.assertEqual(conversation.told[4:], [(2, NoNodeError, "/c (ensemble a)"), (3, None)])

    def test_a_programs_own_class(self) -> None:
        """kazoo tells requests apart by their number."""

        class OwnExists(namedtuple("OwnExists", "path watcher")):
            type, serialize = Exists.type, Exists.serialize

        conversation = Conversation().open()
        conversation.ask(OwnExists("/a", conversation))
        conversation.exchange.receive(answer(1, code=NoNodeError.code))
        self.assertEqual(conversation.told, [("watch on nothing", "/a"), (0, None)])

    def test_errors(self) -> None:
        conversation = Conversation().open()
        conversation.ask(SetData("/a", b"", 3), SetData("/a", b"", 3))
        conversation.exchange.receive(answer(1, code=BadVersionError.code) + answer(2, code=-999))
        self.assertEqual(
            conversation.told,
            [(0, BadVersionError, "/a (ensemble a)"), (1, ZookeeperError, "error -999: /a (ensemble a)")],
        )

    def test_paths_of_a_transaction(self) -> None:
        conversation = Conversation().open()
        conversation.ask(Transaction([Create("/a", b"", [], 0)]))
        done = int_struct.pack(-1) + b"\1" + int_struct.pack(-1)
        conversation.exchange.receive(answer(1, int_struct.pack(Create.type) + bytes(5) + framed(b"/a") + done))
        self.assertEqual(conversation.told, [(0, ["unchrooted /a"])])

    def test_an_answer_ends_with_its_frame(self) -> None:
        """What it says itself is longer: it does not get bytes of the next."""
        short = answer(1, int_struct.pack(1000) + b"x")
        for parts in ((short, data_answer(2, bytes(2000))), (short + data_answer(2, bytes(2000)),)):
            with self.subTest(len(parts)), self.assertLogs(LOG, "ERROR"):
                conversation = Conversation().open()
                conversation.get(2)
                conversation.feed(*parts)
                self.assertEqual(conversation.told[0], (0, struct.error, None))
                self.assertEqual(conversation.told[1][1][0], bytes(2000))

    def test_what_is_owed_when_it_ends(self) -> None:
        """Replies do not hear of the end: whoever ends the connection tells them."""
        cases = {
            "an answer to nothing: xid 3": data_answer(1, b"") + data_answer(2, b"") + data_answer(3, b""),
            "no answer to xid 1, but one to xid 2": data_answer(2, b""),
            "expected 1 received 3": data_answer(3, b""),
            "expected 1 received -3": answer(-3),
            "credentials that were not sent": auth_answer(),
            "not ZooKeeper's": int_struct.pack(15),
            "an event that cannot be read": answer(WATCH_XID),
        }
        for text, data in cases.items():
            with self.subTest(text):
                conversation = Conversation().open()
                conversation.get(2)
                LOG.disabled = "event" in text
                error = conversation.feed(data)
                LOG.disabled = False
                self.assertIs(type(error), ConnectionDropped)
                self.assertIn(text, str(error))
                self.assertEqual(len(conversation.pending), 0 if "nothing" in text else 2)

    def test_another_thread_sends_meanwhile(self) -> None:
        """What has come is looked for among the requests that wait, while there are more and more of them."""

        def shared() -> Conversation:
            conversation = Conversation().open()
            conversation.pending = Shared()
            conversation.begin()
            return conversation.open()

        conversation = shared()
        conversation.ask(Sync("/"), AUTH)
        self.assertIsNone(conversation.feed(auth_answer()))
        self.assertEqual(conversation.told, [(1, True)])
        conversation = shared()
        conversation.get(2)
        self.assertIn("no answer to xid 1, but one to xid 2", str(conversation.feed(data_answer(2, b""))))


class TestSuspects(unittest.TestCase):
    """Which requests may have been too large for the server that has ended the connection."""

    def setUp(self) -> None:
        self.conversation = Conversation().open()

    def ask(self, *sizes: int) -> list[int]:
        return self.conversation.ask(*(SetData("/a", bytes(size), -1) for size in sizes))

    def ended(self, by_server: bool = True, lives: bool = True) -> list[int]:
        """The suspects, if the server lives."""
        sizes = self.conversation.sizes
        suspects = sizes.ended(by_server=by_server)
        self.assertGreaterEqual(sizes.is_in_doubt, bool(suspects))
        sizes.tried(lives=lives)
        self.assertFalse(sizes.is_in_doubt)
        return list(suspects)

    def answer(self, xid: int) -> None:
        self.conversation.exchange.receive(answer(xid, STAT))

    def test_above_the_default(self) -> None:
        """Not the small ones around it, nor one that just fits: all but the value takes 22 bytes."""
        _, large, _, _, larger = self.ask(10, DEFAULT_LIMIT - 21, 10, DEFAULT_LIMIT - 22, 2 * DEFAULT_LIMIT)
        self.assertEqual(self.ended(), [large, larger])
        self.assertEqual(self.ended(), [])

    def test_the_network_ends_it(self) -> None:
        self.ask(2 * DEFAULT_LIMIT)
        self.assertEqual(self.ended(by_server=False), [])

    def test_servers_that_take_more(self) -> None:
        (xid,) = self.ask(3 * DEFAULT_LIMIT)
        self.answer(xid)
        _, larger = self.ask(2 * DEFAULT_LIMIT, 4 * DEFAULT_LIMIT)
        self.assertEqual(self.ended(), [larger])

    def test_servers_that_take_less(self) -> None:
        for _ in range(TIMES - 1):
            self.ask(10, 200_000)
            self.assertEqual(self.ended(), [])
            self.assertTrue(self.answers_as_large_as(100_000))
        _, _, again = self.ask(10, 100_001, 200_000)
        self.assertEqual(self.ended(), [again])

    def answers_as_large_as(self, size: int) -> bool:
        """On the next connection."""
        self.conversation.pending.clear()
        (xid,) = self.ask(size)
        self.answer(xid)
        return not self.conversation.sizes.unanswered

    def test_what_comes_in_between(self) -> None:
        """An answer to a request so large, another ending, or a server that does not live: the count is from 0."""
        between: dict[str, Callable[[], object]] = {
            "an answer": lambda: self.answers_as_large_as(200_000),
            "nothing large": lambda: self.ask(10) and self.ended(),
            "the network": lambda: self.ask(200_001) and self.ended(by_server=False),
            "a dead server": lambda: self.ask(200_001) and self.ended(lives=False),
            "an attempt in vain": lambda: self.conversation.sizes.tried(lives=False),
        }
        for name, happens in between.items():
            with self.subTest(name):
                self.conversation = Conversation().open()
                for _ in range(TIMES - 1):
                    self.ask(200_000)
                    self.ended()
                happens()
                for _ in range(TIMES - 1):
                    self.ask(200_001)
                    self.assertEqual(self.ended(), [])
                (xid,) = self.ask(200_001)
                self.assertEqual(self.ended(), [xid])

    def test_servers_that_die(self) -> None:
        """No number of their endings tells anything of a request."""
        for _ in range(3 * TIMES):
            self.ask(200_000)
            self.assertEqual(self.ended(lives=False), [])

    def test_larger_ones_do_not_count(self) -> None:
        for _ in range(2 * TIMES):
            self.assertEqual(self.ask(2 * DEFAULT_LIMIT), self.ended())
        self.ask(200_000)
        self.assertEqual(self.ended(), [])


class TestSize(unittest.TestCase):
    """Each byte is copied a few times, in however many parts it comes: the time is linear."""

    def copied(self, stream: bytes, size: int, count: int) -> float:
        """Bytes that are joined or put back, to each byte that comes."""
        total = 0
        take, put_back = Frames.take, Frames.put_back

        def count_taken(frames: Frames) -> bytes:
            nonlocal total
            data = take(frames)
            total += len(data)
            return data

        def count_put_back(frames: Frames, rest: bytes) -> None:
            nonlocal total
            total += len(rest)
            put_back(frames, rest)

        with mock.patch.multiple(Frames, take=count_taken, put_back=count_put_back):
            conversation = Conversation().open()
            conversation.get(count)
            for begin in range(0, len(stream), size):
                conversation.exchange.receive(stream[begin : begin + size])
        self.assertEqual(len(conversation.told), count)
        self.assertFalse(conversation.exchange.has_kept)
        return total / len(stream)

    def test_one_large_answer(self) -> None:
        for power in (16, 20, 24):
            stream = data_answer(1, bytes(1 << power)) + data_answer(2, b"small")
            for size in (PART // 16, PART, len(stream)):
                with self.subTest(power=power, size=size):
                    self.assertLess(self.copied(stream, size, 2), 2.2)

    def test_byte_by_byte(self) -> None:
        stream = b"".join(data_answer(number + 1, bytes(100)) for number in range(100))
        self.assertLess(self.copied(stream, 1, 100), 2.2)

    def test_many_answers(self) -> None:
        stream = b"".join(data_answer(number + 1, bytes(100)) for number in range(5000))
        for size in (1000, PART, len(stream)):
            with self.subTest(size):
                self.assertLess(self.copied(stream, size, 5000), 2.2)

    def test_kept_after_a_large_one(self) -> None:
        """What is whole is taken, however large the last answer was."""
        conversation = Conversation().open()
        conversation.get(2)
        large = data_answer(1, bytes(PART))
        conversation.feed(large[:-1], large[-1:])
        conversation.exchange.keep(data_answer(2, b"small"))
        conversation.exchange.receive()
        self.assertEqual(conversation.values()[1:], [b"small"])

    def test_behind_a_gate(self) -> None:
        """What was kept is joined when it is taken, and not before."""
        conversation = Conversation().open()
        conversation.get(1)
        stream = data_answer(1, bytes(PART * 5))
        with mock.patch.object(Frames, "take", autospec=True, side_effect=Frames.take) as take:
            for begin in range(0, len(stream), 1000):
                conversation.exchange.keep(stream[begin : begin + 1000])
            take.assert_not_called()
            self.assertEqual(conversation.told, [])
            conversation.exchange.receive()
            take.assert_called_once()
        self.assertEqual(len(conversation.values()[0]), PART * 5)
