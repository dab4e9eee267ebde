"""fsck after an ensemble was emptied."""

from __future__ import annotations

from parkazoo.admin import check_map, init_map
from parkazoo.errors import ClusterMapError
from parkazoo.fsck import Report, check
from parkazoo.local import LocalCluster
from parkazoo.protocol.placement import MIRRORS
from tests.live.map_case import run_command, wipe
from tests.live.world import LiveTest


class LossTest(LiveTest):
    """An ensemble is emptied, and made anew with what it had given up."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = LocalCluster(ensembles=3, servers=1)
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()

    def found(self, report: Report) -> dict[str, set[str]]:
        return {
            kind.name: {found.path for found in tally.paths}
            for kind, tally in report.tallies.items()
            if tally.found
        }

    def test_an_emptied_ensemble(self) -> None:
        placement = self.placement
        lost = next(e for e in (1, 2) if e != placement.of_children("/"))
        name = "abc"[lost]
        paths = [f"/{number}" for number in range(40)]
        mirrored = {path for path in paths if placement.of_children(path) == lost != placement.of(path)}
        client = self.parkazoo()
        for number, path in enumerate(paths):
            client.create(path)
            if number % 2:
                client.create(f"{path}/child")
        children = {path for path in mirrored if client.get_children(path)}
        self.assertTrue(children and mirrored - children)
        self.assertEqual(self.found(check(self.cluster.hosts)), {})
        client.stop()

        wipe(self.kazoo(lost))
        hosts = {each.name: each.hosts for each in self.cluster.ensembles}
        with self.assertRaisesRegex(ClusterMapError, f"--replace {name}"):
            init_map(self.cluster.hosts, hosts)
        init_map(self.cluster.hosts, hosts, replace=[name])
        self.assertEqual(check_map(self.cluster.hosts), [])

        expected = {"lost-children": children}
        for repair in (False, True):
            report = check(self.cluster.hosts, repair=repair, accept_loss=[name] if not repair else ["a"])
            self.assertEqual(self.found(report), expected)
            self.assertEqual(len(report.remaining), len(children))
        status, out, _ = run_command("fsck", "--hosts", self.cluster.hosts)
        self.assertEqual(status, 1)
        self.assertIn("children were lost", out)
        client.start()
        used, deleted, *_ = sorted(children)
        self.assertEqual(client.get_children(used), [])
        client.create(f"{used}/again")
        client.delete(deleted)
        expected["lost-children"] -= {used, deleted}
        accept = ("fsck", "--hosts", self.cluster.hosts, "--accept-loss", name)
        self.assertEqual(run_command(*accept)[0], 2)
        status, _, err = run_command("fsck", "--hosts", self.cluster.hosts, "--repair", "--accept-loss", "x")
        self.assertEqual(status, 1)
        self.assertIn("no ensemble of the map is called 'x'", err)
        self.assertEqual(self.found(check(self.cluster.hosts)), expected)
        self.assertEqual(run_command(*accept, "--repair")[0], 0)
        self.assertEqual(self.found(check(self.cluster.hosts)), {})
        self.assertEqual(client.get_children(used), ["again"])

    def test_the_mirrors_are_gone(self) -> None:
        """A repair does not make their folder again, as if nothing had been in it."""
        plain = self.kazoo(1)
        plain.delete(MIRRORS, recursive=True)
        for repair in (False, True):
            report = check(self.cluster.hosts, repair=repair)
            self.assertEqual(self.found(report)["lost-mirrors"], {MIRRORS})
            self.assertFalse(report.is_clean)
        plain.create(MIRRORS)
