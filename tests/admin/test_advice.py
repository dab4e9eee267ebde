"""What `parkazoo advise` says, sentence by sentence, and the writes that it counts."""

from __future__ import annotations

import json
import unittest
from typing import Any
from unittest import mock

from parkazoo.admin.advice import FOLLOW, SAMPLE, Advice, Measured, Sentence, advise_on, describe_directory
from parkazoo.admin.hot_directories import Seen
from parkazoo.admin.rates import ClientRates, EnsembleRates, Rates, ServerRates
from parkazoo.admin.write_counts import (
    ChangeCounts,
    DirectoryWrites,
    Znode,
    counted_by_looks,
    directory_of,
)

HOUR_S, DAY_S, NOW_S = 3600.0, 86400.0, 2e9


def ensemble(name: str, writes: float | None, queue: int | None = 0, p99_ms: float | None = 14.0) -> EnsembleRates:
    return EnsembleRates(name, 3, 3, f"{name}1:1", 2 * (writes or 0), 0.0, writes, None, p99_ms, queue, 1, 0.0, 9)


def directory(on: str, path: str, writes: float, age_s: float | None, **more: Any) -> DirectoryWrites:
    return DirectoryWrites(on, path, path, writes, None if age_s is None else NOW_S - age_s, **more)


def client(name: str, share: float) -> ClientRates:
    return ClientRates(name, True, "h", 7, "1", "s", 1, ("a",), 100 * share, share)


def server(of: str, trouble: str) -> ServerRates:
    return ServerRates(of, f"{of}1:1", "leader", None, None, None, None, None, None, None, None, None, trouble)


def advise(
    ensembles: list[EnsembleRates],
    directories: list[DirectoryWrites],
    clients: tuple[ClientRates, ...] = (),
    servers: tuple[ServerRates, ...] = (),
    **more: Any,
) -> Advice:
    rates = Rates(NOW_S, 15.0, "x", 1, ensembles, servers, clients)
    weights = {each.ensemble: 1 for each in ensembles}
    about = {"measure": FOLLOW, "seconds": 15.0, "weights": weights, "tree_s": 100 * DAY_S, "now_s": NOW_S, **more}
    found = advise_on(Measured(rates=rates, directories=directories, **about))
    json.dumps(found.to_json())
    return found


