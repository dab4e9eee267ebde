"""What can be done to the links and processors of emulated hosts. It needs what test_hosts.py needs."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from pathlib import Path

from bench.hosts import deployment
from bench.hosts.emulation import PYTHON
from bench.hosts.host_lab import HostLab
from bench.hosts.namespaces import connect, inside, network_of
from bench.lab import LabError, NotPossible, Way
from tests.bench.emulated import (
    HOSTS,
    NAME,
    OBSTACLE,
    PORT,
    WAIT_S,
    Echo,
    EmulatedCase,
    connected,
    is_first,
    pids_of,
    set_up_module,
)


def setUpModule() -> None:
    set_up_module(HOSTS)
    if not OBSTACLE:
        with connected() as fleet:
            deployment.deploy(fleet, print)


class TestLinks(EmulatedCase):
    """No server runs meanwhile."""

    @classmethod
    def setUpClass(cls) -> None:
        fleet = connected()
        cls.addClassCleanup(fleet.__exit__, None, None, None)
        cls.lab = HostLab(fleet)

    def test_links(self) -> None:
        faults = self.lab.faults
        with Echo(NAME) as echo:
            self.assertEqual(len(echo.ask_all(20)), 20)
            faults.cut_off("h2")
            self.assertEqual(echo.ask(2), [])
            faults.join("h2")
            self.assertEqual(len(echo.ask_all(20)), 20)
            faults.lose("h2", 0.5)
            self.assertIn(len(echo.ask(24)), range(1, 24))
            faults.lose("h2", 1)
            self.assertEqual(echo.ask(2), [])
            faults.lift("h2")
            for delay_s in (0.05, 0.1):
                faults.delay("h2", {"": Way(delay_s)})
                self.assertGreater(min(echo.ask_all(20)), delay_s)
            faults.cut_off("h2")
            self.assertEqual(echo.ask(2), [])
            faults.join("h2")
            self.assertGreater(min(echo.ask_all(5)), delay_s)
            faults.lift("h2")
            self.assertEqual(len(echo.ask_all(20)), 20)

    def test_ways(self) -> None:
        """What h2 sends to h3 is delayed, or limited; what it sends to others is not."""
        faults = self.lab.faults
        self.addCleanup(faults.lift, "h2")
        with Echo(NAME) as echo:
            faults.delay("h2", {"h3": Way(0.1, 0.05)})
            times = echo.ask_all(20)
            self.assertGreater(min(times), 0.05)
            self.assertGreater(max(times) - min(times), 0.01)
            faults.delay("h2", {"": Way(0.1), "h3": Way(0.02)})
            self.assertGreater(0.1, min(echo.ask_all(20)))
            faults.delay("h2", {"h1": Way(0.5)})
            self.assertGreater(0.5, min(echo.ask_all(20)))
        faults.delay("h2", {"h3": Way(rate_bytes_s=20_000)})
        data = bytes(1 << 14)
        self.assertGreater(self.transfer("h2", "h3", data), len(data) / 20_000)
        with self.assertRaisesRegex(LabError, "^a delay is at least 0 s and its jitter, not 0.1 and 0.2$"):
            faults.delay("h2", {"": Way(0.1, 0.2)})

    def test_processors(self) -> None:
        """A program of the host that would use all of one gets a tenth."""
        (pid,) = (pid for pid in pids_of(network_of(NAME, "h2")) if is_first(pid))
        program = (
            "import time; a = time.monotonic()\nwhile time.process_time() < 0.2: pass\nprint(time.monotonic() - a)"
        )
        command = ["nsenter", "--target", str(pid), "--all", str(PYTHON), "-S", "-c", program]
        try:
            self.lab.faults.limit_processors("h2", 0.1)
        except NotPossible as error:
            self.skipTest(str(error))
        self.addCleanup(self.lab.faults.lift, "h2")
        group = next(Path("/sys/fs/cgroup").glob(f"**/{network_of(NAME, 'h2')}"))

        def join_group() -> None:
            (group / "cgroup.procs").write_text("0")

        said = subprocess.run(command, capture_output=True, text=True, check=True, preexec_fn=join_group).stdout
        self.assertGreater(float(said), 1.0)
        self.assertIn(str(pid), (group / "cgroup.procs").read_text().split())
        self.lab.faults.lift("h2")
        self.assertFalse(group.exists())

    def test_limit(self) -> None:
        """Both ways: 64 KiB take their time, but for what may come in a burst."""
        rate_bytes_s, burst = 20_000, 16_384
        data = bytes(1 << 16)
        self.lab.faults.limit("h2", rate_bytes_s)
        self.addCleanup(self.lab.faults.lift, "h2")
        for sender, receiver in (("h2", "h3"), ("h3", "h2")):
            with self.subTest(sender):
                took_s = self.transfer(sender, receiver, data)
                self.assertGreater(took_s, (len(data) - burst) / rate_bytes_s)

    def transfer(self, sender: str, receiver: str, data: bytes) -> float:
        address = f"10.77.0.{receiver[1:]}"
        listener = inside(network_of(NAME, receiver), lambda: socket.create_server((address, PORT)))
        with listener, connect(network_of(NAME, sender), address, PORT, WAIT_S) as out:
            into, _ = listener.accept()
            with into:
                began_s = time.monotonic()
                thread = threading.Thread(target=out.sendall, args=(data,))
                thread.start()
                missing = len(data)
                while missing:
                    missing -= len(into.recv(missing))
                thread.join()
                return time.monotonic() - began_s
