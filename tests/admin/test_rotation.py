"""`map identity add` and `remove` without a server: each ACL that they change, interrupted, and two at once."""

from __future__ import annotations

import itertools
import unittest
from collections.abc import Callable, Iterator, Mapping, Sequence

from kazoo.security import ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, Id, Permissions

from parkazoo.admin.check import MapProblem, acls_of_structure, check_identities
from parkazoo.admin.clients import NoRightError
from parkazoo.admin.registrations import RegisteredClient
from parkazoo.admin.rotation import (
    WALKS_MOST,
    add_everywhere,
    describe_users,
    described,
    find_users,
    heirs_of,
    identity_in_acls,
    remove_everywhere,
)
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.placement import (
    CLIENTS,
    DEFERRED,
    DONE,
    ENSEMBLE,
    FENCES,
    HISTORY,
    MAP,
    MARKER,
    MIRRORS,
    PROBE,
    ROOT,
)
from parkazoo.protocol.shared_identity import shared_identities
from tests.fakes.acl_tree import ACLTree, Znodes

OLD, NEW, OTHER, ME = (
    identity_in_acls("digest", f"{name}:secret") for name in ("parkazoo", "parkazoo2", "other", "me")
)
ALL = Permissions.ALL
FENCE_NAMES = [f"{FENCES}/{number}" for number in range(70)]  # more than are asked at once, twice
PARTS = [ROOT, MAP, ENSEMBLE, CLIENTS, MIRRORS, FENCES, DONE, *FENCE_NAMES]


def closed(*identities: Id) -> list[ACL]:
    return [ACL(ALL, each) for each in identities]


THEIRS = {  # of clients: none of it is the command's
    f"{MIRRORS}/%2Fapp": [ACL(ALL, ME)],
    f"{MIRRORS}/%2Fapp/child": [ACL(ALL, OLD), ACL(ALL, ME)],
    f"{CLIENTS}/0x1": [ACL(ALL, OLD), ACL(ALL, ME), *READ_ACL_UNSAFE],
    f"{DONE}/mark": READ_ACL_UNSAFE,
    f"{ROOT}/{MARKER}0x1-1": [ACL(ALL, OLD)],
    f"{ROOT}/{PROBE}1": OPEN_ACL_UNSAFE,
}


def ensemble(*shared: Id, changed: Callable[[str], None] = lambda path: None) -> Znodes:
    return Znodes({**{path: closed(*shared) for path in PARTS}, **THEIRS}, changed)


def at_set(moment: int, do: Callable[[], None]) -> Callable[[str], None]:
    """Make a `before_set` that calls `do` before the change of that number, from 0."""
    calls = itertools.count()

    def before_set(path: str) -> None:
        if next(calls) == moment:
            do()

    return before_set


def interrupt() -> None:
    raise KeyboardInterrupt


