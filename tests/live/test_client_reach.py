"""A client depends on the ensembles on which it has something, and on no others."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import count
from posixpath import dirname
from typing import Any

from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, KazooException, NoNodeError
from kazoo.protocol.states import EventType, KazooState
from kazoo.recipe.cache import TreeCache

from parkazoo import ParKazooClient
from parkazoo.admin import init_map
from parkazoo.local import LocalCluster
from parkazoo.protocol.client_id import unpack_sessions
from parkazoo.recipe.lock import Lock
from parkazoo.structures.distributed_dict import DistributedDict
from parkazoo.structures.policies import Always, Watch
from tests.handlers import handler_name
from tests.live.test_client_session import SessionTest
from tests.live.world import DEADLINE_S, Seen, wait_until
from tests.where_is import where_is

CONNECTED, SUSPENDED, LOST = KazooState.CONNECTED, KazooState.SUSPENDED, KazooState.LOST
TIMEOUT_S = 10.0
HERE, THERE, AWAY = 0, 1, 2  # ensembles: the client begins with the first; the last one dies


class ReachTest(SessionTest):
    def setUp(self) -> None:
        super().setUp()
        self.znodes = [self._znode_on(ensemble) for ensemble in range(self.ensembles)]

    def _znode_on(self, ensemble: int) -> str:
        """A new znode that is on this ensemble; so are its siblings."""
        paths = (f"{self.root}/d{number}/z" for number in range(1000))
        path = next(path for path in paths if where_is(self.placement, path).home.ensemble == ensemble)
        self.watcher.create(path, makepath=True)
        return path

    def client(self, timeout: float = TIMEOUT_S, **options: Any) -> tuple[ParKazooClient, Seen]:
        """A client with nothing but a session, and the states that it hears of from now on."""
        client = self.parkazoo(timeout=timeout, **options)
        states = Seen()
        client.add_listener(states)
        return client, states

    def away(self) -> AbstractContextManager[None]:
        """The ensemble's only server dies, and is back in the end."""
        return self.killed(AWAY)

    def names(self, client: ParKazooClient) -> list[str]:
        return sorted(client.members)

    def renewed(self, client: ParKazooClient, ensemble: int, before: Any) -> None:
        """Wait until the client has another session there than `before`."""
        member = client.members["abc"[ensemble]]
        wait_until(lambda: member.client_id not in (None, before), "another session")


class TestJoin(ReachTest):
    def test_by_the_first_request(self) -> None:
        client, _ = self.client()
        self.assertEqual(self.names(client), ["a"])
        client.get(self.znodes[HERE])
        self.assertEqual(self.names(client), ["a"])
        client.get(self.znodes[AWAY])
        self.assertEqual(self.names(client), ["a", "c"])

    def test_beforehand(self) -> None:
        client, _ = self.client()
        client.join("b", timeout=DEADLINE_S)
        self.assertEqual(self.names(client), ["a", "b"])
        client.join(timeout=DEADLINE_S)
        self.assertEqual(self.names(client), ["a", "b", "c"])
        self.assertEqual({member.state for member in client.members.values()}, {CONNECTED})

    def test_what_is_not_there(self) -> None:
        client, _ = self.client(start=False)
        with self.assertRaisesRegex(ConnectionClosedError, "start it"):
            client.join(timeout=0.1)
        client.start(DEADLINE_S)
        with self.assertRaisesRegex(ValueError, "no ensemble 'x' in the cluster map: a, b, c"):
            client.join("x")

    def test_one_that_is_away(self) -> None:
        with self.away():
            client, states = self.client()
            with self.assertRaisesRegex(client.handler.timeout_exception, "ensemble c"):
                client.join(timeout=0.1)
            with self.assertRaisesRegex(ConnectionLoss, "ensemble c"):
                client.get(self.znodes[AWAY])
            self.assertEqual(states, [])
        wait_until(
            lambda: client.join(timeout=DEADLINE_S) is None, "joined"
        )  # the server may be slow to come back


