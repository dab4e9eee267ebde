"""Tests of the client for threads, run with the asyncio client by :mod:`tests.live.on_a_loop`.

Left out, by module:

- attributes that only kazoo's class has (handler, retry, tables of watches, hooks): test_hooks, test_calls,
  test_client_callbacks, test_client_retry, test_client_wire, and single tests below;
- what has another form in asyncio, and tests of its own in tests/aio: `join`, listeners of `parkazoo.monitoring`,
  counters, the state of a lock or a path, deferred writes, DistributedDict, Spread;
- recipes, whose cancellation is their own: tests/aio strikes them, and test_aio_recipes has them beside kazoo's;
- what only threads, greenlets or signals do: test_client_fork, tests that interrupt a call, `start_async`;
- watches behind a stop(): they are called at once, not by the next start;
- what takes long, if a shorter test has most of it;
- the commands, test_wire_*, and answers of servers to each pair of operation and right (test_errors,
  `TestAsOneZooKeeper`, most paths of `test_as_kazoo`): both clients send them by the same code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from unittest import mock

from tests.aio.aio_case import needs_aio
from tests.live import (
    test_client_acl,
    test_client_bad_input,
    test_client_order,
    test_client_reach,
    test_client_registration,
    test_client_session,
    test_client_transactions,
    test_client_tree,
    test_client_watch_recipes,
    test_client_watches,
    test_map_growth,
    test_map_move,
    test_newer_calls,
    test_read_only,
)
from tests.live.on_a_loop import MISTAKES, OnALoop
from tests.live.world import Seen

Case = TypeVar("Case", bound=type)
FEW_PATHS = (
    None,
    b"/a",
    "",
    "relative",
    "//a",
    "/a/../b",
    "/surrogate\ud800",
    "/a",
    "/leaf/new",
    "/missing/child",
)


def without(*names: str) -> Callable[[Case], Case]:
    """Leave out these tests of a class."""

    def leave_out(case: Case) -> Case:
        for name in names:
            assert hasattr(case, f"test_{name}"), name
            setattr(case, f"test_{name}", None)
        return case

    return leave_out


def only(*names: str) -> Callable[[Case], Case]:
    """Leave out all other tests of a class."""

    def keep(case: Case) -> Case:
        others = {name for name in dir(case) if name.startswith("test_")} - {f"test_{name}" for name in names}
        return without(*(name.removeprefix("test_") for name in others))(case)

    return keep


@needs_aio
class OnALoopMixin:
    """The clients of a LiveTest."""

    def setUp(self) -> None:
        MISTAKES.clear()
        self.addCleanup(lambda: self.assertEqual(MISTAKES, []))
        super().setUp()

    def parkazoo(self, chroot: str = "", **options: Any) -> Any:
        return super().parkazoo(chroot, **{"client_class": OnALoop, **options})

    def patched(self, target: Any, **values: Any) -> None:
        for name, value in values.items():
            patch = mock.patch.object(target, name, value)
            patch.start()
            self.addCleanup(patch.stop)


class OfAMapMixin(OnALoopMixin):
    """Those of a MapCase."""

    def client(self, hosts: str | None = None) -> tuple[Any, Seen]:
        client = OnALoop(hosts or self.a)
        self.addCleanup(client.stop)
        client.start()
        states = Seen()
        client.add_listener(states)
        return client, states


class TestIdentities(OnALoopMixin, test_client_acl.TestIdentities):
    pass


class TestMirror(OnALoopMixin, test_client_acl.TestMirror):
    pass


@without("constructor", "too_large_a_value", "too_large_a_value_before_it_is_sent")
class TestBadInput(OnALoopMixin, test_client_bad_input.TestBadInput):
    def setUp(self) -> None:
        super().setUp()
        self.patched(test_client_bad_input, PATHS=FEW_PATHS)
        missing = {name for name, _ in test_client_bad_input.cases() if name.startswith(("set_hosts", "reconfig"))}
        self.patched(test_client_bad_input, BETTER=test_client_bad_input.BETTER | missing)


class TestOrder(OnALoopMixin, test_client_order.TestOrder):
    def setUp(self) -> None:
        super().setUp()
        self.patched(test_client_order, CHAINS=100, PIPELINES=50, OPERATIONS=3000, WINDOW=200)


@only("a_watch_there", "a_watched_read_that_needs_it", "an_ephemeral_that_has_been_deleted", "giving_up")
class TestAnEnsembleThatIsAway(OnALoopMixin, test_client_reach.TestAnEnsembleThatIsAway):
    pass


@without("an_ephemeral_there")
class TestASessionThatExpires(OnALoopMixin, test_client_reach.TestASessionThatExpires):
    pass


class TestResume(OnALoopMixin, test_client_reach.TestResume):
    pass


class TestRegistration(OnALoopMixin, test_client_registration.TestRegistration):
    pass


@only("before_start_and_after_stop", "every_socket_is_reached", "start_and_stop")
class TestStates(OnALoopMixin, test_client_session.TestStates):
    pass


class TestIdentity(OnALoopMixin, test_client_session.TestIdentity):
    pass


@without("interrupted", "nothing_is_left", "while_the_map_is_read")
class TestStop(OnALoopMixin, test_client_session.TestStop):
    pass


@only("blocking_calls_in_watches", "many_in_flight", "many_threads")
class TestFlood(OnALoopMixin, test_client_session.TestFlood):
    pass


@only("read_only_option", "sync")
class TestWhatKazooHas(OnALoopMixin, test_client_session.TestWhatKazooHas):
    pass


class TestTransactions(OnALoopMixin, test_client_transactions.TestTransactions):
    pass


class TestTransactionsGrown(OfAMapMixin, test_client_transactions.TestTransactionsGrown):
    pass


@without("ensembles_are_members_of_the_map")
class TestMapping(OnALoopMixin, test_client_tree.TestMapping):
    pass


class TestTree(OnALoopMixin, test_client_tree.TestTree):
    pass


@without("a_chroot_of_which_two_levels_are_missing")
class TestWholeTrees(OnALoopMixin, test_client_tree.TestWholeTrees):
    pass


@only("children_watch", "data_watch")
class TestRecipes(OnALoopMixin, test_client_watch_recipes.TestRecipes):
    pass


@without("a_watch_that_reads_again", "stop", "twice_the_same_function")
class TestOneShot(OnALoopMixin, test_client_watches.TestOneShot):
    pass


@only("child_deleted", "deleted_and_made_again", "exists", "lost_connections", "twice_the_same_function")
class TestOneShotGrown(OnALoopMixin, test_client_watches.TestOneShot):
    form = "grown"


class TestManyEvents(OnALoopMixin, test_client_watches.TestManyEvents):
    pass


@without("a_locking_queue")
class TestGrowth(OfAMapMixin, test_map_growth.TestGrowth):
    pass


@only("it_moves")
class TestMove(OfAMapMixin, test_map_move.MoveTest):
    pass


@without("a_dictionary", "deferred_writes_with_a_guard", "watches_that_are_withdrawn")
class TestHeld(OfAMapMixin, test_map_move.HeldTest):
    pass


class TestWork(OfAMapMixin, test_map_move.WorkTest):
    pass


class TestNewerCalls(OnALoopMixin, test_newer_calls.TestNewerCalls):
    pass


class TestNewerCallsGrown(OnALoopMixin, test_newer_calls.TestNewerCallsGrown):
    pass


class TestReadOnly(OnALoopMixin, test_read_only.TestReadOnly):
    def setUp(self) -> None:
        super().setUp()
        self.patched(test_read_only, ParKazooClient=OnALoop)