class Rotation(unittest.TestCase):
    """Two ensembles; at each moment the identities of `working` have all rights on the structure of each."""

    def setUp(self) -> None:
        self.working: set[Id] = {OLD}
        self.said: list[str] = []
        self.znodes = [ensemble(OLD, changed=self.verify), ensemble(OLD, changed=self.verify)]
        self.znodes[0].acls[HISTORY] = self.znodes[0].acls[MAP]

    def verify(self, path: str) -> None:
        if path in PARTS or path in (DEFERRED, HISTORY):
            for each in self.znodes:
                if path in each.acls:
                    self.assertLessEqual(self.working, shared_identities(each.acl(path)), path)

    def trees(self, *identities: Id, before_set: Callable[[str], None] = lambda path: None) -> list[ACLTree]:
        return [ACLTree(name, each, identities, before_set) for name, each in zip("ab", self.znodes, strict=True)]

    def add(self, identity: Id, trees: Sequence[ACLTree], dry_run: bool = False) -> None:
        add_everywhere(trees, identity, self.said.append, lambda name, looked_at, changed: None, dry_run)

    def remove(self, identity: Id, trees: Sequence[ACLTree], dry_run: bool = False) -> None:
        remove_everywhere(trees, identity, self.said.append, lambda name, looked_at, changed: None, dry_run)

    def assert_rehearsed(self, command: Callable[..., None], identity: Id) -> None:
        """A dry run tells what the command then does, and changes nothing."""
        before = [{**each.acls} for each in self.znodes]
        dry = self.trees(OLD, NEW)
        command(identity, dry, dry_run=True)
        self.assertEqual([each.acls for each in self.znodes], before)
        self.assertEqual([each.sets for each in dry], [0, 0])
        told = [each.replace("would be ", "") for each in self.said]
        self.assertGreater(len(told), 1)
        self.assertNotIn(told[0], self.said)
        self.said.clear()
        command(identity, self.trees(OLD, NEW))
        self.assertEqual(self.said, told)

    def assert_closed_to(self, *identities: Id) -> None:
        for each in self.znodes:
            for path in (*PARTS, DEFERRED):
                self.assertEqual({*each.acl(path)}, {*closed(*identities)}, path)
            for path, acl in THEIRS.items():
                self.assertEqual(each.acl(path), acl, path)
        self.assertEqual({*self.znodes[0].acl(HISTORY)}, {*closed(*identities)})

    def rotated(self) -> None:
        self.add(NEW, self.trees(OLD, NEW))
        self.working = {OLD, NEW}


