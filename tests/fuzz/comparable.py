"""What a call was answered, as it compares on two sides."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kazoo.protocol.states import ZnodeStat
from kazoo.security import ACL

from tests.fuzz.cases import Call

UUID = re.compile("[0-9a-f]{32}")


def in_order(call: Call, answer: Any) -> Any:
    """A plain answer; names are listed in no order."""
    if call.name != "get_children" or not isinstance(answer, list):
        return answer
    return [sorted(answer[0]), answer[1]] if call.args.get("include_data") else sorted(answer)


def plain(value: Any, owners: Mapping[int, str], *, has_moves: bool = False) -> Any:
    """
    :param has_moves: znodes move, and the zxids of their last changes are not carried.
    """
    if isinstance(value, ZnodeStat):
        return {
            "version": value.version,
            "cversion": value.cversion,
            "aversion": value.aversion,
            "numChildren": value.numChildren,
            "dataLength": value.dataLength,
            "owner": owners.get(value.ephemeralOwner, "unknown") if value.ephemeralOwner else "",
            "is as created": None if has_moves else value.czxid == value.mzxid,
        }
    if isinstance(value, Exception):
        return f"raises {type(value).__name__}"
    if isinstance(value, bytes):
        return "b:" + UUID.sub("uuid", value.decode())
    if isinstance(value, str):
        return UUID.sub("uuid", value)
    if isinstance(value, ACL):
        return f"{value.perms}:{value.id.scheme}:{value.id.id}"
    if isinstance(value, (list, tuple)):
        return [plain(each, owners, has_moves=has_moves) for each in value]
    return value
