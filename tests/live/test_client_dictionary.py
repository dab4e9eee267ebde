"""client.DistributedDict as a dict, with each policy, and between clients."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import suppress
from unittest import mock

from kazoo.exceptions import BadArgumentsError, NoAuthError
from kazoo.security import OPEN_ACL_UNSAFE, make_acl, make_digest_acl

from parkazoo import PartlyDoneError
from parkazoo.structures.distributed_dict import DistributedDict
from parkazoo.structures.policies import Always, Count, Linearizable, Lock, Policy, Time, Watch
from parkazoo.structures.reading import EntryReader
from parkazoo.wire.member import Member
from tests.live.dictionary_case import DictionaryTest
from tests.live.world import wait_until

POLICIES: tuple[Callable[[], Policy], ...] = (Watch, Always, Linearizable, Lock, lambda: Count(1), lambda: Time(0))
COUNT = 15
MANY = 300
LARGE = 1_000_000


class TestAsADict(DictionaryTest):
    def test_with_each_policy(self) -> None:
        for number, make in enumerate(POLICIES):
            for shards in (1, 5):
                with self.subTest(make(), shards=shards):
                    path = f"{self.path}{number}-{shards}"
                    mine = self.dictionary(refresh=make(), path=path, shards=shards)
                    other = self.dictionary(self.other, make(), path=path, shards=shards)
                    self.check(mine, other)

    def check(self, mine: DistributedDict, other: DistributedDict) -> None:
        self.assertEqual((len(mine), list(mine), mine.copy(), bool(mine)), (0, [], {}, False))
        mine["hello"] = "world"
        self.assertEqual(mine["hello"], "world")
        self.becomes(other, {"hello": "world"})
        other["hello"] = {"mars": [1, None]}
        other.update({"a/b": 1}, **{"": 2.5})
        items = {"hello": {"mars": [1, None]}, "a/b": 1, "": 2.5}
        self.becomes(mine, items)
        self.assertEqual((mine, {**mine}, dict(mine.items())), (items, items, items))
        self.assertEqual((sorted(mine), sorted(mine.keys()), len(mine)), (sorted(items), sorted(items), 3))
        self.assertEqual(sorted(map(repr, mine.values())), sorted(map(repr, items.values())))
        self.assertEqual(
            ("hello" in mine, "no" in mine, 1 in mine.values(), 7 in mine.values()), (True, False) * 2
        )
        self.assertEqual((mine.get("no"), mine.get("no", 3), mine.get("a/b")), (None, 3, 1))
        self.assertEqual((mine | {"x": 1}, {"x": 1} | mine), ({**items, "x": 1},) * 2)
        self.assertEqual(mine.snapshot(), items)
        self.assertEqual(eval(repr(mine), {"DistributedDict": lambda path, items: items}), items)
        self.assertEqual((mine.setdefault("a/b", 9), mine.setdefault("new", 9)), (1, 9))
        self.assertEqual((mine.pop("new"), mine.pop("new", None)), (9, None))
        for wrong in (lambda: mine["no"], lambda: mine.pop("no"), lambda: mine.__delitem__("no")):
            with self.assertRaisesRegex(KeyError, "no"):
                wrong()
        del mine["hello"]
        mine |= {"a/b": 2}
        self.becomes(other, {"a/b": 2, "": 2.5})
        key, value = mine.popitem()
        self.assertEqual(value, {"a/b": 2, "": 2.5}[key])
        other.clear()
        self.becomes(mine, {})
        self.assertRaises(KeyError, mine.popitem)
        mine.clear()
        mine.update()

    def test_compare_and_set(self) -> None:
        for make in POLICIES:
            with self.subTest(make()):
                mine, other = self.dictionary(refresh=make()), self.dictionary(self.other, make())
                self.assertTrue(mine.compare_and_set("n", None, 0))
                self.assertFalse(other.compare_and_set("n", None, 5))
                self.assertEqual(other.get_with_version("n"), (0, 0))
                self.assertTrue(other.compare_and_set("n", 0, 1))
                self.assertFalse(mine.compare_and_set("n", 0, 7))
                self.assertEqual(mine.get_with_version("n"), (1, 1))
                self.assertFalse(mine.compare_and_set("no", 0, 7))
                self.assertRaises(KeyError, mine.get_with_version, "no")
                mine.clear()

    def test_no_update_is_lost(self) -> None:
        def add(mine: DistributedDict) -> None:
            for _ in range(COUNT):
                while not mine.compare_and_set("n", *self.next(mine, "n")):
                    pass

        self.dictionary()["n"] = 0
        users = [self.dictionary(client, make()) for client in (self.client, self.other) for make in (Watch, Lock)]
        self.run_together(*(lambda user=user: add(user) for user in users))
        self.assertEqual(self.dictionary(refresh=Always())["n"], len(users) * COUNT)

    def test_a_pop_gives_each_entry_once(self) -> None:
        self.dictionary().update({str(number): number for number in range(MANY)})
        taken: list[int] = []

        def take(mine: DistributedDict) -> None:
            with suppress(KeyError):
                while True:
                    taken.append(mine.popitem()[1])

        users = [self.dictionary(client, Watch(), shards=1) for client in (self.client, self.other)]
        self.run_together(*(lambda user=user: take(user) for user in users))
        self.assertEqual(sorted(taken), list(range(MANY)))

    def test_a_pop_reads_first(self) -> None:
        """What it returns is not what another process has taken before."""
        mine, other = self.dictionary(refresh=Count(1000)), self.dictionary(self.other)
        mine["x"] = "first"
        self.assertEqual(other.pop("x"), "first")
        other["x"] = "second"
        self.assertEqual(mine.pop("x"), "second")

    def test_the_own_writes_are_in_the_copy(self) -> None:
        mine = self.dictionary()
        for number in range(MANY):
            mine["x"] = number
            self.assertEqual(mine["x"], number)
            (mine.clear, lambda: mine.pop("x"), lambda: mine.__delitem__("x"))[number % 3]()
            self.assertNotIn("x", mine)

    def test_a_refresh_that_fails_is_not_done(self) -> None:
        for policy in (Time(1000), Count(2)):
            mine, other = self.dictionary(refresh=policy), self.dictionary(self.other, Always())
            if isinstance(policy, Count):
                len(mine)
            other["x"] = str(policy)
            with mock.patch.object(EntryReader, "fetch_all", side_effect=NoAuthError):
                self.assertRaises(NoAuthError, len, mine)
            self.assertEqual(mine["x"], str(policy))

    def test_values(self) -> None:
        """What others read, and no part of the copy."""
        mine = self.dictionary()
        mine["x"] = (1, 2)
        self.assertEqual(mine["x"], [1, 2])
        mine["x"].append(3)
        self.assertEqual(mine["x"], [1, 2])
        pickled = self.dictionary(path=f"{self.path}-pickle", serializer=pickle)
        pickled["x"] = {(1, 2)}
        self.assertEqual(pickled["x"], {(1, 2)})
        plain = self.dictionary(path=f"{self.path}-bytes", serializer=None)
        plain["x"] = b"1"
        self.assertEqual((plain["x"], self.client.get(f"{self.path}-bytes/x")[0]), (b"1", b"1"))
        self.assertRaisesRegex(TypeError, "'x': without a serializer values are bytes, not int", plain.update, x=1)

    def test_plain_znodes(self) -> None:
        """kazoo's programs read and write the same."""
        mine = self.dictionary()
        mine["a/b"] = "1"
        self.assertEqual(self.other.get(f"{self.path}/a%2Fb")[0], b'"1"')
        self.other.create(f"{self.path}/x", b"[1]")
        self.other.create(f"{self.path}/%zz", b"no key has this name")
        self.becomes(mine, {"a/b": "1", "x": [1]})
        self.other.create(f"{self.path}/bad", b"{")
        wait_until(lambda: len(mine) == 3, "the entry is there")
        self.assertRaises(ValueError, lambda: mine["bad"])
        self.assertEqual(mine["x"], [1])

    def test_nothing_is_sent(self) -> None:
        mine = self.dictionary()
        with mock.patch.object(Member, "submit", side_effect=AssertionError):
            for key in (None, 5, b"a"):
                for call in (
                    lambda key=key: mine[key],
                    lambda key=key: mine.__setitem__(key, 1),
                    lambda key=key: mine.__delitem__(key),
                    lambda key=key: mine.pop(key, None),
                    lambda key=key: mine.setdefault(key),
                    lambda key=key: mine.update({"a": 1, key: 1}),
                    lambda key=key: mine.compare_and_set(key, 0, 1),
                ):
                    self.assertRaisesRegex(TypeError, "keys are str", call)
                self.assertNotIn(key, mine)
            for version, error in ((-1, ValueError), ("0", TypeError), (0.5, TypeError), (True, TypeError)):
                self.assertRaisesRegex(error, "version must be", mine.compare_and_set, "a", version, 1)
            self.assertRaisesRegex(TypeError, "JSON", mine.__setitem__, "a", {1})
            self.assertRaisesRegex(
                ValueError, "'a': path and value have 1,000,0.. bytes", mine.update, a="x" * LARGE
            )
            self.assertRaisesRegex(TypeError, "takes a function", mine.on_change, 5)
            for error, told, options in (
                (TypeError, "a policy, such as Watch", {"refresh": "always"}),
                (ValueError, "from 1 to 4096, not 0", {"shards": 0}),
                (TypeError, "dumps and loads", {"serializer": 5}),
                (TypeError, "True or False", {"ephemeral": "no"}),
                (ValueError, "the root", {"path": "/"}),
                (TypeError, "string expected", {"path": 5}),
                (BadArgumentsError, "reserved for ParKazoo", {"path": "/parkazoo/x"}),
            ):
                with self.assertRaisesRegex(error, told):
                    self.dictionary(**options)  # type: ignore[arg-type]

    def test_other_shards(self) -> None:
        self.dictionary(shards=3)["x"] = 1
        self.assertRaisesRegex(ValueError, "made with shards=3", self.dictionary)
        self.assertRaisesRegex(ValueError, "made with shards=3", self.dictionary, shards=4)
        self.assertEqual(self.dictionary(shards=3).copy(), {"x": 1})

    def test_other_shards_before_there_was_a_directory(self) -> None:
        """And behind its end."""
        one, four = self.dictionary(), self.dictionary(shards=4)
        three = self.dictionary(self.other, shards=3)
        three["x"] = 1
        with self.assertRaisesRegex(ValueError, "made with shards=3"):
            one["y"] = 1
        with self.assertRaisesRegex(ValueError, "made with shards=3"):
            four["y"] = 1
        self.becomes(three, {"x": 1})
        self.client.delete(self.path, recursive=True)
        four["x"] = 1
        self.client.delete(self.path, recursive=True)
        self.dictionary(shards=2).update(dict.fromkeys("abcdef", 1))
        with self.assertRaisesRegex(ValueError, "made with shards=2"):
            four["y"] = 1
        self.client.delete(self.path, recursive=True)
        one["x"] = 1
        with self.assertRaisesRegex(ValueError, "made without shards"):
            three["y"] = 1

    def test_made_again_with_shards(self) -> None:
        """It does not write beside them."""
        mine = self.dictionary()
        mine["x"] = 1
        self.client.delete(self.path, recursive=True)
        other = self.dictionary(self.other, shards=3)
        other["y"] = 2
        wait_until(lambda: not mine.is_stale and "x" not in mine, "it sees that")
        for write in (lambda: mine.update(x=1), lambda: mine.setdefault("z", 1)):
            with self.assertRaisesRegex(ValueError, "made with shards=3"):
                write()
        self.assertEqual(other.copy(), {"y": 2})

    def test_below_a_chroot(self) -> None:
        zk = self.parkazoo(self.root)
        self.dictionary(zk, path="d")["x"] = 1
        self.becomes(self.dictionary(), {"x": 1})

    def test_large_updates(self) -> None:
        """In several transactions."""
        mine, other = self.dictionary(), self.dictionary(self.other)
        large = {str(number): "x" * 100_000 for number in range(12)}
        mine.update(large)
        self.becomes(other, large)
        other.update(dict.fromkeys(large, 1) | {"new": 1})
        self.becomes(mine, dict.fromkeys(large, 1) | {"new": 1})
        stale = self.dictionary(refresh=Count(1000))
        other.update({"another": 1})
        stale.update({"another": 2, "new": 2, "last": 2})
        self.becomes(other, dict.fromkeys(large, 1) | {"another": 2, "new": 2, "last": 2})

    def test_a_large_update_of_long_keys(self) -> None:
        """Sizes are those of the bytes that are sent: these have three for each letter."""
        mine = self.dictionary()
        items = {"\u6f22" * 300 + str(number): number for number in range(1500)}
        mine.update(items)
        self.becomes(self.dictionary(self.other), items)

    def test_an_entry_that_may_not_be_read(self) -> None:
        """The others go on. When it has gone, and comes back, it is read."""
        owner = self.parkazoo(auth_data=[("digest", "u:p")])
        mine = self.dictionary()
        mine["x"] = 1
        with self.assertLogs("parkazoo", "WARNING") as logs:
            owner.create(f"{self.path}/y", b"1", [make_digest_acl("u", "p", all=True)])
            wait_until(lambda: logs.output, "it is logged")
        self.assertRaisesRegex(NoAuthError, f"{self.path}/y", lambda: mine["y"])
        for make in POLICIES:
            self.assertEqual(self.dictionary(refresh=make()).copy(), {"x": 1})
        generation = mine._keeper._generation  # type: ignore[union-attr]
        owner.set(f"{self.path}/y", b"2")
        self.other.set(f"{self.path}/x", b"2")
        self.becomes(mine, {"x": 2})
        wait_until(lambda: not mine.is_stale, "it is kept")
        self.assertEqual(mine._keeper._generation, generation)  # type: ignore[union-attr]
        owner.delete(f"{self.path}/y")
        self.other.create(f"{self.path}/y", b"3")
        self.becomes(mine, {"x": 2, "y": 3})

    def test_an_update_is_partly_done(self) -> None:
        mine = self.dictionary()
        mine["3"] = 0
        self.client.set_acls(f"{self.path}/3", [make_acl("world", "anyone", read=True, admin=True)])
        values = {str(number): "x" * 300_000 for number in range(5)}
        with self.assertRaisesRegex(PartlyDoneError, "1 entries are done, 4 are not, 0 may be") as raised:
            mine.update({key: values[key] for key in "03124"})
        self.assertIsInstance(raised.exception.__cause__, NoAuthError)
        self.assertEqual((raised.exception.done, raised.exception.left), (("0",), ("3", "1", "2", "4")))
        with self.assertRaisesRegex(NoAuthError, f"{self.path}/3"):
            mine["3"] = 1
        self.assertEqual(mine.get_with_version("3"), (0, 0))
        self.client.set_acls(f"{self.path}/3", OPEN_ACL_UNSAFE)
        mine["3"] = 1


class TestOneEnsemble(TestAsADict):
    ensembles = 1
