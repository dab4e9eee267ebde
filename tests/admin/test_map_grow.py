"""What the commands make of a map of form grown, without a server."""

from __future__ import annotations

import io
import unittest
from dataclasses import replace

from rich.console import Console

from parkazoo.admin import By, RegisteredClient, Waiting, Whereabouts
from parkazoo.admin.agreement import plan_map, same_map
from parkazoo.admin.grow import without_unused
from parkazoo.cli.behind import Behind
from parkazoo.cli.explanation import explain_whereabouts
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.atlas import newer_of
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form, Rule
from parkazoo.protocol.placement import MAP, Place
from parkazoo.protocol.where.places import NATIVE, directory
from parkazoo.version import __version__

PLAIN = ClusterMap("5d3c", {"a": "h1:1", "b": "h2:1"}, ("a", "b"), "a")
GROWN = replace(PLAIN, form=Form.GROWN)
NAMED = GROWN.with_ensembles({"c": "h3:1"})
UNDECIDED = "children: undecided; the first client that makes one decides, by its newest map"
PLACED = NAMED.with_epoch({"a": 1, "b": 1, "c": 2}, [Rule("/app", ("b", "c"))])


class TestWaiting(unittest.TestCase):
    def test_whom_for(self) -> None:
        """Named once, with what an operator may do."""
        client = RegisteredClient("0xc", "web", 4711, __version__, 1, None, {"a": "0x7", "b": "0x8"})
        with io.StringIO() as file:
            console = Console(file=file, width=80)
            show = Behind(console, console.status(""))
            for said in (2, 3):
                show(Waiting(Form.TOLERANT, 3, [client], 2 + said))
            told = file.getvalue()
        self.assertRegex(
            told, r"^waiting for 1 client to work by map 3, .* \(kill -CONT\), or end it: .*\n  0xc on web, "
        )
        self.assertEqual(told.count("\n"), 2)


class TestInit(unittest.TestCase):
    def test_plan(self) -> None:
        two = {"a": "h1:1", "b": "h2:1"}
        self.assertIs(plan_map("h1:1", two).form, Form.PLAIN)
        self.assertIs(plan_map("h1:1", two, Form.GROWN).form, Form.GROWN)
        for ensembles in ({"a": "h1:1"}, {"a": "h3:1"}):
            with self.assertRaisesRegex(ClusterMapError, "form grown begins with two or more .*: give"):
                plan_map("h1:1", ensembles, Form.GROWN)

    def test_the_form_counts(self) -> None:
        self.assertIs(same_map(GROWN, GROWN, MAP), GROWN)
        for wanted, found, words in ((PLAIN, GROWN, "is grown, not plain"), (GROWN, PLAIN, "is plain, not grown")):
            with self.assertRaisesRegex(ClusterMapError, f"^there is another cluster map .*: its form {words}. "):
                same_map(wanted, found, MAP)


class TestAbort(unittest.TestCase):
    def test_what_no_epoch_names(self) -> None:
        self.assertEqual((GROWN.unused, NAMED.unused, PLACED.unused), ((), ("c",), ()))
        self.assertIs(without_unused(PLACED), PLACED)
        more = PLACED.with_ensembles({"d": "h4:1"})
        self.assertEqual(without_unused(more), replace(PLACED, epoch=more.epoch + 1, retired=("d",)))

    def test_what_comes_back_is_not_retired(self) -> None:
        aborted = without_unused(NAMED.with_ensembles({"d": "h4:1"}))
        again = aborted.with_ensembles({"c": "h3:1"})
        self.assertEqual((aborted.retired, again.retired), (("c", "d"), ("d",)))
        self.assertEqual(without_unused(again).retired, ("d", "c"))

    def test_clients_take_it(self) -> None:
        """Also those that have missed the map between, and if another ensemble comes, or the same one again."""
        aborted = without_unused(NAMED)
        other = aborted.with_ensembles({"d": "h4:1"})
        again = other.with_ensembles({"c": "h5:1"})
        placed = again.with_epoch({"a": 1, "d": 1, "c": 1}, ())
        history = (GROWN, NAMED, aborted, other, again, placed)
        for number, before in enumerate(history):
            for after in history[number + 1 :]:
                self.assertIs(newer_of(before, after, "h1:1"), after)

    def test_others_are_refused(self) -> None:
        without_c = {"ensembles": PLACED.ensembles, "placement": ("a", "b"), "unweighted": ()}
        for before, after in (
            (PLACED, replace(GROWN, epoch=7)),
            (PLACED, replace(NAMED, epoch=7)),
        ):
            with self.subTest(after), self.assertRaisesRegex(ClusterMapError, "places znodes otherwise"):
                newer_of(before, after, "h1:1")
        with self.assertRaisesRegex(ClusterMapError, "in the placement"):
            replace(PLACED, **without_c)  # type: ignore[arg-type]


class TestWords(unittest.TestCase):
    def words(self, path: str, by: By, where: int = NATIVE) -> list[str]:
        d = directory(path, Place(1, path), where)
        return list(explain_whereabouts(Whereabouts(PLACED, d, by, True)))

    def test_who_has_decided(self) -> None:
        newest = "^epoch 2, the newest, {} [abc], whose bid for /x is the highest:$"
        for by, where, first in (
            (By.PIN, 2, "children: on c, as the pin says; new ones go there too"),
            (By.PIN, NATIVE, "children: on b, as the pin says; new ones go there too"),
            (
                By.ADOPTION,
                NATIVE,
                "children: on b, below the home, as before there was a pin; new ones go there too",
            ),
            (
                By.NOBODY,
                0,
                UNDECIDED,
            ),
        ):
            with self.subTest(first):
                found = self.words("/x", by, where)
                self.assertEqual(found[0], first)
                would = "gives new children to" if by is By.NOBODY else "would have given them to"
                self.assertRegex(found[1], newest.format(would))
                self.assertEqual([line.split()[0] for line in found[2:]], ["a", "b", "c"])

    def test_a_rule(self) -> None:
        found = self.words("/app/jobs", By.NOBODY, 0)
        self.assertRegex(
            found[1],
            r"^epoch 2, .* to [bc], whose bid for /app is the highest by its rule for /app \(together, on b or",
        )
        self.assertEqual(found[2], "    a  none: the rule leaves it out")

    def test_fixed(self) -> None:
        found = self.words("/", By.MAP)
        self.assertRegex(found[0], "^children: on [ab], whose bid for / is the highest:$")
        self.assertEqual(found[3], "    c  none: it has come since")
        self.assertEqual(
            self.words("/zookeeper/config", By.MAP),
            ["children: on a, the bootstrap ensemble, as everything in /zookeeper"],
        )
