"""The order of operations, interrupted at each point by a signal handler: the others give up their claims."""

from __future__ import annotations

import unittest
from collections.abc import Callable

from parkazoo.protocol import order as order_module
from parkazoo.protocol.order import ADD, COUNT, LIST, OWN, READ, TRUST, WRITE, Order, Turn, children
from tests.interruption import each_interruption

Call = Callable[[Order[Turn]], object]


def entering(*claims: tuple[str, int]) -> Call:
    return lambda order: order.enter(Turn(dict(claims)), {})


CALLS: dict[str, Call] = {
    "a read of what is read": lambda order: order.claim_node("/a", READ),
    "a write of a new znode": lambda order: order.claim_node("/x", WRITE),
    "a count": lambda order: order.claim_node("/c", COUNT),
    "a write waits for reads": entering(("/a", WRITE), (children("/a"), OWN)),
    "a listing beside counts": entering(("/a", READ), (children("/a"), LIST)),
    "a write waits for trust": entering(("/d", WRITE), (children("/c"), ADD)),
    "a read waits in a queue": entering(("/e", READ)),
    "a write that starts": entering(("/x", WRITE), (children("/x"), ADD)),
    "a read has ended": lambda order: order.release_node("/f", READ),
    "a write has ended": lambda order: order.release_node("/b", WRITE),
    "a count has ended": lambda order: order.release_node("/c", COUNT),
}


class Others:
    """What other threads have under way, and a thread that is interrupted in a call."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def prepare(self) -> Callable[[], object]:
        self.order = order = Order[Turn]()
        self.trusting = Turn({"/d": TRUST})
        assert order.claim_trust(self.trusting, "/d", {"/d": TRUST})
        for path, mode in (("/a", READ), ("/a", READ), ("/a", COUNT), ("/c", COUNT), ("/c", COUNT)):
            assert order.claim_node(path, mode)
        self.writing, waiting = Turn({"/e": WRITE, children("/e"): ADD}), Turn({"/e": READ})
        assert order.enter(self.writing, self.writing.claims)
        assert not order.enter(waiting, waiting.claims)
        assert order.claim_node("/b", WRITE)
        assert order.claim_node("/f", READ)
        return lambda: self._call(order)

    def check(self) -> None:
        """None of these may raise."""
        for path, mode in (("/a", READ), ("/a", READ), ("/a", COUNT), ("/c", COUNT)):
            self.order.release_node(path, mode)
        self.order.leave(self.writing, {"/e": TRUST})
        self.order.leave(self.writing, {})
        self.order.leave(self.trusting, {})


class TestInterrupted(unittest.TestCase):
    def test_others_end(self) -> None:
        for name, call in CALLS.items():
            with self.subTest(name):
                others = Others(call)
                points = each_interruption(others.prepare, others.check, {order_module.__file__})
                self.assertGreater(points, 10)
