"""Whatever a server says, and in whatever parts it comes: the same answers, and one clear end.

PARKAZOO_FUZZ is the number of examples of each test, as in tests/arbitrary.py.
"""

from __future__ import annotations

import unittest
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from kazoo.exceptions import ConnectionDropped, NoNodeError

from parkazoo.kazoo_private import (
    AUTH_XID,
    PING_XID,
    WATCH_XID,
    Create,
    Delete,
    Exists,
    GetACL,
    GetChildren,
    GetChildren2,
    GetData,
    SetData,
    Sync,
    Transaction,
    int_int_struct,
    int_struct,
)
from parkazoo.wire.exchange import ENDED, XID_MAX
from tests.arbitrary import fuzzed
from tests.fakes.conversation import (
    AUTH,
    LOG,
    PATH,
    REFUSED,
    STAT,
    Conversation,
    answer,
    auth_answer,
    connect_answer,
    data_answer,
    framed,
)

REQUESTS: tuple[Any, ...] = (
    GetData("/a", None), Exists("/a", print), Create("/a", b"", [], 0), Delete("/a", -1), SetData("/a", b"", -1),
    GetACL("/a"), GetChildren("/a", print), GetChildren2("/a", None), Sync("/a"), AUTH,
    Transaction([Create("/a", b"", [], 0), Delete("/b", 0)]),
)  # fmt: skip
XIDS = st.one_of(st.integers(1, 6), st.sampled_from([WATCH_XID, PING_XID, AUTH_XID, 0, -3, XID_MAX]))
CODES = st.sampled_from([0, 0, 0, NoNodeError.code, REFUSED, -999, 1])
BODIES = st.one_of(
    st.binary(max_size=40),
    st.binary(max_size=40).map(lambda data: framed(data) + STAT),
    st.just(STAT),
    st.just(int_struct.pack(1000) + STAT),
    st.text(max_size=5).map(lambda path: int_int_struct.pack(1, 3) + framed(path.encode())),
)
ANSWERS = st.builds(lambda xid, body, code: answer(xid, body, code=code), XIDS, BODIES, CODES)
LENGTHS = st.sampled_from([-(1 << 31), -1, 0, 15, 16, 20, 1 << 20, (1 << 31) - 1]).map(int_struct.pack)
STREAMS = st.lists(st.one_of(ANSWERS, ANSWERS, ANSWERS, LENGTHS, st.binary(max_size=30)), max_size=8).map(b"".join)
HANDSHAKES = st.lists(
    st.one_of(
        st.just(connect_answer()),
        st.just(connect_answer(0, 0)),
        st.just(auth_answer()),
        st.just(data_answer(0, b"b")),
        ANSWERS,
        LENGTHS,
        st.binary(max_size=30),
    ),
    max_size=6,
).map(b"".join)
CUTS = st.lists(st.integers(0, 600), max_size=12)


def cut(stream: bytes, cuts: list[int]) -> list[bytes]:
    ends = sorted({min(each, len(stream)) for each in cuts} | {len(stream)})
    return [stream[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


class TestParts(unittest.TestCase):
    def setUp(self) -> None:
        LOG.disabled = True  # it tells of each answer that cannot be read
        self.addCleanup(setattr, LOG, "disabled", False)

    def outcome(self, conversation: Conversation, parts: list[bytes]) -> list[Any]:
        error = conversation.feed(*parts)
        self.assertEqual(conversation.exchange.state == ENDED, error is not None)
        waiting = [(request, xid) for request, _, xid in conversation.pending]
        return [conversation.told, type(error), str(error), conversation.last_zxid, waiting]

    @given(st.lists(st.sampled_from(REQUESTS), max_size=6), STREAMS, CUTS, st.booleans())
    @example([GetData("/a", None)] * 2, answer(1, int_struct.pack(1000)) + data_answer(2, b"x"), [40], False)
    @fuzzed
    def test_requests(self, requests: list[Any], stream: bytes, cuts: list[int], is_closing: bool) -> None:
        """The same bytes have the same answers and the same end, in whatever parts they come."""
        outcomes = []
        for parts in ([stream], cut(stream, cuts), [bytes([each]) for each in stream]):
            conversation = Conversation().open()
            conversation.ask(*requests)
            if is_closing:
                conversation.exchange.close()
            outcomes.append(self.outcome(conversation, parts))
        self.assertEqual(outcomes[0], outcomes[1])
        self.assertEqual(outcomes[0], outcomes[2])

    @given(st.booleans(), st.booleans(), HANDSHAKES, CUTS)
    @fuzzed
    def test_handshake(self, has_auth: bool, has_question: bool, stream: bytes, cuts: list[int]) -> None:
        outcomes = []
        for parts in ([stream], cut(stream, cuts), [bytes([each]) for each in stream]):
            conversation = Conversation()

            def take(found: Any, conversation: Conversation = conversation) -> None:
                conversation.told.append(repr(found))
                if isinstance(found, Exception) or found[0] != b"b":
                    raise ConnectionDropped("another")

            conversation.exchange.credentials([("digest", "a:a")] * has_auth)
            if has_question:
                conversation.exchange.ask(GetData(PATH, None), take)
            outcome, exchange = self.outcome(conversation, parts), conversation.exchange
            outcomes.append([*outcome, exchange.is_handshake_over, exchange.zxid])
        self.assertEqual(outcomes[0], outcomes[1])
        self.assertEqual(outcomes[0], outcomes[2])

    @given(st.binary(max_size=200))
    @fuzzed
    def test_any_bytes(self, stream: bytes) -> None:
        """Of whatever is no ZooKeeper server."""
        for conversation in (Conversation(), Conversation().open()):
            self.outcome(conversation, [stream])
