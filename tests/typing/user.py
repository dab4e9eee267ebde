"""A user's program under ``mypy --strict`` and pyright; nothing runs it.

A line that ends in ``E:`` and mypy's code is an error to both. ``assert_type`` has the type that both must see.
"""

import datetime
import pickle
from collections.abc import Mapping
from typing import Any

from kazoo.client import KazooClient  # type: ignore[import-untyped]
from kazoo.handlers.gevent import SequentialGeventHandler  # type: ignore[import-untyped]
from kazoo.protocol.states import WatchedEvent as KazooEvent  # type: ignore[import-untyped]
from kazoo.retry import KazooRetry  # type: ignore[import-untyped]
from kazoo.security import make_digest_acl  # type: ignore[import-untyped]
from typing_extensions import assert_type

from parkazoo import (
    AnswerLostError,
    ClusterMapError,
    CrossEnsembleError,
    DeferredError,
    ForkError,
    OutcomeUnknown,
    ParKazooClient,
    PartlyDoneError,
    RequestTooLargeError,
    WentBackError,
    types,
)
from parkazoo.fsck import Report, check
from parkazoo.local import LocalCluster
from parkazoo.monitoring import Counters, Histogram, Listener, RequestEnded, StateChanged, register
from parkazoo.structures.policies import Always, Count, Linearizable, Time, Watch
from parkazoo.structures.policies import Lock as LockPolicy
from parkazoo.types import ACL, ACLs, AddWatchMode, AsyncResult, Id, Lock, WatchedEvent, ZnodeStat

# ---- options -------------------------------------------------------------------------------------

zk = ParKazooClient("h1:2181,h2:2181/chroot", timeout=4.0, client_id=(1, b"password"))
ParKazooClient(["h1:2181", "h2"], handler=SequentialGeventHandler(), auth_data=[("digest", "u:p")])
ParKazooClient(connection_retry=KazooRetry(max_tries=3), command_retry={"max_tries": 3}, max_retries=3)
ParKazooClient(give_up_after=30, consistency="total")
ParKazooClient(listeners=[Listener()], counters=True)
ParKazooClient(listeners=[print])  # E: list-item
ParKazooClient(hotss="h1:2181")  # E: call-arg
ParKazooClient(consistency="eventual")  # E: arg-type
ParKazooClient(2181)  # E: arg-type
ParKazooClient(timeout="4")  # E: arg-type
ParKazooClient(use_ssl="yes")  # E: arg-type
ParKazooClient(handler=3)  # E: arg-type

# ---- listeners and counters ----------------------------------------------------------------------


class Mine(Listener):
    directories = ("/jobs", "/users/*")

    def request_ended(self, event: RequestEnded) -> None:
        assert_type((event.ensemble, event.operation, event.outcome), tuple[str, str, str])
        assert_type((event.seconds, event.directory), tuple[float, str])
        event.seconds = 0  # E: misc

    def state_changed(self, event: RequestEnded) -> None:  # E: override
        assert_type(event, RequestEnded)


def heard(event: StateChanged) -> str:
    return f"{event.old} {event.new} {event.ensemble}"


register(Mine())
register(print)  # E: arg-type
assert_type(zk.counters(), Counters)
for key, count in zk.counters().requests.items():
    assert_type((key, count), tuple[tuple[str, str, str], int])
assert_type(zk.counters().seconds["a", "get"], Histogram)
assert_type(zk.counters().seconds["a", "get"].buckets, tuple[int, ...])
assert_type(zk.counters().seconds["a", "get"].sum_s, float)
assert_type(zk.counters().map_epoch, int)

# ---- a client's life -----------------------------------------------------------------------------

zk.start(timeout=3)
zk.start("3")  # E: arg-type
zk.start_async().wait(3)
zk.restart()
zk.stop()
zk.close()
with zk as started:
    assert_type(started, ParKazooClient)
assert_type(zk.connected, bool)
assert_type(zk.state, str)
assert_type(zk.client_state, str)
assert_type(zk.client_id, tuple[int, bytes] | None)
assert_type(zk.chroot, str)
assert_type(zk.last_zxid, int)
assert_type(zk.command(b"ruok"), str)
assert_type(zk.server_version(), tuple[int, ...])
assert_type(zk.unchroot("/chroot/a"), str)
assert_type(zk.auth_data, set[tuple[str, str]])
assert_type(zk.default_acl, ACLs | None)
assert_type(zk.hosts, list[tuple[str, int]])
assert_type(zk.randomize_hosts, bool)
assert_type(zk.read_only, bool | None)
assert_type((zk.use_ssl, zk.verify_certs, zk.check_hostname), tuple[bool, bool, bool])
assert_type((zk.ca, zk.certfile), tuple[str | None, str | None])
assert_type((zk.keyfile, zk.keyfile_password), tuple[str | None, str | None])
zk.handler.sleep_func(0)
zk.logger.info("text")
print(zk.certs)  # E: attr-defined
zk.set_hosts("h3:2181")
zk.set_hosts(3)  # E: arg-type
zk.command("ruok")  # E: arg-type


