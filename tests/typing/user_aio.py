"""A user's program of the asyncio client under ``mypy --strict`` and pyright, as user.py; nothing runs it."""

import asyncio
import pickle
from datetime import datetime, timedelta
from typing import Any

from typing_extensions import assert_type

from parkazoo.aio import LockLostError, ParKazooClient
from parkazoo.monitoring import Listener
from parkazoo.structures.policies import Watch
from parkazoo.types import ACL, AddWatchMode, Id, ZnodeStat
from parkazoo.types.client import TransactionResult
from parkazoo.types.znodes import WatchedEvent

ParKazooClient(["h1:2181", "h2"], auth_data=[("digest", "u:p")], randomize_hosts=False)
ParKazooClient(give_up_after=30, consistency="total")
ParKazooClient(consistency="eventual")  # E: arg-type
ParKazooClient(hotss="h1:2181")  # E: call-arg
ParKazooClient(timeout="4")  # E: arg-type
ParKazooClient(handler=None)  # E: call-arg
ParKazooClient(client_id=ParKazooClient().client_id, read_only=True, sasl_options={"mechanism": "DIGEST-MD5"})
ParKazooClient(use_ssl=True, ca="ca.pem", certfile="cert.pem", keyfile="key.pem", check_hostname=True)
zk = ParKazooClient("h1:2181/chroot", timeout=4.0, default_acl=None)
assert_type((zk.chroot, zk.connected, zk.state), tuple[str, bool, str])
assert_type((zk.hosts, zk.auth_data, zk.randomize_hosts), tuple[list[tuple[str, int]], set[tuple[str, str]], bool])
zk.logger.info("%s %s %s %s", zk.default_acl, zk.read_only, zk.sasl_options, zk.tls.ca)
assert_type(zk.client_id, tuple[int, bytes] | None)


def told(event: WatchedEvent) -> None:
    assert_type((event.type, event.state), tuple[str, str])


async def states() -> None:
    await zk.start(timeout=3)
    zk.add_listener(print)
    zk.remove_listener(print)
    zk.add_listener("print")  # E: arg-type
    await zk.stop()
    await zk.leave()
    assert_type(zk.granted_timeout_s, float | None)
    async with zk as same:
        assert_type(same, ParKazooClient)


async def reads() -> None:
    value, stat = await zk.get("/a", told)
    assert_type((value, stat), tuple[bytes, ZnodeStat])
    assert_type(zk.get_async("/a"), asyncio.Future[tuple[bytes, ZnodeStat]])
    assert_type(await zk.exists("/a", watch=told), ZnodeStat | None)
    assert_type(await zk.exists_async("/a"), ZnodeStat | None)
    assert_type(await zk.get_children("/a"), list[str])
    assert_type(await zk.get_children("/a", include_data=True), tuple[list[str], ZnodeStat])
    assert_type(await zk.get_children_async("/a", told), list[str])
    assert_type(await zk.get_acls("/a"), tuple[list[ACL], ZnodeStat])
    assert_type(await zk.get_acls_async("/a"), tuple[list[ACL], ZnodeStat])
    assert_type((await zk.sync("/a"), await zk.sync_async("/a")), tuple[str, str])
    assert_type(zk.unchroot("/a"), str)
    zk.forget_watch("/a", told)
    assert_type((await zk.whoami(), await zk.whoami_async()), tuple[list[Id], list[Id]])
    assert_type((await zk.get_ephemerals("/a"), await zk.get_ephemerals_async()), tuple[list[str], list[str]])
    assert_type(await zk.count_all_children("/a"), int)
    await zk.add_watch("/a", told, AddWatchMode.PERSISTENT)
    await zk.add_watch_async("/a", told)
    assert_type((await zk.remove_watches("/a"), await zk.remove_watches_async("/a", told)), tuple[bool, bool])
    assert_type((await zk.create_ttl("/a", ttl=3), await zk.create_ttl_async("/a", ttl=0.5)), tuple[str, str])
    assert_type((await zk.create_container("/a"), await zk.create_container_async("/a")), tuple[str, str])
    await zk.get(b"/a")  # E: arg-type
    await zk.get("/a", "told")  # E: arg-type
    zk.get("/a").result()  # E: attr-defined