class TestAnEnsembleThatIsAway(ReachTest):
    def test_nothing_there(self) -> None:
        """A client that has only read there does not notice, and keeps its lock elsewhere."""
        client, states = self.client()
        lock = client.Lock(dirname(self.znodes[HERE]), "me")
        lock.acquire()
        client.get(self.znodes[AWAY])
        identity = client.client_id[0]
        with self.away():
            wait_until(lambda: client.state_of(self.znodes[AWAY]) == SUSPENDED, "the loss")
            self.assertEqual((client.state_of(self.znodes[HERE]), lock.state), (CONNECTED, CONNECTED))
            self.assertRegex(repr(client), r" CONNECTED on a(, b)? of 3 in cluster \S+; c SUSPENDED>$")
            client.set(self.znodes[HERE], b"1")
            client.create(self.znodes[THERE] + "-2")
            with self.assertRaisesRegex(ConnectionLoss, "ensemble c"):
                client.get(self.znodes[AWAY])
            self.assertEqual(self.watcher.exists(f"{lock.path}/{lock.node}").ephemeralOwner, identity)
        client.retry(client.set, self.znodes[AWAY], b"1")
        self.assertEqual((states, client.client_id[0], lock.is_acquired), ([], identity, True))

    def test_a_start(self) -> None:
        with self.away():
            client, states = self.client(chroot=self.root)
            below = [path.removeprefix(self.root) for path in self.znodes]
            client.set(below[HERE], b"1")
            self.assertEqual((states, client.state_of(below[HERE])), ([], CONNECTED))
            self.assertNotEqual(client.state_of(below[AWAY]), CONNECTED)
        plain, _ = self.client()
        self.assertEqual([plain.state_of(self.znodes[each]) for each in (HERE, AWAY)], [CONNECTED, LOST])

    def test_an_ephemeral_there(self) -> None:
        client, states = self.client(timeout=DEADLINE_S)
        lock = client.Lock(dirname(self.znodes[AWAY]), "me")
        lock.acquire()
        with self.away():
            self.assertEqual(states.wait(), [SUSPENDED])
            self.assertEqual((lock.state, client.state_of(self.znodes[HERE])), (SUSPENDED, CONNECTED))
            client.set(self.znodes[HERE], b"1")
        self.assertEqual(states.wait(2), [SUSPENDED, CONNECTED])
        self.assertTrue(lock.state == CONNECTED and lock.is_acquired)

    def test_an_ephemeral_that_has_been_deleted(self) -> None:
        client, states = self.client(timeout=DEADLINE_S)
        client.create(self.znodes[AWAY] + "-2", ephemeral=True)
        transaction = client.transaction()
        transaction.create(self.znodes[AWAY] + "-3", ephemeral=True)
        transaction.commit()
        client.delete(self.znodes[AWAY] + "-2")
        client.delete(self.znodes[AWAY] + "-3")
        with self.away():
            wait_until(lambda: client.state_of(self.znodes[AWAY]) == SUSPENDED, "the loss")
        wait_until(lambda: client.state_of(self.znodes[AWAY]) == CONNECTED, "the return")
        self.assertEqual(states, [])

    def test_a_watch_there(self) -> None:
        """Every watch of the client is told once, also on other ensembles."""
        client, states = self.client(timeout=DEADLINE_S)
        there, here = Seen(), Seen()
        client.get(self.znodes[AWAY], watch=there)
        client.get(self.znodes[HERE], watch=here)
        with self.away():
            self.assertEqual(states.wait(), [SUSPENDED])
            client.set(self.znodes[HERE], b"1")
        self.assertEqual(states.wait(2), [SUSPENDED, CONNECTED])
        client.set(self.znodes[AWAY], b"1")
        self.assertEqual([event.type for event in there.wait() + here.wait()], [EventType.NONE] * 2)

    def test_a_watched_read_that_needs_it(self) -> None:
        """The data is elsewhere, but the number of children is there: DataWatch waits, and the client says so."""
        client, states = self.client()
        parent = dirname(self.znodes[HERE])
        paths = (f"{parent}/d{number}" for number in range(1000))
        directory = next(path for path in paths if self.placement.of_children(path) == AWAY)
        self.watcher.create(f"{directory}/x", makepath=True)
        told = Seen()
        client.DataWatch(directory, lambda data, stat: told(data))
        with self.away():
            wait_until(lambda: client.state_of(f"{directory}/x") == SUSPENDED, "the loss")
            self.kazoo(HERE).set(self.home(directory).path, b"1")
            self.assertEqual(states.wait(), [SUSPENDED])
        self.assertEqual((states.wait(2), told.wait(2)[-1]), ([SUSPENDED, CONNECTED], b"1"))

    def test_a_lock_there_that_nobody_can_have(self) -> None:
        """Who asks for it gives up in time: there is nothing to clean up."""
        with self.away():
            client, _ = self.client()
            lock, ends = client.Lock(dirname(self.znodes[AWAY]), "me"), Seen()

            def ask() -> None:
                with suppress(KazooException):
                    lock.acquire(timeout=0.1)
                ends(lock.is_acquired)

            client.handler.spawn(ask)
            self.assertEqual(ends.wait(), [False])

    def test_giving_up(self) -> None:
        """What it holds elsewhere is let go of, and the client begins anew without the ensemble that is away."""
        client, states = self.client(give_up_after=2)
        for ensemble in (HERE, AWAY):
            client.create(self.znodes[ensemble] + "-2", ephemeral=True)
        before = client.client_id
        with self.away():
            self.assertEqual(states.wait(3), [SUSPENDED, LOST, CONNECTED])
            wait_until(lambda: not self.watcher.exists(self.znodes[HERE] + "-2"), "the end of the ephemeral")
            client.create(self.znodes[HERE] + "-2", ephemeral=True)
            self.assertNotEqual(client.client_id[0], before[0])
        wait_until(lambda: not self.watcher.exists(self.znodes[AWAY] + "-2"), "the end of the other ephemeral")
        self.assertEqual(states, [SUSPENDED, LOST, CONNECTED])

    def test_not_giving_up(self) -> None:
        """Once the ensemble is back there is nothing to give up."""
        client, states = self.client(timeout=DEADLINE_S, give_up_after=10 * DEADLINE_S)
        client.create(self.znodes[AWAY] + "-2", ephemeral=True)
        with self.away():
            states.wait()
        self.assertEqual(states.wait(2), [SUSPENDED, CONNECTED])
        self.assertIsNone(client._session._patience)

    def test_no_time_to_give_up_after(self) -> None:
        for value in (0, -1, float("nan")):
            with self.assertRaisesRegex(ValueError, "give_up_after must be seconds above 0"):
                ParKazooClient("127.0.0.1:1", give_up_after=value)
        self.assertRaises(TypeError, ParKazooClient, "127.0.0.1:1", give_up_after="x")


