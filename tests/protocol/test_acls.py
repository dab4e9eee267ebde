"""Who may do what, with the servers' own checks: CREATE and DELETE of children are checked at the mirror."""

from __future__ import annotations

import itertools
import unittest
from typing import Any

from kazoo.exceptions import InvalidACLError, NoAuthError, NotEmptyError
from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, Id, Permissions

from parkazoo.kazoo_private import Create, Delete, Exists, GetACL, GetChildren, SetACL, SetData, Transaction
from parkazoo.protocol.placement import Place, Placement
from parkazoo.protocol.plans import PLANS
from parkazoo.protocol.rights import is_secret, pin_acl
from tests.explore.alone import find_directory, make_context, outcome, prepared
from tests.explore.model import Model
from tests.explore.znodes import WORLD, Who
from tests.where_is import where_is

PLACEMENT = Placement(2)
D = find_directory(PLACEMENT, False)
_, HOME, MIRROR, *_ = where_is(PLACEMENT, D)
PIN = Place(HOME.ensemble, where_is(PLACEMENT, D).pin)
READ, WRITE, CREATE, DELETE, ADMIN, ALL = (
    Permissions.READ,
    Permissions.WRITE,
    Permissions.CREATE,
    Permissions.DELETE,
    Permissions.ADMIN,
    Permissions.ALL,
)
ALICE, BOB = Id("digest", "alice:YWxpY2U="), Id("digest", "bob:Ym9i")


def user(number: int, *ids: Id) -> Who:
    return Who(tuple(range(number, number + 5)), frozenset(ids), has_all=False)


alice, bob, nobody = user(100, ALICE), user(200, BOB), user(300)


class TestPinAcl(unittest.TestCase):
    def test_each_permission(self) -> None:
        """All read marks; who may delete children of the home leaves and takes them; who has ADMIN sets it."""
        for perms in range(1, ALL + 1):
            acl = pin_acl([ACL(perms, ALICE)])
            self.assertEqual(acl[0], ACL(READ, WORLD))
            granted = acl[1].perms if len(acl) > 1 else 0
            self.assertEqual(bool(granted & DELETE), bool(perms & DELETE))
            self.assertEqual(bool(granted & CREATE), bool(perms & DELETE))
            self.assertEqual(bool(granted & ADMIN), bool(perms & ADMIN))
            self.assertFalse(granted & WRITE)

    def test_several(self) -> None:
        acl = pin_acl([ACL(ALL, ALICE), ACL(READ | CREATE, BOB), ACL(ADMIN, WORLD)])
        expected = [ACL(READ, WORLD), ACL(CREATE | DELETE | ADMIN, ALICE), ACL(ADMIN, WORLD)]
        self.assertEqual(acl, expected)


class TestIsSecret(unittest.TestCase):
    """Secret: an identity may create children but cannot copy the whole ACL for the mirror."""

    def test_each_pair_of_entries(self) -> None:
        """Judged by the model's servers: what those who may create are shown."""
        perms = [0, READ, CREATE, CREATE | READ, CREATE | ADMIN, ALL]
        for of_alice, of_world in itertools.product(perms, repeat=2):
            acl = [ACL(p, who) for p, who in ((of_alice, ALICE), (of_world, WORLD)) if p]
            if not acl:
                continue
            for who in (alice, nobody):
                model = Model(1)
                model.execute(0, Create("/a", b"", acl, 0))
                may_create = not isinstance(model.execute(0, Create("/a/x", b"", acl, 0), who), Exception)
                shown = model.execute(0, GetACL("/a"), who)
                is_whole = not isinstance(shown, Exception) and shown[0] == acl
                if may_create and not is_whole:
                    self.assertTrue(is_secret(acl), acl)

    def test_the_usual_ones_are_not(self) -> None:
        for acl in (OPEN_ACL_UNSAFE, CREATOR_ALL_ACL, READ_ACL_UNSAFE, [ACL(ALL, ALICE), ACL(READ, WORLD)]):
            self.assertFalse(is_secret(acl), acl)


