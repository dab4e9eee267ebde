"""Whether a server may be stopped now, by what servers have said."""

from __future__ import annotations

import time
import unittest
from collections.abc import Mapping, Sequence
from typing import Any
from unittest import mock

import typer
from typer.testing import CliRunner

from parkazoo.admin.answers import NOT_LISTED
from parkazoo.admin.arguments import WrongArgumentError
from parkazoo.admin.clients import Connections, NoRightError, UnreadableError
from parkazoo.admin.stopping import (
    BEHIND,
    UNCOUNTED,
    Quorum,
    QuorumMember,
    StopAnswer,
    _ask,
    _ask_srvr,
    _await,
    _find,
    _read_config,
    judge_stop,
)
from parkazoo.cli import check_command
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap

REFUSED = QuorumMember("a3:1", None, "Connection refused")
SRVR = "Zookeeper version: 3.9.5-x, built on y\nZxid: 0x{zxid:x}\nMode: {mode}\nNode count: 5\n"
FORBIDDEN = "srvr is not executed because it is not in the whitelist.\n"
STARTING = "This ZooKeeper instance is not currently serving requests\n"


def members(*roles: str, ensemble: str = "a") -> list[QuorumMember]:
    return [QuorumMember(f"{ensemble}{number}:1", role) for number, role in enumerate(roles, 1)]


def three(*, last: QuorumMember | None = None, voters: int | None = 3, **changes: Any) -> Quorum:
    """Ensemble a: a1 leads, a2 and a3 follow, or `last` in a3's place."""
    found = members("leader", "follower", "follower")
    return Quorum([*found[:2], last or found[2]], voters)._replace(**changes)


class TestJudge(unittest.TestCase):
    def answer(self, a: Quorum, server: str = "a2:1", **others: Quorum) -> StopAnswer:
        return judge_stop("a", server, {**others, "a": a})

    def yes(self, a: Quorum, server: str = "a2:1", **others: Quorum) -> str:
        found = self.answer(a, server, **others)
        self.assertIs(found.is_safe, True, found)
        return found.told

    def no(self, words: str, a: Quorum, server: str = "a2:1", **others: Quorum) -> StopAnswer:
        found = self.answer(a, server, **others)
        self.assertIs(found.is_safe, False, found)
        self.assertIn(words, found.told)
        self.assertIn(f"do not stop {server}: ", found.told)
        return found

    def unknown(self, words: str, a: Quorum, server: str = "a2:1", **others: Quorum) -> None:
        found = self.answer(a, server, **others)
        self.assertIsNone(found.is_safe, found)
        self.assertIn(words, found.told)

    def test_in_order(self) -> None:
        for server in ("a1:1", "a2:1", "a3:1"):
            told = self.yes(three(synced=2), server)
            self.assertEqual(told, f"{server} may stop: 2 of 3 voting members of a go on")

    def test_one_is_away(self) -> None:
        for server in ("a1:1", "a2:1", "a3:1"):
            found = self.no("a3:1: Connection refused: wait until all of its 3", three(last=REFUSED), server)
            self.assertTrue(found.may_change)

    def test_one_has_just_started(self) -> None:
        for trouble in ("it does not serve yet", BEHIND):
            self.no(trouble, three(last=QuorumMember("a3:1", "follower", trouble)))

    def test_five_of_which_one_is_away(self) -> None:
        """A majority would be left, and still: one at a time."""
        a = Quorum(
            [*members("leader", "follower", "follower", "follower"), QuorumMember("a5:1", None, "refused")], 5
        )
        self.no("all of its 5", a)

    def test_few_voting_members(self) -> None:
        for voters, roles, words in (
            (1, ("standalone",), "single voting member"),
            (2, ("leader", "follower"), "two, and needs both"),
        ):
            found = self.no(words, Quorum(members(*roles), voters), "a1:1")
            self.assertFalse(found.may_change)

    def test_a_follower_is_not_in_sync(self) -> None:
        self.no("1 of 2 followers are in sync", three(synced=1))

    def test_elections(self) -> None:
        self.no("a1:1 and a2:1 each say", Quorum(members("leader", "leader", "follower"), 3))
        self.no("no server leads", Quorum(members("follower", "follower", "follower"), 3))

    def test_an_observer_counts_for_nothing(self) -> None:
        two = members("leader", "follower")
        self.no("two, and needs both", Quorum([*two, QuorumMember("a3:1", "observer")], 2))
        a = Quorum(members("leader", "follower", "follower", "observer"), 3)
        self.assertIn("it has no vote", self.yes(a, "a4:1"))
        self.yes(a)
        self.yes(a._replace(members=[*a.members[:3], QuorumMember("a4:1", None, "Connection refused")]))

    def test_an_observer_stops_though_a_voting_member_is_away(self) -> None:
        self.yes(Quorum([*members("leader", "follower"), REFUSED, QuorumMember("a4:1", "observer")], 3), "a4:1")

    def test_a_server_that_is_no_member_counts_for_nothing(self) -> None:
        a = Quorum([*three(last=REFUSED).members, QuorumMember("a4:1", "follower")], 3, outside=["a4:1"])
        self.no("Connection refused", a)
        self.assertIn("it has no vote", self.yes(a, "a4:1"))

    def test_a_server_that_the_map_names_twice_counts_once(self) -> None:
        leader, follower = (
            each._replace(myid=number) for number, each in enumerate(members("leader", "follower"), 1)
        )
        for double in (leader, follower):
            a = Quorum([leader, follower, REFUSED, double._replace(server="alias:1")], 3, synced=1)
            for server in ("a1:1", "a2:1", "alias:1"):
                self.no("a3:1: Connection refused", a, server)
            third = QuorumMember("a3:1", "follower", myid=3)
            for server in ("a1:1", "a2:1", "alias:1"):
                self.yes(a._replace(members=[leader, follower, third, double], synced=2), server)

    def test_they_do_not_tell(self) -> None:
        mute = QuorumMember("a3:1", None, f"srvr: {NOT_LISTED}", is_mute=True)
        self.unknown("4lw.commands.whitelist", three(last=mute))
        self.unknown("4lw.commands.whitelist", three(last=mute), "a3:1")
        self.unknown("why not", three(voters=None, untold="why not"))
        self.unknown("the map names 3 of its 5 voting members", three(voters=5))
        self.unknown("4lw.commands.whitelist", three(last=mute, voters=5))
        one_away = [members("leader")[0], QuorumMember("a2:1", None, "Connection refused"), mute]
        self.no("a2:1: Connection refused: wait until all", Quorum(one_away, 3), "a1:1")

    def test_the_other_ensembles(self) -> None:
        """They need a majority, not all."""
        b = Quorum([*members("leader", "follower", ensemble="b"), QuorumMember("b3:1", None, "refused")], 3)
        self.yes(three(), b=b)
        self.yes(three(), b=Quorum(members("standalone", ensemble="b"), 1))
        away = Quorum(
            [QuorumMember("b1:1", "leader"), QuorumMember("b2:1", None, "x"), QuorumMember("b3:1", None, "y")], 3
        )
        self.no("b: b2:1: x, b3:1: y: wait until 2 of its 3", three(), b=away)
        headless = [REFUSED, *members("follower", "follower", ensemble="b")]
        self.no("b: no server leads", three(), b=Quorum(headless, 3))
        self.no("b cannot be reached (refused)", three(), b=Quorum([], None, absent="refused"))
        self.unknown("no right", three(), b=Quorum([], None, untold="no right"))


