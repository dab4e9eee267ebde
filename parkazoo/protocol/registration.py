"""Which client a session belongs to.

On each ensemble a client registers its session by an ephemeral znode, before it sends anything else there:
``/parkazoo/clients/0x1000a3b2c0004``. The name is the session's id, as the servers list it. The data is a JSON
object, and its ``client`` is the id of the client's first session. So all clients see one owner of a client's
ephemerals, whichever ensembles they are on.

A session without a registration is one of plain kazoo, or of a client that could not register. Commands that take
long register too, so that they are not taken for such programs: their data has a ``command``, and nobody waits for
them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress

from kazoo.exceptions import NoAuthError, NoNodeError

from parkazoo.kazoo_private import GetData
from parkazoo.protocol.placement import CLIENTS
from parkazoo.protocol.steps import Operation, ask

CLIENT, COMMAND = "client", "command"
SESSION_BITS = 64  # signed
SESSION = re.compile(r"0x[0-9a-f]{1,16}")
MOST_KNOWN = 1 << 16
UNKNOWN_FOR = 100  # stats, before a session without a registration is asked for again


def format_session(session: int) -> str:
    """A session id as ZooKeeper's servers write it."""
    return f"0x{session % (1 << SESSION_BITS):x}"


def parse_session(text: object) -> int | None:
    """The inverse of :func:`format_session`; None for anything else."""
    if not isinstance(text, str) or not SESSION.fullmatch(text):
        return None
    number = int(text, 16)
    return number - (1 << SESSION_BITS) if number >> (SESSION_BITS - 1) else number


def registration_path(session: int) -> str:
    return f"{CLIENTS}/{format_session(session)}"


def encode_registration(client: int, about: Mapping[str, object]) -> bytes:
    """What a client registers with.

    :param client: the id of its first session.
    :param about: what else there is to say, for people.
    """
    return json.dumps({CLIENT: format_session(client), **about}).encode()


def decode_registration(data: bytes | None) -> Mapping[str, object]:
    """What a registration says; nothing if it is damaged: any client may write there."""
    with suppress(ValueError, RecursionError):
        found = json.loads(data or b"")
        if isinstance(found, dict):
            return found
    return {}


def is_command(said: Mapping[str, object]) -> bool:
    """Whether a registration is a command's."""
    return COMMAND in said


class Owners:
    """Which client each session belongs to, as far as one client knows: it asks for each foreign session once.

    An ensemble does not use a session id again, so a registration stays true. A session that is not registered
    may be later, when its client has got the right to: that is asked again now and then.

    :param session_on: the id of this client's session on an ensemble; 0 if there is none.
    :param client: the id that this client registers with.
    :ivar is_alone: whether there is one ensemble; then a client's id is its session's.
    """

    def __init__(self, session_on: Callable[[int], int], client: Callable[[], int], is_alone: bool) -> None:
        self.session_on = session_on
        self._client = client
        self.is_alone = is_alone
        self._known: dict[tuple[int, int], int] = {}
        self._unknown: dict[tuple[int, int], int] = {}  # how often that is still believed

    def find(self, ensemble: int, session: int) -> Operation[int]:
        """The id of the client that has a session on an ensemble; the session's own if it is not registered."""
        if self.is_alone:
            return session
        if session == self.session_on(ensemble):
            return self._client()
        key = ensemble, session
        known = self._known.get(key)
        if known is not None:
            return known
        if believed := self._unknown.get(key, 0):
            self._unknown[key] = believed - 1
            return session
        try:
            data, _ = yield from ask(ensemble, GetData(registration_path(session), None))
        except NoNodeError:
            data = None
        except NoAuthError:
            return session
        client = parse_session(decode_registration(data).get(CLIENT))
        if client:
            _remember(self._known, key, client)
            return client
        _remember(self._unknown, key, UNKNOWN_FOR)
        return session


def _remember(memory: dict[tuple[int, int], int], key: tuple[int, int], value: int) -> None:
    if len(memory) >= MOST_KNOWN:
        memory.clear()
    memory[key] = value
