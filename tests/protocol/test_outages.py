"""Which operation needs which ensemble: the table in docs/design/outages.md.

One ensemble is silent from a moment on. An operation that ends all the same does not need it. Otherwise the
connection is lost then, and the operation is issued once more. PARKAZOO_TEST_RENEW=1 writes the table anew.
"""

from __future__ import annotations

import os
import unittest
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from kazoo.exceptions import ConnectionLoss
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.kazoo_private import (
    Auth,
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
)
from parkazoo.protocol.chain import ChainedBatch, Landed
from parkazoo.protocol.newer_requests import CreateContainer, CreateTTL, GetEphemerals, WhoAmI
from parkazoo.protocol.once import Marker, Once
from parkazoo.protocol.placement import Place, Placement
from parkazoo.protocol.plans import PLANS
from parkazoo.protocol.presence import Presence
from tests.explore.alone import find_directory, must, prepared
from tests.explore.client import Client
from tests.explore.directories import create
from tests.explore.model import Model
from tests.explore.scenario import Knows
from tests.explore.znodes import EPHEMERAL, SEQUENCE, Request, Who
from tests.fakes.result import Result

DOCUMENT = Path(__file__).parents[2] / "docs/design/outages.md"
BEGIN, END = "<!-- tests/protocol/test_outages.py makes this table -->\n\n", "\n\n<!-- end of the table -->"
HEAD = "| operation | home away | children's ensemble away | another one away |"

PLACEMENT = Placement(3)
D = find_directory(PLACEMENT, False)
HOME, CHILDREN = PLACEMENT.of(D), PLACEMENT.of_children(D)
(OTHER,) = {0, 1, 2} - {HOME, CHILDREN}
X, Y, GONE, HELD = (
    next(path for number in range(100) if PLACEMENT.of_children(path := f"{D}/{name}{number}") == OTHER)
    for name in ("x", "y", "gone", "held")
)
LANE = Place(CHILDREN, "/lane")
USER, MAKER, STRANGER, NEW, WRONG = "has used it", "has made it", "knows nothing", "no session", "wrong guess"

DATA = "The home has data, ACL, versions and the right to delete."
COUNT = "The stat counts the children."
LISTED = "The children are there, or would be."
CARRIED = "The mirror carries the ACL."
EMPTY = "It is deleted if it has no children. The mirror goes before the home."
PINNED = "The pin says where they are. A guess makes no client join, unless the pin could not be asked."
GUESSED = "It is the guess, and asked first, unless it could not be asked."
LAGS = "Asked first, because a follower of the home may lag behind what the client has seen of the children."
EXISTS = "Only the home says whether the directory is there."
UNDECIDED = "Only the home says where a first child would be, by its pin."
FIRST = "A first child makes the pin at home, and the mirror where the newest epoch puts it."
RIGHT = "The home knows of the right to delete; where pins decide, also where the child would be."
NEXT = "It may be read next, and must not be old."
SENT = "The transaction goes to where a child would be made."
TAKEN = "It says that each ensemble that is joined has taken the credentials."
REASONS = (
    DATA,
    COUNT,
    LISTED,
    CARRIED,
    EMPTY,
    PINNED,
    GUESSED,
    LAGS,
    EXISTS,
    UNDECIDED,
    FIRST,
    RIGHT,
    NEXT,
    SENT,
    TAKEN,
)


def watch(event: Any) -> None: ...


class Row(NamedTuple):
    """
    :param make: an equal request at each call. :param why: it needs the ensemble that is away, by its index.
    """

    operation: str
    make: Callable[[], Request]
    why: Mapping[int, str] = {}


def once(*operations: Request) -> Request:
    return Once(operations, Marker(1, OPEN_ACL_UNSAFE))


def batch(*writes: Request) -> Request:
    return ChainedBatch(LANE, 0, b"", None, writes)


