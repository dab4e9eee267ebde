"""The page of `parkazoo top --web`, its readers and whom it refuses, without a browser."""

from __future__ import annotations

import io
import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from unittest import mock

from parkazoo.admin.arguments import WrongArgumentError
from parkazoo.admin.rates import Rates, rates_between
from parkazoo.admin.recorded_rates import Recorder
from parkazoo.cli import main, top_command, top_web
from parkazoo.cli.top_web import (
    CLIENTS_SENT,
    PAGE,
    PAST_KEPT,
    WAITING_KEPT,
    Feed,
    WebPage,
    names_in_a_browser,
    parse_address,
)
from parkazoo.local import HOST
from tests.admin.test_rates import FIRST, REGISTERED, SECOND, look, rates
from tests.entered import entered
from tests.live.world import DEADLINE_S, wait_until

WHOLE = rates(FIRST, SECOND, registered=REGISTERED)
URL = re.compile(r"http://127\.0\.0\.1:(\d+)/ until \^C")
LARGE = 1 << 20  # bytes: some of these are more than sockets keep
NEVER_S = 3600.0


def numbered(number: int, size: int = 0) -> Rates:
    """Rates of their own time, with a client whose name is so long."""
    client = WHOLE.clients[0]._replace(client="x" * size)
    return WHOLE._replace(time_s=float(number), clients=[client])


def port_of(page: WebPage) -> int:
    return int(page.url.rstrip("/").rpartition(":")[2])


def ask(port: int, path: str = "/", method: str = "GET", **headers: str) -> HTTPResponse:
    connection = HTTPConnection(HOST, port, timeout=DEADLINE_S)
    connection.request(method, path, headers=headers)
    return connection.getresponse()


def events(response: HTTPResponse) -> Iterator[tuple[str, Any]]:
    """Name and document of each, until the server ends."""
    name = ""
    for line in response:
        kind, _, value = line.decode().rstrip("\n").partition(": ")
        if kind == "event":
            name = value
        elif kind == "data":
            yield name, json.loads(value)


def newest(shown: Rates, more_clients: int = 0) -> Any:
    """The document of the newest rates."""
    return json.loads(json.dumps({**shown.to_json(), "more_clients": more_clients}))


def times_of(response: HTTPResponse) -> list[float]:
    return [document["time_s"] for name, document in events(response) if name == "message"]


