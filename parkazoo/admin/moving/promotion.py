"""The mirror of a directory whose first child never came: made where its pin says, so that it can move."""

from __future__ import annotations

from kazoo.exceptions import NoAuthError, NoNodeError

from parkazoo.admin.many_reads import send
from parkazoo.admin.moving.at_home import MovingHome, SeenPin
from parkazoo.admin.moving.place import TreePlace
from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import Create, SetData, Transaction
from parkazoo.protocol.pin import decode_pin
from parkazoo.protocol.placement import MIRRORS, logical, shown
from parkazoo.protocol.steps import WriteRequest, failure
from parkazoo.types import ZnodeStat


def finish_promotion(home: MovingHome, seen: SeenPin, place: TreePlace, path: str, fence: ZnodeStat) -> None:
    """As the next first child would; in vain if the directory changes meanwhile: look again.

    :param seen: the pin, without marks. :param place: the mirror that is missing.
    :param path: of the fence. :param fence: its stat, read before the pin is read once more.
    :raises ClusterMapError: the mirror was there, and was lost with the ensemble's data.
    """
    if home.look() != seen:
        return
    pin = decode_pin(seen.data)
    if pin is not None and (fence.ctime != pin.ctime or fence.version < pin.version):
        raise ClusterMapError(
            f"the children of {shown(logical(home.path))} were lost when {place.client} lost its data: `parkazoo "
            "fsck` says what to do"
        )
    steps: list[WriteRequest] = [SetData(path, b"", fence.version), Create(place.path, b"", home.acl(), 0)]
    index, error = failure(place.client.wait(place.path, send(place.client, Transaction(steps))))
    if isinstance(error, NoAuthError):
        raise place.client.no_right(place.path)
    if index and isinstance(error, NoNodeError):
        raise ClusterMapError(f"{MIRRORS} is missing on {place.client}: `parkazoo map check` says what to do")
