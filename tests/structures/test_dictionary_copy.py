"""The copy of a DistributedDict: it ends up as the servers' entries are, in whatever order answers come."""

from __future__ import annotations

import random
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

from parkazoo.structures import local_copy
from parkazoo.structures.local_copy import Entry, Life, LocalCopy

RUNS, STEPS = 1200, 60
KEYS = ("a", "b", "c")


class World:
    """A server, and a process that writes, and reads what watches tell: as keeper.py does it.

    Its questions are served in order, the answers and events come in any.
    """

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.znodes: dict[str, tuple[bytes, int, int, Life]] = {}  # raw, version, mzxid
        self.zxid = 0
        self.ensemble = 0
        self.writes: list[tuple[Life, int]] = []  # with mzxids, in order
        self.copy = LocalCopy(1, self.changed)
        self.questions: list[Callable[[], None]] = []  # sent, not served
        self.answers: list[Callable[[], None]] = []  # served, not seen
        self.watched: set[str] = set()  # at the server
        self.is_watched = False  # its directory
        self.armed: set[str] = set()  # as the process knows
        self.problems: list[str] = []
        self.told: dict[str, Entry | None] = {}

    def changed(self, key: str, before: Entry | None) -> None:
        """An entry is never replaced by an older one, and each change is told."""
        if self.told.get(key) is not before:
            self.problems.append(f"{key}: a change was not told")
        now = self.told[key] = self.copy.entries.get(key)
        if before and now and (before.raw, before.version) == (now.raw, now.version):
            self.problems.append(f"{key} was told, and has not changed")
        if before and now and before.life and now.life and before.mzxid and now.mzxid:
            order = [self.writes.index((each.life, each.mzxid)) for each in (before, now)]
            if order != sorted(order):
                self.problems.append(f"{key} goes back")

    # ---- at the server

    def write(self, key: str, kind: str, raw: bytes) -> bool:
        """Whether it was done. Watches tell the process."""
        is_there = key in self.znodes
        if is_there is (kind == "create"):
            return False
        self.zxid += 1
        if kind == "delete":
            del self.znodes[key]
        else:
            life = self.znodes[key][3] if is_there else (self.zxid, self.ensemble)
            self.znodes[key] = raw, self.znodes[key][1] + 1 if is_there else 0, self.zxid, life
            self.writes.append((life, self.zxid))
        if key in self.watched:
            self.watched.discard(key)
            self.later(lambda: self.hear(key))
        if kind != "set" and self.is_watched:
            self.is_watched = False
            self.later(self.list)
        return True

    def later(self, call: Callable[[], None]) -> None:
        self.answers.append(call)

    def move(self) -> None:
        """Its entries go where zxids are lower. Nobody hears of that."""
        self.ensemble += 1
        self.zxid = 0
        for key, (raw, version, *_) in self.znodes.items():
            self.zxid += 1
            life = self.zxid, self.ensemble
            self.znodes[key] = raw, version, self.zxid, life
            self.writes.append((life, self.zxid))

    def make_again(self) -> None:
        """The directory is deleted, and made again where zxids are lower."""
        for key in list(self.znodes):
            self.write(key, "delete", b"")
        self.ensemble += 1
        self.zxid = 0

    # ---- in the process

    def hear(self, key: str) -> None:
        self.armed.discard(key)
        self.read(key)

    def read(self, key: str, is_certain: bool = False) -> None:
        self.armed.add(key)
        ticket = self.copy.ticket()

        def serve() -> None:
            found = self.znodes.get(key)
            if found is not None:
                self.watched.add(key)
            self.later(lambda: self.see(key, ticket, found, is_certain))

        self.questions.append(serve)

    def see(self, key: str, ticket: int, found: Any, is_certain: bool) -> None:
        if found is None:
            self.armed.discard(key)
            is_in_doubt = self.copy.not_found(0, key, ticket)
        else:
            raw, version, mzxid, life = found
            is_in_doubt = self.copy.found(0, key, ticket, raw, version, mzxid, 0, life, is_certain)
        if is_in_doubt:
            self.read(key, is_certain=True)

    def list(self) -> None:
        ticket = self.copy.ticket()

        def serve() -> None:
            keys = list(self.znodes)
            self.is_watched = True
            self.later(lambda: self.see_listing(keys, ticket))

        self.questions.append(serve)

    def see_listing(self, keys: list[str], ticket: int) -> None:
        for key in [*self.copy.listed(0, keys, ticket), *(key for key in keys if key not in self.armed)]:
            self.read(key)

    def write_own(self, key: str, kind: str, raw: bytes) -> None:
        began = self.copy.ticket()

        def serve() -> None:
            if self.write(key, kind, raw):
                _, version, mzxid, life = self.znodes.get(key, (b"", 0, 0, (0, 0)))
                self.later(lambda: self.see_own(key, kind, raw, began, version, mzxid, life))

        self.questions.append(serve)

    def see_own(self, key: str, kind: str, raw: bytes, began: int, version: int, mzxid: int, life: Life) -> None:
        if kind == "delete":
            is_in_doubt = self.copy.deleted(0, key, began)
        else:
            known = (mzxid, 0, life) if kind == "set" else (None, 0)
            is_in_doubt = self.copy.written(0, key, began, raw, version, *known)
        if is_in_doubt:
            self.read(key)

    # ---- a run

    def run(self) -> None:
        self.list()
        for number in range(STEPS):
            key, raw = self.dice.choice(KEYS), b"%d" % number
            kind = self.dice.choice(("create", "set", "set", "delete"))
            what = self.dice.randrange(50)
            if what >= 48:
                self.make_again() if what == 49 else self.move()
            what %= 5
            if what == 0:
                self.write(key, kind, raw)
            elif what == 1:
                self.write_own(key, kind, raw)
            else:
                self.go_on()
        while self.questions or self.answers:
            self.go_on()
        there = {key: entry.raw for key, entry in self.copy.entries.items()}
        if there != {key: raw for key, (raw, *_) in self.znodes.items()}:
            self.problems.append(f"{there} is not {self.znodes}")
        if any(entry is not self.copy.entries.get(key) for key, entry in self.told.items()):
            self.problems.append("the last state was not told")

    def go_on(self) -> None:
        if self.questions and (not self.answers or self.dice.random() < 0.5):
            self.questions.pop(0)()
        elif self.answers:
            self.answers.pop(self.dice.randrange(len(self.answers)))()


