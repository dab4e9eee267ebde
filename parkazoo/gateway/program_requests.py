"""From a program's bytes to the requests of a client. Pure.

Each reader takes the fields behind xid and type, and returns the request with the whole path, chroot included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from parkazoo.gateway.program_bytes import FrameReader
from parkazoo.kazoo_private import (
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
    Transaction,
    multiheader_struct,
)
from parkazoo.protocol.newer_requests import (
    FLAG_CONTAINER,
    FLAG_TTL,
    FLAG_TTL_SEQUENCE,
    CreateContainer,
    CreateContainerIfAble,
    CreateTTL,
    GetEphemerals,
    WhoAmI,
)
from parkazoo.protocol.ops.creates import SEQUENCE
from parkazoo.protocol.steps import Request

HEAD_BYTES = 8  # xid and type
# Types that no request of a client has.
PING, CLOSE, AUTH = 11, -11, 100
SET_WATCHES, SET_WATCHES_2 = 101, 105
ADD_WATCH, CHECK_WATCHES, REMOVE_WATCHES = 106, 17, 18
COUNT_ALL_CHILDREN, MULTI_READ = 104, 22

UNIMPLEMENTED, BAD_ARGUMENTS = -6, -8
MOST_PLAIN_FLAGS = 3  # ephemeral and sequence
NO_TTL_MS = 0


class RefusedError(Exception):
    """Reports a request that is refused before anything is done.

    :param code: of ZooKeeper's errors.
    """

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Asked(NamedTuple):
    """A request of a program.

    :param path: the program's own. :param watches: whether it leaves a watch.
    """

    request: Request
    path: str = ""
    watches: bool = False


def placed(chroot: str, path: str, flags: int = 0) -> str:
    """Return the path below a chroot, as a client names it.

    :param flags: of a create. :raises RefusedError: no server would take that path.
    """
    whole = path + "1" if flags & SEQUENCE else path
    is_one = whole[:1] == "/" and (whole == "/" or whole[-1] != "/") and "//" not in whole and "\0" not in whole
    if not is_one or ("/." in whole and not {".", ".."}.isdisjoint(whole.split("/"))):
        raise RefusedError(BAD_ARGUMENTS)
    is_root = whole == "/"  # a create in sequence makes a child of that
    return path if not chroot else chroot if is_root else chroot + path


def _create(kind: type[Create] | type[Create2]) -> Callable[[FrameReader, str], Asked]:
    def read(fields: FrameReader, chroot: str) -> Asked:
        path, data, acl, flags = fields.text(), fields.buffer(), fields.acls(), fields.number()
        if flags == FLAG_CONTAINER:
            return Asked(CreateContainerIfAble(placed(chroot, path), data, acl, 0), path)
        if not 0 <= flags <= MOST_PLAIN_FLAGS:
            raise RefusedError(BAD_ARGUMENTS)
        return Asked(kind(placed(chroot, path, flags), data, acl, flags), path)

    return read


def _create_ttl(fields: FrameReader, chroot: str) -> Asked:
    path, data, acl, flags = fields.text(), fields.buffer(), fields.acls(), fields.number()
    ttl_ms = fields.long()
    if flags not in (FLAG_TTL, FLAG_TTL_SEQUENCE) or ttl_ms <= NO_TTL_MS:
        raise RefusedError(BAD_ARGUMENTS)
    sequence = SEQUENCE if flags == FLAG_TTL_SEQUENCE else 0
    return Asked(CreateTTL(placed(chroot, path, sequence), data, acl, sequence, ttl_ms), path)


def _delete(fields: FrameReader, chroot: str) -> Asked:
    path = fields.text()
    if chroot and path == "/":  # as servers refuse to delete theirs
        raise RefusedError(BAD_ARGUMENTS)
    return Asked(Delete(placed(chroot, path), fields.number()), path)


def _set(fields: FrameReader, chroot: str) -> Asked:
    path = fields.text()
    return Asked(SetData(placed(chroot, path), fields.buffer(), fields.number()), path)


def _check(fields: FrameReader, chroot: str) -> Asked:
    path = fields.text()
    return Asked(CheckVersion(placed(chroot, path), fields.number()), path)


def _read(kind: Callable[[str, None], Request]) -> Callable[[FrameReader, str], Asked]:
    def read(fields: FrameReader, chroot: str) -> Asked:
        path = fields.text()
        return Asked(kind(placed(chroot, path), None), path, fields.flag())

    return read


def _of_path(kind: Callable[[str], Request]) -> Callable[[FrameReader, str], Asked]:
    def read(fields: FrameReader, chroot: str) -> Asked:
        path = fields.text()
        return Asked(kind(placed(chroot, path)), path)

    return read


def _ephemerals(fields: FrameReader, chroot: str) -> Asked:
    """All of them: from these are taken those whose path begins with the text, which need not be a path."""
    return Asked(GetEphemerals(placed(chroot, "/")), fields.text())


def _set_acls(fields: FrameReader, chroot: str) -> Asked:
    path = fields.text()
    return Asked(SetACL(placed(chroot, path), fields.acls(), fields.number()), path)


def _who_am_i(fields: FrameReader, chroot: str) -> Asked:
    return Asked(WhoAmI())


def _multi(fields: FrameReader, chroot: str) -> Asked:
    operations = [reader(fields, chroot).request for reader in _parts(fields, IN_MULTI)]
    if any(isinstance(each, CreateContainer) for each in operations):
        raise RefusedError(UNIMPLEMENTED)
    return Asked(Transaction(operations))


def with_plain_creates(request: Transaction) -> Transaction:
    """The same, but its creates are answered without a stat: clients know no others in a transaction."""
    return Transaction([Create(*each) if isinstance(each, Create2) else each for each in request.operations])


def read_multi_read(fields: FrameReader, chroot: str) -> Iterator[Request]:
    """Yield the reads of a multiRead.

    :raises RefusedError: there is something else in it.
    """
    return (reader(fields, chroot).request for reader in _parts(fields, IN_MULTI_READ))


def _parts(fields: FrameReader, known: Mapping[int, Callable[[FrameReader, str], Asked]]) -> Any:
    """Yield what reads each part. It has to read before the next."""
    while True:
        kind, is_end, _ = multiheader_struct.unpack(fields.take(multiheader_struct.size))
        if is_end:
            return
        if kind not in known:
            raise RefusedError(UNIMPLEMENTED)
        yield known[kind]


READERS: Mapping[int, Callable[[FrameReader, str], Asked]] = {
    Create.type: _create(Create),
    Create2.type: _create(Create2),
    CreateContainer.type: _create(Create2),
    CreateTTL.type: _create_ttl,
    Delete.type: _delete,
    Exists.type: _read(Exists),
    GetData.type: _read(GetData),
    SetData.type: _set,
    GetACL.type: _of_path(GetACL),
    SetACL.type: _set_acls,
    GetChildren.type: _read(GetChildren),
    GetChildren2.type: _read(GetChildren2),
    Sync.type: _of_path(Sync),
    Transaction.type: _multi,
    GetEphemerals.type: _ephemerals,
    WhoAmI.type: _who_am_i,
}
IN_MULTI = {
    Create.type: READERS[Create.type],
    Create2.type: READERS[Create2.type],
    Delete.type: _delete,
    SetData.type: _set,
    CheckVersion.type: _check,
}
IN_MULTI_READ = {GetData.type: READERS[GetData.type], GetChildren.type: READERS[GetChildren.type]}
