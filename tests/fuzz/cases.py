"""A case: clients and the calls that they make, as data. A seed and a number are a case."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from kazoo.security import (
    ACL,
    ANYONE_ID_UNSAFE,
    CREATOR_ALL_ACL,
    OPEN_ACL_UNSAFE,
    READ_ACL_UNSAFE,
    Id,
    Permissions,
    make_digest_acl_credential,
)

from parkazoo.protocol.placement import PIN

PASSWORDS = {"alice": "secret", "bob": "hidden"}
IDS = {name: Id("digest", make_digest_acl_credential(name, password)) for name, password in PASSWORDS.items()}
ALL, READ, WRITE, CREATE, DELETE = (
    Permissions.ALL,
    Permissions.READ,
    Permissions.WRITE,
    Permissions.CREATE,
    Permissions.DELETE,
)
ACLS: dict[str, list[ACL]] = {
    "open": OPEN_ACL_UNSAFE,
    "read": READ_ACL_UNSAFE,
    "creator": CREATOR_ALL_ACL,
    "alice": [ACL(ALL, IDS["alice"])],
    "bob, others read": [ACL(ALL, IDS["bob"]), ACL(READ, ANYONE_ID_UNSAFE)],
    "alice, others create": [ACL(ALL, IDS["alice"]), ACL(READ | CREATE, ANYONE_ID_UNSAFE)],
    "all but ADMIN": [ACL(READ | WRITE | CREATE | DELETE, ANYONE_ID_UNSAFE)],
    "all but READ": [ACL(ALL & ~READ, ANYONE_ID_UNSAFE)],
    "all but CREATE": [ACL(ALL & ~CREATE, ANYONE_ID_UNSAFE)],
    "all but DELETE": [ACL(ALL & ~DELETE, ANYONE_ID_UNSAFE)],
    "both": [ACL(ALL, IDS["alice"]), ACL(READ | DELETE, IDS["bob"])],
    "nobody": [],
    "bad digest": [ACL(ALL, Id("digest", "alice"))],
    "bad world": [ACL(ALL, Id("world", "alice"))],
    "bad scheme": [ACL(ALL, Id("unheard-of", "x"))],
}
RECIPES: dict[str, tuple[str, ...]] = {
    "Lock": ("acquire", "acquire", "release", "contenders", "is_acquired"),
    "ReadLock": ("acquire", "release", "contenders"),
    "WriteLock": ("acquire", "release", "contenders"),
    "Semaphore": ("acquire", "acquire", "release", "lease_holders"),
    "Queue": ("put", "put", "get", "len"),
    "LockingQueue": ("put", "put", "put_all", "get", "get", "consume", "release", "holds_lock", "len"),
    "Counter": ("add", "add", "subtract", "value"),
    "Election": ("run", "contenders"),
    "Party": ("join", "join", "leave", "len", "list"),
    "ShallowParty": ("join", "leave", "len", "list"),
}
WATCHERS = ("DataWatch", "ChildrenWatch", "TreeCache")
MOVE = "move"
MOST_MOVES = 3
LIFE = ("drop", "expire", "restart", "stop", "start")
NAMES, NAME_WEIGHTS = ("a", "b", "c", "s0000000000", "0000000000"), (8, 8, 3, 2, 1)
ENSEMBLES = 3


@dataclass(frozen=True)
class Client:
    """
    :param chroot: below the case's root; None for a client without a chroot.
    :param identity: a name of PASSWORDS; empty for none.
    :param acl: its default_acl, a name of ACLS; empty for none.
    """

    chroot: str | None = None
    identity: str = ""
    acl: str = ""


@dataclass(frozen=True)
class Call:
    """
    :param client: which one makes it, from 0.
    :param path: below the case's root, or below the client's chroot; empty for that znode itself.
    :param waits: whether the answer is awaited, and those of the calls before it, before the next call is made.
    """

    client: int
    name: str
    path: str = ""
    args: Mapping[str, Any] = field(default_factory=dict)
    waits: bool = True

    def __str__(self) -> str:
        shown = [repr(self.path or "/")] if self.name not in (*LIFE, "add_auth", "transaction") else []
        shown += [f"{key}={value!r}" for key, value in self.args.items()]
        return f"client {self.client}: {self.name}({', '.join(shown)}){'' if self.waits else ', not awaited'}"


@dataclass(frozen=True)
class Case:
    """
    :param root: the znode that everything is below. The placement depends on it.
    :param made: znodes below it that are there before the clients start, open to all.
    """

    root: str
    made: tuple[str, ...]
    clients: tuple[Client, ...]
    calls: tuple[Call, ...]

    def to_json(self) -> str:
        lines = [
            f'{{"root": {json.dumps(self.root)},',
            f' "made": {json.dumps(self.made)},',
            f' "clients": {json.dumps([asdict(each) for each in self.clients])},',
            ' "calls": [',
            ",\n".join("  " + json.dumps(asdict(each)) for each in self.calls),
            " ]}",
        ]
        return "\n".join(lines) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Case:
        read = json.loads(text)
        clients = tuple(Client(**each) for each in read["clients"])
        return cls(read["root"], tuple(read["made"]), clients, tuple(Call(**each) for each in read["calls"]))

    @property
    def has_moves(self) -> bool:
        return any(call.name == MOVE for call in self.calls)

    def only(self, calls: tuple[Call, ...]) -> Case:
        """The same with these calls alone. The last one waits."""
        if calls and not calls[-1].waits:
            calls = (*calls[:-1], replace(calls[-1], waits=True))
        return replace(self, calls=calls)

    def full_path(self, call: Call, path: str | None = None) -> str:
        """The path in the whole tree, without a chroot."""
        return self.root + (self.clients[call.client].chroot or "") + (call.path if path is None else path)

    def users_path(self, call: Call, path: str | None = None) -> str:
        """The path that the client has to be given."""
        path = call.path if path is None else path
        return ("" if self.clients[call.client].chroot is not None else self.root) + path or "/"


def generate(seed: int, number: int, *, has_moves: bool = False) -> Case:
    """The case of that number; always the same.

    :param has_moves: between its calls, directories move from ensemble to ensemble.
    """
    case = _Generator(random.Random(f"{seed}:{number}")).case()
    return _with_moves(random.Random(f"{seed}:{number}/moves"), case) if has_moves else case


def _with_moves(dice: random.Random, case: Case) -> Case:
    """Of directories that its calls name, or that are above these."""
    calls = [*case.calls]
    for _ in range(dice.randrange(1, MOST_MOVES + 1)):
        named = dice.choice(case.calls)
        names = named.path.split("/")
        path = "/".join(names[: dice.randrange(1, len(names) + 1)])
        move = Call(named.client, MOVE, path, {"ensemble": dice.randrange(ENSEMBLES)})
        calls.insert(dice.randrange(1, len(calls) + 1), move)
    return replace(case, calls=tuple(calls))


class _Generator:
    """What a case is about is chosen first, so that few things meet often.

    Nothing is made of which one ZooKeeper may answer this or that: clients take turns, and what is not awaited
    is one request. `set_acls` is awaited: a server that has not done it yet uses the old ACL for the next request.
    """

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.has_acls = dice.random() < 0.35
        self.has_life = dice.random() < 0.25
        self.has_watches = dice.random() < 0.5
        self.has_pipelines = dice.random() < 0.5
        self.has_recipes = dice.random() < 0.4
        self.has_watchers = dice.random() < 0.2
        self.recipes = dice.sample([*RECIPES], 2)
        self.has_churn = dice.random() < 0.3  # the same few directories are made and deleted
        self.names = NAMES[: dice.choice((1, 2))] if self.has_churn else NAMES

    def case(self) -> Case:
        dice = self.dice
        clients = tuple(self.client() for _ in range(dice.choice((1, 2, 2, 3))))
        calls: list[Call] = []
        count = dice.randrange(8, 50)
        while len(calls) < count:
            client = dice.randrange(len(clients))
            if self.has_pipelines and dice.random() < 0.3:
                calls += [replace(self.request(client, True), waits=False) for _ in range(dice.randrange(1, 8))]
                calls.append(self.request(client, True))
            else:
                calls.append(self.call(client))
        return Case(f"/fuzz-{dice.randrange(10**6)}", self.made(clients), clients, tuple(calls))

    def made(self, clients: tuple[Client, ...]) -> tuple[str, ...]:
        """Parents before their children. A chroot is mostly there."""
        dice = self.dice
        paths = [self.path() for _ in range(dice.randrange(6))]
        paths += [each.chroot for each in clients if each.chroot and dice.random() < 0.9]
        found = set()
        for path in paths:
            names = path.split("/")
            found |= {"/".join(names[:count]) for count in range(2, len(names) + 1)}
        return tuple(sorted(path for path in found if PIN not in path))

    def client(self) -> Client:
        dice = self.dice
        return Client(
            dice.choice((None, None, None, "", "/a", "/a/b")),
            dice.choice(("", "alice", "bob")) if self.has_acls else "",
            dice.choice(("", "", "open", "read", "creator", "alice")) if self.has_acls else "",
        )

    def call(self, client: int) -> Call:
        dice = self.dice
        if self.has_life and dice.random() < 0.08:
            name = dice.choices(LIFE, (4, 4, 3, 1, 3))[0]
            return Call(client, name, args={"ensemble": dice.randrange(ENSEMBLES)} if name in LIFE[:2] else {})
        if self.has_acls and dice.random() < 0.02:
            return Call(client, "add_auth", args={"identity": dice.choice([*PASSWORDS])})
        if self.has_recipes and dice.random() < 0.6:
            return self.recipe(client)
        if self.has_watchers and dice.random() < 0.06:
            return Call(client, dice.choice(WATCHERS), self.path().removesuffix("/" + PIN))
        return self.request(client, False)

    def recipe(self, client: int) -> Call:
        name = self.dice.choice(self.recipes)
        method = self.dice.choice(RECIPES[name])
        args: dict[str, Any] = {}
        if method in ("put", "put_all"):
            args = {"value": self.dice.choice("xyz"), "priority": self.dice.choice((100, 100, 5))}
        path = f"/{name.lower()}{self.dice.choice(('', '', '/deep'))}"
        if name not in ("Election", "LockingQueue") and self.dice.random() < 0.1:
            path = self.path().removesuffix("/" + PIN)
        return Call(client, f"{name}.{method}", path, args)

    def path(self) -> str:
        depth = self.dice.choice((0, 1, 1, 1, 2, 2, 2, 3, 3))
        path = "".join("/" + self.name() for _ in range(depth))
        return path + "/" + PIN if self.dice.random() < 0.005 else path

    def name(self) -> str:
        return self.dice.choices(self.names, NAME_WEIGHTS[: len(self.names)])[0]

    def version(self) -> int:
        return self.dice.choice((-1, -1, -1, 0, 1))

    def data(self) -> str | None:
        return self.dice.choice((None, "", "x", "xy"))

    def acl(self) -> str:
        return self.dice.choice([*ACLS])

    def request(self, client: int, is_pipelined: bool) -> Call:
        dice = self.dice
        weights = {"create": 32, "delete": 16, "set": 8, "get": 8, "exists": 7, "get_children": 9, "get_acls": 3}
        weights |= {"sync": 1, "transaction": 8}
        weights |= {"delete": 24} if self.has_churn else {}
        if not is_pipelined:
            weights |= {"set_acls": 6 if self.has_acls else 1, "ensure_path": 3}
        name = dice.choices([*weights], [*weights.values()])[0]
        path, args = self.path(), {}
        if name == "create":
            path, args = self.create(path, is_pipelined)
        elif name == "delete":
            args = {"version": self.version()}
            if not is_pipelined and dice.random() < (0.5 if self.has_churn else 0.15):
                args = {"recursive": True}
        elif name == "set":
            args = {"value": self.data(), "version": self.version()}
        elif name in ("get", "exists", "get_children"):
            if self.has_watches and dice.random() < 0.5:
                args["watch"] = True
            if name == "get_children" and dice.random() < 0.4:
                args["include_data"] = True
        elif name == "set_acls":
            args = {"acl": self.acl(), "version": self.version()}
        elif name == "ensure_path":
            path = path.removesuffix("/" + PIN)
            args = {"acl": self.acl()} if self.has_acls and dice.random() < 0.5 else {}
        elif name == "transaction":
            path, args = "", {"operations": self.operations()}
        if not is_pipelined and name != "transaction" and dice.random() < 0.03:
            args["retry"] = True
        return Call(client, name, path, args)

    def create(self, path: str, is_pipelined: bool) -> tuple[str, dict[str, Any]]:
        dice = self.dice
        args: dict[str, Any] = {"value": self.data()}
        path = path or "/a"
        if dice.random() < 0.08:
            args["ephemeral"] = True
        if dice.random() < 0.15:
            args["sequence"] = True
            path = path.rpartition("/")[0] + dice.choice(("/s", "/s", "/"))
            path = "/s" if path == "/" else path
        if not is_pipelined and dice.random() < 0.3:
            args["makepath"] = True
        if dice.random() < 0.15:
            args["include_data"] = True
        if self.has_acls and dice.random() < 0.4:
            args["acl"] = self.acl()
        return path, args

    def operations(self) -> list[list[Any]]:
        """Of siblings, mostly. No two are of a znode and one above it: docs/design/protocol.md, "Known gaps"."""
        dice = self.dice
        parent = self.path().rpartition("/")[0]
        operations: list[list[Any]] = []
        for _ in range(dice.randrange(1, 4)):
            path = f"{parent}/{self.name()}"
            if dice.random() < 0.1:
                path = self.path() or "/b"
            kind = dice.choice(("create", "create", "delete", "delete", "set_data", "check"))
            is_sequence = kind == "create" and dice.random() < 0.2
            if is_sequence:
                path = path.rpartition("/")[0] + "/s"
            if PIN in path or any(a.startswith(b) for _, c, *_ in operations for a, b in ((c, path), (path, c))):
                continue
            if kind == "create":
                operations.append([kind, path, self.data(), dice.random() < 0.08, is_sequence])
            elif kind == "set_data":
                operations.append([kind, path, self.data(), self.version()])
            else:
                operations.append([kind, path, self.version()])
        return operations
