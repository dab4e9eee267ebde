"""What fsck concludes, without a server: never a fault that is none, whatever clients do meanwhile."""

from __future__ import annotations

import itertools
import random
import re
import unittest
from collections.abc import Iterator
from typing import Any
from unittest import mock

from kazoo.exceptions import KazooException
from kazoo.security import OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from parkazoo.kazoo_private import Create, Delete, Exists, GetChildren, SetACL, Sync, Transaction
from parkazoo.protocol import findings
from parkazoo.protocol.audit_directory import mirrored_by, recheck
from parkazoo.protocol.audit_ensemble import audit_ensemble
from parkazoo.protocol.audit_paths import BY_PATH, audit_mirror, audit_znode
from parkazoo.protocol.context import Context
from parkazoo.protocol.fence import bump_fence
from parkazoo.protocol.findings import LOST_CHILDREN, Finding
from parkazoo.protocol.mend import MENDS, mend
from parkazoo.protocol.placement import MIRRORS, Place, Placement, escape, logical, split
from parkazoo.protocol.rights import pin_acl
from parkazoo.protocol.snapshot import Snapshot, judge
from parkazoo.protocol.steps import Operation, ask
from tests.explore.alone import find_directory, make_context, must, prepared, promote, run
from tests.explore.answers import freeze
from tests.explore.client import Client
from tests.explore.znodes import ANYONE, Who, Znodes
from tests.fakes.result import Result
from tests.where_is import where_is

PLACEMENT = Placement(3)
PATH = find_directory(PLACEMENT, False)
RUNS = 400
REQUESTS = 12
MENDED = {"unfinished-deletes", "differing-acls"}
NOTES = {"unfinished-promotions", "missing-mirrors"}
CLEAN = Snapshot(frozenset(), True, ((1, 0), (1, 0), (1, 0)), (), False)
MARK = "0123456789abcdef0123456789abcdef"


class JudgeTest(unittest.TestCase):
    def setUp(self) -> None:
        self.d = where_is(PLACEMENT, PATH)

    def kinds(self, before: Snapshot, now: Snapshot | None) -> list[str]:
        return [finding.kind.name for finding in judge(self.d, before, now)]

    def test_marks(self) -> None:
        old, new = f"{MARK}.-1", f"{MARK[::-1]}.transaction"
        marked = CLEAN._replace(marks=frozenset([old]))
        self.assertEqual(self.kinds(marked, marked), ["unfinished-deletes"])
        self.assertEqual(self.kinds(marked, None), [])
        self.assertEqual(self.kinds(marked, CLEAN), [])
        self.assertEqual(self.kinds(marked, CLEAN._replace(marks=frozenset([new]))), [])
        both = CLEAN._replace(marks=frozenset([old, new]))
        (finding,) = judge(self.d, marked, both)
        self.assertEqual(finding.marks, {old})

    def test_strange_marks_are_no_deletes(self) -> None:
        strange = CLEAN._replace(marks=frozenset(["strange", f"{MARK}.", f"{MARK}.1.2", f"x{MARK}.1"]))
        self.assertEqual(self.kinds(strange, strange), [])

    def test_acls(self) -> None:
        differing = CLEAN._replace(differing=("mirror",))
        self.assertEqual(self.kinds(differing, differing), ["differing-acls"])
        self.assertEqual(self.kinds(differing, CLEAN), [])
        for which in range(3):
            versions = list(differing.versions)
            versions[which] = (1, 1)
            self.assertEqual(self.kinds(differing, differing._replace(versions=tuple(versions))), [])


