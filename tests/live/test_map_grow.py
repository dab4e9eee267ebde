"""`parkazoo map grow`: a map of form grown gains an ensemble while clients work."""

from __future__ import annotations

import itertools
import threading
from typing import Any

from parkazoo.admin import (
    abort_growth,
    change_weights,
    find_whereabouts,
    grow_map,
    init_map,
    read_map,
    read_spread,
)
from parkazoo.errors import ClusterMapError
from parkazoo.fsck import check
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Epoch, Form
from parkazoo.protocol.placement import MAP
from tests.live.copies_case import CrashError, crash_at_write
from tests.live.grow_case import GrowCase, crash_after
from tests.live.map_case import (
    IDENTITY,
    UNREACHABLE_TIMEOUT_S,
    dump,
    free_port,
    other_spelling,
    output_of,
    run_command,
    wipe,
)

# On c: ROOT, four, two of fences and the record; then the primary and the copies on b and c, twice.
WRITES = 8 + 3 + 3
NAMED = 3  # writes to maps until all copies name c


class InitTest(GrowCase):
    def test_a_fresh_map(self) -> None:
        self.assertEqual((self.map.form, self.map.later), (Form.GROWN, ()))
        self.assertEqual(init_map(self.a, self.two, form="grown"), self.map)
        self.assert_published("a", "b")
        for form, there in (("plain", "grown"), ("grown", "plain")):
            with self.refused(f"^there is another cluster map at .*: its form is {there}, not {form}. See"):
                init_map(self.a, self.two, form=form)
            for client in self.plain:
                wipe(client)
            init_map(self.a, self.two)

    def test_refused(self) -> None:
        for client in self.plain:
            wipe(client)
        for arguments, status, words in (
            (("--ensemble", f"a={self.a}"), 2, "a map of form grown begins with two or more ensembles"),
            (("--ensemble", f"a={self.a}", "--ensemble", f"b={self.b}"), 0, ""),
        ):
            found = run_command("map", "init", "--bootstrap", self.a, *arguments, "--form", "grown")
            self.assertEqual((found[0], words in found[2]), (status, True), found)
        self.assertIs(read_map(self.a).form, Form.GROWN)
        with self.refused("^a new map has form plain or grown, not 'tolerant'$"):
            init_map(self.a, self.two, form="tolerant")

    def test_the_primary_is_lost(self) -> None:
        """Its copy has the epochs. Pins say where all is."""
        client, _ = self.client()
        for number in range(20):
            client.create(f"/d{number}/x", makepath=True)
        grown = self.grow()
        self.plain[0].delete(MAP)
        everything = {"a": self.a, "b": self.b, "c": self.c}
        with self.assertRaisesRegex(ClusterMapError, "--replace a$"):
            init_map(self.a, everything, form="grown")
        with self.refused("is another map: its form is grown, not plain"):
            init_map(self.a, everything)
        lost: list[Any] = []
        made = init_map(self.a, everything, form="grown", replace=["a"], tell=lost.append)
        self.assertEqual(made, grown)
        self.assertEqual((lost[0].childless, lost[0].homeless), ((), ()))
        self.assert_published("a", "b", "c")


