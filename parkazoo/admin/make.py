"""The cluster map, made.

The draft makes `init_map` safe to repeat. It is created first, so that all clients that make a map at the same
time, or after a crash, agree on one. A transaction turns it into the map; the copies come last.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from parkazoo.admin.agreement import agree_on_map, agree_with_copies, plan_map, same_map
from parkazoo.admin.arguments import arguments_alone
from parkazoo.admin.clients import TIMEOUT_S, AdminClient, Auth, connect_to, unreachable
from parkazoo.admin.contents import DRAFT, Contents, has_mirrors, missing_fences, parse_map
from parkazoo.admin.copies import update_copies
from parkazoo.admin.history import add_to_history
from parkazoo.admin.identity import encode_identity, is_identity, verify_distinct
from parkazoo.admin.loss import Loss, assess, find_lost, verify_given_up
from parkazoo.admin.strays import verify_no_strays, verify_places
from parkazoo.admin.verify import verify_contents, verify_form, verify_identities, verify_names
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap, describe_record
from parkazoo.protocol.epochs import FORMS, Form
from parkazoo.protocol.placement import CLIENTS, DONE, ENSEMBLE, FENCES, MAP, MIRRORS, ROOT
from parkazoo.protocol.rights import is_masked

FORMS_OF_NEW = (Form.PLAIN.word, Form.GROWN.word)
CREATES_AT_ONCE = 32  # clients may be at work there: a larger transaction would hold them up


def init_map(
    bootstrap: str,
    ensembles: Mapping[str, str],
    *,
    auth: Auth = (),
    form: str = Form.PLAIN.word,
    closed: bool = False,
    replace: Collection[str] = (),
    tell: Callable[[Loss], None] = lambda loss: None,
    timeout_s: float = TIMEOUT_S,
    **client_options: Any,
) -> ClusterMap:
    """Makes the cluster map, and the protocol's znodes on every ensemble; returns the map.

    Before it writes anything, it verifies that every ensemble is reachable, that no two of them are the same, that
    none has another map and, if there are several, that none has znodes which would be out of reach. A single
    ensemble is adopted with all its data. If it is repeated with the same arguments, it finishes the work of a
    crashed call, makes missing parts again, overwrites nothing, and returns the existing map. It refuses an
    ensemble that was part of the cluster and has lost its data, unless `replace` names it.

    :param bootstrap: hosts (``"h:p,h:p"``) of the ensemble for the map: all or some servers of one of `ensembles`,
        or a separate ensemble that holds the map and nothing else (its name is "bootstrap").
    :param ensembles: hosts by name, of the ensembles for znodes; their order is part of the map.
    :param auth: identities as ``(scheme, credential)``.
    :param form: ``"plain"``; or ``"grown"``, for two or more ensembles.
    :param closed: let only the identities of this call read or change ``/parkazoo``, the map included, so that
        every client needs them; by default anyone may.
    :param replace: names of ensembles to make anew if they have lost their data, which is given up.
    :param tell: called with the losses, before anything is written.
    :param timeout_s: seconds to wait for the connections, and for each answer.
    :param client_options: further arguments for KazooClient (TLS, SASL), except ``handler``.
    :raises ClusterMapError: an ensemble or a map is not as described above. The message says what to do.
    :raises ConfigurationError: the TLS or SASL options cannot be used.
    """
    has_identity = bool(auth or client_options.get("sasl_options") or client_options.get("certfile"))
    wanted = _plan(bootstrap, ensembles, form, replace, closed, has_identity)
    options = {**client_options, "auth_data": list(auth)}
    with connect_to(wanted.ensembles, options, timeout_s) as (clients, absent):
        if absent:
            raise ClusterMapError(unreachable(absent))
        # The bootstrap ensemble last: a client marks the others only after it has written a draft there.
        first = sorted(clients.values(), key=lambda client: client.name == wanted.bootstrap)
        states = {client.name: Contents.read(client) for client in first}
        cluster_map, is_made = agree_on_map(wanted, states)
        if closed:
            for name, state in states.items():
                verify_identities(f"ensemble {name} ({state.hosts})", auth, state.acl)
        for name in states:
            verify_contents(cluster_map, name, states, closed, is_made)
        if not is_made:
            cluster_map = agree_with_copies(cluster_map, states)
        if lost := find_lost(cluster_map, states, is_made):
            if not is_made:  # with its ensembles in another order, the error would name other losses
                verify_places(cluster_map, clients)
            loss = assess(cluster_map, clients, lost)
            verify_given_up(cluster_map, states, loss, replace, is_made)
            tell(loss)
        if not is_made or any(state.record is None for state in states.values()):
            verify_distinct(clients, options, timeout_s)
        if not is_made and not lost:
            verify_no_strays(cluster_map, clients)
        return _write(clients, cluster_map, is_made, _acl_of_new(states.values(), closed))


def _acl_of_new(states: Iterable[Contents], closed: bool) -> Sequence[ACL]:
    """The ACL of what is missing: as ``/parkazoo``, which may name more identities than this call has.

    :param states: the last one counts that has ``/parkazoo``.
    """
    if not closed:
        return OPEN_ACL_UNSAFE
    return [[*CREATOR_ALL_ACL], *([*each.acl] for each in states if each.acl and not is_masked(each.acl))][-1]


@arguments_alone()
def _plan(
    bootstrap: str,
    ensembles: Mapping[str, str],
    form: str,
    replace: Collection[str],
    closed: bool,
    has_identity: bool,
) -> ClusterMap:
    if form not in FORMS_OF_NEW:
        raise ClusterMapError(f"a new map has form {' or '.join(FORMS_OF_NEW)}, not {form!r}")
    wanted = plan_map(bootstrap, ensembles, FORMS[form])
    verify_names(replace, wanted)
    if closed and not has_identity:
        raise ClusterMapError("a closed cluster needs an identity to be closed to: give one in auth (--auth)")
    return wanted


def _write(
    clients: Mapping[str, AdminClient], cluster_map: ClusterMap, is_made: bool, acl: Sequence[ACL]
) -> ClusterMap:
    """Make the map, unless it is made, and each ensemble's missing znodes."""
    bootstrap = clients[cluster_map.bootstrap]
    if not is_made:
        cluster_map = _write_draft(bootstrap, cluster_map, acl)
    for client in clients.values():
        make_structure(client, cluster_map, acl)
        make_identity(client, cluster_map, acl)
    if not is_made:
        _publish(bootstrap, cluster_map, acl)
    return update_copies(clients, cluster_map.bootstrap).map


