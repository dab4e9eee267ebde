"""Bytes of programs, and the bytes that they get."""

from __future__ import annotations

import random
import unittest
from contextlib import suppress
from typing import Any

from kazoo.exceptions import BadVersionError, NoNodeError, RolledBackError, RuntimeInconsistency
from kazoo.protocol.states import EventType, ZnodeStat
from kazoo.security import OPEN_ACL_UNSAFE, Id

from parkazoo.errors import CrossEnsembleError, RequestTooLargeError
from parkazoo.gateway import program_replies as replies
from parkazoo.gateway import program_requests as requests
from parkazoo.gateway.program_bytes import MOST_FRAME_BYTES, FrameError, FrameReader, Incoming
from parkazoo.gateway.program_requests import READERS, RefusedError, placed
from parkazoo.kazoo_private import (
    CheckVersion,
    Connect,
    Create,
    Create2,
    Delete,
    Exists,
    GetACL,
    GetChildren,
    GetChildren2,
    GetData,
    SetACL,
    SetData,
    Sync,
    Transaction,
    Watch,
    int_struct,
)
from parkazoo.protocol.newer_requests import (
    CreateContainer,
    CreateContainerIfAble,
    CreateTTL,
    GetEphemerals,
    WhoAmI,
    write_text,
)
from parkazoo.protocol.steps import Question
from parkazoo.wire.frames import ANSWER

