"""Intruders against ACLs: through ParKazooClient, and with plain kazoo at the physical paths of every ensemble.

docs/operations/security.md says what the open form of /parkazoo gives away. Here each of it is done, and the
closed form refuses it.
"""

from __future__ import annotations

import unittest
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NotEmptyError
from kazoo.security import ACL, ANYONE_ID_UNSAFE, OPEN_ACL_UNSAFE, Permissions, make_digest_acl

from parkazoo import ParKazooClient
from parkazoo.admin import init_map
from parkazoo.errors import ClusterMapError
from parkazoo.local import LocalCluster
from parkazoo.protocol.placement import DONE, ENSEMBLE, FENCES, MAP, MIRRORS, PIN, escape
from tests.live.map_case import wipe
from tests.live.secured import SecuredTest
from tests.live.world import DEADLINE_S
from tests.where_is import where_is

OWNER, STRANGER, CLUSTER = ("digest", "owner:o"), ("digest", "stranger:s"), ("digest", "cluster:c")
OWNERS_ALL = make_digest_acl("owner", "o", all=True)
ACLS = {
    "private": [OWNERS_ALL],
    "readable": [OWNERS_ALL, ACL(Permissions.READ, ANYONE_ID_UNSAFE)],
}
DIRECTORIES = 4
NOBODIES: tuple[list[tuple[str, str]], ...] = ([], [STRANGER])
Attempt = Callable[[Any, str], Any]


def commit(client: KazooClient, method: str, *arguments: Any) -> None:
    """A transaction of one operation; what it raises."""
    transaction = client.transaction()
    getattr(transaction, method)(*arguments)
    for result in transaction.commit():
        if isinstance(result, Exception):
            raise result


READS: dict[str, Attempt] = {
    "get": lambda client, path: client.get(path),
    "list": lambda client, path: client.get_children(path),
    "list with stat": lambda client, path: client.get_children(path, include_data=True),
    "get_acls": lambda client, path: client.get_acls(path),
}
WRITES: dict[str, Attempt] = {
    "set": lambda client, path: client.set(path, b"broken"),
    "set in a transaction": lambda client, path: commit(client, "set_data", path, b"broken"),
    "set_acls": lambda client, path: client.set_acls(path, OPEN_ACL_UNSAFE),
    "create": lambda client, path: client.create(f"{path}/broken"),
    "create with a number": lambda client, path: client.create(f"{path}/n", sequence=True),
    "create in a transaction": lambda client, path: commit(client, "create", f"{path}/broken"),
    "ensure_path": lambda client, path: client.ensure_path(f"{path}/broken/deep"),
    "delete": lambda client, path: client.delete(path),
    "delete recursively": lambda client, path: client.delete(path, recursive=True),
    "delete in a transaction": lambda client, path: commit(client, "delete", path),
}
MAKE_PIN: dict[str, Attempt] = {
    "make a pin": lambda client, path: client.create(f"{path}/{PIN}", acl=OPEN_ACL_UNSAFE),
}
USE_PIN: dict[str, Attempt] = {
    "leave a mark": lambda client, path: client.create(f"{path}/{PIN}/mark.-1"),
    "take the pin": lambda client, path: client.delete(f"{path}/{PIN}"),
    "open the pin": lambda client, path: client.set_acls(f"{path}/{PIN}", OPEN_ACL_UNSAFE),
}


