"""A client at work while a directory moves, with each handler."""

from __future__ import annotations

import itertools
import subprocess
import sys

from tests.live.test_client_waits import Outcome
from tests.live.test_map_move import PATH, MoveCase
from tests.live.world import Seen, wait_until


class MovedByProcess(MoveCase):
    def move_by_process(self, to: str) -> None:
        """Where greenlets are not patched, a command in this process would let no other one run."""
        command = [sys.executable, "-m", "parkazoo", "map", "move", PATH, "--to", to, "--strangers-gone"]
        process = subprocess.Popen([*command, "--hosts", self.a], stdout=subprocess.DEVNULL)
        wait_until(lambda: process.poll() is not None, "its end")
        self.assertEqual(process.returncode, 0)
        self.assertEqual(self.place(PATH), to)


class TestMoves(MovedByProcess):
    def test_at_work(self) -> None:
        """Operations, a lock and a DataWatch."""
        client, other = self.worker, self.client()[0]
        values, versions, stop = Seen(), Seen(), client.handler.event_object()
        client.create(f"{PATH}/own")
        client.DataWatch(f"{PATH}/x")(lambda value, stat: values(value))
        lock = client.Lock(PATH, "me")
        lock.acquire()

        def work() -> str:
            for version in itertools.count(1):
                versions(client.set(f"{PATH}/own", b"%d" % version).version)
                if client.get(f"{PATH}/own")[0] != b"%d" % version or stop.is_set():
                    return f"ended at {version}"
            raise AssertionError

        at_work = Outcome(client, work)
        versions.wait()
        self.move_by_process(self.there)
        versions.wait(len(versions) + 1)
        stop.set()
        self.assertEqual(at_work.wait(), [f"ended at {len(versions)}"])
        self.assertEqual([*versions], [*range(1, len(versions) + 1)])
        self.assertFalse(other.Lock(PATH, "you").acquire(blocking=False))
        other.set(f"{PATH}/x", b"2")
        self.assertEqual(values.wait(2), [b"1", b"2"])
        lock.release()
        with other.Lock(PATH, "you"):
            pass
        self.assertEqual(self.states, [])
