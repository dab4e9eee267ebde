"""What can be tested of tests/fuzz without servers."""

from __future__ import annotations

import re
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Any

from kazoo.exceptions import NoNodeError
from kazoo.security import ACL, ANYONE_ID_UNSAFE, OPEN_ACL_UNSAFE, Permissions

from tests.fuzz.cases import (
    ALL,
    DELETE,
    IDS,
    LIFE,
    MOVE,
    PASSWORDS,
    RECIPES,
    WATCHERS,
    Call,
    Case,
    Client,
    generate,
)
from tests.fuzz.documented import NO_AUTH, PLACEMENT, RULES, Difference, identities_of, kazoos_answer, rule_for
from tests.fuzz.shrink import shrink

DOCUMENT = Path(__file__).resolve().parent.parent.parent / "docs" / "reference" / "differences.md"
MANY = 300
NO_NODE = "raises NoNodeError"


def case_of(*calls: Call) -> Case:
    return Case("/fuzz-1", (), (Client(), Client("/a", "alice")), calls)


class TestGenerate(unittest.TestCase):
    def setUp(self) -> None:
        self.cases = [generate(1, number) for number in range(MANY)]
        self.calls = [call for case in self.cases for call in case.calls]

    def test_a_seed_and_a_number_are_a_case(self) -> None:
        self.assertEqual(self.cases, [generate(1, number) for number in range(MANY)])
        self.assertNotEqual(self.cases, [generate(2, number) for number in range(MANY)])

    def test_a_case_is_written_and_read(self) -> None:
        for case in self.cases:
            self.assertEqual(Case.from_json(case.to_json()), case)

    def test_everything_comes(self) -> None:
        names = {call.name for call in self.calls}
        names_of_recipes = {f"{recipe}.{method}" for recipe, methods in RECIPES.items() for method in methods}
        self.assertEqual({*LIFE, *WATCHERS, *names_of_recipes, "add_auth", "transaction"} - names, set())
        args = {arg for call in self.calls for arg in call.args}
        self.assertLessEqual({"watch", "recursive", "sequence", "ephemeral", "makepath", "retry", "acl"}, args)
        clients = [client for case in self.cases for client in case.clients]
        self.assertLessEqual({*PASSWORDS}, {client.identity for client in clients})
        self.assertLessEqual({None, "", "/a"}, {client.chroot for client in clients})

    def test_moves(self) -> None:
        """The calls are the same, with some moves between them."""
        for number, case in enumerate(self.cases):
            moved = generate(1, number, has_moves=True)
            self.assertEqual((moved.has_moves, case.has_moves), (True, False))
            self.assertEqual(tuple(call for call in moved.calls if call.name != MOVE), case.calls)


class TestShrink(unittest.TestCase):
    def test_what_does_not_matter_is_left_out(self) -> None:
        wanted = {3, 17}
        case = case_of(*(Call(0, "get", f"/{number}", waits=number != 17) for number in range(20)))
        found = shrink(case, lambda each: wanted <= {int(call.path[1:]) for call in each.calls})
        self.assertEqual([call.path for call in found.calls], ["/3", "/17"])
        self.assertTrue(found.calls[-1].waits)

    def test_what_is_there_before_is_kept_if_it_matters(self) -> None:
        for has_mattered in (True, False):
            case = Case("/fuzz-1", ("/a",), (Client(),), (Call(0, "get", "/a"),))
            found = shrink(case, lambda each, matters=has_mattered: bool(each.made) or not matters)
            self.assertEqual(found.made, ("/a",) if has_mattered else ())


