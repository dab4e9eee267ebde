"""The page of ``parkazoo top --web``: served on loopback, with the rates as server-sent events."""

from __future__ import annotations

import json
import math
import socket
import sys
import threading
from collections import deque
from collections.abc import Generator
from contextlib import AbstractContextManager, closing
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from ipaddress import ip_address
from socketserver import TCPServer
from types import TracebackType
from typing import Any

from parkazoo.admin.arguments import WrongArgumentError
from parkazoo.admin.rates import Rates
from parkazoo.cli.top_looking import LATE_S
from parkazoo.local import HOST
from parkazoo.protocol.checked_json import quoted

MOST_PORT = 65535
HTTP_PORT = 80
PAST_KEPT = 120  # rates that a tab begins with: as many as top.js shows
CLIENTS_SENT = 20  # the busiest: thousands would be megabytes at each look
MOST_CONNECTIONS = 64  # threads and files are the looks' too
WAITING_KEPT = 4  # rates of a reader that is slow
PATIENCE_S = 30.0  # with one that takes nothing, or asks nothing
BEAT_S = 10.0  # without rates: whether a reader is still there
BEAT = b":\n\n"
POLL_S = 0.1  # how soon the server ends
END_S = 0.5  # for readers to take the last rates
EVENTS = "/events"
PAGE = {
    "/": ("top.html", "text/html; charset=utf-8"),
    "/top.css": ("top.css", "text/css; charset=utf-8"),
    "/top.js": ("top.js", "text/javascript; charset=utf-8"),
}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class WebPage(AbstractContextManager["WebPage"]):
    """Serves the page within its block; each call gives its readers new rates, and waits for none.

    :param address: ``PORT`` or ``ADDRESS:PORT``. :param about: how the rates come about.
    :param every_s: how often they come; if later, the page says so.
    :raises WrongArgumentError: it is not of loopback, or in use.
    """

    def __init__(self, address: str, about: str, every_s: float) -> None:
        host, port = parse_address(address)
        self._feed = Feed(about, every_s)
        try:
            self._server = _Server(host, port, self._feed)
        except OSError as error:
            raise WrongArgumentError(f"{_joined(host, port)} cannot be served: {error.strerror}") from None
        self.url = f"http://{_joined(host, self._server.server_port)}/"

    def __enter__(self) -> WebPage:
        threading.Thread(target=self._server.serve_forever, args=(POLL_S,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._feed.end()

    def __call__(self, rates: Rates) -> None:
        self._feed.publish(rates)


def parse_address(text: str) -> tuple[str, int]:
    """Returns host and port of ``PORT``, ``ADDRESS:PORT`` or ``[ADDRESS]:PORT``.

    :raises WrongArgumentError: it is none of these, or another machine could reach it.
    """
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and len(port) <= len(str(MOST_PORT)) and int(port) <= MOST_PORT):
        raise WrongArgumentError(f"--web must be PORT or ADDRESS:PORT, not {quoted(text)}")
    host = host.removeprefix("[").removesuffix("]")
    if host in ("", "localhost"):
        host = HOST
    try:
        found = ip_address(host)
        is_loopback = found.is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise WrongArgumentError(
            f"--web takes an address of loopback only, not {quoted(host)}: the page has no password. "
            f"From another machine, use an SSH tunnel: ssh -L {port}:{HOST}:{port} THIS-MACHINE"
        )
    return str(found), int(port)  # as browsers write it: 0:0:0:0:0:0:0:1 is ::1


def names_in_a_browser(host: str, port: int) -> set[str]:
    """Returns what the header Host may be; a browser leaves the port of HTTP out."""
    names = [_joined(each, port) for each in (host, "localhost")]
    return {*names, *[each.removesuffix(f":{HTTP_PORT}") for each in names]}


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Feed:
    """Gives rates to many readers. One that is slow misses some, the oldest; nothing waits for it.

    Arguments as for `WebPage`.
    """

    def __init__(self, about: str, every_s: float) -> None:
        late_s = every_s + LATE_S if math.isfinite(every_s) else None
        self._begin = _event("begin", {"about": about, "late_s": late_s})
        self._changed = threading.Condition()
        self._past: deque[bytes] = deque(maxlen=PAST_KEPT)  # the newest too, without its clients
        self._newest = b""
        self._waiting: dict[object, deque[bytes]] = {}  # by reader
        self._is_ended = False

    def publish(self, rates: Rates) -> None:
        shown = rates.clients[:CLIENTS_SENT]
        document = rates._replace(clients=shown).to_json()
        newest = _event("message", {**document, "more_clients": len(rates.clients) - len(shown)})
        past = _event("past", rates._replace(servers=(), clients=()).to_json())
        with self._changed:
            self._newest = newest
            self._past.append(past)
            for each in self._waiting.values():
                each.append(newest)
            self._changed.notify_all()

    def read(self) -> Generator[bytes, None, None]:
        """Yields events: the past, the newest rates, then each that comes. If none does, yields `BEAT`."""
        reader = object()
        waiting: deque[bytes] = deque(maxlen=WAITING_KEPT)
        with self._changed:
            self._waiting[reader] = waiting
            first = [self._begin, *[*self._past][:-1], *filter(None, [self._newest])]
        try:
            yield from first
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: waiting or self._is_ended, BEAT_S)
                    if not waiting and self._is_ended:
                        return
                    event = waiting.popleft() if waiting else BEAT
                yield event
        finally:
            with self._changed:
                del self._waiting[reader]
                self._changed.notify_all()

    def end(self) -> None:
        """Ends all readers, as soon as they have taken what waits for them. It waits `END_S` at most."""
        with self._changed:
            self._is_ended = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._waiting, END_S)


