"""The differences that docs/reference/differences.md names, as far as the calls of a case can meet them.

A rule is a sentence of that document and when it applies. A difference that no rule allows is a failure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from kazoo.exceptions import NoNodeError
from kazoo.security import ACL, ANYONE_ID_UNSAFE, Id, Permissions

from parkazoo.protocol.once import DIGITS
from parkazoo.protocol.placement import Placement, above, is_reserved, split
from tests.fuzz.cases import ENSEMBLES, IDS, RECIPES, Call, Case

PLACEMENT = Placement(ENSEMBLES)
NO_AUTH = "raises NoAuthError"
ACROSS, ACROSS_AT_GATEWAY = "raises CrossEnsembleError", "raises BadArgumentsError"
OF_CHILDREN = ("cversion", "numChildren")
ENDS = ("expire", "restart", "stop")  # of a session


@dataclass
class Difference:
    """
    :param identities: of the client, as far as they matter to ACLs.
    :param acl_of: the ACL of a path in the whole tree, as ParKazoo has it now.
    """

    case: Case
    call: Call
    kazoo: Any
    parkazoo: Any
    identities: set[Id]
    acl_of: Callable[[str], list[ACL]]
    is_grown: bool = False

    def is_native(self, path: str) -> bool:
        """Whether a directory and its children are sure to be one to the protocol."""
        return not self.is_grown and PLACEMENT.is_native(path)

    @property
    def path(self) -> str:
        return self.case.full_path(self.call)

    def may(self, permission: int, path: str) -> bool:
        """Whether the client has the permission there. On what is gone it has every one."""
        try:
            acl = self.acl_of(path)
        except NoNodeError:
            return True
        return any(each.perms & permission and each.id in self.identities for each in acl)


@dataclass(frozen=True)
class Rule:
    """
    :param sentence: of docs/reference/differences.md.
    :param ends: whether the trees differ from there on, so that nothing more can be compared.
    :param is_silent: whether it applies to answers that are alike, too.
    """

    sentence: str
    ends: bool
    allows: Callable[[Difference], bool]
    is_silent: bool = False


def kazoos_answer(case: Case, call: Call, *, at_gateway: bool = False) -> str | list[str] | None:
    """What ParKazoo has to answer where it refuses a call. Then kazoo is not asked."""
    if call.name == "transaction":
        paths = [case.full_path(call, path) for _, path, *_ in call.args["operations"]]
        if len({PLACEMENT.of(path) for path in paths}) > 1:
            others = ["raises RuntimeInconsistency"] * (len(paths) - 1)
            return [ACROSS_AT_GATEWAY, *others] if at_gateway else ACROSS
    if is_reserved(case.full_path(call)):
        if call.name == "create":
            return "raises BadArgumentsError"
        if call.name == "set_acls" or (call.name == "delete" and not call.args.get("recursive")):
            return "raises NoNodeError"
    return None


def rule_for(difference: Difference) -> Rule | None:
    """The rule that allows the difference, if there is one; where the answers are alike, a silent one."""
    differ = difference.kazoo != difference.parkazoo
    return next((rule for rule in RULES if (differ or rule.is_silent) and rule.allows(difference)), None)


def _was_refused(difference: Difference) -> bool:
    """ParKazoo has said NoAuthError where kazoo has not."""
    ours, theirs = difference.parkazoo, difference.kazoo
    if difference.call.name == "transaction":
        return isinstance(ours, list) and NO_AUTH in ours and theirs != ours
    return bool(ours == NO_AUTH and theirs != ours)


def _of_transaction(difference: Difference, kind: str) -> list[str]:
    """The paths of a transaction's operations of this kind; none if it is another call."""
    call, case = difference.call, difference.case
    operations = call.args["operations"] if call.name == "transaction" else ()
    return [case.full_path(call, path) for each, path, *_ in operations if each == kind]


def _deleted(difference: Difference) -> list[str]:
    return [difference.path] if difference.call.name == "delete" else _of_transaction(difference, "delete")


def _delete_needs_delete(difference: Difference) -> bool:
    return _was_refused(difference) and any(
        not difference.is_native(path) and not difference.may(Permissions.DELETE, path)
        for path in _deleted(difference)
    )


def _created(difference: Difference) -> list[str]:
    if difference.call.name in ("create", "ensure_path"):
        return [difference.path.rstrip("/")]
    return _of_transaction(difference, "create")


def _is_hidden(difference: Difference, directory: str) -> bool:
    return not difference.is_native(directory) and not difference.may(Permissions.ADMIN, directory)


def _first_child_needs_acl(difference: Difference) -> bool:
    return _was_refused(difference) and any(
        _is_hidden(difference, split(path)[0]) for path in _created(difference)
    )


def _first_child_above_needs_acl(difference: Difference) -> bool:
    """Both were refused, but kazoo may have made more of what is above."""
    call, path = difference.call, difference.path
    if difference.parkazoo != NO_AUTH or not (call.name == "ensure_path" or call.args.get("makepath", False)):
        return False
    return any(_is_hidden(difference, each) for each in above(path))


