"""What a type checker says of the users' programs here, with ParKazoo installed as users install it."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import parkazoo
from parkazoo import ParKazooClient, types
from parkazoo.local import LocalCluster
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.recipe.buckets import Spread
from parkazoo.structures import policies
from parkazoo.structures.deferred import Deferred, Ticket
from parkazoo.structures.distributed_dict import DistributedDict
from tests.packaged import build_sdist, build_wheel, install
from tests.typing.test_signatures import classes, declared, public

ROOT = Path(__file__).parents[2]
USER = ROOT / "tests" / "typing" / "user.py"
USER_AIO = USER.with_name("user_aio.py")


def expected(program: Path) -> Counter[tuple[int, str]]:
    lines = enumerate(program.read_text().splitlines(), 1)
    return Counter((number, found[1]) for number, line in lines if (found := re.search(r"# E: ([a-z-]+)", line)))


# What is public by its name alone: no documentation shows it, and it may move.
INTERNAL = {
    ParKazooClient: {
        "abandon",
        "call_later",
        "check_process",
        "describe_hosts",
        "exactly_once",
        "forget_deferred",
        "give_up_after_s",
        "has_total_order",
        "hear_others",
        "listeners",
        "logger_for",
        "make_above",
        "monitor",
        "may_have_ephemeral",
        "new_retry",
        "patience_s",
        "registration",
        "session_changed",
        "session_number",
        "session_timeout_s",
        "state_for_watch",
        "waits",
        "withdraw_watch",
    },
    ClusterMap: {
        "continues",
        "from_json",
        "identity",
        "last_move",
        "later",
        "make_guess",
        "make_placement",
        "move",
        "move_since",
        "moved",
        "parting",
        "retired",
        "shares",
        "to_json",
        "unused",
        "with_ensembles",
        "with_epoch",
        "with_form",
        "with_hosts",
        "with_leaving",
        "with_move",
        "without",
    },
    Deferred: {"abandon", "locate_guard", "wait_until"},
    DistributedDict: set(),
    LocalCluster: {"detach"},
    Spread: {"bucket", "called", "describe_other", "number_of", "verify"},
    Ticket: {"number", "request", "size"},
}
NAMED = {  # by the variables of user.py
    ParKazooClient: "zk",
    ClusterMap: "cluster_map",
    Deferred: "deferred",
    DistributedDict: "shared",
    LocalCluster: "cluster",
    Spread: "spread",
    Ticket: "ticket",
    "Lock": "lock",
    "Semaphore": "semaphore",
    "Barrier": "barrier",
    "DoubleBarrier": "double_barrier",
    "Counter": "counter",
    "Election": "election",
    "Party": "party",
    "ShallowParty": "shallow_party",
    "Queue": "queue",
    "LockingQueue": "locking_queue",
    "SetPartitioner": "partitioner",
    "NonBlockingLease": "lease",
    "MultiNonBlockingLease": "leases",
    "TransactionRequest": "transaction",
}
MADE: dict[Any, Callable[[], Any]] = {ParKazooClient: ParKazooClient}  # what has attributes beside its class's
PROGRAMS: list[tuple[Path, dict[Any, str]]] = [(USER, NAMED)]
if sys.version_info >= (3, 11):  # parkazoo.aio needs it
    from parkazoo import aio
    from parkazoo.aio.async_transaction import AsyncTransaction
    from parkazoo.aio.recipe.async_barrier import AsyncBarrier
    from parkazoo.aio.recipe.async_counter import AsyncCounter
    from parkazoo.aio.recipe.async_election import AsyncElection
    from parkazoo.aio.recipe.async_lock import AsyncLock
    from parkazoo.aio.recipe.async_locking_queue import AsyncLockingQueue
    from parkazoo.aio.recipe.async_partitioner import AsyncSetPartitioner
    from parkazoo.aio.recipe.async_party import AsyncParty
    from parkazoo.aio.recipe.async_queue import AsyncQueue
    from parkazoo.aio.recipe.async_semaphore import AsyncSemaphore
    from parkazoo.aio.recipe.async_spread import AsyncSpread
    from parkazoo.aio.recipe.async_tree_cache import AsyncTreeCache

    MADE[aio.ParKazooClient] = aio.ParKazooClient
    MADE[AsyncTransaction] = aio.ParKazooClient().transaction
    RECIPES: dict[Any, str] = {
        AsyncBarrier: "barrier",
        AsyncCounter: "counter",
        AsyncElection: "election",
        AsyncLock: "lock",
        AsyncLockingQueue: "locking_queue",
        AsyncParty: "party",
        AsyncQueue: "queue",
        AsyncSemaphore: "semaphore",
        AsyncSetPartitioner: "partitioner",
        AsyncSpread: "spread",
        AsyncTreeCache: "cache",
    }
    MADE.update({recipe: partial(recipe, aio.ParKazooClient(), "/a") for recipe in RECIPES})
    MADE[AsyncCounter] = partial(aio.ParKazooClient().Counter, "/a")
    MADE[AsyncSetPartitioner] = partial(aio.ParKazooClient().SetPartitioner, "/a", [1])
    MADE[AsyncSpread] = partial(aio.ParKazooClient().Spread, "/a", 3)
    INTERNAL[AsyncTransaction] = {"answered", "begin_commit", "client"}
    INTERNAL[AsyncSpread] = {"called", "data", "describe_other"}
    PROGRAMS.append((USER_AIO, {aio.ParKazooClient: "zk", AsyncTransaction: "transaction"} | RECIPES))
    INTERNAL[aio.ParKazooClient] = {
        "abandon",
        "changed",
        "cleaned",
        "client_state",
        "describe_hosts",
        "finish",
        "forget_deferred",
        "give_up_after_s",
        "has_total_order",
        "hear_others",
        "known_map",
        "listings",
        "lose",
        "losses",
        "monitor",
        "new_future",
        "own",
        "registration",
        "runtime_type",
        "session_changed",
        "session_number",
        "session_timeout_s",
        "verify_here",
        "wake",
    }


def names_of(kind: Any) -> set[str]:
    """The public names of a class; those of a class of the stubs, which is given by its name."""
    if kind in MADE:
        return public(MADE[kind]())
    if not isinstance(kind, str):
        return public(kind)
    stubs = {stub.name: declared(stub) for module in ("client", "recipes") for stub in classes(module)}
    found = stubs[kind].keys() | ({"join", "leave", "participating"} if kind.endswith("Party") else set())
    return {name for name in found if not name.startswith("_")}


def used_in(program: Path) -> set[tuple[str, str]]:
    """The attributes that a program uses, each with the variable that has it."""
    return {
        (each.value.id, each.attr)
        for each in ast.walk(ast.parse(program.read_text()))
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name)
    }


class TestPublicNames(unittest.TestCase):
    """Each has a line in user.py, or user_aio.py."""

    def setUp(self) -> None:
        self.lines = [*ast.walk(ast.parse(USER.read_text()))]
        self.used = used_in(USER)

    def test_of_classes(self) -> None:
        for program, named in PROGRAMS:
            for kind, variable in named.items():
                with self.subTest(kind):
                    used = {name for owner, name in used_in(program) if owner == variable}
                    self.assertEqual(names_of(kind) - used, INTERNAL.get(kind, set()))

    def test_of_modules(self) -> None:
        imported = {
            (line.module, name.name)
            for line in self.lines
            if isinstance(line, ast.ImportFrom)
            for name in line.names
        }
        imported |= {("parkazoo.types", name) for owner, name in self.used if owner == "types"}
        policy = [name for name, each in vars(policies).items() if is_policy(each)]
        for module, names in (
            ("parkazoo", parkazoo.__all__),
            ("parkazoo.types", types.__all__),
            ("parkazoo.structures.policies", policy),
        ):
            with self.subTest(module):
                self.assertEqual({(module, name) for name in names} - imported, set())


def is_policy(each: Any) -> bool:
    return isinstance(each, type) and issubclass(each, policies.Policy) and each is not policies.Policy


class TestUser(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory(prefix="parkazoo-typing-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.python = install(cls.folder, build_wheel(cls.folder, build_sdist(cls.folder)))

    def test_mypy(self) -> None:
        for program, _ in PROGRAMS:
            with self.subTest(program.name):
                self.check(program)

    def check(self, user: Path) -> None:
        program = shutil.copy(user, self.folder)  # where it stands mypy would find the checkout, not the wheel
        mypy = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file="]
        options = ["--python-executable", str(self.python), "--cache-dir", str(self.folder / "cache")]
        ran = subprocess.run(
            [*mypy, *options, program], cwd=self.folder, capture_output=True, text=True, check=False
        )
        said = re.findall(r"^.*user(?:_aio)?\.py:(\d+): error: .*\[([a-z-]+)\]$", ran.stdout, re.MULTILINE)
        found = Counter((int(number), code) for number, code in dict.fromkeys(said))
        self.assertEqual(ran.stderr, "")
        self.assertEqual(found, expected(user), ran.stdout)
        self.assertEqual(ran.stdout.count("error:"), len(said), ran.stdout)
