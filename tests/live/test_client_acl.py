"""ACLs: who may do what is what one ZooKeeper says, on every ensemble."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kazoo.exceptions import AuthFailedError, NoAuthError
from kazoo.security import (
    ACL,
    ANYONE_ID_UNSAFE,
    CREATOR_ALL_ACL,
    OPEN_ACL_UNSAFE,
    READ_ACL_UNSAFE,
    Permissions,
    make_digest_acl,
)

from parkazoo.protocol.placement import PIN
from tests.live.world import DEADLINE_S, LiveTest, wait_until
from tests.where_is import where_is

OWNER, GUEST = ("digest", "owner:secret"), ("digest", "guest:word")
ALL_PERMISSIONS = range(32)


def digest(identity: tuple[str, str], perms: int) -> ACL:
    return make_digest_acl(*identity[1].split(":"))._replace(perms=perms)


class AclTest(LiveTest):
    def setUp(self) -> None:
        super().setUp()
        self.owner = self.parkazoo(auth_data=[OWNER])
        self.root = self.new_root(self.owner)
        self.guest = self.parkazoo()

    def outcome(self, call: Callable[[], Any]) -> Any:
        try:
            value = call()
        except Exception as error:
            return type(error)
        if isinstance(value, list) and any(isinstance(each, Exception) for each in value):
            return [type(each) for each in value]
        return "ok"

    def mirror_acl(self, path: str) -> Any:
        """The ACL that is really on the mirror; None if there is none."""
        place = where_is(self.placement, path).mirror
        plain = self.kazoo(place.ensemble, auth_data=[OWNER])
        return plain.get_acls(place.path)[0] if plain.exists(place.path) else None


class TestIdentities(AclTest):
    def test_on_every_ensemble(self) -> None:
        """Given to the client before start, after start, or to neither: what counts is the same everywhere."""
        late = self.parkazoo()
        late.add_auth(*OWNER)
        again = self.parkazoo(start=False)
        again.auth_data.add(OWNER)
        again.start(DEADLINE_S)
        early = self.parkazoo(start=False)
        early.start_async()
        result = early.add_auth_async(*OWNER)
        self.assertTrue(result.get(timeout=DEADLINE_S))
        for number in range(12):
            path = f"{self.root}/{number}"
            self.owner.create(path, b"data", acl=CREATOR_ALL_ACL)
            self.owner.create(f"{path}/child", b"data", acl=CREATOR_ALL_ACL)
            for each in (path, f"{path}/child"):
                for client in (late, again, early):
                    self.assertEqual(client.get(each)[0], b"data")
                self.assertRaises(NoAuthError, self.guest.get, each)

    def test_survives_a_reconnection(self) -> None:
        """What was added later is sent again on every new connection."""
        client = self.parkazoo()
        client.add_auth(*OWNER)
        paths = [f"{self.root}/{number}/x" for number in range(6)]
        for path in paths:
            self.owner.create(path, acl=CREATOR_ALL_ACL, makepath=True)
        client.restart()
        for path in paths:
            self.assertEqual(client.get(path)[0], b"")

    def test_refused(self) -> None:
        """A credential that the servers refuse ends the client, as kazoo's."""
        client = self.parkazoo()
        self.assertRaises(AuthFailedError, client.add_auth, "no such scheme", "x")
        wait_until(lambda: client.client_state == "AUTH_FAILED", "the state tells")
        self.assertRaises(AuthFailedError, client.get, self.root)
        client.auth_data.clear()
        client.stop()
        client.start(DEADLINE_S)
        self.assertIsNotNone(client.exists(self.root))

    def test_ensure_path_below_what_may_not_be_read(self) -> None:
        """It looks from below, as kazoo's: what is above the first that is there does not matter."""
        closed = f"{self.root}/closed"
        self.owner.ensure_path(f"{closed}/open")
        self.owner.set_acls(closed, [digest(OWNER, Permissions.ALL)])
        plain = self.kazoo(auth_data=[OWNER])
        plain_closed = self.new_root(plain)
        plain.create(f"{plain_closed}/open")
        plain.set_acls(plain_closed, [digest(OWNER, Permissions.ALL)])
        for client, path in ((self.kazoo(), plain_closed), (self.guest, closed)):
            with self.subTest(client=client):
                self.assertTrue(client.ensure_path(f"{path}/open/a/b"))
                self.assertRaises(NoAuthError, client.ensure_path, f"{path}/a/b")
        self.owner.set_acls(closed, OPEN_ACL_UNSAFE)
        self.assertEqual(self.guest.get_children(f"{closed}/open"), ["a"])
        plain.delete(plain_closed, recursive=True)

    def test_default_acl(self) -> None:
        client = self.parkazoo(auth_data=[OWNER], default_acl=CREATOR_ALL_ACL)
        path = client.create(f"{self.root}/a/b/c", makepath=True)
        transaction = client.transaction()
        transaction.create(f"{path}/d")
        self.assertEqual(transaction.commit(), [f"{path}/d"])
        client.ensure_path(f"{path}/e/f")
        for each in (f"{self.root}/a", path, f"{path}/d", f"{path}/e/f"):
            self.assertEqual(client.get_acls(each)[0], [digest(OWNER, Permissions.ALL)])
            self.assertRaises(NoAuthError, self.guest.get_children, each)
            self.assertRaises(NoAuthError, self.guest.create, f"{each}/mine")