class TestAdd(Rotation):
    def test_all_of_the_structure(self) -> None:
        self.add(NEW, self.trees(OLD))
        self.assert_closed_to(OLD, NEW)
        told = [
            f"ensemble a: given to {len(PARTS) + 1:,} of 79 znodes",
            f"ensemble b: given to {len(PARTS):,} of 78 znodes",
        ]
        self.assertEqual(self.said, told)

    def test_again(self) -> None:
        self.rotated()
        self.said.clear()
        again = self.trees(NEW)
        self.add(NEW, again)
        self.assertEqual((self.said, [each.sets for each in again]), ([], [0, 0]))

    def test_dry_run(self) -> None:
        for each in self.znodes:
            each.acls[DEFERRED] = each.acls[MAP]
        self.assert_rehearsed(self.add, NEW)

    def test_a_third(self) -> None:
        self.rotated()
        self.add(OTHER, self.trees(NEW))
        self.assert_closed_to(OLD, NEW, OTHER)

    def test_interrupted_anywhere(self) -> None:
        for moment in itertools.count(1, 3):
            self.setUp()
            before_set = at_set(moment, interrupt)

            try:
                self.add(NEW, self.trees(OLD, before_set=before_set))
                break
            except KeyboardInterrupt:
                self.add(NEW, self.trees(OLD))
            self.assert_closed_to(OLD, NEW)
        self.assertGreaterEqual(moment, 2 * len(PARTS))

    def test_map_check_sees_each_interruption(self) -> None:
        """Also one among the last fences of the last ensemble."""
        for moment in range(1, 2 * len(PARTS)):
            self.setUp()
            calls = itertools.count()

            def before_set(path: str, calls: Iterator[int] = calls, moment: int = moment) -> None:
                if next(calls) == moment:
                    raise KeyboardInterrupt

            self.assertEqual(self.findings(), [])
            self.assertRaises(KeyboardInterrupt, self.add, NEW, self.trees(OLD, before_set=before_set))
            (found,) = self.findings()
            self.assertEqual((found.ensemble, found.is_warning), ("b", True))
        self.assertRegex(found.problem, f"^not the same identities as elsewhere may use {FENCES}/")
        self.working = set()
        self.znodes[1].set(FENCE_NAMES[-1], OPEN_ACL_UNSAFE)  # as a client makes one
        self.add(NEW, self.trees(OLD))
        self.assertEqual(self.findings(), [])

    def findings(self) -> list[MapProblem]:
        acls = {each.name: dict(acls_of_structure(each, PARTS)) for each in self.trees(OLD, NEW)}
        return [*check_identities(acls, "a")]

    def test_twice_at_once(self) -> None:
        """At each change of one, the other does all of its work."""
        for moment in range(0, 2 * len(PARTS), 7):
            self.setUp()
            before_set = at_set(moment, lambda: self.add(NEW, self.trees(OLD)))

            self.add(NEW, self.trees(OLD, before_set=before_set))
            self.assert_closed_to(OLD, NEW)

    def test_another_identity_at_once(self) -> None:
        for moment in range(0, 2 * len(PARTS), 7):
            self.setUp()
            before_set = at_set(moment, lambda: self.add(OTHER, self.trees(OLD)))

            self.add(NEW, self.trees(OLD, before_set=before_set))
            self.assert_closed_to(OLD, NEW, OTHER)

    def test_what_is_made_behind_the_walk(self) -> None:
        """A command that has read the ACL before makes a fence when the first walk is past it."""
        made = list[str]()

        def before_set(path: str) -> None:
            if path == FENCE_NAMES[-1] and not made:
                made.append(f"{FENCES}/1000")
                self.znodes[0].set(made[0], closed(OLD))

        self.add(NEW, self.trees(OLD, before_set=before_set))
        self.assertEqual(self.znodes[0].acl(made[0]), closed(OLD, NEW))

    def test_the_folder_of_markers_comes_too_late(self) -> None:
        """A client that has read the ACL of /parkazoo before cannot make it with that any more."""
        self.add(NEW, self.trees(OLD))
        self.trees(OLD)[0].make(DEFERRED, closed(OLD))
        self.assert_closed_to(OLD, NEW)

    def test_clients_that_make_markers_do_not_keep_it_from_its_end(self) -> None:
        numbers = itertools.count()

        def before_set(path: str) -> None:
            self.znodes[0].set(f"{DEFERRED}/{next(numbers)}", [ACL(ALL, OLD), ACL(ALL, ME)])

        self.add(NEW, self.trees(OLD, before_set=before_set))
        self.assertEqual(self.znodes[0].acl(f"{DEFERRED}/0"), [ACL(ALL, OLD), ACL(ALL, ME)])

    def test_a_fence_that_a_client_made_stays_open(self) -> None:
        self.znodes[0].acls[FENCE_NAMES[3]] = self.znodes[0].acls[f"{ROOT}/{PROBE}1"]
        self.working = set()
        self.add(NEW, self.trees(OLD))
        self.assertEqual(self.znodes[0].acl(FENCE_NAMES[3]), OPEN_ACL_UNSAFE)

    def test_open_cluster(self) -> None:
        self.znodes = [Znodes(dict.fromkeys(PARTS, OPEN_ACL_UNSAFE))] * 2
        for command in (self.add, self.remove):
            with self.assertRaisesRegex(ClusterMapError, "^/parkazoo is open to all"):
                command(NEW, self.trees(OLD))

    def test_ensemble_with_other_identities(self) -> None:
        self.working = set()
        self.znodes[1] = ensemble(OTHER)
        self.assertRaises(NoRightError, self.add, NEW, self.trees(OLD))
        with self.assertRaisesRegex(ClusterMapError, "on ensemble b is not closed to the identities"):
            self.add(NEW, self.trees(OLD, OTHER))

    def test_without_the_right_to_administer(self) -> None:
        self.working = set()
        acl = [*closed(OLD), ACL(Permissions.READ, ME)]
        self.znodes = [Znodes(dict.fromkeys(PARTS, acl))] * 2
        with self.assertRaisesRegex(NoRightError, "no right to change the ACL of /parkazoo on ensemble a"):
            self.add(NEW, self.trees(ME))
        self.assertEqual(self.znodes[0].acl(ROOT), acl)

    def test_somebody_takes_it_away_each_time(self) -> None:
        trees = [Stubborn("a", self.znodes[0], [OLD]), *self.trees(OLD)[1:]]
        with self.assertRaisesRegex(ClusterMapError, "somebody else changes the same ACLs"):
            self.add(NEW, trees)
        self.assertGreaterEqual(trees[0].sets, WALKS_MOST)


