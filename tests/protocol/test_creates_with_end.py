"""Creates of znodes that end by themselves: what they send, and where they are refused."""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import BadArgumentsError, UnimplementedError
from kazoo.security import OPEN_ACL_UNSAFE, make_acl

from parkazoo.kazoo_private import CheckVersion, Exists, GetData, Transaction
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.newer_requests import CreateContainer, CreateContainerIfAble, CreateTTL
from parkazoo.protocol.placement import logical
from parkazoo.protocol.plans import PLANS
from parkazoo.protocol.rights import is_secret
from parkazoo.protocol.where.places import Places, by_first
from tests.explore.alone import outcome
from tests.explore.directories import create
from tests.protocol.traces import MIRRORED, NATIVE, PLACEMENT, TracedTest


def create_ttl(path: str, flags: int = 0) -> CreateTTL:
    return CreateTTL(path, b"1", OPEN_ACL_UNSAFE, flags, 7)


def create_container(path: str) -> CreateContainer:
    return CreateContainer(path, b"", OPEN_ACL_UNSAFE, 0)


class EndingTest(TracedTest):
    def made(self, request: Any) -> list[str]:
        """What it takes."""
        made, sent = self.perform(request)
        self.assertNotIsInstance(made, Exception)
        return sent


class TestTTL(EndingTest):
    def test_a_leaf(self) -> None:
        """It takes what another leaf takes, and is asked about with one request."""
        for parent in (NATIVE, MIRRORED):
            self.made(create(parent))
            self.made(create(f"{parent}/x"))
            self.assertEqual(len(self.made(create_ttl(f"{parent}/y"))), 1)
            self.assertEqual(len(self.made(Exists(f"{parent}/y", None))), 1)
            self.assertEqual(self.perform(GetData(f"{parent}/y", None))[0][0], b"1")
        made, _ = self.perform(create_ttl(f"{MIRRORED}/s-", 2))
        self.assertEqual(logical(made), f"{MIRRORED}/s-0000000002")

    def test_the_first_child(self) -> None:
        self.made(create(MIRRORED))
        self.assertEqual(self.made(create_ttl(f"{MIRRORED}/y"))[-1], "M CreateTTL y")

    def test_whose_acl_is_secret(self) -> None:
        """A directory would be promoted at once, which would keep it for ever."""
        acl = [make_acl("world", "anyone", create=True), make_acl("digest", "u:p", all=True)]
        self.assertTrue(is_secret(acl))
        self.assertEqual(len(self.made(create_ttl(MIRRORED)._replace(acl=acl))), 1)

    def test_below_a_proof(self) -> None:
        """Where pins decide, it is made in one multi with the check of the proof."""
        self.context = self.context.risen(Form.GUARDED, Places(PLACEMENT, by_first(PLACEMENT)))
        self.made(create(NATIVE))
        for name in "xyz":
            log: list[Any] = []
            request = create_ttl(f"{NATIVE}/{name}")
            made = outcome(self.model, PLANS[request.type].operation(self.context, request), log=log)
            self.assertEqual(made, f"{NATIVE}/{name}")
        ensemble = PLACEMENT.of_children(NATIVE)
        proof = f"{NATIVE}/.parkazoo.native"
        self.assertEqual(log, [(ensemble, Transaction([CheckVersion(proof, -1), request]))])

    def test_servers_that_take_none(self) -> None:
        operation = PLANS[CreateTTL.type].operation(self.context, create_ttl(NATIVE))
        next(operation)
        with self.assertRaisesRegex(UnimplementedError, "^e1: its servers take no TTL without extended"):
            operation.send([UnimplementedError("e1")])


class TestContainer(EndingTest):
    def test_in_a_native_directory(self) -> None:
        self.assertEqual(len(self.made(create_container(NATIVE))), 1)
        self.assertEqual(len(self.made(create(f"{NATIVE}/x"))), 1)
        self.assertEqual(self.perform(Exists(NATIVE, None))[0].numChildren, 1)

    def test_elsewhere_it_is_refused(self) -> None:
        error, sent = self.perform(create_container(MIRRORED))
        self.assertIsInstance(error, BadArgumentsError)
        self.assertRegex(str(error), f"^{MIRRORED}: a container here would never end: its children would be on e")
        self.assertEqual(sent, [])

    def test_it_may_be_ordinary(self) -> None:
        """A container where it would end, and elsewhere what a create makes."""
        (native,) = self.made(CreateContainerIfAble(*create_container(NATIVE)))
        (elsewhere,) = self.made(CreateContainerIfAble(*create_container(MIRRORED)))
        self.assertEqual([native.split()[1], elsewhere.split()[1]], ["CreateContainerIfAble", "Create"])
        self.made(create(f"{MIRRORED}/x"))
        self.assertEqual(self.perform(Exists(MIRRORED, None))[0].numChildren, 1)

    def test_where_pins_decide_it_is_refused(self) -> None:
        self.context = self.context.risen(Form.TOLERANT, Places(PLACEMENT, by_first(PLACEMENT)))
        error, sent = self.perform(create_container(NATIVE))
        self.assertIsInstance(error, BadArgumentsError)
        self.assertRegex(str(error), "never end: the map has grown or is about to")
        self.assertEqual(sent, [])
        self.made(CreateContainerIfAble(*create_container(NATIVE)))
