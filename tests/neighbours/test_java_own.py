"""ZooKeeper's own tests of its Java client, unmodified, at two gateways with one table.

Their base classes start servers in the process of the test. The classes of the same names in `java_own/` stand
before them: they open a port that leads to a gateway, and shut it where a test stops its server. Each test begins
with an empty tree. A test that no gateway answers fails.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from xml.etree import ElementTree

from kazoo.security import make_digest_acl_credential

from parkazoo.local import LocalCluster
from tests.live.gateway_process import GatewayProcess
from tests.neighbours.builds import own_tests_command
from tests.neighbours.neighbour_case import RUN_S, NeighbourTest

PACKAGE = "org.apache.zookeeper."
TEST_S = 60
LARGEST = ".*testManyChildWatchersAutoReset"  # makes 10,000 znodes, one after the other
# As the tests have it: AuthTest's password, and the session time-outs of servers whose tick is 3 s.
ZOO_CFG = {
    "DigestAuthenticationProvider.superDigest": make_digest_acl_credential("super", "test"),
    "minSessionTimeout": "6000",
    "maxSessionTimeout": "60000",
}
VALUES = (
    "GetAllChildrenNumberTest",
    "GetEphemeralsTest",
    "server.CreateTTLTest#testBadTTLs",
    "server.CreateTTLTest#testMaxTTLs",
    "test.ACLRootTest",
    "test.AuthTest",
    "test.CheckTest#testStandalone",
    "test.ChrootTest",
    "test.ClientTest",
    "test.CreateTest",
    "test.GetChildren2Test",
    "test.NullDataTest",
    "test.StatTest",
    "test.SyncCallTest",
)
ASYNCHRONOUS = ("test.AsyncOpsTest", "test.AsyncTest")
TRANSACTIONS = ("test.MultiAsyncTransactionTest", "test.MultiOperationTest")
WATCHES = (
    "test.DisconnectedWatcherTest",
    "test.PersistentRecursiveWatcherTest",
    "test.PersistentWatcherACLTest",
    "test.PersistentWatcherTest",
    "test.WatchEventWhenAutoResetTest",
    "test.WatcherFuncTest",
    "test.WatcherTest",
)
SESSIONS = ("test.SessionTest",)
# The tests that fail, by the reason.
LISTED = {
    "a transaction over several ensembles is refused": ("MultiOperationTest.testTransactionBuilder",),
    "recursive watches need a map of one ensemble": (
        "PersistentRecursiveWatcherTest.testBasic",
        "PersistentRecursiveWatcherTest.testBasicAsync",
        "PersistentRecursiveWatcherTest.testDisconnect",
        "PersistentRecursiveWatcherTest.testMultiClient",
        "PersistentRecursiveWatcherTest.testNoChildEvents",
        "PersistentRecursiveWatcherTest.testRemoval",
        "PersistentRecursiveWatcherTest.testRootWatcher",
        "PersistentRecursiveWatcherTest.testSamePathWithDifferentWatchModes",
        "PersistentWatcherACLTest.testADeniesSeeAllBChangesAndBChildrenNothingForC",
        "PersistentWatcherACLTest.testADeniesSeeAllChangesForBAndCIncludingBChildren",
        "PersistentWatcherACLTest.testNothingAllDenied",
        "PersistentWatcherACLTest.testNothingBothDenied",
        "PersistentWatcherACLTest.testNothingForAAsItSDeniedBChangesSeen",
        "PersistentWatcherACLTest.testNothingTheWatchIsOnC",
        "PersistentWatcherACLTest.testTheWatchIsOnlyOnCBAndCAllowed",
    ),
    "a znode and its children have zxids of two ensembles": (
        "GetChildren2Test.testChild",
        "GetChildren2Test.testChildren",
        "StatTest.testChild",
        "StatTest.testChildren",
    ),
    "an event has no zxid, as those of servers before 3.9": (
        "WatcherFuncTest.testExistsSync",
        "WatcherFuncTest.testExistsSyncWObj",
        "WatcherFuncTest.testGetChildrenSync",
        "WatcherFuncTest.testGetChildrenSyncWObj",
        "WatcherFuncTest.testGetDataSync",
        "WatcherFuncTest.testGetDataSyncWObj",
    ),
    "a server ends the connection of a program that asks for an unknown operation": (
        "ClientTest.testNonExistingOpCode",
    ),
    "expects the sequence numbers of a new root; at one server it fails too": (
        "AsyncOpsTest.testAsyncMultiSequential_NoSideEffect",
    ),
    "looks into the server, or changes it": (
        "ClientTest.testPathValidation",
        "SessionTest.testMaximumCnxnPerIP",
        "SessionTest.testMinMaxSessionTimeout",
        "WatcherTest.testWatcherCount",
    ),
    "asks no server": ("AuthTest.testDigest", "AuthTest.testGenerateDigest"),
}


class TestOwnTests(NeighbourTest):
    @classmethod
    def setUpClass(cls) -> None:
        cls.command = own_tests_command()
        cls.cluster = cls.enterClassContext(LocalCluster(3, 1, zoo_cfg=ZOO_CFG))

    def test_values(self) -> None:
        self.check_all(VALUES)

    def test_asynchronous_calls(self) -> None:
        self.check_all(ASYNCHRONOUS)

    def test_transactions(self) -> None:
        self.check_all(TRANSACTIONS)

    def test_watches(self) -> None:
        self.check_all(WATCHES)

    def test_sessions(self) -> None:
        self.check_all(SESSIONS)

    def check_all(self, chosen: Sequence[str]) -> None:
        """All tests of these classes, or these tests, pass but those that are listed, and all of those fail."""
        run, failed = self.run_at_gateways(chosen)
        listed = {name for names in LISTED.values() for name in names} & run
        self.assertEqual({each.partition("#")[0].rpartition(".")[2] for each in chosen}, classes_of(run))
        self.assertEqual({name: why for name, why in failed.items() if name not in listed}, {}, "not listed")
        self.assertEqual(listed - {*failed}, set(), "listed, but they pass")

    def run_at_gateways(self, chosen: Sequence[str]) -> tuple[set[str], dict[str, str]]:
        """Returns the names of all tests, and what those that fail say."""
        gateways = [GatewayProcess(self.cluster.hosts, self.folder / "table") for _ in range(2)]
        for each in gateways:
            self.addCleanup(each.end)
            each.start()
        servers = ",".join(f"127.0.0.1:{each.port}" for each in gateways)
        selected = [
            option
            for each in chosen
            for option in ("--select-method" if "#" in each else "--select-class", PACKAGE + each)
        ]
        command = [
            *self.command,
            f"-Dservers={servers}",
            "org.junit.platform.console.ConsoleLauncher",
            "execute",
            *selected,
            f"--exclude-methodname={LARGEST}",
            "--details=none",
            f"--reports-dir={self.folder}",
            f"--config=junit.jupiter.execution.timeout.default={TEST_S}s",
        ]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=RUN_S, check=False)
        report = self.folder / "TEST-junit-jupiter.xml"
        self.assertTrue(report.exists(), done.stdout + done.stderr)
        run, failed = set(), {}
        for case in ElementTree.parse(report).iter("testcase"):
            name = f"{case.attrib['classname'].rpartition('.')[2]}.{case.attrib['name'].partition('(')[0]}"
            run.add(name)
            for kind in ("failure", "error"):
                if (found := case.find(kind)) is not None:
                    failed[name] = found.text or found.attrib.get("message", kind)
        return run, failed


def classes_of(names: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}
