"""`map identity add` and `remove` that end after each of their steps, and are repeated, while a client works."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from unittest import mock

from kazoo.security import ACL, make_digest_acl

from parkazoo import ParKazooClient
from parkazoo.admin import add_identity, init_map, read_history, remove_identity
from parkazoo.admin.ensemble_acls import ChangedACL, RemoteTree
from parkazoo.protocol.placement import FENCES, HISTORY, ROOT, join
from tests.live.map_case import FEW_FENCES, IDENTITY, MapCase, free_port
from tests.live.world import DEADLINE_S

NEW = ("digest", "next:hush")
DIRECTORIES = 3  # made after each step


class Crash(BaseException):
    """The process of the command ends here."""


class InterruptedTest(MapCase):
    def setUp(self) -> None:
        super().setUp()
        self.map = init_map(self.a, self.all, auth=[IDENTITY], closed=True)
        self.numbers = itertools.count()

    def closed_client(self, identity: tuple[str, str]) -> ParKazooClient:
        client = ParKazooClient(self.a, auth_data=[identity])
        self.addCleanup(client.close)
        self.addCleanup(client.stop)
        client.start(DEADLINE_S)
        return client

    def works(self, client: ParKazooClient) -> None:
        """First children of directories need mirrors and fences."""
        for number in itertools.islice(self.numbers, DIRECTORIES):
            client.create(f"/{number}/first/child", makepath=True)
            client.delete(f"/{number}", recursive=True)

    def ends_early(self, command: Callable[[], None]) -> bool:
        """Runs a command that ends behind the first ACLs that it sets. Returns whether it came so far."""
        set_acls = RemoteTree.set_acls

        def set_and_end(tree: RemoteTree, changes: Sequence[ChangedACL]) -> list[bool]:
            set_acls(tree, changes)
            raise Crash

        with mock.patch.object(RemoteTree, "set_acls", set_and_end):
            try:
                command()
            except Crash:
                return True
        return False

    def repeat_until_done(self, command: Callable[[], None], client: ParKazooClient) -> None:
        """The client works after each step: on each ensemble `/parkazoo` and the rest."""
        steps = 0
        while self.ends_early(command):
            steps += 1
            self.works(client)
        self.assertGreaterEqual(steps, 2 * len(self.plain))

    def assert_closed_to(self, *identities: tuple[str, str]) -> None:
        expected = [make_digest_acl(*credential.split(":"), all=True) for _, credential in identities]
        for client in self.plain:
            paths = [ROOT, *(join(ROOT, name) for name in client.get_children(ROOT) if "-" not in name)]
            for path in (*paths, *(f"{FENCES}/{number}" for number in range(FEW_FENCES))):  # clients make others
                self.assertEqual(client.get_acls(path)[0], expected, path)

    def roots(self) -> list[list[ACL]]:
        return [client.get_acls(ROOT)[0] for client in self.plain]

    def test_after_each_step(self) -> None:
        client = self.closed_client(IDENTITY)
        self.repeat_until_done(lambda: add_identity(self.a, NEW, auth=[IDENTITY]), client)
        self.assert_closed_to(IDENTITY, NEW)
        another = self.closed_client(NEW)
        for each in (another, client):
            self.works(each)
        another.stop()
        self.repeat_until_done(lambda: remove_identity(self.a, NEW, yes=True, auth=[IDENTITY]), client)
        self.assert_closed_to(IDENTITY)
        told = [each.what for each in read_history(self.a, auth=[IDENTITY])]
        added, removed = (f"identity digest:next: {verb}" for verb in ("add", "remove"))
        self.assertEqual({*told[1:]}, {f"{each} {how}" for each in (added, removed) for how in ("begun", "done")})
        self.assertEqual([each for each in told if "done" in each], [f"{added} done", f"{removed} done"])
        self.assertEqual(told[-1], f"{removed} done")

    def test_an_ensemble_is_away(self) -> None:
        before, history = self.roots(), self.plain[0].get(HISTORY)[0]
        self.publish(replace(self.map, ensembles={**self.all, "b": f"127.0.0.1:{free_port()}"}))
        for dry_run in (True, False):
            with self.refused("(?s)^no ACL is changed: .*ensemble b: "):
                add_identity(self.a, NEW, auth=[IDENTITY], dry_run=dry_run)
        self.assertEqual((self.roots(), self.plain[0].get(HISTORY)[0]), (before, history))
        self.publish(self.map)
        add_identity(self.a, NEW, auth=[IDENTITY])
        self.assert_closed_to(IDENTITY, NEW)

    def test_two_at_once(self) -> None:
        """Of one identity; and of two, of which one stays."""
        others = [("digest", f"other{number}:hush") for number in range(2)]
        add = partial(add_identity, self.a, auth=[IDENTITY])
        remove = partial(remove_identity, self.a, yes=True, auth=[IDENTITY])
        self.assertEqual(self.at_once(*(partial(add, each) for each in (NEW, NEW, *others))), [None] * 4)
        for root in self.roots():
            self.assertEqual(len(root), 4)
        self.assertEqual(self.at_once(*(partial(remove, each) for each in (NEW, NEW, *others))), [None] * 4)
        self.assert_closed_to(IDENTITY)
