"""`parkazoo map remove`: an ensemble that holds nothing leaves the map while clients work."""

from __future__ import annotations

import threading
from typing import Any
from unittest import mock

from kazoo.protocol.states import KazooState
from kazoo.security import make_digest_acl

from parkazoo import ParKazooClient
from parkazoo.admin import (
    add_rule,
    change_weights,
    find_whereabouts,
    grow_map,
    list_clients,
    read_history,
    read_map,
    removal,
    remove_ensemble,
)
from parkazoo.admin.still_held import StillHeld, find_held
from parkazoo.errors import ClusterMapError
from parkazoo.fsck import check
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Rule
from parkazoo.protocol.placement import CLIENTS, MIRRORS
from tests.live.copies_case import CrashError
from tests.live.grow_case import GrowCase, crash_after, end_at_sleep
from tests.live.map_case import IDENTITY, error_of, output_of, run_command, wipe
from tests.live.world import DEADLINE_S, wait_until

ON_C = Rule("/c", ("c",))


class RemoveCase(GrowCase):
    def setUp(self) -> None:
        super().setUp()
        self.map = self.grow()

    def remove(self, name: str = "c", **options: Any) -> ClusterMap:
        return remove_ensemble(self.a, name, **{"strangers_gone": True, **options})

    def fill(self, client: ParKazooClient, *paths: str) -> None:
        """Make these directories on c, and nothing later."""
        add_rule(self.a, ON_C)
        self.follows(client, read_map(self.a))
        for path in paths:
            client.create(f"{path}/x", makepath=True)
            self.assertEqual(self.place(path), "c")
        output_of("map", "rule", "remove", ON_C.prefix, "--hosts", self.a)
        self.follows(client, read_map(self.a))

    def assert_gone(self, name: str = "c") -> None:
        self.assertEqual(self.plain[2].get_children(CLIENTS), [])
        found = self.assert_published("a", "b")
        self.assertEqual(({*found.gone}, {*found.leaving}, {*found.ensembles}), ({name}, set(), {"a", "b"}))


