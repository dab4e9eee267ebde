"""client.DistributedDict: what it tells of changes, of its directory's too."""

from __future__ import annotations

import pickle
from typing import Any

from parkazoo.structures.policies import Lock
from tests.live.dictionary_case import DictionaryTest
from tests.live.world import DEADLINE_S, wait_until

MANY = 300


class Unshown:
    """A value whose repr raises, and what reads such values."""

    def __init__(self, raw: bytes) -> None:
        pass

    def __repr__(self) -> str:
        raise ZeroDivisionError

    dumps, loads = bytes, classmethod(lambda cls, raw: cls(raw))


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
            wait_until(lambda: told, "the first is told")
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

    def test_what_ends_a_thread_does_not_end_the_telling(self) -> None:
        mine = self.dictionary()

        @mine.on_change
        def leave(key: str, *change: Any) -> None:
            raise SystemExit("a test wants it")

        told = self.heard(mine)
        with self.assertLogs("parkazoo", "ERROR"):
            mine["x"] = 1
            wait_until(lambda: len(told) == 1, f"{told}")
            mine["x"] = 2
            wait_until(lambda: told[1:] == [("x", 1, 2, 1)], f"{told}")

    def test_values_that_cannot_be_read(self) -> None:
        """They are logged; the next that can be read is told."""
        mine = self.dictionary()
        mine["x"] = 1
        self.other.create(f"{self.path}/old", b"{")
        wait_until(lambda: "old" in mine, "it is there")
        told = self.heard(mine)
        with self.assertLogs("parkazoo", "ERROR") as logs:
            self.other.set(f"{self.path}/x", b"{")
            wait_until(lambda: logs.output, "it is logged")
        self.other.set(f"{self.path}/x", b"2")
        wait_until(lambda: told == [("x", 1, 2, 2)], f"{told}")
        self.other.set(f"{self.path}/old", b"3")
        wait_until(lambda: told[1:] == [("old", None, 3, 1)], f"{told}")
        with self.assertRaisesRegex(ValueError, "'x': the serializer cannot read b'2': ") as raised:
            self.dictionary(serializer=pickle).pop("x")
        self.assertIsInstance(raised.exception.__cause__, pickle.UnpicklingError)
        self.assertEqual(mine["x"], 2)
        self.other.set(f"{self.path}/old", b"{")
        wait_until(lambda: mine.get_with_version("x") and "<cannot be read>" in repr(mine), "it is seen")
        self.assertIn("'x': 2", repr(mine))
        shown = repr(self.dictionary(serializer=Unshown))
        self.assertEqual(shown.count("<cannot be read>"), 2)
        with self.assertRaisesRegex(TypeError, "'y': the serializer does not take this value: "):
            mine["y"] = {1}

    def test_closed_by_a_callback(self) -> None:
        mine = self.dictionary()
        closed: list[Any] = []

        @mine.on_change
        def close(*change: Any) -> None:
            mine.close()
            closed.append(change)

        told = self.heard(mine)
        mine["x"] = 1
        wait_until(lambda: closed, "it is closed")
        mine["x"] = 2
        self.assertEqual((told, len(closed)), ([], 1))
        self.assertRaisesRegex(RuntimeError, "is closed", mine.on_change, print)

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
                wait_until(lambda told=told, number=number: told[-1][2] == number, "it is told")
                self.client.delete(path, recursive=True)
                self.becomes(mine, {})
            wait_until(lambda told=told: told[-1][2:] == (None, None), "the last is told")