class TestMirror(AclTest):
    def test_carries_the_home_s_acl(self) -> None:
        acl = [digest(OWNER, Permissions.ALL), ACL(Permissions.READ, ANYONE_ID_UNSAFE)]
        path = self.directory(self.root, is_native=False)
        self.owner.create(path, acl=acl)
        self.owner.create(f"{path}/first")
        self.assertEqual(self.mirror_acl(path), acl)
        self.assertEqual(self.guest.get_children(path), ["first"])
        self.assertRaises(NoAuthError, self.guest.create, f"{path}/second")
        self.assertRaises(NoAuthError, self.guest.delete, f"{path}/first")

    def test_set_acls(self) -> None:
        """Of a directory: before the first child, after it, again, and by a version."""
        path = self.directory(self.root, is_native=False)
        self.owner.create(path)
        closed, readable = [digest(OWNER, Permissions.ALL)], [*READ_ACL_UNSAFE, digest(OWNER, Permissions.ALL)]
        stat = self.owner.set_acls(path, closed)
        self.assertEqual((stat.aversion, stat.numChildren), (1, 0))
        self.assertRaises(NoAuthError, self.guest.create, f"{path}/x")
        self.owner.create(f"{path}/x")
        self.assertEqual(self.mirror_acl(path), closed)
        stat = self.owner.set_acls(path, readable, version=1)
        self.assertEqual(stat, self.owner.exists(path))
        self.assertEqual((stat.aversion, stat.numChildren), (2, 1))
        self.assertEqual(sorted(self.mirror_acl(path)), sorted(readable))
        self.assertEqual(self.guest.get_children(path), ["x"])
        self.owner.set_acls(path, OPEN_ACL_UNSAFE)
        self.assertEqual(self.mirror_acl(path), OPEN_ACL_UNSAFE)
        self.guest.create(f"{path}/y")
        for name in self.guest.get_children(path):
            self.guest.delete(f"{path}/{name}")
        self.guest.delete(path)

    def test_set_acls_against_first_children(self) -> None:
        """Whichever wins, the mirror ends with the home's ACL."""
        for number in range(25):
            path = self.directory(f"{self.root}/{number}", is_native=False)
            self.owner.ensure_path(path)
            results = [
                self.guest.create_async(f"{path}/first"),
                self.owner.set_acls_async(path, [digest(OWNER, Permissions.ALL)]),
                self.owner.set_acls_async(path, [*READ_ACL_UNSAFE, digest(OWNER, Permissions.ALL)]),
            ]
            for result in results:
                self.assertIn(self.outcome(lambda r=result: r.get(timeout=DEADLINE_S)), ("ok", NoAuthError))
            if self.mirror_acl(path) is not None:
                self.assertEqual(sorted(self.mirror_acl(path)), sorted(self.owner.get_acls(path)[0]))
            self.assertRaises(NoAuthError, self.guest.create, f"{path}/second")

    def test_secret_acl(self) -> None:
        """Others may create here but not read the ACL: the mirror is there before they come."""
        acl = [digest(OWNER, Permissions.ALL), ACL(Permissions.CREATE, ANYONE_ID_UNSAFE)]
        for make in (self.made, self.made_with_stat, self.made_in_transaction, self.made_and_set):
            path = self.directory(f"{self.root}/{make.__name__}", is_native=False)
            self.owner.ensure_path(path.rpartition("/")[0])
            make(path, acl)
            self.assertEqual(self.mirror_acl(path), acl)
            self.assertEqual(self.guest.create(f"{path}/box", b"from a guest"), f"{path}/box")
            self.assertRaises(NoAuthError, self.guest.get_children, path)
            self.assertEqual(self.owner.get_children(path), ["box"])
            self.owner.delete(path, recursive=True)

    def made(self, path: str, acl: Any) -> None:
        self.owner.create(path, acl=acl)

    def made_with_stat(self, path: str, acl: Any) -> None:
        made, stat = self.owner.create(path, acl=acl, include_data=True)
        self.assertEqual((made, stat.czxid), (path, self.owner.exists(path).czxid))

    def made_in_transaction(self, path: str, acl: Any) -> None:
        transaction = self.owner.transaction()
        transaction.create(path, acl=acl)
        self.assertEqual(transaction.commit(), [path])

    def made_and_set(self, path: str, acl: Any) -> None:
        self.owner.create(path)
        self.owner.set_acls(path, acl)

    def test_a_secret_acl_of_plain_kazoo(self) -> None:
        """Made behind ParKazoo's back: the first create of another says what is missing; the owner's mends it."""
        acl = [digest(OWNER, Permissions.ALL), ACL(Permissions.CREATE, ANYONE_ID_UNSAFE)]
        path = self.directory(self.root, is_native=False)
        self.owner.create(f"{path}/x", makepath=True)  # its parent's mirror
        self.owner.delete(path, recursive=True)
        home = self.home(path)
        self.kazoo(home.ensemble, auth_data=[OWNER]).create(home.path, acl=acl)
        with self.assertRaises(NoAuthError) as caught:
            self.guest.create(f"{path}/x")
        self.assertIn(path, str(caught.exception))
        self.owner.create(f"{path}/x")
        self.guest.create(f"{path}/y")

    def test_pin(self) -> None:
        """An identity that may not delete the directory may not leave marks either."""
        path = self.directory(self.root, is_native=False)
        self.owner.create(path, acl=[digest(OWNER, Permissions.ALL), *READ_ACL_UNSAFE])
        self.owner.create(f"{path}/x")
        self.owner.delete(f"{path}/x")
        home = self.home(path)
        plain = self.kazoo(home.ensemble)
        self.assertRaises(NoAuthError, plain.create, f"{home.path}/{PIN}/mark")
        self.assertRaises(NoAuthError, plain.delete, f"{home.path}/{PIN}")
        self.assertRaises(NoAuthError, self.guest.delete, path)
        self.assertEqual(self.owner.get_children(path), [])
        self.assertEqual(plain.get_children(f"{home.path}/{PIN}"), [])
        self.owner.delete(path)


