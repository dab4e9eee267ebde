"""Delays what an emulated host sends: ``python delay.py PORT WAYS``, in the switch's network namespace.

WAYS is JSON: of receivers, by their MAC addresses, delay and jitter in seconds, and bytes/s (0: not limited). That
of ``""`` holds for all others.

Not every kernel has netem. So the host's link ends here in place of the bridge, and a TAP device called PORT-slow
goes to the bridge instead. It runs until that device is removed.
"""

import contextlib
import errno
import fcntl
import heapq
import json
import os
import random
import select
import socket
import struct
import sys
import time

TUN = "/dev/net/tun"
TUNSETIFF = 0x400454CA  # linux/if_tun.h
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
ETH_P_ALL = 0x0003  # linux/if_ether.h
SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23  # linux/if_packet.h
SO_RCVBUFFORCE = 33
BUFFER_BYTES = 8 << 20
FRAME_BYTES = 1 << 16
QUEUE_BYTES = 1 << 20  # of a way whose rate is limited
MAC_BYTES = 6  # a frame begins with its receiver's


def open_tap(name: str) -> int:
    tap = os.open(TUN, os.O_RDWR)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return tap


def open_wire(port: str) -> socket.socket:
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    wire.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    wire.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    wire.bind((port, 0))
    return wire


class Way:
    """To one receiver, or to all that have none of their own. Frames keep their order."""

    def __init__(self, delay_s: float, jitter_s: float, rate_bytes_s: float) -> None:
        self._delay_s = delay_s
        self._jitter_s = jitter_s
        self._rate_bytes_s = rate_bytes_s
        self._free_s = 0.0
        self._last_s = 0.0

    def due_s(self, now_s: float, size: int) -> float | None:
        """When a frame that comes now arrives; None: the queue is full, and it is lost."""
        if self._rate_bytes_s:
            begin_s = max(now_s, self._free_s)
            if (begin_s - now_s) * self._rate_bytes_s > QUEUE_BYTES:
                return None
            now_s = self._free_s = begin_s + size / self._rate_bytes_s
        due_s = now_s + self._delay_s + random.uniform(-self._jitter_s, self._jitter_s)
        self._last_s = max(self._last_s, due_s)
        return self._last_s


def relay(tap: int, wire: socket.socket, ways: dict[bytes, Way]) -> None:
    frames: list[tuple[float, int, bytes]] = []
    number, others = 0, ways[b""]
    while True:
        wait_s = max(0.0, frames[0][0] - time.monotonic()) if frames else None
        ready, _, _ = select.select([tap, wire.fileno()], [], [], wait_s)
        if wire.fileno() in ready:
            frame = wire.recv(FRAME_BYTES)
            due_s = ways.get(frame[:MAC_BYTES], others).due_s(time.monotonic(), len(frame))
            if due_s is not None:
                number += 1
                heapq.heappush(frames, (due_s, number, frame))
        if tap in ready:
            frame = os.read(tap, FRAME_BYTES)
            with contextlib.suppress(OSError):  # a full queue loses frames, as a switch does
                wire.send(frame)
        while frames and frames[0][0] <= time.monotonic():
            write_frame(tap, heapq.heappop(frames)[2])


def write_frame(tap: int, frame: bytes) -> None:
    """It is lost if the device is not up yet."""
    try:
        os.write(tap, frame)
    except OSError as error:
        if error.errno != errno.EIO:
            raise


def main(port: str, text: str) -> None:
    ways = {bytes.fromhex(mac.replace(":", "")): Way(*each) for mac, each in json.loads(text).items()}
    tap, wire = open_tap(f"{port}-slow"), open_wire(port)
    print("ready", flush=True)
    try:
        relay(tap, wire, ways)
    except OSError as error:
        if error.errno != errno.EBADFD:  # the device was removed
            raise


if __name__ == "__main__":
    main(*sys.argv[1:])
