"""What bare sockets say and hear, byte by byte. The bytes of etcd are 3.4.23's own."""

from __future__ import annotations

import struct
import unittest
from typing import Any

from bench.bare_requests import CONNECTED, REPLY, BareError, frame, get_data, set_data, text
from bench.load.etcd_wire import (
    ACK,
    DATA,
    FIRST_WINDOW,
    GOAWAY,
    HEADERS,
    MOST_HEARD,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    EtcdWire,
    make_frame,
    make_put,
    make_range,
)
from bench.load.plan import Plan, PlanError
from bench.load.requests import CREATE, GET, SET, Request
from bench.load.zookeeper_wire import SYNC, ZooKeeperWire

WRITE, READ = Request(SET, 0, "/a/leaf0"), Request(GET, 0, "/a/leaf0")
VALUE = b"x" * 32
# Its settings, the acknowledgement of ours, room for 49 bytes more, a ping, and the answer to a first put.
FIRST = bytes.fromhex(
    "00000c0400000000000005000040000003ffffffff0000000401000000000000040800000000000000003100000806000000"
    "000002041010090e070700001001040000000120880f108b1d75d0620d263d4c4d6564000020000000000001000000001b0a"
    "1908f187e1a6d3c4a189e20110c0e5c2c2e2dff6953c1802200200001801050000000100889acac8b21234da8f013000899a"
    "cac8b5254207317f00"
)
SECOND_PUT = bytes.fromhex(
    "00000f010400000003880f108b1d75d0620d263d4c4d6564000020000000000003000000001b0a1908f187e1a6d3c4a189e2"
    "0110c0e5c2c2e2dff6953c1803200200001801050000000300889acac8b21234da8f013000899acac8b5254207317f00"
)
RANGE = bytes.fromhex(
    "00000f010400000005880f108b1d75d0620d263d4c4d656400005600000000000500000000510a1908f187e1a6d3c4a189e2"
    "0110c0e5c2c2e2dff6953c1803200212320a082f612f6c656166301002180320022a20787878787878787878787878787878"
    "7878787878787878787878787878787878200100001801050000000500889acac8b21234da8f013000899acac8b525420731"
    "7f00"
)
# grpc-status 3: a put without a key.
REFUSED = bytes.fromhex(
    "00003e010500000009880f108b1d75d0620d263d4c4d656400889acac8b21234da8f013300899acac8b5254207317f972a49"
    "220b6772d9714ea5f4a190a5474a95d87ee690b27f"
)


def answer(number: int, error: int = 0, body: bytes = b"") -> bytes:
    """Of a ZooKeeper server."""
    return REPLY.pack(REPLY.size - 4 + len(body), number, 7, error) + body