class TestWatchesGoOn(ReachTest):
    """Recipes and structures on an ensemble that is connected wait for no other ensemble, and for no callback."""

    def setUp(self) -> None:
        super().setUp()
        self.mine, self.states = self.client(timeout=DEADLINE_S)
        self.folder = dirname(self.znodes[HERE])
        path = f"{self.folder}/{self._name_of_a_directory(HERE)}"
        self.watcher.create(path)
        self.shared = self.mine.DistributedDict(path)
        self.addCleanup(self.shared.close)
        self.changes = Seen()
        self.shared.on_change(lambda key, old, new, version: self.changes(new))
        self.data, self.names = Seen(), Seen()
        self.mine.DataWatch(self.znodes[HERE], lambda data, stat: self.data(data))
        self.mine.ChildrenWatch(self.folder, self.names)
        self.lock = self.watcher.Lock(f"{self.folder}/{self._name_of_a_directory(HERE, 'lock')}", "other")
        self.lock.acquire()
        self.holds = self.mine.handler.event_object()

    def _name_of_a_directory(self, ensemble: int, prefix: str = "d") -> str:
        names = (f"{prefix}{number}" for number in range(1000))
        return next(name for name in names if self.placement.of_children(f"{self.folder}/{name}") == ensemble)

    def queue_up(self) -> None:
        """Contend for the lock, in the background."""

        def take() -> None:
            self.mine.Lock(self.lock.path, "mine").acquire()
            self.holds.set()

        self.mine.handler.spawn(take)
        wait_until(lambda: len(self.watcher.get_children(self.lock.path)) == 2, "both contend")

    def change(self, count: int) -> None:
        """Others change everything; the recipes see it."""
        other = self.watcher.DistributedDict(self.shared.path, Always())
        for number in range(1, count + 1):
            other["x"] = number
        wait_until(lambda: self.shared.copy() == {"x": count}, f"{count}, it is {self.shared.copy()}")
        wait_until(lambda: self.changes and self.changes[-1] == count, "it is told")
        wait_until(lambda: not self.shared.is_stale, "it is kept")
        self.watcher.set(self.znodes[HERE], b"%d" % count)
        self.watcher.create(f"{self.folder}/new")
        self.lock.release()
        self.holds.wait(DEADLINE_S)
        self.assertTrue(self.holds.is_set())

    def test_watchers_of_an_ensemble_that_is_away(self) -> None:
        there, names, plain = Seen(), Seen(), Seen()
        self.mine.DataWatch(self.znodes[AWAY], lambda data, stat: there(data))
        self.mine.ChildrenWatch(dirname(self.znodes[AWAY]), names)
        with self.away():
            self.assertEqual(self.states.wait(), [SUSPENDED])
            self.mine.get(self.znodes[HERE], watch=plain)
            self.queue_up()
            self.change(24)
            wait_until(lambda: self.data[-1] == b"24", "DataWatch has it")
            wait_until(lambda: "new" in self.names[-1], "ChildrenWatch has it")
            plain.wait()
            self.assertEqual((len(there), len(names), self.mine.state), (1, 1, SUSPENDED))
        self.assertEqual(self.states.wait(2), [SUSPENDED, CONNECTED])
        self.watcher.set(self.znodes[AWAY], b"back")
        self.watcher.create(self.znodes[AWAY] + "-back")
        wait_until(lambda: there[-1] == b"back", "DataWatch goes on")
        wait_until(lambda: len(names[-1]) == 2, "ChildrenWatch goes on")

    def test_a_callback_that_blocks(self) -> None:
        """The user's watches wait for it, as with kazoo; nothing else does."""
        let_go, is_called = self.mine.handler.event_object(), self.mine.handler.event_object()

        def block(event: Any) -> None:
            is_called.set()
            let_go.wait(DEADLINE_S)

        self.addCleanup(let_go.set)
        cache = TreeCache(self.mine, self.folder)
        self.addCleanup(cache.close)
        cache.start()
        wait_until(lambda: cache.get_data(self.znodes[HERE]) is not None, "TreeCache has it")
        self.mine.get(self.znodes[THERE], watch=block)
        self.watcher.set(self.znodes[THERE], b"")
        is_called.wait(DEADLINE_S)
        self.queue_up()
        self.change(24)
        wait_until(lambda: cache.get_data(self.znodes[HERE]).data == b"24", "TreeCache has it")
        self.assertEqual(self.data, [b""])
        let_go.set()
        wait_until(lambda: self.data[-1] == b"24", "DataWatch has it")

    def test_a_completion_callback_that_blocks(self) -> None:
        if handler_name() != "threading":
            self.skipTest("with gevent, none may block")
        let_go, is_called = threading.Event(), threading.Event()

        def block(answer: Any) -> None:
            is_called.set()
            let_go.wait(DEADLINE_S)

        self.addCleanup(let_go.set)
        self.mine.get_async(self.znodes[THERE]).rawlink(block)
        is_called.wait(DEADLINE_S)
        self.queue_up()
        self.change(24)
        wait_until(lambda: self.data[-1] == b"24", "DataWatch has it")


