"""A client after fork(): in the child it raises at once; the parent notices nothing."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import traceback
import unittest
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

from kazoo.protocol.states import KazooState, KeeperState

from parkazoo import ForkError, ParKazooClient
from parkazoo.protocol.cluster_map import format_hosts
from tests.handlers import handler_name, make_handler
from tests.live.world import DEADLINE_S, LiveTest, Seen, sockets, wait_until

SHORT_S = 6.0  # a session timeout that a test outlasts


def fork() -> int:
    """os.fork, or what gevent has in its place."""
    if handler_name() == "threading":
        return os.fork()
    from gevent.os import fork_and_watch  # noqa: PLC0415 - gevent is optional

    return int(fork_and_watch())


def wait_for(pid: int) -> int:
    """The exit code of a child."""
    if handler_name() == "threading":
        waitpid: Callable[[int, int], tuple[int, int]] = os.waitpid
    else:
        from gevent.os import waitpid  # noqa: PLC0415 - gevent is optional
    status = wait_until(lambda: (done := waitpid(pid, os.WNOHANG))[0] and [done[1]], f"the end of {pid}")[0]
    return os.waitstatus_to_exitcode(status)


def error_of(call: Callable[[], Any]) -> str:
    """The message of the ForkError that `call` raises, or what it does instead."""
    try:
        return f"no error, but {call()}"
    except ForkError as error:
        return str(error)
    except Exception as error:
        return repr(error)


def in_child(test: unittest.TestCase, call: Callable[[], Any]) -> Any:
    """What `call` returns in a child process; an error there fails the test."""
    reading, writing = os.pipe()
    pid = fork()
    if not pid:
        code = 1
        try:
            answer = json.dumps(call()).encode()
            os.write(writing, answer)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(writing)
    code = wait_for(pid)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    test.assertEqual(code, 0, "see the log")
    return json.loads(answer)


class ForkTest(LiveTest):
    timeout_s = 10.0

    def setUp(self) -> None:
        super().setUp()
        self.client = self.joined(timeout=self.timeout_s)
        self.root = self.new_root(self.client)
        self.number = self.client.client_id[0]
        self.states = Seen()
        self.client.add_listener(self.states)

    def check_parent(self) -> None:
        """The same session goes on, on the same connections."""
        for member in self.client.members.values():
            self.assertIsNotNone(member.get_children("/"))
        self.client.create(f"{self.root}/after", b"", ephemeral=True)
        self.client.delete(f"{self.root}/after")
        self.assertEqual(self.client.client_id[0], self.number)
        self.assertEqual(self.states, [])


class TestChild(ForkTest):
    def uses(self) -> dict[str, Callable[[], Any]]:
        client, path = self.client, self.root
        lock = client.Lock(f"{path}/held")
        lock.acquire()
        transaction = client.transaction()
        transaction.create(f"{path}/t")

        def called_back() -> Any:
            seen: list[Any] = []
            client.get_async(path).rawlink(seen.append)
            wait_until(lambda: seen, "the callback")
            return seen[0].get()

        return {
            "get": lambda: client.get(path),
            "get_async": lambda: client.get_async(path).get(timeout=DEADLINE_S),
            "callback": called_back,
            "create": lambda: client.create(f"{path}/a/b", makepath=True),
            "create_async": lambda: client.create_async(f"{path}/a").get(timeout=DEADLINE_S),
            "ensure_path": lambda: client.ensure_path(f"{path}/a"),
            "delete": lambda: client.delete(path, recursive=True),
            "retry": lambda: client.retry(client.get, path),
            "sync": lambda: client.sync(path),
            "transaction": transaction.commit,
            "start": client.start,
            "start_async": client.start_async,
            "restart": client.restart,
            "held lock": lock.acquire,
            "held lock, not blocking": lambda: lock.acquire(blocking=False),
            "release": lock.release,
            "lock": lambda: client.Lock(f"{path}/l").acquire(),
            "read lock": lambda: client.ReadLock(f"{path}/l").acquire(timeout=DEADLINE_S),
            "semaphore": lambda: client.Semaphore(f"{path}/s").acquire(),
            "election": lambda: client.Election(f"{path}/e").run(print),
            "barrier": lambda: client.Barrier(f"{path}/b").wait(),
            "double barrier": lambda: client.DoubleBarrier(f"{path}/d", 2).enter(),
            "counter": lambda: client.Counter(f"{path}/c").value,
            "party": lambda: client.Party(f"{path}/p").join(),
            "queue": lambda: client.Queue(f"{path}/q").get(),
            "locking queue": lambda: client.LockingQueue(f"{path}/k").get(DEADLINE_S),
            "lease": lambda: client.NonBlockingLease(f"{path}/n", timedelta(seconds=1)),
            "data watch": lambda: client.DataWatch(f"{path}/w", print),
            "children watch": lambda: client.ChildrenWatch(path, print),
        }

    def test_every_use_raises(self) -> None:
        uses = self.uses()

        def use_all() -> dict[str, str]:
            return {name: error_of(use) for name, use in uses.items()}

        for name, error in in_child(self, use_all).items():
            with self.subTest(name):
                self.assertIn(f"connected in process {os.getpid()}", error)
                self.assertIn("a client of its own", error)
        self.check_parent()

    def test_it_can_be_stopped(self) -> None:
        """That does nothing: the session is the parent's."""
        ephemeral = self.client.create(f"{self.root}/e", ephemeral=True)

        def stop() -> Any:
            client = self.client
            client.stop()
            client.close()
            member_error = self.raises_as(lambda: client.members["b"].get("/"))
            return [client.state, client.client_state, client.connected, client.client_id, member_error.__name__]

        expected = [KazooState.LOST, KeeperState.CLOSED, False, None, "ConnectionClosedError"]
        self.assertEqual(in_child(self, stop), expected)
        self.assertEqual(self.client.exists(ephemeral).ephemeralOwner, self.number)
        self.check_parent()

    def test_its_sockets_are_closed(self) -> None:
        """Or servers could not see that the parent is gone."""
        self.check_sockets("a", "b", "c")
        self.check_parent()

    def test_one_connection_is_lost(self) -> None:
        """Its socket has been closed before. Those of the others are closed nonetheless."""
        member = self.client.members["b"]
        servers = format_hosts(member.hosts)
        member.set_hosts("127.0.0.1:1")
        member._connection._socket.shutdown(socket.SHUT_RDWR)
        wait_until(lambda: member._connection._link is None, "the connection is lost")
        self.check_sockets("a", "c")
        member.set_hosts(servers)
        self.check_parent()

    def check_sockets(self, *names: str) -> None:
        """A child closes those that lead to these ensembles."""
        mine = {
            f"socket:[{os.fstat(self.client.members[name]._connection._socket.fileno()).st_ino}]" for name in names
        }
        self.assertEqual(sockets() & mine, mine)
        # gevent's os.close closes when its loop runs
        in_child(self, lambda: wait_until(lambda: not sockets() & mine, "no socket of the parent's"))

    def test_a_client_of_its_own(self) -> None:
        hosts, path = self.cluster.hosts, f"{self.root}/child"

        def make() -> Any:
            client = ParKazooClient(hosts, handler=make_handler())
            client.start(DEADLINE_S)
            client.create(path, b"mine", ephemeral=True)
            owner = client.exists(path).ephemeralOwner
            seen = Seen()
            client.get(path, watch=seen)
            client.set(path, b"again")
            seen.wait()
            is_its_own = owner == client.client_id[0]
            client.stop()
            client.close()
            return is_its_own

        self.assertTrue(in_child(self, make))
        self.assertIsNone(self.client.exists(path))
        self.check_parent()

    def test_not_yet_started(self) -> None:
        """What is made before the fork and started after it works: so do servers with workers."""
        client = self.parkazoo(start=False)
        stopped = self.parkazoo()
        stopped.stop()

        def start() -> Any:
            found = []
            for each in (client, stopped):
                each.start(DEADLINE_S)
                found.append(each.exists(self.root) is not None)
                each.stop()
                each.close()
            return found

        self.assertEqual(in_child(self, start), [True, True])
        client.start(DEADLINE_S)
        self.assertIsNotNone(client.exists(self.root))
        self.check_parent()

    def test_while_a_name_is_looked_up(self) -> None:
        """The child asks for itself: no thread in it answers the parent."""
        host, port = "slow.invalid", int(self.cluster.hosts.rpartition(":")[2])
        is_asked, may_answer = self.client.handler.event_object(), self.client.handler.event_object()
        self.addCleanup(may_answer.set)
        parent = os.getpid()

        def answer(*_: Any) -> list[Any]:
            if os.getpid() == parent:
                is_asked.set()
                may_answer.wait(DEADLINE_S)
            return [(socket.AF_INET, 0, 0, "", ("127.0.0.1", port))]

        def start() -> bool:
            client = ParKazooClient(f"{host}:{port}", handler=make_handler())
            client.start(DEADLINE_S)
            is_there = client.exists(self.root) is not None
            client.stop()
            client.close()
            return is_there

        with mock.patch.object(socket, "getaddrinfo", answer):
            asking = self.parkazoo(hosts=f"{host}:{port}", start=False)
            asking.start_async()
            self.assertTrue(is_asked.wait(DEADLINE_S))
            self.assertTrue(in_child(self, start))
            may_answer.set()
            asking.start(DEADLINE_S)
        self.check_parent()

    def test_grandchild(self) -> None:
        def use() -> str:
            return error_of(lambda: self.client.get(self.root))

        self.assertIn(f"process {os.getpid()}", in_child(self, lambda: in_child(self, use)))
        self.check_parent()

    def test_while_much_is_going_on(self) -> None:
        """Threads of the parent may hold any lock when it forks: the child must not wait for one of them."""
        done = self.client.handler.event_object()

        def load() -> None:
            while not done.is_set():
                results = [self.client.create_async(f"{self.root}/n-", sequence=True) for _ in range(20)]
                for result in results:
                    self.client.delete(result.get(timeout=DEADLINE_S))

        workers = [self.client.handler.spawn(load) for _ in range(3)]
        for _ in range(20):
            error = in_child(self, lambda: error_of(lambda: self.client.get(self.root)))
            self.assertIn("a client of its own", error)
        done.set()
        for worker in workers:
            worker.join()
        self.check_parent()


