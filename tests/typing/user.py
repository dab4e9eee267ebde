"""A user's program under ``mypy --strict`` and pyright; nothing runs it.

A line that ends in ``E:`` and mypy's code is an error to both. ``assert_type`` has the type that both must see.
"""

import datetime
import pickle
from typing import Any

from kazoo.client import KazooClient  # type: ignore[import-untyped]
from kazoo.handlers.gevent import SequentialGeventHandler  # type: ignore[import-untyped]
from kazoo.protocol.states import WatchedEvent as KazooEvent  # type: ignore[import-untyped]
from kazoo.retry import KazooRetry  # type: ignore[import-untyped]
from kazoo.security import make_digest_acl  # type: ignore[import-untyped]
from typing_extensions import assert_type

from parkazoo import ParKazooClient
from parkazoo.structures.policies import Count
from parkazoo.types import ACL, AsyncResult, Lock, WatchedEvent, ZnodeStat

# ---- options -------------------------------------------------------------------------------------

zk = ParKazooClient("h1:2181,h2:2181/chroot", timeout=4.0, client_id=(1, b"password"))
ParKazooClient(["h1:2181", "h2"], handler=SequentialGeventHandler(), auth_data=[("digest", "u:p")])
ParKazooClient(connection_retry=KazooRetry(max_tries=3), command_retry={"max_tries": 3}, max_retries=3)
ParKazooClient(give_up_after=30, consistency="total")
ParKazooClient(hotss="h1:2181")  # E: call-arg
ParKazooClient(consistency="eventual")  # E: arg-type
ParKazooClient(2181)  # E: arg-type
ParKazooClient(timeout="4")  # E: arg-type
ParKazooClient(use_ssl="yes")  # E: arg-type
ParKazooClient(handler=3)  # E: arg-type

# ---- a client's life -----------------------------------------------------------------------------

zk.start(timeout=3)
zk.start("3")  # E: arg-type
zk.start_async().wait(3)
zk.restart()
zk.stop()
zk.close()
assert_type(zk.connected, bool)
assert_type(zk.state, str)
assert_type(zk.client_state, str)
assert_type(zk.client_id, tuple[int, bytes] | None)
assert_type(zk.chroot, str)
assert_type(zk.last_zxid, int)
assert_type(zk.command(b"ruok"), str)
assert_type(zk.server_version(), tuple[int, ...])
zk.set_hosts("h3:2181")
zk.set_hosts(3)  # E: arg-type
zk.command("ruok")  # E: arg-type


def listener(state: str) -> bool:
    return state == "LOST"


zk.add_listener(listener)
zk.remove_listener(listener)
zk.add_listener(3)  # E: arg-type


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
for outcome in zk.transaction().commit():
    assert_type(outcome, str | bool | ZnodeStat | Exception)
assert_type(transaction.committed, bool)

# ---- recipes -------------------------------------------------------------------------------------


def hold(lock: Lock) -> bool:
    with lock:
        pass
    return lock.acquire(blocking=True, timeout=3)


hold(zk.Lock("/lock", "me", extra_lock_patterns=["lock"]))
hold(zk.ReadLock("/lock"))
hold(zk.WriteLock("/lock"))
assert_type(zk.Lock("/lock").contenders(), list[str])
zk.Lock("/lock").aquire()  # E: attr-defined
zk.Lock("/lock").acquire(timeout="3")  # E: arg-type
zk.Lock(3)  # E: arg-type
zk.Lock("/lock", identfier="me")  # E: call-arg
assert_type(zk.Semaphore("/semaphore", max_leases=3).lease_holders(), list[str])
zk.Semaphore("/semaphore", leases=3)  # E: call-arg
assert_type(zk.Barrier("/barrier").wait(timeout=3), bool)
zk.Barrier("/barrier").wait(timeout="3")  # E: arg-type
zk.DoubleBarrier("/barrier", 3, identifier="me").enter()
zk.DoubleBarrier("/barrier").enter()  # E: call-arg
counter = zk.Counter("/counter", default=3)
counter += 2
assert_type(counter.value, int)
counter += "2"  # E: operator
assert_type((zk.Counter("/counter", default=0.5) + 1.5).value, float)
zk.Election("/election", "me").run(hold, zk.Lock("/lock"))
zk.Election("/election").run(hold, 3)  # E: arg-type
assert_type(list(zk.Party("/party", "me")), list[str])
zk.ShallowParty("/party").join()
zk.ShallowParty("/party").joins()  # E: attr-defined
assert_type(zk.Queue("/queue").get(), bytes | None)
zk.Queue("/queue").put("text")  # E: arg-type
assert_type(zk.LockingQueue("/queue").get(timeout=3), bytes | None)
zk.LockingQueue("/queue").put_all([b"1", b"2"], priority=3)
zk.LockingQueue("/queue").put("text")  # E: arg-type
assert_type(list(zk.SetPartitioner("/set", {1, 2})), list[int])
zk.SetPartitioner("/set", 3)  # E: arg-type
assert_type(zk.NonBlockingLease("/lease", datetime.timedelta(hours=1)).obtained, bool)
zk.NonBlockingLease("/lease", 3600)  # E: arg-type
zk.MultiNonBlockingLease(3, "/lease", datetime.timedelta(hours=1))


@zk.DataWatch("/a")
def changed(data: bytes | None, stat: ZnodeStat | None) -> bool | None:
    return None


@zk.DataWatch("/a")
def changed_by(data: bytes | None, stat: ZnodeStat | None, event: WatchedEvent | None) -> None: ...


@zk.ChildrenWatch("/a")
def children(names: list[str]) -> None: ...


zk.ChildrenWatch("/a", lambda names, event: None, send_event=True)
zk.DataWatch("/a", 3)  # E: arg-type
zk.ChildrenWatch("/a", func=3)  # E: arg-type
assert_type(changed(b"", stat), bool | None)

# ---- what ParKazoo adds --------------------------------------------------------------------------

cluster_map = zk.cluster_map
assert cluster_map is not None
assert_type(cluster_map.names, tuple[str, ...])
assert_type(zk.members["b"].command(b"srvr"), str)

shared = zk.DistributedDict("/d", Count(5), serializer=pickle, shards=3)
shared["a"] = {1: 2}
shared[1] = 2  # E: index
shared.update({"b": 1}, c=2)
assert_type(shared.get_with_version("a"), tuple[Any, int])
assert_type(shared.compare_and_set("a", None, 3), bool)
assert_type(shared.snapshot(), dict[str, Any])
assert_type(shared.is_stale, bool)
assert_type(list(shared.items()), list[tuple[str, Any]])
shared.pop("a", None)
zk.DistributedDict("/d", "always")  # E: arg-type
zk.DistributedDict("/d", serializer=3)  # E: arg-type


@shared.on_change
def told(key: str, old: Any, new: Any, version: int | None) -> None: ...


class Client(ParKazooClient):
    """A user's own."""

    def __init__(self, **options: Any) -> None:
        super().__init__("h1:2181", **options)

    def get_async(self, path: str, watch: Any = None) -> AsyncResult[tuple[bytes, ZnodeStat]]:
        return super().get_async(path, watch)