TOGETHER = {CHILDREN: LISTED, OTHER: GUESSED}
OF_LEAF = {HOME: PINNED, CHILDREN: LISTED, OTHER: LAGS}
GUESS = {HOME: PINNED, CHILDREN: LISTED, OTHER: GUESSED}
UNMADE = {HOME: UNDECIDED, CHILDREN: LISTED, OTHER: GUESSED}
STAT = {HOME: DATA, CHILDREN: COUNT}
TABLE: Mapping[str, Sequence[Row]] = {
    "a directory with children": (
        Row("exists", lambda: Exists(D, None), STAT),
        Row("get", lambda: GetData(D, None), STAT),
        Row("get_acls", lambda: GetACL(D), STAT),
        Row("ensure_path", lambda: Presence(D, None)),
        Row("get_children", lambda: GetChildren(D, None), GUESS),
        Row(
            "get_children with a watch",
            lambda: GetChildren(D, watch),
            GUESS,
        ),
        Row("get_children with the stat", lambda: GetChildren2(D, None), {HOME: DATA, CHILDREN: LISTED}),
        Row("sync", lambda: Sync(D), {HOME: NEXT, CHILDREN: NEXT, OTHER: GUESSED}),
        Row("set", lambda: SetData(D, b"", -1), STAT),
        Row(
            "set_acls",
            lambda: SetACL(D, OPEN_ACL_UNSAFE, -1),
            {HOME: DATA, CHILDREN: CARRIED},
        ),
        Row("delete", lambda: Delete(D, -1), {HOME: DATA, CHILDREN: EMPTY}),
        Row("create of an existing znode", lambda: create(D), {HOME: DATA}),
    ),
    "a child": (
        Row("exists", lambda: Exists(X, None), GUESS),
        Row("exists of another's ephemeral", lambda: Exists(HELD, None), GUESS),
        Row("get", lambda: GetData(X, None), GUESS),
        Row("get with a watch", lambda: GetData(X, watch), GUESS),
        Row("ensure_path", lambda: Presence(X, None), TOGETHER),
        Row("set", lambda: SetData(X, b"", -1), GUESS),
        Row("set_acls", lambda: SetACL(X, OPEN_ACL_UNSAFE, -1), GUESS),
        Row("get_children", lambda: GetChildren(X, None), OF_LEAF),
        Row("sync", lambda: Sync(X), {HOME: PINNED, CHILDREN: LISTED, OTHER: NEXT}),
        Row("create", lambda: create(Y), GUESS),
        Row("numbered create", lambda: create(Y, SEQUENCE), GUESS),
        Row("ephemeral create", lambda: create(Y, EPHEMERAL), GUESS),
        Row("create with its stat", lambda: Create2(Y, b"", OPEN_ACL_UNSAFE, 0), GUESS),
        Row("delete", lambda: Delete(X, -1), GUESS),
        Row("a transaction", lambda: Transaction([create(Y), Delete(X, -1)]), TOGETHER),
        Row("a write once", lambda: once(create(Y)), TOGETHER),
        Row("deferred writes", lambda: batch(create(Y), SetData(X, b"", -1)), {CHILDREN: LISTED}),
    ),
    "a missing znode, beside children": (
        Row("exists", lambda: Exists(GONE, None), GUESS),
        Row("exists with a watch", lambda: Exists(GONE, watch), GUESS),
        Row("get", lambda: GetData(GONE, None), GUESS),
        Row("ensure_path until it is made", lambda: Presence(GONE, None), TOGETHER),
        Row("set", lambda: SetData(GONE, b"", -1), GUESS),
        Row("delete", lambda: Delete(GONE, -1), GUESS),
        Row("get_children", lambda: GetChildren(GONE, None), OF_LEAF),
        Row("a transaction that deletes it", lambda: Transaction([Delete(GONE, -1)]), TOGETHER),
        Row("a transaction that sets it", lambda: Transaction([SetData(GONE, b"", -1)]), TOGETHER),
    ),
    "a directory that has had no child": (
        Row("exists", lambda: Exists(D, None), {HOME: DATA}),
        Row("get", lambda: GetData(D, None), {HOME: DATA}),
        Row("ensure_path", lambda: Presence(D, None), {HOME: EXISTS}),
        Row("get_children", lambda: GetChildren(D, None), {HOME: EXISTS, CHILDREN: LAGS, OTHER: GUESSED}),
        Row("sync", lambda: Sync(D), {HOME: NEXT, CHILDREN: NEXT, OTHER: GUESSED}),
        Row("set", lambda: SetData(D, b"", -1), {HOME: DATA}),
        Row("set_acls", lambda: SetACL(D, OPEN_ACL_UNSAFE, -1), {HOME: DATA}),
        Row("delete", lambda: Delete(D, -1), {HOME: DATA}),
        Row("create of a child", lambda: create(Y), {HOME: FIRST, CHILDREN: FIRST, OTHER: FIRST}),
        Row(
            "a transaction that makes children",
            lambda: Transaction([create(Y), create(X)]),
            {HOME: FIRST, CHILDREN: FIRST, OTHER: FIRST},
        ),
        Row("get of a child", lambda: GetData(GONE, None), UNMADE),
        Row(
            "ensure_path of a child until it is made",
            lambda: Presence(GONE, None),
            {HOME: UNDECIDED, CHILDREN: LISTED, OTHER: GUESSED},
        ),
        Row("delete of a child", lambda: Delete(GONE, -1), {HOME: RIGHT, CHILDREN: LISTED, OTHER: GUESSED}),
        Row(
            "a transaction that deletes a child",
            lambda: Transaction([Delete(GONE, -1)]),
            {HOME: RIGHT, CHILDREN: LISTED, OTHER: SENT},
        ),
    ),
    "a directory whose children are gone": (
        Row("get_children", lambda: GetChildren(D, None), GUESS),
        Row("create of a child", lambda: create(Y), GUESS),
        Row(
            "delete",
            lambda: Delete(D, -1),
            {HOME: DATA, CHILDREN: EMPTY},
        ),
    ),
    "a directory that is not there": (
        Row("exists", lambda: Exists(D, None), {HOME: EXISTS}),
        Row("exists with a watch", lambda: Exists(D, watch), {HOME: EXISTS}),
        Row("get", lambda: GetData(D, None), {HOME: EXISTS}),
        Row("ensure_path until it is made", lambda: Presence(D, None), {HOME: EXISTS}),
        Row("get_children", lambda: GetChildren(D, None), {HOME: EXISTS, CHILDREN: LAGS, OTHER: GUESSED}),
        Row("create", lambda: create(D), {HOME: DATA}),
        Row("create of a child", lambda: create(Y), {HOME: EXISTS, CHILDREN: LISTED, OTHER: GUESSED}),
        Row("delete", lambda: Delete(D, -1), {HOME: EXISTS}),
        Row("delete of a child", lambda: Delete(GONE, -1), {HOME: RIGHT, CHILDREN: LISTED, OTHER: GUESSED}),
    ),
    "no znode": (Row("add_auth", lambda: Auth(0, "digest", "a:b"), {HOME: TAKEN, CHILDREN: TAKEN, OTHER: TAKEN}),),
}
MADE: Mapping[str, Sequence[Request]] = {
    "a directory that has had no child": [create(D)],
    "a directory whose children are gone": [create(D), create(X), Delete(X, -1)],
    "a directory that is not there": [],
}


