"""kazoo with one server, ParKazoo with three ensembles, and what a client of either does and sees."""

from __future__ import annotations

import re
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from types import SimpleNamespace
from typing import Any
from unittest import mock

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError, ZookeeperError
from kazoo.protocol.states import Callback, KazooState, WatchedEvent
from kazoo.recipe.cache import TreeCache
from kazoo.retry import KazooRetry
from kazoo.security import make_digest_acl_credential

from parkazoo import ClusterMapError, ParKazooClient
from parkazoo.admin import init_map, move_directory
from parkazoo.kazoo_private import CONNECTION_DROP
from parkazoo.local import LocalCluster
from parkazoo.protocol.placement import DONE, FENCES, MIRRORS, Placement, join
from tests.fuzz.cases import ACLS, ENSEMBLES, LIFE, MOVE, PASSWORDS, WATCHERS, Call, Case, Client
from tests.fuzz.comparable import UUID, in_order, plain

PATIENCE_S = 30.0
POLL_S = 0.01
ROUNDS = 4  # a watch may look again, by two requests, before it tells
SUPER, SUPER_PASSWORD = "super", "everything"
ZOO_CFG = {"DigestAuthenticationProvider.superDigest": make_digest_acl_credential(SUPER, SUPER_PASSWORD)}
SUPER_AUTH = [("digest", f"{SUPER}:{SUPER_PASSWORD}")]
PLACEMENT = Placement(ENSEMBLES)
MANY = 64
IMMOVABLE = re.compile("there is no znode|has never had a child|has no child and no mirror")
HIDDEN = re.compile("ephemerals have no copy of their owner")
NAMING = (  # modules whose recipes give their znodes new names
    "kazoo.recipe.lock",
    "kazoo.recipe.party",
    "parkazoo.aio.recipe.async_party",
    "parkazoo.aio.recipe.async_semaphore",
    "parkazoo.aio.recipe.own_znode",
)
NO_ANSWER = f"no answer in {PATIENCE_S:g} s"


def wait_until(condition: Callable[[], bool], timeout_s: float = PATIENCE_S) -> bool:
    """Whether the condition has come true within the time."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(POLL_S)
    return True


def answer_of(call: Callable[[], Any]) -> Any:
    """What the call returns, or the exception that it raises; NO_ANSWER if it does neither in time."""
    answers: list[Any] = []

    def run() -> None:
        try:
            answers.append(call())
        except Exception as error:
            answers.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    return answers[0] if answers else NO_ANSWER


class Side:
    """Servers, and how clients of them are made.

    :param client_class: makes a client: the class under test, or kazoo's.
    :param form: of the cluster map.
    """

    def __init__(self, client_class: Callable[..., Any], ensembles: int, form: str = "plain") -> None:
        self.client_class = client_class
        self.form = form
        self.cluster = LocalCluster(ensembles, 1, make_map=False, zoo_cfg=ZOO_CFG)
        self.ensembles: list[KazooClient] = []  # a superuser of each, who sees what is really there
        self.moves = 0  # that have happened

    @contextmanager
    def running(self) -> Iterator[Side]:
        with self.cluster, ExitStack() as stack:
            init_map(
                self.cluster.hosts, {each.name: each.hosts for each in self.cluster.ensembles}, form=self.form
            )
            self.ensembles = [KazooClient(each.hosts, auth_data=SUPER_AUTH) for each in self.cluster.ensembles]
            for client in self.ensembles:
                client.start(PATIENCE_S)
                stack.callback(client.close)
                stack.callback(client.stop)
            yield self

    @property
    def hosts(self) -> str:
        """Where clients connect."""
        return self.cluster.hosts

    def hosts_of(self, ensemble: int) -> str:
        """Where the client's session on an ensemble is known."""
        return self.cluster.ensembles[ensemble if len(self.ensembles) > 1 else 0].hosts

    def make(self, chroot: str = "", **options: Any) -> Any:
        return self.client_class(self.hosts + chroot, **options)

    @contextmanager
    def superuser(self) -> Iterator[Any]:
        client = self.make(auth_data=SUPER_AUTH)
        try:
            client.start(PATIENCE_S)
            yield client
        finally:
            client.stop()
            client.close()

    def move(self, path: str, ensemble: int, *, may_be_hidden: bool) -> None:
        """Let the children of a directory move, if there is one that can. A single ZooKeeper has them all.

        :param path: in the whole tree.
        :param may_be_hidden: there may be ephemerals that their owner may not read, and so cannot copy.
        """
        if len(self.ensembles) == 1:
            return
        hosts, name = self.cluster.hosts, self.cluster.ensembles[ensemble].name
        told: list[str] = []
        try:
            move_directory(hosts, path, name, strangers_gone=True, auth=SUPER_AUTH, tell=told.append)
        except ClusterMapError as error:
            is_hidden = may_be_hidden and HIDDEN.search(str(error))
            if not is_hidden and not IMMOVABLE.search(str(error)):
                raise
        self.moves += any("has moved" in each for each in told)

    def wipe(self, root: str) -> None:
        """Remove everything below the root, and all mirrors, from the servers. No client may be running."""
        retry = KazooRetry(max_tries=-1, deadline=PATIENCE_S)  # a busy machine may cost a client its connection
        for client in self.ensembles:
            retry(client.delete, root, recursive=True)
            for directory in (MIRRORS, DONE):
                with suppress(NoNodeError):
                    for name in retry(client.get_children, directory):
                        retry(client.delete, join(directory, name), recursive=True)


