"""A get, exists or set whose place is known: bytes to a server, and bytes back."""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Any

from parkazoo.engine.ports import BodyReply, is_abandoned
from parkazoo.engine.read_reply import ReadReply, Running
from parkazoo.kazoo_private import Exists, GetData, SetData, int_struct, stat_struct
from parkazoo.protocol.context import Context
from parkazoo.protocol.ops.brief import Brief
from parkazoo.protocol.order import Order
from parkazoo.protocol.placement import Directory

KINDS: Mapping[int, type[Exists] | type[GetData] | type[SetData]] = {
    each.type: each for each in (Exists, GetData, SetData)
}
LENGTH_BYTES = int_struct.size
STAT_BYTES = stat_struct.size
OWNER = Struct("!qiiq")  # at the end of a stat: owner, bytes of data, number of children, pzxid
OWNER_BYTES = OWNER.size
pack_int = int_struct.pack


class PlacedCall:
    """The request to the server and the reply to it, in one.

    An answer that is not enough goes on as an ordinary operation, and so does an error: see :class:`ReadReply`.

    :param path: the logical one. :param rest: the request's bytes behind its path.
    :param mode: what it has claimed, see :meth:`Order.claim_node`.
    :ivar type: of the request. :ivar path: the physical one.
    """

    __slots__ = ("_context", "_d", "_driver", "_logical", "_mode", "_order", "_rest", "asker", "path", "type")

    watcher = None

    def __init__(
        self,
        driver: Running,
        order: Order[Any],
        context: Context,
        kind: int,
        path: str,
        rest: bytes,
        d: Directory,
        mode: int,
        reply: BodyReply,
    ) -> None:
        self._driver = driver
        self._order = order
        self._context = context
        self.type = kind
        self._logical = path
        self.path = d.home.path
        self._rest = rest
        self._d = d
        self._mode = mode
        self.asker = reply

    def __repr__(self) -> str:
        return f"{KINDS[self.type].__name__}({self.path!r})"

    # ---- the request -----------------------------------------------------------------------------

    def serialize(self) -> bytes:
        path = self.path.encode()
        return pack_int(len(path)) + path + self._rest

    def deserialize(self, data: bytes, offset: int) -> bytes:
        """The answer's bytes.

        :raises struct.error: they are too few.
        """
        body = data[offset:]
        if len(body) < STAT_BYTES:
            self._as_kazoo(body)
        return body

    def _as_kazoo(self, body: bytes) -> Any:
        return KINDS[self.type].deserialize(body, 0)

    # ---- the reply -------------------------------------------------------------------------------

    @property
    def is_abandoned(self) -> bool:
        """See :func:`is_abandoned`."""
        return is_abandoned(self.asker)

    def set(self, value: Any = None) -> None:
        """:param value: the answer's bytes; None: there is no such znode."""
        if value is None:
            self._ordinary().set(None)
            return
        owner, _, children, _ = OWNER.unpack_from(value, len(value) - OWNER_BYTES)
        if owner or children:
            self._ordinary().set(self._as_kazoo(value))
            return
        away = self._context.away
        if away:
            away.discard(self._d.home.ensemble)
        self.asker.set_body(value)
        if self._mode:
            self._driver.release_node(self._d.path, self._order, self._mode)

    def set_exception(self, exception: Exception) -> None:
        self._ordinary().set_exception(exception)

    def _ordinary(self) -> ReadReply:
        request = self._request(self._logical)
        first = self._d, request, self._mode, None, 0
        return ReadReply(self._driver, self._order, self._context, request, self.asker, first)

    def _request(self, path: str) -> Brief:
        if self.type != SetData.type:
            return GetData(path, None) if self.type == GetData.type else Exists(path, None)
        rest = self._rest
        (length,) = int_struct.unpack_from(rest)
        (version,) = int_struct.unpack_from(rest, len(rest) - LENGTH_BYTES)
        return SetData(path, None if length < 0 else rest[LENGTH_BYTES:-LENGTH_BYTES], version)
