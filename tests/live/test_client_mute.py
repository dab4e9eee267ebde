"""A server that can be heard, and does not hear: its events come, and the session expires."""

from __future__ import annotations

from kazoo.protocol.states import KazooState

from tests.live.test_crowd import RelayedTest
from tests.live.world import wait_until

MANY = 1000


class TestMute(RelayedTest):
    def test_suspended_before_the_session_expires(self) -> None:
        client = self.parkazoo(hosts=self.hosts, timeout=10.0)
        directory = self.path_on(client, 1, self.new_root(client))
        client.create(f"{directory}/e", ephemeral=True)
        watched = [client.create(f"{directory}/{number}") for number in range(MANY)]
        events: list[str] = []
        for path in watched:
            client.get(path, watch=lambda event: events.append(event.path))
        states: list[str] = []
        client.add_listener(states.append)
        other = self.kazoo(1)
        is_expired = other.handler.event_object()
        path = self.home(f"{directory}/e").path
        self.assertTrue(other.exists(path, watch=lambda event: is_expired.set()))
        self.relays[1].mute()

        def is_suspended() -> bool:
            if watched:
                other.set(self.home(watched.pop()).path, b"")
            return KazooState.SUSPENDED in states

        wait_until(is_suspended, "the client notices that nobody hears it")
        self.assertFalse(is_expired.is_set())
        self.assertGreater(len(events), 20)
        wait_until(is_expired.is_set, "the session expires")