def _stat_without_read(difference: Difference) -> bool:
    is_single = difference.call.name in ("set", "get_acls", "set_acls")
    paths = [difference.path] if is_single else _of_transaction(difference, "set_data")
    ours, theirs = without_children(difference.parkazoo), without_children(difference.kazoo)
    return bool(
        ours == theirs
        and any(not difference.is_native(path) and not difference.may(Permissions.READ, path) for path in paths)
    )


def without_children(answer: Any) -> Any:
    """An answer without what its stats say of children."""
    if isinstance(answer, list):
        return [without_children(each) for each in answer]
    if isinstance(answer, dict):
        return {key: value for key, value in answer.items() if key not in OF_CHILDREN}
    return answer


def _is_refused_recursive(difference: Difference) -> bool:
    """Answers need not differ: what is left of the tree does."""
    return difference.call.args.get("recursive", False) and str(difference.parkazoo).startswith("raises")


def _lost_an_entry(difference: Difference) -> bool:
    """Its session may have ended, and with it the lock of the entry that it got; or the queue was deleted."""
    call = difference.call
    has_ended = any(
        each.name == "delete" or (each.client == call.client and each.name in ENDS)
        for each in difference.case.calls
    )
    return (
        call.name in ("LockingQueue.consume", "LockingQueue.holds_lock", "LockingQueue.release")
        and has_ended
        and difference.kazoo == "raises NoNodeError"
        and difference.parkazoo is False
    )


def _is_swept(difference: Difference) -> bool:
    """Whether a recipe is called, and something of its folder may have been deleted."""
    case, path = difference.case, difference.path

    def concerns(deleted: str) -> bool:
        return path.startswith(deleted) or deleted.startswith(path)

    return difference.call.name.partition(".")[0] in RECIPES and any(
        concerns(case.full_path(call, deleted))
        for call in case.calls
        if call is not difference.call
        for deleted in _deletes(call)
    )


def _deletes(call: Call) -> list[str]:
    if call.name == "delete" or call.name.endswith((".get", ".consume")):  # a folder may be another queue's entry
        return [call.path]
    return [path for kind, path, *_ in call.args.get("operations", ()) if kind == "delete"]


def _makes_its_folder_again(difference: Difference) -> bool:
    """kazoo's `put_all` does not say that there is none."""
    method = difference.call.name.rpartition(".")[2]
    is_told = difference.kazoo == "raises NoNodeError" != difference.parkazoo
    makes_it = method not in ("consume", "holds_lock", "release", "leave")
    return _is_swept(difference) and ((is_told and makes_it) or method == "put_all")


def _was_not_held(difference: Difference) -> bool:
    return (difference.call.name.endswith("ock.release") or difference.call.name == "Semaphore.release") and (
        _is_swept(difference) and (difference.kazoo, difference.parkazoo) == (True, False)
    )


def _is_refused_put_all(difference: Difference) -> bool:
    return difference.call.name == "LockingQueue.put_all" and _was_refused(difference)


def _may_not_read_an_entry(difference: Difference) -> bool:
    """kazoo, which raises too, has locked that entry."""
    return difference.call.name == "LockingQueue.get" and bool(difference.parkazoo == NO_AUTH)


def _lacks_its_chroot(difference: Difference) -> bool:
    """More than the last level of it is missing; the case's root may have been deleted too."""
    call, chroot = difference.call, difference.case.clients[difference.call.client].chroot
    is_made = "." in call.name or call.name in ("ensure_path", "TreeCache") or call.args.get("makepath", False)
    return bool(
        is_made
        and (chroot or "/") != "/"
        and difference.kazoo == "raises NoNodeError"
        and difference.parkazoo != difference.kazoo
    )


def _is_across(answer: Any) -> bool:
    """Whether a transaction is refused that is over several ensembles."""
    return bool(answer == ACROSS or (isinstance(answer, list) and answer[:1] == [ACROSS_AT_GATEWAY]))


def _is_across_by_a_move(difference: Difference) -> bool:
    """Or no more: what kazoo would have to say, was said of the places at first."""
    is_transaction = difference.case.has_moves and difference.call.name == "transaction"
    return is_transaction and _is_across(difference.kazoo) != _is_across(difference.parkazoo)


def _has_two_reasons(difference: Difference) -> bool:
    """ParKazoo has looked for the parent first."""
    theirs, ours = difference.kazoo, difference.parkazoo
    if _is_across(theirs):
        is_other = isinstance(ours, list) and "raises NoNodeError" in ours
    else:
        is_other = theirs == "raises InvalidACLError" and str(ours).startswith("raises")
        if difference.call.name == "ensure_path":  # asks for all levels at once, and the first error counts
            is_other |= theirs == NO_AUTH and ours == "raises InvalidACLError"
    return difference.is_grown and is_other


