"""Which znodes `map identity remove` names: those to which the identity alone has some right."""

from __future__ import annotations

import unittest
from collections.abc import Mapping, Sequence
from typing import Any
from unittest import mock

from kazoo.exceptions import NoNodeError
from kazoo.security import ACL, OPEN_ACL_UNSAFE, Id, Permissions

from parkazoo.admin import sole_rights
from parkazoo.admin.clients import NoRightError
from parkazoo.admin.sole_rights import SoleRights, describe_sole_rights, find_sole_rights
from parkazoo.protocol.placement import FENCES, MIRRORS, PIN, ROOT, join, split
from parkazoo.protocol.shared_identity import has_sole_right
from tests.fakes.member import STAT

OLD, NEW = Id("digest", "app:old"), Id("digest", "app:new")
ALL, READ, WRITE = Permissions.ALL, Permissions.READ, Permissions.WRITE
SOLE, BOTH = [ACL(ALL, OLD)], [ACL(ALL, OLD), ACL(ALL, NEW)]
HIDDEN: list[ACL] = []  # an ACL that may not be seen


class Answered:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def ready(self) -> bool:
        return True


class Ensemble:
    """Stands for an AdminClient. :param acls: by path. :param vanishing: gone when its children are asked for."""

    name = "a"

    def __init__(self, acls: Mapping[str, Sequence[ACL]], vanishing: str = "") -> None:
        self.zk = self
        self._acls = {"/": OPEN_ACL_UNSAFE, "/zookeeper": SOLE, MIRRORS: SOLE, **acls}
        self._vanishing = vanishing

    def get_acls_async(self, path: str) -> Answered:
        if (acl := self._acls.get(path)) is None:
            return Answered(NoNodeError())
        if acl is HIDDEN:
            return Answered(NoRightError(path))
        return Answered((acl, STAT._replace(numChildren=len(self._below(path)))))

    def get_children_async(self, path: str) -> Answered:
        return Answered(NoNodeError() if path == self._vanishing else self._below(path))

    def wait(self, path: str, answered: Answered) -> Any:
        if isinstance(answered.answer, Exception):
            raise answered.answer
        return answered.answer

    def _below(self, parent: str) -> list[str]:
        return [split(path)[1] for path in self._acls if path != "/" and split(path)[0] == parent]


def find(acls: Mapping[str, Sequence[ACL]], vanishing: str = "") -> tuple[set[str], int]:
    ensemble: Any = Ensemble(acls, vanishing)
    told: list[int] = []
    found = find_sole_rights(ensemble, OLD, lambda name, count: told.append(count))
    assert told == sorted(told)
    return {*found.paths}, found.unseen


class TestSoleRight(unittest.TestCase):
    def test_by_the_rights_of_others(self) -> None:
        for acl, expected in (
            (SOLE, True),
            (BOTH, False),
            (OPEN_ACL_UNSAFE, False),
            ([ACL(ALL, NEW)], False),
            ([], False),
            ([ACL(ALL, OLD), ACL(READ, NEW)], True),
            ([ACL(READ, OLD), ACL(READ | WRITE, NEW)], False),
            ([ACL(READ, OLD), ACL(WRITE, OLD), ACL(READ, NEW)], True),
        ):
            with self.subTest(acl):
                self.assertIs(has_sole_right(acl, OLD), expected)


class TestFind(unittest.TestCase):
    def test_the_users_alone(self) -> None:
        """By their names. Pins, and what the command changes itself, are no user's."""
        found = find(
            {
                "/mine": SOLE,
                "/mine/child": SOLE,
                f"/mine/{PIN}": SOLE,
                "/ours": BOTH,
                "/ours/deep": SOLE,
                ROOT: SOLE,
                FENCES: SOLE,
                join(MIRRORS, "%2Fx%2Fdirectory"): SOLE,
                f"{MIRRORS}/%2Fy/child": SOLE,
                f"{MIRRORS}/%2Fy": BOTH,
            }
        )
        self.assertEqual(found, ({"/mine", "/mine/child", "/ours/deep", "/x/directory", "/y/child"}, 0))

    def test_many(self) -> None:
        paths = {f"/directory/{number}": SOLE for number in range(30)}
        with mock.patch.object(sole_rights, "BATCH", 7):
            self.assertEqual(find({"/directory": BOTH, **paths}), ({*paths}, 0))

    def test_what_may_not_be_seen(self) -> None:
        """It is counted, and what is below is not looked at."""
        self.assertEqual(find({"/secret": HIDDEN, "/secret/below": SOLE, "/mine": SOLE}), ({"/mine"}, 1))

    def test_what_goes_meanwhile(self) -> None:
        self.assertEqual(find({"/mine": SOLE, "/mine/child": SOLE}, vanishing="/mine"), ({"/mine"}, 0))


class TestDescribe(unittest.TestCase):
    def describe(self, *paths: Sequence[str]) -> str:
        return describe_sole_rights([SoleRights(frozenset(each), 0) for each in paths], "digest:app")

    def test_none(self) -> None:
        self.assertEqual(self.describe([], []), "")

    def test_one(self) -> None:
        """A directory may have a znode on two ensembles."""
        told = "digest:app alone has some right to 1 znode; first give it to others with set_acls:\n  /a"
        self.assertEqual(self.describe(["/a"], ["/a"]), told)

    def test_many(self) -> None:
        told = self.describe([f"/a/{number}" for number in range(2000)], ["/b"])
        self.assertTrue(told.startswith("digest:app alone has some right to 2,001 znodes; "), told)
        self.assertTrue(told.endswith("\n  /a/1000\n  and 1,996 more"), told)