def _event(name: str, document: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps(document)}\n\n".encode()


class _Server(ThreadingHTTPServer):
    """Has a daemon thread for each connection.

    :ivar free: connections. :ivar named: what a browser may call it. Another name is a stranger's, who has let it
        lead here.
    """

    def __init__(self, host: str, port: int, feed: Feed) -> None:
        self.feed = feed
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.free = threading.Semaphore(MOST_CONNECTIONS)
        super().__init__((host, port), _Handler)
        self.server_port = self.server_address[1]
        self.named = names_in_a_browser(host, self.server_port)

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # HTTPServer's asks DNS for a name, which may take long

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):  # a browser that goes away is no error
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = PATIENCE_S

    def handle(self) -> None:
        if self.server.free.acquire(blocking=False):  # otherwise the connection ends at once
            try:
                super().handle()
            finally:
                self.server.free.release()

    def parse_request(self) -> bool:
        if not super().parse_request():
            return False
        if self.command != "GET":
            self._answer(HTTPStatus.METHOD_NOT_ALLOWED, "this page answers GET only", Allow="GET")
        elif self.headers.get_all("Host") not in [[each] for each in self.server.named]:
            names = " or ".join(sorted(self.server.named))
            self._answer(HTTPStatus.FORBIDDEN, f"this page is {names}: use that port in a tunnel too")
        else:
            return True
        return False

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == EVENTS:
            self._begin(HTTPStatus.OK, "text/event-stream")
            with closing(self.server.feed.read()) as events:
                for each in events:
                    self.wfile.write(each)
        elif path in PAGE:
            name, kind = PAGE[path]
            self._begin(HTTPStatus.OK, kind)
            self.wfile.write((files("parkazoo.cli") / "top_page" / name).read_bytes())
        else:
            self._answer(HTTPStatus.NOT_FOUND, "there is nothing of this name")

    def _answer(self, status: HTTPStatus, text: str, **headers: str) -> None:
        self._begin(status, "text/plain; charset=utf-8", **headers)
        self.wfile.write(f"{text}\n".encode())

    def _begin(self, status: HTTPStatus, kind: str, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, **HEADERS, **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: the terminal is not for each request of a browser."""