class AclTest(unittest.TestCase):
    def setUp(self) -> None:
        self.model = prepared(PLACEMENT, [D])
        self.context = make_context(PLACEMENT)
        self.sent: list[Any] = []

    def perform(self, request: Any, who: Who) -> Any:
        self.sent = []
        return outcome(self.model, PLANS[request.type].operation(self.context, request), who, self.sent)

    def refused(self, request: Any, who: Who, error: type[Exception] = NoAuthError) -> None:
        before = [dict(nodes) for nodes in self.model.nodes]
        self.assertIsInstance(self.perform(request, who), error)
        self.assertEqual(self.model.nodes, before, "something has changed")

    def done(self, request: Any, who: Who) -> Any:
        got = self.perform(request, who)
        self.assertNotIsInstance(got, Exception, request)
        return got

    def acl_of(self, place: Any) -> list[ACL]:
        return list(self.model.nodes[place.ensemble][place.path].acl)


def create(path: str, acl: Any = OPEN_ACL_UNSAFE, flags: int = 0) -> Create:
    return Create(path, b"", acl, flags)


class TestMirror(AclTest):
    def test_it_carries_the_homes_acl(self) -> None:
        self.done(create(D, CREATOR_ALL_ACL), alice)
        self.done(create(D + "/x"), alice)
        self.assertEqual(self.acl_of(MIRROR), [ACL(ALL, ALICE)])
        self.assertEqual(self.acl_of(HOME), self.acl_of(MIRROR))
        self.assertEqual(self.acl_of(PIN), pin_acl([ACL(ALL, ALICE)]))
        self.refused(create(D + "/y"), bob)
        self.refused(GetChildren(D, None), bob)
        self.refused(Delete(D + "/x", -1), bob)
        self.assertEqual(self.done(GetChildren(D, None), alice), ["x"])

    def test_no_create_no_first_child(self) -> None:
        self.done(create(D, [ACL(ALL, ALICE), ACL(READ | DELETE, WORLD)]), alice)
        self.refused(create(D + "/x"), bob)
        self.done(create(D + "/x"), alice)
        self.refused(create(D + "/y"), bob)

    def test_no_read_no_listing(self) -> None:
        """Before there is a mirror and after."""
        self.done(create(D, CREATOR_ALL_ACL), alice)
        self.refused(GetChildren(D, None), bob)
        self.done(create(D + "/x"), alice)
        self.refused(GetChildren(D, None), bob)

    def test_the_childs_acl_is_refused_as_ever(self) -> None:
        self.done(create(D), nobody)
        self.assertIsInstance(self.perform(create(D + "/x", CREATOR_ALL_ACL), nobody), InvalidACLError)

    def test_set_acls(self) -> None:
        self.done(create(D, CREATOR_ALL_ACL), alice)
        self.done(create(D + "/x"), alice)
        acl = [ACL(ALL, ALICE), ACL(READ | CREATE | DELETE | ADMIN, BOB)]
        self.refused(SetACL(D, acl, -1), bob)
        self.done(SetACL(D, acl, -1), alice)
        self.assertEqual(self.acl_of(MIRROR), acl)
        self.assertEqual(self.acl_of(PIN), pin_acl(acl))
        self.done(create(D + "/y"), bob)
        self.done(SetACL(D, [ACL(READ, BOB)], -1), bob)  # and has no ADMIN any more, from its first step on
        self.assertEqual(self.acl_of(MIRROR), [ACL(READ, BOB)])
        self.assertEqual(self.acl_of(PIN), pin_acl([ACL(READ, BOB)]))
        self.refused(create(D + "/z"), alice)

    def test_set_acls_with_version(self) -> None:
        self.done(create(D), alice)
        self.assertEqual(self.done(SetACL(D, OPEN_ACL_UNSAFE, 0), alice).aversion, 1)
        before = self.acl_of(HOME)
        self.assertIsInstance(self.perform(SetACL(D, CREATOR_ALL_ACL, 0), alice), Exception)
        self.assertEqual(self.acl_of(HOME), before)


class TestDelete(AclTest):
    def test_the_right_to_delete_children_of_the_parent_and_of_the_directory(self) -> None:
        self.done(create(D, [ACL(ALL & ~DELETE, WORLD), ACL(ALL, ALICE)]), alice)
        self.done(create(D + "/x"), alice)
        self.refused(Delete(D, -1), bob, NotEmptyError)
        self.done(Delete(D + "/x", -1), alice)
        self.refused(Delete(D, -1), bob)
        self.assertLessEqual(len(self.sent), 3)
        self.assertIs(self.done(Delete(D, -1), alice), True)

    def test_any_who_may_delete_can_finish(self) -> None:
        """One user's mark, another's delete and a third one's listing, none of whom has ADMIN."""
        acl = [ACL(ALL, ALICE), ACL(ALL & ~ADMIN & ~CREATE, BOB), ACL(READ, WORLD)]
        for steps in (4, 5, 6, 7):
            self.setUp()
            self.done(create(D, acl), alice)
            self.done(create(D + "/x"), alice)
            self.done(Delete(D + "/x", -1), bob)
            operation = PLANS[Delete.type].operation(make_context(PLACEMENT, "other"), Delete(D, -1))
            answers: Any = None
            for _ in range(steps):
                answers = [self.model.execute(*step, bob) for step in operation.send(answers)]
            # a client without DELETE leaves the mark
            self.assertEqual(self.perform(GetChildren(D, None), nobody), [])
            self.assertIs(self.done(Delete(D, -1), alice if steps % 2 else bob), True)
            self.assertIsNone(self.done(Exists(D, None), nobody))