class TestAsOneZooKeeper(AclTest):
    """A guest tries everything below directories with every permission; a plain ensemble says what is right."""

    def tried(self, owner: Any, guest: Any, base: str, acl: Any, how: str) -> list[tuple[str, Any]]:
        path = f"{base}/dir"
        owner.create(base)
        if how == "set, with a child":
            owner.create(path)
            owner.create(f"{path}/old", acl=OPEN_ACL_UNSAFE)
            owner.set_acls(path, acl)
        elif how == "set":
            owner.create(path)
            owner.set_acls(path, acl)
        else:
            owner.create(path, acl=acl)
        outcomes = []

        def attempt(name: str, call: Callable[[], Any]) -> None:
            outcomes.append((name, self.outcome(call)))

        def commit(*operations: tuple[Any, ...]) -> Any:
            transaction = guest.transaction()
            for name, *args in operations:
                getattr(transaction, name)(*args)
            return transaction.commit()

        attempt("list", lambda: guest.get_children(path))
        attempt("list with stat", lambda: guest.get_children(path, include_data=True))
        attempt("first child", lambda: guest.create(f"{path}/first"))
        for name in ("first", "keep"):
            owner.ensure_path(f"{path}/{name}", acl=OPEN_ACL_UNSAFE)
        attempt("list", lambda: guest.get_children(path))
        attempt("list with stat", lambda: guest.get_children(path, include_data=True))
        attempt("exists", lambda: guest.exists(path))
        attempt("get", lambda: guest.get(path))
        attempt("set", lambda: guest.set(path, b"x"))
        attempt("create", lambda: guest.create(f"{path}/second"))
        attempt("create with stat", lambda: guest.create(f"{path}/third", include_data=True))
        attempt("create with number", lambda: guest.create(f"{path}/n", sequence=True))
        attempt("create in transaction", lambda: commit(("create", f"{path}/fourth")))
        attempt("create below", lambda: guest.create(f"{path}/first/deep"))
        attempt(
            "delete in transaction", lambda: commit(("delete", f"{path}/fourth"), ("check", f"{path}/first", 0))
        )
        attempt("delete", lambda: guest.delete(f"{path}/first/deep"))
        attempt("delete", lambda: guest.delete(f"{path}/first"))
        attempt("delete of the full directory", lambda: guest.delete(path))
        attempt("get_acls", lambda: guest.get_acls(path))
        attempt("set_acls", lambda: guest.set_acls(path, acl))
        outcomes.append(("left", sorted(owner.get_children(path))))
        outcomes.append(("stat", owner.exists(path)._replace(czxid=0, mzxid=0, pzxid=0, ctime=0, mtime=0)))
        outcomes.append(("acl", owner.get_acls(path)[0]))
        owner.delete(base, recursive=True)
        return outcomes

    def compare(self, acl_of: Callable[[int], Any], how: str, *guest_auth: tuple[str, str]) -> None:
        options = {"auth_data": [*guest_auth]}
        plain_owner, plain_guest = self.kazoo(auth_data=[OWNER]), self.kazoo(**options)
        guest = self.parkazoo(**options)
        twin = self.new_root(plain_owner)
        differences = []
        for perms in ALL_PERMISSIONS:
            expected = self.tried(plain_owner, plain_guest, f"{twin}/{perms}", acl_of(perms), how)
            base = f"{self.root}/{perms}"
            while self.placement.is_native(f"{base}/dir"):
                base += "_"
            found = self.tried(self.owner, guest, base, acl_of(perms), how)
            for one, other in zip(found, expected, strict=True):
                if one != other:
                    differences.append(f"perms {perms:05b}: {one}, one ZooKeeper {other}")
        self.assertEqual(differences, [])

    def test_world(self) -> None:
        for how in ("created", "set", "set, with a child"):
            with self.subTest(how):
                self.compare(lambda perms: [digest(OWNER, Permissions.ALL), ACL(perms, ANYONE_ID_UNSAFE)], how)

    def test_another_identity(self) -> None:
        for how in ("created", "set, with a child"):
            with self.subTest(how):
                self.compare(lambda perms: [digest(GUEST, perms), digest(OWNER, Permissions.ALL)], how, GUEST)

    def test_auth_scheme(self) -> None:
        """``auth`` stands for the creator: the server writes the digests."""
        with self.subTest("created"):
            self.compare(lambda perms: [*CREATOR_ALL_ACL, ACL(perms, ANYONE_ID_UNSAFE)], "created")
        with self.subTest("set"):
            self.compare(lambda perms: [*CREATOR_ALL_ACL, ACL(perms, ANYONE_ID_UNSAFE)], "set, with a child")
