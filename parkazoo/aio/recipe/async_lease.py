"""kazoo's leases for asyncio."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta, timezone

from kazoo.exceptions import NoNodeError

from parkazoo.aio.recipe.async_lock import AsyncLock
from parkazoo.aio.recipe.possession import LockLostError
from parkazoo.aio.recipe.sight import steadily
from parkazoo.aio.tending import Tending
from parkazoo.protocol.placement import join

FORMAT = "%Y-%m-%dT%H:%M:%S"
FORMAT_VERSION = 1


def utc() -> datetime:
    """The time in UTC, as a lease's znode has it: without a time zone."""
    return datetime.now(timezone.utc).replace(tzinfo=None)


class AsyncNonBlockingLease:
    """kazoo's NonBlockingLease: ``if await client.NonBlockingLease("/lease", timedelta(hours=1)).obtain():``.

    It is held until its time is over, by the clocks of the clients, whatever becomes of the session.

    :ivar obtained: what :meth:`obtain` returned last.
    """

    def __init__(
        self,
        client: Tending,
        path: str,
        duration: timedelta,
        identifier: str | None = None,
        utcnow: Callable[[], datetime] = utc,
    ) -> None:
        """:param identifier: the holder, who alone can obtain it again before its end. By default the host's name.
        :param utcnow: gives the time, for tests.
        """
        if not isinstance(duration, timedelta):
            raise TypeError("Invalid type for 'duration' (timedelta expected)")
        self.obtained = False
        self._client = client
        self._holder = identifier or socket.gethostname()
        self._lock = AsyncLock(client, path, self._holder)
        self._duration = duration
        self._utcnow = utcnow

    async def obtain(self) -> bool:
        """Obtains it, or prolongs it, unless another holds it; waits while the connection is lost. If it is
        cancelled, it may be held or not.

        :returns: whether it is held.
        :raises ConnectionClosedError: the client was stopped.
        """
        self.obtained = await steadily(self._client, self._obtain)
        return self.obtained

    async def _obtain(self) -> bool:
        while True:
            with suppress(LockLostError):  # perhaps it has been written; to write it again does no harm
                async with self._lock:
                    return await self._try()

    async def _try(self) -> bool:
        client, path = self._client, join(self._lock.path, "lease_holder")
        now, is_there = self._utcnow(), True
        try:
            found = json.loads((await client.get(path))[0])
        except NoNodeError:
            is_there = False
        else:
            if found["version"] != FORMAT_VERSION:
                return False  # a newer program may have it
            if found["holder"] != self._holder and now < datetime.strptime(found["end"], FORMAT):
                return False
        end = (now + self._duration).strftime(FORMAT)
        data = json.dumps({"version": FORMAT_VERSION, "holder": self._holder, "end": end}).encode()
        await (client.set(path, data) if is_there else client.create(path, data))
        return True


class AsyncMultiNonBlockingLease:
    """kazoo's MultiNonBlockingLease: so many holders at a time. See :class:`AsyncNonBlockingLease`.

    :ivar obtained: what :meth:`obtain` returned last.
    """

    def __init__(
        self,
        client: Tending,
        count: int,
        path: str,
        duration: timedelta,
        identifier: str | None = None,
        utcnow: Callable[[], datetime] = utc,
    ) -> None:
        """:param count: how many leases there are."""
        self.obtained = False
        self._leases = [
            AsyncNonBlockingLease(client, f"{path}/{number}", duration, identifier, utcnow)
            for number in range(count)
        ]

    async def obtain(self) -> bool:
        """Obtains the first free one. See :meth:`AsyncNonBlockingLease.obtain`."""
        self.obtained = False
        for lease in self._leases:
            if await lease.obtain():
                self.obtained = True
                break
        return self.obtained