class HostileTest(SecuredTest):
    """Three ensembles; before each test, everything on them is made anew."""

    identities: tuple[tuple[str, str], ...] = ()  # what every client needs: none in the open form

    @classmethod
    def setUpClass(cls) -> None:
        if not hasattr(HostileTest, "cluster"):
            HostileTest.cluster = LocalCluster(3, 1, make_map=False)
            unittest.addModuleCleanup(HostileTest.cluster.stop)
            HostileTest.cluster.start()

    def setUp(self) -> None:
        self.hosts = {each.name: each.hosts for each in self.cluster.ensembles}
        identities = [OWNER, STRANGER, CLUSTER]
        self.masters = [self.kazoo(hosts, auth_data=identities) for hosts in self.hosts.values()]
        for master in self.masters:
            wipe(master)
        self.made = init_map(self.cluster.hosts, self.hosts, auth=self.identities, closed=bool(self.identities))
        self.placement = self.made.make_placement()
        self.owner = self.client(OWNER)
        self.intruders = [
            [self.kazoo(hosts, auth_data=auth) for hosts in self.hosts.values()] for auth in NOBODIES
        ]

    def client(self, *auth: tuple[str, str]) -> ParKazooClient:
        return self.parkazoo(self.cluster.hosts, auth_data=[*self.identities, *auth])

    # ---- what there is to break ------------------------------------------------------------------

    def fill(self) -> dict[str, str]:
        """Directories with and without mirrors and children; the name of the ACL by path."""
        made = {}
        for name, acl in ACLS.items():
            self.owner.create(f"/{name}", b"data", acl=acl)
            for number in range(DIRECTORIES):
                path = f"/{name}/{number}"
                for each in (path, f"{path}/kept", f"{path}/kept/deep", f"{path}/leaf"):
                    self.owner.create(each, b"data", acl=acl)
                    made[each] = name
                self.owner.create(f"{path}/n", b"data", acl=acl, sequence=True)
        kinds = {self.placement.is_native(path) for path in made}
        self.assertEqual(kinds, {True, False})
        return made

    def seen(self) -> dict[str, Any]:
        """Everything that the owner sees."""
        found: dict[str, Any] = {}
        paths = [f"/{name}" for name in ACLS]
        while paths:
            path = paths.pop()
            children = sorted(self.owner.get_children(path))
            found[path] = (*self.owner.get(path), self.owner.get_acls(path)[0], children)
            paths += [f"{path}/{child}" for child in children]
        return found

    def physical(self, ensemble: int) -> Iterator[str]:
        """The znodes of the owner on an ensemble, as its servers have them: homes, mirrors, pins."""
        master = self.masters[ensemble]
        paths = [f"/{name}" for name in ACLS if master.exists(f"/{name}")]
        paths += [f"{MIRRORS}/{name}" for name in master.get_children(MIRRORS)]
        while paths:
            path = paths.pop()
            yield path
            paths += [f"{path}/{child}" for child in master.get_children(path)]

    def directory(self, *, has_children: bool) -> str:
        """A private directory that needs a mirror; promoted and empty again unless it has children."""
        self.owner.ensure_path("/mine")
        names = (f"/mine/{number}" for number in range(100))
        path = next(path for path in names if not self.placement.is_native(path) and not self.owner.exists(path))
        self.owner.create(path, b"data", acl=ACLS["private"])
        if has_children:
            self.owner.create(f"{path}/child", b"data", acl=ACLS["private"])
        return path


class TestIntruders(HostileTest):
    def refuses(self, what: str, call: Callable[[], Any]) -> str:
        """What was done that should have been refused; empty if it was."""
        try:
            call()
        except (NoAuthError, NotEmptyError):
            return ""
        except Exception as error:
            return f"{what}: {error!r}"
        return f"{what} was done"

    def test_through_parkazoo(self) -> None:
        made = self.fill()
        before = self.seen()
        wrong = []
        for auth in NOBODIES:
            intruder = self.client(*auth)
            for path, acl in made.items():
                for name, attempt in (READS | WRITES).items():
                    if name in READS and acl == "readable":
                        attempt(intruder, path)
                    else:
                        wrong.append(self.refuses(f"{name} {path}", partial(attempt, intruder, path)))
        self.assertEqual([each for each in wrong if each], [])
        self.unharmed(before)

    def test_at_the_physical_paths(self) -> None:
        self.fill()
        before = self.seen()
        wrong, count = [], 0
        for ensemble in range(len(self.hosts)):
            for path in list(self.physical(ensemble)):
                acl = self.masters[ensemble].get_acls(path)[0]
                is_readable = any(perms & Permissions.READ for perms, who in acl if who == ANYONE_ID_UNSAFE)
                has_pin = self.masters[ensemble].exists(f"{path}/{PIN}") is not None
                attempts = WRITES | MAKE_PIN | (USE_PIN if has_pin else {}) | ({} if is_readable else READS)
                for clients in self.intruders:
                    for name, attempt in attempts.items():
                        count += 1
                        what = f"{name} {path} on {ensemble}"
                        wrong.append(self.refuses(what, partial(attempt, clients[ensemble], path)))
        self.assertGreater(count, 1000)
        self.assertEqual([each for each in wrong if each], [])
        self.unharmed(before)

    def unharmed(self, before: dict[str, Any]) -> None:
        """Data, stats, ACLs and children are what they were, and so is the next sequence number."""
        self.assertEqual(self.seen(), before)
        for name in ACLS:
            for number in range(DIRECTORIES):
                path = f"/{name}/{number}"
                next_number = self.owner.exists(path).cversion
                self.assertEqual(self.owner.create(f"{path}/n", sequence=True), f"{path}/n{next_number:010}")