class RemoveTest(RemoveCase):
    def test_an_empty_one_leaves(self) -> None:
        """What is elsewhere goes on; so does a lock, and a watch on what is not there."""
        client, states = self.client(f"{self.c},{self.a}")
        client.join()
        client.create("/d/x", makepath=True)
        lock, seen = client.Lock("/d/lock", "me"), list[Any]()
        lock.acquire()
        for number in range(30):  # some guesses are c
            self.assertIsNone(client.exists(f"/d/e{number}/y", seen.append))
        steps: list[str] = []
        left = self.remove(tell=steps.append)
        self.assertEqual(
            steps,
            [
                f"published map {self.map.epoch + 1} with epoch 3: no new directory goes to c",
                f"published map {left.epoch}: c holds nothing, and has left",
                "no client has a session on c: its servers may be stopped",
            ],
        )
        self.assert_gone()
        self.assertEqual(({*client.members}, states, lock.is_acquired), ({"a", "b"}, [], True))
        for number in range(30):
            client.create(f"/d/e{number}/y", makepath=True)
        wait_until(lambda: len(seen) == 30, "each watch is called")
        self.assertEqual({each.type for each in seen}, {"CREATED"})
        self.assertEqual((self.remove(), states, lock.state), (left, [], KazooState.CONNECTED))
        whats = [each.what for each in read_history(self.a)]
        self.assertEqual(whats[-2:], ["ensemble c is leaving; weights: a 1, b 1, c 0", "ensemble c has left"])

    def test_directories_keep_it(self) -> None:
        """Even without a child. They are named, and nothing is changed; if they came meanwhile, the way back is a
        weight."""
        client, states = self.client()
        self.fill(client, "/c/d", "/c")
        before = read_map(self.a)
        named = (
            "2 directories have their place there, with 3 znodes in all:\n  /c: 2 children\n  /c/d: 1 child\n"
            "A directory keeps its place"
        )
        with self.assertRaisesRegex(ClusterMapError, f"^c is still needed, and nothing was changed: {named}"):
            self.remove()
        self.assertEqual(read_map(self.a), before)
        late = self.assertRaisesRegex(
            ClusterMapError, f"(?s)^c is leaving, but still needed: {named}.*map weight c=1"
        )
        with mock.patch.object(removal, "find_held") as look, late:
            look.side_effect = lambda *where: StillHeld() if look.call_count == 1 else find_held(*where)
            self.remove()
        self.assertEqual({*read_map(self.a).leaving}, {"c"})
        client.delete("/c/d", recursive=True)
        client.delete("/c/x")
        with self.assertRaisesRegex(
            ClusterMapError, "1 directory has its place there, with 0 znodes.*\n  /c: 0 chi"
        ):
            self.remove()
        client.create("/c/e/x", makepath=True)  # that is how it is as long as the directory lives
        self.assertEqual((self.place("/c"), self.place("/c/e") != "c"), ("c", True))
        back = change_weights(self.a, {"c": 1})
        self.assertEqual(({*back.leaving}, back.epochs[-1].weights["c"]), (set(), 1))
        self.follows(client, back)
        for number in range(40):
            client.create(f"/new{number}/x", makepath=True)
        self.assertIn("c", {self.place(f"/new{number}") for number in range(40)})
        for number in range(40):
            client.delete(f"/new{number}", recursive=True)
        client.delete("/c", recursive=True)
        self.remove()
        self.assert_gone()
        self.assertEqual(states, [])

    def test_a_lock_on_what_others_deleted(self) -> None:
        """Its session ends with the ensemble, so its client is LOST."""
        client, states = self.client()
        self.fill(client, "/c")
        client.create("/c/mine", ephemeral=True)
        other, _ = self.client()
        other.delete("/c", recursive=True)
        self.remove()
        self.assert_gone()
        wait_until(lambda: states[-1:] == [KazooState.CONNECTED], "the client begins anew")
        self.assertEqual(states, [KazooState.LOST, KazooState.CONNECTED])

    def test_refused(self) -> None:
        for name, why in (
            ("a", "^ensemble a has the map, and cannot leave"),
            ("d", "^no ensemble of the map is called 'd': there are a, b, c$"),
        ):
            with self.refused(why):
                self.remove(name)
        if (root := self.place("/")) != "a":
            with self.refused(f"^ensemble {root} has the children of /, and cannot leave"):
                self.remove(root)
        with self.refused("(?s)^stopped at map 3: .* sessions are not registered.*--strangers-gone"):
            self.remove(strangers_gone=False)
        end = self.stay_behind(2, version="0.0.9")
        with self.refused("(?s)^the map is not changed: 1 client is too old .*web7, pid 4711, ParKazoo 0.0.9"):
            self.remove()
        end()
        add_rule(self.a, ON_C)
        with self.refused("the rule for '/c' leaves no ensemble.*map rule remove"):
            self.remove()
        self.plain[2].create("/stranger")
        with self.assertRaisesRegex(ClusterMapError, "no client of this cluster sees, /stranger: delete them"):
            output_of("map", "rule", "remove", "/c", "--hosts", self.a)
            self.remove()

    def test_what_may_not_be_listed(self) -> None:
        self.plain[0].create("/secret", acl=[make_digest_acl("admin", "secret-of-admin", all=True)])
        with self.refused("^1 znodes on ensemble a may not be listed, /secret: .*READ"):
            self.remove()
        self.remove(auth=[IDENTITY])
        self.assert_gone()

    def test_a_client_that_does_not_follow(self) -> None:
        """It is waited for, twice: to know that the ensemble leaves, and to part with it."""
        end = self.stay_behind(1)
        waiting: list[Any] = []
        with end_at_sleep(end):
            self.remove(on_wait=waiting.append)
        self.assertEqual(({each.map for each in waiting}, waiting[0].sessions), ({self.map.epoch + 1}, 1))
        self.assert_gone()

    def test_dry_run(self) -> None:
        client, _ = self.client()
        self.fill(client, "/c")
        before = self.map = read_map(self.a)
        code, out, _ = run_command("map", "remove", "c", "--hosts", self.a, "--dry-run", "--strangers-gone")
        self.assertEqual(code, 1)
        self.assertRegex(
            out, "(?s)^would be refused: c is still needed, and nothing was changed: 1 directory .*dry run"
        )
        client.delete("/c", recursive=True)
        out = output_of("map", "remove", "c", "--hosts", self.a, "--dry-run", "--strangers-gone")
        self.assertRegex(out, f"would publish map {before.epoch + 2}, without c, when all clients work by map")
        self.assertEqual(read_map(self.a), before)


class AgainTest(RemoveCase):
    def test_killed_at_each_write(self) -> None:
        """The map, the primary with the history, and each copy, twice; then the copy on the one that has left."""
        client, states = self.client()
        client.join()
        for writes in range(4):
            with self.subTest(writes), crash_after(writes), self.assertRaises(CrashError):
                self.remove()
            change_weights(self.a, {"c": 1})
        for writes in (4, 1, 0):  # it has left: the other copy, and its own
            with self.subTest(writes), crash_after(writes), self.assertRaises(CrashError):
                self.remove()
        left = self.remove()
        self.follows(client, left)
        self.assert_gone()
        self.assertEqual(states, [])

    def test_two_at_once(self) -> None:
        client, states = self.client()
        client.join()
        found = self.at_once(self.remove, self.remove, self.remove)
        self.assertEqual(found, [read_map(self.a)] * 3)
        self.assert_gone()
        self.assertEqual(states, [])

    def test_put_back_meanwhile(self) -> None:
        """A pin may name it since: what the command has seen before proves nothing."""

        end = self.stay_behind(1)

        def put_back() -> None:
            change_weights(self.a, {"c": 1})
            end()

        meanwhile = self.assertRaisesRegex(ClusterMapError, "^c has got a weight meanwhile")
        with meanwhile, end_at_sleep(put_back):
            self.remove()
        self.assertEqual({*read_map(self.a).ensembles}, {"a", "b", "c"})