class LossTest(unittest.TestCase):
    """A pin without a mirror: what it remembers tells lost children from a first child that never came."""

    def setUp(self) -> None:
        self.model = prepared(PLACEMENT, [PATH])
        self.context = make_context(PLACEMENT)
        self.d = where_is(PLACEMENT, PATH)
        must(self.model.execute(self.d.home.ensemble, Create(self.d.home.path, b"", OPEN_ACL_UNSAFE, 0)))

    def begin(self) -> None:
        """A promotion whose client dies before its last step."""
        promotion = promote(self.context, self.d)
        steps = next(promotion)
        while not isinstance(steps[0][1], Transaction):
            steps = promotion.send([self.model.execute(*step) for step in steps])

    def lose(self) -> None:
        """The mirror's ensemble loses all that it has, and is made anew."""
        ensemble = self.d.mirror.ensemble
        fresh = prepared(PLACEMENT, [PATH])
        # What was made later has another time; in the model, that is the number of writes.
        must(fresh.execute(ensemble, Delete(self.d.fence, -1)))
        must(fresh.execute(ensemble, Create(self.d.fence, b"", OPEN_ACL_UNSAFE, 0)))
        self.model.nodes[ensemble], self.model.zxids[ensemble] = fresh.nodes[ensemble], fresh.zxids[ensemble]

    def kinds(self) -> list[str]:
        place = Place(self.d.home.ensemble, "/")
        seen = run(self.model, audit_znode(self.context, place, "/", split(PATH)[1]))
        self.assertEqual(seen.suspects, ())
        return [finding.kind.name for finding in seen.findings]

    def test_nothing_is_wrong(self) -> None:
        self.assertEqual(self.kinds(), [])
        run(self.model, promote(self.context, self.d))
        self.assertEqual(self.kinds(), [])

    def test_a_first_child_that_never_came(self) -> None:
        self.begin()
        self.assertEqual(self.kinds(), ["unfinished-promotions"])

    def test_emptied(self) -> None:
        run(self.model, promote(self.context, self.d))
        self.lose()
        self.assertEqual(self.kinds(), ["lost-children"])
        run(self.model, promote(self.context, self.d))  # a client makes a child again
        self.assertEqual(self.kinds(), [])
        self.lose()
        self.assertEqual(self.kinds(), ["lost-children"])

    def test_emptied_before_its_first_child(self) -> None:
        self.lose()
        self.assertEqual(self.kinds(), [])
        self.begin()
        self.assertEqual(self.kinds(), ["unfinished-promotions"])

    def test_the_fence_is_lost_too(self) -> None:
        run(self.model, promote(self.context, self.d))
        self.lose()
        must(self.model.execute(self.d.mirror.ensemble, Delete(self.d.fence, -1)))
        self.assertEqual(self.kinds(), ["lost-children"])

    def test_a_backup_from_before(self) -> None:
        backup = Znodes(self.model.nodes[self.d.mirror.ensemble])
        run(self.model, bump_fence(self.d))
        run(self.model, promote(self.context, self.d))
        self.model.nodes[self.d.mirror.ensemble] = backup
        self.assertEqual(self.kinds(), ["lost-children"])

    def test_a_mirror_deleted_by_hand(self) -> None:
        """A delete that then lost to a set removes a mirror too, and fsck cannot tell: a note that says both."""
        run(self.model, promote(self.context, self.d))
        must(self.model.execute(self.d.mirror.ensemble, Delete(self.d.mirror.path, -1)))
        self.assertEqual(self.kinds(), ["missing-mirrors"])

    def test_a_pin_made_by_another_client(self) -> None:
        for data in (
            b"",
            b"{",
            b"[]",
            b'{"fence": 1, "on": "e1"}',
            b'{"fence": [1, 0]}',
            b'{"fence": [null, 1], "on": "e1"}',
            b'{"fence": [1e999, 1], "on": "e1"}',
            b"[" * 100_000,
            b"\xff",
        ):
            must(self.model.execute(self.d.home.ensemble, Create(self.d.pin, data, pin_acl(OPEN_ACL_UNSAFE), 0)))
            self.assertEqual(self.kinds(), ["missing-mirrors"])
            must(self.model.execute(self.d.home.ensemble, Delete(self.d.pin, -1)))

    def test_accepted(self) -> None:
        run(self.model, promote(self.context, self.d))
        self.lose()
        self.assertEqual(run(self.model, mend(self.context, Finding(LOST_CHILDREN, 0, PATH, "", self.d))), "")
        self.assertEqual(self.kinds(), [])

    def test_a_repair_does_not_hide_a_loss(self) -> None:
        """The folder of the mirrors is not made again."""
        must(self.model.execute(1, Delete(MIRRORS, -1)))
        seen = run(self.model, audit_ensemble(self.context, 1, 0, BY_PATH))
        (finding,) = [finding for finding in seen.findings if finding.path == MIRRORS]
        self.assertEqual(finding.kind.name, "lost-mirrors")
        self.assertNotIn(finding.kind, MENDS)


