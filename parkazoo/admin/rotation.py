"""Changes the identity that the clients of a closed cluster share, while they work.

``add`` gives a new identity the rights of the others on each znode that lets clients into ``/parkazoo``; then the
programs change over; ``remove`` takes an identity away. Each ACL changes by one set_acls, which names the version
of the ACL that was read. It adds an entry, or passes an entry's rights on to the identities that stay. So no
identity that keeps its rights is without them in between, an interrupted command leaves whole ACLs, and of two
commands the slower one looks again.

What there is below ``/parkazoo``, who makes it with which ACL, and why none of it is out of reach:

- The *structure* has the shared identities alone: ``/parkazoo`` itself, ``map``, ``history``, ``ensemble``,
  ``clients``, ``deferred``, ``mirrors``, ``fences``, ``done`` and each fence. Both commands change it. They begin
  with ``/parkazoo`` of the bootstrap ensemble, because `map grow`, `map init` and ``fsck --repair`` give what they
  make the ACL that they read there, or on their ensemble, or of the map beside it.
- Clients make two parts of the structure. ``deferred`` gets the ACL of ``/parkazoo`` as its maker has read it,
  perhaps long ago; so ``add`` makes it where it is missing, and such a create comes too late. A fence that is
  missing is damage; it is made open to all.
- All may read children of ``done``; the right to make and delete them comes from ``done``. *Mirrors* come and go
  by the right to ``mirrors``. Their ACL is the user's, as on the znodes below them, and on pins and marks in the
  user's tree. None of these is changed.
- *Registrations* and the markers of ``once`` are ephemerals of one session. Nobody else writes them, all may read
  registrations, and they end with the session. They are not changed: a registration shows by its ACL which
  identities its client had.
- *Markers of deferred writes* belong to one client as long as it lives. A dead client leaves its marker to fsck,
  with its own identities alone. Old clients may do so until they have ended. So ``remove`` passes markers on; for
  that it has the old digest too.
- *Sessions* belong to no identity: a client that has lost its right to the structure keeps its session and its
  ephemerals until it ends.
- Znodes of *users* keep their ACLs, so a client with the old identity keeps its rights there. ``remove`` asks
  first if no other identity has some right to one (`sole_rights.py`): programs without the old one lose it.

There remains a command that read an ACL before ``add`` began, and makes a part of the structure later. Therefore
both commands walk again, until a walk over all ensembles of the newest map finds nothing to change. Markers do not
count in that: clients at work make new ones all the time.

The first step of ``remove`` takes the identity off ``/parkazoo`` on the bootstrap ensemble. It passes only if the
ACL there keeps another identity. So of two commands that would take away the last two, one is refused. ``remove``
reads there before each walk who stays. It takes away with the identity who was to inherit and is gone by then: of
two commands at once the slower one may have passed rights on to it.

Each command adds itself to the history of the map before it changes anything, and when it is done.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from typing import Any, NamedTuple

from kazoo.exceptions import NoNodeError
from kazoo.security import ACL, CREATOR_ALL_ACL, Id, make_digest_acl_credential

from parkazoo.admin.arguments import arguments_alone
from parkazoo.admin.clients import (
    TIMEOUT_S,
    AdminClient,
    Auth,
    NoRightError,
    connect_to,
    unreachable,
)
from parkazoo.admin.contents import PARTS
from parkazoo.admin.ensemble_acls import ACLS_AT_ONCE, ChangedACL, FoundACL, Rehearsal, RemoteTree, Tree
from parkazoo.admin.history import note_begin, note_end
from parkazoo.admin.publish import verify_identity
from parkazoo.admin.read import read_map
from parkazoo.admin.registrations import RegisteredClient, describe_client, read_registrations
from parkazoo.admin.rise import Tell
from parkazoo.admin.sole_rights import describe_sole_rights, find_sole_rights
from parkazoo.admin.strays import SHOWN
from parkazoo.admin.unconfirmed import UnconfirmedError
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.placement import CLIENTS, DEFERRED, FENCES, MIRRORS, PROBE, ROOT, join
from parkazoo.protocol.rights import is_masked
from parkazoo.protocol.shared_identity import is_user, shared_identities, with_identity, without_identities

WALKS_MOST = 10
DIGEST = "digest"
SCHEMES = frozenset({DIGEST, "x509", "sasl"})  # of another word, errors would tell what follows, perhaps a secret
DISAGREE = "somebody else changes the same ACLs again and again: let one command run at a time, and repeat it"
Progress = Callable[[str, int, int], None]  # the ensemble's name, znodes looked at, ACLs changed


class Walk:
    """Looks at the ACLs of one ensemble, and changes them.

    :ivar looked_at: so many. :ivar changed: so many of the structure's.
    :ivar hidden: so many markers of deferred writes that its identities may not administer.
    """

    def __init__(self, tree: Tree, progress: Progress = lambda name, looked_at, changed: None) -> None:
        self._tree = tree
        self._progress = progress
        self.looked_at = self.changed = self.hidden = 0

    def give(self, new: Id, shared: frozenset[Id]) -> None:
        """Gives `new` the rights of `shared` on the structure."""
        change = partial(with_identity, new=new, shared=shared)
        self._tree.catch_up()
        self.changed += self._change([ROOT], change)
        found = self.root()
        if new not in shared_identities(found.acl):
            raise ClusterMapError(
                f"{ROOT} on ensemble {self._tree.name} is not closed to the identities of the bootstrap ensemble, "
                f"as on all others: set its ACL, and those of what is below it but for {MIRRORS}, by hand"
            )
        self._tree.make(DEFERRED, found.acl)
        self.changed += self._change(self._structure(), change)

    def take_first(self, old: Id) -> frozenset[Id]:
        """Takes `old` off ``/parkazoo``, unless it is the last one there. Returns those that stay."""
        self._tree.catch_up()
        while True:
            found = self.root()
            heirs = heirs_of(found.acl, old)
            acl = without_identities(found.acl, [old], heirs)
            if acl == [*found.acl] or self._set([ChangedACL(ROOT, acl, found.aversion)]) == [True]:
                self.changed += acl != [*found.acl]
                return heirs

    def take(self, old: Collection[Id], heirs: Collection[Id]) -> None:
        """Passes the rights of `old` on to `heirs`: on the structure, and on markers of deferred writes."""
        change = partial(without_identities, old=old, heirs=heirs)
        self._tree.catch_up()
        self.changed += self._change([ROOT], change)
        self.changed += self._change(self._structure(), change)
        self._change([join(DEFERRED, name) for name in self._tree.children(DEFERRED)], change, may_hide=True)

    def root(self) -> FoundACL:
        (found,) = self._tree.read_acls([ROOT])
        if found is None:
            raise ClusterMapError(f"{ROOT} is missing on ensemble {self._tree.name}: see `parkazoo map check`")
        return self._ours(ROOT, found)

    def _structure(self) -> list[str]:
        parts = PARTS.intersection(join(ROOT, name) for name in self._tree.children(ROOT))
        return [*sorted(parts), *(join(FENCES, name) for name in self._tree.children(FENCES))]

    def _change(
        self, paths: Sequence[str], change: Callable[[Sequence[ACL]], list[ACL]], *, may_hide: bool = False
    ) -> int:
        """Returns the number changed.

        :param may_hide: whether to leave out what this command may not administer.
        """
        left, changed = list(paths), 0
        self.looked_at += len(left)
        while left:
            chunk, left = left[:ACLS_AT_ONCE], left[ACLS_AT_ONCE:]
            wanted = []
            for path, found in zip(chunk, self._tree.read_acls(chunk), strict=True):
                if found is None:
                    continue
                try:
                    acl, aversion = self._ours(path, found)
                except NoRightError:
                    if not may_hide:
                        raise
                    self.hidden += 1
                    continue
                after = change(acl)
                if after != [*acl]:
                    wanted.append(ChangedACL(path, after, aversion))
            for each, is_set in zip(wanted, self._set(wanted), strict=True):
                if is_set:
                    changed += 1
                else:
                    left.append(each.path)
            self._progress(self._tree.name, self.looked_at - len(left), self.changed + changed)
        return changed

    def _set(self, changes: Sequence[ChangedACL]) -> list[bool]:
        return self._tree.set_acls(changes) if changes else []

    def _ours(self, path: str, found: FoundACL | NoRightError) -> FoundACL:
        """Raises NoRightError if this command may not administer it: hidden digests must not be written back."""
        if isinstance(found, NoRightError):
            raise found
        if is_masked(found.acl):
            raise NoRightError(
                f"no right to change the ACL of {path} on ensemble {self._tree.name}: give the identity that has "
                "it in auth (--auth)"
            )
        return found


def closed_to(root: Sequence[ACL]) -> frozenset[Id]:
    """The identities that a cluster is closed to.

    :param root: the ACL of ``/parkazoo``.
    :raises ClusterMapError: it is open.
    """
    if shared := shared_identities(root):
        return shared
    raise ClusterMapError(f"{ROOT} is open to all: clients need no identity there (docs/operations/security.md)")


def heirs_of(root: Sequence[ACL], old: Id) -> frozenset[Id]:
    """The identities that stay without `old`.

    :raises ClusterMapError: there are none, or the cluster is open.
    """
    if heirs := closed_to(root) - {old}:
        return heirs
    raise ClusterMapError(
        f"{described(old)} is the last identity of the cluster, and stays: add another with `parkazoo map "
        "identity add`, and have the programs use it"
    )


def add_everywhere(trees: Sequence[Tree], new: Id, tell: Tell, progress: Progress, dry_run: bool = False) -> None:
    """Gives `new` the rights of the shared identities.

    :param trees: of all ensembles, the bootstrap ensemble first.
    :param dry_run: only tell what would change.
    :raises ClusterMapError: the cluster is open, or another command takes the rights away again.
    """
    trees = [Rehearsal(each) for each in trees] if dry_run else trees
    shared = closed_to(Walk(trees[0]).root().acl)

    def change(walk: Walk) -> None:
        walk.give(new, shared)

    _until_nothing_changes(trees, lambda: change, "would be given to" if dry_run else "given to", tell, progress)


def remove_everywhere(
    trees: Sequence[Tree], old: Id, tell: Tell, progress: Progress, dry_run: bool = False
) -> None:
    """Takes `old` away.

    :param trees: of all ensembles, the bootstrap ensemble first.
    :param dry_run: only tell what would change.
    :raises ClusterMapError: it is the last one, or another command gives it the rights again.
    """
    trees = [Rehearsal(each) for each in trees] if dry_run else trees
    verb = "would be taken off" if dry_run else "taken off"
    first = Walk(trees[0])
    gone, heirs = {old}, first.take_first(old)
    if first.changed:
        tell(f"ensemble {trees[0].name}: {verb} {ROOT}")

    def plan() -> Callable[[Walk], None]:
        nonlocal heirs
        trees[0].catch_up()
        stay = closed_to(Walk(trees[0]).root().acl)
        gone.update(heirs - stay)
        heirs = stay - gone
        if not heirs:
            raise ClusterMapError(DISAGREE)

        def change(walk: Walk) -> None:
            walk.take(gone, heirs)

        return change

    _until_nothing_changes(trees, plan, verb, tell, progress)


def _until_nothing_changes(
    trees: Sequence[Tree], plan: Callable[[], Callable[[Walk], None]], verb: str, tell: Tell, progress: Progress
) -> None:
    """:param plan: called before each walk over all ensembles; returns what to change on each."""
    for _ in range(WALKS_MOST):
        change, changed = plan(), 0
        for tree in trees:
            walk = Walk(tree, progress)
            change(walk)
            changed += walk.changed
            if walk.changed:
                tell(f"ensemble {tree.name}: {verb} {walk.changed:,} of {walk.looked_at:,} znodes")
            elif walk.hidden:
                tell(
                    f"ensemble {tree.name}: {walk.hidden:,} markers below {DEFERRED} may not be changed with "
                    "these identities. If their clients are gone, delete them"
                )
        if not changed:
            return
    raise ClusterMapError(DISAGREE)


class Users(NamedTuple):
    """:param using: clients that have the identity. :param unseen: those that do not say which ones they have."""

    using: Sequence[RegisteredClient]
    unseen: Sequence[RegisteredClient]


def find_users(
    clients: Sequence[RegisteredClient], acls: Mapping[tuple[str, str], Sequence[ACL] | None], identity: Id
) -> Users:
    """Finds who has an identity, by the registrations.

    :param acls: by ensemble and session; None: it may not be seen. One that is missing has ended.
    """
    using, unseen = [], []
    for client in clients:
        seen = [acls[key] for key in client.sessions.items() if key in acls]
        says = [None if acl is None else is_user(acl, identity) for acl in seen]
        if True in says:
            using.append(client)
        elif None in says:
            unseen.append(client)
    return Users(using, unseen)


def describe_users(users: Users, old: Id) -> str:
    """Who may lose access; empty if nobody."""
    told = [
        f"{_many(clients)} {what}{_listed(clients)}"
        for clients, what in (
            (users.using, f"with {described(old)}, which may lose access to {ROOT}:"),
            (users.unseen, f"without auth_data, which may use {described(old)} and lose access to {ROOT}:"),
        )
        if clients
    ]
    return "\n".join(["there are registered clients", *told]) if told else ""


def _many(clients: Sequence[RegisteredClient]) -> str:
    return f"{len(clients):,} client{'' if len(clients) == 1 else 's'}"


def _listed(clients: Sequence[RegisteredClient]) -> str:
    more = f"\n  and {len(clients) - SHOWN:,} more" if len(clients) > SHOWN else ""
    return "".join(f"\n  {describe_client(each)}" for each in clients[:SHOWN]) + more


def described(identity: Id) -> str:
    """An identity without its digest."""
    return f"{identity.scheme}:{identity.id.partition(':')[0] if identity.scheme == DIGEST else identity.id}"


@arguments_alone()
def identity_in_acls(scheme: str, credential: str) -> Id:
    """What an ACL has for an identity.

    :param credential: of a digest ``user:password``; of another scheme what servers write into ACLs.
    :raises ClusterMapError: no client has such an identity.
    """
    if scheme not in SCHEMES or not credential:
        raise ClusterMapError(
            "an identity is digest:user:password, or x509 or sasl, a colon, and what servers write into ACLs"
        )
    if scheme != DIGEST:
        return Id(scheme, credential)
    user, _, password = credential.partition(":")
    if not user or not password:
        raise ClusterMapError("an identity by digest is digest:user:password")
    return Id(DIGEST, make_digest_acl_credential(user, password))


def add_identity(
    hosts: str,
    identity: tuple[str, str],
    *,
    dry_run: bool = False,
    tell: Tell = lambda step: None,
    progress: Progress = lambda name, looked_at, changed: None,
    auth: Auth = (),
    timeout_s: float = TIMEOUT_S,
    **client_options: Any,
) -> None:
    """Gives an identity the rights that the shared ones of a closed cluster have in ``/parkazoo``.

    A call may be repeated or interrupted anywhere, and several may run at once. After a lost connection the next
    call goes on. All ensembles must be reachable.

    :param hosts: servers of any ensembles of the cluster.
    :param identity: ``("digest", "user:password")``; or x509 or sasl, and what servers write into ACLs.
    :param dry_run: writes nothing. It cannot see which identities this call has, because that takes a write.
    :param tell: called after each step with a sentence about it; never, if there is nothing to do.
    :param progress: called now and then with an ensemble, the znodes looked at there, and the ACLs changed.
    :param auth: identities as ``(scheme, credential)``, one of which is shared.
    :param timeout_s: seconds to wait for the connections, and for each answer.
    :param client_options: as for `init_map`.
    :raises ClusterMapError: as `read_map`; the cluster is open; an ensemble is unreachable, or does not know the
        identity.
    """
    new = identity_in_acls(*identity)

    def change(clients: Sequence[AdminClient], trees: Sequence[RemoteTree]) -> None:
        if not dry_run and new.scheme == DIGEST and new not in _own_identities(clients[0]):
            raise ClusterMapError(
                f"the servers make another digest of {described(new)}, because they read its letters in another "
                "encoding: use ASCII"
            )
        add_everywhere(trees, new, tell, progress, dry_run)

    options = _options(identity, auth, client_options)
    _on_all_ensembles(hosts, identity, "add", options, timeout_s, change, dry_run)


def remove_identity(
    hosts: str,
    identity: tuple[str, str],
    *,
    yes: bool = False,
    dry_run: bool = False,
    tell: Tell = lambda step: None,
    progress: Progress = lambda name, looked_at, changed: None,
    auth: Auth = (),
    timeout_s: float = TIMEOUT_S,
    **client_options: Any,
) -> None:
    """Takes an identity's rights in ``/parkazoo`` away. Arguments as for `add_identity`.

    :param yes: confirms that nobody needs the identity any more. Otherwise this looks at each znode.
    :param auth: identities, one of which stays.
    :raises UnconfirmedError: a registered client has the identity, or does not say which ones it has, or the
        identity alone has a right to a znode of the users, and `yes` is not set.
    :raises ClusterMapError: it is the last identity, or this call has no other; or as `add_identity`.
    """
    old = identity_in_acls(*identity)
    is_agreed = yes

    def change(clients: Sequence[AdminClient], trees: Sequence[RemoteTree]) -> None:
        nonlocal is_agreed
        heirs = heirs_of(Walk(trees[0]).root().acl, old)
        if not dry_run and not heirs & _own_identities(clients[0]):
            raise ClusterMapError(
                f"this command has no identity but {described(old)}, and would shut itself out: give the one that "
                "stays in auth (--auth)"
            )
        if not is_agreed and (about := _describe_effect(clients, trees, old, tell, progress)):
            if not dry_run:
                raise UnconfirmedError(about, "yes")
            tell(f"would ask, because {about}")
        is_agreed = True
        remove_everywhere(trees, old, tell, progress, dry_run)

    options = _options(identity, auth, client_options)
    _on_all_ensembles(hosts, identity, "remove", options, timeout_s, change, dry_run)


def _options(identity: tuple[str, str], auth: Auth, client_options: Mapping[str, Any]) -> dict[str, Any]:
    """The command has the digest itself: so it sees whose it is, and may change what has nobody else's."""
    return {**client_options, "auth": [*auth, *([identity] if identity[0] == DIGEST else [])]}


