"""The stat of a directory: its own part from the home, the children's from the mirror, nothing of ParKazoo's."""

from __future__ import annotations

import unittest
from typing import Any
from unittest import mock

from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.kazoo_private import (
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
    Transaction,
)
from parkazoo.protocol.ops.whole_stat import with_mirror
from parkazoo.protocol.placement import Placement
from parkazoo.protocol.plans import PLANS
from tests.explore.alone import find_directory, make_context, make_grown, must, prepared, run
from tests.explore.directories import create
from tests.explore.grown import ADOPTED, guess
from tests.explore.grown import D as GROWN
from tests.explore.scenario import Knows
from tests.explore.znodes import ANYONE, EPHEMERAL, Who
from tests.where_is import where_is

PLACEMENT = Placement(3)
D, NATIVE = find_directory(PLACEMENT, False), find_directory(PLACEMENT, True)
HOME_FIELDS = (
    "czxid", "mzxid", "ctime", "mtime", "version", "aversion", "dataLength", "ephemeralOwner",
)  # fmt: skip
CHILD_FIELDS = ("cversion", "pzxid", "numChildren")


class TestStats(unittest.TestCase):
    def setUp(self) -> None:
        self.model = prepared(PLACEMENT, [D])
        self.context = make_context(PLACEMENT)

    def perform(self, request: Any, who: Who = ANYONE) -> Any:
        return run(self.model, PLANS[request.type].operation(self.context, request), who)

    def stats(self, path: str) -> list[Any]:
        """The stat of a directory from each call that has one; writes come last, and are read again."""
        stats = [
            self.perform(Exists(path, None)),
            self.perform(GetData(path, None))[1],
            self.perform(GetACL(path))[1],
            self.perform(GetChildren2(path, None))[1],
        ]
        for stat in stats[1:]:
            self.assertEqual(stat, stats[0])
        for write in (SetData(path, b"abc", -1), SetACL(path, OPEN_ACL_UNSAFE, -1)):
            self.assertEqual(self.perform(write), self.perform(Exists(path, None)))
        return stats

    def test_merged(self) -> None:
        self.perform(create(D))
        for name in ("x", "y", "z"):
            self.perform(create(f"{D}/{name}"))
        self.perform(Delete(D + "/x", -1))
        self.perform(SetData(D, b"12", -1))
        home, mirror = where_is(PLACEMENT, D)[1:3]
        of_home = self.model.nodes[home.ensemble][home.path].stat
        of_mirror = self.model.nodes[mirror.ensemble][mirror.path].stat
        stat = self.stats(D)[0]
        for field in HOME_FIELDS:
            self.assertEqual(getattr(stat, field), getattr(of_home, field), field)
        for field in CHILD_FIELDS:
            self.assertEqual(getattr(stat, field), getattr(of_mirror, field), field)
        self.assertEqual((stat.numChildren, stat.cversion, stat.version, stat.dataLength), (2, 4, 1, 2))

    def test_without_a_mirror(self) -> None:
        self.perform(create(D))
        self.assertEqual(self.stats(D)[0].numChildren, 0)

    def test_the_pin_is_not_counted(self) -> None:
        """A promotion was abandoned: no client sees that."""
        self.perform(create(D))
        before = self.perform(Exists(D, None))
        operation = PLANS[Create.type].operation(self.context, create(D + "/x"))
        answers: Any = None
        for _ in range(2):
            answers = [self.model.execute(*step) for step in operation.send(answers)]
        home = where_is(PLACEMENT, D).home
        self.assertEqual(self.model.nodes[home.ensemble][home.path].stat.numChildren, 1)
        self.assertEqual(self.stats(D)[0], before)

    def test_a_native_directory_is_as_it_is(self) -> None:
        self.perform(create(NATIVE))
        self.perform(create(NATIVE + "/x"))
        stat = self.stats(NATIVE)[0]
        self.assertEqual((stat.numChildren, stat.cversion), (1, 1))

    def test_the_root(self) -> None:
        """/parkazoo is neither listed nor counted."""
        self.perform(create(D))
        names, stat = self.perform(GetChildren2("/", None))
        self.assertEqual((names, stat.numChildren), ([D[1:]], 1))
        self.assertEqual(self.perform(GetChildren("/", None)), [D[1:]])
        for request in (GetData("/", None), GetACL("/")):
            self.assertEqual(self.perform(request)[1].numChildren, 1)
        for request in (Exists("/", None), SetData("/", b"", -1), SetACL("/", OPEN_ACL_UNSAFE, -1)):
            self.assertEqual(self.perform(request).numChildren, 1)

    def test_in_transactions(self) -> None:
        self.perform(create(D))
        self.perform(create(D + "/x"))
        self.perform(create(D + "/y"))
        sibling = D + "-sibling"
        stats = self.perform(Transaction([create(sibling), SetData(D, b"1", -1), SetData(sibling, b"", -1)]))
        self.assertEqual(stats[1], self.perform(Exists(D, None)))
        self.assertEqual((stats[1].numChildren, stats[1].version), (2, 1))
        self.assertEqual(stats[2].numChildren, 0)

    def test_with_mirror(self) -> None:
        self.perform(create(D))
        stat = self.perform(Exists(D, None))._replace(numChildren=1, cversion=1, pzxid=99)
        self.assertEqual(with_mirror(stat, None), stat._replace(numChildren=0, cversion=0, pzxid=stat.czxid))