class Player:
    """One client of a case, on one side.

    :param owners: names of sessions, by their ids; it adds its own.
    """

    def __init__(self, side: Side, case: Case, number: int, owners: dict[int, str]) -> None:
        self.side = side
        self.case = case
        self.number = number
        self.owners = owners
        self.told: list[str] = []  # by the listener
        self.known = 0  # how many of these have been compared
        self.events: dict[int, list[str]] = {}  # by the call that left the watch
        self.latest: dict[int, Any] = {}  # by the call that made a DataWatch or a ChildrenWatch
        self.caches: dict[int, TreeCache] = {}
        self.recipes: dict[tuple[str, str], Any] = {}
        about: Client = case.clients[number]
        chroot = "" if about.chroot is None else case.root + about.chroot
        identity = about.identity
        self.client = side.make(
            chroot,
            auth_data=[("digest", f"{identity}:{PASSWORDS[identity]}")] if identity else None,
            default_acl=ACLS[about.acl] if about.acl else None,
        )
        self.is_kazoo = type(self.client) is KazooClient
        self.client.add_listener(self._listen)
        self.is_running = False
        among = {PLACEMENT.of(f"{chroot}/sync-{each}/x"): f"/sync-{each}/x" for each in range(MANY)}
        self.places = [*among.values()]  # paths on each ensemble; no znodes are there

    def _listen(self, state: str) -> None:
        self.told.append(state)

    # ---- its life --------------------------------------------------------------------------------

    def start(self) -> None:
        self._begin_by(self.client.start)
        self.known = len(self.told)

    def _began(self) -> None:
        self.is_running = True
        self.owners[self.client.client_id[0]] = f"client {self.number}"
        if not self.is_kazoo:  # it is to depend on each ensemble
            self.client.join(timeout=PATIENCE_S)
            for member in self.client.members.values():
                member.create(f"{FENCES}/held-{uuid.uuid4().hex}", ephemeral=True)

    def end(self) -> Any:
        for cache in self.caches.values():
            cache.close()
        answer = answer_of(self.client.stop)
        self.client.close()
        self.is_running = False
        return answer

    def live(self, call: Call) -> Any:
        """Do what concerns the client itself.

        :returns: the states that the listener saw.
        """
        answer = answer_of(lambda: getattr(self, "_" + call.name)(**call.args))
        told, self.known = self.told[self.known :], len(self.told)
        if call.name == "expire":
            told = sorted(set(told))  # it may have been back before it expired
        return told if answer is None else [*told, str(plain(answer, {}))]

    def stray_states(self) -> list[str]:
        """What the listener saw although nothing concerned the client itself."""
        return self.told[self.known :]

    def _wait_told(self, state: str) -> None:
        if not wait_until(lambda: state in self.told[self.known :] and self.told[-1] == state):
            raise TimeoutError(f"{state} was not told, but {self.told[self.known :]}")

    def _stop(self) -> None:
        if self.is_running:
            self.client.stop()
            self.is_running = False
            self._wait_told(KazooState.LOST)

    def _start(self) -> Any:
        return None if self.is_running else self._begin_by(self.client.start)

    def _restart(self) -> Any:
        return self._begin_by(self.client.restart) if self.is_running else None

    def _begin_by(self, begin: Callable[[], None]) -> Any:
        """:returns: what is wrong with the chroot, after which the client runs all the same."""
        answer = None
        try:
            begin()
        except ZookeeperError as error:
            answer = error
        self._wait_told(KazooState.CONNECTED)
        self._began()
        return answer

    def _member(self, ensemble: int) -> Any:
        if self.is_kazoo:
            return self.client
        return self.client.members["abc"[ensemble if len(self.side.ensembles) > 1 else 0]]

    def _drop(self, ensemble: int) -> None:
        """The connection breaks, one of the three."""
        if self.is_running:
            self._member(ensemble)._call(CONNECTION_DROP, None)
            self._wait_told(KazooState.CONNECTED)

    def _expire(self, ensemble: int) -> None:
        """The session ends on the server, one of the three."""
        if not self.is_running:
            return
        hosts = self.side.hosts_of(ensemble)
        session = self._member(ensemble).client_id
        while True:  # the last to connect has the session: the client may have been faster
            thief = KazooClient(hosts, client_id=session)
            thief.start(PATIENCE_S)
            is_over = thief.client_id != session
            thief.stop()
            thief.close()
            if is_over:
                break
        if not wait_until(lambda: KazooState.LOST in self.told[self.known :]):
            raise TimeoutError("LOST was not told")
        self._wait_told(KazooState.CONNECTED)
        self._began()

    def settle(self) -> None:
        """Return when watches have been called for everything that was done before."""
        if not self.is_running:
            return
        for _ in range(ROUNDS):
            for result in [self.client.sync_async(path) for path in self.places]:
                result.get(timeout=PATIENCE_S)
            if isinstance(self.client, ParKazooClient):
                are_asking = threading.Event()  # its watchers
                self.client.handler.own_queue.put(are_asking.set)
                are_asking.wait(PATIENCE_S)
            elif not self.is_kazoo:
                self.client.settle()
            is_told = threading.Event()
            self.client.handler.dispatch_callback(Callback("watch", is_told.set, ()))
            is_told.wait(PATIENCE_S)

    # ---- its calls -------------------------------------------------------------------------------

    def begin(self, number: int, call: Call) -> Callable[[], Any]:
        """Make a call.

        :param number: the call's, by which its watch is known.
        :returns: what returns the answer, in plain words.
        """
        if call.name in LIFE:
            told = self.live(call)
            return lambda: told
        if call.waits:
            answer = answer_of(lambda: self._do(number, call))
            return lambda: in_order(call, self.plain(answer))
        try:
            result = self._do(number, call)
        except Exception as error:  # some errors are raised at once
            raised = self.plain(error)
            return lambda: raised

        def answer_later() -> Any:
            try:
                return in_order(call, self.plain(result.get(timeout=PATIENCE_S)))
            except Exception as error:
                return NO_ANSWER if isinstance(error, self.client.handler.timeout_exception) else self.plain(error)

        return answer_later

    def _do(self, number: int, call: Call) -> Any:
        client, args = self.client, dict(call.args)
        path = self.case.users_path(call)
        if call.name == MOVE:
            has_acls = any(each.acl for each in self.case.clients)
            has_acls |= any("acl" in each.args for each in self.case.calls)
            return self.side.move(self.case.full_path(call), **args, may_be_hidden=has_acls)
        if call.name in WATCHERS:
            return self._watch(number, call.name, path)
        if "." in call.name:
            return self._use_recipe(*call.name.split("."), path, args)
        if call.name == "add_auth":
            client.add_auth("digest", f"{args['identity']}:{PASSWORDS[args['identity']]}")
            return None
        if call.name == "transaction":
            transaction = self._transaction(call)
            return transaction.commit() if call.waits else transaction.commit_async()
        if "value" in args:
            args["value"] = None if args["value"] is None else args["value"].encode()
        if "acl" in args:
            args["acl" if call.name != "set_acls" else "acls"] = ACLS[args.pop("acl")]
        if args.pop("watch", False):
            args["watch"] = self._watcher(number)
        is_retried = args.pop("retry", False)
        method = getattr(client, call.name + ("" if call.waits else "_async"))
        if not call.waits:
            return method(path, **args)
        return client.retry(method, path, **args) if is_retried else method(path, **args)

    def _watcher(self, number: int) -> Callable[[WatchedEvent], None]:
        events = self.events.setdefault(number, [])
        return lambda event: events.append(f"{event.type} {event.path}")

    def _transaction(self, call: Call) -> Any:
        transaction = self.client.transaction()
        for kind, below, *rest in call.args["operations"]:
            path = self.case.users_path(call, below)
            if kind in ("create", "set_data"):
                rest[0] = (rest[0] or "").encode()
            if kind == "create":
                transaction.create(path, rest[0], ephemeral=rest[1], sequence=rest[2])
            else:
                getattr(transaction, kind)(path, *rest)
        return transaction

    def _watch(self, number: int, name: str, path: str) -> None:
        if name == "TreeCache":
            is_kazoos = isinstance(self.client, KazooClient)
            cache = TreeCache(self.client, path) if is_kazoos else self.client.TreeCache(path)
            self.caches[number] = cache
            cache.start()
        elif name == "DataWatch":
            self.client.DataWatch(
                path, lambda data, stat: self.latest.update({number: [data, stat and stat.version]})
            )
        else:
            self.client.ChildrenWatch(
                path, lambda names: self.latest.update({number: sorted(UUID.sub("uuid", each) for each in names)})
            )

    def watched(self) -> dict[int, Any]:
        """What each DataWatch, ChildrenWatch and TreeCache was last told, by the call that made it."""
        found = {number: self.plain(latest) for number, latest in self.latest.items()}
        for number, cache in self.caches.items():
            path = self.case.users_path(self.case.calls[number])
            found[number] = sorted(self._cached(cache, path))  # paths that differ in a uuid alone are alike
        return found

    def _cached(self, cache: TreeCache, path: str) -> Iterator[str]:
        node = cache.get_data(path)
        if node is not None:
            yield f"{UUID.sub('uuid', path)}: {self.plain(node.data)}, version {node.stat.version}"
            for name in cache.get_children(path, []):
                yield from self._cached(cache, join(path, name))

    def _use_recipe(self, name: str, method: str, path: str, args: Mapping[str, Any]) -> Any:
        with self._same_names(f"{name} {path}"):
            return self._call_recipe(name, method, path, args)

    def _call_recipe(self, name: str, method: str, path: str, args: Mapping[str, Any]) -> Any:
        recipe = self.recipes.get((name, path))
        if recipe is None:
            has_identifier = name not in ("Queue", "LockingQueue", "Counter")
            options: dict[str, Any] = {"identifier": f"client-{self.number}"} if has_identifier else {}
            if name == "Semaphore":
                options["max_leases"] = 2
            recipe = self.recipes[name, path] = getattr(self.client, name)(path, **options)
        if method == "acquire":
            return recipe.acquire(blocking=False)
        if method == "put":
            return recipe.put(args["value"].encode(), args["priority"])
        if method == "put_all":
            return recipe.put_all([args["value"].encode()] * 2, args["priority"])
        if method == "len":
            return len(recipe)
        if method == "list":
            return sorted(UUID.sub("uuid", each) for each in recipe)
        if method == "add":
            recipe += 2
            return recipe.value
        if method == "subtract":
            recipe -= 1
            return recipe.value
        if method in ("value", "is_acquired"):
            return getattr(recipe, method)
        if method == "run":
            run: list[str] = []
            recipe.run(run.append, "elected")
            return run
        if name == "LockingQueue" and method == "get":
            return recipe.get(timeout=0)
        found = getattr(recipe, method)()
        return sorted(found) if method == "lease_holders" else found

    @contextmanager
    def _same_names(self, of: str) -> Iterator[None]:
        """Both sides' recipes give their znodes the same names: a Queue at that path takes the first of them."""
        name = uuid.uuid5(uuid.NAMESPACE_OID, f"{self.number} {of}")
        with ExitStack() as patches:
            for module in NAMING:
                if module in sys.modules:
                    patches.enter_context(mock.patch(f"{module}.uuid", SimpleNamespace(uuid4=lambda: name)))
            yield

    # ---- answers in plain words ------------------------------------------------------------------

    def plain(self, value: Any) -> Any:
        """An answer without what differs from one ZooKeeper to another: zxids, times, ids of sessions, uuids."""
        return plain(value, self.owners, has_moves=self.case.has_moves)