def _write_draft(client: AdminClient, cluster_map: ClusterMap, acl: Sequence[ACL]) -> ClusterMap:
    """The draft: this map, or a faster client's, if it is the same but for its id."""
    _make_root(client, acl)
    transaction = client.zk.transaction()
    transaction.create(MAP, b"", acl)  # fails if there is a map by now
    transaction.delete(MAP)
    transaction.create(DRAFT, cluster_map.to_json(), acl)
    if client.commit(DRAFT, transaction):
        return cluster_map
    for path in (DRAFT, MAP):
        if (data := client.read(path)) is not None:
            return same_map(cluster_map, parse_map(data, path, client.hosts), path)
    raise ClusterMapError(f"{DRAFT} on {client} comes and goes: let one `parkazoo map init` run at a time")


def _make_root(client: AdminClient, acl: Sequence[ACL]) -> None:
    if not client.make(ROOT, b"", acl):
        is_open = client.call("get_acls", ROOT)[0] == OPEN_ACL_UNSAFE
        verify_form(str(client), is_open, closed=acl != OPEN_ACL_UNSAFE)


def make_structure(client: AdminClient, cluster_map: ClusterMap, acl: Sequence[ACL]) -> None:
    _make_root(client, acl)
    client.make(CLIENTS, b"", acl)
    if not has_mirrors(cluster_map, client.name):
        return
    for path in (MIRRORS, FENCES, DONE):
        client.make(path, b"", acl)
    while missing := missing_fences(client):
        for start in range(0, len(missing), CREATES_AT_ONCE):
            transaction = client.zk.transaction()
            for path in missing[start : start + CREATES_AT_ONCE]:
                transaction.create(path, b"", acl)
            client.commit(FENCES, transaction)  # it fails if another client makes them too: look again


def make_identity(client: AdminClient, cluster_map: ClusterMap, acl: Sequence[ACL]) -> None:
    if client.make(ENSEMBLE, encode_identity(cluster_map, client.name), acl):
        return
    found = client.read(ENSEMBLE) or b""
    if not is_identity(found, cluster_map, client.name):
        raise ClusterMapError(
            f"{client} has meanwhile become {describe_record(found)}: let one `parkazoo map init` run at a time"
        )


def _publish(client: AdminClient, cluster_map: ClusterMap, acl: Sequence[ACL]) -> None:
    transaction = client.zk.transaction()
    transaction.delete(DRAFT)
    transaction.create(MAP, cluster_map.to_json(), acl)
    add_to_history(client, transaction, None, cluster_map)
    if not client.commit(MAP, transaction):
        data = client.read(MAP)
        if data is None:
            raise ClusterMapError(f"{DRAFT} on {client} was deleted meanwhile: run `parkazoo map init` again")
        same_map(cluster_map, parse_map(data, MAP, client.hosts), MAP)
