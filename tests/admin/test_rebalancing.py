"""A rebalancing: its moves one after the other, and what the command tells. Nothing is connected."""

from __future__ import annotations

import io
import sys
import unittest
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from types import SimpleNamespace
from typing import Any
from unittest import mock

from parkazoo.admin import SeveralMoves, rebalance, rebalancing, several_moves
from parkazoo.admin.advice import FOLLOW, Measured
from parkazoo.admin.clients import UnreadableError
from parkazoo.admin.rates import EnsembleRates, Rates
from parkazoo.admin.rebalance_plan import RebalancePlan
from parkazoo.admin.rise import Rise, StrangersError
from parkazoo.admin.write_counts import DirectoryWrites, Znode
from parkazoo.cli import main
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.moving import Moving
from parkazoo.protocol.placement import mirror_path

KNOWN = ClusterMap("5d3c", {name: f"{name}:1" for name in "abc"}, tuple("abc"), "a", form=Form.GROWN)
LEFT = Moving("/left", "0" * 32, "a", "", "b")
HOT = [DirectoryWrites("a", f"/{number}", mirror_path(f"/{number}"), 100.0) for number in range(6)]


def ensemble(name: str, writes: float) -> EnsembleRates:
    return EnsembleRates(name, 3, 3, f"{name}:1", 2 * writes, 0.0, writes, None, 1.0, 0, 1, 0.0, 9)


def measured(directories: list[DirectoryWrites], **more: Any) -> Any:
    ensembles = [
        ensemble(name, sum(each.writes for each in directories if each.ensemble == name)) for name in "abc"
    ]
    rates = Rates(2e9, 15.0, "5d3c", 1, ensembles, (), ())
    return SimpleNamespace(measured=Measured(FOLLOW, 15.0, rates, directories, {}, **more))


class RebalanceCase(unittest.TestCase):
    """:ivar known: the map, as it is read."""

    def setUp(self) -> None:
        nothing = SimpleNamespace(patiently=lambda ask: None, catch_up=None)
        self.find_advice = self.stand_in("find_advice", return_value=measured(HOT))
        self.read_map = self.stand_in("read_map", side_effect=lambda *_, **__: self.known)
        self.stand_in("count_below", side_effect=lambda client, paths, pace: dict.fromkeys(paths, 10))
        self.stand_in("read_primary", several_moves, side_effect=lambda client: SimpleNamespace(map=self.known))
        self.new_enough = self.stand_in("verify_new_enough", several_moves)
        self.move = self.stand_in("DirectoryMove", several_moves, side_effect=self.moves)
        self.stand_in("connected", Rise, return_value=nullcontext(dict.fromkeys("abc", nothing)))
        self.look_out = self.stand_in("verify_no_strangers", Rise)
        self.known = KNOWN
        self.moved: list[tuple[str, str]] = []
        self.fails: dict[str, BaseException] = {}
        self.told: list[str] = []

    def stand_in(self, name: str, owner: Any = rebalancing, **options: Any) -> Any:
        patched = mock.patch.object(owner, name, **options)
        self.addCleanup(patched.stop)
        return patched.start()

    def moves(self, path: str, to: str, *how: Any) -> Any:
        def run(known: ClusterMap, clients: Any) -> None:
            if path in self.fails:
                raise self.fails[path]
            self.moved.append((path, to))
            self.known = self.known.with_move(None)

        return SimpleNamespace(run=run)

    def rebalance(self, **options: Any) -> tuple[RebalancePlan, SeveralMoves]:
        plans: list[RebalancePlan] = []
        moves = rebalance("a:1", tell=self.told.append, on_plan=plans.append, **options)
        (plan,) = plans
        return plan, moves


