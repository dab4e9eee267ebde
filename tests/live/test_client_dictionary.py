"""client.DistributedDict: as a dict, between clients, and through all that happens to connections and sessions."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from unittest import mock

from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    NoAuthError,
    SessionExpiredError,
)
from kazoo.protocol.states import KazooState
from kazoo.security import OPEN_ACL_UNSAFE, make_acl

from parkazoo import ForkError, OutcomeUnknown, PartlyDoneError
from parkazoo.kazoo_private import CONNECTION_DROP, SESSION_EXPIRED
from parkazoo.structures.dictionary import DistributedDict
from parkazoo.structures.policies import Always, Count, Linearizable, Lock, Policy, Time, Watch
from parkazoo.wire.member import Member
from tests.live.test_client_fork import fork, wait_for
from tests.live.test_client_once import lost_answer
from tests.live.world import DEADLINE_S, LiveTest, wait_until

POLICIES: tuple[Callable[[], Policy], ...] = (Watch, Always, Linearizable, Lock, lambda: Count(1), lambda: Time(0))
WORKERS, COUNT = 3, 15
MANY = 300
LARGE = 1_000_000


class DictionaryTest(LiveTest):
    def setUp(self) -> None:
        super().setUp()
        self.client, self.other = self.parkazoo(), self.parkazoo()
        self.root = self.new_root(self.client)
        self.path = f"{self.root}/d"

    def dictionary(self, client: Any = None, refresh: Policy | None = None, **options: Any) -> DistributedDict:
        made = (client or self.client).DistributedDict(options.pop("path", self.path), refresh, **options)
        self.addCleanup(self.close, made)
        return made

    def close(self, made: DistributedDict) -> None:
        with suppress(ForkError):
            made.close()

    def becomes(self, found: DistributedDict, items: dict[str, Any]) -> None:
        wait_until(lambda: found.copy() == items, f"{items}, it is {found.copy()}")

    def heard(self, found: DistributedDict) -> list[tuple[Any, ...]]:
        """What is told of changes, from now on."""
        told: list[tuple[Any, ...]] = []
        found.on_change(lambda *change: told.append(change))
        return told

    def next(self, found: DistributedDict, key: str) -> tuple[int, int]:
        """For an add: the version, and one more than the value."""
        value, version = found.get_with_version(key)
        return version, value + 1

    def run_together(self, *calls: Callable[[], None]) -> None:
        """Each on a thread or greenlet of its own; the first error is raised."""
        ended: list[BaseException | None] = []

        def run(call: Callable[[], None]) -> None:
            try:
                call()
            except BaseException as error:
                ended.append(error)
            else:
                ended.append(None)

        for call in calls:
            self.client.handler.spawn(run, call)
        wait_until(lambda: len(ended) == len(calls), "all have ended")
        for error in ended:
            if error is not None:
                raise error


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
                    lambda key=key: key in mine,
                    lambda key=key: mine.__setitem__(key, 1),
                    lambda key=key: mine.__delitem__(key),
                    lambda key=key: mine.pop(key, None),
                    lambda key=key: mine.setdefault(key),
                    lambda key=key: mine.update({"a": 1, key: 1}),
                    lambda key=key: mine.compare_and_set(key, 0, 1),
                ):
                    self.assertRaisesRegex(TypeError, "keys are str", call)
            self.assertRaisesRegex(TypeError, "JSON", mine.__setitem__, "a", {1})
            self.assertRaisesRegex(
                ValueError, "'a': path and value have 1,000,0.. bytes", mine.update, a="x" * LARGE
            )
            self.assertRaisesRegex(TypeError, "takes a function", mine.on_change, 5)
            for error, told, options in (
                (TypeError, "a policy, such as Watch", {"refresh": "always"}),
                (ValueError, "from 1 to 4096, not 0", {"shards": 0}),
                (ValueError, "the root", {"path": "/"}),
                (TypeError, "string expected", {"path": 5}),
            ):
                with self.assertRaisesRegex(error, told):
                    self.dictionary(**options)  # type: ignore[arg-type]

    def test_other_shards(self) -> None:
        self.dictionary(shards=3)["x"] = 1
        self.assertRaisesRegex(ValueError, "made with shards=3", self.dictionary)
        self.assertRaisesRegex(ValueError, "number of buckets", self.dictionary, shards=4)
        self.assertEqual(self.dictionary(shards=3).copy(), {"x": 1})

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


class TestChanges(DictionaryTest):
    def test_they_are_told(self) -> None:
        mine = self.dictionary()
        told = self.heard(mine)
        for other in (self.dictionary(self.other), mine):
            other["x"] = 1
            self.becomes(mine, {"x": 1})
            wait_until(lambda: told == [("x", None, 1, 0)], f"told: {told}")
            other["x"] = [2]
            wait_until(lambda: told[1:] == [("x", 1, [2], 1)], f"told: {told}")
            del other["x"]
            wait_until(lambda: told[2:] == [("x", [2], None, None)], f"told: {told}")
            told.clear()

    def test_in_order_and_the_last_state_always(self) -> None:
        mine, other = self.dictionary(shards=4), self.dictionary(self.other, shards=4)
        told = self.heard(mine)
        for number in range(MANY):
            other[str(number % 7)] = number
        last = {str(key): max(n for n in range(MANY) if n % 7 == key) for key in range(7)}
        wait_until(lambda: {key: new for key, _, new, _ in told} == last, "the last of each")
        for key in last:
            mine_alone = [(old, new) for name, old, new, _ in told if name == key]
            self.assertEqual([new for _, new in mine_alone], sorted(new for _, new in mine_alone))
            self.assertEqual([old for old, _ in mine_alone[1:]], [new for _, new in mine_alone[:-1]])

    def test_callbacks_may_do_everything(self) -> None:
        mine = self.dictionary()

        @mine.on_change
        def echo(key: str, old: Any, new: Any, version: int | None) -> None:
            if key.startswith("ask-") and new is not None:
                mine[f"echo-{key}"] = [new, mine.snapshot()[key], len(mine) > 0]
                del mine[key]

        self.dictionary(self.other).update({"ask-1": 1, "ask-2": 2})
        self.becomes(mine, {"echo-ask-1": [1, 1, True], "echo-ask-2": [2, 2, True]})

    def test_a_callback_that_takes_its_time(self) -> None:
        """It delays other callbacks, and nothing else; what comes meanwhile is told as one."""
        mine, other = self.dictionary(), self.dictionary(self.other)
        is_over, told = self.client.handler.event_object(), []

        @mine.on_change
        def wait(*change: Any) -> None:
            told.append(change)
            is_over.wait(DEADLINE_S)

        for number in range(5):
            other["x"] = number
            self.becomes(mine, {"x": number})
        self.assertEqual(told, [("x", None, 0, 0)])
        is_over.set()
        wait_until(lambda: told[1:] == [("x", 0, 4, 4)], f"told: {told}")

    def test_errors_and_the_last_call(self) -> None:
        mine = self.dictionary()
        calls: list[str] = []

        @mine.on_change
        def fail(key: str, *change: Any) -> None:
            calls.append(f"fail {key}")
            raise ValueError("a test wants it")

        @mine.on_change
        def once(key: str, *change: Any) -> bool:
            calls.append(f"once {key}")
            return False

        with self.assertLogs("parkazoo", "ERROR") as logs:
            mine["x"] = 1
            wait_until(lambda: calls == ["fail x", "once x"], f"{calls}")
            mine["y"] = 1
            wait_until(lambda: calls[2:] == ["fail y"], f"{calls}")
        self.assertIn("a test wants it", logs.output[0])

    def test_with_other_policies_when_the_copy_is_read(self) -> None:
        mine = self.dictionary(refresh=Lock())
        told = self.heard(mine)
        self.dictionary(self.other).update(x=1, y=2)
        self.assertEqual(told, [])
        len(mine)
        wait_until(lambda: sorted(told) == [("x", None, 1, 0), ("y", None, 2, 0)], f"{told}")

    def watched(self) -> list[bool]:
        """Whether the client has watches, by ensemble."""
        return [member.has_watches for member in self.client.members.values()]  # type: ignore[attr-defined]

    def test_closed(self) -> None:
        listeners = len(self.client.state_listeners)
        with self.dictionary() as mine, self.dictionary(shards=3, path=f"{self.path}-3") as spread:
            told = self.heard(mine)
            mine["x"] = 1
            spread.update(x=1, y=2, z=3)
            wait_until(lambda: told and any(self.watched()), "it is told, and kept")
        self.assertEqual(len(self.client.state_listeners), listeners)
        wait_until(lambda: not any(self.watched()), "no watch is left")
        self.dictionary(self.other)["x"] = 2
        self.becomes(self.dictionary(), {"x": 2})
        self.assertEqual((mine["x"], mine.is_stale, len(told)), (1, True, 1))


class TestDirectory(DictionaryTest):
    def test_made_by_the_first_write(self) -> None:
        path = f"{self.root}/not/yet"
        mine, other = self.dictionary(path=path), self.dictionary(self.other, path=path)
        self.assertEqual((mine.copy(), self.client.exists(f"{self.root}/not")), ({}, None))
        other["x"] = 1
        self.becomes(mine, {"x": 1})

    def test_deleted_and_made_again(self) -> None:
        for shards in (1, 3):
            path = f"{self.path}-{shards}"
            mine, other = (self.dictionary(zk, path=path, shards=shards) for zk in (self.client, self.other))
            told = self.heard(mine)
            for number in range(3):
                other.update(x=number, y=number)
                self.becomes(mine, {"x": number, "y": number})
                self.client.delete(path, recursive=True)
                self.becomes(mine, {})
            wait_until(lambda told=told: told[-1][2:] == (None, None), "the last is told")


class TestLostConnections(DictionaryTest):
    def test_an_answer_is_lost(self) -> None:
        for make in (Watch, Always, lambda: Count(1000)):
            for shards in (1, 3):
                mine = self.dictionary(refresh=make(), path=f"{self.path}-{shards}", shards=shards)
                with self.subTest(make()):
                    for write, expected in (
                        (lambda mine=mine: mine.__setitem__("x", 1), {"x": 1}),
                        (lambda mine=mine: mine.__setitem__("x", 2), {"x": 2}),
                        (lambda mine=mine: mine.compare_and_set("x", 1, 3), {"x": 3}),
                        (lambda mine=mine: mine.update(x=4, y=4, z=4), {"x": 4, "y": 4, "z": 4}),
                        (lambda mine=mine: mine.pop("x"), {"y": 4, "z": 4}),
                        (lambda mine=mine: mine.setdefault("x", 5), {"x": 5, "y": 4, "z": 4}),
                        (lambda mine=mine: mine.clear(), {}),
                    ):
                        with lost_answer("/x"):
                            write()
                        self.assertEqual(mine.copy(), expected)
                mine.clear()

    def test_another_write_comes_before_the_outcome_is_known(self) -> None:
        """The copy does not take the own value for the newer one."""
        for make in (Watch, Always, lambda: Count(1000)):
            mine, other = self.dictionary(refresh=make()), self.dictionary(self.other, Always())
            with self.subTest(make()):
                mine["x"] = 0
                with self.behind_it(lambda other=other: other.__setitem__("x", "theirs")), lost_answer("/x"):
                    mine["x"] = "mine"
                self.assertEqual(mine.get_with_version("x"), ("theirs", 2))
                with self.behind_it(other.clear), lost_answer("/x"):
                    mine["x"] = "mine"  # it was done, and is gone
                self.assertNotIn("x", mine)

    @contextmanager
    def behind_it(self, call: Callable[[], None]) -> Iterator[None]:
        """Once, while a write pauses until it asks what has become of it."""
        calls = [call]
        with mock.patch.object(self.client.handler, "sleep_func", lambda seconds: calls and calls.pop()()):
            yield
        self.assertEqual(calls, [])

    def test_the_session_ends(self) -> None:
        """Nobody knows then, and it says so."""
        mine = self.dictionary(refresh=Always())
        mine["x"] = 0
        ensemble = self.placement.of_children(self.path)
        member = self.member(self.client, ensemble)
        session = member.client_id

        def pause(seconds: float) -> None:
            wait_until(lambda: self.client.connected and member.client_id != session, "a new session")

        with (
            mock.patch.object(self.client.handler, "sleep_func", pause),
            lost_answer("/x", lambda: member.renew("a test wants it")),
            self.assertRaisesRegex(OutcomeUnknown, "'x': nobody knows") as raised,
        ):
            mine["x"] = 1
        self.assertEqual(raised.exception.keys, ("x",))
        self.assertIsInstance(raised.exception.__cause__, SessionExpiredError)
        self.assertEqual(mine["x"], 1)

    def test_each_write_once(self) -> None:
        """Connections are lost all the time."""
        mine, other = self.dictionary(shards=2), self.dictionary(self.other, shards=2)
        done: list[int] = []

        def work(name: str) -> None:
            for number in range(COUNT):
                mine[name] = number
                while not mine.compare_and_set("all", *self.next(mine, "all")):
                    pass
                done.append(number)

        def disturb() -> None:
            while len(done) < WORKERS * COUNT:
                before = len(done)
                self.client._call(CONNECTION_DROP, None)
                wait_until(lambda before=before: len(done) > before or len(done) == WORKERS * COUNT, "a write")

        mine["all"] = 0
        self.run_together(disturb, *(lambda name=name: work(name) for name in "abc"[:WORKERS]))
        expected = {"all": WORKERS * COUNT, **dict.fromkeys("abc"[:WORKERS], COUNT - 1)}
        for each in (mine, other):
            self.becomes(each, expected)
            for key, value in expected.items():
                self.assertEqual(each.get_with_version(key)[1], value, key)  # as many writes as there were

    def test_changes_while_it_was_away(self) -> None:
        mine, other = self.dictionary(), self.dictionary(self.other)
        strict = self.dictionary(refresh=Watch(raises=True))
        other.update(gone=1, changed=1, same=1)
        self.becomes(mine, {"gone": 1, "changed": 1, "same": 1})
        told = self.heard(mine)
        submit = Member.submit

        def refusing(member: Member, request: Any, reply: Any) -> None:
            if reply is None:
                submit(member, request, reply)
            else:
                reply.set_exception(ConnectionLoss())

        with mock.patch.object(Member, "submit", refusing):
            self.client._call(CONNECTION_DROP, None)
            wait_until(lambda: mine.is_stale, "it is stale")
            self.assertEqual(mine["changed"], 1)
            self.assertRaises(ConnectionLoss, len, strict)
        del other["gone"]
        other["changed"] = 2
        other["new"] = 3
        self.becomes(mine, {"changed": 2, "same": 1, "new": 3})
        wait_until(lambda: not mine.is_stale and not strict.is_stale, "it is fresh again")
        self.assertEqual(len(strict), 3)
        wait_until(
            lambda: sorted(told) == [("changed", 1, 2, 1), ("gone", 1, None, None), ("new", None, 3, 0)],
            f"{told}",
        )

    def test_lost(self) -> None:
        """Ephemeral entries are gone, and that is told. The others are read again."""
        mine = self.dictionary(ephemeral=True)
        other = self.dictionary(self.other, ephemeral=True)
        mine["me"] = 1
        other["other"] = 1
        self.becomes(mine, {"me": 1, "other": 1})
        told = self.heard(mine)
        states: list[str] = []
        self.client.add_listener(states.append)
        self.client._call(SESSION_EXPIRED, None)
        wait_until(lambda: KazooState.LOST in states, "LOST")
        self.becomes(mine, {"other": 1})
        self.becomes(other, {"other": 1})
        wait_until(lambda: told == [("me", 1, None, None)], f"{told}")
        mine["me"] = 2
        self.becomes(other, {"me": 2, "other": 1})

    def test_stopped_and_started_again(self) -> None:
        mine = self.dictionary()
        mine["x"] = 1
        self.client.stop()
        self.assertEqual((mine["x"], mine.is_stale), (1, True))
        for call in (lambda: mine.__setitem__("x", 2), mine.snapshot, lambda: mine.pop("x"), mine.clear):
            self.assertRaises(ConnectionClosedError, call)
        self.dictionary(self.other)["x"] = 3
        self.client.start(DEADLINE_S)
        self.becomes(mine, {"x": 3})
        wait_until(lambda: not mine.is_stale, "it is kept again")
        self.dictionary(self.other)["x"] = 4
        self.becomes(mine, {"x": 4})

    def test_a_fork(self) -> None:
        mine = self.dictionary()
        mine["x"] = 1
        pid = fork()
        if not pid:  # the child
            calls = (
                lambda: mine["x"],
                lambda: len(mine),
                lambda: mine.__setitem__("x", 2),
                mine.snapshot,
                mine.close,
            )
            os._exit(int(not all(self.raises_as(call) is ForkError for call in calls)))
        self.assertEqual(wait_for(pid), 0)
        mine["x"] = 2
        self.assertEqual(mine["x"], 2)


class TestEphemeral(DictionaryTest):
    def test_an_entry_ends_with_the_session_of_its_last_writer(self) -> None:
        first = self.parkazoo()
        for make in (Watch, Always):
            with self.subTest(make()):
                mine = self.dictionary(refresh=make(), ephemeral=True)
                old = self.dictionary(first, make(), ephemeral=True)
                old.update(me=1, other=1)
                mine["me"] = 2
                mine["me"] = 3
                mine.update(me=4, more=4)
                owner = self.client.client_id
                assert owner is not None
                self.assertEqual(self.other.get(f"{self.path}/me")[1].ephemeralOwner, owner[0])
                first.stop()
                self.becomes(mine, {"me": 4, "more": 4})
                mine.clear()
                first.start(DEADLINE_S)

    def test_taken_over_from_what_is_not_known(self) -> None:
        mine, theirs = (self.dictionary(zk, Always(), ephemeral=True) for zk in (self.client, self.other))
        mine["x"] = 1
        theirs["x"] = 2
        mine["x"] = 3  # its copy says that it is its own
        theirs["y"] = 2
        mine["y"] = 3
        theirs["y"] = 4
        with lost_answer("/y"):
            mine["y"] = 5
        self.other.stop()
        self.assertEqual(mine.copy(), {"x": 3, "y": 5})


class TestOneEnsemble(TestAsADict):
    ensembles = 1
