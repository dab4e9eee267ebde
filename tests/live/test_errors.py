"""What is refused is refused with kazoo's error: each operation in each situation, on one and three ensembles."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

from kazoo.client import KazooClient
from kazoo.security import ACL, ANYONE_ID_UNSAFE, OPEN_ACL_UNSAFE, Permissions, make_digest_acl

from tests.live.world import LiveTest

OWNER = ("digest", "owner:secret")
BAD_ACL = [ACL(Permissions.ALL, ANYONE_ID_UNSAFE._replace(scheme="nonsense"))]
STALE = 7  # a version that no znode has here
GRANTS = {
    "all": Permissions.ALL,
    "none": 0,
    "read": Permissions.READ,
    "create": Permissions.READ | Permissions.CREATE,
    "delete": Permissions.READ | Permissions.DELETE,
}
HAVE_CHILDREN = ("native", "with children")
MISSING = ("/missing", "/missing/x")
BELOW = ("/leaf", "/leaf/x", "/full", "/ephemeral", "/ephemeral/x", *MISSING)
TARGETS = {"native": BELOW, "with children": BELOW, "emptied": MISSING, "without children": MISSING}
# The right to delete in itself, where it has had children; with "create" it is prepared for them when it is made.
DELETES_NEED_A_RIGHT = ("emptied", "without children")

Call = Callable[[Any, str], Any]


def commit(method: str, *arguments: Any, **options: Any) -> Call:
    """A transaction of one operation."""

    def call(client: KazooClient, path: str) -> None:
        transaction = client.transaction()
        getattr(transaction, method)(path, *arguments, **options)
        for result in transaction.commit():
            if isinstance(result, Exception):
                raise result

    return call


OPERATIONS: dict[str, Call] = {
    "create": lambda client, path: client.create(path),
    "create ephemeral": lambda client, path: client.create(path, ephemeral=True),
    "create with a number": lambda client, path: client.create(path, sequence=True),
    "create with stat": lambda client, path: client.create(path, include_data=True),
    "create with a bad ACL": lambda client, path: client.create(path, acl=BAD_ACL),
    "create in a transaction": commit("create"),
    "create in a transaction with a bad ACL": commit("create", acl=BAD_ACL),
    "delete": lambda client, path: client.delete(path),
    "delete a version": lambda client, path: client.delete(path, version=STALE),
    "delete in a transaction": commit("delete"),
    "delete a version in a transaction": commit("delete", STALE),
    "set": lambda client, path: client.set(path, b"new"),
    "set a version": lambda client, path: client.set(path, b"new", version=STALE),
    "set in a transaction": commit("set_data", b"new"),
    "check in a transaction": commit("check", STALE),
    "get": lambda client, path: client.get(path),
    "exists": lambda client, path: client.exists(path),
    "list": lambda client, path: client.get_children(path),
    "list with stat": lambda client, path: client.get_children(path, include_data=True),
    "get_acls": lambda client, path: client.get_acls(path),
    "set_acls": lambda client, path: client.set_acls(path, OPEN_ACL_UNSAFE),
    "set_acls a version": lambda client, path: client.set_acls(path, OPEN_ACL_UNSAFE, version=STALE),
    "set_acls with a bad ACL": lambda client, path: client.set_acls(path, BAD_ACL),
}
OWNERS = make_digest_acl("owner", "secret", all=True)
CHANGES: dict[str, Call] = {
    "deleted it": lambda owner, path: None,
    "made it again": lambda owner, path: owner.create(path),
    "made it again, for itself": lambda owner, path: owner.create(path, b"", [OWNERS]),
    "made an ephemeral of it": lambda owner, path: owner.create(path, ephemeral=True),
    "made an ephemeral of it, for itself": lambda owner, path: owner.create(path, b"", [OWNERS], ephemeral=True),
}
READS = ("get", "exists", "list", "list with stat", "get_acls")


class ErrorTest(LiveTest):
    def setUp(self) -> None:
        super().setUp()
        control = self.new_root(self.kazoo())  # on one of the servers, below a znode of its own
        self.owners = self.parkazoo(auth_data=[OWNER]), self.kazoo(chroot=control, auth_data=[OWNER])
        self.guests = self.parkazoo(), self.kazoo(chroot=control)
        self.root = self.new_root(self.owners[0])
        self.owners[1].ensure_path(self.root)
        self.numbers = itertools.count()

    def tearDown(self) -> None:
        for owner in self.owners:
            owner.delete(self.root, recursive=True)

    def path(self, kind: str) -> str:
        """A new one."""
        paths = (f"{self.root}/{number}" for number in self.numbers)
        return next(path for path in paths if self.placement.is_native(path) == (kind == "native"))

    def make(self, path: str, kind: str, grant: str) -> None:
        acl = [OWNERS, ACL(GRANTS[grant], ANYONE_ID_UNSAFE)]
        for owner in self.owners:
            owner.create(path, b"", acl)
            if kind == "emptied":
                owner.delete(owner.create(f"{path}/leaf"))
            elif kind in HAVE_CHILDREN:
                for name in ("leaf", "full", "full/leaf"):
                    owner.create(f"{path}/{name}", b"", acl)
                owner.create(f"{path}/ephemeral", b"", acl, ephemeral=True)

    def outcomes(self, name: str, path: str) -> list[str]:
        """The guests' answers, ParKazoo's first."""
        return [self.outcome(partial(OPERATIONS[name], guest, path)) for guest in self.guests]

    def outcome(self, call: Callable[[], Any]) -> str:
        error = self.raises_as(call)
        return error.__name__ if error else "done"

    def check(self, kind: str, grant: str) -> None:
        """Every operation on a directory, on what is in it and what is missing, made anew when one succeeds."""
        for target in ("", *TARGETS[kind]):
            path = ""
            for name in OPERATIONS:
                if not path:
                    path = self.path(kind)
                    self.make(path, kind, grant)
                ours, theirs = self.outcomes(name, path + target)
                with self.subTest(f"{name} of {target or 'it'}, which is {kind}, with the right to {grant}"):
                    is_known = not target and name.startswith("delete") and kind in DELETES_NEED_A_RIGHT
                    # docs/reference/differences.md, "Deleting a directory"
                    if not (is_known and (ours, theirs) == ("NoAuthError", "done")):
                        self.assertEqual(ours, theirs)
                if "done" in (ours, theirs) and name not in READS:
                    path = ""

    def test_native(self) -> None:
        for grant in GRANTS:
            self.check("native", grant)

    def test_with_children(self) -> None:
        for grant in GRANTS:
            self.check("with children", grant)

    def test_emptied(self) -> None:
        for grant in GRANTS:
            self.check("emptied", grant)

    def test_without_children(self) -> None:
        for grant in GRANTS:
            self.check("without children", grant)

    def test_after_another_client_s_change(self) -> None:
        """A client has made a directory, perhaps with a child; its memory is wrong since another client ..."""
        for (what, change), has_child, name in itertools.product(CHANGES.items(), (False, True), OPERATIONS):
            path = self.path("mirrored")
            for owner, guest in zip(self.owners, self.guests, strict=True):
                guest.create(path, b"", OPEN_ACL_UNSAFE)
                if has_child:
                    guest.create(f"{path}/child")
                owner.delete(path, recursive=True)
                change(owner, path)
            with self.subTest(f"{name}, {what}, {'with' if has_child else 'without'} a child before"):
                ours, theirs = self.outcomes(name, f"{path}/x")
                self.assertEqual(ours, theirs)
