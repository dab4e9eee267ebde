"""A cluster looked at, without servers: what is asked, in which order, and for how long."""

from __future__ import annotations

import unittest
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

from parkazoo.admin import looking
from parkazoo.admin.clients import AdminClient
from parkazoo.admin.looking import LOOK_S, Looker
from parkazoo.admin.rates import LOOK_WORDS
from parkazoo.protocol.cluster_map import ClusterMap

HOSTS = "127.0.0.1:1"
MAP = ClusterMap("zk", {"a": HOSTS}, ("a",), "a")


class FakeEnsemble:
    """Plays the client of an ensemble, and its server.

    :ivar asked: the words, and the sessions whose registrations were read, in order.
    """

    name, hosts = "a", HOSTS

    def __init__(self, *sessions: str) -> None:
        self.sessions = sessions
        self.gone: set[str] = set()
        self.asked: list[str] = []
        self.within_s: list[float] = []
        self.now_s = 0.0
        self.answers_after_s = 0.0
        self.zk = SimpleNamespace(connected=True, client_id=None, get_async=lambda path: None)

    def wait(self, path: str, answer: None) -> tuple[bytes, None]:
        return b"", None  # no map

    def children(self, path: str) -> list[str]:
        return [*self.sessions]

    def read_registered(self, client: object, sessions: Sequence[str]) -> list[tuple[str, dict[str, object]]]:
        self.asked += sessions
        return [(each, {"pid": 7}) for each in sessions if each not in self.gone]

    def ask(self, word: str, within_s: float) -> str:
        self.asked.append(word)
        self.within_s.append(within_s)
        if self.answers_after_s > within_s:
            self.now_s += within_s
            raise TimeoutError("timed out")
        self.now_s += self.answers_after_s
        return ""

    @contextmanager
    def looker(self) -> Iterator[Looker]:
        @contextmanager
        def connected(*_: Any) -> Iterator[dict[str, FakeEnsemble]]:
            yield {"a": self}

        clock = SimpleNamespace(monotonic=lambda: self.now_s, time=lambda: self.now_s)
        with (
            mock.patch.multiple(
                looking,
                _connected=connected,
                read_map=lambda *_, **__: MAP,
                read_registered=self.read_registered,
                time=clock,
            ),
            mock.patch.object(AdminClient, "ask", lambda _, *arguments: self.ask(*arguments)),
            Looker(HOSTS) as looker,
        ):
            yield looker


class TestLooker(unittest.TestCase):
    def test_registrations_are_read_before_requests_are_counted(self) -> None:
        """And once: a server's rates have no requests that read them."""
        ensemble = FakeEnsemble("0x1", "0x2")
        with ensemble.looker() as looker:
            for _ in range(2):
                self.assertEqual([*looker.look().registered["a"]], [("0x1", {"pid": 7}), ("0x2", {"pid": 7})])
        self.assertEqual(ensemble.asked, ["0x1", "0x2", *LOOK_WORDS, *LOOK_WORDS])

    def test_a_registration_that_goes(self) -> None:
        """Between its name and its data: its client is not one without a name."""
        ensemble = FakeEnsemble("0x1", "0x2")
        ensemble.gone.add("0x2")
        with ensemble.looker() as looker:
            self.assertEqual([*looker.look().registered["a"]], [("0x1", {"pid": 7})])

    def test_a_slow_server(self) -> None:
        """All its words have the time of one look together."""
        ensemble = FakeEnsemble()
        ensemble.answers_after_s = 0.75 * LOOK_S
        with ensemble.looker() as looker:
            (server,) = looker.look().servers
        self.assertEqual(ensemble.within_s, [LOOK_S, 0.25 * LOOK_S])
        self.assertEqual(ensemble.now_s, LOOK_S)
        self.assertEqual({*server.silent}, {*LOOK_WORDS})

    def test_time_that_is_over(self) -> None:
        ensemble = FakeEnsemble()
        ensemble.answers_after_s = LOOK_S
        with ensemble.looker() as looker:
            (server,) = looker.look().servers
        self.assertEqual(ensemble.asked, ["srvr"])
        self.assertEqual(server.silent["cons"], f"no answer within {LOOK_S:g} s")


if __name__ == "__main__":
    unittest.main()
