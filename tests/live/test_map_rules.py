"""`parkazoo map drain`, `weight` and `rule`, and `parkazoo where`, on a map of form grown."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any
from unittest import mock

from parkazoo import ParKazooClient
from parkazoo.admin import (
    Rule,
    add_rule,
    change_weights,
    find_elsewhere,
    find_whereabouts,
    list_clients,
    read_map,
    remove_rule,
)
from parkazoo.admin.whereabouts import DIRECTORIES_SHOWN, By
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import EPOCHS_KEPT
from parkazoo.protocol.placement import MAP, MIRRORS, unescape
from tests.live.copies_case import CrashError, crash_at_write
from tests.live.grow_case import GrowCase
from tests.live.map_case import UNREACHABLE_TIMEOUT_S, dump, error_of, free_port, output_of, run_command
from tests.live.world import wait_until


class EpochCase(GrowCase):
    def command(self, *arguments: str) -> str:
        """Its output; it succeeds."""
        return output_of(*arguments, "--hosts", self.b)

    def assert_refused(self, words: str, *arguments: str, status: int = 1) -> None:
        before = [dump(client) for client in self.plain]
        found, out, err = run_command(*arguments, "--hosts", self.a)
        self.assertEqual((found, out), (status, ""), err)
        self.assertRegex(err, words)
        self.assertEqual([dump(client) for client in self.plain], before)


class WeightTest(EpochCase):
    def lists_what_is_left(self, client: ParKazooClient) -> None:
        """On a: the directories with the most children first, and how many children each has."""
        mirrors = self.plain[0].get_children(MIRRORS)
        for number in range(3):
            client.create(f"{unescape(mirrors[0])}/more{number}")
        children = [
            (unescape(each), self.plain[0].exists(f"{MIRRORS}/{each}").numChildren) for each in sorted(mirrors)
        ]
        most = sorted(children, key=lambda each: (-each[1], each[0]))
        self.assertLessEqual(len(most), DIRECTORIES_SHOWN)
        lines = [f"  {path}: {number:,} child{'' if number == 1 else 'ren'}" for path, number in most]
        begin = (
            "1 directory has its place on a, and keeps"
            if len(most) == 1
            else f"{len(most)} directories have their place on a, and keep"
        )
        told = "\n".join([f"{begin} it:", *lines, ""])
        self.assertIn(told, self.command("map", "drain", "a"))
        with mock.patch("parkazoo.admin.shares.LOOKED_AT", 2):
            out = self.command("map", "drain", "a")
        shown = sorted(children[:2], key=lambda each: (-each[1], each[0]))
        self.assertEqual(
            re.findall(r"^  (/.*): ([0-9,]+) child", out, re.MULTILINE),
            [(path, f"{number:,}") for path, number in shown],
        )
        self.assertIn(f"  and {len(most) - 2} more; these have the most children, of the first 2 by path\n", out)

    def test_drain(self) -> None:
        client, states = self.client()
        self.grow()
        out = self.command("map", "drain", "b")
        self.assertRegex(out, r"(?s)s  published map 4 with epoch 3\n.* b .* 0 .* 0.0%")
        self.assertIn("\n0 directories have their place on b, and keep it\nchildren that are on b beside", out)
        found = self.assert_published("a", "b", "c")
        self.assertEqual(found.epochs[-1].weights, {"a": 1, "b": 0, "c": 1})
        self.follows(client, found)
        for number in range(30):
            client.create(f"/d{number}/x", makepath=True)
        self.assertEqual({self.place(f"/d{number}") for number in range(30)}, {"a", "c"})
        self.assertIn("weight 0: no new directories", self.command("map", "show"))
        self.assertRegex(self.command("map", "drain", "b"), "^nothing to do: that is so already")
        self.assertRegex(
            self.command("map", "drain", "a"), "(?s)[1-9][0-9]* directories have their place on a, and"
        )
        self.lists_what_is_left(client)
        change_weights(self.a, {"a": 1})
        self.assertRegex(self.command("map", "weight", "a=2", "b=3"), r"(?s)epoch 6.* b .* 3 .* 50.0%")
        self.assertRegex(self.command("map", "epochs"), r"(?s)│ 1 .*a 1, b 1 .*│ 6 .*a 2, b 3, c 1")
        self.follows(client, self.assert_published("a", "b", "c"))
        found = json.loads(self.command("map", "epochs", "--json"))
        self.assertEqual((found["map"], found["absent"]), (7, {}))
        self.assertEqual(found["epochs"][-1], {"epoch": 6, "weights": {"a": 2, "b": 3, "c": 1}, "rules": []})
        copy = {"map": 7, "is_wrong": False, "about": "it is the published one"}
        self.assertEqual(found["copies"], dict.fromkeys("abc", copy))
        wait_until(lambda: [each.map for each in list_clients(self.a).clients] == [7], "it is registered so")
        self.assertEqual(
            [each["map"] for each in json.loads(self.command("map", "epochs", "--json"))["clients"]], [7]
        )
        self.assertEqual(states, [])

    def test_refused(self) -> None:
        change_weights(self.a, {"b": 0})
        self.assert_refused("every ensemble would have weight 0", "map", "drain", "a")
        self.assert_refused("no ensemble of the map is called 'x': there are a, b", "map", "drain", "x")
        self.assert_refused("is 101, not a whole number from 0 to 100", "map", "weight", "a=101", status=2)
        for wrong in ("a", "a=", "a=-1", "a=x", "/=1", "a=[/]", f"a={'9' * 5_000}"):
            status, _, err = run_command("map", "weight", wrong, "--hosts", self.a)
            self.assertEqual((status, err.count("9") < 300), (2, True), err)
        change_weights(self.a, {"b": 1})
        add_rule(self.a, Rule("/x", ("b",)))
        self.assert_refused("the rule for '/x' leaves no ensemble", "map", "drain", "b")

    def test_a_crash_at_each_write(self) -> None:
        for number in range(2):
            with crash_at_write(number), self.assertRaises(CrashError):
                change_weights(self.a, {"a": 2 + number})
            found = change_weights(self.a, {"a": 2 + number})
            self.assertEqual(self.assert_published("a", "b"), found)
            self.assertEqual((found.epoch, len(found.later)), (2 + number, 1 + number))

    def test_an_ensemble_is_down(self) -> None:
        """It may be drained: its copy knows all ensembles, and gets the rest later."""
        closed_port = f"127.0.0.1:{free_port()}"
        moved = ClusterMap.from_json(self.map.to_json().replace(self.b.encode(), closed_port.encode()))
        self.plain[0].set(MAP, moved.to_json())
        changed = rf"map \d is published, but not every copy has it: .*\n  ensemble b: {closed_port}"
        unchanged = (
            rf"nothing was to change in map \d, but not every copy could be checked: .*\n  .* b: {closed_port}"
        )
        for weight, pattern in ((0, changed), (2, changed), (2, unchanged)):
            out = output_of("map", "weight", f"b={weight}", "--hosts", self.a, "--timeout", "3600")
            self.assertRegex(out, pattern)
        out = output_of("map", "drain", "b", "--hosts", self.a, "--timeout", "3600")
        self.assertIn("the directories that are left on b cannot be counted", out)
        change_weights(self.a, {"b": 2})
        add_rule(self.a, Rule("/y"))
        found = read_map(self.a)
        self.assertEqual((found.epoch, found.epochs[-1].weights), (6, {"a": 1, "b": 2}))


class RuleTest(EpochCase):
    def test_rules(self) -> None:
        client, _ = self.client()
        for number in range(12):
            client.create(f"/app/d{number}/x", makepath=True)
        places = {path: self.place(path) for path in ("/app", *(f"/app/d{number}" for number in range(12)))}
        elsewhere = sorted(path for path, name in places.items() if name != "b")
        self.assertTrue(elsewhere)
        before = [dump(each) for each in self.plain]
        out = self.command("map", "rule", "add", "/app", "--on", "b", "--dry-run")
        self.assertIn(f"{len(elsewhere)} director", out)
        self.assertEqual(sorted(re.findall("^  (.*): on a$", out, re.MULTILINE)), elsewhere)
        self.assertEqual([dump(each) for each in self.plain], before)
        out = self.command("map", "rule", "add", "/app", "--on", "b")
        self.assertRegex(out, rf"(?s)published map 2 with epoch 2\n.*\n{len(elsewhere)} director.* decided before")
        self.assertIn("nothing to do: ", self.command("map", "rule", "add", "/app", "--on", "b"))
        found = self.assert_published("a", "b")
        self.follows(client, found)
        for number in range(12, 30):
            client.create(f"/app/d{number}/x", makepath=True)
        self.assertEqual({self.place(f"/app/d{number}") for number in range(12, 30)}, {"b"})
        self.assertEqual(find_elsewhere(found, "/app").number, len(elsewhere))
        self.assertRegex(self.command("map", "rule", "list"), r"/app .* together .* b ")
        self.assertIn("with 1 rule", self.command("map", "show"))
        self.command("map", "rule", "remove", "/app")
        self.assertEqual(self.assert_published("a", "b").epochs[-1].rules, ())
        self.assertIn("nothing to do: ", self.command("map", "rule", "remove", "/app"))
        self.assertIn("has no rules", self.command("map", "rule", "list"))

    def test_each_child(self) -> None:
        """Of /jobs, its children's directories are together, each on an ensemble of its own."""
        client, _ = self.client()
        client.create("/jobs/old/x/y", makepath=True)
        found = add_rule(self.a, Rule("/jobs/*"))
        self.follows(client, found)
        for number in range(20):
            client.create(f"/jobs/{number}/x/y", makepath=True)
        places = [{self.place(f"/jobs/{number}"), self.place(f"/jobs/{number}/x")} for number in range(20)]
        self.assertEqual({len(each) for each in places}, {1})
        self.assertEqual(set().union(*places), {"a", "b"})
        guess = found.make_guess().of_children("/jobs/old")
        decided = {path: self.place(path) for path in ("/jobs/old", "/jobs/old/x")}
        there = [path for path, name in decided.items() if name != found.names[guess]]
        self.assertEqual([path for path, _ in find_elsewhere(found, "/jobs/*").shown], there)

    def test_many_elsewhere(self) -> None:
        client, _ = self.client()
        for number in range(150):
            client.create(f"/app/{number}/x", makepath=True)
        wanted = add_rule(self.a, Rule("/app", ("b",)), dry_run=True)
        found = find_elsewhere(wanted, "/app")
        count = sum(self.place(f"/app/{number}") == "a" for number in range(150)) + (self.place("/app") == "a")
        self.assertEqual((found.number, len(found.shown), found.hidden), (count, DIRECTORIES_SHOWN, 0))
        self.assertEqual({name for _, name in found.shown}, {"a"})
        self.assertIn(
            f"and {count - DIRECTORIES_SHOWN} more",
            self.command("map", "rule", "add", "/app", "--on=b", "--dry-run"),
        )

    def test_refused(self) -> None:
        for prefix in (
            "/zookeeper",
            "/parkazoo/x",
            "/",
            "x",
            "/x/",
            "/a*b/c",
            "",
            "/a\0b",
            "/a\nb/*",
            "/\U0001f600",
        ):
            self.assert_refused("^error: a rule cannot be for", "map", "rule", "add", prefix, status=2)
        self.assert_refused("no ensemble of the map is called 'x'", "map", "rule", "add", "/x", "--on", "x")
        self.assert_refused("names an ensemble twice", "map", "rule", "add", "/x", "--on=a", "--on=a", status=2)
        self.assert_refused(
            "^error: there is no rule for '/x': `parkazoo map rule list`", "map", "rule", "remove", "/x"
        )
        self.command("map", "rule", "add", "/x")
        self.assert_refused(
            "^error: there is another rule for /x, together, on any", "map", "rule", "add", "/x", "--apart"
        )
        self.assert_refused(
            "^error: there is no rule for '/y': `parkazoo map rule list`", "map", "rule", "remove", "/y"
        )

    def test_one_that_an_interrupted_command_has_removed(self) -> None:
        """No epoch that is kept need have it, so its copies are finished before it is missed."""
        add_rule(self.a, Rule("/x"))
        with crash_at_write(1), self.assertRaises(CrashError):
            add_rule(self.a, Rule("/y"))
        self.assertNotEqual(len({client.get(MAP)[0] for client in self.plain[:2]}), 1)
        with self.assertRaisesRegex(ClusterMapError, "there is no rule for '/z'"):
            remove_rule(self.a, "/z")
        self.assertEqual(len({client.get(MAP)[0] for client in self.plain[:2]}), 1)

    def test_marked_up(self) -> None:
        """A path is shown as it is."""
        for prefix in ("/x[/]", "/x[bold]y"):
            for _ in range(2):
                out = self.command("map", "rule", "add", prefix)
            self.assertIn(f"nothing to do: the map has this rule for {prefix} already\n", out)
            self.assertIn(f" {prefix} ", self.command("map", "rule", "list"))
        for _ in range(2):
            out = self.command("map", "rule", "remove", "/x[/]")
        self.assertIn("nothing to do: the map has no rule for /x[/] any more", out)

    def test_many_changes(self) -> None:
        """The map does not grow with them, and clients follow."""
        client, states = self.client()
        for number in range(2 * EPOCHS_KEPT):
            found = add_rule(self.a, Rule(f"/tenants/{number}"))
            if number % 4 == 0:
                self.follows(client, found)
        self.assertEqual(remove_rule(self.a, "/tenants/0"), remove_rule(self.b, "/tenants/0"))
        found = self.assert_published("a", "b")
        self.follows(client, found)
        self.assertEqual((len(found.later), found.epochs[-1].number), (EPOCHS_KEPT, 2 * EPOCHS_KEPT + 2))
        self.assertRegex(self.command("map", "epochs"), r"(?s)│ 1 .*│ \.\.\. +│ no longer in the map .*│ 18 ")
        self.grow()
        self.assertEqual(self.assert_published("a", "b", "c").placement, ("a", "b", "c"))
        self.assertEqual(states, [])

    def test_too_many(self) -> None:
        """It is refused before anything is written; less is not, so there is a way back."""
        rules = tuple(Rule(f"/tenants/tenant-{number:05}") for number in range(18_000))
        large = self.map.with_epoch({"a": 1, "b": 1}, rules)
        for each in self.plain[:2]:
            each.set(MAP, large.to_json())
        add_rule(self.a, Rule("/one/more"))
        words = "^(error: )?the map is not changed: with . ensembles and 18,00. rules it would have [0-9,]+ bytes"
        with mock.patch("parkazoo.admin.publish.MOST_BYTES", len(read_map(self.a).to_json())):
            for dry_run in ((), ("--dry-run",)):
                self.assert_refused(words, "map", "rule", "add", "/another", *dry_run)
                self.assert_refused(words, "map", "grow", f"--ensemble=c={self.c}", *dry_run)
            self.command("map", "weight", "a=2")
            self.command("map", "rule", "remove", "/one/more")
            self.command("map", "rule", "add", "/1/more")
        self.assert_published("a", "b")

    def test_chroot(self) -> None:
        """A pattern that is wrong is so behind a chroot too."""

        def run(what: str, pattern: str) -> tuple[int, str, str]:
            return run_command("map", "rule", what, pattern, "--hosts", f"{self.a}/app")

        def prefixes() -> list[str]:
            return [rule.prefix for rule in read_map(self.a).epochs[-1].rules]

        for pattern in ("/x", "/*", "/zookeeper"):
            self.assertEqual(run("add", pattern)[0], 0)
        self.assertEqual(prefixes(), ["/app/x", "/app/*", "/app/zookeeper"])
        for pattern in ("x", "", "*", "x/*", "//x", "/../x", "/x/", "/x*"):
            alone = run_command("map", "rule", "add", pattern, "--hosts", self.a)
            self.assertRegex(alone[2], "^error: a rule cannot be for '")
            for what in ("add", "remove"):
                self.assertEqual(run(what, pattern), alone)
        status, _, err = run("add", "/")
        self.assertEqual(status, 2)
        self.assertRegex(err, "^error: a rule cannot be for '/' below a chroot: for /app itself, give that, and")
        self.assertEqual(run("remove", "/x")[0], 0)
        self.assertEqual(prefixes(), ["/app/*", "/app/zookeeper"])

    def test_at_once(self) -> None:
        prefixes = [f"/r{number}" for number in range(4)]
        results = self.at_once(*(lambda each=prefix: add_rule(self.a, Rule(each)) for prefix in prefixes))
        self.assertEqual([each for each in results if not isinstance(each, ClusterMap)], [])
        found = self.assert_published("a", "b")
        self.assertEqual((sorted(rule.prefix for rule in found.epochs[-1].rules), found.epoch), (prefixes, 5))
        self.assertEqual(remove_rule(self.a, "/r1").epoch, 6)


