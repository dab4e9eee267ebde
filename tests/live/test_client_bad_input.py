"""Bad input raises what kazoo raises: each call is made on a plain ensemble too, and the outcomes are compared."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadArgumentsError,
    ConnectionClosedError,
    ConnectionLoss,
    NoNodeError,
    SessionExpiredError,
)
from kazoo.protocol.states import ZnodeStat
from kazoo.security import ACL, ANYONE_ID_UNSAFE, OPEN_ACL_UNSAFE, make_digest_acl

from parkazoo import DeferredError, ParKazooClient, RequestTooLargeError
from parkazoo.local import LocalCluster
from parkazoo.protocol.placement import Placement
from tests.handlers import make_handler
from tests.live.world import LiveTest, connected, wait_until

PACKET_BYTES = 0xFFFFF  # ZooKeeper's jute.maxbuffer
Call = Callable[[Any], Any]
Cases = Iterator[tuple[str, Call]]

PATHS: tuple[Any, ...] = (
    None,
    b"/a",
    1,
    True,
    ["/a"],
    "",
    "relative",
    ".",
    "..",
    "/",
    "//",
    "//a",
    "/a/",
    "/a//b",
    "/a/b/",
    "/.",
    "/..",
    "/a/.",
    "/a/../b",
    "/a/./b",
    "/...",
    "/a b",
    "/é/ü",
    "/日本",
    "/😀",
    "/nul\0",
    "/control\x01",
    "/delete\x7f",
    "/bom\ufeff",
    "/private\ue000",
    "/specials\ufff0",
    "/surrogate\ud800",
    "/a\udfff/b",
    "/%2F",
    "/a%2Fb",
    "/%",
    "/missing",
    "/missing/child",
    "/a",
    "/a/b",
    "/leaf/new",
    "/ephemeral/child",
    "/" + "x" * 5_000,
    "/leaf/" + "é" * 5_000,
    "/deep" * 200,
    "/zookeeper",
    "/zookeeper/quota",
)
WITH_PATH: dict[str, Callable[[Any, Any], Any]] = {
    "exists": lambda c, p: c.exists(p),
    "get": lambda c, p: c.get(p),
    "get_acls": lambda c, p: c.get_acls(p),
    "get_children": lambda c, p: c.get_children(p),
    "get_children with stat": lambda c, p: c.get_children(p, include_data=True),
    "sync": lambda c, p: c.sync(p),
    "set": lambda c, p: c.set(p, b"set"),
    "set_acls": lambda c, p: c.set_acls(p, OPEN_ACL_UNSAFE),
    "create": lambda c, p: c.create(p, b"made"),
    "create include_data": lambda c, p: c.create(p, b"made", include_data=True),
    "create makepath": lambda c, p: c.create(p, b"made", makepath=True),
    "create sequence": lambda c, p: c.create(p, sequence=True),
    "create ephemeral": lambda c, p: c.create(p, ephemeral=True),
    "ensure_path": lambda c, p: c.ensure_path(p),
    "transaction check": lambda c, p: _commit(c, lambda t: t.check(p, -1)),
    "transaction set": lambda c, p: _commit(c, lambda t: t.set_data(p, b"")),
    "transaction create": lambda c, p: _commit(c, lambda t: t.create(p, b"")),
    "transaction delete": lambda c, p: _commit(c, lambda t: t.delete(p)),
    "delete": lambda c, p: c.delete(p),
    "delete recursive": lambda c, p: c.delete(p, recursive=True),
}
# Where kazoo is wrong: it cannot read the path that ZooKeeper, which writes UTF-8 its own way, sends back.
BETTER = {"sync('/😀')"}
READS_ONLY = ("exists", "get", "get_acls", "get_children", "get_children with stat", "sync")
VERSIONS: tuple[Any, ...] = (None, "0", b"0", 1.0, -2, 7, 2**31 - 1, 2**31, -(2**31) - 1, 2**63, 2**70)
VALUES: tuple[Any, ...] = ("text", 1, None, [], bytearray(b"x"), memoryview(b"x"), object())
FLAGS: tuple[Any, ...] = (None, 0, 1, "yes", b"")
ACLS: tuple[Any, ...] = (
    "acl",
    1,
    OPEN_ACL_UNSAFE[0],
    [],
    (),
    [None],
    ["acl"],
    [1],
    [ACL(31, None)],
    [ACL(None, ANYONE_ID_UNSAFE)],
    [ACL(2**40, ANYONE_ID_UNSAFE)],
    [ACL(0, ANYONE_ID_UNSAFE)],
    [ACL(64, ANYONE_ID_UNSAFE)],
    [make_digest_acl("u", "p", all=True)._replace(id=ANYONE_ID_UNSAFE._replace(scheme="no such"))],
    [ACL(31, ANYONE_ID_UNSAFE._replace(id="someone"))],
    [ACL(31, ANYONE_ID_UNSAFE._replace(scheme="auth", id=""))],
)
WATCHES: tuple[Any, ...] = (1, "watch", [])
BROKEN = (ConnectionLoss, ConnectionClosedError, SessionExpiredError)


def _commit_two(client: Any, path: str) -> None:
    with client.transaction() as transaction:
        transaction.create(f"{path}/x", bytes(PACKET_BYTES // 2))
        transaction.create(f"{path}/y", bytes(PACKET_BYTES // 2))


LARGE = bytes(PACKET_BYTES)
TOO_LARGE: dict[str, Callable[[Any, str], Any]] = {
    "create": lambda c, p: c.create(f"{p}/x", LARGE),
    "create_async": lambda c, p: c.create_async(f"{p}/x", LARGE).get(),
    "makepath": lambda c, p: c.create(f"{p}/x/y", LARGE, makepath=True),
    "set": lambda c, p: c.set(p, LARGE),
    "set_async": lambda c, p: c.set_async(p, LARGE).get(),
    "set_acls": lambda c, p: c.set_acls(p, OPEN_ACL_UNSAFE * 50_000),
    "exists": lambda c, p: c.exists(p + "/" + "x" * PACKET_BYTES),
    "transaction": _commit_two,
    "once, a create": lambda c, p: c.once(c.create, f"{p}/x", LARGE),
    "once, a set": lambda c, p: c.once(c.set, p, LARGE),
    "Queue": lambda c, p: c.Queue(p).put(LARGE),
    "LockingQueue": lambda c, p: c.LockingQueue(p).put(LARGE),
    "LockingQueue.put_all": lambda c, p: c.LockingQueue(p).put_all([LARGE[: PACKET_BYTES // 2]] * 2),
    "Lock": lambda c, p: c.Lock(p, "x" * PACKET_BYTES).acquire(),
    "Party": lambda c, p: c.Party(p, "x" * PACKET_BYTES).join(),
}


def _commit(client: Any, add: Callable[[Any], Any]) -> Any:
    transaction = client.transaction()
    add(transaction)
    return transaction.commit()


def cases() -> list[tuple[str, Call]]:
    """Each with a name; in an order in which the ones before can do no harm to the ones after."""
    return [
        *_with_paths(),
        *_with_versions(),
        *_with_values(),
        *_with_flags(),
        *_with_acls(),
        *_with_watches(),
        *_others(),
    ]


def _case(name: str, value: Any, call: Call) -> tuple[str, Call]:
    return f"{name}({value!r:.60})", call


def _with_paths() -> Cases:
    for name, call in WITH_PATH.items():
        for path in PATHS:
            if str(path).startswith("/zookeeper") and name not in READS_ONLY:
                continue  # the ensembles' own business
            if path in ("/", "//", "/.") and name in ("delete recursive", "create sequence", "create ephemeral"):
                continue
            yield _case(name, path, lambda c, call=call, p=path: call(c, p))


def _with_versions() -> Cases:
    for each in VERSIONS:
        yield _case("set version", each, lambda c, v=each: c.set("/leaf", b"", v))
        yield _case("delete version", each, lambda c, v=each: c.delete("/leaf", v))
        yield _case("set_acls version", each, lambda c, v=each: c.set_acls("/leaf", OPEN_ACL_UNSAFE, v))
        yield _case("check version", each, lambda c, v=each: _commit(c, lambda t: t.check("/leaf", v)))
        yield _case(
            "transaction set version", each, lambda c, v=each: _commit(c, lambda t: t.set_data("/leaf", b"", v))
        )
        yield _case(
            "transaction delete version", each, lambda c, v=each: _commit(c, lambda t: t.delete("/leaf", v))
        )
        yield _case("delete a directory, version", each, lambda c, v=each: c.delete("/a", v))


def _with_values() -> Cases:
    for each in VALUES:
        yield _case("create value", each, lambda c, v=each: c.create("/value", v))
        yield _case("set value", each, lambda c, v=each: c.set("/a", v))
        yield _case(
            "transaction create value", each, lambda c, v=each: _commit(c, lambda t: t.create("/value2", v))
        )
        yield _case("transaction set value", each, lambda c, v=each: _commit(c, lambda t: t.set_data("/a", v)))


def _with_flags() -> Cases:
    for each in FLAGS:
        yield _case("create ephemeral", each, lambda c, v=each: c.create("/flag", ephemeral=v))
        yield _case("create sequence", each, lambda c, v=each: c.create("/flag", sequence=v))
        yield _case("create makepath", each, lambda c, v=each: c.create("/flag", makepath=v))
        yield _case("create include_data", each, lambda c, v=each: c.create("/flag", include_data=v))
        yield _case("get_children include_data", each, lambda c, v=each: c.get_children("/a", include_data=v))
        yield _case("delete recursive", each, lambda c, v=each: c.delete("/leaf", recursive=v))
        yield _case(
            "transaction create flag", each, lambda c, v=each: _commit(c, lambda t: t.create("/f", ephemeral=v))
        )


def _with_acls() -> Cases:
    for number, each in enumerate(ACLS):
        yield _case("create acl", number, lambda c, v=each, n=number: c.create(f"/acl{n}", acl=v))
        yield _case(
            "create include_data acl",
            number,
            lambda c, v=each, n=number: c.create(f"/acli{n}", acl=v, include_data=True),
        )
        yield _case("set_acls", number, lambda c, v=each, n=number: _set_acls(c, f"/acls{n}", v))
        yield _case(
            "set_acls of a directory", number, lambda c, v=each, n=number: _set_acls(c, f"/acld{n}", v, "/child")
        )
        yield _case("ensure_path acl", number, lambda c, v=each, n=number: c.ensure_path(f"/aclp{n}/q", acl=v))
        yield _case(
            "transaction acl",
            number,
            lambda c, v=each, n=number: _commit(c, lambda t: t.create(f"/aclt{n}", acl=v)),
        )
        yield _case("first child below acl", number, lambda c, n=number: c.create(f"/acl{n}/child"))


def _with_watches() -> Cases:
    for each in WATCHES:
        yield _case("get watch", each, lambda c, v=each: c.get("/a", watch=v))
        yield _case("exists watch", each, lambda c, v=each: c.exists("/a", watch=v))
        yield _case("get_children watch", each, lambda c, v=each: c.get_children("/a", watch=v))


def _others() -> Cases:
    yield _case("empty transaction", "", lambda c: c.transaction().commit())
    yield _case("twice committed", "", _commit_twice)
    for scheme, credential in ((None, "u:p"), ("digest", None), (1, "u:p"), ("digest", b"u:p")):
        yield _case("add_auth", (scheme, credential), lambda c, s=scheme, v=credential: c.add_auth(s, v))
    for listener in (None, 1, "listener"):
        yield _case("add_listener", listener, lambda c, v=listener: c.add_listener(v))
    for hosts in ("", "h:no", "127.0.0.1:2181/other/chroot"):
        yield _case("set_hosts", hosts, lambda c, v=hosts: c.set_hosts(v))
    for arguments in ((1, None, None, 0), (None, 1, None, 0), (None, None, 1, 0), (None, None, None, "0")):
        yield _case("reconfig", arguments, lambda c, v=arguments: c.reconfig(*v))


def _set_acls(client: Any, path: str, acls: Any, child: str = "") -> Any:
    client.ensure_path(path + child)
    return client.set_acls(path, acls)


def _commit_twice(client: Any) -> Any:
    transaction = client.transaction()
    transaction.commit()
    return transaction.commit()


def outcome(call: Call, client: Any) -> Any:
    """What a call returns or raises, without what differs between two ensembles."""
    try:
        return _comparable(call(client))
    except Exception as error:
        return type(error)


def _comparable(value: Any) -> Any:
    if isinstance(value, ZnodeStat):
        return value.version, value.cversion, value.aversion, value.dataLength, value.numChildren
    if isinstance(value, Exception):
        return type(value)
    if isinstance(value, ACL) or not isinstance(value, (tuple, list)):
        return value
    if value and all(isinstance(each, str) for each in value):
        return sorted(value)
    return [_comparable(each) for each in value]


class _Chrooted(Placement):
    """The placement of the paths that a client with a chroot uses."""

    def __init__(self, placement: Placement, chroot: str) -> None:
        super().__init__(placement.ensembles)
        self.chroot = chroot

    def is_native(self, directory: str) -> bool:
        return super().is_native(self.chroot + directory)


class TestBadInput(LiveTest):
    def setUp(self) -> None:
        super().setUp()
        self.hosts_root = self.new_root(self.parkazoo())

    def fill(self, client: Any) -> Any:
        for path in ("/a", "/a/b", "/leaf"):
            client.ensure_path(path)
        if not client.exists("/ephemeral"):
            client.create("/ephemeral", ephemeral=True)
        return client

    def test_reserved_names(self) -> None:
        """No user can create, see or touch what ParKazoo keeps for itself."""
        client = self.parkazoo()
        root = self.hosts_root
        client.create(root + "/d/x", makepath=True)
        reserved = (
            "/parkazoo",
            "/parkazoo/map",
            "/parkazoo/new",
            "/parkazoo/mirrors/x",
            "/parkazoo/mirrors/%2Fa/x",
            f"{root}/.parkazoo",
            f"{root}/d/.parkazoo/x",
        )
        for path in reserved:
            with self.subTest(path):
                for options in ({}, {"include_data": True}, {"makepath": True}, {"ephemeral": True}):
                    with self.assertRaises(BadArgumentsError) as caught:
                        client.create(path, **options)
                    self.assertIn(path, str(caught.exception))
                self.assertIsNone(client.exists(path))
                self.assertIsNone(client.exists(path, watch=print))
                for name, call in WITH_PATH.items():
                    if "create" in name or name in ("exists", "ensure_path"):
                        continue
                    found = outcome(lambda c, call=call, path=path: call(c, path), client)
                    if name.startswith("transaction"):
                        self.assertEqual(found, [NoNodeError], name)
                    elif name == "delete recursive":  # kazoo's says that there is nothing to delete
                        self.assertIn(found, (True, NoNodeError), name)
                    elif name == "sync":  # as of any path that is not there
                        self.assertEqual(found, path)
                    else:
                        self.assertEqual(found, NoNodeError, name)
                self.assertEqual(
                    _commit(client, lambda t, p=path: t.create(p, b""))[0].__class__, BadArgumentsError
                )
                self.assertRaises(BadArgumentsError, client.ensure_path, path)
        for path in (f"{root}/parkazoo", f"{root}/d/.parkazoo2", f"{root}/x.parkazoo", "/parkazoo2"):
            self.assertEqual(client.create(path), path)
            client.delete(path)
        self.assertNotIn("parkazoo", client.get_children("/"))
        self.assertNotIn("parkazoo", client.get_children("/", include_data=True)[0])
        self.assertEqual(client.get_children(root), ["d"])
        self.assertEqual(client.get_children(f"{root}/d"), ["x"])

    def test_below_a_chroot_that_is_reserved(self) -> None:
        client = self.parkazoo("/parkazoo/mirrors")
        self.assertIsNone(client.exists("/"))
        self.assertRaises(NoNodeError, client.get_children, "/")
        self.assertRaises(BadArgumentsError, client.create, "/x")
        self.assertEqual(client.sync("/x"), "/x")

    def test_the_largest_value(self) -> None:
        """What kazoo can create we can, also as a directory's first child; the physical path needs some room."""
        client = self.parkazoo()
        for is_native in (True, False):
            parent = self.directory(self.hosts_root, is_native)
            client.create(parent)
            path = f"{parent}/first"
            value = bytes(PACKET_BYTES - 1024)
            self.assertEqual(client.create(path, value), path)
            self.assertEqual(client.get(path)[0], value)
            self.assertTrue(client.connected)

    def test_too_large_a_value(self) -> None:
        """Servers end the connection over it: one error that says so, and the client goes on afterwards."""
        client = self.parkazoo(self.hosts_root)
        among = _Chrooted(self.placement, self.hosts_root)
        parents = [self.directory("/", is_native, among=among) for is_native in (True, False)]
        for number, (name, call) in enumerate(TOO_LARGE.items()):
            path = f"{parents[number % 2]}/{number}"
            client.create(path, makepath=True)
            with self.subTest(name):
                with self.assertRaises(RequestTooLargeError) as caught:
                    client.retry(call, client, path)
                message = str(caught.exception)
                self.assertRegex(message, rf"^{path}.*: [12],[0-9]{{3}},[0-9]{{3}} bytes .*jute.maxbuffer")
                self.assertLess(len(message), 1000)
                self.assertEqual(client.get(path)[0], b"")
                self.assertEqual(client.create(f"{path}/small", b"x"), f"{path}/small")

    def test_too_large_among_others(self) -> None:
        """The others have lost their connection, sent or waiting, or are sent on the next one."""
        client = self.parkazoo(self.hosts_root)
        client.create("/a/b", makepath=True)
        results = [client.set_async("/a/b", value) for value in (b"", LARGE, b"", LARGE, b"")]
        found = [self.raises_as(result.get) for result in results]
        self.assertIs(found[1], RequestTooLargeError)
        self.assertIn(found[3], (RequestTooLargeError, ConnectionLoss))  # it may have waited behind so many bytes
        self.assertLessEqual({*found[::2]}, {None, ConnectionLoss})
        self.assertEqual(client.retry(client.set, "/a/b", b"small").dataLength, 5)

    def test_too_large_a_value_before_it_is_sent(self) -> None:
        """DistributedDict and deferred writes have limits of their own."""
        client = self.parkazoo(self.hosts_root)
        client.create("/a")
        shared = client.DistributedDict("/a", serializer=None)
        with client.deferred() as later:
            for write in (partial(shared.__setitem__, "key", LARGE), partial(later.put, "/a", LARGE)):
                with self.assertRaisesRegex(ValueError, "1,?0.* bytes"):
                    write()
        self.assertTrue(client.connected)

    def test_large_answers(self) -> None:
        """Servers limit requests alone."""
        client = self.parkazoo(self.hosts_root)
        client.create("/a")
        for result in [client.create_async(f"/a/{number:04d}" + "x" * 2000) for number in range(600)]:
            result.get()
        names = client.get_children("/a")
        self.assertGreater(sum(map(len, names)), PACKET_BYTES)
        self.assertEqual(len(names), 600)

    def test_constructor(self) -> None:
        for options in (
            {"hosts": "h:no"},
            {"no_such_option": 1},
            {"handler": type(self)},
            {"connection_retry": 1},
        ):
            with self.subTest(options):
                arguments = {"hosts": self.cluster.hosts, **options}
                expected = self.raises_as(lambda a=arguments: KazooClient(**a))
                self.assertEqual(self.raises_as(lambda a=arguments: ParKazooClient(**a)), expected)

    def test_as_kazoo(self) -> None:
        """Where kazoo's connection breaks by what it cannot serialize, ours must not, and an error must come."""
        direct = self.kazoo()
        root = self.new_root(direct)
        client = self.parkazoo(self.hosts_root)
        plain = self.fill(self.kazoo(0, root))
        self.fill(client)
        session = plain.client_id
        differences = []
        for name, call in cases():
            if name in BETTER:
                continue
            expected, found = outcome(call, plain), outcome(call, client)
            if expected in BROKEN:
                is_as_expected = isinstance(found, type) and issubclass(found, Exception) and found not in BROKEN
                plain = self.kazoo(0, root, client_id=session)
            else:
                is_as_expected = found == expected
            if not is_as_expected:
                differences.append(f"{name}: {found!r:.150}, kazoo {expected!r:.150}")
            for each in (plain, client):
                self.fill(each)
            self.assertTrue(client.connected, name)
        self.assertEqual(differences, [])


