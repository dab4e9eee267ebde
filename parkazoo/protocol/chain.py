"""The requests of a lane of deferred writes: its marker made, a batch in its chain, the marker asked and replaced.

A marker is ``/parkazoo/deferred/<name>`` on the lane's ensemble. Its version counts the batches that have landed
since it was made; its data says how many had landed before that. Its name is never used twice.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from kazoo.exceptions import BadVersionError, NoNodeError
from kazoo.security import ACL

from parkazoo.kazoo_private import CheckVersion, Create, Delete, GetACL, GetData, SetData, Transaction, int_struct
from parkazoo.protocol.past import CATCH_UP
from parkazoo.protocol.placement import DEFERRED, ROOT, Place, join
from parkazoo.protocol.registration import CLIENT, format_session
from parkazoo.protocol.steps import Operation, WriteRequest, ask, commit

BASE = "batches"  # in a marker's data


class _Fields(NamedTuple):
    marker: Place
    version: int
    data: bytes
    guard: str | None
    writes: Sequence[WriteRequest]


class ChainedBatch(_Fields):
    """A batch of deferred writes, as an operation of the driver.

    :param marker: where the lane's marker is. :param version: that it must have. :param data: that it has.
    :param guard: a whole path that must be there; None: nothing must.
    """

    __slots__ = ()
    type = -14  # of no request of ZooKeeper's

    @property
    def step(self) -> SetData:
        """The step of the chain, in front of the operations."""
        return SetData(self.marker.path, self.data, self.version)

    @property
    def operations(self) -> list[WriteRequest]:
        """What the batch does for its user, as a transaction would have it."""
        return [*([] if self.guard is None else [CheckVersion(self.guard, -1)]), *self.writes]


class ChainStep(Transaction):
    """The multi of a batch that makes and deletes nothing: its sender wants to know of errors alone."""

    __slots__ = ()

    @classmethod
    def deserialize(cls, bytes: bytes, offset: int) -> list[Any]:
        """No results if all has been done; otherwise kazoo's list of errors."""
        (kind,) = int_struct.unpack_from(bytes, offset)  # of the first result: all are errors, or none is
        return super().deserialize(bytes, offset) if kind == -1 else []


class Landed(NamedTuple):
    """What a batch was answered.

    :param at: which of its operations was refused; -1: the step of the chain, it is not its turn.
    :param error: why; None: it has landed.
    :param elsewhere: the ensemble to which that operation is to go instead, and all others too if it checks the
        guard; -1: it was refused.
    """

    at: int = -1
    error: Exception | None = None
    elsewhere: int = -1


LANDED = Landed()


def make_marker(marker: Place, client: int, acl: Sequence[ACL]) -> Operation[bytes]:
    """A lane's first marker; its data. If the answer is lost, the next attempt is to have another name.

    Who may make and delete markers is who may do that below ``/parkazoo``.

    :param client: the client's id, for people and fsck. :param acl: of the marker.
    """
    data = _first_data(client, 0)
    create = Create(marker.path, data, acl, 0)
    try:
        yield from ask(marker.ensemble, create)
    except NoNodeError:
        of_root, _ = yield from ask(marker.ensemble, GetACL(ROOT))
        _, answer = yield (marker.ensemble, Create(DEFERRED, b"", of_root, 0)), (marker.ensemble, create)
        if isinstance(answer, Exception):
            raise answer from None
    return data


class Settled(NamedTuple):
    """What a marker has said.

    :param batches: so many are in. :param data: of the new marker.
    """

    batches: int
    data: bytes


def replace_marker(marker: Place, successor: str, client: int, acl: Sequence[ACL]) -> Operation[Settled]:
    """How many batches are in; nothing that was sent with this marker can land from then on.

    It may be called again, with the same arguments, when an answer was lost.

    :param successor: the path of the marker that takes its place.
    :raises NoNodeError: there is neither of the two.
    """
    ensemble, path = marker
    while True:
        _, old, new = yield (
            (ensemble, CATCH_UP),
            (ensemble, GetData(path, None)),
            (ensemble, GetData(successor, None)),
        )
        if isinstance(old, NoNodeError):
            if isinstance(new, Exception):
                raise new
            return Settled(_base(new[0]), new[0])
        if isinstance(old, Exception):
            raise old
        count = _base(old[0]) + old[1].version
        data = _first_data(client, count)
        writes = Delete(path, old[1].version), Create(successor, data, acl, 0)
        _, _, error = yield from commit(ensemble, writes)
        if error is None:
            return Settled(count, data)
        if not isinstance(error, (BadVersionError, NoNodeError)):
            raise error


def remove_marker(marker: Place) -> Operation[None]:
    """The lane is over, and all its batches are answered."""
    with suppress(NoNodeError):
        yield from ask(marker.ensemble, Delete(marker.path, -1))


def _first_data(client: int, count: int) -> bytes:
    """The data of a marker, which no batch has set yet."""
    return json.dumps({CLIENT: format_session(client), BASE: count}).encode()


def _base(data: bytes) -> int:
    return int(json.loads(data)[BASE])


def marker_path(name: str) -> str:
    return join(DEFERRED, name)