class NamesTest(unittest.TestCase):
    def test_of_mirrors(self) -> None:
        for path in ("/a", "/a/b", "/a%2Fb", "/a%/b%25", "/a b/é"):
            self.assertEqual(mirrored_by(escape(path)), path)
        bad = ["", "a", "%2Fa%2F", "%2F%2Fa", "%2Fa%2F..%2Fb", "%2f", "%2Fa%41", "%2Fa%"]
        for name in (*bad, "%2Fparkazoo", "%2Fparkazoo%2Fx", "%2Fa%2F.parkazoo"):
            self.assertIsNone(mirrored_by(name), name)


class BesideClientsTest(unittest.TestCase):
    """A client and fsck on one directory, their requests in any order, with servers that lag."""

    def setUp(self) -> None:
        names = mock.patch.object(findings, "MARK", re.compile("mark.*"))  # as the fake clients call them
        names.start()
        self.addCleanup(names.stop)

    def test_the_client_does_not_notice(self) -> None:
        """Each answer is that of one ZooKeeper, though fsck takes its deletes and set_acls for abandoned ones."""
        mended = 0
        for seed in range(RUNS):
            dice = random.Random(seed)
            requests = [dice.choice(REQUEST_KINDS)() for _ in range(REQUESTS)]
            alone = Client(Placement(1), prepared(Placement(1)))
            expected = [answer_of(alone.get(request)) for request in requests]
            world = World(dice)
            answers = list(world.run(requests))
            self.assertEqual(answers, expected, f"seed {seed}")
            self.assertLessEqual(set(world.kinds), MENDED | NOTES)
            mended += len([kind for kind in world.kinds if kind in MENDED])
        self.assertGreater(mended, RUNS // 10)

    def test_deleted_and_made_again_meanwhile(self) -> None:
        """Twice, at any moments of a look at its mirror: another mirror proves nothing of the one before."""
        for moments in itertools.combinations_with_replacement(range(9), 4):
            world = World(random.Random(0))
            world.is_lagging = False
            client, result = world.client(), Result()
            make = [Create(path, b"", OPEN_ACL_UNSAFE, 0) for path in (PATH, X)]
            delete = [Delete(path, -1) for path in (X, PATH)]
            for request in make:
                client.get(request)
            d = where_is(PLACEMENT, PATH)
            world.fsck.driver.run(audit_mirror(world.fsck.context, d.mirror.ensemble, escape(PATH)), result)
            for now in range(9):
                for moment, requests in zip(moments, (delete, make, delete, make), strict=True):
                    for request in requests if moment == now else ():
                        self.assertNotIsInstance(client.get(request), Exception)
                for _ in range(2):  # a request is served, and its answer read
                    for step in world.fsck.choices()[-1:]:
                        step()
            world.fsck.run()
            self.assertFalse(result.value.findings, moments)

    def test_after_crashes(self) -> None:
        """What clients leave that die anywhere is found as what it is, and mended."""
        found: set[str] = set()
        for seed in range(RUNS):
            dice = random.Random(seed)
            world = World(dice)
            for _ in range(3):
                requests = [dice.choice(REQUEST_KINDS)() for _ in range(REQUESTS)]
                list(world.run(requests, crash=dice.randrange(1, 60)))
            self.assertLessEqual(set(world.kinds), MENDED | NOTES, f"seed {seed}")
            found.update(world.kinds)
            world.fsck_alone()
            world.kinds.clear()
            world.fsck_alone()
            self.assertLessEqual(set(world.kinds), NOTES, f"seed {seed}")
        self.assertEqual(found, MENDED | NOTES)


X = f"{PATH}/x"
REQUEST_KINDS = (
    lambda: Create(PATH, b"", OPEN_ACL_UNSAFE, 0),
    lambda: Create(PATH, b"", OPEN_ACL_UNSAFE, 0),
    lambda: Create(X, b"", OPEN_ACL_UNSAFE, 0),
    lambda: Create(f"{PATH}/s", b"", OPEN_ACL_UNSAFE, 2),
    lambda: Delete(PATH, -1),
    lambda: Delete(PATH, -1),
    lambda: Delete(X, -1),
    lambda: Delete(f"{PATH}/s0000000000", -1),
    lambda: Exists(X, None),
    lambda: GetChildren(PATH, None),
    lambda: SetACL(PATH, [*OPEN_ACL_UNSAFE, *READ_ACL_UNSAFE], -1),
    lambda: SetACL(PATH, OPEN_ACL_UNSAFE, -1),
    lambda: Transaction([Create(X, b"", OPEN_ACL_UNSAFE, 0), Delete(X, -1)]),
)


def answer_of(value: Any) -> Any:
    return logical(value) if isinstance(value, str) else freeze(value)


class World:
    """The ensembles, one client after another, and fsck all the time."""

    placement = PLACEMENT

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.model = model = prepared(self.placement, [PATH], has_lag=True)
        self.is_lagging = True
        execute = model.execute

        def execute_late(ensemble: int, request: Any, who: Who = ANYONE) -> Any:
            moments = model.moments(ensemble, request, who) if self.is_lagging else [None]
            return execute(ensemble, request, who, dice.choice(moments))

        model.execute = execute_late  # type: ignore[method-assign]
        self.numbers = itertools.count()
        self.fsck = self.client()
        self.kinds: list[str] = []

    def client(self) -> Client:
        number = next(self.numbers)
        who = Who(owners=tuple(range(10 * number, 10 * number + 5)))
        return self.make_client(who, f"mark{number}-")

    def make_client(self, who: Who, marks: str) -> Client:
        return Client(self.placement, self.model, who, marks)

    def look_and_mend(self) -> Operation[list[str]]:
        return look_and_mend(self.fsck.context)

    def run(self, requests: list[Any], crash: int = -1) -> Iterator[Any]:
        """The answers of a client, which dies before its step number `crash`, beside fsck."""
        client, waiting = self.client(), list(requests)
        mine, theirs = Result(), Result()
        theirs.set()
        mine.set()
        has_begun, turn = False, 0
        while crash:
            choices = client.choices()
            if mine.told:
                if has_begun:
                    yield answer_of(mine.value)
                if not waiting:
                    return
                has_begun, mine = True, client.call(waiting.pop(0))
                continue
            if theirs.told:
                theirs = self._begin_fsck(theirs)
            others = self.fsck.choices()
            if not turn:  # now and then one of them sleeps for a long time
                turn = self.dice.choice((1, 2, 5, -1, -50))
            if turn > 0:
                self.dice.choice(choices)()
                crash -= 1
                turn -= 1
            else:
                self.dice.choice(others)()
                turn += 1
        self.fsck.run(self.dice)
        self._begin_fsck(theirs)

    def fsck_alone(self) -> None:
        result = self._begin_fsck(None)
        self.fsck.run(self.dice)
        self._note(result)

    def _begin_fsck(self, last: Result | None) -> Result:
        if last is not None:
            self._note(last)
        result = Result()
        self.fsck.driver.run(self.look_and_mend(), result)
        return result

    def _note(self, result: Result) -> None:
        if isinstance(result.value, Exception) and not isinstance(result.value, KazooException):
            raise result.value
        if isinstance(result.value, Exception):
            raise AssertionError("fsck failed") from result.value
        self.kinds += result.value or []


def look_and_mend(context: Context) -> Operation[list[str]]:
    """As parkazoo/admin/walk.py does it, for one directory and with no time in between; the kinds found."""
    d = where_is(PLACEMENT, PATH)
    for ensemble in (d.home.ensemble, d.mirror.ensemble):  # as audit_ensemble begins
        yield from ask(ensemble, Sync("/"))
    mirrors = yield from audit_mirror(context, d.mirror.ensemble, escape(PATH))
    homes = yield from audit_znode(context, Place(d.home.ensemble, "/"), "/", split(PATH)[1])
    findings = [*mirrors.findings, *homes.findings]
    for suspect in homes.suspects:
        findings += (yield from recheck(suspect)).findings
    for finding in findings:
        if finding.kind in MENDS:
            yield from mend(context, finding)
    return [finding.kind.name for finding in findings]