class TestEtcd(unittest.TestCase):
    def setUp(self) -> None:
        self.wire = EtcdWire(VALUE, is_linearizable=True)

    def frames(self, data: bytes) -> list[tuple[int, int, int, bytes]]:
        """Type, flags, stream and content of each."""
        found = []
        while data:
            length = int.from_bytes(data[:3], "big")
            found.append((data[3], data[4], int.from_bytes(data[5:9], "big"), data[9 : 9 + length]))
            data = data[9 + length :]
        return found

    def sent(self) -> list[tuple[int, int, int, bytes]]:
        return self.frames(self.wire.outgoing().removeprefix(PREFACE))

    def test_begins_with_settings(self) -> None:
        data = self.wire.outgoing()
        self.assertTrue(data.startswith(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
        settings, window = self.frames(data.removeprefix(PREFACE))
        self.assertEqual(struct.unpack(">HIHIHI", settings[3]), (1, 0, 2, 0, 4, 2**31 - 1))
        self.assertEqual(window, (WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**31 - 1 - FIRST_WINDOW)))
        self.assertEqual(self.wire.outgoing(), b"")

    def test_requests(self) -> None:
        """As the server has understood them: this is what it was asked when it said what is above."""
        self.wire.outgoing()
        self.assertEqual([self.wire.ask(each) for each in (WRITE, WRITE, READ)], [1, 3, 5])
        sent = self.sent()
        self.assertEqual([each[:3] for each in sent[::2]], [(HEADERS, 4, 1), (HEADERS, 4, 3), (HEADERS, 4, 5)])
        self.assertEqual([each[:3] for each in sent[1::2]], [(DATA, 1, 1), (DATA, 1, 3), (DATA, 1, 5)])
        put, ranged = sent[1][3], sent[5][3]
        self.assertEqual(put, b"\0\0\0\0\x2c\n\x08/a/leaf0\x12 " + VALUE)
        self.assertEqual(ranged, b"\0\0\0\0\n\n\x08/a/leaf0")
        self.assertIn(b"\x14/etcdserverpb.KV/Put", sent[0][3])
        self.assertIn(b"\x16/etcdserverpb.KV/Range", sent[4][3])

    def test_messages(self) -> None:
        self.assertEqual(make_put(b"k", b"v" * 300), b"\n\x01k\x12\xac\x02" + b"v" * 300)
        self.assertEqual(make_range(b"k", is_linearizable=False), b"\n\x01k\x38\x01")

    def test_answers(self) -> None:
        """However they come: all at once, or a byte at a time."""
        for step in (1000, 7, 1):
            with self.subTest(step):
                self.setUp()
                data = FIRST + SECOND_PUT + RANGE
                parts = [data[at : at + step] for at in range(0, len(data), step)]
                self.assertEqual(
                    [each for part in parts for each in self.wire.hear(part)], [(1, ""), (3, ""), (5, "")]
                )
                self.wire.ask(READ)
                told = [each for each in self.sent() if each[1] == ACK and each[0] != DATA]
                self.assertEqual(
                    told, [(SETTINGS, ACK, 0, b""), (PING, ACK, 0, bytes.fromhex("02041010090e0707"))]
                )

    def test_answers_among_each_other(self) -> None:
        """A server may send frames of two answers in turns: each answer ends with its own trailer."""
        one, other = (self.split(each) for each in (SECOND_PUT, RANGE))
        for order, ends in (
            ([one[0], other[0], other[1], other[2], one[1], one[2]], [5, 3]),
            ([other[0], one[0], other[1], one[1], one[2], other[2]], [3, 5]),
            ([one[0], one[1], other[0], one[2], other[1], other[2]], [3, 5]),
            ([one[0], other[0], one[1], one[2], other[1], other[2]], [3, 5]),
            ([one[0], other[0], one[2], other[1], other[2]], [3, 5]),  # the first without DATA
        ):
            self.assertEqual([stream for stream, _ in EtcdWire(VALUE, True).hear(b"".join(order))], ends)

    def split(self, data: bytes) -> list[bytes]:
        """An answer, by its frames."""
        return [make_frame(*each) for each in self.frames(data)]

    def test_refused(self) -> None:
        ((stream, error),) = self.wire.hear(REFUSED)
        self.assertEqual(stream, 9)
        self.assertIn(b"\x013".hex(), error)

    def test_a_whole_answer_that_is_an_error(self) -> None:
        """Of the very length of a success."""
        ((stream, error),) = self.wire.hear(SECOND_PUT.replace(b"\x8f\x010", b"\x8f\x014"))
        self.assertEqual((stream, bool(error)), (3, True))

    def test_a_stream_that_is_reset(self) -> None:
        ((stream, error),) = self.wire.hear(make_frame(RST_STREAM, 0, 3, bytes(4)))
        self.assertEqual((stream, error), (3, "the server resets the stream"))

    def test_the_end(self) -> None:
        with self.assertRaisesRegex(BareError, "ends the connection"):
            self.wire.hear(make_frame(GOAWAY, 0, 0, bytes(8)))
        self.assertEqual(self.frames(self.wire.end())[0][0], GOAWAY)

    def test_the_servers_window(self) -> None:
        """What it has no room for waits, in order."""
        self.wire = EtcdWire(b"x" * 16_000, is_linearizable=True)
        self.wire.outgoing()
        for _ in range(6):
            self.wire.ask(WRITE)
        first = [each for each in self.sent() if each[0] == DATA]
        size = len(first[0][3])
        self.assertEqual([each[2] for each in first], [1, 3, 5, 7])
        self.wire.hear(make_frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", 2 * size)))  # of a stream alone
        self.assertEqual(self.sent(), [])
        self.wire.hear(make_frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", size)))
        self.assertEqual([each[2] for each in self.sent() if each[0] == DATA], [9])
        self.wire.ask(READ)  # it would have room, but its turn has not come
        self.assertEqual(self.sent(), [])

    def test_our_window(self) -> None:
        self.wire.outgoing()
        content = bytes(16_384)
        for count in range(MOST_HEARD // len(content) + 1):
            self.assertEqual(self.sent(), [], count)
            self.wire.hear(make_frame(DATA, 0, 1, content))
        self.wire.ask(READ)
        kind, _, stream, told = self.sent()[-1]
        self.assertEqual(
            (kind, stream, struct.unpack(">I", told)), (WINDOW_UPDATE, 0, (MOST_HEARD + len(content),))
        )
        self.assertEqual(self.wire.hear(SECOND_PUT), [(3, "")])
        self.assertEqual(self.sent(), [])


class TestZooKeeper(unittest.TestCase):
    def wire(self, *, is_linearizable: bool = False) -> ZooKeeperWire:
        wire = ZooKeeperWire(VALUE, is_linearizable)
        wire.outgoing()
        wire.hear(CONNECTED.pack(CONNECTED.size - 4, 0, 60_000, 1, 16, bytes(16)))
        return wire

    def test_requests_wait_for_the_session(self) -> None:
        wire = ZooKeeperWire(VALUE, is_linearizable=False)
        self.assertTrue(wire.outgoing())
        number = wire.ask(WRITE)
        self.assertEqual(wire.outgoing(), b"")
        answered = CONNECTED.pack(CONNECTED.size - 4, 0, 60_000, 1, 16, bytes(16))
        self.assertEqual(wire.hear(answered[:9]) + wire.hear(answered[9:]), [])
        self.assertEqual(wire.outgoing(), frame(number, *set_data(WRITE.path, VALUE)))

    def test_no_session(self) -> None:
        wire = ZooKeeperWire(VALUE, is_linearizable=False)
        with self.assertRaisesRegex(BareError, "no session"):
            wire.hear(CONNECTED.pack(CONNECTED.size - 4, 0, 0, 0, 16, bytes(16)))

    def test_answers(self) -> None:
        wire = self.wire()
        first, second = wire.ask(WRITE), wire.ask(READ)
        self.assertTrue(wire.outgoing().endswith(frame(second, *get_data(READ.path))))
        data = answer(first, body=bytes(80)) + answer(second, -101)
        found = [each for at in range(len(data)) for each in wire.hear(data[at : at + 1])]
        self.assertEqual(found, [(first, ""), (second, "error -101")])

    def test_that_a_znode_is_there_is_no_error(self) -> None:
        wire = self.wire()
        number = wire.ask(Request(CREATE, 0, "/a"))
        self.assertEqual(wire.hear(answer(number, -110)), [(number, "")])

    def test_a_sync_before_each_read(self) -> None:
        wire = self.wire(is_linearizable=True)
        number = wire.ask(READ)
        both = frame(number - 1, SYNC, text(READ.path)) + frame(number, *get_data(READ.path))
        self.assertEqual(wire.outgoing(), both)
        self.assertEqual(wire.hear(answer(number - 1, body=text(READ.path)) + answer(number)), [(number, "")])
        wire.ask(WRITE)
        self.assertEqual(wire.outgoing(), frame(number + 2, *set_data(WRITE.path, VALUE)))

    def test_a_sync_that_fails(self) -> None:
        wire = self.wire(is_linearizable=True)
        number = wire.ask(READ)
        self.assertEqual(wire.hear(answer(number - 1, -4)), [(number, "error -4")])

    def test_the_end(self) -> None:
        self.assertEqual(self.wire().end(), frame(0, -11))


class TestPlans(unittest.TestCase):
    def plan(self, **entries: Any) -> Plan:
        base = {"system": "etcd", "hosts": "a:1", "root": "/r", "name": "n", "write": "set"}
        return Plan(**{**base, **entries})

    def test_what_bare_sockets_can_do(self) -> None:
        self.plan(hosts="a:1,b:1;c:1", ensembles=2, is_linearizable=True)
        self.plan(system="zookeeper", rate_s=10)

    def test_what_they_cannot(self) -> None:
        for entries, said in (
            ({"nodes": 2}, "for one process of one node"),
            ({"processes": 2}, "for one process of one node"),
            ({"write": "create-delete"}, "for sets and reads"),
            ({"is_hashed": True}, "spread evenly"),
            ({"rate_s": 9, "pool": 9}, "without pool and chain"),
            ({"rate_s": 9, "chain": 2}, "without pool and chain"),
            ({"size": 16_001}, "at most 16000 bytes"),
            ({"hosts": "a:1;b:1"}, "hosts has 2 ensembles; ensembles is 1"),
            ({"system": "parkazoo", "is_linearizable": True}, "system must be one of zookeeper, etcd then"),
        ):
            with self.subTest(entries), self.assertRaisesRegex(PlanError, said):
                self.plan(**entries)