def listener(state: str) -> bool:
    return state == "LOST"


zk.add_listener(listener)
zk.remove_listener(listener)
zk.add_listener(3)  # E: arg-type
assert_type(listener in zk.state_listeners, bool)


def take(client: KazooClient, event: KazooEvent) -> None:
    """kazoo's classes take ours."""


# ---- reads ---------------------------------------------------------------------------------------


def watch(event: WatchedEvent) -> None:
    assert_type(event.type, str)
    assert_type(event.path, str | None)
    print(event.pth)  # E: attr-defined
    take(zk, event)


def watch_as_with_kazoo(event: KazooEvent) -> None:
    print(event.path)


def no_watch(event: int) -> None:
    pass


assert_type(zk.get("/a"), tuple[bytes, ZnodeStat])
assert_type(zk.get("/a", watch=watch), tuple[bytes, ZnodeStat])
assert_type(zk.exists("/a", watch_as_with_kazoo), ZnodeStat | None)
assert_type(zk.get_children("/a"), list[str])
assert_type(zk.get_children("/a", include_data=True), tuple[list[str], ZnodeStat])
assert_type(zk.get_acls("/a"), tuple[list[ACL], ZnodeStat])
assert_type(zk.sync("/a"), str)
assert_type((zk.whoami(), zk.whoami_async().get()), tuple[list[Id], list[Id]])
assert_type((zk.get_ephemerals(), zk.get_ephemerals_async("/a").get()), tuple[list[str], list[str]])
assert_type(zk.count_all_children("/a"), int)
zk.count_all_children(3)  # E: arg-type
assert_type(zk.create_ttl("/a", b"1", ttl=3, sequence=True), str)
assert_type(zk.create_ttl_async("/a", ttl=0.5).get(), str)
assert_type((zk.create_container("/a"), zk.create_container_async("/a").get()), tuple[str, str])
zk.create_ttl("/a")  # E: call-arg
assert_type((zk.remove_watches("/a"), zk.remove_watches_async("/a", print).get()), tuple[bool, bool])
zk.remove_watches("/a", "print")  # E: arg-type
zk.add_watch("/a", print)
zk.add_watch("/a", print, AddWatchMode.PERSISTENT_RECURSIVE)
assert_type(zk.add_watch_async("/a", print).get(), None)
zk.add_watch("/a")  # E: call-arg
tree = zk.watch_tree("/a", lambda state: assert_type(state["/a"], tuple[bytes, ZnodeStat]))
tree.close()
zk.watch_tree(3)  # E: arg-type
zk.get(b"/a")  # E: arg-type
zk.get("/a", no_watch)  # E: arg-type
zk.get("/a", watcher=watch)  # E: call-arg
zk.exists()  # E: call-arg

value, stat = zk.get("/a")
assert_type(stat.version, int)
assert_type(stat.children_count, int)
assert_type(stat.created, float)
assert_type(stat.owner_session_id, int | None)
print(stat.versoin)  # E: attr-defined
value.encode()  # E: attr-defined
print(zk.exists("/a").version)  # E: union-attr

# ---- writes --------------------------------------------------------------------------------------

assert_type(zk.create("/a", b"1", ephemeral=True, sequence=True), str)
assert_type(zk.create("/a", include_data=True), tuple[str, ZnodeStat])
zk.create("/a", acl=[make_digest_acl("u", "p", all=True)])
assert_type(zk.set("/a", b"2", version=3), ZnodeStat)
assert_type(zk.set_acls("/a", [make_digest_acl("u", "p", all=True)]), ZnodeStat)
zk.ensure_path("/a/b")
zk.delete("/a", recursive=True)
assert_type(zk.add_auth("digest", "u:p"), bool)
assert_type(zk.reconfig(None, "3", None), tuple[bytes, ZnodeStat])
zk.creat("/a")  # E: attr-defined
zk.set("/a", 17)  # E: arg-type
zk.set("/a", "17")  # E: arg-type
zk.create("/a", ephemral=True)  # E: call-overload
zk.create("/a", acl="world")  # E: call-overload
zk.delete("/a", "1")  # E: arg-type
zk.set_acls("/a", "world:anyone")  # E: arg-type