def problems() -> list[str]:
    found = []
    for number in range(RUNS):
        world = World(random.Random(number))
        world.run()
        found += [f"run {number}: {problem}" for problem in world.problems]
    return found


class TestCopy(unittest.TestCase):
    def test_it_ends_up_as_the_servers_entries(self) -> None:
        self.assertEqual(problems(), [])

    def test_with_few_that_are_remembered_as_absent(self) -> None:
        with mock.patch.object(local_copy, "MOST_ABSENT", 1):
            self.assertEqual(problems(), [])

    def test_wrong_copies_are_found(self) -> None:
        """Each does not ask again in one of the cases of doubt, or takes an older entry."""
        for name in ("found", "not_found", "written"):
            right: Any = getattr(LocalCopy, name)

            def wrong(copy: LocalCopy, *arguments: Any, right: Any = right) -> bool:
                right(copy, *arguments)
                return False

            with self.subTest(name), mock.patch.object(LocalCopy, name, wrong):
                self.assertNotEqual(problems(), [])
        right_listed = LocalCopy.listed
        with mock.patch.object(LocalCopy, "listed", lambda *given: right_listed(*given)[:0]):
            self.assertNotEqual(problems(), [])

        def without_mzxid(copy: LocalCopy, number: int, key: str, ticket: int, *state: Any) -> bool:
            copy._put(number, key, Entry(*state[:4], ticket, state[4]))
            return False

        with mock.patch.object(LocalCopy, "found", without_mzxid):
            self.assertNotEqual(problems(), [])

    def test_seen_while_it_was_deleted(self) -> None:
        """Before the delete, or made anew behind it."""
        copy = LocalCopy(1, lambda key, before: None)
        began = copy.ticket()
        copy.found(0, "a", copy.ticket(), b"", 0, 7, 0)
        self.assertTrue(copy.deleted(0, "a", began))
        self.assertFalse(copy.deleted(0, "a", copy.ticket()))
        self.assertEqual(copy.entries, {})

    def test_a_directory_that_has_moved(self) -> None:
        """The same value and version is no change, though the znode is another, with a lower mzxid."""
        told = []
        copy = LocalCopy(1, lambda key, before: told.append((key, before and before.raw)))
        copy.found(0, "a", copy.ticket(), b"1", 3, 1000, 0, (10, 1))
        copy.found(0, "a", copy.ticket(), b"1", 3, 5, 0, (5, 2), True)
        self.assertEqual(told, [("a", None)])
        copy.found(0, "a", copy.ticket(), b"1", 4, 6, 0, (5, 2))
        self.assertEqual(told, [("a", None), ("a", b"1")])

    def test_made_again_where_zxids_are_lower(self) -> None:
        """Nobody has told that the directory was deleted. A server that lags may answer so too."""
        copy = LocalCopy(1, lambda key, before: None)
        early = copy.ticket()
        copy.found(0, "a", copy.ticket(), b"1", 3, 1000, 0, (10, 1))
        new = b"2", 0, 5, 0, (5, 2)
        self.assertTrue(copy.found(0, "a", early, *new, True))
        self.assertTrue(copy.found(0, "a", copy.ticket(), *new))
        self.assertEqual(copy.entries["a"].raw, b"1")
        self.assertFalse(copy.found(0, "a", copy.ticket(), *new, True))
        self.assertEqual(copy.entries["a"].raw, b"2")
        self.assertTrue(copy.found(0, "a", early, b"1", 3, 1000, 0, (10, 1)))
        copy.found(0, "a", copy.ticket(), b"1", 3, 1000, 0, (10, 1))
        self.assertFalse(copy.written(0, "a", copy.ticket(), b"3", 1, 6, 0, (5, 2)))
        self.assertEqual(copy.entries["a"].raw, b"3")

    def test_two_directories(self) -> None:
        copy = LocalCopy(2, lambda key, before: None)
        copy.found(0, "a", copy.ticket(), b"", 0, 7, 0)
        copy.found(1, "b", copy.ticket(), b"", 0, 1, 0)
        self.assertEqual(copy.listed(0, [], copy.ticket()), [])
        self.assertEqual(list(copy.entries), ["b"])
        self.assertEqual(([*copy.keys_in(0)], [*copy.keys_in(1)]), ([], ["b"]))
