"""The form of the map rises to GROWN, one step at a time, as its clients follow (docs/design/protocol.md)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeGuard

from parkazoo.admin.clients import AdminClient, connect_to, for_each, unreachable
from parkazoo.admin.membership import read_config
from parkazoo.admin.publish import Options, change_map
from parkazoo.admin.registrations import (
    RegisteredClient,
    Registrations,
    by_client,
    read_sessions,
)
from parkazoo.admin.strangers import Lookout, Stranger, describe_strangers
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap, format_hosts, parse_hosts
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.map_copies import CopyKind, judge_copy
from parkazoo.protocol.placement import CLIENTS, MAP
from parkazoo.protocol.server_list import NEVER, Server, ServerList, follow

POLL_S = 0.5
Tell = Callable[[str], None]


class Waiting(NamedTuple):
    """:param form: of the map, by which all clients must work before the next one.
    :param behind: those that do not say so yet, with the sessions that do not.
    :param sessions: how many are registered.
    """

    form: Form
    behind: Sequence[RegisteredClient]
    sessions: int


OnWait = Callable[[Waiting], None]


def raise_form(
    known: ClusterMap,
    place: Callable[[ClusterMap], ClusterMap],
    options: Options,
    timeout_s: float,
    tell: Tell,
    on_wait: OnWait,
    strangers_gone: bool,
) -> ClusterMap:
    """Have the form rise to GROWN; return the map, which all copies have.

    :param known: the map as it was read, perhaps not the newest.
    :param place: adds an epoch to a map of form GROWN. The map in which the form becomes GROWN has it already:
        new directories go to the new ensembles from that moment on.
    :param on_wait: called again and again while clients are behind.
    :param strangers_gone: all who use the znodes are registered, as somebody knows.
    :raises ClusterMapError: an ensemble cannot be reached; sessions that are not registered are there, or may be;
        another command has given up the growth.
    """
    while known.form is not Form.GROWN:
        waited_for = known
        if known.form is Form.PLAIN or _have_followed(known, options, timeout_s, on_wait, strangers_gone):

            def next_form(before: ClusterMap, waited_for: ClusterMap = waited_for) -> ClusterMap:
                return _with_next_form(before, place) if before == waited_for else before

            known = change_map(known, next_form, options, timeout_s, lambda raised: tell(_describe_form(raised)))
        else:  # another command was faster
            known = change_map(known, lambda newest: newest, options, timeout_s)
        _verify_not_given_up(waited_for, known)
    return known


def _with_next_form(before: ClusterMap, place: Callable[[ClusterMap], ClusterMap]) -> ClusterMap:
    """The map that follows, in the next form; the last form comes with the epoch that `place` adds."""
    raised = before.with_form(Form(before.form + 1))
    return replace(place(raised), epoch=raised.epoch) if raised.form is Form.GROWN else raised


def look_ahead(
    known: ClusterMap, options: Options, timeout_s: float, tell: Tell, on_wait: OnWait, strangers_gone: bool
) -> None:
    """For a dry run: who would be waited for, those furthest behind first, and whether the form could rise.

    :raises ClusterMapError: an ensemble cannot be reached, or a server does not say who is connected to it.
    """
    if known.form is Form.GROWN:
        return
    with connect_to(known.ensembles, options, timeout_s) as (clients, absent):
        if absent:
            raise ClusterMapError(f"it is not seen which clients would be waited for: {unreachable(absent)}")
        sessions = dict(zip(clients, for_each(list(clients.values()), read_sessions), strict=True))
        found = sorted(by_client(sessions), key=lambda each: each.map if _is_number(each.map) else 0)
        on_wait(Waiting(known.form, found, sum(len(each.sessions) for each in found)))
        if not strangers_gone and (strangers := _find_strangers(known.form, clients, options, timeout_s)):
            tell(f"would be refused before the next form: {describe_strangers(strangers)}")


def _verify_not_given_up(before: ClusterMap, newest: ClusterMap) -> None:
    """To go on would overrule `parkazoo map abort`, and a higher form cannot be given up any more."""
    gone = [name for name in before.ensembles if name not in newest.ensembles]
    if gone or newest.form < before.form:
        without = f", without {', '.join(gone)}" if gone else ""
        raise ClusterMapError(
            "`parkazoo map abort` has given up the growth meanwhile: the map has form "
            f"{newest.form.word}{without}. Run the command again if it is to grow all the same"
        )


def _describe_form(raised: ClusterMap) -> str:
    """The step that has given a map its form, and perhaps an epoch."""
    added = f" with epoch {raised.epochs[-1].number}" if raised.later else ""
    return f"published map {raised.epoch} of form {raised.form.word}{added}: all copies have it"


def _have_followed(
    published: ClusterMap, options: Options, timeout_s: float, on_wait: OnWait, strangers_gone: bool
) -> bool:
    """Wait until all clients work by the published map. False: look again, perhaps another one is published."""
    with connect_to(published.ensembles, options, timeout_s) as (clients, absent):
        if absent:
            raise ClusterMapError(
                f"the map has form {published.form.word}, and cannot go on: {unreachable(absent)}\nIt is not seen "
                "which clients are there. Run the same command again when that is mended; nothing is lost"
            )
        while True:
            found = for_each(list(clients.values()), lambda client: _read(client, published))
            sessions = {name: each for name, each in zip(clients, found, strict=True) if each is not None}
            if len(sessions) < len(clients):
                return False
            behind = by_client({name: _behind(each, published.epoch) for name, each in sessions.items()})
            if not behind:
                break
            on_wait(Waiting(published.form, behind, sum(map(len, sessions.values()))))
            time.sleep(POLL_S)
        if not strangers_gone:
            _verify_no_strangers(published.form, clients, options, timeout_s)
        return True


def _read(client: AdminClient, published: ClusterMap) -> Registrations | None:
    """The sessions on an ensemble, read behind its copy of the map on one session.

    None if that is not the published one, or the session has ended in between: the next one may be on a server
    that lags, and shows fewer sessions than there were when the copy was written.
    """
    own = client.zk._session_id
    if judge_copy(client.read(MAP), published).kind is not CopyKind.SAME:
        return None
    sessions = read_sessions(client)
    if not sessions and not client.is_there(CLIENTS):
        raise ClusterMapError(
            f"the map has form {published.form.word}, and cannot go on: {CLIENTS} is gone on {client}. It is not "
            "seen which clients are there. Let `parkazoo map init` make it; then run the same command again"
        )
    return sessions if own is not None and client.zk._session_id == own else None


def _behind(sessions: Registrations, epoch: int) -> Registrations:
    return [(session, said) for session, said in sessions if not _says(said, epoch)]


def _says(said: Mapping[str, Any], epoch: int) -> bool:
    found = said.get("epoch")
    return _is_number(found) and found >= epoch


def _is_number(found: Any) -> TypeGuard[int]:
    return isinstance(found, int)


# ---- those who have not registered ---------------------------------------------------------------


def _verify_no_strangers(
    form: Form, clients: Mapping[str, AdminClient], options: Options, timeout_s: float
) -> None:
    """Who does not register is not waited for, and may create what others no longer look for.

    It is a plain kazoo program, or a client of ours that could not register.
    """
    if strangers := _find_strangers(form, clients, options, timeout_s):
        raise ClusterMapError(
            f"the map has form {form.word}, and cannot go on: {describe_strangers(strangers)}\nA program that "
            "writes by such a session would lose znodes. Have it use ParKazooClient; if it does, start it again, "
            f"and see that it may write to {CLIENTS}. Then run the same command again; or give --strangers-gone, "
            "if these sessions only read what others do not move (a monitor, a shell)"
        )


def _find_strangers(
    form: Form, clients: Mapping[str, AdminClient], options: Options, timeout_s: float
) -> Mapping[str, Stranger]:
    """The sessions that stay and are not registered.

    :param form: of the map, for errors.
    :raises ClusterMapError: a server does not say who is connected to it.
    """
    servers = {format_hosts([server]): name for name, client in clients.items() for server in _all_servers(client)}
    found, unseen = Lookout(clients, servers, options, timeout_s).look_again()
    if unseen:
        raise _cannot_see(form, "; ".join(f"{server}: {why}" for server, why in unseen.items()))
    return found


def _all_servers(client: AdminClient) -> list[Server]:
    """Those of the map, and those that the ensemble names, if it names them as the map does."""
    known = parse_hosts(client.hosts)
    members = follow(ServerList(NEVER, known), read_config(client)).servers
    return [*known, *(each for each in members if each not in known)]


def _cannot_see(form: Form, why: str) -> ClusterMapError:
    return ClusterMapError(
        f"the map has form {form.word}, and cannot go on: it cannot be seen whether plain kazoo programs "
        f"are connected ({why}). What they wrote would be lost. Run the same command again, with a longer "
        "--timeout if servers are busy; or make sure that there are no such programs, and give --strangers-gone"
    )
