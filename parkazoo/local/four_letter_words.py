"""What a server says of itself, asked by ZooKeeper's four-letter words."""

from __future__ import annotations

import re
from typing import NamedTuple

from parkazoo.admin.words import ask_server

WORD_TIMEOUT_S = 2.0


def four_letter_word(address: str, word: str, timeout_s: float = WORD_TIMEOUT_S) -> str:
    """Returns a server's answer to ``srvr``, ``mntr``, ...; empty if there is none within `timeout_s` seconds."""
    host, _, port = address.rpartition(":")
    try:
        return ask_server(word, (host, int(port)), timeout_s)
    except OSError:
        return ""


class Role(NamedTuple):
    """What a server says of itself: ``leader``, ``follower``, ``standalone``, ...; empty if it does not serve."""

    name: str
    zxid: int

    @property
    def is_leader(self) -> bool:
        return self.name in ("leader", "standalone")


def role_of(address: str, timeout_s: float = WORD_TIMEOUT_S) -> Role:
    """Asks a server for its role. One that has just lost its quorum or been thawed may not know it yet."""
    answer = four_letter_word(address, "srvr", timeout_s)
    zxid = re.search(r"^Zxid: 0x([0-9a-f]+)", answer, re.MULTILINE)
    mode = re.search(r"^Mode: (\S+)", answer, re.MULTILINE)
    return Role(mode[1], int(zxid[1], 16)) if mode and zxid else Role("", 0)
