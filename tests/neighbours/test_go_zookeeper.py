"""go-zookeeper's own tests, with gateways in the place of the servers that they start."""

from __future__ import annotations

import os
import re
import subprocess

from bench import ROOT
from tests.neighbours.as_server import HOSTS
from tests.neighbours.builds import go_tests, server_script
from tests.neighbours.neighbour_case import RUN_S, NeighbourTest

LEFT_OUT = {
    "TestIntegration_NoQuorum": "kills two of three servers; a gateway needs no other",
    "TestIntegration_IncrementalReconfig": "changes an ensemble's servers; it runs if it is told their version",
    "TestIntegration_Reconfig": "the same",
}


class TestGoZookeeper(NeighbourTest):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.program = go_tests()

    def test_its_own(self) -> None:
        found = self.run_tests("-test.list", "^Test").split()
        self.assertLessEqual({*LEFT_OUT, "TestIntegration_ClientClusterFailover"}, {*found})
        said = self.run_tests("-test.v", "-test.skip", f"^({'|'.join(LEFT_OUT)})$", f"-test.timeout={RUN_S:.0f}s")
        passed = re.findall(r"^--- PASS: (\w+)", said, re.MULTILINE)
        self.assertEqual(sorted(passed), sorted({*found} - {*LEFT_OUT}), said)

    def run_tests(self, *options: str) -> str:
        """What they print, also if they fail."""
        env = {**os.environ, HOSTS: self.cluster.hosts, "ZOOKEEPER_BIN_PATH": str(server_script("zkServer.sh"))}
        env = {**env, "PYTHONPATH": str(ROOT), "TMPDIR": str(self.folder)}
        done = subprocess.run(
            [*self.program, *options],
            env=env,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=RUN_S,
            check=False,
        )
        return done.stdout
