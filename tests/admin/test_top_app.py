"""`parkazoo top` with keys, on rates that the test makes: no servers."""

from __future__ import annotations

import asyncio
import math
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from queue import Empty, Queue
from typing import Any
from unittest import mock

import typer

from parkazoo.admin.rates import ClientRates, DirectoryRates, EnsembleRates, Rates, ServerRates
from parkazoo.admin.recorded_rates import Recorder
from parkazoo.cli import top_looking
from parkazoo.cli.top_looking import Looking, Pauses
from parkazoo.errors import ClusterMapError
from parkazoo.installing import command_to_add

DEADLINE_S = 60.0
HOSTILE = "web[red]\x1b[2J\nroot"
IS_THERE = find_spec("textual") is not None
MISSING = f"textual is not installed: {command_to_add('top')}"


def ensemble(name: str, writes: float | None) -> EnsembleRates:
    return EnsembleRates(name, 1, 1, f"{name}:1", 10.0, 5.0, writes, 0.5, 1.0, 0, 2, 3.0, 40)


def server(name: str) -> ServerRates:
    return ServerRates(name, f"{name}:1", "leader", 10.0, 5.0, 5.0, 0.5, 1.0, 0, 2, 3.0, 40, "")


def client(number: int, requests: float, *ensembles: str) -> ClientRates:
    return ClientRates(
        f"0x{number}",
        True,
        f"web{number}",
        number,
        "0.1.0",
        "2026-11-26T11:00:00+00:00",
        3,
        ensembles,
        requests,
        0.1,
    )


CLIENTS = [client(number, 100.0 - number, "ab"[number % 2]) for number in range(40)]
PLAIN = ClientRates("0x77", False, HOSTILE, None, None, None, None, ("b",), None, None)
RATES = Rates(
    1795691045.0,
    2.0,
    "zk",
    4,
    [ensemble("a", 30.0), ensemble("b", 70.0), ensemble("c", None)],
    [server("a"), server("b"), server("c")],
    [*CLIENTS, PLAIN],
    [DirectoryRates("/jobs/q 0", "b", 52.1, 0.58), DirectoryRates("/jobs/q1", "a", 15.9, 0.31)],
    8.0,
    ["a line"],
)


class Played:
    """A source of rates that the test plays. :ivar asked: how often it has begun."""

    def __init__(self, *given: Rates | Exception) -> None:
        self.given: Queue[Rates | Exception] = Queue()
        self.asked = 0
        self.pauses: Pauses | None = None
        for each in given:
            self.given.put(each)

    def __call__(self, pauses: Pauses) -> Generator[Rates, None, None]:
        self.asked += 1
        self.pauses = pauses
        while not pauses.is_ended():
            with suppress(Empty):
                each = self.given.get(timeout=0.05)
                if isinstance(each, Exception):
                    raise each
                yield each

    def give(self, each: Rates | Exception) -> None:
        self.given.put(each)


class Seen:
    """The screen, as a user sees it."""

    def __init__(self, app: Any, pilot: Any) -> None:
        self.app, self.pilot = app, pilot

    def text(self) -> str:
        return "\n".join(strip.text for strip in self.app.screen._compositor.render_strips())

    async def until(self, is_so: Callable[[str], bool], about: str) -> str:
        deadline = time.monotonic() + DEADLINE_S
        while not is_so(text := self.text()):
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {DEADLINE_S:g} s: {about}\n{text}")
            await self.pilot.pause(0.05)
        return text

    async def has(self, *words: str) -> str:
        return await self.until(lambda text: all(each in text for each in words), f"it has {words}")

    async def matches(self, pattern: str) -> str:
        return await self.until(lambda text: re.search(pattern, text) is not None, f"it matches {pattern}")

    async def lacks(self, word: str) -> str:
        return await self.until(lambda text: word not in text, f"it lacks {word!r}")

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)


