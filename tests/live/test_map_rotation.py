"""The shared identity of a closed cluster changes while clients with the old and with the new one work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial

from kazoo.client import KazooClient
from kazoo.security import ACL, CREATOR_ALL_ACL, make_digest_acl

from parkazoo import ParKazooClient
from parkazoo.admin import add_identity, init_map, read_map, remove_identity
from parkazoo.errors import ClusterMapError
from parkazoo.fsck import check
from parkazoo.local import LocalCluster
from parkazoo.protocol.placement import DEFERRED, FENCE_COUNT, FENCES, ROOT, join
from tests.live.map_case import error_of, output_of
from tests.live.secured import SecuredTest
from tests.live.world import wait_until

OLD, NEW, ME = ("digest", "app:old"), ("digest", "app:new"), ("digest", "me:mine")
ROUNDS = 20  # of each program, in each stretch of the rotation


class Program:
    """A program that does all the time what needs `/parkazoo`: first children, locks, deletes, markers.

    :ivar rounds: so many are done. :ivar errors: what went wrong.
    """

    def __init__(self, case: SecuredTest, name: str, client: ParKazooClient) -> None:
        self.rounds = 0
        self.errors: list[BaseException] = []
        self._name = name
        self._client = client
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        case.addCleanup(self.end)

    def end(self) -> None:
        self._is_over.set()
        self._thread.join()

    def goes_on(self) -> None:
        """Waits until it has done some more."""
        goal = self.rounds + ROUNDS
        wait_until(lambda: self.rounds >= goal or self.errors, f"{self._name}: {goal} rounds")
        assert not self.errors, self.errors

    def _run(self) -> None:
        try:
            self._work(self._client)
        except BaseException as error:
            self.errors.append(error)

    def _work(self, client: ParKazooClient) -> None:
        client.create(f"/{self._name}", b"")
        with client.deferred() as later:
            while not self._is_over.is_set():
                path = f"/{self._name}/{self.rounds}"
                client.create(f"{path}/first/child", makepath=True)
                with client.Lock(f"{path}/lock"):
                    client.set(path, b"locked")
                later.add(f"{path}/later")
                later.put(path, b"later")
                later.barrier()
                client.once(client.set, path, b"once")
                client.delete(path, recursive=True)
                self.rounds += 1


class RotationTest(SecuredTest):
    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = LocalCluster(3, 1, make_map=False)
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()
        cls.hosts = {each.name: each.hosts for each in cls.cluster.ensembles}

    def program(self, name: str, identity: tuple[str, str]) -> tuple[Program, ParKazooClient]:
        client = self.parkazoo(self.cluster.hosts, auth_data=[identity, ME])
        return Program(self, name, client), client

    def test_while_programs_work(self) -> None:
        hosts = self.hosts["a"]
        init_map(hosts, self.hosts, auth=[OLD], closed=True)
        old, old_client = self.program("old", OLD)
        old.goes_on()
        command = partial(output_of, "map", "identity")
        added = command("add", ":".join(NEW), "--hosts", hosts, f"--auth={':'.join(OLD)}")
        self.assertRegex(added, "(?s)ensemble a: given to 1,.*ensemble b: given to 1,.*ensemble c: given to 1,")
        new, _ = self.program("new", NEW)
        for each in (old, new):
            each.goes_on()
        again = command("add", "--hosts", hosts, PARKAZOO_IDENTITY=":".join(NEW), PARKAZOO_AUTH=":".join(OLD))
        self.assertIn("nothing to do", again)
        refused = error_of("map", "identity", "remove", ":".join(OLD), "--hosts", hosts, f"--auth={':'.join(NEW)}")
        self.assertRegex(refused, "(?s)1 client with digest:app,.* give --yes")
        for each in (old, new):
            each.goes_on()
        old.end()
        sole = make_digest_acl(*OLD[1].split(":"), all=True)
        old_client.create("/sole/child", acl=[sole], makepath=True)
        old_client.stop()
        marker = self.left_behind()
        command = partial(command, "remove", ":".join(OLD), "--hosts", hosts, f"--auth={':'.join(NEW)}")
        self.give_others_a_right(command, hosts, [sole, make_digest_acl(*NEW[1].split(":"), all=True)])
        command()
        new.goes_on()
        self.assertFalse(old.errors)
        self.assert_closed_to(NEW, marker)
        self.assertRaises(ClusterMapError, read_map, hosts, auth=[OLD])
        new.end()
        report = check(hosts, auth=[NEW])
        self.assertTrue(report.is_complete and report.is_clean, report.to_json())
        self.refusals(hosts)

    def give_others_a_right(self, command: Callable[..., str], hosts: str, acl: list[ACL]) -> None:
        """To the znodes that would be out of reach."""
        told = "digest:app alone has some right to 2 znodes; first give it to others with set_acls:"
        self.assertIn(f"would ask, because {told}\n  /sole\n  /sole/child\n", command("--dry-run"))
        with self.assertRaisesRegex(AssertionError, f"{told}\n  /sole\n  /sole/child. If .* give --yes"):
            command()
        client = self.parkazoo(hosts, auth_data=[OLD, NEW])
        for path in ("/sole", "/sole/child"):
            client.set_acls(path, acl)
        client.stop()

    def left_behind(self) -> str:
        """A marker of an old client that has died."""
        client = self.kazoo(self.hosts["b"], auth_data=[OLD, ME])
        path = f"{DEFERRED}/left"
        client.create(path, b"{}", CREATOR_ALL_ACL)
        return path

    def assert_closed_to(self, identity: tuple[str, str], marker: str) -> None:
        entry = make_digest_acl(*identity[1].split(":"), all=True)
        for name, hosts in self.hosts.items():
            client = self.kazoo(hosts, auth_data=[identity])
            paths = [*self.structure(client)]
            self.assertGreater(len(paths), FENCE_COUNT)
            for path in paths:
                self.assertEqual(client.get_acls(path)[0], [entry], (name, path))
        self.assertIn(entry, self.kazoo(self.hosts["b"], auth_data=[identity]).get_acls(marker)[0])

    def structure(self, client: KazooClient) -> Iterator[str]:
        yield ROOT
        for name in client.get_children(ROOT):
            if "-" not in name:  # of a marker of `once`
                yield join(ROOT, name)
        for name in client.get_children(FENCES):
            yield join(FENCES, name)

    def refusals(self, hosts: str) -> None:
        with self.assertRaisesRegex(ClusterMapError, "is the last identity of the cluster"):
            remove_identity(hosts, NEW, yes=True, auth=[NEW])
        add_identity(hosts, OLD, auth=[NEW])
        with self.assertRaisesRegex(ClusterMapError, "would shut itself out: give the one that stays"):
            remove_identity(hosts, OLD, yes=True, auth=[OLD])
