"""Which calls are the library's own, so that they wait for no callback of the user's."""

from __future__ import annotations

import pkgutil
import unittest

from parkazoo.recipe.bucket_names import OneWatch
from parkazoo.wire.own import OF_USERS, PLACES, is_own


class TestOwn(unittest.TestCase):
    def test_each_name_exists(self) -> None:
        for name in (*PLACES, *OF_USERS):
            with self.subTest(name):
                pkgutil.resolve_name(name.rstrip("."))

    def test_a_watch_on_all_buckets_is_the_users(self) -> None:
        self.assertFalse(is_own(OneWatch(print, None)))  # type: ignore[arg-type]  # no Spread is needed