class GrowTest(GrowCase):
    def test_grow_while_a_client_works(self) -> None:
        """What it has made stays where it is. New directories go to the new ensemble too."""
        client, states = self.client()
        old = [f"/old{number}" for number in range(30)]
        for path in old:
            client.create(f"{path}/x", makepath=True)
        places = {path: self.place(path) for path in old}
        self.assertEqual({*places.values()}, {"a", "b"})
        stop, made = threading.Event(), list[str]()

        def work() -> None:
            for number in itertools.count():
                if stop.is_set():
                    return
                client.create(f"/between{number}/x", makepath=True)
                made.append(f"/between{number}")

        worker = threading.Thread(target=work)
        worker.start()
        grown = self.grow()
        stop.set()
        worker.join()
        self.follows(client, grown)
        self.assertEqual({path: self.place(path) for path in old}, places)
        self.assertEqual([path for path in old + made if client.get_children(path) != ["x"]], [])
        new = [f"/new{number}" for number in range(60)]
        for path in new:
            client.create(f"{path}/x", makepath=True)
        self.assertEqual({self.place(path) for path in new}, {"a", "b", "c"})
        other, _ = self.client()
        for path in (*old, *made, *new):
            self.assertEqual(other.get_children(path), ["x"])
            other.delete(path, recursive=True)
        self.assertEqual(states, [])
        self.assertEqual(self.assert_published("a", "b", "c"), grown)

    def test_what_is_published(self) -> None:
        grown = self.grow(weights={"c": 3})
        self.assertEqual((grown.epoch, grown.placement, grown.form), (3, ("a", "b", "c"), Form.GROWN))
        self.assertEqual(grown.later, (Epoch(2, {"a": 1, "b": 1, "c": 3}),))
        self.assertTrue(grown.continues(self.map))
        before = [dump(client) for client in self.plain]
        told: list[str] = []
        for weights in ({}, {"c": 3}):
            self.assertEqual(grow_map(self.c, {"c": self.c}, weights, tell=told.append), grown)
        self.assertEqual((told, [dump(client) for client in self.plain]), ([], before))

    def test_a_crash_after_each_write(self) -> None:
        for writes in itertools.count():
            for client in self.plain:
                wipe(client)
            init_map(self.a, self.two, form="grown")
            try:
                with crash_after(writes):
                    self.grow()
            except CrashError:
                pass
            else:
                break
            with self.subTest(writes=writes):
                self.assertEqual(read_map(self.a).epoch, 1 + (writes > WRITES - 6) + (writes > WRITES - 3))
                grown = self.grow()
                self.assertEqual(self.assert_published("a", "b", "c"), grown)
                self.assertEqual(grown.later, (Epoch(2, {"a": 1, "b": 1, "c": 1}),))
                self.assertEqual(self.grow(), grown)
        self.assertEqual(writes, WRITES)

    def test_at_once(self) -> None:
        for _ in range(3):
            for client in self.plain:
                wipe(client)
            init_map(self.a, self.two, form="grown")
            results = self.at_once(self.grow, self.grow, lambda: change_weights(self.b, {"a": 5}))
            self.assertEqual([each for each in results if not isinstance(each, ClusterMap)], [])
            found = self.assert_published("a", "b", "c")
            self.assertEqual(found.epochs[-1].weights, {"a": 5, "b": 1, "c": 1})
            self.assertEqual(len(found.later), 2)

    def test_closed(self) -> None:
        for client in self.plain:
            wipe(client)
        init_map(self.a, self.two, form="grown", auth=[IDENTITY], closed=True)
        with self.refused("no right to use"):
            self.grow()
        self.grow(auth=[IDENTITY])
        acls = [client.get_acls(path)[0] for client in self.plain for path in (MAP, "/parkazoo/fences/0")]
        self.assertEqual([each for each in acls if each != acls[0]], [])

    def test_command(self) -> None:
        command = ("map", "grow", "--hosts", self.b, "--ensemble", f"c={self.c}", "--weight", "c=2")
        before = [dump(client) for client in self.plain]
        out = output_of(*command, "--dry-run")
        self.assertRegex(
            out, r"(?s)would publish map 2, which.*would publish map 3 with epoch 2\n.* c .* 2 .* 50.0%"
        )
        self.assertEqual([dump(client) for client in self.plain], before)
        out = output_of(*command)
        self.assertRegex(
            out,
            r"(?s)^ +\d+\.\d\d s  checked the servers of c.*\n +\d+\.\d\d s  prepared c\n"
            r".*published map 2, which names c\n.*published map 3 with epoch 2\n.*map epochs",
        )
        self.assertRegex(output_of(*command), "^nothing to do: the map has c already")
        for arguments in (("--ensemble", "c"), ("--ensemble", f"c={self.c}", "--weight", "c=x")):
            self.assertEqual(run_command("map", "grow", "--hosts", self.a, *arguments)[0], 2)


