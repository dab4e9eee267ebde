"""The command ``parkazoo gateway``: what it refuses before it begins."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from bench import ROOT
from parkazoo.admin.arguments import WrongArgumentError
from parkazoo.cli import gateway_command
from parkazoo.cli.gateway_command import parse_listen
from tests.aio.aio_case import needs_aio
from tests.kazoo_suite.certificates import Authority
from tests.live.map_case import run_command


class TestListen(unittest.TestCase):
    def test_addresses(self) -> None:
        self.assertEqual(parse_listen("127.0.0.1:2181"), ("127.0.0.1", 2181))
        self.assertEqual(parse_listen("[::1]:0"), ("::1", 0))
        for wrong in ("", "2181", ":2181", "127.0.0.1", "h:", "h:x", "h:-1", "h:65536", "h:100000", "h:²"):
            with self.assertRaises(WrongArgumentError):
                parse_listen(wrong)


@needs_aio
class TestServers(unittest.TestCase):
    def started(self, hosts: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "parkazoo", "gateway", f"--hosts={hosts}", "--listen=127.0.0.1:0"]
        process = self.enterContext(
            subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
        self.addCleanup(process.kill)
        assert process.stdout is not None
        self.assertIn("listening on", process.stdout.readline())
        return process

    def test_none_answers(self) -> None:
        """It says so before a program waits."""
        process = self.started("127.0.0.1:1,127.0.0.1:2/chroot")
        assert process.stderr is not None
        self.assertIn("127.0.0.1:1,127.0.0.1:2/chroot: no server answers", process.stderr.readline())

    def test_one_answers(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            process = self.started(f"127.0.0.1:1,127.0.0.1:{server.getsockname()[1]}")
            server.accept()[0].close()
            process.terminate()
            self.assertEqual(process.communicate()[1], "")


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
            self.assertIn(f"{address}: Address already in use", self.refused(f"--listen={address}"))
            self.assertIn("--listen must be", self.refused("--listen=127.0.0.1:99999"))
            table = Path(folder, "no", "table")
            self.assertIn(str(table), self.refused("--listen=127.0.0.1:0", f"--table={table}"))
            self.assertIn("--auth must be", self.refused("--auth=digest"))
            self.assertIn("--workers needs --table", self.refused("--workers=2"))
            for options in ((f"--listen={address}", f"--table={folder}/table"), (f"--table={table}",)):
                self.refused("--listen=127.0.0.1:0", "--workers=2", *options)

    @needs_aio
    def test_files_of_tls(self) -> None:
        """Those for programs and those for servers, before anything begins. No key asks for a password."""
        with tempfile.TemporaryDirectory() as folder:
            authority = Authority()
            plain, other = authority.issue("localhost"), authority.issue("localhost", password="secret")
            for name, data in (
                ("cert", plain.certificate), ("key", plain.key), ("locked", other.key), ("nonsense", b"nonsense"),
            ):  # fmt: skip
                Path(folder, name).write_bytes(data)
            pair = f"--listen-cert={folder}/cert", f"--listen-key={folder}/key"
            for options, why in (
                (pair[:1], "--listen-cert and --listen-key belong together"),
                (pair[1:], "--listen-cert and --listen-key belong together"),
                ((f"--listen-ca={folder}/cert",), "--listen-ca needs --listen-cert and --listen-key"),
                ((pair[0], f"--listen-key={folder}/locked"), "or the key is encrypted"),
                ((pair[0], f"--listen-key={folder}/nonsense"), f"{folder}/cert and {folder}/nonsense are not a"),
                ((f"--listen-cert={folder}/none", pair[1]), f"'{folder}/none' does not exist"),
                ((*pair, f"--listen-ca={folder}/nonsense"), f"{folder}/nonsense holds no certificates"),
                ((f"--ca={folder}/nonsense",), f"{folder}/nonsense holds no certificates"),
            ):
                said = self.refused("--listen=127.0.0.1:0", *options)
                self.assertIn(why, " ".join(said.split()))
                self.assertLessEqual(len(said.splitlines()), 6)
