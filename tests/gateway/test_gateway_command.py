"""The command ``parkazoo gateway``: what it refuses before it begins."""

from __future__ import annotations

import socket
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from parkazoo.admin.arguments import WrongArgumentError
from parkazoo.cli import gateway_command
from parkazoo.cli.gateway_command import parse_listen
from tests.aio.aio_case import needs_aio
from tests.live.map_case import run_command


class TestListen(unittest.TestCase):
    def test_addresses(self) -> None:
        self.assertEqual(parse_listen("127.0.0.1:2181"), ("127.0.0.1", 2181))
        self.assertEqual(parse_listen("[::1]:0"), ("::1", 0))
        for wrong in ("", "2181", ":2181", "127.0.0.1", "h:", "h:x", "h:-1", "h:100000", "h:²"):
            with self.assertRaises(WrongArgumentError):
                parse_listen(wrong)


class TestCommand(unittest.TestCase):
    def refused(self, *options: str) -> str:
        status, out, err = run_command("gateway", "--hosts=127.0.0.1:1", *options)
        self.assertEqual((status, out), (2, ""))
        return err

    def test_an_older_python(self) -> None:
        with mock.patch.object(gateway_command, "PYTHON", (99, 0)):
            self.assertIn("needs Python 3.11", self.refused())

    @needs_aio
    def test_what_cannot_be_used(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken, tempfile.TemporaryDirectory() as folder:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            self.assertIn("address already in use", self.refused(f"--listen={address}"))
            self.assertIn("port must be", self.refused("--listen=127.0.0.1:99999"))
            table = Path(folder, "no", "table")
            self.assertIn(str(table), self.refused("--listen=127.0.0.1:0", f"--table={table}"))
            self.assertIn("--auth must be", self.refused("--auth=digest"))
