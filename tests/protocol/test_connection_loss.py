"""A lost connection ends an operation there and then."""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import ConnectionLoss
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.kazoo_private import Auth, Create2, Delete, GetChildren2, GetData, SetACL, Sync, Transaction
from parkazoo.protocol.plans import PLANS
from tests.explore.directories import create
from tests.protocol.traces import MIRRORED, TracedTest

X = MIRRORED + "/x"


class TestConnectionLoss(TracedTest):
    """Nothing is tried again by itself."""

    SITUATIONS = (
        ("first child", [create(MIRRORED)], create(X)),
        ("first child, with stat", [create(MIRRORED)], Create2(X, b"", OPEN_ACL_UNSAFE, 0)),
        ("delete", [create(MIRRORED), create(X), Delete(X, -1)], Delete(MIRRORED, -1)),
        ("get", [create(MIRRORED), create(X)], GetData(MIRRORED, None)),
        ("listing", [create(MIRRORED)], GetChildren2(MIRRORED, None)),
        ("set_acls", [create(MIRRORED), create(X)], SetACL(MIRRORED, OPEN_ACL_UNSAFE, -1)),
        ("sync", [], Sync(MIRRORED)),
        ("credentials", [], Auth(0, "digest", "u:p")),
        ("transaction", [create(MIRRORED)], Transaction([create(X), create(MIRRORED + "/y")])),
        (
            "transaction with a delete",
            [create(MIRRORED), create(X), Delete(X, -1)],
            Transaction([Delete(MIRRORED, -1)]),
        ),
    )

    def test_every_step(self) -> None:
        for name, before, request in self.SITUATIONS:
            self.setUp()
            for each in before:
                self.perform(each)
            count = len(self.perform(request)[1])
            for lost in range(count):
                with self.subTest(name, lost=lost):
                    self.setUp()
                    for each in before:
                        self.perform(each)
                    self.assertLess(self.lose(request, lost), count - lost + 1)

    def lose(self, request: Any, lost: int) -> int:
        """Answer the request number `lost` by ConnectionLoss; how many were sent with or after it."""
        operation = PLANS[request.type].operation(self.context, request)
        answers: Any = None
        sent = 0
        with self.assertRaises(ConnectionLoss):
            while True:
                steps = operation.send(answers)
                self.assertLessEqual(sent, lost, "it sent more after the loss")
                answers = []
                for step in steps:
                    answers.append(ConnectionLoss() if sent == lost else self.model.execute(*step))
                    sent += 1
        return sent - lost