async def one_after_the_other() -> None:
    async with zk.watch_data("/a") as states:
        async for state in states:
            assert_type(state, tuple[bytes, ZnodeStat] | None)
    async for names in zk.watch_children("/a"):
        assert_type(names, list[str] | None)
    async for own in zk.states():
        assert_type(own, str)
    zk.watch_data(b"/a")  # E: arg-type


async def writes() -> None:
    assert_type((await zk.add_auth("digest", "u:p"), await zk.add_auth_async("digest", "u:p")), tuple[bool, bool])
    assert_type(await zk.create("/a", b"1", ephemeral=True, sequence=True, makepath=True), str)
    assert_type(await zk.create("/a", include_data=True), tuple[str, ZnodeStat])
    assert_type(zk.create_async("/a"), asyncio.Future[str])
    assert_type(await zk.ensure_path("/a"), str | bool)
    assert_type(await zk.ensure_path_async("/a"), str | bool)
    assert_type((await zk.set("/a", b"", 3), await zk.set_async("/a", None)), tuple[ZnodeStat, ZnodeStat])
    assert_type(await zk.set_acls("/a", []), ZnodeStat)
    assert_type(await zk.set_acls_async("/a", []), ZnodeStat)
    assert_type(await zk.delete("/a", recursive=True), bool | None)
    assert_type(await zk.delete_async("/a", version=3), bool)
    await zk.set("/a", "text")  # E: arg-type
    async with asyncio.TaskGroup() as group:
        assert_type(await group.create_task(zk.set("/a", b"")), ZnodeStat)


async def transactions() -> None:
    async with zk.transaction() as transaction:
        transaction.create("/a", b"1", None, ephemeral=True, sequence=True)
        transaction.set_data("/a", b"")
        transaction.check("/a", 3)
        transaction.delete("/a", 3)
        transaction.create("/a", "text")  # E: arg-type
    assert_type((transaction.results, transaction.committed), tuple[list[TransactionResult], bool])
    assert_type(await transaction.commit(), list[TransactionResult])
    assert_type(await transaction.commit_async(), list[TransactionResult])
    assert_type(len(transaction.operations), int)


async def locks() -> None:
    lock = zk.Lock("/locks/a", "me", extra_lock_patterns=["-lock-"])
    assert_type((await lock.acquire(), await lock.acquire(blocking=False)), tuple[bool, bool])
    assert_type((await lock.release(), lock.client.connected), tuple[bool, bool])
    assert_type((lock.is_acquired, lock.node, lock.path, lock.data), tuple[bool, str | None, str, bytes])
    assert_type(await lock.contenders(), list[str])
    try:
        async with zk.ReadLock("/locks/a", "me") as reading, zk.WriteLock("/locks/b"):
            assert_type(await reading.release(), bool)
    except LockLostError:
        pass
    zk.Lock(b"/locks/a")  # E: arg-type
    await lock.acquire(timeout=3)  # E: call-arg
    with lock:  # E: attr-defined
        pass


async def semaphores() -> None:
    semaphore = zk.Semaphore("/leases/a", "me", max_leases=3)
    assert_type((await semaphore.acquire(), await semaphore.acquire(blocking=False)), tuple[bool, bool])
    assert_type((await semaphore.release(), await semaphore.lease_holders()), tuple[bool, list[str]])
    assert_type((semaphore.is_acquired, semaphore.path, semaphore.data), tuple[bool, str, bytes])
    assert_type((semaphore.max_leases, semaphore.client.connected), tuple[int, bool])
    async with semaphore as same:
        assert_type(await same.release(), bool)
    zk.Semaphore("/leases/a", max_leases="3")  # E: arg-type


