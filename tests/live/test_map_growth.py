"""Clients at work while their map, of form plain, gains ensembles. No command writes such a map: the tests do."""

from __future__ import annotations

from typing import Any

from kazoo.protocol.states import KazooState
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo import ParKazooClient
from parkazoo.admin import change_hosts, init_map, list_clients, read_map, read_status
from parkazoo.admin.clients import TIMEOUT_S, connect_to
from parkazoo.admin.copies import update_copies
from parkazoo.admin.make import make_identity, make_structure
from parkazoo.fsck import check
from parkazoo.protocol.placement import MAP
from parkazoo.protocol.registration import format_session
from tests.fakes.client import with_more
from tests.handlers import make_handler
from tests.live.map_case import MapCase, check_but_strangers, other_spelling, output_of
from tests.live.world import Seen, wait_until


class GrowthTest(MapCase):
    def init(self, *names: str) -> None:
        self.map = init_map(self.a, {name: self.all[name] for name in names})

    def grow(self, *names: str) -> None:
        """They get what belongs to a cluster; then the map is published, then it is copied."""
        self.map = with_more(self.map, **{name: self.all[name] for name in names})
        with connect_to(self.map.ensembles, {"auth_data": []}, TIMEOUT_S) as (clients, _):
            for client in clients.values():
                make_structure(client, self.map, OPEN_ACL_UNSAFE)
                if client.name in names:
                    make_identity(client, self.map, OPEN_ACL_UNSAFE)
            clients["a"].call("set", MAP, self.map.to_json())
            update_copies(clients, "a")

    def follows(self, client: ParKazooClient) -> None:
        wait_until(lambda: client.cluster_map == self.map, "the client works by the newest map")

    def registered(self, client: ParKazooClient, *names: str) -> None:
        """With one id and the newest epoch, on these ensembles."""
        assert client.client_id is not None
        number = format_session(client.client_id[0])

        def is_registered() -> bool:
            found = {each.client: each for each in list_clients(self.a).clients}[number]
            return (found.map, sorted(found.sessions)) == (self.map.epoch, sorted(names))

        wait_until(is_registered, f"{number} is registered on {names}")

    def assert_well(self) -> None:
        self.assertEqual(read_map(self.a), self.map)
        self.assertEqual(check_but_strangers(self.a), [])
        self.assertEqual(read_status(self.a).findings, [])
        found = {kind.name for kind, tally in check(self.a, grace_s=0).tallies.items() if tally.found}
        self.assertLessEqual(found, {"missing-structure"})  # it has only a few fences