class AdviceTest(unittest.TestCase):
    def says(self, found: Advice, kind: str, text: str) -> Sentence:
        (each,) = (one for one in found.sentences if one.kind == kind)
        self.assertIn(text, each.text)
        return each

    def is_silent(self, found: Advice, *kinds: str) -> None:
        self.assertEqual([each for each in found.sentences if each.kind in kinds], [])

    def test_nothing_is_needed(self) -> None:
        found = advise([ensemble("a", 100.0)], [directory("a", "/x", 100.0, DAY_S)])
        self.says(found, "looked", "Looked for 15 s, each change was counted: 100 writes/s.")
        self.says(
            found, "nothing-needed", "You need nothing: no request waits, and 99% of the writes took at most 14 ms"
        )
        self.is_silent(found, "hot", "slow", "unexplained", "even", "uneven", "busy-client")

    def test_a_hot_ensemble(self) -> None:
        found = advise(
            [ensemble("a", 60.0, queue=33), ensemble("b", 60.0)],
            [
                directory("a", "/x", 40.0, DAY_S),
                directory("b", "/z", 60.0, DAY_S),
                directory("a", "/y", 20.0, DAY_S),
            ],
            (client("0x1", 0.9), client("0x2", 0.1)),
        )
        self.says(
            found,
            "hot",
            "Ensemble a is hot: 33 requests and more waited whenever they were counted. "
            "Of its writes have: /x 67% and /y 33%.",
        )
        self.says(found, "busy-client", "h:7 (0x1) sends 90% of all requests (90/s).")
        self.is_silent(found, "nothing-needed", "slow")

    def test_a_slow_ensemble(self) -> None:
        found = advise([ensemble("a", 60.0, p99_ms=250.0), ensemble("b", 60.0)], [])
        self.says(
            found, "slow", "Ensemble a was slow: of its writes 1% took 250 ms and more since its servers' start"
        )
        self.is_silent(found, "nothing-needed", "hot")

    def test_what_is_not_known(self) -> None:
        found = advise([ensemble("a", None, p99_ms=None)], [])
        self.says(found, "unknown-need", "Whether ensemble a can keep up is not known")
        self.says(found, "unknown-writes", "How much is written on ensemble a is not known")
        self.is_silent(found, "nothing-needed", "growth", "unknown-growth", "one-directory")

    def test_why_it_is_not_known(self) -> None:
        """A server that does not answer is another lack than one that has no such value."""
        two = [ensemble("a", 9.0, p99_ms=None), ensemble("b", 9.0, p99_ms=None)]
        found = advise(two, [], servers=(server("a", ""), server("b", "mntr: refused")))
        told = {
            str(each.figures["ensembles"]): each.text for each in found.sentences if each.kind == "unknown-need"
        }
        self.assertIn("`mntr` tells no p99 of its writes, which ZooKeeper has since 3.6", told["['a']"])
        self.assertIn("not all servers answer", told["['b']"])
        self.is_silent(found, "nothing-needed")

    def test_a_busy_client_of_those_seen(self) -> None:
        """All are not seen if a client's requests are not known, or a server does not tell its connections."""
        clients = (client("0x1", 0.9), client("0x2", 0.1))
        unknown = client("0x3", 0.0)._replace(requests=None, share=None)
        one = [ensemble("a", 60.0)]
        for found in (
            advise(one, [], (*clients, unknown)),
            advise(one, [], clients, servers=(server("a", "cons: refused"),)),
        ):
            self.says(found, "busy-client", "h:7 (0x1) sends 90% of the requests that were seen (90/s).")

    def test_a_busy_client_that_is_not_registered(self) -> None:
        plain = client("0x7", 0.9)._replace(is_registered=False, host="10.0.0.7:4711", pid=None)
        found = advise([ensemble("a", 100.0)], [], (plain, client("0x1", 0.1)))
        self.says(found, "busy-client", "10.0.0.7:4711 (0x7, not registered) sends 90% of all requests (90/s).")

    def test_uneven(self) -> None:
        writes = {"a": 72.0, "b": 11.0, "c": 17.0}
        directories = [directory(name, f"/{name}", each, DAY_S) for name, each in writes.items()]
        found = advise([ensemble(*each) for each in writes.items()], directories)
        self.says(
            found,
            "uneven",
            "a 72%, b 11%, c 17%. a is the first to limit you: as the writes are spread, all together carry 1.4",
        )
        self.says(found, "uneven", "if it had the 33% of its weight. Of its writes have: /a 100%.")
        self.says(advise([ensemble("a", 50.0), ensemble("b", 51.0)], []), "even", "a 50%, b 50%. That is even.")
        few = advise([ensemble("a", 0.5), ensemble("b", 0.1)], [directory("a", "/x", 0.5, DAY_S)])
        self.is_silent(few, "even", "uneven", "one-directory", "growth", "unknown-growth")

    def test_an_ensemble_that_gets_nothing_new(self) -> None:
        """It has most of the writes: of the others it is not said that one limits."""
        three = [ensemble("a", 20.0), ensemble("b", 10.0), ensemble("c", 70.0)]
        for weights in ({"a": 1, "b": 1, "c": 0}, {"a": 1, "b": 1}):
            self.is_silent(advise(three, [], weights=weights), "even", "uneven")
        found = advise([*three[:2], ensemble("c", 15.0)], [], weights={"a": 1, "b": 1, "c": 0})
        self.says(
            found,
            "uneven",
            "Of the writes where new directories go have: a 67%, b 33%. a is the first to limit you",
        )
        self.is_silent(
            advise([ensemble("a", 0.0), ensemble("b", 0.0), three[2]], [], weights={"a": 1, "b": 1}), "even"
        )

    def test_moves(self) -> None:
        """Which would spread the writes; none if nothing can move, or a rule is about the directories."""
        two = [ensemble("a", 90.0), ensemble("b", 10.0)]
        writes = {"/x": 40.0, "/y": 30.0, "/z": 20.0}
        directories = [
            *(directory("a", path, each, DAY_S) for path, each in writes.items()),
            directory("b", "/w", 10.0, DAY_S),
        ]
        found = advise(two, directories, can_move=True)
        said = self.says(
            found, "moves", "1 move of directories would bring a from 90% of the seen writes to 50%: "
        )
        self.assertIn("/x (40%) to b. `parkazoo map rebalance` makes them.", said.text)
        self.assertEqual(said.figures["moves"], [{"directory": "/x", "from": "a", "to": "b"}])
        many = [directory("a", f"/{number}", 9.0, DAY_S) for number in range(10)]
        found = advise(two, [*many, directory("b", "/w", 10.0, DAY_S)], can_move=True)
        self.says(
            found,
            "moves",
            "4 moves of directories would bring a from 90% of the seen writes to 54%: first /0 (9%)",
        )
        for more in ({}, {"can_move": True, "ruled": frozenset(writes)}, {"can_move": True, "unseen": {"b": "x"}}):
            self.is_silent(advise(two, directories, **more), "moves")

    def test_unexplained(self) -> None:
        found = advise([ensemble("a", 100.0)], [directory("a", "/x", 80.0, DAY_S)], measure=SAMPLE)
        self.says(found, "unexplained", "20% of the writes on ensemble a (20/s) are in no directory that was seen")
        self.says(found, "unexplained", "znodes that came and went between the looks")
        self.is_silent(found, "growth")
        self.says(found, "unknown-growth", "of 20% of the writes it is not known how old their directories are")

    def test_directories_that_were_not_seen(self) -> None:
        """It is said once, and no share is made of it."""
        found = advise([ensemble("a", 100.0)], [], unseen={"a": "it is too old"})
        self.says(found, "unseen", "The directories of ensemble a were not all seen: it is too old.")
        self.is_silent(found, "unexplained", "growth")
        self.says(found, "unknown-growth", "of 100% of the writes")
        self.assertEqual(found.to_json()["unseen"], {"a": "it is too old"})

    def test_what_was_not_seen(self) -> None:
        """Also if most writes are in no directory that was seen, or if no server tells how many there are."""
        whole = [directory("a", "/x", 90.0, DAY_S)]
        half = [directory("a", "/x", 40.0, DAY_S)]
        for found, is_blind in (
            (advise([ensemble("a", 100.0)], whole), False),
            (advise([ensemble("a", 100.0)], half), True),
            (advise([ensemble("a", 100.0)], whole, unseen={"a": "it is too old"}), True),
            (advise([ensemble("a", None)], whole), True),
            (advise([ensemble("a", None), ensemble("b", 0.0)], whole), False),
            (advise([ensemble("a", 0.3)], []), False),
        ):
            self.assertEqual(found.is_blind(), is_blind, found.sentences)

    def test_one_directory(self) -> None:
        three = [ensemble("a", 40.0), ensemble("b", 30.0), ensemble("c", 30.0)]
        rest = [directory(name, f"/{name}{at}", 10.0, DAY_S) for name in "bc" for at in range(3)]
        hot = directory("a", "/hot", 33.0, DAY_S, hottest=("/hot/x", 0.1))
        found = advise(three, [hot, *rest])
        self.says(
            found,
            "one-directory",
            "/hot alone has 33% of all writes: no ensemble can take a part of it. client.Sp",
        )
        found = advise(three, [hot._replace(hottest=("/hot/x", 0.9)), *rest])
        self.says(found, "one-znode", "/hot/x alone has 30% of all writes")
        self.is_silent(found, "one-directory")

    def test_growth(self) -> None:
        directories = [
            directory("a", "/old", 60.0, 90 * DAY_S),
            directory("a", "/day", 28.0, 2 * HOUR_S),
            directory("a", "/new", 12.0, 60.0),
        ]
        one = [ensemble("a", 100.0)]
        found = self.says(
            advise(one, directories), "growth", "One more ensemble gets only directories that are made"
        )
        self.assertEqual(found.figures["young"], {"an hour": 0.12, "a day": 0.4, "a week": 0.4})
        self.assertEqual(found.figures["brings"], {"an hour": 0.06, "a day": 0.2, "a week": 0.2})
        self.says(advise(one, directories, is_plain=True), "growth", "2 more ensembles get only directories")
        found = self.says(
            advise(one, directories, bound=frozenset({"/day", "/new"})), "growth", "would bring little"
        )
        self.assertEqual(found.figures["brings"], {"an hour": 0.0, "a day": 0.0, "a week": 0.0})
        found = self.says(
            advise(one, directories, tree_s=20 * HOUR_S), "growth", "12% in directories younger than an hour"
        )
        self.assertEqual(found.figures["young"], {"an hour": 0.12})
        young = advise(one, directories, tree_s=9 * HOUR_S)
        self.says(young, "unknown-growth", "the tree is 9 h old, too young")
        self.is_silent(young, "growth")


