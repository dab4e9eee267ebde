"""How a session starts and stops, over a runtime whose clock the test turns and members without a wire."""

from __future__ import annotations

import json
import unittest
from functools import partial
from typing import Any

from kazoo.exceptions import AuthFailedError, ConnectionClosedError, ConnectionLoss, NoAuthError, ZookeeperError
from kazoo.protocol.states import KeeperState

from parkazoo.engine.session import AWAY_POLL_S
from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import GetData
from parkazoo.protocol.placement import ENSEMBLE, MAP
from tests.fakes.client import Client
from tests.fakes.member import CONNECT_S, SESSION_TIMEOUT_S, STAT
from tests.fakes.result import Result
from tests.where_is import where_is

CONNECTED, CLOSED = KeeperState.CONNECTED, KeeperState.CLOSED
EXPIRED, AUTH_FAILED = KeeperState.EXPIRED_SESSION, KeeperState.AUTH_FAILED


class SessionTest(unittest.TestCase):
    def started(self, joined: str = "a", **options: Any) -> Client:
        """A client that has joined these ensembles."""
        client = Client(**options)
        client.runtime.turn(CONNECT_S)
        self.join(client, joined)
        self.assertEqual(client.states, [CONNECTED])
        client.states.clear()
        return client

    def join(self, client: Client, names: str) -> None:
        for name in names:
            self.call(client, name)
        client.runtime.turn(CONNECT_S)
        self.assertLessEqual({*names}, {*client.joined})

    def call(self, client: Client, name: str, watch: Any = None) -> Result:
        """Read a znode on that ensemble."""
        placement, names = client.map.make_placement(), client.map.names
        paths = (f"/p{number}/x" for number in range(100))
        path = next(path for path in paths if names[placement.of(path)] == name)
        client.ensembles[name].data[where_is(placement, path).home.path] = b"x"
        result = Result()
        client.session.call(GetData(path, watch), result)
        return result

    def assert_read(self, *results: Result) -> None:
        self.assertEqual([result.value for result in results], [(b"x", STAT)] * len(results))

    def assert_over(self, client: Client) -> None:
        """Nothing is left, here or on the servers."""
        self.assertTrue(client.session.is_over)
        self.assertEqual(client.runtime.users, 0)
        self.assertEqual([each.sessions for each in client.ensembles.values() if each.is_up and each.sessions], [])


class TestStart(SessionTest):
    def test_one_ensemble_is_enough(self) -> None:
        client = Client()
        for name in "bc":
            client.ensembles[name].is_up = False
        client.runtime.turn(CONNECT_S - 0.5)
        self.assertEqual((client.states, client.session.has_map), ([], False))
        client.runtime.turn(0.5)
        self.assertEqual((client.states, client.joined), ([CONNECTED], ["a"]))
        self.assertEqual(client.session.roster.cluster_map, client.map)
        self.assertEqual(client.runtime.users, 1)
        client.runtime.turn(10 * SESSION_TIMEOUT_S)
        self.assertEqual((client.states, client.joined), ([CONNECTED], ["a"]))

    def test_whichever_answers(self) -> None:
        """It is given servers of any ensembles, and finds out to which the first belongs that answers."""
        client = Client(first="abc")
        for name in "ab":
            client.ensembles[name].is_up = False
        client.runtime.turn(CONNECT_S)
        self.assertEqual((client.states, client.joined), ([CONNECTED], ["c"]))
        first = client.session.roster.first
        self.assertEqual((first.hosts, first.limit_s), ("c:1", SESSION_TIMEOUT_S))
        on_c = self.call(client, "c")
        client.runtime.turn()
        self.assert_read(on_c)
        self.assertEqual(client.joined, ["c"])

    def test_none_answers(self) -> None:
        client = Client(first="ab")
        for name in "ab":
            client.ensembles[name].is_up = False
        early = self.call(client, "a")
        client.runtime.turn(10 * CONNECT_S)
        self.assertEqual((client.states, early.told), ([], []))
        self.assertEqual(client.session.roster.describe_missing(), "the cluster (it is down)")
        client.ensembles["b"].is_up = True
        client.runtime.turn(CONNECT_S)
        self.assertEqual((client.states, client.joined), ([CONNECTED], ["b", "a"]))

    def test_early_operations_wait(self) -> None:
        """They are sent in their order and before later ones, on an ensemble that is then joined too."""
        client = Client()
        early = [self.call(client, name) for name in "bab"]
        client.runtime.turn(CONNECT_S)
        self.assertEqual([len(result.told) for result in early], [0, 1, 0])
        later = self.call(client, "b")
        client.runtime.turn(CONNECT_S)
        self.assert_read(*early, later)
        self.assertEqual(client.joined, ["a", "b"])

    def test_one_ensemble(self) -> None:
        """The client's id is the session's; the user's hosts stay; requests wait for ever, as with kazoo."""
        client = Client("a")
        client.servers["alias:1"] = client.ensembles["a"]
        client.session.roster.first.hosts = "alias:1"
        client.runtime.turn(CONNECT_S)
        member = client["a"]
        self.assertEqual(client.states, [CONNECTED])
        self.assertEqual((member.hosts, member.limit_s), ("alias:1", None))
        self.assertEqual(client.session.number, member.session_id)
        self.assertEqual(client.session.client_id, (member.session_id, member.session_password))

    def test_several_ensembles(self) -> None:
        """The client's id is a number of its own, from the first moment on."""
        client = Client()
        number = client.session.number
        client.runtime.turn(CONNECT_S)
        self.assertEqual(client.session.number, number)
        self.assertNotEqual(client["a"].session_id, number)
        self.assertNotEqual(Client().session.number, number)

    def test_one_has_no_copy_yet(self) -> None:
        """It has just been added, for one: the next server is asked."""
        for first in ("ab", "ba"):
            with self.subTest(first):
                client = Client(first=first)
                del client.ensembles["a"].data[MAP]
                client.runtime.turn(2 * CONNECT_S)
                self.assertEqual((client.states, client.joined), ([CONNECTED], ["b"]))
                self.assertEqual(client.ensembles["a"].sessions, set())

    def test_another_name_for_its_servers(self) -> None:
        """The record there says which ensemble it is, whatever the address."""
        client = Client(first="a")
        client.ensembles["a"].data[ENSEMBLE] = client.identity("c")
        client.runtime.turn(CONNECT_S)
        self.assertEqual((client.states, client.joined), ([CONNECTED], ["c"]))