# ---- asynchronous calls --------------------------------------------------------------------------

assert_type(zk.get_async("/a"), AsyncResult[tuple[bytes, ZnodeStat]])
assert_type(zk.get_async("/a").get(timeout=1), tuple[bytes, ZnodeStat])
assert_type(zk.exists_async("/a").value, ZnodeStat | None)
assert_type(zk.create_async("/a").get(), str)
assert_type(zk.create_async("/a", include_data=True).get(), tuple[str, ZnodeStat])
assert_type(zk.get_children_async("/a"), AsyncResult[list[str]])
assert_type(zk.set_async("/a", b"").get_nowait(), ZnodeStat)
assert_type(zk.delete_async("/a"), AsyncResult[bool])
assert_type(zk.sync_async("/a").get(), str)
assert_type(zk.ensure_path_async("/a").get(), str | bool)
assert_type(zk.get_acls_async("/a").get(), tuple[list[ACL], ZnodeStat])
assert_type(zk.set_acls_async("/a", []).get(), ZnodeStat)
assert_type(zk.add_auth_async("digest", "u:p").get(), bool)
assert_type(zk.reconfig_async(None, "3", None, -1).get(), tuple[bytes, ZnodeStat])


def completed(result: AsyncResult[tuple[bytes, ZnodeStat]]) -> None:
    assert_type(result.get(), tuple[bytes, ZnodeStat])
    assert_type(result.exception, BaseException | None)


zk.get_async("/a").rawlink(completed)
zk.exists_async("/a").rawlink(completed)  # E: arg-type
zk.get_async("/a").gett()  # E: attr-defined
zk.get_async("/a").get(timeout="1")  # E: arg-type
zk.set_async("/a", 17)  # E: arg-type

# ---- retry and transactions ----------------------------------------------------------------------

assert_type(zk.retry(zk.get, "/a"), tuple[bytes, ZnodeStat])
assert_type(zk.retry(zk.set, "/a", b"", version=3), ZnodeStat)
zk.retry(zk.get, 3)  # E: arg-type

with zk.transaction() as transaction:
    transaction.create("/a", b"1")
    transaction.set_data("/a", b"2", version=0)
    transaction.check("/a", 1)
    transaction.delete("/a")
    transaction.set_data("/a", 17)  # E: arg-type
    transaction.sett("/a", b"")  # E: attr-defined
for outcome in transaction.commit():
    assert_type(outcome, str | bool | ZnodeStat | Exception)
assert_type(transaction.commit_async().get(), list[str | bool | ZnodeStat | Exception])
assert_type(transaction.committed, bool)
assert_type(transaction.operations, list[Any])
transaction.client.stop()

# ---- recipes -------------------------------------------------------------------------------------


def hold(lock: Lock) -> bool:
    with lock:
        pass
    return lock.acquire(blocking=True, timeout=3)


