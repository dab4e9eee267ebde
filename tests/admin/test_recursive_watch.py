"""A recursive watch, with a server that the test plays."""

from __future__ import annotations

import socket
import struct
import threading
import time
import unittest
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from unittest import mock

from kazoo.exceptions import ConfigurationError

from parkazoo.admin import recursive_watch
from parkazoo.admin.hot_directories import Seen
from parkazoo.admin.recursive_watch import WATCHES, Follower, Followers
from parkazoo.protocol.cluster_map import ClusterMap
from tests.admin.test_hot_directories import CREATED, event

TIMEOUT_S = 30.0
SESSION = 0x1234
END = struct.pack("!ii", 2, -11)
PING = struct.pack("!iii", 8, -2, 11)
ADD_WATCH = struct.pack("!iii", 1, 106, 1) + b"/" + struct.pack("!i", 1)
UNIMPLEMENTED, NO_AUTH, AUTH_FAILED = -6, -102, -115


def accepted(time_out: int = 4000) -> bytes:
    body = struct.pack("!iiqi", 0, time_out, SESSION, 16) + bytes(17)
    return struct.pack("!i", len(body)) + body


def reply(xid: int, code: int = 0) -> bytes:
    return struct.pack("!iiqi", 16, xid, 0, code)


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not in time: {what}")
        time.sleep(0.005)