async def lead(term: int, *, is_first: bool) -> str:
    return f"{term} {is_first}"


async def elections() -> None:
    election = zk.Election("/leader", "me")
    assert_type(await election.run(lead, 3, is_first=True), str)
    assert_type((await election.contenders(), election.lock.is_acquired), tuple[list[str], bool])
    await election.run(lead, "3", is_first=True)  # E: arg-type
    await election.run(lead)  # E: call-arg


async def writes_that_are_done_once() -> None:
    assert_type(await zk.once(zk.set, "/a", b"1", version=3), ZnodeStat)
    assert_type(await zk.once(zk.transaction().commit), list[TransactionResult])
    await zk.once(zk.set, "/a", 7)  # E: arg-type
    await zk.once(print)  # E: arg-type


async def counters() -> None:
    counter, fractions = zk.Counter("/n", support_curator=True), zk.Counter("/f", 0.5)
    assert_type((await counter.add(3), await counter.value()), tuple[int, int])
    assert_type((counter.pre_value, counter.post_value), tuple[int | None, int | None])
    assert_type((counter.path, counter.default, counter.support_curator), tuple[str, int, bool])
    assert_type((await fractions.add(0.5), counter.client.connected), tuple[float, bool])
    await counter.add(0.5)  # E: arg-type


async def queues() -> None:
    queue = zk.Queue("/q")
    await queue.put(b"1", priority=3)
    assert_type((await queue.get(), await queue.qsize()), tuple[bytes | None, int])
    assert_type((queue.path, queue.client.connected), tuple[str, bool])
    await queue.put("1")  # E: arg-type


async def locking_queues() -> None:
    locking_queue = zk.LockingQueue("/q")
    await locking_queue.put(b"1", priority=3)
    await locking_queue.put_all([b"1", b"2"], 3)
    assert_type(
        (await locking_queue.get(), await locking_queue.qsize(), locking_queue.path), tuple[bytes, int, str]
    )
    assert_type(
        (await locking_queue.holds_lock(), await locking_queue.consume(), await locking_queue.release()),
        tuple[bool, bool, bool],
    )
    assert_type(locking_queue.client.connected, bool)
    async with locking_queue.entry() as value:
        assert_type(value, bytes)
    await locking_queue.put_all([1])  # E: list-item
    await locking_queue.get(timeout=3)  # E: call-arg


async def trees() -> None:
    async with zk.watch_tree("/a") as states:
        async for state in states:
            assert_type(state["/a/b"], tuple[bytes, ZnodeStat])
    zk.watch_tree(7)  # E: arg-type
    cache = zk.TreeCache("/a")

    @cache.listen
    def changed(event: object) -> None:
        print(event)

    cache.listen_fault(changed)
    await cache.start()
    async with cache as same:
        assert_type(same.path, str)
    print(cache.path, cache.get_data("/a", default=None), cache.get_children("/a"), cache.client.connected)
    await cache.close()
    cache.listen("print")  # E: type-var


async def spreads() -> None:
    spread = zk.Spread("/s", 30)
    assert_type((await spread.create("a", b"1"), await spread.get_children(told)), tuple[str, list[str]])
    assert_type((await spread.get("a"), await spread.set("a", b"2")), tuple[tuple[bytes, ZnodeStat], ZnodeStat])
    assert_type((await spread.exists("a"), await spread.delete("a")), tuple[ZnodeStat | None, bool])
    assert_type((await spread.count(), spread.path_of("a"), spread.buckets), tuple[int, str, int])
    await spread.verify()
    print(spread.client.connected, spread.path, spread.number_of("a"), spread.bucket(3))
    zk.Spread("/s", "30")  # E: arg-type