hold(zk.Lock("/lock", "me", extra_lock_patterns=["lock"]))
hold(zk.ReadLock("/lock"))
hold(zk.WriteLock("/lock"))
lock = zk.Lock("/lock")
assert_type(lock.state, str)
assert_type(lock.contenders(), list[str])
assert_type(lock.acquire(), bool)
assert_type(lock.release(), bool)
assert_type((lock.is_acquired, lock.cancelled, lock.create_tried), tuple[bool, bool, bool])
assert_type(lock.path + (lock.node or ""), str)
assert_type(zk.ReadLock("/lock").state, str)
assert_type(zk.WriteLock("/lock").state, str)
lock.client.stop()
lock.cancel()
lock.aquire()  # E: attr-defined
lock.acquire(timeout="3")  # E: arg-type
print(lock.stat)  # E: attr-defined
zk.Lock(3)  # E: arg-type
zk.Lock("/lock", identfier="me")  # E: call-arg
semaphore = zk.Semaphore("/semaphore", max_leases=3)
assert_type(semaphore.state, str)
assert_type(semaphore.lease_holders(), list[str])
assert_type(semaphore.acquire(timeout=3), bool)
assert_type(semaphore.release(), bool)
assert_type((semaphore.is_acquired, semaphore.cancelled, semaphore.max_leases), tuple[bool, bool, int])
assert_type(semaphore.path + semaphore.create_path, str)
semaphore.client.stop()
semaphore.cancel()
zk.Semaphore("/semaphore", leases=3)  # E: call-arg
barrier = zk.Barrier("/barrier")
barrier.create()
assert_type(barrier.wait(timeout=3), bool)
assert_type(barrier.remove(), bool)
barrier.wait(timeout="3")  # E: arg-type
double_barrier = zk.DoubleBarrier("/barrier", 3, identifier="me")
double_barrier.enter()
double_barrier.leave()
assert_type(double_barrier.participating, bool)
zk.DoubleBarrier("/barrier").enter()  # E: call-arg
counter = zk.Counter("/counter", default=3)
counter += 2
counter -= 2
assert_type(counter.value, int)
assert_type((counter.pre_value, counter.post_value), tuple[int | None, int | None])
counter += "2"  # E: operator
assert_type((zk.Counter("/counter", default=0.5) + 1.5).value, float)
election = zk.Election("/election", "me")
election.run(hold, zk.Lock("/lock"))
election.run(hold, 3)  # E: arg-type
assert_type(election.contenders(), list[str])
assert_type(election.lock.state, str)
election.cancel()
party = zk.Party("/party", "me")
party.join()
assert_type(party.leave(), bool)
assert_type(party.participating, bool)
assert_type(list(party), list[str])
assert_type(len(party), int)
shallow_party = zk.ShallowParty("/party")
shallow_party.join()
assert_type(shallow_party.leave(), bool)
assert_type(shallow_party.participating, bool)
shallow_party.joins()  # E: attr-defined
queue = zk.Queue("/queue")
assert_type(queue.get(), bytes | None)
assert_type(len(queue), int)
queue.put(b"1", priority=3)
queue.put("text")  # E: arg-type
locking_queue = zk.LockingQueue("/queue")
assert_type(locking_queue.get(timeout=3), bytes | None)
assert_type(
    (locking_queue.holds_lock(), locking_queue.release(), locking_queue.consume()), tuple[bool, bool, bool]
)
assert_type((locking_queue.id, len(locking_queue)), tuple[bytes, int])
assert_type(locking_queue.processing_element, tuple[str, bytes] | None)
assert_type(locking_queue.structure_paths, tuple[str, ...])
locking_queue.client.stop()
locking_queue.put(b"1", priority=3)
locking_queue.put_all([b"1", b"2"], priority=3)
locking_queue.put("text")  # E: arg-type
partitioner = zk.SetPartitioner("/set", {1, 2})
assert_type(list(partitioner), list[int])
assert_type((partitioner.allocating, partitioner.acquired, partitioner.release), tuple[bool, bool, bool])
assert_type((partitioner.failed, partitioner.state, partitioner.state_id), tuple[bool, str, int])
partitioner.state_change_event.wait(3)
partitioner.wait_for_acquire(3)
partitioner.release_set()
partitioner.finish()
zk.SetPartitioner("/set", 3)  # E: arg-type
lease = zk.NonBlockingLease("/lease", datetime.timedelta(hours=1))
assert_type((lease.obtained, bool(lease)), tuple[bool, bool])
zk.NonBlockingLease("/lease", 3600)  # E: arg-type
leases = zk.MultiNonBlockingLease(3, "/lease", datetime.timedelta(hours=1))
assert_type(leases.obtained, bool)


@zk.DataWatch("/a")
def changed(data: bytes | None, stat: ZnodeStat | None) -> bool | None:
    return None


@zk.DataWatch("/a")
def changed_by(data: bytes | None, stat: ZnodeStat | None, event: WatchedEvent | None) -> None: ...


@zk.ChildrenWatch("/a")
def children(names: list[str]) -> None: ...


cache = zk.TreeCache("/a")
cache.start()
zk.TreeCache()  # E: call-arg
zk.ChildrenWatch("/a", lambda names, event: None, send_event=True)
zk.DataWatch("/a", 3)  # E: arg-type
zk.ChildrenWatch("/a", func=3)  # E: arg-type
assert_type(changed(b"", stat), bool | None)

# ---- what ParKazoo adds --------------------------------------------------------------------------

cluster_map = zk.cluster_map
assert cluster_map is not None
assert_type(cluster_map.names, tuple[str, ...])
assert_type(cluster_map.ensembles, Mapping[str, str])
assert_type((cluster_map.placement, cluster_map.weights), tuple[tuple[str, ...], Mapping[str, int]])
assert_type((cluster_map.unweighted, cluster_map.bootstrap), tuple[tuple[str, ...], str])
assert_type((cluster_map.cluster, cluster_map.epoch), tuple[str, int])
print(cluster_map.format, cluster_map.form, cluster_map.epochs)
assert_type(zk.members["b"].command(b"srvr"), str)
zk.join("a", timeout=3)
zk.join(3)  # E: arg-type
assert_type(zk.state_of("/a"), str)