class Server:
    """Accepts a connection after the other, sends each what it is given, and reads until the client's end.

    :param answers: for each connection; the last is kept open, and pings are answered there.
    :param behind: what it sends there instead of the answer to a ping.
    """

    def __init__(self, *answers: bytes, behind: bytes = b"") -> None:
        self._answers = answers
        self._behind = behind
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.hosts = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.heard = b""
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def stop(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        for number, answer in enumerate(self._answers, 1):
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                for at in range(0, len(answer), 50):  # in parts
                    connection.sendall(answer[at : at + 50])
                is_last = number == len(self._answers)
                if not is_last:
                    connection.shutdown(socket.SHUT_WR)
                with suppress(OSError):
                    while part := connection.recv(1 << 16):
                        before = self.heard.count(PING)
                        self.heard += part
                        if is_last:
                            connection.sendall((self._behind or reply(-2)) * (self.heard.count(PING) - before))


class TestFollower(unittest.TestCase):
    def follow(self, *answers: bytes, most_events: int = 1000, auth: tuple[tuple[str, str], ...] = ()) -> Follower:
        self.server = Server(*answers)
        self.addCleanup(self.server.stop)
        follower = Follower(self.server.hosts, auth, None, most_events)
        self.addCleanup(follower.stop)
        follower.start()
        self.assertTrue(follower._is_known.wait(TIMEOUT_S))
        return follower

    def test_events(self) -> None:
        """It says who it is, asks for the watch, counts, pings, and ends its session."""
        events = event("/a/1") + event("/a/2") + event("/parkazoo/mirrors/%2Fa/3")
        follower = self.follow(accepted() + reply(-4) + reply(WATCHES) + events, auth=(("digest", "u:p"),))
        self.assertEqual((follower.trouble, follower.session), ("", "0x1234"))
        found: list[Seen] = []

        def is_seen() -> bool:
            found.append(follower.take())
            return sum(each.events for each in found) == 3

        wait_until(is_seen, "three events")
        self.assertEqual(sum(each.counts.get("/a", 0) for each in found), 3)
        wait_until(lambda: b"digest" in self.server.heard, "who it is")
        wait_until(lambda: ADD_WATCH in self.server.heard, "the watch")
        wait_until(lambda: PING in self.server.heard, "a ping")
        follower.stop()
        wait_until(lambda: self.server.heard.endswith(END), "the end of its session")

    def test_another_session(self) -> None:
        """After a lost connection it goes on."""
        follower = self.follow(
            accepted() + reply(WATCHES) + event("/a/1"), accepted() + reply(WATCHES) + event("/b/1")
        )
        found: dict[str, int] = {}

        def is_seen() -> bool:
            found.update(follower.take().counts)
            return len(found) == 2

        wait_until(is_seen, "events of two sessions")

    def test_what_ends_it(self) -> None:
        for code, why in ((UNIMPLEMENTED, "older than ZooKeeper 3.6"), (NO_AUTH, "may not watch /")):
            follower = self.follow(accepted() + reply(WATCHES, code), accepted())
            self.assertIn(why, follower.trouble)
            follower.stop()

    def test_what_may_end(self) -> None:
        """It says what is wrong, and tries again."""
        for answer, why in (
            (accepted(0), "begins no session"),
            (accepted() + reply(-4, AUTH_FAILED), "refuses the identity"),
            (accepted() + reply(WATCHES, -7), "refuses the watch"),
            (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is not ZooKeeper's"),
            (b"", "has closed the connection"),
        ):
            told: list[str] = []

            def note(
                follower: Follower,
                trouble: str,
                told: list[str] = told,
                tell: Callable[[Follower, str], None] = Follower._tell,
            ) -> None:
                told.append(trouble)
                tell(follower, trouble)

            with mock.patch.object(Follower, "_tell", note):
                self.follow(answer, accepted() + reply(WATCHES))
                wait_until(lambda told=told: told[-1:] == [""], "the watch")  # type: ignore[misc]
            self.assertIn(why, told[0])

    def test_too_many_events(self) -> None:
        """It ends its session, and begins no other."""
        with mock.patch.object(recursive_watch, "time", SimpleNamespace(monotonic=lambda: 5.0)):
            follower = self.follow(accepted() + reply(WATCHES) + event("/a/1") * 30, accepted(), most_events=20)
            wait_until(lambda: "more than 20 changes within a second" in follower.trouble, "its end")
        wait_until(lambda: END in self.server.heard, "the end of its session")
        follower._thread.join(TIMEOUT_S)
        self.assertFalse(follower._thread.is_alive())

    def test_events_that_come_late(self) -> None:
        """Events come, but no answer to a ping: the session ends, so that the server keeps no more."""
        server = Server(accepted() + reply(WATCHES), behind=event("/a/1"))
        self.addCleanup(server.stop)
        follower = Follower(server.hosts, (), None)
        self.addCleanup(follower.stop)
        with mock.patch.multiple(recursive_watch, PING_S=0.05, LATE_S=0.2):
            follower.start()
            wait_until(lambda: "events are read too slowly" in follower.trouble, "its end")
        wait_until(lambda: END in server.heard, "the end of its session")

    def test_a_server_that_is_down(self) -> None:
        """The next is asked before anybody is told."""
        down = Server(b"")
        down.stop()
        server = Server(accepted() + reply(WATCHES))
        self.addCleanup(server.stop)
        follower = Follower(f"{down.hosts},{server.hosts}", (), None)
        self.addCleanup(follower.stop)
        in_order = SimpleNamespace(choice=lambda all: all[0], sample=lambda all, number: [*all][:number])
        with mock.patch.object(recursive_watch, "random", in_order):
            follower.start()
            self.assertTrue(follower._is_known.wait(TIMEOUT_S))
            self.assertEqual((follower.trouble, follower.session), ("", "0x1234"))

    def test_nobody_there(self) -> None:
        server = Server(b"")
        server.stop()
        follower = Follower(server.hosts, (), None)
        follower.start()
        self.assertTrue(follower._is_known.wait(TIMEOUT_S))
        self.assertIn("refused", follower.trouble)
        follower.stop()


class TestFollowers(unittest.TestCase):
    def test_a_map_that_changes(self) -> None:
        servers = {name: Server(accepted() + reply(WATCHES)) for name in "abc"}
        for each in servers.values():
            self.addCleanup(each.stop)
        with Followers((), {}) as followers:
            for names in ("ab", "bc"):
                ensembles = {name: servers[name].hosts for name in names}
                followers.follow(ClusterMap("zk", ensembles, tuple(names), names[0]))
                wait_until(lambda: not followers.troubles(), "the watches")
                self.assertEqual({*followers.take()}, {*names})
                self.assertEqual(followers.sessions(), dict.fromkeys(names, "0x1234"))
            wait_until(lambda: END in servers["a"].heard, "the end of a's session")
            self.assertNotIn(END, servers["b"].heard)

    def test_they_end_together(self) -> None:
        """Each is told to before one is waited for; one that has not begun is not waited for."""
        told: list[str] = []

        class Noting(Follower):
            def end(self) -> None:
                told.append("end")
                super().end()

            def stop(self) -> None:
                told.append("stop")
                super().stop()

        with Followers((), {}) as followers:
            followers._followers.update({(name, ""): Noting("127.0.0.1:1", (), None) for name in "ab"})
            self.assertFalse(followers.are_over())
        self.assertEqual(told[:3], ["end", "end", "stop"])
        self.assertTrue(followers.are_over())

    def test_by_path(self) -> None:
        server = Server(accepted() + reply(WATCHES) + event("/a/1", kind=CREATED))
        self.addCleanup(server.stop)
        with Followers((), {}, by_path=True) as followers:
            followers.follow(ClusterMap("zk", {"a": server.hosts}, ("a",), "a"))
            wait_until(lambda: followers.take()["a"] == Seen({"/a/1": 1}, 1, {"/a/1"}), "the event")

    def test_sasl(self) -> None:
        options = {"sasl_options": {"mechanism": "DIGEST-MD5", "username": "u", "password": "p"}}
        with Followers((), options) as followers, self.assertRaisesRegex(ConfigurationError, "without SASL"):
            followers.follow(ClusterMap("zk", {"a": "127.0.0.1:1"}, ("a",), "a"))


if __name__ == "__main__":
    unittest.main()
