"""Who does and holds how much, from what servers list."""

from __future__ import annotations

import unittest
from collections import Counter
from typing import Any

from parkazoo.admin.answers import ServerConnection
from parkazoo.admin.registrations import ClientList, RegisteredClient
from parkazoo.admin.session_use import NOT_ASKED, Held, SessionUse, ask_held, use_of, with_lost
from parkazoo.admin.strangers import ConnectedSessions, Strangers

SERVERS = {"a1:1": "a", "a2:1": "a", "b1:1": "b"}
DUMP = "SessionTracker dump:\nephemeral nodes dump:\nSessions with Ephemerals (1):\n0x7:\n\t/x\n\t/y\n"
OFF = "{} is not executed because it is not in the whitelist.\n"


class Server:
    """Stands for an AdminClient that is not started."""

    def __init__(self, hosts: str, asked: Counter[tuple[str, str]], **answers: Any) -> None:
        self.hosts = hosts
        self._asked = asked
        self._answers = {"dump": DUMP, "wchc": "0x7\n\t/z\n\n", **answers}

    def ask(self, word: str) -> str:
        self._asked[self.hosts, word] += 1
        answer = self._answers[word]
        if isinstance(answer, Exception):
            raise answer
        return str(answer)


def held(asked: Counter[tuple[str, str]], **answers: dict[str, Any]) -> Held:
    found: Any = [(name, Server(server, asked, **answers.get(server[:2], {}))) for server, name in SERVERS.items()]
    return ask_held(found)


class TestHeld(unittest.TestCase):
    def setUp(self) -> None:
        self.asked: Counter[tuple[str, str]] = Counter()

    def test_each_is_asked_once(self) -> None:
        """All servers of an ensemble have all ephemerals, and each its own watches."""
        found = held(self.asked)
        self.assertEqual(found.ephemerals, {"a": {"0x7": 2}, "b": {"0x7": 2}})
        self.assertEqual(found.watches, {server: {"0x7": 1} for server in SERVERS})
        self.assertEqual(found.untold, {})
        self.assertEqual({*self.asked.values()}, {1})
        self.assertEqual(sum(word == "dump" for _, word in self.asked), 2)

    def test_the_fullest_directory(self) -> None:
        """By its name for clients; the registrations of many clients are nobody's fault."""
        mirrored = "".join(f"\t/parkazoo/mirrors/%2Fjobs%2Fnew/{number}\n" for number in range(4))
        more = f"0x8:\n\t/top\n\t/jobs/1\n{mirrored}0x9:\n" + "\t/parkazoo/clients/9\n" * 9
        found = held(self.asked, a1={"dump": DUMP + more})
        self.assertEqual(found.fullest, {"a": ("/jobs/new", "0x8", 4), "b": ("/", "0x7", 2)})
        client = RegisteredClient("0xc", "web", 7, "0.1.0", 1, None, {"a": "0x8"})
        nobody = ConnectedSessions({}, ())
        full = ClientList([client], {}, Strangers({}, {}), nobody, found, SERVERS).fullest()
        self.assertEqual(full, ("a", ("/jobs/new", "0xc", 4)))
        self.assertIsNone(ClientList([], {}, Strangers({}, {}), nobody, NOT_ASKED, SERVERS).fullest())

    def test_another_server_is_asked(self) -> None:
        found = held(self.asked, a1={"dump": TimeoutError("timed out"), "wchc": OFF.format("wchc")})
        self.assertEqual(found.ephemerals["a"], {"0x7": 2})
        self.assertEqual({*found.watches}, {"a2:1", "b1:1"})
        why = "wchc: it is not in its 4lw.commands.whitelist"
        self.assertEqual(found.untold, {"the watches at a1:1": why})

    def test_nobody_tells(self) -> None:
        found = held(self.asked, b1={"dump": OFF.format("dump"), "wchc": OSError(111, "Connection refused")})
        self.assertEqual({*found.ephemerals}, {"a"})
        self.assertEqual(
            found.untold,
            {
                "the ephemerals of ensemble b": "dump: it is not in its 4lw.commands.whitelist",
                "the watches at b1:1": "wchc: Connection refused",
            },
        )


class TestUse(unittest.TestCase):
    SESSIONS = {"a": "0x7", "b": "0x8"}  # noqa: RUF012 - only read
    HELD = Held({"a": {"0x7": 5}, "b": {}}, {"a1:1": {"0x7": 3}, "a2:1": {}, "b1:1": {}}, {})

    def use(
        self, *unseen: str, registered: Any = (("a", "0x7"), ("b", "0x8")), held: Held = HELD, **there: int
    ) -> SessionUse:
        servers = {"a": "a1:1", "b": "b1:1"}
        sessions = {
            (name, self.SESSIONS[name]): (servers[name], ServerConnection("h:1", self.SESSIONS[name], number, 1))
            for name, number in there.items()
        }
        return use_of(self.SESSIONS, unseen, ConnectedSessions(sessions, registered), held)

    def test_all_is_known(self) -> None:
        self.assertEqual(self.use(a=100, b=20), SessionUse(120, 5, 3))

    def test_not_asked(self) -> None:
        self.assertEqual(self.use(a=100, b=20, held=NOT_ASKED), SessionUse(120, None, None))

    def test_away(self) -> None:
        self.assertEqual(self.use(a=100), SessionUse(100, 5, 3, ("b",)))
        self.assertEqual(self.use("b", a=100).away, ())  # it may be on the server that does not tell
        self.assertEqual(self.use(a=100, registered=(("a", "0x7"),)).away, ())  # the session has ended meanwhile

    def test_unseen(self) -> None:
        self.assertEqual(self.use("a", "b"), SessionUse(None, 5, None))
        self.assertEqual(self.use("b", a=100), SessionUse(None, 5, None))

    def test_watches_that_one_server_does_not_tell(self) -> None:
        some = self.HELD._replace(watches={"b1:1": {}})
        self.assertIsNone(self.use(a=100, b=20, held=some).watches)


class TestLost(unittest.TestCase):
    def test_without_registration_and_connection(self) -> None:
        held = Held({"a": {"0x1": 1, "0x2": 1, "0x3": 9}, "b": {"0x4": 1}}, {}, {})
        connected = ConnectedSessions(
            {("a", "0x1"): ("a1:1", ServerConnection("h:1", "0x1", 1, 1))}, {("a", "0x2")}
        )
        seen = Strangers({}, {"b1:1": "timed out"})
        found = with_lost(seen, connected, held, SERVERS).found
        self.assertEqual([*found], [("a", "0x3")])
        self.assertEqual(str(found["a", "0x3"]), "no connection on ensemble a, session 0x3")
        self.assertEqual(with_lost(seen, connected, NOT_ASKED, SERVERS), seen)
