"""The reports' figures beside ours: what follows from results that are known."""

from __future__ import annotations

import itertools
import json
import unittest
from pathlib import Path
from typing import Any

from bench.dictionary import AS_THEIRS, CROWDS, Cluster, row
from bench.pages.raw import Raw
from bench.pages.report_tables import nil_external, zatt, zatt_rows
from bench.report.section import Table

SAVED = Path(__file__).parent / "saved"
ABOUT = {"size": "medium", "lab": {"kind": "emulated"}}


def raw(document: dict[str, Any]) -> Raw:
    return Raw(Path("made-up.json"), document)


def cells(table: Table) -> dict[str, tuple[str, ...]]:
    """Of each line, theirs, ours and the ratio."""
    return {row[0]: tuple(row[1:4]) for row in table.rows}


class TestZatt(unittest.TestCase):
    def test_elections(self) -> None:
        """Shares that took less, and within what time as large a share was over."""
        trials = [
            {"group": "1x5, killed", "elected_s": each / 1000, "took_s": each / 1000 + 0.2}
            for each in (70, 90, *range(210, 308))
        ]
        other = {"group": "1x3, killed", "elected_s": 0.001, "took_s": 0.001}
        parts = [other, *trials[:40]], trials[40:]  # 1,000 take longer than a run may last
        full = {"scenario": "elections", "about": {**ABOUT, "size": "full"}}
        names = ("many", "more")
        raws = [raw({**full, "part": name, "trials": part}) for name, part in zip(names, parts, strict=True)]
        table = zatt(raws, {})
        found = cells(table)
        self.assertEqual(found["of 100 elections, less than 80 ms took"], ("87%", "1%", "0.0115"))
        self.assertEqual(found["of 100 elections, less than 100 ms took"], ("98%", "2%", "0.0204"))
        theirs, ours, ratio = found["of 100 elections, 87% took less than, ms"]
        self.assertEqual((theirs, ours, ratio), ("80", "294", "3.68"))
        _, answered, _ = found["of 100 losses, a write was answered after 87% within, ms"]
        self.assertEqual(answered, "494")
        commands = [f"`python -m bench.scenarios elections --emulate --full --part {name}`" for name in names]
        self.assertEqual({row[5] for row in table.rows}, {" and ".join(commands)})

    def test_entries(self) -> None:
        """One client, and the number of them that writes most; on three servers, of values as theirs; not of the
        rows of their table.
        """
        alike = {"entries": 4000, "processes": 2, "busy_percent": 50.0}
        rows = [
            {**alike, "servers": servers, "clients": clients, "size": size, "entries_per_s": rate}
            for servers, clients, size, rate in (
                (3, 1, 10, 500.0),
                (3, 1, 1000, 700.0),
                (3, 1, 65_536, 9.0),
                (3, 16, 10, 3000.0),
                (3, 64, 10, 2000.0),
                (2, 64, 10, 9000.0),
            )
        ]
        rows[3]["busy_percent"] = 99.0
        rows.append(row("parkazoo", Cluster(1, 3, ()), AS_THEIRS[0], 0.1, 50.0)._asdict())
        found = cells(zatt([raw({"rows": rows})], {}))
        one = "requests/s of one client, ours entries, parkazoo 1x3"
        self.assertEqual(found[one], ("100", "600\n500 to 700", "6\n5 to 7"))
        most = "most requests/s: theirs of 64 clients, ours entries of 16, parkazoo 1x3"
        self.assertEqual(found[most], ("200", "3,000 *", "15"))

    def test_rows(self) -> None:
        """Those of its table alone; a star where the processors were busy."""
        subjects = (("kazoo", 1, 50.0), ("parkazoo", 1, 95.0), ("parkazoo", 3, 50.0))
        rows = [
            row(system, Cluster(ensembles, 2, ()), AS_THEIRS[0], seconds, busy)._asdict()
            for seconds in (1.0, 2.0)
            for system, ensembles, busy in subjects
        ]
        rows.append(row("kazoo", Cluster(1, 2, ()), CROWDS[0], 1.0, 50.0)._asdict())
        table = zatt_rows([raw({"rows": rows})], {"of": "entries_per_s"})
        self.assertEqual(
            table.columns[1:], ("Zatt", "kazoo 1x2", "parkazoo 1x2", "parkazoo 3x2", "parkazoo 1x2 of Zatt")
        )
        ours = "750\n500 to 1,000"
        ((about, *figures),) = table.rows
        self.assertEqual(about, "1,000 of 1,000 B, 256 on 4")
        self.assertEqual(figures, ["91", ours, "750 *\n500 to 1,000", ours, "8.24\n5.49 to 11"])
        with self.assertRaisesRegex(ValueError, "none of the table's rows"):
            zatt_rows([raw({"rows": rows[-1:]})], {"of": "seconds"})