class TestASessionThatExpires(ReachTest):
    def test_nothing_there(self) -> None:
        """It alone is renewed. The client is the same for everybody."""
        client, states = self.client()
        client.create(self.znodes[HERE] + "-2", ephemeral=True)
        client.get(self.znodes[AWAY])
        identity, before = client.client_id[0], client.members["c"].client_id
        self.expire(client, AWAY)
        self.renewed(client, AWAY, before)
        client.create(self.znodes[AWAY] + "-2", ephemeral=True)
        owners = {self.watcher.exists(self.znodes[each] + "-2").ephemeralOwner for each in (HERE, AWAY)}
        self.assertEqual((owners, client.client_id[0], states), ({identity}, identity, []))

    def test_a_watch_there(self) -> None:
        client, states = self.client()
        watch = Seen()
        client.get(self.znodes[AWAY], watch=watch)
        before = client.members["c"].client_id
        self.expire(client, AWAY)
        self.renewed(client, AWAY, before)
        wait_until(lambda: client.connected, "the connection")
        self.assertEqual([event.type for event in watch.wait()], [EventType.NONE])
        self.assertNotIn(LOST, states)

    def test_an_ephemeral_there(self) -> None:
        client, states = self.client()
        for ensemble in (HERE, AWAY):
            client.create(self.znodes[ensemble] + "-2", ephemeral=True)
        lock = client.Lock(dirname(self.znodes[HERE]), "me")
        lock.acquire()
        identity = client.client_id[0]
        self.expire(client, AWAY)
        wait_until(lambda: LOST in states and states[-1] == CONNECTED, "the new session")
        wait_until(lambda: not self.watcher.exists(self.znodes[HERE] + "-2"), "the end of the other ephemeral")
        self.assertNotEqual(client.client_id[0], identity)
        self.assertEqual((states.count(LOST), lock.state), (1, LOST))