class Situation(NamedTuple):
    """A client, and the ensemble that falls silent.

    :param knows: of the directory, of which it may know nothing.
    """

    of: str
    is_grown: bool
    knows: str
    away: int

    def client(self) -> Client:
        model = prepared(PLACEMENT, [D])
        must(model.execute(LANE.ensemble, create(LANE.path)))
        other, client = self._client(model, 9, "other"), self._client(model, 1, self.knows)
        for number, request in enumerate(MADE.get(self.of, [create(D), create(X), create(HELD, EPHEMERAL)])):
            must((client if self.knows == MAKER and not number else other).get(request))
        if self.knows == USER:
            for read in (GetData(D, None), GetChildren(D, None), GetData(X, None)):
                client.get(read)
        context: Any = client.driver.context
        context.is_connected = lambda at: at != self.away
        if self.knows == NEW and self.is_grown:
            context.is_joined = lambda at: bool(client.members[at].outbox) or at in {to for to, _ in client.sent}
        return client

    def _client(self, model: Model, number: int, knows: str) -> Client:
        def guess(path: str) -> int:
            return OTHER if path == D and knows == WRONG else PLACEMENT.of_children(path)

        known = Knows(guess) if self.is_grown else None
        return Client(PLACEMENT, model, Who(owners=(number,) * PLACEMENT.ensembles), f"{number}", known)

    def outcome(self, make: Callable[[], Request]) -> str:
        """With what an operation ends, and when."""
        client = self.client()
        for when in ("", "once: "):
            result = client.call(make())
            self._run(client)
            if result.told:
                return when + word(result)
            while not result.told:
                _, reply = client.members[self.away].outbox.popleft()
                if reply is not None:
                    reply.set_exception(ConnectionLoss())
                self._run(client)
            if not isinstance(result.value, ConnectionLoss):
                return f"late: {word(result)}"
        return "needed"

    def _run(self, client: Client) -> None:
        """Until nothing can happen any more, for one ensemble is silent."""
        silent = client.members[self.away].serve
        while choices := [each for each in client.choices() if each != silent]:
            choices[0]()