class Stubborn(ACLTree):
    def catch_up(self) -> None:
        self.znodes.set(MAP, closed(OLD))


class TestRemove(Rotation):
    def setUp(self) -> None:
        super().setUp()
        self.rotated()
        self.said.clear()
        self.working = {NEW}

    def test_all_of_the_structure(self) -> None:
        self.remove(OLD, self.trees(OLD, NEW))
        self.assert_closed_to(NEW)
        self.assertEqual(self.said[0], "ensemble a: taken off /parkazoo")

    def test_again(self) -> None:
        self.remove(OLD, self.trees(NEW))
        self.said.clear()
        again = self.trees(NEW)
        self.remove(OLD, again)
        self.assertEqual((self.said, [each.sets for each in again]), ([], [0, 0]))

    def test_interrupted_anywhere(self) -> None:
        for moment in range(0, 2 * len(PARTS), 3):
            self.setUp()
            before_set = at_set(moment, interrupt)

            self.assertRaises(KeyboardInterrupt, self.remove, OLD, self.trees(NEW, before_set=before_set))
            self.remove(OLD, self.trees(NEW))
            self.assert_closed_to(NEW)

    def test_twice_at_once(self) -> None:
        for moment in range(0, 2 * len(PARTS), 7):
            self.setUp()
            before_set = at_set(moment, lambda: self.remove(OLD, self.trees(NEW)))

            self.remove(OLD, self.trees(NEW, before_set=before_set))
            self.assert_closed_to(NEW)

    def test_the_last_two_at_once(self) -> None:
        """Each finds the other one there; the first that writes decides."""
        self.working = set()
        before_set = at_set(0, lambda: self.remove(NEW, self.trees(OLD)))

        with self.assertRaisesRegex(ClusterMapError, "^digest:parkazoo is the last identity of the cluster"):
            self.remove(OLD, self.trees(NEW, OLD, before_set=before_set))
        self.assert_closed_to(OLD)

    def test_the_last(self) -> None:
        self.remove(OLD, self.trees(NEW))
        with self.assertRaisesRegex(ClusterMapError, "^digest:parkazoo2 is the last identity of the cluster"):
            self.remove(NEW, self.trees(NEW))
        self.assert_closed_to(NEW)
        self.assertEqual(heirs_of(closed(OLD, NEW), OLD), {NEW})

    def test_two_of_three_at_once(self) -> None:
        """The slower one still takes for one that stays whom the other removes; nothing is left to that one."""
        for moment in range(0, 2 * len(PARTS), 29):
            for lacks in (None, OTHER, OLD):
                self.setUp()
                self.add(OTHER, self.trees(NEW))
                self.working = set() if lacks else {OTHER}
                if lacks:  # an add that was interrupted
                    for path in FENCE_NAMES:
                        for each in self.znodes:
                            each.set(path, [entry for entry in each.acl(path) if entry.id not in (lacks, OTHER)])
                before_set = at_set(moment, lambda: self.remove(OLD, self.trees(OLD, NEW, OTHER)))

                self.remove(NEW, self.trees(OLD, NEW, OTHER, before_set=before_set))
                self.assert_closed_to(OTHER)

    def test_dry_run(self) -> None:
        self.assert_rehearsed(self.remove, OLD)

    def test_what_add_has_not_reached(self) -> None:
        """The rights are passed on in one step, so the cluster is not shut."""
        self.znodes[1] = ensemble(OLD)
        self.znodes[1].acls[DEFERRED] = self.znodes[1].acls[MAP]
        self.working = set()
        self.remove(OLD, self.trees(OLD, NEW))
        self.assert_closed_to(NEW)

    def test_markers_of_clients_that_are_gone(self) -> None:
        marker, new, foreign = (f"{DEFERRED}/{number}" for number in range(3))
        self.znodes[0].set(marker, closed(OLD, ME))
        self.znodes[0].set(new, closed(NEW, ME))
        self.remove(OLD, self.trees(OLD, NEW))
        self.assertEqual(self.znodes[0].acl(marker), closed(ME, NEW))
        self.assertEqual(self.znodes[0].acl(new), closed(NEW, ME))
        self.assertFalse(any("markers" in each for each in self.said), self.said)
        self.znodes[0].set(foreign, closed(OTHER))
        self.remove(OLD, self.trees(NEW))
        self.assertRegex(self.said[-1], "^ensemble a: 1 markers below /parkazoo/deferred may not be changed")

    def test_what_clients_make_does_not_keep_it_from_its_end(self) -> None:
        numbers = itertools.count()

        def before_set(path: str) -> None:
            self.znodes[0].set(f"{DEFERRED}/{next(numbers)}", closed(OLD, NEW))

        self.remove(OLD, self.trees(OLD, NEW, before_set=before_set))
        self.assert_closed_to(NEW)