SECRET = [ACL(ALL, ALICE), ACL(CREATE | READ | DELETE, BOB)]


class TestSecret(AclTest):
    """An identity may create children but cannot see the whole ACL: a client that knows it makes the mirror."""

    def test_promoted_by_its_creator(self) -> None:
        self.done(create(D, SECRET), alice)
        self.assertEqual(self.acl_of(MIRROR), SECRET)
        self.done(create(D + "/x"), bob)
        self.assertEqual(len(self.sent), 1)
        self.refused(create(D + "/y"), nobody)
        self.assertEqual(self.done(GetChildren(D, None), bob), ["x"])

    def test_others_stay_at_one_request(self) -> None:
        self.done(create(D, CREATOR_ALL_ACL), alice)
        self.assertEqual(len(self.sent), 1)
        self.assertNotIn(MIRROR.path, self.model.nodes[MIRROR.ensemble])

    def test_creator_who_is_not_shown_it_either(self) -> None:
        acl = [ACL(READ | CREATE, BOB), ACL(ALL, ALICE)]  # bob would be shown "alice:x"
        self.done(create(D, acl), bob)
        self.assertEqual(self.acl_of(MIRROR), acl)
        self.done(create(D + "/x"), bob)

    def test_creator_without_read(self) -> None:
        """Even whether it is still the same ACL is hidden then: a client with ADMIN has to begin."""
        self.done(create(D, [ACL(CREATE, BOB), ACL(ALL, ALICE)]), bob)
        self.assertIsInstance(self.perform(create(D + "/x"), bob), NoAuthError)
        self.done(create(D + "/x"), alice)
        self.done(create(D + "/y"), bob)

    def test_promoted_by_the_client_that_sets_it(self) -> None:
        self.done(create(D, CREATOR_ALL_ACL), alice)
        self.done(SetACL(D, SECRET, -1), alice)
        self.assertEqual(self.acl_of(MIRROR), SECRET)
        self.done(create(D + "/x"), bob)

    def test_promoted_in_a_transaction(self) -> None:
        results = self.done(Transaction([create(D, SECRET), SetData(D, b"1", -1)]), alice)
        self.assertEqual(results[0], D)
        self.assertEqual(self.acl_of(MIRROR), SECRET)
        self.done(create(D + "/x"), bob)

    def test_the_hidden_digests_never_get_to_the_mirror(self) -> None:
        """The home was made by others, without a mirror: the create is refused, and says what to do."""
        self.model.execute(HOME.ensemble, create(HOME.path, SECRET))
        got = self.perform(create(D + "/x"), bob)
        self.assertIsInstance(got, NoAuthError)
        self.assertIn("ADMIN", str(got))
        self.assertNotIn(MIRROR.path, self.model.nodes[MIRROR.ensemble])
        self.done(create(D + "/x"), alice)
        self.assertEqual(self.acl_of(MIRROR), SECRET)
        self.done(create(D + "/y"), bob)

    def test_creator_may_not_create_there(self) -> None:
        """The directory is made all the same."""
        self.done(create(D, [ACL(CREATE, BOB), ACL(READ, ALICE)]), alice)
        self.assertNotIn(MIRROR.path, self.model.nodes[MIRROR.ensemble])
        self.assertIsNotNone(self.done(Exists(D, None), alice))

    def test_stats_without_read(self) -> None:
        """What may be done without READ is done, though the number of children stays hidden."""
        acl = [ACL(ALL, ALICE), ACL(WRITE | ADMIN, BOB)]
        self.done(create(D, acl), alice)
        self.done(create(D + "/x"), alice)
        self.assertEqual(self.done(SetData(D, b"1", -1), bob).version, 1)
        self.assertEqual(self.done(GetACL(D), bob)[0], acl)
        self.refused(Exists(D, None), bob)
