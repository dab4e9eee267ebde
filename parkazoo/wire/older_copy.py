"""Whether an ensemble was restored from an older copy of its data, as a connection to it shows.

If a server takes the session, the ensemble is compared with what the member remembers (`protocol/went_back.py`).
But a server closes the connection of a client that has seen a higher zxid than it has itself, and says nothing,
not even that the session has expired. It does the same without a quorum. If it lags, it catches up; in a restored
ensemble none does. So when the session's time-out has passed, the client asks the server by another session, which
needs no zxid. A write there, even one that cannot succeed, has a higher zxid than all that was seen of the
ensemble, unless acknowledged writes are gone.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from kazoo.exceptions import ConnectionDropped

from parkazoo.kazoo_private import GetData
from parkazoo.protocol.past import CATCH_UP, REFUSED
from parkazoo.protocol.placement import ENSEMBLE
from parkazoo.protocol.steps import Question
from parkazoo.protocol.went_back import Verdict
from parkazoo.types.znodes import ZnodeStat
from parkazoo.wire.attempt import ConnectAttempt, Limit, Steps, send
from parkazoo.wire.branches import first_of
from parkazoo.wire.dialogue import Authenticate, ask, begin_another, close_session, receive_all
from parkazoo.wire.exchange import Exchange

if TYPE_CHECKING:
    from parkazoo.wire.handshake import Address
    from parkazoo.wire.member import Member

BEHIND_ALL: tuple[Question[object], ...] = (CATCH_UP, GetData(ENSEMBLE, None))


def remember(
    member: Member, attempt: ConnectAttempt, exchange: Exchange, record: tuple[bytes, ZnodeStat], limit_s: float
) -> Steps[None]:
    """Compares the ensemble with what the member remembers of it, and has the member remember it as it is now.

    :param record: the ensemble's identity, as the server has it. :param limit_s: for the server's further answers.
    :raises ConnectionDropped: the server does not say whether the ensemble went back.
    """
    memory = member.memory
    if memory.judge(record[1]) is not Verdict.GOES_ON:
        answers: list[Any] = []
        yield Limit(limit_s, f"no word within {limit_s:.1f} s on whether the ensemble has gone back")
        yield from send(attempt, ask(exchange, BEHIND_ALL, answers))
        yield from receive_all(attempt, exchange)
        refused, record = answers
        if not isinstance(refused, REFUSED) or isinstance(record, Exception):
            raise ConnectionDropped(f"the server does not say whether the ensemble has gone back: {refused!r}")
        verdict = memory.judge(record[1])
        if verdict is not Verdict.GOES_ON:
            yield from _tell(member, attempt, exchange, record, verdict)
            return
    memory.take(record[1])


def _tell(
    member: Member,
    attempt: ConnectAttempt,
    exchange: Exchange,
    record: tuple[bytes, ZnodeStat],
    verdict: Verdict,
) -> Steps[None]:
    """Tells the owner that the ensemble went back, and other clients by a note."""
    memory = member.memory
    if verdict is Verdict.WENT_BACK:
        answers: list[Any] = []
        note: list[Question[object]] = [memory.notice(record[1]), GetData(ENSEMBLE, None)]
        yield from send(attempt, ask(exchange, note, answers))
        yield from receive_all(attempt, exchange)
        if not isinstance(answers[1], Exception):
            record = answers[1]
    memory.take(record[1])
    member.owner.went_back(member)


class Refusal(NamedTuple):
    """A server has closed the connection instead of taking the session.

    :param seen: the highest zxid that the member has seen. :param reach: steps that return a socket to the server.
    :param authenticate: SASL, if the member has options for it. :param limit_s: for an answer.
    """

    member: Member
    address: Address
    seen: int
    reach: Callable[[ConnectAttempt], Steps[socket.socket]]
    authenticate: Authenticate
    limit_s: float

    def find_why(self, attempt: ConnectAttempt) -> Steps[str | None]:
        """Returns why the server never takes the session; None if it does not say that.

        If its ensemble went back, the owner hears of it.
        """
        yield Limit(self.limit_s, f"no word within {self.limit_s:.1f} s on why the server refuses the session")
        return (yield from first_of(attempt, [self._ask]))

    def _ask(self, attempt: ConnectAttempt) -> Steps[str | None]:
        """On a connection of its own."""
        try:
            yield from self.reach(attempt)
            try:
                return (yield from self._compare(attempt))
            finally:
                close_session(attempt)
        finally:
            attempt.close()

    def _compare(self, attempt: ConnectAttempt) -> Steps[str | None]:
        member = self.member
        answers: list[Any] = []
        exchange = yield from begin_another(
            member, self.address.host, BEHIND_ALL, answers, self.authenticate, self.limit_s, attempt
        )
        refused, record = answers
        zxid = exchange.zxid
        if not isinstance(refused, REFUSED) or zxid >= self.seen:
            return None
        trouble = member.owner.recognize(member, record, None, str(self.address))
        if trouble is not None:
            return str(trouble)
        yield from _tell(member, attempt, exchange, record, member.memory.judge(record[1], is_behind=True))
        return (
            f"its ensemble is at zxid {zxid:#x}, and this client has seen {self.seen:#x}: it was restored from an "
            "older copy"
        )
