"""What a registration says of its process."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path

from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from parkazoo.kazoo_private import Create
from parkazoo.protocol.ops.creates import EPHEMERAL
from parkazoo.protocol.registration import COMMAND, encode_registration, registration_path
from parkazoo.version import __version__


class About:
    """Makes the registrations of one client: those of one id name one time."""

    def __init__(self) -> None:
        self._since: tuple[int, str] = 0, ""  # the client's id, and when its session began

    def registration(self, session: int, client: int, epoch: int, has_credentials: bool) -> Create:
        """See :meth:`parkazoo.engine.ports.Client.registration`."""
        if self._since[0] != client:
            self._since = client, _now()
        about = {"epoch": epoch, **_process(), "since": self._since[1]}
        return _registration(session, client, about, has_credentials)


def command_registration(session: int, has_credentials: bool) -> Create:
    """That of a command's session."""
    about = {COMMAND: Path(sys.argv[0]).name, **_process(), "since": _now()}
    return _registration(session, session, about, has_credentials)


def _registration(session: int, client: int, about: Mapping[str, object], has_credentials: bool) -> Create:
    acl = [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE] if has_credentials else OPEN_ACL_UNSAFE
    return Create(registration_path(session), encode_registration(client, about), acl, EPHEMERAL)


def _process() -> Mapping[str, object]:
    return {"version": __version__, "host": socket.gethostname(), "pid": os.getpid()}


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
