"""The identities that open ``/parkazoo`` of a closed cluster, as its ACLs and registrations have them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from kazoo.security import ACL, ANYONE_ID_UNSAFE, Id, Permissions


def shared_identities(acl: Iterable[ACL]) -> frozenset[Id]:
    """Returns those with all rights in the ACL of ``/parkazoo``; none if everyone has them."""
    whole = frozenset(who for perms, who in acl if perms & Permissions.ALL == Permissions.ALL)
    return frozenset() if ANYONE_ID_UNSAFE in whole else whole


def with_identity(acl: Sequence[ACL], new: Id, shared: Collection[Id]) -> list[ACL]:
    """Returns an ACL in which `new` has the rights that `shared` have there together, beside those that it has."""
    return _granted(list(acl), new, _rights(acl, shared))


def without_identities(acl: Sequence[ACL], old: Collection[Id], heirs: Collection[Id]) -> list[ACL]:
    """Returns an ACL without `old`. Each of `heirs` gets the rights that `old` have there and none of `heirs` has.

    :param heirs: one or more, none of `old`.
    """
    rights = _rights(acl, old) & ~_rights(acl, heirs)
    kept = [each for each in acl if each.id not in old]
    for heir in sorted(heirs):
        kept = _granted(kept, heir, rights)
    return kept


def is_user(registration: Iterable[ACL], identity: Id) -> bool | None:
    """Whether the client of a registration had an identity when it registered; None: the ACL does not say that.

    A client with ``auth_data`` has the servers write all its identities there. Without, it lets everyone write.

    :param registration: its ACL, as an asker with this identity sees it, if that is a digest: servers hide the
        digests of an ACL from those whom it does not let administer.
    """
    whole = {who for perms, who in registration if perms & Permissions.ALL == Permissions.ALL}
    return None if ANYONE_ID_UNSAFE in whole else identity in whole


def has_sole_right(acl: Sequence[ACL], identity: Id) -> bool:
    """Whether an identity has a right in an ACL that no other has there."""
    others = {who for _, who in acl} - {identity}
    return bool(_rights(acl, [identity]) & ~_rights(acl, others))


def _rights(acl: Iterable[ACL], identities: Collection[Id]) -> int:
    rights = 0
    for perms, who in acl:
        if who in identities:
            rights |= perms
    return rights


def _granted(acl: list[ACL], who: Id, rights: int) -> list[ACL]:
    has = _rights(acl, [who])
    if not rights & ~has:
        return acl
    return [*(each for each in acl if each.id != who), ACL(rights | has, who)]
