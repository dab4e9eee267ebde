"""A client whose map gains ensembles while it is at work: what it has stays, and it knows them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kazoo.exceptions import ConnectionLoss
from kazoo.protocol.states import KeeperState

from parkazoo.admin.grow import without_unused
from parkazoo.kazoo_private import Auth, Create, GetData
from parkazoo.protocol.client_id import unpack_sessions
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.placement import ENSEMBLE, MAP
from parkazoo.protocol.registration import decode_registration, format_session, registration_path
from tests.engine.test_session import CONNECTED, EXPIRED, SessionTest
from tests.engine.test_session_servers import config
from tests.fakes.client import Client
from tests.fakes.member import CONFIG, CONNECT_S, PASSWORD, SESSION_TIMEOUT_S, STAT, Ensemble
from tests.fakes.result import Result

CONNECTING = KeeperState.CONNECTING


def show_first(ensemble: Ensemble, copy: ClusterMap) -> None:
    """The first read of the map shows this, and only that one."""
    read, copies = ensemble.read, iter([copy.to_json()])

    def read_late(path: str) -> Any:
        return (next(copies, read(path)[0]), STAT) if path == MAP else read(path)

    ensemble.read = read_late  # type: ignore[method-assign]


class GrowthTest(SessionTest):
    def grow(self, client: Client, *names: str, on: str = "a") -> None:
        """More ensembles, and the client hears of them on one that it has joined."""
        client.grow(*names)
        client.ensembles[on].data[MAP] = client.map.to_json()
        self.hear(client, on)

    def hear(self, client: Client, on: str = "a") -> None:
        trouble = client.session.take_copy(client[on], client.ensembles[on].read(MAP), f"{on}:1")
        self.assertIsNone(trouble)
        client.runtime.turn()

    def ask(self, client: Client, name: str, request: Any = None) -> Result:
        """As `client.join` does."""
        result = Result()
        port = client.session.roster.ports[client.session.roster.names.index(name)]
        port.submit(request or GetData(ENSEMBLE, None), result)
        return result

    def join_new(self, client: Client, name: str) -> None:
        result = self.ask(client, name)
        client.runtime.turn(CONNECT_S)
        self.assertEqual(result.value, (client.identity(name), STAT))

    def said(self, client: Client) -> dict[str, tuple[Any, int]]:
        """The id and the epoch in the registration of each member's session."""
        found = {}
        for name in client.joined:
            data = client.ensembles[name].data[registration_path(client[name].session_id)]
            about = decode_registration(data)
            found[name] = about["client"], about["epoch"]
        return found

    def assert_registered(self, client: Client, names: str, number: int, epoch: int) -> None:
        self.assertEqual(client.session.number, number)
        self.assertEqual(self.said(client), dict.fromkeys(names, (format_session(number), epoch)))


