"""client.DistributedDict through lost answers, connections, sessions and processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, SessionExpiredError
from kazoo.protocol.states import KazooState

from parkazoo import ForkError, OutcomeUnknown
from parkazoo.kazoo_private import CONNECTION_DROP, SESSION_EXPIRED
from parkazoo.structures.policies import Always, Count, Watch
from parkazoo.structures.reading import EntryReader
from parkazoo.wire.member import Member
from tests.live.dictionary_case import DictionaryTest
from tests.live.test_client_fork import fork, wait_for
from tests.live.test_client_once import lost_answer
from tests.live.world import DEADLINE_S, wait_until

WORKERS, COUNT = 3, 15


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

    def test_the_read_behind_a_write_is_interrupted(self) -> None:
        """The write is done, and another one behind it; the next read sees that."""
        mine, other = self.dictionary(refresh=Count(1000)), self.dictionary(self.other, Always())
        mine["x"] = 1
        with (
            self.behind_it(lambda: other.__setitem__("x", 3)),
            lost_answer("/x"),
            mock.patch.object(EntryReader, "fetch_some", side_effect=KeyboardInterrupt),
            self.assertRaises(KeyboardInterrupt),
        ):
            mine["x"] = 2
        self.assertEqual(mine["x"], 3)

    @contextmanager
    def behind_it(self, call: Callable[[], None]) -> Iterator[None]:
        """Once, while a write pauses until it asks what has become of it."""
        calls = [call]
        with mock.patch.object(self.client.waits, "pause", lambda seconds: calls and calls.pop()()):
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
            wait_until(lambda: mine.is_stale and strict.is_stale, "they are stale")
            self.assertEqual(mine["changed"], 1)
            self.assertRaises(ConnectionLoss, len, strict)
            self.assertIn("the copy is stale", repr(strict))
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
        mine, asks = self.dictionary(), self.dictionary(refresh=Always())
        mine["x"] = 1
        self.client.stop()
        self.assertEqual((mine["x"], mine.is_stale), (1, True))
        self.assertEqual(repr(mine), f"DistributedDict({self.path!r}, {{'x': 1}})")
        self.assertIn("<cannot be read: ConnectionClosedError(", repr(asks))
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
            is_right = all(self.raises_as(call) is ForkError for call in calls) and "ForkError" in repr(mine)
            os._exit(int(not is_right))
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

    def test_what_is_to_stay_stays(self) -> None:
        """Also if a member has written it first."""
        for make in (Watch, Always):
            theirs, mine = self.dictionary(self.other, make(), ephemeral=True), self.dictionary(refresh=make())
            theirs.update(x=1, y=1)
            mine.update(x=2, y=2)
            mine["x"] = 3
            self.assertEqual(self.client.get(f"{self.path}/x")[1].ephemeralOwner, 0)
            self.assertEqual(mine.copy(), {"x": 3, "y": 2})
            mine.clear()

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
