"""One order for all ensembles, on demand: a client whose server lags does not see effects before causes.

The readers are connected to a follower of ensemble b that hears of its leader when the test wants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from parkazoo import ParKazooClient
from parkazoo.local import LocalCluster
from tests.live.lagging_follower import LaggingFollower
from tests.live.world import DEADLINE_S, LiveTest, Seen, wait_until

ENSEMBLES = 2
ZOO_CFG = {"syncLimit": "120"}  # ticks: the follower keeps its leader for a minute
SESSION_S = 60.0
OLD, NEW = b"old", b"new"
PIPELINE = 200
CLUSTER: LocalCluster
FOLLOWER: LaggingFollower


def setUpModule() -> None:
    global CLUSTER, FOLLOWER  # noqa: PLW0603 - unittest's way of a fixture
    CLUSTER = LocalCluster(ensembles=ENSEMBLES, servers=3, zoo_cfg=ZOO_CFG)
    CLUSTER.start()
    FOLLOWER = LaggingFollower(CLUSTER.ensembles[1])


def tearDownModule() -> None:
    FOLLOWER.stop()
    CLUSTER.stop()


class TestOneOrder(LiveTest):
    ensembles = ENSEMBLES

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = CLUSTER

    def setUp(self) -> None:
        super().setUp()
        self.writer = self.on_leader()
        self.root = self.new_root(self.writer)
        self.effect, self.cause = self.on_each(self.writer)
        for path in (self.cause, self.effect):
            self.writer.set(path, OLD)

    def on_leader(self, **options: Any) -> ParKazooClient:
        """A client whose server on ensemble b leads it."""
        return self._ready(self.parkazoo(hosts=FOLLOWER.leader.address, **options))

    def reader(self, consistency: str = "total") -> ParKazooClient:
        """A client whose server on ensemble b may lag; it has seen all by now."""
        options = {"consistency": consistency, "timeout": SESSION_S}
        client = self._ready(self.parkazoo(hosts=FOLLOWER.server.address, **options))
        for path in (self.cause, self.effect):
            client.sync(path)
            self.assertEqual(client.get(path)[0], OLD)
        return client

    def _ready(self, client: ParKazooClient) -> ParKazooClient:
        client.join(timeout=DEADLINE_S)
        return client

    @contextmanager
    def lag(self) -> Iterator[None]:
        FOLLOWER.freeze()
        try:
            yield
        finally:
            FOLLOWER.thaw()

    def see_effect(self, reader: ParKazooClient) -> None:
        """The reader's server on the other ensemble may be some milliseconds behind."""
        wait_until(lambda: reader.get(self.effect)[0] == NEW, "the effect")

    def assert_answered_later(self, answer: Any, expected: object, of: Callable[[Any], object]) -> None:
        """The answer is not of the past: it comes when the follower has caught up."""
        self.assertEqual(self.lagging.get(self.cause)[0], OLD)  # the follower answers
        self.assertFalse(answer.ready())
        FOLLOWER.thaw()
        self.assertEqual(of(answer.get(timeout=DEADLINE_S)), expected)

    # ---- what is read ----------------------------------------------------------------------------

    def test_without_it_an_effect_is_seen_before_its_cause(self) -> None:
        reader = self.reader("ensemble")
        with self.lag():
            self.writer.set(self.cause, NEW)
            self.writer.set(self.effect, NEW)
            self.see_effect(reader)
            self.assertEqual(reader.get(self.cause)[0], OLD)

    def test_a_read_is_not_older_than_a_read_elsewhere(self) -> None:
        reader, self.lagging = self.reader(), self.reader("ensemble")
        with self.lag():
            self.writer.set(self.cause, NEW)
            self.writer.set(self.effect, NEW)
            self.see_effect(reader)
            self.assert_answered_later(reader.get_async(self.cause), NEW, lambda answer: answer[0])

    def test_a_read_is_not_older_than_an_event_elsewhere(self) -> None:
        reader, self.lagging, seen = self.reader(), self.reader("ensemble"), Seen()
        reader.get(self.effect, watch=seen)
        reader.get(self.cause)
        with self.lag():
            self.writer.set(self.cause, NEW)
            self.writer.set(self.effect, NEW)
            seen.wait()
            self.assert_answered_later(reader.get_async(self.cause), NEW, lambda answer: answer[0])

    def test_a_read_is_not_older_than_a_write_elsewhere(self) -> None:
        """A write that could only be done behind another client's."""
        reader, self.lagging = self.reader(), self.reader("ensemble")
        with self.lag():
            self.writer.set(self.cause, NEW)
            version = self.writer.set(self.effect, NEW).version
            reader.set(self.effect, b"newer", version=version)
            self.assert_answered_later(reader.get_async(self.cause), NEW, lambda answer: answer[0])

    def test_causal_order_across_directories(self) -> None:
        """A client sees a new znode in a directory and writes to another; who sees that sees the znode too."""
        directory = self.cause.rpartition("/")[0]
        reader, self.lagging, middle = self.reader(), self.reader("ensemble"), self.on_leader(consistency="total")
        names = reader.get_children(directory)
        with self.lag():
            self.writer.create(f"{directory}/cause")
            self.assertIn("cause", middle.get_children(directory))
            middle.set(self.effect, NEW)
            self.see_effect(reader)
            listing = reader.get_children_async(directory)
            self.assertEqual(self.lagging.get_children(directory), names)
            self.assert_answered_later(listing, sorted([*names, "cause"]), sorted)

    # ---- what is issued without waiting ----------------------------------------------------------

    def test_order_of_completions(self) -> None:
        """A get elsewhere is not answered before a set whose ensemble takes its time; by default it is."""
        ordered, default = self.reader(), self.reader("ensemble")
        with self.lag():
            set_first, get_first = default.set_async(self.cause, NEW), default.get_async(self.effect)
            get_first.get(timeout=DEADLINE_S)
            self.assertFalse(set_first.ready())
            done: list[int] = []
            answers = [ordered.set_async(self.cause, NEW), ordered.get_async(self.effect)]
            for number, answer in enumerate(answers):
                answer.rawlink(lambda _, number=number: done.append(number))
            default.get(self.effect)
            self.assertFalse(any(answer.ready() for answer in (set_first, *answers)))
            FOLLOWER.thaw()
            wait_until(lambda: len(done) == len(answers), "answers")
            self.assertEqual(done, sorted(done))

    def test_order_of_many_completions(self) -> None:
        """As they were issued, whichever ensembles they ask and how many requests they take."""
        client = self.reader()
        done: list[int] = []
        for number in range(PIPELINE):
            path = (self.cause, self.effect)[number % 3 == 0]
            answer = (
                client.get_async(path),
                client.set_async(path, b"%d" % number),
                client.create_async(f"{path}/{number}"),
                client.get_children_async(path),
                client.delete_async(f"{path}/{number - 2}"),
            )[number % 5]
            answer.rawlink(lambda _, number=number: done.append(number))
        wait_until(lambda: len(done) == PIPELINE, "answers")
        self.assertEqual(done, sorted(done))

    def test_what_is_wrong_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "consistency must be 'ensemble' or 'total', not 'eventual'"):
            ParKazooClient(self.cluster.hosts, consistency="eventual")
