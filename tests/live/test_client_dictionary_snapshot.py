"""client.DistributedDict: snapshot() while others write, over several ensembles; and one watch for a key."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

from parkazoo.local.four_letter_words import four_letter_word
from parkazoo.structures import reading
from parkazoo.structures.distributed_dict import DistributedDict
from parkazoo.structures.policies import Always, Watch
from parkazoo.structures.reading import SNAPSHOT_TRIES
from tests.live.dictionary_case import DictionaryTest
from tests.live.world import wait_until
from tests.where_is import where_is

SHARDS = 3
CHANGES = 100


class TestSnapshot(DictionaryTest):
    """The other client writes at a moment that the test chooses: behind a read of the first one."""

    def setUp(self) -> None:
        super().setUp()
        while not hasattr(self, "keys") or len(self.keys) < self.ensembles:  # a path with a shard on each ensemble
            self.path += "-"
            self.made = self.dictionary(self.other, Always(), shards=SHARDS)
            self.keys = {self.ensemble(key): key for key in map(str, range(20))}

    def ensemble(self, key: str) -> int:
        return self.home(self.made._entries.place(key)[1]).ensemble

    def each(self, value: int) -> dict[str, Any]:
        return dict.fromkeys(self.keys.values(), value)

    def behind(self, method: str, mine: DistributedDict, change: Callable[[int], None]) -> Any:
        """`change` gets the number of the read."""
        read, numbers = getattr(mine._reader, method), itertools.count()

        def read_and_change(*arguments: Any) -> Any:
            found = yield from read(*arguments)
            change(next(numbers))
            return found

        return mock.patch.object(mine._reader, method, side_effect=read_and_change)

    def test_what_changes_between_two_reads(self) -> None:
        """It reads once more, and has what is new; keys that come and go, and the same again, count too."""

        def again(key: str) -> None:
            value = self.made.pop(key)
            self.made[key] = value

        first, *_, last = self.keys.values()
        changes: list[tuple[str, Callable[[], Any], dict[str, Any]]] = [
            ("set", lambda: self.made.update({last: 1}), {last: 1}),
            ("deleted", lambda: self.made.pop(last), {last: None}),
            ("made", lambda: self.made.update(new=1), {"new": 1}),
            ("come and gone", lambda: (self.made.update(new=1), self.made.pop("new")), {}),
            ("made again", lambda: again(last), {}),
            ("set to the same", lambda: self.made.update({first: 0}), {}),
        ]
        for policy, (name, change, new) in itertools.product((Watch, Always), changes):
            with self.subTest(name, policy=policy):
                self.made.clear()
                self.made.update(self.each(0))
                mine = self.dictionary(refresh=policy(), shards=SHARDS)
                wanted = {key: value for key, value in (self.each(0) | new).items() if value is not None}
                with self.behind(
                    "fetch_state", mine, lambda number, change=change: None if number else change()
                ) as reads:
                    self.assertEqual(mine.snapshot(), wanted)
                self.assertEqual(reads.call_count, 3)
                mine.close()

    def test_what_changes_while_it_reads(self) -> None:
        """One read has an old value and new ones: that is no snapshot."""
        self.made.update(self.each(0))
        mine = self.dictionary(refresh=Always(), shards=SHARDS)
        with (
            mock.patch.object(reading, "MOST_READS_IN_FLIGHT", 1),
            self.behind("fetch_some", mine, lambda number: None if number else self.made.update(self.each(1))),
        ):
            state, _ = mine._run(mine._reader.fetch_state())
            self.assertEqual(sorted(state[key].raw for key in mine), [b"0", b"1", b"1"])
        with (
            mock.patch.object(reading, "MOST_READS_IN_FLIGHT", 1),
            self.behind("fetch_some", mine, lambda number: None if number else self.made.update(self.each(2))),
        ):
            self.assertEqual(mine.snapshot(), self.each(2))

    def test_it_changes_all_the_time(self) -> None:
        self.made.update(self.each(-1))
        key = list(self.keys.values())[-1]
        mine = self.dictionary(refresh=Always(), shards=SHARDS)
        with self.behind("fetch_state", mine, lambda number: self.made.update({key: number})) as reads:
            self.assertRaisesRegex(RuntimeError, f"in each of {SNAPSHOT_TRIES} reads", mine.snapshot)
        self.assertEqual(reads.call_count, SNAPSHOT_TRIES)
        self.assertEqual(mine.snapshot(), {**self.each(-1), key: SNAPSHOT_TRIES - 1})


class TestWatches(DictionaryTest):
    def watches(self, made: DistributedDict, key: str) -> tuple[int, int]:
        """How many the server holds of the client's session for an entry, and how many calls the client has."""
        path = made._entries.place(key)[1]
        home = where_is(self.placement, path).home
        session = hex(self.member(self.client, home.ensemble).client_id[0])
        told = four_letter_word(self.cluster.ensembles[home.ensemble].hosts, "wchp")
        by_path: dict[str, list[str]] = {}
        for line in told.splitlines():
            if line.startswith("/"):
                by_path[line] = sessions = []
            elif line.strip():
                sessions.append(line.strip())
        return by_path.get(home.path, []).count(session), len(self.client._data_watchers[path])

    def is_watched_once(self, made: DistributedDict, key: str) -> bool:
        return self.watches(made, key) == (1, 1)

    def test_one_for_each_key(self) -> None:
        """However often it was read and has changed."""
        for shards in (1, SHARDS):
            with self.subTest(shards=shards):
                path = f"{self.path}-{shards}"
                mine = self.dictionary(path=path, shards=shards)
                other = self.dictionary(self.other, Always(), path=path, shards=shards)
                for number in range(CHANGES):
                    other.update(x=number, y=number)
                    mine["x"] = -number
                    if not number % 10:
                        mine.refresh()
                        other.pop("y")
                self.becomes(mine, {"x": 1 - CHANGES, "y": CHANGES - 1})
                for key in ("x", "y"):
                    wait_until(partial(self.is_watched_once, mine, key), f"one watch for {key}")
                mine.close()