class WhereTest(EpochCase):
    def test_who_has_decided(self) -> None:
        client, _ = self.client()
        client.create("/app/jobs/x", makepath=True)
        client.create("/bare")
        self.grow()
        change_weights(self.a, {"a": 0, "b": 0})
        home = self.place("/")
        for path, words in (
            ("/", rf"children: on {home}, whose bid for / is the highest"),
            (
                "/app/jobs",
                rf"(?s)children: on {self.place('/app/jobs')}, as the pin says.*epoch 3, .* to c, whose bid",
            ),
            ("/bare", r"(?s)undecided: the place .*\n.*children: undecided; .*\n.* none: its weight is 0\n"),
            ("/nothing/here", r"(?s)/parkazoo/mirrors/%2Fnothing%2Fhere.*no such znode: a guess"),
            ("/zookeeper", "the bootstrap ensemble, as everything in /zookeeper"),
        ):
            with self.subTest(path):
                self.assertRegex(self.command("where", path), words)
                found = json.loads(self.command("where", path, "--json"))
                self.assertEqual((found["path"], found["children"]["ensemble"]), (path, self.place(path)))
                self.assertIn("\n".join([found["kind"], "", *found["why"], ""]), self.command("where", path))
        add_rule(self.a, Rule("/app", ("b", "c")))
        out = self.command("where", "/app/jobs")
        self.assertRegex(out, r"for /app is the highest by its rule for /app \(together, on b or c\):")
        self.assertIn("none: the rule leaves it out", out)

    def test_by_hand(self) -> None:
        self.grow()
        add_rule(self.a, Rule("/app"))
        for path in ("/x", "/app/y"):
            out = self.command("where", path)
            bids = re.findall(r"^    (\w)  ([0-9a-f]{8})  (printf.*)$", out, re.MULTILINE)
            self.assertEqual([name for name, _, _ in bids], ["a", "b", "c"])
            for _, bid, computation in bids:
                told = subprocess.run(["sh", "-c", computation], capture_output=True, text=True, check=True).stdout
                self.assertEqual(told.strip(), bid)
            best = max(bids, key=lambda each: each[1])[0]
            self.assertIn(f"gives new children to {best}, ", out)

    def test_the_client_agrees(self) -> None:
        """For trees that have been decided by several epochs."""
        client, _ = self.client()
        paths = []
        changes: list[Any] = [lambda: self.map, self.grow, lambda: change_weights(self.a, {"b": 0})]
        for number, change in enumerate(changes):
            self.follows(client, change())
            for name in "abcdefgh":
                client.create(f"/t{number}/{name}/y/z", makepath=True)
                paths += [f"/t{number}", f"/t{number}/{name}", f"/t{number}/{name}/y"]
        for path in paths:
            found = find_whereabouts(read_map(self.a), path)
            self.assertIs(found.by, By.PIN)
            name = found.cluster_map.names[found.d.mirror.ensemble]
            physical = self.plain["abc".index(name)].get_children(found.d.mirror.path)
            self.assertEqual({*client.get_children(path)}, {each for each in physical if "parkazoo" not in each})

    def test_an_ensemble_is_down(self) -> None:
        client, _ = self.client()
        client.create("/app/x", makepath=True)
        root = self.place("/")
        closed_port = f"127.0.0.1:{free_port()}"
        hosts = {"a": self.a, "b": self.b}[root].encode()
        for each in self.plain[:2]:
            each.set(MAP, self.map.to_json().replace(hosts, closed_port.encode()))
        other = self.b if root == "a" else self.a
        err = error_of("where", "/app", "--hosts", other, "--timeout", str(UNREACHABLE_TIMEOUT_S))
        self.assertIn(f"ensemble {root} ({closed_port}) has to be asked, and cannot be reached", err)