@unittest.skipUnless(IS_THERE, MISSING)
class TestTopApp(unittest.TestCase):
    def drive(
        self,
        steps: Callable[[Seen], Awaitable[None]],
        source: Callable[[Pauses], Generator[Rates, None, None]],
        size: tuple[int, int] = (80, 24),
        *,
        holds: bool = False,
        every_s: float = math.inf,
    ) -> Any:
        from parkazoo.cli.top_app import TopApp  # noqa: PLC0415 - an extra

        looking = Looking(source, repeats=not holds, holds=holds)
        app = TopApp(looking, lambda _: "every 2 s", every_s)

        async def run() -> None:
            async with app.run_test(size=size) as pilot:
                await steps(Seen(app, pilot))

        try:
            asyncio.run(run())
        finally:
            looking.end()
        return app

    def test_tables(self) -> None:
        async def steps(seen: Seen) -> None:
            await seen.has(
                "parkazoo top  map 4", "ensembles 3", "servers 3", "directories 2", "clients 41", "a line"
            )
            text = await seen.matches(r"\na +1/1 +10 +5 +30 +50% ")
            self.assertLessEqual(max(map(len, text.splitlines())), 80)
            await seen.press("tab")
            await seen.has("a:1", "leader")
            await seen.press("tab")
            await seen.has("/jobs/q 0", "52.1")
            await seen.press("tab")
            await seen.has("web0:0 0x0")
            await seen.press("tab", "shift+tab")
            await seen.has("web0:0 0x0")

        self.drive(steps, Played(RATES))

    def test_the_cursor(self) -> None:
        """Rows scroll with it; the cursor stays on its row when others come before that."""
        played = Played(RATES)

        async def steps(seen: Seen) -> None:
            await seen.has("clients 41")
            await seen.press("shift+tab", "end")
            await seen.has("not registered")
            await seen.press("home")
            await seen.has("web0:0")
            await seen.press("down", "down")
            played.give(RATES._replace(map=5, clients=[client(99, 500.0, "a"), *RATES.clients]))
            await seen.has("map 5", "web99:99")
            await seen.press("enter")
            await seen.has("client 0x2 on web2, pid 2")
            await seen.press("escape", "home")
            played.give(RATES._replace(map=6))
            await seen.has("map 6")
            await seen.press("enter")
            await seen.has("client 0x0 on web0")

        self.drive(steps, played)

    def test_sorted(self) -> None:
        async def ordered(seen: Seen, names: str) -> None:
            await seen.matches("(?m)" + r"[\s\S]*".join(rf"^{name} +1/1 " for name in names))

        async def steps(seen: Seen) -> None:
            await ordered(seen, "abc")
            await seen.press(*[">"] * 5)
            await seen.has("write/s▼")
            await ordered(seen, "bac")  # not known: last
            await seen.press("<")
            await seen.has("read/s▼")
            await seen.press(*["<"] * 4)
            await seen.lacks("▼")
            await seen.press("<")
            await seen.has("clients▼")

        self.drive(steps, Played(RATES))

    def test_an_ensemble(self) -> None:
        async def steps(seen: Seen) -> None:
            await seen.has("ensembles 3")
            await seen.press("down", "enter")
            await seen.has("ensemble b: 1 of 1 servers serve", "directories 1", "clients 21", "/jobs/q 0")
            await seen.lacks("/jobs/q1")
            await seen.press("tab", "enter")
            await seen.has("client 0x1 on web1", "  b > web1:1 0x1")
            await seen.press("escape")
            await seen.has("ensemble b: 1 of 1 servers serve", "web3:3")
            await seen.press("escape")
            await seen.has("ensembles 3")

        self.drive(steps, Played(RATES))

    def test_a_directory(self) -> None:
        async def steps(seen: Seen) -> None:
            await seen.has("directories 2")
            await seen.press("tab", "tab", "enter")
            await seen.has(
                "directory /jobs/q 0: its children are on ensemble b",
                "52.1 write/s: 58% of the changes there",
                "parkazoo where '/jobs/q 0'",
                "ensembles 1",
                "servers 1",
            )

        self.drive(steps, Played(RATES))

    def test_a_client(self) -> None:
        """One that goes meanwhile leaves its page."""
        played = Played(RATES)

        async def steps(seen: Seen) -> None:
            await seen.has("clients 41")
            await seen.press("shift+tab", "enter")
            await seen.has(
                "sessions on 1 ensembles: a",
                "since 2026-11-26T11:00:00+00:00, ",
                "map epoch 3, the cluster has 4",
                "ensembles 1",
            )
            played.give(RATES._replace(clients=[]))
            await seen.has("The last rates do not have it.")
            await seen.press("escape", "enter")
            await seen.has("clients 0")

        self.drive(steps, played)

    def test_without_directories(self) -> None:
        """An ensemble's page begins with a table that has rows."""

        async def steps(seen: Seen) -> None:
            await seen.has("directories 0", "clients 41")
            await seen.press("enter")
            await seen.has("ensemble a: 1 of 1", "web0:0")

        self.drive(steps, Played(RATES._replace(directories=[])))

    def test_a_filter(self) -> None:
        """Letters that are keys elsewhere are typed. Escape takes it away, before it goes back."""

        async def steps(seen: Seen) -> None:
            await seen.has("clients 41")
            await seen.press("shift+tab", "slash", *"PQ")
            await seen.lacks("web0")
            await seen.press("escape")
            await seen.has("web0:0")
            await seen.press("slash", *"WEB17", "enter")
            await seen.has("/WEB17", "web17:17")
            await seen.lacks("web0")
            await seen.press("tab", "shift+tab")
            await seen.has("/WEB17", "web17:17")
            await seen.press("escape")
            await seen.has("web0:0")

        self.drive(steps, Played(RATES))

    def test_hostile_names(self) -> None:
        """They are shown as they are: no markup, no control characters, no second line."""

        async def steps(seen: Seen) -> None:
            await seen.has("clients 41")
            await seen.press("shift+tab", "end")
            text = await seen.has(r"not registered web[red]\x1b[2J\nroot 0x77")
            self.assertNotIn("\x1b", text)
            await seen.press("enter")
            await seen.has(r"session 0x77 from web[red]\x1b[2J\nroot, not registered", "a session on b")

        self.drive(steps, Played(RATES))

    def test_pause(self) -> None:
        """What is found meanwhile is shown at its end. A replay is held itself."""
        for holds in (False, True):
            played = Played(RATES)

            async def steps(seen: Seen, played: Played = played, holds: bool = holds) -> None:
                await seen.has("map 4")
                await seen.press("p")
                await seen.has("paused")
                slept = threading.Event()
                assert played.pauses is not None
                pause = played.pauses.sleep
                sleeper = threading.Thread(target=lambda: (pause(0.0), slept.set()), daemon=True)
                sleeper.start()
                if not holds:
                    self.assertTrue(await asyncio.to_thread(slept.wait, DEADLINE_S))
                played.give(RATES._replace(map=5))
                await seen.pilot.pause(0.3)
                self.assertIn("map 4", seen.text())
                self.assertEqual(slept.is_set(), not holds)
                await seen.press("p")
                await seen.has("map 5")
                self.assertTrue(await asyncio.to_thread(slept.wait, DEADLINE_S))

            self.drive(steps, played, holds=holds)

    def test_help(self) -> None:
        async def steps(seen: Seen) -> None:
            await seen.has("ensembles 3")
            await seen.press("question_mark")
            await seen.has("sort by the column before", "quit")
            await seen.press("escape")
            await seen.has("1/1")

        self.drive(steps, Played(RATES))

    def test_resized(self) -> None:
        """From 110 columns on there is more; with a few lines it goes on too."""

        async def steps(seen: Seen) -> None:
            self.assertNotIn("znodes", await seen.has("ensembles 3"))
            await seen.pilot.resize_terminal(120, 30)
            await seen.has("znodes", "last looks")
            for lines in (4, 5):
                await seen.pilot.resize_terminal(20, lines)
                await seen.until(lambda text, lines=lines: len(text.splitlines()) == lines, f"{lines} lines")
                await seen.press("down", "end", "enter", "tab", "escape", "home")
                await seen.matches(r"\nensemble +serve\na +1/1")
            for lines in (13, 14, 19, 20):
                await seen.pilot.resize_terminal(80, lines)
                await seen.press("enter")
                await seen.matches(r"ensemble a: 1 of 1.*\n[\s\S]*\n/jobs/q1 +a +15.9")
                await seen.press("escape")
            await seen.pilot.resize_terminal(80, 24)
            await seen.has("ensembles 3", "1/1")

        self.drive(steps, Played(RATES))

    def test_no_command_palette(self) -> None:
        """It would change the screen, and write files."""

        async def steps(seen: Seen) -> None:
            await seen.has("ensembles 3")
            await seen.press("ctrl+p")
            await seen.pilot.pause(0.1)
            await seen.press("tab")
            await seen.has("a:1", "leader")
            self.assertEqual(len(seen.app.screen_stack), 1)

        self.drive(steps, Played(RATES))

    def test_a_crash(self) -> None:
        """Its status is told, also while a look still waits for its servers."""
        from parkazoo.cli import top_app  # noqa: PLC0415 - an extra

        left: list[int] = []
        looking = mock.Mock(**{"end.return_value": False})
        never = mock.patch.object(top_app, "TICK_S", 3600.0)  # its terminal is none
        with never, mock.patch.object(top_app, "TopApp") as app, self.assertRaises(typer.Exit):
            app.return_value.failure = None
            app.return_value.return_code = 1
            top_app.show(looking, lambda _: "", math.inf, left.append)
        self.assertEqual(left, [1])

    def test_a_frozen_terminal_that_goes(self) -> None:
        """A thread sees it, while Textual still waits to write."""
        from parkazoo.cli import top_app  # noqa: PLC0415 - an extra

        left: list[int] = []
        looking = mock.Mock()
        with tempfile.TemporaryFile() as gone, mock.patch.object(top_app, "INPUT", gone.fileno()):
            top_app._watch_terminal(looking, threading.Event(), left.append)
        looking.end.assert_called_once_with()
        self.assertEqual(left, [128 + signal.SIGHUP])

    def test_a_look_that_takes_long(self) -> None:
        """Keys are served meanwhile, the last rates stay, and q ends."""
        is_over = threading.Event()
        self.addCleanup(is_over.set)

        def source(pauses: Pauses) -> Generator[Rates, None, None]:
            yield RATES
            is_over.wait()

        async def steps(seen: Seen) -> None:
            await seen.has("waiting for servers", "ensembles 3")
            await seen.press("tab")
            await seen.has("a:1")
            await seen.press("q")
            deadline = time.monotonic() + DEADLINE_S
            while seen.app.is_running and time.monotonic() < deadline:
                await asyncio.sleep(0.02)
            self.assertFalse(seen.app.is_running)

        self.drive(steps, source, every_s=-top_looking.AGAIN_S)

    def test_a_look_that_fails(self) -> None:
        """Another follows, with new connections, and the last rates stay."""
        played = Played(RATES, ClusterMapError("no answer\x1b"))

        async def steps(seen: Seen) -> None:
            await seen.has(r"the look failed, another follows: no answer\x1b", "ensembles 3")
            played.give(RATES._replace(map=5))
            await seen.lacks("the look failed")
            await seen.has("map 5")

        self.assertIsNone(self.drive(steps, played).failure)
        self.assertEqual(played.asked, 2)

    def test_no_first_look(self) -> None:
        """The command ends with its error."""
        error = ClusterMapError("no answer")

        async def steps(seen: Seen) -> None:
            deadline = time.monotonic() + DEADLINE_S
            while seen.app.is_running and time.monotonic() < deadline:
                await asyncio.sleep(0.02)

        self.assertIs(self.drive(steps, Played(error)).failure, error)

    def test_a_bug(self) -> None:
        """It is not tried again, and is raised at the end."""
        error = TypeError("odd")

        async def steps(seen: Seen) -> None:
            await seen.has("odd", "ensembles 3")

        self.assertIs(self.drive(steps, Played(RATES, error)).failure, error)

    def test_the_end_of_a_recording(self) -> None:
        def source(pauses: Pauses) -> Generator[Rates, None, None]:
            yield RATES

        async def steps(seen: Seen) -> None:
            await seen.has("the end of the recording", "ensembles 3")

        self.drive(steps, source, holds=True)