class FakeServer:
    """A client of one server.

    :param said: its answers, one after the other; the last again and again.
    """

    hosts = "a3:1"

    def __init__(self, *said: str | OSError) -> None:
        self._said = [*said]

    def ask(self, word: str) -> str:
        assert word == "srvr"
        found = self._said.pop(0) if len(self._said) > 1 else self._said[0]
        if isinstance(found, OSError):
            raise found
        return found

    def read(self, path: str) -> bytes:
        return str(self._said[0]).encode()


class FakeMember:
    """A client of one server of an ensemble, with a session there.

    :param myid: of the server that began the session.
    """

    def __init__(self, hosts: str, myid: int, role: str, config: str) -> None:
        self.hosts = hosts
        self.zk = mock.Mock(client_id=((myid << 56 | 0x37259310001) - (myid >> 7 << 64), b""))
        self._said = {"srvr": SRVR.format(zxid=0x105, mode=role), "mntr": "zk_synced_followers\t2\n"}
        self._config = config

    def ask(self, word: str) -> str:
        return self._said[word]

    def read(self, path: str) -> bytes:
        return self._config.encode()


class TestEnsemble(unittest.TestCase):
    def ask(self, *servers: tuple[str, int, str], absent: str = "") -> Quorum:
        """What is found in an ensemble with the voting members 1, 2 and 200."""
        lines = [f"server.{number}=h{number}:2888:3888:participant" for number in (1, 2, 200)]
        config = "\n".join([*lines, "version=0"])
        clients: Any = {hosts: FakeMember(hosts, myid, role, config) for hosts, myid, role in servers}
        own = {hosts: ("a", client) for hosts, client in clients.items()}
        connections = Connections(
            {"a": next(iter(clients.values()))}, {}, own, {absent: ("a", "x")} if absent else {}
        )
        return _ask("a", connections, 3600)

    def test_servers_are_known_by_their_sessions(self) -> None:
        """The configuration has no addresses for clients, and other names."""
        found = self.ask(("n1:1", 1, "leader"), ("n2:1", 2, "follower"), ("n200:1", 200, "follower"))
        self.assertEqual((found.voters, found.outside, found.synced), (3, [], 2))
        for server in ("n1:1", "n2:1", "n200:1"):
            self.assertIs(judge_stop("a", server, {"a": found}).is_safe, True)

    def test_one_is_away(self) -> None:
        for more in (("alias:1", 2, "follower"), ("n4:1", 4, "follower")):  # named twice; no member
            found = self.ask(("n1:1", 1, "leader"), ("n2:1", 2, "follower"), more, absent="n200:1")
            self.assertIs(judge_stop("a", "n2:1", {"a": found}).is_safe, False)


