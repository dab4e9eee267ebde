"""What the asyncio client shows of its ensembles."""

from __future__ import annotations

import asyncio

from kazoo.exceptions import AuthFailedError, ConnectionClosedError, ConnectionLoss
from kazoo.protocol.states import KazooState, KeeperState

from parkazoo.aio.future_reply import FutureReply
from parkazoo.aio.tending import Tending
from parkazoo.compat.monitor import ClientMonitor
from parkazoo.compat.of_ensembles import counters_of, ensemble_of, ports_to_join
from parkazoo.kazoo_private import GetData
from parkazoo.monitoring import Counters
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.placement import ENSEMBLE
from parkazoo.protocol.states import CLOSED_ERRORS, kazoo_state


class AsyncEnsembles(Tending):
    """Shows the client's map, its state on each ensemble, and its counters.

    :ivar monitor: tells its listeners and counts; None if there is nobody to tell.
    """

    monitor: ClientMonitor | None
    client_state: str

    @property
    def cluster_map(self) -> ClusterMap | None:
        """Returns the client's map; None until the client has read it."""
        return self._session.roster.cluster_map if self._session else None

    def counters(self) -> Counters:
        """Returns what the client has counted since it was made. Sends nothing; any thread may call, in any state.

        Each number is right by itself; two of them may be some requests apart.

        :raises RuntimeError: the client does not count: it was not made with ``counters=True``.
        """
        tally = None if self.monitor is None else self.monitor.tally
        return counters_of(tally, self._session, self._session.roster.members if self._session else ())

    async def join(self, *names: str, timeout: float = 15) -> None:
        """Connects to these ensembles; without names, to all. Otherwise the first request that needs one connects
        to it. If it is cancelled, the client goes on trying.

        :param timeout: seconds to wait for all of them.
        :raises ValueError: the cluster map has no ensemble of that name.
        :raises ClusterMapError: servers are not the ensemble's in the map.
        :raises AuthFailedError: an ensemble refuses the credentials; the client is closed then.
        :raises ConnectionLoss: an ensemble was not reached within the session timeout; the client goes on
            trying.
        :raises TimeoutError: it names the ensembles that were not reached, and why.
        """
        session = self._session
        if session is None or session.roster.cluster_map is None or not self.connected:
            raise ConnectionClosedError("the client is not connected: start it")
        roster = session.roster
        answers = []
        for port in ports_to_join(roster, names):
            answers.append(self._new_future())
            port.submit(GetData(ENSEMBLE, None), FutureReply(answers[-1]))
        try:
            async with asyncio.timeout(timeout):
                results = await asyncio.gather(*answers, return_exceptions=True)
        except TimeoutError:
            message = f"Connection time-out: no session with {roster.describe_missing()} within {timeout} s"
            raise TimeoutError(message) from None
        if self.client_state == KeeperState.AUTH_FAILED:
            raise AuthFailedError
        for result in results:
            if isinstance(result, ConnectionLoss):
                raise ConnectionLoss(f"no session with {roster.describe_missing()}")
            if isinstance(result, BaseException):
                raise result

    def state_of(self, path: str) -> str:
        """Returns the KazooState of this client on the ensemble that holds a znode, which need not exist.

        See :meth:`parkazoo.ParKazooClient.state_of`.
        """
        session = self._session
        if session is None or session.driver is None or self.client_state in CLOSED_ERRORS:
            return KazooState.LOST
        return kazoo_state(session.roster.state_on(ensemble_of(session, self.chroot, path)))