class TestParent(ForkTest):
    timeout_s = SHORT_S

    def test_a_child_that_lives(self) -> None:
        """It outlasts the session timeout, its garbage is collected: the parent's session is none the worse."""
        ephemeral = self.client.create(f"{self.root}/e", ephemeral=True)
        reading, writing = os.pipe()
        pid = fork()
        if not pid:
            try:
                os.close(writing)
                client, self.client = self.client, None
                del client
                gc.collect()
                sleep = make_handler().sleep_func
                sleep(self.timeout_s * 1.5)  # what is left of the parent's greenlets could ping, or reconnect
                os.read(reading, 1)  # until the parent closes its end
            finally:
                os._exit(0)
        os.close(reading)
        xids = [member._connection._xid for member in self.client.members.values()]
        sleep = self.client.handler.sleep_func
        sleep(self.timeout_s * 2)
        self.assertEqual([member._connection._xid for member in self.client.members.values()], xids)
        self.assertEqual(self.client.exists(ephemeral).ephemeralOwner, self.number)
        self.check_parent()
        self.client.stop()
        self.assertIsNone(self.kazoo(self.home(ephemeral).ensemble).exists(self.home(ephemeral).path))
        os.close(writing)
        self.assertEqual(wait_for(pid), 0)

    def test_multiprocessing(self) -> None:
        """As in kazoo's issues 519 and 628."""
        context = multiprocessing.get_context("fork")
        receiving, sending = context.Pipe(duplex=False)
        client, path = self.client, self.root

        def target() -> None:
            sending.send(error_of(lambda: client.get(path)))

        process = context.Process(target=target)
        process.start()
        wait_until(lambda: receiving.poll(0), "the child's answer")
        self.assertIn("a client of its own", receiving.recv())
        wait_until(  # gevent's loop may know of its end before multiprocessing does
            lambda: not process.is_alive() or not Path(f"/proc/{process.pid}").exists(), "the child's end"
        )
        self.check_parent()

    def test_a_child_that_exits(self) -> None:
        """At its exit Python stops the handlers, whose threads it does not have."""
        program = (
            "import os, sys\n"
            "from tests.handlers import make_handler, patch_everything_if_asked\n"
            "patch_everything_if_asked()\n"
            "from parkazoo import ParKazooClient\n"
            "from tests.live.test_client_fork import fork, wait_for\n"
            f"client = ParKazooClient({self.cluster.hosts!r}, handler=make_handler())\n"
            "client.start()\n"
            "pid = fork()\n"
            "if not pid: sys.exit(7)\n"
            "assert wait_for(pid) == 7\n"
            f"assert client.get({self.root!r})\n"
            "client.stop(); client.close(); print('done')\n"
        )
        # not by its exit code, which gevent's loop may take away
        answer = subprocess.run(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, timeout=DEADLINE_S, check=False
        )
        self.assertEqual(answer.stdout, b"done\n")
