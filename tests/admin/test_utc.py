"""Times in UTC, wherever the clock of the machine thinks it is."""

from __future__ import annotations

import os
import time
import unittest
from datetime import datetime, timezone
from unittest import mock

from parkazoo.admin.utc import in_words, stamp

AT_S = 1_700_000_000.9


class TestUtc(unittest.TestCase):
    def setUp(self) -> None:
        there = mock.patch.dict(os.environ, {"TZ": "X-5:45"})
        there.start()
        self.addCleanup(time.tzset)
        self.addCleanup(there.stop)
        time.tzset()

    def test_in_a_sentence(self) -> None:
        self.assertEqual(in_words(AT_S), "2023-11-14 22:13:20")

    def test_in_a_file(self) -> None:
        before, after = time.time(), datetime.fromisoformat(stamp().replace("Z", "+00:00"))
        self.assertEqual(after.tzinfo, timezone.utc)
        self.assertLessEqual(int(before), after.timestamp())
        self.assertLessEqual(after.timestamp(), time.time())