class TestLooking(unittest.TestCase):
    def test_a_frozen_terminal(self) -> None:
        """The newest rates wait for it, not all."""

        def source(pauses: Pauses) -> Generator[Rates, None, None]:
            for number in range(100):
                yield RATES._replace(map=number)

        looking = Looking(source, repeats=True, holds=False)
        looking._run()
        found = [looking.found.get_nowait() for _ in range(looking.found.qsize())]
        self.assertIsNone(found.pop())
        maps = [each.map for each in found if isinstance(each, Rates)]
        self.assertEqual(maps, [*range(100 - len(found), 100)])
        self.assertLess(len(found), top_looking.FOUND_KEPT)


class Terminal:
    """`parkazoo top` on a terminal of its own."""

    def __init__(self, *arguments: str, before: str = "pass", **environment: str) -> None:
        self.main, other = pty.openpty()
        code = f"import sys; {before}; from parkazoo.cli import main; sys.argv[0] = 'parkazoo'; main()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, "top", *arguments],
            stdin=other,
            stdout=other,
            stderr=other,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24", **environment},
            start_new_session=True,
        )
        os.close(other)
        self.said = b""

    def until(self, *words: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not all(each.encode() in self.said for each in words):
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not select.select([self.main], [], [], left_s)[0]:
                raise AssertionError(f"{words} not within {DEADLINE_S:g} s: {self.said!r}")
            self.said += os.read(self.main, 1 << 16)

    def press(self, keys: str) -> None:
        os.write(self.main, keys.encode())

    def ended(self) -> int:
        """Its status. What it still writes is read."""
        deadline = time.monotonic() + DEADLINE_S
        with suppress(OSError):  # nobody has the other end any more
            while time.monotonic() < deadline:
                if select.select([self.main], [], [], 0.05)[0]:
                    self.said += os.read(self.main, 1 << 16)
        return self.process.wait(max(1.0, deadline - time.monotonic()))

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.main)


