"""Takes an ensemble that holds nothing out of the map, while clients work.

By a first map it is leaving: its weight is 0, and operations pin no directory there. One that has seen such a pin
checks it, in place of creating it: the directory may be another by then (``directory.py``). Clients follow as
to a newer form, so registrations say that map when all older operations have ended. From then on pins
that name the ensemble only become fewer, and a home stays where it is as long as its pin: a walk over all homes
that finds none proves that there is none. By a second map it has left. Its place in the order stays, because
the hash needs it, and so does its name, because clients may know it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from parkazoo.admin.clients import (
    TIMEOUT_S,
    AdminClient,
    Auth,
    connect_to,
    unreachable,
)
from parkazoo.admin.copies import update_copies
from parkazoo.admin.identity import is_identity
from parkazoo.admin.publish import change_map
from parkazoo.admin.read import read_map
from parkazoo.admin.registrations import by_client, read_sessions, verify_new_enough
from parkazoo.admin.rise import POLL_S, DryRefusal, OnWait, Rise, Tell, Waiting, with_epoch
from parkazoo.admin.still_held import StillHeld, find_held
from parkazoo.admin.verify import verify_names
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.placement import ENSEMBLE
from parkazoo.protocol.where.places import Places


def remove_ensemble(
    hosts: str,
    name: str,
    *,
    dry_run: bool = False,
    strangers_gone: bool = False,
    tell: Tell = lambda step: None,
    on_wait: OnWait = lambda waiting: None,
    auth: Auth = (),
    timeout_s: float = TIMEOUT_S,
    **client_options: Any,
) -> ClusterMap:
    """Takes an ensemble that holds no znode out of the map. Returns the map.

    If a directory has its place there, even without a child, that is an error, and nothing is changed. Otherwise
    no new directory goes there; when all clients work by that, it looks at all directories again. If one has got
    its place there meanwhile, that is an error too, and the ensemble is left as it is for a later call;
    `change_weights` takes that back. Then the ensemble leaves, for good, and it waits until clients have closed
    their sessions there. A call may be interrupted anywhere; several may run at once.

    :param name: of the ensemble. Nor does another one get that name.
    :param dry_run: writes nothing.
    :param strangers_gone: as for `grow_map`, like `tell`, `on_wait`, `timeout_s` and `client_options`.
    :raises ClusterMapError: the ensemble cannot leave, or still holds something; or as `grow_map`.
    """
    options = {**client_options, "auth_data": list(auth)}
    rise = Rise(options, timeout_s, tell, on_wait, dry_run, True, strangers_gone)
    known = read_map(hosts, auth=auth, timeout_s=timeout_s, **client_options)
    if name not in known.gone:
        _verify_removable(known, name)
        with _connected(known, rise) as clients:
            _verify_clients(known, clients, rise)
            held = find_held(known, name, clients)
        if held.directories and name not in known.leaving:  # what else is held may be on its way out
            refusal = f"{name} is still needed, and nothing was changed: {held.describe(name)}"
            if not dry_run:
                raise ClusterMapError(refusal)
            rise.tell(DryRefusal(f"would be refused: {refusal}"))
            return known
        if dry_run:
            _rehearse(known, name, held, rise)
            return known
        known = _take_out(known, name, rise)
    elif not dry_run:  # a command may have been interrupted
        known = change_map(known, lambda newest: newest, options, timeout_s)
    if not dry_run:
        _await_clients(known, name, rise)
    return known


def _verify_removable(known: ClusterMap, name: str) -> None:
    verify_names([name], known)
    root = known.names[Places(known.make_placement()).known("/").mirror.ensemble]
    if name in (known.bootstrap, root):
        has = "the map" if name == known.bootstrap else "the children of /"
        raise ClusterMapError(
            f"ensemble {name} has {has}, and cannot leave: to replace its servers, see `parkazoo map hosts`"
        )
    if name in known.unused:
        raise ClusterMapError(f"no epoch names ensemble {name}: `parkazoo map abort` takes it out")
    if known.form is not Form.GROWN:
        raise ClusterMapError(
            f"the map has form {known.form.word}: paths say which directories are on {name}. Ensembles can leave "
            "a map of form grown, which `parkazoo map grow` makes of it"
        )


@contextmanager
def _connected(known: ClusterMap, rise: Rise) -> Iterator[Mapping[str, AdminClient]]:
    """Yields a client for each ensemble, by name, whose server has applied all that was written before.

    :raises ClusterMapError: an ensemble is unreachable.
    """
    with rise.connected(known) as clients:
        for client in clients.values():
            client.patiently(client.catch_up)
        yield clients


def _verify_clients(known: ClusterMap, clients: Mapping[str, AdminClient], rise: Rise) -> None:
    """Raises ClusterMapError if a client would not understand the map, or does not register."""
    verify_new_enough(clients)
    rise.verify_no_strangers(known, clients)


def _rehearse(known: ClusterMap, name: str, held: StillHeld, rise: Rise) -> None:
    leaving = known.with_leaving(name)
    if leaving != known:
        rise.tell(f"would publish {with_epoch(leaving)}: no new directory goes to {name}")
    if held:
        rise.tell(DryRefusal(f"would stop there: {held.describe(name)}"))
    else:
        gone = leaving.without(name)
        rise.tell(f"would publish map {gone.epoch}, without {name}, when all clients work by map {leaving.epoch}")


def _take_out(known: ClusterMap, name: str, rise: Rise) -> ClusterMap:
    """Publishes that the ensemble is leaving, and that it has left; returns the last map."""

    def leave(before: ClusterMap) -> ClusterMap:
        if name in before.gone:
            return before
        _verify_removable(before, name)
        return before.with_leaving(name)

    def tell_leaving(published: ClusterMap) -> None:
        rise.tell(f"published {with_epoch(published)}: no new directory goes to {name}")

    known = change_map(known, leave, rise.options, rise.timeout_s, tell_leaving)
    since = known.leaving.get(name)
    while _is_leaving(known, name, since) and not rise.have_followed(known):  # another command was faster
        known = change_map(known, lambda newest: newest, rise.options, rise.timeout_s)
    if name in known.gone:
        return known
    with _connected(known, rise) as clients:
        if held := find_held(known, name, clients):
            raise ClusterMapError(
                f"{name} is leaving, but still needed: {held.describe(name)}\nRun the same command again when "
                f"that is gone. `parkazoo map weight {name}=1` has {name} stay"
            )

    def go(before: ClusterMap) -> ClusterMap:
        return before.without(name) if _is_leaving(before, name, since) else before

    def tell_gone(published: ClusterMap) -> None:
        rise.tell(f"published map {published.epoch}: {name} holds nothing, and has left")

    return change_map(known, go, rise.options, rise.timeout_s, tell_gone)


def _is_leaving(known: ClusterMap, name: str, since: int | None) -> bool:
    """Whether it has been leaving since that map. It may have left by another command.

    :raises ClusterMapError: it has got a weight meanwhile: then a pin may have come to name it.
    """
    if name in known.gone:
        return False
    if known.leaving.get(name) != since:
        raise ClusterMapError(
            f"{name} has got a weight meanwhile, before map {known.epoch}: run the command again if it is to "
            "leave all the same"
        )
    return True


def _await_clients(known: ClusterMap, name: str, rise: Rise) -> None:
    """Has the clients of an ensemble that has left hear of it there, and waits until none has a session there."""
    hosts = {known.bootstrap: known.ensembles[known.bootstrap], name: known.gone[name]}
    with connect_to(hosts, rise.options, rise.timeout_s, gives_up=True) as (clients, absent):
        if known.bootstrap not in clients:
            raise ClusterMapError(
                f"{name} has left the map; its clients are not waited for: {unreachable(absent)}"
            )
        client = clients.get(name)
        if client is None:
            rise.tell(
                f"{name} has left the map, and its servers cannot be reached. If they run, do not stop them "
                "before this command says so, from where it reaches them"
            )
            return
        if not is_identity(client.read(ENSEMBLE) or b"", known, name):
            rise.tell(f"{name} has left the map, and its servers are not that ensemble any more")
            return
        update_copies(clients, known.bootstrap)
        while True:
            while sessions := read_sessions(client):
                clients_there = by_client({name: sessions})
                rise.on_wait(Waiting(known.form, known.epoch, clients_there, len(sessions)))
                time.sleep(POLL_S)
            rise.verify_no_strangers(known, {name: client})
            if not read_sessions(client):
                break
    rise.tell(f"no client has a session on {name}: its servers may be stopped")
