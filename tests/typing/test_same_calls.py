"""Calls ask for what kazoo's ask for, answer the same, and refuse the same arguments with the same words."""

from __future__ import annotations

import itertools
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError, ZookeeperError
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, make_digest_acl

from parkazoo import ParKazooClient
from parkazoo.kazoo_private import Exists
from parkazoo.protocol.presence import Presence

PATHS = (
    "/",
    "/a",
    "/a/b",
    "a/b",
    "",
    "//a//b",
    "/a/",
    "/a/./b",
    "/a/../b",
    "/.a/..b",
    "/ä",
    "/a.b",
    "/c/ ",
    None,
    7,
)
STAT = object()


def outcome(call: Callable[[], Any]) -> tuple[str, Any]:
    try:
        return "returned", call()
    except Exception as error:
        return type(error).__name__, str(error)


class World:
    """A client whose requests are answered at once, from a set of paths."""

    def __init__(self, kind: type[KazooClient], **options: Any) -> None:
        self.requests: list[Any] = []
        self.exist: set[str] = {"/", "/root"}
        world = self

        class Client(kind):  # type: ignore[misc, valid-type]
            def _call(self, request: Any, async_object: Any) -> Any:
                world.requests.append(request)
                answer = world.answer(request)
                if isinstance(answer, Exception):
                    async_object.set_exception(answer)
                else:
                    async_object.set(answer)

        self.client = Client(**options)

    def answer(self, request: Any) -> Any:
        kind, path = type(request).__name__, getattr(request, "path", None)
        if kind == "Exists":
            return STAT if path in self.exist else None
        if kind == "Presence":
            return path in self.exist
        if kind in ("Create", "Create2"):
            if path in self.exist:
                return NodeExistsError()
            if path.rstrip("/").rpartition("/")[0] not in ("", *self.exist):
                return NoNodeError()
            self.exist.add(path)
            return (path, STAT) if kind == "Create2" else path
        if kind == "Sync":
            return path
        if kind in ("Auth", "Reconfig"):
            return kind
        return (path, STAT) if path in self.exist else ZookeeperError("of the server")