class TestOneBecomesSeveral(GrowthTest):
    def test_what_it_has_stays(self) -> None:
        """Its id, its session, its connection, its watches. It joins nothing by itself."""
        client = self.started(names="a")
        session, number = client["a"].session_id, client.session.number
        client["a"].has_ephemerals = client["a"].has_watches = True
        self.grow(client, "b")
        self.assertEqual(client.session.roster.cluster_map, client.map)
        self.assertEqual((number, client["a"].session_id), (session, session))
        self.assert_registered(client, "a", session, epoch=2)
        client.runtime.turn(10 * SESSION_TIMEOUT_S)
        self.assertEqual((client.joined, client.states, client["a"].told), (["a"], [], []))
        self.assertEqual(client.session.roster.names, ["a", "b"])
        self.assertEqual(client.session.roster.state_on(1), KeeperState.CLOSED)
        self.assert_read(*self.called(client))

    def called(self, client: Client) -> list[Result]:
        """Reads of the tree, which is on the first ensemble."""
        found = [self.call(client, "a") for _ in range(3)]
        client.runtime.turn()
        return found

    def test_it_joins_when_asked(self) -> None:
        """It registers there before anything else, with its id."""
        client = self.started(names="a")
        number = client.session.number
        self.grow(client, "b", "c")
        self.join_new(client, "c")
        self.assert_registered(client, "ac", number, epoch=2)
        self.assertIsInstance(client.ensembles["c"].seen[0], Create)
        self.assertEqual((client["c"].hosts, client["c"].limit_s), ("c:1", SESSION_TIMEOUT_S))
        self.assertEqual(client.session.roster.state_on(2), CONNECTED)
        self.join_new(client, "b")
        self.assert_registered(client, "acb", number, epoch=2)
        self.assertEqual((client.states, client.session.roster.names), ([], ["a", "b", "c"]))

    def test_the_client_id(self) -> None:
        """It has the same id, and resumes all sessions."""
        client = self.started(names="a")
        number = client.session.number
        self.assertEqual(client.session.client_id, (number, PASSWORD))
        self.grow(client, "b")
        self.join_new(client, "b")
        client_id = client.session.client_id
        assert client_id is not None
        self.assertEqual(client_id[0], number)
        sessions = {name: client[name].session_id for name in "ab"}
        self.assertEqual({name: each[0] for name, each in (unpack_sessions(client_id[1]) or {}).items()}, sessions)
        client.resume, client.client_state = client_id, CONNECTING
        client.begin()
        client.runtime.turn(3 * CONNECT_S)
        self.assertEqual({name: client[name].session_id for name in client.joined}, sessions)
        self.assert_registered(client, "ab", number, epoch=2)

    def test_a_client_id_from_before(self) -> None:
        """It is that of kazoo's session, and goes on where that session is."""
        client = self.started(names="a")
        client.resume, client.client_state = client.session.client_id, CONNECTING
        number = client.session.number
        client.grow("b")
        client.begin()
        client.runtime.turn(3 * CONNECT_S)
        self.assertEqual(client["a"].session_id, number)
        self.assert_registered(client, "a", number, epoch=2)

    def test_found_when_it_connects_again(self) -> None:
        client = self.started(names="a")
        number = client.session.number
        client.grow("b")
        client["a"].lose()
        client.ensembles["a"].is_up = True
        client.runtime.turn(CONNECT_S)
        self.assert_registered(client, "a", number, epoch=2)
        self.join_new(client, "b")
        self.assert_registered(client, "ab", number, epoch=2)

    def test_found_by_a_new_session(self) -> None:
        """Its id is the client's, as it has been registered: it stays."""
        client = self.started(names="a")
        old = client.session.number
        client.grow("b")
        client["a"].lose()
        client.runtime.turn(SESSION_TIMEOUT_S)
        client.ensembles["a"].is_up = True
        client.runtime.turn(2 * CONNECT_S)
        self.assertEqual(client.states, [CONNECTING, EXPIRED, CONNECTING, CONNECTED])
        self.assertNotEqual(client.session.number, old)
        self.assert_registered(client, "a", client["a"].session_id, epoch=2)
        self.join_new(client, "b")
        self.assert_registered(client, "ab", client["a"].session_id, epoch=2)

    def test_found_when_it_starts(self) -> None:
        """Between the first look at the copy and the second, which is behind the registration."""
        client = Client("a")
        show_first(client.ensembles["a"], client.map)
        client.grow("b")
        client.runtime.turn(CONNECT_S)
        self.assertEqual((client.states, client.session.roster.names), ([CONNECTED], ["a", "b"]))
        self.assert_registered(client, "a", client["a"].session_id, epoch=2)
        self.join_new(client, "b")
        self.assert_registered(client, "ab", client["a"].session_id, epoch=2)

    def test_an_expired_session_does_not_end_the_clients(self) -> None:
        """If it holds nothing there, as with several ensembles; and the id outlives it."""
        client = self.started(names="a")
        number = client.session.number
        self.grow(client, "b")
        client["a"].lose()
        client.runtime.turn(SESSION_TIMEOUT_S)
        client.ensembles["a"].is_up = True
        client.runtime.turn(2 * CONNECT_S)
        self.assertNotEqual(client["a"].session_id, number)
        self.assertEqual(client.states, [CONNECTING, CONNECTED])
        self.assert_registered(client, "a", number, epoch=2)

    def test_lost(self) -> None:
        """The next id is a number of its own."""
        client = self.started(names="a")
        number = client.session.number
        self.grow(client, "b")
        self.join_new(client, "b")
        client["b"].has_ephemerals = True
        client["b"].lose()
        client.runtime.turn(SESSION_TIMEOUT_S)
        client.ensembles["b"].is_up = True
        client.runtime.turn(3 * CONNECT_S)
        self.assertEqual(client.states, [CONNECTING, EXPIRED, CONNECTING, CONNECTED])
        self.assertNotIn(client.session.number, (number, client["a"].session_id))
        self.assert_registered(client, "ab", client.session.number, epoch=2)

    def test_requests_do_not_wait_for_ever(self) -> None:
        client = self.started(names="a")
        self.grow(client, "b")
        self.assertEqual(client["a"].limit_s, SESSION_TIMEOUT_S)
        client["a"].lose()
        result = self.call(client, "a")
        client.runtime.turn(SESSION_TIMEOUT_S)
        self.assertIsInstance(result.value, ConnectionLoss)

    def test_credentials(self) -> None:
        """Those ensembles take one that are joined; the others get it when they are."""
        client = self.started(names="a")
        self.grow(client, "b")
        result = Result()
        client.session.call(Auth(0, "digest", "u:p"), result)
        client.runtime.turn()
        self.assertEqual((result.value, client.joined), (True, ["a"]))
        self.join_new(client, "b")
        client.session.call(Auth(0, "digest", "v:p"), Result())
        client.runtime.turn()
        self.assertEqual([type(each) for each in client.ensembles["b"].seen].count(Auth), 1)


