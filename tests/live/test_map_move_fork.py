"""A process that forks while a directory moves."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from unittest import mock

from parkazoo import ParKazooClient
from parkazoo.admin.moving.copying import MovingCopy
from tests.handlers import make_handler
from tests.live.copies_case import CrashError
from tests.live.test_client_fork import error_of, in_child
from tests.live.test_client_moves import MovedByProcess
from tests.live.test_map_move import PATH
from tests.live.world import wait_until


class TestFork(MovedByProcess):
    def test_a_fork_while_it_holds(self) -> None:
        """The child has no part in it; the parent's operations go on."""
        client: Any = self.worker
        with mock.patch.object(MovingCopy, "take_over", side_effect=CrashError), suppress(CrashError):
            self.move()
        wait_until(lambda: client._session.driver.context.moving, "it holds")
        held = client.get_async(f"{PATH}/x")

        def in_child_process() -> Any:
            error = error_of(lambda: client.get(f"{PATH}/x"))
            with ParKazooClient(self.a, handler=make_handler()) as own:
                return error, own.get("/d")[0] == b"", own.get(f"{PATH}/x")[0].decode()

        error, is_there, value = in_child(self, in_child_process)
        self.assertIn("needs a client of its own", error)
        self.assertEqual((is_there, value), (True, "1"))
        self.assertEqual(held.get()[0], b"1")
        self.move_by_process(self.there)
        client.set(f"{PATH}/x", b"2")
        self.assertEqual(self.client()[0].get(f"{PATH}/x")[0], b"2")
        self.assertEqual(self.states, [])