class TestGrowth(GrowthTest):
    def test_one_becomes_two(self) -> None:
        """A client with a lock, a watch and an ephemeral keeps all. It joins b when it is asked to."""
        self.init("a")
        client, states = self.client(self.a)
        client_id, session = client.client_id, client.members["a"].client_id
        self.assertEqual(client_id, session)
        client.create("/e", ephemeral=True)
        client.create("/w")
        lock, watch = client.Lock("/lock", "me"), Seen()
        lock.acquire()
        client.get("/w", watch=watch)
        other, _ = self.client(self.a)

        self.grow("b")
        self.follows(client)
        self.follows(other)
        self.registered(client, "a")
        self.assertEqual([*client.members], ["a"])
        self.assertEqual(client.client_id[0], client_id[0])
        self.assertEqual(client.members["a"].client_id, session)
        self.assertTrue(lock.is_acquired)
        self.assertEqual(watch, [])
        with self.assertRaisesRegex(ValueError, "no ensemble 'c' in the cluster map: a, b"):
            client.join("c")

        client.join("b")
        self.registered(client, "a", "b")
        self.assertEqual(sorted(client.members), ["a", "b"])
        other.set("/w", b"new")
        self.assertEqual([each.path for each in watch.wait()], ["/w"])
        self.assertEqual(other.exists("/e").ephemeralOwner, client.client_id[0])
        self.assertFalse(other.Lock("/lock", "other").acquire(blocking=False))
        self.assertEqual((states, client.state_of("/e")), ([], KazooState.CONNECTED))
        self.assert_well()
        self.assertIn("nothing yet", output_of("map", "show", "--hosts", self.a))
        self.assertIn("it has no weight yet", output_of("where", "/e", "--hosts", self.b))
        lock.release()
        client.stop()
        self.assertIsNone(other.exists("/e"))

    def test_clients_of_both_kinds(self) -> None:
        """One has begun with one ensemble, the other with two. Each sees the other's id as the owner."""
        self.init("a")
        old, _ = self.client(self.a)
        self.grow("b")
        self.follows(old)
        new, states = self.client(self.b)
        self.assertEqual([*new.members], ["b"])
        for client, path in ((old, "/old"), (new, "/new")):
            client.create(path, ephemeral=True)
        for client in (old, new):
            self.assertEqual(client.exists("/old").ephemeralOwner, old.client_id[0])
            self.assertEqual(client.exists("/new").ephemeralOwner, new.client_id[0])
        self.assertNotEqual(new.client_id[0], new.members["a"].client_id[0])
        self.assertEqual(states, [])

    def test_kept_across_a_start(self) -> None:
        """The client_id of a client that has grown resumes both sessions."""
        self.init("a")
        old, _ = self.client(self.a)
        old.create("/e", ephemeral=True)
        self.grow("b")
        self.follows(old)
        old.join("b")
        client_id = old.client_id
        for member in old.members.values():  # it must not take its sessions back
            member.set_hosts("127.0.0.1:1")
        sessions = {name: member.client_id[0] for name, member in old.members.items()}
        new = ParKazooClient(self.b, client_id=client_id, handler=make_handler())
        self.addCleanup(new.close)
        self.addCleanup(new.stop)
        new.start()
        new.join()
        self.assertEqual({name: member.client_id[0] for name, member in new.members.items()}, sessions)
        self.assertEqual(new.client_id[0], client_id[0])
        self.assertEqual(new.exists("/e").ephemeralOwner, client_id[0])

    def test_two_become_three(self) -> None:
        """The tree stays where it is, also for those who begin later."""
        self.init("a", "b")
        client, states = self.client(self.a)
        paths = [f"/d{number}/x" for number in range(20)]
        for path in paths:
            client.create(path, makepath=True, ephemeral=True)
        self.grow("c")
        self.follows(client)
        self.registered(client, "a", "b")
        client.join("c")
        self.registered(client, "a", "b", "c")
        later, _ = self.client(self.c)
        for path in paths:
            self.assertEqual(later.exists(path).ephemeralOwner, client.client_id[0])
        later.create("/later/x", makepath=True)
        self.assertEqual(client.get_children("/later"), ["x"])
        self.assertEqual(states, [])
        self.assert_well()

    def test_servers_change(self) -> None:
        """`map hosts` knows such maps."""
        self.init("a")
        client, states = self.client(self.a)
        self.grow("b")
        self.map = change_hosts(self.a, {"b": other_spelling(self.b), "a": other_spelling(self.a)})
        self.assertEqual((self.map.unweighted, self.map.epoch), (("b",), 3))
        self.follows(client)
        client.join("b")
        self.registered(client, "a", "b")
        client.set("/", b"")
        self.assertEqual(states, [])
        self.assert_well()

    def test_a_locking_queue(self) -> None:
        """As long as one ensemble has all znodes, all use it as kazoo's."""
        self.init("a")
        old, _ = self.client(self.a)
        before = old.LockingQueue("/queue")
        before.put(b"x")
        self.assertEqual(before.get(timeout=10), b"x")
        self.grow("b")
        self.follows(old)
        new, _ = self.client(self.b)
        after: Any = new.LockingQueue("/queue")
        self.assertIsNone(after.get(timeout=0.5))
        self.assertTrue(before.consume())
        after.put(b"y")
        self.assertEqual(after.get(timeout=10), b"y")