class TestResume(ReachTest):
    def test_some_ensembles(self) -> None:
        """The client begins on another ensemble than those on which it has sessions."""
        client, _ = self.client()
        client.create(self.znodes[AWAY] + "-2", ephemeral=True)
        number, password = client.client_id
        self.assertEqual(sorted(unpack_sessions(password) or ()), ["a", "c"])
        for member in client.members.values():  # it must not take its sessions back
            member.set_hosts("127.0.0.1:1")
        resumed, _ = self.client(client_id=(number, password))
        self.assertEqual((resumed.client_id[0], self.names(resumed)), (number, ["a", "c"]))
        self.assertEqual(resumed.exists(self.znodes[AWAY] + "-2").ephemeralOwner, number)
        resumed.stop()
        wait_until(lambda: not self.watcher.exists(self.znodes[AWAY] + "-2"), "the end of the ephemeral")

    def test_one_that_is_away(self) -> None:
        """The start fails, and what it could not resume as a whole is left as it was."""
        client, _ = self.client(timeout=DEADLINE_S)
        for ensemble in (HERE, AWAY):
            client.create(self.znodes[ensemble] + "-2", ephemeral=True)
        identity = client.client_id
        with self.away():
            resumed = self.parkazoo(start=False, client_id=identity, timeout=DEADLINE_S)
            resumed.start_async()
            wait_until(lambda: "ensemble c" in resumed._session.roster.describe_missing(), "it is missing")
            with self.assertRaisesRegex(client.handler.timeout_exception, "ensemble c"):
                resumed.start(0.01)
            self.assertEqual(self.watcher.exists(self.znodes[HERE] + "-2").ephemeralOwner, identity[0])
        wait_until(lambda: client.connected, "the connection")
        self.assertEqual(client.client_id[0], identity[0])

    def test_what_has_ended(self) -> None:
        client, _ = self.client()
        client.create(self.znodes[AWAY] + "-2", ephemeral=True)
        number, password = client.client_id
        client.stop()
        resumed, _ = self.client(client_id=(number, password))
        self.assertNotEqual(resumed.client_id[0], number)
        resumed.create(self.znodes[AWAY] + "-2", ephemeral=True)


class TestTheHomeIsAway(ReachTest):
    """A directory's home is on the ensemble that is away, its children are on another one.

    Requests to the ensemble that is away are not answered while a test runs: the time-out is too long for that.
    """

    def setUp(self) -> None:
        super().setUp()
        parent = dirname(self.znodes[AWAY])
        paths = (f"{parent}/d{number}" for number in range(1000))
        self.folder = next(path for path in paths if self.placement.of_children(path) == HERE)
        self.watcher.create(f"{self.folder}/x", makepath=True)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """The ensemble's only server does not answer, and nobody knows that it will not."""
        server = self.server(AWAY)
        server.freeze()
        try:
            yield
        finally:
            server.thaw()

    def old_and_new(self, *, is_frozen: bool = False) -> Iterator[ParKazooClient]:
        """While the ensemble is away: a client that has used it before, and one that starts."""
        old, states = self.client(DEADLINE_S)
        old.get(self.folder)
        with self.frozen() if is_frozen else self.away():
            if not is_frozen:  # else what is sent just then makes the client SUSPENDED
                wait_until(lambda: old.state_of(self.folder) == SUSPENDED, "the loss")
            yield old
            yield self.client(DEADLINE_S)[0]
        self.assertEqual(states, [])

    def test_what_is_not_there(self) -> None:
        for client in self.old_and_new():
            missing = f"{self.folder}/missing"
            self.assertRaises(NoNodeError, client.delete, missing)
            transaction = client.transaction()
            transaction.delete(missing)
            self.assertIsInstance(transaction.commit()[0], NoNodeError)

    def test_ensure_path(self) -> None:
        for client in self.old_and_new():
            self.assertIs(client.ensure_path(self.folder), True)
            made = f"{self.folder}/{client.client_id[0]}/made"
            self.assertEqual(client.ensure_path(dirname(made)), dirname(made))

    def test_a_lock(self) -> None:
        for is_frozen in (False, True):
            for client in self.old_and_new(is_frozen=is_frozen):
                self.take_in_turn(client.Lock(self.folder), self.client(DEADLINE_S)[0].Lock(self.folder))

    def take_in_turn(self, lock: Lock, other: Lock) -> None:
        self.assertTrue(lock.acquire())
        self.assertFalse(other.acquire(blocking=False))
        self.assertTrue(lock.release())
        self.assertTrue(other.acquire())
        self.assertTrue(other.release())

    def test_a_lock_in_a_folder_of_ones_own(self) -> None:
        """Its maker does not know that another client has locked there since."""
        own = next(path for path in self.others() if self.placement.of_children(path) == HERE)
        maker, other = self.client(DEADLINE_S)[0], self.client(DEADLINE_S)[0]
        maker.ensure_path(own)
        other.create(f"{own}/x")
        with self.away():
            wait_until(lambda: maker.state_of(own) == SUSPENDED, "the loss")
            self.take_in_turn(maker.Lock(own), other.Lock(own))

    def others(self) -> Iterator[str]:
        """Paths beside the folder."""
        return (f"{dirname(self.folder)}/e{number}" for number in count())

    def test_a_lock_that_was_lost(self) -> None:
        client, states = self.client(give_up_after=1)
        client.create(f"{dirname(self.folder)}/held", ephemeral=True)
        lock, ends = client.Lock(self.folder), Seen()
        lock.acquire()

        def take_anew() -> None:
            ends(lock.release())
            ends(lock.acquire())

        with self.away():
            self.assertEqual(states.wait(3), [SUSPENDED, LOST, CONNECTED])
            client.handler.spawn(take_anew)
            self.assertEqual(ends.wait(2), [True, True])
            self.assertFalse(self.client(DEADLINE_S)[0].Lock(self.folder).acquire(blocking=False))