class TestLowerLimit(unittest.TestCase):
    """Servers whose jute.maxbuffer is below ZooKeeper's default."""

    def test_each_way(self) -> None:
        value = bytes(250_000)
        with (
            LocalCluster(1, 1, jvm_flags=["-Djute.maxbuffer=200000"]) as cluster,
            connected(ParKazooClient(cluster.hosts, handler=make_handler())) as client,
        ):
            client.create("/a")
            for write in (client.retry, client.once):
                with self.subTest(write), self.assertRaisesRegex(RequestTooLargeError, "^/a .*: 250,.* bytes"):
                    write(client.set, "/a", value)
            with self.assertRaises(DeferredError) as caught, client.deferred() as later:
                later.put("/a", value)
            ((path, error),) = caught.exception.dropped
            self.assertEqual((path, type(error)), ("/a", RequestTooLargeError))
            self.assertEqual(client.set("/a", bytes(150_000)).dataLength, 150_000)
            # A server that dies says nothing of a request.
            server = cluster.ensembles[0].servers[0]
            server.freeze()
            results = [client.set_async("/a", each) for each in (value, LARGE, b"")]
            (member,) = client.members.values()
            wait_until(lambda: len(member.sizes.unanswered) == 2, "sent")
            server.kill()
            for result in results:
                with self.assertRaises(ConnectionLoss):
                    result.get()