class TestHosts(GrowthTest):
    def test_of_the_user(self) -> None:
        """They stay in use, so nobody moves. Those of the map are tried when they are away."""
        client = self.started(names="a")
        client.servers["alias:1"] = client.ensembles["a"]
        client.describe_hosts = lambda: "alias:1"  # type: ignore[method-assign]
        client["a"].hosts = "alias:1"
        self.grow(client, "b")
        self.assertEqual((client["a"].hosts, client["a"].spare), ("alias:1", "a:1"))

    def test_the_same(self) -> None:
        client = self.started(names="a")
        self.grow(client, "b")
        self.assertEqual((client["a"].hosts, client["a"].spare), ("a:1", ""))

    def test_those_of_an_ensemble_that_comes(self) -> None:
        """The user names them too, so that a client can begin there: they are not the first ensemble's."""
        for hosts, used, spare in (("alias:1,B:1", "alias:1", "a:1"), ("b:1", "a:1", "")):
            client = self.started(names="a")
            client.describe_hosts = lambda hosts=hosts: hosts  # type: ignore[misc]
            self.grow(client, "b")
            self.assertEqual((client["a"].hosts, client["a"].spare), (used, spare))

    def test_the_map_names_others_later(self) -> None:
        """Then it is followed."""
        client = self.started(names="a")
        client.describe_hosts = lambda: "alias:1"  # type: ignore[method-assign]
        self.grow(client, "b")
        client.map = client.map.with_hosts({"a": "a:2,a:3"})
        client.ensembles["a"].data[MAP] = client.map.to_json()
        self.hear(client)
        self.assertEqual((client["a"].hosts, client["a"].spare), ("a:2,a:3", ""))

    def test_the_ensemble_names_others_later(self) -> None:
        client = self.started(names="a")
        client.ensembles["a"].data[CONFIG] = config(1, "a:1", "a:2")
        client["a"].read_config(client.ensembles["a"])
        self.grow(client, "b")
        self.assertEqual(client["a"].hosts, "a:1")
        client["a"].read_config(client.ensembles["a"])
        self.assertEqual(client["a"].hosts, "a:1,a:2")

    def test_names_that_no_map_could_have(self) -> None:
        for hosts in ("a:1,a:1", "no name:1"):
            client = self.started(names="a")
            client.describe_hosts = lambda hosts=hosts: hosts  # type: ignore[misc]
            self.grow(client, "b")
            self.assertEqual((client["a"].hosts, client["a"].spare), ("a:1", ""))


