"""The requests of a client's calls: arguments are checked as kazoo does, and paths get the chroot. Pure.

`get_data` and `set_data` repeat the text of checks and of `prefixed` instead of calling them: that is faster.
"""

from __future__ import annotations

from typing import Any

from kazoo.security import ACL, OPEN_ACL_UNSAFE

from parkazoo.kazoo_private import (
    Auth,
    CheckVersion,
    Create,
    Create2,
    Delete,
    Exists,
    GetACL,
    GetChildren,
    GetChildren2,
    GetData,
    SetACL,
    SetData,
    Sync,
    prefix_root,
)
from parkazoo.protocol.newer_requests import CreateContainer, CreateTTL, GetEphemerals
from parkazoo.protocol.ops.creates import EPHEMERAL, SEQUENCE
from parkazoo.protocol.placement import logical
from parkazoo.types import AddWatchMode

MOST_TTL_S = (1 << 40) // 1000  # servers have 40 bits for the milliseconds


# All raise TypeError for an argument of a wrong type, and ValueError for a path with `.` or `..` between slashes.


def prefixed(chroot: str, path: str, trailing: bool = False) -> str:
    """A path below the chroot, as a server names it, in kazoo's normal form.

    :param trailing: whether a slash at the end stays.
    """
    whole = chroot + path
    if path[:1] == "/" == whole[0] and whole[-1] != "/" and "//" not in whole and "/." not in whole:
        return whole  # as most are
    return str(prefix_root(chroot, path, trailing))


def checked_acl(acl: Any) -> Any:
    """The ACL of a create; without one, anyone may do anything."""
    if acl and (isinstance(acl, ACL) or not isinstance(acl, (tuple, list))):
        raise TypeError("Invalid type for 'acl' (acl must be a tuple/list of ACL's")
    return OPEN_ACL_UNSAFE if acl is None else acl


def unchrooted(chroot: str, path: str) -> str:
    """The user's name for a path as a server names it: out of the mirror, below the chroot."""
    path = logical(path)
    if not chroot or not path.startswith(chroot):
        return path
    return path[len(chroot) :] or "/"


def check_path(path: object) -> None:
    if not isinstance(path, str):
        raise TypeError("Invalid type for 'path' (string expected)")


def check_bool(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"Invalid type for '{name}' (bool expected)")


def check_watch(watch: object) -> None:
    if watch and not callable(watch):
        raise TypeError("Invalid type for 'watch' (must be a callable)")


def _check_version(version: object) -> None:
    if not isinstance(version, int):
        raise TypeError("Invalid type for 'version' (int expected)")


def exists(chroot: str, path: str, watch: Any) -> Exists:
    check_path(path)
    check_watch(watch)
    return Exists(prefixed(chroot, path), watch)


def get_data(chroot: str, path: str, watch: Any) -> GetData:
    if not isinstance(path, str):
        raise TypeError("Invalid type for 'path' (string expected)")
    if watch and not callable(watch):
        raise TypeError("Invalid type for 'watch' (must be a callable)")
    whole = chroot + path
    if not (path[:1] == "/" == whole[0] and whole[-1] != "/" and "//" not in whole and "/." not in whole):
        whole = prefix_root(chroot, path)
    return GetData(whole, watch)


def get_children(chroot: str, path: str, watch: Any, include_data: bool) -> GetChildren | GetChildren2:
    check_path(path)
    check_watch(watch)
    check_bool("include_data", include_data)
    kind = GetChildren2 if include_data else GetChildren
    return kind(prefixed(chroot, path), watch)


def get_acls(chroot: str, path: str) -> GetACL:
    check_path(path)
    return GetACL(prefixed(chroot, path))


def sync(chroot: str, path: str) -> Sync:
    return Sync(prefix_root(chroot, path))  # None raises as with kazoo