class RefusalTest(GrowCase):
    def test_nothing_has_begun(self) -> None:
        for client in self.plain:
            wipe(client)
        init_map(self.a, self.two)
        with self.refused("^there is nothing to abort: no change has begun$"):
            abort_growth(self.a)

    def test_arguments(self) -> None:
        closed_port = f"127.0.0.1:{free_port()}"
        for ensembles, weights, pattern in (
            ({"c": self.c}, {"d": 1}, "^a weight is given for 'd', which is none of the new ensembles$"),
            ({"c": self.c}, {"c": 101}, "weight of ensemble c is 101"),
            ({"/": self.c}, {}, "no name for an ensemble"),
            ({"c": "h"}, {}, "is not host:port"),
            ({"c": self.b}, {}, f"^server {self.b} would be in ensemble b and in c$"),
            ({"b": self.c}, {}, f"^the map has an ensemble b, on {self.b}: give the new one another name"),
            ({"b": self.b}, {"b": 3}, "^ensemble b has weight 1 in the map already: `parkazoo map weight b=3`"),
            ({"c": closed_port}, {}, rf"^the map is not changed: .*\n  ensemble c: {closed_port}: Connection ref"),
            ({"c": other_spelling(self.b)}, {}, "^ensemble c .* is ensemble b of cluster "),
            (
                {"c": self.c, "d": other_spelling(self.c)},
                {},
                "^c and d are one ensemble: .* belongs to both$",
            ),
        ):
            with self.subTest(pattern), self.refused(pattern):
                grow_map(self.a, ensembles, weights, timeout_s=UNREACHABLE_TIMEOUT_S)

    def test_servers_that_are_not_empty(self) -> None:
        self.plain[2].create("/x")
        with self.refused(
            r"^ensemble c .* has znodes: /x\. They would be out of reach: a new ensemble must be empty"
        ):
            self.grow()
        self.plain[2].delete("/x")
        init_map(self.c, {"z": self.c})
        with self.refused("^ensemble c .* is ensemble z of cluster .*: an ensemble is in one cluster"):
            self.grow()


class AbortTest(GrowCase):
    def name_c(self) -> None:
        with crash_at_write(NAMED), self.assertRaises(CrashError):
            self.grow()

    def test_abort(self) -> None:
        """A client that has joined the ensemble lets go of it, and takes it in again."""
        client, states = self.client()
        self.name_c()
        named = read_map(self.a)
        self.assertEqual((named.unused, named.later), (("c",), ()))
        self.follows(client, named)
        client.join("c")
        self.assertIn("no epoch names c: ", output_of("map", "epochs", "--hosts", self.a))
        self.assertIn("nothing yet", run_command("map", "show", "--hosts", self.a)[1])
        self.assertIn("without c.", output_of("map", "abort", "--hosts", self.b))
        aborted = self.assert_published("a", "b")
        self.assertEqual((aborted.placement, aborted.epoch), (("a", "b"), 3))
        self.follows(client, aborted)
        client.create("/d/x", makepath=True)
        client.join()
        with self.assertRaisesRegex(ValueError, "no ensemble 'c'"):
            client.join("c")
        with self.assertRaisesRegex(
            ClusterMapError, "^there is nothing to abort: directories may be on each ensemble, a, b"
        ):
            abort_growth(self.a)
        grown = self.grow()
        self.follows(client, grown)
        client.join("c")
        self.assertEqual(client.get_children("/d"), ["x"])
        self.assertEqual(states, [])
        self.assert_published("a", "b", "c")
        with self.refused(
            "^there is nothing to abort: directories may be on each .* a, b, c. `parkazoo map drain`"
        ):
            abort_growth(self.a)

    def test_what_is_taken_out_may_be_away(self) -> None:
        self.name_c()
        server = self.cluster.ensembles[2].servers[0]
        server.kill()
        try:
            self.assertRegex(abort_growth(self.a, timeout_s=5)[0], "^published map 3 without c")
            self.assertEqual(read_map(self.a).placement, ("a", "b"))
        finally:
            server.start()
            server.wait_serving()
            self.plain[2].restart()

    def test_a_crash_after_each_write(self) -> None:
        for writes in range(3):
            with self.subTest(writes=writes):
                self.name_c()
                with crash_at_write(writes) if writes < 2 else crash_after(-1), self.subTest():
                    try:
                        abort_growth(self.a)
                    except CrashError:
                        self.assertLess(writes, 2)
                    else:
                        self.assertEqual(writes, 2)
                if writes != 0:  # it was published: the copies are left
                    with self.assertRaisesRegex(ClusterMapError, "nothing to abort"):
                        abort_growth(self.a)
                else:
                    self.assertRegex(abort_growth(self.a)[0], r"^published map \d without c")
                self.assertEqual(self.assert_published("a", "b").placement, ("a", "b"))

    def test_abort_and_grow_at_once(self) -> None:
        """Each ends, or says what the other has done."""
        for _ in range(3):
            self.name_c()
            grown, aborted = self.at_once(self.grow, lambda: abort_growth(self.a))
            found = read_map(self.a)
            if isinstance(grown, Exception):
                self.assertRegex(str(grown), "taken out of the map meanwhile")
            if isinstance(aborted, Exception):
                self.assertRegex(str(aborted), "nothing to abort")
                self.assertIn("c", found.placement)
            for client in self.plain:
                wipe(client)
            init_map(self.a, self.two, form="grown")


