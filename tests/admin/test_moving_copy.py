"""Copies of a directory's children: made while others change them, exact in the end, and taken back."""

from __future__ import annotations

import math
import random
import unittest
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from unittest import mock

from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError, QuotaExceededError, RolledBackError
from kazoo.security import ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, Id, Permissions, make_digest_acl

from parkazoo.admin.clients import NoRightError, UnreadableError
from parkazoo.admin.moving.carried import SeenZnode, Tree, differences, digest_of, plan
from parkazoo.admin.moving.copying import Both, MovingCopy, NotExactError, is_sealed
from parkazoo.admin.moving.multi_read import MultiRead
from parkazoo.admin.moving.place import ImmovableError, TreePlace, look
from parkazoo.admin.moving.taking_back import delete_place, end_guard, remove_copy
from parkazoo.admin.moving.term_writes import TakenOverError
from parkazoo.kazoo_private import CheckVersion, Create, Delete, GetACL, SetACL, SetData
from parkazoo.protocol.moving import MOVES, guard, opening
from parkazoo.protocol.placement import CLIENTS, FENCES, MIRRORS
from parkazoo.protocol.registration import encode_registration, registration_path
from tests.explore.znodes import EPHEMERAL, SEQUENCE, Who, Znode
from tests.fakes.ensemble import FakeAdminClient, FakeEnsemble

OLD, NEW, MOVE = f"{MIRRORS}/%2Fd", f"{MIRRORS}/%2Fd~u1", "u1"
OURS = "/parkazoo", MIRRORS, FENCES, CLIENTS, MOVES
ACLS = OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, [make_digest_acl("joe", "secret", all=True)]
SESSIONS = {101: (11, 21), 102: (12, 22), 103: (13, 23)}  # of a client, on both ensembles
DATA = b"", None, b"x", b"y"
NAMES = "/n", "/o", "/p", "/.parkazoo", "/\u00e4 %2F~."
CASES = 150
CHILD = "/child"


class MovingCase(unittest.TestCase):
    """Two ensembles: the children of /d are on the first, and the second gets a copy."""

    def setUp(self) -> None:
        self.begin(random.Random(1))
        patched = mock.patch("parkazoo.admin.clients.AGAIN_S", 0.0)
        patched.start()
        self.addCleanup(patched.stop)

    def begin(self, chance: random.Random) -> None:
        self.chance = chance
        self.a, self.b = FakeEnsemble(chance, *OURS), FakeEnsemble(chance, *OURS)
        for client, sessions in SESSIONS.items():
            for ensemble, session in zip((self.a, self.b), sessions, strict=True):
                registration = Create(
                    registration_path(session), encode_registration(client, {}), OPEN_ACL_UNSAFE, EPHEMERAL
                )
                ensemble.write(registration, session=session)
        self.a.write(Create(OLD, b"", OPEN_ACL_UNSAFE, 0))
        self.old = TreePlace(FakeAdminClient(self.a, "a"), OLD)
        self.new = TreePlace(FakeAdminClient(self.b, "b"), NEW)

    def make(self, name: str, data: bytes | None = b"", sets: int = 0, acl: Any = OPEN_ACL_UNSAFE) -> None:
        self.a.write(Create(OLD + name, data, acl, 0))
        for _ in range(sets):
            self.a.write(SetData(OLD + name, data, -1))

    def content(self, ensemble: FakeEnsemble, top: str) -> dict[str, tuple[Any, ...]]:
        """All that is carried of each znode, by its path below the place."""
        return {
            path[len(top) :]: self.carried(znode, path == top)
            for path, znode in ensemble.znodes.items()
            if path == top or path.startswith(f"{top}/")
        }

    def carried(self, znode: Znode, is_top: bool) -> tuple[Any, ...]:
        always = znode.acl, znode.created, znode.children
        owner = next((client for client, sessions in SESSIONS.items() if znode.owner in sessions), znode.owner)
        return always if is_top else (*always, znode.data, znode.version, znode.aversion, owner)

    def is_exact(self) -> None:
        self.assertEqual(self.content(self.b, NEW), self.content(self.a, OLD))
        self.assertEqual(differences(look(self.old), look(self.new)), {})


