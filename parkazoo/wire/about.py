"""What a client's registration says of its process."""

from __future__ import annotations

import os
import socket
from datetime import datetime, timezone

from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from parkazoo.kazoo_private import Create
from parkazoo.protocol.ops.creates import EPHEMERAL
from parkazoo.protocol.registration import encode_registration, registration_path
from parkazoo.version import __version__


class About:
    """Makes the registrations of one client: those of one id name one time."""

    def __init__(self) -> None:
        self._since: tuple[int, str] = 0, ""  # the client's id, and when its session began

    def registration(self, session: int, client: int, epoch: int, has_credentials: bool) -> Create:
        """See :meth:`parkazoo.engine.ports.Client.registration`."""
        if self._since[0] != client:
            self._since = client, datetime.now(timezone.utc).isoformat(timespec="seconds")
        about = {
            "epoch": epoch,
            "version": __version__,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "since": self._since[1],
        }
        acl = [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE] if has_credentials else OPEN_ACL_UNSAFE
        return Create(registration_path(session), encode_registration(client, about), acl, EPHEMERAL)