class TestTheHomeIsAwayGrown(TestTheHomeIsAway):
    """The same where pins decide."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = LocalCluster(ensembles=cls.ensembles, servers=1, make_map=False)
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()
        ensembles = cls.cluster.ensembles
        init_map(ensembles[0].hosts, {each.name: each.hosts for each in ensembles}, form="grown")

    def test_a_dictionary_without_entries(self) -> None:
        """It is kept without the ensemble that its entries will be on."""
        empty = self._new(AWAY)
        for path in (empty, next(self._beside(empty, AWAY))):
            with self.subTest(path):
                client, _ = self.client()
                mine = self._dictionary(client, path)
                self.assertEqual((mine.is_stale, mine.get("x")), (False, None))
                self.assertNotIn("c", client.members)
                self.watcher.create(f"{path}/x", b"1", makepath=True)
                wait_until(lambda mine=mine: mine.get("x") == 1 and not mine.is_stale, "the entry")

    def test_a_dictionary_whose_ensemble_is_away(self) -> None:
        """It is stale if it has entries there."""
        empty, full = self._new(AWAY), self._new(AWAY)
        self.watcher.create(f"{full}/x", b"1")
        client = self.joined(timeout=TIMEOUT_S)
        kept, lost = self._dictionary(client, empty), self._dictionary(self.client()[0], full)
        self.assertEqual((kept.get("x"), lost.get("x")), (None, 1))
        with self.away():
            wait_until(lambda: client.state_of(f"{empty}/x") == SUSPENDED, "the loss")
            self.assertEqual((kept.is_stale, kept.get("x")), (False, None))
            wait_until(lambda: lost.is_stale, "it is stale")
            self.assertRaises(ConnectionLoss, lost.get, "x")
        wait_until(lambda: lost.get("x") == 1 and not lost.is_stale, "it is kept again")

    def _new(self, ensemble: int) -> str:
        """A new znode of the root, whose children will be on this ensemble."""
        path = next(self._beside(self.root, ensemble))
        self.watcher.create(path)
        return path

    def _beside(self, path: str, ensemble: int) -> Iterator[str]:
        """Such paths beside this one."""
        paths = (f"{path}-{number}" for number in count() if not self.watcher.exists(f"{path}-{number}"))
        return (each for each in paths if self.placement.of_children(each) == ensemble)

    def _dictionary(self, client: ParKazooClient, path: str) -> DistributedDict:
        made = client.DistributedDict(path, Watch(raises=True))
        self.addCleanup(made.close)
        return made