def _on_all_ensembles(
    hosts: str,
    identity: tuple[str, str],
    verb: str,
    options: Mapping[str, Any],
    timeout_s: float,
    change: Callable[[Sequence[AdminClient], Sequence[RemoteTree]], None],
    dry_run: bool,
) -> None:
    """Calls `change` with all ensembles, the bootstrap ensemble first; again, if ensembles came.

    :param verb: in front of the first change the history notes that it begins, and then that it is done.
    """
    what = f"identity {described(identity_in_acls(*identity))}: {verb}"
    known = read_map(hosts, timeout_s=timeout_s, **options)
    while True:
        with _connected(known, options, timeout_s) as clients:
            begin = cache(partial(note_begin, clients[0], known.epoch, what, identity[1]))
            change(clients, [RemoteTree(each, begin) for each in clients])
            before, known = known, read_map(hosts, timeout_s=timeout_s, **options)
            if known.ensembles.keys() <= before.ensembles.keys():
                if not dry_run:
                    note_end(clients[0], known.epoch, what, identity[1])
                return


@contextmanager
def _connected(known: ClusterMap, options: Mapping[str, Any], timeout_s: float) -> Iterator[list[AdminClient]]:
    of_clients = {name: value for name, value in options.items() if name != "auth"}
    of_clients["auth_data"] = options["auth"]
    with connect_to(known.ensembles, of_clients, timeout_s, gives_up=True) as (clients, absent):
        if absent:
            raise ClusterMapError(f"no ACL is changed: {unreachable(absent)}")
        for name, client in clients.items():
            verify_identity(client, known, name)
        yield sorted(clients.values(), key=lambda each: each.name != known.bootstrap)


