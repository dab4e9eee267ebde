"""What a server says of itself, asked by ZooKeeper's four-letter words."""

from __future__ import annotations

import re
import socket
import time
from typing import NamedTuple

WORD_TIMEOUT_S = 2.0


def four_letter_word(address: str, word: str, timeout_s: float = WORD_TIMEOUT_S) -> str:
    """A server's answer to ``srvr``, ``mntr``, ...; empty if there is none within `timeout_s` seconds."""
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + timeout_s
    answer = b""
    try:
        with socket.create_connection((host, int(port)), timeout_s) as connection:
            connection.sendall(word.encode())
            while (left := deadline - time.monotonic()) > 0:
                connection.settimeout(left)
                if not (part := connection.recv(1 << 16)):
                    return answer.decode(errors="replace")
                answer += part
    except OSError:
        pass
    return ""


class Role(NamedTuple):
    """What a server says of itself: ``leader``, ``follower``, ``standalone``, ...; empty if it does not serve."""

    name: str
    zxid: int

    @property
    def is_leader(self) -> bool:
        return self.name in ("leader", "standalone")


def role_of(address: str, timeout_s: float = WORD_TIMEOUT_S) -> Role:
    """Ask a server for its role. One that has just lost its quorum or been thawed may not know yet."""
    answer = four_letter_word(address, "srvr", timeout_s)
    zxid = re.search(r"^Zxid: 0x([0-9a-f]+)", answer, re.MULTILINE)
    mode = re.search(r"^Mode: (\S+)", answer, re.MULTILINE)
    return Role(mode[1], int(zxid[1], 16)) if mode and zxid else Role("", 0)
