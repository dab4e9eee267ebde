"""What a member reads for itself, with a watch that is not its user's: the map, and the ensemble's servers."""

from __future__ import annotations

from parkazoo.kazoo_private import GetData
from parkazoo.protocol.placement import MAP
from parkazoo.protocol.server_list import CONFIG
from parkazoo.wire.bodies import pack_int


class OwnRead(GetData):
    """A read that leaves a watch on the server, and none in the member's tables.

    A lost connection costs nothing: the next handshake reads again.
    """

    __slots__ = ()

    def serialize(self) -> bytes:
        path = self.path.encode()
        return pack_int(len(path)) + path + b"\1"


OWN_READS = OwnRead(MAP, None), OwnRead(CONFIG, None)
OWN_PATHS = frozenset(each.path for each in OWN_READS)
