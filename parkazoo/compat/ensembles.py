"""What a client shows of its ensembles, beyond kazoo's attributes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, cast

from kazoo.exceptions import AuthFailedError, ConnectionClosedError, ConnectionLoss
from kazoo.protocol.states import KazooState, KeeperState

from parkazoo.compat.calls import KazooCalls
from parkazoo.compat.compatible_client import CompatibleClient
from parkazoo.compat.of_ensembles import counters_of, ensemble_of, ports_to_join
from parkazoo.kazoo_private import GetData
from parkazoo.monitoring import Counters
from parkazoo.protocol.asking import prefixed
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.placement import ENSEMBLE, PINNED, split
from parkazoo.protocol.states import CLOSED_ERRORS, kazoo_state
from parkazoo.types.handlers import Handler


class Ensembles(CompatibleClient):
    """Shows the client's map, the ensembles that it has joined, and its connections to them."""

    @property
    def cluster_map(self) -> ClusterMap | None:
        """Returns the client's map; None until the client has read it."""
        return self._session.roster.cluster_map if self._session else None

    @property
    def members(self) -> Mapping[str, KazooCalls]:
        """Returns the kazoo client of each joined ensemble, by name, for calls about its servers.

        ``client.members["b"].reconfig(...)``, ``.command(b"srvr")``, ``.server_version()``. They use physical
        paths, so use the ParKazooClient for znodes, and to start and stop them. See :meth:`join`.
        """
        members = {member.name: member for member in self._members()}
        return cast("Mapping[str, KazooCalls]", members)  # kazoo's calls have the same types

    def counters(self) -> Counters:
        """Returns what the client has counted since it was made. Sends nothing; any thread may call, in any state.

        Each number is right by itself; two of them may be some requests apart.

        :raises RuntimeError: the client does not count: it was not made with ``counters=True``.
        """
        tally = None if self.monitor is None else self.monitor.tally
        return counters_of(tally, self._session, self._members())

    def join(self, *names: str, timeout: float = 15) -> None:
        """Connects to these ensembles; without names, to all. Otherwise the first request that needs one connects
        to it.

        :param timeout: seconds to wait for all of them.
        :raises ValueError: the cluster map has no ensemble of that name.
        :raises ClusterMapError: servers are not the ensemble's in the map.
        :raises AuthFailedError: an ensemble refuses the credentials; the client is closed then.
        :raises ConnectionLoss: an ensemble was not reached within the session timeout; the client goes on
            trying.
        :raises: the handler's ``timeout_exception``; it names the ensembles that were not reached, and why.
        """
        self.check_process()
        self.listeners.before_use()
        deadline_s = time.monotonic() + timeout
        self._settled.wait(timeout)
        session = self._session
        if session is None or session.roster.cluster_map is None or not self.connected:
            raise ConnectionClosedError("the client is not connected: start it")
        roster = session.roster
        answers = []
        for port in ports_to_join(roster, names):
            answers.append(AwaitedAnswer(self.handler))
            port.submit(GetData(ENSEMBLE, None), answers[-1])
        for answer in answers:
            if not answer.has_come(deadline_s - time.monotonic()):
                message = f"Connection time-out: no session with {roster.describe_missing()} within {timeout} s"
                raise time_out(self.handler, message, timeout)
            if self._state == KeeperState.AUTH_FAILED:
                raise AuthFailedError
            if isinstance(answer.value, ConnectionLoss):
                raise ConnectionLoss(f"no session with {roster.describe_missing()}")
            if isinstance(answer.value, Exception):
                raise answer.value

    def state_of(self, path: str) -> str:
        """Returns the KazooState of this client on the ensemble that holds a znode, which need not exist.

        CONNECTED or SUSPENDED, whatever the state of the whole client. LOST if the client has no session there,
        because it has not used that ensemble yet or is not started. To see whether a lock or an ephemeral is safe,
        ask for its own path. On a map that has grown the client may not know the ensemble until it has read or
        written the path.

        :param path: of the znode. Its children may be on another ensemble.
        """
        session, ensemble = self._ensemble_of(path)
        return KazooState.LOST if ensemble is None else kazoo_state(session.roster.state_on(ensemble))

    def state_for_watch(self, path: str) -> str:
        """Returns the state, as :meth:`state_of`, on the ensemble that sends the events of a watch on a missing
        znode.

        On a map that has grown, if the client knows nothing of the znode's parent, that is the ensemble of the
        nearest level above that it knows; an ensemble on which the znode may be created does not count.
        """
        session, ensemble = self._ensemble_of(path, for_watch=True)
        return KazooState.LOST if ensemble is None else kazoo_state(session.roster.state_on(ensemble))

    def may_have_ephemeral(self, path: str) -> bool:
        """Returns whether this client may have an ephemeral on the znode's ensemble; if unknown, on any."""
        session, ensemble = self._ensemble_of(path)
        if ensemble is None:
            return False
        context = session.driver.context
        parent = split(prefixed(self.chroot, path))[0]
        if context.known(parent).certainty < PINNED:
            return any(port.has_ephemerals for port in session.roster.ports)
        return bool(session.roster.ports[ensemble].has_ephemerals)

    def hear_others(self) -> None:
        """Reads from now on show what other clients have done until now, on each ensemble.

        A recipe calls it when another client has let it go on.
        """
        session = self._session
        if session is not None and session.driver is not None:
            session.driver.context.past.distrust()

    def _ensemble_of(self, path: str, for_watch: bool = False) -> tuple[Any, int | None]:
        """Returns the session, and the index of the ensemble that holds a znode, as far as the client knows; None
        without a session. Another thread may begin another session meanwhile.

        :param for_watch: see :meth:`state_for_watch`.
        """
        session = self._session
        if session is None or session.driver is None or self._state in CLOSED_ERRORS:
            return session, None
        return session, ensemble_of(session, self.chroot, path, for_watch)


class AwaitedAnswer:
    """Lets a thread or greenlet wait for a reply. A time-out raises nothing."""

    def __init__(self, handler: Handler) -> None:
        self.value: Any = None  # which may be an exception
        self._event = handler.event_object()

    def set(self, value: object = None) -> None:
        self.value = value
        self._event.set()

    def set_exception(self, exception: Exception) -> None:
        self.set(exception)

    def has_come(self, timeout_s: float) -> bool:
        """Waits for the reply. Returns whether it has arrived."""
        self._event.wait(max(0.0, timeout_s))
        return bool(self._event.is_set())


def time_out(handler: Handler, message: str, seconds: float) -> Exception:
    """Returns the handler's timeout_exception with a readable message; gevent's shows none."""
    kind = handler.timeout_exception
    if str(kind(message)) != message:
        kind = type(kind.__name__, (kind,), {"__str__": lambda self: message})
    error = kind(message)
    if not str(error):
        error.seconds = seconds  # gevent's shows its message only beside a number of seconds
    return error