assert_type(zk.once(zk.create, "/a", b"1", sequence=True), str)
assert_type(zk.once(zk.set, "/a", b"1", 3), ZnodeStat)
zk.once(zk.set, 3, b"1")  # E: arg-type

with zk.deferred(max_pending=3, linger_s=0.1, on_error="skip", guard="/lock/me") as deferred:
    ticket = deferred.put("/a", b"1")
    deferred.add("/a/b")
    deferred.drop("/a/b")
    assert_type(deferred.pending, int)
    deferred.barrier(timeout=3)
    deferred.put("/a", "text")  # E: arg-type
deferred.close(timeout=3)
assert_type(ticket.wait(3), bool)
assert_type(ticket.state, str)
assert_type(ticket.error, Exception | None)
zk.deferred(on_error="ignore")  # E: arg-type

spread = zk.Spread("/spread", 16)
assert_type(spread.create("a", b"1", ephemeral=True), str)
assert_type(spread.get("a"), tuple[bytes, ZnodeStat])
assert_type(spread.get_children(), list[str])
assert_type((spread.count(), spread.delete("a")), tuple[int, bool])
assert_type(spread.path_of("a"), str)
assert_type(spread.set("a", b"2"), ZnodeStat)
assert_type(spread.exists("a"), ZnodeStat | None)
zk.Spread("/spread")  # E: call-arg

shared = zk.DistributedDict("/d", Count(5), serializer=pickle, shards=3)
shared["a"] = {1: 2}
shared[1] = 2  # E: index
shared.update({"b": 1}, c=2)
assert_type(shared.get("a"), Any | None)
assert_type(shared.get_with_version("a"), tuple[Any, int])
assert_type(shared.compare_and_set("a", None, 3), bool)
assert_type(shared.snapshot(), dict[str, Any])
assert_type(shared.is_stale, bool)
assert_type(list(shared.items()), list[tuple[str, Any]])
assert_type(list(shared.keys()) + list(shared), list[str])
assert_type(list(shared.values()), list[Any])
assert_type(shared.copy() | shared, dict[str, Any])
assert_type(shared.popitem(), tuple[str, Any])
shared.pop("a", None)
shared.setdefault("a", 1)
shared.refresh()
shared.clear()
shared.close()
zk.DistributedDict("/d", "always")  # E: arg-type
zk.DistributedDict("/d", serializer=3)  # E: arg-type
for policy in (Always(), Linearizable(), Time(3), Watch(raises=True), LockPolicy()):
    zk.DistributedDict("/d", policy)

try:
    zk.start()
except (ClusterMapError, ForkError, AnswerLostError, RequestTooLargeError, WentBackError) as error:
    assert_type(str(error), str)
except CrossEnsembleError as error:
    assert_type(error.operations, tuple[tuple[str, str, str], ...])
except OutcomeUnknown as error:
    assert_type(error.keys, tuple[str, ...])
except PartlyDoneError as error:
    assert_type((error.done, error.unknown, error.left), tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]])
except DeferredError as error:
    failures = error.failed + error.dropped + error.unknown
    assert_type(failures, tuple[tuple[str, Exception], ...])

with LocalCluster(ensembles=3, servers=3) as cluster:
    assert_type(cluster.hosts, str)
    assert_type([ensemble.name for ensemble in cluster.ensembles], list[str])
    cluster.stop()
    cluster.start()
    assert_type(check(cluster.hosts), Report)


@shared.on_change
def told(key: str, old: Any, new: Any, version: int | None) -> None: ...


def annotated(
    znode: types.Id | types.ACL,
    client: types.KazooClient,
    retry: types.KazooRetry,
    transaction: types.TransactionRequest,
    barriers: types.Barrier | types.DoubleBarrier,
    counter: types.Counter[int],
    elected: types.Election,
    leased: types.NonBlockingLease | types.MultiNonBlockingLease,
    held: types.Lock | types.ReadLock | types.WriteLock | types.Semaphore,
    parties: types.Party | types.ShallowParty,
    partitioner: types.SetPartitioner[str],
    queues: types.Queue | types.LockingQueue,
    watches: types.DataWatch | types.ChildrenWatch,
    result: types.AsyncResult[types.ZnodeStat],
    event: types.WatchedEvent,
    acls: types.ACLs,
) -> None:
    retry(client.restart)
    print(acls)


class Client(ParKazooClient):
    """A user's own."""

    def __init__(self, **options: Any) -> None:
        super().__init__("h1:2181", **options)

    def get_async(self, path: str, watch: Any = None) -> AsyncResult[tuple[bytes, ZnodeStat]]:
        return super().get_async(path, watch)
