"""The time in which a command reaches an ensemble of which one server lives."""

from __future__ import annotations

import threading
import unittest
from typing import Any
from unittest import mock

from kazoo.handlers import utils

from parkazoo.admin.clients import TIMEOUT_S, AdminClient

WAIT_S = 60.0


class ConnectingTest(unittest.TestCase):
    def test_all_but_the_last_drop_what_comes(self) -> None:
        for many in (1, 2, 5, 9):
            limits_s = self.limits_s(many)
            with self.subTest(limits_s):
                self.assertLess(sum(limits_s[:-1]), TIMEOUT_S)
                self.assertGreater(min(limits_s), 1.0)

    def limits_s(self, many: int) -> list[float]:
        """How long each of so many servers has, in turn. None uses it."""
        tried: dict[tuple[str, int], float] = {}
        are_tried = threading.Event()

        def time_out(*_: Any, address: tuple[str, int], timeout: float, **__: Any) -> None:
            tried.setdefault(address, timeout)
            if len(tried) == many:
                are_tried.set()
            raise TimeoutError("timed out")

        client = AdminClient("a", ",".join(f"127.0.0.1:{port + 1}" for port in range(many)), {}, TIMEOUT_S)
        with mock.patch.object(utils, "create_tcp_connection", time_out):
            client.start()
            try:
                self.assertTrue(are_tried.wait(WAIT_S))
            finally:
                client.stop()
        return list(tried.values())


if __name__ == "__main__":
    unittest.main()
