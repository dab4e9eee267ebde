"""Scenarios of sessions by name: ``session/hold-and-read/nothing/le/a/at-once``."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from kazoo.protocol.states import WatchedEvent
from kazoo.security import OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from parkazoo.kazoo_private import (
    Create,
    Delete,
    Exists,
    GetACL,
    GetChildren,
    GetChildren2,
    GetData,
    SetACL,
    SetData,
    Transaction,
)
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.outlasting import outlasting
from parkazoo.protocol.placement import Placement
from parkazoo.types.znodes import Watch
from tests.explore.directories import WATCH, create
from tests.explore.families import name_of
from tests.explore.scenario import Asking, Program
from tests.explore.sessions.beginning import directories
from tests.explore.sessions.client import Join
from tests.explore.sessions.scenario import SessionScenario
from tests.explore.znodes import EPHEMERAL, SEQUENCE, Request

A, B = directories(Placement(2), 2)  # whose children are on ensembles a and b
A_OF_3, B_OF_3, C_OF_3 = directories(Placement(3), 3)
NEW = next(f"{B}{number}" for number in itertools.count() if Placement(2).of_children(f"{B}{number}") == 1)
ALL = ""  # the directory of all znodes, where there is one ensemble


@outlasting
def lasting(event: WatchedEvent) -> None:
    """Stands for a watch that outlasts its connection, which the explorer leaves."""


def hold(directory: str, flags: int = 0) -> Create:
    return Create(f"{directory}/e", b"", OPEN_ACL_UNSAFE, EPHEMERAL | flags)


def get(directory: str, watcher: Watch | None = None) -> GetData:
    return GetData(f"{directory}/w", watcher)


def set_(directory: str) -> SetData:
    return SetData(f"{directory}/w", b"new", -1)


def at_once(*requests: Request) -> Program:
    return in_groups(requests)


def in_groups(*groups: Sequence[Request]) -> Program:
    """The requests of each group are issued at once, when those of the group before have been answered."""

    def program() -> Asking:
        for group in groups:
            yield [*group]

    return program


def emptied(directory: str) -> list[Delete]:
    return [Delete(f"{directory}/w", -1), Delete(directory, -1)]


LET_GO = Delete(f"{B}/e", -1)
PROGRAMS: Mapping[str, Program] = {
    "hold and read": [hold(B), get(A)],
    "hold a number and read": [hold(B, SEQUENCE), get(A)],
    "hold by transaction and read": [Transaction([hold(B), set_(B)]), get(A)],
    "hold on both": [hold(A), hold(B)],
    "hold and let go": [hold(B), LET_GO, get(A)],
    "hold and let go by transaction": [hold(B), Transaction([LET_GO, set_(B)]), get(A)],
    "read only": [get(B), get(A), set_(B)],
    "watch both": [get(B, WATCH), get(A, WATCH)],
    "watch and hold": [get(B, WATCH), hold(A)],
    "watch what is not there": [Exists(f"{B}/e", WATCH), hold(B), get(A)],
    "watch and set": [get(B, WATCH), set_(A), set_(B)],
    "all at once": at_once(hold(B), get(A, WATCH), get(B)),
}
OF_THREE: Mapping[str, Program] = {  # ensembles
    "hold on two of three": [hold(A_OF_3), hold(B_OF_3), get(C_OF_3)],
    "watch and hold on three": [get(A_OF_3, WATCH), get(B_OF_3, WATCH), hold(C_OF_3)],
}
KEEPING: Mapping[str, Program] = {  # watches that outlast a connection
    "keep both": [get(B, lasting), get(A, lasting)],
    "keep one": [get(B, lasting)],
    "keep what is not there": [Exists(f"{B}/e", lasting), get(B, lasting)],
    "keep children": [GetChildren2("/", lasting), get(B), get(A)],
    "keep and hold": [get(B, lasting), hold(A), get(A)],
    "keep and set": [get(B, lasting), set_(A), set_(B)],
}
NEW_B, NEW_C = Join(1), Join(2)
GROWING: Mapping[str, tuple[int, int, Program]] = {  # with how many ensembles there are at first and at last
    "one becomes two, hold": (1, 2, [hold(ALL), NEW_B, get(ALL), NEW_B, set_(ALL)]),
    "one becomes two, watch": (1, 2, [get(ALL, WATCH), NEW_B, set_(ALL), NEW_B]),
    "one becomes two, read": (1, 2, [get(ALL), NEW_B, get(ALL)]),
    "one becomes two, not joined": (1, 2, [hold(ALL), get(ALL), Delete("/e", -1), get(ALL, WATCH)]),
    "one becomes two, all at once": (1, 2, at_once(hold(ALL), get(ALL, WATCH), NEW_B)),
    "two become three, hold": (2, 3, [hold(B), NEW_C, get(A), NEW_C]),
    "two become three, watch": (2, 3, [get(B, WATCH), NEW_C, set_(A), NEW_C]),
    "two become three, read": (2, 3, [get(B), NEW_C, set_(A), NEW_C]),
    "one becomes three, hold": (1, 3, [hold(ALL), NEW_B, get(ALL), NEW_C, NEW_B]),
    "one becomes three, read": (1, 3, [get(ALL), NEW_C, set_(ALL), NEW_B]),
}
TOLERANT, PLAIN = Form.TOLERANT, Form.PLAIN
BEHIND = [create(f"{NEW}/x"), create(NEW)]  # the second one waits for the first, and then takes one request
RISING: Mapping[str, tuple[int, int, Program, Form]] = {  # also with the form at first; it rises to grown
    "plain becomes grown, hold and read": (2, 2, [hold(B), get(A), get(B)], PLAIN),
    "plain becomes grown, read": (2, 2, [get(B), set_(A), get(B), set_(B)], PLAIN),
    "plain becomes grown, watch": (2, 2, [get(B, WATCH), set_(A), set_(B)], PLAIN),
    "plain becomes grown, first child": (2, 2, [create(NEW), create(f"{NEW}/x"), create(f"{NEW}/y")], PLAIN),
    "plain becomes grown, first children": (2, 2, at_once(create(NEW), create(f"{NEW}/x"), get(A)), PLAIN),
    "plain becomes grown, all at once": (2, 2, at_once(hold(B), get(A, WATCH), get(B)), PLAIN),
    "plain becomes grown, behind another": (2, 2, in_groups([create(NEW)], BEHIND), PLAIN),
    "one becomes two and grown, hold": (1, 2, [hold(ALL), NEW_B, get(ALL)], PLAIN),
    "tolerant becomes grown, hold and read": (2, 2, [hold(B), get(A), get(B)], TOLERANT),
    "tolerant becomes grown, read": (2, 2, [get(B), set_(A), get(B), set_(B)], TOLERANT),
    "tolerant becomes grown, first children": (2, 2, at_once(create(NEW), create(f"{NEW}/x"), get(A)), TOLERANT),
    "tolerant becomes grown, behind another": (2, 2, in_groups([create(NEW)], [get(A)], BEHIND), TOLERANT),
    "tolerant becomes grown, all at once": (2, 2, at_once(hold(B), get(A, WATCH), get(B)), TOLERANT),
}
LEAVING: Mapping[str, Program] = {  # what the client does while ensemble b leaves
    "b leaves, read": [get(B), get(A), set_(B)],
    "b leaves, empty": [*emptied(B), get(A)],
    "b leaves, make again": [*emptied(B), create(B), create(f"{B}/x"), get(A)],
    "b leaves, first child": in_groups([create(NEW)], [create(f"{NEW}/x")], emptied(B), [get(A)]),
    "b leaves, first child gone": [
        *emptied(B),
        create(NEW),
        create(f"{NEW}/x"),
        Delete(f"{NEW}/x", -1),
        Delete(NEW, -1),
    ],
    "b leaves, remembered": [get(B), create(f"{B}/x"), get(A)],
    "b leaves, watch": [get(B, WATCH), get(A)],
    "b leaves, hold": [hold(B), get(A)],
    "b leaves, all at once": at_once(get(B, WATCH), hold(B), get(A, WATCH)),
}
MIRRORED = A or B  # its home is on the other ensemble
AT_HOME = next(path for path in (f"/n{number}" for number in range(100)) if Placement(2).is_native(path))


def moving(d: str) -> Mapping[str, Program]:
    """What a client does while the children of a directory move."""
    x, number = f"{d}/x", Create(f"{d}/", b"", OPEN_ACL_UNSAFE, SEQUENCE)
    return {
        "set, get": [set_(d), get(d), set_(d), get(d)],
        "make, list": [create(x), GetChildren(d, None), Delete(x, -1), GetChildren2(d, None)],
        "count": [number, number, Exists(d, None)],
        "delete": [get(d), *emptied(d), Exists(d, None)],
        "delete in vain": [get(d), Delete(d, -1), get(d)],
        "make again": [*emptied(d), create(d), create(x), GetChildren(d, None)],
        "make below": [create(x), create(f"{x}/y"), GetChildren(x, None), Delete(f"{x}/y", -1), Delete(x, -1)],
        "by transaction": [Transaction([create(x), set_(d)]), Transaction([Delete(x, -1), set_(d)]), get(d)],
        "delete by transaction": [Transaction(emptied(d)), Exists(d, None)],
        "set acls": [SetACL(d, READ_ACL_UNSAFE, -1), Exists(d, None), GetACL(d)],
        "at once": at_once(create(x), get(d), GetChildren(d, None), Delete(x, -1), Exists(d, None)),
        "in groups": in_groups([set_(d), create(x)], [GetChildren(d, None), set_(d), number], [get(d)]),
        "hold": [hold(d), get(A), get(A), get(d)],
        "hold a number": [hold(d, SEQUENCE), get(A), hold(d, SEQUENCE)],
        "hold, let go": [hold(d), get(A), get(A), Delete(f"{d}/e", -1)],
        "read everywhere": [get(A), get(B), get(d), get(d), get(d)],
        "read elsewhere": in_groups([get(A), set_(d)], [get(A), GetChildren("/", None), get(d)]),
    }


def watching(d: str) -> Mapping[str, Program]:
    """The same, of a client that leaves watches."""
    x = f"{d}/x"
    return {
        "watch": [get(d, WATCH), get(A), get(A)],
        "watch, set": [get(d, WATCH), set_(d)],
        "watch children": [GetChildren2(d, WATCH), get(A), get(A)],
        "watch children, make": [GetChildren2(d, WATCH), create(x)],
        "watch both": at_once(get(d, WATCH), GetChildren2(d, WATCH)),
        "watch what is not there": [Exists(x, WATCH), get(A)],
        "watch children of a child": [create(x), GetChildren2(x, WATCH), get(A)],
    }


def of_both(make: Callable[[str], Mapping[str, Program]]) -> Mapping[str, tuple[str, Program]]:
    """Programs with the directory that moves, which has a mirror, or is native."""
    return {
        f"{kind} moves, {name}": (path, program)
        for kind, path in (("mirrored", MIRRORED), ("native", AT_HOME))
        for name, program in make(path).items()
    }


MOVING, WATCHING = of_both(moving), of_both(watching)
CHANGING = ("changes it", "deletes it")  # the others' programs
OTHERS: Mapping[str, Sequence[Program]] = {
    "nothing": [],
    "sets": [[set_(B), set_(A)]],
    "watches it": [[Exists(f"{B}/e", WATCH)]],
    "lets go": [[LET_GO]],
    "sets it": [[set_(B)]],
    "makes": [[hold(B), create("/x")]],
    "empties": [emptied(B)],
    "empties, makes again": [[*emptied(B), create(B)]],
    "lets go, empties": [[LET_GO, *emptied(B)]],
    "changes it": [[set_(each), create(f"{each}/x")] for each in (MIRRORED, AT_HOME)],
    "deletes it": [emptied(each) for each in (MIRRORED, AT_HOME)],
}
EMPTYING = ("empties", "empties, makes again", "lets go, empties")
ALIKE = "the same"
TROUBLES = ("le", "lep", "leg", "lmmm", "lemm", "llee")
OF_KEEPING = ("l", "ll", "le", "lll", "lep", "leg")
OF_GROWTH = ("mm", "mml", "mmle", "mmlp", "mmlg", "mmlee", "mmmmle")  # troubles
TWICE, WHOLE = "m" * 3, "m" * 6  # two forms on two ensembles, as far as the second is published; all of three
OF_RISE = (TWICE, *(TWICE + each for each in ("l", "f", "fl")), WHOLE)
OF_RISE += tuple(WHOLE + each for each in ("l", "f", "le", "lfp", "lle"))
LEFT = "m" * 4  # two maps on two ensembles
OF_MOVES = (
    *("", "l", "e", "o", "x", "i", "ll", "le", "lo", "lx", "lp", "eo", "ex", "oi", "llo", "y", "ly"),
    *("zz", "zzzz", "zzo", "zzx", "lzz", "yzz"),
)
OF_CARRYING = ("", "o", "x", "i", "y", "oi")  # SUSPENDED would tell the watches NONE
OF_LEAVING = (LEFT, *(LEFT + each for each in ("l", "e", "ll", "le", "lf", "lp", "lg")))
STARTS = ("a", "b", "ab")
PACES = ("at once", "apart", "slow")


@dataclass(frozen=True)
class Sessions:
    """A client's program, beside another client.

    :param troubles: see :class:`SessionScenario`. Another client has none of its own.
    :param pace: whether answers are read at once, or handshakes are slow.
    """

    program: str
    other: str
    troubles: str
    start: str
    pace: str
    family: ClassVar[str] = "session"

    def scenario(self) -> SessionScenario:
        if self.pace not in PACES:
            raise ValueError(f"no pace: {self.pace}")
        known = {name: (2, 2, each, PLAIN) for name, each in PROGRAMS.items()}
        known |= {name: (2, 2, each, PLAIN) for name, each in KEEPING.items()}
        known |= {name: (3, 3, each, PLAIN) for name, each in OF_THREE.items()}
        known |= {name: (*each, PLAIN) for name, each in GROWING.items()}
        known |= {name: (2, 2, each, Form.GROWN) for name, each in LEAVING.items()}
        known |= {name: (2, 2, each, Form.GROWN) for name, (_, each) in {**MOVING, **WATCHING}.items()}
        first, last, program, begins = {**known, **RISING}[self.program]
        other = [program] if self.other == ALIKE else OTHERS[self.other]
        return SessionScenario(
            name_of(self),
            [program, *other],
            self.troubles,
            self.start,
            ensembles=last,
            come=last - first,
            begins=begins,
            rises=Form.GROWN - begins if self.program in RISING else 0,
            leaves=self.program in LEAVING,
            moves={**MOVING, **WATCHING}.get(self.program, ("",))[0],
            is_apart=self.pace == "apart",
            is_slow=self.pace == "slow",
            is_exact=self.program in KEEPING,
        )

    @classmethod
    def members(cls) -> Iterator[Sessions]:
        """A client alone; two; one on three ensembles; those whose map gains ensembles, or forms, or loses one;
        those with watches that outlast a connection.
        """
        alone = itertools.product(PROGRAMS, ["nothing"], TROUBLES, STARTS, PACES)
        two = itertools.product(PROGRAMS, ["sets", "watches it", "lets go"], TROUBLES, ["a"], ["apart"])
        three = itertools.product(OF_THREE, ["nothing"], TROUBLES, STARTS, ["at once"])
        grows = itertools.product(GROWING, ["nothing"], OF_GROWTH, ["a"], PACES)
        grow = itertools.product(GROWING, [ALIKE], OF_GROWTH, ["a"], ["apart"])
        rises = itertools.product(RISING, ["nothing"], OF_RISE, ["a"], PACES)
        rise = itertools.product(RISING, [ALIKE], OF_RISE, ["a"], ["apart"])
        left = itertools.product(LEAVING, ["nothing", ALIKE, *EMPTYING], OF_LEAVING, ["a", "ab"], ["apart"])
        moves = itertools.chain(
            itertools.product(MOVING, ["nothing", ALIKE], OF_MOVES, STARTS, ["apart"]),
            itertools.product(WATCHING, ["nothing", ALIKE, *CHANGING], OF_CARRYING, STARTS, ["apart"]),
        )
        keep = itertools.chain(
            itertools.product(KEEPING, ["nothing"], OF_KEEPING, STARTS, PACES),
            itertools.product(KEEPING, ["sets it", "makes"], OF_KEEPING, ["a"], ["apart"]),
        )
        for words in itertools.chain(alone, two, three, grows, grow, rises, rise, left, moves, keep):
            yield cls(*words)