class RebalanceTest(RebalanceCase):
    def test_moves(self) -> None:
        plan, moves = self.rebalance(per_second=500, seconds=7)
        self.assertEqual([to for _, to in self.moved], ["b", "c", "b", "c"])
        self.assertEqual(self.moved, [(each.branch.directory, each.to) for each in plan.moves])
        self.assertEqual(moves, SeveralMoves(4, {}))
        _, _, rise, _, per_second, is_next, about = self.move.call_args.args
        self.assertEqual((per_second, is_next, about, rise.strangers_gone), (500, True, "4 of 4", False))
        self.assertEqual(self.find_advice.call_args.kwargs["seconds"], 7)
        self.assertEqual(self.told, ["counted 9,000 writes in 15 s", "found 4 directories to move"])

    def test_dry_run(self) -> None:
        self.known = KNOWN.with_move(LEFT)
        self.look_out.side_effect = StrangersError("1 session is not registered")
        plan, moves = self.rebalance(dry_run=True)
        self.assertEqual((self.moved, len(plan.moves), moves), ([], 4, SeveralMoves(0, {})))
        self.assertEqual(
            self.told[:2],
            ["would be refused: 1 session is not registered", "would go on with a move: /left moves to b"],
        )

    def test_clients_that_do_not_take_part(self) -> None:
        """They are told before anything is counted."""
        for verify in (self.look_out, self.new_enough):
            verify.side_effect = ClusterMapError("1 client is too old")
            with self.assertRaisesRegex(ClusterMapError, "1 client is too old"):
                self.rebalance()
            verify.side_effect = None
        self.find_advice.assert_not_called()

    def test_a_move_that_was_left(self) -> None:
        """It comes to its end before anything is counted."""
        self.known = KNOWN.with_move(LEFT)
        self.find_advice.side_effect = lambda *_, **__: (
            self.assertEqual(self.moved, [("/left", "b")]) or measured(HOT)
        )
        self.rebalance()
        self.assertEqual(self.told[0], "going on with a move: /left moves to b")
        self.assertEqual(len(self.moved), 5)

    def test_a_refusal(self) -> None:
        """The others move; if an ensemble has gone away, or strangers have come, none."""
        self.fails["/0"] = ClusterMapError("it has ephemerals")
        _, moves = self.rebalance()
        self.assertEqual(moves, SeveralMoves(3, {"/0": "it has ephemerals"}))
        for error in UnreadableError("b does not answer"), StrangersError("1 session is not registered"):
            self.moved.clear()
            self.fails["/0"] = error
            with self.assertRaises(type(error)):
                self.rebalance()
            self.assertEqual(self.moved, [])

    def test_what_cannot_be_measured(self) -> None:
        self.find_advice.return_value = measured(HOT, unseen={"b": "its servers are older than ZooKeeper 3.6"})
        with self.assertRaisesRegex(ClusterMapError, "could not be counted, so nothing moves: b: its servers"):
            self.rebalance()

    def test_what_may_not_be_read(self) -> None:
        self.stand_in("count_below", side_effect=lambda client, paths, pace: dict.fromkeys(paths[1:], 10))
        self.rebalance()
        self.assertEqual(self.told[1], "left out, because they are gone, or this identity may not read them: /0")
        self.assertNotIn("/0", [path for path, _ in self.moved])

    def test_another_form(self) -> None:
        self.known = ClusterMap("5d3c", {"a": "a:1"}, ("a",), "a")
        with self.assertRaisesRegex(ClusterMapError, "paths say where directories are"):
            self.rebalance()
        self.find_advice.assert_not_called()

    def test_wrong_arguments(self) -> None:
        for wrong in ({"seconds": 0.0}, {"per_second": float("nan")}, {"most_pause_ms": -1.0}):
            with self.assertRaisesRegex(ClusterMapError, "more than 0"):
                self.rebalance(**wrong)
        self.read_map.assert_not_called()

    def test_by_znodes(self) -> None:
        """If hardly anything is written. Of a few znodes none moves."""
        self.find_advice.return_value = measured([HOT[0]._replace(writes=1.0)])
        for number, moves in ((300, 4), (100, 0)):
            places = [f"{each.path}/{child}" for each in HOT for child in range(number)]
            at_a = SimpleNamespace(
                znodes={path: Znode(0.0, 1, 0.0, 0, 0) for path in ["/", "/parkazoo/x", *places]}
            )
            nothing = SimpleNamespace(znodes={})
            self.stand_in("look_at_all", side_effect=[at_a, nothing, nothing])
            plan, _ = self.rebalance(dry_run=True)
            self.assertEqual((plan.unit, len(plan.moves), plan.is_too_little), ("znodes", moves, not moves))
        self.assertEqual(
            self.told[-2:],
            [
                "counted 15 writes in 15 s, too few to go by: znodes count instead",
                "counted 601 znodes, too few to go by",
            ],
        )