class TestRules(unittest.TestCase):
    def directory(self, *, is_native: bool) -> str:
        """A path below the case's root that is native, or is not."""
        return next(f"/d{n}" for n in range(MANY) if PLACEMENT.is_native(f"/fuzz-1/d{n}") is is_native)

    def allowed(
        self, call: Call, kazoo: Any, parkazoo: Any, acl: list[ACL], *before: Call, is_grown: bool = False
    ) -> str:
        """The sentence that allows the difference, or nothing."""

        def acl_of(path: str) -> list[ACL]:
            if not path.startswith("/fuzz-1/d"):
                raise NoNodeError
            return acl

        rule = rule_for(
            Difference(case_of(*before, call), call, kazoo, parkazoo, identities_of({"alice"}), acl_of, is_grown)
        )
        return rule.sentence if rule else ""

    def test_each_sentence_is_documented(self) -> None:
        document = re.sub(r"\s+", " ", DOCUMENT.read_text().replace("**", ""))
        for rule in RULES:
            self.assertIn(rule.sentence, document)

    def test_a_delete_that_was_refused(self) -> None:
        path, native = self.directory(is_native=False), self.directory(is_native=True)
        closed, open_to_alice = [ACL(ALL & ~DELETE, ANYONE_ID_UNSAFE)], [ACL(ALL, IDS["alice"])]
        self.assertTrue(self.allowed(Call(0, "delete", path), True, NO_AUTH, closed))
        self.assertFalse(self.allowed(Call(0, "delete", path), True, NO_AUTH, open_to_alice))
        self.assertFalse(self.allowed(Call(0, "delete", native), True, NO_AUTH, closed))
        self.assertFalse(self.allowed(Call(0, "delete", path), NO_AUTH, True, closed))
        self.assertFalse(self.allowed(Call(0, "get", path), [], NO_AUTH, closed))
        transaction = Call(0, "transaction", args={"operations": [["delete", path, -1]]})
        self.assertTrue(self.allowed(transaction, [True], [NO_AUTH], closed))
        self.assertFalse(self.allowed(transaction, [True], [NO_AUTH], open_to_alice))

    def test_answers_that_are_alike(self) -> None:
        """Some rules apply to them: what is left of the tree differs, or another entry is locked."""
        path, closed = self.directory(is_native=False), [ACL(ALL & ~DELETE, ANYONE_ID_UNSAFE)]
        self.assertTrue(self.allowed(Call(0, "delete", path, {"recursive": True}), NO_AUTH, NO_AUTH, closed))
        self.assertTrue(self.allowed(Call(0, "LockingQueue.get", path), NO_AUTH, NO_AUTH, closed))
        self.assertFalse(self.allowed(Call(0, "delete", path), NO_AUTH, NO_AUTH, closed))
        self.assertFalse(self.allowed(Call(0, "set", path), {"version": 1}, {"version": 1}, closed))

    def test_behind_a_create_in_a_parent_that_is_new(self) -> None:
        gone = Call(1, "delete")  # its chroot
        create, behind = Call(0, "create", "/a/b", waits=False), Call(0, "delete", "/a/b")
        self.assertTrue(self.allowed(behind, "raises BadVersionError", NO_NODE, [], gone, create))
        for before in ((create,), (replace(gone, client=0), create), (gone, replace(create, waits=True)), (gone,)):
            self.assertFalse(self.allowed(behind, "raises BadVersionError", NO_NODE, [], *before))
        self.assertFalse(self.allowed(replace(behind, path="/a/c"), True, NO_NODE, [], gone, create))

    def test_a_first_child_that_was_refused(self) -> None:
        call = Call(0, "create", self.directory(is_native=False) + "/x")
        self.assertTrue(self.allowed(call, call.path, NO_AUTH, [ACL(ALL, IDS["bob"])]))
        self.assertFalse(self.allowed(call, call.path, NO_AUTH, OPEN_ACL_UNSAFE))

    def test_a_stat_without_children(self) -> None:
        call = Call(0, "set", self.directory(is_native=False))
        whole, without = (
            {"version": 1, "numChildren": 2, "cversion": 2},
            {"version": 1, "numChildren": 0, "cversion": 0},
        )
        self.assertTrue(self.allowed(call, whole, without, [ACL(ALL, IDS["bob"])]))
        self.assertFalse(self.allowed(call, whole, without, OPEN_ACL_UNSAFE))
        self.assertFalse(self.allowed(call, whole, without | {"version": 2}, [ACL(ALL, IDS["bob"])]))
        operations = [["set_data", call.path, "x", -1], ["check", call.path, -1]]
        transaction = Call(0, "transaction", args={"operations": operations})
        self.assertTrue(self.allowed(transaction, [whole, True], [without, True], [ACL(ALL, IDS["bob"])]))
        self.assertFalse(self.allowed(transaction, [whole, True], [without, False], [ACL(ALL, IDS["bob"])]))
        self.assertFalse(self.allowed(transaction, [whole, True], [without, True], OPEN_ACL_UNSAFE))

    def test_an_entry_whose_lock_is_gone(self) -> None:
        expire = Call(0, "expire", args={"ensemble": 0})
        for method in ("consume", "holds_lock", "release"):
            call = Call(0, f"LockingQueue.{method}", "/a")
            self.assertTrue(self.allowed(call, NO_NODE, False, [], expire))
            self.assertTrue(self.allowed(call, NO_NODE, False, [], Call(1, "delete", "/", {"recursive": True})))
            self.assertFalse(self.allowed(call, NO_NODE, False, []))
            self.assertFalse(self.allowed(call, NO_NODE, True, [], expire))
            self.assertFalse(self.allowed(call, True, False, [], expire))
        self.assertFalse(self.allowed(Call(0, "LockingQueue.get", "/a"), NO_NODE, False, [], expire))

    def test_a_folder_that_was_deleted(self) -> None:
        swept = Call(0, "delete", "/a", {"recursive": True})
        for name in ("Lock.acquire", "Queue.get", "Party.len", "Counter.add"):
            self.assertTrue(self.allowed(Call(0, name, "/a/b"), NO_NODE, None, [], swept))
            self.assertFalse(self.allowed(Call(0, name, "/a/b"), None, NO_NODE, [], swept))
            self.assertFalse(self.allowed(Call(0, name, "/a/b"), NO_NODE, None, []))
            self.assertFalse(self.allowed(Call(0, name, "/b"), NO_NODE, None, [], swept))
        self.assertFalse(self.allowed(Call(0, "get", "/a/b"), NO_NODE, None, [], swept))
        self.assertTrue(self.allowed(Call(0, "LockingQueue.put_all", "/a"), None, None, [], swept))
        self.assertTrue(self.allowed(Call(0, "LockingQueue.put_all", "/a"), None, NO_AUTH, []))
        for name in ("Lock.release", "WriteLock.release", "Semaphore.release"):
            self.assertTrue(self.allowed(Call(0, name, "/a"), True, False, [], swept))
            self.assertFalse(self.allowed(Call(0, name, "/a"), False, True, [], swept))
            self.assertFalse(self.allowed(Call(0, name, "/a"), True, False, []))

    def test_two_reasons(self) -> None:
        """The other one may be told where pins decide."""
        create, transaction = Call(0, "create", "/a/b"), Call(0, "transaction", args={"operations": []})
        for call, kazoo, parkazoo in (
            (create, "raises InvalidACLError", NO_NODE),
            (create, "raises InvalidACLError", NO_AUTH),
            (transaction, "raises CrossEnsembleError", [NO_NODE, "raises RuntimeInconsistency"]),
        ):
            self.assertTrue(self.allowed(call, kazoo, parkazoo, [], is_grown=True))
            self.assertFalse(self.allowed(call, kazoo, parkazoo, []))
            self.assertFalse(self.allowed(call, parkazoo, kazoo, [], is_grown=True))
        self.assertFalse(self.allowed(transaction, "raises CrossEnsembleError", [True], [], is_grown=True))

    def test_a_transaction_whose_directories_have_moved(self) -> None:
        transaction, move = Call(0, "transaction", args={"operations": []}), Call(0, "move", "/a")
        for refused in ("raises CrossEnsembleError", ["raises BadArgumentsError", "raises RuntimeInconsistency"]):
            for answers in ((refused, [True, True]), ([True, True], refused)):
                self.assertTrue(self.allowed(transaction, *answers, [], move, is_grown=True))
                self.assertFalse(self.allowed(transaction, *answers, [], is_grown=True))

    def test_below_what_may_not_be_read(self) -> None:
        call = Call(0, "ReadLock.contenders", "/d1/lock")
        closed = [ACL(ALL & ~Permissions.READ, ANYONE_ID_UNSAFE)]
        self.assertTrue(self.allowed(call, NO_AUTH, [], closed))
        self.assertFalse(self.allowed(call, NO_AUTH, [], OPEN_ACL_UNSAFE))
        self.assertFalse(self.allowed(call, [], NO_AUTH, closed))

    def test_sequence_numbers_of_a_transaction_that_skip_two(self) -> None:
        call = Call(0, "transaction", args={"operations": [["create", "/s", "", False, True]]})
        theirs, ours, later = (["/b", f"/s000000000{number}"] for number in (0, 2, 3))
        self.assertTrue(self.allowed(call, theirs, ours, [], is_grown=True))
        self.assertFalse(self.allowed(call, theirs, ours, []))
        self.assertFalse(self.allowed(call, theirs, later, [], is_grown=True))
        self.assertFalse(self.allowed(call, theirs, ["/c", *ours[1:]], [], is_grown=True))

    def test_sequence_numbers_that_skip_two(self) -> None:
        call = Call(0, "create", "/s", {"sequence": True})
        kazoo, skipped, other = "/s0000000001", "/s0000000003", "/s0000000004"
        self.assertTrue(self.allowed(call, kazoo, skipped, [], is_grown=True))
        self.assertFalse(self.allowed(call, kazoo, other, [], is_grown=True))
        self.assertFalse(self.allowed(call, kazoo, NO_NODE, [], is_grown=True))
        self.assertFalse(self.allowed(call, kazoo, skipped, []))

    def test_a_first_child_above(self) -> None:
        """Both are refused, and kazoo has made a level more."""
        path, hidden = self.directory(is_native=False), [ACL(ALL, IDS["bob"])]
        call = Call(0, "create", f"{path}/x/y", {"makepath": True})
        self.assertTrue(self.allowed(call, NO_AUTH, NO_AUTH, hidden))
        self.assertFalse(self.allowed(call, NO_AUTH, NO_AUTH, OPEN_ACL_UNSAFE))
        self.assertFalse(self.allowed(Call(0, "create", f"{path}/x/y"), NO_AUTH, NO_AUTH, hidden))

    def test_the_levels_of_a_path_at_once(self) -> None:
        call = Call(0, "ensure_path", "/a/b")
        self.assertTrue(self.allowed(call, NO_AUTH, "raises InvalidACLError", [], is_grown=True))
        self.assertFalse(self.allowed(call, NO_AUTH, "raises InvalidACLError", []))

    def test_a_chroot_of_which_two_levels_are_missing(self) -> None:
        def allowed(chroot: str, call: Call, kazoo: Any, parkazoo: Any) -> bool:
            case = Case("/fuzz-1", (), (Client(chroot),), (call,))
            return rule_for(Difference(case, call, kazoo, parkazoo, set(), lambda path: [])) is not None

        for call in (
            Call(0, "create", "/x", {"makepath": True}),
            Call(0, "ensure_path", "/x"),
            Call(0, "Party.len"),
        ):
            self.assertTrue(allowed("/a/b", call, NO_NODE, None))
            self.assertFalse(allowed("", call, NO_NODE, None))
            self.assertFalse(allowed("/a/b", call, None, NO_NODE))
        self.assertTrue(allowed("/a/b", Call(0, "TreeCache", "/x"), NO_NODE, None))
        self.assertFalse(allowed("/a/b", Call(0, "get", "/x"), NO_NODE, None))

    def test_native_directories_where_pins_decide(self) -> None:
        path, closed = self.directory(is_native=True), [ACL(ALL & ~DELETE, ANYONE_ID_UNSAFE)]
        self.assertTrue(self.allowed(Call(0, "delete", path), True, NO_AUTH, closed, is_grown=True))

    def test_an_entry_that_may_not_be_read(self) -> None:
        get = Call(0, "LockingQueue.get", "/a")
        self.assertTrue(self.allowed(get, "b:x", NO_AUTH, []))
        self.assertTrue(self.allowed(get, NO_AUTH, NO_AUTH, []))
        self.assertFalse(self.allowed(get, NO_AUTH, "b:x", []))
        self.assertFalse(self.allowed(Call(0, "LockingQueue.consume", "/a"), True, NO_AUTH, []))

    def test_what_parkazoo_has_to_refuse(self) -> None:
        def transaction(*paths: str) -> str | None:
            call = Call(1, "transaction", args={"operations": [["check", path, -1] for path in paths]})
            return kazoos_answer(case_of(call), call)

        self.assertIsNone(transaction("/x", "/y"))
        self.assertIsNone(transaction())
        home = PLACEMENT.of("/fuzz-1/a/x")
        elsewhere = next(f"/{n}/x" for n in range(MANY) if PLACEMENT.of(f"/fuzz-1/a/{n}/x") != home)
        self.assertEqual(transaction("/x", elsewhere), "raises CrossEnsembleError")
        for name, answer in (("create", "raises BadArgumentsError"), ("get", None)):
            call = Call(0, name, "/a/.parkazoo")
            self.assertEqual(kazoos_answer(case_of(call), call), answer)