class TestMeanwhile(unittest.TestCase):
    def test_a_place_that_another_thread_corrects(self) -> None:
        """The children of an older directory of this name, elsewhere, do not count."""
        model, context = prepared(ADOPTED), make_grown(make_context(ADOPTED), ADOPTED, Knows(guess(1)))
        path = f"{GROWN}/x"
        for request in (create(GROWN), create(path), create(f"{path}/y")):
            run(model, PLANS[request.type].operation(context, request))
        above, d = context.places.both(path)
        before = d._replace(mirror=d.mirror._replace(ensemble=2))
        must(model.execute(2, create(before.mirror.path)))
        with mock.patch.object(context.places, "both", side_effect=[(above, before), (above, d)]):
            stat = run(model, PLANS[Exists.type].operation(context, Exists(path, None)))
        self.assertEqual(stat.numChildren, 1)


class TestOwner(unittest.TestCase):
    """An ephemeral's owner is client_id[0] on every ensemble, and another client's is what the server says."""

    def test_every_ensemble(self) -> None:
        model, context = prepared(PLACEMENT), make_context(PLACEMENT)
        other = Who(owners=(70, 80, 90, 100, 110))
        seen = set()
        for number in range(20):
            parent, path = f"/p{number}", f"/p{number}/e"
            for request, who in ((create(parent), ANYONE), (create(path, EPHEMERAL), ANYONE)):
                run(model, PLANS[Create.type].operation(context, request), who)
            seen.add(PLACEMENT.of(path))
            stats = [
                run(model, PLANS[request.type].operation(context, request))
                for request in (Exists(path, None), SetData(path, b"", -1), GetChildren2(path, None))
            ]
            self.assertEqual({getattr(s, "ephemeralOwner", s[-1]) for s in stats[:2]}, {ANYONE.owners[0]})
            self.assertEqual(stats[2][1].ephemeralOwner, ANYONE.owners[0])
            data = run(model, PLANS[GetData.type].operation(context, GetData(path, None)))
            self.assertEqual(data[1].ephemeralOwner, ANYONE.owners[0])
            two = Create2(f"{parent}/e2", b"", OPEN_ACL_UNSAFE, EPHEMERAL)
            self.assertEqual(
                run(model, PLANS[Create2.type].operation(context, two))[1].ephemeralOwner, ANYONE.owners[0]
            )
            run(model, PLANS[Create.type].operation(context, create(f"{parent}/theirs", EPHEMERAL)), other)
            stat = run(model, PLANS[Exists.type].operation(context, Exists(f"{parent}/theirs", None)))
            self.assertEqual(stat.ephemeralOwner, other.owners[PLACEMENT.of(path)])
        self.assertEqual(seen, {0, 1, 2})
