"""What a client shows of its ensembles, beyond what kazoo's has."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, cast

from kazoo.exceptions import AuthFailedError, ConnectionClosedError, ConnectionLoss
from kazoo.protocol.states import KazooState, KeeperState

from parkazoo.compat.calls import KazooCalls
from parkazoo.compat.compatible_client import CompatibleClient
from parkazoo.compat.creation import prefixed
from parkazoo.kazoo_private import GetData
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.grown.common import GrownContext
from parkazoo.protocol.grown.places import is_fixed
from parkazoo.protocol.placement import ENSEMBLE, split
from parkazoo.protocol.states import CLOSED_ERRORS, kazoo_state


class Ensembles(CompatibleClient):
    """The map that the client works by, the ensembles that it has joined, and how it is connected to them."""

    @property
    def cluster_map(self) -> ClusterMap | None:
        """The map this client works by; None before it has been read."""
        return self._session.cluster_map if self._session else None

    @property
    def members(self) -> Mapping[str, KazooCalls]:
        """The kazoo client of each ensemble that is joined, by name, for what concerns its servers.

        ``client.members["b"].reconfig(...)``, ``.command(b"srvr")``, ``.server_version()``. They see physical
        paths, so use the ParKazooClient for znodes. It also starts and stops them. See :meth:`join`.
        """
        members = {member.name: member for member in self._members()}
        return cast("Mapping[str, KazooCalls]", members)  # kazoo's calls have the same types

    def join(self, *names: str, timeout: float = 15) -> None:
        """Connect to these ensembles now; without names, to all. Otherwise the first request that needs one does.

        :param timeout: seconds to wait for all of them.
        :raises ValueError: the cluster map has no ensemble of that name.
        :raises ClusterMapError: servers are not those of the ensemble that the map means.
        :raises AuthFailedError: an ensemble refuses the credentials; the client is closed then.
        :raises ConnectionLoss: an ensemble was not reached within the session timeout; the client goes on trying.
        :raises: the handler's ``timeout_exception``, which names the ensembles that were not reached, and why.
        """
        self.check_process()
        self.listeners.before_use()
        deadline_s = time.monotonic() + timeout
        self._settled.wait(timeout)
        session = self._session
        if session is None or session.cluster_map is None or not self.connected:
            raise ConnectionClosedError("the client is not connected: start it")
        known = [name for name in session.names if name in session.cluster_map.ensembles]
        for name in names:
            if name not in known:
                raise ValueError(f"no ensemble {name!r} in the cluster map: {', '.join(known)}")
        answers = [AwaitedAnswer(self.handler) for _ in names or known]
        for name, answer in zip(names or known, answers, strict=True):
            session.ports[session.names.index(name)].submit(GetData(ENSEMBLE, None), answer)
        for answer in answers:
            if not answer.has_come(deadline_s - time.monotonic()):
                message = f"Connection time-out: no session with {session.describe_missing()} within {timeout} s"
                raise time_out(self.handler, message, timeout)
            if self._state == KeeperState.AUTH_FAILED:
                raise AuthFailedError
            if isinstance(answer.value, ConnectionLoss):
                raise ConnectionLoss(f"no session with {session.describe_missing()}")
            if isinstance(answer.value, Exception):
                raise answer.value

    def state_of(self, path: str) -> str:
        """The KazooState of the ensemble that holds a znode: whether this client has a connection there.

        CONNECTED or SUSPENDED, whatever the state of the client as a whole; LOST if it has no session there, since
        it has not used that ensemble yet or is not started. The znode itself need not exist. Whether a lock or an
        ephemeral is safe is a question about its own path. On a map that has grown it goes by what the client
        knows: ask after the client has read or written the path.

        :param path: of the znode. Its children may be on another ensemble.
        """
        ensemble = self._ensemble_of(path)
        return KazooState.LOST if ensemble is None else kazoo_state(self._session.state_on(ensemble))

    def state_for_watch(self, path: str) -> str:
        """As :meth:`state_of`, of the ensemble that tells a watch on a znode that is not there.

        Where pins decide and nothing is known of its parent, that is where the parent is, or what is above it; an
        ensemble where it may come does not count, and need not be joined.
        """
        ensemble = self._ensemble_of(path, for_watch=True)
        return KazooState.LOST if ensemble is None else kazoo_state(self._session.state_on(ensemble))

    def may_have_ephemeral(self, path: str) -> bool:
        """Whether this client may have an ephemeral on the ensemble that holds a znode; if not known, on any."""
        ensemble = self._ensemble_of(path)
        if ensemble is None:
            return False
        context = self._session.driver.context
        parent = split(prefixed(self.chroot, path))[0]
        if isinstance(context, GrownContext) and not (is_fixed(parent) or context.places.is_pinned(parent)):
            return any(port.has_ephemerals for port in self._session.ports)
        return bool(self._session.ports[ensemble].has_ephemerals)

    def _ensemble_of(self, path: str, for_watch: bool = False) -> int | None:
        """The index of the ensemble that holds a znode, as far as is known; None if there is no session.

        :param for_watch: see :meth:`state_for_watch`.
        """
        session = self._session
        if session is None or session.driver is None or self._state in CLOSED_ERRORS:
            return None
        context, path = session.driver.context, prefixed(self.chroot, path)
        if for_watch and isinstance(context, GrownContext):
            path = context.places.nearest(path)
        return int(context.known(path).home.ensemble)


class AwaitedAnswer:
    """A reply for which a thread or greenlet waits: whichever it is, a time-out raises nothing."""

    def __init__(self, handler: Any) -> None:
        self.value: Any = None  # which may be an exception
        self._event = handler.event_object()

    def set(self, value: Any = None) -> None:
        self.value = value
        self._event.set()

    def set_exception(self, exception: Exception) -> None:
        self.set(exception)

    def has_come(self, timeout_s: float) -> bool:
        """Wait for it."""
        self._event.wait(max(0.0, timeout_s))
        return bool(self._event.is_set())


def time_out(handler: Any, message: str, seconds: float) -> Any:
    """The handler's timeout_exception, with a message that can be read: gevent's shows none."""
    kind = handler.timeout_exception
    if str(kind(message)) != message:
        kind = type(kind.__name__, (kind,), {"__str__": lambda self: message})
    error = kind(message)
    if not str(error):
        error.seconds = seconds  # gevent's shows its message only beside a number of seconds
    return error
