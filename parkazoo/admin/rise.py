"""Raises the form of the map to GROWN, one step at a time, as its clients follow (docs/design/protocol.md)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeGuard

from parkazoo.admin.clients import AdminClient, Options, connect_to, for_each, unreachable
from parkazoo.admin.membership import read_config
from parkazoo.admin.publish import Change, change_map, verify_size
from parkazoo.admin.registrations import (
    RegisteredClient,
    Registrations,
    by_client,
    read_registered,
    read_sessions,
)
from parkazoo.admin.strangers import Lookout, OfEnsemble, Stranger, describe_strangers
from parkazoo.admin.unconfirmed import UnconfirmedError
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap, format_hosts, parse_hosts
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.map_copies import CopyKind, judge_copy
from parkazoo.protocol.placement import CLIENTS, MAP
from parkazoo.protocol.server_list import NEVER, Server, ServerList, follow

POLL_S = 0.5
Tell = Callable[[str], None]
# What clients do by a map of each form.
DOES = {
    Form.TOLERANT: "clients read pins",
    Form.GUARDED: "clients write pins, and no command takes that back",
    Form.GROWN: "pins decide where directories are",
}
FOR_GOOD = (
    "so far a directory's path alone says on which ensemble its children are. Rules and weights need pins to say "
    "so, for good: no command takes that back. A new directory, and the answer that there is no znode, cost more "
    "requests then, and plain kazoo programs must not write any more. All clients follow first, while they work: "
    "a dry run names them"
)


class Waiting(NamedTuple):
    """:param form: of the map, by which all clients must work before the next one.
    :param map: the number of that map.
    :param behind: the clients that do not say so yet, with the sessions that do not.
    :param sessions: how many are registered.
    """

    form: Form
    map: int
    behind: Sequence[RegisteredClient]
    sessions: int


OnWait = Callable[[Waiting], None]


class DryRefusal(str):
    """What a dry run tells of a command that would be refused."""


class StrangersError(ClusterMapError):
    """Sessions that are not registered are there, or may be."""


@dataclass(frozen=True)
class Rise:
    """Changes what only a map of form GROWN can have, and has the form rise for it if it must.

    :param tell: called after each step with its description; of a dry run too.
    :param on_wait: called again and again while clients are behind; by a dry run once.
    :param dry_run: write nothing.
    :param yes: the form may rise, though no command takes that back.
    :param strangers_gone: all who use the znodes are registered, as somebody knows.
    """

    options: Options
    timeout_s: float
    tell: Tell
    on_wait: OnWait
    dry_run: bool
    yes: bool
    strangers_gone: bool

    def verify_ready(self, known: ClusterMap, named: ClusterMap) -> None:
        """Raise, before anything is written, if the form must not begin to rise.

        :param named: the map from which it would rise, perhaps with ensembles that are to come.
        :raises UnconfirmedError: nobody has agreed.
        :raises ClusterMapError: an ensemble cannot be reached; sessions that are not registered are there, or may
            be.
        """
        if self.dry_run or known.form >= Form.GUARDED:
            return
        if not self.yes:
            raise UnconfirmedError(FOR_GOOD, "yes")
        with connect_to(named.ensembles, self.options, self.timeout_s, gives_up=True) as (clients, absent):
            if absent:
                raise ClusterMapError(f"{_stopped(known)}: {unreachable(absent)}")
            for name in known.ensembles:
                _verify_room(clients[name], known)
            self.verify_no_strangers(known, clients)

    @contextmanager
    def connected(self, wanted: ClusterMap) -> Iterator[Mapping[str, AdminClient]]:
        """Yield a client for each ensemble, by name.

        :raises ClusterMapError: an ensemble is unreachable.
        """
        with connect_to(
            wanted.ensembles, self.options, self.timeout_s, gives_up=True, registers=not self.dry_run
        ) as (clients, absent):
            if absent:
                raise ClusterMapError(f"the map is not changed: {unreachable(absent)}")
            yield clients

    def change(self, known: ClusterMap, place: Change, *, alone: bool = False, leaves: bool = False) -> ClusterMap:
        """Publish the epoch that `place` adds, in a map of form GROWN; return the map, or the one that would be.

        :param known: the map as it was read, perhaps not the newest.
        :param place: adds the epoch, or returns the map that it is given if it has it. The map in which the form
            becomes GROWN has it already: new directories go where it says from that moment on.
        :param alone: have the form rise also if `place` adds nothing.
        :param leaves: a change that may go ahead may leave copies behind, and tell so.
        :raises ClusterMapError: an ensemble cannot be reached; sessions that are not registered are there, or may
            be; another command has given up the growth.
        """
        rises = known.form is not Form.GROWN and (alone or is_changed(known, place))
        if self.dry_run:
            return self._rehearse(known, place, rises)
        if rises:
            known = self._to_grown(known, place)
        return change_map(
            known,
            place,
            self.options,
            self.timeout_s,
            lambda published: self.tell(f"published {with_epoch(published)}"),
            self.tell if leaves else None,
        )

    def _to_grown(self, known: ClusterMap, place: Change) -> ClusterMap:
        while known.form is not Form.GROWN:
            waited_for = known
            if known.form is Form.PLAIN or self.have_followed(known):

                def next_form(before: ClusterMap, waited_for: ClusterMap = waited_for) -> ClusterMap:
                    return _with_next_form(before, place) if before == waited_for else before

                known = change_map(
                    known,
                    next_form,
                    self.options,
                    self.timeout_s,
                    lambda raised: self.tell(f"published {with_epoch(raised)}: {DOES[raised.form]}"),
                )
            else:  # another command was faster
                known = change_map(known, lambda newest: newest, self.options, self.timeout_s)
            _verify_not_given_up(waited_for, known)
        return known

    def _rehearse(self, known: ClusterMap, place: Change, rises: bool) -> ClusterMap:
        """Tell each map that would be published, and for whom the command would wait; return the last."""
        before, steps = known, []
        while rises and known.form is not Form.GROWN:
            waited_for, known = known, _with_next_form(known, place)
            wait = f" when all clients work by map {waited_for.epoch}" if waited_for.form is not Form.PLAIN else ""
            steps.append(f"would publish {with_epoch(known)}{wait}: {DOES[known.form]}")
        if not rises and (placed := place(known)) != known:
            known = placed
            steps.append(f"would publish {with_epoch(known)}")
        verify_size(before, known)
        for step in steps:
            self.tell(step)
        if rises:
            self._look_ahead(before)
        return known

    def _look_ahead(self, known: ClusterMap) -> None:
        """Tell who would be waited for, those furthest behind first, and whether the form could rise."""
        with connect_to(known.ensembles, self.options, self.timeout_s, gives_up=True) as (clients, absent):
            if absent:
                raise ClusterMapError(
                    f"the clients that would be waited for cannot be seen: {unreachable(absent)}"
                )
            sessions = dict(zip(clients, for_each(list(clients.values()), read_sessions), strict=True))
            found = sorted(by_client(sessions), key=lambda each: each.map if _is_number(each.map) else 0)
            self.on_wait(Waiting(known.form, known.epoch, found, sum(len(each.sessions) for each in found)))
            if not self.strangers_gone and (strangers := self._find_strangers(known, clients)):
                self.tell(DryRefusal(f"would be refused: {describe_strangers(strangers)}"))

    def have_followed(self, published: ClusterMap) -> bool:
        """Wait until all clients work by the published map; return False if there may be another one by now."""
        with connect_to(published.ensembles, self.options, self.timeout_s, registers=True) as (clients, absent):
            if absent:
                raise ClusterMapError(
                    f"{_stopped(published)}: {unreachable(absent)}\nIts clients cannot be seen. Run the same "
                    "command again when that is mended; nothing is lost"
                )
            while True:
                waiting = find_behind(clients, published)
                if waiting is None:
                    return False
                if not waiting.behind:
                    break
                self.on_wait(waiting)
                time.sleep(POLL_S)
            self.verify_no_strangers(published, clients)
            return True

    def verify_no_strangers(
        self, known: ClusterMap, clients: Mapping[str, AdminClient], *, are_none: bool = False
    ) -> None:
        """Who does not register is not waited for, and may create what others no longer look for.

        It is a plain kazoo program, or a client of ours that could not register.

        :param are_none: a look that is not long ago has found none.
        :raises StrangersError: they stay, or a server does not say who is connected to it.
        """
        if not self.strangers_gone and (strangers := self._find_strangers(known, clients, are_none)):
            undo = ". `parkazoo map abort` takes back what was begun" if known.form is Form.TOLERANT else ""
            raise StrangersError(
                f"{_stopped(known)}: {describe_strangers(strangers)}\nA program that writes in such a session "
                "would lose znodes. Have it use ParKazooClient; if it does, restart it, and see that it may write "
                f"to {CLIENTS}. Then run the same command again; or give --strangers-gone, if these sessions only "
                f"read (a monitor, a shell){undo}"
            )

    def _find_strangers(
        self, known: ClusterMap, clients: Mapping[str, AdminClient], are_none: bool = False
    ) -> Mapping[OfEnsemble, Stranger]:
        """Return the sessions that stay and are not registered.

        :param known: the map, for errors.
        """
        servers = {
            format_hosts([server]): name for name, client in clients.items() for server in _all_servers(client)
        }
        lookout = Lookout(clients, servers, self.options, self.timeout_s)
        found, unseen = lookout.look() if are_none else lookout.look_again()
        if found and are_none:
            found, unseen = lookout.look_again()
        if unseen:
            why = "; ".join(f"{server}: {why}" for server, why in unseen.items())
            raise StrangersError(
                f"{_stopped(known)}: plain kazoo programs may be connected, and cannot be seen ({why}). They "
                "would lose znodes. Run the same command again, with a longer --timeout if servers are busy; or "
                "make sure that there are none, and give --strangers-gone"
            )
        return found


Said = dict[str, set[str]]  # by ensemble, the sessions that have said a map


def find_behind(
    clients: Mapping[str, AdminClient], published: ClusterMap, said: Said | None = None
) -> Waiting | None:
    """Who has a session on these ensembles and does not say the published map; None: there may be another one.

    :param said: the sessions that have said it before: they are not asked again, for none goes back to an older
        one. More are added.
    """
    known = {} if said is None else said
    found = for_each(
        list(clients.values()), lambda client: _read(client, published, known.setdefault(client.name, set()))
    )
    sessions = {name: each for name, each in zip(clients, found, strict=True) if each is not None}
    if len(sessions) < len(clients):
        return None
    behind = by_client({name: each.behind for name, each in sessions.items()})
    return Waiting(published.form, published.epoch, behind, sum(each.sessions for each in sessions.values()))


def is_changed(known: ClusterMap, place: Change) -> bool:
    """Whether `place` adds an epoch, once the map has form GROWN."""
    grown = as_grown(known)
    return place(grown) != grown


def as_grown(known: ClusterMap) -> ClusterMap:
    """Return the map in form GROWN, as many maps later as that takes."""
    for form in Form:
        if form > known.form:
            known = known.with_form(form)
    return known


def _with_next_form(before: ClusterMap, place: Change) -> ClusterMap:
    """Return the map that follows, in the next form; the last form comes with the epoch that `place` adds."""
    raised = before.with_form(Form(before.form + 1))
    return replace(place(raised), epoch=raised.epoch) if raised.form is Form.GROWN else raised


def with_epoch(cluster_map: ClusterMap) -> str:
    """As "map 6 with epoch 3"; no epoch but the first is in maps of other forms."""
    return f"map {cluster_map.epoch}{f' with epoch {cluster_map.epochs[-1].number}' if cluster_map.later else ''}"


def _stopped(known: ClusterMap) -> str:
    return "the map is not changed" if known.form is Form.PLAIN else f"stopped at map {known.epoch}"


def _verify_not_given_up(before: ClusterMap, newest: ClusterMap) -> None:
    """To go on would overrule `parkazoo map abort`, and a higher form cannot be given up any more."""
    gone = [name for name in before.ensembles if name not in newest.ensembles]
    if gone or newest.form < before.form:
        without = f", without {', '.join(gone)}," if gone else ""
        raise ClusterMapError(
            f"`parkazoo map abort` has given this up meanwhile: map {newest.epoch}{without} is published. To go "
            "on all the same, run the command again"
        )


class _Registered(NamedTuple):
    """On one ensemble.

    :param behind: those that do not say the map. :param sessions: how many there are.
    """

    behind: Registrations
    sessions: int


def _read(client: AdminClient, published: ClusterMap, said: set[str]) -> _Registered | None:
    """The sessions on an ensemble, read behind its copy of the map on one session.

    None if that is not the published one, or the session has ended in between: the next one may be on a server
    that lags, and shows fewer sessions than there were when the copy was written.

    :param said: as for :func:`find_behind`, of this ensemble.
    """
    own = client.zk._session_id
    if judge_copy(client.read(MAP), published).kind is not CopyKind.SAME:
        return None
    sessions = client.children(CLIENTS)
    asked = [each for each in sessions if each not in said]
    registered = read_registered(client, asked)
    if not sessions:
        _verify_room(client, published)
    if own is None or client.zk._session_id != own:
        return None
    behind = [(session, what) for session, what in registered if not _says(what, published.epoch)]
    said.update({session for session, _ in registered} - {session for session, _ in behind})
    return _Registered(behind, len(registered) + len(sessions) - len(asked))


def _verify_room(client: AdminClient, known: ClusterMap) -> None:
    if not client.is_there(CLIENTS):
        raise ClusterMapError(
            f"{_stopped(known)}: {CLIENTS} is gone on {client}, so its clients cannot be seen. Let `parkazoo map "
            "init` make it; then run the same command again"
        )


def _says(said: Mapping[str, object], epoch: int) -> bool:
    found = said.get("epoch")
    return _is_number(found) and found >= epoch


def _is_number(found: object) -> TypeGuard[int]:
    return isinstance(found, int)


def _all_servers(client: AdminClient) -> list[Server]:
    """The map's servers, and the ensemble's own, if it names them as the map does."""
    known = parse_hosts(client.hosts)
    members = follow(ServerList(NEVER, known), read_config(client)).servers
    return [*known, *(each for each in members if each not in known)]
