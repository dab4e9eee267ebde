"""A connection that carries requests, over a socket pair: no server, no threads, a clock of the test's own."""

from __future__ import annotations

import socket
import unittest
from contextlib import suppress
from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    ConnectionDropped,
    ConnectionLoss,
    NoNodeError,
    SessionExpiredError,
)
from kazoo.protocol.states import KeeperState

from parkazoo.kazoo_private import PING_XID, WATCH_XID, Auth, Connect, Exists, GetData, SetData, int_struct
from parkazoo.protocol.placement import PIN
from parkazoo.wire import connection as connection_module
from parkazoo.wire import link as link_module
from parkazoo.wire.attempt import ConnectAttempt, Steps
from parkazoo.wire.dialogue import receive_all
from parkazoo.wire.exchange import Exchange
from parkazoo.wire.frames import REQUEST
from parkazoo.wire.handshake import Address, Established
from parkazoo.wire.link import READ_BYTES, EndedByServer, Link
from parkazoo.wire.loop import READ
from parkazoo.wire.report import ConnectionReport
from tests.fakes.conversation import STAT, answer, auth_answer, connect_answer, data_answer, event, framed
from tests.fakes.loop import Clock, HandLoop
from tests.fakes.owner import Emptied, Owner, make_member
from tests.fakes.result import Result

SESSION_S = 9.0
READ_S = 6.0


class Line:
    """A link, the member whose link it is, and the server's end."""

    def __init__(self, rest: bytes = b"") -> None:
        self.clock = Clock()
        self.loop = HandLoop(self.clock)
        self.owner = Owner(self.loop)
        self.member = make_member(self.owner)
        self.member._state = KeeperState.CONNECTED
        near, self.server = socket.socketpair()
        near.setblocking(False)
        self.near = near
        self.events: list[Any] = []
        self.ends: list[Exception | None] = []
        self.pings = 0
        exchange = Exchange(self.member, self.member._pending, self._see, self.owner.log)
        exchange.receive_handshake(connect_answer(int(SESSION_S * 1000)) + rest)
        exchange.open()
        established = Established(near, Address("h", "127.0.0.1", 1), exchange, READ_S, 1.0, self.clock.now_s)
        self._patch = mock.patch.object(link_module, "time", self.clock)
        self._patch.start()
        self.link = Link(
            self.member,
            established,
            self.loop,  # type: ignore[arg-type]
            self.owner.log,
            self._pinged,
            self.ends.append,
        )
        self.member._connection._link = self.link

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.stop()
        self.near.close()
        self.server.close()

    def _see(self, data: bytes, offset: int) -> None:
        (length,) = int_struct.unpack_from(data, offset)
        self.events.append(data[offset + 4 : offset + 4 + length])

    def _pinged(self) -> None:
        self.pings += 1

    def begin(self) -> None:
        self.link.begin()
        self.loop.make_calls()

    def submit(self, *requests: Any) -> list[Result]:
        results = [Result() for _ in requests]
        for request, result in zip(requests, results, strict=True):
            self.member.submit(request, result)
        self.loop.make_calls()
        return results

    def get(self, count: int) -> list[Result]:
        return self.submit(*(GetData(f"/{number}", None) for number in range(count)))

    def bring(self, data: bytes) -> None:
        """Have the server send that, and the loop read what is there."""
        self.server.sendall(data)
        if self.near in self.loop.watched:
            self.loop.watched[self.near](READ)
            self.loop.make_calls()

    def xids(self) -> list[int]:
        """Of all requests that have come to the server."""
        self.server.setblocking(False)
        data, xids = b"", []
        with suppress(BlockingIOError):
            while True:
                data += self.server.recv(READ_BYTES)
        while data:
            length, xid, _ = REQUEST.unpack_from(data)
            xids.append(xid)
            data = data[4 + length :]
        return xids


VALUES = st.binary(max_size=40)
CODES = {-101: NoNodeError, -103: BadVersionError}
FRAMES = st.lists(
    st.one_of(
        st.tuples(st.just("data"), VALUES),
        st.tuples(st.just("event"), VALUES),
        st.tuples(st.just("ping"), st.none()),
        st.tuples(st.just("error"), st.sampled_from([*CODES])),
    ),
    max_size=12,
)