class TestMistakes(SessionTest):
    def test_while_it_is_open(self) -> None:
        """Another attempt may do."""
        client = self.started()
        client.session.have_mistaken(KeyError("x"))
        client.runtime.turn(CONNECT_S)
        self.assertEqual((client.states, client.session.failure), ([], None))


class TestFailedStart(SessionTest):
    def check(self, client: Client, error: type[Exception], words: str, state: str = CLOSED) -> None:
        """What waits, and what comes, raises the reason; nothing is left."""
        early = self.call(client, "b")
        with self.assertLogs("parkazoo.test", "ERROR") as logged:
            client.runtime.turn(3 * CONNECT_S)
        late = self.call(client, "b")
        self.assertEqual(client.states, [state])
        client.runtime.turn(CONNECT_S)
        for told in (client.session.failure, early.value, late.value):
            self.assertIsInstance(told, error)
            self.assertIn(words, str(told))
        self.assertEqual(len(logged.output), 1)
        self.assertIn(words, logged.output[0])
        self.assert_over(client)

    def test_a_mistake(self) -> None:
        client = Client()
        client.runtime.call(partial(client.session.have_mistaken, KeyError("x")))
        self.check(client, KeyError, "x")

    def test_no_map(self) -> None:
        client = Client()
        del client.ensembles["a"].data[MAP]
        self.check(client, ClusterMapError, "no cluster map at /parkazoo/map on a:1: these servers are ensemble a")

    def test_no_map_anywhere(self) -> None:
        """All the servers are asked before it fails."""
        client = Client(first="abc")
        for ensemble in client.ensembles.values():
            del ensemble.data[MAP]
        self.check(client, ClusterMapError, "no cluster map at /parkazoo/map on c:1")

    def test_no_map_and_no_identity(self) -> None:
        client = Client(first="ab")
        client.ensembles["a"].data.clear()
        self.check(client, ClusterMapError, "either none has been made")

    def test_a_map_that_may_not_be_read(self) -> None:
        client = Client()
        client.ensembles["a"].data[MAP] = NoAuthError()
        self.check(client, ClusterMapError, "may not read /parkazoo/map on a:1")

    def test_a_damaged_map(self) -> None:
        client = Client()
        client.ensembles["a"].data[MAP] = b"{"
        self.check(client, ClusterMapError, "cannot use the cluster map at /parkazoo/map on a:1")

    def test_an_error_for_an_answer(self) -> None:
        client = Client()
        client.ensembles["a"].data[MAP] = ZookeeperError("no")
        self.check(client, ZookeeperError, "no")

    def test_another_cluster_s_ensemble(self) -> None:
        client = Client()
        client.ensembles["a"].data[ENSEMBLE] = json.dumps({"cluster": "other", "name": "a"}).encode()
        self.check(client, ClusterMapError, "are not ensemble a of this cluster")

    def test_an_ensemble_that_the_map_does_not_name(self) -> None:
        client = Client()
        client.ensembles["a"].data[ENSEMBLE] = client.identity("d")
        self.check(client, ClusterMapError, "are not ensemble a of this cluster")

    def test_a_damaged_identity(self) -> None:
        for record in (b"", None, b"{", b"5", b"[]", b'"name"', b'{"name": ["a"]}', b"\xff"):
            with self.subTest(record):
                client = Client()
                client.ensembles["a"].data[ENSEMBLE] = record
                self.check(client, ClusterMapError, "are not ensemble a of this cluster")

    def test_an_ensemble_without_identity(self) -> None:
        client = Client()
        del client.ensembles["a"].data[ENSEMBLE]
        self.check(client, ClusterMapError, "they have lost their data")

    def test_an_identity_that_may_not_be_read(self) -> None:
        client = Client()
        client.ensembles["a"].data[ENSEMBLE] = NoAuthError()
        self.check(client, NoAuthError, "")

    def test_credentials_refused_with_the_map(self) -> None:
        client = Client()
        client.ensembles["a"].data[MAP] = AuthFailedError("no")
        self.check(client, AuthFailedError, "no", AUTH_FAILED)

    def test_credentials_refused(self) -> None:
        client = Client()
        client.ensembles["a"].refuses_credentials = True
        early = self.call(client, "a")
        client.runtime.turn(CONNECT_S)
        self.assertEqual(client.states, [AUTH_FAILED])
        self.assertIsInstance(early.value, ConnectionClosedError)
        self.assert_over(client)


