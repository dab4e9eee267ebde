"""Keys of a DistributedDict as names of znodes. Pure.

Most keys are their own names. In others, characters that a name cannot have are written as in a URL: ``%`` and two
digits for each byte. Two keys never have one name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

EMPTY = "%"  # the name of the key ""
# A slash; what ZooKeeper refuses in a path, as surrogates also all beyond 16 bits; and what the others stand
# for.
_REFUSED = re.compile("[%/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]")
_BYTES = re.compile("(?:%[0-9A-F]{2})+")
_SURROGATES = "surrogatepass"


def name_of(key: str) -> str:
    """Returns the name of a key's znode. No name begins with a dot, because those are for directories and
    ParKazoo.

    :raises TypeError: the key is no str.
    """
    if not isinstance(key, str):
        raise TypeError(f"keys are str, not {type(key).__name__}: {key!r}")
    name = _REFUSED.sub(lambda found: _escaped(found.group()), key)
    if name.startswith("."):
        name = _escaped(".") + name[1:]
    return name or EMPTY


def key_of(name: str) -> str | None:
    """Returns the key of a name; None if no key has it, because another program made that znode."""
    if "%" not in name:
        return None if name.startswith(".") else name
    if name == EMPTY:
        return ""
    try:
        key = _BYTES.sub(lambda found: _bytes_of(found.group()).decode("utf-8", _SURROGATES), name)
    except UnicodeDecodeError:
        return None
    return key if name_of(key) == name else None


def keys_of(names: Iterable[str]) -> list[str]:
    """Returns the keys among these names."""
    return [key for key in map(key_of, names) if key is not None]


def _escaped(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode("utf-8", _SURROGATES))


def _bytes_of(escaped: str) -> bytes:
    return bytes.fromhex(escaped.replace("%", ""))
