"""The model of tests/explore is ZooKeeper: a real server answers the same random requests in the same way.

Three sessions, of no user, of one and of two, send one request after the other. Compared are answers, errors,
stats in every field, and whose watches were called with which events. zxids and times differ, of course: what is
compared is which of them are equal and which come first.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from typing import Any

from kazoo.protocol.states import Callback, KazooState, WatchedEvent, ZnodeStat
from kazoo.security import ACL, OPEN_ACL_UNSAFE, Id, Permissions, make_digest_acl_credential

from parkazoo.kazoo_private import (
    CheckVersion,
    Create,
    Create2,
    Delete,
    Exists,
    GetACL,
    GetChildren,
    GetChildren2,
    GetData,
    SetACL,
    SetData,
    Sync,
    Transaction,
)
from tests.explore.alone import must
from tests.explore.client import Watches
from tests.explore.model import Model
from tests.explore.znodes import EPHEMERAL, SEQUENCE, WORLD, Who
from tests.live.world import DEADLINE_S, LiveTest, seed

REQUESTS, ROUNDS = 250, 32
NAMES = ("a", "b", "s0000000000", "s0000000001", "0000000000")
USERS = {"alice": "secret", "bob": "hidden"}
IDS = {name: Id("digest", make_digest_acl_credential(name, password)) for name, password in USERS.items()}
SESSIONS: tuple[tuple[str, ...], ...] = ((), ("alice",), ("alice", "bob"))
BAD_IDS = (Id("digest", "nobody"), Id("world", "nobody"), Id("unheard-of", "x"))
ALL = Permissions.ALL


class Requests:
    """Random requests about few znodes, so that they meet."""

    def __init__(self, dice: random.Random, root: str) -> None:
        self.dice = dice
        self.root = root

    def path(self) -> str:
        depth = self.dice.choice((0, 1, 1, 1, 2, 2, 2, 3))
        return self.root + "".join("/" + self.dice.choices(NAMES, (6, 6, 2, 1, 1))[0] for _ in range(depth))

    def version(self) -> int:
        return self.dice.choice((-1, -1, -1, 0, 1, 2))

    def data(self) -> bytes | None:
        return self.dice.choice((None, b"", b"x", b"xx"))

    def acl(self) -> list[ACL]:
        if self.dice.random() < 0.8:
            return OPEN_ACL_UNSAFE  # type: ignore[no-any-return]
        if self.dice.random() < 0.1:
            return [ACL(ALL, self.dice.choice(BAD_IDS))] * self.dice.randrange(2)
        who = [WORLD, Id("auth", ""), *IDS.values()]
        acl = [ACL(self.dice.choice((ALL, self.dice.randrange(32))), each) for each in who]
        return self.dice.sample(acl, self.dice.randrange(1, 4))

    def write(self, path: str, is_alone: bool = False) -> Any:
        """A request that may stand in a multi. A check stands nowhere else."""
        kind = self.dice.choices((Create, Delete, SetData, CheckVersion), (5, 5, 3, not is_alone))[0]
        if kind is Create:
            return self.create(path)
        return SetData(path, self.data(), self.version()) if kind is SetData else kind(path, self.version())

    def create(self, path: str, kind: Any = Create) -> Any:
        flags = self.dice.choices((0, EPHEMERAL, SEQUENCE, EPHEMERAL | SEQUENCE), (12, 2, 3, 1))[0]
        if flags & SEQUENCE:
            path = (path.rpartition("/")[0] or self.root) + "/" + self.dice.choice(("s", ""))
        return kind(path, self.data(), self.acl(), flags)

    def request(self, watcher: Any) -> Any:
        kind = self.dice.choices(
            (None, Create2, Exists, GetData, GetChildren, GetChildren2, GetACL, SetACL, Transaction, Sync),
            (40, 5, 6, 6, 6, 6, 4, 6, 12, 1),
        )[0]
        path, watch = self.path(), watcher if self.dice.random() < 0.5 else None
        if kind is None:
            return self.write(path, is_alone=True)
        if kind is Create2:
            return self.create(path, Create2)
        if kind is SetACL:
            return SetACL(path, self.acl(), self.version())
        if kind is Transaction:
            return Transaction([self.write(self.path()) for _ in range(self.dice.randrange(1, 5))])
        return kind(path) if kind in (GetACL, Sync) else kind(path, watch)


class Watcher:
    """A watch that writes down what it is called with."""

    def __init__(self, number: int, seen: list[tuple[int, str, str]]) -> None:
        self.number = number
        self.seen = seen

    def __call__(self, event: WatchedEvent) -> None:
        self.seen.append((self.number, event.type, event.path))


class Alike:
    """Numbers of one world by those of another: equal where these are equal, later where these are later."""

    def __init__(self) -> None:
        self.known: dict[int, int] = {}

    def check(self, ours: int, theirs: int) -> None:
        if self.known.setdefault(ours, theirs) != theirs:
            raise AssertionError(f"{theirs}, where it was {self.known[ours]}")

    def check_order(self) -> None:
        theirs = [self.known[ours] for ours in sorted(self.known)]
        assert theirs == sorted(theirs)


class TestModel(LiveTest):
    servers = 1
    ensembles = 1

    def setUp(self) -> None:
        super().setUp()
        self.clients = [
            self.kazoo(auth_data=[("digest", f"{name}:{USERS[name]}") for name in names]) for names in SESSIONS
        ]
        self.whos = [
            Who((client.client_id[0],), frozenset(IDS[name] for name in names), has_all=False)
            for client, names in zip(self.clients, SESSIONS, strict=True)
        ]
        self.model = Model(1)
        self.watches = {who: Watches() for who in self.whos}
        self.model.on_event = self.tell
        self.zxids, self.times = Alike(), Alike()

    def tell(self, who: Who, ensemble: int, event: WatchedEvent) -> None:
        for watch in self.watches[who].take(event):
            watch(event)

    def ask(self, client: Any, request: Any) -> Any:
        result = client.handler.async_result()
        client._call(request, result)
        try:
            return result.get(timeout=DEADLINE_S)
        except Exception as error:
            return error

    def compare(self, ours: Any, theirs: Any) -> None:
        if isinstance(ours, Exception) or isinstance(theirs, Exception):
            self.assertIs(type(ours), type(theirs))
        elif isinstance(ours, ZnodeStat):
            for field in ("czxid", "mzxid", "pzxid"):
                self.zxids.check(getattr(ours, field), getattr(theirs, field))
            for field in ("ctime", "mtime"):
                self.times.check(getattr(ours, field), getattr(theirs, field))
            same = theirs._asdict() | {f: getattr(ours, f) for f in ("czxid", "mzxid", "pzxid", "ctime", "mtime")}
            self.assertEqual(ours, ZnodeStat(**same))
        elif isinstance(ours, (list, tuple)) and not isinstance(ours, (ACL, Id)):
            self.assertEqual(len(ours), len(theirs))
            for each in zip(ours, theirs, strict=True):
                self.compare(*each)
        else:
            self.assertEqual(ours, theirs)

    def wait_for_callbacks(self) -> None:
        """Until every event that was on its way has arrived."""
        for client in self.clients:
            self.assertEqual(self.ask(client, Sync("/")), "/")
            told = threading.Event()
            client.handler.dispatch_callback(Callback("watch", told.set, ()))
            self.assertTrue(told.wait(DEADLINE_S))

    def test_random_requests(self) -> None:
        number = seed()
        print(f"test_random_requests: PARKAZOO_TEST_SEED={number}")
        dice = random.Random(number)
        outcomes: Counter[str] = Counter()
        events: Counter[str] = Counter()
        for round_number in range(ROUNDS):
            root = f"/model-{number}-{round_number}"
            create = Create(root, b"", OPEN_ACL_UNSAFE, 0)
            must(self.model.execute(0, create))
            must(self.ask(self.clients[0], create))
            requests = Requests(dice, root)
            ours: list[tuple[int, str, str]] = []
            theirs: list[tuple[int, str, str]] = []
            for at in range(REQUESTS):
                session = dice.randrange(len(self.clients))
                request = requests.request(Watcher(at, theirs))
                twin = request
                if getattr(request, "watcher", None):
                    twin = request._replace(watcher=Watcher(at, ours))
                expected = self.model.execute(0, twin, self.whos[session])
                self.watches[self.whos[session]].answered(twin, expected)
                got = self.ask(self.clients[session], request)
                if isinstance(request, (GetChildren, GetChildren2)) and not isinstance(got, Exception):
                    (got if isinstance(request, GetChildren) else got[0]).sort()
                try:
                    self.compare(expected, got)
                except AssertionError as error:
                    about = f"round {round_number}, request {at}, session of {SESSIONS[session] or 'no user'}"
                    raise AssertionError(f"{about}: {request}: {got!r}, the model said {expected!r}") from error
                failed = isinstance(expected, Exception) or (
                    request.type == Transaction.type and any(isinstance(each, Exception) for each in expected)
                )
                outcomes[f"{type(request).__name__}: {'failed' if failed else 'ok'}"] += 1
            self.wait_for_callbacks()
            more, less = Counter(theirs) - Counter(ours), Counter(ours) - Counter(theirs)
            self.assertFalse(more or less, f"round {round_number}: events {more}, the model's {less}")
            events += Counter(kind for _, kind, _ in ours)
        self.zxids.check_order()
        self.times.check_order()
        for client in self.clients:
            self.assertEqual(client.state, KazooState.CONNECTED)
        for kind in ("Create", "Create2", "Delete", "SetData", "GetData", "GetChildren2", "SetACL", "Transaction"):
            for how in ("ok", "failed"):
                self.assertGreater(outcomes[f"{kind}: {how}"], 20, outcomes)
        for kind in ("CREATED", "CHANGED", "DELETED", "CHILD"):
            self.assertGreater(events[kind], 10, events)