def _own_identities(client: AdminClient) -> frozenset[Id]:
    """The identities of this command, as a server writes them into what it makes."""
    path = join(ROOT, PROBE + uuid.uuid4().hex)
    client.call("create", path, b"", CREATOR_ALL_ACL, True)
    try:
        acl, _ = client.call("get_acls", path)
        return shared_identities(acl)
    finally:
        with suppress(NoNodeError, ClusterMapError):  # it ends with the session anyway
            client.call("delete", path)


def _describe_effect(
    clients: Sequence[AdminClient], trees: Sequence[RemoteTree], old: Id, tell: Tell, progress: Progress
) -> str:
    """Who may lose access, and which znodes nobody could use; empty if none."""
    users = describe_users(_find_users(clients, trees, old), old)
    found = [find_sole_rights(each, old, lambda name, count: progress(name, count, 0)) for each in clients]
    if unseen := sum(each.unseen for each in found):
        tell(f"{unseen:,} znodes may not be looked at with these identities, nor what is below them")
    return "\n".join(filter(None, (users, describe_sole_rights(found, described(old)))))


def _find_users(clients: Sequence[AdminClient], trees: Sequence[RemoteTree], identity: Id) -> Users:
    """:raises ClusterMapError: the registrations on an ensemble cannot be read."""
    for tree in trees:
        tree.catch_up()
    registered, unreadable = read_registrations({client.name: client for client in clients})
    if unreadable:
        raise ClusterMapError("; ".join(unreadable.values()))
    acls: dict[tuple[str, str], Sequence[ACL] | None] = {}
    for tree in trees:
        sessions = [each.sessions[tree.name] for each in registered if tree.name in each.sessions]
        for start in range(0, len(sessions), ACLS_AT_ONCE):
            asked = sessions[start : start + ACLS_AT_ONCE]
            found = tree.read_acls([join(CLIENTS, session) for session in asked])
            for session, each in zip(asked, found, strict=True):
                if each is not None:
                    acls[tree.name, session] = None if isinstance(each, NoRightError) else each.acl
    return find_users(registered, acls, identity)