def _is_below_the_unreadable(difference: Difference) -> bool:
    """kazoo asks for the stat of what is above."""
    call, path = difference.call, difference.path
    is_made = "." in call.name or call.name in ("ensure_path", "TreeCache") or call.args.get("makepath", False)
    if not is_made or difference.kazoo != NO_AUTH or difference.parkazoo == NO_AUTH:
        return False
    return any(not difference.may(Permissions.READ, each) for each in (*above(path), path))


def _may_not_read_its_lease(difference: Difference) -> bool:
    call = difference.call
    may_read = difference.case.clients[call.client].acl != "alice" or IDS["alice"] in difference.identities
    answers = str(difference.kazoo), difference.parkazoo
    return call.name == "Semaphore.acquire" and not may_read and answers == (NO_AUTH, True)


def _is_behind_a_create_in_vain(difference: Difference) -> bool:
    """Of the known gaps: another client has made the parent anew, and the create before this was not awaited."""
    case, call = difference.case, difference.call
    at = next((number for number, each in enumerate(case.calls) if each is call), 0)
    before = takewhile(lambda each: each.client == call.client and not each.waits, reversed(case.calls[:at]))
    created = {case.full_path(each) for each in before if each.name == "create"}
    parents = {split(path)[0] for path in created if difference.path in (path, split(path)[0])}
    return any(
        each.client != call.client and each.name == "delete" and case.full_path(each) in (parent, *above(parent))
        for each in case.calls[:at]
        for parent in parents
    )


def _skips_two(difference: Difference) -> bool:
    """Of what is made with a sequence number, the number is higher by two: pin and proof have taken two."""
    call, kazoo, parkazoo = difference.call, difference.kazoo, difference.parkazoo
    if not difference.is_grown:
        return False
    if call.name == "transaction" and isinstance(kazoo, list) and isinstance(parkazoo, list):
        differing = [pair for pair in zip(kazoo, parkazoo, strict=False) if pair[0] != pair[1]]
        return bool(differing) and all(_are_two_apart(*pair) for pair in differing)
    return bool(call.args.get("sequence", False)) and _are_two_apart(kazoo, parkazoo)


def _are_two_apart(kazoo: Any, parkazoo: Any) -> bool:
    theirs, ours = (str(each[0] if isinstance(each, list) else each) for each in (kazoo, parkazoo))
    numbers = theirs[-DIGITS:], ours[-DIGITS:]
    return (
        theirs[:-DIGITS] == ours[:-DIGITS]
        and all(map(str.isdecimal, numbers))
        and int(numbers[1]) == int(numbers[0]) + 2
    )


def identities_of(names: set[str]) -> set[Id]:
    return {ANYONE_ID_UNSAFE, *(IDS[name] for name in names)}


def _found_nothing(difference: Difference) -> bool:
    answers = {difference.kazoo, difference.parkazoo} if isinstance(difference.kazoo, str) else set()
    return difference.call.name == "delete" and answers == {NO_AUTH, "raises NoNodeError"}


RULES = (
    Rule(
        "asks for the right to delete with a second request: NoAuthError or NoNodeError. Later asynchronous calls "
        "may take effect before it.",
        False,
        lambda difference: not difference.call.waits and _found_nothing(difference),
    ),
    Rule(
        "Recursive deletes have up to a hundred requests under way. If one is refused, others beside it may be "
        "done",
        True,
        _is_refused_recursive,
        is_silent=True,
    ),
    Rule("Deleting a directory that has had children needs DELETE on itself too", True, _delete_needs_delete),
    Rule("A first child needs the directory's ACL", True, _first_child_needs_acl),
    Rule("A first child needs the directory's ACL", True, _first_child_above_needs_acl, is_silent=True),
    Rule(
        "Without READ on a directory, the stat that a `set` or `get_acls` returns shows no children",
        False,
        _stat_without_read,
    ),
    Rule(
        "`consume`, `holds_lock` and `release` return False where kazoo's raise NoNodeError",
        False,
        _lost_an_entry,
    ),
    Rule(
        "A folder that another program deletes is made again",
        True,
        _makes_its_folder_again,
        is_silent=True,
    ),
    Rule("`release` returns False then", False, _was_not_held),
    Rule("`put_all` raises a server's refusal", False, _is_refused_put_all),
    Rule(
        "`get` of an entry that the client may not read raises NoAuthError until that entry is gone",
        True,
        _may_not_read_an_entry,
        is_silent=True,
    ),
    Rule(
        "`ensure_path` and a create with `makepath` make all its levels; kazoo's only the last",
        True,
        _lacks_its_chroot,
    ),
    Rule("A transaction over several ensembles raises `CrossEnsembleError`", True, _is_across_by_a_move),
    Rule("of two errors the parent's comes first", False, _has_two_reasons),
    Rule("Rare gaps", True, _is_behind_a_create_in_vain),
    Rule("A directory's sequence numbers skip two, once", True, _skips_two),
    Rule("works on and below a directory that the client may not read", True, _is_below_the_unreadable),
    Rule("asyncio's Semaphore need not read its lease", True, _may_not_read_its_lease),
)
