"""What lanes of deferred writes are to do in the explorer, and what may happen to them meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.kazoo_private import Create, Delete, SetData
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.placement import Placement
from parkazoo.protocol.steps import WriteRequest
from parkazoo.protocol.where.places import NATIVE
from tests.explore.alone import find_directory
from tests.explore.directories import create
from tests.explore.grown import D, Hints, State

MIRRORED = find_directory(Placement(2), is_native=False)


class Pins(NamedTuple):
    """What is special where pins decide. The root and what plain ZooKeeper has made are on ensemble 0.

    :param state: what is there. :param older: where those who made it have put new directories.
    :param guess: where the client puts them. :param hints: what it remembers.
    :param form: by which it begins; it goes on to the last one if it `rises`.
    :param again: what another client does at once, at some time.
    :param other: where that one puts new directories.
    :param moves: the directories of which that changes the place.
    :param may_refuse: whether `again` has moments in which a write is refused.
    """

    state: State
    older: int = 1
    guess: int = 2
    hints: Hints = ()
    form: Form = Form.GROWN
    rises: bool = False
    again: Sequence[WriteRequest] = ()
    other: int = 2
    moves: tuple[str, ...] = ()
    may_refuse: bool = False


class Program(NamedTuple):
    """What is written, and what may happen meanwhile.

    :param refused: the indexes of the writes that the server refuses.
    :param losses: of connections. :param meddling: what another client does at some time.
    :param pins: None: the map is plain. :param later: how many writes are issued one by one, at the end.
    :param closes: whether the lanes are removed at some time when nothing is pending.
    """

    writes: tuple[WriteRequest, ...]
    refused: tuple[int, ...] = ()
    skips: bool = False
    losses: int = 1
    expires: bool = False
    batch: int = 1
    guard: str | None = None
    meddling: WriteRequest | None = None
    ensembles: int = 1
    reads: str | None = None
    pins: Pins | None = None
    later: int = 0
    closes: bool = False


def _put(path: str, value: int) -> WriteRequest:
    return SetData(path, b"%d" % value, -1)


def _add(path: str, value: int) -> WriteRequest:
    return Create(path, b"%d" % value, OPEN_ACL_UNSAFE, 0)


PUTS = tuple(_put("/x", number) for number in range(3))
BROKEN = (_put("/x", 0), _put("/missing", 1), _put("/x", 2))
E = "/e"
DX, DC, EX = f"{D}/x", f"{D}/c", f"{E}/x"
# /d has children on ensemble 1, /e below its home on 0.
BOTH = State([create(E), create(EX), create(D)], [create(DX)])
ADOPTED_D = State([create(D), create(DX)])
NATIVE_D = State([create(D), create(DX)], [create(f"{D}/y"), Delete(f"{D}/y", -1)])
LEAF = State([create(D)])
AGAIN = (Delete(DX, -1), Delete(D, -1), create(D), create(DX))
CHILD = (_add(DC, 0), _put(DC, 1))
D_AND_E = (_put(DX, 0), _put(EX, 1), _put(DX, 2))
PROGRAMS = {
    "puts": Program(PUTS, reads="/x"),
    "puts, and own reads": Program(PUTS[:2], reads="/x", later=1),
    "two losses": Program(PUTS[:2], losses=2),
    "expiry": Program(PUTS[:2], expires=True),
    "closed": Program(PUTS[:1], losses=2, closes=True),
    "closed after the expiry": Program(PUTS[:1], losses=0, expires=True, closes=True),
    "refused": Program(BROKEN, refused=(1,)),
    "refused, skipped": Program(BROKEN, refused=(1,), skips=True),
    "refused in a batch": Program((*BROKEN, _put("/x", 3)), refused=(1,), skips=True, batch=2),
    "refused in a batch, stop": Program((*BROKEN, _put("/x", 3)), refused=(1,), batch=2),
    "guard": Program(PUTS, guard="/guard", meddling=Delete("/guard", -1)),
    "first child": Program(
        (
            _add(f"{MIRRORED}/c", 0),
            _put(f"{MIRRORED}/c", 1),
            Delete(f"{MIRRORED}/c", -1),
        ),
        ensembles=2,
    ),
    "grown": Program(D_AND_E, losses=0, pins=Pins(BOTH)),
    "grown, a loss": Program(D_AND_E[::2], reads=DX, pins=Pins(BOTH, hints=[(D, 1)])),
    "a place that is not known": Program(
        (_put(DX, 0), _put("/f/x", 1)),
        losses=0,
        pins=Pins(State([create(D), create("/f")], [create(DX), create("/f/x")]), hints=[("/f", 1)]),
    ),
    "a wrong hint": Program(D_AND_E, losses=0, pins=Pins(BOTH, hints=[(D, 2)], moves=(D,))),
    "another life": Program(D_AND_E, losses=0, pins=Pins(BOTH, again=AGAIN, moves=(D,))),
    "another life, and more is written": Program(
        (_put(DX, 0), _put(DX, 1), _put(DX, 2)), losses=0, later=1, pins=Pins(BOTH, again=AGAIN, moves=(D,))
    ),
    "another life, a loss": Program(D_AND_E[::2], batch=2, pins=Pins(BOTH, again=AGAIN, moves=(D,))),
    "another life, below its home": Program(
        CHILD, losses=0, pins=Pins(NATIVE_D, hints=[(D, NATIVE)], again=AGAIN, moves=(D,))
    ),
    "another life, and it is missing": Program(
        D_AND_E[::2], losses=0, skips=True, pins=Pins(BOTH, again=AGAIN, moves=(D,), may_refuse=True)
    ),
    "first child, grown": Program((*CHILD, Delete(DC, -1)), pins=Pins(LEAF)),
    "first child of a directory that was adopted": Program(CHILD, batch=2, pins=Pins(ADOPTED_D)),
    "decided by another": Program(CHILD, losses=0, pins=Pins(LEAF, again=[create(DX)], other=1, moves=(D,))),
    "a directory of its own": Program(
        (_add("/n", 0), _add("/n/c", 1), _put("/n/c", 2)), losses=0, pins=Pins(State(), guess=1)
    ),
    "a form that rises": Program((_put(DX, 0), _add(DC, 1)), pins=Pins(ADOPTED_D, form=Form.PLAIN, rises=True)),
    "a form that rises, own reads": Program(
        (_put(DX, 0), _put(DX, 1)),
        reads=DX,
        later=1,
        losses=0,
        pins=Pins(State([create(D), create(DX), create(DC)]), form=Form.PLAIN, rises=True),
    ),
    "a form that rises, first child": Program(
        CHILD, losses=0, batch=2, pins=Pins(LEAF, form=Form.PLAIN, rises=True)
    ),
}