class TestFrames(unittest.TestCase):
    @settings(max_examples=300, deadline=None)
    @given(
        frames=FRAMES,
        cuts=st.lists(st.integers(0, 400), max_size=12),
        gate=st.lists(st.booleans(), min_size=14, max_size=14),
    )
    def test_cut_and_joined(self, frames: list[tuple[str, Any]], cuts: list[int], gate: list[bool]) -> None:
        """In whatever parts answers come, and whenever the gate is closed, all are taken once and in order."""
        stream, told, count = b"", [], 0
        for kind, value in frames:
            if kind == "event":
                stream += answer(WATCH_XID, framed(value))
            elif kind == "ping":
                stream += answer(PING_XID)
            else:
                count += 1
                stream += data_answer(count, value) if kind == "data" else answer(count, code=value)
                told.append(value)
        ends = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
        parts = [stream[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
        with Line(rest=parts[1] if len(parts) > 1 else b"") as line:
            results = line.get(count)
            line.begin()
            for part, is_closed in zip(parts[2:], gate, strict=False):
                line.owner.gate.is_closed = is_closed
                before = [list(result.told) for result in results], list(line.events)
                line.bring(part)
                if is_closed:
                    self.assertEqual(before, ([result.told for result in results], line.events))
                else:
                    line.link.resume()
            line.owner.gate.is_closed = False
            line.link.resume()
            self.assertEqual(line.ends, [])
            got = [
                next(code for code, kind in CODES.items() if isinstance(result.value, kind))
                if isinstance(result.value, Exception)
                else result.value[0]
                for result in results
            ]
            self.assertEqual(got, told)
            self.assertEqual(line.events, [value for kind, value in frames if kind == "event"])
            self.assertFalse(line.member._pending)

    def test_lengths_of_no_frame(self) -> None:
        for length in (-1, -(1 << 31), 0, 15):
            with self.subTest(length=length), Line() as line:
                line.begin()
                results = line.get(2)
                line.bring(data_answer(1, b"x") + int_struct.pack(length) + bytes(8))
                self.assertEqual(results[0].value[0], b"x")
                self.assertEqual(results[1].told, [])  # the member's to fail
                self.assertEqual([type(end) for end in line.ends], [ConnectionDropped])
                self.assertLess(line.near.fileno(), 0)

    def test_a_large_answer_behind_a_closed_gate(self) -> None:
        with Line() as line:
            line.begin()
            (result,) = line.get(1)
            stream = data_answer(1, bytes(READ_BYTES * 5))
            line.owner.gate.is_closed = True
            for begin in range(0, len(stream), READ_BYTES):
                line.bring(stream[begin : begin + READ_BYTES])
            self.assertEqual(result.told, [])
            line.owner.gate.is_closed = False
            line.link.resume()
            self.assertEqual(len(result.value[0]), READ_BYTES * 5)

    def test_requests_go_on_when_the_gate_opens(self) -> None:
        """Those that had to wait for answers, all of which have come while it was closed."""
        with mock.patch.object(link_module, "MOST_IN_FLIGHT", 2), Line() as line:
            line.begin()
            line.get(2)
            line.member.backlog.extend((GetData("/x", None), Result()) for _ in range(3))
            line.link.wake()
            line.loop.make_calls()
            self.assertEqual(line.xids(), [1, 2])
            line.owner.gate.is_closed = True
            line.bring(data_answer(1, b"1") + data_answer(2, b"2"))
            self.assertEqual(line.xids(), [])
            line.owner.gate.is_closed = False
            line.link.resume()
            line.loop.make_calls()
            self.assertEqual(line.xids(), [3, 4])

    def test_a_backlog_that_is_failed_meanwhile(self) -> None:
        with Line() as line:
            line.link._backlog = backlog = Emptied()
            line.begin()
            for _ in range(Emptied.lies):
                line.link._go_on_sending()
                line.loop.make_calls()
            result = Result()
            backlog.put(GetData("/x", None), result)
            line.link.wake()
            line.loop.make_calls()
            self.assertEqual(line.xids(), [1])
            line.bring(data_answer(1, b"1"))
            self.assertEqual((result.value[0], line.ends), (b"1", []))

    def test_the_server_closes(self) -> None:
        with Line() as line:
            line.begin()
            (result,) = line.get(1)
            line.server.sendall(answer(1)[:7])
            line.server.shutdown(socket.SHUT_WR)
            while not line.ends:
                line.loop.watched[line.near](READ)
            self.assertEqual([type(end) for end in line.ends], [EndedByServer])
            self.assertEqual(result.told, [])

    def test_a_write_that_fails_while_the_loop_is_about_to_write(self) -> None:
        """The reason names no interruption."""
        with Line() as line:
            line.begin()
            line.server.close()
            line.link.wake()
            with mock.patch.object(line.loop, "is_here", return_value=False):
                line.get(1)
            self.assertEqual([str(end) for end in line.ends], ["a write to the socket failed"])


class Brimming:
    """A socket from which pongs come as fast as they are read, and TLS has read more of them already."""

    MOST = 100

    def __init__(self, sock: socket.socket) -> None:
        self.reads = 0
        self.fileno, self.close, self.send = sock.fileno, sock.close, sock.send

    def recv(self, size: int) -> bytes:
        self.reads += 1
        if self.reads > self.MOST:
            raise OSError("nothing else has its turn")
        return answer(PING_XID)

    def pending(self) -> int:
        return 1


class TestTurns(unittest.TestCase):
    """The loop reads once a turn from each socket, however much has come."""

    def take_turns(self, loop: HandLoop, sock: Brimming) -> None:
        for turn in range(3):
            self.assertEqual(sock.reads, turn + 1)
            (again,) = loop._calls
            loop._calls.clear()
            again()

    def test_of_a_link(self) -> None:
        with Line() as line:
            line.begin()
            line.link._sock = sock = Brimming(line.near)
            line.link._is_secure = True
            line.loop.watched[line.near](READ)
            self.take_turns(line.loop, sock)

    def test_of_a_handshake(self) -> None:
        with Line() as line:
            sock = Brimming(line.near)
            exchange = Exchange(line.member, line.member._pending, line._see, line.owner.log)

            def steps(attempt: ConnectAttempt) -> Steps[None]:
                attempt.sock = sock
                exchange.connect(Connect(0, 0, 0, 0, b"", False))
                exchange.receive_handshake(connect_answer())
                exchange.ask(GetData("/x", None), self.fail)
                yield from receive_all(attempt, exchange)

            ConnectAttempt(line.loop, steps, self.fail, self.fail)  # type: ignore[arg-type]
            self.assertEqual(sock.reads, 0)
            line.loop._calls.pop()()
            self.take_turns(line.loop, sock)


class TestAnswers(unittest.TestCase):
    def check_ended(self, line: Line, kind: type[Exception], text: str = "") -> None:
        (error,) = line.ends
        self.assertIsInstance(error, kind)
        self.assertIn(text, str(error))
        self.assertLess(line.near.fileno(), 0)
        self.assertFalse(line.loop.watched)

    def test_auth_out_of_order(self) -> None:
        """A server answers to credentials before requests that came earlier."""
        auth = Auth(0, "digest", "a:b")
        with Line() as line:
            line.begin()
            first, one, second, other = line.submit(GetData("/1", None), auth, GetData("/2", None), auth)
            self.assertEqual(line.xids(), [1, -4, 2, -4])
            line.bring(auth_answer())
            self.assertEqual([each.told for each in (first, one, second, other)], [[], [True], [], []])
            line.bring(data_answer(1, b"1") + auth_answer() + data_answer(2, b"2"))
            self.assertEqual([first.value[0], second.value[0], other.value], [b"1", b"2", True])
            self.assertEqual(line.ends, [])

    def test_a_watch_whose_call_has_expired(self) -> None:
        """Its answer still comes before the old session is closed, and leaves no watch."""
        with Line() as line:
            line.member.is_stopping = False
            line.begin()
            (read,) = line.submit(GetData("/1", lambda event: None))
            line.member._connection.report = ConnectionReport(line.member)
            line.member.renew("a test wants it")
            self.assertIsInstance(read.value, SessionExpiredError)
            line.bring(data_answer(1, b"1"))
            self.assertEqual((line.ends, dict(line.member._data_watchers)), ([], {}))

    def test_auth_refused(self) -> None:
        with Line() as line:
            line.begin()
            first, auth = line.submit(GetData("/1", None), Auth(0, "digest", "a:b"))
            line.bring(auth_answer(code=-115) + data_answer(1, b"never taken"))
            self.assertIsInstance(auth.value, AuthFailedError)
            self.assertEqual(first.told, [])  # the member's to fail
            self.check_ended(line, AuthFailedError)

    def test_auth_that_was_not_sent(self) -> None:
        with Line() as line:
            line.begin()
            (first,) = line.get(1)
            line.bring(auth_answer())
            self.assertEqual(first.told, [])
            self.check_ended(line, ConnectionDropped, "credentials that were not sent")

    def test_an_answer_to_nothing(self) -> None:
        with Line() as line:
            line.begin()
            line.bring(data_answer(1, b""))
            self.check_ended(line, ConnectionDropped, "an answer to nothing: xid 1")

    def test_xids_that_do_not_match(self) -> None:
        for late, words in ((2, "no answer to xid 1, but one to xid 2"), (3, "expected 1 received 3")):
            with self.subTest(late), Line() as line:
                line.begin()
                results = line.get(2)
                line.bring(data_answer(late, b"2") + data_answer(1, b"1"))
                self.assertEqual([result.told for result in results], [[], []])  # the end fails them
                self.check_ended(line, ConnectionDropped, words)

    def test_an_error_that_kazoo_does_not_know(self) -> None:
        """It is that request's alone."""
        with Line() as line:
            line.begin()
            first, second = line.get(2)
            line.bring(answer(1, code=-999))
            line.bring(data_answer(2, b"2"))
            self.assertIsInstance(first.value, Exception)
            self.assertIn("-999", str(first.value))
            self.assertEqual(second.value[0], b"2")
            self.assertEqual(line.ends, [])

    def test_an_event_that_cannot_be_read(self) -> None:
        """It would be read again and again."""
        with Line() as line, self.assertLogs(line.owner.log, "ERROR"):
            line.begin()
            line.bring(answer(WATCH_XID))
            self.check_ended(line, ConnectionDropped, "an event that cannot be read")

    def test_an_answer_that_is_too_short(self) -> None:
        """It is that request's alone."""
        with Line() as line, self.assertLogs(line.owner.log, "ERROR"):
            line.begin()
            first, second = line.get(2)
            line.bring(answer(1, b"\0"))
            line.bring(data_answer(2, b"2"))
            self.assertIsInstance(first.value, Exception)
            self.assertEqual(second.value[0], b"2")


class TestErrors(unittest.TestCase):
    """They say which path, as the user names it, and which ensemble."""

    def test_of_a_server(self) -> None:
        paths = {"/a/b": "/a/b", f"/a/b/{PIN}": "/a/b"}
        for physical, path in paths.items():
            with self.subTest(physical), Line() as line:
                line.begin()
                read, write, look = line.submit(
                    GetData(physical, None), SetData(physical, b"", 3), Exists(physical, None)
                )
                line.bring(answer(1, code=-101) + answer(2, code=-103) + answer(3, code=-101))
                for result, kind in ((read, NoNodeError), (write, BadVersionError)):
                    self.assertIs(type(result.value), kind)
                    self.assertEqual(str(result.value), f"{path} (ensemble b)")
                self.assertIsNone(look.value)

    def test_of_a_lost_connection(self) -> None:
        kinds = {KeeperState.CONNECTING: ConnectionLoss, KeeperState.EXPIRED_SESSION: SessionExpiredError}
        for state, kind in kinds.items():
            with self.subTest(state), Line() as line:
                line.begin()
                sent, auth = line.submit(GetData("/a/b", None), Auth(0, "digest", "a:b"))
                line.link.end(ConnectionDropped())
                queued = Result()
                line.member.backlog.append((GetData("/q", None), queued))
                line.member._session_callback(state)
                told = [(type(result.value), str(result.value)) for result in (sent, queued, auth)]
                self.assertEqual(
                    told,
                    [(kind, "/a/b (ensemble b)"), (kind, "/q (ensemble b)"), (kind, "ensemble b")],
                )


class TestKeepAlive(unittest.TestCase):
    """The clock is the test's; a session of 9 s, a server that is patiently listened to for 6 s."""

    def check_lost_in_time(self, line: Line, data: bytes) -> None:
        """The connection counts as lost, though that goes on coming."""
        began_s = line.clock.now_s
        while not line.ends and line.clock.now_s < began_s + 2 * SESSION_S:
            line.loop.go_to(line.clock.now_s + 0.5)
            if not line.ends:
                line.bring(data)
        self.assertEqual([str(end) for end in line.ends], ["outstanding heartbeat ping not received"])
        self.assertLess(line.clock.now_s, began_s + READ_S + 1)

    def test_a_process_that_did_not_run(self) -> None:
        """It has not asked, so silence is not the server's."""
        with Line() as line:
            line.begin()
            for count in (1, 2, 3):
                line.loop.stall_until(line.clock.now_s + READ_S + 1)
                self.assertEqual((line.ends, line.pings), ([], count))
                line.bring(answer(PING_XID))

    def test_it_did_not_run_and_the_server_is_silent(self) -> None:
        with Line() as line, mock.patch.object(link_module.random, "uniform", return_value=0.4):
            line.begin()
            began_s = line.clock.now_s
            line.loop.stall_until(began_s + READ_S + 0.1)
            self.assertEqual((line.ends, line.pings), ([], 1))
            line.loop.go_to(began_s + SESSION_S - 1.6)
            self.assertEqual((line.ends, line.pings), ([], 1))
            line.loop.go_to(began_s + SESSION_S - 1.3)  # before the session can expire
            self.assertEqual([str(end) for end in line.ends], ["outstanding heartbeat ping not received"])

    def test_silence(self) -> None:
        """With a request on its way, and with pings alone."""
        for count in (0, 1):
            with self.subTest(requests=count), Line() as line:
                line.begin()
                began_s = line.clock.now_s
                line.get(count)
                line.loop.go_to(began_s + READ_S - 0.1)
                self.assertEqual(line.ends, [])
                line.loop.go_to(began_s + READ_S + 0.2)
                self.assertEqual([str(end) for end in line.ends], ["outstanding heartbeat ping not received"])
                self.assertFalse(line.loop.watched)

    def test_events_alone(self) -> None:
        """The server can be heard, but does not hear: the session expires."""
        with Line() as line:
            line.begin()
            line.bring(answer(PING_XID))
            self.check_lost_in_time(line, event(1, "/something"))
            self.assertGreater(len(line.events), 5)

    def test_an_answer_that_is_late(self) -> None:
        """It proves that the server has heard the request, and that was long ago."""
        with Line() as line:
            line.begin()
            began_s = line.clock.now_s
            line.get(1)
            line.loop.go_to(began_s + READ_S - 0.1)
            line.bring(data_answer(1, b""))
            line.loop.go_to(began_s + READ_S + 1)
            self.assertEqual(line.ends, [])
            line.loop.go_to(began_s + SESSION_S)
            self.assertEqual([str(end) for end in line.ends], ["outstanding heartbeat ping not received"])

    def test_a_server_that_answers_late(self) -> None:
        """For as long as it goes on answering."""
        with Line() as line:
            line.begin()
            line.get(60)
            for xid in range(1, 61):
                line.loop.go_to(line.clock.now_s + 1)
                line.bring(data_answer(xid, b""))
                line.get(1)
            self.assertEqual(line.ends, [])

    def test_parts_of_events(self) -> None:
        """They are no answers either."""
        with Line() as line:
            line.begin()
            line.bring(answer(PING_XID))
            told = event(1, "/something")
            line.bring(told[:20])
            self.check_lost_in_time(line, told[20:] + told[:20])
            self.assertGreater(len(line.events), 5)

    def test_behind_a_closed_gate(self) -> None:
        """An answer counts behind events too, as when missed events come first and a listener is slow."""
        for count in (1, 5):
            with self.subTest(events=count), Line() as line:
                line.begin()
                line.owner.gate.is_closed = True
                events = event(1, "/something") * count
                line.bring(events[:7])
                line.bring(events[7:])
                for _ in range(10):
                    line.loop.go_to(line.clock.now_s + READ_S / 2)
                    line.bring(answer(PING_XID)[:5])
                    line.bring(answer(PING_XID)[5:])
                self.assertEqual((line.ends, line.events), ([], []))
                line.owner.gate.is_closed = False
                line.link.resume()
                self.assertEqual(len(line.events), count)

    def test_events_alone_behind_a_closed_gate(self) -> None:
        with Line() as line:
            line.begin()
            line.owner.gate.is_closed = True
            self.check_lost_in_time(line, event(1, "/something"))

    def test_large_values(self) -> None:
        """A slow link takes its time for each of them."""
        with Line() as line:
            line.begin()
            line.submit(*(SetData(f"/{number}", bytes(1 << 18), -1) for number in range(4)))
            for xid in range(1, 5):
                line.loop.go_to(line.clock.now_s + READ_S - 0.5)
                line.bring(answer(xid, STAT))
            self.assertEqual(line.ends, [])

    def test_a_server_that_answers(self) -> None:
        """For as long as it does."""
        with Line() as line:
            line.begin()
            for _ in range(30):
                line.loop.go_to(line.clock.now_s + READ_S / 2)
                line.bring(answer(PING_XID))
            self.assertEqual(line.ends, [])
            self.assertGreater(line.pings, 25)
            self.assertEqual({*line.xids()}, {PING_XID})

    def test_a_socket_that_a_program_closed(self) -> None:
        with Line() as line:
            line.begin()
            line.loop.watched.clear()
            line.near.close()
            with mock.patch.object(line.loop, "forget"):
                line.loop.go_to(line.clock.now_s + READ_S / 2)
            self.assertEqual([str(end) for end in line.ends], ["the socket has been closed"])

    def test_a_socket_that_was_closed_before(self) -> None:
        """It ends as if the server had closed it, and nothing is left that waits for it."""
        with Line() as line:
            line.near.close()
            line.begin()
            self.assertEqual([str(end) for end in line.ends], ["the socket has been closed"])
            self.assertFalse(line.loop.watched)
            self.assertFalse([timer for timer in line.loop.timers if timer[2] is not None])

    def test_an_end_before_the_beginning(self) -> None:
        for is_closed in (False, True):
            with self.subTest(is_closed=is_closed), Line() as line:
                if is_closed:
                    line.near.close()
                line.link.end(ConnectionDropped("early"))
                line.begin()
                self.assertEqual([str(end) for end in line.ends], ["early"])
                self.assertFalse(line.loop.watched)


class TestReadOnly(unittest.TestCase):
    def test_a_name_that_is_slow(self) -> None:
        """A look-up that ends on a connection that can write asks for no server that can."""
        found: list[Any] = []
        servers = [Address("h", "127.0.0.1", 1)]
        with (
            Line() as line,
            mock.patch.object(connection_module, "LookUp", lambda *args: found.append(args[-1])),
            mock.patch.object(connection_module, "ConnectAttempt") as attempt,
        ):
            connection = line.member._connection
            connection._loop, connection._ro_mode = line.loop, True
            connection._pinged()
            (told,) = found
            connection._ro_mode = False
            told(servers, {})
            attempt.assert_not_called()
            connection._ro_mode = True
            told(servers, {})
            attempt.assert_called_once()
