"""The links of emulated hosts: cut, limited, lossy, slow."""

from __future__ import annotations

import ctypes
import fcntl
import json
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from bench.hosts.delay import QUEUE_BYTES
from bench.hosts.dropping import PARTS
from bench.hosts.emulation import DATA, mac_of
from bench.hosts.namespaces import DISABLED, FORWARDING, inside, network_of, run, switch_of
from bench.lab import LabError, NotPossible, Way

DEVICE = "eth0"
BURST_BYTES = 16_384  # at least; and what comes in ten milliseconds, because some kernels' clocks tick no faster
BURST_S = 0.01
LOSS = "parkazoo-loss"  # a table of nftables
DELAY = Path(__file__).with_name("delay.py")
SIOCETHTOOL, ETHTOOL_STXCSUM = 0x8946, 0x17  # linux/sockios.h, linux/ethtool.h


class Links:
    """
    :param emulation: its name.
    """

    def __init__(self, emulation: str) -> None:
        self._emulation = emulation
        self._switch = switch_of(emulation)
        self._relays: dict[str, subprocess.Popen[str]] = {}

    def cut(self, host: str) -> None:
        """Nothing comes or goes. The host keeps its carrier, so neither side notices the cut."""
        self._set_port(host, DISABLED)

    def mend(self, host: str) -> None:
        self._set_port(host, FORWARDING)

    def _set_port(self, host: str, state: str) -> None:
        port = _slow(host) if host in self._relays else host
        run("bridge", "-n", self._switch, "link", "set", "dev", port, "state", state)

    def limit(self, host: str, rate_bytes_s: float) -> None:
        """What it sends, and what it is sent."""
        if rate_bytes_s < 1:
            raise LabError(f"a bandwidth must be at least 1 byte/s, not {rate_bytes_s:g}")
        burst = max(BURST_BYTES, int(rate_bytes_s * BURST_S))
        shape = ["rate", f"{int(rate_bytes_s * 8)}bit", "burst", str(burst), "limit", str(QUEUE_BYTES + burst)]
        for network, device in self._ends(host):
            run("tc", "-n", network, "qdisc", "replace", "dev", device, "root", "tbf", *shape)

    def _ends(self, host: str) -> list[tuple[str, str]]:
        return [(network_of(self._emulation, host), DEVICE), (self._switch, host)]

    def lose(self, host: str, share: float) -> None:
        """Of the packets that come in, that share at random."""
        if not 0 <= share <= 1:
            raise LabError(f"a share is 0 to 1, not {share:g}")
        self._lose_none(host)
        chance = f"numgen random mod {PARTS} < {int(share * PARTS)}" if share < 1 else ""
        rule = f"iifname {DEVICE} {chance} drop"
        self._nft(host, f"table inet {LOSS} {{ chain in {{ type filter hook input priority 0; {rule}; }}; }}")

    def _lose_none(self, host: str) -> None:
        self._nft(host, f"table inet {LOSS} {{}}; delete table inet {LOSS}")

    def _nft(self, host: str, rules: str) -> None:
        run("ip", "netns", "exec", network_of(self._emulation, host), "nft", rules)

    def delay(self, host: str, ways: Mapping[str, Way]) -> None:
        """What it sends. :param ways: as `bench.lab.Faults.delay` takes them."""
        for way in ways.values():
            if way.delay_s < 0 or not 0 <= way.jitter_s <= way.delay_s:
                raise LabError(f"a delay is at least 0 s and its jitter, not {way.delay_s:g} and {way.jitter_s:g}")
        self._end_delay(host)
        of_macs = {mac_of(receiver) if receiver else "": way for receiver, way in {"": Way(), **ways}.items()}
        relay = subprocess.Popen(
            ["ip", "netns", "exec", self._switch, sys.executable, "-I", str(DELAY), host, json.dumps(of_macs)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # it ends with its device
        )
        assert relay.stdout is not None
        if not relay.stdout.readline():
            raise NotPossible(f"packets cannot be delayed here: {relay.communicate()[1].strip()}")
        self._relays[host] = relay
        self._offload(host, is_on=False)
        run("ip", "-n", self._switch, "link", "set", host, "nomaster")
        run("ip", "-n", self._switch, "link", "set", _slow(host), "master", DATA, "up")

    def _end_delay(self, host: str) -> None:
        if host in self._relays:
            relay = self._relays.pop(host)
            if relay.poll() is not None:
                raise LabError(f"what delayed the packets of {host} has ended: {relay.communicate()[1].strip()}")
            run("ip", "-n", self._switch, "link", "delete", _slow(host))
            relay.communicate()
            run("ip", "-n", self._switch, "link", "set", host, "master", DATA)
            self._offload(host, is_on=True)

    def _offload(self, host: str, is_on: bool) -> None:
        """Whether frames may leave it as they do between namespaces: without sums, longer than a link carries."""
        inside(network_of(self._emulation, host), partial(_offload, is_on))

    def lift(self, host: str) -> None:
        """Undo `limit`, `lose` and `delay`."""
        for network, device in self._ends(host):
            if " tbf " in run("tc", "-n", network, "qdisc", "show", "dev", device, "root"):
                run("tc", "-n", network, "qdisc", "delete", "dev", device, "root")
        self._lose_none(host)
        self._end_delay(host)


def _slow(host: str) -> str:
    return f"{host}-slow"


def _offload(is_on: bool) -> None:
    value = ctypes.create_string_buffer(struct.pack("II", ETHTOOL_STXCSUM, is_on))
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCETHTOOL, struct.pack("16sP16x", DEVICE.encode(), ctypes.addressof(value)))