class TestStructure(HostileTest):
    """What belongs to ParKazoo alone: the map, the fences, the mirrors' parent."""

    def harms(self) -> dict[str, Callable[[KazooClient], Any]]:
        """What an intruder may want to do there, on the ensemble that is named, with a plain client."""
        self.empty = self.directory(has_children=True)
        self.owner.delete(f"{self.empty}/child")
        self.unpromoted = self.directory(has_children=False)
        squat = f"{MIRRORS}/{escape(self.unpromoted)}"
        return {
            "send clients elsewhere": lambda client: client.set(MAP, b"x"),
            "take the map away": lambda client: client.delete(MAP),
            "make it another ensemble": lambda client: client.set(ENSEMBLE, b"x"),
            "turn a fence": lambda client: client.set(f"{FENCES}/0", b""),
            "take a fence away": lambda client: client.delete(f"{FENCES}/0"),
            "claim a delete was done": lambda client: client.create(f"{DONE}/x"),
            "squat a mirror": lambda client: client.create(squat, acl=OPEN_ACL_UNSAFE),
            "take an empty mirror away": lambda client: client.delete(f"{MIRRORS}/{escape(self.empty)}"),
            "lock all out": lambda client: client.set_acls(MIRRORS, ACLS["private"]),
        }

    def ensemble_of(self, harm: str) -> int:
        return {
            "squat a mirror": self.placement.of_children(self.unpromoted),
            "take an empty mirror away": self.placement.of_children(self.empty),
        }.get(harm, self.placement.bootstrap)


class TestOpen(TestStructure):
    """The open form is for users who trust everyone that can connect."""

    def test_anyone_can(self) -> None:
        for name, harm in self.harms().items():
            with self.subTest(name):
                harm(self.intruders[0][self.ensemble_of(name)])

    def test_what_comes_of_a_squatted_mirror(self) -> None:
        """The directory's children obey the intruder's ACL; what they hold themselves does not."""
        path = self.directory(has_children=False)
        mirror = where_is(self.placement, path).mirror
        intruder = self.intruders[0][mirror.ensemble]
        intruder.create(mirror.path, acl=OPEN_ACL_UNSAFE)
        self.owner.create(f"{path}/child", b"data", acl=ACLS["private"])
        self.assertEqual(intruder.get_children(mirror.path), ["child"])
        self.assertRaises(NoAuthError, intruder.get, f"{mirror.path}/child")
        intruder.delete(f"{mirror.path}/child")
        self.assertEqual(self.owner.get_children(path), [])

    def test_a_mirror_with_children_stays(self) -> None:
        path = self.directory(has_children=True)
        mirror = where_is(self.placement, path).mirror
        intruder = self.intruders[0][mirror.ensemble]
        self.assertRaises(NotEmptyError, intruder.delete, mirror.path)
        self.assertRaises(NoAuthError, intruder.set_acls, mirror.path, OPEN_ACL_UNSAFE)


class TestClosed(TestStructure):
    identities = (CLUSTER,)

    def test_no_one_can(self) -> None:
        for name, harm in self.harms().items():
            for intruder in self.intruders:
                with self.subTest(name):
                    self.assertRaises(NoAuthError, harm, intruder[self.ensemble_of(name)])
        self.owner.create(f"{self.empty}/again")
        self.owner.create(f"{self.unpromoted}/first")

    def test_clients_need_the_identity(self) -> None:
        client = self.parkazoo(self.cluster.hosts, start=False, auth_data=[OWNER])
        with self.assertRaisesRegex(ClusterMapError, "auth_data"):
            client.start(DEADLINE_S)


class TestIntrudersAndTheClosedForm(TestIntruders):
    identities = (CLUSTER,)