STAT = ZnodeStat(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
ACL = list(OPEN_ACL_UNSAFE)


def frame(body: bytes) -> bytes:
    return bytes(int_struct.pack(len(body))) + body


class TestIncoming(unittest.TestCase):
    def taken(self, *parts: bytes) -> list[bytes]:
        incoming, found = Incoming(), []
        for part in parts:
            incoming.add(part)
            found += incoming.take()
        return found

    def test_cut_anywhere_and_joined(self) -> None:
        bodies = [b"", b"a", b"x" * 1000, b"\0" * 4]
        data = b"".join(map(frame, bodies))
        self.assertEqual(self.taken(data), bodies)
        self.assertEqual(self.taken(*(data[at : at + 1] for at in range(len(data)))), bodies)
        for at in range(len(data)):
            self.assertEqual(self.taken(data[:at], data[at:]), bodies)
        self.assertEqual(self.taken(data[:-1]), bodies[:-1])

    def test_lengths(self) -> None:
        for length in (-1, -(1 << 31), MOST_FRAME_BYTES + 1, (1 << 31) - 1):
            with self.assertRaises(FrameError):
                self.taken(bytes(int_struct.pack(length)))
        self.assertEqual(len(self.taken(frame(bytes(MOST_FRAME_BYTES)))[0]), MOST_FRAME_BYTES)

    def test_frames_before_a_wrong_one(self) -> None:
        incoming = Incoming()
        incoming.add(frame(b"a") + b"\xff" * 4)
        taking = incoming.take()
        self.assertEqual(next(taking), b"a")
        with self.assertRaises(FrameError):
            next(taking)

    def test_head(self) -> None:
        incoming = Incoming()
        for part in (b"ru", b"ok", b"x"):
            incoming.add(part)
        self.assertEqual(incoming.head, b"ruok")


class TestFields(unittest.TestCase):
    def test_what_ends_too_early(self) -> None:
        for read in ("number", "long", "flag", "buffer", "text", "texts", "acls"):
            with self.assertRaises(FrameError):
                getattr(FrameReader(b""), read)()
        for data in (int_struct.pack(5) + b"abcd", int_struct.pack(-2), int_struct.pack(1) + b"\xff"):
            with self.assertRaises(FrameError):
                FrameReader(data).text()

    def test_long_lists(self) -> None:
        with self.assertRaises(FrameError):
            FrameReader(int_struct.pack((1 << 31) - 1)).texts()
        self.assertEqual(FrameReader(int_struct.pack(-1)).texts(), [])

    def test_none(self) -> None:
        self.assertIsNone(FrameReader(int_struct.pack(-1)).buffer())


class TestRequests(unittest.TestCase):
    """A request of kazoo's, written by kazoo, is read as it was."""

    def check(self, request: Any, chroot: str = "") -> Any:
        asked = READERS[request.type](FrameReader(bytes(request.serialize())), chroot)
        return asked.request

    def test_each(self) -> None:
        for request in (
            *(Create("/a", data, ACL, flags) for data in (b"1", b"", None) for flags in range(4)),
            Create2("/a", b"1", ACL, 3),
            CreateContainerIfAble("/a", b"1", ACL, 0),
            CreateTTL("/a", b"1", ACL, 0, 5000),
            CreateTTL("/a-", b"1", ACL, 2, 1 << 39),
            Delete("/a/b", 7),
            Exists("/a", None),
            GetData("/ä", None),
            SetData("/a", b"1", -1),
            SetData("/a", None, 3),
            GetACL("/"),
            SetACL("/a", ACL, 2),
            GetChildren("/", None),
            GetChildren2("/a", None),
            Sync("/a"),
            GetEphemerals("/"),
            WhoAmI(),
            Transaction(
                [Create("/a", b"", ACL, 2), Delete("/b", 1), SetData("/c", b"1", 2), CheckVersion("/d", 3)]
            ),
            Transaction([]),
        ):
            with self.subTest(request):
                found = self.check(request)
                self.assertIs(type(found), type(request))
                self.assertEqual(bytes(found.serialize()), bytes(request.serialize()))

    def test_watches(self) -> None:
        for kind in (Exists, GetData, GetChildren, GetChildren2):
            for watcher in (None, print):
                asked = READERS[kind.type](FrameReader(bytes(kind("/a", watcher).serialize())), "")
                self.assertEqual((asked.watches, asked.path), (watcher is not None, "/a"))

    def test_ephemerals(self) -> None:
        """A client is asked for all, whatever the text in front of them."""
        for text in ("/", "/a", "a/", ""):
            asked = READERS[GetEphemerals.type](FrameReader(bytes(GetEphemerals(text).serialize())), "/app")
            self.assertEqual((asked.request, asked.path), (GetEphemerals("/app"), text))

    def test_a_chroot(self) -> None:
        self.assertEqual(self.check(Delete("/a", 1), "/app").path, "/app/a")
        self.assertEqual(self.check(GetACL("/"), "/app").path, "/app")
        self.assertEqual(
            [each.path for each in self.check(Transaction([Delete("/a", 1)]), "/x").operations], ["/x/a"]
        )

    def test_paths(self) -> None:
        for path in ("/", "/a", "/a.b/c", "/...", "/a/.b", "/ä"):
            self.assertEqual(placed("", path), path)
        self.assertEqual(placed("", "/a/", 2), "/a/")  # a name that is a number alone
        for path in ("", "a", "/a/", "//", "/a//b", "/.", "/a/..", "/./a", "/a\0", "/../a"):
            with self.assertRaises(RefusedError) as refused:
                placed("", path)
            self.assertEqual(refused.exception.code, requests.BAD_ARGUMENTS)

    def test_refused(self) -> None:
        container = Transaction([CreateContainer("/a", b"", ACL, 0)])
        reconfig = b"".join((int_struct.pack(16), b"\0", int_struct.pack(-1)))
        for kind, body in (
            (Create.type, Create("/a", b"", ACL, 9).serialize()),
            (Create.type, Create("/a", b"", ACL, -1).serialize()),
            (CreateTTL.type, CreateTTL("/a", b"", ACL, 0, 0).serialize()),
            (Transaction.type, container.serialize()),
            (Transaction.type, reconfig),
        ):
            with self.assertRaises(RefusedError):
                READERS[kind](FrameReader(bytes(body)), "")

    def test_garbage_is_refused_or_read(self) -> None:
        """Nothing else is raised, whatever the bytes."""
        chance = random.Random(1)
        whole = [bytes(Create("/abc", b"12", ACL, 1).serialize()), bytes(SetACL("/abc", ACL, 2).serialize())]
        for _ in range(3000):
            data = bytearray(chance.choice(whole))
            for _ in range(chance.randrange(4)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            data = data[: chance.randrange(len(data) + 1)]
            for reader in READERS.values():
                with suppress(FrameError, RefusedError):
                    reader(FrameReader(bytes(data)), "")


class TestReplies(unittest.TestCase):
    """kazoo reads what is written."""

    def check(self, request: Question[Any], answer: Any, write: Any = None) -> None:
        written = replies.write_reply(7, 9, (write or replies.REPLY_WRITERS[request.type])(answer))
        self.assertEqual(ANSWER.unpack_from(written), (len(written) - 4, 7, 9, 0))
        self.assertEqual(request.deserialize(written, ANSWER.size), answer)

    def test_each(self) -> None:
        self.check(Create("/a", b"", ACL, 0), "/ä")
        self.check(Create2("/a", b"", ACL, 0), ("/a", STAT))
        self.check(Exists("/a", None), STAT)
        for value in (b"1", b""):
            self.check(GetData("/a", None), (value, STAT))
        self.check(SetData("/a", b"", 0), STAT)
        self.check(GetACL("/a"), (ACL, STAT))
        self.check(SetACL("/a", ACL, 0), STAT)
        self.check(GetChildren("/a", None), ["a", "ö"])
        self.check(GetChildren2("/a", None), (["a"], STAT))
        self.check(Sync("/a"), "/a")
        self.check(GetEphemerals("/"), ["/a", "/b"])
        self.check(WhoAmI(), [Id("ip", "1"), Id("digest", "u")])

    def test_multi(self) -> None:
        request = Transaction(
            [Create("/a", b"", ACL, 0), Delete("/b", 1), SetData("/c", b"", 2), CheckVersion("/d", 3)]
        )
        answer = ["/a", True, STAT, True]
        self.check(request, answer, lambda results: replies.write_multi(request, results))
        errors = [RolledBackError(), RolledBackError(), BadVersionError(), RuntimeInconsistency()]
        written = replies.write_multi(request, errors)
        found = Transaction.deserialize(written, 0)
        self.assertEqual([type(each) for each in found], [type(each) for each in errors])
        reader = FrameReader(written)
        for code in (0, 0, -103, -2):
            self.assertEqual(
                [reader.number(), reader.flag(), reader.number(), reader.number()], [-1, False, code, code]
            )

    def test_multi_read(self) -> None:
        answers = ((4, (b"1", STAT)), (8, ["a"]), (4, NoNodeError()))
        written = b"".join(replies.write_read(*each) for each in answers)
        reader = FrameReader(written + replies.END_OF_MULTI)
        self.assertEqual((reader.number(), reader.flag(), reader.number(), reader.buffer()), (4, False, 0, b"1"))
        reader.take(68)
        self.assertEqual((reader.number(), reader.flag(), reader.number(), reader.texts()), (8, False, 0, ["a"]))
        self.assertEqual(
            (reader.number(), reader.flag(), reader.number(), reader.number()), (-1, False, -101, -101)
        )
        self.assertEqual((reader.number(), reader.flag(), reader.number(), reader.is_at_end), (-1, True, -1, True))

    def test_a_missing_stat(self) -> None:
        with self.assertRaises(NoNodeError):
            replies.REPLY_WRITERS[Exists.type](None)

    def test_events(self) -> None:
        codes = {EventType.CREATED: 1, EventType.DELETED: 2, EventType.CHANGED: 3, EventType.CHILD: 4}
        for kind, code in codes.items():
            written = replies.write_event(kind, "/a")
            self.assertEqual(ANSWER.unpack_from(written), (len(written) - 4, -1, -1, 0))
            self.assertEqual(Watch.deserialize(written, ANSWER.size)[0], Watch(code, 3, "/a"))

    def test_connected(self) -> None:
        for says_read_only in (False, True):
            written = replies.write_connected(4000, -5, bytes(16), says_read_only=says_read_only)
            self.assertEqual(len(written), 40 + says_read_only)
            found, _ = Connect.deserialize(written, 4)
            self.assertEqual((found.time_out, found.session_id, found.passwd), (4000, -5, bytes(16)))

    def test_codes(self) -> None:
        for error, code in (
            (NoNodeError(), -101),
            (RolledBackError(), 0),
            (RequestTooLargeError(), -4),
            (CrossEnsembleError([("create", "/a", "a")]), -8),
            (ValueError(), -8),
        ):
            self.assertEqual(replies.code_of(error), code)

    def test_text(self) -> None:
        self.assertEqual(FrameReader(write_text("/ä")).text(), "/ä")