class AfterwardsTest(RemoveCase):
    def test_under_load(self) -> None:
        """Clients make, read and delete directories all the time. Nothing that was acknowledged is lost."""
        clients = [self.client() for _ in range(3)]
        stop, wrong = threading.Event(), list[object]()
        made: list[list[str]] = [[] for _ in clients]

        def work(at: int, client: ParKazooClient) -> None:
            number = 0
            while not stop.is_set():
                path = f"/w{at}-{number % 7}"
                try:
                    client.create(f"{path}/x", makepath=True)
                    client.create(f"{path}/y")
                    if client.get_children(path) != ["x", "y"] and sorted(client.get_children(path)) != ["x", "y"]:
                        wrong.append(path)
                    client.delete(path, recursive=True)
                    client.create(f"/kept{at}-{number}/x", makepath=True)
                    made[at].append(f"/kept{at}-{number}")
                    if self.map.make_guess().of_children(made[at][-1]) == 2:  # perhaps on c
                        client.delete(made[at].pop(), recursive=True)
                except Exception as error:
                    wrong.append(error)
                number += 1

        threads = [threading.Thread(target=work, args=(at, client)) for at, (client, _) in enumerate(clients)]
        for thread in threads:
            thread.start()
        wait_until(lambda: all(len(each) > 3 for each in made), "all work")

        def is_gone() -> bool:
            self.remove()
            return True

        wait_until(is_gone, "c leaves")
        count = [len(each) for each in made]
        wait_until(lambda: all(len(each) > before for each, before in zip(made, count, strict=True)), "they go on")
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assert_gone()
        self.assertEqual(self.plain[2].get_children(MIRRORS), [])
        other, _ = self.client()
        self.assertEqual([path for each in made for path in each if other.get_children(path) != ["x"]], [])
        self.assertEqual([states for _, states in clients], [[]] * 3)

    def test_its_servers_are_stopped(self) -> None:
        """Every command goes on without them, and the map grows again."""
        client, states = self.client()
        client.create("/d/x", makepath=True)
        self.remove()
        server = self.cluster.ensembles[2].servers[0]
        server.stop()
        self.addCleanup(wait_until, lambda: self.plain[2].connected, "it is back")
        self.addCleanup(server.wait_serving)
        self.addCleanup(server.start)
        on = ("--hosts", self.a)
        for command in (
            ("status",),
            ("map", "check"),
            ("map", "epochs"),
            ("map", "log"),
            ("clients",),
            ("ready", f"--timeout={DEADLINE_S:g}"),
            ("where", "/d"),
        ):
            with self.subTest(command):
                output_of(*command, *on)
        wrong = {kind.name for kind, tally in check(self.a, grace_s=0).tallies.items() if tally.found}
        self.assertLessEqual(wrong, {"missing-structure"})  # only as many fences as a test needs
        self.assertRegex(output_of("map", "show", *on), "has left")
        self.assertRegex(output_of("map", "remove", "c", *on), "its servers cannot be reached")
        self.assertEqual(list_clients(self.a).absent, {})
        self.assertEqual(find_whereabouts(read_map(self.a), "/d").cluster_map.ensembles.keys(), {"a", "b"})
        error = error_of("map", "grow", "--ensemble", f"c={self.b}", *on)
        self.assertIn("an ensemble c has left this cluster: give the new one another name", error)
        self.assertEqual(change_weights(self.a, {"b": 3}).epochs[-1].weights, {"a": 1, "b": 3, "c": 0})
        with self.refused_by_name():
            change_weights(self.a, {"c": 1})
        self.assertEqual(client.get_children("/d"), ["x"])
        self.assertEqual(states, [])

    def refused_by_name(self) -> Any:
        return self.assertRaisesRegex(ClusterMapError, "no ensemble of the map is called 'c': there are a, b$")

    def test_another_comes_with_the_servers(self) -> None:
        self.remove()
        wipe(self.plain[2])
        grown = grow_map(self.a, {"d": self.c})
        self.assertEqual((grown.placement, {*grown.ensembles}), (("a", "b", "c", "d"), {"a", "b", "d"}))
        client, _ = self.client()
        paths = [f"/d{number}" for number in range(40)]
        for path in paths:
            client.create(f"{path}/x", makepath=True)
        self.assertEqual({self.place(path) for path in paths}, {"a", "b", "d"})
        self.assertRegex(output_of("map", "remove", "c", "--hosts", self.a), "are not that ensemble any more")

    def test_a_client_that_begins_there(self) -> None:
        left = self.remove()
        with self.assertRaisesRegex(
            ClusterMapError, "ensemble c, which has left cluster .*: use servers of others"
        ):
            self.client(self.c)
        late, _ = self.client(f"{self.c},{self.a}")
        self.assertEqual(late.cluster_map, left)