class TestSameCalls(unittest.TestCase):
    def check(self, name: str, *arguments: Any, **options: Any) -> None:
        for chroot in ("", "/root", "/root/deep"):
            for default_acl in (None, CREATOR_ALL_ACL):
                seen = []
                for kind in (KazooClient, ParKazooClient):
                    world = World(kind, hosts=f"h:1{chroot}", default_acl=default_acl)
                    call = getattr(world.client, name)
                    what = outcome(lambda call=call: call(*arguments, **options))  # type: ignore[misc]
                    if name.endswith("_async") and what[0] == "returned":
                        what = "result", outcome(what[1].get_nowait)
                    # what is above a znode is asked for in another order
                    requests = [
                        each
                        for each in world.requests
                        if name[:6] == "exists" or each.type not in (Exists.type, Presence.type)
                    ]
                    seen.append((what, requests, world.exist, world.client.auth_data))
                with self.subTest(chroot=chroot, call=name, arguments=arguments, options=options):
                    self.assertEqual(seen[0], seen[1])

    def check_both(self, name: str, *arguments: Any, **options: Any) -> None:
        self.check(name, *arguments, **options)
        self.check(f"{name}_async", *arguments, **options)

    def test_paths(self) -> None:
        for path in PATHS:
            for name in ("exists", "get", "get_children", "get_acls", "delete", "create"):
                self.check_both(name, path)
            self.check_both("set", path, b"")
            self.check_both("set_acls", path, OPEN_ACL_UNSAFE)
            if isinstance(path, str):
                self.check_both("sync", path)

    def test_create(self) -> None:
        for path, *flags in itertools.product(
            ("/a", "/new/deep/er", "/a/", "/new/deep/", "/a/../b"), *[(False, True)] * 4
        ):
            _, is_sequence, makes_path, _ = flags
            if path[-1] != "/" or is_sequence or not makes_path:
                self.check_both("create", path, b"x", None, *flags)
        for acl in ([], (), CREATOR_ALL_ACL, tuple(CREATOR_ALL_ACL), make_digest_acl("u", "p"), "acl", 3):
            self.check_both("create", "/new/deep", b"x", acl, makepath=True)
        for name in ("value", "ephemeral", "sequence", "makepath", "include_data"):
            for value in (None, 1, "text", b"bytes", []):
                self.check_both("create", "/a", **{name: value})

    def test_a_slash_at_the_end(self) -> None:
        """kazoo's `makepath` makes such a znode empty, and then raises NodeExistsError."""
        for path in ("/a", "/new/deep"):
            worlds = World(ParKazooClient, hosts="h:1"), World(ParKazooClient, hosts="h:1")
            made = [
                world.client.create(path + end, b"x", makepath=True)
                for world, end in zip(worlds, ("", "/"), strict=True)
            ]
            self.assertEqual(made, [path, path])
            self.assertEqual(worlds[0].requests, worlds[1].requests)

    def test_other_arguments(self) -> None:
        for value in (None, 0, 1, "text", b"bytes", [], True, print, OPEN_ACL_UNSAFE, make_digest_acl("u", "p")):
            for name in ("exists", "get", "get_children"):
                self.check_both(name, "/root", value)
            self.check_both("get_children", "/root", None, value)
            self.check_both("get_children", "/root", include_data=value)
            self.check_both("set", "/root", value)
            self.check_both("set", "/root", b"", value)
            self.check_both("set_acls", "/root", value)
            self.check_both("set_acls", "/root", OPEN_ACL_UNSAFE, value)
            self.check_both("delete", "/root", value)
            self.check_both("add_auth", "digest", value)
            self.check_both("add_auth", value, "u:p")
            for place in range(4):
                servers: list[Any] = [None, None, None, -1]
                servers[place] = value
                self.check_both("reconfig", *servers)
            if value is not True:
                self.check("delete", "/root", -1, value)

    def test_subclasses(self) -> None:
        """A subclass's asynchronous call is what the other calls."""

        class Client(ParKazooClient):
            def get_async(self, path: str, watch: Any = None) -> Any:
                result = self.handler.async_result()
                result.set((path, watch))
                return result

        self.assertEqual(Client().get("/a", print), ("/a", print))

    def test_a_path_that_cannot_be_named(self) -> None:
        """The result has what a subclass's `unchroot` raises, not the thread that brings the answer."""
        for name, options, answer in (
            ("create_async", {}, "/a"),
            ("create_async", {"include_data": True}, ("/a", STAT)),
        ):
            seen = []
            for kind in (KazooClient, ParKazooClient):
                replies: list[Any] = []

                class Client(kind):  # type: ignore[misc, valid-type]
                    def _call(self, request: Any, async_object: Any, replies: list[Any] = replies) -> None:
                        replies.append(async_object)

                    def unchroot(self, path: str) -> str:
                        raise LookupError(path)

                result = getattr(Client(), name)("/a", **options)
                replies.pop().set(answer)
                seen.append(outcome(result.get_nowait))
            with self.subTest(call=name, options=options):
                self.assertEqual(seen, 2 * [("LookupError", "/a")])

    def test_arguments_by_name(self) -> None:
        """A subclass's asynchronous call may take by name alone what kazoo's calls give by name."""
        for name, *arguments in (
            ("add_auth", "digest", "u:p"),
            ("create", "/a", b"x", OPEN_ACL_UNSAFE, True, True, True, True),
            ("delete", "/a", 3),
            ("ensure_path", "/a", OPEN_ACL_UNSAFE),
            ("exists", "/a", print),
            ("get", "/a", print),
            ("get_acls", "/a"),
            ("get_children", "/a", print, True),
            ("reconfig", "a", "b", "c", 3),
            ("set", "/a", b"x", 3),
            ("set_acls", "/a", OPEN_ACL_UNSAFE, 3),
            ("sync", "/a"),
        ):
            seen = []
            for kind in (KazooClient, ParKazooClient):
                client = kind()
                with mock.patch.object(client, f"{name}_async") as twin:
                    getattr(client, name)(*arguments)
                seen.append(twin.call_args)
            with self.subTest(call=name):
                self.assertEqual(*seen)