class WriteCountsTest(unittest.TestCase):
    def test_directory_of(self) -> None:
        for path, directory_path in {
            "/a": "/",
            "/a/b": "/a",
            "/a/.parkazoo": "/a",
            "/a/.parkazoo/x": "/a",
            "/a/.parkazoo.native": "/a",
            "/parkazoo/mirrors/%2Fa": "/parkazoo/mirrors/%2Fa",
            "/parkazoo/mirrors/%2Fa/b": "/parkazoo/mirrors/%2Fa",
            "/parkazoo/mirrors/%2Fa/b/.parkazoo": "/parkazoo/mirrors/%2Fa/b",
            "/parkazoo/fences/7": "/parkazoo",
        }.items():
            self.assertEqual(directory_of(path), directory_path)

    def test_events(self) -> None:
        counts, mirror = ChangeCounts(), "/parkazoo/mirrors/%2Fa"
        counts.add(Seen({mirror: 1, f"{mirror}/x": 5, "/b": 2}, 8, {mirror}))
        counts.add(Seen({f"{mirror}/x": 4, "/parkazoo/fences/7": 1}, 5))
        a, top, own = counts.directories("e", 10.0, NOW_S)
        self.assertEqual((a.directory, a.writes, a.made_s, a.hottest), ("/a", 1.0, NOW_S - 10, ("/a/x", 0.9)))
        self.assertEqual((top.directory, top.writes, top.made_s), ("/", 0.2, None))
        self.assertEqual(describe_directory(own), "/parkazoo (ParKazoo's own)")

    def test_very_many_paths(self) -> None:
        """All count in their directories; the hottest counts by itself too."""
        counts, many = ChangeCounts(), 250
        with mock.patch("parkazoo.admin.write_counts.KEPT_PATHS", 100):
            for number in range(many):
                counts.add(Seen({f"/d/{number}": 1, "/d/hot": 1}, 2))
        (d,) = counts.directories("e", 1.0, NOW_S)
        self.assertEqual((d.directory, d.writes, d.hottest), ("/d", 2.0 * many, ("/d/hot", 0.5)))

    def test_looks(self) -> None:
        """A hundred children, one of which is written: each counts by itself. One directory is new."""
        names = [f"/d/{at}" for at in range(100)]
        before = {"/d": Znode(0.0, 1, 5.0, 0, 100), **{name: Znode(0.0, 2, 5.0, 0, 0) for name in names}}
        now = {
            "/d": Znode(10.0, 1, 5.0, 0, 104),
            **{name: Znode(10.0, 2, 5.0, 0, 0) for name in names},
            "/d/77": Znode(10.0, 2, 5.0, 36, 0),
            "/new": Znode(10.0, 9, 6.0, 0, 2),
        }
        d, new = counted_by_looks("e", before, now, 20.0)
        self.assertEqual((d.directory, d.writes, d.made_s, d.hottest), ("/d", 4.0, 5.0, ("/d/77", 0.9)))
        self.assertEqual((new.directory, new.writes, new.made_s), ("/new", 0.1, 6.0))
