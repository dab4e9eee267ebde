"""Mutations of the command that moves a directory, and of the deletes of its old place: each fails a test."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from unittest import mock

from kazoo.security import READ_ACL_UNSAFE

from parkazoo.admin import copies, rise
from parkazoo.admin.clients import AdminClient
from parkazoo.admin.copies import Primary
from parkazoo.admin.directory_move import DirectoryMove, is_at
from parkazoo.admin.moving import carried, copying, place, taking_back
from parkazoo.admin.moving.at_home import MovingHome, SeenPin
from parkazoo.admin.moving.carried import CopyPlan, SeenZnode, Tree, ZnodeChange
from parkazoo.admin.moving.copying import MovingCopy
from parkazoo.admin.moving.place import TreePlace
from parkazoo.admin.moving.term_writes import TermWrites
from parkazoo.kazoo_private import CheckVersion, SetData
from parkazoo.protocol import old_place
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.map_copies import CopyKind
from parkazoo.protocol.moving import Moving, mark_of
from parkazoo.protocol.placement import mirror_path
from parkazoo.protocol.steps import Operation, WriteRequest
from tests.admin import test_directory_move as of_move
from tests.admin import test_move_beside as beside
from tests.admin import test_moving_copy as of_copy
from tests.admin import test_several_moves as of_several
from tests.explore.mutation import Callers, Fault, Right, instead, left_out, nothing, together
from tests.protocol import test_old_place as of_old_place


class CommandMutant(NamedTuple):
    """What is wrong, the test that finds it, and what it says then."""

    fault: Fault
    test: Callable[..., None]
    says: str


# ---- what is wrong -----------------------------------------------------------------------------


def saying(value: object) -> Any:
    return lambda right: lambda *arguments, **named: value


def unwritten() -> Fault:
    """No copy is written of the map that has clients hold what they do, nor looked at."""

    def of_the_primary(right: Right) -> Right:
        def wrong(clients: Mapping[str, AdminClient], bootstrap: str) -> Primary:
            move = copies.read_primary(clients[bootstrap]).map.move
            has_all = move is None or move.has_switched
            return right(clients if has_all else {bootstrap: clients[bootstrap]}, bootstrap)  # type: ignore[no-any-return]

        return wrong

    def without_copy(right: Right) -> Right:
        def wrong(client: AdminClient, published: ClusterMap, said: set[str]) -> Any:
            with mock.patch.object(rise, "judge_copy", lambda *of: mock.Mock(kind=CopyKind.SAME)):
                return right(client, published, said)

        return wrong

    return together(instead(copies.update_copies, of_the_primary), instead(rise._read, without_copy))


def marking_later() -> Fault:
    """The map tells of a move before its mark is there."""

    def announcing(right: Right) -> Right:
        def wrong(move: DirectoryMove, known: ClusterMap, entry: Moving) -> Any:
            published = right(move, known, entry)
            home = move._find_home(known)
            if home is not None:
                home.client.make(home.mark(mark_of(entry.name)), b"", READ_ACL_UNSAFE)
            return published

        return wrong

    return together(instead(DirectoryMove._announce, announcing), instead(MovingHome.leave_mark, saying(True)))


def believing_the_first_look() -> Fault:
    """The pin is not read behind the mark."""
    callers, seen = Callers(), list[bytes]()

    def looking(right: Right) -> Right:
        def wrong(home: MovingHome) -> SeenPin | None:
            found: SeenPin | None = right(home)
            seen[:] = [found.data] if found is not None else []
            return found

        return wrong

    def reading(right: Right) -> Right:
        return lambda home: seen[0] if callers.names[-1:] == ["_copy"] else right(home)

    return together(
        instead(DirectoryMove._copy, callers),
        instead(DirectoryMove._hold, callers),
        instead(MovingHome.look, looking),
        instead(MovingHome.data, reading),
    )


def without_the_mark(right: Right) -> Right:
    """The switch happens whether there is a mark or not."""

    def wrong(home: MovingHome, move: str, pin: bytes, before: SeenPin) -> list[WriteRequest]:
        steps: list[WriteRequest] = right(home, move, pin, before)
        return [SetData(home.pin, pin, -1), steps[-1]]

    return wrong


def marks_first(right: Right) -> Right:
    def wrong(move: DirectoryMove, known: ClusterMap, name: str, client: AdminClient | None) -> bool:
        home = move._find_home(known)
        if home is not None:
            home.take_mark(mark_of(name))
        has_happened = home is not None and is_at(name, home.data())
        if client is not None:
            taking_back.end_guard(client, name)
            if not has_happened:
                taking_back.remove_copy(TreePlace(client, mirror_path(move.path, name)), name)
        return has_happened

    return wrong


def unchecked(right: Right) -> Right:
    return lambda place, check, *others: right(place, None, *others)


def for_any_term(right: Right) -> Right:
    def wrong(writes: TermWrites, place: TreePlace, checks: Any, *others: Any) -> None:
        right(writes, place, [], *others)

    return wrong


def if_it_is_there(right: Right) -> Right:
    return lambda path, ours, theirs, lives: theirs is not None


def of_one_version(right: Right) -> Right:
    def is_same(path: str, ours: SeenZnode, theirs: SeenZnode | None, lives: Mapping[str, int]) -> bool:
        return bool(right(path, ours, theirs and theirs._replace(version=ours.version), lives))

    return is_same


def planned(change: Callable[[ZnodeChange], ZnodeChange]) -> Fault:
    def wrong(right: Right) -> Right:
        def plan(*arguments: Any, **named: Any) -> CopyPlan:
            found: CopyPlan = right(*arguments, **named)
            return CopyPlan(found.deletes, [change(each) for each in found.changes], found.why_not)

        return plan

    return instead(carried.plan, wrong)


def at_version(change: ZnodeChange) -> ZnodeChange:
    """The data is set once at most."""
    there = 0 if change.there is None else change.there.version
    return change._replace(original=change.original._replace(version=min(there + 1, change.original.version)))


def as_ordinary(right: Right) -> Right:
    """Of an ephemeral without a copy an ordinary znode is made."""

    def plan(original: Tree, copy: Tree, *others: Any, **named: Any) -> CopyPlan:
        owners = {path: copy[path].owner if path in copy else 0 for path in original}
        ours = {path: each._replace(owner=owners[path]) for path, each in original.items()}
        return right(ours, copy, *others, **named)  # type: ignore[no-any-return]

    return plan


def children_alone(right: Right) -> Right:
    def look(*arguments: Any) -> dict[str, Any]:
        return {path: each for path, each in right(*arguments).items() if path.count("/") < 2}

    return look


def always_of_this_life(right: Right) -> Right:
    def why_not(original: Tree, copy: Tree, made: int, without_owner: list[str]) -> str:
        return right(original, copy, made, without_owner) if without_owner else ""

    return why_not


def unfenced(right: Right) -> Right:
    """Nothing is checked as the old place is deleted."""

    def wrong(ensemble: int, requests: Sequence[WriteRequest]) -> Operation[Any]:
        kept = [each for each in requests if not isinstance(each, CheckVersion)]
        results, index, error = yield from right(ensemble, kept)
        return results, None if index is None else index + 1, error

    return wrong


# ---- where it is seen --------------------------------------------------------------------------

WRONG_TREE = "AssertionError|were lost"
MOVES, NEXT = of_move.TestMove.test_it_moves_and_moves_back, of_move.TestEnds.test_the_next_one_goes_on
COMES, ANEW = beside.TestClients.test_one_that_comes, beside.TestNewLives.test_at_each_write
HISTORIES = of_copy.TestHistories.test_it_is_exact_whatever_happens
MUTANTS: Mapping[str, CommandMutant] = {
    "nobody is waited for": CommandMutant(instead(DirectoryMove._await_hold, nothing), NEXT, WRONG_TREE),
    "clients of an older map are not waited for": CommandMutant(
        instead(DirectoryMove._await_all, lambda _: lambda move, known, *others: known),
        of_move.TestCalledOff.test_a_client_of_an_older_map,
        "Lists differ",
    ),
    "the copy of the map is not written": CommandMutant(unwritten(), COMES, WRONG_TREE),
    "the map tells of a move before its mark is there": CommandMutant(marking_later(), NEXT, WRONG_TREE),
    "the pin is not read behind the mark": CommandMutant(believing_the_first_look(), ANEW, WRONG_TREE),
    "the switch does not need the mark": CommandMutant(
        instead(MovingHome._switch, without_the_mark), of_move.TestSeveral.test_abort, WRONG_TREE
    ),
    "no catching up in the pause": CommandMutant(instead(MovingCopy.make_exact, nothing), MOVES, WRONG_TREE),
    "what is there is not compared": CommandMutant(instead(carried._is_same, if_it_is_there), HISTORIES, "!="),
    "versions are not raised": CommandMutant(
        together(planned(at_version), instead(carried._is_same, of_one_version)), HISTORIES, "!="
    ),
    "the counter is not raised": CommandMutant(
        planned(lambda change: change._replace(pairs=0)), HISTORIES, "!=|changes all the time"
    ),
    "only the children themselves are copied": CommandMutant(instead(place.look, children_alone), HISTORIES, "!="),
    "a copy of another life is used": CommandMutant(
        instead(carried._why_not, always_of_this_life),
        of_copy.TestCopy.test_an_earlier_life_of_the_directory,
        "NotExactError not raised",
    ),
    "an ephemeral becomes an ordinary znode": CommandMutant(
        instead(carried.plan, as_ordinary), of_move.TestCalledOff.test_ephemerals, "0 != 77"
    ),
    "owners may copy until the copy is sealed": CommandMutant(
        left_out(MovingCopy._remove, MovingCopy.make_exact), HISTORIES, "unexpectedly found|open"
    ),
    "a copy that nobody has sealed is switched to": CommandMutant(
        instead(copying.is_sealed, saying(True)), of_move.TestSeveral.test_abort, WRONG_TREE
    ),
    "two commands write one copy": CommandMutant(
        instead(TermWrites.__init__, for_any_term), of_copy.TestCopy.test_a_term_ends_with_the_next, "not raised"
    ),
    "what is left over loses its mark before its guard": CommandMutant(
        instead(DirectoryMove._take_back, marks_first),
        beside.TestByTurns.test_an_abort_in_its_middle,
        WRONG_TREE,
    ),
    "what is taken back may have become the place itself": CommandMutant(
        instead(DirectoryMove._verify_not_in_use, nothing), of_several.TestLate.test_a_late_abort, "2 != 3"
    ),
    "the old place is deleted without its fence": CommandMutant(
        instead(taking_back.delete_place, unchecked), ANEW, WRONG_TREE
    ),
    "the old place stays": CommandMutant(instead(taking_back.delete_place, saying(True)), MOVES, WRONG_TREE),
    "the old place is deleted before all have looked": CommandMutant(
        instead(DirectoryMove._await_all, lambda _: lambda move, known, *others: known),
        beside.TestClients.test_the_old_place_goes_when_all_have_left_it,
        "StuckError not raised",
    ),
    "who deletes a directory deletes its old place without the fence": CommandMutant(
        instead(old_place.commit, unfenced), of_old_place.TestOldPlace.test_a_later_life, "NoNodeError"
    ),
}


class TestMutants(unittest.TestCase):
    def test_each_fails_a_test(self) -> None:
        for name, mutant in MUTANTS.items():
            with self.subTest(name):
                self.assertRegex(said(mutant), mutant.says)


def said(mutant: CommandMutant) -> str:
    """What the test says; empty if it says nothing."""
    module, (case, _, method) = mutant.test.__module__, mutant.test.__qualname__.partition(".")
    result = unittest.TestResult()
    result.failfast = True
    with mutant.fault():
        unittest.defaultTestLoader.loadTestsFromName(f"{module}.{case}.{method}").run(result)
    return "".join(told for _, told in (*result.errors, *result.failures))
