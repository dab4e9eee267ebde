"""The cluster map, by clients that crash while they make it and by several at once."""

from __future__ import annotations

import contextlib
import itertools
from functools import partial
from typing import Any
from unittest import mock

from parkazoo import ParKazooClient
from parkazoo.admin import change_weights, init_map, read_map
from parkazoo.admin.clients import AdminClient
from parkazoo.admin.contents import DRAFT
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.placement import MAP
from tests.live.copies_case import rise_to
from tests.live.map_case import FEW_FENCES, IDENTITY, MapCase, check_but_strangers, wipe

# ROOT and the draft; ROOT, four, two of fences and the record on each of three; the map
WRITES = 2 + 3 * 8 + 1


class Crash(BaseException):
    """The process that makes the map ends here."""


class CrashTest(MapCase):
    def crash_after(self, writes: int, **options: Any) -> bool:
        """Make the map and crash after so many writes; whether it came to that."""
        left = itertools.count(writes, -1)
        make, commit = AdminClient.make, AdminClient.commit

        def make_and_crash(client: Any, *arguments: Any) -> bool:
            if next(left) == 0:
                raise Crash
            return make(client, *arguments)

        def commit_and_crash(client: Any, *arguments: Any) -> bool:
            if next(left) == 0:
                raise Crash
            return commit(client, *arguments)

        with (
            mock.patch.object(AdminClient, "make", make_and_crash),
            mock.patch.object(AdminClient, "commit", commit_and_crash),
            mock.patch("parkazoo.admin.make.CREATES_AT_ONCE", FEW_FENCES // 2),
        ):
            try:
                init_map(self.a, self.all, **options)
            except Crash:
                return True
        return False

    def test_repeat_after_a_crash_at_each_step(self) -> None:
        clusters = set()
        for writes in itertools.count():
            for client in self.plain:
                wipe(client)
            if not self.crash_after(writes):
                break
            is_published = self.plain[0].exists(MAP) is not None
            self.assertEqual(is_published, writes >= WRITES)
            has_copy = [client.exists(MAP) is not None for client in self.plain[1:]]
            self.assertEqual(sum(has_copy), max(0, writes - WRITES))
            begun = None
            if self.plain[0].exists(DRAFT):
                begun = ClusterMap.from_json(self.plain[0].get(DRAFT)[0])
            with self.subTest(writes=writes):
                made = init_map(self.a, self.all)
                self.assertEqual(made.cluster, begun.cluster if begun else made.cluster)
                self.assertEqual(read_map(self.a), made)
                self.assertEqual(check_but_strangers(self.a), [])
                self.assertIsNone(self.plain[0].exists(DRAFT))
                clusters.add(made.cluster)
        self.assertEqual(writes, WRITES + 2)  # the copies
        self.assertEqual(len(clusters), writes)

    def test_crash_and_other_arguments(self) -> None:
        self.assertTrue(self.crash_after(12))
        with self.refused(
            f"with other arguments was begun and not finished at {DRAFT}.*placement is a, b, c, not a, b"
        ):
            init_map(self.a, {"a": self.a, "b": self.b})
        with self.refused(
            f"a map was begun and not finished at {DRAFT} on ensemble a .*: .* its hosts as --bootstrap$"
        ):
            init_map(self.b, self.all)

    def test_crash_and_the_other_form(self) -> None:
        self.assertTrue(self.crash_after(12))
        with self.refused("is open to all: leave out --closed$"):
            init_map(self.a, self.all, auth=[IDENTITY], closed=True)

    def test_two_at_once(self) -> None:
        for _ in range(5):
            for client in self.plain:
                wipe(client)
            results = self.init_at_once({"ensembles": self.all}, {"ensembles": self.all}, {"ensembles": self.all})
            maps = [result for result in results if isinstance(result, ClusterMap)]
            self.assertEqual(len(maps), 3, results)
            self.assertEqual([each for each in maps if each != maps[0]], [])
            self.assertEqual(read_map(self.a), maps[0])
            self.assertEqual(check_but_strangers(self.a), [])

    def test_two_different_ones_at_once(self) -> None:
        for _ in range(5):
            for client in self.plain:
                wipe(client)
            results = self.init_at_once(
                {"ensembles": self.all}, {"ensembles": {"a": self.a, "c": self.c, "b": self.b}}
            )
            maps = [result for result in results if isinstance(result, ClusterMap)]
            errors = [result for result in results if isinstance(result, ClusterMapError)]
            self.assertEqual((len(maps), len(errors)), (1, 1), results)
            self.assertIn("its placement is", str(errors[0]))
            self.assertEqual(read_map(self.a), maps[0])
            self.assertEqual(check_but_strangers(self.a), [])

    def test_replace_after_a_crash_at_each_step(self) -> None:
        """The map, its bootstrap ensemble and another one: with the same arguments it is finished."""
        init_map(self.a, self.all)
        made = read_map(self.a)
        for name, client in (("b", self.plain[1]), ("a", self.plain[0])):
            for writes in itertools.count():
                wipe(client)
                has_crashed = self.crash_after(writes, replace=[name])
                with self.subTest(name=name, writes=writes):
                    self.assertEqual(init_map(self.a, self.all, replace=[name]), made)
                    self.assertEqual(init_map(self.a, self.all), made)
                    self.assertEqual(check_but_strangers(self.a), [])
                if not has_crashed:
                    break
            self.assertGreater(writes, 5)

    def test_replace_on_the_way_after_a_crash_at_each_step(self) -> None:
        """The bootstrap ensemble of a map that is not plain any more: what was begun is finished."""
        for form in (Form.TOLERANT, Form.GUARDED, Form.GROWN):
            for writes in itertools.count(2, 3):  # each would take long
                for client in self.plain:
                    wipe(client)
                self.work_at(form)
                wipe(self.plain[0])
                options = {"replace": ["a"], "form": "grown" if form is Form.GROWN else "plain"}
                has_crashed = self.crash_after(writes, **options)
                with self.subTest(form=form.word, writes=writes):
                    made = init_map(self.a, self.all, **options)
                    self.assertIs(made.form, max(form, Form.GUARDED))
                    self.assertEqual(check_but_strangers(self.a), [])
                if not has_crashed:
                    break
            self.assertGreater(writes, 5)

    def test_another_loss_before_it_is_repeated(self) -> None:
        """What was given up is no leave to give up more, nor is the draft."""
        init_map(self.a, self.all)
        wipe(self.plain[0])
        self.assertTrue(self.crash_after(12, replace=["a"]))
        wipe(self.plain[1])
        with self.refused("--replace a --replace b$"):
            init_map(self.a, self.all)
        with self.refused("--replace b$"):
            init_map(self.a, self.all, replace=["a"])
        init_map(self.a, self.all, replace=["a", "b"])
        self.assertEqual(check_but_strangers(self.a), [])

    def work_at(self, form: Form) -> None:
        """Make a map that rises to this form; one of form grown gets a second epoch, and directories by it."""
        init_map(self.a, self.all)
        rise_to(self.a, form)
        if form is Form.GROWN:
            change_weights(self.a, {"a": 0, "b": 0})
        with contextlib.closing(ParKazooClient(self.a)) as client:
            client.start(30)
            for number in range(4):
                client.create(f"/{number}/child", makepath=True)
            client.stop()

    def test_two_replace_at_once(self) -> None:
        made = init_map(self.a, self.all)
        for names in (["b"], ["a"], ["c", "a"]):
            for name in names:
                wipe(self.plain["abc".index(name)])
            results = self.init_at_once(*[{"ensembles": self.all, "replace": names}] * 3)
            self.assertEqual(results, [made] * 3)
            self.assertEqual(read_map(self.a), made)
            self.assertEqual(check_but_strangers(self.a), [])

    def init_at_once(self, *calls: dict[str, Any]) -> list[Any]:
        return self.at_once(*(partial(init_map, self.a, **each) for each in calls))