class EpochsTest(GrowCase):
    def test_who_has_what(self) -> None:
        client, _ = self.client()
        grown = self.grow()
        self.follows(client, grown)
        found = read_spread(self.b)
        self.assertEqual({name: copy.map for name, copy in found.copies.items()}, dict.fromkeys("abc", grown))
        out = output_of("map", "epochs", "--hosts", self.a)
        self.assertRegex(out, "copies: map 3, the newest: a, b, c\n")
        self.assertIn("a 1, b 1, c 1", out)
        self.assertIn("registered clients: map ", out)
        self.plain[2].set(MAP, self.map.to_json())
        _, out, _ = run_command("map", "epochs", "--hosts", self.a)
        self.assertRegex(out, "copies: map 3, the newest: a, b; map 1: c\n")
        for command in ("status", "clients", ("map", "show")):
            names = (command,) if isinstance(command, str) else command
            self.assertEqual(run_command(*names, "--hosts", self.a)[0], 0)

    def test_fsck(self) -> None:
        """Nothing is wrong with what was decided in any epoch; what is wrong is found, and mended."""
        client, _ = self.client()
        tops = [client.create(f"/t{number}") for number in range(6)]
        for top in tops[:3]:
            client.create(f"{top}/x/y", makepath=True)
        self.follows(client, self.grow())
        for top in tops[3:]:
            client.create(f"{top}/x/y", makepath=True)
        self.assertEqual(run_command("fsck", "--hosts", self.a)[0], 1)  # it has only a few fences
        self.assertEqual(self.faults(), {})
        place = find_whereabouts(read_map(self.a), tops[0]).d
        self.plain[place.home.ensemble].delete(place.pin)
        self.assertEqual(self.faults(), {"missing-pins": [tops[0]]})
        self.assertEqual(self.faults(repair=True), {"missing-pins": [tops[0]]})
        self.assertEqual(self.faults(), {})
        self.assertEqual(client.get_children(tops[0]), ["x"])

    def faults(self, *, repair: bool = False) -> dict[str, list[str]]:
        report = check(self.a, repair=repair, grace_s=0)
        return {
            kind.name: [found.path for found in tally.paths]
            for kind, tally in report.tallies.items()
            if tally.found and kind.name != "missing-structure"
        }