class CommandTest(RebalanceCase):
    def run_command(self, *options: str) -> tuple[int, str]:
        out = io.StringIO()
        argv = ["parkazoo", "map", "rebalance", "--hosts", "a:1", *options]
        with (
            mock.patch.object(sys, "argv", argv),
            mock.patch.dict("os.environ", {"COLUMNS": "200"}),
            redirect_stdout(out),
            redirect_stderr(out),
            self.assertRaises(SystemExit) as end,
        ):
            main()
        self.assertIsInstance(end.exception.code, int)
        return end.exception.code, out.getvalue()  # type: ignore[return-value]  # as was just seen

    def test_what_it_tells(self) -> None:
        status, out = self.run_command("--dry-run")
        self.assertEqual(status, 0)
        self.assertRegex(
            out, r"(?s)moves, each with all below.*writes/s +.*znodes.*a +│ b +│ /0 +│ +100\.0 │ +10 "
        )
        self.assertRegex(
            out, r"(?s)ensemble +┃ weight ┃ share ┃ +now ┃ +then.*a +│ +1 │ 200\.0 │ 600\.0 │ 200\.0 "
        )
        self.assertRegex(out, "dry run: nothing was written\n$")

    def test_a_refusal(self) -> None:
        self.fails["/0"] = ClusterMapError("it has ephemerals")
        status, out = self.run_command()
        self.assertEqual(status, 1)
        self.assertRegex(out, "\n3 directories moved\n1 stayed:\n  /0: it has ephemerals\n$")

    def test_nothing_to_do(self) -> None:
        self.find_advice.return_value = measured(
            [each._replace(ensemble="abc"[at % 3]) for at, each in enumerate(HOT)]
        )
        status, out = self.run_command()
        self.assertEqual((status, self.moved), (0, []))
        self.assertIn("nothing to do: each ensemble has its share, to within 10%", out)

    def test_what_stays(self) -> None:
        """Too hot to be spread, or too large to move in so short a pause."""
        self.find_advice.return_value = measured([HOT[0]._replace(writes=900.0), *HOT[1:3]])
        _, out = self.run_command("--dry-run")
        self.assertIn("/0 alone has 82% of all writes/s, more than any ensemble's share", out)
        self.assertIn("no other move would bring the loads nearer to their shares", out)
        _, out = self.run_command("--dry-run", "--max-pause", "100")
        self.assertIn("left out by --max-pause 100: /1 (10 znodes), /2 (10 znodes)\n", out)

    def test_too_little(self) -> None:
        self.find_advice.return_value = measured([HOT[0]._replace(writes=1.0)])
        self.stand_in("look_at_all", return_value=SimpleNamespace(znodes={}))
        status, out = self.run_command()
        self.assertEqual(status, 0)
        self.assertIn("nothing is moved: there is too little to plan by\n0 directories moved\n", out)

    def test_a_dry_run_of_what_would_be_refused(self) -> None:
        self.look_out.side_effect = StrangersError("1 session is not registered")
        status, out = self.run_command("--dry-run")
        self.assertEqual(status, 1)
        self.assertRegex(
            out, "(?s)^would be refused: 1 session is not registered\n.*dry run: nothing was written\n$"
        )

    def test_interrupted_before_anything(self) -> None:
        self.read_map.side_effect = KeyboardInterrupt
        _, out = self.run_command()
        self.assertIn("interrupted: nothing was begun", out)

    def test_wrong_options(self) -> None:
        for wrong in ("--seconds=0", "--max-pause=0", "--rate=0", "--rate=x"):
            self.assertEqual(self.run_command(wrong)[0], 2)
        self.read_map.assert_not_called()


if __name__ == "__main__":
    unittest.main()