class TestPage(unittest.TestCase):
    def serve(self) -> WebPage:
        return entered(self, WebPage("0", "every 2 s", 2.0))

    def read(self, page: WebPage) -> HTTPResponse:
        response = ask(port_of(page), "/events")
        self.addCleanup(response.close)
        return response

    def test_its_files(self) -> None:
        port = port_of(self.serve())
        for path, (_, kind) in PAGE.items():
            with ask(port, path) as response:
                self.assertEqual((response.status, response.headers["Content-Type"]), (200, kind))
                text = response.read().decode()
                self.assertGreater(len(text), 1000)
                self.assertNotRegex(text, r"https?://|<script>|<style|style=|innerHTML")
                policy = response.headers["Content-Security-Policy"]
                self.assertIn("default-src 'none'; script-src 'self'; ", policy)
                self.assertNotIn("unsafe", policy)
        with ask(port, "/?from=a-link") as response:
            self.assertEqual(response.status, 200)

    def test_what_there_is_not(self) -> None:
        port = port_of(self.serve())
        for path in ("/favicon.ico", "/../top_web.py", "/top.html", "/%2e%2e/app.py", "*"):
            with ask(port, path) as response:
                self.assertEqual(response.status, 404, path)

    def test_other_methods(self) -> None:
        port = port_of(self.serve())
        for method in ("POST", "HEAD", "PUT", "OPTIONS", "CONNECT", "get"):
            with ask(port, "/events", method) as response:
                self.assertEqual((response.status, response.headers["Allow"]), (405, "GET"), method)

    def test_other_hosts(self) -> None:
        """A name that somebody else has let lead to loopback is refused, whatever is asked."""
        port = port_of(self.serve())
        for path in ("/", "/events"):
            for host in (
                "evil.example",
                f"evil.example:{port}",
                HOST,
                f"{HOST}:{port + 1}",
                f"x@{HOST}:{port}",
                "",
            ):
                with ask(port, path, Host=host) as response:
                    self.assertEqual(response.status, 403, host)
                    self.assertIn(f"{HOST}:{port} or localhost:{port}", response.read().decode())
        for lines in ("GET / HTTP/1.0", f"GET / HTTP/1.1\r\nHost: {HOST}:{port}\r\nHost: x"):
            with socket.create_connection((HOST, port), DEADLINE_S) as connection:
                connection.sendall(f"{lines}\r\n\r\n".encode())
                with connection.makefile("rb") as answer:
                    self.assertIn(b" 403 ", answer.readline())
        for host in (f"{HOST}:{port}", f"localhost:{port}"):
            with ask(port, Host=host) as response:
                self.assertEqual(response.status, 200, host)

    def test_a_late_reader(self) -> None:
        """It begins with the past, as much as is kept, and the newest rates with their clients."""
        page = self.serve()
        for number in range(PAST_KEPT + 5):
            page(numbered(number, 1))
        found = events(self.read(page))
        self.assertEqual(next(found), ("begin", {"about": "every 2 s", "late_s": 4.0}))
        past = [next(found) for _ in range(PAST_KEPT - 1)]
        self.assertEqual([name for name, _ in past], ["past"] * len(past))
        self.assertEqual([document["time_s"] for _, document in past], [*range(5 + 1 - 1, PAST_KEPT + 4)])
        self.assertEqual((past[0][1]["clients"], past[0][1]["servers"]), ([], []))
        self.assertEqual(past[0][1]["ensembles"], json.loads(json.dumps(WHOLE.to_json()))["ensembles"])
        self.assertEqual(next(found), ("message", newest(numbered(PAST_KEPT + 4, 1))))

    def test_many_clients(self) -> None:
        """The page is given those that it shows, and how many more there are."""
        page = self.serve()
        clients = [WHOLE.clients[0]._replace(client=str(number)) for number in range(3 * CLIENTS_SENT)]
        page(WHOLE._replace(clients=clients))
        found = events(self.read(page))
        next(found)
        expected = newest(WHOLE._replace(clients=clients[:CLIENTS_SENT]), 2 * CLIENTS_SENT)
        self.assertEqual(next(found), ("message", expected))

    def test_many_connections(self) -> None:
        """Those beyond the limit end at once: who opens them takes no files from the looks."""
        with mock.patch.object(top_web, "MOST_CONNECTIONS", 2):
            page = self.serve()
        port, free = port_of(page), page._server.free
        for _ in range(2):
            wait_until(lambda: free._value == 2, "that the places come back")
            held = [socket.create_connection((HOST, port), DEADLINE_S) for _ in range(2)]
            wait_until(lambda: free._value == 0, "that they are taken")
            with socket.create_connection((HOST, port), DEADLINE_S) as beyond:
                self.assertEqual(beyond.recv(1), b"")
            for each in held:
                each.close()
            with wait_until(lambda: ask(port), "a place") as response:
                self.assertEqual(response.status, 200)

    def test_a_slow_reader(self) -> None:
        """It holds up nobody, and misses the oldest of what it does not take."""
        page = self.serve()
        entered(self, mock.patch.object(top_web._Handler, "timeout", NEVER_S))
        slow, other = self.read(page), self.read(page)
        wait_until(lambda: len(page._feed._waiting) == 2, "the readers")
        last = 60
        taken: list[float] = []
        thread = threading.Thread(target=lambda: taken.extend(times_of(other)))
        thread.start()
        for number in range(last + 1):
            page(numbered(number, LARGE))
        ending = threading.Thread(target=page._feed.end)
        ending.start()
        seen = times_of(slow)
        for each in (thread, ending):
            each.join()
        self.assertEqual((taken[-1], seen[-1]), (last, last))
        self.assertLess(len(seen), last)
        self.assertEqual(seen[-WAITING_KEPT:], [*range(last - WAITING_KEPT + 1, last + 1)])

    def test_a_reader_that_has_vanished(self) -> None:
        """It takes nothing more: its connection ends."""
        page = self.serve()
        with mock.patch.object(top_web._Handler, "timeout", 0.1):
            wait_until(lambda: self.read(page), "a request in time")
            wait_until(lambda: page._feed._waiting, "the reader")
            for number in range(60):
                page(numbered(number, LARGE))
            wait_until(lambda: not page._feed._waiting, "the end of the connection")

    def test_a_browser_that_goes_away(self) -> None:
        """Nothing is printed."""
        page = self.serve()
        with redirect_stderr(io.StringIO()) as err:
            response = self.read(page)
            wait_until(lambda: page._feed._waiting, "the reader")
            response.close()

            def is_gone() -> bool:
                page(WHOLE)
                return not page._feed._waiting

            wait_until(is_gone, "the end of the reader")
        self.assertEqual(err.getvalue(), "")

    def test_its_end(self) -> None:
        """Its readers have the last rates, and then the end; others are refused."""
        with WebPage("0", "", 2.0) as page:
            readers = [self.read(page), self.read(page)]
            wait_until(lambda: len(page._feed._waiting) == 2, "the readers")
            page(numbered(7))
        self.assertEqual([times_of(each) for each in readers], [[7.0], [7.0]])
        with self.assertRaises(ConnectionRefusedError):
            ask(port_of(page))


class TestFeed(unittest.TestCase):
    def test_without_rates(self) -> None:
        """A reader is given something now and then, so that a vanished one is noticed."""
        feed = Feed("", math.inf)
        with mock.patch.object(top_web, "BEAT_S", 0.01):
            found = feed.read()
            self.assertEqual(next(found), b'event: begin\ndata: {"about": "", "late_s": null}\n\n')
            self.assertEqual(next(found), top_web.BEAT)
        feed.end()  # it waits for the reader, which the test does not go on with
        self.assertEqual([*found], [])


