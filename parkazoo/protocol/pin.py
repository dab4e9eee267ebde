"""What a pin holds: JSON, in which later versions may write more."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import NamedTuple

from parkazoo.protocol.cluster_map import NAME
from parkazoo.protocol.placement import GENERATION
from parkazoo.types.znodes import ZnodeStat


class Pin(NamedTuple):
    """The fence as it was before the pin was made, and where the children are.

    :param ctime: when the fence was created, in ms since 1970.
    :param version: the fence's version.
    :param on: the name of the ensemble that holds the children; empty if `is_native`.
    :param is_native: the children are children of the home.
    :param generation: the name of the move that has made their mirror; empty if none has.
    """

    ctime: int
    version: int
    on: str = ""
    is_native: bool = False
    generation: str = ""


NATIVE_PIN = json.dumps({"native": True}).encode()


def encode_pin(fence: Pin | ZnodeStat, on: str, generation: str = "") -> bytes:
    """:param fence: its stat, by which fsck distinguishes a lost mirror from one that never was."""
    document = {"fence": [fence.ctime, fence.version], "on": on}
    return json.dumps(document | ({"generation": generation} if generation else {})).encode()


def decode_pin(data: bytes) -> Pin | None:
    """What a pin holds; None if ParKazoo has not written it."""
    with suppress(ValueError, OverflowError, RecursionError, TypeError, KeyError, AttributeError):
        content = json.loads(data)
        if content.get("native") is True:
            return Pin(0, 0, is_native=True)
        ctime, version = content["fence"]
        generation = content.get("generation", "")
        if NAME.fullmatch(content["on"]) and (generation == "" or GENERATION.fullmatch(generation)):
            return Pin(int(ctime), int(version), content["on"], generation=generation)
    return None
