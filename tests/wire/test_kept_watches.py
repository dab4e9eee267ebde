"""What a connection has a server know of the watches that have outlasted the last one."""

from __future__ import annotations

import unittest

from parkazoo.protocol.newer_requests import SetWatches
from parkazoo.wire.kept_watches import MOST_BYTES, KeptWatches
from parkazoo.wire.sizes import NOTED_BYTES


class KeptWatchesTest(unittest.TestCase):
    def lost(self, zxid: int = 5) -> KeptWatches:
        kept = KeptWatches()
        kept.lose(zxid)
        return kept

    def test_a_new_session(self) -> None:
        self.assertEqual(KeptWatches().requests(["/a"], ["/b"]), [])

    def test_each_kind(self) -> None:
        kept = self.lost()
        kept.missing = {"/b", "/d"}
        (request,) = kept.requests(["/a", "/b", "/c"], ["/a", "/d"])
        self.assertEqual(request, SetWatches(5, ("/a", "/c"), ("/b",), ("/a", "/d")))

    def test_the_zxid_stays_until_all_have_an_answer(self) -> None:
        kept = self.lost()
        paths = [f"/{'x' * 1000}{number}" for number in range(200)]
        pieces = kept.requests(paths, paths)
        self.assertGreater(len(pieces), 2)
        for each in pieces[1:]:
            self.assertEqual(each.zxid, 5)
            kept.answered()
        kept.lose(9)
        pieces = kept.requests(paths, paths)
        self.assertEqual({each.zxid for each in pieces}, {5})
        for _ in pieces:
            kept.answered()
        kept.lose(9)
        self.assertEqual({each.zxid for each in kept.requests(paths, [])}, {9})

    def test_without_one(self) -> None:
        """What is left later was read later."""
        kept = self.lost()
        self.assertEqual(kept.requests([], []), [])
        kept.lose(9)
        self.assertEqual(kept.requests(["/a"], [])[0].zxid, 9)

    def test_pieces(self) -> None:
        """They are as small as any request that a server takes, and have each path once."""
        kept = self.lost()
        data = [f"/\N{SNOWMAN}{'y' * (number % 700)}{number}" for number in range(1000)]
        children = [f"{path}/c" for path in data]
        kept.missing = {*data[::3]}
        pieces = kept.requests(data, children)
        self.assertEqual(
            (
                [path for each in pieces for path in each.data],
                [path for each in pieces for path in each.missing],
                [path for each in pieces for path in each.children],
            ),
            ([path for path in data if path not in kept.missing], data[::3], children),
        )
        sizes = [len(each.serialize()) for each in pieces]
        self.assertLess(max(sizes), NOTED_BYTES)
        self.assertGreater(min(sizes[:-1]), MOST_BYTES / 2)

    def test_a_long_path(self) -> None:
        long = "/" + MOST_BYTES * "z"
        pieces = self.lost().requests(["/a", long, "/b"], [])
        self.assertEqual([each.data for each in pieces], [("/a",), (long,), ("/b",)])

    def test_forgotten(self) -> None:
        kept = self.lost()
        kept.forget()
        self.assertEqual(kept.requests(["/a"], []), [])
