"""What a member's connection logs: a line when something changes, few lines while nothing does.

Listeners hear of every attempt.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from parkazoo.monitoring import (
    AttemptFailed,
    Connected,
    ConnectionLost,
    CredentialsRefused,
    SessionExpired,
    SessionRenewed,
)
from parkazoo.protocol.cluster_map import FIRST, called
from parkazoo.protocol.placement import CLIENTS
from parkazoo.protocol.registration import format_session

if TYPE_CHECKING:
    from parkazoo.wire.member import Member

REPEAT_S = 30.0


class ConnectionReport:
    """For the loop's own thread. Each line begins with the ensemble, and names the server if one is concerned.

    :param member: has `name` and `logger`.
    """

    def __init__(self, member: Member) -> None:
        self._member = member
        self._server = ""
        self._away_since_s: float | None = None
        self._said: set[str] = set()
        self._next_s = 0.0

    def _tell(self, event: object) -> None:
        if (monitor := self._member.runtime.monitor) is not None:
            monitor.tell(event)

    def trying(self, server: object) -> None:
        self._member.logger.debug(
            "%s: connecting to %s", called(self._member.name), server, extra=self._fields(server=str(server))
        )

    def connected(self, server: object, session_id: int) -> None:
        since_s, self._away_since_s = self._away_since_s, None
        self._said.clear()
        is_first, self._server = not self._server, str(server)
        away_s = 0.0 if since_s is None else time.monotonic() - since_s
        self._tell(Connected(self._member.name, self._server, away_s))
        fields = self._fields(server=self._server, session=format_session(session_id))
        if since_s is None or is_first:
            self._member.logger.info(
                "%s: connected to %s, session 0x%x", called(self._member.name), server, session_id, extra=fields
            )
        else:
            self._member.logger.warning(
                "%s: back after %.1f s, on %s, session 0x%x",
                called(self._member.name),
                away_s,
                server,
                session_id,
                extra=fields | {"seconds": away_s},
            )

    def lost(self, why: str, *, is_wanted: bool = False) -> None:
        self._be_away()
        self._tell(ConnectionLost(self._member.name, self._server, why))
        log = self._member.logger.info if is_wanted else self._member.logger.warning
        log(
            "%s: lost the connection to %s: %s",
            called(self._member.name),
            self._server,
            why,
            extra=self._fields(server=self._server, reason=why),
        )

    def failed(self, why: str) -> None:
        """An attempt has failed. This logs each reason once, then the latest every half minute."""
        self._be_away()
        self._tell(AttemptFailed(self._member.name, why))
        now_s = time.monotonic()
        if why not in self._said:
            self._said.add(why)
            self._member.logger.warning("%s: %s", called(self._member.name), why, extra=self._fields(reason=why))
        elif now_s >= self._next_s:
            assert self._away_since_s is not None
            away_s = now_s - self._away_since_s
            self._member.logger.warning(
                "%s: not connected for %.0f s; the last reason: %s",
                called(self._member.name),
                away_s,
                why,
                extra=self._fields(reason=why, seconds=away_s),
            )
        else:
            return
        self._next_s = now_s + REPEAT_S

    def expired(self) -> None:
        self._tell(SessionExpired(self._member.name))
        self._member.logger.warning(
            "%s: the session has expired; a new one begins", called(self._member.name), extra=self._fields()
        )

    def renewed(self, why: str) -> None:
        self._tell(SessionRenewed(self._member.name, why))
        self._member.logger.warning(
            "%s: the session ends, because %s; a new one begins",
            called(self._member.name),
            why,
            extra=self._fields(reason=why),
        )

    def not_registered(self, why: Exception) -> None:
        """This client has no right to register, or somebody has deleted the place for it."""
        self._member.logger.warning(
            "%s: the session is not registered (%r): other clients see the session's id as the owner of "
            "its ephemerals there, and not the client's. `parkazoo map init` makes %s where it is missing",
            called(self._member.name),
            why,
            CLIENTS,
            extra=self._fields(path=CLIENTS, reason=repr(why)),
        )

    def refused(self, server: object) -> None:
        self._tell(CredentialsRefused(self._member.name, str(server)))
        self._member.logger.error(
            "%s: %s refuses the credentials",
            called(self._member.name),
            server,
            extra=self._fields(server=str(server)),
        )

    def gave_up(self) -> None:
        self._member.logger.error(
            "%s: no more attempts, by connection_retry", called(self._member.name), extra=self._fields()
        )

    def _fields(self, **more: object) -> dict[str, object]:
        """For a handler of the program's: see docs/reference/logs.md."""
        name = self._member.name
        return {"ensemble": None if name == FIRST else name, **more}

    def _be_away(self) -> None:
        if self._away_since_s is None:
            self._away_since_s = time.monotonic()


def words_of(error: Exception) -> str:
    """What an error says: of an OSError its text, without its number."""
    told = error.strerror if isinstance(error, OSError) else None
    return told or str(error) or type(error).__name__
