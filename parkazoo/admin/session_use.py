"""What sessions do and hold: requests by ``cons``; if asked, ephemerals by ``dump`` and watches by ``wchc``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from parkazoo.admin.answers import count_ephemerals, count_in_directories, count_watches, why_unanswered
from parkazoo.admin.clients import AdminClient, for_each
from parkazoo.admin.strangers import ConnectedSessions, Stranger, Strangers
from parkazoo.protocol.placement import ROOT, logical_directory
from parkazoo.wire.report import words_of

Counts = Mapping[str, int]  # by session


class SessionUse(NamedTuple):
    """Describes what one session does and holds, or several together; None for a number that is not wholly known.

    :param requests: since it was connected, pings included. :param ephemerals: its registration included.
    :param watches: paths that it watches by get and exists; servers do not list those on children.
    :param away: ensembles where its session has no connection at this moment.
    """

    requests: int | None
    ephemerals: int | None
    watches: int | None
    away: tuple[str, ...] = ()

    def numbers(self) -> dict[str, int | None]:
        return {"requests": self.requests, "ephemerals": self.ephemerals, "watches": self.watches}


class FullDirectory(NamedTuple):
    """:param path: as clients name it. :param ephemerals: so many there are of one session, or of its client."""

    path: str
    owner: str
    ephemerals: int


class Held(NamedTuple):
    """:param ephemerals: by ensemble. :param watches: by server.
    :param untold: by a word and whom it was asked: why it was not answered.
    :param fullest: by ensemble: the directory with the most ephemerals of one session, without registrations.
    """

    ephemerals: Mapping[str, Counts]
    watches: Mapping[str, Counts]
    untold: Mapping[str, str]
    fullest: Mapping[str, FullDirectory] = MappingProxyType({})


NOT_ASKED = Held({}, {}, {})


def ask_held(servers: Sequence[tuple[str, AdminClient]]) -> Held:
    """Asks each server once for its watches, and one of each ensemble for the ephemerals, which all have.

    Both are costly: a server lists all, and meanwhile nobody sets or gets a watch there.

    :param servers: the ensemble's name, and a client of a server, which need not be started.
    """
    by_ensemble: dict[str, list[AdminClient]] = defaultdict(list)
    for name, client in servers:
        by_ensemble[name].append(client)
    watches = [partial(_ask, "wchc", [client]) for _, client in servers]
    ephemerals = [partial(_ask, "dump", clients) for clients in by_ensemble.values()]
    calls: list[Callable[[], tuple[str, str]]] = [*watches, *ephemerals]
    said = for_each(calls, lambda call: call())
    of_servers = dict(zip((client.hosts for _, client in servers), said, strict=False))
    of_ensembles = dict(zip(by_ensemble, said[len(watches) :], strict=True))
    return Held(
        {name: count_ephemerals(answer) for name, (answer, why) in of_ensembles.items() if not why},
        {server: count_watches(answer) for server, (answer, why) in of_servers.items() if not why},
        {
            **{f"the ephemerals of ensemble {name}": why for name, (_, why) in of_ensembles.items() if why},
            **{f"the watches at {server}": why for server, (_, why) in of_servers.items() if why},
        },
        {name: full for name, (answer, _) in of_ensembles.items() if (full := _fullest(answer)) is not None},
    )


def _fullest(answer: str) -> FullDirectory | None:
    for (session, physical), number in count_in_directories(answer).most_common():
        if (path := logical_directory(physical)) != ROOT:
            return FullDirectory(path, session, number)
    return None


def _ask(word: str, clients: Iterable[AdminClient]) -> tuple[str, str]:
    """The answer of the first that gives one; or why the last does not."""
    why = ""
    for client in clients:
        try:
            answer = client.ask(word)
        except OSError as error:
            why = f"{word}: {words_of(error)}"
            continue
        if not (refusal := why_unanswered(word, answer)):
            return answer, ""
        why = f"{word}: {refusal}"
    return "", why


def with_lost(seen: Strangers, connected: ConnectedSessions, held: Held, servers: Mapping[str, str]) -> Strangers:
    """Returns the uses seen, and sessions with ephemerals that have neither a registration nor a connection."""
    unseen = {servers[server] for server in seen.unseen}
    lost = {
        (name, session): Stranger(session, "no connection", f"ensemble {name}", name)
        for name, counts in held.ephemerals.items()
        for session in counts
        if name not in unseen
        and (name, session) not in connected.registered
        and (name, session) not in connected.sessions
    }
    return seen._replace(found={**lost, **seen.found}) if lost else seen


def use_of(
    sessions: Mapping[str, str], unseen: Collection[str], connected: ConnectedSessions, held: Held
) -> SessionUse:
    """Returns what sessions do and hold together.

    :param sessions: by ensemble. :param unseen: ensembles with a server of which the connections are not known.
    """
    requests: list[int | None] = []
    ephemerals: list[int | None] = []
    watches: list[int | None] = []
    away = []
    for name, session in sessions.items():
        server, connection = connected.sessions.get((name, session), ("", None))
        if connection is None and name not in unseen and (name, session) in connected.registered:
            away.append(name)
        if connection is not None:
            requests.append(connection.requests)
        else:
            requests.append(None if name in unseen else 0)
        ephemerals.append(held.ephemerals[name].get(session, 0) if name in held.ephemerals else None)
        watches.append(_watches(session, server, name in unseen, held))
    return SessionUse(_sum(requests), _sum(ephemerals), _sum(watches), tuple(away))


def _watches(session: str, server: str, is_unseen: bool, held: Held) -> int | None:
    if server:
        return held.watches[server].get(session, 0) if server in held.watches else None
    return None if is_unseen or not held.watches else 0


def _sum(numbers: Iterable[int | None]) -> int | None:
    """None if one of them is not known."""
    total = 0
    for number in numbers:
        if number is None:
            return None
        total += number
    return total