class TestOnATerminal(unittest.TestCase):
    def terminal(self, *arguments: str, before: str = "pass", **environment: str) -> Terminal:
        found = Terminal(*arguments, before=before, **environment)
        self.addCleanup(found.close)
        return found

    @unittest.skipUnless(IS_THERE, MISSING)
    def test_frozen_servers(self) -> None:
        """q ends it while it waits for a server that never answers."""
        with socket.create_server(("127.0.0.1", 0)) as frozen:
            hosts = f"127.0.0.1:{frozen.getsockname()[1]}"
            terminal = self.terminal("--hosts", hosts, "--timeout", "3600")
            terminal.until("looking twice")
            terminal.press("q")
            self.assertEqual(terminal.ended(), 0)

    def recording(self, *recorded: Rates) -> str:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        file = Path(folder.name, "rates")
        with Recorder(file) as recorder:
            for each in recorded:
                recorder.add(each)
        return str(file)

    @unittest.skipUnless(IS_THERE, MISSING)
    def test_a_recording(self) -> None:
        terminal = self.terminal("--replay", self.recording(RATES, RATES), "--interval", "0.5")
        terminal.until("the end of the recording")
        terminal.press("q")
        self.assertEqual(terminal.ended(), 0)

    @unittest.skipUnless(IS_THERE, MISSING)
    def test_a_terminal_that_goes(self) -> None:
        """The command ends."""
        found = Terminal("--replay", self.recording(RATES))
        self.addCleanup(found.process.wait)
        self.addCleanup(found.process.kill)
        found.until("the end of the recording")
        os.close(found.main)
        self.assertEqual(found.process.wait(DEADLINE_S), 128 + signal.SIGHUP)

    @unittest.skipUnless(IS_THERE, MISSING)
    def test_terminated(self) -> None:
        """It gives the terminal back, whose mouse it has left alone."""
        terminal = self.terminal("--replay", self.recording(RATES))
        terminal.until("the end of the recording")
        terminal.process.send_signal(signal.SIGTERM)
        self.assertEqual(terminal.ended(), 128 + signal.SIGTERM)
        self.assertIn(b"\x1b[?1049l", terminal.said)
        self.assertNotIn(b"\x1b[?1000h", terminal.said)

    def test_a_terminal_without_unicode(self) -> None:
        """Screens are printed, with other bars; what it cannot show is escaped."""
        rates = RATES._replace(directories=[DirectoryRates("/jobs/日", "b", 52.1, 0.58)])
        terminal = self.terminal("--replay", self.recording(rates), PYTHONIOENCODING="latin-1")
        self.assertEqual(terminal.ended(), 0)
        for each in (b"50% ####", b"/jobs/\\u65e5 ", b"58% ######"):
            self.assertIn(each, terminal.said)

    def test_without_the_extra(self) -> None:
        """The screens go on as ever; the last line says how to get keys."""
        terminal = self.terminal("--replay", self.recording(RATES), before="sys.modules['textual'] = None")
        self.assertEqual(terminal.ended(), 0)
        last = re.sub(r"\x1b\[[\d;]*m", "", terminal.said.decode()).strip().splitlines()[-1]
        self.assertRegex(last, rf"^for keys .*: {re.escape(command_to_add('top'))}$")

    def test_textual_is_imported_late(self) -> None:
        code = "import sys, parkazoo.cli.app; sys.exit('textual' in sys.modules)"
        self.assertEqual(subprocess.run([sys.executable, "-c", code], check=False).returncode, 0)


if __name__ == "__main__":
    unittest.main()
