"""Identities in the ACLs of a closed cluster: added, passed on, and seen in registrations."""

from __future__ import annotations

import unittest

from kazoo.security import ACL, ANYONE_ID_UNSAFE, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, Id, Permissions

from parkazoo.protocol.shared_identity import is_user, shared_identities, with_identity, without_identities

OLD, NEW, OTHER, ME = (Id("digest", f"{name}:hash") for name in ("old", "new", "other", "me"))
ALL = Permissions.ALL


class TestShared(unittest.TestCase):
    def test_all_rights(self) -> None:
        acl = [ACL(ALL, OLD), ACL(ALL, NEW), ACL(Permissions.READ, ME)]
        self.assertEqual(shared_identities(acl), {OLD, NEW})
        self.assertEqual(shared_identities(OPEN_ACL_UNSAFE), frozenset())
        self.assertEqual(shared_identities([*acl, *OPEN_ACL_UNSAFE]), frozenset())
        self.assertEqual(shared_identities([*acl, *READ_ACL_UNSAFE]), {OLD, NEW})


class TestAdd(unittest.TestCase):
    def test_beside_the_old_one(self) -> None:
        acl = with_identity([ACL(ALL, OLD)], NEW, {OLD})
        self.assertEqual(acl, [ACL(ALL, OLD), ACL(ALL, NEW)])
        self.assertEqual(with_identity(acl, NEW, {OLD, NEW}), acl)

    def test_what_the_others_have_together(self) -> None:
        acl = [ACL(Permissions.READ, OLD), ACL(Permissions.WRITE, OTHER), ACL(ALL, ME)]
        added = with_identity(acl, NEW, {OLD, OTHER})
        self.assertEqual(added, [*acl, ACL(Permissions.READ | Permissions.WRITE, NEW)])

    def test_beside_its_own_rights(self) -> None:
        acl = [ACL(Permissions.ADMIN, NEW), ACL(Permissions.READ, OLD)]
        added = with_identity(acl, NEW, {OLD})
        self.assertEqual(added, [ACL(Permissions.READ, OLD), ACL(Permissions.READ | Permissions.ADMIN, NEW)])

    def test_no_rights_to_share(self) -> None:
        for acl in (OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, [ACL(ALL, ME)]):
            self.assertEqual(with_identity(acl, NEW, {OLD}), acl)


class TestRemove(unittest.TestCase):
    def test_rights_are_passed_on(self) -> None:
        self.assertEqual(without_identities([ACL(ALL, OLD)], [OLD], {NEW}), [ACL(ALL, NEW)])
        self.assertEqual(without_identities([ACL(ALL, OLD), ACL(ALL, NEW)], [OLD], {NEW}), [ACL(ALL, NEW)])
        marker = without_identities([ACL(ALL, OLD), ACL(ALL, ME)], [OLD], {NEW, OTHER})
        self.assertEqual(marker, [ACL(ALL, ME), ACL(ALL, NEW), ACL(ALL, OTHER)])

    def test_several_at_once(self) -> None:
        acl = [ACL(Permissions.READ, OLD), ACL(Permissions.WRITE, OTHER), ACL(ALL, ME)]
        expected = [ACL(ALL, ME), ACL(Permissions.READ | Permissions.WRITE, NEW)]
        self.assertEqual(without_identities(acl, {OLD, OTHER}, {NEW}), expected)

    def test_what_one_that_stays_has_is_not_passed_on(self) -> None:
        """The other one may be about to be removed too."""
        self.assertEqual(without_identities([ACL(ALL, OLD), ACL(ALL, NEW)], [OLD], {NEW, OTHER}), [ACL(ALL, NEW)])

    def test_all_of_its_entries(self) -> None:
        acl = [ACL(Permissions.READ, OLD), ACL(Permissions.WRITE, OLD), *READ_ACL_UNSAFE]
        expected = [*READ_ACL_UNSAFE, ACL(Permissions.READ | Permissions.WRITE, NEW)]
        self.assertEqual(without_identities(acl, [OLD], {NEW}), expected)

    def test_one_that_is_not_there(self) -> None:
        for acl in (OPEN_ACL_UNSAFE, [ACL(ALL, ME)], [ACL(ALL, NEW)]):
            self.assertEqual(without_identities(acl, [OLD], {NEW}), acl)


class TestRegistration(unittest.TestCase):
    def test_identities_of_its_client(self) -> None:
        registration = [ACL(ALL, OLD), ACL(ALL, ME), *READ_ACL_UNSAFE]
        self.assertIs(is_user(registration, OLD), True)
        self.assertIs(is_user(registration, NEW), False)

    def test_hidden_digests_are_of_others(self) -> None:
        self.assertIs(is_user([ACL(ALL, Id("digest", "old:x")), *READ_ACL_UNSAFE], OLD), False)

    def test_a_client_that_does_not_say(self) -> None:
        self.assertIs(is_user(OPEN_ACL_UNSAFE, Id("x509", "CN=old")), None)
        self.assertIs(is_user([ACL(ALL, ANYONE_ID_UNSAFE)], OLD), None)