class TestStop(SessionTest):
    def stop(self, client: Client) -> list[float]:
        """When it was over."""
        over_s: list[float] = []
        client.session.stop(lambda: over_s.append(client.runtime.now_s))
        return over_s

    def test_stopped(self) -> None:
        client = self.started("abc")
        began_s = client.runtime.now_s
        over_s = self.stop(client)
        last = self.call(client, "b")
        self.assertEqual(over_s, [])
        client.runtime.turn(CONNECT_S)
        self.assertEqual(over_s, [began_s + CONNECT_S])
        self.assert_read(last)
        self.assert_over(client)
        self.assertIsInstance(self.call(client, "b").value, ConnectionClosedError)
        self.assertEqual(len(self.stop(client)), 1)  # at once
        client.session.close()
        self.assertEqual([client[name].told[-1] for name in "abc"], ["close"] * 3)

    def test_at_any_moment(self) -> None:
        """From the first moment on; waiting operations end, and each caller hears of the end once."""
        for tenths in range(35):
            with self.subTest(tenths):
                client = Client(first="ab")
                operations = [self.call(client, name) for name in "abc"]
                client.runtime.turn(tenths / 10)
                operations += [self.call(client, name) for name in "abc"]
                asked = [self.stop(client), self.stop(client)]
                operations += [self.call(client, name) for name in "abc"]
                client.runtime.turn(2 * CONNECT_S)
                operations += [self.call(client, name) for name in "abc"]
                self.assertEqual([len(each) for each in asked], [1, 1])
                self.assertEqual([len(each.told) for each in operations], [1] * len(operations))
                self.assert_over(client)

    def test_before_anything_has_begun(self) -> None:
        client = Client()
        client.session.is_stopping = True  # its begin() was interrupted
        over_s = self.stop(client)
        client.runtime.turn()
        self.assertEqual(over_s, [0.0])
        self.assert_over(client)

    def test_what_is_not_joined(self) -> None:
        """It is not joined any more: what needs it fails at once."""
        client = self.started()
        waiting = self.call(client, "b")
        self.stop(client)
        late = self.call(client, "c")
        client.runtime.turn()
        self.assertIsInstance(self.call(client, "c").value, ConnectionClosedError)
        client.runtime.turn(CONNECT_S)
        self.assertEqual([type(each.value) for each in (waiting, late)], [ConnectionLoss, ConnectionClosedError])
        self.assertEqual(client.joined, ["a", "b"])
        self.assert_over(client)

    def test_an_ensemble_is_away(self) -> None:
        """It ends nevertheless; the session there will expire. What waits there can be failed before."""
        client = self.started("ab")
        client["b"].lose()
        waiting, on_a = self.call(client, "b"), self.call(client, "a")
        client.session.fail_away()
        self.assertIsInstance(waiting.value, ConnectionLoss)
        late = self.call(client, "b")
        client.runtime.turn(AWAY_POLL_S)
        self.assertIsInstance(late.value, ConnectionLoss)
        late = self.call(client, "b")
        over_s = self.stop(client)
        client.runtime.turn(CONNECT_S)
        self.assertEqual(len(over_s), 1)
        self.assertIsInstance(late.value, ConnectionLoss)
        self.assert_read(on_a)
        self.assert_over(client)

    def test_while_it_is_suspended(self) -> None:
        """The time after which it would give up ends with it."""
        client = self.started("ab")
        client.give_up_after_s = 2 * CONNECT_S
        client["b"].has_ephemerals = True
        client["b"].lose()
        self.stop(client)
        client.runtime.turn(10 * CONNECT_S)
        self.assertNotIn(EXPIRED, client.states)
        self.assert_over(client)

    def test_a_child_process(self) -> None:
        client = self.started("ab")
        error = RuntimeError("a child")
        client.session.abandon(error)
        self.assertEqual([client[name].told for name in "ab"], [["abandon"]] * 2)
        self.assertEqual((client.session.failure, client.session.is_leaving), (error, True))
        self.assertIs(self.call(client, "c").value, error)