class TestNilExternality(unittest.TestCase):
    def test_saved(self) -> None:
        document = json.loads((SAVED / "deferred.json").read_text())
        found = cells(nil_external([raw(document)], {}))
        theirs, ours, ratio = found["table 1: puts/s, parkazoo 1x3"]
        self.assertEqual((theirs, ours), ("6.97 → 20.9: 3", "390 → 14,767: 37.9"))
        self.assertEqual(ratio, "12.6")
        self.assertTrue([name for name in found if name.startswith("figure 1: reads, deferred")])

    def test_kazoo_on_one_ensemble_and_ours_on_three(self) -> None:
        document = json.loads((SAVED / "deferred.json").read_text())
        of = {run["mode"]: run for run in document["runs"] if run["part"] == "modes"}
        for mode, like, shape in (
            ("kazoo: set", "sync", "1x3"),
            ("kazoo: get", "get", "1x3"),
            ("deferred", "deferred", "3x3"),
            ("get, deferred() open", "get, deferred() open", "3x3"),
        ):
            document["runs"].append({**of[like], "mode": mode, "shape": shape})
        found = cells(nil_external([raw(document)], {}))
        for what in ("put, ms until the call returns", "puts/s", "get, ms", "gets/s"):
            same, other = (f"table 1: {what}, {each}" for each in ("parkazoo 1x3", "kazoo 1x3 → parkazoo 3x3"))
            self.assertEqual(found[same], found[other])

    def test_figures_1_to_3(self) -> None:
        """Writes and reads together, at the lowest share of writes and at the highest; and the longest put."""
        document = json.loads((SAVED / "deferred.json").read_text())
        for run in list(document["runs"]):
            if run["part"] in ("share", "recent", "clients"):
                more = 1.0 if run["part"] == "share" else 8.0
                document["runs"].append({**run, "value": more})
        found = cells(nil_external([raw(document)], {}))
        for mode, what in itertools.product(("sync", "deferred"), ("median", "mean")):
            theirs, ours, ratio = found[f"figure 1: both together, {mode}, {what} ms; 50% → 100% writes"]
            self.assertEqual(theirs, "a plot" if what == "mean" else "from reads' to writes', abruptly")
            self.assertTrue(ours.endswith(": 1"), ours)
            self.assertEqual(ratio, "-")
        lines = [name for name in found if name.startswith("figure 2: times a put's longest without it")]
        self.assertEqual(len(lines), 2)
        self.assertIn("figure 3: reads, deferred, mean ms; none and all are recent", found)

    def test_availability(self) -> None:
        """A line for each number of servers left, of five servers alone."""
        left = [
            {"servers": servers, "accepted": 500.0, "committed": rate} for servers, rate in ((3, 490.0), (2, 0.0))
        ]
        document = json.loads((SAVED / "deferred.json").read_text())
        for run in document["runs"]:
            if run["part"] == "followers":
                run |= {"shape": "1x5", "value": 500, "left": left}
        found = cells(nil_external([raw(document)], {}))
        name = "figure 4: of 500 puts/s, committed with {} servers, {}"
        self.assertEqual(found[name.format(3, "sync")][:2], ("available", "490"))
        self.assertEqual(found[name.format(3, "deferred")][:2], ("not available", "490"))
        self.assertEqual(found[name.format(2, "deferred")][:2], ("not available", "0"))

    def test_none(self) -> None:
        with self.assertRaisesRegex(ValueError, "none of the report's figures"):
            nil_external([], {})
        with self.assertRaisesRegex(ValueError, "none of the report's figures"):
            zatt([raw({"scenario": "elections", "about": ABOUT, "trials": []})], {})


if __name__ == "__main__":
    unittest.main()
