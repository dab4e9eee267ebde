"""The reports' own figures: that they are what they are said to be, and what follows from them."""

from __future__ import annotations

import unittest

from bench.published import (
    CLIENTS,
    MISPRINTS,
    THEIR_GETS,
    THEIR_PUT_S,
    THEIR_PUTS,
    ZATT_ROWS,
    ZATT_SAYS,
    best,
    table,
)
from bench.scenarios.thesis_figures import (
    BEST,
    COMPARED,
    HOSTS_ALIKE,
    ONE_PROCESS,
    THREADS_ALIKE,
    TIMES,
    TIMES_OF_A_PROCESS,
)

CLOSE = 0.03  # to which requests/s times mean latency are the clients


class TestThesis(unittest.TestCase):
    def test_rows(self) -> None:
        """Of both halves of tables 6.1 to 6.6."""
        counts = {name: len(table(name)) for name in CLIENTS}
        self.assertEqual(sorted(counts), [f"6.{number}{half}" for number in range(1, 7) for half in "ab"])
        self.assertEqual(sum(counts.values()), 91)
        self.assertEqual([len(table(f"6.{number}a")) for number in range(1, 7)], [12, 4, 5, 8, 8, 3])

    def test_rates_and_latencies_make_the_clients(self) -> None:
        """In all rows but those that are named as misprints: requests/s times mean latency."""
        for name, each in CLIENTS.items():
            for row in table(name):
                with self.subTest(name, count=row.number):
                    clients = row.requests_s * row.mean_s
                    is_right = abs(clients / (row.number * each) - 1) <= CLOSE
                    self.assertEqual(is_right, (name, row.number) not in MISPRINTS)

    def test_a_misprint_names_the_figures_of_its_row(self) -> None:
        for (name, count), why in MISPRINTS.items():
            (row,) = [each for each in table(name) if each.number == count]
            self.assertIn(f"{count * CLIENTS[name]:,} clients", why)
            self.assertTrue({f"{row.requests_s:,.2f}", f"{row.mean_s:.6f}"} & {*why.split()}, why)

    def test_a_table_is_printed_twice(self) -> None:
        """But for three numbers; so what it calls threads are processes of six."""
        differing = [
            (one.number, name)
            for one, other in zip(table("6.4a"), table("6.5a"), strict=True)
            for name in one._fields
            if getattr(one, name) != getattr(other, name)
        ]
        self.assertEqual(differing, [(2, "requests_s"), (12, "median_s"), (16, "requests_s")])

    def test_one_process(self) -> None:
        """Reads: ten threads of its client beside six of kazoo, not beside eighteen processes."""
        found = {each.load: each for each in COMPARED if each.of == ONE_PROCESS}
        reads, writes = found["reads"], found["writes"]
        self.assertEqual(
            (reads.three, reads.three_with, reads.one, reads.one_with),
            (2_371.39, "10 threads", 3_161.10, "6 threads"),
        )
        self.assertEqual(
            (writes.three, writes.three_with, writes.one, writes.one_with),
            (228.93, "110 threads", 367.17, "210 threads"),
        )
        self.assertEqual(
            {load: f"{each:.0%}" for load, each in TIMES_OF_A_PROCESS.items()}, {"writes": "62%", "reads": "75%"}
        )
        alike = [round(each.times, 2) for each in COMPARED if each.of == THREADS_ALIKE]
        self.assertEqual(alike, [1.05, 1.45, 1.42, 1.54])

    def test_the_best_and_as_many_hosts(self) -> None:
        self.assertEqual({load: round(each, 2) for load, each in TIMES.items()}, {"writes": 1.98, "reads": 2.09})
        found = [(each.load, each.three_with, each.one_with) for each in COMPARED if each.of == BEST]
        self.assertEqual(
            found, [("writes", "14 hosts", "4 hosts"), ("writes", "", "5 hosts"), ("reads", "16 hosts", "6 hosts")]
        )
        alike = [(each.load, each.one_with, round(each.times, 2)) for each in COMPARED if each.of == HOSTS_ALIKE]
        self.assertEqual([times for load, _, times in alike if load == "writes"], [0.71, 0.69, 0.67, 0.74, 1.0])
        self.assertEqual([times for load, _, times in alike if load == "reads"], [0.76, 0.77, 0.82])
        self.assertEqual([host for load, host, _ in alike if load == "reads"], ["1 host", "3 hosts", "6 hosts"])

    def test_the_best_of_a_table(self) -> None:
        self.assertEqual([best(name).number for name in ("6.1a", "6.2a", "6.5a", "6.5b")], [210, 6, 18, 18])


class TestOthers(unittest.TestCase):
    def test_zatt(self) -> None:
        """Entries over seconds are its req/s, but in two of seven rows."""
        wrong = [row for row in ZATT_ROWS if abs(row.entries / row.took_s - row.entries_s) > 1]
        self.assertEqual(
            [(row.entries_s, round(row.entries / row.took_s)) for row in wrong], [(657, 329), (1425, 1172)]
        )
        odd = [row.kb_s for row in ZATT_ROWS if abs(row.entries_s * row.size / 1000 - row.kb_s) > 1]
        self.assertEqual(odd, [424.95])
        self.assertEqual({row.servers for row in ZATT_ROWS}, {2})
        self.assertEqual({row.size for row in ZATT_ROWS}, {100, 1000})
        self.assertEqual({(row.clients, row.workers) for row in ZATT_ROWS}, {(4, 256), (4, 100), (2, 100)})
        least, most = min(row.entries_s for row in ZATT_ROWS), max(row.entries_s for row in ZATT_ROWS)
        self.assertTrue(ZATT_SAYS.startswith(f"{least:,} to {most:,} requests/s"))

    def test_nil_externality(self) -> None:
        """It says that latency is four times better, and throughput three times."""
        self.assertAlmostEqual(THEIR_PUT_S[0] / THEIR_PUT_S[1], 4.28, delta=0.01)
        self.assertAlmostEqual(THEIR_PUTS[1] / THEIR_PUTS[0], 3.0, delta=0.01)
        self.assertAlmostEqual(THEIR_GETS[1] / THEIR_GETS[0], 0.96, delta=0.01)


if __name__ == "__main__":
    unittest.main()
