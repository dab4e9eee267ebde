"""What both clients show of their ensembles: counters, the ensemble of a znode, those that a join names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kazoo.protocol.states import KazooState

from parkazoo.compat.tally import ClientTally
from parkazoo.monitoring import Counters
from parkazoo.protocol.asking import check_path, prefixed
from parkazoo.protocol.cluster_map import FIRST
from parkazoo.protocol.states import kazoo_state


def counters_of(tally: ClientTally | None, session: Any | None, members: Iterable[Any]) -> Counters:
    """Returns what a client has counted, and the state of its requests and ensembles now.

    :raises RuntimeError: the client does not count.
    """
    if tally is None:
        raise RuntimeError("this client does not count: make it with ParKazooClient(..., counters=True)")
    named = [member for member in members if member.name != FIRST]
    roster = session.roster if session else None
    known = None if roster is None else roster.cluster_map
    names = [] if roster is None else roster.names[:]
    ports = [] if roster is None else roster.ports
    queued = {name: port.kept for name, port in zip(names, ports, strict=False) if hasattr(port, "kept")}
    return Counters(
        *tally.requests(),
        {member.name: len(member._pending) for member in named},
        queued | {member.name: len(member.backlog) for member in named},
        {name: False for name in names if known is None or name not in known.gone}
        | {member.name: kazoo_state(member._state) == KazooState.CONNECTED for member in named},
        dict(tally.connections_lost),
        dict(tally.sessions_expired),
        dict(tally.watch_events),
        roster.cluster_map.epoch if roster is not None and names else 0,
    )


def ports_to_join(roster: Any, names: Sequence[str]) -> list[Any]:
    """Returns the ports of these ensembles; without names, of all.

    :raises ValueError: the cluster map has no ensemble of that name.
    """
    known = [name for name in roster.names if name in roster.cluster_map.ensembles]
    for name in names:
        if name not in known:
            raise ValueError(f"no ensemble {name!r} in the cluster map: {', '.join(known)}")
    return [roster.ports[roster.names.index(name)] for name in names or known]


def ensemble_of(session: Any, chroot: str, path: str, for_watch: bool = False) -> int:
    """Returns the index of the ensemble that holds a znode, as far as the client knows.

    :param for_watch: the one that sends the events of a watch on the missing znode.
    """
    check_path(path)
    context, path = session.driver.context, prefixed(chroot, path)
    if for_watch:
        path = context.places.nearest(path)
    return int(context.known(path).home.ensemble)
