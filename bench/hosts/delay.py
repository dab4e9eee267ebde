"""Delays all that an emulated host sends: ``python delay.py PORT DELAY_S``, in the switch's network namespace.

Not every kernel has netem. So the host's link ends here in place of the bridge, and a TAP device called PORT-slow
goes to the bridge instead. It runs until that device is removed.
"""

import contextlib
import errno
import fcntl
import os
import select
import socket
import struct
import sys
import time
from collections import deque

TUN = "/dev/net/tun"
TUNSETIFF = 0x400454CA  # linux/if_tun.h
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
ETH_P_ALL = 0x0003  # linux/if_ether.h
SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23  # linux/if_packet.h
SO_RCVBUFFORCE = 33
BUFFER_BYTES = 8 << 20
FRAME_BYTES = 1 << 16


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


def relay(tap: int, wire: socket.socket, delay_s: float) -> None:
    frames: deque[tuple[float, bytes]] = deque()
    while True:
        wait_s = max(0.0, frames[0][0] - time.monotonic()) if frames else None
        ready, _, _ = select.select([tap, wire.fileno()], [], [], wait_s)
        if wire.fileno() in ready:
            frames.append((time.monotonic() + delay_s, wire.recv(FRAME_BYTES)))
        if tap in ready:
            frame = os.read(tap, FRAME_BYTES)
            with contextlib.suppress(OSError):  # a full queue loses frames, as a switch does
                wire.send(frame)
        while frames and frames[0][0] <= time.monotonic():
            os.write(tap, frames.popleft()[1])


def main(port: str, delay_s: str) -> None:
    tap, wire = open_tap(f"{port}-slow"), open_wire(port)
    print("ready", flush=True)
    try:
        relay(tap, wire, float(delay_s))
    except OSError as error:
        if error.errno not in (errno.EBADFD, errno.EIO):  # the device was removed
            raise


if __name__ == "__main__":
    main(*sys.argv[1:])
