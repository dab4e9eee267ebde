"""A network that this process has for itself, and in it a machine for each server, whose cable can be pulled.

The network namespaces have no names: they end with the processes in them.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType

from bench.hosts.namespaces import CLONE_NEWNET, DISABLED, FORWARDING
from parkazoo.local import Machine

TOOLS = ("ip", "bridge", "unshare", "nsenter")
CLONE_NEWUSER = 0x10000000  # linux/sched.h
BRIDGE = "switch"
BRIDGE_MAC = "02:00:00:00:00:01"  # else it would change with what is plugged in
ADDRESS = "10.77.{}.{}"
OWN_ADDRESS = ADDRESS.format(0, 1)
CLIENTS = "clients"  # this process and its children, but for those that have a machine of their own
PREFIX = 16
LOSS, PARTS = "loss", 1000  # a table of nftables; a share is so many parts
NOWHERE = "02:00:00:00:00:ff"  # no machine has it


class NetworkError(Exception):
    """There can be no network of one's own here. The message says why."""


class Network:
    """A switch with one cable for each machine. This process is connected to it too, and so are its children.

    To be made before there is any other thread. What was reachable before (127.0.0.1 too) is not any more.

    :raises NetworkError: if this machine does not let us.
    """

    def __init__(self) -> None:
        if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
            raise NetworkError(f"there is no {missing[0]}")
        _leave_networks()
        _run("ip", "link", "set", "lo", "up")
        _run("ip", "link", "add", BRIDGE, "type", "bridge")
        _run("ip", "link", "set", BRIDGE, "address", BRIDGE_MAC, "up")
        _run("ip", "address", "add", f"{OWN_ADDRESS}/{PREFIX}", "dev", BRIDGE)
        self._holders: dict[str, subprocess.Popen[bytes]] = {}
        self._machines: dict[str, Machine] = {}

    def __enter__(self) -> Network:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for holder in self._holders.values():
            holder.communicate()

    def machine_of(self, server: str) -> Machine:
        """A new machine, plugged in. It is there as long as this process.

        :param server: ``"b3"``.
        """
        # cat holds the namespace; it ends when its input does
        holder = subprocess.Popen(
            ["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        assert holder.stdin is not None
        assert holder.stdout is not None
        self._holders[server] = holder
        holder.stdin.write(b"\n")
        holder.stdout.read(1)  # so the namespace is there
        address = ADDRESS.format(ord(server[0]) - ord("a") + 1, server[1:])
        inside = ("nsenter", f"--net=/proc/{holder.pid}/ns/net", "--")
        _run("ip", "link", "add", server, "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
        _run("ip", "link", "set", server, "master", BRIDGE, "up")
        _run(*inside, "ip", "link", "set", "lo", "up")
        _run(*inside, "ip", "address", "add", f"{address}/{PREFIX}", "dev", "eth0")
        _run(*inside, "ip", "link", "set", "eth0", "up")
        self._machines[server] = Machine(address, inside)
        return self._machines[server]

    def cut(self, server: str) -> None:
        """From now on nothing reaches the machine or comes from it; no connection is closed."""
        _run("bridge", "link", "set", "dev", server, "state", DISABLED)

    def mend(self, server: str) -> None:
        _run("bridge", "link", "set", "dev", server, "state", FORWARDING)

    def hush(self, sender: str, receiver: str) -> None:
        """From now on nothing that the one machine sends reaches the other, and no connection is closed.

        :param sender: a server, or CLIENTS; `receiver` too.
        """
        to = ("lladdr", NOWHERE, "dev", _device(sender), "nud", "permanent")
        _run(*self._inside(sender), "ip", "neigh", "replace", self._address(receiver), *to)

    def unhush(self, sender: str, receiver: str) -> None:
        """What :meth:`hush` has done."""
        _run(*self._inside(sender), "ip", "neigh", "del", self._address(receiver), "dev", _device(sender))

    @contextmanager
    def hushed(self, ways: Sequence[tuple[str, str]]) -> Iterator[None]:
        """
        :param ways: sender and receiver of each.
        """
        with ExitStack() as stack:
            for way in ways:
                self.hush(*way)
                stack.callback(self.unhush, *way)
            yield

    @property
    def no_loss(self) -> str:
        """Why packets cannot be dropped at random; empty if they can."""
        return "" if shutil.which("nft") else "there is no nft"

    @contextmanager
    def lossy(self, ways: Sequence[tuple[str, str]], share: float) -> Iterator[None]:
        """Of the packets on these ways, that share is dropped at random."""
        with ExitStack() as stack:
            for receiver in sorted({receiver for _, receiver in ways}):
                senders = ", ".join(self._address(sender) for sender, to in ways if to == receiver)
                chance = f"numgen random mod {PARTS} < {int(PARTS * share)}"
                rule = f"ip saddr {{ {senders} }} {chance} drop"
                nft = (*self._inside(receiver), "nft")
                _run(*nft, f"table ip {LOSS} {{ chain in {{ type filter hook input priority 0; {rule}; }}; }}")
                stack.callback(_run, *nft, f"delete table ip {LOSS}")
            yield

    def _inside(self, name: str) -> tuple[str, ...]:
        """What leads into that machine."""
        return () if name == CLIENTS else tuple(self._machines[name].argv)

    def _address(self, name: str) -> str:
        return OWN_ADDRESS if name == CLIENTS else self._machines[name].address


def _device(name: str) -> str:
    return BRIDGE if name == CLIENTS else "eth0"


@contextmanager
def network_meanwhile() -> Iterator[Network]:
    """As a Network, but for this thread alone, and what it starts: afterwards it has the network of before.

    :raises NetworkError: as a Network; also for others than root, who cannot come back.
    """
    if os.geteuid():
        raise NetworkError("only root comes back from a network")
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        with Network() as network:
            yield network
    finally:
        ctypes.CDLL(None).setns(before, CLONE_NEWNET)
        os.close(before)


def both_ways(one: str, others: Iterable[str]) -> list[tuple[str, str]]:
    """Between the one and each of the others."""
    return [way for other in others for way in ((one, other), (other, one))]


def _leave_networks() -> None:
    libc = ctypes.CDLL(None)
    uid, gid = os.geteuid(), os.getegid()
    if libc.unshare(CLONE_NEWNET) == 0:
        return
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:  # where users may be root among themselves
        raise NetworkError("this user may make no network namespaces")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


def _run(*command: str) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise NetworkError(f"{' '.join(command)}: {ended.stderr.strip()}")
