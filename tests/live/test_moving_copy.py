"""Copies of a directory's children from one real ensemble to another."""

from __future__ import annotations

import random
import threading

from kazoo.client import KazooClient
from kazoo.security import OPEN_ACL_UNSAFE, make_acl, make_digest_acl

from parkazoo.admin.clients import NoRightError, connect_to
from parkazoo.admin.moving.carried import differences
from parkazoo.admin.moving.copying import UNSEEN, MovingCopy, NotExactError, is_sealed
from parkazoo.admin.moving.place import ImmovableError, TreePlace, look
from parkazoo.admin.moving.taking_back import delete_place, end_guard, remove_copy
from parkazoo.admin.moving.term_writes import TakenOverError
from parkazoo.protocol.moving import MOVES
from parkazoo.protocol.placement import CLIENTS, MIRRORS
from parkazoo.protocol.registration import encode_registration, registration_path
from tests.live.map_case import IDENTITY, MapCase

MOVE = "0123456789abcdef0123456789abcdef"
OLD, NEW = f"{MIRRORS}/%2Fd", f"{MIRRORS}/%2Fd%~{MOVE}"
NAMES = "plain", "\u00e4 \u20ac%2F~", ".parkazoo", "a b", "s-0000000007"


class TestCopy(MapCase):
    def setUp(self) -> None:
        super().setUp()
        for client in self.plain[:2]:
            for path in (MIRRORS, MOVES, CLIENTS):
                client.ensure_path(path)
        self.at_a, self.at_b, _ = self.plain
        self.at_a.create(OLD)
        self.old, self.new = self.places([IDENTITY])

    def places(self, auth: list[tuple[str, str]]) -> tuple[TreePlace, TreePlace]:
        connecting = connect_to({"a": self.a, "b": self.b}, {"auth_data": auth}, 30.0)
        clients, absent = connecting.__enter__()
        self.addCleanup(connecting.__exit__, None, None, None)
        self.assertEqual(absent, [])
        return TreePlace(clients["a"], OLD), TreePlace(clients["b"], NEW)

    def fill(self, chance: random.Random, times: int = 300) -> None:
        """A history with everything that is carried."""
        paths = [OLD]
        own = make_digest_acl("admin", "secret-of-admin", all=True)
        for _ in range(times):
            path = chance.choice(paths)
            what = chance.randrange(5)
            if what == 0 and (made := f"{path}/{chance.choice(NAMES)}") not in paths:
                paths.append(self.at_a.create(made, b"x" * chance.randrange(99)))
            elif what == 1:
                paths.append(self.at_a.create(f"{path}/s-", sequence=True))
            elif what == 2:
                self.at_a.set(path, b"%d" % chance.randrange(9))
            elif what == 3 and path != OLD:
                self.at_a.set_acls(path, [chance.choice((own, make_acl("world", "anyone", all=True)))])
            elif what == 4 and path != OLD and not any(each.startswith(f"{path}/") for each in paths):
                self.at_a.delete(path)
                paths.remove(path)

    def stats(self, client: KazooClient, top: str) -> dict[str, tuple[object, ...]]:
        found: dict[str, tuple[object, ...]] = {}
        to_see = [top]
        while to_see:
            path = to_see.pop()
            data, stat = client.get(path)
            own = (data, stat.version, stat.aversion) if path != top else ()
            found[path[len(top) :]] = (*own, stat.cversion, stat.numChildren, client.get_acls(path)[0])
            to_see += [f"{path}/{name}" for name in client.get_children(path)]
        return found

    def test_all_is_carried(self) -> None:
        chance = random.Random(7)
        self.fill(chance)
        copy = MovingCopy.begin(self.new, MOVE, OPEN_ACL_UNSAFE)
        before = copy.bring(self.old)
        self.fill_more(chance)
        copy.make_exact(self.old, before)
        self.assertTrue(copy.seal())
        self.assertTrue(is_sealed(self.new))
        self.assertEqual(self.stats(self.at_b, NEW), self.stats(self.at_a, OLD))
        self.assertEqual(differences(look(self.old), look(self.new)), {})
        ours = self.at_a.create(f"{OLD}/n-", sequence=True)
        theirs = self.at_b.create(f"{NEW}/n-", sequence=True)
        self.assertEqual(ours[len(OLD) :], theirs[len(NEW) :])
        self.at_a.create("/fence")
        self.assertFalse(delete_place(self.old, ("/fence", 1)))
        self.assertTrue(delete_place(self.old, ("/fence", 0)))
        self.assertIsNone(self.at_a.exists(OLD))

    def fill_more(self, chance: random.Random) -> None:
        for name in self.at_a.get_children(OLD)[:5]:
            self.at_a.delete(f"{OLD}/{name}", recursive=True)
        for _ in range(20):
            self.at_a.create(f"{OLD}/s-", b"later", sequence=True)
        self.at_a.set_acls(OLD, [make_digest_acl("admin", "secret-of-admin", all=True)])

    def test_ephemerals_of_one_client_on_both(self) -> None:
        for client in (self.at_a, self.at_b):
            client.create(registration_path(client.client_id[0]), encode_registration(77, {}), ephemeral=True)
        self.at_a.create(f"{OLD}/e", b"1", ephemeral=True)
        copy = MovingCopy.begin(self.new, MOVE, OPEN_ACL_UNSAFE)
        before = copy.bring(self.old)
        with self.assertRaisesRegex(NotExactError, "no copy of their owner"):
            copy.make_exact(self.old, before)
        self.at_b.create(f"{NEW}/e", b"", ephemeral=True)
        self.at_a.set(f"{OLD}/e", b"2")
        copy.make_exact(self.old, before)
        self.assertEqual(differences(look(self.old), look(self.new)), {})
        self.assertEqual(self.at_b.get(f"{NEW}/e")[0], b"2")
        self.at_a.delete(f"{OLD}/e")
        self.at_b.delete(f"{NEW}/e")
        for client in (self.at_a, self.at_b):
            client.delete(registration_path(client.client_id[0]))

    def test_as_large_as_a_server_takes(self) -> None:
        room = 0xFFFFF - 200
        self.at_a.create(f"{OLD}/large", b"x" * room)
        self.at_a.create(f"{OLD}/larger", b"x" * (0xFFFFF - len(f"{OLD}/larger") - 60))
        copy = MovingCopy.begin(self.new, MOVE, OPEN_ACL_UNSAFE)
        with self.assertRaisesRegex(ImmovableError, f"{NEW}/large.* jute.maxbuffer"):
            copy.bring(self.old)
        self.at_a.delete(f"{OLD}/larger")
        self.at_a.set(f"{OLD}/large", b"x" * 900_000)
        copy.make_exact(self.old, UNSEEN)
        self.assertEqual(differences(look(self.old), look(self.new)), {})

    def test_a_server_that_starts_again_in_the_middle(self) -> None:
        for number in range(400):
            self.at_a.create_async(f"{OLD}/n{number}", b"data")
        copy = MovingCopy.begin(self.new, MOVE, OPEN_ACL_UNSAFE)
        server = self.cluster.ensembles[1].servers[0]
        restart = threading.Thread(target=server.restart)

        def disturb(done: int, total: int) -> None:
            if not restart.ident:
                restart.start()

        before = copy.bring(self.old, per_second=400, progress=disturb)
        restart.join()
        copy.make_exact(self.old, before)
        self.assertEqual(differences(look(self.old), look(self.new)), {})

    def test_taken_back(self) -> None:
        self.fill(random.Random(3), times=50)
        copy = MovingCopy.begin(self.new, MOVE, OPEN_ACL_UNSAFE)
        copy.bring(self.old)
        end_guard(self.new.client, MOVE)
        self.assertFalse(copy.seal())
        self.at_a.create(f"{OLD}/more")
        with self.assertRaises(TakenOverError):
            copy.make_exact(self.old, UNSEEN)
        remove_copy(self.new, MOVE)
        self.assertEqual((self.at_b.get_children(MOVES), self.at_b.get_children(MIRRORS)), ([], []))

    def test_without_the_right_to_read(self) -> None:
        self.at_a.create(f"{OLD}/secret", acl=[make_digest_acl("admin", "secret-of-admin", all=True)])
        old, new = self.places([])
        copy = MovingCopy.begin(new, MOVE, OPEN_ACL_UNSAFE)
        with self.assertRaisesRegex(NoRightError, f"no right to use {OLD}/secret on ensemble a"):
            copy.bring(old)