class TestAddress(unittest.TestCase):
    def test_loopback(self) -> None:
        for text, address in (
            ("9180", (HOST, 9180)),
            ("localhost:9180", (HOST, 9180)),
            ("127.0.0.2:1", ("127.0.0.2", 1)),
            ("[::1]:9180", ("::1", 9180)),
            ("[0:0:0:0:0:0:0:1]:9180", ("::1", 9180)),  # as which a browser goes there
        ):
            self.assertEqual(parse_address(text), address)

    def test_the_port_of_http(self) -> None:
        """Browsers leave it out."""
        self.assertEqual(names_in_a_browser("::1", 80), {"[::1]:80", "[::1]", "localhost:80", "localhost"})
        self.assertEqual(names_in_a_browser(HOST, 8080), {"127.0.0.1:8080", "localhost:8080"})

    def test_others(self) -> None:
        for text in ("0.0.0.0:9180", "[::]:9180", "192.0.2.1:9180", "example.org:9180"):
            with self.assertRaisesRegex(WrongArgumentError, "SSH tunnel: ssh -L 9180:127.0.0.1:9180"):
                parse_address(text)
        for text in ("", "x", "127.0.0.1", "127.0.0.1:", "65536", "-1", "٣", "127.0.0.1:9" + "0" * 5000):
            with self.assertRaisesRegex(WrongArgumentError, "must be PORT or ADDRESS:PORT"):
                parse_address(text)


class TestCommand(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name, "rates")
        self.out, self.err = io.StringIO(), io.StringIO()

    def command(self, *arguments: str) -> object:
        with (
            mock.patch.object(sys, "argv", ["parkazoo", "top", *arguments]),
            redirect_stdout(self.out),
            redirect_stderr(self.err),
            self.assertRaises(SystemExit) as end,
        ):
            main()
        return end.exception.code

    def test_one_looker(self) -> None:
        """Two readers are given the same looks, and the record has them too."""
        looks = [look(0, FIRST), look(1, SECOND), look(2, FIRST)]
        found: list[list[Any]] = [[], []]
        begun = threading.Barrier(3, timeout=DEADLINE_S)

        def read(documents: list[Any]) -> None:
            port = wait_until(lambda: URL.search(self.out.getvalue()), "the address")[1]
            for name, document in events(ask(int(port), "/events")):
                if name == "begin":
                    begun.wait()
                elif name == "message":
                    documents.append(document)

        def look_now(own: object) -> Any:
            if len(looks) == 2:
                begun.wait()
            return looks.pop(0)

        expected = [rates_between(*looks[:2]), rates_between(*looks[1:])]
        looker = mock.MagicMock()
        looker.return_value.__enter__.return_value.look.side_effect = look_now
        readers = [threading.Thread(target=read, args=(each,)) for each in found]
        for each in readers:
            each.start()
        with mock.patch.object(top_command, "Looker", looker):
            options = ("--web", "0", "--count", "2", "--interval", "0.5", "--record", str(self.file))
            self.assertEqual(self.command("--hosts", "h:1", *options), 0)
        for each in readers:
            each.join()
        documents = [json.loads(json.dumps(each.to_json())) for each in expected]
        self.assertEqual(found, [[newest(each) for each in expected]] * 2)
        self.assertEqual([json.loads(line) for line in self.file.read_text().splitlines()], documents)
        self.assertNotIn("ensemble", self.out.getvalue())

    def test_interrupted(self) -> None:
        """^C ends it with two tabs open, one of which takes nothing; a recording stays until then."""
        with Recorder(self.file) as recorder:
            recorder.add(WHOLE)
        command = [sys.executable, "-m", "parkazoo", "top", "--replay", str(self.file), "--web", "0"]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            assert process.stdout is not None
            port = URL.search(process.stdout.readline())
            assert port is not None
            found = [events(ask(int(port[1]), "/events")) for _ in range(2)]
            self.assertEqual(next(found[0])[0], "begin")
            self.assertEqual(next(found[0])[1]["time_s"], WHOLE.time_s)
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(DEADLINE_S), 0)
            self.assertEqual([*found[0]], [])

    def test_a_port_in_use(self) -> None:
        with socket.create_server((HOST, 0)) as server:
            port = server.getsockname()[1]
            self.assertEqual(self.command("--hosts", "127.0.0.1:1", "--web", str(port)), 2)
        self.assertEqual(
            self.err.getvalue(), f"error: 127.0.0.1:{port} cannot be served: Address already in use\n"
        )

    def test_arguments(self) -> None:
        self.file.touch()
        for arguments, why in (
            (("--web", "0.0.0.0:9180"), "use an SSH tunnel"),
            (("--web", "0", "--once"), "--web without --once and --json"),
            (("--web", "0", "--json"), "--web without --once and --json"),
            (("--web", "0", "--replay", str(self.file)), "has no rates yet"),
        ):
            self.assertEqual(self.command("--hosts", "127.0.0.1:1", *arguments), 2)
            self.assertIn(why, " ".join(self.err.getvalue().replace("│", "").split()))


if __name__ == "__main__":
    unittest.main()
