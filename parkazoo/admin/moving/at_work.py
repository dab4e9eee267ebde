"""Who is at a move, and how far: the znode of its term says so until its command ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from kazoo.exceptions import NoNodeError

from parkazoo.admin.all_znodes import Pace
from parkazoo.admin.clients import AdminClient, UnreadableError, try_each
from parkazoo.admin.history import MapChange, encode_history, made_now, parse_history, words_of_move
from parkazoo.admin.moving.znodes_below import count_below
from parkazoo.protocol.moving import MOVES, Moving, term_of
from parkazoo.protocol.placement import MIRRORS, generation_of


class MoveAtWork(NamedTuple):
    """
    :param by: what moves, since when, and who does it.
    :param copied: so many znodes; None: that cannot be seen.
    """

    by: MapChange
    copied: int | None

    def to_json(self) -> dict[str, Any]:
        return {**self.by._asdict(), "copied": self.copied}


def encode_work(number: int, move: Moving, about: str) -> bytes:
    """The data of a term.

    :param number: of the map. :param about: such as "3 of 40"; may be empty.
    """
    return encode_history([made_now(number, words_of_move(move) + (f" ({about})" if about else ""))])


def find_work(clients: Mapping[str, AdminClient]) -> list[MoveAtWork]:
    """Those whose commands are at work, but for what follows a switch: the map has that."""
    found, _ = try_each(clients, lambda client: [*_work_on(client)])
    return [each for of_one in found.values() for each in of_one]


def _work_on(client: AdminClient) -> Iterator[MoveAtWork]:
    moves = [name.removesuffix(".term") for name in client.children(MOVES) if name.endswith(".term")]
    copies = {generation_of(name): f"{MIRRORS}/{name}" for name in client.children(MIRRORS)} if moves else {}
    for move in moves:
        with suppress(NoNodeError, UnreadableError, ValueError):  # gone, or hidden
            (by,) = parse_history(client.call("get", term_of(move))[0])
            yield MoveAtWork(by, _count(client, copies.get(move, "")))


def _count(client: AdminClient, copy: str) -> int | None:
    with suppress(UnreadableError):  # a server before ZooKeeper 3.6
        return count_below(client, [copy], Pace()).get(copy) if copy else None
    return None