class TestQuestions(unittest.TestCase):
    def ask(self, *said: str | OSError) -> tuple[QuorumMember, int]:
        return _ask_srvr(FakeServer(*said))  # type: ignore[arg-type]

    def test_answers_to_srvr(self) -> None:
        self.assertEqual(self.ask(SRVR.format(zxid=0x105, mode="leader")), (QuorumMember("a3:1", "leader"), 0x105))
        for said, words, is_mute in (
            (STARTING, "does not serve yet", False),
            (FORBIDDEN, NOT_LISTED, True),
            (SRVR.format(zxid=1, mode="read-only"), "read-only", False),
            (OSError(111, "Connection refused"), "Connection refused", False),
        ):
            member, _ = self.ask(said)
            self.assertEqual((member.role, member.is_mute), (None, is_mute))
            self.assertIn(words, member.trouble)

    def test_a_follower_is_awaited(self) -> None:
        last = 1 << 32 | 7
        for said, zxid, reached, trouble, seconds in (
            ([SRVR.format(zxid=last, mode="follower")], 5, last, "", 3600),
            ([SRVR.format(zxid=5, mode="follower")], 5, last, BEHIND, 0),
            ([STARTING], 5, last, "it does not serve yet", 3600),
            ([], 5, 1 << 32, "", 3600),  # nothing was written since the election
        ):
            client = FakeServer(*said)
            deadline = time.monotonic() + seconds
            with mock.patch("parkazoo.admin.stopping.AGAIN_S", 0.0):
                member = _await(client, QuorumMember("a3:1", "follower"), zxid, reached, deadline)  # type: ignore[arg-type]
            self.assertEqual(member.trouble, trouble)

    def test_quorums_by_weight_are_not_counted(self) -> None:
        servers = "server.1=a1:2888:3888:participant\nversion=0"
        for config, untold in (
            (servers, ""),
            (f"{servers}\nweight.1=2", UNCOUNTED),
            (f"group.1=1\n{servers}", UNCOUNTED),
        ):
            self.assertEqual(_read_config(FakeServer(config)), (config, untold))  # type: ignore[arg-type]

    def test_which_ensemble(self) -> None:
        cluster_map = ClusterMap("x", {"a": "a1:1,a2:1", "b": "b1:1"}, ("a", "b"), "a")
        self.assertEqual(_find("B1:1", cluster_map), ("b", "b1:1"))
        for given in ("c1:1", "a1:2", "a1:1,a2:1"):
            with self.assertRaises(WrongArgumentError):
                _find(given, cluster_map)


class TestCommand(unittest.TestCase):
    def run_stop(self, answers: Sequence[StopAnswer | Exception], *options: str) -> tuple[int, str]:
        """The exit status and what is printed, if `may_stop` answers so."""
        app = typer.Typer()
        check_command.register(app)
        with (
            mock.patch.object(check_command, "may_stop", side_effect=answers),
            mock.patch.object(check_command, "PAUSE_S", 0.0),
        ):
            found = CliRunner().invoke(app, ["--hosts", "a1", "--stop", "a2:1", *options])
        if isinstance(found.exception, WrongArgumentError):
            raise found.exception
        return found.exit_code, found.output

    def test_verdicts(self) -> None:
        self.assertEqual(self.run_stop([StopAnswer(True, "go")]), (0, "PARKAZOO OK - go\n"))
        self.assertEqual(self.run_stop([StopAnswer(False, "away")]), (1, "PARKAZOO CRITICAL - away\n"))
        self.assertEqual(self.run_stop([StopAnswer(None, "mute")]), (3, "PARKAZOO UNKNOWN - mute\n"))
        self.assertEqual(self.run_stop([ClusterMapError("no map")]), (3, "PARKAZOO UNKNOWN - no map\n"))
        with self.assertRaises(WrongArgumentError):
            self.run_stop([WrongArgumentError("not of the map")])

    def test_it_waits(self) -> None:
        no, unknown, yes = StopAnswer(False, "away"), StopAnswer(None, "mute"), StopAnswer(True, "go")
        self.assertEqual(self.run_stop([no, unknown, yes], "--wait", "3600"), (0, "PARKAZOO OK - go\n"))
        never = StopAnswer(False, "single", may_change=False)
        self.assertEqual(self.run_stop([never], "--wait", "3600")[0], 1)
        self.assertEqual(self.run_stop([UnreadableError("silent"), yes], "--wait", "3600")[0], 0)
        for error in (ClusterMapError("no map"), NoRightError("no right")):
            found = self.run_stop([error], "--wait", "3600")
            self.assertEqual(found, (3, f"PARKAZOO UNKNOWN - {error}\n"))

    def test_options_that_do_not_belong_together(self) -> None:
        wrong: Mapping[str, list[str]] = {
            "--json": [],
            "--strict": [],
            "--format": ["nagios"],
            "--admin-port": ["0"],
        }
        for option, more in wrong.items():
            self.assertEqual(self.run_stop([], option, *more)[0], 2)
        app = typer.Typer()
        check_command.register(app)
        self.assertEqual(CliRunner().invoke(app, ["--hosts", "a1", "--wait", "3"]).exit_code, 2)