class TestUsers(unittest.TestCase):
    REGISTRATIONS: Mapping[str, Sequence[ACL] | None] = {
        "old": [*closed(OLD, ME), *READ_ACL_UNSAFE],
        "both": [*closed(OLD, NEW), *READ_ACL_UNSAFE],
        "new": [*closed(NEW), *READ_ACL_UNSAFE],
        "silent": OPEN_ACL_UNSAFE,
        "unreadable": None,
    }

    def client(self, name: str, *sessions: str) -> RegisteredClient:
        return RegisteredClient(name, "host", 1, "1", 1, "now", {f"on-{each}": each for each in sessions})

    def test_by_registration(self) -> None:
        clients = [self.client(name, name) for name in self.REGISTRATIONS]
        acls = {(f"on-{name}", name): acl for name, acl in self.REGISTRATIONS.items()}
        users = find_users(clients, acls, OLD)
        self.assertEqual([each.client for each in users.using], ["old", "both"])
        self.assertEqual([each.client for each in users.unseen], ["silent", "unreadable"])
        about = describe_users(users, OLD)
        self.assertRegex(about, "(?s)2 clients with digest:parkazoo, .*2 clients without auth_data")
        self.assertNotIn(OLD.id, about)

    def test_each_session_counts(self) -> None:
        acls = {(f"on-{name}", name): acl for name, acl in self.REGISTRATIONS.items()}
        users = find_users([self.client("1", "silent", "old"), self.client("2", "new", "silent")], acls, OLD)
        self.assertEqual([each.client for each in users.using], ["1"])
        self.assertEqual([each.client for each in users.unseen], ["2"])

    def test_nobody(self) -> None:
        users = find_users(
            [self.client("1", "ended"), self.client("2", "new")], {("on-new", "new"): closed(NEW)}, OLD
        )
        self.assertEqual((users.using, users.unseen), ([], []))
        self.assertEqual(describe_users(users, OLD), "")


class TestArgument(unittest.TestCase):
    def test_identities(self) -> None:
        digest = identity_in_acls("digest", "super:test:word")
        self.assertEqual((digest.scheme, digest.id.partition(":")[0]), ("digest", "super"))
        self.assertEqual(described(digest), "digest:super")
        self.assertEqual(described(identity_in_acls("x509", "CN=a,O=b")), "x509:CN=a,O=b")

    def test_refused(self) -> None:
        for scheme, credential in (
            ("digest", "me"),
            ("digest", ":x"),
            ("world", "anyone"),
            ("x509", ""),
            ("parkazoo", "hush"),
            ("", ""),
        ):
            with self.subTest(scheme), self.assertRaises(ClusterMapError) as caught:
                identity_in_acls(scheme, credential)
            self.assertNotIn(f"{credential!r}", str(caught.exception))
