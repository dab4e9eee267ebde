"""What an ACL says of the children of its znode, and what ACL a client gives to what it makes for itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from kazoo.security import ACL, ANYONE_ID_UNSAFE, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, Permissions


def pin_acl(acl: Iterable[ACL]) -> list[ACL]:
    """The ACL of a pin: all may see marks; with the right to delete children of the home one may change them.

    (A delete of a directory needs DELETE on the directory itself, for its pin: docs/reference/differences.md.)
    """
    entries = [ACL(Permissions.READ, ANYONE_ID_UNSAFE)]
    for perms, who in acl:
        granted = perms & Permissions.ADMIN
        if perms & Permissions.DELETE:
            granted |= Permissions.CREATE | Permissions.DELETE
        if granted:
            entries.append(ACL(granted, who))
    return entries


def is_secret(acl: Sequence[ACL]) -> bool:
    """Whether an identity may create below a home with this ACL, but not read the whole ACL to copy it.

    Servers show an ACL to identities with READ or ADMIN, and its digests only to those with ADMIN.
    """
    for perms, _ in acl:  # most have one entry, with all rights
        if perms & Permissions.CREATE and not perms & Permissions.ADMIN:
            has_digests = any(who.scheme in ("auth", "digest") for _, who in acl)
            if has_digests or not perms & Permissions.READ:
                return True
    return False


def is_masked(acl: Iterable[ACL]) -> bool:
    """Whether a server has hidden the digests of this ACL: written back, it would shut every identity out."""
    return any(who.scheme == "digest" and who.id.endswith(":x") for _, who in acl)


def own_acl(identities: Collection[object]) -> Sequence[ACL]:
    """Of what a client makes for itself: its identities' alone, if it has any.

    :param identities: kazoo's ``auth_data``.
    """
    return CREATOR_ALL_ACL if identities else OPEN_ACL_UNSAFE