class TestHistories(MovingCase):
    """Random histories of the original, before the copy, while it is made, and between its steps."""

    def test_it_is_exact_whatever_happens(self) -> None:
        exact = 0
        for seed in range(CASES):
            with self.subTest(seed=seed):
                self.begin(random.Random(seed))
                exact += self.history()
        self.assertGreater(exact, CASES // 2)

    def history(self) -> bool:
        """Whether it came to an exact copy."""
        self.happen(self.chance.randrange(60))
        self.a.between = lambda: self.happen(self.chance.choice((0, 1, 3)))
        self.a.lost = self.b.lost = lost = self.chance.choice((0.0, 0.02))
        self.b.has_multi_read = self.chance.random() < 0.5
        copy = self.begun()
        before = Both()
        for _ in range(self.chance.randrange(3)):
            with suppress(NotExactError):  # connections that are lost again and again
                before = copy.bring(self.old, before)
            self.happen(self.chance.choice((0, 2, 10, 40)))
        if self.chance.random() < 0.3:
            again = self.patiently(lambda: MovingCopy.take_over(self.new, MOVE))
            assert again is not None
            copy = again
        self.a.between = lambda: None
        self.a.lost = self.b.lost = 0.0
        self.owners_copy(self.chance.choice((0.5, 1.0, 1.0)))
        try:
            copy.make_exact(self.old, before)
        except NotExactError as error:
            has_owners = any(znode.owner for path, znode in self.a.znodes.items() if path.startswith(OLD))
            if not lost or "earlier life" not in str(error):  # a create whose answer was lost is of no known life
                self.assertIn("ephemerals have no copy", str(error))
                self.assertTrue(has_owners)
            return False
        self.is_exact()
        self.assertNotIn(opening(MOVE), self.b.znodes)
        self.assertTrue(copy.seal())
        self.assertTrue(is_sealed(self.new))
        self.is_exact()
        for path, znode in self.b.znodes.items():  # the seal is behind all that was copied
            if path.startswith(NEW):
                self.assertLessEqual(max(znode.czxid, znode.mzxid), self.b.znodes[NEW].mzxid)
        return True

    def begun(self) -> MovingCopy:
        self.b.lost = 0.0
        return MovingCopy.begin(self.new, MOVE, OPEN_ACL_UNSAFE)

    def patiently(self, step: Any) -> Any:
        while True:
            with suppress(UnreadableError):
                return step()

    def owners_copy(self, share: float) -> None:
        for path, znode in list(self.a.znodes.items()):
            if znode.owner and path.startswith(OLD) and self.chance.random() < share:
                (session,) = (there for here, there in SESSIONS.values() if here == znode.owner)
                ephemeral = Create(NEW + path[len(OLD) :], znode.data, znode.acl, EPHEMERAL)
                with suppress(
                    NoNodeError, NodeExistsError
                ):  # its directory has no copy yet, or its path an older one
                    self.b.write(CheckVersion(opening(MOVE), -1), ephemeral, session=session)

    def happen(self, times: int) -> None:
        for _ in range(times):
            with suppress(KazooException):
                self.a.write(*self.change(), session=self.chance.choice([*SESSIONS.values()])[0])

    def change(self) -> list[Any]:
        """Writes of somebody."""
        path = self.chance.choice([each for each in self.a.znodes if each.startswith(OLD)])
        what = self.chance.random()
        if what < 0.35:
            return [
                self.creation(path + self.chance.choice(NAMES), self.chance.choice((0, 0, 0, SEQUENCE, EPHEMERAL)))
            ]
        if what < 0.6:
            return [SetData(path, self.chance.choice(DATA), -1)]
        if what < 0.75:
            return [SetACL(path, self.chance.choice(ACLS), -1)]
        if path == OLD:
            return [Delete(f"{OLD}/n", -1)]
        if what < 0.9:  # a life after that
            below = [each for each in self.a.znodes if each.startswith(f"{path}/")]
            again = [self.creation(path), *([self.creation(f"{path}/n")] if below else [])]
            return [*(Delete(each, -1) for each in sorted((path, *below), key=len, reverse=True)), *again]
        return [Delete(path, -1)]

    def creation(self, path: str, flags: int = 0) -> Create:
        return Create(path, self.chance.choice(DATA), self.chance.choice(ACLS), flags)


class TestCopy(MovingCase):
    def test_as_much_changes_in_each_pass(self) -> None:
        """More passes would bring no more."""
        for number in range(300):
            self.make(f"/{number}")
        real, passes = MovingCopy._carry_out, list[int]()

        def carry_out(copy: MovingCopy, planned: Any, *arguments: Any) -> bool:
            passes.append(len(planned))
            for number in range(200):
                self.a.write(SetData(f"{OLD}/{number}", b"more", -1))
            return real(copy, planned, *arguments)

        copy = MovingCopy.begin(self.new, MOVE, OPEN_ACL_UNSAFE)
        with mock.patch.object(MovingCopy, "_carry_out", carry_out):
            before = copy.bring(self.old)
        self.assertEqual(passes, [300, 200])
        copy.make_exact(self.old, before)
        self.is_exact()

    def test_what_was_written_is_not_asked(self) -> None:
        """Each original has a request for its ACL; copies have one only if their owners have made them."""
        for number in range(50):
            self.make(f"/{number}", sets=number % 2, acl=ACLS[number % 3])
        self.a.write(SetACL(f"{OLD}/7", READ_ACL_UNSAFE, -1))
        self.a.write(Create(f"{OLD}/e", b"", OPEN_ACL_UNSAFE, EPHEMERAL), session=SESSIONS[101][0])
        copy = MovingCopy.begin(self.new, MOVE, OPEN_ACL_UNSAFE)
        before = copy.bring(self.old)
        self.b.write(Create(f"{NEW}/e", b"", OPEN_ACL_UNSAFE, EPHEMERAL), session=SESSIONS[101][1])
        copy.make_exact(self.old, before)
        asked = [Counter(each.path for each in at.requests if isinstance(each, GetACL)) for at in (self.a, self.b)]
        self.assertEqual((sum(asked[0].values()), len(asked[0])), (52, 52))
        self.assertLessEqual(asked[1].keys(), {NEW, f"{NEW}/e"})
        self.is_exact()

    def test_what_is_there_already_is_not_made_again(self) -> None:
        for number in range(30):
            self.make(f"/n{number}", b"data", sets=number)
        MovingCopy.begin(self.new, MOVE, OPEN_ACL_UNSAFE).bring(self.old)
        self.b.requests.clear()
        told: list[tuple[int, int]] = []
        copy = MovingCopy.take_over(self.new, MOVE)
        assert copy is not None
        self.make("/another")
        copy.bring(self.old, progress=lambda done, total: told.append((done, total)))
        writes = [each for each in self.b.requests if hasattr(each, "operations")]
        self.assertEqual(len(writes), 2)  # the term; one znode
        self.assertEqual(told[-1], (1, 1))
        self.is_exact()

    def test_a_counter_a_version_and_an_aversion_are_raised(self) -> None:
        self.make(CHILD, b"last", sets=2500)
        for _ in range(1200):
            self.a.write(Create(f"{OLD}{CHILD}/s", b"", OPEN_ACL_UNSAFE, 0), Delete(f"{OLD}{CHILD}/s", -1))
        for _ in range(7):
            self.a.write(SetACL(OLD + CHILD, READ_ACL_UNSAFE, -1))
        copy = MovingCopy.begin(self.new, MOVE, OPEN_ACL_UNSAFE)
        copy.bring(self.old, per_second=1_000_000)
        self.is_exact()
        self.assertLess(max(len(each.operations) for each in self.b.requests if hasattr(each, "operations")), 1100)

    def test_counters_leave_room_for_ephemerals(self) -> None:
        self.a.write(Create(f"{OLD}/e", b"", OPEN_ACL_UNSAFE, EPHEMERAL), session=11)
        copy = MovingCopy.begin(self.new, MOVE, OPEN_ACL_UNSAFE)
        before = copy.bring(self.old)
        self.b.write(Create(f"{NEW}/e", b"", OPEN_ACL_UNSAFE, EPHEMERAL), session=21)
        copy.make_exact(self.old, before)
        self.is_exact()

    def test_an_ephemeral_without_a_copy_of_its_owner(self) -> None:
        self.a.write(Create(f"{OLD}/e", b"", OPEN_ACL_UNSAFE, EPHEMERAL), session=11)
        copy = MovingCopy.begin(self.new, MOVE, OPEN_ACL_UNSAFE)
        for session in (None, 22):  # nobody's, another's
            if session:
                self.b.write(Create(f"{NEW}/e", b"", OPEN_ACL_UNSAFE, EPHEMERAL), session=session)
            with self.assertRaisesRegex(NotExactError, "1 ephemerals have no copy of their owner, .* /e"):
                copy.make_exact(self.old, Both())

    def test_an_earlier_life_of_the_directory(self) -> None:
        self.make(CHILD)
        self.make("/other")
        copy = MovingCopy.begin(self.new, MOVE, OPEN_ACL_UNSAFE)
        before = copy.bring(self.old)
        self.a.write(Delete(OLD + CHILD, -1), Delete(f"{OLD}/other", -1), Delete(OLD, -1))
        self.a.write(Create(OLD, b"", OPEN_ACL_UNSAFE, 0), Create(OLD + CHILD, b"", OPEN_ACL_UNSAFE, 0))
        for step in (lambda: copy.bring(self.old), lambda: copy.make_exact(self.old, before)):
            with self.assertRaisesRegex(NotExactError, "earlier life"):
                step()

    def test_pin_and_proof_of_a_native_directory_stay(self) -> None:
        self.make("/.parkazoo")
        self.make("/.parkazoo.native")
        self.make("/child")
        self.make("/child/.parkazoo")
        native = TreePlace(self.old.client, OLD, frozenset({".parkazoo", ".parkazoo.native"}))
        copy = MovingCopy.begin(self.new, MOVE, OPEN_ACL_UNSAFE)
        copy.make_exact(native, Both())
        self.assertEqual([*look(self.new)], ["", "/child", "/child/.parkazoo"])
        self.assertEqual(self.b.znodes[NEW].created, 3)  # numbers do not come again
        self.assertTrue(delete_place(native, None))
        self.assertEqual([*look(self.old)], ["", "/.parkazoo", "/.parkazoo.native"])

    def test_it_was_taken_back(self) -> None:
        self.make(CHILD)
        copy = MovingCopy.begin(self.new, MOVE, OPEN_ACL_UNSAFE)
        end_guard(self.new.client, MOVE)
        for step in (lambda: copy.bring(self.old), lambda: copy.make_exact(self.old, Both())):
            with self.assertRaises(TakenOverError):
                step()
        self.assertFalse(copy.seal())
        self.assertIsNone(MovingCopy.take_over(self.new, MOVE))
        remove_copy(self.new, MOVE)
        remove_copy(self.new, MOVE)
        self.assertEqual([each for each in self.b.znodes if "u1" in each], [])
        with self.assertRaises(TakenOverError):
            copy.bring(self.old)

    def test_a_term_ends_with_the_next(self) -> None:
        self.make(CHILD)
        copy = MovingCopy.begin(self.new, MOVE, OPEN_ACL_UNSAFE)
        later = MovingCopy.take_over(self.new, MOVE)
        assert later is not None
        for step in (lambda: copy.bring(self.old), copy.seal):
            with self.assertRaises(TakenOverError):
                step()
        later.make_exact(self.old, Both())
        self.assertTrue(later.seal())

    def test_nobody_takes_over_while_the_other_session_lives(self) -> None:
        copy = MovingCopy.begin(self.new, MOVE, OPEN_ACL_UNSAFE)
        other = TreePlace(FakeAdminClient(self.b, "b", session=2), NEW)
        with self.assertRaisesRegex(TakenOverError, "0x1"):
            MovingCopy.take_over(other, MOVE)
        self.b.write(Delete(f"{guard(MOVE)}.term", -1))  # as the end of the session does
        self.make(CHILD)
        with self.assertRaises(TakenOverError):
            copy.bring(self.old)
        later = MovingCopy.take_over(other, MOVE)
        assert later is not None
        later.bring(self.old)
        self.is_exact()

    def test_large_data_goes_in_small_parts(self) -> None:
        for number in range(6):
            self.make(f"/n{number}", b"x" * 300_000)
        copy = MovingCopy.begin(self.new, MOVE, OPEN_ACL_UNSAFE)
        self.b.most_bytes = 350_000
        copy.bring(self.old)
        self.assertEqual(
            [len(each.operations) for each in self.b.requests if hasattr(each, "operations")], [4] + [3] * 6
        )
        self.is_exact()

    def test_data_that_is_too_large_there(self) -> None:
        self.make(CHILD, b"x" * 700_000)
        copy = MovingCopy.begin(self.new, MOVE, OPEN_ACL_UNSAFE)
        self.b.most_bytes = 600_000
        with self.assertRaisesRegex(ImmovableError, rf"does not take {NEW}/child .*jute.maxbuffer"):
            copy.bring(self.old)

    def test_a_quota_there(self) -> None:
        self.make(CHILD)
        copy = MovingCopy.begin(self.new, MOVE, OPEN_ACL_UNSAFE)
        with (
            mock.patch.object(
                self.b, "_commit", lambda request, *others: [RolledBackError()] * 2 + [QuotaExceededError()]
            ),
            self.assertRaisesRegex(UnreadableError, "/child on ensemble b.*QuotaExceeded"),
        ):
            copy.bring(self.old)


class TestPlan(unittest.TestCase):
    """Znodes that went and came again, which no copy of the earlier life can become."""

    def planned(self, original: Tree, copy: Tree, **how: Any) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Deletes; of each change path, whether it is made, sets, pairs, sets of the ACL."""
        found = plan(original, copy, **{"is_last": True, **how})
        self.assertEqual(found.why_not, "")
        return found.deletes, [
            (each.path, each.there is None, each.sets, each.pairs, len(each.acl_sets)) for each in found.changes
        ]

    def test_it_cannot_be_raised(self) -> None:
        top = seen(creates=9)
        original = {"": top, "/d": seen(b"new", version=2, aversion=1, creates=1), "/d/c": seen()}
        for there in (
            seen(b"old", version=2, aversion=1, creates=1),
            seen(b"new", version=3, aversion=1, creates=1),
            seen(b"new", version=2, aversion=1, creates=1, acl=READ_ACL_UNSAFE),
            seen(b"new", version=2, aversion=2, creates=1),
            seen(b"new", version=2, aversion=1, creates=2),
            seen(b"new", version=2, aversion=1, creates=1, owner=5),
        ):
            copy = {"": seen(creates=3), "/d": there, "/d/c": seen()}
            self.assertEqual(
                self.planned(original, copy),
                (["/d/c", "/d"], [("", False, 0, 5, 0), ("/d", True, 2, 0, 1), ("/d/c", True, 0, 0, 0)]),
            )

    def test_it_has_no_room_for_a_child(self) -> None:
        original = {"": seen(creates=2), "/d": seen(creates=1), "/d/new": seen()}
        copy = {"": seen(creates=1), "/d": seen(creates=1), "/d/old": seen()}
        made = ("/d/new", True, 0, 0, 0)
        self.assertEqual(self.planned(original, copy), (["/d/old", "/d"], [("/d", True, 0, 0, 0), made]))
        # While others change the original, its directory may be older than its list of children.
        self.assertEqual(self.planned(original, copy, is_last=False), (["/d/old"], [("", False, 0, 1, 0), made]))

    def test_it_is_equal_and_another(self) -> None:
        tree = {"": seen(creates=2), "/d": seen()}
        copy = {"": seen(creates=1), "/d": seen()}
        self.assertEqual(self.planned(tree, copy, lives={"/d": 1}), ([], [("", False, 0, 1, 0)]))
        self.assertEqual(self.planned(tree, copy, lives={"/d": 0}), (["/d"], [("/d", True, 0, 0, 0)]))

    def test_what_is_equal_stays(self) -> None:
        tree = {"": seen(b"sealed", version=7, creates=2), "/d": seen(b"x", version=3, aversion=1, creates=4)}
        copy = {**tree, "": seen(creates=2)}
        self.assertEqual((self.planned(tree, copy), differences(tree, copy)), (([], []), {}))

    def test_differences_in_words(self) -> None:
        original = {"": seen(), "/a": seen(b"x", version=1, creates=1), "/b": seen(), "/d": seen(owner=3)}
        copy = {
            "": seen(creates=1),
            "/a": seen(aversion=1, acl=READ_ACL_UNSAFE),
            "/c": seen(),
            "/d": seen(owner=4),
        }
        self.assertEqual(
            differences(original, copy),
            {
                "": "counter",
                "/a": "data and version and ACL and aversion and counter",
                "/b": "not copied",
                "/c": "not in the original",
                "/d": "owner",
            },
        )


def seen(
    data: bytes = b"",
    version: int = 0,
    aversion: int = 0,
    creates: int = 0,
    owner: int = 0,
    acl: Sequence[ACL] = OPEN_ACL_UNSAFE,
) -> SeenZnode:
    return SeenZnode(1, 1, version, aversion, creates, owner, len(data), digest_of(data), tuple(acl))


class TestLook(MovingCase):
    def test_what_may_not_be_read_is_named(self) -> None:
        joe = Id("digest", "joe:x1")
        self.make(CHILD, acl=[ACL(Permissions.READ, joe)])
        for who, error, about in (
            (Who(has_all=False), NoRightError, f"no right to use {OLD}/child"),
            (
                Who(has_all=False, ids=frozenset({joe})),
                ImmovableError,
                f"hide the digests in the ACL of {OLD}/child",
            ),
        ):
            with self.assertRaisesRegex(error, about):
                look(TreePlace(FakeAdminClient(self.a, "a", who=who), OLD))

    def test_no_such_place(self) -> None:
        self.assertEqual(look(self.new), {})

    def test_many_are_asked_together_and_acls_once(self) -> None:
        for number in range(600):
            self.make(f"/n{number}")
        before = look(self.old)
        self.a.requests.clear()
        self.assertEqual(look(self.old, before), before)
        self.assertLess(len(self.a.requests), 10)
        self.a.write(SetACL(f"{OLD}/n7", READ_ACL_UNSAFE, -1))
        self.assertEqual(look(self.old, before)["/n7"].acl, tuple(READ_ACL_UNSAFE))

    def test_a_limited_look(self) -> None:
        """As many reads as take as long as those writes, and few of them in one request."""
        for number in range(600):
            self.make(f"/n{number}")
        for per_second, most in ((math.inf, 1000), (1e9, 1000), (3000, 75), (10, 1)):
            waited: list[int] = []
            place = TreePlace(self.old.client, OLD, per_second=per_second)
            with (
                self.subTest(per_second),
                mock.patch.object(place._pace, "wait", waited.append),
            ):
                self.a.requests.clear()
                self.assertEqual(look(place), look(self.old))
                self.assertEqual(max(waited), min(most, 601))
                self.assertEqual(sum(waited), 601 + 1 + 601)  # data, a listing, ACLs
                self.assertAlmostEqual(place._pace._every_s, 0.1 / per_second)

    def test_servers_without_several_reads_in_one_request(self) -> None:
        self.make(CHILD)
        self.a.has_multi_read = False
        self.assertEqual([*look(self.old)], ["", CHILD])
        self.assertEqual([*look(self.old)], ["", CHILD])
        self.assertEqual(sum(isinstance(each, MultiRead) for each in self.a.requests), 1)


class TestDelete(MovingCase):
    def test_with_a_fence(self) -> None:
        fence = f"{FENCES}/7"
        self.a.write(Create(fence, b"", OPEN_ACL_UNSAFE, 0))
        for number in range(700):
            self.make(f"/n{number}")
        self.make("/n1/deep")
        self.assertFalse(delete_place(self.old, (fence, 3)))
        self.assertIn(f"{OLD}/n1/deep", self.a.znodes)
        self.a.lost = 0.2
        self.assertTrue(delete_place(self.old, (fence, 0)))
        self.assertEqual([each for each in self.a.znodes if each.startswith(OLD)], [])
        self.assertTrue(delete_place(self.old, (fence, 0)))
