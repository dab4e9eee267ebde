"""AdminServers asked over HTTP. The values are those of ZooKeeper 3.9.5, shortened."""

from __future__ import annotations

import json
import socket
import threading
import time
import unittest
from collections.abc import Mapping
from email.utils import formatdate
from typing import Any
from unittest import mock

from parkazoo.admin.inquiry import _ask_admin, _is_local

TIMEOUT_S = 30.0
CONFIGURATION = {"client_port": 26501, "data_dir": "/data/1/./data/version-2", "server_id": 1}
PROPERTIES = {
    "java.version": "17.0.15",
    "jute.maxbuffer": "2000000",
    "zookeeper.4lw.commands.whitelist": "*",
    "zookeeper.jute.maxbuffer": "4000000",
}


class AdminServer:
    """Answers as long as its block runs.

    :param commands: what it tells, by command; any other is an error, as ZooKeeper's says it.
    """

    def __init__(self, commands: Mapping[str, Mapping[str, object]]) -> None:
        self._commands = commands
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> AdminServer:
        self._thread.start()
        return self

    def __exit__(self, *about: object) -> None:
        socket.create_connection(("127.0.0.1", self.port)).close()  # it asks for nothing: the end
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection:
                asked = connection.recv(1 << 16).decode()
                if not asked:
                    return
                connection.sendall(self._answer(asked.split()[1].removeprefix("/commands/")))

    def _answer(self, command: str) -> bytes:
        told = self._commands.get(command, {})
        error = None if told else f"Unknown command: {command}"
        body = json.dumps({**told, "command": command, "error": error}, indent=2)
        return f"HTTP/1.1 200 OK\r\nDate: {formatdate(usegmt=True)}\r\n\r\n{body}".encode()  # with an error too


class TestAdminServer(unittest.TestCase):
    def test_it_answers(self) -> None:
        with AdminServer({"configuration": CONFIGURATION, "system_properties": PROPERTIES}) as admin:
            found = _ask_admin("127.0.0.1:26501", admin.port, TIMEOUT_S)
        assert found is not None and found.properties is not None and found.clock_s is not None
        self.assertEqual((found.about["server_id"], found.properties["jute.maxbuffer"]), (1, "2000000"))
        self.assertFalse(found.is_open)
        self.assertLessEqual(found.clock_s[0], 0.0)  # this machine's clock is its own, to the second
        self.assertGreaterEqual(found.clock_s[1], 0.0)

    def test_before_3_6(self) -> None:
        """It tells no properties."""
        with AdminServer({"configuration": CONFIGURATION}) as admin:
            found = _ask_admin("127.0.0.1:26501", admin.port, TIMEOUT_S)
        assert found is not None
        self.assertIsNone(found.properties)

    def test_nobody(self) -> None:
        self.assertIsNone(_ask_admin("127.0.0.1:26501", 0, TIMEOUT_S))
        with AdminServer({}) as admin:  # as one whose server does not serve
            self.assertIsNone(_ask_admin("127.0.0.1:26501", admin.port, TIMEOUT_S))
        self.assertIsNone(_ask_admin("127.0.0.1:26501", admin.port, TIMEOUT_S))

    def test_it_says_nothing(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as frozen:
            began_s = time.monotonic()
            self.assertIsNone(_ask_admin("127.0.0.1:26501", frozen.getsockname()[1], 0.2))
            self.assertGreaterEqual(time.monotonic() - began_s, 0.2)

    def test_who_reaches_it(self) -> None:
        def resolved(*addresses: str) -> Any:
            return mock.patch("socket.getaddrinfo", return_value=[(0, 0, 0, "", (each, 0)) for each in addresses])

        for addresses, is_local in (
            (["127.0.0.1"], True),
            (["127.0.0.1", "::1"], True),
            (["10.0.0.7"], False),
            (["127.0.1.1", "fe80::1%eth0"], False),
        ):
            with resolved(*addresses):
                self.assertEqual(_is_local("h"), is_local, addresses)
