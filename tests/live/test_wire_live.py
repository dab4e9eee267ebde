"""An ensemble is lost for a moment, a server is frozen, credentials come late: what a client sees."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

from kazoo.protocol.states import EventType, KazooState

from parkazoo.admin import init_map
from parkazoo.errors import ClusterMapError
from parkazoo.local import HOST, LocalCluster
from parkazoo.protocol.placement import MAP
from tests.live.test_client_watches import NONE, WatchTest
from tests.live.world import DEADLINE_S, LiveTest, Seen, wait_until
from tests.relay import Relay

CONNECTED, SUSPENDED = KazooState.CONNECTED, KazooState.SUSPENDED


class TestWatches(WatchTest):
    """As with kazoo: at SUSPENDED every watch gets NONE once and is dropped, whatever ensemble it is on."""

    def leave_all(self, paths: list[str], leave: Callable[[str], Any]) -> list[Seen]:
        """A watch of each kind on each path."""
        watches = []
        for path in paths:
            for read, suffix in (
                (self.client.get, ""),
                (self.client.exists, ""),
                (self.client.exists, "/none"),
                (self.client.get_children, ""),
            ):
                seen = Seen()
                read(path + suffix, watch=leave(seen))
                watches.append(seen)
        return watches

    def flap(self, name: str, states: Seen) -> None:
        """Break the connection to that ensemble, and wait until the client is CONNECTED again."""
        count = len(states)
        self.client.members[name]._connection._socket.shutdown(socket.SHUT_RDWR)
        states.wait(count + 2)
        self.assertEqual(states[count:], [SUSPENDED, CONNECTED])

    def test_each_is_told_once(self) -> None:
        self.client.join(timeout=DEADLINE_S)
        paths = [path for _, path in self.directories()] + self.on_each(self.other)
        states = Seen()
        self.client.add_listener(states)
        for name in self.client.members:
            with self.subTest(lost=name):
                watches = self.leave_all(paths, lambda seen: seen)
                self.flap(name, states)
                for seen in watches:
                    seen.wait()
                for path in paths:
                    self.other.set(path, b"")
                    self.other.delete(self.other.create(f"{path}/none"))
                self.settle(self.client, *paths)
                told = {tuple((event.type, event.path) for event in seen) for seen in watches}
                self.assertEqual(told, {((NONE, None),)})

    def test_programs_that_set_them_again(self) -> None:
        """A new function at each CONNECTED, as most do: after six flaps a change calls one of them."""
        self.client.join(timeout=DEADLINE_S)
        paths = [path for _, path in self.directories()] + self.on_each(self.other)
        states, told, ready = Seen(), Seen(), Seen()

        def set_again() -> None:
            for path in paths:
                for read in (self.client.get, self.client.get_children):
                    read(path, watch=partial(tell))
            ready(True)

        def tell(event: Any) -> None:
            if event.type != NONE:
                told(event)

        def listen(state: str) -> None:
            states(state)
            if state == CONNECTED:
                self.client.handler.spawn(set_again)

        set_again()
        self.client.add_listener(listen)
        for count, name in enumerate([*self.client.members] * 2):
            self.flap(name, states)
            ready.wait(count + 2)
        for path in paths:
            self.other.set(path, b"")
            self.other.create(f"{path}/x")
        told.wait(2 * len(paths))
        self.settle(self.client, *paths)
        events = sorted((event.path, event.type) for event in told)
        expected = [(path, kind) for path in paths for kind in (EventType.CHANGED, EventType.CHILD)]
        self.assertEqual(events, sorted(expected))


class TestCredentials(LiveTest):
    def test_among_requests(self) -> None:
        """Servers answer to credentials before earlier requests; each answer finds its own."""
        client = self.parkazoo()
        root = self.new_root(client)
        paths = [client.create(f"{root}/{number}", b"%d" % number) for number in range(30)]
        states = Seen()
        client.add_listener(states)
        reads, auths = [], []
        for turn in range(10):
            reads += [client.get_async(path) for path in paths]
            auths.append(client.add_auth_async("digest", f"user{turn}:x"))
            reads += [client.get_async(path) for path in paths]
        for number, read in enumerate(reads):
            self.assertEqual(read.get(timeout=DEADLINE_S)[0], b"%d" % (number % 30))
        for auth in auths:
            self.assertTrue(auth.get(timeout=DEADLINE_S))
        self.assertEqual(states, [])


class TestCopy(LiveTest):
    def test_one_that_has_disappeared(self) -> None:
        """A client that has no other server says who these are; one that has begins elsewhere, and works there."""
        plain, (a, b, _) = self.kazoo(1), (each.hosts for each in self.cluster.ensembles)
        data, _ = plain.get(MAP)
        plain.delete(MAP)
        self.addCleanup(plain.create, MAP, data)
        client = self.parkazoo(hosts=b, start=False)
        with self.assertRaises(ClusterMapError) as caught:
            client.start(DEADLINE_S)
        for text in (b, "ensemble b of cluster"):
            self.assertIn(text, str(caught.exception))
        other = self.parkazoo(hosts=f"{b},{a}")
        other.join(timeout=DEADLINE_S)
        self.assertEqual(len(other.members), 3)


class TestOutage(LiveTest):
    """Of an ensemble whose servers have names."""

    cluster: LocalCluster

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = LocalCluster(ensembles=2, servers=1, make_map=False)
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()

    def test_log(self) -> None:
        real = [each.hosts for each in self.cluster.ensembles]
        relay = Relay(real[1])
        self.addCleanup(relay.stop)
        named = [each.replace(HOST, "localhost") for each in (real[0], relay.address)]
        init_map(bootstrap=named[0], ensembles=dict(zip("ab", named, strict=True)))
        lines: list[tuple[str, str]] = []
        note = logging.Handler(logging.WARNING)
        note.emit = lambda record: lines.append((record.name, record.getMessage()))  # type: ignore[method-assign]
        logging.getLogger("parkazoo").addHandler(note)
        self.addCleanup(logging.getLogger("parkazoo").removeHandler, note)
        client = self.parkazoo(hosts=named[0])
        of_children = client.cluster_map.make_placement().of_children
        parent = next(path for path in (f"/{number}" for number in range(100)) if of_children(path) == 1)
        client.create(f"{parent}/held", ephemeral=True, makepath=True)
        lines.clear()  # the name may have an address where no server listens
        before = client.client_id
        relay.refuse()
        wait_until(lambda: client.state == SUSPENDED, "suspended")
        wait_until(lambda: any("refused" in text for _, text in lines), "an attempt")
        relay.admit()
        wait_until(lambda: client.connected, "connected again")
        self.assertEqual(client.client_id, before)
        self.assertEqual({name for name, _ in lines}, {"parkazoo.b"})
        for _, text in lines:
            self.assertTrue(text.startswith("ensemble b: "), text)
        lost = [text for _, text in lines if "lost the connection" in text]
        back = [text for _, text in lines if "back after" in text]
        self.assertEqual((len(lost), len(back)), (1, 1), lines)
        self.assertIn(named[1], lost[0])
        self.assertIn(named[1], back[0])
        others = [text for _, text in lines if text not in (*lost, *back)]
        self.assertEqual(len(others), len({*others}), lines)  # each reason once
        self.assertIn(f"ensemble b: {named[1]}: Connection refused", others)


class TestFrozen(LiveTest):
    """One of three servers is stopped in its tracks: it accepts and never answers."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = LocalCluster(ensembles=1, servers=3)
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()

    def test_start_and_reconnect(self) -> None:
        """It was asked, was too slow, and the next server was asked. The session goes on."""
        ensemble = self.cluster.ensembles[0]
        leader = ensemble.leader()
        frozen, other = (each for each in ensemble.servers if each is not leader)
        frozen.freeze()
        self.addCleanup(frozen.thaw)
        overtaken = f"{frozen.address}: no answer to Connect within "
        for first, *rest in ([frozen, other, leader], [other, frozen, leader]):
            with self.assertLogs("parkazoo", "WARNING") as logged:
                hosts = ",".join(each.address for each in (first, *rest))
                client = self.parkazoo(hosts=hosts, randomize_hosts=False, timeout=60.0)
                states = Seen()
                client.add_listener(states)
                session = client.client_id
                client.create("/ours", ephemeral=True)
                if first is not frozen:
                    client.members["a"]._connection._socket.shutdown(socket.SHUT_RDWR)
                    states.wait(2)
                    self.assertEqual([*states], [SUSPENDED, CONNECTED])
            self.assertIn(overtaken, "\n".join(logged.output))
            self.assertEqual(client.client_id, session)
            self.assertEqual(client.exists("/ours").ephemeralOwner, session[0])
            client.stop()
