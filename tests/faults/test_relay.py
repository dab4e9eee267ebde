"""The relay passes everything on, to where it leads, and stops when asked."""

from __future__ import annotations

import socket
import threading
import unittest

from parkazoo.local import HOST
from tests.relay import Relay

LARGE = 8 << 20  # more than the kernel and the relay keep
TIMEOUT_S = 30.0


class Echo:
    """Answers with its name, and then with what it is sent."""

    def __init__(self, name: bytes) -> None:
        self._name = name
        self._door = socket.create_server((HOST, 0))
        self.address = f"{HOST}:{self._door.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                taken, _ = self._door.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._answer, args=(taken,), daemon=True).start()

    def _answer(self, taken: socket.socket) -> None:
        with taken:
            taken.sendall(self._name)
            while data := taken.recv(1 << 16):
                taken.sendall(data)

    def close(self) -> None:
        self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()


class TestRelay(unittest.TestCase):
    def setUp(self) -> None:
        self.first, self.second = Echo(b"1"), Echo(b"2")
        self.relay = Relay(self.first.address)
        for each in (self.first.close, self.second.close, self.relay.stop):
            self.addCleanup(each)

    def connect(self) -> socket.socket:
        host, _, port = self.relay.address.rpartition(":")
        client = socket.create_connection((host, int(port)), TIMEOUT_S)
        self.addCleanup(client.close)
        return client

    def ask(self, client: socket.socket, said: bytes = b"x") -> bytes:
        client.sendall(said)
        return client.recv(1)

    def has_ended(self, client: socket.socket) -> bool:
        try:
            return client.recv(1) == b""
        except ConnectionError:
            return True

    def test_all_of_it_and_in_order(self) -> None:
        client = self.connect()
        self.assertEqual(client.recv(1), b"1")
        sent = b"".join(number.to_bytes(4, "big") for number in range(LARGE // 4))
        sender = threading.Thread(target=client.sendall, args=(sent,))
        sender.start()
        received = bytearray()
        while len(received) < len(sent):
            received += client.recv(1 << 16)
        sender.join()
        self.assertEqual(received, sent)

    def test_leads_elsewhere(self) -> None:
        before = self.connect()
        self.assertEqual(before.recv(1), b"1")
        self.relay.lead_to(self.second.address)
        self.assertTrue(self.has_ended(before))
        self.assertEqual(self.connect().recv(1), b"2")
        self.assertEqual(self.relay.accepted, 1)

    def test_cut_and_refused(self) -> None:
        client = self.connect()
        self.assertEqual(client.recv(1), b"1")
        self.relay.cut()
        self.assertTrue(self.has_ended(client))
        client = self.connect()
        self.assertEqual(client.recv(1), b"1")
        self.relay.refuse()
        self.assertTrue(self.has_ended(client))
        with self.assertRaises(ConnectionRefusedError):
            self.connect()
        self.relay.admit()
        self.assertEqual(self.connect().recv(1), b"1")

    def test_frozen(self) -> None:
        client = self.connect()
        self.assertEqual((client.recv(1), self.ask(client)), (b"1", b"x"))
        self.relay.freeze()
        client.sendall(b"y")
        client.settimeout(0.1)
        with self.assertRaises(TimeoutError):
            client.recv(1)
        client.settimeout(TIMEOUT_S)
        late = self.connect()
        self.relay.thaw()
        self.assertEqual((client.recv(1), late.recv(1)), (b"y", b"1"))

    def test_to_a_closed_port(self) -> None:
        self.relay.lead_to(f"{HOST}:1")
        self.assertTrue(self.has_ended(self.connect()))