async def partitioners() -> None:
    partitioner = zk.SetPartitioner("/work", [1, 2, 3], identifier="me", time_boundary=0.5)
    if partitioner.release:
        await partitioner.release_set()
    elif partitioner.allocating:
        await partitioner.wait_for_acquire()
    assert_type((partitioner.acquired, partitioner.failed, partitioner.state), tuple[bool, bool, str])
    assert_type((partitioner.path, list(partitioner)), tuple[str, list[int]])
    async with partitioner as same:
        async for share in same:
            assert_type(share, list[int])
            await same.wait_for_release()
    await partitioner.state_change_event.wait()
    assert_type((partitioner.client.connected, partitioner.time_boundary), tuple[bool, float])
    assert_type(partitioner.max_reaction_time, float)
    await partitioner.wait_for_release()
    await partitioner.finish()
    zk.SetPartitioner("/work", 3)  # E: arg-type


async def barriers() -> None:
    barrier = zk.Barrier("/barrier")
    await barrier.create()
    await barrier.wait()
    assert_type((await barrier.remove(), barrier.path, barrier.client.connected), tuple[bool, str, bool])
    await barrier.wait(timeout=3)  # E: call-arg
    double = zk.DoubleBarrier("/barrier", num_clients=3, identifier="me")
    async with double as same:
        assert_type((same.participating, double.path, double.num_clients), tuple[bool, str, int])
    await double.enter()
    await double.leave()
    assert_type(double.client.connected, bool)
    zk.DoubleBarrier("/barrier", "3")  # E: arg-type


async def parties() -> None:
    party = zk.Party("/party", "me")
    await party.join()
    async with zk.ShallowParty("/party") as shallow:
        assert_type(await shallow.members(), list[str])
    assert_type((await party.members(), await party.size(), await party.leave()), tuple[list[str], int, bool])
    assert_type((party.participating, party.path, party.data), tuple[bool, str, bytes])
    assert_type(party.client.connected, bool)
    await party.join("me")  # E: call-arg


async def leases() -> None:
    lease = zk.NonBlockingLease("/lease", timedelta(hours=1), "me", utcnow=datetime.now)
    assert_type((await lease.obtain(), lease.obtained), tuple[bool, bool])
    several = zk.MultiNonBlockingLease(3, "/lease", timedelta(hours=1))
    assert_type((await several.obtain(), several.obtained), tuple[bool, bool])
    zk.NonBlockingLease("/lease", 3600)  # E: arg-type


async def defer(zk: ParKazooClient) -> None:
    async with zk.deferred(max_pending=3, linger_s=0.1, on_error="skip", guard="/lock/me") as later:
        ticket = await later.put("/a", b"1")
        await later.add("/a/b")
        await later.drop("/a/b")
        assert_type((ticket.state, later.pending), tuple[str, int])
        await later.barrier()
        await ticket
        await later.put("/a", "text")  # E: arg-type
    zk.deferred(on_error="ignore")  # E: arg-type


async def show(zk: ParKazooClient) -> None:
    await zk.join("a", "b", timeout=3)
    assert_type(zk.state_of("/a"), str)
    if zk.cluster_map is not None:
        assert_type((zk.counters().map_epoch, zk.cluster_map.epoch), tuple[int, int])
    ParKazooClient("h", counters=True, listeners=[Listener()])
    ParKazooClient("h", listeners=[7])  # E: list-item


async def share(zk: ParKazooClient) -> None:
    async with zk.DistributedDict("/settings", serializer=pickle, ephemeral=True) as d:
        await d.set("a", 1)
        await d.update({"b": 2}, c=3)
        assert_type((d.get_with_version("a"), await d.compare_and_set("a", 0, 2)), tuple[tuple[Any, int], bool])
        async for key, _, _, version in d.changes():
            assert_type((key, version), tuple[str, int | None])
        await d.set(7, 1)  # E: arg-type
        assert_type((await d.popitem(), await d.snapshot()), tuple[tuple[str, Any], dict[str, Any]])
    zk.DistributedDict("/settings", Watch(raises=True), shards=2)
    zk.DistributedDict("/settings", shards="2")  # E: arg-type
