"""A client whose map says that a directory moves while it is at work: what it holds, and for how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from kazoo.exceptions import (
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    NoNodeError,
    NotReadOnlyCallError,
    SessionExpiredError,
)
from kazoo.protocol.states import EventType, WatchedEvent

from parkazoo.engine.holding import MOST_LOOKS, MOST_PAUSE_S
from parkazoo.engine.map_events import LATER_S, MOST_TURNS, TURN_S
from parkazoo.engine.moves import UNTOLD_S
from parkazoo.kazoo_private import Create, Delete, Exists, GetData, SetData
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.moving import Moving, mark_of, old_mark_of
from parkazoo.protocol.outlasting import outlasting
from parkazoo.protocol.pin import encode_pin
from parkazoo.protocol.placement import ENSEMBLE, MAP, PIN, mirror_path
from parkazoo.protocol.steps import ask
from tests.engine.test_session_forms import FormTest
from tests.fakes.client import Client
from tests.fakes.member import CONNECT_S, STAT, Ensemble
from tests.fakes.result import BodyResult, Result

D, NAME = "/d", "0123456789abcdef" * 2
MARK, OLD_MARK = f"{D}/{PIN}/{mark_of(NAME)}", f"{D}/{PIN}/{old_mark_of(NAME)}"
OLD, NEW = mirror_path(D), mirror_path(D, NAME)
PATIENCE_S = 2 * MOST_LOOKS * MOST_PAUSE_S


class TotalClient(Client):
    has_total_order = True


def answer(ensemble: Ensemble, right: Any, request: Any) -> Any:
    """As an ensemble that has its data."""
    path = getattr(request, "path", "")
    if not path.startswith((D, "/parkazoo/mirrors", "/parkazoo/fences")):
        return right(request)
    ensemble.seen.append(request)
    if isinstance(request, Exists):
        return STAT if path in ensemble.data else None
    if path not in ensemble.data:
        return NoNodeError()
    if isinstance(request, GetData):
        return ensemble.data[path], STAT
    if isinstance(request, Delete) and request.version == -1:
        del ensemble.data[path]
        return True
    return STAT if isinstance(request, SetData) else BadVersionError()


class TestMoves(FormTest):
    """The directory's home is on the ensemble of `/`, and its children move between the two others."""

    def at_work(self, kind: type[Client] = Client, joins: Sequence[int] = (0, 1, 2)) -> Client:
        """:param joins: home, source and target, as far as the client has joined them."""
        client = kind(first="abc")
        self.publish(client, Form.GROWN)
        for ensemble in client.ensembles.values():
            ensemble.answer = partial(answer, ensemble, ensemble.answer)  # type: ignore[method-assign]
        placement = client.map.make_placement()
        self.home = client.map.names[placement.of_children("/")]
        self.source, self.target = (name for name in "abc" if name != self.home)
        self.data = client.ensembles[self.home].data
        self.data |= {D: b"", f"{D}/{PIN}": self.pin(self.source)}
        client.ensembles[self.source].data |= {OLD: b"", f"{OLD}/x": b"old"}
        client.runtime.turn(CONNECT_S)
        for at in joins:
            self.ask(client, (self.home, self.source, self.target)[at])
        client.runtime.turn(CONNECT_S)
        client.states.clear()
        return client

    def pin(self, name: str, generation: str = "") -> bytes:
        return encode_pin(STAT, name, generation)

    def say(self, client: Client, move: Moving | None) -> None:
        client.map = client.map.with_move(move)
        for ensemble in client.ensembles.values():
            ensemble.data[MAP] = client.map.to_json()
        self.hear(client, self.home)
        client.runtime.turn(0.02)

    def announce(self, client: Client, clients: int = 0) -> Moving:
        self.data[MARK] = b""
        move = Moving(D, NAME, self.source, "", self.target, clients=clients)
        self.say(client, move)
        return move

    def switch(self, client: Client) -> None:
        del self.data[MARK]
        self.data |= {f"{D}/{PIN}": self.pin(self.target, NAME), OLD_MARK: b""}
        client.ensembles[self.target].data |= {NEW: b"", f"{NEW}/x": b"new"}

    def get(self, client: Client, path: str = f"{D}/x") -> Result:
        result = Result()
        client.session.call(GetData(path, None), result)
        client.runtime.turn(0.02)
        return result

    def said_at_source(self, client: Client) -> int:
        return self.said(client)[self.source][1]

    def assert_said(self, client: Client, epoch: int) -> None:
        """Where the children have been at once; everywhere later."""
        self.assertEqual(self.said_at_source(client), epoch)
        client.runtime.turn(3 * LATER_S)
        self.assertEqual(self.epochs(client), [epoch] * 3)

    def looks(self, client: Client) -> int:
        return sum(isinstance(each, Exists) and each.path == MARK for each in client.ensembles[self.home].seen)

    def test_held_until_it_has_moved(self) -> None:
        client = self.at_work()
        self.assertEqual(self.get(client).value[0], b"old")
        self.announce(client)
        self.assert_said(client, 3)
        seen = len(client.ensembles[self.source].seen)
        held, other = self.get(client), self.get(client, D)
        self.assertEqual(held.told, [])
        self.assertEqual(self.get(client, f"{D}2").value.__class__, NoNodeError)
        client.runtime.turn(1)
        self.assertEqual((held.told, other.told), ([], [other.value] if other.told else []))
        self.switch(client)
        client.runtime.turn(MOST_PAUSE_S)
        self.assertEqual(held.value[0], b"new")
        self.assertEqual(self.get(client).value[0], b"new")
        self.assertEqual(len(client.ensembles[self.source].seen), seen)
        self.assertEqual(client.states, [])

    def test_what_is_handed_on_as_bytes(self) -> None:
        """Nothing of the directory, until it has moved and a place is known again."""
        client = self.at_work()

        def is_placed(path: str = f"{D}/x") -> bool:
            found = client.session.call_placed(GetData.type, path, b"\0", BodyResult())
            client.runtime.turn(0.02)
            return found

        self.assertFalse(is_placed())
        self.assertEqual(self.get(client).value[0], b"old")
        self.assertTrue(is_placed())
        self.announce(client)
        self.assertFalse(is_placed())
        self.assertFalse(is_placed(f"{D}/x/y"))
        held = self.get(client)
        self.switch(client)
        client.runtime.turn(MOST_PAUSE_S)
        self.assertEqual(held.value[0], b"new")
        self.assertTrue(is_placed())
        self.assertEqual(client.ensembles[self.target].seen[-1].path, f"{NEW}/x")

    def test_turns(self) -> None:
        """Of the next map, for a client that has nothing to do there; its operations wait for no turn."""
        for is_watched in (False, True):
            with self.subTest(is_watched=is_watched):
                client = self.at_work()
                move = self.announce(client, clients=MOST_TURNS)
                self.assertEqual(self.said_at_source(client), 3)
                if is_watched:
                    client[self.source].watches.append((f"{OLD}/x", print))
                self.switch(client)
                client.map = client.map.with_move(move._replace(has_switched=True))
                for name, ensemble in client.ensembles.items():
                    ensemble.data[MAP] = client.map.to_json()
                    client.session.map_told(client[name])
                client.runtime.turn(0)
                self.assertEqual(client.session.registering.epoch, 4 if is_watched else 3)
                self.assertEqual(self.get(client).value[0], b"new")
                client.runtime.turn(2 * MOST_TURNS * TURN_S)
                self.assert_said(client, 4)

    def test_what_is_said_later(self) -> None:
        """It is said at once where a connection comes back; everywhere, if the map has changed otherwise too."""
        client = self.at_work()
        self.announce(client)
        client[self.home].lose()
        client.ensembles[self.home].is_up = True
        client.runtime.turn(CONNECT_S)
        said = self.said(client)
        self.assertEqual([said[name][1] for name in (self.home, self.source, self.target)], [3, 3, 2])
        client.map = replace(client.map, retired=("x",))
        del self.data[MARK]
        self.say(client, None)
        self.assertEqual(self.epochs(client), [4] * 3)

    def test_called_off(self) -> None:
        client = self.at_work()
        move = self.announce(client)
        held = self.get(client)
        del self.data[MARK]
        client.runtime.turn(MOST_PAUSE_S)
        self.assertEqual(held.value[0], b"old")
        self.say(client, None)
        self.assert_said(client, 4)
        self.assertEqual(client.map.moved, move.name)

    def test_a_home_that_is_cut_off(self) -> None:
        """Its server takes no write. Reads get what it has, whether the mark was seen before or not."""
        client = self.at_work()
        self.announce(client)
        held, home = self.get(client), client.ensembles[self.home]
        self.assertEqual(held.told, [])
        right = home.answer
        home.answer = lambda request: (  # type: ignore[method-assign]
            NotReadOnlyCallError() if isinstance(request, (Delete, SetData)) else right(request)
        )
        client.runtime.turn(PATIENCE_S)
        self.assertEqual(held.value[0], b"old")
        later, write = self.get(client), Result()
        client.session.call(SetData(f"{D}/x", b"new", -1), write)
        client.runtime.turn(MOST_PAUSE_S)
        self.assertEqual((later.value[0], type(write.value)), (b"old", NotReadOnlyCallError))
        home.answer = right  # type: ignore[method-assign]
        self.switch(client)
        client.runtime.turn(PATIENCE_S)
        self.assertEqual(self.get(client).value[0], b"new")

    def test_patience(self) -> None:
        """The command has died: a holder calls the move off."""
        client = self.at_work()
        self.announce(client)
        client.runtime.turn(PATIENCE_S)
        self.assertIn(MARK, self.data)
        held = self.get(client)
        client.runtime.turn(PATIENCE_S)
        self.assertEqual((held.value[0], MARK in self.data), (b"old", False))

    def test_nobody_is_in_its_way(self) -> None:
        """A client that holds nothing does not look; it says that all has moved when it has looked then."""
        client = self.at_work()
        move = self.announce(client)
        client.runtime.turn(PATIENCE_S)
        self.assertEqual(self.looks(client), 0)
        self.switch(client)
        self.say(client, move._replace(has_switched=True))
        self.assert_said(client, 4)
        self.assertEqual(self.looks(client), 1)
        self.say(client, None)
        self.assert_said(client, 5)

    def test_the_command_dies_behind_the_switch(self) -> None:
        """The map does not say that the children have moved. Who has watches there finds out."""
        for is_watched in (True, False):
            with self.subTest(is_watched=is_watched):
                client = self.at_work()
                self.announce(client)
                if is_watched:
                    client[self.source].watches.append((f"{OLD}/x", print))
                client.runtime.turn(3 * UNTOLD_S)
                self.assertIn(self.looks(client), range(1, 5) if is_watched else [0])
                self.switch(client)
                client.runtime.turn(2 * UNTOLD_S)
                self.assertEqual(client[self.source].watches, [])
                left = [each for each in client.ensembles[self.target].seen if hasattr(each, "watcher")]
                self.assertEqual([each.path for each in left if each.watcher], [f"{NEW}/x"] * is_watched)
                self.assertEqual(self.get(client).value[0], b"new")
                self.assert_said(client, 3)

    def test_held_while_it_looks_for_its_watches(self) -> None:
        """It goes on looking, and loses patience."""
        client = self.at_work()
        self.announce(client)
        client[self.source].watches.append((f"{OLD}/x", print))
        client[self.home].is_slow = True
        client.runtime.turn(UNTOLD_S)
        held = self.get(client)
        client[self.home].is_slow = False
        self.ask(client, self.home)
        client.runtime.turn(PATIENCE_S)
        self.assertEqual((held.value[0], MARK in self.data), (b"old", False))

    def test_a_join_beside_it(self) -> None:
        """What waits for it goes on: it cannot use the place of before."""
        client, asked = self.at_work(joins=(0, 1)), Result()
        assert client.session.driver is not None
        operation = ask(client.session.roster.names.index(self.target), GetData(ENSEMBLE, None))
        client.session.driver.run(operation, asked)
        client.runtime.turn(0.02)
        self.announce(client)
        self.assertEqual(asked.told, [])
        client.runtime.turn(2 * CONNECT_S)
        self.assertEqual(asked.value[0], client.identity(self.target))
        self.assert_said(client, 3)

    def test_it_does_not_say_it_before(self) -> None:
        """The home is away: nobody knows yet where the children are."""
        client = self.at_work()
        move = self.announce(client)
        self.switch(client)
        client[self.home].is_slow = True
        client.map = client.map.with_move(move._replace(has_switched=True))
        client.ensembles[self.source].data[MAP] = client.map.to_json()
        self.hear(client, self.source)
        client.runtime.turn(1)
        self.assertEqual(self.said_at_source(client), 3)
        client[self.home].is_slow = False
        client.runtime.turn(1)
        self.assertEqual(self.get(client).value[0], b"new")

    def test_stopped(self) -> None:
        client = self.at_work()
        self.announce(client)
        held = self.get(client)
        client.session.stop(lambda: None)
        client.runtime.turn(2 * CONNECT_S)
        self.assertIsInstance(held.value, ConnectionClosedError)

    def test_lost(self) -> None:
        client = self.at_work()
        self.announce(client)
        held = self.get(client)
        client.session.expire("a test wants it")
        client.runtime.turn(0)
        self.assertIsInstance(held.value, SessionExpiredError)
        client.runtime.turn(2 * CONNECT_S)
        again = self.get(client)
        self.assertEqual(again.told, [])
        self.switch(client)
        client.runtime.turn(MOST_PAUSE_S)
        self.assertEqual(again.value[0], b"new")

    def test_the_home_is_lost(self) -> None:
        """As any operation that needs it."""
        client = self.at_work()
        self.announce(client)
        held = self.get(client)
        client[self.home].is_slow = True
        client.runtime.turn(MOST_PAUSE_S)
        client[self.home].lose()
        client.runtime.turn(MOST_PAUSE_S)
        self.assertIsInstance(held.value, ConnectionLoss)

    def test_the_home_is_away_and_another_moves(self) -> None:
        """The map waits for nobody who has nothing there. What the client did elsewhere ends, and it says so."""
        client = self.at_work()
        self.announce(client)
        held, home = self.get(client), client[self.home]
        home.is_slow = True
        client.runtime.turn(1)
        client.map = client.map.with_move(None)
        other = Moving("/e", NAME[::-1], self.source, "", self.target)
        client.map = client.map.with_move(other)
        client.ensembles[self.source].data[MAP] = client.map.to_json()
        self.hear(client, self.source)
        client.runtime.turn(0.02)
        self.assertEqual(self.said_at_source(client), 3)
        assert client.session.driver is not None
        hold = client.session.driver.context.hold
        self.assertEqual((held.told, hold and hold.moving), ([], other))
        del self.data[MARK]
        home.is_slow = False
        self.ask(client, self.home)
        client.runtime.turn(0.1)
        self.assertEqual(held.value[0], b"old")
        self.assert_said(client, 5)

    def test_forgotten_meanwhile(self) -> None:
        """The client makes the directory again and again, in vain, and so forgets where its children are."""
        client = self.at_work()
        move = self.announce(client)
        watch = f"{OLD}/x", print
        client[self.source].watches.append(watch)
        client[self.source].ephemerals, client[self.target].ephemerals = [f"{OLD}/e"], [f"{NEW}/e"]
        home = client.ensembles[self.home]
        right = home.answer

        def make_beside(request: Any) -> Any:
            if getattr(request, "path", "") == f"{D}/{PIN}":
                client.session.call(Create(D, b"", [], 0), Result())
            return right(request)

        home.answer = make_beside  # type: ignore[method-assign]
        self.switch(client)
        self.say(client, move._replace(has_switched=True))
        self.assertEqual(client[self.source].watches, [])
        left = [each for each in client.ensembles[self.target].seen if getattr(each, "watcher", None) is print]
        self.assertEqual([each.path for each in left], [f"{NEW}/x"])
        self.assertEqual((client[self.source].ephemerals, client[self.target].ephemerals), ([], [f"{NEW}/e"]))

    def test_over_while_the_old_place_was_away(self) -> None:
        """A watch that has outlasted the connection there would hear of nothing more."""
        client, told = self.at_work(), list[WatchedEvent]()

        @outlasting
        def lasting(event: WatchedEvent) -> None:
            told.append(event)

        self.announce(client)
        client[self.source].watches += [(f"{OLD}/x", lasting), ("/other", lasting)]
        client[self.source].lose()
        self.switch(client)
        self.say(client, None)
        self.assertEqual(client[self.source].watches, [("/other", lasting)])
        for call in client.runtime.dispatched:
            call()
        self.assertEqual([event.type for event in told], [EventType.NONE])

    def test_watches_come_first(self) -> None:
        """No operation sees the new place before the watches of the old one have been told."""
        client = self.at_work()
        move = self.announce(client)
        client[self.source].watches.append((f"{OLD}/x", print))
        client[self.source].is_slow = True
        self.switch(client)
        self.say(client, move._replace(has_switched=True))
        early = self.get(client)
        self.assertEqual(early.told, [])
        client[self.source].is_slow = False
        self.ask(client, self.source)
        client.runtime.turn(MOST_PAUSE_S)
        self.assertEqual(early.value[0], b"new")
        readers = [
            getattr(each, "watcher", None)
            for each in client.ensembles[self.target].seen
            if getattr(each, "path", "") == f"{NEW}/x"
        ]
        self.assertEqual(readers, [print, None])

    def test_stopped_behind_the_last_look(self) -> None:
        """An operation that reads the pin then is not held: nobody would look for it."""
        client = self.at_work()
        self.announce(client)
        held = self.get(client)
        home = client[self.home]
        home.is_slow = True
        client.runtime.turn(MOST_PAUSE_S)  # a look is under way
        late = self.get(client)
        client.session.stop(lambda: None)
        client.runtime.turn(0)
        home.is_slow = False
        client.runtime.turn(2 * CONNECT_S)
        self.assertIsInstance(held.value, ConnectionClosedError)
        self.assertEqual(len(late.told), 1)

    def test_one_order(self) -> None:
        """What is issued behind a held operation waits for it; so does what waited when the map came."""
        client = self.at_work(TotalClient)
        client[self.source].is_slow = True
        results = [Result() for _ in range(4)]
        for path, result in zip((f"{D}/x", "/other", f"{D}/x"), results, strict=False):
            client.session.call(GetData(path, None), result)
        client.runtime.turn(0.02)
        self.announce(client)
        self.assertEqual(self.said_at_source(client), 2)
        client[self.source].is_slow = False
        self.ask(client, self.source)
        client.runtime.turn(0.1)
        self.assertEqual((results[0].value[0], type(results[1].value)), (b"old", NoNodeError))
        client.session.call(GetData("/other", None), results[3])
        client.runtime.turn(0.5)
        self.assertEqual((results[2].told, results[3].told, self.said_at_source(client)), ([], [], 3))
        self.switch(client)
        client.runtime.turn(MOST_PAUSE_S)
        self.assertEqual((results[2].value[0], type(results[3].value)), (b"new", NoNodeError))