def word(result: Result) -> str:
    """A result in the table: the error, None, False, or that it is done."""
    value: Any = result.value
    errors = value if isinstance(value, list) else [value.error if isinstance(value, Landed) else value]
    done = str(value) if value is None or value is False else "done"
    return next((type(each).__name__ for each in errors if isinstance(each, Exception)), done)


def situations(of: str, away: int) -> Iterator[Situation]:
    for is_grown, knows in product((False, True), (STRANGER, USER, MAKER, NEW, WRONG)):
        if (knows != MAKER or MADE.get(of) != []) and (knows != WRONG or (is_grown and away == OTHER)):
            yield Situation(of, is_grown, knows, away)


def cell(of: str, row: Row, away: int) -> str:
    """What the table says: one outcome if all clients have the same; else that on plain maps, and the others."""
    grouped: dict[str, list[str]] = {}
    grown = [each.knows for each in situations(of, away) if each.is_grown]
    for each in situations(of, away):
        grouped.setdefault(each.outcome(row.make), []).append(each.knows if each.is_grown else "")
    (usual, _), *others = grouped.items()
    told = [usual]
    for outcome, clients in others:
        assert all(clients), "plain maps differ"
        of_all = [each for each in grown if each != NEW]
        who = "" if clients == grown else ", session" if clients == of_all else f", {', '.join(clients)}"
        when = outcome.removesuffix(f": {usual}")  # the first word says it, if the answer is the usual one
        told.append(f"{when} ({WRONG if clients == [WRONG] else f'grown{who}'})")
    return "; ".join(told)


def is_at_once(cell: str) -> bool:
    return not any(word in cell for word in ("needed", "once", "late"))


class TestOutages(unittest.TestCase):
    def test_table(self) -> None:
        lines = [HEAD, "|---|---|---|---|"]
        for of, rows in TABLE.items():
            lines.append(f"| **{of}** | | | |")
            alike: dict[str, list[str]] = {}  # the operations by their cells
            for row in rows:
                cells = {away: cell(of, row, away) for away in (HOME, CHILDREN, OTHER)}
                with self.subTest(of, operation=row.operation):
                    needed = {away for away, each in cells.items() if not is_at_once(each)}
                    self.assertEqual(needed, {*row.why}, f"a reason is missing, or not needed: {cells}")
                numbers = {away: f" [{REASONS.index(why) + 1}]" for away, why in row.why.items()}
                told = " | ".join(each + numbers.get(away, "") for away, each in cells.items())
                alike.setdefault(told, []).append(row.operation)
            lines += [f"| {', '.join(operations)} | {told} |" for told, operations in alike.items()]
        lines += ["", *(f"{number}. {reason}" for number, reason in enumerate(REASONS, 1))]
        table = "\n".join(lines)
        before, _, rest = DOCUMENT.read_text().partition(BEGIN)
        told, _, after = rest.partition(END)
        if os.environ.get("PARKAZOO_TEST_RENEW"):
            DOCUMENT.write_text(before + BEGIN + table + END + after)
        else:
            self.assertEqual(told, table, "docs/design/outages.md tells otherwise: look at the difference")

    def test_each_operation_is_in_it(self) -> None:
        kinds = {row.make().type for rows in TABLE.values() for row in rows}
        as_a_create = {CreateTTL.type, CreateContainer.type}
        of_the_session = {GetEphemerals.type, WhoAmI.type}  # they name no ensemble by a path
        self.assertEqual(kinds, {*PLANS} - as_a_create - of_the_session)
