"""Whether an ensemble has gone back: it has been restored from an older copy of its data.

If it has begun a higher epoch than the clients have seen, as a restart often does, no zxid shows that
(`wire/older_copy.py` sees the others). The version of ``/parkazoo/ensemble`` does, which each connection reads
anyway. A client that has seen a change there since the last rise looks at the version, once in PERIOD_S at most;
if it has not risen since the client last saw it, the client sets the same data. So all clients together cause one
such write in PERIOD_S. Those that find each time that another one has done so look ever less often: 10,000 clients
167 times a second. One that does nothing causes no write, and soon no look either, because the answer to a look is
no change. The cversion of ``/parkazoo/clients`` rises with registrations alone; another znode would cost each
connection a read.

A client that finds a lower version, or the same with another mzxid, asks again behind a write that cannot succeed,
because a server may lag. Then it makes a child of the znode, unless another client has made one since, and is
LOST. The stat shows that child to all others: each is LOST once, whether it could see the lower version or not.
"""

from __future__ import annotations

import enum
import json
import math

from kazoo.security import READ_ACL_UNSAFE

from parkazoo.kazoo_private import Create, GetData, SetData
from parkazoo.protocol.placement import ENSEMBLE
from parkazoo.types.znodes import ZnodeStat

PERIOD_S = 10.0  # one rise in this time, for all clients of an ensemble together
MOST_PAUSE_S = 60.0  # between two looks
SEEN, FOUND = "seen", "found"  # versions, in the data of a notice
MOST_DIGITS = 10  # of how often somebody has noted it: the servers count with 32 bits


class Verdict(enum.Enum):
    """The relation of an ensemble to the one that a client remembers."""

    GOES_ON = enum.auto()
    WENT_BACK = enum.auto()
    NOTED = enum.auto()  # another client has found that it went back, after this client was there


def restores(stat: ZnodeStat) -> int:
    """Returns how often somebody has noted that the ensemble went back: the children ever made."""
    return (stat.cversion + stat.numChildren) // 2


def is_notice(name: str) -> bool:
    """Whether a child of ``/parkazoo/ensemble`` is a note that the ensemble went back."""
    return name.isascii() and name.isdigit() and len(name) <= MOST_DIGITS


class VersionLook(GetData):
    """Reads the znode, to see whether its version has risen. A lost connection costs nothing."""

    __slots__ = ()


class VersionRise(SetData):
    """Has the version rise. A lost connection costs nothing."""

    __slots__ = ()


class Memory:
    """Remembers one ensemble for a client, and says when its version is to rise.

    :ivar was_there: the client was there before this connection. An ensemble goes back between two connections.
    """

    def __init__(self) -> None:
        self._known: ZnodeStat | None = None
        self._covered = 0  # the highest zxid that needs no rise
        self._ended = 0  # the highest zxid that ended sessions have seen, since the last connection
        self._asked: float = math.inf  # the highest zxid seen before the look; inf: others may have come with it
        self._next_s = math.inf
        self._pause_s = PERIOD_S
        self._may_rise = True
        self._has_connected = self.was_there = False

    def judge(self, stat: ZnodeStat, *, is_behind: bool = False) -> Verdict:
        """Compares the znode's stat with the one that is remembered.

        A server that lags looks as if the ensemble went back.

        :param is_behind: the whole ensemble has not seen as much as the client: the stat need not show it.
        """
        known = self._known
        if known is None or known.czxid != stat.czxid:  # the ensemble was made anew
            return Verdict.GOES_ON
        is_lower = stat.version < known.version or restores(stat) < restores(known)
        is_older = is_lower or (stat.version == known.version and stat.mzxid != known.mzxid)
        # A copy has older children than the client knows. So newer ones were made after the restore.
        if restores(stat) > restores(known) or (is_older and stat.pzxid > known.pzxid):
            return Verdict.NOTED
        return Verdict.WENT_BACK if is_older or is_behind else Verdict.GOES_ON

    def notice(self, stat: ZnodeStat) -> Create:
        """Makes the request that says to others that the ensemble went back. Those who find it together make one.

        :param stat: as the znode was found.
        """
        about = {SEEN: 0 if self._known is None else self._known.version, FOUND: stat.version}
        path = f"{ENSEMBLE}/{restores(stat) + 1}"
        return Create(path, json.dumps(about).encode(), READ_ACL_UNSAFE, 0)

    def take(self, stat: ZnodeStat) -> None:
        """Remembers the znode as it is now."""
        self._known = stat
        self._covered = max(self._covered, stat.mzxid)

    def connected(self, now_s: float, before: int, zxid: int) -> None:
        """A connection begins. To connect is no reason to have the version rise.

        :param before: the highest zxid that the session had seen; 0 of a new one.
        :param zxid: it is now.
        """
        self._next_s = now_s + PERIOD_S
        self._may_rise = True
        self.was_there, self._has_connected = self._has_connected, self._known is not None
        # An ensemble that went back may have lower zxids than those that need no rise.
        if zxid < self._covered or max(before, self._ended) <= self._covered:
            self._covered = zxid
        self._ended = 0

    def ended(self, zxid: int) -> None:
        """The session has ended. The changes that it has seen may still need a rise.

        :param zxid: the highest one that it has seen.
        """
        self._ended = max(self._ended, zxid)

    def look(self, now_s: float, zxid: int) -> VersionLook | None:
        """Returns the request that looks whether the version has risen, if it is time for that.

        :param zxid: the highest one seen.
        """
        if self._known is None or zxid <= self._covered or now_s < self._next_s:
            return None
        if now_s > self._next_s + MOST_PAUSE_S:  # it has seen nothing for a while: the others may have ended
            self._pause_s = PERIOD_S
        self._next_s = now_s + self._pause_s
        self._asked = zxid
        return VersionLook(ENSEMBLE, None)

    def expect_others(self) -> None:
        """Answers to other requests may come before the look's, and show changes."""
        self._asked = math.inf

    def rise(self, data: bytes, stat: ZnodeStat, zxid: int) -> VersionRise | None:
        """Returns the request that has the version rise, unless it has risen since it was last seen.

        :param data: of the znode, as the look has found it. It stays.
        :param zxid: of the look's answer.
        """
        has_risen = self._known is None or self._known.version != stat.version
        self.take(stat)
        if self._may_rise and not has_risen:
            self._pause_s = PERIOD_S
            return VersionRise(ENSEMBLE, data, stat.version)
        self._pause_s = min(2 * self._pause_s, MOST_PAUSE_S)  # another client sees to it
        if stat.mzxid >= self._asked or not self._may_rise:
            self._covered = max(self._covered, zxid)
        return None

    def may_not(self) -> None:
        """The client has no right to have it rise. It looks on, to hear of notes."""
        self._may_rise = False