def add_watch(chroot: str, path: str, watch: Any, mode: int) -> tuple[str, AddWatchMode]:
    check_path(path)
    if not callable(watch):
        raise TypeError("Invalid type for 'watch' (must be a callable)")
    if not isinstance(mode, int) or mode not in [*AddWatchMode]:
        raise TypeError("Invalid type for 'mode' (one of AddWatchMode expected)")
    return prefixed(chroot, path), AddWatchMode(mode)


def watched(chroot: str, path: str, watch: Any) -> str:
    """The path whose watches are meant."""
    check_path(path)
    check_watch(watch)
    return prefixed(chroot, path)


def get_ephemerals(chroot: str, path: str) -> GetEphemerals:
    check_path(path)
    return GetEphemerals(prefixed(chroot, path))


def create(
    chroot: str,
    path: str,
    value: bytes | None,
    acl: Any,
    ephemeral: bool,
    sequence: bool,
    makepath: bool,
    include_data: bool,
) -> Create | Create2:
    """:param makepath: only checked: see :class:`parkazoo.compat.creation.Creation`."""
    check_path(path)
    acl = checked_acl(acl)
    if value is not None and not isinstance(value, bytes):
        raise TypeError("Invalid type for 'value' (must be a byte string)")
    check_bool("ephemeral", ephemeral)
    check_bool("sequence", sequence)
    check_bool("makepath", makepath)
    check_bool("include_data", include_data)
    flags = (EPHEMERAL if ephemeral else 0) | (SEQUENCE if sequence else 0)
    return (Create2 if include_data else Create)(prefixed(chroot, path, sequence), value, acl, flags)


def create_ttl(
    chroot: str, path: str, value: bytes | None, ttl: float, acl: Any, sequence: bool, makepath: bool
) -> CreateTTL:
    """:param ttl: seconds."""
    plain = create(chroot, path, value, acl, False, sequence, makepath, False)
    if isinstance(ttl, bool) or not isinstance(ttl, (int, float)):
        raise TypeError("Invalid type for 'ttl' (seconds expected)")
    if not 0 < ttl <= MOST_TTL_S:
        raise ValueError(f"ttl must be seconds above 0, and at most {MOST_TTL_S:,}, not {ttl!r}")
    return CreateTTL(plain.path, plain.data, plain.acl, plain.flags, max(1, round(ttl * 1000)))


def create_container(chroot: str, path: str, value: bytes | None, acl: Any, makepath: bool) -> CreateContainer:
    return CreateContainer(*create(chroot, path, value, acl, False, False, makepath, False))


def set_data(chroot: str, path: str, value: bytes | None, version: int) -> SetData:
    if not isinstance(path, str):
        raise TypeError("Invalid type for 'path' (string expected)")
    if value is not None and not isinstance(value, bytes):
        raise TypeError("Invalid type for 'value' (must be a byte string)")
    if not isinstance(version, int):
        raise TypeError("Invalid type for 'version' (int expected)")
    whole = chroot + path
    if not (path[:1] == "/" == whole[0] and whole[-1] != "/" and "//" not in whole and "/." not in whole):
        whole = prefix_root(chroot, path)
    return SetData(whole, value, version)


def set_acls(chroot: str, path: str, acls: Any, version: int) -> SetACL:
    check_path(path)
    if isinstance(acls, ACL) or not isinstance(acls, (tuple, list)):
        raise TypeError("Invalid type for 'acl' (acl must be a tuple/list of ACL's)")
    _check_version(version)
    return SetACL(prefixed(chroot, path), acls, version)


def delete(chroot: str, path: str, version: int) -> Delete:
    check_path(path)
    _check_version(version)
    return Delete(prefixed(chroot, path), version)


def add_auth(scheme: str, credential: str) -> Auth:
    if not isinstance(scheme, str):
        raise TypeError("Invalid type for 'scheme' (string expected)")
    if not isinstance(credential, str):
        raise TypeError("Invalid type for 'credential' (string expected)")
    return Auth(0, scheme, credential)


def check_version(chroot: str, path: str, version: int) -> CheckVersion:
    """Of a transaction."""
    check_path(path)
    _check_version(version)
    return CheckVersion(prefixed(chroot, path), version)