class TestSeveralBecomeMore(GrowthTest):
    def test_two_become_three(self) -> None:
        """Heard of on any ensemble, or where it has not been heard of yet."""
        for on in "ab":
            client = self.started("ab", names="ab")
            number = client.session.number
            self.grow(client, "c", on=on)
            self.assert_registered(client, "ab", number, epoch=2)
            self.join_new(client, "c")
            self.assert_registered(client, "abc", number, epoch=2)
            self.assertEqual(client.states, [])
            self.assert_read(*self.read_all(client))

    def read_all(self, client: Client) -> list[Result]:
        results = [self.call(client, name) for name in "ab"]
        client.runtime.turn()
        return results

    def test_more_become_one_again(self) -> None:
        """By `map abort`: a client that began meanwhile keeps its id, by which others know its ephemerals."""
        client = Client("a")
        client.grow("b")
        client.runtime.turn(CONNECT_S)
        number, found = client.session.number, client.session.client_id
        self.assertNotEqual(number, client["a"].session_id)
        client.map = without_unused(client.map)
        client.ensembles["a"].data[MAP] = client.map.to_json()
        self.hear(client)
        self.assertEqual((client.map.names, client.states), (("a",), [CONNECTED]))
        self.assertEqual((client.session.number, client.session.client_id), (number, found))
        self.assert_registered(client, "a", number, epoch=3)

    def test_again_and_again(self) -> None:
        client = self.started(names="a")
        number = client.session.number
        for epoch, name in enumerate("bcde", 2):
            self.grow(client, name)
            self.join_new(client, name)
            self.assert_registered(client, "abcde"[:epoch], number, epoch)
        self.assertEqual(client.states, [])

    def test_a_bootstrap_ensemble_apart(self) -> None:
        """It keeps its index, though the map's names have another order now."""
        for is_starting in (False, True):
            client = Client("ab")
            client.map = ClusterMap("test", client.map.ensembles, ("a",), "b")
            for ensemble in client.ensembles.values():
                ensemble.data[MAP] = client.map.to_json()
            if is_starting:
                show_first(client.ensembles["a"], client.map)
            else:
                client.runtime.turn(CONNECT_S)
            client.grow("c")
            client.ensembles["a"].data[MAP] = client.map.to_json()
            client.runtime.turn(CONNECT_S)
            self.hear(client)
            self.assertEqual((client.map.names, client.session.roster.names), (("a", "c", "b"), ["a", "b", "c"]))
            on_tree, on_bootstrap = Result(), Result()
            client.ensembles["a"].data["/x"] = b"tree"
            client.ensembles["b"].data["/zookeeper/quota"] = b"bootstrap"
            client.session.call(GetData("/x", None), on_tree)
            client.session.call(GetData("/zookeeper/quota", None), on_bootstrap)
            client.runtime.turn(CONNECT_S)
            self.assertEqual((on_tree.value, on_bootstrap.value), ((b"tree", STAT), (b"bootstrap", STAT)))
            self.assertEqual(client.joined, ["a", "b"])
            self.join_new(client, "c")

    def test_servers_are_followed(self) -> None:
        client = self.started(names="a")
        self.grow(client, "b")
        self.join_new(client, "b")
        client.map = client.map.with_hosts({"b": "b:2"})
        client.ensembles["a"].data[MAP] = client.map.to_json()
        self.hear(client)
        self.assertEqual(client["b"].hosts, "b:2")

    def test_servers_of_another_ensemble(self) -> None:
        """What waits for it fails; the rest of the client goes on."""
        client = self.started(names="a")
        self.grow(client, "b")
        client.ensembles["b"].data[ENSEMBLE] = client.identity("a")
        result = self.ask(client, "b")
        client.runtime.turn(CONNECT_S)
        self.assertIn("are not ensemble b", str(result.value))
        self.assertEqual(client.states, [])

    def test_another_placement(self) -> None:
        """No client of today can work by that: it keeps what it has."""
        client = self.started(names="a")
        self.grow(client, "b")
        weighted = replace(client.map, unweighted=(), epoch=3)
        trouble = client.session.take_copy(client["a"], (weighted.to_json(), STAT), "a:1")
        self.assertIn("places znodes otherwise", str(trouble))
        self.join_new(client, "b")
        self.assertEqual((client.session.roster.cluster_map, client.states), (client.map, []))

    def test_stopped(self) -> None:
        client = self.started(names="a")
        self.grow(client, "b")
        over: list[bool] = []
        client.session.stop(lambda: over.append(True))
        client.runtime.turn(2 * CONNECT_S)
        self.assertEqual(over, [True])
        self.assert_over(client)
        self.assertIsInstance(self.ask(client, "b").value, Exception)
        self.assertEqual(client.joined, ["a"])
